"""Processors, memory and signals of this process; child processes with a time limit, and the lookup of Java."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from kraftcheck.spec.errors import InputError

LEAST_JAVA_VERSION = 17
MEMORY_SHARE = 0.6  # of the machine's memory, for a search without `--memory`


def default_worker_count() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def jdk_program_and_lookup_place(name: str) -> tuple[Path | None, str]:
    """Return the path of a JDK program (None if missing), and the place of the lookup for messages."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(str(Path(home, "bin", name)) if home else name)
    return (None if found is None else Path(found)), (f"JAVA_HOME ({home})" if home else "the PATH")


def java_version(program: Path) -> int | None:
    """Return the major version of a JDK program; None if it prints none."""
    done = run_program([str(program), "-version"], patience=60)
    match = re.search(r"(?:version \"|javac )(?:1\.)?(\d+)", done.stderr + done.stdout)
    return None if match is None else int(match[1])


def run_program(command: Sequence[str], patience: float, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a program; at a timeout or an interruption kill it with its child processes."""
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
    except OSError as error:
        raise InputError(f"{command[0]}: cannot be started: {error.strerror}") from None
    try:
        out, said = process.communicate(stdin, timeout=patience)
    except subprocess.TimeoutExpired:
        raise InputError(f"{command[0]}: did not end within {patience:.0f} s") from None
    finally:
        kill_process_session(process)
    return subprocess.CompletedProcess(command, process.returncode, out, said)


def die_with_parent() -> None:
    """End this process after its parent has ended, even by SIGKILL: no process reads its results then."""
    from multiprocessing import parent_process  # slow to import

    parent = parent_process()
    assert parent is not None

    def await_end() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=await_end, daemon=True).start()


def kill_process_session(process: subprocess.Popen[str]) -> None:
    """Kill a process that was started in its own session, with its child processes."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def kill_children_on_interrupt(unless: Callable[[], object]) -> Iterator[None]:
    """If the block is interrupted, kill the processes that it has started, unless a condition holds then."""
    before = _child_processes()
    try:
        yield
    except KeyboardInterrupt:
        for child in () if unless() else _child_processes() - before:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        raise


def _child_processes() -> set[int]:
    found: set[int] = set()
    for task in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # the thread has ended
            found.update(map(int, task.read_text().split()))
    return found


INTERRUPTION_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that ask a search to stop: Ctrl-C, the system, a closed terminal."""

STOP_TIMEOUT_SECONDS = 3
"""Seconds for the search to stop by itself; then Ctrl-C prints a message, and other signals raise an exception."""

GRACE_SECONDS = 4.5
"""Seconds from SIGTERM, SIGHUP or a second Ctrl-C to the end of the process; containers allow ten."""

EXIT_INTERRUPTED = 130


class InterruptHandler:
    """Records the first Ctrl-C, SIGTERM or SIGHUP; a second one raises KeyboardInterrupt at once.

    If the search does not end within `STOP_TIMEOUT_SECONDS`, as with an endless action, Ctrl-C prints a message.
    SIGTERM and SIGHUP raise KeyboardInterrupt then, since a second one may never come.

    Outside the main thread, where Python allows no signal handlers, the context does nothing. Ignored signals stay
    ignored.
    """

    def __init__(self, hurry: Callable[[], None] | None = None) -> None:
        self.asked = False
        self._hurry = hurry
        self._before: dict[int, Any] = {}
        self._over = threading.Event()

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            heeded = [
                number for number in INTERRUPTION_SIGNALS if signal.getsignal(number) not in (signal.SIG_IGN, None)
            ]
            self._before = {number: signal.signal(number, self._note) for number in heeded}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        threading.Thread(target=self._urge, args=(number,), daemon=True).start()
        if self._hurry is not None:
            threading.Thread(target=self._hurry, daemon=True).start()

    def _urge(self, number: int) -> None:
        if self._over.wait(STOP_TIMEOUT_SECONDS):
            return
        if number == signal.SIGINT:
            what = "interrupted: finishing the current work; Ctrl-C again ends it at once, and keeps less"
            print(f"\n{what}", file=sys.stderr, flush=True)
        elif (main := threading.main_thread().ident) is not None:
            signal.pthread_kill(main, number)


class EndlessCallInterrupt(KeyboardInterrupt):
    """Raised in a call of the model's code that goes on after the time limit."""


class EndlessCallWatchdog:
    """Ends a call of the model's code that goes on after a time limit; engines check the limit only between calls.

    After the limit a timer looks for a call that it has seen before. Outside the main thread the context does nothing.
    """

    PERIOD_SECONDS = 2.0

    def __init__(self, seconds: float | None, files: Callable[[], frozenset[str]], is_over: Callable[[], bool]) -> None:
        self.note: str | None = None
        self._seconds, self._files, self._is_over = seconds, files, is_over
        self._seen: FrameType | None = None  # the call at the last look
        self._outside: FrameType | None = None  # the frame that runs the search
        self._is_set = False

    def __enter__(self) -> Self:
        if self._seconds is None or threading.current_thread() is not threading.main_thread():
            return self
        if signal.getsignal(signal.SIGALRM) is signal.SIG_DFL:
            self._outside, self._is_set = sys._getframe(1), True
            signal.signal(signal.SIGALRM, self._look)
            signal.setitimer(signal.ITIMER_REAL, max(self._seconds, 1e-3), self.PERIOD_SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._is_set:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
        self._seen = self._outside = None

    def _look(self, number: int, frame: FrameType | None) -> None:
        files, call = self._files(), None
        while frame is not None and frame is not self._outside:
            call = frame if frame.f_code.co_filename in files else call
            frame = frame.f_back
        if call is not None and call is self._seen and self._is_over():
            code = call.f_code
            self.note = f"the time limit ended a call of {code.co_name} ({code.co_filename}:{call.f_lineno})"
            raise EndlessCallInterrupt
        self._seen = call


@contextmanager
def end_soon_after_signal() -> Iterator[None]:
    """Ensure that SIGTERM, SIGHUP or a second Ctrl-C ends the process within `GRACE_SECONDS` seconds.

    Python calls signal handlers only between two bytecodes of the main thread. A separate thread reads the signals from
    a pipe, so it ends the process even during compilation or a long call of compiled code.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    asked = threading.Event()

    def watch() -> None:
        interrupts = 0
        while number := os.read(reading, 1):
            interrupts += number[0] == signal.SIGINT
            if number[0] in (signal.SIGTERM, signal.SIGHUP) or interrupts > 1:
                asked.set()
                threading.Event().wait(GRACE_SECONDS)
                with suppress(OSError):
                    os.write(2, b"interrupted: the current work did not end in time\n")
                os._exit(EXIT_INTERRUPTED)
        os.close(reading)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))  # a child's signals must not arrive here
    try:
        yield
    finally:
        if not asked.is_set():  # else the thread must still end the process in time
            signal.set_wakeup_fd(-1)
            os.close(writing)
            thread.join(0.1)  # briefly: a signal may have come just now


_CGROUP_LIMIT_FILES = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def machine_memory_bytes() -> int:
    """Return the memory of this machine or container in bytes."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _CGROUP_LIMIT_FILES:
        try:
            total = min(total, int(path.read_text()))
        except (OSError, ValueError):  # not Linux, or "max"
            continue
    return total


def default_memory_bytes() -> int:
    """Return the default memory of a search in bytes."""
    return int(MEMORY_SHARE * machine_memory_bytes())

"""SIGTERM ends a command within five seconds whatever runs, and Ctrl-C is no traceback from the first import on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kraftcheck import processes
from kraftcheck.explorer.kernel_compilation import compiled_code_folder
from kraftcheck.processes import kill_children_on_interrupt

SECONDS = 5.0
PROTOCOL = """
import ctypes
from kraftcheck import *

LIBRARY, MUTEX = ctypes.CDLL(None), ctypes.create_string_buffer(64)  # all zero: not locked yet


class Node(Record):
    id: int


class Nothing(Record):
    pass


class Slow(Protocol):
    def initial(self):
        yield self.start([Node(1)], Nothing())

    @internal
    def step(self, me: Node) -> Steps:
        print("now", flush=True)
        {wait}
        yield become(me)
"""


@contextmanager
def running(*words: str | Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "kraftcheck", *map(str, words)]
    pipe = subprocess.PIPE
    ignored = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # a child of `nohup pytest` would ignore it too
    with subprocess.Popen(
        command, stdout=pipe, stderr=subprocess.STDOUT, text=True, env=os.environ | environment
    ) as process:
        signal.signal(signal.SIGHUP, ignored)
        try:
            yield process
        finally:
            process.kill()


def ended_by(process: subprocess.Popen[str], number: signal.Signals) -> str:
    """Send a signal; return what the process prints until its end, which comes in time with exit code 130."""
    began = time.monotonic()
    process.send_signal(number)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 130, printed
    assert time.monotonic() - began < SECONDS
    assert "Traceback" not in printed
    return printed


def await_line(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdout is not None
    while text not in (line := process.stdout.readline()):
        assert line, f"ended before {text!r}"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_an_action_that_loops(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "slow.py").write_text(PROTOCOL.format(wait="while True: pass"))
    with running("check", tmp_path / "slow.py:Slow", "--engine", "reference", "--quiet") as process:
        await_line(process, "now")
        ended_by(process, number)


@pytest.mark.slow
@pytest.mark.kernel
def test_an_action_that_loops_in_the_table_engine(tmp_path: Path) -> None:
    """Its search notes the signal; the result so far is reported."""
    (tmp_path / "slow.py").write_text(PROTOCOL.format(wait="while True: pass"))
    with running("check", tmp_path / "slow.py:Slow", "--engine", "tables", "--quiet") as process:
        await_line(process, "now")
        assert "interrupted; 1 distinct states" in ended_by(process, signal.SIGTERM)


@pytest.mark.slow
def test_a_long_call_of_compiled_code(tmp_path: Path) -> None:
    """Python runs no signal handler meanwhile."""
    wait = "lock = LIBRARY.pthread_mutex_lock; lock(MUTEX); lock(MUTEX)"
    (tmp_path / "slow.py").write_text(PROTOCOL.format(wait=wait))
    with running("check", tmp_path / "slow.py:Slow", "--engine", "reference", "--quiet") as process:
        await_line(process, "now")
        time.sleep(0.5)  # until the call has begun
        assert "did not end in time" in ended_by(process, signal.SIGTERM)


@pytest.mark.slow
def test_while_the_kernel_is_compiled(tmp_path: Path) -> None:
    with running("check", "lock-service", "--engine", "tables", NUMBA_CACHE_DIR=str(tmp_path)) as process:
        await_line(process, "compiling the kernel")
        time.sleep(0.2)
        ended_by(process, signal.SIGTERM)


DROPPED = """
import sys
from numba.core.codegen import JITCodeLibrary

keep, pending = JITCodeLibrary._object_compiled_hook, [KeyboardInterrupt]

def hook(module, code):
    library = getattr(module, "_CPUCodeLibrary__library", None)
    if pending and library is not None and library._object_caching_enabled:
        raise pending.pop()
    keep(module, code)

JITCodeLibrary._object_compiled_hook = hook
from kraftcheck.__main__ import main

code = main()
assert not pending
sys.exit(code)
"""


@pytest.mark.slow
@pytest.mark.kernel
def test_ctrl_c_while_llvm_hands_over_machine_code(tmp_path: Path) -> None:
    """Python drops it in that callback, and the code does not reach Numba's cache.

    The cache lacks the code of one function, which the search compiles. The search goes on for long after that.
    """
    shutil.copytree(Path(compiled_code_folder()).parent, tmp_path / "kraftcheck")
    for path in tmp_path.rglob("*.intern_written_control_row-*"):
        path.unlink()
    command = [sys.executable, "-c", DROPPED, "check", "reconfig", "--config", "smoke", "--quiet"]
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert done.stdout.startswith("INCOMPLETE: ") or "\nINCOMPLETE: " in done.stdout


def test_ctrl_c_whose_end_takes_long_is_noted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(processes, "STOP_TIMEOUT_SECONDS", 0)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
    with processes.InterruptHandler():
        signal.raise_signal(signal.SIGINT)
        until, printed = time.monotonic() + 60, ""
        while not printed and time.monotonic() < until:
            time.sleep(0.01)
            printed = capsys.readouterr().err
    signal.signal(signal.SIGINT, before)
    assert printed.startswith("\ninterrupted: finishing the current work; Ctrl-C again ends it at once")


INTERRUPTED_IMPORT = """
import os, runpy, signal, sys

_, module, *words = sys.argv
signal.signal(getattr(signal, os.environ["SIGNAL"]), signal.SIG_DFL)  # nohup and a shell's background ignore some
signal.signal(signal.SIGINT, signal.default_int_handler)

class Interrupting:
    def find_spec(self, name, *_):
        if name == module:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), getattr(signal, os.environ["SIGNAL"]))

sys.meta_path.insert(0, Interrupting())
sys.argv = ["kraftcheck", "check", "lock-service", *words]
runpy.run_module("kraftcheck", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("module", ["kraftcheck.cli", "argparse", "kraftcheck.commands.check", "kraftcheck.reporting"])
def test_signals_while_modules_are_imported(module: str, number: str) -> None:
    """`runpy` imports some of the standard library before; `argparse` is among what it does not.

    The interruption waits for the end of the import. By then the search may have begun.
    """
    command = [sys.executable, "-c", INTERRUPTED_IMPORT, module, "--engine", "reference"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"SIGNAL": number})
    assert done.returncode == 130
    has_begun = "INCOMPLETE: nothing is violated so far, interrupted" in done.stdout
    assert done.stderr == ("" if has_begun else "interrupted\n")


@pytest.mark.slow
@pytest.mark.kernel
def test_ctrl_c_while_numpy_is_imported(tmp_path: Path) -> None:
    """Its compiled part cannot be loaded a second time, so the report must do without it."""
    command = [sys.executable, "-c", INTERRUPTED_IMPORT, "numpy._core.printoptions"]
    command += ["--engine", "tables", "--json", str(tmp_path / "result.json")]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"SIGNAL": "SIGINT"})
    assert (done.returncode, done.stderr) == (130, "")
    assert json.loads((tmp_path / "result.json").read_text())["limit"] == "interrupted"


IMPORTING = """
import sys
sys.path.insert(0, sys.argv[1])
import kraftcheck.cli as cli
from kraftcheck.__main__ import main
cli.import_module = lambda name: __import__("interrupted")
sys.argv[1:] = ["warm"]
sys.exit(main())
"""
INTERRUPT = "import os, signal, time\ndef interrupt(): os.kill(os.getpid(), signal.SIGINT)\n"


@pytest.mark.parametrize(
    "ignoring",
    [
        "try: interrupt()\nexcept BaseException: pass\n",
        "class Name:\n    def __set_name__(self, owner, name): interrupt()\nclass A:\n    a = Name()\n",
    ],
)
def test_ctrl_c_that_an_import_would_lose_is_delayed(tmp_path: Path, ignoring: str) -> None:
    """NumPy's random generators ignore it while they are initialized, and the search would go on."""
    (tmp_path / "interrupted.py").write_text(INTERRUPT + ignoring + "def add_arguments(*_): time.sleep(20)\n")
    command = [sys.executable, "-c", IMPORTING, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=15)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


@pytest.mark.slow
def test_ctrl_c_ends_an_endless_import(tmp_path: Path) -> None:
    (tmp_path / "interrupted.py").write_text(INTERRUPT + "interrupt()\nwhile True: time.sleep(0.1)\n")
    command = [sys.executable, "-c", IMPORTING, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=15)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_ctrl_c_that_python_ignores_is_sent_again() -> None:
    """Python ignores exceptions in destructors, and so in a callback of the import system."""
    code = (
        "import sys, time, kraftcheck.cli as cli\nfrom kraftcheck.__main__ import main\n"
        "class Ignoring:\n    def __del__(self): raise KeyboardInterrupt\n"
        "def slow(name):\n    Ignoring()\n    time.sleep(60)\n"
        "cli.import_module = slow; sys.argv[1:] = ['warm']; sys.exit(main())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_a_signal_at_the_very_end_delays_nothing(tmp_path: Path) -> None:
    """The thread that counts the seconds may see it only once the command is over."""
    code = (
        "import os, signal, sys, time\nfrom kraftcheck.processes import end_soon_after_signal\n"
        "signal.signal(signal.SIGTERM, lambda *_: None)\nsys.setswitchinterval(60)\n"
        "with end_soon_after_signal():\n    os.kill(os.getpid(), signal.SIGTERM)\n"
    )
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert time.monotonic() - began < SECONDS - 1


@pytest.mark.parametrize("known", [False, True])
def test_what_an_interrupted_block_has_started_is_killed(*, known: bool) -> None:
    """So is the JVM while Spark starts: Python does not know it yet, and it would never end."""

    def interrupted() -> None:
        with kill_children_on_interrupt(unless=lambda: known):
            started.append(subprocess.Popen(["sleep", "60"]))
            raise KeyboardInterrupt

    started = [subprocess.Popen(["sleep", "60"])]
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
        if not known:
            assert started[1].wait(10) == -signal.SIGKILL
        assert [process.poll() for process in started] == [None, None if known else -signal.SIGKILL]
    finally:
        for process in started:
            process.kill()
            process.wait()


ENDLESS = """
from kraftcheck import *


def wait(n: int) -> int:
    while n:
        pass
    return n


class Node(Record):
    id: int
    n: int = 0


class Endless(Protocol):
    at: str = constant("At")

    def initial(self):
        while self.at == "initial" and wait(1):
            pass
        yield self.start([Node(1)])

    @internal
    def step(self, me: Node) -> Steps:
        n = wait(me.n) if self.at == "step" else me.n
        if n < 2:
            yield become(Node(1, n + 1))

    @invariant
    def small(self, me: Node) -> bool:
        return (wait(me.n) if self.at == "small" else me.n) < 3
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "at"),
    [
        *(("check", "step"), ("check", "initial"), ("check", "small"), ("simulate", "step")),
        *(pytest.param("simulate", at, marks=pytest.mark.exhaustive) for at in ("initial", "small")),
    ],
)
def test_the_time_limit_ends_an_endless_call(tmp_path: Path, at: str, command: str) -> None:
    """The last state before the call counts, and the note names the method."""
    (tmp_path / "endless.py").write_text(ENDLESS)
    (tmp_path / "endless.cfg").write_text(f'CONSTANT At = "{at}"\nINVARIANT Small\nCHECK_DEADLOCK FALSE\n')
    words = (command, tmp_path / "endless.py:Endless", "--config", tmp_path / "endless.cfg", "--time-limit", "1.5")
    began = time.monotonic()
    with running(*words, "--quiet") as process:
        printed, _ = process.communicate(timeout=10 * SECONDS)
    assert process.returncode == 20, printed
    assert time.monotonic() - began < 6 * SECONDS
    assert f"the time limit ended a call of {at} (" in printed
    assert "stopped at --time-limit" in printed


@pytest.mark.slow
def test_a_call_after_the_time_limit_is_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a call that two looks see is ended; many short ones are not."""
    monkeypatch.setattr(processes.EndlessCallWatchdog, "PERIOD_SECONDS", 0.01)

    def short() -> None:
        time.sleep(1e-3)

    files = frozenset({short.__code__.co_filename})
    with processes.EndlessCallWatchdog(0.01, lambda: files, lambda: True) as limit:
        for _ in range(300):
            short()
    assert limit.note is None
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)

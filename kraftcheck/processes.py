"""Child processes: the default number of workers, the lookup of Java, and programs with a time limit."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from kraftcheck.spec.errors import InputError

LEAST_JAVA = 17


def default_workers() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def java_program(name: str) -> tuple[Path | None, str]:
    """Return the path of a JDK program (None if missing), and the place of the lookup for messages."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(str(Path(home, "bin", name)) if home else name)
    return (None if found is None else Path(found)), (f"JAVA_HOME ({home})" if home else "the PATH")


def java_version(program: Path) -> int | None:
    """Return the major version of a JDK program; None if it prints none."""
    done = run_to_end([str(program), "-version"], patience=60)
    match = re.search(r"(?:version \"|javac )(?:1\.)?(\d+)", done.stderr + done.stdout)
    return None if match is None else int(match[1])


def run_to_end(command: Sequence[str], patience: float, stdin: str = "") -> subprocess.CompletedProcess[str]:
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
        end_all(process)
    return subprocess.CompletedProcess(command, process.returncode, out, said)


def end_with_parent() -> None:
    """End this process after its parent has ended, even by SIGKILL: no process reads its results then."""
    from multiprocessing import parent_process  # slow to import

    parent = parent_process()
    assert parent is not None

    def await_end() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=await_end, daemon=True).start()


def end_all(process: subprocess.Popen[str]) -> None:
    """Kill a process that was started in its own session, with its child processes."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()

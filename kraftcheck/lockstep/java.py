"""Finds Java, and runs programs of which nothing may be left behind."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from kraftcheck.spec.errors import InputError

LEAST_JAVA = 17


def find_java(name: str) -> Path:
    """Return a program of the JDK."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / name) if home else shutil.which(name)
    if found is None or not os.access(found, os.X_OK) or Path(found).is_dir():
        where = f"JAVA_HOME ({home})" if home else "the PATH"
        raise InputError(f"lockstep needs a JDK, version {LEAST_JAVA} or newer: there is no {name} on {where}")
    return Path(found)


def require_new_enough(program: Path) -> None:
    """Make sure of the version of a program of the JDK."""
    done = run_to_end([str(program), "-version"], patience=60)
    match = re.search(r"(?:version \"|javac )(?:1\.)?(\d+)", done.stderr + done.stdout)
    if match is None or int(match[1]) < LEAST_JAVA:
        version = "of unknown version" if match is None else f"version {match[1]}"
        raise InputError(f"lockstep needs a JDK, version {LEAST_JAVA} or newer; {program} is {version}")


def identity(program: Path) -> str:
    """Return what changes when a program is replaced by another."""
    real = program.resolve()
    return f"{real} {real.stat().st_size} {real.stat().st_mtime_ns}"


def run_to_end(command: Sequence[str], patience: float, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a program; if it takes too long, or we are interrupted, end it and all that it has started."""
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


def end_all(process: subprocess.Popen[str]) -> None:
    """End a process that was started in a session of its own, and all that it has started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()

"""The kernel is compiled once, by a process of its own, while tests run that do not need it.

Who compiles it holds a lock. Tests with the marker `kernel` come last, and wait for the lock.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import gettempdir
from typing import TextIO

from kraftcheck.commands.warm import compile_tables
from kraftcheck.explorer import compiling as compiled
from kraftcheck.explorer.tables.kernel import depth_first, random_walk
from kraftcheck.explorer.tables.kernel.native import CACHE
from kraftcheck.files import InUseError, lock_file

LOCK = Path(CACHE or gettempdir()) / "kraftcheck-tests.lock"


def is_compiled() -> bool:
    """Return whether there is nothing left to compile that takes long."""
    functions = (depth_first.descend, random_walk.advance_walks)
    return compiled.is_compiled() and all(one._cache._cache_file._load_index() for one in functions)


@contextmanager
def compiling() -> Iterator[None]:
    """Have another process compile the kernel; it does not outlive this context."""
    lock = await_lock()
    command = [sys.executable, "-m", "tests.support.kernel"]
    process = subprocess.Popen(command, cwd=Path(__file__).parents[2], pass_fds=[lock.fileno()])
    lock.close()  # the process has it still
    try:
        yield
    finally:
        process.kill()
        process.wait()


@cache
def ensure_compiled() -> None:
    """Wait for the process that compiles the kernel; where there is none, compile it."""
    if not compiled.is_compiled() or LOCK.exists():
        with await_lock():
            if not compiled.is_compiled():
                compile_tables()


def await_lock() -> TextIO:
    """Lock the kernel's compilation, as soon as nobody else has it locked."""
    while True:
        try:
            return lock_file(LOCK)
        except InUseError:
            time.sleep(0.1)


if __name__ == "__main__":
    compile_tables()

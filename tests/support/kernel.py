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

from kraftcheck.commands.warm import compile_symbolic_engine, compile_table_engine
from kraftcheck.explorer import kernel_compilation as compiled
from kraftcheck.explorer.result import SearchRequest
from kraftcheck.explorer.symbolic.kernel import saturation
from kraftcheck.explorer.tables import engine, level_states
from kraftcheck.explorer.tables.kernel import CACHE_FOLDER, depth_first
from kraftcheck.files import LockedFolderError, lock_file
from kraftcheck.spec.examples.dining_philosophers import DiningPhilosophers

LOCK = Path(CACHE_FOLDER or gettempdir()) / "kraftcheck-tests.lock"


def is_compiled() -> bool:
    """Return whether there is nothing left to compile that takes long."""
    functions = (depth_first.search_depth_first, depth_first.extend_random_walks, saturation.saturated_union)
    return compiled.are_kernels_compiled() and all(one._cache._cache_file._load_index() for one in functions)


@contextmanager
def compiling() -> Iterator[None]:
    """Have another process compile the kernel, unless one does; it does not outlive this context."""
    try:
        lock = lock_file(LOCK)
    except LockedFolderError:
        yield
        return
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
    if not compiled.are_kernels_compiled() or LOCK.exists():
        with await_lock():
            if not compiled.are_kernels_compiled():
                compile_table_engine()


def await_lock() -> TextIO:
    """Lock the kernel's compilation, as soon as nobody else has it locked."""
    while True:
        try:
            return lock_file(LOCK)
        except LockedFolderError:
            time.sleep(0.1)


def run_tables() -> tuple[int, int]:
    """Search with every kernel of the table engine; return the states of a search with control rows and a flat one."""
    compile_table_engine()
    protocol = DiningPhilosophers(philosophers=3)
    props = protocol.properties.values()
    temporal, reachable = (tuple(prop for prop in props if prop.kind == kind) for kind in ("temporal", "reachable"))
    assert temporal
    assert reachable
    rows = engine.explore(protocol, SearchRequest(deadlock=False, temporal=temporal, reachable=reachable))
    level_states.FLAT_FROM_STATES, level_states.FLAT_FROM_RATIO = 1, -1.0
    flat = engine.explore(protocol, SearchRequest(deadlock=False, workers=2))
    return rows.distinct_states, flat.distinct_states


if __name__ == "__main__":
    run_tables()
    compile_symbolic_engine()

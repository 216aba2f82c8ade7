"""The kernel is compiled once, by a process of its own, while tests run that do not need it.

The process holds a lock until it is done. Tests with the marker `kernel` come last, and wait for the lock.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from kraftcheck.explorer.result import Options, Search
from kraftcheck.explorer.tables import engine
from kraftcheck.explorer.tables.kernel import compiled, depth_first, random_walk
from kraftcheck.explorer.tables.searches import random_walks
from kraftcheck.files import InUseError, lock_file
from kraftcheck.spec.examples.two_phase_commit import TwoPhaseCommit
from kraftcheck.spec.values import ModelValue

SMALL = TwoPhaseCommit(resource_managers=frozenset({ModelValue("rm1", 1)}))

LOCK = "KRAFTCHECK_TESTS_KERNEL"
"""The environment variable that names the lock, for the processes of pytest-xdist."""


def is_compiled() -> bool:
    """Return whether there is nothing left to compile that takes long."""
    functions = (*compiled.KERNEL, depth_first.descend, random_walk.walk_on)
    return all(function._cache._cache_file._load_index() for function in functions)


@contextmanager
def compiling() -> Iterator[None]:
    """Have another process compile the kernel; it does not outlive this context."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "lock"
        lock = lock_file(path)
        command = [sys.executable, "-m", "tests.support.kernel"]
        root = Path(__file__).parents[2]
        process = subprocess.Popen(command, cwd=root, pass_fds=[lock.fileno()])
        lock.close()  # the process has it still
        os.environ[LOCK] = str(path)
        try:
            yield
        finally:
            process.kill()
            process.wait()
            del os.environ[LOCK]


@cache
def ensure_compiled() -> None:
    """Wait for the process that compiles the kernel; where there is none, compile what a breadth-first search needs."""
    path = os.environ.get(LOCK)
    while path is not None:
        try:
            lock_file(Path(path)).close()
            break
        except InUseError:
            time.sleep(0.1)
    if not compiled.is_compiled():
        search_all([Search.BFS])


def search_all(orders: Iterable[Search]) -> None:
    """Search a small protocol in these orders: what they call is compiled."""
    for order in orders:
        engine.explore(SMALL, Options(search=order))


if __name__ == "__main__":
    search_all(Search)
    random_walks.simulate(SMALL, Options(), random_walks.Plan(1, 5, 0), None)

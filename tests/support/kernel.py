"""The kernel is compiled once, by a process of its own, while tests run that do not need it.

The process holds a lock until it is done. Tests with the marker `kernel` come last, and wait for the lock.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from kraftcheck.files import InUseError, lock_file

LOCK = "KRAFTCHECK_TESTS_KERNEL"
"""The environment variable that names the lock, for the processes of pytest-xdist."""


def is_compiled() -> bool:
    """Return whether there is nothing left to compile that takes long."""
    from kraftcheck.explorer.tables.kernel import compiled, depth_first, random_walk

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


def await_kernel() -> None:
    """Return once nobody compiles the kernel."""
    path = os.environ.get(LOCK)
    while path is not None:
        try:
            lock_file(Path(path)).close()
            return
        except InUseError:
            time.sleep(0.1)


def main() -> None:
    """Run small searches of every kind: what they call is compiled."""
    from kraftcheck.explorer.result import Options, Search
    from kraftcheck.explorer.tables import engine
    from kraftcheck.explorer.tables.searches import random_walks
    from kraftcheck.spec.examples.two_phase_commit import TwoPhaseCommit
    from kraftcheck.spec.values import ModelValue

    protocol = TwoPhaseCommit(resource_managers=frozenset({ModelValue("rm1", 1)}))
    for search in Search:
        engine.explore(protocol, Options(search=search))
    random_walks.simulate(protocol, Options(), random_walks.Plan(1, 5, 0), None)


if __name__ == "__main__":
    main()

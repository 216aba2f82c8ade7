"""A thread pool for the kernel, which releases the GIL."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path

import numpy as np

SERIAL = 1 << 10  # states up to which a second thread does not pay


class Threads:
    """Runs work in parallel threads."""

    def __init__(self, count: int) -> None:
        _require_stacks(count - 1)
        self.count = count
        self.enough = np.zeros(1, np.int64)
        self._pool = ThreadPoolExecutor(count - 1) if count > 1 else None

    def run(self, work: Callable[[int], None], pieces: int) -> None:
        """Call `work(0)` in this thread and `work(1)` to `work(pieces - 1)` in the pool; wait for all calls."""
        own, others = range(pieces), []
        if pieces == 1:
            work(0)
            return
        if self._pool is not None:
            own, others = range(1), [self._pool.submit(work, number) for number in range(1, pieces)]
        try:
            for number in own:
                work(number)
        finally:
            wait(others)
        for other in others:
            other.result()

    def beside(self, work: Callable[[], None], own: Callable[[], None]) -> None:
        """Call `own` in this thread, and `work` in another thread at the same time if there is one.

        The other thread stops early once `enough` is set, when `own` is done. It must need little of the GIL, and must
        not use this pool itself.
        """
        if self._pool is None:
            own()
            return
        self.enough[0] = 0
        other = self._pool.submit(work)
        try:
            own()
        finally:
            self.enough[0] = 1
            other.result()

    def close(self) -> None:
        """Shut down the threads."""
        if self._pool is not None:
            self._pool.shutdown()


def _require_stacks(threads: int) -> None:
    """Raise RuntimeError if the limit on address space has no room for the stacks of threads.

    A thread that runs out of memory before it reports its start leaves Python's `Thread.start` waiting for ever.
    """
    with suppress(ImportError, OSError, ValueError):  # not on this platform
        import resource

        limit, stack = resource.getrlimit(resource.RLIMIT_AS)[0], resource.getrlimit(resource.RLIMIT_STACK)[0]
        if resource.RLIM_INFINITY in (limit, stack) or threads < 1:
            return
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        if used + threads * stack > limit:
            raise RuntimeError("can't start new thread")

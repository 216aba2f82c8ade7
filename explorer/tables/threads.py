"""The threads of a search. The kernel lets go of Python's lock, so that they run side by side."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np

SERIAL = 1 << 10  # states up to which a second thread is not worth while


class Threads:
    """Runs pieces of work side by side."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.enough = np.zeros(1, np.int64)
        self._pool = ThreadPoolExecutor(count - 1) if count > 1 else None

    def run(self, work: Callable[[int], None], pieces: int) -> None:
        """Call `work` with each number below `pieces`, with 0 in this thread, and wait until all is done."""
        own, others = range(pieces), []
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
        """Do one's own work; beside it, where there are several threads, some that needs little of Python.

        That one ends early, once it sees that it is `enough`. It may not hand work to the threads itself.
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
        """Let the threads end."""
        if self._pool is not None:
            self._pool.shutdown()

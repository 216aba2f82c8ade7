"""A clock that stands still while something is compiled: that is no part of how long a search takes."""

from __future__ import annotations

import time


class SearchClock:
    """The seconds of this process in which nothing was compiled."""

    def __init__(self) -> None:
        self.compiling = 0.0

    def now(self) -> float:
        """Return the time, in seconds since some moment."""
        return time.monotonic() - self.compiling


CLOCK = SearchClock()
"""The clock of all searches of this process; `compiling.py` stops it."""

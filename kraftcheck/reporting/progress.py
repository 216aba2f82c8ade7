"""How a search gets on, on standard error: a line that is rewritten on a terminal, else a line now and then."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from typing import Protocol

from kraftcheck.explorer.result import Progress

EVERY = 30.0
"""Seconds between two lines where there is no terminal."""


class Meter(Protocol):
    """What shows progress."""

    def show(self, progress: Progress) -> None:
        """Show how far the search is."""

    def close(self) -> None:
        """Take away what was shown for the moment."""


class Silence:
    """Shows nothing."""

    def show(self, progress: Progress) -> None:
        """Show nothing."""

    def close(self) -> None:
        """Do nothing."""


class Bar:
    """One line, rewritten: states, rate, depth, frontier."""

    def __init__(self, waiting: str = "frontier") -> None:
        from tqdm import tqdm

        self._waiting = waiting

        shown = "{n_fmt} distinct states, {rate_fmt}{postfix}, {elapsed}"
        width = shutil.get_terminal_size().columns
        self._bar = tqdm(bar_format=shown, unit=" states", unit_scale=True, leave=False, file=sys.stderr, ncols=width)

    def show(self, progress: Progress) -> None:
        """Rewrite the line, if the last time is long enough ago."""
        self._bar.set_postfix_str(f"depth {progress.depth}, {self._waiting} {progress.frontier:,}", refresh=False)
        self._bar.update(progress.distinct_states - self._bar.n)

    def close(self) -> None:
        """Clear the line."""
        self._bar.close()


class Lines:
    """A line every `EVERY` seconds, for logs."""

    def __init__(self, write: Callable[[str], object] | None = None, waiting: str = "frontier") -> None:
        self._write = write or sys.stderr.write
        self._waiting = waiting
        self._next = EVERY

    def show(self, progress: Progress) -> None:
        """Write a line, if the last one is long enough ago."""
        if progress.seconds < self._next:
            return
        self._next = progress.seconds + EVERY
        rate = progress.distinct_states / progress.seconds
        self._write(
            f"{progress.seconds:.0f} s: {progress.distinct_states:,} distinct states, {rate:,.0f} states/s, "
            f"depth {progress.depth}, {self._waiting} {progress.frontier:,}\n"
        )

    def close(self) -> None:
        """Do nothing."""


class Count:
    """How many of something were done: a line that is rewritten, or one every `EVERY` seconds; or nothing.

    Parameters
    ----------
    what
        What is counted: "states replayed".
    quiet
        Whether to show nothing.
    """

    def __init__(self, what: str, *, quiet: bool) -> None:
        self._what = what
        self._quiet = quiet
        self._count = 0
        self._began = time.monotonic()
        self._next = EVERY
        self._bar = None
        if not quiet and sys.stderr.isatty():
            from tqdm import tqdm

            shown = "{n_fmt} " + what + ", {rate_fmt}, {elapsed}"
            self._bar = tqdm(bar_format=shown, unit="", leave=False, file=sys.stderr)

    def __call__(self) -> None:
        """Count one more."""
        self._count += 1
        if self._bar is not None:
            self._bar.update()
        elif not self._quiet and self._count % 100 == 0:
            seconds = time.monotonic() - self._began
            if seconds >= self._next:
                self._next = seconds + EVERY
                sys.stderr.write(f"{seconds:.0f} s: {self._count:,} {self._what}\n")

    def reach(self, count: int) -> None:
        """Count up to a number."""
        while self._count < count:
            self()

    def close(self) -> None:
        """Take away what was shown for the moment."""
        if self._bar is not None:
            self._bar.close()


def meter(*, quiet: bool, waiting: str = "frontier") -> Meter:
    """Return what shows progress here; `waiting` is what is still to be done."""
    if quiet:
        return Silence()
    return Bar(waiting) if sys.stderr.isatty() else Lines(waiting=waiting)

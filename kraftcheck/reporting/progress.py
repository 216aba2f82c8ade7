"""How far a command is, on standard error: a line that is rewritten on a terminal, else a line now and then."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from typing import Self

from kraftcheck.explorer.result import Progress

EVERY = 30.0
"""Seconds between two lines where there is no terminal."""


class Meter:
    """Shows how many of something there are."""

    def __init__(
        self,
        what: str = "distinct states",
        *,
        quiet: bool = False,
        waiting: str = "frontier",
        write: Callable[[str], object] | None = None,
    ) -> None:
        self._what = what
        self._waiting = waiting
        self._write = None if quiet else write or sys.stderr.write
        self._count = 0
        self._began = time.monotonic()
        self._next = EVERY
        self._bar = None
        if not quiet and write is None and sys.stderr.isatty():
            from tqdm import tqdm

            shown = "{n_fmt} " + what + ", {rate_noinv_fmt}{postfix}, {elapsed}"
            width = shutil.get_terminal_size().columns
            self._bar = tqdm(bar_format=shown, unit="", unit_scale=True, leave=False, file=sys.stderr, ncols=width)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Take away what was shown for the moment."""
        if self._bar is not None:
            self._bar.close()

    def show(self, progress: Progress) -> None:
        """Show how far a search is."""
        if progress.nodes is not None:
            self._show_nodes(progress, progress.nodes)
            return
        more = f"depth {progress.depth}, {self._waiting} {progress.frontier:,}"
        if self._bar is not None:
            self._bar.set_postfix_str(more, refresh=False)
        rate = progress.distinct_states / progress.seconds if progress.seconds else 0
        self._reach(progress.distinct_states, progress.seconds, f", {rate:,.0f} states/s, {more}")

    def _show_nodes(self, progress: Progress, nodes: int) -> None:
        """Show how far a search is that finds states as sets."""
        more = f", depth {progress.depth}, {progress.distinct_states:,} distinct states" if progress.depth else ""
        if self._bar is not None:
            self._bar.bar_format = str(self._bar.bar_format).replace(self._what, "nodes of diagrams")
            self._bar.set_postfix_str(more.removeprefix(", "), refresh=False)
        self._what = "nodes of diagrams"
        self._reach(nodes, progress.seconds, more)

    def add(self) -> None:
        """Count one more."""
        self.reach(self._count + 1)

    def reach(self, count: int) -> None:
        """Count up to a number."""
        self._reach(count, time.monotonic() - self._began, "")

    def _reach(self, count: int, seconds: float, more: str) -> None:
        self._count = count
        if self._bar is not None:
            self._bar.update(count - self._bar.n)
        elif self._write is not None and seconds >= self._next:
            self._next = seconds + EVERY
            self._write(f"{seconds:.0f} s: {count:,} {self._what}{more}\n")

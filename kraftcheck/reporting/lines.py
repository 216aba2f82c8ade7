"""Lines of styled text, coloured on a terminal, and a progress meter."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Self, TextIO

from kraftcheck.explorer.result import Progress, Verdict
from kraftcheck.spec.values import escape_invisible

OLD, NEW, PLAIN, HEAD, ACTION, FAINT, WARNING = "old", "new", "", "head", "action", "faint", "warning"
"""Styles of text. Each verdict is a style too."""

_RICH_STYLES = {
    HEAD: "bold",
    ACTION: "bold cyan",
    FAINT: "dim",
    OLD: "red",
    NEW: "green",
    WARNING: "yellow",
    PLAIN: "",
    Verdict.OK: "bold green",
    Verdict.INCOMPLETE: "bold yellow",
    Verdict.VIOLATION: "bold red",
    Verdict.DEADLOCK: "bold red",
    Verdict.ASSERTION: "bold red",
}

StyledText = tuple[str, str]
"""A style and text in that style."""

Line = list[StyledText]


def lines_as_plain_text(lines: Iterable[Line]) -> str:
    """Return lines without their styles."""
    return "\n".join("".join(text for _, text in line).rstrip() for line in lines)


def escape_control_characters(text: str) -> str:
    """Escape control characters: text in a trace file must not control the terminal or the log.

    A line break stays only before an indented line, as in an error of a protocol. GitHub takes a line for a command if
    it begins with `::`, indented or not.
    """
    return escape_invisible(re.sub(r"\n(?!  +[^\s:])", r"\\n", text), keep="\n\t")


def print_lines(lines: Iterable[Line], file: TextIO | None = None) -> None:
    """Print lines, with styles on a terminal."""
    file = file or sys.stdout
    if not file.isatty():
        for line in lines:
            print(escape_control_characters(lines_as_plain_text([line])), file=file)
        file.flush()  # so a log shows the header before the search
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=file, highlight=False)
    for line in lines:
        text = Text.assemble(*[(escape_control_characters(text), _RICH_STYLES[style]) for style, text in line])
        indent = Text(" " * continuation_indent(text.plain, console.width))
        for place, piece in enumerate(text.divide(line_breaks(text.plain, console.width))):
            piece.rstrip()  # a trailing space would wrap to the next line
            console.print(indent + piece if place else piece, soft_wrap=True)


def continuation_indent(text: str, width: int) -> int:
    """Return the indent of a wrapped line's continuation: its second column, or four more characters."""
    indent = len(text) - len(text.lstrip())
    column = re.match(r"\s*\S+(?: \S+)*\s{2,}(?=\S)", text)
    wanted = column.end() if column else indent + 4
    return wanted if wanted <= width // 2 else min(indent + 4, width // 2)


def line_breaks(text: str, width: int) -> list[int]:
    """Return the offsets of line breaks, after spaces if possible.

    Examples
    --------
    >>> line_breaks("    log  one two three", 20)
    [17]
    """
    found: list[int] = []
    begin, room = 0, width
    while len(text) - begin > room:
        space = text.rfind(" ", begin + 1, begin + room + 1)
        begin = space + 1 if space > begin and text[begin:space].strip() else begin + room
        found.append(begin)
        room = max(1, width - continuation_indent(text, width))
    return found


def print_warnings(texts: Iterable[str]) -> None:
    """Print warnings, one per line."""
    print_lines([(WARNING, f"Warning: {text}")] for text in texts)


def table_lines(rows: Iterable[tuple[str, Sequence[str]]], numbers: Sequence[int], least: int = 0) -> Iterator[Line]:
    """Yield rows as the lines of an aligned table; the columns in `numbers` are right-aligned."""
    rows = list(rows)
    full = [cells for _, cells in rows if cells]
    widths = [max(map(len, column), default=0) for column in zip(*full, strict=True)]
    for style, cells in rows:
        aligned = [
            cell.rjust(max(width, least)) if place in numbers else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(cells, widths, strict=False))
        ]
        yield [(style, "  ".join(aligned).rstrip())]


def actions_table(counts: Mapping[str, Mapping[str, int]], least: int = 0) -> Iterator[Line]:
    """Yield a table of counts by action, with one column per title."""
    rows: list[tuple[str, Sequence[str]]] = [(HEAD, ("action", *counts))]
    for name, times in next(iter(counts.values())).items():
        rows.append((PLAIN if times else FAINT, (name, *(f"{column[name]:,}" for column in counts.values()))))
    yield from table_lines(rows if len(rows) > 1 else (), range(1, len(counts) + 1), least)


def note_lines(texts: Iterable[str]) -> Iterator[Line]:
    """Yield notes, one per line."""
    yield from ([(FAINT, f"Note: {text}")] for text in texts)


def count_with_noun(count: int, what: str) -> str:
    """Return a count with its noun: "1 state", "2 states"."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


METER_INTERVAL_SECONDS = 30.0
"""Seconds between two progress lines without a terminal."""


class ProgressMeter:
    """A progress meter: a bar on a terminal, else a line of text every `METER_INTERVAL_SECONDS` seconds."""

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
        self._next = METER_INTERVAL_SECONDS
        self._bar = None
        if not quiet and write is None and sys.stderr.isatty():
            from tqdm import tqdm

            shown = "{n_fmt} " + what + ", {rate_noinv_fmt}{postfix}, {elapsed}"
            width = shutil.get_terminal_size().columns
            self._bar = tqdm(bar_format=shown, unit="", unit_scale=True, leave=False, file=sys.stderr, ncols=width)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the progress bar."""
        if self._bar is not None:
            self._bar.close()

    def show(self, progress: Progress) -> None:
        """Show the progress of a search."""
        if progress.nodes is not None:
            self._show_nodes(progress, progress.nodes)
            return
        more = f"depth {progress.depth}, {self._waiting} {progress.frontier:,}"
        if self._bar is not None:
            self._bar.set_postfix_str(more, refresh=False)
        rate = progress.distinct_states / progress.seconds if progress.seconds else 0
        self._reach(progress.distinct_states, progress.seconds, f", {rate:,.0f} states/s, {more}")

    def _show_nodes(self, progress: Progress, nodes: int) -> None:
        """Show the progress of a symbolic search, in nodes of its diagrams."""
        more = f", depth {progress.depth}, {progress.distinct_states:,} distinct states" if progress.depth else ""
        if self._bar is not None:
            self._bar.bar_format = str(self._bar.bar_format).replace(self._what, "nodes of diagrams")
            self._bar.set_postfix_str(more.removeprefix(", "), refresh=False)
        self._what = "nodes of diagrams"
        self._reach(nodes, progress.seconds, more)

    def add(self) -> None:
        """Increase the count by one."""
        self.reach(self._count + 1)

    def reach(self, count: int, seconds: float = 0.0) -> None:
        """Set the count; `seconds` in which it was reached, if the rate is shown."""
        more = f", {count / seconds:,.0f} a second" if seconds else ""
        self._reach(count, time.monotonic() - self._began, more)

    def _reach(self, count: int, seconds: float, more: str) -> None:
        self._count = count
        if self._bar is not None:
            self._bar.update(count - self._bar.n)
        elif self._write is not None and seconds >= self._next:
            self._next = seconds + METER_INTERVAL_SECONDS
            self._write(f"{seconds:.0f} s: {count:,} {self._what}{more}\n")

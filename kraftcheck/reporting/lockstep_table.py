"""Walks beside several of Kafka's versions, as one table: Markdown, with its columns set straight."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kraftcheck.lockstep.lockstep import Finding, LockstepVerdict
from kraftcheck.spec.display import cut

LONGEST = 120
"""Characters of what Kafka threw; what comes later are values."""

LINE = re.compile(r"(?<=\.java):\d+")
"""Where in a file of Kafka's a method threw: it differs between versions, and says no more than the method."""


class Cell(NamedTuple):
    """What a walk showed on a version."""

    text: str  # a word or two
    note: str = ""  # what comes below the table; "" where there is no more to say


def cell(findings: Sequence[Finding], problem: str = "") -> Cell:
    """Return what walks showed."""
    order = list(LockstepVerdict)
    worst = max((finding.verdict for finding in findings), key=order.index, default=LockstepVerdict.AGREES)
    found = [finding for finding in findings if finding.verdict is worst]
    note = ""
    if worst is LockstepVerdict.VIOLATES:
        note = ", ".join(dict.fromkeys(name for finding in found for name in finding.violated))
    elif worst is LockstepVerdict.FAILS:
        thrown, _, place = LINE.sub("", found[0].problem).rpartition(" (")
        note = f"step {found[0].step}: {cut(thrown, LONGEST)} ({place}"
    elif worst is LockstepVerdict.DIFFERS:
        fields = sorted({difference.field for difference in found[0].differences})
        note = f"step {found[0].step}: {', '.join(fields)}"
    if problem:
        note = f"{note}; {problem}" if note else problem
    return Cell("ends early" if problem and not findings else str(worst), note)


def table(rows: Sequence[str], columns: Mapping[str, Sequence[Cell]]) -> Iterator[str]:
    """Yield the lines of a table, and of the notes below it."""
    notes: dict[str, int] = {}
    lines = [["", *columns]]
    for number, row in enumerate(rows):
        lines.append([row, *(_marked(cells[number], notes) for cells in columns.values())])
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    for number, line in enumerate(lines):
        yield "| " + " | ".join(f"{text:{width}}" for text, width in zip(line, widths, strict=True)) + " |"
        if number == 0:
            yield "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    if notes:
        yield ""
        yield from (f"{number}. {note}" for note, number in notes.items())


def _marked(shown: Cell, notes: dict[str, int]) -> str:
    """Return a cell's text with the number of its note."""
    if not shown.note:
        return shown.text
    number = notes.setdefault(" ".join(shown.note.split()), len(notes) + 1)
    return f"{shown.text} ({number})"

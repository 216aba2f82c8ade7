"""Which of Kafka's lines and branches walks reached, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kraftcheck.lockstep.reach import ClassReach, Counted

MOST_METHODS = 40


def reach_table(classes: Sequence[ClassReach]) -> Iterator[str]:
    """Yield the lines of a table by class, and the methods of which nothing was reached."""
    some = [one for one in classes if one.lines.reached]
    rows = [("class", "lines", "branches")]
    rows += [(f"`{one.name}`", _of(one.lines), _of(one.branches)) for one in some]
    total = ("together", _of(_sum(one.lines for one in some)), _of(_sum(one.branches for one in some)))
    widths = [max(len(row[place]) for row in (*rows, total)) for place in range(3)]
    for number, row in enumerate((*rows, total)):
        yield "| " + " | ".join(f"{text:{width}}" for text, width in zip(row, widths, strict=True)) + " |"
        if number == 0:
            yield "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    yield ""
    yield "Methods of which nothing was reached:"
    yield ""
    for one in some:
        methods = list(dict.fromkeys(one.unreached))
        if methods:
            more = f" and {len(methods) - MOST_METHODS} more" if len(methods) > MOST_METHODS else ""
            yield f"- `{one.name}`: {', '.join(methods[:MOST_METHODS])}{more}"
    none = [one.name for one in classes if one.lines.all and not one.lines.reached]
    if none:
        yield ""
        yield f"Classes of which nothing was reached: {', '.join(none)}"


def _sum(counts: Iterator[Counted]) -> Counted:
    together = Counted()
    for one in counts:
        together += one
    return together


def _of(counted: Counted) -> str:
    if not counted.all:
        return "-"
    return f"{counted.reached:,} of {counted.all:,} ({100 * counted.reached // counted.all} %)"

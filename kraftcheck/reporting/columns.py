"""A behaviour with one column a replica: what each step changes stands under whom it changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, zip_longest
from textwrap import wrap

from kraftcheck.explorer.result import TraceStep
from kraftcheck.reporting.changes import changes, message_words, messages
from kraftcheck.reporting.lines import FAINT, HEAD, PLAIN, Line, Part
from kraftcheck.spec.display import text_of
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.values import Value, field_names, ordered

LEAST = 16
"""The characters that a column has at least, whatever the width."""
LEGEND = "> sent, < delivered and consumed, * delivered and kept, x lost or dropped"
_INDENT, _GAP = "    ", "  "

Cells = dict[str, list[str]]
"""The lines of each replica."""


class Columns:
    """Tells the steps of a behaviour in columns."""

    def __init__(self, protocol: Protocol, trace: Sequence[TraceStep], width: int) -> None:
        self._protocol = protocol
        names = [text_of(key) for key in ordered(trace[-1].state.replicas)]
        busy: set[str] = set()
        for before, step in pairwise(trace):
            cells, _ = self._cells(before, step)
            busy |= {name for name, lines in cells.items() if lines}
        self._shown = [name for name in names if name in busy] or names
        self._others = [name for name in names if name not in self._shown]
        room = width - len(_INDENT) - len(_GAP) * (len(self._shown) - 1)
        self._wide = max(LEAST, room // len(self._shown))

    def head(self) -> Iterator[Line]:
        """Yield the names of the columns, and of those who have none."""
        yield [(HEAD, _INDENT + _GAP.join(name.ljust(self._wide) for name in self._shown).rstrip())]
        if self._others:
            yield [(FAINT, f"{_INDENT}nothing happens to {', '.join(self._others)}")]

    def step(self, before: TraceStep | None, step: TraceStep) -> Iterator[Line]:
        """Yield the lines of a step, or of the initial state."""
        cells, rest = self._initial(step) if before is None else self._cells(before, step)
        columns = [[line for text in cells.get(name, ()) for line in self._wrapped(text)] for name in self._shown]
        for row in zip_longest(*columns, fillvalue=""):
            parts: list[Part] = [(PLAIN, _GAP.join(cell.ljust(self._wide) for cell in row).rstrip())]
            yield [(PLAIN, _INDENT), *parts]
        yield from ([(PLAIN, f"{_INDENT}{text}")] for text in rest)

    def _wrapped(self, text: str) -> list[str]:
        return wrap(text, self._wide, subsequent_indent="  ") or [""]

    def _initial(self, step: TraceStep) -> tuple[Cells, list[str]]:
        cells = {}
        for key, replica in step.state.replicas.items():
            names = [name for name in field_names(type(replica)) if name != "id"]
            cells[text_of(key)] = [f"{name} {text_of(getattr(replica, name))}" for name in names]
        shared = step.state.shared
        return cells, [f"shared.{name}  {text_of(getattr(shared, name))}" for name in field_names(type(shared))]

    def _cells(self, before: TraceStep, step: TraceStep) -> tuple[Cells, list[str]]:
        """Return what a step changes: in each replica, and elsewhere."""
        names = [text_of(key) for key in step.state.replicas]
        cells: Cells = {name: [] for name in names}
        rest: list[str] = []
        under_way = 0
        for message in messages(self._protocol.network, before.state, step.state, step.message):
            if message.mark == " ":
                under_way += message.copies
                continue
            kind, _, fields = message_words(message.message)
            ends: list[Value] = [getattr(message.message, end, None) for end in ("source", "dest")]
            whose, other = (ends[0] or step.actor, ends[1]) if message.mark == "+" else (ends[1], ends[0])
            sign = {"+": ">", "*": "*"}.get(message.mark, "<" if step.message == message.message else "x")
            if sign == "<" and step.action in self._protocol.network.own_actions():
                sign = "x"
            way = "" if other is None else f" {'to' if message.mark == '+' else 'from'} {text_of(other)}"
            line = f"{sign} {kind}{way} {fields}".rstrip()
            cells.get(text_of(whose), rest).append(line)
        for change in changes(self._protocol, before.state, step.state):
            name = next((one for one in names if change.path in (one,) or change.path.startswith(f"{one}.")), None)
            path = change.path if name is None else change.path.removeprefix(name).removeprefix(".")
            (rest if name is None else cells[name]).append(f"{path} {change.text}".strip())
        if under_way:
            rest.append(f"{under_way} still under way")
        return cells, rest

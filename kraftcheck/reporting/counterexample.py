"""A counterexample told step by step: who did what, what changed, what is under way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kraftcheck.explorer.result import DEADLOCK, Loop, TraceStep, Trap, Violation
from kraftcheck.reporting.changes import changes, initial, message_words, messages
from kraftcheck.reporting.columns import LEGEND as IN_COLUMNS
from kraftcheck.reporting.columns import Columns
from kraftcheck.reporting.lines import ACTION, FAINT, HEAD, NEW, OLD, PLAIN, Line, many
from kraftcheck.reporting.why import why
from kraftcheck.spec.display import text_of
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.values import field_names

LEGEND = "messages: - consumed, * delivered and kept, + sent, the others still under way"
_STYLES = {"-": OLD, "+": NEW, "*": PLAIN, " ": FAINT}
_INDENT = "    "
_MOST_SAME = 3
"""Messages that a step leaves under way, and that are shown one by one; more are counted."""


def told(protocol: Protocol, violation: Violation, columns: int | None = None) -> Iterator[Line]:
    """Yield the lines that tell a counterexample."""
    what = "Deadlock" if violation.property == DEADLOCK else f"Counterexample to {violation.property}"
    if violation.failed is not None:
        what = f"An assert failed in {violation.property}"
    yield from behaviour_lines(protocol, violation.trace, what, columns)
    if violation.loop is not None:
        yield from _loop_lines(protocol, violation.trace[-1], violation.loop)
    yield from _why_lines(protocol, violation)
    if violation.trap is not None:
        yield []
        where = f"From state {len(violation.trace)} on {violation.property} cannot be reached"
        yield [(HEAD, f"{where}: {way_out(violation.trap)}")]
        without = protocol.properties[violation.property].without
        if without:
            yield [(FAINT, f"{_INDENT}no way out is {', '.join(without)}")]


def behaviour_lines(
    protocol: Protocol, trace: Sequence[TraceStep], what: str, columns: int | None = None
) -> Iterator[Line]:
    """Yield the lines that tell a behaviour."""
    yield [(HEAD, f"{what}, {many(len(trace), 'state')}")]
    if any(step.state.inboxes for step in trace):
        yield [(FAINT, f"messages: {IN_COLUMNS}" if columns else LEGEND)]
    table = Columns(protocol, trace, columns) if columns else None
    if table is not None:
        yield []
        yield from table.head()
    before: TraceStep | None = None
    for number, step in enumerate(trace, start=1):
        yield []
        yield _heading(protocol, number, step)
        if table is not None:
            yield from table.step(before, step)
            before = step
            continue
        found = initial(step.state) if before is None else changes(protocol, before.state, step.state)
        width = max((len(change.path) for change in found), default=0)
        yield from ([(PLAIN, f"{_INDENT}{change.path:{width}}  "), *change.parts] for change in found)
        if before is not None and step.state == before.state:
            yield [(FAINT, f"{_INDENT}nothing changes")]
        yield from _message_lines(protocol, before, step)
        before = step


def _loop_lines(protocol: Protocol, last: TraceStep, loop: Loop) -> Iterator[Line]:
    """Yield how a behaviour goes on for ever, and why that is fair."""
    yield []
    if loop.again is None:
        yield [(HEAD, "Stuttering"), (PLAIN, f"  nothing more happens after state {loop.back_to}")]
    else:
        heading = _heading(protocol, loop.back_to, loop.again)
        yield [(HEAD, f"Back to state {loop.back_to}"), *heading[1:]]
        found = changes(protocol, last.state, loop.again.state)
        width = max((len(change.path) for change in found), default=0)
        yield from ([(PLAIN, f"{_INDENT}{change.path:{width}}  "), *change.parts] for change in found)
        yield from _message_lines(protocol, last, loop.again)
    if loop.kept:
        yield [(FAINT, f"{_INDENT}fair, since for ever: {'; '.join(loop.kept)}")]
    for reason in loop.never:
        yield [(FAINT, f"{_INDENT}never: {reason}")]


def _why_lines(protocol: Protocol, violation: Violation) -> Iterator[Line]:
    """Yield what the property says, and of which replicas and message it is false."""
    found = why(protocol, violation)
    if violation.property == DEADLOCK or not (found.says or found.false_of or found.because):
        return
    of = ", ".join(f"{name} = {text_of(value)}" for name, value in found.false_of.items())
    parts = [found.says, f"{'of' if violation.failed else 'false of'} {of}" if of else ""]
    yield []
    yield [(HEAD, violation.property), (PLAIN, "  "), (PLAIN, "  ".join(filter(None, parts)))]
    for part in found.because:
        yield [(OLD, f"{_INDENT}{part}")]


def way_out(trap: Trap) -> str:
    """Return how many states have no way out."""
    return f"{trap.states:,} of {many(trap.among, 'state')} have no way out"


def _heading(protocol: Protocol, number: int, step: TraceStep) -> Line:
    line: Line = [(HEAD, f"State {number}"), (PLAIN, "  ")]
    if step.action is None:
        return [*line, (PLAIN, "initial state")]
    line.append((ACTION, step.action))
    who = "the environment" if step.actor is None else text_of(step.actor)
    line.append((PLAIN, f" by {'the network' if step.action in protocol.network.own_actions() else who}"))
    if step.message is not None:
        is_signed = "source" in field_names(type(step.message))
        sender = f" from {text_of(step.message.source)}" if is_signed else ""
        line.append((PLAIN, f" on {type(step.message).__name__}{sender}"))
    return line


def _message_lines(protocol: Protocol, before: TraceStep | None, step: TraceStep) -> Iterator[Line]:
    previous = None if before is None else before.state
    found = messages(protocol.network, previous, step.state, step.message)
    same = [item for item in found if item.mark == " "]
    folded = len(same) if before is not None and len(same) > _MOST_SAME else 0
    if folded:
        found = [item for item in found if item.mark != " "]
    texts = [message_words(item.message) for item in found]
    kinds, ways = (max((len(text[column]) for text in texts), default=0) for column in (0, 1))
    label = "messages"
    for item, (kind, way, rest) in zip(found, texts, strict=True):
        left = f"{item.copies} left" if item.mark == "-" and item.copies else ""
        copies = left or (f"x{item.copies}" if item.mark != "-" and item.copies > 1 else "")
        text = f"{item.mark} {kind:{kinds}}  {way:{ways}}  {rest}{f'  ({copies})' if copies else ''}"
        yield [(FAINT, f"{_INDENT}{label:8}  "), (_STYLES[item.mark], text)]
        label = ""
    if folded:
        yield [(FAINT, f"{_INDENT}{label:8}  "), (FAINT, f"  {folded} others still under way")]

"""A counterexample told step by step: who did what, what changed, what is under way."""

from __future__ import annotations

from collections.abc import Iterator

from kraftcheck.explorer.result import DEADLOCK, TraceStep, Violation
from kraftcheck.reporting.changes import Change, Message, changes, initial, messages
from kraftcheck.reporting.lines import ACTION, FAINT, HEAD, NEW, OLD, PLAIN, Line, many
from kraftcheck.reporting.wording import message_words
from kraftcheck.spec.display import text_of
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.values import Record, field_names

LEGEND = "messages: - consumed, * delivered and kept, + sent, the others still under way"
_STYLES = {"-": OLD, "+": NEW, "*": PLAIN, " ": FAINT}
_INDENT = "    "


def told(protocol: Protocol, violation: Violation) -> Iterator[Line]:
    """Yield the lines that tell a counterexample.

    Parameters
    ----------
    protocol
        The protocol with its constants.
    violation
        The property and the behaviour.

    Yields
    ------
    list of (style, text)
        One line, in pieces.
    """
    trace = violation.trace
    what = "Deadlock" if violation.property == DEADLOCK else f"Counterexample to {violation.property}"
    yield [(HEAD, f"{what}, {many(len(trace), 'state')}")]
    if any(step.state.inboxes for step in trace):
        yield [(FAINT, LEGEND)]
    before: TraceStep | None = None
    for number, step in enumerate(trace, start=1):
        yield []
        yield _heading(protocol, number, step)
        found = initial(step.state) if before is None else changes(protocol, before.state, step.state)
        yield from _change_lines(found)
        if before is not None and step.state == before.state:
            yield [(FAINT, f"{_INDENT}nothing changes")]
        yield from _message_lines(protocol, before, step)
        before = step


def _heading(protocol: Protocol, number: int, step: TraceStep) -> Line:
    line: Line = [(HEAD, f"State {number}"), (PLAIN, "  ")]
    if step.action is None:
        return [*line, (PLAIN, "initial state")]
    line.append((ACTION, step.action))
    if step.action in protocol.network.own_actions():
        line.append((PLAIN, " by the network"))
    else:
        who = "the environment" if step.actor is None else text_of(step.actor)
        line.append((PLAIN, f" by {who}"))
    if step.message is not None:
        line.append((PLAIN, f" on {_sender(step.message)}"))
    return line


def _sender(message: Record) -> str:
    kind = type(message).__name__
    if "source" in field_names(type(message)):
        return f"{kind} from {text_of(message.source)}"  # type: ignore[attr-defined]
    return kind


def _change_lines(found: list[Change]) -> Iterator[Line]:
    width = max((len(change.path) for change in found), default=0)
    for change in found:
        yield [(PLAIN, f"{_INDENT}{change.path:{width}}  "), *change.parts]


def _message_lines(protocol: Protocol, before: TraceStep | None, step: TraceStep) -> Iterator[Line]:
    previous = None if before is None else before.state
    found = messages(protocol.network, previous, step.state, step.message)
    texts = [message_words(item.message) for item in found]
    kinds, ways = (max((len(text[column]) for text in texts), default=0) for column in (0, 1))
    label = "messages"
    for item, (kind, way, rest) in zip(found, texts, strict=True):
        text = f"{item.mark} {kind:{kinds}}  {way:{ways}}  {rest}{_copies(item)}"
        yield [(FAINT, f"{_INDENT}{label:8}  "), (_STYLES[item.mark], text)]
        label = ""


def _copies(item: Message) -> str:
    if item.mark == "-":
        return f"  ({item.copies} left)" if item.copies else ""
    return f"  (x{item.copies})" if item.copies > 1 else ""

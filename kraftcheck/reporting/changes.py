"""Differences between two states, field by field, and the fate of each message."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from kraftcheck.explorer.result import TraceStep
from kraftcheck.reporting.lines import NEW, OLD, PLAIN, Part
from kraftcheck.spec.language.network import Network
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import Map, Record, Value, field_names, ordered, shown_names, text_of

DELIVERED, KEPT, LOST, DROPPED, UNDER_WAY = "delivered", "kept", "lost", "dropped", "under way"
"""Fates of a message. A dropped message is gone, but was neither delivered nor lost by the network."""


class FieldChange(NamedTuple):
    """The change of a field."""

    path: str  # such as `n1.current_epoch`
    parts: tuple[Part, ...]  # the change as text in the styles OLD, NEW and PLAIN

    @property
    def text(self) -> str:
        """The change as plain text."""
        return "".join(text for _, text in self.parts)


class Message(NamedTuple):
    """A message that is in flight before or after a step."""

    mark: str  # "-" consumed, "+" sent, "*" delivered and kept, " " still under way
    message: Record
    copies: int  # the number of copies under way after the step


def changes(protocol: Protocol, before: State, after: State) -> list[FieldChange]:
    """Return the changes between two states in replicas, shared fields and used bounds, without messages."""
    found: list[FieldChange] = []
    for key in ordered(after.replicas):
        old, new = before.replicas.get(key), after.replicas[key]
        if old is None:
            found.append(FieldChange(text_of(key), ((NEW, f"+ {fields_set(new)}"),)))
        else:
            found += difference(text_of(key), old, new)
    found += difference("shared", before.shared, after.shared)
    limits = {c.attribute: (c.name, getattr(protocol, c.attribute)) for c in protocol.constants.values() if c.is_bound}
    for bound, used in after.spent.items():
        if used != before.spent[bound]:
            name, limit = limits[bound]
            found.append(FieldChange(f"spent {name}", (*_replaced(before.spent[bound], used), (PLAIN, f" of {limit}"))))
    return found


def initial(state: State) -> list[FieldChange]:
    """Return an initial state as lines: the replicas, and each field with its values and their owners."""
    found = []
    if state.replicas:
        found.append(FieldChange("replicas", ((PLAIN, ", ".join(map(text_of, ordered(state.replicas)))),)))
    kinds: dict[type[Record], list[Record]] = {}
    for key in ordered(state.replicas):
        kinds.setdefault(type(state.replicas[key]), []).append(state.replicas[key])
    for kind, replicas in kinds.items():
        prefix = f"{kind.__name__}." if len(kinds) > 1 else ""
        for name in field_names(kind):
            if name != "id":
                found.append(FieldChange(prefix + name, ((PLAIN, _who_has_what(name, replicas)),)))
    for name in field_names(type(state.shared)):
        found.append(FieldChange(f"shared.{name}", ((PLAIN, text_of(getattr(state.shared, name))),)))
    return found


def _who_has_what(name: str, replicas: list[Record]) -> str:
    """Format a field's values with the ids of their replicas; without ids if all replicas have one value."""
    holders: dict[str, list[str]] = {}
    for replica in replicas:
        holders.setdefault(text_of(getattr(replica, name)), []).append(text_of(replica.id))  # type: ignore[attr-defined]
    if len(holders) == 1:
        return next(iter(holders))
    return "; ".join(f"{value} ({', '.join(ids)})" for value, ids in holders.items())


def fields_set(record: Record, leaving_out: Collection[str] = ()) -> str:
    """Return the fields of a record that differ from their defaults."""
    shown = []
    for field in dataclasses.fields(record):  # type: ignore[arg-type]
        value = getattr(record, field.name)
        is_default = field.default is not dataclasses.MISSING and field.default == value
        if field.name != "id" and field.name not in leaving_out and not is_default:
            shown.append(f"{field.name}={text_of(value)}")
    return ", ".join(shown)


def difference(path: str, old: Value, new: Value) -> Iterator[FieldChange]:
    """Yield the differences of two values at a path, element by element in records, maps, sets and sequences."""
    if type(old) is not type(new):
        yield FieldChange(path, _replaced(old, new))
    elif old == new:
        return
    elif is_shown_by_fields(new):
        for name in field_names(type(new)):
            yield from difference(f"{path}.{name}", getattr(old, name), getattr(new, name))
    elif isinstance(new, Map):
        yield from _map_difference(path, old, new)
    elif isinstance(new, frozenset):
        yield FieldChange(path, _set_difference(old, new))
    elif isinstance(new, tuple):
        yield from _sequence_difference(path, old, new)
    else:
        yield FieldChange(path, _replaced(old, new))


def _set_difference(old: frozenset[Any], new: frozenset[Any]) -> tuple[Part, ...]:
    gained = [(NEW, f"+{text_of(item)}") for item in ordered(new - old)]
    lost = [(OLD, f"-{text_of(item)}") for item in ordered(old - new)]
    return tuple(part for change in (*gained, *lost) for part in ((PLAIN, " "), change))[1:]


def _replaced(old: Value, new: Value) -> tuple[Part, ...]:
    """Return "old -> new"; an old record of another type is shown by its type alone."""
    gone = is_shown_by_fields(old) and type(old) is not type(new)
    return ((OLD, f"{type(old).__name__}(...)" if gone else text_of(old)), (PLAIN, " -> "), (NEW, text_of(new)))


def _map_difference(path: str, old: Map[Any, Any], new: Map[Any, Any]) -> Iterator[FieldChange]:
    for key in ordered({*old, *new}):
        place = f"{path}[{text_of(key)}]"
        if key not in old:
            yield FieldChange(place, ((NEW, f"+ {text_of(new[key])}"),))
        elif key not in new:
            yield FieldChange(place, ((OLD, f"- {text_of(old[key])}"),))
        else:
            yield from difference(place, old[key], new[key])


def _sequence_difference(path: str, old: tuple[Any, ...], new: tuple[Any, ...]) -> Iterator[FieldChange]:
    """Yield the changed elements of sequences of one length; else the removed tail and the appended tail."""
    if len(old) == len(new):
        for place, (before, after) in enumerate(zip(old, new, strict=True), start=1):
            yield from difference(f"{path}[{place}]", before, after)
        return
    shared = 0
    while shared < min(len(old), len(new)) and old[shared] == new[shared]:
        shared += 1
    for place, item in enumerate(old[shared:], start=shared + 1):
        yield FieldChange(f"{path}[{place}]", ((OLD, f"- {text_of(item)}"),))
    for place, item in enumerate(new[shared:], start=shared + 1):
        yield FieldChange(f"{path}[{place}]", ((NEW, f"+ {text_of(item)}"),))


def messages(network: Network, before: State | None, after: State, delivered: Record | None) -> list[Message]:
    """Return the messages that a step consumes, keeps and sends, then the other messages in flight."""
    then = Counter[Record]() if before is None else _under_way(network, before)
    now = _under_way(network, after)
    found = []
    for message in {**then, **now}:
        mark = "-" if now[message] < then[message] else "+" if now[message] > then[message] and before else " "
        found.append(Message("*" if mark == " " and message == delivered else mark, message, now[message]))
    return sorted(found, key=lambda message: "-*+ ".index(message.mark))


def _under_way(network: Network, state: State) -> Counter[Record]:
    copies: Counter[Record] = Counter()
    for key in ordered(state.inboxes):
        inbox = state.inboxes[key]
        copies.update({message: network.count(inbox, message) for message in network.known(inbox)})
    return +copies  # drops zero counts


def message_words(message: Record, leaving_out: Collection[str] = ()) -> tuple[str, str, str]:
    """Return a message as text: its type, "source -> dest", and the other fields, long ones last."""
    names = shown_names(message)
    ends = [text_of(getattr(message, end)) if end in names else "" for end in ("source", "dest")]
    others = {name: getattr(message, name) for name in names if name not in {"source", "dest", *leaving_out}}
    rest = sorted(others.items(), key=lambda field: isinstance(field[1], tuple | Map) or is_shown_by_fields(field[1]))
    text = " ".join(f"{name}={text_of(value)}" for name, value in rest)
    return type(message).__name__, " -> ".join(ends).strip(), text


def is_shown_by_fields(value: Value) -> bool:
    """Whether a value is a record whose class defines no `__str__`."""
    text: object = type(value).__str__
    return isinstance(value, Record) and text is object.__str__


@dataclass
class Flow:
    """One copy of a message."""

    message: Record
    source: str | None  # the ids of sender and receiver; None if unknown
    dest: str | None
    sent: int  # the number of the state after the sending step; 0 for a message of the initial state
    # A message that stays under way after deliveries has one flow for each delivery, and one more.
    fate: str = UNDER_WAY
    until: int | None = None  # the number of the state after the step of this fate; None if still under way
    is_copy: bool = False  # whether the network duplicated it


def flows(network: Network, trace: Iterable[TraceStep]) -> list[Flow]:
    """Return every copy of a message in a trace, in the order of sending; of equal copies, the oldest leaves first."""
    own: dict[str | None, str] = {action: operation for action, operation, _ in network.own_operations()}
    found: list[Flow] = []
    pending: defaultdict[Record, deque[Flow]] = defaultdict(deque)
    before: State | None = None
    for number, step in enumerate(trace, start=1):
        operation = own.get(step.action)
        for mark, message, copies in messages(network, before, step.state, step.message):
            waiting = pending[message]
            while len(waiting) > copies:
                taken = waiting.popleft()
                taken.until, taken.fate = number, _fate(operation, message, step.message)
            if mark == "*" and operation is None and waiting:
                found.append(replace(waiting[0], fate=KEPT, until=number))
            while len(waiting) < copies:
                sent = number if before else 0
                waiting.append(Flow(message, *_ends(message, step.actor), sent, is_copy=operation == "duplicate"))
                found.append(waiting[-1])
        before = step.state
    return sorted(found, key=lambda flow: flow.sent)


def _fate(operation: str | None, message: Record, delivered: Record | None) -> str:
    if operation is not None:
        return LOST
    return DELIVERED if message == delivered else DROPPED


def _ends(message: Record, actor: Any) -> tuple[str | None, str | None]:
    names = field_names(type(message))
    source = getattr(message, "source") if "source" in names else actor  # noqa: B009 - a field of some messages
    dest = getattr(message, "dest", None)
    return None if source is None else text_of(source), None if dest is None else text_of(dest)

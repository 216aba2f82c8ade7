"""Text of a counterexample: for each step the actor, changes and messages; at the end the reason."""

from __future__ import annotations

import dataclasses
import inspect
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from textwrap import wrap
from typing import Any, NamedTuple

from kraftcheck.explorer.result import DEADLOCK, DeadEndCounts, LassoCycle, TraceStep, Violation, unmapped_last_step
from kraftcheck.reporting.lines import (
    ACTION,
    FAINT,
    HEAD,
    NEW,
    OLD,
    PLAIN,
    Line,
    StyledText,
    count_with_noun,
    lines_as_plain_text,
)
from kraftcheck.spec.diagnosis.source import why_assertion_failed, why_property_is_false
from kraftcheck.spec.errors import RaisedError
from kraftcheck.spec.language.declarations import QUANTIFIED_PARAMETERS, REFINES, STEP_PARAMETERS, Property
from kraftcheck.spec.language.network import Network
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics, Transition, step_property_arguments
from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import Map, Record, Value, field_names, ordered, shown_field_names, text_of

DELIVERED, KEPT, LOST, DROPPED, UNDER_WAY = "delivered", "kept", "lost", "dropped", "under way"
"""Fates of a message. A dropped message is gone, but was neither delivered nor lost by the network."""


class FieldChange(NamedTuple):
    """The change of a field."""

    path: str  # such as `n1.current_epoch`
    parts: tuple[StyledText, ...]  # the change as text in the styles OLD, NEW and PLAIN

    @property
    def text(self) -> str:
        """The change as plain text."""
        return "".join(text for _, text in self.parts)


class MessageAroundStep(NamedTuple):
    """A message that is in flight before or after a step."""

    mark: str  # "-" consumed, "+" sent, "*" delivered and kept, " " still under way
    message: Record
    copies: int  # the number of copies under way after the step


def state_changes(protocol: Protocol, before: State, after: State) -> list[FieldChange]:
    """Return the changes between two states in replicas, shared fields and used bounds, without messages."""
    found: list[FieldChange] = []
    for key in ordered(after.replicas):
        old, new = before.replicas.get(key), after.replicas[key]
        if old is None:
            found.append(FieldChange(text_of(key), ((NEW, f"+ {non_default_fields_text(new)}"),)))
        else:
            found += value_differences(text_of(key), old, new)
    found += value_differences("shared", before.shared, after.shared)
    limits = {c.attribute: (c.name, getattr(protocol, c.attribute)) for c in protocol.constants.values() if c.is_bound}
    for bound, used in after.spent.items():
        if used != before.spent[bound]:
            name, limit = limits[bound]
            found.append(
                FieldChange(f"spent {name}", (*_old_to_new_parts(before.spent[bound], used), (PLAIN, f" of {limit}")))
            )
    return found


def initial_state_fields(state: State) -> list[FieldChange]:
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
                found.append(FieldChange(prefix + name, ((PLAIN, _values_with_holders_text(name, replicas)),)))
    for name in field_names(type(state.shared)):
        found.append(FieldChange(f"shared.{name}", ((PLAIN, text_of(getattr(state.shared, name))),)))
    return found


def _values_with_holders_text(name: str, replicas: list[Record]) -> str:
    """Format a field's values with the ids of their replicas; without ids if all replicas have one value."""
    holders: dict[str, list[str]] = {}
    for replica in replicas:
        holders.setdefault(text_of(getattr(replica, name)), []).append(text_of(replica.id))  # type: ignore[attr-defined]
    if len(holders) == 1:
        return next(iter(holders))
    return "; ".join(f"{value} ({', '.join(ids)})" for value, ids in holders.items())


def non_default_fields_text(record: Record, leaving_out: Collection[str] = ()) -> str:
    """Return the fields of a record that differ from their defaults."""
    shown = []
    for field in dataclasses.fields(record):  # type: ignore[arg-type]
        value = getattr(record, field.name)
        is_default = field.default is not dataclasses.MISSING and field.default == value
        if field.name != "id" and field.name not in leaving_out and not is_default:
            shown.append(f"{field.name}={text_of(value)}")
    return ", ".join(shown)


def value_differences(path: str, old: Value, new: Value) -> Iterator[FieldChange]:
    """Yield the differences of two values at a path, element by element in records, maps, sets and sequences."""
    if type(old) is not type(new):
        yield FieldChange(path, _old_to_new_parts(old, new))
    elif old == new:
        return
    elif is_shown_by_fields(new):
        for name in field_names(type(new)):
            yield from value_differences(f"{path}.{name}", getattr(old, name), getattr(new, name))
    elif isinstance(new, Map):
        yield from _map_difference(path, old, new)
    elif isinstance(new, frozenset):
        yield FieldChange(path, _set_difference_parts(old, new))
    elif isinstance(new, tuple):
        yield from _sequence_difference(path, old, new)
    else:
        yield FieldChange(path, _old_to_new_parts(old, new))


def _set_difference_parts(old: frozenset[Any], new: frozenset[Any]) -> tuple[StyledText, ...]:
    gained = [(NEW, f"+{text_of(item)}") for item in ordered(new - old)]
    lost = [(OLD, f"-{text_of(item)}") for item in ordered(old - new)]
    return tuple(part for change in (*gained, *lost) for part in ((PLAIN, " "), change))[1:]


def _old_to_new_parts(old: Value, new: Value) -> tuple[StyledText, ...]:
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
            yield from value_differences(place, old[key], new[key])


def _sequence_difference(path: str, old: tuple[Any, ...], new: tuple[Any, ...]) -> Iterator[FieldChange]:
    """Yield the changed elements of sequences of one length; else the removed tail and the appended tail."""
    if len(old) == len(new):
        for place, (before, after) in enumerate(zip(old, new, strict=True), start=1):
            yield from value_differences(f"{path}[{place}]", before, after)
        return
    shared = 0
    while shared < min(len(old), len(new)) and old[shared] == new[shared]:
        shared += 1
    for place, item in enumerate(old[shared:], start=shared + 1):
        yield FieldChange(f"{path}[{place}]", ((OLD, f"- {text_of(item)}"),))
    for place, item in enumerate(new[shared:], start=shared + 1):
        yield FieldChange(f"{path}[{place}]", ((NEW, f"+ {text_of(item)}"),))


def messages_around_step(
    network: Network, before: State | None, after: State, delivered: Record | None
) -> list[MessageAroundStep]:
    """Return the messages that a step consumes, keeps and sends, then the other messages in flight."""
    then = Counter[Record]() if before is None else _count_messages_under_way(network, before)
    now = _count_messages_under_way(network, after)
    found = []
    for message in {**then, **now}:
        mark = "-" if now[message] < then[message] else "+" if now[message] > then[message] and before else " "
        found.append(MessageAroundStep("*" if mark == " " and message == delivered else mark, message, now[message]))
    return sorted(found, key=lambda message: "-*+ ".index(message.mark))


def _count_messages_under_way(network: Network, state: State) -> Counter[Record]:
    copies: Counter[Record] = Counter()
    for key in ordered(state.inboxes):
        inbox = state.inboxes[key]
        copies.update({message: network.count(inbox, message) for message in network.known(inbox)})
    return +copies  # drops zero counts


def message_columns(message: Record, leaving_out: Collection[str] = ()) -> tuple[str, str, str]:
    """Return a message as text: its type, "source -> dest", and the other fields, long ones last."""
    names = shown_field_names(message)
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
class MessageFlow:
    """One copy of a message."""

    message: Record
    source: str | None  # the ids of sender and receiver; None if unknown
    dest: str | None
    sent: int  # the number of the state after the sending step; 0 for a message of the initial state
    # A message that stays under way after deliveries has one flow for each delivery, and one more.
    fate: str = UNDER_WAY
    until: int | None = None  # the number of the state after the step of this fate; None if still under way
    is_copy: bool = False  # whether the network duplicated it


def message_flows(network: Network, trace: Iterable[TraceStep]) -> list[MessageFlow]:
    """Return every copy of a message in a trace, in the order of sending; of equal copies, the oldest leaves first."""
    own: dict[str | None, str] = {action: operation for action, operation, _ in network.own_operations()}
    found: list[MessageFlow] = []
    pending: defaultdict[Record, deque[MessageFlow]] = defaultdict(deque)
    before: State | None = None
    for number, step in enumerate(trace, start=1):
        operation = own.get(step.action)
        for mark, message, copies in messages_around_step(network, before, step.state, step.message):
            waiting = pending[message]
            while len(waiting) > copies:
                taken = waiting.popleft()
                taken.until, taken.fate = number, _fate_of_message(operation, message, step.message)
            if mark == "*" and operation is None and waiting:
                found.append(replace(waiting[0], fate=KEPT, until=number))
            while len(waiting) < copies:
                sent = number if before else 0
                ends = _source_and_dest(message, step.actor)
                waiting.append(MessageFlow(message, *ends, sent, is_copy=operation == "duplicate"))
                found.append(waiting[-1])
        before = step.state
    return sorted(found, key=lambda flow: flow.sent)


def _fate_of_message(operation: str | None, message: Record, delivered: Record | None) -> str:
    if operation is not None:
        return LOST
    return DELIVERED if message == delivered else DROPPED


def _source_and_dest(message: Record, actor: Any) -> tuple[str | None, str | None]:
    names = field_names(type(message))
    source = getattr(message, "source") if "source" in names else actor  # noqa: B009 - a field of some messages
    dest = getattr(message, "dest", None)
    return None if source is None else text_of(source), None if dest is None else text_of(dest)


MESSAGE_MARKS_LEGEND = "messages: - consumed, * delivered and kept, + sent, the others still under way"
COLUMNS_LEGEND = "messages: > sent, < delivered and consumed, * delivered and kept, x lost or dropped"
LEAST_COLUMN_CHARACTERS = 16
"""Minimum width of a column, in characters."""

_STYLE_OF_MARK = {"-": OLD, "+": NEW, "*": PLAIN, " ": FAINT}
_INDENT, _COLUMN_GAP = "    ", "  "
_MOST_UNTOUCHED_MESSAGES = 3
"""The maximum number of untouched messages to list; more are only counted."""

CellsOfReplicas = dict[str, list[str]]
"""The lines of each replica's column."""


class ViolationReason(NamedTuple):
    """The reason of a violation."""

    says: str  # the first paragraph of the property's docstring, in one line
    false_of: dict[str, Value]  # violating arguments by parameter of the property: ids of replicas, messages
    place: tuple[str, int] | None  # file and line of the property or of the failed `assert`; None for a deadlock
    because: tuple[str, ...] = ()  # "false: PART" or "true: CONDITION", with the values of its names


def violation_reason(protocol: Protocol, violation: Violation) -> ViolationReason:
    """Return the reason of a violation."""
    if violation.failed is not None:
        return _failed_assert_reason(violation.failed)
    prop = protocol.properties.get(violation.property)
    if violation.property == DEADLOCK or prop is None:
        return ViolationReason("every state has a successor", {}, None)
    says = inspect.cleandoc(prop.function.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    code = prop.function.__code__
    known = {} if violation.is_of_behaviours() else _violating_arguments(protocol, prop, violation)
    culprits = _replace_replicas_by_id(
        {
            name: known[name]
            for name in (*QUANTIFIED_PARAMETERS, STEP_PARAMETERS[0])
            if name in prop.asks and name in known
        }
    )
    asked = [known.get(name) for name in prop.asks]
    because = (
        why_property_is_false(prop.function, protocol, *asked)
        if known
        else _why_step_is_unmapped(protocol, prop, violation.trace)
    )
    return ViolationReason(says, culprits, (code.co_filename, code.co_firstlineno), because)


def _why_step_is_unmapped(protocol: Protocol, prop: Property, trace: Sequence[TraceStep]) -> tuple[str, ...]:
    """Return the reason why the last step of a behaviour maps to no abstract step; () if this is no refinement."""
    if prop.kind != REFINES:
        return ()
    from kraftcheck.spec.tla.state_conversion import TlaStateConverter  # few counterexamples are of a refinement
    from kraftcheck.traces.replay.divergence import DivergenceExplainer, DivergingState

    semantics, number = Semantics(protocol), len(trace)
    before, after = unmapped_last_step(semantics, prop, tuple(trace))
    other = Semantics(semantics.refinement(prop).other.protocol)
    view = TlaStateConverter(other.protocol)
    judge = DivergenceExplainer(other, view, "mapping")
    wanted = DivergingState(number, 1, number - 1, None, view.variables(after))
    divergence = judge.no_start(wanted, other.initial()) if before is None else judge.no_step(wanted, before)
    return (f"as a behaviour of {other.protocol.name()}: {divergence.reason}",)


def _replace_replicas_by_id(given: Mapping[str, Value]) -> dict[str, Value]:
    """Replace each replica among arguments by its id."""
    return {name: one if name == "message" else getattr(one, "id", one) for name, one in given.items()}


def _failed_assert_reason(error: RaisedError) -> ViolationReason:
    """Return the reason of a failed `assert`."""
    cause = error.cause
    says = f"AssertionError: {cause}" if str(cause) else "AssertionError"
    because = () if cause is None else why_assertion_failed(cause, error.place)
    return ViolationReason(
        f"{says} (line {error.place[1]})", _replace_replicas_by_id(error.given), error.place, because
    )


def _violating_arguments(protocol: Protocol, prop: Property, violation: Violation) -> dict[str, Value]:
    """Return the arguments that violate a property, keyed by parameter."""
    semantics, last = Semantics(protocol), violation.trace[-1]
    if prop.kind == REFINES:
        return {}
    if not prop.over_steps:
        return semantics.falsifying(prop, last.state) or {}
    before = violation.trace[-2].state
    for taken in semantics.transitions(before):
        is_last = (taken.action, taken.target) == (last.action, last.state)
        if is_last and not semantics.step_satisfies(prop, before, taken):
            return _violating_arguments_of_step(semantics, prop, before, taken)
    return {}


def _violating_arguments_of_step(
    semantics: Semantics, prop: Property, before: State, taken: Transition
) -> dict[str, Value]:
    """Return the arguments that violate a step property: the actor's, or those of the first violating replica."""
    if prop.of_actor:
        act = step_property_arguments(prop, before.replicas[taken.actor], taken.message, taken.step) or {}
        return {**act, "shared": before.shared}
    for key, after in taken.target.replicas.items():
        old = before.replicas.get(key)
        known = {"before": old, "after": after, "shared": before.shared}
        if old is not None and old != after and not semantics.verdict(prop, known):
            return known
    return {}


class ColumnLayout:
    """The layout of a trace with one column per replica. A column has the changes of its replica."""

    def __init__(self, protocol: Protocol, trace: Sequence[TraceStep], width: int) -> None:
        self._protocol = protocol
        names = [text_of(key) for key in ordered(trace[-1].state.replicas)]
        busy: set[str] = set()
        for before, step in pairwise(trace):
            cells, _ = self._cells(before, step)
            busy |= {name for name, lines in cells.items() if lines}
        self._shown = [name for name in names if name in busy] or names
        self._others = [name for name in names if name not in self._shown]
        room = width - len(_INDENT) - len(_COLUMN_GAP) * (len(self._shown) - 1)
        self._wide = max(LEAST_COLUMN_CHARACTERS, room // len(self._shown))

    def head(self) -> Iterator[Line]:
        """Yield the header: the names of the columns, and of the replicas without a column."""
        yield [(HEAD, _INDENT + _COLUMN_GAP.join(name.ljust(self._wide) for name in self._shown).rstrip())]
        if self._others:
            yield [(FAINT, f"{_INDENT}unchanged: {', '.join(self._others)}")]

    def step(self, before: TraceStep | None, step: TraceStep) -> Iterator[Line]:
        """Yield the lines of a step, or of the initial state."""
        cells, rest = self._initial(step) if before is None else self._cells(before, step)
        columns = [[line for text in cells.get(name, ()) for line in self._wrapped(text)] for name in self._shown]
        for row in zip_longest(*columns, fillvalue=""):
            parts: list[StyledText] = [(PLAIN, _COLUMN_GAP.join(cell.ljust(self._wide) for cell in row).rstrip())]
            yield [(PLAIN, _INDENT), *parts]
        yield from ([(PLAIN, f"{_INDENT}{text}")] for text in rest)

    def _wrapped(self, text: str) -> list[str]:
        return wrap(text, self._wide, subsequent_indent="  ") or [""]

    def _initial(self, step: TraceStep) -> tuple[CellsOfReplicas, list[str]]:
        cells = {}
        for key, replica in step.state.replicas.items():
            names = [name for name in field_names(type(replica)) if name != "id"]
            cells[text_of(key)] = [f"{name} {text_of(getattr(replica, name))}" for name in names]
        shared = step.state.shared
        return cells, [f"shared.{name}  {text_of(getattr(shared, name))}" for name in field_names(type(shared))]

    def _cells(self, before: TraceStep, step: TraceStep) -> tuple[CellsOfReplicas, list[str]]:
        """Return the changes of a step, grouped by replica, and the changes that belong to no replica."""
        cells: CellsOfReplicas = {text_of(key): [] for key in step.state.replicas}
        rest: list[str] = []
        under_way = 0
        for message in messages_around_step(self._protocol.network, before.state, step.state, step.message):
            if message.mark == " ":
                under_way += message.copies
                continue
            whose, line = self._message(message, step)
            cells.get(text_of(whose), rest).append(line)
        for change in state_changes(self._protocol, before.state, step.state):
            name = next((one for one in cells if f"{change.path}.".startswith(f"{one}.")), None)
            path = change.path if name is None else change.path.removeprefix(name).removeprefix(".")
            (rest if name is None else cells[name]).append(f"{path} {change.text}".strip())
        if under_way:
            rest.append(f"{under_way} still under way")
        return cells, rest

    def _message(self, found: MessageAroundStep, step: TraceStep) -> tuple[Value, str]:
        """Return the column and the line of a message that a step sends or takes."""
        kind, _, fields = message_columns(found.message)
        source, dest = (getattr(found.message, end, None) for end in ("source", "dest"))
        if found.mark == "+":
            whose, sign, way = source or step.actor, ">", "" if dest is None else f" to {text_of(dest)}"
        else:
            delivered = step.message == found.message and step.action not in self._protocol.network.own_actions()
            sign = "*" if found.mark == "*" else "<" if delivered else "x"
            whose, way = dest, "" if source is None else f" from {text_of(source)}"
        return whose, f"{sign} {kind}{way} {fields}".rstrip()


def counterexample_text(protocol: Protocol, violation: Violation) -> str:
    """Return a counterexample as plain text."""
    return lines_as_plain_text(counterexample_lines(protocol, violation))


def counterexample_lines(protocol: Protocol, violation: Violation, columns: int | None = None) -> Iterator[Line]:
    """Yield the lines of a counterexample."""
    what = "Deadlock" if violation.property == DEADLOCK else f"Counterexample to {violation.property}"
    if violation.failed is not None:
        what = f"An assert failed in {violation.property}"
    yield from behaviour_lines(protocol, violation.trace, what, columns)
    if violation.loop is not None:
        yield from _loop_lines(protocol, violation.trace[-1], violation.loop)
    yield from violation_reason_lines(protocol, violation)
    if violation.trap is not None:
        yield []
        where = f"From state {len(violation.trace)} on {violation.property} cannot be reached"
        yield [(HEAD, f"{where}: {dead_end_count_text(violation.trap)}")]
        without = protocol.properties[violation.property].without
        if without:
            yield [(FAINT, f"{_INDENT}no way out is {', '.join(without)}")]


def behaviour_lines(
    protocol: Protocol, trace: Sequence[TraceStep], what: str, columns: int | None = None
) -> Iterator[Line]:
    """Yield the lines of a behaviour."""
    yield [(HEAD, f"{what}, {count_with_noun(len(trace), 'state')}")]
    if any(step.state.inboxes for step in trace):
        yield [(FAINT, COLUMNS_LEGEND if columns else MESSAGE_MARKS_LEGEND)]
    table = ColumnLayout(protocol, trace, columns) if columns and trace[-1].state.replicas else None
    if table is not None:
        yield []
        yield from table.head()
    before: TraceStep | None = None
    for number, step in enumerate(trace, start=1):
        yield []
        yield _step_heading(protocol, number, step)
        yield from table.step(before, step) if table is not None else _step_lines(protocol, before, step)
        before = step


def _step_lines(protocol: Protocol, before: TraceStep | None, step: TraceStep) -> Iterator[Line]:
    yield from _change_lines(
        initial_state_fields(step.state) if before is None else state_changes(protocol, before.state, step.state)
    )
    if before is not None and step.state == before.state:
        yield [(FAINT, f"{_INDENT}nothing changes")]
    yield from _message_lines(protocol, before, step)


def _change_lines(found: Sequence[FieldChange]) -> Iterator[Line]:
    width = max((len(change.path) for change in found), default=0)
    yield from ([(PLAIN, f"{_INDENT}{change.path:{width}}  "), *change.parts] for change in found)


def _loop_lines(protocol: Protocol, last: TraceStep, loop: LassoCycle) -> Iterator[Line]:
    """Yield the end of a lasso: the closing step, its fairness, and the actions that never happen."""
    yield []
    if loop.again is None:
        fix = "" if loop.kept else '; to require a step, declare fairness: fair="weak" at its action'
        yield [(HEAD, "Stuttering"), (PLAIN, f"  nothing more happens after state {loop.back_to}{fix}")]
    else:
        heading = _step_heading(protocol, loop.back_to, loop.again)
        yield [(HEAD, f"Back to state {loop.back_to}"), *heading[1:]]
        yield from _change_lines(state_changes(protocol, last.state, loop.again.state))
        yield from _message_lines(protocol, last, loop.again)
    if loop.kept:
        yield [(FAINT, f"{_INDENT}fair, since for ever: {'; '.join(loop.kept)}")]
    for reason in loop.never:
        yield [(FAINT, f"{_INDENT}never: {reason}")]


def violation_reason_lines(protocol: Protocol, violation: Violation) -> Iterator[Line]:
    """Yield the claim of the property, the violating arguments, and the false parts."""
    found = violation_reason(protocol, violation)
    if violation.property == DEADLOCK or not (found.says or found.false_of or found.because):
        return
    yield []
    yield [(HEAD, violation.property), (PLAIN, "  "), (PLAIN, found.says)]
    yield from _violating_arguments_lines("failed" if violation.failed else "violated", found)


def _violating_arguments_lines(what: str, found: ViolationReason) -> Iterator[Line]:
    arguments = ", ".join(f"{name} = {text_of(value)}" for name, value in found.false_of.items())
    begin = f"{_INDENT}{violated_for_text(what, arguments)}"
    first, *more = map(reason_as_statement, found.because or ("",))
    if first:
        yield [(PLAIN, f"{begin}: "), (OLD, first)]
    elif arguments:
        yield [(PLAIN, begin)]
    yield from ([(OLD, f"{_INDENT}{_COLUMN_GAP}{part}")] for part in more)


def violated_for_text(what: str, arguments: str) -> str:
    """Return "violated for me = 1", or "violated" without arguments."""
    return f"{what} for {arguments}" if arguments else what


def reason_as_statement(part: str) -> str:
    """Return a part of `ViolationReason.because` as a statement about the violating state.

    >>> reason_as_statement("false: me.votes < 2  (me.votes = 2)"), reason_as_statement("true: me.is_leader")
    ('`me.votes < 2` is false  (me.votes = 2)', 'me.is_leader')
    """
    if not part.startswith("false: "):
        return part.removeprefix("true: ")
    text, gap, values = part.removeprefix("false: ").partition("  (")
    return f"`{text}` is false{gap}{values}"


def dead_end_count_text(trap: DeadEndCounts) -> str:
    """Return the number of dead-end states as text."""
    return f"{trap.states:,} of {count_with_noun(trap.among, 'state')} have no way out"


def _step_heading(protocol: Protocol, number: int, step: TraceStep) -> Line:
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
    found = messages_around_step(protocol.network, None if before is None else before.state, step.state, step.message)
    folded = 0 if before is None else _unlisted_message_count(found)
    shown = [(item, message_columns(item.message)) for item in (found[: len(found) - folded])]
    kinds, ways = (max((len(words[column]) for _, words in shown), default=0) for column in (0, 1))
    lines = [
        (_STYLE_OF_MARK[item.mark], f"{item.mark} {kind:{kinds}}  {way:{ways}}  {rest}{_copy_count_text(item)}")
        for item, (kind, way, rest) in shown
    ]
    lines += [(FAINT, f"  {folded} others still under way")] if folded else []
    label = "messages"
    for line in lines:
        yield [(FAINT, f"{_INDENT}{label:8}  "), line]
        label = ""


def _unlisted_message_count(found: Sequence[MessageAroundStep]) -> int:
    """Return the number of untouched messages, the last in `found`, if they are too many to list; else 0."""
    same = sum(item.mark == " " for item in found)
    return same if same > _MOST_UNTOUCHED_MESSAGES else 0


def _copy_count_text(message: MessageAroundStep) -> str:
    """Return the number of copies of a message as text; "" for the usual number."""
    if message.mark == "-":
        return f"  ({message.copies} left)" if message.copies else ""
    return f"  (x{message.copies})" if message.copies > 1 else ""

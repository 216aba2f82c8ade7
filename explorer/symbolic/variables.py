"""Variables of the diagrams, their order, and the numbers of their values; the encoding of states as vectors.

Each replica's local state, channel, shared field and bound has one variable. A channel holds the messages in flight
from one sender to one replica. The number 0 stands for no replica, an empty channel, or a field's
first value; diagrams omit it.

Sets that cause most of a local state's many values are exploded: one Boolean variable for each possible element. The
rest of the local state is its *core*. A handler or property gets read-tracking proxies for the sets, and each
membership test is recorded. A comparison stops at the first element that decides it. So `me.prepared ==
self.resource_managers` of two-phase commit has as many cases as elements, not as many as subsets. A use that a proxy
cannot follow raises `OpaqueSetRequired` with the field. The search then restarts with that field's sets opaque.

The order is: for each replica, its channels with the replicas before it, then its local state; shared fields and bounds
come last. The membership of a replica in a set of an earlier replica stands beside the member's local state.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple, NoReturn

from kraftcheck.explorer.calls.proxies import DeltaStep, IsElement, SetChange, SetProxy, UnansweredRead, unwrap
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.state import State, Step
from kraftcheck.spec.values import (
    Map,
    Record,
    Value,
    field_names,
    field_types,
    may_conflate_values,
    ordered,
    text_of,
    type_distinguishing_key,
)


class OpaqueSetRequired(UnansweredRead):
    """Raised for a use that needs a whole exploded set."""

    def __init__(self, field: str) -> None:
        super().__init__(field)
        self.field = field


class ExplodedSetPlaceholder:
    """Placeholder for an exploded set in a local state."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "..."


EXPLODED_SET_PLACEHOLDER = ExplodedSetPlaceholder()


def copy_with_fields_unchecked(record: Record, changes: dict[str, Any]) -> Any:
    """Return a copy of a record with other values in some fields, without calling its constructor."""
    copy = object.__new__(type(record))
    copy.__dict__.update({name: changes.get(name, record.__dict__[name]) for name in field_names(type(record))})
    return copy


class RefusingSetProxy:
    """Stand-in for an exploded set; raises OpaqueSetRequired on every use."""

    __slots__ = ("_field",)

    def __init__(self, field: str) -> None:
        object.__setattr__(self, "_field", field)


def _refuse_opaque_use(self: RefusingSetProxy, *_: object) -> NoReturn:
    raise OpaqueSetRequired(object.__getattribute__(self, "_field"))


for _name in (*dir(SetProxy), "__getattribute__", "__setattr__", "__ne__", "__str__", "__format__"):
    if callable(getattr(frozenset, _name, None)) and _name not in ("__class__", "__new__", "__init__", "__slots__"):
        setattr(RefusingSetProxy, _name, _refuse_opaque_use)


class LocalStateWithSetProxies:
    """One replica's local state with proxies for its exploded sets, for one call of a handler or property."""

    def __init__(self, core: Record, sets: Mapping[str, Sequence[Value]], has: Callable[[str, Value], bool]) -> None:
        self._has: dict[str, IsElement] = {name: lambda element, name=name: has(name, element) for name in sets}  # type: ignore[misc]
        self._sets = sets
        self.me = copy_with_fields_unchecked(core, {name: SetProxy(sets[name], self._has[name]) for name in sets})

    def steps(self, made: Iterable[Any]) -> Iterator[Any]:
        """Yield a handler's steps, with the changes of exploded sets apart from the local state, without duplicates."""
        before: list[DeltaStep] = []
        for step in made:
            if not isinstance(step, Step):
                yield step
                return
            new = self._step(step)
            if not any(self._is_same(new, old) for old in before):
                before.append(new)
                yield new

    def _step(self, step: Step) -> DeltaStep:
        parts = {name: unwrap(getattr(step, name)) for name in field_names(Step) if name != "me"}
        me = step.me
        if type(me) is not type(self.me):  # such as the default, the empty tuple
            return DeltaStep(me=unwrap(me), **parts)
        changed, shown = [], {}
        for name in self._sets:
            change = self._change_of(name, getattr(me, name))
            if change.added or change.removed or change.removed is None:
                changed.append((name, change))
            shown[name] = change.added
        return DeltaStep(me=unwrap(copy_with_fields_unchecked(me, shown)), sets=tuple(changed), **parts)

    def _change_of(self, name: str, value: Any) -> SetChange:
        if not isinstance(value, frozenset):
            raise OpaqueSetRequired(name)
        change = value.changes(self._has[name]) if isinstance(value, SetProxy) else None
        return SetChange(frozenset(value), None) if change is None else change

    def _is_same(self, one: DeltaStep, other: DeltaStep) -> bool:
        """Whether two steps have the same effect on the exploded sets and on the rest of the state."""
        if one.me == () or other.me == () or one.sets == other.sets:
            return one == other
        cores = [
            step.but(me=copy_with_fields_unchecked(step.me, dict.fromkeys(self._sets)), sets=())
            for step in (one, other)
        ]
        return cores[0] == cores[1] and all(
            self._after(one, name, element) == self._after(other, name, element)
            for name in self._sets
            for element in {*self._sets[name], *self._added(one, name), *self._added(other, name)}
        )

    def _added(self, step: DeltaStep, name: str) -> frozenset[Value]:
        change = dict(step.sets).get(name)
        return frozenset() if change is None else change.added

    def _after(self, step: DeltaStep, name: str, element: Value) -> bool:
        """Whether the exploded set in the field `name` contains an element after a step."""
        change = dict(step.sets).get(name)
        if change is not None and (change.removed is None or element in change.added or element in change.removed):
            return element in change.added
        return element in self._sets[name] and self._has[name](element)


class VariableKind:
    """Kinds of variables, as a checkpoint names them."""

    LOCAL, CHANNEL, SHARED, BOUND, MEMBER = "local", "channel", "shared", "bound", "part"


ANY_SENDER = "anyone"  # the sender of an inbox that is not divided into channels
NO_SENDER = "nobody"  # the sender of messages without the field `source`
FEWEST_VALUES_TO_EXPLODE = 64  # values of a local state before its sets may be exploded
FEWEST_SET_VALUES_TO_EXPLODE, FEWEST_STATES_A_CORE = 16, 8
"""Fewest values of a set to explode, and fewest local states for each core."""


class LayoutChanged(Exception):  # noqa: N818 - a way out of a search, not an error
    """The variables must change; the search restarts with the new layout."""


class VariableKey(NamedTuple):
    """Identity of a variable: its kind; its replica, field or bound; for a channel also the sender.

    For a set membership, `sender` holds the field and the element.
    """

    kind: str
    of: Value
    sender: Value = None


class VariableLayout:
    """The variables that a search needs; it grows while the protocol is learned."""

    def __init__(self, protocol: Protocol, *, whole_inboxes: bool) -> None:
        self.replicas: list[Value] = []
        self.first: list[Value] = []  # replicas of the initial states, in their order
        self.senders: list[Value] = []
        self.exploded: dict[tuple[Value, str], list[Value]] = {}
        self.opaque: set[str] = set()
        self.order: tuple[VariableKey, ...] = ()
        self.limits: Mapping[str, int] = {}
        self.divided = not whole_inboxes and protocol.network.rule_of("discard", Record()) is not None

    def arranged(self, order: tuple[VariableKey, ...], limits: Mapping[str, int]) -> VariableLayout:
        """Return a copy of the layout with another variable order and smaller bounds."""
        copied = deepcopy(self)
        copied.order, copied.limits = order, limits
        return copied

    @property
    def in_order(self) -> list[Value]:
        """The replicas in the order of maps, that of the initial states."""
        return [*dict.fromkeys((*self.first, *self.replicas))]

    def require_replicas(self, keys: Iterable[Value]) -> bool:
        """Add replicas and message destinations to the layout; return whether one of them is new."""
        new = [key for key in keys if key not in self.replicas]
        self.replicas += new
        return bool(new)

    def explode(self, replica: Value, field: str, elements: Iterable[Value]) -> None:
        """Add elements to the exploded sets of a field; an element that is a replica adds all replicas of its type."""
        new, known = list(elements), self.exploded.setdefault((replica, field), [])
        if any(one in self.replicas for one in new):
            kinds = {type(one) for one in new}
            new += [one for one in self.replicas if type(one) in kinds]
        known += [one for one in ordered(set(new)) if one not in known]
        self.replicas.sort(key=lambda one: all(one != owner for owner, _ in self.exploded))  # owners first

    def make_opaque(self, field: str) -> None:
        """Mark the sets of a field as opaque: they are not exploded."""
        self.opaque.add(field)
        self.exploded = {key: elements for key, elements in self.exploded.items() if key[1] != field}

    def fields(self, replica: Value) -> tuple[str, ...]:
        """Return the fields of a replica that have exploded sets."""
        return tuple(field for owner, field in self.exploded if owner == replica)

    def _memberships_beside(self, replica: Value) -> Iterator[VariableKey]:
        """Yield the set memberships that come directly before a replica's local state in the variable order."""
        place = self.replicas.index(replica)
        for (owner, field), elements in self.exploded.items():
            for element in elements:
                is_later = element in self.replicas and self.replicas.index(element) > self.replicas.index(owner)
                if (self.replicas.index(element) if is_later else self.replicas.index(owner)) == place:
                    yield VariableKey(VariableKind.MEMBER, owner, (field, element))

    def keys(self, shared: Sequence[str], bounds: Sequence[str]) -> list[VariableKey]:
        """Return the keys of all variables, in the variable order."""
        result = []
        for place, replica in enumerate(self.replicas):
            if self.divided:
                for other in self.replicas[:place]:
                    pairs = (replica, other), (other, replica)
                    result += [VariableKey(VariableKind.CHANNEL, *pair) for pair in pairs]
                result += [VariableKey(VariableKind.CHANNEL, replica, sender) for sender in (*self.senders, replica)]
            else:
                result.append(VariableKey(VariableKind.CHANNEL, replica, ANY_SENDER))
            result += [*self._memberships_beside(replica), VariableKey(VariableKind.LOCAL, replica)]
        result += [VariableKey(VariableKind.SHARED, name) for name in shared]
        result += [VariableKey(VariableKind.BOUND, name) for name in bounds]
        return list(self.order) if set(self.order) == set(result) else result


class DiagramVariables:
    """The variables of one search, with the numbers of their values."""

    def __init__(self, protocol: Protocol, layout: VariableLayout, starts: Sequence[State]) -> None:
        self.protocol = protocol
        self.limits = {**protocol.bounds, **layout.limits}
        self.network = protocol.network
        self.layout = layout
        self.shared_type = type(starts[0].shared)
        self.shared_names = field_names(self.shared_type)
        self.bounds = list(protocol.bounds)
        self.always = set.intersection(*[set(state.replicas) for state in starts])  # the replicas of all initial states
        self.keys = layout.keys(self.shared_names, self.bounds)
        self.levels = {key: level for level, key in enumerate(self.keys)}
        self.values: list[list[Any]] = [[] for _ in self.keys]
        self._numbers: list[dict[Any, int]] = [{} for _ in self.keys]
        for level in range(len(self.keys)):
            for value in self.standard(level):
                self.number(level, value)

    def standard(self, level: int) -> list[Any]:
        """Return the predefined values of a variable, which are numbered first: False and True of a set membership."""
        key = self.keys[level]
        if key.kind == VariableKind.BOUND:
            return list(range(self.protocol.bounds[key.of] + 1))
        first: dict[str, list[Any]] = {VariableKind.LOCAL: [None], VariableKind.MEMBER: [False, True]}
        return first.get(key.kind, [self.network.empty] if key.kind == VariableKind.CHANNEL else [])

    def number(self, level: int, value: Value) -> int:
        """Return the number of a value at a level; add the value if it is new."""
        numbers, kind = self._numbers[level], self.keys[level].kind
        key = type_distinguishing_key(value) if kind == VariableKind.SHARED else value
        found = numbers.get(key)
        if found is None:
            found = numbers[key] = len(numbers)
            self.values[level].append(value)
            if kind == VariableKind.LOCAL and found >= FEWEST_VALUES_TO_EXPLODE and found & (found - 1) == 0:
                self._explode_sets(level)
        return found

    def name(self, level: int) -> str:
        """Return the name of a variable in notes."""
        key = self.keys[level]
        if key.kind == VariableKind.MEMBER:
            return f"whether {text_of(key.sender[1])} is in {key.sender[0]} of {text_of(key.of)}"
        sender = "" if key.kind != VariableKind.CHANNEL or key.sender == ANY_SENDER else f" from {text_of(key.sender)}"
        what = {
            VariableKind.LOCAL: "the state of",
            VariableKind.CHANNEL: "the messages to",
            VariableKind.SHARED: "the field",
            VariableKind.BOUND: "the bound",
        }[key.kind]
        return f"{what} {text_of(key.of)}{sender}"

    def local(self, replica: Value) -> int:
        """Return the level of a replica's local state; raise LayoutChanged if there is none yet."""
        level = self.levels.get(VariableKey(VariableKind.LOCAL, replica))
        if level is None:
            self.layout.require_replicas([replica])
            raise LayoutChanged
        return level

    def channel(self, message: Record) -> int:
        """Return the level of a message's channel; raise LayoutChanged if there is none yet."""
        destination, sender = message.dest, ANY_SENDER  # type: ignore[attr-defined]
        if self.layout.divided:
            queue = self.network.queue(message)
            sender = getattr(message, "source", NO_SENDER) if queue is None else queue
        self.local(destination)
        level = self.levels.get(VariableKey(VariableKind.CHANNEL, destination, sender))
        if level is None:
            self.layout.senders.append(sender)
            raise LayoutChanged
        return level

    def bound(self, name: str) -> int:
        """Return the level of a bound."""
        return self.levels[VariableKey(VariableKind.BOUND, name)]

    def channels_to(self, replica: Value) -> list[int]:
        """Return the levels of all channels to a replica."""
        return [level for level, key in enumerate(self.keys) if key.kind == VariableKind.CHANNEL and key.of == replica]

    def shared(self, name: str) -> int:
        """Return the level of a shared field."""
        return self.levels[VariableKey(VariableKind.SHARED, name)]

    # Exploded sets

    def _explode_sets(self, level: int) -> None:
        """Explode sets, and raise LayoutChanged, if local states without them have far fewer values."""
        layout, replica, values = self.layout, self.keys[level].of, self.values[level][1:]
        if len(set(map(type, values))) > 1:
            return
        sets = {name: {getattr(value, name) for value in values} for name in field_names(type(values[0]))}
        sets = {name: found for name, found in sets.items() if set(map(type, found)) == {frozenset}}
        whole = layout.opaque | {
            name for name, kind in field_types(type(values[0])).items() if may_conflate_values(kind)
        }
        names = [one for one, found in sets.items() if len(found) >= FEWEST_SET_VALUES_TO_EXPLODE and one not in whole]
        cores = {copy_with_fields_unchecked(value, dict.fromkeys(names, EXPLODED_SET_PLACEHOLDER)) for value in values}
        if names and len(values) >= FEWEST_STATES_A_CORE * len(cores):
            for name in names:
                layout.explode(replica, name, frozenset[Value]().union(*sets[name]))
            raise LayoutChanged

    def membership(self, replica: Value, field: str, element: Value) -> int:
        """Return the level of a set membership; raise LayoutChanged if there is none yet."""
        level = self.levels.get(VariableKey(VariableKind.MEMBER, replica, (field, element)))
        if level is None:
            self.layout.explode(replica, field, [element])
            raise LayoutChanged
        return level

    def sets(self, replica: Value) -> dict[str, list[Value]]:
        """Return the possible elements of a replica's exploded sets, by field."""
        return {field: [*self.layout.exploded[replica, field]] for field in self.layout.fields(replica)}

    def sets_of(self, local: Any) -> dict[str, list[Value]]:
        """Return the possible elements of a local state's exploded sets, by field."""
        sets = self.sets(local.id)
        for field in sets:
            if not isinstance(getattr(local, field, None), frozenset):
                raise OpaqueSetRequired(field)
        return sets

    def core(self, local: Value, changed: Iterable[tuple[str, SetChange]] = ()) -> Value:
        """Return a local state with each exploded set replaced by a placeholder, or by its change in `changed`."""
        fields = self.layout.fields(local.id)
        for field in fields:
            if field not in field_names(type(local)):
                raise OpaqueSetRequired(field)
        return (
            copy_with_fields_unchecked(local, dict.fromkeys(fields, EXPLODED_SET_PLACEHOLDER) | dict(changed))
            if fields
            else local
        )

    def emptied(self, value: Value) -> Value:
        """Return a local state with empty sets in place of its placeholders; return any other value unchanged."""
        fields = self.layout.fields(getattr(value, "id", None)) if isinstance(value, Record) else ()
        held = {name for name in fields if getattr(value, name, None) is EXPLODED_SET_PLACEHOLDER}
        return copy_with_fields_unchecked(value, dict.fromkeys(held, frozenset())) if held else value

    def guarded(self, local: Value) -> Value:
        """Return a local state, or a step, whose exploded sets raise OpaqueSetRequired on every use."""
        if not self.layout.exploded or not isinstance(local, Record):
            return local
        if isinstance(local, Step):
            return local.but(me=self.guarded(local.me))
        fields = self.layout.fields(getattr(local, "id", None))
        return (
            copy_with_fields_unchecked(local, {field: RefusingSetProxy(field) for field in fields}) if fields else local
        )

    def memberships(self, local: Value) -> dict[int, int]:
        """Return the set memberships of a local state's exploded sets, by level."""
        parts = self.sets_of(local)
        found = {self.membership(local.id, field, one): 0 for field, elements in parts.items() for one in elements}
        return found | {self.membership(local.id, field, one): 1 for field in parts for one in getattr(local, field)}

    # States

    def encode(self, state: State) -> list[int]:
        """Return the vector of a state."""
        vector = [0] * len(self.keys)
        for replica, local in state.replicas.items():
            level = self.local(replica)
            vector[level] = self.number(level, self.core(local))
            for level, number in self.memberships(local).items():
                vector[level] = number
        for destination, inbox in state.inboxes.items():
            self.local(destination)
            for level, part in self._parts(destination, inbox):
                vector[level] = self.number(level, part)
        for name in self.shared_names:
            level = self.shared(name)
            vector[level] = self.number(level, getattr(state.shared, name))
        for name in self.bounds:
            vector[self.bound(name)] = state.spent[name]
        return vector

    def _parts(self, destination: Value, inbox: Value) -> list[tuple[int, Value]]:
        """Divide an inbox into its channels; return each as (level, content)."""
        if not self.layout.divided:
            return [(self.levels[VariableKey(VariableKind.CHANNEL, destination, ANY_SENDER)], inbox)]
        parts: dict[int, list[tuple[Record, int]]] = {}
        for message, number in self.network.to_items(inbox):
            parts.setdefault(self.channel(message), []).append((message, number))
        return [(level, self.network.from_items(items)) for level, items in parts.items()]

    def _whole(self, parts: Sequence[Value]) -> Value:
        """Merge the contents of non-empty channels into one inbox."""
        if len(parts) == 1:
            return parts[0]
        return self.network.from_items(item for part in parts for item in self.network.to_items(part))

    def decode(self, vector: Sequence[int]) -> State:
        """Return the state of a vector."""
        found: dict[Any, list[tuple[VariableKey, Any]]] = defaultdict(list)  # by kind, without absent values
        for key, values, number in zip(self.keys, self.values, vector, strict=True):
            if number or key.kind in (VariableKind.SHARED, VariableKind.BOUND):
                found[key.kind].append((key, values[number]))
        held = {key.of: value for key, value in found[VariableKind.LOCAL]}
        replicas: dict[Value, Any] = {one: held[one] for one in self.layout.in_order if one in held}
        parts, sets = defaultdict[Value, list[Value]](list), defaultdict[Any, list[Value]](list)
        for key, value in found[VariableKind.CHANNEL]:
            parts[key.of].append(value)
        for key, _ in found[VariableKind.MEMBER]:
            sets[key.of, key.sender[0]].append(key.sender[1])
        for owner, field in self.layout.exploded:
            if owner in replicas:
                replicas[owner] = copy_with_fields_unchecked(replicas[owner], {field: frozenset(sets[owner, field])})
        inboxes = {replica: self._whole(contents) for replica, contents in parts.items()}
        shared = {key.of: value for key, value in found[VariableKind.SHARED]}
        spent = {key.of: value for key, value in found[VariableKind.BOUND]}
        return State(Map(replicas), Map(inboxes), self.shared_type(**shared), Map(spent))


def initial_layout(protocol: Protocol, starts: Sequence[State], *, whole_inboxes: bool) -> VariableLayout:
    """Return the initial layout: the replicas of the initial states, reversed if all are of one type."""
    layout = VariableLayout(protocol, whole_inboxes=whole_inboxes)
    for state in starts:
        layout.require_replicas(ordered(state.replicas))
        layout.require_replicas(ordered(state.inboxes))
        layout.first += state.replicas
    if len(set(map(type, layout.replicas))) == 1:
        layout.replicas.reverse()  # of equal replicas the first often changes most, and should stand low in the diagram
    return layout

"""Read log of one call: hands out read-tracking proxies, and records the path of reads for a decision tree.

Steps come out as deltas of the fields of peers and the elements of shared sets. One memoized outcome then applies
to any value of the rest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache, partial
from typing import Any, NamedTuple

from kraftcheck.explorer.calls.conjuncts import NeedsWholeError
from kraftcheck.explorer.calls.handlers import Calls
from kraftcheck.explorer.calls.proxies import (
    ABSENT,
    DeltaStep,
    Fields,
    Has,
    LocalProxy,
    Names,
    PeerProxy,
    ProjectionProxy,
    SetChange,
    SetProxy,
    SharedProxy,
    StateProxy,
    unwrap,
)
from kraftcheck.explorer.tables.kernel.codes import INBOX_QUERY, LOCAL_QUERY, ME, PEER, SHARED, SHARED_QUERY
from kraftcheck.explorer.tables.learning.interner import Interner
from kraftcheck.explorer.tables.learning.queries import CLASS, ITSELF, PRESENT, WHOLE, Key, Query, ValueQueries
from kraftcheck.explorer.tables.learning.shared_sets import KnownElements, Passes
from kraftcheck.spec.kinds import may_be_record
from kraftcheck.spec.language.declarations import NOT_PROJECTED, Action, Projection, Property
from kraftcheck.spec.language.state import Step
from kraftcheck.spec.values import Map, Record, Value, field_names, field_types


class Source(NamedTuple):
    """A record whose fields are read: the queries that read it, and the query of the whole with its answer."""

    record: Record
    queries: ValueQueries
    place: int  # the id of the record
    kind: int  # of the queries' nodes
    at: int  # their second argument
    whole: tuple[Query, int]

    def query(self, key: Key) -> Query:
        """Return a query, which may never have been asked."""
        return self.kind, self.queries.known(key), self.at


class ReadLog:
    """The reads of one call, and the proxies that record them."""

    def __init__(
        self,
        interner: Interner,
        row: int,
        inboxes: list[int],
        by_field: bool = True,
        me_by_field: bool = True,
    ) -> None:
        self.by_field, self._me_by_field = by_field, me_by_field
        self.used_proxies = False
        self._sets: dict[str, tuple[SetProxy, Has]] = {}
        self.awaited: dict[tuple[int, Value], Passes | None] = {}
        self.path: dict[Query, int] = {}
        self._interner = interner
        self._control = interner.values_of_control_row(row)
        self._inboxes = inboxes

    def _note(self, query: Query, answer: int) -> None:
        self.path.setdefault(query, answer)

    def arguments(self, owner: Action | Property) -> dict[str, Value]:
        """Return the shared state and the projections that an action or a property takes, as proxies."""
        assert self._interner.shared.type is not None
        given: dict[str, Value] = {read.name: self._projection(read) for read in owner.reads if read.name in owner.asks}
        given["shared"] = SharedProxy(self._interner.shared.type, self._read_shared)
        if "state" in owner.asks:
            given["state"] = StateProxy(partial(self._read_state, owner.name, given["shared"]))
        return given

    def _read_state(self, owner: str, shared: Value, name: str) -> Value:
        """Return a part of the state as a proxy."""
        interner = self._interner
        if name == "inboxes" or not self.by_field:
            raise NeedsWholeError(owner)
        if name == "shared":
            return shared
        if name == "spent":
            for column in range(len(interner.bounds)):
                self._note((SHARED, column, 0), self._control[column])
            return Map(zip(interner.bounds, self._control, strict=False))
        query = interner.queries.number(("own", ""), lambda _: ITSELF)
        return ProjectionProxy(interner.slots, partial(self._read_part, query))

    def _read_shared(self, name: str) -> Value:
        """Return a shared field, and record the read."""
        interner = self._interner
        index = interner.shared.names.index(name)
        column = len(interner.bounds) + index
        if index in interner.shared.sets.elements:
            self._note((SHARED, column, 0), self._control[column])  # so that the path is never empty
            found = self._set(index)
            return found if self.by_field else frozenset(found)
        value = interner.shared.values[index][self._control[column]]
        if self.by_field and index in interner.shared.records:
            self._note_shared(index, CLASS, _class)  # its answer also decides whether the value is a record
            if isinstance(value, Record):
                self.used_proxies = True
                return LocalProxy(value, partial(self._read_field, self._shared_source(index, value), ()))
        self._note((SHARED, column, 0), self._control[column])
        return value

    def _set(self, index: int) -> SetProxy:
        """Return a proxy for an exploded shared set."""
        name = self._interner.shared.names[index]
        if name not in self._sets:
            sets, self.used_proxies = self._interner.shared.sets, True

            def has(element: Value) -> bool:
                column = sets.column(index, element)
                self._note((SHARED, column, 0), self._control[column])
                return self._control[column] == 1

            def note(key: Value, passes: Passes | None) -> None:
                self.awaited.setdefault((index, key), passes)

            self._sets[name] = SetProxy(KnownElements(sets.elements[index], note), has), has
        return self._sets[name][0]

    def change_of(self, name: str, value: Any, *, is_minimal: bool = False) -> SetChange | None:
        """Return the change that a step makes to an exploded shared set, or None for a plain value."""
        if type(value) is not SetProxy or name not in self._sets:
            return None
        has = self._sets[name][1]
        change = value.changes(has)
        return change if change is None or not is_minimal else value.minimal().changes(has)

    def _shared_source(self, index: int, value: Record) -> Source:
        column, queries = len(self._interner.bounds) + index, self._interner.shared.queries[index]
        answer = self._control[column]
        return Source(value, queries, answer, SHARED_QUERY, column, ((SHARED, column, 0), answer))

    def _note_shared(self, index: int, key: Key, function: Callable[[Any], Value]) -> None:
        queries, column = self._interner.shared.queries[index], len(self._interner.bounds) + index
        query = queries.number(key, function)
        self._note((SHARED_QUERY, query, column), queries.answer(query, self._control[column]))

    def _projection(self, read: Projection) -> ProjectionProxy:
        """Return a proxy for a projection of all replicas."""
        project = partial(self._interner.protocol.projected, read)
        if read.of_inbox:
            query = self._interner.inboxes.queries.number(read.name, project)
            return ProjectionProxy(self._interner.slots, partial(self._read_inbox, query))
        if self.by_field:
            query = self._interner.queries.number(("own", read.name), partial(_unless_itself, project))
            return ProjectionProxy(self._interner.slots, partial(self._read_part, query))
        query = self._interner.queries.number(("projection", read.name), project)
        return ProjectionProxy(self._interner.slots, partial(self._read_replica, query))

    def _read_part(self, query: int, key: Value) -> Any:
        """Return a projection of a replica; a whole replica becomes a proxy that records the fields read."""
        answer = self._read_replica(query, key)
        if answer is not ITSELF:
            return answer
        slot = self._interner.slots[key]
        local = self._control[self._interner.base + slot]
        self._ask_local(CLASS, _class, slot, local)
        self.used_proxies = True
        source = self._local_source(slot, local)
        return PeerProxy(key, source.record, partial(self._read_field, source, ()))

    def _read_replica(self, query: int, key: Value) -> Any:
        """Return a query's answer for a replica, or `ABSENT`."""
        queries, slot = self._interner.queries, self._interner.slots[key]
        local = self._control[self._interner.base + slot]
        answer = queries.answer(query, local)
        self._note((LOCAL_QUERY, query, slot), answer)
        value = queries.value(query, answer) if local else ABSENT
        return ABSENT if value is NOT_PROJECTED else value

    def _read_inbox(self, query: int, key: Value) -> Any:
        """Return a query's answer for a replica's inbox, or `ABSENT`."""
        queries, slot = self._interner.inboxes.queries, self._interner.slots[key]
        if self._read_replica(self._interner.queries.number(PRESENT, lambda _: True), key) is ABSENT:
            return ABSENT
        answer = queries.answer(query, self._inboxes[slot] if slot < len(self._inboxes) else 0)
        self._note((INBOX_QUERY, query, slot), answer)
        return queries.value(query, answer)

    def steps(self, calls: Calls, action: Action, me: Any, message: Any, *, tracks: bool) -> list[Step]:
        """Call an action, and record its reads; return its steps, as deltas if `tracks` is set."""
        given = self.arguments(action)
        steps = calls.steps(
            action,
            me,
            message,
            given,
            partial(self.whole, action),
            partial(_deltas, log=self, tracks=tracks) if self.by_field else None,
            filters=bool(self._interner.shared.sets.elements),
        )
        is_part_of_steps = any(isinstance(one, ProjectionProxy) and one.was_read_whole for one in given.values())
        return [unwrap(step) for step in steps] if is_part_of_steps else steps

    def holds(self, calls: Calls, prop: Property, me: int, peer: int) -> bool:
        """Evaluate a property of local states `me` and `peer`, and record its reads; return whether it holds."""
        given = self.arguments(prop)
        names = {ME: "before", PEER: "after"} if prop.over_steps else {ME: "me", PEER: "peer"}
        for role, local in ((ME, me), (PEER, peer)):
            name = names[role]
            if name not in prop.asks:
                continue
            given[name] = self._local(prop, role, local)
            if not isinstance(given[name], prop.kinds(name)):
                return True
        if not self.by_field or not self._interner.shared.sets.elements:
            return calls.holds(prop, given)
        roles = (("before", me), ("me", me), ("after", peer), ("peer", peer))
        plain = {name: self._interner.locals[local] for name, local in roles}
        return calls.holds(prop, given, lambda: self.whole(prop) | plain)

    def _local(self, prop: Property, role: int, local: int) -> Any:
        """Return the replica that a property takes, as a record or a proxy."""
        record = self._interner.locals[local]
        if not self.by_field or not (self._me_by_field or "peer" in prop.asks or prop.over_steps):
            self._note((LOCAL_QUERY, WHOLE, role), self._interner.queries.answer(WHOLE, local))
            return record
        self.used_proxies = True
        self._ask_local(CLASS, _class, role, local)
        return LocalProxy(record, partial(self._read_field, self._local_source(role, local), ()))

    def whole(self, owner: Action | Property) -> dict[str, Value]:
        """Return the arguments of an action or a property as plain values, and record nothing."""
        interner, control = self._interner, self._control
        given: dict[str, Value] = {"shared": interner.shared.record_of(control)}
        inboxes = self._inboxes + [0] * len(interner.slots)
        here = [(key, slot, local) for key, slot in interner.slots.items() if (local := control[interner.base + slot])]
        for read in owner.reads:
            decode = interner.inboxes.decode_content
            sources = [decode(inboxes[s]) if read.of_inbox else interner.locals[local] for _, s, local in here]
            found = [interner.protocol.projected(read, source) for source in sources]
            pairs = zip([key for key, _, _ in here], found, strict=True)
            given[read.name] = Map((key, value) for key, value in pairs if value is not NOT_PROJECTED)
        return given

    def _local_source(self, role: int, local: int) -> Source:
        queries = self._interner.queries
        whole = (LOCAL_QUERY, WHOLE, role), queries.answer(WHOLE, local)
        return Source(self._interner.locals[local], queries, local, LOCAL_QUERY, role, whole)

    def _read_field(self, source: Source, outer: Names, inner: Names) -> LocalProxy | None:
        """Record the read of a field, or of the whole record at `outer`; return a proxy if the field is a record."""
        path = (*outer, *inner)
        if source.whole[0] in self.path or any(
            source.query(("field", *path[:end])) in self.path for end in range(1, len(path))
        ):
            return None  # a helper with a cache may skip further reads, so none of them is part of the path
        if not path:
            self._note(*source.whole)
            return None
        if inner and _may_hold_record(_at(path[:-1], source.record).__class__, path[-1]):
            self._ask(source, ("class", *path), partial(_class_at, path))
            value = _at(path, source.record)
            if isinstance(value, Record):
                self.used_proxies = True
                return LocalProxy(value, partial(self._read_field, source, path))
        self._ask(source, ("field", *path), partial(_at, path))
        return None

    def _ask(self, source: Source, key: Key, function: Callable[[Any], Value]) -> None:
        number = source.queries.number(key, function)
        self._note((source.kind, number, source.at), source.queries.answer(number, source.place))

    def _ask_local(self, key: Key, function: Callable[[Any], Value], role: int, local: int) -> None:
        queries = self._interner.queries
        query = queries.number(key, function)
        self._note((LOCAL_QUERY, query, role), queries.answer(query, local))


def _at(path: Names, record: Record) -> Any:
    """Return the value of a field, given its path; () if there is none."""
    value: Any = record
    for name in path:
        value = getattr(value, name, ())
    return value


@cache
def _may_hold_record(kind: type[Record], field: str) -> bool:
    with suppress(NameError):  # of an annotation that does not resolve
        return may_be_record(field_types(kind)[field])
    return False


def _class_at(path: Names, record: Record) -> Value:
    return _class(_at(path, record))


def _class(record: Record) -> Value:
    return f"{type(record).__module__}.{type(record).__qualname__}"


def _unless_itself(project: Callable[[Record], Value], record: Record) -> Value:
    """Return the projection of a record, or `ITSELF` if the projection is the record itself."""
    value = project(record)
    return ITSELF if value is record else value


def _deltas(made: Iterable[Any], log: ReadLog, *, tracks: bool) -> list[Any]:
    """Return a handler's steps without proxies, as deltas if `tracks` is set.

    Two steps may become equal for some values of the replicas that they write. Both then keep these replicas whole.
    """
    steps = list(made)
    if not log.used_proxies or not all(isinstance(step, Step) for step in steps):
        return steps
    if not (tracks and _have_changes(steps, log)):
        return [unwrap(step) for step in steps]
    rests = [_rest(step, log) for step in steps]
    alike = defaultdict(set)
    for step, rest in zip(steps, rests, strict=True):
        alike[rest].add((_peers(step), _sets(step, log)))
    return [_delta(step, rest, log, is_sure=len(alike[rest]) == 1) for step, rest in zip(steps, rests, strict=True)]


def _have_changes(steps: list[Step], log: ReadLog) -> bool:
    """Return whether a step changes fields of a peer's proxy, or an exploded set."""
    changes = (log.change_of(name, value) for step in steps for name, value in step.puts)
    return any(_is_changed(one) for step in steps for one in step.writes) or any(one is not None for one in changes)


def _rest(step: Step, log: ReadLog) -> Step:
    """Return a step without its changes of peers and of exploded sets."""
    parts = {name: unwrap(getattr(step, name)) for name in field_names(Step) if name not in ("writes", "puts")}
    writes = tuple(one._key if _is_changed(one) else unwrap(one) for one in step.writes)
    puts = tuple((name, unwrap(value) if log.change_of(name, value) is None else None) for name, value in step.puts)
    return Step(**parts, writes=writes, puts=puts)


def _delta(step: Step, rest: Step, log: ReadLog, *, is_sure: bool) -> DeltaStep:
    sets = dict(_sets(step, log, is_minimal=not is_sure))
    parts = {name: getattr(rest, name) for name in field_names(Step)}
    parts["writes"] = tuple(one._peek() if is_sure and _is_changed(one) else unwrap(one) for one in step.writes)
    parts["puts"] = tuple((name, sets[name].added if name in sets else value) for name, value in rest.puts)
    return DeltaStep(**parts, peers=_peers(step) if is_sure else (), sets=tuple(sets.items()))


def _sets(step: Step, log: ReadLog, *, is_minimal: bool = False) -> tuple[tuple[str, SetChange], ...]:
    found = ((name, log.change_of(name, value, is_minimal=is_minimal)) for name, value in step.puts)
    return tuple((name, change) for name, change in found if change is not None)


def _peers(step: Step) -> tuple[tuple[Value, Fields], ...]:
    return tuple((one._key, _fields(one)) for one in step.writes if _is_changed(one))


def _is_changed(replica: Any) -> bool:
    """Return whether a written replica is a proxy with changed fields."""
    return type(replica) is PeerProxy and "id" not in replica._changes


def _fields(replica: Any) -> Fields:
    changes = ((name, unwrap(value)) for name, value in sorted(replica._changes.items()))
    return tuple((name, type(value), value) for name, value in changes)

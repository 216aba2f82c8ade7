"""Decision trees of the reads of calls: each path of observed values leads to the memoized result.

A read log hands out the read-tracking proxies of one call, and records its path of reads. Steps come out as deltas of
the fields of peers and the elements of shared sets. One memoized outcome then applies to any value of the rest.

A leaf of a handler's tree has the outcomes of its steps as integers. These are outcomes of an action, a delta of the
control row, and operations on inboxes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import suppress
from functools import cache, partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from kraftcheck.explorer.calls.handlers import HandlerCaller
from kraftcheck.explorer.calls.inspection import WholeStateNeededError, find_proxy_revealing_methods, tracks_state_reads
from kraftcheck.explorer.calls.proxies import (
    ABSENT_REPLICA,
    DeltaStep,
    FieldItems,
    FieldPath,
    IsElement,
    PeerProxy,
    ProjectionProxy,
    RecordProxy,
    SetChange,
    SetProxy,
    SharedRecordProxy,
    StateProxy,
    unwrap,
)
from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.tree_walk import find_child_from_python, insert_path
from kraftcheck.explorer.tables.learning.growing_tables import (
    CLASS_QUERY_KEY,
    PRESENT_QUERY_KEY,
    WHOLE_LOCAL_QUERY,
    WHOLE_REPLICA_ANSWER,
    NodeQuery,
    QueryKey,
    ValueQueries,
    require_id_below,
)
from kraftcheck.explorer.tables.learning.interner import Interner
from kraftcheck.explorer.tables.learning.shared_sets import ElementTestFunction, KnownElementsWithTests, may_pass_test
from kraftcheck.explorer.transition_system import LabelTable
from kraftcheck.spec.language.declarations import NOT_PROJECTED, Action, Projection, Property
from kraftcheck.spec.language.state import Step
from kraftcheck.spec.type_checks import may_be_record
from kraftcheck.spec.values import Map, Record, Value, field_names, field_types, type_distinguishing_key, with_fields


class PartlyReadRecord(NamedTuple):
    """A record whose fields are read: the queries that read it, and the query of the whole with its answer."""

    record: Record
    queries: ValueQueries
    place: int  # the id of the record
    kind: int  # of the queries' nodes
    at: int  # their second argument
    whole: tuple[NodeQuery, int]

    def query(self, key: QueryKey) -> NodeQuery:
        """Return a query, which may never have been asked."""
        return self.kind, self.queries.known(key), self.at


class ReadLog:
    """The reads of one call, and the proxies that record them."""

    def __init__(
        self, interner: Interner, row: int, inboxes: list[int], by_field: bool = True, me_by_field: bool = True
    ) -> None:
        self.by_field, self._me_by_field = by_field, me_by_field
        self.used_proxies = False
        self._sets: dict[str, tuple[SetProxy, IsElement]] = {}
        self._replicas: dict[Value, Any] = {}  # each replica is one object, since a handler may compare it by `is`
        self.awaited: dict[tuple[int, Value], ElementTestFunction | None] = {}
        self.path: dict[NodeQuery, int] = {}
        self._interner = interner
        self._control: list[int] = interner.tables.rows[row].tolist()
        self._inboxes = inboxes

    def _note(self, query: NodeQuery, answer: int) -> None:
        self.path.setdefault(query, answer)

    def arguments(self, owner: Action | Property) -> dict[str, Value]:
        """Return the shared state and the projections that an action or a property takes, as proxies."""
        assert self._interner.shared.type is not None
        given: dict[str, Value] = {read.name: self._projection(read) for read in owner.reads if read.name in owner.asks}
        given["shared"] = SharedRecordProxy(self._interner.shared.type, self._read_shared)
        if "state" in owner.asks:
            if not self.by_field:  # it may tell a proxy from a state, and then read nothing
                raise WholeStateNeededError(owner.name)
            given["state"] = StateProxy(partial(self._read_state, owner.name, given["shared"]))
        return given

    def _read_state(self, owner: str, shared: Value, name: str) -> Value:
        """Return a part of the state as a proxy."""
        interner = self._interner
        if name == "inboxes":
            raise WholeStateNeededError(owner)
        if name == "shared":
            return shared
        if name == "spent":
            for column in range(len(interner.bounds)):
                self._note((codes.SHARED, column, 0), self._control[column])
            return Map(zip(interner.bounds, self._control, strict=False))
        query = interner.queries.number(("own", ""), lambda _: WHOLE_REPLICA_ANSWER)
        return ProjectionProxy(interner.slots, partial(self._read_part, query))

    def _read_shared(self, name: str) -> Value:
        """Return a shared field, and record the read."""
        interner = self._interner
        index = interner.shared.names.index(name)
        column = len(interner.bounds) + index
        answer = self._control[column]
        if index in interner.shared.sets.elements:
            self._note((codes.SHARED, column, 0), answer)  # so that the path is never empty
            found = self._set(index)
            return found if self.by_field else frozenset(found)
        value = interner.shared.values[index][answer]
        if self.by_field and index in interner.shared.records:
            whole, queries = ((codes.SHARED, column, 0), answer), interner.shared.queries[index]
            source = PartlyReadRecord(value, queries, answer, codes.SHARED_QUERY, column, whole)
            self._ask(source, CLASS_QUERY_KEY, type)  # its answer also decides whether the value is a record
            if isinstance(value, Record):
                self.used_proxies = True
                return RecordProxy(value, partial(self._read_field, source, ()))
        self._note((codes.SHARED, column, 0), answer)
        return value

    def _set(self, index: int) -> SetProxy:
        """Return a proxy for an exploded shared set."""
        name = self._interner.shared.names[index]
        if name not in self._sets:
            sets, self.used_proxies = self._interner.shared.sets, True
            places, control, note_once = sets.elements[index], self._control, self.path.setdefault

            def has_at(_: Value, place: int) -> bool:  # of each element of each test, so without further calls
                column, bit = sets.bit(index, place)
                answer = control[column] >> bit & 1
                note_once((codes.ELEMENT, column, bit), answer)
                return answer == 1

            def has(element: Value) -> bool:
                return has_at(element, places[element])

            def note(key: Value, passes: ElementTestFunction | None) -> None:
                self.awaited.setdefault((index, key), passes)

            self._sets[name] = SetProxy(KnownElementsWithTests(places, sets.tests[index], has_at, note), has), has
        return self._sets[name][0]

    def change_of(self, name: str, value: Any, *, is_minimal: bool = False) -> SetChange | None:
        """Return the change that a step makes to an exploded shared set, or None for a plain value."""
        if type(value) is not SetProxy or name not in self._sets:
            return None
        has = self._sets[name][1]
        change = value.changes(has)
        return change if change is None or not is_minimal else value.minimal().changes(has)

    def _projection(self, read: Projection) -> ProjectionProxy:
        """Return a proxy for a projection of all replicas."""
        project, number = partial(self._interner.protocol.projected, read), self._interner.queries.number
        if read.of_inbox:
            answer = partial(self._read_inbox, self._interner.inboxes.queries.number(read.name, project))
        elif self.by_field:
            own = partial(_projection_or_whole_replica_answer, project)
            answer = partial(self._read_part, number(("own", read.name), own))
        else:
            answer = partial(self._read_replica, number(("projection", read.name), project))
        return ProjectionProxy(self._interner.slots, answer)

    def _read_part(self, query: int, key: Value) -> Any:
        """Return a projection of a replica; a whole replica becomes a proxy that records the fields read."""
        answer = self._read_replica(query, key)
        if answer is not WHOLE_REPLICA_ANSWER:
            return answer
        if key in self._replicas:
            return self._replicas[key]
        slot = self._interner.slots[key]
        local = self._control[self._interner.base + slot]
        source, self.used_proxies = self._local_source(slot, local), True
        self._ask(source, CLASS_QUERY_KEY, type)
        found = self._replicas[key] = PeerProxy(key, source.record, partial(self._read_field, source, ()))
        return found

    def _read_replica(self, query: int, key: Value) -> Any:
        """Return a query's answer for a replica, or `ABSENT_REPLICA`."""
        queries, slot = self._interner.queries, self._interner.slots[key]
        local = self._control[self._interner.base + slot]
        answer = queries.answer(query, local)
        self._note((codes.LOCAL_QUERY, query, slot), answer)
        value = queries.value(query, answer) if local else ABSENT_REPLICA
        return ABSENT_REPLICA if value is NOT_PROJECTED else value

    def _read_inbox(self, query: int, key: Value) -> Any:
        """Return a query's answer for a replica's inbox, or `ABSENT_REPLICA`."""
        queries, slot = self._interner.inboxes.queries, self._interner.slots[key]
        if self._read_replica(self._interner.queries.number(PRESENT_QUERY_KEY, lambda _: True), key) is ABSENT_REPLICA:
            return ABSENT_REPLICA
        answer = queries.answer(query, self._inboxes[slot] if slot < len(self._inboxes) else 0)
        self._note((codes.INBOX_QUERY, query, slot), answer)
        return queries.value(query, answer)

    def steps(
        self, calls: HandlerCaller, action: Action, me: Any, message: Any, piece: int | None, *, tracks: bool
    ) -> list[Step]:
        """Call an action or a piece of it, and record its reads; see `_steps_as_deltas_without_proxies`."""
        given = self.arguments(action)
        if me is not None:
            self._replicas[me.id] = me
        steps = calls.steps(
            action,
            me,
            message,
            given,
            partial(self.whole, action),
            partial(_steps_as_deltas_without_proxies, log=self, tracks=tracks) if self.by_field else None,
            filters=bool(self._interner.shared.sets.elements),
            piece=piece,
        )
        is_part_of_steps = any(isinstance(one, ProjectionProxy) and one.was_read_whole for one in given.values())
        return [unwrap(step) for step in steps] if is_part_of_steps else steps

    def holds(self, calls: HandlerCaller, prop: Property, me: int, peer: int) -> bool:
        """Evaluate a property of local states `me` and `peer`, and record its reads; return whether it holds."""
        calls.evaluations[prop.name] += 1
        given = self.arguments(prop)
        names = {codes.ME: "before", codes.PEER: "after"} if prop.over_steps else {codes.ME: "me", codes.PEER: "peer"}
        for role, local in ((codes.ME, me), (codes.PEER, peer)):
            name = names[role]
            if name not in prop.asks:
                continue
            given[name] = self._local(prop, role, local)
            if not isinstance(given[name], prop.kinds(name)):
                return True
        if prop.whole is not None:
            return calls.holds(prop, given, lambda: {"state": self._interner.decode_control_row(self._control)})
        if not self.by_field or not self._interner.shared.sets.elements:
            return calls.holds(prop, given)
        roles = (("before", me), ("me", me), ("after", peer), ("peer", peer))
        plain = {name: self._interner.locals[local] for name, local in roles}
        return calls.holds(prop, given, lambda: self.whole(prop) | plain)

    def _local(self, prop: Property, role: int, local: int) -> Any:
        """Return the replica that a property takes, as a record or a proxy."""
        record = self._interner.locals[local]
        if not self.by_field or not (self._me_by_field or "peer" in prop.asks or prop.over_steps):
            self._note(
                (codes.LOCAL_QUERY, WHOLE_LOCAL_QUERY, role), self._interner.queries.answer(WHOLE_LOCAL_QUERY, local)
            )
            return record
        source, self.used_proxies = self._local_source(role, local), True
        self._ask(source, CLASS_QUERY_KEY, type)
        return RecordProxy(record, partial(self._read_field, source, ()))

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

    def _local_source(self, role: int, local: int) -> PartlyReadRecord:
        queries = self._interner.queries
        whole = (codes.LOCAL_QUERY, WHOLE_LOCAL_QUERY, role), queries.answer(WHOLE_LOCAL_QUERY, local)
        return PartlyReadRecord(self._interner.locals[local], queries, local, codes.LOCAL_QUERY, role, whole)

    def _read_field(self, source: PartlyReadRecord, outer: FieldPath, inner: FieldPath) -> RecordProxy | None:
        """Record the read of a field, or of the whole record at `outer`; return a proxy if the field is a record."""
        path = (*outer, *inner)
        if source.whole[0] in self.path or any(
            source.query(("field", *path[:end])) in self.path for end in range(1, len(path))
        ):
            return None  # a helper with a cache may skip further reads, so none of them is part of the path
        if not path:
            self._note(*source.whole)
            return None
        if inner and _may_field_hold_record(_value_at_path(path[:-1], source.record).__class__, path[-1]):
            self._ask(source, ("class", *path), lambda record: type(_value_at_path(path, record)))
            value = _value_at_path(path, source.record)
            if isinstance(value, Record):
                self.used_proxies = True
                return RecordProxy(value, partial(self._read_field, source, path))
        self._ask(source, ("field", *path), partial(_value_at_path, path))
        return None

    def _ask(self, source: PartlyReadRecord, key: QueryKey, function: Callable[[Any], Value]) -> None:
        number = source.queries.number(key, function)
        self._note((source.kind, number, source.at), source.queries.answer(number, source.place))


def _value_at_path(path: FieldPath, record: Record) -> Any:
    """Return the value of a field, given its path; () if there is none."""
    value: Any = record
    for name in path:
        value = getattr(value, name, ())
    return value


@cache
def _may_field_hold_record(kind: type[Record], field: str) -> bool:
    with suppress(NameError):  # of an annotation that does not resolve
        return may_be_record(field_types(kind)[field])
    return False


def _projection_or_whole_replica_answer(project: Callable[[Record], Value], record: Record) -> Value:
    """Return the projection of a record, or `WHOLE_REPLICA_ANSWER` if the projection is the record itself."""
    value = project(record)
    return WHOLE_REPLICA_ANSWER if value is record else value


def _steps_as_deltas_without_proxies(made: Iterable[Any], log: ReadLog, *, tracks: bool) -> list[Any]:
    """Return a handler's steps without proxies, as deltas of exploded sets and, if `tracks` is set, of peers."""
    steps = list(made)
    if not log.used_proxies or not all(isinstance(step, Step) for step in steps):
        return steps
    if not tracks:
        steps = [with_fields(step, (("writes", unwrap(step.writes)),)) for step in steps]
    changes = [_changes_of_sets(step, log) for step in steps]
    if any(changes) or any(map(_peer_changes, steps)):
        return list(_delta_steps(steps, changes, log))
    return [unwrap(step) for step in steps]


def _delta_steps(steps: list[Step], changes: list[dict[str, SetChange]], log: ReadLog) -> Iterator[DeltaStep]:
    """Yield steps as deltas, given their changes of exploded sets.

    Two steps may become equal for some values of the replicas and sets that they write. Both then keep these whole.
    """
    written = {one.__key__ for step in steps for one in step.writes if _is_changed_proxy(one)}
    put = {name for sets in changes for name in sets}
    rests = [_step_without_delta_parts(step, written, put) for step in steps]
    alike: dict[Step, set[Any]] = defaultdict(set)
    plain: dict[Step, set[str]] = defaultdict(set)  # fields that a step sets to a value that is no change
    for step, sets, rest in zip(steps, changes, rests, strict=True):
        whole, puts = _whole_values_where_others_have_deltas(step, written, put - sets.keys())
        alike[rest].add(type_distinguishing_key((_peer_changes(step), tuple(sets.items()), whole, puts)))
        plain[rest].update(dict(puts))
    for step, sets, rest in zip(steps, changes, rests, strict=True):
        is_sure = len(alike[rest]) == 1
        minimal = sets if is_sure else _changes_of_sets(step, log, is_minimal=True)
        kept = {name: change for name, change in minimal.items() if name not in plain[rest]}
        yield _as_delta_step(step, kept, is_sure=is_sure)


def _whole_values_where_others_have_deltas(
    step: Step, written: Set[Value], put: Set[str]
) -> tuple[tuple[Record, ...], FieldItems]:
    """Return the whole replicas, and values of shared fields, that a step has where another one has a delta."""
    whole = (unwrap(one) for one in step.writes if not _is_changed_proxy(one) and one.id in written)
    return tuple(whole), tuple((name, unwrap(value)) for name, value in step.puts if name in put)


def _step_without_delta_parts(step: Step, written: Set[Value], put: Set[str]) -> Step:
    """Return a step without the replicas and shared fields that some step changes by a delta."""
    parts = {name: unwrap(getattr(step, name)) for name in field_names(Step) if name not in ("writes", "puts")}
    writes = tuple(one.id if one.id in written else unwrap(one) for one in step.writes)
    puts = tuple((name, None if name in put else unwrap(value)) for name, value in step.puts)
    return Step(**parts, writes=writes, puts=puts)


def _as_delta_step(step: Step, sets: Mapping[str, SetChange], *, is_sure: bool) -> DeltaStep:
    parts = {name: unwrap(getattr(step, name)) for name in field_names(Step) if name not in ("writes", "puts")}
    parts["writes"] = tuple(
        one.__peek__() if is_sure and _is_changed_proxy(one) else unwrap(one) for one in step.writes
    )
    parts["puts"] = tuple((name, sets[name].added if name in sets else unwrap(value)) for name, value in step.puts)
    return DeltaStep(**parts, peers=_peer_changes(step) if is_sure else (), sets=tuple(sets.items()))


def _changes_of_sets(step: Step, log: ReadLog, *, is_minimal: bool = False) -> dict[str, SetChange]:
    """Return the changes that a step makes to exploded sets, by field."""
    found = ((name, log.change_of(name, value, is_minimal=is_minimal)) for name, value in step.puts)
    return {name: change for name, change in found if change is not None}


def _peer_changes(step: Step) -> tuple[tuple[Value, FieldItems], ...]:
    changed = [(one.__key__, sorted(one.__changes__.items())) for one in step.writes if _is_changed_proxy(one)]
    return tuple((key, tuple((name, unwrap(value)) for name, value in changes)) for key, changes in changed)


def _is_changed_proxy(replica: Any) -> bool:
    """Return whether a written replica is a proxy with changed fields."""
    return isinstance(replica, PeerProxy) and "id" not in replica.__changes__


STATE_INPUTS_TO_JUDGE_REPEATS = 1 << 15  # inputs of a property over whole states from which on they must repeat
CALLS_TO_JUDGE_PROXIES = 64  # calls of a property before the policy checks whether its results repeat across replicas


class ImpureCallError(Exception):
    """A call on the same input read other values than before."""


class DecisionTrees:
    """The decision trees of one learner, in the tables that the kernel walks."""

    def __init__(self, interner: Interner) -> None:
        self._interner = interner
        self._tables = interner.tables
        self._first: dict[int, set[int]] = {}  # root -> answers to its query
        # exploded set -> root -> key -> test of an element; None where the call iterated over the whole set
        self._awaiting: defaultdict[int, dict[int, dict[Value, ElementTestFunction | None]]] = defaultdict(dict)

    def node(self) -> int:
        """Return a new, UNKNOWN node."""
        return self._tables.append("nodes", (codes.UNKNOWN, 0, 0, 0, 0, 0))

    def set_leaf(self, node: int, value: int, count: int = 0) -> None:
        """Make a node a leaf that holds `value`, with the `count` of outcomes if `value` is the first of several."""
        self._tables.nodes[node] = codes.LEAF, value, 0, count, 0, 0

    def has_leaf(self, root: int, row: int, me: int, peer: int, inboxes: list[int]) -> bool:
        """Return whether a decision tree has a result for a control row, local states and inboxes."""
        node = root
        while node >= 0:
            kind, a, b, *_ = self._tables.nodes[node].tolist()
            if kind in (codes.UNKNOWN, codes.LEAF):
                return bool(kind == codes.LEAF)
            if kind == codes.SHARED:
                answer = int(self._tables.rows[row, a])
            elif kind == codes.ELEMENT:
                answer = int(self._tables.rows[row, a]) >> b & 1
            elif kind == codes.SHARED_QUERY:
                queries = self._interner.shared.queries[b - len(self._interner.bounds)]
                answer = queries.answer(a, int(self._tables.rows[row, b]))
            elif kind == codes.LOCAL_QUERY:
                local = me if b == codes.ME else peer
                if b >= 0:
                    local = int(self._tables.rows[row, self._interner.base + b])
                answer = self._interner.queries.answer(a, local)
            else:
                answer = self._interner.inboxes.queries.answer(a, inboxes[b] if b < len(inboxes) else 0)
            node = find_child_from_python(self._tables, node, answer)
        return False

    def insert(self, root: int, path: Mapping[NodeQuery, int]) -> int:
        """Insert a path of reads; return its last node."""
        tables, node = self._tables, root
        if path:
            reads = chain.from_iterable([(*query, answer) for query, answer in path.items()])
            laid = np.fromiter(reads, np.int64, 4 * len(path)).reshape(-1, 4)
            self._first.setdefault(root, set()).add(int(laid[0, 3]))
            nodes, jumps = tables.room_for_path(len(laid))
            node, nodes, jumps = insert_path(tables, root, laid, nodes, jumps)
            tables.note_used(nodes=nodes, jumps=jumps)
        if node < 0 or tables.nodes[node, codes.NODE_KIND] not in (codes.UNKNOWN, codes.LEAF):
            raise ImpureCallError
        return node

    def forget(self, root: int) -> None:
        """Reset a tree to an UNKNOWN root."""
        for answer in self._first.pop(root, ()):
            self._tables.put("branches", root << 32 | answer, int(codes.MISSING))
        self._tables.nodes[root, codes.NODE_KIND] = codes.UNKNOWN
        self._tables.nodes[root, codes.NODE_JUMP_COUNT] = 0

    def await_elements(self, root: int, awaited: Mapping[tuple[int, Value], ElementTestFunction | None]) -> None:
        """Record the element tests of a tree's calls; a new element of the set that passes one resets the tree."""
        for (field, key), passes in awaited.items():
            self._awaiting[field].setdefault(root, {})[key] = passes

    def forget_awaiting(self, field: int, element: Value) -> None:
        """Reset the trees that a new element of an exploded set may affect."""
        for root, tests in list(self._awaiting[field].items()):
            if any(passes is None or may_pass_test(passes, element) for passes in tests.values()):
                self.forget(root)
                del self._awaiting[field][root]

    def forget_all(self, roots: Iterable[int]) -> None:
        """Reset all trees."""
        self._awaiting.clear()
        for root in roots:
            self.forget(root)


class ReadProxyPolicy:
    """Decides whether a call gets read-tracking proxies or plain records.

    A property of one replica gets a proxy as long as its results repeat across replicas, as in `registration`.
    """

    def __init__(self, interner: Interner, trees: DecisionTrees) -> None:
        # names of actions and properties that need plain records
        self.opaque = find_proxy_revealing_methods(interner.protocol)
        self.misses: dict[int, int] = {}  # root of a property of one replica -> number of calls
        self._interner, self._trees = interner, trees
        self._whole: set[tuple[int, bool]] = set()
        self._of_states: Counter[str] = Counter()

    def of(self, root: int, owner: Action | Property) -> tuple[bool, bool]:
        """Return whether to track field reads, and whether those of `me`; a switch to plain records resets the tree.

        Raises an error for a property over whole states whose inputs do not repeat.
        """
        name = owner.name
        if isinstance(owner, Property) and tracks_state_reads(owner):
            self._of_states[name] += 1
            if self._of_states[name] > max(STATE_INPUTS_TO_JUDGE_REPEATS, self._interner.totals()[-1] // 2):
                raise WholeStateNeededError(name)
        misses = self.misses.get(root)
        if misses is not None:
            self.misses[root] = misses = misses + 1
        opaque = owner.method_name in self.opaque
        opaque_me = opaque or (root, False) in self._whole  # a switch to plain records is final
        opaque_me |= (misses or 0) > max(CALLS_TO_JUDGE_PROXIES, len(self._interner.locals) // 2)
        if opaque_me and (root, opaque) not in self._whole:
            self._whole.add((root, opaque))
            self._trees.forget(root)
        return not opaque, not opaque_me


NumberPairs = tuple[tuple[int, int], ...]
Assignments = tuple[tuple[int, int, int], ...]  # rows of the table of that name
FlaggedSteps = list[tuple[Step, int]]
"""Steps, each with the flags of the properties that it violates."""


class OutcomeTable:
    """Interned outcomes of one protocol's steps."""

    def __init__(self, interner: Interner, action_names: list[str]) -> None:
        self.labels = LabelTable(interner.protocol, action_names, ())
        self._interner = interner
        self._tables = interner.tables
        self._deltas: dict[tuple[Assignments, NumberPairs], int] = {}
        self._piece_parts: dict[tuple[Any, ...], int] = {}
        self._count = self._moved = 0
        self._delta((), ())  # delta 0 changes nothing

    def add(self, action: Action, me: Any, message: Any, steps: FlaggedSteps, *, is_piece: bool) -> int:
        """Add the outcomes of an action, or of a piece of it, with their labels; return the index of the first."""
        labels = [self.labels.number(action.name, me, message, step) for step, _ in steps]
        pieces = [self._piece_number(action, me, step) if is_piece else 0 for step, _ in steps]
        made = zip(labels, [(*self._made(me, step), flags) for step, flags in steps], pieces, strict=True)
        return self._tables.extend("outcomes", [self._row(label, *one, piece) for label, one, piece in made])

    def _piece_number(self, action: Action, me: Any, step: Step) -> int:
        """Return a number for a piece's step: steps with equal numbers are equal where they lead to the same state."""
        parts = tuple(getattr(step, name) for name in ("consumes", "sends", "spends", "needs"))
        names = tuple(name for name, _ in step.puts), tuple(one.id for one in step.writes), step.me == ()
        key = (action.name, getattr(me, "id", None), *parts, *names)
        number = self._piece_parts.setdefault(key, len(self._piece_parts) + 1)
        self._tables.meta[codes.META_PIECES] = len(self._piece_parts)
        return number

    def add_network_step(self, name: str, spends: tuple[str, ...]) -> None:
        """Add the outcome of a step of the network itself, such as the loss of a message."""
        label = self.labels.number(name, None, None, Step())
        outcome = self._tables.append("outcomes", self._row(label, 0, False, []))
        self._tables.append("network_steps", (outcome, self._delta((), self._spending(Step(spends=spends)))))

    def _made(self, me: Any, step: Step) -> tuple[int, bool, list[int]]:
        """Return a step's delta id, whether the step consumes the message, and the ids of its inbox operations."""
        interner, inboxes = self._interner, self._interner.inboxes
        operations = [inboxes.operation(name, inboxes.message(message)) for name, message in step.sends]
        put = self._put(step) if step.puts else ()
        written = step.writes if step.me == () or step.me == me else (step.me, *step.writes)
        slots = [(interner.slot(replica.id), interner.local(replica)) for replica in written]
        assigned = {interner.base + slot: (local, 0) for slot, local in slots}
        for key, fields in step.peers if isinstance(step, DeltaStep) else ():
            assigned[interner.base + interner.slot(key)] = ~interner.change(fields), 0
        for column, value in put:
            if isinstance(value, SetChange):
                assigned.update(interner.shared.sets.assigned(column, value))
            else:
                assigned[len(interner.bounds) + column] = interner.shared.id_of(column, value), 0
        columns = tuple((column, *pair) for column, pair in sorted(assigned.items()))
        return self._delta(columns, self._spending(step)), step.consumes, operations

    def _put(self, step: Step) -> list[tuple[int, Any]]:
        """Return a step's writes to shared fields as (field number, value), with a `SetChange` for an exploded set."""
        sets, names = self._interner.shared.sets, self._interner.shared.names
        put, changes = [], dict(step.sets) if isinstance(step, DeltaStep) else {}
        for name, value in step.puts:
            column = names.index(name)
            if column in sets.elements:
                value = changes.get(name, SetChange(value, None))
                for element in value.added:
                    sets.place(column, element)  # now, since a new column moves the others
            put.append((column, value))
        return put

    def _spending(self, step: Step) -> NumberPairs:
        if not step.spends and not step.needs:
            return ()
        bounds = self._interner.bounds
        spent = [(bounds.index(name), amount) for name, amount in Counter(step.spends).items()]
        return tuple(sorted(spent + [(bounds.index(name), 0) for name in step.needs]))

    def _delta(self, assigned: Assignments, spending: NumberPairs) -> int:
        """Return the id of a delta, which assigns columns of the control row and spends bounds."""
        if self._moved != self._interner.shared.sets.changes:
            self._moved = self._interner.shared.sets.changes
            self._deltas = {((), ()): 0}
        found = self._deltas.get((assigned, spending))
        if found is None:
            found = require_id_below(self._count, codes.KEY_LIMIT, "different changes")
            self._deltas[assigned, spending] = found
            self._count += 1
            first = self._tables.extend("assignments", assigned)
            spent = self._tables.extend("spendings", spending)
            self._tables.set("deltas", found, (first, len(assigned), spent, len(spending)))
        return found

    def _row(
        self, action: int, delta: int, consumes: bool, operations: list[int], flags: int = 0, piece: int = 0
    ) -> tuple[int, ...]:
        first = self._tables.extend("outcome_operations", operations)
        return action, delta, int(consumes), first, len(operations), flags, piece

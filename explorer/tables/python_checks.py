"""Checks in Python: which properties and constraints the tables cannot decide, and their evaluation.

The tables decide the local ones, which read replicas, projections of replicas, shared fields, or one message alone.
A property is non-local if it reads a whole state, whole inboxes, or a message with other inputs. It has nearly as
many distinct inputs as there are states, so tables would not help. It is evaluated on each new state.

A property that reads inboxes is evaluated once for each distinct input. An input is a vector of ids: the columns of
the control row that the property reads, and an id for each inbox. That id stands for the inbox's projection, or for
its messages of the property's types. A batch's inputs form one array, with a column for each state.

A property of whole states is looked up by the replicas, inboxes and parts of the state that it reads, while these
repeat.

A refinement maps each step that the kernel collects to a pair of numbered abstract states. An abstract state is looked
up by the parts of the state that the mapping reads. The mapping is called once for each distinct input, and the steps
of the abstract protocol are computed once for each abstract state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.calls.clauses import INBOX_PARAMETER
from kraftcheck.explorer.calls.handlers import HandlerCaller
from kraftcheck.explorer.calls.inspection import split_property, tracks_state_reads
from kraftcheck.explorer.calls.proxies import LazyMap, StateProxy
from kraftcheck.explorer.result import (
    Behaviour,
    SearchMonitor,
    SearchRequest,
    least_transition,
    trace_step_of_transition,
)
from kraftcheck.explorer.tables.kernel.codes import MOST_PROPERTIES
from kraftcheck.explorer.tables.learning.interner import Interner
from kraftcheck.explorer.tables.rows import Rows, distinct_column_indices_and_inverse
from kraftcheck.explorer.transition_system import PlainTransitionSystem
from kraftcheck.spec.errors import RaisedError
from kraftcheck.spec.language.declarations import NOT_PROJECTED, SPENT_PARAMETER, Property
from kraftcheck.spec.language.semantics import Semantics, property_bindings
from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import Map, Record, Value


class PropertyPartition(NamedTuple):
    """Properties and constraints of a search: local ones, decided by the tables, and others, evaluated in Python."""

    properties: tuple[Property, ...]  # decided by a control row
    constraints: tuple[Property, ...]
    about_messages: tuple[Property, ...]  # invariants of one message alone
    non_local: tuple[Property, ...]  # evaluated in Python, on each new state
    non_local_constraints: tuple[Property, ...]


def partition_properties(options: SearchRequest) -> PropertyPartition:
    """Partition the properties and constraints of a search, those of whole states in parts."""
    room = MOST_PROPERTIES - 1  # bits of a mask; Python evaluates the properties beyond these
    given = _in_parts_if_room(options.constraints, room)
    constraints = [c for c in given if non_local_reason(c) is None][:room]
    room -= len(constraints)
    about_states = _in_parts_if_room([p for p in options.properties if not p.over_steps], room)
    local = [p for p in about_states if non_local_reason(p) is None and p.asks != ("message",)][:room]
    messages = [p for p in about_states if p.asks == ("message",)][: room - len(local)]
    return PropertyPartition(
        tuple(local),
        tuple(constraints),
        tuple(messages),
        tuple(p for p in about_states if p not in local and p not in messages),
        tuple(c for c in given if c not in constraints),
    )


def _in_parts_if_room(properties: Sequence[Property], room: int) -> Sequence[Property]:
    """Return properties, those of whole states in parts if there is room for all: Python evaluates whole properties."""
    parts = [part for p in properties for part in (split_property(p) if tracks_state_reads(p) else [p])]
    return parts if len(parts) <= room else properties


def non_local_reason(prop: Property) -> str | None:
    """Name the input that makes a property non-local; None for a local property."""
    if "state" in prop.asks and not tracks_state_reads(prop):
        return "whole states"
    if INBOX_PARAMETER in prop.asks or any(read.of_inbox for read in prop.reads):
        return "whole inboxes"
    if "message" in prop.asks:
        others = [name for name in prop.asks if name != "message"]
        if others:
            return f"messages together with {', '.join(others)}"
        return None if prop.kind == "invariant" else "every message"
    return None


NumbersOfStates = NDArray[np.int64]

MOST_MEMOIZED_INPUTS = 1 << 19
"""Most inputs for which a number is kept."""
INPUTS_TO_JUDGE_MEMO = 1 << 14
"""Number of inputs after which memoization is dropped if they seldom repeat."""
INPUTS_AT_ONCE = 1 << 12
"""Number of inputs between two such tests."""
LEAST_REPEATS = 1.5
"""Least number of inputs for each evaluation of a memoized function of states, or it is evaluated on each."""
MOST_SETS_OF_READS = 32
"""Most sets of columns that the evaluations of a memoized function read, or it is evaluated on each state."""


class StateFunctionMemo:
    """A function from states to numbers, memoized by the columns of a state that it reads, while these repeat.

    Evaluations that read the same columns have one dictionary, by the ids in these columns. A map that is read `lazily`
    has a column for each value: `any(state.inboxes.values())` reads one inbox of many states. A result that holds a map
    needs a whole one.
    """

    def __init__(self, interner: Interner, function: Callable[[State], int], *, lazily: bool) -> None:
        self._interner, self._function, self._lazily = interner, function, lazily
        self._known: dict[tuple[int, ...], tuple[Callable[[list[int]], Any], dict[Any, int]]] = {}
        self._columns: dict[str, dict[Any, int]] = {}
        self._layout = (0, 0, 0, 0)  # columns before the replicas, replicas, control-row columns, inbox columns
        self._asked = self.evaluated = self._kept = 0
        self._repeats = True

    def of(self, rows: Rows) -> NumbersOfStates:
        """Return the number of each row's state."""
        interner = self._interner
        control, contents = interner.parts_of(rows)
        layout = interner.base, len(interner.slots), control.shape[1], contents.shape[1]
        if layout != self._layout:  # columns of other meaning
            self._layout, self._columns = layout, _columns_of_parts(interner, *layout)
            self._known.clear()
        columns, numbers = np.concatenate([control, contents], axis=1), np.zeros(len(rows), np.int64)
        for first in range(0, len(rows), INPUTS_AT_ONCE):
            some = columns[first : first + INPUTS_AT_ONCE].tolist()
            numbers[first : first + INPUTS_AT_ONCE] = list(map(self._number if self._repeats else self._evaluate, some))
            self._asked += len(some)
            if self._asked >= INPUTS_TO_JUDGE_MEMO and LEAST_REPEATS * self.evaluated > self._asked:
                self._repeats = False
                self._known.clear()
        return numbers

    def _number(self, columns: list[int]) -> int:
        """Return the number of a state, given by its columns."""
        for ids_in_columns, numbers in self._known.values():
            found = numbers.get(ids_in_columns(columns))
            if found is not None:
                return found
        return self._learn(columns)

    def _evaluate(self, columns: list[int], reads: dict[int, None] | None = None) -> int:
        """Call the function on a state, given by its columns; note the columns that it reads, if asked to."""
        interner, values, width = self._interner, dict[str, Any](), self._layout[2]
        decode = interner.decoder_of_parts(columns[:width], columns[width:])
        decoders: dict[str, Callable[[int], Any]] = {
            "replicas": interner.locals.__getitem__,
            "inboxes": interner.inboxes.decode_content,
        }

        def read(name: str) -> Any:
            if name not in values:
                if reads is not None and self._lazily and name in decoders:
                    values[name] = LazyMap(self._columns[name], columns, decoders[name], reads)
                else:
                    values[name] = decode(name)
                    if reads is not None:
                        reads.update(dict.fromkeys(self._columns[name].values()))
            return values[name]

        self.evaluated += 1
        return self._function(StateProxy(read))  # type: ignore[arg-type]

    def _learn(self, columns: list[int]) -> int:
        """Call the function on a state, given by its columns; keep its number under the columns that it reads."""
        reads = dict[int, None]()
        number = self._evaluate(columns, reads)
        self._kept += 1
        key = tuple(sorted(reads))
        if key not in self._known and len(self._known) >= MOST_SETS_OF_READS:
            self._repeats = False
        if self._kept >= MOST_MEMOIZED_INPUTS or not self._repeats:
            self._kept = 0
            self._known.clear()
        if key not in self._known:
            self._known[key] = (itemgetter(*key) if key else _no_ids), {}
        ids_in_columns, numbers = self._known[key]
        numbers[ids_in_columns(columns)] = number
        return number


def _no_ids(columns: list[int]) -> tuple[()]:
    """Return the ids in no column."""
    return ()


def _columns_of_parts(interner: Interner, base: int, _: int, width: int, inboxes: int) -> dict[str, dict[Any, int]]:
    """Return the column of each value of each part of a state, given its layout."""
    bounds, slots = len(interner.bounds), interner.slots
    return {
        "spent": {column: column for column in range(bounds)},
        "shared": {column: column for column in range(bounds, base)},
        "replicas": {key: base + slot for key, slot in slots.items()},
        "inboxes": {key: width + slot for key, slot in slots.items() if slot < inboxes},
    }


MOST_CACHED_PAIRS = 1 << 20
"""Cached verdicts, of replicas with messages and with inboxes, before they are forgotten."""


class PropertyVerdictMemo:
    """Memoized verdicts of one property on states."""

    def __init__(self, interner: Interner, calls: HandlerCaller, prop: Property, holds: Callable[[Any], bool]) -> None:
        self._interner, self._calls = interner, calls
        self._prop = prop
        self._holds = holds
        self._known: dict[bytes, bool] = {}
        self._asked = 0
        self._repeats = "state" not in prop.asks
        is_of_state = prop.asks == ("state",) and prop.method_name not in interner.protocol.by_type
        self._of_states = StateFunctionMemo(interner, self._holds_in_state, lazily=True) if is_of_state else None
        self._is_of_parts = not {"state", "shared", SPENT_PARAMETER, "message"} & {*prop.asks}
        self._is_of_pairs = {*prop.asks} == {"me", "message"}
        self._pairs: dict[tuple[int, int], bool] = {}
        self._of_contents: dict[int, bool] = {0: True}  # an empty inbox is none of the state's
        self.evaluated = 0
        self.last: Any = None

    def of(self, rows: Rows) -> NDArray[np.bool_]:
        """Return whether the property holds in each state."""
        if not len(rows):
            return np.ones(0, bool)
        if self._prop.asks == (INBOX_PARAMETER,):
            return self._of_each_inbox(rows)
        with suppress(RaisedError):  # a state may violate the property before an error: evaluate it as a whole
            if self._is_of_pairs:
                return self._of_pairs(rows)
            if self._of_states is not None:
                return self._of_states.of(rows).astype(bool)
        inputs = self._inputs(rows) if self._repeats else None
        if inputs is None:
            return np.array([self._judge(row) for row in rows], bool)
        return self._of_inputs(inputs, rows)

    def _holds_in_state(self, state: State) -> bool:
        self.evaluated += 1
        return self._calls.holds(self._prop, {"state": state})

    def _of_each_inbox(self, rows: Rows) -> NDArray[np.bool_]:
        """Return whether the property holds for each inbox of each state, evaluated once for each inbox."""
        interner, known = self._interner, self._of_contents
        contents = interner.parts_of(rows)[1]
        distinct, places, which = np.unique(contents, return_index=True, return_inverse=True)
        for content, place in zip(distinct.tolist(), places.tolist(), strict=True):
            if content not in known:
                self.evaluated += 1
                row = rows[place // contents.shape[1]]
                given = {INBOX_PARAMETER: interner.inboxes.decode_content(content)}
                whole = partial(_given_state, interner, row)
                known[content] = self._calls.holds(self._prop, given, whole)
        found = np.array([known[content] for content in distinct.tolist()], bool)
        verdicts: NDArray[np.bool_] = np.all(found[which.reshape(contents.shape)], axis=1)
        return verdicts

    def _of_inputs(self, inputs: Rows, rows: Rows) -> NDArray[np.bool_]:
        """Return whether the property holds in each state, evaluated once for each distinct column of inputs."""
        first, which = distinct_column_indices_and_inverse(inputs)
        found = np.zeros(len(first), bool)
        for number, index in enumerate(first.tolist()):
            key = inputs[:, index].tobytes()
            verdict = self._known.get(key)
            if verdict is None:
                verdict = self._known[key] = self._judge(rows[index])
            found[number] = verdict
        self._asked += len(rows)
        if self._asked >= INPUTS_TO_JUDGE_MEMO and 2 * len(self._known) > self._asked:
            self._known.clear()
            self._repeats = False
        verdicts: NDArray[np.bool_] = found[which]
        return verdicts

    def _of_pairs(self, rows: Rows) -> NDArray[np.bool_]:
        """Return whether the property holds in each state; each pair of a replica and a message is evaluated once."""
        control, contents = (np.ascontiguousarray(part.T) for part in self._interner.parts_of(rows))
        replicas = control[self._interner.base :].astype(np.int64)
        pairs = ((replicas << 32)[:, None] | contents[None]).reshape(-1, len(rows))
        keys, first, which = np.unique(pairs, return_index=True, return_inverse=True)
        found = np.zeros(len(keys), bool)
        for number, (key, index) in enumerate(zip(keys.tolist(), first.tolist(), strict=True)):
            self.last = rows[index % len(rows)]
            found[number] = self._holds_of_inbox(key >> 32, key & 0xFFFFFFFF)
        verdicts: NDArray[np.bool_] = found[which.reshape(pairs.shape)].all(axis=0)
        return verdicts

    def _holds_of_inbox(self, local: int, content: int) -> bool:
        """Return whether the property holds for a replica and each message in an inbox, given their ids."""
        prop, queries, known = self._prop, self._interner.inboxes.queries, self._pairs
        me = self._interner.locals[local] if local else None
        if (local, content) not in known and isinstance(me, prop.kinds("me")):
            query = queries.number(f"known to {prop.name}", partial(self._messages, prop.kinds("message")))
            holds = True
            for message in queries.value(query, queries.answer(query, content)):
                pair = local, ~self._interner.inboxes.message(message)
                if pair not in known:
                    self.evaluated += 1
                    known[pair] = self._calls.holds(prop, {"me": me, "message": message})
                holds &= known[pair]
            if len(known) >= MOST_CACHED_PAIRS:
                known.clear()
            known[local, content] = holds
            return holds
        return known.get((local, content), True)

    def _judge(self, row: Any) -> bool:
        self.evaluated += 1
        self.last = row
        return self._holds_of_parts(row) if self._is_of_parts else self._holds(row)

    def _holds_of_parts(self, row: Any) -> bool:
        """Evaluate the property on the replicas and projections of a row, without decoding the whole state."""
        interner, prop = self._interner, self._prop
        (control,), (inboxes,) = (part.tolist() for part in interner.parts_of(row[None]))
        base = interner.base
        here = {key: slot for key, slot in interner.slots.items() if control[base + slot]}
        known: dict[str, Value] = {}
        for read in prop.reads:
            known[read.name] = self._projected(read, here, inboxes if read.of_inbox else control[base:])
        replicas = [interner.locals[control[base + slot]] for slot in here.values()]
        return all(self._calls.holds(prop, {**known, **about}) for about in property_bindings(prop, replicas, ()))

    def _projected(self, read: Any, slots: dict[Any, int], seen: list[int]) -> Value:
        """Return a projection of replicas or inboxes, given their ids."""
        queries: Any = self._interner.inboxes.queries if read.of_inbox else self._interner.queries
        query = queries.number(read.name if read.of_inbox else ("projection", read.name), self._projecting(read))
        answers = ((key, queries.answer(query, seen[slot])) for key, slot in slots.items())
        values = ((key, queries.value(query, answer)) for key, answer in answers)
        return Map((key, value) for key, value in values if value is not NOT_PROJECTED)

    def _inputs(self, rows: Rows) -> Rows | None:
        """Return the property's inputs as columns of ids; None where a projection raises an error."""
        try:
            control, contents = (np.ascontiguousarray(part.T) for part in self._interner.parts_of(rows))
            return np.concatenate([*self._of_control(control), *self._of_inboxes(contents)])
        except RaisedError:  # evaluating the property will raise it again, with its state
            return None

    def _of_control(self, control: Rows) -> list[Rows]:
        interner, prop = self._interner, self._prop
        tables: Any = interner.tables
        bounds, base = len(interner.bounds), interner.base
        replicas = control[base:]
        of_replicas = [read for read in prop.reads if not read.of_inbox]
        parts = [control[:bounds]] if SPENT_PARAMETER in prop.asks else []
        parts += [control[bounds:base]] if "shared" in prop.asks else []
        if "me" in prop.asks or "peer" in prop.asks:
            parts.append(replicas)
        else:
            parts.append((replicas != 0).astype(np.int32))
            for read in of_replicas:
                query = interner.queries.number(("projection", read.name), self._projecting(read))
                parts.append(tables.local_answers[query][replicas])
        return parts

    def _of_inboxes(self, contents: Rows) -> list[Rows]:
        prop, inboxes = self._prop, self._interner.inboxes.queries
        tables: Any = self._interner.tables
        parts = []
        queries = [inboxes.number(read.name, self._projecting(read)) for read in prop.reads if read.of_inbox]
        if "message" in prop.asks:
            kinds = prop.kinds("message")
            queries.append(inboxes.number(f"known to {prop.name}", partial(self._messages, kinds)))
        for query in queries:
            answers = tables.inbox_answers[query][contents]
            if (answers < 0).any():
                for content in np.unique(contents[answers < 0]).tolist():
                    inboxes.answer(query, content)
                answers = tables.inbox_answers[query][contents]
            parts.append(answers)
        return parts

    def _projecting(self, read: Any) -> Callable[[Any], Value]:
        return partial(self._interner.protocol.projected, read)

    def _messages(self, kinds: tuple[type[Record], ...], inbox: Any) -> Value:
        """Return an inbox's messages of some types."""
        known = self._interner.protocol.network.known(inbox)
        return tuple(message for message in known if isinstance(message, kinds))


def _given_state(interner: Interner, row: Any) -> dict[str, Any]:
    return {"state": interner.decode_state(row)}


class PythonChecks:
    """Evaluates non-local properties and constraints by the reference semantics."""

    def __init__(
        self,
        parts: PropertyPartition,
        system: PlainTransitionSystem,
        interner: Interner,
        calls: HandlerCaller,
        monitor: SearchMonitor,
    ) -> None:
        self._parts, self._system = parts, system
        self._action_constraints = system.options.action_constraints
        self._semantics = system.semantics
        self._decode = interner.decode_state
        self._monitor = monitor
        self.least: Callable[[str], Behaviour | None] = lambda name: None
        self._evaluated: Counter[str] = Counter()
        self.beyond = 0
        self._violated_by: dict[bytes, list[str]] = {}
        self._judged = (*parts.non_local, *parts.non_local_constraints)
        memo = partial(PropertyVerdictMemo, interner, calls)
        self._verdicts = {prop.name: memo(prop, partial(self._holds_in, prop)) for prop in self._judged}

    @property
    def constrains(self) -> bool:
        """Whether there is a non-local constraint."""
        return bool(self._parts.non_local_constraints)

    def within(self, rows: Rows) -> NDArray[np.bool_]:
        """Return which states satisfy the non-local constraints."""
        kept = np.ones(len(rows), bool)
        for constraint in self._parts.non_local_constraints:
            kept[kept] = self._verdicts[constraint.name].of(rows[kept])
        return kept

    def violated_by(self, row: Any) -> list[str]:
        """Return the non-local properties that a state, given as a row, violates; memoized."""
        key = _row_bytes_without_empty_inboxes(row)
        found = self._violated_by.get(key)
        if found is None:
            state = self._decode(row)
            found = self._violated_by[key] = [p.name for p in self._parts.non_local if not self._holds(p, state)]
        return found

    def unreported_by(self, row: Any) -> list[str]:
        """Return the non-local properties that a state, given as a row, violates, without those already reported."""
        return self._violated(self._decode(row))

    def check_new(self, rows: Rows, trace_to: Callable[[Any], Behaviour]) -> NDArray[np.bool_]:
        """Check new states; return which of them satisfy the non-local constraints."""
        try:
            for prop in self._parts.non_local:
                evaluated = self._verdicts[prop.name]
                if prop.name not in self._monitor.violated:
                    self._report(prop, rows, trace_to)
            kept = np.ones(len(rows), bool)
            for constraint in self._parts.non_local_constraints:
                evaluated = self._verdicts[constraint.name]
                kept[kept] = evaluated.of(rows[kept])
        except RaisedError as error:
            if error.trace is None:
                error.trace = trace_to(evaluated.last)
            raise
        self.beyond += int(np.count_nonzero(~kept))
        return kept

    def _report(self, prop: Property, rows: Rows, trace_to: Callable[[Any], Behaviour]) -> None:
        """Report the first state that violates a property."""
        for index in np.flatnonzero(~self._verdicts[prop.name].of(rows))[:1].tolist():
            self._monitor.violation(prop.name, self.least(prop.name) or trace_to(rows[index]))

    def _holds_in(self, prop: Property, row: Any) -> bool:
        return self._semantics.holds(prop.whole or prop, self._decode(row))

    @property
    def checks_pruned(self) -> bool:
        """Whether pruned states must be checked too, also for errors that a non-local constraint raises."""
        parts = self._parts
        pruning = parts.constraints or self._action_constraints
        return bool((parts.non_local and pruning) or (parts.non_local_constraints and parts.constraints))

    def check_collected(self, found: Rows, trace_to: Callable[[int], Behaviour]) -> None:
        """Check non-local invariants and constraints on pruned successors that the kernel collected."""
        rows = found[:, 1:]

        def trace_of(row: Any) -> Behaviour:
            place = int(found[next(i for i, one in enumerate(rows) if (one == row).all()), 0])
            trace, target = trace_to(place), self._decode(row)
            steps = [taken for taken in self._semantics.transitions(trace[-1].state) if taken.target == target]
            return (*trace, trace_step_of_transition(least_transition(steps)))

        for prop in self._parts.non_local:
            try:
                if prop.name not in self._monitor.violated:
                    self._report(prop, rows, trace_of)
            except RaisedError as error:
                if error.trace is None:
                    error.trace = trace_of(self._verdicts[prop.name].last)
                raise
        try:
            for constraint in self._parts.non_local_constraints:
                self._verdicts[constraint.name].of(rows)
        except RaisedError:
            self._repeat_constraints(rows, trace_of)

    def _repeat_constraints(self, rows: Rows, trace_of: Callable[[Any], Behaviour]) -> None:
        """Evaluate the constraints of states in order; raise the first error of one after those that hold."""
        for row in rows:
            try:
                self._system.is_within(self._decode(row))
            except RaisedError as error:
                trace = trace_of(row)
                if self._system.allows(trace[-2].state, trace[-1].state):
                    error.trace = trace
                    raise

    def check_pruned(self, rows: Rows, which: NDArray[np.int64], trace_to: Callable[[Rows, int], Behaviour]) -> None:
        """Check the pruned successors of states, found by the reference semantics: see `check_collected`."""
        if not self.checks_pruned:
            return
        for index in which.tolist():
            state = self._decode(rows[index])
            for transition in self._semantics.transitions(state):
                try:
                    goes_on = self._system.allows(state, transition.target) and self._system.is_within(
                        transition.target
                    )
                except RaisedError as error:
                    error.trace = (*trace_to(rows, index), trace_step_of_transition(transition))
                    raise
                if not goes_on:
                    for name in self._violated(transition.target):
                        found = self.least(name) or (*trace_to(rows, index), trace_step_of_transition(transition))
                        self._monitor.violation(name, found)

    def _violated(self, state: State) -> list[str]:
        """Return the non-local properties that a state violates, without those already reported."""
        known = self._monitor.violated
        return [p.name for p in self._parts.non_local if p.name not in known and not self._holds(p, state)]

    def _holds(self, prop: Property, state: State) -> bool:
        self._evaluated[prop.name] += 1
        return self._semantics.holds(prop.whole or prop, state)

    def notes(self, starts: int) -> list[str]:
        """Return a note for each non-local property: the reason, and the number of evaluations."""
        return [
            f"{prop.name} reads {non_local_reason(prop) or 'local inputs, but the tables have no bit left for it'}: "
            f"it was evaluated {self._evaluated[prop.name] + self._verdicts[prop.name].evaluated + starts:,} times"
            for prop in self._judged
        ]


def _row_bytes_without_empty_inboxes(row: Any) -> bytes:
    """Return a row's bytes without trailing empty inboxes, which replicas may add later."""
    return bytes(row.tobytes().rstrip(b"\0"))


class RefinementChecks:
    """Evaluates the refinements of a search on collected steps."""

    def __init__(self, interner: Interner, refinements: list[tuple[int, Property]]) -> None:
        semantics = Semantics(interner.protocol)
        checkers = [(1 << bit, semantics.refinement(prop)) for bit, prop in refinements]
        self._mappings = [(bit, one, StateFunctionMemo(interner, one.evaluated, lazily=False)) for bit, one in checkers]

    def violated_by(self, rows: Rows, targets: Rows, sources: NumbersOfStates, seen: int) -> Iterator[tuple[int, int]]:
        """Yield the first source with a violating step, and the bit of the property, unless the mask `seen` has it.

        Step `i` leads from rows[sources[i]] to targets[i].
        """
        for bit, refinement, numbers in self._mappings if len(targets) else ():
            if not seen & bit:
                here, where = np.unique(sources, return_inverse=True)
                before, after = numbers.of(rows[here])[where], numbers.of(targets)
                wrong = _are_not_allowed(len(refinement.mapped), refinement.allows, before, after)
                if wrong.any():
                    yield int(sources[wrong].min()), bit

    def along(self, rows: Rows) -> Iterator[tuple[int, int]]:
        """Yield the place of the first row of a path to which a violating step leads, and the bit of the property."""
        for bit, refinement, numbers in self._mappings:
            found = numbers.of(rows)
            wrong = _are_not_allowed(len(refinement.mapped), refinement.allows, found[:-1], found[1:])
            if wrong.any():
                yield int(wrong.argmax()) + 1, bit


def _are_not_allowed(
    count: int, allows: Callable[[int, int], bool], before: NumbersOfStates, after: NumbersOfStates
) -> NDArray[np.bool_]:
    """Return which pairs of `count` abstract states are no step of the abstract protocol."""
    pairs, which = np.unique(before * count + after, return_inverse=True)
    wrong: NDArray[np.bool_] = ~np.array([allows(*divmod(pair, count)) for pair in pairs.tolist()], bool)[which]
    return wrong

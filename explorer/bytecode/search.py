"""Breadth-first search by translated handlers, with the counts of the reference engine."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from kraftcheck.explorer.behaviour import Behaviour, behaviour_along
from kraftcheck.explorer.bookkeeping import Bookkeeping, SearchCounts, SearchStopped
from kraftcheck.explorer.bytecode.kernel import codes
from kraftcheck.explorer.bytecode.kernel.codes import BEYOND, HEAD
from kraftcheck.explorer.bytecode.kernel.expanding import INPUTS, admit, expand
from kraftcheck.explorer.bytecode.program import Program
from kraftcheck.explorer.bytecode.values import Heap
from kraftcheck.explorer.capabilities import require_supported
from kraftcheck.explorer.plain_system import PlainSystem
from kraftcheck.explorer.result import DEADLOCK, Result, SearchRequest
from kraftcheck.spec.diagnosis.vacuity import Watch
from kraftcheck.spec.errors import UntranslatableError
from kraftcheck.spec.language.declarations import Action, Projection, Property
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.language.state import State, state_of
from kraftcheck.spec.values import Map, Record, Value, field_names, field_types, is_enum, ordered

BATCH = 1 << 12
"""States expanded between two checks of the clock."""
SAMPLE = 1 << 9
"""Of this number of states, the reference semantics expands one too."""
FIRST_SAMPLES = 64
"""States at the begin of the search that are expanded by both."""
DIFFERENT = "this protocol: its translation differs from Python in a state; please report it"
ROOM = 1 << 20
"""Free words before a batch."""


class BytecodeSearch:
    """A breadth-first search that calls no handler in Python, but in a sample of the states."""

    def __init__(self, protocol: Protocol, options: SearchRequest) -> None:
        require_supported("bytecode", protocol, options)
        _require_translatable(protocol, options)
        self.protocol, self.options = protocol, options
        self.semantics = Semantics(protocol)
        self.system = PlainSystem(self.semantics, options)
        self._initial = self.system.initial()
        self.heap = Heap()
        self._replicas = ordered({key for state in self._initial for key in state.replicas})
        self._shared = type(self._initial[0].shared)
        self._fields, self._bounds = field_names(self._shared), list(protocol.bounds)
        self._properties = [*options.constraints, *options.properties]
        for of in _classes(protocol, self._initial):
            with suppress(UntranslatableError):  # it may not be used
                self.heap.kind(of)
        self._starts = [self._encoded(state) for state in self._initial]
        self._entries: list[tuple[Action, Value]] = []
        for action in protocol.actions.values():
            keys = [None] if action.kind == "environment" else self._replicas
            self._entries += [(action, key) for key in keys]
        self._program = self._translated()
        self._books = Bookkeeping(options, self._totals, protocol)

    @property
    def _width(self) -> int:
        """The number of columns of a state."""
        return len(self._replicas) + len(self._fields) + len(self._bounds)

    def _encoded(self, state: State) -> list[int]:
        encode = self.heap.encode
        replicas = [encode(state.replicas[one]) if one in state.replicas else 0 for one in self._replicas]
        shared = [encode(getattr(state.shared, one)) for one in self._fields]
        return [*replicas, *shared, *(encode(state.spent[one]) for one in self._bounds)]

    def _translated(self) -> Program:
        """Translate the program, and describe the search to the kernel."""
        heap, protocol, machine = self.heap, self.protocol, self.heap.machine
        program = Program(protocol, heap)
        owners: list[Action | Property] = [*(action for action, _ in self._entries), *self._properties]
        reads = list(dict.fromkeys(read for owner in owners for read in owner.reads))
        entries = [self._entry(program, number, one) for number, one in enumerate(self._entries)]
        types = [heap.type_of(field_types(self._shared)[one]) for one in self._fields]
        machine.columns = np.array([*map(heap.encode, self._replicas), 0], np.int64)
        machine.names = np.array([*map(heap.encode, (*self._fields, *self._bounds)), 0], np.int64)
        machine.limits = np.array([*protocol.bounds.values(), 0], np.int64)
        machine.entries = np.array(entries, np.int32).reshape(-1, 4)
        machine.properties = np.array([*(_property(program, one) for one in self._properties), (0,) * 5], np.int32)
        machine.projections = np.array([*(_projection(program, one) for one in reads), (0, 0)], np.int32)
        machine.parameters = np.array([*(_parameters(owner, reads) for owner in owners), [-1] * 8], np.int32)
        machine.shared_types = np.array([*types, 0], np.int32)
        self._describe(len(reads))
        program.link()
        return program

    def _describe(self, projections: int) -> None:
        """Hand the numbers of the search to the kernel, and make room for its states."""
        machine, heap = self.heap.machine, self.heap
        sizes = map(len, (self._replicas, self._fields, self._bounds, self._entries, self._properties))
        machine.shape[codes.REPLICAS : codes.PROPERTIES + 1] = list(sizes)
        machine.shape[codes.PROJECTIONS] = projections
        machine.shape[codes.SHARED_KIND], machine.shape[codes.ID] = heap.kind(self._shared), heap.name("id")
        if any("state" in prop.asks for prop in self._properties):
            machine.shape[codes.STATE_KIND] = heap.kind(State)
        machine.shape[codes.MOST_STATES] = self.options.max_states or 0
        machine.row = np.zeros(2 * self._width + 2, np.int64)
        machine.environment = np.zeros(2 * (2 + projections), np.int64)
        machine.fired, machine.taken = (np.zeros(len(self._entries) + 1, np.int64) for _ in range(2))
        machine.inputs = np.zeros((len(self._properties) + 1, 8), np.int64)
        machine.violations = np.zeros((len(self._properties) + 1, 2), np.int64)
        machine.states, machine.sources = (np.zeros(1 << 14, np.int32) for _ in range(2))
        machine.log = np.zeros((1 << 14, 2), np.int64)

    def _entry(self, program: Program, number: int, entry: tuple[Action, Value]) -> tuple[int, int, int, int]:
        action, key = entry
        test = self.heap.test(action.actors) if action.actors else 0
        return number, program.function(action.function), -1 if key is None else self._replicas.index(key), test

    @property
    def result(self) -> Result:
        """The result so far."""
        return self._books.result

    def run(self) -> Result:
        """Search, and return the result."""
        return self._books.result_of(self._search)

    def _totals(self) -> SearchCounts:
        at, fired = self.heap.machine.at, dict.fromkeys(self.system.actions, 0)
        for (action, _), times in zip(self._entries, self.heap.machine.fired.tolist(), strict=False):
            fired[action.name] += times
        generated = int(at[codes.GENERATED]) + len(self._initial)
        return SearchCounts(int(at[codes.STATES]), generated, fired, dict(self.semantics.handler_calls))

    def _search(self) -> None:
        with suppress(SearchStopped):
            self._search_levels()
        for prop, inputs in zip(self._properties, self.heap.machine.inputs.tolist(), strict=False):
            watch = self.protocol.probes.get(prop.name)
            if isinstance(watch, Watch):
                watch.note(inputs[INPUTS], self._program.seen(watch))
        self._books.report(0)

    def _search_levels(self) -> None:
        self._begin()
        first, depth = 0, 1
        while first < (end := self._count):
            if depth == self.options.max_depth:
                self._books.stop_at("max_depth")
            self._expand_level(first, end, depth)
            first, depth = end, depth + 1

    @property
    def _count(self) -> int:
        return int(self.heap.machine.at[codes.STATES])

    def _begin(self) -> None:
        machine = self.heap.machine
        for row in self._starts:
            self._make_room()
            machine.row[self._width : 2 * self._width] = row
            machine.at[codes.LOW], machine.at[codes.HEIGHT] = codes.LEAF, 0
            admit(machine, -1)
            self._require_no_error(0)
        self._report_violations()

    def _make_room(self) -> None:
        machine = self.heap.machine
        self.heap.require_room(ROOM)
        if self._count + ROOM // 8 > machine.states.shape[0]:
            more = np.zeros(machine.states.shape[0] + ROOM // 8, np.int32)
            machine.states, machine.sources = np.append(machine.states, more), np.append(machine.sources, more)

    def _expand_level(self, first: int, end: int, depth: int) -> None:
        machine = self.heap.machine
        while first < end:
            self.result.depth = depth + (self._count > end)
            self._books.check_time_limit(end - first)
            self._make_room()
            last = min(end, first + BATCH)
            sampled = next((one for one in self._samples(first, last)), last)
            if sampled == first:
                self._sample(first)
                last = first + 1
            else:
                last = int(expand(machine, first, sampled))
                self._require_no_error(last)
            first = last
        self.result.depth = depth + (self._count > end)
        self._report_violations()

    @staticmethod
    def _samples(first: int, last: int) -> Iterator[int]:
        return (one for one in range(first, last) if one < FIRST_SAMPLES or one % SAMPLE == 0)

    def _require_no_error(self, number: int) -> None:
        machine = self.heap.machine
        error, machine.at[codes.ERROR] = int(machine.at[codes.ERROR]), 0
        if error == codes.LIMIT:
            self._report_violations()
            self._books.stop_at("max_states")
        if error == codes.ROOM:
            self._make_room()
        elif error:
            what = "an operation that is not translated" if error == codes.UNSUPPORTED else "too much work"
            raise UntranslatableError(f"{what} ({self._program.lines[machine.at[codes.LINE]]})")

    def _sample(self, number: int) -> None:
        """Expand a state by the interpreter and by the reference semantics, and compare the steps and verdicts."""
        machine, state = self.heap.machine, self._state(number)
        machine.shape[codes.IS_LOGGING], machine.at[codes.LOGGED] = 1, 0
        while int(expand(machine, number, number + 1)) == number:
            self._require_no_error(number)
            machine.at[codes.LOGGED] = 0
        machine.shape[codes.IS_LOGGING] = 0
        steps, stopped = machine.log[: machine.at[codes.LOGGED]].tolist(), machine.at[codes.ERROR] != 0
        found = Counter((*self._label(entry), self._decoded(address)) for entry, address in steps)
        wanted = Counter((one.action, one.actor, one.target) for one in self.semantics.transitions(state))
        is_same = found <= wanted if stopped else found == wanted
        reached = {address for _, address in steps} if not stopped else set[int]()
        if not is_same or not all(map(self._is_judged_alike, reached)):
            raise UntranslatableError(DIFFERENT)
        self._require_no_error(number)

    def _is_judged_alike(self, address: int) -> bool:
        state, machine = self._decoded(address), self.heap.machine
        is_inside = int(machine.words[address + HEAD + self._width]) != BEYOND
        if is_inside != self.system.is_within(state):
            return False
        held = zip(self._properties, machine.violations.tolist(), strict=False)
        return all(where or self.semantics.holds(one, state) for one, (where, _) in held if one.kind != "constraint")

    def _label(self, entry: int) -> tuple[str, Value]:
        action, key = self._entries[entry]
        return action.name, key

    def _state(self, number: int) -> State:
        return self._decoded(int(self.heap.machine.states[number]))

    def _decoded(self, address: int) -> State:
        row = self.heap.machine.words[address + HEAD : address + HEAD + self._width].tolist()
        values = [None if one == 0 else self.heap.decode(one) for one in row]
        count, fields = len(self._replicas), len(self._fields)
        replicas = {key: one for key, one in zip(self._replicas, values, strict=False) if one is not None}
        shared = self._shared(*values[count : count + fields])
        spent: Map[str, Value] = Map(zip(self._bounds, values[count + fields :], strict=True))
        return state_of(Map(replicas), Map(), shared, spent)

    def _report_violations(self) -> None:
        """Record the violations that a level had, in the order of the properties; end the search with the first."""
        machine = self.heap.machine
        for prop, (where, address) in zip(self._properties, machine.violations.tolist(), strict=False):
            if where and prop.name not in self._books.violated:
                if self.semantics.holds(prop, self._decoded(address)):
                    raise UntranslatableError(DIFFERENT)
                self._books.violation(prop.name, self._behaviour(where - 2, address))
        stuck = int(machine.at[codes.STUCK])
        if stuck and self.options.deadlock and DEADLOCK not in self._books.violated:
            if next(self.semantics.transitions(self._state(stuck - 1)), None) is not None:
                raise UntranslatableError(DIFFERENT)
            self._books.violation(DEADLOCK, self._behaviour(stuck - 1, None))

    def _behaviour(self, number: int, address: int | None) -> Behaviour:
        """Return the behaviour that first reached a state, with one more step to the state at an address."""
        path = [] if address is None else [self._decoded(address)]
        while number >= 0:
            path.append(self._state(number))
            number = int(self.heap.machine.sources[number])
        return behaviour_along(Semantics(self.protocol), path[::-1])


def _require_translatable(protocol: Protocol, options: SearchRequest) -> None:
    """Raise UntranslatableError for properties beyond those of states, and where there are messages."""
    actions, properties = list(protocol.actions.values()), [*options.properties, *options.constraints]
    owners: list[Action | Property] = [*actions, *properties]
    if options.check_actions:
        raise UntranslatableError("--check-actions")
    if protocol.network.own_actions() or any(map(_takes_messages, owners)):
        raise UntranslatableError("messages")
    for prop in properties:
        if prop.over_steps or {"message", "spent"} & set(prop.asks) or prop.only is not None or prop.given:
            raise UntranslatableError(f"the parameters of {prop.name}")


def _takes_messages(owner: Action | Property) -> bool:
    return owner.kind == "on" or any(read.of_inbox for read in owner.reads)


def _classes(protocol: Protocol, states: list[State]) -> list[type]:
    """Return the classes of records and enums of a protocol's modules and of its initial states."""
    found: dict[type, None] = {}
    for base in type(protocol).__mro__:
        if not base.__module__.startswith(("kraftcheck.spec.language", "builtins")):
            for value in vars(sys.modules[base.__module__]).values():
                if isinstance(value, type) and (is_enum(value) or issubclass(value, Record)) and _is_own(value):
                    found[value] = None
    for state in states:
        found |= dict.fromkeys(map(type, (*state.replicas.values(), state.shared)))
    return list(found)


def _is_own(of: type) -> bool:
    return (
        of.__module__ not in ("enum", "kraftcheck.spec.values", "kraftcheck.spec.language.state")
        or of.__name__ == "Nothing"
    )


def _property(program: Program, prop: Property) -> tuple[int, int, int, int, int]:
    watch = program.protocol.probes.get(prop.name)
    function = program.probed(watch) if isinstance(watch, Watch) else program.function(prop.function)
    tests = [program.heap.test(prop.kinds(one)) if one in prop.asks else -1 for one in ("me", "peer")]
    return function, *tests, int(prop.kind == "constraint"), int(prop.opposite)  # type: ignore[return-value]


def _projection(program: Program, read: Projection) -> tuple[int, int]:
    return program.function(read.function), program.heap.test(read.of or (Record,))


def _parameters(owner: Action | Property, reads: list[Projection]) -> list[int]:
    """Return the sources of the parameters of an action or a property."""
    known = {"me": codes.OF_ME, "peer": codes.OF_PEER, "shared": codes.OF_SHARED, "state": codes.OF_STATE}
    known |= {read.name: codes.OF_PROJECTION + number for number, read in enumerate(reads)}
    leading = ["me"] if isinstance(owner, Action) and owner.kind == "internal" else []
    found = [known[name] for name in (*leading, *owner.asks)]
    if len(found) > 7:
        raise UntranslatableError(f"{owner.name} has more than seven parameters")
    return [*found, *[-1] * (8 - len(found))]

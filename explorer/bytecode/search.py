"""Breadth-first search by translated handlers, with the counts of the reference engine; its states as a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.bytecode.kernel import codes
from kraftcheck.explorer.bytecode.kernel.codes import EXCLUDED_STATE, NODE_HEAD_WORDS
from kraftcheck.explorer.bytecode.kernel.expanding import evaluate_property_in_states, expand_states, insert_next_state
from kraftcheck.explorer.bytecode.search_encoding import EncodedSearch
from kraftcheck.explorer.calls.handlers import PurityTest, PurityTestingSemantics
from kraftcheck.explorer.request import SearchRequest, drop_unsound_symmetry_with_notes, require_supported
from kraftcheck.explorer.result import Behaviour, Result, SearchCounts, SearchMonitor, SearchStopped, behaviour_along
from kraftcheck.explorer.state_graph import SingleStatePropertyEvaluator, StateGraph, require_state_numbers_fit
from kraftcheck.explorer.temporal.search import check_reachable_properties, check_temporal_properties
from kraftcheck.explorer.transition_system import BEYOND, PlainTransitionSystem, StateNumbers, StepArrays
from kraftcheck.spec.errors import NoBytecodeError
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.protocol import DEADLOCK, Protocol
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.language.state import State, Step

STATES_A_BATCH = 1 << 12
"""States expanded between two checks of the clock."""
SAMPLE_INTERVAL_STATES, EVEN_SAMPLE_BITS = 1 << 8, 16
"""Of the first number of states, the reference semantics expands one too; of twice as many after each doubling of the
states beyond that number of bits."""
FIRST_SAMPLED_STATES = 64
"""States at the begin of the search that are expanded by both, as is the first one that executes an instruction."""
WRONG_TRANSLATION_TEXT = "this protocol: its translation differs from Python in a state; please report it"
MOST_ANSWERS = 1 << 13
"""Calls of Python for untranslated expressions that any search may make; a longer one, one in two steps."""
LEAST_FREE_WORDS = 1 << 20
"""Free words before a batch."""


class BytecodeSearch:
    """A breadth-first search that calls no handler in Python, but in a sample of the states."""

    def __init__(self, protocol: Protocol, options: SearchRequest, starts: int | None = None) -> None:
        options, notes = drop_unsound_symmetry_with_notes(options)
        require_supported("bytecode", protocol, options)
        self.protocol, self.options = protocol, options
        self._purity = PurityTest(protocol, thorough=False)
        self.semantics: Semantics = PurityTestingSemantics(protocol, self._purity)
        self.system = PlainTransitionSystem(self.semantics, options)
        self.description = EncodedSearch(protocol, options, self.system.initial()[:starts])
        self.heap = self.description.heap
        self._monitor = SearchMonitor(options, self._totals, protocol)
        self._starts = 0  # initial states
        self.result.notes += notes

    @property
    def result(self) -> Result:
        """The result so far."""
        return self._monitor.result

    def run(self) -> Result:
        """Search, and return the result."""
        return self._monitor.result_of(self._search)

    def _totals(self) -> SearchCounts:
        at, fired = self.heap.machine.at, dict.fromkeys(self.system.actions, 0)
        for (action, _), times in zip(self.description.entries, self.heap.machine.fired.tolist(), strict=False):
            fired[action.name] += times
        generated = int(at[codes.AT_GENERATED]) + len(self.description.starts)
        return SearchCounts(int(at[codes.AT_STATES]), generated, fired, dict(self.semantics.handler_calls))

    def _search(self) -> None:
        with suppress(SearchStopped):
            self._search_levels()
            if self.options.over_behaviours:
                self._check_graph_properties()
        self._purity.call_again()
        self.description.note_probes()
        self._monitor.report(0)

    def _search_levels(self) -> None:
        self._begin()
        first, depth = 0, 1
        while first < (end := self.count):
            if depth == self.options.max_depth:
                self._monitor.stop_at("max_depth")
            self._expand_level(first, end, depth)
            first, depth = end, depth + 1

    @property
    def count(self) -> int:
        """The number of states."""
        return int(self.heap.machine.at[codes.AT_STATES])

    def _begin(self) -> None:
        machine = self.heap.machine
        for row in self.description.starts:
            self._make_room()
            machine.row[self.description.width : 2 * self.description.width] = row
            while True:
                machine.at[codes.AT_SCRATCH_TOP], machine.at[codes.AT_STACK_HEIGHT] = codes.ATOM_WORDS, 0
                address = int(insert_next_state(machine, -1))
                if not machine.at[codes.AT_ERROR]:
                    break
                self.require_no_error(0)
            if self.count <= FIRST_SAMPLED_STATES or machine.at[codes.AT_IS_FRESH]:
                self.require_alike(self._is_judged_alike(address))
                machine.at[codes.AT_IS_FRESH] = 0
        self.result.depth, self._starts = int(self.count > 0), self.count
        self._report_violations()

    def _make_room(self) -> None:
        machine = self.heap.machine
        self.heap.require_room(LEAST_FREE_WORDS)
        if self.count + LEAST_FREE_WORDS // 8 > machine.states.shape[0]:
            more = np.zeros(machine.states.shape[0] + LEAST_FREE_WORDS // 8, np.int32)
            machine.states, machine.sources = np.append(machine.states, more), np.append(machine.sources, more)

    def _expand_level(self, first: int, end: int, depth: int) -> None:
        machine = self.heap.machine
        while first < end:
            self.result.depth = depth + (self.count > end)
            self._monitor.check_time_limit(self.count - first)
            self._make_room()
            last = min(end, first + STATES_A_BATCH)
            sampled = self.next_sample(first)
            if sampled == first:
                self._sample(first)
                last = first + 1
            else:
                last = int(expand_states(machine, first, min(sampled, last)))
                self.require_no_error(last)
                if machine.at[codes.AT_IS_FRESH]:
                    self._sample(last)
                    last += 1
            first = last
        self.result.depth = depth + (self.count > end)
        self._report_violations()

    @staticmethod
    def next_sample(first: int) -> int:
        """Return the first state from a number on that the reference semantics expands too."""
        interval = SAMPLE_INTERVAL_STATES << max(0, first.bit_length() - EVEN_SAMPLE_BITS)
        return first if first < FIRST_SAMPLED_STATES else -(-first // interval) * interval

    def require_no_error(self, number: int) -> None:
        """Mend what stopped the interpreter in a state, so that it can go on there, or raise an error."""
        machine = self.heap.machine
        error, machine.at[codes.AT_ERROR] = int(machine.at[codes.AT_ERROR]), 0
        if error == codes.STATE_LIMIT_ERROR:
            self.result.depth = len(self._path_to(self.count - 1))
            self._report_violations()
            self._monitor.stop_at("max_states")
        if error == codes.PERMANENT_FULL_ERROR:
            self._make_room()
            if machine.at[codes.AT_LOGGED] == machine.log.shape[0]:
                machine.log = np.zeros((2 * machine.log.shape[0], machine.log.shape[1]), np.int64)
        elif error == codes.ASKED_ERROR:
            self.description.answer(max(MOST_ANSWERS, int(machine.at[codes.AT_GENERATED]) // 2))
        elif error:
            instruction = machine.at[codes.AT_ERROR_LINE]
            name = codes.Op(machine.code[instruction, 0]).name
            operation = f"the operation {name} of these values, which may be an error of the protocol"
            what = operation if error == codes.UNSUPPORTED_ERROR else "too much work"
            raise NoBytecodeError(f"{what} ({self.description.place_of(instruction)})")

    def _sample(self, number: int) -> None:
        """Expand a state by the interpreter and by the reference semantics, and compare the steps and verdicts."""
        machine, state = self.heap.machine, self.state(number)
        machine.shape[codes.SHAPE_IS_LOGGING], machine.at[codes.AT_LOGGED] = 1, 0
        while int(expand_states(machine, number, number + 1)) == number:
            self.require_no_error(number)
            machine.at[codes.AT_LOGGED] = 0
        machine.shape[codes.SHAPE_IS_LOGGING] = machine.at[codes.AT_IS_FRESH] = 0
        steps, stopped = machine.log[: machine.at[codes.AT_LOGGED]].tolist(), machine.at[codes.AT_ERROR] != 0
        read = self.description
        found = Counter((*read.label(entry), read.decoded(address)) for entry, address, _ in steps)
        wanted = Counter((one.action, one.actor, one.target) for one in self.semantics.transitions(state))
        is_same = found <= wanted if stopped else found == wanted
        reached = {address for _, address, _ in steps} if not stopped else set[int]()
        self.require_alike(is_same and all(self._is_judged_alike(address, state) for address in reached))
        if self.options.symmetry is not None:
            self.require_alike(all(map(self._has_number_of_orbit, reached)))
        self.require_no_error(number)

    @staticmethod
    def require_alike(is_alike: bool) -> None:
        """Raise NoBytecodeError unless the interpreter and the reference semantics agree."""
        if not is_alike:
            raise NoBytecodeError(WRONG_TRANSLATION_TEXT)

    def _is_judged_alike(self, address: int, before: State | None = None) -> bool:
        state, machine = self.description.decoded(address), self.heap.machine
        is_inside = self._number_at(address) != EXCLUDED_STATE
        if is_inside != self.system.is_within(state):
            return False
        held = zip(self.description.properties, machine.violations.tolist(), strict=False)
        judged = [one for one, (where, _) in held if not where and one.kind != "constraint"]
        return all(self._satisfies(one, before, state) for one in judged)

    def _satisfies(self, prop: Property, before: State | None, after: State) -> bool:
        """Return whether a property of states holds in a state, or a property of steps for the step to it, if any."""
        if not prop.over_steps:
            return self.semantics.holds(prop, after)
        return before is None or self.semantics.holds_over(prop, before, after)

    def _has_number_of_orbit(self, address: int) -> bool:
        number, identity = self._number_at(address), self.system.identity
        return number < 0 or identity(self.description.decoded(address)) == identity(self.state(number))

    def _number_at(self, address: int) -> int:
        return int(self.heap.machine.words[address + NODE_HEAD_WORDS + self.description.width])

    def state(self, number: int) -> State:
        """Return the state with a number."""
        return self.description.decoded(int(self.heap.machine.states[number]))

    def _report_violations(self) -> None:
        """Record the violations that a level had, in the order of the properties; end the search with the first."""
        machine = self.heap.machine
        for prop, (where, address) in zip(self.description.properties, machine.violations.tolist(), strict=False):
            if where and prop.name not in self._monitor.violated:
                source = self.state(where - 2) if where > 1 else None
                self.require_alike(not self._satisfies(prop, source, self.description.decoded(address)))
                self._monitor.violation(prop.name, self.behaviour(where - 2, address))
        stuck = int(machine.at[codes.AT_DEADLOCKED])
        if stuck and self.options.deadlock and DEADLOCK not in self._monitor.violated:
            self.require_alike(next(self.semantics.transitions(self.state(stuck - 1)), None) is None)
            self._monitor.violation(DEADLOCK, self.behaviour(stuck - 1, None))

    def behaviour(self, number: int, address: int | None) -> Behaviour:
        """Return the behaviour that first reached a state, with one more step to the state at an address."""
        last = [] if address is None else [self.description.decoded(address)]
        return behaviour_along(Semantics(self.protocol), [*map(self.state, self._path_to(number)), *last])

    def _path_to(self, number: int) -> list[int]:
        """Return the numbers of the states through which a state was first reached, with its own."""
        path = []
        while number >= 0:
            path.append(number)
            number = int(self.heap.machine.sources[number])
        return path[::-1]

    def _check_graph_properties(self) -> None:
        """Check AG EF and temporal properties on the complete state graph."""
        states = BytecodeStates(self, starts=self._starts)
        bounds = SingleStatePropertyEvaluator(self.semantics, self.options, self.semantics.most_spent)
        graph = StateGraph(states, states, bounds, pause=lambda: self._monitor.check_time_limit(0))
        check_reachable_properties(graph, self.options, self._monitor, is_compiled=True)
        check_temporal_properties(graph, self.semantics, self.options, self._monitor)


class BytecodeStates:
    """The states of a finished search by number: a `StateStore`, and a `TransitionSystem` of consecutive numbers."""

    def __init__(self, search: BytecodeSearch, starts: int) -> None:
        self.count, self.starts, self.labels = search.count, starts, search.system.labels
        require_state_numbers_fit(self.count)
        self._search, self._machine = search, search.heap.machine
        labels = [
            self.labels.number(action.name, None if key is None else SimpleNamespace(id=key), None, Step())
            for action, key in search.description.entries
        ]
        self._label_of_entry = np.array(labels, np.uint16)

    def chunks(self, *, backwards: bool) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Yield the numbers of all states in batches."""
        firsts = range(0, self.count, STATES_A_BATCH)
        for first in reversed(firsts) if backwards else firsts:
            yield first, np.arange(first, min(first + STATES_A_BATCH, self.count))

    def initial(self) -> NDArray[np.int64]:
        """Return the initial states."""
        return np.arange(self.starts)

    def canonical(self, states: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the canonical keys, which are the numbers."""
        return states

    def numbers(self, keys: NDArray[np.int64], which: NDArray[np.int64]) -> StateNumbers:
        """Return the numbers of the states with keys[which]."""
        return keys[which].astype(np.int32)

    def decode(self, states: NDArray[np.int64]) -> list[State]:
        """Return the states as values of the language."""
        return [self.state(number) for number in states.tolist()]

    def state(self, number: int) -> State:
        """Return a state."""
        return self._search.state(number)

    def path_to(self, number: int) -> Behaviour:
        """Return the behaviour that first reached a state."""
        return self._search.behaviour(number, None)

    def forget_keys(self) -> None:
        """Do nothing: the keys are the numbers."""

    def successors(self, states: NDArray[np.int64], which: NDArray[np.int64]) -> Iterator[StepArrays]:
        """Yield the steps out of some states, which are expanded again."""
        for places in np.split(which, np.flatnonzero(np.diff(which) != 1) + 1) if len(which) else ():
            number, end = int(states[places[0]]), int(states[places[-1]]) + 1
            while number < end:
                entries, addresses, sources, number = self._logged_steps(number, end)
                numbers = self._machine.words[addresses + NODE_HEAD_WORDS + self._search.description.width]
                ends = np.where(numbers >= 0, 0, BEYOND).astype(np.int32)
                yield StepArrays(sources - states[0], numbers, ends, self._label_of_entry[entries])

    def _logged_steps(self, first: int, last: int) -> tuple[Any, Any, Any, int]:
        """Return the entries, target addresses and sources of steps, and the first number that was not expanded."""
        machine = self._machine
        counted = machine.at[codes.AT_GENERATED], machine.at[codes.AT_DEADLOCKED], machine.fired.copy()
        machine.shape[codes.SHAPE_IS_LOGGING], machine.at[codes.AT_LOGGED] = 1, 0
        number = int(expand_states(machine, first, last))
        steps = machine.log[: machine.at[codes.AT_LOGGED]]
        entries, addresses, sources = steps[steps[:, 2] < number].T.copy()  # an error stops within a state
        machine.shape[codes.SHAPE_IS_LOGGING] = machine.at[codes.AT_IS_FRESH] = 0
        machine.at[codes.AT_GENERATED], machine.at[codes.AT_DEADLOCKED], machine.fired[:] = counted
        self._search.require_no_error(number)  # makes the log longer, if it is full
        return entries, addresses, sources, number

    def holds(
        self, prop: Property, states: NDArray[np.int64], judge: Callable[[Property, State], bool]
    ) -> NDArray[np.bool_]:
        """Return for each state whether a property holds; in a sample, `judge` evaluates it too."""
        held, first, machine = np.zeros(len(states), np.uint8), int(states[0]), self._machine
        which, number, sampled = self._search.description.property_number(prop), first, set[int]()
        while number < first + len(states):
            number = int(
                evaluate_property_in_states(machine, which, number, first + len(states), held[number - first :])
            )
            if machine.at[codes.AT_IS_FRESH] and not machine.at[codes.AT_ERROR]:
                machine.at[codes.AT_IS_FRESH] = 0
                sampled.add(number - 1)
            self._search.require_no_error(number)
        number = self._search.next_sample(first)
        while number < first + len(states):
            sampled.add(number)
            number = self._search.next_sample(number + 1)
        for one in sampled:
            self._search.require_alike(judge(prop, self.state(one)) == bool(held[one - first]))
        return held.view(np.bool_)

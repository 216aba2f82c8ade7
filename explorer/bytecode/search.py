"""Breadth-first search by translated handlers, with the counts of the reference engine."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import numpy as np

from kraftcheck.explorer.bytecode.description import EncodedSearch
from kraftcheck.explorer.bytecode.kernel import codes
from kraftcheck.explorer.bytecode.kernel.codes import EXCLUDED_STATE, NODE_HEAD_WORDS
from kraftcheck.explorer.bytecode.kernel.expanding import expand_states, insert_state
from kraftcheck.explorer.calls.handlers import PurityTest, PurityTestingSemantics
from kraftcheck.explorer.request import SearchRequest, require_supported
from kraftcheck.explorer.result import Behaviour, Result, SearchCounts, SearchMonitor, SearchStopped, behaviour_along
from kraftcheck.explorer.transition_system import PlainSystem
from kraftcheck.spec.errors import UntranslatableError
from kraftcheck.spec.language.protocol import DEADLOCK, Protocol
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.language.state import State

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
        require_supported("bytecode", protocol, options)
        self.protocol, self.options = protocol, options
        self._purity = PurityTest(protocol, thorough=False)
        self.semantics: Semantics = PurityTestingSemantics(protocol, self._purity)
        self.system = PlainSystem(self.semantics, options)
        self._description = EncodedSearch(protocol, options, self.system.initial()[:starts])
        self.heap = self._description.heap
        self._monitor = SearchMonitor(options, self._totals, protocol)
        self._answered = 0  # calls of Python for untranslated expressions

    @property
    def result(self) -> Result:
        """The result so far."""
        return self._monitor.result

    def run(self) -> Result:
        """Search, and return the result."""
        return self._monitor.result_of(self._search)

    def _totals(self) -> SearchCounts:
        at, fired = self.heap.machine.at, dict.fromkeys(self.system.actions, 0)
        for (action, _), times in zip(self._description.entries, self.heap.machine.fired.tolist(), strict=False):
            fired[action.name] += times
        generated = int(at[codes.AT_GENERATED]) + len(self._description.starts)
        return SearchCounts(int(at[codes.AT_STATES]), generated, fired, dict(self.semantics.handler_calls))

    def _search(self) -> None:
        with suppress(SearchStopped):
            self._search_levels()
        self._purity.call_again()
        self._description.note_probes()
        self._monitor.report(0)

    def _search_levels(self) -> None:
        self._begin()
        first, depth = 0, 1
        while first < (end := self._count):
            if depth == self.options.max_depth:
                self._monitor.stop_at("max_depth")
            self._expand_level(first, end, depth)
            first, depth = end, depth + 1

    @property
    def _count(self) -> int:
        return int(self.heap.machine.at[codes.AT_STATES])

    def _begin(self) -> None:
        machine = self.heap.machine
        for row in self._description.starts:
            self._make_room()
            machine.row[self._description.width : 2 * self._description.width] = row
            while True:
                machine.at[codes.AT_SCRATCH_TOP], machine.at[codes.AT_STACK_HEIGHT] = codes.ATOM_WORDS, 0
                address = int(insert_state(machine, -1))
                if not machine.at[codes.AT_ERROR]:
                    break
                self._require_no_error(0)
            if self._count <= FIRST_SAMPLED_STATES or machine.at[codes.AT_IS_FRESH]:
                self._require_alike(self._is_judged_alike(address))
                machine.at[codes.AT_IS_FRESH] = 0
        self.result.depth = int(self._count > 0)
        self._report_violations()

    def _make_room(self) -> None:
        machine = self.heap.machine
        self.heap.require_room(LEAST_FREE_WORDS)
        if self._count + LEAST_FREE_WORDS // 8 > machine.states.shape[0]:
            more = np.zeros(machine.states.shape[0] + LEAST_FREE_WORDS // 8, np.int32)
            machine.states, machine.sources = np.append(machine.states, more), np.append(machine.sources, more)

    def _expand_level(self, first: int, end: int, depth: int) -> None:
        machine = self.heap.machine
        while first < end:
            self.result.depth = depth + (self._count > end)
            self._monitor.check_time_limit(self._count - first)
            self._make_room()
            last = min(end, first + STATES_A_BATCH)
            sampled = self._next_sample(first)
            if sampled == first:
                self._sample(first)
                last = first + 1
            else:
                last = int(expand_states(machine, first, min(sampled, last)))
                self._require_no_error(last)
                if machine.at[codes.AT_IS_FRESH]:
                    self._sample(last)
                    last += 1
            first = last
        self.result.depth = depth + (self._count > end)
        self._report_violations()

    @staticmethod
    def _next_sample(first: int) -> int:
        """Return the first state from a number on that the reference semantics expands too."""
        interval = SAMPLE_INTERVAL_STATES << max(0, first.bit_length() - EVEN_SAMPLE_BITS)
        return first if first < FIRST_SAMPLED_STATES else -(-first // interval) * interval

    def _require_no_error(self, number: int) -> None:
        machine = self.heap.machine
        error, machine.at[codes.AT_ERROR] = int(machine.at[codes.AT_ERROR]), 0
        if error == codes.STATE_LIMIT_ERROR:
            self._report_violations()
            self._monitor.stop_at("max_states")
        if error == codes.PERMANENT_FULL_ERROR:
            self._make_room()
            if machine.at[codes.AT_LOGGED] == machine.log.shape[0]:
                machine.log = np.zeros((2 * machine.log.shape[0], 2), np.int64)
        elif error == codes.ASKED_ERROR:
            self._answered += 1
            if self._answered > max(MOST_ANSWERS, machine.at[codes.AT_GENERATED] // 2):
                raise UntranslatableError("more calls of Python than one in two steps")
            self._description.answer()
        elif error:
            what = "an operation that is not translated" if error == codes.UNSUPPORTED_ERROR else "too much work"
            raise UntranslatableError(f"{what} ({self._description.place_of(machine.at[codes.AT_ERROR_LINE])})")

    def _sample(self, number: int) -> None:
        """Expand a state by the interpreter and by the reference semantics, and compare the steps and verdicts."""
        machine, state = self.heap.machine, self._state(number)
        machine.shape[codes.SHAPE_IS_LOGGING], machine.at[codes.AT_LOGGED] = 1, 0
        while int(expand_states(machine, number, number + 1)) == number:
            self._require_no_error(number)
            machine.at[codes.AT_LOGGED] = 0
        machine.shape[codes.SHAPE_IS_LOGGING] = machine.at[codes.AT_IS_FRESH] = 0
        steps, stopped = machine.log[: machine.at[codes.AT_LOGGED]].tolist(), machine.at[codes.AT_ERROR] != 0
        read = self._description
        found = Counter((*read.label(entry), read.decoded(address)) for entry, address in steps)
        wanted = Counter((one.action, one.actor, one.target) for one in self.semantics.transitions(state))
        is_same = found <= wanted if stopped else found == wanted
        reached = {address for _, address in steps} if not stopped else set[int]()
        self._require_alike(is_same and all(map(self._is_judged_alike, reached)))
        self._require_no_error(number)

    @staticmethod
    def _require_alike(is_alike: bool) -> None:
        if not is_alike:
            raise UntranslatableError(WRONG_TRANSLATION_TEXT)

    def _is_judged_alike(self, address: int) -> bool:
        state, machine = self._description.decoded(address), self.heap.machine
        is_inside = int(machine.words[address + NODE_HEAD_WORDS + self._description.width]) != EXCLUDED_STATE
        if is_inside != self.system.is_within(state):
            return False
        held = zip(self._description.properties, machine.violations.tolist(), strict=False)
        return all(where or self.semantics.holds(one, state) for one, (where, _) in held if one.kind != "constraint")

    def _state(self, number: int) -> State:
        return self._description.decoded(int(self.heap.machine.states[number]))

    def _report_violations(self) -> None:
        """Record the violations that a level had, in the order of the properties; end the search with the first."""
        machine = self.heap.machine
        for prop, (where, address) in zip(self._description.properties, machine.violations.tolist(), strict=False):
            if where and prop.name not in self._monitor.violated:
                self._require_alike(not self.semantics.holds(prop, self._description.decoded(address)))
                self._monitor.violation(prop.name, self._behaviour(where - 2, address))
        stuck = int(machine.at[codes.AT_DEADLOCKED])
        if stuck and self.options.deadlock and DEADLOCK not in self._monitor.violated:
            self._require_alike(next(self.semantics.transitions(self._state(stuck - 1)), None) is None)
            self._monitor.violation(DEADLOCK, self._behaviour(stuck - 1, None))

    def _behaviour(self, number: int, address: int | None) -> Behaviour:
        """Return the behaviour that first reached a state, with one more step to the state at an address."""
        path = [] if address is None else [self._description.decoded(address)]
        while number >= 0:
            path.append(self._state(number))
            number = int(self.heap.machine.sources[number])
        return behaviour_along(Semantics(self.protocol), path[::-1])

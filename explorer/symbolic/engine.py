"""The symbolic engine: computes the reachable states as one set (`docs/symbolic.md`)."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Collection, Iterator
from contextlib import suppress

from kraftcheck.explorer import request
from kraftcheck.explorer.result import (
    INTERRUPTED_LIMIT,
    MEMORY_LIMIT,
    DeadEndCounts,
    Result,
    Search,
    SearchCounts,
    SearchMonitor,
    SearchRequest,
    SearchStopped,
    TraceStep,
)
from kraftcheck.explorer.symbolic import violations
from kraftcheck.explorer.symbolic.checkpoint import SATURATION_SEARCH, SavedSymbolicSearch, SymbolicCheckpoint
from kraftcheck.explorer.symbolic.diagram_store import EMPTY_SET, LEAST_MAX_NODES, OutOfNodes
from kraftcheck.explorer.symbolic.handler_cache import HandlerCache
from kraftcheck.explorer.symbolic.state_space import StateSpace
from kraftcheck.explorer.symbolic.variable_orders import OrderTrials
from kraftcheck.explorer.symbolic.variables import LayoutChanged, OpaqueSetRequired, VariableLayout, initial_layout
from kraftcheck.processes import InterruptHandler, default_memory_bytes
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics, initial_states

PYTHON_GC_THRESHOLD = 1_000_000  # allocations between two runs of Python's garbage collector
LEAST_NODES_TO_COLLECT = 10_000  # nodes from which on garbage is collected: all objects are traversed
CLOCK_CHECK_SECONDS = 0.1  # seconds between two checks of the clock
TABLES_LEARNING_SECONDS, TABLES_STATES_A_SECOND = 5.0, 100_000
"""Upper estimate of the table engine's time: seconds to learn, and states a second."""
MOST_NODES_TO_COUNT_STEPS = 100_000  # nodes of a set up to which steps are counted after the search was stopped


class PauseSignal(Exception):  # noqa: N818 - not an error
    """Raised when a checkpoint, or an early check for violations, is due."""


def explore(protocol: Protocol, options: SearchRequest) -> Result:
    """Search the reachable states of a protocol as sets; raise InputError for unsupported options."""
    request.require_supported("symbolic", protocol, options)
    search = SymbolicSearch(protocol, options)
    try:
        return search.run()
    finally:
        if search.space is not None:
            search.space.store.free()  # its objects refer to each other in cycles


class SymbolicSearch:
    """One symbolic search."""

    def __init__(self, protocol: Protocol, options: SearchRequest) -> None:
        self.options = options
        self.semantics = Semantics(protocol)
        self.starts = list(initial_states(self.semantics, options.init))
        self.calls = HandlerCache(protocol, type(self.starts[0].shared))
        self.monitor = SearchMonitor(options, self._totals, protocol)
        if self.monitor.reads is not None:
            # of hidden bounds: else the search is refused; but where they are spent there may be a deadlock
            self.monitor.reads.enough_left = not options.deadlock
        self._interruption = InterruptHandler()
        self._counted = 0
        self._is_over = False
        self.pace = violations.WitnessDeadline()
        self._traps: dict[str, DeadEndCounts] = {}
        self.space: StateSpace | None = None
        self._may_save = False
        self._orders = OrderTrials(self.calls, self.semantics, self.starts, options.action_constraints)
        self._checkpoint = SymbolicCheckpoint.of(protocol, options, self.starts)

    @property
    def is_interrupted(self) -> bool:
        """Whether an interruption was asked for."""
        return self._interruption.asked

    def run(self) -> Result:
        """Search, and return the result."""
        often = gc.get_threshold()
        gc.set_threshold(PYTHON_GC_THRESHOLD, *often[1:])  # learned objects are never freed
        try:
            with self._interruption:
                return self.monitor.result_of(self._search, self._notes)
        finally:
            gc.set_threshold(*often)
            if self._checkpoint is not None:
                self._checkpoint.close()

    def _search(self) -> None:
        found = None if self._checkpoint is None else self._checkpoint.found
        if found is not None:
            self.monitor.restore(found.violations, found.seconds)
        try:
            self._search_spaces(found)
            self.calls.purity.call_again()
        except (SearchStopped, KeyboardInterrupt) as end:
            if isinstance(end, KeyboardInterrupt):
                self.monitor.record_limit(INTERRUPTED_LIMIT)
            elif self.monitor.result.limit is not None and self.options.search != Search.BFS:
                with suppress(SearchStopped, KeyboardInterrupt):
                    self._check_part()
            self._save(finished=self.monitor.result.limit is None)
            raise
        else:
            self._save(finished=True)
        finally:
            self._is_over = True

    def _search_spaces(self, found: SavedSymbolicSearch | None) -> None:
        """Search, and restart the search with new variables or a new variable order whenever the layout changes."""
        layout, options = self._layout(), self.options
        if found is not None:
            found.arrange(layout)
            self._orders.give_up()
        while True:
            try:
                self._search_space(self._new_space(layout, is_restored=found is not None))
                return
            except (LayoutChanged, OpaqueSetRequired) as again:
                # Every node, cache entry and relation is in terms of the layout's levels, so none outlives a change of
                # the layout. The search restarts from the initial states. Memoized handler calls stay in
                # `HandlerCache`, which drops only the calls that depend on the changed replicas or sets.
                if isinstance(again, OpaqueSetRequired):
                    layout.make_opaque(again.field)
                self._drop_space()
                self._counted, found = 0, None
            except OutOfNodes:
                most = len(self.space.store.arrays.nodes) if self.space is not None else 0
                asked = options.max_nodes and max(options.max_nodes, LEAST_MAX_NODES)
                self.monitor.stop_at("max_nodes" if most == asked else MEMORY_LIMIT)

    def _drop_space(self) -> None:
        space, self.space = self.space, None
        if space is None:
            return
        nodes = space.store.nodes
        space.store.free()
        if nodes >= LEAST_NODES_TO_COLLECT:
            gc.collect()  # learned objects refer to each other in cycles

    def _new_space(self, layout: VariableLayout, *, is_restored: bool) -> StateSpace:
        self.space, self.pace.next_look = None, math.inf
        options, restore = self.options, None
        if is_restored and self._checkpoint is not None:
            restore = self._checkpoint.restore
        limits = (options.action_constraints, options.max_nodes, options.view, restore)
        memory = options.memory or default_memory_bytes()
        self.space = StateSpace(self.calls, layout, self.starts, memory, self.pause, *limits)
        self.monitor.result.depth = 0
        return self.space

    def _search_space(self, space: StateSpace) -> None:
        """Search with one layout of the variables."""
        self._violations = violations.ViolationFinder(space, self)
        checks = self._violations.states
        self.note(space.view.of(checks.within(self.options.constraints, space.start)), EMPTY_SET)
        self._check_starts()
        self.pace.next_look = 0.0
        if space.kept() and self._checkpoint is not None:
            self._checkpoint.require_same(space, self._violations)
        if self.options.search == Search.BFS:
            reached = violations.SymbolicBreadthFirstSearch(self, space, self._violations).run()
        else:
            self.monitor.result.depth = None
            beyond = EMPTY_SET
            if self.options.search == SATURATION_SEARCH and not self.options.constraints:
                reached = self._saturated(space)
            else:
                reached, beyond = self._chained(space)
            self.note(reached, reached)
            if space.store.is_crowded:
                [reached, beyond] = space.store.collect_garbage([reached, beyond])
            more = space.store.union(beyond, space.pruned(reached))
            self._violations.show(self._violations.of(reached, more))
        for prop in self.options.reachable:
            stuck = violations.states_without_path_to(space, checks, prop, space.store.roots["reached"], self.pause)
            self.monitor.followed.add(prop.name)
            if stuck != EMPTY_SET:
                self._traps[prop.name] = DeadEndCounts(space.store.count(stuck), self._counted)
                self._violations.show({prop.name: stuck})

    def _check_starts(self) -> None:
        """Check that the initial states are initial states of refined protocols."""
        for prop in self.options.refinements:
            first = next((state for state in self.starts if not self.semantics.begins(prop, state)), None)
            if first is not None:
                self.found(prop.name, (TraceStep(first),))

    def _tick(self, nodes: int) -> None:
        if self._interruption.asked:
            raise KeyboardInterrupt
        self.monitor.check_time_limit(0, nodes)

    def _saturated(self, space: StateSpace) -> int:
        """Return all reachable states, by saturation; record the known ones if the search is stopped."""
        store, reached = space.store, space.store.union(space.start, space.kept().get("reached", EMPTY_SET))
        self.keep({"reached": reached})
        while True:
            try:
                self._may_save = True
                reached = space.saturated(reached)
                self.keep({"reached": reached})
                return reached
            except PauseSignal:
                self._may_save, reached = False, store.roots["part"]
                self._note_part(space, reached)
                self.keep({"reached": reached})
                if self._violations.is_due:
                    reached, _ = self._look(space, reached)
            except (SearchStopped, KeyboardInterrupt, OutOfNodes):
                self._is_over = True
                space.keep({"reached": store.roots["part"]})
                self._note_part(space, store.roots["part"])
                raise
            finally:
                self._may_save = False

    def _note_part(self, space: StateSpace, part: int) -> None:
        """Record the states found before saturation stopped; count their steps only if the set is small."""
        self.note(part, part if space.store.size(part) < MOST_NODES_TO_COUNT_STEPS else EMPTY_SET)

    def _chained(self, space: StateSpace) -> tuple[int, int]:
        """Return the reachable states within and beyond the constraints, computed by chaining over the events."""
        store, checks, constraints = space.store, self._violations.states, self.options.constraints
        reached = checks.within(constraints, space.start)
        beyond, before = store.difference(space.start, reached), EMPTY_SET
        if space.kept():
            reached, beyond = space.kept().values()
        while reached != before:
            self.keep({"reached": reached, "beyond": beyond})
            before = reached
            space.learn(reached)
            for root in space.groups.roots():
                self.pause()
                new = store.difference(store.difference(store.successors(reached, root), reached), beyond)
                allowed = checks.within(constraints, new)
                reached = store.union(reached, allowed)
                beyond = store.union(beyond, store.difference(new, allowed))
                if store.is_crowded:
                    reached, beyond, before = store.collect_garbage([reached, beyond, before])
                if self._violations.is_due:
                    self.note(reached, EMPTY_SET)
                    reached, beyond, before = self._look(space, reached, beyond, before)
            self.note(reached, EMPTY_SET)
        return reached, beyond

    def _look(self, space: StateSpace, reached: int, beyond: int = EMPTY_SET, *others: int) -> list[int]:
        """Check properties on the states found so far; return the sets, renumbered if garbage was collected."""
        sets = [reached, beyond, *others]
        try:
            bad = self._violations.early(reached, beyond)
        except OutOfNodes:
            return space.store.collect_garbage(sets)
        if bad:
            self._violations.show(bad, is_part=True)
        return sets

    def _check_part(self) -> None:
        """Look for violations in the known states after a limit ended the search."""
        if self.space is not None and "reached" in self.space.store.roots:
            self._is_over, self.pace.next_look = False, 0.0
            try:
                self._violations.check_part()
            finally:
                self._is_over = True

    def _layout(self) -> VariableLayout:
        reads = [action.reads for action in self.semantics.protocol.actions.values()]
        asked = (*self.options.properties, *self.options.constraints, *self.options.reachable)
        reads += [prop.reads for prop in asked]
        whole = any(read.of_inbox for some in reads for read in some)
        return initial_layout(self.semantics.protocol, self.starts, whole_inboxes=whole)

    # Counts, and callbacks of the search orders

    def note(self, reached: int, expanded: int) -> None:
        """Record the set of the reached states, and the subset of them that was expanded."""
        assert self.space is not None
        self._counted = self.space.store.count(reached)
        self.space.store.roots.update(reached=reached, expanded=expanded)

    def found(self, name: str, trace: tuple[TraceStep, ...]) -> None:
        """Record a violated property with its counterexample."""
        self.is_known(name)
        self.monitor.violation(name, trace, self._traps.get(name))

    def is_known(self, name: str) -> bool:
        """Whether a violation is recorded; raise SearchStopped if one violation ends the search."""
        if name in self.monitor.violated and not self.options.keep_going:
            raise SearchStopped
        return name in self.monitor.violated

    def keep(self, sets: dict[str, int]) -> None:
        """Keep named sets for the checkpoint; write the checkpoint when it is due."""
        if self._checkpoint is not None and self.space is not None:
            self.space.keep(sets)
            if self._checkpoint.is_due():
                self._save()

    def _save(self, *, finished: bool = False) -> None:
        if self._checkpoint is not None and self.space is not None and self.space.kept():
            kept = [one for one in self.monitor.result.violations if one.trap is None]  # traps are found again
            self._checkpoint.save(self.space, kept, self.monitor.seconds, finished=finished)

    def pause(self) -> None:
        """Check the clock, and report progress."""
        now = time.monotonic()
        if self._is_over or self.space is None or (now < self.pace.next_look and not self._interruption.asked):
            return
        self.pace.next_look = now + CLOCK_CHECK_SECONDS
        if self.pace.deadline is not None:
            if self._interruption.asked or now > self.pace.deadline:
                raise violations.CounterexampleTimeout
            self.monitor.report(0, self.space.store.nodes)
            return
        self._tick(self.space.store.nodes)
        if self._may_save:
            self._pause_saturation(self.space)

    def _pause_saturation(self, space: StateSpace) -> None:
        if self._orders.is_due(space.store.nodes_made):
            self._orders.look(space, self._tick)
        saves = self._checkpoint is not None and self._checkpoint.is_due(self.monitor.seconds / 2)
        if saves or self._violations.is_due:
            raise PauseSignal  # saturation restarts from its partial result, so the interval between two grows

    def _totals(self) -> SearchCounts:
        names = [*self.semantics.protocol.actions, *self.semantics.protocol.network.own_actions()]
        actions = dict.fromkeys(names, 0)
        if self.space is not None and self._is_over:
            expanded = self.space.store.roots.get("expanded", EMPTY_SET)
            # A breadth-first search expands nothing before.
            if expanded != EMPTY_SET or self.options.search != Search.BFS:
                actions = self.space.fired(names, expanded, self._counted)
        generated, uncounted = len(self.starts) + sum(actions.values()), [one for one in names if one not in actions]
        return SearchCounts(self._counted, generated, actions, dict(self.calls.counts), uncounted)

    @property
    def nodes(self) -> int:
        """Nodes of the diagram of the reached states."""
        return 0 if self.space is None else self.space.store.size(self.space.store.roots.get("reached", EMPTY_SET))

    def _notes(self) -> list[str]:
        return [] if self.space is None else list(_search_notes(self.space, self.monitor.result, self._traps))


def _search_notes(space: StateSpace, result: Result, traps: Collection[str]) -> Iterator[str]:
    yield from violations.diagram_and_violation_notes(space, traps)
    if result.uncounted:
        yield "steps were not counted"
    tables = TABLES_LEARNING_SECONDS + result.distinct_states / TABLES_STATES_A_SECOND
    if result.limit is None and result.seconds > tables:
        yield f"few states ({result.distinct_states:,}) for the time taken: --engine tables may be faster"

"""The symbolic engine: all reachable states as one set (`docs/symbolic.md`)."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import nullcontext, suppress

from kraftcheck.explorer import capabilities
from kraftcheck.explorer.behaviour import Behaviour, behaviour_along
from kraftcheck.explorer.bookkeeping import Bookkeeping, Stop, Totals
from kraftcheck.explorer.calls.type_inspection import note_types
from kraftcheck.explorer.checkpoint import folder_of
from kraftcheck.explorer.interruption import Interruption
from kraftcheck.explorer.result import DEADLOCK, INTERRUPTED, MEMORY, Result, Search, SearchRequest, Trap
from kraftcheck.explorer.symbolic.breadth_first import BreadthFirst, wrong_step
from kraftcheck.explorer.symbolic.checkpoint import SATURATION, Found, SetsCheckpoint
from kraftcheck.explorer.symbolic.counterexamples import VIOLATING, Ways
from kraftcheck.explorer.symbolic.exploded_sets import OpaqueSetRequired
from kraftcheck.explorer.symbolic.handler_cache import HandlerCache
from kraftcheck.explorer.symbolic.orders import OrderTrials
from kraftcheck.explorer.symbolic.search import Space
from kraftcheck.explorer.symbolic.store import EMPTY, FEWEST, NoRoom
from kraftcheck.explorer.symbolic.variables import Layout, Rearranged, layout_of
from kraftcheck.explorer.symbolic.violations import Violations, without_way_out
from kraftcheck.explorer.tables.states.memory import default_memory
from kraftcheck.spec.errors import InputError, RaisedError
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics, initial_states
from kraftcheck.spec.language.state import State

SHOWING_SECONDS, SHOWING_TIMES = 30.0, 3.0
"""How long a way into what is violated is looked for: so long at least, and so many times what the search took."""

CHECKING_SECONDS = 10.0  # for properties, where a limit ended the search; or a tenth of what it took
SELDOM = 1_000_000  # objects that Python makes, before it looks for some that nothing refers to
LOOK_EVERY = 0.1  # seconds between two looks at the clock
SLOW_SECONDS, TABLES_RATE = 5.0, 100_000
"""What the table engine takes for a search at most, more or less: seconds to learn, and states a second."""
MOST_NAMED, FEWEST_NAMED = 3, 1_000  # variables that a note names, where the first has so many nodes
MOST_COUNTED = 100_000  # nodes of a set of which the steps are counted where the search was stopped


class CheckpointDue(Exception):  # noqa: N818 - not an error
    """It is time for a checkpoint, or to look for violations."""


class PathTimeout(Exception):  # noqa: N818 - not an error
    """A counterexample is not found in the time that there is for it."""


class Pace:
    """When the clock is looked at next, and until when a counterexample is looked for."""

    next_look = 0.0
    deadline: float | None = None


Find = Callable[[list[str]], Iterable[tuple[str, list[State]]]]
"""Finds counterexamples to properties, given their names."""


def explore(protocol: Protocol, options: SearchRequest) -> Result:
    """Search the reachable states of a protocol as sets; raises InputError for what this engine does not do."""
    capabilities.require_able("symbolic", protocol, options)
    return SymbolicSearch(protocol, options).run()


class SymbolicSearch:
    """One search."""

    def __init__(self, protocol: Protocol, options: SearchRequest) -> None:
        self.options = options
        self.semantics = Semantics(protocol)
        self.starts = list(initial_states(self.semantics, options.init))
        self.calls = HandlerCache(protocol, type(self.starts[0].shared))
        note_types(protocol)
        self._books = Bookkeeping(options, self._totals, protocol)
        if self._books.reads is not None:
            # of hidden bounds: else the search is refused; but where they are spent there may be a deadlock
            self._books.reads.enough_left = not options.deadlock
        self._interruption = Interruption()
        self._counted = 0
        self._is_over = False
        self._pace = Pace()
        self._traps: dict[str, Trap] = {}
        self.space: Space | None = None
        self._may_save = False
        self._orders = OrderTrials(self.calls, self.semantics, self.starts, options.action_constraints)
        self._checkpoint: SetsCheckpoint | None = None
        if folder_of(options) is not None:
            self._checkpoint = SetsCheckpoint(protocol, options, self.starts)

    @property
    def protocol(self) -> Protocol:
        """The protocol."""
        return self.semantics.protocol

    @property
    def found_before(self) -> Found | None:
        """What the search had found that this one goes on from."""
        return None if self._checkpoint is None else self._checkpoint.found

    def run(self) -> Result:
        """Search, and return what was found."""
        often = gc.get_threshold()
        gc.set_threshold(SELDOM, *often[1:])  # what is learned stays
        try:
            with self._interruption:
                return self._books.result_of(self._search, self._notes)
        finally:
            gc.set_threshold(*often)
            if self._checkpoint is not None:
                self._checkpoint.close()

    def _search(self) -> None:
        found = self.found_before
        if found is not None:
            self._books.restore(found.violations, found.seconds)
        try:
            self._search_spaces(found)
            self.calls.purity.call_again()
        except (Stop, KeyboardInterrupt) as end:
            if isinstance(end, KeyboardInterrupt):
                self._books.note_limit(INTERRUPTED)
            elif self._books.result.limit is not None and self.options.search != Search.BFS:
                with suppress(Stop, KeyboardInterrupt):
                    self._check_part()
            self._save(finished=self._books.result.limit is None)
            raise
        else:
            self._save(finished=True)
        finally:
            self._is_over = True

    def _search_spaces(self, found: Found | None) -> None:
        """Search with the variables that are known, and again where others, or another order, are needed."""
        layout, options = self._layout(), self.options
        if found is not None:
            found.arrange(layout)
            self._orders.give_up()
        while True:
            try:
                self._search_space(self._new_space(layout, is_restored=found is not None))
                return
            except (Rearranged, OpaqueSetRequired) as again:
                if isinstance(again, OpaqueSetRequired):
                    layout.keep_whole(again.field)
                self.space = None
                gc.collect()  # what was learned refers to itself
                self._counted, found = 0, None
            except NoRoom:
                most = self.space.store.most_nodes if self.space is not None else 0
                asked = options.max_nodes and max(options.max_nodes, FEWEST)
                self._books.stop_at("max_nodes" if most == asked else MEMORY)

    def _new_space(self, layout: Layout, *, is_restored: bool) -> Space:
        self.space, self._pace.next_look = None, math.inf
        options, restore = self.options, None
        if is_restored and self._checkpoint is not None:
            restore = self._checkpoint.restore
        limits = (options.action_constraints, options.max_nodes, options.view, restore)
        memory = options.memory or default_memory()
        self.space = Space(self.calls, layout, self.starts, memory, self.pause, *limits)
        self._books.result.depth = 0
        return self.space

    def _search_space(self, space: Space) -> None:
        """Search with the variables that are known."""
        self._violations = Violations(space, self.options, self.semantics)
        checks = self._violations.states
        self.note(space.view.of(checks.within(self.options.constraints, space.start)), EMPTY)
        self._pace.next_look = 0.0
        if space.kept() and self._checkpoint is not None:
            self._checkpoint.require_same(space, checks, self._violations.of)
        if self.options.search == Search.BFS:
            reached = BreadthFirst(self, space).run()
        else:
            self._books.result.depth = None
            beyond = EMPTY
            if self.options.search == SATURATION and not self.options.constraints:
                reached = self._saturated(space)
            else:
                reached, beyond = self._chained(space)
            self.note(reached, reached)
            if space.store.is_crowded:
                [reached, beyond] = space.store.collect_garbage([reached, beyond])
            more = space.store.union(beyond, space.pruned(reached))
            self._show(space, self._violations.of(reached, more))
        for prop in self.options.reachable:
            stuck = without_way_out(space, checks, prop, space.store.roots["reached"], self.pause)
            self._books.followed.add(prop.name)
            if stuck != EMPTY:
                self._traps[prop.name] = Trap(space.store.count(stuck), self._counted)
                self._show(space, {prop.name: stuck})

    def _look_for_order(self, space: Space) -> None:
        self._orders.look(space, self._tick)

    def _tick(self, nodes: int) -> None:
        if self._interruption.asked:
            raise KeyboardInterrupt
        self._books.look_at_the_clock(0, nodes)

    def _saturated(self, space: Space) -> int:
        """Return all reachable states; where something ends the search before, note those that are known."""
        store, reached = space.store, space.store.union(space.start, space.kept().get("reached", EMPTY))
        self.keep({"reached": reached})
        while True:
            try:
                self._may_save = True
                reached = space.saturated(reached)
                self.keep({"reached": reached})
                return reached
            except CheckpointDue:
                self._may_save, reached = False, store.roots["part"]
                self._note_part(space, reached)
                self.keep({"reached": reached})
                if self._violations.is_due:
                    reached, _ = self._look(space, reached)
            except (Stop, KeyboardInterrupt, NoRoom):
                self._is_over = True
                space.keep({"reached": store.roots["part"]})
                self._note_part(space, store.roots["part"])
                raise
            finally:
                self._may_save = False

    def _note_part(self, space: Space, part: int) -> None:
        """Note the states that are known where saturation is stopped."""
        self.note(part, part if space.store.size(part) < MOST_COUNTED else EMPTY)

    def _chained(self, space: Space) -> tuple[int, int]:
        """Return what is reached, and what is beyond the constraints: each event is taken from all known by then."""
        store, checks, constraints = space.store, self._violations.states, self.options.constraints
        reached = checks.within(constraints, space.start)
        beyond, before = store.difference(space.start, reached), EMPTY
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
                    self.note(reached, EMPTY)
                    reached, beyond, before = self._look(space, reached, beyond, before)
            self.note(reached, EMPTY)
        return reached, beyond

    def _look(self, space: Space, reached: int, beyond: int = EMPTY, *others: int) -> list[int]:
        """Evaluate properties in the states that are known; a violation ends the search. Return the sets."""
        sets = [reached, beyond, *others]
        try:
            bad = self._violations.early(reached, beyond)
        except NoRoom:
            return space.store.collect_garbage(sets)
        if bad:
            self._show(space, bad, is_part=True)
        return sets

    def _check_part(self) -> None:
        """Look for violations in the states that are known, where a limit ended the search before all were."""
        if self.space is None or "reached" not in self.space.store.roots:
            return
        self._is_over, self._pace.next_look = False, 0.0
        self._pace.deadline = time.monotonic() + max(CHECKING_SECONDS, self._books.seconds / 10)
        try:
            self.space.store.collect_garbage([])
            bad = self._violations.of(self.space.store.roots["reached"], EMPTY, is_part=True)
        except (PathTimeout, NoRoom, Rearranged, OpaqueSetRequired, InputError) as why:
            if isinstance(why, RaisedError):
                raise
            reason = why if isinstance(why, InputError) else "for want of room or time"
            self._books.result.notes.append(f"properties were not evaluated in the states that are known: {reason}")
        else:
            self._show(self.space, bad)
        finally:
            self._pace.deadline, self._is_over = None, True

    def _show(self, space: Space, bad: dict[str, int], *, is_part: bool = False) -> None:
        """Show by behaviours what is violated: by shortest ones, else by any, else by a state that does.

        Where only a part of the states is known, others may be nearer to the start.
        """
        store, left = space.store, list(bad)
        store.roots.update({VIOLATING + name: states for name, states in bad.items()})
        beyond = frozenset(prop.name for prop in self.options.properties if not prop.over_steps)
        violating = self._violations.of_property if is_part else None
        ways = Ways(space, self._violations.states, self.options.constraints, beyond, self.pause, violating)
        for find, kind in ((ways.shortest, "shortest"), (ways.any, "other")):
            self._show_found(space, find, left, kind)
            if self._interruption.asked:
                break
        for name in left:
            self._books.result.notes.append(
                f"{name}: the state shown is reached, but not how; for a behaviour: --search bfs, or --engine tables"
            )
            with suppress(Stop) if self._interruption.asked else nullcontext():
                self._tell(name, [space.variables.decode(store.one_of(store.roots[VIOLATING + name]))])
        if self._interruption.asked:
            raise KeyboardInterrupt

    def _show_found(self, space: Space, find: Find, left: list[str], kind: str) -> None:
        """Show what counterexamples are found in time; the names of others stay in `left`."""
        most = max(SHOWING_SECONDS, SHOWING_TIMES * self._books.seconds)
        spare = (self.options.time_limit or math.inf) - self._books.seconds
        allowed = max(min(most, spare), 0)
        self._pace.deadline = time.monotonic() + allowed
        try:
            for name, path in find(left):
                left.remove(name)
                self._tell(name, path)
        except (PathTimeout, NoRoom):
            space.store.collect_garbage([])
            names = ", ".join(left)
            self._books.result.notes.append(f"{names}: no {kind} counterexample was found within {allowed:,.0f} s")
        finally:
            self._pace.deadline = None

    def _tell(self, name: str, path: list[State]) -> None:
        """Note what is violated, with the behaviour along a path."""
        trace = behaviour_along(self.semantics, path)
        prop = next((one for one in self.options.properties if one.name == name), None)
        if prop is not None and prop.over_steps:
            trace = (*trace, wrong_step(self.semantics, prop, path[-1]))
        self.found(name, trace)

    def _layout(self) -> Layout:
        reads = [action.reads for action in self.protocol.actions.values()]
        asked = (*self.options.properties, *self.options.constraints, *self.options.reachable)
        reads += [prop.reads for prop in asked]
        whole = any(read.of_inbox for some in reads for read in some)
        return layout_of(self.protocol, self.starts, whole_inboxes=whole)

    # What is counted

    def note(self, reached: int, expanded: int) -> None:
        """Note which states are known, and of which all steps are."""
        assert self.space is not None
        self._counted = self.space.store.count(reached)
        self.space.store.roots.update(reached=reached, expanded=expanded)

    def found(self, name: str, trace: Behaviour) -> None:
        """Note that a property is violated."""
        self.is_known(name)
        self._books.violation(name, trace, self._traps.get(name))

    def is_known(self, name: str) -> bool:
        """Whether a property is known to be violated; where the search ended with that before, it does again."""
        if name in self._books.violated and not self.options.keep_going:
            raise Stop
        return name in self._books.violated

    def deeper(self, depth: int) -> None:
        """Note how deep the search is."""
        self._books.result.depth = depth

    def stop_at(self, limit: str) -> None:
        """End the search at a limit."""
        self._books.stop_at(limit)

    def keep(self, sets: dict[str, int]) -> None:
        """Keep sets for a checkpoint, and write it when it is due."""
        if self._checkpoint is not None and self.space is not None:
            self.space.keep(sets)
            if self._checkpoint.is_due():
                self._save()

    def _save(self, *, finished: bool = False) -> None:
        if self._checkpoint is not None and self.space is not None and self.space.kept():
            kept = [one for one in self._books.result.violations if one.trap is None]  # traps are found anew
            made = (self.space.variables, self.space.store)
            self._checkpoint.save(*made, kept, self._books.seconds, finished=finished)

    def pause(self) -> None:
        """Look at the clock, and report how far the search is."""
        now = time.monotonic()
        if self._is_over or self.space is None or (now < self._pace.next_look and not self._interruption.asked):
            return
        self._pace.next_look = now + LOOK_EVERY
        if self._pace.deadline is not None:
            if self._interruption.asked or now > self._pace.deadline:
                raise PathTimeout
            self._books.report(0, self.space.store.nodes)
            return
        self._tick(self.space.store.nodes)
        if self._may_save:
            self._pause_saturation(self.space)

    def _pause_saturation(self, space: Space) -> None:
        if self._orders.is_due(space.store.nodes_made):
            self._look_for_order(space)
        saves = self._checkpoint is not None and self._checkpoint.is_due(self._books.seconds / 2)
        if saves or self._violations.is_due:
            raise CheckpointDue  # saturation begins again, with what it has: so ever more time is between two

    def _totals(self) -> Totals:
        names = [*self.protocol.actions, *self.protocol.network.own_actions()]
        actions = dict.fromkeys(names, 0)
        if self.space is not None and self._is_over:
            expanded = self.space.store.roots.get("expanded", EMPTY)
            if expanded != EMPTY or self.options.search != Search.BFS:  # breadth first no step is taken before
                actions = self.space.fired(names, expanded, self._counted)
        generated, uncounted = len(self.starts) + sum(actions.values()), [one for one in names if one not in actions]
        return Totals(self._counted, generated, actions, dict(self.calls.counts), uncounted)

    @property
    def nodes(self) -> int:
        """Nodes of the set of the states that were found."""
        return 0 if self.space is None else self.space.store.size(self.space.store.roots.get("reached", EMPTY))

    def _notes(self) -> list[str]:
        return [] if self.space is None else list(_notes(self.space, self._books.result, self._traps))


def _notes(space: Space, result: Result, traps: Collection[str]) -> Iterator[str]:
    """Yield notes for the user about a search."""
    yield from _about_diagram(space)
    yield from _about_violations(space, traps)
    if result.uncounted:
        yield "steps were not counted"
    if result.limit is None and result.seconds > SLOW_SECONDS + result.distinct_states / TABLES_RATE:
        yield f"{result.distinct_states:,} states are few for so long a search: --engine tables may be faster"


def _about_diagram(space: Space) -> Iterator[str]:
    """Yield the size of the diagram, and the variables that have most of it."""
    store, reached = space.store, space.store.roots.get("reached", EMPTY)
    size, variables = store.size(reached), len(space.variables.keys)
    yield f"a diagram of {size:,} nodes over {variables:,} variables; {store.nodes_made:,} nodes were made for it"
    levels = store.sizes(reached).most_common(MOST_NAMED)
    if levels and levels[0][1] >= FEWEST_NAMED:
        names = [f"{space.variables.name(level)} ({nodes:,})" for level, nodes in levels]
        yield f"most nodes are of {', '.join(names)}"


def _about_violations(space: Space, traps: Collection[str]) -> Iterator[str]:
    """Yield how many states violate what; for traps the counterexample says so."""
    for root, states in space.store.roots.items():
        name = root.removeprefix(VIOLATING)
        if name != root and name not in traps:
            what = "no next state" if name == DEADLOCK else f"{name} violated"
            yield f"{space.store.count(states):,} states have {what}"

"""Level-by-level breadth-first search over sets of states."""

from __future__ import annotations

from kraftcheck.explorer.behaviour import Behaviour
from kraftcheck.explorer.result import DEADLOCK
from kraftcheck.explorer.symbolic.checks import StateChecks, StepChecks
from kraftcheck.explorer.symbolic.counterexamples import Predecessors, violating_behaviour
from kraftcheck.explorer.symbolic.state_space import StateSpace
from kraftcheck.explorer.symbolic.store import EMPTY
from kraftcheck.explorer.symbolic.violations import SearchObserver
from kraftcheck.spec.language.declarations import Property


class BreadthFirst:
    """Breadth-first search over the sets of one state space."""

    def __init__(self, search: SearchObserver, space: StateSpace) -> None:
        self._search = search
        self._space = space
        self._states = tuple(prop for prop in search.options.properties if not prop.over_steps)
        self._steps = tuple(prop for prop in search.options.properties if prop.over_steps)
        self._state_checks = StateChecks(space, search.semantics)
        self._step_checks = StepChecks(space, search.semantics, is_asked_again=True)
        self._levels: list[int] = []

    def run(self) -> int:
        """Search until a level adds no state; return the reached states, projected by the VIEW."""
        store, space, view = self._space.store, self._space, self._space.view
        new, pruned, reached, known, expanded = space.start, EMPTY, EMPTY, EMPTY, EMPTY
        if space.kept():
            new, pruned, reached, known, expanded, *self._levels = space.kept().values()
            self._search.deeper(len(self._levels))
            space.learn(expanded)
            space.successors(expanded)  # so that the steps out of earlier levels can be counted
            space.pruned(expanded)
        while new != EMPTY or pruned != EMPTY:
            if self._search.keeps_sets:
                names = ("new", "pruned", "reached", "known", "expanded", *map(str, range(len(self._levels))))
                sets = (new, pruned, reached, known, expanded, *self._levels)
                self._search.keep(dict(zip(names, sets, strict=True)))
            frontier = self._state_checks.within(self._search.options.constraints, new)
            known = store.union(known, view.of(new))
            reached = store.union(reached, view.of(frontier))
            self._note(reached, frontier, expanded)
            self._search.pause()
            self._check_states(store.union(new, pruned))
            if frontier == EMPTY:
                break
            self._look_at_limits(reached)
            space.learn(frontier)
            store.forget_products()  # cached products of the previous frontier
            view.require_room(frontier)
            self._check_steps(frontier)
            new = view.without(space.successors(frontier), known)
            pruned = view.without(space.pruned(frontier), known)
            self._levels.append(frontier)
            expanded = reached
            if store.is_crowded:
                kept = [new, pruned, reached, known, expanded, *self._levels]
                new, pruned, reached, known, expanded, *self._levels = store.collect_garbage(kept)
        self._search.note(reached, reached)
        return reached

    def _note(self, reached: int, frontier: int, expanded: int) -> None:
        self._search.note(reached, expanded)
        if frontier != EMPTY:
            self._search.deeper(len(self._levels) + 1)

    def _look_at_limits(self, reached: int) -> None:
        options = self._search.options
        if options.max_states and self._space.store.count(reached) >= options.max_states:
            self._search.stop_at("max_states")
        if options.max_depth is not None and len(self._levels) + 1 >= options.max_depth:
            self._search.stop_at("max_depth")

    def _check_states(self, states: int) -> None:
        for prop in self._states:
            if not self._search.is_known(prop.name):
                bad = self._state_checks.violating(prop, states)
                if bad != EMPTY:
                    self._search.found(prop.name, self._trace(bad, prop))

    def _check_steps(self, frontier: int) -> None:
        for prop in self._steps:
            if not self._search.is_known(prop.name):
                bad = self._step_checks.violating(prop, frontier)
                if bad != EMPTY:
                    self._search.found(prop.name, self._trace(bad, prop))
        if self._search.options.deadlock and not self._search.is_known(DEADLOCK):
            bad = self._space.stuck(frontier)
            if bad != EMPTY:
                self._search.found(DEADLOCK, self._trace(bad))

    def _trace(self, bad: int, prop: Property | None = None) -> Behaviour:
        """Return a behaviour through the levels to some state of the set that violates a property."""
        path = Predecessors(self._space).path(self._levels, self._space.store.one_of(bad))
        return violating_behaviour(self._search.semantics, prop, path)

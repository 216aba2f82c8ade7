"""Level-by-level breadth-first search over sets of states."""

from __future__ import annotations

from typing import Protocol

from kraftcheck.explorer.behaviour import Behaviour, behaviour_along, step_of
from kraftcheck.explorer.result import DEADLOCK, SearchRequest, TraceStep
from kraftcheck.explorer.symbolic.checks import StateChecks, StepChecks
from kraftcheck.explorer.symbolic.counterexamples import Predecessors
from kraftcheck.explorer.symbolic.state_space import StateSpace
from kraftcheck.explorer.symbolic.store import EMPTY
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.language.state import State


class SearchObserver(Protocol):
    """Callbacks through which a breadth-first search reports its results."""

    options: SearchRequest
    semantics: Semantics

    def note(self, reached: int, expanded: int) -> None:
        """Record the set of the reached states, and the subset of them that was expanded."""

    def found(self, name: str, trace: Behaviour) -> None:
        """Record a violated property with its counterexample."""

    def is_known(self, name: str) -> bool:
        """Whether a violation of the property is already recorded."""

    def deeper(self, depth: int) -> None:
        """Record the depth of the search."""

    def stop_at(self, limit: str) -> None:
        """End the search because it reached a limit."""

    def pause(self) -> None:
        """Check the clock, and report progress."""

    @property
    def keeps_sets(self) -> bool:
        """Whether the search has a checkpoint."""

    def keep(self, sets: dict[str, int]) -> None:
        """Keep named sets for the checkpoint; write the checkpoint when it is due."""


class BreadthFirst:
    """Breadth-first search over the sets of one state space."""

    def __init__(self, books: SearchObserver, space: StateSpace) -> None:
        self._books = books
        self._space = space
        self._states = tuple(prop for prop in books.options.properties if not prop.over_steps)
        self._steps = tuple(prop for prop in books.options.properties if prop.over_steps)
        self._state_checks = StateChecks(space, books.semantics)
        self._step_checks = StepChecks(space, books.semantics, is_asked_again=True)
        self._levels: list[int] = []

    def run(self) -> int:
        """Search until a level adds no state; return the reached states, projected by the VIEW."""
        store, space, view = self._space.store, self._space, self._space.view
        new, pruned, reached, known, expanded = space.start, EMPTY, EMPTY, EMPTY, EMPTY
        if space.kept():
            new, pruned, reached, known, expanded, *self._levels = space.kept().values()
            self._books.deeper(len(self._levels))
            space.learn(expanded)
            space.successors(expanded)  # so that the steps out of earlier levels can be counted
            space.pruned(expanded)
        while new != EMPTY or pruned != EMPTY:
            if self._books.keeps_sets:
                names = ("new", "pruned", "reached", "known", "expanded", *map(str, range(len(self._levels))))
                sets = (new, pruned, reached, known, expanded, *self._levels)
                self._books.keep(dict(zip(names, sets, strict=True)))
            frontier = self._state_checks.within(self._books.options.constraints, new)
            known = store.union(known, view.of(new))
            reached = store.union(reached, view.of(frontier))
            self._note(reached, frontier, expanded)
            self._books.pause()
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
        self._books.note(reached, reached)
        return reached

    def _note(self, reached: int, frontier: int, expanded: int) -> None:
        self._books.note(reached, expanded)
        if frontier != EMPTY:
            self._books.deeper(len(self._levels) + 1)

    def _look_at_limits(self, reached: int) -> None:
        options = self._books.options
        if options.max_states and self._space.store.count(reached) >= options.max_states:
            self._books.stop_at("max_states")
        if options.max_depth is not None and len(self._levels) + 1 >= options.max_depth:
            self._books.stop_at("max_depth")

    def _check_states(self, states: int) -> None:
        for prop in self._states:
            if not self._books.is_known(prop.name):
                bad = self._state_checks.violating(prop, states)
                if bad != EMPTY:
                    self._books.found(prop.name, self._trace(bad))

    def _check_steps(self, frontier: int) -> None:
        semantics = self._books.semantics
        for prop in self._steps:
            if not self._books.is_known(prop.name):
                bad = self._step_checks.violating(prop, frontier)
                if bad != EMPTY:
                    trace = self._trace(bad)
                    self._books.found(prop.name, (*trace, violating_step(semantics, prop, trace[-1].state)))
        if self._books.options.deadlock and not self._books.is_known(DEADLOCK):
            bad = self._space.stuck(frontier)
            if bad != EMPTY:
                self._books.found(DEADLOCK, self._trace(bad))

    def _trace(self, bad: int) -> Behaviour:
        """Return a behaviour through the levels to some state of the set."""
        path = Predecessors(self._space).path(self._levels, self._space.store.one_of(bad))
        return behaviour_along(self._books.semantics, path)


def violating_step(semantics: Semantics, prop: Property, state: State) -> TraceStep:
    """Return a step out of the state that violates the step property."""
    wrong = (step for step in semantics.transitions(state) if not semantics.step_satisfies(prop, state, step))
    return step_of(next(wrong))

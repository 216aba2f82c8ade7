"""Breadth first over sets: level by level, for the depth and for shortest counterexamples."""

from __future__ import annotations

from typing import Protocol

from kraftcheck.explorer.behaviour import Behaviour, behaviour_along, step_of
from kraftcheck.explorer.result import DEADLOCK, SearchRequest, TraceStep
from kraftcheck.explorer.symbolic.checks import StateChecks, StepChecks
from kraftcheck.explorer.symbolic.counterexamples import Predecessors
from kraftcheck.explorer.symbolic.search import Space
from kraftcheck.explorer.symbolic.store import EMPTY
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.language.state import State


class Books(Protocol):
    """What notes what is found."""

    options: SearchRequest
    semantics: Semantics

    def note(self, reached: int, expanded: int) -> None:
        """Note which states are known, and of which all steps are."""

    def found(self, name: str, trace: Behaviour) -> None:
        """Note that a property is violated."""

    def is_known(self, name: str) -> bool:
        """Whether a property is known to be violated."""

    def deeper(self, depth: int) -> None:
        """Note how deep the search is."""

    def stop_at(self, limit: str) -> None:
        """End the search at a limit."""

    def pause(self) -> None:
        """Look at the clock."""

    def keep(self, sets: dict[str, int]) -> None:
        """Keep sets for a checkpoint, and write it when it is due."""


class BreadthFirst:
    """A search level by level."""

    def __init__(self, books: Books, space: Space) -> None:
        self._books = books
        self._space = space
        self._states = tuple(prop for prop in books.options.properties if not prop.over_steps)
        self._steps = tuple(prop for prop in books.options.properties if prop.over_steps)
        self._state_checks = StateChecks(space, books.semantics)
        self._step_checks = StepChecks(space, is_asked_again=True)
        self._levels: list[int] = []

    def run(self) -> int:
        """Search, until nothing is new; return the states that are reached, as they are seen."""
        store, space, view = self._space.store, self._space, self._space.view
        new, pruned, reached, known, expanded = space.start, EMPTY, EMPTY, EMPTY, EMPTY
        if space.kept():
            new, pruned, reached, known, expanded, *self._levels = space.kept().values()
            self._books.deeper(len(self._levels))
            space.learn(expanded)
            space.successors(expanded)  # so that the steps out of the levels before can be counted
            space.pruned(expanded)
        while new != EMPTY or pruned != EMPTY:
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
            store.forget_products()  # of what was new in the level before
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
                    self._books.found(prop.name, (*trace, wrong_step(semantics, prop, trace[-1].state)))
        if self._books.options.deadlock and not self._books.is_known(DEADLOCK):
            bad = self._space.stuck(frontier)
            if bad != EMPTY:
                self._books.found(DEADLOCK, self._trace(bad))

    def _trace(self, bad: int) -> Behaviour:
        """Return a behaviour to a state of a set, of those that follow from the last level."""
        path = Predecessors(self._space).path(self._levels, self._space.store.one_of(bad))
        return behaviour_along(self._books.semantics, path)


def wrong_step(semantics: Semantics, prop: Property, state: State) -> TraceStep:
    """Return a step out of a state for which a property of steps does not hold."""
    wrong = (step for step in semantics.transitions(state) if not semantics.kept_by(prop, state, step))
    return step_of(next(wrong))

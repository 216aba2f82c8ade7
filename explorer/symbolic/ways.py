"""Ways into sets of states that are known to be reached: shortest ones, level by level, or any."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kraftcheck.explorer.symbolic.checks import StateChecks
from kraftcheck.explorer.symbolic.counterexamples import Predecessors
from kraftcheck.explorer.symbolic.search import Space
from kraftcheck.explorer.symbolic.store import EMPTY
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.state import State

Way = tuple[str, list[State]]
VIOLATING = "violating "  # begins the names of the roots into which ways are looked for


class Ways:
    """Finds ways into sets.

    `violating`: where not all states are known: returns the states of a set that belong to a set of a name. Those that
    the root has are then the known ones. None where all is reached and learned.
    """

    def __init__(
        self,
        space: Space,
        checks: StateChecks,
        constraints: tuple[Property, ...],
        beyond: frozenset[str],
        pause: Callable[[], None],
        violating: Callable[[str, int], int] | None = None,
    ) -> None:
        self._space = space
        self._checks = checks
        self._constraints = constraints
        self._beyond = beyond
        self._pause = pause
        self._violating = violating

    def shortest(self, names: Iterable[str]) -> Iterator[Way]:
        """Yield a shortest way into each of some sets, as they are seen, with its name."""
        space, store, wanted = self._space, self._space.store, list(names)
        new, pruned, known, levels = space.start, EMPTY, EMPTY, list[int]()
        while wanted:
            self._pause()
            frontier = self._checks.within(self._constraints, new)
            if self._violating is not None:
                space.learn(frontier)
            yield from self._into(wanted, store.union(new, pruned), frontier, levels, self._violating or self._known)
            known = store.union(known, space.view.of(new))
            levels.append(frontier)
            new = space.view.without(space.successors(frontier), known)
            pruned = space.view.without(space.pruned(frontier), known)
            if store.is_crowded:
                new, pruned, known, *levels = store.collect_garbage([new, pruned, known, *levels])

    def any(self, names: Iterable[str]) -> Iterator[Way]:
        """Yield a way into each of some sets, with its name: each event is taken from all that is known by then."""
        space, store, wanted, stages = self._space, self._space.store, list(names), list[int]()
        yield from self._into(wanted, space.start, space.start, stages, self._known)
        reached = self._checks.within(self._constraints, space.start)
        known = store.union(space.start, reached)
        while wanted:
            for root in space.groups.roots():
                self._pause()
                new = store.difference(store.successors(reached, root), known)
                if new != EMPTY:
                    stages.append(reached)
                    yield from self._into(wanted, new, new, stages, self._known)
                    known = store.union(known, new)
                    reached = store.union(reached, self._checks.within(self._constraints, new))
            yield from self._into(wanted, space.pruned(reached), EMPTY, [*stages, reached], self._known)
            if store.is_crowded:
                reached, known, *stages = store.collect_garbage([reached, known, *stages])

    def _known(self, name: str, states: int) -> int:
        """Return the states of a set that belong to a set of a name."""
        return self._space.view.meet(states, self._space.store.roots[VIOLATING + name])

    def _into(
        self, wanted: list[str], states: int, expanded: int, sets: list[int], violating: Callable[[str, int], int]
    ) -> Iterator[Way]:
        """Yield a way into each wanted set that some states are in, through sets that lead to these.

        The last step into `states` may be one that action constraints do not allow; out of `expanded` steps lead.
        """
        for name in list(wanted):
            there = violating(name, states if name in self._beyond else expanded)
            if there != EMPTY:
                wanted.remove(name)
                yield name, Predecessors(self._space).path(sets, self._space.store.one_of(there))

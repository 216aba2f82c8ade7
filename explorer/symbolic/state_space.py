"""State space of a protocol over one variable layout: learning, successors and saturation."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from kraftcheck.explorer.symbolic.diagram_store import EMPTY_SET, KEPT_ROOT_PREFIX, DiagramStore, OutOfNodes
from kraftcheck.explorer.symbolic.handler_cache import HandlerCache
from kraftcheck.explorer.symbolic.kernel.diagram import CALL_TO_APPLY, CALL_TO_LEARN
from kraftcheck.explorer.symbolic.learning import TransitionLearner
from kraftcheck.explorer.symbolic.relations import CombinationWatches, EffectLabel, EffectLabels, Event, EventGroups
from kraftcheck.explorer.symbolic.variables import DiagramVariables, VariableLayout
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.state import State


class StateEqualityUnderHiddenBounds:
    """Equality of states under a VIEW that hides bounds; without a VIEW, equality of whole states.

    A *viewed* set has the value 0 at the hidden bounds.
    """

    def __init__(self, name: str | None, space: StateSpace) -> None:
        variables, projection = space.variables, space.learning.watches.projection_of_values
        self.hidden = hidden = variables.protocol.hidden(name).bounds if name is not None else frozenset[str]()
        self._name, self._space, self._store = name, space, space.store
        self._limits = {variables.bound(one): variables.protocol.bounds[one] for one in sorted(hidden)}
        forget = tuple((level, space.labels.change(EffectLabel(level, target=0))) for level in sorted(self._limits))
        [self._forget] = space.groups.nodes.relations([forget])
        self._projections = {level: projection([level]) for level, most in self._limits.items() if most}
        self._most = dict.fromkeys(self._limits, 1)  # most that one step spends of a bound
        self._looked_at = 0

    def of(self, states: int) -> int:
        """Return a copy of a set in which every hidden bound has the value 0."""
        return self._store.successors(states, self._forget)

    def meet(self, states: int, seen: int) -> int:
        """Return the states of a set whose view is in `seen`, a set of views."""
        return self._store.predecessors(states, self._forget, seen)

    def without(self, states: int, seen: int) -> int:
        """Return the states of a set whose view is not in `seen`, a set of views."""
        return self._store.difference(states, self.meet(states, seen))

    def event(self, event: Event) -> Event:
        """Return an event without its changes of hidden bounds."""
        return tuple((level, change) for level, change in event if level not in self._limits)

    def require_room(self, states: int) -> None:
        """Raise InputError if a step out of a learned set may need more of a hidden bound than is left."""
        store, infos = self._store, self._space.learning.events.infos
        taken, self._looked_at = infos[self._looked_at :], len(infos)
        for one in taken if self._limits else ():
            for level, change in one.event:
                if level in self._limits:
                    self._most[level] = max(self._most[level], self._space.labels.spends(change.key))
        for level, which in self._projections.items():
            spent = max((one for [one] in store.vectors(store.project(states, which), [level])), default=0)
            if spent + self._most[level] > self._limits[level]:
                variables = self._space.variables
                named = variables.protocol.constant_of(variables.keys[level].of)
                # States with equal views would differ in their successors, and a set has no first one to keep.
                raise InputError(
                    f"VIEW {self._name} leaves out {named}, and a state has too little of it left; "
                    f"expected more than {named} = {self._limits[level]}, or --engine tables"
                )


class StateSpace:
    """State space of a protocol over one variable layout."""

    def __init__(
        self,
        calls: HandlerCache,
        layout: VariableLayout,
        starts: Sequence[State],
        memory: int,
        tick: Callable[[], None],
        constraints: tuple[Property, ...] = (),
        most: int | None = None,
        view: str | None = None,
        restore: Callable[[StateSpace], None] | None = None,
    ) -> None:
        self._tick = tick
        calls.set_layout(layout)
        self.variables = DiagramVariables(calls.protocol, layout, starts)
        self.store = DiagramStore(len(self.variables.keys), memory, self._answer, most)
        if restore is not None:
            restore(self)
        self.labels = EffectLabels(self.variables, self.store)
        self.groups = EventGroups(self.store)
        watches = CombinationWatches(self.store, self.labels, self.groups)
        self.learning = TransitionLearner(calls, self.variables, watches, constraints)
        self.view = StateEqualityUnderHiddenBounds(view, self)
        self.learning.begin()
        self.store.roots["start"] = self.store.set_of([self.variables.encode(state) for state in starts])

    def keep(self, sets: dict[str, int]) -> None:
        """Replace the named sets that are kept for a checkpoint."""
        roots = {name: node for name, node in self.store.roots.items() if not name.startswith(KEPT_ROOT_PREFIX)}
        self.store.roots = roots | {KEPT_ROOT_PREFIX + name: node for name, node in sets.items()}

    def kept(self) -> dict[str, int]:
        """Return the named sets that are kept for a checkpoint."""
        names = [name for name in self.store.roots if name.startswith(KEPT_ROOT_PREFIX)]
        return {name.removeprefix(KEPT_ROOT_PREFIX): self.store.roots[name] for name in names}

    @property
    def start(self) -> int:
        """The set of the initial states."""
        return self.store.roots["start"]

    def _answer(self, kind: int, a: int, b: int) -> int:
        if kind == CALL_TO_APPLY:
            return self.labels.apply(a, b)
        result = self.learning.answer(a, b) if kind == CALL_TO_LEARN else 0
        self._tick()
        return result

    def learn(self, states: int) -> None:
        """Learn the events of a set until no watch has a new vector; drop cached products if events were added."""
        store, seen, events = self.store, -1, self.groups.events
        known = store.arrays.watch_known
        while seen != (seen := self.learning.learned):
            for which in list(self.learning.watches.active):
                new = store.difference(store.project(states, which), int(known[which]))
                if new != EMPTY_SET:
                    self.learning.answer(which, new)
        if events != self.groups.events:
            store.forget_products()

    def successors(self, states: int) -> int:
        """Return the successors of a set; `learn` must have learned from the set before."""
        return self._union(self.store.successors, states, self.groups.roots())

    def pruned_roots(self) -> list[int]:
        """Return the relations of the events that action constraints forbid."""
        return self.groups.nodes.relations(self.learning.events.pruned)

    def pruned(self, states: int) -> int:
        """Return the successors of a set by steps that action constraints forbid."""
        return self._union(self.store.successors, states, self.pruned_roots())

    def enabled(self, states: int, events: Iterable[Event]) -> int:
        """Return the states of a set in which one of some events is enabled."""
        return self._union(self.store.enabled, states, self.groups.nodes.relations(events))

    def _union(self, apply: Callable[[int, int], int], states: int, relations: Iterable[int]) -> int:
        """Return the union of the results of applying each relation to a set."""
        found = EMPTY_SET
        for relation in relations:
            found = self.store.union(found, apply(states, relation))
        return found

    def stuck(self, states: int) -> int:
        """Return the states of a set without a successor; `learn` must have learned from the set before."""
        for root in (*self.groups.roots(), *self.pruned_roots()):
            states = self.store.difference(states, self.store.enabled(states, root))
        return states

    def fired(self, names: Iterable[str], states: int, counted: int) -> dict[str, int]:
        """Return the number of times that each action fires in a set; `learn` must have learned from the set before.

        For the empty set nothing is counted: return 0 for the actions that never fire, and leave out the others.
        """
        if states == EMPTY_SET:
            some = {taken.action for taken in self.learning.events.infos}
            return {name: 0 for name in names if name not in some}
        by_action: dict[tuple[str, int], list[Event]] = defaultdict(list)
        times: Counter[tuple[str, Event]] = Counter()
        for taken in self.learning.events.infos:
            times[taken.action, taken.event] += 1  # different steps with equal effects count separately
            by_action[taken.action, times[taken.action, taken.event]].append(taken.event)
        found = dict.fromkeys(names, 0)
        for (action, _), events in by_action.items():
            for relation in self.groups.nodes.relations(events):
                if self.view.hidden:
                    with suppress(OutOfNodes):  # labels not yet applied to viewed states
                        self.store.enabled(states, relation)
                found[action] += self.store.count_steps(states, relation, counted * len(events))
        return found

    def saturated(self, reached: int) -> int:
        """Return all states reachable from a set.

        If an exception ends the computation, `store.roots["part"]` holds the states found so far.
        """
        store = self.store
        while True:
            learned = self.learning.learned
            try:
                found, complete = store.saturated(reached)
            except BaseException:
                store.roots["part"] = self._whole(store.partial, reached)
                raise
            if complete:
                return found
            [found, before] = store.collect_garbage([found, reached])
            reached = store.roots["part"] = self._whole(found, before)
            is_idle = reached == before and learned == self.learning.learned
            if is_idle or store.is_crowded:
                raise OutOfNodes

    def _whole(self, found: int, reached: int) -> int:
        """Return the union of two sets, or only the first if the union does not fit."""
        try:
            return self.store.union(found, reached)
        except OutOfNodes:
            return found

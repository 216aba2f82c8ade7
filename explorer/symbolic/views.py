"""A VIEW that leaves out bounds: states that differ in what is spent of these are one, while enough of it is left."""

from __future__ import annotations

from kraftcheck.explorer.symbolic.labels import IDENTITY, Label, Labels
from kraftcheck.explorer.symbolic.learning import Learning
from kraftcheck.explorer.symbolic.relations import GENERAL, Change, Event, Groups
from kraftcheck.explorer.symbolic.store import Store
from kraftcheck.explorer.symbolic.variables import BOUND, Key, Variables
from kraftcheck.spec.errors import InputError


class View:
    """Tells states apart as a VIEW does. Where there is none, all states differ.

    A set *as seen* has 0 for what is left out.
    """

    def __init__(
        self, name: str | None, variables: Variables, store: Store, labels: Labels, groups: Groups, learning: Learning
    ) -> None:
        self.hidden = hidden = variables.protocol.hidden(name).bounds if name is not None else frozenset[str]()
        self._name = name
        self._store = store
        self._labels = labels
        self._learning = learning
        self._limits = {variables.levels[Key(BOUND, one)]: variables.protocol.bounds[one] for one in sorted(hidden)}
        self._bounds = {variables.levels[Key(BOUND, one)]: one for one in hidden}
        forget = tuple((level, Change(GENERAL, labels.label(Label(level, target=0)))) for level in sorted(self._limits))
        [self._forget] = groups.nodes.relations([forget])
        self._projections = {
            level: learning.watches.projection([(level, IDENTITY)]) for level, limit in self._limits.items() if limit
        }
        self._most = dict.fromkeys(self._limits, 1)  # that a step spends
        self._looked_at = 0

    def of(self, states: int) -> int:
        """Return a set as it is seen."""
        return self._store.successors(states, self._forget)

    def meet(self, states: int, seen: int) -> int:
        """Return the states of a set that are in another, as it is seen."""
        return self._store.predecessors(states, self._forget, seen)

    def without(self, states: int, seen: int) -> int:
        """Return the states of a set that are not in another, as it is seen."""
        return self._store.difference(states, self.meet(states, seen))

    def event(self, event: Event) -> Event:
        """Return what an event does to states as they are seen."""
        return tuple((level, change) for level, change in event if level not in self._limits)

    def require_room(self, states: int) -> None:
        """Raise InputError where a step out of a set, all learned, may need more of a bound left out than is left."""
        taken, self._looked_at = self._learning.taken[self._looked_at :], len(self._learning.taken)
        for one in taken if self._limits else ():
            for level, change in one.event:
                if level in self._limits:
                    self._most[level] = max(self._most[level], self._labels.spends(change.key))
        for level, which in self._projections.items():
            spent = max(
                (value for [value] in self._store.vectors(self._store.project(states, which), [level])), default=0
            )
            if spent + self._most[level] > self._limits[level]:
                named = self._learning.protocol.constant_of(self._bounds[level])
                raise InputError(
                    f"VIEW {self._name} leaves out {named}, of which not enough is left in a state, so that it matters "
                    f"which of the states that look the same is found first, and the engine symbolic finds them in no "
                    f"order; expected more than {named} = {self._limits[level]}, or --engine tables"
                )

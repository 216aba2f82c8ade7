"""Relative epochs: a renaming of a state's epochs under which an endless row of elections is a cycle.

A protocol may only compare its epochs, and make new ones by `+ 1`. Then it behaves alike in two states whose epochs
have the same order and, from the lowest live epoch on, the same differences.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import Map, Record, Value, field_names

MOST_CACHED = 1 << 18
"""Cached parts of states before the cache is emptied."""


class RelativeNumbers:
    """Renames the numbers that a state holds in some fields, by their order and distances.

    Parameters
    ----------
    fields
        Names of the fields that hold such numbers (epochs), in records of any class.
    """

    def __init__(self, *fields: str) -> None:
        self._fields = frozenset(fields)
        self._held: dict[Value, frozenset[int]] = {}
        self._renamed: dict[tuple[Value, tuple[tuple[int, int], ...]], Value] = {}

    def held(self, value: Value) -> frozenset[int]:
        """Return the numbers that a value holds.

        Parameters
        ----------
        value
            A record, an inbox, a state, or any other value.
        """
        if not isinstance(value, Record | Map | tuple | frozenset):
            return frozenset()
        found = self._held.get(value)
        if found is None:
            found = frozenset().union(*map(self.held, _parts(value)))
            if isinstance(value, Record):
                found |= {getattr(value, name) for name in self._own(value)}
            if len(self._held) > MOST_CACHED:
                self._held.clear()
            self._held[value] = found
        return found

    def relative(self, state: State, live: Iterable[int], lift: int | None = 0) -> State:
        """Return a state with its numbers renamed by `renaming`.

        Parameters
        ----------
        state
            The state.
        live
            The numbers that a step may increment: the epochs of running replicas.
        lift
            Increases every number except 0. Without a live number above 0, or with None, no number changes.
        """
        if lift is None:
            return state
        parts = {"replicas": state.replicas, "inboxes": state.inboxes, "shared": state.shared}
        names = self.renaming(frozenset().union(*map(self.held, parts.values())), live, lift)
        return state.but(**{name: self.renamed(part, names) for name, part in parts.items()})

    def renaming(self, held: Iterable[int], live: Iterable[int], lift: int = 0) -> dict[int, int]:
        """Return the new number of each number that is held.

        Number 0 stays. From the lowest live number on, differences stay; below it, the order alone.

        Parameters
        ----------
        held
            All numbers of a state.
        live
            The numbers that a step may increment: the epochs of running replicas.
        lift
            Increases every number except 0. Without a live number above 0, no number changes.
        """
        above, lowest = sorted(set(held) - {0}), min(live, default=0)
        below = [number for number in above if number < lowest]
        if lowest <= 0:
            return {0: 0, **{number: number for number in above}}
        ranks = {number: rank + lift for rank, number in enumerate(below, start=1)}
        return {0: 0, **ranks, **{n: n - lowest + len(below) + 1 + lift for n in above if n >= lowest}}

    def renamed(self, value: Value, names: Mapping[int, int]) -> Value:
        """Return a value with other numbers.

        Parameters
        ----------
        value
            A record, an inbox, a state, or any other value.
        names
            The new number of each number that the value holds.
        """
        changes = tuple((number, names[number]) for number in sorted(self.held(value)) if names[number] != number)
        if not changes:
            return value
        found = self._renamed.get((value, changes))
        if found is None:
            found = self._made(value, names)
            if len(self._renamed) > MOST_CACHED:
                self._renamed.clear()
            self._renamed[value, changes] = found
        return found

    def _made(self, value: Value, names: Mapping[int, int]) -> Value:
        if isinstance(value, Record):
            own = self._own(value)
            parts = {name: getattr(value, name) for name in field_names(type(value))}
            return value.but(**{n: names[v] if n in own else self.renamed(v, names) for n, v in parts.items()})
        if isinstance(value, Map):
            return Map((self.renamed(key, names), self.renamed(item, names)) for key, item in value.items())
        made = (self.renamed(item, names) for item in value)
        return tuple(made) if isinstance(value, tuple) else frozenset(made)

    def _own(self, record: Record) -> list[str]:
        return [
            name for name in field_names(type(record)) if name in self._fields and type(getattr(record, name)) is int
        ]


def _parts(value: Value) -> Iterable[Value]:
    if isinstance(value, Record):
        return [getattr(value, name) for name in field_names(type(value))]
    return [part for item in value.items() for part in item] if isinstance(value, Map) else value

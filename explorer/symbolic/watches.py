"""Projections of sets: their dimensions and vectors, and watches for new vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from kraftcheck.explorer.calls.handlers import MissingRead
from kraftcheck.explorer.symbolic.relations import EventGroups, Labels
from kraftcheck.explorer.symbolic.store import Store, require

Dim = tuple[int, int]  # level, map


class Watch(NamedTuple):
    """A callback, called once for each combination of values that some diagram variables take."""

    number: int
    dims: tuple[Dim, ...]  # dimensions, sorted by level
    learn: Callable[[dict[Dim, Any]], None]  # called with each new vector, as classes by dimension


class Watches:
    """The watches of one search, and the value combinations that each has seen."""

    def __init__(self, store: Store, labels: Labels, groups: EventGroups) -> None:
        self.active: list[int] = []
        self.known: dict[int, Watch] = {}
        self._store = store
        self._labels = labels
        self._groups = groups
        self._projections = 0
        self._tails: dict[tuple[int, int, int], int] = {}

    def add(self, dims: Iterable[Dim], learn: Callable[[dict[Dim, Any]], None]) -> int:
        """Watch a projection for new vectors; return its number."""
        dims = tuple(sorted(dims))
        number = self.projection(dims)
        self.known[number] = Watch(number, dims, learn)
        arrays, level = self._store.arrays, dims[0][0]
        arrays.watch_known[number] = 0
        arrays.next_watch[number] = arrays.first_watch[level]
        arrays.first_watch[level] = number
        self._groups.note_top(level)
        arrays.watch_version[level] += 1
        self.active.append(number)
        self._store.watch_tails({tail for one in self.active for tail in self._tails_of(one)})
        return number

    def tail(self, dims: Sequence[Dim]) -> int:
        """Return the number of a tail, a list of dimensions in ascending order of level; add it if it is new."""
        tails = self._store.arrays.tails
        number = 0
        for level, mapped in reversed(dims):
            key = (level, mapped, number)
            if key not in self._tails:
                self._tails[key] = len(self._tails) + 1
                require(len(self._tails) + 1, len(tails), "dimensions of projections")
                tails[self._tails[key]] = (*key, -1)
            number = self._tails[key]
        return number

    def _tails_of(self, number: int) -> list[int]:
        """Return the tails of a projection (the suffixes of its list of dimensions), the longest first."""
        tail, found = int(self._store.arrays.watch_tail[number]), []
        while tail:
            found.append(tail)
            tail = int(self._store.arrays.tails[tail, 2])
        return found

    def projection(self, dims: Iterable[Dim]) -> int:
        """Return the number of a new projection; two dimensions of one level are merged into pairs."""
        merged: dict[int, int] = {}
        for level, mapped in dims:
            merged[level] = self._labels.pair(level, merged[level], mapped) if level in merged else mapped
        arrays = self._store.arrays
        number = self._projections
        self._projections += 1
        require(number + 1, len(arrays.watch_tail), "projections")
        arrays.watch_tail[number] = self.tail(list(merged.items()))
        return number

    def remove(self, number: int) -> None:
        """Remove a watch from the linked list of its level; an iteration at the watch can still continue."""
        arrays, level = self._store.arrays, self.known[number].dims[0][0]
        self.active.remove(number)
        if arrays.first_watch[level] == number:
            arrays.first_watch[level] = arrays.next_watch[number]
            return
        before = int(arrays.first_watch[level])
        while arrays.next_watch[before] != number:
            before = int(arrays.next_watch[before])
        arrays.next_watch[before] = arrays.next_watch[number]

    def each(self, number: int, dims: tuple[Dim, ...], node: int, use: Callable[[dict[Dim, Any]], None]) -> None:
        """Call `use` with each vector of a projection, as a map from dimensions to values, without set memberships.

        If `use` raises MissingRead for a membership, it is called again with each value of that membership.
        """
        merged = [self._store.arrays.tails[tail, :2].tolist() for tail in self._tails_of(number)]
        levels = [level for level, _ in merged]
        lazy = {level for level in levels if self._labels.is_membership(level)}
        if not lazy:
            for vector in list(self._store.vectors(node, levels)):
                use(self._meant(merged, dims, dict(zip(levels, vector, strict=True))))
            return
        pending: list[dict[int, int]] = [{}]
        while pending:
            fixed = pending.pop()
            missing = next((level for level in levels if level not in fixed and level not in lazy), None)
            if missing is None:
                missing = self._missing_membership(use, self._meant(merged, dims, fixed), lazy - fixed.keys())
            if missing is not None:
                pending += [fixed | {missing: value} for value in self._values(node, levels, fixed, missing)]

    def _missing_membership(
        self, use: Callable[[dict[Dim, Any]], None], found: dict[Dim, Any], unknown: set[int]
    ) -> int | None:
        """Call `use`; return the level of the set membership for which `use` raises MissingRead, or None."""
        try:
            use(found)
        except MissingRead as missing:
            level = self._labels.level_of_membership(missing.read)
            if level not in unknown:
                raise
            return level
        return None

    def _values(self, node: int, levels: list[int], fixed: dict[int, int], wanted: int) -> list[int]:
        """Return the values at the level `wanted` among the vectors that have the values `fixed` at other levels."""
        known: dict[tuple[int, int], set[int]] = {}

        def there(place: int, a: int) -> set[int]:
            if place == len(levels):
                return {0}
            if (place, a) in known:
                return known[place, a]
            level, found = levels[place], set[int]()
            at, edges = self._store.edges(a)
            for value, child in edges if at == level else [(0, a)]:
                if fixed.get(level, value) == value:
                    below = there(place + 1, child)
                    found |= {value} if level == wanted and below else below
            known[place, a] = found
            return found

        return sorted(there(0, node))

    def _meant(self, merged: list[list[int]], dims: tuple[Dim, ...], vector: dict[int, int]) -> dict[Dim, Any]:
        """Decode a vector: return the value or class that its number means in each dimension."""
        found: dict[Dim, Any] = {}
        for level, mapped in merged:
            if level in vector:
                classes: Any = vector[level]
                own = [dim for dim in dims if dim[0] == level]
                for dim in own[:0:-1]:
                    classes, last = self._labels.meaning(level, mapped, classes)
                    found[dim] = last
                    mapped = self._labels.first_of_pair(mapped)
                found[own[0]] = classes
        return found

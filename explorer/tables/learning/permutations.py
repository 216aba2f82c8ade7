"""Images of values under a symmetry group, computed from the images under a few generators.

Every permutation is a product of generators. Only images under generators are rebuilt from values, with each part
of a value rebuilt once. All other images follow by table lookups. A value's images are cached by id when the value
is interned, so canonicalizing a state touches no value.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from kraftcheck.explorer.tables.learning.growing_tables import BY_ID, GrowingTables
from kraftcheck.spec.language.state import Permutation
from kraftcheck.spec.values import Map, ModelValue, Record, Value, field_values

Rebuild = Callable[[Value], Value]


class Images:
    """A permutation group, with functions that return the image of a value under each generator."""

    def __init__(self, group: list[Permutation]) -> None:
        self.order = len(group)
        self._group = group
        self._numbers = {_key(permutation): number for number, permutation in enumerate(group)}

    @cached_property
    def products(self) -> list[tuple[int, int, int]]:
        """Triples (g, k, h), one for each permutation g but the identity: g is generator k applied after h."""
        return self._generated[0]

    @cached_property
    def generators(self) -> list[Rebuild]:
        """A function for each generator that returns the image of a value."""
        return [_remembering(self._group[number]) for number in self._generated[1]]

    @cached_property
    def _generated(self) -> tuple[list[tuple[int, int, int]], list[int]]:
        """The `products`, and the numbers of the permutations chosen as generators."""
        products: list[tuple[int, int, int]] = []
        generators: list[int] = []
        reached = [0]
        for candidate in range(1, self.order):
            if candidate in reached:
                continue
            generators.append(candidate)
            # Start again with one more generator: each product must come after its factors.
            products, reached = [], [0]
            for h in reached:
                for k, generator in enumerate(generators):
                    g = self._after(generator, h)
                    if g not in reached:
                        reached.append(g)
                        products.append((g, k, h))
        return products, generators

    def _after(self, g: int, h: int) -> int:
        """Return the number of the composition of two permutations: g after h."""
        outer = self._group[g]
        return self._numbers[_key({value: outer.get(image, image) for value, image in self._group[h].items()})]


def _key(permutation: Permutation) -> frozenset[tuple[Value, Value]]:
    return frozenset(permutation.items())


def _remembering(permutation: Permutation) -> Rebuild:
    """Return a memoized function that permutes the model values in a value.

    For a permutation that is its own inverse, the image of an image is the original object. Dictionaries then find it
    by identity, without a comparison of values.
    """
    known: dict[tuple[type, Value], Value] = {}
    undoes_itself = all(permutation.get(image, image) == value for value, image in permutation.items())

    def image(value: Value) -> Value:
        kind = type(value)
        if kind is ModelValue:
            return permutation.get(value, value)
        if not isinstance(value, (tuple, frozenset, Record, Map)):
            return value
        found = known.get((kind, value))
        if found is None:
            found = known[kind, value] = rebuilt(value)
            if undoes_itself:
                known[kind, found] = value
        return found

    def rebuilt(value: Value) -> Value:
        if isinstance(value, tuple):
            return tuple(map(image, value))
        if isinstance(value, frozenset):
            return frozenset(map(image, value))
        if isinstance(value, Map):
            return Map([(image(k), image(v)) for k, v in value.items()])
        assert isinstance(value, Record)
        return type(value)(*map(image, field_values(value)))

    return image


class Orbits:
    """Interns the images of values under the symmetry group, and stores the images' ids in tables."""

    def __init__(self, images: Images, tables: GrowingTables) -> None:
        self._images = images
        self._tables = tables
        self._waiting: dict[tuple[str, int], list[tuple[int, Value]]] = {}

    def note(
        self, name: str, index: int, value: Value, intern: Callable[[Any], int], first: int = 0, apart: int = 1
    ) -> None:
        """Store the ids of a value's images under each permutation `g`, in row `first + g * apart` of a table.

        A table with a row for each id has the images in its columns. The whole orbit is interned at once; `intern`
        calls this method again for the orbit's members.
        """
        order = self._images.order
        if order == 1:
            return
        orbit = self._waiting.get((name, first))
        if orbit is not None:
            orbit.append((index, value))
            return
        orbit = self._waiting[name, first] = [(index, value)]
        under = {number: [intern(image(member)) for image in self._images.generators] for number, member in orbit}
        del self._waiting[name, first]
        tables, count = self._tables, max(under) + 1
        table = tables.fit_columns(name, count) if name in BY_ID else tables.lengthen(name, count).T
        for number in under:
            numbers = [number] * order
            for g, generator, before in self._images.products:
                numbers[g] = under[numbers[before]][generator]
            table[first : first + apart * order : apart, number] = numbers

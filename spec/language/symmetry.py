"""Permutations of interchangeable model values, and their effect on values."""

from __future__ import annotations

from itertools import chain, permutations, product

from kraftcheck.spec.values import ModelValue, Value, transform

Permutation = dict[Value, Value]


def permutation_group(sets: tuple[tuple[Value, ...], ...]) -> list[Permutation]:
    """Return every permutation that permutes the values of each set among themselves, the identity first."""
    group = []
    for chosen in product(*[permutations(values) for values in sets]):
        pairs = [zip(values, images, strict=True) for values, images in zip(sets, chosen, strict=True)]
        group.append(dict(chain.from_iterable(pairs)))
    return group


def permuted(value: Value, permutation: Permutation) -> Value:
    """Return a value with its model values permuted."""

    def leaf(item: ModelValue) -> Value:
        return permutation.get(item, item)

    return transform(value, leaf)

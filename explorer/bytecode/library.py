"""Functions that are translated in place of functions and methods of Python that have no operation."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any


def absolute_value(number: int) -> int:
    """`abs`, of an int."""
    return -number if number < 0 else number + 0


def integer(value: int) -> int:
    """`int`, of an int or a bool."""
    if isinstance(value, bool):
        return 1 if value else 0
    return value + 0


def sum_with_start(values: Iterable[Any], start: Any = 0) -> Any:
    """`sum`, with a start."""
    for one in values:
        start = start + one
    return start


def cartesian_product(*parts: Iterable[Any], repeat: int = 1) -> Iterator[tuple[Any, ...]]:
    """`itertools.product`."""
    parts = parts * repeat
    if parts:
        for one in parts[0]:
            for others in cartesian_product(*parts[1:]):
                yield (one, *others)
    else:
        yield ()


def chain(*parts: Iterable[Any]) -> Iterator[Any]:
    """`itertools.chain`."""
    for part in parts:
        yield from part


def union_of_sets(values: Any, *others: Iterable[Any]) -> Any:
    """`frozenset.union`."""
    for one in others:
        values = values | frozenset(one)
    return values


def intersection_of_sets(values: Any, *others: Iterable[Any]) -> Any:
    """`frozenset.intersection`."""
    for one in others:
        values = values & frozenset(one)
    return values


def count(values: Iterable[Any], wanted: Any) -> int:
    """`list.count`."""
    return sum(1 for one in values if one == wanted)


def index(values: Iterable[Any], wanted: Any) -> int:
    """`list.index`."""
    for place, one in enumerate(values):
        if one == wanted:
            return place
    raise ValueError


def elided_copy(value: Any) -> Any:
    """`copy`, of a value that no other name changes."""
    return value


def value_after_in_place_remove(values: Any, wanted: Any) -> Any:
    """Return a list or a set after `remove`."""
    if wanted not in values:
        raise KeyError
    if isinstance(values, list):
        place = values.index(wanted)
        return values[:place] + values[place + 1 :]
    return values - {wanted}


def value_after_in_place_update(values: Any, *others: Any) -> Any:
    """Return a set or a dict after `update`."""
    for one in others:
        values = values | (set(one) if isinstance(values, set) else dict(one))
    return values


def popped_element(values: Any, key: Any = -1, *default: Any) -> Any:
    """Return the element of a list, or the value of a dict, that `pop` returns."""
    if isinstance(values, list) or key in values:
        return values[key]
    (found,) = default
    return found


def without_popped(values: Any, key: Any = -1, *_: Any) -> Any:
    """Return a list or a dict after `pop`."""
    if isinstance(values, list):
        place = key + len(values) if key < 0 else key
        return values[:place] + values[place + 1 :]
    return {one: value for one, value in values.items() if one != key}


def without_key(values: dict[Any, Any], key: Any) -> dict[Any, Any]:
    """Return a dict after `del values[key]`."""
    if not isinstance(values, dict) or key not in values:
        raise KeyError
    return {one: value for one, value in values.items() if one != key}


FUNCTIONS: dict[Any, Any] = {
    abs: absolute_value, int: integer, sum: sum_with_start, itertools.product: cartesian_product,
    itertools.chain: chain,
    frozenset.union: union_of_sets, set.union: union_of_sets,
}  # fmt: skip
"""The function that is translated in place of one of Python's."""
METHODS: dict[str, Any] = {
    "count": count, "index": index, "union": union_of_sets, "intersection": intersection_of_sets, "copy": elided_copy,
}  # fmt: skip
"""The function that is translated in place of a method."""
CHANGES: dict[str, Any] = {"remove": value_after_in_place_remove, "update": value_after_in_place_update}
"""The function whose result is the value of a variable after a method has changed it in place."""

"""Maps whose entries stand near their first key, against a dict."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kraftcheck.explorer.tables.kernel import jit
from kraftcheck.explorer.tables.kernel.codes import MISSING
from kraftcheck.explorer.tables.kernel.maps import (
    GROUP_PLACES,
    GROUPED_KEY_SECOND_BITS,
    copy_map,
    find_grouped_value,
    group_start,
    is_map_full,
    put_from_python,
)
from kraftcheck.explorer.tables.learning.growing_tables import NOT_EVALUATED, GrowingTables

pytestmark = pytest.mark.kernel

Pairs = NDArray[np.int64]


@jit
def looked_up(pairs: Any, number: Any, other: Any) -> Any:
    return find_grouped_value(pairs, number, other)


@jit
def home(pairs: Any, number: Any) -> Any:
    return group_start(pairs, number)


@jit
def must_grow(entries: Any, pairs: Any) -> Any:
    return is_map_full(entries, pairs)


def empty(size: int) -> Pairs:
    return np.full((size, 2), -1, np.int64)


def filled(entered: list[tuple[int, int, int]], size: int) -> tuple[Pairs, dict[tuple[int, int], int]]:
    """Return a map and a dict of the same pairs; the map grows where it must."""
    pairs, expected = empty(size), {}
    for number, other, value in entered:
        if must_grow(len(expected), pairs):
            larger = empty(2 * len(pairs))
            copy_map(pairs, larger, True)
            pairs = larger
        new = put_from_python(pairs, number << GROUPED_KEY_SECOND_BITS | other, value, True)
        assert new == ((number, other) not in expected)
        expected[number, other] = value
    return pairs, expected


def beyond_their_group(pairs: Pairs) -> int:
    """Return how many entries stand outside the group of their id."""
    at = np.flatnonzero(pairs[:, 0] != -1)
    groups = np.array([home(pairs, key >> GROUPED_KEY_SECOND_BITS) for key in pairs[at, 0].tolist()], np.int64)
    return int(np.sum(at // GROUP_PLACES != groups // GROUP_PLACES))


NUMBERS = st.one_of(st.integers(0, 3), st.integers(0, (1 << 31) - 1))
OTHERS = st.one_of(st.integers(0, 40), st.integers(0, (1 << GROUPED_KEY_SECOND_BITS) - 2))


@pytest.mark.slow
@given(st.lists(st.tuples(NUMBERS, OTHERS, st.integers(-3, 1 << 40)), max_size=300), st.sampled_from((16, 64, 1024)))
def test_holds_what_a_dict_holds(entered: list[tuple[int, int, int]], size: int) -> None:
    pairs, expected = filled(entered, size)
    for (number, other), value in expected.items():
        assert looked_up(pairs, number, other) == value
    for number, other, _ in entered:
        missing = (number, other + 1) not in expected
        assert not missing or looked_up(pairs, number, other + 1) == MISSING
    assert int(np.sum(pairs[:, 0] != -1)) == len(expected)


@pytest.mark.parametrize("each", [GROUP_PLACES, GROUP_PLACES + 1, 5 * GROUP_PLACES])
def test_what_no_group_has_room_for_stands_elsewhere(each: int) -> None:
    entered = [(number, other, 100 * number + other) for other in range(each) for number in range(1, 20)]
    pairs, expected = filled(entered, 16)
    assert len(expected) == 19 * each
    assert each <= GROUP_PLACES or beyond_their_group(pairs) >= 19 * (each - GROUP_PLACES)
    for (number, other), value in expected.items():
        assert looked_up(pairs, number, other) == value
        assert looked_up(pairs, number, other + each) == MISSING
    for (number, other), value in list(expected.items()):  # a value that is set again takes no place
        assert not put_from_python(pairs, number << GROUPED_KEY_SECOND_BITS | other, value + 1, True)
        assert looked_up(pairs, number, other) == value + 1
    assert int(np.sum(pairs[:, 0] != -1)) == len(expected)


@pytest.mark.slow
@given(st.lists(st.integers(1, 40_000), min_size=1, max_size=12), st.booleans())
def test_tables_grow_in_their_place_and_what_is_new_is_empty(lengths: list[int], filled: bool) -> None:
    tables, name = GrowingTables(1, 0), "permuted_slots" if filled else "nodes"
    fill = NOT_EVALUATED if filled else 0
    rows = getattr(tables, name)
    rows[:] = fill
    known = rows.copy()
    for length in lengths:
        tables.lengthen(name, length, fill)
        rows = getattr(tables, name)
        assert len(rows) >= length
        assert (rows[: len(known)] == known).all()
        assert (rows[len(known) :] == fill).all()
        rows[length // 2 :] = length
        known = rows.copy()


def test_a_large_table_grows_where_it_stands() -> None:
    tables = GrowingTables(1, 0)
    tables.lengthen("nodes", 20_000)
    first, place = len(tables.nodes), tables.nodes.ctypes.data
    tables.nodes[:] = 7
    tables.lengthen("nodes", first + 1)
    assert (len(tables.nodes), tables.nodes.ctypes.data) == (2 * first, place)
    assert (tables.nodes[:first] == 7).all()
    assert not tables.nodes[first:].any()
    tables.nodes = tables.nodes.copy()  # another one stands there now
    tables.nodes[:] = 8
    tables.lengthen("nodes", 2 * first + 1)
    assert tables.nodes.ctypes.data != place
    assert (tables.nodes[: 2 * first] == 8).all()
    assert not tables.nodes[2 * first :].any()

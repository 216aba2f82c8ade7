"""Which columns of flat states are packed together, and what that is counted by."""

from __future__ import annotations

import numpy as np
import pytest

from kraftcheck.explorer.result import SearchRequest
from kraftcheck.explorer.tables.level_states import (
    SAMPLED_STATES,
    ColumnClustering,
    estimate_distinct_hashes,
    sample_states,
)
from kraftcheck.explorer.tables.rows import SpillingLevels
from kraftcheck.explorer.tables.searches.bfs import BreadthFirstSearch
from kraftcheck.spec.examples.two_phase_commit import TwoPhaseCommit
from kraftcheck.spec.values import ModelValue

MANY = 1 << 20  # states


def sample(seed: int = 3) -> np.ndarray[tuple[int, int], np.dtype[np.int32]]:
    """Return states: two columns that say the same, two that have little to do with each other, two seldom used."""
    chance = np.random.default_rng(seed)
    same, left, right = (chance.integers(0, 1 << bits, 20_000) for bits in (9, 11, 12))
    seldom = np.where(chance.integers(0, 50, 20_000) == 0, chance.integers(1, 30, 20_000), 0)
    return np.stack([same, 3 * same + 1, left, right, seldom, seldom % 7], axis=1).astype(np.int32)


@pytest.mark.parametrize("kinds", [1, 300, 20_000, 200_000])
def test_contents_are_counted(kinds: int) -> None:
    numbers = np.random.default_rng(kinds).integers(0, kinds, 400_000).astype(np.uint64)
    hashes = numbers * np.uint64(0x9E3779B97F4A7C15 | 1)
    expected = len(np.unique(numbers))
    assert abs(estimate_distinct_hashes(hashes) - expected) <= 0.02 * expected + 1


def test_columns_that_have_few_contents_together_are_packed_together() -> None:
    clustering = ColumnClustering(sample(), MANY, [9, 11, 11, 12, 5, 3])
    before = clustering.bits()
    clustering.merge_all([[0, 1]])
    fields = clustering.fields()
    assert any({0, 1} <= set(field) for field in fields)
    assert any({4, 5} <= set(field) for field in fields)
    assert not any({2, 3} <= set(field) for field in fields)  # 2^20 states have nearly as many contents
    assert sorted(column for field in fields for column in field) == list(range(6))
    assert clustering.bits() <= before - 11
    assert [len(field) > 1 for field in fields] == sorted((len(field) > 1 for field in fields), reverse=True)


def test_contents_must_be_worth_what_they_cost() -> None:
    clustering = ColumnClustering(sample(), 400, [9, 11, 11, 12, 5, 3])
    clustering.merge_all([[0, 1]])
    assert all(len(field) == 1 for field in clustering.fields())  # so few states save less than they take


def test_a_column_that_is_not_packed_is_in_no_field() -> None:
    clustering = ColumnClustering(sample(), MANY, [9, 0, 11, 12, 5, 3])
    clustering.merge_all([[0, 1], [2, 3]])
    assert not any(1 in field for field in clustering.fields())


def test_states_of_all_levels_are_looked_at() -> None:
    levels = SpillingLevels(1 << 30)
    for level in range(3):
        levels.begin()
        levels.append(np.full((100_000, 2), level, np.int32))
    rows = sample_states(levels)
    assert SAMPLED_STATES // 2 < len(rows) <= SAMPLED_STATES
    assert min(np.bincount(rows[:, 0])) > SAMPLED_STATES // 4
    few = SpillingLevels(1 << 30)
    few.begin()
    few.append(np.arange(10, dtype=np.int32).reshape(5, 2))
    assert sorted(sample_states(few)[:, 0].tolist()) == [0, 2, 4, 6, 8]


@pytest.mark.parametrize("seed", range(4))
def test_each_column_is_in_one_field(seed: int) -> None:
    """However often units are merged, and their arrays given back and taken anew."""
    chance = np.random.default_rng(seed)
    sources = chance.integers(0, 1 << 6, (4_000, 8))
    rows = np.stack([sources[:, chance.integers(0, 8)] * (c + 1) % 61 for c in range(28)], axis=1).astype(np.int32)
    clustering = ColumnClustering(rows, MANY, [6] * 28)
    clustering.merge_all([[c, c + 14] for c in range(14)])
    fields = clustering.fields()
    assert len(fields) < 28
    assert sorted(column for field in fields for column in field) == list(range(28))


def test_a_column_in_no_field_is_refused() -> None:
    """Else states that differ there alone would be taken for one."""
    managers = frozenset(ModelValue(f"rm{number}", number) for number in range(1, 4))
    protocol = TwoPhaseCommit(resource_managers=managers)
    expander = BreadthFirstSearch(protocol, SearchRequest(), 1).expander
    expander.encode(protocol.initial())
    expander.switch_layout(flat=True)
    columns = list(range(expander.width))
    expander.pack_together([columns])
    with pytest.raises(AssertionError, match="each packed column in exactly one field"):
        expander.pack_together([columns[1:]])

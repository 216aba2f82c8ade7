"""Flat states: the same search without control rows."""

from __future__ import annotations

import pytest

from kraftcheck.explorer.tables import laying_out
from kraftcheck.explorer.tables.searches import bfs
from kraftcheck.explorer.tables.searches.bfs import BreadthFirst
from kraftcheck.explorer.tables.states.packing import Packing
from kraftcheck.explorer.tables.states.spilling import SpillingSet
from tests.support.explorer.agreement import check_agreement
from tests.support.explorer.random_protocols import sample

pytestmark = pytest.mark.kernel


@pytest.fixture
def laid_out(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Make states flat as soon as may be; note how they were laid out."""
    noted: list[bool] = []
    lay_out = BreadthFirst._lay_out

    def noting(search: BreadthFirst, *, flat: bool) -> None:
        noted.append(flat)
        lay_out(search, flat=flat)

    monkeypatch.setattr(bfs, "FLAT_FROM", 1)
    monkeypatch.setattr(laying_out, "FLAT_SHARE", -1.0)
    monkeypatch.setattr(BreadthFirst, "_lay_out", noting)
    return noted


@pytest.mark.parametrize("examples", [5, pytest.param(20, marks=pytest.mark.slow)])
def test_random_protocols_agree_where_states_are_flat(examples: int, laid_out: list[bool]) -> None:
    for number, found in enumerate(sample(examples, seed=4_712, large=60, most=1_000)):
        check_agreement(found, 1 + number % 2)
    assert laid_out.count(True) >= examples // 2


def test_states_on_disk_are_flat_and_have_control_rows_again(
    laid_out: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some protocols learn what does not fit flat states, while states of theirs are on disk, in one worker of two."""
    emptied: list[bool] = []
    empty = SpillingSet.empty

    def noting(visited: SpillingSet, packing: Packing, states: int) -> None:
        emptied.append(visited.archive is not None)
        empty(visited, packing, states)

    monkeypatch.setattr(SpillingSet, "_is_full", lambda visited: visited.in_memory.count > 15)
    monkeypatch.setattr(SpillingSet, "empty", noting)
    for found in sample(2, seed=19, large=60, most=1_000):
        check_agreement(found, 2)
    assert len(emptied) == len(laid_out)
    assert (False, True) in zip(laid_out, emptied, strict=True)

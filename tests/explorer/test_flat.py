"""Flat states: the same search without control rows."""

from __future__ import annotations

import pytest

from kraftcheck.explorer.tables import laying_out as constants
from kraftcheck.explorer.tables.searches.bfs import BreadthFirst
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

    monkeypatch.setattr(constants, "FLAT_FROM", 1)
    monkeypatch.setattr(constants, "FLAT_SHARE", -1.0)
    monkeypatch.setattr(BreadthFirst, "_lay_out", noting)
    return noted


@pytest.mark.parametrize("examples", [5, pytest.param(20, marks=pytest.mark.slow)])
def test_random_protocols_agree_where_states_are_flat(examples: int, laid_out: list[bool]) -> None:
    for number, found in enumerate(sample(examples, seed=4_712, large=60, most=1_000)):
        check_agreement(found, 1 + number % 2)
    assert laid_out.count(True) >= examples // 2

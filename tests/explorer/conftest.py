"""What several tests of the engines need."""

from __future__ import annotations

import pytest

from kraftcheck.explorer.tables import level_states
from kraftcheck.explorer.tables.expander import Expander
from kraftcheck.explorer.tables.level_states import ColumnCluster, ColumnClustering
from kraftcheck.explorer.tables.searches.bfs import BreadthFirstSearch


@pytest.fixture
def laid_out(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Make states flat as soon as may be; note how they were laid out."""
    noted: list[bool] = []
    switch_layout = BreadthFirstSearch._switch_layout

    def noting(search: BreadthFirstSearch, *, flat: bool) -> None:
        noted.append(flat)
        switch_layout(search, flat=flat)

    monkeypatch.setattr(level_states, "FLAT_FROM_STATES", 1)
    monkeypatch.setattr(level_states, "FLAT_FROM_RATIO", -1.0)
    monkeypatch.setattr(BreadthFirstSearch, "_switch_layout", noting)
    return noted


@pytest.fixture
def packed_together(laid_out: list[bool], monkeypatch: pytest.MonkeyPatch) -> list[list[list[int]]]:
    """Pack some columns of flat states together, whether that pays or not; note which ones."""
    assert laid_out == []
    noted: list[list[list[int]]] = []
    pack_together = Expander.pack_together

    def noting(expander: Expander, fields: list[list[int]]) -> None:
        noted.append(fields)
        pack_together(expander, fields)

    def gain(_: ColumnClustering, a: ColumnCluster, b: ColumnCluster, merged: ColumnCluster) -> float:
        return (1 + min(a.columns) * 7 + max(b.columns) * 5) % 3 - 0.5 - 0.1 * len(merged.columns)

    monkeypatch.setattr(level_states, "CLUSTERING_FROM_STATES", 1)
    monkeypatch.setattr(level_states, "UNCLUSTERED_BITS", 0)
    monkeypatch.setattr(level_states, "LEAST_SAVED_BITS_TO_REPACK", -(10**6))
    monkeypatch.setattr(ColumnClustering, "_gain", gain)
    monkeypatch.setattr(Expander, "pack_together", noting)
    return noted

"""What several tests of the engines need."""

from __future__ import annotations

import pytest

from kraftcheck.explorer.tables import laying_out
from kraftcheck.explorer.tables.searches import bfs
from kraftcheck.explorer.tables.searches.bfs import BreadthFirst


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

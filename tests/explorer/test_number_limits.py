"""What the tables have no numbers for ends a search with a message: it is never taken for something else."""

from __future__ import annotations

import pytest

from kraftcheck.explorer.result import SearchRequest
from kraftcheck.explorer.tables import level_states
from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.learning import growing_tables
from kraftcheck.explorer.tables.searches.bfs import BreadthFirstSearch
from kraftcheck.spec.errors import ProtocolError
from kraftcheck.spec.examples.two_phase_commit import TwoPhaseCommit
from kraftcheck.spec.values import ModelValue

pytestmark = pytest.mark.kernel
MANAGERS = frozenset(ModelValue(f"rm{number}", number) for number in range(1, 5))
PROTOCOL = TwoPhaseCommit(resource_managers=MANAGERS)


def searched() -> tuple[int, int]:
    found = BreadthFirstSearch(PROTOCOL, SearchRequest(), 1).run()
    return found.distinct_states, found.generated_states


def test_local_states(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = searched()
    monkeypatch.setattr(codes, "KEY_LIMIT", 5)
    with pytest.raises(ProtocolError, match="more than 5 local states"):
        searched()
    monkeypatch.setattr(codes, "KEY_LIMIT", 500)
    assert searched() == counts == (1_568, 8_258)


@pytest.mark.parametrize(("table", "most"), [("contents", 8), ("content_items", 16)])
@pytest.mark.parametrize("flat_from", [1, 1 << 20])
def test_contents_of_inboxes(table: str, most: int, flat_from: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(level_states, "FLAT_FROM_STATES", flat_from)
    monkeypatch.setattr(level_states, "FLAT_FROM_RATIO", -1.0)
    for name in ("contents", "inbox_codes", "content_items"):
        monkeypatch.setitem(growing_tables.FIRST_ROWS_LOG2, name, 3)
    counts = searched()
    monkeypatch.setattr(growing_tables, "MOST_ROWS_BY_TABLE", growing_tables.MOST_ROWS_BY_TABLE | {table: most})
    with pytest.raises(ProtocolError, match=f"more than {most} {table.replace('_', ' ')}: the table engine has no"):
        searched()
    monkeypatch.setattr(growing_tables, "MOST_ROWS_BY_TABLE", growing_tables.MOST_ROWS_BY_TABLE | {table: 1 << 10})
    assert searched() == counts == (1_568, 8_258)

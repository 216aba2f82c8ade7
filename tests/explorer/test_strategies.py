"""The search orders are found by their folder."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from kraftcheck.explorer.request import CAPABILITIES
from kraftcheck.explorer.result import Search, SearchRequest
from kraftcheck.explorer.tables import search_orders, searches
from kraftcheck.explorer.tables.engine import explore
from kraftcheck.spec.errors import InputError
from tests.support.tlc import bound, expected

ANOTHER = "from kraftcheck.explorer.tables.searches.bfs import search\n"


def test_every_order_is_found() -> None:
    assert set(search_orders()) >= set(Search)
    for name in search_orders():
        order = import_module(f"{searches.__name__}.{name.replace('-', '_')}")
        assert callable(order.search)
        assert name in CAPABILITIES["tables"]


def test_one_more_file_is_one_more_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "another.py").write_text(ANOTHER)
    monkeypatch.setattr(searches, "__path__", [*searches.__path__, str(tmp_path)])
    assert "another" in search_orders()
    assert search_orders()[0] == "bfs"  # the default is no matter of names
    result = explore(bound("counts/two-voters").protocol, SearchRequest(search="another", deadlock=False))
    assert result.distinct_states == expected()["two-voters"]["distinct_states"]
    with pytest.raises(InputError, match="--memory: not supported by --search another; expected --search bfs"):
        explore(bound("counts/two-voters").protocol, SearchRequest(search="another", memory=1 << 30))


def test_a_name_has_dashes_and_helpers_have_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "yet_another.py").write_text(ANOTHER)
    (tmp_path / "_helper.py").write_text("")
    before = set(search_orders())
    monkeypatch.setattr(searches, "__path__", [*searches.__path__, str(tmp_path)])
    assert set(search_orders()) == {*before, "yet-another"}
    result = explore(bound("counts/two-voters").protocol, SearchRequest(search="yet-another", deadlock=False))
    assert result.distinct_states == expected()["two-voters"]["distinct_states"]

"""Checkpoints of Spark that were forged: a search that goes on from one is right, or refuses it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("pyarrow")
from kraftcheck.explorer.result import SearchRequest
from kraftcheck.explorer.spark import checkpoint
from tests.support.explorer.comparison import found
from tests.support.forging import outcomes
from tests.support.spark.pretended import Lost, search
from tests.support.tlc import MCReconfig, bound

pytestmark = pytest.mark.kernel


def stopped(folder: Path) -> tuple[object, SearchRequest]:
    protocol = bound("counts/two-voters", MCReconfig).protocol
    invariants = tuple(prop for prop in protocol.properties.values() if prop.kind == "invariant")
    options = SearchRequest(properties=invariants, deadlock=False, keep_going=True)
    with pytest.raises(Lost):
        search(protocol, replace(options, checkpoint=folder), folder, Random(1), left=22)
    return protocol, options


@pytest.mark.slow
@pytest.mark.parametrize("count", [15, pytest.param(300, marks=pytest.mark.exhaustive)])
def test_a_forged_checkpoint(count: int, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    protocol, options = stopped(folder)

    def resumed(folder: Path) -> dict[str, object]:
        return found(search(protocol, replace(options, resume=folder), folder, Random(1))[0])  # type: ignore[arg-type]

    right = resumed(tmp_path / "c")
    folder = tmp_path / "d"
    stopped(folder)
    assert outcomes(folder, tmp_path / "forged", range(count), resumed, right)["refused"] > count // 2


@pytest.mark.slow
def test_a_large_checkpoint_is_searched_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "MOST_RECHECKED_STATES", 10)
    folder = tmp_path / "c"
    protocol, options = stopped(folder)
    result, _ = search(protocol, replace(options, resume=folder), folder, Random(1))  # type: ignore[arg-type]
    assert result.distinct_states == 428

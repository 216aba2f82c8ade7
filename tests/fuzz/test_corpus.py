"""What fuzzing found interesting: each reader reads it, or raises its own error."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from tests.support.fuzzing import READERS, cases, outcome

CORPUS = Path(__file__).parents[1] / "data" / "fuzz.tar.gz"
COMPILED = ("checkpoint", "notes", "parquet")


@pytest.fixture(scope="module")
def corpus() -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {name: [] for name in READERS}
    with tarfile.open(CORPUS) as archive:
        for name, data in cases(archive):
            found[name].append(data)
    return found


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.kernel if name in COMPILED else ()) for name in READERS]
)
def test_what_was_interesting(name: str, corpus: dict[str, list[bytes]]) -> None:
    if name == "parquet":
        pytest.importorskip("pyarrow")
    outcomes = {outcome(READERS[name], data) for data in (*corpus[name], b"", b"\0", b"\xff" * 9)}
    assert outcomes <= {"read", "refused"}
    assert len(corpus[name]) >= 2
    assert {outcome(READERS[name], data) for data in READERS[name].seeds()} >= {"read"}

"""Random protocols, each written as a TLA+ module and in the language: all engines find what TLC finds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.random_tla.comparing import Comparison, Pair, Tlc, running
from tests.support.random_tla.drawing import draw
from tests.support.random_tla.running import compare

FEATURES = (
    "network set", "network kept", "network set with memory", "network bag", "network merging bag",
    "network bag with memory", "network channels", "loss", "duplication", "sent once", "several initial states",
    "no replicas", "replicas appear", "SYMMETRY", "VIEW of fields that nothing reads", "VIEW of fields that are read",
    "CONSTRAINT", "ACTION_CONSTRAINT", "invariant", "step property", "temporal property", "fairness of actions",
    "fairness of replicas", "deadlock", "bounds",
)  # fmt: skip

MOST = 600  # distinct states, so that CI takes a minute

pytestmark = [pytest.mark.tlc, pytest.mark.kernel]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pairs")


@pytest.fixture(scope="module")
def tlc(folder: Path) -> Iterator[Tlc]:
    with running(folder) as started:
        yield started


@pytest.mark.slow
def test_some_pairs_agree(tlc: Tlc, folder: Path) -> None:
    assert compare(itertools.count(5), 2, tlc, folder, most=MOST).differences == {}


@pytest.mark.slow(minutes=1)
def test_pairs_agree(tlc: Tlc, folder: Path) -> None:
    summary = compare(itertools.count(0), 30, tlc, folder, most=MOST)
    assert summary.differences == {}
    assert [name for name in FEATURES if summary.features[name] == 0] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [("MaxTicks = 1", "MaxTicks = 2")],
)
def test_a_difference_is_seen(tlc: Tlc, folder: Path, old: str, new: str) -> None:
    pair = Pair.of(draw(5), "Changed")
    assert old in pair.config
    comparison = Comparison(pair, tlc, folder)
    pair.config = pair.config.replace(old, new)  # TLC's alone
    assert comparison.run() != []

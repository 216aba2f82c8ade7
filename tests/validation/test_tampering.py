"""Single changes in the logs of a conforming cluster: the replay finds nearly all of them."""

from __future__ import annotations

import pytest

from tests.support.log_tampering import KINDS, SAMPLES, table
from tests.support.log_tampering import run as tamper


def test_single_changes() -> None:
    found = tamper(SAMPLES[1:], 40, seed=5)
    assert {change.kind for change, _ in found} <= set(KINDS)
    assert [line for line in table(found) if line.startswith("survives")] == []


@pytest.mark.slow
def test_many_single_changes() -> None:
    found = tamper(SAMPLES, 300, seed=6)
    survivors = [line for line in table(found) if line.startswith("survives")]
    assert len(survivors) <= 12, survivors

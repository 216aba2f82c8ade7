"""Single changes in the logs of a conforming cluster: the command finds nearly all of them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.support.command_line import Run
from tests.support.log_tampering import KINDS, SAMPLES, table
from tests.support.log_tampering import run as tamper


@pytest.mark.slow
def test_single_changes() -> None:
    found = tamper(SAMPLES[1:], 4, seed=5)
    assert {change.kind for change, _ in found} <= set(KINDS)
    assert [line for line in table(found) if line.startswith("survives")] == []


@pytest.mark.slow
def test_a_response_without_partner(run: Run, tmp_path: Path) -> None:
    for path in SAMPLES[1].glob("node*.trace.log.gz"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    path = tmp_path / "node2.trace.log.gz"
    lines = gzip.decompress(path.read_bytes()).decode().splitlines(keepends=True)
    at = 727  # the response to BeginQuorumEpoch
    assert "leaderId=2," in lines[at]
    lines[at] = lines[at].replace("leaderId=2,", "leaderId=3,")
    path.write_bytes(gzip.compress("".join(lines).encode()))
    done = run("validate", "quorum", tmp_path, "--quiet")
    assert done.code == 20, done
    assert f"another node received 1 messages that it did not write, the first at {path}:728" in done.out


@pytest.mark.slow
def test_many_single_changes() -> None:
    found = tamper(SAMPLES, 30, seed=6)
    survivors = [line for line in table(found) if line.startswith("survives")]
    assert len(survivors) <= 2, survivors

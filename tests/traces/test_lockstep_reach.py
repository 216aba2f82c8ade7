"""What walks reached of Kafka."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kraftcheck.lockstep.code_coverage import ClassCoverage, CoverageCount
from kraftcheck.reporting.lockstep import code_coverage_markdown
from tests.support.command_line import Run

TRUNCATION = Path(__file__).parents[1] / "data" / "kafka" / "voters-after-truncation.walk"


def test_the_table() -> None:
    classes = [
        ClassCoverage("LeaderState", CoverageCount(8, 10), CoverageCount(1, 4), ("toString", "close", "toString")),
        ClassCoverage("RaftUtil", CoverageCount(3, 3), CoverageCount(), ()),
        ClassCoverage("Unused", CoverageCount(0, 7), CoverageCount(0, 2), ("run",)),
        ClassCoverage("Marker", CoverageCount(), CoverageCount(), ()),
    ]
    assert list(code_coverage_markdown(classes)) == [
        "| class         | lines           | branches      |",
        "|---------------|-----------------|---------------|",
        "| `LeaderState` | 8 of 10 (80 %)  | 1 of 4 (25 %) |",
        "| `RaftUtil`    | 3 of 3 (100 %)  | -             |",
        "| together      | 11 of 13 (84 %) | 1 of 4 (25 %) |",
        "",
        "Methods without coverage:",
        "",
        "- `LeaderState`: toString, close",
        "",
        "Classes without coverage: Unused",
    ]


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("disk", [(), ("--disk",)])
def test_what_a_walk_reaches(disk: tuple[str, ...], run: Run, tmp_path: Path) -> None:
    path = tmp_path / "reach.md"
    done = run("lockstep", "quorum", "--walk", TRUNCATION, "--reach", path, *disk, "--quiet")
    assert done.code == 12
    rows = dict(re.findall(r"^\| `(\w+)` +\| ([\d,]+) of", path.read_text(), re.MULTILINE))
    assert int(rows["KafkaRaftClient"].replace(",", "")) > 500
    assert ("KafkaRaftLog" in rows, "FileQuorumStateStore" in rows) == (bool(disk), bool(disk))
    assert ("KafkaRaftLog" in path.read_text().splitlines()[-1]) == (not disk)


def test_several_versions(run: Run, tmp_path: Path) -> None:
    done = run("lockstep", "quorum", "--kafka", "4.3.1", "--kafka", "4.4.0", "--reach", tmp_path / "reach.md")
    assert (done.code, done.out) == (2, "")
    assert "--reach: several versions of Kafka are given; give one" in done.err

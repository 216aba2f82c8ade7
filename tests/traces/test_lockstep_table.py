"""The table of walks by versions, and that of changes between two versions."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from kraftcheck.lockstep.campaign import FindingClass, TaskResult
from kraftcheck.lockstep.jars import CLIENT_CLASS
from kraftcheck.lockstep.kafka_cluster import ModelKafkaDifference
from kraftcheck.lockstep.lockstep import LockstepFinding, LockstepVerdict
from kraftcheck.lockstep.version_changes import (
    VersionChanges,
    VersionResults,
    changed_findings,
    compare_class_digests,
    kafka_raft_class_digests,
    last_agreeing_or_previous_version,
)
from kraftcheck.reporting.lockstep import (
    VerdictCell,
    all_walks_agree_with_model,
    count_walks_by_finding,
    verdict_cell,
    verdicts_by_version_table,
    version_change_markdown,
)
from kraftcheck.spec.errors import InputError
from tests.support.command_line import Run

DIFFERS = LockstepFinding(LockstepVerdict.DIFFERS, 7, None, (ModelKafkaDifference(None, "voters", 1, 2),))
FAILS = LockstepFinding(
    LockstepVerdict.FAILS, 9, None, problem="java.lang.IllegalStateException: no (a.B.c(B.java:12))"
)
VIOLATES = LockstepFinding(LockstepVerdict.VIOLATES, 12, None, violated=("LogMatching",))


def test_the_most_severe_finding_counts() -> None:
    assert verdict_cell([]) == VerdictCell("agrees")
    assert verdict_cell([DIFFERS]) == VerdictCell("differs", "step 7: voters")
    assert verdict_cell([DIFFERS, FAILS]) == VerdictCell(
        "fails", "step 9: java.lang.IllegalStateException: no (a.B.c(B.java))"
    )
    assert verdict_cell([DIFFERS, VIOLATES, FAILS, VIOLATES]) == VerdictCell("violates", "LogMatching")


def test_a_walk_that_ends_early() -> None:
    assert verdict_cell([], "line 3 is not enabled") == VerdictCell("ends early", "line 3 is not enabled")
    assert verdict_cell([DIFFERS], "line 9 is not enabled") == VerdictCell(
        "differs", "step 7: voters; line 9 is not enabled"
    )


def test_equal_notes_are_one() -> None:
    columns = {
        "4.3.1": [verdict_cell([VIOLATES]), verdict_cell([])],
        "4.4.0": [verdict_cell([VIOLATES]), verdict_cell([DIFFERS])],
    }
    assert list(verdicts_by_version_table(["a", "long name"], columns)) == [
        "|           | 4.3.1        | 4.4.0        |",
        "|-----------|--------------|--------------|",
        "| a         | violates (1) | violates (1) |",
        "| long name | agrees       | differs (2)  |",
        "",
        "1. LogMatching",
        "2. step 7: voters",
    ]


def test_the_table_in_the_docs_names_walks_that_are_there() -> None:
    root = Path(__file__).parents[2]
    section = (root / "docs" / "kafka.md").read_text().partition("## Versions")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([\w-]+) +\|", section, re.MULTILINE)
    walks = {path.stem for path in (root / "tests" / "data" / "kafka").rglob("*.walk")}
    assert len(rows) >= 10
    assert set(rows) <= walks


def made(*kinds: FindingClass, campaign: Any = True, problem: InputError | None = None) -> TaskResult:
    return TaskResult(campaign=campaign, kinds=kinds, problem=problem)


def jar_of(path: Path, **classes: str) -> Path:
    with ZipFile(path, "w") as jar:
        for name, content in {CLIENT_CLASS.removesuffix(".class"): "client", **classes}.items():
            jar.writestr(f"{name}.class", content)
    return path


def test_a_version_is_compared_with_the_last_one_that_agrees() -> None:
    plain, violates, differs = made(), made(FindingClass(VIOLATES, (), 1)), made(FindingClass(DIFFERS, (), 1))
    ends, none = made(problem=InputError("line 3 is not enabled")), made(campaign=None)

    def base(*versions: list[TaskResult]) -> str:
        return last_agreeing_or_previous_version(
            [VersionResults(str(n), "", all_walks_agree_with_model(one), ()) for n, one in enumerate(versions)]
        ).kafka

    assert base([plain], [violates], [differs], [ends], [plain]) == "1"
    assert base([differs], [ends], [plain]) == "1"
    assert base([plain], [plain, none], [plain]) == "0"


def test_findings_with_another_number_of_walks_have_changed() -> None:
    fails = FindingClass(FAILS, (), 3)
    later = fails._replace(first=FAILS._replace(problem=FAILS.problem.replace(":12", ":15")))
    since = [made(), made(fails), made(FindingClass(VIOLATES, (), 2))]
    now = [made(FindingClass(DIFFERS, (), 1)), made(later), made(problem=InputError("x is not enabled"))]
    both = [VersionResults("", "", True, [*map(count_walks_by_finding, one)]) for one in (since, now)]
    assert [tuple(one) for one in changed_findings(["a", "b", "c"], *both)] == [
        ("a", "differs: at the start: voters", 0, 1),
        ("c", "violates: violated: LogMatching", 2, 0),
        ("c", "ends early: x is not enabled", 0, 1),
    ]


def test_classes_are_compared_by_digest(tmp_path: Path) -> None:
    older = jar_of(tmp_path / "a.jar", **{"org/apache/kafka/raft/A$1": "1", "B": "2", "C": "3"})
    newer = jar_of(
        tmp_path / "b.jar", **{"org/apache/kafka/raft/A$1": "1", "org/apache/kafka/raft/A": "", "B": "2", "D": "3"}
    )
    found = compare_class_digests(kafka_raft_class_digests([older]), kafka_raft_class_digests([newer]))
    assert tuple(found) == (("D",), ("C",), ("raft.A",), 2)
    lines = list(version_change_markdown(VersionChanges("1", "2", False, (), found)))
    assert lines == [
        "Changed in 2 since 1, which disagrees with the model, as all earlier ones do:",
        "",
        "No walk differs between the two.",
        "",
        "Classes of kafka-raft: 1 new, 1 removed, 1 changed, 2 unchanged.",
        "- new: `D`",
        "- removed: `C`",
        "- changed: `raft.A`",
    ]
    newer.write_bytes(newer.read_bytes().replace(b"client", b"CLIENT"))
    with pytest.raises(InputError, match=r"b\.jar: cannot be read: Bad CRC-32"):
        kafka_raft_class_digests([newer])
    with pytest.raises(InputError, match="expected the jar of kafka-raft, found none"):
        kafka_raft_class_digests([])


@pytest.mark.parametrize("given", [["4.3.1"], [], ["n1=4.2.1", "4.3.1"]])
def test_changes_need_two_versions(given: list[str], run: Run) -> None:
    done = run("lockstep", "quorum", "--changes", *(word for kafka in given for word in ("--kafka", kafka)))
    assert done.code == 2
    assert "--changes: expected at least two versions of Kafka, the oldest first" in done.err


@pytest.mark.kafka
@pytest.mark.slow
def test_what_changed_between_two_versions(run: Run, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    walks = ("--runs", 12, "--depth", 60, "--seed", 4, "--set", "MaxRetries=50")
    done = run("lockstep", "quorum", *walks, "--kafka", "4.2.1", "--kafka", "4.1.2", "--changes", "--json", result)
    assert done.code == 1
    changed = json.loads(result.read_text())[-1]["changes"]
    assert (changed["since"], changed["kafka"], changed["agreed"]) == ("4.2.1", "4.1.2", True)
    assert changed["findings"]
    assert all(one["since"] == 0 < one["now"] for one in changed["findings"])
    assert {"raft.KafkaRaftClient", "raft.LeaderState"} <= set(changed["classes"]["changed"])
    assert run("lockstep", "quorum", *walks, "--kafka", "4.2.1", "--kafka", "4.3.1", "--changes").code == 0
    assert "Changed in 4.1.2 since 4.2.1, which agrees with the model:" in done.out
    assert f"| random walks: {changed['findings'][0]['finding'][:40]}" in done.out


@pytest.mark.kafka
@pytest.mark.slow
def test_a_newest_version_that_cannot_be_driven_is_an_error(run: Run, tmp_path: Path) -> None:
    walk = Path(__file__).parents[1] / "data" / "kafka" / "two-leaders.walk"
    done = run("lockstep", "quorum", "--walk", walk, "--kafka", "4.3.1", "--kafka", tmp_path, "--changes")
    assert done.code == 2
    assert f"--kafka {tmp_path}: no jar of kafka-raft" in done.err

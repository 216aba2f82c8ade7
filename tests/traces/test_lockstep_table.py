"""The table of walks by versions, without Kafka."""

from __future__ import annotations

import re
from pathlib import Path

from kraftcheck.lockstep.cluster import FieldDifference
from kraftcheck.lockstep.lockstep import Finding, LockstepVerdict
from kraftcheck.reporting.lockstep import Cell, cell, versions_table

DIFFERS = Finding(LockstepVerdict.DIFFERS, 7, None, (FieldDifference(None, "voters", 1, 2),))
FAILS = Finding(LockstepVerdict.FAILS, 9, None, problem="java.lang.IllegalStateException: no (a.B.c(B.java:12))")
VIOLATES = Finding(LockstepVerdict.VIOLATES, 12, None, violated=("LogMatching",))


def test_the_most_severe_finding_counts() -> None:
    assert cell([]) == Cell("agrees")
    assert cell([DIFFERS]) == Cell("differs", "step 7: voters")
    assert cell([DIFFERS, FAILS]) == Cell("fails", "step 9: java.lang.IllegalStateException: no (a.B.c(B.java))")
    assert cell([DIFFERS, VIOLATES, FAILS, VIOLATES]) == Cell("violates", "LogMatching")


def test_a_walk_that_ends_early() -> None:
    assert cell([], "line 3 is not enabled") == Cell("ends early", "line 3 is not enabled")
    assert cell([DIFFERS], "line 9 is not enabled") == Cell("differs", "step 7: voters; line 9 is not enabled")


def test_equal_notes_are_one() -> None:
    columns = {"4.3.1": [cell([VIOLATES]), cell([])], "4.4.0": [cell([VIOLATES]), cell([DIFFERS])]}
    assert list(versions_table(["a", "long name"], columns)) == [
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

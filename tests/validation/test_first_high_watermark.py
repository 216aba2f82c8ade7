"""The first high watermark of an epoch, which INFO shows; properties that known differences excuse."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.variants.kafka import with_known_kafka_differences
from kraftcheck.spec import ModelValue
from kraftcheck.validation.replayed_model import DIFFERENCE_BY_BROKEN_PROPERTY, ONE_STEP_PROPERTIES, PropertyChecker
from tests.support.command_line import Run

DATA = Path(__file__).parents[1] / "data" / "cluster"
FIRST = re.compile(r"(High watermark set to (?:Optional\[)?LogOffsetMetadata\(offset=)(\d+)(.*for the first time)")


def copied(folder: Path, change: tuple[re.Pattern[str], str] | None = None, *, info: bool = False) -> Path:
    """Write the logs of a cluster, with the matches in node 3 changed, or their INFO lines alone."""
    for number in (1, 2, 3):
        text = gzip.decompress((DATA / "conforms" / f"node{number}.trace.log.gz").read_bytes()).decode()
        if change is not None and number == 3:
            text, count = change[0].subn(change[1], text)
            assert count > 0
        lines = [line for line in text.splitlines(keepends=True) if not info or "] INFO " in line]
        (folder / f"node{number}.log").write_text("".join(lines))
    return folder


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("changed", "line"), [(r"\g<1>9\2\3", "first high watermark"), (None, "")])
def test_the_first_high_watermark_is_the_models(changed: str | None, line: str, run: Run, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    logs = copied(tmp_path / "logs", (FIRST, changed) if changed else None)
    done = run("validate", "quorum", logs, DATA / "conforms" / "node4.trace.log.gz", "--json", tmp_path / "found.json")
    found = json.loads((tmp_path / "found.json").read_text())
    assert done.code == (1 if changed else 0)
    assert found["explained"]["first high watermark"] >= (1 if changed else 5)
    assert (found["divergence"] or {"kind": ""})["kind"] == line


def test_info_shows_a_leader_that_lacks_what_was_committed(run: Run, tmp_path: Path) -> None:
    for name, change in (("honest", None), ("lost", (re.compile(r"(Leader\(.*epochStartOffset=)\d+"), r"\g<1>9"))):
        (tmp_path / name).mkdir()
        done = run("validate", "quorum", copied(tmp_path / name, change, info=True), "--monitors")
        assert done.code == (12 if change else 0), done
        assert ("broken: leaders' logs" in done.out) == bool(change)


def test_a_property_is_excused_only_by_its_difference() -> None:
    hosts = frozenset({ModelValue("n1")})

    def names(*without: str) -> set[str]:
        kind = with_known_kafka_differences(Quorum, cluster=True, without=without)
        bounds = {c.attribute: 1 for c in kind.constants.values() if c.is_bound}
        check = PropertyChecker(kind(**bounds, hosts=hosts, initial_voters=hosts), is_whole=True)
        return {one.name for one in (*check._of_states, *check._of_steps)}

    known = {"NewVotersHaveCaughtUp": "caught-up-within-the-hour", "UpdatesAreKept": "update-voter-without-error"}
    assert set(DIFFERENCE_BY_BROKEN_PROPERTY) == set(known)
    assert "NobodyFails" in names()
    for name, difference in known.items():
        assert name not in names()
        assert names(difference) - names() == {name}
    assert not set(ONE_STEP_PROPERTIES) & names()

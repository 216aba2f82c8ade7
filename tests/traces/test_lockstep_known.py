"""Each known difference and each finding has a walk that must show it. They need Java, and Maven for Kafka."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraftcheck.catalogue import all_properties_config, find_model
from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.variants.kafka import (
    classes_by_kebab_case_name,
    known_difference_classes_by_name,
    with_known_kafka_differences,
)
from kraftcheck.kraft_model.quorum.variants.surroundings import QuorumOfServers
from kraftcheck.lockstep.driver_process import Driver
from kraftcheck.lockstep.jars import driver_classpath
from kraftcheck.lockstep.lockstep import Lockstep, LockstepFinding
from kraftcheck.lockstep.walks import GivenStepChooser, WalkFile, read_walk
from kraftcheck.spec.cfg.binding import bind, with_assignments
from kraftcheck.spec.cfg.config import parse_setting

ROOT = Path(__file__).parents[2]
KNOWN = ROOT / "tests" / "data" / "kafka" / "known"
FILES = sorted(KNOWN.glob("*.walk"))
FINDINGS = sorted(KNOWN.parent.glob("*.walk"))


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    path = driver_classpath("4.3.1")
    with Driver(path.java, path.text) as running:
        yield running


def walked(driver: Driver, walk: WalkFile, without: tuple[str, ...] = ()) -> list[LockstepFinding]:
    model = find_model("quorum", walk.variant or None).protocol
    assert issubclass(model, Quorum)
    config = all_properties_config(model)
    config = with_assignments(config, [parse_setting(text, config) for text in walk.settings])
    protocol = bind(with_known_kafka_differences(model, without=without), config).protocol
    assert isinstance(protocol, Quorum)
    lockstep = Lockstep(driver, protocol, go_on=walk.go_on, ignored=walk.ignored)
    taken, findings = lockstep.walk(GivenStepChooser(walk.steps), len(walk.steps))
    assert len(taken) == len(walk.steps)
    return findings


def found(driver: Driver, walk: WalkFile, without: tuple[str, ...]) -> list[LockstepFinding]:
    findings = walked(driver, walk, without)
    return [one for one in findings if (one.differences or one.problem) and one.violated != ("NobodyFails",)]


def told(name: str) -> set[str]:
    """Return the properties that this walk breaks on 4.3.1, by the table in the docs."""
    _, _, text = (ROOT / "docs" / "kafka.md").read_text().partition("## Versions")
    head = next(line for line in text.splitlines() if line.startswith("| ") and "4.3.1" in line)
    row = next(line for line in text.splitlines() if line.startswith(f"| {name} "))
    column = [cell.strip() for cell in head.split("|")].index("4.3.1")
    note = re.fullmatch(r"violates \((\d+)\)", row.split("|")[column].strip())
    assert note is not None
    (properties,) = re.findall(rf"^{note[1]}\. (.*)$", text, re.MULTILINE)
    return set(properties.split(", "))


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_known_difference_still_shows(path: Path, driver: Driver) -> None:
    walk = read_walk(path)
    assert walk.without == (path.stem,)
    (finding,) = found(driver, walk, walk.without)
    assert finding.step == len(walk.steps)
    assert not found(driver, walk, ())


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("path", FINDINGS, ids=lambda path: path.stem)
def test_a_finding_still_shows(path: Path, driver: Driver) -> None:
    walk = read_walk(path)
    findings = walked(driver, walk)
    assert {name for one in findings for name in one.violated} == told(path.stem)
    assert findings[-1].step == len(walk.steps)


def test_known_differences_have_walks_and_are_told() -> None:
    text = (ROOT / "docs" / "kafka.md").read_text()
    known = known_difference_classes_by_name()
    assert {path.stem for path in FILES} == set(known)
    all_known = {
        *known,
        *known_difference_classes_by_name(disk=True),
        *classes_by_kebab_case_name(QuorumOfServers.differences),
    }
    assert set(re.findall(r"^\| `([a-z-]+)` \|", text, re.MULTILINE)) == all_known

"""The faults of the three models of KRaft together: every property is broken by one, and Kafka's own are among them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kraftcheck.catalogue import find_model
from tests.support.kraft_model.faults import (
    QUORUM_FAULTS,
    QUORUM_READINGS,
    RECOVERY_FAULTS,
    RECOVERY_READINGS,
    REGISTRATION_FAULTS,
    Fault,
)
from tests.support.kraft_model.mutants import NOTICED
from tests.support.kraft_model.progress import STUCK
from tests.support.kraft_model.searches import bound

FAULTS: dict[str, list[Fault]] = {
    "quorum": QUORUM_FAULTS + QUORUM_READINGS,
    "recovery": RECOVERY_FAULTS + RECOVERY_READINGS,
    "registration": REGISTRATION_FAULTS,
}
LISTED = {
    "quorum": [
        "ElectionSafety",
        "LogMatching",
        "LeaderCompleteness",
        "StateMachineSafety",
        "OneVotePerEpoch",
        "HighWatermarkNeverDecreases",
        "HighWatermarkIsHeld",
        "VoterSetsDifferByOne",
        "MajoritiesOverlap",
        "OneUncommittedChange",
        "PreVoteRaisesNoEpoch",
        "RemovedVotersDisturbNobody",
        "ObserversNeverStand",
        "LastVoterSetIsUsed",
    ],
    "recovery": [
        "RecoveringHasOneInSync",
        "AlterPartitionNeverUnrecovers",
        "NoClientServedWhileRecovering",
        "SuccessorElectedUncleanly",
    ],
    "registration": ["NoMemberBelowFinalizedLevel"],
}
"""What the documents ask for above all; each has to be checked by the configurations of the tiers."""

KAFKA = {
    "KAFKA-20740": {"pending-change-ignored", "change-forgotten-by-timeout"},
    "KAFKA-16535": {"leader-not-ready"},
    "KAFKA-17641": {"vote-dropped-on-canvass"},
    "KAFKA-10661": {"restarted-leader-unattached"},
    "KAFKA-10527": {"restarted-leader-leads"},
    "KAFKA-12619": {"commits-earlier-epochs"},
    "KAFKA-10533": {"append-not-flushed"},
    "KAFKA-17332": {"new-voter-does-not-flush"},
    "KAFKA-16530": {"removed-leader-counts-itself", "high-watermark-follows-voter-set"},
    "KAFKA-16164": {"followers-never-grant"},
    "KAFKA-17067": {"observer-stands"},
    "KAFKA-14077": {"ids-alone"},
    "KAFKA-13141": {"diverging-fetch-counted"},
    "KAFKA-14704": {"high-watermark-before-divergence"},
    "KAFKA-16207": {"voter-set-not-truncated"},
    "KAFKA-13587": {"flag-lost-offline", "isr-size-unchecked"},
}
"""Faults that Kafka had, or the issue that its rule comes from, and the variants that have them."""


def tiers(model: str) -> list[str]:
    return [name for name in find_model(model).configurations if name.startswith(("smoke", "default"))]


@pytest.mark.parametrize("model", FAULTS)
def test_every_property_that_a_model_checks_is_broken_by_a_fault(model: str) -> None:
    """By a seeded one, or by a mutant (`test_mutants`)."""
    checked = {prop.name for config in tiers(model) for prop in bound(model, config).properties}
    assert set(LISTED[model]) <= checked
    assert checked - {fault.property for fault in FAULTS[model]} == set(NOTICED.get(model, ())) & checked


@pytest.mark.parametrize("issue", KAFKA)
def test_faults_that_kafka_had(issue: str) -> None:
    cited = {
        name
        for model in FAULTS
        for name, variant in find_model(model).variants.items()
        if re.search(rf"\b{issue}\b", variant.__doc__ or "")
    }
    assert cited == KAFKA[issue]
    found = {fault.variant for faults in FAULTS.values() for fault in faults} | {one.variant for one in STUCK}
    assert cited <= found


def test_the_table_in_the_docs_has_kafkas_issues() -> None:
    text = (Path(__file__).parents[2] / "docs" / "faults.md").read_text()
    rows = re.findall(r"^\| (KAFKA-[^|]+) \| [^|]+ \| ([^|]+) \| ([^|]+) \|$", text, re.MULTILINE)
    shown: dict[str, set[str]] = {}
    for issues, faults, models in rows:
        variants = set(re.findall(r"[a-z]+(?:-[a-z]+)+", faults))
        assert variants <= {name for model in re.findall(r"`(\w+)`", models) for name in find_model(model).variants}
        shown |= dict.fromkeys(re.findall(r"KAFKA-\d+", issues), variants)
    for issue, variants in KAFKA.items():
        assert variants <= shown[issue], issue

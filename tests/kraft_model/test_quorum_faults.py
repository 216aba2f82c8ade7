"""`quorum`: every seeded fault, and every unsafe reading, is caught by the property that its configuration names."""

from __future__ import annotations

import pytest

from kraftcheck.catalogue import find_model
from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.spec.language.loading import summary
from tests.kraft_model.searches import Fault, check_fault, fault_configurations

MODEL = "quorum"
READINGS = [
    Fault("pre-vote-unless-follower", "RemovedVotersDisturbNobody", 8, 89_873),
    Fault("resigns-while-asked", "RemovedLeadersResign", 9, 6_372),
]
"""Other readings of the KIPs that break a property; the others are in `test_quorum_readings`."""

FAULTS = [
    Fault("votes-without-log-comparison", "LeaderCompleteness", 11, 684_579),
    Fault("vote-dropped-on-canvass", "ElectionSafety", 12, None),
    Fault("second-vote-in-epoch", "LeadersAreNamedAlike", 11, None),
    Fault("vote-not-written", "OneVotePerEpoch", 9, None),
    Fault("pre-vote-grant-counted", "ElectionSafety", 13, None),
    Fault("restarted-leader-unattached", "ElectionSafety", 11, None),
    Fault("restarted-leader-leads", "LogMatching", 6, 604),
    Fault("resigned-stays-in-epoch", "NobodyFollowsItself", 6, None),
    Fault("observer-stands", "ObserversNeverStand", 5, None),
    Fault("stale-leader-accepted", "EpochsOnlyGrow", 10, None),
    Fault("pre-vote-raises-epoch", "PreVoteRaisesNoEpoch", 2, 24),
    Fault("prospective-goes-on", "PreVoteRaisesNoEpoch", 7, 68_430),
    Fault("followers-grant-pre-votes", "RemovedVotersDisturbNobody", 8, 89_873),
    Fault("commits-earlier-epochs", "LeaderCompleteness", 10, None),
    Fault("append-not-flushed", "LeaderCompleteness", 8, None),
    Fault("new-voter-does-not-flush", "LeaderCompleteness", 17, None),
    Fault("diverging-fetch-counted", "LeaderCompleteness", 18, None),
    Fault("high-watermark-before-divergence", "StateMachineSafety", 6, 1_134),
    Fault("late-divergence-applied", "CommittedIsNeverTruncated", 9, 16_767),
    Fault("divergence-without-epoch", "LogMatching", 4, 38_232),
    Fault("fetch-position-unchecked", "LogMatching", 4, 7_434),
    Fault("ids-alone", "LeaderCompleteness", 11, 15_049),
    Fault("pending-change-ignored", "MajoritiesOverlap", 3, 4_408),
    Fault("change-forgotten-by-timeout", "OneUncommittedChange", 4, 8_992),
    Fault("leader-not-ready", "LeaderCompleteness", 11, None),
    Fault("removed-leader-counts-itself", "LeaderCompleteness", 10, None),
    Fault("high-watermark-follows-voter-set", "HighWatermarkNeverDecreases", 6, 24_014),
    Fault("old-voter-set-counted", "HighWatermarkIsHeld", 5, 3_188),
    Fault("voter-set-not-truncated", "LastVoterSetIsUsed", 11, None),
    Fault("snapshot-without-voters", "LastVoterSetIsUsed", 9, 66),
    Fault("directory-replaced", "VoterSetsDifferByOne", 11, 109),
    Fault("snapshot-of-uncommitted", "SnapshotsAreCommitted", 3, 383),
    Fault("epoch-not-written", "ElectionSafety", 11, None),
]
"""Most of the bases are searched as deep as the counterexample: they have far too many states to go on."""


@pytest.mark.slow
@pytest.mark.parametrize("fault", [pytest.param(fault, id=fault.variant) for fault in READINGS + FAULTS])
def test_a_fault_is_caught_by_the_property_that_its_configuration_names(fault: Fault) -> None:
    check_fault(MODEL, fault)


def test_every_fault_is_described_tested_and_configured() -> None:
    model = find_model(MODEL)
    assert fault_configurations(model) == {f"fault.{fault.variant}" for fault in FAULTS}
    named = {name for name, variant in model.variants.items() if variant.configuration is None}
    assert named == {fault.variant for fault in FAULTS}
    for name, variant in model.variants.items():
        assert summary(variant).endswith("."), name
        assert len(summary(variant)) <= 140, name


def test_every_property_is_broken_by_a_fault_or_a_reading() -> None:
    checked = {prop.name for prop in Quorum.properties.values() if not prop.kind.endswith("constraint")}
    assert {fault.property for fault in READINGS + FAULTS} == checked


@pytest.mark.parametrize("fault", [pytest.param(fault, id=fault.variant) for fault in READINGS + FAULTS])
def test_a_configuration_says_what_it_shows(fault: Fault) -> None:
    own = find_model(MODEL, fault.variant).own_configuration
    assert own is not None
    text = find_model(MODEL).configurations[own].read_text()
    assert f"\\* The variant {fault.variant} violates {fault.property} in a trace of {fault.length} states.\n" in text
    if fault.base is not None:
        assert f"\\* Without it the property holds in all of its {fault.base:,} states.\n" in text

"""`quorum`: other readings of the KIPs that break no property, and what the KIPs' own design breaks."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from kraftcheck.catalogue import find_model
from kraftcheck.explorer.result import Result, Verdict
from tests.support.kraft_model.faults import QUORUM_READINGS
from tests.support.kraft_model.liveness import FINDINGS as NEVER
from tests.support.kraft_model.searches import bound, check_trace, search

pytestmark = pytest.mark.kernel

MODEL = "quorum"
OTHERS = {
    "known-leader-followed",
    "update-voter-blocks-fetch",
    "join-blocks-fetch",
    "silent-leader-forgotten",
    "updates-what-differs",
    "removed-voter-stands",
}
"""Those that break, or mend, nothing but progress (`test_quorum_progress`, `test_liveness`); one mends a finding."""


class Reading(NamedTuple):
    """A variant, the distinct states of the model and of the variant in the configuration that the variant names, and
    the actions of the model that the variant never takes there.
    """

    variant: str
    base: int
    states: int
    lost: tuple[str, ...] = ()


HOLDS = [
    Reading("version-above-one", 3_166, 4, ("AddVoter", "RemoveVoter")),
    Reading("update-voter-by-key", 22, 8, ("Upgrade",)),
    Reading("duplicate-directory-allowed", 302_979, 359_731),
    Reading("add-voter-gives-up", 3_042, 3_350),
    Reading("update-voter-answered-at-once", 32_963, 33_398),
    Reading("joiners-answered-when-appended", 70, 150),
    Reading("version-once-committed", 110_487, 110_624),
    Reading("kip853-draft", 173_730, 489_854),
]
FINDINGS = {  # configuration: the property, states of the counterexample
    "finding.version-zero-vote": ("OneVotePerEpoch", 11),
    "finding.version-zero-disk": ("LeaderCompleteness", 11),
    "finding.own-vote": ("ElectionSafety", 10),
    "finding.fails-removed-candidate": ("NobodyFails", 5),
    "finding.fails-acknowledged": ("NobodyFails", 3),
    "finding.fails-resigned": ("NobodyFails", 4),
    "finding.fails-removed-leader": ("NobodyFails", 10),
    "finding.fails-lost-disk": ("NobodyFails", 5),
    "finding.fails-restarted-observer": ("NobodyFails", 8),
    "finding.standalone-twice": ("ElectionSafety", 3),
    "finding.unequal-initial-controllers": ("StateMachineSafety", 11),
}


PROGRESS = ("finding.lost-disk-of-two", "finding.unaware-voter", "finding.new-voter-dies", "finding.overlapping-rounds")
"""Findings about what should stay reachable (`test_quorum_progress`)."""


def fired(found: Result) -> set[str]:
    return {action for action, times in found.actions.items() if times}


@pytest.mark.slow
@pytest.mark.parametrize("reading", [pytest.param(reading, id=reading.variant) for reading in HOLDS])
def test_a_reading_that_breaks_no_property(reading: Reading) -> None:
    own = find_model(MODEL, reading.variant).own_configuration
    given = [bound(MODEL, own, variant)._replace(reachable=()) for variant in (None, reading.variant)]
    base, variant = map(search, given)
    assert (base.verdict, base.distinct_states) == (Verdict.OK, reading.base)
    assert (variant.verdict, variant.distinct_states) == (Verdict.OK, reading.states)
    assert set(reading.lost) <= fired(base)
    assert not set(reading.lost) & fired(variant)


@pytest.mark.slow
@pytest.mark.parametrize("config", FINDINGS)
def test_what_the_kips_own_design_breaks(config: str) -> None:
    """KIP-853 says so itself: "Quorum state" of votes at kraft.version 0, "Motivation" of disks."""
    prop, length = FINDINGS[config]
    given = bound(MODEL, config)
    (violation,) = search(given).violations
    assert (violation.property, len(violation.trace)) == (prop, length)
    check_trace(given, violation.trace)


def test_the_directory_id_is_what_saves_a_log_whose_disk_is_lost() -> None:
    """At kraft.version 1 the same configuration holds: it is that of the fault that tells replicas by ids alone."""
    zero, one = (bound(MODEL, config).protocol for config in ("finding.version-zero-disk", "fault.ids-alone"))
    differ = {name for name, value in vars(zero).items() if value != vars(one)[name]}
    assert differ == {"initial_version"}


@pytest.mark.slow
def test_a_replica_that_follows_the_leader_that_it_knows_does_not_lead_beside_it() -> None:
    """KIP-996 has it so; Kafka looks at the vote first (`QuorumState.initialize`)."""
    length = FINDINGS["finding.own-vote"][1]
    found = search(bound(MODEL, "finding.own-vote", "known-leader-followed"), max_depth=length + 1)
    assert (found.verdict, found.depth) == (Verdict.INCOMPLETE, length + 1)


def test_every_reading_is_tested_and_configured() -> None:
    model = find_model(MODEL)
    readings = {name for name, variant in model.variants.items() if variant.__module__.endswith(".variants.readings")}
    assert readings == {r.variant for r in HOLDS} | {fault.variant for fault in QUORUM_READINGS} | OTHERS
    named = {variant.configuration for variant in model.variants.values() if variant.configuration}
    assert named <= set(model.configurations)
    assert {name for name in model.configurations if name.startswith("reading.")} <= named
    findings = {name for name in model.configurations if name.startswith("finding.")}
    assert findings == {*FINDINGS, *PROGRESS, *(one.config for one in NEVER if one.model == MODEL)}

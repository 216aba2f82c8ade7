"""Variants of the models that break progress, and the temporal property that finds each; the models themselves hold."""

from __future__ import annotations

from typing import NamedTuple

from kraftcheck.spec import Protocol


class Live(NamedTuple):
    """A configuration, and what breaks there: the variant (None is the model) and the property; the test's marker."""

    model: str
    config: str
    variant: str | None
    property: str
    speed: str = ""  # by default: by the reference engine


FAULTS = [
    Live("quorum", "live.dead-leader", "followers-never-grant", "LeadersAreElected", "slow"),
    Live("quorum", "live.dead-leader", "pre-vote-unless-follower", "LeadersAreElected", "slow"),
    Live("quorum", "live.dead-leader", "prospective-for-ever", "ProspectivesEnd", "slow"),
    Live("quorum", "live.check-quorum", "no-check-quorum", "UnheardLeadersStepDown", "slow"),
    Live("quorum", "live.observer", "no-check-quorum", "ObserversFollow", "slow"),
    Live("quorum", "live.loss", "caught-up-not-noted", "RecordsAreSettled", "slow"),
    Live("quorum", "live.divergence", "divergence-ignored", "RecordsAreSettled", "slow"),
    Live("quorum", "live.removal", "resigns-while-asked", "RemovedLeadersStepDown", "slow"),
    Live("quorum", "live.removed-voter", "removed-voter-refused", "RemovedVotersLearnOfIt", "slow"),
    Live("quorum", "live.answers", "operations-never-expire", "OperationsAreAnswered", "slow"),
    Live("quorum", "live.answers", "answer-forgotten", "OperationsAreAnswered", "slow"),
    Live("quorum", "live.addition", "add-voter-gives-up", "WhoIsAddedBecomesAVoter", "slow"),
    Live("quorum", "live.join", "join-blocks-fetch", "LeadersCommitOrLeave"),
    Live("quorum", "live.join", "join-blocks-fetch", "VoterChangesAreSettled", "slow"),
    Live("quorum", "live.update-voter", "update-voter-blocks-fetch", "LeadersCommitOrLeave"),
    Live("quorum", "live.endpoints", "endpoint-not-told", "EndpointsBecomeKnown", "slow"),
    Live("quorum", "live.update-refused", "update-told-once", "EndpointsBecomeKnown", "slow"),
    Live("quorum", "live.not-voter", "kip853-draft", "LeadersCommitOrLeave", "slow"),
    Live("quorum", "live.bridge", "no-check-quorum", "LeadersAreElected", "slow"),
    Live("recovery", "live.zookeeper", "same-epoch-ignored", "EveryoneServes", "slow"),
    Live("recovery", "live.zookeeper", "recovered-not-told", "EveryoneServes", "slow"),
    Live("recovery", "live.comes-back", "recovers-where-elected", "RecoveringEnds", "slow"),
    Live("registration", "live.static", "registers-once", "UpgradesHappen", "slow"),
    Live("registration", "live.static", "registers-once", "ControllersRegister", "slow"),
]
"""Seeded faults of progress, and readings that lead to one."""

FINDINGS = [
    Live("quorum", "finding.never-settled", None, "VoterChangesAreSettled", "slow"),
    Live("quorum", "finding.never-elected-unaware", None, "LeadersAreElected", "slow"),
    Live("quorum", "finding.never-elected-lost-disk", None, "LeadersAreElected", "slow"),
    Live("quorum", "finding.own-removal", None, "LeadersAreElected"),
    Live("quorum", "finding.own-removal-of-four", None, "LeadersAreElected", "slow"),
    Live("quorum", "finding.own-removal-cut", None, "LeadersAreElected", "slow"),
    Live("quorum", "finding.late-update", None, "EndpointsBecomeKnown", "slow"),
    Live("registration", "finding.never-upgraded", None, "UpgradesHappenWithoutHelp", "slow"),
    Live("registration", "finding.never-upgraded-static", None, "UpgradesHappenWithoutHelp", "slow"),
]
"""What the models themselves do: see docs/findings.md."""

MENDED = [
    Live("quorum", "finding.never-elected-unaware", "silent-leader-forgotten", "LeadersAreElected"),
    Live("quorum", "finding.own-removal", "removed-voter-stands", "LeadersAreElected"),
    Live("quorum", "finding.late-update", "updates-what-differs", "EndpointsBecomeKnown"),
]
"""Variants in which a finding's property holds."""

TRIED = [Live("quorum", "live.crash", None, ""), Live("quorum", "live.pre-vote-migration", None, "")]
"""Configurations in which no variant shows anything: the property holds."""

NOT_SEARCHED = {"live.bridge"}
"""Configurations with more states of the model than were searched."""


def of_safety(protocol: type[Protocol]) -> set[str]:
    """Return the names of a protocol's properties that are neither temporal nor made for such."""
    return {name for name, one in protocol.properties.items() if one.kind not in ("temporal", "predicate")}

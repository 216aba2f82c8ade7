"""Variants of the models that break progress, and the temporal property that finds each; the models themselves hold."""

from __future__ import annotations

from typing import NamedTuple


class Live(NamedTuple):
    """A configuration, and what breaks there: the variant (None is the model), the property, the loop's length."""

    model: str
    config: str
    variant: str | None
    property: str
    slow: bool = False  # more states than the reference engine should visit by default


FAULTS = [
    Live("quorum", "live.dead-leader", "followers-never-grant", "LeadersAreElected", slow=True),
    Live("quorum", "live.dead-leader", "pre-vote-unless-follower", "LeadersAreElected", slow=True),
    Live("quorum", "live.dead-leader", "prospective-for-ever", "ProspectivesEnd", slow=True),
    Live("quorum", "live.check-quorum", "no-check-quorum", "UnheardLeadersStepDown", slow=True),
    Live("quorum", "live.observer", "no-check-quorum", "ObserversFollow", slow=True),
    Live("quorum", "live.loss", "caught-up-not-noted", "RecordsAreSettled", slow=True),
    Live("quorum", "live.divergence", "divergence-ignored", "RecordsAreSettled", slow=True),
    Live("quorum", "live.removal", "resigns-while-asked", "RemovedLeadersStepDown", slow=True),
    Live("quorum", "live.removed-voter", "removed-voter-refused", "RemovedVotersLearnOfIt", slow=True),
    Live("quorum", "live.answers", "operations-never-expire", "OperationsAreAnswered", slow=True),
    Live("quorum", "live.answers", "answer-forgotten", "OperationsAreAnswered", slow=True),
    Live("quorum", "live.addition", "add-voter-gives-up", "WhoIsAddedBecomesAVoter", slow=True),
    Live("quorum", "live.join", "join-blocks-fetch", "LeadersCommitOrLeave"),
    Live("quorum", "live.update-voter", "update-voter-blocks-fetch", "LeadersCommitOrLeave"),
    Live("quorum", "live.endpoints", "endpoint-not-told", "EndpointsBecomeKnown", slow=True),
    Live("quorum", "live.update-refused", "update-told-once", "EndpointsBecomeKnown", slow=True),
    Live("quorum", "live.not-voter", "kip853-draft", "LeadersCommitOrLeave", slow=True),
]
"""Seeded faults of progress, and readings that lead to one."""

FINDINGS = [
    Live("quorum", "finding.never-settled", None, "VoterChangesAreSettled", slow=True),
    Live("quorum", "finding.never-elected-unaware", None, "LeadersAreElected", slow=True),
    Live("quorum", "finding.never-elected-lost-disk", None, "LeadersAreElected", slow=True),
    Live("quorum", "finding.own-removal", None, "LeadersAreElected"),
    Live("quorum", "finding.own-removal-of-four", None, "LeadersAreElected", slow=True),
    Live("quorum", "finding.own-removal-cut", None, "LeadersAreElected", slow=True),
    Live("quorum", "finding.late-update", None, "EndpointsBecomeKnown", slow=True),
]
"""What the models themselves do: see docs/findings.md."""

MENDED = [
    Live("quorum", "finding.never-elected-unaware", "silent-leader-forgotten", "LeadersAreElected"),
    Live("quorum", "finding.own-removal", "removed-voter-stands", "LeadersAreElected"),
    Live("quorum", "finding.late-update", "updates-what-differs", "EndpointsBecomeKnown"),
]
"""Variants in which a finding's property holds."""

TRIED = [Live("quorum", "live.crash", None, "")]
"""Configurations in which no variant shows anything: the property holds."""

"""The property that each seeded fault and each unsafe reading of a KIP violates: one table for each model."""

from __future__ import annotations

from typing import NamedTuple


class Fault(NamedTuple):
    """A variant, the property that it violates in the configuration that it names, the states of the shortest
    counterexample, and the distinct states in which the model without it holds there: None if they are too many, and
    the model is searched as deep as the counterexample.
    """

    variant: str
    property: str
    length: int
    base: int | None


QUORUM_READINGS = [
    Fault("pre-vote-unless-follower", "RemovedVotersDisturbNobody", 8, 31_630),
    Fault("resigns-while-asked", "RemovedLeadersResign", 9, 2_090),
    Fault("invalid-request", "NobodyFails", 5, 13_556),
    Fault("caught-up-within-the-hour", "NewVotersHaveCaughtUp", 5, 785),
]
"""Other readings of the KIPs that break a property; the others are in `test_quorum_readings`."""

QUORUM_FAULTS = [
    Fault("votes-without-log-comparison", "LeaderCompleteness", 11, 587_519),
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
    Fault("prospective-goes-on", "PreVoteRaisesNoEpoch", 7, 66_828),
    Fault("followers-grant-pre-votes", "RemovedVotersDisturbNobody", 8, 31_630),
    Fault("commits-earlier-epochs", "LeaderCompleteness", 10, None),
    Fault("append-not-flushed", "LeaderCompleteness", 8, None),
    Fault("new-voter-does-not-flush", "LeaderCompleteness", 17, None),
    Fault("diverging-fetch-counted", "LeaderCompleteness", 18, None),
    Fault("late-answers-taken", "HighWatermarkNeverDecreases", 13, 493),
    Fault("high-watermark-before-divergence", "StateMachineSafety", 6, 1_134),
    Fault("late-divergence-applied", "CommittedIsNeverTruncated", 10, 15_291),
    Fault("divergence-without-epoch", "LogMatching", 4, 36_648),
    Fault("fetch-position-unchecked", "LogMatching", 4, 7_434),
    Fault("ids-alone", "LeaderCompleteness", 11, 14_201),
    Fault("pending-change-ignored", "MajoritiesOverlap", 3, 2_267),
    Fault("change-forgotten-by-timeout", "OneUncommittedChange", 4, 4_710),
    Fault("leader-not-ready", "LeaderCompleteness", 11, None),
    Fault("removed-leader-counts-itself", "LeaderCompleteness", 10, None),
    Fault("high-watermark-follows-voter-set", "HighWatermarkNeverDecreases", 6, 9_542),
    Fault("old-voter-set-counted", "HighWatermarkIsHeld", 5, 1_047),
    Fault("voter-set-not-truncated", "LastVoterSetIsUsed", 11, None),
    Fault("snapshot-without-voters", "LastVoterSetIsUsed", 9, 66),
    Fault("directory-replaced", "VoterSetsDifferByOne", 11, 109),
    Fault("snapshot-of-uncommitted", "SnapshotsAreCommitted", 3, 383),
    Fault("epoch-not-written", "ElectionSafety", 11, None),
    Fault("answered-once-appended", "ToldIsKept", 5, 236),
    Fault("endpoints-not-updated", "UpdatesAreKept", 8, 8_420),
    Fault("high-watermark-beyond-log", "SnapshotsAreCommitted", 11, 662),
    Fault("successors-by-id", "SuccessorsHoldWhatIsCommitted", 7, 11_118),
    Fault("removed-by-id", "VotersChangeAsAsked", 3, 254_095),
    Fault("uncommitted-described", "DescriptionsAreTrue", 4, 53_372),
    Fault("busy-leader-refuses", "AnswersAreTrue", 3, 152_492),
]
"""Most of the bases are searched as deep as the counterexample: they have far too many states to go on."""

RECOVERY_READINGS = [
    Fault("recovered-where-elected-from-isr", "NoClientServedWhileRecovering", 11, 17_252),
    Fault("recovered-at-once", "NoClientServedWhileRecovering", 7, 1_017),
    Fault("served-before-confirmed", "NoClientServedWhileRecovering", 8, 1_017),
]

RECOVERY_FAULTS = [
    Fault("flag-lost-offline", "NoClientServedWhileRecovering", 11, 17_252),
    Fault("flag-lost-by-new-controller", "NoClientServedWhileRecovering", 7, 12_007),
    Fault("isr-kept-by-unclean-election", "SuccessorElectedUncleanly", 7, 1_158),
    Fault("isr-size-unchecked", "SuccessorElectedUncleanly", 11, 12_971),
    Fault("transition-unchecked", "AlterPartitionNeverUnrecovers", 3, 92),
    Fault("version-zero-changes-nothing", "RecoveringHasOneInSync", 17, 1_617),
    Fault("stale-leader-epoch-accepted", "NoClientServedWhileRecovering", 15, 28_217),
    Fault("stale-partition-epoch-accepted", "LeaderHasAcknowledged", 12, 738_104),
    Fault("late-answer-believed", "NoClientServedWhileRecovering", 24, 700_057),
    Fault("any-error-ends-waiting", "LeaderHasAcknowledged", 11, 12_338),
    Fault("first-copy-answers", "LeaderHasAcknowledged", 13, 117_728),
    Fault("growth-not-waited-for", "LeaderHasAcknowledged", 8, 3_734),
    Fault("joins-behind", "LeaderHasAcknowledged", 8, 3_734),
    Fault("fetches-without-truncating", "LogMatching", 23, 136_475),
]

REGISTRATION_FAULTS = [
    Fault("not-durable", "ToldIsKept", 7, 72),
    Fault("version-ungated", "RecordsAreUnderstood", 4, 4),
    Fault("uncommitted-overlooked", "RecordsReplay", 6, 100),
    Fault("answered-at-once", "ToldIsKept", 3, 72),
    Fault("removal-answered-at-once", "RemovedBeforeUnregistered", 4, 47),
    Fault("controllers-unasked", "NoMemberBelowFinalizedLevel", 4, 4),
    Fault("stopped-unasked", "NoMemberBelowFinalizedLevel", 5, 80),
    Fault("broker-level-unchecked", "NoMemberBelowFinalizedLevel", 6, 124),
    Fault("removed-leader-stays", "ActiveIsVoter", 4, 163),
    Fault("only-voter-not-found", "NotFoundIsNoVoter", 4, 13),
    Fault("only-voter-removed", "RecordsReplay", 3, 13),
    Fault("unregisters-regardless", "VotersSupportFinalizedLevel", 12, 31_058),
    Fault("late-answer-believed", "RemovedBeforeUnregistered", 7, 1_512),
]

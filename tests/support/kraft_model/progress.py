"""Variants of `quorum` that break only progress, and the states from which what should stay reachable is not."""

from __future__ import annotations

from typing import NamedTuple


class Stuck(NamedTuple):
    """A variant, a configuration, what should stay reachable there, and the states from which it does not."""

    variant: str
    config: str
    property: str
    stuck: int
    among: int
    base: int  # states of the model itself within the same bounds
    trace: tuple[str, ...] = ()  # a shortest way into the trap from the configuration's start: what it takes of these


ADDED = ("AddVoter", "HandleApiVersionsRequest", "HandleApiVersionsResponse")
STUCK = [
    Stuck("followers-never-grant", "trap.dead-leader", "SomebodyCanLead", 16, 16, 750),
    Stuck("pre-vote-unless-follower", "trap.dead-leader", "SomebodyCanLead", 16, 16, 750),
    Stuck(
        "endpoint-not-told",
        "trap.endpoints",
        "SomebodyCanCommit",
        49,
        503,
        1_758,
        ("MoveEndpoint", "ResignedTimeout", "ElectionTimeout", *("HandleVoteRequest", "HandleVoteResponse") * 2),
    ),
    Stuck("no-check-quorum", "trap.check-quorum", "ObserversFindTheLeader", 12, 12, 204),
    Stuck("removed-voter-refused", "trap.removed-voter", "RemovedVotersHearOfIt", 319, 319, 429),
    Stuck(
        "update-voter-blocks-fetch",
        "trap.update-voter",
        "FetchesCommit",
        8,
        321,
        324,
        ("SendUpdateVoter", "HandleUpdateVoterRequest"),
    ),
    Stuck("join-blocks-fetch", "trap.join", "FetchesCommit", 4, 47, 70, ("Join", "HandleAddVoterRequest", ADDED[-1])),
    Stuck(
        "kip853-draft",
        "trap.not-voter",
        "SomebodyCanCommit",
        24,
        186,
        472,
        ("FetchTimeout", *("HandleVoteRequest", "HandleVoteResponse") * 2),
    ),
    Stuck(
        "duplicate-directory-allowed",
        "trap.duplicate-directory",
        "LostDisksBlockNobody",
        5_010,
        30_087,
        3_870,
        ("LoseDisk", "AddVoter", "LoseDisk", "AddVoter"),
    ),
    Stuck(
        "add-voter-gives-up",
        "reading.add-voter-gives-up",
        "VotersCanBeAdded",
        540,
        3_350,
        3_042,
        ADDED,
    ),
]

"""Variants of `quorum` that break only progress, and what should always be reachable in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kraftcheck.kraft_model.quorum.records import Mode
from kraftcheck.kraft_model.quorum.state import Replica
from kraftcheck.spec import State


def replica(state: State, name: str) -> Replica:
    (found,) = [one for one in state.replicas.values() if str(one.id) == name]
    assert isinstance(found, Replica)
    return found


def leaders(state: State) -> list[Replica]:
    return [one for one in state.replicas.values() if isinstance(one, Replica) and one.mode is Mode.LEADER]


def somebody_leads(state: State) -> bool:
    """A candidate that did not win has spent the last election: that is the bound's end, not the protocol's."""
    return state.spent["elections"] == 2 or bool(leaders(state))


def the_observer_follows_the_newest_leader(state: State) -> bool:
    return str(replica(state, "n4").leader) == "n2"


def the_removed_voter_knows(state: State) -> bool:
    return all(str(voter.key.id) != "n3" for voter in replica(state, "n3").voters)


def everything_is_committed(state: State) -> bool:
    leader = replica(state, "n1")
    return leader.mode is Mode.LEADER and leader.high_watermark == len(leader.log)


def the_next_leader_commits(state: State) -> bool:
    if not leaders(state):
        return state.spent["elections"] == 2
    return any(leader.high_watermark == len(leader.log) for leader in leaders(state))


def a_set_of_four_voters_is_committed(state: State) -> bool:
    """Or there is no such set; or nobody leads, since the leader's own disk is lost."""
    return all(leader.high_watermark == len(leader.log) or len(leader.voters) < 4 for leader in leaders(state))


def the_observer_is_added(state: State) -> bool:
    return any(str(voter.key.id) == "n3" for voter in replica(state, "n1").voters)


class Stuck(NamedTuple):
    """A variant, what should always be reachable, and the states from which it is not."""

    variant: str
    config: str
    wanted: Callable[[State], bool]
    stuck: int
    among: int
    base: int  # states of the model itself within the same bounds
    trace: tuple[str, ...] = ()  # a shortest way into the trap from the configuration's start: what it takes of these
    without: tuple[str, ...] = ()  # what nobody may have to wait for


ADDED = ("AddVoter", "HandleApiVersionsRequest", "HandleApiVersionsResponse")
STUCK = [
    Stuck("followers-never-grant", "trap.dead-leader", somebody_leads, 16, 16, 762),
    Stuck("pre-vote-unless-follower", "trap.dead-leader", somebody_leads, 16, 16, 762),
    Stuck("no-check-quorum", "trap.check-quorum", the_observer_follows_the_newest_leader, 12, 12, 204),
    Stuck("removed-voter-refused", "trap.removed-voter", the_removed_voter_knows, 319, 319, 440),
    Stuck(
        "update-voter-blocks-fetch",
        "trap.update-voter",
        everything_is_committed,
        10,
        378,
        362,
        ("SendUpdateVoter", "HandleUpdateVoterRequest"),
        ("FetchTimeout",),
    ),
    Stuck(
        "kip853-draft",
        "trap.not-voter",
        the_next_leader_commits,
        12,
        88,
        775,
        ("FetchTimeout", *("HandleVoteRequest", "HandleVoteResponse") * 2),
    ),
    Stuck(
        "duplicate-directory-allowed",
        "trap.duplicate-directory",
        a_set_of_four_voters_is_committed,
        148,
        3_155,
        312,
        ("LoseDisk", "AddVoter", "LoseDisk", "AddVoter"),
    ),
    Stuck(
        "add-voter-gives-up",
        "reading.add-voter-gives-up",
        the_observer_is_added,
        540,
        3_350,
        3_042,
        ADDED,
    ),
]

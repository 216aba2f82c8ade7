"""Named starts of `quorum`: the way from `Init` to a state from which a short search shows something rare.

A `.cfg` names one under INIT. Every step is one that the model offers, so the start is a reachable state.
"""

from __future__ import annotations

from collections.abc import Iterator

from kraft_model.quorum_base import QuorumBase
from kraft_model.quorum_records import Replica
from spec import ConstantError, ModelValue, ordered
from spec.starts import Take, scenario, take


class Starts(QuorumBase):
    """The named starts."""

    @scenario
    def elected(self) -> Iterator[Take]:
        """The first initial voter leads epoch 1; the others have fetched its first batch and know that it is committed.
        """
        leader, *followers = ordered(self.initial_voters)
        yield from elect(leader, followers)
        for follower in followers:
            yield from fetches(follower, leader, times=2)
        for follower in followers:
            yield from fetches(follower, leader, times=1)

    def chosen(self, count: int) -> list[ModelValue]:
        """Return the first hosts in their order."""
        if len(self.hosts) < count:
            raise ConstantError("Hosts", f"expected at least {count} for this start, found {len(self.hosts)}")
        return ordered(self.hosts)[:count]


def elect(
    candidate: ModelValue, followers: list[ModelValue], by: str = "ElectionTimeout", others: tuple[ModelValue, ...] = ()
) -> Iterator[Take]:
    """A replica stands, everyone grants, and it takes office; every follower hears of it. The others stay unaware."""
    yield take(by, candidate)
    for pre_vote in (True, False):
        for peer in followers:
            yield take("HandleVoteRequest", peer, source=candidate, pre_vote=pre_vote)
        needed = (len(followers) + len(others) + 1) // 2
        for count, peer in enumerate(followers[:needed], start=1):
            leads = pre_vote is False and count == needed
            yield take("HandleVoteResponse", candidate, _leads if leads else None, source=peer, pre_vote=pre_vote)
    for peer in followers:
        yield take("HandleBeginQuorumEpochRequest", peer, source=candidate)


def fetches(follower: ModelValue, leader: ModelValue, times: int = 1) -> Iterator[Take]:
    """A follower fetches, and hears the answer."""
    for _ in range(times):
        yield take("HandleFetchRequest", leader, source=follower)
        yield take("HandleFetchResponse", follower, source=leader)


def _leads(me: Replica) -> bool:
    return me.mode.value == "Leader"


__all__ = ["Starts", "elect", "fetches"]

"""Named starts of `reconfig`: each leads from `Init` to a state from which a short search shows something rare.

A `.cfg` names one under INIT. Each takes steps that the protocol offers, so it is a reachable state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kraftcheck.kraft_model.reconfig.base import ReconfigBase
from kraftcheck.kraft_model.reconfig.records import Server, ServerId
from kraftcheck.spec import ConstantError, State, ordered
from kraftcheck.spec.language.starts import Take, scenario, take


class ReconfigStarts(ReconfigBase):
    """The named starts."""

    @scenario
    def competing_removals(self) -> Iterator[Take]:
        """Four voters: leader 1 has appended the removal of 4 and nobody has fetched it, when 3 and 4 elect 2.

        Server 1 uses {1, 2, 3} and has heard of the new epoch; the others use {1, 2, 3, 4}. The new leader has
        appended a value, which nobody has fetched, and so has committed nothing of its own epoch.
        """
        one, two, three, four = self._servers(of_four=4)
        yield take("HandleRemoveRequest", one, _uses(one, two, three))
        yield from _elects(two, voters=[three, four], others=[one])
        yield from _takes_office(two, follower=four)

    @scenario
    def lagging_high_watermark(self) -> Iterator[Take]:
        """Three voters and a committed fourth: leader 1 has appended the removal of 3, when 3 and 4 elect 2.

        Server 1 uses {1, 2, 4} and has heard of the new epoch. The new leader uses {1, 2, 3, 4}, but its high
        watermark still stands before the command that added 4. It has appended a value, which nobody has fetched.
        """
        one, two, three, four = self._servers(of_four=3)
        yield take("StartNewServer", result=_has_started(four))
        yield take("RejectFetchRequest", one, source=four)
        yield take("HandleNonSuccessFetchResponse", four)
        yield take("SendJoinRequest", four)
        yield take("AcceptJoinRequest", one)
        yield from _fetches(two, one)
        for _ in range(2):
            yield from _fetches(four, one, "AcceptFetchRequestFromObserver")
        for member in (four, two):  # both have the command now and tell the leader, but do not hear its answer
            yield take("SendFetchRequest", member)
            yield take("AcceptFetchRequestFromVoter", one, source=member)
        yield take("HandleRemoveRequest", one, _uses(one, two, four))
        yield from _elects(two, voters=[three, four], others=[one])
        yield from _takes_office(two, follower=three)

    def _servers(self, *, of_four: int) -> list[ServerId]:
        """Return four servers on the first four hosts, of which `of_four` are there from the beginning."""
        if len(self.hosts) < 4:
            raise ConstantError("Hosts", f"expected at least 4 for this start, found {len(self.hosts)}")
        if self.init_cluster_size != of_four:
            raise ConstantError("InitClusterSize", f"expected {of_four} for this start, found {self.init_cluster_size}")
        return [
            ServerId(host, 0 if number <= of_four else number - of_four)
            for number, host in enumerate(ordered(self.hosts)[:4], start=1)
        ]


def _elects(candidate: ServerId, voters: list[ServerId], others: list[ServerId]) -> Iterator[Take]:
    """Yield the steps in which a candidate asks all, wins with the voters' votes and leads; the others refuse."""
    yield take("RequestVote", candidate)
    for server in (*voters, *others):
        yield take("HandleRequestVoteRequest", server, source=candidate)
    for server in voters:
        yield take("HandleRequestVoteResponse", candidate, source=server, vote_granted=True)
    yield take("BecomeLeader", candidate)


def _takes_office(leader: ServerId, follower: ServerId) -> Iterator[Take]:
    """Yield the steps in which a new leader appends a value, and one server follows it; nobody has fetched yet."""
    yield take("ClientRequest", leader)
    yield take("AcceptBeginQuorumRequest", follower, source=leader)


def _fetches(follower: ServerId, leader: ServerId, accept: str = "AcceptFetchRequestFromVoter") -> Iterator[Take]:
    """Yield the steps in which a follower fetches once, and appends what it gets."""
    yield take("SendFetchRequest", follower)
    yield take(accept, leader, source=follower)
    yield take("HandleSuccessFetchResponse", follower)


def _uses(*members: ServerId) -> Callable[[Server], bool]:
    return lambda me: me.config.members == frozenset(members)


def _has_started(server: ServerId) -> Callable[[State], bool]:
    return lambda state: server in state.replicas


__all__ = ["ReconfigStarts"]

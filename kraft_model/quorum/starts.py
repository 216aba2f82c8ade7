"""Named starts of `quorum`: each leads from `Init` to a state from which a short search shows something rare.

A `.cfg` names one under INIT. Each takes steps that the model offers, so it is a reachable state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kraftcheck.kraft_model.quorum.base import QuorumBase
from kraftcheck.kraft_model.quorum.records import Mode, Replica
from kraftcheck.spec import ConstantError, ModelValue, State, ordered
from kraftcheck.spec.language.semantics import Take, scenario, take


class QuorumStarts(QuorumBase):
    @scenario
    def elected(self) -> Iterator[Take]:
        """The first initial voter leads epoch 1, and the others know that its first batch is committed."""
        leader, *followers = ordered(self.initial_voters)
        yield from elect(leader, followers)
        for follower in followers:
            yield from fetches(follower, leader, times=2)
        for follower in followers:
            yield from fetches(follower, leader, times=1)

    @scenario
    def own_vote(self) -> Iterator[Take]:
        """Three voters: 1 and 2 stand in epoch 1, 3 elects 2, and 1 follows it; its vote of the epoch is its own."""
        one, two, three = self.chosen(3)
        for host in (one, two):
            yield take("ElectionTimeout", host)
            yield take("HandleVoteRequest", three, source=host, pre_vote=True)
            yield take("HandleVoteResponse", host, source=three, pre_vote=True)
        yield take("HandleVoteRequest", three, source=two, pre_vote=False)
        yield take("HandleVoteResponse", two, _leads, source=three, pre_vote=False)
        for follower in (one, three):
            yield take("HandleBeginQuorumEpochRequest", follower, source=two)
            yield from fetches(follower, two, times=2)

    @scenario
    def old_batch_under_new_leader(self) -> Iterator[Take]:
        """Three voters: leader 1 appends a record that nobody fetches; 2 leads epoch 2 unheard; 1 leads epoch 3 again.

        Replica 3, which elected both, has neither the record nor what 2 has appended. It follows 1.
        """
        one, two, three = self.chosen(3)
        yield from self.diverging_follower()
        yield from elect(one, [three], "FetchTimeout", others=1)
        yield take("HandleVoteRequest", two, source=one, pre_vote=False)

    @scenario
    def diverging_follower(self) -> Iterator[Take]:
        """Three voters: leader 1 appends a record that nobody fetches, then 3 elects 2, and 1 follows it."""
        one, two, three = self.chosen(3)
        yield from self.elected()
        yield take("ClientAppend", one)
        yield take("FetchTimeout", three)
        yield from elect(two, [three], "FetchTimeout", others=1)
        yield take("HandleVoteRequest", one, source=two, pre_vote=False)
        yield take("HandleBeginQuorumEpochRequest", one, source=two)

    @scenario
    def diverging_leader(self) -> Iterator[Take]:
        """Three voters: leader 1 appends a record that nobody fetches, and restarts; then 3 elects 2."""
        one, two, three = self.chosen(3)
        yield from self.elected()
        yield take("ClientAppend", one)
        yield take("Restart", one)
        yield take("FetchTimeout", three)
        yield from elect(two, [three], "FetchTimeout", others=1)

    @scenario
    def competing_removals(self) -> Iterator[Take]:
        """Four voters: leader 1 has appended the removal of 4, which nobody has fetched, when 3 and 4 elect 2.

        Replica 1 uses {1, 2, 3} and has heard of the new epoch; the others use {1, 2, 3, 4}.
        """
        one, two, three, four = self.chosen(4)
        yield from self.elected()
        yield take("RemoveVoter", one, _has_voters(one, two, three))
        yield take("FetchTimeout", three)
        yield take("FetchTimeout", four)
        yield from elect(two, [three, four], "FetchTimeout", others=1)
        yield take("HandleVoteRequest", one, source=two, pre_vote=False)

    @scenario
    def removed_leader(self) -> Iterator[Take]:
        """Four voters: leader 1 has removed itself, which 3 has fetched, and appended a record, which nobody has."""
        one, two, three, four = self.chosen(4)
        yield from self.elected()
        yield take("RemoveVoter", one, _has_voters(two, three, four))
        yield from fetches(three, one)
        yield take("ClientAppend", one)

    @scenario
    def own_removal(self) -> Iterator[Take]:
        """The first voter leads, has appended its own removal, which nobody has fetched, and restarts.

        Of more than three voters the last one has crashed for good before.
        """
        yield from self.removes_itself()
        yield take("Restart", ordered(self.initial_voters)[0])

    @scenario
    def own_removal_cut(self) -> Iterator[Take]:
        """As `OwnRemoval`, but the leader is cut off until it resigns, in place of a restart."""
        one, *others = ordered(self.initial_voters)
        yield from self.removes_itself()
        pairs = [frozenset({one, other}) for other in others[: self.cuts]]
        for pair in pairs:
            yield take("Cut", result=_cut(pair, True))
        yield take("CheckQuorum", one)
        for pair in pairs:
            yield take("Heal", result=_cut(pair, False))

    def removes_itself(self) -> Iterator[Take]:
        """The first voter leads and has appended its own removal; of more than three the last one has crashed."""
        one, *others = ordered(self.initial_voters)
        yield from self.elected()
        if len(others) > 2:
            yield take("Crash", others[-1])
        yield take("RemoveVoter", one, _has_voters(*others))

    @scenario
    def moved(self) -> Iterator[Take]:
        """As `Observed`, and the second voter has restarted with other listeners."""
        yield from self.observed()
        yield take("MoveEndpoint", ordered(self.initial_voters)[1])

    @scenario
    def observed(self) -> Iterator[Take]:
        """As `Elected`, and the first host that is no voter has found the leader and fetched all it has."""
        leader = ordered(self.initial_voters)[0]
        yield from self.elected()
        yield from discovers(self.outsider(), leader)

    @scenario
    def all_observed(self) -> Iterator[Take]:
        """As `Elected`, and every host that is no voter has found the leader and fetched all it has."""
        leader = ordered(self.initial_voters)[0]
        yield from self.elected()
        for observer in ordered(self.hosts - self.initial_voters):
            yield from discovers(observer, leader)

    @scenario
    def dead_leader(self) -> Iterator[Take]:
        """As `Elected`, and then the leader crashes for good."""
        yield from self.elected()
        yield take("Crash", ordered(self.initial_voters)[0])

    @scenario
    def isolated_leader(self) -> Iterator[Take]:
        """Three voters and an observer: leader 1 is cut off from the voters, who elect 2, but not from the observer."""
        one, two, three = ordered(self.initial_voters)[:3]
        yield from self.observed()
        yield take("Cut", result=lambda state: frozenset({one, two}) in state.shared.cuts)
        yield take("Cut", result=lambda state: frozenset({one, three}) in state.shared.cuts)
        yield take("FetchTimeout", three)
        yield from elect(two, [three], "FetchTimeout", others=1)

    @scenario
    def bridged(self) -> Iterator[Take]:
        """Four voters: leader 1 is cut off from all but 2, which reaches everybody; nobody has heard of it yet."""
        one, _, *others = self.chosen(4)
        yield from self.elected()
        for other in others:
            yield take("Cut", result=_cut(frozenset({one, other}), True))

    @scenario
    def removed_follower(self) -> Iterator[Take]:
        """Three voters: leader 1 has removed 3, 2 has fetched that, and it is committed; 3 has heard nothing."""
        one, two, _ = self.chosen(3)
        yield from self.elected()
        yield take("RemoveVoter", one, _has_voters(*self.chosen(2)))
        yield from fetches(two, one, times=2)

    @scenario
    def unaware_voter(self) -> Iterator[Take]:
        """Two voters; leader 1 has added 3, which only 2 has fetched, and crashed for good; 3 still follows it."""
        one, two = ordered(self.initial_voters)[:2]
        yield from self.observed()
        yield take("AddVoter", one, lambda me: me.change.voter.key.id == self.outsider())
        yield take("HandleApiVersionsRequest", self.outsider(), source=one)
        yield take("HandleApiVersionsResponse", one, source=self.outsider())
        yield from fetches(two, one)
        yield take("Crash", one)

    @scenario
    def unaware_voter_restarted(self) -> Iterator[Take]:
        """As `UnawareVoter`, and then the new voter restarts."""
        yield from self.unaware_voter()
        yield take("Restart", self.outsider())

    @scenario
    def new_voter_dead(self) -> Iterator[Take]:
        """One voter, which has added another; that crashed for good before it fetched the record."""
        leader = ordered(self.initial_voters)[0]
        yield from self.observed()
        yield take("AddVoter", leader, lambda me: me.change.voter.key.id == self.outsider())
        yield take("HandleApiVersionsRequest", self.outsider(), source=leader)
        yield take("HandleApiVersionsResponse", leader, source=self.outsider())
        yield take("Crash", self.outsider())

    def outsider(self) -> ModelValue:
        """Return the first host that is no initial voter."""
        rest = ordered(self.hosts - self.initial_voters)
        if not rest:
            raise ConstantError("Hosts", "expected one that is not among InitialVoters for this start")
        return rest[0]

    def chosen(self, count: int) -> list[ModelValue]:
        if len(self.hosts) < count:
            raise ConstantError("Hosts", f"expected at least {count} for this start, found {len(self.hosts)}")
        return ordered(self.hosts)[:count]


def elect(
    candidate: ModelValue, voters: list[ModelValue], by: str = "ElectionTimeout", others: int = 0
) -> Iterator[Take]:
    """A replica stands, these voters grant and it takes office, of which they hear; others hear nothing."""
    yield take(by, candidate)
    needed = (len(voters) + others + 1) // 2
    for pre_vote in (True, False):
        for peer in voters:
            yield take("HandleVoteRequest", peer, source=candidate, pre_vote=pre_vote)
        for count, peer in enumerate(voters[:needed], start=1):
            leads = not pre_vote and count == needed
            yield take("HandleVoteResponse", candidate, _leads if leads else None, source=peer, pre_vote=pre_vote)
    for peer in voters:
        yield take("HandleBeginQuorumEpochRequest", peer, source=candidate)


def fetches(follower: ModelValue, leader: ModelValue, times: int = 1) -> Iterator[Take]:
    """A follower fetches, and hears the answer."""
    for _ in range(times):
        yield take("HandleFetchRequest", leader, source=follower)
        yield take("HandleFetchResponse", follower, source=leader)


def discovers(observer: ModelValue, leader: ModelValue) -> Iterator[Take]:
    """An observer finds the leader among the bootstrap servers, fetches all it has, and tells it so."""
    yield take("FetchFromBootstrapServer", observer, lambda me: me.pending.dest == leader)
    yield from fetches(observer, leader, times=2)
    yield take("HandleFetchRequest", leader, source=observer)


def _cut(pair: frozenset[ModelValue], wanted: bool) -> Callable[[State], bool]:
    return lambda state: (pair in state.shared.cuts) is wanted


def _has_voters(*hosts: ModelValue) -> Callable[[Replica], bool]:
    return lambda me: {voter.key.id for voter in me.voters} == set(hosts)


def _leads(me: Replica) -> bool:
    return me.mode is Mode.LEADER


__all__ = ["QuorumStarts", "elect", "fetches"]

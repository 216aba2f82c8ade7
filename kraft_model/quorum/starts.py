"""Named initial states of `quorum`, each the end of a path from `Init`, close to a rare state.

A `.cfg` names one under INIT. Every path consists of actions of the model, so the initial state is reachable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kraftcheck.kraft_model.quorum.base import QuorumBase
from kraftcheck.kraft_model.quorum.records import Mode, Replica
from kraftcheck.spec import ConstantError, ModelValue, State, ordered
from kraftcheck.spec.language.semantics import Take, scenario, take


class QuorumScenarios(QuorumBase):
    """Scenarios: named paths of actions from Init that end near rare states."""

    @scenario
    def elected(self) -> Iterator[Take]:
        """The first initial voter leads epoch 1, and the other voters know that its first batch is committed."""
        leader, *followers = ordered(self.initial_voters)
        yield from election_steps(leader, followers)
        for follower in followers:
            yield from fetch_steps(follower, leader, times=2)
        for follower in followers:
            yield from fetch_steps(follower, leader, times=1)

    @scenario
    def own_vote(self) -> Iterator[Take]:
        """Three voters: 1 and 2 are candidates of epoch 1; 3 elects 2, and 1 follows 2 with its own vote for itself."""
        one, two, three = self.chosen(3)
        for host in (one, two):
            yield take("ElectionTimeout", host)
            yield take("HandleVoteRequest", three, source=host, pre_vote=True)
            yield take("HandleVoteResponse", host, source=three, pre_vote=True)
        yield take("HandleVoteRequest", three, source=two, pre_vote=False)
        yield take("HandleVoteResponse", two, _is_leader, source=three, pre_vote=False)
        for follower in (one, three):
            yield take("HandleBeginQuorumEpochRequest", follower, source=two)
            yield from fetch_steps(follower, two, times=2)

    @scenario
    def old_batch_under_new_leader(self) -> Iterator[Take]:
        """Three voters: 1 leads epoch 1 and appends a record, 2 leads epoch 2 unknown to 1, then 1 leads epoch 3.

        Replica 3 voted for both, and follows 1. It has fetched neither the record of 1 nor the batch of 2.
        """
        one, two, three = self.chosen(3)
        yield from self.diverging_follower()
        yield from election_steps(one, [three], "FetchTimeout", others=1)
        yield take("HandleVoteRequest", two, source=one, pre_vote=False)

    @scenario
    def diverging_follower(self) -> Iterator[Take]:
        """Three voters: leader 1 appends a record that no replica fetches, then 3 elects 2, and 1 follows 2."""
        one, two, three = self.chosen(3)
        yield from self.elected()
        yield take("ClientAppend", one)
        yield take("FetchTimeout", three)
        yield from election_steps(two, [three], "FetchTimeout", others=1)
        yield take("HandleVoteRequest", one, source=two, pre_vote=False)
        yield take("HandleBeginQuorumEpochRequest", one, source=two)

    @scenario
    def diverging_leader(self) -> Iterator[Take]:
        """Three voters: leader 1 appends a record that no replica fetches, and restarts; then 3 elects 2."""
        one, two, three = self.chosen(3)
        yield from self.elected()
        yield take("ClientAppend", one)
        yield take("Restart", one)
        yield take("FetchTimeout", three)
        yield from election_steps(two, [three], "FetchTimeout", others=1)

    @scenario
    def competing_removals(self) -> Iterator[Take]:
        """Four voters: leader 1 appends the removal of 4, which no replica fetches; then 3 and 4 elect 2.

        Replica 1 uses the voter set {1, 2, 3} and knows the new epoch; the other replicas use {1, 2, 3, 4}.
        """
        one, two, three, four = self.chosen(4)
        yield from self.elected()
        yield take("RemoveVoter", one, _voters_condition(one, two, three))
        yield take("FetchTimeout", three)
        yield take("FetchTimeout", four)
        yield from election_steps(two, [three, four], "FetchTimeout", others=1)
        yield take("HandleVoteRequest", one, source=two, pre_vote=False)

    @scenario
    def removed_leader(self) -> Iterator[Take]:
        """Four voters: leader 1 appends its own removal, which 3 alone fetches, and a record that none fetches."""
        one, two, three, four = self.chosen(4)
        yield from self.elected()
        yield take("RemoveVoter", one, _voters_condition(two, three, four))
        yield from fetch_steps(three, one)
        yield take("ClientAppend", one)

    @scenario
    def own_removal(self) -> Iterator[Take]:
        """The first voter leads, appends its own removal, which no replica fetches, and restarts.

        With more than three voters, the last one has crashed for good before.
        """
        yield from self.removes_itself()
        yield take("Restart", ordered(self.initial_voters)[0])

    @scenario
    def own_removal_cut(self) -> Iterator[Take]:
        """The first voter leads, appends its own removal, which no replica fetches, and is cut off until it resigns."""
        one, *others = ordered(self.initial_voters)
        yield from self.removes_itself()
        pairs = [frozenset({one, other}) for other in others[: self.cuts]]
        for pair in pairs:
            yield take("Cut", result=_link_cut_predicate(pair, True))
        yield take("CheckQuorum", one)
        for pair in pairs:
            yield take("Heal", result=_link_cut_predicate(pair, False))

    def removes_itself(self) -> Iterator[Take]:
        """Yield the steps of `Elected`, a crash of the last of four or more voters, and the leader's own removal."""
        one, *others = ordered(self.initial_voters)
        yield from self.elected()
        if len(others) > 2:
            yield take("Crash", others[-1])
        yield take("RemoveVoter", one, _voters_condition(*others))

    @scenario
    def moved(self) -> Iterator[Take]:
        """The first voter leads, an observer has its log, and the second voter has restarted with another endpoint."""
        yield from self.observed()
        yield take("MoveEndpoint", ordered(self.initial_voters)[1])

    @scenario
    def renamed(self) -> Iterator[Take]:
        """The first voter led, and `MaxMovedEndpoints` voters, the first ones, have restarted with other endpoints."""
        yield from self.elected()
        for voter in ordered(self.initial_voters)[: self.moved_endpoints]:
            yield take("MoveEndpoint", voter)

    @scenario
    def reformatted(self) -> Iterator[Take]:
        """The first voter leads, the second has a new disk, and `MaxCrashes` of the others have crashed for good."""
        _, two, *others = ordered(self.initial_voters)
        yield from self.elected()
        yield take("LoseDisk", two)
        for voter in others[: self.crashes]:
            yield take("Crash", voter)

    @scenario
    def stale_endpoint(self) -> Iterator[Take]:
        """Leader 1 has moved, and leads again; an observer that knows it by its old endpoint alone has restarted."""
        one, two = ordered(self.initial_voters)[:2]
        observer = self.outsider()
        yield from self.elected()
        yield take("FetchFromBootstrapServer", observer, lambda me: me.pending.dest == two)
        yield from fetch_steps(observer, two)
        yield from fetch_steps(observer, one, times=2)
        yield take("MoveEndpoint", one)
        yield take("ResignedTimeout", one)
        yield take("FetchTimeout", two)
        yield from election_steps(one, [two])
        yield take("Retry", observer, lambda me: me.pending.dest == two)
        yield from fetch_steps(observer, two)
        yield take("Restart", observer)

    @scenario
    def unlisted(self) -> Iterator[Take]:
        """The first voter led, and `MaxListings` voters, the first ones, have restarted with the voters `Listed`.

        The model has no such restart: variant static-voters.
        """
        yield from self.elected()
        for voter in ordered(self.initial_voters)[: getattr(self, "listings", 0)]:
            yield take("ListVoters", voter)

    @scenario
    def snapshot_needed(self) -> Iterator[Take]:
        """Three voters: 1 leads; 3 lacks a record that is in a snapshot alone, and 2, which had it, has crashed.

        A further record needs 3 to be committed.
        """
        one, two, _ = self.chosen(3)
        yield from self.elected()
        yield take("ClientAppend", one)
        yield from fetch_steps(two, one, times=1)
        yield take("HandleFetchRequest", one, source=two)
        yield take("TakeSnapshot", one)
        yield take("ClientAppend", one)
        yield take("Crash", two)

    @scenario
    def observed(self) -> Iterator[Take]:
        """The first voter leads with a committed first batch, and one host outside the voter set has its log."""
        leader = ordered(self.initial_voters)[0]
        yield from self.elected()
        yield from discovery_steps(self.outsider(), leader)

    @scenario
    def all_observed(self) -> Iterator[Take]:
        """The first voter leads with a committed first batch, and every host outside the voter set has its log."""
        leader = ordered(self.initial_voters)[0]
        yield from self.elected()
        for observer in ordered(self.hosts - self.initial_voters):
            yield from discovery_steps(observer, leader)

    @scenario
    def dead_leader(self) -> Iterator[Take]:
        """The first voter led epoch 1 with its first batch committed, and has crashed for good."""
        yield from self.elected()
        yield take("Crash", ordered(self.initial_voters)[0])

    @scenario
    def isolated_leader(self) -> Iterator[Take]:
        """Three voters and an observer: leader 1 is cut off from the voters, which elect 2, but not the observer."""
        one, two, three = ordered(self.initial_voters)[:3]
        yield from self.observed()
        yield take("Cut", result=lambda state: frozenset({one, two}) in state.shared.cuts)
        yield take("Cut", result=lambda state: frozenset({one, three}) in state.shared.cuts)
        yield take("FetchTimeout", three)
        yield from election_steps(two, [three], "FetchTimeout", others=1)

    @scenario
    def bridged(self) -> Iterator[Take]:
        """Four voters: leader 1 is cut off from 3 and 4, which 2 still reaches; no timer has expired yet."""
        one, _, *others = self.chosen(4)
        yield from self.elected()
        for other in others:
            yield take("Cut", result=_link_cut_predicate(frozenset({one, other}), True))

    @scenario
    def removed_follower(self) -> Iterator[Take]:
        """Three voters: leader 1 has removed 3, and the removal is committed by 1 and 2; 3 has not fetched it."""
        one, two, _ = self.chosen(3)
        yield from self.elected()
        yield take("RemoveVoter", one, _voters_condition(*self.chosen(2)))
        yield from fetch_steps(two, one, times=2)

    @scenario
    def unaware_voter(self) -> Iterator[Take]:
        """Two voters: leader 1 has added 3 and crashed for good; 2 alone fetched the change, and 3 still follows 1."""
        one, two = ordered(self.initial_voters)[:2]
        yield from self.observed()
        yield take("AddVoter", one, lambda me: me.change.voter.key.id == self.outsider())
        yield take("HandleApiVersionsRequest", self.outsider(), source=one)
        yield take("HandleApiVersionsResponse", one, source=self.outsider())
        yield from fetch_steps(two, one)
        yield take("Crash", one)

    @scenario
    def unaware_voter_restarted(self) -> Iterator[Take]:
        """Two voters: leader 1 has added 3 and crashed for good; 2 alone fetched the change, and 3 has restarted."""
        yield from self.unaware_voter()
        yield take("Restart", self.outsider())

    @scenario
    def new_voter_dead(self) -> Iterator[Take]:
        """One voter has added a second one, which crashed for good before it fetched the VotersRecord."""
        leader = ordered(self.initial_voters)[0]
        yield from self.observed()
        yield take("AddVoter", leader, lambda me: me.change.voter.key.id == self.outsider())
        yield take("HandleApiVersionsRequest", self.outsider(), source=leader)
        yield take("HandleApiVersionsResponse", leader, source=self.outsider())
        yield take("Crash", self.outsider())

    def outsider(self) -> ModelValue:
        """Return the first host outside the initial voters."""
        rest = ordered(self.hosts - self.initial_voters)
        if not rest:
            raise ConstantError("Hosts", "expected one that is not among InitialVoters for this start")
        return rest[0]

    def chosen(self, count: int) -> list[ModelValue]:
        if len(self.hosts) < count:
            raise ConstantError("Hosts", f"expected at least {count} for this start, found {len(self.hosts)}")
        return ordered(self.hosts)[:count]


def election_steps(
    candidate: ModelValue, voters: list[ModelValue], by: str = "ElectionTimeout", others: int = 0
) -> Iterator[Take]:
    """Yield the steps in which a replica is elected by `voters` and announces itself to them alone."""
    yield take(by, candidate)
    needed = (len(voters) + others + 1) // 2
    for pre_vote in (True, False):
        for peer in voters:
            yield take("HandleVoteRequest", peer, source=candidate, pre_vote=pre_vote)
        for count, peer in enumerate(voters[:needed], start=1):
            leads = not pre_vote and count == needed
            yield take("HandleVoteResponse", candidate, _is_leader if leads else None, source=peer, pre_vote=pre_vote)
    for peer in voters:
        yield take("HandleBeginQuorumEpochRequest", peer, source=candidate)


def fetch_steps(follower: ModelValue, leader: ModelValue, times: int = 1) -> Iterator[Take]:
    """Yield the steps of `times` fetches of a follower, each with its response."""
    for _ in range(times):
        yield take("HandleFetchRequest", leader, source=follower)
        yield take("HandleFetchResponse", follower, source=leader)


def discovery_steps(observer: ModelValue, leader: ModelValue) -> Iterator[Take]:
    """Yield the steps in which an observer finds the leader by a bootstrap server and fetches its whole log."""
    yield take("FetchFromBootstrapServer", observer, lambda me: me.pending.dest == leader)
    yield from fetch_steps(observer, leader, times=2)
    yield take("HandleFetchRequest", leader, source=observer)


def _link_cut_predicate(pair: frozenset[ModelValue], wanted: bool) -> Callable[[State], bool]:
    return lambda state: (pair in state.shared.cuts) is wanted


def _voters_condition(*hosts: ModelValue) -> Callable[[Replica], bool]:
    return lambda me: {voter.key.id for voter in me.voters} == set(hosts)


def _is_leader(me: Replica) -> bool:
    return me.mode is Mode.LEADER


__all__ = ["QuorumScenarios", "election_steps", "fetch_steps"]

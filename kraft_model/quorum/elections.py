"""Elections of `quorum`: pre-votes, votes, BeginQuorumEpoch and EndQuorumEpoch (KIP-996, KIP-595, KIP-853)."""

from __future__ import annotations

from collections.abc import Iterator

from kraftcheck.kraft_model.quorum.base import OtherReplicas, QuorumBase
from kraftcheck.kraft_model.quorum.records import (
    ENDED_MODES,
    UNKNOWN_DIRECTORY,
    Acknowledgement,
    Batch,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    Error,
    Key,
    KRaftVersion,
    LeaderChange,
    LogRecord,
    Mode,
    Nil,
    QuorumEpochRequest,
    Replica,
    Shared,
    Term,
    VoteRequest,
    VoteResponse,
    Voters,
)
from kraftcheck.kraft_model.quorum.rules import (
    candidate_replica,
    end_position,
    enter_mode,
    matches_voter,
    matching_voter,
    prospective_replica,
    replica_after_lost_pre_vote,
    resigned_replica,
    unattached_replica,
    voter_endpoint_of_host,
)
from kraftcheck.spec import Record, Step, Steps, internal, on

MODES_GRANTING_VOTES = (Mode.UNATTACHED, Mode.PROSPECTIVE)
MODES_GRANTING_PRE_VOTES = (Mode.UNATTACHED, Mode.PROSPECTIVE, Mode.CANDIDATE, Mode.RESIGNED)


class QuorumElections(QuorumBase):
    # Timeouts. The model has no clocks: a timeout may expire whenever it is running.

    @internal(reads=QuorumBase.bystander)
    def fetch_timeout(self, me: Replica, shared: Shared, bystander: OtherReplicas) -> Steps:
        """A voter whose fetch timer expires becomes prospective and requests pre-votes (KIP-996, "Proposed Changes").

        A follower that its resigned leader prefers does so at once (KIP-595, "EndQuorumEpoch"), and uses no budget.
        """
        if me.mode is not Mode.FOLLOWER:
            return
        if not self.may_stand(me):
            return
        if not me.ended and self.is_served(me, shared, bystander):
            return
        for step in self.start_pre_vote(me, shared, consumes=False):
            watched = step.write(*self.notified_peers(me, bystander))
            yield watched if me.ended else watched.spend("pre_votes")

    @internal(reads=QuorumBase.bystander)
    def election_timeout(self, me: Replica, shared: Shared, bystander: OtherReplicas) -> Steps:
        """An unattached voter or a candidate times out and requests pre-votes (KIP-996, "Proposed Changes")."""
        if me.mode not in (Mode.UNATTACHED, Mode.CANDIDATE):
            return
        if not self.may_stand(me):
            return
        for step in self.start_pre_vote(me, shared, consumes=False):
            yield step.write(*self.notified_peers(me, bystander)).spend("pre_votes")

    def notified_peers(self, me: Replica, bystanders: OtherReplicas) -> list[Replica]:
        """Return the leaders and active followers after they record that this replica starts a pre-vote round."""
        if not self.watch_pre_votes:
            return []
        return [
            peer.but(watched=peer.watched | {me.id})
            for peer in bystanders.values()
            if isinstance(peer, Replica) and peer.id != me.id and me.id not in peer.watched
            if peer.mode is Mode.LEADER or (peer.mode is Mode.FOLLOWER and peer.fetched)
        ]

    @internal
    def pre_vote_timeout(self, me: Replica) -> Steps:
        """A prospective replica whose pre-vote round times out follows the leader that it knows, or is unattached.

        KIP-996, "Proposed Changes".
        """
        if me.mode is not Mode.PROSPECTIVE:
            return
        yield self.taken(me, self.after_lost_round(me), consumes=False)

    @internal
    def resigned_timeout(self, me: Replica) -> Steps:
        """A resigned leader becomes unattached in the next epoch, since its peers know it as leader of the old one.

        KIP-996, "Proposed Changes"; KAFKA-18379.
        """
        if me.mode is not Mode.RESIGNED:
            return
        yield self.taken(me, self.after_resigning(me), consumes=False)

    def after_resigning(self, me: Replica) -> Replica:
        return unattached_replica(me, me.epoch + 1)

    def may_stand(self, me: Replica) -> bool:
        """Whether a replica may become candidate: only a voter, by id and directory id (KIP-853, "Key terms")."""
        return self.is_voter(me)

    def after_lost_round(self, me: Replica) -> Replica:
        return replica_after_lost_pre_vote(me)

    # Vote requests

    def start_pre_vote(self, me: Replica, shared: Shared, *, consumes: bool) -> Iterator[Step]:
        """Start a pre-vote round, in the same epoch. Software without KIP-996 becomes candidate at once."""
        if me.id in self.without_pre_vote:
            yield from self.stand(me, shared, consumes=consumes)
            return
        after = self.asks_for_pre_votes(me)
        if self.is_majority(after.voters, after.granted):
            yield from self.stand(after, shared, consumes=consumes)
        else:
            yield self.taken(me, after, *self.vote_requests(after, pre_vote=True), consumes=consumes)

    def asks_for_pre_votes(self, me: Replica) -> Replica:
        return prospective_replica(me, self.own_votes(me))

    def stand(self, me: Replica, shared: Shared, *, consumes: bool) -> Iterator[Step]:
        """Increment the epoch, vote for itself, and send Vote (KIP-595, "Vote"); the only voter wins at once."""
        after = candidate_replica(me, self.own_votes(me))
        if self.is_majority(after.voters, after.granted):
            for step in self.take_office(after, shared, consumes=consumes):
                yield step.spend("elections")
        else:
            requests = self.vote_requests(after, pre_vote=False)
            yield self.taken(me, after, *requests, consumes=consumes).spend("elections")

    # Granting votes

    @on(VoteRequest)
    def handle_vote_request(self, me: Replica, request: VoteRequest, shared: Shared) -> Steps:
        """A replica answers Vote, with PreVote or without, from any sender.

        KIP-595, "Vote"; KIP-996, "Proposed Changes"; KIP-853, "Vote", "Leader election". The replica first enters a
        newer epoch. A vote is persisted before the response; a pre-vote changes nothing.
        """
        if self.is_cut(me, request.source, shared):
            return
        error = self.refused_vote(me, request)
        if error is not Error.NONE:
            hides = error in (Error.UNSUPPORTED_VERSION, Error.INCONSISTENT_CLUSTER_ID)
            yield self.taken(me, me, self.vote_answer(self.without_leader(me) if hides else me, request, error))
            return
        now = unattached_replica(me, request.epoch) if request.epoch > me.epoch else me
        if not self.is_meant(request.voter, me):
            yield self.taken(me, now, self.vote_answer(now, request, self.wrong_voter()))
            return
        granted = self.grants_pre_vote(now, request) if request.pre_vote else self.grants_vote(now, request)
        if granted and not request.pre_vote:
            noted = now if isinstance(now.voted, Key) else now.but(voted=request.candidate)
            now = noted.but(ballot=now.ballot | {request.candidate})
        yield self.taken(me, now, self.vote_answer(now, request, Error.NONE, granted=granted))

    def refused_vote(self, me: Replica, request: VoteRequest) -> Error:
        """Return the error that rejects Vote before the replica enters the request's epoch; NONE if it may enter."""
        if request.pre_vote and me.id in self.without_pre_vote:
            return Error.UNSUPPORTED_VERSION
        if self.is_foreign(me, request.source):
            return Error.INCONSISTENT_CLUSTER_ID
        if request.epoch < me.epoch:
            return Error.FENCED_LEADER_EPOCH
        return Error.INVALID_REQUEST if self.is_illegal(request) else Error.NONE

    def vote_answer(self, me: Replica, request: VoteRequest, error: Error, *, granted: bool = False) -> VoteResponse:
        return VoteResponse(
            me.epoch, me.leader, granted, error, request.pre_vote, request.voter, request.epoch, me.id, request.source,
            self.endpoint_shown(me),
        )  # fmt: skip

    def is_illegal(self, request: VoteRequest) -> bool:
        """Whether the sender's log already has the epoch for which it requests votes (Kafka, `handleVoteRequest`)."""
        return request.last_epoch > request.epoch - (0 if request.pre_vote else 1)

    def is_meant(self, voter: Key, me: Replica) -> bool:
        """Whether `voter` in a request is the receiver's replica key, and not the key of the receiver's lost disk."""
        return matches_voter(voter, me.key)

    def wrong_voter(self) -> Error:
        """Return the error that rejects a request for another replica key than the receiver's.

        KIP-853, "Vote", "BeginQuorumEpoch", requires INVALID_REQUEST, on which the sender would fail in Kafka.
        """
        return Error.INVALID_VOTER_KEY

    def grants_pre_vote(self, me: Replica, request: VoteRequest) -> bool:
        """Whether a pre-vote is granted: a leader or a follower with a successful fetch rejects it."""
        if not self.log_suffices(me, request):
            return False
        return me.mode in MODES_GRANTING_PRE_VOTES or (me.mode is Mode.FOLLOWER and not self.follows_actively(me))

    def follows_actively(self, me: Replica) -> bool:
        """Whether a follower has fetched; without this test, the followers of a dead leader block each other."""
        return me.fetched

    def grants_vote(self, me: Replica, request: VoteRequest) -> bool:
        """Whether a vote is granted: one per epoch, to an up-to-date log, while the leader is unknown."""
        if me.mode not in MODES_GRANTING_VOTES:
            return False
        if isinstance(me.voted, Key):
            return self.voted_for(me.voted, request.candidate)
        if not isinstance(me.leader, Nil):
            return False
        return self.log_suffices(me, request)

    def voted_for(self, voted: Key, key: Key) -> bool:
        """Whether the vote was for this candidate; a vote without a directory id matches every disk of its id."""
        return voted.id == key.id and voted.directory in (UNKNOWN_DIRECTORY, key.directory)

    def log_suffices(self, me: Replica, request: VoteRequest) -> bool:
        """Whether the candidate's log is at least as up to date as this one (KIP-595, "Vote")."""
        end = end_position(me.log)
        return (request.last_epoch, request.last_offset) >= (end.epoch, end.offset)

    # Vote responses

    @on(VoteResponse)
    def handle_vote_response(self, me: Replica, response: VoteResponse, shared: Shared) -> Steps:
        """A prospective or candidate replica counts the responses of its own round.

        KIP-595, "Vote"; KIP-996, "Proposed Changes". A majority of pre-votes makes it candidate, a majority of votes
        leader. A majority of rejected pre-votes ends the round. Responses of earlier rounds are dropped.
        """
        if self.is_cut(me, response.source, shared):
            return
        if not self.awaits(me, response):
            yield self.taken(me, me)
            return
        if response.error is Error.UNSUPPORTED_VERSION:
            yield from self.stand(me, shared, consumes=True)
            return
        after, done = self.common_response(me, response)
        if done or after.mode is not me.mode:
            yield self.taken(me, after)
        elif response.granted:
            yield from self.count_grant(me.but(granted=me.granted | {response.voter}), shared)
        else:
            after = me.but(rejected=me.rejected | {response.voter})
            lost = me.mode is Mode.PROSPECTIVE and self.majority_is_lost(after.voters, after.rejected)
            yield self.taken(me, self.after_lost_round(after) if lost else after)

    def awaits(self, me: Replica, response: VoteResponse) -> bool:
        mode = Mode.PROSPECTIVE if response.pre_vote else Mode.CANDIDATE
        if me.mode is not mode or me.epoch != response.of:
            return False
        return response.voter not in me.granted | me.rejected

    def count_grant(self, me: Replica, shared: Shared) -> Iterator[Step]:
        """Yield the step that counts a granted vote or pre-vote: wait, become candidate, or become leader."""
        if not self.is_majority(me.voters, me.granted):
            yield self.taken(me, me)
        elif me.mode is Mode.PROSPECTIVE:
            yield from self.stand(me, shared, consumes=True)
        else:
            yield from self.take_office(me, shared, consumes=True)

    # Leadership

    def take_office(self, me: Replica, shared: Shared, *, consumes: bool) -> Iterator[Step]:
        """Become leader: append LeaderChangeMessage and announce it to the voters (KIP-595, "Leader Change Message").

        The first leader also appends the bootstrapped KRaftVersionRecord and VotersRecord (KIP-853, "First leader"). A
        leader with a new endpoint appends a VotersRecord ("Automatic endpoint and directory id discovery"). A leader
        may also fail between writing quorum-state and appending the first record.
        """
        elected = enter_mode(me, Mode.LEADER, me.epoch, me.id)
        batch = Batch(me.epoch, (LeaderChange(me.id), *self.first_records(me)))
        leader = self.with_log(elected, (*me.log, batch), flushes=True)
        announcements = [self.announcement(leader, key) for key in self.others(leader)]
        leader, sends, puts = self.commits(leader, shared)
        puts["elected"] = shared.elected | {Term(me.epoch, me.id)}
        yield self.taken(me, leader, *announcements, *sends, consumes=consumes).put(**puts)
        failed = self.after_restart(elected)
        failure = self.taken(me, failed, *self.messages_after_restart(failed), consumes=consumes, starts=True)
        yield failure.put(elected=puts["elected"]).spend("restarts")

    def first_records(self, me: Replica) -> tuple[LogRecord, ...]:
        """Return the records of version and voters that a new leader appends after LeaderChangeMessage, if any."""
        own = matching_voter(me.voters, me.key)
        if me.version == 0 or own is None:
            return ()
        current = (me.voters - {own}) | {own.but(endpoint=me.endpoint)}
        if self.last_voters_record(me.log) == 0:
            return (KRaftVersion(me.version), Voters(current))
        return (Voters(current),) if current != me.voters else ()

    @internal
    def repeat_begin_quorum_epoch(self, me: Replica) -> Steps:
        """A leader repeats BeginQuorumEpoch to a voter that does not fetch.

        KIP-853, "Leader election", "BeginQuorumEpoch".

        Without clocks, the fetch timeout of a voter may expire at any time. That includes a voter that has fetched
        before: it may have a new disk.
        """
        if me.mode is not Mode.LEADER:
            return
        for key in self.others(me):
            yield self.taken(me, me, self.announcement(me, key), consumes=False).spend("retries")

    def announcement(self, me: Replica, key: Key) -> BeginQuorumEpochRequest:
        """Return BeginQuorumEpoch for a voter, with the leader's endpoint (KIP-853, "BeginQuorumEpoch")."""
        return BeginQuorumEpochRequest(me.epoch, key, me.id, key.id, voter_endpoint_of_host(me, key.id), me.endpoint)

    @on(BeginQuorumEpochRequest)
    def handle_begin_quorum_epoch_request(self, me: Replica, request: BeginQuorumEpochRequest, shared: Shared) -> Steps:
        """A replica, voter or not, follows the leader of an epoch that is not older than its own.

        KIP-853, "BeginQuorumEpoch". A request to the replica's former disk counts too: a new disk learns of the leader
        by it (KIP-853, "Disk failure recovery").
        """
        if self.is_cut(me, request.source, shared):
            return
        if self.is_foreign(me, request.source):
            yield self.taken(me, me, *self.refusal(BeginQuorumEpochResponse, me, request))
            return
        if self.is_stale(me, request.epoch):
            error, after = Error.FENCED_LEADER_EPOCH, me
        else:
            after = self.learn(me, request.source, request.epoch, request.endpoint)
            error = Error.NONE if self.is_meant(request.voter, me) else self.wrong_voter()
        yield self.taken(me, after, *self.acknowledgement(BeginQuorumEpochResponse, after, request, error))

    def is_first(self, me: Replica, preferred: tuple[Key, ...]) -> bool:
        """Whether this replica is the first preferred successor, or the list of successors is empty."""
        return not preferred or matches_voter(preferred[0], me.key)

    def is_stale(self, me: Replica, epoch: int) -> bool:
        """Whether the epoch of an announcement is older than the replica's own."""
        return epoch < me.epoch

    def acknowledgement(
        self, response: type[Acknowledgement], me: Replica, request: QuorumEpochRequest, error: Error
    ) -> list[Record]:
        """Return the response to BeginQuorumEpoch or EndQuorumEpoch; without PlainAnswers, only errors get one."""
        if me.mode in ENDED_MODES or (error is Error.NONE and not self.plain_answers):
            return []
        shown = self.endpoint_shown(me)
        return [response(me.epoch, me.leader, error, request.epoch, me.id, request.source, shown)]

    def refusal(self, response: type[Acknowledgement], me: Replica, request: QuorumEpochRequest) -> list[Record]:
        """Return the response to BeginQuorumEpoch or EndQuorumEpoch of another cluster."""
        return self.acknowledgement(response, self.without_leader(me), request, Error.INCONSISTENT_CLUSTER_ID)

    @on(BeginQuorumEpochResponse, EndQuorumEpochResponse)
    def handle_acknowledgement(self, me: Replica, response: Acknowledgement, shared: Shared) -> Steps:
        """A leader or resigned leader learns of a newer epoch from the responses to its announcements.

        KIP-595, "BeginQuorumEpoch", "EndQuorumEpoch". It fails if the acknowledging replica is no longer a voter
        (`LeaderState.addAcknowledgementFrom` in Kafka throws an exception).
        """
        if self.is_cut(me, response.source, shared):
            return
        if response.of != me.epoch or me.mode not in (Mode.LEADER, Mode.RESIGNED):
            yield self.taken(me, me)
            return
        after, done = self.common_response(me, response)
        counted = isinstance(response, BeginQuorumEpochResponse) and me.mode is Mode.LEADER and not done
        if counted and voter_endpoint_of_host(me, response.source) == 0:
            yield self.fails(me)
        else:
            yield self.taken(me, after)

    # Resignation

    @internal
    def resign(self, me: Replica) -> Steps:
        """A leader that shuts down, or fails check quorum, resigns and sends EndQuorumEpoch.

        KIP-595, "EndQuorumEpoch". Without clocks, the check quorum timer may expire at any time.
        """
        if me.mode is not Mode.LEADER:
            return
        yield self.taken(me, resigned_replica(me), *self.resignation_requests(me), consumes=False).spend("resignations")

    @on(EndQuorumEpochRequest)
    def handle_end_quorum_epoch_request(self, me: Replica, request: EndQuorumEpochRequest, shared: Shared) -> Steps:
        """A follower whose leader resigns requests pre-votes: the first preferred successor at once.

        KIP-595 and KIP-853, "EndQuorumEpoch". The other successors back off for a time that grows with their position;
        without clocks their timers may expire at any time. With an empty list, every follower requests pre-votes at
        once. The request does not carry the leader's endpoint: a replica that does not know it fails.
        """
        if self.is_cut(me, request.source, shared):
            return
        if self.is_foreign(me, request.source):
            yield self.taken(me, me, *self.refusal(EndQuorumEpochResponse, me, request))
            return
        if self.is_stale(me, request.epoch):
            error, after = Error.FENCED_LEADER_EPOCH, me
        else:
            error, after = Error.NONE, self.learn(me, request.source, request.epoch, 0)
            if after.mode is Mode.FOLLOWER and after.leader == request.source:
                after = after.but(ended=self.is_first(after, request.preferred))
        yield self.taken(me, after, *self.acknowledgement(EndQuorumEpochResponse, after, request, error))


__all__ = ["QuorumElections"]

"""Elections of `quorum`: pre-votes, votes, BeginQuorumEpoch and EndQuorumEpoch (KIP-996, KIP-595, KIP-853)."""

from __future__ import annotations

from collections.abc import Iterator

from kraftcheck.kraft_model.quorum.base import Bystanders, QuorumBase
from kraftcheck.kraft_model.quorum.records import (
    ENDED,
    UNKNOWN_DIRECTORY,
    Acknowledgement,
    Announcement,
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
    Replica,
    Shared,
    Term,
    VoteRequest,
    VoteResponse,
    Voters,
)
from kraftcheck.kraft_model.quorum.rules import (
    after_lost_pre_vote,
    candidate,
    end_of,
    endpoint_of,
    enter,
    matches,
    prospective,
    resigned,
    unattached,
    voter_of,
)
from kraftcheck.spec import Record, Step, Steps, internal, on

GRANTS_VOTES = (Mode.UNATTACHED, Mode.PROSPECTIVE)
GRANTS_PRE_VOTES = (Mode.UNATTACHED, Mode.PROSPECTIVE, Mode.CANDIDATE, Mode.RESIGNED)


class QuorumElections(QuorumBase):
    # Timeouts. There are no clocks: a timeout may expire whenever it is running.

    @internal(reads=QuorumBase.bystander)
    def fetch_timeout(self, me: Replica, shared: Shared, bystander: Bystanders) -> Steps:
        """A voter that follows has not fetched for too long: it asks for pre-votes (KIP-996, "Proposed Changes").

        If its leader has resigned and prefers it, it asks at once (KIP-595, "EndQuorumEpoch"), and spends nothing.
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
    def election_timeout(self, me: Replica, shared: Shared, bystander: Bystanders) -> Steps:
        """An unattached voter or a candidate waits in vain: it asks for pre-votes (KIP-996, "Proposed Changes")."""
        if me.mode not in (Mode.UNATTACHED, Mode.CANDIDATE):
            return
        if not self.may_stand(me):
            return
        for step in self.start_pre_vote(me, shared, consumes=False):
            yield step.write(*self.notified_peers(me, bystander)).spend("pre_votes")

    def notified_peers(self, me: Replica, bystanders: Bystanders) -> list[Replica]:
        """Return the replicas that lead, or follow and have fetched, with the note that this one begins a round."""
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
        """A pre-vote round fails: the replica follows the leader that it knows, or is unattached.

        KIP-996, "Proposed Changes".
        """
        if me.mode is not Mode.PROSPECTIVE:
            return
        yield self.taken(me, self.gives_up(me), consumes=False)

    @internal
    def resigned_timeout(self, me: Replica) -> Steps:
        """A leader that resigned goes to the next epoch, since its peers name it as leader of the old one.

        KIP-996, "Proposed Changes"; KAFKA-18379.
        """
        if me.mode is not Mode.RESIGNED:
            return
        yield self.taken(me, self.after_resigning(me), consumes=False)

    def after_resigning(self, me: Replica) -> Replica:
        return unattached(me, me.epoch + 1)

    def may_stand(self, me: Replica) -> bool:
        """Whether a replica may ask for votes: only a voter, by id and directory id (KIP-853, "Key terms")."""
        return self.is_voter(me)

    def gives_up(self, me: Replica) -> Replica:
        return after_lost_pre_vote(me)

    # Asking for votes

    def start_pre_vote(self, me: Replica, shared: Shared, *, consumes: bool) -> Iterator[Step]:
        """Start a pre-vote round: the epoch stays. Software without KIP-996 asks for votes at once."""
        if me.id in self.without_pre_vote:
            yield from self.stand(me, shared, consumes=consumes)
            return
        after = self.asks_for_pre_votes(me)
        if self.is_majority(after.voters, after.granted):
            yield from self.stand(after, shared, consumes=consumes)
        else:
            yield self.taken(me, after, *self.vote_requests(after, pre_vote=True), consumes=consumes)

    def asks_for_pre_votes(self, me: Replica) -> Replica:
        return prospective(me, self.own_votes(me))

    def stand(self, me: Replica, shared: Shared, *, consumes: bool) -> Iterator[Step]:
        """Raise the epoch, vote for oneself, and ask for votes (KIP-595, "Vote"); the only voter wins at once."""
        after = candidate(me, self.own_votes(me))
        if self.is_majority(after.voters, after.granted):
            for step in self.take_office(after, shared, consumes=consumes):
                yield step.spend("elections")
        else:
            requests = self.vote_requests(after, pre_vote=False)
            yield self.taken(me, after, *requests, consumes=consumes).spend("elections")

    # Granting votes

    @on(VoteRequest)
    def handle_vote_request(self, me: Replica, request: VoteRequest, shared: Shared) -> Steps:
        """Any replica answers Vote, with PreVote or without, whoever sends it.

        KIP-595, "Vote"; KIP-996, "Proposed Changes"; KIP-853, "Vote", "Leader election". The replica first takes over a
        newer epoch. A vote is written before it is answered; a pre-vote changes nothing.
        """
        if self.is_cut(me, request.source, shared):
            return
        error = self.refused_vote(me, request)
        if error is not Error.NONE:
            hides = error in (Error.UNSUPPORTED_VERSION, Error.INCONSISTENT_CLUSTER_ID)
            yield self.taken(me, me, self.vote_answer(self.unnamed(me) if hides else me, request, error))
            return
        now = unattached(me, request.epoch) if request.epoch > me.epoch else me
        if not self.is_meant(request.voter, me):
            yield self.taken(me, now, self.vote_answer(now, request, self.wrong_voter()))
            return
        granted = self.grants_pre_vote(now, request) if request.pre_vote else self.grants_vote(now, request)
        if granted and not request.pre_vote:
            noted = now if isinstance(now.voted, Key) else now.but(voted=request.candidate)
            now = noted.but(ballot=now.ballot | {request.candidate})
        yield self.taken(me, now, self.vote_answer(now, request, Error.NONE, granted=granted))

    def refused_vote(self, me: Replica, request: VoteRequest) -> Error:
        """Return the error that refuses Vote at once; NONE where the epoch of the request is taken over."""
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
        """Whether the sender's log has an epoch already that it asks for votes in (`handleVoteRequest` in Kafka)."""
        return request.last_epoch > request.epoch - (0 if request.pre_vote else 1)

    def is_meant(self, voter: Key, me: Replica) -> bool:
        """Whether a request is meant for this replica key: a peer may know the endpoint with a disk that was lost."""
        return matches(voter, me.key)

    def wrong_voter(self) -> Error:
        """Return the error for a request to another replica key.

        KIP-853, "Vote", "BeginQuorumEpoch", has INVALID_REQUEST, of which the sender would die in Kafka.
        """
        return Error.INVALID_VOTER_KEY

    def grants_pre_vote(self, me: Replica, request: VoteRequest) -> bool:
        """Whether a pre-vote is granted: not by a leader, nor by a follower that has fetched."""
        if not self.log_suffices(me, request):
            return False
        return me.mode in GRANTS_PRE_VOTES or (me.mode is Mode.FOLLOWER and not self.follows_actively(me))

    def follows_actively(self, me: Replica) -> bool:
        """Whether a follower has heard from its leader; or else followers of a dead leader block each other."""
        return me.fetched

    def grants_vote(self, me: Replica, request: VoteRequest) -> bool:
        """Whether a vote is granted: one an epoch, to a log that is not behind ours, while no leader is known."""
        if me.mode not in GRANTS_VOTES:
            return False
        if isinstance(me.voted, Key):
            return self.voted_for(me.voted, request.candidate)
        if not isinstance(me.leader, Nil):
            return False
        return self.log_suffices(me, request)

    def voted_for(self, voted: Key, key: Key) -> bool:
        """Whether the vote was given to this candidate; a vote without a directory id fits every disk of that id."""
        return voted.id == key.id and voted.directory in (UNKNOWN_DIRECTORY, key.directory)

    def log_suffices(self, me: Replica, request: VoteRequest) -> bool:
        """Whether the candidate's log is not behind ours (KIP-595, "Vote")."""
        end = end_of(me.log)
        return (request.last_epoch, request.last_offset) >= (end.epoch, end.offset)

    # Counting votes

    @on(VoteResponse)
    def handle_vote_response(self, me: Replica, response: VoteResponse, shared: Shared) -> Steps:
        """A prospective or candidate counts the answers to its own round.

        KIP-595, "Vote"; KIP-996, "Proposed Changes". A majority of pre-votes makes a candidate, a majority of votes a
        leader; a majority of refused pre-votes ends the round. Answers to earlier rounds are dropped.
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
            yield self.taken(me, self.gives_up(after) if lost else after)

    def awaits(self, me: Replica, response: VoteResponse) -> bool:
        mode = Mode.PROSPECTIVE if response.pre_vote else Mode.CANDIDATE
        if me.mode is not mode or me.epoch != response.of:
            return False
        return response.voter not in me.granted | me.rejected

    def count_grant(self, me: Replica, shared: Shared) -> Iterator[Step]:
        """Yield the step after one more grant: count it, stand for election, or take office."""
        if not self.is_majority(me.voters, me.granted):
            yield self.taken(me, me)
        elif me.mode is Mode.PROSPECTIVE:
            yield from self.stand(me, shared, consumes=True)
        else:
            yield from self.take_office(me, shared, consumes=True)

    # In office

    def take_office(self, me: Replica, shared: Shared, *, consumes: bool) -> Iterator[Step]:
        """Become leader: append LeaderChangeMessage, and tell the voters (KIP-595, "Leader Change Message").

        The first leader also writes the bootstrapped KRaftVersionRecord and VotersRecord into the log (KIP-853, "First
        leader"), and one whose endpoints have changed a VotersRecord ("Automatic endpoint and directory id discovery").
        A leader may also fail after it wrote quorum-state and before the first record is in its log.
        """
        elected = enter(me, Mode.LEADER, me.epoch, me.id)
        batch = Batch(me.epoch, (LeaderChange(me.id), *self.first_records(me)))
        leader = self.with_log(elected, (*me.log, batch), flushes=True)
        announcements = [self.announcement(leader, key) for key in self.others(leader)]
        leader, sends, puts = self.commits(leader, shared)
        puts["elected"] = shared.elected | {Term(me.epoch, me.id)}
        yield self.taken(me, leader, *announcements, *sends, consumes=consumes).put(**puts)
        failed = self.after_restart(elected)
        failure = self.taken(me, failed, *self.first_words(failed), consumes=consumes, starts=True)
        yield failure.put(elected=puts["elected"]).spend("restarts")

    def first_records(self, me: Replica) -> tuple[LogRecord, ...]:
        """Return what a new leader writes beside LeaderChangeMessage."""
        own = voter_of(me.voters, me.key)
        if me.version == 0 or own is None:
            return ()
        current = (me.voters - {own}) | {own.but(endpoint=me.endpoint)}
        if self.last_voters_record(me.log) == 0:
            return (KRaftVersion(me.version), Voters(current))
        return (Voters(current),) if current != me.voters else ()

    @internal
    def repeat_begin_quorum_epoch(self, me: Replica) -> Steps:
        """A leader announces itself again to a voter that does not fetch.

        KIP-853, "Leader election", "BeginQuorumEpoch".

        Without clocks, a leader may find at any time that a voter has not fetched for too long. This holds also for a
        voter that has fetched before: it may have a new disk.
        """
        if me.mode is not Mode.LEADER:
            return
        for key in self.others(me):
            yield self.taken(me, me, self.announcement(me, key), consumes=False).spend("retries")

    def announcement(self, me: Replica, key: Key) -> BeginQuorumEpochRequest:
        """Return BeginQuorumEpoch for a voter: it tells the leader's endpoint (KIP-853, "BeginQuorumEpoch")."""
        return BeginQuorumEpochRequest(me.epoch, key, me.id, key.id, endpoint_of(me, key.id), me.endpoint)

    @on(BeginQuorumEpochRequest)
    def handle_begin_quorum_epoch_request(self, me: Replica, request: BeginQuorumEpochRequest, shared: Shared) -> Steps:
        """Any replica, voter or not, follows the leader of an epoch that is not older than its own.

        KIP-853, "BeginQuorumEpoch". So it does if the request was meant for its former disk: that is how a new disk
        hears of the leader (KIP-853, "Disk failure recovery").
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
        """Whether no candidate is preferred to this replica key, as after a restart of the leader."""
        return not preferred or matches(preferred[0], me.key)

    def is_stale(self, me: Replica, epoch: int) -> bool:
        """Whether an announcement is of an epoch that is over."""
        return epoch < me.epoch

    def acknowledgement(
        self, response: type[Acknowledgement], me: Replica, request: Announcement, error: Error
    ) -> list[Record]:
        """Return the answer to BeginQuorumEpoch or EndQuorumEpoch: without PlainAnswers, only if it has an error."""
        if me.mode in ENDED or (error is Error.NONE and not self.plain_answers):
            return []
        shown = self.endpoint_shown(me)
        return [response(me.epoch, me.leader, error, request.epoch, me.id, request.source, shown)]

    def refusal(self, response: type[Acknowledgement], me: Replica, request: Announcement) -> list[Record]:
        """Return the answer to another cluster."""
        return self.acknowledgement(response, self.unnamed(me), request, Error.INCONSISTENT_CLUSTER_ID)

    @on(BeginQuorumEpochResponse, EndQuorumEpochResponse)
    def handle_acknowledgement(self, me: Replica, response: Acknowledgement, shared: Shared) -> Steps:
        """A leader, also a resigned one, hears of a newer epoch in the answers to its announcements.

        KIP-595, "BeginQuorumEpoch", "EndQuorumEpoch". It fails if a voter acknowledges BeginQuorumEpoch that it has
        removed since it asked (`LeaderState.addAcknowledgementFrom` in Kafka throws).
        """
        if self.is_cut(me, response.source, shared):
            return
        if response.of != me.epoch or me.mode not in (Mode.LEADER, Mode.RESIGNED):
            yield self.taken(me, me)
            return
        after, done = self.common_response(me, response)
        counted = isinstance(response, BeginQuorumEpochResponse) and me.mode is Mode.LEADER and not done
        if counted and endpoint_of(me, response.source) == 0:
            yield self.fails(me)
        else:
            yield self.taken(me, after)

    # Leaving office

    @internal
    def resign(self, me: Replica) -> Steps:
        """A leader that shuts down, or heard from no majority in time, ends its epoch.

        KIP-595, "EndQuorumEpoch". Check quorum depends on time: without clocks, a leader may find at any time that it
        heard nothing for too long.
        """
        if me.mode is not Mode.LEADER:
            return
        yield self.taken(me, resigned(me), *self.farewell(me), consumes=False).spend("resignations")

    @on(EndQuorumEpochRequest)
    def handle_end_quorum_epoch_request(self, me: Replica, request: EndQuorumEpochRequest, shared: Shared) -> Steps:
        """A follower whose leader ends its epoch asks for pre-votes: the first of the preferred candidates at once.

        KIP-595 and KIP-853, "EndQuorumEpoch". The others back off, the longer the later they are named: they wait for
        their timers, which without clocks may expire at any time. Where none is preferred, nobody waits. The request
        does not tell the leader's endpoint: a replica that does not know it fails.
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

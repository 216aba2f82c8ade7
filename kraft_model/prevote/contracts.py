"""Contracts of `prevote`: how a server answers each message, and what it makes of it.

They say what KIP-595, KIP-853 and KIP-996 say, where the specification agrees with them, and else what the comments on
its action say. They share no rule with the actions, so that a slip in one shows here.
"""

from __future__ import annotations

from kraftcheck.kraft_model.prevote.base import PrevoteBase
from kraftcheck.kraft_model.prevote.records import (
    AddedVoter,
    BeginQuorumEpochRequest,
    Config,
    Entry,
    Error,
    FetchDiverging,
    FetchRejected,
    FetchRequest,
    FetchResponse,
    FetchState,
    FetchSucceeded,
    InitialMembers,
    LastFetch,
    Nil,
    RemovedVoter,
    RequestVoteRequest,
    RequestVoteResponse,
    Result,
    Server,
    ServerState,
    Shared,
)
from kraftcheck.kraft_model.reconfig.contracts import log_end, majority, only_answers, only_listens, up_to_epoch
from kraftcheck.spec import Map, Step, step_invariant

Entries = tuple[Entry, ...]


def votes(server: Server) -> bool:
    """Return whether a server lives and is a member of the configuration that it uses."""
    return server.state is not ServerState.DEAD_NO_STATE and server.id in server.config.members


def last_voters(log: Entries, hwm: int) -> Config:
    """Return the newest configuration of a log, none where it has none; the high watermark covers what is committed."""
    for offset, entry in reversed(list(enumerate(log, 1))):
        if isinstance(entry.value, InitialMembers | AddedVoter | RemovedVoter):
            return Config(entry.value.id, entry.value.members, offset <= hwm)
    return Config()


def none_noted(server: Server) -> bool:
    """Return whether a server credits its members, and nobody else, with no entry."""
    return set(server.flwr_end_offset) == server.config.members and not any(server.flwr_end_offset.values())


class PrevoteContracts(PrevoteBase):
    """Step invariants of messages."""

    # Votes

    @step_invariant
    def votes_are_answered(self, before: Server, message: RequestVoteRequest, step: Step) -> bool:
        """A vote is granted if, and only if, it is free or this candidate's, and a pre-vote if nobody is missed by it.

        Both ask for a log that ends no earlier, a vote that was given does not again. A pre-vote is granted by who
        has no leader from which it ever fetched: KIP-996, Proposed Changes; KIP-595, Vote, Request Handling.
        """
        newer = message.replica_epoch > before.current_epoch
        error: Error | Nil = Error.FENCED_LEADER_EPOCH if message.replica_epoch < before.current_epoch else Nil.NIL
        if message.last_log_epoch > message.replica_epoch:
            error = Error.INVALID_REQUEST
        state = ServerState.UNATTACHED if newer else before.state
        long_enough = (message.last_log_epoch, message.last_log_offset) >= log_end(before.log)
        if message.pre_vote:
            fetched = state is ServerState.FOLLOWER and before.fetch_state.has_fetch_success
            granted = long_enough and not fetched and state is not ServerState.LEADER
        else:
            given = not newer and before.voted_for == message.source
            free = newer or (before.voted_for is Nil.NIL and before.leader is Nil.NIL)
            granted = (given or (free and long_enough)) and state in (ServerState.UNATTACHED, ServerState.PROSPECTIVE)
        heard = error is Nil.NIL
        answer = RequestVoteResponse(
            replica_epoch=message.replica_epoch if heard else before.current_epoch,
            leader=Nil.NIL if heard and newer else before.leader,
            vote_granted=granted and heard,
            pre_vote=message.pre_vote,
            error=error,
            source=before.id,
            dest=message.source,
        )
        return only_answers(step, answer)

    @step_invariant
    def votes_are_remembered(self, before: Server, after: Server, message: RequestVoteRequest, step: Step) -> bool:
        """Who grants its vote keeps it for the epoch; a pre-vote binds nobody, and who is refused with an error changes
        nothing. Who hears of a newer epoch enters it, unattached. KIP-996; KIP-595, Vote.
        """
        answers = [one for one in step.sent if isinstance(one, RequestVoteResponse)]
        if any(one.error is not Nil.NIL for one in answers):
            return after == before and not step.puts
        heard = before
        if message.replica_epoch > before.current_epoch:
            heard = before.but(
                state=ServerState.UNATTACHED,
                current_epoch=message.replica_epoch,
                leader=Nil.NIL,
                voted_for=Nil.NIL,
                votes_recv=frozenset(),
            )
        if heard.state is not before.state:
            heard = heard.but(fetch_state=FetchState(), pending_ack=frozenset())
        if not message.pre_vote and any(one.vote_granted for one in answers):
            kept = heard.votes_recv if heard.state is ServerState.PROSPECTIVE else frozenset[int]()
            heard = heard.but(voted_for=message.source, votes_recv=kept)
        return after == heard

    @step_invariant
    def votes_are_counted(self, before: Server, after: Server, message: RequestVoteResponse, step: Step) -> bool:
        """A prospective counts the pre-votes, and a candidate the votes, that it is granted in its epoch, each once.

        Who no longer stands has none. A leader that is deposed forgets what it knew of its followers. KIP-996.
        """
        awaited = ServerState.PROSPECTIVE if message.pre_vote else ServerState.CANDIDATE
        stands = (after.state, after.current_epoch) == (before.state, before.current_epoch)
        counts = stands and message.vote_granted and message.replica_epoch == before.current_epoch
        received = before.votes_recv if stands else frozenset[int]()
        if counts and before.state is awaited:
            received = received | {message.source}
        deposed = before.state is ServerState.LEADER and after.state is not ServerState.LEADER
        known = none_noted(after) if deposed else after.flwr_end_offset == before.flwr_end_offset
        told = before.but(
            state=after.state,
            current_epoch=after.current_epoch,
            leader=after.leader,
            voted_for=after.voted_for,
            votes_recv=received,
            pending_ack=after.pending_ack,
            flwr_end_offset=after.flwr_end_offset,
        )
        return step.consumes and not step.sends and votes(before) and known and after == told

    # Who leads

    @step_invariant
    def messages_tell_who_leads(
        self,
        before: Server,
        after: Server,
        message: RequestVoteResponse | FetchResponse | BeginQuorumEpochRequest,
        step: Step,
    ) -> bool:
        """A message of an older epoch tells nothing, one of a newer epoch moves a server there, without a vote.

        In one epoch a server that knows no leader follows the one that is named. KIP-595, Fetch and BeginQuorumEpoch.
        """
        named = message.source if isinstance(message, BeginQuorumEpochRequest) else message.leader
        state, leader, vote = before.state, before.leader, before.voted_for
        if message.replica_epoch > before.current_epoch:
            state = ServerState.UNATTACHED if named is Nil.NIL else ServerState.FOLLOWER
            leader, vote = named, Nil.NIL
        elif message.replica_epoch == before.current_epoch and leader is Nil.NIL and named is not Nil.NIL:
            state, leader = ServerState.FOLLOWER, named
        if votes(before) != votes(after):  # a server that becomes voter or observer follows
            state = ServerState.FOLLOWER
        epoch = max(before.current_epoch, message.replica_epoch)
        return (after.current_epoch, after.state, after.leader, after.voted_for) == (epoch, state, leader, vote)

    @step_invariant
    def announcements_are_followed(
        self, before: Server, after: Server, message: BeginQuorumEpochRequest, step: Step
    ) -> bool:
        """Any server takes an announcement that is not of an older epoch, and fetches anew.

        KIP-853, BeginQuorumEpoch, Handling.
        """
        stands = (after.state, after.current_epoch) == (before.state, before.current_epoch)
        follows = before.but(
            state=after.state,
            current_epoch=message.replica_epoch,
            leader=message.source,
            voted_for=after.voted_for,
            votes_recv=before.votes_recv if stands else frozenset(),
            fetch_state=FetchState(),
            pending_ack=after.pending_ack,
        )
        current = message.replica_epoch >= before.current_epoch
        return step.consumes and not step.sends and current and after == follows

    # Fetching

    @step_invariant
    def fetches_are_answered(self, before: Server, message: FetchRequest, step: Step) -> bool:
        """A fetch is refused, sent back to where the logs part, or served: each if, and only if, it is due.

        Only a leader in the fetch's epoch serves, and only its members, from a position that its log has. KIP-595,
        Fetch, Request Handling; the specification, AcceptFetchRequest.
        """
        error: Error | Nil = Nil.NIL
        if before.state is not ServerState.LEADER:
            error = Error.NOT_LEADER
        elif message.replica_epoch != before.current_epoch:
            older = message.replica_epoch < before.current_epoch
            error = Error.FENCED_LEADER_EPOCH if older else Error.UNKNOWN_LEADER
        end = message.fetch_offset - 1
        held = end == 0 or (message.last_fetched_epoch, end) == log_end(before.log[:end])
        kind: type[FetchResponse] = FetchSucceeded if held else FetchDiverging
        result = Result.OK if held else Result.DIVERGING
        if error is not Nil.NIL:
            kind, result = FetchRejected, Result.NOT_OK
        (answer,) = step.sent if len(step.sent) == 1 else (None,)
        if type(answer) is not kind or not only_answers(step, answer):
            return False
        serves = kind is not FetchSucceeded or message.source in before.config.members
        said = answer.result, answer.error, answer.source, answer.dest, answer.correlation
        return serves and said == (result, error, before.id, message.source, message)

    @step_invariant
    def answers_tell_what_follows(self, before: Server, after: Server, message: FetchRequest, step: Step) -> bool:
        """A served fetch brings the entry that it asks for, and the high watermark as far as the follower has the log.

        One that diverges brings the offset behind the fetched epoch, or behind the newest before it, in the leader's
        log. All bring the epoch, and the leader, unless it resigns. KIP-595, Fetch, and Log Reconciliation.
        """
        (answer,) = step.sent if len(step.sent) == 1 else (None,)
        if not isinstance(answer, FetchResponse):
            return False
        resigns = after.state is not before.state
        if (answer.replica_epoch, answer.leader) != (before.current_epoch, Nil.NIL if resigns else before.leader):
            return False
        if isinstance(answer, FetchSucceeded):
            following = before.log[message.fetch_offset - 1 :][:1]
            return (answer.entries, answer.hwm) == (following, min(self._agreed(before, message), message.fetch_offset))
        if isinstance(answer, FetchDiverging):
            epoch, offset = log_end(up_to_epoch(before.log, message.last_fetched_epoch))
            if (answer.diverging_epoch, answer.diverging_end_offset) != (epoch, offset + 1):
                return False
        return answer.hwm == before.hwm

    @step_invariant
    def fetches_are_noted(
        self, before: Server, after: Server, message: FetchRequest, step: Step, shared: Shared
    ) -> bool:
        """A leader notes what each member has, and commits what a majority has, with an entry of its epoch last.

        It tells clients of what it commits, and resigns where that is its own removal, and only there. KIP-595, Fetch;
        KIP-853, Fetch, Handling, and Removing voters.
        """
        if not any(isinstance(one, FetchSucceeded) for one in step.sent):
            return after == before and not step.puts
        agreed = self._agreed(before, message)
        offsets = self._noted(before, message)
        committed = [entry.value for entry in before.log[before.hwm : agreed]]
        acked = before.pending_ack & frozenset(committed)
        told = dict(step.puts).get("positively_acked", shared.positively_acked)
        if told != shared.positively_acked | acked:
            return False
        if agreed <= before.hwm:
            return after == before.but(flwr_end_offset=offsets) and not step.puts
        config = last_voters(before.log, agreed)
        noted = before.but(hwm=agreed, config=config, pending_ack=before.pending_ack - acked)
        if any(isinstance(value, RemovedVoter) and value.old == before.id for value in committed):
            resigned = noted.but(
                state=ServerState.RESIGNED,
                leader=before.id,
                voted_for=Nil.NIL,
                votes_recv=frozenset(),
                hwm=0,
                pending_ack=frozenset(),
                flwr_end_offset=Map(()),
            )
            return after == resigned
        credited = {member: offsets.get(member, 0) for member in config.members}
        same = after == noted.but(flwr_end_offset=after.flwr_end_offset)
        return same and dict(after.flwr_end_offset.items()) == credited

    def _noted(self, leader: Server, message: FetchRequest) -> Map[int, int]:
        """Return what a leader knows of others' logs once a member's fetch is noted."""
        known = message.source in leader.flwr_end_offset
        end = message.fetch_offset - 1
        return leader.flwr_end_offset.put(message.source, end) if known else leader.flwr_end_offset

    def _agreed(self, leader: Server, message: FetchRequest) -> int:
        """Return the high watermark once a member's fetch is noted. A leader that is no member counts others only."""
        offsets, members = self._noted(leader, message), leader.config.members
        for offset in reversed(range(1, len(leader.log) + 1)):
            having = {member for member in members if offsets.get(member, 0) >= offset}
            if majority(members, frozenset(having | {leader.id})):
                return offset if leader.log[offset - 1].epoch == leader.current_epoch else leader.hwm
        return leader.hwm

    # Fetched

    @step_invariant
    def what_is_fetched_is_kept(self, before: Server, after: Server, message: FetchResponse, step: Step) -> bool:
        """A follower appends what it is sent, with the leader's high watermark, or truncates to where the logs part.

        It takes only the answer to the fetch that it waits for, and notes who answered. KIP-595, Fetch.
        """
        log, hwm = before.log, before.hwm
        current = message.replica_epoch == before.current_epoch and message.error is Nil.NIL
        if current and isinstance(message, FetchSucceeded):
            log, hwm = log + message.entries, message.hwm
        if current and isinstance(message, FetchDiverging):
            parting = (message.diverging_epoch, message.diverging_end_offset - 1)
            log = tuple(one for offset, one in enumerate(log, 1) if (one.epoch, offset) <= parting)
        fetched = before.fetch_state.has_fetch_success or message.error is Nil.NIL
        noted = FetchState(Nil.NIL, LastFetch(message.source, message.error), fetched)
        awaited = before.fetch_state.pending_fetch == message.correlation and only_listens(step)
        return awaited and (after.log, after.hwm, after.fetch_state) == (log, hwm, noted)

    @step_invariant
    def followers_use_what_their_logs_say(
        self, before: Server, after: Server, message: FetchResponse, step: Step
    ) -> bool:
        """A server that was served uses the newest configuration of its log; whether it votes follows from that.

        KIP-853, VotersRecord, Handling. Others keep their configuration.
        """
        current = message.replica_epoch == before.current_epoch and message.error is Nil.NIL
        stands = (after.state, after.current_epoch) == (before.state, before.current_epoch)
        received = before.votes_recv if stands and votes(before) == votes(after) else frozenset[int]()
        config, offsets = before.config, dict(before.flwr_end_offset.items())
        if current:
            config = last_voters(after.log, message.hwm)
            offsets = {member: before.flwr_end_offset.get(member, 0) for member in config.members}
        used = after.config, after.votes_recv, after.pending_ack
        known = dict(after.flwr_end_offset.items()) == offsets
        return known and used == (config, received, before.pending_ack)

"""Contracts of `prevote`: responses to messages, effects of messages, and internal steps.

They restate KIP-595, KIP-853 and KIP-996 where the specification agrees with them, else the comments on its actions.
They share no rule with the actions, so that a mistake in an action shows here.
"""

from __future__ import annotations

from kraftcheck.kraft_model.prevote.environment import PrevoteMembership
from kraftcheck.kraft_model.prevote.records import (
    AddedVoter,
    BeginQuorumEpochRequest,
    Command,
    Config,
    Counters,
    ElectedLeaderRequest,
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
from kraftcheck.kraft_model.reconfig.contracts import (
    appended_client_values,
    consumes_request_and_sends_only_reply,
    entries_up_to_epoch,
    epoch_and_offset_of_last_entry,
    is_majority,
    majority_high_watermark,
    only_updates_receiver,
    sent_messages_of_type,
)
from kraftcheck.spec import Map, Record, Step, invariant, ordered, step_invariant

Entries = tuple[Entry, ...]


def consumes_without_sends(step: Step) -> bool:
    """Return whether a step consumes a message and sends no message."""
    return step.consumes and not step.sends


def is_live_voter(server: Server) -> bool:
    """Return whether a server is alive and a member of the configuration in use."""
    return server.state is not ServerState.DEAD_NO_STATE and server.id in server.config.members


def end_offsets_of_members(offsets: Map[int, int], members: frozenset[int]) -> Map[int, int]:
    """Return the end offset of each of `members` in `offsets`; 0 for a member that `offsets` lacks."""
    return Map((member, offsets.get(member, 0)) for member in ordered(members))


def resigned_leader(leader: Server) -> Server:
    """Return a leader after its resignation: it still names itself as leader, without vote and pending values."""
    kept = leader.but(state=ServerState.RESIGNED, leader=leader.id, voted_for=Nil.NIL)
    return kept.but(votes_recv=frozenset(), pending_ack=frozenset())


def unattached_in_epoch(me: Server, epoch: int) -> Server:
    """Return a server in a new epoch, without leader and vote."""
    entered = me.but(state=ServerState.UNATTACHED, current_epoch=epoch, leader=Nil.NIL)
    return entered.but(voted_for=Nil.NIL, votes_recv=frozenset())


def last_configuration(log: Entries, hwm: int) -> Config:
    """Return the last configuration of a log, marked as committed if the high watermark covers it."""
    for offset, entry in reversed(list(enumerate(log, 1))):
        if isinstance(entry.value, InitialMembers | AddedVoter | RemovedVoter):
            return Config(entry.value.id, entry.value.members, offset <= hwm)
    return Config()


def deserves_vote(me: Server, request: RequestVoteRequest) -> bool:
    """Return whether a server grants a vote or pre-vote in the request's epoch."""
    long_enough = (request.last_log_epoch, request.last_log_offset) >= epoch_and_offset_of_last_entry(me.log)
    if request.pre_vote:
        fetched = me.state is ServerState.FOLLOWER and me.fetch_state.has_fetch_success
        return long_enough and not fetched and me.state is not ServerState.LEADER
    if me.state not in (ServerState.UNATTACHED, ServerState.PROSPECTIVE):
        return False
    if me.voted_for is not Nil.NIL:
        return me.voted_for == request.source
    return long_enough and me.leader is Nil.NIL


def counters_after_step(step: Step, shared: Shared) -> Counters:
    counters: Counters = dict(step.puts).get("counters", shared.counters)
    return counters


def fetch_error(me: Server, request: FetchRequest) -> Error | Nil:
    """Check that a server leads the epoch of a fetch; return the error, Nil if the server leads it."""
    if me.state is not ServerState.LEADER:
        return Error.NOT_LEADER
    if request.replica_epoch == me.current_epoch:
        return Nil.NIL
    return Error.FENCED_LEADER_EPOCH if request.replica_epoch < me.current_epoch else Error.UNKNOWN_LEADER


def has_won_election(me: Server, state: ServerState) -> bool:
    """Return whether a server in the given state has the votes or pre-votes of a majority."""
    return me.state is state and is_majority(me.config.members, me.votes_recv)


def are_connected(shared: Shared, one: int, other: int) -> bool:
    return shared.connectivity.get(frozenset((one, other)), False)


def sends_exactly_over_uncut_connections(step: Step, shared: Shared, *messages: Record) -> bool:
    """Return whether a step sends exactly those of `messages` whose connection is not cut."""
    arriving = [one for one in messages if are_connected(shared, one.source, one.dest)]  # type: ignore[attr-defined]
    return len(step.sent) == len(arriving) and set(step.sent) == set(arriving)


def may_fetch_from(me: Server, peer: int) -> bool:
    """Return whether a server may fetch from a peer; a voter that follows may fetch only from its leader."""
    if me.state is ServerState.FOLLOWER and not is_live_voter(me):
        return True
    if me.fetch_state.pending_fetch is not Nil.NIL:
        return False
    if me.state is ServerState.FOLLOWER:
        return peer == me.leader
    return me.state is ServerState.UNATTACHED and is_live_voter(me)


def expected_vote_requests(me: Server, epoch: int, *, pre_vote: bool) -> list[RequestVoteRequest]:
    """Return a vote request for each other member, with the server's log end."""
    last_epoch, last_offset = epoch_and_offset_of_last_entry(me.log)
    peers = [member for member in me.config.members if member != me.id]
    return [RequestVoteRequest(epoch, last_epoch, last_offset, pre_vote, me.id, peer) for peer in peers]


def may_change_voters(leader: Server) -> bool:
    """Return whether a leader has no uncommitted configuration, and a committed entry of its epoch."""
    in_epoch = leader.current_epoch in {entry.epoch for entry in leader.log[: leader.hwm]}
    return leader.state is ServerState.LEADER and leader.config.committed and in_epoch


def with_voter_change(leader: Server, changed: int, members: frozenset[int]) -> Server:
    """Return a leader with an appended change of its voters, in use at once."""
    number, adds = leader.config.id + 1, changed in members
    command, kind = (Command.ADD_VOTER, AddedVoter) if adds else (Command.REMOVE_VOTER, RemovedVoter)
    return leader.but(
        log=(*leader.log, Entry(command, leader.current_epoch, kind(number, changed, members))),
        config=Config(number, members, False),
        flwr_end_offset=end_offsets_of_members(leader.flwr_end_offset, members),
    )


def is_permitted_one_voter_change(before: Server, after: Server, step: Step, shared: Shared) -> bool:
    """Return whether a leader adds or removes one voter, and announces itself to an added voter."""
    changed = before.config.members ^ after.config.members
    if len(changed) != 1 or not may_change_voters(before):
        return False
    (voter,) = changed
    told = [BeginQuorumEpochRequest(before.current_epoch, before.id, one) for one in changed & after.config.members]
    return after == with_voter_change(before, voter, after.config.members) and sends_exactly_over_uncut_connections(
        step, shared, *told
    )


class PrevoteContracts(PrevoteMembership):
    """Step invariants of messages and internal steps, and invariants of started servers."""

    # Votes

    @step_invariant
    def votes_are_answered(self, before: Server, message: RequestVoteRequest, step: Step) -> bool:
        """A vote or pre-vote is granted exactly if its conditions hold.

        A vote must be free, or given to this candidate before. A pre-vote requires no leader with a successful fetch.
        Both require an up-to-date log, except a repeated vote: KIP-996, Proposed Changes; KIP-595, Vote, Request
        Handling.
        """
        newer = message.replica_epoch > before.current_epoch
        error: Error | Nil = Error.FENCED_LEADER_EPOCH if message.replica_epoch < before.current_epoch else Nil.NIL
        if message.last_log_epoch > message.replica_epoch:
            error = Error.INVALID_REQUEST
        heard = error is Nil.NIL
        now = unattached_in_epoch(before, message.replica_epoch) if heard and newer else before
        granted = heard and deserves_vote(now, message)
        said = (now.current_epoch, now.leader, granted, message.pre_vote, error)
        return consumes_request_and_sends_only_reply(step, RequestVoteResponse(*said, before.id, message.source))

    @step_invariant
    def votes_are_remembered(self, before: Server, after: Server, message: RequestVoteRequest, step: Step) -> bool:
        """A granted vote is kept for the epoch; a pre-vote, or a response with an error, changes no vote.

        A newer epoch is entered as unattached. KIP-996; KIP-595, Vote.
        """
        answers = sent_messages_of_type(step, RequestVoteResponse)
        if any(one.error is not Nil.NIL for one in answers):
            return after == before and not step.puts
        heard = before
        if message.replica_epoch > before.current_epoch:
            heard = unattached_in_epoch(before, message.replica_epoch)
        if heard.state is not before.state:
            heard = heard.but(fetch_state=FetchState(), pending_ack=frozenset())
        if not message.pre_vote and any(one.vote_granted for one in answers):
            kept = heard.votes_recv if heard.state is ServerState.PROSPECTIVE else frozenset[int]()
            heard = heard.but(voted_for=message.source, votes_recv=kept)
        return after == heard

    @step_invariant
    def votes_are_counted(self, before: Server, after: Server, message: RequestVoteResponse, step: Step) -> bool:
        """A prospective counts one granted pre-vote per server, and a candidate one granted vote, of its own epoch.

        A server in any other state has none. A deposed leader clears its followers' end offsets. KIP-996.
        """
        awaited = ServerState.PROSPECTIVE if message.pre_vote else ServerState.CANDIDATE
        stands = (after.state, after.current_epoch) == (before.state, before.current_epoch)
        received = before.votes_recv if stands else frozenset[int]()
        counts = message.vote_granted and (message.replica_epoch, awaited) == (before.current_epoch, before.state)
        if stands and counts:
            received = received | {message.source}
        deposed = before.state is ServerState.LEADER is not after.state
        told = before.but(
            state=after.state,
            current_epoch=after.current_epoch,
            leader=after.leader,
            voted_for=after.voted_for,
            votes_recv=received,
            pending_ack=after.pending_ack,
            flwr_end_offset=end_offsets_of_members(Map(), before.config.members) if deposed else before.flwr_end_offset,
        )
        return consumes_without_sends(step) and is_live_voter(before) and after == told

    # Leaders

    @step_invariant
    def messages_tell_who_leads(
        self,
        before: Server,
        after: Server,
        message: RequestVoteResponse | FetchResponse | BeginQuorumEpochRequest,
        step: Step,
    ) -> bool:
        """A message of an older epoch has no effect; a newer epoch in a message is entered without a vote.

        Within its epoch, a server without a leader follows the leader in the message. KIP-595, Fetch and
        BeginQuorumEpoch.
        """
        named = message.source if isinstance(message, BeginQuorumEpochRequest) else message.leader
        state, leader, vote = before.state, before.leader, before.voted_for
        if message.replica_epoch > before.current_epoch:
            state = ServerState.UNATTACHED if named is Nil.NIL else ServerState.FOLLOWER
            leader, vote = named, Nil.NIL
        elif message.replica_epoch == before.current_epoch and leader is Nil.NIL and named is not Nil.NIL:
            state, leader = ServerState.FOLLOWER, named
        if is_live_voter(before) != is_live_voter(after):  # a server that becomes voter or observer follows
            state = ServerState.FOLLOWER
        epoch = max(before.current_epoch, message.replica_epoch)
        return (after.current_epoch, after.state, after.leader, after.voted_for) == (epoch, state, leader, vote)

    @step_invariant
    def announcements_are_followed(
        self, before: Server, after: Server, message: BeginQuorumEpochRequest, step: Step
    ) -> bool:
        """A server accepts an announcement unless its epoch is older, and restarts fetching.

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
        return consumes_without_sends(step) and current and after == follows

    # Fetching

    @step_invariant
    def fetches_are_answered(self, before: Server, message: FetchRequest, step: Step) -> bool:
        """A fetch is rejected, answered as diverging, or served, each exactly if its condition holds.

        A leader serves fetches of its epoch from its members, at a position of its log. KIP-595, Fetch, Request
        Handling; the specification, AcceptFetchRequest.
        """
        error, end = fetch_error(before, message), message.fetch_offset - 1
        held = end == 0 or (message.last_fetched_epoch, end) == epoch_and_offset_of_last_entry(before.log[:end])
        expected: tuple[object, Result] = (FetchSucceeded, Result.OK) if held else (FetchDiverging, Result.DIVERGING)
        if error is not Nil.NIL:
            expected = (FetchRejected, Result.NOT_OK)
        elif held and message.source not in before.config.members:
            return False
        answer = step.sent[0] if len(step.sent) == 1 else None
        if not isinstance(answer, FetchResponse) or not consumes_request_and_sends_only_reply(step, answer):
            return False
        said = type(answer), answer.result, answer.error, answer.source, answer.dest, answer.correlation
        return said == (*expected, error, before.id, message.source, message)

    @step_invariant
    def answers_tell_what_follows(self, before: Server, after: Server, message: FetchRequest, step: Step) -> bool:
        """A served fetch returns the entry at its offset, and the high watermark up to the follower's log end.

        A diverging one returns the end offset of the fetched epoch, or of the newest one before it, in the leader's
        log. Each response has the epoch, and the leader unless it resigns. KIP-595, Fetch, and Log Reconciliation.
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
            epoch, offset = epoch_and_offset_of_last_entry(entries_up_to_epoch(before.log, message.last_fetched_epoch))
            if (answer.diverging_epoch, answer.diverging_end_offset) != (epoch, offset + 1):
                return False
        return answer.hwm == before.hwm

    @step_invariant
    def fetches_are_noted(
        self, before: Server, after: Server, message: FetchRequest, step: Step, shared: Shared
    ) -> bool:
        """A leader records each member's end offset, and commits the offset of a majority in its own epoch.

        It acknowledges committed values to clients, and resigns exactly if it commits its own removal. KIP-595, Fetch;
        KIP-853, Fetch, Handling, and Removing voters.
        """
        if not sent_messages_of_type(step, FetchSucceeded):
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
        config = last_configuration(before.log, agreed)
        noted = before.but(hwm=agreed, config=config, pending_ack=before.pending_ack - acked)
        if any(isinstance(value, RemovedVoter) and value.old == before.id for value in committed):
            return after == resigned_leader(noted).but(hwm=0, flwr_end_offset=Map(()))
        return after == noted.but(flwr_end_offset=end_offsets_of_members(offsets, config.members))

    def _noted(self, leader: Server, message: FetchRequest) -> Map[int, int]:
        """Return the end offsets that a leader knows after it has recorded the offset in a member's fetch."""
        known = message.source in leader.flwr_end_offset
        end = message.fetch_offset - 1
        return leader.flwr_end_offset.put(message.source, end) if known else leader.flwr_end_offset

    def _agreed(self, leader: Server, message: FetchRequest) -> int:
        """Return a leader's high watermark after it has recorded the offset in a member's fetch."""
        return majority_high_watermark(leader, self._noted(leader, message), leader.hwm)

    # Fetched

    @step_invariant
    def what_is_fetched_is_kept(self, before: Server, after: Server, message: FetchResponse, step: Step) -> bool:
        """A follower appends the fetched entries with the leader's high watermark, or truncates its log.

        It accepts only the response to its pending fetch, and records the responding server. KIP-595, Fetch.
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
        awaited = before.fetch_state.pending_fetch == message.correlation and only_updates_receiver(step)
        return awaited and (after.log, after.hwm, after.fetch_state) == (log, hwm, noted)

    @step_invariant
    def followers_use_what_their_logs_say(
        self, before: Server, after: Server, message: FetchResponse, step: Step
    ) -> bool:
        """A served follower uses the last configuration of its log, which decides whether it is a voter.

        KIP-853, VotersRecord, Handling. Other servers keep their configuration.
        """
        current = message.replica_epoch == before.current_epoch and message.error is Nil.NIL
        stands = (after.state, after.current_epoch) == (before.state, before.current_epoch)
        received = before.votes_recv if stands and is_live_voter(before) == is_live_voter(after) else frozenset[int]()
        config, offsets = before.config, before.flwr_end_offset
        if current:
            config = last_configuration(after.log, message.hwm)
            offsets = end_offsets_of_members(before.flwr_end_offset, config.members)
        used = after.config, after.votes_recv, after.pending_ack, after.flwr_end_offset
        return used == (config, received, before.pending_ack, offsets)

    # Elections

    @step_invariant
    def prospectives_ask_for_pre_votes(self, before: Server, after: Server, step: Step, shared: Shared) -> bool:
        """A voter without contact to a leader requests pre-votes, and keeps its epoch, vote and leader.

        KIP-996, Proposed Changes. An unattached voter always has a reason; a timeout without a reason is a disruption.
        """
        asks = any(one.pre_vote for one in sent_messages_of_type(step, RequestVoteRequest))
        begins = after.state is ServerState.PROSPECTIVE is not before.state
        if not asks and not begins:
            return True
        states = (ServerState.FOLLOWER, ServerState.CANDIDATE, ServerState.UNATTACHED)
        stands = before.but(state=ServerState.PROSPECTIVE, votes_recv=frozenset({before.id}), fetch_state=FetchState())
        counters = counters_after_step(step, shared)
        disruptive = counters.disruptive_ctr - shared.counters.disruptive_ctr
        counted = disruptive in ((0,) if before.state is ServerState.UNATTACHED else (0, 1))
        same = counters == shared.counters.but(
            disruptive_ctr=counters.disruptive_ctr, prevote_ctr=shared.counters.prevote_ctr + self.test_liveness
        )
        requests = expected_vote_requests(before, before.current_epoch, pre_vote=True)
        may_stand = before.state in states and is_live_voter(before)
        return (
            may_stand
            and after == stands
            and counted
            and same
            and sends_exactly_over_uncut_connections(step, shared, *requests)
        )

    @step_invariant
    def candidates_have_pre_votes(self, before: Server, after: Server, step: Step, shared: Shared) -> bool:
        """A prospective with the pre-votes of a majority enters a new epoch, votes for itself and requests votes.

        KIP-996, Proposed Changes; KIP-595, Vote.
        """
        asks = any(not one.pre_vote for one in sent_messages_of_type(step, RequestVoteRequest))
        begins = after.state is ServerState.CANDIDATE and after.current_epoch != before.current_epoch
        if not asks and not begins:
            return True
        epoch = before.current_epoch + 1
        stands = before.but(
            state=ServerState.CANDIDATE,
            current_epoch=epoch,
            leader=Nil.NIL,
            voted_for=before.id,
            votes_recv=frozenset({before.id}),
        )
        wins = has_won_election(before, ServerState.PROSPECTIVE) and is_live_voter(before)
        bounded = epoch <= self.max_epoch or self.test_liveness
        requests = expected_vote_requests(before, epoch, pre_vote=False)
        return wins and bounded and after == stands and sends_exactly_over_uncut_connections(step, shared, *requests)

    @step_invariant
    def prospectives_give_up(self, before: Server, after: Server, step: Step) -> bool:
        """A prospective that gives up follows its last known leader, or is unattached, in the same epoch.

        It has no majority, and keeps its vote. KIP-996, Proposed Changes.
        """
        gives_up = before.state is ServerState.PROSPECTIVE and after.state in (
            ServerState.FOLLOWER,
            ServerState.UNATTACHED,
        )
        if not gives_up or step.consumes or step.puts:
            return True
        state = ServerState.UNATTACHED if before.leader is Nil.NIL else ServerState.FOLLOWER
        wins = is_majority(before.config.members, before.votes_recv)
        return not wins and after == before.but(state=state, votes_recv=frozenset()) and not step.sends

    @step_invariant
    def elected_leaders_announce_themselves(self, before: Server, after: Server, step: Step, shared: Shared) -> bool:
        """A candidate with a majority becomes leader, appends LeaderChange, and announces itself to all members.

        The end offsets of its followers start at 0. KIP-595, Leader Election, BeginQuorumEpoch and LeaderChangeMessage.
        """
        told = any(not one.resend for one in sent_messages_of_type(step, ElectedLeaderRequest))
        begins = after.state is ServerState.LEADER is not before.state
        if not told and not begins and (before.state, after.leader) != (ServerState.CANDIDATE, before.id):
            return True
        members, epoch = before.config.members, before.current_epoch
        leads = before.but(
            state=ServerState.LEADER,
            leader=before.id,
            voted_for=Nil.NIL,
            votes_recv=frozenset(),
            log=(*before.log, Entry(Command.LEADER_CHANGE, epoch, Nil.NIL)),
            fetch_state=FetchState(),
            flwr_end_offset=end_offsets_of_members(Map(), members),
        )
        peers = [ElectedLeaderRequest(epoch, before.id, one, False) for one in members - {before.id}]
        if len(members) == 1 and before.hwm != len(before.log) + 1:  # the specification never elects it
            return False
        return (
            has_won_election(before, ServerState.CANDIDATE)
            and after == leads
            and sends_exactly_over_uncut_connections(step, shared, *peers)
        )

    @step_invariant
    def announcements_are_repeated(self, before: Server, after: Server, step: Step, shared: Shared) -> bool:
        """An elected leader may repeat its announcement to a member. KIP-595, BeginQuorumEpoch."""
        again = [one for one in sent_messages_of_type(step, ElectedLeaderRequest) if one.resend]
        if not again:
            return True
        peer = again[0].dest
        request = ElectedLeaderRequest(before.current_epoch, before.id, peer, True)
        leads = before.state is ServerState.LEADER and before.current_epoch > 1
        outside = peer in before.config.members - {before.id} and are_connected(shared, before.id, peer)
        return leads and outside and after == before and step.sent == (request,)

    @step_invariant
    def resigned_leaders_go_on(self, before: Server, after: Server, step: Step, shared: Shared) -> bool:
        """A leader without a majority resigns and clears its followers; later it is unattached in the next epoch.

        KIP-595, Check Quorum; the specification, CheckQuorumResign and ResignedElectionTimeout.
        """
        if before.state is ServerState.RESIGNED and not (step.consumes or step.puts):
            return after == unattached_in_epoch(before, before.current_epoch + 1) and not step.sends
        counters = counters_after_step(step, shared)
        restarts = counters.restart_ctr != shared.counters.restart_ctr
        if not (after.state is ServerState.RESIGNED is not before.state) or step.consumes or restarts:
            return True
        resigned = resigned_leader(before).but(flwr_end_offset=end_offsets_of_members(Map(), before.config.members))
        more = shared.counters.but(disruptive_ctr=shared.counters.disruptive_ctr + 1)
        counted = counters in (shared.counters, more)
        return before.state is ServerState.LEADER and counted and (after, step.sends) == (resigned, ())

    # Fetching

    @step_invariant
    def fetches_go_to_leaders(self, before: Server, after: Server, step: Step, shared: Shared) -> bool:
        """A follower fetches from its leader at its log end, one fetch at a time.

        An unattached voter, and an observer after a timeout, may fetch from any server. KIP-595, Fetch; KIP-853,
        Endpoints information. A fetch on a cut connection is lost, but pending.
        """
        fetch = after.fetch_state.pending_fetch
        asks = isinstance(fetch, FetchRequest) and fetch != before.fetch_state.pending_fetch
        if not asks and not sent_messages_of_type(step, FetchRequest):
            return True
        if not isinstance(fetch, FetchRequest) or fetch.dest == before.id or not may_fetch_from(before, fetch.dest):
            return False
        last_epoch, end = epoch_and_offset_of_last_entry(before.log)
        due = FetchRequest(before.current_epoch, end + 1, last_epoch, before.id, fetch.dest)
        waits = after == before.but(fetch_state=before.fetch_state.but(pending_fetch=due))
        return fetch == due and waits and sends_exactly_over_uncut_connections(step, shared, due)

    # Clients and administrators

    @step_invariant
    def clients_values_are_appended(self, before: Server, after: Server, step: Step, shared: Shared) -> bool:
        """A leader appends a client's value once, in its epoch; a single voter commits it at once. KIP-595."""
        put, new = dict(step.puts), appended_client_values(before.log, after.log)
        if "sent" not in put and (not new or step.consumes):
            return True
        if (len(new), before.state) != (1, ServerState.LEADER) or new[0] in shared.sent:
            return False
        (value,), epoch = new, before.current_epoch
        log = (*before.log, Entry(Command.APPEND, epoch, value))
        in_epoch = appended_client_values((), [one for one in log if one.epoch == epoch])
        hwm = len(log) if len(before.config.members) == 1 else before.hwm
        follows = after == before.but(log=log, hwm=hwm, pending_ack=before.pending_ack | {value})
        told = (put, step.sends) == ({"sent": shared.sent | {value}}, ())
        return follows and told and len(in_epoch) <= self.max_values_per_epoch

    @step_invariant
    def changes_are_appended(self, before: Server, after: Server, step: Step, shared: Shared) -> bool:
        """A leader adds or removes one voter, with no change uncommitted and a committed entry of its epoch.

        It uses the new voters at once, announces itself to an added one, and counts the change. KIP-853, AddVoter and
        RemoveVoter, Handling.
        """
        new = any(isinstance(one.value, AddedVoter | RemovedVoter) for one in after.log[len(before.log) :])
        counters, known = counters_after_step(step, shared), shared.counters
        added = counters.add_reconfig_ctr - known.add_reconfig_ctr
        counts = added, counters.remove_reconfig_ctr - known.remove_reconfig_ctr
        if step.consumes or not (new or counts != (0, 0) or (after.config != before.config and not step.puts)):
            return True
        old, members = before.config.members, after.config.members
        if counts != (len(members - old), len(old - members)):
            return False
        fits = len(members) <= self.max_cluster_size if added else len(members) >= self.min_cluster_size
        return fits and is_permitted_one_voter_change(before, after, step, shared)

    @step_invariant
    def clients_hear_of_lost_offices(self, before: Server, after: Server, step: Step, shared: Shared) -> bool:
        """A leader rejects its clients' uncommitted values exactly when it loses leadership.

        The specification, FailAnyPendingWritesIfLeader.
        """
        put = dict(step.puts)
        committed = put.get("positively_acked", shared.positively_acked) - shared.positively_acked
        refused = put.get("negatively_acked", shared.negatively_acked)
        if before.state is ServerState.LEADER is not after.state:
            failed = before.pending_ack - committed
            return refused == shared.negatively_acked | failed and not after.pending_ack
        return bool(refused == shared.negatively_acked)

    # Restarts and crashes

    @step_invariant
    def restarts_keep_what_is_stored(self, before: Server, after: Server, step: Step, shared: Shared) -> bool:
        """A restarted server keeps epoch, vote, log and configuration, and loses its volatile state.

        A leader restarts as resigned, or as unattached if it is an observer; a prospective restarts as unattached.
        KIP-595, Quorum State.
        """
        counters = counters_after_step(step, shared)
        if counters.restart_ctr == shared.counters.restart_ctr:
            return True
        kept = before
        if before.state is ServerState.LEADER and is_live_voter(before):
            kept = resigned_leader(before)
        elif before.state in (ServerState.LEADER, ServerState.PROSPECTIVE):
            kept = before.but(state=ServerState.UNATTACHED, leader=Nil.NIL, votes_recv=frozenset())
        kept = kept.but(hwm=0, fetch_state=FetchState(), pending_ack=frozenset(), flwr_end_offset=after.flwr_end_offset)
        nothing = set(after.flwr_end_offset) == set(before.flwr_end_offset) and not any(after.flwr_end_offset.values())
        counted = counters == shared.counters.but(restart_ctr=shared.counters.restart_ctr + 1)
        alive = before.state is not ServerState.DEAD_NO_STATE
        return counted and counters.restart_ctr <= self.max_restarts and alive and nothing and after == kept

    @step_invariant
    def the_dead_know_nothing(self, before: Server, after: Server, step: Step, shared: Shared) -> bool:
        """A voter lost with its disk has no state left, and no connection.

        The specification, CrashLoseState.
        """
        put = dict(step.puts)
        counters = counters_after_step(step, shared)
        crashes = counters.crash_ctr != shared.counters.crash_ctr
        if not crashes and "connectivity" not in put and after.state is not ServerState.DEAD_NO_STATE:
            return before.state is not ServerState.DEAD_NO_STATE or after == before
        dead = Server(before.id, before.identity, state=ServerState.DEAD_NO_STATE)
        counted = counters == shared.counters.but(crash_ctr=shared.counters.crash_ctr + 1)
        up = Map((pair, is_up and before.id not in pair) for pair, is_up in shared.connectivity.items())
        lost = (put.get("connectivity"), after) == (up, dead)
        return lost and counted and counters.crash_ctr <= self.max_crashes and is_live_voter(before)

    # Servers

    @invariant
    def newest_configuration_is_used(self, me: Server) -> bool:
        """A server uses the last configuration of its log, committed or not. KIP-853, Reconfiguration."""
        if not me.log or me.state in (ServerState.DEAD_NO_STATE, ServerState.ILLEGAL):
            return True
        last = last_configuration(me.log, me.hwm)
        return (me.config.id, me.config.members) == (last.id, last.members)

    @invariant
    def logs_hold_what_is_committed(self, me: Server) -> bool:
        """A log reaches its high watermark, its epochs never decrease, and none exceeds the server's. KIP-595."""
        epochs = [entry.epoch for entry in me.log]
        return (me.hwm <= len(me.log) and epochs == sorted(epochs) and max(epochs, default=0) <= me.current_epoch) or (
            me.state in (ServerState.DEAD_NO_STATE, ServerState.ILLEGAL)
        )

    @invariant
    def leaders_know_their_followers(self, me: Server, peer: Server) -> bool:
        """A leader's end offset of a follower never exceeds the follower's log. KIP-595."""
        if me.current_epoch != peer.current_epoch or peer.state in (ServerState.DEAD_NO_STATE, ServerState.ILLEGAL):
            return True
        return me.state is not ServerState.LEADER or me.flwr_end_offset.get(peer.id, 0) <= len(peer.log)

    @invariant
    def disturbances_are_counted(self, shared: Shared) -> bool:
        """No counter of disruptions, crashes, restarts, voter changes or connectivity changes exceeds its limit."""
        counters = shared.counters
        return (
            counters.disruptive_ctr <= self.max_disruptions
            and counters.crash_ctr <= self.max_crashes
            and counters.restart_ctr <= self.max_restarts
            and counters.add_reconfig_ctr <= self.max_add_reconfigs
            and counters.remove_reconfig_ctr <= self.max_remove_reconfigs
            and shared.connectivity_ctr <= self.max_connectivity_changes
        )

    @invariant(reads=PrevoteMembership.leads)
    def servers_are_counted(self, shared: Shared, leads: Map[int, Config]) -> bool:
        """Started servers have consecutive ids and distinct disk ids, within MaxSpawnedServers."""
        started = shared.disk_id_gen
        numbers = range(1, self.init_cluster_size + started + 1)
        return set(leads) == set(numbers) and len(numbers) <= self.max_spawned_servers

    @invariant
    def servers_start_as_observers(self, me: Server) -> bool:
        """A server started later has a new disk id; a server in epoch 0 is unattached, with an empty log."""
        original = me.id <= self.init_cluster_size
        if (me.identity.disk_id == 0) != original or me.identity.disk_id > max(0, me.id - self.init_cluster_size):
            return False
        idle = me.state in (ServerState.UNATTACHED, ServerState.DEAD_NO_STATE, ServerState.ILLEGAL)
        return me.current_epoch > 0 or (idle and not me.log and me.leader is Nil.NIL)

    @invariant
    def fetches_have_positions(self, message: FetchRequest) -> bool:
        """A fetch goes to another server, at a possible log position. KIP-595, Fetch."""
        empty = message.fetch_offset <= 1
        sane = message.last_fetched_epoch <= message.replica_epoch and empty == (message.last_fetched_epoch == 0)
        return message.source != message.dest and sane and message.fetch_offset >= (message.replica_epoch > 0)

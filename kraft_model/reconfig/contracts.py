"""Contracts of `reconfig`: responses to messages, effects of messages, and internal steps.

They restate KIP-595 and KIP-853 where the specification agrees with them, else the comments on its actions. They share
no rule with the actions, so that a mistake in an action shows here. The messages, writes and budgets of an internal
step identify its action.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from kraftcheck.kraft_model.reconfig.membership import ReconfigMembership
from kraftcheck.kraft_model.reconfig.records import (
    AddedMember,
    BeginQuorumRequest,
    Command,
    Config,
    Entry,
    Error,
    FetchDiverging,
    FetchRejected,
    FetchRequest,
    FetchResponse,
    FetchSucceeded,
    JoinRequest,
    JoinResponse,
    Nil,
    RemovedMember,
    RequestVoteRequest,
    RequestVoteResponse,
    Result,
    Role,
    Server,
    ServerId,
    ServerState,
    Shared,
)
from kraftcheck.kraft_model.reconfig.rules import HasEpoch
from kraftcheck.spec import Map, ModelValue, Record, Step, invariant, step_invariant

EntryT = TypeVar("EntryT", bound=HasEpoch)
MemberT = TypeVar("MemberT")
MessageT = TypeVar("MessageT", bound=Record)


def epoch_and_offset_of_last_entry(log: Sequence[HasEpoch]) -> tuple[int, int]:
    """Return the epoch and the offset of the last entry of a log; (0, 0) for an empty log."""
    return (log[-1].epoch, len(log)) if log else (0, 0)


def entries_up_to_epoch(log: Sequence[EntryT], epoch: int) -> tuple[EntryT, ...]:
    """Return the entries up to an epoch."""
    return tuple(entry for entry in log if entry.epoch <= epoch)


def is_majority(members: frozenset[MemberT], group: frozenset[MemberT]) -> bool:
    return 2 * len(members & group) > len(members)


def majority_high_watermark(leader: Any, offsets: Mapping[Any, int], known: int) -> int:
    """Return the highest offset that a majority of the members holds; `known` if its entry is of another epoch."""
    members = leader.config.members
    for offset in reversed(range(1, len(leader.log) + 1)):
        having = {member for member in members if offsets.get(member, 0) >= offset}
        if is_majority(members, frozenset(having | {leader.id})):
            return offset if leader.log[offset - 1].epoch == leader.current_epoch else known
    return known


def last_configuration(log: tuple[Entry, ...], high_watermark: int) -> Config:
    """Return the last configuration of a log, marked as committed if the high watermark covers it."""
    for offset, entry in reversed(list(enumerate(log, 1))):
        if not isinstance(entry.value, ModelValue):
            return Config(entry.value.id, entry.value.members, offset <= high_watermark)
    return Config()


def may_change_members(leader: Server) -> bool:
    """Return whether a leader has no uncommitted configuration, and a committed entry of its epoch."""
    settled = leader.config == last_configuration(leader.log, leader.high_watermark) and leader.config.committed
    return (
        leader.state is ServerState.LEADER
        and settled
        and leader.current_epoch in {entry.epoch for entry in leader.log[: leader.high_watermark]}
    )


def has_removal_of(entries: tuple[Entry, ...], member: ServerId) -> bool:
    return any(isinstance(entry.value, RemovedMember) and entry.value.old == member for entry in entries)


def leader_with_member_change(leader: Server, command: Command, change: AddedMember | RemovedMember) -> Server:
    """Return a leader with an appended change of its members, in use at once."""
    log = (*leader.log, Entry(command, leader.current_epoch, change))
    return leader.but(log=log, config=Config(change.id, change.members, False))


def has_zero_end_offsets(server: Server, shared: Shared) -> bool:
    """Return whether a server records end offset 0 for every server ever started, and no other offset."""
    return set(server.end_offset) == shared.servers and not any(server.end_offset.values())


def sent_messages_of_type(step: Step, kind: type[MessageT]) -> list[MessageT]:
    return [message for message in step.sent if isinstance(message, kind)]


def sends_only(step: Step, *messages: Record) -> bool:
    """Return whether a step sends exactly `messages`, one copy of each, in any order."""
    return len(step.sent) == len(messages) and set(step.sent) == set(messages)


def consumes_request_and_sends_only_reply(step: Step, answer: Record) -> bool:
    """Return whether a step consumes the request, sends `answer` alone, and writes to no other server."""
    return step.sends == (("reply", answer),) and step.consumes and not (step.writes or step.spends)


def only_updates_receiver(step: Step) -> bool:
    """Return whether a step consumes a message, sends none, and changes no state but its server's."""
    return step.consumes and not (step.sends or step.puts or step.writes or step.spends)


def appended_client_values(before: Sequence[Any], after: Sequence[Any]) -> list[ModelValue]:
    """Return the clients' values among the entries of log `after` beyond the end of log `before`."""
    return [entry.value for entry in after[len(before) :] if isinstance(entry.value, ModelValue)]


def has_won_election(me: Server) -> bool:
    """Return whether a server is candidate with the votes of a majority."""
    return me.state is ServerState.CANDIDATE and is_majority(me.config.members, me.votes_granted)


def may_fetch_from(me: Server, peer: ServerId) -> bool:
    """Return whether a server may fetch from a peer: its leader, or any member for an unattached observer."""
    finds = me.role is Role.OBSERVER and me.state is ServerState.UNATTACHED
    return (me.state is ServerState.FOLLOWER and peer == me.leader) or (finds and peer in me.config.members)


class ReconfigContracts(ReconfigMembership):
    """Step invariants of messages and internal steps, and invariants of started servers."""

    # Votes

    @step_invariant
    def votes_are_answered(self, before: Server, message: RequestVoteRequest, step: Step) -> bool:
        """A server votes for a candidate with an up-to-date log exactly if it has no leader or other vote in the epoch.

        A request of an older epoch is fenced. Any server votes: KIP-853, Vote; KIP-595, Vote, Request Handling.
        """
        older, newer = message.epoch < before.current_epoch, message.epoch > before.current_epoch
        given = before.state is ServerState.VOTED and before.voted_for == message.source
        free = newer or before.state is ServerState.UNATTACHED or given
        long_enough = (message.last_log_epoch, message.last_log_offset) >= epoch_and_offset_of_last_entry(before.log)
        epoch, leader = max(before.current_epoch, message.epoch), Nil.NIL if newer else before.leader
        error, granted = Error.FENCED_LEADER_EPOCH if older else Nil.NIL, free and long_enough and not older
        answer = RequestVoteResponse(epoch, leader, granted, error, before.id, message.source)
        return consumes_request_and_sends_only_reply(step, answer) and not step.puts

    @step_invariant
    def votes_are_remembered(self, before: Server, after: Server, message: RequestVoteRequest, step: Step) -> bool:
        """A granted vote is kept; a newer epoch is entered without a leader. KIP-595, Vote.

        The response tells whether the vote is granted. A pending fetch stays pending while the state is unchanged.
        """
        granted = any(answer.vote_granted for answer in sent_messages_of_type(step, RequestVoteResponse))
        state, leader, voted_for = before.state, before.leader, before.voted_for
        if message.epoch > before.current_epoch:
            state, leader = ServerState.UNATTACHED, Nil.NIL
        if granted:
            state, leader, voted_for = ServerState.VOTED, Nil.NIL, message.source
        return after == before.but(
            current_epoch=max(before.current_epoch, message.epoch),
            state=state,
            leader=leader,
            voted_for=voted_for,
            pending_fetch=before.pending_fetch if before.state is state else Nil.NIL,
        )

    @step_invariant
    def votes_are_counted(self, before: Server, after: Server, message: RequestVoteResponse, step: Step) -> bool:
        """A candidate counts the granted votes of its epoch, one per server. KIP-595, Vote, Response Handling.

        Only voters do (the specification, HandleRequestVoteResponse). Apart from the votes, only state, epoch and
        leader may change.
        """
        stands = before.state is ServerState.CANDIDATE and message.epoch == before.current_epoch
        counts = stands and message.vote_granted
        votes = before.votes_granted | {message.source} if counts else before.votes_granted
        told = before.but(
            votes_granted=votes, state=after.state, current_epoch=after.current_epoch, leader=after.leader
        )
        return only_updates_receiver(step) and before.role is Role.VOTER and after == told

    # Leaders

    @step_invariant
    def announcements_are_followed(
        self, before: Server, after: Server, message: BeginQuorumRequest, step: Step
    ) -> bool:
        """A voter follows a leader that announces itself in an epoch that is not older, and restarts fetching.

        KIP-595, BeginQuorumEpoch. The restriction to voters is the specification's: by KIP-853 any replica would.
        """
        follows = before.but(
            state=ServerState.FOLLOWER, current_epoch=message.epoch, leader=message.source, pending_fetch=Nil.NIL
        )
        accepts = before.role is Role.VOTER and message.epoch >= before.current_epoch
        return only_updates_receiver(step) and accepts and after == follows

    @step_invariant
    def answers_tell_who_leads(
        self, before: Server, after: Server, message: RequestVoteResponse | FetchResponse, step: Step
    ) -> bool:
        """A response of an older epoch has no effect; a response of a newer epoch moves the server to that epoch.

        Within its epoch, a server without a leader follows the leader in the response. A candidate does so only with an
        error (the specification, MaybeHandleCommonResponse). KIP-595, Fetch and Vote, Response Handling.
        """
        known = after.current_epoch, after.state, after.leader
        told = before.current_epoch, before.state, before.leader
        leads = not isinstance(message.leader, Nil)
        alone = leads and before.leader is Nil.NIL and message.leader != before.id
        counts = isinstance(message, FetchResponse) or message.error is not Nil.NIL
        if message.epoch > before.current_epoch:
            told = message.epoch, ServerState.FOLLOWER if leads else ServerState.UNATTACHED, message.leader
        elif message.epoch == before.current_epoch and alone and counts:
            told = message.epoch, ServerState.FOLLOWER, message.leader
        if after.role is not before.role:  # a server whose role changes follows
            told = told[0], ServerState.FOLLOWER, told[2]
        return known == told

    # Fetching

    @step_invariant
    def fetches_are_answered(self, before: Server, message: FetchRequest, step: Step) -> bool:
        """A fetch is rejected, answered as diverging, or served, each exactly if its condition holds.

        A leader serves fetches of its epoch, at a position of its log. KIP-595, Fetch, Request Handling.
        """
        if before.state is not ServerState.LEADER:
            error: Error | Nil = Error.NOT_LEADER
        elif message.epoch != before.current_epoch:
            older = message.epoch < before.current_epoch
            error = Error.FENCED_LEADER_EPOCH if older else Error.UNKNOWN_LEADER
        else:
            error = Nil.NIL
        position = (message.last_fetched_epoch, message.fetch_offset)
        held = position == epoch_and_offset_of_last_entry(before.log[: message.fetch_offset])
        kind: type[FetchResponse] = FetchSucceeded if held else FetchDiverging
        result = Result.OK if held else Result.DIVERGING
        if error is not Nil.NIL:
            kind, result = FetchRejected, Result.NOT_OK
        answer = step.sent[0] if len(step.sent) == 1 else None
        if type(answer) is not kind or not consumes_request_and_sends_only_reply(step, answer):
            return False
        said = answer.result, answer.error, answer.source, answer.dest, answer.correlation
        return said == (result, error, before.id, message.source, message)

    @step_invariant
    def answers_tell_what_follows(self, before: Server, after: Server, message: FetchRequest, step: Step) -> bool:
        """A served fetch returns the next entry, and the high watermark up to the follower's new log end.

        A diverging one returns the end of the fetched epoch, or of the newest before it, in the leader's log. Each
        response has the epoch, and the leader if any. KIP-595, Fetch, Request Handling and Log Reconciliation.
        """
        (answer,) = step.sent if len(step.sent) == 1 else (None,)
        if not isinstance(answer, FetchResponse):
            return False
        if (answer.epoch, answer.leader) != (before.current_epoch, after.leader):
            return False
        if isinstance(answer, FetchSucceeded):
            following = before.log[message.fetch_offset :][:1]
            high_watermark = before.high_watermark if message.observer else self._agreed(before, message)
            covered = min(high_watermark, message.fetch_offset + 1)
            return (answer.entries, answer.hwm) == (following, covered)
        if isinstance(answer, FetchDiverging):
            parting = (answer.diverging_epoch, answer.diverging_end_offset)
            if parting != epoch_and_offset_of_last_entry(entries_up_to_epoch(before.log, message.last_fetched_epoch)):
                return False
        return answer.hwm == before.high_watermark

    @step_invariant
    def fetches_are_noted(
        self, before: Server, after: Server, message: FetchRequest, step: Step, shared: Shared
    ) -> bool:
        """A leader records each voter's end offset, and commits the offset of a majority in its own epoch.

        It resigns exactly if it commits its own removal. Fetches of observers, and rejected ones, change nothing.
        KIP-595, Fetch; KIP-853, Fetch, Handling, and Removing voters.
        """
        if message.observer or not sent_messages_of_type(step, FetchSucceeded):
            return after == before and not step.puts
        agreed = self._agreed(before, message)
        noted = before.but(end_offset=self._noted(before, message))
        if agreed > before.high_watermark:
            noted = noted.but(high_watermark=agreed, config=last_configuration(before.log, agreed))
        if not has_removal_of(before.log[before.high_watermark : agreed], before.id):
            return after == noted
        return has_zero_end_offsets(after, shared) and after == noted.but(
            role=Role.OBSERVER,
            state=ServerState.UNATTACHED,
            leader=Nil.NIL,
            votes_granted=frozenset(),
            high_watermark=0,
            end_offset=after.end_offset,
        )

    @step_invariant
    def clients_are_told_what_is_committed(
        self, before: Server, message: FetchRequest, step: Step, shared: Shared
    ) -> bool:
        """A client's value is acknowledged exactly when it is committed. The specification's `_acked`."""
        told = dict(step.puts).get("acked", shared.acked)
        advances = sent_messages_of_type(step, FetchSucceeded) and not message.observer
        end = self._agreed(before, message) if advances else 0
        committed = {entry.value for entry in before.log[before.high_watermark : end]}
        tells = {value: True for value, was in shared.acked.items() if was is False and value in committed}
        return {name for name, _ in step.puts} <= {"acked"} and dict(told.items()) == {
            **dict(shared.acked.items()),
            **tells,
        }

    def _noted(self, leader: Server, message: FetchRequest) -> Map[ServerId, int]:
        """Return the end offsets that a leader knows after it has recorded the offset in a voter's fetch."""
        known = message.source in leader.end_offset
        return leader.end_offset.put(message.source, message.fetch_offset) if known else leader.end_offset

    def _agreed(self, leader: Server, message: FetchRequest) -> int:
        """Return a leader's high watermark after it has recorded the offset in a voter's fetch."""
        return majority_high_watermark(leader, self._noted(leader, message), leader.high_watermark)

    # Fetched

    @step_invariant
    def only_awaited_answers_count(self, before: Server, after: Server, message: FetchResponse, step: Step) -> bool:
        """A server accepts only the response to its pending fetch, which is then no longer pending. KIP-595, Fetch."""
        waited = before.pending_fetch == message.correlation and after.pending_fetch is Nil.NIL
        return (
            only_updates_receiver(step)
            and waited
            and (after.voted_for, after.votes_granted) == (before.voted_for, before.votes_granted)
        )

    @step_invariant
    def what_is_fetched_is_kept(self, before: Server, after: Server, message: FetchResponse, step: Step) -> bool:
        """A follower appends the fetched entries with the leader's high watermark, or truncates its log.

        The kept log ends at or before the diverging epoch and offset. KIP-595, Fetch, Response Handling.
        """
        log, high_watermark = before.log, before.high_watermark
        if message.epoch == before.current_epoch:
            if isinstance(message, FetchSucceeded):
                log, high_watermark = log + message.entries, message.hwm
            elif isinstance(message, FetchDiverging):
                parting = (message.diverging_epoch, message.diverging_end_offset)
                log = tuple(one for offset, one in enumerate(log, 1) if (one.epoch, offset) <= parting)
        return (after.log, after.high_watermark) == (log, high_watermark)

    @step_invariant
    def followers_use_what_their_logs_say(
        self, before: Server, after: Server, message: FetchResponse, step: Step, shared: Shared
    ) -> bool:
        """A served follower uses its log's last configuration, and is a voter if it is a member in it.

        KIP-853, VotersRecord, Handling. Other servers keep configuration and role.
        """
        served = isinstance(message, FetchSucceeded | FetchDiverging) and message.epoch == before.current_epoch
        if not served:
            return (after.config, after.role, after.end_offset) == (before.config, before.role, before.end_offset)
        config = last_configuration(after.log, message.hwm)
        role = Role.VOTER if before.id in config.members else Role.OBSERVER
        offsets = {server: before.end_offset.get(server, 0) for server in shared.servers}
        return (after.config, after.role) == (config, role) and dict(after.end_offset.items()) == offsets

    # Joining

    @step_invariant
    def joins_are_answered(self, before: Server, after: Server, message: JoinRequest, step: Step) -> bool:
        """A leader adds a server if no change is uncommitted and an entry of its epoch is committed; else it waits.

        A server that does not lead rejects the request; so does a leader for a member. KIP-853, AddVoter, Handling.
        """
        leads, joiner, members = before.state is ServerState.LEADER, message.source, before.config.members
        error: Error | Nil = Error.NOT_LEADER if not leads else Error.ALREADY_MEMBER
        result, follows = Result.NOT_OK, after == before
        if leads and joiner not in members:
            error, result = Nil.NIL, Result.OK
            change = AddedMember(before.config.id + 1, joiner, members | {joiner})
            offsets = before.end_offset if joiner in before.end_offset else before.end_offset.put(joiner, 0)
            same = after == leader_with_member_change(before, Command.ADD_SERVER, change).but(end_offset=offsets)
            follows = same and len(members) < self.max_cluster_size and may_change_members(before)
        answer = JoinResponse(before.current_epoch, before.leader, result, error, dest=joiner, source=before.id)
        return follows and consumes_request_and_sends_only_reply(step, answer) and not step.puts

    @step_invariant
    def refusals_to_join_change_nothing(self, before: Server, after: Server, message: JoinResponse, step: Step) -> bool:
        """An observer drops a rejection, and may request to join again. The specification, HandleRejectJoinResponse."""
        refused = before.role is Role.OBSERVER and message.result is Result.NOT_OK
        return only_updates_receiver(step) and refused and after == before

    # Elections

    @step_invariant
    def candidates_ask_all_members(self, before: Server, after: Server, step: Step) -> bool:
        """A candidate enters a new epoch, votes for itself, and requests votes of all members with its log end.

        It is a voter of its own configuration, and not a leader. KIP-595, Vote; KIP-853, VotersRecord.
        """
        if "elections" not in step.spends and not sent_messages_of_type(step, RequestVoteRequest):
            return True
        epoch, (last_epoch, last_offset) = before.current_epoch + 1, epoch_and_offset_of_last_entry(before.log)
        peers = [member for member in before.config.members if member != before.id]
        requests = [RequestVoteRequest(epoch, last_epoch, last_offset, before.id, peer) for peer in peers]
        states = (ServerState.FOLLOWER, ServerState.CANDIDATE, ServerState.UNATTACHED)
        may_stand = before.role is Role.VOTER and len(peers) < len(before.config.members) and before.state in states
        stands = before.but(
            state=ServerState.CANDIDATE,
            current_epoch=epoch,
            voted_for=before.id,
            votes_granted=frozenset({before.id}),
            leader=Nil.NIL,
            pending_fetch=Nil.NIL,
        )
        return may_stand and after == stands and sends_only(step, *requests) and "elections" in step.spends

    @step_invariant
    def elected_leaders_announce_themselves(self, before: Server, after: Server, step: Step, shared: Shared) -> bool:
        """A candidate with a majority becomes leader, clears its end offsets, and announces itself to all members.

        KIP-595, Leader Election and BeginQuorumEpoch; KIP-853, BeginQuorumEpoch.
        """
        begins = after.state is ServerState.LEADER and before.state is not after.state
        elected = before.state is ServerState.CANDIDATE and after.leader == before.id
        if not begins and not elected and not sent_messages_of_type(step, BeginQuorumRequest):
            return True
        members = before.config.members
        told = [BeginQuorumRequest(before.current_epoch, before.id, one) for one in members - {before.id}]
        leads = before.but(state=ServerState.LEADER, leader=before.id, end_offset=after.end_offset)
        return (
            has_won_election(before)
            and after == leads
            and has_zero_end_offsets(after, shared)
            and sends_only(step, *told)
        )

    # Fetching

    @step_invariant
    def fetches_go_to_leaders(self, before: Server, after: Server, step: Step) -> bool:
        """A follower fetches from its leader at its log end, one fetch at a time.

        An unattached observer fetches from a member. KIP-595, Fetch; KIP-853, Endpoints information.
        """
        asks = isinstance(after.pending_fetch, FetchRequest) and after.pending_fetch != before.pending_fetch
        fetches = sent_messages_of_type(step, FetchRequest)
        if not asks and not fetches:
            return True
        if len(fetches) != 1 or before.pending_fetch is not Nil.NIL:
            return False
        peer, (last_epoch, end) = fetches[0].dest, epoch_and_offset_of_last_entry(before.log)
        due = FetchRequest(before.current_epoch, end, last_epoch, before.role is Role.OBSERVER, before.id, peer)
        asks_one = fetches == [due] and peer != before.id and may_fetch_from(before, peer)
        return asks_one and after == before.but(pending_fetch=due)

    # Clients and administrators

    @step_invariant
    def clients_values_are_appended(self, before: Server, after: Server, step: Step, shared: Shared) -> bool:
        """A leader appends a client's value once, in its epoch, without an acknowledgement yet.

        KIP-595, Log Replication. The specification's history counts it for the epoch.
        """
        put, new = dict(step.puts), appended_client_values(before.log, after.log)
        if "value_ctr" not in put and (not new or step.consumes):
            return True
        if len(new) != 1 or before.state is not ServerState.LEADER or shared.acked[new[0]] is not Nil.NIL:
            return False
        (value,), epoch = new, before.current_epoch
        counts = shared.value_ctr
        counted = (*counts[: epoch - 1], counts[epoch - 1] + 1, *counts[epoch:])
        follows = after == before.but(log=(*before.log, Entry(Command.APPEND, epoch, value)))
        told = put == {"acked": shared.acked.put(value, False), "value_ctr": counted}
        return follows and told and counted[epoch - 1] <= self.max_values_per_epoch and not step.sends

    @step_invariant
    def removals_are_appended(self, before: Server, after: Server, step: Step) -> bool:
        """A leader removes one member, with no change uncommitted and a committed entry of its epoch.

        It uses the new members at once; if it removes itself, it leads as observer. Nothing else changes. KIP-853,
        RemoveVoter, Handling, and Removing voters.
        """
        appends = any(one.command is Command.REMOVE_SERVER for one in after.log[len(before.log) :])
        if "remove_reconfigs" not in step.spends and (not appends or step.consumes):
            return True
        members = before.config.members
        gone = members - after.config.members
        if not may_change_members(before) or len(gone) != 1 or len(members) <= self.min_cluster_size:
            return False
        (removed,) = gone
        change = RemovedMember(before.config.id + 1, removed, members - {removed})
        role = Role.OBSERVER if removed == before.id else before.role
        return (
            after == leader_with_member_change(before, Command.REMOVE_SERVER, change).but(role=role) and not step.sends
        )

    @step_invariant
    def observers_ask_to_join(self, before: Server, after: Server, step: Step) -> bool:
        """An observer outside its configuration may send a join request to its leader. KIP-853, AddVoter."""
        if "add_reconfigs" not in step.needs and not sent_messages_of_type(step, JoinRequest):
            return True
        if isinstance(before.leader, Nil) or before.leader == before.id:
            return False
        outside = before.role is Role.OBSERVER and before.id not in before.config.members
        request = JoinRequest(before.current_epoch, dest=before.leader, source=before.id)
        return outside and after == before and sends_only(step, request) and not step.consumes

    # Restarts

    @step_invariant
    def restarts_keep_what_is_stored(self, before: Server, after: Server, step: Step, shared: Shared) -> bool:
        """A restarted server keeps epoch, vote, leader, log and configuration, and loses its volatile state.

        A leader does not lead after a restart: KIP-595, Quorum State; the specification, RestartWithState.
        """
        if "restarts" not in step.spends or step.writes:
            return True
        state = before.state
        if state is ServerState.LEADER:
            state = ServerState.RESIGNED if before.role is Role.VOTER else ServerState.UNATTACHED
        kept = before.but(
            state=state,
            leader=before.leader if state is before.state else Nil.NIL,
            votes_granted=frozenset(),
            pending_fetch=Nil.NIL,
            high_watermark=0,
            end_offset=after.end_offset,
        )
        return (
            has_zero_end_offsets(after, shared)
            and after == kept
            and before.state is not ServerState.DEAD_NO_STATE
            and not step.sends
        )

    @step_invariant
    def blank_disks_have_new_identities(self, before: Server, after: Server, step: Step, shared: Shared) -> bool:
        """A server that lost its disk starts empty, with a new identity. KIP-853, Key Terms.

        It is a restart: "the number of restarts with or without state" is limited (the specification, MaxRestarts).
        """
        if not step.writes:
            return True
        (blank,) = step.writes if len(step.writes) == 1 else (before,)
        new = ServerId(before.id.host, shared.disk_id_gen + 1)
        knows_nothing = blank == Server(new, end_offset=blank.end_offset) and not any(blank.end_offset.values())
        put = {"servers": shared.servers | {new}, "disk_id_gen": new.disk_id}
        died = before.but(role=Role.DEAD_NO_STATE, state=ServerState.DEAD_NO_STATE)
        old = after in (before, died) and before.state is not ServerState.DEAD_NO_STATE
        return knows_nothing and old and dict(step.puts) == put and "restarts" in step.spends

    # Servers that start

    @invariant
    def servers_start_as_observers(self, me: Server) -> bool:
        """A server in epoch 0 is an observer with an empty log and its first fetch pending. KIP-853, Key Terms."""
        if me.current_epoch > 0 or me.state in (ServerState.DEAD_NO_STATE, ServerState.ILLEGAL):
            return True
        fetch = me.pending_fetch
        dest = me.id if isinstance(fetch, Nil) else fetch.dest
        waits = fetch in (Nil.NIL, FetchRequest(0, 0, 0, True, me.id, dest))
        return waits and me.role is Role.OBSERVER and not me.log and me.leader is Nil.NIL

    @invariant(reads=ReconfigMembership.leads)
    def every_server_is_there(self, shared: Shared, leads: Map[ServerId, bool]) -> bool:
        """Exactly the servers ever started have a state. The specification's `servers`."""
        return set(leads) == shared.servers

    @invariant
    def identities_are_counted(self, shared: Shared) -> bool:
        """Started servers have distinct disk ids, within MaxSpawnedServers. KIP-853, Key Terms."""
        numbers = sorted(server.disk_id for server in shared.servers)
        started = len(numbers) - self.init_cluster_size
        ids = [0] * self.init_cluster_size + list(range(1, started + 1))
        room = max(self.max_spawned_servers, self.init_cluster_size)
        return numbers == ids and shared.disk_id_gen == started and len(numbers) <= room

    @invariant
    def clusters_keep_their_size(self, me: Server) -> bool:
        """Every configuration stays within the cluster sizes. The specification, MaxClusterSize."""
        members = len(me.config.members)
        most = max(self.max_cluster_size, self.init_cluster_size)
        return me.config.id == 0 or self.min_cluster_size <= members <= most

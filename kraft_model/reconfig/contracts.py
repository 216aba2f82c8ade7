"""Contracts of `reconfig`: how a server answers each message, and what it makes of it.

They say what KIP-595 and KIP-853 say, where the specification agrees with them, and else what the comments on the
specification's action say. They share no rule with the actions, so that a slip in one shows here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from kraftcheck.kraft_model.reconfig.base import ReconfigBase
from kraftcheck.kraft_model.reconfig.log import HasEpoch
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
from kraftcheck.spec import Map, ModelValue, Record, Step, step_invariant

AnyEntry = TypeVar("AnyEntry", bound=HasEpoch)
Member = TypeVar("Member")


def log_end(log: Sequence[HasEpoch]) -> tuple[int, int]:
    """Return the epoch and the offset of the last entry of a log; (0, 0) where it is empty."""
    return (log[-1].epoch, len(log)) if log else (0, 0)


def up_to_epoch(log: Sequence[AnyEntry], epoch: int) -> tuple[AnyEntry, ...]:
    """Return the entries that are not of a newer epoch."""
    return tuple(entry for entry in log if entry.epoch <= epoch)


def majority(members: frozenset[Member], group: frozenset[Member]) -> bool:
    """Return whether more than half of the members are in a group."""
    return 2 * len(members & group) > len(members)


def last_configuration(log: tuple[Entry, ...], high_watermark: int) -> Config:
    """Return the newest configuration of a log, none where it has none; the high watermark covers what is committed."""
    for offset, entry in reversed(list(enumerate(log, 1))):
        if not isinstance(entry.value, ModelValue):
            return Config(entry.value.id, entry.value.members, offset <= high_watermark)
    return Config()


def may_change_members(leader: Server) -> bool:
    """Return whether a leader has no change of its members under way, and has committed something in its epoch."""
    settled = leader.config == last_configuration(leader.log, leader.high_watermark) and leader.config.committed
    return settled and leader.current_epoch in {entry.epoch for entry in leader.log[: leader.high_watermark]}


def changes_members(before: Server, after: Server, entry: Entry) -> bool:
    """Return whether a leader appends a change of its members, and uses it before it is committed."""
    change = entry.value
    assert not isinstance(change, ModelValue)
    used = (after.config.id, after.config.members, after.config.committed)
    return after.log == (*before.log, entry) and used == (change.id, change.members, False)


def only_answers(step: Step, answer: Record) -> bool:
    """Return whether a step takes the request away, sends one answer, and does nothing else beyond its server."""
    return step.sends == (("reply", answer),) and step.consumes and not (step.writes or step.spends)


def only_listens(step: Step) -> bool:
    """Return whether a step takes a message away, and does nothing else beyond its server."""
    return step.consumes and not (step.sends or step.puts or step.writes or step.spends)


class ReconfigContracts(ReconfigBase):
    """Step invariants of messages."""

    # Votes

    @step_invariant
    def votes_are_answered(self, before: Server, message: RequestVoteRequest, step: Step) -> bool:
        """A vote is granted if, and only if, it is still free and the candidate's log ends no earlier.

        A request of an older epoch is fenced. Any server votes: KIP-853, Vote; KIP-595, Vote, Request Handling.
        """
        older, newer = message.epoch < before.current_epoch, message.epoch > before.current_epoch
        given = before.state is ServerState.VOTED and before.voted_for == message.source
        free = newer or before.state is ServerState.UNATTACHED or given
        long_enough = (message.last_log_epoch, message.last_log_offset) >= log_end(before.log)
        answer = RequestVoteResponse(
            epoch=max(before.current_epoch, message.epoch),
            leader=Nil.NIL if newer else before.leader,
            vote_granted=free and long_enough and not older,
            error=Error.FENCED_LEADER_EPOCH if older else Nil.NIL,
            source=before.id,
            dest=message.source,
        )
        return only_answers(step, answer) and not step.puts

    @step_invariant
    def votes_are_remembered(self, before: Server, after: Server, message: RequestVoteRequest, step: Step) -> bool:
        """Who grants its vote keeps it; who hears of a newer epoch enters it, and follows nobody there. KIP-595, Vote.

        The answer tells whether it is granted. What a server fetches it goes on waiting for, unless its state changes.
        """
        granted = any(isinstance(answer, RequestVoteResponse) and answer.vote_granted for answer in step.sent)
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
        """A candidate counts the votes that it is granted in its epoch, each once. KIP-595, Vote, Response Handling.

        Only voters do (the specification, HandleRequestVoteResponse), and nothing but who leads may change besides.
        """
        stands = before.state is ServerState.CANDIDATE and message.epoch == before.current_epoch
        counts = stands and message.vote_granted
        votes = before.votes_granted | {message.source} if counts else before.votes_granted
        told = before.but(
            votes_granted=votes, state=after.state, current_epoch=after.current_epoch, leader=after.leader
        )
        return only_listens(step) and before.role is Role.VOTER and after == told

    # Who leads

    @step_invariant
    def announcements_are_followed(
        self, before: Server, after: Server, message: BeginQuorumRequest, step: Step
    ) -> bool:
        """A voter follows who announces itself in an epoch that is not older, and fetches anew.

        KIP-595, BeginQuorumEpoch. That only voters do is the specification's: by KIP-853 any replica would.
        """
        follows = before.but(
            state=ServerState.FOLLOWER, current_epoch=message.epoch, leader=message.source, pending_fetch=Nil.NIL
        )
        accepts = before.role is Role.VOTER and message.epoch >= before.current_epoch
        return only_listens(step) and accepts and after == follows

    @step_invariant
    def answers_tell_who_leads(
        self, before: Server, after: Server, message: RequestVoteResponse | FetchResponse, step: Step
    ) -> bool:
        """An answer of an older epoch tells nothing, one of a newer epoch moves a server there.

        In one epoch a server that follows nobody follows whom the answer names; a candidate only where it is refused
        with an error (the specification, MaybeHandleCommonResponse). KIP-595, Fetch and Vote, Response Handling.
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
        if after.role is not before.role:  # a server that becomes voter or observer follows
            told = told[0], ServerState.FOLLOWER, told[2]
        return known == told

    # Fetching

    @step_invariant
    def fetches_are_answered(self, before: Server, message: FetchRequest, step: Step) -> bool:
        """A fetch is refused, sent back to where the logs part, or served: each if, and only if, it is due.

        Only a leader in the fetch's epoch serves, from a position that its log has. KIP-595, Fetch, Request Handling.
        """
        if before.state is not ServerState.LEADER:
            error: Error | Nil = Error.NOT_LEADER
        elif message.epoch != before.current_epoch:
            older = message.epoch < before.current_epoch
            error = Error.FENCED_LEADER_EPOCH if older else Error.UNKNOWN_LEADER
        else:
            error = Nil.NIL
        position = (message.last_fetched_epoch, message.fetch_offset)
        held = position == log_end(before.log[: message.fetch_offset])
        kind: type[FetchResponse] = FetchSucceeded if held else FetchDiverging
        result = Result.OK if held else Result.DIVERGING
        if error is not Nil.NIL:
            kind, result = FetchRejected, Result.NOT_OK
        (answer,) = step.sent if len(step.sent) == 1 else (None,)
        if type(answer) is not kind or not only_answers(step, answer):
            return False
        said = answer.result, answer.error, answer.source, answer.dest, answer.correlation
        return said == (result, error, before.id, message.source, message)

    @step_invariant
    def answers_tell_what_follows(self, before: Server, after: Server, message: FetchRequest, step: Step) -> bool:
        """A served fetch brings the next entry and the high watermark as far as the follower then has the log.

        One that diverges brings the end of the fetched epoch, or of the newest before it, in the leader's log. All
        bring the epoch, and the leader if there still is one. KIP-595, Fetch, Request Handling and Log Reconciliation.
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
            if parting != log_end(up_to_epoch(before.log, message.last_fetched_epoch)):
                return False
        return answer.hwm == before.high_watermark

    @step_invariant
    def fetches_are_noted(
        self, before: Server, after: Server, message: FetchRequest, step: Step, shared: Shared
    ) -> bool:
        """A leader notes what each voter has, and commits what a majority has, with an entry of its epoch last.

        It resigns where that commits its own removal, and only there. Observers and who is refused change nothing.
        KIP-595, Fetch; KIP-853, Fetch, Handling, and Removing voters.
        """
        served = any(isinstance(one, FetchSucceeded) for one in step.sent) and not message.observer
        if not served:
            return after == before and not step.puts
        agreed = self._agreed(before, message)
        noted = before.but(end_offset=self._noted(before, message))
        if agreed > before.high_watermark:
            noted = noted.but(high_watermark=agreed, config=last_configuration(before.log, agreed))
        committed = [entry.value for entry in before.log[before.high_watermark : agreed]]
        if not any(isinstance(value, RemovedMember) and value.old == before.id for value in committed):
            return after == noted
        forgotten = all(offset == 0 for offset in after.end_offset.values()) and set(after.end_offset) == shared.servers
        return forgotten and after == noted.but(
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
        """A client is told of its value when that is committed, and not before. The specification's `_acked`."""
        told = dict(step.puts).get("acked", shared.acked)
        advances = any(isinstance(one, FetchSucceeded) for one in step.sent) and not message.observer
        end = self._agreed(before, message) if advances else 0
        committed = {entry.value for entry in before.log[before.high_watermark : end]}
        tells = {value: True for value, was in shared.acked.items() if was is False and value in committed}
        return {name for name, _ in step.puts} <= {"acked"} and dict(told.items()) == {
            **dict(shared.acked.items()),
            **tells,
        }

    def _noted(self, leader: Server, message: FetchRequest) -> Map[ServerId, int]:
        """Return what a leader knows of others' logs once a voter's fetch is noted."""
        known = message.source in leader.end_offset
        return leader.end_offset.put(message.source, message.fetch_offset) if known else leader.end_offset

    def _agreed(self, leader: Server, message: FetchRequest) -> int:
        """Return the high watermark once a voter's fetch is noted. A leader that is no member counts others only."""
        offsets = self._noted(leader, message)
        members = leader.config.members
        for offset in reversed(range(1, len(leader.log) + 1)):
            having = {member for member in members if offsets.get(member, 0) >= offset}
            if majority(members, frozenset(having | {leader.id})):
                return offset if leader.log[offset - 1].epoch == leader.current_epoch else leader.high_watermark
        return leader.high_watermark

    # Fetched

    @step_invariant
    def only_awaited_answers_count(self, before: Server, after: Server, message: FetchResponse, step: Step) -> bool:
        """A server takes the answer to the fetch that it waits for, and then waits for none. KIP-595, Fetch."""
        waited = before.pending_fetch == message.correlation and after.pending_fetch is Nil.NIL
        return (
            only_listens(step)
            and waited
            and (after.voted_for, after.votes_granted)
            == (
                before.voted_for,
                before.votes_granted,
            )
        )

    @step_invariant
    def what_is_fetched_is_kept(self, before: Server, after: Server, message: FetchResponse, step: Step) -> bool:
        """A follower appends what it is sent, with the leader's high watermark, or truncates to where the logs part.

        What it keeps is not behind the diverging epoch and offset. KIP-595, Fetch, Response Handling.
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
        """A server that was served uses the newest configuration of its log, and is voter where that has it.

        KIP-853, VotersRecord, Handling. Others keep configuration and role.
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
        """A leader lets a server in, if no change is under way and its epoch has committed something; else that waits.

        Who does not lead refuses, and so does the leader where the server is a member. KIP-853, AddVoter, Handling.
        """
        leads, joiner, members = before.state is ServerState.LEADER, message.source, before.config.members
        error: Error | Nil = Error.NOT_LEADER if not leads else Error.ALREADY_MEMBER
        result, follows = Result.NOT_OK, after == before
        if leads and joiner not in members:
            error, result = Nil.NIL, Result.OK
            change = AddedMember(before.config.id + 1, joiner, members | {joiner})
            appends = changes_members(before, after, Entry(Command.ADD_SERVER, before.current_epoch, change))
            begins = joiner in before.end_offset
            offsets = before.end_offset if begins else before.end_offset.put(joiner, 0)
            same = after == before.but(log=after.log, config=after.config, end_offset=offsets)
            room = len(members) < self.max_cluster_size
            follows = appends and same and room and may_change_members(before)
        answer = JoinResponse(before.current_epoch, before.leader, result, error, dest=joiner, source=before.id)
        return follows and only_answers(step, answer) and not step.puts

    @step_invariant
    def refusals_to_join_change_nothing(self, before: Server, after: Server, message: JoinResponse, step: Step) -> bool:
        """An observer drops a refusal, and may ask again. The specification, HandleRejectJoinResponse."""
        refused = before.role is Role.OBSERVER and message.result is Result.NOT_OK
        return only_listens(step) and refused and after == before

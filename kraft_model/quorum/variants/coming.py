"""Changes of KRaft that are proposed or under way, each a variant; their results are in `docs/findings.md`.

A proposal whose text leaves a rule open is modelled by its public sources alone, and its finding says so.
"""

from __future__ import annotations

from collections.abc import Iterator

from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.contracts.kip_rules import is_same_replica, update_voter_error
from kraftcheck.kraft_model.quorum.records import (
    ADMIN,
    ENDED_MODES,
    Admin,
    ApiVersionsRequest,
    ApiVersionsResponse,
    Batch,
    Change,
    Error,
    FetchRequest,
    Key,
    LogRecord,
    Mode,
    Nil,
    Operation,
    Replica,
    Shared,
    UpdateVoterRequest,
    Voter,
    Voters,
)
from kraftcheck.kraft_model.quorum.rules import Log, matching_voter, replica_keys
from kraftcheck.kraft_model.quorum.starts import fetch_steps
from kraftcheck.kraft_model.quorum.voters import ChangeOutcome
from kraftcheck.spec import (
    Map,
    ModelValue,
    Record,
    Step,
    Steps,
    bound,
    environment,
    internal,
    invariant,
    ordered,
    projection,
    reachable,
    step_invariant,
)
from kraftcheck.spec.language.semantics import Take, scenario, take


class RemovalRequests(Shared):
    """The shared state with the voters that an administrator has asked to remove, and whose answer is outstanding."""

    asked: frozenset[Key] = frozenset()


class RemovedLater(Quorum, variant="removed-later"):
    """An administrator names a voter as it is at first, and its RemoveVoter is served later (KIP-853, "RemoveVoter").

    It repeats the request, to any leader, until the request is accepted.
    """

    configuration = "coming.removed-by-controller-id"
    shared_type = RemovalRequests

    @environment
    def decide_removal(self, shared: RemovalRequests) -> Steps:
        """An administrator decides to remove an initial voter."""
        for host in ordered(self.initial_voters):
            yield Step().put(asked=shared.asked | {Key(host)}).spend("removed_voters")

    @internal
    def remove_voter(self, me: Replica, shared: RemovalRequests) -> Steps:  # type: ignore[override] # it reads no peers
        """A leader accepts an administrator's RemoveVoter (KIP-853, "RemoveVoter")."""
        for key in ordered(shared.asked):
            outcome = self.begin_removing(me, key, ADMIN)
            if outcome[2] is None:
                step = self.outcome_step(me, shared, outcome, Operation.REMOVE_VOTER, ADMIN, consumes=False)
                yield step.put(asked=shared.asked - {key})

    @scenario
    def replaced_disk(self) -> Iterator[Take]:
        """Three voters: 3 got a new disk and removed its former voter, as an administrator has also decided to."""
        one, two, three = self.chosen(3)
        yield from self.elected()
        yield take("DecideRemoval", result=lambda state: Key(three) in state.shared.asked)
        yield take("LoseDisk", three)
        yield take("FetchFromBootstrapServer", three)
        for _ in range(2):
            yield take("HandleFetchRequest", one, source=three, directory=2)
            yield take("HandleFetchResponse", three, source=one)
        yield take("Join", three)
        yield take("HandleRemoveVoterRequest", one, source=three)
        yield from fetch_steps(two, one, times=2)
        yield take("HandleJoinResponse", three)

    @step_invariant
    def served_removals_are_appended(self, before: Replica, after: Replica, step: Step) -> bool:
        """A RemoveVoter counts as served once the leader has appended a record (KIP-853, "RemoveVoter", step 4)."""
        return "asked" not in dict(step.puts) or len(after.log) == len(before.log) + 1


def outcome_with_requested_key(outcome: ChangeOutcome, key: Key) -> ChangeOutcome:
    """Return the outcome of a request with the replica key that its sender meant."""
    after, sends, error = outcome
    change = after.change
    return (
        (after.but(change=change.but(asked=key)) if isinstance(change, Change) and not error else after),
        sends,
        error,
    )


class RemovedByControllerId(RemovedLater, variant="removed-by-controller-id"):
    """An administrator's RemoveVoter names an id, and the leader takes its current directory id (KIP-1141).

    KAFKA-18775. A joining controller still names its former directory id.
    """

    def begin_removing(self, me: Replica, key: Key, client: ModelValue) -> ChangeOutcome:
        if client != ADMIN:
            return super().begin_removing(me, key, client)
        known = next((voter.key for voter in ordered(me.voters) if voter.key.id == key.id), key)
        return outcome_with_requested_key(super().begin_removing(me, known, client), key)


class AddedByControllerId(Quorum, variant="added-by-controller-id"):
    """An administrator's AddVoter names an id, and the leader takes the directory id of an observer (KIP-1141).

    KAFKA-18775. Of several observers with the id the leader takes the one with the oldest directory.
    """

    configuration = "coming.added-by-controller-id"

    def begin_adding(self, me: Replica, voter: Voter, client: ModelValue) -> ChangeOutcome:
        observers = [
            key for key in ordered(me.offsets) if key.id == voter.key.id and matching_voter(me.voters, key) is None
        ]
        if client != ADMIN or not observers:
            return super().begin_adding(me, voter, client)
        return outcome_with_requested_key(super().begin_adding(me, voter.but(key=observers[0]), client), voter.key)

    @step_invariant
    def oldest_observers_are_taken(self, before: Replica, after: Replica, step: Step) -> bool:
        """An administrator's AddVoter takes the oldest directory id among the observers with its id (KIP-1141)."""
        change = after.change
        if step.spends != ("added_voters",) or not isinstance(change, Change) or not isinstance(change.asked, Key):
            return True
        known = [key for key in before.offsets if key.id == change.asked.id and key not in replica_keys(before.voters)]
        directories = sorted(key.directory for key in known) or [change.asked.directory]
        assert isinstance(change.voter, Voter)
        meant_newest = change.asked.directory >= directories[-1]
        return meant_newest and change.voter.key == Key(change.asked.id, directories[0])


class UpdatedEndpointChecked(Quorum, variant="updates-checked"):
    """A leader first asks the endpoint that UpdateVoter reports by ApiVersions, and the update is pending meanwhile.

    `UpdateVoterHandler`; KAFKA-20661, merged after 4.4. An endpoint that answers is appended, and the voter has its
    answer at once. At kraft.version 0 the update is kept in memory, as before.
    """

    configuration = "coming.update-of-the-dead"

    def begin_updating(self, me: Replica, request: UpdateVoterRequest) -> ChangeOutcome:
        error = self.update_error(me, request)
        known = self.voter_to_update(me, request.voter.key)
        if error is not None or known is None or me.version == 0:
            return super().begin_updating(me, request)
        change = Change(Operation.UPDATE_VOTER, request.voter, False, 0, request.source, request)
        question = ApiVersionsRequest(me.epoch, me.id, request.source, request.voter.endpoint)
        return me.but(change=change), [question], None

    def add_if_caught_up(self, me: Replica) -> tuple[Replica, list[Record]]:
        change = me.change
        if not isinstance(change, Change) or change.operation is not Operation.UPDATE_VOTER or not change.checked:
            return super().add_if_caught_up(me)
        assert isinstance(change.voter, Voter)
        if change.offset > 0:
            return me, []
        known = self.voter_to_update(me, change.voter.key)
        assert known is not None
        appended = self.append_voters(me, (me.voters - {known}) | {change.voter}, change)
        return appended.but(change=Nil.NIL), self.answer(me, change.operation, Error.NONE, change.client)

    @scenario
    def update_of_the_dead(self) -> Iterator[Take]:
        """The first voter leads; the second restarted with another endpoint, sent UpdateVoter and crashed for good."""
        two = ordered(self.initial_voters)[1]
        yield from self.elected()
        yield take("MoveEndpoint", two)
        yield take("SendUpdateVoter", two)
        yield take("Crash", two)

    @reachable(without=["ExpireOperation", "FetchTimeout"])
    def changes_end(self, me: Replica) -> bool:
        """A voter change can end before it times out: it is committed or answered (KIP-853, "Voter changes")."""
        return isinstance(me.change, Nil)

    @step_invariant
    def updates_are_pending(self, before: Replica, after: Replica, message: UpdateVoterRequest, step: Step) -> bool:
        """A valid update is the pending change, and ApiVersions goes to its endpoint (KAFKA-20661)."""
        known = [voter for voter in before.voters if is_same_replica(voter.key, message.voter.key)]
        error = self.leaders_error(before, message)
        if error is Error.NONE:
            error = update_voter_error(before, message.version, is_known=bool(known))
        if error is not Error.NONE or before.version == 0:
            answer = self.update_answer_due(before, error, message)
            return after == before.but(heard=after.heard) and step.sent == (answer,)
        change = Change(Operation.UPDATE_VOTER, message.voter, False, 0, message.source, message)
        asked = ApiVersionsRequest(before.epoch, before.id, message.source, message.voter.endpoint)
        return after == before.but(change=change) and step.sent == (asked,)

    @step_invariant
    def unchecked_updates_wait(self, before: Replica, after: Replica, message: FetchRequest, step: Step) -> bool:
        """A fetch does not append an update whose endpoint has not answered (KAFKA-20661)."""
        change = before.change
        waits = isinstance(change, Change) and isinstance(change.asked, UpdateVoterRequest) and not change.checked
        return not waits or after.voters == before.voters

    @step_invariant
    def checked_updates_are_appended(
        self, before: Replica, after: Replica, message: ApiVersionsResponse, step: Step
    ) -> bool:
        """The answer of the new endpoint appends the voters and answers the update (KAFKA-20661)."""
        change = before.change
        if not isinstance(change, Change) or not isinstance(change.asked, UpdateVoterRequest) or change.checked:
            return True
        told = change.asked.voter
        if (told.key.id, before.epoch) != (message.source, message.of) or message.version < before.version:
            return True
        voters = {voter for voter in before.voters if not is_same_replica(voter.key, told.key)} | {told}
        log = (*before.log, Batch(before.epoch, (Voters(frozenset(voters)),)))
        answer = self.update_answer_due(after, Error.NONE, change.asked)
        return (after.log, after.change, step.sent) == (log, Nil.NIL, (answer,))


class Level(LogRecord):
    """FeatureLevelRecord of metadata.version: the level of later records (KIP-778)."""

    level: int


class LevelReplica(Replica):
    """A replica with the highest metadata.version that its binaries support: 1 for new ones, 0 for old ones."""

    binary: int = 1


class MetadataDowngraded(Quorum, variant="metadata-downgraded"):
    """metadata.version is lowered, and a node runs old binaries once it has a snapshot at the lower level (KIP-1155).

    Old binaries cannot read the log before the record that lowers the level, nor an earlier snapshot (KIP-778).
    """

    configuration = "coming.metadata-downgraded"
    replica_type = LevelReplica
    downgrades: int = bound("MaxMetadataDowngrades", default=0)
    binaries: int = bound("MaxOldBinaries", default=0)

    @internal
    def lower_level(self, me: Replica, shared: Shared) -> Steps:
        """A leader appends the record that lowers metadata.version (KIP-1155)."""
        if me.mode is not Mode.LEADER or not self.is_established(me) or self.lowered(me.log):
            return
        lower = self.with_log(me, (*me.log, Batch(me.epoch, (Level(0),))), flushes=True)
        after, sends, puts = self.commits(lower, shared)
        yield self.taken(me, after, *sends, consumes=False).put(**puts).spend("downgrades")

    def lowered(self, log: Log) -> int:
        """Return the end offset of the record that lowers the level; 0 if there is none."""
        return next((end for end, batch in enumerate(log, start=1) if Level(0) in batch.records), 0)

    @projection
    def is_lowered(self, me: Replica | Admin) -> bool:
        """Whether a process has ended, or needs no record of the higher level: its snapshot is at the lower one."""
        return not isinstance(me, Replica) or me.mode in ENDED_MODES or 0 < self.lowered(me.log) <= me.start

    @internal(reads=is_lowered)
    def change_binary(self, me: LevelReplica, is_lowered: Map[ModelValue, bool]) -> Steps:
        """A controller restarts with old binaries."""
        if me.mode in ENDED_MODES or me.binary == 0 or not self.may_change(me, is_lowered):
            return
        after = self.after_restart(me.but(binary=0))
        yield self.taken(me, after, *self.messages_after_restart(after), consumes=False, starts=True).spend("binaries")

    def may_change(self, me: Replica, is_lowered: Map[ModelValue, bool]) -> bool:
        return is_lowered[me.id]

    @internal
    def lose_disk(self, me: Replica, shared: Shared) -> Steps:
        """A disk is replaced; the binaries stay."""
        assert isinstance(me, LevelReplica)
        for step in super().lose_disk(me, shared):
            assert isinstance(step.me, Replica)
            yield step.but(me=step.me.but(binary=me.binary))

    @scenario
    def lowered_at_last(self) -> Iterator[Take]:
        """Three voters: the lower level is committed, and 3 alone has a snapshot at it."""
        one, two, three = self.chosen(3)
        yield from self.elected()
        yield take("LowerLevel", one)
        for voter in (two, three):
            yield from fetch_steps(voter, one, times=2)
        yield take("TakeSnapshot", three)

    def can_read(self, me: Replica) -> bool:
        assert isinstance(me, LevelReplica)
        return super().can_read(me) and (me.binary == 1 or not me.log or self.is_lowered(me))

    @invariant
    def old_binaries_run(self, me: Replica) -> bool:
        """No process stops because it cannot read a record (KIP-778)."""
        return me.mode is not Mode.DOWN

    @step_invariant
    def binaries_change_in_a_restart(self, before: LevelReplica, after: LevelReplica, step: Step) -> bool:
        """A restart with old binaries keeps the log, with a snapshot at the lower level (KIP-1155)."""
        if step.spends != ("binaries",):
            return after.binary == before.binary
        lowered = any(Level(0) in batch.records for batch in before.log[: before.start])
        stays = before.binary == 1 and after.binary == 0 and after.log == before.log
        return lowered and stays and not step.consumes and after.mode is not Mode.LEADER

    @step_invariant
    def levels_are_lowered_by_records(self, before: LevelReplica, after: LevelReplica, step: Step) -> bool:
        """A leader appends one record of level 0, and flushes it (KIP-778)."""
        if step.spends != ("downgrades",):
            return True
        log = (*before.log, Batch(before.epoch, (Level(0),)))
        return before.mode is Mode.LEADER and (after.log, after.flushed) == (log, len(log)) and not step.consumes

    @invariant(reads=is_lowered)
    def binaries_may_change_when_due(self, me: LevelReplica, is_lowered: Map[ModelValue, bool]) -> bool:
        """A controller may run old binaries once it has a snapshot at the lower level (KIP-1155)."""
        has_snapshot = any(Level(0) in batch.records for batch in me.log[: me.start])
        due = me.mode not in ENDED_MODES and me.binary == 1 and has_snapshot
        return not (due and self.may_change(me, is_lowered.put(me.id, True))) or bool(
            list(self.change_binary(me, is_lowered))
        )

    @step_invariant
    def old_binaries_read_the_lower_level(self, before: LevelReplica, after: LevelReplica, step: Step) -> bool:
        """A process with a snapshot at the lower level stops at no record (KIP-1155)."""
        lowered = any(Level(0) in batch.records for batch in after.log[: after.start])
        return after.mode is not Mode.DOWN or before.mode is Mode.DOWN or not lowered


class DowngradedTogether(MetadataDowngraded, variant="downgraded-together"):
    """A node runs old binaries only once every running node has a snapshot at the lower level (KIP-778)."""

    def may_change(self, me: Replica, is_lowered: Map[ModelValue, bool]) -> bool:
        return all(is_lowered.values())

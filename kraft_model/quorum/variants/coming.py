"""Changes of KRaft that are proposed or under way, each a variant; their results are in `docs/findings.md`.

A proposal whose text leaves a rule open is modelled by its public sources alone, and its finding says so.
"""

from __future__ import annotations

from collections.abc import Iterator

from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.base import ADMIN
from kraftcheck.kraft_model.quorum.records import (
    ENDED,
    Admin,
    ApiVersionsRequest,
    Batch,
    Change,
    Error,
    FetchResponse,
    Key,
    LogRecord,
    Mode,
    Nil,
    Operation,
    Replica,
    Shared,
    UpdateVoterRequest,
    Voter,
    VoteRequest,
    Voters,
)
from kraftcheck.kraft_model.quorum.rules import Log, stopped, voter_of
from kraftcheck.kraft_model.quorum.starts import elect, fetches
from kraftcheck.kraft_model.quorum.voters import ChangeOutcome, controllers
from kraftcheck.spec import (
    Map,
    ModelValue,
    Record,
    Step,
    Steps,
    bound,
    constant,
    environment,
    internal,
    invariant,
    ordered,
    projection,
    reachable,
)
from kraftcheck.spec.language.semantics import Take, scenario, take


class Requests(Shared):
    """The shared state with the voters that an administrator has asked to remove, and whose answer is outstanding."""

    asked: frozenset[Key] = frozenset()


class RemovedLater(Quorum, variant="removed-later"):
    """An administrator names a voter as it is at first, and its RemoveVoter is served later (KIP-853, "RemoveVoter").

    It repeats the request, to any leader, until the request is accepted.
    """

    configuration = "coming.removed-by-controller-id"
    shared_type = Requests

    @environment
    def decide_removal(self, shared: Requests) -> Steps:
        """An administrator decides to remove an initial voter."""
        for host in ordered(self.initial_voters):
            yield Step().put(asked=shared.asked | {Key(host)}).spend("removed_voters")

    @internal
    def remove_voter(self, me: Replica, shared: Requests) -> Steps:  # type: ignore[override] # it reads no peers
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
        yield from fetches(two, one, times=2)
        yield take("HandleJoinResponse", three)


def meant(outcome: ChangeOutcome, key: Key) -> ChangeOutcome:
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
        return meant(super().begin_removing(me, known, client), key)


class AddedByControllerId(Quorum, variant="added-by-controller-id"):
    """An administrator's AddVoter names an id, and the leader takes the directory id of an observer (KIP-1141).

    KAFKA-18775. Of several observers with the id the leader takes the one with the oldest directory.
    """

    configuration = "coming.added-by-controller-id"

    def begin_adding(self, me: Replica, voter: Voter, client: ModelValue) -> ChangeOutcome:
        observers = [key for key in ordered(me.offsets) if key.id == voter.key.id and voter_of(me.voters, key) is None]
        if client != ADMIN or not observers:
            return super().begin_adding(me, voter, client)
        return meant(super().begin_adding(me, voter.but(key=observers[0]), client), voter.key)


class OverriddenReplica(Replica):
    """A replica whose voter set formatting has overridden: the voters written then, and the log end at that time."""

    override: frozenset[Voter] = frozenset()
    override_end: int = 0


class OverriddenVoters(Quorum, variant="overridden-voters"):
    """A stopped controller is formatted with --override-voters: it keeps its log, and takes other voters (KIP-1347).

    KAFKA-20427. The set counts as the newest up to the log end; a later VotersRecord replaces it. As with the set that
    the first formatting writes (KIP-853, "First leader"), the next leader appends it.
    """

    configuration = "coming.overridden-voters"
    replica_type = OverriddenReplica
    override_voters: frozenset[ModelValue] = constant("OverrideVoters", default=frozenset())
    overrides: int = bound("MaxOverrides", default=0)

    @internal(reads=Quorum.identity)
    def override(self, me: OverriddenReplica, identity: Map[ModelValue, Voter | Nil]) -> Steps:
        """A controller is stopped, formatted with --override-voters, and started again."""
        if me.mode in ENDED:
            return
        voters = self.voters_given(me, controllers(identity))
        given = self.with_log(me.but(override=voters, override_end=len(me.log)), me.log, flushes=True)
        after = self.after_restart(given)
        yield self.taken(me, after, *self.messages_after_restart(after), consumes=False, starts=True).spend("overrides")

    @scenario
    def renamed_voters(self) -> Iterator[Take]:
        """The first voter led, and every voter has restarted with another endpoint (KAFKA-20427)."""
        yield from self.elected()
        for voter in ordered(self.initial_voters):
            yield take("MoveEndpoint", voter)

    @scenario
    def all_overridden(self) -> Iterator[Take]:
        """Three voters: leader 1 removed 3, then 2, which does not know it; then each was formatted with new voters."""
        one, *others = self.chosen(3)
        yield from self.removed_follower()
        yield take("RemoveVoter", one, lambda me: {voter.key.id for voter in me.voters} == {one})
        for voter in (one, *others):
            yield take("Override", voter)

    def voters_given(self, me: Replica, known: list[Voter]) -> frozenset[Voter]:
        """Return the voters that formatting writes: OverrideVoters, with their present endpoints."""
        return frozenset(voter for voter in known if voter.key.id in self.override_voters)

    def with_log(self, me: Replica, log: Log, *, flushes: bool) -> Replica:
        assert isinstance(me, OverriddenReplica)
        after = super().with_log(me, log, flushes=flushes).but(override_end=min(me.override_end, len(log)))
        return after.but(voters=me.override) if self.uses_override(after) else after

    def first_records(self, me: Replica) -> tuple[LogRecord, ...]:
        return super().first_records(me) or ((Voters(me.voters),) if self.uses_override(me) else ())

    def uses_override(self, me: Replica) -> bool:
        """Whether no VotersRecord follows the voters that formatting wrote."""
        assert isinstance(me, OverriddenReplica)
        return bool(me.override) and self.last_voters_record(me.log) <= me.override_end


class OverriddenAlone(OverriddenVoters, variant="overridden-alone"):
    """A controller is formatted with itself as the only voter, and then adds the others one by one."""

    configuration = "coming.overridden-alone"

    def voters_given(self, me: Replica, known: list[Voter]) -> frozenset[Voter]:
        return frozenset(voter for voter in known if voter.key == me.key)


class OverriddenEndpoints(OverriddenVoters, variant="overridden-endpoints"):
    """A proposal: overriding gives other endpoints to the voters of the local log, and no other voters."""

    configuration = "coming.overridden-endpoints"

    def voters_given(self, me: Replica, known: list[Voter]) -> frozenset[Voter]:
        endpoints = {voter.key: voter.endpoint for voter in known}
        return frozenset(voter.but(endpoint=endpoints.get(voter.key, voter.endpoint)) for voter in me.voters)


class UpdatesChecked(Quorum, variant="updates-checked"):
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


class FormattedWithNewVoters(Quorum, variant="formatted-with-new-voters"):
    """New controllers are formatted with --initial-controllers, the old voters and themselves (Strimzi proposal 203).

    The running voters have been formatted with the old voters alone. A rejected alternative of the proposal.
    """

    configuration = "coming.formatted-with-new-voters"
    new_controllers: frozenset[ModelValue] = constant("NewControllers", default=frozenset())

    def formatted_voters(self, host: ModelValue, directory: int) -> frozenset[Voter]:
        if host not in self.new_controllers or directory != 1:
            return super().formatted_voters(host, directory)
        return frozenset(Voter(Key(voter)) for voter in self.initial_voters | self.new_controllers)

    @scenario
    def voter_behind(self) -> Iterator[Take]:
        """Three voters: 2 has elected 1, which has committed its first batch; 3 has not heard of it yet."""
        one, two, _ = self.chosen(3)
        yield from elect(one, [two], others=1)
        yield from fetches(two, one, times=1)
        yield take("HandleFetchRequest", one, source=two)


class FormattingNeeded(Quorum, variant="formatting-needed"):
    """A controller whose disk is lost stays down, since no operator formats the new disk (before KIP-1262)."""

    configuration = "coming.formatting-needed"

    @internal
    def lose_disk(self, me: Replica, shared: Shared) -> Steps:
        """A disk is lost, and the process does not start again."""
        for step in super().lose_disk(me, shared):
            assert isinstance(step.me, Replica)
            yield step.but(me=stopped(step.me))


class IdentifiedReplica(Replica):
    """A replica whose disk may hold the cluster id."""

    identified: bool = False


class WaitsForClusterId(Quorum, variant="waits-for-cluster-id"):
    """A proposal: a voter without a cluster id neither votes nor stands, until a leader's Fetch gives it the id.

    KIP-1262 has a node without formatting discover its cluster id by Fetch. Here the first disks have one, except those
    of the hosts `Unformatted`.
    """

    configuration = "coming.waits-for-cluster-id"
    replica_type = IdentifiedReplica
    unformatted: frozenset[ModelValue] = constant("Unformatted", default=frozenset())

    def formatted(self, host: ModelValue, directory: int, endpoint: int = 1) -> Replica:
        has_id = directory == 1 and host not in self.unformatted
        return super().formatted(host, directory, endpoint).but(identified=has_id)

    def take_high_watermark(self, me: Replica, response: FetchResponse) -> Replica:
        return super().take_high_watermark(me, response).but(identified=True)

    def may_stand(self, me: Replica) -> bool:
        assert isinstance(me, IdentifiedReplica)
        return me.identified and super().may_stand(me)

    @scenario
    def partly_fetched(self) -> Iterator[Take]:
        """Three voters: 1 and 2 committed a record, 2 lost its disk, and has fetched the first batch again."""
        one, two, _ = self.chosen(3)
        yield from self.elected()
        yield take("ClientAppend", one)
        yield from fetches(two, one, times=2)
        yield take("LoseDisk", two)
        yield take("FetchFromBootstrapServer", two)
        for _ in range(2):
            yield take("HandleFetchRequest", one, source=two, directory=2)
            yield take("HandleFetchResponse", two, source=one)

    def log_suffices(self, me: Replica, request: VoteRequest) -> bool:
        assert isinstance(me, IdentifiedReplica)
        return me.identified and super().log_suffices(me, request)


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
        return not isinstance(me, Replica) or me.mode in ENDED or 0 < self.lowered(me.log) <= me.start

    @internal(reads=is_lowered)
    def change_binary(self, me: LevelReplica, is_lowered: Map[ModelValue, bool]) -> Steps:
        """A controller restarts with old binaries."""
        if me.mode in ENDED or me.binary == 0 or not self.may_change(me, is_lowered):
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
            yield from fetches(voter, one, times=2)
        yield take("TakeSnapshot", three)

    def can_read(self, me: Replica) -> bool:
        assert isinstance(me, LevelReplica)
        return super().can_read(me) and (me.binary == 1 or not me.log or self.is_lowered(me))

    @invariant
    def old_binaries_run(self, me: Replica) -> bool:
        """No process stops because it cannot read a record (KIP-778)."""
        return me.mode is not Mode.DOWN


class DowngradedTogether(MetadataDowngraded, variant="downgraded-together"):
    """A node runs old binaries only once every running node has a snapshot at the lower level (KIP-778)."""

    def may_change(self, me: Replica, is_lowered: Map[ModelValue, bool]) -> bool:
        return all(is_lowered.values())

"""Voter changes of `quorum`: AddVoter, RemoveVoter, UpdateVoter, and upgrades of kraft.version.

Source: KIP-853, "AddVoter", "RemoveVoter", "UpdateVoter", "UpdateFeatures".
"""

from __future__ import annotations

from collections.abc import Iterator

from kraftcheck.kraft_model.quorum.base import QuorumBase
from kraftcheck.kraft_model.quorum.records import (
    ADMIN,
    ENDED_MODES,
    UNKNOWN_DIRECTORY,
    AddVoterRequest,
    Admin,
    AdminResponse,
    Answered,
    ApiVersionsRequest,
    ApiVersionsResponse,
    Batch,
    Change,
    DescribeQuorumResponse,
    Error,
    Key,
    KRaftVersion,
    LogRecord,
    Mode,
    Nil,
    Operation,
    RemoveVoterRequest,
    Replica,
    Shared,
    Told,
    UpdateVoterRequest,
    UpdateVoterResponse,
    Voter,
    Voters,
)
from kraftcheck.kraft_model.quorum.rules import epoch_start, matches_voter, matching_voter, replica_keys
from kraftcheck.spec import Map, ModelValue, Record, Step, Steps, internal, on, ordered, projection

ChangeOutcome = tuple[Replica, list[Record], Error | None]
"""The leader after a request, the messages to send, and the error; None while the response is pending."""


def all_controllers_as_voters(identity: Map[ModelValue, Voter | Nil]) -> list[Voter]:
    """Return the controllers, also stopped ones, in canonical order."""
    return [voter for voter in ordered(identity.values()) if isinstance(voter, Voter)]


class QuorumVoterChanges(QuorumBase):
    """AddVoter, RemoveVoter and their shared rules; UpdateVoter and the upgrade of kraft.version."""

    @projection
    def identity(self, me: Replica | Admin) -> Voter | Nil:
        """Return the replica key and endpoint of a controller, which administrators know; Nil for other processes."""
        if isinstance(me, Admin) or me.id in self.brokers:
            return Nil.NIL
        return Voter(me.key, me.endpoint)

    # Errors of every voter change

    def change_error(self, me: Replica) -> Error | None:
        """Return the error with which a replica now rejects any voter change, or None (KIP-853, steps 1 and 2).

        A leader that would have to wait answers REQUEST_TIMED_OUT at once, as the KIP allows.
        """
        if me.mode is not Mode.LEADER:
            return Error.NOT_LEADER_OR_FOLLOWER
        if self.has_pending_operation(me) or not self.is_established(me):
            return Error.REQUEST_TIMED_OUT
        if me.version < self.needed_version():
            return Error.UNSUPPORTED_VERSION
        return Error.REQUEST_TIMED_OUT if self.has_uncommitted_voters(me) else None

    def has_pending_operation(self, me: Replica) -> bool:
        return not isinstance(me.change, Nil)

    def is_established(self, me: Replica) -> bool:
        """Whether LeaderChangeMessage of this epoch is committed (step 2), which makes single-server changes safe."""
        return me.high_watermark > epoch_start(me.log, me.epoch)

    def has_uncommitted_voters(self, me: Replica) -> bool:
        """Whether the last VotersRecord is uncommitted (step 1)."""
        return self.last_voters_record(me.log) > me.high_watermark

    def is_busy(self, me: Replica) -> bool:
        """Whether a leader has a pending operation, no commit in its epoch, or an uncommitted VotersRecord."""
        return self.has_pending_operation(me) or not self.is_established(me) or self.has_uncommitted_voters(me)

    def needed_version(self) -> int:
        """Return the kraft.version that voter changes require.

        The KIP's "when the kraft.version is not greater than 1" would forbid them at version 1.
        """
        return 1

    # AddVoter

    @internal(reads=identity)
    def add_voter(self, me: Replica, shared: Shared, identity: Map[ModelValue, Voter | Nil]) -> Steps:
        """An administrator asks a replica to add a controller to the voter set (KIP-853, "AddVoter")."""
        if self.added_voters == 0 or not self.serves_administrators(me):
            return
        for voter in all_controllers_as_voters(identity):
            outcome = self.begin_adding(me, voter, ADMIN)
            yield from self.administrator_step(me, shared, outcome, Operation.ADD_VOTER, "added_voters")

    @on(AddVoterRequest)
    def handle_add_voter_request(self, me: Replica, request: AddVoterRequest, shared: Shared) -> Steps:
        """A replica handles AddVoter of a joining controller (KIP-853, "AddVoter", "Controller auto joining")."""
        if self.is_cut(me, request.source, shared):
            return
        if self.is_foreign(me, request.source):
            yield self.refuses_cluster(me, Operation.ADD_VOTER, request.source)
            return
        outcome = self.begin_adding(me, request.voter, request.source)
        yield self.outcome_step(me, shared, outcome, Operation.ADD_VOTER, request.source, consumes=True)

    def begin_adding(self, me: Replica, voter: Voter, client: ModelValue) -> ChangeOutcome:
        """Take steps 1 to 3 of AddVoter (KIP-853): check the request, then send ApiVersions to the new voter."""
        error = self.change_error(me)
        if error is not None:
            return me, [], error
        if self.is_duplicate(me, voter.key):
            return me, [], Error.DUPLICATE_VOTER
        change = Change(Operation.ADD_VOTER, voter, False, 0, client, voter.key)
        question = ApiVersionsRequest(me.epoch, me.id, voter.key.id, voter.endpoint)
        return me.but(change=change), [question], None

    def is_duplicate(self, me: Replica, key: Key) -> bool:
        """Whether the voter set has this replica id, with any directory id ("useful to make ... safer")."""
        return any(voter.key.id == key.id for voter in me.voters)

    @on(ApiVersionsRequest)
    def handle_api_versions_request(self, me: Replica, request: ApiVersionsRequest, shared: Shared) -> Steps:
        """A replica reports the kraft.version that it supports (KIP-853, "Supported features")."""
        if self.is_cut(me, request.source, shared):
            return
        yield self.taken(me, me, ApiVersionsResponse(me.software, request.of, me.id, request.source))

    @on(ApiVersionsResponse)
    def handle_api_versions_response(self, me: Replica, response: ApiVersionsResponse, shared: Shared) -> Steps:
        """A leader learns the new voter's supported version, and rejects a voter without the kraft.version in use.

        The error is INVALID_REQUEST. KIP-853, "AddVoter", step 4.
        """
        if self.is_cut(me, response.source, shared):
            return
        change = me.change
        if not isinstance(change, Change) or not isinstance(change.voter, Voter) or change.checked:
            yield self.taken(me, me)
            return
        if me.epoch != response.of or change.voter.key.id != response.source:
            yield self.taken(me, me)
            return
        if response.version < me.version:
            failed = me.but(change=Nil.NIL)
            yield self.taken(me, failed, *self.answer(me, change.operation, Error.INVALID_REQUEST, change.client))
            return
        after, sends = self.add_if_caught_up(me.but(change=change.but(checked=True)))
        after, more, puts = self.commits(after, shared)
        yield self.taken(me, after, *sends, *more).put(**puts)

    def on_fetch(self, me: Replica) -> tuple[Replica, list[Record]]:
        """Return the leader and the messages to send after a fetch; a new voter that has caught up is added."""
        return self.add_if_caught_up(me)

    def add_if_caught_up(self, me: Replica) -> tuple[Replica, list[Record]]:
        """Take steps 5 to 7 of AddVoter (KIP-853): append the new voter set once the new voter has caught up."""
        change = me.change
        if not isinstance(change, Change) or not isinstance(change.voter, Voter) or not change.checked:
            return me, []
        if change.offset > 0 or not self.has_caught_up(me, change.voter.key):
            return me, []
        return self.append_voters(me, self.voters_with(me, change.voter), change), []

    def voters_with(self, me: Replica, voter: Voter) -> frozenset[Voter]:
        return me.voters | {voter}

    def has_caught_up(self, me: Replica, key: Key) -> bool:
        """Whether the replica with this id and directory id has fetched up to the leader's log end (step 5)."""
        return me.offsets.get(key, -1) >= len(me.log)

    def append_voters(self, me: Replica, voters: frozenset[Voter], change: Change, *before: LogRecord) -> Replica:
        """Return the leader with an appended VotersRecord, in use at once and pending until it is committed."""
        log = (*me.log, Batch(me.epoch, (*before, self.change_record(me, voters))))
        return self.with_log(me, log, flushes=True).but(change=change.but(offset=len(log)))

    def change_record(self, me: Replica, voters: frozenset[Voter]) -> LogRecord:
        """Return the log record that sets the voter set."""
        return Voters(voters)

    # RemoveVoter

    @internal(reads=identity)
    def remove_voter(self, me: Replica, shared: Shared, identity: Map[ModelValue, Voter | Nil]) -> Steps:
        """An administrator asks a replica to remove a voter, possibly the leader, or a controller that is no voter.

        KIP-853, "RemoveVoter".
        """
        if self.removed_voters == 0 or not self.serves_administrators(me):
            return
        for key in ordered(replica_keys(me.voters) | replica_keys(all_controllers_as_voters(identity))):
            outcome = self.begin_removing(me, key, ADMIN)
            yield from self.administrator_step(me, shared, outcome, Operation.REMOVE_VOTER, "removed_voters")

    @on(RemoveVoterRequest)
    def handle_remove_voter_request(self, me: Replica, request: RemoveVoterRequest, shared: Shared) -> Steps:
        """A replica handles RemoveVoter of a joining controller, for the voter of its lost disk.

        KIP-853, "RemoveVoter", "Controller auto joining".
        """
        if self.is_cut(me, request.source, shared):
            return
        if self.is_foreign(me, request.source):
            yield self.refuses_cluster(me, Operation.REMOVE_VOTER, request.source)
            return
        outcome = self.begin_removing(me, request.voter, request.source)
        yield self.outcome_step(me, shared, outcome, Operation.REMOVE_VOTER, request.source, consumes=True)

    def begin_removing(self, me: Replica, key: Key, client: ModelValue) -> ChangeOutcome:
        """Take steps 1 to 4 of RemoveVoter (KIP-853)."""
        error = self.change_error(me)
        if error is not None:
            return me, [], error
        if key not in replica_keys(me.voters):
            return me, [], Error.VOTER_NOT_FOUND
        if len(me.voters) == 1:
            return me, [], Error.INVALID_REQUEST
        voters = frozenset(voter for voter in me.voters if voter.key != key)
        change = Change(Operation.REMOVE_VOTER, Nil.NIL, True, 0, client, key)
        return self.append_voters(me, voters, change), [], None

    # Outcomes

    def serves_administrators(self, me: Replica) -> bool:
        """Whether a process handles requests of administrators; a broker forwards them to the leader (KIP-853)."""
        return me.mode not in ENDED_MODES and me.id not in self.brokers

    def refuses_cluster(self, me: Replica, operation: Operation, client: ModelValue) -> Step:
        """Return the step that rejects a request of another cluster."""
        return self.taken(me, me, *self.answer(me, operation, Error.INCONSISTENT_CLUSTER_ID, client))

    def administrator_step(
        self, me: Replica, shared: Shared, outcome: ChangeOutcome, operation: Operation, allowance: str
    ) -> Iterator[Step]:
        """Yield the step for an administrator's request; with an error, only if PlainAnswers is TRUE."""
        if outcome[2] is None:
            yield self.outcome_step(me, shared, outcome, operation, ADMIN, consumes=False).spend(allowance)
        elif self.plain_answers:
            refusal = self.outcome_step(me, shared, outcome, operation, ADMIN, consumes=False)
            yield refusal.need(allowance).spend("refusals")

    def outcome_step(
        self,
        me: Replica,
        shared: Shared,
        outcome: ChangeOutcome,
        operation: Operation,
        client: ModelValue,
        *,
        consumes: bool,
    ) -> Step:
        """Return the step for the outcome of a request, with the response unless it must await a commit."""
        after, sends, error = outcome
        if error is not None:
            sends = [*sends, *self.answer(after, operation, error, client)]
            return self.taken(me, after, *sends, consumes=consumes)
        after, more, puts = self.commits(after, shared)
        return self.taken(me, after, *sends, *more, consumes=consumes).put(**puts)

    @internal
    def expire_operation(self, me: Replica) -> Steps:
        """A pending operation times out: the leader answers REQUEST_TIMED_OUT. Its record stays in the log.

        KIP-853, "AddVoter", step 8, "RemoveVoter", step 5.
        """
        change = me.change
        if not isinstance(change, Change):
            return
        answers = self.answer(me, change.operation, Error.REQUEST_TIMED_OUT, change.client)
        yield self.taken(me, me.but(change=Nil.NIL), *answers, consumes=False).spend("expirations")

    # Joining

    @internal
    def join(self, me: Replica) -> Steps:
        """A controller outside the voter set joins: it removes the voter with its id, if any, then adds itself.

        KIP-853, "Controller auto joining".
        """
        if not self.auto_join or me.id in self.brokers:
            return
        if me.mode is not Mode.FOLLOWER or isinstance(me.leader, Nil):
            return
        if me.joining or self.is_voter(me):
            return
        request = self.joining_request(me, me.leader)
        allowance = "removed_voters" if isinstance(request, RemoveVoterRequest) else "added_voters"
        yield self.taken(me, self.waits_to_join(me), request, consumes=False).spend(allowance)

    def joining_request(self, me: Replica, leader: ModelValue) -> AddVoterRequest | RemoveVoterRequest:
        """Return RemoveVoter for a voter with this replica's id, else AddVoter for the replica."""
        former = [voter.key for voter in ordered(me.voters) if voter.key.id == me.id]
        if former:
            return RemoveVoterRequest(former[0], me.id, leader, me.leader_endpoint)
        return AddVoterRequest(Voter(me.key, me.endpoint), me.id, leader, me.leader_endpoint)

    def waits_to_join(self, me: Replica) -> Replica:
        """Return the controller with its AddVoter or RemoveVoter pending; it keeps fetching."""
        return me.but(joining=True)

    @on(AdminResponse)
    def handle_join_response(self, me: Replica, response: AdminResponse, shared: Shared) -> Steps:
        """A joining controller receives the response to its request, and may retry or continue.

        KIP-853, "Controller auto joining".
        """
        if self.is_cut(me, response.source, shared):
            return
        yield self.taken(me, me.but(joining=False))

    # The administrator

    @on(AdminResponse, DescribeQuorumResponse)
    def read_answer(self, me: Admin, response: AdminResponse | DescribeQuorumResponse) -> Steps:
        """An administrator receives a response (KIP-853, "Admin client")."""
        yield Step(me=self.remembers(me, response) if self.watch_answers else me, consumes=True)

    def remembers(self, me: Admin, response: AdminResponse | DescribeQuorumResponse) -> Admin:
        """Return the administrator with a successful response recorded, for properties only."""
        if response.error is not Error.NONE:
            return me
        if isinstance(response, DescribeQuorumResponse):
            return me.but(described=me.described | {response})
        subject = response.about.subject if isinstance(response.about, Answered) else Nil.NIL
        return me.but(told=me.told | {Told(response.operation, subject)})

    @internal
    def describe_quorum(self, me: Replica) -> Steps:
        """An administrator asks a replica for the voters in use, the committed voters, and the observers.

        KIP-853, "DescribeQuorum".
        """
        if not self.plain_answers or not self.serves_administrators(me):
            return
        if me.mode is not Mode.LEADER:
            error, current, committed = Error.NOT_LEADER_OR_FOLLOWER, frozenset[Voter](), frozenset[Voter]()
            observers = frozenset[Key]()
        else:
            error, current, committed = Error.NONE, me.voters, self.committed_voters(me)
            known = [key for key in me.offsets if key.directory != UNKNOWN_DIRECTORY]  # skips voters of version 0
            observers = frozenset(key for key in known if not any(matches_voter(v.key, key) for v in me.voters))
        shown = self.advertised_high_watermark(me) if error is Error.NONE else 0
        response = DescribeQuorumResponse(error, me.epoch, shown, current, committed, observers, me.id, ADMIN)
        yield self.taken(me, me, response, consumes=False).spend("descriptions")

    def committed_voters(self, me: Replica) -> frozenset[Voter]:
        known = me.log[: me.high_watermark]
        return self.with_log(me, known, flushes=False).voters

    # UpdateVoter

    @internal
    def send_update_voter(self, me: Replica) -> Steps:
        """A voter reports its endpoint, directory id and version to a new leader, until the leader acknowledges.

        It does so at any kraft.version. KIP-853, "UpdateVoter".
        """
        if me.mode is not Mode.FOLLOWER or isinstance(me.leader, Nil):
            return
        if me.updating or me.updated or not self.is_voter(me):
            return
        request = self.update_request(me, me.leader)
        yield self.taken(me, self.waits_for_update(me, request), request, consumes=False).spend("updated_voters")

    def update_request(self, me: Replica, leader: ModelValue) -> UpdateVoterRequest:
        """Return UpdateVoter with the voter's current key, endpoint and version."""
        told = Voter(me.key, me.endpoint)
        return UpdateVoterRequest(me.epoch, told, me.software, me.id, leader, me.leader_endpoint)

    def waits_for_update(self, me: Replica, request: UpdateVoterRequest) -> Replica:
        """Return the voter with its UpdateVoter pending; it keeps fetching."""
        return me.but(updating=True)

    @on(UpdateVoterRequest)
    def handle_update_voter_request(self, me: Replica, request: UpdateVoterRequest, shared: Shared) -> Steps:
        """A leader handles UpdateVoter by `begin_updating`; other replicas reject it (KIP-853, "UpdateVoter")."""
        if self.is_cut(me, request.source, shared):
            return
        if self.is_foreign(me, request.source):
            refused = Error.INCONSISTENT_CLUSTER_ID
            yield self.taken(me, me, self.update_answer(self.without_leader(me), refused, request))
            return
        after, sends, error = self.begin_updating(me, request)
        if error is not None:
            sends = [*sends, self.update_answer(me, error, request)]
        after, more, puts = self.commits(after, shared) if after is not me else (after, [], {})
        yield self.taken(me, after, *sends, *more).put(**puts)

    def begin_updating(self, me: Replica, request: UpdateVoterRequest) -> ChangeOutcome:
        """Check UpdateVoter and store the voter's new key and endpoint, steps 1 to 6 (KIP-853).

        At kraft.version 0 no record exists for it: the leader keeps the update in memory.
        """
        error = self.update_error(me, request)
        if error is not None:
            return me, [], error
        known = self.voter_to_update(me, request.voter.key)
        if known is None:
            return me, [], Error.VOTER_NOT_FOUND
        if me.version == 0:
            heard = frozenset(v for v in me.heard if v.key.id != request.source)
            return me.but(heard=heard | {request.voter} if request.version > 0 else heard), [], Error.NONE
        change = Change(Operation.UPDATE_VOTER, Nil.NIL, True, 0, request.source, request)
        updated = known.but(key=request.voter.key, endpoint=request.voter.endpoint)
        return self.appended_update(self.append_voters(me, (me.voters - {known}) | {updated}, change))

    def update_error(self, me: Replica, request: UpdateVoterRequest) -> Error | None:
        """Return the error of an update, or None (steps 1 to 3; only the leader of the epoch handles it)."""
        error = self.epoch_error(me, request.epoch)
        if error is not Error.NONE:
            return error
        if self.is_busy(me):
            return Error.REQUEST_TIMED_OUT
        return Error.INVALID_UPDATE if request.version < me.version else None

    def voter_to_update(self, me: Replica, key: Key) -> Voter | None:
        """Return the voter with this replica key, or with its id and an unknown directory id (step 4)."""
        return matching_voter(me.voters, key)

    def appended_update(self, me: Replica) -> ChangeOutcome:
        """Return the outcome of an appended update, without a response before the commit (steps 7 and 8)."""
        return me, [], None

    @on(UpdateVoterResponse)
    def handle_update_voter_response(self, me: Replica, response: UpdateVoterResponse, shared: Shared) -> Steps:
        """A voter learns whether the leader accepted its update, or must send it again (KIP-853, "UpdateVoter").

        A response to an update from before a restart is dropped.
        """
        if self.is_cut(me, response.source, shared):
            return
        if me.mode is not Mode.FOLLOWER or response.request != self.update_request(me, response.source):
            yield self.taken(me, me)
            return
        after, _ = self.common_response(me, response)
        if after.mode is Mode.FOLLOWER and after.epoch == me.epoch:
            after = after.but(updating=False, updated=response.error is Error.NONE)
        yield self.taken(me, after)

    # kraft.version

    @internal
    def upgrade(self, me: Replica, shared: Shared) -> Steps:
        """An administrator requests kraft.version 1 from a replica (KIP-853, "UpdateFeatures")."""
        if self.upgrades == 0 or not self.serves_administrators(me):
            return
        yield from self.administrator_step(me, shared, self.begin_upgrade(me, 1), Operation.UPDATE_FEATURES, "upgrades")

    @internal
    def downgrade(self, me: Replica, shared: Shared) -> Steps:
        """An administrator requests kraft.version 0, which every replica rejects (KIP-853, "UpdateFeatures")."""
        if self.upgrades == 0 or not self.serves_administrators(me):
            return
        yield from self.administrator_step(me, shared, self.begin_upgrade(me, 0), Operation.UPDATE_FEATURES, "upgrades")

    def begin_upgrade(self, me: Replica, version: int) -> ChangeOutcome:
        """Upgrade kraft.version: append KRaftVersionRecord and VotersRecord in one batch (KIP-853, "UpdateFeatures").

        All voters and brokers must support the new version. The leader knows it of voters by UpdateVoter, of brokers by
        their registrations. While an earlier upgrade is uncommitted, there is no finalized version to compare with
        ("KRaftVersionRecord"); the leader then answers as in AddVoter.
        """
        if me.mode is not Mode.LEADER:
            return me, [], Error.NOT_LEADER_OR_FOLLOWER
        if self.is_busy(me):
            return me, [], Error.REQUEST_TIMED_OUT
        if version < me.version:
            return me, [], Error.INVALID_UPDATE_VERSION
        if version == me.version:
            return me, [], Error.NONE
        voters = self.supporters(me, version)
        if len(voters) < len(me.voters) or self.old_software & self.brokers:
            return me, [], Error.INVALID_UPDATE_VERSION
        change = Change(Operation.UPDATE_FEATURES, Nil.NIL, True, 0, ADMIN, version)
        after = self.append_voters(me, voters, change, KRaftVersion(version))
        known = {Key(voter.key.id, UNKNOWN_DIRECTORY): voter.key for voter in voters}
        return after.but(offsets=Map((known.get(key, key), end) for key, end in me.offsets.items())), [], None

    def supporters(self, me: Replica, version: int) -> frozenset[Voter]:
        """Return the voters known to support a kraft.version, with the leader if its software supports it."""
        told = me.heard | ({Voter(me.key, me.endpoint)} if me.software >= version else set())
        return frozenset(v for v in told if any(matches_voter(old.key, v.key) for old in me.voters))

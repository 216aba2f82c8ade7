"""Contracts of voter changes: AddVoter, RemoveVoter, UpdateVoter, ApiVersions, upgrades, DescribeQuorum (KIP-853)."""

from __future__ import annotations

from kraftcheck.kraft_model.quorum.base import ADMIN
from kraftcheck.kraft_model.quorum.contracts.elections import place_of_leader
from kraftcheck.kraft_model.quorum.contracts.replication import ReplicationContracts, with_new_voter
from kraftcheck.kraft_model.quorum.contracts.rules import (
    UNNAMED,
    committed_end,
    has_open_voters,
    heard,
    is_same,
    is_silent,
    must_wait,
    sent,
    shown,
    takes_role,
    version_of,
    voters_of,
)
from kraftcheck.kraft_model.quorum.messages import (
    AddVoterRequest,
    AdminResponse,
    Answered,
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeQuorumResponse,
    RemoveVoterRequest,
    UpdateVoterRequest,
    UpdateVoterResponse,
)
from kraftcheck.kraft_model.quorum.records import (
    Batch,
    Error,
    Key,
    KRaftVersion,
    LogRecord,
    Mode,
    Nil,
    Operation,
    Voter,
    Voters,
)
from kraftcheck.kraft_model.quorum.state import Admin, Change, Replica, Told
from kraftcheck.spec import ModelValue, Record, Step, step_invariant


class MembershipContracts(ReplicationContracts):
    """How voters are added, removed and updated, and what is told of it."""

    # AddVoter and RemoveVoter

    @step_invariant
    def joiners_are_served(
        self, before: Replica, after: Replica, message: AddVoterRequest | RemoveVoterRequest, step: Step
    ) -> bool:
        """A leader begins the change that a controller asks for, or answers at once with the error that holds.

        KIP-853, "AddVoter", "RemoveVoter"; "Controller auto joining".
        """
        wanted = message.voter
        adds = isinstance(wanted, Voter)
        error = addition_error(before, wanted) if isinstance(wanted, Voter) else removal_error(before, wanted)
        if self.comes_from_elsewhere(before, message.source):
            error = Error.INCONSISTENT_CLUSTER_ID
        if error is not None:
            operation = Operation.ADD_VOTER if adds else Operation.REMOVE_VOTER
            return after == before and step.sent == (AdminResponse(operation, error, before.id, message.source),)
        return began(before, after, wanted, message.source, step)

    @step_invariant
    def administrators_are_served(self, before: Replica, after: Replica, step: Step) -> bool:
        """A replica begins the change that an administrator asks for, or answers with an error that holds.

        KIP-853, "AddVoter", "RemoveVoter", "UpdateFeatures". What is begun is not refused, nor the other way round.
        """
        if step.consumes:
            return True
        begun = {"added_voters": Operation.ADD_VOTER, "removed_voters": Operation.REMOVE_VOTER}
        for name, operation in begun.items():
            if name in step.spends and before.mode is not Mode.FOLLOWER:
                return asked_by_admin(before, after, operation, step)
        if "upgrades" in step.spends and sent(step, AdminResponse) == []:
            return upgrade_error(self.old_brokers(), before, 1) is None and upgraded(before, after)
        refusals = [m for m in sent(step, AdminResponse) if m.dest == ADMIN] if "refusals" in step.spends else []
        if any(not self.is_error_due(before, one) for one in refusals):
            return False
        return "refusals" not in step.spends or (after == before and len(refusals) == 1 == len(step.sent))

    def old_brokers(self) -> bool:
        """Whether a broker is known that does not support the newest kraft.version."""
        return not self.old_software.isdisjoint(self.brokers)

    def is_error_due(self, me: Replica, answer: AdminResponse) -> bool:
        """Whether an error holds for some request of an administrator."""
        error = change_error(me)
        if answer.operation is Operation.UPDATE_FEATURES:
            return answer.error in (upgrade_error(self.old_brokers(), me, one) for one in (0, 1))
        if error is not None:
            return answer.error is error
        if answer.operation is Operation.ADD_VOTER:
            return answer.error is Error.DUPLICATE_VOTER
        return answer.error is Error.VOTER_NOT_FOUND or (answer.error is Error.INVALID_REQUEST and len(me.voters) == 1)

    # ApiVersions

    @step_invariant
    def versions_are_told(self, before: Replica, after: Replica, message: ApiVersionsRequest, step: Step) -> bool:
        """Whoever is asked says which kraft.version it supports, once (KIP-853, "Supported features")."""
        answer = ApiVersionsResponse(before.software, message.of, before.id, message.source)
        return after == before and step.sent == (answer,)

    @step_invariant
    def new_voters_are_checked(self, before: Replica, after: Replica, message: ApiVersionsResponse, step: Step) -> bool:
        """A leader refuses a new voter that does not support the kraft.version, and waits for one that does.

        KIP-853, "AddVoter", steps 4 to 6. Answers that it does not wait for change nothing.
        """
        change = before.change
        asked = change.voter if isinstance(change, Change) and not change.checked else Nil.NIL
        is_awaited = isinstance(asked, Voter) and (asked.key.id, before.epoch) == (message.source, message.of)
        if not isinstance(change, Change) or not is_awaited:
            return is_silent(before, after, step)
        if message.version < before.version:
            refusal = self.answers_due(before, change, Error.INVALID_REQUEST)
            return after == before.but(change=Nil.NIL) and without_history(step) == refusal
        waiting = with_new_voter(before.but(change=change.but(checked=True)))
        return after == waiting.but(high_watermark=committed_end(waiting)) and not step.sent

    def answers_due(self, me: Replica, change: Change, error: Error) -> list[AdminResponse | UpdateVoterResponse]:
        """Return the answer to the client of a change, without history; administrators may not be told."""
        if isinstance(change.asked, UpdateVoterRequest):
            return [self.update_answer_due(me, error, change.asked)]
        if change.client == ADMIN and not self.plain_answers:
            return []
        return [AdminResponse(change.operation, error, me.id, change.client)]

    # UpdateVoter

    def update_answer_due(self, me: Replica, error: Error, request: UpdateVoterRequest) -> UpdateVoterResponse:
        """Return an answer to UpdateVoter."""
        hides = error is Error.INCONSISTENT_CLUSTER_ID
        epoch, leader, place = UNNAMED if hides else (me.epoch, me.leader, place_of_leader(me))
        return UpdateVoterResponse(epoch, leader, error, request, me.id, request.source, place)

    @step_invariant
    def updates_are_noted(self, before: Replica, after: Replica, message: UpdateVoterRequest, step: Step) -> bool:
        """A leader writes what a voter is now into its log, or notes it at kraft.version 0, or answers the error.

        KIP-853, "UpdateVoter", steps 1 to 8. The answer comes once the record is committed.
        """
        error = self.leaders_error(before, message)
        told = message.voter
        known = [voter for voter in before.voters if is_same(voter.key, told.key)]
        if error is Error.NONE:
            busy = must_wait(before) or has_open_voters(before)
            errors = {
                Error.REQUEST_TIMED_OUT: busy,
                Error.INVALID_UPDATE: message.version < before.version,
                Error.VOTER_NOT_FOUND: not known,
            }
            error = next((one for one, holds in errors.items() if holds), Error.NONE)
        if error is not Error.NONE or before.version == 0:
            heard_of = before.heard if error is not Error.NONE else noted(before, message)
            answer = self.update_answer_due(before, error, message)
            return after == before.but(heard=heard_of) and step.sent == (answer,)
        voters = (before.voters - set(known)) | {Voter(told.key, told.endpoint)}
        change = Change(Operation.UPDATE_VOTER, Nil.NIL, True, 0, message.source, message)
        expected = appended(before, voters, change)
        done = committed_end(expected) >= len(expected.log)
        answers = [self.update_answer_due(after, Error.NONE, message)] if done else []
        return settled(expected) == after and sent(step, UpdateVoterResponse) == answers

    @step_invariant
    def updates_are_acknowledged(
        self, before: Replica, after: Replica, message: UpdateVoterResponse, step: Step
    ) -> bool:
        """A voter sends UpdateVoter until its leader has acknowledged what it is now (KIP-853, "UpdateVoter")."""
        own = UpdateVoterRequest(
            before.epoch, Voter(before.key, before.endpoint), before.software, before.id, message.source,
            before.leader_endpoint,
        )  # fmt: skip
        if before.mode is not Mode.FOLLOWER or message.request != own:
            return is_silent(before, after, step)
        expected, _ = heard(before, message)
        if (expected.mode, expected.epoch) != (Mode.FOLLOWER, before.epoch):
            return takes_role(before, after, expected)
        done = message.error is Error.NONE
        return after == before.but(updating=False, updated=done) and not step.sent

    # Answers

    @step_invariant
    def joiners_go_on(self, before: Replica, after: Replica, message: AdminResponse, step: Step) -> bool:
        """A controller that hears how its request ended may send the next (KIP-853, "Controller auto joining")."""
        return after == before.but(joining=False) and not step.sent

    @step_invariant
    def administrators_remember(
        self, before: Admin, after: Admin, message: AdminResponse | DescribeQuorumResponse, step: Step
    ) -> bool:
        """With WatchAnswers an administrator knows what it was told is done, and no error (KIP-853, "Admin client")."""
        if step.sent or not self.watch_answers or message.error is not Error.NONE:
            return after == before and not step.sent
        if isinstance(message, DescribeQuorumResponse):
            return after == before.but(described=before.described | {message})
        about = message.about
        what = Told(message.operation, about.subject if isinstance(about, Answered) else Nil.NIL)
        return after == before.but(told=before.told | {what})

    @step_invariant
    def quorums_are_described(self, before: Replica, after: Replica, step: Step) -> bool:
        """A leader tells the voters in use, the committed ones and the observers; whoever does not lead, an error.

        KIP-853, "DescribeQuorum"; KIP-595, "DescribeQuorum".
        """
        told = sent(step, DescribeQuorumResponse)
        if not told:
            return "descriptions" not in step.spends
        me, leads = before, before.mode is Mode.LEADER
        none: frozenset[Voter] = frozenset()
        fetching = {key for key in me.offsets if key.directory != 0}
        observers = {key for key in fetching if not [v for v in me.voters if is_same(v.key, key)]}
        committed = voters_of(me.log[: me.high_watermark], self.formatted_set(me))
        answer = DescribeQuorumResponse(
            Error.NONE if leads else Error.NOT_LEADER_OR_FOLLOWER,
            me.epoch,
            shown(me) if leads else 0,
            me.voters if leads else none,
            committed if leads else none,
            frozenset(observers if leads else ()),
            me.id,
            ADMIN,
        )
        return after == before and list(step.sent) == told == [answer]

    # Disks as they are formatted

    def formatted_set(self, me: Replica) -> frozenset[Voter]:
        """Return the voters that formatting gave a disk (KIP-853, "Bootstrapping with multiple voters").

        At kraft.version 0 it is what `controller.quorum.voters` says, without directory ids. A new disk has none.
        """
        if self.initial_version == 0:
            return frozenset(Voter(Key(host, 0)) for host in self.initial_voters)
        if me.directory > 1 or me.id not in self.initial_voters:
            return frozenset()
        alone = {me.id} if me.id in self.standalone else self.initial_voters
        return frozenset(Voter(Key(host)) for host in alone)

    @step_invariant
    def voters_follow_the_log(self, before: Replica, after: Replica, step: Step) -> bool:
        """Voter set and kraft.version are the last of log and snapshot, committed or not (KIP-853, "VotersRecord").

        KIP-853, "KRaftVersionRecord". What is flushed is in the log.
        """
        formatted = self.formatted_set(after)
        version = version_of(after.log, self.initial_version if formatted else 0)
        follows = (after.voters, after.version) == (voters_of(after.log, formatted), version)
        return follows and after.start <= after.flushed <= len(after.log)


# Errors


def change_error(me: Replica) -> Error | None:
    """Return the error of AddVoter and RemoveVoter that has nothing to do with the voter (KIP-853, steps 1 and 2)."""
    if me.mode is not Mode.LEADER:
        return Error.NOT_LEADER_OR_FOLLOWER
    if not must_wait(me) and me.version == 0:
        return Error.UNSUPPORTED_VERSION
    busy = must_wait(me) or has_open_voters(me)
    return Error.REQUEST_TIMED_OUT if busy else None


def addition_error(me: Replica, voter: Voter) -> Error | None:
    """Return the error of AddVoter (KIP-853, "AddVoter"): an id can be a voter once."""
    is_voter = any(known.key.id == voter.key.id for known in me.voters)
    return change_error(me) or (Error.DUPLICATE_VOTER if is_voter else None)


def removal_error(me: Replica, key: Key) -> Error | None:
    """Return the error of RemoveVoter (KIP-853, "RemoveVoter")."""
    if change_error(me) is not None:
        return change_error(me)
    if all(known.key != key for known in me.voters):
        return Error.VOTER_NOT_FOUND
    return Error.INVALID_REQUEST if len(me.voters) < 2 else None


def upgrade_error(old_brokers: bool, me: Replica, version: int) -> Error | None:
    """Return the error of UpdateFeatures for a kraft.version; NONE where it is that version (KIP-853)."""
    if me.mode is not Mode.LEADER:
        return Error.NOT_LEADER_OR_FOLLOWER
    if must_wait(me) or has_open_voters(me):
        return Error.REQUEST_TIMED_OUT
    if version == me.version:
        return Error.NONE
    supported = not old_brokers and len(upgraded_voters(me)) == len(me.voters)
    return None if version > me.version and supported else Error.INVALID_UPDATE_VERSION


# What a leader does


def appended(me: Replica, voters: frozenset[Voter], change: Change, *first: LogRecord) -> Replica:
    """Return a leader with one more VotersRecord, which it uses at once (KIP-853, "VotersRecord")."""
    log = (*me.log, Batch(me.epoch, (*first, Voters(voters))))
    version = version_of(log, me.version)
    return me.but(log=log, flushed=len(log), voters=voters, version=version, change=change.but(offset=len(log)))


def settled(me: Replica) -> Replica:
    """Return a leader after it has committed what its voters hold; a change is over once it is committed."""
    known = committed_end(me)
    change = me.change
    over = isinstance(change, Change) and 0 < change.offset <= known
    return me.but(high_watermark=known, change=Nil.NIL if over else change)


def began(before: Replica, after: Replica, wanted: Voter | Key, client: ModelValue, step: Step) -> bool:
    """Whether a leader began to add or remove a voter: AddVoter asks it for its versions (KIP-853, step 3)."""
    if isinstance(wanted, Voter):
        change = Change(Operation.ADD_VOTER, wanted, False, 0, client, wanted.key)
        question = ApiVersionsRequest(before.epoch, before.id, wanted.key.id, wanted.endpoint)
        return after == before.but(change=change) and step.sent == (question,)
    rest = frozenset(voter for voter in before.voters if voter.key != wanted)
    expected = appended(before, rest, Change(Operation.REMOVE_VOTER, Nil.NIL, True, 0, client, wanted))
    if after.mode is Mode.RESIGNED:
        return committed_end(expected) >= len(expected.log) == len(after.log)
    return after == settled(expected)


def asked_by_admin(before: Replica, after: Replica, operation: Operation, step: Step) -> bool:
    """Whether a leader began the change that an administrator may ask for now."""
    change = after.change
    if operation is Operation.ADD_VOTER:
        wanted = change.voter if isinstance(change, Change) else Nil.NIL
        is_due = isinstance(wanted, Voter) and addition_error(before, wanted) is None
        return is_due and isinstance(wanted, Voter) and began(before, after, wanted, ADMIN, step)
    gone = {voter.key for voter in before.voters - after.voters}
    return len(gone) == 1 and all(
        removal_error(before, key) is None and began(before, after, key, ADMIN, step) for key in gone
    )


def without_history(step: Step) -> list[Record]:
    """Return the messages that a step sends, without what only properties read."""
    return [one.but(about=Nil.NIL) if isinstance(one, AdminResponse) else one for one in step.sent]


def noted(me: Replica, request: UpdateVoterRequest) -> frozenset[Voter]:
    """Return what a leader at kraft.version 0 knows of voters after UpdateVoter: who supports version 1."""
    others = frozenset(voter for voter in me.heard if voter.key.id != request.source)
    return others | {request.voter} if request.version > 0 else others


def upgraded_voters(me: Replica) -> frozenset[Voter]:
    """Return the voters that a leader knows to support kraft.version 1, itself among them (KIP-853)."""
    known = {*me.heard, *([Voter(me.key, me.endpoint)] if me.software == 1 else [])}
    return frozenset(one for one in known if any(is_same(voter.key, one.key) for voter in me.voters))


def upgraded(before: Replica, after: Replica) -> bool:
    """Whether a leader wrote kraft.version 1 and the voters in one batch (KIP-853, "UpdateFeatures")."""
    known = {Key(voter.key.id, 0): voter.key for voter in upgraded_voters(before)}
    offsets = {known.get(key, key): place for key, place in before.offsets.items()}
    change = Change(Operation.UPDATE_FEATURES, Nil.NIL, True, 0, ADMIN, 1)
    expected = appended(before, upgraded_voters(before), change, KRaftVersion(1))
    expected = expected.but(offsets=type(before.offsets)(offsets))
    return after == settled(expected)


__all__ = ["MembershipContracts"]

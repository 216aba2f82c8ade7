"""UpdateVoter, with which voters tell their software, and upgrades of kraft.version with UpdateFeatures (KIP-853)."""

from __future__ import annotations

from kraftcheck.kraft_model.quorum.base import ADMIN
from kraftcheck.kraft_model.quorum.log import matches, voter_of
from kraftcheck.kraft_model.quorum.messages import UpdateVoterRequest, UpdateVoterResponse
from kraftcheck.kraft_model.quorum.records import Error, Key, KRaftVersion, Mode, Nil, Operation, Voter
from kraftcheck.kraft_model.quorum.state import Change, Replica, Shared
from kraftcheck.kraft_model.quorum.voters import ChangeOutcome, QuorumVoterChanges
from kraftcheck.spec import ModelValue, Steps, internal, on


class QuorumUpgrades(QuorumVoterChanges):
    """UpdateVoter and the upgrade of kraft.version."""

    # UpdateVoter

    @internal
    def send_update_voter(self, me: Replica) -> Steps:
        """A voter tells a new leader its endpoint, directory id and version, until the leader has acknowledged that.

        It does so at any kraft.version. KIP-853, "UpdateVoter".
        """
        if me.mode is not Mode.FOLLOWER or isinstance(me.leader, Nil):
            return
        if me.updating or me.updated or not self.is_voter(me):
            return
        request = self.update_request(me, me.leader)
        yield self.taken(me, self.waits_for_update(me, request), request, consumes=False).spend("updated_voters")

    def update_request(self, me: Replica, leader: ModelValue) -> UpdateVoterRequest:
        """Return UpdateVoter with what the voter is now."""
        return UpdateVoterRequest(me.epoch, Voter(me.key, me.endpoint), me.software, me.id, leader)

    def waits_for_update(self, me: Replica, request: UpdateVoterRequest) -> Replica:
        """Return the voter after it sent UpdateVoter; it goes on fetching."""
        return me.but(updating=True)

    @on(UpdateVoterRequest)
    def handle_update_voter_request(self, me: Replica, request: UpdateVoterRequest, shared: Shared) -> Steps:
        """A leader handles UpdateVoter, as `begin_updating` says; others refuse it (KIP-853, "UpdateVoter")."""
        if self.is_cut(me, request.source, shared):
            return
        if self.is_foreign(me, request.source):
            refused = Error.INCONSISTENT_CLUSTER_ID
            yield self.taken(me, me, self.update_answer(self.unnamed(me), refused, request))
            return
        after, sends, error = self.begin_updating(me, request)
        if error is not None:
            sends = [*sends, self.update_answer(me, error, request)]
        after, more, puts = self.commits(after, shared) if after is not me else (after, [], {})
        yield self.taken(me, after, *sends, *more).put(**puts)

    def begin_updating(self, me: Replica, request: UpdateVoterRequest) -> ChangeOutcome:
        """Take steps 1 to 6 of UpdateVoter (KIP-853).

        At kraft.version 0 there is no record for it: the leader keeps it in memory.
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
        if self.has_pending_operation(me) or not self.is_established(me) or self.has_uncommitted_voters(me):
            return Error.REQUEST_TIMED_OUT
        return Error.INVALID_UPDATE if request.version < me.version else None

    def voter_to_update(self, me: Replica, key: Key) -> Voter | None:
        """Return the voter with this key, also if its directory id is not known yet (step 4)."""
        return voter_of(me.voters, key)

    def appended_update(self, me: Replica) -> ChangeOutcome:
        """Return the outcome after the update is appended: the answer comes once it is committed (steps 7 and 8)."""
        return me, [], None

    @on(UpdateVoterResponse)
    def handle_update_voter_response(self, me: Replica, response: UpdateVoterResponse, shared: Shared) -> Steps:
        """A voter hears whether the leader has noted its update, or must try again (KIP-853, "UpdateVoter").

        An answer to what it was before it restarted is dropped.
        """
        if self.is_cut(me, response.source, shared):
            return
        if me.mode is not Mode.FOLLOWER or response.request != self.update_request(me, response.source):
            yield self.taken(me, me)
            return
        after, _ = self.common_response(me, response.error, response.leader, response.epoch)
        if after.mode is Mode.FOLLOWER and after.epoch == me.epoch:
            after = after.but(updating=False, updated=response.error is Error.NONE)
        yield self.taken(me, after)

    # kraft.version

    @internal
    def upgrade(self, me: Replica, shared: Shared) -> Steps:
        """An administrator asks a replica for kraft.version 1 (KIP-853, "UpdateFeatures")."""
        if self.upgrades == 0 or not self.serves_administrators(me):
            return
        yield from self.asked(me, shared, self.begin_upgrade(me, 1), Operation.UPDATE_FEATURES, "upgrades")

    @internal
    def downgrade(self, me: Replica, shared: Shared) -> Steps:
        """An administrator asks a replica for kraft.version 0, which is refused (KIP-853, "UpdateFeatures")."""
        if self.upgrades == 0 or not self.serves_administrators(me):
            return
        yield from self.asked(me, shared, self.begin_upgrade(me, 0), Operation.UPDATE_FEATURES, "upgrades")

    def begin_upgrade(self, me: Replica, version: int) -> ChangeOutcome:
        """Change kraft.version: KRaftVersionRecord and VotersRecord in one batch (KIP-853, "UpdateFeatures").

        All voters and brokers must support the new version. The leader knows voters by UpdateVoter, brokers by their
        registrations. While an earlier upgrade is not committed, there is no finalized version to compare with
        ("KRaftVersionRecord"); the leader answers as in AddVoter.
        """
        if me.mode is not Mode.LEADER:
            return me, [], Error.NOT_LEADER_OR_FOLLOWER
        if self.has_pending_operation(me) or not self.is_established(me) or self.has_uncommitted_voters(me):
            return me, [], Error.REQUEST_TIMED_OUT
        if version < me.version:
            return me, [], Error.INVALID_UPDATE_VERSION
        if version == me.version:
            return me, [], Error.NONE
        told = me.heard | ({Voter(me.key, me.endpoint)} if me.software >= version else set())
        voters = frozenset(v for v in told if any(matches(old.key, v.key) for old in me.voters))
        if len(voters) < len(me.voters) or self.old_software & self.brokers:
            return me, [], Error.INVALID_UPDATE_VERSION
        change = Change(Operation.UPDATE_FEATURES, Nil.NIL, True, 0, ADMIN, version)
        return self.append_voters(me, voters, change, KRaftVersion(version)), [], None


__all__ = ["QuorumUpgrades"]

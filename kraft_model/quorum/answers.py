"""The properties of `quorum` about answers: what was told is so, and what was asked for is what is done."""

from __future__ import annotations

from itertools import pairwise

from kraftcheck.kraft_model.quorum.base import QuorumBase
from kraftcheck.kraft_model.quorum.log import alike, keys, matches, version_in
from kraftcheck.kraft_model.quorum.messages import AdminResponse, Answered, DescribeQuorumResponse
from kraftcheck.kraft_model.quorum.records import Error, Key, Mode, Nil, Operation
from kraftcheck.kraft_model.quorum.state import Admin, Change, Replica, Shared, Term, Told
from kraftcheck.spec import invariant


class QuorumAnswers(QuorumBase):
    """Invariants about answers to administrators and voters, and about the changes that they answer."""

    @invariant(needs=["WatchAnswers"])
    def told_is_kept(self, me: Admin, shared: Shared) -> bool:
        """What an administrator was told is done is in the committed log, and stays there.

        KIP-853, "AddVoter", steps 8 and 9; "RemoveVoter", steps 5 and 6; "UpdateFeatures", step 4. Only with
        WatchAnswers is it checked.
        """
        return all(self.is_kept(told, shared) for told in me.told)

    def is_kept(self, told: Told, shared: Shared) -> bool:
        """Whether the committed log has what an administrator was told."""
        sets = [keys(voters) for _, voters in self.voter_sets(shared.committed)]
        if told.operation is Operation.ADD_VOTER:
            return any(told.about in voters for voters in sets)
        if told.operation is Operation.REMOVE_VOTER:
            return any(told.about in old - new for old, new in pairwise(sets))
        if not isinstance(told.about, int):
            return False  # nobody knows what for
        return version_in(shared.committed, self.initial_version) >= told.about

    @invariant
    def updates_are_kept(self, me: Replica, shared: Shared) -> bool:
        """A voter whose UpdateVoter was acknowledged is in a committed VotersRecord with its endpoints.

        KIP-853, "UpdateVoter", steps 5 to 8. At kraft.version 0 there is no such record.
        """
        if not me.updated or version_in(shared.committed, self.initial_version) == 0:
            return True
        sets = [voters for _, voters in self.voter_sets(shared.committed)]
        return any((voter.key, voter.endpoint) == (me.key, me.endpoint) for voters in sets for voter in voters)

    @invariant
    def voters_change_as_asked(self, me: Replica) -> bool:
        """The VotersRecord of a change adds or removes the voter that was asked for, and nobody else, nor the last one.

        KIP-853, "AddVoter", step 6; "RemoveVoter", step 3; "UpdateVoter", step 5; "UpdateFeatures", step 3.
        """
        change = me.change
        if me.mode is not Mode.LEADER or not isinstance(change, Change) or change.offset == 0:
            return True
        formatted = self.formatted_voters(me.id, me.directory)
        sets = [(0, formatted), *self.voter_sets(me.log, formatted)]
        old, new = next(alike(old, new) for (_, old), (end, new) in pairwise(sets) if end == change.offset)
        asked = frozenset({change.asked} if isinstance(change.asked, Key) else ())
        if change.operation is Operation.ADD_VOTER:
            return new == old | asked and not asked & old
        if change.operation is Operation.REMOVE_VOTER:
            return new == old - asked and asked <= old and bool(new)
        return new == old

    @invariant
    def new_voters_have_caught_up(self, me: Replica, peer: Replica) -> bool:
        """A replica is not made a voter before it has the leader's log (KIP-853, "AddVoter", steps 5 and 6)."""
        change = me.change
        if me.mode is not Mode.LEADER or not isinstance(change, Change) or change.offset == 0:
            return True
        if change.operation is not Operation.ADD_VOTER or peer.key != change.asked or peer.epoch != me.epoch:
            return True
        return peer.log[: change.offset - 1] == me.log[: change.offset - 1]

    @invariant(needs=["WatchAnswers"])
    def answers_are_true(self, message: AdminResponse) -> bool:
        """Each error to an administrator has its reason (KIP-853, "AddVoter", "RemoveVoter", "UpdateFeatures")."""
        about = message.about
        if not isinstance(about, Answered):
            return True
        adds, removes = message.operation is Operation.ADD_VOTER, message.operation is Operation.REMOVE_VOTER
        serves = about.mode is Mode.LEADER and not about.busy
        reasons = {
            Error.NONE: about.mode is Mode.LEADER and about.subject is not Nil.NIL,
            Error.NOT_LEADER_OR_FOLLOWER: about.mode is not Mode.LEADER or about.busy,
            Error.REQUEST_TIMED_OUT: about.busy,
            Error.UNSUPPORTED_VERSION: about.version == 0,
            Error.DUPLICATE_VOTER: adds and serves,
            Error.VOTER_NOT_FOUND: removes and serves,
            Error.INVALID_REQUEST: serves and len(about.voters) == 1 if removes else adds,
            Error.INVALID_UPDATE_VERSION: serves and message.operation is Operation.UPDATE_FEATURES,
        }
        return reasons.get(message.error, False)

    @invariant(needs=["WatchAnswers"])
    def descriptions_are_true(self, me: Admin, shared: Shared) -> bool:
        """The leader of an epoch tells voters and a high watermark that are committed, and the voters in use.

        These are one change away at most; an observer is none of them (KIP-853, "DescribeQuorum"). Only with
        WatchAnswers is it checked.
        """
        return all(self.is_true(told, shared) for told in me.described)

    def is_true(self, told: DescribeQuorumResponse, shared: Shared) -> bool:
        """Whether a leader has described the quorum as it was."""
        sets = {voters for _, voters in self.voter_sets(shared.committed)} | {self.formatted_voters(told.source, 1)}
        if told.committed not in sets or told.high_watermark > len(shared.committed):
            return False
        old, new = alike(told.committed, told.current)
        observes = not any(matches(voter.key, key) for voter in told.current for key in told.observers)
        return observes and len(old ^ new) <= 1 and Term(told.epoch, told.source) in shared.elected


__all__ = ["QuorumAnswers"]

"""Design changes of `Quorum`: joint consensus instead of single voter changes, and observers that vote.

Their results are in `docs/faults.md`. A design change of a user is written the same way, in its own file
(`docs/your-own-variant.md`).
"""

from __future__ import annotations

from collections.abc import Collection

from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.records import Batch, Key, Mode, Nil, Replica, Shared, Voter, Voters
from kraftcheck.kraft_model.quorum.rules import VoterSet, replica_keys
from kraftcheck.kraft_model.quorum.voters import all_controllers_as_voters
from kraftcheck.spec import Map, ModelValue, Record, Steps, bound, constant, internal


class JointVoter(Voter):
    """An entry of C_old,new, with its membership in the old and the new voter set."""

    old: bool = True
    new: bool = True

    def __str__(self) -> str:
        return f"{super().__str__()}{'' if self.old and self.new else '-' if self.old else '+'}"


def old_and_new_voters(voters: VoterSet) -> list[VoterSet]:
    """Return the list of the old and the new voter set of C_old,new; the list of `voters` alone if it is not joint."""
    joint = [voter for voter in voters if isinstance(voter, JointVoter)]
    if not joint:
        return [voters]
    return [frozenset(voter for voter in joint if voter.old), frozenset(voter for voter in joint if voter.new)]


class JointConsensus(Quorum, variant="joint-consensus"):
    """Replaces all voters at once: C_old,new needs majorities of both sets, then C_new follows (Raft, section 6).

    An administrator asks the leader to make `NewVoters` the voters. Once C_old,new is committed, the leader, or the
    next leader, appends C_new.
    """

    configuration = "design.joint-consensus"
    new_voters: frozenset[ModelValue] = constant("NewVoters", default=frozenset())
    replacements: int = bound("MaxReplacements", default=0)

    def is_majority(self, voters: VoterSet, group: Collection[Key]) -> bool:
        is_majority = super().is_majority
        return all(is_majority(half, group) for half in old_and_new_voters(voters))

    @internal(reads=Quorum.identity)
    def replace_voters(self, me: Replica, shared: Shared, identity: Map[ModelValue, Voter | Nil]) -> Steps:
        """A leader with committed voters appends C_old,new once the new voters have caught up."""
        target = {voter.key: voter for voter in all_controllers_as_voters(identity) if voter.key.id in self.new_voters}
        ready = bool(target) and all(key in replica_keys(me.voters) or self.has_caught_up(me, key) for key in target)
        if self.change_error(me) is not None or target.keys() == replica_keys(me.voters) or not ready:
            return
        both = {voter.key: voter for voter in me.voters} | target
        joint = frozenset(JointVoter(k, v.endpoint, k in replica_keys(me.voters), k in target) for k, v in both.items())
        after, sends, puts = self.commits(self.uses(me, joint), shared)
        yield self.taken(me, after, *sends, consumes=False).put(**puts).spend("replacements")

    def uses(self, me: Replica, voters: VoterSet) -> Replica:
        """Return the leader with a further voter set appended to its log."""
        return self.with_log(me, (*me.log, Batch(me.epoch, (Voters(voters),))), flushes=True)

    def commits(self, me: Replica, shared: Shared) -> tuple[Replica, list[Record], dict[str, object]]:
        after, sends, puts = super().commits(me, shared)
        if after.mode is not Mode.LEADER or len(old_and_new_voters(after.voters)) == 1 or not self.may_conclude(after):
            return after, sends, puts
        concluded = frozenset(Voter(voter.key, voter.endpoint) for voter in old_and_new_voters(after.voters)[1])
        after, more, later = super().commits(self.uses(after, concluded), shared)
        return after, sends + more, puts | later

    def may_conclude(self, me: Replica) -> bool:
        """Whether a leader may append C_new: C_old,new and a batch of its epoch are committed."""
        return self.is_established(me) and not self.has_uncommitted_voters(me)


class JointDecidedByUnion(JointConsensus, variant="joint-decided-by-union"):
    """C_old,new needs one majority of the union of both voter sets, instead of a majority of each."""

    configuration = "design.joint-decided-by-union"

    def is_majority(self, voters: VoterSet, group: Collection[Key]) -> bool:
        return Quorum.is_majority(self, voters, group)


class JointConcludedEarly(JointConsensus, variant="joint-concluded-early"):
    """The leader appends C_new without waiting for the commit of C_old,new."""

    configuration = "design.joint-concluded-early"

    def may_conclude(self, me: Replica) -> bool:
        return True


class ObserversVote(Quorum, variant="observers-vote"):
    """Observers vote and their votes count, but a majority is still more than half the number of voters."""

    configuration = "design.observers-vote"

    def others(self, me: Replica) -> list[Key]:
        known = {key.id for key in super().others(me)} | {me.id}
        return super().others(me) + [Key(host) for host in sorted(self.hosts - known, key=str)]

    def is_majority(self, voters: VoterSet, group: Collection[Key]) -> bool:
        return 2 * len(group) > len(voters)

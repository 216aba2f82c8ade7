"""Who is a voter, and what is a majority, in one place: a design change overrides a method here, and all follows it.

Elections, the high watermark, check quorum, voter changes and the properties call these methods. A replica keeps the
voter set in use (`Replica.voters`); an entry of a voter set may be a subclass of `Voter` that says more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from itertools import chain, combinations

from kraftcheck.kraft_model.quorum.log import Log, VoterSet, keys, matches, voter_of, without_directories
from kraftcheck.kraft_model.quorum.records import Key, VoterAdded, VoterRemoved, Voters
from kraftcheck.kraft_model.quorum.state import Replica
from kraftcheck.spec import Protocol, Record, ordered


class QuorumMembership(Protocol):
    """Voter sets, voters and majorities."""

    # Voter sets

    def voters_after(self, voters: VoterSet, record: Record) -> VoterSet | None:
        """Return the voter set after a log record; None where the record says nothing about voters.

        A VotersRecord holds the entire set (KIP-853, "VotersRecord"); a record of the draft changes the set before it.
        """
        if isinstance(record, Voters):
            return record.voters
        if isinstance(record, VoterAdded):
            return voters | {record.voter}
        if isinstance(record, VoterRemoved):
            return frozenset(voter for voter in voters if voter.key != record.voter)
        return None

    def voter_sets(self, log: Log, otherwise: VoterSet = frozenset()) -> list[tuple[int, VoterSet]]:
        """Return every voter set that a log goes through: the end offset of the batch that makes it, and the set."""
        found: list[tuple[int, VoterSet]] = []
        current = otherwise
        for offset, batch in enumerate(log, start=1):
            for record in batch.records:
                after = self.voters_after(current, record)
                if after is not None:
                    current = after
                    found.append((offset, current))
        return found

    def voters_in(self, log: Log, otherwise: VoterSet) -> VoterSet:
        """Return the voter set at the end of a log or snapshot, committed or not."""
        sets = self.voter_sets(log, otherwise)
        return sets[-1][1] if sets else otherwise

    def last_voters_record(self, log: Log) -> int:
        """Return the end offset of the last batch that says who the voters are; 0 where there is none."""
        sets = self.voter_sets(log)
        return sets[-1][0] if sets else 0

    # Voters

    def is_voter(self, me: Replica) -> bool:
        """Return whether a replica is in the voter set that it uses, by id and directory id (KIP-853, "Key terms")."""
        return voter_of(me.voters, me.key) is not None

    def others(self, me: Replica) -> list[Key]:
        """Return the voters besides this replica, in canonical order: it asks these for votes."""
        return [voter.key for voter in ordered(me.voters) if not matches(voter.key, me.key)]

    def own_votes(self, me: Replica) -> frozenset[Key]:
        """Return the voter that this replica is, which grants itself its vote; empty for an observer."""
        return frozenset(voter.key for voter in me.voters if matches(voter.key, me.key))

    # Majorities

    def is_majority(self, voters: VoterSet, group: Collection[Key]) -> bool:
        """Return whether the voters in a group are a majority: these elect leaders, and commit what they hold."""
        return 2 * sum(voter.key in group for voter in voters) > len(voters)

    def majority_is_lost(self, voters: VoterSet, rejected: Collection[Key]) -> bool:
        """Return whether so many have refused that no majority can grant."""
        return not self.is_majority(voters, keys(voters).difference(rejected))

    def majorities_meet(self, one: VoterSet, other: VoterSet) -> bool:
        """Return whether every majority of one voter set has a member in common with every majority of the other."""
        return _meet(self.is_majority, *without_directories(one, other))


@cache
def _meet(is_majority: Callable[[VoterSet, Collection[Key]], bool], one: VoterSet, other: VoterSet) -> bool:
    members = keys(one)
    groups = chain.from_iterable(combinations(ordered(members), size) for size in range(len(members) + 1))
    return not any(is_majority(one, group) and is_majority(other, keys(other).difference(group)) for group in groups)

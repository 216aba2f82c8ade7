"""Paxos: acceptors vote in numbered ballots, and at most one value is ever chosen.

Sources: L. Lamport, "The part-time parliament" (1998); module Paxos of the TLA+ examples ("How to win a Turing award").
There all messages are in one global set. Here each ballot has a leader, which receives the acceptors' messages of its
ballot. The states are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kraftcheck.spec import (
    Map,
    MessageSet,
    ModelValue,
    Protocol,
    Record,
    State,
    Step,
    Steps,
    become,
    constant,
    internal,
    invariant,
    on,
    ordered,
    projection,
)


class Vote(Record):
    """A vote for a value in a ballot."""

    ballot: int
    value: ModelValue


class Acceptor(Record):
    """An acceptor: the highest ballot that it has joined, and its last vote."""

    id: ModelValue
    promised: int | None = None
    voted: Vote | None = None


class Leader(Record):
    """The leader of a ballot."""

    id: int


class Prepare(Record):
    """The start of a ballot (phase 1a)."""

    ballot: int
    dest: ModelValue


class Promise(Record):
    """An acceptor's promise to vote in no lower ballot, with its last vote (phase 1b)."""

    voted: Vote | None
    source: ModelValue
    dest: int


class Propose(Record):
    """A leader's proposal of a value (phase 2a)."""

    vote: Vote
    dest: ModelValue


class Accepted(Record):
    """An acceptor's vote (phase 2b)."""

    value: ModelValue
    source: ModelValue
    dest: int


class Nothing(Record):
    """The empty shared state."""


def quorums_within(
    sources: Iterable[ModelValue], quorums: Iterable[frozenset[ModelValue]]
) -> list[frozenset[ModelValue]]:
    """Return the quorums that are subsets of the sources."""
    among = frozenset(sources)
    return [quorum for quorum in ordered(quorums) if quorum <= among]


class Paxos(Protocol):
    """At most one value is chosen, with any losses and leaders."""

    acceptors: frozenset[ModelValue] = constant("Acceptor")
    values: frozenset[ModelValue] = constant("Value")
    quorums: frozenset[frozenset[ModelValue]] = constant("Quorum")
    max_ballot: int = constant("MaxBallot", at_least=0)
    network = MessageSet(keeps=True)
    symmetries = {"symmAcceptorValue": ("acceptors", "values")}

    def initial(self) -> Iterator[State]:
        """Yield the initial state, without votes."""
        leaders = [Leader(ballot) for ballot in range(self.max_ballot + 1)]
        yield self.start([*map(Acceptor, ordered(self.acceptors)), *leaders], Nothing())

    @internal
    def phase1a(self, me: Leader) -> Steps:
        """A leader starts its ballot."""
        yield Step().send(*[Prepare(me.id, acceptor) for acceptor in ordered(self.acceptors)])

    @on(Prepare)
    def phase1b(self, me: Acceptor, message: Prepare) -> Steps:
        """An acceptor joins a higher ballot, and sends its last vote to the leader."""
        if me.promised is not None and message.ballot <= me.promised:
            return
        yield become(me.but(promised=message.ballot)).send(Promise(me.voted, me.id, message.ballot))

    @projection
    def promises(self, messages: tuple[Record, ...]) -> frozenset[Promise]:
        """The promises to a leader."""
        return frozenset(message for message in messages if isinstance(message, Promise))

    @projection
    def proposed(self, messages: tuple[Record, ...]) -> frozenset[int]:
        """The ballots with a proposal to an acceptor."""
        return frozenset(message.vote.ballot for message in messages if isinstance(message, Propose))

    @internal(reads=(promises, proposed))
    def phase2a(
        self, me: Leader, promises: Map[object, frozenset[Promise]], proposed: Map[object, frozenset[int]]
    ) -> Steps:
        """A leader proposes a safe value once: the latest vote of a quorum, or any value if the quorum has no vote."""
        if any(me.id in ballots for ballots in proposed.values()):
            return
        safe: set[ModelValue] = set()
        for quorum in quorums_within((promise.source for promise in promises[me.id]), self.quorums):
            votes = [promise.voted for promise in promises[me.id] if promise.source in quorum and promise.voted]
            latest = max((vote.ballot for vote in votes), default=None)
            safe |= {vote.value for vote in votes if vote.ballot == latest} or self.values
        for value in ordered(safe):
            yield Step().send(*[Propose(Vote(me.id, value), acceptor) for acceptor in ordered(self.acceptors)])

    @on(Propose)
    def phase2b(self, me: Acceptor, message: Propose) -> Steps:
        """An acceptor votes for the proposal, unless it has joined a higher ballot."""
        vote = message.vote
        if me.promised is not None and vote.ballot < me.promised:
            return
        yield become(me.but(promised=vote.ballot, voted=vote)).send(Accepted(vote.value, me.id, vote.ballot))

    @projection
    def chosen(self, messages: tuple[Record, ...]) -> frozenset[ModelValue]:
        """The values that a quorum has voted for in a leader's ballot."""
        votes = [message for message in messages if isinstance(message, Accepted)]
        by_value = {value: [vote.source for vote in votes if vote.value == value] for value in self.values}
        return frozenset(value for value, sources in by_value.items() if quorums_within(sources, self.quorums))

    @invariant(reads=chosen)
    def one_chosen(self, chosen: Map[object, frozenset[ModelValue]]) -> bool:
        """At most one value is chosen."""
        return len(frozenset().union(*chosen.values())) <= 1

    @invariant
    def promises_are_kept(self, me: Acceptor) -> bool:
        """An acceptor's vote is in no ballot beyond the highest one that it has joined."""
        return me.voted is None or (me.promised is not None and me.voted.ballot <= me.promised)

    @invariant
    def one_value_a_ballot(self, me: Acceptor, peer: Acceptor) -> bool:
        """All votes in one ballot are for one value."""
        if me.voted is None or peer.voted is None or me.voted.ballot != peer.voted.ballot:
            return True
        return me.voted.value == peer.voted.value

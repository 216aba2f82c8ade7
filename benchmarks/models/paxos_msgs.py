"""Paxos as in module Paxos of the TLA+ examples: one shared set of all messages.

Source: L. Lamport, "The part-time parliament" (1998). Where `paxos` sends messages to a leader or to an
acceptor, this model adds them to the shared set `msgs`.
"""

from __future__ import annotations

from collections.abc import Iterator

from kraftcheck.spec import (
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
    ordered,
)


class Acceptor(Record):
    """An acceptor: the highest ballot that it has joined, and its last vote."""

    id: ModelValue
    ballot: int = -1
    voted: int = -1
    value: ModelValue | None = None


class Leader(Record):
    """The leader of a ballot."""

    id: int


class Prepare(Record):
    """The start of a ballot (phase 1a)."""

    ballot: int


class Promise(Record):
    """An acceptor's promise to vote in no lower ballot, with its last vote (phase 1b)."""

    acceptor: ModelValue
    ballot: int
    voted: int
    value: ModelValue | None


class Propose(Record):
    """A leader's proposal of a value (phase 2a)."""

    ballot: int
    value: ModelValue


class Accepted(Record):
    """An acceptor's vote (phase 2b)."""

    acceptor: ModelValue
    ballot: int
    value: ModelValue


class Sent(Record):
    """The shared state: all messages ever sent."""

    msgs: frozenset[Prepare | Promise | Propose | Accepted] = frozenset()


class PaxosMsgs(Protocol):
    """At most one value is chosen, with any losses and leaders."""

    acceptors: frozenset[ModelValue] = constant("Acceptor")
    values: frozenset[ModelValue] = constant("Value")
    quorums: frozenset[frozenset[ModelValue]] = constant("Quorum")
    max_ballot: int = constant("MaxBallot", at_least=0)

    def initial(self) -> Iterator[State]:
        """Yield the initial state, without votes and messages."""
        leaders = [Leader(ballot) for ballot in range(self.max_ballot + 1)]
        yield self.start([*map(Acceptor, ordered(self.acceptors)), *leaders], Sent())

    @internal
    def phase1a(self, me: Leader, shared: Sent) -> Steps:
        """A leader starts its ballot."""
        yield Step().put(msgs=shared.msgs | {Prepare(me.id)})

    @internal
    def phase1b(self, me: Acceptor, shared: Sent) -> Steps:
        """An acceptor joins a higher ballot, and sends its last vote."""
        for m in shared.msgs:
            if isinstance(m, Prepare) and m.ballot > me.ballot:
                promise = Promise(me.id, m.ballot, me.voted, me.value)
                yield become(me.but(ballot=m.ballot)).put(msgs=shared.msgs | {promise})

    @internal
    def phase2a(self, me: Leader, shared: Sent) -> Steps:
        """A leader proposes a safe value once: that of a quorum's latest vote, or any value without a vote."""
        if any(isinstance(m, Propose) and m.ballot == me.id for m in shared.msgs):
            return
        promises = [m for m in shared.msgs if isinstance(m, Promise) and m.ballot == me.id]
        for value in ordered(self.values):
            for quorum in ordered(self.quorums):
                said = [m for m in promises if m.acceptor in quorum]
                votes = [m for m in said if m.voted >= 0]
                latest = max((m.voted for m in votes), default=-1)
                heard = quorum <= {m.acceptor for m in said}
                if heard and (not votes or any(m.voted == latest and m.value == value for m in votes)):
                    yield Step().put(msgs=shared.msgs | {Propose(me.id, value)})
                    break

    @internal
    def phase2b(self, me: Acceptor, shared: Sent) -> Steps:
        """An acceptor votes for the proposal, unless it has joined a higher ballot."""
        for m in shared.msgs:
            if isinstance(m, Propose) and m.ballot >= me.ballot:
                voted = me.but(ballot=m.ballot, voted=m.ballot, value=m.value)
                yield become(voted).put(msgs=shared.msgs | {Accepted(me.id, m.ballot, m.value)})

    @invariant
    def one_chosen(self, shared: Sent) -> bool:
        """At most one value is chosen."""
        votes = [m for m in shared.msgs if isinstance(m, Accepted)]
        chosen = {
            value
            for value in self.values
            for ballot in range(self.max_ballot + 1)
            for quorum in self.quorums
            if quorum <= {m.acceptor for m in votes if m.ballot == ballot and m.value == value}
        }
        return len(chosen) <= 1

    @invariant
    def votes_are_sent(self, me: Acceptor, shared: Sent) -> bool:
        """An acceptor's last vote is among the messages."""
        return me.value is None or Accepted(me.id, me.voted, me.value) in shared.msgs

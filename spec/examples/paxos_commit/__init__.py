"""Paxos Commit: a transaction commits if all resource managers are prepared; a Paxos of its own decides of each.

Sources: J. Gray, L. Lamport, "Consensus on transaction commit" (2006); module PaxosCommit of the TLA+ examples. There a
message is in one set for all to see, and an acceptor's state is a function of the instance. Here an acceptor is one
replica in each instance, and a leader stands for each instance and ballot. The states are the same.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

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
    consume,
    environment,
    internal,
    invariant,
    on,
    ordered,
    projection,
)
from kraftcheck.spec.examples.paxos import agreed


class Phase(enum.Enum):
    """The phase of a resource manager in the transaction; also what an instance of Paxos chooses."""

    WORKING = "working"
    PREPARED = "prepared"
    COMMITTED = "committed"
    ABORTED = "aborted"


Instance = ModelValue
"""The resource manager whose decision an instance of Paxos is about."""


class ResourceManager(Record):
    """A participant in the transaction."""

    id: Instance
    phase: Phase = Phase.WORKING


class Vote(Record):
    """A vote for an outcome in a ballot."""

    ballot: int
    phase: Phase


class Acceptor(Record):
    """An acceptor in one instance."""

    id: tuple[ModelValue, Instance]
    promised: int = 0
    voted: Vote | None = None


class Leader(Record):
    """Whoever leads a ballot of an instance; ballot 0 is the resource manager's own."""

    id: tuple[Instance, int]


class Prepare(Record):
    """A ballot begins (phase 1a)."""

    ballot: int
    dest: tuple[ModelValue, Instance]


class Promise(Record):
    """An acceptor will not vote in lower ballots, and says how it has voted (phase 1b)."""

    voted: Vote | None
    source: ModelValue
    dest: tuple[Instance, int]


class Propose(Record):
    """Acceptors are asked to vote (phase 2a)."""

    vote: Vote
    dest: tuple[ModelValue, Instance]


class Accepted(Record):
    """An acceptor has voted (phase 2b)."""

    phase: Phase
    source: ModelValue
    dest: tuple[Instance, int]


class Decision(Record):
    """The outcome of the transaction."""

    phase: Phase
    dest: Instance


class Nothing(Record):
    """The protocol has no shared state."""


class PaxosCommit(Protocol):
    """All resource managers commit, or none does; no single process can hold them up."""

    resource_managers: frozenset[Instance] = constant("RM")
    acceptors: frozenset[ModelValue] = constant("Acceptor")
    majorities: frozenset[frozenset[ModelValue]] = constant("Majority")
    max_ballot: int = constant("MaxBallot", at_least=0)
    network = MessageSet(keeps=True)
    symmetries = {"symmRMAcceptor": ("resource_managers", "acceptors")}

    def initial(self) -> Iterator[State]:
        """Everyone is working."""
        managers = ordered(self.resource_managers)
        acceptors = [Acceptor((acceptor, rm)) for rm in managers for acceptor in ordered(self.acceptors)]
        leaders = [Leader((rm, ballot)) for rm in managers for ballot in range(self.max_ballot + 1)]
        yield self.start([*map(ResourceManager, managers), *acceptors, *leaders], Nothing())

    def _propose(self, rm: Instance, ballot: int, phase: Phase) -> Step:
        return Step().send(*[Propose(Vote(ballot, phase), (acceptor, rm)) for acceptor in ordered(self.acceptors)])

    @internal(name="RMPrepare")
    def prepare(self, me: ResourceManager) -> Steps:
        """A resource manager is prepared, and proposes that in its ballot 0."""
        if me.phase is not Phase.WORKING:
            return
        yield self._propose(me.id, 0, Phase.PREPARED).but(me=me.but(phase=Phase.PREPARED))

    @internal(name="RMChooseToAbort")
    def choose_to_abort(self, me: ResourceManager) -> Steps:
        """A resource manager that has not prepared may abort, and proposes that in its ballot 0."""
        if me.phase is not Phase.WORKING:
            return
        yield self._propose(me.id, 0, Phase.ABORTED).but(me=me.but(phase=Phase.ABORTED))

    @on(Decision, name="RMRcvDecision")
    def follow_decision(self, me: ResourceManager, decision: Decision) -> Steps:
        """A resource manager does what was decided."""
        yield consume(me.but(phase=decision.phase))

    @internal
    def phase1a(self, me: Leader) -> Steps:
        """A leader begins its ballot, if the resource manager does not seem to get through."""
        rm, ballot = me.id
        if ballot > 0:
            yield Step().send(*[Prepare(ballot, (acceptor, rm)) for acceptor in ordered(self.acceptors)])

    @on(Prepare)
    def phase1b(self, me: Acceptor, message: Prepare) -> Steps:
        """An acceptor joins a higher ballot, and tells its leader how it has voted."""
        acceptor, rm = me.id
        if message.ballot <= me.promised:
            return
        yield become(me.but(promised=message.ballot)).send(Promise(me.voted, acceptor, (rm, message.ballot)))

    @projection
    def promises(self, messages: tuple[Record, ...]) -> frozenset[Promise]:
        """The promises made to a leader."""
        return frozenset(message for message in messages if isinstance(message, Promise))

    @projection
    def proposed(self, messages: tuple[Record, ...]) -> frozenset[int]:
        """The ballots in which an acceptor is asked to vote."""
        return frozenset(message.vote.ballot for message in messages if isinstance(message, Propose))

    @internal(reads=(promises, proposed))
    def phase2a(
        self, me: Leader, promises: Map[object, frozenset[Promise]], proposed: Map[object, frozenset[int]]
    ) -> Steps:
        """A leader proposes, once, the outcome of the latest vote of a majority; to abort, if nobody has voted."""
        rm, ballot = me.id
        if ballot == 0 or any(ballot in proposed[acceptor, rm] for acceptor in self.acceptors):
            return
        safe: dict[Phase, None] = {}
        for majority in agreed((promise.source for promise in promises[me.id]), self.majorities):
            votes = [promise.voted for promise in promises[me.id] if promise.source in majority and promise.voted]
            latest = max(votes, key=lambda vote: vote.ballot, default=Vote(0, Phase.ABORTED))
            safe[latest.phase] = None
        for phase in ordered(safe):
            yield self._propose(rm, ballot, phase)

    @on(Propose)
    def phase2b(self, me: Acceptor, message: Propose) -> Steps:
        """An acceptor votes as proposed, unless it has joined a higher ballot."""
        acceptor, rm = me.id
        vote = message.vote
        if vote.ballot < me.promised:
            return
        voted = become(me.but(promised=vote.ballot, voted=vote))
        yield voted.send(Accepted(vote.phase, acceptor, (rm, vote.ballot)))

    @projection
    def outcome(self, messages: tuple[Record, ...]) -> Phase | None:
        """What a majority has voted for in a ballot; None as long as none has."""
        for phase in (Phase.PREPARED, Phase.ABORTED):
            sources = [m.source for m in messages if isinstance(m, Accepted) and m.phase is phase]
            if agreed(sources, self.majorities):
                return phase
        return None

    @environment(reads=outcome)
    def decide(self, outcome: Map[object, Phase | None]) -> Steps:
        """Some leader sees that all instances have chosen to be prepared, or that one has chosen to abort."""
        ballots = range(self.max_ballot + 1)
        chosen = {rm: {outcome[rm, ballot] for ballot in ballots} for rm in self.resource_managers}
        if all(Phase.PREPARED in outcomes for outcomes in chosen.values()):
            yield self._announce(Phase.COMMITTED)
        if any(Phase.ABORTED in outcomes for outcomes in chosen.values()):
            yield self._announce(Phase.ABORTED)

    def _announce(self, phase: Phase) -> Step:
        return Step().send(*[Decision(phase, rm) for rm in ordered(self.resource_managers)])

    @invariant
    def consistent(self, me: ResourceManager, peer: ResourceManager) -> bool:
        """No resource manager commits while another aborts."""
        return {me.phase, peer.phase} != {Phase.COMMITTED, Phase.ABORTED}

    @invariant(reads=outcome)
    def one_outcome(self, outcome: Map[object, Phase | None]) -> bool:
        """No instance chooses both to be prepared and to abort."""
        ballots = range(self.max_ballot + 1)
        return all(len({outcome[rm, b] for b in ballots} - {None}) <= 1 for rm in self.resource_managers)

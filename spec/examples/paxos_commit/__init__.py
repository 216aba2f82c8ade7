"""Paxos Commit: one instance of Paxos per resource manager decides whether it is prepared.

The transaction commits if all of them are. Sources: J. Gray, L. Lamport, "Consensus on transaction commit" (2006);
module PaxosCommit of the TLA+ examples. There all messages are in one global set, and an acceptor's state is a function
of the instance. Here an acceptor is one replica per instance, and a leader is one per instance and ballot. The states
are the same.
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
from kraftcheck.spec.examples.paxos import quorums_within


class Phase(enum.Enum):
    """The phase of a resource manager in the transaction, and the outcome of a Paxos instance."""

    WORKING = "working"
    PREPARED = "prepared"
    COMMITTED = "committed"
    ABORTED = "aborted"


Instance = ModelValue
"""The resource manager whose decision an instance of Paxos chooses."""


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
    """The leader of an instance's ballot; ballot 0 is the resource manager's own."""

    id: tuple[Instance, int]


class Prepare(Record):
    """The start of a ballot (phase 1a)."""

    ballot: int
    dest: tuple[ModelValue, Instance]


class Promise(Record):
    """An acceptor's promise to vote in no lower ballot, with its last vote (phase 1b)."""

    voted: Vote | None
    source: ModelValue
    dest: tuple[Instance, int]


class Propose(Record):
    """A proposal of an outcome to an acceptor (phase 2a)."""

    vote: Vote
    dest: tuple[ModelValue, Instance]


class Accepted(Record):
    """An acceptor's vote (phase 2b)."""

    phase: Phase
    source: ModelValue
    dest: tuple[Instance, int]


class Decision(Record):
    """The outcome of the transaction."""

    phase: Phase
    dest: Instance


class Nothing(Record):
    """The empty shared state."""


class PaxosCommit(Protocol):
    """All resource managers commit or none does, and no single process can block them."""

    resource_managers: frozenset[Instance] = constant("RM")
    acceptors: frozenset[ModelValue] = constant("Acceptor")
    majorities: frozenset[frozenset[ModelValue]] = constant("Majority")
    max_ballot: int = constant("MaxBallot", at_least=0)
    network = MessageSet(keeps=True)
    symmetries = {"symmRMAcceptor": ("resource_managers", "acceptors")}

    def initial(self) -> Iterator[State]:
        """Yield the initial state, with all resource managers working."""
        managers = ordered(self.resource_managers)
        acceptors = [Acceptor((acceptor, rm)) for rm in managers for acceptor in ordered(self.acceptors)]
        leaders = [Leader((rm, ballot)) for rm in managers for ballot in range(self.max_ballot + 1)]
        yield self.start([*map(ResourceManager, managers), *acceptors, *leaders], Nothing())

    def _propose(self, rm: Instance, ballot: int, phase: Phase) -> Step:
        return Step().send(*[Propose(Vote(ballot, phase), (acceptor, rm)) for acceptor in ordered(self.acceptors)])

    @internal(name="RMPrepare")
    def prepare(self, me: ResourceManager) -> Steps:
        """A resource manager becomes prepared, and proposes this in its ballot 0."""
        if me.phase is not Phase.WORKING:
            return
        yield self._propose(me.id, 0, Phase.PREPARED).but(me=me.but(phase=Phase.PREPARED))

    @internal(name="RMChooseToAbort")
    def choose_to_abort(self, me: ResourceManager) -> Steps:
        """A resource manager that has not prepared may abort, and proposes this in its ballot 0."""
        if me.phase is not Phase.WORKING:
            return
        yield self._propose(me.id, 0, Phase.ABORTED).but(me=me.but(phase=Phase.ABORTED))

    @on(Decision, name="RMRcvDecision")
    def follow_decision(self, me: ResourceManager, decision: Decision) -> Steps:
        """A resource manager follows the decision."""
        yield consume(me.but(phase=decision.phase))

    @internal
    def phase1a(self, me: Leader) -> Steps:
        """A leader starts its ballot, in case the resource manager's own has failed."""
        rm, ballot = me.id
        if ballot > 0:
            yield Step().send(*[Prepare(ballot, (acceptor, rm)) for acceptor in ordered(self.acceptors)])

    @on(Prepare)
    def phase1b(self, me: Acceptor, message: Prepare) -> Steps:
        """An acceptor joins a higher ballot, and sends its last vote to the leader."""
        acceptor, rm = me.id
        if message.ballot <= me.promised:
            return
        yield become(me.but(promised=message.ballot)).send(Promise(me.voted, acceptor, (rm, message.ballot)))

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
        """A leader proposes an outcome once: the latest vote of a majority, or to abort if the majority has no vote."""
        rm, ballot = me.id
        if ballot == 0 or any(ballot in proposed[acceptor, rm] for acceptor in self.acceptors):
            return
        safe: dict[Phase, None] = {}
        for majority in quorums_within((promise.source for promise in promises[me.id]), self.majorities):
            votes = [promise.voted for promise in promises[me.id] if promise.source in majority and promise.voted]
            latest = max(votes, key=lambda vote: vote.ballot, default=Vote(0, Phase.ABORTED))
            safe[latest.phase] = None
        for phase in ordered(safe):
            yield self._propose(rm, ballot, phase)

    @on(Propose)
    def phase2b(self, me: Acceptor, message: Propose) -> Steps:
        """An acceptor votes for the proposal, unless it has joined a higher ballot."""
        acceptor, rm = me.id
        vote = message.vote
        if vote.ballot < me.promised:
            return
        voted = become(me.but(promised=vote.ballot, voted=vote))
        yield voted.send(Accepted(vote.phase, acceptor, (rm, vote.ballot)))

    @projection
    def outcome(self, messages: tuple[Record, ...]) -> Phase | None:
        """The outcome that a majority has voted for in a ballot, or None."""
        for phase in (Phase.PREPARED, Phase.ABORTED):
            sources = [m.source for m in messages if isinstance(m, Accepted) and m.phase is phase]
            if quorums_within(sources, self.majorities):
                return phase
        return None

    @environment(reads=outcome)
    def decide(self, outcome: Map[object, Phase | None]) -> Steps:
        """The transaction commits if all instances chose prepared, and aborts if one chose aborted."""
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
        """No instance chooses both prepared and aborted."""
        ballots = range(self.max_ballot + 1)
        return all(len({outcome[rm, b] for b in ballots} - {None}) <= 1 for rm in self.resource_managers)

"""Two-phase commit, the textbook model: resource managers, a transaction manager, and a set of all messages sent.

Source: Gray and Lamport, "Consensus on Transaction Commit", module TwoPhase (TLA+ examples).

>>> from kraftcheck.explorer.reference import explore
>>> from kraftcheck.spec.values import ModelValue
>>> three = frozenset(ModelValue(f"rm{i}", i) for i in (1, 2, 3))
>>> result = explore(TwoPhaseCommit(resource_managers=three))
>>> result.distinct_states, result.generated_states, result.depth
(288, 1146, 11)
"""

from __future__ import annotations

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
    Symbol,
    become,
    constant,
    consume,
    internal,
    invariant,
    on,
    ordered,
    projection,
    step_invariant,
)


class Phase(Symbol):
    """The phase of a manager in the transaction."""

    WORKING = "working"
    PREPARED = "prepared"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Manager(Symbol):
    """The id of the transaction manager."""

    TM = "tm"


class ResourceManager(Record):
    """A participant in the transaction."""

    id: ModelValue
    phase: Phase = Phase.WORKING


class TransactionManager(Record):
    """The coordinator, with the participants known to be prepared."""

    id: Manager = Manager.TM
    phase: Phase = Phase.WORKING
    prepared: frozenset[ModelValue] = frozenset()


class Prepared(Record):
    """A participant reports to the coordinator that it is prepared."""

    source: ModelValue
    dest: Manager = Manager.TM


class Decision(Record):
    """The coordinator sends the outcome to a participant."""

    phase: Phase
    dest: ModelValue


class Nothing(Record):
    """The empty shared state."""


class TwoPhaseCommit(Protocol):
    """All resource managers commit, or none does."""

    resource_managers: frozenset[ModelValue] = constant("RM")
    network = MessageSet(keeps=True)
    symmetries = {"symmRM": ("resource_managers",)}

    def initial(self) -> Iterator[State]:
        """Yield the initial state, with all managers working."""
        managers = [ResourceManager(rm) for rm in ordered(self.resource_managers)]
        yield self.start([*managers, TransactionManager()], Nothing())

    @internal
    def prepare(self, me: ResourceManager) -> Steps:
        """A resource manager becomes prepared, and reports it."""
        if me.phase is not Phase.WORKING:
            return
        yield become(me.but(phase=Phase.PREPARED)).send(Prepared(me.id))

    @internal
    def choose_to_abort(self, me: ResourceManager) -> Steps:
        """A resource manager that has not prepared may abort by itself."""
        if me.phase is not Phase.WORKING:
            return
        yield become(me.but(phase=Phase.ABORTED))

    @on(Prepared)
    def hear_prepared(self, me: TransactionManager, message: Prepared) -> Steps:
        """The undecided transaction manager records a prepared participant."""
        if me.phase is not Phase.WORKING:
            return
        yield consume(me.but(prepared=me.prepared | {message.source}))

    @internal
    def commit(self, me: TransactionManager) -> Steps:
        """The transaction manager commits once all are prepared."""
        if me.phase is not Phase.WORKING or me.prepared != self.resource_managers:
            return
        yield self._decide(me, Phase.COMMITTED)

    @internal
    def abort(self, me: TransactionManager) -> Steps:
        """The undecided transaction manager may abort at any time."""
        if me.phase is not Phase.WORKING:
            return
        yield self._decide(me, Phase.ABORTED)

    @on(Decision)
    def follow_decision(self, me: ResourceManager, decision: Decision) -> Steps:
        """A resource manager follows the decision."""
        yield consume(me.but(phase=decision.phase))

    def _decide(self, me: TransactionManager, phase: Phase) -> Step:
        return become(me.but(phase=phase)).send(*[Decision(phase, rm) for rm in ordered(self.resource_managers)])

    @invariant
    def consistent(self, me: ResourceManager, peer: ResourceManager) -> bool:
        """No resource manager commits while another aborts."""
        return not (me.phase is Phase.COMMITTED and peer.phase is Phase.ABORTED)

    @step_invariant
    def outcome_is_final(
        self, before: ResourceManager | TransactionManager, after: ResourceManager | TransactionManager
    ) -> bool:
        """A manager that has committed or aborted never changes (Gray and Lamport: stability)."""
        return before.phase not in (Phase.COMMITTED, Phase.ABORTED) or after == before

    @projection
    def said(self, messages: tuple[Record, ...]) -> frozenset[ModelValue]:
        """The resource managers with a Prepared message to a manager."""
        return frozenset(message.source for message in messages if isinstance(message, Prepared))

    @invariant(reads=said)
    def prepared_is_said(self, me: ResourceManager, said: Map[object, frozenset[ModelValue]]) -> bool:
        """A prepared resource manager has sent Prepared, so it can no longer decide alone."""
        return me.phase is not Phase.PREPARED or me.id in said[Manager.TM]

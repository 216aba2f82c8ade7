"""Module TCommit of the TLA+ Examples: the requirements of a commit protocol."""

from collections.abc import Iterator
from enum import StrEnum

from kraftcheck import *


class Phase(StrEnum):
    WORKING = "working"
    PREPARED = "prepared"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Manager(Record):
    tla_names = {"phase": "rmState"}
    id: ModelValue
    phase: Phase = Phase.WORKING


class Nothing(Record):
    pass


class TCommit(Protocol):
    managers: frozenset[ModelValue] = constant("RM")
    network = None
    accepted_names = ("TCInit", "TCNext")

    def initial(self) -> Iterator[State]:
        yield self.start(map(Manager, ordered(self.managers)), Nothing())

    @projection
    def phases(self, me: Manager) -> Phase:
        return me.phase

    @internal
    def prepare(self, me: Manager) -> Steps:
        if me.phase is Phase.WORKING:
            yield become(me.but(phase=Phase.PREPARED))

    @internal(reads=phases)
    def decide(self, me: Manager, phases: Map[ModelValue, Phase]) -> Steps:
        known = set(phases.values())
        if me.phase is Phase.PREPARED and known <= {Phase.PREPARED, Phase.COMMITTED}:
            yield become(me.but(phase=Phase.COMMITTED))
        if me.phase in (Phase.WORKING, Phase.PREPARED) and Phase.COMMITTED not in known:
            yield become(me.but(phase=Phase.ABORTED))

    @invariant(name="TCConsistent")
    def consistent(self, me: Manager, peer: Manager) -> bool:
        return not (me.phase is Phase.ABORTED and peer.phase is Phase.COMMITTED)

"""The temporal properties of `reconfig`, under the names that the specification KRaftWithReconfig gives them."""

from __future__ import annotations

from kraftcheck.kraft_model.reconfig.base import ReconfigBase
from kraftcheck.kraft_model.reconfig.records import (
    AddedMember,
    Config,
    Entry,
    InitialMembers,
    RemovedMember,
    Server,
    ServerId,
    ServerState,
)
from kraftcheck.spec import (
    Formula,
    Map,
    ModelValue,
    Record,
    every,
    infinitely_often,
    ordered,
    predicate,
    projection,
    temporal,
)


class Holding(Record):
    """The part of a server that tells what became of what was appended."""

    state: ServerState
    epoch: int
    log: tuple[Entry, ...]
    high_watermark: int
    config: Config

    def has(self, what: ModelValue | int) -> bool:
        """Return whether its log holds a client's value, or the configuration of an id."""
        return any(_is(entry, what) for entry in self.log)

    def has_committed(self, what: ModelValue | int) -> bool:
        """Return whether it knows that one is committed."""
        return any(_is(entry, what) for entry in self.log[: self.high_watermark])


def _is(entry: Entry, what: ModelValue | int) -> bool:
    if isinstance(entry.value, (InitialMembers, AddedMember, RemovedMember)):
        return entry.value.id == what
    return entry.value == what


class ReconfigLiveness(ReconfigBase):
    """ValuesNotStuck and ReconfigurationNotStuck, under WF_vars(Next) in LivenessSpec."""

    @projection
    def holding(self, me: Server) -> Holding:
        """What a server holds."""
        return Holding(me.state, me.current_epoch, me.log, me.high_watermark, me.config)

    @predicate(reads=holding, given=["what"])
    def committed_or_nothing(
        self, spent: Map[str, int], holding: Map[ServerId, Holding], what: ModelValue | int
    ) -> bool:
        """A value, or a configuration by its id, is everywhere or nowhere in a current leader's configuration.

        It is true too where NoProgressPossible is: that asks for a server whose `state` is Voter, which is a role, so
        all elections being used up is all that it asks (CommittedValueOrNothing, ConfigAllOrNothing).
        """
        if spent["elections"] == self.elections:
            return True
        newest = max(server.epoch for server in holding.values())
        for leader in holding.values():
            if leader.state is not ServerState.LEADER or leader.epoch < newest:
                continue
            members = [holding[member] for member in leader.config.members]
            if all(one.has_committed(what) for one in members) or not any(one.has(what) for one in members):
                return True
        return False

    @temporal
    def values_not_stuck(self) -> Formula:
        """A client's value is committed everywhere or truncated everywhere, again and again."""
        return every([infinitely_often(self.committed_or_nothing.of(what=value)) for value in ordered(self.values)])

    @temporal
    def reconfiguration_not_stuck(self) -> Formula:
        """A change of the configuration is committed everywhere or truncated everywhere, again and again."""
        changes = self.add_reconfigs + self.remove_reconfigs
        return every([infinitely_often(self.committed_or_nothing.of(what=number + 1)) for number in range(changes)])

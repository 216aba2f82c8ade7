"""The properties of `recovery`, with their sources.

Temporal properties assume fairness of the steps of brokers and the controller, each replica separately. Crashes,
fences, unclean elections, changes of the ISR and restarts are not fair.
"""

from __future__ import annotations

from kraftcheck.kraft_model.recovery.base import RecoveryBase, high_watermark, log_values, partition_from_metadata
from kraftcheck.kraft_model.recovery.records import (
    RECOVERED,
    RECOVERING,
    AlterPartitionRequest,
    Api,
    Broker,
    Client,
    ClientRequest,
    ClientResponse,
    Controller,
    EpochEndResponse,
    Error,
    Mode,
    Name,
    Nil,
    ReplicaFetchResponse,
    Shared,
)
from kraftcheck.spec import (
    Formula,
    Map,
    ModelValue,
    Record,
    at,
    every,
    invariant,
    leads_to,
    ordered,
    predicate,
    projection,
    reachable,
    step_invariant,
    temporal,
    weak,
)

FAIRNESS = tuple(
    weak(name, each="replica")
    for name in (
        "ApplyMetadata",
        "HandleLeaderAndIsr",
        "Recover",
        "ReportRecovered",
        "RefuseAlterPartition",
        "AcceptAlterPartition",
        "HandleAlterPartitionResponse",
        "BreakConnection",
    )
)
"""Fairness of the steps of brokers and the controller."""


class ControllerDecision(Record):
    """The leader and recovery state that the controller has decided, and the brokers with a session."""

    leader: ModelValue | None
    recovering: bool
    sessions: frozenset[ModelValue]


class RecoveryProperties(RecoveryBase):
    """Invariants, step invariants, reachability goals (AG EF) and temporal properties."""

    @invariant
    def recovering_has_one_in_sync(self, me: Controller) -> bool:
        """RECOVERING implies one in-sync replica. KIP-704, Topic Partition Leader ("an important invariant")."""
        return me.partition.recovery is RECOVERED or len(me.partition.isr) == 1

    @step_invariant
    def alter_partition_never_unrecovers(self, before: Controller, after: Controller) -> bool:
        """Within a leader epoch RECOVERED never becomes RECOVERING. KIP-704, AlterPartition RPC, 2."""
        old, new = before.partition, after.partition
        return old.leader_epoch != new.leader_epoch or old.recovery is RECOVERING or new.recovery is RECOVERED

    @step_invariant
    def successor_elected_uncleanly(self, before: Controller, after: Controller, shared: Shared) -> bool:
        """The successor of a leader that has not recovered is elected uncleanly, and has to recover.

        KIP-704, Topic Partition Leader ("if the leader changes while a partition is still recovering ..."). A return of
        the same broker is no change.
        """
        old, new = before.partition, after.partition
        if old.leader_epoch not in shared.unrecovered or new.leader in (Nil.NO_LEADER, shared.last_leader):
            return True
        return new.leader not in old.isr and new.recovery is RECOVERING

    @invariant
    def no_client_served_while_recovering(self, shared: Shared) -> bool:
        """No client is served in a leader epoch whose leader has not recovered.

        KIP-704, Topic Partition Leader and Follower. A broker without the recovery state is exempt: it "behaves as it
        currently does" (Compatibility).
        """
        return not shared.served & shared.unrecovered

    @invariant
    def leader_has_acknowledged(self, me: Controller, peer: Broker, shared: Shared) -> bool:
        """The leader holds every value acknowledged since the last unclean election. KIP-497, KIP-101."""
        kept = {value for epoch, value in shared.acknowledged if epoch >= shared.unclean_epoch}
        return peer.id != me.partition.leader or kept <= log_values(peer.log)

    @invariant
    def log_matching(self, me: Broker, peer: Broker) -> bool:
        """Two logs with entries of one epoch at one offset are equal up to that offset. KIP-101, KIP-279."""
        return all(
            me.log[: place + 1] == peer.log[: place + 1]
            for place, (mine, theirs) in enumerate(zip(me.log, peer.log, strict=False))
            if mine.epoch == theirs.epoch
        )

    @reachable
    def everyone_can_serve(self, me: Broker) -> bool:
        """Every broker can serve consumers again. KIP-704, Topic Partition Follower ("until ... RECOVERED")."""
        return self._serves(me, Api.FETCH)

    # Partition states known to processes

    @invariant
    def brokers_know_what_was_decided(self, me: Broker, peer: Controller) -> bool:
        """A broker's partition state is older than the controller's, or equal to it. KIP-704, KIP-497."""
        mine, real = me.partition, peer.partition
        if mine.partition_epoch != real.partition_epoch:
            return mine.partition_epoch < real.partition_epoch and mine.leader_epoch <= real.leader_epoch
        return mine == real or (self._does_not_know_recovery(me) and mine == real.but(recovery=mine.recovery))

    @invariant
    def brokers_know_the_metadata(self, me: Broker, shared: Shared) -> bool:
        """In KRaft a broker knows the state after its applied metadata records, or a later one. KRaft Controller."""
        if self.mode is not Mode.KRAFT or not me.running:
            return True
        states = [partition_from_metadata(shared.metadata[:end]) for end in range(me.cursor, len(shared.metadata) + 1)]
        if self._does_not_know_recovery(me):
            states = [state.but(recovery=me.partition.recovery) for state in states]
        return me.partition in states

    @invariant
    def metadata_is_what_was_decided(self, me: Controller, shared: Shared) -> bool:
        """In KRaft the metadata log yields the controller's partition state. KRaft Controller."""
        return self.mode is not Mode.KRAFT or partition_from_metadata(shared.metadata) == me.partition

    def _does_not_know_recovery(self, me: Broker) -> bool:
        """Whether a broker, or the controller that informs it, has no field for the recovery state. Compatibility."""
        return me.id in self.old_brokers | self.old_ibp or not self.controller_recovers

    @invariant
    def leader_is_in_sync(self, me: Controller) -> bool:
        """The leader is an in-sync, unfenced replica. KIP-704, Topic Partition Leader; KIP-841."""
        leader = me.partition.leader
        return leader is Nil.NO_LEADER or (leader in me.partition.isr and leader not in me.fenced)

    @step_invariant
    def epochs_only_grow(self, before: Broker | Controller, after: Broker | Controller) -> bool:
        """The partition state known to a running process never gets older. KIP-704, Topic Partition Follower."""
        if isinstance(before, Broker) and isinstance(after, Broker):
            if not before.running or not after.running:
                return before.log == after.log  # the log is on disk
            if (after.controller_epoch, after.cursor) < (before.controller_epoch, before.cursor):
                return False
        old, new = before.partition, after.partition
        return old.leader_epoch <= new.leader_epoch and old.partition_epoch <= new.partition_epoch

    # Leaders and their followers

    @step_invariant
    def recovers_while_recovering(self, before: Broker, after: Broker) -> bool:
        """Only a leader in RECOVERING recovers the partition. KIP-704, Topic Partition Leader."""
        return not after.recovered or before.recovered or (before.leads and before.partition.recovery is RECOVERING)

    @invariant
    def proposals_are_the_leaders(self, me: Broker) -> bool:
        """A leader proposes an ISR with itself, in its epoch and its IBP's version. KIP-497; KIP-704."""
        asked = me.pending
        if not isinstance(asked, AlterPartitionRequest):
            return True
        old = me.id in self.old_brokers | self.old_ibp
        fits = me.leads and asked.source == me.id and me.id in asked.isr and asked.isr <= self.brokers
        known = me.partition
        epochs = asked.leader_epoch == known.leader_epoch and asked.partition_epoch <= known.partition_epoch
        return fits and epochs and asked.attempt >= 1 and (asked.version == 0) == old == (asked.recovery is Nil.ABSENT)

    @step_invariant
    def committed_is_answered(self, before: Broker, after: Broker) -> bool:
        """A leader acknowledges every value that all in-sync replicas are known to hold; no other broker does.

        KIP-497 (acks=all). A rejected proposal adds no such knowledge.
        """
        if not after.leads:
            return not after.waiting
        committed = high_watermark(after, self._counted(after))
        learned = (before.ends, before.partition, before.log) != (after.ends, after.partition, after.log)
        return not learned or all(committed < offset <= len(after.log) for offset in after.waiting)

    # Messages

    @invariant
    def clients_are_answered_as_they_asked(self, message: ClientRequest | ClientResponse) -> bool:
        """Only messages of PRODUCE carry a value, and only DISCONNECTED responses lack an epoch."""
        if (message.value > 0) != (message.api is Api.PRODUCE):
            return False
        if isinstance(message, ClientRequest):
            return True
        expected = (Error.NONE, Error.NOT_LEADER_OR_FOLLOWER, Error.DISCONNECTED)
        return message.error in expected and (message.leader_epoch < 0) == (message.error is Error.DISCONNECTED)

    @invariant
    def errors_carry_nothing(self, message: EpochEndResponse | ReplicaFetchResponse) -> bool:
        """A response with an error carries no part of the log; one without an error does. KIP-279; KIP-704, FETCH."""
        if isinstance(message, ReplicaFetchResponse):
            return (message.entries == ()) == (message.error is not Error.NONE)
        return message.error is Error.NONE or (message.epoch, message.end_offset) == (-1, 0)

    @invariant
    def waiting_clients_try_again(self, me: Client) -> bool:
        """Only a client with a pending request is in the rejected state. KIP-704, Clients."""
        return not me.refused or me.waiting is not Nil.NIL

    # Properties that the KIP's own design violates: see docs/findings.md

    @invariant
    def nobody_serves_while_recovering(self, me: Controller, peer: Broker) -> bool:
        """While the partition is RECOVERING no broker would serve a FETCH, even one with a stale state."""
        return me.partition.recovery is RECOVERED or not self._serves(peer, Api.FETCH)

    @invariant
    def nothing_acknowledged_is_lost(self, me: Controller, peer: Broker, shared: Shared) -> bool:
        """The leader holds every value ever acknowledged; under KIP-704, Motivation, values may be lost."""
        kept = {value for _, value in shared.acknowledged}
        return peer.id != me.partition.leader or kept <= log_values(peer.log)

    @projection
    def decided(self, me: Record) -> ControllerDecision | None:
        """Return the controller's leader, recovery state and brokers with a session; None for other processes."""
        if not isinstance(me, Controller):
            return None
        leader, recovering = me.partition.leader, me.partition.recovery is RECOVERING
        return ControllerDecision(
            leader if isinstance(leader, ModelValue) else None, recovering, self.brokers - me.fenced
        )

    @projection
    def is_up(self, me: Record) -> bool:
        """Whether a broker runs."""
        return isinstance(me, Broker) and me.running

    @predicate(reads=(decided, is_up))
    def is_being_recovered(
        self, decided: Map[ModelValue | Name, ControllerDecision | None], is_up: Map[ModelValue | Name, bool]
    ) -> bool:
        """The partition is RECOVERING, and has a running leader."""
        known = decided[Name.CONTROLLER]
        return known is not None and known.recovering and known.leader is not None and is_up[known.leader]

    @temporal(fairness=FAIRNESS)
    def recovering_ends(self) -> Formula:
        """RECOVERING with a running leader eventually ends (KIP-704, Topic Partition Leader)."""
        recovering = self.is_being_recovered
        return leads_to(recovering, ~recovering)

    @predicate(reads=(decided, is_up))
    def refuses(
        self,
        me: Broker,
        decided: Map[ModelValue | Name, ControllerDecision | None],
        is_up: Map[ModelValue | Name, bool],
    ) -> bool:
        """A broker with a session rejects consumers although the partition has a running, recovered leader."""
        known = decided[Name.CONTROLLER]
        if known is None or known.recovering or known.leader is None or not is_up[known.leader]:
            return False
        return me.running and me.id in known.sessions and not self._serves(me, Api.FETCH)

    @temporal(fairness=FAIRNESS)
    def everyone_serves(self) -> Formula:
        """Leader and followers eventually serve after a recovery (KIP-704, Topic Partition Follower)."""
        return every([leads_to(at(one, self.refuses), ~at(one, self.refuses)) for one in ordered(self.brokers)])

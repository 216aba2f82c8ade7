"""The model with the parts of a server around the Raft client, for walks beside Kafka.

Walks of `kraftcheck lockstep --variant server` have them all at once. A controller writes first or resigns. A listener
registers late. A log has several snapshots, which travel in pieces. Each host has static voters of its own.
"""

from __future__ import annotations

from typing import ClassVar

from kraftcheck.kraft_model.quorum.records import ENDED, DiskReplica, Mode, Replica, Term
from kraftcheck.kraft_model.quorum.variants.controllers import ControllerReplica, Controllers
from kraftcheck.kraft_model.quorum.variants.reports import (
    Listeners,
    ListeningReplica,
    LogBeforeSnapshot,
    PieceReplica,
    SnapshotPieces,
    StaticReplica,
    StaticVoters,
)
from kraftcheck.spec import ModelValue, Record, Step


class ServerReplica(ControllerReplica, ListeningReplica, PieceReplica, StaticReplica, DiskReplica):
    """A replica with a controller, a listener, pieces of a snapshot, a list of voters, and several snapshots."""

    volatile = {**ControllerReplica.volatile, **PieceReplica.volatile}


class ListenersLearnByEpoch(Listeners):
    """A listener learns at most of one leader an epoch, and not that this leader has resigned.

    `KafkaRaftClient.ListenerContext.shouldFireLeaderChange` waits for the next epoch, although the listener's interface
    promises a call when a leader steps down. A new leader's listener learns of it once its LeaderChangeMessage is
    committed (`maybeFireLeaderChange`). All versions.
    """

    def notifies(self, me: Replica) -> Replica:
        assert isinstance(me, ListeningReplica)
        if me.mode is Mode.LEADER and not self.is_established(me):
            return me
        is_new = not isinstance(me.heard_of, Term) or me.heard_of.epoch < me.epoch
        return super().notifies(me) if is_new else me

    def taken(
        self, before: Replica, after: Replica, *messages: Record, consumes: bool = True, starts: bool = False
    ) -> Step:
        assert isinstance(after, ListeningReplica)
        if after.registered and not starts and after.mode not in ENDED:
            after = self.notifies(after)
        return super().taken(before, after, *messages, consumes=consumes, starts=starts)


class Server(Controllers, Listeners, SnapshotPieces, StaticVoters, LogBeforeSnapshot, variant="server"):
    """Controllers, listeners, several snapshots, snapshots in pieces and static voters, all at once."""

    configuration = "lockstep-server"
    replica_type = ServerReplica  # type: ignore[assignment]
    differences: ClassVar = (ListenersLearnByEpoch,)

    def formatted(self, host: ModelValue, directory: int, endpoint: int = 1) -> Replica:
        """Formatting at kraft.version 1 writes a snapshot that ends at 0 (KIP-853, "Bootstrap snapshot")."""
        blank = super().formatted(host, directory, endpoint)
        return blank.but(snapshots=(0,)) if self.initial_version > 0 else blank


__all__ = ["Server"]

"""The parts of a server around Kafka's Raft client, in the terms of the variant `server`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kraftcheck.kraft_model.quorum.records import DiskReplica, Mode, Nil, Replica, Term
from kraftcheck.kraft_model.quorum.rules import epoch_start
from kraftcheck.spec.values import field_names


class ServerParts(NamedTuple):
    """The compared parts of a server: the fields of a listener and of snapshots, under the names of the model."""

    registered: bool
    heard_of: Term | Nil
    claims: bool  # of a leader: whether its controller has learned that it leads
    snapshots: tuple[int, ...]


def compared(model: Replica, kafka: ServerParts) -> Iterator[tuple[str, Any, Any]]:
    """Yield the compared parts of a server that the model has: name, the model's value, Kafka's value."""
    known = field_names(type(model))
    if "registered" in known:
        for field in ("registered", "heard_of"):
            yield field, getattr(model, field), getattr(kafka, field)
    if "active" in known and model.mode is Mode.LEADER:
        yield "claims", model.high_watermark > epoch_start(model.log, model.epoch), kafka.claims
    if isinstance(model, DiskReplica):
        yield "snapshots", model.snapshots, kafka.snapshots


def adopted(was: Replica, kafka: ServerParts) -> dict[str, Any]:
    """Return the parts of a Kafka server as fields of the model's replica."""
    known = field_names(type(was))
    return {name: value for name, value in kafka._asdict().items() if name in known}

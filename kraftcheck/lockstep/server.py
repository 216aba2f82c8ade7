"""The parts of a server around Kafka's Raft client, in the terms of the variant `server`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kraftcheck.kraft_model.quorum.base import QuorumBase
from kraftcheck.kraft_model.quorum.records import (
    DiskReplica,
    Error,
    FetchRequest,
    FetchResponse,
    Mode,
    Nil,
    Replica,
    Shared,
    Term,
)
from kraftcheck.kraft_model.quorum.rules import epoch_start
from kraftcheck.kraft_model.quorum.variants.reports import Features, Report, Reports
from kraftcheck.spec.values import field_names


class ServerParts(NamedTuple):
    """The compared parts of a server: the fields of a listener and of snapshots, under the names of the model."""

    registered: bool
    heard_of: Term | Nil
    claims: bool  # of a leader: whether its controller has learned that it leads
    snapshots: tuple[int, ...]
    told: Report  # the kraft.version that the client returns, and the high watermark of its log
    read: int | None  # the kraft.version in the committed records that its controller has read; None without one
    delayed: tuple[int, ...]  # the driver's numbers of the fetches whose responses it delays


def compared(
    model: Replica, kafka: ServerParts, delayed: frozenset[FetchRequest], protocol: QuorumBase
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the compared parts of a server that the model has: name, the model's value, Kafka's value.

    `delayed` are the fetches that Kafka delays.
    """
    known = field_names(type(model))
    if isinstance(protocol, Features):
        yield "read_version", protocol.committed_version(model), kafka.read
    if "delayed" in known:
        yield "delayed", frozenset(answer.request for answer in model.delayed), delayed
    if "registered" in known:
        for field in ("registered", "heard_of"):
            yield field, getattr(model, field), getattr(kafka, field)
    if "active" in known and model.mode is Mode.LEADER:
        yield "claims", model.high_watermark > epoch_start(model.log, model.epoch), kafka.claims
    if isinstance(model, DiskReplica):
        yield "snapshots", model.snapshots, kafka.snapshots


def adopted_reports(shared: Shared, reported: frozenset[Report]) -> dict[str, Any]:
    """Return the versions that Kafka's replicas reported, as a field of the model's shared state."""
    return {"reports": reported} if isinstance(shared, Reports) else {}


def compared_reports(shared: Shared, reported: frozenset[Report]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the versions that replicas reported as finalized, if the model has them, and Kafka's."""
    if isinstance(shared, Reports):
        yield "reports", shared.reports, reported


def adopted(was: Replica, kafka: ServerParts, delayed: frozenset[FetchRequest]) -> dict[str, Any]:
    """Return the parts of a Kafka server as fields of the model's replica."""
    known = field_names(type(was))
    answers = frozenset(
        FetchResponse(
            r.epoch, was.id, Error.NONE, r.high_watermark, (), Nil.NIL, Nil.NIL, r, was.id, r.source, was.endpoint
        )
        for r in delayed
    )
    return {name: value for name, value in (kafka._asdict() | {"delayed": answers}).items() if name in known}

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
from kraftcheck.spec.values import field_names


class ServerParts(NamedTuple):
    """The compared parts of a server: the fields of a listener and of snapshots, under the names of the model."""

    registered: bool
    heard_of: Term | Nil
    claims: bool  # of a leader: whether its controller has learned that it leads
    snapshots: tuple[int, ...]
    told: tuple[int, int]  # the kraft.version that the client returns, and the high watermark of its log
    read: int | None  # the kraft.version in the committed records that its controller has read; None without one
    delayed: tuple[int, ...]  # the driver's numbers of the fetches whose responses it delays


def compared(
    model: Replica, kafka: ServerParts, delayed: frozenset[FetchRequest], protocol: QuorumBase
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the compared parts of a server that the model has: name, the model's value, Kafka's value.

    `delayed` are the fetches that Kafka delays.
    """
    known = field_names(type(model))
    committed = getattr(protocol, "committed_version", None)
    if committed is not None and not getattr(model, "forgot", False):
        yield "read_version", committed(model), kafka.read
    if "delayed" in known:
        yield "delayed", frozenset(answer.request for answer in getattr(model, "delayed")), delayed  # noqa: B009
    if "registered" in known:
        for field in ("registered", "heard_of"):
            yield field, getattr(model, field), getattr(kafka, field)
    if "active" in known and model.mode is Mode.LEADER:
        yield "claims", model.high_watermark > epoch_start(model.log, model.epoch), kafka.claims
    if isinstance(model, DiskReplica):
        yield "snapshots", model.snapshots, kafka.snapshots


Reported = frozenset[tuple[int, int]]
"""The versions that replicas reported as finalized, each with the replica's high watermark."""


def adopted_reports(protocol: QuorumBase, reported: Reported) -> dict[str, Any]:
    """Return what Kafka's replicas reported as a field of the model's shared state, if the model has it."""
    report = getattr(protocol, "report_type", None)
    return {} if report is None else {"reports": frozenset(report(*one) for one in reported)}


def compared_reports(shared: Shared, reported: Reported) -> Iterator[tuple[str, Any, Any]]:
    """Yield what replicas reported in the model, if it has that, and in Kafka."""
    told = getattr(shared, "reports", None)
    if told is not None:
        yield "reports", frozenset((one.version, one.high_watermark) for one in told), reported


def known_to(fetch: FetchRequest) -> int:
    """Return the high watermark that a fetch carries."""
    high: int = getattr(fetch, "high_watermark", 0)
    return high


def adopted(was: Replica, kafka: ServerParts, delayed: frozenset[FetchRequest]) -> dict[str, Any]:
    """Return the parts of a Kafka server as fields of the model's replica."""
    known = field_names(type(was))
    parts = (), Nil.NIL, Nil.NIL  # records, a place to truncate to, a snapshot
    answers = frozenset(
        FetchResponse(r.epoch, was.id, Error.NONE, known_to(r), *parts, r, was.id, r.source, was.endpoint)
        for r in delayed
    )
    return {name: value for name, value in (kafka._asdict() | {"delayed": answers}).items() if name in known}

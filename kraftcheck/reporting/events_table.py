"""The normalized stream of events as a Parquet table."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kraftcheck.reporting.validation import text_of_logged_or_model_value
from kraftcheck.validation.events import Event, MessageBody
from kraftcheck.validation.sources import ClusterLogs

ROWS_OF_ROW_GROUP = 50_000
"""Rows of a group."""

EVENTS_SCHEMA = pa.schema(
    [
        ("node", pa.int32()),
        ("incarnation", pa.int32()),
        ("seq", pa.int64()),
        ("t", pa.timestamp("ms")),
        ("level", pa.string()),
        ("file", pa.string()),
        ("line", pa.int64()),
        ("kind", pa.string()),
        ("api", pa.string()),
        ("correlation", pa.int64()),
        ("peer", pa.int32()),
        ("address", pa.string()),
        ("body", pa.string()),
    ]
)


def write_events_table(sources: ClusterLogs, path: Path) -> None:
    """Write the events of all nodes, in the order of their logs."""
    logs = [one for node in sorted(sources.every) for one in _event_lists_of_node(sources, node)]
    events = chain.from_iterable(logs)
    with pq.ParquetWriter(path, EVENTS_SCHEMA) as writer:
        while rows := [_log_event_row(event) for event in islice(events, ROWS_OF_ROW_GROUP)]:
            writer.write_table(pa.Table.from_pylist(rows, EVENTS_SCHEMA))


def _event_lists_of_node(sources: ClusterLogs, node: int) -> Iterator[list[Event]]:
    for logs in (sources.quiet, sources.late, sources.logs):
        if node in logs:
            yield logs[node]


def _log_event_row(event: Event) -> dict[str, Any]:
    body = event.body
    is_message = isinstance(body, MessageBody)
    return {
        "node": event.node,
        "incarnation": event.incarnation,
        "seq": event.seq,
        "t": event.time,
        "level": event.level,
        "file": event.file,
        "line": event.line,
        "kind": str(event.kind),
        "api": body.api if is_message else None,
        "correlation": event.correlation if event.correlation >= 0 else None,
        "peer": event.peer,
        "address": event.address or None,
        "body": _message_text(body) if is_message else None if body is None else text_of_logged_or_model_value(body),
    }


def _message_text(body: MessageBody) -> str:
    return ", ".join(f"{name}={value}" for name, value in zip(body.names, body.values, strict=True))

"""Records that tasks and driver exchange: what global ids mean, and what else a task reports.

A *definition* says what a global id means. A value is given by its canonical encoding, and named by its fingerprint,
a 128-bit hash. Control rows and inbox contents are made of values, and are given by the ids of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from hashlib import blake2b
from typing import Any, NamedTuple

import pyarrow as pa

FINGERPRINT_BYTES = 16

class Kind(IntEnum):
    """Kinds of record: definitions up to INBOX, then what else a task reports."""

    CLASS, MODEL_VALUE, SLOT, SHARED, LOCAL, MESSAGE, CONTROL, INBOX, COUNTS, CALLS, EVENT, SETTLED, READ = range(13)


VALUES = (Kind.SLOT, Kind.SHARED, Kind.LOCAL, Kind.MESSAGE)

_NUMBERS = pa.list_(pa.field("element", pa.int64(), nullable=False))
_COLUMNS = {"kind": pa.int32(), "column": pa.int32(), "encoding": pa.binary(), "numbers": _NUMBERS}
SCHEMA = pa.schema([pa.field(name, kind, nullable=False) for name, kind in _COLUMNS.items()])
DDL = "kind int not null, column int not null, encoding binary not null, numbers array<bigint> not null"


class Definition(NamedTuple):
    """One record."""

    kind: Kind  # the kind of record
    # the column of a shared value; the slot of an inbox content; the place of a model value in their order
    column: int = 0
    # the canonical encoding of a value, or of an inbox content that is not counts of messages. Of a hidden read:
    # the name of the field or bound, and the reader.
    encoding: bytes = b""
    # of a control row: what is spent, then the ids of its shared values and local states. Of an inbox content: each
    # message's id and count.
    numbers: tuple[int, ...] = ()


def fingerprint(encoding: bytes) -> bytes:
    """Return the 128-bit hash of a value's canonical encoding."""
    return blake2b(encoding, digest_size=FINGERPRINT_BYTES).digest()


def to_table(definitions: Iterable[Definition]) -> pa.Table:
    """Return records as a table."""
    rows = list(definitions)
    columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(SCHEMA)]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def from_table(table: Any) -> Iterator[Definition]:
    """Yield the records of a table."""
    columns = [table.column(name).to_pylist() for name in SCHEMA.names]
    for kind, column, encoding, numbers in zip(*columns, strict=True):
        yield Definition(Kind(kind), column, bytes(encoding), tuple(numbers))

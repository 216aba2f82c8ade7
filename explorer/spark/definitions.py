"""What is said of values between driver and executors: the columns of reports and of the dictionary.

A *definition* says what an id means. Values are given by their canonical encoding and named by its 128-bit hash;
control rows and inbox contents are made of values, given by numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

import pyarrow as pa

NAME_BYTES = 16

CLASS, MODEL_VALUE, SLOT, SHARED, LOCAL, MESSAGE, CONTROL, INBOX, COUNTS, CALLS, EVENT, SETTLED = range(12)
"""Kinds of record: what is defined, and what else a task reports."""

VALUES = (SLOT, SHARED, LOCAL, MESSAGE)

SCHEMA = pa.schema(
    [
        pa.field("kind", pa.int32(), nullable=False),
        pa.field("column", pa.int32(), nullable=False),
        pa.field("encoding", pa.binary(), nullable=False),
        pa.field("numbers", pa.list_(pa.field("element", pa.int64(), nullable=False)), nullable=False),
    ]
)
DDL = "kind int not null, column int not null, encoding binary not null, numbers array<bigint> not null"


class Definition(NamedTuple):
    """One record.

    Attributes
    ----------
    kind
        What it is of.
    column
        Of a shared value its column; of an inbox content its slot; of a model value its place in their order.
    encoding
        The canonical encoding of a value, or of an inbox content that is not counts of messages.
    numbers
        Of a control row what is spent and the ids of its shared values and local states; of an inbox content each
        message's id and how often it is there.
    """

    kind: int
    column: int = 0
    encoding: bytes = b""
    numbers: tuple[int, ...] = ()


def name_of(encoding: bytes) -> bytes:
    """Return the name that a value has everywhere: the 128-bit hash of its canonical encoding."""
    return blake2b(encoding, digest_size=NAME_BYTES).digest()


def to_table(definitions: Iterable[Definition]) -> pa.Table:
    """Return definitions as a table."""
    rows = list(definitions)
    return pa.Table.from_arrays(
        [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(SCHEMA)], schema=SCHEMA
    )


def from_table(table: Any) -> Iterator[Definition]:
    """Yield the definitions of a table."""
    columns = [table.column(name).to_pylist() for name in SCHEMA.names]
    for kind, column, encoding, numbers in zip(*columns, strict=True):
        yield Definition(kind, column, bytes(encoding), tuple(numbers))

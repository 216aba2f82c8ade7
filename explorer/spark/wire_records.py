"""Records that tasks and driver exchange: definitions of global ids, and reports.

A *definition* gives the meaning of a global id, which the driver assigns. A value is given by its canonical encoding,
and identified by its fingerprint, a 128-bit hash. Control rows and inboxes consist of values, and are given by the ids
of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from hashlib import blake2b
from itertools import chain
from typing import Any, NamedTuple

import pyarrow as pa

from kraftcheck.spec.errors import InputError

FINGERPRINT_BYTES = 16


class WireRecordKind(IntEnum):
    """Kinds of records that tasks and driver exchange: CLASS to INBOX are definitions, the others are reports."""

    CLASS, MODEL_VALUE, SLOT, SHARED, LOCAL, MESSAGE, CONTROL, INBOX = range(8)
    COUNTS, CALLS, EVENT, VIOLATED, NEW, READ = range(8, 14)


VALUE_KINDS = (WireRecordKind.SLOT, WireRecordKind.SHARED, WireRecordKind.LOCAL, WireRecordKind.MESSAGE)

_NUMBERS_TYPE = pa.list_(pa.field("element", pa.int64(), nullable=False))
_RECORD_COLUMNS = {"kind": pa.int32(), "column": pa.int32(), "encoding": pa.binary(), "numbers": _NUMBERS_TYPE}
RECORDS_SCHEMA = pa.schema([pa.field(name, kind, nullable=False) for name, kind in _RECORD_COLUMNS.items()])
RECORDS_DDL = "kind int not null, column int not null, encoding binary not null, numbers array<bigint> not null"


class WireRecord(NamedTuple):
    """A row that defines a global id, or reports a finding of a task to the driver."""

    kind: WireRecordKind
    # column of a shared value; slot of an inbox; place of a model value in the order, or of a non-local property
    column: int = 0
    # canonical encoding of a value, or of an inbox that is not counts of messages; for a hidden read, the name of the
    # field or bound, and the reader
    encoding: bytes = b""
    # for a control row: spent bounds, then ids of shared values and local states; for an inbox: id and count of each
    # message
    numbers: tuple[int, ...] = ()


def encoding_fingerprint(encoding: bytes) -> bytes:
    """Return the 128-bit hash of a value's canonical encoding."""
    return blake2b(encoding, digest_size=FINGERPRINT_BYTES).digest()


def wire_records_to_table(definitions: Iterable[WireRecord]) -> pa.Table:
    """Return records as a table."""
    rows = list(definitions)
    columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(RECORDS_SCHEMA)]
    return pa.Table.from_arrays(columns, schema=RECORDS_SCHEMA)


def wire_records_from_table(table: Any) -> Iterator[WireRecord]:
    """Yield the records of a table."""
    columns = [table.column(name).to_pylist() for name in RECORDS_SCHEMA.names]
    for kind, column, encoding, numbers in zip(*columns, strict=True):
        yield WireRecord(WireRecordKind(kind), column, bytes(encoding), tuple(numbers))


class FingerprintCollisionError(InputError):
    """Two values share a fingerprint."""


class GlobalIdAssigner:
    """Assigns global ids.

    The ids depend on the set of reported definitions, not on the order of the reports.
    """

    def __init__(self, base: int) -> None:
        self._base = base
        self._values: dict[tuple[WireRecordKind, int], dict[bytes, tuple[int, bytes]]] = {}  # by column, by fingerprint
        self._others: set[WireRecord] = set()

    def load(self, definitions: Iterable[WireRecord]) -> None:
        """Load definitions in the order of their ids, as a checkpoint has them."""
        for definition in definitions:
            if definition.kind in VALUE_KINDS:
                self._add(definition)
            else:
                self._others.add(self._key(definition))

    def merge(self, reports: Sequence[Iterable[WireRecord]]) -> list[WireRecord]:
        """Assign global ids to the new definitions in the reports; return these definitions in the order of ids."""
        listed = [list(report) for report in reports]
        new = list(filter(self._add, sorted({d for report in listed for d in report if d.kind in VALUE_KINDS})))
        others: dict[WireRecord, WireRecord] = {}
        for report in listed:
            for found in self._others_in(report):
                others.setdefault(self._key(found), found)
        fresh = others.keys() - self._others
        self._others |= fresh
        return sorted([*new, *(others[key] for key in fresh)])

    def _others_in(self, report: list[WireRecord]) -> Iterator[WireRecord]:
        """Yield the definitions in a report of kinds not in VALUE_KINDS, with global ids in place of references."""
        own = [
            self._values[d.kind, d.column][encoding_fingerprint(d.encoding)][0] for d in report if d.kind in VALUE_KINDS
        ]
        for definition in report:
            if definition.kind not in VALUE_KINDS:
                yield self._resolved(definition, own)

    def _add(self, definition: WireRecord) -> bool:
        """Assign an id to a value; return False if the value already has an id."""
        known = self._values.setdefault((definition.kind, definition.column), {})
        encoding = definition.encoding
        key = encoding_fingerprint(encoding)
        if key in known:
            if known[key][1] != encoding:
                raise FingerprintCollisionError(
                    f"two values have the fingerprint {key.hex()}: {encoding!r} and {known[key][1]!r}"
                )
            return False
        known[key] = len(known) + (definition.kind == WireRecordKind.LOCAL), encoding
        return True

    def _resolved(self, definition: WireRecord, own: list[int]) -> WireRecord:
        """Return a definition with each reference into its report replaced by a global id from `own`."""

        def resolve(reference: int) -> int:
            return reference if reference >= 0 else own[-1 - reference]

        given = definition.numbers
        if definition.kind not in (WireRecordKind.CONTROL, WireRecordKind.INBOX):
            return definition
        if definition.kind == WireRecordKind.INBOX:
            items = sorted(zip(map(resolve, given[::2]), given[1::2], strict=True))
            return definition._replace(column=resolve(definition.column), numbers=tuple(chain(*items)))
        replicas = [0] * len(self._values.get((WireRecordKind.SLOT, 0), ()))
        for slot, local in zip(given[self._base :: 2], given[self._base + 1 :: 2], strict=True):
            replicas[resolve(slot)] = resolve(local)
        return definition._replace(numbers=(*map(resolve, given[: self._base]), *replicas))

    def _key(self, definition: WireRecord) -> WireRecord:
        """Return a definition as a key: the trailing zeros of a control row (slots without a replica) are dropped."""
        last = len(definition.numbers)
        while definition.kind == WireRecordKind.CONTROL and last > self._base and definition.numbers[last - 1] == 0:
            last -= 1
        return definition._replace(numbers=definition.numbers[:last])

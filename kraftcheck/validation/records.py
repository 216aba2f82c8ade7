"""Kafka's record batches (format v2): headers, CRC32C, and the control records of KRaft."""

from __future__ import annotations

import struct
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import BinaryIO, NamedTuple

import numpy as np

LARGEST_BATCH_BYTES = 16 << 20
"""Maximum size of a batch in bytes; Kafka's own limit for the metadata log is 8 MiB."""
MOST_BATCHES = 10_000_000
"""Maximum number of batches of all disks: five idle controllers write as many in 11 days."""
MOST_CONTROL_RECORDS = 100_000
MOST_FAULTS = 100

WINDOW_BYTES = 1 << 20
BATCH_HEADER = struct.Struct(">qiibIhiqqqhii")
_CRC_START_BYTE = 21  # the CRC covers a batch from its attributes on
_BYTES_OUTSIDE_LENGTH = 12
CONTROL_ATTRIBUTE, COMPRESSION_ATTRIBUTES = 0x20, 0x07
ABSENT_DIRECTORY_IDS = ("", "A" * 22, "<undefined>")
"""Directory ids that stand for none: of a voter of kraft.version 0."""

BATCH_INDEX_DTYPE = np.dtype(
    [("base", "i8"), ("last", "i8"), ("time", "i8"), ("at", "i8"), ("epoch", "i4"), ("crc", "u4"), ("file", "i4")]
)
"""One batch: offsets, time of its last record in ms, position in its file, epoch, CRC, and number of its file."""


class Voter(NamedTuple):
    """A voter of a VotersRecord or of a LeaderChangeMessage; the directory is empty where Kafka writes none."""

    id: int
    directory: str
    endpoints: tuple[str, ...] = ()
    versions: tuple[int, int] = (0, 0)


class LeaderChange(NamedTuple):
    """The first record of an epoch."""

    leader: int
    voters: tuple[Voter, ...]
    granting: tuple[Voter, ...]


class SnapshotHeader(NamedTuple):
    """The first record of a snapshot, with the time of the last record that it contains."""

    time: int


class SnapshotFooter(NamedTuple):
    """The last record of a snapshot."""


class KRaftVersion(NamedTuple):
    """A change of the feature kraft.version."""

    version: int


class VotersRecord(NamedTuple):
    """A voter set."""

    voters: tuple[Voter, ...]


ControlBody = LeaderChange | SnapshotHeader | SnapshotFooter | KRaftVersion | VotersRecord


class ControlRecord(NamedTuple):
    """A control record with its place."""

    offset: int
    epoch: int
    time: int
    base: int
    at: int
    file: int
    body: ControlBody


class ScanFault(NamedTuple):
    """A place of a file that cannot be read as Kafka wrote it."""

    kind: str
    """`crc`, `unreadable` in the middle of a file, `content`, or `tail`: an unfinished end."""
    at: int
    file: int
    message: str


@dataclass
class BatchScan:
    """The batches of one or several files, in order."""

    batches: np.ndarray = field(default_factory=lambda: np.empty(0, BATCH_INDEX_DTYPE))
    controls: list[ControlRecord] = field(default_factory=list)
    faults: list[ScanFault] = field(default_factory=list)
    broken: int = 0
    """Number of batches with a wrong CRC."""


class MalformedBytesError(Exception):
    """Bytes that do not follow the format."""


@cache
def _crc_table() -> np.ndarray:
    """Return the CRC32C of each byte."""
    values = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        values = np.where(values & 1, (values >> 1) ^ np.uint32(0x82F63B78), values >> 1)
    return values


_CRC_CHUNK_BYTES = 64


@cache
def _crc_shift_tables(level: int) -> np.ndarray:
    """Return the tables, one a byte, that append `_CRC_CHUNK_BYTES << level` zero bytes to a CRC register."""
    if level:
        half = _crc_shift_tables(level - 1)
        return _append_zeros_to_crc(half, half)
    table = _crc_table()
    registers = np.arange(256, dtype=np.uint32)[None, :] << np.arange(0, 32, 8, dtype=np.uint32)[:, None]
    for _ in range(_CRC_CHUNK_BYTES):
        registers = table[registers & 255] ^ (registers >> 8)
    return registers


def _append_zeros_to_crc(tables: np.ndarray, registers: np.ndarray) -> np.ndarray:
    parts = [table[registers >> shift & 255] for table, shift in zip(tables, (0, 8, 16, 24), strict=True)]
    return np.bitwise_xor.reduce(parts)  # type: ignore[no-any-return]


def crc32c_of_ranges(data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return the CRC32C of each range of bytes, all ranges at once.

    Chunks of 64 bytes, aligned at the ends of the ranges, are processed side by side. A tree of additions in GF(2)
    then joins neighbours.
    """
    table = _crc_table()
    counts = np.maximum((ends - starts + _CRC_CHUNK_BYTES - 1) // _CRC_CHUNK_BYTES, 1)
    owner = np.repeat(np.arange(len(counts)), counts)
    behind = np.cumsum(counts)[owner] - 1 - np.arange(len(owner))  # chunks of the range after this one
    chunk = ends[owner] - (behind + 1) * _CRC_CHUNK_BYTES
    lead = np.maximum(starts[owner] - chunk, 0)  # bytes before the range in its first chunk
    initial = np.flatnonzero(behind == counts[owner] - 1)
    first = {int(skip): initial[lead[initial] == skip] for skip in np.unique(lead[initial])}
    registers = np.zeros(len(owner), np.uint32)
    for place in range(_CRC_CHUNK_BYTES):
        if place in first:
            registers[first[place]] = 0xFFFFFFFF
        registers = table[(registers ^ data[np.maximum(chunk + place, 0)]) & 255] ^ (registers >> 8)
    if _CRC_CHUNK_BYTES in first:  # empty ranges
        registers[first[_CRC_CHUNK_BYTES]] = 0xFFFFFFFF
    level = 0
    while counts.max(initial=1) > 1:
        tables, last = _crc_shift_tables(level), np.cumsum(counts) - 1
        halves = (counts + 1) // 2
        owner = np.repeat(np.arange(len(counts)), halves)
        right = last[owner] - 2 * (np.cumsum(halves)[owner] - 1 - np.arange(len(owner)))
        has_left = right > (last - counts + 1)[owner]
        left = np.where(has_left, registers[np.maximum(right - 1, 0)], 0).astype(np.uint32)
        registers = registers[right] ^ _append_zeros_to_crc(tables, left)
        counts, level = halves, level + 1
    found: np.ndarray = registers ^ np.uint32(0xFFFFFFFF)
    return found


class _RecordReader:
    """A cursor over the bytes of a record; every read checks the length."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise MalformedBytesError(f"a length of {size}, where {self.left} bytes are left")
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big", signed=True)

    def unsigned(self) -> int:
        """Read a varint of at most ten bytes."""
        value = 0
        for shift in range(0, 70, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise MalformedBytesError("a varint of more than ten bytes")

    def signed(self) -> int:
        value = self.unsigned()
        return value >> 1 ^ -(value & 1)

    def length(self) -> int:
        """Read the length of a compact string or array, which has at least a byte an element."""
        size = self.unsigned() - 1
        if not 0 <= size <= self.left:
            raise MalformedBytesError(f"a length of {size}, where {self.left} bytes are left")
        return size

    def text(self) -> str:
        return self.take(self.length()).decode(errors="replace")

    def uuid(self) -> str:
        return urlsafe_b64encode(self.take(16)).decode().rstrip("=")

    def tagged(self) -> None:
        """Skip tagged fields."""
        for _ in range(self.unsigned()):
            self.unsigned()
            self.take(self.unsigned())


def _read_election_voters(reader: _RecordReader, version: int) -> tuple[Voter, ...]:
    found = []
    for _ in range(reader.length()):
        found.append(Voter(reader.number(4), reader.uuid() if version else ""))
        reader.tagged()
    return tuple(found)


def _read_voter(reader: _RecordReader) -> Voter:
    number, directory, endpoints = reader.number(4), reader.uuid(), []
    for _ in range(reader.length()):
        name, host, port = reader.text(), reader.text(), reader.number(2) & 0xFFFF
        reader.tagged()
        endpoints.append(f"{name}://{host}:{port}")
    versions = reader.number(2), reader.number(2)
    reader.tagged()
    reader.tagged()
    return Voter(number, directory, tuple(endpoints), versions)


def _read_control_body(kind: int, reader: _RecordReader) -> ControlBody | None:
    """Decode the value of a control record; None for a kind that KRaft does not read."""
    version = reader.number(2) if 2 <= kind <= 6 else 0
    match kind:
        case 2:
            leader = reader.number(4)
            return LeaderChange(leader, _read_election_voters(reader, version), _read_election_voters(reader, version))
        case 3:
            return SnapshotHeader(reader.number(8))
        case 4:
            return SnapshotFooter()
        case 5:
            return KRaftVersion(reader.number(2))
        case 6:
            return VotersRecord(tuple(_read_voter(reader) for _ in range(reader.length())))
    return None


def decode_control_batch(batch: bytes) -> Iterator[tuple[int, ControlBody]]:
    """Yield (offset, content) of the records of a control batch."""
    base, *_, attributes, _, _, _, _, _, _, count = BATCH_HEADER.unpack_from(batch)
    if attributes & COMPRESSION_ATTRIBUTES:
        raise MalformedBytesError("a control batch that is compressed")
    reader = _RecordReader(batch[BATCH_HEADER.size :])
    if not 0 <= count <= reader.left:
        raise MalformedBytesError(f"{count} records in {reader.left} bytes")
    for _ in range(count):
        record = _RecordReader(reader.take(reader.signed()))
        record.take(1)
        record.signed()  # time
        offset = base + record.signed()
        key = _RecordReader(record.take(record.signed()))
        key.take(2)
        body = _read_control_body(key.number(2), _RecordReader(record.take(record.signed())))
        if body is not None:
            yield offset, body


def _batch_size_or_zero(header: tuple[int, ...]) -> int:
    """Return the size of a batch from its header; 0 if this cannot be a batch."""
    base, length, epoch, magic, _, _, delta = header[:7]
    size = length + _BYTES_OUTSIDE_LENGTH
    plausible = magic == 2 and BATCH_HEADER.size <= size <= LARGEST_BATCH_BYTES
    return size if plausible and min(base, epoch, delta) >= 0 and base < 1 << 62 else 0


def starts_with_batch(head: bytes) -> bool:
    """Whether bytes begin as a batch does."""
    return len(head) >= BATCH_HEADER.size and _batch_size_or_zero(BATCH_HEADER.unpack_from(head)) > 0


class BatchScanner:
    """Reads files of batches, in windows, into one `BatchScan` of at most `room` batches."""

    def __init__(self, room: int = MOST_BATCHES) -> None:
        self.scan = BatchScan()
        self._parts: list[np.ndarray] = []
        self._room = room

    def read(self, stream: BinaryIO, file: int) -> None:
        """Read a file to its end, or to the last batch that can be found in it."""
        data, position, ended = b"", 0, False
        while not ended:
            more = stream.read(WINDOW_BYTES)
            ended = not more
            data += more
            used, stuck = self._window(data, position, file)
            data, position = data[used:], position + used
            if stuck or (ended and data):
                data, position, ended = self._resume(stream, data, position, file)

    def finish(self) -> BatchScan:
        """Return everything that was read."""
        self.scan.batches = np.concatenate(self._parts) if self._parts else np.empty(0, BATCH_INDEX_DTYPE)
        return self.scan

    def _fault(self, kind: str, at: int, file: int, message: str) -> None:
        if len(self.scan.faults) < MOST_FAULTS:
            self.scan.faults.append(ScanFault(kind, at, file, message))

    def _window(self, data: bytes, position: int, file: int) -> tuple[int, bool]:
        """Read the whole batches at the beginning of a window. Return their size, and whether no batch follows."""
        rows: list[tuple[int, ...]] = []
        sizes: list[int] = []
        control: list[int] = []
        used, stuck = 0, False
        while used + BATCH_HEADER.size <= len(data):
            header = BATCH_HEADER.unpack_from(data, used)
            size = _batch_size_or_zero(header)
            stuck = not size
            if stuck or used + size > len(data):
                break
            base, _, epoch, _, crc, attributes, delta, _, time, _, _, _, count = header
            if count != delta + 1:
                self._fault("content", position + used, file, f"{count} records for {delta + 1} offsets")
            if attributes & CONTROL_ATTRIBUTE:
                control.append(len(rows))
            rows.append((base, base + delta, time, position + used, epoch, crc, file))
            sizes.append(size)
            used += size
        if rows:
            self._add(data, np.array(rows, BATCH_INDEX_DTYPE), np.array(sizes), control, position)
        return used, stuck

    def _add(self, data: bytes, found: np.ndarray, sizes: np.ndarray, control: list[int], position: int) -> None:
        self._room -= len(found)
        if self._room < 0:
            raise MalformedBytesError(f"more than {MOST_BATCHES:,} batches")
        self._parts.append(found)
        at = found["at"] - position
        right = crc32c_of_ranges(np.frombuffer(data, np.uint8), at + _CRC_START_BYTE, at + sizes) == found["crc"]
        for row in found[~right]:
            self.scan.broken += 1
            self._fault(
                *("crc", int(row["at"]), int(row["file"])),
                f"wrong CRC of the batch at offset {row['base']}, epoch {row['epoch']}",
            )
        for place in control:
            if right[place]:
                row = found[place]
                self._control(row, data[at[place] : at[place] + sizes[place]])

    def _control(self, row: np.void, batch: bytes) -> None:
        base, _, time, at, epoch, _, file = (int(value) for value in row.tolist())
        try:
            for offset, body in decode_control_batch(batch):
                self.scan.controls.append(ControlRecord(offset, epoch, time, base, at, file, body))
        except MalformedBytesError as error:
            self._fault("content", at, file, f"control batch at offset {base} cannot be decoded: found {error}")
        if len(self.scan.controls) > MOST_CONTROL_RECORDS:
            raise MalformedBytesError(f"more than {MOST_CONTROL_RECORDS:,} control records")

    def _resume(self, stream: BinaryIO, data: bytes, position: int, file: int) -> tuple[bytes, int, bool]:
        """Look for a batch behind bytes that are none. Return the bytes from there on, and whether there is none."""
        while len(data) < LARGEST_BATCH_BYTES and (more := stream.read(WINDOW_BYTES)):
            data += more
        found = _find_next_batch(data)
        if found:
            message = f"{found} bytes are no batch, but batches follow"
            self._fault("unreadable", position, file, message)
            return data[found:], position + found, False
        zeros = not data.strip(b"\0")
        rest = f"{len(data)} bytes" if len(data) < LARGEST_BATCH_BYTES else f"more than {LARGEST_BATCH_BYTES:,} bytes"
        self._fault("tail", position, file, f"{rest} at the end are no whole batch{': zeros' if zeros else ''}")
        return b"", position, True


def _find_next_batch(data: bytes) -> int:
    """Return the place of the first batch with a right CRC behind the first byte; 0 if there is none."""
    found = np.frombuffer(data, np.uint8)
    count = len(found) - BATCH_HEADER.size
    if count < 1:
        return 0
    plausible = (found[17 : 17 + count] == 2) & (found[1 : 1 + count] == 0) & (found[9 : 9 + count] == 0)
    budget = 4 * LARGEST_BATCH_BYTES
    for place in (np.flatnonzero(plausible) + 1).tolist():
        header = BATCH_HEADER.unpack_from(data, place)
        size = _batch_size_or_zero(header)
        if size and place + size <= len(data):
            budget -= size + 1024
            if budget < 0:
                return 0
            if crc32c_of_ranges(found, np.array([place + _CRC_START_BYTE]), np.array([place + size]))[0] == header[4]:
                return place
    return 0

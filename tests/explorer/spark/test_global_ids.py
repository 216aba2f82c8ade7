"""Global ids, states packed with them, and files that others may read."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest

pytest.importorskip("pyarrow")
import pyarrow.parquet as pq

from kraftcheck.explorer.spark import wire_records
from kraftcheck.explorer.spark.shared_folder import SharedFolder, StatePacking, sorted_packed_words
from kraftcheck.explorer.spark.wire_records import (
    FingerprintCollisionError,
    GlobalIdAssigner,
    WireRecord,
    WireRecordKind,
    encoding_fingerprint,
)
from kraftcheck.explorer.tables.kernel.packing import write_partitions_of_states
from kraftcheck.spec.errors import InputError

N1, N2 = WireRecord(WireRecordKind.SLOT, 0, b"n1"), WireRecord(WireRecordKind.SLOT, 0, b"n2")
A, B = WireRecord(WireRecordKind.LOCAL, 0, b"a"), WireRecord(WireRecordKind.LOCAL, 0, b"b")
ZERO, PING = WireRecord(WireRecordKind.SHARED, 0, b"0"), WireRecord(WireRecordKind.MESSAGE, 0, b"ping")
REPORTS = [
    [
        ZERO,
        N2,
        B,
        WireRecord(WireRecordKind.CONTROL, 0, b"", (3, -1, -2, -3)),
    ],  # one bound, one shared field, then pairs
    [
        A,
        N1,
        ZERO,
        PING,
        WireRecord(WireRecordKind.CONTROL, 0, b"", (3, -3, -2, -1)),
        WireRecord(WireRecordKind.INBOX, -2, b"", (-4, 2)),
    ],
    [N2, PING, WireRecord(WireRecordKind.INBOX, -1, b"", (-2, 1))],
]


def test_ids_do_not_depend_on_who_reports_first() -> None:
    expected = GlobalIdAssigner(2).merge(REPORTS)
    assert [d for d in expected if d.kind in (WireRecordKind.CONTROL, WireRecordKind.INBOX)] == [
        WireRecord(WireRecordKind.CONTROL, 0, b"", (3, 0, 0, 2)),
        WireRecord(WireRecordKind.CONTROL, 0, b"", (3, 0, 1, 0)),
        WireRecord(WireRecordKind.INBOX, 0, b"", (0, 2)),
        WireRecord(WireRecordKind.INBOX, 1, b"", (0, 1)),
    ]
    for seed in range(5):
        mixed = Random(seed).sample(REPORTS, len(REPORTS))
        assert GlobalIdAssigner(2).merge([*mixed, REPORTS[0]]) == expected


def test_what_is_known_is_not_new() -> None:
    known = GlobalIdAssigner(2)
    first = known.merge(REPORTS[:1])
    assert known.merge(REPORTS[:1]) == []
    again = GlobalIdAssigner(2)
    again.load(first)
    assert again.merge(REPORTS) == known.merge(REPORTS)


def test_a_control_row_stays_itself_when_a_replica_appears() -> None:
    known = GlobalIdAssigner(2)
    known.merge([[ZERO, N1, A, WireRecord(WireRecordKind.CONTROL, 0, b"", (3, -1, -2, -3))]])
    assert known.merge([[N2]]) == [N2]
    assert known.merge([[WireRecord(WireRecordKind.CONTROL, 0, b"", (3, 0, 0, 1))]]) == []


def test_a_collision_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire_records, "encoding_fingerprint", lambda encoding: b"the same")
    with pytest.raises(FingerprintCollisionError, match="two values have the fingerprint"):
        GlobalIdAssigner(2).merge([[A], [B]])


def test_a_fingerprint_has_128_bits() -> None:
    assert len(encoding_fingerprint(b"a")) == 16
    assert encoding_fingerprint(b"a") != encoding_fingerprint(b"b")


@pytest.mark.parametrize("counts", [[2, 1], [300, 5, 1, 70_000], [1 << 24, 1 << 20, 1 << 20, 1 << 20, 1 << 20]])
def test_packing_and_back(counts: list[int]) -> None:
    random = np.random.default_rng(1)
    states = np.stack([random.integers(0, count, 1000) for count in counts], axis=1).astype(np.int32)
    layout = StatePacking(counts)
    words = layout.pack(states)
    data = layout.to_bytes(words)
    assert len(data) == 1000 * layout.bytes_a_state
    back = layout.from_bytes(data)
    assert (back == words).all()
    assert (layout.unpack(back) == states).all()
    assert (sorted_packed_words(words[::-1]) == sorted_packed_words(words)).all()


def test_owners_do_not_change_when_a_replica_appears() -> None:
    states = np.random.default_rng(1).integers(0, 1000, (4000, 3)).astype(np.int32)
    wider = np.pad(states, ((0, 0), (0, 2)))
    owner, again = np.zeros(4000, np.int64), np.zeros(4000, np.int64)
    write_partitions_of_states(states, 6, owner)
    write_partitions_of_states(wider, 6, again)
    assert (owner == again).all()
    assert np.bincount(owner, minlength=6).min() > 500
    assert owner.max() == 5


@pytest.mark.slow
def test_files(tmp_path: Path) -> None:
    shared = SharedFolder(tmp_path)
    shared.clear()
    for level in (1, 2, 3):
        shared.begin_level(level)
        shared.write_states(level, 4, np.full((70_000, 3), level, np.int32))
        shared.write_definitions(level, [A, WireRecord(WireRecordKind.CONTROL, 0, b"", (level, 2))])
    assert [len(states) for states in shared.read_part(2, 4)] == [65_536, 70_000 - 65_536]
    assert len(shared.read_group(2, 4, 1)) == 70_000 - 65_536
    assert list(shared.read_definitions(2)) == [A, WireRecord(WireRecordKind.CONTROL, 0, b"", (2, 2))]
    shared.clear(after=2)
    assert [shared.count(level, 4) for level in (1, 2, 3)] == [70_000, 70_000, 0]
    assert not (tmp_path / "names" / "00003.parquet").exists()


def test_a_damaged_file_is_an_error(tmp_path: Path) -> None:
    shared = SharedFolder(tmp_path)
    shared.clear()
    shared.begin_level(1)
    shared.write_states(1, 4, np.arange(30, dtype=np.int32).reshape(10, 3))
    shared.write_definitions(1, [A])
    for path, read in (
        (tmp_path / "levels" / "00001" / "part-00004.parquet", lambda: shared.read_group(1, 4, 0)),
        (tmp_path / "levels" / "00001" / "part-00004.parquet", lambda: list(shared.read_part(1, 4))),
        (tmp_path / "names" / "00001.parquet", lambda: list(shared.read_definitions(1))),
    ):
        read()
        whole = path.read_bytes()
        column = pq.ParquetFile(path).metadata.row_group(0).column(0)
        last = column.data_page_offset + column.total_compressed_size - 1  # of the first column's values
        path.write_bytes(whole[:last] + bytes([whole[last] ^ 1]) + whole[last + 1 :])
        with pytest.raises((InputError, OSError), match="CRC"):
            read()
        path.write_bytes(whole)

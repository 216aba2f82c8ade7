"""Files that are no disks, or were made to do harm: one message, in bounded time and memory."""

from __future__ import annotations

import gzip
import io
import os
import resource
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from kraftcheck.spec.errors import InputError
from kraftcheck.validation.disks import may_hold_disk_files, read_disks
from kraftcheck.validation.findings import render_disk_report
from kraftcheck.validation.monitors import check_disks
from kraftcheck.validation.records import BATCH_HEADER
from tests.support import kafka_disks as cluster

SAMPLE = Path(__file__).parents[1] / "data" / "cluster" / "disks.tar.gz"
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
from kraftcheck.spec.errors import InputError
from kraftcheck.validation.disks import read_disks
from kraftcheck.validation.monitors import check_disks
try:
    print(check_disks(read_disks(sys.argv[1:])).notes)
except InputError as error:
    print(f"refused: {error}")
"""


def limited(path: Path) -> str:
    """Read a disk in a process that may have 2 GiB."""
    command = [sys.executable, "-c", LIMITED, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def partition(folder: Path, log: bytes = b"", name: str = f"{0:020}.log") -> Path:
    place = folder / "__cluster_metadata-0"
    place.mkdir(parents=True, exist_ok=True)
    (place / name).write_bytes(log)
    return place


def refused(path: Path, *words: str) -> None:
    with pytest.raises(InputError) as raised:
        read_disks([path])
    assert "\n" not in str(raised.value)
    assert str(path) in str(raised.value)
    for word in words:
        assert word in str(raised.value)


def test_a_truncated_tarball(tmp_path: Path) -> None:
    raw = SAMPLE.read_bytes()
    for name, kept in (("a.tar.gz", len(raw) // 2), ("b.tgz", len(raw) - 9), ("c", 2000)):
        (tmp_path / name).write_bytes(raw[:kept])
        assert may_hold_disk_files(tmp_path / name)
        refused(tmp_path / name, "copy the file again")


@pytest.mark.slow
def test_a_damaged_tarball(tmp_path: Path) -> None:
    """No damage raises anything but InputError, whether the tarball is packed or not."""
    random, path = Random(1), tmp_path / "a.tar"
    for raw in (SAMPLE.read_bytes(), gzip.decompress(SAMPLE.read_bytes())):
        for _ in range(60):
            damaged = bytearray(raw)
            for _ in range(random.choice([1, 5, 100])):
                damaged[random.randrange(len(raw))] = random.randrange(256)
            path.write_bytes(damaged)
            with suppress(InputError):
                disks = read_disks([path])
                render_disk_report(disks, check_disks(disks))


def test_no_disks(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("[2026-11-25 13:19:44,696] INFO a line of a log\n")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    with tarfile.open(tmp_path / "other.tar", "w") as archive:
        archive.add(tmp_path / "text", "text")
    for name in ("text", "empty", "folder", "other.tar", "missing"):
        assert not may_hold_disk_files(tmp_path / name)
        refused(tmp_path / name)


def test_names_in_a_tarball_are_harmless(tmp_path: Path) -> None:
    path, outside = tmp_path / "a.tar", tmp_path / "outside"
    raw = cluster.batch(0, 1, 1, [(None, b"x")])
    with tarfile.open(path, "w") as archive:
        for name in ("../../outside/__cluster_metadata-0", "/abs/__cluster_metadata-0", "\x1b[2J/__cluster_metadata-0"):
            entry = tarfile.TarInfo(f"{name}/{0:020}.log")
            entry.size = len(raw)
            archive.addfile(entry, io.BytesIO(raw))
        link = tarfile.TarInfo(f"d/__cluster_metadata-0/{0:020}.log")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    disks = read_disks([path])
    assert not outside.exists()
    assert [disk.path.rpartition(":")[2] for disk in disks] == [
        r"\x1b[2J/__cluster_metadata-0",
        "abs/__cluster_metadata-0",
    ]
    assert "\x1b" not in render_disk_report(disks, check_disks(disks))


def test_tarballs_without_end(tmp_path: Path) -> None:
    raw, path = SAMPLE.read_bytes(), tmp_path / "a.tar"
    for _ in range(6):
        with tarfile.open(path, "w") as archive:
            entry = tarfile.TarInfo("a.tar.gz")
            entry.size = len(raw)
            archive.addfile(entry, io.BytesIO(raw))
        raw = gzip.compress(path.read_bytes())
    refused(path, "unpack it")


def test_a_header_that_asks_for_memory(tmp_path: Path) -> None:
    """A tarball's extended header may give itself any size, and gzip packs zeros a thousand times."""
    path = tmp_path / "a.tar.gz"
    entry = tarfile.TarInfo("x")
    entry.type, entry.size = tarfile.XHDTYPE, 3 << 30
    with gzip.open(path, "wb", 1) as stream:
        stream.write(entry.tobuf())
        for _ in range(64):
            stream.write(bytes(1 << 20))
    refused(path, "32 MiB")


def test_the_limit_of_a_tarball(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    partition(tmp_path / "d", bytes(3 << 20))
    with tarfile.open(path, "w:gz") as archive:
        archive.add(tmp_path / "d", "d")
    with pytest.raises(InputError, match="expected at most 1,000,000 bytes"):
        read_disks([path], limit_bytes=1_000_000)


@pytest.mark.slow
def test_ten_gigabytes_without_a_batch(tmp_path: Path) -> None:
    place = partition(tmp_path)
    with (place / f"{0:020}.log").open("wb") as stream:
        stream.truncate(10 << 30)
    assert "more than 16,777,216 bytes at the end are no whole batch: zeros" in limited(tmp_path)


FORGED = {
    "length of zero": (0, ">i", 8),
    "negative length": (-5, ">i", 8),
    "largest length": (0x7FFFFFFF, ">i", 8),
    "negative offset": (-1, ">q", 0),
    "offset near the end": (0x7FFFFFFFFFFFFFF0, ">q", 0),
    "most records": (0x7FFFFFFF, ">i", 57),
    "negative records": (-1, ">i", 57),
    "largest delta": (0x7FFFFFFF, ">i", 23),
    "compressed control": (0x24, ">h", 21),
    "far time": (0x7FFFFFFFFFFFFFFF, ">q", 35),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_headers(tmp_path: Path, name: str) -> None:
    value, kind, place = FORGED[name]
    good = cluster.batch(0, 1, 1, [cluster.leader_change(1, {1}, {1}), cluster.voter_set({1})], cluster.CONTROL)
    forged = bytearray(good)
    size = {">q": 8, ">i": 4, ">h": 2}[kind]
    forged[place : place + size] = value.to_bytes(size, "big", signed=True)
    partition(tmp_path, cluster.checked(bytes(forged)) + cluster.batch(2, 1, 1, [(None, b"x")]))
    disks = read_disks([tmp_path])
    report = check_disks(disks)
    assert report.findings or name == "far time"
    assert render_disk_report(disks, report)


VALUES = {
    "varint without end": b"\0\0\0\0\0\x01" + b"\xff" * 30,
    "array of four thousand million": b"\0\0\0\0\0\x01\xff\xff\xff\xff\x0f",
    "nothing": b"",
    "tagged fields without end": b"\0\0\0\0\0\x01\x02\0\0\0\x01\xff\xff\xff\xff\x0f",
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("kind", [2, 3, 4, 5, 6])
def test_forged_records(tmp_path: Path, kind: int, name: str) -> None:
    raw = cluster.batch(0, 1, 1, [cluster.control(kind, VALUES[name])], cluster.CONTROL)
    partition(tmp_path, raw)
    (tmp_path / "__cluster_metadata-0" / f"{1:020}-{1:010}.checkpoint").write_bytes(raw)
    disks = read_disks([tmp_path])
    assert render_disk_report(disks, check_disks(disks))


@pytest.mark.slow
def test_random_bytes_with_right_crcs(tmp_path: Path) -> None:
    random = Random(4)
    good = [cluster.leader_change(1, {1, 2, 3}, {1, 2}), cluster.voter_set({1, 2, 3})]
    for _ in range(150):
        raw = bytearray(cluster.batch(0, 1, 1, good, cluster.CONTROL))
        for _ in range(random.choice([1, 3, 20])):
            raw[random.randrange(BATCH_HEADER.size, len(raw))] = random.choice([0, 1, 0x7F, 0x80, 0xFF])
        partition(tmp_path, cluster.checked(bytes(raw)))
        disks = read_disks([tmp_path])
        assert render_disk_report(disks, check_disks(disks))


@pytest.mark.slow
def test_many_controls_take_no_time_that_grows(tmp_path: Path) -> None:
    """Each record names another leader and other voters."""
    parts = []
    for number in range(4000):
        records = [cluster.leader_change(number, {number}, {number}), cluster.voter_set({number % 200 + 1})]
        parts.append(cluster.batch(2 * number, number + 1, 1, records, cluster.CONTROL))
    partition(tmp_path / "1", b"".join(parts))
    partition(tmp_path / "2", b"".join(parts))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    disks = read_disks([tmp_path])
    render_disk_report(disks, check_disks(disks))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 20


def test_a_partition_of_odd_files(tmp_path: Path) -> None:
    place = partition(tmp_path, b"x" * 100)
    (place / f"{10**19:020}.log").write_bytes(b"")
    (place / f"{5:020}-{2**33:010}.checkpoint").write_bytes(b"")
    (place / "quorum-state").write_text('{"leaderEpoch": 1e400, "data_version": true}')
    (tmp_path / "meta.properties").write_bytes(b"\xff\xfenode.id=99999999999999\n=\n")
    (place / f"{7:020}.log").symlink_to("/etc/passwd")
    disks = read_disks([tmp_path])
    assert render_disk_report(disks, check_disks(disks))
    assert disks[0].node_id is None


def test_a_broker_with_many_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The segments of other partitions do not count, and a folder that is a link is not followed."""
    monkeypatch.setattr("kraftcheck.validation.disks.MOST_FILES", 5)
    partition(tmp_path, cluster.batch(0, 1, 1, [cluster.leader_change(1, {1}, {1})], cluster.CONTROL))
    for number in range(20):
        (tmp_path / f"topic-{number}").mkdir()
        (tmp_path / f"topic-{number}" / f"{0:020}.log").write_bytes(b"")
    (tmp_path / "again").symlink_to(tmp_path / "__cluster_metadata-0")
    assert len(read_disks([tmp_path])) == 1


def test_a_partition_that_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = partition(tmp_path)
    scandir = os.scandir

    def denied(path: str) -> Iterator[os.DirEntry[str]]:
        if str(path) == str(place):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", denied)
    assert may_hold_disk_files(tmp_path)
    refused(tmp_path, "Permission denied")

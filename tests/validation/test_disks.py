"""Disks of a real cluster, honest disks and forged ones."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest

from kraftcheck.spec.errors import InputError
from kraftcheck.validation.disks import ReplicaDisk, may_hold_disk_files, read_disks
from kraftcheck.validation.findings import CheckReport, disks_as_json, render_disk_report
from kraftcheck.validation.monitors import check_disks
from kraftcheck.validation.records import BATCH_HEADER, BATCH_INDEX_DTYPE, VotersRecord, crc32c_of_ranges
from tests.support import kafka_disks as cluster

SAMPLE = Path(__file__).parents[1] / "data" / "cluster" / "disks.tar.gz"


def checked(path: Path) -> tuple[list[ReplicaDisk], CheckReport]:
    disks = read_disks([path])
    return disks, check_disks(disks)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with tarfile.open(SAMPLE) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def log_of(folder: Path, node: int) -> Path:
    return next((folder / f"d{node}" / "__cluster_metadata-0").glob("*.log"))


def batches_of(path: Path) -> list[bytes]:
    raw, found, at = path.read_bytes(), [], 0
    while at < len(raw):
        size = BATCH_HEADER.unpack_from(raw, at)[1] + 12
        found.append(raw[at : at + size])
        at += size
    return found


def test_crc() -> None:
    def of(*texts: bytes) -> list[int]:
        data = np.frombuffer(b"".join(texts), np.uint8)
        ends = np.cumsum([len(text) for text in texts])
        starts = ends - [len(text) for text in texts]
        return [int(one) for one in crc32c_of_ranges(data, starts, ends)]

    # RFC 3720, B.4, and the check value of the catalogue of CRCs
    known = {
        b"123456789": 0xE3069283,
        bytes(32): 0x8A9136AA,
        b"\xff" * 32: 0x62A8AB43,
        bytes(range(32)): 0x46DD794E,
        bytes(range(31, -1, -1)): 0x113FDB5C,
    }
    assert of(*known) == list(known.values())
    longer = [bytes(range(256)) * 5, b"", b"a", b"ab" * 32, b"abc" * 43]
    assert of(*longer) == [of(text)[0] if text else 0 for text in longer]
    assert of(b"ab" * 32 + b"c")[0] != of(b"ab" * 32)[0]


def test_the_sample_agrees() -> None:
    disks, report = checked(SAMPLE)
    assert [disk.node_id for disk in disks] == [1, 2, 3]
    assert report.findings == report.notes == []
    assert all(report.checks.values())
    assert report.checks["log matching"] == 3 * 202
    assert report.checks["crc"] == sum(len(one.log.batches) + 3 * len(one.snapshots) for one in disks) - 1
    assert [(offset, [voter.id for voter in voters]) for offset, voters, _ in disks[1].voters] == [
        (36, [1]),
        (64, [1, 2]),
        (69, [1, 2, 3]),
        (195, [1, 2]),
        (225, [1, 2, 3]),
    ]
    assert disks[0].voters[1][1][1] == (2, "oqLuLKVKKcEnshB0pyUXuQ", ("CONTROLLER://127.0.0.1:29092",), (0, 1))


def test_the_sample_is_told() -> None:
    disks, report = checked(SAMPLE)
    text = render_disk_report(disks, report)
    assert "        4   210       1  1, 2   1, 2       2026-11-25 13:21:25.809Z" in text
    assert "     195  1, 2\n" in text
    assert f"nothing broken, {report.total:,} checks" in text
    found = json.loads(json.dumps(disks_as_json(disks, report)))
    assert found["disks"][2]["epochs"][-1] | {"time": ""} == {
        "epoch": 6,
        "start": 211,
        "leader": 1,
        "votes": [1, 2],
        "voters": [1, 2],
        "time": "",
    }


def test_a_tarball_in_a_folder_has_any_name(tmp_path: Path) -> None:
    (tmp_path / "backup.1").write_bytes(SAMPLE.read_bytes())
    assert len(read_disks([tmp_path])) == 3


def test_places_of_disks(folder: Path, tmp_path: Path) -> None:
    """A partition, a data folder, all of them, tarballs of them, and a tarball in a tarball read alike."""
    partition = folder / "d2" / "__cluster_metadata-0"
    (folder / "d2" / "topic-0").mkdir()
    (folder / "d2" / "topic-0" / f"{0:020}.log").write_bytes(b"a broker's own partition")
    packed = tmp_path / "inner.tar"
    with tarfile.open(packed, "w") as archive:
        archive.add(partition, "./metadata")
        archive.add(folder / "d2" / "meta.properties", "./meta.properties")
    outer = tmp_path / "outer.tgz"
    with tarfile.open(outer, "w:gz") as archive:
        archive.add(packed, "node2/inner.tar")
    for path in (partition, folder / "d2", packed, outer):
        assert may_hold_disk_files(path)
        assert [(one.node_id, one.start, one.end) for one in read_disks([path])] == [(2, 37, 241)]
    assert not may_hold_disk_files(folder / "d2" / "topic-0")
    assert len(read_disks([partition, folder / "d2", packed, packed])) == 2


def forge(path: Path, change: Callable[[list[bytes]], None]) -> None:
    found = batches_of(path)
    change(found)
    path.write_bytes(b"".join(found))


def set_time(found: list[bytes]) -> None:
    found[100] = cluster.checked(found[100][:27] + (1795612800000).to_bytes(8, "big") * 2 + found[100][43:])


def flip_a_bit(found: list[bytes]) -> None:
    found[100] = found[100][:-1] + bytes([found[100][-1] ^ 4])


def raise_epoch(found: list[bytes]) -> None:
    found[100] = found[100][:12] + (int.from_bytes(found[100][12:16], "big") + 1).to_bytes(4, "big") + found[100][16:]


def leave_out(found: list[bytes]) -> None:
    del found[100]


def change_length(found: list[bytes]) -> None:
    found[100] = found[100][:8] + (70_000).to_bytes(4, "big") + found[100][12:]


def swap(found: list[bytes]) -> None:
    found[100], found[101] = found[101], found[100]


def drop_a_voter(found: list[bytes]) -> None:
    """Write the voter set of offset 69 without node 1, with a right CRC."""
    place = next(place for place, raw in enumerate(found) if BATCH_HEADER.unpack_from(raw)[0] == 69)
    time = BATCH_HEADER.unpack_from(found[place])[7]
    found[place] = cluster.batch(69, 1, time, [cluster.voter_set({2, 3})], cluster.CONTROL)


def other_leader(found: list[bytes]) -> None:
    place = next(place for place, raw in enumerate(found) if BATCH_HEADER.unpack_from(raw)[0] == 171)
    time = BATCH_HEADER.unpack_from(found[place])[7]
    found[place] = cluster.batch(171, 3, time, [cluster.leader_change(3, {1, 2, 3}, {3})], cluster.CONTROL)


def no_leader_change(found: list[bytes]) -> None:
    place = next(place for place, raw in enumerate(found) if BATCH_HEADER.unpack_from(raw)[0] == 171)
    found[place] = cluster.batch(171, 3, 1795612866317, [(None, b"x")])


FORGERIES = {
    set_time: {"log matching"},
    flip_a_bit: {"crc"},
    raise_epoch: {"log matching", "epochs"},
    leave_out: {"log matching", "batches"},
    change_length: {"batches", "log matching"},
    swap: {"batches"},
    drop_a_voter: {"log matching", "voter sets"},
    other_leader: {"log matching", "elections"},
    no_leader_change: {"log matching", "epochs"},
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("change", FORGERIES)
def test_forged_logs_are_told(folder: Path, change: Callable[[list[bytes]], None]) -> None:
    forge(log_of(folder, 3), change)
    disks, report = checked(folder)
    assert {one.check for one in report.findings} >= FORGERIES[change], render_disk_report(disks, report)
    assert all(3 in one.nodes for one in report.findings)
    assert str(log_of(folder, 3)) in {one.file for one in report.findings}


def test_where_logs_differ_is_explained(folder: Path) -> None:
    forge(log_of(folder, 3), set_time)
    _, report = checked(folder)
    found = [one for one in report.findings if one.check == "log matching"]
    assert [one.nodes for one in found] == [(1, 2, 3)]
    assert "logs differ from offset 139 on: node 1 and node 2 have epoch 2, CRC e8d0518b" in found[0].message
    assert "; node 3 has epoch 2, CRC " in found[0].message
    assert "voters [1, 2, 3] since offset 69" in found[0].message
    assert "of 2026-11-25 13:20:00.000Z" in found[0].message


def snapshot_path(folder: Path, offset: int) -> Path:
    return next((folder / "d3" / "__cluster_metadata-0").glob(f"{offset:020}-*.checkpoint"))


def voters_left_out(folder: Path) -> None:
    snapshot_path(folder, 108).write_bytes(cluster.snapshot(1, 5, None))


def other_voters(folder: Path) -> None:
    snapshot_path(folder, 108).write_bytes(cluster.snapshot(1, 5, {1, 2}))


def footer_left_out(folder: Path) -> None:
    forge(snapshot_path(folder, 108), lambda found: found.pop())


def header_left_out(folder: Path) -> None:
    forge(snapshot_path(folder, 108), lambda found: found.pop(0))


def other_epoch(folder: Path) -> None:
    path = snapshot_path(folder, 136)
    path.rename(path.with_name(path.name.replace("2.checkpoint", "1.checkpoint")))


def no_first_snapshot(folder: Path) -> None:
    for path in (folder / "d3" / "__cluster_metadata-0").glob("*.checkpoint"):
        path.unlink()


def snapshot_within_a_batch(folder: Path) -> None:
    headers = map(BATCH_HEADER.unpack_from, batches_of(log_of(folder, 3)))
    base = next(header[0] for header in headers if header[0] > 37 and header[6])
    path = snapshot_path(folder, 59)
    path.rename(path.with_name(path.name.replace("00059-", f"{base + 1:05}-")))


def quorum_state_behind(folder: Path) -> None:
    path = folder / "d3" / "__cluster_metadata-0" / "quorum-state"
    path.write_text(path.read_text().replace('"leaderEpoch":6', '"leaderEpoch":5'))


def quorum_state_lost(folder: Path) -> None:
    (folder / "d3" / "__cluster_metadata-0" / "quorum-state").unlink()


def quorum_state_of_another_leader(folder: Path) -> None:
    path = folder / "d3" / "__cluster_metadata-0" / "quorum-state"
    path.write_text(path.read_text().replace('"leaderId":1', '"leaderId":2'))


def quorum_state_unreadable(folder: Path) -> None:
    (folder / "d3" / "__cluster_metadata-0" / "quorum-state").write_text("[" * 100_000)


def vote_forgotten(folder: Path) -> None:
    path = folder / "d2" / "__cluster_metadata-0" / "quorum-state"
    path.write_text(path.read_text().replace('"votedId":1', '"votedId":3'))


def same_directory(folder: Path) -> None:
    (folder / "d3" / "meta.properties").write_text((folder / "d2" / "meta.properties").read_text())


def segment_renamed(folder: Path) -> None:
    path = log_of(folder, 3)
    path.rename(path.with_name(path.name.replace("37", "36")))


OTHERS = {
    voters_left_out: "snapshots",
    other_voters: "voter sets",
    footer_left_out: "snapshots",
    header_left_out: "snapshots",
    other_epoch: "snapshots",
    no_first_snapshot: "snapshots",
    snapshot_within_a_batch: "snapshots",
    quorum_state_behind: "quorum-state",
    quorum_state_lost: "quorum-state",
    quorum_state_of_another_leader: "elections",
    quorum_state_unreadable: "quorum-state",
    vote_forgotten: "elections",
    same_directory: "identity",
    segment_renamed: "batches",
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("change", OTHERS)
def test_other_forgeries_are_told(folder: Path, change: Callable[[Path], None]) -> None:
    change(folder)
    disks, report = checked(folder)
    assert OTHERS[change] in {one.check for one in report.findings}, render_disk_report(disks, report)


def forked(folder: Path, epoch: int, *, also: bool, granting: set[int]) -> CheckReport:
    """Write two disks that differ from offset 4 on: node 1 has a snapshot of offset 6, node 2 leads epoch 2.

    The first argument is the epoch of node 1's quorum-state. With `also`, node 2 has a snapshot behind the fork too.
    """
    change = cluster.leader_change
    old = [cluster.batch(0, 1, 1, [change(1, {1, 2, 3}, {1, 2})], cluster.CONTROL)]
    old += [cluster.batch(base, 1, base, [(None, b"old")]) for base in range(1, 7)]
    new = [*old[:4], cluster.batch(4, 2, 9, [change(2, {1, 2, 3}, granting)], cluster.CONTROL)]
    new += [cluster.batch(base, 2, base, [(None, b"new")]) for base in (5, 6)]
    for node, raw in ((1, old), (2, new)):
        replica = cluster.Replica(node, epoch=epoch if node == 1 else 2)
        replica.log = [cluster.Entry(base, base + 1, 1, one) for base, one in enumerate(raw)]
        if node == 1 or also:
            replica.snapshots[6, node] = cluster.snapshot(node, 5, None, None), frozenset()
        replica.write(folder / f"d{node}")
    return checked(folder)[1]


@pytest.mark.parametrize(
    ("epoch", "also", "is_breach"),
    [(1, False, True), (2, False, False), (3, False, False), (1, True, True), (3, True, True)],
)
def test_committed_batches_do_not_differ(tmp_path: Path, epoch: int, *, also: bool, is_breach: bool) -> None:
    """A snapshot is committed in an epoch up to that of quorum-state; later leaders have all committed batches."""
    report = forked(tmp_path, epoch, also=also, granting={2, 3})
    assert {one.check for one in report.findings} == ({"committed"} if is_breach else set())
    assert "log matching" in {one.check for one in report.notes}
    assert is_breach or "committed" in {one.check for one in report.notes}


@pytest.mark.parametrize(
    ("epoch", "granting", "message"),
    [
        (2, {1, 2}, "has a log that is ahead: to 7 of epoch 1; the leader's: to 4 of 1"),
        (1, {1, 2}, "is in epoch 1"),
        (3, {2}, "leads epoch 2 with the votes [2] of [1, 2, 3]"),
        (3, {2, 4}, "leads epoch 2 with the votes [2, 4] of [1, 2, 3]"),
    ],
)
def test_elections_are_compared_with_disks(tmp_path: Path, epoch: int, granting: set[int], message: str) -> None:
    report = forked(tmp_path, epoch, also=False, granting=granting)
    assert [message in one.message for one in report.findings if one.check == "elections"] == [True]


def test_a_replaced_disk_of_a_static_voter_is_a_note(tmp_path: Path) -> None:
    report = forked(tmp_path, 1, also=False, granting={1, 2})
    assert "elections" in {one.check for one in report.findings}
    state = tmp_path / "d1" / "__cluster_metadata-0" / "quorum-state"
    state.write_text(state.read_text().replace('"leaderEpoch": 1', '"leaderEpoch": 0'))
    report = check_disks(read_disks([tmp_path]))
    assert "elections" not in {one.check for one in report.findings}
    assert "forgets votes" in next(one.message for one in report.notes if one.check == "elections")


def test_disks_of_two_clusters_are_refused(folder: Path) -> None:
    path = folder / "d3" / "meta.properties"
    path.write_text(path.read_text().replace("cluster.id=P", "cluster.id=Q"))
    with pytest.raises(InputError, match=r"expected those of one cluster, found Py.*, Qy"):
        checked(folder)


def test_a_report_includes_another(folder: Path) -> None:
    _, report = checked(SAMPLE)
    total = report.total
    report.include(report)
    assert report.total == 2 * total


def test_a_killed_process_is_no_breach(folder: Path) -> None:
    path = log_of(folder, 3)
    whole = path.read_bytes()
    for raw, left in (
        (whole[:-10], "62 bytes"),
        (whole + bytes(5000), "5000 bytes at the end are no whole batch: zeros"),
    ):
        path.write_bytes(raw)
        _, report = checked(folder)
        assert report.findings == []
        assert [one.check for one in report.notes] == ["batches"]
        assert left in report.notes[0].message


@pytest.mark.sampled(25)
@pytest.mark.parametrize("seed", range(50))
def test_honest_disks_have_no_finding(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    version = int(seed % 5 > 0)
    raft = cluster.Raft(random, random.choice([3, 3, 5]), version=version)
    raft.run(400)
    for replica in raft.replicas.values():
        cut = random.choice([0, 0, 7]) if replica.log else 0
        replica.write(tmp_path / f"d{replica.number}", cut)
    disks, report = checked(tmp_path)
    assert report.findings == [], render_disk_report(disks, report)
    names = ("crc", "epochs", "log matching", "elections", *version * ("voter sets",))
    assert min(report.checks[name] for name in names) > 0


@pytest.mark.slow
def test_honest_disks_are_not_alike(tmp_path: Path) -> None:
    """The honest sets have uncommitted ends that differ, voter sets that change, and logs that begin later."""
    seen: set[str] = set()
    for seed in range(12):
        raft = cluster.Raft(Random(seed), 3)
        raft.run(400)
        for replica in raft.replicas.values():
            replica.write(tmp_path / f"{seed}" / f"d{replica.number}")
        disks, report = checked(tmp_path / f"{seed}")
        seen |= {note.check for note in report.notes}
        seen |= {"moved" for disk in disks if disk.start}
        seen |= {"changed" for disk in disks if any(isinstance(one.body, VotersRecord) for one in disk.log.controls)}
    assert {"log matching", "moved", "changed"} <= seen


def test_columns_are_aligned() -> None:
    assert BATCH_INDEX_DTYPE.itemsize == 44


FAULTS = {
    "divergence-not-told": ("log matching", "both sides have epoch 2 from there on"),
    "vote-without-comparing-logs": (
        "elections",
        "but has a log that is ahead: to 18 of epoch 1; the leader's: to 15 of 1",
    ),
    "voter-set-not-taken-over": ("voter sets", "names voters [1, 2, 3], the log has [1, 2, 3, 4] since offset 17"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_disks_of_a_faulty_kafka_are_told(name: str) -> None:
    """Disks of real controllers whose client was changed by an agent."""
    check, message = FAULTS[name]
    _, report = checked(SAMPLE.parent / "faults" / f"{name}.tar.gz")
    assert any(one.check == check and message in one.message for one in report.findings), report.findings


def test_an_uncommitted_end_is_a_note() -> None:
    """The old leader's uncommitted end is honest; the truncation that the fault left out shows in logs alone."""
    _, report = checked(SAMPLE.parent / "faults" / "truncation-not-done.tar.gz")
    assert report.findings == []
    (note,) = report.notes
    assert note.nodes == (1, 2, 3)
    assert "node 2 and node 3 have epoch 2" in note.message

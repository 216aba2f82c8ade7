"""Checks of disks: CRCs, epochs, quorum-state and snapshots of each, and comparisons of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations

import numpy as np

from kraftcheck.spec.errors import InputError
from kraftcheck.validation.comparisons import (
    compare_committed,
    compare_elections,
    compare_logs,
    compare_successive_voters,
    compare_voters,
)
from kraftcheck.validation.disks import Disk, Snapshot
from kraftcheck.validation.findings import (
    CHECKS,
    MOST_FINDINGS,
    Finding,
    Node,
    Report,
    elections_in,
    node_of,
    place_of,
    record_at,
)
from kraftcheck.validation.records import Scan, SnapshotFooter, SnapshotHeader


def check_disks(disks: list[Disk]) -> Report:
    """Check disks, each alone and all against each other."""
    report = Report(Counter(dict.fromkeys(CHECKS, 0)))
    _identity(disks, report)
    for disk in disks:
        _integrity(disk, report)
        _epochs(disk, report)
        _quorum_state(disk, report)
        for snapshot in disk.snapshots:
            _snapshot(disk, snapshot, report)
        _snapshots_and_start(disk, report)
        compare_successive_voters(disk, report)
    compare_elections(disks, report)
    compare_voters(disks, report)
    compare_logs(disks, report)
    for disk in disks:
        for other in disks:
            for snapshot in other.snapshots:
                compare_committed(disk, other, snapshot, report)
    return report


def _identity(disks: list[Disk], report: Report) -> None:
    clusters = {disk.cluster_id for disk in disks if disk.cluster_id}
    if len(clusters) > 1:
        raise InputError(f"disks: expected those of one cluster, found {', '.join(sorted(clusters))}; name one cluster")
    report.checks["identity"] += len(list(combinations(disks, 2)))
    for one, other in combinations(disks, 2):
        nodes = node_of(one), node_of(other)
        where = f"{other.path}, and {one.path}"
        if one.directory_id and one.directory_id == other.directory_id:
            message = f"{one.name} and {other.name} have the same directory.id {one.directory_id}"
            report.add(Finding("identity", message, other.path, where, nodes))
        elif one.node_id is not None and one.node_id == other.node_id:
            message = f"{one.name} has two disks with different directory ids: two replicas"
            report.add(Finding("identity", message, other.path, where, nodes), is_note=True)


def _scans(disk: Disk) -> Iterator[tuple[Scan, list[str], str]]:
    yield disk.log, disk.files, disk.files[-1] if disk.files else ""
    for snapshot in disk.snapshots:
        yield snapshot.scan, [snapshot.file], ""


def _integrity(disk: Disk, report: Report) -> None:
    """Check CRCs, and that batches have neither gaps nor foreign bytes between them."""
    nodes = (node_of(disk),)
    for problem in disk.problems:
        report.add(Finding("quorum-state", problem.message, problem.file, "", nodes))
    for scan, files, active in _scans(disk):
        report.checks["crc"] += len(scan.batches)
        _faults(scan, files, active, nodes, report)
        _gaps(scan.batches, disk.starts[0] if active else 0, files, nodes, report)
    for number, start in enumerate(disk.starts):
        rows = disk.log.batches[disk.log.batches["file"] == number]
        if len(rows) and rows["base"][0] != start:
            message = f"the segment begins at offset {rows['base'][0]}, its name says {start}"
            report.add(Finding("batches", message, disk.files[number], "byte 0", nodes))


def _faults(scan: Scan, files: list[str], active: str, nodes: tuple[Node, ...], report: Report) -> None:
    """Report the faults of a scan; only the active segment may have an unfinished end."""
    for fault in scan.faults:
        file, check = files[fault.file], "crc" if fault.kind == "crc" else "batches"
        honest = fault.kind == "tail" and file == active
        message = f"{fault.message}; a killed process may leave that" if honest else fault.message
        report.add(Finding(check, message, file, f"byte {fault.at}", nodes), is_note=honest)
    if hidden := scan.broken - sum(fault.kind == "crc" for fault in scan.faults):
        report.add(Finding("crc", f"{hidden} more batches with a wrong CRC", files[0], "", nodes))


def _gaps(batches: np.ndarray, start: int, files: list[str], nodes: tuple[Node, ...], report: Report) -> None:
    report.checks["batches"] += len(batches)
    expected = np.concatenate(([start], batches["last"][:-1] + 1))[: len(batches)]
    for place in np.flatnonzero(batches["base"] != expected)[:MOST_FINDINGS]:
        row = batches[place]
        message = f"offset {row['base']} where {expected[place]} was expected"
        where = f"offset {row['base']}, byte {row['at']}"
        report.add(Finding("batches", message, files[row["file"]], where, nodes))


def _epochs(disk: Disk, report: Report) -> None:
    """Check that epochs never fall, and that each begins with its leader's LeaderChange, which is nowhere else."""
    batches, node = disk.log.batches, node_of(disk)
    epochs = batches["epoch"]
    begins = np.flatnonzero(np.diff(epochs, prepend=epochs[:1] if disk.start else -1))
    report.checks["epochs"] += max(len(batches) - 1, 0) + len(begins)
    for place in np.flatnonzero(epochs[1:] < epochs[:-1])[:MOST_FINDINGS] + 1:
        file, where = place_of(disk, batches[place])
        message = f"epoch {epochs[place]} behind epoch {epochs[place - 1]}"
        report.add(Finding("epochs", message, file, where, (node,)))
    changes = {control.base: (control, body) for control, body in elections_in(disk)}
    broken = {(fault.file, fault.at) for fault in disk.log.faults}
    for row in batches[begins]:
        found = changes.pop(int(row["base"]), None)
        if (found is None or found[0].offset != row["base"]) and (row["file"], row["at"]) not in broken:
            file, where = place_of(disk, row)
            message = f"epoch {row['epoch']} begins without the LeaderChange of its leader"
            report.add(Finding("epochs", message, file, where, (node,)))
    changes.pop(disk.start, None)
    for control, body in changes.values():
        message = f"a LeaderChange of node {body.leader} in the middle of epoch {control.epoch}"
        report.add(Finding("epochs", message, *record_at(disk, control), (node,)))


def _quorum_state(disk: Disk, report: Report) -> None:
    """Check that quorum-state is not behind the log: Kafka stores an epoch before it appends a batch of it."""
    last, state = disk.last_epoch, disk.quorum_state
    if not len(disk.log.batches) or disk.is_alone:
        return
    report.checks["quorum-state"] += 1
    file = f"{disk.path}/quorum-state"
    if state is None:
        if not any(problem.file == file for problem in disk.problems):
            message = f"missing, but the log has batches of epoch {last}; a vote of an epoch may be given twice"
            report.add(Finding("quorum-state", message, file, "", (node_of(disk),)))
    elif state.epoch < last:
        message = f"epoch {state.epoch} is below epoch {last} of the log's last batch"
        report.add(Finding("quorum-state", message, file, "", (node_of(disk),)))


def _snapshot(disk: Disk, snapshot: Snapshot, report: Report) -> None:
    """Check one snapshot: complete, with voters, and with an id of the log."""
    report.checks["snapshots"] += 1
    for fault in (*_content_faults(disk, snapshot), *_id_faults(disk, snapshot)):
        where = f"snapshot {snapshot.offset}, epoch {snapshot.epoch}"
        report.add(Finding("snapshots", fault, snapshot.file, where, (node_of(disk),)))


def _content_faults(disk: Disk, snapshot: Snapshot) -> Iterator[str]:
    bodies = [control.body for control in snapshot.scan.controls]
    if not isinstance(next(iter(bodies), None), SnapshotHeader):
        yield "does not begin with a SnapshotHeader"
    if not isinstance(next(reversed(bodies), None), SnapshotFooter):
        yield "does not end with a SnapshotFooter"
    known = _version_before(disk, snapshot.offset)
    version = snapshot.version or known
    if version and snapshot.voters is None and snapshot.offset:
        yield f"has no voters, though kraft.version is {version}"
    if known and snapshot.version is None:
        yield f"has no kraft.version, though it is {version}"


def _version_before(disk: Disk, offset: int) -> int:
    return max((one[:2] for one in disk.versions if one[0] < offset), default=(0, 0))[1]


def _id_faults(disk: Disk, snapshot: Snapshot) -> Iterator[str]:
    row = disk.batch_at(snapshot.offset - 1)
    if row is None:
        return
    if row["epoch"] != snapshot.epoch:
        yield f"has epoch {snapshot.epoch}, the log has epoch {row['epoch']} at offset {snapshot.offset - 1}"
    if row["last"] != snapshot.offset - 1:
        yield f"ends within the batch at offset {row['base']}"


def _snapshots_and_start(disk: Disk, report: Report) -> None:
    """Check that snapshots and log leave no hole: Kafka refuses to start with one."""
    node = node_of(disk)
    if disk.start > 0 and disk.files and not disk.is_alone:
        report.checks["snapshots"] += 1
        if all(snapshot.offset < disk.start for snapshot in disk.snapshots):
            message = f"the log begins at offset {disk.start}, but there is no snapshot of that offset or a later one"
            report.add(Finding("snapshots", message, disk.files[0], f"offset {disk.start}", (node,)))
    for snapshot in disk.snapshots:
        if snapshot.offset > disk.end:
            latest = snapshot is disk.snapshots[-1]
            message = f"a snapshot of offset {snapshot.offset}, but the log ends at {disk.end}"
            message += "; a follower that is killed after a download may leave that" if latest else ""
            where = f"snapshot {snapshot.offset}, epoch {snapshot.epoch}"
            report.add(Finding("snapshots", message, snapshot.file, where, (node,)), is_note=latest)

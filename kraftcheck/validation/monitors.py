"""Checks of disks: CRCs, epochs, elections, log matching, voter sets, quorum-state and snapshots."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import combinations, pairwise
from operator import itemgetter
from typing import Any

import numpy as np

from kraftcheck.spec.errors import InputError
from kraftcheck.validation.disks import Disk, QuorumState, Snapshot
from kraftcheck.validation.records import (
    NO_DIRECTORY,
    Control,
    LeaderChange,
    Scan,
    SnapshotFooter,
    SnapshotHeader,
    Voter,
    Voters,
)

CHECKS = {
    "identity": "each disk belongs to another replica",
    "crc": "CRC of each batch",
    "batches": "batches follow one another without a gap",
    "epochs": "epochs never fall, and begin with a LeaderChange",
    "elections": "one leader an epoch, elected by a majority that kept its votes",
    "log matching": "batches with the same offset and epoch are equal, and so are those before",
    "committed": "committed batches are in the log of each later leader",
    "voter sets": "voter sets agree by offset, and change by one voter",
    "quorum-state": "quorum-state is not behind the log",
    "snapshots": "snapshots are complete and agree with the logs",
}
"""The checks of disks, with their meaning."""
MOST_FINDINGS = 20
"""Maximum number of findings of one check of the same nodes."""
MOST_IN_ALL = 500

Node = int | str
VoterSet = tuple[int, tuple[Voter, ...], str]
"""The offset from which voters are in force, the voters, and the file with the record."""


@dataclass(frozen=True)
class Finding:
    """A breach of a check, or a note on something that Kafka may leave behind."""

    check: str
    message: str
    file: str
    where: str
    nodes: tuple[Node, ...]


@dataclass
class Report:
    """Numbers of comparisons by check, breaches, and notes on honest remains of a kill or a lost election."""

    checks: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)

    @property
    def total(self) -> int:
        """Number of comparisons."""
        return self.checks.total()

    def include(self, other: Report) -> None:
        """Add the checks, findings and notes of another report."""
        self.checks.update(other.checks)
        self.findings += other.findings
        self.notes += other.notes

    def add(self, finding: Finding, *, is_note: bool = False) -> None:
        """Keep a finding once; limit those of one check of the same nodes."""
        kept = self.notes if is_note else self.findings
        same = sum(one.check == finding.check and one.nodes == finding.nodes for one in kept)
        if finding not in kept and same < MOST_FINDINGS and len(kept) < MOST_IN_ALL:
            kept.append(finding)


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
        _voter_changes(disk, report)
    _elections(disks, report)
    _voters_by_offset(disks, report)
    for one, other in combinations(disks, 2):
        _log_matching(one, other, report)
    for disk in disks:
        for other in disks:
            for snapshot in other.snapshots:
                _committed(disk, other, snapshot, report)
    return report


def when(milliseconds: int) -> str:
    """Return a time of Kafka in UTC."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(" ", "milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return f"{milliseconds} ms"


def node_of(disk: Disk) -> Node:
    """Return the node's number, or its path."""
    return disk.path if disk.node_id is None else disk.node_id


def ids(voters: Iterable[Voter]) -> list[int]:
    """Return the numbers of voters."""
    return sorted(voter.id for voter in voters)


def voters_at(disk: Disk, offset: int) -> tuple[int, tuple[Voter, ...]] | None:
    """Return the voter set in force at an offset, and from which offset; None if the disk has none."""
    return _in_force(disk.voters, offset)


def _in_force(sets: list[VoterSet], offset: int) -> tuple[int, tuple[Voter, ...]] | None:
    """Return the last of some voter sets up to an offset, and its own offset."""
    place = bisect_right(sets, offset, key=itemgetter(0)) - 1
    return sets[place][:2] if place >= 0 else None


def _place(disk: Disk, row: np.void) -> tuple[str, str]:
    return disk.files[row["file"]], f"offset {row['base']}, byte {row['at']}"


# Each disk alone


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


Election = tuple[Control, LeaderChange]


def _changes(disk: Disk) -> list[Election]:
    return [(control, control.body) for control in disk.log.controls if isinstance(control.body, LeaderChange)]


def _at(disk: Disk, control: Control) -> tuple[str, str]:
    return disk.files[control.file], f"offset {control.offset}, byte {control.at}"


def _epochs(disk: Disk, report: Report) -> None:
    """Check that epochs never fall, and that each begins with its leader's LeaderChange, which is nowhere else."""
    batches, node = disk.log.batches, node_of(disk)
    epochs = batches["epoch"]
    begins = np.flatnonzero(np.diff(epochs, prepend=epochs[:1] if disk.start else -1))
    report.checks["epochs"] += max(len(batches) - 1, 0) + len(begins)
    for place in np.flatnonzero(epochs[1:] < epochs[:-1])[:MOST_FINDINGS] + 1:
        file, where = _place(disk, batches[place])
        message = f"epoch {epochs[place]} behind epoch {epochs[place - 1]}"
        report.add(Finding("epochs", message, file, where, (node,)))
    changes = {control.base: (control, body) for control, body in _changes(disk)}
    broken = {(fault.file, fault.at) for fault in disk.log.faults}
    for row in batches[begins]:
        found = changes.pop(int(row["base"]), None)
        if (found is None or found[0].offset != row["base"]) and (row["file"], row["at"]) not in broken:
            file, where = _place(disk, row)
            message = f"epoch {row['epoch']} begins without the LeaderChange of its leader"
            report.add(Finding("epochs", message, file, where, (node,)))
    changes.pop(disk.start, None)
    for control, body in changes.values():
        message = f"a LeaderChange of node {body.leader} in the middle of epoch {control.epoch}"
        report.add(Finding("epochs", message, *_at(disk, control), (node,)))


def _quorum_state(disk: Disk, report: Report) -> None:
    """Check that quorum-state is not behind the log: Kafka stores an epoch before it appends a batch of it."""
    last, state = disk.last_epoch, disk.quorum_state
    if not len(disk.log.batches):
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
    if disk.start > 0 and disk.files:
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


# Voter sets


def _keys(voters: tuple[Voter, ...]) -> frozenset[Voter]:
    return frozenset(voter._replace(endpoints=tuple(sorted(voter.endpoints))) for voter in voters)


def is_one_step(before: Iterable[tuple[Any, ...]], after: Iterable[tuple[Any, ...]]) -> bool:
    """Whether one AddVoter, RemoveVoter or UpdateVoter changes a voter set so."""
    old, new = ({voter[:2] for voter in voters} for voters in (before, after))
    removed, added = old - new, new - old
    replaced = {number for number, directory in removed if directory in NO_DIRECTORY} == {number for number, _ in added}
    return len(removed) + len(added) <= 1 or (len(added) == 1 and len(removed) == 1 and replaced)


def _records(disk: Disk) -> list[VoterSet]:
    """Return the voter sets of the log by offset, and before them the one in force at its start, from a snapshot."""
    records = [
        (one.offset, one.body.voters, disk.files[one.file]) for one in disk.log.controls if isinstance(one.body, Voters)
    ]
    first = next((one for one in disk.snapshots if one.offset >= disk.start), None)
    if first and first.voters is not None and not any(offset < first.offset for offset, _, _ in records):
        records.insert(0, (first.offset - 1, first.voters, first.file))
    return records


def _voter_changes(disk: Disk, report: Report) -> None:
    for (_, before, _), (offset, after, file) in pairwise(_records(disk)):
        report.checks["voter sets"] += 1
        if not is_one_step(before, after):
            message = f"voters {ids(before)} become {ids(after)} in one step"
            report.add(Finding("voter sets", message, file, f"offset {offset}", (node_of(disk),)))


def _voters_by_offset(disks: list[Disk], report: Report) -> None:
    """Compare the voter set of each snapshot, record and election with that of each log at its offset."""
    claims = [claim for disk in disks for claim in _claims(disk)]
    for disk in disks:
        records = _records(disk)
        _voters_of_elections(disk, records, report)
        for offset, epoch, voters, file, other in claims:
            row, known = disk.batch_at(offset), _in_force(records, offset)
            if row is None or row["epoch"] != epoch or known is None or records[0][2] == file:
                continue
            report.checks["voter sets"] += 1
            if _keys(known[1]) != voters:
                message = f"voters {ids(voters)} at offset {offset} on {other.name}, "
                message += f"{ids(known[1])} since offset {known[0]} in the log of {disk.name}"
                nodes = node_of(disk), node_of(other)
                report.add(Finding("voter sets", message, file, f"offset {offset}", nodes))


def _voters_of_elections(disk: Disk, records: list[VoterSet], report: Report) -> None:
    for control, body in _changes(disk):
        known = _in_force(records, control.base - 1)
        if known is None:
            continue
        report.checks["voter sets"] += 1
        if ids(known[1]) != ids(body.voters):
            message = f"the leader of epoch {control.epoch} names voters {ids(body.voters)}, "
            message += f"the log has {ids(known[1])} since offset {known[0]}"
            report.add(Finding("voter sets", message, *_at(disk, control), (node_of(disk),)))


def _claims(disk: Disk) -> Iterator[tuple[int, int, frozenset[Voter], str, Disk]]:
    """Yield (offset, epoch, voters, file, disk) of the voter sets of snapshots and log."""
    for snapshot in disk.snapshots:
        if snapshot.voters is not None:
            yield snapshot.offset - 1, snapshot.epoch, _keys(snapshot.voters), snapshot.file, disk
    for one in disk.log.controls:
        if isinstance(one.body, Voters):
            yield one.offset, one.epoch, _keys(one.body.voters), disk.files[one.file], disk


# Elections


def _elections(disks: list[Disk], report: Report) -> None:
    """Check that an epoch has one leader, elected by a majority whose disks remember the vote."""
    claims: dict[int, list[tuple[int, Disk, str, str]]] = defaultdict(list)
    elections: dict[tuple[int, int, LeaderChange], tuple[Disk, Control]] = {}
    for disk in disks:
        for control, body in _changes(disk):
            claims[control.epoch].append((body.leader, disk, *_at(disk, control)))
            elections.setdefault((control.epoch, control.base, body), (disk, control))
        state = disk.quorum_state
        if state and state.leader >= 0:
            claims[state.epoch].append((state.leader, disk, f"{disk.path}/quorum-state", ""))
    for epoch, made in claims.items():
        leader, first, _, _ = made[0]
        report.checks["elections"] += len(made) - 1
        for other, disk, file, where in made[1:]:
            if other != leader:
                message = f"epoch {epoch} has leader {other} on {disk.name}, leader {leader} on {first.name}"
                report.add(Finding("elections", message, file, where, (node_of(first), node_of(disk))))
    for (_, _, body), (disk, control) in elections.items():
        _election(disks, disk, control, body, report)


def _election(disks: list[Disk], disk: Disk, control: Control, change: LeaderChange, report: Report) -> None:
    epoch, offset = control.epoch, control.base
    file, where = _at(disk, control)
    voters, granting = set(ids(change.voters)), set(ids(change.granting))
    report.checks["elections"] += 1
    if not granting <= voters or 2 * len(granting) <= len(voters) or change.leader not in voters:
        message = f"node {change.leader} leads epoch {epoch} with the votes {sorted(granting)} of {sorted(voters)}"
        report.add(Finding("elections", message, file, where, (node_of(disk),)))
    before = disk.batch_at(offset - 1)
    log_end = (int(before["epoch"]), offset) if before is not None else None
    for voter, state, is_known in _granters(disks, disk, offset, change):
        report.checks["elections"] += 1
        if fault := _vote_fault(voter, state, epoch, change.leader, log_end):
            is_new = not is_known and not state.epoch
            message = f"{voter.name} granted its vote of epoch {epoch} to node {change.leader}, but {fault}"
            message += "; a disk that is replaced forgets votes, which kraft.version 0 cannot tell" if is_new else ""
            nodes = node_of(voter), change.leader
            found = Finding("elections", message, f"{voter.path}/quorum-state", where, nodes)
            report.add(found, is_note=is_new)


def _granters(
    disks: list[Disk], log: Disk, offset: int, change: LeaderChange
) -> Iterator[tuple[Disk, QuorumState, bool]]:
    """Yield the disks of granted votes, and whether the directory is known; another one is another replica."""
    known = voters_at(log, offset)
    voters = (*(known[1] if known else ()), *change.granting)
    directories = {voter.id: voter.directory for voter in voters if voter.directory not in NO_DIRECTORY}
    granting = ids(change.granting)
    for disk in disks:
        directory = directories.get(disk.node_id or 0)
        if disk.quorum_state and disk.node_id in granting and directory in (None, disk.directory_id):
            yield disk, disk.quorum_state, directory is not None


def _vote_fault(voter: Disk, state: QuorumState, epoch: int, leader: int, log_end: tuple[int, int] | None) -> str:
    """Return the contradiction between a granted vote and the voter's disk, or an empty text.

    A voter's log of older epochs grows no more behind its vote, unless a leader of that epoch or a later one sends it.
    """
    if state.epoch < epoch:
        return f"is in epoch {state.epoch}"
    if state.epoch == epoch and not {state.voted, state.leader} <= {-1, leader}:
        return f"remembers vote {state.voted} and leader {state.leader}"
    own = voter.last_epoch, voter.end
    if log_end and state.epoch == epoch > own[0] and own > log_end:
        return f"has a log that is ahead: to {own[1]} of epoch {own[0]}; the leader's: to {log_end[1]} of {log_end[0]}"
    return ""


# Logs against each other


def _log_matching(one: Disk, other: Disk, report: Report) -> None:
    """Compare two logs where they overlap, and judge their first difference as Raft does.

    An uncommitted end may differ. The logs then share no epoch behind their first difference: a batch of an epoch
    stands behind the log of that epoch's leader.
    """
    count, offset = _difference(one, other)
    report.checks["log matching"] += count
    if offset is None:
        return
    rest = [disk.log.batches[disk.log.batches["base"] >= offset] for disk in (one, other)]
    shared = np.intersect1d(rest[0]["epoch"], rest[1]["epoch"])
    first = [next((row for row in rows if row["base"] == offset), None) for rows in rest]
    holder, row = next((disk, row) for disk, row in zip((other, one), first[::-1], strict=True) if row is not None)
    parts = [
        f"{disk.name} lacks it"
        if row is None
        else f"{disk.name} has epoch {row['epoch']}, CRC {row['crc']:08x}, of {when(row['time'])}"
        for disk, row in zip((one, other), first, strict=True)
    ]
    message = f"logs differ from offset {offset} on: {', '.join(parts)}; {_about_voters(holder, offset)}"
    if len(shared):
        message += f"; both have epoch {shared[0]} from there on"
    else:
        message += "; the logs share no epoch from there on: the end of one may be uncommitted"
    file, where = _place(holder, row)
    nodes = node_of(one), node_of(other)
    report.add(Finding("log matching", message, file, where, nodes), is_note=not len(shared))


def _difference(one: Disk, other: Disk) -> tuple[int, int | None]:
    """Return the number of batches that were compared, and the first offset where two logs differ."""
    start, end = max(one.start, other.start), min(one.end, other.end)
    mine, theirs = _between(one.log.batches, start, end), _between(other.log.batches, start, end)
    bases = mine["base"]
    missing = np.empty(0, np.int64)
    if not np.array_equal(bases, theirs["base"]):
        missing = np.setxor1d(bases, theirs["base"])
        bases, here, there = np.intersect1d(bases, theirs["base"], return_indices=True)
        mine, theirs = mine[here], theirs[there]
    same = np.logical_and.reduce([mine[key] == theirs[key] for key in ("last", "epoch", "crc")])
    differing = np.union1d(bases[~same], missing)
    return len(bases), int(differing[0]) if len(differing) else None


def _between(batches: np.ndarray, start: int, end: int) -> np.ndarray:
    """Return the batches that begin in a range of offsets."""
    bases = batches["base"]
    if np.all(bases[1:] > bases[:-1]):
        return batches[np.searchsorted(bases, start) : np.searchsorted(bases, end)]
    return batches[(bases >= start) & (bases < end)]


def _about_voters(disk: Disk, offset: int) -> str:
    known = voters_at(disk, offset)
    if known:
        return f"voters {ids(known[1])} since offset {known[0]}"
    elections = [one for one in _changes(disk) if one[0].base <= offset]
    if elections:
        control, body = elections[-1]
        return f"voters {ids(body.voters)} by the LeaderChange of epoch {control.epoch}"
    return "voters unknown"


def _committed(disk: Disk, other: Disk, snapshot: Snapshot, report: Report) -> None:
    """Compare a log with the id of a snapshot, which is committed.

    The commit was in an epoch up to that of the snapshot's quorum-state. Leaders of later epochs hold the batch.
    """
    row = disk.batch_at(snapshot.offset - 1)
    if row is None or disk is other:
        return
    report.checks["committed"] += 1
    if row["epoch"] == snapshot.epoch:
        return
    rest = disk.log.batches[disk.log.batches["base"] >= row["base"]]["epoch"]
    state = other.quorum_state
    latest = max(other.last_epoch, snapshot.epoch, state.epoch if state else 1 << 31)
    is_committed_too = any(one.offset >= snapshot.offset for one in disk.snapshots)
    is_breach = is_committed_too or snapshot.epoch in rest or int(rest.max()) > latest
    file, where = _place(disk, row)
    message = f"epoch {row['epoch']} at offset {snapshot.offset - 1} of {disk.name}, of {when(row['time'])}; "
    message += f"{other.name} holds that offset committed with epoch {snapshot.epoch}; "
    message += _about_voters(other, snapshot.offset - 1)
    nodes = node_of(disk), node_of(other)
    report.add(Finding("committed", message, file, where, nodes), is_note=not is_breach)

"""Comparisons of disks with each other: voter sets by offset, elections, and logs as Raft relates them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np

from kraftcheck.validation.disks import MetadataSnapshot, QuorumState, ReplicaDisk
from kraftcheck.validation.findings import (
    CheckFinding,
    CheckReport,
    PlacedVoterSet,
    disk_voters_at_offset,
    elections_in_log,
    node_number_or_path,
    place_of_batch,
    place_of_record,
    utc_time_text,
    voter_ids,
    voter_set_in_force,
)
from kraftcheck.validation.records import ABSENT_DIRECTORY_IDS, ControlRecord, LeaderChange, Voter, VotersRecord

# Voter sets


class _VoterSetClaim(NamedTuple):
    """A voter set that a disk has at an offset, in a log whose batch there is of an epoch."""

    offset: int
    epoch: int
    voters: frozenset[Voter]
    file: str
    disk: ReplicaDisk


def _voters_with_sorted_endpoints(voters: tuple[Voter, ...]) -> frozenset[Voter]:
    return frozenset(voter._replace(endpoints=tuple(sorted(voter.endpoints))) for voter in voters)


def is_single_voter_change(before: Iterable[tuple[Any, ...]], after: Iterable[tuple[Any, ...]]) -> bool:
    """Whether one AddVoter, RemoveVoter or UpdateVoter changes a voter set so."""
    old, new = ({voter[:2] for voter in voters} for voters in (before, after))
    removed, added = old - new, new - old
    replaced = {number for number, directory in removed if directory in ABSENT_DIRECTORY_IDS} == {
        number for number, _ in added
    }
    return len(removed) + len(added) <= 1 or (len(added) == 1 and len(removed) == 1 and replaced)


def _voter_sets_of_log(disk: ReplicaDisk) -> list[PlacedVoterSet]:
    """Return the voter sets of the log by offset, and before them the one in force at its start, from a snapshot."""
    records = [
        (one.offset, one.body.voters, disk.files[one.file])
        for one in disk.log.controls
        if isinstance(one.body, VotersRecord)
    ]
    first = next((one for one in disk.snapshots if one.offset >= disk.start), None)
    if first and first.voters is not None and not any(offset < first.offset for offset, _, _ in records):
        records.insert(0, (first.offset - 1, first.voters, first.file))
    return records


def check_successive_voter_sets(disk: ReplicaDisk, report: CheckReport) -> None:
    """Check that successive voter sets of a log differ by one voter."""
    for (_, before, _), (offset, after, file) in pairwise(_voter_sets_of_log(disk)):
        report.checks["voter sets"] += 1
        if not is_single_voter_change(before, after):
            message = f"voters {voter_ids(before)} become {voter_ids(after)} in one step"
            report.add(CheckFinding("voter sets", message, file, f"offset {offset}", (node_number_or_path(disk),)))


def compare_voter_sets_of_disks(disks: list[ReplicaDisk], report: CheckReport) -> None:
    """Compare the voter set of each snapshot, record and election with that of each log at its offset."""
    claims = [claim for disk in disks for claim in _voter_set_claims_of_disk(disk)]
    for disk in disks:
        records = _voter_sets_of_log(disk)
        _check_election_voters(disk, records, report)
        for claim in claims:
            _compare_claimed_voters(disk, records, claim, report)


def _compare_claimed_voters(
    disk: ReplicaDisk, records: list[PlacedVoterSet], claim: _VoterSetClaim, report: CheckReport
) -> None:
    row, known = disk.batch_at(claim.offset), voter_set_in_force(records, claim.offset)
    is_own = claim.disk is disk and (claim.file in disk.files or claim.file == records[0][2])
    if row is None or row["epoch"] != claim.epoch or known is None or is_own:
        return
    report.checks["voter sets"] += 1
    if _voters_with_sorted_endpoints(known[1]) != claim.voters:
        message = f"voters {voter_ids(claim.voters)} at offset {claim.offset} on {claim.disk.name}, "
        message += f"{voter_ids(known[1])} since offset {known[0]} in the log of {disk.name}"
        nodes = node_number_or_path(disk), node_number_or_path(claim.disk)
        report.add(CheckFinding("voter sets", message, claim.file, f"offset {claim.offset}", nodes))


def _check_election_voters(disk: ReplicaDisk, records: list[PlacedVoterSet], report: CheckReport) -> None:
    for control, body in elections_in_log(disk):
        known = voter_set_in_force(records, control.base - 1)
        if known is None:
            continue
        report.checks["voter sets"] += 1
        if voter_ids(known[1]) != voter_ids(body.voters):
            message = f"the leader of epoch {control.epoch} names voters {voter_ids(body.voters)}, "
            message += f"the log has {voter_ids(known[1])} since offset {known[0]}"
            report.add(
                CheckFinding("voter sets", message, *place_of_record(disk, control), (node_number_or_path(disk),))
            )


def _voter_set_claims_of_disk(disk: ReplicaDisk) -> Iterator[_VoterSetClaim]:
    """Yield the voter sets of snapshots and log."""
    for snapshot in disk.snapshots:
        if snapshot.voters is not None:
            yield _VoterSetClaim(
                snapshot.offset - 1, snapshot.epoch, _voters_with_sorted_endpoints(snapshot.voters), snapshot.file, disk
            )
    for one in disk.log.controls:
        if isinstance(one.body, VotersRecord):
            yield _VoterSetClaim(
                one.offset, one.epoch, _voters_with_sorted_endpoints(one.body.voters), disk.files[one.file], disk
            )


# Elections


def check_elections_of_disks(disks: list[ReplicaDisk], report: CheckReport) -> None:
    """Check that an epoch has one leader, elected by a majority whose disks remember the vote."""
    claims: dict[int, list[tuple[int, ReplicaDisk, str, str]]] = defaultdict(list)
    elections: dict[tuple[int, int, LeaderChange], tuple[ReplicaDisk, ControlRecord]] = {}
    for disk in disks:
        for control, body in elections_in_log(disk):
            claims[control.epoch].append((body.leader, disk, *place_of_record(disk, control)))
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
                report.add(
                    CheckFinding(
                        "elections", message, file, where, (node_number_or_path(first), node_number_or_path(disk))
                    )
                )
    for (_, _, body), (disk, control) in elections.items():
        _check_granted_votes(disks, disk, control, body, report)


def _check_granted_votes(
    disks: list[ReplicaDisk], disk: ReplicaDisk, control: ControlRecord, change: LeaderChange, report: CheckReport
) -> None:
    epoch, offset = control.epoch, control.base
    file, where = place_of_record(disk, control)
    voters, granting = set(voter_ids(change.voters)), set(voter_ids(change.granting))
    report.checks["elections"] += 1
    if not granting <= voters or 2 * len(granting) <= len(voters) or change.leader not in voters:
        message = f"node {change.leader} leads epoch {epoch} with the votes {sorted(granting)} of {sorted(voters)}"
        report.add(CheckFinding("elections", message, file, where, (node_number_or_path(disk),)))
    before = disk.batch_at(offset - 1)
    log_end = (int(before["epoch"]), offset) if before is not None else None
    for voter, state, is_known in _disks_of_granted_votes(disks, disk, offset, change):
        report.checks["elections"] += 1
        if fault := _granted_vote_fault(voter, state, epoch, change.leader, log_end):
            is_new = not is_known and not state.epoch
            message = f"{voter.name} granted its vote of epoch {epoch} to node {change.leader}, but {fault}"
            message += "; a disk that is replaced forgets votes, which kraft.version 0 cannot tell" if is_new else ""
            nodes = node_number_or_path(voter), change.leader
            found = CheckFinding("elections", message, f"{voter.path}/quorum-state", where, nodes)
            report.add(found, is_note=is_new)


def _disks_of_granted_votes(
    disks: list[ReplicaDisk], log: ReplicaDisk, offset: int, change: LeaderChange
) -> Iterator[tuple[ReplicaDisk, QuorumState, bool]]:
    """Yield the disks of granted votes, and whether the directory is known; another one is another replica."""
    known = disk_voters_at_offset(log, offset)
    voters = (*(known[1] if known else ()), *change.granting)
    directories = {voter.id: voter.directory for voter in voters if voter.directory not in ABSENT_DIRECTORY_IDS}
    granting = voter_ids(change.granting)
    for disk in disks:
        directory = directories.get(disk.node_id or 0)
        if disk.quorum_state and disk.node_id in granting and directory in (None, disk.directory_id):
            yield disk, disk.quorum_state, directory is not None


def _granted_vote_fault(
    voter: ReplicaDisk, state: QuorumState, epoch: int, leader: int, log_end: tuple[int, int] | None
) -> str:
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


def compare_logs_of_disks(disks: list[ReplicaDisk], report: CheckReport) -> None:
    """Compare logs where they overlap, and judge their first difference as Raft does.

    An uncommitted end may differ. The logs then share no epoch behind their first difference: a batch of an epoch
    stands behind the log of that epoch's leader.
    """
    forks: dict[int, list[tuple[ReplicaDisk, ReplicaDisk]]] = defaultdict(list)
    for pair in combinations(disks, 2):
        count, offset = _compared_count_and_first_difference(*pair)
        report.checks["log matching"] += count
        if offset is not None:
            forks[offset].append(pair)
    for offset, pairs in forks.items():
        rest = {id(disk): _batch_epochs_from(disk, offset) for pair in pairs for disk in pair}
        shared = [epoch for one, other in pairs for epoch in rest[id(one)] & rest[id(other)]]
        _report_first_difference(
            list({id(disk): disk for pair in pairs for disk in pair}.values()), offset, shared, report
        )


def _batch_epochs_from(disk: ReplicaDisk, offset: int) -> set[int]:
    batches = disk.log.batches
    return set(np.unique(batches["epoch"][batches["base"] >= offset]).tolist())


def _report_first_difference(disks: list[ReplicaDisk], offset: int, shared: list[int], report: CheckReport) -> None:
    """Report the first difference between some logs, at the batch that the fewest have."""
    sides: dict[str, list[tuple[ReplicaDisk, np.void | None]]] = defaultdict(list)
    for disk in disks:
        rows = disk.log.batches[disk.log.batches["base"] == offset]
        row = rows[0] if len(rows) else None
        text = (
            "no batch there"
            if row is None
            else f"epoch {row['epoch']}, CRC {row['crc']:08x}, of {utc_time_text(row['time'])}"
        )
        sides[text].append((disk, row))
    parts = [f"{_disk_names_with_verb([disk for disk, _ in side])} {text}" for text, side in sides.items()]
    holders = (side for side in sides.values() if side[0][1] is not None)
    holder, row = min(holders, key=len)[0]
    assert row is not None
    message = f"logs differ from offset {offset} on: {'; '.join(parts)}; {_voters_at_offset_text(holder, offset)}; "
    if shared:
        message += f"both sides have epoch {min(shared)} from there on"
    else:
        message += "no epoch is on both sides from there on: the end of one may be uncommitted"
    nodes = tuple(sorted((node_number_or_path(disk) for disk in disks), key=str))
    report.add(CheckFinding("log matching", message, *place_of_batch(holder, row), nodes), is_note=not shared)


def _disk_names_with_verb(disks: list[ReplicaDisk]) -> str:
    names = [disk.name for disk in disks]
    return f"{names[0]} has" if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]} have"


def _compared_count_and_first_difference(one: ReplicaDisk, other: ReplicaDisk) -> tuple[int, int | None]:
    """Return the number of batches that were compared, and the first offset where two logs differ."""
    start, end = max(one.start, other.start), min(one.end, other.end)
    mine, theirs = _batches_between(one.log.batches, start, end), _batches_between(other.log.batches, start, end)
    bases = mine["base"]
    missing = np.empty(0, np.int64)
    if not np.array_equal(bases, theirs["base"]):
        missing = np.setxor1d(bases, theirs["base"])
        bases, here, there = np.intersect1d(bases, theirs["base"], return_indices=True)
        mine, theirs = mine[here], theirs[there]
    same = np.logical_and.reduce([mine[key] == theirs[key] for key in ("last", "epoch", "crc")])
    differing = np.union1d(bases[~same], missing)
    return len(bases), int(differing[0]) if len(differing) else None


def _batches_between(batches: np.ndarray, start: int, end: int) -> np.ndarray:
    """Return the batches that begin in a range of offsets."""
    bases = batches["base"]
    if np.all(bases[1:] > bases[:-1]):
        return batches[np.searchsorted(bases, start) : np.searchsorted(bases, end)]
    return batches[(bases >= start) & (bases < end)]


def _voters_at_offset_text(disk: ReplicaDisk, offset: int) -> str:
    known = disk_voters_at_offset(disk, offset)
    if known:
        return f"voters {voter_ids(known[1])} since offset {known[0]}"
    elections = [one for one in elections_in_log(disk) if one[0].base <= offset]
    if elections:
        control, body = elections[-1]
        return f"voters {voter_ids(body.voters)} by the LeaderChange of epoch {control.epoch}"
    return "voters unknown"


def compare_log_with_peer_snapshot(
    disk: ReplicaDisk, other: ReplicaDisk, snapshot: MetadataSnapshot, report: CheckReport
) -> None:
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
    file, where = place_of_batch(disk, row)
    message = f"epoch {row['epoch']} at offset {snapshot.offset - 1} of {disk.name}, of {utc_time_text(row['time'])}; "
    message += f"{other.name} holds that offset committed with epoch {snapshot.epoch}; "
    message += _voters_at_offset_text(other, snapshot.offset - 1)
    nodes = node_number_or_path(disk), node_number_or_path(other)
    report.add(CheckFinding("committed", message, file, where, nodes), is_note=not is_breach)

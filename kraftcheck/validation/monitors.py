"""Checks of disks and of the events of logs that need no replay.

For disks: CRCs, epochs, quorum-state and snapshots of each, and comparisons of all. For logs INFO, as Kafka ships, is
enough.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations, permutations
from operator import itemgetter
from typing import Any

import numpy as np

from kraftcheck.spec.errors import InputError
from kraftcheck.validation.comparisons import (
    check_elections_of_disks,
    check_successive_voter_sets,
    compare_log_with_peer_snapshot,
    compare_logs_of_disks,
    compare_voter_sets_of_disks,
    is_single_voter_change,
)
from kraftcheck.validation.disks import MetadataSnapshot, ReplicaDisk
from kraftcheck.validation.events import Event, EventKind
from kraftcheck.validation.findings import (
    DISK_CHECK_MEANINGS,
    MOST_FINDINGS_A_CHECK,
    CheckFinding,
    CheckReport,
    NodeName,
    elections_in_log,
    node_number_or_path,
    place_of_batch,
    place_of_record,
    voter_ids,
)
from kraftcheck.validation.records import BatchScan, SnapshotFooter, SnapshotHeader


def check_disks(disks: list[ReplicaDisk]) -> CheckReport:
    """Check disks, each alone and all against each other."""
    report = CheckReport(Counter(dict.fromkeys(DISK_CHECK_MEANINGS, 0)))
    _check_cluster_and_disk_ids(disks, report)
    for disk in disks:
        _check_crcs_and_batch_sequence(disk, report)
        _check_epochs(disk, report)
        _check_quorum_state(disk, report)
        for snapshot in disk.snapshots:
            _check_snapshot(disk, snapshot, report)
        _check_snapshot_log_continuity(disk, report)
        check_successive_voter_sets(disk, report)
    check_elections_of_disks(disks, report)
    compare_voter_sets_of_disks(disks, report)
    compare_logs_of_disks(disks, report)
    for disk in disks:
        for other in disks:
            for snapshot in other.snapshots:
                compare_log_with_peer_snapshot(disk, other, snapshot, report)
    return report


def _check_cluster_and_disk_ids(disks: list[ReplicaDisk], report: CheckReport) -> None:
    clusters = {disk.cluster_id for disk in disks if disk.cluster_id}
    if len(clusters) > 1:
        raise InputError(f"disks: expected those of one cluster, found {', '.join(sorted(clusters))}; name one cluster")
    report.checks["identity"] += len(list(combinations(disks, 2)))
    for one, other in combinations(disks, 2):
        nodes = node_number_or_path(one), node_number_or_path(other)
        where = f"{other.path}, and {one.path}"
        if one.directory_id and one.directory_id == other.directory_id:
            message = f"{one.name} and {other.name} have the same directory.id {one.directory_id}"
            report.add(CheckFinding("identity", message, other.path, where, nodes))
        elif one.node_id is not None and one.node_id == other.node_id:
            message = f"{one.name} has two disks with different directory ids: two replicas"
            report.add(CheckFinding("identity", message, other.path, where, nodes), is_note=True)


def _log_and_snapshot_scans(disk: ReplicaDisk) -> Iterator[tuple[BatchScan, list[str], str]]:
    yield disk.log, disk.files, disk.files[-1] if disk.files else ""
    for snapshot in disk.snapshots:
        yield snapshot.scan, [snapshot.file], ""


def _check_crcs_and_batch_sequence(disk: ReplicaDisk, report: CheckReport) -> None:
    """Check CRCs, and that batches have neither gaps nor foreign bytes between them."""
    nodes = (node_number_or_path(disk),)
    for problem in disk.problems:
        report.add(CheckFinding("quorum-state", problem.message, problem.file, "", nodes))
    for scan, files, active in _log_and_snapshot_scans(disk):
        report.checks["crc"] += len(scan.batches)
        _report_scan_faults(scan, files, active, nodes, report)
        _report_offset_gaps(scan.batches, disk.starts[0] if active else 0, files, nodes, report)
    for number, start in enumerate(disk.starts):
        rows = disk.log.batches[disk.log.batches["file"] == number]
        if len(rows) and rows["base"][0] != start:
            message = f"the segment begins at offset {rows['base'][0]}, its name says {start}"
            report.add(CheckFinding("batches", message, disk.files[number], "byte 0", nodes))


def _report_scan_faults(
    scan: BatchScan, files: list[str], active: str, nodes: tuple[NodeName, ...], report: CheckReport
) -> None:
    """Report the faults of a scan; only the active segment may have an unfinished end."""
    for fault in scan.faults:
        file, check = files[fault.file], "crc" if fault.kind == "crc" else "batches"
        honest = fault.kind == "tail" and file == active
        message = f"{fault.message}; a killed process may leave that" if honest else fault.message
        report.add(CheckFinding(check, message, file, f"byte {fault.at}", nodes), is_note=honest)
    if hidden := scan.broken - sum(fault.kind == "crc" for fault in scan.faults):
        report.add(CheckFinding("crc", f"{hidden} more batches with a wrong CRC", files[0], "", nodes))


def _report_offset_gaps(
    batches: np.ndarray, start: int, files: list[str], nodes: tuple[NodeName, ...], report: CheckReport
) -> None:
    report.checks["batches"] += len(batches)
    expected = np.concatenate(([start], batches["last"][:-1] + 1))[: len(batches)]
    for place in np.flatnonzero(batches["base"] != expected)[:MOST_FINDINGS_A_CHECK]:
        row = batches[place]
        message = f"offset {row['base']} where {expected[place]} was expected"
        where = f"offset {row['base']}, byte {row['at']}"
        report.add(CheckFinding("batches", message, files[row["file"]], where, nodes))


def _check_epochs(disk: ReplicaDisk, report: CheckReport) -> None:
    """Check that epochs never fall, and that each begins with its leader's LeaderChange, which is nowhere else."""
    batches, node = disk.log.batches, node_number_or_path(disk)
    epochs = batches["epoch"]
    begins = np.flatnonzero(np.diff(epochs, prepend=epochs[:1] if disk.start else -1))
    report.checks["epochs"] += max(len(batches) - 1, 0) + len(begins)
    for place in np.flatnonzero(epochs[1:] < epochs[:-1])[:MOST_FINDINGS_A_CHECK] + 1:
        file, where = place_of_batch(disk, batches[place])
        message = f"epoch {epochs[place]} behind epoch {epochs[place - 1]}"
        report.add(CheckFinding("epochs", message, file, where, (node,)))
    changes = {control.base: (control, body) for control, body in elections_in_log(disk)}
    broken = {(fault.file, fault.at) for fault in disk.log.faults}
    for row in batches[begins]:
        found = changes.pop(int(row["base"]), None)
        if (found is None or found[0].offset != row["base"]) and (row["file"], row["at"]) not in broken:
            file, where = place_of_batch(disk, row)
            message = f"epoch {row['epoch']} begins without the LeaderChange of its leader"
            report.add(CheckFinding("epochs", message, file, where, (node,)))
    changes.pop(disk.start, None)
    for control, body in changes.values():
        message = f"a LeaderChange of node {body.leader} in the middle of epoch {control.epoch}"
        report.add(CheckFinding("epochs", message, *place_of_record(disk, control), (node,)))


def _check_quorum_state(disk: ReplicaDisk, report: CheckReport) -> None:
    """Check that quorum-state is not behind the log: Kafka stores an epoch before it appends a batch of it."""
    last, state = disk.last_epoch, disk.quorum_state
    if not len(disk.log.batches) or disk.is_alone:
        return
    report.checks["quorum-state"] += 1
    file = f"{disk.path}/quorum-state"
    if state is None:
        if not any(problem.file == file for problem in disk.problems):
            message = f"missing, but the log has batches of epoch {last}; a vote of an epoch may be given twice"
            report.add(CheckFinding("quorum-state", message, file, "", (node_number_or_path(disk),)))
    elif state.epoch < last:
        message = f"epoch {state.epoch} is below epoch {last} of the log's last batch"
        report.add(CheckFinding("quorum-state", message, file, "", (node_number_or_path(disk),)))


def _check_snapshot(disk: ReplicaDisk, snapshot: MetadataSnapshot, report: CheckReport) -> None:
    """Check one snapshot: complete, with voters, and with an id of the log."""
    report.checks["snapshots"] += 1
    for fault in (*_snapshot_content_faults(disk, snapshot), *_snapshot_id_faults(disk, snapshot)):
        where = f"snapshot {snapshot.offset}, epoch {snapshot.epoch}"
        report.add(CheckFinding("snapshots", fault, snapshot.file, where, (node_number_or_path(disk),)))


def _snapshot_content_faults(disk: ReplicaDisk, snapshot: MetadataSnapshot) -> Iterator[str]:
    bodies = [control.body for control in snapshot.scan.controls]
    if not isinstance(next(iter(bodies), None), SnapshotHeader):
        yield "does not begin with a SnapshotHeader"
    if not isinstance(next(reversed(bodies), None), SnapshotFooter):
        yield "does not end with a SnapshotFooter"
    known = _kraft_version_before(disk, snapshot.offset)
    version = snapshot.version or known
    if version and snapshot.voters is None and snapshot.offset:
        yield f"has no voters, though kraft.version is {version}"
    if known and snapshot.version is None:
        yield f"has no kraft.version, though it is {version}"


def _kraft_version_before(disk: ReplicaDisk, offset: int) -> int:
    return max((one[:2] for one in disk.versions if one[0] < offset), default=(0, 0))[1]


def _snapshot_id_faults(disk: ReplicaDisk, snapshot: MetadataSnapshot) -> Iterator[str]:
    row = disk.batch_at(snapshot.offset - 1)
    if row is None:
        return
    if row["epoch"] != snapshot.epoch:
        yield f"has epoch {snapshot.epoch}, the log has epoch {row['epoch']} at offset {snapshot.offset - 1}"
    if row["last"] != snapshot.offset - 1:
        yield f"ends within the batch at offset {row['base']}"


def _check_snapshot_log_continuity(disk: ReplicaDisk, report: CheckReport) -> None:
    """Check that snapshots and log leave no hole: Kafka refuses to start with one."""
    node = node_number_or_path(disk)
    if disk.start > 0 and disk.files and not disk.is_alone:
        report.checks["snapshots"] += 1
        if all(snapshot.offset < disk.start for snapshot in disk.snapshots):
            message = f"the log begins at offset {disk.start}, but there is no snapshot of that offset or a later one"
            report.add(CheckFinding("snapshots", message, disk.files[0], f"offset {disk.start}", (node,)))
    for snapshot in disk.snapshots:
        if snapshot.offset > disk.end:
            latest = snapshot is disk.snapshots[-1]
            message = f"a snapshot of offset {snapshot.offset}, but the log ends at {disk.end}"
            message += "; a follower that is killed after a download may leave that" if latest else ""
            where = f"snapshot {snapshot.offset}, epoch {snapshot.epoch}"
            report.add(CheckFinding("snapshots", message, snapshot.file, where, (node,)), is_note=latest)


LOG_CHECK_MEANINGS = {
    "leaders": "one leader an epoch",
    "votes": "one vote an epoch, and a majority for each leader",
    "epochs grow": "no node goes back to an earlier epoch",
    "observers": "only voters stand for election",
    "leaders' logs": "no leader begins below a high watermark of an earlier epoch",
    "truncations": "truncations of an epoch go back further each, and none below a high watermark",
    "restarts": "a restart keeps quorum-state: epoch, leader and vote",
    "voter sets by offset": "voter sets agree by offset, and change by one voter",
}
"""The checks of logs, with their meaning."""

_DURABLE_MODES = ("Unattached", "Follower", "Candidate", "Leader")
_VOTER_ONLY_MODES = ("Prospective", "Candidate", "Leader")
_REPORTED_OFFSET_MARK = 1 << 62
"""In place of the offset of a truncation: further ones of the epoch are not compared."""
_PlacedVoterSet = tuple[int, tuple[Any, ...], Event]


@dataclass(frozen=True)
class _StoredQuorumState:
    """The content of quorum-state."""

    epoch: int
    leader: int | None
    voted: int | None


@dataclass
class _MonitoredNode:
    """The state of one node's log."""

    state: dict[str, Any] | None = None
    stored: dict[EventKind, _StoredQuorumState] = field(default_factory=dict)
    """The last content of quorum-state by a completed transition, and the last by one that began."""
    kept: list[_StoredQuorumState] = field(default_factory=list)
    """The contents that the last process may have left."""
    voters: list[_PlacedVoterSet] = field(default_factory=list)
    """Voter sets by offset that this process has read, and that its log still has."""
    ever: list[_PlacedVoterSet] = field(default_factory=list)
    """Likewise of all processes."""
    snapshots: tuple[tuple[int, int], ...] = ()
    """The snapshots that the process finds: offset and epoch."""
    high: int = 0
    truncated: dict[int, tuple[int, Event]] = field(default_factory=dict)
    """The last truncation, by its epoch."""
    votes: dict[int, tuple[int, Event]] = field(default_factory=dict)


def check_events(events: Iterable[Event]) -> CheckReport:
    """Check the events of all nodes; those of one node are in the order of its log."""
    monitor = _EventMonitor()
    for event in events:
        monitor.add(event)
    monitor.finish()
    return monitor.report


class _EventMonitor:
    """Reads each event once."""

    def __init__(self) -> None:
        self.report = CheckReport(Counter(dict.fromkeys(LOG_CHECK_MEANINGS, 0)))
        self._nodes: dict[int, _MonitoredNode] = {}
        self._leaders: dict[int, tuple[int, Event]] = {}
        self._starts: dict[int, tuple[int, Event]] = {}
        self._highs: dict[int, tuple[int, Event]] = {}
        """The highest high watermark by epoch."""
        self._readers: dict[EventKind, Callable[[_MonitoredNode, Event], None]] = {
            EventKind.DISK: self._disk,
            EventKind.BOOT: self._boot,
            EventKind.ATTEMPT: self._transition,
            EventKind.TRANSITION: self._transition,
            EventKind.VOTERS: self._voters,
            EventKind.TRUNCATED: self._truncated,
            EventKind.REPLACED: self._replaced,
            EventKind.FIRST_HIGH_WATERMARK: self._high_watermark,
            EventKind.LEADER_HIGH_WATERMARK: self._high_watermark,
            EventKind.FOLLOWER_HIGH_WATERMARK: self._high_watermark,
        }

    def add(self, event: Event) -> None:
        """Read an event."""
        read = self._readers.get(event.kind)
        if read:
            read(self._nodes.setdefault(event.node, _MonitoredNode()), event)

    def _disk(self, node: _MonitoredNode, event: Event) -> None:
        node.snapshots = event.body

    def _boot(self, node: _MonitoredNode, event: Event) -> None:
        kept = [node.stored[kind] for kind in (EventKind.TRANSITION, EventKind.ATTEMPT) if kind in node.stored]
        node.kept = kept if EventKind.TRANSITION in node.stored else kept + node.kept  # it ended while it started
        node.state, node.stored, node.voters = None, {}, []

    def _truncated(self, node: _MonitoredNode, event: Event) -> None:
        """A truncation takes the follower to a prefix of its leader's log, so a further one goes back further."""
        offset, epoch = event.body, node.state["epoch"] if node.state else -1
        before = node.truncated.get(epoch)
        self.report.checks["truncations"] += 1
        if before is None or offset < before[0] < _REPORTED_OFFSET_MARK:
            node.truncated = {epoch: (offset, event)}
        elif before[0] < _REPORTED_OFFSET_MARK:
            self._found("truncations", f"truncated to offset {offset} again in epoch {epoch}", event, before[1])
            node.truncated = {epoch: (_REPORTED_OFFSET_MARK, event)}
        if offset < node.high:
            message = f"truncated to offset {offset}, below its own high watermark {node.high}"
            self._found("truncations", message, event)
        self._forget(node, offset)

    def _replaced(self, node: _MonitoredNode, event: Event) -> None:
        self._forget(node, -2)

    def _forget(self, node: _MonitoredNode, end: int) -> None:
        node.voters, node.ever = ([one for one in sets if one[0] < end] for sets in (node.voters, node.ever))

    def _high_watermark(self, node: _MonitoredNode, event: Event) -> None:
        if node.state:
            self._high(node, event, node.state["epoch"], event.body)

    def _found(self, check: str, message: str, event: Event, *others: Event, is_note: bool = False) -> None:
        nodes = tuple(dict.fromkeys(one.node for one in (*others, event)))
        message += "".join(f"; see {other.place}" for other in others)
        self.report.add(CheckFinding(check, message, event.file, f"line {event.line}", nodes), is_note=is_note)

    # Transitions

    def _transition(self, node: _MonitoredNode, event: Event) -> None:
        state, before = event.body
        stored = _quorum_state_of_transition(event.node, state)
        if state["mode"] in _DURABLE_MODES:
            node.stored[event.kind] = stored
        if event.kind is EventKind.ATTEMPT:
            return
        if before is None and node.state is None:
            self._restart(node, event, stored)
        elif node.state is not None:
            self.report.checks["epochs grow"] += 1
            if stored.epoch < node.state["epoch"]:
                self._found("epochs grow", f"epoch {stored.epoch} behind epoch {node.state['epoch']}", event)
        node.state = state
        for one in (before, state):
            if one and one.get("high"):
                self._high(node, event, one["epoch"], one["high"])
        self._elects(node, event, state, before, stored)

    def _restart(self, node: _MonitoredNode, event: Event, now: _StoredQuorumState) -> None:
        """Compare the first state of a process with the last that an earlier one stored."""
        if not node.kept:
            return
        self.report.checks["restarts"] += 1
        last = node.kept[0]
        if now.epoch == 0 < last.epoch and not any(epoch for _, epoch in node.snapshots):
            message = f"node {event.node} restarts without its disk: it was in epoch {last.epoch}"
            self._found("restarts", message, event, is_note=True)
            node.votes = {}
        elif not any(_may_restart_with_quorum_state(one, now) for one in node.kept):
            message = (
                f"node {event.node} restarts in {_stored_state_text(now)}, but had stored {_stored_state_text(last)}"
            )
            self._found("restarts", message, event)

    def _elects(
        self,
        node: _MonitoredNode,
        event: Event,
        state: dict[str, Any],
        before: dict[str, Any] | None,
        stored: _StoredQuorumState,
    ) -> None:
        """Check the leader and the votes of a state."""
        if stored.leader is not None:
            self._leads(event, stored.epoch, stored.leader)
        if stored.voted is not None:
            self._votes(event, event.node, stored.epoch, stored.voted)
        if state["mode"] in _VOTER_ONLY_MODES:
            self._stands(node, event, state)
        if state["mode"] == "Leader":
            self._begins(event, state, before)

    def _leads(self, event: Event, epoch: int, leader: int) -> None:
        known, first = self._leaders.setdefault(epoch, (leader, event))
        self.report.checks["leaders"] += first is not event
        if known != leader:
            self._found("leaders", f"epoch {epoch} has leaders {known} and {leader}", event, first)

    def _votes(self, event: Event, voter: int, epoch: int, candidate: int) -> None:
        known, first = self._nodes.setdefault(voter, _MonitoredNode()).votes.setdefault(epoch, (candidate, event))
        self.report.checks["votes"] += first is not event
        if known != candidate:
            message = f"node {voter} votes in epoch {epoch} for node {known} and node {candidate}"
            self._found("votes", message, event, first)

    def _stands(self, node: _MonitoredNode, event: Event, state: dict[str, Any]) -> None:
        self.report.checks["observers"] += 1
        sets = [state["leader voters" if state["mode"] == "Leader" else "candidates"]]
        sets += [frozenset(voter[0] for voter in node.voters[-1][1])] if node.voters else []
        for voters in sets:
            if event.node not in voters:
                message = f"node {event.node} is {state['mode']} in epoch {state['epoch']}; voters are {sorted(voters)}"
                self._found("observers", message, event)

    def _begins(self, event: Event, state: dict[str, Any], before: dict[str, Any] | None) -> None:
        epoch = state["epoch"]
        self._starts.setdefault(epoch, (state["start"], event))
        if before and before["mode"] == "Candidate":
            granted, voters = before["granted"], before["candidates"]
            self.report.checks["votes"] += 1
            if 2 * len(granted) <= len(voters):
                message = f"node {event.node} leads epoch {epoch} with votes {sorted(granted)} of {sorted(voters)}"
                self._found("votes", message, event)
            for voter in granted:
                self._votes(event, voter, epoch, event.node)

    def _high(self, node: _MonitoredNode, event: Event, epoch: int, high: int) -> None:
        node.high = max(node.high, high)
        if high > self._highs.get(epoch, (0,))[0]:
            self._highs[epoch] = high, event

    # Voter sets

    def _voters(self, node: _MonitoredNode, event: Event) -> None:
        voters, offset = event.body
        node.voters = [one for one in node.voters if one[0] < offset]
        if node.voters:
            self.report.checks["voter sets by offset"] += 1
            before = node.voters[-1][1]
            if not is_single_voter_change(before, voters):
                message = f"voters {voter_ids(before)} become {voter_ids(voters)} in one step at offset {offset}"
                self._found("voter sets by offset", message, event)
        node.voters.append((offset, voters, event))
        known = {at: (read, other) for at, read, other in node.ever}
        if offset in known and set(known[offset][0]) != set(voters):
            message = f"voters {voter_ids(known[offset][0])} at offset {offset} become {voter_ids(voters)}"
            self._found("voter sets by offset", message, event, known[offset][1])
        known[offset] = voters, event
        node.ever = sorted(((at, *read) for at, read in known.items()), key=itemgetter(0))

    def finish(self) -> None:
        """Compare what needs the events of all nodes."""
        for epoch, (start, event) in self._starts.items():
            earlier = [one for number, one in self._highs.items() if number < epoch]
            if earlier:
                self.report.checks["leaders' logs"] += 1
                high, seen = max(earlier, key=itemgetter(0))
                if high > start:
                    message = f"node {event.node} begins to lead epoch {epoch} at offset {start}, below offset {high}"
                    self._found("leaders' logs", f"{message}, which was committed before", event, seen)
        for node, other in permutations(self._nodes.values(), 2):
            for one in other.ever:
                self._compare(node, other, *one)

    def _compare(
        self, node: _MonitoredNode, other: _MonitoredNode, offset: int, voters: tuple[Any, ...], event: Event
    ) -> None:
        """Compare a voter set with the one that another node has at its offset, if that node has read so far."""
        place = bisect_right(node.ever, offset, key=itemgetter(0)) - 1
        if place < 0 or offset > max(node.ever[-1][0], node.high - 1):
            return
        self.report.checks["voter sets by offset"] += 1
        at, known, first = node.ever[place]
        if set(known) != set(voters):
            committed = all(offset < max(one.high, one.ever[-1][0]) for one in (node, other))
            message = f"voters {voter_ids(voters)} at offset {offset}, "
            message += f"but node {first.node} has {voter_ids(known)} since {at}"
            message += "" if committed else "; one of the sets may be uncommitted"
            self._found("voter sets by offset", message, event, first, is_note=not committed)


def _quorum_state_of_transition(node: int, state: dict[str, Any]) -> _StoredQuorumState:
    """Return the content of quorum-state in a state."""
    mode, voted = state["mode"], state.get("voted")
    if mode == "Candidate":
        return _StoredQuorumState(state["epoch"], None, node)
    if mode in ("Leader", "Resigned"):
        return _StoredQuorumState(state["epoch"], node, None)
    return _StoredQuorumState(state["epoch"], state.get("leader"), voted[0] if voted else None)


def _may_restart_with_quorum_state(stored: _StoredQuorumState, now: _StoredQuorumState) -> bool:
    """Whether a process that reads a quorum-state can begin so; the log may be ahead of a line that was lost."""
    if now.epoch != stored.epoch:
        return now.epoch > stored.epoch
    is_vote_kept = stored.voted in (None, now.voted) or (stored.leader is not None and now.voted is None)
    return is_vote_kept and stored.leader in (None, now.leader)


def _stored_state_text(stored: _StoredQuorumState) -> str:
    leader = "no leader" if stored.leader is None else f"leader {stored.leader}"
    return f"epoch {stored.epoch} with {leader} and {'no vote' if stored.voted is None else f'vote {stored.voted}'}"

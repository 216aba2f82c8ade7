"""Findings and reports of checks, the terms in which they speak of disks, and disks as text and as values for JSON."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

import numpy as np

from kraftcheck.validation.disks import ReplicaDisk
from kraftcheck.validation.records import ControlRecord, LeaderChange, Voter

DISK_CHECK_MEANINGS = {
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
MOST_FINDINGS_A_CHECK = 20
"""Maximum number of findings of one check of the same nodes."""
MOST_FINDINGS_IN_ALL = 500

NodeName = int | str
PlacedVoterSet = tuple[int, tuple[Voter, ...], str]
"""The offset from which voters are in force, the voters, and the file with the record."""


@dataclass(frozen=True)
class CheckFinding:
    """A breach of a check, or a note on something that Kafka may leave behind."""

    check: str
    message: str
    file: str
    where: str
    nodes: tuple[NodeName, ...]


@dataclass
class CheckReport:
    """Numbers of comparisons by check, breaches, and notes on honest remains of a kill or a lost election."""

    checks: Counter[str] = field(default_factory=Counter)
    findings: list[CheckFinding] = field(default_factory=list)
    notes: list[CheckFinding] = field(default_factory=list)

    @property
    def total(self) -> int:
        """Number of comparisons."""
        return self.checks.total()

    def include(self, other: CheckReport) -> None:
        """Add the checks, findings and notes of another report."""
        self.checks.update(other.checks)
        self.findings += other.findings
        self.notes += other.notes

    def add(self, finding: CheckFinding, *, is_note: bool = False) -> None:
        """Keep a finding once; limit those of one check of the same nodes."""
        kept = self.notes if is_note else self.findings
        same = sum(one.check == finding.check and one.nodes == finding.nodes for one in kept)
        if finding not in kept and same < MOST_FINDINGS_A_CHECK and len(kept) < MOST_FINDINGS_IN_ALL:
            kept.append(finding)


def utc_time_text(milliseconds: int) -> str:
    """Return a time of Kafka in UTC."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(" ", "milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return f"{milliseconds} ms"


def node_number_or_path(disk: ReplicaDisk) -> NodeName:
    """Return the node's number, or its path."""
    return disk.path if disk.node_id is None else disk.node_id


def voter_ids(voters: Iterable[tuple[Any, ...]]) -> list[int]:
    """Return the numbers of voters, which are their first fields."""
    return sorted(voter[0] for voter in voters)


def disk_voters_at_offset(disk: ReplicaDisk, offset: int) -> tuple[int, tuple[Voter, ...]] | None:
    """Return the voter set in force at an offset, and from which offset; None if the disk has none."""
    return voter_set_in_force(disk.voters, offset)


def voter_set_in_force(sets: list[PlacedVoterSet], offset: int) -> tuple[int, tuple[Voter, ...]] | None:
    """Return the last of some voter sets up to an offset, and its own offset."""
    place = bisect_right(sets, offset, key=itemgetter(0)) - 1
    return sets[place][:2] if place >= 0 else None


def place_of_batch(disk: ReplicaDisk, row: np.void) -> tuple[str, str]:
    """Return the file and the place of a batch."""
    return disk.files[row["file"]], f"offset {row['base']}, byte {row['at']}"


def elections_in_log(disk: ReplicaDisk) -> list[tuple[ControlRecord, LeaderChange]]:
    """Return the elections in a log, in order."""
    return [(control, control.body) for control in disk.log.controls if isinstance(control.body, LeaderChange)]


def place_of_record(disk: ReplicaDisk, control: ControlRecord) -> tuple[str, str]:
    """Return the file and the place of a record."""
    return disk.files[control.file], f"offset {control.offset}, byte {control.at}"


MOST_SHOWN_EPOCHS = 30
"""Maximum number of epochs of a disk in the text; the JSON has all."""


def disks_as_json(disks: list[ReplicaDisk], report: CheckReport) -> dict[str, Any]:
    """Return disks and report as plain values."""
    return {
        "cluster": next((disk.cluster_id for disk in disks if disk.cluster_id), ""),
        "disks": [_disk_as_json(disk) for disk in disks],
        "checks": dict(report.checks),
        "findings": [asdict(finding) for finding in report.findings],
        "notes": [asdict(note) for note in report.notes],
    }


def _disk_as_json(disk: ReplicaDisk) -> dict[str, Any]:
    return {
        "node": disk.node_id,
        "directory": disk.directory_id,
        "path": disk.path,
        "quorum_state": asdict(disk.quorum_state) if disk.quorum_state else None,
        "start": disk.start,
        "end": disk.end,
        "batches": len(disk.log.batches),
        "last_time": _last_batch_time_text(disk),
        "epochs": _epochs_as_json(disk),
        "versions": [{"offset": offset, "version": version} for offset, version, _ in disk.versions],
        "voters": [
            {"offset": offset, "voters": [voter._asdict() for voter in voters]} for offset, voters, _ in disk.voters
        ],
        "snapshots": [{"offset": one.offset, "epoch": one.epoch, "file": one.file} for one in disk.snapshots],
    }


def _epochs_as_json(disk: ReplicaDisk) -> list[dict[str, Any]]:
    """Return the epochs of a log with their first offsets, leaders and votes."""
    batches = disk.log.batches
    elections = {one.base: one.body for one in disk.log.controls if isinstance(one.body, LeaderChange)}
    found = []
    for row in batches[np.flatnonzero(np.diff(batches["epoch"], prepend=-1))]:
        body = elections.get(int(row["base"]))
        found.append(
            {
                "epoch": int(row["epoch"]),
                "start": int(row["base"]),
                "leader": body.leader if body else None,
                "votes": voter_ids(body.granting) if body else None,
                "voters": voter_ids(body.voters) if body else None,
                "time": utc_time_text(int(row["time"])),
            }
        )
    return found


def render_disk_report(disks: list[ReplicaDisk], report: CheckReport) -> str:
    """Return disks and report as text."""
    cluster = next((disk.cluster_id for disk in disks if disk.cluster_id), "")
    count = f"{len(disks)} disk{'' if len(disks) == 1 else 's'}"
    lines = [f"{count} of cluster {cluster}" if cluster else count]
    for disk in disks:
        lines += ["", *_disk_lines(disk)]
    lines += ["", *check_report_lines(report)]
    return "\n".join(lines) + "\n"


def _disk_lines(disk: ReplicaDisk) -> Iterator[str]:
    yield f"{disk.name}{f', directory {disk.directory_id}' if disk.directory_id else ''}: {disk.path}"
    yield f"  quorum-state   {_quorum_state_text(disk)}"
    count, until = len(disk.log.batches), disk.end - 1
    batches = f"offsets {disk.start} to {until}, {count:,} batches, last {_last_batch_time_text(disk)}"
    yield f"  log            {batches if count else f'empty, from offset {disk.end}'}"
    if disk.versions:
        yield f"  kraft.version  {', '.join(f'{version} since offset {at}' for at, version, _ in disk.versions)}"
    if disk.snapshots:
        yield f"  snapshots      {_shortened_list_text([f'{one.offset}-{one.epoch}' for one in disk.snapshots])}"
    yield from _epoch_table_lines(_epochs_as_json(disk))
    if disk.voters:
        yield from _table_lines(
            [("from", "voters"), *((str(at), _value_text(voter_ids(voters))) for at, voters, _ in disk.voters)]
        )


def _epoch_table_lines(epochs: list[dict[str, Any]]) -> Iterator[str]:
    columns = ("epoch", "start", "leader", "votes", "voters", "time")
    rows: list[tuple[str, ...]] = [("epoch", "from", "leader", "votes", "of voters", "began")]
    rows += [tuple(_value_text(one[column]) for column in columns) for one in epochs[-MOST_SHOWN_EPOCHS:]]
    if epochs:
        yield from _table_lines(rows)
    if len(epochs) > MOST_SHOWN_EPOCHS:
        yield f"    and {len(epochs) - MOST_SHOWN_EPOCHS} earlier epochs"


def _quorum_state_text(disk: ReplicaDisk) -> str:
    state = disk.quorum_state
    if state is None:
        return "missing"
    voted = f", voted for {state.voted}" if state.voted >= 0 else ""
    return f"epoch {state.epoch}, {f'leader {state.leader}' if state.leader >= 0 else 'no leader'}{voted}"


def _last_batch_time_text(disk: ReplicaDisk) -> str | None:
    return utc_time_text(int(disk.log.batches["time"][-1])) if len(disk.log.batches) else None


def _shortened_list_text(texts: list[str], most: int = 12) -> str:
    return ", ".join(texts) if len(texts) <= most else f"{len(texts)}: {texts[0]}, ..., {', '.join(texts[2 - most :])}"


def _value_text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "-" if value is None else str(value)


def _table_lines(rows: list[tuple[str, ...]]) -> Iterator[str]:
    """Yield the lines of a table; the first columns are numbers."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.rjust(width) if (place < 3 and len(row) > 2) or not place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "    " + "  ".join(cells).rstrip()


def check_report_lines(report: CheckReport) -> Iterator[str]:
    """Yield the lines with findings, notes and the number of checks."""
    for finding in report.findings:
        yield from _finding_lines("BROKEN", finding)
    for note in report.notes:
        yield from _finding_lines("Note", note)
    made = ", ".join(f"{name} {count:,}" for name, count in report.checks.items() if count)
    verdict = f"{len(report.findings)} broken" if report.findings else "nothing broken"
    yield f"{verdict}, {report.total:,} checks" + (f": {made}" if made else "")
    if idle := [name for name, count in report.checks.items() if not count]:
        yield f"nothing to compare for: {', '.join(idle)}"


def _finding_lines(word: str, finding: CheckFinding) -> Iterator[str]:
    yield f"{word}: {finding.check}: {finding.message}"
    if finding.file:
        yield f"  {finding.file}{f', {finding.where}' if finding.where else ''}"

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

from kraftcheck.validation.disks import Disk
from kraftcheck.validation.records import Control, LeaderChange, Voter

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


def in_utc(milliseconds: int) -> str:
    """Return a time of Kafka in UTC."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(" ", "milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return f"{milliseconds} ms"


def node_of(disk: Disk) -> Node:
    """Return the node's number, or its path."""
    return disk.path if disk.node_id is None else disk.node_id


def ids_of(voters: Iterable[Voter]) -> list[int]:
    """Return the numbers of voters."""
    return sorted(voter.id for voter in voters)


def voters_at(disk: Disk, offset: int) -> tuple[int, tuple[Voter, ...]] | None:
    """Return the voter set in force at an offset, and from which offset; None if the disk has none."""
    return in_force(disk.voters, offset)


def in_force(sets: list[VoterSet], offset: int) -> tuple[int, tuple[Voter, ...]] | None:
    """Return the last of some voter sets up to an offset, and its own offset."""
    place = bisect_right(sets, offset, key=itemgetter(0)) - 1
    return sets[place][:2] if place >= 0 else None


def place_of(disk: Disk, row: np.void) -> tuple[str, str]:
    """Return the file and the place of a batch."""
    return disk.files[row["file"]], f"offset {row['base']}, byte {row['at']}"


def elections_in(disk: Disk) -> list[tuple[Control, LeaderChange]]:
    """Return the elections in a log, in order."""
    return [(control, control.body) for control in disk.log.controls if isinstance(control.body, LeaderChange)]


def record_at(disk: Disk, control: Control) -> tuple[str, str]:
    """Return the file and the place of a record."""
    return disk.files[control.file], f"offset {control.offset}, byte {control.at}"


MOST_EPOCHS = 30
"""Maximum number of epochs of a disk in the text; the JSON has all."""


def describe(disks: list[Disk], report: Report) -> dict[str, Any]:
    """Return disks and report as plain values."""
    return {
        "cluster": next((disk.cluster_id for disk in disks if disk.cluster_id), ""),
        "disks": [_disk(disk) for disk in disks],
        "checks": dict(report.checks),
        "findings": [asdict(finding) for finding in report.findings],
        "notes": [asdict(note) for note in report.notes],
    }


def _disk(disk: Disk) -> dict[str, Any]:
    return {
        "node": disk.node_id,
        "directory": disk.directory_id,
        "path": disk.path,
        "quorum_state": asdict(disk.quorum_state) if disk.quorum_state else None,
        "start": disk.start,
        "end": disk.end,
        "batches": len(disk.log.batches),
        "last_time": _last_time(disk),
        "epochs": _epochs(disk),
        "versions": [{"offset": offset, "version": version} for offset, version, _ in disk.versions],
        "voters": [
            {"offset": offset, "voters": [voter._asdict() for voter in voters]} for offset, voters, _ in disk.voters
        ],
        "snapshots": [{"offset": one.offset, "epoch": one.epoch, "file": one.file} for one in disk.snapshots],
    }


def _epochs(disk: Disk) -> list[dict[str, Any]]:
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
                "votes": ids_of(body.granting) if body else None,
                "voters": ids_of(body.voters) if body else None,
                "time": in_utc(int(row["time"])),
            }
        )
    return found


def render(disks: list[Disk], report: Report) -> str:
    """Return disks and report as text."""
    cluster = next((disk.cluster_id for disk in disks if disk.cluster_id), "")
    count = f"{len(disks)} disk{'' if len(disks) == 1 else 's'}"
    lines = [f"{count} of cluster {cluster}" if cluster else count]
    for disk in disks:
        lines += ["", *_rendered(disk)]
    lines += ["", *summary(report)]
    return "\n".join(lines) + "\n"


def _rendered(disk: Disk) -> Iterator[str]:
    yield f"{disk.name}{f', directory {disk.directory_id}' if disk.directory_id else ''}: {disk.path}"
    yield f"  quorum-state   {_quorum_state(disk)}"
    count, until = len(disk.log.batches), disk.end - 1
    batches = f"offsets {disk.start} to {until}, {count:,} batches, last {_last_time(disk)}"
    yield f"  log            {batches if count else f'empty, from offset {disk.end}'}"
    if disk.versions:
        yield f"  kraft.version  {', '.join(f'{version} since offset {at}' for at, version, _ in disk.versions)}"
    if disk.snapshots:
        yield f"  snapshots      {_listed([f'{one.offset}-{one.epoch}' for one in disk.snapshots])}"
    yield from _epoch_table(_epochs(disk))
    if disk.voters:
        yield from _table([("from", "voters"), *((str(at), _shown(ids_of(voters))) for at, voters, _ in disk.voters)])


def _epoch_table(epochs: list[dict[str, Any]]) -> Iterator[str]:
    columns = ("epoch", "start", "leader", "votes", "voters", "time")
    rows: list[tuple[str, ...]] = [("epoch", "from", "leader", "votes", "of voters", "began")]
    rows += [tuple(_shown(one[column]) for column in columns) for one in epochs[-MOST_EPOCHS:]]
    if epochs:
        yield from _table(rows)
    if len(epochs) > MOST_EPOCHS:
        yield f"    and {len(epochs) - MOST_EPOCHS} earlier epochs"


def _quorum_state(disk: Disk) -> str:
    state = disk.quorum_state
    if state is None:
        return "missing"
    voted = f", voted for {state.voted}" if state.voted >= 0 else ""
    return f"epoch {state.epoch}, {f'leader {state.leader}' if state.leader >= 0 else 'no leader'}{voted}"


def _last_time(disk: Disk) -> str | None:
    return in_utc(int(disk.log.batches["time"][-1])) if len(disk.log.batches) else None


def _listed(texts: list[str], most: int = 12) -> str:
    return ", ".join(texts) if len(texts) <= most else f"{len(texts)}: {texts[0]}, ..., {', '.join(texts[2 - most :])}"


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "-" if value is None else str(value)


def _table(rows: list[tuple[str, ...]]) -> Iterator[str]:
    """Yield the lines of a table; the first columns are numbers."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.rjust(width) if (place < 3 and len(row) > 2) or not place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "    " + "  ".join(cells).rstrip()


def summary(report: Report) -> Iterator[str]:
    """Yield the lines with findings, notes and the number of checks."""
    for finding in report.findings:
        yield from _finding("BROKEN", finding)
    for note in report.notes:
        yield from _finding("Note", note)
    made = ", ".join(f"{name} {count:,}" for name, count in report.checks.items() if count)
    verdict = f"{len(report.findings)} broken" if report.findings else "nothing broken"
    yield f"{verdict}, {report.total:,} checks" + (f": {made}" if made else "")
    if idle := [name for name, count in report.checks.items() if not count]:
        yield f"nothing to compare for: {', '.join(idle)}"


def _finding(word: str, finding: Finding) -> Iterator[str]:
    yield f"{word}: {finding.check}: {finding.message}"
    if finding.file:
        yield f"  {finding.file}{f', {finding.where}' if finding.where else ''}"

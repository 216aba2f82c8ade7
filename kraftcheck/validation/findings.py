"""Findings and reports of checks, and the terms in which they speak of disks."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import itemgetter

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

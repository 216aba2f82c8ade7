"""A writer of Kafka's disks, and a small Raft that leaves honest ones."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np

from kraftcheck.validation.records import BATCH_HEADER, crc32c_of_ranges

CONTROL = 0x20


def checked(batch: bytes) -> bytes:
    """Return a batch with its CRC made right."""
    crc = crc32c_of_ranges(np.frombuffer(batch, np.uint8), np.array([21]), np.array([len(batch)]))[0]
    return batch[:17] + int(crc).to_bytes(4, "big") + batch[21:]


def unsigned(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def signed(value: int) -> bytes:
    return unsigned(value << 1 if value >= 0 else -value * 2 - 1)


def batch(base: int, epoch: int, time: int, records: list[tuple[bytes | None, bytes]], attributes: int = 0) -> bytes:
    body = b""
    for delta, (key, value) in enumerate(records):
        keyed = signed(-1) if key is None else signed(len(key)) + key
        record = b"\0" + signed(0) + signed(delta) + keyed + signed(len(value)) + value + b"\0"
        body += signed(len(record)) + record
    length, last = BATCH_HEADER.size - 12 + len(body), len(records) - 1
    header = BATCH_HEADER.pack(base, length, epoch, 2, 0, attributes, last, time, time, -1, -1, -1, len(records))
    return checked(header + body)


def control(kind: int, value: bytes) -> tuple[bytes, bytes]:
    return bytes([0, 0, 0, kind]), value


def directory(node: int, generation: int = 0) -> bytes:
    return bytes([7] * 14 + [generation, node])


def text_of(uuid: bytes) -> str:
    return urlsafe_b64encode(uuid).decode().rstrip("=")


def leader_change(leader: int, voters: set[int], granting: set[int]) -> tuple[bytes, bytes]:
    sets = [
        unsigned(len(ids) + 1) + b"".join(one.to_bytes(4, "big") + b"\0" for one in sorted(ids))
        for ids in (voters, granting)
    ]
    return control(2, b"\0\0" + leader.to_bytes(4, "big") + b"".join(sets) + b"\0")


def voter_set(voters: set[int]) -> tuple[bytes, bytes]:
    value = b"\0\0" + unsigned(len(voters) + 1)
    for one in sorted(voters):
        endpoint = unsigned(11) + b"CONTROLLER" + unsigned(10) + b"127.0.0.1" + (9000 + one).to_bytes(2, "big") + b"\0"
        value += one.to_bytes(4, "big") + directory(one) + unsigned(2) + endpoint + b"\0\0\0\x01\0\0"
    return control(6, value + b"\0")


def snapshot(epoch: int, time: int, voters: set[int] | None, version: int | None = 1) -> bytes:
    records = [control(3, b"\0\0" + time.to_bytes(8, "big") + b"\0")]
    records += [] if version is None else [control(5, b"\0\0" + version.to_bytes(2, "big") + b"\0")]
    records += [] if voters is None else [voter_set(voters)]
    parts = [batch(0, epoch, time, records, CONTROL), batch(len(records), epoch, time, [(None, b"x")])]
    return b"".join(parts) + batch(len(records) + 1, epoch, time, [control(4, b"\0\0\0")], CONTROL)


@dataclass(frozen=True)
class Entry:
    """A batch in memory."""

    base: int
    end: int
    epoch: int
    raw: bytes
    voters: frozenset[int] | None = None


@dataclass
class Replica:
    """A node with its disk."""

    number: int
    log: list[Entry] = field(default_factory=list)
    start: int = 0
    snapshots: dict[tuple[int, int], tuple[bytes, frozenset[int]]] = field(default_factory=dict)
    epoch: int = 0
    leader: int = -1
    voted: int = -1
    commit: int = 0
    static: frozenset[int] | None = None

    @property
    def end(self) -> int:
        return self.log[-1].end if self.log else self.start

    @property
    def last(self) -> tuple[int, int]:
        """Epoch of the last batch, and end."""
        if self.log:
            return self.log[-1].epoch, self.end
        return max((epoch for offset, epoch in self.snapshots if offset == self.start), default=0), self.end

    def voters(self, offset: int | None = None) -> frozenset[int]:
        """Return the voter set in force before an offset."""
        if self.static:
            return self.static
        end = self.end if offset is None else offset
        found = [(offset, voters) for (offset, _), (_, voters) in self.snapshots.items() if offset <= end]
        found += [(one.end, one.voters) for one in self.log if one.voters is not None and one.end <= end]
        return max(found, key=lambda one: one[0])[1]

    def write(self, folder: Path, cut: int = 0, segment: int = 10) -> None:
        partition = folder / "__cluster_metadata-0"
        partition.mkdir(parents=True)
        (folder / "meta.properties").write_text(
            f"#\nnode.id={self.number}\ndirectory.id={text_of(directory(self.number))}\nversion=1\ncluster.id=c\n"
        )
        if self.epoch:
            state = {"leaderId": self.leader, "leaderEpoch": self.epoch, "votedId": self.voted, "data_version": 1}
            (partition / "quorum-state").write_text(json.dumps(state))
        for first in range(0, max(len(self.log), 1), segment):
            entries = self.log[first : first + segment]
            raw = b"".join(one.raw for one in entries)
            last = first + segment >= len(self.log)
            base = entries[0].base if entries else self.start
            (partition / f"{base:020}.log").write_bytes(raw[: len(raw) - cut] if last else raw)
        for (offset, epoch), (raw, _) in self.snapshots.items():
            (partition / f"{offset:020}-{epoch:010}.checkpoint").write_bytes(raw)


class Raft:
    """Replicas that take random honest steps: elections, appends, fetches, snapshots, changes of the voter set.

    With kraft.version 0 the voter set is configured, and neither the log nor snapshots have it.
    """

    def __init__(self, random: Random, size: int, spare: int = 1, version: int = 1) -> None:
        self.random, self.version = random, version
        voters = frozenset(range(1, size + 1))
        self.replicas = {number: Replica(number) for number in range(1, size + spare + 1)}
        for replica in self.replicas.values():
            replica.static = None if version else voters
            if version:
                replica.snapshots[0, 0] = snapshot(0, 1, set(voters)), voters
        self.time = 1_700_000_000_000
        self.leads: dict[int, int] = {}
        """Leader by epoch."""

    def run(self, steps: int) -> None:
        for _ in range(steps):
            kinds = (self.elect, *2 * [self.append], *4 * [self.fetch], self.snap, self.clean, self.change)
            self.random.choice(kinds)()

    def _write(self, replica: Replica, records: list[tuple[bytes | None, bytes]], **more: object) -> None:
        self.time += self.random.randrange(1, 500)
        attributes = CONTROL if records[0][0] is not None else 0
        raw = batch(replica.end, replica.epoch, self.time, records, attributes)
        entry = Entry(replica.end, replica.end + len(records), replica.epoch, raw, more.get("voters"))  # type: ignore[arg-type]
        replica.log.append(entry)

    def elect(self) -> None:
        candidate = self.random.choice(list(self.replicas.values()))
        voters = candidate.voters()
        if candidate.number not in voters:
            return
        epoch = max(candidate.epoch, *self.leads, 0) + 1 if self.leads else candidate.epoch + 1
        willing = [
            other
            for other in self.replicas.values()
            if other.number in voters
            and other.epoch < epoch
            and other.last <= candidate.last
            and other is not candidate
        ]
        need = len(voters) // 2
        granting = self.random.sample(willing, min(len(willing), self.random.randrange(need, len(voters))))
        for one in granting:
            one.epoch, one.leader, one.voted = epoch, -1, candidate.number
        candidate.epoch, candidate.leader, candidate.voted = epoch, -1, candidate.number
        self.leads[epoch] = -1
        if len(granting) < need:
            return
        candidate.leader, candidate.voted, self.leads[epoch] = candidate.number, -1, candidate.number
        numbers = {candidate.number, *(one.number for one in granting)}
        self._write(candidate, [leader_change(candidate.number, set(voters), numbers)])

    def _leader(self) -> Replica | None:
        leaders = [one for one in self.replicas.values() if one.leader == one.number]
        return self.random.choice(leaders) if leaders else None

    def append(self) -> None:
        if leader := self._leader():
            self._write(leader, [(None, self.random.randbytes(9)) for _ in range(self.random.randrange(1, 4))])

    def fetch(self) -> None:
        """Let a replica fetch from the leader of the highest epoch that it may hear of."""
        leader, follower = self._leader(), self.random.choice(list(self.replicas.values()))
        if leader is None or follower is leader or follower.epoch > leader.epoch:
            return
        if follower.epoch < leader.epoch:
            follower.epoch, follower.voted = leader.epoch, -1
        follower.leader = leader.number
        theirs = {one.base: one for one in leader.log}
        while follower.end > leader.start and follower.log and theirs.get(follower.log[-1].base) != follower.log[-1]:
            follower.log.pop()
        oldest = min(leader.snapshots, default=(0, 0))
        if follower.end <= leader.start > 0 and follower.last != oldest[::-1]:
            newest = max(leader.snapshots)
            follower.snapshots, follower.log, follower.start = {newest: leader.snapshots[newest]}, [], newest[0]
        ahead = [one for one in leader.log if one.base >= follower.end]
        follower.log += ahead[: self.random.randrange(0, 6)]
        self._commit(leader)
        follower.commit = max(follower.commit, min(leader.commit, follower.end))

    def _commit(self, leader: Replica) -> None:
        """Advance the leader's high watermark to the end that a majority holds."""
        begin = next((one.base for one in leader.log if one.epoch == leader.epoch), 1 << 60)
        voters = leader.voters()
        ends = []
        for number in voters:
            one = self.replicas[number]
            same = one is leader or (one.epoch == leader.epoch and one.leader == leader.number)
            held = [mine.end for mine in leader.log if mine in one.log] if same else []
            ends.append(leader.end if one is leader else max(held, default=0))
        high = sorted(ends, reverse=True)[len(voters) // 2]
        if high > begin:
            leader.commit = max(leader.commit, high)

    def snap(self) -> None:
        one = self.random.choice(list(self.replicas.values()))
        held = [entry for entry in one.log if entry.end <= one.commit]
        if held:
            entry = self.random.choice(held[-5:])
            if entry.end > max(one.snapshots, default=(0, 0))[0]:
                voters = one.voters(entry.end)
                raw = (
                    snapshot(entry.epoch, self.time, set(voters))
                    if self.version
                    else snapshot(1, self.time, None, None)
                )
                one.snapshots[entry.end, entry.epoch] = raw, voters

    def clean(self) -> None:
        one = self.random.choice(list(self.replicas.values()))
        if len(one.snapshots) > 1:
            keep = self.random.choice(sorted(one.snapshots))
            one.snapshots = {id_: kept for id_, kept in one.snapshots.items() if id_ >= keep}
            one.start = max(one.start, keep[0])
            one.log = [entry for entry in one.log if entry.end > one.start]

    def change(self) -> None:
        """Add or remove a voter where the leader has committed its epoch and the last change."""
        leader = self._leader()
        if leader is None or not self.version:
            return
        self._commit(leader)
        begin = next((one.base for one in leader.log if one.epoch == leader.epoch), 1 << 60)
        last = max((one.end for one in leader.log if one.voters is not None), default=0)
        if leader.commit <= begin or last > leader.commit:
            return
        number = self.random.choice(list(self.replicas))
        voters = leader.voters() ^ {number}
        if number != leader.number and len(voters) > 1:
            self._write(leader, [voter_set(set(voters))], voters=voters)

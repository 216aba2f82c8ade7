"""Kafka's logs as batches of the model.

The model counts batches, Kafka counts records: the first batch of a leader holds several. An end offset with the epoch
before it names the same batches everywhere, as long as logs match; so a log that begins behind a snapshot is completed
from what was seen with that end.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any, NamedTuple

from kraftcheck.kraft_model.quorum.records import Batch, Data, Key, KRaftVersion, LeaderChange, Voter, Voters
from kraftcheck.spec import ModelValue

Json = dict[str, Any]


class Held(NamedTuple):
    """A replica's whole log."""

    batches: tuple[Batch, ...] = ()  # as the model has them, those before the log start included
    ends: tuple[int, ...] = ()  # the end offset of each, in records

    def count(self, offset: int) -> int:
        """Return how many batches end at an offset of records or before it; below 0 where none ends right there."""
        found = bisect_right(self.ends, offset)
        return found if offset <= 0 or offset in self.ends[found - 1 : found] else -offset


class LogBook:
    """The logs of all replicas."""

    def __init__(self, hosts: Mapping[int, ModelValue]) -> None:
        self._hosts = hosts
        self._logs: dict[int, Held] = {}
        self._up_to: dict[tuple[int, int], Held] = {}  # by end offset and epoch

    def of(self, node: int) -> Held:
        """Return a replica's log."""
        return self._logs.get(node, Held())

    def up_to(self, offset: int, epoch: int) -> Held:
        """Return the log that ends at an offset with an epoch; empty where none was seen."""
        return self._up_to.get((offset, epoch), Held())

    def note(self, node: int, state: Json) -> Held:
        """Take over a replica's log from a report of the driver, and return it."""
        start = state["start"]
        held = self.of(node)
        if start == 0:
            held = Held()
        else:
            kept = held.count(start)
            known = kept > 0 and held.ends[kept - 1] == start and held.batches[kept - 1].epoch == state["snapshotEpoch"]
            held = Held(held.batches[:kept], held.ends[:kept]) if known else self.up_to(start, state["snapshotEpoch"])
        for found in state["log"]:
            batch = self.batch(found)
            held = Held((*held.batches, batch), (*held.ends, found["next"]))
            self._up_to[found["next"], found["epoch"]] = held
        self._logs[node] = held
        return held

    def batch(self, found: Json) -> Batch:
        """Return a batch as the model has it."""
        return Batch(found["epoch"], tuple(map(self._record, found["records"])))

    def _record(self, found: Json) -> LeaderChange | KRaftVersion | Voters | Data:
        if "leader" in found:
            return LeaderChange(self._hosts[found["leader"]])
        if "version" in found:
            return KRaftVersion(found["version"])
        if "voters" in found:
            return Voters(self.voters(found["voters"]))
        return Data(int(found["data"]))

    def voters(self, found: list[list[int]]) -> frozenset[Voter]:
        """Return a voter set: id, directory and endpoint of each."""
        return frozenset(Voter(Key(self._hosts[node], directory), endpoint) for node, directory, endpoint in found)

    def key(self, found: list[int]) -> Key:
        """Return a replica key: id and directory."""
        return Key(self._hosts[found[0]], found[1])

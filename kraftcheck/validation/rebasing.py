"""Rebasing: committed data batches of one epoch become one batch, so that a step costs the same late in a log.

Ends that some replica or message may still name are kept, as are ends of epochs and batches with control records. All
logs keep the same ends.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from kraftcheck.kraft_model.quorum.records import Batch, Change, Data, DiskReplica, FetchRequest, Replica
from kraftcheck.spec import Map
from kraftcheck.validation.effects import Effects
from kraftcheck.validation.terms import Log, data_batch, end_offset, offset_of

Rewrite = Callable[[Log], Log]

FIRST = 64
"""Batches of a log at which it is rebased first."""


class Rebasing(Effects):
    """Shortens the logs of a replay."""

    longest = FIRST

    def rebase(self) -> None:
        """Merge committed data batches in every log."""
        kept = set(self._kept())
        committed = offset_of(self.shared.committed, len(self.shared.committed))
        self._rewrite(lambda log: merged(log, kept, committed))
        longest = max((len(replica.log) for replica in self._replicas()), default=0)
        self.longest = max(FIRST, 2 * longest)

    def split(self, offset: int) -> None:
        """Split the merged batches that cover an offset; a follower may store a part of them only."""
        self._rewrite(lambda log: split(log, offset))
        for number, batches in self.records.items():
            if batches and end_offset(batches[0]) < offset:
                self.records[number] = split(batches, offset)

    def _replicas(self) -> Iterator[Replica]:
        for node in self.nodes.values():
            for state in (node.state, *node.alternatives):
                if state is not None:
                    yield state.me

    def _kept(self) -> Iterator[int]:
        """Yield the end offsets that must stay."""
        for batches in self.records.values():
            yield from map(end_offset, batches)
        logs: list[Log] = [self.shared.committed, *self.shared.lost.values()]
        for me in self._replicas():
            logs.append(me.log)
            yield from (offset_of(me.log, min(count, len(me.log))) for count in counts(me))
        for log in logs:
            yield offset_of(log, len(log))
            for batch, after in pairwise(log):
                if after.epoch != batch.epoch:
                    yield end_offset(batch)

    def _rewrite(self, change: Rewrite) -> None:
        for node in self.nodes.values():
            if node.state is not None:
                node.state = node.state._replace(me=renumbered(node.state.me, change))
            node.alternatives = [one._replace(me=renumbered(one.me, change)) for one in node.alternatives]
        lost = Map((key, change(log)) for key, log in self.shared.lost.items())
        self.shared = self.shared.but(committed=change(self.shared.committed), lost=lost)
        self.check.divided(self.replicas(), self.shared)


def counts(me: Replica) -> Iterable[int]:
    """Return the numbers of batches that a replica's fields hold."""
    found = [me.start, me.flushed, me.high_watermark, *me.offsets.values()]
    if isinstance(me, DiskReplica):
        found += me.snapshots
    if isinstance(me.change, Change):
        found.append(me.change.offset)
    return found


def is_data(batch: Batch) -> bool:
    """Whether a batch has no control record."""
    return all(isinstance(record, Data) for record in batch.records)


def merged(log: Log, kept: set[int], committed: int) -> Log:
    """Return a log without the ends of data batches up to the committed offset, except those that are kept."""
    found = []
    for position, batch in enumerate(log):
        after = log[position + 1] if position + 1 < len(log) else None
        if (
            after is not None
            and end_offset(after) <= committed
            and end_offset(batch) not in kept
            and after.epoch == batch.epoch
            and is_data(batch)
            and is_data(after)
        ):
            continue
        found.append(batch)
    return tuple(found)


def split(log: Log, offset: int) -> Log:
    """Return a log in which a batch ends at an offset."""
    position = bisect_left(log, offset, key=end_offset) if offset > 0 else len(log)
    if position >= len(log) or end_offset(log[position]) == offset or not is_data(log[position]):
        return log
    return (*log[:position], data_batch(log[position].epoch, offset), *log[position:])


def renumbered(me: Replica, change: Rewrite) -> Replica:
    """Return a replica with another division of its log into batches, and with the numbers of batches that follow."""
    old, log = me.log, change(me.log)
    if len(log) == len(old):
        return me

    def number(count: int) -> int:
        if count > len(old):
            return count - len(old) + len(log)
        return bisect_left(log, offset_of(old, count), key=end_offset) + 1 if count > 0 else 0

    after = me.but(
        log=log,
        start=number(me.start),
        flushed=number(me.flushed),
        high_watermark=number(me.high_watermark),
        offsets=Map((key, number(end)) for key, end in me.offsets.items()),
    )
    if isinstance(after, DiskReplica):
        after = after.but(snapshots=tuple(map(number, after.snapshots)))
    if isinstance(after.change, Change):
        after = after.but(change=after.change.but(offset=number(after.change.offset)))
    if isinstance(after.pending, FetchRequest):
        after = after.but(pending=after.pending.but(offset=number(after.pending.offset)))
    return after

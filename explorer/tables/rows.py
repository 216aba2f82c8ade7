"""Rows of states: packed, in the buffers of the workers, and in the levels of a search.

The fields of the replicas' inboxes come first, from bit 0 on, and the control row's last, although its column is
the first. An inbox is packed as its number among those of the same replica. Each field has as many bits as its
largest number needs, or one more where that costs no byte. When a number outgrows its field, `Expander.fit_packing`
widens the field before the next batch. The visited set, the archive and the set of depths then repack their states.

A level is in memory first, and then in a file. Rows are appended to the last level only, and all levels share one
file. Written data never changes, so a checkpoint stores only the file's length. A row may be wider than earlier ones,
if a replica appeared in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from hashlib import blake2b
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.native.arrays import zeros_in_small_pages
from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.arrays import SuccessorArrays, WorkerArrays
from kraftcheck.explorer.tables.kernel.codes import CLUSTER_HEAD_SIZE
from kraftcheck.explorer.tables.kernel.packing import (
    HOME_BITS,
    MIXED_BITS,
    PARTITION_BITS,
    PackingArrays,
    repack_states,
)
from kraftcheck.persistence.stored_files import AppendOnlyFile, RowIndex

Rows = NDArray[np.int32]
Indices = NDArray[np.int64]
Words = NDArray[np.uint64]

PARTITION_COUNT = 1 << PARTITION_BITS
SUCCESSOR_ROOM_A_STATE = 12  # mean number that the buffers have room for


class BitPacking(PackingArrays):
    """The bit position and width of each field of a packed state."""

    def __init__(self, position: NDArray[np.int32], width: NDArray[np.int32]) -> None:
        super().__init__()
        self.position, self.width = position, width
        self.bits = int(width.sum())
        self.words = -(-self.bits // 64)

    def of(self, fields: Sequence[Sequence[int]], columns: int) -> BitPacking:
        """Assign the columns of a flat state to fields, and return the packing; clusters come first."""
        self.columns = np.array([column for field in fields for column in field], np.int32)
        self.firsts = np.cumsum([0, *map(len, fields)]).astype(np.int32)
        self.factors = np.array([_column_hash_factor(number) for number in range(len(self.columns))], np.uint64)
        sizes = [len(field) for field in fields if len(field) > 1]
        self.clusters, self.items = np.array([[len(sizes)], [sum(sizes) + CLUSTER_HEAD_SIZE * len(sizes)]], np.int64)
        self.field_of = np.full(columns, -1, np.int32)
        self.field_of[self.columns] = np.repeat(np.arange(len(fields)), np.diff(self.firsts))
        return self

    def has_room_for(self, bits: list[int]) -> bool:
        """Return whether every field is at least as wide as given in `bits`."""
        return len(bits) == len(self.width) and all(n <= w for n, w in zip(bits, self.width, strict=True))


def _column_hash_factor(number: int) -> int:
    """Return the odd 64-bit hash factor of a column number."""
    return int.from_bytes(blake2b(number.to_bytes(8), digest_size=8).digest()) | 1


def packing_of_widths(widths: list[int]) -> BitPacking:
    """Return a packing with fields of these widths, the control row first."""
    order = [*range(1, len(widths)), 0]
    position, at = np.zeros(len(widths), np.int32), 0
    for field in order:
        position[field] = at
        at += widths[field]
    return BitPacking(position, np.array(widths, np.int32))


def packing_for_id_counts(counts: list[int], before: Sequence[int] = ()) -> BitPacking:
    """Return a packing for ids up to `counts`; spare bits that cost no memory go to the fastest-growing fields."""
    widths = [max(1, count.bit_length()) for count in counts]
    spare, total = 0, sum(widths)
    while spare < len(widths) and _words_and_entry_bytes(total + spare + 1) == _words_and_entry_bytes(total):
        spare += 1
    grown = [count / max(1, old) for count, old in zip(counts, [*before, *[1] * len(counts)], strict=False)]
    soon = sorted(range(len(widths)), key=lambda field: -counts[field] * grown[field] / (1 << widths[field]))
    for field in soon[:spare]:
        widths[field] += 1
    return packing_of_widths(widths)


def visited_entry_bytes(bits: int, capacity: int = 1 << 18, others: int = 0) -> int:
    """Return the bytes of a packed state's entry in a partition of the visited set."""
    beside = max(0, bits - MIXED_BITS)
    return 1 + (HOME_BITS - (capacity.bit_length() - 1) + others + beside + 7) // 8


def _words_and_entry_bytes(bits: int) -> tuple[int, int]:
    """Return the words and the visited-set bytes of a packed state of `bits` bits."""
    return -(-bits // 64), visited_entry_bytes(bits)


def indices_by_owner_partition(
    owner: NDArray[Any], parts: int = PARTITION_COUNT
) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield each partition with the indices of the states that it owns, in order."""
    order = np.argsort(owner.astype(np.min_scalar_type(parts)), kind="stable")  # a radix sort for short integers
    ends = np.cumsum(np.bincount(owner, minlength=parts))
    for partition, first in enumerate([0, *ends[:-1]]):
        if first < ends[partition]:
            yield partition, order[first : ends[partition]]


def repacked_words_by_partition(words: Words, old: BitPacking, new: BitPacking) -> Iterator[tuple[int, Words]]:
    """Convert packed words to a new packing; yield (partition, words) for each partition that then owns some."""
    again: Any = np.zeros((len(words), new.words), np.uint64)
    owner = np.zeros(len(words), np.int64)
    repack_states(words, old, again, new, owner)
    for partition, mine in indices_by_owner_partition(owner):
        yield partition, again[mine]


class SuccessorBuffers(SuccessorArrays):
    """The successors that one worker has found, not yet looked up in the visited set."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = np.zeros((PARTITION_COUNT, 0, 0), np.int32)
        self.words = np.zeros((PARTITION_COUNT, 0, 0), np.uint64)
        self.counts = np.zeros(PARTITION_COUNT, np.int64)

    def fit(self, room: int, width: int, stored: int) -> None:
        """Resize the buffers, and keep their contents."""
        room = max(room, self.rows.shape[1])
        self.rows = _resize_partitions(self.rows, self.counts, room, width)
        self.words = _resize_partitions(self.words, self.counts, room, stored)

    def put(self, rows: Rows, words: Words, owner: NDArray[np.int64]) -> None:
        """Replace the contents of the buffers by these rows, each in the partition that `owner` names."""
        counts = np.bincount(owner, minlength=PARTITION_COUNT)
        room = max(self.rows.shape[1], int(counts.max()))
        if self.rows.shape[1:] != (room, rows.shape[1]):
            self.rows = zeros_in_small_pages((PARTITION_COUNT, room, rows.shape[1]), np.int32)
        if self.words.shape[1:] != (room, words.shape[1]):
            self.words = zeros_in_small_pages((PARTITION_COUNT, room, words.shape[1]), np.uint64)
        for p, mine in indices_by_owner_partition(owner):
            self.rows[p, : len(mine)], self.words[p, : len(mine)] = rows[mine], words[mine]
        self.counts[:] = counts

    def all_rows(self) -> Rows:
        """Return the rows of all partitions."""
        return np.concatenate([self.rows[p, : self.counts[p]] for p in range(PARTITION_COUNT)])

    def clear(self) -> None:
        """Remove all successors; the buffers stay."""
        self.counts[:] = 0


def _resize_partitions(array: NDArray[Any], counts: NDArray[np.int64], room: int, columns: int) -> NDArray[Any]:
    """Return the array resized to `room` rows of `columns` columns for each partition, with its counted rows kept."""
    _, old_room, old_columns = array.shape
    if (old_room, old_columns) == (room, columns):
        return array
    larger = zeros_in_small_pages((PARTITION_COUNT, room, columns), array.dtype)
    for p in np.flatnonzero(counts).tolist() if old_columns <= columns else ():
        larger[p, : counts[p], :old_columns] = array[p, : counts[p]]
    return larger


class SuccessorsOfWorkers(NamedTuple):
    """The successors of all workers."""

    parts: list[SuccessorBuffers]  # by worker
    packing: BitPacking
    width: int  # columns of a state


def distinct_column_indices_and_inverse(inputs: Rows) -> tuple[Indices, Indices]:
    """Return the first index of each distinct column, and for each column the number of its distinct value."""
    lowest = inputs.min(axis=1).tolist()
    ranges = [high + 1 - low for high, low in zip(inputs.max(axis=1).tolist(), lowest, strict=True)]
    if prod(ranges) >= 1 << 63:  # a column does not fit into one number
        whole = np.ascontiguousarray(inputs.T).view(np.dtype((np.void, len(inputs) * inputs.itemsize))).ravel()
        return np.unique(whole, return_index=True, return_inverse=True)[1:]
    keys = np.zeros(inputs.shape[1], np.int64)
    for row, low, each in zip(inputs, lowest, ranges, strict=True):
        if each > 1:
            keys *= each
            keys += row
            keys -= low
    if prod(ranges) > 4 * len(keys):
        return np.unique(keys, return_index=True, return_inverse=True)[1:]
    places = np.full(prod(ranges), -1, np.int64)
    places[keys[::-1]] = np.arange(len(keys) - 1, -1, -1)
    found = np.flatnonzero(places >= 0)
    first = places[found]
    places[found] = np.arange(len(found))
    return first, places[keys]


MOST_SERIAL_STATES = 1 << 10  # states up to which a second thread does not pay


class ThreadPool:
    """Runs work in parallel threads."""

    def __init__(self, count: int) -> None:
        _require_stack_space(count - 1)
        self.count = count
        self.enough = np.zeros(1, np.int64)
        self._pool = ThreadPoolExecutor(count - 1) if count > 1 else None

    def run(self, work: Callable[[int], None], pieces: int) -> None:
        """Call `work(0)` in this thread and `work(1)` to `work(pieces - 1)` in the pool; wait for all calls."""
        own, others = range(pieces), []
        if pieces == 1:
            work(0)
            return
        if self._pool is not None:
            own, others = range(1), [self._pool.submit(work, number) for number in range(1, pieces)]
        try:
            for number in own:
                work(number)
        finally:
            wait(others)
        for other in others:
            other.result()

    def beside(self, work: Callable[[], None], own: Callable[[], None]) -> None:
        """Call `own` in this thread, and `work` in another thread at the same time if there is one.

        The other thread stops early once `enough` is set, when `own` is done. It must need little of the GIL, and must
        not use this pool itself.
        """
        if self._pool is None:
            own()
            return
        self.enough[0] = 0
        other = self._pool.submit(work)
        try:
            own()
        finally:
            self.enough[0] = 1
            other.result()

    def close(self) -> None:
        """Shut down the threads."""
        if self._pool is not None:
            self._pool.shutdown()


def _require_stack_space(threads: int) -> None:
    """Raise RuntimeError if the limit on address space has no room for the stacks of threads.

    A thread that runs out of memory before it reports its start leaves Python's `Thread.start` waiting for ever.
    """
    with suppress(ImportError, OSError, ValueError):  # not on this platform
        import resource

        limit, stack = resource.getrlimit(resource.RLIMIT_AS)[0], resource.getrlimit(resource.RLIMIT_STACK)[0]
        if resource.RLIM_INFINITY in (limit, stack) or threads < 1:
            return
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        if used + threads * stack > limit:
            raise RuntimeError("can't start new thread")


STATES_A_BATCH = 1 << 16  # states that one worker expands between two checks of the time limit
FIRST_ROOM_A_STATE = 1 << 10  # initial room for the successors of one state


class WorkerBuffers(WorkerArrays):
    """The buffers and counters of one thread."""

    def __init__(self, actions: int) -> None:
        super().__init__()
        self.fired = np.zeros(actions, np.int64)
        self.stats = np.zeros(codes.STATS_SIZE, np.int64)
        self.retry = np.zeros(STATES_A_BATCH, np.int64)
        self.events = np.zeros((1 << 12, 3), np.int64)
        self.misses = np.zeros((1 << 14, 5), np.int64)
        self.blocked = np.zeros(FIRST_ROOM_A_STATE, np.int64)
        self.collected = np.zeros((0, 0), np.int32)
        self.succ = np.zeros((FIRST_ROOM_A_STATE, 0), np.int32)
        self.successors = SuccessorBuffers()
        self.keeps_pruned = False

    def begin(self, states: Rows, count: int = 0) -> None:
        """Prepare the buffers for a run of the kernel over `states`; it expands `count` of them at most."""
        self.states = np.ascontiguousarray(states)
        self.fit(states.shape[1])
        if len(self.broken) < len(self.succ):
            self.broken = np.zeros(len(self.succ), np.int64)
        more = states.shape[1] + 1 - self.collected.shape[1]
        if more > 0:
            self.collected = np.pad(self.collected, ((0, 0), (0, more)))
        elif more < 0:  # after a change of layout, when the buffer is empty
            self.collected = np.zeros((len(self.collected), states.shape[1] + 1), np.int32)
        if len(self.retry) < count:
            self.retry = np.zeros(count, np.int64)
        self.stats[[codes.STATS_RETRY, codes.STATS_MISSES, codes.STATS_CODE]] = 0

    def fit(self, columns: int) -> None:
        """Resize the buffers for states of `columns` columns."""
        if self.succ.shape[1] != columns + 2:
            self.succ = np.zeros((len(self.succ), columns + 2), np.int32)
            self.scratch = np.zeros((1, columns), np.int32)

    def make_room(self) -> None:
        """Double the successor buffer, for a state with more successors than it holds."""
        self.succ = np.zeros((2 * len(self.succ), self.succ.shape[1]), np.int32)
        self.blocked = np.zeros(len(self.succ), np.int64)
        if len(self.collected):
            self.collect()

    def collect(self) -> None:
        """Make the kernel collect successors for checks in Python, by allocating room for them."""
        more = max(len(self.succ), STATES_A_BATCH) - len(self.collected)
        self.collected = np.pad(self.collected, ((0, max(0, more)), (0, 0)))

    def keep_pruned(self) -> None:
        """Keep pruned successors after `take_steps`."""
        self.keeps_pruned = True
        self.collect()

    def take_collected(self) -> Rows:
        """Return the collected states, each preceded by its mark, and clear them."""
        found: Rows = self.collected[: int(self.stats[codes.STATS_COLLECTED])].copy()
        self.stats[codes.STATS_COLLECTED] = 0
        return found

    def take_steps(self) -> tuple[Indices, Rows]:
        """Return the sources and targets of the collected steps; pruned successors stay collected if they are kept."""
        found = self.take_collected()
        pruned = found[(found[:, 0] >= 0) & self.keeps_pruned]
        self.collected[: len(pruned)] = pruned
        self.stats[codes.STATS_COLLECTED] = len(pruned)
        sources = found[:, 0].astype(np.int64)
        return np.where(sources < 0, ~sources, sources), found[:, 1:]

    def missed_states(self) -> Indices:
        """Return the states that met a cache miss."""
        retry: Indices = self.retry[: int(self.stats[codes.STATS_RETRY])].copy()
        return retry


ID_BYTES = 4
EARLY_WRITE_BYTES = 1 << 22  # bytes that are worth a write during miss handling
ROWS_A_CHUNK = 1 << 15  # default number of rows in a chunk


class LevelRows:
    """One level: rows in the file, then rows in memory."""

    def __init__(self) -> None:
        self.filed = RowIndex(np.int32)
        self.waiting: list[Rows] = []
        self.count = 0


class SpillingLevels:
    """The levels of a search, counted from 1."""

    def __init__(self, budget: int, file: AppendOnlyFile | None = None, folder: Path | None = None) -> None:
        self.budget = budget
        self.nbytes = 0
        self._file = file
        self._folder = folder
        self._levels: list[LevelRows] = []

    @property
    def depth(self) -> int:
        """Number of levels."""
        return len(self._levels)

    def count(self, level: int) -> int:
        """Return the number of rows of a level; level 0 has none."""
        return self._levels[level - 1].count if level else 0

    @property
    def counts(self) -> list[int]:
        """Number of rows of each level."""
        return [level.count for level in self._levels]

    def begin(self) -> None:
        """Start a new level."""
        self._levels.append(LevelRows())

    def append(self, rows: Rows) -> None:
        """Append rows to the last level; the array must not change afterwards."""
        if not len(rows):
            return
        if rows.base is not None and rows.base.nbytes > rows.nbytes:
            rows = rows.copy()  # a view would keep the whole array in memory
        level = self._levels[-1]
        level.waiting.append(rows)
        level.count += len(rows)
        self.nbytes += rows.nbytes
        if self.nbytes > self.budget:
            self.flush()

    def rewrite(self, convert: Callable[[Rows], Rows], most: int = ROWS_A_CHUNK) -> None:
        """Convert all rows, `most` at a time."""
        new = SpillingLevels(self.budget, folder=self._folder)
        for rows_of_level in (self.chunks(level, most) for level in range(1, self.depth + 1)):
            new.begin()
            for rows in rows_of_level:
                new.append(convert(rows))
        self.close()
        self._file, self._levels, self.nbytes = new._file, new._levels, new.nbytes

    def flush(self) -> None:
        """Write the rows in memory to the file."""
        if self._file is None:
            self._file = AppendOnlyFile.temporary(self._folder)
        for level in self._levels:
            for rows in level.waiting:
                level.filed.append(self._file, rows)
            level.waiting = []
        self.nbytes = 0

    def flush_early(self) -> None:
        """Write the rows in memory to the file, if they will go there anyway and are worth a write."""
        if self._file is not None and self.nbytes > EARLY_WRITE_BYTES:
            self.flush()

    def read(self, level: int, first: int, most: int) -> Rows:
        """Return at most `most` rows of a level from number `first` on; fewer where their width changes.

        The caller may change the array only if it comes from the file.
        """
        held = self._levels[level - 1]
        if first < held.filed.count:
            assert self._file is not None
            return held.filed.read(self._file, first, most)
        first -= held.filed.count
        found: list[Rows] = []
        for part in held.waiting:
            if first >= len(part):
                first -= len(part)
                continue
            if most == 0 or (found and part.shape[1] != found[0].shape[1]):
                break
            found.append(part[first : first + most])
            most -= len(found[-1])
            first = 0
        return found[0] if len(found) == 1 else np.concatenate(found)

    def chunks(self, level: int, most: int = ROWS_A_CHUNK) -> Iterator[Rows]:
        """Yield the rows of a level in chunks."""
        first = 0
        while first < self.count(level):
            rows = self.read(level, first, most)
            yield rows
            first += len(rows)

    def __iter__(self) -> Iterator[Iterator[Rows]]:
        """Yield for each level an iterator over chunks of its rows."""
        return (self.chunks(level) for level in range(1, self.depth + 1))

    # Checkpoints

    @property
    def extents(self) -> list[list[tuple[int, int]]]:
        """For each level, its blocks in the file as (rows, columns); call `flush` first."""
        return [level.filed.shapes for level in self._levels]

    def restore(self, extents: list[list[tuple[int, int]]]) -> int:
        """Restore the levels from a file with these extents; return the bytes of the file that they take."""
        offset = 0
        for noted in extents:
            self.begin()
            level = self._levels[-1]
            for rows, columns in noted:
                offset = level.filed.note(rows, columns, offset)
            level.count = level.filed.count
        return offset

    def clear(self) -> None:
        """Remove all levels."""
        self._levels = []
        self.nbytes = 0
        if self._file is not None:
            self._file.clear()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

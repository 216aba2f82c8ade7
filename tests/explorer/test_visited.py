"""The visited set beside a set of Python's: packed states of any width, tables of any size."""

from __future__ import annotations

import itertools
import mmap
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftcheck.explorer.native import arrays
from kraftcheck.explorer.tables.kernel import jit
from kraftcheck.explorer.tables.kernel.hash_set import (
    CAPACITY,
    MAX_HASH_SET_LOAD,
    STRIDE,
    look_up_entry_flags,
    mark_entries_of_words,
    store_entry_numbers,
)
from kraftcheck.explorer.tables.kernel.packing import (
    HOME_BITS,
    MIXED_BITS,
    PARTITION_BITS,
    hash_words,
    pack_rows_of_numbers,
    partition_of_words,
    restore_mixed_bits,
    unpack_rows_of_numbers,
)
from kraftcheck.explorer.tables.rows import (
    PARTITION_COUNT,
    BitPacking,
    Rows,
    SuccessorBuffers,
    SuccessorsOfWorkers,
    ThreadPool,
    Words,
    packing_for_id_counts,
    packing_of_widths,
    visited_entry_bytes,
)
from kraftcheck.explorer.tables.visited import FIRST_PARTITION_CAPACITY, VisitedSet, VisitedSetPartition
from kraftcheck.persistence.stored_files import SpillArena, is_mapped

pytestmark = pytest.mark.kernel

NO_ROWS: Rows = np.zeros((0, 0), np.int32)


@jit
def mix_all(words: Any, mixed: Any, owners: Any) -> None:
    for i in range(len(words)):
        mixed[i] = hash_words(words, i)
        owners[i] = partition_of_words(words, i)


@jit
def unmix_all(words: Any, mixed: Any) -> None:
    for i in range(len(words)):
        restore_mixed_bits(words, i, mixed[i])


def mixed_of(words: Words) -> tuple[Any, Any]:
    mixed, owners = np.zeros(len(words), np.uint64), np.zeros(len(words), np.int64)
    mix_all(words, mixed, owners)
    return mixed, owners


def packing_of(bits: int) -> BitPacking:
    """Return a packing of so many bits, in fields of 31 at most."""
    return packing_of_widths([min(31, bits - at) for at in range(0, bits, 31)])


def made_up(packed: BitPacking, count: int, seed: int) -> Words:
    """Return packed words, some of which differ in a few bits only, and some not at all."""
    random = np.random.default_rng(seed)
    words = random.integers(0, 1 << 64, (count, packed.words), dtype=np.uint64)
    for i in range(1, count):
        kind = random.integers(4)
        if kind:
            words[i] = words[random.integers(i)]
        if kind > 1:
            at = int(random.integers(packed.bits if kind == 2 else min(packed.bits, MIXED_BITS)))
            words[i, at >> 6] ^= np.uint64(1 << (at & 63))
    words[:, -1] &= np.uint64((1 << (packed.bits - 64 * (packed.words - 1))) - 1)
    return words


def as_set(words: Words) -> set[tuple[int, ...]]:
    return set(map(tuple, words.tolist()))


def new_of(partition: VisitedSetPartition, words: Words) -> list[int]:
    """Insert packed words; return the indices of those that are new."""
    rows, new = np.arange(len(words), dtype=np.int32)[:, None], np.zeros((len(words), 1), np.int32)
    count = partition.insert(rows, words, len(words), new, 0)
    found: list[int] = new[:count, 0].tolist()
    return found


@pytest.mark.parametrize("own_pages", [1, 1 << 30])
def test_a_table_takes_the_bytes_that_another_left(own_pages: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "OWN_PAGES_FROM_BYTES", own_pages)
    packed, spare = packing_of(90), (arrays.ThreadSpareArray(), arrays.ThreadSpareArray())
    partitions = [VisitedSetPartition(packed, None, 20, 100, spare) for _ in range(5)]
    made = [made_up(packed, 4_000, seed) for seed in range(len(partitions))]
    taken, grown = set(), set()
    for first in range(0, 4_000, 250):
        for partition, words in zip(partitions, made, strict=True):
            new_of(partition, words[first : first + 250])
            taken.add(partition.keys.ctypes.data)
            grown.add((id(partition), int(partition.layout[CAPACITY])))
    assert [as_set(partition.words()) for partition in partitions] == [as_set(words) for words in made]
    assert own_pages > 1 or len(taken) < len(grown)  # small ones stand where the allocator puts them
    larger = max(partition.keys.nbytes for partition in partitions)
    assert len(spare[0].take(1)) <= arrays.RESERVED_ADDRESSES_RATIO * larger + 1  # of what was left one is kept


def test_addresses_that_there_are_not_are_not_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def refusing(number: int, count: int, **rest: Any) -> Any:
        made.append(count)
        if count > arrays.OWN_PAGES_FROM_BYTES:
            raise OSError(12, "Cannot allocate memory")
        return mmap.mmap(number, count, **rest)

    monkeypatch.setattr(arrays, "map_memory", refusing)
    found = arrays.reserve_zeroed_bytes(arrays.OWN_PAGES_FROM_BYTES)
    assert made == [arrays.RESERVED_ADDRESSES_RATIO * arrays.OWN_PAGES_FROM_BYTES, arrays.OWN_PAGES_FROM_BYTES]
    assert len(found) == arrays.OWN_PAGES_FROM_BYTES
    assert not found.any()


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="the system does not tell what pages there are")
def test_what_is_written_here_and_there_has_small_pages() -> None:
    shape = 16, 1 << 18, 2
    found = arrays.zeros_in_small_pages(shape, np.int32)
    assert (found.shape, found.dtype) == (shape, np.int32)
    assert not found.any()
    found[3, 5, 1] = 1
    assert np.flatnonzero(found).tolist() == [(3 * shape[1] + 5) * 2 + 1]
    assert not asks_for_large_pages(found)
    few = arrays.zeros_in_small_pages((5,), np.uint64)  # it may stand where an array of before was given large pages
    assert few.base is None
    assert not few.any()


def test_room_that_there_is_not_is_a_lack_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(*_: Any, **__: Any) -> Any:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(arrays, "map_memory", refusing)
    assert not arrays.zeros_in_small_pages((64, 4_096), np.int32).any()
    with pytest.raises(MemoryError):
        arrays.zeros_in_small_pages((1 << 50, 16), np.int32)


def test_a_partition_that_is_replaced_counts() -> None:
    visited, packed = VisitedSet(ThreadPool(1)), packing_of(60)
    visited.fit(packed)
    words = made_up(packed, 500, 3)
    mine = words[mixed_of(words)[1] == 5]
    other = VisitedSetPartition(packed, 5)
    other.add_words(mine[:2])
    visited.replace(5, other)
    assert visited.count == 2
    other.add_words(mine)
    assert visited.count == other.count == len(as_set(mine)) > 2
    assert as_set(visited.partitions[5].words()) == as_set(mine)


def asks_for_large_pages(array: Any) -> bool:
    """Whether the system was asked for large pages for an array."""
    at, inside = array.ctypes.data + array.nbytes // 2, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, *rest = line.split()
        if "-" in first and rest:
            start, end = (int(one, 16) for one in first.split("-"))
            inside = start <= at < end
        elif inside and first == "VmFlags:":
            return "hg" in rest
    raise AssertionError("the array is nowhere")


@given(st.integers(1, 200), st.integers(0, 10**9))
def test_what_is_mixed_gives_the_words_back(bits: int, seed: int) -> None:
    words = made_up(packing_of(bits), 50, seed)
    mixed, owners = mixed_of(words)
    assert int(mixed.max()) < 1 << MIXED_BITS
    assert owners.tolist() == (mixed >> np.uint64(HOME_BITS)).tolist()
    again = words.copy()
    again[:, 0] &= ~np.uint64((1 << MIXED_BITS) - 1)
    unmix_all(again, mixed)
    assert again.tolist() == words.tolist()


@pytest.mark.slow
@settings(deadline=None)
@given(st.integers(1, 200), st.integers(1, 3_000), st.integers(0, 10**9), st.booleans(), st.integers(0, 5_000))
def test_a_partition_holds_what_a_set_holds(bits: int, capacity: int, seed: int, owned: bool, small: int) -> None:
    packed = packing_of(bits)
    words = made_up(packed, 2_000, seed)
    owner = None
    if owned:
        owners = mixed_of(words)[1]
        owner = int(np.bincount(owners).argmax())
        words = np.ascontiguousarray(words[owners == owner])
    partition, expected = VisitedSetPartition(packed, owner, capacity, small), set()
    for first in range(0, len(words), 300):
        batch = words[first : first + 300]
        new = new_of(partition, batch)
        assert len(new) == len(as_set(batch) - expected)
        assert as_set(batch[new]) == as_set(batch) - expected
        expected |= as_set(batch)
        assert partition.count == len(expected)
    found = partition.words()
    assert len(found) == len(expected)
    assert as_set(found) == expected
    keys, places, layout = partition.keys, partition.places, partition.layout
    numbers, looked_up = np.full(len(places), -1, np.int32), np.zeros(len(found), np.int32)
    store_entry_numbers(keys, places, layout, found, np.arange(len(found)), numbers)
    assert np.array_equal(numbers >= 0, places != 0)
    look_up_entry_flags(keys, places, layout, found, numbers, looked_up)
    assert looked_up.tolist() == list(range(len(found)))
    others, known = made_up(packed, 500, seed + 1), np.zeros(len(places), np.uint8)
    if owned:
        others = np.ascontiguousarray(others[mixed_of(others)[1] == owner])
    mark_entries_of_words(keys, places, layout, others, known)
    assert int(known.sum()) == len(as_set(others) & expected)
    partition.clear()
    assert (partition.count, len(partition.words())) == (0, 0)
    assert new_of(partition, found) == list(range(len(found)))


@pytest.mark.parametrize("bits", [38, 62, 100])
def test_tables_are_nine_tenths_full_and_small(bits: int) -> None:
    packed = packing_of(bits)
    words = np.random.default_rng(bits).integers(0, 1 << 38, (200_000, packed.words), dtype=np.uint64)
    words = np.unique(words, axis=0)
    partition = VisitedSetPartition(packed)
    partition.add_words(words)
    capacity = int(partition.layout[CAPACITY])
    assert capacity & (capacity - 1)
    assert 0.75 * capacity < partition.count == len(words) <= MAX_HASH_SET_LOAD * capacity + 1
    assert int(partition.layout[STRIDE]) + 1 == visited_entry_bytes(bits, capacity, PARTITION_BITS)
    assert 0 < partition.nbytes - capacity * visited_entry_bytes(bits, capacity, PARTITION_BITS) < 10_000
    assert partition.nbytes < 0.8 * (8 * packed.words + 2) / 0.72 * len(words)


def test_a_table_grows_where_an_entry_would_stand_too_far_from_its_home() -> None:
    packed, random = packing_of(90), np.random.default_rng(5)
    words = random.integers(0, 1 << 26, (3_000, packed.words), dtype=np.uint64)
    words[:, 0] <<= np.uint64(MIXED_BITS)
    near = np.arange(len(words), dtype=np.uint64) % 5 + (np.arange(len(words), dtype=np.uint64) // 200 << np.uint64(26))
    unmix_all(words, near)  # two hundred have nearly the same home; those of the next two hundred are near
    partition = VisitedSetPartition(packed, 0, 8_000)
    for first in range(0, len(words), 100):
        partition.add_words(words[first : first + 100])
        partition.add_words(words[: first + 100])
    assert partition.layout[CAPACITY] > 8_000
    assert partition.count == len(words)
    assert as_set(partition.words()) == as_set(words)
    assert int(partition.places.max()) >= 200


def test_a_partition_on_disk_can_be_looked_up_and_grows(tmp_path: Path) -> None:
    packed = packing_of(83)
    words, more = made_up(packed, 3_000, 1), made_up(packed, 3_000, 2)
    partition = VisitedSetPartition(packed)
    partition.add_words(words)
    partition.move(SpillArena(0, tmp_path).array)
    assert is_mapped(partition.keys)
    assert is_mapped(partition.places)
    assert new_of(partition, words) == []
    partition.add_words(more)
    assert as_set(partition.words()) == as_set(words) | as_set(more)


class SoonEnough(VisitedSet):
    """A set that is told, after so many microseconds, that what it inserts beside another thread is enough."""

    def end_after(self, microseconds: int | None) -> None:
        self._threads.enough[0] = 0
        if microseconds is not None:
            Timer(microseconds / 1e6, self._threads.enough.fill, (1,)).start()


@pytest.mark.slow
@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10**9), st.integers(1, 2))
def test_a_set_is_packed_anew_as_ids_grow(seed: int, workers: int) -> None:
    random = np.random.default_rng(seed)
    visited, expected = SoonEnough(ThreadPool(workers)), set()
    bits = [1, 1]
    for _ in range(6):
        bits = [min(31, int(n + random.integers(0, 7))) for n in bits] + [1] * int(random.integers(0, 2))
        packed = packing_for_id_counts([(1 << n) - 1 for n in bits], visited.packing.width.tolist())
        rows = np.stack([random.integers(0, 1 << n, 2_000) for n in bits], axis=1).astype(np.int32)
        words = np.zeros((len(rows), packed.words), np.uint64)
        pack_rows_of_numbers(rows, packed, words)
        part = SuccessorBuffers()
        part.put(rows, words, mixed_of(words)[1])
        expected = {(*state, *[0] * (len(bits) - len(state))) for state in expected}
        given_rows = as_set(rows)
        given, new = SuccessorsOfWorkers([part], packed, len(bits)), []
        for beside in (True, False):  # first some of them, beside a thread that soon has done its own work
            visited.end_after(int(random.integers(0, 3_000)) if beside else None)
            new += [tuple(row) for found in visited.add(given, beside=beside) for row in found.tolist()]
        assert len(new) == len(set(new))
        assert set(new) == given_rows - expected
        expected |= given_rows
        assert visited.count == len(expected)
        assert visited.nbytes == sum(one.keys.nbytes + one.places.nbytes for one in visited.partitions)
    for owner, partition in enumerate(visited.partitions):
        words = partition.words()
        states = np.empty((len(words), len(bits)), np.int32)
        unpack_rows_of_numbers(words, visited.packing, states)
        assert as_set(states) <= expected
        assert (mixed_of(words)[1] == owner).all()
        expected -= as_set(states)
    assert not expected


@pytest.mark.slow
def test_what_is_inserted_beside_another_thread_is_neither_lost_nor_new_twice() -> None:
    packed, partly = packing_of(40), 0
    words = np.unique(np.random.default_rng(1).integers(0, 1 << 40, (1 << 20, 1), dtype=np.uint64), axis=0)
    words = words[mixed_of(words)[1] == 0]  # all in one partition
    rows = np.arange(len(words), dtype=np.int32).reshape(-1, 1)
    # On a busy machine the threads may not meet at once: try on, at most 50 rounds, until an insertion was cut off.
    for microseconds in itertools.chain.from_iterable(itertools.repeat(range(0, 4_000, 200), 50)):
        if partly and not microseconds:
            break
        visited, part = SoonEnough(ThreadPool(2)), SuccessorBuffers()
        part.put(rows, words, np.zeros(len(words), np.int64))
        visited.end_after(microseconds)
        found = SuccessorsOfWorkers([part], packed, 1)
        early = np.concatenate([rows[:0], *visited.add(found, beside=True)])
        partly += 0 < len(early) < len(rows)
        late = np.concatenate([rows[:0], *visited.add(found)])
        assert np.array_equal(np.sort(np.concatenate([early, late]), axis=0), rows)
        assert visited.count == len(rows)
    assert partly


def test_what_may_grow_comes_first() -> None:
    packed = packing_of(60)
    words = np.unique(np.random.default_rng(2).integers(0, 1 << 60, (80_000, 1), dtype=np.uint64), axis=0)
    owner = mixed_of(words)[1]
    few, visited, part = (
        int(FIRST_PARTITION_CAPACITY * MAX_HASH_SET_LOAD) // 2,
        VisitedSet(ThreadPool(2)),
        SuccessorBuffers(),
    )
    counts = [2 * few + 2 if p in (9, 40) else few for p in range(PARTITION_COUNT)]
    kept = np.concatenate([np.flatnonzero(owner == p)[:count] for p, count in enumerate(counts)])
    rows = np.arange(len(words), dtype=np.int32).reshape(-1, 1)
    part.put(rows[kept], words[kept], owner[kept])
    visited.fit(packed)
    pieces = list(visited.pieces_of(SuccessorsOfWorkers([part], packed, 1)))
    assert pieces[:2] == [(8, 10), (40, 42)]
    assert pieces[-1] == (63, 64)
    assert sorted(p for first, end in pieces for p in range(first, end)) == list(range(PARTITION_COUNT))


def test_the_fields_that_grow_have_spare_bits_first() -> None:
    counts = [255, 4, 200, 1, 255, 255, 255]  # which leave four bits to spare
    assert packing_for_id_counts(counts, counts).width.tolist() == [9, 3, 8, 1, 9, 9, 9]
    assert packing_for_id_counts(counts, [255, 4, 100, 1, 255, 255, 255]).width.tolist() == [9, 3, 9, 1, 9, 9, 8]
    assert packing_for_id_counts(counts, [255, 4, 100, 1, 255, 255, 254]).width.tolist() == [9, 3, 9, 1, 9, 8, 9]


@given(st.lists(st.integers(1, 30), min_size=1, max_size=8))
def test_spare_bits_take_no_memory(bits: list[int]) -> None:
    roomy, tight = packing_for_id_counts([(1 << n) - 1 for n in bits]), packing_of_widths(bits)
    assert (roomy.words, visited_entry_bytes(roomy.bits)) == (tight.words, visited_entry_bytes(tight.bits))
    assert set((roomy.width - tight.width).tolist()) <= {0, 1}
    one_more = packing_of_widths([roomy.bits + 1])
    all_spare = roomy.bits == tight.bits + len(bits)
    larger = one_more.words, visited_entry_bytes(one_more.bits)
    assert all_spare or larger != (tight.words, visited_entry_bytes(tight.bits))

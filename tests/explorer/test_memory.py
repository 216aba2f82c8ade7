"""Searches within little memory: the visited states go to disk, and nothing else changes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kraftcheck import Protocol, Record, State, Steps, become, internal
from kraftcheck.explorer.result import Search, SearchRequest, Verdict
from kraftcheck.explorer.tables.engine import explore
from kraftcheck.explorer.tables.level_states import MemoUsage, deep_size_in_bytes
from kraftcheck.explorer.tables.rows import (
    PARTITION_COUNT,
    STATES_A_BATCH,
    BitPacking,
    Rows,
    SuccessorsOfWorkers,
    packing_of_widths,
)
from kraftcheck.explorer.tables.searches.bfs import BreadthFirstSearch
from kraftcheck.explorer.tables.visited import LEAST_BATCH_STATES, MemoryBudget, VisitedArchive, VisitedSetPartition
from kraftcheck.kraft_model.reconfig import Reconfig
from kraftcheck.processes import machine_memory_bytes
from kraftcheck.spec.cfg.binding import bind, with_assignments
from kraftcheck.spec.cfg.config import parse_setting, read_config
from kraftcheck.spec.errors import InputError
from tests.support.explorer.comparison import TEN_MILLION, found
from tests.support.explorer.random_protocols import sample
from tests.support.sizes import sizes
from tests.support.tlc import COUNTS, MCReconfig, bound, expected

pytestmark = pytest.mark.kernel


class Walker(Record):
    id: int
    at: int = 0
    memo: str = ""


class Nothing(Record):
    pass


class Watched(BreadthFirstSearch):
    """Notes the most that it holds in memory, how often it settles, and how often it packs anew on disk."""

    def __init__(self, protocol: Protocol, options: SearchRequest, workers: int, batch: int = STATES_A_BATCH) -> None:
        super().__init__(protocol, options, workers, batch)
        self.most_visited = self.most_rows = self.settlements = self.repackings = 0

        insert, merge_candidates = self.states.visited._insert, self.states.visited.merge_candidates

        def counted_insert(found: SuccessorsOfWorkers) -> list[Rows]:
            before = self.states.visited.archive
            new = insert(found)
            self.repackings += before is not None and self.states.visited.archive is not before
            return new

        def counted_settle() -> Iterator[Rows]:
            self.settlements += self.states.visited.archive is not None
            return merge_candidates()

        self.states.visited._insert, self.states.visited.merge_candidates = counted_insert, counted_settle  # type: ignore[method-assign]

    def _between_batches(self) -> None:
        self.most_visited = max(self.most_visited, self.states.visited.in_memory.nbytes)
        self.most_rows = max(self.most_rows, self.levels.nbytes, self.states.visited.candidates.nbytes)
        super()._between_batches()


@pytest.mark.parametrize("examples", sizes(1, 8))
def test_random_protocols(examples: int) -> None:
    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(seed=st.integers(0, 10**9), memory=st.sampled_from((1, 20_000, 100_000)), workers=st.integers(1, 2))
    def check(seed: int, memory: int, workers: int) -> None:
        for drawn in sample(1, seed=seed, large=300, most=2_000):
            options = drawn.description.options(drawn.protocol)
            search = Watched(
                drawn.protocol, replace(options, memory=memory), workers, Random(seed).choice((7, 40, 300))
            )
            assert found(search.run()) == found(drawn.result), drawn.description

    check()


@pytest.mark.parametrize(
    ("symmetry", "workers"),
    [
        *(pytest.param(*case, marks=pytest.mark.slow) for case in ((None, 2), ("symmHostsAndValues", 1))),
        *(pytest.param(*case, marks=pytest.mark.exhaustive) for case in ((None, 1), ("symmHostsAndValues", 2))),
    ],
)
def test_a_tenth_of_what_it_needs(symmetry: str | None, workers: int) -> None:
    protocol = bound("counts/two-voters-two-values-remove").protocol
    options = SearchRequest(
        properties=tuple(p for p in protocol.properties.values() if p.kind.endswith("invariant")),
        deadlock=False,
        symmetry=symmetry,
    )
    roomy = Watched(protocol, options, workers)
    whole = roomy.run()
    assert roomy.states.visited.archive is None
    if symmetry is None:
        assert whole.distinct_states == expected()["two-voters-two-values-remove"]["distinct_states"]
    memory = (roomy.most_visited + roomy.most_rows) // 10
    search = Watched(protocol, replace(options, memory=memory), workers)
    assert found(search.run()) == found(whole)
    assert search.states.visited.archive is not None
    assert search.states.visited.archive.count == whole.distinct_states
    assert search.settlements > 20
    assert search.repackings > 0
    assert search.most_rows <= memory // 8
    assert search.most_visited <= max(
        memory // 2, PARTITION_COUNT * VisitedSetPartition(packing_of_widths([64])).nbytes * 1.4
    )


@pytest.mark.exhaustive
def test_a_tenth_of_what_ten_million_states_need() -> None:
    name, given_settings, distinct, generated, depth = TEN_MILLION
    config = read_config(COUNTS / f"{name}.cfg")
    protocol = bind(
        Reconfig, with_assignments(config, [parse_setting(text, config) for text in given_settings])
    ).protocol
    options = SearchRequest(deadlock=False)
    roomy = Watched(protocol, options, 2)
    whole = roomy.run()
    assert (whole.distinct_states, whole.generated_states, whole.depth) == (distinct, generated, depth)
    memory = (roomy.most_visited + 4 * roomy.expander.width * distinct) // 10 + learned_by(roomy)
    search = Watched(protocol, replace(options, memory=memory), 2)
    assert found(search.run()) == found(whole)
    assert search.most_visited <= memory // 2


@pytest.mark.slow
def test_counterexamples_are_shortest_and_the_first_ends_the_search() -> None:
    protocol = bound("counts/two-voters-remove").protocol
    properties = tuple(p for p in protocol.properties.values() if p.name == "NoIllegalState")
    config = bound("counterexamples/joined", MCReconfig)
    for options in (
        SearchRequest(properties=properties, keep_going=True),
        SearchRequest(properties=config.properties, deadlock=False),
    ):
        searched = protocol if options.properties is properties else config.protocol
        whole = BreadthFirstSearch(searched, options, 1).run()
        assert whole.violations
        result = BreadthFirstSearch(searched, replace(options, memory=1), 1).run()
        assert [(v.property, len(v.trace)) for v in result.violations] == [
            (v.property, len(v.trace)) for v in whole.violations
        ]
        assert result.verdict == whole.verdict


def test_limit_on_states() -> None:
    protocol = bound("counts/two-voters-restart").protocol
    result = BreadthFirstSearch(protocol, SearchRequest(deadlock=False, memory=1, max_states=3_000), 1, batch=50).run()
    assert (result.distinct_states, result.limit) == (3_000, "max_states")


def test_depth_first_searches_have_no_limit_of_memory() -> None:
    protocol = bound("counts/two-voters").protocol
    with pytest.raises(InputError, match="--memory: not supported by --search dfs; expected --search bfs"):
        explore(protocol, SearchRequest(search=Search.DFS, memory=1 << 20))


# The pieces


def words_of(numbers: range, packed: BitPacking) -> np.ndarray:
    """Return the packed words of made-up states; those of a number are always the same."""
    words = np.random.default_rng(7).integers(0, 1 << 62, (numbers.stop, packed.words), dtype=np.uint64)
    words[:, -1] &= np.uint64((1 << (packed.bits - 64 * (packed.words - 1))) - 1)
    return words[numbers.start :]


@pytest.mark.parametrize("fields", [2, 7])
def test_an_archive_knows_its_states(fields: int, tmp_path: Path) -> None:
    packed = packing_of_widths([29] * fields)
    archive, partition = VisitedArchive(packed, tmp_path), VisitedSetPartition(packed)
    for first in range(0, 40_000, 1_000):  # in pieces, among those of other partitions
        archive.append(3, words_of(range(first, first + 1_000), packed))
        archive.append(5, words_of(range(first, first + 7), packed))
    assert archive.count == 40_280
    assert sum(map(len, archive.chunks(3))) == 40_000
    assert len(list(archive.chunks(3))) <= 10  # what is appended in small pieces is read in large ones
    partition.add_words(words_of(range(39_000, 42_000), packed))
    known = archive.known(3, partition)
    assert known.sum() == 1_000
    partition.add_words(words_of(range(500, 510), packed))
    assert archive.known(3, partition).sum() == 1_010
    assert archive.known(4, partition).sum() == 0
    assert list(tmp_path.iterdir()) == []
    archive.close()


def test_an_archive_is_packed_anew() -> None:
    old, new = packing_of_widths([20, 30, 20]), packing_of_widths([25, 40, 30, 7])
    archive = VisitedArchive(old)
    random = np.random.default_rng(3)
    low = random.integers(0, 1 << 62, 5_000, dtype=np.uint64)
    words = np.stack([low, np.zeros_like(low), np.zeros_like(low)], axis=1)[:, : old.words]
    for p in range(PARTITION_COUNT):
        archive.append(p, np.ascontiguousarray(words[p::PARTITION_COUNT]))
    again = archive.repacked(old, new)
    assert again.count == 5_000
    assert sum(len(chunk) for p in range(PARTITION_COUNT) for chunk in again.chunks(p)) == 5_000
    assert len({bytes(row) for p in range(PARTITION_COUNT) for chunk in again.chunks(p) for row in chunk}) == 5_000
    again.close()


def test_budgets() -> None:
    budget = MemoryBudget.of(80 << 20)
    assert budget == MemoryBudget(40 << 20, 10 << 20, 20 << 20)
    assert budget.entries(64) * 7 < budget.visited
    assert budget.batch(STATES_A_BATCH, columns=4, workers=2) == (20 << 20) // (2 * 2 * 12 * 4 * 4)
    assert MemoryBudget.of(1).batch(STATES_A_BATCH, columns=4, workers=2) == LEAST_BATCH_STATES
    assert MemoryBudget.of(1).batch(50, columns=4, workers=2) == 50
    everything = MemoryBudget.of(None)
    assert 1 << 24 < everything.visited < machine_memory_bytes()
    assert everything.rows <= 1 << 25


# What is learned


def learned_by(search: BreadthFirstSearch) -> int:
    return sum(one.nbytes for one in MemoUsage(search.expander.learner).kinds())


@pytest.mark.slow
def test_what_is_learned_counts_and_states_go_to_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    protocol, options = bound("counts/two-voters-restart").protocol, SearchRequest(deadlock=False)
    roomy = Watched(protocol, options, 1, batch=300)
    whole = roomy.run()
    monkeypatch.setattr("kraftcheck.explorer.tables.visited.LEAST_MEMO_BYTES", 0)
    monkeypatch.setattr("kraftcheck.explorer.tables.visited.LEAST_STATE_SHARE_DIVISOR", 64)
    memory = 64 * learned_by(roomy) // 63 + (1 << 14)
    search = Watched(protocol, replace(options, memory=memory), 1, batch=300)
    assert found(search.run()) == found(whole)
    assert search.states.visited.archive is not None
    assert search.states.memory.budget.visited < MemoryBudget.of(memory).visited // 2
    assert learned_by(search) + search.levels.nbytes <= memory


class Remembers(Protocol):
    """Learns a great deal: each of its states is one of its replica's that no other state has."""

    def initial(self) -> Iterator[State]:
        yield self.start([Walker(1)], Nothing())

    @internal
    def walk(self, me: Walker) -> Steps:
        yield become(me.but(at=me.at + 1, memo=f"{me.at:20000}"))


def test_only_what_is_learned_ends_the_search_and_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("kraftcheck.explorer.tables.visited.LEAST_MEMO_BYTES", 0)
    options = SearchRequest(memory=3 << 20, checkpoint=tmp_path / "kept", max_depth=3_000)
    result = explore(Remembers(), options)
    assert (result.verdict, result.limit) == (Verdict.INCOMPLETE, "memory")
    (told,) = result.notes[:1]
    assert re.match(
        r"the model's memo tables take 3 MiB, and --memory leaves them 3 MiB: \d+ replica states \d MiB, .*"
        r"; most calls: Walk, \d+ times; they stay in memory: raise --memory, or use smaller bounds",
        told,
    ), told
    again = explore(
        Remembers(), replace(options, memory=None, checkpoint=None, resume=tmp_path / "kept", max_depth=100)
    )
    assert again.distinct_states > result.distinct_states
    assert again.limit == "max_depth"


def test_how_much_a_value_takes() -> None:
    shared = "x" * 50_000
    one = deep_size_in_bytes([Walker(1, memo=shared)])
    assert one > 50_000
    assert deep_size_in_bytes([Walker(1, memo=shared), Walker(2, memo=shared)]) < one + 1000

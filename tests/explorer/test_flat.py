"""Flat states: the same search without control rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from kraftcheck import load
from kraftcheck.explorer.reference import explore
from kraftcheck.explorer.result import SearchRequest
from kraftcheck.explorer.tables import expander as expanding
from kraftcheck.explorer.tables import layouts
from kraftcheck.explorer.tables import rows as working
from kraftcheck.explorer.tables import visited as visiting
from kraftcheck.explorer.tables.kernel.flat import facts
from kraftcheck.explorer.tables.kernel.flat.batches import resolve_flat_misses
from kraftcheck.explorer.tables.rows import BitPacking, WorkerBuffers
from kraftcheck.explorer.tables.searches.bfs import BreadthFirstSearch
from kraftcheck.explorer.tables.visited import SpillingSet
from kraftcheck.explorer.transition_system import canonicalizer
from kraftcheck.spec import Map, Protocol, Record, State, Step, Steps, become, environment, internal, projection
from kraftcheck.spec.examples.two_phase_commit import TwoPhaseCommit
from kraftcheck.spec.values import ModelValue
from tests.support.explorer.agreement import check_agreement, compared
from tests.support.explorer.random_protocols import sample
from tests.support.sizes import sizes

pytestmark = pytest.mark.kernel


@pytest.mark.parametrize("examples", sizes(3, 20))
def test_random_protocols_agree_where_states_are_flat(examples: int, laid_out: list[bool]) -> None:
    for number, found in enumerate(sample(examples, seed=4_712, large=60, most=1_000)):
        check_agreement(found, 1 + number % 2)
    assert laid_out.count(True) >= examples // 2


@pytest.mark.parametrize("examples", sizes(2, 20))
def test_random_protocols_agree_where_columns_are_packed_together(
    examples: int, packed_together: list[list[list[int]]]
) -> None:
    for number, found in enumerate(sample(examples, seed=4_713, large=60, most=1_000)):
        check_agreement(found, 1 + number % 2)
    several = [sum(len(field) > 1 for field in fields) for fields in packed_together]
    assert sum(count > 0 for count in several) >= examples // 2
    assert max(several) > 1


class Node(Record):
    id: ModelValue
    count: int = 0


class World(Record):
    joined: bool = False


class Joining(Protocol):
    """Three nodes count to four; when all are at three, a fourth node joins, for which flat states have no column."""

    def initial(self) -> Iterator[State]:
        yield self.start([Node(ModelValue(f"n{number}", number)) for number in (1, 2, 3)], World())

    @projection
    def counts(self, me: Node) -> int:
        return me.count

    @internal
    def up(self, me: Node) -> Steps:
        if me.count < 4:
            yield become(me.but(count=me.count + 1))

    @environment(reads=counts)
    def join(self, shared: World, counts: Map[ModelValue, int]) -> Steps:
        if not shared.joined and set(counts.values()) == {3}:
            yield Step().put(joined=True).write(Node(ModelValue("n4", 4)))


@pytest.mark.slow
def test_states_on_disk_are_flat_and_have_control_rows_again(
    laid_out: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replica appears for which flat states have no column, while states are on disk; random protocols besides."""
    emptied: list[bool] = []
    empty = SpillingSet.empty

    def noting(visited: SpillingSet, packing: BitPacking, states: int) -> None:
        emptied.append(visited.archive is not None)
        empty(visited, packing, states)

    monkeypatch.setattr(SpillingSet, "_is_full", lambda visited: visited.in_memory.count > 15)
    monkeypatch.setattr(SpillingSet, "empty", noting)
    for found in sample(1, seed=19, large=60, most=1_000):
        check_agreement(found, 2)
    protocol, options = Joining(), SearchRequest(deadlock=False)
    expected, result = explore(protocol, options), BreadthFirstSearch(protocol, options, 2).run()
    assert compared(result) == compared(expected)
    assert result.depth == expected.depth
    assert len(emptied) == len(laid_out)
    assert (False, True) in zip(laid_out, emptied, strict=True)


@pytest.mark.slow
def test_states_on_disk_are_packed_together(
    packed_together: list[list[list[int]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What columns hold together keeps its number while states go to disk, and candidates are packed again."""
    spilled: list[bool] = []
    spill = SpillingSet.spill

    def noting(visited: SpillingSet) -> None:
        spilled.append(bool(visited.in_memory.packing.clusters.any()))
        spill(visited)

    monkeypatch.setattr(SpillingSet, "_is_full", lambda visited: visited.in_memory.count > 40)
    monkeypatch.setattr(SpillingSet, "spill", noting)
    for number, found in enumerate(sample(2, seed=4_712, large=60, most=1_000)):
        check_agreement(found, 1 + number % 2)
    assert packed_together
    assert True in spilled


@pytest.mark.slow
def test_no_state_is_there_twice_under_a_view(laid_out: list[bool]) -> None:
    """What a control row looks like is known as soon as states have control rows again."""
    *_, found = sample(3, seed=1_101, large=60, most=1_000)
    options = replace(found.description.options(found.protocol), view="patient", symmetry=None)
    search = BreadthFirstSearch(found.protocol, options, 1, batch=7)
    search.run()
    identity, decode = canonicalizer(found.protocol, None, "patient"), search.expander.learner.interner.decode_state
    seen = Counter(identity(decode(row)) for level in search.levels for rows in level for row in rows)
    assert max(seen.values()) == 1
    assert False in laid_out


@pytest.mark.slow
def test_buffers_fit_while_what_is_missing_is_made(laid_out: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """A state with many successors makes a worker's buffers larger, but only after others of its batch were served."""
    full: list[bool] = []

    def fitting(packing: BitPacking, tables: object, worker: WorkerBuffers) -> None:
        full.append(worker.stats[expanding.codes.STATS_CODE] == expanding.codes.MANY_SUCCESSORS)
        assert len(worker.words) == len(worker.succ) + 1
        assert len(worker.broken) >= len(worker.succ)
        resolve_flat_misses(packing, tables, worker)

    monkeypatch.setattr(layouts, "resolve_flat_misses", fitting)
    monkeypatch.setattr(working, "FIRST_ROOM_A_STATE", 4)
    monkeypatch.setattr(expanding, "MOST_SERIAL_STATES", 2)
    monkeypatch.setattr(visiting, "MOST_SERIAL_STATES", 2)
    for found in sample(2, seed=4_712, large=60, most=1_000):
        check_agreement(found, 2)
    assert True in laid_out
    assert True in full


@pytest.mark.parametrize("symmetry", [None, "symmRM"])
def test_a_step_to_the_same_state_counts(laid_out: list[bool], symmetry: str | None) -> None:
    """Who hears a decision again, or that someone is prepared, stays as it is: two fifths of all steps."""
    managers = frozenset(ModelValue(f"rm{number}", number) for number in range(1, 4))
    protocol = TwoPhaseCommit(resource_managers=managers)
    options = SearchRequest(properties=tuple(protocol.properties.values()), symmetry=symmetry)
    expected = explore(protocol, options)
    found = BreadthFirstSearch(protocol, options, 1).run()
    counts = [(one.distinct_states, one.generated_states, one.depth, one.actions) for one in (expected, found)]
    assert counts[0] == counts[1]
    assert True in laid_out


@pytest.mark.slow
def test_facts_are_forgotten_where_numbers_run_out(laid_out: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """Few contents of the shared fields have numbers, and few things that replicas may do have a place."""
    seen: list[tuple[int, int]] = []
    forget = layouts.allocate_empty_fact_memo

    def noting(worker: WorkerBuffers, shared: int) -> None:
        if len(worker.fact_counts):
            counts = worker.fact_counts
            seen.append((int(counts[facts.AT_CONTENTS_SELDOM_REPEAT]), int(counts[facts.AT_NUMBERS])))
        forget(worker, shared)

    monkeypatch.setattr(facts, "MOST_SHARED_CONTENT_NUMBERS", 4)
    monkeypatch.setattr(facts, "LISTED_NODES_CAPACITY", 16)
    monkeypatch.setattr(layouts, "allocate_empty_fact_memo", noting)
    for found in sample(3, seed=4_712, large=60, most=1_000):
        check_agreement(found, 2)
        search = BreadthFirstSearch(found.protocol, found.description.options(found.protocol), 1)
        search.run()
        for worker in search.expander.pool:
            noting(worker, 1)
    assert True in laid_out
    assert any(unlike for unlike, _ in seen)
    assert any(numbered for _, numbered in seen)
    assert max(numbered for _, numbered in seen) < 4


@pytest.mark.exhaustive
def test_eight_million_states_are_packed_together() -> None:
    """The counts are those that were found before columns were packed together, and with control rows."""
    job = load("registration", "large").job(workers=2)
    search = BreadthFirstSearch(job.protocol, job.options, 2)
    result = search.run()
    assert (result.distinct_states, result.generated_states, result.depth) == (8_213_507, 40_253_577, 40)
    assert any(len(field) > 1 for field in search.expander.layout.fields)

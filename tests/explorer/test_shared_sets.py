"""Shared sets that are taken apart: what is read of them, element by element, and what steps change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.models.paxos_msgs import PaxosMsgs
from kraftcheck import check, load
from kraftcheck.explorer.tables.learning import shared_sets
from kraftcheck.explorer.tables.learning.shared_sets import KnownElementsWithTests
from kraftcheck.spec import Protocol, State, Steps, become, internal, invariant
from tests.support.explorer.boards import Board, Boards, Line, Turns, TwoBoards, Votes, Writer, take_apart_at

pytestmark = pytest.mark.kernel


def result_of(engine: str) -> tuple[Any, ...]:
    found = load(Boards).check(engine=engine, keep_going=True, deadlock=False, max_depth=6)
    told = sorted((one.property, len(one.trace)) for one in found.violations)
    return found.distinct_states, found.generated_states, found.depth, dict(found.actions), told


@pytest.mark.slow
def test_both_engines_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = result_of("reference")
    assert len(expected[-1]) == 2, "sets are read in properties too"
    for values in (2, 5):
        take_apart_at(values, monkeypatch)
        assert result_of("tables") == expected


class InPlace(Protocol):
    """A set of the method's own is changed in place, under another name; a field is written twice."""

    def initial(self) -> Iterator[State]:
        yield self.start([Writer(1)], Board())

    def put_in(self, found: set[Any], more: frozenset[Any]) -> None:
        found |= more

    @internal
    def add(self, me: Writer, shared: Board) -> Steps:
        for number in range(4):
            if Line(1, number) not in shared.lines:
                yield become(me).put(lines=shared.lines | {Line(1, number)})

    @internal
    def look(self, me: Writer, shared: Board) -> Steps:
        missing = {Line(1, 1), Line(1, 2)}
        kept = missing
        missing -= shared.lines
        if not kept and me.seen == 0:
            yield become(me.but(seen=1)).put(lines=shared.lines - {Line(1, 1)}).put(lines=frozenset({Line(1, 3)}))
            yield become(me.but(seen=2)).put(lines=frozenset({Line(1, 3)})).put(lines=shared.lines - {Line(1, 1)})

    @invariant
    def few(self, shared: Board) -> bool:
        found: set[Any] = set()
        self.put_in(found, shared.lines)
        return len(found) < 4

    @invariant
    def one(self, state: State) -> bool:
        found = {Line(1, 0), Line(1, 2), Line(1, 3)}
        kept = found
        found &= state.shared.lines
        return len(kept) < 2 or state.replicas[1].seen < 2


def test_what_is_changed_in_place_has_two_names(monkeypatch: pytest.MonkeyPatch) -> None:
    take_apart_at(2, monkeypatch)
    expected, found = (
        check(InPlace(), engine=engine, deadlock=False, keep_going=True) for engine in ("reference", "tables")
    )
    assert [one.property for one in expected.violations] == ["Few", "One"]
    assert sorted((one.property, len(one.trace)) for one in found.violations) == sorted(
        (one.property, len(one.trace)) for one in expected.violations
    )
    assert (found.distinct_states, found.generated_states) == (expected.distinct_states, expected.generated_states)


def test_columns_of_one_set_move_those_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    take_apart_at(2, monkeypatch)
    monkeypatch.setattr(shared_sets, "ELEMENTS_A_COLUMN", 1)
    expected, found = (
        check(TwoBoards(), engine=engine, deadlock=False, keep_going=True) for engine in ("reference", "tables")
    )
    assert found.distinct_states == expected.distinct_states == 7 * 2**3
    assert found.actions == expected.actions
    assert [len(one.trace) for one in found.violations] == [len(one.trace) for one in expected.violations] == [7]


@pytest.mark.parametrize(
    "elements", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(31, marks=pytest.mark.slow)]
)
def test_sets_explode_under_symmetry(elements: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    take_apart_at(2, monkeypatch)
    monkeypatch.setattr(shared_sets, "ELEMENTS_A_COLUMN", elements)
    config = tmp_path / "votes.cfg"
    config.write_text("CONSTANT Voters = {v1, v2, v3} INVARIANT Few SYMMETRY Everybody CHECK_DEADLOCK FALSE\n")
    expected, found, resumed = (
        load(Votes, config).check(engine=engine, keep_going=True, max_depth=5, **options)
        for engine, options in (
            ("reference", {}),
            ("tables", {"checkpoint": tmp_path / "c"}),
            ("tables", {"resume": tmp_path / "c"}),
        )
    )
    for one in (found, resumed):
        assert (one.distinct_states, one.generated_states) == (expected.distinct_states, expected.generated_states)
        assert one.actions == expected.actions
        assert [len(one.trace) for one in one.violations] == [len(one.trace) for one in expected.violations]
    assert expected.violations


@pytest.mark.parametrize("elements", [1, 31])
def test_sets_explode_under_fairness(elements: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def result(engine: str) -> tuple[int, dict[str, int], list[str]]:
        found = load(Turns).check(engine=engine, keep_going=True, deadlock=False)
        return found.distinct_states, dict(found.actions), sorted(one.property for one in found.violations)

    take_apart_at(2, monkeypatch)
    monkeypatch.setattr(shared_sets, "ELEMENTS_A_COLUMN", elements)
    expected = result("reference")
    assert result("tables") == expected
    assert expected[2] == ["FillsAndDrops", "NeverFills", "WipesOrDrops"]


def test_paxos_is_asked_message_by_message(tmp_path: Path) -> None:
    config = tmp_path / "small.cfg"
    config.write_text(
        "CONSTANTS Acceptor = {a1, a2, a3} Value = {v1, v2} Quorum = {{a1, a2}, {a1, a3}, {a2, a3}} MaxBallot = 1\n"
        "INVARIANTS OneChosen VotesAreSent\n"
    )
    found = load(PaxosMsgs, config).check(deadlock=False)
    assert (found.distinct_states, found.generated_states, found.depth) == (3_921, 22_995, 17)
    assert sum(found.handler_calls.values()) < 1_000, "of 39,000 that sets as a whole would take"


def test_a_loop_may_change_what_its_test_looks_at() -> None:
    found, limit, asked = [], 1, []
    known = {number: number for number in range(6)}
    candidates = KnownElementsWithTests(known, {}, lambda *_: True, lambda *test: asked.append(test))
    for number in candidates.passing(lambda one: one <= limit, candidates.has_at):  # noqa: B023
        found.append(number)
        limit = number + 2 if number < 3 else limit
    assert found == [0, 1, 2, 3, 4]
    assert [key[2:] for key, _ in asked] == [((int, 4),)]


def test_a_loop_may_change_its_test_at_the_last_known_element() -> None:
    """A new element meets the test that the loop left."""
    limit, asked = 3, []
    known = {number: number for number in range(4)}
    candidates = KnownElementsWithTests(known, {}, lambda *_: True, lambda *test: asked.append(test))
    for number in candidates.passing(lambda one: one <= limit, candidates.has_at):  # noqa: B023
        limit = 5 if number == 3 else limit
    assert [key[2:] for key, _ in asked] == [((int, 5),)]

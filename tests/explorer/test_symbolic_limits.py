"""The symbolic engine at its limits: it counts what it has, collects garbage, and stops with a verdict that stands."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kraftcheck import load
from kraftcheck.cli import main
from kraftcheck.explorer.result import SearchRequest, Verdict
from kraftcheck.explorer.symbolic import engine, violations
from kraftcheck.explorer.symbolic.diagram_store import DiagramStore
from kraftcheck.explorer.symbolic.engine import explore
from kraftcheck.explorer.symbolic.kernel import diagram as codes
from kraftcheck.explorer.symbolic.kernel.projections import (
    FEWEST_SUMMARIES_TO_DROP,
    MOST_SUMMARIES_A_NODE,
    reserve_summary_room,
)
from kraftcheck.explorer.symbolic.violations import CounterexampleTimeout, WitnessPathFinder
from tests.support.kraft_model.searches import bound as configured
from tests.support.kraft_model.searches import check_trace
from tests.support.tlc import bound, expected

pytestmark = pytest.mark.kernel

SEARCHES = ("saturation", "chaining", "bfs")
NAME = "two-voters-two-elections"


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return what has a number for each time that garbage is collected."""
    times: list[int] = []
    collect = DiagramStore.collect_garbage

    def collect_and_count(store: DiagramStore, roots: list[int]) -> list[int]:
        times.append(len(times))
        return collect(store, roots)

    monkeypatch.setattr(DiagramStore, "collect_garbage", collect_and_count)
    return times


@pytest.mark.slow
def test_garbage_that_is_collected_within_saturation_changes_no_count(monkeypatch: pytest.MonkeyPatch) -> None:
    times = counted(monkeypatch)
    result = explore(
        bound(f"counts/{NAME}").protocol, SearchRequest(search="saturation", deadlock=False, max_nodes=10_000)
    )
    assert times
    assert (result.verdict, result.distinct_states) == (Verdict.OK, expected()[NAME]["distinct_states"])


def test_garbage_that_is_collected_changes_no_counterexample(monkeypatch: pytest.MonkeyPatch) -> None:
    times, given = counted(monkeypatch), configured("registration", None, "not-durable")
    result = explore(given.protocol, SearchRequest.of(given, search="saturation", max_nodes=1_350))
    assert times
    assert [len(violation.trace) for violation in result.violations] == [7]


def test_a_limit_of_nodes_is_why_properties_were_not_checked() -> None:
    note = "properties were not checked on the states found so far: --max-nodes"
    assert note in load("paxos").check(engine="symbolic", max_nodes=5).notes


@pytest.mark.slow
@pytest.mark.parametrize("order", SEARCHES)
def test_a_search_that_a_limit_of_nodes_stops_counts_no_more_than_there_is(order: str) -> None:
    result = explore(bound(f"counts/{NAME}").protocol, SearchRequest(search=order, deadlock=False, max_nodes=3_000))
    assert (result.verdict, result.limit) == (Verdict.INCOMPLETE, "max_nodes")
    assert 0 < result.distinct_states < expected()[NAME]["distinct_states"]


@pytest.mark.parametrize("order", SEARCHES)
def test_a_search_that_the_clock_stops_counts_what_it_has(order: str) -> None:
    result = explore(bound(f"counts/{NAME}").protocol, SearchRequest(search=order, deadlock=False, time_limit=1e-6))
    assert (result.verdict, result.limit) == (Verdict.INCOMPLETE, "time_limit")
    assert 0 < result.distinct_states < expected()[NAME]["distinct_states"]


def gives_up(*_: object) -> None:
    raise CounterexampleTimeout


@pytest.mark.slow
def test_where_no_shortest_counterexample_is_found_in_time_another_is(monkeypatch: pytest.MonkeyPatch) -> None:
    given = configured("registration", None, "not-durable")
    monkeypatch.setattr(WitnessPathFinder, "shortest", gives_up)
    result = explore(given.protocol, SearchRequest.of(given, search="saturation"))
    (violation,) = result.violations
    assert (violation.property, result.verdict) == ("ToldIsKept", Verdict.VIOLATION)
    assert "ToldIsKept: no shortest counterexample was found within" in result.notes[0]
    check_trace(given, violation.trace)


@pytest.mark.slow
def test_the_verdict_stands_where_no_counterexample_is_found_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    given = configured("registration", None, "not-durable")
    monkeypatch.setattr(WitnessPathFinder, "shortest", gives_up)
    monkeypatch.setattr(WitnessPathFinder, "any", gives_up)
    result = explore(given.protocol, SearchRequest.of(given, search="saturation"))
    (violation,) = result.violations
    assert (violation.property, len(violation.trace), result.verdict) == ("ToldIsKept", 1, Verdict.VIOLATION)
    assert "no behaviour that leads to the state shown was found; use --search bfs" in result.notes[2]


@pytest.mark.slow
@pytest.mark.parametrize("search", ["saturation", "chaining"])
def test_a_search_whose_violation_has_no_behaviour_is_resumed(
    search: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = configured("registration", None, "not-durable")
    asked = SearchRequest.of(given, search=search)
    with monkeypatch.context() as patch:
        patch.setattr(WitnessPathFinder, "shortest", gives_up)
        patch.setattr(WitnessPathFinder, "any", gives_up)
        (violation,) = explore(given.protocol, replace(asked, checkpoint=tmp_path)).violations
        assert len(violation.trace) == 1
    (violation,) = explore(given.protocol, replace(asked, resume=tmp_path)).violations
    assert len(violation.trace) == 7


@pytest.mark.slow
def test_notes_say_where_the_nodes_are_and_which_engine_may_be_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    given = configured("registration", None, "not-durable")
    asked = SearchRequest.of(given, search="bfs")
    monkeypatch.setattr(engine, "TABLES_LEARNING_SECONDS", 1_000)
    assert len(explore(given.protocol, asked).notes) == 1
    monkeypatch.setattr(engine, "TABLES_LEARNING_SECONDS", -100)
    monkeypatch.setattr(violations, "FEWEST_NAMED_NODES", 1)
    named, faster = explore(given.protocol, asked).notes[-2:]
    assert re.fullmatch(
        r"most nodes belong to (the (state of|messages to|field|bound) [^,]+ \([\d,]+\)(, )?){3}", named
    )
    assert "--engine tables may be faster" in faster


@pytest.mark.slow
def test_the_command_line_has_a_limit_of_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["check", "registration", "--config", "smoke", "--engine", "symbolic", "--max-nodes", "1100", "--quiet"]
    assert main(command) == 20
    assert "stopped at --max-nodes" in capsys.readouterr().out


def test_projections_that_are_needed_together_are_not_dropped_for_ever() -> None:
    """Where few nodes are new since projections were dropped there is room for more, or a walk would never end."""
    store = DiagramStore(3, 1 << 20, lambda *_: 0)
    d, meta = store.arrays, store.arrays.meta
    full = FEWEST_SUMMARIES_TO_DROP + MOST_SUMMARIES_A_NODE * 100
    meta[codes.META_NODES], meta[codes.META_SUMMARY_ENTRIES] = 100, full
    assert reserve_summary_room(d, 10)
    assert (meta[codes.META_SUMMARY_ENTRIES], meta[codes.META_NODES_AT_DROP]) == (1, 100)
    for more in (1, 2):
        meta[codes.META_SUMMARY_ENTRIES] = full = more * FEWEST_SUMMARIES_TO_DROP + MOST_SUMMARIES_A_NODE * 100
        assert reserve_summary_room(d, 10)
        assert (
            meta[codes.META_SUMMARY_ENTRIES],
            meta[codes.META_EXTRA_SUMMARIES] > more * FEWEST_SUMMARIES_TO_DROP,
        ) == (
            full,
            True,
        )
    meta[codes.META_SUMMARY_ENTRIES] = len(d.summaries)
    assert not reserve_summary_room(d, 10)
    meta[codes.META_NODES] = 200
    assert reserve_summary_room(d, 10)


@pytest.mark.parametrize("order", ["saturation", "chaining"])
def test_what_is_known_at_a_limit_is_checked(order: str) -> None:
    given = configured("quorum", "finding.fails-acknowledged")
    found = explore(given.protocol, SearchRequest.of(given, search=order, symmetry=None, max_nodes=1024))
    (violation,) = found.violations
    assert (found.limit, found.verdict, violation.property) == ("max_nodes", Verdict.VIOLATION, "NobodyFails")
    check_trace(given, violation.trace)


@pytest.mark.slow
def test_few_nodes_with_many_edges_heed_the_time_limit() -> None:
    """Duplicated messages have no bound: the values of one variable grow, and hardly any node is new."""
    words = ["check", "lock-service", "--config", "smoke", "--variant", "impatient-server", "--engine", "symbolic"]
    command = [sys.executable, "-m", "kraftcheck", *words, "--time-limit", "1", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 20, done.stderr
    assert "stopped at --time-limit" in done.stdout

"""Of several shortest counterexamples the same one is told in every run, whatever the order of discovery."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kraftcheck import load
from kraftcheck.api import explain
from kraftcheck.catalogue import SearchJob
from kraftcheck.explorer.tables.searches.bfs import COUNTEREXAMPLE_MAY_DIFFER_NOTE, BreadthFirstSearch
from kraftcheck.spec import Protocol, invariant
from kraftcheck.spec.examples.lock_service import Client, Grant, ImpatientServer, Phase

pytestmark = pytest.mark.kernel
ORDERS = [(1, 1 << 15, 1), (2, 1 << 15, 1), (1, 3, -1), (2, 50, 1), (1, 50, -1)]
"""Threads, states that are expanded together, and which way those found together go: all orders of discovery."""


class SecondLock(ImpatientServer):
    """Its invariant reads a client together with a message: Python evaluates it."""

    @invariant
    def nobody_holds_another(self, me: Client, message: Grant) -> bool:
        """No lock is granted while somebody holds it."""
        return me.phase is not Phase.HOLDING


def told(
    protocol: type[Protocol], config: Path, order: tuple[int, int, int], **options: Any
) -> tuple[list[str], list[str]]:
    return told_by(load(protocol, config).job(**options), order)


def told_by(job: SearchJob, order: tuple[int, int, int]) -> tuple[list[str], list[str]]:
    workers, batch, way = order
    search = BreadthFirstSearch(job.protocol, job.options, workers, batch)
    append = search.levels.append
    search.levels.append = lambda rows: append(rows[::way])  # type: ignore[method-assign]
    result = search.run()
    return [explain(job.protocol, violation) for violation in result.violations], result.notes


def config(folder: Path, prop: str, *more: str) -> Path:
    text = [
        "CONSTANTS",
        "Clients = {c1, c2, c3, c4}",
        "MaxLosses = 1",
        f"INVARIANT {prop}",
        "CHECK_DEADLOCK FALSE",
        *more,
    ]
    file = folder / "four-clients.cfg"
    file.write_text("\n".join(text))
    return file


EXCLUSION = (ImpatientServer, "MutualExclusion", 8)
NOBODY_ELSE = (SecondLock, "NobodyHoldsAnother", 7)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("keep_going", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("symmetry", [(), ("SYMMETRY symmClients",)])
@pytest.mark.parametrize(("protocol", "prop", "length"), [EXCLUSION, NOBODY_ELSE])
def test_the_same_counterexample_in_every_order(
    tmp_path: Path, protocol: type[Protocol], prop: str, length: int, symmetry: tuple[str, ...], keep_going: bool
) -> None:
    file = config(tmp_path, prop, *symmetry)
    found = {tuple(told(protocol, file, order, keep_going=keep_going, max_depth=9)[0]) for order in ORDERS}
    assert len(found) == 1
    assert next(iter(found))[0].startswith(f"Counterexample to {prop}, {length} states\n")


def test_where_there_is_no_time_to_look_for_the_least_it_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(
        "kraftcheck.explorer.tables.witness.LeastStateFinder.allow", lambda self, _: setattr(self, "_until", 0)
    )
    (text,), notes = told(ImpatientServer, config(tmp_path, "MutualExclusion"), (1, 3, 1))
    assert text.startswith("Counterexample to MutualExclusion, 8 states\n")
    assert COUNTEREXAMPLE_MAY_DIFFER_NOTE in notes


@pytest.mark.slow
def test_which_state_stands_for_its_orbit_says_nothing() -> None:
    found = set()
    for order in [(1, 1 << 15, 1), (2, 1 << 15, 1), (1, 1 << 12, -1)]:
        job = load("reconfig", "fault.restarted-leader-unattached").job(symmetry="symmHosts", deadlock=True)
        found.add(tuple(told_by(job, order)[0]))
    assert len(found) == 1, "without the paths of orbits there are as many as orders"
    assert next(iter(found))[0].startswith("Deadlock, 12 states\n")

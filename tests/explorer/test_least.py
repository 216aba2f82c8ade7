"""Of several shortest counterexamples the same one is told in every run, whatever the order of discovery."""

from __future__ import annotations

import pytest

from kraftcheck import load
from kraftcheck.api import explain
from kraftcheck.explorer.tables.searches.bfs import ANOTHER, BreadthFirst

pytestmark = pytest.mark.kernel
ORDERS = [(1, 1 << 15), (2, 1 << 15), (1, 3), (2, 50)]
"""Threads, and states that are expanded together: each has another order of discovery."""


def told(workers: int, batch: int, **options: object) -> tuple[list[str], list[str]]:
    job = load("lock-service", variant="impatient-server").job(**options)
    result = BreadthFirst(job.protocol, job.options, workers, batch).run()
    return [explain(job.protocol, violation) for violation in result.violations], result.notes


@pytest.mark.parametrize("keep_going", [False, True])
def test_the_same_counterexample_in_every_order(keep_going: bool) -> None:
    found = {tuple(told(*order, keep_going=keep_going, max_depth=9)[0]) for order in ORDERS}
    assert len(found) == 1
    assert next(iter(found))[0].startswith("Counterexample to MutualExclusion, 8 states\n")


def test_where_there_is_no_time_to_look_for_the_least_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "kraftcheck.explorer.tables.least.LeastStates.allow", lambda self, _: setattr(self, "_until", 0)
    )
    (text,), notes = told(1, 3)
    assert text.startswith("Counterexample to MutualExclusion, 8 states\n")
    assert ANOTHER in notes

"""The kernel is compiled before the command line is tested."""

from __future__ import annotations

import pytest

from kraftcheck.explorer.result import Options
from kraftcheck.explorer.tables import engine
from kraftcheck.explorer.tables import random_walks as walks
from kraftcheck.spec.examples.two_phase_commit import TwoPhaseCommit
from kraftcheck.spec.values import ModelValue


@pytest.fixture(scope="session", autouse=True)
def _compiled() -> None:
    """Have the kernel compiled before anything that looks at the clock, or at what is printed meanwhile."""
    protocol = TwoPhaseCommit(resource_managers=frozenset({ModelValue("rm1", 1)}))
    engine.explore(protocol, Options())
    walks.simulate(protocol, Options(), walks.Plan(1, 5, 0), None)

"""Compiles the kernels of both engines, by small searches."""

from __future__ import annotations

from kraftcheck.explorer import random_walks
from kraftcheck.explorer.result import Options, Search
from kraftcheck.explorer.symbolic import engine as symbolic
from kraftcheck.explorer.tables import engine as tables
from kraftcheck.explorer.tables.kernel.native import CACHE as CACHE
from kraftcheck.spec.examples.two_phase_commit import TwoPhaseCommit
from kraftcheck.spec.values import ModelValue

SYMBOLIC = ("saturation", "chaining", "bfs")
"""The search orders of the symbolic engine."""

_SMALL = TwoPhaseCommit(resource_managers=frozenset({ModelValue("rm1", 1), ModelValue("rm2", 2)}))


def compile_tables() -> None:
    """Search a small protocol in each way that the table engine has: what it calls is compiled."""
    for order in Search:
        tables.explore(_SMALL, Options(search=order))
    tables.explore(_SMALL, Options(symmetry="symmRM", memory=1))
    random_walks.simulate(_SMALL, Options(), random_walks.Plan(1, 5, 0), None)


def compile_symbolic() -> None:
    """Search a small protocol in each way that the symbolic engine has."""
    for order in SYMBOLIC:
        symbolic.explore(_SMALL, Options(search=order))

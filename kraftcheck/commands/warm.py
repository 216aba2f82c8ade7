"""Compile the kernel, once for this machine: for an image, or for a cache of CI's.

The table engine compiles its kernel when it is first used, which takes some half a minute. The compiled code is kept
in NUMBA_CACHE_DIR, else in XDG_CACHE_HOME or ~/.cache, in a folder of its own for each version of the kernel.
"""

from __future__ import annotations

import argparse
import sys
import time


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments: there are none."""


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    from kraftcheck.explorer.tables.kernel.native import CACHE

    began = time.monotonic()
    compile_all()
    if not CACHE:
        print("Warning: no folder can be written to; each process compiles anew", file=sys.stderr)
    print(f"the kernel is compiled ({time.monotonic() - began:.1f} s), in {CACHE or 'memory'}")
    return 0


def compile_all() -> None:
    """Search a small protocol in each way that the table engine has: what it calls is compiled."""
    from kraftcheck.explorer.result import Options, Search
    from kraftcheck.explorer.tables import engine, random_walks
    from kraftcheck.spec.examples.two_phase_commit import TwoPhaseCommit
    from kraftcheck.spec.values import ModelValue

    small = TwoPhaseCommit(resource_managers=frozenset({ModelValue("rm1", 1), ModelValue("rm2", 2)}))
    for order in Search:
        engine.explore(small, Options(search=order))
    engine.explore(small, Options(symmetry="symmRM", memory=1))
    random_walks.simulate(small, Options(), random_walks.Plan(1, 5, 0), None)

"""Compile the kernels ahead of time, for a container image or a CI cache.

Without this command the first use compiles a kernel: about ten seconds for a search, half a minute for all kernels. The
compiled code is kept in NUMBA_CACHE_DIR, else in XDG_CACHE_HOME or ~/.cache, in one folder per version of the kernel.

for example:
    kraftcheck warm
    NUMBA_CACHE_DIR=/opt/cache kraftcheck warm     # in an image; set the variable at run time, too
"""

from __future__ import annotations

import argparse
import time

from kraftcheck.engines import ENGINES
from kraftcheck.explorer.kernel_compilation import compiled_code_folder, replace_unusable_cache_folder
from kraftcheck.explorer.request import SearchRequest
from kraftcheck.explorer.result import Search
from kraftcheck.reporting.lines import print_warnings
from kraftcheck.spec import ModelValue, Protocol


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare no arguments."""


def run(arguments: argparse.Namespace) -> int:
    problem = replace_unusable_cache_folder()
    print_warnings([problem] if problem else [])
    began = time.monotonic()
    compile_table_engine()
    compile_symbolic_engine()
    compile_bytecode_engine()
    print(f"compiled the kernels in {time.monotonic() - began:.1f} s into {compiled_code_folder()}")
    return 0


def compile_table_engine() -> None:
    """Compile the table engine: search a small protocol with each of its orders and options."""
    from kraftcheck.explorer.random_walks import WalkPlan, simulate

    run = ENGINES["tables"].run
    for order in Search:
        run(_small_protocol(), SearchRequest(search=order))
    run(_small_protocol(), SearchRequest(symmetry="symmRM", memory=1))
    simulate(_small_protocol(), SearchRequest(), WalkPlan(1, 5, 0), None)


def compile_symbolic_engine() -> None:
    """Compile the symbolic engine: search a small protocol with each of its orders."""
    for order in ENGINES["symbolic"].searches:
        ENGINES["symbolic"].run(_small_protocol(), SearchRequest(search=order))


def compile_bytecode_engine() -> None:
    """Compile the bytecode engine: search a small protocol."""
    from kraftcheck.spec.examples.die_hard import DieHard

    ENGINES["bytecode"].run(DieHard(small=3, big=5, goal=4), SearchRequest())


def _small_protocol() -> Protocol:
    from kraftcheck.spec.examples.two_phase_commit import TwoPhaseCommit

    return TwoPhaseCommit(resource_managers=frozenset({ModelValue("rm1", 1), ModelValue("rm2", 2)}))

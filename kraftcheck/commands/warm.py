"""Compile the kernels, once for this machine: for an image, or for a cache of CI's.

A kernel is compiled when it is first used, which takes some half a minute. The compiled code is kept in
NUMBA_CACHE_DIR, else in XDG_CACHE_HOME or ~/.cache, in a folder of its own for each version of the kernel.

for example:
    kraftcheck warm
    NUMBA_CACHE_DIR=/opt/cache kraftcheck warm     # in an image; set it where it runs, too
"""

from __future__ import annotations

import argparse
import time

from kraftcheck.reporting.lines import print_warnings


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments: there are none."""


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    from kraftcheck.explorer.compiling import cache_problem

    problem = cache_problem()
    print_warnings([problem] if problem else [])
    began = time.monotonic()
    from kraftcheck.explorer import warm  # only now: a kernel looks for its folder when it is imported

    warm.compile_tables()
    warm.compile_symbolic()
    print(f"the kernels are compiled ({time.monotonic() - began:.1f} s), in {warm.CACHE}")
    return 0

"""Commands of kraftcheck, run and timed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path

ROOT = Path(__file__).parents[1]


def timed(*words: object, environment: dict[str, str] | None = None, codes: Collection[int] = (0,)) -> float:
    """Run a command of kraftcheck; return the seconds that it took.

    Parameters
    ----------
    words
        What stands after `kraftcheck`.
    environment
        Its environment; by default that of this process.
    codes
        The exit codes that it may end with; with another one the benchmark ends too, and shows what it said.
    """
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "kraftcheck", *map(str, words), "--quiet"],
        env={**(environment or os.environ), "PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    seconds = time.perf_counter() - began
    if done.returncode not in codes:
        sys.exit(f"kraftcheck {words[0]} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return seconds


def settings(*given: str) -> list[str]:
    """Return Spark's settings as options."""
    return [word for setting in given for word in ("--conf", setting)]

"""Commands that are killed go on and find the same. By hand 1,000 kills: `python -m tests.support.kills`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.kills import ROOT


@pytest.mark.kernel
@pytest.mark.slow(minutes=1)
def test_commands_that_are_killed() -> None:
    """In a process of its own, as forks of this one would have its threads' locks."""
    command = [sys.executable, "-m", "tests.support.kills", "--count", "12", "--seed", "7"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

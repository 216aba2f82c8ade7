"""The ports in `docs/ports` of modules of the TLA+ Examples: TLC's counts, and TLC itself on the unchanged modules."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.command_line import Run

PORTS = Path(__file__).parents[2] / "docs" / "ports"
EXAMPLES = os.environ.get("KRAFTCHECK_EXAMPLES")
"""The folder `specifications` of a copy of https://github.com/tlaplus/Examples."""

# by port: the class, the module in the TLA+ Examples, distinct states and depth as TLC 2.15 counts them, more options
FOUND = {
    "tcommit": ("TCommit", "transaction_commit/TCommit.tla", 34, 7, ()),
    "ewd840": ("EWD840", "ewd840/EWD840.tla", 302, 9, ()),
    "missionaries": (
        "MissionariesAndCannibals",
        "MissionariesAndCannibals/MissionariesAndCannibals.tla",
        64,
        13,
        (),
    ),
    "prisoners": ("Prisoners", "Prisoners/Prisoners.tla", 70, 10, ()),
    "coffee_can": ("CoffeeCan", "CoffeeCan/CoffeeCan.tla", 44, 1, ()),
    "readers_writers": ("ReadersWriters", "ReadersWriters/ReadersWriters.tla", 390, 9, ()),
    "die_hard": ("", "DieHard/DieHard.tla", 16, 8, ()),
}


def model_of(port: str) -> str:
    name = FOUND[port][0]
    return f"{PORTS / port}.py:{name}" if name else "die-hard"


@pytest.mark.parametrize("port", FOUND)
def test_counts_are_those_of_tlc(port: str, run: Run, tmp_path: Path) -> None:
    _, _, states, depth, _ = FOUND[port]
    config = ("--config", PORTS / f"{port}.cfg") if FOUND[port][0] else ("--config", "smoke")
    limits = ("--no-deadlock", "--engine", "reference", "--json", tmp_path / "found.json")
    outcome = run("check", model_of(port), *config, *limits)
    assert outcome.code == 0, outcome.err
    found = json.loads((tmp_path / "found.json").read_text())
    assert (found["distinct_states"], found["depth"]) == (states, depth)


@pytest.mark.exhaustive
@pytest.mark.kernel
@pytest.mark.parametrize("port", FOUND)
def test_tlc_finds_the_same_states_and_steps(port: str, run: Run) -> None:
    _, module, _, _, more = FOUND[port]
    assert EXAMPLES is not None, "needs a copy of the TLA+ Examples: KRAFTCHECK_EXAMPLES=.../specifications"
    spec = Path(EXAMPLES) / module
    outcome = run("crosscheck", model_of(port), "--config", PORTS / f"{port}.cfg", "--spec", spec, *more)
    assert (outcome.code, outcome.out.splitlines()[-1][:5]) == (0, "EQUAL"), outcome.out

"""TLC's counterexamples and random behaviours replay as conforming, step by step with TLC's names."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from kraftcheck.kraft_model.reconfig import Reconfig
from kraftcheck.spec.cfg.binding import bind_leniently
from kraftcheck.spec.cfg.config import read_config
from kraftcheck.traces.replay.replayer import Replayer, ReplayVerdict
from tests.support.tlc import COUNTEREXAMPLES, TLC, text_of

FORMATS = ("out", "v215.out", "tla", "json")
SIMULATIONS = sorted(path.name for path in (TLC / "simulations").glob("t_*.gz"))


@cache
def replayer(config: Path) -> Replayer:
    bound, _ = bind_leniently(Reconfig, read_config(config), whole_space=False)
    return Replayer(bound.protocol, init=bound.init, symmetry=bound.symmetry)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", COUNTEREXAMPLES)
def test_counterexamples_conform(name: str, format: str) -> None:
    folder = TLC / "counterexamples"
    (replay,) = replayer(folder / f"{name}.cfg").replay(folder / f"{name}.{format}.gz")
    theirs = re.findall(r"(?m)^State \d+: <(\w+) line", text_of(f"counterexamples/{name}.out"))
    assert replay.verdict is ReplayVerdict.CONFORMS, replay.reason
    assert list(replay.actions) == theirs
    assert replay.steps == len(theirs) > 0
    assert (replay.index, replay.diverged_at, replay.reason, replay.notes) == (0, None, None, ())


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", SIMULATIONS)
def test_simulations_conform(name: str) -> None:
    folder = TLC / "simulations"
    (replay,) = replayer(folder / "published.cfg").replay(folder / name)
    theirs = re.findall(r"(?m)^\\\* <(\w+) line", text_of(f"simulations/{name.removesuffix('.gz')}"))
    assert replay.verdict is ReplayVerdict.CONFORMS, replay.reason
    assert list(replay.actions) == theirs[1:]
    assert replay.notes == ()


def test_all_are_here() -> None:
    assert len(COUNTEREXAMPLES) == 8
    assert len(SIMULATIONS) == 16

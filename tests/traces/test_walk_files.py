"""The walks that a model makes are traces that conform to it, in every configuration of the tier `default`."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraftcheck.catalogue import find_model, shipped_model_modules
from kraftcheck.explorer.random_walks import WalkPlan, simulate
from kraftcheck.explorer.result import SearchRequest
from kraftcheck.spec.tla.state_conversion import TlaStateConverter
from kraftcheck.traces.corpus import WalkWriter
from kraftcheck.traces.replay.replayer import Replayer, ReplayVerdict
from tests.support.kraft_model.searches import bound

pytestmark = pytest.mark.kernel

BRIEFLY = "default"  # of each model, without the others: they are slow
ALIKE = ("die-hard", "dining-philosophers", "chang-roberts", "lamport-mutex", "paxos", "paxos-commit")
"""Examples whose values are of the types of `ewd998` and others."""
CASES = [
    pytest.param(name, config, marks=[pytest.mark.slow] * (config != BRIEFLY or name in ALIKE))
    for name in shipped_model_modules()
    for config in find_model(name).configurations
    if config.startswith("default")
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("model", "config"), CASES)
def test_walks_conform(tmp_path: Path, model: str, config: str) -> None:
    given = bound(model, config)
    options = SearchRequest(deadlock=False, init=given.init)
    simulate(given.protocol, options, WalkPlan(4, 40, 1), WalkWriter(TlaStateConverter(given.protocol), tmp_path))
    walker = Replayer(given.protocol, init=given.init, symmetry=given.symmetry)
    replays = [replay for file in sorted(tmp_path.iterdir()) for replay in walker.replay(file)]
    assert len(replays) == 4
    assert {(replay.verdict, replay.reason) for replay in replays} == {(ReplayVerdict.CONFORMS, None)}
    assert sum(replay.steps for replay in replays) > 8

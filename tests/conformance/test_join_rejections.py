"""TLC's random behaviours of the published configuration, two of which reject a join request, followed step by step.

In each of their states, the port offers exactly as many different next states by each action as TLC does. These
numbers (`successors.json.gz`) were made with TLC 2.15 for this test, with every state of a behaviour as an initial
state and one step of the specification's Next from each, by action (`-dump dot,actionlabels`).
"""

from __future__ import annotations

import json
from collections import Counter

import pytest

from kraftcheck.kraft_model.reconfig import Reconfig
from kraftcheck.kraft_model.reconfig.records import Error, JoinResponse, Result
from kraftcheck.spec.cfg.binding import bind_constants
from kraftcheck.spec.cfg.config import read_config
from kraftcheck.spec.language.semantics import Semantics, Transition
from kraftcheck.spec.tla.state_conversion import TlaStateConverter
from tests.support.tlc import TLC, states_of, text_of

REJECTIONS = {"RejectJoinRequest", "HandleRejectJoinResponse"}


def followed(name: str) -> list[Transition]:
    """Follow a behaviour that TLC wrote; return the transitions of ours that it takes."""
    protocol = bind_constants(Reconfig, read_config(TLC / "simulations" / "published.cfg"))
    view, semantics = TlaStateConverter(protocol), Semantics(protocol)
    successors = json.loads(text_of("simulations/successors.json"))[name]
    behaviour = states_of(text_of(f"simulations/{name}.tla"))
    (state,) = semantics.initial()
    assert behaviour[0][0] == "Init"
    assert view.variables(state) == behaviour[0][1]
    assert len(successors) == len(behaviour)
    taken = []
    for number, (action, variables) in enumerate(behaviour[1:], start=1):
        following = view.state(variables)
        assert view.variables(following) == variables
        offered = list(semantics.transitions(state))
        assert Counter(name for name, _ in {(t.action, t.target) for t in offered}) == successors[number - 1]
        fitting = [t for t in offered if t.action == action and t.target == following]
        assert fitting, f"{name}: {action} does not lead to state {number + 1}"
        taken.append(fitting[0])
        state = following
    return taken


@pytest.mark.parametrize("name", ["t_0_11", "t_0_13"])
def test_join_rejections_fire(name: str) -> None:
    taken = followed(name)
    fired = Counter(transition.action for transition in taken)
    assert fired.keys() >= REJECTIONS
    for transition in taken:
        if transition.action == "RejectJoinRequest":
            (response,) = [message for _, message in transition.step.sends]
            assert isinstance(response, JoinResponse)
            assert response.result is Result.NOT_OK
            assert response.error in (Error.NOT_LEADER, Error.ALREADY_MEMBER)
        if transition.action == "HandleRejectJoinResponse":
            assert not transition.step.sends
            assert transition.step.consumes


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(number, marks=pytest.mark.exhaustive if number % 3 else pytest.mark.slow)
        for number in range(16)
        if number not in (11, 13)
    ],
)
def test_the_other_behaviours_are_ours_too(number: int) -> None:
    assert len(followed(f"t_0_{number}")) > 10

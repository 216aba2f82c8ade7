"""The predicates of MCReconfig.tla are violated by traces of TLC's length, and TLC's traces are behaviours of ours."""

from __future__ import annotations

import pytest

from kraftcheck.explorer.reference import explore
from kraftcheck.explorer.result import SearchRequest, Verdict
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.tla.state_conversion import TlaStateConverter
from tests.support.tlc import COUNTEREXAMPLES, MCReconfig, bound, json_states, states_of, text_of


def test_all_eight_are_here() -> None:
    assert len(COUNTEREXAMPLES) == 8


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", COUNTEREXAMPLES)
def test_counterexample_is_as_long_as_tlcs(name: str) -> None:
    model = bound(f"counterexamples/{name}", MCReconfig)
    assert len(model.properties) == 1
    result = explore(model.protocol, SearchRequest(properties=model.properties, deadlock=model.deadlock))
    assert result.verdict is Verdict.VIOLATION
    (violation,) = result.violations
    assert violation.property == model.properties[0].name
    lines = text_of(f"counterexamples/{name}.out").splitlines()
    assert len(violation.trace) == sum(line.startswith("State ") for line in lines) > 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize("version", ["out", "v215.out"])
@pytest.mark.parametrize("name", COUNTEREXAMPLES)
def test_tlcs_counterexample_is_a_behaviour(name: str, version: str) -> None:
    model = bound(f"counterexamples/{name}", MCReconfig)
    view, semantics = TlaStateConverter(model.protocol), Semantics(model.protocol)
    prop = model.properties[0]
    behaviour = states_of(text_of(f"counterexamples/{name}.{version}"))
    (state,) = semantics.initial()
    assert view.state(behaviour[0][1]) == state
    for action, variables in behaviour[1:]:
        assert semantics.holds(prop, state)
        assert variables == view.variables(view.state(variables))
        following = {t.target for t in semantics.transitions(state) if t.action == action}
        state = view.state(variables)
        assert state in following
    assert not semantics.holds(prop, state)


@pytest.mark.parametrize("name", COUNTEREXAMPLES)
def test_untyped_json_gives_the_same_states(name: str) -> None:
    model = bound(f"counterexamples/{name}", MCReconfig)
    view = TlaStateConverter(model.protocol)
    typed = [view.state(variables) for _, variables in states_of(text_of(f"counterexamples/{name}.out"))]
    assert [view.state(variables, untyped=True) for variables in json_states(name)] == typed

"""A trace of TLC's in which any single field is changed diverges, at that state or the one after it.

A changed state may be a next state too, where a step can be taken in several ways that differ in one field only. The
test would find these by itself, with the semantics alone, and list the variable; with these seeds there is none.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from random import Random

import pytest

from kraftcheck.kraft_model.reconfig import Reconfig
from kraftcheck.kraft_model.reconfig.records import SYMBOL_TYPES
from kraftcheck.spec.cfg.binding import bind_leniently
from kraftcheck.spec.cfg.config import read_config
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics, Transition
from kraftcheck.spec.language.state import State
from kraftcheck.spec.tla.state_conversion import TlaStateConverter
from kraftcheck.spec.tla.types import TlaVariablesError
from kraftcheck.traces import Trace, ValueCache, read_traces
from kraftcheck.traces.replay.replayer import Replayer, ReplayVerdict
from tests.support.sizes import sizes
from tests.support.tampering import changed, fields
from tests.support.tlc import COUNTEREXAMPLES, TLC

SYMBOL_NAMES = [str(symbol.value) for kind in SYMBOL_TYPES for symbol in kind]
FILES = [
    *[(f"counterexamples/{name}.cfg", f"counterexamples/{name}.{form}.gz") for name in COUNTEREXAMPLES
      for form in ("out", "v215.out", "tla", "json")],
    *[("simulations/published.cfg", f"simulations/t_0_{number}.tla.gz") for number in range(16)],
]  # fmt: skip
CACHE = ValueCache()


class Remembering(Semantics):
    """Semantics that remember the steps from a state: the same states are walked through again and again."""

    def __init__(self, protocol: Protocol) -> None:
        super().__init__(protocol)
        self.known: dict[State, list[Transition]] = {}

    def transitions(self, state: State):  # type: ignore[no-untyped-def]
        found = self.known.get(state)
        if found is None:
            found = self.known[state] = list(super().transitions(state))
        return iter(found)


@cache
def replayer(config: str) -> Replayer:
    bound, _ = bind_leniently(Reconfig, read_config(TLC / config), whole_space=False)
    found = Replayer(bound.protocol, init=bound.init, symmetry=bound.symmetry)
    found.semantics = Remembering(bound.protocol)
    return found


@cache
def trace_of(file: str) -> Trace:
    (trace,) = read_traces(TLC / file, cache=CACHE)
    return trace


def tampered(trace: Trace, names: list[str], random: Random) -> tuple[Trace, int, str]:
    """Return a trace with one field changed, the number of the state, and the variable."""
    while True:
        place = random.randrange(len(trace.states))
        state = trace.states[place]
        variable = random.choice(list(state.variables))
        found = list(fields(state.variables[variable]))
        if not found:
            continue
        value = changed(state.variables[variable], random.choice(found), names, random)
        if value == state.variables[variable]:
            continue
        states = list(trace.states)
        states[place] = replace(state, variables={**state.variables, variable: value})
        return replace(trace, states=tuple(states)), state.number, variable


def is_behaviour(trace: Trace, view: TlaStateConverter, semantics: Semantics, near: int) -> bool:
    """Whether the steps to and from a state of a trace are steps of the protocol, said by the semantics alone."""
    try:
        states = [view.state(state.variables, untyped=trace.untyped) for state in trace.states[: near + 1]]
    except TlaVariablesError:
        return False
    if near == 1 and states[0] not in semantics.initial():
        return False
    for number in range(max(2, near), min(near + 1, len(states)) + 1):
        before, after, action = states[number - 2], states[number - 1], trace.states[number - 1].action
        if all(t.target != after or action not in (None, t.action) for t in semantics.transitions(before)):
            return False
    return True


def tamper(seed: int, times: int) -> Counter[str]:
    """Change traces so often; return how often each variable's change went unnoticed because it is a behaviour too."""
    random = Random(seed)
    passed: Counter[str] = Counter()
    for _ in range(times):
        config, file = random.choice(FILES)
        walker, original = replayer(config), trace_of(file)
        names = [*SYMBOL_NAMES, "n1", "n2", "n3", "v1", "v2"]
        trace, number, variable = tampered(original, names, random)
        replay = walker.replay_trace(trace)
        where = f"{file}, state {number}, {variable}"
        if replay.verdict is ReplayVerdict.CONFORMS:
            assert is_behaviour(trace, walker.view, walker.semantics, number), where
            passed[variable] += 1
        elif replay.verdict is ReplayVerdict.UNREADABLE:  # the element of a set may have become another one
            expected = f"each element once) for {variable} in state {number}"
            assert expected in replay.problem, f"{where}: {replay.problem}"
        else:
            assert replay.verdict is ReplayVerdict.DIVERGES, f"{where}: {replay.problem}"
            assert replay.diverged_at in (number, number + 1), f"{where}: {replay.diverged_at}"
            assert replay.reason
    return passed


@pytest.mark.slow
def test_changed_traces_diverge() -> None:
    assert tamper(seed=1, times=25) == {}


@pytest.mark.parametrize("times", sizes(None, 120, 1_000))
def test_many_changed_traces_diverge(times: int) -> None:
    assert tamper(seed=2024, times=times) == {}  # a variable that went unnoticed would be listed here

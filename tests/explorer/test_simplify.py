"""Counterexamples made simpler: still true behaviours that violate the same, shorter, with fewer replicas."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kraftcheck import (
    Bag,
    ModelValue,
    Protocol,
    Record,
    State,
    Steps,
    action_constraint,
    become,
    check,
    constraint,
    internal,
    invariant,
)
from kraftcheck.explorer.result import Behaviour, SearchRequest, TraceStep, Violation, trace_step_of_transition
from kraftcheck.explorer.simplifier import CounterexampleSimplifier, find_violation_at_end
from kraftcheck.spec.examples.lock_service import Client, ImpatientServer, Nothing, Phase
from kraftcheck.spec.language.semantics import Semantics
from tests.support.command_line import Run

BROKEN = ("lock-service", "--variant", "impatient-server")
LOCK = ImpatientServer(clients=frozenset(ModelValue(f"c{n}", n) for n in range(1, 5)), losses=1)
SEMANTICS = Semantics(LOCK)
EXCLUSION = LOCK.properties["MutualExclusion"]


def walk() -> Violation:
    """Return the counterexample at the end of a random walk."""
    chance = random.Random(11)
    trace = [TraceStep(SEMANTICS.initial()[0])]
    while SEMANTICS.holds(EXCLUSION, trace[-1].state):
        steps = sorted(SEMANTICS.transitions(trace[-1].state), key=str)
        trace.append(trace_step_of_transition(chance.choice(steps)))
    return Violation("MutualExclusion", tuple(trace))


def is_true(trace: Behaviour) -> bool:
    """Whether every step is one of the protocol's, and the end, and nothing before, violates the property."""
    steps = all(
        after in map(trace_step_of_transition, SEMANTICS.transitions(before.state)) for before, after in pairwise(trace)
    )
    held = [SEMANTICS.holds(EXCLUSION, step.state) for step in trace]
    return trace[0] == TraceStep(SEMANTICS.initial()[0]) and steps and held == [True] * (len(trace) - 1) + [False]


def test_a_long_walk_becomes_a_short_story() -> None:
    violation = walk()
    simplifier = CounterexampleSimplifier(LOCK, SearchRequest(), violation)
    found = simplifier.run(lambda states, seconds: None)
    before, after = simplifier.costs.of(violation.trace), simplifier.costs.of(found.trace)
    assert is_true(violation.trace)
    assert is_true(found.trace)
    assert before.steps > 12
    assert (after.steps, after.replicas, after.switches, after.messages, after.left) == (7, 3, 4, 4, 0)
    assert simplifier.done[0] == "steps left out"


def test_a_shortest_one_is_not_made_longer() -> None:
    (violation,) = check(LOCK, engine="reference").violations
    found = CounterexampleSimplifier(LOCK, SearchRequest(), violation).run()
    assert is_true(found.trace)
    assert len(found.trace) == len(violation.trace) == 8


def test_what_was_found_is_given_when_time_is_over_or_the_user_interrupts() -> None:
    violation = walk()
    hurried = CounterexampleSimplifier(LOCK, SearchRequest(), violation, seconds=0.0)
    assert is_true(hurried.run(lambda states, seconds: None).trace)
    assert hurried.done[-1] == "then the time was over"

    def interrupt() -> None:
        if len(stopped.best) < len(violation.trace):
            raise KeyboardInterrupt

    stopped = CounterexampleSimplifier(LOCK, SearchRequest(), violation, report=interrupt)
    found = stopped.run(lambda states, seconds: None)
    assert is_true(found.trace)
    assert len(found.trace) < len(violation.trace)
    assert stopped.done[-1] == "then it was interrupted"


def test_a_trace_that_does_not_say_what_it_violates() -> None:
    assert find_violation_at_end(LOCK, walk().trace, None) == walk()
    assert find_violation_at_end(LOCK, walk().trace, "NobodyKnows") == walk()
    assert find_violation_at_end(LOCK, walk().trace[:3], None) is None


@pytest.mark.slow
@pytest.mark.kernel
def test_the_option_of_check_and_replay(run: Run, tmp_path: Path) -> None:
    trace = tmp_path / "found.out"
    outcome = run(
        "check", *BROKEN, "--engine", "reference", "--search", "dfs", "--max-depth", "20", "--quiet", "--trace", trace
    )
    assert outcome.code == 12
    deep = int(outcome.out.split(" states\n")[0].rsplit(" ", 1)[1])
    simpler = tmp_path / "simpler.itf.json"
    outcome = run("replay", *BROKEN, "--simplify", "--trace", simpler, trace)
    assert outcome.code == 0
    assert f" {deep - 1} -> 7 steps, " in outcome.out
    assert "\nCounterexample to MutualExclusion, 8 states\n" in outcome.out
    outcome = run("replay", *BROKEN, simpler)
    assert (outcome.code, "conforms, 7 steps" in outcome.out) == (0, True)
    outcome = run("replay", *BROKEN, "--trace", simpler, trace)
    assert (outcome.code, "add --simplify" in outcome.err) == (2, True)
    outcome = run("check", *BROKEN, "--quiet", "--simplify")
    assert outcome.code == 12
    assert "\nNote: simplified MutualExclusion in " in outcome.out


@pytest.mark.kernel
def test_the_option_of_simulate(run: Run) -> None:
    outcome = run("simulate", *BROKEN, "--seed", "5", "--depth", "300", "--quiet", "--simplify")
    assert outcome.code == 12
    assert outcome.out.startswith("Counterexample to MutualExclusion, 8 states\n")


class Hiker(Record):
    id: int
    height: int = 0


class Trail(Protocol):
    """A hiker climbs, or falls where no search goes on."""

    network = Bag()

    def initial(self) -> Iterator[State]:
        yield self.start([Hiker(1)], Nothing())

    @internal
    def go(self, me: Hiker) -> Steps:
        assert me.height != 8, "fell"
        if 0 <= me.height < 4:
            yield become(me.but(height=me.height + 1))
        if me.height == 0:
            yield become(me.but(height=-1))
            yield become(me.but(height=8))
        assert me.height != 4, "climbed"

    @constraint
    def stays(self, me: Hiker) -> bool:
        """Nobody falls."""
        return me.height in range(5)

    @action_constraint
    def climbs(self, before: Hiker, after: Hiker) -> bool:
        """Nobody falls."""
        return after.height in range(5)


class Silent(Trail):
    """There is no assert."""

    @internal
    def go(self, me: Hiker) -> Steps:
        if me.height not in (4, 8):
            yield from super().go(me)


@pytest.mark.parametrize("limit", [{"constraints": ["Stays"]}, {"action_constraints": ["Climbs"]}])
@pytest.mark.parametrize("kind", [Trail, Silent])
def test_what_is_beyond_a_constraint_is_no_deadlock_and_fails_no_assert(kind: type[Protocol], limit: Any) -> None:
    protocol = kind()
    (violation,) = check(protocol, engine="reference", **limit).violations
    assert len(violation.trace) == 5
    names = {kind: tuple(protocol.properties[one] for one in given) for kind, given in limit.items()}
    found = CounterexampleSimplifier(protocol, SearchRequest(**names), violation).run()
    assert found.trace == violation.trace


def test_an_assert_that_failed() -> None:
    class Asserting(ImpatientServer):
        @invariant
        def nobody_else(self, me: Client, peer: Client) -> bool:
            """Says it with an assert."""
            assert not me.phase is peer.phase is Phase.HOLDING
            return True

    protocol = Asserting(clients=LOCK.clients, losses=1)
    (violation,) = check(protocol, engine="reference", search="dfs", max_depth=20, properties=["NobodyElse"]).violations
    assert violation.failed is not None
    found = CounterexampleSimplifier(
        protocol, SearchRequest(properties=(protocol.properties["NobodyElse"],)), violation
    ).run(lambda states, seconds: None)
    assert (len(found.trace), found.failed is not None and found.failed.trace) == (8, found.trace)

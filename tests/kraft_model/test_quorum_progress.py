"""`quorum`: faults that break no safety, only what should stay reachable; the model itself keeps it."""

from __future__ import annotations

import pytest

from kraftcheck.catalogue import find_model
from kraftcheck.explorer.result import Verdict
from kraftcheck.kraft_model.quorum.records import Mode, Replica
from kraftcheck.spec import State
from kraftcheck.spec.language.semantics import Semantics, initial_states
from tests.support.kraft_model.progress import STUCK, Stuck
from tests.support.kraft_model.searches import bound, search

COMPILED = [pytest.param(name, marks=[pytest.mark.kernel, pytest.mark.slow]) for name in ("tables", "symbolic")]


@pytest.mark.slow
@pytest.mark.sampled(8)
@pytest.mark.parametrize("engine", ["reference", *COMPILED])
@pytest.mark.parametrize(
    "one", [pytest.param(one, id=one.variant, marks=[pytest.mark.slow] * (one.among > 1_000)) for one in STUCK]
)
def test_where_nothing_leads_on(one: Stuck, engine: str) -> None:
    base = search(bound("quorum", one.config), engine)
    assert (base.verdict, base.distinct_states) == (Verdict.OK, one.base)
    given = bound("quorum", one.config, one.variant)
    assert [prop.name for prop in given.reachable] == [one.property]
    (violation,) = search(given, engine).violations
    assert (violation.property, violation.trap) == (one.property, (one.stuck, one.among))
    taken = [str(step.action) for step in violation.trace[1:]]
    assert tuple(action for action in taken if action in one.trace) == one.trace
    assert bool(taken) == bool(one.trace)


def test_a_new_voter_that_has_not_heard_of_it_blocks_the_election() -> None:
    """It still counts as one that follows, so that it grants no pre-vote; and an observer's timer asks for none.

    Once it has restarted there is a way out: `trap.not-voter` begins there.
    """
    (violation,) = search(bound("quorum", "finding.unaware-voter"), "reference").violations
    assert (violation.property, violation.trap) == ("SomebodyCanLead", (125, 125))


def test_a_new_voter_that_dies_before_it_fetches_its_record_is_never_removed() -> None:
    (violation,) = search(bound("quorum", "finding.new-voter-dies"), "reference").violations
    assert (violation.property, violation.trap) == ("SomebodyCanCommit", (8, 8))


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize(("variant", "states"), [(None, 812), ("pre-vote-unless-follower", 680)])
def test_two_followers_of_a_dead_leader_elect_one_where_their_rounds_overlap(variant: str | None, states: int) -> None:
    found = search(bound("quorum", "finding.overlapping-rounds", variant), "reference")
    assert (found.verdict, found.distinct_states) == (Verdict.OK, states)


def leaders(state: State) -> list[Replica]:
    return [one for one in state.replicas.values() if isinstance(one, Replica) and one.mode is Mode.LEADER]


def test_a_follower_that_forgets_a_silent_leader_lets_another_be_elected() -> None:
    given = bound("quorum", "finding.unaware-voter", "silent-leader-forgotten")
    semantics = Semantics(given.protocol)
    reached = initial_states(semantics, given.init)
    for _ in range(20):
        if any(leaders(state) for state in reached):
            return
        reached = list({transition.target for state in reached for transition in semantics.transitions(state)})
    pytest.fail("nobody is elected within 20 steps")


def test_every_configuration_of_a_trap_is_here() -> None:
    model = find_model("quorum")
    known = {name for name in model.configurations if name.startswith("trap.")}
    assert known <= {one.config for one in STUCK}
    faults = {name for name, variant in model.variants.items() if (variant.configuration or "").startswith("trap.")}
    assert faults <= {one.variant for one in STUCK} | {
        "joiners-answered-when-appended"
    }  # which mends join-blocks-fetch

"""`quorum`: faults that break no safety, only progress, are states without a way out; the model itself has none."""

from __future__ import annotations

import pytest

from kraftcheck.catalogue import find_model
from kraftcheck.explorer.result import Options
from kraftcheck.explorer.traps import Trap, find_trap
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.language.starts import initial_states
from tests.support.kraft_model.progress import STUCK, Stuck, leaders, somebody_leads
from tests.support.kraft_model.searches import bound


def trap_of(one: Stuck, variant: str | None) -> Trap:
    given = bound("quorum", one.config, variant)
    options = Options(constraints=given.constraints, view=given.view, init=given.init)
    return find_trap(given.protocol, one.wanted, options, without=one.without)


@pytest.mark.parametrize(
    "one", [pytest.param(one, id=one.variant, marks=[pytest.mark.slow] * (one.among > 1_000)) for one in STUCK]
)
def test_where_nothing_leads_on(one: Stuck) -> None:
    base = trap_of(one, None)
    assert (base.states, base.among) == (0, one.base)
    trap = trap_of(one, one.variant)
    assert (trap.states, trap.among) == (one.stuck, one.among)
    taken = [str(step.action) for step in trap.trace[1:]]
    assert tuple(action for action in taken if action in one.trace) == one.trace
    assert bool(taken) == bool(one.trace)


def test_two_followers_of_a_dead_leader_go_round_for_ever() -> None:
    """They do not stop: each in turn asks for pre-votes, is refused, and follows the dead leader again (KIP-996)."""
    trap = trap_of(STUCK[0], STUCK[0].variant)
    assert trap.components == (7,)


def test_a_new_voter_that_has_not_heard_of_it_blocks_the_election() -> None:
    """It still counts as one that follows, so that it grants no pre-vote; and an observer's timer asks for none.

    Once it has restarted there is a way out: `trap.not-voter` begins there.
    """
    given = bound("quorum", "finding.unaware-voter")
    trap = find_trap(given.protocol, somebody_leads, Options(view=given.view, init=given.init))
    assert (trap.states, trap.among, trap.components) == (105, 105, (28,))


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
    assert faults <= {one.variant for one in STUCK}

"""`quorum`: faults that break no safety, only progress, are states without a way out; the model itself has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from kraftcheck.catalogue import find_model
from kraftcheck.explorer.result import Options
from kraftcheck.explorer.traps import Trap, find_trap
from kraftcheck.kraft_model.quorum.records import Mode
from kraftcheck.kraft_model.quorum.state import Replica
from kraftcheck.spec import State
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.language.starts import initial_states
from tests.kraft_model.searches import bound


def replica(state: State, name: str) -> Replica:
    (found,) = [one for one in state.replicas.values() if str(one.id) == name]
    assert isinstance(found, Replica)
    return found


def leaders(state: State) -> list[Replica]:
    return [one for one in state.replicas.values() if isinstance(one, Replica) and one.mode is Mode.LEADER]


def somebody_leads(state: State) -> bool:
    """A candidate that did not win has spent the last election: that is the bound's end, not the protocol's."""
    return state.spent["elections"] == 2 or bool(leaders(state))


def the_observer_follows_the_newest_leader(state: State) -> bool:
    return str(replica(state, "n4").leader) == "n2"


def the_removed_voter_knows(state: State) -> bool:
    return all(str(voter.key.id) != "n3" for voter in replica(state, "n3").voters)


def everything_is_committed(state: State) -> bool:
    leader = replica(state, "n1")
    return leader.mode is Mode.LEADER and leader.high_watermark == len(leader.log)


def the_next_leader_commits(state: State) -> bool:
    if not leaders(state):
        return state.spent["elections"] == 2
    return any(leader.high_watermark == len(leader.log) for leader in leaders(state))


def a_set_of_four_voters_is_committed(state: State) -> bool:
    """Or it is not come to; or nobody leads, since the leader's own disk is lost."""
    return all(leader.high_watermark == len(leader.log) or len(leader.voters) < 4 for leader in leaders(state))


def the_observer_is_added(state: State) -> bool:
    return any(str(voter.key.id) == "n3" for voter in replica(state, "n1").voters)


class Stuck(NamedTuple):
    """A variant, what should always be reachable, and the states from which it is not."""

    variant: str
    config: str
    wanted: Callable[[State], bool]
    stuck: int
    among: int
    base: int  # states of the model itself within the same bounds
    trace: tuple[str, ...] = ()  # a shortest way into the trap from the configuration's start: what it takes of these
    without: tuple[str, ...] = ()  # what nobody may have to wait for


ADDED = ("AddVoter", "HandleApiVersionsRequest", "HandleApiVersionsResponse")
STUCK = [
    Stuck("followers-never-grant", "trap.dead-leader", somebody_leads, 16, 16, 762),
    Stuck("pre-vote-unless-follower", "trap.dead-leader", somebody_leads, 16, 16, 762),
    Stuck("no-check-quorum", "trap.check-quorum", the_observer_follows_the_newest_leader, 12, 12, 204),
    Stuck("removed-voter-refused", "trap.removed-voter", the_removed_voter_knows, 319, 319, 440),
    Stuck(
        "update-voter-blocks-fetch",
        "trap.update-voter",
        everything_is_committed,
        10,
        378,
        362,
        ("SendUpdateVoter", "HandleUpdateVoterRequest"),
        ("FetchTimeout",),
    ),
    Stuck(
        "kip853-draft",
        "trap.not-voter",
        the_next_leader_commits,
        12,
        88,
        775,
        ("FetchTimeout", *("HandleVoteRequest", "HandleVoteResponse") * 2),
    ),
    Stuck(
        "duplicate-directory-allowed",
        "trap.duplicate-directory",
        a_set_of_four_voters_is_committed,
        148,
        3_155,
        312,
        ("LoseDisk", "AddVoter", "LoseDisk", "AddVoter"),
    ),
    Stuck(
        "add-voter-gives-up",
        "reading.add-voter-gives-up",
        the_observer_is_added,
        540,
        3_350,
        3_042,
        ADDED,
    ),
]


def trap_of(one: Stuck, variant: str | None) -> Trap:
    given = bound("quorum", one.config, variant)
    options = Options(constraints=given.constraints, view=given.view, init=given.init)
    return find_trap(given.protocol, one.wanted, options, without=one.without)


@pytest.mark.parametrize("one", [pytest.param(one, id=one.variant) for one in STUCK])
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

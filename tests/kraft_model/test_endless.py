"""Elections without end in `quorum`: the controllers' faults are found, the controllers settle, verdicts stay equal."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from kraftcheck.catalogue import find_config_name_and_content, find_model
from kraftcheck.explorer.reference import explore
from kraftcheck.explorer.result import Result, SearchRequest, Verdict, Violation
from kraftcheck.explorer.transition_system import canonicalizer
from kraftcheck.kraft_model.quorum.epochs import QuorumEpochRenaming
from kraftcheck.kraft_model.quorum.records import (
    Batch,
    Data,
    KRaftVersion,
    LeaderChange,
    Mode,
    Nil,
    Replica,
    Term,
    Voters,
)
from kraftcheck.kraft_model.quorum.rules import permanently_down_replica
from kraftcheck.kraft_model.quorum.variants.controllers import ActivationFails, NoOp, QuorumWithControllers
from kraftcheck.spec import InputError, State, hide, ordered
from kraftcheck.spec.cfg.binding import bind
from kraftcheck.spec.language.semantics import Semantics, initial_states
from tests.support.kraft_model.searches import bound

CONFIG = "endless.activation"


def checked(variant: str, config: str = CONFIG) -> Result:
    given = bound("quorum", config, variant)
    return explore(given.protocol, SearchRequest.of(given))


def cycle_of(found: Violation) -> list[tuple[State, str | None]]:
    assert found.loop is not None
    assert found.loop.again is not None
    return [(step.state, step.action) for step in (*found.trace[found.loop.back_to :], found.loop.again)]


def elections_in(found: Violation) -> int:
    """Return how often a replica becomes leader in the cycle."""
    assert found.loop is not None
    before = [found.trace[found.loop.back_to - 1].state, *(state for state, _ in cycle_of(found))]
    return sum(
        one.replicas[host].mode is not Mode.LEADER and other.replicas[host].mode is Mode.LEADER
        for one, other in itertools.pairwise(before)
        for host in one.replicas
    )


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("variant", "broken"),
    [("controllers", set()), ("activation-fails", set()), ("candidates-in-step", {"TimersLeaveTime"})],
)
def test_timers_leave_time_for_elections(variant: str, broken: set[str]) -> None:
    given = bound("quorum", "contract.controllers", variant)
    given = given._replace(properties=tuple(one for one in given.properties if one.name == "TimersLeaveTime"))
    found = explore(given.protocol, SearchRequest.of(given))
    assert {one.property for one in found.violations} == broken


@pytest.mark.slow
def test_leaders_whose_first_write_fails_give_up_for_ever() -> None:
    result = checked("activation-fails")
    (found,) = result.violations
    assert found.property == "LeadershipSettles"
    assert elections_in(found) >= 1
    assert [action for _, action in cycle_of(found)].count("Activate") >= 1
    first, last = found.trace[found.loop.back_to - 1].state, cycle_of(found)[-1][0]
    assert min(one.epoch for one in last.replicas.values()) > max(one.epoch for one in first.replicas.values())
    protocol = bound("quorum", CONFIG, "activation-fails").protocol
    assert canonicalizer(protocol, None, "endless")(first) == canonicalizer(protocol, None, "endless")(last)


@pytest.mark.slow
def test_a_bound_on_elections_excuses_it() -> None:
    given = bound("quorum", CONFIG, "activation-fails")
    kind = type(given.protocol)
    values = {c.attribute: getattr(given.protocol, c.attribute) for c in kind.constants.values()}
    bounded = kind(**{**values, "elections": 2})
    result = explore(bounded, replace(SearchRequest.of(given), view="patient"))
    assert result.verdict is Verdict.OK


@pytest.mark.slow
def test_candidates_in_step_disturb_each_other_for_ever() -> None:
    (found,) = checked("candidates-in-step").violations
    assert found.property == "LeadershipSettles"
    assert elections_in(found) == 0
    first, last = found.trace[found.loop.back_to - 1].state, cycle_of(found)[-1][0]
    assert max(one.epoch for one in last.replicas.values()) > max(one.epoch for one in first.replicas.values())


@pytest.mark.slow
def test_controllers_settle() -> None:
    result = checked("controllers", "endless.controllers")
    assert (result.verdict, result.distinct_states) == (Verdict.OK, 928)
    assert not any("beyond a constraint" in note for note in result.notes)
    for action in ("Activate", "HandleEndQuorumEpochRequest", "ResignedTimeout", "HandleVoteResponse"):
        assert result.actions[action] > 0


# The renaming


def started() -> tuple[QuorumWithControllers, State]:
    protocol = bound("quorum", CONFIG, "controllers").protocol
    assert isinstance(protocol, QuorumWithControllers)
    (state,) = initial_states(Semantics(protocol), "Elected")
    return protocol, state


def test_fillers_that_no_offset_follows_are_dropped() -> None:
    protocol, state = started()
    one, two = ordered(state.replicas)
    first = state.replicas[one].log[0]
    fillers = (Batch(4, (LeaderChange(two),)), Batch(4, (NoOp(),)), Batch(6, (LeaderChange(one),)))
    log = (first, *fillers, Batch(6, (Data(1),)), Batch(8, (LeaderChange(two),)))

    def at(mark: int, epoch: int = 9) -> State:
        replicas = state.replicas
        for host in (one, two):
            me = replicas[host].but(log=log, flushed=6, epoch=epoch, high_watermark=mark, mode=Mode.UNATTACHED)
            replicas = replicas.put(host, me.but(pending=Nil.NIL, offsets=type(me.offsets)()))
        return state.but(
            replicas=replicas,
            inboxes=type(state.inboxes)(),
            shared=state.shared.but(committed=log, elected=frozenset({Term(3, one), Term(9, two)})),
        )

    form = protocol.relative_epochs(at(6))
    kept = form.replicas[one]
    assert [batch.epoch for batch in kept.log] == [1, 2, 3]
    assert (kept.epoch, kept.high_watermark, kept.flushed) == (4, 3, 3)
    assert form.shared.committed == kept.log
    assert form.shared.elected == frozenset({Term(4, two)})
    marked = protocol.relative_epochs(at(2)).replicas[one]
    assert ([batch.epoch for batch in marked.log], marked.high_watermark) == ([1, 2, 3, 4], 2)
    assert protocol.relative_epochs(form) == form
    assert protocol.relative_epochs(protocol.relative_epochs(at(6), 5)) == form


def test_messages_to_the_dead_and_leaders_of_the_past_are_forgotten() -> None:
    protocol, state = started()
    one, two = ordered(state.replicas)
    assert protocol.relative_epochs(state, None) == state
    dead = state.but(replicas=state.replicas.put(one, permanently_down_replica(state.replicas[one])))
    assert dict(dead.inboxes)
    assert not dict(protocol.relative_epochs(dead, None).inboxes)
    later = dead.but(replicas=dead.replicas.put(two, dead.replicas[two].but(epoch=5)))
    assert protocol.relative_epochs(later, None).shared.elected == frozenset()
    twice = later.but(
        shared=later.shared.but(
            elected=frozenset({Term(1, one), Term(1, two), Term(2, two)})
        )
    )
    assert protocol.relative_epochs(twice, None).shared.elected == frozenset(
        {Term(1, one), Term(1, two)}
    )


class StopsAtSix(QuorumWithControllers):
    """No leader writes in epoch 6."""

    def can_write(self, me: Replica) -> bool:
        return me.epoch != 6


class ForgetsVoters(ActivationFails):
    """Drops batches that a rule reads."""

    fillers = (LeaderChange, NoOp, KRaftVersion, Voters)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "action"), [(StopsAtSix, "Activate"), (ForgetsVoters, "HandleVoteResponse")])
def test_a_change_that_breaks_the_renaming_is_refused_by_name(kind: type[QuorumWithControllers], action: str) -> None:
    given = bind(kind, find_config_name_and_content(find_model("quorum", "controllers"), CONFIG)[1])
    with pytest.raises(InputError, match=f"action {action}: differs in two states that VIEW endless identifies"):
        explore(given.protocol, SearchRequest.of(given))


# Verdicts with and without the renaming

FAULTY = [
    ("live.dead-leader", "prospective-for-ever"),
    ("live.check-quorum", "no-check-quorum"),
    ("live.observer", "no-check-quorum"),
    ("live.loss", "caught-up-not-noted"),
    ("live.removal", "resigns-while-asked"),
    ("live.removed-voter", "removed-voter-refused"),
    ("live.answers", "operations-never-expire"),
    ("live.addition", "add-voter-gives-up"),
    ("live.join", "join-blocks-fetch"),
    ("live.not-voter", "kip853-draft"),
    ("fault.fetch-position-unchecked", "fetch-position-unchecked"),
    ("fault.high-watermark-before-divergence", "high-watermark-before-divergence"),
    ("fault.old-voter-set-counted", "old-voter-set-counted"),
    ("fault.pending-change-ignored", "pending-change-ignored"),
    ("fault.prospective-goes-on", "prospective-goes-on"),
]


@pytest.mark.parametrize(
    ("config", "variant"),
    [
        pytest.param(*case, marks=pytest.mark.exhaustive if number % 3 else pytest.mark.slow, id="-".join(case))
        for number, case in enumerate(FAULTY)
    ],
)
def test_a_fault_violates_the_same_with_and_without_the_renaming(config: str, variant: str) -> None:
    model = find_model("quorum", variant)
    content = find_config_name_and_content(model, config)[1]
    given = bind(model.protocol, content)
    plain = explore(given.protocol, SearchRequest.of(given))
    hidden = given.protocol.views.get(given.view or "", frozenset())
    views = {**given.protocol.views, "renamed": hide(*hidden, by="relative_epochs")}
    kind = type("Renaming", (model.protocol, QuorumEpochRenaming), {"views": views}, variant="renaming")
    options = replace(SearchRequest.of(bind(kind, content)), view="renamed")
    renamed = explore(bind(kind, content).protocol, options)
    assert plain.limit is renamed.limit is None
    assert {one.property for one in renamed.violations} == {one.property for one in plain.violations} != set()
    assert renamed.distinct_states <= plain.distinct_states

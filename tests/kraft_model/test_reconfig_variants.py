"""The variants of `reconfig`: every seeded fault is caught by the invariant that its configuration names."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from kraftcheck.catalogue import find_config_name_and_content, find_model
from kraftcheck.explorer.reference import ReferenceSearch, explore
from kraftcheck.explorer.result import Result, SearchRequest, TraceStep, Verdict
from kraftcheck.explorer.tables.engine import explore as explore_tables
from kraftcheck.kraft_model.reconfig import Reconfig
from kraftcheck.kraft_model.reconfig.records import Role, Server, ServerId, ServerState
from kraftcheck.spec.cfg.binding import bind, with_assignments
from kraftcheck.spec.cfg.config import BoundConfig, ModelConfig, parse_setting
from kraftcheck.spec.discovery import first_docstring_sentence, variants_of
from kraftcheck.spec.errors import ConstantError, InputError
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics, initial_states
from kraftcheck.spec.language.state import State
from tests.support.kraft_model.mutants import NOTICED

pytestmark = pytest.mark.kernel

MODEL = find_model("reconfig")
CORRECTED, ONE_HOST = "restart-without-state-corrected", "new-servers-on-one-host"


def shipped(name: str) -> ModelConfig:
    return find_config_name_and_content(MODEL, name)[1]


class Fault(NamedTuple):
    """A seeded fault: the invariant that catches it, and the states of the shortest counterexample."""

    variant: str
    invariant: str
    length: int

    @property
    def config(self) -> ModelConfig:
        return shipped(f"fault.{self.variant}")

    @property
    def protocol(self) -> type[Protocol]:
        return variants_of(Reconfig)[self.variant]


FAULTS = [
    Fault("votes-without-log-comparison", "LeaderHasAllAckedValues", 11),
    Fault("second-vote-in-epoch", "NeverTwoLeadersInSameEpoch", 9),
    Fault("restarted-leader-unattached", "NeverTwoLeadersInSameEpoch", 11),
    Fault("observer-stands", "StatesMatchRoles", 6),
    Fault("fetch-position-unchecked", "NoLogDivergence", 11),
    Fault("removed-leader-contradicted", "NoIllegalState", 10),
    Fault("pending-change-accepted", "LeaderHasAllAckedValues", 10),
    Fault("leader-not-ready", "LeaderHasAllAckedValues", 11),
    Fault("old-voter-set-counted", "LeaderHasAllAckedValues", 13),
]
COMPLETE_BASE = {"observer-stands": 14_556, "removed-leader-contradicted": 688}
"""Where the base is searched to the end, and its states there; elsewhere it is searched as deep as the fault shows."""

SLOW = {"restarted-leader-unattached", "pending-change-accepted", "leader-not-ready", "old-voter-set-counted"}
SLOW_BASE = SLOW | {"observer-stands", "fetch-position-unchecked", "votes-without-log-comparison"}


def each_fault(slow: set[str]) -> pytest.MarkDecorator:
    marked = [pytest.param(f, id=f.variant, marks=pytest.mark.slow if f.variant in slow else ()) for f in FAULTS]
    return pytest.mark.parametrize("fault", marked)


def search(bound: BoundConfig, max_depth: int | None = None) -> Result:
    return explore(
        bound.protocol, SearchRequest(properties=bound.properties, deadlock=False, init=bound.init, max_depth=max_depth)
    )


def with_settings(config: ModelConfig, *settings: str) -> ModelConfig:
    return with_assignments(config, [parse_setting(setting, config) for setting in settings])


def first_step_not_offered(bound: BoundConfig, trace: tuple[TraceStep, ...]) -> int | None:
    """Return the number of the first state of a trace that the protocol cannot reach so; None if it can reach all."""
    semantics = Semantics(bound.protocol)
    (state,) = initial_states(semantics, bound.init)
    if state != trace[0].state:
        return 1
    for number, step in enumerate(trace[1:], start=2):
        offered = [(t.action, t.actor, t.message, t.target) for t in semantics.transitions(state)]
        if (step.action, step.actor, step.message, step.state) not in offered:
            return number
        state = step.state
    return None


@pytest.mark.sampled(2)
@each_fault(SLOW)
def test_a_fault_is_caught_by_its_invariant(fault: Fault) -> None:
    bound = bind(fault.protocol, fault.config)
    found = search(bound, max_depth=fault.length)
    assert found.verdict is Verdict.VIOLATION
    (violation,) = found.violations
    assert (violation.property, len(violation.trace)) == (fault.invariant, fault.length)
    semantics, invariant = Semantics(bound.protocol), bound.protocol.properties[fault.invariant]
    held = [semantics.holds(invariant, step.state) for step in violation.trace]
    assert held == [True] * (fault.length - 1) + [False]
    assert first_step_not_offered(bound, violation.trace) is None
    assert first_step_not_offered(bind(Reconfig, fault.config), violation.trace) is not None


@pytest.mark.sampled(12)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.variant)
def test_the_table_engine_finds_a_shortest_counterexample_too(fault: Fault) -> None:
    bound = bind(fault.protocol, fault.config)
    found = explore_tables(bound.protocol, SearchRequest(properties=bound.properties, deadlock=False, init=bound.init))
    (violation,) = found.violations
    assert (violation.property, len(violation.trace)) == (fault.invariant, fault.length)
    assert first_step_not_offered(bound, violation.trace) is None


@pytest.mark.slow
@pytest.mark.sampled(2)
@each_fault(SLOW_BASE)
def test_the_base_holds_where_the_fault_shows(fault: Fault) -> None:
    complete = COMPLETE_BASE.get(fault.variant)
    found = search(bind(Reconfig, fault.config), max_depth=None if complete else fault.length)
    assert found.violations == []
    if complete:
        assert (found.verdict, found.distinct_states) == (Verdict.OK, complete)
    else:
        assert found.depth == fault.length


def test_every_variant_is_described_and_every_fault_has_its_configuration() -> None:
    variants = variants_of(Reconfig)
    assert set(variants) == {fault.variant for fault in FAULTS} | {CORRECTED, ONE_HOST}
    for name, variant in variants.items():
        sentence = first_docstring_sentence(variant)
        assert sentence.endswith("."), name
        assert len(sentence) <= 120, name
    for fault in FAULTS:
        assert [named.name for named in fault.config.invariants] == [fault.invariant]
    assert len([name for name in MODEL.configurations if name.startswith("fault.")]) == len(FAULTS)
    safety = {prop.name for prop in Reconfig.properties.values() if prop.kind.endswith("invariant")}
    assert {fault.invariant for fault in FAULTS} | set(NOTICED["reconfig"]) == safety


def test_a_late_vote_contradicts_a_restarted_leader() -> None:
    fault = next(fault for fault in FAULTS if fault.variant == "restarted-leader-unattached")
    settings = ("Hosts={n1, n2}", "InitClusterSize=2", "MaxSpawnedServers=2")
    bound = bind(fault.protocol, with_settings(fault.config, *settings))
    invariant = bound.protocol.properties["NoIllegalState"]
    found = search(bound._replace(properties=(invariant,)), max_depth=10)
    assert [(violation.property, len(violation.trace)) for violation in found.violations] == [("NoIllegalState", 10)]
    assert found.violations[0].trace[-1].action == "HandleRequestVoteResponse"


@pytest.mark.slow
def test_an_old_voter_set_does_no_harm_without_a_lagging_leader() -> None:
    config = shipped("default")
    found = search(bind(variants_of(Reconfig)["old-voter-set-counted"], config))
    assert (found.verdict, found.violations) == (Verdict.OK, [])


# New servers


@pytest.mark.slow
@pytest.mark.parametrize("hosts", ["{n1, n2}", "{n1, n2, n3}"])
def test_hosts_of_new_servers_only_multiply_the_states(hosts: str) -> None:
    def states(protocol: type[Protocol], new: int) -> int:
        settings = (f"Hosts={hosts}", "InitClusterSize=1", "MinClusterSize=1", "MaxElections=0", "MaxValuesPerEpoch=0")
        config = with_settings(shipped("smoke"), *settings, "MaxAddReconfigs=1", f"MaxSpawnedServers={1 + new}")
        bound = bind(protocol, config)
        found = explore_tables(bound.protocol, SearchRequest(properties=bound.properties, deadlock=False))
        assert found.verdict is Verdict.OK
        return found.distinct_states

    with_none, with_one, with_two = (states(variants_of(Reconfig)[ONE_HOST], new) for new in range(3))
    times = hosts.count("n")
    assert states(Reconfig, 1) == with_none + times * (with_one - with_none)
    assert states(Reconfig, 2) == with_none + times * (with_one - with_none) + times**2 * (with_two - with_one)
    assert with_none < with_one < with_two


def test_hosts_are_not_alike_where_new_servers_start_on_one() -> None:
    config = shipped("published")
    assert bind(Reconfig, config).symmetry is not None
    with pytest.raises(InputError, match="unknown symmetry"):
        bind(variants_of(Reconfig)[ONE_HOST], config)


@pytest.mark.slow
def test_all_that_servers_do_holds_where_one_joins_during_an_election() -> None:
    """An observer that grants its vote gives up what it fetches: `VotesAreRemembered` once said that it does not."""
    bound = bind(variants_of(Reconfig)[ONE_HOST], shipped("joining-elections-details"))
    found = explore_tables(bound.protocol, SearchRequest.of(bound))
    assert (found.verdict, found.distinct_states) == (Verdict.OK, 790_659)


# RestartWithoutState


def restart_search(variant: str | None, *settings: str) -> ReferenceSearch:
    config = with_settings(
        shipped("smoke"),
        "MaxElections=0",
        "MaxValuesPerEpoch=0",
        "MaxSpawnedServers=3",
        *settings,
    )
    bound = bind(variants_of(Reconfig)[variant] if variant else Reconfig, config)
    return ReferenceSearch(bound.protocol, SearchRequest(properties=bound.properties, deadlock=False))


@pytest.mark.parametrize(("variant", "fired", "states"), [(None, 0, 1_891), (CORRECTED, 20, 1_917)])
def test_restart_without_state_fires_only_where_it_is_corrected(variant: str | None, fired: int, states: int) -> None:
    search = restart_search(variant)
    for found in (search.run(), explore_tables(search.protocol, search.options)):
        assert found.verdict is Verdict.OK
        assert (found.actions["RestartWithoutState"], found.distinct_states) == (fired, states)


def test_a_zombie_runs_on_and_no_other_old_identity_does() -> None:
    search = restart_search(CORRECTED)
    (state,) = search.semantics.initial()
    after = [t for t in search.semantics.transitions(state) if t.action == "RestartWithoutState"]
    assert len(after) == 4
    for transition in after:
        old: Server = transition.target.replicas[transition.actor]
        if old != state.replicas[transition.actor]:
            assert (old.state, old.role) == (ServerState.DEAD_NO_STATE, Role.DEAD_NO_STATE)
        new: Server = transition.target.replicas[ServerId(transition.actor.host, 1)]
        assert (new.role, new.state, new.log) == (Role.OBSERVER, ServerState.UNATTACHED, ())
        assert transition.target.spent["restarts"] == 1
    assert sum(t.target.replicas[t.actor] == state.replicas[t.actor] for t in after) == 2


def test_a_restart_without_state_needs_more_voters_than_the_least_cluster_has() -> None:
    found = restart_search(CORRECTED, "MinClusterSize=2").run()
    assert found.actions["RestartWithoutState"] == 0


@pytest.mark.slow
def test_a_server_that_restarted_without_state_is_never_heard_of_again() -> None:
    """It knows no peer to fetch from, in the specification too: SetStateOfNewIdentity is given no first fetch."""
    semantics = restart_search(CORRECTED, "MaxAddReconfigs=1", "MaxElections=1", "MaxValuesPerEpoch=1").semantics
    (state,) = semantics.initial()
    restarts = [t for t in semantics.transitions(state) if t.action == "RestartWithoutState"]
    sizes = []
    for host, after in ((restart.actor.host, restart.target) for restart in restarts):
        seen, waiting = {after}, [after]
        while waiting:
            following = {t.target for t in semantics.transitions(waiting.pop())} - seen
            seen |= following
            waiting += following
        assert {reached.replicas[ServerId(host, 1)] for reached in seen} == {after.replicas[ServerId(host, 1)]}
        sizes.append(len(seen))
    assert max(sizes) > 100


# Named starts


def start(name: str) -> tuple[Protocol, State]:
    fault = next(fault for fault in FAULTS if fault.variant == name)
    bound = bind(fault.protocol, fault.config)
    (state,) = initial_states(Semantics(bound.protocol), bound.init)
    assert initial_states(Semantics(bind(Reconfig, fault.config).protocol), bound.init) == [state]
    return bound.protocol, state


def test_competing_removals_is_what_it_says() -> None:
    _, state = start("leader-not-ready")
    one, two, three, four = state.replicas.values()
    assert [server.config.members for server in (two, three, four)] == [frozenset(state.replicas)] * 3
    assert one.config.members == {one.id, two.id, three.id}
    assert (two.state, two.current_epoch, one.current_epoch) == (ServerState.LEADER, 2, 2)
    assert [entry.epoch for entry in two.log[: two.high_watermark]] == [1]


def test_lagging_high_watermark_is_what_it_says() -> None:
    _, state = start("old-voter-set-counted")
    one, two, three, four = state.replicas.values()
    assert one.config.members == {one.id, two.id, four.id}
    assert two.config.members == {one.id, two.id, three.id, four.id}
    assert (one.high_watermark, two.high_watermark) == (2, 1)
    assert (two.state, two.current_epoch, one.current_epoch) == (ServerState.LEADER, 2, 2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("Hosts={n1, n2, n3}", "InitClusterSize=3"), "constant Hosts: expected at least 4 for this start, found 3"),
        (("InitClusterSize=3",), "constant InitClusterSize: expected 4 for this start, found 3"),
    ],
)
def test_a_start_says_which_constants_it_needs(settings: tuple[str, ...], message: str) -> None:
    fault = next(fault for fault in FAULTS if fault.variant == "leader-not-ready")
    bound = bind(Reconfig, with_settings(fault.config, *settings))
    with pytest.raises(ConstantError, match=message):
        initial_states(Semantics(bound.protocol), bound.init)

"""Unregistering controllers: exact counts, actions, seeded faults, readings, findings, and where nothing leads on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kraftcheck.catalogue import find_model
from kraftcheck.explorer.result import Result, Verdict
from kraftcheck.explorer.traps import Trap, find_trap
from kraftcheck.kraft_model.registration import Registration
from kraftcheck.kraft_model.registration.image import image_of
from kraftcheck.kraft_model.registration.records import Controller, Image
from kraftcheck.spec import ConstantError, ModelValue, State
from kraftcheck.spec.loading.protocols import first_sentence
from tests.support.kraft_model.faults import REGISTRATION_FAULTS, Fault
from tests.support.kraft_model.searches import bound, check_fault, check_trace, fault_configurations, search

pytestmark = pytest.mark.kernel

MODEL = "registration"
SMALL = {  # configuration: distinct states, generated states, depth
    "smoke": (1_405, 3_085, 19),
    "smoke-static": (1_907, 4_637, 18),
}
DEFAULTS = {
    "default": (46_349, 113_722, 27),
    "default-restarts": (4_066, 12_596, 29),
    "default-timeouts": (187_397, 577_505, 23),
    "default-static": (19_258, 52_373, 23),
    "default-brokers": (2_560, 7_835, 23),
    "default-gated": (4_349, 13_765, 31),
}
FINDINGS = {  # configuration: the property, states of the counterexample, and the variants in which it holds
    "finding.running-voter-unregistered": ("VotersSupportFinalizedLevel", 8, {"voters-kept"}),
    "finding.running-observer-unregistered": ("NoMemberBelowFinalizedLevel", 11, {"controllers-checked-too"}),
    "finding.controller-not-checked": ("NoMemberBelowFinalizedLevel", 6, {"controllers-checked-too"}),
    "finding.returning-controller": ("NoMemberBelowFinalizedLevel", 11, {"controllers-checked-too"}),
}
READINGS = {"voters-kept", "controllers-checked-too"}
TRAPS = {"registers-once"}


def numbers(found: Result) -> tuple[int, int, int | None]:
    return found.distinct_states, found.generated_states, found.depth


@pytest.mark.parametrize("config", SMALL)
def test_counts_of_smoke_by_both_engines(config: str) -> None:
    given = bound(MODEL, config)
    assert {prop.name for prop in given.properties} == set(Registration.properties)
    found = [search(given, engine) for engine in ("reference", "tables")]
    assert [one.verdict for one in found] == [Verdict.OK] * 2
    assert [numbers(one) for one in found] == [SMALL[config]] * 2
    assert found[0].actions == found[1].actions


@pytest.mark.exhaustive
def test_counts_of_large() -> None:
    found = search(bound(MODEL, "large"))
    assert (found.verdict, numbers(found)) == (Verdict.OK, (8_911_995, 43_663_447, 38))


@pytest.mark.slow
def test_counts_of_default_and_no_action_is_never_enabled() -> None:
    fired: set[str] = set()
    for config, counts in DEFAULTS.items():
        found = search(bound(MODEL, config))
        assert (found.verdict, numbers(found)) == (Verdict.OK, counts), config
        fired |= {action for action, times in found.actions.items() if times}
    against_advice = bound(MODEL, "finding.returning-controller")._replace(properties=())
    returned = {action for action, times in search(against_advice).actions.items() if times}
    assert {"ComeBack", "FailOnRecord"} <= returned
    assert fired == set(Registration.actions) - {"ComeBack", "FailOnRecord"}


@pytest.mark.parametrize("fault", [pytest.param(fault, id=fault.variant) for fault in REGISTRATION_FAULTS])
def test_a_fault_is_caught_by_the_property_that_its_configuration_names(fault: Fault) -> None:
    check_fault(MODEL, fault)


def test_every_variant_is_described_tested_and_configured() -> None:
    model = find_model(MODEL)
    assert set(model.variants) == {fault.variant for fault in REGISTRATION_FAULTS} | READINGS | TRAPS
    assert fault_configurations(model) == {f"fault.{fault.variant}" for fault in REGISTRATION_FAULTS}
    for name, variant in model.variants.items():
        assert first_sentence(variant).endswith(".")
        assert len(first_sentence(variant)) <= 140, name
    assert {fault.property for fault in REGISTRATION_FAULTS} == set(Registration.properties)


@pytest.mark.parametrize("config", FINDINGS)
@pytest.mark.parametrize("variant", [None, *sorted(READINGS)])
def test_what_the_kips_own_design_breaks_and_what_would_mend_it(config: str, variant: str | None) -> None:
    prop, length, mended_by = FINDINGS[config]
    given = bound(MODEL, config, variant)
    found = search(given, "reference")
    if variant in mended_by:
        assert (found.verdict, found.complete) == (Verdict.OK, True)
        return
    (violation,) = found.violations
    assert (violation.property, len(violation.trace)) == (prop, length)
    check_trace(given, violation.trace)


# Where nothing leads on


def trap_of(
    config: str, wanted: Callable[[State, Image], bool], variant: str | None = None, without: tuple[str, ...] = ()
) -> Trap:
    protocol = bound(MODEL, config, variant).protocol
    assert isinstance(protocol, Registration)

    def is_wanted(state: State) -> bool:
        return wanted(state, image_of(protocol.snapshot(), state.shared.log[: state.shared.committed]))

    return find_trap(protocol, is_wanted, without=without)


def all_that_run_are_registered(state: State, image: Image) -> bool:
    nodes = [node for node in state.replicas.values() if isinstance(node, Controller) and node.running]
    return all(node.id in image.controllers for node in nodes)


def taken(trap: Trap) -> list[str | None]:
    return [step.action for step in trap.trace[1:]]


def test_a_controller_that_was_unregistered_by_accident_registers_again() -> None:
    assert trap_of("trap.accident", all_that_run_are_registered).states == 0
    trap = trap_of("trap.accident", all_that_run_are_registered, "registers-once")
    assert (trap.states, trap.among, trap.components) == (48, 55, (1, 1, 1))
    assert taken(trap) == ["RunUnregisterController", "HandleUnregisterController", "Commit"]


@pytest.mark.slow
def test_an_old_registration_blocks_the_upgrade_that_would_let_it_be_removed() -> None:
    """With a replacement there is a way, as long as upgrades may be tried; without, there is none from the start."""

    def upgraded(state: State, image: Image) -> bool:
        return image.level >= 2

    trap = trap_of("trap.gated", upgraded)
    assert taken(trap).count("RunUpgrade") == 3
    assert taken(trap_of("trap.gated", upgraded, without=("Replace",))) == []


def test_a_static_voter_that_was_unregistered_blocks_upgrades_until_it_is_out_of_the_configuration() -> None:
    def upgraded(state: State, image: Image) -> bool:
        return image.level >= 3

    trap = trap_of("trap.static-voter", upgraded)
    assert taken(trap).count("RunUpgrade") == 3
    trap = trap_of("trap.static-voter", upgraded, without=("ChangeConfiguration",))
    assert taken(trap) == ["RunUnregisterController"]


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ({"initial_voters": {"c3"}}, "constant InitialVoters: expected nodes that there are, found c3"),
        ({"old": {"b1"}}, "constant Old: expected nodes that there are, found b1"),
        ({"stopped": {"c1", "c2"}}, "constant InitialVoters: expected a voter that runs, found none"),
        ({"brokers": {"c1"}}, "constant Brokers: expected nodes that are no controllers"),
        ({"initial_level": 4}, "constant InitialLevel: expected at most NewestLevel = 3, found 4"),
        ({"old": {"c2"}, "old_level": 1}, "constant OldLevel: expected at least InitialLevel = 2"),
    ],
)
def test_constants_that_do_not_fit(constants: dict[str, object], message: str) -> None:
    given = {"controllers": {"c1", "c2"}, "initial_voters": {"c1", "c2"}, "upgrades": 1, **constants}
    values = {k: frozenset(map(ModelValue, v)) if isinstance(v, set) else v for k, v in given.items()}
    with pytest.raises(ConstantError, match=message):
        Registration(**values)

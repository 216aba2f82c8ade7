"""Unregistering controllers: exact counts, actions, seeded faults, readings, findings, and where nothing leads on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kraftcheck.catalogue import find_model
from kraftcheck.explorer.result import Result, Verdict
from kraftcheck.kraft_model.registration import Registration
from kraftcheck.spec import ConstantError, ModelValue
from kraftcheck.spec.discovery import first_docstring_sentence
from tests.support.kraft_model.faults import REGISTRATION_FAULTS, Fault
from tests.support.kraft_model.liveness import of_safety
from tests.support.kraft_model.mutants import NOTICED
from tests.support.kraft_model.searches import bound, check_fault, check_trace, fault_configurations, of_reports, search

pytestmark = pytest.mark.kernel

MODEL = "registration"
SAFETY = {name for name in of_safety(Registration) if Registration.properties[name].kind != "reachable"}
SMALL = {  # configuration: distinct states, generated states, depth
    "smoke": (1_421, 3_153, 19),
    "smoke-static": (1_907, 4_637, 18),
}
DEFAULTS = {
    "default": (44_685, 109_038, 27),
    "default-restarts": (4_066, 12_596, 29),
    "default-timeouts": (161_749, 495_765, 24),
    "default-static": (19_258, 52_373, 23),
    "default-brokers": (2_560, 7_835, 23),
    "default-gated": (4_349, 13_765, 31),
    "default-half": (5_150, 14_505, 23),
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


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize("config", SMALL)
def test_counts_of_smoke_by_both_engines(config: str) -> None:
    given = bound(MODEL, config)
    assert {prop.name for prop in given.properties} == SAFETY
    found = [search(given, engine) for engine in ("reference", "tables")]
    assert [one.verdict for one in found] == [Verdict.OK] * 2
    assert [numbers(one) for one in found] == [SMALL[config]] * 2
    assert found[0].actions == found[1].actions


@pytest.mark.exhaustive
def test_counts_of_large() -> None:
    found = search(bound(MODEL, "large"))
    assert (found.verdict, numbers(found)) == (Verdict.OK, (8_213_507, 40_253_577, 40))


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


@pytest.mark.sampled(9)
@pytest.mark.parametrize("fault", [pytest.param(fault, id=fault.variant) for fault in REGISTRATION_FAULTS])
def test_a_fault_is_caught_by_the_property_that_its_configuration_names(fault: Fault) -> None:
    check_fault(MODEL, fault)


def test_every_variant_is_described_tested_and_configured() -> None:
    model = find_model(MODEL)
    assert set(model.variants) == {fault.variant for fault in REGISTRATION_FAULTS} | READINGS | TRAPS | of_reports(
        model
    )
    assert fault_configurations(model) == {f"fault.{fault.variant}" for fault in REGISTRATION_FAULTS}
    for name, variant in model.variants.items():
        assert first_docstring_sentence(variant).endswith(".")
        assert len(first_docstring_sentence(variant)) <= 140, name
    assert {fault.property for fault in REGISTRATION_FAULTS} | set(NOTICED[MODEL]) == SAFETY


@pytest.mark.sampled(3)
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


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("config", "variant", "name", "trap", "taken"),
    [
        ("trap.accident", None, "ControllersCanBeRegistered", None, []),
        (
            "trap.accident",
            "registers-once",
            "ControllersCanBeRegistered",
            (48, 55),
            ["RunUnregisterController", "HandleUnregisterController", "Commit"],
        ),
        ("trap.gated", None, "UpgradesNeedNoHelp", (164, 2_826), []),
        ("trap.static-voter", None, "UpgradesNeedNoHelp", (54, 232), ["RunUnregisterController"]),
    ],
)
def test_where_nothing_leads_on(
    config: str, variant: str | None, name: str, trap: tuple[int, int] | None, taken: list[str]
) -> None:
    """Whoever was unregistered by accident registers again; an old registration blocks upgrades from the start.

    A static voter that was unregistered blocks them until it is out of the configuration.
    """
    given = bound(MODEL, config, variant)
    assert [prop.name for prop in given.reachable] == [name]
    found = search(given, "reference")
    assert [one.trap for one in found.violations] == ([trap] if trap else [])
    assert [step.action for one in found.violations for step in one.trace[1:]] == taken


@pytest.mark.slow
def test_upgrades_can_be_made_with_help() -> None:
    """A replacement of an old observer, or another configuration, leads on, as long as upgrades may be tried."""
    for config in ("trap.gated", "trap.static-voter"):
        given = bound(MODEL, config)
        helped = replace(given.reachable[0], without=())
        (violation,) = search(given._replace(reachable=(helped,)), "reference").violations
        assert [step.action for step in violation.trace].count("RunUpgrade") == 3


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ({"initial_voters": {"c3"}}, "constant InitialVoters: expected nodes of Controllers and Brokers, found c3"),
        ({"old": {"b1"}}, "constant Old: expected nodes of Controllers and Brokers, found b1"),
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

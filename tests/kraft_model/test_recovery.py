"""KIP-704: exact counts, actions, seeded faults, readings, findings, and what is never left again."""

from __future__ import annotations

import pytest

from kraftcheck.catalogue import find_model
from kraftcheck.explorer.result import Result, Verdict
from kraftcheck.kraft_model.recovery import Recovery
from kraftcheck.spec import ConstantError, ModelValue
from kraftcheck.spec.discovery import first_docstring_sentence
from tests.support.kraft_model.faults import RECOVERY_FAULTS, RECOVERY_READINGS, Fault
from tests.support.kraft_model.liveness import FAULTS as PROGRESS
from tests.support.kraft_model.liveness import of_safety
from tests.support.kraft_model.mutants import NOTICED
from tests.support.kraft_model.searches import bound, check_fault, check_trace, fault_configurations, of_reports, search

pytestmark = pytest.mark.kernel

MODEL = "recovery"
SMALL = {  # configuration: distinct states, generated states, depth
    "smoke": (1_017, 2_947, 19),
    "smoke-zookeeper": (12_007, 48_822, 19),
}
DEFAULTS = {
    "default": (1_218_614, 5_198_241, 35),
    "default-zookeeper": (755_307, 4_313_449, 27),
    "default-isr": (435_062, 2_310_158, 29),
    "default-crash": (437_772, 2_045_776, 33),
    "default-succession": (418_574, 1_811_160, 35),
    "default-versions": (205_055, 972_461, 26),
    "default-former": (1_616, 4_744, 16),
    "default-resends": (2_157, 8_388, 19),
    "default-successor": (1_483, 4_474, 16),
}
TRAPS = {"same-epoch-ignored": (32, 94), "recovered-not-told": (24, 78)}
"""Variants without a safety fault, with the states without a way out, among how many."""

SLOW = {"stale-partition-epoch-accepted", "late-answer-believed"}
BROKEN_BY_DESIGN = {"NobodyServesWhileRecovering", "NothingAcknowledgedIsLost"}


def numbers(found: Result) -> tuple[int, int, int | None]:
    return found.distinct_states, found.generated_states, found.depth


@pytest.mark.slow
@pytest.mark.parametrize("config", ["smoke", pytest.param("smoke-zookeeper", marks=pytest.mark.slow)])
def test_counts_of_smoke_by_both_engines(config: str) -> None:
    given = bound(MODEL, config)
    assert {prop.name for prop in given.properties} == of_safety(Recovery) - BROKEN_BY_DESIGN - {"EveryoneCanServe"}
    found = [search(given, engine) for engine in ("reference", "tables")]
    assert [one.verdict for one in found] == [Verdict.OK] * 2
    assert [numbers(one) for one in found] == [SMALL[config]] * 2
    assert found[0].actions == found[1].actions


@pytest.mark.exhaustive
def test_counts_of_large() -> None:
    found = search(bound(MODEL, "large"))
    assert (found.verdict, numbers(found)) == (Verdict.OK, (101_235_113, 641_440_670, 44))


@pytest.mark.slow
def test_counts_of_default_and_no_action_is_never_enabled() -> None:
    fired: set[str] = set()
    for config, counts in DEFAULTS.items():
        found = search(bound(MODEL, config))
        assert (found.verdict, numbers(found)) == (Verdict.OK, counts), config
        fired |= {action for action, times in found.actions.items() if times}
    assert fired == {*Recovery.actions, "LoseMessage"}


@pytest.mark.sampled(16)
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(f, id=f.variant, marks=[pytest.mark.slow] * (f.variant in SLOW))
        for f in RECOVERY_READINGS + RECOVERY_FAULTS
    ],
)
def test_a_fault_is_caught_by_the_property_that_its_configuration_names(fault: Fault) -> None:
    check_fault(MODEL, fault)


@pytest.mark.parametrize(
    ("variant", "config", "name"),
    [
        ("recovered-where-elected-from-isr", "default-succession", "BrokersComeBackAsTheyLeft"),
        ("recovered-at-once", "smoke", "ClientsAreServedByWhoMay"),
        ("served-before-confirmed", "smoke", "ClientsAreServedByWhoMay"),
    ],
)
def test_a_reading_breaks_the_contract_that_says_otherwise(variant: str, config: str, name: str) -> None:
    given = bound(MODEL, config, variant)
    checked = tuple(prop for prop in given.properties if prop.name == name)
    (violation,) = search(given._replace(properties=checked)).violations
    check_trace(given._replace(properties=checked), violation.trace)


def test_every_variant_is_described_tested_and_configured() -> None:
    model = find_model(MODEL)
    progress = {one.variant for one in PROGRESS if one.model == MODEL}
    known = {fault.variant for fault in RECOVERY_READINGS + RECOVERY_FAULTS} | progress
    assert set(model.variants) == known | of_reports(model)
    assert set(TRAPS) <= progress
    assert fault_configurations(model) == {f"fault.{fault.variant}" for fault in RECOVERY_FAULTS}
    for name, variant in model.variants.items():
        assert first_docstring_sentence(variant).endswith(".")
        assert len(first_docstring_sentence(variant)) <= 140, name
    broken = {fault.property for fault in RECOVERY_FAULTS}
    assert broken | set(NOTICED[MODEL]) == of_safety(Recovery) - BROKEN_BY_DESIGN - {"EveryoneCanServe"}


@pytest.mark.parametrize(
    ("config", "prop", "length"),
    [
        ("finding.follower-not-told", "NobodyServesWhileRecovering", 3),
        ("finding.unclean-loss", "NothingAcknowledgedIsLost", 5),
    ],
)
def test_what_the_kips_own_design_breaks(config: str, prop: str, length: int) -> None:
    given = bound(MODEL, config)
    (violation,) = search(given, "reference").violations
    assert (violation.property, len(violation.trace)) == (prop, length)
    check_trace(given, violation.trace)


@pytest.mark.parametrize("variant", [None, *TRAPS])
def test_followers_that_never_serve_again(variant: str | None) -> None:
    """In the model itself, whatever has happened, everyone can come to serve clients again."""
    found = search(bound(MODEL, "trap.zookeeper", variant), "reference")
    if variant is None:
        assert (found.verdict, found.distinct_states) == (Verdict.OK, 86)
        return
    (violation,) = found.violations
    assert (violation.property, violation.trap) == ("EveryoneCanServe", TRAPS[variant])
    assert [step.action for step in violation.trace] == [
        None,
        "FenceBroker",
        "ElectUncleanly",
        "UnfenceBroker",
        "HandleLeaderAndIsr",
    ]


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ({"old_brokers": {"b3"}}, "constant OldBrokers: expected brokers, found b3, not in Brokers"),
        ({"initial_isr": set()}, "constant InitialIsr: expected at least one broker"),
        ({"max_fences": 1}, "is not a constant of Recovery"),
    ],
)
def test_constants_that_do_not_fit(constants: dict[str, object], message: str) -> None:
    given = {"brokers": {"b1", "b2"}, "initial_isr": {"b1"}, "fences": 1, "unclean_elections": 1, **constants}
    values = {k: frozenset(map(ModelValue, v)) if isinstance(v, set) else v for k, v in given.items()}
    with pytest.raises(ConstantError, match=message):
        Recovery(**values)

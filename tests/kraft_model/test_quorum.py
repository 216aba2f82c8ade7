"""`quorum`: exact counts, the same by the reference and the table engine, and what its properties say."""

from __future__ import annotations

from functools import cache

import pytest

from kraftcheck.catalogue import find_model
from kraftcheck.explorer.result import Result, Verdict
from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.spec.cfg.config import BoundConfig
from tests.support.kraft_model import searches

pytestmark = pytest.mark.kernel

SMOKE = {"smoke": (483, 1_029, 17), "smoke-answers": (1_672, 5_101, 21), "smoke-network": (6_941, 30_120, 16)}
"""Distinct states, generated states and depth."""


def counts(result: Result) -> tuple[int, int, int | None]:
    return result.distinct_states, result.generated_states, result.depth


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["smoke", *(pytest.param(f"smoke-{one}", marks=pytest.mark.slow) for one in ("answers", "network"))]
)
def test_both_engines_find_the_same(name: str) -> None:
    model = searches.bound("quorum", name)
    ours, theirs = searches.search(model, "reference"), searches.search(model)
    assert ours.verdict is theirs.verdict is Verdict.OK
    assert counts(ours) == counts(theirs) == SMOKE[name]
    assert ours.actions == theirs.actions


DEFAULT = {
    "default": (1_241_385, 6_517_501, 37),
    "default-add": (1_407_926, 7_728_165, 37),
    "default-answers": (254_840, 1_149_185, 33),
    "default-broker": (1_105_060, 5_103_201, 39),
    "default-cuts": (3_361_626, 14_737_677, 32),
    "default-disk": (342_743, 1_486_649, 33),
    "default-elections": (724_194, 3_720_586, 34),
    "default-endpoints": (1_745_711, 8_005_887, 33),
    "default-join": (2_660_331, 13_724_013, 38),
    "default-network": (1_303_226, 9_458_525, 26),
    "default-removed": (1_313_340, 6_830_408, 37),
    "default-resign": (196_693, 1_166_899, 27),
    "default-restart": (979_412, 5_155_776, 31),
    "default-snapshot": (82_254, 300_801, 30),
    "default-software": (107_049, 535_484, 21),
    "default-told": (1_650_748, 10_558_431, 49),
    "default-upgrade": (119_285, 547_002, 25),
}
"""The same, by the table engine."""


@cache
def found(name: str) -> Result:
    """Return what a search of a configuration finds; the tests of this module share it."""
    return searches.search(searches.bound("quorum", name))


@pytest.mark.slow
@pytest.mark.parametrize("name", DEFAULT)
def test_every_property_holds(name: str) -> None:
    assert found(name).verdict is Verdict.OK
    assert counts(found(name)) == DEFAULT[name]


@pytest.mark.exhaustive
def test_every_property_holds_at_large() -> None:
    assert found("large").verdict is Verdict.OK
    assert counts(found("large")) == (16_979_481, 90_529_181, 44)


@pytest.mark.slow
def test_no_action_is_never_enabled() -> None:
    fired = {action for name in (*SMOKE, *DEFAULT) for action, times in found(name).actions.items() if times}
    assert fired == {*Quorum.actions, *Quorum.network.own_actions()}


SOMEBODY_FAILS = ("default-broker", "default-disk", "default-join", "default-snapshot", "default-told")
"""Where a process can meet what Kafka takes for impossible: `finding.fails-*` say how."""

NEEDED = {prop.name: prop.needs for prop in Quorum.properties.values() if prop.needs}
"""Properties that read history, and the constants that have it written."""


def says_something(prop: str, given: BoundConfig) -> bool:
    constants = given.protocol.constant_values()
    return all(constants[name] for name in NEEDED.get(prop, ()))


def test_every_configuration_of_the_tiers_is_here_and_checks_everything() -> None:
    """A property that the KIPs themselves break would have to be left out, and be a finding."""
    tiers = {name for name in find_model("quorum").configurations if name.startswith(("smoke", "default"))}
    assert tiers == {*SMOKE, *DEFAULT}
    kinds = ("invariant", "step_invariant")
    contracts_checked: set[str] = set()
    contracts = {prop.name for prop in Quorum.properties.values() if prop.of_actor}
    everything = {prop.name for prop in Quorum.properties.values() if prop.kind in kinds} - contracts
    for name in (*tiers, "large"):
        given = searches.bound("quorum", name)
        broken = {"NobodyFails"} if name in SOMEBODY_FAILS else set()
        expected = {prop for prop in everything - broken if says_something(prop, given)}
        assert {prop.name for prop in given.properties} - contracts == expected, name
        contracts_checked |= {prop.name for prop in given.properties} & contracts
    assert contracts_checked == contracts


@pytest.mark.sampled(3)
@pytest.mark.parametrize("prop", NEEDED)
def test_history_is_written_wherever_a_property_reads_it(prop: str) -> None:
    model = find_model("quorum")
    names = [name for name, config in model.configurations.items() if prop in config.text]
    listed = [searches.bound("quorum", name, searches.variant_for(model, name)) for name in names]
    assert listed
    assert all(says_something(prop, given) for given in listed)

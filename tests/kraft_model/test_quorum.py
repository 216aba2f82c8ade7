"""`quorum`: exact counts, the same by the reference and the table engine, and what its properties say."""

from __future__ import annotations

from functools import cache

import pytest

from kraftcheck.catalogue import find_model
from kraftcheck.explorer.result import Result, Verdict
from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.spec.cfg.binding import BoundConfig
from tests.support.kraft_model import searches

pytestmark = pytest.mark.kernel

SMOKE = {"smoke": (501, 1_077, 17), "smoke-answers": (1_672, 5_101, 21), "smoke-network": (7_896, 34_673, 16)}
"""Distinct states, generated states and depth."""


def counts(result: Result) -> tuple[int, int, int | None]:
    return result.distinct_states, result.generated_states, result.depth


@pytest.mark.parametrize("name", ["smoke", "smoke-answers", pytest.param("smoke-network", marks=pytest.mark.slow)])
def test_both_engines_find_the_same(name: str) -> None:
    model = searches.bound("quorum", name)
    ours, theirs = searches.search(model, "reference"), searches.search(model)
    assert ours.verdict is theirs.verdict is Verdict.OK
    assert counts(ours) == counts(theirs) == SMOKE[name]
    assert ours.actions == theirs.actions


DEFAULT = {
    "default": (2_695_744, 15_299_592, 40),
    "default-add": (1_581_566, 8_727_309, 36),
    "default-answers": (67_916, 339_750, 32),
    "default-broker": (927_758, 4_154_789, 37),
    "default-cuts": (5_294_198, 24_366_936, 32),
    "default-disk": (2_923_160, 16_185_559, 39),
    "default-elections": (745_688, 3_834_203, 34),
    "default-endpoints": (3_359_585, 19_136_612, 32),
    "default-join": (838_585, 4_264_877, 38),
    "default-network": (2_242_994, 16_067_965, 26),
    "default-removed": (2_841_844, 15_982_414, 40),
    "default-resign": (664_821, 4_195_156, 27),
    "default-restart": (1_224_348, 6_408_790, 31),
    "default-snapshot": (90_714, 333_066, 30),
    "default-software": (65_124, 337_310, 23),
    "default-told": (1_782_222, 11_359_330, 49),
    "default-upgrade": (252_019, 1_092_641, 29),
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
    assert counts(found("large")) == (34_704_886, 197_562_854, 45)


@pytest.mark.slow
def test_no_action_is_never_enabled() -> None:
    fired = {action for name in (*SMOKE, *DEFAULT) for action, times in found(name).actions.items() if times}
    assert fired == {*Quorum.actions, *Quorum.network.own_actions()}


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
    everything = {prop.name for prop in Quorum.properties.values() if prop.kind in kinds}
    for name in (*tiers, "large"):
        given = searches.bound("quorum", name)
        assert {prop.name for prop in given.properties} == {p for p in everything if says_something(p, given)}, name


@pytest.mark.parametrize("prop", NEEDED)
def test_history_is_written_wherever_a_property_reads_it(prop: str) -> None:
    configurations = find_model("quorum").configurations
    listed = [searches.bound("quorum", name) for name, path in configurations.items() if prop in path.read_text()]
    assert listed
    assert all(says_something(prop, given) for given in listed)

"""`quorum`: exact counts, the same by the reference and the table engine, and what its properties say."""

from __future__ import annotations

from functools import cache

import pytest

from kraftcheck.catalogue import find_model
from kraftcheck.explorer.result import Result, Verdict
from kraftcheck.kraft_model.quorum import Quorum
from tests.support.kraft_model import searches

pytestmark = pytest.mark.kernel

SMOKE = {"smoke": (483, 1_029, 17), "smoke-answers": (1_232, 3_647, 21), "smoke-network": (6_941, 30_120, 16)}
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
    "default": (1_241_385, 6_517_501, 37),
    "default-add": (1_360_620, 7_491_681, 37),
    "default-answers": (114_284, 519_083, 33),
    "default-broker": (944_351, 4_479_671, 37),
    "default-cuts": (3_361_626, 14_737_677, 32),
    "default-disk": (302_979, 1_322_636, 33),
    "default-elections": (724_194, 3_720_586, 34),
    "default-endpoints": (1_391_908, 6_396_412, 32),
    "default-join": (2_265_685, 11_762_712, 38),
    "default-network": (1_303_226, 9_458_525, 26),
    "default-removed": (1_313_340, 6_830_408, 37),
    "default-resign": (196_693, 1_166_899, 27),
    "default-restart": (2_102, 6_160, 16),
    "default-snapshot": (38_489, 131_208, 28),
    "default-software": (32_934, 144_363, 19),
    "default-upgrade": (151_093, 679_312, 25),
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


SOMEBODY_FAILS = ("default-broker", "default-disk", "default-join", "default-snapshot")
"""Where a process can meet what Kafka takes for impossible: `finding.fails-*` say how."""

NEEDED = {
    "RemovedVotersDisturbNobody": "watch_pre_votes",
    "ToldIsKept": "watch_answers",
    "DescriptionsAreTrue": "watch_answers",
}
"""Properties that read history, and the constant that has it written."""


def test_every_configuration_of_the_tiers_is_here_and_checks_everything() -> None:
    """A property that the KIPs themselves break would have to be left out, and be a finding."""
    tiers = {name for name in find_model("quorum").configurations if name.startswith(("smoke", "default"))}
    assert tiers == {*SMOKE, *DEFAULT}
    kinds = ("invariant", "step_invariant")
    everything = {prop.name for prop in Quorum.properties.values() if prop.kind in kinds}
    for name in (*tiers, "large"):
        given = searches.bound("quorum", name)
        unwritten = {prop for prop, constant in NEEDED.items() if not getattr(given.protocol, constant)}
        broken = {"NobodyFails"} if name in SOMEBODY_FAILS else set()
        assert {prop.name for prop in given.properties} == everything - unwritten - broken, name


@pytest.mark.parametrize("prop", NEEDED)
def test_history_is_written_somewhere_and_wherever_a_property_reads_it(prop: str) -> None:
    configurations = find_model("quorum").configurations
    listed = [searches.bound("quorum", name) for name, path in configurations.items() if prop in path.read_text()]
    assert listed
    assert all(getattr(given.protocol, NEEDED[prop]) for given in listed)

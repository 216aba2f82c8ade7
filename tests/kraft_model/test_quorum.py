"""`quorum`: exact counts, the same by the reference and the table engine, and what its properties say."""

from __future__ import annotations

from pathlib import Path

import pytest

import explorer.tables.engine as tables
import kraft_model
from explorer import reference
from explorer.result import Options, Result, Verdict
from kraft_model.quorum import Quorum
from spec.binding import Bound, bind
from spec.config import read_config
from tests.kraft_model import searches

CONFIGS = Path(kraft_model.__file__).with_name("configs")
SMOKE = {"smoke": (501, 1_077, 17), "smoke-answers": (912, 2_951, 21), "smoke-network": (7_896, 34_673, 16)}
"""Distinct states, generated states and depth."""


def bound(name: str) -> Bound:
    return bind(Quorum, read_config(CONFIGS / f"quorum.{name}.cfg"))


def options(model: Bound) -> Options:
    return Options(
        properties=model.properties,
        constraints=model.constraints,
        action_constraints=model.action_constraints,
        deadlock=model.deadlock,
        init=model.init,
        symmetry=model.symmetry,
    )


def counts(result: Result) -> tuple[int, int, int | None]:
    return result.distinct_states, result.generated_states, result.depth


@pytest.mark.parametrize("name", SMOKE)
def test_both_engines_find_the_same(name: str) -> None:
    model = bound(name)
    ours = reference.explore(model.protocol, options(model))
    theirs = tables.explore(model.protocol, options(model))
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
    "default-resign": (664_821, 4_195_156, 27),
    "default-restart": (1_224_348, 6_408_790, 31),
    "default-snapshot": (90_714, 333_066, 30),
    "default-software": (68_218, 349_827, 24),
    "default-upgrade": (252_019, 1_092_641, 29),
}
"""The same, by the table engine."""


@pytest.mark.slow
@pytest.mark.parametrize("name", DEFAULT)
def test_every_property_holds(name: str) -> None:
    model = bound(name)
    result = tables.explore(model.protocol, options(model))
    assert result.verdict is Verdict.OK
    assert counts(result) == DEFAULT[name]


FAULTS = [
    ("append-not-flushed", "LeaderCompleteness", 8),
    ("change-forgotten-by-timeout", "MajoritiesOverlap", 4),
    ("commits-earlier-epochs", "LeaderCompleteness", 10),
    ("directory-replaced", "VoterSetsDifferByOne", 11),
    ("divergence-without-epoch", "LogMatching", 4),
    ("diverging-fetch-counted", "LeaderCompleteness", 18),
    ("epoch-not-written", "ElectionSafety", 11),
    ("fetch-position-unchecked", "LogMatching", 4),
    ("high-watermark-before-divergence", "StateMachineSafety", 6),
    ("high-watermark-follows-voter-set", "HighWatermarkNeverDecreases", 6),
    ("ids-alone", "LeaderCompleteness", 11),
    ("late-divergence-applied", "CommittedIsNeverTruncated", 9),
    ("leader-not-ready", "LeaderCompleteness", 11),
    ("new-voter-does-not-flush", "LeaderCompleteness", 17),
    ("observer-stands", "ObserversNeverStand", 5),
    ("old-voter-set-counted", "HighWatermarkIsHeld", 5),
    ("pending-change-ignored", "MajoritiesOverlap", 3),
    ("pre-vote-grant-counted", "ElectionSafety", 13),
    ("pre-vote-raises-epoch", "PreVoteRaisesNoEpoch", 2),
    ("removed-leader-counts-itself", "LeaderCompleteness", 10),
    ("resigned-stays-in-epoch", "NobodyFollowsItself", 6),
    ("restarted-leader-leads", "LogMatching", 6),
    ("restarted-leader-unattached", "ElectionSafety", 11),
    ("second-vote-in-epoch", "LeadersAreNamedAlike", 11),
    ("snapshot-of-uncommitted", "SnapshotsAreCommitted", 3),
    ("snapshot-without-voters", "LastVoterSetIsUsed", 9),
    ("stale-leader-accepted", "EpochsOnlyGrow", 10),
    ("vote-dropped-on-canvass", "ElectionSafety", 12),
    ("vote-not-written", "OneVotePerEpoch", 9),
    ("voter-set-not-truncated", "LastVoterSetIsUsed", 11),
    ("votes-without-log-comparison", "LeaderCompleteness", 11),
]
"""Variant, the property that it violates in the configuration that it names, states of a shortest counterexample."""


@pytest.mark.slow
@pytest.mark.parametrize(("variant", "violated", "length"), FAULTS)
def test_a_fault_is_caught_by_the_property_of_its_configuration(variant: str, violated: str, length: int) -> None:
    given = searches.bound("quorum", variant=variant)
    assert violated in [prop.name for prop in given.properties]
    (violation,) = searches.search(given).violations
    assert (violation.property, len(violation.trace)) == (violated, length)
    searches.check_trace(given, violation.trace)


def test_every_fault_with_a_configuration_is_here() -> None:
    known = {path.name.split(".")[2] for path in CONFIGS.glob("quorum.fault.*.cfg")}
    assert known == {variant for variant, _, _ in FAULTS}

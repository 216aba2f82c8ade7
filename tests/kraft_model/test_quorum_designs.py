"""`quorum`: design changes. One override changes what a majority is, for elections, commits and properties alike."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from kraftcheck.catalogue import find_model
from kraftcheck.explorer.result import Verdict
from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.records import Key, Voter
from kraftcheck.kraft_model.quorum.variants import designs
from kraftcheck.spec import ModelValue
from tests.support.kraft_model.quorum_steps import BASE
from tests.support.kraft_model.searches import bound, check_trace, search

pytestmark = pytest.mark.kernel

MODEL = "quorum"


class Design(NamedTuple):
    """A wrong design, the property that it violates in its configuration, the states of the counterexample."""

    variant: str
    property: str
    length: int


WRONG = [
    Design("joint-decided-by-union", "LeaderCompleteness", 13),
    Design("joint-concluded-early", "LeaderCompleteness", 9),
    Design("observers-vote", "ElectionSafety", 11),
]
RIGHT = {"joint-consensus"}


def test_every_design_is_tested_and_configured() -> None:
    model = find_model(MODEL)
    found = {name for name, variant in model.variants.items() if variant.__module__ == designs.__name__}
    assert found == {design.variant for design in WRONG} | RIGHT
    assert {model.variants[name].configuration for name in found} == {f"design.{name}" for name in found}
    assert {name for name in model.configurations if name.startswith("design.")} == {f"design.{name}" for name in found}


def test_the_table_in_the_docs_says_the_same() -> None:
    text = (Path(__file__).parents[2] / "docs" / "faults.md").read_text()
    (part,) = re.findall(r"^## Design changes of the quorum$.*?(?=^## )", text, re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^ {5,}(\S+) +(ok|violation) +(?:(\w+) +(\d+) )?", part, re.MULTILINE)
    wrong = [(one.variant, "violation", one.property, str(one.length)) for one in WRONG]
    assert rows == [("joint-consensus", "ok", "", ""), *wrong]


@pytest.mark.slow
@pytest.mark.parametrize(
    "design", [pytest.param(one, id=one.variant, marks=[pytest.mark.slow] * (one.length > 10)) for one in WRONG]
)
def test_a_wrong_design_is_caught(design: Design) -> None:
    given = bound(MODEL, None, design.variant)
    (violation,) = search(given).violations
    assert (violation.property, len(violation.trace)) == (design.property, design.length)
    check_trace(given, violation.trace)
    about = find_model(MODEL).configurations[f"design.{design.variant}"].about
    assert f"Variant {design.variant} violates {design.property} in a trace of {design.length} states" in about


@pytest.mark.slow
def test_joint_consensus_holds_and_is_concluded_by_the_next_leader_too() -> None:
    given = bound(MODEL, None, "joint-consensus")
    found = search(given)
    assert (found.verdict, found.complete) == (Verdict.OK, True)
    assert found.actions["ReplaceVoters"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("design", [one for one in WRONG if one.variant.startswith("joint-")], ids=lambda d: d.variant)
def test_what_breaks_a_wrong_joint_consensus_does_not_break_the_right_one(design: Design) -> None:
    given = bound(MODEL, f"design.{design.variant}", "joint-consensus")
    found = search(given, max_depth=design.length)
    assert (found.verdict, found.depth) == (Verdict.INCOMPLETE, design.length)


def test_joint_consensus_is_short() -> None:
    lines = Path(str(designs.__file__)).read_text()
    (part,) = re.findall(r"^class JointVoter.*?(?=^class JointDecidedByUnion)", lines, re.MULTILINE | re.DOTALL)
    assert len(part.rstrip().splitlines()) <= 60


# What follows from one override


def voters(names: str) -> frozenset[Voter]:
    return frozenset(Voter(Key(ModelValue(f"n{name}"))) for name in names)


def joint(old: str, new: str) -> frozenset[Voter]:
    return frozenset(
        designs.JointVoter(Key(ModelValue(f"n{name}")), 1, name in old, name in new) for name in {*old, *new}
    )


def group(names: str) -> set[Key]:
    return {voter.key for voter in voters(names)}


@pytest.mark.parametrize(
    ("old", "new", "members", "expected"),
    [
        ("123", "124", "12", True),
        ("123", "124", "13", False),
        ("123", "124", "24", False),
        ("123", "124", "134", True),
        ("123", "145", "145", False),
        ("123", "145", "1245", True),
        ("1", "2", "1", False),
        ("1", "2", "12", True),
    ],
)
def test_majorities_of_both(old: str, new: str, members: str, expected: bool) -> None:
    model = bound(MODEL, None, "joint-consensus").protocol
    assert isinstance(model, Quorum)
    assert model.is_majority(joint(old, new), group(members)) == expected
    rest = {*old, *new} - set(members)
    assert model.majority_is_lost(joint(old, new), group("".join(rest))) == (not expected)


def test_majorities_that_meet() -> None:
    right, wrong = (bound(MODEL, None, name).protocol for name in ("joint-consensus", "joint-decided-by-union"))
    assert isinstance(right, Quorum)
    assert isinstance(wrong, Quorum)
    assert not BASE.majorities_meet(voters("123"), voters("145"))
    assert right.majorities_meet(voters("123"), joint("123", "145"))
    assert right.majorities_meet(joint("123", "145"), voters("145"))
    assert not wrong.majorities_meet(voters("123"), joint("123", "145"))
    assert wrong.majorities_meet(voters("123"), joint("123", "124"))


def closed_form(one: frozenset[Voter], other: frozenset[Voter]) -> bool:
    """Majorities of plain voter sets, by counting: two avoid each other if they can share out the common members."""
    common = len(one & other)
    need = [max(0, len(mine) // 2 + 1 - len(mine - theirs)) for mine, theirs in ((one, other), (other, one))]
    return sum(need) > common


def test_majorities_that_meet_are_those_that_counting_finds() -> None:
    names = [voters(text) for text in ("1", "2", "12", "23", "123", "124", "145", "1234", "3456", "12345", "34567")]
    for one in names:
        for other in names:
            assert BASE.majorities_meet(one, other) == closed_form(one, other), (one, other)

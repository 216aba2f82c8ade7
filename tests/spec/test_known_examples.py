"""The examples that people know have the numbers that TLC finds in the originals: the table of docs/examples.md."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from kraftcheck import load
from kraftcheck.catalogue import find_model, model_modules_in_package
from kraftcheck.explorer.result import Verdict

PAGE = Path(__file__).parents[2] / "docs" / "examples.md"


class Row(NamedTuple):
    model: str
    config: str
    distinct: int
    depth: int
    theirs: int
    ours: int


def rows() -> list[Row]:
    found = re.findall(r"^\| `([\w-]+)` \| `([\w-]+)` \| .+? \|((?: [\d,?]+ \|){4})$", PAGE.read_text(), re.MULTILINE)
    return [Row(m, c, *(int(n.replace(",", "")) for n in rest.split(" |")[:-1])) for m, c, rest in found]


BRIEF = 300
"""The most states of a row that is a default test."""
LONG = ("lamport-mutex", "paxos-commit", "ewd998")
"""Models whose configuration `large` CI has no time for."""
COUNTED_TWICE = ("paxos", "paxos-commit", "ewd998", "eligible-leaders")
"""Models of which TLC counts some steps once for each way in which they are enabled."""


def marked(row: Row) -> object:
    marks = []
    if row.distinct > BRIEF:
        marks = [
            pytest.mark.kernel,
            pytest.mark.exhaustive if row.config == "large" and row.model in LONG else pytest.mark.slow,
        ]
    return pytest.param(row, id=f"{row.model}-{row.config}", marks=marks)


@pytest.mark.parametrize("row", [marked(row) for row in rows()])
def test_the_numbers_are_tlcs(row: Row) -> None:
    found = load(row.model, config=row.config).check(engine="reference" if row.distinct <= BRIEF else "tables")
    assert (found.verdict, found.complete) == (Verdict.OK, True)
    assert (found.distinct_states, found.depth, found.generated_states) == (row.distinct, row.depth, row.ours)
    assert row.theirs == row.ours or (row.model in COUNTED_TWICE and row.theirs > row.ours)


@pytest.mark.slow
@pytest.mark.kernel
def test_the_numbers_with_symmetry_are_tlcs() -> None:
    found = load("paxos", config="default").check(engine="tables", symmetry=True)
    assert (found.distinct_states, found.depth) == (443, 17)


@pytest.mark.parametrize(
    ("model", "prop"),
    [
        pytest.param("dining-philosophers", "NobodyStarves", marks=pytest.mark.slow),
        ("chang-roberts", "Liveness"),
        pytest.param("ewd998", "Liveness", marks=pytest.mark.exhaustive),
    ],
)
def test_what_must_happen_does_where_steps_are_fair(model: str, prop: str, tmp_path: Path) -> None:
    """TLC finds no violation of the property in the original either."""
    assert load(model, config="live").check(engine="reference").verdict is Verdict.OK
    protocol = find_model(model).protocol
    file = tmp_path / "unfair.py"
    base = f"from {protocol.__module__} import {protocol.__name__}"
    file.write_text(f"{base}\n\nclass Unfair({protocol.__name__}):\n    specifications = {{'Spec': ()}}\n")
    found = load(f"{file}:Unfair", config="live").check(engine="reference")
    assert [violation.property for violation in found.violations] == [prop]


def test_every_example_has_a_row() -> None:
    assert {row.model for row in rows()} == set(model_modules_in_package("kraftcheck.spec.examples")) - {"lock-service"}


def test_a_claim_that_there_is_no_solution_is_refuted_by_the_shortest() -> None:
    found = load("die-hard", config="solve").check(engine="reference")
    (violation,) = found.violations
    steps = [step.action for step in violation.trace[1:]]
    assert steps == ["FillBigJug", "BigToSmall", "EmptySmallJug", "BigToSmall", "FillBigJug", "BigToSmall"]


def test_the_page_shows_what_is_printed(run, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    ((command, shown),) = re.findall(
        r"^```console\n\$ kraftcheck (.+)\n((?:.*\n)*?)```$", PAGE.read_text(), re.MULTILINE
    )
    printed = run(*command.split(), "--engine", "reference").out
    assert doctest.OutputChecker().check_output(shown, printed, doctest.ELLIPSIS), printed


SLIPS = {
    "paxos": ("{vote.value for vote in votes if vote.ballot == latest} or self.values", "self.values", "OneChosen"),
    "paxos-commit": ("if vote.ballot < me.promised:", "if False:", "OneOutcome"),
    "chang-roberts": ("message.candidate < me.id", "message.candidate != me.id", "Correctness"),
    "lamport-mutex": ("(theirs, other) < (mine, me.id)", "theirs < mine", "Mutex"),
    "dining-philosophers": ("forks[right - 1] = Fork(right, True)", "forks[right - 1] = Fork(me.id, True)", ""),
    "ewd998": ("colour=Colour.BLACK, counter", "counter", "Safra"),
    "die-hard": ("small=shared.small - poured, big=shared.big + poured", "small=0, big=shared.big + shared.small", ""),
}


LARGER = ("paxos", "ewd998")
"""Models whose slips need the configuration `default`."""


@pytest.mark.parametrize("model", [pytest.param(name, marks=[pytest.mark.slow] * (name in LARGER)) for name in SLIPS])
def test_a_slip_is_found(model: str, tmp_path: Path) -> None:
    """Each property is false of a protocol with one small change."""
    old, new, prop = SLIPS[model]
    source = Path(str(__import__(find_model(model).protocol.__module__, fromlist=["x"]).__file__)).read_text()
    assert old in source
    file = tmp_path / "changed.py"
    file.write_text(source.replace(old, new))
    config = tmp_path / "changed.cfg"
    config.write_text(find_model(model).configurations["default" if model in LARGER else "smoke"].text)
    loaded = load(f"{file}:{find_model(model).protocol.__name__}", config=str(config))
    found = loaded.check(engine="reference")
    assert found.violations, found
    if prop:
        assert found.violations[0].property == prop, found.violations

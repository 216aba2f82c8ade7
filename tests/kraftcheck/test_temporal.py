"""Temporal properties on the command line: exit code 13, a lasso told, written and read back."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from tests.support.command_line import Run

SOURCE = '''
from collections.abc import Iterator
from kraftcheck import *


class Walker(Record):
    id: int
    at: int = 0


class Ping(Record):
    dest: int
    source: int


class Nothing(Record):
    pass


class Going(Protocol):
    network = Bag()
    specifications = {"Spec": (), "Busy": (weak("Next"),)}

    def initial(self) -> Iterator[State]:
        yield self.start([Walker(1), Walker(2)], Nothing())

    @internal
    def go(self, me: Walker) -> Steps:
        if me.at == 0:
            yield become(me.but(at=1)).send(Ping(3 - me.id, me.id))

    @on(Ping)
    def back(self, me: Walker, ping: Ping) -> Steps:
        if me.at == 1:
            yield consume(me.but(at=0))

    @predicate
    def there(self, me: Walker) -> bool:
        return me.at == 1

    @temporal
    def both_stay(self) -> Formula:
        """Both are there for ever in the end."""
        return eventually_always(everywhere(self.there))
'''
SCHEMA = Path(__file__).parents[2] / "docs" / "check.schema.json"


@pytest.fixture
def going(tmp_path: Path) -> str:
    (tmp_path / "going.py").write_text(SOURCE)
    return f"{tmp_path / 'going.py'}:Going"


@pytest.mark.parametrize("specification", ["Spec", "Busy"])
def test_a_lasso_is_told_written_and_read_back(run: Run, going: str, tmp_path: Path, specification: str) -> None:
    config, told, trace = tmp_path / "x.cfg", tmp_path / "x.json", tmp_path / "x.out"
    config.write_text(f"SPECIFICATION {specification} PROPERTY BothStay")
    page = tmp_path / "x.md"
    options = ("--config", config, "--engine", "reference")
    done = run("check", going, *options, "--json", told, "--trace", trace, "--report", page)
    assert done.code == 13
    found = json.loads(told.read_text())
    jsonschema.validate(found, json.loads(SCHEMA.read_text()))
    loop = found["traces"][0]["loop"]
    if specification == "Spec":
        assert (loop["back_to"], loop["action"], len(found["traces"][0]["states"])) == (1, None, 1)
        assert "Stuttering  nothing more happens after state 1; to require a step, declare fairness: " in done.out
        assert "nothing more happens" in page.read_text()
        assert loop["never"] == ["Go can be taken all the time, and need not be"]
        assert f"never: {loop['never'][0]}" in done.out
    else:
        assert (loop["back_to"], loop["action"], loop["on"]["_type"]) == (1, "Back", "Ping")
        assert loop["fair"] == ["WF(Next) is taken"]
        assert "Back to state 1  Back by 2 on Ping from 1" in done.out
        assert "back in state 1, for ever" in page.read_text()
    replayed = run("replay", going, "--config", config, trace)
    assert replayed.code == 0
    assert "conforms" in replayed.out
    assert "is true of it" not in replayed.out
    trace.write_text(trace.read_text().replace("BothStay", "SomethingElse"))
    assert run("replay", going, "--config", config, trace).code == 0


def test_a_lasso_under_a_view_is_read_back(run: Run, tmp_path: Path) -> None:
    counted = '    goes: int = bound("MaxGoes")\n    views = {"again": hide("goes")}\n'
    source = SOURCE.replace("    network = Bag()\n", f"    network = Bag()\n{counted}")
    source = source.replace("Ping(3 - me.id, me.id))", 'Ping(3 - me.id, me.id)).spend("goes")')
    (tmp_path / "going.py").write_text(source)
    config, trace, model = tmp_path / "x.cfg", tmp_path / "x.out", f"{tmp_path / 'going.py'}:Going"
    config.write_text("CONSTANT MaxGoes = 9 SPECIFICATION Busy PROPERTY BothStay VIEW again")
    done = run("check", model, "--config", config, "--engine", "reference", "--no-deadlock", "--trace", trace)
    assert done.code == 13
    assert "Back to state 1" in done.out
    replayed = run("replay", model, "--config", config, trace)
    assert (replayed.code, "conforms" in replayed.out) == (0, True)
    assert "it returns to state 1 up to the bounds outside VIEW again" in replayed.out
    assert "is true of it" not in replayed.out
    config.write_text("CONSTANT MaxGoes = 9 SPECIFICATION Busy PROPERTY BothStay")
    replayed = run("replay", model, "--config", config, trace)
    assert (replayed.code, "diverges at state 1 " in replayed.out) == (1, True)  # more of the bound is spent there


def test_an_engine_that_cannot_refuses(run: Run, going: str) -> None:
    done = run("check", going, "--engine", "symbolic", "--no-deadlock")
    assert done.code == 2
    assert "@temporal BothStay: not supported by the engine symbolic; expected --engine tables" in done.err


def test_another_order_is_refused(run: Run, going: str) -> None:
    done = run("check", going, "--search", "dfs", "--engine", "reference")
    assert done.code == 2
    assert "@temporal BothStay: not supported by --search dfs; expected --search bfs" in done.err


def test_a_search_that_ends_early_says_what_is_not_known(run: Run, going: str) -> None:
    done = run("check", going, "--engine", "reference", "--max-states", "2")
    assert done.code == 20
    assert "BothStay: temporal properties were not checked, since the search did not visit every state" in done.out


@pytest.mark.parametrize(
    ("old", "new", "config", "message"),
    [
        (
            "everywhere(self.there)",
            "self.go",
            "",
            "going.py:41: temporal property BothStay: Going.go is no formula; expected",
        ),
        (
            "everywhere(self.there)",
            "at(1, self.go)",
            "",
            "going.py:41: temporal property BothStay: at(...) takes a @predicate",
        ),
        ("eventually_always(everywhere(self.there))", "True", "", "temporal property BothStay returned True; expected"),
        (
            "@temporal",
            '@temporal(fairness=[weak("Gon")])',
            "",
            "BothStay, WF(Gon): unknown action Gon (perhaps Go?); Going",
        ),
        ('weak("Next")', 'weak("Gone")', "", "WF(Gone): unknown action Gone; Going has Next, Go, Back"),
        (
            'weak("Next")',
            '"Next"',
            "",
            "Going.specifications['Busy']: expected a tuple of weak(...) and strong(...), found",
        ),
        ("@temporal", '@temporal(fairness=["Next"])', "", "@temporal(fairness=...): expected a tuple of weak(...) and"),
        ("", "", "PROPERTY []BothStay", "x.cfg:1:10: expected a name after PROPERTY, found '['"),
        ("", "", "PROPERTY BothGo", "x.cfg:1:10: unknown property BothGo; Going has BothStay"),
        ("", "", "PROPERTY There", "x.cfg:1:10: There is about states, so it is no temporal property"),
        ("", "", "SPECIFICATION Bus", "x.cfg:1:15: unknown specification Bus (perhaps Busy?); Going has Busy, Spec"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(
    run: Run, tmp_path: Path, old: str, new: str, config: str, message: str
) -> None:
    (tmp_path / "going.py").write_text(SOURCE.replace(old, new, 1) if old else SOURCE)
    (tmp_path / "x.cfg").write_text(config or "SPECIFICATION Busy PROPERTY BothStay")
    done = run("check", f"{tmp_path / 'going.py'}:Going", "--config", tmp_path / "x.cfg", "--engine", "reference")
    assert (done.code, len(done.err.splitlines())) == (2, 1)
    assert message in done.err


def test_a_property_that_nothing_could_violate_is_noted(run: Run, tmp_path: Path) -> None:
    claim = "eventually_always(everywhere(self.there))"
    (tmp_path / "going.py").write_text(SOURCE.replace(claim, f"{claim} | ~{claim}"))
    done = run("check", f"{tmp_path / 'going.py'}:Going", "--no-deadlock", "--engine", "reference")
    assert done.code == 0
    assert "BothStay: no behaviour of any protocol could violate it" in done.out

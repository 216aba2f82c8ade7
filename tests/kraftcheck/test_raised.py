"""What a protocol's own code raises: an `assert` is a verdict, all else bad input; both with the way there."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from kraftcheck import RaisedError, Verdict, load
from kraftcheck.explorer.result import SearchRequest
from tests.support.command_line import Run

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "check.schema.json").read_text())
COUNTER = """
from kraftcheck import *


class Node(Record):
    id: int
    n: int = 0


class Nothing(Record):
    pass


class Tick(Record):
    dest: int
    k: int


class Counter(Protocol):
    network = Bag()

    def initial(self):
        yield self.start([Node(1), Node(2)], Nothing())

    @internal
    def up(self, me: Node) -> Steps:
        if me.n < 3:
            yield become(me.but(n=me.n + 1)).send(Tick(3 - me.id, me.n))

    @on(Tick)
    def hear(self, me: Node, tick: Tick) -> Steps:
        assert tick.k < 2 or me.n > 5, "too far"
        yield consume(me)

    @invariant
    def fine(self, me: Node, peer: Node) -> bool:
        return me.n < 9 and 10 // (4 - me.n - peer.n) < 100
"""
ASSERTS = COUNTER.replace("10 // (4 - me.n - peer.n) < 100", "True")
PROJECTS = (
    COUNTER.split("    @on")[0]
    + """    @projection
    def p(self, me: Node):
        return 1

    @internal(reads=p)
    def look(self, me: Node, p: Map[int, int]) -> Steps:
        if p[1] == 9:
            yield become(me)
"""
)
RAISES = COUNTER.replace("tick.k < 2", "tick.k < 9")
SLOWER = [
    pytest.param(name, marks=[pytest.mark.kernel, pytest.mark.slow]) for name in ("tables --search dfs", "symbolic")
]
ENGINES = ["reference", pytest.param("tables", marks=pytest.mark.kernel), *SLOWER]

EVERY = ["reference", *[pytest.param(name, marks=pytest.mark.kernel) for name in ("tables", "symbolic")]]


def line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


@pytest.fixture
def counter(tmp_path: Path) -> Path:
    return tmp_path / "counter.py"


@pytest.mark.parametrize("engine", ENGINES)
def test_an_assert_that_fails(run: Run, counter: Path, engine: str) -> None:
    counter.write_text(ASSERTS)
    found, junit = counter.with_suffix(".json"), counter.with_suffix(".xml")
    files = ("--json", found, "--junit", junit, "--trace", counter.with_suffix(".out"), "--github")
    outcome = run("check", f"{counter}:Counter", "--engine", *engine.split(), "--quiet", *files)
    line = line_of(ASSERTS, "assert tick")
    assert outcome.code == 14
    depth_first = "dfs" in engine
    assert outcome.out.startswith("An assert failed in Hear, " + ("" if depth_first else "4 states\n"))
    assert f"Hear  AssertionError: too far (line {line})\n    failed for me = " in outcome.out
    because = ": `tick.k < 2` is false  (tick.k = 2)\n      `me.n > 5` is false  (me.n = 0)\n"
    assert because in outcome.out or depth_first
    assert "\nASSERTION: an assert failed in Hear; " in outcome.out
    assert f"::error file={counter},line={line},title=an assert failed in Hear::" in outcome.out
    content = json.loads(found.read_text())
    jsonschema.validate(content, SCHEMA)
    assert (content["result"], content["violated"], content["complete"]) == ("assertion", "Hear", False)
    assert any("the engine 'tables' searched again" in note for note in content["notes"]) == (engine == "symbolic")
    assert content["traces"][0]["why"]["place"] == {"file": str(counter), "line": line}
    assert 'failure message="an assert failed in Hear in ' in junit.read_text()
    assert "An assert failed in Hear." in counter.with_suffix(".out").read_text()


@pytest.mark.kernel
def test_a_shallower_violation_is_reported_in_place_of_an_error(run: Run, counter: Path) -> None:
    """The symbolic engine calls handlers in no order of depth: it meets the error first."""
    text = COUNTER.replace("become(me.but", "become([me][me.n // 2].but")
    counter.write_text(text.replace("me.n < 9 and 10 // (4 - me.n - peer.n) < 100", "me.n < 2"))
    words = ("check", f"{counter}:Counter", "--quiet", "--no-deadlock", "--engine")
    tables, symbolic = run(*words, "tables"), run(*words, "symbolic")
    assert (tables.code, symbolic.code) == (12, 12), symbolic.err
    assert tables.out.splitlines()[:12] == symbolic.out.splitlines()[:12]
    assert tables.out.startswith("Counterexample to Fine, 3 states")
    assert "the engine 'tables' searched again for the path to the error" in symbolic.out


ORDERED = """
from kraftcheck import *

class Cell(Record):
    id: int
    n: int = 0

class Ordered(Protocol):
    network = None

    def initial(self):
        yield self.start([Cell(1), Cell(2)])

    @internal
    def grow(self, me: Cell) -> Steps:
        if me.n < 4:
            yield become(me.but(n=me.n + 1))

    @invariant
    def small(self, me: Cell, peer: Cell) -> bool:
        assert me.n + peer.n < LIMIT
        return True

    @constraint
    def in_table(self, me: Cell) -> bool:
        return me.n < 3

    @constraint
    def by_table(self, me: Cell) -> bool:
        return (True, True, True)[me.n]
"""


@pytest.mark.parametrize("engine", EVERY)
@pytest.mark.parametrize(("limit", "code"), [(5, 14), (9, 0)])
def test_an_error_that_no_state_has_is_not_reported(
    run: Run, counter: Path, tmp_path: Path, engine: str, limit: int, code: int
) -> None:
    """The second constraint raises an error where the first one is false, and is not evaluated there."""
    counter.write_text(ORDERED.replace("LIMIT", str(limit)))
    text = "INVARIANT Small\nCONSTRAINT InTable\nCONSTRAINT ByTable\nCHECK_DEADLOCK FALSE\n"
    (tmp_path / "both.cfg").write_text(text)
    command = ("check", f"{counter}:Ordered", "--config", tmp_path / "both.cfg", "--engine", engine, "--quiet")
    keeping = ("--checkpoint", tmp_path / "search")
    for more in ((), keeping, ("--resume", tmp_path / "search")) if engine == "tables" else ((),):
        outcome = run(*command, *more)
        assert (outcome.code, "An assert failed in Small" in outcome.out) == (code, code == 14), outcome.err


@pytest.mark.parametrize("engine", ENGINES)
def test_another_exception_is_bad_input_and_the_way_there_is_told(run: Run, counter: Path, engine: str) -> None:
    counter.write_text(RAISES)
    found = counter.with_suffix(".json")
    outcome = run("check", f"{counter}:Counter", "--engine", *engine.split(), "--quiet", "--json", found)
    line = line_of(RAISES, "return me.n < 9")
    assert outcome.code == 2
    assert outcome.out.startswith("Path to the error in Fine, ")
    assert f"kraftcheck: error: {counter}:{line}: property Fine raised ZeroDivisionError: " in outcome.err
    assert f"\n  line {line}: return me.n < 9 and" in outcome.err
    content = json.loads(found.read_text())
    jsonschema.validate(content, SCHEMA)
    assert content["states"][-1]["replicas"]["1"]["n"] + content["states"][-1]["replicas"]["2"]["n"] == 4


@pytest.mark.parametrize("engine", EVERY)
@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("return [me.n]", "returned [0], a list, which can change; write a tuple\n  of = Node(id=1, n=0)\n"),
        ("return 1 // (1 - me.n)", "raised ZeroDivisionError: integer division or modulo by zero\n  of = Node(id="),
    ],
)
def test_a_projection_is_named_with_what_it_was_given(
    run: Run, counter: Path, engine: str, body: str, problem: str
) -> None:
    counter.write_text(PROJECTS.replace("return 1", body))
    outcome = run("check", f"{counter}:Counter", "--engine", engine, "--quiet")
    assert outcome.code == 2
    assert f": projection p of Counter {problem}" in outcome.err
    assert outcome.err.startswith(f"kraftcheck: error: {counter}:")
    assert outcome.out.startswith("Path to the error in p, ")


@pytest.mark.parametrize("engine", [*EVERY, pytest.param("tables --search dfs", marks=pytest.mark.kernel)])
def test_an_assert_that_fails_in_a_projection(run: Run, counter: Path, engine: str) -> None:
    text = PROJECTS.replace("return 1", "assert me.n < 2\n        return 1")
    counter.write_text(text)
    outcome = run("check", f"{counter}:Counter", "--engine", *engine.split(), "--quiet")
    assert outcome.code == 14
    assert outcome.out.startswith("An assert failed in p, " + ("" if "dfs" in engine else "3 states\n"))
    assert f"\np  AssertionError (line {line_of(text, 'assert me.n')})\n    failed for " in outcome.out
    assert ": `me.n < 2` is false  (me.n = 2)\n" in outcome.out


@pytest.mark.kernel
@pytest.mark.parametrize(("text", "code"), [(ASSERTS, 14), (RAISES, 2)])
def test_on_a_random_walk(run: Run, counter: Path, text: str, code: int) -> None:
    counter.write_text(text)
    outcome = run("simulate", f"{counter}:Counter", "--quiet", "--workers", "1", "--no-deadlock")
    assert outcome.code == code
    assert outcome.out.startswith("An assert failed in Hear, " if code == 14 else "Path to the error in Fine, ")


def test_from_python(counter: Path) -> None:
    counter.write_text(ASSERTS)
    result = load(f"{counter}:Counter").check(engine="reference")
    assert (result.verdict, result.violations[0].property) == (Verdict.ASSERTION, "Hear")
    counter.write_text(RAISES)
    with pytest.raises(RaisedError, match="property Fine raised") as caught:
        load(f"{counter}:Counter").check(engine="reference")
    assert caught.value.trace is not None
    assert len(caught.value.trace) == 5


def test_the_first_states_and_what_is_called_by_a_handler(run: Run, counter: Path) -> None:
    (counter.parent / "helper.py").write_text("def half(n):\n    assert n > 0\n    return n\n")
    text = "from helper import half\n" + COUNTER.replace("return me.n < 9", "return half(me.n) < 9")
    counter.write_text(text)
    outcome = run("check", f"{counter}:Counter", "--engine", "reference", "--quiet")
    assert outcome.code == 14
    assert outcome.out.startswith("An assert failed in Fine, 1 state\n")
    assert "Fine  AssertionError (line 2)\n    failed for me = 1, peer = 2: `n > 0` is false  (n = 0)\n" in outcome.out


def test_a_file_that_is_named_without_its_folder(run: Run, counter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counter.write_text(RAISES)
    monkeypatch.chdir(counter.parent)
    outcome = run("check", f"{counter.name}:Counter", "--engine", "reference", "--quiet")
    line = line_of(RAISES, "return me.n < 9")
    assert f"kraftcheck: error: {counter.name}:{line}: property Fine raised ZeroDivisionError: " in outcome.err
    assert f"\n  line {line}: return me.n < 9 and" in outcome.err


def test_a_record_that_is_written_to(run: Run, counter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = COUNTER.replace("if me.n < 3:", "if me.n < 3:\n            me.n = 3")
    counter.write_text(text)
    monkeypatch.chdir(counter.parent)
    outcome = run("check", f"{counter.name}:Counter", "--engine", "reference", "--quiet")
    line = line_of(text, "me.n = 3")
    what = "cannot assign to field 'n': a record does not change; write me.but(n=...)"
    raised = f"action Up of Counter raised FrozenInstanceError: {what}"
    assert (outcome.code, outcome.err.splitlines()[0]) == (2, f"kraftcheck: error: {counter.name}:{line}: {raised}")


def test_an_iterator_without_a_next_item(run: Run, counter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = COUNTER.replace("if me.n < 3:", "if next(n for n in (1, 2) if n > me.n):")
    counter.write_text(text)
    monkeypatch.chdir(counter.parent)
    outcome = run("check", f"{counter.name}:Counter", "--engine", "reference", "--quiet")
    line = line_of(text, "next(n")
    assert f"{counter.name}:{line}: action Up of Counter raised RuntimeError: " in outcome.err


@pytest.mark.kernel
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(("text", "code"), [(ASSERTS, 14), (RAISES, 2)])
def test_on_an_executor(run: Run, counter: Path, text: str, code: int) -> None:
    counter.write_text(text)
    settings = ("spark.ui.enabled=false", "spark.kraftcheck.small=0")
    words = [word for setting in settings for word in ("--conf", setting)]
    outcome = run("check", f"{counter}:Counter", "--engine", "spark", "--master", "local[1]", "--quiet", *words)
    assert outcome.code == code
    expected = "An assert failed in Hear, 4 states\n" if code == 14 else "Path to the error in Fine, 5 states\n"
    assert outcome.out.startswith(expected)


def test_in_pytest(counter: Path) -> None:
    from kraftcheck.pytest_plugin import _check_model

    counter.write_text(RAISES)
    with pytest.raises(pytest.fail.Exception, match=r"Fine raised(.|\n)*Path to the error in Fine, 5 "):
        _check_model(lambda: counter, f"{counter}:Counter", engine="reference")


@pytest.mark.kernel
def test_tables_that_an_error_left_half_learned_raise_it_again(counter: Path) -> None:
    from kraftcheck.explorer.tables.expander import Expander

    counter.write_text(COUNTER.replace("if me.n < 3:", "assert me.n\n        if me.n < 3:"))
    protocol = load(f"{counter}:Counter").protocol
    expander = Expander.of(protocol, SearchRequest(deadlock=False), 1)
    rows = expander.encode(protocol.initial())
    for _ in range(3):
        with pytest.raises(RaisedError, match="action Up"):
            expander.expand(rows, np.arange(len(rows)))


BEYOND = """
from kraftcheck import *


class Desk(Record):
    id: int
    served: int = 0


class Counter(Record):
    issued: int = 0


class Queue(Protocol):
    network = None
    seats = (10, 10, 10, 10)

    def initial(self):
        yield self.start([Desk(1), Desk(2)], Counter())

    @environment
    def issue(self, shared: Counter):
        yield Step().put(issued=shared.issued + self.seats[shared.issued] // 10)

    @internal
    def serve(self, me: Desk):
        if me.served < 3:
            yield become(me.but(served=me.served + 1))

    @invariant
    def few(self, me: Desk):
        return me.served <= 1

    @invariant
    def two_desks(self, state: State):
        return len(state.replicas) == 2
"""


@pytest.mark.kernel
@pytest.mark.parametrize(
    ("engine", "limit"),
    [("symbolic", {}), *product(("reference", "tables"), ({}, {"max_depth": 2}, {"max_states": 2}))],
)
def test_an_error_beyond_the_end_of_a_search_takes_no_result_away(
    engine: str, limit: dict[str, int], tmp_path: Path
) -> None:
    """The search for vacuous properties, which follows, goes as far as the search did, and its errors are ignored."""
    file = tmp_path / "queue_.py"
    file.write_text(BEYOND)
    model = load(f"{file}:Queue")
    found = model.check(engine=engine, deadlock=False, **limit)
    assert [one.property for one in found.violations] == ([] if limit else ["Few"])
    assert model.protocol.probes == {}

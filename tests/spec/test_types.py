"""The types that a newcomer writes: None, enums of every kind, tuples, nested records; the same in every engine."""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Generic, Literal, NewType, Optional, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftcheck.api import check
from kraftcheck.explorer.reference import ReferenceSearch, explore
from kraftcheck.explorer.result import SearchRequest
from kraftcheck.reporting.as_json import value_as_json
from kraftcheck.spec import (
    Map,
    ModelValue,
    Protocol,
    ProtocolError,
    Record,
    State,
    Steps,
    become,
    constant,
    internal,
    invariant,
)
from kraftcheck.spec.cfg.binding import bind
from kraftcheck.spec.cfg.config import parse_config
from kraftcheck.spec.encoding import encode
from kraftcheck.spec.tla.state_conversion import TlaStateConverter
from kraftcheck.spec.tla.text import format_on_one_line, parse_value
from kraftcheck.spec.type_checks import type_mismatch
from kraftcheck.spec.values import Value, order_key, ordered, text_of
from kraftcheck.traces.formats.tlc_dump import _value_as_json


class Colour(enum.Enum):
    WHITE = "white"
    BLACK = "black"


class Level(enum.IntEnum):
    HIGH = 9
    LOW = 1


class Word(enum.StrEnum):
    YES = "y"
    NO = "n"


class Step(enum.Enum):
    FIRST = enum.auto()
    SECOND = enum.auto()


class Flag(enum.Flag):
    A = 1


class Inner(Record):
    at: tuple[int, Colour]
    more: Optional[Word] = None  # noqa: UP045 - what a newcomer writes


class Node(Record):
    id: tuple[str, int]
    count: int | None = None
    colour: Colour = Colour.WHITE
    level: Level | None = None
    step: Step = Step.FIRST
    inner: Inner | None = None
    seen: frozenset[Inner] = frozenset()
    votes: Map[Word, Optional[int]] = Map()  # noqa: UP045
    mode: Literal["on", "off"] = "off"


class Shared(Record):
    last: Colour | None = None


class Types(Protocol):
    """A node goes through values of every type."""

    first: Colour = constant("First", default=Colour.WHITE)
    words: frozenset[Word] = constant("Words", default=frozenset(Word))
    limit: int | None = constant("Limit", default=None)

    def initial(self) -> Iterator[State]:
        yield self.start([Node(("a", 1))], Shared())

    @internal
    def count(self, me: Node) -> Steps:
        yield become(me.but(count=0 if me.count is None else None))

    @internal
    def paint(self, me: Node, shared: Shared) -> Steps:
        colour = Colour.BLACK if me.colour is Colour.WHITE else Colour.WHITE
        yield become(me.but(colour=colour)).put(last=None if shared.last is colour else colour)

    @internal
    def climb(self, me: Node) -> Steps:
        if me.level is Level.HIGH:
            return
        yield become(me.but(level=Level.LOW if me.level is None else Level.HIGH, step=Step.SECOND, mode="on"))

    @internal
    def look(self, me: Node) -> Steps:
        if me.inner is None:
            inner = Inner((1, me.colour), Word.NO if me.level is None else None)
            yield become(me.but(inner=inner, seen=frozenset({inner}), votes=Map({Word.YES: None, Word.NO: 1})))


RED = ModelValue("red")
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 9), st.text(max_size=2), st.just(RED),
    *map(st.sampled_from, (Colour, Level, Word, Step)),
    st.builds(Inner, st.tuples(st.integers(0, 2), st.sampled_from(Colour)), st.none() | st.sampled_from(Word)),
)  # fmt: skip
VALUES = st.recursive(LEAVES, lambda some: st.one_of(
    st.lists(some, max_size=3).map(tuple), st.frozensets(some, max_size=3),
    st.dictionaries(some, some, max_size=3).map(Map)), max_leaves=6)  # fmt: skip


@settings(max_examples=20)
@given(st.lists(VALUES, max_size=6))
def test_one_order_and_one_encoding(values: list[Value]) -> None:
    """The order is total: it does not depend on where it begins. Equal encodings, equal places."""
    keys = sorted(map(order_key, values))
    assert sorted(map(order_key, reversed(values))) == keys
    assert [order_key(value) for value in ordered(values)] == keys
    assert len({encode(value) for value in values}) == len({repr(key) for key in keys})


def test_the_order_is_that_of_the_enum() -> None:
    assert ordered([Level.LOW, None, Level.HIGH]) == [None, Level.HIGH, Level.LOW]
    assert encode(Level.LOW) != encode(1)
    assert encode(Word.YES) != encode("y")


@pytest.mark.parametrize(
    ("value", "tla", "shown", "as_json"),
    [
        (None, "None", "None", None),
        (Colour.WHITE, "white", "white", "white"),
        (Step.FIRST, "FIRST", "FIRST", "FIRST"),
        (Level.HIGH, "9", "HIGH", "HIGH"),
        (Word.YES, '"y"', "y", "y"),
        ((1, None), "<<1, None>>", "[1, None]", [1, None]),
    ],
)
def test_names(value: Value, tla: str, shown: str, as_json: Any) -> None:
    assert (format_on_one_line(value), text_of(value), value_as_json(value)) == (tla, shown, as_json)


def states() -> list[State]:
    search = ReferenceSearch(Types(), SearchRequest())
    search.run()
    return list(search.states())


@pytest.mark.slow
def test_states_are_written_in_tla_and_json_and_read_again() -> None:
    view, found = TlaStateConverter(Types()), states()
    assert len(found) == 68
    for state in found:
        variables = view.variables(state)
        read = {name: parse_value(format_on_one_line(value)) for name, value in variables.items()}
        assert view.state(read) == state
        assert encode(view.state(read)) == encode(state)
        untyped = json.loads(json.dumps({name: _value_as_json(value) for name, value in variables.items()}))
        assert encode(view.state(untyped, untyped=True)) == encode(state)


@pytest.mark.kernel
@pytest.mark.parametrize("engine", ["tables", "symbolic"])
def test_every_engine_finds_the_same(engine: str) -> None:
    """What `tests/support/spark/shipped.py` does on a cluster, the shipped examples do with these types."""
    wanted = explore(Types())
    found = check(Types(), engine=engine)
    assert (found.distinct_states, found.generated_states, found.verdict) == (
        *(wanted.distinct_states, wanted.generated_states),
        wanted.verdict,
    )


def bound(text: str) -> Types:
    return bind(Types, parse_config(text, "x.cfg")).protocol  # type: ignore[return-value]


def test_a_cfg_names_members_and_none() -> None:
    found = bound('CONSTANTS First = black Words = {"y"} Limit = None')
    assert (found.first, found.words, found.limit) == (Colour.BLACK, frozenset({Word.YES}), None)
    assert bound("CONSTANT Limit = 3").limit == 3
    with pytest.raises(Exception, match=r"x.cfg:1:10: constant First: expected a Colour, found"):
        bound("CONSTANT First = grey")
    with pytest.raises(Exception, match="constant Words: an element of Words: expected a Word, found"):
        bound('CONSTANT Words = {"z"}')


@pytest.mark.parametrize(
    ("kind", "value", "problem"),
    [
        (int | None, "x", 'x: expected a number or None, found a string, \'x\''),
        (Colour, None, "x: expected a Colour, found None"),
        (Literal["a", 1], "b", "x: expected a string, 'a' or a number, 1, found a string, 'b'"),
        (tuple[int, ...], [1], "x: expected a sequence of numbers, found [1], a list, which can change; write a tuple"),
        (Any, 1.5, "x: 1.5 of type float is not a value that a state may hold; write an int"),
        (Any, {"a": 1}, "x: {'a': 1} of type dict is not a value that a state may hold"),
        (Flag, Flag.A, "x: <Flag.A: 1> of type Flag is not a value that a state may hold"),
        (int, Level.LOW, "x: expected a number, found <Level.LOW: 1> of type Level"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said(kind: Any, value: Any, problem: str) -> None:
    assert type_mismatch(value, kind, "x") == problem


def test_the_empty_tuple_has_a_type() -> None:
    assert type_mismatch((), tuple[int, int] | tuple[()], "x") is None
    assert type_mismatch((), tuple[()], "x") is None
    assert type_mismatch((1,), tuple[()], "x") is not None


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (int | Level, "values of int and Level may be equal in Python; make the enum an enum.Enum"),
        (str | Word, "values of str and Word may be equal in Python"),
        (list[int], r"a field of type list\[int\] can change; annotate it as a tuple"),
        (dict[str, int], "annotate it as a Map"),
        (set, "annotate it as a frozenset"),
        (Mapping[str, int], "no value has the type .*; a map is a Map, a sequence a tuple, a set a frozenset"),
    ],
)
def test_types_that_no_field_can_have(kind: Any, problem: str) -> None:
    with pytest.raises(ProtocolError, match=problem):
        type_mismatch(1, kind, "x")


@pytest.mark.kernel
def test_the_command_line_reads_what_it_wrote(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"{__file__}:Types"
    monkeypatch.chdir(tmp_path)
    assert run("simulate", name, "--runs", 2, "--depth", 12, "--seed", 1, "--out", "w").code == 0
    assert run("replay", name, *sorted(map(str, Path("w").glob("*.tla")))).code == 0


Term = NewType("Term", int)
T = TypeVar("T")


class Box(Record, Generic[T]):
    content: T


class Clock(Record):
    id: int
    term: Term = Term(1)
    last: Final[int] = 3
    terms: tuple[Term, ...] = ()
    boxed: Box[int] = Box(0)


class Aliases(Protocol):
    """Types that stand for others."""

    def initial(self) -> Iterator[State]:
        yield self.start([Clock(1)])

    @internal
    def tick(self, me: Clock) -> Steps:
        term = Term(me.term + 1)
        yield become(me.but(term=term, terms=(*me.terms, term), boxed=Box(me.boxed.content + 1)))

    @invariant
    def ends(self, me: Clock) -> bool:
        return me.term < me.last


def test_types_that_stand_for_others(run: Any, tmp_path: Path) -> None:
    file, name = tmp_path / "trace.tla", f"{__file__}:Aliases"
    assert run("check", name, "--engine", "reference", "--trace", file, "--quiet").code == 12
    assert run("replay", name, file).code == 0
    assert type_mismatch(Clock(1, terms=("2",)), Clock, "x") == "x.terms[1]: expected a number, found a string, '2'"  # type: ignore[arg-type]


class Full(Types):
    """Claims that no node ever has a value of every type."""

    @invariant
    def never_full(self, me: Node) -> bool:
        return None in (me.count, me.level, me.inner) or me.colour is Colour.WHITE


@pytest.mark.parametrize("form", ["tla", "itf.json", "json"])
def test_a_counterexample_is_written_in_each_form_and_replayed(run: Any, tmp_path: Path, form: str) -> None:
    file, name = tmp_path / f"trace.{form}", f"{__file__}:Full"
    assert run("check", name, "--engine", "reference", "--trace", file, "--quiet").code == 12
    outcome = run("replay", name, file)
    assert (outcome.code, "conforms, 4 steps" in outcome.out) == (0, True), outcome


def test_a_list_in_json_is_no_choice_of_a_literal(run: Any, tmp_path: Path) -> None:
    file, name = tmp_path / "trace.json", f"{__file__}:Full"
    assert run("check", name, "--engine", "reference", "--trace", file, "--quiet").code == 12
    document = json.loads(file.read_text())
    for step in document["counterexample"]["action"]:
        for _, variables in (step[0], step[2]):
            variables["mode"] = {key: ["off"] for key in variables["mode"]}
    for _, variables in document["counterexample"]["state"]:
        variables["mode"] = {key: ["off"] for key in variables["mode"]}
    file.write_text(json.dumps(document))
    outcome = run("replay", name, file)
    assert outcome.code == 2
    assert "for mode[" in outcome.err


SLIP = """
from kraftcheck import *
class Node(Record):
    id: int
    log: tuple[int, ...] = ()
class Nothing(Record):
    pass
class Mine(Protocol):
    def initial(self):
        yield self.start([Node(1)], Nothing())
    @projection
    def seen(self, me: Node):
        return me.log
    @internal(reads=seen)
    def step(self, me: Node, seen: Map):
        yield become(me)
"""


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("tuple[int, ...] = ()", "list[int] = []", "Node.log: a list can change; write a tuple"),
        ("tuple[int, ...] = ()", "list[int]", "Node.log: a field of type list[int] can change; annotate it as a tuple"),
        ("tuple[int, ...] = ()", '"Log" = ()', "Node: the annotation of a field cannot be resolved: name 'Log' is not"),
        (
            "return me.log",
            "return [*me.log]",
            "projection seen of Mine returned [], a list, which can change; write",
        ),
        ("Node(1)", "Node(1, [])", "replicas[1].log: expected a sequence of numbers, found [], a list, which can"),
    ],
)
def test_what_can_change_is_no_value(run: Any, tmp_path: Path, right: str, wrong: str, message: str) -> None:
    (tmp_path / "mine.py").write_text(
        SLIP.replace(right, wrong).replace("Node(1)", NODE if wrong == "list[int]" else "Node(1)")
    )
    outcome = run("check", f"{tmp_path / 'mine.py'}:Mine", "--engine", "reference")
    assert (outcome.code, outcome.err.count("\n") <= 3) == (2, True)
    assert message in outcome.err


NODE = "Node(1, [1])"


class Part(Record):
    number: int


class Other(Record):
    number: int


def test_a_map_that_fitted_one_type_is_checked_for_another() -> None:
    numbers = Map({1: 2})
    for _ in range(2):
        assert type_mismatch(numbers, Map[int, int]) is None
        assert type_mismatch(numbers, Map[int, int] | None) is None
        assert type_mismatch(numbers, Map[int, object]) is None
        assert type_mismatch(numbers, Map[int, bool]) is not None
        assert type_mismatch(numbers.put(2, True), Map[int, int]) is not None


@pytest.mark.parametrize("kind", [tuple[Part, ...], frozenset[Part], tuple[Part | Other, ...]])
def test_an_element_that_was_not_checked_is_found_among_checked_ones(kind: Any) -> None:
    checked = Part(1)
    assert type_mismatch(checked, Part) is None
    collection: Any = frozenset if "frozenset" in str(kind) else tuple
    assert type_mismatch(collection([checked, Part(2)]), kind) is None
    for wrong in (Part("2"), checked.but(number="3"), 3):  # type: ignore[arg-type]
        assert type_mismatch(collection([checked, wrong]), kind) is not None
    assert (type_mismatch(collection([checked, Other(1)]), kind) is None) == ("Other" in str(kind))

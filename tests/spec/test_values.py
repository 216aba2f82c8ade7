"""Values: one order and one encoding, the same in every process."""

from __future__ import annotations

import enum
import os
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftcheck.spec.encoding import encode
from kraftcheck.spec.values import (
    Map,
    ModelValue,
    Record,
    Symbol,
    Value,
    field_names,
    field_types,
    field_values,
    map_model_values,
    order_key,
    ordered,
    same_types,
    with_fields,
)

n1, n2, n3 = ModelValue("n1", 0), ModelValue("n2", 1), ModelValue("n3", 2)


class Colour(Symbol):
    RED = "red"
    BLUE = "blue"


class Shade(Symbol):
    RED = "red"


class Word(enum.StrEnum):
    A = "a"


class Level(enum.IntEnum):
    ONE = 1


class Point(Record):
    x: int
    y: int = 0


class Place(Record):
    x: int
    y: int = 0


class Box(Record):
    inside: Any = ()


DIFFERENT: list[Value] = [
    False,
    True,
    -1,
    0,
    1,
    10,
    "",
    "1",
    "a",
    "True",
    ModelValue("1"),
    ModelValue("a"),
    Colour.RED,
    Colour.BLUE,
    Shade.RED,
    None,
    Word.A,
    Level.ONE,
    Box(None),
    (),
    (1,),
    (True,),
    (1, 2),
    ((1,), 2),
    ((1, 2),),
    frozenset(),
    frozenset({1}),
    frozenset({True}),
    frozenset({1, 2}),
    frozenset({frozenset({1})}),
    Map(),
    Map({1: 2}),
    Map({True: 2}),
    Map({2: 1}),
    Map({1: 2, 2: 1}),
    Point(1),
    Point(1, 2),
    Place(1),
    Box(),
    Box((1, 2)),
    Box(Box()),
]


def test_encodings_are_as_different_as_values() -> None:
    assert len({encode(value) for value in DIFFERENT}) == len(DIFFERENT)
    assert len({repr(order_key(value)) for value in DIFFERENT}) == len(DIFFERENT)


def test_one_is_not_true() -> None:
    assert encode(1) != encode(True)
    assert encode(Map({1: 0})) != encode(Map({True: 0}))
    assert encode(Box(1)) != encode(Box(True))
    assert encode(frozenset({0})) != encode(frozenset({False}))


values = st.recursive(
    st.one_of(
        st.booleans(),
        st.integers(-3, 300),
        st.text(max_size=2),
        st.sampled_from([n1, n2, n3, *Colour, *Shade]),
    ),
    lambda children: st.one_of(
        st.lists(children, max_size=3).map(tuple),
        st.frozensets(children, max_size=3),
        st.dictionaries(children, children, max_size=3).map(Map),
        st.builds(Box, children),
        st.builds(Point, st.integers(0, 2), st.integers(0, 2)),
    ),
    max_leaves=8,
)


def same(one: Value, other: Value) -> bool:
    """Equality that keeps numbers and truth apart, written without the encoding."""
    if type(one) is not type(other):
        return False
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, frozenset):
        return len(one) == len(other) and all(any(same(a, b) for b in other) for a in one)
    if isinstance(one, Map):
        pairs = list(other.items())
        return len(one) == len(pairs) and all(any(same(k, a) and same(v, b) for a, b in pairs) for k, v in one.items())
    if isinstance(one, Record):
        return all(map(same, field_values(one), field_values(other)))
    return bool(one == other)


@given(values, values)
def test_equal_values_and_only_those_have_equal_encodings(one: Value, other: Value) -> None:
    assert (encode(one) == encode(other)) == same(one, other)
    if same(one, other):
        assert hash(one) == hash(other)
        assert one == other


@pytest.mark.slow
@given(st.lists(values, max_size=6), st.randoms())
def test_the_order_is_total_and_forgets_where_it_began(items: list[Value], random: Any) -> None:
    shuffled = list(items)
    random.shuffle(shuffled)
    assert [encode(item) for item in ordered(items)] == [encode(item) for item in ordered(shuffled)]
    for one, other in pairwise(ordered(items)):
        assert order_key(one) <= order_key(other)
        assert (order_key(one) == order_key(other)) == same(one, other)


@given(values)
def test_values_can_be_sent_elsewhere(value: Value) -> None:
    hash(value)
    copy = pickle.loads(pickle.dumps(value))
    assert encode(copy) == encode(value)
    assert copy == value


def test_the_order_is_tlcs_where_it_has_one() -> None:
    assert ordered([ModelValue("a", 1), ModelValue("b", 0)]) == [ModelValue("b", 0), ModelValue("a", 1)]
    assert ordered([(9,), (1, 1), ()]) == [(), (9,), (1, 1)]
    assert ordered([frozenset({3, 1}), frozenset({9}), frozenset({1, 2})]) == [
        frozenset({9}),
        frozenset({1, 2}),
        frozenset({1, 3}),
    ]
    assert ordered([Colour.BLUE, Colour.RED]) == [Colour.RED, Colour.BLUE]
    assert ordered([10, 9, -1]) == [-1, 9, 10]


PROGRAM = """
import hashlib, sys
from tests.spec.test_values import DIFFERENT
from kraftcheck.spec.encoding import encode
from kraftcheck.spec.values import ModelValue, ordered
from kraftcheck.spec.examples.two_phase_commit import TwoPhaseCommit
from kraftcheck.explorer.reference import ReferenceSearch
from kraftcheck.explorer.result import SearchRequest
digest = hashlib.sha256()
for value in ordered(DIFFERENT):
    digest.update(encode(value))
digest.update(encode(frozenset(v for v in DIFFERENT if v not in (0, 1))))
hosts = frozenset(ModelValue(f"rm{i}", i) for i in range(3))
search = ReferenceSearch(TwoPhaseCommit(resource_managers=hosts), SearchRequest())
search.run()
for state in search.states():
    digest.update(encode(state))
print(digest.hexdigest())
"""


@pytest.mark.slow
def test_neither_order_nor_encoding_nor_search_depends_on_the_hash_seed() -> None:
    root = Path(__file__).parents[2]
    printed = set()
    for seed in ("0", "1", "4294967295"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)}
        command = [sys.executable, "-c", PROGRAM]
        done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=True)
        printed.add(done.stdout)
    assert len(printed) == 1
    assert len(printed.pop()) == 65


@pytest.mark.parametrize("thing", [[1], {1}, {1: 2}, 1.5, b"x", object(), (1, [2]), frozenset({1.5}), Box(1.5)])
def test_what_is_no_value_has_neither(thing: Any) -> None:
    with pytest.raises(TypeError, match="is not a value"):
        encode(thing)
    with pytest.raises(TypeError, match="is not a value"):
        order_key(thing)


# Records


def test_a_record_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Point(1).x = 2  # type: ignore[misc]


def test_a_copy_with_changes() -> None:
    assert Point(1).but(y=2) == Point(1, 2)
    assert Point(1).but() == Point(1)
    with pytest.raises(TypeError, match="Point has no field 'z'; its fields are x, y"):
        Point(1).but(z=1)


class Sorted(Record):
    """A record that puts its items in order when it is made."""

    items: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "items", tuple(sorted(self.items)))


class Named(Sorted):
    """The same with a name."""

    name: str = ""


def test_a_copy_is_made_as_the_record_is() -> None:
    assert Sorted((2, 1)).but(items=(3, 2)).items == (2, 3)
    assert Named((2, 1), "a").but(items=(3, 2)) == Named((2, 3), "a")
    assert with_fields(Named((2, 1), "a"), [("items", (3, 2))]) == Named((2, 3), "a")
    assert with_fields(Point(1), [("y", 2)]) == Point(1, 2)


def test_records_of_different_classes_differ() -> None:
    assert Point(1) != Place(1)
    assert len({Point(1), Place(1), Point(1, 0)}) == 2
    assert Point(1) != (1, 0)


def test_what_a_record_is_made_of() -> None:
    assert field_names(Point) == ("x", "y")
    assert field_types(Point) == {"x": int, "y": int}
    assert field_values(Point(1, 2)) == (1, 2)
    assert repr(Point(1, 2)) == "Point(x=1, y=2)"


def test_a_pickled_record_forgets_its_hash() -> None:
    point = Point(1)
    hash(point)
    assert set(pickle.loads(pickle.dumps(point)).__dict__) == {"x", "y"}


# Maps, model values and symbols


def test_maps_do_not_change() -> None:
    one = Map({1: "a"})
    assert one.put(2, "b") == Map({1: "a", 2: "b"})
    assert one.without(1) == Map()
    assert one | {1: "c"} == Map({1: "c"})
    assert one == Map({1: "a"})
    assert one != {1: "a"}
    assert repr(Map({2: n1, 1: n2})) == "Map({1: n2, 2: n1})"


def test_model_values_are_their_names() -> None:
    assert ModelValue("n1", 5) == n1
    assert hash(ModelValue("n1", 5)) == hash(n1)
    assert ModelValue("n1") != "n1"
    assert encode(ModelValue("n1", 5)) == encode(n1)
    assert repr(n1) == "n1"


def test_symbols_are_what_tla_calls_them() -> None:
    assert str(Colour.RED) == repr(Colour.RED) == "red"
    assert Colour.RED != Shade.RED


def test_a_permutation_reaches_every_model_value() -> None:
    value = Box((n1, frozenset({n1, Colour.RED}), Map({n1: Box(n1), n2: 3})))
    swapped = map_model_values(value, lambda leaf: {n1: n2, n2: n1}.get(leaf, leaf))
    assert swapped == Box((n2, frozenset({n2, Colour.RED}), Map({n2: Box(n2), n1: 3})))


def test_equal_values_are_the_same_if_their_encodings_are() -> None:
    pairs = [(one, other) for one in DIFFERENT for other in DIFFERENT if one == other]
    assert sum(one is not other for one, other in pairs) > 4, "1 and True are equal"
    for one, other in pairs:
        assert same_types(one, other) == (one is other)
        assert same_types(Map({n1: one}), Map({n1: other})) == (one is other)
        assert same_types((n1, one), (n1, other)) == (one is other)

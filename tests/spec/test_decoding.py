"""Reading values back from their canonical encoding."""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftcheck.explorer.reference import ReferenceSearch
from kraftcheck.explorer.result import SearchRequest
from kraftcheck.spec import (
    Map,
    ModelValue,
    Protocol,
    Record,
    State,
    Steps,
    Symbol,
    become,
    constant,
    discovery,
    internal,
    ordered,
)
from kraftcheck.spec.discovery import classes_for_decoding, load_protocol, project_modules_of_protocol
from kraftcheck.spec.encoding import DecodingError, DecodingVocabulary, decode, encode
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.examples.two_phase_commit import TwoPhaseCommit
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.values import Value
from tests.support.tlc import bound


class Colour(Symbol):
    RED = "Red"
    GREEN = "Green"


class Word(enum.StrEnum):
    YES = "1"


class Level(enum.IntEnum):
    LOW = 1
    BOTTOM = 1


class Point(Record):
    x: Any
    y: Any = 0


class Nothing(Record):
    pass


MODEL_VALUES = tuple(ModelValue(name, number) for number, name in enumerate(("n2", "n1", "ü")))
LEXICON = DecodingVocabulary((Colour, Word, Level, Point, Nothing), MODEL_VALUES)
SCALARS = st.one_of(
    st.integers(),
    st.booleans(),
    st.text(),
    st.sampled_from((*MODEL_VALUES, *Colour, *Word, *Level, None, Nothing())),
)


def _extended(values: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
    few = st.lists(values, max_size=4)
    return st.one_of(
        few.map(tuple),
        few.map(frozenset),
        st.builds(Point, values, values),
        st.lists(st.tuples(values, values), max_size=4).map(Map),
    )


VALUES = st.recursive(SCALARS, _extended, max_leaves=12)


@given(VALUES)
def test_decoding_is_the_inverse_of_encoding(value: Value) -> None:
    found = decode(encode(value), LEXICON)
    assert found == value
    assert type(found) is type(value)
    assert encode(found) == encode(value)  # 1 and True are equal, and not the same value


def test_model_values_get_their_place_back() -> None:
    assert [decode(encode(ModelValue(v.name)), LEXICON).index for v in MODEL_VALUES] == [0, 1, 2]


@given(st.binary(max_size=40))
def test_bytes_are_canonical_or_refused(data: bytes) -> None:
    try:
        value = decode(data, LEXICON)
    except DecodingError:
        return
    assert encode(value) == data


@given(VALUES, st.data())
def test_changed_encodings_are_canonical_or_refused(value: Value, data: st.DataObject) -> None:
    changed = bytearray(encode(value))
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(changed[: data.draw(st.integers(0, len(changed)))])
    for tried in (bytes(changed), cut, bytes(changed) + cut):
        test_bytes_are_canonical_or_refused.hypothesis.inner_test(tried)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "byte 0 of an encoded value: expected 1 more bytes, found the end"),
        (b"?", "byte 0 of an encoded value: expected a value, found b'?'"),
        (b"TT", "byte 1 of an encoded value: expected the end, found 1 more bytes"),
        (b"i\0\0\0\x0201", "byte 7 of an encoded value: expected a number, found '01'"),
        (b"i\0\0\0\x02-0", "byte 7 of an encoded value: expected a number, found '-0'"),
        (b"s\0\0\0\x01\xff", "byte 6 of an encoded value: expected text in UTF-8"),
        (encode(ModelValue("n9")), "byte 7 of an encoded value: there is no model value 'n9'"),
        (b"y\0\0\0\x05Shade\0\0\0\0", "byte 14 of an encoded value: there is no enum called 'Shade'"),
        (b"y\0\0\0\x06Colour\0\0\0\x04Blue", "byte 19 of an encoded value: Colour has no member 'Blue'"),
        (b"e\0\0\0\x05Level\0\0\0\x06BOTTOM", "byte 20 of an encoded value: Level has no member 'BOTTOM'"),
        (b"e\0\0\0\x06Colour\0\0\0\x03RED", "byte 18 of an encoded value: Colour has no member 'RED'"),
        (b"r\0\0\0\x04Line", "byte 9 of an encoded value: there is no record class called 'Line'"),
        (b"r\0\0\0\x05Point\0\0\0\x01T", "byte 14 of an encoded value: expected the 2 fields of Point: x, y"),
        (b"{\0\0\0\x02TF", "byte 7 of an encoded value: elements out of order or duplicate"),
        (b"{\0\0\0\x02TT", "byte 7 of an encoded value: elements out of order or duplicate"),
        (b"{\0\0\0\x02Ti\0\0\0\x011", "byte 12 of an encoded value: duplicate element"),
    ],
)
def test_what_is_wrong_is_said(data: bytes, message: str) -> None:
    with pytest.raises(DecodingError) as caught:
        decode(data, LEXICON)
    assert str(caught.value) == message


def test_what_a_value_is_made_of_is_noted() -> None:
    lexicon = DecodingVocabulary()
    value = Map({MODEL_VALUES[0]: (Point(Colour.RED, frozenset([MODEL_VALUES[1]])),)})
    lexicon.note(value)
    assert lexicon.classes == [Point, Colour]
    assert set(lexicon.model_values) == {"n2", "n1"}
    assert decode(encode(value), lexicon) == value


def test_two_classes_of_one_name_are_refused() -> None:
    def another() -> type[Record]:
        class Twin(Record):
            pass

        return Twin

    lexicon = DecodingVocabulary([another()])
    lexicon.note((1, "a"))
    with pytest.raises(InputError, match=r"two classes are called .*another.<locals>.Twin: one of tests.spec"):
        lexicon.note(another()())


def test_symbols_of_one_text_are_refused() -> None:
    class Digit(Symbol):
        ONE = 1
        TEXT = "1"

    with pytest.raises(InputError, match="Digit: two of its values have the same text"):
        DecodingVocabulary([Digit])


def vote_class() -> type[Record]:
    class Vote(Record):
        term: int = 0

    return Vote


VOTES = (vote_class(), vote_class())


class Node(Record):
    id: ModelValue
    cast: Any = None


class Election(Protocol):
    network = None
    symmetries: ClassVar = {"Nodes": ("nodes",)}
    nodes: frozenset[ModelValue] = constant("Nodes", default=frozenset(MODEL_VALUES))

    def initial(self) -> Iterator[State]:
        yield self.start([Node(one) for one in ordered(self.nodes)])

    @internal
    def vote(self, me: Node) -> Steps:
        for kind in VOTES if me.cast is None else ():
            yield become(me.but(cast=kind(1)))


def test_a_class_is_not_taken_for_another_of_its_name_in_an_orbit() -> None:
    with pytest.raises(InputError, match=r"two classes are called .*Vote"):
        ReferenceSearch(Election(), SearchRequest(symmetry="Nodes", deadlock=False)).run()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["reconfig", "two-phase commit"])
def test_the_classes_of_every_value_of_a_search_can_be_reached(name: str) -> None:
    protocol: Protocol = TwoPhaseCommit(resource_managers=frozenset(MODEL_VALUES))
    if name == "reconfig":
        protocol = bound("counts/grow-and-shrink-with-election").protocol
    search = ReferenceSearch(protocol, SearchRequest(max_states=2_000, deadlock=False))
    search.run()
    lexicon = DecodingVocabulary()
    for state in search.states():
        lexicon.note(state)
    found = classes_for_decoding(protocol, Semantics(protocol).initial())
    assert set(lexicon.classes) <= set(found.values())
    assert found[State.__module__, "State"] is State
    assert all((cls.__module__, cls.__qualname__) == name for name, cls in found.items())


def test_a_users_file_and_what_is_beside_it(tmp_path: Path) -> None:
    (tmp_path / "records_beside.py").write_text("from kraftcheck import *\nclass Unused(Record):\n    at: int\n")
    (tmp_path / "mine.py").write_text(
        "import json\nfrom kraftcheck import *\nimport records_beside\nfrom records_beside import Unused\n"
        "class Mine(Protocol):\n    pass\n"
    )
    try:
        protocol = load_protocol(tmp_path / "mine.py", "Mine")
        assert [module.__name__ for module in project_modules_of_protocol(protocol)] == [
            "kraftcheck_user_mine",
            "records_beside",
        ]
        assert ("records_beside", "Unused") in classes_for_decoding(protocol(), [])
    finally:
        sys.modules.pop("records_beside", None)


def test_the_rules_of_a_users_file_may_be_in_a_folder_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint of other rules must not be resumed."""
    for package, text in {"rules_below": "from rules_below import deep", "installed_below/pack": "LIMIT = 1"}.items():
        folder = tmp_path / package
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("")
        (folder / "part.py").write_text(f"{text}\n")
    (tmp_path / "rules_below" / "deep.py").write_text("LIMIT = 1\n")
    (tmp_path / "mine.py").write_text(
        "import json\nfrom kraftcheck import *\nimport rules_below.part\nimport pack.part as other\n"
        "class Mine(Protocol):\n    pass\n"
    )
    installed = tmp_path / "installed_below"
    monkeypatch.syspath_prepend(str(installed))
    roots = {*discovery.installed_folders(), installed.resolve()}
    monkeypatch.setattr(discovery, "installed_folders", lambda: roots)
    try:
        names = [module.__name__ for module in project_modules_of_protocol(load_protocol(tmp_path / "mine.py", "Mine"))]
        assert names == ["kraftcheck_user_mine", "rules_below", "rules_below.deep", "rules_below.part"]
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] in ("rules_below", "pack")]:
            del sys.modules[name]


def test_annotations_that_cannot_be_resolved_are_left_out() -> None:
    class Inner(Record):
        at: int

    class Outer(Record):
        inner: Inner

    class Shared(Record):
        outer: Outer

    state = State(Map(), Map(), Shared(Outer(Inner(1))), Map())
    found = classes_for_decoding(TwoPhaseCommit(resource_managers=frozenset()), [state])
    assert {Inner, Outer, Shared} <= set(found.values())


def test_a_models_modules_are_the_same_in_each_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The digest of a model's sources may not follow from which submodules somebody has imported before."""
    package = tmp_path / "my_package"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from kraftcheck import *\nimport my_package.used\nclass Mine(Protocol):\n    pass\n"
    )
    (package / "used.py").write_text("LIMIT = 1\n")
    (package / "by_chance.py").write_text("LIMIT = 2\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        mine = import_module("my_package").Mine
        before = [module.__name__ for module in project_modules_of_protocol(mine)]
        import_module("my_package.by_chance")
        assert before == ["my_package", "my_package.used"]
        assert [module.__name__ for module in project_modules_of_protocol(mine)] == before
    finally:
        for name in [name for name in sys.modules if name.startswith("my_package")]:
            del sys.modules[name]

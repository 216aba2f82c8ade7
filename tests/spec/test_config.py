"""The reader of `.cfg` files: what it takes, and what it says about what it does not take."""

from __future__ import annotations

import gzip
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kraftcheck.spec.cfg.config as config_module
from kraftcheck.spec.cfg.binding import with_assignments
from kraftcheck.spec.cfg.config import (
    ConfigError,
    ConstantAssignment,
    ModelConfig,
    PositionedName,
    TextPosition,
    parse_config,
    parse_setting,
    read_config,
)
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.values import ModelValue, Value, ordered

DATA = Path(__file__).parents[1] / "data" / "tlc"
TLC_CONFIGS = sorted(DATA.glob("*/*.cfg"))
A_VALUE = 'a value (a number, TRUE, FALSE, a "string", a name or a set such as {a, b})'
A_KEYWORD = (
    "a keyword (CONSTANT, INIT, NEXT, SPECIFICATION, INVARIANT, PROPERTY, SYMMETRY, VIEW, CONSTRAINT, "
    "ACTION_CONSTRAINT, CHECK_DEADLOCK, ALIAS, POSTCONDITION)"
)


def read(text: str) -> ModelConfig:
    return parse_config(text, "three.cfg")


def value_of(text: str) -> Value:
    return read(f"CONSTANT X = {text}").constants["X"].value


def indices(config: ModelConfig) -> dict[str, int]:
    return {value.name: value.index for value in config.model_values}


def names(group: tuple[PositionedName, ...]) -> list[str]:
    return [named.name for named in group]


# Values


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("007", 7),
        ("-12", -12),
        ("4294967296", 2**32),
        ('"a b"', "a b"),
        ('""', ""),
        (r'"a\"b\\"', r"a\"b\\"),  # TLC keeps the backslashes
        (r'"\* no comment (* nor this"', r"\* no comment (* nor this"),
        ("n1", ModelValue("n1")),
        ("1st_host", ModelValue("1st_host")),
        ("_x", ModelValue("_x")),
        ("TRUEST", ModelValue("TRUEST")),
        ("{}", frozenset()),
        ("{1,2 , 1}", frozenset({1, 2})),
        ("{a, {b, {}}, -1}", frozenset({ModelValue("a"), frozenset({ModelValue("b"), frozenset()}), -1})),
    ],
)
def test_value(text: str, value: Value) -> None:
    assert value_of(text) == value
    assert type(value_of(text)) is type(value)


@pytest.mark.parametrize(("text", "value"), [("TRUE", True), ("FALSE", False)])
def test_boolean(text: str, value: bool) -> None:
    assert value_of(text) is value


def test_model_values_are_numbered_where_the_file_first_names_them_on_a_right_hand_side() -> None:
    config = read('CONSTANTS n1 = n3  Hosts = {n2, {n1}, n3}  Name = "n9"  INVARIANT Inv  CONSTANT Nil = Nil')
    assert indices(config) == {"n3": 0, "n2": 1, "n1": 2, "Nil": 3}
    n3 = config.constants["n1"].value
    assert next(value for value in config.constants["Hosts"].value if value == n3) is n3
    assert ordered(config.constants["Hosts"].value - {frozenset({ModelValue("n1")})})[0] is n3


# Keywords


@pytest.mark.parametrize(
    ("keyword", "field"),
    [
        ("INIT", "init"),
        ("NEXT", "next"),
        ("SPECIFICATION", "specification"),
        ("SYMMETRY", "symmetry"),
        ("VIEW", "view"),
        ("ALIAS", "alias"),
        ("POSTCONDITION", "postcondition"),
        ("POSTCONDITIONS", "postcondition"),
    ],
)
def test_keyword_with_one_name(keyword: str, field: str) -> None:
    named = PositionedName("Some", TextPosition("three.cfg", 2, 2))
    assert read(f"{keyword}\n Some") == replace(ModelConfig("three.cfg"), **{field: named})
    with pytest.raises(ConfigError) as caught:
        read(f"{keyword} A\n\n  {keyword} A")
    first = field.upper()
    assert str(caught.value) == f"three.cfg:3:3: expected {first} once, found it again (first on line 1)"


@pytest.mark.parametrize(
    ("keyword", "field"),
    [
        ("INVARIANT", "invariants"),
        ("INVARIANTS", "invariants"),
        ("PROPERTY", "properties"),
        ("PROPERTIES", "properties"),
        ("CONSTRAINT", "constraints"),
        ("CONSTRAINTS", "constraints"),
        ("ACTION_CONSTRAINT", "action_constraints"),
        ("ACTION_CONSTRAINTS", "action_constraints"),
    ],
)
def test_keyword_with_several_names(keyword: str, field: str) -> None:
    config = read(f"{keyword} B A\n{keyword}\nNEXT N {keyword} C A")
    found = getattr(config, field)
    assert names(found) == ["B", "A", "C"]
    assert found[1].position == TextPosition("three.cfg", 1, len(keyword) + 4)
    assert config == replace(ModelConfig("three.cfg"), next=config.next, **{field: found})


@pytest.mark.parametrize(("text", "value"), [("TRUE", True), ("FALSE", False)])
def test_check_deadlock(text: str, value: bool) -> None:
    assert read(f"CHECK_DEADLOCK {text}").check_deadlock is value
    assert read("INIT I").check_deadlock is None


@pytest.mark.parametrize("keyword", ["CONSTANT", "CONSTANTS"])
def test_constants_and_substitutions(keyword: str) -> None:
    config = read(f"{keyword} A = 1\nB<-C Nat <- [Naturals]Small Nat <- Other\n{keyword}\n{keyword} D=d")
    assert list(config.constants) == ["A", "D"]
    assert config.constants["D"] == ConstantAssignment(
        "D", ModelValue("d"), TextPosition("three.cfg", 4, len(keyword) + 2)
    )
    assert {what: by.name for what, by in config.substitutions.items()} == {
        "B": "C",
        "[Naturals]Nat": "Small",
        "Nat": "Other",
    }
    assert config.substitutions["B"].position == TextPosition("three.cfg", 2, 4)


def test_no_text_says_nothing() -> None:
    assert read("") == read(" \n\t\r\n \\* only a comment") == ModelConfig("three.cfg")


# Comments and positions


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_comments_and_line_ends(end: str) -> None:
    lines = [
        r"\* CONSTANT A = 1 (* not opened",
        'CONSTANT (* one (* two " *) \\* *) A = 1 (**) (*) *)',
        r"INIT\* no blank, and *) closes nothing",
        '(* "*) I (* over',
        "(* lines *)",
        "*) INVARIANT Inv",
        r"\* NEXT N",
    ]
    config = read(end.join(lines))
    assert config.constants["A"].position == TextPosition("three.cfg", 2, lines[1].index("A =") + 1)
    assert config.init == PositionedName("I", TextPosition("three.cfg", 4, 8))
    assert config.invariants == (PositionedName("Inv", TextPosition("three.cfg", 6, 14)),)
    assert config.next is None


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("A = 1", "1:1", f"expected {A_KEYWORD}, found 'A'"),
        ("\n #", "2:2", f"expected {A_KEYWORD}, found '#'"),
        ("INIT I J", "1:8", f"expected {A_KEYWORD} after I, found 'J'"),
        ("INIT\n\n", "1:5", "expected a name after INIT, found end of text"),
        ("INIT NEXT N", "1:6", "expected a name after INIT, found the keyword NEXT"),
        ("INIT TRUE", "1:6", "expected a name after INIT, found 'TRUE'"),
        ("INVARIANT = 3", "1:11", "expected a name after INVARIANT, found '='"),
        ("INVARIANT A = 3", "1:13", f"expected a name or {A_KEYWORD} after A, found '='"),
        ("CHECK_DEADLOCK no", "1:16", "expected TRUE or FALSE after CHECK_DEADLOCK, found 'no'"),
        ("CONSTANT\n 3", "2:2", "expected a name after CONSTANT, found '3'"),
        ("CONSTANT A 3", "1:12", "expected '=' or '<-' after A, found '3'"),
        ("CONSTANT F(0) = 1", "1:11", "expected '=' or '<-' after F, found '('"),
        ("CONSTANT I!A = 1", "1:11", "expected '=' or '<-' after I, found '!A'"),
        ("CONSTANT A =\nINIT I", "2:1", f"expected {A_VALUE}, found the keyword INIT"),
        ("CONSTANT A = 12_", "1:14", f"expected {A_VALUE}, found '12_'"),
        ("CONSTANT A = [M] 1", "1:14", f"expected {A_VALUE}, found '['"),
        ("CONSTANT A = \x01", "1:14", rf"expected {A_VALUE}, found '\x01'"),
        ('CONSTANT A = "b\n"', "1:14", f"expected {A_VALUE}, found a string that does not end on its line"),
        ("CONSTANT A = {", "1:15", f"expected {A_VALUE} or '}}', found end of text"),
        ("CONSTANT A = {1,}", "1:17", f"expected {A_VALUE}, found '}}'"),
        ("CONSTANT A = {1 2}", "1:17", "expected ',' or '}' after 1, found '2'"),
        ("CONSTANT A = {1}}", "1:17", f"expected a name or {A_KEYWORD}, found '}}'"),
        ("CONSTANT A <- +", "1:15", "expected a name or '[', found '+'"),
        ("CONSTANT A <- [+", "1:16", "expected a name, found '+'"),
        ("CONSTANT A <- [M B", "1:18", "expected ']' after M, found 'B'"),
        ("CONSTANT A <- [M] 3", "1:19", "expected a name, found '3'"),
        ("CONSTANT A = 1\nB = 2 A = 1", "2:7", "expected A once, found it again (first on line 1)"),
        ("CONSTANT A = 1\nA <- B", "2:1", "expected A once, found it again (first on line 1)"),
        ("CONSTANT N <- [M] B\nN <- [M] C", "2:1", "expected [M]N once, found it again (first on line 1)"),
        (
            "CHECK_DEADLOCK TRUE\nCHECK_DEADLOCK TRUE",
            "2:1",
            "expected CHECK_DEADLOCK once, found it again (first on line 1)",
        ),
        ("INIT I\nSPECIFICATION S", "2:1", "expected either INIT or SPECIFICATION, found both (INIT is on line 1)"),
        (
            "SPECIFICATION S\nNEXT N",
            "2:1",
            "expected either NEXT or SPECIFICATION, found both (SPECIFICATION is on line 1)",
        ),
        ("CONSTANT A = {1, {TRUE}}", "1:10", "expected either numbers or TRUE and FALSE in A, found both"),
        ("INIT I (* a (* b *)", "1:8", "expected '*)' at the end of the comment that begins here, found end of text"),
        ("INIT I\nTYPE T", "2:1", f"TYPE is not supported; expected {A_KEYWORD}"),
        ("TYPE_CONSTRAINT T", "1:1", f"TYPE_CONSTRAINT is not supported; expected {A_KEYWORD}"),
        ("INVARIANT A _POSSIBLE B", "1:13", f"_POSSIBLE is not supported; expected {A_KEYWORD}"),
        ("CONSTANT A = " + "9" * 1001, "1:14", "expected a number of at most 1000 digits, found 1001"),
        ("INIT I " + "x" * 40, "1:8", f"expected {A_KEYWORD} after I, found '{'x' * 27}...'"),
        ('CONSTANT A = "\ud800"', "1:15", "expected text in UTF-8, found something else"),
    ],
)
def test_error(text: str, place: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert str(caught.value) == f"three.cfg:{place}: {message}"
    assert str(caught.value.position) == f"three.cfg:{place}"


def test_error_survives_a_process_boundary() -> None:
    error = ConfigError("expected this", TextPosition("three.cfg", 1, 2), "--set X")
    copy = pickle.loads(pickle.dumps(error))
    assert isinstance(copy, InputError)
    assert (str(copy), copy.position) == ("--set X: expected this", error.position)


@pytest.mark.parametrize("depth", [101, 100_000])
def test_sets_nested_without_end_are_refused(depth: int) -> None:
    with pytest.raises(ConfigError, match=r"^three.cfg:1:114: expected sets nested at most 100 deep"):
        value_of("{" * depth + "}" * depth)


def test_sets_may_nest_a_hundred_deep_and_comments_without_end() -> None:
    text = "{" * 100 + "}" * 100
    marks = 100_000
    assert repr(value_of(text + "(*" * marks + "{" + "*)" * marks)).count("frozenset") == 100


# Files


@pytest.mark.parametrize("path", TLC_CONFIGS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_tlc_files(path: Path) -> None:
    config = read_config(path)
    assert config.file == str(path)
    assert {name: type(config.constants[name].value) for name in ("Hosts", "MaxElections", "Nil")} == {
        "Hosts": frozenset,
        "MaxElections": int,
        "Nil": ModelValue,
    }
    first_named = [name for name, item in config.constants.items() if isinstance(item.value, ModelValue)]
    assert [value.name for value in config.model_values] == first_named
    assert [value.index for value in config.model_values] == list(range(len(first_named)))
    assert (config.init is None) == (config.next is None) == (config.specification is not None)
    assert config.invariants or "simulations" in path.parts or "dumps" in path.parts


def test_there_are_tlc_files() -> None:
    assert len(TLC_CONFIGS) == 25


def test_gzip_is_known_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "three.cfg"
    path.write_bytes(gzip.compress(b"INIT I", mtime=0))
    assert read_config(str(path)).init == PositionedName("I", TextPosition(str(path), 1, 6))


def test_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "three.cfg"
    path.write_bytes(b"\xef\xbb\xbfINIT I")
    assert read_config(path).init == PositionedName("I", TextPosition(str(path), 1, 6))


PACKED = gzip.compress(b"INIT I", mtime=0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", ": the file is empty; expected a TLC configuration, such as CONSTANT MaxRestarts = 1"),
        (b"\n \n", ": the file is empty; expected a TLC configuration, such as CONSTANT MaxRestarts = 1"),
        (PACKED[:-3], ": the file is gzip but damaged: Compressed file ended before"),
        (b"\x1f\x8bINIT INIT INIT", ": the file is gzip but damaged: Unknown compression method"),
        (PACKED[:10] + b"\xff" * 20, ": the file is gzip but damaged: Error -3 while decompressing data"),
        ("INIT é".encode() + b"\nNEXT \xc3\xa9\xff", ":2:7: expected text in UTF-8, found byte 0xff"),
        (b"\xef\xbb\xbfINIT \xff", ":1:6: expected text in UTF-8, found byte 0xff"),
    ],
)
def test_unreadable_content(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "three.cfg"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_config(path)
    assert str(caught.value).startswith(f"{path}{message}")


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_file_of_absurd_size(tmp_path: Path, pack: type[bytes]) -> None:
    path = tmp_path / "three.cfg"
    path.write_bytes(pack(b" " * (config_module.LARGEST_FILE_BYTES + 1)))
    with pytest.raises(InputError, match=r"expected a .cfg file, found more than 4 MB$"):
        read_config(path)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent.cfg: there is no such file$"):
        read_config(tmp_path / "absent.cfg")
    with pytest.raises(InputError, match=r": expected a .cfg file, found a folder$"):
        read_config(tmp_path)
    with pytest.raises(InputError, match=r"cannot be read: File name too long$"):
        read_config("x" * 5000)
    with pytest.raises(InputError, match=r"^'a\\x00b' is not the name of a file"):
        read_config("a\0b")


# Settings


def test_setting() -> None:
    setting = parse_setting(" MaxRestarts = 2 ", None)
    assert setting == ConstantAssignment("MaxRestarts", 2, TextPosition("--set", 1, 2))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("MaxRestarts=", f"expected {A_VALUE}, found end of text"),
        ("MaxRestarts", "expected '=' after MaxRestarts, found end of text"),
        ("", "expected a name, found end of text"),
        ("=1", "expected a name, found '='"),
        ("A<-B", "expected '=' after A, found '<-'"),
        ("A=1 2", "expected end of text after 1, found '2'"),
        ("INIT=1", "expected a name, found the keyword INIT"),
        ("A={TRUE,1}", "expected either numbers or TRUE and FALSE in A, found both"),
    ],
)
def test_setting_error(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_setting(text, None)
    assert str(caught.value) == f"--set {text}: {message}"
    assert caught.value.position.file == "--set"


def test_model_values_of_settings_follow_those_of_the_file() -> None:
    config = read("CONSTANTS Hosts = {n2, n1}  Nat = 1  Nil = Nil")
    setting = parse_setting("Hosts={n4, n1, n3}", config)
    assert {value.name: value.index for value in setting.value} == {"n4": 3, "n1": 1, "n3": 4}
    assert {value.name: value.index for value in parse_setting("A={n1,n2}", None).value} == {"n1": 0, "n2": 1}


def test_override() -> None:
    config = read("CONSTANTS Hosts = {n2, n1}  MaxRestarts = 1  Nat <- Small  INIT I")
    settings = ["Hosts={n4, n3}", "Value={v1, n3}", "MaxRestarts=2", "Nat={3}", "MaxRestarts=3"]
    result = with_assignments(config, [parse_setting(text, config) for text in settings])
    assert indices(result) == {"n2": 0, "n1": 1, "n4": 2, "n3": 3, "v1": 4}
    assert {value.name: value.index for value in result.constants["Value"].value} == {"n3": 3, "v1": 4}
    assert result.constants["MaxRestarts"].value == 3
    assert result.constants["Nat"].value == frozenset({3})
    assert (result.substitutions, result.init) == ({}, config.init)
    assert list(config.constants) == ["Hosts", "MaxRestarts"]
    assert config.constants["MaxRestarts"].value == 1
    assert "Nat" in config.substitutions
    assert list(result.constants) == ["Hosts", "MaxRestarts", "Value", "Nat"]


def test_a_model_value_that_a_setting_drops_keeps_its_index() -> None:
    config = with_assignments(read("CONSTANT Hosts = {n1, n2}"), [parse_setting("Hosts={n3}", None)])
    assert parse_setting("X=n2", config).value.index == 1


# What is printed is what is read

KEYWORDS = {"TRUE", "FALSE", "TYPE", "TYPE_CONSTRAINT", "CHECK_DEADLOCK", "CONSTANT", "CONSTANTS", "POSTCONDITIONS"}
NAMES = st.from_regex(r"[0-9_]{0,2}[A-Za-z][A-Za-z0-9_]{0,3}", fullmatch=True).filter(
    lambda name: name not in KEYWORDS | set(config_module._FIELD_OF_KEYWORD)
)
STRINGS = st.text(st.characters(exclude_characters='"\\\r\n', exclude_categories=["Cs"]), max_size=5)
BLANKS = st.sampled_from([" ", "\n", "\t", ' \\* INIT (* "\n', ' (* INIT (* *) " *) ', "\r\n"])


def sets_of(leaf: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
    model_values = NAMES.map(ModelValue)
    return st.recursive(leaf | model_values, lambda inner: st.lists(inner, max_size=3), max_leaves=8)


VALUES = sets_of(st.integers()) | sets_of(st.booleans()) | sets_of(STRINGS)
GROUPS = ["invariants", "properties", "constraints", "action_constraints"]
SINGLES = ["symmetry", "view", "alias", "postcondition"]


def tokens_of(value: Value) -> list[str]:
    if isinstance(value, list):
        inner: list[str] = []
        for item in value:
            inner += [",", *tokens_of(item)] if inner else tokens_of(item)
        return ["{", *inner, "}"]
    if isinstance(value, bool):
        return [str(value).upper()]
    return [f'"{value}"' if isinstance(value, str) else repr(value)]


def frozen(value: Value) -> Value:
    return frozenset(map(frozen, value)) if isinstance(value, list) else value


@st.composite
def printed_configs(draw: st.DrawFn) -> tuple[str, dict[str, object]]:
    """Draw the text of a `.cfg` and what it says."""
    sections: list[list[str]] = []
    says: dict[str, object] = {}
    bindings = draw(
        st.dictionaries(
            NAMES, VALUES | NAMES.map(lambda name: PositionedName(name, TextPosition("", 0, 0))), max_size=4
        )
    )
    for name, value in bindings.items():
        if isinstance(value, PositionedName):
            sections.append(["CONSTANT", name, "<-", value.name])
        else:
            sections.append(["CONSTANTS", name, "=", *tokens_of(value)])
    says["substitutions"] = {name: value.name for name, value in bindings.items() if isinstance(value, PositionedName)}
    says["constants"] = {
        name: frozen(value) for name, value in bindings.items() if not isinstance(value, PositionedName)
    }
    for field in [*SINGLES, *draw(st.sampled_from([["specification"], ["init", "next"]]))]:
        says[field] = draw(st.none() | NAMES)
        if says[field] is not None:
            sections.append([field.upper(), str(says[field])])
    for field in GROUPS:
        group = draw(st.lists(NAMES, unique=True, max_size=3))
        says[field] = group
        keyword = next(word for word, target in config_module._FIELD_OF_KEYWORD.items() if target == field)
        sections.append([keyword, *group])
    says["check_deadlock"] = draw(st.none() | st.booleans())
    if says["check_deadlock"] is not None:
        sections.append(["CHECK_DEADLOCK", str(says["check_deadlock"]).upper()])
    tokens = [token for section in draw(st.permutations(sections)) for token in section]
    return "".join(token + draw(BLANKS) for token in tokens), says


@pytest.mark.slow
@given(printed_configs())
def test_what_is_printed_is_what_is_read(drawn: tuple[str, dict[str, object]]) -> None:
    text, says = drawn
    config = read(text)
    found: dict[str, object] = {
        "constants": {name: item.value for name, item in config.constants.items()},
        "substitutions": {name: item.name for name, item in config.substitutions.items()},
        "check_deadlock": config.check_deadlock,
    }
    for field in [*SINGLES, "specification", "init", "next"]:
        named = getattr(config, field)
        found[field] = None if named is None else named.name
    for field in GROUPS:
        found[field] = names(getattr(config, field))
    assert {**dict.fromkeys(["specification", "init", "next"]), **says} == found


@given(st.text(st.sampled_from(list('INIT VABX=<-[]{}(*)\\,"1\n#')) | st.characters(), max_size=60))
def test_any_text_is_read_or_refused_with_a_place_in_it(text: str) -> None:
    place = TextPosition("three.cfg", 1, 1)
    try:
        read(text)
    except ConfigError as error:
        place = error.position
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    assert 1 <= place.line <= len(lines)
    assert 1 <= place.column <= len(lines[place.line - 1]) + 1


def test_lark_is_not_imported_before_it_is_needed() -> None:
    program = "import sys, kraftcheck.spec.cfg.config; sys.exit('lark' in sys.modules)"
    root = Path(config_module.__file__).parents[3]
    assert subprocess.run([sys.executable, "-c", program], cwd=root).returncode == 0

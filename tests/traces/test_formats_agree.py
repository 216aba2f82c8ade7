"""The same traces in all formats, read and written."""

import gzip
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftcheck.spec.encoding import encode
from kraftcheck.spec.tla.text import tuple_or_map_of_function
from kraftcheck.spec.values import Map, ModelValue, Record, Symbol, Value
from kraftcheck.traces import (
    InfiniteEnding,
    Trace,
    TraceError,
    TraceFormat,
    TraceState,
    read_traces,
    trace_as_tlc_json,
    trace_as_tlc_text,
    write_trace,
)
from kraftcheck.traces.formats.itf import itf_document
from tests.support.samples import TLC, TOY, text_of, traces_of, variables

NAMES = [path.name.split(".")[0] for path in sorted(TLC.glob("counterexamples/*.json.gz"))]


def read(name: str) -> Trace:
    (trace,) = read_traces(TLC / "counterexamples" / name)
    return trace


def test_there_are_samples() -> None:
    assert len(NAMES) == 8


@pytest.mark.parametrize("name", NAMES)
def test_the_log_the_module_and_the_json_tell_the_same(name: str) -> None:
    log, old, module = read(f"{name}.out.gz"), read(f"{name}.v215.out.gz"), read(f"{name}.tla.gz")
    assert variables(log) == variables(old) == variables(module)
    steps = [(state.number, state.action, state.location) for state in log.states]
    assert steps == [(state.number, state.action, state.location) for state in module.states]
    assert steps == [(state.number, state.action, state.location) for state in read(f"{name}.json.gz").states]
    assert (module.format, module.complete, module.ending) == (TraceFormat.TLC_TLA, True, None)


@pytest.mark.parametrize("name", NAMES)
def test_our_json_is_that_of_tlc_byte_by_byte(name: str) -> None:
    theirs = text_of(TLC / "counterexamples" / f"{name}.json.gz")
    ours = trace_as_tlc_json(read(f"{name}.out.gz"))
    assert sorted(ours["vars"]) == sorted(json.loads(theirs)["vars"])
    ours["vars"] = json.loads(theirs)["vars"]  # TLC has them in the order of the specification
    assert json.dumps(ours, ensure_ascii=False, separators=(",", ":")) == theirs


@pytest.mark.parametrize("name", NAMES)
def test_json_is_untyped_and_written_as_it_is(name: str) -> None:
    trace = read(f"{name}.json.gz")
    assert trace.untyped
    assert trace.format is TraceFormat.TLC_JSON
    assert (
        trace_as_tlc_json(trace)["counterexample"]
        == json.loads(text_of(TLC / "counterexamples" / f"{name}.json.gz"))["counterexample"]
    )
    with pytest.raises(ValueError, match="untyped JSON"):
        itf_document(trace)
    with pytest.raises(ValueError, match="untyped JSON"):
        next(trace_as_tlc_text(trace))


@pytest.mark.parametrize("version", ["", ".v215"])
@pytest.mark.parametrize("name", NAMES)
def test_our_text_is_that_of_tlc_byte_by_byte(name: str, version: str) -> None:
    path = TLC / "counterexamples" / f"{name}{version}.out.gz"
    (trace,) = read_traces(path)
    theirs = re.search(r"(?ms)^Error: Invariant.*?\n\n(?!State)", text_of(path))
    assert theirs is not None
    assert "".join(trace_as_tlc_text(trace, style="tlc2.15" if version else "tlc", sort=False)) == theirs[0]


@pytest.mark.parametrize("name", ["invariant", "deadlock", "back", "stutter", "one", "action"])
def test_traces_of_every_kind_survive_every_format(name: str, tmp_path: Path) -> None:
    (trace,) = read_traces(TOY / f"{name}.out")
    if name in ("invariant", "deadlock", "one"):
        theirs = (TOY / f"{name}.out").read_text()
        assert "".join(trace_as_tlc_text(trace)) in theirs
    for file in ("trace.out", "trace.itf.json", "trace.out.gz", "trace.itf.json.gz"):
        write_trace(trace, tmp_path / file)
        (again,) = read_traces(tmp_path / file)
        assert variables(again) == variables(trace)
        assert [state.action for state in again.states] == [state.action for state in trace.states]
        assert str(again.ending) == str(trace.ending)
        assert again.violated == trace.violated
        assert (tmp_path / file).read_bytes().startswith(b"\x1f\x8b") == file.endswith(".gz")
    write_trace(trace, tmp_path / "trace.json")
    (again,) = read_traces(tmp_path / "trace.json")
    assert again.untyped
    assert again.ending == trace.ending
    write_trace(again, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (tmp_path / "trace.json").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_itf_keeps_every_value(name: str, tmp_path: Path) -> None:
    trace = read(f"{name}.out.gz")
    write_trace(trace, tmp_path / "trace", form="itf")
    (again,) = read_traces(tmp_path / "trace")
    assert again.format is TraceFormat.ITF
    assert variables(again) == variables(trace)
    assert [encode(value) for value in again.states[-1].variables.values()] == [
        encode(value) for value in trace.states[-1].variables.values()
    ]


def test_itf_keeps_the_order_of_model_values(tmp_path: Path) -> None:
    names = (ModelValue("z", 0), ModelValue("a", 1))
    trace = Trace("", 0, TraceFormat.TLC_LOG, (TraceState(1, {"y": names[1], "x": frozenset(names)}),))
    write_trace(trace, tmp_path / "trace.itf.json")
    document = json.loads((tmp_path / "trace.itf.json").read_text())
    assert document["states"][0]["x"] == {"#set": ["z", "a"]}
    (again,) = read_traces(tmp_path / "trace.itf.json")
    assert sorted((name.name, name.index) for name in again.states[0].variables["x"]) == [("a", 1), ("z", 0)]


def test_itf_writes_large_numbers_and_sets_as_every_reader_can_take_them() -> None:
    numbers = (2**53 - 1, 2**53, 1 - 2**53, -(2**53))
    values = {"n": numbers, "s": frozenset("jihgfedcba")}
    trace = Trace("", 0, TraceFormat.TLC_LOG, (TraceState(1, values),))
    assert itf_document(trace)["states"][0] == {
        "#meta": {"index": 0},
        "n": [2**53 - 1, {"#bigint": str(2**53)}, 1 - 2**53, {"#bigint": str(-(2**53))}],
        "s": {"#set": list("abcdefghij")},
    }


def test_the_json_of_values_that_the_samples_lack() -> None:
    class Role(Symbol):
        VOTER = "Voter"

    class Server(Record):
        host: ModelValue
        role: Role

    server = Server(ModelValue("n1"), Role.VOTER)
    values = {"a": Map(), "b": Map({"c d": True}), "e": Map({(1, "x"): 2}), "f": server}
    trace = Trace("", 0, TraceFormat.TLC_LOG, (TraceState(1, values),))
    assert trace_as_tlc_json(trace)["counterexample"]["state"] == [
        [1, {"a": [], "b": {"c d": True}, "e": {'<<1, "x">>': 2}, "f": {"host": "n1", "role": "Voter"}}]
    ]
    assert itf_document(trace)["states"][0]["f"] == {"host": "n1", "role": "Voter"}


def test_itf_does_not_confuse_strings_and_model_values() -> None:
    trace = Trace("", 0, TraceFormat.TLC_LOG, (TraceState(1, {"x": ("n1", ModelValue("n1"))}),))
    with pytest.raises(ValueError, match="'n1' is both a string and a model value"):
        itf_document(trace)


VALUES = st.recursive(
    st.booleans()
    | st.integers()
    | st.integers(2**53 - 2, 2**53 + 2)
    | st.text(max_size=5).map("s{}".format)
    | st.sampled_from([ModelValue("n1", 0), ModelValue("n2", 1)]),
    lambda items: (
        st.lists(items, max_size=4).map(tuple)
        | st.frozensets(items, max_size=4)
        | st.dictionaries(items, items, max_size=4).map(tuple_or_map_of_function)
        | st.dictionaries(st.sampled_from(["a", "b", "#set", "#"]), items, max_size=4).map(tuple_or_map_of_function)
    ),
    max_leaves=12,
)


@pytest.mark.slow
@given(st.lists(VALUES, min_size=1, max_size=3))
def test_any_value_survives_itf_and_text(tmp_path_factory: pytest.TempPathFactory, values: list[Value]) -> None:
    folder = tmp_path_factory.mktemp("values")
    states = tuple(TraceState(number, {"x": value, "y": 1}) for number, value in enumerate(values, start=1))
    trace = Trace("", 0, TraceFormat.TLC_LOG, states)
    for form in ("itf", "text"):
        write_trace(trace, folder / "trace", form=form)
        (again,) = read_traces(folder / "trace")
        assert [encode(state.variables["x"]) for state in again.states] == [encode(value) for value in values]


APALACHE = """{
  "#meta": {"description": "Created by Apalache", "varTypes": {"x": "Int"}},
  "params": ["N"], "vars": ["x", "f", "r"], "loop": 1,
  "states": [
    {"#meta": {"index": 0}, "N": 3, "x": {"#bigint": "-12345678901234567890"}, "f": {"#map": []}, "r": {}},
    {"x": 1, "f": {"#map": [[1, {"#tup": [1, "a"]}], [2, [true]]]}, "r": {"b": {"#set": [2, 1]}}},
    {"x": 2, "f": {"#map": [["E", {"#set": []}], ["W", []]]}, "r": {"tag": "Some", "value": {"#tup": []}}}
  ]
}"""


def test_what_apalache_writes_is_read(tmp_path: Path) -> None:
    (trace,) = traces_of(tmp_path, APALACHE)
    assert variables(trace) == [
        {"x": -12345678901234567890, "f": (), "r": ()},
        {"x": 1, "f": ((1, "a"), (True,)), "r": Map({"b": frozenset({1, 2})})},
        {"x": 2, "f": Map({"E": frozenset(), "W": ()}), "r": Map({"tag": "Some", "value": ()})},
    ]
    assert trace.ending == InfiniteEnding(2)


ITF_ERRORS = [
    ('{"states": []}', "an array of strings, found nothing in vars"),
    ('{"vars": ["x"], "states": []}', "an array of states in 'states', found an empty one"),
    ('{"vars": ["x"], "states": {}}', "an array of states in 'states', found an object"),
    ('{"vars": ["x"], "states": [1]}', "an object, found a number in states[0]"),
    ('{"vars": ["x", "y"], "states": [{"x": 1}]}', "a value for each of 'vars', found no y in states[0]"),
    ('{"vars": ["x", "x"], "states": [{"x": 1}]}', "each variable once, found a variable twice in 'vars'"),
    ('{"vars": ["x"], "states": [{"x": 1, "y": 2}]}', "values of no other variables than 'vars', found y in states[0]"),
    ('{"vars": ["x"], "states": [{"x": null}]}', "a value of ITF, found nothing in states[0].x"),
    ('{"vars": ["x"], "states": [{"x": {"#bigint": "1e5"}}]}', "a number in #bigint, found '1e5' in states[0].x"),
    ('{"vars": ["x"], "states": [{"x": {"#bigint": 5}}]}', "a number in #bigint, found '5' in states[0].x"),
    ('{"vars": ["x"], "states": [{"x": {"#set": 5}}]}', "an array, found a number in states[0].x"),
    ('{"vars": ["x"], "states": [{"x": {"#set": [1, true]}}]}', "each element once, found an element twice"),
    (
        '{"vars": ["x"], "states": [{"x": {"#map": [[1]]}}]}',
        "pairs of an argument and a value, found an entry that is no",
    ),
    (
        '{"vars": ["x"], "states": [{"x": {"#map": [[1, 2], [1, 3]]}}]}',
        "each argument once, found an argument twice in",
    ),
    ('{"vars": ["x"], "states": [{"x": {"#what": 5}}]}', "only #bigint, #tup, #set or #map, found the name '#what'"),
    (
        '{"vars": ["x"], "states": [{"x": {"#set": [], "a": 5}}]}',
        "only #bigint, #tup, #set or #map, found the name '#set'",
    ),
    (
        '{"vars": ["x"], "states": [{"x": {"#unserializable": ""}}]}',
        "only #bigint, #tup, #set or #map, found the name '#uns",
    ),
    ('{"vars": ["x"], "states": [{"x": 1}], "loop": 1}', "the index of a state, 0 to 0, found 1 in 'loop'"),
    (
        '{"vars": ["x"], "states": [{"x": 1}, {"x": 1}], "loop": true}',
        "the index of a state, 0 to 1, found True in 'loo",
    ),
    ('{"vars": ["x"], "states": [{"x": 1}], "#meta": 1}', "an object, found a number in #meta"),
    ('{"vars": ["x"], "states": [{"x": 1, "#meta": []}]}', "an object, found an array in states[0].#meta"),
    ('{"vars": ["x"], "states": [{"x": 1.5}]}', "whole numbers of a sensible length, found the number '1.5'"),
    ('{"vars": ["x"], "states": [{"x": NaN}]}', "whole numbers of a sensible length, found the number 'NaN'"),
    (
        '{"vars": ["x"], "states": [{"x": ' + "9" * 5000 + "}]}",
        "whole numbers of a sensible length, found the number '9",
    ),
    ('{"vars": ["x"], "states": [{"x": 1, "x": 2}]}', "each name once, found the name 'x' twice in one object"),
    (
        '{"vars": ["x"], "states": [{"x": ' + "[" * 201 + "]" * 201 + "}]}",
        "JSON of at most 200 levels, found values nested",
    ),
    ('{"vars": ["x"], "states": [{"x": ' + "[" * 99_999, "JSON of at most 200 levels, found values nested deeper"),
    ('{"vars": ["x"], "states": [{"x": "\\ud800"}]}', "text in Unicode, found a lone surrogate (\\ud800)"),
    ('{"vars": ["x"], "states": [{"\\uDFFF": "\\ud83d\\ude00"}]}', "text in Unicode, found a lone surrogate (\\udfff)"),
    ('{"vars": ["\\u001b\\n"], "states": [{}]}', "a value for each of 'vars', found no \\x1b\\n in states[0]"),
    ('{"states": [', "JSON (value), found the end of the file"),
    ('{"states": [} ]', "JSON (value), found '} ]'"),
    ("{}", "an object with 'counterexample' (TLC) or 'states' (ITF), found other JSON"),
]


@pytest.mark.parametrize(("text", "message"), ITF_ERRORS, ids=[text[-40:] for text, _ in ITF_ERRORS])
def test_errors_in_itf(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError) as error:
        traces_of(tmp_path, text)
    assert f"expected {message}" in str(error.value)


def test_errors_in_json_have_a_place(tmp_path: Path) -> None:
    with pytest.raises(TraceError) as error:
        traces_of(tmp_path, '{"states": [\n  {"x": 1 2}]}')
    assert (error.value.line, error.value.column) == (2, 11)


STATE_1, STATE_2 = '[1,{"x":0}]', '[2,{"x":1}]'
STEP = f'[{STATE_1},{{"name":"A"}},{STATE_2}]'


def counterexample(states: str, actions: str) -> str:
    return f'{{"counterexample":{{"action":[{actions}],"state":[{states}]}}}}'


def test_json_that_goes_on_for_ever(tmp_path: Path) -> None:
    states = f"{STATE_1},{STATE_2}"
    (back,) = traces_of(tmp_path, counterexample(states, f'{STEP},[{STATE_2},{{"name":"B"}},{STATE_1}]'))
    assert back.ending == InfiniteEnding(1, "B")
    (stutter,) = traces_of(tmp_path, counterexample(states, f'{STEP},[{STATE_2},{{"name":"UnnamedAction"}},{STATE_2}]'))
    assert stutter.ending == InfiniteEnding()
    (named,) = traces_of(tmp_path, counterexample(states, f'{STEP},[{STATE_2},{{"name":"B"}},{STATE_2}]'))
    assert named.ending == InfiniteEnding(2, "B")
    (none,) = traces_of(tmp_path, counterexample(states, STEP))
    assert none.ending is None
    (bare,) = traces_of(tmp_path, f'{{"action":[{STEP}],"state":[{STATE_2},{STATE_1}]}}')
    assert variables(bare) == [{"x": 0}, {"x": 1}]
    assert [state.action for state in bare.states] == [None, "A"]


@pytest.mark.parametrize(
    ("states", "actions"),
    [
        ("", ""),
        (STATE_2, ""),
        (f"{STATE_1},{STATE_2}", ""),
        (f"{STATE_1},{STATE_2}", f'{STEP},[{STATE_1},{{"name":"B"}},{STATE_1}]'),
        (f"{STATE_1},{STATE_2}", f'{STEP},[{STATE_2},{{"name":"B"}},[3,{{}}]]'),
        (f"{STATE_1},{STATE_2}", f'{STEP},[{STATE_2},{{"name":"B"}},{STATE_2}],[{STATE_2},{{"name":"B"}},{STATE_1}]'),
        (f"{STATE_1},{STATE_2},{STATE_2}", STEP),
        (f"{STATE_1},{STATE_2}", f"{STEP},{STEP}"),
        (f"{STATE_1},{STATE_2}", f'[[1,{{"x":9}}],{{"name":"A"}},{STATE_2}]'),
        (f"{STATE_1},{STATE_2}", "1"),
        (f"{STATE_1},{STATE_2}", f"[{STATE_1},{STATE_2}]"),
        (f"{STATE_1},{STATE_2}", f"[{STATE_1},{{}},{STATE_2}]"),
        (f"{STATE_1},{STATE_2}", f'[{STATE_1},{{"name":1}},{STATE_2}]'),
        (f"{STATE_1},{STATE_2}", f'[{STATE_1},{{"name":"A","location":{{"beginLine":1}}}},{STATE_2}]'),
        ("[1,{}]", ""),
        ("[1,1]", ""),
        ("[[],1]", ""),
        ("1", ""),
    ],
)
def test_errors_in_the_json_of_tlc(states: str, actions: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="expected a record of states, numbered from 1, and of the actions between"):
        traces_of(tmp_path, counterexample(states, actions))


MODULE = "---- MODULE M ----\nLOCAL INSTANCE TLC\n\nCounterExample == \n\t%s\n\n====\n"


def test_errors_in_the_module(tmp_path: Path) -> None:
    good = MODULE % "[action |-> {}, state |-> {<<1, [x |-> 0]>>}]"
    (trace,) = traces_of(tmp_path, good)
    assert variables(trace) == [{"x": 0}]
    with pytest.raises(TraceError, match="5:25: expected a value, found ']'"):
        traces_of(tmp_path, MODULE % "[action |-> {}, state |-> ]".replace("state |-> ", "s |->  "))
    with pytest.raises(TraceError, match="expected '====', the end of the module, found the end of the file"):
        traces_of(tmp_path, good.removesuffix("\n====\n"))
    with pytest.raises(TraceError, match="expected a record of states"):
        traces_of(tmp_path, MODULE % "[state |-> {}]")
    with pytest.raises(TraceError, match="expected a record of states"):
        traces_of(tmp_path, MODULE % "{1}")


def test_gzip_is_read_whatever_the_name(tmp_path: Path) -> None:
    text = (TOY / "invariant.out").read_bytes()
    assert variables(traces_of(tmp_path, gzip.compress(text), "a.out")[0]) == variables(traces_of(tmp_path, text)[0])

"""Simulations, dumps and graphs of TLC; how a format is told; files that are no text."""

import gzip
import json
import os
import re
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kraftcheck.traces.formats
import kraftcheck.traces.formats.tlc_log
import kraftcheck.traces.parsing
from kraftcheck.spec.encoding import encode
from kraftcheck.spec.tla.text import TlaSyntaxError, parse_value
from kraftcheck.spec.values import Map, ModelValue
from kraftcheck.traces import (
    TraceEnd,
    TraceError,
    TraceFormat,
    TraceHead,
    TraceState,
    ValueCache,
    detect_format,
    read_graph,
    read_states,
    read_traces,
    stream_traces,
)
from kraftcheck.traces.trace import formats_by_constant_name
from tests.support.command_line import Run
from tests.support.samples import TLC, TOY, text_of, traces_of, variables

SIMULATIONS = sorted(TLC.glob("simulations/*.tla.gz"))


@pytest.mark.slow
def test_every_simulation_is_read_in_time() -> None:
    start = time.perf_counter()
    behaviours = [trace for path in SIMULATIONS for trace in read_traces(path)]
    seconds = time.perf_counter() - start
    assert len(behaviours) == 16
    for path, trace in zip(SIMULATIONS, behaviours, strict=True):
        text = text_of(path)
        assert (trace.format, trace.complete, trace.index) == (TraceFormat.TLC_SIMULATION, True, 0)
        assert len(trace.states) == text.count("\nSTATE_")
        assert [state.action for state in trace.states[1:]] == re.findall(r"\n\\\* <(\w+) line", text)[1:]
        assert all(len(state.variables) == 20 for state in trace.states)
        assert (trace.states[0].action, trace.states[0].location) == (None, None)
    assert seconds < 30  # it takes 1.3; this is to notice when the cache of values stops working


def test_simulations_of_the_old_version_do_not_name_actions() -> None:
    (trace,) = read_traces(TOY / "simulation.tla")
    assert [state.variables["x"] for state in trace.states] == [0, 1, 2, 3, 1]
    assert [state.action for state in trace.states] == [None] * 5
    assert trace.complete


def test_a_module_cut_short_anywhere_never_gives_a_wrong_state(tmp_path: Path) -> None:
    text = (TOY / "simulation.tla").read_text()
    (whole,) = traces_of(tmp_path, text)
    cache = ValueCache()
    for size in range(len(text) - 4):
        try:
            (trace,) = traces_of(tmp_path, text[:size], cache=cache)
        except TraceError:
            continue
        assert variables(trace) == variables(whole)[: len(trace.states)]
        assert trace.complete == (text[:size].count("====") > 0)


HEAD = "---- MODULE M ----\n"
SIMULATION_ERRORS = [
    ("", "2:1: expected 'STATE_1 ==', found the end of the file"),
    ("STATE_2 ==\n", "2:1: expected state 1, found state 2"),
    ("STATE_1 ==\n/\\ x = 1\n", "4:1: expected the rest of the first state, found the end of the file"),
    ("STATE_1 ==\n/\\ x = 1\n\nSTATE_3 ==\n", "5:1: expected state 2, found state 3"),
    (
        "STATE_1 ==\n/\\ x = 1\n\nSTATE_2 ==\n/\\ y = 1\n\n====",
        "5:1: expected all the variables of the first state, fo",
    ),
    (
        "STATE_1 ==\n/\\ x = 1\n\nSTATE_2 ==\n/\\ x = 1\n/\\ y = 1\n\n====",
        "5:1: expected only the variables of the fir",
    ),
    ("STATE_1 ==\n/\\ x = {\n\n====", "3:9: expected a value or '}', found the end of the text"),
    ("EXTENDS Naturals\n", "2:1: expected '/\\ name = value', a comment, 'STATE_n ==' or the end of the module, found"),
    ("STATE_1 ==\n/\\ x == 1\n", "3:1: expected '/\\ name = value', a comment, 'STATE_n ==' or the end of the module"),
]


@pytest.mark.parametrize(
    ("text", "message"), SIMULATION_ERRORS, ids=[repr(text)[-30:] for text, _ in SIMULATION_ERRORS]
)
def test_errors_in_simulations(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError) as error:
        traces_of(tmp_path, HEAD + text)
    assert str(error.value).removeprefix(f"{tmp_path / 'sample'}:").startswith(message)


def test_a_single_variable_in_a_simulation(tmp_path: Path) -> None:
    first, second = "STATE_1 ==\nx = {1,\n  2}\n\n\n", "STATE_2 ==\nx = 1\n\nSTATE_3 ==\nx = 2\n\n===="
    comment = "\\* <A(n1) line 1, col 2 to line 3, col 4 of module M>\n"
    (trace,) = traces_of(tmp_path, HEAD + first + comment + second)
    assert variables(trace) == [{"x": frozenset({1, 2})}, {"x": 1}, {"x": 2}]
    assert [(state.action, state.parameters) for state in trace.states] == [(None, None), ("A", "n1"), (None, None)]


def test_a_value_at_the_end_of_a_module_may_be_cut(tmp_path: Path) -> None:
    text = f"{HEAD}STATE_1 ==\nx = 1\n\nSTATE_2 ==\nx = 12"
    assert [len(traces_of(tmp_path, end)[0].states) for end in (text, text + "\n")] == [1, 2]


# Dumps


@pytest.mark.parametrize(("model", "count"), [("two-voters", 428), ("grow-one-to-two", 338)])
def test_the_states_of_a_dump(model: str, count: int) -> None:
    states = list(read_states(TLC / "dumps" / f"{model}.dump.gz"))
    assert [state.number for state in states] == list(range(1, count + 1))
    assert len({tuple(encode(value) for value in state.variables.values()) for state in states}) == count
    lines = text_of(TLC / "dumps" / f"{model}.dump.gz").splitlines()
    assert all(lines[state.line - 1] == f"State {state.number}:" for state in states)


def test_the_dump_of_a_toy() -> None:
    assert [dict(state.variables) for state in read_states(TOY / "toy.dump")] == [
        {"x": x, "y": Map({"a": frozenset({x - 1} if x else set())})} for x in range(4)
    ]
    assert [list(state.variables) for state in read_states(TOY / "one.dump")] == [["x"]] * 3


DUMP_ERRORS = [
    ("", "1:1: expected 'State 1:', found the end of the file"),
    ("hello\n", "1:1: expected '/\\ name = value', an empty line or 'State n:', found 'hello'"),
    ("State 1:\n\n", "2:1: expected '/\\ name = value', found a state without variables"),
    ("State 1:\n/\\ x = 1\n", "3:1: expected the rest of the state, and an empty line, found the end of the file"),
    ("State 1:\n/\\ x = 1\n\nState 2:\n/\\ x = 2", "6:1: expected the rest of the state, and an empty line, found the"),
    (
        "State 1:\n/\\ x = 1\n/\\ y = 1\n\nState 2:\n/\\ x = 2\n\n",
        "5:1: expected all the variables of the first state, f",
    ),
    ("State 1:\n/\\ x = 1\n\nState 2:\n/\\ x = {\n", "5:9: expected a value or '}', found the end of the text"),
]


@pytest.mark.parametrize(("text", "message"), DUMP_ERRORS, ids=[repr(text)[-30:] for text, _ in DUMP_ERRORS])
def test_errors_in_dumps(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "dump"
    path.write_text(text)
    with pytest.raises(TraceError) as error:
        list(read_states(path))
    assert str(error.value).removeprefix(f"{path}:").startswith(message)


def test_a_dump_without_its_last_empty_line(tmp_path: Path) -> None:
    path = tmp_path / "dump"
    path.write_text("State 1:\n/\\ x = 1\n\nState 2:\n/\\ x = 2\n")
    assert [state.variables["x"] for state in read_states(path)] == [1, 2]


# Graphs


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize("model", ["two-voters", "grow-one-to-two"])
def test_graph_and_dump_have_the_same_states(model: str) -> None:
    graph = read_graph(TLC / "dumps" / f"{model}.dot.gz")
    text = text_of(TLC / "dumps" / f"{model}.dot.gz")
    assert graph.number_of_edges() == text.count(" -> ")
    in_graph = {frozenset(state.variables.items()) for _, state in graph.nodes(data="state")}
    assert in_graph == {frozenset(state.variables.items()) for state in read_states(TLC / "dumps" / f"{model}.dump.gz")}
    (initial,) = [node for node, is_initial in graph.nodes(data="initial") if is_initial]
    assert set(nx.descendants(graph, initial)) | {initial} == set(graph)
    assert all(within for _, within in graph.nodes(data="within_constraints"))
    actions = [action for _, _, action in graph.edges(data="action")]
    assert actions.count("RequestVote") == text.count('[label="RequestVote"')
    assert None not in actions


def test_the_graph_of_a_toy() -> None:
    graph = read_graph(TOY / "toy.dot")
    x = {node: state.variables["x"] for node, state in graph.nodes(data="state")}
    steps = [(x[before], x[after], action) for before, after, action in graph.edges(data="action")]
    assert steps == [(0, 1, "Step"), (1, 2, "Step"), (2, 3, "Step"), (3, 1, "Back")]
    lines = (TOY / "toy.dot").read_text().splitlines()
    assert all(lines[state.line - 1].startswith(f"{node} [") for node, state in graph.nodes(data="state"))


def test_strings_in_a_graph_are_unescaped() -> None:
    graph = read_graph(TOY / "one.dot")
    values = [state.variables["x"] for _, state in graph.nodes(data="state")]
    assert values == [state.variables["x"] for state in read_states(TOY / "one.dump")]
    assert {action for _, _, action in graph.edges(data="action")} == {None}


DOT = "strict digraph DiskGraph {\nsubgraph cluster_graph {\n%s\n}\n}"
NODE = '%d [label="/\\\\ x = %d",tooltip="/\\\\ x = %d"%s];'


def graph_of(folder: Path, *lines: str) -> "nx.MultiDiGraph[int]":
    (folder / "graph.dot").write_text(DOT % "\n".join(lines))
    return read_graph(folder / "graph.dot")


def test_the_marks_of_a_graph(tmp_path: Path) -> None:
    graph = graph_of(
        tmp_path,
        '1 [label="/\\\\ x = \\"a\\\\\\\\n\\"",style = filled]',
        '1 -> 2 [label="Vote(n1,\\"b\\")\nthe formula\nof the action",color="black",fontcolor="black"];',
        NODE % (2, 2, 2, ""),
        '1 -> -3 [label="Vote(n2,2)",color="black",fontcolor="black"];',
        NODE % (-3, 3, 3, ",style = filled, fillcolor=lightyellow"),
        '2 -> 2 [style="dashed",color="lightgray"];',
        "2 -> 1;",
        "{rank = same; 1;2;}",
    )
    assert {node: state.variables["x"] for node, state in graph.nodes(data="state")} == {1: "a\\n", 2: 2, -3: 3}
    assert dict(graph.nodes(data="initial")) == {1: True, 2: False, -3: False}
    assert dict(graph.nodes(data="within_constraints")) == {1: True, 2: True, -3: False}
    assert [(before, after, step["action"], step["parameters"]) for before, after, step in graph.edges(data=True)] == [
        (1, 2, "Vote", 'n1,"b"'),
        (1, -3, "Vote", "n2,2"),
        (2, 2, None, None),
        (2, 1, None, None),
    ]
    assert graph.nodes[2]["state"].line == 7


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "6:1: expected a graph of states, found the end of the file"),
        (["1 -> 2;"], "3:1: expected a state, found a step from or to 1, which the file does not show"),
        ([NODE % (1, 1, 1, ""), "what"], "4:1: expected a state or a step, found 'what'"),
        (['1 [label="what"];'], "3:1: expected '/\\ name = value', found 'what'"),
        (['1 [label="/\\\\ x = {"];'], "3:1: expected a value or '}', found the end of the text"),
        ([NODE % (1, 1, 1, ""), '2 [label="'], "7:1: expected the rest of the graph, found the end of the file"),
        ([NODE % (1, 1, 1, ""), "{"], "4:1: expected a state or a step, found '{'"),
        (['1 [label="', *["x"] * 200], "3:1: expected a state or a step, found 'x'"),
    ],
)
def test_errors_in_graphs(lines: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError) as error:
        graph_of(tmp_path, *lines)
    assert str(error.value).removeprefix(f"{tmp_path / 'graph.dot'}:") == message


def test_a_graph_cut_short_is_an_error(tmp_path: Path) -> None:
    text = (TOY / "toy.dot").read_text()
    for size in range(0, len(text) - 1, 3):
        (tmp_path / "cut").write_text(text[:size])
        with pytest.raises(TraceError):
            read_graph(tmp_path / "cut")


# How a format is told


@pytest.mark.parametrize(
    ("path", "format"),
    [
        (TOY / "invariant.out", TraceFormat.TLC_LOG),
        (TOY / "tool.out", TraceFormat.TLC_LOG),
        (TLC / "counterexamples" / "acked.v215.out.gz", TraceFormat.TLC_LOG),
        (TLC / "counterexamples" / "acked.tla.gz", TraceFormat.TLC_TLA),
        (TLC / "counterexamples" / "acked.json.gz", TraceFormat.TLC_JSON),
        (TOY / "simulation.tla", TraceFormat.TLC_SIMULATION),
        (SIMULATIONS[0], TraceFormat.TLC_SIMULATION),
        (TOY / "toy.dump", TraceFormat.TLC_DUMP),
        (TLC / "dumps" / "two-voters.dump.gz", TraceFormat.TLC_DUMP),
        (TOY / "toy.dot", TraceFormat.TLC_DOT),
        (TLC / "dumps" / "two-voters.dot.gz", TraceFormat.TLC_DOT),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_the_format_is_told_by_the_content(path: Path, format: TraceFormat, tmp_path: Path) -> None:
    assert detect_format(path) is format
    (tmp_path / "nameless").write_bytes(b"\xef\xbb\xbf\r\n \n" + text_of(path).encode())
    assert detect_format(tmp_path / "nameless") is format


NEW_FORMAT = """
from kraftcheck.traces.trace import TraceEnd, TraceFormat, TraceHead, TraceState

class _Lines(TraceFormat):
    def recognises(self, first, beginning):
        return first == "numbers"

    def read(self, source, cache):
        yield TraceHead(source.file, 0, self)
        for number, line in source.lines():
            if number > 1:
                yield TraceState(number - 1, {"x": int(line)})
        yield TraceEnd()

A_NEW_ONE = _Lines("numbers")
"""


def test_a_file_in_the_folder_adds_a_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a_new_one.py").write_text(NEW_FORMAT)
    formats_by_constant_name.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(kraftcheck.traces.formats, "__path__", [*kraftcheck.traces.formats.__path__, str(tmp_path)])
        (trace,) = traces_of(tmp_path, "numbers\n7\n8\n")
        assert trace.format is TraceFormat.A_NEW_ONE
        assert variables(trace) == [{"x": 7}, {"x": 8}]
        assert len(list(TraceFormat)) == 9
    formats_by_constant_name.cache_clear()
    assert len(list(TraceFormat)) == 8
    with pytest.raises(AttributeError):
        TraceFormat.A_NEW_ONE  # noqa: B018


@pytest.mark.parametrize(
    ("name", "message"),
    [("toy.dump", "found the states of a model (TLC -dump)"), ("toy.dot", "found a state graph (TLC -dump dot)")],
)
def test_dumps_and_graphs_are_no_traces(name: str, message: str) -> None:
    with pytest.raises(TraceError, match="expected a trace, " + re.escape(message)):
        list(read_traces(TOY / name))


def test_traces_can_be_read_state_by_state(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text((TOY / "back.out").read_text() + "Error: \nState 1: <A>\n/\\ x = {\n")
    events = stream_traces(path)
    kinds = [type(next(events)) for _ in range(6)]
    assert kinds == [TraceHead, *[TraceState] * 4, TraceEnd]
    assert isinstance(next(events), TraceHead)
    with pytest.raises(TraceError):
        next(events)


def test_a_cache_is_shared_and_gives_names_their_meaning() -> None:
    leader = ModelValue("Leader", 12)
    cache = ValueCache({"Leader": leader})
    first, second = (
        next(read_traces(TLC / "counterexamples" / name, cache=cache))
        for name in ("fenced.out.gz", "fenced.v215.out.gz")
    )
    assert first.states[0].variables["log"] is second.states[0].variables["log"]
    assert leader.index == next(role for role in first.states[0].variables["state"].values() if role == leader).index


# Files that are no text, or too much of it


def error_of(folder: Path, content: bytes, **options: int) -> str:
    path = folder / "file"
    path.write_bytes(content)
    with pytest.raises(TraceError) as error:
        list(read_traces(path, **options))
    assert error.value.file == str(path)
    return str(error.value).removeprefix(f"{path}:")


STATE = b"State 1: <A>\n/\\ x = 1\n"


def test_what_is_not_utf8(tmp_path: Path) -> None:
    assert error_of(tmp_path, STATE + b'/\\ y = "caf\xe9"\n') == "3:12: expected text in UTF-8, found the byte 0xe9"
    assert error_of(tmp_path, STATE + '/\\ \u00e9y = "caf'.encode() + b'\xe9"\n').startswith(
        "3:13: expected text in UTF-8"
    )
    assert error_of(tmp_path, STATE.decode().encode("utf-16")).startswith(
        "1:1: expected text in UTF-8, found the byte 0xff"
    )
    (trace,) = traces_of(tmp_path, 'State 1: <A>\n/\\ x = "caf\u00e9 \u2028 \u0085"\n\n')
    assert trace.states[0].variables["x"] == "caf\u00e9 \u2028 \u0085"


def test_what_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(TraceError, match="1:1: expected a readable file, found an unreadable one"):
            list(read_traces(path))
        with pytest.raises(TraceError):
            detect_format(path)


def test_a_pipe_is_refused() -> None:
    """Its first bytes are lost when it is opened again, so a trace in it would lose states, or be lost."""
    readable, writable = os.pipe()
    os.write(writable, (TOY / "invariant.out").read_bytes())
    os.close(writable)
    try:
        with pytest.raises(TraceError, match="a pipe or a device; a file is opened more than once"):
            list(read_traces(f"/dev/fd/{readable}"))
    finally:
        os.close(readable)


def test_damaged_gzip(tmp_path: Path) -> None:
    text = (TOY / "continue.out").read_bytes() * 20
    packed = gzip.compress(text)
    assert "expected the rest of the gzip file, found the end of the file" in error_of(tmp_path, packed[:-20])
    assert "expected the rest of the gzip file, found the end of the file" in error_of(tmp_path, packed[:5])
    damaged = bytearray(packed)
    damaged[-6] ^= 255
    assert "expected a whole gzip file, found damaged data (CRC check failed" in error_of(tmp_path, bytes(damaged))
    for place in range(len(packed) // 3, len(packed) - 8, 97):
        damaged = bytearray(packed)
        damaged[place] ^= 255
        assert error_of(tmp_path, bytes(damaged))
    assert "found damaged data" in error_of(tmp_path, packed + b"rubbish")


@pytest.mark.slow
def test_the_unpacked_size_is_limited(tmp_path: Path) -> None:
    packed = gzip.compress(b"hello\n" * 1_000_000)
    message = "1667:1: expected at most 10,000 bytes, unpacked (--max-size raises the limit), found more"
    assert error_of(tmp_path, packed, limit_bytes=10_000) == message
    assert "found the end of the file" in error_of(tmp_path, packed)
    assert "at most 100 bytes" in error_of(
        tmp_path, (TLC / "counterexamples" / "acked.json.gz").read_bytes(), limit_bytes=100
    )


def test_long_lines_and_values_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kraftcheck.traces.parsing, "LONGEST_LINE", 1000)
    assert error_of(tmp_path, STATE + b"x" * 1001).startswith(
        "3:1: expected a line of at most 1,000 bytes, found a long"
    )
    monkeypatch.setattr(kraftcheck.traces.formats.tlc_log, "LONGEST_VALUE", 500)
    long = STATE + b"/\\ y = <<1\n" + b"  , 1\n" * 200
    assert error_of(tmp_path, long).startswith(
        "103:1: expected a value of at most 500 characters, found one that is longer"
    )


@pytest.mark.parametrize("form", ["/\\ x{n} = {interval}\n", "/\\ x{n} = <<{interval}, {{1}}>>\n"])
def test_intervals_of_a_file_are_limited_together(tmp_path: Path, form: str) -> None:
    """The same interval again costs nothing, and another file begins anew."""
    cache, path = ValueCache(), tmp_path / "trace.out"

    def read(*intervals: str) -> None:
        conjuncts = [form.format(n=n, interval=interval) for n, interval in enumerate(intervals)]
        path.write_text("State 1: <A>\n" + "".join(conjuncts) + "\n")
        list(read_traces(path, cache=cache))

    read(*["1..1000000"] * 3)
    path = tmp_path / "other.out"
    read("4..700000")
    path = tmp_path / "large.out"
    expected = "expected intervals of at most 1,000,000 elements in one file, found one of 400,000"
    with pytest.raises(TraceError, match=expected) as error:
        read("1..400000", "2..400001", "3..400002")
    assert error.value.line == 4


def test_intervals_that_are_keys_in_json(run: Run, tmp_path: Path) -> None:
    keys = {f"{n}..{n + 399_999}": "idle" for n in range(1, 4)}
    state = {"phase": keys, "holder": "nobody", "messages": {}, "_losses": 0}
    (path := tmp_path / "trace.json").write_text(json.dumps({"counterexample": {"state": [[1, state]], "action": []}}))
    outcome = run("replay", "lock-service", path)
    assert outcome.code == 2
    assert "expected intervals of at most 1,000,000 elements in one file, found one of 400,000" in outcome.err


UNENDED = {
    "trace.out": STATE + b'/\\ x = "%b\n\n',
    "trace.json": b'{"state": "%b',
    "graph.dot": b'digraph G {\n1 [label="%b\n',
    "states.dump": b'State 1:\n/\\ x = <<"%b\n\n',
    "model.cfg": b'CONSTANT Clients = "%b\n',
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("text", [b"a" * 3_000_000, b'\\"' * 100_000])
@pytest.mark.parametrize("name", UNENDED)
def test_a_long_string_without_an_end(run: Run, tmp_path: Path, name: str, text: bytes) -> None:
    """Neither memory nor time is many times the size of the file, nor does each quote in it begin a string."""
    (path := tmp_path / name).write_bytes(UNENDED[name] % text)
    words = ("crosscheck", "lock-service", "--config", "smoke", "--dump", path)
    if name.endswith(("out", "json")):
        words = ("replay", "lock-service", path)
    elif name.endswith("cfg"):
        words = ("check", "lock-service", "--config", path)
    began = time.thread_time()
    tracemalloc.start()
    try:
        outcome = run(*words)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert outcome.code == 2
    assert outcome.err.startswith(f"kraftcheck: error: {path}:")
    assert peak < 100 * path.stat().st_size
    assert time.thread_time() - began < 30  # it takes 3 at most; a search from each quote takes minutes


LONG_NUMBERS = {
    "location.out": STATE + b"\nState 2: <Step line %b, col 1 to line 2, col 2 of module M>\n/\\ x = 2\n\n",
    "simulation.tla": b"---- MODULE sim ----\nSTATE_%b ==\n/\\ x = 1\n\n====\n",
    "states.dump": b"State %b:\n/\\ x = 1\n\n",
    "node.dot": b'digraph G {\n%b [label="/\\\\ x = 1"];\n}\n',
    "edge.dot": b'digraph G {\n1 [label="/\\\\ x = 1"];\n1 -> %b [label="Step"];\n}\n',
    "constant.cfg": b"CONSTANT Clients%b = {}\n",
}


@pytest.mark.parametrize("name", LONG_NUMBERS)
def test_a_long_number_is_an_error_in_one_short_message(run: Run, tmp_path: Path, name: str) -> None:
    """Python converts no number of more than 4,300 digits."""
    (path := tmp_path / name).write_bytes(LONG_NUMBERS[name] % (b"1" * 5_000))
    words = ("crosscheck", "lock-service", "--config", "smoke", "--dump", path)
    if name.endswith(("out", "tla")):
        words = ("replay", "lock-service", path)
    elif name.endswith("cfg"):
        words = ("check", "lock-service", "--config", path)
    outcome = run(*words)
    assert outcome.code == 2
    assert outcome.err.startswith(f"kraftcheck: error: {path}:")
    assert len(outcome.err) < 2_100


def test_large_documents_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kraftcheck.traces.parsing, "LARGEST_DOCUMENT", 1000)
    for text in (b'{"a": \n' + b" \n" * 1000, b"---- MODULE M ----\nCounterExample ==\n" + b"\n" * 1000):
        assert "expected a file of at most 1,000 bytes in this format, found a larger file" in error_of(tmp_path, text)


def test_deep_nesting_is_an_error(tmp_path: Path) -> None:
    for value in ("<<" * 100_000 + ">>" * 100_000, "{" * 100_000, "(a :> " * 1000 + "1" + ")" * 1000):
        message = error_of(tmp_path, f"State 1: <A>\n/\\ x = {value}\n\n".encode())
        assert "expected a value of at most 200 levels, found one that is deeper" in message


# The cache of values

TEXTS = [
    "<<>>",
    "( [mtype |-> Vote, mdest |-> n1] :>\n      1 @@\n  [mtype |-> Vote, mdest |-> n2] :>\n      0 )",
    "[ committed |-> TRUE,\n  members |-> {[host |-> n1], [host |-> n2]},\n  id |-> 1 ]",
    '<< [value |-> {<<>>}, epoch |-> 1],   [value |-> ">> , }\\"", epoch |-> -2] >>',
    "(1 :> <<1, 2, 3>> @@ 2 :> (0 :> 1 @@ 1 :> 2) @@ 3 :> 1..3 @@ 4 :> {} )",
    "{{1, 2, 3, 4}, {1, 2, 3}, {4, 3, 2, 1}, 1..3, {<<1>>}, {<<TRUE>>}, {{}}, 7}",
    "<<" * 60 + "1" + ">>" * 60,
    "{" * 201 + "1" + "}" * 201,
]


@given(st.sampled_from(TEXTS), st.data())
def test_the_cache_reads_what_the_grammar_reads(text: str, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(0, 2))):
        place = data.draw(st.integers(0, len(text)))
        insert = data.draw(
            st.sampled_from(["", ",", "@@", "{", "}", "<<", ">>", "(", ")", "[", "]", '"', "|->", ":>", "1"])
        )
        text = text[:place] + insert + text[place + data.draw(st.integers(0, 3)) :]
    expected: object
    try:
        expected = encode(parse_value(text, where="f", line=3, column=5))
    except TlaSyntaxError as error:
        expected = str(error)
    cache = ValueCache()
    for _ in range(2):
        actual: object
        try:
            actual = encode(cache.read(text, where="f", line=3, column=5)[0])
        except TraceError as error:
            actual = str(error)
        assert actual == expected


@pytest.mark.parametrize("text", TEXTS[1:6])
def test_brackets_that_do_not_match_are_seen(text: str) -> None:
    end = text.rstrip(">)}]")
    for closing in (">>", ")", "}", "]", "", text[len(end) :] + ">>", text[len(end) :] + "}"):
        if closing != text[len(end) :]:
            with pytest.raises(TraceError):
                ValueCache().read(end + closing, where="f", line=1, column=1)


LONG = "a_name_that_is_long_enough_for_the_text_to_be_cut"


@pytest.mark.parametrize(
    "text",
    [
        f"({LONG} :> 1 @@ {LONG} :> 1)",
        f"({LONG} :> 1 @@ 1 :> 2 @@ TRUE :> 2)",
        f"[{LONG} |-> 1, {LONG} |-> 1]",
        f"[{LONG} |-> 1, 5 |-> 1]",
        f"{{{LONG}, 1, TRUE}}",
        f"{{{LONG}, 1,, 2}}",
        f"({LONG} :> 1 @@ 2)",
        f"({LONG} @@ 2)",
        f"({LONG} :> 1 :> 2)",
        f"({LONG} :> 1 :> 2 @@ 3)",
        f"[{LONG} |-> 1 |-> 2]",
        f"[{LONG} |-> 1, a |-> 2 |-> 3, b]",
        f"[{LONG}]",
        f"<<{LONG} :> 1>>",
        f"{{{LONG} @@ 1}}",
        f"x {{{LONG}, 1}}",
        f"{{{LONG}, 1}} x",
    ],
)
def test_what_the_grammar_rejects_the_cache_rejects(text: str) -> None:
    with pytest.raises(TlaSyntaxError) as expected:
        parse_value(text, where="f", line=3, column=5)
    with pytest.raises(TraceError, match=re.escape(str(expected.value))):
        ValueCache().read(text, where="f", line=3, column=5)


def test_the_cache_keeps_the_order_of_fields_and_arguments() -> None:
    value, _ = ValueCache().read(
        "[" + ", ".join(f"{name} |-> 1" for name in "zyxwvutsrqponm") + "]", where="", line=1, column=1
    )
    assert list(value) == list("zyxwvutsrqponm")


def test_the_cache_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kraftcheck.traces.parsing, "CACHED_CHARACTERS", 1000)
    made: list[str] = []
    cache = kraftcheck.traces.parsing._TwoGenerationCache[str](lambda text: made.append(text) or text)  # type: ignore[func-returns-value]
    for number in range(1000):
        assert cache[str(number)] == str(number)
        assert cache["asked for again and again"]
    assert len(made) == 1001
    assert len(cache._young) + len(cache._old) < 20


# Much of everything

MEASURE = r"""
import re, sys
from pathlib import Path
from kraftcheck.traces import TraceState, read_traces, stream_traces
reader = {"stream": stream_traces, "read": read_traces}[sys.argv[2]]
count = 0
for event in reader(sys.argv[1]):
    count += len(event.states) if sys.argv[2] == "read" else isinstance(event, TraceState)
print(count, int(re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())[1]) // 1024)
"""
"""Prints the states read and the peak of resident memory in MiB; `ru_maxrss` would start from that of the parent."""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["stream", "read"])
def test_a_large_log_is_read_in_bounded_memory(way: str, tmp_path: Path) -> None:
    text = text_of(TLC / "counterexamples" / "joined.out.gz")
    states = re.split(r"(?m)^State \d+", text[text.index("State 1") : text.index('\n\n"Counter') + 2])[1:]
    count = 0
    with (tmp_path / "log").open("w") as log:
        while log.tell() < 100_000_000:
            count += 1
            log.write(f"State {count}{states[(count - 1) % len(states)]}")
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", MEASURE, str(tmp_path / "log"), way]
    output = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.split()
    assert int(output[0]) == count
    assert int(output[1]) < 90  # less than the log


def test_no_reader_runs_what_it_reads() -> None:
    sources = "".join(path.read_text() for path in (Path(__file__).parents[2] / "traces").rglob("*.py"))
    assert not re.search(r"\b(eval|exec|pickle|marshal|literal_eval)\b", sources)

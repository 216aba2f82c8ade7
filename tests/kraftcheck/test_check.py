"""`kraftcheck check`: exit codes, the report, the files."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import networkx as nx
import pytest

from kraftcheck.engines import ENGINES
from kraftcheck.spec.tla.text import parse_value
from tests.support.command_line import start

pytestmark = pytest.mark.kernel

COUNTS = Path(__file__).parents[1] / "data" / "tlc" / "counts"
EXPECTED = json.loads((COUNTS / "expected.json").read_text())
KEYS = {
    "model", "variant", "constants", "engine", "search", "workers", "result", "violated", "violations", "complete",
    "distinct_states", "generated_states", "depth", "actions", "never_enabled", "trace_length", "seconds",
    "states_per_second", "peak_memory_bytes",
}  # fmt: skip


def result_of(run, *arguments, code: int, tmp_path: Path) -> dict:
    path = tmp_path / "result.json"
    outcome = run("check", *arguments, "--json", path)
    assert outcome.code == code, outcome
    assert outcome.err == ""
    content = json.loads(path.read_text())
    assert set(content) >= KEYS
    return content


# Verdicts and numbers


def test_counts_of_two_voters(run, tmp_path) -> None:
    expected = EXPECTED["two-voters"]
    found = result_of(run, "reconfig", "--config", COUNTS / "two-voters.cfg", code=0, tmp_path=tmp_path)
    for key in ("distinct_states", "generated_states", "depth", "actions"):
        assert found[key] == expected[key], key
    assert found["never_enabled"] == [a for a, n in found["actions"].items() if n == 0]
    assert (found["model"], found["variant"], found["search"]) == ("reconfig", None, "bfs")
    assert found["engine"] in ENGINES
    assert found["constants"]["Hosts"] == ["n1", "n2"]
    assert found["constants"]["MaxElections"] == 1
    assert (found["result"], found["violated"], found["violations"], found["trace_length"]) == ("ok", None, [], None)
    assert found["complete"] is True
    assert min(found["seconds"], found["states_per_second"]) > 0
    assert found["peak_memory_bytes"] > 10**7


def test_deadlock_is_found_where_tlc_finds_it(run, tmp_path) -> None:
    found = result_of(
        run, "reconfig", "--config", COUNTS / "two-voters.cfg", "--deadlock", code=11, tmp_path=tmp_path
    )
    assert (found["result"], found["violated"], found["complete"]) == ("deadlock", "Deadlock", False)
    assert (found["trace_length"], found["depth"]) == (5, 6)


@pytest.mark.slow
def test_depth_first_search_meets_the_same_states(run, tmp_path) -> None:
    config = COUNTS / "two-voters.cfg"
    wide = result_of(run, "reconfig", "--config", config, code=0, tmp_path=tmp_path)
    deep = result_of(run, "reconfig", "--config", config, "--search", "dfs", code=0, tmp_path=tmp_path)
    assert deep["depth"] is None
    for key in ("distinct_states", "generated_states", "actions"):
        assert deep[key] == wide[key]


def test_violation(run, ping, tmp_path) -> None:
    found = result_of(run, ping, "--no-deadlock", code=12, tmp_path=tmp_path)
    assert (found["result"], found["violated"], found["violations"]) == ("violation", "FewPings", ["FewPings"])
    assert (found["trace_length"], found["depth"]) == (3, 3)
    assert found["model"] == ping


def test_continue_finds_every_violation(run, ping, tmp_path) -> None:
    found = result_of(run, ping, "--continue", code=12, tmp_path=tmp_path)
    assert found["result"] == "violation"
    assert found["violated"] == "FewPings"
    assert set(found["violations"]) == {"FewPings", "ShortLog", "Deadlock"}
    assert found["complete"] is True


def test_variant(run, ping, tmp_path) -> None:
    found = result_of(run, ping, "--variant", "forgetful", "--set", "MaxPings=3", code=12, tmp_path=tmp_path)
    assert found["variant"] == "forgetful"
    found = result_of(
        run, ping, "--variant", "forgetful", "--set", "MaxPings=1", "--no-deadlock", code=0, tmp_path=tmp_path
    )
    assert found["constants"] == {"MaxPings": 1}


@pytest.mark.parametrize("model", ["reconfig", "two-phase-commit", "lock-service"])
def test_smoke_configurations(run, model) -> None:
    started = time.monotonic()
    outcome = run("check", model, "--config", "smoke")
    assert outcome.code == 0, outcome.out
    assert time.monotonic() - started < 5


def test_the_default_configuration_is_taken(run, tmp_path) -> None:
    found = result_of(run, "two-phase-commit", code=0, tmp_path=tmp_path)
    assert found["configuration"] == "default"
    assert found["distinct_states"] == 8832


@pytest.mark.parametrize(
    ("limit", "states"), [(("--max-states", "10"), 10), (("--max-depth", "1"), 1), (("--max-depth", "2"), 6)]
)
def test_limits(run, tmp_path, limit, states) -> None:
    config = COUNTS / "two-voters.cfg"
    found = result_of(run, "reconfig", "--config", config, *limit, code=20, tmp_path=tmp_path)
    assert (found["result"], found["complete"], found["violated"]) == ("incomplete", False, None)
    assert found["limit"] == limit[0][2:].replace("-", "_")
    if limit[0] == "--max-depth":
        assert found["depth"] == int(limit[1])
    assert found["distinct_states"] <= states


@pytest.mark.slow
def test_time_limit(run, tmp_path) -> None:
    began = time.process_time()  # whatever else the machine does
    found = result_of(run, "reconfig", "--config", "large", "--time-limit", "0.3", code=20, tmp_path=tmp_path)
    assert found["limit"] == "time_limit"
    assert found["seconds"] > 0.3
    assert time.process_time() - began < 2.5


def test_symmetry_without_symmetry_in_the_configuration(run, tmp_path) -> None:
    found = result_of(run, "two-phase-commit", "--config", "smoke", "--symmetry", code=0, tmp_path=tmp_path)
    assert found["symmetry"] == "symmRM"
    assert found["distinct_states"] == 80


def test_symmetry_of_the_configuration_can_be_switched_off(run, tmp_path) -> None:
    config = tmp_path / "symmetric.cfg"
    config.write_text("CONSTANT RM = {a, b, c} SYMMETRY symmRM")
    assert result_of(run, "two-phase-commit", "--config", config, code=0, tmp_path=tmp_path)["symmetry"] == "symmRM"
    found = result_of(run, "two-phase-commit", "--config", config, "--no-symmetry", code=0, tmp_path=tmp_path)
    assert (found["symmetry"], found["distinct_states"]) == (None, 288)


def test_constraint(run, ping, tmp_path) -> None:
    (tmp_path / "ping.cfg").write_text("INVARIANT FewPings CONSTRAINT AtMostOne")  # beside the protocol: it is taken
    found = result_of(run, ping, "--no-deadlock", code=12, tmp_path=tmp_path)
    assert found["violations"] == ["FewPings"]  # a state beyond the constraint is not expanded, but it is checked
    assert found["configuration"].endswith("ping.cfg")


@pytest.mark.parametrize("options", [[], ["--check-actions"], ["--engine", "symbolic"], ["--engine", "reference"]])
def test_purity_is_checked(run, tmp_path, options) -> None:
    path = tmp_path / "impure.py"
    text = (
        "from kraftcheck import *\nCALLS = [0]\n"
        "class P(Record):\n    id: int\n    n: int = 0\n"
        "class S(Record):\n    pass\n"
        "class Impure(Protocol):\n"
        "    def initial(self):\n        yield self.start([P(1)], S())\n"
        "    @internal\n    def tick(self, me: P) -> Steps:\n"
        "        CALLS[0] += 1\n        if me.n < 3:\n            yield become(me.but(n=CALLS[0] % 50))\n"
    )
    path.write_text(text)
    outcome = run("check", f"{path}:Impure", "--no-deadlock", *options)
    assert outcome.code == 2
    assert "action Tick of Impure is not pure" in outcome.err


CHANGES_ITS_INPUT = """
from kraftcheck import *


class Node(Record):
    id: int
    n: int = 0


class Nothing(Record):
    pass


class Impure(Protocol):
    def initial(self):
        yield self.start([Node(1)], Nothing())

    @internal
    def tick(self, me: Node) -> Steps:
        if me.n < 5:
            if me.n == 2:  # in the third call, which is not in the sample
                object.__setattr__(me, "n", 7)
            yield become(me.but(n=me.n + 1))

    @internal
    def rest(self, me: Node) -> Steps:
        if LOOPS:
            yield become(me)
"""


@pytest.mark.parametrize(
    "words",
    [
        ("check", "--engine", "tables"),
        ("simulate", "--runs", "5"),
    ],
)
def test_a_behaviour_that_cannot_be_replayed_is_one_message(run, tmp_path, words) -> None:
    path = tmp_path / "impure.py"
    path.write_text(f"{CHANGES_ITS_INPUT}\nLOOPS = False\n")
    command, *options = words
    outcome = run(command, f"{path}:Impure", "--quiet", *options)
    assert outcome.code == 2, outcome
    assert outcome.err == (
        "kraftcheck: error: Impure: the behaviour found cannot be replayed: no step leads from its state 2 to"
        " the next; most likely an action is not pure, as kraftcheck check --check-actions shows\n"
    )


@pytest.mark.slow
def test_a_slip_by_which_an_action_is_not_pure_is_one_that_raises(run, tmp_path) -> None:
    path = tmp_path / "impure.py"
    path.write_text(f"{CHANGES_ITS_INPUT}\nLOOPS = True\n")
    outcome = run("mutate", f"{path}:Impure", "--quiet", "--engine", "tables", "--only", "LOOPS -> False")
    assert (outcome.code, outcome.err) == (0, "")
    assert "1 error" in outcome.out


# What is printed


def test_report(run) -> None:
    out = run("check", "reconfig", "--config", COUNTS / "two-voters.cfg", "--verbose").out
    lines = out.splitlines()
    assert lines[0].startswith("reconfig, configuration ")
    assert lines[0].endswith(f"two-voters.cfg, engine {next(iter(ENGINES))}, bfs")
    assert lines[1].startswith("constants: Hosts = {n1, n2}, Value = {v1}, InitClusterSize = 2")
    assert lines[2].startswith("checked: LeaderHasAllAckedValues, ")
    assert lines[4:6] == ["Nothing is violated", ""]
    rows = lines[lines.index("action                          fired") + 1 :][:22]
    expected = EXPECTED["two-voters"]["actions"]
    assert dict(map(str.split, rows)) == {name: f"{times:,}" for name, times in expected.items()}
    assert lines[-3].startswith("Warning: never enabled in this model: RestartWithState, RestartWithoutState, ")
    assert lines[-2].startswith("Note: never evaluated: `me.current_epoch != peer.current_epoch` of NeverTwoLeaders")
    assert lines[-1].startswith("OK: nothing is violated; 428 distinct states; 545 generated; depth 22; ")


def test_the_table_of_actions_is_shown_where_it_is_asked_for(run, ping) -> None:
    small = ("check", ping, "--set", "MaxPings=1", "--no-deadlock")
    short, verbose = run(*small).out, run(*small, "--verbose").out
    assert "fired" not in short
    assert re.search("^action +fired$", verbose, re.MULTILINE)
    lines = short.splitlines()
    assert lines[4:7] == ["Nothing is violated", "", "Warning: never enabled in this model: Never"]
    assert lines[-1].startswith("OK: nothing is violated; ")
    assert "handler calls" in run(*small, "--calls").out


def test_a_counterexample_comes_with_the_command_that_draws_it(run, ping, tmp_path) -> None:
    lines = run("check", ping, "--no-deadlock").out.splitlines()
    assert lines[4:7] == ["Violated: FewPings", "", "Counterexample to FewPings, 3 states"]
    assert lines[-2] == f"To see it as a page: kraftcheck check {ping} --no-deadlock --report found.html"
    assert lines[-1].startswith("VIOLATION: violated: FewPings; ")
    for more in (("--report", tmp_path / "x.md"), ("--quiet",)):
        assert "To see it" not in run("check", ping, "--no-deadlock", *more).out


def test_a_deadlock_comes_with_the_option_that_allows_it(run, ping) -> None:
    lines = run("check", ping, "--set", "MaxPings=1").out.splitlines()
    assert lines[-3] == "If the protocol may end there: --no-deadlock, or CHECK_DEADLOCK FALSE in the .cfg"
    assert lines[-1].startswith("DEADLOCK: ")


def test_a_deep_search_says_that_it_has_one_thread(run, ping) -> None:
    small = ("check", ping, "--set", "MaxPings=1", "--no-deadlock", "--engine", "tables", "--workers")
    note = "Note: --workers 4: --search dfs uses one thread; --search bfs uses all workers\n"
    assert note in run(*small, "4", "--search", "dfs").out
    assert "one thread" not in run(*small, "1", "--search", "dfs").out
    assert "one thread" not in run(*small, "4").out


def test_warning_names_only_what_never_fired(run, ping) -> None:
    out = run("check", ping, "--set", "MaxPings=1", "--no-deadlock").out
    assert "Warning: never enabled in this model: Never\n" in out


def test_quiet(run, ping) -> None:
    outcome = run("check", ping, "--set", "MaxPings=1", "--no-deadlock", "--quiet")
    assert outcome.out.splitlines()[0] == "Warning: never enabled in this model: Never"
    assert outcome.out.splitlines()[1].startswith("OK: ")
    assert "action " not in outcome.out


def test_a_search_that_checks_nothing_says_so(run, tmp_path) -> None:
    config = tmp_path / "nothing.cfg"
    config.write_text("CONSTANT RM = {a}\nCHECK_DEADLOCK FALSE")
    assert "Warning: nothing is checked" in run("check", "two-phase-commit", "--config", config).out


def test_limit_is_named(run) -> None:
    out = run("check", "two-phase-commit", "--max-states", 10).out
    assert "INCOMPLETE: nothing is violated so far, stopped at --max-states; 10 distinct states" in out
    assert "Note: never enabled before the search stopped: " in out


# Files


def test_trace_as_tlc_prints_it(run, ping, tmp_path) -> None:
    trace = tmp_path / "trace.out"
    assert run("check", ping, "--no-deadlock", "--trace", trace).code == 12
    text = trace.read_text()
    assert text.startswith(
        "Error: Invariant FewPings is violated.\n"
        "Error: The behavior up to this point is:\n"
        "State 1: <Initial predicate>\n"
        "/\\ pings = <<0, 0>>\n/\\ log = <<<<>>, <<>>>>\n/\\ seen = <<{}, {}>>\n/\\ messages = <<>>\n"
        "/\\ total = 0\n/\\ _pings = 0\n\n"
        "State 2: <SendPing>\n"
        "/\\ pings = <<1, 0>>\n"
    )
    assert [line for line in text.splitlines() if line.startswith(("State", "/\\ pings"))] == [
        "State 1: <Initial predicate>", "/\\ pings = <<0, 0>>", "State 2: <SendPing>", "/\\ pings = <<1, 0>>",
        "State 3: <SendPing>", "/\\ pings = <<2, 0>>",
    ]  # fmt: skip
    assert text.endswith("/\\ _pings = 2\n\nThe trace ends in state 3.\n")


def test_trace_holds_every_counterexample(run, ping, tmp_path) -> None:
    trace = tmp_path / "trace.out"
    run("check", ping, "--continue", "--variant", "forgetful", "--set", "MaxPings=3", "--trace", trace)
    text = trace.read_text()
    for heading in ("Error: Invariant FewPings is violated.", "Error: Deadlock reached."):
        assert heading in text
    assert text.count("State 1: <Initial predicate>") == text.count("Error: The behavior up to this point is:") >= 2


def test_step_invariants_are_action_properties(run, ping, tmp_path) -> None:
    source = tmp_path / "ping.py"
    source.write_text(source.read_text().replace(">= len(before.log)", "<= len(before.log)"))
    (tmp_path / "ping.cfg").write_text("PROPERTY LogGrows")
    trace = tmp_path / "trace.out"
    outcome = run("check", ping, "--trace", trace)
    assert outcome.code == 12
    assert "VIOLATION: violated: LogGrows" in outcome.out
    assert trace.read_text().startswith("Error: Action property LogGrows is violated.\n")


def test_without_a_counterexample_no_trace_is_left(run, tmp_path) -> None:
    trace = tmp_path / "trace.out"
    trace.write_text("of an earlier run")
    assert run("check", "two-phase-commit", "--config", "smoke", "--trace", trace).code == 0
    assert not trace.exists()


@pytest.mark.slow
def test_state_graph(run, tmp_path) -> None:
    sizes = set()
    for ending in ("graphml", "json", "dot"):
        path = tmp_path / f"graph.{ending}"
        assert run("check", "two-phase-commit", "--config", "smoke", "--graph", path).code == 0
        if ending == "graphml":
            graph = nx.read_graphml(path)
        elif ending == "json":
            graph = nx.node_link_graph(json.loads(path.read_text()), edges="edges")
        else:
            assert path.read_text().startswith('digraph states {\n  node [shape=box];\n  1 [label="1\\l')
            sizes.add((path.read_text().count("[label=") - 1145, path.read_text().count(" -> ")))
            continue
        sizes.add((graph.number_of_nodes(), graph.number_of_edges()))
        first = graph.nodes[next(iter(graph.nodes))]
        assert first["initial"] is True
        assert parse_value(first["state"].splitlines()[-1].partition(" = ")[2]) == frozenset()
        assert {data["action"] for *_, data in graph.edges(data=True)} == {
            "Prepare", "ChooseToAbort", "HearPrepared", "Commit", "Abort", "FollowDecision",
        }  # fmt: skip
    assert sizes == {(288, 1145)}  # every generated state but the initial one is an edge


def test_state_graph_ends_where_the_search_does(run, ping, tmp_path) -> None:
    (tmp_path / "ping.cfg").write_text("CONSTRAINT AtMostOne")
    path = tmp_path / "graph.json"
    states = result_of(run, ping, "--no-deadlock", "--graph", path, code=0, tmp_path=tmp_path)["distinct_states"]
    graph = nx.node_link_graph(json.loads(path.read_text()), edges="edges")
    assert sorted(graph.nodes) == list(range(1, states + 1))
    assert all("<<2" not in data["state"] for _, data in graph.nodes(data=True))  # no peer sent a second ping


def test_out_of_memory(run, monkeypatch) -> None:
    def fails(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("kraftcheck.explorer.tables.expander.Expander.expand", fails)
    monkeypatch.setattr("kraftcheck.explorer.reference.Semantics", fails)
    outcome = run("check", "reconfig", "--config", "smoke")
    assert outcome.code == 2
    assert "out of memory" in outcome.err


# As a process


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize("engine", ["tables", "reference"])
@pytest.mark.parametrize("seconds", [0.1, pytest.param(5.0, marks=pytest.mark.slow)])
def test_interrupted(tmp_path, engine, seconds) -> None:
    path = tmp_path / "result.json"
    process = start("check", "reconfig", "--config", "large", "--engine", engine, "--json", path)
    assert process.stdout is not None
    while process.stdout.readline() != "\n":  # the header ends; the search begins
        pass
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert err == ""
    assert "INCOMPLETE: nothing is violated so far, interrupted; " in out
    content = json.loads(path.read_text())
    assert (content["result"], content["limit"], content["complete"]) == ("incomplete", "interrupted", False)
    assert content["distinct_states"] > 0 or seconds < 1


def test_interrupted_while_a_class_is_made(tmp_path) -> None:
    """Such as a data class, whose methods are executed from text: CPython would end by the signal, not by the code."""
    path = tmp_path / "protocol.py"
    path.write_text('exec("raise KeyboardInterrupt")\n')
    process = start("check", f"{path}:Protocol")
    assert process.communicate(timeout=60) == ("", "interrupted\n")
    assert process.returncode == 130


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from kraftcheck.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: print(sorted(sys.modules))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for module in ("kraftcheck.spec", "kraftcheck.explorer", "networkx", "numpy", "numba", "lark", "rich", "tqdm"):
        assert f"'{module}'" not in loaded


@pytest.mark.slow
def test_a_pipe_that_closes_early() -> None:
    process = start("models")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    process.wait(timeout=30)
    assert process.stderr.read() == ""

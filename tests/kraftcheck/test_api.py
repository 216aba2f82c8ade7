"""`import kraftcheck`: what users write protocols and scripts with."""

from __future__ import annotations

import argparse
import ast
import json
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import kraftcheck
from kraftcheck import (
    Bag,
    InputError,
    Interrupted,
    ModelValue,
    Protocol,
    Record,
    Result,
    Search,
    State,
    Steps,
    ValidationState,
    Verdict,
    Violation,
    become,
    bound,
    check,
    explain,
    internal,
    invariant,
    load,
    simulate,
    spec,
    to_networkx,
    to_pandas,
    validate_step,
    write_report,
)
from kraftcheck.api import _job_without_configuration
from kraftcheck.commands import simulate as simulate_command
from kraftcheck.engines import search_order_names
from kraftcheck.explorer.request import OPTIONS
from kraftcheck.explorer.result import Progress
from kraftcheck.jobs import SEARCH_ONLY_OPTIONS
from kraftcheck.reporting.lines import ProgressMeter
from kraftcheck.spec.examples.two_phase_commit import TwoPhaseCommit

pytestmark = pytest.mark.kernel

THREE = TwoPhaseCommit(resource_managers=frozenset(ModelValue(f"rm{i}", i) for i in (1, 2, 3)))


def test_the_whole_language_is_here() -> None:
    assert set(spec.__all__) <= set(kraftcheck.__all__)
    for name in kraftcheck.__all__:
        assert getattr(kraftcheck, name) is not None
    for name in spec.__all__:
        assert getattr(kraftcheck, name) is getattr(spec, name)


def test_type_checkers_and_python_see_the_same_names() -> None:
    stub = Path(kraftcheck.__file__).with_suffix(".pyi").read_text()
    imports = [node for node in ast.parse(stub).body if isinstance(node, ast.ImportFrom)]
    named = {f"{node.module}.{alias.asname}" for node in imports for alias in node.names if alias.name != "*"}
    starred = {f"{node.module}.{name}" for node in imports if node.names[0].name == "*" for name in spec.__all__}
    assert named | starred == {f"{_home(name)}.{name}" for name in kraftcheck.__all__}
    here: dict[str, object] = {}
    exec("from kraftcheck import *", here)
    assert {name for name in here if not name.startswith("__")} == set(kraftcheck.__all__)
    assert set(kraftcheck.__all__) <= set(dir(kraftcheck))


def _home(name: str) -> str:
    return "kraftcheck.spec" if name in spec.__all__ else str(getattr(kraftcheck, name).__module__)


def test_importing_kraftcheck_imports_nothing_else() -> None:
    code = "import sys, kraftcheck; print(*[name for name in sys.modules if name.startswith('kraftcheck')])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["kraftcheck"]


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'kraftcheck' has no attribute 'chekc'"):
        kraftcheck.chekc  # noqa: B018


def test_check_all_properties_by_default() -> None:
    result = check(THREE)
    assert (result.verdict, result.distinct_states, result.complete) == (Verdict.OK, 288, True)


def test_check_with_options() -> None:
    seen: list[Progress] = []
    result = check(
        THREE, properties=["Consistent"], symmetry="symmRM", search="dfs", deadlock=False, check_actions=True,
        report=seen.append,
    )  # fmt: skip
    assert result.verdict is Verdict.OK
    assert result.distinct_states == seen[-1].distinct_states == 80
    assert check(THREE, max_depth=2).verdict is Verdict.INCOMPLETE


def test_an_interrupted_check_raises_with_what_was_found() -> None:
    def interrupt(progress: Progress) -> None:
        if progress.distinct_states > 100:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as caught:
        check(THREE, report=interrupt)
    assert caught.value.result.distinct_states > 100
    assert caught.value.result.verdict is Verdict.INCOMPLETE


def test_both_ways_take_the_first_order_of_an_engine() -> None:
    loaded = load("two-phase-commit", "smoke")
    for engine, order in (("symbolic", "saturation"), ("tables", "bfs"), (None, "bfs")):
        assert loaded.job(engine=engine).options.search == order
        assert _job_without_configuration(loaded.protocol, {"engine": engine}).options.search == order
    assert _job_without_configuration(loaded.protocol, {"engine": "symbolic", "search": "bfs"}).options.search == "bfs"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"properties": ["Consistant"]}, "unknown property Consistant (perhaps Consistent?); TwoPhaseCommit has "),
        ({"constraints": ["Nope"]}, "unknown constraint Nope"),
        ({"action_constraints": ["Consistent"]}, "unknown action constraint Consistent; TwoPhaseCommit has "),
        ({"symmetry": "x"}, "unknown symmetry x; TwoPhaseCommit has symmRM"),
        ({"view": "x"}, "unknown view x; TwoPhaseCommit has none"),
        ({"init": "x"}, "unknown start x; TwoPhaseCommit has Init"),
        ({"search": "x"}, f"unknown search x; there is {', '.join(search_order_names())}"),
        ({"engine": "x"}, "unknown engine x; there is "),
    ],
)
def test_unknown_names(options, message) -> None:
    with pytest.raises(InputError) as caught:
        check(THREE, **options)
    assert str(caught.value).startswith(message)


def test_both_ways_take_a_symmetry_by_name_and_refuse_an_option_that_there_is_not() -> None:
    loaded = load("two-phase-commit", "smoke")
    assert loaded.check(symmetry="symmRM", engine="reference").distinct_states == 80
    with pytest.raises(InputError, match="unknown symmetry x; TwoPhaseCommit has symmRM"):
        loaded.check(symmetry="x")
    for search in (loaded.check, lambda **options: check(THREE, **options)):
        with pytest.raises(InputError, match=r"unknown option max_state \(perhaps max_states\?\)"):
            search(max_state=1)


def test_progress_without_a_terminal_is_a_line_now_and_then() -> None:
    written: list[str] = []
    meter = ProgressMeter(write=written.append)
    for seconds in (1.0, 29.0, 31.0, 40.0, 62.0):
        meter.show(Progress(int(seconds) * 1000, 0, 5, 1234, seconds))
    assert written == [
        "31 s: 31,000 distinct states, 1,000 states/s, depth 5, frontier 1,234\n",
        "62 s: 62,000 distinct states, 1,000 states/s, depth 5, frontier 1,234\n",
    ]


def test_progress_of_a_search_by_sets_counts_nodes() -> None:
    """Saturation knows no states before its end; level by level those of whole levels are known."""
    written: list[str] = []
    meter = ProgressMeter(write=written.append)
    meter.show(Progress(1, 0, 0, 0, 31.0, 1_234_567))
    meter.show(Progress(12_345, 0, 7, 0, 62.0, 2_000))
    assert written == [
        "31 s: 1,234,567 nodes of diagrams\n",
        "62 s: 2,000 nodes of diagrams, depth 7, 12,345 distinct states\n",
    ]


def test_a_class_is_no_protocol_with_its_constants() -> None:
    with pytest.raises(InputError, match=r"found the class TwoPhaseCommit; call it, TwoPhaseCommit\(\.\.\.\)"):
        check(TwoPhaseCommit)  # type: ignore[arg-type]


# What the command line can do


class Worker(Record):
    id: int
    jobs: int = 0


class Nothing(Record):
    pass


class Factory(Protocol):
    """Two workers take jobs."""

    network = Bag()
    jobs: int = bound("MaxJobs", default=2)

    def initial(self) -> Iterator[State]:
        yield self.start([Worker(1), Worker(2)], Nothing())

    @internal
    def take(self, me: Worker) -> Steps:
        yield become(me.but(jobs=me.jobs + 1)).spend("jobs")

    @invariant
    def few_jobs(self, me: Worker) -> bool:
        return me.jobs < 3


def test_a_class_of_ones_own_with_a_cfg(tmp_path: Path) -> None:
    config = tmp_path / "three.cfg"
    config.write_text("CONSTANT MaxJobs = 3\nINVARIANT FewJobs\nCHECK_DEADLOCK FALSE\n")
    loaded = load(Factory, config)
    result = loaded.check(engine="reference")
    assert [violation.property for violation in result.violations] == ["FewJobs"]
    assert loaded.explain(result).startswith("Counterexample to FewJobs, 4 states\n")
    assert load(Factory, config, constants={"MaxJobs": 2}).check(engine="reference").verdict is Verdict.OK
    assert load(Factory).check(engine="reference").verdict is Verdict.DEADLOCK
    assert load(Factory).check(engine="reference", deadlock=False).verdict is Verdict.OK
    with pytest.raises(InputError, match="expected a string or a protocol's class, found an instance of Factory"):
        load(Factory())  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"expected a configuration's name or a \.cfg file, found ''"):
        load("two-phase-commit", "")
    config.write_text("CONSTANT MaxJob = 3\n")
    with pytest.raises(InputError, match=r"three.cfg:1:10: unknown constant MaxJob \(perhaps MaxJobs\?\)"):
        load(Factory, config)


def test_two_files_of_one_name_are_loaded(tmp_path: Path) -> None:
    loaded = []
    for last in (2, 5):
        path = tmp_path / str(last) / "counting.py"
        path.parent.mkdir()
        path.write_text(
            "from __future__ import annotations\nfrom kraftcheck import *\n\n"
            "class Count(Record):\n    number: int\n\n"
            "class Node(Record):\n    id: int\n    count: Count\n\n"
            "class Counting(Protocol):\n    network = None\n\n"
            "    def initial(self):\n        yield self.start([Node(1, Count(0))])\n\n"
            "    @internal\n    def count(self, me: Node):\n"
            f"        if me.count.number < {last}:\n"
            "            yield become(me.but(count=Count(me.count.number + 1)))\n"
        )
        loaded.append(load(f"{path}:Counting"))
    assert [found.check(deadlock=False).distinct_states for found in loaded] == [3, 6]


def test_memory_checkpoints_and_symmetry(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    limited = check(THREE, symmetry=True, memory="64M", checkpoint=kept, max_states=40, engine="tables")
    assert (limited.distinct_states, limited.limit) == (40, "max_states")
    result = check(THREE, symmetry=True, resume=kept)
    assert (result.distinct_states, result.complete) == (80, True)
    assert load("two-phase-commit", "smoke").check(memory=1 << 26, symmetry=True).distinct_states == 80


@pytest.mark.parametrize("options", [{"variant": "impatient-server"}, {"config": "smoke", "max_depth": 2}])
def test_a_script_finds_what_the_command_line_finds(options, run, tmp_path: Path) -> None:
    named = {name: options[name] for name in options if name in ("variant", "config")}
    result = load("lock-service", **named).check(
        engine="reference", **{name: options[name] for name in options if name not in named}
    )
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
    run("check", "lock-service", *words, "--engine", "reference", "--json", tmp_path / "found.json")
    found = json.loads((tmp_path / "found.json").read_text())
    for name in ("distinct_states", "generated_states", "depth", "actions", "notes", "warnings", "complete", "limit"):
        assert found[name] == getattr(result, name), name
    assert (found["result"], found["trace_length"] or 0) == (result.verdict, len(result.trace))
    assert found["notes"] or found["traces"]


def test_random_walks_of_a_model_by_name() -> None:
    result = load("lock-service", variant="impatient-server", constants={"MaxLosses": 0}).simulate(runs=100, seed=1)
    assert (result.verdict, result.violations[0].property) == (Verdict.VIOLATION, "MutualExclusion")


def test_the_trace_of_a_result_and_its_report(tmp_path: Path) -> None:
    protocol = Factory(jobs=3)
    result = check(protocol, deadlock=False, engine="reference")
    assert [step.action for step in result.trace] == [None, "Take", "Take", "Take"]
    assert check(Factory(), deadlock=False, engine="reference").trace == ()
    for name, content in (("report.html", '"property":"FewJobs"'), ("report.md", "sequenceDiagram")):
        write_report(protocol, result, tmp_path / name)
        assert content in (tmp_path / name).read_text()
    with pytest.raises(InputError, match=r"--report report.pdf: expected a file that ends in .html or .md"):
        write_report(protocol, result, "report.pdf")


def test_a_trace_as_a_table_of_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    result = check(Factory(jobs=3), deadlock=False, engine="reference")
    table = to_pandas(result)
    assert list(table.columns) == ["action", "actor", "message", "1.jobs", "2.jobs", "jobs"]
    assert table.loc[4, ["action", "1.jobs", "2.jobs", "jobs"]].tolist() == ["Take", 3, 0, 3]
    assert to_pandas(result.violations[0]).equals(table)
    assert len(to_pandas(check(Factory(), deadlock=False, engine="reference"))) == 0
    monkeypatch.setattr("kraftcheck.explorer.result.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"to_pandas needs the package pandas: pip install 'kraftcheck\[pandas\]'"):
        to_pandas(result)


def test_the_state_graph_in_networkx() -> None:
    graph = to_networkx(Factory(jobs=3))
    assert (len(graph), graph.number_of_edges()) == (10, 12)
    assert graph.nodes[1]["state"].replicas[1] == Worker(1)
    assert [edge["action"] for _, _, edge in graph.edges(1, data=True)] == ["Take", "Take"]
    assert len(to_networkx(Factory(jobs=3), max_depth=2)) == 3
    assert len(load("two-phase-commit", "smoke").to_networkx(symmetry=True)) == 80


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["--max-states", "0"], {"max_states": 0}),
        (["--workers", "two"], {"workers": "two"}),
        (["--memory", "much"], {"memory": "much"}),
        (["--time-limit", "-1"], {"time_limit": -1}),
        (["--engine", "x"], {"engine": "x"}),
        (["--search", "dfs", "--memory", "1G"], {"search": "dfs", "memory": 1 << 30}),
        (["--checkpoint-every", "5"], {"checkpoint_every": 5}),
        (["--resume", "nowhere"], {"resume": "nowhere"}),
        (["--resume", ""], {"resume": ""}),
        (["--engine", "reference", "--workers", "2"], {"engine": "reference", "workers": 2}),
    ],
)
def test_errors_say_what_the_command_line_says(words, options, run) -> None:
    with pytest.raises(InputError) as caught:
        load("two-phase-commit", "smoke").check(**options)
    outcome = run("check", "two-phase-commit", "--config", "smoke", *words)
    assert outcome.code == 2
    assert outcome.err.endswith(f"error: {caught.value}\n")


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["--engine", "reference"], {"engine": "reference"}),
        (["--engine", "spark"], {"engine": "spark"}),
        (["--master", "local"], {"master": "local"}),
        (["--conf", "a=b"], {"conf": {"a": "b"}}),
        (["--runs", "0"], {"runs": 0}),
        (["--depth", "-1"], {"depth": -1}),
        (["--depth", "1000001"], {"depth": 1_000_001}),
    ],
)
def test_errors_of_random_walks_say_what_the_command_line_says(words, options, run) -> None:
    with pytest.raises(InputError) as caught:
        load("two-phase-commit", "smoke").simulate(**options)
    outcome = run("simulate", "two-phase-commit", "--config", "smoke", *words)
    assert (outcome.code, outcome.err.endswith(f"error: {caught.value}\n")) == (2, True), outcome.err


def test_random_walks_have_the_options_of_the_command_line() -> None:
    parser = argparse.ArgumentParser()
    simulate_command.add_arguments(parser)
    lacking = {name for name, option in OPTIONS.items() if option.word} - {action.dest for action in parser._actions}
    assert lacking == set(SEARCH_ONLY_OPTIONS)
    for name in SEARCH_ONLY_OPTIONS:
        with pytest.raises(InputError, match=f"{OPTIONS[name].word}: not supported for random walks"):
            simulate(THREE, **{name: "x"})


VIOLATION, OK, ANY = Violation("FewJobs", ()), Result(), ValidationState()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: check("lock-service"), "protocol: expected a Protocol, found 'lock-service'"),
        (lambda: check(kraftcheck.Loaded), "protocol: expected a Protocol, found the class Loaded"),
        (lambda: check(None), "protocol: expected a Protocol, found None"),
        (lambda: check(THREE, properties=5), "properties: expected a sequence or None, found 5"),
        (lambda: check(THREE, properties=iter([5])), "properties: expected a string, found 5"),
        (
            lambda: check(Factory(), properties=[Factory.few_jobs]),
            'properties: expected a string, found the function Factory.few_jobs; give the name "FewJobs"',
        ),
        (
            lambda: check(Factory(), properties=Factory.properties.values()),
            'properties: expected a string, found an instance of Property; give the name "FewJobs"',
        ),
        *(
            (lambda name=name: check(THREE, **{name: 5}), f"{name}: expected a string(| or None), found 5")
            for name in ("search", "engine", "view", "init", "specification", "master")
        ),
        *(
            (lambda name=name: check(THREE, **{name: "no"}), f"{name}: expected True or False, found 'no'")
            for name in ("deadlock", "strict", "keep_going", "check_actions")
        ),
        (lambda: check(THREE, engine=True), "engine: expected a string or None, found True"),
        (lambda: check(THREE, conf=5), "conf: expected a mapping, found 5"),
        (lambda: check(THREE, workers=1.5), "workers: expected a whole number or None, found 1.5"),
        (lambda: check(THREE, report="x.html"), "report: expected a function or None, found 'x.html'"),
        (lambda: check(THREE, checkpoint=5), "checkpoint: expected a string or a path or None, found 5"),
        (lambda: check(THREE, resume=b"x"), "resume: expected a string or a path or None, found b'x'"),
        (lambda: load(5), "model: expected a string or a protocol's class, found 5"),
        (lambda: load(Factory, 5), "config: expected a string or a path or None, found 5"),
        (lambda: load(Factory, variant=5), "variant: expected a string or None, found 5"),
        (lambda: load(Factory, constants="MaxJobs=1"), "constants: expected a mapping or None, found 'MaxJobs=1'"),
        (lambda: load(Factory).check(strict="no"), "strict: expected True or False, found 'no'"),
        (lambda: load(Factory).explain(VIOLATION), "result: expected a Result, found an instance of Violation"),
        *(
            (lambda one=one: simulate(THREE, runs=one), f"runs: expected a whole number, found {one!r}")
            for one in ("5", 1.5, None, True)
        ),
        (lambda: simulate(THREE, depth="5"), "depth: expected a whole number, found '5'"),
        (lambda: simulate(THREE, seed="x"), "seed: expected a whole number, found 'x'"),
        (lambda: explain(THREE, OK), "violation: expected a Violation, found an instance of Result"),
        (lambda: explain(Factory, VIOLATION), "protocol: expected a Protocol, found the class Factory; call it"),
        (lambda: write_report(THREE, VIOLATION, "x.md"), "result: expected a Result, found an instance of Violation"),
        (lambda: to_pandas(5), "behaviour: expected a Result or a Violation or a sequence, found 5"),
        (lambda: kraftcheck.Replayer(Factory), "protocol: expected a Protocol, found the class Factory; call it"),
        (lambda: validate_step(ANY, 5), "step: expected a mapping or a sequence, found 5"),
        (lambda: validate_step(ANY, "x"), "step: expected a mapping"),
    ],
)
def test_an_argument_of_another_type_is_an_input_error(call, message) -> None:
    with pytest.raises(InputError, match=f"^argument {message}"):
        call()


def test_a_result_of_another_protocol_is_an_input_error(tmp_path: Path) -> None:
    other = load("lock-service", variant="impatient-server")
    result = other.check(engine="reference")
    assert other.explain(result)
    other.write_report(result, tmp_path / "own.md")
    for call in (
        lambda: load(Factory).explain(result),
        lambda: load(Factory).write_report(result, tmp_path / "x.md"),
        lambda: write_report(THREE, result, tmp_path / "x.md"),
        lambda: write_report(THREE, Result(violations=result.violations), tmp_path / "x.md"),
        lambda: explain(THREE, result.violations[0]),
    ):
        with pytest.raises(InputError, match=r"^expected a result of \w+, found one with \w+$"):
            call()


def test_a_report_that_cannot_be_written_is_an_input_error() -> None:
    with pytest.raises(InputError, match=r"--report nodir/x\.html: cannot be written: No such file or directory"):
        write_report(Factory(), Result(), "nodir/x.html")


@pytest.mark.slow
def test_numbers_names_and_files_of_other_types_are_taken() -> None:
    result = check(
        Factory(), properties=(name for name in ["FewJobs"]), deadlock=False, time_limit=5, max_states=np.int64(100),
        workers="1", engine=None, search=Search.BFS, strict=True, conf={}, symmetry=None,
    )  # fmt: skip
    assert result.verdict is Verdict.OK
    assert check(Factory(), properties="FewJobs", deadlock=False, engine="reference").verdict is Verdict.OK
    assert load("lock-service", Path("smoke")).job(time_limit=np.float32(1.5)).options.time_limit == 1.5
    asked = load("lock-service", "smoke").job(engine="spark", conf={"spark.cores.max": 2})
    assert asked.options.conf == (("spark.cores.max", "2"),)


def test_constants_of_python() -> None:
    clients = frozenset({ModelValue("c1"), ModelValue("c2")})
    for given in (clients, {"c1", "c2"}, "{c1, c2}"):
        assert load("lock-service", constants={"Clients": given}).protocol.clients == clients
    for given in (False, True):
        assert load("quorum", "smoke", constants={"LatePreVotes": given}).protocol.late_pre_votes is given


# docs/api.md, docs/python.md


def test_the_reference_has_every_public_name() -> None:
    listed = re.findall(r"^::: [\w.]+\.(\w+)$", PAGE.with_name("api.md").read_text(), re.MULTILINE)
    assert sorted(listed) == kraftcheck.__all__


PAGE = Path(__file__).parents[2] / "docs" / "python.md"


def program() -> str:
    return "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL))


@pytest.mark.slow
def test_the_page_does_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (config,) = re.findall(r"```cfg\n(.*?)```", PAGE.read_text(), re.DOTALL)
    Path("two-jobs.cfg").write_text(config)
    Path("page.py").write_text(program())
    runpy.run_path("page.py", run_name="page")
    printed = capsys.readouterr().out
    for said in re.findall(r"print\(.*\)  # (.*)$", program(), re.MULTILINE):
        assert f"{said}\n" in printed
    assert {"result.html", "few-jobs.md", "kept"} <= {file.name for file in tmp_path.iterdir()}


@pytest.mark.slow
def test_the_page_is_right_for_a_strict_type_checker(tmp_path: Path) -> None:
    wrong = '\nload("lock-service").check(max_state=1)\ncheck(Factory(), memory=1.5)\nreveal_type(result.trace)\n'
    (tmp_path / "page.py").write_text(program() + wrong)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "pyproject.toml", str(tmp_path / "page.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=PAGE.parents[1])
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 2, done.stdout
    assert 'Unexpected keyword argument "max_state"' in errors[0]
    assert 'Argument "memory" to "check" has incompatible type "float"' in errors[1]
    assert 'Revealed type is "tuple[kraftcheck.explorer.result.TraceStep, ...]"' in done.stdout

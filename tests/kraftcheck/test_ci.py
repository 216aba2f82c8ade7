"""What other programs read of a check: JSON by its schema, traces in each form, JUnit's XML, annotations."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import numba
import pytest

from kraftcheck import InputError, Verdict, check, load
from kraftcheck.engines import run_with_compile_timing, search
from kraftcheck.explorer.kernel_compilation import replace_unusable_cache_folder, timed_compilation
from kraftcheck.explorer.result import SEARCH_CLOCK, Result, Violation
from kraftcheck.pytest_plugin import _check_model, _file_name_of_test
from kraftcheck.reporting.as_json import JSON_SCHEMA_VERSION, value_as_json
from kraftcheck.spec import Map, ModelValue
from tests.support.command_line import Run

ROOT = Path(__file__).parents[2]
SCHEMA_FILE = json.loads((ROOT / "docs" / "check.schema.json").read_text())
BROKEN = ("check", "lock-service", "--variant", "impatient-server", "--engine", "reference")
DEADLOCKED = """
from kraftcheck import *

class Node(Record):
    id: int
    steps: int = 0

class Nothing(Record):
    pass

class Ends(Protocol):
    network = Bag()

    def initial(self):
        yield self.start([Node(1)], Nothing())

    @internal
    def go(self, me: Node) -> Steps:
        if me.steps < 2:
            yield become(me.but(steps=me.steps + 1))
"""


def as_json(run: Run, tmp_path: Path, *arguments: object, code: int) -> dict:
    path = tmp_path / "result.json"
    assert run(*arguments, "--json", path).code == code
    content = json.loads(path.read_text())
    jsonschema.validate(content, SCHEMA_FILE)
    return content


@pytest.fixture
def ends(tmp_path: Path) -> str:
    (tmp_path / "ends.py").write_text(DEADLOCKED)
    return f"{tmp_path / 'ends.py'}:Ends"


# JSON


def test_the_schema_refuses_what_is_not_a_result() -> None:
    assert SCHEMA_FILE["properties"]["schema"]["const"] == JSON_SCHEMA_VERSION
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(
            {"tool": "kraftcheck", "version": "1", "schema": JSON_SCHEMA_VERSION, "result": "ok"}, SCHEMA_FILE
        )


def test_a_counterexample_in_json(run: Run, tmp_path: Path) -> None:
    found = as_json(run, tmp_path, *BROKEN, code=12)
    (trace,) = found["traces"]
    assert (trace["property"], len(trace["states"])) == (found["violated"], found["trace_length"])
    assert trace["why"]["says"] == "No two clients hold the lock."
    assert set(trace["why"]["false_of"]) == {"me", "peer"}
    lines = Path(trace["why"]["place"]["file"]).read_text().splitlines()
    assert "invariant" in lines[trace["why"]["place"]["line"] - 1]
    first, second, *_, last = trace["states"]
    assert (first["action"], first["changes"], first["messages"]) == (None, [], [])
    assert (second["action"], second["actor"], second["changes"]) == (
        "Ask",
        "c1",
        [{"what": "c1.phase", "how": "idle -> waiting"}],
    )
    assert [one["is"] for one in second["messages"]] == ["sent"]
    holders = [key for key, client in last["replicas"].items() if client.get("phase") == "holding"]
    assert holders == sorted(trace["why"]["false_of"].values())


def test_why_a_step_property_a_deadlock_and_a_trap_are_violated(run: Run, tmp_path: Path, ping: str, ends: str) -> None:
    Path(ping.partition(":")[0]).write_text(
        Path(ping.partition(":")[0]).read_text().replace("len(after.log) >= len(before.log)", "after.log == before.log")
    )
    (tmp_path / "steps.cfg").write_text("CONSTANT MaxPings = 2\nPROPERTY LogGrows\n")
    (trace,) = as_json(run, tmp_path, "check", ping, "--config", tmp_path / "steps.cfg", code=12)["traces"]
    assert trace["why"]["false_of"] == {"before": trace["states"][-1]["actor"]}
    (trace,) = as_json(run, tmp_path, "check", ends, code=11)["traces"]
    assert trace["why"] == {"says": "every state has a successor", "false_of": {}, "because": [], "place": None}


@pytest.mark.slow
def test_json_on_standard_output() -> None:
    command = [sys.executable, "-m", "kraftcheck", *BROKEN, "--json", "-"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 12
    jsonschema.validate(json.loads(done.stdout), SCHEMA_FILE)
    assert "VIOLATION: violated: MutualExclusion" in done.stderr


def test_errors_are_written_too(run: Run, tmp_path: Path) -> None:
    found = as_json(run, tmp_path, "check", "lock-service", "--config", "none-such", code=2)
    assert found["result"] == "error"
    assert "none-such" in found["error"]
    for words, said in (
        (("check", "lock-service", "--max-states", "0"), "argument --max-states: expected a number of at least 1, fo"),
        (("simulate", "lock-service", "--runs"), "argument --runs: expected one argument"),
        (("replay", "lock-service", tmp_path / "gone.out", "--variant", "x"), "unknown variant x"),
        (("compare", "lock-service", "x"), "unknown variant x"),
        (("crosscheck", "lock-service", "--dump", "gone.dot"), "the following arguments are required: --config"),
        (("models", ""), "unknown model "),
        (("models", "lock-servise"), "unknown model lock-servise (perhaps lock-service?)"),
    ):
        assert as_json(run, tmp_path, *words, code=2)["error"].startswith(said)


def test_values_in_json() -> None:
    value = Map({"a": (True, 1), ModelValue("n1", 0): frozenset({2, 1})})
    assert value_as_json(value) == {"a": [True, 1], "n1": [1, 2]}


# Traces


@pytest.mark.parametrize("name", ["trace.out", "trace.json", "trace.itf.json"])
def test_traces_in_the_form_that_the_name_says_are_read_back(run: Run, tmp_path: Path, name: str) -> None:
    assert run(*BROKEN, "--trace", tmp_path / name).code == 12
    text = (tmp_path / name).read_text()
    assert ("counterexample" in text, '"vars"' in text) == (name == "trace.json", name != "trace.out")
    outcome = run("replay", "lock-service", tmp_path / name, "--variant", "impatient-server")
    assert outcome.code == 0, outcome


# JUnit and GitHub


def test_junit(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    assert run(*BROKEN, "--junit", path).code == 12
    suite = ElementTree.parse(path).getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("1", "1", "0")
    failure = suite.find("testcase[@name='MutualExclusion']/failure")
    assert failure is not None
    assert "State 2  Ask by c1" in (failure.text or "")


def test_junit_of_what_is_not_searched_to_the_end(run: Run, tmp_path: Path) -> None:
    path, limited = tmp_path / "junit.xml", ("check", "lock-service", "--max-states", "10", "--engine", "reference")
    assert run(*limited, "--junit", path).code == 20
    assert len(ElementTree.parse(path).getroot().findall("testcase/skipped")) == 1
    assert run(*limited, "--junit", path, "--allow-incomplete").code == 0
    assert not ElementTree.parse(path).getroot().findall("testcase/skipped")


def test_incomplete_is_allowed_and_a_violation_is_not(run: Run) -> None:
    assert run(*BROKEN, "--allow-incomplete").code == 12


def test_annotations_for_github(run: Run) -> None:
    (line,) = [line for line in run(*BROKEN, "--github").out.splitlines() if line.startswith("::")]
    assert line.startswith("::error file=")
    assert ",title=MutualExclusion is violated::No two clients hold the lock.%0A" in line
    limited = run("check", "lock-service", "--max-states", "10", "--engine", "reference", "--github")
    assert "::warning title=kraftcheck::INCOMPLETE: " in limited.out


# Warnings

NOTHING = "nothing is checked: neither a property nor deadlock"


@pytest.fixture
def unchecked(tmp_path: Path) -> tuple[object, ...]:
    """Return the arguments of a search that checks nothing."""
    config = tmp_path / "nothing.cfg"
    config.write_text("CONSTANT RM = {a}\nCHECK_DEADLOCK FALSE")
    return "two-phase-commit", "--config", config, "--quiet"


def warnings_in_junit(path: Path) -> tuple[str | None, str | None, str, str]:
    """Return how many tests failed and were skipped, and the kind and the message of the test of the warnings."""
    suite = ElementTree.parse(path).getroot()
    (found,) = suite.findall("testcase[@name='warnings']/*")
    return suite.get("failures"), suite.get("skipped"), found.tag, found.get("message", "")


def test_that_nothing_is_checked_is_a_warning_everywhere(run: Run, tmp_path: Path, unchecked) -> None:
    junit, page = tmp_path / "junit.xml", tmp_path / "page.md"
    asked = ("check", *unchecked, "--engine", "reference")
    found = as_json(run, tmp_path, *asked, "--junit", junit, "--report", page, code=0)
    assert (found["result"], [text[: len(NOTHING)] for text in found["warnings"]]) == ("ok", [NOTHING])
    failures, skipped, kind, message = warnings_in_junit(junit)
    assert (failures, skipped, kind) == ("0", "1", "skipped")
    assert message.startswith(NOTHING)
    assert NOTHING in page.read_text()
    out = run(*asked, "--github").out
    assert f"Warning: {NOTHING}" in out
    assert f"::warning title=kraftcheck::{NOTHING}" in out


@pytest.mark.kernel
def test_other_commands_warn_too(run: Run, unchecked, ping: str) -> None:
    assert f"Warning: {NOTHING}" in run("simulate", *unchecked, "--runs", "3").out
    config = ("--config", unchecked[2], "--set", "RM={a}")
    Path(str(unchecked[2])).write_text("CHECK_DEADLOCK FALSE")
    assert f"nothing.cfg: {NOTHING}" in run("compare", ping, "forgetful", *config[:2], "--quiet").out


def test_strict(run: Run, tmp_path: Path, unchecked) -> None:
    junit = tmp_path / "junit.xml"
    reference = ("--engine", "reference", "--quiet", "--strict")
    strict = ("check", *unchecked, *reference)
    found = as_json(run, tmp_path, *strict, "--junit", junit, "--allow-incomplete", code=20)
    assert (found["result"], found["limit"], found["complete"]) == ("incomplete", "strict", True)
    assert warnings_in_junit(junit)[:3] == ("1", "0", "failure")
    out = run(*strict, "--github").out
    assert f"::error title=kraftcheck::{NOTHING}" in out
    assert "INCOMPLETE: nothing is violated, but --strict rejects warnings" in out

    assert run(*strict, "--deadlock", "--set", "RM={}").code == 11  # what is found comes first
    clean = ("check", "die-hard", "--config", "smoke", *reference)
    assert run(*clean).code == 0
    limited = (*clean, "--max-states", "5")
    assert (run(*limited).code, run(*limited, "--allow-incomplete").code) == (20, 0)
    limited = ("check", "two-phase-commit", "--max-states", "5", *reference, "--allow-incomplete")
    assert run(*limited).code == 20  # OutcomeIsFinal holds vacuously
    vacuous = run("check", "two-phase-commit", "--config", "smoke", *reference, "--junit", junit)
    assert vacuous.code == 20
    assert "OutcomeIsFinal holds vacuously: " in warnings_in_junit(junit)[3]
    never = run("check", "lock-service", "--config", "smoke", "--no-deadlock", *reference, "--junit", junit)
    assert never.code == 20
    assert warnings_in_junit(junit)[3] == "never enabled in this model: LoseMessage"


def test_deadlock_is_something_that_is_checked(run: Run, unchecked) -> None:
    """As in TLC, where a `.cfg` without INVARIANT checks that every state has a successor."""
    outcome = run("check", *unchecked, "--engine", "reference", "--deadlock")
    assert (outcome.code, "nothing is checked" in outcome.out) == (0, False)


def test_strict_from_python() -> None:
    loaded = load("two-phase-commit", "smoke")
    assert loaded.check(engine="reference").verdict is Verdict.OK
    found = loaded.check(engine="reference", strict=True)
    assert (found.verdict, found.limit, [one.property for one in found.vacuous or ()]) == (
        Verdict.INCOMPLETE,
        "strict",
        ["OutcomeIsFinal"],
    )
    asked = {"properties": (), "deadlock": False, "engine": "reference"}
    assert check(loaded.protocol, **asked).warnings[0].startswith(NOTHING)
    assert check(loaded.protocol, **asked, strict=True).verdict is Verdict.INCOMPLETE


def test_a_test_that_checks_nothing_fails_unless_it_expects_that(tmp_path: Path, unchecked) -> None:
    check_marked = partial(_check_model, lambda: tmp_path / "page.html", *unchecked[:1], str(unchecked[2]))
    with pytest.raises(pytest.fail.Exception, match=NOTHING):
        check_marked(engine="reference")
    assert check_marked(engine="reference", allow_unchecked=True).warnings
    with pytest.raises(pytest.fail.Exception, match=r"INCOMPLETE: .*--strict"):
        check_marked(engine="reference", allow_unchecked=True, strict=True)
    with pytest.raises(pytest.fail.Exception, match="configuration smoke"):
        _check_model(lambda: tmp_path / "page.html", "two-phase-commit", "smoke", engine="reference", strict=True)


def test_a_test_that_searches_no_state_fails_unless_it_expects_that(tmp_path: Path, ends: str) -> None:
    constraint = "\n    @constraint\n    def never(self, me: Node) -> bool:\n        return False\n"
    Path(ends.partition(":")[0]).write_text(DEADLOCKED + constraint)
    (tmp_path / "none.cfg").write_text("CONSTRAINT Never\n")
    check_marked = partial(_check_model, lambda: tmp_path / "page.html", ends, str(tmp_path / "none.cfg"))
    with pytest.raises(pytest.fail.Exception, match=r"no state was searched: .* CONSTRAINT Never; or allow it with"):
        check_marked(engine="reference")
    assert check_marked(engine="reference", allow_unchecked=True).distinct_states == 0


@pytest.mark.parametrize(
    ("argument", "problem"),
    [
        ({"allow_incomplete": "no"}, "argument allow_incomplete: expected True or False, found 'no'"),
        ({"allow_unchecked": 0}, "argument allow_unchecked: expected True or False, found 0"),
        ({"report": 3}, "argument report: expected a string or a path or None, found 3"),
        ({"report": str.upper}, "argument report: expected a string or a path or None, found "),
    ],
)
def test_an_argument_of_a_marker_has_its_type(argument: dict[str, object], problem: str) -> None:
    with pytest.raises(pytest.fail.Exception, match=problem):
        _check_model(lambda: Path("page.html"), "die-hard", "smoke", engine="reference", **argument)


def test_each_test_has_the_name_of_its_own_page() -> None:
    assert _file_name_of_test("a/b.py::TestC::test_d") == "a-b.py-TestC-test_d"
    tests = ("a/b.py::t", "a-b.py::t", "a b.py::t", "a/b.py::t[1]", "a/b.py::t[2]", "a/b.py::t-1", "a/b.py::t/1")
    assert len(set(map(_file_name_of_test, tests))) == len(tests)


# Going on


@pytest.mark.slow
@pytest.mark.kernel
def test_a_checkpoint_is_gone_on_from_if_there_is_one(run: Run, tmp_path: Path) -> None:
    again = (
        "check",
        "two-phase-commit",
        "--engine",
        "tables",
        "--checkpoint",
        tmp_path / "kept",
        "--resume-if-present",
    )
    first = run(*again, "--max-states", "40")
    assert first.code == 20
    told = shlex.split(first.out.splitlines()[-1].removeprefix("To go on: kraftcheck "))
    assert run(*told, "--max-states", "80").code == 20
    second = run(*again)
    assert second.code == 0, second
    whole = run("check", "two-phase-commit", "--engine", "tables", "--quiet")
    assert second.out.splitlines()[-1].split("; ")[1:4] == whole.out.splitlines()[-1].split("; ")[1:4]
    assert run("check", "two-phase-commit", "--resume-if-present").err == (
        "kraftcheck: error: --resume-if-present: no folder; add --checkpoint DIR\n"
    )


@pytest.mark.kernel
def test_the_page_of_an_unfinished_search_comes_from_its_checkpoint(run: Run, tmp_path: Path) -> None:
    asked = ("lock-service", "--variant", "impatient-server", "--engine", "tables", "--continue", "--max-depth", "8")
    found = run("check", *asked, "--checkpoint", tmp_path / "kept")
    (line,) = [line for line in found.out.splitlines() if line.startswith("To see it as a page: kraftcheck ")]
    words = shlex.split(line.partition("kraftcheck ")[2])
    assert run(*words[:-1], tmp_path / words[-1]).code == found.code == 12
    assert (tmp_path / words[-1]).is_file()


def test_version(run: Run) -> None:
    outcome = run("--version")
    assert (outcome.code, outcome.out.split()[0]) == (0, "kraftcheck")


# From Python


def test_a_model_by_name(ping: str, tmp_path: Path) -> None:
    loaded = load("lock-service", variant="impatient-server", constants={"MaxLosses": 0})
    result = loaded.check(engine="reference")
    assert isinstance(result.violations[0], Violation)
    assert loaded.explain(result).startswith("Counterexample to MutualExclusion, 8 states\n")
    (tmp_path / "two.cfg").write_text("CONSTANT MaxPings = 2\nINVARIANT FewPings\n")
    assert load(ping, tmp_path / "two.cfg").check(max_states=2).verdict is Verdict.INCOMPLETE


def test_a_model_by_name_that_cannot_be_had() -> None:
    with pytest.raises(InputError, match="lock-servise"):
        load("lock-servise")
    with pytest.raises(InputError, match="max_state"):
        load("lock-service").check(max_state=1)


PLUGIN_TESTS = """
import pytest

BROKEN = dict(variant="impatient-server", engine="reference")

@pytest.mark.kraftcheck("lock-service", config="smoke", engine="reference")
def test_holds(kraftcheck):
    assert kraftcheck.distinct_states > 1

@pytest.mark.kraftcheck("lock-service", report="broken.html", **BROKEN)
def test_is_violated(kraftcheck):
    raise AssertionError("must not begin")

@pytest.mark.kraftcheck("lock-service", engine="reference", max_states=3)
def test_is_incomplete(kraftcheck):
    raise AssertionError("must not begin")

@pytest.mark.kraftcheck("lock-service", engine="reference", max_states=3, allow_incomplete=True)
def test_is_allowed(kraftcheck):
    assert not kraftcheck.complete

@pytest.mark.parametrize("name", ["a b", "a-b", pytest.param("c", id="c" * 300)])
@pytest.mark.kraftcheck("lock-service", **BROKEN)
def test_has_a_page_of_its_own(kraftcheck, name):
    raise AssertionError("must not begin")

@pytest.mark.kraftcheck("lock-service", report="nowhere/page.html", **BROKEN)
def test_is_told_without_a_page(kraftcheck):
    raise AssertionError("must not begin")

@pytest.mark.kraftcheck("lock-service")
def test_lacks_the_parameter():
    raise AssertionError("must not begin")

@pytest.mark.kraftcheck("lock-service")
class TestMarked:
    def test_lacks_the_parameter(self):
        pass

@pytest.mark.kraftcheck("lock-service", variant="impatient-server")
@pytest.mark.kraftcheck("lock-service", "smoke")
def test_has_two_models(kraftcheck):
    pass

@pytest.mark.kraftcheck()
def test_has_no_model(kraftcheck):
    pass

def test_as_a_function(kraftcheck):
    assert kraftcheck("lock-service", "smoke", engine="reference").complete
    kraftcheck("lock-service", "smoke", engin="reference")

def test_has_no_marker(kraftcheck):
    assert kraftcheck.complete
"""

MARKED_LEVELS = """
import pytest

HOLDS = pytest.mark.kraftcheck("lock-service", "smoke", engine="reference")
BROKEN = pytest.mark.kraftcheck("lock-service", variant="impatient-server", engine="reference")
pytestmark = [HOLDS, BROKEN]

def test_two(kraftcheck):
    pass

@HOLDS
@BROKEN
class TestTwo:
    def test_two(self, kraftcheck):
        pass

    @HOLDS
    def test_holds(self, kraftcheck):
        pass

@BROKEN
class TestBase:
    def test_base(self, kraftcheck):
        pass

@HOLDS
class TestSub(TestBase):
    pass

class TestHeir(TestSub):
    pass

@BROKEN
class TestBroken(TestSub):
    pass

@HOLDS
class Mixin:
    pass

class TestTwoBases(TestBase, Mixin):
    pass

@HOLDS
class TestOverTwoBases(TestTwoBases):
    pass
"""


def pytest_in(folder: Path, *more: str) -> str:
    """Return what pytest prints in a folder."""
    plugin = () if _is_installed() else ("-p", "kraftcheck.pytest_plugin")
    options = ("-q", *plugin, "-p", "no:cacheprovider", "--strict-markers")
    command = [sys.executable, "-m", "pytest", *options, *more, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder).stdout


@pytest.mark.slow
def test_the_pytest_plugin(tmp_path: Path) -> None:
    (tmp_path / "test_models.py").write_text(PLUGIN_TESTS)
    told = pytest_in(tmp_path)
    assert "2 failed, 2 passed, 10 errors" in told, told
    assert "Counterexample to MutualExclusion, 8 states" in told
    assert "the page: broken.html" in told
    assert told.count("\nkraftcheck: the marker alone checks nothing; add the parameter `kraftcheck`") == 2, told
    assert "kraftcheck: a test checks one model, found two markers; write a test for each" in told
    assert "\nkraftcheck: the marker: missing a required argument: 'model'; write @pytest" in told, told
    (page,) = set(re.findall(r"the page: (/.*/test_models.py-test_is_incomplete.html)", told))  # twice where CI is set
    assert '"result":"incomplete"' in Path(page).read_text()
    pages = {Path(page) for page in re.findall(r"the page: (/.*-test_has_a_page_of_its_own-.*\.html)", told)}
    assert len({page.name for page in pages if page.is_file()}) == 3, told
    assert "--report nowhere/page.html: cannot be written: No such file or directory" in told
    assert '"property":"MutualExclusion"' in (tmp_path / "broken.html").read_text()
    assert "INCOMPLETE: nothing is violated so far, stopped at --max-states" in told
    assert "kraftcheck: unknown option engin" in told, told
    assert "AttributeError: kraftcheck.complete: no marker names a model; write @pytest" in told, told
    told = pytest_in(tmp_path, "--kraftcheck-reports", "test_models.py", "-k", "is_incomplete")
    assert "\nINCOMPLETE: " in told
    assert "\n--kraftcheck-reports test_models.py: cannot be written: File exists\n" in told, told


@pytest.mark.slow
def test_the_nearest_marker_counts(tmp_path: Path) -> None:
    (tmp_path / "test_levels.py").write_text(MARKED_LEVELS)
    told = pytest_in(tmp_path, "-rpE")
    assert set(re.findall(r"PASSED test_levels.py::(\S+)", told)) == {
        "TestTwo::test_holds",
        "TestSub::test_base",
        "TestHeir::test_base",
        "TestOverTwoBases::test_base",
    }, told
    failed = dict(re.findall(r"ERROR at setup of (\S+) _+\n(.*)", told))
    violated = {name for name, said in failed.items() if said == "Counterexample to MutualExclusion, 8 states"}
    assert violated == {"TestBase.test_base", "TestBroken.test_base"}, told
    two = {name for name, said in failed.items() if said.startswith("kraftcheck: a test checks one model")}
    assert two == {"test_two", "TestTwo.test_two", "TestTwoBases.test_base"}, told


def _is_installed() -> bool:
    from importlib.metadata import entry_points

    return any(one.value == "kraftcheck.pytest_plugin" for one in entry_points(group="pytest11"))


# docs/ci.md

PAGE = (ROOT / "docs" / "ci.md").read_text()


def shell_steps(job: str) -> list[str]:
    """Return what the steps of a job of GitHub Actions run."""
    return re.findall(r"^ *- (?:name: .*\n *)?run: (?!\|)(.*)$", job, re.MULTILINE)


@pytest.mark.kernel
@pytest.mark.slow
def test_the_steps_of_the_github_example_in_a_shell_as_github_runs_them(tmp_path: Path) -> None:
    (job,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    install, *steps = shell_steps(job)
    assert install == "pip install ./vendor/kraftcheck"  # tests/contracts/test_wheel.py installs a checkout
    assert len(steps) == 3
    program = tmp_path / "bin" / "kraftcheck"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kraftcheck "$@"\n')
    program.chmod(0o755)
    environment = os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}", "GITHUB_ACTIONS": "true"}

    def github(step: str) -> subprocess.CompletedProcess[str]:
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert steps[0] == "kraftcheck warm"
    assert github(steps[0]).stdout.startswith("compiled the kernels in ")
    for step in (*steps[1:], steps[-1]):  # the last one again, as the job after would
        done = github(step)
        assert done.returncode == 0, done
    assert {"smoke.xml", "smoke.json", "state"} <= {file.name for file in tmp_path.iterdir()}
    broken = github(steps[1].replace("lock-service", "lock-service --variant impatient-server"))
    assert broken.returncode == 12
    assert "::error file=" in broken.stdout


@pytest.mark.slow
def test_the_pipe_of_the_page(tmp_path: Path) -> None:
    (line,) = re.findall(r"^    (kraftcheck .* \| python -c .*)$", PAGE, re.MULTILINE)
    command = line.replace("kraftcheck ", f"{sys.executable} -m kraftcheck ", 1).replace(
        "python -c", f"{sys.executable} -c"
    )
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert re.fullmatch(r"\{'me': '(c\d)', 'peer': '(?!\1)c\d'\}\n", done.stdout)


@pytest.mark.slow
def test_the_python_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    marked, plain = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(plain, "docs/ci.md", "exec"), {})
    (tmp_path / "test_page.py").write_text(marked)
    assert "1 passed" in pytest_in(tmp_path)


def command(*words: str, **environment: str | None) -> subprocess.CompletedProcess[str]:
    """Run a command line in a process of its own."""
    changed = {**os.environ, **environment}
    return subprocess.run(
        [sys.executable, "-m", "kraftcheck", *words],
        capture_output=True,
        text=True,
        check=True,
        env={name: value for name, value in changed.items() if value is not None},
    )


@pytest.mark.slow
def test_compiling_is_said_and_counted_apart(tmp_path: Path) -> None:
    words = ("check", "two-phase-commit", "--config", "smoke", "--engine", "tables", "--time-limit", "3")
    found = []
    for told in ("compiling the kernel, once on this machine: about 10 s\n", ""):
        done = command(*words, "--json", str(tmp_path / "found.json"), NUMBA_CACHE_DIR=str(tmp_path))
        assert done.stderr == told
        found.append(json.loads((tmp_path / "found.json").read_text()))
    assert [one["result"] for one in found] == ["ok", "ok"]
    assert found[0]["compile_seconds"] > 3 > found[0]["seconds"]
    assert found[1]["compile_seconds"] == 0


@pytest.mark.kernel
def test_what_is_compiled_stops_the_clock() -> None:
    said: list[str] = []
    began, stood = time.monotonic(), SEARCH_CLOCK.now()
    with timed_compilation(partial(said.append, "compiling")) as noting:
        assert numba.njit(lambda x: x + 1)(1) == 2
    assert said == ["compiling"]
    assert 0 < noting.seconds <= time.monotonic() - began
    assert SEARCH_CLOCK.now() - stood <= time.monotonic() - began - 0.99 * noting.seconds


@pytest.mark.kernel
def test_a_cache_that_cannot_be_written_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    problem = replace_unusable_cache_folder.__wrapped__()
    assert f"the compiled kernel cannot be kept: {tmp_path / 'file'} cannot be written to, so each run" in problem
    assert os.access(os.environ["NUMBA_CACHE_DIR"], os.W_OK)
    monkeypatch.setattr("kraftcheck.explorer.kernel_compilation.replace_unusable_cache_folder", lambda: problem)
    assert run_with_compile_timing(lambda: Result(notes=[str(numba.njit(lambda x: x + 1)(1))])).warnings == [problem]
    assert run_with_compile_timing(Result).warnings == []


SMALL_VIOLATIONS = [
    ("die-hard", None, "solve"),
    ("lock-service", "impatient-server", None),
    ("reconfig", "observer-stands", None),
    ("reconfig", "removed-leader-contradicted", None),
]


@pytest.mark.sampled(4)
@pytest.mark.kernel
@pytest.mark.parametrize(("model", "variant", "config"), SMALL_VIOLATIONS)
def test_a_violation_has_the_same_counts_before_the_kernel_is_compiled(
    model: str, variant: str | None, config: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kraftcheck.engines.TRIAL_SECONDS", 60.0)
    job = load(model, config, variant=variant).job()

    def counts(*, compiled: bool) -> tuple[object, ...]:
        monkeypatch.setattr("kraftcheck.explorer.kernel_compilation.are_kernels_compiled", lambda: compiled)
        found = search("tables", job.protocol, job.options, is_named=False)
        assert found.engine == ("tables" if compiled else "reference")
        names = [violation.property for violation in found.violations]
        return names, found.distinct_states, found.generated_states, found.depth, found.actions

    assert counts(compiled=False) == counts(compiled=True)


@pytest.mark.slow
def test_a_small_search_imports_no_compiler() -> None:
    def ran(*words: str) -> str:
        code = (
            "import sys; from kraftcheck import engines; engines.SMALL_SEARCH_SECONDS = 60.0; "
            f"from kraftcheck.cli import main; main({[*words, '--quiet']}); print('numba' in sys.modules)"
        )
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        return ended.stdout

    smoke = ran("check", "two-phase-commit", "--config", "smoke")
    assert "288 distinct states" in smoke
    assert smoke.endswith("False\n")


def test_the_language_imports_neither_a_compiler_nor_a_model() -> None:
    code = "import sys; from kraftcheck import *; print([one for one in sys.modules if 'kraft_model' in one])"
    code += "; print('numba' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\nFalse\n"


def test_a_search_that_is_not_small_goes_to_the_table_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    monkeypatch.setattr("kraftcheck.engines.SMALL_SEARCH_SECONDS", 60.0)
    job, passed = load("two-phase-commit", "smoke").job(), Result()
    monkeypatch.setattr("kraftcheck.engines._are_kernels_compiled", lambda: True)
    monkeypatch.setattr("kraftcheck.engines._run_engine", lambda *_: passed)
    monkeypatch.setattr("kraftcheck.engines._try_bytecode", lambda *_: None)
    monkeypatch.setattr("kraftcheck.engines.run_with_compile_timing", lambda run, _: run())
    options = replace(job.options, report=lambda _: None)

    def engine() -> str | None:
        return search("tables", job.protocol, options, is_named=False).engine

    assert engine() == "reference"
    monkeypatch.setattr("kraftcheck.engines.SMALL_SEARCH_STATES", 100)
    assert engine() == "tables"
    monkeypatch.setattr("kraftcheck.engines.SMALL_SEARCH_STATES", 500)
    monkeypatch.setattr("kraftcheck.engines.SMALL_SEARCH_SECONDS", 0.0)
    assert engine() == "tables"
    violated = load("lock-service", variant="impatient-server").job()
    monkeypatch.setattr("kraftcheck.engines.SMALL_SEARCH_SECONDS", 60.0)
    assert search("tables", violated.protocol, violated.options, is_named=False).engine == "tables"


@pytest.mark.kernel
def test_what_is_tried_while_the_kernel_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kraftcheck.explorer.kernel_compilation.are_kernels_compiled", lambda: False)
    job = load("two-phase-commit", "smoke").job()

    def engine(*, is_named: bool) -> str:
        found = search("tables", job.protocol, job.options, is_named=is_named)
        assert found.distinct_states == 288
        return found.engine

    assert engine(is_named=False) == "reference"
    assert engine(is_named=True) == "tables"
    monkeypatch.setattr("kraftcheck.engines.TRIAL_SECONDS", 1e-9)
    assert engine(is_named=False) == "tables"

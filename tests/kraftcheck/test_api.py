"""`import kraftcheck`: what users write protocols and scripts with."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import kraftcheck
from kraftcheck import InputError, Interrupted, ModelValue, Verdict, check, spec
from kraftcheck.engines import searches
from kraftcheck.explorer.result import Progress
from kraftcheck.reporting.progress import Meter
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"properties": ["Consistant"]}, "unknown property Consistant (perhaps Consistent?); TwoPhaseCommit has "),
        ({"constraints": ["Nope"]}, "unknown constraint Nope"),
        ({"action_constraints": ["Consistent"]}, "unknown action constraint Consistent; TwoPhaseCommit has "),
        ({"symmetry": "x"}, "unknown symmetry x; TwoPhaseCommit has symmRM"),
        ({"view": "x"}, "unknown view x; TwoPhaseCommit has none"),
        ({"init": "x"}, "unknown start x; TwoPhaseCommit has Init"),
        ({"search": "x"}, f"unknown search x; there is {', '.join(searches())}"),
        ({"engine": "x"}, "unknown engine x; there is "),
    ],
)
def test_unknown_names(options, message) -> None:
    with pytest.raises(InputError) as caught:
        check(THREE, **options)
    assert str(caught.value).startswith(message)


def test_progress_without_a_terminal_is_a_line_now_and_then() -> None:
    written: list[str] = []
    meter = Meter(write=written.append)
    for seconds in (1.0, 29.0, 31.0, 40.0, 62.0):
        meter.show(Progress(int(seconds) * 1000, 0, 5, 1234, seconds))
    assert written == [
        "31 s: 31,000 distinct states, 1,000 states/s, depth 5, frontier 1,234\n",
        "62 s: 62,000 distinct states, 1,000 states/s, depth 5, frontier 1,234\n",
    ]


def test_a_class_is_no_protocol_with_its_constants() -> None:
    with pytest.raises(InputError, match=r"expected a protocol with its constants, TwoPhaseCommit\(\.\.\.\), found"):
        check(TwoPhaseCommit)  # type: ignore[arg-type]

"""The pytest plugin: tests that check a model and fail with its counterexample.

    @pytest.mark.kraftcheck("my_protocol.py:MyProtocol", config="small.cfg")
    def test_my_protocol(kraftcheck):
        assert kraftcheck.distinct_states == 1_234

The fixture `kraftcheck` is the `Result` of the marker's search. If a property is violated, or the search stopped at a
limit, the test fails before it begins and writes a report page. The page goes to pytest's temporary folder, to the
folder of `--kraftcheck-reports`, or to the file `report="page.html"`.
Without the marker the fixture is a function with the marker's parameters that returns the result.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from inspect import signature
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from kraftcheck.explorer.result import Result
    from kraftcheck.spec.errors import InputError
    from kraftcheck.spec.language.protocol import Protocol

MOST_NAME_CHARACTERS = 150
"""Maximum length of a test's name in the file name of its page."""


class Check(partial["Result"]):
    """A function that checks a model: the fixture of a test without the marker."""

    def __getattr__(self, name: str) -> NoReturn:
        fix = 'write @pytest.mark.kraftcheck("MODEL"), or call kraftcheck("MODEL")'
        raise AttributeError(f"kraftcheck.{name}: no marker names a model; {fix}")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        "kraftcheck(model, config=None, variant=None, allow_incomplete=False, allow_unchecked=False, strict=False, "
        "report=None, **options): check a model; report is the page (.html) for a violation; options are those of "
        "`kraftcheck check`, such as max_states=1000 for --max-states 1000",
    )


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for the folder of the pages of failed tests."""
    what = "folder for the report pages of failed kraftcheck tests (default: pytest's temporary folder)"
    parser.getgroup("kraftcheck").addoption("--kraftcheck-reports", metavar="DIR", help=what)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test that has the marker and not the fixture, or two markers: it would pass without a search."""
    if _nearest_marker(item) is not None and "kraftcheck" not in getattr(item, "fixturenames", ()):
        pytest.fail("kraftcheck: the marker alone checks nothing; add the parameter `kraftcheck`", pytrace=False)


def _nearest_marker(item: pytest.Item) -> pytest.Mark | None:
    """Return the marker of the function, else of the class, its bases or the module; fail if two are nearest."""
    marked = list(item.iter_markers_with_node("kraftcheck"))
    near = [mark for node, mark in marked if node is marked[0][0]]
    if near and isinstance(marked[0][0], pytest.Class):
        near = _markers_of_class(marked[0][0].obj) or near
    if any(mark != near[0] for mark in near):
        pytest.fail("kraftcheck: a test checks one model, found two markers; write a test for each", pytrace=False)
    return near[0] if near else None


def _markers_of_class(kind: type) -> list[pytest.Mark]:
    """Return the markers of a class, else of its bases; pytest lists those of all, the bases' first."""
    stored: Any = vars(kind).get("pytestmark", [])
    listed = stored if isinstance(stored, list) else [stored]
    marks = (one.mark if isinstance(one, pytest.MarkDecorator) else one for one in listed)
    own = [mark for mark in marks if mark.name == "kraftcheck"]
    return own or [mark for base in kind.__bases__ for mark in _markers_of_class(base)]


@pytest.fixture
def kraftcheck(request: pytest.FixtureRequest) -> Result | Check:
    """Return the result of the marker's search; without a marker, a function that searches."""
    marker = _nearest_marker(request.node)
    check = Check(_check_model, partial(_report_page_path, request))
    if marker is None:
        return check
    try:
        signature(check).bind(*marker.args, **marker.kwargs)
    except TypeError as error:
        pytest.fail(f'kraftcheck: the marker: {error}; write @pytest.mark.kraftcheck("MODEL")', pytrace=False)
    return check(*marker.args, **marker.kwargs)


def _report_page_path(request: pytest.FixtureRequest) -> Path:
    """Return the path for a failed test's report page."""
    from kraftcheck.reporting.output import convert_write_errors

    given = request.config.getoption("--kraftcheck-reports")
    factory: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")
    folder = factory.mktemp("kraftcheck") if given is None else Path(given)
    with convert_write_errors("--kraftcheck-reports", folder):
        folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{_file_name_of_test(request.node.nodeid)}.html"


def _file_name_of_test(test: str) -> str:
    """Return a short file name for a test, unique by a hash for tests with parameters or unusual names."""
    plain = re.sub(r"[^\w.-]+", "-", test, flags=re.ASCII).strip("-")
    if re.fullmatch(r"[\w./]+(::\w+)+", test, re.ASCII) and len(plain) <= MOST_NAME_CHARACTERS:
        return plain
    return f"{plain[:MOST_NAME_CHARACTERS]}-{blake2b(test.encode('utf-8', 'replace'), digest_size=4).hexdigest()}"


def _error_text(error: InputError) -> str:
    """Return an error as text, with the path that leads to it."""
    from kraftcheck.reporting.counterexample import behaviour_lines
    from kraftcheck.reporting.lines import lines_as_plain_text
    from kraftcheck.spec.errors import RaisedError

    if not isinstance(error, RaisedError) or not error.trace:
        return str(error)
    way = behaviour_lines(error.protocol, error.trace, f"Path to the error in {error.name}")
    return f"{error}\n\n{lines_as_plain_text(way)}"


def _check_model(
    page: Callable[[], Path],
    model: str | type[Protocol],
    config: str | None = None,
    *,
    variant: str | None = None,
    allow_incomplete: bool = False,
    allow_unchecked: bool = False,
    strict: bool = False,
    report: str | PathLike[str] | None = None,
    **options: Any,
) -> Result:
    """Search a model; fail the test with the counterexample of a violation."""
    __tracebackhide__ = True
    from kraftcheck.api import load
    from kraftcheck.explorer.result import NOTHING_CHECKED_WARNING
    from kraftcheck.reporting.lines import lines_as_plain_text
    from kraftcheck.reporting.output import require_report_extension
    from kraftcheck.reporting.output import search_report_lines as report_lines
    from kraftcheck.runner import exit_code
    from kraftcheck.spec.errors import InputError
    from kraftcheck.spec.type_checks import require_fitting_argument

    problem = None
    try:
        require_fitting_argument("allow_incomplete", allow_incomplete, bool)
        require_fitting_argument("allow_unchecked", allow_unchecked, bool)
        require_fitting_argument("report", report, str | PathLike | None)
        require_report_extension(None if report is None else Path(report))
        loaded = load(model, config, variant=variant, constants=options.pop("constants", None))
        job = loaded.job(**options)
        if job.options.checks_nothing and not allow_unchecked:
            raise InputError(f"{NOTHING_CHECKED_WARNING}; or allow it with allow_unchecked=True")
        result = loaded.check(strict=strict, **options)
    except InputError as error:
        problem = _error_text(error)
    if problem is not None:
        pytest.fail(f"kraftcheck: {problem}", pytrace=False)
    if exit_code(result, allow_incomplete=allow_incomplete, strict=strict):
        said = lines_as_plain_text(report_lines(job.protocol, result, configuration=job.config_name, quiet=True))
        try:
            file = page() if report is None else Path(report)
            loaded.write_report(result, file, **options)
        except InputError as error:  # the test fails with the counterexample anyway
            pytest.fail(f"{said}\n{error}", pytrace=False)
        pytest.fail(f"{said}\nthe page: {file}", pytrace=False)
    if not allow_unchecked:
        _require_searched_states(result)
    return result


def _require_searched_states(result: Result) -> None:
    """Fail the test if a constraint excludes every initial state."""
    __tracebackhide__ = True
    from kraftcheck.explorer.result import NOTHING_SEARCHED

    for text in result.warnings:
        if text.startswith(NOTHING_SEARCHED):
            pytest.fail(f"kraftcheck: {text}; or allow it with allow_unchecked=True", pytrace=False)

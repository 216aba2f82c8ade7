"""The pytest plugin: tests that check a model, and fail with the counterexample.

    @pytest.mark.kraftcheck("my_protocol.py:MyProtocol", config="small.cfg")
    def test_my_protocol(kraftcheck):
        assert kraftcheck.distinct_states == 1_234

The fixture `kraftcheck` is the `Result` of the search that the marker asks for; where something is violated, or the
search stopped at a limit, the test fails before it begins, and leaves a page to look at: in pytest's folder for
temporary files, in that of `--kraftcheck-reports`, or where `report="page.html"` says.
Without the marker the fixture is a function that takes what the marker takes, and returns the result.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kraftcheck.explorer.result import Result
    from kraftcheck.spec.errors import InputError
    from kraftcheck.spec.language.protocol import Protocol

LONGEST_NAME = 150
"""Characters of a test's name in that of its page."""

Check = Callable[..., "Result"]


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        "kraftcheck(model, config=None, variant=None, allow_incomplete=False, allow_unchecked=False, strict=False, "
        "report=None, **options): check a model; report is the page (.html) to write where it is violated; the options "
        "are those of `check` on the command line, max_states=1000 for --max-states 1000",
    )


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names a folder for the pages of tests that fail."""
    what = "folder for the page of each test in which kraftcheck finds something (default: pytest's temporary folder)"
    parser.getgroup("kraftcheck").addoption("--kraftcheck-reports", metavar="DIR", help=what)


@pytest.fixture
def kraftcheck(request: pytest.FixtureRequest) -> Result | Check:
    """Return the result of the search that the marker asks for; without a marker, a function that searches."""
    marker = request.node.get_closest_marker("kraftcheck")
    check = partial(_checked, partial(_page_of, request))
    return check if marker is None else check(*marker.args, **marker.kwargs)


def _page_of(request: pytest.FixtureRequest) -> Path:
    """Return the page of a test that fails."""
    given = request.config.getoption("--kraftcheck-reports")
    factory: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")
    folder = factory.mktemp("kraftcheck") if given is None else Path(given)
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{_file_name(request.node.nodeid)}.html"


def _file_name(test: str) -> str:
    """Return the name of a test as that of a file: short enough, and for other parameters another one."""
    plain = re.sub(r"[^\w.-]+", "-", test, flags=re.ASCII).strip("-")
    if "[" not in test and test.isascii() and len(plain) <= LONGEST_NAME:
        return plain
    return f"{plain[:LONGEST_NAME]}-{blake2b(test.encode('utf-8', 'replace'), digest_size=4).hexdigest()}"


def _told(error: InputError) -> str:
    """Return an error as text, with the behaviour that leads there."""
    from kraftcheck.reporting.counterexample import behaviour_lines
    from kraftcheck.reporting.lines import plain
    from kraftcheck.spec.errors import RaisedError

    if not isinstance(error, RaisedError) or not error.trace:
        return str(error)
    way = behaviour_lines(error.protocol, error.trace, f"The way to the error in {error.name}")
    return f"{error}\n\n{plain(way)}"


def _checked(
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
    """Search a model; fail the test with the counterexample where something is violated."""
    __tracebackhide__ = True
    from kraftcheck.api import load
    from kraftcheck.explorer.result import NOTHING_CHECKED
    from kraftcheck.reporting.files import require_report
    from kraftcheck.reporting.lines import plain
    from kraftcheck.reporting.summary import report as told
    from kraftcheck.runner import exit_code
    from kraftcheck.spec.errors import InputError

    problem = None
    try:
        require_report(None if report is None else Path(report))
        loaded = load(model, config, variant=variant, constants=options.pop("constants", None))
        job = loaded.job(**options)
        if job.options.checks_nothing and not allow_unchecked:
            raise InputError(f"{NOTHING_CHECKED}; or expect it with allow_unchecked=True")
        result = loaded.check(strict=strict, **options)
    except InputError as error:
        problem = _told(error)
    if problem is not None:
        pytest.fail(f"kraftcheck: {problem}", pytrace=False)
    if exit_code(result, allow_incomplete=allow_incomplete, strict=strict):
        said = plain(told(job.protocol, result, configuration=job.config_name, quiet=True))
        file = Path(report) if report is not None else page()
        try:
            loaded.write_report(result, file, **options)
        except OSError as error:  # what was found is told all the same
            pytest.fail(f"{said}\nthe page cannot be written: {file}: {error.strerror}", pytrace=False)
        pytest.fail(f"{said}\nthe page: {file}", pytrace=False)
    return result

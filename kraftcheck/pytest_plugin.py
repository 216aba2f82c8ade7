"""The pytest plugin: tests that check a model, and fail with the counterexample.

    @pytest.mark.kraftcheck("my_protocol.py:MyProtocol", config="small.cfg")
    def test_my_protocol(kraftcheck):
        assert kraftcheck.distinct_states == 1_234

The fixture `kraftcheck` is the `Result` of the search that the marker asks for; where something is violated, or the
search stopped at a limit, the test fails before it begins, and leaves a page to look at with `report="page.html"`.
Without the marker the fixture is a function that takes what the marker takes, and returns the result.
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kraftcheck.explorer.result import Result

Check = Callable[..., "Result"]


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        "kraftcheck(model, config=None, variant=None, allow_incomplete=False, report=None, **options): check a "
        "model; report is a page (.html) to write where it is violated; the options are those of `check` on the "
        "command line, max_states=1000 for --max-states 1000",
    )


@pytest.fixture
def kraftcheck(request: pytest.FixtureRequest) -> Result | Check:
    """Return the result of the search that the marker asks for; without a marker, a function that searches."""
    marker = request.node.get_closest_marker("kraftcheck")
    return _checked if marker is None else _checked(*marker.args, **marker.kwargs)


def _checked(
    model: str,
    config: str | None = None,
    *,
    variant: str | None = None,
    allow_incomplete: bool = False,
    report: str | PathLike[str] | None = None,
    **options: Any,
) -> Result:
    """Search a model; fail the test with the counterexample where something is violated."""
    __tracebackhide__ = True
    from kraftcheck.explorer.result import Verdict
    from kraftcheck.loading import load
    from kraftcheck.reporting.files import require_report
    from kraftcheck.reporting.lines import plain
    from kraftcheck.reporting.summary import report as told
    from kraftcheck.spec.errors import InputError

    problem = None
    try:
        require_report(None if report is None else Path(report))
        loaded = load(model, config, variant=variant, constants=options.pop("constants", None))
        result = loaded.check(**options)
    except InputError as error:
        problem = str(error)
    if problem is not None:
        pytest.fail(f"kraftcheck: {problem}", pytrace=False)
    allowed = {Verdict.OK, *([Verdict.INCOMPLETE] if allow_incomplete else [])}
    if result.verdict not in allowed:
        said = plain(told(loaded.protocol, result, quiet=True))
        if report is not None:
            loaded.write_report(result, report, **options)
            said += f"\nthe page: {report}"
        pytest.fail(said, pytrace=False)
    return result

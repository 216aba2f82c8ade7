"""The pytest plugin: tests that check a model, and fail with the counterexample.

    @pytest.mark.kraftcheck("my_protocol.py:MyProtocol", config="small.cfg")
    def test_my_protocol(kraftcheck):
        assert kraftcheck.distinct_states == 1_234

The fixture `kraftcheck` is the `Result` of the search that the marker asks for; where something is violated, or the
search stopped at a limit, the test fails before it begins. Without the marker the fixture is a function that takes what
the marker takes, and returns the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kraftcheck.explorer.result import Result

Check = Callable[..., "Result"]


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        "kraftcheck(model, config=None, variant=None, allow_incomplete=False, **options): check a model; the "
        "options are those of `check` on the command line, max_states=1000 for --max-states 1000",
    )


@pytest.fixture
def kraftcheck(request: pytest.FixtureRequest) -> Result | Check:
    """Return the result of the search that the marker asks for; without a marker, a function that searches."""
    marker = request.node.get_closest_marker("kraftcheck")
    return _checked if marker is None else _checked(*marker.args, **marker.kwargs)


def _checked(
    model: str, config: str | None = None, *, variant: str | None = None, allow_incomplete: bool = False, **options: Any
) -> Result:
    """Search a model; fail the test with the counterexample where something is violated."""
    __tracebackhide__ = True
    from kraftcheck.explorer.result import Verdict
    from kraftcheck.loading import load
    from kraftcheck.reporting.lines import plain
    from kraftcheck.reporting.summary import report
    from kraftcheck.spec.errors import InputError

    problem = None
    try:
        loaded = load(model, config, variant=variant, constants=options.pop("constants", None))
        result = loaded.check(**options)
    except InputError as error:
        problem = str(error)
    if problem is not None:
        pytest.fail(f"kraftcheck: {problem}", pytrace=False)
    allowed = {Verdict.OK, *([Verdict.INCOMPLETE] if allow_incomplete else [])}
    if result.verdict not in allowed:
        pytest.fail(plain(report(loaded.protocol, result, quiet=True)), pytrace=False)
    return result

"""The symbolic engine finds in shipped configurations, with every variant, what the table engine finds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kraftcheck.catalogue import find_model
from kraftcheck.explorer.result import Result, SearchRequest, Verdict
from kraftcheck.explorer.symbolic import engine as symbolic
from kraftcheck.explorer.tables import engine as tables
from tests.support.kraft_model.faults import (
    QUORUM_FAULTS,
    QUORUM_READINGS,
    RECOVERY_FAULTS,
    RECOVERY_READINGS,
    REGISTRATION_FAULTS,
    Fault,
)
from tests.support.kraft_model.searches import bound, check_trace

pytestmark = pytest.mark.kernel

MODELS = ("registration", "recovery", "quorum", "reconfig", "prevote")
FAULTS = {
    "registration": REGISTRATION_FAULTS,
    "recovery": RECOVERY_FAULTS + RECOVERY_READINGS,
    "quorum": QUORUM_FAULTS + QUORUM_READINGS,
}
OWN = [
    (model, name, own)
    for model in MODELS
    for name in find_model(model).variants
    if (own := find_model(model, name).own_configuration) is not None
]
TIERS = [
    (model, None, name)
    for model in MODELS
    for name in find_model(model).configurations
    if name.startswith(("smoke", "default"))
]


def told(result: Result) -> tuple[object, ...]:
    """Return what must be equal: where something is violated, breadth first ends at another state of the level."""
    lengths = {violation.property: (len(violation.trace), violation.trap) for violation in result.violations}
    counts = (result.distinct_states, result.generated_states, result.depth)
    return result.verdict, lengths, counts if result.verdict is Verdict.OK else None


@pytest.mark.parametrize(
    ("model", "fault"),
    [
        pytest.param(
            *(model, fault),
            id=f"{model}-{fault.variant}",
            marks=pytest.mark.slow if model == "registration" and not number % 2 else pytest.mark.exhaustive,
        )
        for model, faults in FAULTS.items()
        for number, fault in enumerate(faults)
    ],
)
def test_a_fault_has_its_shortest_counterexample(model: str, fault: Fault) -> None:
    given = bound(model, None, fault.variant)
    (violation,) = symbolic.explore(given.protocol, SearchRequest.of(given, symmetry=None)).violations
    assert (violation.property, len(violation.trace)) == (fault.property, fault.length)
    check_trace(given, violation.trace)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("model", "variant", "config"), OWN + TIERS)
def test_a_shipped_configuration(model: str, variant: str | None, config: str) -> None:
    given = bound(model, config, variant)
    asked = replace(SearchRequest.of(given, symmetry=None), temporal=())
    found, theirs = symbolic.explore(given.protocol, asked), tables.explore(given.protocol, asked)
    assert told(found) == told(theirs)
    if theirs.verdict is Verdict.OK and not given.view:
        saturated = symbolic.explore(given.protocol, replace(asked, search="saturation"))
        assert (saturated.distinct_states, saturated.generated_states) == told(theirs)[2][:2]  # type: ignore[index]


def test_that_many_configurations_are_compared() -> None:
    assert len({(model, config) for model, _, config in OWN + TIERS}) >= 60
    assert sum(map(len, FAULTS.values())) >= 65

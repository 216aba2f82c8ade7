"""Temporal properties of the models: seeded faults of progress are found, the models hold, findings are as told."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from kraftcheck.catalogue import find_model
from kraftcheck.explorer import reference
from kraftcheck.explorer.result import Result, SearchRequest, Verdict
from kraftcheck.explorer.tables import engine as tables
from tests.support.kraft_model.liveness import FAULTS, FINDINGS, MENDED, NOT_SEARCHED, TRIED, Live
from tests.support.kraft_model.searches import bound

BASES = sorted({(one.model, one.config) for one in (*FAULTS, *TRIED) if one.config not in NOT_SEARCHED})


def marked(found: list[Live]) -> list[object]:
    """Return cases by name, slow where they are."""
    return [
        pytest.param(
            one,
            id=f"{one.model}-{one.config}-{one.variant or 'model'}-{one.property}",
            marks=[getattr(pytest.mark, one.speed), pytest.mark.kernel] if one.speed else [],
        )
        for one in found
    ]


def checked(model: str, config: str, variant: str | None, *, compiled: bool, only: str = "") -> Result:
    """Check the temporal properties of a configuration, or one of them."""
    given = bound(model, config, variant)
    options = SearchRequest.of(given)
    if only:
        options = replace(options, temporal=tuple(prop for prop in options.temporal if prop.name == only))
        assert options.temporal
    return (tables if compiled else reference).explore(given.protocol, options)


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize("one", marked(FAULTS + FINDINGS))
def test_what_never_happens_is_found(one: Live) -> None:
    found = checked(one.model, one.config, one.variant, compiled=bool(one.speed), only=one.property)
    (violation,) = found.violations
    assert (violation.property, violation.loop is not None) == (one.property, True)


@pytest.mark.slow
@pytest.mark.kernel
@pytest.mark.parametrize(("model", "config"), BASES)
def test_the_model_keeps_going(model: str, config: str) -> None:
    found = checked(model, config, None, compiled=True)
    assert found.verdict is Verdict.OK
    assert not any("a bound alone" in note for note in found.notes)


@pytest.mark.slow
@pytest.mark.kernel
@pytest.mark.parametrize("one", MENDED, ids=lambda one: one.variant)
def test_a_variant_mends_it(one: Live) -> None:
    assert checked(one.model, one.config, one.variant, compiled=True).verdict is Verdict.OK


def test_every_configuration_and_every_property_is_here() -> None:
    known = {(one.model, one.config) for one in (*FAULTS, *TRIED)}
    for name in {one.model for one in FAULTS}:
        model = find_model(name)
        assert {(name, config) for config in model.configurations if config.startswith("live.")} <= known
        named = {prop for prop, one in model.protocol.properties.items() if one.kind == "temporal"}
        assert named == {one.property for one in FAULTS + FINDINGS if one.model == name}


def test_the_table_in_the_docs_says_the_same() -> None:
    text = (Path(__file__).parents[2] / "docs" / "progress.md").read_text()
    rows = re.findall(r"^\| (\w+)(?: \(`(\w+)`\))? \| [^|]+ \| ([^|]+) \| `(live[\w.-]+)` \|$", text, re.MULTILINE)
    shown = {
        (model or "quorum", config, variant, prop)
        for prop, model, variants, config in rows
        for variant in re.findall(r"`([\w-]+)`", variants)
    }
    assert shown == {(one.model, one.config, one.variant, one.property) for one in FAULTS}

"""`quorum`: exact counts, the same by the reference and the table engine, and what its properties say."""

from __future__ import annotations

from pathlib import Path

import pytest

import explorer.tables.engine as tables
import kraft_model
from explorer import reference
from explorer.result import Options, Result, Verdict
from kraft_model.quorum import Quorum
from spec.binding import Bound, bind
from spec.config import read_config

CONFIGS = Path(kraft_model.__file__).with_name("configs")
SMOKE = {"smoke": (501, 1_077, 17), "smoke-answers": (912, 2_951, 21), "smoke-network": (9_726, 42_553, 16)}
DEFAULT = (2_695_744, 15_299_592, 40)
"""Distinct states, generated states and depth."""


def bound(name: str) -> Bound:
    return bind(Quorum, read_config(CONFIGS / f"quorum.{name}.cfg"))


def options(model: Bound) -> Options:
    return Options(
        properties=model.properties,
        constraints=model.constraints,
        action_constraints=model.action_constraints,
        deadlock=model.deadlock,
        init=model.init,
    )


def counts(result: Result) -> tuple[int, int, int | None]:
    return result.distinct_states, result.generated_states, result.depth


@pytest.mark.parametrize("name", SMOKE)
def test_both_engines_find_the_same(name: str) -> None:
    model = bound(name)
    ours = reference.explore(model.protocol, options(model))
    theirs = tables.explore(model.protocol, options(model))
    assert ours.verdict is theirs.verdict is Verdict.OK
    assert counts(ours) == counts(theirs) == SMOKE[name]
    assert ours.actions == theirs.actions


@pytest.mark.slow
def test_default_holds() -> None:
    model = bound("default")
    result = tables.explore(model.protocol, options(model))
    assert result.verdict is Verdict.OK
    assert counts(result) == DEFAULT

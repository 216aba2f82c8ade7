"""Sizes of random tests: small by default, larger in CI, largest by hand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def sizes(usual: int | None, slow: int, exhaustive: int | None = None) -> list[Any]:
    """Return the cases of a test that draws as many examples; None leaves a size out."""
    found: list[Any] = [] if usual is None else [usual]
    found.append(pytest.param(slow, marks=pytest.mark.slow))
    return found if exhaustive is None else [*found, pytest.param(exhaustive, marks=pytest.mark.exhaustive)]


def some_slow(cases: Iterable[Any]) -> list[Any]:
    """Return cases of a slow test: every other one only by hand."""
    return [pytest.param(one, marks=pytest.mark.exhaustive) if n % 2 else one for n, one in enumerate(cases)]

"""Sizes of random tests: small by default, larger in CI, largest by hand."""

from __future__ import annotations

from typing import Any

import pytest


def sizes(usual: int | None, slow: int, exhaustive: int | None = None) -> list[Any]:
    """Return the cases of a test that draws as many examples; None leaves a size out."""
    found: list[Any] = [] if usual is None else [usual]
    found.append(pytest.param(slow, marks=pytest.mark.slow))
    return found if exhaustive is None else [*found, pytest.param(exhaustive, marks=pytest.mark.exhaustive)]

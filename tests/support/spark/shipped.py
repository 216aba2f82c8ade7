"""The configurations that the project ships, up to `default`, searched by two engines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from kraftcheck.catalogue import find_model, shipped_model_modules
from kraftcheck.explorer.result import Result, SearchRequest, Verdict
from kraftcheck.explorer.tables.engine import explore as explore_tables
from kraftcheck.spec.cfg.config import BoundConfig
from tests.support.kraft_model.searches import bound
from tests.support.tlc import MODELS, TLC
from tests.support.tlc import bound as tlc_bound

BEYOND = ("large", "published", "live.bridge", "endless.")
"""Configurations for a nightly run, one that is not searched in full, and those whose VIEW renames states."""

OF_VARIANTS = ("fault.", "report.", "contract.", "coming.", "endless.", "design.", "lockstep")
"""Beginnings of the names of configurations that only variants have, or that are for random walks."""


class Shipped(NamedTuple):
    """A configuration of a model, or of a variant that names it; or, of model `tlc`, one that TLC has counted."""

    model: str
    config: str
    variant: str | None = None

    @property
    def name(self) -> str:
        return ":".join(part for part in self if part)

    @property
    def bound(self) -> BoundConfig:
        """The configuration."""
        return tlc_bound(self.config) if self.model == "tlc" else bound(self.model, self.config, self.variant)


def shipped() -> Iterator[Shipped]:
    """Yield every configuration up to `default`, each variant in the one that it names, and TLC's."""
    for name in shipped_model_modules():
        model = find_model(name)
        for config in model.configurations:
            if not config.startswith((*BEYOND, *OF_VARIANTS)):
                yield Shipped(name, config)
        for variant in model.variants:
            own = find_model(name, variant).own_configuration
            if own in model.configurations and not own.startswith(BEYOND):
                yield Shipped(name, str(own), variant)
    yield from (Shipped("tlc", f"counts/{name}") for name in MODELS if name != "three-voters-remove")
    yield from (Shipped("tlc", f"symmetry/{path.stem}") for path in sorted((TLC / "symmetry").glob("*.cfg")))


def told(result: Result, *, whole: bool) -> dict[str, Any]:
    """What both engines must find; without counts where a search ends in the middle of a level."""
    found: dict[str, Any] = {
        "verdict": result.verdict,
        "complete": result.complete,
        "depth": result.depth,
        "violations": sorted((violation.property, len(violation.trace)) for violation in result.violations),
    }
    if whole:
        found |= {
            "distinct": result.distinct_states,
            "generated": result.generated_states,
            "actions": result.actions,
        }
    return found


def differences(given: BoundConfig, explore: Any) -> tuple[int, list[str]]:
    """Search with an engine and with the table engine; return the states found, and what differs."""
    options = SearchRequest.of(given)
    expected, result = explore_tables(given.protocol, options), explore(given.protocol, options)
    whole = expected.verdict is Verdict.OK
    pairs = [(told(expected, whole=whole), told(result, whole=whole))]
    if not whole:  # once more, with all of the first levels: their counts are the same
        options = replace(options, keep_going=True, max_depth=expected.depth)
        expected, result = explore_tables(given.protocol, options), explore(given.protocol, options)
        pairs.append((told(expected, whole=True), told(result, whole=True)))
    found = [f"{name}: {b[name]}, expected {a[name]}" for a, b in pairs for name in a if a[name] != b[name]]
    return result.distinct_states, found

"""Searches that the tests of several models share: a configuration of a model or of a variant, by either engine."""

from __future__ import annotations

import re

from kraftcheck.catalogue import Model, find_config_name_and_content, find_model
from kraftcheck.explorer import reference
from kraftcheck.explorer.result import Result, SearchRequest, Verdict
from kraftcheck.explorer.symbolic import engine as symbolic
from kraftcheck.explorer.tables import engine as tables
from kraftcheck.spec.cfg.binding import bind
from kraftcheck.spec.cfg.config import BoundConfig
from kraftcheck.spec.language.semantics import Semantics, initial_states
from tests.support.kraft_model.faults import Fault


def bound(model: str, config: str | None = None, variant: str | None = None) -> BoundConfig:
    """Return a model with the constants of a configuration; by default the variant's own."""
    found = find_model(model, variant)
    return bind(found.protocol, find_config_name_and_content(found, config)[1])


def variant_for(model: Model, config: str) -> str | None:
    """Return the variant of a configuration: that whose own it is, or the one that its description names."""
    own = {find_model(model.name, variant).own_configuration: variant for variant in model.variants}
    named = re.search(r"\b[Vv]ariant ([a-z-]+)", model.configurations[config].about)
    return own.get(config) or (named[1] if named and named[1] in model.variants else None)


def search(given: BoundConfig, engine: str = "tables", max_depth: int | None = None) -> Result:
    """Search as a configuration asks for, perhaps only to a depth."""
    options = SearchRequest.of(given, max_depth=max_depth)
    engines = {"tables": tables.explore, "reference": reference.explore, "symbolic": symbolic.explore}
    return engines[engine](given.protocol, options)


def check_fault(model: str, fault: Fault) -> None:
    """Check that a fault is caught as it says, and that the model without it holds within the same bounds."""
    own = find_model(model, fault.variant).own_configuration
    assert own is not None
    given = bound(model, own, fault.variant)
    assert [prop.name for prop in given.properties] == [fault.property]
    found = search(given)
    (violation,) = found.violations
    assert (violation.property, len(violation.trace)) == (fault.property, fault.length)
    check_trace(given, violation.trace)
    base = search(bound(model, own), max_depth=None if fault.base else fault.length)
    if fault.base is None:
        assert (base.verdict, base.depth) == (Verdict.INCOMPLETE, fault.length)
    else:
        assert (base.verdict, base.distinct_states) == (Verdict.OK, fault.base)


def check_trace(given: BoundConfig, trace) -> None:
    """Check that a counterexample is a behaviour of the protocol that ends with a violation."""
    semantics = Semantics(given.protocol)
    (prop,) = given.properties
    state = trace[0].state
    assert state in initial_states(semantics, given.init)
    for number, step in enumerate(trace[1:], start=2):
        fitting = [t for t in semantics.transitions(state) if t.target == step.state and t.action == step.action]
        assert fitting, f"state {number}"
        if prop.over_steps:
            assert all(semantics.step_satisfies(prop, state, taken) for taken in fitting) == (number < len(trace))
        else:
            assert semantics.holds(prop, step.state) == (number < len(trace))
        state = step.state


def fault_configurations(model: Model) -> set[str]:
    """Return the names of the configurations of seeded faults."""
    return {name for name in model.configurations if name.startswith("fault.")}


def of_reports(model: Model) -> set[str]:
    """Return the names of the variants that belong to public reports (`tests/test_operators.py`)."""
    return {name for name, variant in model.variants.items() if (variant.configuration or "").startswith("report.")}

"""Features that each engine's search orders support; a search that needs another is refused (`docs/design.md`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from kraftcheck.explorer.request import OPTIONS, SearchRequest
from kraftcheck.explorer.request import Feature as Feature
from kraftcheck.explorer.temporal import conditions
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.protocol import Protocol

ALL = frozenset(Feature)
ON_THE_GRAPH = {Feature.REACHABLE, Feature.TEMPORAL}
ON_ROWS = ALL - {Feature.RENAMING}
DEEP = ON_ROWS - {*ON_THE_GRAPH, Feature.CHECKPOINT, Feature.MEMORY}
SETS = ON_ROWS - {Feature.SYMMETRY, Feature.VIEW, Feature.TEMPORAL}
IN_NO_ORDER = SETS - {Feature.VIEW_OF_BOUNDS, Feature.LIMITS}

CAPABILITIES = {
    "tables": {"bfs": ON_ROWS, "dfs": DEEP, "iddfs": DEEP},
    "reference": {"bfs": ALL - {Feature.CHECKPOINT, Feature.MEMORY}, "dfs": DEEP | {Feature.RENAMING}},
    "symbolic": {"bfs": SETS, "saturation": IN_NO_ORDER, "chaining": IN_NO_ORDER},
    "bytecode": {"bfs": frozenset({Feature.CONSTRAINT, Feature.LIMITS})},
    "spark": {"bfs": ON_ROWS - {Feature.MEMORY}},
}
"""Supported features, by engine and search order."""


def able(engine: str, order: str) -> frozenset[Feature]:
    """Return the features of a search order. A user-defined order of the table engine has the features of `dfs`."""
    orders = CAPABILITIES[engine]
    if order not in orders and engine != "tables":
        raise InputError(f"--search {order}: not supported by the engine {engine}; expected {' or '.join(orders)}")
    return orders.get(order, DEEP)


def asked(protocol: Protocol, options: SearchRequest) -> Iterator[tuple[Feature, str]]:
    """Yield each feature that a search needs, with the text that names it in messages."""
    for name, option in OPTIONS.items():
        value: Any = getattr(options, name)
        if (feature := option.asks) is None or value in (None, ()):
            continue
        shown = ", ".join(one.name for one in value) if isinstance(value, tuple) else value
        text = f"{option.word if feature.startswith('--') else feature} {shown}"
        yield feature, option.word if feature is Feature.MEMORY else text
    if options.view is not None:
        yield from _of_view(protocol, options.view)


def _of_view(protocol: Protocol, view: str) -> Iterator[tuple[Feature, str]]:
    hidden = protocol.hidden(view)
    by_kind = ((hidden.shared, Feature.VIEW), (hidden.bounds, Feature.VIEW_OF_BOUNDS))
    text = f"VIEW {view}, which hides "
    yield from ((feature, text + ", ".join(sorted(names))) for names, feature in by_kind if names)
    if protocol.renames(view) is not None:
        yield Feature.RENAMING, f"VIEW {view}, which renames states"


def require_supported(engine: str, protocol: Protocol, options: SearchRequest) -> None:
    """Raise InputError for the first feature that the search order lacks, or that does not fit the protocol."""
    order = str(options.search)
    if options.reachable:
        conditions.require_reachable(protocol, options)
    has = able(engine, order)
    for feature, text in asked(protocol, options):
        if feature not in has:
            protocol.checked_initial()  # a wrong name in the view is reported first
            raise _unsupported(engine, order, feature, text)
    if options.temporal:
        conditions.require_temporal(protocol, options)
    conditions.require_shown(protocol, options.view, options.refinements, "the mapping")


def _unsupported(engine: str, order: str, feature: Feature, text: str) -> InputError:
    where, expected = f"the engine {engine}", [f"--engine {name}" for name in _with(feature)]
    if orders := [name for name, found in CAPABILITIES[engine].items() if feature in found]:
        where, expected = f"--search {order}", [f"--search {name}" for name in orders]
    without = ["--no-symmetry"] if feature is Feature.SYMMETRY else []
    return InputError(f"{text}: not supported by {where}; expected {' or '.join([*without, *expected])}")


def _with(feature: Feature) -> list[str]:
    return [engine for engine, orders in CAPABILITIES.items() if any(feature in found for found in orders.values())]


def without_symmetry(options: SearchRequest) -> tuple[SearchRequest, list[str]]:
    """Return the options without SYMMETRY if there are temporal properties or refinements, and a note about it.

    A cycle of orbits need not be a cycle of states: states of one orbit differ in the replica that is starved. A
    mapping may map states of one orbit to different orbits.
    """
    told_apart = (*options.temporal, *options.refinements)
    if not told_apart or options.symmetry is None:
        return options, []
    names = ", ".join(prop.name for prop in told_apart)
    note = f"SYMMETRY {options.symmetry} is switched off: {names} may distinguish states that it identifies"
    return replace(options, symmetry=None), [note]

"""What each search order of each engine can do. The rest is refused before a search: see `docs/design.md`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any

from kraftcheck.explorer import reachability
from kraftcheck.explorer.result import Options
from kraftcheck.explorer.temporal import conditions
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.protocol import Protocol


class Feature(StrEnum):
    """Something a search may be asked for, as the documentation calls it."""

    CONSTRAINT = "CONSTRAINT"
    ACTION_CONSTRAINT = "ACTION_CONSTRAINT"
    SYMMETRY = "SYMMETRY"
    VIEW = "VIEW that hides shared fields"
    VIEW_OF_BOUNDS = "VIEW that hides bounds"
    LIMITS = "--max-states, --max-depth"
    NON_LOCAL = "non-local properties and constraints"
    REACHABLE = "@reachable"
    TEMPORAL = "@temporal"
    CHECKPOINT = "--checkpoint, --resume"
    MEMORY = "--memory"


ALL = frozenset(Feature)
DEEP = ALL - {Feature.REACHABLE, Feature.TEMPORAL, Feature.CHECKPOINT, Feature.MEMORY}
SETS = ALL - {Feature.SYMMETRY, Feature.VIEW, Feature.TEMPORAL}
IN_NO_ORDER = SETS - {Feature.VIEW_OF_BOUNDS, Feature.LIMITS}

CAPABILITIES = {
    "tables": {"bfs": ALL, "dfs": DEEP, "iddfs": DEEP},
    "reference": {"bfs": ALL - {Feature.CHECKPOINT, Feature.MEMORY}, "dfs": DEEP},
    "symbolic": {"bfs": SETS, "saturation": IN_NO_ORDER, "chaining": IN_NO_ORDER},
    "spark": {"bfs": ALL - {Feature.NON_LOCAL, Feature.REACHABLE, Feature.TEMPORAL, Feature.MEMORY}},
}
"""By engine and search order."""

ASKED = {
    "constraints": (Feature.CONSTRAINT, "CONSTRAINT {}"),
    "action_constraints": (Feature.ACTION_CONSTRAINT, "ACTION_CONSTRAINT {}"),
    "symmetry": (Feature.SYMMETRY, "SYMMETRY {}"),
    "reachable": (Feature.REACHABLE, "@reachable {}"),
    "temporal": (Feature.TEMPORAL, "@temporal {}"),
    "max_states": (Feature.LIMITS, "--max-states {}"),
    "max_depth": (Feature.LIMITS, "--max-depth {}"),
    "checkpoint": (Feature.CHECKPOINT, "--checkpoint {}"),
    "resume": (Feature.CHECKPOINT, "--resume {}"),
    "memory": (Feature.MEMORY, "--memory"),
}
"""Fields of `Options` that ask for a feature, each with its text in a message."""


def able(engine: str, order: str) -> frozenset[Feature]:
    """Return the features of a search order. An order that a user adds to the engine tables has those of `dfs`."""
    orders = CAPABILITIES[engine]
    if order not in orders and engine != "tables":
        raise InputError(f"--search {order}: not supported by the engine {engine}; expected {' or '.join(orders)}")
    return orders.get(order, DEEP)


def asked(protocol: Protocol, options: Options) -> Iterator[tuple[Feature, str]]:
    """Yield each feature that a search is asked for, with the text that names it."""
    for name, (feature, text) in ASKED.items():
        value: Any = getattr(options, name)
        if value is not None and value != ():
            yield feature, text.format(", ".join(p.name for p in value) if isinstance(value, tuple) else value)
    hidden = protocol.hidden(options.view) if options.view is not None else None
    for names, feature in ((hidden.shared, Feature.VIEW), (hidden.bounds, Feature.VIEW_OF_BOUNDS)) if hidden else ():
        if names:
            yield feature, f"VIEW {options.view}, which hides {', '.join(sorted(names))}"


def require_able(engine: str, protocol: Protocol, options: Options, non_local: Iterable[str] = ()) -> None:
    """Raise InputError for the first feature that the search order lacks, or that does not fit the protocol.

    Non-local properties and constraints are given by what they read: it is the engine tables that tells them.
    """
    order = str(options.search)
    reachability.require_able(protocol, options)
    has = able(engine, order)
    for feature, text in (*asked(protocol, options), *((Feature.NON_LOCAL, text) for text in non_local)):
        if feature not in has:
            protocol.checked_initial()  # a name that the view mistakes is told first
            where, expected = f"the engine {engine}", [f"--engine {name}" for name in _with(feature)]
            if orders := [name for name, found in CAPABILITIES[engine].items() if feature in found]:
                where, expected = f"--search {order}", [f"--search {name}" for name in orders]
            without = ["--no-symmetry"] if feature is Feature.SYMMETRY else []
            raise InputError(f"{text}: not supported by {where}; expected {' or '.join([*without, *expected])}")
    conditions.require_able(protocol, options)


def _with(feature: Feature) -> list[str]:
    return [engine for engine, orders in CAPABILITIES.items() if any(feature in found for found in orders.values())]

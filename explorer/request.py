"""Search requests with their options and limits, and the features that each search order supports.

A search that needs a feature which its order lacks is refused (`docs/design.md`).
"""

from __future__ import annotations

import argparse
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self, get_type_hints

from kraftcheck.spec.errors import InputError, unknown_name_message
from kraftcheck.spec.language.declarations import REFINES, Property
from kraftcheck.spec.language.formula import NEXT_ACTION, Enabled, Fairness, Taken, stutter_sensitive_taken
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.values import truncate_text

MOST_WORKERS, MOST_COUNT = 4096, 10**18 - 1
_SIZE_PATTERN = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)


class Search(StrEnum):
    """Names of the built-in search orders.

    `SearchRequest.search` also accepts the name of any file in `explorer/tables/searches/`.
    """

    BFS = "bfs"
    DFS = "dfs"
    IDDFS = "iddfs"


class Feature(StrEnum):
    """A feature of a search that some search orders lack; the value is its name in messages."""

    MESSAGES = "messages"
    CONSTRAINT = "CONSTRAINT"
    ACTION_CONSTRAINT = "ACTION_CONSTRAINT"
    SYMMETRY = "SYMMETRY"
    VIEW = "VIEW that hides shared fields"
    VIEW_OF_BOUNDS = "VIEW that hides bounds"
    RENAMING = "VIEW that renames states"
    LIMITS = "--max-states, --max-depth"
    REACHABLE = "@reachable"
    TEMPORAL = "@temporal"
    CHECKPOINT = "--checkpoint, --resume"
    MEMORY = "--memory"


@dataclass(frozen=True)
class Progress:
    """Progress of a search.

    Attributes
    ----------
    distinct_states : int
        States found so far.
    generated_states : int
        Initial states and transitions so far.
    depth : int
        States on the longest path so far.
    frontier : int
        States found and not yet expanded.
    seconds : float
        Seconds since the search began.
    nodes : int or None
        Nodes of the decision diagrams of the symbolic engine; None for other engines. By saturation, the other counts
        are 0 until the end.
    handler_calls, evaluations : dict of str to int
        Calls of each action, and evaluations of each property, in Python so far. The latter are those whose reads the
        table engine records.
    """

    distinct_states: int
    generated_states: int
    depth: int
    frontier: int
    seconds: float
    nodes: int | None = None
    handler_calls: dict[str, int] = field(default_factory=dict)
    evaluations: Mapping[str, int] = field(default_factory=dict)

    @property
    def calls(self) -> Counter[str]:
        """Calls of each action and evaluations of each property together."""
        return Counter(self.handler_calls) + Counter(self.evaluations)


# Values on the command line


def parse_count(text: str) -> int:
    """Parse a number from 1 to `MOST_COUNT`."""
    is_number = text.isascii() and text.isdigit()
    is_long = is_number and len(text) > len(str(MOST_COUNT))  # Python refuses to convert thousands of digits
    if not is_number or is_long or int(text) == 0:
        limit = f" and at most {MOST_COUNT:,}" if is_long else ""
        raise argparse.ArgumentTypeError(f"expected a number of at least 1{limit}, found {truncate_text(text, 60)!r}")
    return int(text)


def parse_thread_count(text: str) -> int:
    """Parse a number of threads or processes; refuse one that no machine can run."""
    number = parse_count(text)
    if number > MOST_WORKERS:
        raise argparse.ArgumentTypeError(f"expected at most {MOST_WORKERS}, found {number}")
    return number


def parse_seconds(text: str) -> float:
    """Parse a time in seconds."""
    with suppress(ValueError):
        if 0 < float(text) < math.inf:
            return float(text)
    raise argparse.ArgumentTypeError(f"expected a number of seconds above 0, found {truncate_text(text, 60)!r}")


def parse_bytes(text: str) -> int:
    """Parse a number of bytes."""
    match = _SIZE_PATTERN.fullmatch(text.strip())
    if match is not None:
        found = float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " ")
        if 1 <= found < math.inf:
            return int(found)
    raise argparse.ArgumentTypeError(f"expected a size such as 512M or 4G, found {truncate_text(text, 60)!r}")


def parse_folder(text: str) -> Path:
    """Parse the name of a folder."""
    if not text:
        raise argparse.ArgumentTypeError("expected a folder, found ''")
    return Path(text)


def parse_spark_setting(text: str) -> tuple[str, str]:
    """Parse a setting of Spark."""
    key, equals, value = text.partition("=")
    if not equals or not key.startswith("spark."):
        raise argparse.ArgumentTypeError(f"expected spark.KEY=VALUE, found {truncate_text(text, 60)!r}")
    return key, value


# The table


class RequestOption(NamedTuple):
    """Metadata of a `SearchRequest` field: command-line option, supporting engines, names in checkpoints and JSON."""

    help: str
    # On the command line: the placeholder and the parser of a value, or argparse's action. Without them, there is no
    # option.
    metavar: str | None = None
    read: Callable[[str], Any] = str
    action: Any = None
    engines: tuple[str, ...] | None = None  # the engines that support it; None: all
    asks: Feature | None = None  # the feature that it needs of a search order
    identity: str | None = None  # name in a checkpoint's identity; None if the result does not depend on it
    in_json: bool = False  # whether `--json` includes it
    word: str = ""  # its name on the command line

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of the option for `ArgumentParser.add_argument`."""
        found = {"help": self.help, "metavar": self.metavar, "action": self.action, "type": self.read}
        return {key: value for key, value in found.items() if value is not None and (key != "type" or self.metavar)}

    def as_json(self, value: Any) -> Any:
        """Return a value for JSON: properties by name, fairness conditions as text."""
        if isinstance(value, tuple):
            return ", ".join(map(str, value)) if self.identity == "fairness" else sorted({one.name for one in value})
        return str(value) if isinstance(value, StrEnum) else value


_Properties = tuple[Property, ...]
_Folder = str | PathLike[str] | None
_SWITCH_ACTION, _FLAG_ACTION = argparse.BooleanOptionalAction, "store_true"


def _checkpoint_option(text: str) -> RequestOption:
    return RequestOption(text, "DIR", parse_folder, engines=("tables", "symbolic", "spark"), asks=Feature.CHECKPOINT)


@dataclass(frozen=True)
class SearchRequest:
    """The checks, the order, the options and the limits of a search."""

    search: Annotated[
        str,
        RequestOption(
            f"search order (default: {Search.BFS}; for the engine symbolic: saturation)",
            action="store", identity="search", in_json=True,
        ),
    ] = Search.BFS  # fmt: skip
    properties: Annotated[
        _Properties, RequestOption("the invariants, step invariants and refinements to check", identity="properties")
    ] = ()
    constraints: Annotated[
        _Properties,
        RequestOption(
            "predicates beyond which states are not expanded", asks=Feature.CONSTRAINT, identity="constraints"
        ),
    ] = ()
    action_constraints: Annotated[
        _Properties,
        RequestOption("predicates that steps must keep", asks=Feature.ACTION_CONSTRAINT, identity="action constraints"),
    ] = ()
    deadlock: Annotated[
        bool, RequestOption("check for deadlock (default: as configured)", action=_SWITCH_ACTION, identity="deadlock")
    ] = True
    symmetry: Annotated[
        str | None,
        RequestOption(
            "reduce by symmetry (default: as configured)",
            action=_SWITCH_ACTION, asks=Feature.SYMMETRY, identity="symmetry", in_json=True,
        ),
    ] = None  # fmt: skip
    view: Annotated[
        str | None, RequestOption("the view by which states are compared", identity="view", in_json=True)
    ] = None
    init: Annotated[str, RequestOption("the start: Init, or the name of a scenario", identity="start")] = "Init"
    reachable: Annotated[
        _Properties,
        RequestOption(
            "the @reachable properties to check", asks=Feature.REACHABLE, identity="what should stay reachable"
        ),
    ] = ()
    temporal: Annotated[
        _Properties,
        RequestOption("the temporal properties to check", asks=Feature.TEMPORAL, identity="temporal properties"),
    ] = ()
    fairness: Annotated[
        tuple[Fairness, ...], RequestOption("fairness of temporal properties, besides their own", identity="fairness")
    ] = ()
    strict_bounds: Annotated[
        bool | None,  # None: as the protocol says
        RequestOption("for temporal properties, an exhausted bound disables actions, as in TLC", action=_SWITCH_ACTION),
    ] = None
    keep_going: Annotated[
        bool, RequestOption("continue after a violation", action=_FLAG_ACTION, identity="--continue", word="--continue")
    ] = False
    check_actions: Annotated[
        bool,
        RequestOption(
            "test every call of an action for purity, not only a sample",
            action=_FLAG_ACTION, engines=("tables", "reference"), identity="--check-actions",
        ),
    ] = False  # fmt: skip
    workers: Annotated[int | None, RequestOption("number of threads", "N", parse_thread_count, engines=("tables",))] = (
        None
    )
    memory: Annotated[
        int | None,
        RequestOption(
            "memory limit, such as 4G; more states go to disk (default: 60 %% of the machine)",
            "SIZE", parse_bytes, engines=("tables", "symbolic"), asks=Feature.MEMORY,
        ),
    ] = None  # fmt: skip
    max_states: Annotated[
        int | None, RequestOption("stop at N distinct states", "N", parse_count, asks=Feature.LIMITS)
    ] = None
    max_depth: Annotated[
        int | None,
        RequestOption("maximum states on a path; 1: initial states only", "N", parse_count, asks=Feature.LIMITS),
    ] = None
    max_nodes: Annotated[
        int | None,
        RequestOption("stop at N nodes in the symbolic engine's diagrams", "N", parse_count, engines=("symbolic",)),
    ] = None
    time_limit: Annotated[float | None, RequestOption("stop after this time", "SECONDS", parse_seconds)] = None
    checkpoint: Annotated[_Folder, _checkpoint_option("folder for the checkpoint of the search")] = None
    checkpoint_every: Annotated[
        float,
        RequestOption(
            "seconds between two checkpoints (default: 300)", "SECONDS", parse_seconds, engines=("tables", "symbolic")
        ),
    ] = 300.0
    resume: Annotated[_Folder, _checkpoint_option("resume a search from its checkpoint")] = None
    master: Annotated[
        str | None, RequestOption("spark://HOST:PORT, yarn, ... (default: this machine)", "URL", engines=("spark",))
    ] = None
    conf: Annotated[
        tuple[tuple[str, str], ...],
        RequestOption(
            "one of Spark's settings (repeatable)", "KEY=VALUE", parse_spark_setting, "append", engines=("spark",)
        ),
    ] = ()
    verbose: Annotated[
        bool,
        RequestOption(
            "print how often each action fired; with --engine spark also the log of Spark", action=_FLAG_ACTION
        ),
    ] = False
    report: Annotated[
        Callable[[Progress], None] | None, RequestOption("called from time to time with the progress")
    ] = None

    @property
    def over_behaviours(self) -> tuple[Property, ...]:
        """Properties that need the complete state graph: `@reachable` and temporal properties."""
        return (*self.reachable, *self.temporal)

    @property
    def refinements(self) -> tuple[Property, ...]:
        """The refinements among the properties."""
        return tuple(prop for prop in self.properties if prop.kind == REFINES)

    def fairness_of(self, prop: Property) -> tuple[Fairness, ...]:
        """Return the fairness conditions that a temporal property assumes."""
        return tuple(dict.fromkeys((*self.fairness, *prop.fairness)))

    @property
    def all_fairness(self) -> tuple[Fairness, ...]:
        """The fairness conditions of all temporal properties together."""
        return tuple(dict.fromkeys(one for prop in self.temporal for one in self.fairness_of(prop)))

    @property
    def checks_nothing(self) -> bool:
        """Whether the search checks neither a property nor deadlock."""
        return not (self.properties or self.over_behaviours or self.deadlock)

    @classmethod
    def of(cls, bound: NamedTuple, **more: Any) -> Self:
        """Return the request of a configuration that is bound to a protocol (a `BoundConfig`)."""
        asked = bound._asdict()
        del asked["protocol"]
        return cls(**(asked | more))


def _field_names_and_options() -> Iterator[tuple[str, RequestOption]]:
    for name, hint in get_type_hints(SearchRequest, include_extras=True).items():
        option = hint.__metadata__[0]
        if option.metavar or option.action:
            option = option._replace(word=option.word or "--" + name.replace("_", "-"))
        yield name, option


OPTIONS = dict(_field_names_and_options())
"""The declaration of each field of a request, by name."""


# Features of search orders


ALL_FEATURES = frozenset(Feature)
STATE_GRAPH_FEATURES = {Feature.REACHABLE, Feature.TEMPORAL}
TABLE_FEATURES = ALL_FEATURES - {Feature.RENAMING}
DFS_FEATURES = TABLE_FEATURES - {*STATE_GRAPH_FEATURES, Feature.CHECKPOINT, Feature.MEMORY}
SYMBOLIC_FEATURES = TABLE_FEATURES - {Feature.SYMMETRY, Feature.VIEW, Feature.TEMPORAL}
FIXPOINT_FEATURES = SYMBOLIC_FEATURES - {Feature.VIEW_OF_BOUNDS, Feature.LIMITS}
BYTECODE_FEATURES = {Feature.CONSTRAINT, Feature.LIMITS, Feature.SYMMETRY, *STATE_GRAPH_FEATURES}

CAPABILITIES = {
    "tables": {"bfs": TABLE_FEATURES, "dfs": DFS_FEATURES, "iddfs": DFS_FEATURES},
    "reference": {"bfs": ALL_FEATURES - {Feature.CHECKPOINT, Feature.MEMORY}, "dfs": DFS_FEATURES | {Feature.RENAMING}},
    "symbolic": {"saturation": FIXPOINT_FEATURES, "chaining": FIXPOINT_FEATURES, "bfs": SYMBOLIC_FEATURES},
    "bytecode": {"bfs": frozenset(BYTECODE_FEATURES)},
    "spark": {"bfs": TABLE_FEATURES - {Feature.MEMORY}},
}
"""Supported features, by engine and search order; the first order is the engine's default."""


def supported_features(engine: str, order: str) -> frozenset[Feature]:
    """Return the features of a search order. A user-defined order of the table engine has the features of `dfs`."""
    orders = CAPABILITIES[engine]
    if order not in orders and engine != "tables":
        raise InputError(f"--search {order}: not supported by the engine {engine}; expected {' or '.join(orders)}")
    return orders.get(order, DFS_FEATURES)


def needed_features_with_texts(protocol: Protocol, options: SearchRequest) -> Iterator[tuple[Feature, str]]:
    """Yield each feature that a search needs, with the text that names it in messages."""
    for name, option in OPTIONS.items():
        value: Any = getattr(options, name)
        if (feature := option.asks) is None or value in (None, ()):
            continue
        shown = ", ".join(one.name for one in value) if isinstance(value, tuple) else value
        text = f"{option.word if feature.startswith('--') else feature} {shown}"
        yield feature, option.word if feature is Feature.MEMORY else text
    if _has_messages(protocol):
        yield Feature.MESSAGES, Feature.MESSAGES
    if options.view is not None:
        yield from _view_features_with_texts(protocol, options.view)


def _has_messages(protocol: Protocol) -> bool:
    return bool(protocol.network.own_actions()) or any(action.kind == "on" for action in protocol.actions.values())


def _view_features_with_texts(protocol: Protocol, view: str) -> Iterator[tuple[Feature, str]]:
    hidden = protocol.hidden(view)
    by_kind = ((hidden.shared, Feature.VIEW), (hidden.bounds, Feature.VIEW_OF_BOUNDS))
    text = f"VIEW {view}, which hides "
    yield from ((feature, text + ", ".join(sorted(names))) for names, feature in by_kind if names)
    if protocol.renames(view) is not None:
        yield Feature.RENAMING, f"VIEW {view}, which renames states"


def lacking_features_with_texts(
    engine: str, protocol: Protocol, options: SearchRequest
) -> Iterator[tuple[Feature, str]]:
    """Yield the features that a search needs and its order in an engine lacks, with their texts in messages."""
    has = supported_features(engine, str(options.search))
    return ((feature, text) for feature, text in needed_features_with_texts(protocol, options) if feature not in has)


def require_supported(engine: str, protocol: Protocol, options: SearchRequest) -> None:
    """Raise InputError for the first feature that the search order lacks, or that does not fit the protocol."""
    order = str(options.search)
    if options.reachable:
        require_valid_reachable_properties(protocol, options)
    for feature, text in lacking_features_with_texts(engine, protocol, options):
        protocol.checked_initial()  # a wrong name in the view is reported first
        raise _unsupported_feature_error(engine, order, feature, text)
    if options.temporal:
        require_valid_temporal_properties(protocol, options)
    require_properties_unaffected_by_view(protocol, options.view, options.refinements, "the mapping")


def _unsupported_feature_error(engine: str, order: str, feature: Feature, text: str) -> InputError:
    where, expected = f"the engine {engine}", [f"--engine {name}" for name in _engines_with_feature(feature)]
    if orders := [name for name, found in CAPABILITIES[engine].items() if feature in found]:
        where, expected = f"--search {order}", [f"--search {name}" for name in orders]
    without = ["--no-symmetry"] if feature is Feature.SYMMETRY else []
    return InputError(f"{text}: not supported by {where}; expected {' or '.join([*without, *expected])}")


def _engines_with_feature(feature: Feature) -> list[str]:
    return [engine for engine, orders in CAPABILITIES.items() if any(feature in found for found in orders.values())]


def drop_unsound_symmetry_with_notes(options: SearchRequest) -> tuple[SearchRequest, list[str]]:
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


# Requirements of reachability and temporal properties


def require_valid_reachable_properties(protocol: Protocol, options: SearchRequest) -> None:
    """Raise InputError if the search cannot decide its `@reachable` properties."""
    for prop in options.reachable:
        _require_known_actions(f"{prop.name}, without=", prop.without, _action_names(protocol), protocol)
    require_properties_unaffected_by_view(protocol, options.view, options.reachable, "reachability")


def require_valid_temporal_properties(protocol: Protocol, options: SearchRequest) -> None:
    """Raise InputError if the search cannot decide its temporal properties, or their actions are unknown."""
    known = [NEXT_ACTION, *_action_names(protocol)]
    for prop in options.temporal:
        formula = prop.formula(protocol)
        misplaced = stutter_sensitive_taken(formula)
        if misplaced is not None:
            raise InputError(
                f"{prop.name}: {misplaced} is sensitive to stuttering here; require a step by"
                " eventually(...), or forbid it by always(...)"
            )
        for atom in formula.atoms():
            if isinstance(atom, Enabled | Taken):
                _require_known_actions(prop.name, sorted(atom.actions), known, protocol)
        for one in prop.fairness:
            _require_valid_fairness(f"{prop.name}, {one}", one, protocol)
    for one in options.fairness:
        _require_valid_fairness(str(one), one, protocol)
    require_properties_unaffected_by_view(protocol, options.view, options.temporal, "the verdict")


def _require_valid_fairness(where: str, fairness: Fairness, protocol: Protocol) -> None:
    """Raise InputError if a condition names an unknown action or predicate."""
    _require_known_actions(where, fairness.actions, [NEXT_ACTION, *_action_names(protocol)], protocol)
    if not fairness.when:
        return
    if not callable(getattr(type(protocol), fairness.when, None)):
        problem = f"{protocol.name()} has no method {fairness.when}"
        raise InputError(f"{where}: {problem}; expected def {fairness.when}(self, me, message) -> bool")
    own = {NEXT_ACTION, *protocol.network.own_actions()}.intersection(fairness.actions)
    if own and protocol.network.own_actions():
        raise InputError(f"{where}: {min(own)} has steps without a replica; when= needs actions of replicas")


def _action_names(protocol: Protocol) -> list[str]:
    return [*protocol.actions, *protocol.network.own_actions()]


def require_properties_unaffected_by_view(
    protocol: Protocol, view: str | None, properties: Iterable[Property], what: str
) -> None:
    """Raise InputError if a view hides shared fields, on which the given properties may depend."""
    names = ", ".join(prop.name for prop in properties)
    hidden = protocol.hidden(view).shared if view and names else ()
    if hidden:
        raise InputError(
            f"{names}: VIEW {view} leaves out {', '.join(sorted(hidden))}, on which {what} may depend;"
            " expected a view that leaves out bounds only"
        )


def _require_known_actions(where: str, names: Iterable[str], known: list[str], protocol: Protocol) -> None:
    for name in names:
        if name not in known:
            raise InputError(f"{where}: {unknown_name_message('action', name, known, protocol.name())}")

"""Search requests: the checks, the order, the options and the limits of a search.

Each field of `SearchRequest` declares its form outside of a search. The command line, the Python API, the pytest
plugin, messages, JSON and the identity of a checkpoint follow from the declarations. A new option is a field here. Its
type for Python callers is in `kraftcheck/api.py`, and its group in a command's help is in the command.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self, get_type_hints

from kraftcheck.spec.language.declarations import REFINES, Property
from kraftcheck.spec.language.formula import Fairness
from kraftcheck.spec.values import cut

MOST_WORKERS = 4096
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)


class Search(StrEnum):
    """Names of the built-in search orders.

    `SearchRequest.search` also accepts the name of any file in `explorer/tables/searches/`.
    """

    BFS = "bfs"
    DFS = "dfs"
    IDDFS = "iddfs"


class Feature(StrEnum):
    """A feature of a search that some search orders lack; the value is its name in messages."""

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
    handler_calls : dict of str to int
        Calls of each action in Python so far.
    """

    distinct_states: int
    generated_states: int
    depth: int
    frontier: int
    seconds: float
    nodes: int | None = None
    handler_calls: dict[str, int] = field(default_factory=dict)


# Values on the command line


def count(text: str) -> int:
    """Parse a number of at least 1."""
    if not text.isascii() or not text.isdigit() or len(text) > 18 or int(text) == 0:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, found {cut(text, 60)!r}")
    return int(text)


def threads(text: str) -> int:
    """Parse a number of threads or processes; refuse one that no machine can run."""
    number = count(text)
    if number > MOST_WORKERS:
        raise argparse.ArgumentTypeError(f"expected at most {MOST_WORKERS}, found {number}")
    return number


def seconds(text: str) -> float:
    """Parse a time in seconds."""
    with suppress(ValueError):
        if 0 < float(text) < math.inf:
            return float(text)
    raise argparse.ArgumentTypeError(f"expected a number of seconds above 0, found {cut(text, 60)!r}")


def size(text: str) -> int:
    """Parse a number of bytes."""
    match = _SIZE.fullmatch(text.strip())
    if match is not None:
        found = float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " ")
        if 1 <= found < math.inf:
            return int(found)
    raise argparse.ArgumentTypeError(f"expected a size such as 512M or 4G, found {cut(text, 60)!r}")


def folder(text: str) -> Path:
    """Parse the name of a folder."""
    if not text:
        raise argparse.ArgumentTypeError("expected a folder, found ''")
    return Path(text)


def setting(text: str) -> tuple[str, str]:
    """Parse a setting of Spark."""
    key, equals, value = text.partition("=")
    if not equals or not key.startswith("spark."):
        raise argparse.ArgumentTypeError(f"expected spark.KEY=VALUE, found {cut(text, 60)!r}")
    return key, value


# The table


class Option(NamedTuple):
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
            return ", ".join(map(str, value)) if self.identity == "fairness" else sorted(one.name for one in value)
        return str(value) if isinstance(value, StrEnum) else value


_Properties = tuple[Property, ...]
_Folder = str | PathLike[str] | None
_SWITCH, _FLAG = argparse.BooleanOptionalAction, "store_true"
_SAVING = ("tables", "symbolic", "spark")


@dataclass(frozen=True)
class SearchRequest:
    """The checks, the order, the options and the limits of a search."""

    search: Annotated[
        str,
        Option(
            f"search order (default: {Search.BFS}; for the engine symbolic: saturation)",
            action="store", identity="search", in_json=True,
        ),
    ] = Search.BFS  # fmt: skip
    properties: Annotated[
        _Properties, Option("the invariants, step invariants and refinements to check", identity="properties")
    ] = ()
    constraints: Annotated[
        _Properties,
        Option("predicates beyond which states are not expanded", asks=Feature.CONSTRAINT, identity="constraints"),
    ] = ()
    action_constraints: Annotated[
        _Properties,
        Option("predicates that steps must keep", asks=Feature.ACTION_CONSTRAINT, identity="action constraints"),
    ] = ()
    deadlock: Annotated[
        bool, Option("check for deadlock (default: as configured)", action=_SWITCH, identity="deadlock")
    ] = True
    symmetry: Annotated[
        str | None,
        Option(
            "reduce by symmetry (default: as configured)",
            action=_SWITCH, asks=Feature.SYMMETRY, identity="symmetry", in_json=True,
        ),
    ] = None  # fmt: skip
    view: Annotated[str | None, Option("the view by which states are compared", identity="view", in_json=True)] = None
    init: Annotated[str, Option("the start: Init, or the name of a scenario", identity="start")] = "Init"
    reachable: Annotated[
        _Properties,
        Option("the @reachable properties to check", asks=Feature.REACHABLE, identity="what should stay reachable"),
    ] = ()
    temporal: Annotated[
        _Properties, Option("the temporal properties to check", asks=Feature.TEMPORAL, identity="temporal properties")
    ] = ()
    fairness: Annotated[
        tuple[Fairness, ...], Option("fairness of temporal properties, besides their own", identity="fairness")
    ] = ()
    strict_bounds: Annotated[
        bool | None,  # None: as the protocol says
        Option("for temporal properties, an exhausted bound disables actions, as in TLC", action=_SWITCH),
    ] = None
    keep_going: Annotated[
        bool, Option("continue after a violation", action=_FLAG, identity="--continue", word="--continue")
    ] = False
    check_actions: Annotated[
        bool,
        Option(
            "test every call of an action for purity, not only a sample",
            action=_FLAG, engines=("tables", "reference"), identity="--check-actions",
        ),
    ] = False  # fmt: skip
    workers: Annotated[int | None, Option("number of threads", "N", threads, engines=("tables",))] = None
    memory: Annotated[
        int | None,
        Option(
            "memory limit, such as 4G; more states go to disk (default: 60 %% of the machine)",
            "SIZE", size, engines=("tables", "symbolic"), asks=Feature.MEMORY,
        ),
    ] = None  # fmt: skip
    max_states: Annotated[int | None, Option("stop at N distinct states", "N", count, asks=Feature.LIMITS)] = None
    max_depth: Annotated[
        int | None, Option("maximum states on a path; 1: initial states only", "N", count, asks=Feature.LIMITS)
    ] = None
    max_nodes: Annotated[
        int | None, Option("stop at N nodes in the symbolic engine's diagrams", "N", count, engines=("symbolic",))
    ] = None
    time_limit: Annotated[float | None, Option("stop after this time", "SECONDS", seconds)] = None
    checkpoint: Annotated[
        _Folder,
        Option("folder for the checkpoint of the search", "DIR", folder, engines=_SAVING, asks=Feature.CHECKPOINT),
    ] = None
    checkpoint_every: Annotated[
        float,
        Option("seconds between two checkpoints (default: 300)", "SECONDS", seconds, engines=("tables", "symbolic")),
    ] = 300.0
    resume: Annotated[
        _Folder,
        Option("resume a search from its checkpoint", "DIR", folder, engines=_SAVING, asks=Feature.CHECKPOINT),
    ] = None
    master: Annotated[
        str | None, Option("spark://HOST:PORT, yarn, ... (default: this machine)", "URL", engines=("spark",))
    ] = None
    conf: Annotated[
        tuple[tuple[str, str], ...],
        Option("one of Spark's settings (repeatable)", "KEY=VALUE", setting, "append", engines=("spark",)),
    ] = ()
    verbose: Annotated[
        bool, Option("print how often each action fired; with --engine spark also the log of Spark", action=_FLAG)
    ] = False
    report: Annotated[Callable[[Progress], None] | None, Option("called from time to time with the progress")] = None

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


def _options() -> Iterator[tuple[str, Option]]:
    for name, hint in get_type_hints(SearchRequest, include_extras=True).items():
        option = hint.__metadata__[0]
        if option.metavar or option.action:
            option = option._replace(word=option.word or "--" + name.replace("_", "-"))
        yield name, option


OPTIONS = dict(_options())
"""The declaration of each field of a request, by name."""

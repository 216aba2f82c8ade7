"""The one description of a search request: what it checks, how, and where it stops.

Each field of `SearchRequest` says what it is elsewhere. The command line, the Python API, the pytest plugin, error
messages, JSON and the identity of a checkpoint are made from these fields. A new option is a field here; its type for
callers in Python stands in `kraftcheck/api.py`, and the group of a command's help that shows it in the command.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self, get_type_hints

from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.formula import Fairness
from kraftcheck.spec.values import cut

MOST_WORKERS = 4096
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)


class Search(StrEnum):
    """Names of the search orders that every installation has.

    `SearchRequest.search` takes any file of `explorer/tables/searches/` by its name, whether it stands here or not.
    """

    BFS = "bfs"
    DFS = "dfs"
    IDDFS = "iddfs"


class Feature(StrEnum):
    """Something that not every search order can do, as the documentation calls it."""

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


@dataclass(frozen=True)
class Progress:
    """How far a search has got.

    Attributes
    ----------
    distinct_states, generated_states
        Counts so far.
    depth
        States on the longest of the paths walked so far.
    frontier
        States found and not yet expanded.
    seconds
        Time since the search began.
    nodes
        Nodes of the decision diagrams, where states are found as sets: those of whole levels count above, of
        saturation none before its end. Else None.
    """

    distinct_states: int
    generated_states: int
    depth: int
    frontier: int
    seconds: float
    nodes: int | None = None


# What users write


def count(text: str) -> int:
    """Read a number of at least 1."""
    if not text.isascii() or not text.isdigit() or len(text) > 18 or int(text) == 0:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, found {cut(text, 60)!r}")
    return int(text)


def threads(text: str) -> int:
    """Read a number of threads or processes: a slip shall not make as many as a machine cannot bear."""
    number = count(text)
    if number > MOST_WORKERS:
        raise argparse.ArgumentTypeError(f"expected at most {MOST_WORKERS}, found {number}")
    return number


def seconds(text: str) -> float:
    """Read a time."""
    with suppress(ValueError):
        if 0 < float(text) < math.inf:
            return float(text)
    raise argparse.ArgumentTypeError(f"expected a number of seconds above 0, found {cut(text, 60)!r}")


def size(text: str) -> int:
    """Read a number of bytes."""
    match = _SIZE.fullmatch(text.strip())
    if match is not None:
        found = float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " ")
        if 1 <= found < math.inf:
            return int(found)
    raise argparse.ArgumentTypeError(f"expected a size such as 512M or 4G, found {cut(text, 60)!r}")


def folder(text: str) -> Path:
    """Read a folder's name."""
    if not text:
        raise argparse.ArgumentTypeError("expected a folder, found ''")
    return Path(text)


def setting(text: str) -> tuple[str, str]:
    """Read one of Spark's settings."""
    key, equals, value = text.partition("=")
    if not equals or not key.startswith("spark."):
        raise argparse.ArgumentTypeError(f"expected spark.KEY=VALUE, found {cut(text, 60)!r}")
    return key, value


# The table


class Option(NamedTuple):
    """What a field of `SearchRequest` is outside of a search."""

    help: str
    # On the command line: what stands for a value and what reads it; argparse's action. Neither: it has no such option.
    metavar: str | None = None
    read: Callable[[str], Any] = str
    action: Any = None
    engines: tuple[str, ...] | None = None  # the engines that have it; None: all
    asks: Feature | None = None  # what a search order must be able to do for it
    identity: str | None = None  # its name in a checkpoint's identity; None where it does not change what is found
    in_json: bool = False  # whether `--json` has it
    word: str = ""  # its name on the command line

    def arguments(self) -> dict[str, Any]:
        """Return what a parser of a command line takes."""
        found = {"help": self.help, "metavar": self.metavar, "action": self.action, "type": self.read}
        return {key: value for key, value in found.items() if value is not None and (key != "type" or self.metavar)}

    def as_json(self, value: Any) -> Any:
        """Return a value for JSON: properties by name, conditions of fairness as text."""
        if isinstance(value, tuple):
            return ", ".join(map(str, value)) if self.identity == "fairness" else sorted(one.name for one in value)
        return str(value) if isinstance(value, StrEnum) else value


_Properties = tuple[Property, ...]
_Folder = str | PathLike[str] | None
_SWITCH, _FLAG = argparse.BooleanOptionalAction, "store_true"
_SAVING = ("tables", "symbolic", "spark")


@dataclass(frozen=True)
class SearchRequest:
    """What a search checks, how, and where it stops."""

    search: Annotated[
        str,
        Option(
            f"the order (default: {Search.BFS}; of the engine symbolic: saturation)",
            action="store", identity="search", in_json=True,
        ),
    ] = Search.BFS  # fmt: skip
    properties: Annotated[
        _Properties, Option("the invariants and step invariants to check", identity="properties")
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
        bool, Option("check for deadlock, whatever the .cfg says", action=_SWITCH, identity="deadlock")
    ] = True
    symmetry: Annotated[
        str | None,
        Option(
            "reduce by symmetry, whatever the .cfg says",
            action=_SWITCH, asks=Feature.SYMMETRY, identity="symmetry", in_json=True,
        ),
    ] = None  # fmt: skip
    view: Annotated[str | None, Option("the view by which states are compared", identity="view", in_json=True)] = None
    init: Annotated[str, Option("the start: Init, or the name of a scenario", identity="start")] = "Init"
    reachable: Annotated[
        _Properties,
        Option("what should stay reachable", asks=Feature.REACHABLE, identity="what should stay reachable"),
    ] = ()
    temporal: Annotated[
        _Properties, Option("the temporal properties to check", asks=Feature.TEMPORAL, identity="temporal properties")
    ] = ()
    fairness: Annotated[
        tuple[Fairness, ...], Option("what temporal properties assume, besides what each declares", identity="fairness")
    ] = ()
    strict_bounds: Annotated[
        bool | None,  # None: as the protocol says
        Option("to temporal properties, what a bound forbids is not enabled, as in TLC", action=_SWITCH),
    ] = None
    keep_going: Annotated[
        bool, Option("go on after a violation", action=_FLAG, identity="--continue", word="--continue")
    ] = False
    check_actions: Annotated[
        bool,
        Option(
            "test in every call that actions are pure, not in a sample of them",
            action=_FLAG, engines=("tables", "reference"), identity="--check-actions",
        ),
    ] = False  # fmt: skip
    workers: Annotated[int | None, Option("threads", "N", threads, engines=("tables",))] = None
    memory: Annotated[
        int | None,
        Option(
            "such as 4G; states beyond it go to disk (default: 60 %% of the machine)",
            "SIZE", size, engines=("tables", "symbolic"), asks=Feature.MEMORY,
        ),
    ] = None  # fmt: skip
    max_states: Annotated[int | None, Option("distinct states", "N", count, asks=Feature.LIMITS)] = None
    max_depth: Annotated[
        int | None, Option("states along a path; 1: the initial ones alone", "N", count, asks=Feature.LIMITS)
    ] = None
    max_nodes: Annotated[
        int | None, Option("nodes of the symbolic engine's diagrams at one time", "N", count, engines=("symbolic",))
    ] = None
    time_limit: Annotated[float | None, Option("time that the search takes", "SECONDS", seconds)] = None
    checkpoint: Annotated[
        _Folder,
        Option("where to keep the search's state", "DIR", folder, engines=_SAVING, asks=Feature.CHECKPOINT),
    ] = None
    checkpoint_every: Annotated[
        float,
        Option("how often it is written (default: 300)", "SECONDS", seconds, engines=("tables", "symbolic")),
    ] = 300.0
    resume: Annotated[
        _Folder,
        Option("go on with a search from its checkpoint", "DIR", folder, engines=_SAVING, asks=Feature.CHECKPOINT),
    ] = None
    master: Annotated[
        str | None, Option("spark://HOST:PORT, yarn, ... (default: this machine)", "URL", engines=("spark",))
    ] = None
    conf: Annotated[
        tuple[tuple[str, str], ...],
        Option("one of Spark's settings (repeatable)", "KEY=VALUE", setting, "append", engines=("spark",)),
    ] = ()
    verbose: Annotated[bool, Option("show what Spark itself says while it starts and runs", action=_FLAG)] = False
    report: Annotated[Callable[[Progress], None] | None, Option("called from time to time with the progress")] = None

    @property
    def over_behaviours(self) -> tuple[Property, ...]:
        """What is known once all states are visited."""
        return (*self.reachable, *self.temporal)

    def fairness_of(self, prop: Property) -> tuple[Fairness, ...]:
        """What a temporal property may assume to be fair."""
        return tuple(dict.fromkeys((*self.fairness, *prop.fairness)))

    @property
    def all_fairness(self) -> tuple[Fairness, ...]:
        """What the temporal properties may assume to be fair, all together."""
        return tuple(dict.fromkeys(one for prop in self.temporal for one in self.fairness_of(prop)))

    @property
    def checks_nothing(self) -> bool:
        """Whether there is no property to check, and deadlock is not checked either."""
        return not (self.properties or self.over_behaviours or self.deadlock)

    @classmethod
    def of(cls, bound: NamedTuple, **more: Any) -> Self:
        """Return what a configuration that is bound to a protocol, a `BoundConfig`, asks a search for."""
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
"""What each field of a request is elsewhere, by its name."""

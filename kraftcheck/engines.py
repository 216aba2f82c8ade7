"""The engines that can run a search, and which options each of them has."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from kraftcheck.explorer.tables.searches import names as searches_of_tables
from kraftcheck.spec.errors import InputError, RaisedError, unknown
from kraftcheck.spec.language.views import HiddenReadError

if TYPE_CHECKING:
    from kraftcheck.explorer.result import Options, Result
    from kraftcheck.spec.language.protocol import Protocol

WAY_SECONDS = 60.0
"""How long the table engine may look for the way to an error that another engine met."""

TRIAL_SECONDS = 3.0
"""How long the reference engine may try a search before the kernel is compiled for it."""


class Engine(NamedTuple):
    """One way of running a search."""

    target: str  # where it is: `module:function`, with `(Protocol, Options) -> Result`. It is imported when it is used.
    # the search orders that it has. The first is taken where the user names the engine and no order.
    searches: tuple[str, ...]
    options: tuple[str, ...] = ()  # the command line's options that it has besides those that all have

    @property
    def run(self) -> Callable[[Protocol, Options], Result]:
        """The function that runs a search."""
        module, _, name = self.target.partition(":")
        function: Callable[[Protocol, Options], Result] = getattr(import_module(module), name)
        return function


ENGINES = {
    "tables": Engine(
        "kraftcheck.explorer.tables.engine:explore",
        searches_of_tables(),
        ("--check-actions", "--workers", "--memory", "--checkpoint", "--checkpoint-every", "--resume"),
    ),
    "reference": Engine("kraftcheck.explorer.reference:explore", ("bfs", "dfs"), ("--check-actions", "--graph")),
    "symbolic": Engine(
        "kraftcheck.explorer.symbolic.engine:explore",
        ("saturation", "chaining", "bfs"),
        ("--memory", "--max-nodes", "--checkpoint", "--checkpoint-every", "--resume"),
    ),
    "spark": Engine(
        "kraftcheck.explorer.spark.engine:explore", ("bfs",), ("--checkpoint", "--resume", "--master", "--conf")
    ),
}
"""By name, the one to prefer first."""


def choose(name: str | None, search: str, options: Iterable[str] = ()) -> str:
    """Return the name of the engine to use."""
    if name is not None and name not in ENGINES:
        raise InputError(unknown("engine", name, ENGINES))
    wanted = {f"--search {search}": {known for known, engine in ENGINES.items() if search in engine.searches}}
    for option in options:
        wanted[option] = {known for known, engine in ENGINES.items() if option in engine.options}
    fitting = [known for known in ENGINES if all(known in able for able in wanted.values())]
    if name is None and fitting:
        return fitting[0]
    for option, able in wanted.items():
        if not able:
            raise InputError(f"{option}: no engine can do this yet (there is {', '.join(ENGINES)})")
        if name is not None and name not in able:
            expected = " or ".join(sorted(able))
            raise InputError(f"{option}: the engine {name} cannot do this; expected --engine {expected}")
    if name is None:
        raise InputError(f"no engine can do all of this together: {', '.join(wanted)}")
    return name


def searches() -> list[str]:
    """Return the names of the search orders that some engine has."""
    return sorted({name for engine in ENGINES.values() for name in engine.searches})


def special(options: Iterable[str]) -> list[str]:
    """Return those options that not every engine has, as the command line calls them."""
    known = {option for engine in ENGINES.values() for option in engine.options}
    return [option for name in options if (option := "--" + name.replace("_", "-")) in known]


def special_of(options: Options) -> list[str]:
    """Return `special` of the options that have another value than their default."""
    return special(field.name for field in fields(options) if getattr(options, field.name) != field.default)


def search(
    engine: str,
    protocol: Protocol,
    options: Options,
    *,
    is_named: bool = True,
    compiles: Callable[[], object] | None = None,
) -> Result:
    """Run a search; the result says which engine did.

    The table engine's kernel is compiled when it is used for the first time on a machine, which takes some half a
    minute. So where the user named no engine and it is not compiled yet, the reference engine may try first: a small
    search it ends at once, with the same result.
    """
    result = None
    if engine == "tables" and not is_named and not _is_compiled():
        result = _tried(protocol, options)
    if result is None:
        run = partial(_run, engine, protocol, options)
        try:
            result = replace(run() if engine == "reference" else compiling(run, compiles), engine=engine)
        except HiddenReadError:
            result = _first_found(engine, protocol, options)
            if result is None:
                raise
    return result


def _first_found(engine: str, protocol: Protocol, options: Options) -> Result | None:
    """Return what the reference engine finds, where it can do what the table engine was asked for; else None.

    A property reads what a VIEW leaves out: then the states found first count, in TLC's order.
    """
    reference = ENGINES["reference"]
    workers = None if options.workers == 1 else options.workers
    others = set(special_of(replace(options, workers=workers))) - set(reference.options)
    if engine != "tables" or options.search != "bfs" or others:
        return None
    result = reference.run(protocol, replace(options, workers=None))
    result.notes.append("a property reads what the VIEW leaves out: the reference engine searched, in TLC's order")
    return replace(result, engine="reference")


def _run(engine: str, protocol: Protocol, options: Options) -> Result:
    try:
        return ENGINES[engine].run(protocol, options)
    except RaisedError as error:
        if error.trace is not None:
            raise
        return _way_to(error, protocol, options)


def compiling(run: Callable[[], Result], compiles: Callable[[], object] | None = None) -> Result:
    """Run what uses a kernel; the time for which that is compiled is counted apart."""
    from kraftcheck.explorer.compiling import cache_problem, noted

    problem = cache_problem()
    with noted(compiles) as noting:
        result = run()
    warnings = [*result.warnings, *([problem] if problem and noting.seconds else [])]
    return replace(result, compile_seconds=noting.seconds, warnings=warnings)


def _is_compiled() -> bool:
    from kraftcheck.explorer.compiling import cache_problem

    cache_problem()
    from kraftcheck.explorer.tables.kernel.compiled import is_compiled

    return is_compiled()


def _way_to(error: RaisedError, protocol: Protocol, options: Options) -> Result:
    """Return what the table engine finds where another one met an error and does not know the way to it."""
    known = replace(options, search="bfs", time_limit=WAY_SECONDS, report=None, master=None, conf=())
    found = ENGINES["tables"].run(protocol, replace(known, checkpoint=None, resume=None, workers=None))
    if found.violations and found.violations[0].failed:
        found.notes.append("the way to the error was looked for by the engine tables: counts are of that search")
        return found
    raise error


def _tried(protocol: Protocol, options: Options) -> Result | None:
    """Return what the reference engine finds, where it can do what is asked and does it soon."""
    reference = ENGINES["reference"]
    if options.search not in reference.searches or not set(special_of(options)) <= set(reference.options):
        return None
    seconds = min(TRIAL_SECONDS, options.time_limit or TRIAL_SECONDS)
    tried = reference.run(protocol, replace(options, time_limit=seconds))
    if tried.limit == "time_limit" and seconds != options.time_limit:
        return None
    tried.notes.append("the table engine is not compiled here yet: the reference engine searched")
    return replace(tried, engine="reference")

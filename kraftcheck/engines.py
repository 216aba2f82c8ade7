"""The engines that can run a search, and which options each of them has."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from kraftcheck.explorer.request import OPTIONS, SearchRequest
from kraftcheck.explorer.tables import search_orders
from kraftcheck.spec.errors import InputError, RaisedError, unknown
from kraftcheck.spec.language.views import HiddenReadError

if TYPE_CHECKING:
    from kraftcheck.explorer.result import Result
    from kraftcheck.spec.language.protocol import Protocol

PATH_SECONDS = 60.0
"""How long the table engine may look for the path to an error that another engine met."""

TRIAL_SECONDS = 3.0
"""How long the reference engine may try a search before the kernel is compiled for it."""


class Engine(NamedTuple):
    """One way of running a search."""

    target: str  # where it is: `module:function`, with `(Protocol, SearchRequest) -> Result`, imported when it is used
    searches: tuple[str, ...]  # its search orders; the first is taken where the user names the engine and no order
    options: tuple[str, ...] = ()  # the command line's options that it has besides those that all have

    @property
    def words(self) -> set[str]:
        """Its options, and its search orders as the command line asks for them."""
        return {*self.options, *(f"--search {order}" for order in self.searches)}

    @property
    def run(self) -> Callable[[Protocol, SearchRequest], Result]:
        """The function that runs a search."""
        module, _, name = self.target.partition(":")
        function: Callable[[Protocol, SearchRequest], Result] = getattr(import_module(module), name)
        return function


def _engine(name: str, searches: tuple[str, ...], *more: str) -> Engine:
    own = (option.word for option in OPTIONS.values() if option.engines and name in option.engines)
    module = "reference" if name == "reference" else f"{name}.engine"
    return Engine(f"kraftcheck.explorer.{module}:explore", searches, (*own, *more))


ENGINES = {
    "tables": _engine("tables", search_orders()),
    "reference": _engine("reference", ("bfs", "dfs"), "--graph"),
    "symbolic": _engine("symbolic", ("saturation", "chaining", "bfs")),
    "spark": _engine("spark", ("bfs",)),
}
"""By name, the one to prefer first."""


def choose(name: str | None, search: str, options: Iterable[str] = ()) -> str:
    """Return the name of the engine to use."""
    if name is not None and name not in ENGINES:
        raise InputError(unknown("engine", name, ENGINES))
    wanted = (f"--search {search}", *options)
    able = {option: [known for known, engine in ENGINES.items() if option in engine.words] for option in wanted}
    fitting = [known for known in ENGINES if all(known in those for those in able.values())]
    if fitting and name in (None, *fitting):
        return name or fitting[0]
    raise InputError(_refusal(name, able))


def _refusal(name: str | None, able: dict[str, list[str]]) -> str:
    for option, those in able.items():
        if not those:
            return f"{option}: no engine can do this yet (there is {', '.join(ENGINES)})"
        if name is not None and name not in those:
            return f"{option}: the engine {name} cannot do this; expected --engine {' or '.join(sorted(those))}"
    return f"no engine can do all of this together: {', '.join(able)}"


def searches() -> list[str]:
    """Return the names of the search orders that some engine has."""
    return sorted({name for engine in ENGINES.values() for name in engine.searches})


def special(options: SearchRequest) -> list[str]:
    """Return the options that are asked for and that not every engine has, as the command line calls them."""
    asked = ((name, option) for name, option in OPTIONS.items() if option.engines)
    return [option.word for name, option in asked if getattr(options, name) != getattr(SearchRequest, name)]


def search(
    engine: str,
    protocol: Protocol,
    options: SearchRequest,
    *,
    is_named: bool = True,
    compiles: Callable[[], object] | None = None,
) -> Result:
    """Run a search; the result says which engine did.

    The table engine's kernel is compiled when it is used for the first time on a machine, which takes some ten seconds.
    So where the user named no engine and it is not compiled yet, the reference engine may try first: a small
    search it ends at once, with the same result.
    """
    if engine == "tables" and not is_named and not _is_compiled():
        tried = _soon_by_reference(protocol, options)
        if tried is not None:
            return tried
    run = partial(_run, engine, protocol, options)
    try:
        return replace(run() if engine == "reference" else compiling(run, compiles), engine=engine)
    except HiddenReadError:
        found = _first_by_reference(protocol, options) if engine == "tables" and options.search == "bfs" else None
        if found is None:
            raise
        return found


def _soon_by_reference(protocol: Protocol, options: SearchRequest) -> Result | None:
    soon = replace(options, time_limit=min(TRIAL_SECONDS, options.time_limit or TRIAL_SECONDS))
    note = "the table engine is not compiled here yet: the reference engine searched"
    found = _by_reference(protocol, soon, note)
    too_late = found is not None and found.limit == "time_limit" and soon.time_limit != options.time_limit
    return None if too_late else found


def _first_by_reference(protocol: Protocol, options: SearchRequest) -> Result | None:
    """Search where a property reads what the VIEW leaves out: the states that are found first count then."""
    note = "a property reads what the VIEW leaves out: the reference engine searched, in TLC's order"
    return _by_reference(protocol, replace(options, workers=None) if options.workers == 1 else options, note)


def _by_reference(protocol: Protocol, options: SearchRequest, note: str) -> Result | None:
    """Return what the reference engine finds, if it can do what is asked; a note says that it searched."""
    reference = ENGINES["reference"]
    if options.search not in reference.searches or not set(special(options)) <= set(reference.options):
        return None
    result = reference.run(protocol, options)
    result.notes.append(note)
    return replace(result, engine="reference")


def _run(engine: str, protocol: Protocol, options: SearchRequest) -> Result:
    try:
        return ENGINES[engine].run(protocol, options)
    except RaisedError as error:
        if error.trace is not None:
            raise
        return _path_to_error(error, protocol, options)


def compiling(run: Callable[[], Result], compiles: Callable[[], object] | None = None) -> Result:
    """Run what uses a kernel; the time for which that is compiled is counted apart."""
    from kraftcheck.explorer.compiling import cache_problem, timed_compilation

    problem = cache_problem()
    with timed_compilation(compiles) as noting:
        result = run()
    warnings = [*result.warnings, *([problem] if problem and noting.seconds else [])]
    return replace(result, compile_seconds=noting.seconds, warnings=warnings)


def _is_compiled() -> bool:
    from kraftcheck.explorer.compiling import is_compiled

    return is_compiled()


def _path_to_error(error: RaisedError, protocol: Protocol, options: SearchRequest) -> Result:
    """Return what the table engine finds where another one met an error and does not know the way to it."""
    known = replace(options, search="bfs", time_limit=PATH_SECONDS, report=None, master=None, conf=())
    found = ENGINES["tables"].run(protocol, replace(known, checkpoint=None, resume=None, workers=None))
    if found.violations and found.violations[0].failed:
        found.notes.append("the way to the error was looked for by the engine tables: counts are of that search")
        return found
    raise error

"""The engines that can run a search, and which options each of them has."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from spec.errors import InputError
from spec.names import unknown

if TYPE_CHECKING:
    from explorer.result import Options, Result
    from spec.protocol import Protocol


class Engine(NamedTuple):
    """One way of running a search.

    Attributes
    ----------
    target
        Where it is: `module:function`, with `(Protocol, Options) -> Result`. It is imported when it is used.
    searches
        The orders of search that it has.
    options
        The command line's options that it has besides those that all have.
    """

    target: str
    searches: tuple[str, ...]
    options: tuple[str, ...] = ()

    @property
    def run(self) -> Callable[[Protocol, Options], Result]:
        """The function that runs a search."""
        module, _, name = self.target.partition(":")
        function: Callable[[Protocol, Options], Result] = getattr(import_module(module), name)
        return function


ENGINES = {
    "reference": Engine("explorer.reference:explore", ("bfs", "dfs"), ("--check-actions", "--graph")),
}
"""By name, the one to prefer first."""


def choose(name: str | None, search: str, options: Iterable[str] = ()) -> str:
    """Return the name of the engine to use.

    Parameters
    ----------
    name
        The one that the user asks for, or None for the first that can do what is asked.
    search
        The order of search.
    options
        Options that not every engine has.

    Raises
    ------
    InputError
        Where the engine, or every one, lacks what is asked, naming those that have it.
    """
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

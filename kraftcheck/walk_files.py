r"""Random walks as the modules that TLC writes with `-simulate file=`: a behaviour each.

Source: what the current TLC writes. It names the action that leads to a state in a comment before it, with the place of
the action in the specification; ours has no such place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from explorer.result import TraceStep
from spec.tla_format import format_value
from spec.view import StateView


def walk_writer(view: StateView, folder: Path) -> Callable[[int, tuple[TraceStep, ...]], None]:
    """Return a function that writes a walk, given its number, to a file of its own in a folder.

    Parameters
    ----------
    view
        The protocol's states as TLA+ variables.
    folder
        Where the files go: `walk_0.tla` ...
    """

    def write(number: int, walk: tuple[TraceStep, ...]) -> None:
        name = f"walk_{number}"
        with (folder / f"{name}.tla").open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(as_module(view, name, walk))

    return write


def as_module(view: StateView, name: str, walk: tuple[TraceStep, ...]) -> Iterator[str]:
    """Yield the text of the module of a walk.

    Parameters
    ----------
    view
        The protocol's states as TLA+ variables.
    name
        The module's name.
    walk
        The states, with what led to each.
    """
    yield f"---------------- MODULE {name} -----------------\n"
    for number, step in enumerate(walk, start=1):
        yield f"\\* <{step.action or 'Initial predicate'}>\n"
        yield f"STATE_{number} == \n"
        for variable, value in view.variables(step.state).items():
            yield f"/\\ {variable} = {format_value(value)}\n"
        yield "\n\n"
    yield "=================================================\n"

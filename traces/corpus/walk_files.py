r"""Random walks as the modules that TLC writes with `-simulate file=`: a behaviour each.

Source: what the current TLC writes. It names the action that leads to a state in a comment before it, with the place of
the action in the specification; ours has no such place.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kraftcheck.explorer.result import TraceStep
from kraftcheck.files import replacing
from kraftcheck.spec.tla.formatting import format_value
from kraftcheck.spec.tla.view import StateView
from kraftcheck.spec.values import Value

MOST_TEXTS = 20_000
"""Values whose text is remembered."""


class WalkWriter:
    """Writes walks, each to a file of its own: `walk_0.tla` ...

    A file appears in one go, so that one that is there is whole.

    Parameters
    ----------
    view
        The protocol's states as TLA+ variables.
    folder
        Where the files go.
    """

    def __init__(self, view: StateView, folder: Path) -> None:
        self._view = view
        self._folder = folder
        self._texts: dict[tuple[str, type, Value], str] = {}

    def __call__(self, number: int, walk: tuple[TraceStep, ...]) -> None:
        """Write a walk, given its number."""
        path = walk_file(self._folder, number)
        with replacing(path) as new, new.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(self._module(path.stem, walk))

    def _module(self, name: str, walk: tuple[TraceStep, ...]) -> Iterator[str]:
        """Yield the text of the module of a walk."""
        yield f"---------------- MODULE {name} -----------------\n"
        for number, step in enumerate(walk, start=1):
            yield f"\\* <{step.action or 'Initial predicate'}>\n"
            yield f"STATE_{number} == \n"
            for variable, value in self._view.variables(step.state).items():
                yield f"/\\ {variable} = {self._text(variable, value)}\n"
            yield "\n\n"
        yield "=================================================\n"

    def _text(self, variable: str, value: Value) -> str:
        keyed = variable, type(value), value  # 1 and TRUE are equal keys
        found = self._texts.get(keyed)
        if found is None:
            if len(self._texts) >= MOST_TEXTS:
                self._texts.clear()
            found = self._texts[keyed] = format_value(value)
        return found


def walk_file(folder: Path, number: int) -> Path:
    """Return the file of a walk."""
    return folder / f"walk_{number}.tla"

"""Files of random walks, as TLC writes them with `-simulate file=`: a behaviour each."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from kraftcheck.explorer.result import TraceStep
from kraftcheck.files import replacing
from kraftcheck.spec.tla.formatting import format_value
from kraftcheck.spec.tla.view import StateView
from kraftcheck.spec.values import Value
from kraftcheck.traces.formats.tlc_simulation import as_module

MOST_TEXTS = 20_000
"""Values whose text is remembered."""


class WalkWriter:
    """Writes walks, each to a file of its own: `walk_0.tla` ...

    A file appears in one go, so that one that is there is whole.
    """

    def __init__(self, view: StateView, folder: Path) -> None:
        self._view = view
        self._folder = folder

    def __call__(self, number: int, walk: tuple[TraceStep, ...]) -> None:
        """Write a walk, given its number."""
        path = walk_file(self._folder, number)
        with replacing(path) as new, new.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(as_module(path.stem, map(self._step, walk)))

    def _step(self, step: TraceStep) -> tuple[str | None, dict[str, str]]:
        variables = self._view.variables(step.state)
        return step.action, {name: _text(name, value) for name, value in variables.items()}


@lru_cache(maxsize=MOST_TEXTS, typed=True)  # 1 and TRUE are equal keys
def _text(variable: str, value: Value) -> str:
    """Return the text of a value; that of another variable may be equal to it and yet have TRUE for 1 in it."""
    return format_value(value)


def walk_file(folder: Path, number: int) -> Path:
    """Return the file of a walk."""
    return folder / f"walk_{number}.tla"

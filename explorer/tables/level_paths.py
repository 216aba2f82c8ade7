"""Behaviours to the states of a breadth-first search, found by searching each level for predecessors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from kraftcheck.explorer.behaviour import Behaviour, NoSuchPathError, behaviour_along
from kraftcheck.explorer.identity import identity_of
from kraftcheck.explorer.result import Options
from kraftcheck.explorer.tables.checker import Checker
from kraftcheck.explorer.tables.expander import Expander
from kraftcheck.explorer.tables.least import LeastStates
from kraftcheck.explorer.tables.states.levels import Levels
from kraftcheck.explorer.tables.states.packing import Rows


class LevelPaths:
    """Finds shortest behaviours to states."""

    def __init__(
        self, expander: Expander, levels: Levels, checker: Checker, least: LeastStates, options: Options
    ) -> None:
        self._expander, self._levels, self._checker = expander, levels, checker
        self._least, self._options = least, options

    def to(self, row: Any, level: int) -> Behaviour:
        """Return a behaviour to a state of a level; the first is 1."""
        return self.to_row(self._expander.unflattened(np.asarray(row)[None])[0], level)

    def to_row(self, row: Any, level: int) -> Behaviour:
        """Do the same, given a state with a control row."""
        with self._expander.with_control_rows():
            return self._checker.behaviour(self._path(row, level, lambda target: target))

    def to_orbit(self, row: Any, level: int) -> Behaviour | None:
        """Return a behaviour to the orbit of a state that breaks something: which state stands for it says nothing.

        Returns None where there is no symmetry, or it is none: the sets named are not alike in what is violated.
        """
        expander, symmetry = self._expander, self._options.symmetry
        if symmetry is None or self._options.view is not None:
            return None
        class_of = identity_of(expander.learner.protocol, symmetry, None)
        with expander.with_control_rows():
            path = self._path(row, level, expander.images)
            classes = [class_of(expander.learner.decode_state(one)) for one in path]
        try:
            found = behaviour_along(
                self._checker.semantics, classes, starts=self._checker.starts, class_of=class_of
            )
        except NoSuchPathError:
            return None
        with expander.with_control_rows():
            image, violated = expander.encode([found[-1].state])[0], self._checker.books.violated
        return found if self._least.events_of(image, violated) == self._least.events_of(row, violated) else None

    def _path(self, row: Any, level: int, targets: Callable[[Rows], Rows]) -> list[Any]:
        """Return states of each level up to a state, each the least that leads to one of the targets for the next."""
        path = [np.asarray(row)]
        for before in range(level - 1, 0, -1):
            wanted = targets(path[-1][None])
            found = self._least.of_level(before, partial(self._expander.predecessor, targets=wanted))
            if found is None:
                raise AssertionError("a visited state has no predecessor in the level before")
            path.append(found)
        return path[::-1]

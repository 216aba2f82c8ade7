"""Saves and restores a breadth-first search."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from kraftcheck.explorer.checkpoints.search_identity import identity_of_search, model_values_of
from kraftcheck.explorer.checkpoints.shapes import require_shape
from kraftcheck.explorer.checkpoints.traces import decode_trace, encode_trace, require_violations, value_of
from kraftcheck.explorer.result import Options, Violation
from kraftcheck.explorer.tables.checkpoints import interned_values
from kraftcheck.explorer.tables.checkpoints.folder import STATES, Checkpoint, Noted
from kraftcheck.explorer.tables.checkpoints.interned_values import FILES, InternedValues
from kraftcheck.explorer.tables.checkpoints.requirements import require, require_bytes
from kraftcheck.explorer.tables.learning.learner import Learner
from kraftcheck.explorer.tables.states.files import GrowingFile
from kraftcheck.explorer.tables.states.levels import ID_BYTES
from kraftcheck.spec.diagnosis import vacuity
from kraftcheck.spec.discovery import reachable_classes
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.state import State

SHAPE = {
    "levels": [[(int, int)]],
    "position": int,
    "actions": {str: int},
    "seconds": float,
    "violations": [(str, str)],
    "ids": interned_values.SHAPE,
    "watched": dict,
}
"""The form of what a manifest notes: see `require_shape`."""


class Snapshot(NamedTuple):
    """A search between two batches, without what the files of states and of interned values hold."""

    # for each level how many rows of which width it has in the file of states, one stretch after the other
    levels: list[list[tuple[int, int]]]
    position: int  # how many states of the last level but one are expanded
    actions: dict[str, int]  # times each action fired
    seconds: float  # time it took
    violations: list[Violation]  # what is violated


class SearchCheckpoint:
    """Saves snapshots of a search in a folder, and restores the last."""

    def __init__(
        self, folder: Path, protocol: Protocol, options: Options, learner: Learner, starts: Sequence[State]
    ) -> None:
        resume = options.resume is not None
        identity = identity_of_search(protocol, options)
        self._folder = Checkpoint(folder, identity, resume=resume, names=(STATES, *FILES))
        self._learner = learner
        self._starts = starts
        self._protocol, self._options = protocol, options
        classes, model_values = reachable_classes(protocol, starts), model_values_of(protocol)
        self._values = InternedValues(learner.interner, self._folder.files, classes, model_values)
        self._every = options.checkpoint_every
        self._last = time.monotonic()

    @property
    def states(self) -> GrowingFile:
        """The file of states."""
        return self._folder.files[STATES]

    def is_due(self) -> bool:
        """Return whether it is time for a checkpoint."""
        return time.monotonic() - self._last >= self._every

    def save(self, snapshot: Snapshot, *, finished: bool = False) -> None:
        """Write a checkpoint."""
        for violation in snapshot.violations:
            self._values.note(value_of(violation.trace))
        violations = [(violation.property, encode_trace(violation.trace)) for violation in snapshot.violations]
        noted = {**snapshot._asdict(), "violations": violations, "ids": self._values.save()}
        noted["watched"] = vacuity.noted(self._protocol)
        self._folder.write(noted, finished=finished)
        self._last = time.monotonic()

    def restore(self) -> Snapshot:
        """Give a learner that knows nothing yet the ids of the checkpoint; return the search as it stood."""
        noted = dict(self._folder.noted)
        self._learner.interner.shape(type(self._starts[0].shared))
        with self._folder.judging():
            require_shape(noted, SHAPE)
            vacuity.restore(self._protocol, noted.pop("watched"))
            self._values.load(noted.pop("ids"))
            self._require_levels(noted)
            require(noted["actions"].keys() == {*self._learner.action_names}, "it has counts of other actions")
            lexicon = self._values.lexicon
            noted["violations"] = [Violation(name, decode_trace(text, lexicon)) for name, text in noted["violations"]]
            require_violations(self._protocol, self._options, self._starts, noted["violations"])
        return Snapshot(**noted)

    def _require_levels(self, noted: Noted) -> None:
        levels, most = noted["levels"], self._learner.interner.width
        counts = [sum(rows for rows, _ in level) for level in levels]
        require(levels and all(counts[:-1]), "there are no levels, or one but the last is empty")
        shapes = [shape for level in levels for shape in level]
        require(all(rows > 0 and 0 < columns <= most for rows, columns in shapes), "states of a wrong width")
        require_bytes(STATES, self.states.length, sum(rows * columns * ID_BYTES for rows, columns in shapes))
        before = counts[-2] if len(counts) > 1 else 0
        require(noted["position"] <= before, f"{noted['position']} of {before} states are expanded")

    def judging(self) -> AbstractContextManager[None]:
        """Within this, what is found out about the states is an error that names the folder."""
        return self._folder.judging()

    def finish(self) -> None:
        """Note that the search is over, although it stopped in the middle of a batch."""
        self._folder.finish()

    def close(self) -> None:
        """Let other processes have the folder."""
        self._folder.close()

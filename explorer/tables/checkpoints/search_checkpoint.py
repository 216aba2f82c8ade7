"""Saves and restores a breadth-first search."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kraftcheck.explorer.checkpoints.search_identity import identity_of_search
from kraftcheck.explorer.checkpoints.traces import decode_trace, encode_trace, value_of
from kraftcheck.explorer.result import Options, Violation
from kraftcheck.explorer.tables.checkpoints.folder import STATES, Checkpoint
from kraftcheck.explorer.tables.checkpoints.interned_values import FILES, InternedValues
from kraftcheck.explorer.tables.learning.learner import Learner
from kraftcheck.explorer.tables.states.files import Damaged, GrowingFile
from kraftcheck.explorer.tables.states.levels import ID_BYTES
from kraftcheck.spec.decoding import DecodingError
from kraftcheck.spec.diagnosis import vacuity
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.state import State
from kraftcheck.spec.loading.classes import reachable_classes


class Snapshot(NamedTuple):
    """A search between two batches, without what the files of states and of interned values hold.

    Attributes
    ----------
    levels
        For each level how many rows of which width it has in the file of states, one stretch after the other.
    position
        How many states of the last level but one are expanded.
    actions
        Times each action fired.
    seconds
        Time it took.
    violations
        What is violated.
    """

    levels: list[list[tuple[int, int]]]
    position: int
    actions: dict[str, int]
    seconds: float
    violations: list[Violation]


class SearchCheckpoint:
    """Saves snapshots of a search in a folder, and restores the last.

    Parameters
    ----------
    folder
        The folder.
    protocol, options
        What is searched.
    learner
        The learner whose ids the states are made of.
    starts
        The initial states.

    Attributes
    ----------
    states
        The file of states, which the search appends to.

    Raises
    ------
    InputError
        As `kraftcheck.explorer.tables.checkpoints.folder.Checkpoint`.
    """

    def __init__(
        self, folder: Path, protocol: Protocol, options: Options, learner: Learner, starts: Sequence[State]
    ) -> None:
        resume = options.resume is not None
        identity = identity_of_search(protocol, options)
        self._folder = Checkpoint(folder, identity, resume=resume, names=(STATES, *FILES))
        self._protocol = protocol
        self._learner = learner
        self._starts = starts
        self._values = InternedValues(learner.interner, self._folder.files, reachable_classes(protocol, starts))
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
        """Write a checkpoint.

        Parameters
        ----------
        snapshot
            The search as it stands.
        finished
            Whether it is over.
        """
        for violation in snapshot.violations:
            self._values.note(value_of(violation.trace))
        violations = [(violation.property, encode_trace(violation.trace)) for violation in snapshot.violations]
        noted = {**snapshot._asdict(), "violations": violations, "ids": self._values.save()}
        noted["watched"] = vacuity.noted(self._protocol)
        self._folder.write(noted, finished=finished)
        self._last = time.monotonic()

    def restore(self) -> Snapshot:
        """Give a learner that knows nothing yet the ids of the checkpoint; return the search as it stood.

        Raises
        ------
        InputError
            Where the checkpoint does not fit together.
        """
        noted = dict(self._folder.noted)
        vacuity.restore(self._protocol, noted.pop("watched", None))
        self._learner.interner.shape(type(self._starts[0].shared))
        try:
            self._values.load(noted.pop("ids"))
            length = sum(rows * columns * ID_BYTES for level in noted["levels"] for rows, columns in level)
            if length != self.states.length:
                raise Damaged(f"the levels take {length} bytes")
            lexicon = self._values.lexicon
            noted["violations"] = [Violation(name, decode_trace(text, lexicon)) for name, text in noted["violations"]]
        except (Damaged, DecodingError) as error:
            raise self._folder.damaged(str(error)) from None
        except InputError as error:
            raise self._folder.error(f"the checkpoint is of another search: {error}") from None
        return Snapshot(**noted)

    def require_states(self, expected: int, found: int) -> None:
        """Raise InputError where the file of states has another number of different states than expected."""
        if found != expected:
            raise self._folder.damaged(f"expected {expected} states, found {found}")

    def finish(self) -> None:
        """Note that the search is over, although it stopped in the middle of a batch."""
        self._folder.finish()

    def close(self) -> None:
        """Let other processes have the folder."""
        self._folder.close()

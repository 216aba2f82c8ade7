"""The shared folder as a checkpoint: after each level a manifest says which of its files count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from kraftcheck.explorer.checkpoints.search_identity import identity_of_search
from kraftcheck.explorer.checkpoints.shapes import Damaged, require_shape
from kraftcheck.explorer.checkpoints.traces import decode_trace, encode_trace, require_violations
from kraftcheck.explorer.result import Options, Violation
from kraftcheck.explorer.spark.journal import Journal
from kraftcheck.explorer.spark.shared_folder import SharedFolder
from kraftcheck.explorer.tables.checkpoints.folder import Checkpoint, folder_of
from kraftcheck.explorer.tables.checkpoints.requirements import require
from kraftcheck.files import TemporaryFolder
from kraftcheck.spec.encoding import Lexicon
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.language.starts import initial_states

SHAPE = {
    "parts": int,
    "levels": [[(int, int)]],
    "named": [int],
    "actions": {str: int},
    "calls": {str: int},
    "seconds": float,
    "violations": [(str, str)],
    "figures": [dict],
}
"""The form of what a manifest notes: see `require_shape`."""


class SparkCheckpoint:
    """Saves and restores a search in the shared folder."""

    def __init__(self, protocol: Protocol, options: Options) -> None:
        folder = folder_of(options)
        self.temporary: TemporaryFolder | None = None
        if folder is None:
            self.temporary = TemporaryFolder()
            folder = self.temporary.path / "checkpoint"
        self.folder = folder
        identity = {**identity_of_search(protocol, options), "engine": "spark"}
        resume = options.resume is not None
        self._manifest = Checkpoint(self.folder, identity, resume=resume)
        self.shared = SharedFolder(self.folder)
        self._protocol, self._options = protocol, options
        self._starts = initial_states(Semantics(protocol), options.init)
        self._names = [*protocol.actions, *protocol.network.own_actions()]

    def save(self, journal: Journal, *, finished: bool) -> None:
        """Make the levels found so far the checkpoint."""
        noted = vars(journal) | {
            "levels": [sorted(parts.items()) for parts in journal.levels],
            "violations": [(violation.property, encode_trace(violation.trace)) for violation in journal.violations],
        }
        self._manifest.write(noted, finished=finished)

    def restore(self, load: Callable[[list[int]], None], lexicon: Lexicon) -> Journal:
        """Return what the search had found; remove what the folder holds beyond that."""
        noted = self._manifest.noted
        with self._manifest.judging():
            require_shape(noted, SHAPE)
            levels = [dict(map(tuple, parts)) for parts in noted["levels"]]
            require(levels and all(levels[:-1]), "there are no levels, or one but the last is empty")
            require(set(noted["named"]) <= {*range(1, len(levels) + 1)}, "ids of other levels")
            require(noted["actions"].keys() == {*self._names}, "it has counts of other actions")
            self.shared.clear(after=len(levels))
            for level, parts in enumerate(levels, start=1):
                for part, rows in parts.items():
                    found = self.shared.count(level, part)
                    problem = f"level {level}, partition {part}: expected {rows} states, found {found}"
                    require(0 < rows == found and part < noted["parts"], problem)
            try:
                load(noted["named"])
            except (Damaged, InputError, MemoryError):
                raise
            except Exception as error:  # from Arrow, or from functions of the protocol
                raise Damaged(f"a definition of another form: {type(error).__name__}: {error}") from None
            violations = [Violation(name, decode_trace(trace, lexicon)) for name, trace in noted["violations"]]
            require_violations(self._protocol, self._options, self._starts, violations)
        tallies: Any = {name: Counter(noted[name]) for name in ("actions", "calls")}
        return Journal(**{**noted, **tallies, "levels": levels, "violations": violations})

    def judging(self) -> AbstractContextManager[None]:
        """Within this, what is found out about the states is an error that names the folder."""
        return self._manifest.judging()

    def close(self) -> None:
        """Let other processes have the folder; remove a temporary one."""
        self._manifest.close()
        if self.temporary is not None:
            self.temporary.close()

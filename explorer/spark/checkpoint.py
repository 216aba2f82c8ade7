"""The shared folder as a checkpoint: after each level a manifest says which of its files count."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from kraftcheck.explorer.checkpoints.search_identity import identity_of_search
from kraftcheck.explorer.checkpoints.traces import decode_trace, encode_trace
from kraftcheck.explorer.result import Options, Violation
from kraftcheck.explorer.spark.journal import Journal
from kraftcheck.explorer.spark.shared_folder import SharedFolder
from kraftcheck.explorer.tables.checkpoints.folder import Checkpoint, folder_of
from kraftcheck.spec.decoding import DecodingError, Lexicon
from kraftcheck.spec.language.protocol import Protocol


class SparkCheckpoint:
    """Saves and restores a search in the shared folder.

    Parameters
    ----------
    protocol, options
        The search; its options name the folder. Without one, a temporary folder is made.

    Raises
    ------
    InputError
        As `kraftcheck.explorer.tables.checkpoints.folder.Checkpoint`.
    """

    def __init__(self, protocol: Protocol, options: Options) -> None:
        folder = folder_of(options)
        self.temporary = folder is None
        self.folder = Path(mkdtemp(prefix="kraftcheck-")) if folder is None else folder
        identity = {**identity_of_search(protocol, options), "engine": "spark"}
        resume = options.resume is not None
        self._manifest = Checkpoint(self.folder, identity, resume=resume)
        if resume and "parts" not in self._manifest.noted:
            self._manifest.close()
            raise self._manifest.error("the checkpoint is of another engine; expected --engine tables")
        self.shared = SharedFolder(self.folder)

    def save(self, journal: Journal, *, finished: bool) -> None:
        """Make the levels found so far the checkpoint.

        Parameters
        ----------
        journal
            What the search has found.
        finished
            Whether it is over.
        """
        noted = vars(journal) | {
            "levels": [sorted(parts.items()) for parts in journal.levels],
            "violations": [(violation.property, encode_trace(violation.trace)) for violation in journal.violations],
        }
        self._manifest.write(noted, finished=finished)

    def restore(self, load: Callable[[list[int]], None], lexicon: Lexicon) -> Journal:
        """Return what the search had found; remove what the folder holds beyond that.

        Parameters
        ----------
        load
            Loads the definitions of levels.
        lexicon
            The classes and model values that these definitions name; known once they are loaded.

        Raises
        ------
        InputError
            Where something is missing or damaged.
        """
        noted = self._manifest.noted
        levels = [dict(map(tuple, parts)) for parts in noted["levels"]]
        self.shared.clear(after=len(levels))
        for level, parts in enumerate(levels, start=1):
            for part, rows in parts.items():
                found = self.shared.count(level, part)
                if found != rows:
                    problem = f"level {level}, partition {part}: expected {rows} states, found {found}"
                    raise self._manifest.damaged(problem)
        try:
            load(noted["named"])
            violations = [Violation(name, decode_trace(trace, lexicon)) for name, trace in noted["violations"]]
        except (OSError, DecodingError) as error:
            raise self._manifest.damaged(str(error)) from None
        tallies: Any = {name: Counter(noted[name]) for name in ("actions", "calls")}
        return Journal(**{**noted, **tallies, "levels": levels, "violations": violations})

    def close(self) -> None:
        """Let other processes have the folder; remove a temporary one."""
        self._manifest.close()
        if self.temporary:
            shutil.rmtree(self.folder, ignore_errors=True)

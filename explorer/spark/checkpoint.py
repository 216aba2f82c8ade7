"""The shared folder as a checkpoint: after each level a manifest says which of its files count."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from tempfile import mkdtemp

from kraftcheck.explorer.result import Options, Violation
from kraftcheck.explorer.spark.global_ids import GlobalIds
from kraftcheck.explorer.spark.id_assigner import IdAssigner
from kraftcheck.explorer.spark.journal import Journal
from kraftcheck.explorer.spark.shared_folder import SharedFolder
from kraftcheck.explorer.tables.checkpoints.folder import Checkpoint, folder_of
from kraftcheck.explorer.tables.checkpoints.search_identity import identity_of_search
from kraftcheck.explorer.tables.checkpoints.traces import decode_trace, encode_trace
from kraftcheck.spec.decoding import DecodingError
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.protocol import Protocol

ENGINE = "spark"


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
        place = folder_of(options)
        self.temporary = place is None
        self.folder = Path(mkdtemp(prefix="kraftcheck-")) if place is None else place
        identity = {**identity_of_search(protocol, options), "engine": ENGINE}
        resume = options.resume is not None
        self.manifest = Checkpoint(self.folder, identity, resume=resume)
        if resume and "parts" not in self.manifest.noted:
            self.manifest.close()
            raise InputError(f"--resume {self.folder}: the checkpoint is of another engine; expected --engine tables")
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
        noted = {
            "parts": journal.parts,
            "levels": [sorted(parts.items()) for parts in journal.levels],
            "named": journal.defined,
            "actions": journal.actions,
            "calls": journal.calls,
            "seconds": journal.seconds,
            "violations": [(violation.property, encode_trace(violation.trace)) for violation in journal.violations],
            "figures": journal.figures,
        }
        self.manifest.write(noted, finished=finished)

    def restore(self, ids: GlobalIds, assigner: IdAssigner) -> Journal:
        """Return what the search had found; remove what the folder holds beyond that.

        Parameters
        ----------
        ids, assigner
            Those of a search that has begun. They get the definitions of the levels.

        Raises
        ------
        InputError
            Where something is missing or damaged.
        """
        noted = self.manifest.noted
        levels = [dict(map(tuple, parts)) for parts in noted["levels"]]
        self.shared.clear(after=len(levels))
        for level, parts in enumerate(levels, start=1):
            for part, rows in parts.items():
                found = self.shared.count(level, part)
                if found != rows:
                    problem = f"level {level}, partition {part}: expected {rows} states, found {found}"
                    raise self.manifest.damaged(problem)
        try:
            for level in noted["named"]:
                definitions = list(self.shared.read_definitions(level))
                ids.load(definitions)
                assigner.load(definitions)
            violations = [Violation(name, decode_trace(trace, ids.lexicon)) for name, trace in noted["violations"]]
        except (OSError, DecodingError) as error:
            raise self.manifest.damaged(str(error)) from None
        return Journal(
            noted["parts"], levels, noted["named"], noted["actions"], Counter(noted["calls"]), noted["seconds"],
            violations, noted["figures"],
        )  # fmt: skip

    def close(self) -> None:
        """Let other processes have the folder; remove a temporary one."""
        self.manifest.close()
        if self.temporary:
            shutil.rmtree(self.folder, ignore_errors=True)

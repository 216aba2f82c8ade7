"""The shared folder as a checkpoint: after each level a manifest says which of its files count."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from kraftcheck.explorer.result import Options, TraceStep, Violation
from kraftcheck.explorer.spark.global_ids import GlobalIds
from kraftcheck.explorer.spark.id_assigner import IdAssigner
from kraftcheck.explorer.spark.journal import Journal
from kraftcheck.explorer.spark.shared_folder import SharedFolder
from kraftcheck.explorer.tables.checkpoints.folder import Checkpoint
from kraftcheck.explorer.tables.checkpoints.search_identity import identity_of_search
from kraftcheck.spec.decoding import DecodingError, Lexicon, decode
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.values import Value, encode

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
        resume = options.resume
        if resume is not None and options.checkpoint not in (None, resume):
            raise InputError(
                f"--checkpoint {options.checkpoint}: a search that is resumed keeps its checkpoint where it is; "
                f"leave this out, or copy {resume}"
            )
        place = options.checkpoint if resume is None else resume
        self.temporary = place is None
        self.folder = Path(mkdtemp(prefix="kraftcheck-")) if place is None else Path(place)
        identity = {**identity_of_search(protocol, options), "engine": ENGINE}
        self.manifest = Checkpoint(self.folder, identity, resume=resume is not None, names=())
        if resume is not None and "parts" not in self.manifest.noted:
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
            "violations": [(violation.property, _encoded(violation.trace)) for violation in journal.violations],
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
                    raise self._damaged(f"level {level}, partition {part}: expected {rows} states, found {found}")
        try:
            for level in noted["named"]:
                definitions = list(self.shared.read_definitions(level))
                ids.load(definitions)
                assigner.load(definitions)
            violations = [Violation(name, _decoded(trace, ids.lexicon)) for name, trace in noted["violations"]]
        except (OSError, DecodingError) as error:
            raise self._damaged(str(error)) from None
        return Journal(
            noted["parts"], levels, noted["named"], noted["actions"], Counter(noted["calls"]), noted["seconds"],
            violations, noted["figures"],
        )  # fmt: skip

    def _damaged(self, problem: str) -> InputError:
        return InputError(f"--resume {self.folder}: the checkpoint is damaged: {problem}")

    def close(self) -> None:
        """Let other processes have the folder; remove a temporary one."""
        self.manifest.close()
        if self.temporary:
            shutil.rmtree(self.folder, ignore_errors=True)


def _encoded(trace: tuple[TraceStep, ...]) -> str:
    value = tuple((step.state, *map(_optional, (step.action, step.actor, step.message))) for step in trace)
    return encode(value).hex()


def _optional(value: Any) -> Value:
    return () if value is None else (value,)


def _decoded(data: str, lexicon: Lexicon) -> tuple[TraceStep, ...]:
    steps: Any = decode(bytes.fromhex(data), lexicon)
    return tuple(TraceStep(state, *(part[0] if part else None for part in rest)) for state, *rest in steps)

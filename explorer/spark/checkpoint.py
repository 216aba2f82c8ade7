"""The shared folder as a checkpoint: after each level a manifest says what of it counts."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from kraftcheck.explorer.result import Options, TraceStep, Violation
from kraftcheck.explorer.spark.shared_folder import Shared
from kraftcheck.explorer.tables.checkpoints.folder import Checkpoint
from kraftcheck.explorer.tables.checkpoints.search_identity import identity_of_search
from kraftcheck.spec.decoding import DecodingError, decode
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.values import Value, encode

if TYPE_CHECKING:
    from kraftcheck.explorer.spark.engine import SparkSearch

ENGINE = "spark"


class Keeper:
    """Holds the shared folder for one search.

    Parameters
    ----------
    protocol, options
        The search; its options name the folder. Without one, a temporary folder is taken.

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
        self.checkpoint = Checkpoint(self.folder, identity, resume=resume is not None, names=())
        if resume is not None and "parts" not in self.checkpoint.noted:
            self.checkpoint.close()
            raise InputError(f"--resume {self.folder}: the checkpoint is of another engine; expected --engine tables")
        self.shared = Shared(self.folder)

    def save(self, search: SparkSearch, *, finished: bool) -> None:
        """Make the levels found so far the checkpoint."""
        search.tally()
        noted = {
            "parts": search.parts,
            "levels": [sorted(parts.items()) for parts in search.levels],
            "named": search.named,
            "actions": search.result.actions,
            "calls": dict(search.calls),
            "seconds": search.result.seconds,
            "violations": [(v.property, self._encoded(search, v.trace)) for v in search.result.violations],
            "figures": search.figures,
        }
        self.checkpoint.write(noted, finished=finished)

    def _encoded(self, search: SparkSearch, trace: tuple[TraceStep, ...]) -> str:
        value = tuple((step.state, *map(_optional, (step.action, step.actor, step.message))) for step in trace)
        return encode(value).hex()

    def restore(self, search: SparkSearch) -> None:
        """Give a search that has begun what the checkpoint holds; what is beyond it is removed.

        Raises
        ------
        InputError
            Where something is missing.
        """
        noted = self.checkpoint.noted
        levels = [dict(map(tuple, parts)) for parts in noted["levels"]]
        self.shared.clear(after=len(levels))
        for level, parts in enumerate(levels, start=1):
            for part, rows in parts.items():
                found = self.shared.count(level, part)
                if found != rows:
                    raise self._damaged(f"level {level}, partition {part}: expected {rows} states, found {found}")
        try:
            for level in noted["named"]:
                definitions = list(self.shared.read_names(level))
                search.names.load(definitions)
                search.registry.take(definitions)
            violations = [Violation(name, self._decoded(search, trace)) for name, trace in noted["violations"]]
        except (OSError, DecodingError) as error:
            raise self._damaged(str(error)) from None
        search.parts, search.levels, search.named = noted["parts"], levels, noted["named"]
        search.figures, search.earlier = noted["figures"], noted["seconds"]
        search.calls.update(noted["calls"])
        search.result.violations = violations
        search.violated = {violation.property for violation in violations}
        for name, times in noted["actions"].items():
            search.pool[0].fired[search.learner.action_index[name]] = times

    def _damaged(self, problem: str) -> InputError:
        return InputError(f"--resume {self.folder}: the checkpoint is damaged: {problem}")

    def _decoded(self, search: SparkSearch, data: str) -> tuple[TraceStep, ...]:
        steps: Any = decode(bytes.fromhex(data), search.names.lexicon)
        return tuple(TraceStep(state, *(part[0] if part else None for part in rest)) for state, *rest in steps)

    def close(self) -> None:
        """Let other processes have the folder; a temporary one is removed."""
        self.checkpoint.close()
        if self.temporary:
            shutil.rmtree(self.folder, ignore_errors=True)


def _optional(value: Any) -> Value:
    return () if value is None else (value,)

"""What of a breadth-first search a checkpoint holds, and how a search goes on from it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from kraftcheck.explorer.result import DEADLOCK, TraceStep, Violation
from kraftcheck.explorer.tables.checkpoints.folder import STATES, Checkpoint
from kraftcheck.explorer.tables.checkpoints.interned_values import Dictionary
from kraftcheck.explorer.tables.checkpoints.search_identity import identity_of_search
from kraftcheck.explorer.tables.kernel.layout import S_DEADLOCK, S_SEEN, S_STEP_SEEN
from kraftcheck.explorer.tables.states.files import Damaged
from kraftcheck.explorer.tables.states.levels import Levels
from kraftcheck.spec.decoding import DecodingError, decode
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.starts import initial_states
from kraftcheck.spec.loading.classes import reachable_classes
from kraftcheck.spec.values import Value, encode

if TYPE_CHECKING:
    from kraftcheck.explorer.tables.searches.breadth_first import BreadthFirst


class Keeper:
    """Keeps the checkpoint of a search, and takes a search up from it.

    Parameters
    ----------
    search
        The search; its options name the folder.

    Raises
    ------
    InputError
        As `kraftcheck.explorer.tables.checkpoints.folder.Checkpoint`.
    """

    def __init__(self, search: BreadthFirst) -> None:
        options, resume = search.options, search.options.resume
        if resume is not None and options.checkpoint not in (None, resume):
            raise InputError(
                f"--checkpoint {options.checkpoint}: a search that is resumed keeps its checkpoint where it is; "
                f"leave this out, or copy {resume}"
            )
        assert search.folder is not None
        self.search = search
        self.folder = search.folder
        self.checkpoint = Checkpoint(
            self.folder, identity_of_search(search.protocol, options), resume=resume is not None
        )
        self._starts = initial_states(search.semantics, options.init)
        classes = reachable_classes(search.protocol, self._starts)
        self._dictionary = Dictionary(search.learner, self.checkpoint.files, classes)
        search.levels = Levels(search.budget.rows, self.checkpoint.files[STATES])
        self._last = time.monotonic()

    def is_due(self) -> bool:
        """Whether it is time for a checkpoint."""
        return time.monotonic() - self._last >= self.search.options.checkpoint_every

    def save(self, *, finished: bool = False) -> None:
        """Write a checkpoint of a search that stands between two batches, with no candidates.

        Parameters
        ----------
        finished
            Whether the search is over.
        """
        search = self.search
        search.tally()
        search.levels.flush()
        violations = [(violation.property, self._encoded(violation.trace)) for violation in search.result.violations]
        noted = {
            "levels": search.levels.runs,
            "position": search.position,
            "actions": search.result.actions,
            "seconds": search.result.seconds,
            "violations": violations,
            "ids": self._dictionary.save(),
        }
        self.checkpoint.write(noted, finished=finished)
        self._last = time.monotonic()

    def _encoded(self, trace: tuple[TraceStep, ...]) -> str:
        value = tuple((step.state, *map(_optional, (step.action, step.actor, step.message))) for step in trace)
        self._dictionary.note(value)
        return encode(value).hex()

    def restore(self) -> None:
        """Give a new search what the checkpoint holds; the visited set is made anew from the levels.

        Raises
        ------
        InputError
            Where it does not fit together.
        """
        search, noted = self.search, self.checkpoint.noted
        search.learner.shape(type(self._starts[0].shared))
        try:
            self._dictionary.load(noted["ids"])
            length = search.levels.restore(noted["levels"])
            if length != self.checkpoint.files[STATES].length:
                raise Damaged(f"the levels take {length} bytes")
            violations = [Violation(name, self._decoded(trace)) for name, trace in noted["violations"]]
        except (Damaged, DecodingError) as error:
            raise InputError(f"--resume {self.folder}: the checkpoint is damaged: {error}") from None
        except InputError as error:
            raise InputError(f"--resume {self.folder}: the checkpoint is of another search: {error}") from None
        search.position = noted["position"]
        search.starts, search.initial_count = self._starts, len(self._starts)
        search.earlier = noted["seconds"]
        search.result.depth = max(search.levels.depth - 1, 1)
        search.result.violations = violations
        search.violated = {violation.property for violation in violations}
        for name, times in noted["actions"].items():
            search.pool[0].fired[search.learner.action_index[name]] = times
        self._note_violated()

    def _decoded(self, data: str) -> tuple[TraceStep, ...]:
        steps = decode(bytes.fromhex(data), self._dictionary.lexicon)
        return tuple(TraceStep(state, *(part[0] if part else None for part in rest)) for state, *rest in steps)

    def _note_violated(self) -> None:
        """Tell the kernel which properties it need not report again."""
        search, learner = self.search, self.search.learner
        for place, properties in (
            (S_SEEN, learner.in_order),
            (S_STEP_SEEN, learner.step_judged),
        ):
            seen = sum(1 << bit for bit, prop in enumerate(properties) if prop.name in search.violated)
            for worker in search.pool:
                worker.stats[place] = seen
        for worker in search.pool:
            worker.stats[S_DEADLOCK] = int(DEADLOCK in search.violated)

    def check_distinct(self, found: int) -> None:
        """Raise InputError where the levels do not hold so many different states."""
        expected = sum(self.search.levels.counts)
        if found != expected:
            raise InputError(
                f"--resume {self.folder}: the checkpoint is damaged: expected {expected} states, found {found}"
            )

    def finish(self) -> None:
        """Note that the search is over, although it stopped in the middle of a batch."""
        self.checkpoint.finish()

    def close(self) -> None:
        """Let other processes have the folder."""
        self.checkpoint.close()


def _optional(value: Any) -> Value:
    return () if value is None else (value,)

"""Makes the walks of `kraftcheck simulate` on Spark, into a corpus of any size.

Walk `i` depends on the seed and on `i` alone. The driver hands out numbers; executors walk and write the files. What is
there already is not made again.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from kraftcheck.explorer.interruption import Interruption
from kraftcheck.explorer.result import DEADLOCK, INTERRUPTED, NOTHING_CHECKED, Options, Result, Verdict, Violation
from kraftcheck.explorer.spark.description import as_text, describe
from kraftcheck.explorer.tables.random_walks import Plan, check_plan, simulate
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.traces.batch_folder import Note
from kraftcheck.traces.corpus.folder import Chunk, CorpusFolder, checked_by, chunks_of
from kraftcheck.traces.corpus.tasks import DDL

if TYPE_CHECKING:
    from kraftcheck.explorer.spark.session import Cluster

CHUNKS_A_JOB = 32
"""For each core: how often the progress is told."""

TASKS_A_CORE = 4
_TASK = "kraftcheck.traces.corpus.tasks:make_walks"


class CorpusMaker:
    """Makes walks on a cluster."""

    def __init__(
        self, cluster: Cluster, protocol: Protocol, options: Options, plan: Plan, folder: CorpusFolder
    ) -> None:
        check_plan(plan)
        self._cluster = cluster
        self._protocol = protocol
        self._options = replace(
            options, keep_going=True, symmetry=None, view=None, max_states=None, workers=1, report=None
        )
        self._plan = plan
        self._folder = folder

    def run(self, report: Callable[[int], None] | None = None) -> Result:
        """Make the walks that are not there yet; return what was found on all."""
        began = time.monotonic()
        chunks, checked = chunks_of(self._plan.runs), checked_by(self._options)
        notes, failed = self._folder.done(chunks, checked), None
        todo = [chunk for chunk in chunks if chunk.number not in notes]
        earlier, made, limit = sum(note["runs"] for note in notes.values()), 0, None
        at_once = CHUNKS_A_JOB * self._cluster.parallelism
        with Interruption(self._cluster.cancel) as interruption:
            for first in range(0, len(todo), at_once):
                part = todo[first : first + at_once]
                try:
                    found = self._make(part)
                    notes |= {number: note for number, note in found.items() if note is not None}
                    failed = next((chunk for chunk in part if found[chunk.number] is None), None)
                except InputError:
                    if not interruption.asked:
                        raise
                made += sum(chunk.runs for chunk in part if chunk.number in notes)
                if report is not None:
                    report(made)
                if interruption.asked:
                    limit, notes = INTERRUPTED, self._folder.done(chunks, checked)
                if interruption.asked or failed is not None:
                    break
        return self._result(notes, limit, earlier, time.monotonic() - began, failed)

    def _make(self, chunks: list[Chunk]) -> dict[int, Note | None]:
        """Make chunks; return what was found on the walks of each, None where an `assert` failed."""
        last = chunks[-1]
        self._cluster.describe(f"walks {chunks[0].first:,} to {last.first + last.runs - 1:,}")
        count = min(len(chunks), TASKS_A_CORE * self._cluster.parallelism)
        arguments = as_text(
            {
                "description": describe(self._protocol, self._options),
                "plan": asdict(self._plan),
                "folder": str(self._folder.path.resolve()),
                "tasks": [chunks[number::count] for number in range(count)],
            }
        )
        found = self._cluster.run(count, _TASK, arguments, DDL)
        return dict(zip(found["chunk"].to_pylist(), map(json.loads, found["note"].to_pylist()), strict=True))

    def _result(
        self, notes: dict[int, Note], limit: str | None, earlier: int, seconds: float, failed: Chunk | None
    ) -> Result:
        """Return what was found on all walks that there are, and in a chunk on which an `assert` failed."""
        found = [notes[number] for number in sorted(notes)]
        actions: Counter[str] = sum((Counter(note["actions"]) for note in found), Counter())
        shown = {name: walk for note in reversed(found) for name, walk in note["violated"].items()}  # the first counts
        names = [*self._protocol.actions, *self._protocol.network.own_actions()]
        result = Result(complete=False, limit=limit, seconds=seconds, workers=self._cluster.parallelism)
        result.warnings = [NOTHING_CHECKED] if self._options.checks_nothing else []
        result.actions = {name: actions[name] for name in names}
        result.runs = sum(note["runs"] for note in found)
        result.generated_states = sum(note["states"] for note in found)
        result.depth = max((note["longest"] for note in found), default=0)
        result.violations = self._violations(shown)
        if failed is not None and not any(violation.failed for violation in result.violations):
            plan = replace(self._plan, first=failed.first, runs=failed.runs)
            result.violations += simulate(self._protocol, self._options, plan).violations
        if any(violation.failed for violation in result.violations):
            result.violations.sort(key=lambda violation: violation.failed is None)
            result.verdict = Verdict.ASSERTION
        elif result.violations:
            only = {violation.property for violation in result.violations} == {DEADLOCK}
            result.verdict = Verdict.DEADLOCK if only else Verdict.VIOLATION
        elif limit is not None:
            result.verdict = Verdict.INCOMPLETE
        if earlier:
            result.notes.append(f"{earlier:,} of the walks were there already")
        return result

    def _violations(self, shown: dict[str, int]) -> list[Violation]:
        """Return violations in initial states; for other properties make the first walk with a violation again."""
        found: dict[str, Violation] = {}
        for walk in sorted({0, *shown.values()}):
            plan = replace(self._plan, first=walk, runs=int(walk in shown.values()))
            for violation in simulate(self._protocol, self._options, plan).violations:
                if len(violation.trace) == 1 or shown.get(violation.property) == walk:
                    found.setdefault(violation.property, violation)
        return list(found.values())

"""A corpus of random walks, in files like those of TLC's `-simulate file=`, generated locally or on Spark.

    walk_0.tla ...               the walks of `kraftcheck simulate --out`
    .corpus/manifest.json        the model and options that determine the walks
    .corpus/done/00003.json      the results of chunk 3, which marks the chunk as finished

Walk `i` depends only on the seed and on `i`. On Spark the driver assigns chunks of walks, and executors write the
files. An unfinished chunk is generated again.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kraftcheck.explorer.checkpoint import identity_of_search
from kraftcheck.explorer.random_walks import RandomWalks, WalkPlan, require_valid_walk_plan, simulate
from kraftcheck.explorer.result import (
    DEADLOCK,
    INTERRUPTED_LIMIT,
    NOTHING_CHECKED_WARNING,
    Result,
    SearchRequest,
    TraceStep,
    Verdict,
    Violation,
)
from kraftcheck.explorer.search_spec import compact_json, from_spec, to_spec
from kraftcheck.files import atomic_replacement
from kraftcheck.persistence.folder import BatchFolder, BatchNote, Identity, read_batch_note, write_batch_note
from kraftcheck.processes import InterruptHandler
from kraftcheck.spec import Protocol, State
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.tla.state_conversion import TlaStateConverter
from kraftcheck.spec.tla.text import format_value
from kraftcheck.spec.values import Value
from kraftcheck.traces.formats.tlc_simulation import simulation_module_lines

if TYPE_CHECKING:
    from kraftcheck.explorer.spark_cluster import SparkApplication

MOST_CACHED_TEXTS = 20_000
"""The size of the cache of values' texts."""


class WalkWriter:
    """A writer of walks, each to its own file: `walk_0.tla` ... Files appear atomically, so none is incomplete."""

    def __init__(self, view: TlaStateConverter, folder: Path) -> None:
        self._view = view
        self._folder = folder

    def __call__(self, number: int, walk: tuple[TraceStep, ...]) -> None:
        """Write a walk to the file of its number."""
        path = walk_file_path(self._folder, number)
        with atomic_replacement(path) as new, new.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(simulation_module_lines(path.stem, map(self._step, walk)))

    def _step(self, step: TraceStep) -> tuple[str | None, dict[str, str]]:
        variables = self._view.variables(step.state)
        return step.action, {name: _cached_value_text(name, value) for name, value in variables.items()}


@lru_cache(maxsize=MOST_CACHED_TEXTS, typed=True)  # 1 and TRUE are equal keys
def _cached_value_text(variable: str, value: Value) -> str:
    """Return the text of a value. The cache key has the variable, because (1,) and (TRUE,) are equal keys."""
    return format_value(value)


def walk_file_path(folder: Path, number: int) -> Path:
    """Return the path of a walk's file."""
    return folder / f"walk_{number}.tla"


_WALK_FILE_NAME = re.compile(r"walk_(0|[1-9][0-9]*)\.tla")

WALKS_A_CHUNK = 100
"""Walks per chunk: the maximum to generate again after the loss of an executor."""

CHUNK_NOTE_SHAPE = {
    "runs": int,
    "checked": [str],
    "states": int,
    "longest": int,
    "actions": {str: int},
    "violated": {str: int},
}
"""The shape of a note (see `require_json_shape`)."""


class WalkRange(NamedTuple):
    """A range of walks for one task."""

    number: int  # from 0
    first: int  # the number of the first walk
    runs: int


def split_walks_into_chunks(runs: int, numbers: Iterable[int] | None = None) -> Iterator[WalkRange]:
    """Split `runs` walks into chunks; yield those with the given numbers, by default all."""
    starts = range(0, runs, WALKS_A_CHUNK)
    for number in range(len(starts)) if numbers is None else numbers:
        if number < len(starts):
            yield WalkRange(number, starts[number], min(WALKS_A_CHUNK, runs - starts[number]))


def identity_of_corpus(protocol: Protocol, options: SearchRequest, plan: WalkPlan) -> Identity:
    """Return the identity of a corpus as JSON: the model and the options that determine its walks."""
    whole = identity_of_search(protocol, options)
    names = ("model", "source", "constants", "order of model values", "constraints", "action constraints", "start")
    drawn = {"--seed": plan.seed, "--depth": plan.depth, "--min-depth": plan.least}
    return {**{name: whole[name] for name in names}, **drawn}


def names_of_checks(options: SearchRequest) -> list[str]:
    """Return the names of the checked properties, and "Deadlock" if deadlock is checked."""
    return sorted([prop.name for prop in options.properties] + ([DEADLOCK] if options.deadlock else []))


class CorpusFolder(BatchFolder):
    """The folder of a corpus. See `BatchFolder`."""

    NOTES, OTHER = ".corpus", "it holds other walks"

    def walks(self, most: int) -> set[int]:
        """Return the numbers of the existing walks."""
        there = {entry.name for entry in os.scandir(self.path)}
        beyond = walk_file_path(self.path, most).name
        if beyond in there:
            raise self.error(f"it holds more walks than {most:,} ({beyond}); raise --runs to include them all")
        numbers = {int(found[1]) for found in map(_WALK_FILE_NAME.fullmatch, there) if found}
        return {number for number in numbers if number < most}

    def done(self, runs: int, checked: Iterable[str] = ()) -> dict[int, BatchNote]:
        """Return the results of finished chunks of `runs` walks that checked these properties, if their files exist."""
        there = self.walks(runs)
        found = {}
        wanted = set(checked)
        for chunk in split_walks_into_chunks(runs, sorted({int(file.stem) for file in self.note_files()})):
            path = self.note_file(self.path, chunk.number)
            if path.is_file():
                note = read_batch_note(path, CHUNK_NOTE_SHAPE)
                walks = range(chunk.first, chunk.first + chunk.runs)
                if not wanted <= set(note["checked"]):
                    continue
                if note["runs"] == chunk.runs and there.issuperset(walks):
                    found[chunk.number] = note
        return found


CHUNKS_A_JOB = 32
"""Chunks per core in one Spark job. Progress is reported after each job."""

TASKS_A_CORE = 4
_WALK_TASK = "kraftcheck.traces.corpus:generate_walk_chunks"


ChunkResult = tuple[WalkRange, BatchNote | None]


class SparkCorpusMaker:
    """Generates walks on a Spark cluster."""

    def __init__(
        self,
        cluster: SparkApplication,
        protocol: Protocol,
        options: SearchRequest,
        plan: WalkPlan,
        folder: CorpusFolder,
    ) -> None:
        require_valid_walk_plan(plan)
        self._cluster = cluster
        self._protocol = protocol
        self._options = replace(
            options, keep_going=True, symmetry=None, view=None, max_states=None, workers=1, report=None
        )
        self._plan = plan
        self._folder = folder

    def run(self, report: Callable[[int], None] = lambda _: None) -> Result:
        """Generate the missing walks and return the result of all walks."""
        began = time.monotonic()
        runs, checked = self._plan.runs, names_of_checks(self._options)
        notes = self._folder.done(runs, checked)
        todo = (chunk for chunk in split_walks_into_chunks(runs) if chunk.number not in notes)
        earlier, limit, failed = _count_walks_in_notes(notes), None, None
        at_once = CHUNKS_A_JOB * self._cluster.parallelism
        with InterruptHandler(self._cluster.cancel) as interruption:
            while part := list(islice(todo, at_once)):
                found = self._make_unless_interrupted(part, interruption)
                notes |= {chunk.number: note for chunk, note in found if note is not None}
                failed = next((chunk for chunk, note in found if note is None), None)
                report(_count_walks_in_notes(notes) - earlier)
                if interruption.asked:
                    limit, notes = INTERRUPTED_LIMIT, self._folder.done(runs, checked)
                if interruption.asked or failed is not None:
                    break
        return self._result(notes, limit, earlier, time.monotonic() - began, failed)

    def _make_unless_interrupted(self, chunks: list[WalkRange], interruption: InterruptHandler) -> list[ChunkResult]:
        try:
            return self._make(chunks)
        except InputError:
            if not interruption.asked:
                raise
            return []

    def _make(self, chunks: list[WalkRange]) -> list[ChunkResult]:
        """Generate chunks; return pairs (chunk, result), whose result is None after a failed `assert`."""
        last = chunks[-1]
        self._cluster.describe(f"walks {chunks[0].first:,} to {last.first + last.runs - 1:,}")
        count = min(len(chunks), TASKS_A_CORE * self._cluster.parallelism)
        arguments = compact_json(
            {
                "description": to_spec(self._protocol, self._options),
                "plan": asdict(self._plan),
                "folder": str(self._folder.path.resolve()),
                "tasks": [chunks[number::count] for number in range(count)],
            }
        )
        found = self._cluster.run(count, _WALK_TASK, arguments, NOTES_DDL)
        notes = dict(zip(found["chunk"].to_pylist(), map(json.loads, found["note"].to_pylist()), strict=True))
        return [(chunk, notes[chunk.number]) for chunk in chunks]

    def _result(
        self, notes: dict[int, BatchNote], limit: str | None, earlier: int, seconds: float, failed: WalkRange | None
    ) -> Result:
        """Return the result of the finished chunks and of the chunk with a failed `assert`, if any."""
        found = [notes[number] for number in sorted(notes)]
        actions: Counter[str] = sum((Counter(note["actions"]) for note in found), Counter())
        shown = {name: walk for note in reversed(found) for name, walk in note["violated"].items()}  # the first wins
        names = [*self._protocol.actions, *self._protocol.network.own_actions()]
        result = Result(complete=False, limit=limit, seconds=seconds, workers=self._cluster.parallelism)
        result.warnings = [NOTHING_CHECKED_WARNING] if self._options.checks_nothing else []
        result.actions = {name: actions[name] for name in names}
        result.runs = _count_walks_in_notes(notes)
        result.generated_states = sum(note["states"] for note in found)
        result.depth = max((note["longest"] for note in found), default=0)
        result.violations = self._violations(shown, failed)
        result.verdict = _verdict_of_result(result)
        if earlier:
            result.notes.append(f"--out: {earlier:,} walks existed already and were kept")
        return result

    def _violations(self, shown: dict[str, int], failed: WalkRange | None) -> list[Violation]:
        """Return the violations, by generating the first walk with a violation of each property again.

        Failed assertions come first. If these walks have none, generate the chunk in which an assertion `failed`.
        """
        found: dict[str, Violation] = {}
        for walk in sorted({0, *shown.values()}):
            for violation in self._again(walk, int(walk in shown.values())):
                if len(violation.trace) == 1 or shown.get(violation.property) == walk:
                    found.setdefault(violation.property, violation)
        violations = [*found.values()]
        if failed is not None and not any(violation.failed for violation in violations):
            violations += self._again(failed.first, failed.runs)
        return sorted(violations, key=lambda violation: violation.failed is None)

    def _again(self, first: int, runs: int) -> list[Violation]:
        return simulate(self._protocol, self._options, replace(self._plan, first=first, runs=runs)).violations


def _count_walks_in_notes(notes: dict[int, BatchNote]) -> int:
    return sum(note["runs"] for note in notes.values())


def _verdict_of_result(result: Result) -> Verdict:
    if any(violation.failed for violation in result.violations):
        return Verdict.ASSERTION
    if result.violations:
        only = {violation.property for violation in result.violations} == {DEADLOCK}
        return Verdict.DEADLOCK if only else Verdict.VIOLATION
    return Verdict.OK if result.limit is None else Verdict.INCOMPLETE


NOTES_DDL = "chunk int not null, note string not null"


def _trace_steps_of_walk(states: list[State], actions: list[str]) -> tuple[TraceStep, ...]:
    """Return a walk as trace steps with states and action names alone, as its file has them."""
    return tuple(map(TraceStep, states, [None, *actions]))


class WalkChunkGenerator:
    """Generates chunks and keeps its memo tables from one chunk to the next."""

    def __init__(self, description: dict[str, Any], plan: WalkPlan, folder: Path, user_files: Path) -> None:
        protocol, options = from_spec(description, user_files)
        self._plan = plan
        writer = WalkWriter(TlaStateConverter(protocol), folder)
        self._walks = RandomWalks(protocol, options, replace(plan, runs=0), writer, _trace_steps_of_walk)
        self._walks.run()

    def make(self, chunk: WalkRange) -> BatchNote | None:
        """Generate the walks of a chunk and write their files; return its result, or None after a failed `assert`."""
        result = self._walks.more(replace(self._plan, first=chunk.first, runs=chunk.runs))
        if result.verdict is Verdict.ASSERTION:
            return None
        return {
            "runs": chunk.runs,
            "checked": names_of_checks(self._walks.options),
            "states": result.generated_states,
            "longest": result.depth,
            "actions": result.actions,
            "violated": dict(self._walks.shown_by),
        }


@lru_cache(maxsize=1)
def _cached_walk_generator(arguments: str) -> WalkChunkGenerator:
    given = json.loads(arguments)
    return WalkChunkGenerator(
        given["description"], WalkPlan(**given["plan"]), Path(given["folder"]), Path(given["user_files"])
    )


def generate_walk_chunks(arguments: dict[str, Any], batches: Iterator[Any]) -> Iterator[Any]:
    """Generate the chunks of the tasks in `batches`; write their notes to the folder and yield them.

    The yielded note of a chunk with a failed `assert` is null.
    """
    import pyarrow as pa

    chunk_type, note_type = pa.field("chunk", pa.int32(), nullable=False), pa.field("note", pa.string(), nullable=False)
    schema = pa.schema([chunk_type, note_type])
    lasting = {name: value for name, value in arguments.items() if name != "tasks"}
    folder = Path(arguments["folder"])
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for given in arguments["tasks"][number]:
                chunk = WalkRange(*given)
                note = _cached_walk_generator(compact_json(lasting)).make(chunk)
                if note is None:
                    _cached_walk_generator.cache_clear()  # the error may have left the memo tables incomplete
                else:
                    write_batch_note(CorpusFolder.note_file(folder, chunk.number), note)
                yield pa.RecordBatch.from_pydict({"chunk": [chunk.number], "note": [compact_json(note)]}, schema=schema)

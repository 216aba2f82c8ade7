"""The driver of the pipeline: replay of traces on Spark, with Parquet tables that grow by batches.

    traces/batch=00001/*.parquet      one row per trace
    steps/batch=00001/*.parquet       one row per conforming state
    errors/batch=00001/*.parquet      one row per read error
    coverage/*.parquet                steps by action, per trace and in total
    done/00001.json                   the files of a batch, which marks the batch as finished
    manifest.json                     the model and constants of all batches
    summary.json                      the summary of all batches at the time of writing

The driver distributes file names. Executors read, parse and replay the files, and write their results to Parquet.
A killed run may leave batches without a note under `done/`; the next run removes them and continues.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kraftcheck.explorer.checkpoint import identity_of_search
from kraftcheck.explorer.interruption import Interruption
from kraftcheck.explorer.result import SearchRequest
from kraftcheck.explorer.search_spec import compact_json, to_spec
from kraftcheck.files import make_folder, real_path, remove
from kraftcheck.persistence.folder import BatchFolder, Identity, Noted, read_note, write_note
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.formula import Fairness
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.traces.pipeline.rows import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kraftcheck.explorer.cluster import Cluster


COVERAGE, STAGING, SUMMARY = "coverage", "staging", "summary.json"

BATCH = {"seconds": float, "files": [(str, int, int)]}
SUMMARIES: dict[str, Any] = {
    **dict.fromkeys(("batches", "files", "new_files", "traces", "steps", "errors", "distinct_states"), int),
    "verdicts": {str: int},
    "actions": {str: int},
    "diverging": [(str, object, object, str)],
    "unreadable": [(str, object, object, str)],
}
"""The shapes of summary notes (see `require_shape`)."""


class InputFile(NamedTuple):
    """A file to replay."""

    path: str  # absolute, for every executor
    size: int  # in bytes
    modified: int  # modification time in nanoseconds


def inputs_of(names: Iterable[str], out: Path) -> list[InputFile]:
    """Return the input files of arguments: files, folders (recursively), and glob patterns."""
    found: dict[str, InputFile] = {}
    for name in names:
        paths = list(_paths(name))
        if not paths:
            raise InputError(f"{name}: no files; give a file, a folder, or a glob pattern that matches files")
        for path in paths:
            absolute = real_path(path)
            if absolute.is_relative_to(real_path(out)):
                continue
            status = absolute.stat()
            found[str(absolute)] = InputFile(str(absolute), status.st_size, status.st_mtime_ns)
    return [found[path] for path in sorted(found)]


def _paths(name: str) -> Iterator[Path]:
    path = Path(name)
    if path.is_dir():
        for folder, folders, files in os.walk(path):
            folders[:] = sorted(f for f in folders if not f.startswith("."))
            yield from (Path(folder, file) for file in sorted(files) if not file.startswith((".", "_")))
    elif path.is_file():
        yield path
    else:
        yield from (Path(match) for match in sorted(glob(name, recursive=True)) if Path(match).is_file())


def identity_of(protocol: Protocol, options: SearchRequest) -> Identity:
    """Return the identity of an output folder: model, source, constants and start."""
    identity = identity_of_search(protocol, options)
    return {name: identity[name] for name in ("model", "source", "constants", "symmetry", "start")}


class PipelineFolder(BatchFolder):
    """The output folder of the pipeline. See `BatchFolder`."""

    OTHER = "it belongs to another run (choose another folder)"

    def __init__(self, path: Path, identity: Identity, option: str = "--out") -> None:
        super().__init__(path, identity, option)
        with self.closed_on_error():
            self._clean_up()

    def _clean_up(self) -> None:
        """Create the folders of the tables; remove the staging folder and batches without a note."""
        remove(self.path / STAGING)
        for table in COLUMNS:
            make_folder(self.path / table)
            for batch in (self.path / table).glob("batch=*"):
                number = batch.name.partition("=")[2]
                if not (number.isdecimal() and self.note_file(self.path, int(number)).exists()):
                    remove(batch)

    def done(self) -> set[InputFile]:
        """Return the files of all finished batches."""
        return {InputFile(*entry) for note in self.note_files() for entry in read_note(note, BATCH)["files"]}

    def next_batch(self) -> int:
        """Return the number of the next batch."""
        return 1 + max((int(note.stem) for note in self.note_files()), default=0)

    def staging(self, name: str) -> str:
        """Return the staging folder of a table, which readers of the tables ignore."""
        return str((self.path / STAGING / name).resolve())

    def accept(self, batch: int, files: Iterable[InputFile], seconds: float) -> None:
        """Turn the staging folders of the three tables into a finished batch; note its duration in seconds."""
        for table in COLUMNS:
            Path(self.staging(table)).rename(self.path / table / f"batch={batch:05}")
        note = {"seconds": round(seconds, 3), "files": [list(entry) for entry in files]}
        write_note(self.note_file(self.path, batch), note)
        remove(self.path / STAGING)

    def keep_summary(self, summary: Noted) -> None:
        """Write the summary of all finished batches."""
        write_note(self.path / SUMMARY, {"batches": len(self.note_files()), **summary})

    def kept_summary(self) -> Noted | None:
        """Return the summary of all finished batches; None if it is older than the last batch."""
        path = self.path / SUMMARY
        note = read_note(path, SUMMARIES) if path.is_file() else {}
        return note if note.pop("batches", 0) == len(self.note_files()) and note else None

    def replace_coverage(self) -> None:
        """Replace the coverage table by the one in its staging folder."""
        remove(self.path / COVERAGE)
        Path(self.staging(COVERAGE)).rename(self.path / COVERAGE)
        remove(self.path / STAGING)


FILES_A_BATCH = 4_000
"""Files per batch: the maximum to replay again after a killed run."""

MOST_FILES_A_BATCH = 1_000_000

SHOWN = 10
"""Maximum number of diverging traces and of errors in the summary."""

TASKS_A_CORE = 4
"""Tasks per core. Small tasks balance the load of long traces."""

_TASK = "kraftcheck.traces.pipeline.tables:replay_files"
_RAW = "raw"
_RAW_COLUMNS = "file string, " + ", ".join(f"{name} array<struct<{columns}>>" for name, columns in COLUMNS.items())


@dataclass
class Summary:
    """The summary of the tables after a run."""

    files: int = 0  # files of all runs; `new_files` of this run
    new_files: int = 0
    traces: int = 0  # traces; `steps` counts their conforming transitions
    steps: int = 0
    verdicts: dict[str, int] = field(default_factory=dict)  # number of traces by verdict
    errors: int = 0  # rows of the table `errors`
    distinct_states: int = 0  # distinct conforming states
    actions: dict[str, int] = field(default_factory=dict)  # steps by action of the protocol
    # some diverging traces and refuted claims (step None): file, index, step, reason
    diverging: list[tuple[str, int, int | None, str]] = field(default_factory=list)
    # some of the errors: file, line, column, message
    unreadable: list[tuple[str, int | None, int | None, str]] = field(default_factory=list)

    def keep(self, output: PipelineFolder) -> None:
        """Write the summary to the folder, so a run without new files need not read the tables."""
        output.keep_summary(asdict(self))

    @classmethod
    def kept(cls, output: PipelineFolder) -> Summary | None:
        """Return the stored summary of a folder for a run without new files; None if the folder has none."""
        note = output.kept_summary()
        if note is None:
            return None
        shown = {name: [tuple(row) for row in note[name]] for name in ("diverging", "unreadable")}
        return cls(**{**note, **shown, "new_files": 0})

    @property
    def never_taken(self) -> list[str]:
        """The actions that no trace takes."""
        return [name for name, times in self.actions.items() if not times]


class Pipeline:
    """Replays files on a Spark cluster."""

    def __init__(
        self, cluster: Cluster, protocol: Protocol, *, init: str, symmetry: str | None, limit_bytes: int,
        output: PipelineFolder, seen_as: str | None = None, fairness: Sequence[Fairness] = (),
    ) -> None:  # fmt: skip
        self._cluster = cluster
        self._protocol = protocol
        self._output = output
        description = to_spec(protocol, SearchRequest(init=init))
        made_under = {"symmetry": symmetry, "seen_as": seen_as, "fairness": [asdict(one) for one in fairness]}
        self._arguments = compact_json({"description": description, **made_under, "limit_bytes": limit_bytes})

    def run(self, inputs: Iterable[InputFile], report: Callable[[int], None] | None = None) -> Summary:
        """Replay the new files and return the summary of all files."""
        with Interruption(self._cluster.cancel) as interruption:
            try:
                return self._run(inputs, report, interruption)
            except Exception:  # the error of a cancelled job
                if interruption.asked:
                    raise KeyboardInterrupt from None
                raise

    def _run(
        self, inputs: Iterable[InputFile], report: Callable[[int], None] | None, interruption: Interruption
    ) -> Summary:
        done = self._output.done()
        new = [file for file in inputs if file not in done]
        at_once = self._cluster.number("spark.kraftcheck.files", FILES_A_BATCH, least=1, most=MOST_FILES_A_BATCH)
        for first in range(0, len(new), at_once):
            batch = new[first : first + at_once]
            self._replay(batch)
            if report is not None:
                report(first + len(batch))
            if interruption.asked:
                raise KeyboardInterrupt
        summary = self._summary(len(done) + len(new), len(new))
        summary.keep(self._output)
        return summary

    def _replay(self, files: list[InputFile]) -> None:
        output, cluster, began = self._output, self._cluster, time.monotonic()
        batch = output.next_batch()
        cluster.describe(f"batch {batch}: replay {len(files):,} files")
        tasks = min(len(files), TASKS_A_CORE * cluster.parallelism)
        raw = output.staging(_RAW)
        self._dealt(files, tasks).mapInArrow(cluster.task(_TASK, self._arguments), _RAW_COLUMNS).write.parquet(raw)
        cluster.describe(f"batch {batch}: write the tables")
        found = cluster.spark.read.schema(_RAW_COLUMNS).parquet(raw)
        for table in COLUMNS:
            rows = found.selectExpr("file", f"inline({table})")
            rows.coalesce(cluster.parallelism if table == "steps" else 1).write.parquet(output.staging(table))
        output.accept(batch, files, time.monotonic() - began)

    def _dealt(self, files: list[InputFile], tasks: int) -> DataFrame:
        """Return a data frame of paths in `tasks` partitions, balanced by file size."""
        by_size = sorted(files, key=lambda file: (-file.size, file.path))
        dealt = [(file.path,) for first in range(tasks) for file in by_size[first::tasks]]
        spark = self._cluster.spark
        return spark.createDataFrame(spark.sparkContext.parallelize(dealt, tasks), "path string")

    def _table(self, name: str) -> DataFrame:
        reader = self._cluster.spark.read.schema(f"file string, {COLUMNS[name]}, batch int")
        return reader.parquet(str((self._output.path / name).resolve()))

    def _summary(self, files: int, new_files: int) -> Summary:
        from pyspark.sql import functions as f

        protocol = self._protocol
        self._cluster.describe("coverage and summary")
        traces, steps, errors = map(self._table, COLUMNS)
        taken = steps.where("action is not null")
        by_trace = taken.groupBy("file", "index", "action").agg(f.count("*").alias("times"))
        totals: dict[str, int] = dict.fromkeys([*protocol.actions, *protocol.network.own_actions()], 0)
        for row in by_trace.groupBy("action").agg(f.sum("times").alias("times")).collect():
            totals[row["action"]] = row["times"]
        whole = self._cluster.spark.createDataFrame(
            [(None, None, name, times) for name, times in totals.items()],
            "file string, index int, action string, times bigint",
        )
        by_trace.unionByName(whole).coalesce(1).write.parquet(self._output.staging(COVERAGE))
        self._output.replace_coverage()
        verdicts = {row["verdict"]: row["count"] for row in traces.groupBy("verdict").count().collect()}
        wrong = traces.where("verdict in ('diverges', 'refuted')")
        diverging = wrong.select("file", "index", "diverged_step", "reason")
        unreadable = errors.orderBy("file", "index").select("file", "line", "column", "message")
        return Summary(
            files=files,
            new_files=new_files,
            traces=sum(verdicts.values()),
            steps=sum(totals.values()),
            verdicts=dict(sorted(verdicts.items())),
            errors=errors.count(),
            distinct_states=steps.select("state").distinct().count(),
            actions=totals,
            diverging=list(map(tuple, diverging.orderBy("file", "index").limit(SHOWN).collect())),
            unreadable=list(map(tuple, unreadable.limit(SHOWN).collect())),
        )

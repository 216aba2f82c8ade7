"""The pipeline's tables without Spark: by worker processes, and by `kraftcheck replay --parquet`."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache, partial
from multiprocessing import get_context
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from kraftcheck.explorer.result import SearchRequest
from kraftcheck.explorer.search_spec import compact_json, from_spec
from kraftcheck.processes import end_with_parent
from kraftcheck.spec.errors import PlatformError
from kraftcheck.spec.language.formula import Fairness
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.traces.pipeline.driver import (
    COVERAGE,
    FILES_A_BATCH,
    SHOWN,
    TASKS_A_CORE,
    InputFile,
    PipelineFolder,
    Summary,
    dealt,
    digest_of,
    identity_of,
)
from kraftcheck.traces.pipeline.rows import COLUMNS, FLAT, STEPS_A_ROW, FileReplayer, FileRows, RowMaker
from kraftcheck.traces.replay.replayer import Replay, ReplayedState

_TYPES = {
    "int": pa.int32(),
    "string": pa.string(),
    "double": pa.float64(),
    "binary": pa.binary(),
    "array<string>": pa.list_(pa.string()),
}
_FILE = ("file", pa.string())
_PART = "part-0.parquet"
_COVERAGE = pa.schema([_FILE, ("index", pa.int32()), ("action", pa.string()), ("times", pa.int64())])


def typed(columns: str) -> list[tuple[str, Any]]:
    """Return the names and Arrow types of columns in Spark's DDL."""
    return [(name, _TYPES[kind]) for name, kind in (column.split(" ") for column in columns.split(", "))]


class TableWriter:
    """Writes rows to files in the staging folders of the tables."""

    def __init__(self, staging: Callable[[str], str], part: int = 0) -> None:
        self._staging = staging
        self._part = part
        self._waiting: dict[str, list[dict[str, Any]]] = {table: [] for table in COLUMNS}
        self._writers: dict[str, Any] = {}

    def write(self, file: str, rows: FileRows) -> None:
        """Write the rows of a file."""
        for table, waiting in self._waiting.items():
            waiting += [{"file": file, **row} for row in getattr(rows, table)]
            if len(waiting) >= STEPS_A_ROW or table not in self._writers:
                self._flush(table)

    def _flush(self, table: str) -> None:
        schema, waiting = pa.schema([_FILE, *typed(COLUMNS[table])]), self._waiting[table]
        if table not in self._writers:
            folder = Path(self._staging(table))
            folder.mkdir(parents=True, exist_ok=True)
            self._writers[table] = pq.ParquetWriter(folder / f"part-{self._part}.parquet", schema)
        if waiting:
            self._writers[table].write_table(pa.Table.from_pylist(waiting, schema))
            waiting.clear()

    def close(self) -> None:
        """Write the rest of the rows, and the ends of the files."""
        for table, writer in self._writers.items():
            self._flush(table)
            writer.close()


class ReplayTables:
    """Writes the results of traces into the tables of a pipeline's folder, as one batch.

    Files of earlier batches and repeated files are skipped. `kraftcheck pipeline` can continue the folder.
    """

    def __init__(self, path: Path, protocol: Protocol, options: SearchRequest) -> None:
        self._protocol = protocol
        self._folder = PipelineFolder(path, identity_of(protocol, options), option="--parquet")
        self._folder.claim()
        self._done = self._folder.done()
        self._batch = self._folder.next_batch()
        self._maker = RowMaker(digest_of(self._folder.identity))
        self._files: dict[str, InputFile] = {}
        self._written: set[tuple[str, int]] = set()  # pairs of file and trace
        self._writer = TableWriter(self._folder.staging)
        self._began = self._mark = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Finish the batch unless an error was raised."""
        with self._folder:
            self._writer.close()
            if kind is None and self._files:
                self._folder.accept(self._batch, self._files.values(), time.monotonic() - self._began)
                summarise(self._folder, self._protocol, len(self._files)).keep(self._folder)

    def watch(self, step: ReplayedState) -> None:
        """Add the row of a conforming state."""
        self._maker.watch(step)

    def end(self, replay: Replay) -> None:
        """Add the rows of a finished trace, unless its file does not exist."""
        now = time.monotonic()
        self._maker.end(replay.file, replay, now - self._mark)
        self._mark = now
        rows, path = self._maker.hand_on(), Path(replay.file).resolve()
        if not path.is_file():
            return
        status = path.stat()
        file = InputFile(str(path), status.st_size, status.st_mtime_ns)
        if file not in self._done and (file.path, replay.index) not in self._written:
            self._written.add((file.path, replay.index))
            self._files[file.path] = file
            self._writer.write(file.path, rows)


class PoolRunner:
    """Replays files in worker processes of this machine. See `Runner`."""

    def __init__(self, workers: int, protocol: Protocol, arguments: str, output: PipelineFolder) -> None:
        self._workers = workers
        self._protocol = protocol
        self._arguments = arguments
        self._output = output
        self._pool: ProcessPoolExecutor | None = None
        self.files_a_batch = FILES_A_BATCH

    def write(self, batch: int, files: list[InputFile]) -> None:
        """Write the tables of some files into the staging folders."""
        tasks = dealt(files, min(len(files), TASKS_A_CORE * self._workers))
        staging = {table: self._output.staging(table) for table in COLUMNS}
        for folder in staging.values():
            Path(folder).mkdir(parents=True)
        try:
            pool = self._pool = self._pool or self._started()
            done = [pool.submit(_replay_into, staging, part, paths) for part, paths in enumerate(tasks)]
            for future in as_completed(done):
                future.result()
        except BrokenProcessPool:
            said = "a worker process was killed, or ran out of memory; the same command replays the rest"
            raise PlatformError(f"batch {batch}: {said}") from None

    def _started(self) -> ProcessPoolExecutor:
        """Start the worker processes. They inherit the model, so a user's file need not be imported again."""
        prepare = partial(_prepare, self._protocol, self._arguments)
        return ProcessPoolExecutor(self._workers, get_context("fork"), initializer=prepare)

    def summary(self, new_files: int) -> Summary:
        """Write the coverage table, and return the summary of all files that count."""
        return summarise(self._output, self._protocol, new_files)

    def cancel(self) -> None:
        """Kill the worker processes."""
        if self._pool is not None:
            for process in list(self._pool._processes.values()):
                process.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


_OF_WORKER: list[FileReplayer] = []
"""The replayer of a worker process, which shares its memoised results among files."""


def _prepare(protocol: Protocol, arguments: str) -> None:
    """Prepare a worker process; the parent handles Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    _OF_WORKER.append(_file_replayer(protocol, json.loads(arguments)))


def _replay_into(staging: dict[str, str], part: int, paths: list[str]) -> None:
    writer = TableWriter(staging.__getitem__, part)
    for path in paths:
        for found in _OF_WORKER[0].rows(path):
            writer.write(path, found)
    writer.close()


def summarise(folder: PipelineFolder, protocol: Protocol, new_files: int) -> Summary:
    """Write the coverage table, and return the summary of all files that count."""
    steps = _table(folder, "steps", ["file", "index", "action", "state"])
    taken = (
        steps.filter(pc.is_valid(steps["action"])).group_by(["file", "index", "action"]).aggregate([([], "count_all")])
    )
    totals = dict.fromkeys([*protocol.actions, *protocol.network.own_actions()], 0)
    rows = taken.rename_columns({"count_all": "times"}).to_pylist()
    for row in rows:
        totals[row["action"]] = totals.get(row["action"], 0) + row["times"]
    rows += [{"file": None, "index": None, "action": name, "times": times} for name, times in totals.items()]
    staging = Path(folder.staging(COVERAGE))
    staging.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, _COVERAGE), staging / _PART)
    folder.replace_coverage()
    order = [("file", "ascending"), ("index", "ascending")]
    traces = _table(folder, "traces", ["file", "index", "verdict", "diverged_step", "reason"]).sort_by(order)
    errors = _table(folder, "errors", ["file", "index", "line", "column", "message"]).sort_by(order)
    verdicts = Counter[str](traces["verdict"].to_pylist())
    is_wrong = pc.is_in(traces["verdict"], pa.array(["diverges", "refuted"]))
    diverging = traces.filter(is_wrong).slice(0, SHOWN).to_pylist()
    return Summary(
        files=folder.counted(),
        new_files=new_files,
        traces=len(traces),
        steps=sum(totals.values()),
        verdicts=dict(sorted(verdicts.items())),
        errors=len(errors),
        distinct_states=pc.count_distinct(steps["state"]).as_py(),
        actions=totals,
        diverging=[_values(row, "file", "index", "diverged_step", "reason") for row in diverging],
        unreadable=[_values(row, "file", "line", "column", "message") for row in errors.slice(0, SHOWN).to_pylist()],
    )


def _table(folder: PipelineFolder, name: str, columns: list[str]) -> Any:
    """Return columns of the rows of a table that count."""
    batch = ("batch", pa.int32())
    parts = ds.partitioning(pa.schema([batch]), flavor="hive")
    schema = pa.schema([_FILE, *typed(COLUMNS[name]), batch])
    rows = ds.dataset(folder.path / name, schema, format="parquet", partitioning=parts).to_table([*columns, "batch"])
    outdated = folder.outdated()
    if not outdated:
        return rows
    files, batches = zip(*outdated, strict=True)
    pairs = pa.table([pa.array(files, pa.string()), pa.array(batches, pa.int32())], ["file", "batch"])
    return rows.join(pairs, ["file", "batch"], join_type="left anti")


def _values(row: Mapping[str, Any], *names: str) -> Any:
    return tuple(row[name] for name in names)


@lru_cache(maxsize=1)
def _replayer(arguments: str) -> FileReplayer:
    """Return the replayer of this process, which shares its memoised results among files."""
    given = json.loads(arguments)
    protocol, options = from_spec(given["description"], Path(given["user_files"]))
    return _file_replayer(protocol, given | {"init": options.init})


def _file_replayer(protocol: Protocol, given: dict[str, Any]) -> FileReplayer:
    """Return the replayer with the arguments of `task_arguments`."""
    asked = given.get("fairness", ())
    fairness = [Fairness(one["kind"], tuple(one["actions"]), one["each"], one["when"]) for one in asked]
    made_under = given["symmetry"], given["limit_bytes"], given.get("seen_as")
    more = given.get("seconds"), given.get("model", ""), given.get("label")
    return FileReplayer(protocol, given["init"], *made_under, fairness, *more)


def replay_files(arguments: dict[str, Any], batches: Iterator[Any]) -> Iterator[Any]:
    """Replay the files in `batches`, given by their paths or with their content, and yield the rows of all tables."""
    replayer, schema = _replayer(compact_json(arguments)), pa.schema(typed(FLAT))
    waiting: list[dict[str, Any]] = []
    for batch in batches:
        for row in zip(*batch.columns, strict=True):
            file, *content = (value.as_py() or kind() for value, kind in zip(row, (str, bytes), strict=False))
            for found in replayer.rows(file, *content):
                for table in COLUMNS:
                    waiting += [{"record": table, "file": file, **more} for more in getattr(found, table)]
                if len(waiting) >= STEPS_A_ROW:
                    yield pa.RecordBatch.from_pylist(waiting, schema)
                    waiting.clear()
    yield pa.RecordBatch.from_pylist(waiting, schema)

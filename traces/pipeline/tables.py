"""The pipeline's tables without Spark: by worker processes, and by `kraftcheck replay --parquet`."""

from __future__ import annotations

import gc
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache, partial
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kraftcheck.explorer.result import SearchRequest
from kraftcheck.explorer.search_spec import compact_json, from_spec
from kraftcheck.processes import default_worker_count, die_with_parent
from kraftcheck.spec.errors import ProcessFailureError
from kraftcheck.spec.language.formula import Fairness
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.traces.pipeline.driver import (
    COVERAGE_FOLDER,
    FILES_A_BATCH,
    MOST_SHOWN_PROBLEMS,
    TASKS_A_CORE,
    InputFile,
    PipelineFolder,
    PipelineSummary,
    identity_digest,
    identity_of_output,
    input_file_or_none,
    partition_by_size,
)
from kraftcheck.traces.pipeline.rows import (
    COMBINED_COLUMNS,
    STEPS_A_CHUNK,
    TABLE_COLUMNS,
    FileReplayer,
    PendingFileRows,
    ReplayRowBuilder,
    TraceLimits,
    escape_surrogates,
)
from kraftcheck.traces.replay.replayer import Replay, ReplayedState

_ARROW_TYPES = {
    "int": pa.int32(),
    "string": pa.string(),
    "double": pa.float64(),
    "binary": pa.binary(),
    "array<string>": pa.list_(pa.string()),
}
_FILE_COLUMN = ("file", pa.string())
_COVERAGE_FILE = "part-0.parquet"
_WORKER_KILLED_MESSAGE = "a worker process was killed, or ran out of memory; the same command replays the rest"
_COVERAGE_SCHEMA = pa.schema([_FILE_COLUMN, ("index", pa.int32()), ("action", pa.string()), ("times", pa.int64())])


def arrow_fields_of_ddl(columns: str) -> list[tuple[str, Any]]:
    """Return the names and Arrow types of columns in Spark's DDL."""
    return [(name, _ARROW_TYPES[kind]) for name, kind in (column.split(" ") for column in columns.split(", "))]


def _arrow_rows(kind: Any, rows: list[dict[str, Any]], schema: Any) -> Any:
    """Return rows as an Arrow table or record batch."""
    try:
        return kind.from_pylist(rows, schema)
    except UnicodeEncodeError:  # rare: the other rows need no second look
        escaped = [{name: escape_surrogates(value) for name, value in row.items()} for row in rows]
        return kind.from_pylist(escaped, schema)


class StagingTablesWriter:
    """Writes rows to files in the staging folders of the tables."""

    def __init__(self, staging: Callable[[str], str], part: int = 0) -> None:
        self._staging = staging
        self._part = part
        self._waiting: dict[str, list[dict[str, Any]]] = {table: [] for table in TABLE_COLUMNS}
        self._writers: dict[str, Any] = {}

    def write(self, file: str, rows: PendingFileRows) -> None:
        """Write the rows of a file."""
        for table, waiting in self._waiting.items():
            waiting += [{"file": file, **row} for row in getattr(rows, table)]
            if len(waiting) >= STEPS_A_CHUNK or table not in self._writers:
                self._flush(table)

    def _flush(self, table: str) -> None:
        schema, waiting = pa.schema([_FILE_COLUMN, *arrow_fields_of_ddl(TABLE_COLUMNS[table])]), self._waiting[table]
        if table not in self._writers:
            folder = Path(self._staging(table))
            folder.mkdir(parents=True, exist_ok=True)
            self._writers[table] = pq.ParquetWriter(folder / f"part-{self._part}.parquet", schema)
        if waiting:
            self._writers[table].write_table(_arrow_rows(pa.Table, waiting, schema))
            waiting.clear()

    def close(self) -> None:
        """Write the rest of the rows, and the ends of the files."""
        for table, writer in self._writers.items():
            self._flush(table)
            writer.close()


class ReplayTableWriter:
    """Writes the results of traces into the tables of a pipeline's folder, as one batch.

    Files of earlier batches and repeated files are skipped. `kraftcheck pipeline` can continue the folder.
    """

    def __init__(self, path: Path, protocol: Protocol, options: SearchRequest) -> None:
        self._protocol = protocol
        self._folder = PipelineFolder(path, identity_of_output(protocol, options), option="--parquet")
        self._folder.claim()
        self._done = self._folder.done()
        self._batch = self._folder.next_batch()
        self._maker = ReplayRowBuilder(identity_digest(self._folder.identity))
        self._files: dict[str, InputFile] = {}
        self._written: set[tuple[str, int]] = set()  # pairs of file and trace
        self._writer = StagingTablesWriter(self._folder.staging)
        self._began = self._mark = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Finish the batch unless an error was raised."""
        with self._folder:
            self._writer.close()
            if kind is None and self._files:
                self._folder.accept(self._batch, self._files.values(), time.monotonic() - self._began)
                write_coverage_and_summarise(self._folder, self._protocol, len(self._files)).keep(self._folder)

    def watch(self, step: ReplayedState) -> None:
        """Add the row of a conforming state."""
        self._maker.watch(step)

    def end(self, replay: Replay) -> None:
        """Add the rows of a finished trace, unless its path does not exist."""
        now = time.monotonic()
        self._maker.end(replay.file, replay, now - self._mark)
        self._mark = now
        rows, (folder, name) = self._maker.hand_on(), os.path.split(replay.file)
        file = input_file_or_none(os.path.join(os.path.realpath(folder), name))
        if file is not None and file not in self._done and (file.path, replay.index) not in self._written:
            self._written.add((file.path, replay.index))
            self._files[file.path] = file
            self._writer.write(file.path, rows)


class PoolRunner:
    """Replays files in worker processes of this machine. See `BatchRunner`."""

    def __init__(self, workers: int | None, protocol: Protocol, arguments: str, output: PipelineFolder) -> None:
        self.workers = workers or default_worker_count()
        self._protocol = protocol
        self._arguments = arguments
        self._output = output
        self._pool: ProcessPoolExecutor | None = None
        self.files_a_batch = FILES_A_BATCH

    def write(self, batch: int, files: list[InputFile]) -> None:
        """Write the tables of some files into the staging folders."""
        tasks = partition_by_size(files, min(len(files), TASKS_A_CORE * self.workers))
        staging = {table: self._output.staging(table) for table in TABLE_COLUMNS}
        for folder in staging.values():
            Path(folder).mkdir(parents=True)
        try:
            pool = self._pool = self._pool or self._started()
            done = [pool.submit(_replay_files_to_tables, staging, part, paths) for part, paths in enumerate(tasks)]
            for future in as_completed(done):
                future.result()
        except BrokenProcessPool:
            self.cancel()  # the killed worker may hold a lock for which another one waits for ever
            raise ProcessFailureError(f"batch {batch}: {_WORKER_KILLED_MESSAGE}") from None

    def require_running(self) -> None:
        """Raise ProcessFailureError if an idle worker process was killed."""
        if self._pool is not None and self._pool._broken:
            raise ProcessFailureError(_WORKER_KILLED_MESSAGE)

    def _started(self) -> ProcessPoolExecutor:
        """Start the worker processes. They inherit the model, so a user's file need not be imported again."""
        pa.array([])  # it imports pandas, if that is installed: once, as workers share it
        prepare = partial(_prepare_worker, self._protocol, self._arguments)
        return ProcessPoolExecutor(self.workers, get_context("fork"), initializer=prepare)

    def summary(self, new_files: int) -> PipelineSummary:
        """Write the coverage table, and return the summary of all files that count."""
        return write_coverage_and_summarise(self._output, self._protocol, new_files)

    def cancel(self) -> None:
        """Kill the worker processes."""
        if self._pool is not None:
            for process in list(self._pool._processes.values()):
                process.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self.cancel()  # an idle one that was killed held the lock of the tasks, for which the others wait
            self._pool.shutdown(cancel_futures=True)


_WORKER_REPLAYER: list[FileReplayer] = []
"""The replayer of a worker process, which shares its memoised results among files."""


def _prepare_worker(protocol: Protocol, arguments: str) -> None:
    """Prepare a worker process; the parent handles Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if callable(signal.getsignal(number)):  # the parent's: after a death the pool sends SIGTERM to the others
            signal.signal(number, signal.SIG_DFL)
    gc.freeze()  # modules and the model live as long as the process
    gc.set_threshold(700, 10, 10)  # not the rare ones of the command, with which dropped memos stay in memory
    die_with_parent()
    _WORKER_REPLAYER.append(_make_file_replayer(protocol, json.loads(arguments)))


def _replay_files_to_tables(staging: dict[str, str], part: int, paths: list[str]) -> None:
    writer = StagingTablesWriter(staging.__getitem__, part)
    for path in paths:
        for found in _WORKER_REPLAYER[0].rows(path):
            writer.write(path, found)
    writer.close()


def write_coverage_and_summarise(folder: PipelineFolder, protocol: Protocol, new_files: int) -> PipelineSummary:
    """Write the coverage table, and return the summary of all files that count; one batch is in memory at a time."""
    totals = dict.fromkeys([*protocol.actions, *protocol.network.own_actions()], 0)
    verdicts = Counter[str]()
    states, errors, traces = DistinctStateCounter(), 0, 0
    diverging, unreadable = list[dict[str, Any]](), list[dict[str, Any]]()
    staging = Path(folder.staging(COVERAGE_FOLDER))
    staging.mkdir(parents=True)
    with pq.ParquetWriter(staging / _COVERAGE_FILE, _COVERAGE_SCHEMA) as coverage:
        for taken in _yield_batch_coverage_and_add_states(folder, states):
            coverage.write_table(taken)
            for row in taken.group_by("action", use_threads=False).aggregate([("times", "sum")]).to_pylist():
                totals[row["action"]] = totals.get(row["action"], 0) + row["times_sum"]
        whole = [{"action": name, "times": times} for name, times in totals.items()]
        coverage.write_table(pa.Table.from_pylist(whole, _COVERAGE_SCHEMA))
    folder.replace_coverage()
    for part in chain.from_iterable(
        _current_rows_by_batch(folder, "traces", "file", "index", "verdict", "diverged_step", "reason")
    ):
        traces += len(part)
        verdicts.update(part["verdict"].to_pylist())
        wrong = part.filter(pc.is_in(part["verdict"], pa.array(["diverges", "refuted"])))
        diverging = _merge_first_problem_rows(diverging, wrong)
    for part in chain.from_iterable(
        _current_rows_by_batch(folder, "errors", "file", "index", "line", "column", "message")
    ):
        errors += len(part)
        unreadable = _merge_first_problem_rows(unreadable, part)
    return PipelineSummary(
        files=folder.counted(),
        new_files=new_files,
        traces=traces,
        steps=sum(totals.values()),
        verdicts=dict(sorted(verdicts.items())),
        errors=errors,
        distinct_states=states.count(),
        actions=totals,
        diverging=[_row_values(row, "file", "index", "diverged_step", "reason") for row in diverging],
        unreadable=[_row_values(row, "file", "line", "column", "message") for row in unreadable],
    )


class DistinctStateCounter:
    """Counts distinct states. It merges new ones once they are as many as the known ones."""

    def __init__(self) -> None:
        self._known = pa.array([], pa.binary())
        self._new: list[Any] = []

    def add(self, states: Any) -> None:
        """Add a column of states."""
        self._new.append(pc.unique(states))
        if sum(map(len, self._new)) > max(len(self._known), 100_000):
            self.count()

    def count(self) -> int:
        """Return the number of distinct states so far."""
        self._known, self._new = pc.unique(pa.chunked_array([self._known, *self._new], pa.binary())), []
        return len(self._known)


def _yield_batch_coverage_and_add_states(folder: PipelineFolder, states: DistinctStateCounter) -> Iterator[Any]:
    """Yield the rows of the coverage table for each batch; add the states to `states`."""
    for parts in _current_rows_by_batch(folder, "steps", "file", "index", "action", "state"):
        counted = [_COVERAGE_SCHEMA.empty_table()]
        for part in parts:
            states.add(part["state"])
            steps = part.filter(pc.is_valid(part["action"]))
            counted.append(_coverage_rows(_aggregate_by_trace_and_action(steps, ([], "count_all"))))
        yield _coverage_rows(_aggregate_by_trace_and_action(pa.concat_tables(counted), ("times", "sum")))


def _aggregate_by_trace_and_action(rows: Any, what: Any) -> Any:
    return rows.group_by(["file", "index", "action"], use_threads=False).aggregate([what])


def _coverage_rows(grouped: Any) -> Any:
    """Return groups and their numbers as rows of the coverage table."""
    columns = [grouped[name] for name in ("file", "index", "action")]
    number = next(name for name in ("count_all", "times_sum") if name in grouped.column_names)
    return pa.table([*columns, grouped[number]], _COVERAGE_SCHEMA.names).cast(_COVERAGE_SCHEMA)


def _current_rows_by_batch(folder: PipelineFolder, name: str, *columns: str) -> Iterator[Iterator[Any]]:
    """Yield the rows of a table that count, batch by batch, each as columns of some rows after the other."""
    outdated = dict[int, list[str]]()
    for file, batch in folder.outdated():
        outdated.setdefault(batch, []).append(file)
    for place in sorted((folder.path / name).glob("batch=*")):
        old = pa.array(escape_surrogates(outdated.get(int(place.name.partition("=")[2]), [])), pa.string())
        rows = chain.from_iterable(
            _read_parquet_in_chunks(path, list(columns)) for path in sorted(place.glob("*.parquet"))
        )
        yield (part.filter(pc.invert(pc.is_in(part["file"], old))) if len(old) else part for part in rows)


def _read_parquet_in_chunks(path: Path, columns: list[str]) -> Iterator[Any]:
    """Yield columns of a Parquet file, some rows at a time. A thread for each column would take more memory."""
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(STEPS_A_CHUNK, columns=columns, use_threads=False):
            yield pa.Table.from_batches([batch])


def _merge_first_problem_rows(shown: list[dict[str, Any]], part: Any) -> list[dict[str, Any]]:
    """Return the first rows, by file and trace, of some rows and of a table."""
    order = [("file", "ascending"), ("index", "ascending")]
    schema = part.schema
    return list(
        pa.concat_tables([pa.Table.from_pylist(shown, schema), part])
        .sort_by(order)
        .slice(0, MOST_SHOWN_PROBLEMS)
        .to_pylist()
    )


def _row_values(row: Mapping[str, Any], *names: str) -> Any:
    return tuple(row[name] for name in names)


@lru_cache(maxsize=1)
def _cached_replayer(arguments: str) -> FileReplayer:
    """Return the replayer of this process, which shares its memoised results among files."""
    given = json.loads(arguments)
    protocol, options = from_spec(given["description"], Path(given["user_files"]))
    return _make_file_replayer(protocol, given | {"init": options.init})


def _make_file_replayer(protocol: Protocol, given: dict[str, Any]) -> FileReplayer:
    """Return the replayer with the arguments of `file_replayer_arguments`."""
    asked = given.get("fairness", ())
    fairness = [Fairness(one["kind"], tuple(one["actions"]), one["each"], one["when"]) for one in asked]
    made_under = given["symmetry"], given["limit_bytes"], given.get("seen_as")
    more = TraceLimits(given.get("seconds"), given.get("memory")), given.get("model", ""), given.get("label")
    return FileReplayer(protocol, given["init"], *made_under, fairness, *more)


def replay_files_to_rows(arguments: dict[str, Any], batches: Iterator[Any]) -> Iterator[Any]:
    """Replay the files in `batches`, given by their paths or with their content, and yield the rows of all tables."""
    replayer, schema = _cached_replayer(compact_json(arguments)), pa.schema(arrow_fields_of_ddl(COMBINED_COLUMNS))
    waiting: list[dict[str, Any]] = []
    for batch in batches:
        for row in zip(*batch.columns, strict=True):
            file, *content = (value.as_py() or kind() for value, kind in zip(row, (str, bytes), strict=False))
            for found in replayer.rows(file, *content):
                for table in TABLE_COLUMNS:
                    waiting += [{"record": table, "file": file, **more} for more in getattr(found, table)]
                if len(waiting) >= STEPS_A_CHUNK:
                    yield _arrow_rows(pa.RecordBatch, waiting, schema)
                    waiting.clear()
    yield _arrow_rows(pa.RecordBatch, waiting, schema)

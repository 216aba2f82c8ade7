"""The pipeline's tables without Spark, written with PyArrow by `kraftcheck replay --parquet`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from kraftcheck.explorer.result import SearchRequest
from kraftcheck.explorer.search_spec import compact_json, from_spec
from kraftcheck.spec.language.formula import Fairness
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.traces.pipeline.driver import COVERAGE, SHOWN, InputFile, PipelineFolder, Summary, identity_of
from kraftcheck.traces.pipeline.rows import COLUMNS, STEPS_A_ROW, FileReplayer, RowMaker
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


def fields_of(table: str) -> list[tuple[str, Any]]:
    """Return the names and Arrow types of a table's columns, except the file."""
    declared = [column.split(" ") for column in COLUMNS[table].split(", ")]
    return [(name, _TYPES[kind]) for name, kind in declared]


class ReplayTables:
    """Writes the results of traces into the tables of a pipeline's folder, as one batch.

    Files of earlier batches and repeated files are skipped. `kraftcheck pipeline` can continue the folder.
    """

    def __init__(self, path: Path, protocol: Protocol, options: SearchRequest) -> None:
        self._protocol = protocol
        self._folder = PipelineFolder(path, identity_of(protocol, options), option="--parquet")
        self._done = self._folder.done()
        self._batch = self._folder.next_batch()
        self._maker = RowMaker()
        self._files: dict[str, InputFile] = {}
        self._written: set[tuple[str, int]] = set()  # pairs of file and trace
        self._writers: dict[str, Any] = {}
        self._began = self._mark = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Finish the batch unless an error was raised."""
        with self._folder:
            for writer in self._writers.values():
                writer.close()
            if kind is None and self._writers:
                self._folder.accept(self._batch, self._files.values(), time.monotonic() - self._began)
                self._summarise(len(self._files))

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
            for table in COLUMNS:
                self._write(table, file.path, getattr(rows, table))

    def _write(self, table: str, file: str, rows: list[dict[str, Any]]) -> None:
        schema = pa.schema([_FILE, *fields_of(table)])
        if table not in self._writers:
            folder = Path(self._folder.staging(table))
            folder.mkdir(parents=True)
            self._writers[table] = pq.ParquetWriter(folder / _PART, schema)
        for first in range(0, len(rows), STEPS_A_ROW):
            some = [{"file": file, **row} for row in rows[first : first + STEPS_A_ROW]]
            self._writers[table].write_table(pa.Table.from_pylist(some, schema))

    def _table(self, name: str, columns: list[str]) -> Any:
        return ds.dataset(self._folder.path / name, format="parquet").to_table(columns)

    def _rows(self, name: str, *columns: str) -> list[dict[str, Any]]:
        order = [("file", "ascending"), ("index", "ascending")]
        rows: list[dict[str, Any]] = self._table(name, ["file", "index", *columns]).sort_by(order).to_pylist()
        return rows

    def _summarise(self, new_files: int) -> None:
        """Write the coverage table and the summary of all batches."""
        protocol = self._protocol
        steps = self._table("steps", ["file", "index", "action", "state"])
        taken = (
            steps.filter(pc.is_valid(steps["action"]))
            .group_by(["file", "index", "action"])
            .aggregate([([], "count_all")])
        )
        totals = dict.fromkeys([*protocol.actions, *protocol.network.own_actions()], 0)
        rows = taken.rename_columns({"count_all": "times"}).to_pylist()
        for row in rows:
            totals[row["action"]] = totals.get(row["action"], 0) + row["times"]
        rows += [{"file": None, "index": None, "action": name, "times": times} for name, times in totals.items()]
        folder = Path(self._folder.staging(COVERAGE))
        folder.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows, _COVERAGE), folder / _PART)
        self._folder.replace_coverage()
        order = [("file", "ascending"), ("index", "ascending")]
        traces = (
            self._table("traces", ["file", "index", "verdict", "diverged_step", "reason"]).sort_by(order).to_pylist()
        )
        errors = self._table("errors", ["file", "index", "line", "column", "message"]).sort_by(order).to_pylist()
        verdicts = [row["verdict"] for row in traces]
        diverging = [row for row in traces if row["verdict"] in ("diverges", "refuted")][:SHOWN]
        summary = Summary(
            files=len(self._folder.done()),
            new_files=new_files,
            traces=len(traces),
            steps=sum(totals.values()),
            verdicts={verdict: verdicts.count(verdict) for verdict in sorted(set(verdicts))},
            errors=len(errors),
            distinct_states=pc.count_distinct(steps["state"]).as_py(),
            actions=totals,
            diverging=[_values(row, "file", "index", "diverged_step", "reason") for row in diverging],
            unreadable=[_values(row, "file", "line", "column", "message") for row in errors[:SHOWN]],
        )
        summary.keep(self._folder)


def _values(row: Mapping[str, Any], *names: str) -> Any:
    return tuple(row[name] for name in names)


SCHEMA = pa.schema([("file", pa.string()), *((table, pa.list_(pa.struct(fields_of(table)))) for table in COLUMNS)])


@lru_cache(maxsize=1)
def _replayer(arguments: str) -> FileReplayer:
    """Return the replayer of this process, which shares its memoised results among files."""
    given = json.loads(arguments)
    protocol, options = from_spec(given["description"], Path(given["user_files"]))
    asked = given.get("fairness", ())
    fairness = [Fairness(one["kind"], tuple(one["actions"]), one["each"], one["when"]) for one in asked]
    made_under = given["symmetry"], given["limit_bytes"], given.get("seen_as")
    return FileReplayer(protocol, options.init, *made_under, fairness)


def replay_files(arguments: dict[str, Any], batches: Iterator[Any]) -> Iterator[Any]:
    """Replay the files in `batches` and yield their rows."""
    replayer = _replayer(compact_json(arguments))
    for batch in batches:
        for path in batch.column(0).to_pylist():
            for found in replayer.rows(path):
                rows = {"file": [path], **{table: [getattr(found, table)] for table in COLUMNS}}
                yield pa.RecordBatch.from_pydict(rows, schema=SCHEMA)

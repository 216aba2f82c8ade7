"""The driver of the pipeline: replay of traces in batches, with Parquet tables on Spark or a table per file.

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

import errno
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from glob import glob
from hashlib import blake2b
from itertools import filterfalse
from pathlib import Path
from typing import Any, NamedTuple
from typing import Protocol as Protocol_

from kraftcheck.explorer.checkpoint import identity_of_search
from kraftcheck.explorer.result import SearchRequest
from kraftcheck.explorer.search_spec import compact_json, to_spec
from kraftcheck.files import make_folder_refusing_link, real_path, remove_path, require_local_path
from kraftcheck.persistence.folder import BatchFolder, BatchNote, Identity, read_batch_note, write_batch_note
from kraftcheck.processes import InterruptHandler
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.traces.parsing import DEFAULT_LIMIT_BYTES
from kraftcheck.traces.pipeline.rows import TABLE_COLUMNS, escape_surrogates

COVERAGE_FOLDER, STAGING_FOLDER, SUMMARY_FILE = "coverage", "staging", "summary.json"

BATCH_NOTE_SHAPE: dict[str, Any] = {"seconds": float, "files": [(str, int, int)], "rows": {str: int}}
SUMMARY_SHAPE: dict[str, Any] = {
    **dict.fromkeys(("batches", "files", "new_files", "traces", "steps", "errors", "distinct_states"), int),
    "verdicts": {str: int},
    "actions": {str: int},
    "diverging": [(str, object, object, str)],
    "unreadable": [(str, object, object, str)],
}
"""The shapes of summary notes (see `require_json_shape`)."""


_REMOVED_FILE_ERRNOS = (errno.ENOENT, errno.ENOTDIR)
"""The errors for a file that was removed since it was listed."""


class InputFile(NamedTuple):
    """A file to replay."""

    path: str  # absolute, for every executor
    size: int  # in bytes
    modified: int  # modification time in nanoseconds


def find_input_files(names: Iterable[str], out: Path, *, least: int = 1) -> list[InputFile]:
    """Return the input files of arguments: files, folders (recursively), and glob patterns; `least` of each."""
    found: dict[str, InputFile] = {}
    own = os.path.realpath(out)
    within = os.path.join(own, "")
    resolved = lru_cache(maxsize=100)(os.path.realpath)  # a look at each part of a path, so once for a folder's files
    for name in names:
        require_local_path(name)
        number = 0
        for number, path in enumerate(_file_paths_of_argument(name), start=1):  # noqa: B007
            folder, last = os.path.split(path)
            file = input_file_or_none(os.path.join(resolved(folder), last))
            if file is not None and file.path != own and not file.path.startswith(within):
                found[file.path] = file
        if number < least:
            raise InputError(f"{name}: no files; give a file, a folder, or a glob pattern that matches files")
    return [found[path] for path in sorted(found)]


def input_file_or_none(path: str) -> InputFile | None:
    """Return the file of a path in a resolved folder, a link to no file, or a pipe; None for no such path."""
    try:
        status = os.lstat(path)
    except OSError as error:
        if error.errno in _REMOVED_FILE_ERRNOS:
            return None
        raise
    if stat.S_ISLNK(status.st_mode):
        with suppress(OSError):  # the link itself stands for a missing target, so that its replay is an error
            target = os.path.realpath(path)
            status, path = os.stat(target), target
    return None if stat.S_ISDIR(status.st_mode) else InputFile(path, status.st_size, status.st_mtime_ns)


def _is_input_still_there(path: str) -> bool:
    """Whether an earlier input is still there: a link that has got a target stands for no input of its own."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISDIR(mode) and not (stat.S_ISLNK(mode) and os.path.exists(path))


def _file_paths_of_argument(name: str) -> Iterator[str]:
    """Yield paths as text, which takes less memory than `Path` where there are many."""
    if os.path.isdir(name):
        for folder, folders, files in os.walk(name):
            folders[:] = sorted(f for f in folders if not f.startswith("."))
            yield from (os.path.join(folder, file) for file in sorted(files) if not file.startswith((".", "_")))
    elif os.path.lexists(name):
        yield name
    else:
        yield from filterfalse(os.path.isdir, sorted(glob(name, recursive=True)))


def poll_unchanged_input_files(names: Iterable[str], out: Path) -> Iterator[list[InputFile]]:
    """Yield the files of folders again and again: those that are as they were the time before, so written to the end.

    The time between is `POLL_SECONDS`, or that of the last round if it took longer.
    """
    for name in names:
        require_local_path(name)
        if not Path(name).is_dir():
            raise InputError(f"--follow: expected a folder, found {name}; give the folder in which files arrive")
    before: set[InputFile] = set()
    while True:
        began = time.monotonic()
        now = find_input_files(names, out, least=0)
        yield [file for file in now if file in before]
        before = set(now)
        time.sleep(max(POLL_SECONDS, time.monotonic() - began))


def identity_of_output(protocol: Protocol, options: SearchRequest) -> Identity:
    """Return the identity of an output folder: model, source, constants and start."""
    identity = identity_of_search(protocol, options)
    return {name: identity[name] for name in ("model", "source", "constants", "symmetry", "start")}


def identity_digest(identity: Identity) -> str:
    """Return the column `model` of the table of traces, which differs where an identity does."""
    return blake2b(compact_json(identity).encode(), digest_size=8).hexdigest()


class PipelineFolder(BatchFolder):
    """The output folder of the pipeline. See `BatchFolder`."""

    OTHER = "it belongs to another run (choose another folder)"
    LATE = True

    def __init__(self, path: Path, identity: Identity, option: str = "--out", *, verify: bool = False) -> None:
        """Open the folder; `verify` reads all rows rather than their number alone."""
        whole = str(real_path(path))
        if escape_surrogates(whole) != whole:
            raise InputError(f"{option} {path}: expected a path in UTF-8, as Parquet needs it; give another folder")
        super().__init__(path, identity, option)
        with self.closed_on_error():
            self._notes = {int(note.stem): _read_batch_note(note) for note in self.note_files()}
            if self.manifest is not None:
                self._clean_up()
            for batch, note in self._notes.items():
                self._require_rows(batch, note, read=verify)

    def claim(self) -> None:
        """Make the folder that of this run, with the folders of the tables."""
        super().claim()
        for table in TABLE_COLUMNS:
            make_folder_refusing_link(self.path / table)

    def _clean_up(self) -> None:
        """Remove the staging folder and batches without a note."""
        remove_path(self.path / STAGING_FOLDER)
        for table in TABLE_COLUMNS:
            for batch in (self.path / table).glob("batch=*"):
                number = batch.name.partition("=")[2]
                if not (number.isdecimal() and int(number) in self._notes):
                    remove_path(batch)

    def _require_rows(self, batch: int, note: BatchNote, *, read: bool) -> None:
        """Raise InputError unless the tables have the rows of a finished batch."""
        for table, expected in note.get("rows", {}).items():
            try:
                found = count_parquet_rows(self.path / table / f"batch={batch:05}", read=read)
            except (OSError, ValueError) as error:  # pyarrow's errors are such
                raise self.damaged(f"{table}, batch {batch}: {error}{self._mend(batch)}") from None
            if found != expected:
                problem = f"expected {expected:,} rows, found {found:,}"
                raise self.damaged(f"{table}, batch {batch}: {problem}{self._mend(batch)}")

    def _mend(self, batch: int) -> str:
        return f"; remove {self.note_file(self.path, batch)} to replay the files of the batch"

    def _newest(self) -> dict[str, int]:
        """Return the newest batch of each file."""
        return {file.path: batch for batch, file in self._replayed()}

    def _replayed(self) -> Iterator[tuple[int, InputFile]]:
        """Yield each file of each batch."""
        return ((batch, file) for batch, note in self._notes.items() for file in note["files"])

    def done(self) -> set[InputFile]:
        """Return the files of finished batches, as they were when they were last replayed."""
        newest = self._newest()
        return {file for batch, file in self._replayed() if newest[file.path] == batch}

    def counted(self) -> int:
        """Return the number of files that count: those that are still there."""
        return sum(map(_is_input_still_there, self._newest()))

    def outdated(self) -> list[tuple[str, int]]:
        """Return the pairs of file and batch that no longer count: the file was replayed again later, or is gone."""
        newest = {path: batch for path, batch in self._newest().items() if _is_input_still_there(path)}
        return [(file.path, batch) for batch, file in self._replayed() if newest.get(file.path) != batch]

    def next_batch(self) -> int:
        """Return the number of the next batch."""
        return 1 + max(self._notes, default=0)

    def staging(self, name: str) -> str:
        """Return the staging folder of a table, which readers of the tables ignore."""
        return str(real_path(self.path / STAGING_FOLDER / name))

    def accept(self, batch: int, files: Iterable[InputFile], seconds: float) -> None:
        """Turn the staging folders of the three tables into a finished batch; note its duration in seconds."""
        rows = {table: count_parquet_rows(Path(self.staging(table))) for table in TABLE_COLUMNS}
        for table in TABLE_COLUMNS:
            Path(self.staging(table)).rename(self.path / table / f"batch={batch:05}")
        note = {"seconds": round(seconds, 3), "files": list(files), "rows": rows}
        write_batch_note(self.note_file(self.path, batch), note)
        self._notes[batch] = note
        remove_path(self.path / STAGING_FOLDER)

    def keep_summary(self, summary: BatchNote) -> None:
        """Write the summary of all finished batches."""
        write_batch_note(self.path / SUMMARY_FILE, {"batches": len(self._notes), **summary})

    def kept_summary(self) -> BatchNote | None:
        """Return the summary of all files; None if it is older than the last batch, or a file has gone since."""
        path = self.path / SUMMARY_FILE
        note = read_batch_note(path, SUMMARY_SHAPE) if path.is_file() else {}
        is_new = note.pop("batches", 0) == len(self._notes) and note.get("files") == self.counted()
        return note if is_new and note else None

    def replace_coverage(self) -> None:
        """Replace the coverage table by the one in its staging folder."""
        remove_path(self.path / COVERAGE_FOLDER)
        Path(self.staging(COVERAGE_FOLDER)).rename(self.path / COVERAGE_FOLDER)
        remove_path(self.path / STAGING_FOLDER)


def _read_batch_note(note: Path) -> BatchNote:
    """Read the note of a batch; older ones have no number of rows."""
    found = read_batch_note(note)
    found = read_batch_note(
        note, BATCH_NOTE_SHAPE if "rows" in found else {name: BATCH_NOTE_SHAPE[name] for name in ("seconds", "files")}
    )
    return found | {"files": [InputFile(*entry) for entry in found["files"]]}


def count_parquet_rows(folder: Path, *, read: bool = False) -> int:
    """Return the number of rows of a folder's Parquet files, as their footers say, or as found by reading them."""
    files = sorted(folder.glob("*.parquet"))
    if not files:
        return 0
    from pyarrow import parquet

    if not read:
        return sum(parquet.read_metadata(path).num_rows for path in files)
    return sum(len(batch) for path in files for batch in parquet.ParquetFile(path).iter_batches())


POLL_SECONDS = 2.0
"""Seconds between two looks at the folders of `--follow`."""

FILES_A_BATCH = 4_000
"""Files per batch: the maximum to replay again after a killed run."""

MOST_FILES_A_BATCH = 1_000_000

MOST_SHOWN_PROBLEMS = 10
"""Maximum number of diverging traces and of errors in the summary."""

TASKS_A_CORE = 4
"""Tasks per core. Small tasks balance the load of long traces."""


@dataclass
class PipelineSummary:
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

    def keep(self, output: BatchStore) -> None:
        """Write the summary to the folder, so a run without new files need not read the tables."""
        output.keep_summary(asdict(self))

    @classmethod
    def kept(cls, output: PipelineFolder) -> PipelineSummary | None:
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


class BatchRunner(Protocol_):
    """Replays the files of a batch, on Spark or in worker processes of this machine."""

    files_a_batch: int

    def write(self, batch: int, files: list[InputFile]) -> None:
        """Write the tables of some files into the staging folders."""

    def summary(self, new_files: int) -> PipelineSummary:
        """Write the coverage table, and return the summary of all files that count."""

    def cancel(self) -> None:
        """Stop what runs, until the runner is closed; called from another thread."""

    def require_running(self) -> None:
        """Raise ProcessFailureError if a process that replays files has ended while it was idle."""


class BatchStore(Protocol_):
    """Keeps the batches of a pipeline. See `PipelineFolder`."""

    def done(self) -> set[InputFile]:
        """Return the files of finished batches, as they were when they were last replayed."""

    def next_batch(self) -> int:
        """Return the number of the next batch."""

    def claim(self) -> None:
        """Claim the output for this run, before the first batch."""

    def accept(self, batch: int, files: Iterable[InputFile], seconds: float) -> None:
        """Finish the batch: its rows count from now on."""

    def keep_summary(self, summary: BatchNote) -> None:
        """Write the summary of all finished batches."""


class Pipeline:
    """Replays new files in batches."""

    def __init__(self, runner: BatchRunner, output: BatchStore) -> None:
        self._runner = runner
        self._output = output

    def run(self, inputs: Iterable[InputFile], report: Callable[[int], None] | None = None) -> PipelineSummary:
        """Replay the new files and return the summary of all files."""
        with InterruptHandler(self._runner.cancel) as interruption:
            try:
                summary = self._run(inputs, report, interruption)
            except Exception:  # the error of a cancelled job
                if interruption.asked:
                    raise KeyboardInterrupt from None
                raise
        if interruption.asked:  # while the summary was computed
            raise KeyboardInterrupt
        return summary

    def _run(
        self, inputs: Iterable[InputFile], report: Callable[[int], None] | None, interruption: InterruptHandler
    ) -> PipelineSummary:
        done, output = self._output.done(), self._output
        new = [file for file in inputs if file not in done]
        at_once = self._runner.files_a_batch
        for first in range(0, len(new), at_once):
            files, batch, began = new[first : first + at_once], output.next_batch(), time.monotonic()
            output.claim()
            self._runner.write(batch, files)
            output.accept(batch, files, time.monotonic() - began)
            if report is not None:
                report(first + len(files))
            if interruption.asked:
                raise KeyboardInterrupt
        summary = self._runner.summary(len(new))
        summary.keep(output)
        return summary


def partition_by_size(files: Iterable[InputFile], tasks: int) -> list[list[str]]:
    """Return the paths of files in `tasks` lists, balanced by file size."""
    by_size = sorted(files, key=lambda file: (-file.size, file.path))
    return [[file.path for file in by_size[first::tasks]] for first in range(tasks)]


def file_replayer_arguments(
    protocol: Protocol, options: SearchRequest, *, limit_bytes: int = DEFAULT_LIMIT_BYTES, seen_as: str | None = None,
    seconds: float | None = None, memory: int | None = None, label: str | None = None,
) -> str:  # fmt: skip
    """Return the arguments of a task as JSON. See `FileReplayer`."""
    description = to_spec(protocol, SearchRequest(init=options.init))
    fairness = [asdict(one) for one in options.fairness]
    made_under = {"init": options.init, "symmetry": options.symmetry, "seen_as": seen_as, "fairness": fairness}
    more = {
        "seconds": seconds,
        "memory": memory,
        "model": identity_digest(identity_of_output(protocol, options)),
        "label": label,
    }
    return compact_json({"description": description, "limit_bytes": limit_bytes, **made_under, **more})

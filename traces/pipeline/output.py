"""The pipeline's output folder: tables in Parquet that grow by batches, and a note for each batch.

    traces/batch=00001/*.parquet      one row a trace
    steps/batch=00001/*.parquet       one row a state that conforms
    errors/batch=00001/*.parquet      one row for what could not be read
    coverage/*.parquet                how often each action was taken, by trace and in total
    done/00001.json                   the files of a batch, which counts from then on
    pipeline.json                     the model and constants of all batches
    summary.json                      the summary of the batches that were done when it was made

A killed run leaves behind only what has no note under `done/`. The next run removes it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from glob import glob
from pathlib import Path
from typing import Any, NamedTuple

from kraftcheck.explorer.checkpoints.search_identity import SearchIdentity, identity_of_search
from kraftcheck.explorer.result import Options
from kraftcheck.files import make_folder, real_path, remove
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.traces.batch_folder import BatchFolder, Note, read_note, write_note
from kraftcheck.traces.pipeline.rows import COLUMNS

FORMAT = 1
COVERAGE, STAGING, SUMMARY = "coverage", "staging", "summary.json"

BATCH = {"seconds": float, "files": [(str, int, int)]}
SUMMARIES: dict[str, Any] = {
    **dict.fromkeys(("batches", "files", "new_files", "traces", "steps", "errors", "distinct_states"), int),
    "verdicts": {str: int},
    "actions": {str: int},
    "diverging": [(str, object, object, str)],
    "unreadable": [(str, object, object, str)],
}
"""The forms of notes: see `require_shape`."""


class InputFile(NamedTuple):
    """A file to replay."""

    path: str  # absolute, so that every executor finds it
    size: int  # its size in bytes
    modified: int  # the time of its last change, in nanoseconds


def inputs_of(names: Iterable[str], out: Path) -> list[InputFile]:
    """Return the files that arguments name: files, folders (searched through), and glob patterns."""
    found: dict[str, InputFile] = {}
    for name in names:
        paths = list(_paths(name))
        if not paths:
            raise InputError(f"{name}: expected a file, a folder with files, or a pattern that some files match")
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


def identity_of(protocol: Protocol, options: Options) -> SearchIdentity:
    """Return what must agree between the runs over one folder: the model, its source, constants, and the start."""
    identity = identity_of_search(protocol, options)
    return {name: identity[name] for name in ("model", "source", "constants", "symmetry", "start")}


class PipelineFolder(BatchFolder):
    """The output folder of the pipeline. See `BatchFolder`."""

    IDENTITY, OTHER = "pipeline.json", "it belongs to another run (choose another folder)"

    def __init__(self, path: Path, identity: SearchIdentity, option: str = "--out") -> None:
        self.OPTION = option
        super().__init__(path, {"format": FORMAT, **identity})

    def clean_up(self) -> None:
        """Make the tables' folders; remove the staging folder, and batches that have no note."""
        remove(self.path / STAGING)
        for table in COLUMNS:
            make_folder(self.path / table)
            for batch in (self.path / table).glob("batch=*"):
                number = batch.name.partition("=")[2]
                if not (number.isdecimal() and self.note_file(self.path, int(number)).exists()):
                    remove(batch)

    def done(self) -> set[InputFile]:
        """Return the files of all batches that are done."""
        return {InputFile(*entry) for note in self.note_files() for entry in read_note(note, BATCH)["files"]}

    def next_batch(self) -> int:
        """Return the number of the next batch."""
        return 1 + max((int(note.stem) for note in self.note_files()), default=0)

    def staging(self, name: str) -> str:
        """Return a folder to write to, out of sight of those who read the tables."""
        return str((self.path / STAGING / name).resolve())

    def accept(self, batch: int, files: Iterable[InputFile], seconds: float) -> None:
        """Make the staging folders of the three tables, written in so many seconds, a batch that counts."""
        for table in COLUMNS:
            Path(self.staging(table)).rename(self.path / table / f"batch={batch:05}")
        note = {"seconds": round(seconds, 3), "files": [list(entry) for entry in files]}
        write_note(self.note_file(self.path, batch), note)
        remove(self.path / STAGING)

    def keep_summary(self, summary: Note) -> None:
        """Note the summary of all batches that are done."""
        write_note(self.path / SUMMARY, {"batches": len(self.note_files()), **summary})

    def kept_summary(self) -> Note | None:
        """Return the summary of all batches that are done, or None where it was not noted since the last one."""
        path = self.path / SUMMARY
        note = read_note(path, SUMMARIES) if path.is_file() else {}
        return note if note.pop("batches", 0) == len(self.note_files()) and note else None

    def replace_coverage(self) -> None:
        """Put the coverage in its staging folder in the place of the old one."""
        remove(self.path / COVERAGE)
        Path(self.staging(COVERAGE)).rename(self.path / COVERAGE)
        remove(self.path / STAGING)

"""The pipeline's output folder: tables in Parquet that grow by batches, and notes of what is done.

    traces/batch=00001/*.parquet      one row a trace
    steps/batch=00001/*.parquet       one row a state that conforms
    errors/batch=00001/*.parquet      one row for what could not be read
    coverage/*.parquet                how often each action was taken, by trace and in total
    done/00001.json                   the files of a batch: with it, and not before, the batch counts
    pipeline.json                     whose folder it is

What a run that was killed left behind has no note under `done/`, and is removed by the next.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from glob import glob
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from kraftcheck.files import InUseError, lock_file
from kraftcheck.spec.errors import InputError
from kraftcheck.traces.notes import read_note, write_note

FORMAT = 1
TABLES = ("traces", "steps", "errors")
COVERAGE, STAGING, DONE, IDENTITY, LOCK = "coverage", "staging", "done", "pipeline.json", "lock"


class Input(NamedTuple):
    """A file to replay.

    Attributes
    ----------
    path
        Absolute, so that every executor finds it.
    size
        In bytes.
    modified
        When it was changed last, in nanoseconds.
    """

    path: str
    size: int
    modified: int


def inputs_of(names: Iterable[str], out: Path) -> list[Input]:
    """Return the files that arguments name: files, folders (searched through), and glob patterns.

    Parameters
    ----------
    names
        The arguments.
    out
        The output folder, whose own files are no input.

    Raises
    ------
    InputError
        For a name that there is no file for.
    """
    found: dict[str, Input] = {}
    for name in names:
        paths = list(_paths(name))
        if not paths:
            raise InputError(f"{name}: expected a file, a folder with files, or a pattern that some files match")
        for path in paths:
            absolute = path.resolve()
            if absolute.is_relative_to(out.resolve()):
                continue
            status = absolute.stat()
            found[str(absolute)] = Input(str(absolute), status.st_size, status.st_mtime_ns)
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


class Output:
    """The output folder, held by this process alone.

    Parameters
    ----------
    folder
        The folder; made where it is not there.
    identity
        What must agree between all runs over it: the model and its source, the constants.

    Raises
    ------
    InputError
        Where it is in use, holds something else, or belongs to another model.
    """

    def __init__(self, folder: Path, identity: dict[str, Any]) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = lock_file(folder / LOCK)
        except InUseError as error:
            raise InputError(f"--out {folder}: it is in use by another run (process {error.owner})") from None
        except OSError as error:
            raise InputError(f"--out {folder}: expected a folder that can be written to: {error.strerror}") from None
        try:
            self._take(identity)
        except BaseException:
            self._lock.close()
            raise

    def _take(self, identity: dict[str, Any]) -> None:
        path = self.folder / IDENTITY
        if not path.exists():
            strangers = sorted(entry.name for entry in self.folder.iterdir() if entry.name != LOCK)
            if strangers:
                raise InputError(
                    f"--out {self.folder}: expected a new folder, or one of an earlier run; found {strangers[0]} in it"
                )
            write_note(path, {"format": FORMAT, **identity})
        found = read_note(path)
        for name, value in {"format": FORMAT, **identity}.items():
            if found.get(name) != value:
                raise InputError(
                    f"--out {self.folder}: it belongs to another run: {_difference(name, found.get(name), value)}; "
                    "choose another folder"
                )
        self.remove(STAGING)
        for table in TABLES:
            for batch in (self.folder / table).glob("batch=*"):
                if not self._note(int(batch.name.partition("=")[2])).exists():
                    shutil.rmtree(batch)

    def _note(self, batch: int) -> Path:
        return self.folder / DONE / f"{batch:05}.json"

    def done(self) -> set[Input]:
        """Return the files of every batch that is done."""
        notes = sorted((self.folder / DONE).glob("*.json"))
        return {Input(*entry) for note in notes for entry in read_note(note)["files"]}

    def next_batch(self) -> int:
        """Return the number of the next batch."""
        return 1 + max((int(note.stem) for note in (self.folder / DONE).glob("*.json")), default=0)

    def staging(self, name: str) -> str:
        """Return a folder to write to, out of sight of those who read the tables."""
        return str((self.folder / STAGING / name).resolve())

    def remove(self, name: str) -> None:
        """Remove a folder."""
        shutil.rmtree(self.folder / name, ignore_errors=True)

    def accept(self, batch: int, files: Iterable[Input], seconds: float) -> None:
        """Make what was written to the staging folders of the three tables, in so many seconds, a batch that counts."""
        for table in TABLES:
            (self.folder / table).mkdir(exist_ok=True)
            Path(self.staging(table)).rename(self.folder / table / f"batch={batch:05}")
        (self.folder / DONE).mkdir(exist_ok=True)
        write_note(self._note(batch), {"seconds": round(seconds, 3), "files": [list(entry) for entry in files]})
        self.remove(STAGING)

    def replace_coverage(self) -> None:
        """Put the coverage that was written to its staging folder in the place of the old one."""
        self.remove(COVERAGE)
        Path(self.staging(COVERAGE)).rename(self.folder / COVERAGE)
        self.remove(STAGING)

    def close(self) -> None:
        """Let other processes have the folder."""
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _difference(name: str, was: Any, now: Any) -> str:
    if isinstance(was, dict) and isinstance(now, dict):
        names = sorted(key for key in {*was, *now} if was.get(key) != now.get(key))
        return f"{name} differs in {', '.join(names)}"
    return f"{name} was {was}, is now {now}"

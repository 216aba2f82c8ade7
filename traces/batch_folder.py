"""Folders that runs fill batch by batch, and go on with after they were killed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar, Self

from kraftcheck.explorer.checkpoints.search_identity import SearchIdentity, differences
from kraftcheck.explorer.checkpoints.shapes import Damaged, require_shape
from kraftcheck.files import UNFINISHED, InUseError, lock_file, make_folder, remove_unfinished, replacing
from kraftcheck.spec.errors import InputError

DONE, LOCK = "done", "lock"

Note = dict[str, Any]


class BatchFolder:
    """An output folder, locked by this process.

    It holds an identity, which says what its runs are about, and a note for each batch that is done: `done/00001.json`.
    A batch counts with its note, and not before.
    """

    NOTES: ClassVar[str] = "."
    """The folder, in this one, of the lock, the identity and the notes."""

    IDENTITY: ClassVar[str]
    """The name of the identity's file."""

    OPTION = "--out"
    """The command line's option that names the folder."""

    OTHER: ClassVar[str]
    """What an error says of a folder with another identity."""

    def __init__(self, path: Path, identity: SearchIdentity) -> None:
        self.path = path
        self.notes = path / self.NOTES
        try:
            if path.exists() and not path.is_dir():
                raise self.error("expected a folder, found a file")
            path.mkdir(parents=True, exist_ok=True)
            strangers = {entry.name for entry in path.iterdir() if not UNFINISHED.fullmatch(entry.name)}
            strangers -= {(Path(self.NOTES) / LOCK).parts[0]}
            if strangers and not (self.notes / self.IDENTITY).is_file():
                raise self.error(f"expected a folder that is new or of an earlier run, found {min(strangers)} in it")
            if self.notes != path:
                make_folder(self.notes)
            self._lock = lock_file(self.notes / LOCK)
        except InUseError as error:
            raise self.error(f"it is in use by another run (process {error.owner})") from None
        except OSError as error:
            raise self.error(f"expected a folder that can be written to: {error.strerror}") from None
        try:
            self._require(identity)
            make_folder(self.notes / DONE)
            for folder in {self.path, self.notes, self.notes / DONE}:
                remove_unfinished(folder)
            self.clean_up()
        except BaseException:
            self._lock.close()
            raise

    def _require(self, identity: SearchIdentity) -> None:
        path = self.notes / self.IDENTITY
        if not path.exists():
            write_note(path, identity)
        found = list(differences(read_note(path), identity))
        if found:
            raise self.error(f"{self.OTHER}: {'; '.join(found).replace(' in the checkpoint', ' there')}")

    def clean_up(self) -> None:
        """Prepare the folder for a run, whatever an earlier one left behind."""

    def error(self, problem: str) -> InputError:
        """Return an error about the folder."""
        return InputError(f"{self.OPTION} {self.path}: {problem}")

    @classmethod
    def note_file(cls, path: Path, batch: int) -> Path:
        """Return the file of the note of a batch, given the folder."""
        return path / cls.NOTES / DONE / f"{batch:05}.json"

    def note_files(self) -> list[Path]:
        """Return the files of the notes of all batches that are done."""
        return sorted(path for path in (self.notes / DONE).glob("*.json") if path.stem.isdecimal())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.close()


def read_note(path: Path, shape: Any = dict) -> Note:
    """Return the content of a note."""
    try:
        found: Note = json.loads(path.read_text())
        require_shape(found, shape)
    except (OSError, ValueError, RecursionError, Damaged) as error:
        raise InputError(f"{path}: expected a note of an earlier run: {error}") from None
    return found


def write_note(path: Path, content: Note) -> None:
    """Write a note in one go; of two processes that write the same one, the later one's counts."""
    with replacing(path, durable=True) as new:
        new.write_text(json.dumps(content, indent=1))

"""The folder of a corpus that Spark makes: the walks' files, and beside them, hidden, notes of what is done.

    walk_0.tla ...               the walks, as `kraftcheck simulate --out` writes them
    .corpus/corpus.json          of what they are walks
    .corpus/done/00003.json      what was found on the walks of chunk 3: with it, and not before, the chunk counts

The walks of a chunk follow from its number alone, whoever makes them; so one that was half made is made again.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from kraftcheck.explorer.tables.checkpoints.search_identity import Identity, differences
from kraftcheck.files import InUseError, lock_file
from kraftcheck.spec.errors import InputError
from kraftcheck.traces.corpus.walk_files import walk_file
from kraftcheck.traces.notes import read_note, write_note

CHUNK = 100
"""Walks that are made together, and that a killed executor has to make again."""

HIDDEN, IDENTITY, DONE, LOCK = ".corpus", "corpus.json", "done", "lock"

Note = dict[str, Any]


class Chunk(NamedTuple):
    """Walks that are made together.

    Attributes
    ----------
    number
        Which chunk.
    first, runs
        The number of its first walk, and how many it has.
    """

    number: int
    first: int
    runs: int


def chunks_of(runs: int) -> list[Chunk]:
    """Return the chunks of so many walks."""
    return [Chunk(number, first, min(CHUNK, runs - first)) for number, first in enumerate(range(0, runs, CHUNK))]


class CorpusFolder:
    """The folder, held by this process alone.

    Parameters
    ----------
    folder
        The folder; made where it is not there.
    identity
        What must agree between all runs over it.

    Raises
    ------
    InputError
        Where it is in use, holds something else, or walks of another kind.
    """

    def __init__(self, folder: Path, identity: Identity) -> None:
        self.path = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            strangers = sorted(entry.name for entry in folder.iterdir())
            if strangers and not (folder / HIDDEN / IDENTITY).is_file() and strangers != [HIDDEN]:
                raise self._error(f"expected a folder that is new or of an earlier run, found {strangers[0]} in it")
            (folder / HIDDEN / DONE).mkdir(parents=True, exist_ok=True)
            self._lock = lock_file(folder / HIDDEN / LOCK)
        except InUseError as error:
            raise self._error(f"it is in use by another run (process {error.owner})") from None
        except OSError as error:
            raise self._error(f"expected a folder that can be written to: {error.strerror}") from None
        try:
            self._take(identity)
        except BaseException:
            self._lock.close()
            raise

    def _error(self, problem: str) -> InputError:
        return InputError(f"--out {self.path}: {problem}")

    def _take(self, identity: Identity) -> None:
        path = self.path / HIDDEN / IDENTITY
        if not path.exists():
            write_note(path, identity)
        found = list(differences(read_note(path), identity))
        if found:
            raise self._error(f"it holds other walks: {'; '.join(found).replace(' in the checkpoint', ' there')}")

    def done(self, chunks: list[Chunk]) -> dict[int, Note]:
        """Return what is noted of the chunks that are done, with all their files.

        Raises
        ------
        InputError
            Where there are walks beyond these chunks.
        """
        there = {entry.name for entry in os.scandir(self.path)}
        most = chunks[-1].first + chunks[-1].runs
        beyond = walk_file(self.path, most).name
        if beyond in there:
            raise self._error(f"it holds more walks than {most:,} ({beyond}); expected --runs of all that it holds")
        found = {}
        for chunk in chunks:
            path = note_file(self.path, chunk.number)
            if path.is_file():
                note = read_note(path)
                walks = range(chunk.first, chunk.first + chunk.runs)
                if note["runs"] == chunk.runs and all(walk_file(self.path, n).name in there for n in walks):
                    found[chunk.number] = note
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lock.close()


def note_file(folder: Path, chunk: int) -> Path:
    """Return the file of the note of a chunk."""
    return folder / HIDDEN / DONE / f"{chunk:05}.json"

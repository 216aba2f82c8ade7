"""The folder of a corpus: the files of walks and, hidden beside them, notes of the chunks that are done.

    walk_0.tla ...               the walks, as `kraftcheck simulate --out` writes them
    .corpus/corpus.json          the model and options that the walks follow from
    .corpus/done/00003.json      the results of the walks of chunk 3, which counts from then on

The walks of a chunk follow from its number alone, so a chunk that was half made is made again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from kraftcheck.explorer.checkpoints.search_identity import SearchIdentity, identity_of_search
from kraftcheck.explorer.result import DEADLOCK, Options
from kraftcheck.explorer.tables.random_walks import Plan
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.traces.batch_folder import BatchFolder, Note, read_note
from kraftcheck.traces.corpus.walk_files import walk_file

CHUNK = 100
"""Walks of a chunk: a killed executor has to make at most so many again."""

NOTE = {
    "runs": int,
    "checked": [str],
    "states": int,
    "longest": int,
    "actions": {str: int},
    "violated": {str: int},
}
"""The form of a note: see `require_shape`."""


class Chunk(NamedTuple):
    """Walks that are made together."""

    number: int  # the chunk's number, from 0
    first: int  # the number of its first walk, and how many it has
    runs: int


def chunks_of(runs: int) -> list[Chunk]:
    """Return the chunks of so many walks."""
    return [Chunk(number, first, min(CHUNK, runs - first)) for number, first in enumerate(range(0, runs, CHUNK))]


def identity_of_corpus(protocol: Protocol, options: Options, plan: Plan) -> SearchIdentity:
    """Return what must agree between all runs that make walks of a corpus, as JSON can hold it."""
    whole = identity_of_search(protocol, options)
    names = ("model", "source", "constants", "order of model values", "constraints", "action constraints", "start")
    drawn = {"--seed": plan.seed, "--depth": plan.depth, "--min-depth": plan.least}
    return {**{name: whole[name] for name in names}, **drawn}


def checked_by(options: Options) -> list[str]:
    """Return the names of what is checked on walks."""
    return sorted([prop.name for prop in options.properties] + ([DEADLOCK] if options.deadlock else []))


class CorpusFolder(BatchFolder):
    """The folder of a corpus. See `BatchFolder`."""

    NOTES, IDENTITY, OTHER = ".corpus", "corpus.json", "it holds other walks"

    def walks(self, most: int) -> set[int]:
        """Return the numbers of the walks that are there."""
        there = {entry.name for entry in os.scandir(self.path)}
        beyond = walk_file(self.path, most).name
        if beyond in there:
            raise self.error(f"it holds more walks than {most:,} ({beyond}); expected --runs of all that it holds")
        return {number for number in range(most) if walk_file(self.path, number).name in there}

    def done(self, chunks: list[Chunk], checked: Iterable[str] = ()) -> dict[int, Note]:
        """Return the notes of the chunks that are done, with all their files."""
        there = self.walks(chunks[-1].first + chunks[-1].runs)
        found = {}
        wanted = set(checked)
        for chunk in chunks:
            path = self.note_file(self.path, chunk.number)
            if path.is_file():
                note = read_note(path, NOTE)
                walks = range(chunk.first, chunk.first + chunk.runs)
                if not wanted <= set(note["checked"]):
                    continue
                if note["runs"] == chunk.runs and there.issuperset(walks):
                    found[chunk.number] = note
        return found

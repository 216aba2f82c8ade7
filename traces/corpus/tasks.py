"""The task of executors that make a corpus: walks by the table engine's kernel, each written to a file of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from kraftcheck.explorer.behaviour import Behaviour
from kraftcheck.explorer.result import TraceStep, Verdict
from kraftcheck.explorer.spark.description import as_text, revive
from kraftcheck.explorer.tables.random_walks import Plan, RandomWalks
from kraftcheck.spec.language.state import State
from kraftcheck.spec.tla.view import StateView
from kraftcheck.traces.batch_folder import Note, write_note
from kraftcheck.traces.corpus.folder import Chunk, CorpusFolder, checked_by
from kraftcheck.traces.corpus.walk_files import WalkWriter

DDL = "chunk int not null, note string not null"
SCHEMA = pa.schema(
    [pa.field("chunk", pa.int32(), nullable=False), pa.field("note", pa.string(), nullable=False)]
)


def _as_filed(states: list[State], actions: list[str]) -> Behaviour:
    """Return a walk with what its file holds: states, and the names of actions."""
    return tuple(map(TraceStep, states, [None, *actions]))


class ChunkMaker:
    """Makes chunks; what it learns for one it keeps for the next."""

    def __init__(self, description: dict[str, Any], plan: Plan, folder: Path, user_files: Path) -> None:
        protocol, options = revive(description, user_files)
        self._plan = plan
        writer = WalkWriter(StateView(protocol), folder)
        self._walks = RandomWalks(protocol, options, replace(plan, runs=0), writer, _as_filed)
        self._walks.run()

    def make(self, chunk: Chunk) -> Note | None:
        """Make the walks of a chunk, with their files; return what was found on them, or None if an `assert` failed."""
        result = self._walks.more(replace(self._plan, first=chunk.first, runs=chunk.runs))
        if result.verdict is Verdict.ASSERTION:
            return None
        return {
            "runs": chunk.runs,
            "checked": checked_by(self._walks.options),
            "states": result.generated_states,
            "longest": result.depth,
            "actions": result.actions,
            "violated": dict(self._walks.shown_by),
        }


@lru_cache(maxsize=1)
def _maker(arguments: str) -> ChunkMaker:
    given = json.loads(arguments)
    return ChunkMaker(given["description"], Plan(**given["plan"]), Path(given["folder"]), Path(given["user_files"]))


def make_walks(arguments: dict[str, Any], batches: Iterator[Any]) -> Iterator[Any]:
    """Make the chunks of tasks whose numbers batches hold; yield what was found, which is noted in the folder too.

    A chunk on which an `assert` fails is not made, and what is yielded of it is null.
    """
    lasting = {name: value for name, value in arguments.items() if name != "tasks"}
    folder = Path(arguments["folder"])
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for given in arguments["tasks"][number]:
                chunk = Chunk(*given)
                note = _maker(as_text(lasting)).make(chunk)
                if note is None:
                    _maker.cache_clear()  # what raised may have left the tables half learned
                else:
                    write_note(CorpusFolder.note_file(folder, chunk.number), note)
                yield pa.RecordBatch.from_pydict({"chunk": [chunk.number], "note": [as_text(note)]}, schema=SCHEMA)

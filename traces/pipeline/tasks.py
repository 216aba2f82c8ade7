"""The pipeline's task on executors: files in, rows of the three tables out, over Arrow batches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from kraftcheck.explorer.spark.description import as_text, revive
from kraftcheck.traces.pipeline.rows import Found, Reporter

_TRACE = pa.struct(
    [
        ("index", pa.int32()),
        ("format", pa.string()),
        ("steps", pa.int32()),
        ("verdict", pa.string()),
        ("diverged_step", pa.int32()),
        ("reason", pa.string()),
        ("seconds", pa.float64()),
        ("notes", pa.list_(pa.string())),
    ]
)
_STEP = pa.struct(
    [
        ("index", pa.int32()),
        ("step", pa.int32()),
        ("action", pa.string()),
        ("actor", pa.string()),
        ("changed", pa.list_(pa.string())),
        ("state", pa.binary()),
    ]
)
_ERROR = pa.struct([("index", pa.int32()), ("line", pa.int32()), ("column", pa.int32()), ("message", pa.string())])

SCHEMA = pa.schema(
    [
        ("file", pa.string()),
        ("traces", pa.list_(_TRACE)),
        ("steps", pa.list_(_STEP)),
        ("errors", pa.list_(_ERROR)),
    ]
)


@lru_cache(maxsize=1)
def _reporter(description: str, symmetry: str | None, limit_bytes: int, user_files: str) -> Reporter:
    """Return what replays in this process: what it learned of one file serves the next."""
    protocol, options = revive(json.loads(description), Path(user_files))
    return Reporter(protocol, options.init, symmetry, limit_bytes)


def replay_files(arguments: dict[str, Any], batches: Iterator[Any]) -> Iterator[Any]:
    """Replay the files that batches name; yield what became of them.

    Parameters
    ----------
    arguments
        The description of the protocol, the symmetry and the limit on what a file may unpack to.
    batches
        Arrow batches whose first column holds the paths.
    """
    reporter = _reporter(
        as_text(arguments["description"]), arguments["symmetry"], arguments["limit_bytes"], arguments["user_files"]
    )
    for batch in batches:
        for path in batch.column(0).to_pylist():
            for found in reporter.rows(path):
                yield _batch(path, found)


def _batch(path: str, found: Found) -> Any:
    rows = {"file": [path], "traces": [found.traces], "steps": [found.steps], "errors": [found.errors]}
    return pa.RecordBatch.from_pydict(rows, schema=SCHEMA)

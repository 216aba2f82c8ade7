"""The pipeline's task on executors: files in, rows of the three tables out, over Arrow batches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from kraftcheck.explorer.spark.description import as_text, revive
from kraftcheck.spec.language.formula import Fairness
from kraftcheck.traces.pipeline.rows import COLUMNS, FileReplayer
from kraftcheck.traces.pipeline.tables import fields_of

SCHEMA = pa.schema([("file", pa.string()), *((table, pa.list_(pa.struct(fields_of(table)))) for table in COLUMNS)])


@lru_cache(maxsize=1)
def _replayer(arguments: str) -> FileReplayer:
    """Return the replayer of this process, which uses what it learned of one file for the next."""
    given = json.loads(arguments)
    protocol, options = revive(given["description"], Path(given["user_files"]))
    fairness = [Fairness(one["kind"], tuple(one["actions"]), one["each"]) for one in given.get("fairness", ())]
    made_under = given["symmetry"], given["limit_bytes"], given.get("seen_as")
    return FileReplayer(protocol, options.init, *made_under, fairness)


def replay_files(arguments: dict[str, Any], batches: Iterator[Any]) -> Iterator[Any]:
    """Replay the files that batches name; yield their rows."""
    replayer = _replayer(as_text(arguments))
    for batch in batches:
        for path in batch.column(0).to_pylist():
            for found in replayer.rows(path):
                rows = {"file": [path], **{table: [getattr(found, table)] for table in COLUMNS}}
                yield pa.RecordBatch.from_pydict(rows, schema=SCHEMA)

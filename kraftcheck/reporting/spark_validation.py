"""Validation of many clusters in a task of Spark: a row for each cluster."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pyarrow as pa

from kraftcheck.reporting.validation import validation_as_json
from kraftcheck.spec.errors import InputError
from kraftcheck.validation.cluster import ValidationInputs, replay_and_check_cluster
from kraftcheck.validation.verdict import Validation

VERDICT_SCHEMA = pa.schema(
    {
        "cluster": pa.string(),
        "result": pa.string(),
        "exit_code": pa.int32(),
        "file": pa.string(),
        "line": pa.int64(),
        "problem": pa.string(),
        "events": pa.int64(),
        "explained": pa.int64(),
        "seconds": pa.float64(),
        "label": pa.string(),
        "report": pa.string(),
    }
)


class FileRow(NamedTuple):
    """A row of the data frame."""

    cluster: str
    path: str
    content: bytes


def validate_clusters(arguments: dict[str, Any], batches: Iterator[Any]) -> Iterator[Any]:
    """Validate the clusters in `batches`, whose rows are in the order of clusters; yield a row for each."""
    settings = {"without": tuple(arguments["without"]), "monitors": arguments["monitors"]}
    if arguments["pattern"] is not None:
        settings["pattern"] = arguments["pattern"]
    rows = (row for batch in batches for row in zip(*batch.columns, strict=True))
    files = (
        FileRow(*(value.as_py() or kind() for value, kind in zip(row, (str, str, bytes), strict=True))) for row in rows
    )
    for cluster, group in groupby(files, lambda file: file.cluster):
        with TemporaryDirectory(prefix="kraftcheck-") as folder:
            for file in group:
                _save_file(file, Path(folder))
            row = _validate_cluster_to_row(ValidationInputs((Path(folder),), **settings), folder, cluster)
        found = {"cluster": cluster, "label": arguments["label"], **row}
        yield pa.RecordBatch.from_pylist([found], VERDICT_SCHEMA)


def _save_file(file: FileRow, folder: Path) -> None:
    """Write a file below a folder, by its path without the scheme."""
    parts = re.sub(r"^\w+:/+", "", file.path).split("/")
    path = folder.joinpath(*(part for part in parts if part.strip(".")))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(file.content)


def _validate_cluster_to_row(inputs: ValidationInputs, folder: str, cluster: str) -> dict[str, Any]:
    """Return the columns of a cluster's verdict; file names are those below the folder."""
    try:
        found = inputs.read()
        replay_and_check_cluster(found, inputs)
    except InputError as error:
        problem = str(error).replace(f"{folder}/", "").replace(folder, cluster)
        return {"result": "unreadable", "exit_code": 2, "problem": problem}
    report = json.loads(json.dumps(validation_as_json(found)).replace(f"{folder}/", ""))
    file, line, first = _first_problem_of_validation(found)
    return {
        "result": report["result"],
        "exit_code": found.exit_code,
        "file": file.removeprefix(f"{folder}/") if file else None,
        "line": line,
        "problem": first.replace(f"{folder}/", "") if first else None,
        "events": found.total,
        "explained": found.explained,
        "seconds": found.seconds,
        "report": json.dumps(report),
    }


def _first_problem_of_validation(found: Validation) -> tuple[str | None, int | None, str | None]:
    """Return the file, the line and the text of the first divergence, broken property, finding or open question."""
    if found.divergence is not None:
        return found.divergence.event.file, found.divergence.event.line, found.divergence.what
    for name, event in found.broken.items():
        return event.file, event.line, f"{name} is broken"
    for finding in (finding for report in found.reports for finding in report.findings):
        return finding.file, None, finding.message
    return None, None, next(iter(found.open_questions), None) if found.exit_code else None

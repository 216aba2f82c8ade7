"""Reader of the agent's files: the log's lines, and the states between steps, as events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from kraftcheck.validation.events import Event, Kind
from kraftcheck.validation.log4j import read_lines

START = '{"seq":'
"""The first characters of the agent's lines."""


def read_agent(lines: Iterable[str], file: str) -> Iterator[Event]:
    """Yield the events of an agent's file; node -1 stands for the node of the file."""
    for number, line in enumerate(lines, start=1):
        entry = _entry(line)
        if entry is None:
            continue
        if entry.get("event") == "state":
            if isinstance(entry.get("mode"), str) and isinstance(entry.get("voters"), dict):
                yield Event(-1, entry["time"], Kind.STATE, file, number, body=entry)
            continue
        shown = datetime.fromtimestamp(entry["time"] / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
        text = str(entry.get("text")).replace("\n", " ")
        for event in read_lines([f"[{shown}] {entry.get('level')} {text} (agent)"], file):
            event.line, event.time = number, entry["time"]
            yield event


def _entry(line: str) -> dict[str, Any] | None:
    """Return the object of a line; None for another line, such as the last one of a killed process."""
    if not line.startswith(START):
        return None
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_fit = isinstance(entry, dict) and type(entry.get("time")) is int and 0 <= entry["time"] < 1 << 45
    return entry if is_fit else None

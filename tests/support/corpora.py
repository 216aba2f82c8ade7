"""Corpora of traces, some of them broken or tampered with, and the tables of their replay."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from kraftcheck.cli import main


def corpus(folder: Path, traces: int, broken: int, tampered: int, config: str = "default") -> tuple[set[str], set[str]]:
    """Write traces of the lock service's behaviours; return which were broken and which tampered with."""
    folder.mkdir()
    words = ["simulate", "two-phase-commit", "--config", config, "--runs", str(traces), "--depth", "30", "--seed", "5"]
    assert main([*words, "--out", str(folder), "--engine", "tables", "--quiet"]) == 0
    files = sorted(folder.glob("*.tla"))
    assert len(files) == traces
    chosen = Random(8).sample(files, broken + tampered)
    for number, path in enumerate(chosen[:broken]):
        text = path.read_text()
        if number % 3 == 0:
            path.write_bytes(gzip.compress(text.encode())[:-9])
        else:
            path.write_text(text[: text.rindex("=") - 2] + "= [" if number % 3 == 1 else "not a trace\n")
    for path in chosen[broken:]:
        tamper(path)
    return {path.name for path in chosen[:broken]}, {path.name for path in chosen[broken:]}


def tamper(path: Path) -> None:
    """Change the last state of a trace to one that nothing leads to."""
    text = path.read_text()
    last = text.rindex("STATE_")
    head, state = text[:last], text[last:]
    changed_text = head + re.sub(r"rm1 :> (aborted|committed|prepared)", "rm1 :> working", state, count=1)
    if changed_text == text:  # it is still working
        changed_text = head + state.replace("rm1 :> working", "rm1 :> committed", 1)
    assert changed_text != text
    path.write_text(changed_text)


def tables(folder: Path) -> dict[str, list[dict[str, Any]]]:
    import pyarrow.dataset as ds

    return {
        name: ds.dataset(folder / name, format="parquet").to_table().to_pylist()
        for name in ("traces", "steps", "errors", "coverage")
    }


def _middle(data: bytes, insert: bytes) -> bytes:
    half = len(data) // 2
    return data[:half] + insert + data[half:]


BREAKAGE: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "expected the rest of the gzip file": (".gz", lambda data: gzip.compress(data)[:-9]),
    "expected a whole gzip file, found damaged data": (".gz", lambda data: _damaged(gzip.compress(data))),
    "expected text in UTF-8, found the byte 0xff": ("", lambda data: _middle(data, b"\xff\xfe")),
    "expected '|->', found '|'": ("", lambda data: data[: data.rindex(b"|->") + 1]),
    "expected JSON (value), found": (".json", lambda data: b'{"vars": ["phase"], "states": [{"phase": }]}'),
    "expected an array of states": (".itf.json", lambda data: b'{"vars": ["phase"], "states": 3}'),
    "found a state without phase and with phrase": ("", lambda data: data.replace(b"/\\ phase", b"/\\ phrase", 1)),
    "found the end of the file": ("", lambda data: b""),
    "expected text in UTF-8, found the byte 0x80": ("", lambda data: bytes(range(256))),
    "expected state 3, found state 9": ("", lambda data: data.replace(b"STATE_3 ==", b"STATE_9 ==", 1)),
}
"""The expected message of a broken file, the ending of its name, and the change of a good one."""


def _damaged(data: bytes) -> bytes:
    return data[:60] + b"\0\0\0\0" + data[64:]

"""Readers of files that may come from strangers, as functions of bytes: they return, or raise their own error."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple
from unittest.mock import patch

from kraftcheck.explorer.result import Interrupted, SearchRequest, TraceStep
from kraftcheck.lockstep.walks import read_walk
from kraftcheck.spec.cfg.binding import bind
from kraftcheck.spec.cfg.config import parse_config
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.examples.lock_service import LockService
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.tla.state_conversion import TlaStateConverter
from kraftcheck.spec.values import ModelValue
from kraftcheck.traces import Trace, TraceFormat, TraceState, read_graph, read_states, write_trace
from kraftcheck.traces.replay.replayer import Replayer
from tests.support.samples import DATA, TLC, TOY

PLACED = re.compile(r".*:\d+:\d+: ")
LONGEST_MESSAGE = 2_000


class Reader(NamedTuple):
    """A reader.

    Attributes
    ----------
    read
        Reads bytes; raises InputError for what it does not take.
    seeds
        Yields what it takes.
    """

    read: Callable[[bytes], object]
    seeds: Callable[[], Iterator[bytes]]


def outcome(reader: Reader, data: bytes) -> str:
    """Return "read" or "refused"; other errors than a reader's own are raised."""
    message = ""
    try:
        reader.read(data)
    except InputError as error:
        message = str(error)
    assert len(message) < LONGEST_MESSAGE, f"a message of {len(message)} characters"
    return "refused" if message else "read"


@cache
def scratch() -> Path:
    """Return a folder of this process."""
    return Path(mkdtemp(prefix="kraftcheck-fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))


def file_with(data: bytes, name: str = "file") -> Path:
    """Return a file that holds bytes."""
    path = scratch() / name
    path.write_bytes(data)
    return path


# Traces, walks, configurations


@cache
def protocol() -> LockService:
    return LockService(clients=frozenset({ModelValue("c1", 1), ModelValue("c2", 2)}), losses=0)


@cache
def replayer() -> Replayer:
    return Replayer(protocol())


def replay(data: bytes) -> None:
    """Read traces of any format, and replay them."""
    for found in replayer().replay(file_with(data)):
        json.dumps([found.reason, found.actions, found.notes])
        if found.problem is not None:
            assert len(found.problem) < LONGEST_MESSAGE
            assert PLACED.match(found.problem), found.problem


def a_trace() -> Trace:
    """Return a short behaviour of the lock service as a trace."""
    semantics, view = Semantics(protocol()), TlaStateConverter(protocol())
    steps = [TraceStep(next(iter(protocol().initial())))]
    while len(steps) < 5:
        taken = next(iter(semantics.transitions(steps[-1].state)))
        steps.append(TraceStep(taken.target, taken.action))
    states = [TraceState(n, view.variables(step.state), step.action) for n, step in enumerate(steps, start=1)]
    return Trace("", 0, TraceFormat.TLC_LOG, tuple(states))


def written(ending: str) -> Iterator[bytes]:
    path = scratch() / f"trace{ending}"
    write_trace(a_trace(), path)
    yield path.read_bytes()


def logs() -> Iterator[bytes]:
    yield from written(".out")
    yield from (path.read_bytes() for path in sorted(TOY.glob("*.out")))


def simulations() -> Iterator[bytes]:
    yield (TOY / "simulation.tla").read_bytes()


def walks() -> Iterator[bytes]:
    yield from (path.read_bytes() for path in sorted((DATA / "kafka").glob("*.walk")))


def configurations() -> Iterator[bytes]:
    constants = b"CONSTANTS Clients = {c1, c2} MaxLosses = 0\n"
    yield constants + b"INIT Init\nNEXT Next\nINVARIANT MutualExclusion\nCHECK_DEADLOCK FALSE\n"
    yield from (path.read_bytes() for path in sorted((TLC / "counts").glob("two*.cfg")))


def configure(data: bytes) -> None:
    """Read a configuration and bind a protocol to it."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return
    bind(LockService, parse_config(text, "file.cfg"))


# Checkpoints


PAYLOADS = ("states", "values", "controls", "inboxes", "inbox_items")


@cache
def checkpoint() -> tuple[Protocol, SearchRequest, dict[str, bytes]]:
    """Return a search, and the files of a checkpoint of it."""
    from kraftcheck.explorer.tables.searches.bfs import BreadthFirstSearch

    options = SearchRequest(properties=(), deadlock=False, max_depth=4)
    folder = scratch() / "original"
    with suppress(Interrupted):
        BreadthFirstSearch(protocol(), replace(options, checkpoint=folder), 1).run()
    return protocol(), options, {path.name: path.read_bytes() for path in folder.iterdir()}


@cache
def known_of_checkpoints() -> dict[str, Callable[..., Any]]:
    """Return stand-ins for what takes most of the time of opening a checkpoint, and is the same each time."""
    from kraftcheck.explorer import checkpoint as common

    identity = common.identity_of_search(*checkpoint()[:2])
    classes = common.classes_for_decoding(protocol(), list(protocol().initial()))
    return {"identity_of_search": lambda *_: identity, "classes_for_decoding": lambda *_: classes}


def changed(whole: bytes, changes: bytes) -> bytes:
    """Return bytes with changes made, each given by two bytes for its place and four that are put there."""
    content = bytearray(whole)
    for start in range(0, len(changes) - 5, 6):
        place = int.from_bytes(changes[start : start + 2]) % len(content)
        content[place : place + 4] = changes[start + 2 : start + 6]
    return bytes(content[: len(whole)])


def resume(data: bytes) -> None:
    """Go on from a checkpoint: the first byte says which file is replaced by the others, or changed by them.

    A change is the place and four bytes that are put there, so that files keep their length and are read to their end.
    """
    from kraftcheck.explorer import checkpoint as common
    from kraftcheck.explorer.tables.searches.bfs import BreadthFirstSearch
    from tests.support.forging import digests_made_anew

    searched, options, files = checkpoint()
    folder = scratch() / "forged"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    manifest = json.loads(files["manifest.json"])
    is_change, which = divmod((data[0] if data else 0) % 12, 6)
    content = data[1:]
    if is_change:
        whole = files[f"{PAYLOADS[which]}.bin"] if which < len(PAYLOADS) else json.dumps(manifest["search"]).encode()
        content = changed(whole, content)
    if which < len(PAYLOADS):
        (folder / f"{PAYLOADS[which]}.bin").write_bytes(content)
        manifest["files"][PAYLOADS[which]]["bytes"] = len(content)
    else:
        try:
            manifest["search"] = json.loads(content)
        except (ValueError, RecursionError):
            return
    digests_made_anew(folder, manifest)
    with patch.multiple(common, **known_of_checkpoints()):
        found = BreadthFirstSearch(searched, replace(options, resume=folder), 1).run()
    assert (found.distinct_states, found.generated_states) == (10, 13), found


def payloads() -> Iterator[bytes]:
    *_, files = checkpoint()
    for number, name in enumerate(PAYLOADS):
        yield bytes([number]) + files[f"{name}.bin"]
    yield bytes([len(PAYLOADS)]) + json.dumps(json.loads(files["manifest.json"])["search"]).encode()
    for number, name in enumerate((*(files[f"{name}.bin"] for name in PAYLOADS), b"0" * 700)):
        for place in range(0, len(name), max(4, len(name) // 8 // 4 * 4)):
            yield bytes([6 + number]) + place.to_bytes(2) + name[place : place + 4]


# Corpora and the folders of Spark


def notes(data: bytes) -> None:
    """Read the notes of an output folder: the first byte says of which kind, and which file is replaced."""
    from kraftcheck.mutation.workers import VerdictFolder
    from kraftcheck.persistence.folder import MANIFEST_FILE
    from kraftcheck.traces.corpus import CorpusFolder
    from kraftcheck.traces.pipeline.driver import PipelineFolder

    which, content = divmod(data[0] if data else 0, 3), data[1:]
    kind = (PipelineFolder, CorpusFolder, VerdictFolder)[which[1]]
    folder = scratch() / "notes"
    shutil.rmtree(folder, ignore_errors=True)
    with kind(folder, {"model": "x", "constants": {}}) as made:
        made.claim()
    names = [MANIFEST_FILE, "done/00000.json", *(["summary.json"] if kind is PipelineFolder else [])]
    (folder / kind.NOTES / names[which[0] % len(names)]).write_bytes(content)
    with kind(folder, {"model": "x", "constants": {}}) as opened:
        if isinstance(opened, PipelineFolder):
            opened.done(), opened.kept_summary()
        elif isinstance(opened, CorpusFolder):
            opened.done(100)
        else:
            opened.verdicts()


def contents_of_notes() -> Iterator[bytes]:
    verdict = {"verdict": "killed", "by": "X", "config": "c", "length": 3, "gains": True, "lost": ["a"], "step": "s",
               "counts": [["c", 1, 2, 3, 4]]}  # fmt: skip
    walks = {"runs": 100, "checked": [], "states": 7, "longest": 3, "actions": {"A": 1}, "violated": {"X": 5}}
    contents = [
        {"format": 1, "model": "x", "constants": {}},
        {"model": "x", "constants": {"A": ["1", "aa"]}},
        {"files": [["/a", 1, 2]], "seconds": 0.5},
        walks,
        {"mutant": "m", "verdict": verdict},
        {"batches": 0, "files": 1, "traces": 1},
    ]
    for number, content in ((n, c) for n in range(9) for c in contents):
        yield bytes([number]) + json.dumps(content).encode()


def tables(data: bytes) -> None:
    """Read a Parquet file of definitions, or of states: the first byte says which."""
    from kraftcheck.explorer.spark.shared_folder import SharedFolder

    shared = SharedFolder(scratch() / "spark")
    if not shared.path.is_dir():
        shared.path.mkdir()
        shared.clear()
        shared.begin_level(1)
    is_states = bool(data and data[0] % 2)
    path = shared._part(1, 0) if is_states else shared._definitions(1)
    path.write_bytes(data[1:])
    if is_states:
        shared.count(1, 0)
        list(shared.read_part(1, 0))
    else:
        list(shared.read_definitions(1))


def tables_of_spark() -> Iterator[bytes]:
    import numpy as np

    from kraftcheck.explorer.spark.shared_folder import SharedFolder
    from kraftcheck.explorer.spark.wire_records import WireRecord, WireRecordKind

    shared = SharedFolder(scratch() / "seeds")
    shared.path.mkdir(exist_ok=True)
    shared.clear()
    shared.begin_level(1)
    shared.write_states(1, 0, np.arange(12, dtype=np.int32).reshape(4, 3))
    yield b"\1" + shared._part(1, 0).read_bytes()
    shared.write_definitions(
        1,
        [
            WireRecord(WireRecordKind.SLOT, 0, b"i\0\0\0\x011"),
            WireRecord(WireRecordKind.CONTROL, 0, b"", (1, 2)),
        ],
    )
    yield b"\0" + shared._definitions(1).read_bytes()


READERS = {
    "walk": Reader(lambda data: read_walk(file_with(data)), walks),
    "cfg": Reader(configure, configurations),
    "log": Reader(replay, logs),
    "simulation": Reader(replay, simulations),
    "json": Reader(replay, lambda: written(".json")),
    "itf": Reader(replay, lambda: written(".itf.json")),
    "dump": Reader(
        lambda data: list(read_states(file_with(data))), lambda: (p.read_bytes() for p in TOY.glob("*.dump"))
    ),
    "dot": Reader(lambda data: read_graph(file_with(data)), lambda: (p.read_bytes() for p in TOY.glob("*.dot"))),
    "checkpoint": Reader(resume, payloads),
    "notes": Reader(notes, contents_of_notes),
    "parquet": Reader(tables, tables_of_spark),
}
"""The readers by name."""


def cases(corpus: Any) -> Iterator[tuple[str, bytes]]:
    """Yield what an archive holds: the name of a reader, and an input."""
    for member in corpus:
        if member.isfile():
            yield member.name.split("/")[0], corpus.extractfile(member).read()

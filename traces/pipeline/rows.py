"""What the pipeline writes of a file of traces: rows for the tables `traces`, `steps` and `errors`.

It runs on executors, over batches of file names. One bad file is a row in `errors` and never ends a task.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from kraftcheck.spec.display import text_of
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import Map, Record, Value, encode, field_names
from kraftcheck.traces.replay.replayer import Replay, Replayer, Step, Verdict

STEPS_A_ROW = 4_000
"""Steps after which what is known of a file is handed on, so that memory does not grow with the file."""

MOST_TEXT = 2_000
"""Characters of a reason or a message that are kept."""

NAME_BYTES = 16
_PLACE = re.compile(r"(?s):(\d+):(\d+): (.*)")

Row = dict[str, Any]

DDL = {
    "traces": (
        "index int, format string, steps int, verdict string, diverged_step int, reason string, seconds double, "
        "notes array<string>"
    ),
    "steps": "index int, step int, action string, actor string, changed array<string>, state binary",
    "errors": "index int, line int, column int, message string",
}
"""Columns of the tables, besides the file."""


@dataclass
class Found:
    """Rows of one file that are not handed on yet."""

    traces: list[Row] = field(default_factory=list)
    steps: list[Row] = field(default_factory=list)
    errors: list[Row] = field(default_factory=list)


class Reporter:
    """Replays files and says what became of them, as rows.

    Parameters
    ----------
    protocol
        The protocol, with its constants.
    init, symmetry, limit_bytes
        As for `kraftcheck.traces.replay.replayer.Replayer`.
    """

    def __init__(self, protocol: Protocol, init: str, symmetry: str | None, limit_bytes: int) -> None:
        make: Callable[[], Replayer] = lambda: Replayer(  # noqa: E731 - made again after an accident
            protocol, init=init, symmetry=symmetry, limit_bytes=limit_bytes, watch=self._watch
        )
        self._make = make
        self._replayer = make()
        self._found = Found()
        self._names: dict[tuple[Value, Value], bytes] = {}
        self._number = 0

    def rows(self, path: str) -> Iterator[Found]:
        """Replay the traces of a file.

        Parameters
        ----------
        path
            The file.

        Yields
        ------
        Found
            Rows; several times for a large file.
        """
        self._found = Found()
        self._number = 0
        began = time.perf_counter()
        replays = self._replayer.replay(path)
        while True:
            try:
                replay = next(replays, None)
            except Exception as error:  # whatever a stranger's file does, the others are read
                self._found.errors.append(_error(None, path, f"{type(error).__name__}: {error}"))
                self._replayer = self._make()
                break
            if replay is None:
                break
            now = time.perf_counter()
            self._end(path, replay, now - began)
            began = now
            if len(self._found.steps) >= STEPS_A_ROW:
                yield self._found
                self._found = Found()
        yield self._found

    def _end(self, path: str, replay: Replay, seconds: float) -> None:
        """Note a trace that has come to its end."""
        self._number = 0
        diverged = replay.diverged_at
        self._found.traces.append(
            {
                "index": replay.index,
                "format": None if replay.format is None else str(replay.format),
                "steps": replay.steps,
                "verdict": str(replay.verdict),
                "diverged_step": None if diverged is None else diverged - 1,
                "reason": _cut(replay.reason),
                "seconds": seconds,
                "notes": [_cut(note) for note in replay.notes],
            }
        )
        if replay.verdict is Verdict.UNREADABLE:
            self._found.errors.append(_error(replay.index, path, replay.problem or "it could not be read"))

    def _watch(self, step: Step) -> None:
        transition = step.transition
        actor = None if transition is None or transition.actor is None else text_of(transition.actor)
        self._found.steps.append(
            {
                "index": step.index,
                "step": self._number,
                "action": None if transition is None else transition.action,
                "actor": actor,
                "changed": [] if step.before is None else list(changed(step.before, step.state)),
                "state": self._name(step.state),
            }
        )
        self._number += 1

    def _name(self, state: State) -> bytes:
        """Return a name of a state that is the same everywhere: a hash of the names of its parts."""
        whole = blake2b(digest_size=NAME_BYTES)
        for kind, part in (("replicas", state.replicas), ("inboxes", state.inboxes)):
            whole.update(kind.encode())
            for name in sorted(self._part(key, value) for key, value in part.items()):
                whole.update(name)
        whole.update(self._part("shared", state.shared))
        whole.update(self._part("spent", state.spent))
        return whole.digest()

    def _part(self, key: Value, value: Value) -> bytes:
        found = self._names.get((key, value))
        if found is None:
            if len(self._names) > 100_000:
                self._names.clear()
            found = blake2b(encode(key) + encode(value), digest_size=NAME_BYTES).digest()
            self._names[key, value] = found
        return found


def changed(before: State, after: State) -> Iterator[str]:
    """Yield what differs between two states: `n1.log`, `messages to n2`, a shared field, a bound.

    Parameters
    ----------
    before, after
        The states.
    """
    for key, replica in after.replicas.items():
        old = before.replicas.get(key)
        if old is replica:
            continue
        if old is None or type(old) is not type(replica):
            yield text_of(key)
            continue
        for name in _fields_that_differ(old, replica):
            yield f"{text_of(key)}.{name}"
    yield from (text_of(key) for key in before.replicas if key not in after.replicas)
    for key in {**before.inboxes, **after.inboxes}:
        if before.inboxes.get(key) != after.inboxes.get(key):
            yield f"messages to {text_of(key)}"
    if before.shared is not after.shared:
        yield from _fields_that_differ(before.shared, after.shared)
    spent: Map[str, int] = after.spent
    yield from (name for name, used in spent.items() if before.spent.get(name) != used)


def _fields_that_differ(one: Record, other: Record) -> Iterator[str]:
    return (name for name in field_names(type(other)) if getattr(one, name, None) != getattr(other, name))


def _error(index: int | None, path: str, problem: str) -> Row:
    """Return a row of `errors`; where the problem says at which line and column, these are columns of their own."""
    line = column = None
    message = problem
    if problem.startswith(path):
        match = _PLACE.match(problem, len(path))
        if match:
            line, column, message = int(match[1]), int(match[2]), match[3]
        else:
            message = problem[len(path) :].removeprefix(": ")
    return {"index": index, "line": line, "column": column, "message": _cut(message)}


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= MOST_TEXT else text[: MOST_TEXT - 3] + "..."

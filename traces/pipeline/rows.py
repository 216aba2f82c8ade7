"""Rows of the tables `traces`, `steps` and `errors` for a file of traces, computed on executors.

A bad file becomes a row in `errors` and never fails a task.
"""

from __future__ import annotations

import re
import resource
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from hashlib import blake2b
from itertools import starmap
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, NamedTuple

from kraftcheck.spec.encoding import encode
from kraftcheck.spec.language.formula import Fairness
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import Map, Value, field_names, ordered, text_of, truncate_text
from kraftcheck.traces.replay.claims import ClaimVerdict
from kraftcheck.traces.replay.divergence import Divergence
from kraftcheck.traces.replay.replayer import Replay, ReplayedState, Replayer, ReplayVerdict

STEPS_A_CHUNK = 4_000
"""The number of steps after which rows of a file are emitted, to bound the memory."""

MOST_CACHED_CHANGES = 5_000
"""The number of steps whose changed parts are kept."""

MOST_TEXT_CHARACTERS = 2_000
"""Maximum length of a reason or a message; longer texts are cut."""

STATE_HASH_BYTES = 16
_PLACE_AND_MESSAGE = re.compile(r"(?s)(?::(\d+):(\d+))?: (.*)")

TableRow = dict[str, Any]

TABLE_COLUMNS = {
    "traces": ", ".join(
        [
            "index int, format string, steps int, verdict string, diverged_step int, reason string, seconds double",
            "notes array<string>",
            "kind string, action string, nearest string, differs array<string>",
            "guard string, guard_file string, guard_line int, violated string, label string, model string",
        ]
    ),
    "steps": "index int, step int, action string, actor string, changed array<string>, state binary",
    "errors": "index int, line int, column int, message string",
}
"""The tables with their columns, except the file, as Spark DDL. See docs/pipeline-schema.md."""

SCHEMA_VERSION = 1
"""The version of the columns."""

COMBINED_COLUMNS = ", ".join(
    dict.fromkeys(["record string", "file string", *", ".join(TABLE_COLUMNS.values()).split(", ")])
)
"""The columns of one table for the rows of all: `record` has the name of a row's table."""


@dataclass
class PendingFileRows:
    """Rows of one file that are not emitted yet."""

    traces: list[TableRow] = field(default_factory=list)
    steps: list[TableRow] = field(default_factory=list)
    errors: list[TableRow] = field(default_factory=list)


class ReplayRowBuilder:
    """Builds table rows from a replay: one for each conforming state, and one for each trace."""

    def __init__(self, model: str, label: str | None = None) -> None:
        self.found = PendingFileRows()
        self._lasting = {"label": label, "model": model}
        self._number = 0
        self._changed = dict[tuple[bytes, bytes], list[str]]()  # by the names of two states: traces often share steps

    def hand_on(self) -> PendingFileRows:
        """Return the collected rows, and begin with none again."""
        found, self.found = self.found, PendingFileRows()
        return found

    def end(self, path: str, replay: Replay, seconds: float) -> None:
        """Add the rows of a finished trace."""
        self._number = 0
        diverged, claim = replay.diverged_at, replay.claim
        unknown = claim is not None and claim.verdict is ClaimVerdict.UNKNOWN
        notes = [*replay.notes, *([f"{claim.what} is not evaluated: {claim.says}"] if claim and unknown else [])]
        self.found.traces.append(
            {
                "index": replay.index,
                "format": replay.format,
                "steps": replay.steps,
                "verdict": replay.verdict,
                "diverged_step": None if diverged is None else diverged - 1,
                "reason": replay.reason and _cut_text_to_cell_limit(replay.reason),
                "seconds": seconds,
                "notes": [_cut_text_to_cell_limit(note) for note in notes],
                **_divergence_columns(replay.divergence),
                "violated": replay.violated,
                **self._lasting,
            }
        )
        if replay.verdict is ReplayVerdict.UNREADABLE:
            self.found.errors.append(_error_row(replay.index, path, replay.problem or "the trace cannot be read"))

    def fail(self, path: str, problem: str) -> None:
        """Add an error row for a file whose replay did not end."""
        self._number = 0
        self.found.errors.append(_error_row(None, path, problem))

    def watch(self, step: ReplayedState) -> None:
        """Add the row of a conforming state."""
        transition = step.transition
        actor = transition and transition.actor
        self.found.steps.append(
            {
                "index": step.index,
                "step": self._number,
                "action": transition and transition.action,
                "actor": None if actor is None else text_of(actor),
                "changed": [] if step.before is None else self._changed_between(step.before, step.state),
                "state": state_hash(step.state),
            }
        )
        self._number += 1

    def _changed_between(self, before: State, state: State) -> list[str]:
        pair, known = (state_hash(before), state_hash(state)), self._changed
        if pair not in known:
            if len(known) >= MOST_CACHED_CHANGES:
                known.clear()
            known[pair] = list(changed_state_part_names(before, state))
        return known[pair]


class TraceLimits(NamedTuple):
    """The limits for a trace."""

    seconds: float | None = None
    memory: int | None = None  # in bytes


class FileReplayer:
    """Replays files and returns the results as rows."""

    def __init__(
        self, protocol: Protocol, init: str, symmetry: str | None, limit_bytes: int, seen_as: str | None = None,
        fairness: Sequence[Fairness] = (), limits: TraceLimits | None = None, model: str = "", label: str | None = None,
    ) -> None:  # fmt: skip
        self._maker = ReplayRowBuilder(model, label)
        self._limits = limits or TraceLimits()
        self._make = partial(
            Replayer, protocol, init=init, symmetry=symmetry, seen_as=seen_as, limit_bytes=limit_bytes,
            fairness=fairness, watch=self._maker.watch,
        )  # fmt: skip
        self._replayer = self._make()

    def rows(self, name: str, content: bytes | None = None) -> Iterator[PendingFileRows]:
        """Replay the traces of a file and yield their rows. Without its content, `name` is its path."""
        if content is None:
            yield from self._rows(name, name)
            return
        with NamedTemporaryFile(prefix="kraftcheck-") as file:
            file.write(content)
            file.flush()
            yield from self._rows(file.name, name)

    def _rows(self, path: str, name: str) -> Iterator[PendingFileRows]:
        maker, measure = self._maker, address_space_bytes if self._limits.memory else int
        began, before = time.perf_counter(), measure()
        try:
            replays = self._replayer.replay_in_parts(path, STEPS_A_CHUNK)
            while True:
                with time_limit(self._limits.seconds, began), memory_limit(self._limits.memory, before):
                    found = next(replays, _NO_MORE_REPLAYS)
                if found is _NO_MORE_REPLAYS:
                    break
                if isinstance(found, Replay):
                    now = time.perf_counter()
                    problem = found.problem and found.problem.replace(path, name)
                    maker.end(name, replace(found, file=name, problem=problem), now - began)
                    began, before = now, measure()
                if len(maker.found.steps) >= STEPS_A_CHUNK:
                    yield maker.hand_on()
        except TraceLimitError as error:
            maker.fail(name, str(error))
            self._replayer = self._make()
        except Exception as error:  # no file may fail the task
            maker.fail(name, f"{type(error).__name__}: {error}".replace(path, name))
            self._replayer = self._make()
        yield maker.hand_on()


class TraceLimitError(Exception):
    """A trace took more time or memory than its limit."""


_NO_MORE_REPLAYS = object()


@contextmanager
def time_limit(seconds: float | None, began: float) -> Iterator[None]:
    """Raise TraceLimitError in the block some seconds after `began`. It needs the main thread, in which tasks run."""
    if seconds is None:
        yield
        return

    def end(*_: object) -> None:
        raise TraceLimitError(f"a trace took more than {seconds:g} s, the limit of --trace-time; the rest is skipped")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, max(seconds - (time.perf_counter() - began), 1e-6))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def address_space_bytes() -> int:
    """Return the size of this process's address space in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


@contextmanager
def memory_limit(limit: int | None, before: int) -> Iterator[None]:
    """Raise TraceLimitError in the block if the address space is to exceed `before` by more than a limit in bytes."""
    if limit is None:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    asked = min(most for most in (before + limit, soft, hard) if most != resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_AS, (asked, hard))
    try:
        yield
    except MemoryError:
        said = f"a trace took more than {limit:,} bytes of memory, the limit of --trace-memory; the rest is skipped"
        raise TraceLimitError(said) from None
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def state_hash(state: State) -> bytes:
    """Return a hash of a state that is the same in every process. The state keeps it: traces often share states."""
    known = state.__dict__
    if "_name" not in known:
        parts = b"replicas", _map_digest(state.replicas), b"inboxes", _map_digest(state.inboxes)
        rest = _entry_digest("shared", state.shared), _entry_digest("spent", state.spent)
        known["_name"] = blake2b(b"".join(parts + rest), digest_size=STATE_HASH_BYTES).digest()
    name: bytes = known["_name"]
    return name


@lru_cache(maxsize=1_000)
def _map_digest(values: Map[Any, Any]) -> bytes:
    return b"".join(sorted(starmap(_entry_digest, values.items())))


@lru_cache(maxsize=100_000)
def _entry_digest(key: Value, value: Value) -> bytes:
    return blake2b(encode(key) + encode(value), digest_size=STATE_HASH_BYTES).digest()


def changed_state_part_names(before: State, after: State) -> Iterator[str]:
    """Yield the names of the changed parts of a state: `n1.log`, `messages to n2`, a shared field, a bound.

    The order of keys in maps says how a state was reached, so names are in canonical order.
    """
    if before.replicas is not after.replicas:
        yield from _changed_replica_fields(dict(before.replicas.items()), dict(after.replicas.items()))
    if before.inboxes is not after.inboxes:
        received, pending = dict(before.inboxes.items()), dict(after.inboxes.items())
        differing = (key for key in received | pending if received.get(key) != pending.get(key))
        yield from (f"messages to {text_of(key)}" for key in ordered(differing))
    if before.shared is not after.shared:
        yield from _differing_field_names(before.shared, after.shared)
    if before.spent is not after.spent:
        used = dict(before.spent.items())
        yield from (name for name, now in after.spent.items() if used.get(name) != now)


def _changed_replica_fields(before: dict[Any, Any], after: dict[Any, Any]) -> Iterator[str]:
    """Yield the names of the changed fields of replicas, or of a replica that is created."""
    for key in ordered(key for key in before | after if before.get(key) is not after.get(key)):
        was, replica = before.get(key), after.get(key)
        if type(was) is not type(replica):
            yield text_of(key)
        else:
            yield from (f"{text_of(key)}.{name}" for name in _differing_field_names(was, replica))


def _differing_field_names(one: Any, other: Any) -> Iterator[str]:
    return (name for name in field_names(type(other)) if getattr(one, name, None) != getattr(other, name))


def _divergence_columns(found: Divergence | None) -> TableRow:
    """Return the columns of a divergence. The guard is the first condition that disables the trace's action."""
    if found is None:
        return dict.fromkeys(("kind", "action", "nearest", "differs", "guard", "guard_file", "guard_line"))
    guard = next((reason for reason in found.disabled if reason.kind == "guard"), None)
    return {
        "kind": found.kind,
        "action": found.action,
        "nearest": found.nearest and _cut_text_to_cell_limit(found.nearest),
        "differs": [_cut_text_to_cell_limit(difference.path) for difference in found.differences],
        "guard": guard and _cut_text_to_cell_limit(guard.text),
        "guard_file": guard and guard.file and "/".join(Path(guard.file).parts[-2:]),
        "guard_line": guard and guard.line,
    }


def _error_row(index: int | None, path: str, problem: str) -> TableRow:
    """Return a row of `errors`, with the line and column of the problem in separate columns."""
    match = _PLACE_AND_MESSAGE.fullmatch(problem.removeprefix(path))
    line, column, message = match.groups() if match else (None, None, problem)
    return {
        "index": index,
        "line": line and int(line),
        "column": column and int(column),
        "message": _cut_text_to_cell_limit(message),
    }


def escape_surrogates(value: Any) -> Any:
    r"""Return a value with escapes such as \udcff for what UTF-8 cannot encode, as in the name of a file."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return list(map(escape_surrogates, value)) if isinstance(value, list) else value


def _cut_text_to_cell_limit(text: str) -> str:
    return truncate_text(text, MOST_TEXT_CHARACTERS)

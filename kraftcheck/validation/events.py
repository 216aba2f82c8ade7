"""The normalized stream of events: one for each log line of a raft client."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple


class Kind(StrEnum):
    """Kinds of events."""

    DISK = "disk"  # the snapshots that a starting process finds on its disk
    BOOTSTRAP = "bootstrap"  # the bootstrap servers or static voters of a starting process
    BOOT = "boot"  # a process begins to read its snapshot and log
    STARTING_VOTERS = "starting voters"
    REQUEST = "request"  # a request is received
    RESPONSE = "response"  # a response is received
    IGNORED = "ignored"  # a response is received that is no longer awaited
    SEND = "send"  # a request is sent
    ANSWER = "answer"  # a response is sent
    ATTEMPT = "attempt"  # a transition begins to write quorum-state
    TRANSITION = "transition"
    APPEND = "append"  # a leader appends a batch
    STORED = "stored"  # a follower appends batches
    FIRST_HIGH_WATERMARK = "first high watermark"
    LEADER_HIGH_WATERMARK = "leader high watermark"
    FOLLOWER_HIGH_WATERMARK = "follower high watermark"
    VOTERS = "voters"
    VERSION = "version"
    TRUNCATED = "truncated"
    REPLACED = "replaced"  # a snapshot replaces the log
    LOADED = "loaded"  # a snapshot is read
    FETCHING = "fetching"  # a follower begins to fetch a snapshot
    PARKED = "parked"  # a parked fetch ends, since the log has grown
    REJECTED = "rejected"  # a parked fetch ends with an error
    STATE = "state"  # the agent's: the whole state between two steps
    THREW = "threw"  # the process throws an exception


class Body(NamedTuple):
    """A request or response: its API, and the names and values of its scalar fields in the order of its text."""

    api: str
    names: tuple[str, ...]
    values: tuple[str, ...]

    def get(self, name: str, occurrence: int = 0) -> str | None:
        """Return the value of a field; `occurrence` counts the fields of this name. None if the body lacks it."""
        position = -1
        for _ in range(occurrence + 1):
            try:
                position = self.names.index(name, position + 1)
            except ValueError:
                return None
        return self.values[position]

    def number(self, name: str, occurrence: int = 0) -> int:
        """Return the integer value of a field, -1 if the body lacks it."""
        found = self.get(name, occurrence)
        try:
            return -1 if found is None else int(found)
        except ValueError:
            return -1

    def all(self, name: str) -> list[str]:
        """Return the values of all fields of a name."""
        return [value for field, value in zip(self.names, self.values, strict=True) if field == name]

    def after(self, name: str, value: str) -> Body:
        """Return the fields after the first field of this name and value."""
        pairs = list(zip(self.names, self.values, strict=True))
        start = pairs.index((name, value)) + 1 if (name, value) in pairs else len(pairs)
        return Body(self.api, self.names[start:], self.values[start:])


@dataclass(slots=True)
class Event:
    """An event of a node; `time` is a hint in milliseconds, and `seq` the order within the node's log."""

    node: int
    time: int
    kind: Kind
    file: str
    line: int
    body: Any = None
    level: str = ""
    incarnation: int = 0
    seq: int = 0
    correlation: int = -1
    created: int = -1  # of a request: the time at which its raft client created it, in milliseconds
    peer: int | None = None  # the sender of a request, or the receiver of an answer
    address: str = ""  # of a sent request: host and port of its receiver

    @property
    def place(self) -> str:
        """Return file and line."""
        return f"{self.file}:{self.line}"

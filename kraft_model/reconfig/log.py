"""Rules of `reconfig` about logs and majorities. Offsets count from 1, as in the specification.

Source: the section "Helper formulae" of the TLA+ specification KRaftWithReconfig.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol, TypeVar

from kraftcheck.kraft_model.reconfig.records import Command, Config, Entry
from kraftcheck.spec import ModelValue


class HasEpoch(Protocol):
    """An entry, of this model or of another one."""

    @property
    def epoch(self) -> int:
        """The epoch of the leader that appended it."""


Log = tuple[Entry, ...]
AnyEntry = TypeVar("AnyEntry", bound=HasEpoch)
Member = TypeVar("Member")


class Position(NamedTuple):
    """An offset with the epoch of the entry there; (0, 0) is the position before the first entry."""

    offset: int
    epoch: int


def last_epoch(log: Sequence[HasEpoch]) -> int:
    """Return the epoch of the last entry, 0 for an empty log (`LastEpoch`)."""
    return log[-1].epoch if log else 0


def end_offset_for_epoch(log: Sequence[HasEpoch], epoch: int) -> Position:
    """Return the highest position whose epoch is not above the given one (`EndOffsetForEpoch`)."""
    for offset in range(len(log), 0, -1):
        if log[offset - 1].epoch <= epoch:
            return Position(offset, log[offset - 1].epoch)
    return Position(0, 0)


def truncated(log: tuple[AnyEntry, ...], end_offset: int, epoch: int) -> tuple[AnyEntry, ...]:
    """Return the log up to its highest entry that is not behind the given position (`TruncateLog`)."""
    for offset in range(len(log), 0, -1):
        if (log[offset - 1].epoch, offset) <= (epoch, end_offset):
            return log[:offset]
    return ()


def most_recent_config(log: Log, high_watermark: int) -> Config:
    """Return the last configuration of a log as a server caches it (`MostRecentReconfigEntry`, `ConfigFor`)."""
    for offset in range(len(log), 0, -1):
        if log[offset - 1].command is not Command.APPEND:
            return config_at(offset, log[offset - 1], high_watermark)
    raise ValueError("the log holds no configuration")


def config_at(offset: int, entry: Entry, high_watermark: int) -> Config:
    """Return the configuration of an entry; it is committed once the high watermark covers it (`ConfigFor`)."""
    value = entry.value
    assert not isinstance(value, ModelValue)
    return Config(value.id, value.members, high_watermark >= offset)


def is_quorum(members: frozenset[Member], group: Collection[Member]) -> bool:
    """Return whether a group is a majority of the members, and of members only (`Quorum`)."""
    return members.issuperset(group) and 2 * len(group) > len(members)

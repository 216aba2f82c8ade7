"""Logs that are older than the events of a replay: their epochs, voters, versions and starts, as lines show them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from kraftcheck.kraft_model.quorum.records import KRaftVersion, Voters
from kraftcheck.spec import Record
from kraftcheck.validation.events import Event, Kind
from kraftcheck.validation.state import GROWS
from kraftcheck.validation.terms import End, Terms

Controls = tuple[Record, ...]
"""Control records of a batch: voters, and a kraft.version."""

ByOffset = dict[int, Controls]


def claim(records: ByOffset, offset: int, record: Record) -> None:
    """Add a record unless it is in force at an offset: there, or as the first one if none of its type comes before."""
    known = [at for at, found in records.items() if at <= offset and any(type(one) is type(record) for one in found)]
    if not known or record not in records[max(known)]:
        _put(records, offset if known else 0, record)


def _put(records: ByOffset, offset: int, record: Record) -> None:
    rest = tuple(one for one in records.get(offset, ()) if type(one) is not type(record))
    records[offset] = (*rest, record)


def control_records(terms: Terms, events: Iterable[Event]) -> tuple[ByOffset, ByOffset]:
    """Return the voters and versions that lines show by their offsets in a log, and those at ends of snapshots."""
    found: ByOffset = {}
    snapshots: ByOffset = {}
    loaded = -1
    for event in events:
        if event.kind is Kind.LOADED:
            loaded = event.body[0]
        elif event.kind in (Kind.VERSION, Kind.VOTERS) and event.body[1] >= 0:
            value, offset = event.body
            record = KRaftVersion(value) if event.kind is Kind.VERSION else Voters(terms.voters(value))
            _put(snapshots if offset == loaded - 1 else found, offset, record)
    return found, snapshots


# The epochs of a log

ENDS = {"Fetch": ("fetchOffset", "lastFetchedEpoch"), "Vote": ("lastOffset", "lastOffsetEpoch")}
"""The fields of a request that name the end of its sender's log."""


def asked_ends(events: Sequence[Event]) -> Iterator[End]:
    """Yield the log ends that the next requests of a node name, until its log grows."""
    for event in events:
        if event.kind in GROWS:
            if event.kind is Kind.APPEND:
                yield event.body[0], 0
            return
        yield from _named_end(event)


def _named_end(event: Event) -> Iterator[End]:
    names = ENDS.get(event.body.api) if event.kind is Kind.SEND else None
    if names is not None and event.body.number(names[0]) > 0:
        yield event.body.number(names[0]), event.body.number(names[1])


def shown_ends(events: Iterable[Event]) -> list[End]:
    """Return the log ends that a node's lines show, as far as they still stand."""
    ends: list[End] = []
    for event in events:
        if event.kind is Kind.TRUNCATED:
            ends = [(min(end, event.body), epoch) for end, epoch in ends]
        elif event.kind is Kind.LOADED:
            ends = [event.body]
        elif event.kind in (Kind.STORED, Kind.APPEND):
            ends.append(event.body[-2:])
        else:
            ends += _named_end(event)
    return ends


def lineage(shown: Sequence[End], asked: Sequence[End]) -> list[End]:
    """Return the ends of a log's parts in order: of each epoch, and those that its next requests name."""
    most = asked[0][0] if asked else shown[-1][0] if shown else 0
    last = dict(shown)
    for end, epoch in asked:
        last[end] = epoch or last.get(end, 0)
    found: list[End] = []
    for end, shown_epoch in sorted(last.items()):
        epoch = max(shown_epoch, found[-1][1] if found else 0)
        if 0 < end <= most:
            found.append((end, epoch))
    return _ends_of_epochs(found, {end for end, _ in asked})


def _ends_of_epochs(ends: Sequence[End], kept: set[int]) -> list[End]:
    """Return the last end of each epoch, and those that are kept."""
    return [one for one, after in pairwise([*ends, (0, -1)]) if after[1] != one[1] or one[0] in kept]

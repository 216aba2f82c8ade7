"""The validation of a cluster from its logs and disks, and the replay of the events of its nodes."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, filterfalse
from pathlib import Path
from typing import Any, Protocol

from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.base import ADMIN, QuorumBase
from kraftcheck.kraft_model.quorum.records import UNKNOWN_DIRECTORY, Voter
from kraftcheck.kraft_model.quorum.variants.kafka import as_kafka, known_differences
from kraftcheck.spec import ModelValue
from kraftcheck.spec.errors import InputError
from kraftcheck.validation.disks import is_disk, is_segment, read_disks
from kraftcheck.validation.effects import Formats
from kraftcheck.validation.events import Event, Kind
from kraftcheck.validation.known import KnownUses
from kraftcheck.validation.log4j import DEFAULT_PATTERN
from kraftcheck.validation.log_monitors import check_events
from kraftcheck.validation.monitors import check_disks
from kraftcheck.validation.pairing import Pairs, addresses, is_lost, numbered, pair
from kraftcheck.validation.replay import ClusterReplay
from kraftcheck.validation.sources import LIMIT, Sources, Wanted, line_of, read_sources
from kraftcheck.validation.state import Node
from kraftcheck.validation.terms import Terms
from kraftcheck.validation.verdict import Validation, gaps_in, storms_in

MANY = 1_000_000
"""A bound that no log exhausts."""


def replay_of(
    logs: dict[int, Sequence[Event]],
    *,
    heads: Mapping[int, Sequence[Event]] = {},
    without: Collection[str] = (),
    pairs: Pairs | None = None,
) -> ClusterReplay:
    """Return the replay of the events of a cluster's nodes, each in the order of its log.

    `heads` are events before those that are to be replayed. `pairs` are the two ends of each message; by default they
    are found.
    """
    for number, head in heads.items():
        logs = {**logs, number: [*head, *logs.get(number, ())]}
    for events in logs.values():
        numbered(events)
    terms = _terms(logs)
    nodes = {node: Node(node, events, len(heads.get(node, ()))) for node, events in logs.items()}
    formats: Formats = {}
    homes = addresses(logs)
    make = _models(logs, terms, formats, homes, is_late=bool(heads))
    protocol = make(without)
    parts = {name: part for name, part in known_differences(cluster=True).items() if name not in without}
    known = KnownUses(protocol, Quorum, parts, lambda name: make((*without, name)))
    return ClusterReplay(protocol, terms, nodes, pairs or pair(logs, homes), formats, homes, known=known)


def _terms(logs: dict[int, Sequence[Event]]) -> Terms:
    """Return the terms of a cluster: its nodes, and those that are voters at any time."""
    voters: set[int] = set()
    peers: set[int] = set()
    for event in chain.from_iterable(logs.values()):
        if event.peer is not None:
            peers.add(event.peer)
        if event.kind in (Kind.VOTERS, Kind.STARTING_VOTERS):
            told = event.body[0] if event.kind is Kind.VOTERS else event.body
            voters.update(voter[0] for voter in told)
    return Terms({*logs, *peers, *voters}, voters)


def _models(
    logs: dict[int, Sequence[Event]], terms: Terms, formats: Formats, homes: dict[str, int], *, is_late: bool
) -> Callable[[Collection[str]], QuorumBase]:
    """Return a function that makes `quorum` as Kafka runs it, without some known differences.

    `formats` holds the voters and kraft.version of formatted disks.
    """
    servers, initial, version = _constants(list(chain.from_iterable(logs.values())), terms, homes, is_late=is_late)

    def formatted_voters(self: QuorumBase, host: ModelValue, directory: int) -> frozenset[Voter]:
        return formats.get((host, directory), (frozenset[Voter](), 0))[0]

    def formatted_version(self: QuorumBase, host: ModelValue, directory: int) -> int:
        return formats.get((host, directory), (frozenset[Voter](), 0))[1]

    methods = {"formatted_voters": formatted_voters, "formatted_version": formatted_version}
    initial_keys = frozenset(voter.key.id for voter in initial)
    constants = {
        "hosts": frozenset(terms.hosts.values()),
        "initial_voters": initial_keys or frozenset(terms.hosts.values()),
        "bootstrap_servers": servers,
        "initial_version": version,
        "old_software": _old_software(logs, terms, homes) - (initial_keys if version else frozenset()),
        "plain_answers": True,
        "auto_join": True,
    }

    def make(without: Collection[str]) -> QuorumBase:
        kind = as_kafka(Quorum, cluster=True, without=without)
        made: Any = type("RecordedQuorum", (kind,), {"__doc__": kind.__doc__, **methods})
        bounds = {c.attribute: MANY for c in made.constants.values() if c.is_bound}
        protocol: QuorumBase = made(**{**bounds, "cuts": 0, "losses": 0, "duplicates": 0, **constants})
        return protocol

    return make


def _old_software(logs: dict[int, Sequence[Event]], terms: Terms, homes: dict[str, int]) -> frozenset[ModelValue]:
    """Return the nodes whose software supports no kraft.version but 0, by their UpdateVoter or ApiVersions."""
    shown: dict[int | None, int] = defaultdict(int)
    for node, version in chain.from_iterable(_software(events, terms, homes) for events in logs.values()):
        shown[node] = max(shown[node], version)
    return frozenset(terms.hosts[node] for node in terms.hosts if shown.get(node) == 0)


def _software(events: Sequence[Event], terms: Terms, homes: dict[str, int]) -> Iterator[tuple[int | None, int]]:
    """Yield nodes with the highest kraft.version of their software, as a log shows it."""
    asked: dict[tuple[int, int], str] = {}
    for event in events:
        api = event.body.api if event.kind in (Kind.SEND, Kind.RESPONSE) else ""
        if api == "UpdateRaftVoter" and event.kind is Kind.SEND:
            yield event.node, event.body.number("maxSupportedVersion")
        elif api == "ApiVersions" and event.kind is Kind.SEND:
            asked[event.incarnation, event.correlation] = event.address
        elif api == "ApiVersions" and not is_lost(event):
            version = terms.versions(event.body, 0, ADMIN, ADMIN).version
            yield homes.get(asked.get((event.incarnation, event.correlation), "")), version


def _constants(
    events: Sequence[Event], terms: Terms, homes: dict[str, int], *, is_late: bool
) -> tuple[frozenset[ModelValue], set[Voter], int]:
    """Return the bootstrap servers, the voters of the first starts, and the kraft.version of formatted disks."""
    named = [address for event in events if event.kind is Kind.BOOTSTRAP for address, _ in event.body]
    servers = frozenset(terms.hosts[homes[address]] for address in named if address in homes)
    if is_late and not all(address in homes for address in named or [""]):
        servers = frozenset(terms.hosts.values())  # some are not known
    starting = {event.node: event for event in reversed(events) if event.kind is Kind.STARTING_VOTERS}
    initial = {voter for event in starting.values() for voter in terms.voters(event.body)}
    versions = [event.body[0] for event in events if event.kind is Kind.VERSION and event.body[1] < 0]
    is_static = any(voter.key.directory == UNKNOWN_DIRECTORY for voter in initial)
    return servers, initial, 0 if is_static else max(versions, default=0)


class ReplayRecorder(Protocol):
    """A follower of the replay, such as the page of a cluster's life."""

    def add(self, events: Sequence[Event]) -> object:
        """Take the next replayed events of a node."""

    def diverges(self, event: Event, what: str) -> object:
        """Take the divergence."""

    def end(self) -> object:
        """End the replay."""


@dataclass(frozen=True)
class Inputs:
    """The logs and disks of a cluster, and how to read and judge them; times are in milliseconds."""

    paths: tuple[Path, ...]
    nodes: tuple[tuple[int, Path], ...] = ()  # paths whose events are those of one node
    pattern: str = DEFAULT_PATTERN
    since: int | None = None
    until: int | None = None
    limit_bytes: int = LIMIT
    kafka: str = ""
    without: tuple[str, ...] = ()  # known differences that the model has not
    monitors: bool = False
    seconds: float | None = None  # of the replay

    def read(self, report: Callable[[int], object] = lambda count: None) -> Validation:
        """Read the disks and the logs; raise InputError if there is neither, or one cannot be read."""
        disks = read_disks([path for path in self.paths if is_disk(path)], limit_bytes=self.limit_bytes)
        wanted = Wanted(self.pattern, self.since, self.until, self.limit_bytes, report)
        sources = read_sources(filterfalse(is_segment, self.paths), self.nodes, wanted)
        _require_some(self, sources, has_disks=bool(disks))
        return Validation(sources, disks, self.kafka, self.without, self.monitors)


def validate(
    found: Validation,
    inputs: Inputs,
    report: Callable[[int, float], object] = lambda count, seconds: None,
    recorder: ReplayRecorder | None = None,
) -> None:
    """Replay the logs that show messages, and check the others and the disks."""
    sources = found.sources
    if found.disks:
        found.disk_report = check_disks(found.disks)
    if inputs.monitors or not sources.logs:
        found.monitored = check_events(chain.from_iterable(sources.every.values())) if sources.every else None
    found.storms = storms_in(sources)
    if sources.logs:
        _replay(found, inputs, report, recorder)


def _require_some(inputs: Inputs, sources: Sources, *, has_disks: bool) -> None:
    """Raise InputError unless a log or a disk was found."""
    if sources.logs or sources.quiet or has_disks:
        return
    named = [*map(str, inputs.paths), *(f"{node}={path}" for node, path in inputs.nodes)]
    is_limited = inputs.since is not None or inputs.until is not None
    more = " between --from and --to" if is_limited else f" in {sources.others:,} files"
    raise InputError(
        f"{', '.join(named[:4])}: expected lines of org.apache.kafka.raft, or folders __cluster_metadata-0, found"
        f" neither{more}; name others, or give the logs' pattern by --pattern"
    )


def _replay(
    found: Validation, inputs: Inputs, report: Callable[[int, float], object], recorder: ReplayRecorder | None
) -> None:
    """Replay the logs up to the first divergence."""
    replay = found.replay = replay_of(dict(found.sources.logs), heads=found.sources.late, without=found.without)
    began = time.monotonic()
    replayed = {number: node.position for number, node in replay.nodes.items()}
    for number, node in enumerate(replay.run()):
        if recorder is not None:
            recorder.add(node.events[replayed[node.number] : node.position])
            replayed[node.number] = node.position
        if number % 100 == 0:
            spent = time.monotonic() - began
            report(sum(replay.explained.values()), spent)
            if inputs.seconds is not None and spent > inputs.seconds:
                found.limit = f"--time-limit {inputs.seconds:g}"
                break
    found.seconds = time.monotonic() - began
    late = replay.nodes if inputs.since is not None else found.sources.late
    found.gaps = gaps_in(replay, late, ends=inputs.until is not None)
    if recorder is not None:
        recorder.end()
    if replay.divergence is not None:
        if recorder is not None:
            recorder.diverges(replay.divergence.event, replay.divergence.what)
        paths = [*inputs.paths, *(path for _, path in inputs.nodes)]
        found.line = line_of(paths, replay.divergence.event, inputs.limit_bytes)

"""The model of a recorded cluster: `quorum` as Kafka runs it, with the constants that its logs show."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from typing import Any

from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.base import QuorumBase
from kraftcheck.kraft_model.quorum.records import ADMIN, UNKNOWN_DIRECTORY, Replica, Voter
from kraftcheck.kraft_model.quorum.variants.kafka import known_difference_classes_by_name, with_known_kafka_differences
from kraftcheck.spec import ModelValue
from kraftcheck.validation.events import Event, EventKind, is_transport_error
from kraftcheck.validation.line_checks import KnownDifferenceUses
from kraftcheck.validation.replayed_model import FormatByDisk
from kraftcheck.validation.translation import OTHER_CLUSTER, ClusterIdsByProcess, ModelTranslator

UNLIMITED_BOUND = 1_000_000
"""A bound that no log exhausts."""


def translator_of_logs(logs: dict[int, Sequence[Event]]) -> ModelTranslator:
    """Return the terms of a cluster: its nodes, and those that are voters at any time."""
    voters: set[int] = set()
    peers: set[int] = set()
    for event in chain.from_iterable(logs.values()):
        if event.peer is not None:
            peers.add(event.peer)
        if event.kind in (EventKind.VOTERS, EventKind.STARTING_VOTERS):
            told = event.body[0] if event.kind is EventKind.VOTERS else event.body
            voters.update(voter[0] for voter in told)
    return ModelTranslator({*logs, *peers, *voters}, voters, ClusterIdsByProcess(logs))


def model_of_logs_with_difference_uses(
    logs: dict[int, Sequence[Event]],
    terms: ModelTranslator,
    formats: FormatByDisk,
    homes: dict[str, int],
    without: Collection[str],
    *,
    is_late: bool,
) -> tuple[QuorumBase, KnownDifferenceUses]:
    """Return `quorum` as Kafka runs it, without some known differences, and the uses of the others.

    `formats` holds the voters and kraft.version of formatted disks.
    """
    servers, initial, version = _servers_initial_voters_and_version(
        list(chain.from_iterable(logs.values())), terms, homes, is_late=is_late
    )

    def formatted_voters(self: QuorumBase, host: ModelValue, directory: int) -> frozenset[Voter]:
        return formats.get((host, directory), (frozenset[Voter](), 0))[0]

    def formatted_version(self: QuorumBase, host: ModelValue, directory: int) -> int:
        return formats.get((host, directory), (frozenset[Voter](), 0))[1]

    def is_foreign(self: QuorumBase, me: Replica, source: ModelValue) -> bool:
        return source == OTHER_CLUSTER

    methods = {"formatted_voters": formatted_voters, "formatted_version": formatted_version, "is_foreign": is_foreign}
    initial_keys = frozenset(voter.key.id for voter in initial)
    constants = {
        "hosts": frozenset(terms.hosts.values()),
        "initial_voters": initial_keys or frozenset(terms.hosts.values()),
        "bootstrap_servers": servers,
        "initial_version": version,
        "old_software": _nodes_of_old_software(logs, terms, homes) - (initial_keys if version else frozenset()),
        "plain_answers": True,
        "auto_join": True,
    }

    def make(*left_out: str) -> QuorumBase:
        kind = with_known_kafka_differences(Quorum, cluster=True, without=(*without, *left_out))
        made: Any = type("RecordedQuorum", (kind,), {"__doc__": kind.__doc__, **methods})
        bounds = {c.attribute: UNLIMITED_BOUND for c in made.constants.values() if c.is_bound}
        protocol: QuorumBase = made(**{**bounds, "cuts": 0, "losses": 0, "duplicates": 0, **constants})
        return protocol

    protocol = make()
    parts = {name: part for name, part in known_difference_classes_by_name(cluster=True).items() if name not in without}
    return protocol, KnownDifferenceUses(protocol, Quorum, parts, make)


def _nodes_of_old_software(
    logs: dict[int, Sequence[Event]], terms: ModelTranslator, homes: dict[str, int]
) -> frozenset[ModelValue]:
    """Return the nodes whose software supports no kraft.version but 0, by their UpdateVoter or ApiVersions."""
    shown: dict[int | None, int] = defaultdict(int)
    for node, version in chain.from_iterable(
        _supported_kraft_versions(events, terms, homes) for events in logs.values()
    ):
        shown[node] = max(shown[node], version)
    return frozenset(terms.hosts[node] for node in terms.hosts if shown.get(node) == 0)


def _supported_kraft_versions(
    events: Sequence[Event], terms: ModelTranslator, homes: dict[str, int]
) -> Iterator[tuple[int | None, int]]:
    """Yield nodes with the highest kraft.version of their software, as a log shows it."""
    asked: dict[tuple[int, int], str] = {}
    for event in events:
        api = event.body.api if event.kind in (EventKind.SEND, EventKind.RESPONSE) else ""
        if api == "UpdateRaftVoter" and event.kind is EventKind.SEND:
            yield event.node, event.body.number("maxSupportedVersion")
        elif api == "ApiVersions" and event.kind is EventKind.SEND:
            asked[event.incarnation, event.correlation] = event.address
        elif api == "ApiVersions" and not is_transport_error(event):
            version = terms.versions(event.body, 0, ADMIN, ADMIN).version
            yield homes.get(asked.get((event.incarnation, event.correlation), "")), version


def _servers_initial_voters_and_version(
    events: Sequence[Event], terms: ModelTranslator, homes: dict[str, int], *, is_late: bool
) -> tuple[frozenset[ModelValue], set[Voter], int]:
    """Return the bootstrap servers, the voters of the first starts, and the kraft.version of formatted disks."""
    named = [address for event in events if event.kind is EventKind.BOOTSTRAP for address, _ in event.body]
    servers = frozenset(terms.hosts[homes[address]] for address in named if homes.get(address) in terms.hosts)
    if is_late and not all(address in homes for address in named or [""]):
        servers = frozenset(terms.hosts.values())  # some are not known
    starting = {event.node: event for event in reversed(events) if event.kind is EventKind.STARTING_VOTERS}
    initial = {voter for event in starting.values() for voter in terms.voters(event.body)}
    versions = [event.body[0] for event in events if event.kind is EventKind.VERSION and event.body[1] < 0]
    is_static = any(voter.key.directory == UNKNOWN_DIRECTORY for voter in initial)
    return servers, initial, 0 if is_static else max(versions, default=0)

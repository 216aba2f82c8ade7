"""The replay of a cluster, built from the events of its nodes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain
from typing import Any

from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.base import QuorumBase
from kraftcheck.kraft_model.quorum.records import UNKNOWN_DIRECTORY, Voter
from kraftcheck.kraft_model.quorum.variants.kafka import as_kafka
from kraftcheck.spec import ModelValue
from kraftcheck.validation.effects import Formats
from kraftcheck.validation.events import Event, Kind
from kraftcheck.validation.pairing import Pairs, addresses, numbered, pair
from kraftcheck.validation.replay import ClusterReplay
from kraftcheck.validation.state import Node
from kraftcheck.validation.terms import Terms

MANY = 1_000_000
"""A bound that no log exhausts."""


def replay_of(
    logs: dict[int, Sequence[Event]], *, without: Collection[str] = (), pairs: Pairs | None = None
) -> ClusterReplay:
    """Return the replay of the events of a cluster's nodes, each in the order of its log.

    `pairs` are the two ends of each message; by default they are found.
    """
    for events in logs.values():
        numbered(events)
    terms = _terms(logs)
    nodes = {node: Node(node, events) for node, events in logs.items()}
    formats: Formats = {}
    homes = addresses(logs)
    protocol = _protocol(logs, terms, formats, homes, without)
    return ClusterReplay(protocol, terms, nodes, pairs or pair(logs, homes), formats, homes)


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


def _protocol(
    logs: dict[int, Sequence[Event]], terms: Terms, formats: Formats, homes: dict[str, int], without: Collection[str]
) -> QuorumBase:
    """Return `quorum` as Kafka runs it; `formats` holds the voters and kraft.version of formatted disks."""
    servers, initial, version = _constants(list(chain.from_iterable(logs.values())), terms, homes)

    def formatted_voters(self: QuorumBase, host: ModelValue, directory: int) -> frozenset[Voter]:
        return formats.get((host, directory), (frozenset[Voter](), 0))[0]

    def formatted_version(self: QuorumBase, host: ModelValue, directory: int) -> int:
        return formats.get((host, directory), (frozenset[Voter](), 0))[1]

    kind = as_kafka(Quorum, cluster=True, without=without)
    methods = {"formatted_voters": formatted_voters, "formatted_version": formatted_version}
    made: Any = type("RecordedQuorum", (kind,), {"__doc__": kind.__doc__, **methods})
    bounds = {c.attribute: MANY for c in made.constants.values() if c.is_bound}
    protocol: QuorumBase = made(
        **{**bounds, "cuts": 0, "losses": 0, "duplicates": 0},
        hosts=frozenset(terms.hosts.values()),
        initial_voters=frozenset({voter.key.id for voter in initial} or terms.hosts.values()),
        bootstrap_servers=servers,
        initial_version=version,
        plain_answers=True,
        auto_join=True,
    )
    return protocol


def _constants(
    events: Sequence[Event], terms: Terms, homes: dict[str, int]
) -> tuple[frozenset[ModelValue], set[Voter], int]:
    """Return the bootstrap servers, the voters of the first starts, and the kraft.version of formatted disks."""
    named = [address for event in events if event.kind is Kind.BOOTSTRAP for address, _ in event.body]
    servers = frozenset(terms.hosts[homes[address]] for address in named if address in homes)
    starting = [event for event in events if event.kind is Kind.STARTING_VOTERS and event.incarnation == 0]
    initial = {voter for event in starting for voter in terms.voters(event.body)}
    versions = [event.body[0] for event in events if event.kind is Kind.VERSION and event.body[1] < 0]
    is_static = any(voter.key.directory == UNKNOWN_DIRECTORY for voter in initial)
    return servers, initial, 0 if is_static else max(versions, default=0)

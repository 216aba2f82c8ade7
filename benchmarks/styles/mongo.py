"""Reconfiguration of MongoDB's replica sets without a log: configurations spread by gossip."""
from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from kraftcheck import *


class Role(Symbol):
    SECONDARY = "Secondary"
    PRIMARY = "Primary"


class Server(Record):
    id: ModelValue
    config: frozenset[ModelValue]
    term: int = 0
    role: Role = Role.SECONDARY
    config_version: int = 1
    config_term: int = 0


def subsets(servers):
    members = ordered(servers)
    return [frozenset(some) for size in range(len(members) + 1) for some in combinations(members, size)]


def quorums(config):
    return [some for some in subsets(config) if 2 * len(some) > len(config)]


def overlap(one, other):
    return all(x & y for x in quorums(one) for y in quorums(other))


def version(server):
    return server.config_term, server.config_version


class LoglessRaft(Protocol):
    servers: frozenset[ModelValue] = constant("Server")
    max_term: int = constant("MaxTerm")
    max_config_version: int = constant("MaxConfigVersion")

    def initial(self) -> Iterator[State]:
        for config in subsets(self.servers):
            if config:
                yield self.start([Server(s, config) for s in self.servers])

    @projection
    def every(self, me: Server) -> Server:
        return me

    @internal(reads=every)
    def reconfig(self, me: Server, every: Map[ModelValue, Server]) -> Steps:
        if me.role is not Role.PRIMARY:
            return
        if not any(all(version(every[t]) == version(me) for t in q) for q in quorums(me.config)):
            return
        if not any(all(every[t].term == me.term for t in q) for q in quorums(me.config)):
            return
        for config in subsets(self.servers):
            if me.id in config and overlap(me.config, config):
                yield become(me.but(config_term=me.term, config_version=me.config_version + 1, config=config))

    @internal(reads=every)
    def send_config(self, me: Server, every: Map[ModelValue, Server]) -> Steps:
        for peer in every.values():
            if peer.role is Role.SECONDARY and version(me) > version(peer):
                yield Step().write(
                    peer.but(config_version=me.config_version, config_term=me.config_term, config=me.config)
                )

    @internal(reads=every)
    def become_leader(self, me: Server, every: Map[ModelValue, Server]) -> Steps:
        term = me.term + 1
        if me.id not in me.config:
            return
        for quorum in quorums(me.config):
            voters = [every[v] for v in quorum]
            if me.id in quorum and all(v.term < term and version(me) >= version(v) for v in voters):
                yield become(me.but(term=term, role=Role.PRIMARY, config_term=term)).write(
                    *[v.but(term=term, role=Role.SECONDARY) for v in voters if v.id != me.id]
                )

    @internal(reads=every)
    def update_terms(self, me: Server, every: Map[ModelValue, Server]) -> Steps:
        for peer in every.values():
            if me.term > peer.term:
                yield Step().write(peer.but(term=me.term, role=Role.SECONDARY))

    @constraint
    def state_constraint(self, me: Server) -> bool:
        return me.term <= self.max_term and me.config_version <= self.max_config_version

    @invariant
    def one_primary_per_term(self, me: Server, peer: Server) -> bool:
        both = me.role is Role.PRIMARY and peer.role is Role.PRIMARY
        return me.id == peer.id or not (both and me.term == peer.term)

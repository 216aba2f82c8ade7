"""Starts of a process: the states of the model in which it may begin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, takewhile
from typing import Any

from kraftcheck.kraft_model.quorum.records import (
    DiskReplica,
    KRaftVersion,
    Mode,
    Nil,
    Replica,
    Voter,
    Voters,
)
from kraftcheck.spec import ModelValue, Record
from kraftcheck.validation.events import Event, Kind
from kraftcheck.validation.rebasing import Rebasing, renumbered, split
from kraftcheck.validation.state import Node, NodeState
from kraftcheck.validation.terms import (
    count_of,
    data_batch,
    offset_of,
)


class Starts(Rebasing):
    """States of a starting process."""

    def _boots(self, node: Node, unit: Sequence[Event]) -> Iterator[NodeState]:
        """Yield the states in which a process may start."""
        node.asked = {}
        number, endpoint = self._directory(node, unit[0].incarnation), self._own_endpoint(node, unit[0].incarnation)
        host = self.terms.hosts[node.number]
        if node.state is None or (number and number != node.state.me.directory):
            self._formatted(host, number or 1, unit)
        if node.state is None:
            fresh = self.protocol.formatted(host, number or 1, endpoint or 1)
            yield NodeState(self._first(node, unit, self._with_snapshots(fresh, unit)))
            return
        known = self._left(node, node.state)
        if number and number != node.state.me.directory:
            lost = self.shared.lost.put(node.state.me.key, node.state.me.log)
            blank = self.protocol.formatted(host, number, endpoint or node.state.me.endpoint)
            yield NodeState(self._with_snapshots(blank, unit), puts=(("lost", lost),), actions=("LoseDisk",))
            return
        for before in (*known, *(after for one in known for after, name in self._moves(node, one, unit[0]) if name)):
            kept = self._extended(before.me if not endpoint else before.me.but(endpoint=endpoint), node, unit[0])
            me, _ = self.protocol.next_request(self.protocol.after_restart(kept))
            yield NodeState(self._with_snapshots(me, unit), ends=())

    def _left(self, node: Node, last: NodeState) -> list[NodeState]:
        """Return the states in which a process may have ended.

        They are without an append that has no line if a later process shows a log without it.
        """
        shown, found = node.shown_end(), list[NodeState]()
        for state in (last, *node.alternatives):
            log = state.me.log
            is_short = shown is not None and log and shown[0] == offset_of(log, len(log) - 1)
            if is_short and state.appended >= node.position:
                state = state._replace(me=self.protocol.with_log(state.me, log[:-1], flushes=True))
            found.append(state)
        return found

    def _formatted(self, host: ModelValue, directory: int, unit: Sequence[Event]) -> None:
        """Note the voter set and kraft.version that a disk was formatted with, as its first start shows them."""
        told = [event.body[0] for event in unit if event.kind is Kind.VOTERS and event.body[1] < 0]
        if not any(event.kind is Kind.VOTERS for event in _read(unit)):  # static voters
            told = [event.body for event in unit if event.kind is Kind.STARTING_VOTERS]
        versions = [event.body[0] for event in unit if event.kind is Kind.VERSION and event.body[1] < 0]
        voters = self.terms.voters(told[-1]) if told else frozenset[Voter]()
        self.formats[host, directory] = (voters, versions[-1] if versions else 0)

    def _extended(self, me: Replica, node: Node, event: Event) -> Replica:
        """Return a replica with the batches that its killed process has stored without a line, if there are any."""
        end, epoch = node.known_end(event.incarnation)
        node.is_released = False
        held = offset_of(me.log, len(me.log))
        if end <= held:
            return me
        for other in self.nodes.values():
            log = other.state.me.log if other.state is not None else ()
            count = count_of(log, end)
            if count <= len(log) and offset_of(log, count) == end and log[: len(me.log)] == me.log:
                return self.protocol.with_log(me, log[:count], flushes=True)
        if me.leader == me.id and epoch == me.epoch:  # its own batch, unknown to its followers
            return self.protocol.with_log(me, (*me.log, data_batch(epoch, end)), flushes=True)
        return me

    def _with_snapshots(self, me: Replica, unit: Sequence[Event]) -> Replica:
        """Return a replica with the snapshots that its starting process finds on its disk, or reads at its start."""
        if not isinstance(me, DiskReplica):
            return me
        found = [event.body for event in unit if event.kind is Kind.DISK]
        known = set() if found else set(me.snapshots)
        read = [event.body for event in unit if event.kind is Kind.LOADED]
        named = [*chain.from_iterable(found), *read]
        for end, _ in named:
            me = renumbered(me, partial(split, offset=end))
            self.split(end)
        ends = {count_of(me.log, end) for end, _ in named}
        return me.but(snapshots=tuple(sorted(end for end in known | ends if end <= len(me.log))))

    def _first(self, node: Node, unit: Sequence[Event], fresh: Replica) -> Replica:
        """Return a replica at its first start: as formatted, or as its lines show it if it has run before."""
        shown = next((event.body[0] for event in unit if event.kind is Kind.TRANSITION), None)
        if shown is None:
            return fresh
        me = fresh
        read = _read(unit)
        voters = [event for event in read if event.kind is Kind.VOTERS and event.body[1] >= 0]
        end, epoch = node.known_end(unit[0].incarnation)
        if end > 0 or voters:
            node.is_old = end > 0
            records: list[Record] = []
            versions = [event.body[0] for event in read if event.kind is Kind.VERSION]
            records += [KRaftVersion(versions[-1])] if versions else []
            records += [Voters(self.terms.voters(voters[-1].body[0]))] if voters else []
            batch = data_batch(epoch, end)
            me = self.protocol.with_log(me, (batch.but(records=(*records, *batch.records)),), flushes=True)
            if end > 0:
                self.notes.append(f"node {node.number}: the log up to offset {end} is older than these events")
        if shown["epoch"] == 0 and end <= 0:
            return me
        voted = shown.get("voted")
        return self._with_snapshots(
            me.but(
                mode=Mode(shown["mode"]),
                epoch=shown["epoch"],
                leader=self._leader(node, shown),
                leader_endpoint=self._endpoint(me, shown),
                voted=self.terms.key(*voted) if voted else Nil.NIL,
                granted=self.protocol.own_votes(me) if shown["mode"] == "Candidate" else frozenset(),
            ),
            unit,
        )

    def _leader(self, node: Node, shown: dict[str, Any]) -> ModelValue | Nil:
        if shown["mode"] in ("Leader", "Resigned"):
            return self.terms.hosts[node.number]
        leader = shown.get("leader")
        return Nil.NIL if leader is None else self.terms.host(leader)

    def _endpoint(self, me: Replica, shown: dict[str, Any]) -> int:
        leader, address = shown.get("leader"), shown.get("address")
        if leader is None:
            return 1
        return self.terms.endpoint(leader, address) if address else 0

    def _directory(self, node: Node, incarnation: int) -> int:
        """Return the number of the directory id of an incarnation; 0 if no event shows it."""
        for event in node.events[node.position :]:
            if event.incarnation != incarnation:
                break
            if event.kind is Kind.SEND and event.body.api in ("Fetch", "FetchSnapshot", "Vote"):
                return self.terms.directory(node.number, event.body.get("replicaDirectoryId"))
        return 0

    def _own_endpoint(self, node: Node, incarnation: int) -> int:
        """Return the number of the endpoint that an incarnation names for itself; 0 if no event shows it.

        The voter set of a leader has its own endpoint.
        """
        leads = False
        for event in node.events[node.position :]:
            if event.incarnation != incarnation:
                break
            leads = leads or (event.kind is Kind.TRANSITION and event.body[0]["mode"] == "Leader")
            address = _own_address(event, node.number, leads=leads)
            if address:
                return self.terms.endpoint(node.number, address)
        return 0


def _own_address(event: Event, node: int, *, leads: bool) -> str | None:
    """Return the host and port that a node's event names for the node."""
    if event.kind is Kind.VOTERS:
        return next((voter[2] for voter in event.body[0] if voter[0] == node and leads), None)
    if event.kind is Kind.SEND:
        is_own = event.body.api in ("BeginQuorumEpoch", "UpdateRaftVoter", "AddRaftVoter")
    else:
        is_own = event.kind is Kind.ANSWER and event.body.number("leaderId") == node
    host, port = (event.body.get("host"), event.body.get("port")) if is_own else (None, None)
    return None if host in (None, "''") or port is None else f"{host[1:-1]}:{port}"


def _read(unit: Sequence[Event]) -> list[Event]:
    """Return the lines of a start up to the voters that the process has read; it may write others at once."""
    return list(takewhile(lambda event: event.kind is not Kind.STARTING_VOTERS, unit))

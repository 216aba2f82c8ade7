"""Steps of the model on a node: the replica after a step, and the responses that are due."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from kraftcheck.kraft_model.quorum.base import QuorumBase
from kraftcheck.kraft_model.quorum.records import (
    AddVoterRequest,
    AdminResponse,
    ApiVersionsRequest,
    Batch,
    BeginQuorumEpochRequest,
    Data,
    DescribeQuorumResponse,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Operation,
    RemoveVoterRequest,
    Replica,
    Shared,
    UpdateVoterRequest,
    UpdateVoterResponse,
    Voter,
    VoteRequest,
)
from kraftcheck.spec import Map, ModelValue, Record, Step
from kraftcheck.validation.events import Event
from kraftcheck.validation.invariants import BrokenProperty, PropertyCheck
from kraftcheck.validation.pairing import Pairs
from kraftcheck.validation.state import Due, Node, NodeState, Refusal, next_append
from kraftcheck.validation.terms import (
    OffsetBatch,
    Terms,
    data_batch,
    offset_of,
)

TIMERS = ("fetch_timeout", "election_timeout", "pre_vote_timeout", "resigned_timeout", "resign")
"""Internal actions that change the mode; their lines are transitions."""

OPERATIONS = {"AddRaftVoter": Operation.ADD_VOTER, "RemoveRaftVoter": Operation.REMOVE_VOTER}


Formats = dict[tuple[ModelValue, int], tuple[frozenset[Voter], int]]
"""Voter set and kraft.version of each formatted disk, by host and directory."""


class Effects:
    """The model's side of a replay: `explained` counts events by kind, `found` the steps that no line shows."""

    def __init__(
        self,
        protocol: QuorumBase,
        terms: Terms,
        nodes: dict[int, Node],
        pairs: Pairs,
        formats: Formats,
        homes: dict[str, int],
    ) -> None:
        self.protocol = protocol
        self.terms = terms
        self.nodes = nodes
        self.pairs = pairs
        self.shared: Shared = protocol.shared_type()
        self.explained: Counter[str] = Counter()
        self.found: Counter[str] = Counter()
        self.notes: list[str] = []
        self.done: set[int] = set()  # ids of replayed sendings
        self.formats = formats
        self.used: set[int] = set()  # ids of sendings whose receipt is replayed
        self.records: dict[int, tuple[Batch, ...]] = {}  # the batches of each response, by id of its event
        self.divergence: Refusal | None = None
        is_whole = terms.voters_seen <= set(nodes) and not any(node.position for node in nodes.values())
        self.check = PropertyCheck(protocol, is_whole=is_whole)
        self.homes = homes  # the node behind each host and port

    @property
    def broken(self) -> list[BrokenProperty]:
        """The broken properties."""
        return [BrokenProperty(name, event) for name, event in self.check.first.items()]

    def replicas(self) -> dict[ModelValue, Replica]:
        """Return the replicas of the nodes that have started."""
        started = (node.state.me for node in self.nodes.values() if node.state is not None)
        return {me.id: me for me in started}

    # The effect of a step

    def _taken(self, state: NodeState, step: Step, node: Node, event: Event, key: Any) -> NodeState:
        """Return the state after a step of the model, with the responses that are due."""
        after: Replica = step.me if isinstance(step.me, Replica) else state.me
        after, appended = self._with_ends(after, node, state.appended)
        puts = dict(step.puts)
        if "committed" in puts:
            puts["committed"] = after.log[: len(puts["committed"])]
        due, ends = list(state.due), state.ends
        for message in step.sent:
            if isinstance(message, EndQuorumEpochRequest):
                ends = (message,) if not ends or ends[0].epoch != message.epoch else (*ends, message)
            found = self._due(message, after, event, key)
            if found is not None:
                due.append(found)
        sent = state.sent if after.pending == state.me.pending else None
        return state._replace(
            me=after,
            due=tuple(due),
            ends=ends,
            puts=(*state.puts, *puts.items()),
            sent=sent,
            appended=appended,
            votes=_votes(state, after, step),
            owed=next((sent for sent in step.sent if isinstance(sent, ApiVersionsRequest)), state.owed),
        )

    def _due(self, message: Record, after: Replica, event: Event, key: Any) -> Due | None:
        expected = None if isinstance(message, FetchRequest) else self.terms.expected(message, after.log, after.start)
        if expected is None or isinstance(message, VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest):
            return None
        if isinstance(message, AdminResponse):
            api = next((name for name, operation in OPERATIONS.items() if operation is message.operation), None)
            return None if api is None else Due(api, None, expected, ())
        if isinstance(message, UpdateVoterResponse):
            return Due("UpdateRaftVoter", None, expected, ())
        if isinstance(message, DescribeQuorumResponse):
            return Due("DescribeQuorum", key, expected, ())
        if key is None or isinstance(
            message, FetchSnapshotRequest | UpdateVoterRequest | AddVoterRequest | RemoveVoterRequest
        ):
            return None
        records: tuple[Batch, ...] = ()
        if isinstance(message, FetchResponse):
            records = message.records
        elif isinstance(message, FetchSnapshotResponse):
            records = after.log[: len(message.content)]
        return Due(event.body.api, key, expected, records)

    def _with_ends(self, me: Replica, node: Node, appended: int) -> tuple[Replica, int]:
        """Return a leader with the end offsets of new batches, from the append lines that come next."""
        fresh = 0
        while fresh < len(me.log) and not isinstance(me.log[-1 - fresh], OffsetBatch):
            fresh += 1
        if not fresh:
            return me, appended
        log = list(me.log[: len(me.log) - fresh])
        for batch in me.log[len(me.log) - fresh :]:
            appended = next_append(node, max(appended + 1, node.position))
            end = node.events[appended].body[1] if appended < len(node.events) else offset_of(tuple(log), len(log)) + 1
            plain = all(isinstance(record, Data) for record in batch.records)
            log.append(data_batch(batch.epoch, end) if plain else OffsetBatch(batch.epoch, batch.records, end))
        return me.but(log=tuple(log)), appended

    def _parks(self, due: Due) -> bool:
        """Whether a response to a fetch may be delayed: it has no error, no records, no other offset to go to."""
        if due.api != "Fetch" or not getattr(self.protocol, "parks_fetches", False):
            return False
        expected = due.expected
        nothing = ("errorCode", 1), ("epoch", 0), ("endOffset", 1)
        return [expected.get(field) for field in nothing] == ["0", "-1", "-1"] and not due.records

    def _moves(self, node: Node, state: NodeState, event: Event) -> Iterator[tuple[NodeState, str]]:
        """Yield the state itself, and the states after a timer of the model."""
        yield state, ""
        for name in TIMERS:
            action = getattr(self.protocol, name)
            context: tuple[Any, ...] = (self.shared, Map()) if name in ("fetch_timeout", "election_timeout") else ()
            for step in action(state.me, *context):
                if isinstance(step.me, Replica):
                    yield self._taken(state, step, node, event, None), name


def _votes(state: NodeState, after: Replica, step: Step) -> Mapping[ModelValue, int | None]:
    """Return the Vote requests of the round after a step: none in a new round, and without those that it repeats."""
    if not state.votes or (after.mode, after.epoch) != (state.me.mode, state.me.epoch):
        return {}
    again = {message.dest for message in step.sent if isinstance(message, VoteRequest)}
    return {voter: sent for voter, sent in state.votes.items() if voter not in again}

"""Steps of the replayed model on a node: the replica after a step, the responses due, the properties violated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

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
    Error,
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
from kraftcheck.spec import Map, ModelValue, Record, State, Step
from kraftcheck.spec.language.incremental_checks import properties_violated_by_step
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.validation.events import Event, SendReceivePairs
from kraftcheck.validation.replay_state import (
    FIRST_POSITION,
    DueResponse,
    EventRefusal,
    NodeHypothesis,
    NodeProgress,
    position_of_next_append,
)
from kraftcheck.validation.translation import (
    ModelTranslator,
    OffsetBatch,
    data_batch_of_unknown_contents,
    record_offset_of_batch,
)

FIELDS_READ_BY_PROPERTIES = ("mode", "epoch", "leader", "voted", "log", "high_watermark", "voters", "start")
"""Fields of a replica; a step that changes none of them breaks no property."""

DIFFERENCE_BY_BROKEN_PROPERTY = {
    "NewVotersHaveCaughtUp": "CaughtUpWithinTheHour",
    "UpdatesAreKept": "UpdateVoterWithoutError",
}
"""Properties that a known difference breaks, by its class; they are evaluated if the difference is left out.

AddVoter accepts a replica that was at the log end within the last hour; UpdateVoter is answered before its commit.
"""

ONE_STEP_PROPERTIES = ("PreVoteRaisesNoEpoch",)
"""Properties of single steps: a unit may take several. The replay takes the model's own steps, which keep them."""

ROUTINE_STEPS_A_CHECK = 16
"""Appends and commits in a row after which the properties are evaluated; every other step is evaluated at once."""

MOST_MEMOIZED_STATES = 2_000
"""States after which memoized calls are dropped."""


class ViolatedProperty(NamedTuple):
    """A property that a step of the cluster breaks, and the last event of the step."""

    name: str
    event: Event


class PropertyChecker:
    """Evaluates the invariants of a protocol after each step that may break one.

    Unless a replay is whole, some replicas are unknown: only properties of one replica are checked.
    """

    def __init__(self, protocol: QuorumBase, *, is_whole: bool) -> None:
        self._protocol = protocol
        self.is_whole = is_whole
        excused = _properties_excused_by_known_differences(protocol)
        found = [p for p in protocol.properties.values() if p.name not in excused]
        found = [p for p in found if not p.needs and "message" not in p.asks]
        if not is_whole:
            found = [p for p in found if not p.reads and not {"shared", "peer"} & set(p.asks)]
        self._of_states = [p for p in found if p.kind == "invariant"]
        self._of_steps = [p for p in found if p.kind == "step_invariant" and not p.of_actor]
        self._semantics = Semantics(protocol)
        self.before: State | None = None
        self.states = 0
        self._routine = 0
        self.first: dict[str, Event] = {}  # the broken properties, each with the last event of the step
        self.doubtful: dict[str, Event] = {}  # those that are broken where a replica is behind
        self.unwritten: dict[int, int] = {}  # senders of received messages that their logs lack, by id() of the receipt
        self.behind: set[int] = set()  # nodes whose replicas are behind: a message has come that their logs lack

    def is_due(self, before: Replica | None, after: Replica) -> bool:
        """Whether the properties are to be evaluated after a step of a replica."""
        fields = changed_property_fields(before, after)
        self._routine += only_appends_or_commits(fields, before, after)
        if fields and (not only_appends_or_commits(fields, before, after) or self._routine >= ROUTINE_STEPS_A_CHECK):
            self._routine = 0
            return True
        return False

    def look(self, replicas: Mapping[ModelValue, Replica], shared: Shared, event: Event) -> None:
        """Note the properties that the step to this state breaks; `event` is its last."""
        for name in self._broken(replicas, shared):
            (self.doubtful if self.behind else self.first).setdefault(name, event)

    def _broken(self, replicas: Mapping[ModelValue, Replica], shared: Shared) -> list[str]:
        before, self.states = self.before, self.states + 1
        if self.states % MOST_MEMOIZED_STATES == 0:
            self._semantics = Semantics(self._protocol)
        after = State(Map(replicas), Map(), shared, Map())
        self.before = after
        if before is None:
            return [p.name for p in self._of_states if not self._semantics.holds(p, after)]
        found = [p.name for p in properties_violated_by_step(self._semantics, self._of_states, before, after)]
        found += [p.name for p in self._of_steps if not self._semantics.holds_over(p, before, after)]
        return found

    def divided(self, replicas: Mapping[ModelValue, Replica], shared: Shared) -> None:
        """Take over the last state with its logs divided into other batches."""
        if self.before is not None:
            self.before = State(Map(replicas), Map(), shared, Map())


def _properties_excused_by_known_differences(protocol: QuorumBase) -> set[str]:
    """Return the properties that are not evaluated, given the known differences of a protocol."""
    kinds = {kind.__name__ for kind in type(protocol).__mro__}
    return {name for name, difference in DIFFERENCE_BY_BROKEN_PROPERTY.items() if difference in kinds} | set(
        ONE_STEP_PROPERTIES
    )


def changed_property_fields(before: Replica | None, after: Replica) -> set[str]:
    """Return the fields that a step changes and that a property may depend on."""
    return {
        name for name in FIELDS_READ_BY_PROPERTIES if before is None or getattr(before, name) != getattr(after, name)
    }


def only_appends_or_commits(fields: set[str], before: Replica | None, after: Replica) -> bool:
    """Whether a step only appends batches or raises the high watermark; a property that it breaks stays broken."""
    return before is not None and fields <= {"log", "high_watermark"} and len(after.log) >= len(before.log)


MODE_CHANGING_ACTIONS = ("fetch_timeout", "election_timeout", "pre_vote_timeout", "resigned_timeout", "resign")
"""Internal actions that change the mode; their lines are transitions."""

OPERATION_OF_API = {"AddRaftVoter": Operation.ADD_VOTER, "RemoveRaftVoter": Operation.REMOVE_VOTER}


FormatByDisk = dict[tuple[ModelValue, int], tuple[frozenset[Voter], int]]
"""Voter set and kraft.version of each formatted disk, by host and directory."""


class ReplayedModel:
    """The model's side of a replay: `explained` counts events by kind, `found` the steps that no line shows."""

    def __init__(
        self,
        protocol: QuorumBase,
        terms: ModelTranslator,
        nodes: dict[int, NodeProgress],
        pairs: SendReceivePairs,
        formats: FormatByDisk,
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
        self.divergence: EventRefusal | None = None
        is_whole = terms.voters_seen <= set(nodes) and not any(node.position for node in nodes.values())
        self.check = PropertyChecker(protocol, is_whole=is_whole)
        self.homes = homes  # the node behind each host and port

    @property
    def broken(self) -> list[ViolatedProperty]:
        """The broken properties."""
        return [ViolatedProperty(name, event) for name, event in self.check.first.items()]

    def replicas(self) -> dict[ModelValue, Replica]:
        """Return the replicas of the nodes that have started."""
        started = (node.state.me for node in self.nodes.values() if node.state is not None)
        return {me.id: me for me in started}

    # The effect of a step

    def _taken(self, state: NodeHypothesis, step: Step, node: NodeProgress, event: Event, key: Any) -> NodeHypothesis:
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
        if after.pending != state.me.pending:
            state = state._replace(sent=None, next_positions=FIRST_POSITION)
        return state._replace(
            me=after,
            due=tuple(due),
            ends=ends,
            puts=(*state.puts, *puts.items()),
            appended=appended,
            votes=_vote_requests_after_step(state, after, step),
            owed=next((sent for sent in step.sent if isinstance(sent, ApiVersionsRequest)), state.owed),
        )

    def _due(self, message: Record, after: Replica, event: Event, key: Any) -> DueResponse | None:
        expected = None if isinstance(message, FetchRequest) else self.terms.expected(message, after.log, after.start)
        if expected is None or isinstance(message, VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest):
            return None
        if isinstance(message, AdminResponse):
            api = next((name for name, operation in OPERATION_OF_API.items() if operation is message.operation), None)
            return None if api is None else DueResponse(api, None, expected, ())
        if isinstance(message, UpdateVoterResponse):
            return DueResponse("UpdateRaftVoter", None, expected, ())
        if isinstance(message, DescribeQuorumResponse):
            return DueResponse("DescribeQuorum", key, expected, ())
        if key is None or isinstance(
            message, FetchSnapshotRequest | UpdateVoterRequest | AddVoterRequest | RemoveVoterRequest
        ):
            return None
        records: tuple[Batch, ...] = ()
        if isinstance(message, FetchResponse):
            records = message.records
        elif isinstance(message, FetchSnapshotResponse):
            records = after.log[: len(message.content)]
            if message.error is Error.NONE and event.body.get("position") is not None:
                expected = {**expected, ("position", 0): event.body.get("position")}
        return DueResponse(event.body.api, key, expected, records)

    def _with_ends(self, me: Replica, node: NodeProgress, appended: int) -> tuple[Replica, int]:
        """Return a leader with the end offsets of new batches, from the append lines that come next."""
        fresh = 0
        while fresh < len(me.log) and not isinstance(me.log[-1 - fresh], OffsetBatch):
            fresh += 1
        if not fresh:
            return me, appended
        log = list(me.log[: len(me.log) - fresh])
        for batch in me.log[len(me.log) - fresh :]:
            appended = position_of_next_append(node, max(appended + 1, node.position))
            end = (
                node.events[appended].body[1]
                if appended < len(node.events)
                else record_offset_of_batch(tuple(log), len(log)) + 1
            )
            plain = all(isinstance(record, Data) for record in batch.records)
            log.append(
                data_batch_of_unknown_contents(batch.epoch, end)
                if plain
                else OffsetBatch(batch.epoch, batch.records, end)
            )
        return me.but(log=tuple(log)), appended

    def _parks(self, due: DueResponse) -> bool:
        """Whether a response to a fetch may be delayed: it has no error, no records, no other offset to go to."""
        if due.api != "Fetch" or not getattr(self.protocol, "parks_fetches", False):
            return False
        expected = due.expected
        nothing = ("errorCode", 1), ("epoch", 0), ("endOffset", 1)
        return [expected.get(field) for field in nothing] == ["0", "-1", "-1"] and not due.records

    def _moves(self, node: NodeProgress, state: NodeHypothesis, event: Event) -> Iterator[tuple[NodeHypothesis, str]]:
        """Yield the state itself, and the states after a timer of the model."""
        yield state, ""
        for name in MODE_CHANGING_ACTIONS:
            action = getattr(self.protocol, name)
            context: tuple[Any, ...] = (self.shared, Map()) if name in ("fetch_timeout", "election_timeout") else ()
            for step in action(state.me, *context):
                if isinstance(step.me, Replica):
                    yield self._taken(state, step, node, event, None), name


def _vote_requests_after_step(state: NodeHypothesis, after: Replica, step: Step) -> Mapping[ModelValue, int | None]:
    """Return the Vote requests of the round after a step: none in a new round, and without those that it repeats."""
    if not state.votes or (after.mode, after.epoch) != (state.me.mode, state.me.epoch):
        return {}
    again = {message.dest for message in step.sent if isinstance(message, VoteRequest)}
    return {voter: sent for voter, sent in state.votes.items() if voter not in again}

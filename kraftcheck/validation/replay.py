"""Replay of a cluster's events through the actions of `quorum`, one unit of a node at a time, in causal order.

A unit is a received message with the lines up to the next one. The model's action gives the possible outcomes of the
message; the lines select one. Transitions without a message are found among the timers of the model. A receipt runs
once the sending has run; times are never compared.
"""

from __future__ import annotations

from collections import ChainMap, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import Any

from kraftcheck.kraft_model.quorum.records import (
    ADMIN,
    AddVoterRequest,
    ApiVersionsRequest,
    Batch,
    BeginQuorumEpochRequest,
    DiskReplica,
    EndQuorumEpochRequest,
    Error,
    FetchRequest,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Mode,
    Nil,
    RemoveVoterRequest,
    Replica,
    UpdateVoterRequest,
    VoteRequest,
)
from kraftcheck.kraft_model.quorum.rules import (
    candidate_replica,
    prospective_replica,
    replica_keys,
    resigned_replica,
    unattached_replica,
)
from kraftcheck.spec import Record
from kraftcheck.validation.completeness import (
    LineOrderChecker,
    require_control_lines_at_process_start,
    require_lines_for_changes,
)
from kraftcheck.validation.events import Event, EventKind, is_transport_error, request_pairing_key
from kraftcheck.validation.line_checks import LINE_CHECKS, PARKED_FETCHES, KnownDifferenceUses, LineChecks
from kraftcheck.validation.process_starts import LateStartReplay, control_records_by_offset
from kraftcheck.validation.replay_state import (
    BOOT_KINDS,
    DueResponse,
    EventRefusal,
    NodeHypothesis,
    NodeProgress,
    WaitingRequest,
    next_unit_events,
    transition_differences,
)
from kraftcheck.validation.replayed_model import ReplayedModel
from kraftcheck.validation.translation import (
    OTHER_CLUSTER,
    LoggedFieldDifference,
    batch_count_covering_offset,
    batch_end_offset,
    data_batch_of_unknown_contents,
    expected_refusal_of_other_partition,
    make_log_from_ends,
    names_other_partition,
    record_offset_of_batch,
)

MOST_SEARCHED_EVENTS = 4_000
"""Events of a sender in which an equal message is sought that may take the place of a later one."""


class UnitScheduler(ReplayedModel):
    """The order in which the units of all nodes run."""

    def advance(self, node: NodeProgress) -> None:
        """Replay a node's next unit; raise EventRefusal if the model does not allow it."""
        raise NotImplementedError

    def run(self) -> Iterator[NodeProgress]:
        """Replay every unit; yield the node of each. Stops at the first divergence."""
        ready, idle = deque(self._unfinished()), 0
        while ready:
            if idle >= len(ready):
                waiting = [self.nodes[number] for number in ready]
                released = [node for node in waiting if self._released(node)]
                if not released:
                    event = waiting[0].events[waiting[0].position]
                    self.divergence = EventRefusal(event, "is received before it is sent")
                    return
                idle = 0
            node = self.nodes[ready.popleft()]
            idle += 1
            while not node.is_done and not self._blocked(node):
                idle = 0
                try:
                    self.advance(node)
                except EventRefusal as refusal:
                    node.diverged = True
                    self.divergence = refusal
                    return
                yield node
            if not node.is_done:
                ready.append(node.number)

    def _unfinished(self) -> Iterator[int]:
        return (number for number, node in sorted(self.nodes.items()) if not node.is_done)

    def _blocked(self, node: NodeProgress) -> bool:
        event = node.events[node.position]
        if event.kind in (EventKind.DISK, EventKind.BOOTSTRAP, EventKind.BOOT):
            return self._waits_for_log(node)
        origin = self.pairs.sent.get(id(event)) or self.pairs.answered.get(id(event))
        return origin is not None and id(origin) not in self.done

    def _waits_for_log(self, node: NodeProgress) -> bool:
        """Whether a killed process has stored batches, without a line, that no replayed node has yet."""
        if node.state is None or node.is_released:
            return False
        wanted = node.end_at(node.events[node.position].incarnation)
        logs = [one.state.me.log for one in self.nodes.values() if one.state is not None]
        ends = [batch_end_offset(log[-1]) for log in logs if log]
        return wanted > max(ends, default=0)

    def _released(self, node: NodeProgress) -> bool:
        """Whether a blocked node can go on after all.

        Equal messages are paired by their ids alone, which leaves several ways where a connection breaks. A receipt
        may take an equal message that was sent before, and leaves its own to the receipt of that one.
        """
        event = node.events[node.position]
        if event.kind in (EventKind.DISK, EventKind.BOOTSTRAP, EventKind.BOOT):
            node.is_released = True
            return True
        pairs = self.pairs.sent if event.kind is EventKind.REQUEST else self.pairs.answered
        wanted = pairs[id(event)]
        if self._is_written_late(wanted):
            self.done.add(id(wanted))
            return True
        owners = {id(origin): receipt for receipt, origin in pairs.items()}
        sender = self.nodes[wanted.node]
        for other in reversed(sender.events[max(0, sender.position - MOST_SEARCHED_EVENTS) : sender.position]):
            if other.kind is wanted.kind and self._is_alike(other, wanted) and id(other) not in self.used:
                owner = owners.get(id(other))
                if owner is not None:
                    pairs[owner] = wanted
                pairs[id(event)] = other
                return True
        return False

    def _is_written_late(self, answer: Event) -> bool:
        """Whether a parked fetch has timed out with a response whose line comes in the unit of a later message.

        Another thread sends and writes it. The receiver's next request may be written first.
        """
        node = self.nodes[answer.node]
        if answer.kind is not EventKind.ANSWER or node.state is None or node.is_done:
            return False
        waiting = node.state.waiting.get(request_pairing_key(answer))
        is_next = node.position <= answer.seq < node.position + len(next_unit_events(node))
        return is_next and waiting is not None and waiting.is_timed_out_by(answer)

    @staticmethod
    def _is_alike(one: Event, other: Event) -> bool:
        same = one.incarnation == other.incarnation and one.body == other.body
        return same and (one.address, one.peer) == (other.address, other.peer)


REQUEST_HANDLERS = {
    "Fetch": "handle_fetch_request",
    "FetchSnapshot": "handle_fetch_snapshot_request",
    "Vote": "handle_vote_request",
    "BeginQuorumEpoch": "handle_begin_quorum_epoch_request",
    "EndQuorumEpoch": "handle_end_quorum_epoch_request",
    "AddRaftVoter": "handle_add_voter_request",
    "RemoveRaftVoter": "handle_remove_voter_request",
    "UpdateRaftVoter": "handle_update_voter_request",
}
"""The action for a received request, by API."""

RESPONSE_HANDLERS = {
    "Fetch": "handle_fetch_response",
    "FetchSnapshot": "handle_fetch_snapshot_response",
    "Vote": "handle_vote_response",
    "BeginQuorumEpoch": "handle_acknowledgement",
    "EndQuorumEpoch": "handle_acknowledgement",
    "AddRaftVoter": "handle_join_response",
    "RemoveRaftVoter": "handle_join_response",
    "UpdateRaftVoter": "handle_update_voter_response",
    "ApiVersions": "handle_api_versions_response",
}
"""The action for a received response, by API."""

REQUEST_OF_API: dict[str, type[Record]] = {
    "Fetch": FetchRequest,
    "FetchSnapshot": FetchSnapshotRequest,
    "Vote": VoteRequest,
    "BeginQuorumEpoch": BeginQuorumEpochRequest,
    "EndQuorumEpoch": EndQuorumEpochRequest,
    "AddRaftVoter": AddVoterRequest,
    "RemoveRaftVoter": RemoveVoterRequest,
    "UpdateRaftVoter": UpdateVoterRequest,
    "ApiVersions": ApiVersionsRequest,
}
"""The model's request, by API."""


class ClusterReplay(UnitScheduler, LateStartReplay, LineChecks):
    """Replays the events of a cluster; `explained` counts them by kind, `found` the steps that no line shows."""

    def __init__(self, *parts: Any, known: KnownDifferenceUses) -> None:
        super().__init__(*parts)
        self.known = known
        self.snapshot_sizes = {}
        self.begin_late()
        self.orders = {number: LineOrderChecker(node.events[: node.position]) for number, node in self.nodes.items()}

    def advance(self, node: NodeProgress) -> None:
        """Replay a node's next unit; raise EventRefusal if the model does not allow it."""
        unit = next_unit_events(node)
        end = node.position + len(unit)
        self.take(node, unit, is_last=end >= len(node.events) or node.events[end].incarnation != unit[0].incarnation)

    def take(self, node: NodeProgress, unit: Sequence[Event], *, is_last: bool) -> None:
        """Replay a unit of a node; its last lines may be missing if it is the last one of a process."""
        self.known.noted.clear()
        settled = next(self._outcomes(node, unit, is_last=is_last))
        if settled.needs or self.known.noted:
            self._count_known(node, unit, settled, is_last=is_last)
        may_be_unhandled = settled.due != () or (is_last and len(unit) == 1)  # a process is killed as it receives
        node.alternatives = [node.state] if may_be_unhandled and node.state is not None else []
        self.orders[node.number].check(unit, is_last=is_last)
        node.state = self._accept(node, settled._replace(due=()), unit)

    def _outcomes(self, node: NodeProgress, unit: Sequence[Event], *, is_last: bool) -> Iterator[NodeHypothesis]:
        """Yield the states after a unit; raise EventRefusal behind the last one."""
        best: EventRefusal | None = None
        for start in self._starts(node, unit):
            try:
                origin = start.me if node.state is None else node.state.me
                state = self._follow(node, start._replace(origin=origin), unit)
                yield self._settled(node, state, unit, is_last=is_last)
            except EventRefusal as refusal:
                if best is None or refusal.event.seq > best.event.seq:
                    best = refusal
        raise best or EventRefusal(unit[0], "is not allowed")

    def _count_known(
        self, node: NodeProgress, unit: Sequence[Event], settled: NodeHypothesis, *, is_last: bool
    ) -> None:
        """Count the known differences without which the model does not take a unit to the same state."""
        self.known.counts.update(set(settled.needs))
        for name in sorted(self.known.noted):
            with self._without(name, node):
                try:
                    outcomes = self._outcomes(node, unit, is_last=is_last)
                    needed = all(one._replace(actions=settled.actions) != settled for one in outcomes)
                except EventRefusal:
                    needed = True
            if needed:
                self.known.counts[name] += 1

    @contextmanager
    def _without(self, name: str, node: NodeProgress) -> Iterator[None]:
        """Replay by the model without a known difference; then everything is as it was."""
        states = [(one, one.state, one.alternatives) for one in self.nodes.values()]
        kept = self.protocol, self.shared, self.records, self.check.before
        asked, is_old, is_released, notes = node.asked, node.is_old, node.is_released, len(self.notes)
        self.protocol, self.records, node.asked = self.known.without(name), dict(self.records), ChainMap({}, asked)
        try:
            yield
        finally:
            self.protocol, self.shared, self.records, self.check.before = kept
            node.asked, node.is_old, node.is_released = asked, is_old, is_released
            del self.notes[notes:]
            for one, state, alternatives in states:
                one.state, one.alternatives = state, alternatives

    def _accept(self, node: NodeProgress, state: NodeHypothesis, unit: Sequence[Event]) -> NodeHypothesis:
        node.position += len(unit)
        self.explained.update(event.kind for event in unit)
        self.done.update(id(event) for event in unit if event.kind in (EventKind.SEND, EventKind.ANSWER))
        origin = self.pairs.sent.get(id(unit[0])) or self.pairs.answered.get(id(unit[0]))
        if origin is not None:
            self.used.add(id(origin))
            self.records.pop(id(origin), None)
        self._note_behind(unit[0])
        if state.puts:
            self.shared = self.shared.but(**dict(state.puts))
        self.found.update(state.actions)
        if self.check.is_due(None if node.state is None else node.state.me, state.me):
            node.state = state
            self.check.look(self.replicas(), self.shared, unit[-1])
        if len(state.me.log) > self.longest:
            node.state = state
            self.rebase()
            state = node.state
        return state._replace(puts=(), actions=(), needs=())

    def _note_behind(self, event: Event) -> None:
        """Note that a sender's replica is behind, from a message that its log lacks until it starts again."""
        if event.kind in BOOT_KINDS:
            self.check.behind.discard(event.node)
        elif id(event) in self.check.unwritten:
            self.check.behind.add(self.check.unwritten[id(event)])

    # The first event of a unit

    def _starts(self, node: NodeProgress, unit: Sequence[Event]) -> Iterator[NodeHypothesis]:
        """Yield the states after each outcome that the model has for the first event of a unit."""
        self.split_named(unit[0])
        event, state = unit[0], node.state
        if event.kind in BOOT_KINDS:
            yield from self._boots(node, unit)
        elif state is None:
            raise EventRefusal(event, "comes before the process starts")
        elif event.kind in (EventKind.REQUEST, EventKind.RESPONSE):
            handle = self._requested if event.kind is EventKind.REQUEST else self._responded
            for before in self._before_changes(node, state, unit):
                yield from handle(before, node, unit)
        else:
            yield state

    def _before_changes(
        self, node: NodeProgress, state: NodeHypothesis, unit: Sequence[Event]
    ) -> Iterator[NodeHypothesis]:
        """Yield the state, and a leader's states after the waiting batches that it appends before a voter set.

        It flushes all of them together, so the high watermark follows the new voter set.
        """
        yield state
        kinds = [event.kind for event in unit]
        appends = kinds[: kinds.index(EventKind.VOTERS)].count(EventKind.APPEND) if EventKind.VOTERS in kinds else 0
        for _ in range(appends):
            step = next(iter(self.protocol.client_append(state.me, self.shared)), None)  # type: ignore[attr-defined]
            if step is None:
                return
            taken = self._taken(state, step, node, unit[0], None)
            me = taken.me.but(high_watermark=state.me.high_watermark)
            state = taken._replace(me=me, puts=state.puts)
            yield state

    def _requested(self, state: NodeHypothesis, node: NodeProgress, unit: Sequence[Event]) -> Iterator[NodeHypothesis]:
        event = unit[0]
        key = request_pairing_key(event)
        state = state._replace(waiting={**state.waiting, key: WaitingRequest(event, None)})
        if names_other_partition(event.body):
            due = DueResponse(event.body.api, key, expected_refusal_of_other_partition(event.body.api), ())
            yield state._replace(due=(*state.due, due))
            return
        if event.body.api == "DescribeQuorum":
            for step in self.protocol.describe_quorum(state.me):  # type: ignore[attr-defined]
                yield self._taken(state, step, node, event, key)
            return
        if event.body.api not in REQUEST_HANDLERS:
            yield state
            return
        for before in self._prepared(node, state, unit):
            request = self.terms.request(event.body, event.peer, node.number, before.me.log)
            assert request is not None
            if self.terms.cluster_ids.is_other(event):
                request = request.but(source=OTHER_CLUSTER)
            handler = getattr(self.protocol, REQUEST_HANDLERS[event.body.api])
            for step in handler(before.me, request, self.shared):
                yield self._before_resignation(before, self._taken(before, step, node, event, key), unit)

    def _prepared(self, node: NodeProgress, state: NodeHypothesis, unit: Sequence[Event]) -> Iterator[NodeHypothesis]:
        """Yield the state, and the state after a snapshot or a deletion of the log that the response shows."""
        yield state
        answer = next(
            (e for e in unit if e.kind is EventKind.ANSWER and request_pairing_key(e) == request_pairing_key(unit[0])),
            None,
        )
        if answer is None or answer.body.api != "Fetch" or node.state is None:
            return
        fields = answer.body.number("endOffset", 1), answer.body.number("logStartOffset")
        for offset in fields:
            self.split(offset)
        me = node.state.me
        if not isinstance(me, DiskReplica):
            return
        shown = {batch_count_covering_offset(me.log, offset) for offset in fields}
        yield from self._after_snapshots(state._replace(me=me), shown)

    def _responded(self, state: NodeHypothesis, node: NodeProgress, unit: Sequence[Event]) -> Iterator[NodeHypothesis]:
        event, me = unit[0], state.me
        request = node.asked.get(event.correlation)
        if request is None:
            raise EventRefusal(event, "answers no request of this process")
        if not isinstance(request, REQUEST_OF_API.get(event.body.api, ())):
            raise EventRefusal(event, "answers a request of another API")
        if is_transport_error(event):
            yield state._replace(sent=None) if state.sent == event.correlation else state
            return
        if state.sent == event.correlation and not isinstance(me.pending, Nil):
            request = me.pending
        source = request.dest  # type: ignore[attr-defined]
        if isinstance(request, ApiVersionsRequest):
            if event.body.number("errorCode") != 0:
                raise EventRefusal(event, "has an error that the model lacks")
            response: Record | None = self.terms.versions(event.body, request.of, source, me.id)
        else:
            response = self.terms.response(event.body, request, me, source, self._batches(event, unit, me))
        if response is None:
            raise EventRefusal(event, f"has an error that the model lacks: {event.body.get('errorCode', 1)}")
        free = state._replace(sent=None) if state.sent == event.correlation else state
        yield from self._after_response(self._answered(free, event), node, unit, response)
        if isinstance(request, FetchRequest) and me.pending != request:
            yield from self._fetched_elsewhere(state, node, event, request, response)

    def _after_response(
        self, state: NodeHypothesis, node: NodeProgress, unit: Sequence[Event], response: Record
    ) -> Iterator[NodeHypothesis]:
        """Yield the states after a response.

        A snapshot of the model has one piece (KIP-630, "FetchSnapshot"), so its handler waits for the last one. No line
        tells the bytes of a piece at both ends, but the last one replaces the log.
        """
        me, event = state.me, unit[0]
        replaces = any(line.kind is EventKind.REPLACED for line in unit)
        if isinstance(response, FetchSnapshotResponse) and response.request == me.pending and not replaces:
            after, is_done = self.protocol.common_response(me, response)
            if not is_done and after.mode is Mode.FOLLOWER and response.error is Error.NONE:
                positions = range(event.body.number("position") + 1, event.body.number("size"))
                step = self.protocol.taken(me, after.but(fetched=True))
                yield self._taken(state, step, node, event, None)._replace(next_positions=positions)
                return
        for step in getattr(self.protocol, RESPONSE_HANDLERS[event.body.api])(me, response, self.shared):
            yield self._taken(state, step, node, event, None)

    @staticmethod
    def _answered(state: NodeHypothesis, event: Event) -> NodeHypothesis:
        """Return the state in which the voter that a response to Vote comes from has answered in this round."""
        found = {voter: None if sent == event.correlation else sent for voter, sent in state.votes.items()}
        return state._replace(votes=found) if event.body.api == "Vote" else state

    def _fetched_elsewhere(
        self, state: NodeHypothesis, node: NodeProgress, event: Event, request: FetchRequest, response: Record
    ) -> Iterator[NodeHypothesis]:
        """Yield the states after the response to a fetch beside the pending request, which goes to another node."""
        me = state.me
        for step in self.protocol.handle_fetch_response(  # type: ignore[attr-defined]
            me.but(pending=request), response, self.shared
        ):
            after = self._taken(state, step, node, event, None)
            same = (after.me.mode, after.me.epoch) == (me.mode, me.epoch)
            yield after._replace(me=after.me.but(pending=me.pending), sent=state.sent) if same else after

    def _batches(self, event: Event, unit: Sequence[Event], me: Replica) -> tuple[Batch, ...]:
        """Return the batches of a received response: those of the sender, up to the end offset that is stored."""
        body = event.body
        origin = self.pairs.answered.get(id(event))
        known = self.records.get(id(origin)) if origin is not None else None
        if body.api == "FetchSnapshot":
            return self._snapshot_content(body.number("endOffset"), body.number("epoch"), unit, known)
        if body.api != "Fetch" or body.number("size") <= 0:
            return ()
        stored = next((e for e in unit if e.kind is EventKind.STORED), None)
        if stored is None:
            return known or ()
        return self._stored(event, unit, me, known, *stored.body)

    def _stored(
        self, event: Event, unit: Sequence[Event], me: Replica, known: tuple[Batch, ...] | None, end: int, epoch: int
    ) -> tuple[Batch, ...]:
        """Return the batches up to an end offset; raise EventRefusal if their sender has a log without the response."""
        if known is None:
            sender = me.pending.dest if isinstance(me.pending, FetchRequest) else None
            if sender is not None and self.check.is_whole:
                raise EventRefusal(event, f"carries records that no response of {sender} has sent")
            return self._unknown(me, end, epoch, unit)
        batches = tuple(takewhile(lambda batch: batch_end_offset(batch) <= end, known))
        if len(batches) < len(known) and (not batches or batch_end_offset(batches[-1]) < end):
            self.split(end)  # a part of a merged batch
            batches = (*batches, data_batch_of_unknown_contents(known[len(batches)].epoch, end))
        return batches

    def _unknown(self, me: Replica, end: int, epoch: int, unit: Sequence[Event]) -> tuple[Batch, ...]:
        """Return a batch of a leader that has no log, with the voters that the follower has read."""
        found, in_snapshot = control_records_by_offset(self.terms, unit)
        records = {offset: controls for offset, controls in (found | in_snapshot).items() if offset < end}
        return make_log_from_ends(
            record_offset_of_batch(me.log, len(me.log)), [(end, epoch)], records, [unit[0].body.number("highWatermark")]
        )

    def _snapshot_content(
        self, end: int, epoch: int, unit: Sequence[Event], known: tuple[Batch, ...] | None
    ) -> tuple[Batch, ...]:
        if known:
            return known
        if self.is_late:  # the older parts of the logs are not known
            return self._unknown(self.protocol.replica_type(ADMIN), end, epoch, unit)
        self.split(end)
        logs = (node.state.me.log for node in self.nodes.values() if node.state is not None)
        for log in (self.shared.committed, *logs):
            count = batch_count_covering_offset(log, end)
            if 0 < count <= len(log) and record_offset_of_batch(log, count) == end and log[count - 1].epoch == epoch:
                return log[:count]
        return self._unknown(self.protocol.replica_type(ADMIN), end, epoch, unit)

    # The other events of a unit

    def _follow(self, node: NodeProgress, state: NodeHypothesis, unit: Sequence[Event]) -> NodeHypothesis:
        """Return the state after the lines of a unit; raise EventRefusal at the first that the model does not allow."""
        position = 0
        while position < len(unit):
            event = unit[position]
            position += 1
            if event.kind is EventKind.TRANSITION:
                run = [event]
                while position < len(unit) and unit[position].kind in (EventKind.TRANSITION, EventKind.ATTEMPT):
                    run += [unit[position]] if unit[position].kind is EventKind.TRANSITION else []
                    position += 1
                state = self._transitions(node, state, run)
            else:
                check = LINE_CHECKS.get(event.kind)
                if check is not None:
                    state = check(self, node, state, event)
        return state

    def _settled(
        self, node: NodeProgress, state: NodeHypothesis, unit: Sequence[Event], *, is_last: bool
    ) -> NodeHypothesis:
        """Return the state at the end of a unit, with its parked fetches.

        Raise EventRefusal if the model has taken a step whose lines are missing. At the end of a log or a process they
        may be missing: the returned state then still has responses that are due.
        """
        parked = {due.key: WaitingRequest(state.waiting[due.key].event, due) for due in state.due if self._parks(due)}
        left = tuple(due for due in state.due if not self._parks(due))
        state = state._replace(waiting={**state.waiting, **parked}, due=left)
        if is_last:
            return state
        if parked:
            state = state._replace(needs=(*state.needs, PARKED_FETCHES))
        if state.shown is not None:
            found = transition_differences(state.me, state.shown, self.terms, state.shown.get("high", 0))
            wrong = [d for d in found if d.field in ("mode", "epoch", "leader", "voted")]
            if wrong:
                raise EventRefusal(unit[-1], "is not followed by the transition that the model takes", wrong)
        if left:
            raise EventRefusal(unit[-1], f"is not followed by the response to {left[0].api}")
        if unit[0].kind in BOOT_KINDS:
            if node.state is not None and not node.is_old:
                require_control_lines_at_process_start(state.me, unit)
        elif node.state is not None:
            require_lines_for_changes(node.state, state, unit)
        return state

    def _transitions(self, node: NodeProgress, state: NodeHypothesis, run: list[Event]) -> NodeHypothesis:
        """Return the state after transitions in a row; the last one must be a state of the model."""
        if not run:
            return state
        self._chained(state, run)
        best: list[LoggedFieldDifference] = []
        action = ""
        for start, name in self._moves(node, state, run[0]):
            for position in range(len(run) - 1, -1, -1):
                found = transition_differences(start.me, run[position].body[0], self.terms, state.high)
                if found:
                    if position == len(run) - 1 and (not best or len(found) < len(best)):
                        best, action = found, name
                    continue
                if not all(self._passes(state, start, between) for between in run[:position]):
                    continue
                lost = run[position].body[0]["mode"] in ("Leader", "Resigned")
                shown = start._replace(shown=run[position].body[0], origin=start.me, high=0 if lost else state.high)
                if name:
                    shown = shown._replace(actions=(*shown.actions, name))
                try:
                    return self._transitions(node, shown, run[position + 1 :])
                except EventRefusal:
                    continue
        raise EventRefusal(run[-1], "is not a transition that the model takes", best, action)

    def _passes(self, before: NodeHypothesis, after: NodeHypothesis, event: Event) -> bool:
        """Whether a transition is an intermediate one of a step: to a newer epoch, or of a sole voter's election."""
        shown = event.body[0]
        first = before.origin or before.me
        if not after.me.epoch >= shown["epoch"] >= first.epoch:
            return False
        for me in (first, before.me):
            own = self.protocol.own_votes(me)
            between = [unattached_replica(me, shown["epoch"]), prospective_replica(me, own), candidate_replica(me, own)]
            if (
                before.shown is None and me.leader == me.id and replica_keys(me.voters) == own
            ):  # a sole voter starts, and led
                back = me.but(voted=Nil.NIL)
                between += [resigned_replica(back), prospective_replica(back, own)]
            if any(not transition_differences(one, shown, self.terms, before.high) for one in between):
                return True
        return False

    @staticmethod
    def _chained(state: NodeHypothesis, run: Iterable[Event]) -> None:
        """Raise EventRefusal unless each transition starts where the one before it ended."""
        last = state.shown
        for event in run:
            after, before = event.body
            if before is not None and last is not None:
                wrong = [
                    LoggedFieldDifference(f"from {name}", before.get(name), last.get(name))
                    for name in ("mode", "epoch", "leader", "voted", "voters", "update voters", "start")
                    if before.get(name) != last.get(name)
                ]
                if wrong:
                    raise EventRefusal(event, "does not start from the state before it", wrong)
            last = after


__all__ = ["ClusterReplay", "EventRefusal", "NodeProgress"]

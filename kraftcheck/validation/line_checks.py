"""Checks of single lines against the state of the model; use of Kafka's known differences.

A replay counts how many units the model without a known difference does not take. The methods of the differences are
watched. Only where the model without a difference returns something else is the unit replayed once more, without it.
So the count is exact, and the other units cost little.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kraftcheck.kraft_model.quorum.base import QuorumBase
from kraftcheck.kraft_model.quorum.records import (
    DiskReplica,
    Error,
    FetchRequest,
    FetchSnapshotRequest,
    Key,
    KRaftVersion,
    Mode,
    Nil,
    Replica,
    Voters,
)
from kraftcheck.kraft_model.quorum.rules import last_kraft_version
from kraftcheck.spec import Map, ModelValue, Record
from kraftcheck.validation.events import Event, EventKind, request_pairing_key
from kraftcheck.validation.process_starts import CommittedBatchMerger, replica_with_rewritten_log, split_data_batch_at
from kraftcheck.validation.replay_state import (
    MODES_THAT_HIDE_VOTE,
    DueResponse,
    EventRefusal,
    NodeHypothesis,
    NodeProgress,
    WaitingRequest,
    compare_vote_with_model,
    next_unit_events,
)
from kraftcheck.validation.replayed_model import OPERATION_OF_API
from kraftcheck.validation.translation import (
    ERROR_CODES,
    LoggedFieldDifference,
    batch_count_covering_offset,
    batch_end_offset,
    body_differences,
    record_offset_of_batch,
)

PARKED_FETCHES, FETCHES_FROM_ITSELF, RETRIES_AT_BOOTSTRAP = (
    "parked-fetches",
    "fetches-from-itself",
    "retries-at-bootstrap-servers",
)
ONE_REQUEST_AT_A_TIME = "one-request-at-a-time"
"""Differences whose use the replay knows where it takes the step."""

UNWATCHED_METHODS = ("servers", "retry")
"""Frequent methods of known differences; calls of them are not watched."""

HELPERS_OF_DIFFERENCES = {"refuses-while-it-stops": "stopped_by"}
"""Differences that only add steps behind those of the model, by a helper that is called where none of these fits."""

IN_FLIGHT_METHODS = ("responses_to_pending", "dropped_with_mode")
"""Methods for messages in flight, which a log does not show."""


class KnownDifferenceUses:
    """Counts the units that need a known difference, by name; `noted` has those that may have changed this unit.

    `known` are the differences of the protocol from the class `plain`, and `make` returns a protocol without one.
    """

    def __init__(
        self,
        protocol: QuorumBase,
        plain: type[QuorumBase],
        known: Mapping[str, type[QuorumBase]],
        make: Callable[[str], QuorumBase],
    ) -> None:
        self.names = tuple(known)
        self.counts: Counter[str] = Counter()
        self.noted: set[str] = set()
        self._make = make
        self._others: dict[str, QuorumBase] = {}
        for name, helper in HELPERS_OF_DIFFERENCES.items():
            if name in self.names:
                setattr(protocol, helper, self._noting(name, getattr(protocol, helper)))
        for method, found in _overriding_methods_by_name(known, plain).items():
            setattr(protocol, method, self._watched(protocol, method, found))

    def _noting(self, name: str, helper: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self.noted.add(name)
            return helper(*arguments)

        return call

    def without(self, name: str) -> QuorumBase:
        """Return the model without a difference."""
        if name not in self._others:
            self._others[name] = self._make(name)
        return self._others[name]

    def _watched(self, protocol: QuorumBase, method: str, found: Collection[_OverridingMethod]) -> Any:
        """Return a method that notes the differences by which it returns something else."""
        whole = getattr(protocol, method)

        def call(*arguments: Any, **options: Any) -> Any:
            for name, last, own in found:
                if name not in self.noted:
                    plain = getattr(super(last, protocol), method)
                    if _materialize_iterator(own(protocol, *arguments, **options)) != _materialize_iterator(
                        plain(*arguments, **options)
                    ):
                        self.noted.add(name)
            return whole(*arguments, **options)

        return call


def _materialize_iterator(result: Any) -> Any:
    return list(result) if isinstance(result, Iterator) else result


class _OverridingMethod(NamedTuple):
    """A method of a known difference."""

    name: str
    last: type[QuorumBase]  # the class behind which the methods without it begin
    own: Any


def _overriding_methods_by_name(
    known: Mapping[str, type[QuorumBase]], plain: type[QuorumBase]
) -> dict[str, list[_OverridingMethod]]:
    """Return the methods of the model that known differences override."""
    unwatched = {*UNWATCHED_METHODS, *IN_FLIGHT_METHODS, "replica_type"}
    if ONE_REQUEST_AT_A_TIME in known:
        unwatched.add("next_request")  # it sends all of a replica's own requests
    found: dict[str, list[_OverridingMethod]] = defaultdict(list)
    for name, part in known.items():
        parts = [] if name in HELPERS_OF_DIFFERENCES else [one for one in part.__mro__ if one not in plain.__mro__]
        methods = {method for one in parts for method, value in vars(one).items() if callable(value)}
        for method in methods - unwatched:
            if callable(getattr(plain, method, None)):
                found[method].append(_OverridingMethod(name, parts[-1], getattr(part, method)))
    return found


MOST_SNAPSHOT_STEPS = 2
"""Steps without a line between two messages: a snapshot, and the deletion of the log before it."""


class LineChecks(CommittedBatchMerger):
    """Checks that return the state after a line, or raise EventRefusal."""

    known: KnownDifferenceUses
    snapshot_sizes: dict[Any, str | None]  # by process, end offset and epoch

    def _sends(self, node: NodeProgress, state: NodeHypothesis, event: Event) -> NodeHypothesis:
        send = SEND_CHECKS.get(event.body.api)
        if send is None:
            return state
        request, state = send(self, node, state, event)
        node.asked[event.correlation] = request
        return state

    def _differs(self, request: Record, me: Replica, event: Event) -> list[LoggedFieldDifference]:
        expected = self.terms.expected(request, me.log, me.start) or {}
        return body_differences(event.body, expected | self.terms.cluster_fields(event))

    def _send_fetch(self, node: NodeProgress, state: NodeHypothesis, event: Event) -> tuple[Record, NodeHypothesis]:
        """A fetch is the pending request of the model, or replaces one that has timed out."""
        best: list[LoggedFieldDifference] | None = None
        for me, name in self._fetches(state):
            pending = me.pending
            if not isinstance(pending, FetchRequest):
                continue
            found = self._differs(pending, me, event)
            high = event.body.get("highWatermark")
            if high is not None and high != str(state.high or -1):
                found.append(LoggedFieldDifference("highWatermark", high, str(state.high or -1)))
            if not found and self._reaches(event, pending.dest):
                actions = (*state.actions, name) if name else state.actions
                needs = state.needs if me is state.me else (*state.needs, *self._needed(state, me))
                return pending, state._replace(me=me, sent=event.correlation, actions=actions, needs=needs)
            best = found if best is None or len(found) < len(best) else best
        raise EventRefusal(event, "is a fetch that the model does not send", best or (), "FetchFromBootstrapServer")

    def _needed(self, state: NodeHypothesis, me: Replica) -> Iterator[str]:
        """Yield the known differences without which the model does not send a replica's fetch in place of another."""
        if me.pending.dest == me.id:  # type: ignore[union-attr]
            yield FETCHES_FROM_ITSELF
        if me.mode is not Mode.FOLLOWER or RETRIES_AT_BOOTSTRAP not in self.known.names:
            return
        if me.pending.dest != me.leader and self.protocol.is_voter(me):  # type: ignore[union-attr]
            yield RETRIES_AT_BOOTSTRAP
        else:
            steps = self.known.without(RETRIES_AT_BOOTSTRAP).retry(state.me, self.shared, Map())  # type: ignore[attr-defined]
            if all(step.me != me for step in steps):
                yield RETRIES_AT_BOOTSTRAP

    def _reaches(self, event: Event, dest: ModelValue) -> bool:
        node = self.homes.get(event.address)
        return node is None or node == self.terms.nodes[dest]

    homes: dict[str, int] = {}

    def _fetches(self, state: NodeHypothesis) -> Iterator[tuple[Replica, str]]:
        me = state.me
        if state.sent is None:
            yield me, ""
        for step in self.protocol.retry(me, self.shared, Map()):  # type: ignore[attr-defined]
            yield step.me, "" if state.sent is None else "Retry"
        free = me.but(pending=Nil.NIL)
        for step in self.protocol.fetch_from_bootstrap_server(free):  # type: ignore[attr-defined]
            yield step.me, ""

    def _send_fetch_snapshot(
        self, node: NodeProgress, state: NodeHypothesis, event: Event
    ) -> tuple[Record, NodeHypothesis]:
        pending = state.me.pending
        if not isinstance(pending, FetchSnapshotRequest):
            raise EventRefusal(event, "is a request for a snapshot that no response named")
        found = self._differs(pending, state.me, event)
        position, allowed = event.body.number("position"), state.next_positions
        if position not in allowed:
            wanted = allowed.start if len(allowed) == 1 else f"more than {allowed.start - 1}, less than {allowed.stop}"
            found.append(LoggedFieldDifference("position", position, wanted))
        if found:
            raise EventRefusal(event, "is not the request that the model sends", found)
        return pending, state._replace(sent=event.correlation, next_positions=range(position, position + 1))

    def _send_one_of(
        self, node: NodeProgress, state: NodeHypothesis, event: Event, allowed: Iterable[Record]
    ) -> tuple[Record, Any]:
        best: list[LoggedFieldDifference] | None = None
        for request in allowed:
            found = self._differs(request, state.me, event)
            if not found and not self._reaches(event, request.dest):  # type: ignore[attr-defined]
                found = [LoggedFieldDifference("destination", event.address, str(request.dest))]  # type: ignore[attr-defined]
            if not found:
                return request, state
            best = found if best is None or len(found) < len(best) else best
        raise EventRefusal(event, "is a request that the model does not send", best or ())

    def _send_vote(self, node: NodeProgress, state: NodeHypothesis, event: Event) -> tuple[Record, NodeHypothesis]:
        me = state.me
        stands = me.mode in (Mode.PROSPECTIVE, Mode.CANDIDATE)
        allowed = self.protocol.vote_requests(me, pre_vote=me.mode is Mode.PROSPECTIVE) if stands else []
        request, state = self._send_one_of(node, state, event, allowed)
        voter = request.dest  # type: ignore[attr-defined]
        if state.votes.get(voter, event.correlation) is None:
            raise EventRefusal(event, "is sent to a voter that has answered in this round")
        return request, state._replace(votes={**state.votes, voter: event.correlation})

    def _send_begin(self, node: NodeProgress, state: NodeHypothesis, event: Event) -> tuple[Record, NodeHypothesis]:
        me = state.me
        leads = me.mode is Mode.LEADER
        allowed = [self.protocol.announcement(me, key) for key in self.protocol.others(me)] if leads else []  # type: ignore[attr-defined]
        return self._send_one_of(node, state, event, allowed)

    def _send_end(self, node: NodeProgress, state: NodeHypothesis, event: Event) -> tuple[Record, NodeHypothesis]:
        me = state.me
        allowed: Sequence[Record] = state.ends
        if me.mode is not Mode.RESIGNED:
            allowed = []
        elif not allowed:
            allowed = self.protocol.end_quorum_epoch_requests(me, ())
        return self._send_one_of(node, state, event, allowed)

    def _send_own(self, node: NodeProgress, state: NodeHypothesis, event: Event) -> tuple[Record, NodeHypothesis]:
        """The replica's own UpdateVoter, AddVoter or RemoveVoter, in place of its next fetch."""
        me = state.me
        if state.sent is not None and getattr(me.pending, "dest", None) == me.leader:
            raise EventRefusal(event, "is sent while another request to the leader is pending")
        if ONE_REQUEST_AT_A_TIME not in self.known.names:
            return self._send_beside(node, state, event)
        after, requests = self.protocol.next_request(me.but(pending=Nil.NIL, updating=True))
        request, state = self._send_one_of(node, state._replace(me=after), event, requests)
        return request, state._replace(sent=event.correlation, needs=(*state.needs, ONE_REQUEST_AT_A_TIME))

    def _send_beside(self, node: NodeProgress, state: NodeHypothesis, event: Event) -> tuple[Record, NodeHypothesis]:
        """The replica's own UpdateVoter, AddVoter or RemoveVoter, while it keeps fetching; an earlier one is lost."""
        free = state.me.but(updating=False, joining=False)
        send = self.protocol.send_update_voter if event.body.api == "UpdateRaftVoter" else self.protocol.join  # type: ignore[attr-defined]
        steps = list(send(free))
        request, state = self._send_one_of(node, state, event, (sent for step in steps for sent in step.sent))
        return request, state._replace(me=steps[0].me)

    def _send_versions(self, node: NodeProgress, state: NodeHypothesis, event: Event) -> tuple[Record, NodeHypothesis]:
        if state.owed is None:
            raise EventRefusal(event, "is a question for which no voter is being added")
        if not self._reaches(event, state.owed.dest):
            raise EventRefusal(event, "goes to another node than the voter that is being added")
        return state.owed, state._replace(owed=None)

    def _answers(self, node: NodeProgress, state: NodeHypothesis, event: Event) -> NodeHypothesis:
        key = request_pairing_key(event)
        waiting = state.waiting.get(key)
        if waiting is None:
            raise EventRefusal(event, "responds to no request")
        is_ended = event.body.api == "Fetch" and state.ended == event.peer
        state = state.without(key)._replace(ended=None if is_ended else state.ended)
        if waiting.is_late:
            return state
        if event.body.api not in (*OPERATION_OF_API, *SEND_CHECKS) and event.body.api != "DescribeQuorum":
            return state
        due = next((d for d in state.due if d.api == event.body.api and d.key in (key, None)), None)
        if due is not None:
            state = state._replace(due=tuple(d for d in state.due if d is not due))
            if self._parks(due) and body_differences(event.body, due.expected):
                state = state._replace(needs=(*state.needs, PARKED_FETCHES))
                return self._unparked(node, state, event, WaitingRequest(waiting.event, due), is_ended=is_ended)
            return self._matched(state, event, due)
        if event.body.api == "Fetch":
            return self._unparked(node, state, event, waiting, is_ended=is_ended)
        ended = self._ended(node, state, event)
        if ended is not None:
            return ended
        return self._expired(node, state, event)

    def _expired(self, node: NodeProgress, state: NodeHypothesis, event: Event) -> NodeHypothesis:
        """A voter change times out, once its question to the new voter is sent."""
        for step in self.protocol.expire_operation(state.me) if state.owed is None else ():  # type: ignore[attr-defined]
            expired = self._taken(state, step, node, event, None)
            return self._matched(expired._replace(due=()), event, expired.due[-1])
        raise EventRefusal(event, "is a response that the model does not send")

    def _ended(self, node: NodeProgress, state: NodeHypothesis, event: Event) -> NodeHypothesis | None:
        """Return the state in which a timer has ended the office, and with it a voter change; its line comes next."""
        for after, name in self._moves(node, state, event):
            due = next((due for due in after.due if name and due.api == event.body.api), None)
            if due is not None and not body_differences(event.body, due.expected):
                rest = tuple(one for one in after.due if one is not due)
                return after._replace(due=rest, actions=(*after.actions, name))
        return None

    def _matched(self, state: NodeHypothesis, event: Event, due: DueResponse) -> NodeHypothesis:
        found = body_differences(event.body, due.expected)
        if due.records and event.body.api == "Fetch" and event.body.number("size") <= 0:
            found.append(LoggedFieldDifference("records", "none", f"up to offset {batch_end_offset(due.records[-1])}"))
        if event.body.api == "FetchSnapshot" and due.records:
            found += self._size_difference(event)
        if found:
            raise EventRefusal(event, "is another response than the model's", found, due.api)
        if due.records:
            self.records[id(event)] = due.records
        return state

    def _size_difference(self, event: Event) -> list[LoggedFieldDifference]:
        """Return the size of a sent snapshot if it is another than before; the model has no sizes."""
        body = event.body
        snapshot = event.node, event.incarnation, body.get("endOffset"), body.get("epoch")
        shown = body.get("size")
        known = self.snapshot_sizes.setdefault(snapshot, shown)
        return [] if known == shown else [LoggedFieldDifference("size", shown, known)]

    def _unparked(
        self, node: NodeProgress, state: NodeHypothesis, event: Event, waiting: WaitingRequest, *, is_ended: bool
    ) -> NodeHypothesis:
        """A parked fetch ends: with its first response, handled again, or with an error as leadership is lost."""
        if waiting.is_timed_out_by(event):
            return state
        best = waiting.differences(event)
        if not is_ended:
            raise EventRefusal(event, "is the response to a parked fetch whose end has no line", best)
        if event.body.number("errorCode", 1) == ERROR_CODES[Error.NOT_LEADER_OR_FOLLOWER]:
            return state  # the end of this unit shows that the leader has lost its office
        me = self._before_resigning(state)
        request = self.terms.request(waiting.event.body, waiting.event.peer, node.number, me.log)
        assert request is not None
        for step in self.protocol.handle_fetch_request(me, request, self.shared):  # type: ignore[attr-defined]
            after = self._taken(state._replace(me=me), step, node, waiting.event, request_pairing_key(event))
            if me is not state.me:
                after = after._replace(me=state.me, sent=state.sent)
            due = next(d for d in reversed(after.due) if d.key == request_pairing_key(event))
            found = body_differences(event.body, due.expected)
            if not found:
                after = self._before_resignation(state, after, next_unit_events(node))
                rest = after._replace(due=tuple(d for d in after.due if d is not due))
                return self._matched(rest, event, due)
            best = min(best or found, found, key=len)
        raise EventRefusal(event, "is another response than the model's", best, "HandleFetchRequest")

    @staticmethod
    def _before_resignation(before: NodeHypothesis, after: NodeHypothesis, unit: Sequence[Event]) -> NodeHypothesis:
        """Return the state after a request that a leader has refused, since its process stops.

        It resigns at the next poll, and may receive one more message before.
        """
        codes = (due.expected.get(("errorCode", place)) for due in after.due[len(before.due) :] for place in (0, 1))
        is_refused = before.me.mode is Mode.LEADER and str(ERROR_CODES[Error.BROKER_NOT_AVAILABLE]) in codes
        if not is_refused or any(event.kind is EventKind.TRANSITION for event in unit):
            return after
        return after._replace(me=before.me, ends=before.ends, sent=before.sent, stops=True)

    @staticmethod
    def _before_resigning(state: NodeHypothesis) -> Replica:
        """Return the leader that ends parked fetches: the model resigns with a commit, Kafka after their responses."""
        me, before = state.me, state.origin
        if me.mode is Mode.RESIGNED and before is not None and before.mode is Mode.LEADER and before.epoch == me.epoch:
            return before.but(high_watermark=me.high_watermark)
        return me

    def _ends_parked(self, node: NodeProgress, state: NodeHypothesis, event: Event) -> NodeHypothesis:
        """A parked fetch ends, one that was received from this replica key at this offset."""
        offset, directory = event.body
        fetches = [one.event.body for one in state.waiting.values() if one.event.peer == event.peer]
        shown = [(body.number("fetchOffset"), body.get("replicaDirectoryId")) for body in fetches]
        if (offset, directory) not in shown:
            differs = [LoggedFieldDifference("offset, directory id", (offset, directory), shown)]
            raise EventRefusal(event, "ends a parked fetch that was not received", differs)
        return state._replace(ended=event.peer)

    def _appends(self, node: NodeProgress, state: NodeHypothesis, event: Event) -> NodeHypothesis:
        base, end, epoch = event.body
        if event.seq > state.appended:
            steps = self.protocol.client_append(state.me, self.shared)  # type: ignore[attr-defined]
            step = next(iter(steps), None)
            if step is None:
                raise EventRefusal(event, "is an append of a replica that does not lead", action="ClientAppend")
            state = self._taken(state, step, node, event, None)
        log = state.me.log
        count = batch_count_covering_offset(log, end)
        shown = (base, end, epoch)
        last = log[count - 1] if count <= len(log) else None
        if (
            last is None
            or (ours := (record_offset_of_batch(log, count - 1), batch_end_offset(last), last.epoch)) != shown
        ):
            found = [
                LoggedFieldDifference("base offset, end offset, epoch", shown, "none" if count > len(log) else ours)
            ]
            raise EventRefusal(event, "is another append than the model's", found)
        return state

    def _stores(self, node: NodeProgress, state: NodeHypothesis, event: Event) -> NodeHypothesis:
        log = state.me.log
        return self._equal(
            state,
            event,
            ("end offset, epoch",),
            (event.body,),
            ((record_offset_of_batch(log, len(log)), log[-1].epoch if log else 0),),
        )

    def _equal(
        self, state: NodeHypothesis, event: Event, names: Iterable[str], kafka: Iterable[Any], model: Iterable[Any]
    ) -> NodeHypothesis:
        found = [LoggedFieldDifference(*one) for one in zip(names, kafka, model, strict=True) if one[1] != one[2]]
        if found:
            raise EventRefusal(event, "shows another value than the model's", found)
        return state

    def _high_watermark(self, node: NodeProgress, state: NodeHypothesis, event: Event) -> NodeHypothesis:
        ours = record_offset_of_batch(state.me.log, state.me.high_watermark)
        return self._equal(state, event, ("high watermark",), (event.body,), (ours,))._replace(high=ours)

    def _first_high_watermark(self, node: NodeProgress, state: NodeHypothesis, event: Event) -> NodeHypothesis:
        ours = record_offset_of_batch(state.me.log, state.me.high_watermark)
        names = "high watermark", "high watermark before"
        return self._equal(state, event, names, (event.body, 0), (ours, state.high))

    def _after_snapshots(self, state: NodeHypothesis, shown: set[int]) -> Iterator[NodeHypothesis]:
        """Yield the states after a snapshot or a deletion of the log, at shown numbers of batches."""
        found = [state]
        for _ in range(MOST_SNAPSHOT_STEPS):
            found = [after for one in found for after in self._snapshot_steps(one, shown)]
            yield from found

    def _snapshot_steps(self, state: NodeHypothesis, shown: set[int]) -> Iterator[NodeHypothesis]:
        for step in self.protocol.take_snapshot(state.me):  # type: ignore[attr-defined]
            after = step.me
            changed = after.start if after.start != state.me.start else after.snapshots[-1]
            if changed in shown:
                yield state._replace(me=after, actions=(*state.actions, "TakeSnapshot"))

    def _truncates(self, node: NodeProgress, state: NodeHypothesis, event: Event) -> NodeHypothesis:
        sets = state.voter_sets
        kept = None if sets is None else tuple(offset for offset in sets if offset < event.body)
        return self._ends_at(node, state._replace(voter_sets=kept), event)

    def _loads(self, node: NodeProgress, state: NodeHypothesis, event: Event) -> NodeHypothesis:
        return state._replace(loaded=event.body[0], voter_sets=())

    def _ends_at(self, node: NodeProgress, state: NodeHypothesis, event: Event) -> NodeHypothesis:
        return self._equal(
            state, event, ("log end",), (event.body,), (record_offset_of_batch(state.me.log, len(state.me.log)),)
        )

    def _reads_voters(self, node: NodeProgress, state: NodeHypothesis, event: Event) -> NodeHypothesis:
        voters, offset = event.body
        wanted = self.terms.voters(voters)
        if self._voters_at(state.me, offset) != wanted:
            for step in self.protocol.upgrade(state.me, self.shared) if offset >= 0 else ():  # type: ignore[attr-defined]
                upgraded = self._taken(state, step, node, event, None)
                if self._voters_at(upgraded.me, offset) == wanted:
                    upgraded = upgraded._replace(actions=(*state.actions, "Upgrade"))
                    return self._with_voter_set(node, upgraded, event)
        self._equal(state, event, ("voters",), (wanted,), (self._voters_at(state.me, offset),))
        return self._with_voter_set(node, state, event)

    def _with_voter_set(self, node: NodeProgress, state: NodeHypothesis, event: Event) -> NodeHypothesis:
        """Return the state with the offset of a voter set that the process has read."""
        self._require_record_offset(node, state, event, Voters, records_behind=0)
        sets = state.voter_sets
        return state._replace(voter_sets=None if sets is None else (*sets, event.body[1]))

    def _require_record_offset(
        self, node: NodeProgress, state: NodeHypothesis, event: Event, kind: type[Record], *, records_behind: int
    ) -> None:
        """Raise EventRefusal unless a line has the offset of its record, or of the last one in the snapshot read.

        A batch ends with its control records; some of them may be behind this one.
        """
        offset, log = event.body[1], state.me.log
        if node.is_old or offset in (-1, state.loaded - 1):
            return
        ends = [batch_end_offset(batch) for batch in log if any(isinstance(record, kind) for record in batch.records)]
        if not any(offset < end <= offset + 1 + records_behind for end in ends):
            known = [*(end - 1 for end in ends), *([state.loaded - 1] if state.loaded >= 0 else [])]
            found = LoggedFieldDifference("offset", offset, known)
            raise EventRefusal(event, "is at another offset than the record", [found])

    def _voters_at(self, me: Replica, offset: int) -> frozenset[Any]:
        formatted = self.protocol.formatted_voters(me.id, me.directory)
        return self.protocol.voters_in(me.log[: batch_count_covering_offset(me.log, offset + 1)], formatted)

    def _reads_version(self, node: NodeProgress, state: NodeHypothesis, event: Event) -> NodeHypothesis:
        version, offset = event.body
        me = state.me
        formatted = self.protocol.formatted_version(me.id, me.directory)
        ours = last_kraft_version(me.log[: batch_count_covering_offset(me.log, offset + 1)], formatted)
        if ours != version and offset >= 0 and me.mode is Mode.LEADER:
            return state  # an upgrade: the voters' line comes next
        self._equal(state, event, ("kraft.version",), (version,), (ours,))
        self._require_record_offset(node, state, event, KRaftVersion, records_behind=1)
        return state

    def _is_state(self, node: NodeProgress, state: NodeHypothesis, event: Event) -> NodeHypothesis:
        """Compare the whole state with the model's."""
        me, shown = state.me, event.body
        kafka = {name: shown.get(name) for name in ("mode", "epoch", "leader")}
        kafka["high watermark"] = shown.get("high_watermark") or 0
        leader = None if isinstance(me.leader, Nil) else self.terms.nodes[me.leader]
        model: dict[str, Any] = {"mode": str(me.mode), "epoch": me.epoch, "leader": leader}
        model["high watermark"] = state.high
        if "voted" in shown:
            _, kafka["voted"], model["voted"] = compare_vote_with_model(shown["voted"], self._vote(me), self.terms)
        if "voters_offset" in shown and state.voter_sets is not None:
            kafka["voters offset"] = shown["voters_offset"]
            model["voters offset"] = state.voter_sets[-1] if state.voter_sets else None
        if "start" in shown:
            state = self._begun(state, shown["start"])
            kafka["start"], model["start"] = shown["start"], record_offset_of_batch(state.me.log, state.me.start)
        if event.seq > state.appended:  # Kafka's leader appends a little later than the model's
            self._add_log(me, shown, kafka, model)
        return self._equal(state, event, kafka, kafka.values(), model.values())

    @staticmethod
    def _vote(me: Replica) -> Key | Nil:
        """Return the vote in an epoch state: a candidate has its own key, a leader has none."""
        if me.mode is Mode.CANDIDATE:
            return me.key
        return Nil.NIL if me.mode in MODES_THAT_HIDE_VOTE else me.voted

    def _begun(self, state: NodeHypothesis, start: int) -> NodeHypothesis:
        """Return the state after the snapshots without a line by which the log begins at a shown offset, if it may."""
        if record_offset_of_batch(state.me.log, state.me.start) == start or not isinstance(state.me, DiskReplica):
            return state
        self.split(start)
        me = replica_with_rewritten_log(state.me, lambda log: split_data_batch_at(log, start))
        count = batch_count_covering_offset(me.log, start)
        after = self._after_snapshots(state._replace(me=me), {count})
        return next((one for one in after if one.me.start == count), state)

    def _add_log(self, me: Replica, shown: dict[str, Any], kafka: dict[str, Any], model: dict[str, Any]) -> None:
        """Add the fields that the log decides."""
        formatted = self.protocol.formatted_voters(me.id, me.directory)
        kafka["end"], kafka["last"] = shown.get("end"), shown.get("last")
        kafka["voters"] = {self.terms.key(int(one), directory) for one, directory in shown["voters"].items()}
        model["end"], model["last"] = record_offset_of_batch(me.log, len(me.log)), me.log[-1].epoch if me.log else 0
        model["voters"] = {voter.key for voter in me.voters}
        if formatted or me.log:  # from 4.4 on an observer's disk is formatted with a version as well
            kafka["version"] = shown.get("version")
            model["version"] = last_kraft_version(me.log, self.protocol.initial_version if formatted else 0)


SEND_CHECKS: dict[str, Any] = {
    "Fetch": LineChecks._send_fetch,
    "FetchSnapshot": LineChecks._send_fetch_snapshot,
    "Vote": LineChecks._send_vote,
    "BeginQuorumEpoch": LineChecks._send_begin,
    "EndQuorumEpoch": LineChecks._send_end,
    "UpdateRaftVoter": LineChecks._send_own,
    "AddRaftVoter": LineChecks._send_own,
    "RemoveRaftVoter": LineChecks._send_own,
    "ApiVersions": LineChecks._send_versions,
}

LINE_CHECKS: dict[EventKind, Any] = {
    EventKind.SEND: LineChecks._sends,
    EventKind.ANSWER: LineChecks._answers,
    EventKind.PARKED: LineChecks._ends_parked,
    EventKind.REJECTED: LineChecks._ends_parked,
    EventKind.APPEND: LineChecks._appends,
    EventKind.STORED: LineChecks._stores,
    EventKind.FIRST_HIGH_WATERMARK: LineChecks._first_high_watermark,
    EventKind.LEADER_HIGH_WATERMARK: LineChecks._high_watermark,
    EventKind.FOLLOWER_HIGH_WATERMARK: LineChecks._high_watermark,
    EventKind.TRUNCATED: LineChecks._truncates,
    EventKind.LOADED: LineChecks._loads,
    EventKind.REPLACED: LineChecks._ends_at,
    EventKind.VOTERS: LineChecks._reads_voters,
    EventKind.VERSION: LineChecks._reads_version,
    EventKind.STATE: LineChecks._is_state,
}

"""Starts of a process: the states of the model in which it may begin, also in its life.

A replica whose log begins late is replayed from a transition to Follower or Unattached with another mode or epoch. This
drops all volatile state. Its line shows mode, epoch, leader, vote and high watermark. The voters and the log end come
from the lines around it, and from logs that are older than the events of the replay.

Committed data batches of one epoch become one batch (rebasing), so that a step costs the same late in a log. Ends that
some replica or message may still name are kept, as are ends of epochs and batches with control records. All logs keep
the same ends.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, pairwise, takewhile
from typing import Any

from kraftcheck.kraft_model.quorum.records import (
    UNKNOWN_DIRECTORY,
    Batch,
    Change,
    Data,
    DiskReplica,
    FetchRequest,
    KRaftVersion,
    Mode,
    Nil,
    Replica,
    Voter,
    Voters,
)
from kraftcheck.spec import Map, ModelValue, Record
from kraftcheck.validation.events import Event, EventKind, MessageBody, request_pairing_key
from kraftcheck.validation.replay_state import LOG_GROWTH_KINDS, NodeHypothesis, NodeProgress, WaitingRequest
from kraftcheck.validation.replayed_model import ReplayedModel
from kraftcheck.validation.translation import (
    UNSET_DIRECTORY_IDS,
    Log,
    LogEnd,
    ModelTranslator,
    batch_count_covering_offset,
    batch_end_offset,
    data_batch_of_unknown_contents,
    make_log_from_ends,
    record_offset_of_batch,
)

ControlRecords = tuple[Record, ...]
"""Control records of a batch: voters, and a kraft.version."""

ControlsByOffset = dict[int, ControlRecords]


def add_control_record_unless_in_force(records: ControlsByOffset, offset: int, record: Record) -> None:
    """Add a record unless it is in force at an offset: there, or as the first one if none of its type comes before."""
    known = [at for at, found in records.items() if at <= offset and any(type(one) is type(record) for one in found)]
    if not known or record not in records[max(known)]:
        _put_control_record(records, offset if known else 0, record)


def _put_control_record(records: ControlsByOffset, offset: int, record: Record) -> None:
    rest = tuple(one for one in records.get(offset, ()) if type(one) is not type(record))
    records[offset] = (*rest, record)


def control_records_by_offset(
    terms: ModelTranslator, events: Iterable[Event]
) -> tuple[ControlsByOffset, ControlsByOffset]:
    """Return the voters and versions that lines show by their offsets in a log, and those at ends of snapshots."""
    found: ControlsByOffset = {}
    snapshots: ControlsByOffset = {}
    loaded = -1
    for event in events:
        if event.kind is EventKind.LOADED:
            loaded = event.body[0]
        elif event.kind in (EventKind.VERSION, EventKind.VOTERS) and event.body[1] >= 0:
            value, offset = event.body
            record = KRaftVersion(value) if event.kind is EventKind.VERSION else Voters(terms.voters(value))
            _put_control_record(snapshots if offset == loaded - 1 else found, offset, record)
    return found, snapshots


# The epochs of a log

LOG_END_FIELDS = {"Fetch": ("fetchOffset", "lastFetchedEpoch"), "Vote": ("lastOffset", "lastOffsetEpoch")}
"""The fields of a request that name the end of its sender's log."""


def log_ends_in_requests_before_growth(events: Sequence[Event]) -> Iterator[LogEnd]:
    """Yield the log ends that the next requests of a node name, until its log grows."""
    for event in events:
        if event.kind in LOG_GROWTH_KINDS:
            if event.kind is EventKind.APPEND:
                yield event.body[0], 0
            return
        yield from _log_ends_in_request(event)


def _log_ends_in_request(event: Event) -> Iterator[LogEnd]:
    names = LOG_END_FIELDS.get(event.body.api) if event.kind is EventKind.SEND else None
    if names is not None and event.body.number(names[0]) > 0:
        yield event.body.number(names[0]), event.body.number(names[1])


def log_ends_after_events(events: Iterable[Event]) -> list[LogEnd]:
    """Return the log ends that a node's lines show, as far as they still stand."""
    ends: list[LogEnd] = []
    for event in events:
        if event.kind is EventKind.TRUNCATED:
            ends = [(min(end, event.body), epoch) for end, epoch in ends]
        elif event.kind is EventKind.LOADED:
            ends = [event.body]
        elif event.kind in (EventKind.STORED, EventKind.APPEND):
            ends.append(event.body[-2:])
        else:
            ends += _log_ends_in_request(event)
    return ends


def merge_shown_and_requested_log_ends(shown: Sequence[LogEnd], asked: Sequence[LogEnd]) -> list[LogEnd]:
    """Return the ends of a log's parts in order: of each epoch, and those that its next requests name."""
    most = asked[0][0] if asked else shown[-1][0] if shown else 0
    last = dict(shown)
    for end, epoch in asked:
        last[end] = epoch or last.get(end, 0)
    found: list[LogEnd] = []
    for end, shown_epoch in sorted(last.items()):
        epoch = max(shown_epoch, found[-1][1] if found else 0)
        if 0 < end <= most:
            found.append((end, epoch))
    return _drop_ends_within_epochs(found, {end for end, _ in asked})


def _drop_ends_within_epochs(ends: Sequence[LogEnd], kept: set[int]) -> list[LogEnd]:
    """Return the last end of each epoch, and those that are kept."""
    return [one for one, after in pairwise([*ends, (0, -1)]) if after[1] != one[1] or one[0] in kept]


LogRewrite = Callable[[Log], Log]

FIRST_SHORTENED_LENGTH = 64
"""Batches of a log at which it is rebased first."""


class CommittedBatchMerger(ReplayedModel):
    """Shortens the logs of a replay."""

    longest = FIRST_SHORTENED_LENGTH

    def rebase(self) -> None:
        """Merge committed data batches in every log."""
        kept = set(self._kept())
        committed = record_offset_of_batch(self.shared.committed, len(self.shared.committed))
        self._rewrite(lambda log: merge_committed_data_batches(log, kept, committed))
        longest = max((len(replica.log) for replica in self._replicas()), default=0)
        self.longest = max(FIRST_SHORTENED_LENGTH, 2 * longest)

    def split(self, offset: int) -> None:
        """Split the merged batches that cover an offset; a follower may store a part of them only."""
        self._rewrite(lambda log: split_data_batch_at(log, offset))
        for number, batches in self.records.items():
            if batches and batch_end_offset(batches[0]) < offset:
                self.records[number] = split_data_batch_at(batches, offset)

    def _replicas(self) -> Iterator[Replica]:
        for node in self.nodes.values():
            for state in (node.state, *node.alternatives):
                if state is not None:
                    yield state.me

    def _kept(self) -> Iterator[int]:
        """Yield the end offsets that must stay."""
        for batches in self.records.values():
            yield from map(batch_end_offset, batches)
        logs: list[Log] = [self.shared.committed, *self.shared.lost.values()]
        for me in self._replicas():
            logs.append(me.log)
            counts = batch_counts_in_replica(me)
            yield from (record_offset_of_batch(me.log, min(count, len(me.log))) for count in counts)
        for log in logs:
            yield record_offset_of_batch(log, len(log))
            for batch, after in pairwise(log):
                if after.epoch != batch.epoch:
                    yield batch_end_offset(batch)

    def _rewrite(self, change: LogRewrite) -> None:
        for node in self.nodes.values():
            if node.state is not None:
                node.state = node.state._replace(me=replica_with_rewritten_log(node.state.me, change))
            node.alternatives = [
                one._replace(me=replica_with_rewritten_log(one.me, change)) for one in node.alternatives
            ]
        lost = Map((key, change(log)) for key, log in self.shared.lost.items())
        self.shared = self.shared.but(committed=change(self.shared.committed), lost=lost)
        self.check.divided(self.replicas(), self.shared)


def batch_counts_in_replica(me: Replica) -> Iterable[int]:
    """Return the numbers of batches that a replica's fields hold."""
    found = [me.start, me.flushed, me.high_watermark, *me.offsets.values()]
    if isinstance(me, DiskReplica):
        found += me.snapshots
    if isinstance(me.change, Change):
        found.append(me.change.offset)
    return found


def is_data_batch(batch: Batch) -> bool:
    """Whether a batch has no control record."""
    return all(isinstance(record, Data) for record in batch.records)


def merge_committed_data_batches(log: Log, kept: set[int], committed: int) -> Log:
    """Return a log without the ends of data batches up to the committed offset, except those that are kept."""
    found = []
    for position, batch in enumerate(log):
        after = log[position + 1] if position + 1 < len(log) else None
        if (
            after is not None
            and batch_end_offset(after) <= committed
            and batch_end_offset(batch) not in kept
            and after.epoch == batch.epoch
            and is_data_batch(batch)
            and is_data_batch(after)
        ):
            continue
        found.append(batch)
    return tuple(found)


def split_data_batch_at(log: Log, offset: int) -> Log:
    """Return a log in which a batch ends at an offset."""
    position = bisect_left(log, offset, key=batch_end_offset) if offset > 0 else len(log)
    if position >= len(log) or batch_end_offset(log[position]) == offset or not is_data_batch(log[position]):
        return log
    return (*log[:position], data_batch_of_unknown_contents(log[position].epoch, offset), *log[position:])


def replica_with_rewritten_log(me: Replica, change: LogRewrite) -> Replica:
    """Return a replica with another division of its log into batches, and with the numbers of batches that follow."""
    old, log = me.log, change(me.log)
    if len(log) == len(old):
        return me

    def number(count: int) -> int:
        if count > len(old):
            return count - len(old) + len(log)
        return bisect_left(log, record_offset_of_batch(old, count), key=batch_end_offset) + 1 if count > 0 else 0

    after = me.but(
        log=log,
        start=number(me.start),
        flushed=number(me.flushed),
        high_watermark=number(me.high_watermark),
        offsets=Map((key, number(end)) for key, end in me.offsets.items()),
    )
    if isinstance(after, DiskReplica):
        after = after.but(snapshots=tuple(map(number, after.snapshots)))
    if isinstance(after.change, Change):
        after = after.but(change=after.change.but(offset=number(after.change.offset)))
    if isinstance(after.pending, FetchRequest):
        after = after.but(pending=after.pending.but(offset=number(after.pending.offset)))
    return after


class ProcessStartReplay(CommittedBatchMerger):
    """States of a starting process."""

    is_late = False  # whether the replay of some node begins in the life of a process

    def _boots(self, node: NodeProgress, unit: Sequence[Event]) -> Iterator[NodeHypothesis]:
        """Yield the states in which a process may start."""
        node.asked = {}
        number, endpoint = self._directory(node, unit[0].incarnation), self._own_endpoint(node, unit[0].incarnation)
        host = self.terms.hosts[node.number]
        if node.state is None or (number and number != node.state.me.directory):
            self._formatted(host, number or 1, unit)
        if node.state is None:
            fresh = self.protocol.formatted(host, number or 1, endpoint or 1)
            yield NodeHypothesis(self._first(node, unit, self._with_snapshots(fresh, unit)))
            return
        known = self._left(node, node.state)
        if number and number != node.state.me.directory:
            lost = self.shared.lost.put(node.state.me.key, node.state.me.log)
            blank = self.protocol.formatted(host, number, endpoint or node.state.me.endpoint)
            yield NodeHypothesis(self._with_snapshots(blank, unit), puts=(("lost", lost),), actions=("LoseDisk",))
            return
        for before in (*known, *(after for one in known for after, name in self._moves(node, one, unit[0]) if name)):
            kept = self._extended(before.me if not endpoint else before.me.but(endpoint=endpoint), node, unit[0])
            me, _ = self.protocol.next_request(self.protocol.after_restart(kept))
            yield NodeHypothesis(self._with_snapshots(me, unit), ends=())

    def _left(self, node: NodeProgress, last: NodeHypothesis) -> list[NodeHypothesis]:
        """Return the states in which a process may have ended.

        They are without an append that has no line if a later process shows a log without it.
        """
        shown, found = node.shown_end(), list[NodeHypothesis]()
        for state in (last, *node.alternatives):
            log = state.me.log
            is_short = shown is not None and log and shown[0] == record_offset_of_batch(log, len(log) - 1)
            if is_short and state.appended >= node.position:
                state = state._replace(me=self.protocol.with_log(state.me, log[:-1], flushes=True))
            found.append(state)
        return found

    def _formatted(self, host: ModelValue, directory: int, unit: Sequence[Event]) -> None:
        """Note the voter set and kraft.version that a disk was formatted with, as its first start shows them."""
        told = [event.body[0] for event in unit if event.kind is EventKind.VOTERS and event.body[1] < 0]
        if not any(event.kind is EventKind.VOTERS for event in _lines_before_starting_voters(unit)):  # static voters
            told = [event.body for event in unit if event.kind is EventKind.STARTING_VOTERS]
        versions = [event.body[0] for event in unit if event.kind is EventKind.VERSION and event.body[1] < 0]
        voters = self.terms.voters(told[-1]) if told else frozenset[Voter]()
        self.formats[host, directory] = (voters, versions[-1] if versions else 0)

    def _extended(self, me: Replica, node: NodeProgress, event: Event) -> Replica:
        """Return a replica with the batches that its killed process has stored without a line, if there are any."""
        end, epoch = node.known_end(event.incarnation)
        node.is_released = False
        held = record_offset_of_batch(me.log, len(me.log))
        if end <= held:
            return me
        for other in self.nodes.values():
            log = other.state.me.log if other.state is not None else ()
            count = batch_count_covering_offset(log, end)
            if count <= len(log) and record_offset_of_batch(log, count) == end and log[: len(me.log)] == me.log:
                return self.protocol.with_log(me, log[:count], flushes=True)
        if self.is_late:
            more = self.old_log(self.lines_of_all(node), [(end, epoch)], start=held)
            return self.protocol.with_log(me, (*me.log, *more), flushes=True)
        if me.leader == me.id and epoch == me.epoch:  # its own batch, unknown to its followers
            return self.protocol.with_log(me, (*me.log, data_batch_of_unknown_contents(epoch, end)), flushes=True)
        return me

    def _with_snapshots(self, me: Replica, unit: Sequence[Event]) -> Replica:
        """Return a replica with the snapshots that its starting process finds on its disk, or reads at its start."""
        if not isinstance(me, DiskReplica):
            return me
        found = [event.body for event in unit if event.kind is EventKind.DISK]
        known = set() if found else set(me.snapshots)
        read = [event.body for event in unit if event.kind is EventKind.LOADED]
        named = [*chain.from_iterable(found), *read]
        for end, _ in named:
            me = replica_with_rewritten_log(me, partial(split_data_batch_at, offset=end))
            self.split(end)
        ends = {batch_count_covering_offset(me.log, end) for end, _ in named}
        return me.but(snapshots=tuple(sorted(end for end in known | ends if end <= len(me.log))))

    def _first(self, node: NodeProgress, unit: Sequence[Event], fresh: Replica) -> Replica:
        """Return a replica at its first start: as formatted, or as its lines show it if it has run before."""
        shown = next((event.body[0] for event in unit if event.kind is EventKind.TRANSITION), None)
        if shown is None:
            return fresh
        me = fresh
        end, epoch = node.known_end(unit[0].incarnation)
        if end > 0:
            node.is_old = True
            named = chain.from_iterable(event.body for event in unit if event.kind is EventKind.DISK)
            ends = [*sorted(one for one in named if 0 < one[0] < end), (end, epoch)]
            me = self.protocol.with_log(me, self.old_log([_lines_before_starting_voters(unit)], ends), flushes=True)
            self.notes.append(f"node {node.number}: the log up to offset {end} is older than these events")
        elif any(
            event.kind is EventKind.VOTERS and event.body[1] >= 0 for event in _lines_before_starting_voters(unit)
        ):  # a bootstrap snapshot
            controls = chain.from_iterable(
                control_records_by_offset(self.terms, _lines_before_starting_voters(unit))[0].values()
            )
            me = self.protocol.with_log(
                me, make_log_from_ends(0, [(0, epoch)], {-1: tuple(controls)}, ()), flushes=True
            )
        if shown["epoch"] == 0 and end <= 0:
            return me
        granted = self.protocol.own_votes(me) if shown["mode"] == "Candidate" else frozenset()
        me = self._in_shown_state(me, node, shown).but(granted=granted)
        me, _ = self.protocol.next_request(self.begun_at(me, self.log_start(node, unit[0].incarnation)))
        return self._with_snapshots(me, unit)

    def _in_shown_state(self, me: Replica, node: NodeProgress, shown: dict[str, Any]) -> Replica:
        """Return a replica with the mode, epoch, leader and vote that a transition shows."""
        voted = shown.get("voted")
        return me.but(
            mode=Mode(shown["mode"]),
            epoch=shown["epoch"],
            leader=self._leader(node, shown),
            leader_endpoint=self._endpoint(me, shown),
            voted=self.terms.key(*voted) if voted else Nil.NIL,
        )

    def lines_of_all(self, node: NodeProgress) -> Iterable[Iterable[Event]]:
        """Return the events of all nodes, a node's own last."""
        return [*(other.events for other in self.nodes.values() if other is not node), node.events]

    def old_log(
        self, lines: Iterable[Iterable[Event]], ends: Sequence[LogEnd], otherwise: ControlRecords = (), start: int = 0
    ) -> Log:
        """Return a log from an offset on, with the voters and versions that lines show; later ones count more.

        Before the first of them are those that a snapshot shows, or `otherwise`.
        """
        end = ends[-1][0] if ends else 0
        records: ControlsByOffset = {}
        snapshots: ControlsByOffset = {}
        for events in lines:
            found, in_snapshots = control_records_by_offset(self.terms, events)
            records |= found
            snapshots |= in_snapshots
        records = {offset: found for offset, found in records.items() if offset < end}
        claims = sorted((offset, found) for offset, found in snapshots.items() if offset < end)
        for offset, controls in [*claims, (end, otherwise)]:
            for one in controls:
                add_control_record_unless_in_force(records, offset, one)
        return make_log_from_ends(start, ends, records, ())

    def log_start(self, node: NodeProgress, incarnation: int) -> int:
        """Return the start of a process's log, as its next or else its last response to a fetch shows it."""
        for event in chain(node.events[node.position :], reversed(node.events[: node.position])):
            if event.incarnation == incarnation and event.kind is EventKind.ANSWER and event.body.api == "Fetch":
                return max(int(event.body.number("logStartOffset")), 0)
        return 0

    def begun_at(self, me: Replica, start: int) -> Replica:
        """Return a replica whose log starts at an offset, with the snapshot that ends there."""
        me = replica_with_rewritten_log(me, partial(split_data_batch_at, offset=start))
        count = sum(batch_end_offset(batch) <= start for batch in me.log)
        if not count or not isinstance(me, DiskReplica):
            return me
        return me.but(start=count, high_watermark=count, snapshots=(count,))

    def _leader(self, node: NodeProgress, shown: dict[str, Any]) -> ModelValue | Nil:
        if shown["mode"] in ("Leader", "Resigned"):
            return self.terms.hosts[node.number]
        leader = shown.get("leader")
        return Nil.NIL if leader is None else self.terms.host(leader)

    def _endpoint(self, me: Replica, shown: dict[str, Any]) -> int:
        leader, address = shown.get("leader"), shown.get("address")
        if leader is None:
            return 1
        return self.terms.endpoint(leader, address) if address else 0

    def _directory(self, node: NodeProgress, incarnation: int) -> int:
        """Return the number of the directory id of an incarnation; 0 if no event shows it."""
        for event in chain(node.events[node.position :], reversed(node.events[: node.position])):
            if event.incarnation != incarnation:
                continue
            if event.kind is EventKind.SEND and event.body.api in ("Fetch", "FetchSnapshot", "Vote"):
                return self.terms.directory(node.number, event.body.get("replicaDirectoryId"))
        return 0

    def _own_endpoint(self, node: NodeProgress, incarnation: int) -> int:
        """Return the number of the endpoint that an incarnation names for itself; 0 if no event shows it.

        The voter set of a leader has its own endpoint.
        """
        leads = False
        for event in node.events[node.position :]:
            if event.incarnation != incarnation:
                break
            leads = leads or (event.kind is EventKind.TRANSITION and event.body[0]["mode"] == "Leader")
            address = _own_address_in_event(event, node.number, leads=leads)
            if address:
                return self.terms.endpoint(node.number, address)
        return 0


def _own_address_in_event(event: Event, node: int, *, leads: bool) -> str | None:
    """Return the host and port that a node's event names for the node."""
    if event.kind is EventKind.VOTERS:
        return next((voter[2] for voter in event.body[0] if voter[0] == node and leads), None)
    if event.kind is EventKind.SEND:
        is_own = event.body.api in ("BeginQuorumEpoch", "UpdateRaftVoter", "AddRaftVoter")
    else:
        is_own = event.kind is EventKind.ANSWER and event.body.number("leaderId") == node
    host, port = (event.body.get("host"), event.body.get("port")) if is_own else (None, None)
    return None if host in (None, "''") or port is None else f"{host[1:-1]}:{port}"


def _lines_before_starting_voters(unit: Sequence[Event]) -> list[Event]:
    """Return the lines of a start up to the voters that the process has read; it may write others at once."""
    return list(takewhile(lambda event: event.kind is not EventKind.STARTING_VOTERS, unit))


# Starts in the life of a process

OFFSET_FIELDS = ("fetchOffset", "highWatermark", "endOffset", "lastOffset", "logStartOffset")


class LateStartReplay(ProcessStartReplay):
    """States of replicas that are replayed from a transition on."""

    def begin_late(self) -> None:
        """Set the states of the nodes whose first event to replay is behind a transition."""
        self.is_late = any(node.position for node in self.nodes.values())
        for node in self.nodes.values():
            head = node.events[: node.position]
            self.done.update(id(event) for event in head if event.kind in (EventKind.SEND, EventKind.ANSWER))
            if head and not node.is_done and head[-1].kind is EventKind.TRANSITION:
                node.state, node.is_old = self._late(node, head), True
                self.notes.append(f"node {node.number}: replayed from {head[-1].place} on, in the life of a process")

    def split_named(self, event: Event) -> None:
        """Split the merged batches at the offsets that a message names; of a late log, the batches are not known."""
        if self.is_late and isinstance(event.body, MessageBody):
            for text in chain.from_iterable(map(event.body.all, OFFSET_FIELDS)):
                self.split(int(text))

    def _late(self, node: NodeProgress, head: Sequence[Event]) -> NodeHypothesis:
        """Return the state of a node behind the transition that ends its head."""
        shown = head[-1].body[0]
        me = self._with_old_log(self._fresh(node, head), node, head)
        me, _ = self.protocol.next_request(self._in_shown_state(me, node, shown))
        waiting = _unanswered_requests(head)
        return NodeHypothesis(me, shown, waiting=waiting, origin=me, high=shown["high"], voter_sets=None)

    def _fresh(self, node: NodeProgress, head: Sequence[Event]) -> Replica:
        """Return a replica with its key, its endpoint and its voters, as formatted."""
        host, directory = self.terms.hosts[node.number], self._directory(node, head[-1].incarnation) or 1
        voters = self._late_voters(node, head[-1].body[0], directory)
        version = int(any(voter.key.directory != UNKNOWN_DIRECTORY for voter in voters))
        self.formats.setdefault((host, directory), (voters, version))
        own = next((voter.endpoint for voter in voters if voter.key.id == host), 1)
        endpoint = self._own_endpoint(node, head[-1].incarnation) or own
        return self.protocol.formatted(host, directory, endpoint).but(voters=voters, version=version)

    def _with_old_log(self, me: Replica, node: NodeProgress, head: Sequence[Event]) -> Replica:
        """Return a replica with its log, the log start, and the high watermark."""
        voters, version = me.voters, me.version
        controls = (KRaftVersion(version), Voters(voters)) if version else ()
        ends = merge_shown_and_requested_log_ends(
            log_ends_after_events(head), list(log_ends_in_requests_before_growth(node.events[node.position :]))
        )
        me = self.protocol.with_log(me, self.old_log(self.lines_of_all(node), ends, controls), flushes=True)
        if controls and ends and {one.key.id for one in me.voters} != {one.key.id for one in voters}:
            last = me.log[-1]  # a record that was truncated since
            me = self.protocol.with_log(me, (*me.log[:-1], last.but(records=(*controls, *last.records))), flushes=True)
        start = self.log_start(node, head[-1].incarnation)
        marks = (e.body for e in head if e.kind in (EventKind.LEADER_HIGH_WATERMARK, EventKind.FOLLOWER_HIGH_WATERMARK))
        high = max(head[-1].body[0]["high"], start, *marks, 0)
        me = replica_with_rewritten_log(self.begun_at(me, start), lambda log: split_data_batch_at(log, high))
        return me.but(high_watermark=sum(batch_end_offset(batch) <= high for batch in me.log))

    def _late_voters(self, node: NodeProgress, shown: dict[str, Any], directory: int) -> frozenset[Voter]:
        """Return the voters whose ids a transition shows, as the lines of this node and the others name them."""
        texts, addresses = self._names(node)
        found = set()
        for one in shown.get("voters") or shown.get("update voters") or ():
            key = self.terms.key(one, texts.get(one))
            is_own = one == node.number and key.directory != UNKNOWN_DIRECTORY
            endpoint = self.terms.endpoint(one, addresses[one]) if one in addresses else 1
            found.add(Voter(key.but(directory=directory) if is_own else key, endpoint))
        return frozenset(found)

    def _names(self, node: NodeProgress) -> tuple[dict[int, str], dict[int, str]]:
        """Return directory ids and addresses by voter: those that lines of this node name, else those of others."""
        before, after = node.events[: node.position], node.events[node.position :]
        others = (other.events for other in self.nodes.values() if other is not node)
        named = list(
            chain(
                _voters_named_in_events(reversed(before)),
                _voters_named_in_events(after),
                *map(_voters_named_in_events, others),
            )
        )[::-1]  # the nearest last
        addresses = {one: address for address, one in self.homes.items()}
        return {one: text for one, text, _ in named}, addresses | {one: at for one, _, at in named if at}


def _voters_named_in_events(events: Iterable[Event]) -> Iterator[tuple[int, str, str]]:
    """Yield the voters that events name: id, directory id, and the address or an empty text."""
    for event in events:
        name = VOTER_READERS_BY_KIND.get(event.kind)
        if name is not None:
            yield from name(event)


def _voters_named_in_set(event: Event) -> Iterator[tuple[int, str, str]]:
    told = event.body[0] if event.kind is EventKind.VOTERS else event.body
    return ((voter[0], voter[1], voter[2]) for voter in told)


def _voters_named_in_states(event: Event) -> Iterator[tuple[int, str, str]]:
    keys = chain.from_iterable(state.get("keys", ()) for state in event.body if state is not None)
    return ((int(one), text, "") for one, text in keys)


def _voter_addressed_by_request(event: Event) -> Iterator[tuple[int, str, str]]:
    if event.body.api in ("Vote", "BeginQuorumEpoch"):
        yield event.body.number("voterId"), event.body.get("voterDirectoryId") or UNSET_DIRECTORY_IDS[0], ""


VOTER_READERS_BY_KIND = {
    EventKind.VOTERS: _voters_named_in_set,
    EventKind.STARTING_VOTERS: _voters_named_in_set,
    EventKind.TRANSITION: _voters_named_in_states,
    EventKind.SEND: _voter_addressed_by_request,
    EventKind.REQUEST: _voter_addressed_by_request,
}
"""The voters that an event names, by its kind."""


def _unanswered_requests(head: Sequence[Event]) -> dict[Any, WaitingRequest]:
    """Return the requests of a head without a response; their responses are taken as they come."""
    found: dict[Any, WaitingRequest] = {}
    for event in head:
        if event.kind is EventKind.REQUEST:
            found[request_pairing_key(event)] = WaitingRequest(event, None, is_late=True)
        elif event.kind is EventKind.ANSWER:
            found.pop(request_pairing_key(event), None)
    return found

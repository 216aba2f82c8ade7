"""Eligible leader replicas: replication of one partition with the controller's registrations and fencing (KIP-966).

Source: the TLA+ specification of KIP-966 (repository Vanlightly/kafka-tlaplus, kafka_data_replication/kraft/kip-966),
action by action, without reassignments. All brokers have a replica. The state of a bounded model is one of theirs, so
the counts are equal (`docs/examples.md`). A metadata log of a broker is a prefix of the controller's: here its length.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations

from kraftcheck.spec import Map, Record, Steps, become, consume, internal, invariant, on, ordered, projection
from kraftcheck.spec.examples.eligible_leaders.controller import (
    EligibleController,
    ReplicasById,
    broker_view_after_change,
)
from kraftcheck.spec.examples.eligible_leaders.records import (
    CONTROLLER,
    NOBODY,
    OFFLINE_STATUSES,
    AlterPartitionRequest,
    AlterPartitionResponse,
    Broker,
    Controller,
    Entry,
    Error,
    Fetcher,
    FetchRequest,
    FetchResponse,
    History,
    Inbox,
    Known,
    Members,
    Pending,
    Position,
    Progress,
    RegistrationRequest,
    RegistrationResponse,
    Role,
    Session,
    Status,
    World,
)


def is_running_leader(me: Broker) -> bool:
    return me.status is Status.RUNNING and me.role is Role.LEADER


def epoch_end_position(me: Broker, epoch: int, *, leader: bool) -> Position:
    """Return the end of the highest epoch not above the given one, as KIP-101 and KIP-279 have it."""
    if not me.log or epoch == me.last_epoch or (leader and epoch == me.known.leader_epoch):
        return Position(epoch, me.end)
    higher = [place for place, entry in enumerate(me.log, start=1) if entry.epoch > epoch]
    lower = [entry.epoch for entry in me.log if entry.epoch <= epoch]
    return Position(max(lower, default=epoch), min(higher, default=me.end))


def highest_offset_held_by_members(me: Broker, members: Members, end: int) -> int:
    """Return the highest offset that all members hold as far as the leader knows; 0 if there is none."""
    if not me.log:
        return 0
    return min([end, *(max(1, me.followers[one].end) for one in members if one != me.id)]) - 1


class EligibleLeaders(EligibleController):
    """Each elected leader holds the committed records, although brokers may lose their logs."""

    # Acknowledgements

    def _answered(self, me: Broker, past: History, lower: int, higher: int, *, good: bool) -> History:
        """Return the history once a leader has answered for its own records from `lower` to `higher`."""
        written = {me.log[offset - 1].value for offset in range(max(lower, me.floor or me.end), higher + 1)}
        values = frozenset(written) & (past.sent - past.acknowledged - past.rejected)
        if good:
            return past.but(acknowledged=past.acknowledged | values)
        return past.but(rejected=past.rejected | values)

    def _failed(self, me: Broker, past: History) -> History:
        """Return the history once a broker has rejected its own records that wait for acknowledgements."""
        return self._answered(me, past, me.high_watermark, me.end - 1, good=False)

    def _may_commit(self, isr: Members) -> bool:
        """Whether the high watermark may advance: below MinISR a leader may not count every candidate."""
        return len(isr) >= self.min_isr

    def _advanced(
        self, me: Broker, past: History, mark: int, isr: Members, *, good: bool = True
    ) -> tuple[Broker, History]:
        """Return a leader once its high watermark is `mark`, if that is higher and the ISR is large enough."""
        if mark <= me.high_watermark or not self._may_commit(isr):
            return me, past
        now = self._answered(me, past, me.high_watermark, mark - 1, good=True) if good else self._failed(me, past)
        if mark > now.high_watermark:
            read = me.log[now.high_watermark - 1 : mark - 1]
            now = now.but(high_watermark=mark, consumed=now.consumed + read)
        return me.but(high_watermark=mark), now

    def _learned(self, me: Broker, past: History, now: Known) -> tuple[Broker, History]:
        """Return a leader once it knows a partition state."""
        mark = highest_offset_held_by_members(me, now.maximal_isr, me.end) + 1
        good = len(now.maximal_isr) >= self.min_isr
        after, history = self._advanced(me, past, mark, now.isr, good=good)
        return after.but(known=now), history

    # Brokers start and stop

    @internal
    def broker_start(self, me: Broker, shared: World) -> Steps:
        """A broker starts, and registers with its last broker epoch: 0 after an unclean shutdown."""
        if me.status in OFFLINE_STATUSES:
            number = shared.incarnations
            after = me.but(status=Status.STARTING, incarnation=number, registered=False, role=None)
            request = RegistrationRequest(me.broker_epoch, number, me.id)
            yield become(after).send(request).put(incarnations=number + 1)

    @on(RegistrationResponse)
    def receive_broker_reg_response(self, me: Broker, response: RegistrationResponse) -> Steps:
        """A broker runs, with the metadata up to its registration, and without the last record."""
        if me.status is Status.STARTING and not me.registered and me.incarnation == response.incarnation:
            running = me.but(status=Status.RUNNING, broker_epoch=response.broker_epoch, registered=True)
            yield consume(running.but(cursor=max(0, response.metadata_end - 1), known=Known()))

    def _shut_down(self, me: Broker, shared: World, whole: ReplicasById, stopped: Broker) -> Steps:
        """Yield the steps in which a broker stops, its fetch sessions end, and the controller fences it."""
        past = self._failed(me, shared.history) if me.role is Role.LEADER else shared.history
        controller = whole[CONTROLLER]
        assert isinstance(controller, Controller)
        after = stopped.but(
            incarnation=0,
            registered=False,
            role=None,
            fetchers=Map((peer, Fetcher()) for peer in me.fetchers),
            followers=self._unknown(me.id),
            pending=Pending(),
            floor=0,
        )
        step = become(after)
        for peer in ordered(me.fetchers):
            step = step.forget(Session(me.id, peer)).forget(Session(peer, me.id))
            other = whole[peer]
            assert isinstance(other, Broker)
            failed = other.fetchers[me.id]
            if failed.pending:
                failed = failed.but(pending=False, delayed=failed.delayed or failed.position is not None)
                step = step.write(other.but(fetchers=other.fetchers.put(me.id, failed)))
        for records in self._fenced(controller, me.id, shared.metadata[-1]):
            fenced = step.write(controller.marked(me.id, fenced=True))
            yield fenced.put(metadata=shared.metadata + records, history=past)

    @internal(reads=EligibleController.whole)
    def data_loss_shutdown(self, me: Broker, shared: World, whole: ReplicasById) -> Steps:
        """A broker stops uncleanly, and its log is lost."""
        if me.status not in OFFLINE_STATUSES:
            stopped = me.but(status=Status.DIRTY, broker_epoch=0, log=(), high_watermark=1, epoch_start=0)
            for step in self._shut_down(me, shared, whole, stopped):
                yield step.spend("unclean_shutdowns")

    @internal(reads=EligibleController.whole)
    def no_data_loss_shutdown(self, me: Broker, shared: World, whole: ReplicasById) -> Steps:
        """A broker stops cleanly and keeps its broker epoch, or uncleanly without a loss."""
        for epoch in dict.fromkeys((me.broker_epoch, 0)) if me.status not in OFFLINE_STATUSES else ():
            for step in self._shut_down(me, shared, whole, me.but(status=Status.CLEAN, broker_epoch=epoch)):
                yield step.spend("clean_shutdowns")

    # Metadata

    @internal
    def receive_metadata_update(self, me: Broker, shared: World) -> Steps:
        """A broker applies records up to one that concerns its replica."""
        if me.status in OFFLINE_STATUSES or not me.registered:
            return
        for end in range(me.cursor + 1, len(shared.metadata) + 1):
            record = shared.metadata[end - 1]
            if me.role is Role.LEADER or record.leader_epoch > me.known.leader_epoch:
                told = me.but(cursor=end)
                if record.partition_epoch > me.known.partition_epoch:
                    after, history = self._told(told, shared.history, broker_view_after_change(record))
                    yield become(after).put(history=history)
                else:
                    yield become(told)

    def _told(self, me: Broker, past: History, now: Known) -> tuple[Broker, History]:
        """Return a broker once it knows a newer partition state from a record."""
        idle = Map((peer, one.but(position=None, delayed=False)) for peer, one in me.fetchers.items())
        if now.leader != me.id:
            return self._renounced(me, now, idle), self._failed(me, past)
        after, history = self._learned(me, past, now)
        if me.known.leader == me.id and now.leader_epoch == me.known.leader_epoch:
            answered = now.partition_epoch >= me.pending.partition_epoch
            return after.but(pending=Pending() if answered else me.pending), history
        kept = {peer for peer in now.isr if me.role is Role.LEADER}
        followers = Map((peer, one if peer in kept else Progress()) for peer, one in me.followers.items())
        elected = after.but(
            role=Role.LEADER, epoch_start=me.end, followers=followers, pending=Pending(), fetchers=idle
        )
        return elected, history

    def _renounced(self, me: Broker, now: Known, idle: Map[int, Fetcher]) -> Broker:
        """Return a broker that does not lead, and fetches from the leader, if there is one."""
        fetchers = idle
        if now.leader != NOBODY:
            fetchers = idle.put(now.leader, idle[now.leader].but(position=Position(me.last_epoch, me.end)))
        return me.but(
            known=now,
            role=None if now.leader == NOBODY else Role.FOLLOWER,
            fetchers=fetchers,
            followers=self._unknown(me.id),
            epoch_start=0,
            pending=Pending(),
            floor=0,
        )

    # The ISR

    @projection
    def asked(self, inbox: Inbox) -> frozenset[Record]:
        """Return the AlterPartition requests that a process has ever received, or will."""
        return frozenset(one for one in inbox[0] | inbox[1] if isinstance(one, AlterPartitionRequest))

    @internal(reads=(EligibleController.whole, asked))
    def send_alter_partition_request(
        self, me: Broker, shared: World, whole: ReplicasById, asked: Map[int, frozenset[Record]]
    ) -> Steps:
        """A leader proposes an ISR: with followers that have caught up, and without some that it counts as slow.

        A request that has been sent is repeated only if the controller accepts it.
        """
        controller = whole[CONTROLLER]
        assert isinstance(controller, Controller)
        for proposed, slow in self._proposals(me) if is_running_leader(me) and not me.awaits_isr else ():
            request = self._proposal(me, proposed)
            repeated = request in asked[CONTROLLER]
            if repeated and self._alter_error(controller, request, shared.metadata[-1]):
                continue
            pending = Pending(me.known.partition_epoch + 1, request)
            after = me.but(known=me.known.but(maximal_isr=proposed | me.known.isr), pending=pending)
            yield become(after).send(request).spend(*["shrinks"] * slow)

    def _proposals(self, me: Broker) -> Iterator[tuple[Members, bool]]:
        """Yield each other ISR that a leader may propose, and whether it leaves out a slow follower."""
        isr, behind = me.known.isr, max(me.high_watermark, me.epoch_start)
        joining = {peer for peer, one in me.followers.items() if peer not in isr and one.end >= behind}
        others = ordered(isr - {me.id})
        for slow in chain.from_iterable(combinations(others, size) for size in range(len(others) + 1)):
            if slow or joining:
                yield (isr - set(slow)) | joining, bool(slow)

    def _proposal(self, me: Broker, proposed: Members) -> AlterPartitionRequest:
        new = proposed - me.known.isr
        epochs = Map((peer, me.followers[peer].broker_epoch if peer in new else 0) for peer in proposed)
        now = (me.known.leader_epoch, me.known.partition_epoch, me.broker_epoch)
        return AlterPartitionRequest(epochs.put(me.id, me.broker_epoch), *now, me.id)

    @on(AlterPartitionResponse)
    def receive_alter_partition_response(self, me: Broker, response: AlterPartitionResponse, shared: World) -> Steps:
        """A leader takes the ISR of the response, or drops its proposal after an error."""
        if not is_running_leader(me) or not me.awaits_isr or me.pending.request != response.request:
            return
        now = me.known.but(maximal_isr=me.known.isr)
        if response.error is None:
            newer = response.partition_epoch > me.known.partition_epoch
            if not newer or response.leader_epoch != me.known.leader_epoch:
                return
            isr = response.isr
            now = Known(isr, isr, response.leader, response.leader_epoch, response.partition_epoch)
        after, history = self._learned(me, shared.history, now)
        yield consume(after.but(pending=Pending())).put(history=history)

    # Replication

    @internal(reads=EligibleController.whole)
    def send_fetch_request(self, me: Broker, whole: ReplicasById) -> Steps:
        """A follower fetches, unless nothing is new: both have the same log end and high watermark, and know it."""
        leader = me.known.leader
        fetcher = me.fetchers.get(leader)
        if me.status is not Status.RUNNING or fetcher is None or fetcher.position is None or fetcher.pending:
            return
        to, position = whole[leader], fetcher.position
        assert isinstance(to, Broker)
        told = Progress(me.end, me.broker_epoch)
        if (to.end, to.high_watermark, to.followers[me.id]) == (me.end, me.high_watermark, told):
            return
        after = me.but(fetchers=me.fetchers.put(leader, fetcher.but(pending=True, delayed=False)))
        asked = (me.known.leader_epoch, position.offset, position.epoch)
        yield become(after).send(FetchRequest(me.broker_epoch, *asked, me.id, leader))

    @on(FetchRequest)
    def receive_fetch_request(self, me: Broker, request: FetchRequest, shared: World) -> Steps:
        """A leader answers with an entry, or with where the logs diverge, and may advance the high watermark."""
        if me.status is not Status.RUNNING:
            return
        epoch = me.known.leader_epoch
        answer = FetchResponse(epoch, request.offset, me.high_watermark, me.id, request.source)
        if me.role is not Role.LEADER or epoch != request.leader_epoch:
            fenced = Error.FENCED_LEADER_EPOCH if epoch > request.leader_epoch else Error.NOT_LEADER_OR_FOLLOWER
            error = Error.UNKNOWN_LEADER_EPOCH if epoch < request.leader_epoch else fenced
            yield become(me).reply(answer.but(error=error))
            return
        last = epoch_end_position(me, request.last_epoch, leader=True)
        if last.epoch < request.last_epoch or last.offset < request.offset:
            yield become(me).reply(answer.but(diverging=last))
            return
        followers = me.followers.put(request.source, Progress(request.offset, request.broker_epoch))
        heard = me.but(followers=followers)
        mark = highest_offset_held_by_members(heard, me.known.maximal_isr, me.end) + 1
        after, history = self._advanced(heard, shared.history, mark, me.known.isr)
        entries = me.log[request.offset - 1 : request.offset]
        reply = answer.but(high_watermark=after.high_watermark, entries=entries)
        yield become(after).put(history=history).reply(reply)

    @on(FetchResponse)
    def receive_fetch_response(self, me: Broker, response: FetchResponse) -> Steps:
        """A follower appends the entry, or truncates its log where it diverges from the leader's."""
        fetcher = me.fetchers[response.source]
        if me.status is not Status.RUNNING or not fetcher.pending:
            return
        position, over = fetcher.position, fetcher.but(pending=False)
        after = me
        if position is None or (position.offset, me.known.leader_epoch) != (response.offset, response.leader_epoch):
            pass
        elif response.error is not None:
            over = over.but(delayed=True)
        elif response.diverging is not None:
            after = me.but(log=me.log[: self._truncation(me, response.diverging) - 1])
            over = Fetcher(Position(after.last_epoch, after.end))
        else:
            after = me.but(log=me.log + response.entries)
            if response.high_watermark <= after.end:
                after = after.but(high_watermark=response.high_watermark)
            last = response.entries[-1].epoch if response.entries else position.epoch
            over = Fetcher(Position(last, after.end))
        yield consume(after.but(fetchers=me.fetchers.put(response.source, over)))

    def _truncation(self, me: Broker, diverging: Position) -> int:
        """Return the log end to which a follower truncates."""
        mine = epoch_end_position(me, diverging.epoch, leader=False)
        return mine.offset if mine.epoch != diverging.epoch else min(mine.offset, diverging.offset)

    @internal
    def write_record_to_leader(self, me: Broker, shared: World) -> Steps:
        """A leader with a large enough ISR appends a value that is new."""
        if not is_running_leader(me) or len(me.known.maximal_isr) < self.min_isr:
            return
        for value in sorted(set(range(1, self.values + 1)) - shared.history.sent):
            mark = highest_offset_held_by_members(me, me.known.maximal_isr, me.end + 1) + 1
            after, history = self._advanced(me, shared.history, mark, me.known.isr)
            after = after.but(log=(*me.log, Entry(me.known.leader_epoch, value)), floor=me.floor or me.end)
            yield become(after).put(history=history.but(sent=history.sent | {value}))

    # Properties

    @invariant
    def leader_completeness_property(self, me: Broker, shared: World) -> bool:
        """The running leader holds the committed records, and each acknowledged value."""
        past = shared.history
        if shared.metadata[-1].leader != me.id or me.status is not Status.RUNNING or past.high_watermark == 1:
            return True
        return me.end >= past.high_watermark and past.acknowledged <= {entry.value for entry in me.log}

    @invariant
    def leader_candidate_completeness_property(self, me: Broker, shared: World) -> bool:
        """Each running member of ISR and ELR holds the committed records."""
        candidates = shared.metadata[-1].isr | shared.metadata[-1].elr
        running = me.id in candidates and me.status is Status.RUNNING
        return not running or me.end >= shared.history.high_watermark

    @invariant
    def replication_quorum_superset_property(self, me: Broker, shared: World) -> bool:
        """A current leader counts every candidate before it commits, if its ISR is large enough."""
        now, maximal = shared.metadata[-1], me.known.maximal_isr
        if me.role is not Role.LEADER or me.known.leader_epoch != now.leader_epoch:
            return True
        counts = len(me.known.isr) < self.min_isr or now.isr | now.elr <= maximal
        return counts and (me.awaits_isr or maximal == me.known.isr)

    @invariant
    def log_matching_property(self, me: Broker, peer: Broker) -> bool:
        """Two replicas have the same values up to the lower of their high watermarks."""
        upto = min(me.high_watermark, peer.high_watermark) - 1
        pairs = zip(me.log[:upto], peer.log[:upto], strict=False)
        return all(mine.value == theirs.value for mine, theirs in pairs)

    @invariant
    def consistent_read_property(self, me: Broker, shared: World) -> bool:
        """A current leader has every record that was read, at its offset."""
        current = me.role is Role.LEADER and me.known.leader_epoch == shared.metadata[-1].leader_epoch
        return not current or me.log[: len(shared.history.consumed)] == shared.history.consumed


__all__ = ["EligibleLeaders"]

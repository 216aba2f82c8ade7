"""Contracts of `recovery`: decisions of the controller, their effects on brokers, service of clients and followers.

Each contract names its source. It shares no rule with an action, so that no mistake in a rule affects both.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from kraftcheck.kraft_model.recovery.base import RecoveryBase
from kraftcheck.kraft_model.recovery.records import (
    RECOVERED,
    RECOVERING,
    UNKNOWN_PARTITION,
    AlterPartitionRequest,
    AlterPartitionResponse,
    Api,
    Broker,
    Client,
    ClientRequest,
    ClientResponse,
    Controller,
    Entry,
    EpochEndRequest,
    EpochEndResponse,
    Error,
    LeaderAndIsrRequest,
    MetadataLog,
    Mode,
    Nil,
    Partition,
    PartitionChangeRecord,
    PartitionRecord,
    RecoveryState,
    ReplicaFetch,
    ReplicaFetchResponse,
    Shared,
)
from kraftcheck.spec import ModelValue, Step, become, consume, invariant, ordered, step_invariant

# Expected effects, independent of the actions' rules


def is_same_step_up_to_order(step: Step, expected: Step) -> bool:
    """Return whether two steps are equal up to the order of writes and messages."""
    rest = step.but(puts=(), sends=()) == expected.but(puts=(), sends=())
    return rest and Counter(step.puts) == Counter(expected.puts) and Counter(step.sends) == Counter(expected.sends)


def partition_change_between(old: Partition, new: Partition) -> PartitionChangeRecord:
    """Return the PartitionChangeRecord that leads from one partition state to another."""
    return PartitionChangeRecord(
        leader=new.leader if new.leader != old.leader else Nil.UNCHANGED,
        isr=new.isr if new.isr != old.isr else Nil.UNCHANGED,
        recovery=new.recovery if new.recovery is not old.recovery else Nil.UNCHANGED,
    )


def expected_partition_from_metadata(metadata: MetadataLog) -> Partition:
    """Return the partition after metadata records: the last change of each field counts."""
    if not metadata:
        return UNKNOWN_PARTITION
    created, changes = metadata[0], [one for one in metadata[1:] if isinstance(one, PartitionChangeRecord)]
    assert isinstance(created, PartitionRecord)
    leaders = [created.leader, *[one.leader for one in changes if one.leader is not Nil.UNCHANGED]]
    in_sync = [created.isr, *[one.isr for one in changes if not isinstance(one.isr, Nil)]]
    recoveries = [created.recovery, *[one.recovery for one in changes if not isinstance(one.recovery, Nil)]]
    epochs = created.leader_epoch + len(leaders) - 1, created.partition_epoch + len(changes)
    return Partition(leaders[-1], *epochs, in_sync[-1], recoveries[-1])


def partition_in_version_of_broker(protocol: RecoveryBase, broker: Broker, partition: Partition) -> Partition:
    """Return a partition as a broker reads it: an old broker ignores the recovery state (Compatibility)."""
    return partition.but(recovery=RECOVERED) if broker.id in protocol.old_brokers else partition


def step_to_adopt_partition(broker: Broker, partition: Partition, shared: Shared) -> Step:
    """Return the step in which a broker adopts a partition state; in a new leader epoch, it rejects waiting clients."""
    if partition.leader_epoch > broker.partition.leader_epoch:
        told = (Error.NOT_LEADER_OR_FOLLOWER, broker.partition.leader_epoch, broker.id)
        refusals = [ClientResponse(Api.PRODUCE, broker.log[offset - 1].value, *told) for offset in broker.waiting]
        anew = Broker(
            broker.id,
            controller_epoch=broker.controller_epoch,
            cursor=broker.cursor,
            partition=partition,
            epoch_start=len(broker.log) if partition.leader == broker.id else 0,
            log=broker.log,
        )
        return become(anew).send(*refusals)
    changed = partition.partition_epoch != broker.partition.partition_epoch
    return step_to_acknowledge_values(
        broker.but(partition=partition, pending=Nil.NIL if changed else broker.pending), shared
    )


def step_to_acknowledge_values(broker: Broker, shared: Shared) -> Step:
    """Return the step in which a leader acknowledges the values that all counted replicas hold (KIP-497)."""
    leader = broker.running and broker.partition.leader == broker.id
    asked = broker.pending.isr if isinstance(broker.pending, AlterPartitionRequest) else frozenset()
    others = (broker.partition.isr | asked) - {broker.id}
    done = {offset for offset in broker.waiting if leader and all(broker.ends.get(one, 0) >= offset for one in others)}
    epoch, told = broker.partition.leader_epoch, [broker.log[offset - 1].value for offset in sorted(done)]
    if not done:
        return become(broker)
    responses = [ClientResponse(Api.PRODUCE, value, Error.NONE, epoch, broker.id) for value in told]
    acknowledged = shared.acknowledged | {(epoch, value) for value in told}
    return become(broker.but(waiting=broker.waiting - done)).put(acknowledged=acknowledged).send(*responses)


class RecoveryContracts(RecoveryBase):
    """Step properties of the controller, of brokers, and of requests and responses."""

    @step_invariant
    def expired_sessions_are_fenced(self, before: Controller, after: Controller, step: Step) -> bool:
        """A broker with an expired session leaves the ISR, unless it is the last member, and is not leader any more.

        The next leader is an unfenced member of the ISR, or there is none. The recovery state stays, since no leader
        has recovered. KIP-704, Topic Partition Leader; KIP-631, Fenced Replicas.
        """
        gone = after.fenced - before.fenced
        if step.spends != ("fences",):
            return not gone
        old, new = before.partition, after.partition
        left = old.isr - gone or old.isr
        leader = next(iter(ordered(left - after.fenced)), Nil.NO_LEADER) if old.leader in gone else old.leader
        kept = (after.fenced - gone, new.isr, new.recovery) == (before.fenced, left, old.recovery)
        return len(gone) == 1 and kept and new.leader == leader

    @step_invariant
    def brokers_come_back_as_they_left(self, before: Controller, after: Controller, step: Step) -> bool:
        """An unfenced broker in the ISR leads a partition without a leader; otherwise nothing changes.

        RECOVERING stays: only the leader can report its recovery. KIP-704, Topic Partition Leader.
        """
        back = before.fenced - after.fenced
        if step.spends or step.consumes:
            return not back
        old, new = before.partition, after.partition
        leader = next(iter(back), None) if old.leader is Nil.NO_LEADER and back <= old.isr else old.leader
        return len(back) == 1 and (new.leader, new.isr, new.recovery) == (leader, old.isr, old.recovery)

    @step_invariant
    def unclean_leaders_are_alone_and_recover(self, before: Controller, after: Controller, step: Step) -> bool:
        """A leader outside the ISR is elected only if the whole ISR is fenced; the ISR is then the leader, RECOVERING.

        KIP-704, Proposed Changes ("the ISR size is 1 and the leader recovery state field will be RECOVERING");
        Compatibility, for a controller without the field.
        """
        old, new = before.partition, after.partition
        if step.spends != ("unclean_elections",):
            return new.leader is Nil.NO_LEADER or new.leader in self._safe_leaders(before) | {old.leader}
        needed = old.leader is Nil.NO_LEADER and old.isr <= before.fenced
        recovery = RECOVERING if self.controller_recovers else RECOVERED
        chosen = new.leader in self.brokers - before.fenced and new.isr == {new.leader}
        return needed and chosen and new.recovery is recovery and after.fenced == before.fenced

    @step_invariant
    def new_controllers_know_and_tell(self, before: Controller, after: Controller, step: Step) -> bool:
        """A new ZooKeeper controller has the next epoch and the same partition; otherwise the epoch stays.

        KIP-704, ZooKeeper Controller ("use ZooKeeper to persist the decision").
        """
        changed = step.spends == ("controller_changes",)
        if changed:
            return self.mode is Mode.ZOOKEEPER and after == before.but(epoch=before.epoch + 1)
        return after.epoch == before.epoch

    @step_invariant
    def decisions_are_persisted(self, before: Controller, after: Controller, step: Step, shared: Shared) -> bool:
        """Each change raises the partition epoch, each election the leader epoch, and each is a metadata record.

        The record holds the changed fields alone. KIP-704, KRaft Controller, PartitionRecord ("an epoch that gets
        incremented each time we change anything"), PartitionChangeRecord. Elections update the history.
        """
        old, new = before.partition, after.partition
        elects = new.leader != old.leader
        changed = new.but(leader_epoch=0, partition_epoch=0) != old.but(leader_epoch=0, partition_epoch=0)
        expected = self._history_due(before, new, shared) if elects else {}
        if changed and self.mode is Mode.KRAFT:
            expected["metadata"] = (*shared.metadata, partition_change_between(old, new))
        puts = {name: value for name, value in step.puts if not (name == "unrecovered" and step.consumes)}
        epochs = (new.leader_epoch - old.leader_epoch, new.partition_epoch - old.partition_epoch)
        return puts == expected and epochs == (elects, changed) and not step.writes

    def _safe_leaders(self, before: Controller) -> frozenset[ModelValue]:
        """Return the brokers whose election is clean."""
        return before.partition.isr

    def _history_due(self, before: Controller, new: Partition, shared: Shared) -> dict[str, Any]:
        old = before.partition
        history: dict[str, Any] = {} if new.leader is Nil.NO_LEADER else {"last_leader": new.leader}
        unclean = new.leader in self.brokers - self._safe_leaders(before)
        if unclean:
            history["unclean_epoch"] = new.leader_epoch
        if self.controller_recovers and (unclean or old.leader_epoch in shared.unrecovered):
            history["unrecovered"] = shared.unrecovered | {new.leader_epoch}
        return history

    @step_invariant
    def zookeeper_brokers_are_told(self, before: Controller, after: Controller, step: Step) -> bool:
        """LeaderAndIsr reports an election, or a new controller, to every unfenced broker, with the current state.

        It also goes to an unfenced broker, and to the followers once the leader has recovered. Version 6 has the
        recovery state. KIP-704, ZooKeeper Controller, Topic Partition Follower, LeaderAndIsr RPC.
        """
        old, new = before.partition, after.partition
        told = before.fenced - after.fenced
        if new.recovery is not old.recovery:
            told |= self.brokers - after.fenced - {new.leader}
        if new.leader_epoch > old.leader_epoch or after.epoch > before.epoch:
            told = self.brokers - after.fenced
        version, recovery = (6, new.recovery) if self.controller_recovers else (5, Nil.ABSENT)
        state = (new.leader, new.leader_epoch, new.partition_epoch, new.isr)
        requests = [LeaderAndIsrRequest(version, after.epoch, *state, recovery, broker) for broker in told]
        sent = [message for message in step.sent if not isinstance(message, AlterPartitionResponse)]
        return Counter(sent) == Counter(requests if self.mode is Mode.ZOOKEEPER else [])

    @step_invariant
    def alter_partition_is_answered(
        self, before: Controller, after: Controller, message: AlterPartitionRequest, step: Step, shared: Shared
    ) -> bool:
        """A valid AlterPartition is applied and answered with the new state; an invalid request gets its error.

        KIP-704, AlterPartition RPC, Request Handling ("assume that the leader has recovered", version 0) and Response
        Schema; KIP-497 and KIP-841 for the other errors.
        """
        error = self._alter_partition_error(before, message)
        recovery = RECOVERED if message.version == 0 else message.recovery
        wanted = before.partition.but(isr=message.isr, recovery=recovery)
        if error is not Error.NONE:
            wanted = before.partition
        wanted = wanted.but(partition_epoch=wanted.partition_epoch + (wanted != before.partition))
        asked = (message.leader_epoch, message.partition_epoch, message.attempt)
        state = (wanted.leader_epoch, wanted.partition_epoch, wanted.isr)
        told = wanted.recovery if message.version == 1 else Nil.ABSENT
        answer = AlterPartitionResponse(error, asked, *state, told, message.source)
        done = error is Error.NONE and (message.version == 0 or message.leader_epoch in shared.finished)
        history = dict(step.puts).get("unrecovered") == (shared.unrecovered - {message.leader_epoch} if done else None)
        answers = [one for one in step.sent if isinstance(one, AlterPartitionResponse)]
        return step.consumes and history and (after, answers) == (before.but(partition=wanted), [answer])

    def _alter_partition_error(self, me: Controller, request: AlterPartitionRequest) -> Error:
        """Return the error of the first check that a request fails."""
        now = me.partition
        recovery = RECOVERED if request.version == 0 else request.recovery
        made = self.mode is Mode.ZOOKEEPER and (request.isr, recovery) == (now.isr, now.recovery)
        recovering = request.recovery is RECOVERING
        reasons = [
            (Error.FENCED_LEADER_EPOCH, now.leader_epoch > request.leader_epoch),
            (Error.INVALID_UPDATE_VERSION, request.partition_epoch != now.partition_epoch and not made),
            (Error.INVALID_REQUEST, request.source not in request.isr),
            (Error.INVALID_REQUEST, recovering and (len(request.isr) > 1 or now.recovery is RECOVERED)),
            (Error.INELIGIBLE_REPLICA, bool(request.isr & me.fenced)),
        ]
        return next((error for error, applies in reasons if applies), Error.NONE)

    @step_invariant
    def metadata_is_applied_in_order(self, before: Broker, after: Broker, step: Step, shared: Shared) -> bool:
        """A running broker applies metadata records in order, and adopts their state. KIP-704, KRaft Controller."""
        if after.running != before.running or after.cursor == before.cursor:
            return True
        partition = partition_in_version_of_broker(
            self, before, expected_partition_from_metadata(shared.metadata[: before.cursor + 1])
        )
        read = before.but(cursor=before.cursor + 1)
        newer = partition.partition_epoch >= before.partition.partition_epoch
        return before.running and is_same_step_up_to_order(
            step, step_to_adopt_partition(read, partition, shared) if newer else become(read)
        )

    @step_invariant
    def leader_and_isr_is_believed(
        self, before: Broker, message: LeaderAndIsrRequest, step: Step, shared: Shared
    ) -> bool:
        """A running broker adopts a LeaderAndIsr state, unless it knows a newer controller or a newer state.

        KIP-704, Topic Partition Follower ("will not ignore request that have the same leader epoch"); LeaderAndIsr RPC.
        """
        state = (message.leader, message.leader_epoch, message.partition_epoch, message.isr)
        recovery = RECOVERED if message.version < 6 else message.recovery
        assert isinstance(recovery, RecoveryState)
        if not before.running:
            return step == consume(before)
        old = message.controller_epoch < before.controller_epoch
        if old or message.partition_epoch < before.partition.partition_epoch:
            return step == consume(before)
        heard = before.but(controller_epoch=message.controller_epoch)
        partition = partition_in_version_of_broker(self, before, Partition(*state, recovery))
        return is_same_step_up_to_order(step, step_to_adopt_partition(heard, partition, shared).but(consumes=True))

    @step_invariant
    def leaders_recover_once_told(self, before: Broker, after: Broker, step: Step, shared: Shared) -> bool:
        """Only a leader whose partition is RECOVERING recovers it. KIP-704, LeaderAndIsr RPC, Request Handling."""
        recovers = after.recovered and not before.recovered
        if not recovers:
            return "finished" not in dict(step.puts)
        told = before.running and before.partition.leader == before.id and before.partition.recovery is RECOVERING
        epochs = shared.finished | {before.partition.leader_epoch}
        return told and step == become(before.but(recovered=True)).put(finished=epochs)

    @step_invariant
    def leaders_propose_what_they_may(self, before: Broker, after: Broker, step: Step) -> bool:
        """A leader without a pending request reports its recovery, or proposes a change of one follower in the ISR.

        No follower joins before the leader has recovered, or without all committed values. KIP-704, Topic Partition
        Leader, Compatibility (the version); KIP-497. An invalid request is one that the KIP names. A lost request is
        sent again unchanged, as another attempt (Kafka, AlterPartitionManager).
        """
        requests = [message for message in step.sent if isinstance(message, AlterPartitionRequest)]
        if not requests:
            return after.pending in (before.pending, Nil.NIL)
        request, known, asked = requests[0], before.partition, before.pending
        if isinstance(asked, AlterPartitionRequest):
            again = asked.but(attempt=asked.attempt + 1)
            return step == become(before.but(pending=again)).send(again).spend("resends")
        version = 0 if before.id in self.old_brokers | self.old_ibp else 1
        recovery = request.recovery if version else Nil.ABSENT
        epochs = known.leader_epoch, known.partition_epoch
        expected = AlterPartitionRequest(version, *epochs, request.isr, recovery, 1, before.id)
        leads, bound = known.leader == before.id and before.running, self._bound_of(before, request)
        sends = become(before.but(pending=expected)).send(expected)
        return leads and bound is not None and step == (sends.spend(bound) if bound else sends)

    def _bound_of(self, leader: Broker, request: AlterPartitionRequest) -> str | None:
        """Return the bound that a leader's AlterPartition uses up, "" for none; None if it may not be sent."""
        recovering, isr = leader.partition.recovery is RECOVERING, request.isr
        if request.version == 0 or request.recovery is RECOVERED:
            if recovering:
                return "" if leader.recovered and isr == {leader.id} else None
            return "isr_changes" if self._changes_by_one(leader, isr) else None
        is_invalid = leader.id in isr and len(isr) == 1 + recovering
        return "invalid_requests" if is_invalid and request.recovery is RECOVERING else None

    def _changes_by_one(self, leader: Broker, isr: frozenset[ModelValue]) -> bool:
        """Whether an ISR removes one in-sync follower, or adds one that has caught up."""
        now = leader.partition.isr
        left, joined = now - isr, isr - now
        if joined:
            held = [leader.ends.get(member, 0) for member in now - {leader.id}]
            needed = max(leader.epoch_start, min([len(leader.log), *held]))
            caught_up = all(leader.ends.get(one, -1) >= needed for one in joined)
            return caught_up and joined <= self.brokers and (len(joined), len(left)) == (1, 0)
        return len(left) == 1 and leader.id not in left

    @invariant
    def requests_are_under_way_once(self, me: Broker, message: AlterPartitionRequest) -> bool:
        """A leader resends a request only if the last copy is lost. Kafka, AlterPartitionManager."""
        asked = me.pending
        if message.source != me.id or not isinstance(asked, AlterPartitionRequest):
            return True
        return message.partition_epoch != asked.partition_epoch or message.attempt == asked.attempt

    @step_invariant
    def leaders_learn_from_their_answers(
        self, before: Broker, message: AlterPartitionResponse, step: Step, shared: Shared
    ) -> bool:
        """A leader adopts the state in the response to its pending request; other responses change nothing.

        After an error it keeps waiting, unless the error implies that the request was not applied. KIP-704,
        AlterPartition RPC, Response Schema; KIP-497; KIP-841, INELIGIBLE_REPLICA.
        """
        asked, leads = before.pending, before.running and before.partition.leader == before.id
        awaited = isinstance(asked, AlterPartitionRequest) and message.asked == (
            asked.leader_epoch,
            asked.partition_epoch,
            asked.attempt,
        )
        if not leads or not awaited or message.error not in (Error.NONE, Error.INELIGIBLE_REPLICA):
            return step == consume(before)
        if message.error is Error.INELIGIBLE_REPLICA:
            return step == consume(before.but(pending=Nil.NIL))
        recovery = RECOVERED if message.recovery is Nil.ABSENT else message.recovery
        known = before.partition.but(partition_epoch=message.partition_epoch, isr=message.isr, recovery=recovery)
        return is_same_step_up_to_order(
            step, step_to_acknowledge_values(before.but(partition=known, pending=Nil.NIL), shared).but(consumes=True)
        )

    @step_invariant
    def brokers_lose_all_but_their_logs(self, before: Broker, after: Broker, step: Step, shared: Shared) -> bool:
        """A crashed broker keeps its log alone; a started one knows the metadata log in KRaft, and no state otherwise.

        It starts once its session has expired, so it never leads at once. KIP-704, KRaft Controller; Kafka registers a
        broker id again only after the broker of that id is fenced.
        """
        if before.running == after.running:
            return "crashes" not in step.spends and (before.running or after == before)
        if before.running:
            return step == become(Broker(before.id, running=False, log=before.log)).spend("crashes")
        partition = partition_in_version_of_broker(self, before, expected_partition_from_metadata(shared.metadata))
        started = become(Broker(before.id, cursor=len(shared.metadata), partition=partition, log=before.log))
        return step == started and partition.leader != before.id

    # Clients

    @step_invariant
    def clients_ask_again_what_was_refused(self, before: Client, after: Client, step: Step, shared: Shared) -> bool:
        """A client has one request at a time; once rejected, it sends the same again to some broker, or gives up.

        KIP-704, Clients ("the clients will retry this error", "within the retry window").
        """
        if step.consumes:
            return True
        if not step.sent:
            return before.refused and step == become(Client())
        api, asked = after.waiting, step.sent[0]
        if not self._may_ask(before, api) or not isinstance(api, Api) or not isinstance(asked, ClientRequest):
            return False
        value = shared.values + 1 if api is Api.PRODUCE else 0
        sends = become(Client(waiting=api)).send(ClientRequest(api, value, asked.dest)).spend("requests")
        return asked.dest in self.brokers and step == (sends.put(values=value) if value else sends)

    def _may_ask(self, me: Client, api: Api | Nil) -> bool:
        """Whether a client may send a request: it has none pending, or repeats a rejected one."""
        return api in self.apis if me.waiting is Nil.NIL else me.refused and api is me.waiting

    @step_invariant
    def clients_take_their_answers(self, before: Client, message: ClientResponse, step: Step) -> bool:
        """A response without an error ends a client's request; after an error it may try again. KIP-704, Clients."""
        return step == consume(Client() if message.error is Error.NONE else before.but(refused=True))

    @step_invariant
    def clients_are_served_by_who_may(self, before: Broker, message: ClientRequest, step: Step, shared: Shared) -> bool:
        """The leader serves clients, and a follower FETCH, unless the leader is recovering; every other request is
        rejected.

        KIP-704, Topic Partition Leader ("it will return a NOT_LEADER_OR_FOLLOWER error") and Topic Partition Follower;
        KIP-392. A produced value is acknowledged once every in-sync replica holds it.
        """
        known = before.partition
        if not before.running:
            return True
        follower = known.leader not in (before.id, Nil.NO_LEADER)
        may = known.leader == before.id or (follower and message.api is Api.FETCH)
        served = may and known.recovery is not RECOVERING
        error = Error.NONE if served else Error.NOT_LEADER_OR_FOLLOWER
        answer = ClientResponse(message.api, message.value, error, known.leader_epoch, before.id)
        if not served:
            return step == consume(before).reply(answer)
        noted = shared.served if before.id in self.old_brokers else shared.served | {known.leader_epoch}
        if message.api is not Api.PRODUCE:
            return step == consume(before).put(served=noted).reply(answer)
        log = (*before.log, Entry(known.leader_epoch, message.value))
        appended = before.but(log=log, waiting=before.waiting | {len(log)})
        return is_same_step_up_to_order(
            step, step_to_acknowledge_values(appended, shared).put(served=noted).but(consumes=True)
        )

    @step_invariant
    def connections_break(
        self,
        before: Broker,
        message: LeaderAndIsrRequest
        | AlterPartitionResponse
        | EpochEndRequest
        | EpochEndResponse
        | ReplicaFetch
        | ReplicaFetchResponse
        | ClientRequest,
        step: Step,
    ) -> bool:
        """A request to a stopped broker is answered DISCONNECTED, and a running broker never answers so.

        KIP-704, Clients, for the reaction of clients.
        """
        if before.running:
            return all(getattr(one, "error", Error.NONE) is not Error.DISCONNECTED for one in step.sent)
        lost = Error.DISCONNECTED
        match message:
            case ClientRequest():
                return step == consume(before).reply(ClientResponse(message.api, message.value, lost, -1, before.id))
            case ReplicaFetch():
                refused = ReplicaFetchResponse(lost, message.leader_epoch, message.offset, (), message.source)
                return step == consume(before).reply(refused)
            case EpochEndRequest():
                return step == consume(before).reply(
                    EpochEndResponse(lost, message.leader_epoch, -1, 0, message.source)
                )
        return step == consume(before)

    # Followers

    @step_invariant
    def followers_ask_their_leader(self, before: Broker, after: Broker, step: Step) -> bool:
        """A follower requests the end of its last epoch, and after truncation fetches from its log end.

        It has one request at a time, to the leader of its epoch. KIP-101, KIP-279. An empty log needs no truncation.
        """
        requests = [message for message in step.sent if isinstance(message, EpochEndRequest | ReplicaFetch)]
        if not requests:
            return before.fetching if after.fetching else _skips_truncation_only_if_empty(before, after, step)
        epoch, leader, dest = before.partition.leader_epoch, before.partition.leader, requests[0].dest
        if before.truncated:
            request: EpochEndRequest | ReplicaFetch = ReplicaFetch(epoch, len(before.log), before.id, dest)
        elif before.log:
            request = EpochEndRequest(epoch, before.log[-1].epoch, before.id, dest)
        else:
            return False
        follows = before.running and leader not in (before.id, Nil.NO_LEADER) and not before.fetching
        sends = become(before.but(fetching=True)).send(request).spend("fetches")
        return follows and dest == leader and step == sends

    @step_invariant
    def epoch_ends_are_answered(self, before: Broker, message: EpochEndRequest, step: Step) -> bool:
        """The leader answers with the largest epoch not above the requested one, and its end offset, or an error.

        KIP-279; KIP-704, Topic Partition Leader (OFFSET_FOR_LEADER_EPOCH); KIP-320.
        """
        if not before.running:
            return True
        error = _error_in_leader_epoch(before, message.leader_epoch)
        upto = [entry.epoch for entry in before.log if entry.epoch <= message.asked_epoch]
        served = error is Error.NONE and upto
        epoch, end = (max(upto), len(upto)) if served else (-1, 0)
        answer = EpochEndResponse(error, message.leader_epoch, epoch, end, message.source)
        return step == consume(before).reply(answer)

    @step_invariant
    def followers_truncate_as_told(self, before: Broker, message: EpochEndResponse, step: Step) -> bool:
        """A follower truncates its log to the leader's end of the largest common epoch.

        If the leader lacks its last epoch, it asks again; after an error it keeps its log. KIP-279; KIP-704, Clients
        ("the replicas will handle this error by backing off").
        """
        if not _awaits_leader_in_epoch(before, message.leader_epoch):
            return step == consume(before)
        if message.error is not Error.NONE or before.truncated:
            return step == consume(before.but(fetching=False))
        own = [entry for entry in before.log if entry.epoch <= message.epoch]
        kept = tuple(own[: message.end_offset])
        last = before.log[-1].epoch if before.log else -1
        known = message.epoch == last or kept == ()
        return step == consume(before.but(log=kept, truncated=known, fetching=False))

    @step_invariant
    def fetches_are_answered(self, before: Broker, message: ReplicaFetch, step: Step, shared: Shared) -> bool:
        """The leader records a follower's fetch offset, and answers with the later entries, or an error.

        KIP-704, Topic Partition Leader (FETCH): not while it is recovering. KIP-320, the epochs; KIP-497, commits.
        """
        if not before.running:
            return True
        error = _error_in_leader_epoch(before, message.leader_epoch)
        entries = before.log[message.offset :] if error is Error.NONE else ()
        answer = ReplicaFetchResponse(error, message.leader_epoch, message.offset, entries, message.source)
        noted = before.but(ends=before.ends.put(message.source, message.offset))
        if error is Error.NONE and noted != before:
            return is_same_step_up_to_order(step, step_to_acknowledge_values(noted, shared))
        return (error is not Error.NONE or entries != ()) and step == consume(before).reply(answer)

    @step_invariant
    def followers_append_what_they_asked_for(self, before: Broker, message: ReplicaFetchResponse, step: Step) -> bool:
        """A follower appends exactly the entries after its log end; after an error it retries. KIP-704, Clients."""
        if not _awaits_leader_in_epoch(before, message.leader_epoch):
            return step == consume(before)
        fits = message.error is Error.NONE and message.offset == len(before.log)
        log = before.log + message.entries if fits else before.log
        return step == consume(before.but(fetching=False, log=log))


def _error_in_leader_epoch(broker: Broker, leader_epoch: int) -> Error:
    """Return the error for a replica's request in a leader epoch (KIP-320; KIP-704); NONE if it is served."""
    known = broker.partition
    if known.leader_epoch != leader_epoch:
        return Error.UNKNOWN_LEADER_EPOCH if known.leader_epoch < leader_epoch else Error.FENCED_LEADER_EPOCH
    serves = known.leader == broker.id and known.recovery is not RECOVERING
    return Error.NONE if serves else Error.NOT_LEADER_OR_FOLLOWER


def _skips_truncation_only_if_empty(before: Broker, after: Broker, step: Step) -> bool:
    """Return whether a broker skips truncation only if its log is empty."""
    if after.truncated <= before.truncated or step.consumes:
        return True
    return before.log == () and step == become(before.but(truncated=True))


def _awaits_leader_in_epoch(broker: Broker, leader_epoch: int) -> bool:
    """Return whether a broker is a running follower in `leader_epoch` with a request to its leader pending."""
    follows = broker.running and broker.partition.leader not in (broker.id, Nil.NO_LEADER)
    return follows and broker.fetching and broker.partition.leader_epoch == leader_epoch

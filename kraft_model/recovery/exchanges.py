"""Contracts of `recovery` about requests and answers: of clients, of followers, and of who is down.

Each names its source. They use no rule that an action uses, so that a slip in such a rule does not change them too.
"""

from __future__ import annotations

from kraftcheck.kraft_model.recovery.base import RecoveryBase
from kraftcheck.kraft_model.recovery.contracts import answers, same
from kraftcheck.kraft_model.recovery.records import (
    RECOVERING,
    AlterPartitionResponse,
    Api,
    Broker,
    Client,
    ClientRequest,
    ClientResponse,
    Entry,
    EpochEndRequest,
    EpochEndResponse,
    Error,
    LeaderAndIsrRequest,
    Nil,
    ReplicaFetch,
    ReplicaFetchResponse,
    Shared,
)
from kraftcheck.spec import Step, become, consume, step_invariant


class ExchangeContracts(RecoveryBase):
    """Step properties of who asks and who answers."""

    # Clients

    @step_invariant
    def clients_ask_again_what_was_refused(self, before: Client, after: Client, step: Step, shared: Shared) -> bool:
        """A client asks one thing at a time; refused, it asks the same again somewhere, or gives up after a while.

        KIP-704, Clients ("the clients will retry this error", "within the retry window").
        """
        if step.consumes:
            return True
        if not step.sent:
            return before.refused and step == become(Client())
        free = before.waiting is Nil.NIL and after.waiting in self.apis
        requests = [message for message in step.sent if isinstance(message, ClientRequest)]
        value = shared.values + 1 if after.waiting is Api.PRODUCE else 0
        asked = [one for one in requests if one.dest in self.brokers and (one.api, one.value) == (after.waiting, value)]
        sends = become(Client(waiting=after.waiting)).send(*asked[:1]).spend("requests")
        expected = sends.put(values=value) if after.waiting is Api.PRODUCE else sends
        return (free or (before.refused and after.waiting is before.waiting)) and bool(asked) and step == expected

    @step_invariant
    def clients_take_their_answers(self, before: Client, message: ClientResponse, step: Step) -> bool:
        """A client that is served is done; one that gets an error may try again. KIP-704, Clients."""
        return step == consume(Client() if message.error is Error.NONE else before.but(refused=True))

    @step_invariant
    def clients_are_served_by_who_may(self, before: Broker, message: ClientRequest, step: Step, shared: Shared) -> bool:
        """The leader serves clients, and a follower FETCH, unless the leader is recovering; all else is refused.

        KIP-704, Topic Partition Leader ("it will return a NOT_LEADER_OR_FOLLOWER error") and Topic Partition Follower;
        KIP-392. What is produced is answered when every replica in sync has it.
        """
        known = before.partition
        if not before.running:
            return True
        follower = known.leader not in (before.id, Nil.NO_LEADER)
        may = known.leader == before.id or (follower and message.api is Api.FETCH)
        served = may and known.recovery is not RECOVERING
        answer = ClientResponse(
            api=message.api,
            value=message.value,
            error=Error.NONE if served else Error.NOT_LEADER_OR_FOLLOWER,
            leader_epoch=known.leader_epoch,
            source=before.id,
        )
        if not served:
            return step == consume(before).reply(answer)
        noted = shared.served if before.id in self.old_brokers else shared.served | {known.leader_epoch}
        if message.api is not Api.PRODUCE:
            return step == consume(before).put(served=noted).reply(answer)
        log = (*before.log, Entry(known.leader_epoch, message.value))
        appended = before.but(log=log, waiting=before.waiting | {len(log)})
        return same(step, answers(appended, shared).put(served=noted).but(consumes=True))

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
        """Who waits for an answer of a broker that is down notices, and one that runs is not taken for down.

        KIP-704, Clients, for what they then do.
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
        """A follower asks where its last epoch ends, and once it knows that, for what comes after its log.

        One request at a time, to the leader of its epoch. KIP-101, KIP-279. An empty log needs no truncation.
        """
        requests = [message for message in step.sent if isinstance(message, EpochEndRequest | ReplicaFetch)]
        if not requests and not after.fetching:
            empty = after.truncated <= before.truncated or step.consumes
            return empty or (before.log == () and step == become(before.but(truncated=True)))
        if not requests:
            return before.fetching
        known, leader = before.partition, before.partition.leader
        follows = before.running and leader not in (before.id, Nil.NO_LEADER) and not before.fetching
        request: EpochEndRequest | ReplicaFetch = ReplicaFetch(
            known.leader_epoch, len(before.log), before.id, requests[0].dest
        )
        if not before.truncated and before.log:
            request = EpochEndRequest(known.leader_epoch, before.log[-1].epoch, before.id, requests[0].dest)
        fits = follows and requests[0].dest == leader and (before.truncated or before.log != ())
        return fits and step == become(before.but(fetching=True)).send(request).spend("fetches")

    @step_invariant
    def epoch_ends_are_answered(self, before: Broker, message: EpochEndRequest, step: Step) -> bool:
        """The leader answers with the largest epoch that is not above the one asked for, and its end, or an error.

        KIP-279; KIP-704, Topic Partition Leader (OFFSET_FOR_LEADER_EPOCH); KIP-320.
        """
        if not before.running:
            return True
        error = _refusal(before, message.leader_epoch)
        upto = [entry.epoch for entry in before.log if entry.epoch <= message.asked_epoch]
        served = error is Error.NONE and upto
        answer = EpochEndResponse(
            error=error,
            leader_epoch=message.leader_epoch,
            epoch=max(upto) if served else -1,
            end_offset=len(upto) if served else 0,
            dest=message.source,
        )
        return step == consume(before).reply(answer)

    @step_invariant
    def followers_truncate_as_told(self, before: Broker, message: EpochEndResponse, step: Step) -> bool:
        """A follower keeps of its log what the leader has too: up to the leader's end of the largest common epoch.

        Where the leader lacks its last epoch it asks again; where it is refused it keeps its log. KIP-279; KIP-704,
        Clients ("the replicas will handle this error by backing off").
        """
        if not _awaits(before, message.leader_epoch):
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
        """The leader notes how far a follower has fetched, and answers with what it has beyond that, or an error.

        KIP-704, Topic Partition Leader (FETCH): not while it is recovering. KIP-320, the epochs; KIP-497, what is
        committed then.
        """
        if not before.running:
            return True
        error = _refusal(before, message.leader_epoch)
        entries = before.log[message.offset :] if error is Error.NONE else ()
        answer = ReplicaFetchResponse(
            error=error,
            leader_epoch=message.leader_epoch,
            offset=message.offset,
            entries=entries,
            dest=message.source,
        )
        noted = before.but(ends=before.ends.put(message.source, message.offset))
        if error is Error.NONE and noted != before:
            return same(step, answers(noted, shared))
        return (error is not Error.NONE or entries != ()) and step == consume(before).reply(answer)

    @step_invariant
    def followers_append_what_they_asked_for(self, before: Broker, message: ReplicaFetchResponse, step: Step) -> bool:
        """A follower appends what comes after its log, and nothing else; refused, it asks again. KIP-704, Clients."""
        if not _awaits(before, message.leader_epoch):
            return step == consume(before)
        fits = message.error is Error.NONE and message.offset == len(before.log)
        log = before.log + message.entries if fits else before.log
        return step == consume(before.but(fetching=False, log=log))


def _refusal(broker: Broker, leader_epoch: int) -> Error:
    """Return the error for a replica that knows a leader epoch (KIP-320; KIP-704); NONE where it is served."""
    known = broker.partition
    if known.leader_epoch != leader_epoch:
        return Error.UNKNOWN_LEADER_EPOCH if known.leader_epoch < leader_epoch else Error.FENCED_LEADER_EPOCH
    serves = known.leader == broker.id and known.recovery is not RECOVERING
    return Error.NONE if serves else Error.NOT_LEADER_OR_FOLLOWER


def _awaits(broker: Broker, leader_epoch: int) -> bool:
    """Return whether a broker that runs waits, as follower in an epoch, for an answer of its leader."""
    follows = broker.running and broker.partition.leader not in (broker.id, Nil.NO_LEADER)
    return follows and broker.fetching and broker.partition.leader_epoch == leader_epoch

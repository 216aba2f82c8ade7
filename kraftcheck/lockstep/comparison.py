"""What differs between a state of the model and Kafka's."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Any, NamedTuple

from kraftcheck.kraft_model.quorum.base import ADMIN
from kraftcheck.kraft_model.quorum.log import epoch_start, matches
from kraftcheck.kraft_model.quorum.records import ENDED, Key, Mode, Nil, Voter
from kraftcheck.kraft_model.quorum.state import Admin, Change, Replica, Term
from kraftcheck.kraft_model.quorum.transitions import failed
from kraftcheck.lockstep.cluster import KafkaCluster, KafkaReplica, PendingChange
from kraftcheck.lockstep.messages import canonical
from kraftcheck.spec import Map, ModelValue, Record, State, ordered

ID = attrgetter("id")
STANDS = (Mode.PROSPECTIVE, Mode.CANDIDATE)
WAITS = (Mode.FOLLOWER, Mode.UNATTACHED)
VOTE_IS_HIDDEN = (Mode.LEADER, Mode.RESIGNED)  # Kafka's state does not show whom it voted for; nobody asks any more


class FieldDifference(NamedTuple):
    """One thing that differs."""

    where: ModelValue | None  # the replica, or None for messages
    field: str  # a field of the model's `Replica`, or the name of a message's type
    model: Any  # what the model and Kafka have; None for a message that one of them has not
    kafka: Any


def messages_of(state: State) -> set[Record]:
    """Return the messages under way in a state of the model."""
    return {shown for shown, _ in known_messages(state)}


def known_messages(state: State) -> Iterator[tuple[Record, Record]]:
    """Yield the messages under way in a state of the model, each as Kafka shows it, and with what the model knows."""
    return ((canonical(message), message) for inbox in state.inboxes.values() for message in inbox)


def differences(state: State, cluster: KafkaCluster) -> Iterator[FieldDifference]:
    """Yield what differs between a state of the model and Kafka's, replicas first."""
    for host, replica in state.replicas.items():
        if not isinstance(replica, Admin):
            yield from of_replica(replica, cluster.replicas[host])
    ours, theirs = messages_of(state), set(cluster.under_way.values())
    if ours != theirs:
        for message in ours - theirs:
            yield FieldDifference(None, type(message).__name__, message, None)
        for message in theirs - ours:
            yield FieldDifference(None, type(message).__name__, None, message)


def of_replica(model: Replica, kafka: KafkaReplica) -> Iterator[FieldDifference]:
    """Yield what differs between a replica of the model and Kafka's."""
    has_ended = model.mode in ENDED, kafka.mode is Mode.DOWN
    if any(has_ended):  # nothing else of it matters any more
        if not all(has_ended):
            yield FieldDifference(model.id, "mode", model.mode, kafka.mode)
        return
    for field, ours, theirs in _compared(model, kafka):
        if ours != theirs:
            yield FieldDifference(model.id, field, ours, theirs)


def _compared(model: Replica, kafka: KafkaReplica) -> Iterator[tuple[str, Any, Any]]:
    """Yield the fields that are compared of a replica in its mode, with the model's value and Kafka's."""
    for field in ("mode", "epoch", "leader", "leader_endpoint", "log", "start", "voters", "version"):
        yield field, getattr(model, field), getattr(kafka, field)
    if model.mode not in VOTE_IS_HIDDEN:
        yield "voted", model.voted, kafka.voted
    if model.mode in STANDS:
        yield "granted", frozenset(map(ID, model.granted)), kafka.granted
        yield "rejected", frozenset(map(ID, model.rejected)), kafka.rejected
    if model.mode in WAITS:
        yield "pending", () if model.pending is Nil.NIL else (model.pending,), kafka.pending
    if model.mode is Mode.LEADER:
        yield from _compared_of_leader(model, kafka)
    else:
        yield "high_watermark", model.high_watermark, kafka.high_watermark
    if model.mode is Mode.FOLLOWER:
        yield "fetched", model.fetched, kafka.fetched
        yield "updating", model.updating, kafka.due
        yield "updated", model.updated, kafka.updated if model.version == 0 else model.updated


def _compared_of_leader(model: Replica, kafka: KafkaReplica) -> Iterator[tuple[str, Any, Any]]:
    """Yield the fields that are compared of a leader only."""
    is_known = model.high_watermark > epoch_start(model.log, model.epoch)
    yield "high_watermark", model.high_watermark if is_known else 0, kafka.high_watermark
    yield "offsets", model.offsets, Map({key: end for key, end in kafka.offsets.items() if not matches(key, model.key)})
    yield "change", shown(model.change), kafka.change
    if model.version == 0:
        yield "heard", model.heard, frozenset(voter for voter in kafka.heard if voter.key.id != model.id)


def shown(change: Change | Nil) -> PendingChange | Nil:
    """Return what Kafka shows of a voter change under way."""
    return Nil.NIL if isinstance(change, Nil) else PendingChange(change.operation, change.voter, change.offset)


def _change(was: Replica, kafka: KafkaReplica) -> Change | Nil:
    """Return the voter change under way as the model has it: Kafka does not show who is to be answered."""
    found = kafka.change
    if isinstance(found, Nil) or found == shown(was.change):
        return Nil.NIL if isinstance(found, Nil) else was.change
    client, asked = (ADMIN, Nil.NIL) if isinstance(was.change, Nil) else (was.change.client, was.change.asked)
    if isinstance(was.change, Nil):  # the model has refused it
        moved = {voter.key for voter in was.voters ^ kafka.voters}
        asked = found.voter.key if isinstance(found.voter, Voter) else next(iter(ordered(moved)), Nil.NIL)
    return Change(found.operation, found.voter, found.offset > 0, found.offset, client, asked)


def without(state: State, message: Record) -> State:
    """Return a state in which a message is not under way."""
    inbox = state.inboxes.get(message.dest, Map())  # type: ignore[attr-defined]
    kept = Map((found, copies) for found, copies in inbox.items() if canonical(found) != message)
    dest = message.dest  # type: ignore[attr-defined]
    return state.but(inboxes=state.inboxes.put(dest, kept) if kept else state.inboxes.without(dest))


def adopted(guess: State, cluster: KafkaCluster) -> State:
    """Return Kafka's state as a state of the model."""
    replicas = dict(guess.replicas.items())
    committed, elected = guess.shared.committed, guess.shared.elected
    for host, kafka in cluster.replicas.items():
        was: Replica = guess.replicas[host]
        if was.mode in ENDED:
            continue
        replicas[host] = failed(was) if kafka.mode is Mode.DOWN else _adopted_replica(was, kafka)
        if kafka.mode is Mode.LEADER:
            elected |= {Term(kafka.epoch, host)}
            if kafka.high_watermark > len(committed):
                committed = kafka.log[: kafka.high_watermark]
    inboxes: dict[ModelValue, dict[Record, int]] = {}
    known_of = dict(known_messages(guess))
    for message in cluster.under_way.values():
        inboxes.setdefault(message.dest, {})[known_of.get(message, message)] = 1  # type: ignore[attr-defined]
    return guess.but(
        replicas=Map(replicas),
        inboxes=Map({dest: Map(inbox) for dest, inbox in inboxes.items()}),
        shared=guess.shared.but(committed=committed, elected=elected),
    )


def _adopted_replica(was: Replica, kafka: KafkaReplica) -> Replica:
    """Return one of Kafka's replicas as the model has it; what Kafka does not show stays as it was."""
    high = max(0, kafka.high_watermark)  # below 0 where no batch ends right there
    same = ("mode", "epoch", "leader", "leader_endpoint", "log", "voters", "version", "fetched", "updated")
    return was.but(
        **{field: getattr(kafka, field) for field in same},
        **_adopted_votes(was, kafka),
        start=max(0, kafka.start),
        high_watermark=was.high_watermark if kafka.mode is Mode.LEADER and not high else high,
        offsets=Map({key: max(0, end) for key, end in kafka.offsets.items() if not matches(key, was.key)}),
        pending=kafka.pending[0] if kafka.mode in WAITS and kafka.pending else Nil.NIL,
        change=_change(was, kafka),
        heard=frozenset(voter for voter in kafka.heard if voter.key.id != was.id),
        updating=kafka.due,
    )


def _adopted_votes(was: Replica, kafka: KafkaReplica) -> dict[str, Any]:
    """Return the votes that a replica gave and got, as fields of the model."""
    keys = {voter.key.id: voter.key for voter in kafka.voters}
    granted, rejected = (frozenset(keys[v] for v in votes if v in keys) for votes in (kafka.granted, kafka.rejected))
    is_same_epoch = was.epoch == kafka.epoch
    voted = was.voted if kafka.mode in VOTE_IS_HIDDEN and is_same_epoch else kafka.voted
    ballot: frozenset[Key] = was.ballot if is_same_epoch else frozenset()
    if isinstance(voted, Key) and voted.directory > 0:
        ballot |= {voted}
    return {"voted": voted, "ballot": ballot, "granted": granted, "rejected": rejected}

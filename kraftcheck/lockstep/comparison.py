"""What differs between a state of the model and Kafka's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kraftcheck.kraft_model.quorum.base import ADMIN
from kraftcheck.kraft_model.quorum.log import epoch_start, matches
from kraftcheck.kraft_model.quorum.records import ENDED, Key, Mode, Nil, Voter
from kraftcheck.kraft_model.quorum.state import Admin, Change, Replica, Term
from kraftcheck.kraft_model.quorum.transitions import failed
from kraftcheck.lockstep.cluster import KafkaCluster, KafkaReplica, PendingChange
from kraftcheck.lockstep.messages import canonical
from kraftcheck.spec import Map, ModelValue, Record, State, ordered

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
    if model.mode in ENDED or kafka.mode is Mode.DOWN:  # nothing of it matters any more
        if not (model.mode in ENDED and kafka.mode is Mode.DOWN):
            yield FieldDifference(model.id, "mode", model.mode, kafka.mode)
        return
    for field in ("mode", "epoch", "leader", "leader_endpoint", "log", "start", "voters", "version"):
        if getattr(model, field) != getattr(kafka, field):
            yield FieldDifference(model.id, field, getattr(model, field), getattr(kafka, field))
    if model.mode not in VOTE_IS_HIDDEN and model.voted != kafka.voted:
        yield FieldDifference(model.id, "voted", model.voted, kafka.voted)
    high = model.high_watermark
    if model.mode is Mode.LEADER and high <= epoch_start(model.log, model.epoch):
        high = 0
    if high != kafka.high_watermark:
        yield FieldDifference(model.id, "high_watermark", high, kafka.high_watermark)
    if model.mode in STANDS:
        for field in ("granted", "rejected"):
            voters = frozenset(key.id for key in getattr(model, field))
            if voters != getattr(kafka, field):
                yield FieldDifference(model.id, field, voters, getattr(kafka, field))
    if model.mode is Mode.FOLLOWER and model.fetched != kafka.fetched:
        yield FieldDifference(model.id, "fetched", model.fetched, kafka.fetched)
    if model.mode in WAITS and ((model.pending,) if model.pending is not Nil.NIL else ()) != kafka.pending:
        yield FieldDifference(model.id, "pending", model.pending, kafka.pending)
    if model.mode is Mode.FOLLOWER and model.updating != kafka.due:
        yield FieldDifference(model.id, "updating", model.updating, kafka.due)
    if model.mode is Mode.FOLLOWER and model.version == 0 and model.updated != kafka.updated:
        yield FieldDifference(model.id, "updated", model.updated, kafka.updated)
    if model.mode is Mode.LEADER:
        yield from _of_leader(model, kafka)


def _of_leader(model: Replica, kafka: KafkaReplica) -> Iterator[FieldDifference]:
    """Yield what differs between what a leader knows in the model and in Kafka."""
    offsets = {key: end for key, end in kafka.offsets.items() if not matches(key, model.key)}
    if dict(model.offsets.items()) != offsets:
        yield FieldDifference(model.id, "offsets", model.offsets, Map(offsets))
    if shown(model.change) != kafka.change:
        yield FieldDifference(model.id, "change", shown(model.change), kafka.change)
    if model.version == 0:
        heard = frozenset(voter for voter in kafka.heard if voter.key.id != model.id)
        if model.heard != heard:
            yield FieldDifference(model.id, "heard", model.heard, heard)


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
        if kafka.mode is Mode.DOWN:
            replicas[host] = failed(was)
            continue
        own = [voter.key for voter in kafka.voters]
        keys = {key.id: key for key in own}
        voted = was.voted if kafka.mode in VOTE_IS_HIDDEN and was.epoch == kafka.epoch else kafka.voted
        known = frozenset({voted}) if isinstance(voted, Key) and voted.directory > 0 else frozenset[Key]()
        high = max(0, kafka.high_watermark)  # below 0 where no batch ends right there
        shows = kafka.mode is Mode.LEADER and high > 0
        replicas[host] = was.but(
            mode=kafka.mode,
            epoch=kafka.epoch,
            leader=kafka.leader,
            leader_endpoint=kafka.leader_endpoint,
            voted=voted,
            ballot=known | (was.ballot if was.epoch == kafka.epoch else frozenset()),
            log=kafka.log,
            start=max(0, kafka.start),
            high_watermark=high if shows or kafka.mode is not Mode.LEADER else was.high_watermark,
            voters=kafka.voters,
            version=kafka.version,
            granted=frozenset(keys[voter] for voter in kafka.granted if voter in keys),
            rejected=frozenset(keys[voter] for voter in kafka.rejected if voter in keys),
            fetched=kafka.fetched,
            offsets=Map({key: max(0, end) for key, end in kafka.offsets.items() if not matches(key, was.key)}),
            pending=kafka.pending[0] if kafka.mode in WAITS and kafka.pending else Nil.NIL,
            change=_change(was, kafka),
            heard=frozenset(voter for voter in kafka.heard if voter.key.id != was.id),
            updating=kafka.due,
            updated=kafka.updated,
        )
        if shows and high > len(committed):
            committed = kafka.log[:high]
        if kafka.mode is Mode.LEADER:
            elected |= {Term(kafka.epoch, host)}
    inboxes: dict[ModelValue, dict[Record, int]] = {}
    known_of = dict(known_messages(guess))
    for message in cluster.under_way.values():
        inboxes.setdefault(message.dest, {})[known_of.get(message, message)] = 1  # type: ignore[attr-defined]
    return guess.but(
        replicas=Map(replicas),
        inboxes=Map({dest: Map(inbox) for dest, inbox in inboxes.items()}),
        shared=guess.shared.but(committed=committed, elected=elected),
    )

"""What the KIPs say of replicas, logs and answers, told once more for the contracts alone.

No action calls these functions: a slip in the rule that an action follows does not change the rule that judges it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple, TypeVar

from kraftcheck.kraft_model.quorum.records import (
    Batch,
    Change,
    Error,
    Key,
    KRaftVersion,
    LeaderResponse,
    LogRecord,
    Mode,
    Nil,
    Replica,
    Voter,
    Voters,
)
from kraftcheck.spec import ModelValue, Record, Step

M = TypeVar("M", bound=Record)

REFUSED = (Error.FENCED_LEADER_EPOCH, Error.NOT_LEADER_OR_FOLLOWER)
NO_REFUSAL = (Error.NONE, Error.UNSUPPORTED_VERSION, Error.SNAPSHOT_NOT_FOUND)

# Replica keys and voters


def is_same(voter: Key, key: Key) -> bool:
    """Whether a voter is this replica key; directory id 0 is one that is not known (KIP-853, "Key terms")."""
    return voter.id == key.id and (voter.directory == key.directory or voter.directory == 0)


def seats(me: Replica) -> frozenset[Key]:
    """Return the voter that a replica is; none for an observer."""
    return frozenset(voter.key for voter in me.voters if is_same(voter.key, me.key))


def voter_keys(me: Replica) -> frozenset[Key]:
    return frozenset(voter.key for voter in me.voters)


def has_none(me: Replica, *names: str) -> bool:
    """Whether fields of a replica are empty, or FALSE."""
    return not any(getattr(me, name) for name in names)


def peers(me: Replica) -> dict[Key, int]:
    """Return the other voters, with their endpoints."""
    return {voter.key: voter.endpoint for voter in me.voters if not is_same(voter.key, me.key)}


def known_endpoint(me: Replica, host: ModelValue | Nil) -> int:
    """Return the endpoint that the voter set has for a replica id; 0 where it has none."""
    found = {voter.key: voter.endpoint for voter in me.voters if voter.key.id == host}
    return found[min(found, key=lambda key: key.directory)] if found else 0


def are_most(group: Collection[Key], voters: Collection[Voter]) -> bool:
    return len([voter for voter in voters if voter.key in group]) > len(voters) / 2


# Logs


def end(log: tuple[Batch, ...]) -> tuple[int, int]:
    """Return epoch and end offset of a log, as Vote compares them (KIP-595, "Vote")."""
    return (log[-1].epoch, len(log)) if log else (0, 0)


def end_of_epoch(log: tuple[Batch, ...], epoch: int) -> tuple[int, int]:
    """Return the end offset of the batches up to an epoch, and the last epoch among them (KIP-595, "Fetch")."""
    count = sum(batch.epoch <= epoch for batch in log)
    return count, log[count - 1].epoch if count else 0


def records_of(log: tuple[Batch, ...]) -> list[LogRecord]:
    return [record for batch in log for record in batch.records]


def voters_of(log: tuple[Batch, ...], formatted: frozenset[Voter]) -> frozenset[Voter]:
    return next((one.voters for one in reversed(records_of(log)) if isinstance(one, Voters)), formatted)


def version_of(log: tuple[Batch, ...], formatted: int) -> int:
    return next((one.version for one in reversed(records_of(log)) if isinstance(one, KRaftVersion)), formatted)


def has_own(me: Replica, offset: int) -> bool:
    """Whether an offset covers a batch of a leader's own epoch."""
    return offset > 0 and me.log[offset - 1].epoch >= me.epoch


def shown(me: Replica) -> int:
    """Return the high watermark that a leader tells: none before a batch of its epoch is committed (KIP-595)."""
    return me.high_watermark if has_own(me, me.high_watermark) else 0


def ends_of_voters(me: Replica) -> list[int]:
    """Return the log ends of the voters as a leader knows them, the highest first.

    A leader that is no voter does not count itself (KIP-853, "High watermark").
    """
    known = {voter.key: me.offsets.get(voter.key, 0) for voter in me.voters}
    return sorted((len(me.log) if is_same(key, me.key) else end for key, end in known.items()), reverse=True)


def committed_end(me: Replica) -> int:
    """Return the high watermark that a leader's voters give: what most of them hold, with a batch of its epoch."""
    ends = ends_of_voters(me)
    most = ends[len(ends) // 2] if ends else 0
    return max(me.high_watermark, most) if has_own(me, most) else me.high_watermark


def last_voters_end(log: tuple[Batch, ...]) -> int:
    """Return the end offset of the last batch with a VotersRecord; 0 where there is none."""
    found = [place for place, batch in enumerate(log, start=1) if any(isinstance(r, Voters) for r in batch.records)]
    return found[-1] if found else 0


def must_wait(me: Replica) -> bool:
    """Whether a leader has an operation pending, or has not yet committed a batch of its epoch (KIP-853)."""
    return isinstance(me.change, Change) or not has_own(me, me.high_watermark)


def has_open_voters(me: Replica) -> bool:
    """Whether the last VotersRecord of a log is not committed (KIP-853, "AddVoter", step 1)."""
    return last_voters_end(me.log) > me.high_watermark


# Messages


def sent(step: Step, kind: type[M]) -> list[M]:
    return [message for message in step.sent if isinstance(message, kind)]


def is_silent(before: Replica, after: Replica, step: Step) -> bool:
    """Whether a step changes nothing and says nothing."""
    return after == before and not step.sent


# What a replica hears


class Role(NamedTuple):
    """What an answer or a request makes of a replica: mode, epoch, leader, and where it reaches the leader."""

    mode: Mode
    epoch: int
    leader: ModelValue | Nil
    endpoint: int


def role(me: Replica) -> Role:
    return Role(me.mode, me.epoch, me.leader, me.leader_endpoint)


def role_after(me: Replica, leader: ModelValue | Nil, epoch: int, endpoint: int) -> Role:
    """Return the role of a replica that hears of an epoch and its leader (KIP-595, "Leader Election and Discovery").

    A newer epoch is taken over, an older one ignored. Whoever tells a replica that it leads, and it does not, or names
    another leader of its epoch, tells the impossible. So does a leader that nobody can reach.
    """
    if epoch < me.epoch:
        return role(me)
    if is_impossible(me, leader, epoch):
        return failure(me)
    if leader == Nil.NIL:
        return role(me) if epoch == me.epoch else Role(Mode.UNATTACHED, epoch, Nil.NIL, 1)
    place = endpoint if endpoint > 0 else known_endpoint(me, leader)
    if epoch == me.epoch and me.leader == leader and (me.leader_endpoint > 0 or place == 0):
        return role(me)
    return follower(me, leader, epoch, place)


def is_impossible(me: Replica, leader: ModelValue | Nil, epoch: int) -> bool:
    """Whether another leader of an epoch is known than the one that is named, or a replica is told that it leads."""
    is_other = epoch == me.epoch and leader != me.leader and Nil.NIL not in (leader, me.leader)
    return is_other or (leader == me.id and me.mode is not Mode.LEADER)


def follower(me: Replica, leader: ModelValue, epoch: int, endpoint: int) -> Role:
    """Return the role of a follower; it fails without an endpoint, and cannot follow itself."""
    place = endpoint if endpoint > 0 else known_endpoint(me, leader)
    return failure(me) if place == 0 or leader == me.id else Role(Mode.FOLLOWER, epoch, leader, place)


def failure(me: Replica) -> Role:
    """Return the role of a replica whose process ends, since it takes for impossible what it heard."""
    return Role(Mode.FAILED, me.epoch, me.leader, 1)


def heard(me: Replica, response: LeaderResponse) -> tuple[Role, bool]:
    """Return what the fields that all responses share make of a replica, and whether the rest of it is of no use.

    KIP-595, "Leader Election and Discovery"; `KafkaRaftClient.maybeHandleCommonResponse`.
    """
    error, leader, epoch, endpoint = response.error, response.leader, response.epoch, response.endpoint
    if epoch < me.epoch or error is Error.UNKNOWN_LEADER_EPOCH:
        return role(me), True
    if epoch > me.epoch or error in REFUSED:
        return role_after(me, leader, epoch, endpoint), True
    ends = error not in NO_REFUSAL
    if not isinstance(leader, Nil) and isinstance(me.leader, Nil):
        return follower(me, leader, epoch, endpoint), ends
    return (failure(me), True) if error is Error.INVALID_REQUEST else (role(me), ends)


def takes_role(before: Replica, after: Replica, expected: Role) -> bool:
    """Whether a replica takes a role, and keeps everything where the role is the one that it has.

    What a new role begins with is in `TransitionsBeginAfresh`.
    """
    return role(after) == expected and (role(before) != expected or after == before)


def addressed(messages: Iterable[Record], expected: dict[Key, int]) -> bool:
    """Whether there is one message for each voter, sent to the endpoint that the voter set has."""
    places = sorted((str(m.dest), m.address) for m in messages)  # type: ignore[attr-defined]
    return places == sorted((str(key.id), endpoint) for key, endpoint in expected.items())

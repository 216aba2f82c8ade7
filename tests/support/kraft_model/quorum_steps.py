"""Replicas, requests and steps of `quorum` for tests that take one step at a time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from kraftcheck.catalogue import find_config_name_and_content, find_model
from kraftcheck.kraft_model.quorum.records import (
    Batch,
    Data,
    Error,
    FetchRequest,
    FetchSnapshotRequest,
    Key,
    KRaftVersion,
    LeaderChange,
    Mode,
    Nil,
    Position,
    Replica,
    Shared,
    UpdateVoterRequest,
    Voter,
    VoteRequest,
    VoteResponse,
    Voters,
)
from kraftcheck.spec import ModelValue, Record, Step, ordered
from kraftcheck.spec.cfg.binding import bind_constants, with_assignments
from kraftcheck.spec.cfg.config import parse_setting

M = TypeVar("M", bound=Record)
HOSTS = {"Hosts": "{n1, n2, n3, n4}", "InitialVoters": "{n1, n2, n3}", "BootstrapServers": "{n1, n2}"}
QUIET = Shared()


def quorum(variant: str | None = None, **settings: object) -> Any:
    """The model with three voters and a fourth host, and these constants."""
    found = find_model("quorum", variant)
    _, config = find_config_name_and_content(found, "smoke")
    given = {**HOSTS, "PlainAnswers": "TRUE", **settings}
    parsed = [parse_setting(f"{name}={value}", config) for name, value in given.items()]
    return bind_constants(found.protocol, with_assignments(config, parsed))


BASE = quorum()
N1, N2, N3, N4 = ordered(BASE.hosts)
ALL = frozenset(Voter(Key(host)) for host in (N1, N2, N3))
FIRST = Batch(1, (LeaderChange(N1), KRaftVersion(1), Voters(ALL)))
BLANK = BASE.formatted(N4, 1)
"""The fourth host, whose disk was formatted without initial controllers."""


def data(epoch: int, number: int) -> Batch:
    return Batch(epoch, (Data(number),))


def replica(
    host: ModelValue, mode: Mode, *, epoch: int = 1, log: tuple[Batch, ...] = (FIRST,), **fields: Any
) -> Replica:
    """One of the three voters, with a log that begins with the first batch."""
    blank = BASE.formatted(host, 1).but(mode=mode, epoch=epoch, high_watermark=min(1, len(log)))
    return BASE.with_log(blank, log, flushes=True).but(**fields)


def leader(**fields: Any) -> Replica:
    """Replica 1 in office, with everything committed."""
    return replica(N1, Mode.LEADER, leader=N1, voted=Key(N1), ballot=frozenset({Key(N1)}), **fields)


def follower(host: ModelValue = N2, **fields: Any) -> Replica:
    """A follower of replica 1."""
    return replica(host, Mode.FOLLOWER, **{"leader": N1, **fields})


def only(steps: Iterable[Step]) -> Step:
    (step,) = steps
    return step


def sent(step: Step, kind: type[M]) -> M:
    """The one message of a type that a step sends."""
    (message,) = all_sent(step, kind)
    return message


def all_sent(step: Step, kind: type[M]) -> list[M]:
    return [message for how, message in step.sends if how == "send" and isinstance(message, kind)]


def vote(epoch: int = 1, **fields: Any) -> VoteRequest:
    """A request of replica 3 to replica 2, whose log is as long as anyone's."""
    asked = VoteRequest(epoch, False, Key(N3), Key(N2), 1, 1, N3, N2)
    return asked.but(**fields)


def answer_to(me: Replica, voter: ModelValue = N2, **fields: Any) -> VoteResponse:
    pre_vote = me.mode is Mode.PROSPECTIVE
    return VoteResponse(me.epoch, Nil.NIL, True, Error.NONE, pre_vote, Key(voter), me.epoch, voter, me.id).but(**fields)


def prospective(**fields: Any) -> Replica:
    return replica(N3, Mode.PROSPECTIVE, granted=frozenset({Key(N3)}), **fields)


def fetch(offset: int = 1, last_epoch: int = 1, **fields: Any) -> FetchRequest:
    return FetchRequest(1, offset, last_epoch, 1, N2, N1).but(**fields)


def snapshot_request(offset: int, epoch: int = 1, **fields: Any) -> FetchSnapshotRequest:
    return FetchSnapshotRequest(epoch, Position(offset, 1), 1, N2, N1).but(**fields)


UPDATE = UpdateVoterRequest(1, Voter(Key(N2), 2), 1, N2, N1)

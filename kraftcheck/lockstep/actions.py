"""Commands for what happens seldom: updates of voters, upgrades, joining, bootstrap servers, cut links."""

from __future__ import annotations

from collections.abc import Callable

from kraftcheck.kraft_model.quorum.base import ADMIN
from kraftcheck.kraft_model.quorum.messages import AdminResponse
from kraftcheck.kraft_model.quorum.records import Error, Key, Mode, Nil, Operation, Voter
from kraftcheck.kraft_model.quorum.state import Change, Replica
from kraftcheck.lockstep.cluster import KafkaCluster, NotUnderWay, number_of
from kraftcheck.lockstep.comparison import messages_of
from kraftcheck.spec import State, ordered
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.semantics import Transition

Command = Callable[[KafkaCluster, State, Transition], None]


def _update_period(cluster: KafkaCluster, _: State, step: Transition) -> None:
    """A follower has a timer for UpdateVoter, and for AddVoter and RemoveVoter of its own."""
    cluster.do("update-period", node=number_of(step.actor))


def _upgrade(version: int) -> Command:
    def do(cluster: KafkaCluster, _: State, step: Transition) -> None:
        cluster.do("upgrade", node=number_of(step.actor), version=version)

    return do


def _fetch_from_bootstrap_server(cluster: KafkaCluster, _: State, step: Transition) -> None:
    """Kafka chose a server at random when it could; the fetch goes to the one that the model chooses."""
    if not cluster.replicas[step.actor].held:
        raise NotUnderWay(f"{step.actor} would not fetch from a bootstrap server")
    server = step.target.replicas[step.actor].pending.dest
    cluster.do("ask-bootstrap", node=number_of(step.actor), server=number_of(server))


def _retry(cluster: KafkaCluster, before: State, step: Transition) -> None:
    """A follower turns to a bootstrap server or to its leader, whichever it did not ask last."""
    servers = cluster.protocol.bootstrap_servers - {step.actor}
    wanted = getattr(step.target.replicas[step.actor].pending, "dest", None)
    follows = before.replicas[step.actor].mode is Mode.FOLLOWER
    server = wanted if wanted in servers else next(iter(ordered(servers)), None) if follows else None
    cluster.do("time-out", node=number_of(step.actor), server=0 if server is None else number_of(server))


def _plainly(command: str) -> Command:
    def do(cluster: KafkaCluster, _: State, step: Transition) -> None:
        cluster.do(command, node=number_of(step.actor))

    return do


def _nothing(cluster: KafkaCluster, _: State, step: Transition) -> None:
    """What is sent over a cut link waits: the model does not deliver it."""


def _repeat_begin_quorum_epoch(cluster: KafkaCluster, before: State, step: Transition) -> None:
    """Where an equal request is under way already, another one would change nothing."""
    for message in messages_of(step.target) - messages_of(before):
        cluster.do("repeat-begin", node=number_of(step.actor), voter=number_of(message.dest))  # type: ignore[attr-defined]


# Voter changes. A step says what was asked by what becomes of it: by the change, or by the answer.


def _add_voter(cluster: KafkaCluster, before: State, step: Transition) -> None:
    asked = _asked(before, step) or _refused(cluster, before, step, Operation.ADD_VOTER)
    cluster.do("add-voter", node=number_of(step.actor), voter=number_of(asked.id))


def _remove_voter(cluster: KafkaCluster, before: State, step: Transition) -> None:
    asked = _asked(before, step) or _refused(cluster, before, step, Operation.REMOVE_VOTER)
    cluster.do("remove-voter", node=number_of(step.actor), voter=number_of(asked.id), directory=asked.directory)


def _asked(before: State, step: Transition) -> Key | None:
    """Return which replica a leader begins to add, or has removed; None where it refuses."""
    me, after = before.replicas[step.actor], step.target.replicas[step.actor]
    change = Nil.NIL if after.change == me.change else after.change
    if isinstance(change, Change) and isinstance(change.asked, Key):
        return change.asked
    if step.action == "AddVoter":
        return change.voter.key if isinstance(change, Change) and isinstance(change.voter, Voter) else None
    gone = me.voters - after.log[-1].records[-1].voters if len(after.log) > len(me.log) else frozenset()
    return next((voter.key for voter in gone), None)


def answers_the_same(cluster: KafkaCluster, before: State, step: Transition, other: Transition) -> bool:
    """Return whether another outcome of an action may be what becomes of the same request.

    An administrator's request is no message: outcomes of AddVoter and RemoveVoter may be those for other replicas.
    """
    if step.action not in ("AddVoter", "RemoveVoter"):
        return True
    adds = step.action == "AddVoter"
    operation = Operation.ADD_VOTER if adds else Operation.REMOVE_VOTER
    asked = _asked(before, step) or _refused(cluster, before, step, operation)
    found = _asked(before, other)
    if found is not None:
        return found == asked
    me, protocol = before.replicas[step.actor], cluster.protocol
    endpoints = {r.key: r.endpoint for r in before.replicas.values() if isinstance(r, Replica)}
    voter = Voter(asked, endpoints.get(asked, 1))
    outcome = protocol.begin_adding(me, voter, ADMIN) if adds else protocol.begin_removing(me, asked, ADMIN)
    errors = _errors(before, other, operation)
    return not errors or bool(errors & ({outcome[2], Error.REQUEST_TIMED_OUT} if adds else {outcome[2]}))


def _errors(before: State, step: Transition, operation: Operation) -> set[Error]:
    """Return the errors with which a replica answers an administrator."""
    known, now = messages_of(before), messages_of(step.target)
    answers = [m for m in now - known or now if isinstance(m, AdminResponse) and m.operation is operation]
    return {answer.error for answer in answers if answer.source == step.actor}


def _refused(cluster: KafkaCluster, before: State, step: Transition, operation: Operation) -> Key:
    """Return one of the replicas for which a request would be answered so."""
    me: Replica = before.replicas[step.actor]
    protocol = cluster.protocol
    errors = _errors(before, step, operation)
    running = [r for r in before.replicas.values() if isinstance(r, Replica) and r.id not in protocol.brokers]
    if operation is Operation.ADD_VOTER:
        fitting = [r.key for r in running if protocol.begin_adding(me, Voter(r.key, r.endpoint), ADMIN)[2] in errors]
    else:
        keys = ordered({voter.key for voter in me.voters} | {replica.key for replica in running})
        fitting = [key for key in keys if protocol.begin_removing(me, key, ADMIN)[2] in errors]
    if not fitting:
        raise InputError(f"{step.action} by {step.actor} that is refused is driven with PlainAnswers only")
    return fitting[0]


ACTIONS: dict[str, Command] = {
    "SendUpdateVoter": _update_period,
    "Join": _update_period,
    "Upgrade": _upgrade(1),
    "Downgrade": _upgrade(0),
    "FetchFromBootstrapServer": _fetch_from_bootstrap_server,
    "Retry": _retry,
    "Crash": _plainly("stop"),
    "Cut": _nothing,
    "Heal": _nothing,
    "CheckQuorum": _plainly("check-quorum"),
    "RepeatBeginQuorumEpoch": _repeat_begin_quorum_epoch,
    "ExpireOperation": _plainly("expire-operation"),
    "MoveEndpoint": _plainly("move-endpoint"),
    "ChangeSoftware": _plainly("change-software"),
    "DescribeQuorum": _plainly("describe"),
    "AddVoter": _add_voter,
    "RemoveVoter": _remove_voter,
}
"""By action."""

"""Driver commands that make Kafka take the steps of the model."""

from __future__ import annotations

from collections.abc import Callable

from kraftcheck.kraft_model.quorum.records import (
    ADMIN,
    AdminResponse,
    Change,
    DiskReplica,
    Error,
    Key,
    Mode,
    Nil,
    Operation,
    Replica,
    Voter,
)
from kraftcheck.kraft_model.quorum.voters import QuorumVoterChanges
from kraftcheck.lockstep.kafka_cluster import (
    KafkaCluster,
    MessageNotInFlight,
    canonical_messages_in_flight,
    kafka_id,
    kafka_ids,
)
from kraftcheck.lockstep.messages import NO_OP_VALUE, canonical_message
from kraftcheck.spec import State, ordered
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.semantics import Transition

CommandFunction = Callable[[KafkaCluster, State, Transition], None]

TIMER_ACTIONS = ("FetchTimeout", "ElectionTimeout", "PreVoteTimeout", "ResignedTimeout")
"""Steps in which the timer of a replica's mode expires."""

START_ACTIONS = ("Restart", "RestartLosingUnflushed", "LoseDisk", "MoveEndpoint", "ChangeSoftware", "ListVoters")

ELECTING_ACTIONS = ("FetchTimeout", "ElectionTimeout", "HandleVoteResponse")
"""Steps in which a replica may take office, and its process end at once."""

URGENT_TIMEOUTS_AFTER = {
    "HandleEndQuorumEpochRequest": ("FetchTimeout",),
    "PreVoteTimeout": ("ElectionTimeout", "FetchTimeout"),
    "ResignedTimeout": ("ElectionTimeout",),
    **dict.fromkeys((*START_ACTIONS, *ELECTING_ACTIONS), ("ElectionTimeout",)),
}
"""By action, timeouts that Kafka may take in the same poll: a timer has expired, or a sole voter stands at once."""


def fails_when_elected(before: State, step: Transition) -> bool:
    """Whether a replica is elected in a step, and its process ends before its first record is in the log."""
    elected = step.target.shared.elected - before.shared.elected
    return any(step.target.replicas[term.leader].mode is not Mode.LEADER for term in elected)


def _make_kafka_expire_timer(cluster: KafkaCluster, before: State, step: Transition) -> None:
    cluster.do("expire", node=kafka_id(step.actor), fails=fails_when_elected(before, step))


def _make_kafka_append_client_record(cluster: KafkaCluster, _: State, step: Transition) -> None:
    cluster.do("append", node=kafka_id(step.actor), value=str(step.target.shared.appended))


def _make_kafka_take_snapshot(cluster: KafkaCluster, before: State, step: Transition) -> None:
    """Take a snapshot and delete the log before it; with several snapshots, these are two steps."""
    me, after, command = before.replicas[step.actor], step.target.replicas[step.actor], "snapshot"
    if after.start == me.start:
        (end,), command = set(after.snapshots) - set(me.snapshots), "keep-snapshot"
    else:
        end, command = after.start, "clean" if isinstance(after, DiskReplica) else "snapshot"
    offset, epoch = cluster.offset_of(step.actor, end)
    cluster.do(command, node=kafka_id(step.actor), offset=offset, epoch=epoch)


def _make_kafka_activate_controller(cluster: KafkaCluster, _: State, step: Transition) -> None:
    """A controller that has learned that it leads writes its first record, or resigns."""
    if not cluster.replicas[step.actor].server.claims:
        raise MessageNotInFlight(f"the controller of {step.actor} has not learned that it leads")
    if step.target.replicas[step.actor].mode is Mode.LEADER:
        cluster.do("append", node=kafka_id(step.actor), value=NO_OP_VALUE)
    else:
        cluster.do("resign", node=kafka_id(step.actor))


def _make_kafka_restart_with_listed_voters(cluster: KafkaCluster, _: State, step: Transition) -> None:
    cluster.do("list-voters", node=kafka_id(step.actor), voters=kafka_ids(step.target.replicas[step.actor].listed))


def _make_kafka_expire_delayed_fetch(cluster: KafkaCluster, before: State, step: Transition) -> None:
    """The maximum wait of a delayed fetch passes, as that of each equal fetch, which the model merges with it."""
    (ended,) = before.replicas[step.actor].delayed - step.target.replicas[step.actor].delayed
    numbers = cluster.delayed(step.actor, ended.request)
    if not numbers:
        raise MessageNotInFlight(f"{step.actor} does not delay {ended.request}")
    for number in sorted(numbers):
        cluster.do("expire-fetch", node=kafka_id(step.actor), fetch=number)


def _record_described_features_of_kafka(cluster: KafkaCluster, _: State, step: Transition) -> None:
    """Kafka's `KRaftMetadataCache.features` returns what the client does, which each state has."""
    cluster.do("nothing", node=kafka_id(step.actor))
    cluster.reported |= {cluster.replicas[step.actor].server.told}


def _driver_number_of_message(cluster: KafkaCluster, step: Transition) -> int:
    """Return the driver's number of a step's message; raise MessageNotInFlight without one."""
    assert step.message is not None
    number = cluster.find(canonical_message(step.message))
    if number is None:
        raise MessageNotInFlight(str(step.message))
    return number


def _drop_message_in_flight_to_kafka(cluster: KafkaCluster, _: State, step: Transition) -> None:
    cluster.drop(_driver_number_of_message(cluster, step))


def _make_kafka_receive_message(cluster: KafkaCluster, before: State, step: Transition) -> None:
    cluster.deliver(_driver_number_of_message(cluster, step), fails=fails_when_elected(before, step))


def _simple_command(command: str, **arguments: int) -> CommandFunction:
    def do(cluster: KafkaCluster, _: State, step: Transition) -> None:
        cluster.do(command, node=kafka_id(step.actor), **arguments)

    return do


def _make_kafka_fetch_from_bootstrap_server(cluster: KafkaCluster, _: State, step: Transition) -> None:
    """Send the fetch that the driver withholds, to the bootstrap server that the model chooses."""
    if not cluster.replicas[step.actor].held:
        raise MessageNotInFlight(f"{step.actor} would not fetch from a bootstrap server")
    server = step.target.replicas[step.actor].pending.dest
    cluster.do("ask-bootstrap", node=kafka_id(step.actor), server=kafka_id(server))


def _make_kafka_time_out_request(cluster: KafkaCluster, before: State, step: Transition) -> None:
    """Time out a request; a follower of Kafka then asks a bootstrap server and its leader in turn."""
    servers = cluster.protocol.bootstrap_servers - {step.actor}
    wanted = getattr(step.target.replicas[step.actor].pending, "dest", None)
    follows = before.replicas[step.actor].mode is Mode.FOLLOWER
    server = wanted if wanted in servers else next(iter(ordered(servers)), None) if follows else None
    cluster.do("time-out", node=kafka_id(step.actor), server=0 if server is None else kafka_id(server))


def _send_no_command(cluster: KafkaCluster, _: State, step: Transition) -> None:
    """Send no command to Kafka: the model itself delivers no messages over a cut link."""


def _make_kafka_repeat_begin_quorum_epoch(cluster: KafkaCluster, before: State, step: Transition) -> None:
    """Repeat a leader's BeginQuorumEpoch requests, except those with an equal request in flight."""
    for message in canonical_messages_in_flight(step.target) - canonical_messages_in_flight(before):
        cluster.do("repeat-begin", node=kafka_id(step.actor), voter=kafka_id(message.dest))  # type: ignore[attr-defined]


# Voter changes: a step of the model shows its request by its effect only, the change or the answer.


def _make_kafka_add_voter(cluster: KafkaCluster, before: State, step: Transition) -> None:
    asked = _added_or_removed_replica(before, step) or _find_subject_refused_with_same_error(
        cluster, before, step, Operation.ADD_VOTER
    )
    cluster.do("add-voter", node=kafka_id(step.actor), voter=kafka_id(asked.id))


def _make_kafka_remove_voter(cluster: KafkaCluster, before: State, step: Transition) -> None:
    asked = _added_or_removed_replica(before, step) or _find_subject_refused_with_same_error(
        cluster, before, step, Operation.REMOVE_VOTER
    )
    cluster.do("remove-voter", node=kafka_id(step.actor), voter=kafka_id(asked.id), directory=asked.directory)


def _added_or_removed_replica(before: State, step: Transition) -> Key | None:
    """Return the key of the replica that a leader adds or removes in a step; None if it rejects the request."""
    me, after = before.replicas[step.actor], step.target.replicas[step.actor]
    change = Nil.NIL if after.change == me.change else after.change
    if isinstance(change, Change) and isinstance(change.asked, Key):
        return change.asked
    if step.action == "AddVoter":
        return change.voter.key if isinstance(change, Change) and isinstance(change.voter, Voter) else None
    gone = me.voters - after.log[-1].records[-1].voters if len(after.log) > len(me.log) else frozenset()
    return next((voter.key for voter in gone), None)


def may_be_outcomes_of_same_request(cluster: KafkaCluster, before: State, step: Transition, other: Transition) -> bool:
    """Whether two outcomes of an action may answer the same request.

    An administrator's request is no message, so outcomes of AddVoter and RemoveVoter may be for other replicas.
    """
    if step.action not in ("AddVoter", "RemoveVoter"):
        return True
    adds = step.action == "AddVoter"
    operation = Operation.ADD_VOTER if adds else Operation.REMOVE_VOTER
    asked = _added_or_removed_replica(before, step) or _find_subject_refused_with_same_error(
        cluster, before, step, operation
    )
    found = _added_or_removed_replica(before, other)
    if found is not None:
        return found == asked
    me, protocol = before.replicas[step.actor], cluster.protocol
    assert isinstance(protocol, QuorumVoterChanges)
    endpoints = {r.key: r.endpoint for r in before.replicas.values() if isinstance(r, Replica)}
    voter = Voter(asked, endpoints.get(asked, 1))
    outcome = protocol.begin_adding(me, voter, ADMIN) if adds else protocol.begin_removing(me, asked, ADMIN)
    errors = _errors_in_admin_answers(before, other, operation)
    return not errors or bool(errors & ({outcome[2], Error.REQUEST_TIMED_OUT} if adds else {outcome[2]}))


def _errors_in_admin_answers(before: State, step: Transition, operation: Operation) -> set[Error]:
    """Return the errors in a replica's answers to an administrator."""
    known, now = canonical_messages_in_flight(before), canonical_messages_in_flight(step.target)
    answers = [m for m in now - known or now if isinstance(m, AdminResponse) and m.operation is operation]
    return {answer.error for answer in answers if answer.source == step.actor}


def _find_subject_refused_with_same_error(
    cluster: KafkaCluster, before: State, step: Transition, operation: Operation
) -> Key:
    """Return a replica whose addition or removal would be rejected with the step's error."""
    me: Replica = before.replicas[step.actor]
    protocol = cluster.protocol
    assert isinstance(protocol, QuorumVoterChanges)
    errors = _errors_in_admin_answers(before, step, operation)
    running = [r for r in before.replicas.values() if isinstance(r, Replica) and r.id not in protocol.brokers]
    if operation is Operation.ADD_VOTER:
        fitting = [r.key for r in running if protocol.begin_adding(me, Voter(r.key, r.endpoint), ADMIN)[2] in errors]
    else:
        keys = ordered({voter.key for voter in me.voters} | {replica.key for replica in running})
        fitting = [key for key in keys if protocol.begin_removing(me, key, ADMIN)[2] in errors]
    if not fitting:
        raise InputError(f"{step.action} by {step.actor}: a refusal can be driven with PlainAnswers only")
    return fitting[0]


COMMAND_OF_ACTION: dict[str, CommandFunction] = {
    **dict.fromkeys(TIMER_ACTIONS, _make_kafka_expire_timer),
    "ClientAppend": _make_kafka_append_client_record,
    "Resign": _simple_command("resign"),
    "Restart": _simple_command("restart"),
    "RestartLosingUnflushed": _simple_command("power-loss"),
    "LoseDisk": _simple_command("lose-disk"),
    "TakeSnapshot": _make_kafka_take_snapshot,
    "RegisterListener": _simple_command("listen"),
    "Activate": _make_kafka_activate_controller,
    "ListVoters": _make_kafka_restart_with_listed_voters,
    "ExpireFetch": _make_kafka_expire_delayed_fetch,
    "DescribeFeatures": _record_described_features_of_kafka,
    "LoseMessage": _drop_message_in_flight_to_kafka,
    # a follower has one timer for UpdateVoter, and for its own AddVoter and RemoveVoter
    **dict.fromkeys(("SendUpdateVoter", "Join"), _simple_command("update-period")),
    "Upgrade": _simple_command("upgrade", version=1),
    "Downgrade": _simple_command("upgrade", version=0),
    "FetchFromBootstrapServer": _make_kafka_fetch_from_bootstrap_server,
    "Retry": _make_kafka_time_out_request,
    "Crash": _simple_command("stop"),
    "Cut": _send_no_command,
    "Heal": _send_no_command,
    "CheckQuorum": _simple_command("check-quorum"),
    "RepeatBeginQuorumEpoch": _make_kafka_repeat_begin_quorum_epoch,
    "ExpireOperation": _simple_command("expire-operation"),
    "MoveEndpoint": _simple_command("move-endpoint"),
    "ChangeSoftware": _simple_command("change-software"),
    "DescribeQuorum": _simple_command("describe"),
    "AddVoter": _make_kafka_add_voter,
    "RemoveVoter": _make_kafka_remove_voter,
}
"""Commands by action; an action that delivers a message needs no entry."""

NOT_DRIVEN_REASONS = {
    "DuplicateMessage": "Kafka's channels are TCP connections: a request is not delivered twice",
}
"""Actions that Kafka cannot be made to take, with the reason."""


def effect_identifies_request(step: Transition) -> bool:
    """Whether a step's effect identifies the request to send; the effect of a rejected AddVoter may not."""
    return step.action != "AddVoter" or isinstance(step.target.replicas[step.actor].change, Change)


def can_drive_action(action: str, has_message: bool) -> bool:
    """Whether Kafka can be made to take an action, with or without a message to deliver."""
    return action in COMMAND_OF_ACTION or (has_message and action not in NOT_DRIVEN_REASONS)


def command_function_of_step(step: Transition) -> CommandFunction:
    """Return the command that makes Kafka take a step."""
    return COMMAND_OF_ACTION.get(step.action, _make_kafka_receive_message)

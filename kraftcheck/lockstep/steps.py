"""Which command makes Kafka take a step of the model."""

from __future__ import annotations

from collections.abc import Callable

from kraftcheck.kraft_model.quorum.records import Mode
from kraftcheck.kraft_model.quorum.state import Change
from kraftcheck.lockstep.actions import ACTIONS
from kraftcheck.lockstep.cluster import KafkaCluster, number_of
from kraftcheck.lockstep.cluster import NotUnderWay as NotUnderWay
from kraftcheck.lockstep.messages import canonical
from kraftcheck.spec import State
from kraftcheck.spec.language.semantics import Transition

Command = Callable[[KafkaCluster, State, Transition], None]

FETCH_LIMIT = 2
"""The batches that the log of Kafka's tests gives for one fetch."""

TIMEOUTS = ("FetchTimeout", "ElectionTimeout", "PreVoteTimeout", "ResignedTimeout")
"""Steps that a replica takes when the timer of its state expires."""

STARTS = ("Restart", "RestartLosingUnflushed", "LoseDisk", "MoveEndpoint", "ChangeSoftware")

ELECTS = ("FetchTimeout", "ElectionTimeout", "HandleVoteResponse")
"""Steps in which a replica may take office, and its process end at once."""

AT_ONCE = {
    "HandleEndQuorumEpochRequest": ("FetchTimeout",),
    "PreVoteTimeout": ("ElectionTimeout", "FetchTimeout"),
    "ResignedTimeout": ("ElectionTimeout",),
    **dict.fromkeys((*STARTS, *ELECTS), ("ElectionTimeout",)),
}
"""By action, what Kafka may take in the same poll: a timer has expired already, or an only voter that starts stands."""


def fails_in_office(before: State, step: Transition) -> bool:
    """Return whether a replica is elected in a step, and its process ends before the first record is in its log."""
    elected = step.target.shared.elected - before.shared.elected
    return any(step.target.replicas[term.leader].mode is not Mode.LEADER for term in elected)


def _expire(cluster: KafkaCluster, before: State, step: Transition) -> None:
    cluster.do("expire", node=number_of(step.actor), fails=fails_in_office(before, step))


def _append(cluster: KafkaCluster, _: State, step: Transition) -> None:
    cluster.do("append", node=number_of(step.actor), value=str(step.target.shared.appended))


def _plainly(command: str) -> Command:
    def do(cluster: KafkaCluster, _: State, step: Transition) -> None:
        cluster.do(command, node=number_of(step.actor))

    return do


def _snapshot(cluster: KafkaCluster, _: State, step: Transition) -> None:
    offset, epoch = cluster.offset_of(step.actor, step.target.replicas[step.actor].start)
    cluster.do("snapshot", node=number_of(step.actor), offset=offset, epoch=epoch)


def _lose(cluster: KafkaCluster, _: State, step: Transition) -> None:
    assert step.message is not None
    number = cluster.find(canonical(step.message))
    if number is None:
        raise NotUnderWay(str(step.message))
    cluster.drop(number)


def _deliver(cluster: KafkaCluster, before: State, step: Transition) -> None:
    assert step.message is not None
    number = cluster.find(canonical(step.message))
    if number is None:
        raise NotUnderWay(str(step.message))
    cluster.deliver(number, fails=fails_in_office(before, step))


COMMANDS: dict[str, Command] = {
    **dict.fromkeys(TIMEOUTS, _expire),
    "ClientAppend": _append,
    "Resign": _plainly("resign"),
    "Restart": _plainly("restart"),
    "RestartLosingUnflushed": _plainly("power-loss"),
    "LoseDisk": _plainly("lose-disk"),
    "TakeSnapshot": _snapshot,
    "LoseMessage": _lose,
    **ACTIONS,
}
"""By action; what delivers a message needs no entry."""

NOT_DRIVEN = {
    "DuplicateMessage": "Kafka's channels are TCP connections: a request is not delivered twice",
}
"""Actions that Kafka cannot be made to take, and why."""


def says_what_is_asked(step: Transition) -> bool:
    """Return whether a step's effect says what its command has to ask for; one that a leader refuses may not."""
    return step.action != "AddVoter" or isinstance(step.target.replicas[step.actor].change, Change)


def is_driven(action: str, has_message: bool) -> bool:
    """Return whether Kafka can be made to take an action, given whether it delivers a message."""
    return action in COMMANDS or (has_message and action not in NOT_DRIVEN)


def command_of(step: Transition) -> Command:
    """Return what makes Kafka take a step that is driven."""
    return COMMANDS.get(step.action, _deliver)

"""Commands for what happens seldom: updates of voters, upgrades, joining, bootstrap servers, cut links."""

from __future__ import annotations

from collections.abc import Callable

from kraftcheck.spec import State
from kraftcheck.spec.language.semantics import Transition
from kraftcheck.traces.kafka.cluster import KafkaCluster, NotUnderWay, number_of

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


ACTIONS: dict[str, Command] = {
    "SendUpdateVoter": _update_period,
    "Join": _update_period,
    "Upgrade": _upgrade(1),
    "Downgrade": _upgrade(0),
    "FetchFromBootstrapServer": _fetch_from_bootstrap_server,
}
"""By action."""

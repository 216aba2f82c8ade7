"""Short walks beside Kafka: steps are named as `ACTION REPLICA`, `ACTION REPLICA<SOURCE` and, of several, `... #2`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from kraftcheck.catalogue import find_config_name_and_content, find_model
from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.variants.kafka import with_known_kafka_differences
from kraftcheck.lockstep.driver_process import Driver
from kraftcheck.lockstep.kafka_cluster import KafkaCluster
from kraftcheck.lockstep.lockstep import Lockstep, LockstepFinding
from kraftcheck.lockstep.walks import ActionCandidates, ChosenOutcome, RandomStepChooser
from kraftcheck.spec.cfg.binding import bind, with_assignments
from kraftcheck.spec.cfg.config import parse_setting

STEP = re.compile(r"(\w+) (\w+)(?:<(\w+))?(?: #(\d+))?")


def bound(
    settings: dict[str, object], *, known: bool = True, disk: bool = False, kind: type[Quorum] = Quorum
) -> Quorum:
    """Return the model with the constants of `lockstep-changes`, with restarts and snapshots, some of them other ones.

    Unless `known` is false it does what Kafka is known to do. `kind` is a variant of it.
    """
    model = find_model("quorum")
    config = find_config_name_and_content(model, "lockstep-changes")[1]
    constants = {"MaxRestarts": 10, "MaxSnapshots": 10, **settings}
    config = with_assignments(config, [parse_setting(f"{name}={value}", config) for name, value in constants.items()])
    protocol = bind(with_known_kafka_differences(kind, disk=disk) if known else kind, config).protocol
    assert isinstance(protocol, Quorum)
    return protocol


def drive(driver: Driver, protocol: Quorum, text: str) -> tuple[list[LockstepFinding], KafkaCluster]:
    """Take the steps in a text, one a line or separated by commas; return what was found, and Kafka's side."""
    steps = iter([step.strip() for step in re.split(r"[,\n]", text) if step.strip()])
    lockstep = Lockstep(driver, protocol)
    _, findings = lockstep.walk(lambda offers: _next(steps, offers), 1000)
    assert not list(steps), "the walk ended before the last step"
    return findings, lockstep.cluster


def _next(steps: Iterator[str], offers: ActionCandidates) -> ChosenOutcome | None:
    step = next(steps, None)
    if step is None:
        return None
    match = STEP.fullmatch(step)
    assert match is not None, step
    action, actor, source, place = match.groups()
    fitting = [
        (outcomes, number)
        for offer in offers.all
        if offer.action == action and str(offer.actor) == actor
        if source is None or str(offer.message.source) == source  # type: ignore[union-attr]
        for outcomes in [offers.outcomes(offer)]
        for number in range(len(outcomes))
    ]
    assert len(fitting) >= int(place or 1), (step, sorted({f"{offer.action} {offer.actor}" for offer in offers.all}))
    return fitting[int(place or 1) - 1]


SELDOM = {"ElectionTimeout", "FetchTimeout", "PreVoteTimeout", "ResignedTimeout", "Resign", "Restart", "LoseMessage"}


class Preferring(RandomStepChooser):
    """Draws some actions more often than others, and what begins anew seldom."""

    def __init__(self, seed: str, wanted: set[str]) -> None:
        super().__init__(seed, Counter())
        self._wanted = wanted

    def _weight(self, kind: tuple[object, ...]) -> float:
        weight = super()._weight(kind) * (20 if kind[0] in self._wanted else 0.15 if kind[0] in SELDOM else 1)
        self._weights[kind] = weight
        return weight

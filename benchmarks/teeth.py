"""Whether walks beside Kafka tell a model with a seeded fault from Kafka: after how many walks, and by what.

    python benchmarks/teeth.py [FAULT...] [--kafka VERSION|DIR] [--walks 500] [--depth 60]

Each fault of `quorum` (docs/faults.md) is driven beside Kafka with Kafka's known differences, as `kraftcheck lockstep`
drives the model: by random walks from the start of the fault's own configuration, with wider bounds, and every third
one in the configuration `lockstep`. A fault is told where a walk differs on which the model without the fault agrees:
the same steps are taken with it, too. If it cannot take the last one, which the fault allows, it agrees up to there.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from kraftcheck.catalogue import Model, find_config_name_and_content, find_model, find_variant
from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.variants.kafka import with_known_kafka_differences
from kraftcheck.lockstep.campaign import finding_summary_lines
from kraftcheck.lockstep.driver_process import Driver
from kraftcheck.lockstep.jars import driver_classpath
from kraftcheck.lockstep.lockstep import Lockstep, LockstepFinding
from kraftcheck.lockstep.walks import (
    COVER_FETCH_LIMIT,
    ActionCandidates,
    CandidateKind,
    ChosenOutcome,
    GivenStepChooser,
    RandomStepChooser,
    WalkFileStep,
)
from kraftcheck.spec.cfg.binding import bind, with_assignments
from kraftcheck.spec.cfg.config import ModelConfig, parse_setting
from kraftcheck.spec.language.semantics import takes_to_named_start, transition_matching_take
from kraftcheck.spec.values import truncate_text

ROOM = 20
"""How much wider bounds are than in the fault's own configuration."""

AS_IN_KAFKA = {"LatePreVotes": "TRUE", "FetchLimit": str(COVER_FETCH_LIMIT)}
"""Constants of every configuration here: late requests arrive."""

SELDOM = ("MaxLostDisks",)
"""Bounds that are not wider: a quorum whose disks are lost again and again does nothing else."""

MORE = {
    "directory-replaced": {"PlainAnswers": "TRUE"},  # what is refused shows in the answer only
    "late-divergence-applied": {"MaxRetries": str(ROOM)},  # Kafka's messages do not come twice, but are sent again
}
"""What more a fault needs to be told by."""


class Told(NamedTuple):
    """What tells a fault from Kafka.

    Attributes
    ----------
    walk
        The number of the walk, from 1.
    steps
        Its steps up to where it differs.
    finding
        What differs.
    """

    walk: int
    steps: list[WalkFileStep]
    finding: LockstepFinding


class FromStart:
    """Walks to a start, and then as somebody chooses."""

    def __init__(self, lockstep: Lockstep, init: str, then: RandomStepChooser) -> None:
        self._lockstep = lockstep
        self._way = takes_to_named_start(lockstep.protocol, init)
        self._then = then

    def __call__(self, offers: ActionCandidates) -> ChosenOutcome | None:
        for take in self._way:
            if self._lockstep.also == (take.action, take.actor):
                continue
            transition = transition_matching_take(self._lockstep.semantics, offers.state, take, any_outcome=True)
            outcomes = next(offers.outcomes(offer) for offer in offers.all if offer[:3] == transition[:3])
            return outcomes, outcomes.index(transition)
        return self._then(offers)


def faults() -> list[Model]:
    """Return the seeded faults: the variants with a configuration of that kind."""
    quorum = find_model("quorum")
    named = (find_variant(quorum, name) for name in quorum.variants)
    return [fault for fault in named if (fault.own_configuration or "").startswith("fault.")]


def with_room(model: Model) -> tuple[ModelConfig, str]:
    """Return a fault's configuration with wider bounds, and its start."""
    config = find_config_name_and_content(model, model.own_configuration)[1]
    bound = bind(model.protocol, config)
    wider = (constant for constant in bound.protocol.constants.values() if constant.name not in SELDOM)
    constants = [constant for constant in wider if constant.is_bound]
    limits = {constant.name: getattr(bound.protocol, constant.attribute) for constant in constants}
    settings = {name: str(limit + ROOM) for name, limit in limits.items() if limit}
    settings |= AS_IN_KAFKA | MORE.get(str(model.protocol.variant), {})
    return with_assignments(
        config, [parse_setting(f"{name}={value}", config) for name, value in settings.items()]
    ), bound.init


def driven(driver: Driver, protocol: type[Quorum], config: ModelConfig) -> Lockstep:
    """Return both sides, Kafka's known differences composed into the model."""
    bound = bind(with_known_kafka_differences(protocol), config).protocol
    assert isinstance(bound, Quorum)
    return Lockstep(driver, bound)


def agrees(model: Lockstep, steps: list[WalkFileStep]) -> bool:
    """Return whether the model without a fault agrees with Kafka on steps, but for a last one that it does not have."""
    walked, findings = model.walk(GivenStepChooser(steps, skips=True), len(steps))
    taken = [WalkFileStep.of(step) for step in walked]
    return not any(found.differences or found.problem for found in findings) and taken in (steps, steps[:-1])


def tellings(driver: Driver, fault: Model, options: argparse.Namespace) -> Iterator[Told | int]:
    """Yield what tells a fault from Kafka, and the numbers of walks on which the model alone differs too."""
    assert issubclass(fault.protocol, Quorum)
    widest = find_config_name_and_content(fault, "lockstep")[1], "Init"
    pairs = [
        (driven(driver, fault.protocol, config), driven(driver, Quorum, config), init)
        for config, init in (with_room(fault), widest)
    ]
    drawn: Counter[CandidateKind] = Counter()
    for number in range(1, options.walks + 1):
        both, model, init = pairs[number % 3 == 0]
        choose = FromStart(both, init, RandomStepChooser(f"{options.seed}/{number}", drawn))
        walked, findings = both.walk(choose, options.depth)
        found = next((finding for finding in findings if finding.differences or finding.problem), None)
        if found is not None:
            steps = [WalkFileStep.of(step) for step in walked[: found.step]]
            yield Told(number, steps, found) if agrees(model, steps) else number


def main() -> None:
    """Drive the faults, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("faults", nargs="*", metavar="FAULT", help="names of variants (default: all)")
    parser.add_argument("--kafka", default="4.3.1", metavar="VERSION|DIR")
    parser.add_argument("--walks", type=int, default=500, metavar="N", help="at most (default: 500)")
    parser.add_argument("--depth", type=int, default=60, metavar="N", help="steps of a walk (default: 60)")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    options = parser.parse_args()
    path = driver_classpath(options.kafka)
    chosen = [find_model("quorum", name) for name in options.faults] or faults()
    told = 0
    print("| fault | told after walks | steps | by | walks on which the model differs too |")
    print("|---|---:|---:|---|---:|")
    for fault in chosen:
        both_differ = 0
        with Driver(path.java, path.text, path.options) as driver:
            for found in tellings(driver, fault, options):
                if isinstance(found, Told):
                    what = found.finding._replace(violated=()) if found.finding.differences else found.finding
                    row = found.walk, len(found.steps), truncate_text(finding_summary_lines(what)[0], 100), both_differ
                    print(f"| `{fault.protocol.variant}` |", *(f"{cell} |" for cell in row), flush=True)
                    told += 1
                    break
                both_differ += 1
            else:
                print(f"| `{fault.protocol.variant}` | - | | not told | {both_differ} |", flush=True)
    print(f"\n{told} of {len(chosen)} faults are told from Kafka {path.version}")


if __name__ == "__main__":
    main()

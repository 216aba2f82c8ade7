"""How many steps a second are taken beside Kafka, and whose time they cost.

    python benchmarks/lockstep.py [--kafka 4.3.1] [--runs 100] [--depth 100] [--config lockstep] [--seed 0]

Start-up is the time from asking for the jars, which have been fetched before, to the start of the first walk. Waiting
is the time from when a command is given until its answer is there: what Kafka does, and the way there and back; what
the step before has broken is found out meanwhile.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

from kraftcheck.catalogue import find_config_name_and_content, find_model
from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.variants.kafka import with_known_kafka_differences
from kraftcheck.lockstep.campaign import LockstepCampaign, rare_garbage_collection
from kraftcheck.lockstep.driver_process import Driver, DriverAnswer
from kraftcheck.lockstep.jars import driver_classpath
from kraftcheck.lockstep.walks import WalkFile
from kraftcheck.spec.cfg.binding import bind


class Timed(Driver):
    """A driver that notes how long it is waited for."""

    waited = 0.0

    def ask(self, command: str, **arguments: Any) -> DriverAnswer:
        """Do a command."""
        began = time.perf_counter()
        try:
            return super().ask(command, **arguments)
        finally:
            self.waited += time.perf_counter() - began


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kafka", default="4.3.1")
    parser.add_argument("--config", default="lockstep")
    parser.add_argument("--seed", default="0")
    for name in ("--runs", "--depth"):
        parser.add_argument(name, type=int, default=100)
    options = parser.parse_args()
    config = find_config_name_and_content(find_model("quorum"), options.config)[1]
    protocol = bind(with_known_kafka_differences(Quorum), config).protocol
    assert isinstance(protocol, Quorum)
    began = time.perf_counter()
    path = driver_classpath(options.kafka)
    with Timed(path.java, path.text, path.options) as driver, rare_garbage_collection():
        driver.ask("nothing")
        print(f"start-up {time.perf_counter() - began:.2f} s")
        campaign = LockstepCampaign(driver, protocol, WalkFile("quorum", "", (), False, ()))
        driver.waited, began, used = 0.0, time.perf_counter(), os.times()
        campaign.draw(options.runs, options.depth, options.seed)
        seconds, now = time.perf_counter() - began, os.times()
    ours = now.user + now.system - used.user - used.system
    steps = campaign.steps
    print(f"{campaign.walks:,} walks, {steps:,} steps in {seconds:.1f} s: {steps / seconds:,.0f} steps/s")
    print(f"waited for Kafka {driver.waited / seconds:.0%} of the time, {driver.waited / steps * 1e3:.2f} ms a step")
    print(f"our processor time {ours / steps * 1e3:.2f} ms a step")


if __name__ == "__main__":
    main()

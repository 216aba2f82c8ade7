"""On every configuration that is shipped up to `default`, Spark finds what the table engine finds.

All in one Spark application. CI runs those of `IN_CI`; the others by hand, with `-m exhaustive`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("pyspark")
from kraftcheck.explorer.result import Result, SearchRequest
from kraftcheck.explorer.spark.engine import explore
from kraftcheck.spec.language.protocol import Protocol
from tests.support.spark.shipped import Shipped, differences, shipped

pytestmark = [pytest.mark.kernel, pytest.mark.spark, pytest.mark.usefixtures("application")]

IN_CI = ("smoke", "finding.", "reading.", "trap.")
"""What CI runs begins so, but of quorum only the first; the faults and `default` take an hour together."""
ALSO_IN_CI = (
    "tlc:symmetry/grow-with-election-hosts",
    "tlc:counts/two-voters",
    "quorum:trap.not-voter",  # with a VIEW
    "reconfig:fault.second-vote-in-epoch:second-vote-in-epoch",
)
ALIKE = ("die-hard", "dining-philosophers", "chang-roberts", "lamport-mutex", "paxos")
"""Examples whose values are of the types of `paxos-commit`."""


def in_ci(case: Shipped) -> bool:
    small = (case.model != "quorum" or case.config.startswith("smoke")) and case.model not in ALIKE
    return (small and case.config.startswith(IN_CI)) or case.name in ALSO_IN_CI


def sampled() -> set[Shipped]:
    """Return what CI runs: each small space and each of `ALSO_IN_CI`, but a third of the findings and the like."""
    candidates = [case for case in shipped() if in_ci(case)]
    kept = [case for case in candidates if case.config.startswith("smoke") or case.name in ALSO_IN_CI]
    return {*kept, *[case for case in candidates if case not in kept][::3]}


IN_SAMPLE = sampled()


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=pytest.mark.slow if case in IN_SAMPLE else pytest.mark.exhaustive)
        for case in shipped()
    ],
)
def test_finds_what_the_table_engine_finds(case: Shipped) -> None:
    states, differing = differences(case.bound, explore)
    assert states > 0
    assert differing == []


@pytest.mark.slow
@pytest.mark.usefixtures("no_driver_tasks")
@pytest.mark.parametrize(
    "name",
    [
        "reconfig:smoke",
        "recovery:smoke",  # with properties that read whole inboxes
        "tlc:symmetry/grow-with-election-hosts",
        "quorum:trap.update-voter",  # with a VIEW
    ],
)
def test_with_a_job_for_every_level(name: str) -> None:
    def explore_with_jobs(protocol: Protocol, options: SearchRequest) -> Result:
        return explore(protocol, replace(options, conf=(("spark.kraftcheck.small", "0"),)))

    case = next(case for case in shipped() if case.name == name)
    assert differences(case.bound, explore_with_jobs)[1] == []

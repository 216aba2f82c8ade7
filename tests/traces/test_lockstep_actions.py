"""Each of the model's actions beside Kafka. They need Java and Maven, which fetches Kafka's jars once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kraftcheck.kraft_model.quorum.records import Mode
from kraftcheck.traces.kafka.jars import classpath
from kraftcheck.traces.kafka.lockstep import LockstepVerdict
from kraftcheck.traces.kafka.process import Driver
from tests.support.lockstep import bound, drive

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ELECTED = """
    ElectionTimeout n1, HandleVoteRequest n3<n1, HandleVoteResponse n1<n3, HandleVoteRequest n3<n1
    HandleVoteResponse n1<n3, HandleBeginQuorumEpochRequest n3<n1
"""
FETCHES = "HandleFetchRequest n1<n3, HandleFetchResponse n3<n1,"


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    path = classpath("4.3.1")
    with Driver(path.java, path.text) as running:
        yield running


def test_a_replica_in_which_kafka_throws_is_down(driver: Driver) -> None:
    walk = ELECTED + FETCHES + FETCHES + "RemoveVoter n1 #2, HandleBeginQuorumEpochRequest n2<n1"
    (finding,), cluster = drive(driver, bound({"MaxRestarts": 0}), walk)
    assert finding.verdict is LockstepVerdict.FAILS
    assert "Unexpected acknowledgement from non-voter 2" in finding.problem
    modes = {str(host): replica.mode for host, replica in cluster.replicas.items()}
    assert modes == {"n1": Mode.DOWN, "n2": Mode.FOLLOWER, "n3": Mode.FOLLOWER, "n4": Mode.UNATTACHED}
    before = dict(cluster.under_way)
    cluster.do("nothing", node=1)
    assert cluster.under_way == before


def test_the_model_chooses_the_bootstrap_server(driver: Driver) -> None:
    asks = "FetchFromBootstrapServer n4, HandleFetchRequest n2<n4, HandleFetchResponse n4<n2,"
    walk = ELECTED + asks + asks + "FetchFromBootstrapServer n4 #2, HandleFetchRequest n3<n4, HandleFetchResponse n4<n3"
    findings, cluster = drive(driver, bound({"BootstrapServers": "{n2,n3}"}), walk)
    assert not findings
    (n4,) = [replica for host, replica in cluster.replicas.items() if str(host) == "n4"]
    (fetch,) = n4.pending
    assert (n4.mode, n4.held, str(fetch.dest)) == (Mode.FOLLOWER, False, "n1")  # type: ignore[attr-defined]

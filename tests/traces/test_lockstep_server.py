"""The parts of a server beside Kafka: controllers, listeners, snapshots, static voters, delayed fetches, features."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kraftcheck.catalogue import find_model
from kraftcheck.kraft_model.quorum.records import FetchSnapshotRequest, Mode, Position
from kraftcheck.kraft_model.quorum.variants.kafka import with_known_kafka_differences
from kraftcheck.kraft_model.quorum.variants.reports import PieceRequest
from kraftcheck.kraft_model.quorum.variants.surroundings import (
    DelayedFetches,
    InformedFetch,
    ListenersLearnByEpoch,
    QuorumOfServers,
)
from kraftcheck.lockstep.driver_process import Driver
from kraftcheck.lockstep.jars import driver_classpath
from kraftcheck.lockstep.lockstep import LockstepFinding
from kraftcheck.lockstep.messages import SnapshotPieceConverter
from kraftcheck.spec import ModelValue
from tests.support.lockstep import bound, drive

ROOM = {"MaxFailedWrites": 5, "MaxListeners": 5, "SnapshotLimit": 1, "MaxListings": 5, "Hosts": "{n1, n2, n3}"}
SOME = {**ROOM, "MaxFetchExpirations": 5, "MaxFeatureDescriptions": 5}
ELECTED = """
    ElectionTimeout n1, HandleVoteRequest n2<n1, HandleVoteResponse n1<n2, HandleVoteRequest n2<n1
    HandleVoteResponse n1<n2, HandleBeginQuorumEpochRequest n2<n1, HandleFetchRequest n1<n2, HandleFetchResponse n2<n1
"""
COMMITTED = f"{ELECTED} HandleFetchRequest n1<n2"
WROTE = f"{COMMITTED}, Activate n1, HandleFetchResponse n2<n1, HandleFetchRequest n1<n2, HandleFetchResponse n2<n1"
DELAYED = f"{COMMITTED}, HandleFetchResponse n2<n1, HandleFetchRequest n1<n2"
FOLLOWS = f"""{COMMITTED}, HandleFetchResponse n2<n1, Resign n1, HandleEndQuorumEpochRequest n2<n1
    HandleVoteRequest n1<n2, HandleVoteResponse n2<n1, HandleVoteRequest n1<n2, HandleVoteResponse n2<n1
    HandleBeginQuorumEpochRequest n1<n2
"""
UPGRADED = f"""{COMMITTED}, SendUpdateVoter n2, HandleFetchResponse n2<n1, HandleUpdateVoterRequest n1<n2
    Upgrade n1, DescribeFeatures n1
"""
SNAPSHOTS = f"{WROTE}, HandleFetchRequest n1<n2, HandleFetchResponse n2<n1, TakeSnapshot n1 #1, TakeSnapshot n1 #1"
LOADED = f"""{SNAPSHOTS}
    HandleBeginQuorumEpochRequest n3<n1, HandleFetchRequest n1<n3, HandleFetchResponse n3<n1
    HandleFetchSnapshotRequest n1<n3, HandleFetchSnapshotResponse n3<n1
    HandleFetchSnapshotRequest n1<n3, HandleFetchSnapshotResponse n3<n1, HandleFetchRequest n1<n3
"""


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    path = driver_classpath("4.3.1")
    with Driver(path.java, path.text) as running:
        yield running


def fields(findings: list[LockstepFinding]) -> set[str]:
    return {found.field for finding in findings for found in finding.differences}


def test_the_variant_has_the_constants_of_all_its_parts() -> None:
    assert {"MaxFailedWrites", "MaxListeners", "SnapshotLimit", "MaxListings"} <= set(QuorumOfServers.constants)
    assert ListenersLearnByEpoch in with_known_kafka_differences(QuorumOfServers).__mro__
    assert (
        ListenersLearnByEpoch
        not in with_known_kafka_differences(QuorumOfServers, without=["listeners-learn-by-epoch"]).__mro__
    )
    assert ListenersLearnByEpoch not in with_known_kafka_differences(find_model("quorum").protocol).__mro__  # type: ignore[type-var]


def test_positions_in_bytes_are_numbers_of_batches() -> None:
    reader, one, two = SnapshotPieceConverter(bound(ROOM, kind=QuorumOfServers)), ModelValue("n1"), ModelValue("n2")
    plain = FetchSnapshotRequest(1, Position(3, 1), 1, one, two)
    first = reader.request(plain, 0)
    assert isinstance(first, PieceRequest)
    assert reader.part_of(first) == {"part": [1, 3]}
    whole = (1, 2, 3)  # stand for batches
    part = {"size": 100, "position": 0, "unalignedRecordsSizeInBytes": 33}
    assert reader.content(first, whole, part) == (1,)  # type: ignore[arg-type, comparison-overlap]
    assert [reader.request(plain, at).position for at in (0, 33, 66)] == [0, 1, 2]  # type: ignore[attr-defined]
    assert reader.request(plain.but(dest=one), 33).position == -1  # type: ignore[attr-defined]  # of another sender


@pytest.mark.kafka
@pytest.mark.slow
def test_a_snapshot_is_loaded_in_pieces(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    findings, cluster = drive(driver, bound(ROOM, kind=QuorumOfServers), LOADED)
    assert not findings
    assert cluster.replicas[ModelValue("n3")].start == 2
    monkeypatch.setattr(SnapshotPieceConverter, "part_of", lambda *_: {})  # Kafka then sends it whole
    walk = LOADED[: LOADED.index("HandleFetchSnapshotRequest n1<n3, HandleFetchSnapshotResponse n3<n1\n")]
    findings, _ = drive(driver, bound(ROOM, kind=QuorumOfServers), f"{walk} HandleFetchSnapshotRequest n1<n3")
    assert fields(findings) == {"FetchSnapshotResponse"}


@pytest.mark.kafka
@pytest.mark.slow
def test_snapshots_stay_until_the_log_is_cleaned(driver: Driver) -> None:
    findings, cluster = drive(driver, bound(ROOM, kind=QuorumOfServers), f"{SNAPSHOTS}, TakeSnapshot n1 #1")
    assert not findings
    kafka = cluster.replicas[ModelValue("n1")]
    assert (kafka.start, kafka.server.snapshots) == (1, (1, 2))


@pytest.mark.kafka
@pytest.mark.slow
def test_a_controller_writes_once_it_has_learned_that_it_leads(driver: Driver) -> None:
    findings, cluster = drive(driver, bound(ROOM, kind=QuorumOfServers), f"{COMMITTED}, Activate n1 #2")
    assert not findings
    assert cluster.replicas[ModelValue("n1")].mode is Mode.RESIGNED
    assert not cluster.replicas[ModelValue("n2")].server.claims


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("walk", [f"{COMMITTED}, RegisterListener n1, Resign n1", f"RegisterListener n1, {ELECTED}"])
def test_what_listeners_learn(walk: str, driver: Driver) -> None:
    findings, _ = drive(driver, bound(ROOM, kind=QuorumOfServers), walk)
    assert {name for found in findings for name in found.violated} <= {"ListenersKnowTheLeader"}
    assert not fields(findings)
    model = bound(ROOM, kind=QuorumOfServers, known=False)
    walk = walk if "Resign" in walk else walk[: walk.index("HandleBeginQuorumEpochRequest")]
    findings, _ = drive(driver, model, walk)
    assert "heard_of" in fields(findings)


@pytest.mark.kafka
@pytest.mark.slow
def test_a_controller_restarts_with_another_list_of_voters(driver: Driver) -> None:
    model = bound({**ROOM, "KRaftVersion": 0, "Listed": "{n1, n3}", "MaxLostDisks": 1}, kind=QuorumOfServers)
    findings, cluster = drive(driver, model, "ListVoters n1, ListVoters n2, LoseDisk n2")
    assert not findings
    voters = {voter.key.id for voter in cluster.replicas[ModelValue("n2")].voters}
    assert voters == {ModelValue("n1"), ModelValue("n3")}


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("end", ["ExpireFetch n1", "ClientAppend n1", "Resign n1"])
def test_a_leader_delays_a_fetch_without_news(end: str, driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    findings, cluster = drive(driver, bound(SOME, kind=QuorumOfServers), DELAYED)
    assert not findings
    (fetch,) = cluster.delayed(ModelValue("n1")).values()
    assert isinstance(fetch, InformedFetch)
    assert fetch.high_watermark == 1
    findings, cluster = drive(driver, bound(SOME, kind=QuorumOfServers), f"{DELAYED}, {end}, HandleFetchResponse n2<n1")
    assert not findings
    assert not cluster.delayed(ModelValue("n1"))
    monkeypatch.setattr(DelayedFetches, "waits", lambda *_: False)
    findings, _ = drive(driver, bound(SOME, kind=QuorumOfServers), DELAYED)
    assert fields(findings) == {"delayed", "FetchResponse"}


@pytest.mark.kafka
@pytest.mark.slow
def test_a_high_watermark_that_is_new_is_answered_at_once(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DelayedFetches, "is_informed", lambda *_: True)  # as before KIP-1166
    findings, _ = drive(driver, bound(SOME, kind=QuorumOfServers), COMMITTED)
    assert fields(findings) == {"delayed", "FetchResponse"}


@pytest.mark.kafka
@pytest.mark.slow
def test_a_resigned_leader_forgets_its_high_watermark(driver: Driver) -> None:
    assert not drive(driver, bound(SOME, kind=QuorumOfServers), FOLLOWS)[0]
    kind = with_known_kafka_differences(QuorumOfServers, without=["high-watermark-is-forgotten"])
    findings, _ = drive(driver, bound(SOME, kind=kind, known=False), FOLLOWS)
    assert fields(findings) == {"pending", "InformedFetch"}


@pytest.mark.kafka
@pytest.mark.slow
def test_a_version_is_reported_before_it_is_committed(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    upgrades = {**SOME, "KRaftVersion": 0, "MaxUpgrades": 1, "MaxUpdateVoters": 5, "InitialVoters": "{n1, n2}"}
    (finding,), cluster = drive(driver, bound(upgrades, kind=QuorumOfServers), UPGRADED)
    assert finding.violated == ("FinalizedIsCommitted",)
    assert cluster.replicas[ModelValue("n1")].server.read == 0
    kind = with_known_kafka_differences(QuorumOfServers, without=["uncommitted-version-reported"])
    findings, _ = drive(driver, bound(upgrades, kind=kind, known=False), UPGRADED)
    assert fields(findings) == {"reports"}
    monkeypatch.setattr(QuorumOfServers, "committed_version", lambda _, me: me.version if me.high_watermark else None)
    findings, _ = drive(driver, bound(upgrades, kind=QuorumOfServers), UPGRADED[: UPGRADED.index("DescribeFeatures")])
    assert "read_version" in fields(findings)

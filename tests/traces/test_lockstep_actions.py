"""Each of the model's actions beside Kafka. They need Java and Maven, which fetches Kafka's jars once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kraftcheck.kraft_model.quorum.records import (
    ADMIN,
    Batch,
    Change,
    Key,
    Mode,
    Nil,
    Operation,
    Replica,
    Shared,
    Voter,
    Voters,
)
from kraftcheck.kraft_model.quorum.variants.faults import SuccessorsById
from kraftcheck.lockstep.driver_commands import _added_or_removed_replica
from kraftcheck.lockstep.driver_process import Driver, DriverAnswer
from kraftcheck.lockstep.jars import driver_classpath
from kraftcheck.lockstep.lockstep import Lockstep, LockstepVerdict
from kraftcheck.spec import Map, ModelValue, State, Step
from kraftcheck.spec.language.semantics import Transition
from tests.support.lockstep import Preferring, bound, drive

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ELECTED = """
    ElectionTimeout n1, HandleVoteRequest n3<n1, HandleVoteResponse n1<n3, HandleVoteRequest n3<n1
    HandleVoteResponse n1<n3, HandleBeginQuorumEpochRequest n3<n1
"""
FETCHES = "HandleFetchRequest n1<n3, HandleFetchResponse n3<n1,"


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    path = driver_classpath("4.3.1")
    with Driver(path.java, path.text) as running:
        yield running


def test_a_replica_in_which_kafka_throws_is_down(driver: Driver) -> None:
    walk = ELECTED + FETCHES + FETCHES + "RemoveVoter n1 #2, HandleBeginQuorumEpochRequest n2<n1"
    (finding, broken), cluster = drive(driver, bound({"MaxRestarts": 0}, known=False), walk)
    assert finding.verdict is LockstepVerdict.FAILS
    assert "Unexpected acknowledgement from non-voter 2" in finding.problem
    assert (broken.verdict, broken.violated) == (LockstepVerdict.VIOLATES, ("NobodyFails",))
    modes = {str(host): replica.mode for host, replica in cluster.replicas.items()}
    assert modes == {"n1": Mode.DOWN, "n2": Mode.FOLLOWER, "n3": Mode.FOLLOWER, "n4": Mode.UNATTACHED}
    before = dict(cluster.in_flight)
    cluster.do("nothing", node=1)
    assert cluster.in_flight == before


def test_what_kafka_throws_is_told_where_nothing_else_differs(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = driver.ask

    def throwing(command: str, **arguments: object) -> DriverAnswer:
        more = {"error": "java.lang.IllegalStateException: seeded", "trace": []} if command == "append" else {}
        return ask(command, **arguments) | more

    monkeypatch.setattr(driver, "ask", throwing)
    (finding,), _ = drive(driver, bound({"MaxRestarts": 0}), ELECTED + FETCHES + "ClientAppend n1")
    assert (finding.verdict, finding.differences) == (LockstepVerdict.FAILS, ())
    assert "seeded" in finding.problem


def test_the_model_chooses_the_bootstrap_server(driver: Driver) -> None:
    asks = "FetchFromBootstrapServer n4, HandleFetchRequest n2<n4, HandleFetchResponse n4<n2,"
    walk = ELECTED + asks + asks + "FetchFromBootstrapServer n4 #2, HandleFetchRequest n3<n4, HandleFetchResponse n4<n3"
    findings, cluster = drive(driver, bound({"BootstrapServers": "{n2,n3}"}), walk)
    assert not findings
    (n4,) = [replica for host, replica in cluster.replicas.items() if str(host) == "n4"]
    (fetch,) = n4.pending
    assert (n4.mode, n4.held, str(fetch.dest)) == (Mode.FOLLOWER, False, "n1")  # type: ignore[attr-defined]


UPDATES = "SendUpdateVoter n3, HandleFetchRequest n1<n3, HandleFetchResponse n3<n1, HandleUpdateVoterRequest n1<n3,"
ANSWERED = "HandleUpdateVoterResponse n3<n1,"


def test_a_voter_tells_its_software_in_the_place_of_a_fetch(driver: Driver) -> None:
    settings: dict[str, object] = {"KRaftVersion": 0, "MaxUpdateVoters": 3, "MaxRestarts": 0}
    first = ELECTED + FETCHES + FETCHES
    findings, cluster = drive(driver, bound(settings), first + UPDATES + ANSWERED)
    assert not findings
    n1, _, n3, _ = cluster.replicas.values()
    assert sorted(str(voter) for voter in n1.heard) == ["n1", "n3"]
    assert n3.updated
    (finding,), _ = drive(driver, bound(settings, known=False), first + "SendUpdateVoter n3")
    assert {difference.field for difference in finding.differences} == {"UpdateVoterRequest"}


def test_an_upgrade(driver: Driver) -> None:
    settings: dict[str, object] = {
        "KRaftVersion": 0, "Hosts": "{n1,n3}", "InitialVoters": "{n1,n3}", "MaxUpdateVoters": 3, "MaxUpgrades": 1,
        "MaxRestarts": 0,
    }  # fmt: skip
    walk = ELECTED + FETCHES + FETCHES + UPDATES + ANSWERED + "Upgrade n1," + FETCHES
    findings, cluster = drive(driver, bound(settings), walk)
    assert not findings
    assert [(replica.version, len(replica.voters)) for replica in cluster.replicas.values()] == [(1, 2), (1, 2)]


FINDS = "FetchFromBootstrapServer n4, HandleFetchRequest n1<n4, HandleFetchResponse n4<n1,"
READS = "HandleFetchRequest n1<n4, HandleFetchResponse n4<n1,"


def test_a_controller_joins_by_itself(driver: Driver) -> None:
    settings: dict[str, object] = {"BootstrapServers": "{n1}", "AutoJoin": "TRUE", "MaxRestarts": 0}
    joins = """
        Join n4, HandleFetchRequest n1<n4, HandleFetchResponse n4<n1, HandleAddVoterRequest n1<n4
        HandleApiVersionsRequest n4<n1, HandleApiVersionsResponse n1<n4, HandleJoinResponse n4<n1
    """
    walk = ELECTED + FETCHES + FETCHES + FINDS + READS + READS + joins
    findings, cluster = drive(driver, bound(settings), walk)
    assert not findings
    n1, _, _, n4 = cluster.replicas.values()
    assert (len(n1.voters), len(n4.voters)) == (4, 3)
    assert not isinstance(n1.change, Nil)
    assert n1.change.offset == len(n1.log)  # answered, and pending all the same


def test_a_leader_that_lost_its_disk_dies_of_its_own_epoch(driver: Driver) -> None:
    settings: dict[str, object] = {"BootstrapServers": "{n2,n3}", "MaxLostDisks": 1, "MaxRestarts": 0}
    walk = ELECTED + "LoseDisk n1, FetchFromBootstrapServer n1 #2, HandleFetchRequest n3<n1, HandleFetchResponse n1<n3"
    findings, cluster = drive(driver, bound(settings), walk)
    assert [finding.violated for finding in findings] == [("NobodyFails",)]
    assert next(iter(cluster.replicas.values())).mode is Mode.DOWN


def test_a_new_controller_dies_when_a_leader_resigns(driver: Driver) -> None:
    settings: dict[str, object] = {"MaxLostDisks": 1, "MaxRestarts": 0}
    walk = ELECTED + "LoseDisk n3, Resign n1, HandleEndQuorumEpochRequest n3<n1"
    findings, cluster = drive(driver, bound(settings), walk)
    assert [finding.violated for finding in findings] == [("NobodyFails",)]
    assert [replica.mode for replica in cluster.replicas.values()][2] is Mode.DOWN


def test_a_voter_with_a_new_disk_is_asked_again_and_again(driver: Driver) -> None:
    settings: dict[str, object] = {"MaxLostDisks": 1, "MaxRestarts": 0}
    asked = "HandleVoteRequest n3<n1, HandleVoteResponse n1<n3,"
    asks = "LoseDisk n3, ElectionTimeout n1,"
    findings, _ = drive(driver, bound(settings), asks + asked + asked + asked)
    assert not findings
    (finding,), _ = drive(driver, bound(settings, known=False), asks + asked)
    assert finding.verdict is LockstepVerdict.DIFFERS


COMMON: dict[str, object] = {"BootstrapServers": "{n1,n2}", "PlainAnswers": "TRUE", "MaxRestarts": 2}


@pytest.mark.parametrize(
    ("settings", "actions"),
    [
        ({"MaxCrashes": 1, "MaxCuts": 3, "MaxExpirations": 5}, "Crash Cut Heal CheckQuorum ExpireOperation"),
        ({"MaxMovedEndpoints": 4, "MaxUpdateVoters": 9}, "MoveEndpoint SendUpdateVoter HandleUpdateVoterResponse"),
        ({"MaxDescriptions": 9, "MaxRefusals": 9}, "DescribeQuorum ReadAnswer AddVoter"),
        ({"MaxLostDisks": 3, "AutoJoin": "TRUE"}, "LoseDisk Join HandleRemoveVoterRequest HandleJoinResponse"),
        ({"OtherCluster": "{n4}"}, "FetchFromBootstrapServer HandleFetchRequest"),
        ({"MaxRetries": 9, "MaxUpdateVoters": 9}, "Retry RepeatBeginQuorumEpoch FetchFromBootstrapServer"),
    ],
)
def test_random_walks_agree(settings: dict[str, object], actions: str, driver: Driver) -> None:
    wanted = set(actions.split())
    lockstep = Lockstep(driver, bound({**COMMON, **settings}))
    for number in range(12):
        _, findings = lockstep.walk(Preferring(f"actions/{number}", wanted), 80)
        assert not [found for found in findings if found.verdict is not LockstepVerdict.VIOLATES]
    assert wanted <= set(lockstep.taken)


def test_a_leader_ends_before_its_first_record_is_in_its_log(driver: Driver) -> None:
    fails = ELECTED.rpartition("HandleVoteResponse")[0] + "HandleVoteResponse n1<n3 #2"
    findings, cluster = drive(driver, bound({}), fails)
    assert not findings
    n1 = next(iter(cluster.replicas.values()))
    assert (n1.mode, n1.epoch, str(n1.leader), n1.log) == (Mode.RESIGNED, 1, "n1", ())


def test_an_only_voter_that_ends_in_office_stands_again(driver: Driver) -> None:
    settings: dict[str, object] = {"Hosts": "{n1,n3}", "InitialVoters": "{n1,n3}"}
    walk = ELECTED + FETCHES * 3 + "RemoveVoter n1 #1," + FETCHES + "FetchTimeout n3 #2"
    findings, cluster = drive(driver, bound(settings), walk)
    assert not findings
    _, n3 = cluster.replicas.values()
    assert (n3.mode, n3.epoch, len(n3.log)) == (Mode.LEADER, 3, 3)


def test_the_order_of_successors_counts_but_for_equal_ones(driver: Driver) -> None:
    """n3 has fetched, and n2 has not: a model that prefers n2 is told from Kafka."""
    walk = ELECTED + FETCHES + "HandleFetchRequest n1<n3, Resign n1"
    findings, _ = drive(driver, bound({}), walk)
    assert findings == []
    (finding,), _ = drive(driver, bound({}, kind=SuccessorsById), walk)
    assert {(found.where, found.field) for found in finding.differences} == {(ModelValue("n1"), "preferred")}
    equal = ELECTED + "Resign n1"
    assert drive(driver, bound({}, kind=SuccessorsById), equal)[0] == []


def test_kafka_is_asked_what_the_model_was_asked_not_what_it_did() -> None:
    """A model that removes another voter than the one that is asked for is told from Kafka so."""
    n1, n2 = (ModelValue(f"n{number}", number) for number in (1, 2))
    asked = Key(n2, 2)
    voters = frozenset({Voter(Key(n1)), Voter(Key(n2))})
    before = Replica(n1, mode=Mode.LEADER, epoch=1, voters=voters)
    removed = Batch(1, (Voters(frozenset({Voter(Key(n1))})),))
    change = Change(Operation.REMOVE_VOTER, Nil.NIL, True, 1, ADMIN, asked)
    states = [
        State(replicas=Map({n1: me}), inboxes=Map({}), shared=Shared(), spent=Map({}))
        for me in (before, before.but(log=(removed,), change=change))
    ]
    assert _added_or_removed_replica(states[0], Transition("RemoveVoter", n1, None, Step(), states[1])) == asked

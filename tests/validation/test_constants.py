"""Fields that both ends of a message show alike: the model refuses a value that no cluster of Kafka has there."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command_line import Outcome, Run

CONFORMS = Path(__file__).parents[1] / "data" / "cluster" / "conforms"
OTHER_ID = "XXXrmUZKQLez9xiiAwF09w"

Change = Callable[[int, str], str]


@pytest.fixture
def validate(run: Run, tmp_path: Path) -> Callable[..., Outcome]:
    """Return the command on the sample, with the lines of each node changed; `more` follows a line of node 1."""

    def on(change: Change, more: tuple[str, str] = ("", "")) -> Outcome:
        for path in sorted(CONFORMS.glob("*.trace.log.gz")):
            node = int(path.name[4])
            lines = [change(node, line) for line in gzip.decompress(path.read_bytes()).decode().splitlines()]
            if node == 1 and more[0]:
                place = next(number for number, line in enumerate(lines) if more[0] in line)
                lines.insert(place + 1, more[1])
            (tmp_path / path.stem).write_text("\n".join([*lines, ""]))
        return run("validate", "quorum", tmp_path, "--quiet")

    return on


def in_messages(name: str, pattern: str, value: str, sender: str = "") -> Change:
    """Return the change of a field in all messages of a type; a request is changed where a response repeats it too."""

    def change(node: int, line: str) -> str:
        message = re.compile(rf"data={name}Data\((?:(?! to inbound request |, data=).)*")
        return message.sub(lambda m: re.sub(pattern, value, m[0]) if sender in m[0] else m[0], line)

    return change


CLUSTER_ID = r"(?<=clusterId=')[\w-]+"
FAULTS: dict[str, tuple[Change, str, str]] = {
    "cluster id of Vote": (in_messages("VoteRequest", CLUSTER_ID, OTHER_ID), "send Vote", "clusterId"),
    "cluster id of BeginQuorumEpoch": (
        in_messages("BeginQuorumEpochRequest", CLUSTER_ID, OTHER_ID),
        "send BeginQuorumEpoch",
        "clusterId",
    ),
    "cluster id of FetchSnapshot": (
        in_messages("FetchSnapshotRequest", CLUSTER_ID, OTHER_ID),
        "send FetchSnapshot",
        "clusterId",
    ),
    "cluster id of an observer": (
        in_messages("FetchRequest", CLUSTER_ID, OTHER_ID, "ReplicaState(replicaId=4,"),
        "answer Fetch",
        "errorCode  0      104",
    ),
    "topic of Fetch": (in_messages("FetchRequest", r"topicId=\w+", f"topicId={'Z' * 21}Q"), "send Fetch", "topicId"),
    "partition of Fetch": (in_messages("FetchRequest", "partition=0", "partition=7"), "send Fetch", "partition"),
    "topic of Vote": (in_messages("VoteRequest", "__cluster_metadata", "other"), "send Vote", "topicName"),
    "topic of FetchSnapshot": (
        in_messages("FetchSnapshotResponse", "__cluster_metadata", "other"),
        "answer FetchSnapshot",
        "name",
    ),
    "partition of BeginQuorumEpoch": (
        in_messages("BeginQuorumEpochResponse", "partitionIndex=0", "partitionIndex=9"),
        "answer BeginQuorumEpoch",
        "partitionIndex",
    ),
    "node of the leader's endpoint": (in_messages("FetchResponse", "nodeId=1", "nodeId=2"), "answer Fetch", "nodeId"),
    "endpoint of BeginQuorumEpoch": (
        in_messages("BeginQuorumEpochRequest", "port=29093", "port=29091", "voterId=2,"),
        "send BeginQuorumEpoch",
        "port",
    ),
    "position of FetchSnapshot": (
        in_messages("FetchSnapshotRequest", "position=0", "position=5"),
        "send FetchSnapshot",
        "position",
    ),
    "size of a snapshot": (
        in_messages("FetchSnapshotResponse", "size=754", "size=755", "@641731e3"),
        "answer FetchSnapshot",
        "size",
    ),
    "position of the response": (
        in_messages("FetchSnapshotResponse", "position=0", "position=5"),
        "answer FetchSnapshot",
        "position",
    ),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", FAULTS)
def test_a_change_at_both_ends_is_found(name: str, validate: Callable[..., Outcome]) -> None:
    change, event, says = FAULTS[name]
    done = validate(change)
    assert done.code == 1, done
    assert f"  {event}: is" in done.out
    assert f"    {says}" in done.out


@pytest.mark.parametrize(("kind", "where"), [("set of voters", 36), ("kraft.version", 36), ("set of voters", 64)])
def test_a_record_is_at_its_offset(kind: str, where: int, validate: Callable[..., Outcome]) -> None:
    def change(node: int, line: str) -> str:
        moved = node == 2 and f"Latest {kind}" in line
        return line.replace(f"at offset {where} ", f"at offset {where + 30} ") if moved else line

    done = validate(change)
    assert done.code == 1, done
    assert "is at another offset than the record" in done.out or "another value than the model's" in done.out


# A request that no log shows as sent: of a broker


def refused_fetch(cluster: str, topic: str, partition: int, error: int) -> str:
    """Return the lines of a fetch of node 9 and of its response without partitions, from the first fetch of node 4."""
    lines = gzip.decompress((CONFORMS / "node1.trace.log.gz").read_bytes()).decode().splitlines()
    found = [line for line in lines if "FetchRequestData(" in line and "ReplicaState(replicaId=4," in line][:2]
    assert ["Received inbound" in found[0], "Sent response" in found[1]] == [True, True]
    text = "\n".join(found).replace("replicaId=4,", "replicaId=9,").replace("partition=0", f"partition={partition}")
    text = re.sub(CLUSTER_ID, cluster, re.sub(r"topicId=\w+", f"topicId={topic}", text))
    response = f"FetchResponseData(throttleTimeMs=0, errorCode={error}, sessionId=0, responses=[], nodeEndpoints=[]))"
    return re.sub(r"FetchResponseData\(.*(?= to inbound request )", response, text)


OWN_ID, TOPIC = "PyWrmUZKQLez9xiiAwF09w", "AAAAAAAAAAAAAAAAAAAAAQ"
REFUSALS = {
    "another cluster": (OTHER_ID, TOPIC, 0, 104),
    "another topic": (OWN_ID, "ZZZZZZZZZZZZZZZZZZZZZQ", 0, 42),
    "another partition": (OWN_ID, TOPIC, 7, 42),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_of_another_cluster_or_partition_conforms(name: str, validate: Callable[..., Outcome]) -> None:
    cluster, topic, partition, right = REFUSALS[name]
    behind = "Sent response OutboundResponse(correlationId=4, data=FetchSnapshotResponseData("
    for error, code in ((right, 0), (0, 1)):
        done = validate(lambda node, line: line, (behind, refused_fetch(cluster, topic, partition, error)))
        assert done.code == code, done

"""What is read of Kafka's messages: each field that is another makes another message, but for those named here."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from kraftcheck.kraft_model.quorum.records import ADMIN, FetchRequest, FetchSnapshotRequest, Key, Position, VoteRequest
from kraftcheck.lockstep.messages import MessageConverter, ReplicaLogs, UnmappedMessage
from kraftcheck.spec import ModelValue

N1, N2, N3 = hosts = [ModelValue(f"n{number}", number) for number in (1, 2, 3)]
OWN = {number: f"AAAAAAAAAA{letter}AAAAAAAAAAQ" for number, letter in ((1, "E"), (2, "I"), (3, "M"))}
AT_N3 = {"host": "n3", "port": 9991}
TOPIC = {"topicName": "__cluster_metadata"}
LEADS = {"leaderId": 3, "leaderEpoch": 2}
LOG = [
    {"base": 0, "next": 3, "epoch": 1, "records": [{"leader": 1}, {"version": 1}, {"voters": []}]},
    {"base": 3, "next": 4, "epoch": 2, "records": [{"leader": 3}]},
]
VOTED = VoteRequest(1, True, Key(N3, 1), Key(N1, 1), 0, 0, N3, N1)
FETCHED = FetchRequest(2, 1, 1, 1, N1, N3)
ASKED = FetchSnapshotRequest(2, Position(2, 2), 1, N1, N3)


def of_partition(part: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the form that most messages have."""
    return {**more, "topics": [{**TOPIC, "partitions": [{"partitionIndex": 0, **part}]}]}


SAMPLES: dict[str, tuple[dict[str, Any], Any, str]] = {
    "VOTE": (
        of_partition(
            {"replicaEpoch": 1, "replicaId": 3, "replicaDirectoryId": OWN[3], "voterDirectoryId": OWN[1],
             "lastOffsetEpoch": 2, "lastOffset": 4, "preVote": True}, clusterId="lockstep", voterId=1,
        ), None, "clusterId topicName partitionIndex",
    ),
    "VOTE answer": (
        of_partition({"errorCode": 0, **LEADS, "voteGranted": True}, nodeEndpoints=[{"nodeId": 3, **AT_N3}]),
        VOTED, "topicName partitionIndex",
    ),
    "BEGIN_QUORUM_EPOCH": (
        of_partition({"voterDirectoryId": OWN[1], **LEADS}, clusterId="lockstep", voterId=1, leaderEndpoints=[AT_N3]),
        None, "clusterId topicName partitionIndex",
    ),
    "END_QUORUM_EPOCH": (
        of_partition({**LEADS, "preferredCandidates": [{"candidateId": 2, "candidateDirectoryId": OWN[2]}]}),
        None, "topicName partitionIndex",
    ),
    "FETCH": (
        {"clusterId": "lockstep", "replicaState": {"replicaId": 3, "replicaEpoch": -1}, "maxWaitMs": 0, "topics": [
            {"partitions": [{"partition": 0, "currentLeaderEpoch": 2, "fetchOffset": 4, "lastFetchedEpoch": 2,
                             "replicaDirectoryId": OWN[3], "highWatermark": 3}]}]},
        None, "clusterId replicaEpoch maxWaitMs partition highWatermark",
    ),
    "FETCH answer": (
        {"errorCode": 0, "responses": [{"partitions": [
            {"errorCode": 0, "highWatermark": 3, "logStartOffset": 0, "currentLeader": LEADS,
             "divergingEpoch": {"epoch": 1, "endOffset": 3}, "snapshotId": {"endOffset": 4, "epoch": 2}}]}],
         "nodeEndpoints": [{"nodeId": 3, **AT_N3}]},
        FETCHED, "errorCode logStartOffset",  # the outer error: the whole request is refused without responses
    ),
    "FETCH_SNAPSHOT": (
        of_partition({"currentLeaderEpoch": 2, "snapshotId": {"endOffset": 4, "epoch": 2}, "position": 0,
                      "replicaDirectoryId": OWN[3]}, replicaId=3),
        None, "topicName partitionIndex position",
    ),
    "FETCH_SNAPSHOT answer": (
        of_partition({"errorCode": 0, "snapshotId": {"endOffset": 4, "epoch": 2}, "currentLeader": LEADS},
                     nodeEndpoints=[{"nodeId": 3, **AT_N3}]),
        ASKED, "topicName partitionIndex",
    ),
    "UPDATE_RAFT_VOTER": (
        {"clusterId": "lockstep", "currentLeaderEpoch": 2, "voterId": 3, "voterDirectoryId": OWN[3],
         "listeners": [AT_N3], "kRaftVersionFeature": {"minSupportedVersion": 0, "maxSupportedVersion": 1}},
        None, "clusterId host minSupportedVersion",
    ),
    "UPDATE_RAFT_VOTER answer": ({"errorCode": 0, "currentLeader": {**LEADS, **AT_N3}}, FETCHED, ""),
    "DESCRIBE_QUORUM answer": (
        of_partition({"errorCode": 0, **LEADS, "highWatermark": 4, "currentVoters": [
            {"replicaId": 3, "replicaDirectoryId": OWN[3], "logEndOffset": 4}], "observers": [
            {"replicaId": 2, "replicaDirectoryId": OWN[2]}]}, nodes=[{"nodeId": 3, "listeners": [AT_N3]}]),
        None, "topicName partitionIndex logEndOffset host",
    ),
}  # fmt: skip
"""By message: its data, the request that it answers, and the fields of which the model has none."""


def leaves(value: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the places of what is neither an object nor an array."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, *path, key)
    else:
        yield path


def changed(data: Any, path: tuple[Any, ...]) -> Any:
    """Return data with one leaf changed."""
    data = copy.deepcopy(data)
    *way, last = path
    place = data
    for key in way:
        place = place[key]
    old = place[last]
    if isinstance(old, bool):
        place[last] = not old
    elif isinstance(old, int):
        place[last] = old - 1
    else:
        place[last] = "n1" if last == "host" else OWN[2] if old != OWN[2] else OWN[1]
    return data


@pytest.mark.parametrize("name", SAMPLES)
def test_every_field_counts(name: str) -> None:
    api, answer, _ = f"{name} ".partition(" answer")
    data, request, left_out = SAMPLES[name]
    book = ReplicaLogs({1: N1, 2: N2, 3: N3, 0: ADMIN})
    for node in (1, 2, 3):
        book.note(node, {"start": 0, "log": LOG})
    reader = MessageConverter({1: N1, 2: N2, 3: N3, 0: ADMIN}, book, lambda node: 2)

    def read(data: Any) -> object:
        found = {"api": api.strip(), "answer": bool(answer), "from": 3, "to": 1, "data": data, "batches": []}
        return reader.read(found, request)

    message = read(data)
    assert not isinstance(message, UnmappedMessage)
    ignored = {str(path[-1]) for path in leaves(data) if read(changed(data, path)) == message}
    assert ignored == set(left_out.split())

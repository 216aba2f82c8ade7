"""How fast the logs of a cluster are validated, early and late in a log, and in how much memory.

    python benchmarks/validation.py [--events 1000000]

The logs begin as those of three real controllers. Then the leader appends a batch again and again, and its followers
fetch it, in the lines that Kafka writes. The output has the whole rate and the shares of parsing, pairing and replay.
It also compares the rate of the replay in the last tenth of the events with that in the first.
"""

from __future__ import annotations

import argparse
import gzip
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from kraftcheck.reporting.as_json import peak_memory_bytes
from kraftcheck.validation.cluster import prepare_log_replay
from kraftcheck.validation.events import Event
from kraftcheck.validation.log4j import events_of_lines

SAMPLE = Path(__file__).parents[1] / "tests" / "data" / "cluster" / "conforms"
CUT = {1: 665, 2: 232, 3: 251}
"""Lines of each log up to a moment at which both followers wait for the leader's next batch."""

END, RAFT_IDS, CONNECTION_IDS = 78, {2: 41, 3: 45}, {2: 43, 3: 47}
CREATED = {2: 1795612818584, 3: 1795612818623}
"""At that moment, the log end, and the two ids and the receipt of each follower's last fetch."""

EVENTS_A_BATCH = 24

DIRECTORIES = {2: "oqLuLKVKKcEnshB0pyUXuQ", 3: "unngf6KlryzSGTDZkvZNCg"}
CLIENT = "org.apache.kafka.raft.KafkaRaftClient"
TOPIC = "topicId=AAAAAAAAAAAAAAAAAAAAAQ"


def line(node: int, level: str, text: str) -> str:
    return f"[2026-11-25 13:20:20,000] {level} [RaftManager id={node}] {text} ({CLIENT})"


def fetch(node: int, offset: int, high: int) -> str:
    return (
        f"FetchRequestData(clusterId='PyWrmUZKQLez9xiiAwF09w', replicaId=-1, replicaState=ReplicaState("
        f"replicaId={node}, replicaEpoch=-1), maxWaitMs=500, minBytes=0, maxBytes=1048576, isolationLevel=0, "
        f"sessionId=0, sessionEpoch=-1, topics=[FetchTopic(topic='', {TOPIC}, partitions=[FetchPartition(partition=0, "
        f"currentLeaderEpoch=1, fetchOffset={offset}, lastFetchedEpoch=1, logStartOffset=-1, partitionMaxBytes=0, "
        f"replicaDirectoryId={DIRECTORIES[node]}, highWatermark={high})])], forgottenTopicsData=[], rackId='')"
    )


def response(high: int, size: int) -> str:
    return (
        f"FetchResponseData(throttleTimeMs=0, errorCode=0, sessionId=0, responses=[FetchableTopicResponse(topic='', "
        f"{TOPIC}, partitions=[PartitionData(partitionIndex=0, errorCode=0, highWatermark={high}, "
        f"lastStableOffset=-1, logStartOffset=0, divergingEpoch=EpochEndOffset(epoch=-1, endOffset=-1), "
        f"currentLeader=LeaderIdAndEpoch(leaderId=1, leaderEpoch=1), snapshotId=SnapshotId(endOffset=-1, epoch=-1), "
        f"abortedTransactions=[], preferredReadReplica=-1, records=MemoryRecords(size={size}, "
        f"buffer=java.nio.HeapByteBuffer[pos=0 lim={size} cap={size}]))])], nodeEndpoints=[NodeEndpoint(nodeId=1, "
        f"host='127.0.0.1', port=29091, rack=null)])"
    )


class Follower:
    """The ids of a follower's fetches, which its lines and the leader's show."""

    def __init__(self, node: int) -> None:
        self.node = node
        self.raft_id = RAFT_IDS[node]
        self.connection_id = CONNECTION_IDS[node]
        self.created = CREATED[node]

    def inbound(self, offset: int, high: int) -> str:
        return (
            f"InboundRequest(listenerName=ListenerName(CONTROLLER), correlationId={self.connection_id}, apiVersion=18, "
            f"data={fetch(self.node, offset, high)}, createdTimeMs={self.created})"
        )

    def answered(self, offset: int, high: int, told: int, size: int) -> str:
        sent = f"OutboundResponse(correlationId={self.connection_id}, data={response(told, size)})"
        return line(1, "TRACE", f"Sent response {sent} to inbound request {self.inbound(offset, high)}")

    def received(self, told: int, size: int) -> str:
        found = (
            f"InboundResponse(correlationId={self.raft_id}, data={response(told, size)}, "
            f"source=127.0.0.1:29091 (id: 1 rack: null isFenced: false))"
        )
        return line(self.node, "TRACE", f"Received inbound message {found}")

    def sends(self, offset: int, high: int) -> str:
        self.raft_id += 1
        self.connection_id += 1
        self.created = 1795612820000
        sent = (
            f"OutboundRequest(correlationId={self.raft_id}, data={fetch(self.node, offset, high)}, "
            f"createdTimeMs=1795612820000, destination=127.0.0.1:29091 (id: 1 rack: null isFenced: false))"
        )
        return line(self.node, "TRACE", f"Sent outbound request: {sent}")


def batch(end: int, followers: list[Follower]) -> Iterator[tuple[int, str]]:
    """Yield the lines in which a batch is appended at an offset, fetched and committed, each with its node."""
    new = f"OffsetAndEpoch[offset={end + 1}, epoch=1]"
    yield 1, line(1, "TRACE", f"Leader appended records at base offset {end}, new end offset is {new}")
    for one in followers:
        key = f"ReplicaKey(id={one.node}, directoryId={DIRECTORIES[one.node]})"
        yield 1, line(1, "TRACE", f"Completing delayed fetch from {key} starting at offset {end} at 1795612820000")
        yield 1, one.answered(end, end, end, 72)
        yield one.node, one.received(end, 72)
        yield one.node, line(one.node, "TRACE", f"Follower end offset updated to {new} after append")
        yield one.node, one.sends(end + 1, end)
    for one in followers:
        yield 1, line(1, "TRACE", f"Received inbound message {one.inbound(end + 1, end)}")
        if one is followers[0]:
            metadata = f"LogOffsetMetadata(offset={end + 1}, metadata=Optional[(segmentBaseOffset=0)])"
            yield 1, line(1, "DEBUG", f"Leader high watermark updated to {metadata}")
        yield 1, one.answered(end + 1, end, end + 1, 0)
        yield one.node, one.received(end + 1, 0)
        yield one.node, line(one.node, "DEBUG", f"Follower high watermark updated to {end + 1}")
        yield one.node, one.sends(end + 1, end + 1)
        yield 1, line(1, "TRACE", f"Received inbound message {one.inbound(end + 1, end + 1)}")


def logs(events: int) -> dict[int, list[str]]:
    """Return the lines of three nodes."""
    found: dict[int, list[str]] = {}
    for node, lines in CUT.items():
        with gzip.open(SAMPLE / f"node{node}.trace.log.gz", "rt") as log:
            found[node] = [text.rstrip("\n") for _, text in zip(range(lines), log, strict=False)]
    followers = [Follower(2), Follower(3)]
    for end in range(END, END + events // EVENTS_A_BATCH):
        for node, text in batch(end, followers):
            found[node].append(text)
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000, metavar="N")
    options = parser.parse_args()
    texts = logs(options.events)
    size = sum(len(text) for lines in texts.values() for text in lines)
    times = [time.process_time()]
    parsed: dict[int, Sequence[Event]] = {}
    for node in list(texts):
        parsed[node] = list(events_of_lines(texts.pop(node), f"node{node}.log"))
    times.append(time.process_time())
    replay = prepare_log_replay(parsed)
    times.append(time.process_time())
    total = sum(map(len, parsed.values()))
    marks = [(0, times[-1])]
    for units, _ in enumerate(replay.run()):
        if units % 1000 == 0:
            marks.append((sum(replay.explained.values()), time.process_time()))
    times.append(time.process_time())
    parsing, pairing, replaying = (after - before for before, after in pairwise(times))
    seconds = times[-1] - times[0]
    print(
        f"{total:,} events, {size / 2**20:,.0f} MiB: {seconds:.1f} s, {total / seconds:,.0f} events/s; "
        f"parsing {parsing / seconds:.0%}, pairing {pairing / seconds:.0%}, replay {replaying / seconds:.0%}"
    )
    outcome = "conforms" if replay.divergence is None else f"diverges at {replay.divergence.event.place}"
    print(f"{outcome}; peak memory {peak_memory_bytes() / 2**20:,.0f} MiB, with the text of the logs")
    early, late = rate(marks, 0, total / 10), rate(marks, total * 9 / 10, total)
    print(f"replay: {early:,.0f} events/s in the first tenth, {late:,.0f} in the last: {late / early:.2f}")


def rate(marks: list[tuple[int, float]], begin: float, end: float) -> float:
    """Return the events a second between two numbers of events."""
    within = [mark for mark in marks if begin <= mark[0] <= end] or [(0, 0.0)]
    (first, start), (last, stop) = within[0], within[-1]
    return (last - first) / (stop - start) if stop > start else float("nan")


if __name__ == "__main__":
    main()

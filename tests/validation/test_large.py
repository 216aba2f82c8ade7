"""Large and hostile inputs: bounded memory, linear time, one message."""

from __future__ import annotations

import gzip
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from kraftcheck.validation import sources
from kraftcheck.validation.log4j import events_of_lines
from tests.support.command_line import Run

DATA = Path(__file__).parents[1] / "data" / "cluster"
OTHER = b"[2026-11-25 13:19:44,%03d] INFO [Broker id=1] Transitioning partition topic-%d to online (kafka.server)\n"

READ = """
import resource, sys, time
from pathlib import Path
from kraftcheck.spec.errors import InputError
from kraftcheck.validation.sources import read_cluster_logs
for path in sys.argv[1:]:
    began = time.process_time()
    try:
        read_cluster_logs([Path(path)])
    except InputError as problem:
        print(time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, problem, sep="|")
"""


@pytest.mark.slow
def test_memory_is_bounded_and_time_is_linear(tmp_path: Path) -> None:
    """Read lines that are no raft lines, a file of one line, and a gzip bomb, of two sizes each."""
    block = gzip.compress(b"".join(OTHER % (number % 1000, number) for number in range(10_000)))
    one = gzip.compress(b"x" * (1 << 20))
    files = []
    for name, part, few, many in (("lines", block, 2, 32), ("line", one, 8, 256), ("bomb", gzip.compress(one), 1, 1)):
        for count in (few, many):
            files.append(tmp_path / f"{name}{count}.log.gz")
            start = OTHER % (0, 0) if name == "line" else b""
            files[-1].write_bytes((gzip.compress(start) if start else b"") + part * count)
    done = subprocess.run([sys.executable, "-c", READ, *files], capture_output=True, text=True, check=True)
    found = [line.split("|") for line in done.stdout.splitlines()]
    assert len(found) == len(files), done.stderr
    spent, peak = ([float(row[place]) for row in found] for place in (0, 1))
    assert spent[1] < 32 * spent[0]
    assert peak[1] - peak[0] < 8 << 10  # kilobytes
    assert peak[3] < peak[0] + (160 << 10)
    assert "found none in 320,000 lines" in found[1][2]
    assert "expected a line of at most 33,554,432 bytes, found a longer one" in found[3][2]


HOSTILE = {
    "levels": "] A " * 250_000,
    "correlation ids": "Sent response OutboundResponse(data=FetchResponseData() to inbound request "
    + "correlationId=1" * 60_000,
    "scalars": "Sent response OutboundResponse(data=FetchResponseData(" + "throttleTimeMs=1" * 60_000,
    "quotes": "Sent response OutboundResponse(data=FetchResponseData(" + "clusterId='" * 60_000,
    "servers": "Starting request manager " + "a" * 1_000_000,
    "voters": "Latest set of voters is "
    + "voterKey=ReplicaKey(id=1, directoryId=a), listeners=Endpoints(endpoints={" * 14_000
    + " at offset 1",
    "endpoints": "Latest set of voters is voterKey=ReplicaKey(id=1, directoryId=a), listeners=Endpoints(endpoints={"
    + "ListenerName(" * 80_000
    + "}) at offset 1",
    "names": "Received inbound message InboundRequest(data=FetchRequestData(" + "a" * 1_000_000,
    "records": "Received inbound message InboundRequest(data=FetchRequestData(" + ", records=A(size=1" * 50_000,
    "digits": "Completed transition to LeaderState(epoch=1, " + "1" * 4_000 + "a" * 1_000_000 + " from null",
    "votes": "Completed transition to UnattachedState(epoch=1, " + "votedKey=Optional[" * 50_000 + " from null",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_line_takes_linear_time(name: str) -> None:
    """It takes a second at most; a quadratic expression takes minutes."""
    line = f"[2026-11-25 13:19:44,696] TRACE [RaftManager id=1] {HOSTILE[name]} (org.apache.kafka.raft.KafkaRaftClient)"
    began = time.thread_time()
    list(events_of_lines([line], "x.log"))
    assert time.thread_time() - began < 10


def test_events_are_bounded_by_memory(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.setattr(sources, "machine_memory_bytes", lambda: 1000 * sources.MEMORY_BYTES_AN_EVENT)
    done = run("validate", "quorum", DATA / "conforms")
    assert done.code == 2
    assert (
        "expected at most 1,000 events, for which there is memory, found more; limit them by --from, --to" in done.err
    )
    assert run("validate", "quorum", DATA / "conforms", "--to", "2026-11-25T13:20:00", "--quiet").code == 0


def test_a_segment_is_recognized_by_its_content(run: Run, tmp_path: Path) -> None:
    with tarfile.open(DATA / "disks.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    whole = tmp_path / "d2" / "__cluster_metadata-0" / "00000000000000000037.log"
    copy = tmp_path / "copy.of.a.segment"
    copy.write_bytes(whole.read_bytes())
    for path in (whole, copy):
        done = run("validate", "quorum", path, "--monitors")
        assert done.code == 0, done
        assert "offsets 37 to 240, 202 batches" in done.out
    other = tmp_path / "d1" / "__cluster_metadata-0" / "00000000000000000000.log"
    done = run("validate", "quorum", whole, other, DATA / "node1.info.log.gz", "--monitors")
    assert done.code == 0, done
    assert "checks of 2 disks" in done.out
    data = bytearray(copy.read_bytes())
    data[len(data) // 2] ^= 1
    copy.write_bytes(data)
    assert run("validate", "quorum", copy, "--quiet").code == 12

"""The stream of events as NDJSON: written and read with the same verdict, as its JSON Schema says."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from kraftcheck.spec.errors import InputError
from kraftcheck.validation.event_stream import event_as_json, json_schema, read_event_stream, write_event_stream
from kraftcheck.validation.events import Event
from kraftcheck.validation.sources import read_cluster_logs
from tests.support.command_line import Run

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data" / "cluster"
SAMPLES = ("agent", "caught-up", "conforms", "followers-grant-pre-votes", "vote-not-written")
CHECKER = jsonschema.Draft202012Validator(json_schema())
LOG = '{"event":"log","time":1,"level":"INFO","text":"[RaftManager id=7] Fully truncated the log to 5"}'
PLACE = ("file", "line", "text")
MESSAGE = {"event": "request", "time": 1, "api": "Vote", "correlation": 0, "fields": {}}


def verdict(run: Run, folder: Path, *arguments: Any) -> dict[str, Any]:
    """Return the result of a validation without files and lines."""
    path = folder / "found.json"
    done = run("validate", "quorum", *arguments, "--json", path, "--quiet")
    found = json.loads(path.read_text())
    assert found["exit_code"] == done.code
    divergence = {name: one for name, one in (found["divergence"] or {}).items() if name not in PLACE}
    kept = ("result", "exit_code", "kafka", "missing", "events", "explained", "found_steps", "open", "broken")
    storms = [storm["requests"] for storm in found["storms"]]
    return {name: found[name] for name in kept} | {"divergence": divergence, "storms": storms}


def test_the_schema_is_that_of_the_reader() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())
    assert json.loads((ROOT / "docs" / "validate-events.schema.json").read_text()) == json_schema()


@pytest.mark.slow
@pytest.mark.parametrize("sample", SAMPLES)
def test_a_written_stream_has_the_same_verdict(sample: str, run: Run, tmp_path: Path) -> None:
    stream = tmp_path / "events.ndjson"
    expected = verdict(run, tmp_path, DATA / sample, "--events", stream)
    assert verdict(run, tmp_path, stream) == expected
    monitored = [verdict(run, tmp_path, path, "--monitors")["result"] for path in (DATA / sample, stream)]
    assert monitored[0] == monitored[1]


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize("sample", ["vote-not-written", "node1.info.log.gz", "node4.trace.log.gz"])
def test_every_event_is_written_and_read(sample: str, tmp_path: Path) -> None:
    stream = tmp_path / "events.ndjson"
    sources = read_cluster_logs([DATA / sample])
    write_event_stream(sources.written, list(sources.versions), stream)
    again = read_cluster_logs([stream])
    assert list(again.versions) == list(sources.versions)
    for events, others in zip(sources.written, again.written, strict=True):
        assert list(map(bare, events)) == list(map(bare, others))
    for line in stream.read_text().splitlines()[::40]:
        CHECKER.validate(json.loads(line))


def bare(event: Event) -> dict[str, Any]:
    return event_as_json(event) | {"file": "", "line": 0}


def read(*lines: Any) -> list[Event]:
    return list(read_event_stream([one if isinstance(one, str) else json.dumps(one) for one in lines], "s.ndjson"))


def test_the_agent_follows_the_schema() -> None:
    for line in gzip.decompress((DATA / "agent" / "node1.ndjson.gz").read_bytes()).splitlines()[::10]:
        CHECKER.validate(json.loads(line))


def test_inner_objects_of_a_message_may_be_nested() -> None:
    inner = {"replicaId": 2, "replicaDirectoryId": "x"}
    plain = {"clusterId": "c", "topics": [{"topicName": "m", "partitions": [inner]}]}
    flat = [{"clusterId": "c", "topicName": "m"}, inner]
    one, other = read({**MESSAGE, "fields": plain}, {**MESSAGE, "fields": flat})
    assert one.body == other.body
    assert one.body.values == ("'c'", "'m'", "2", "x")
    assert one.peer == 2


def test_a_line_of_a_log_is_an_event() -> None:
    (event,) = read(LOG)
    assert (event.node, event.kind, event.body, event.line) == (7, "replaced", 5, 1)


def test_the_unfinished_line_of_a_killed_process_is_left_out() -> None:
    again = f'{{"seq":6,"time":1,"ev{LOG.replace("{", chr(123) + chr(34) + "seq" + chr(34) + ":0,")}'
    assert [event.line for event in read(LOG, again, LOG[:30])] == [1, 2]


BAD = {
    "{": "expected a JSON object on one line, found none",
    "[1]": "expected an object with the name of an event in event, found [1]",
    '{"event":"vote","time":1}': "expected an object with the name of an event in event, found 'vote'",
    '{"event":"truncated","time":-1,"offset":1}': "expected an integer from 0 to 35184372088831 in time, found -1",
    '{"event":"truncated","time":1}': "expected a value in offset, found nothing",
    '{"event":"truncated","time":1,"offset":true}': "in offset, found True",
    '{"event":"truncated","time":1,"offset":1,"ofset":2}': "expected one of the fields event, time, ",
    '{"event":"voters","time":1,"offset":0,"voters":[{"id":1}]}': "expected a value in voters.directory, found nothing",
    '{"event":"transition","time":1,"state":{"mode":"Down"}}': "one of the modes Unattached, ",
    '{"event":"request","time":1,"correlation":0,"api":"Vote","fields":3}': "an array of objects in fields, found 3",
    '{"event":"request","time":1,"correlation":0,"api":"Vote","fields":' + "[" * 50 + "]" * 50 + "}": "an object",
    '{"event":"request","time":1,"correlation":0,"api":"Vote","fields":[{"a":' + "[" * 99999: "found none",
    '{"event":"truncated","time":1,"offset":' + "9" * 9999 + "}": "found none",
    '{"event":"log","time":1,"level":"x","text":""}': "expected one of TRACE, ",
}


@pytest.mark.parametrize("line", BAD, ids=lambda line: line[:40])
def test_another_line_is_named(line: str) -> None:
    with pytest.raises(InputError) as raised:
        read(LOG, line, LOG)
    message = str(raised.value)
    assert message.startswith("s.ndjson:2: ")
    assert BAD[line] in message
    assert "\n" not in message
    assert len(message) < 400


def test_a_stream_is_recognized_by_its_content(run: Run, tmp_path: Path) -> None:
    stream = tmp_path / "anything.txt"
    stream.write_text('{"time":1, "event": "boot"}\n')
    assert f"{stream}:1: expected a line with [RaftManager id=N]" in run("validate", "quorum", stream).err
    stream.write_text('{"time":1, "event": "boot", "node": 1, "extra": 2}\n')
    done = run("validate", "quorum", stream)
    assert done.code == 2
    assert f"{stream}:1: expected one of the fields " in done.err


def test_an_input_is_not_overwritten(run: Run, tmp_path: Path) -> None:
    log = tmp_path / "node1.log"
    log.write_bytes(gzip.decompress((DATA / "node1.info.log.gz").read_bytes()))
    before = log.read_bytes()
    done = run("validate", "quorum", log, "--events", log)
    assert done.code == 2
    assert f"--events {log}: this file is an input; give another file" in done.err
    assert log.read_bytes() == before


@pytest.mark.slow
def test_a_changed_field_of_a_stream_is_found_at_its_line(run: Run, tmp_path: Path) -> None:
    stream = tmp_path / "events.ndjson"
    sources = read_cluster_logs([DATA / "conforms"])
    write_event_stream(sources.written, [], stream)
    lines = stream.read_text().splitlines()
    place = next(n for n in answers(lines) if '"voteGranted":true' in lines[n])
    lines[place] = lines[place].replace('"voteGranted":true', '"voteGranted":false')
    stream.write_text("\n".join(lines) + "\n")
    done = run("validate", "quorum", stream, "--quiet")
    assert done.code == 1, done
    assert f"{stream}:{place + 1}, node " in done.out
    assert re.search(r"voteGranted +false +true", done.out)


def answers(lines: list[str]) -> Iterator[int]:
    return (number for number, line in enumerate(lines) if '"event":"answer"' in line)

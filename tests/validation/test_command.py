"""`kraftcheck validate quorum`: verdicts on samples of real clusters, forms of input, bad input."""

from __future__ import annotations

import gzip
import json
import re
import shlex
import tarfile
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from operator import itemgetter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from tests.support.command_line import Outcome, Run
from tests.support.readme import consoles, lacking

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data" / "cluster"
PAGE = (ROOT / "docs" / "validate.md").read_text()
HONEST, CAUGHT_UP, VOTE, PRE_VOTES = (
    DATA / name for name in ("conforms", "caught-up", "vote-not-written", "followers-grant-pre-votes")
)
TIME = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\]")


@pytest.fixture
def validate(run: Run) -> Callable[..., Outcome]:
    return lambda *arguments: run("validate", "quorum", *arguments)


def text(path: Path) -> str:
    return gzip.decompress(path.read_bytes()).decode()


def logs(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.trace.log.gz"))


def saved(folder: Path, texts: Iterable[tuple[str, str]]) -> Path:
    for name, content in texts:
        (folder / name).write_text(content)
    return folder


# Verdicts


@pytest.mark.parametrize("folder", [HONEST, CAUGHT_UP], ids=lambda path: path.name)
def test_an_honest_run_conforms(folder: Path, validate: Callable[..., Outcome], tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    done = validate(folder, "--json", path)
    assert done.code == 0, done
    found = json.loads(path.read_text())
    assert found["result"] == "conforms"
    assert found["exit_code"] == 0
    assert found["kafka"] == ["4.3.0"]
    assert sum(found["explained"].values()) == found["events"] > 2000
    assert done.out.startswith(f"conforms: {found['events']:,} of {found['events']:,} events of")
    assert "steps without a line: " in done.out


@pytest.mark.parametrize(
    ("arguments", "place", "says"),
    [
        ((CAUGHT_UP, "--without", "caught-up-within-the-hour"), "node1.trace.log.gz:814, node 1", "voters"),
        ((VOTE,), "node1.trace.log.gz:1102, node 1", "transition"),
        ((PRE_VOTES,), "node2.trace.log.gz:380, node 2", "answer Vote"),
    ],
    ids=lambda value: value[0].name if isinstance(value, tuple) else "",
)
def test_a_fault_is_found_at_its_line(
    arguments: tuple[Any, ...], place: str, says: str, validate: Callable[..., Outcome], tmp_path: Path
) -> None:
    path = tmp_path / "found.json"
    done = validate(*arguments, "--quiet", "--json", path)
    assert done.code == 1, done
    first, where, what, *_ = done.out.splitlines()
    assert first.startswith("diverges: ")
    assert place in where
    assert what.strip().startswith(says)
    found = json.loads(path.read_text())["divergence"]
    assert place.startswith(f"{Path(found['file']).name}:{found['line']}, node {found['node']}")
    assert found["differences"]
    assert "org.apache.kafka.raft" in found["text"]


def test_a_missing_log_of_a_voter_is_inconclusive(validate: Callable[..., Outcome]) -> None:
    done = validate(*logs(HONEST)[1:3], "--quiet")
    assert done.code == 20, done
    assert "  open: node 1, a voter: no log of it shows messages" in done.out


@pytest.mark.slow
def test_a_missing_log_of_an_observer_is_said(validate: Callable[..., Outcome]) -> None:
    done = validate(*logs(HONEST)[:3])
    assert done.code == 0, done
    assert "Note: node 4, an observer: no log of it shows messages" in done.out


def test_info_and_disks_show_no_steps(validate: Callable[..., Outcome]) -> None:
    info = sorted(DATA.glob("*.info.log.gz"))
    for arguments, checks in (
        (info, "checks of 3 nodes"),
        ([DATA / "disks.tar.gz"], "checks of 3 disks"),
        ([*info, DATA / "disks.tar.gz"], "checks of 3 disks"),
    ):
        assert validate(*arguments).code == 20
        done = validate(*arguments, "--monitors")
        assert done.code == 0, done
        assert done.out.startswith("nothing broken: ")
        assert checks in done.out


def test_a_broken_check_has_its_own_code(validate: Callable[..., Outcome], tmp_path: Path) -> None:
    path = tmp_path / "found.xml"
    done = validate(*sorted(VOTE.glob("*.info.log.gz")), "--junit", path)
    assert done.code == 12, done
    assert "broken: restarts: node 1 restarts in epoch 1" in done.out
    suite = ElementTree.parse(path).getroot()
    (failed,) = [case for case in suite if case.find("failure") is not None]
    assert failed.get("name") == "logs: restarts"
    assert suite.get("failures") == "1"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("command", "shown"), consoles(PAGE))
def test_a_command_of_the_page_prints_its_lines(
    command: str, shown: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    done = run(*shlex.split(command.removeprefix("kraftcheck ")))
    lines = [line.removesuffix("...").rstrip() for line in shown.splitlines()]
    assert lacking("\n".join(lines), done.out) == [], done


# Files of the result


@pytest.mark.slow
def test_the_json_follows_its_schema(validate: Callable[..., Outcome], tmp_path: Path) -> None:
    schema = json.loads((ROOT / "docs" / "validate.schema.json").read_text())
    path = tmp_path / "found.json"
    for arguments in (
        [HONEST, DATA / "disks.tar.gz", "--monitors"],
        [VOTE, "--monitors"],
        [*logs(HONEST)[1:3]],
        [DATA / "disks.tar.gz"],
    ):
        done = validate(*arguments, "--json", path, "--quiet")
        found = json.loads(path.read_text())
        jsonschema.validate(found, schema)
        assert found["exit_code"] == done.code
        assert set(found) == {*schema["required"], *schema["else"]["required"]}
        assert bool(found["open"]) == (done.code == 20)
    for arguments in ((tmp_path / "nosuch",), (VOTE, "--kafka", "nonsense")):
        assert validate(*arguments, "--json", path).code == 2
        found = json.loads(path.read_text())
        jsonschema.validate(found, schema)
        assert found["result"] == "error"
    assert found["error"] == "argument --kafka: expected a version such as 4.3.1, found 'nonsense'"


@pytest.mark.slow
def test_a_version_of_kafka_may_be_newer_or_a_build(validate: Callable[..., Outcome]) -> None:
    for version in ("9.9", "4.5.0-SNAPSHOT"):
        assert f"Kafka {version}\n" in validate(VOTE, "--monitors", "--quiet", "--kafka", version).out


@pytest.mark.slow
def test_the_page_shows_the_life_of_the_cluster(validate: Callable[..., Outcome], tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    assert validate(PRE_VOTES, "--report", path).code == 1
    page = path.read_text()
    assert page.count('class="head"') == 3
    assert "AddRaftVoter</text>" in page
    assert "Candidate, epoch 1</text>" in page
    last = page.rpartition("<circle")[2]
    assert ">answer Vote: is another response than the model&#x27;s</text>" in last
    assert validate(DATA / "node1.info.log.gz", "--report", path).code == 20
    assert "rows in order of time" in path.read_text()
    assert "ends in .html" in validate(PRE_VOTES, "--report", tmp_path / "page.md").err


@pytest.mark.slow
def test_names_in_a_log_are_escaped_in_the_page(validate: Callable[..., Outcome], tmp_path: Path) -> None:
    hostile = "OutboundResponse(<script>alert(1)</script>\x1b[2J, correlationId=65, data=Vote"
    content = text(PRE_VOTES / "node2.trace.log.gz").replace("OutboundResponse(correlationId=65, data=Vote", hostile)
    (tmp_path / "node2.log").write_text(content)
    path = tmp_path / "page.html"
    done = validate(*(PRE_VOTES / f"node{node}.trace.log.gz" for node in (1, 3)), tmp_path, "--report", path)
    assert done.code == 1, done
    assert "\x1b" not in done.out
    page = path.read_text()
    assert page.count("<script>") == 1
    assert "&lt;script&gt;" in page
    assert "\x1b" not in page


@pytest.mark.slow
def test_the_table_has_every_event(validate: Callable[..., Outcome], tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "events.parquet"
    assert validate(HONEST, "--parquet", path, "--json", tmp_path / "found.json").code == 0
    rows = parquet.read_table(path).to_pylist()
    assert len(rows) == json.loads((tmp_path / "found.json").read_text())["events"]
    sent = next(row for row in rows if row["kind"] == "send" and row["api"] == "Vote")
    assert "preVote=true" in sent["body"]
    assert sent["file"].endswith(f"node{sent['node']}.trace.log.gz")


# Forms of input


@pytest.mark.slow
def test_order_clocks_and_pieces_change_no_verdict(validate: Callable[..., Outcome], tmp_path: Path) -> None:
    def skewed(content: str, node: int) -> str:
        def moved(found: re.Match[str]) -> str:
            time = datetime.fromisoformat(found[1].replace(",", ".")) + timedelta(milliseconds=500 * node)
            return f"[{time:%Y-%m-%d %H:%M:%S},{time.microsecond // 1000:03}]"

        return TIME.sub(moved, content)

    whole = validate(HONEST, "--quiet").out
    assert validate(*reversed(logs(HONEST)), "--quiet").out == whole
    names = {path: path.name.partition(".")[0] for path in logs(HONEST)}
    texts = {name: skewed(text(path), int(name[-1])) for path, name in names.items()}
    assert validate(saved(tmp_path, ((f"{name}.log", one) for name, one in texts.items())), "--quiet").out == whole
    for name, one in texts.items():  # rotated: the current piece has the plain name
        lines = one.splitlines(keepends=True)
        (tmp_path / f"{name}.log").write_text("".join(lines[400:]))
        (tmp_path / f"{name}.log.1").write_bytes(gzip.compress("".join(lines[200:400]).encode()))
        (tmp_path / f"{name}.log.2").write_text("".join(lines[:200]))
    assert validate(tmp_path, "--quiet").out == whole
    archive = tmp_path / "all.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for path in sorted(tmp_path.glob("node*")):
            tar.add(path, path.name)
    assert validate(archive, "--quiet").out == whole


def test_a_lost_piece_is_a_gap(validate: Callable[..., Outcome], tmp_path: Path) -> None:
    lines = text(HONEST / "node2.trace.log.gz").splitlines(keepends=True)
    saved(tmp_path, [("a.log", "".join(lines[:300])), ("c.log", "".join(lines[420:]))])
    done = validate(*(path for path in logs(HONEST) if path.name[4] != "2"), tmp_path)
    assert done.code == 20, done
    assert "lines of node 2 are missing before this one" in done.out
    assert "open: node 2: lines are missing or changed between " in done.out


@pytest.mark.parametrize(("node", "lines", "said"), [(1, 1360, "lines of node 1 are"), (2, 580, "is broken after ")])
def test_a_log_that_was_copied_earlier_is_inconclusive(
    node: int, lines: int, said: str, validate: Callable[..., Outcome], tmp_path: Path
) -> None:
    """The other nodes go on with messages of its missing end; what they then break is no fault of theirs."""
    name = f"node{node}.trace.log"
    whole = text(HONEST / f"{name}.gz").splitlines(keepends=True)
    saved(tmp_path, [(name, "".join(whole[:lines]))])
    done = validate(*(path for path in logs(HONEST) if path.name[4] != str(node)), tmp_path)
    assert done.code == 20, done
    assert said in done.out


def test_a_log_that_begins_late_is_replayed_from_its_first_start(
    validate: Callable[..., Outcome], tmp_path: Path
) -> None:
    lines = text(HONEST / "node2.trace.log.gz").splitlines(keepends=True)
    late = tmp_path / "late.log"
    late.write_text("".join(lines[300:]))
    done = validate(HONEST / "node1.trace.log.gz", late, "--to", "2026-11-25T13:20:30")
    assert done.code == 20, done
    assert f"node 2, a voter: its log begins in the life of a process, at {late}:1;" in done.out


@pytest.mark.slow
def test_a_copy_is_read_once(validate: Callable[..., Outcome], tmp_path: Path) -> None:
    copy = tmp_path / "copy.log"
    copy.write_text(text(HONEST / "node1.trace.log.gz"))
    done = validate(HONEST, copy)
    assert done.code == 0, done
    assert "read once" in done.out


@pytest.mark.slow
def test_a_file_of_several_nodes_is_split(validate: Callable[..., Outcome], tmp_path: Path) -> None:
    path = saved(tmp_path, [("all.log", "".join(map(text, logs(HONEST))))]) / "all.log"
    done = validate(path)
    assert done.code == 0, done
    assert f"Note: {path}: has the lines of nodes 1, 2, 3, 4" in done.out


def test_a_file_with_alternating_lines_of_several_nodes_is_refused(
    validate: Callable[..., Outcome], tmp_path: Path
) -> None:
    records = [(line[:25], line) for path in logs(HONEST) for line in text(path).splitlines(keepends=True)]
    merged = "".join(line for time, line in sorted(records, key=itemgetter(0)) if time.startswith("[2026"))
    path = saved(tmp_path, [("all.log", merged)]) / "all.log"
    done = validate(path)
    assert done.code == 2, done
    assert f"{path}:1: expected [RaftManager id=N] where lines of nodes 1, 2, 3, 4 alternate, found none; " in done.err


@pytest.mark.slow
def test_a_byte_order_mark_hides_no_line(validate: Callable[..., Outcome], tmp_path: Path) -> None:
    marked = saved(tmp_path, [(path.name.removesuffix(".gz"), "\ufeff" + text(path)) for path in logs(HONEST)])
    assert validate(marked, "--quiet").out == validate(*logs(HONEST), "--quiet").out


@pytest.mark.slow
def test_the_pattern_and_the_node_of_a_file(validate: Callable[..., Outcome], tmp_path: Path) -> None:
    content = re.sub(r"(?m)^\[(.*?)\] (\w+) (.*)$", r"\2 \1 - \3", text(HONEST / "node1.trace.log.gz"))
    path = saved(tmp_path, [("one.log", content)]) / "one.log"
    done = validate(path)
    assert done.code == 2
    assert f"{path}:1: expected a line of log4j in the pattern [%d] %p %m (%c)%n, found " in done.err
    done = validate("--pattern", "%p %d - %m (%c)%n", "--node", f"1={path}", "--quiet")
    assert done.code == 20, done
    assert re.match(r"inconclusive: ([\d,]+) of \1 events of 1 node explained; Kafka 4.3.0\n", done.out)


@pytest.mark.slow
def test_the_console_repeats_the_parts_of_a_log(validate: Callable[..., Outcome], tmp_path: Path) -> None:
    """`kafkaServer.out` has the lines since the last start, and `server.log` is rotated."""
    for path in logs(HONEST):
        lines = text(path).splitlines(keepends=True)
        one, two = len(lines) // 3, 2 * len(lines) // 3
        parts = {"server.log.2": lines[:one], "server.log.1": lines[one:two], "server.log": lines[two:]}
        parts["kafkaServer.out"] = lines[one // 2 :]
        folder = tmp_path / path.name
        folder.mkdir()
        saved(folder, ((name, "".join(part)) for name, part in parts.items()))
    done = validate(tmp_path)
    assert done.out.startswith("conforms: 3,189 of 3,189 events")
    assert re.search(r"server.log: repeats \d+ events of .*kafkaServer.out; read once", done.out)


@pytest.mark.slow
def test_a_part_without_messages_is_read_in_its_place(validate: Callable[..., Outcome], tmp_path: Path) -> None:
    texts = {path.name.removesuffix(".gz"): text(path).splitlines() for path in logs(HONEST)}
    lines = texts.pop("node3.trace.log")
    end = max(place for place, line in enumerate(lines) if "Completed transition" in line) + 1
    parts = {"3.log.2": lines[: end - 2], "3.log.1": lines[end - 2 : end], "3.log": lines[end:]}
    folder = saved(tmp_path, ((name, "\n".join([*lines, ""])) for name, lines in {**texts, **parts}.items()))
    assert validate(folder, "--quiet").out.startswith("conforms: 3,189 of 3,189 events")
    (folder / "3.log.3").write_text(TIME.sub("[2026-11-25 23:00:00,000]", "\n".join(parts["3.log.1"])) + "\n")
    done = validate(folder, "--quiet")
    assert (done.code, "3.log.3:2, node 3" in done.out) == (1, True)


def test_files_without_dates_have_no_order(validate: Callable[..., Outcome], tmp_path: Path) -> None:
    lines = re.sub(r"(?m)^\[\S+ ", "[", text(HONEST / "node1.trace.log.gz")).splitlines(keepends=True)
    parts = ("".join(lines[len(lines) // 2 :]), "".join(lines[: len(lines) // 2]))
    done = validate(saved(tmp_path, zip(("server.log", "server.log.1"), parts, strict=True)))
    assert done.code == 2
    assert "server.log.1:1: expected a date and a time, which order the files of node 1, found" in done.err
    (tmp_path / "server.log").write_text("".join(lines))
    (tmp_path / "server.log.1").unlink()
    assert "inconclusive: 1,251 of 1,251 events of 1 node explained" in validate(tmp_path, "--quiet").out


@pytest.mark.slow
def test_a_client_without_an_id_may_fetch(validate: Callable[..., Outcome], tmp_path: Path) -> None:
    """So does a shell that reads the metadata."""
    texts = {path.name.removesuffix(".gz"): text(path).splitlines() for path in logs(HONEST)}
    lines = texts["node1.trace.log"]
    place = next(place for place, line in enumerate(lines) if "Sent response" in line and "FetchResponse" in line)
    for line in reversed(lines[place - 1 : place + 1]):
        other = line.replace("ReplicaState(replicaId=3, ", "ReplicaState(replicaId=-1, ")
        other = re.sub(r"(replicaDirectoryId=)[\w-]{22}", rf"\1{22 * 'A'}", other)
        lines.insert(place + 1, re.sub(r"createdTimeMs=\d+", "createdTimeMs=1", other))
    folder = saved(tmp_path, ((name, "\n".join([*lines, ""])) for name, lines in texts.items()))
    assert validate(folder, "--quiet").out.startswith("conforms: 3,191 of 3,191 events")


@pytest.mark.parametrize("other", [r"data=FetchResponse.*partitionIndex=0", "data=FetchResponse.*responses=..,"])
def test_a_response_answers_a_request_of_its_api(other: str, validate: Callable[..., Outcome], tmp_path: Path) -> None:
    texts = {path.name.removesuffix(".gz"): text(path).splitlines() for path in logs(DATA / "stopping")}
    lines = texts["node2.trace.log"]
    received = [place for place, line in enumerate(lines) if "Received inbound message InboundResponse" in line]
    place = next(place for place in received if "EndQuorumEpochResponse" in lines[place])
    fetched = next(lines[place] for place in received if re.search(other, lines[place]))
    correlation = re.search(r"correlationId=\d+", lines[place])
    assert correlation is not None
    lines[place] = re.sub(r"correlationId=\d+", correlation[0], fetched, count=1)
    folder = saved(tmp_path, ((name, "\n".join([*lines, ""])) for name, lines in texts.items()))
    assert "answers a request of another API" in validate(folder, "--quiet").out


# Bad input


@pytest.mark.slow
def test_a_log_in_utf_16_is_named(validate: Callable[..., Outcome], tmp_path: Path) -> None:
    first, *others = [(path.name.removesuffix(".gz"), text(path)) for path in logs(HONEST)]
    folder = saved(tmp_path, others)
    said = f"{folder / first[0]}: expected a log in UTF-8, found text in UTF-16; convert it by iconv -f UTF-16"
    for code in ("utf-16", "utf-16-le"):
        (folder / first[0]).write_bytes(first[1].encode(code))
        assert f"open: a log was left out: {said}" in validate(folder).out
        assert validate(folder / first[0]).err == f"kraftcheck: error: {said}\n"


def test_a_log_that_is_left_out_is_no_unbroken_one(validate: Callable[..., Outcome], tmp_path: Path) -> None:
    logs = {f"node{node}.info.log": text(DATA / "vote-not-written" / f"node{node}.info.log.gz") for node in (1, 2, 3)}
    folder = saved(tmp_path, [*logs.items(), ("log4j2.yaml", "- name: org.apache.kafka.raft\n  level: TRACE\n")])
    broken = validate(folder, "--monitors", "--quiet")
    assert broken.code == 12
    first = folder / "node1.info.log"
    for damage in ("\0" * 100_000, logs[first.name][:200] + "\0" * 9):
        first.write_text(damage + logs[first.name])
        assert validate(folder, "--monitors", "--quiet").code == 12
    for change in (("[", "Nov 25 13:47:41 host java[1]: ["), ("[", '{"log":"['), ("[RaftManager id=1]", "[Raft]")):
        first.write_text(logs[first.name].replace(*change))
        done = validate(folder, "--monitors", "--quiet")
        assert done.code == 20
        assert f"open: a log was left out: {first}:" in done.out
    first.unlink()
    assert validate(folder, "--monitors", "--quiet").code == 0


@pytest.mark.slow
def test_bad_input_is_one_message(validate: Callable[..., Outcome], tmp_path: Path) -> None:
    whole = (HONEST / "node1.trace.log.gz").read_bytes()
    files = {
        "cut.log.gz": (whole[:20000], "cut.log.gz: cannot be read: its gzip stream ends too early"),
        "bad.log.gz": (b"\x1f\x8b" + whole[5:], "bad.log.gz: cannot be read: "),
        "foreign.log": (b"hello\n", "foreign.log:1: expected a line of log4j in the pattern"),
        "empty.log": (b"", "empty.log: expected a log, found an empty file"),
        "binary.log": (b"a\0b", "binary.log: expected a log4j file, found binary data"),
        "agent.json": (b'{"n":0}\n', "agent.json:1: expected a log4j file or a stream of events "),
        "quiet.log": (b"[2026-11-25 13:19:44,696] INFO hello (a.b)\n", "quiet.log:1: expected lines of org.apache"),
        "nameless.log": (
            b"[2026-11-25 13:19:44,696] INFO [RaftLog partition=p] Truncated to offset 3 from end 4 (a.b)\n",
            "nameless.log:1: expected a line with [RaftManager id=N], found none; name the node by --node ID=",
        ),
    }
    for name, (content, message) in files.items():
        (tmp_path / name).write_bytes(content)
        done = validate(tmp_path / name)
        assert done.code == 2, done
        assert message in done.err
        assert len(done.err.splitlines()) == 1
    for arguments, message in (
        ((), "PATH: expected logs or disks of a cluster, found none"),
        ((tmp_path / "none",), "not found; name a log file"),
        ((HONEST, "--known", "nothing"), "unknown difference nothing"),
        ((HONEST, "--from", "noon"), "--from noon: expected a time"),
        ((HONEST, "--from", "2026-11-25", "--to", "2026-11-24"), "--to 2026-11-24: expected a time after --from 2026"),
        ((HONEST, "--pattern", ""), "--pattern '': found no %d; expected a log4j pattern"),
        ((HONEST, "--node", "one"), "--node one: expected a node's id and a path"),
        ((HONEST, "--to", "2020-01-01"), "found neither between --from and --to"),
    ):
        done = validate(*arguments)
        assert done.code == 2, done
        assert message in done.err


@pytest.mark.slow
def test_a_long_file_is_not_held(validate: Callable[..., Outcome], tmp_path: Path) -> None:
    bomb = tmp_path / "long.log.gz"
    with gzip.open(bomb, "wb", compresslevel=1) as file:
        file.write(b"[2026-11-25 13:19:44,696] INFO hello (a.b)\n")
        for _ in range(64):
            file.write(b"x" * (1 << 20))
    done = validate(bomb)
    assert done.code == 2
    assert "long.log.gz:2: expected a line of at most" in done.err
    assert validate(bomb, "--max-size", "1M").code == 2


def test_a_limit_of_time_is_inconclusive(validate: Callable[..., Outcome]) -> None:
    done = validate(HONEST, "--time-limit", "0.000001", "--quiet")
    assert done.code == 20, done
    assert "--time-limit 1e-06 stopped the replay" in done.out


@pytest.mark.slow
def test_files_of_the_agent_are_recognized(validate: Callable[..., Outcome]) -> None:
    done = validate(HONEST.parent / "agent")
    assert done.code == 0, done
    assert "conforms: " in done.out
    assert ", state 187, " in done.out


def test_the_setup_is_printed(validate: Callable[..., Outcome]) -> None:
    done = validate("--print-setup")
    assert done.code == 0
    assert "--entity-type broker-loggers" in done.out

"""`kraftcheck replay`: exit codes, the report, the JSON, bad input."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from tests.support.tlc import TLC, text_of

FOLDER = TLC / "counterexamples"
UNKNOWN = "is not evaluated: Reconfig has no property NoJoinedVoter"
JOINED = ("replay", "reconfig", "--config", FOLDER / "joined.cfg")


@pytest.fixture
def parts() -> list[str]:
    """Return a log of TLC's, cut before each state."""
    return re.split(r"(?m)^(?=State \d+:)", text_of("counterexamples/joined.out"))


def written(path: Path, parts: list[str]) -> Path:
    path.write_text("".join(parts))
    return path


def test_conforming(run, tmp_path) -> None:
    files = [FOLDER / f"joined.{form}.gz" for form in ("out", "v215.out", "tla", "json")]
    outcome = run(*JOINED, *files, "--json", tmp_path / "result.json")
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert "has no property NoJoinedVoter; nothing depends on it here" in lines[0]
    assert lines[1] == f"{files[0]}: conforms, 11 steps; a violation of NoJoinedVoter {UNKNOWN}"
    assert lines[3:] == [f"{files[2]}: conforms, 11 steps", f"{files[3]}: conforms, 11 steps", "4 traces: 4 conform"]
    found = json.loads((tmp_path / "result.json").read_text())
    assert [entry["file"] for entry in found] == [str(file) for file in files]
    for entry in found:
        assert (entry["index"], entry["steps"], entry["result"]) == (0, 11, "conforms")
        assert (entry["diverged_at"], entry["reason"], entry["notes"]) == (None, None, [])
        assert entry["actions"] == found[0]["actions"]
        assert len(entry["actions"]) == 11
    assert found[0]["actions"][0] == "StartNewServer"
    assert found[0]["violated"] == "NoJoinedVoter"


def test_diverging(run, tmp_path, parts) -> None:
    parts[5] = parts[5].replace("/\\ highWatermark = ( [diskId |-> 0, host |-> n1] :> 1", "/\\ highWatermark = "
                                "( [diskId |-> 0, host |-> n1] :> 2", 1)  # fmt: skip
    file = written(tmp_path / "changed.out", parts)
    outcome = run(*JOINED, file, "--json", tmp_path / "result.json")
    assert (outcome.code, outcome.err) == (1, "")
    lines = outcome.out.splitlines()[1:]
    assert lines[0] == f"{file}: diverges at state 5 (line 327)"
    assert lines[1].startswith("  state 5 does not follow from state 4 by SendFetchRequest; the nearest step of that")
    assert [line.split() for line in lines[2:4]] == [
        ["where", "in", "the", "trace", "by", "the", "protocol"],
        ["highWatermark[n1]", "2", "1"],
    ]
    assert lines[4] == "  enabled in state 4"
    (found,) = json.loads((tmp_path / "result.json").read_text())
    assert (found["result"], found["diverged_at"], found["steps"], found["line"]) == ("diverges", 5, 11, 327)
    assert len(found["actions"]) == 3
    assert found["differences"] == [{"path": "highWatermark[n1]", "trace": "2", "protocol": "1"}]
    assert found["enabled"]["SendFetchRequest"] == ["by n2", "by n1/1"]
    assert found["reason"].endswith("that has highWatermark[n1] = 1 (in the trace: 2)")
    quiet = run(*JOINED, file, "--quiet")
    assert (quiet.code, len(quiet.out.splitlines())) == (1, 3)


def test_why_the_named_action_is_not_enabled(run, tmp_path, parts) -> None:
    parts[5] = parts[5].replace("<SendFetchRequest", "<RequestVote")
    outcome = run(*JOINED, written(tmp_path / "changed.out", parts))
    assert outcome.code == 1
    assert "RequestVote is not enabled:" in outcome.out
    assert "nothing is left of elections: MaxElections = 0" in outcome.out


def test_several_traces_in_one_log(run, tmp_path, parts) -> None:
    changed = "".join(parts[1:]).replace("<SendJoinRequest", "<AcceptJoinRequest")
    file = written(tmp_path / "log", ["".join(parts), "Error: Invariant Small is violated.\n", changed])
    outcome = run(*JOINED, file, "--json", tmp_path / "result.json")
    assert outcome.code == 1
    found = json.loads((tmp_path / "result.json").read_text())
    assert [(entry["index"], entry["result"]) for entry in found] == [(0, "conforms"), (1, "diverges")]
    assert f"{file}, trace 2: diverges at state" in outcome.out
    assert outcome.out.splitlines()[-1] == "2 traces: 1 conform, 1 diverge"


def test_one_that_cannot_be_read_among_several(run, tmp_path) -> None:
    (tmp_path / "empty").write_text("")
    good = FOLDER / "joined.out.gz"
    outcome = run(*JOINED, tmp_path / "empty", good, "--json", tmp_path / "result.json")
    assert outcome.code == 1
    assert outcome.err.startswith(f"kraftcheck: error: {tmp_path / 'empty'}:1:1: expected a trace")
    found = json.loads((tmp_path / "result.json").read_text())
    assert [entry["result"] for entry in found] == ["unreadable", "conforms"]
    assert found[0]["reason"] in outcome.err
    assert run(*JOINED, tmp_path / "empty", tmp_path / "missing").code == 2


BAD = {
    "in the middle of a value": (lambda text: text[: text.index("State 3") + 700], r":\d+:\d+: expected .*, found "),
    "a log without a trace": (lambda text: text[: text.index("Error:")], r":5:1: expected a trace .*end of the file"),
    "another specification": (
        lambda text: text.replace("/\\ role = ", "/\\ rule = "),
        r":7:1: expected the variables of Reconfig, found a state without role and with rule",
    ),
    "a value of another kind": (
        lambda text: text.replace("/\\ _electionCtr = 0", "/\\ _electionCtr = <<0>>"),
        r":\d+:19: expected a number for _electionCtr in state 1, found <<0>>",
    ),
    "a character that is no TLA+": (
        lambda text: text.replace("[diskId |-> 0", "[diskId |-> ?", 1),
        r":8:27: expected a value, found '\?'",
    ),
    "another encoding": (lambda text: text.replace("n1", "n\xe9", 1).encode("latin-1"), r"found the byte 0xe9"),
    "UTF-16": (lambda text: text.encode("utf-16"), r":1:1: expected text in UTF-8, found the byte 0xff"),
    "100,000 brackets": (
        lambda text: text.replace("/\\ _electionCtr = 0", "/\\ _electionCtr = " + "<<" * 100_000 + ">>" * 100_000, 1),
        r":\d+:\d+: expected a value of at most 200 levels, found one that is deeper",
    ),
    "a number without end": (
        lambda text: text.replace("/\\ _electionCtr = 0", "/\\ _electionCtr = " + "9" * 2_000_000, 1),
        r":\d+:\d+: expected .*1,?000 digits",
    ),
    "a damaged gzip": (lambda text: gzip.compress(text.encode())[:-400], r":\d+:\d+: expected .*gzip"),
    "a gzip that is not": (lambda text: b"\x1f\x8b" + text.encode(), r":\d+:\d+: expected .*gzip"),
    "binary": (lambda text: bytes(range(256)) * 99, r":\d+:\d+: expected "),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_bad_input(run, tmp_path, what: str) -> None:
    damage, message = BAD[what]
    content = damage(text_of("counterexamples/joined.out"))
    (tmp_path / "bad.out").write_bytes(content if isinstance(content, bytes) else content.encode())
    outcome = run(*JOINED, tmp_path / "bad.out", "--quiet")
    assert outcome.code == 2, outcome
    assert re.search(f"{re.escape(str(tmp_path / 'bad.out'))}.*(?:{message})", outcome.err), outcome.err
    assert outcome.err.count("\n") == 1
    assert len(outcome.err) < 1_000


def test_lines_may_end_in_crlf(run, tmp_path) -> None:
    (tmp_path / "crlf.out").write_bytes(text_of("counterexamples/joined.out").replace("\n", "\r\n").encode())
    assert run(*JOINED, tmp_path / "crlf.out").code == 0


def test_a_line_of_200_mb(run, tmp_path) -> None:
    with (tmp_path / "long.out").open("w") as file:
        file.write("Error: x\nState 1: <Initial predicate>\n/\\ log = <<")
        for _ in range(200):
            file.write("1, " * 350_000)
    outcome = run(*JOINED, tmp_path / "long.out")
    assert outcome.code == 2
    assert "long.out:3:1: expected a line of at most 33,554,432 bytes, found a longer line" in outcome.err


@pytest.mark.slow
def test_a_gzip_that_unpacks_to_far_more(run, tmp_path) -> None:
    text = "TLC2 Version 2.15\n" + "Semantic processing of module Raft\n" * 1_000_000
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(text.encode()))
    outcome = run(*JOINED, tmp_path / "bomb.gz", "--max-size", "1M")
    assert outcome.code == 2
    assert "expected at most 1,048,576 bytes, unpacked (--max-size raises the limit)" in outcome.err
    good = FOLDER / "joined.out.gz"
    assert run(*JOINED, good, "--max-size", "10K").code == 2
    assert run(*JOINED, good, "--max-size", "1M").code == 0


def test_a_dump_is_no_trace(run) -> None:
    outcome = run(*JOINED, TLC / "dumps" / "two-voters.dump.gz", TLC / "dumps" / "two-voters.dot.gz")
    assert outcome.code == 2
    assert "expected a trace, found the states of a model (TLC -dump)" in outcome.err
    assert "expected a trace, found a state graph (TLC -dump dot)" in outcome.err


def test_settings_and_variants(run, tmp_path) -> None:
    trace = FOLDER / "joined.out.gz"
    assert run(*JOINED, trace, "--set", "MaxValuesPerEpoch=2").code == 0
    none = run(*JOINED, trace, "--set", "MaxAddReconfigs=0")
    assert none.code == 1
    assert "SendJoinRequest is not enabled:" in none.out
    assert run(*JOINED, trace, "--variant", "observer-stands").code == 0
    assert run(*JOINED, trace, "--variant", "nonsense").code == 2
    assert run("replay", "reconfig", trace, "--config", tmp_path / "none.cfg").code == 2
    assert run(*JOINED).code == 2


def test_unknown_properties_are_warnings_and_nothing_else_is(run, tmp_path) -> None:
    text = (FOLDER / "joined.cfg").read_text()
    (tmp_path / "more.cfg").write_text(f"{text}\nPROPERTY Gone\nSPECIFICATION LivenessSpec".replace("INIT Init", ""))
    (tmp_path / "more.cfg").write_text((tmp_path / "more.cfg").read_text().replace("NEXT Next", ""))
    outcome = run("replay", "reconfig", "--config", tmp_path / "more.cfg", FOLDER / "joined.out.gz")
    assert outcome.code == 0
    assert outcome.out.count("Warning: ") == 2
    (tmp_path / "more.cfg").write_text(text + "\nCONSTANT Gone = 3")
    outcome = run("replay", "reconfig", "--config", tmp_path / "more.cfg", FOLDER / "joined.out.gz")
    assert outcome.code == 2


def test_what_check_writes_conforms(run, tmp_path) -> None:
    trace = tmp_path / "trace.out"
    searched = run("check", "lock-service", "--engine", "reference", "--trace", trace, "--deadlock", "--quiet")
    assert searched.code == 11
    outcome = run("replay", "lock-service", trace, "--json", tmp_path / "result.json")
    assert outcome.code == 0, outcome
    (found,) = json.loads((tmp_path / "result.json").read_text())
    assert found["actions"].count("LoseMessage") == 1


def test_json_that_cannot_be_written(run, tmp_path) -> None:
    assert run(*JOINED, FOLDER / "joined.out.gz", "--json", tmp_path).code == 2


STRANGE = '''
from kraftcheck import *


class Node(Record):
    id: int
    said: str = ""


class Nothing(Record):
    pass


class Talk(Protocol):
    network = Bag()

    def initial(self):
        yield self.start([Node(1)], Nothing())

    @internal
    def speak(self, me: Node) -> Steps:
        if not me.said:
            yield become(me.but(said="fine"))
'''


def test_what_strangers_wrote_steers_neither_a_terminal_nor_a_log(run, tmp_path) -> None:
    """A line that begins with `::` is a command to GitHub; escape sequences are commands to a terminal."""
    model, trace = tmp_path / "talk.py", tmp_path / "strange.itf.json"
    model.write_text(STRANGE)
    text = "\x1b[2J\r\n::error::\u202e\u2028"
    states = [{"said": [""], "messages": []}, {"#meta": {"action": text}, "said": [text], "messages": []}]
    for said in (text, "fine"):
        states[1]["said"] = [said]
        trace.write_text(json.dumps({"vars": ["said", "messages"], "states": states}))
        outcome = run("replay", f"{model}:Talk", trace)
        assert (outcome.code, outcome.err) == (1, "")
        assert r"\x1b[2J\r\n::error::\u202e\u2028" in outcome.out
        assert "\n::" not in outcome.out
        assert outcome.out.replace("\n", "").isprintable()

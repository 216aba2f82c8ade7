"""`kraftcheck crosscheck --dump`: TLC's dumps equal our states, and what is said where they do not."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from tests.support.tlc import TLC, text_of

DUMPS = TLC / "dumps"
MODELS = ("two-voters", "grow-one-to-two")
COUNTS = {"two-voters": (428, 544, 22), "grow-one-to-two": (338, 497, 26)}


def crosschecked(run, tmp_path: Path, dump: Path, *arguments: object, config: Path = DUMPS / "two-voters.cfg"):
    path = tmp_path / "result.json"
    outcome = run("crosscheck", "reconfig", "--config", config, "--dump", dump, "--json", path, *arguments)
    return outcome, json.loads(path.read_text()) if path.exists() else None


@pytest.mark.parametrize("model", MODELS)
def test_the_states_are_those_of_tlc(run, tmp_path, model: str) -> None:
    config, count = DUMPS / f"{model}.cfg", COUNTS[model][0]
    outcome, found = crosschecked(run, tmp_path, DUMPS / f"{model}.dump.gz", config=config)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines()[-1] == "EQUAL: the same states"
    assert (found["equal"], found["distinct_states"]) == (True, {"ours": count, "theirs": count})
    assert found["depth"] == {"ours": COUNTS[model][2], "theirs": None}
    assert (found["only_ours"], found["only_theirs"], found["edges"]) == ([], [], None)


@pytest.mark.parametrize("model", MODELS)
def test_the_labelled_steps_are_those_of_tlc(run, tmp_path, model: str) -> None:
    config, (count, steps, depth) = DUMPS / f"{model}.cfg", COUNTS[model]
    outcome, found = crosschecked(run, tmp_path, DUMPS / f"{model}.dot.gz", config=config)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines()[-1] == "EQUAL: the same states and labelled steps"
    assert (found["equal"], found["distinct_states"]) == (True, {"ours": count, "theirs": count})
    assert found["depth"] == {"ours": depth, "theirs": depth}
    edges = found["edges"]
    assert (edges["labelled"], edges["initial_states_equal"]) == (True, True)
    assert (edges["ours"], edges["theirs"]) == (steps, steps)
    if model == "two-voters":  # in the other one TLC counts some steps twice
        assert found["actions"]["theirs"] == {name: n for name, n in found["actions"]["ours"].items() if n}


@pytest.mark.slow
def test_a_fault_is_traced_to_its_step(run, tmp_path) -> None:
    variant = ("--variant", "votes-without-log-comparison")
    outcome, found = crosschecked(run, tmp_path, DUMPS / "two-voters.dot.gz", *variant)
    assert outcome.code == 1
    assert outcome.out.splitlines()[-1].startswith("DIFFERENT")
    assert found["distinct_states"] == {"ours": 525, "theirs": 428}
    assert (found["only_ours_count"], found["only_theirs_count"]) == (115, 18)
    assert len(found["only_ours"]) == len(found["only_theirs"]) == 5
    assert found["only_ours"][0]["path"] == [
        "initial state",
        "RequestVote by n2",
        "ClientRequest by n1",
        "HandleRequestVoteRequest by n1 on RequestVoteRequest",
    ]
    assert found["only_ours"][0]["state"]["_electionCtr"] == "1"
    for stranger in found["only_theirs"]:
        assert "does not follow from state" in stranger["reason"]
        assert "by HandleRequestVoteRequest" in stranger["reason"]
    assert "votedFor[n1]" in outcome.out
    assert found["edges"]["only_ours_count"] == found["edges"]["only_theirs_count"] == 0


@pytest.mark.slow
def test_a_dump_of_states_says_where_it_differs(run, tmp_path) -> None:
    variant = ("--variant", "votes-without-log-comparison")
    outcome, found = crosschecked(run, tmp_path, DUMPS / "two-voters.dump.gz", *variant)
    assert outcome.code == 1
    assert (found["only_ours_count"], found["only_theirs_count"]) == (115, 18)
    paths = [item["path"] for item in found["only_theirs"][0]["differences"]]
    assert "votedFor[n1]" in paths
    assert "state[n1]" in paths


def test_a_changed_state_is_found(run, tmp_path) -> None:
    text = text_of("dumps/two-voters.dump").replace("/\\ _electionCtr = 0", "/\\ _electionCtr = 7", 1)
    (tmp_path / "changed.dump").write_text(text)
    outcome, found = crosschecked(run, tmp_path, tmp_path / "changed.dump")
    assert outcome.code == 1
    assert (found["only_ours_count"], found["only_theirs_count"]) == (1, 1)
    (stranger,) = found["only_theirs"]
    assert (stranger["number"], stranger["state"]["_electionCtr"]) == (1, "7")
    assert stranger["differences"] == [{"path": "_electionCtr", "dump": "7", "protocol": "0"}]
    assert "1 state that only the dump has" in outcome.out


@pytest.mark.slow
def test_a_state_twice_and_a_state_less(run, tmp_path) -> None:
    text = text_of("dumps/two-voters.dump")
    states = re.split(r"(?m)^(?=State \d+:)", text)
    (tmp_path / "twice.dump").write_text("".join([*states, states[5]]))
    outcome, found = crosschecked(run, tmp_path, tmp_path / "twice.dump")
    assert (outcome.code, found["equal"]) == (1, False)
    assert "1 duplicate state in the dump" in outcome.out
    (tmp_path / "less.dump").write_text("".join(states[:5] + states[6:]))
    outcome, found = crosschecked(run, tmp_path, tmp_path / "less.dump")
    assert (outcome.code, found["only_ours_count"], found["only_theirs_count"]) == (1, 1, 0)


@pytest.mark.slow
def test_changed_labels_steps_and_initial_states(run, tmp_path) -> None:
    text = text_of("dumps/two-voters.dot")
    edge = re.search(r"(?m)^(-?\d+) -> (-?\d+) \[label=\"BecomeLeader\".*\n", text)
    assert edge is not None
    (tmp_path / "label.dot").write_text(text.replace(edge[0], edge[0].replace("BecomeLeader", "RequestVote")))
    outcome, found = crosschecked(run, tmp_path, tmp_path / "label.dot")
    assert outcome.code == 1
    assert (found["edges"]["only_ours_count"], found["edges"]["only_theirs_count"]) == (1, 1)
    assert found["edges"]["only_ours"][0]["action"] == "BecomeLeader"
    assert "follows from state" in found["edges"]["only_theirs"][0]["reason"]
    assert "not by RequestVote as the dump says" in found["edges"]["only_theirs"][0]["reason"]
    (tmp_path / "less.dot").write_text(text.replace(edge[0], ""))
    outcome, found = crosschecked(run, tmp_path, tmp_path / "less.dot")
    assert (outcome.code, found["edges"]["only_ours_count"]) == (1, 1)
    assert "1 labelled step between common states that only kraftcheck has" in outcome.out
    (tmp_path / "more.dot").write_text(text.replace(edge[0], edge[0] + f'{edge[2]} -> {edge[1]} [label="Magic"];\n'))
    outcome, found = crosschecked(run, tmp_path, tmp_path / "more.dot")
    assert (outcome.code, found["edges"]["only_theirs_count"]) == (1, 1)
    (tmp_path / "start.dot").write_text(text.replace(",style = filled", "", 1))
    outcome, found = crosschecked(run, tmp_path, tmp_path / "start.dot")
    assert (outcome.code, found["edges"]["initial_states_equal"]) == (1, False)


@pytest.mark.slow
def test_a_graph_without_labels(run, tmp_path) -> None:
    text = re.sub(r"(?m)^(-?\d+ -> -?\d+) \[label=.*", r"\1;", text_of("dumps/two-voters.dot"))
    (tmp_path / "plain.dot").write_text(text)
    outcome, found = crosschecked(run, tmp_path, tmp_path / "plain.dot")
    assert (outcome.code, found["edges"]["labelled"], found["actions"]["theirs"]) == (0, False, None)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Next", "Step"])
def test_labels_that_name_the_next_state_relation(run, tmp_path, name: str) -> None:
    """TLC labels a step Next if no named action contains it; this label stands for any action."""
    text = text_of("dumps/two-voters.dot")
    edges = [found[0] for found in re.finditer(r"(?m)^-?\d+ -> -?\d+ \[label=\"(BecomeLeader|RequestVote)\".*\n", text)]
    some = [edge for number, edge in enumerate(edges) if number % 3]
    for edge in some:
        text = text.replace(edge, re.sub(r'label="\w+"', f'label="{name}"', edge))
    (tmp_path / "some.dot").write_text(text)
    config = (DUMPS / "two-voters.cfg").read_text()
    if name == "Step":
        config = re.sub(r"(?m)^(SPECIFICATION|INIT|NEXT).*\n", "", config) + "\nINIT Init\nNEXT Step\n"
    (tmp_path / "two.cfg").write_text(config)
    outcome, found = crosschecked(run, tmp_path, tmp_path / "some.dot", config=tmp_path / "two.cfg")
    assert (outcome.code, outcome.out.splitlines()[-1]) == (0, "EQUAL: the same states and labelled steps")
    assert f"{name} is no action of Reconfig: a step of that name may be any action" in outcome.out
    assert (found["edges"]["labelled"], found["edges"]["theirs"]) == (True, 544)
    edge = re.sub(r'label="\w+"', f'label="{name}"', some[0])
    (tmp_path / "less.dot").write_text(text.replace(edge, ""))
    outcome, found = crosschecked(run, tmp_path, tmp_path / "less.dot", config=tmp_path / "two.cfg")
    assert (outcome.code, found["edges"]["only_ours_count"]) == (1, 1)
    source, target = re.findall(r"-?\d+", some[0])[:2]
    (tmp_path / "more.dot").write_text(text.replace(edge, f'{edge}{target} -> {source} [label="{name}"];\n'))
    outcome, found = crosschecked(run, tmp_path, tmp_path / "more.dot", config=tmp_path / "two.cfg")
    assert (outcome.code, found["edges"]["only_theirs_count"]) == (1, 1)
    (tmp_path / "other.dot").write_text(text.replace(f'label="{name}"', 'label="Magic"'))
    outcome, found = crosschecked(run, tmp_path, tmp_path / "other.dot", config=tmp_path / "two.cfg")
    assert (outcome.code, "Magic: no action of Reconfig; --unlabelled" in outcome.out) == (1, True)


@pytest.mark.slow
def test_labels_that_are_the_names_of_methods(run, tmp_path) -> None:
    text = text_of("dumps/two-voters.dot").replace('label="BecomeLeader', 'label="become_leader')
    (tmp_path / "methods.dot").write_text(text)
    outcome, found = crosschecked(run, tmp_path, tmp_path / "methods.dot")
    assert (outcome.code, found["edges"]["labelled"], "BecomeLeader" in found["actions"]["theirs"]) == (0, True, True)


@pytest.mark.slow
def test_dumps_of_another_model(run, tmp_path) -> None:
    outcome, found = crosschecked(run, tmp_path, DUMPS / "grow-one-to-two.dump.gz")
    assert outcome.code == 1
    assert found["only_theirs_count"] == 338
    assert found["only_theirs"][0]["reason"] is None or "no state of" not in found["only_theirs"][0]["reason"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("/\\ role = ", "/\\ rule = "), ":1:1: expected the variables of Reconfig"),
        (lambda text: text.replace("/\\ _electionCtr = 0", "/\\ _electionCtr = {}"), "expected a number for _elec"),
        (lambda text: text[:5_000], "expected"),
        (lambda text: "", ": expected a file of TLC's -dump, found an empty file"),
        (lambda text: "hello\n", ": expected a file of TLC's -dump, found other text"),
        (lambda text: "hello\n\udcff", ":2:1: expected text in UTF-8, found the byte 0xff"),
    ],
)
def test_bad_dumps(run, tmp_path, change, message: str) -> None:
    (tmp_path / "bad.dump").write_text(change(text_of("dumps/two-voters.dump")), errors="surrogateescape")
    outcome, found = crosschecked(run, tmp_path, tmp_path / "bad.dump")
    assert (outcome.code, found["exit_code"], found["result"]) == (2, 2, "error")
    assert message in outcome.err
    assert outcome.err.startswith(f"kraftcheck: error: {tmp_path / 'bad.dump'}:")


def test_a_dump_that_is_cut(run, tmp_path) -> None:
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"hello" * 100)[:20])
    outcome, _ = crosschecked(run, tmp_path, tmp_path / "cut.gz")
    assert outcome.code == 2
    assert "cut.gz:1:1: expected the rest of the gzip file, found the end of the file" in outcome.err


def test_bad_usage(run, tmp_path) -> None:
    dump = DUMPS / "two-voters.dump.gz"
    states = ("--dump", dump, "--compare-states", 5)
    unused = run("crosscheck", "reconfig", "--config", DUMPS / "two-voters.cfg", *states)
    assert (unused.code, "--compare-states: no effect without --spec" in unused.err) == (2, True)
    assert run("crosscheck", "reconfig", "--dump", dump).code == 2
    assert run("crosscheck", "reconfig", "--config", DUMPS / "two-voters.cfg").code == 2
    both = ("--dump", dump, "--spec", "X.tla")
    assert run("crosscheck", "reconfig", "--config", DUMPS / "two-voters.cfg", *both).code == 2
    missing = run("crosscheck", "reconfig", "--config", DUMPS / "two-voters.cfg", "--dump", tmp_path / "none.dump")
    assert missing.code == 2
    assert "No such file" in missing.err
    trace = TLC / "counterexamples" / "acked.out.gz"
    wrong = run("crosscheck", "reconfig", "--config", DUMPS / "two-voters.cfg", "--dump", trace)
    assert (wrong.code, "found a TLC log" in wrong.err) == (2, True)


def test_unpacking_is_limited(run, tmp_path) -> None:
    (tmp_path / "large.dump.gz").write_bytes(gzip.compress(text_of("dumps/two-voters.dump").encode()))
    outcome, _ = crosschecked(run, tmp_path, tmp_path / "large.dump.gz", "--max-size", "64K")
    assert outcome.code == 2
    assert "expected at most 65,536 bytes, unpacked" in outcome.err

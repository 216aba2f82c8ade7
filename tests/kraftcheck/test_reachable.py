"""What should stay reachable, as the commands tell it: exit code 13, and nowhere passed in silence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kraftcheck.cli import main

TRAP = ["check", "recovery", "--config", "trap.zookeeper", "--variant", "same-epoch-ignored", "--engine", "reference"]


def test_the_shortest_way_into_the_trap_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, trace = tmp_path / "found.json", tmp_path / "trace.txt"
    assert main([*TRAP, "--quiet", "--json", str(found), "--trace", str(trace)]) == 13
    printed = capsys.readouterr().out
    assert "Counterexample to EveryoneCanServe, 5 states" in printed
    assert "From state 5 on EveryoneCanServe cannot be reached: 32 of 94 states have no way out" in printed
    assert "VIOLATION: violated: EveryoneCanServe; 94 distinct states" in printed
    content = json.loads(found.read_text())
    assert content["traps"] == {"EveryoneCanServe": {"states": 32, "among": 94}}
    assert (content["result"], content["violated"], content["complete"]) == ("violation", "EveryoneCanServe", True)
    assert "Temporal properties EveryoneCanServe were violated." in trace.read_text()


def test_actions_that_are_no_way_out_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "registration", "--config", "trap.static-voter", "--engine", "reference", "--quiet"]) == 13
    assert "    no way out is Replace, ChangeConfiguration\n" in capsys.readouterr().out


def test_a_search_that_stops_says_that_it_is_not_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TRAP, "--max-states", "50", "--quiet"]) == 20
    message = "EveryoneCanServe: reachability was not checked, since the search did not visit every state"
    assert message in capsys.readouterr().out


@pytest.mark.kernel
def test_walks_say_that_it_is_not_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", *TRAP[1:-2], "--runs", "3", "--quiet"]) == 0
    message = "EveryoneCanServe: reachability was not checked, since the search did not visit every state"
    assert message in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--engine", "tables", "--search", "iddfs"],
            "@reachable EveryoneCanServe: not supported by --search iddfs; expected --search bfs",
        ),
    ],
)
def test_what_cannot_check_it_refuses(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TRAP[:-2], *options]) == 2
    assert message in capsys.readouterr().err


def test_compare_says_how_many_of_how_many(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["compare", "recovery", "same-epoch-ignored", "--engine", "reference", "--quiet"]
    assert main(arguments) == 13
    assert "violation  EveryoneCanServe (32 of 94)       5  " in capsys.readouterr().out
    assert main([*arguments, "--max-depth", "8"]) == 20
    assert "holds to depth 8, but EveryoneCanServe is unknown" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.kernel
def test_a_search_that_goes_on_from_a_checkpoint_finds_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["check", "registration", "--config", "trap.static-voter", "--engine", "tables", "--quiet"]
    found = tmp_path / "found.json"
    assert main([*asked, "--checkpoint", str(tmp_path / "kept"), "--max-states", "100"]) == 20
    for _ in range(2):  # the second goes on from a search that is over
        assert main([*asked, "--resume", str(tmp_path / "kept"), "--json", str(found)]) == 13
        content = json.loads(found.read_text())
        assert content["traps"] == {"UpgradesNeedNoHelp": {"states": 54, "among": 232}}
        assert content["vacuous"] == []

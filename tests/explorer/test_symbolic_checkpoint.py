"""A search by sets that is stopped, or killed, and gone on with finds what one finds that was not."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kraftcheck.explorer.result import INTERRUPTED_LIMIT, Interrupted, Result, SearchRequest, Verdict
from kraftcheck.explorer.symbolic import engine
from kraftcheck.explorer.symbolic.checkpoint import SymbolicCheckpoint
from kraftcheck.explorer.symbolic.engine import SymbolicSearch, explore
from kraftcheck.explorer.tables import engine as tables
from kraftcheck.spec.errors import InputError
from tests.support.kraft_model.searches import bound as configured
from tests.support.tlc import bound, expected

pytestmark = pytest.mark.kernel

SEARCHES = ("saturation", "chaining", "bfs")
NAME = "two-voters-two-elections"


def told(result: Result) -> tuple[object, ...]:
    lengths = {violation.property: len(violation.trace) for violation in result.violations}
    return result.verdict, result.distinct_states, result.generated_states, result.depth, result.actions, lengths


@pytest.mark.parametrize("order", ["saturation", pytest.param("chaining", marks=pytest.mark.slow), "bfs"])
def test_a_search_that_is_stopped_goes_on_to_the_same_end(order: str, tmp_path: Path) -> None:
    protocol = bound("counts/two-voters").protocol
    asked = SearchRequest(search=order, deadlock=False, checkpoint=tmp_path)
    stopped = explore(protocol, replace(asked, time_limit=1e-6))
    assert (stopped.limit, stopped.distinct_states < 428) == ("time_limit", True)
    found = explore(protocol, replace(asked, checkpoint=None, resume=tmp_path))
    assert told(found) == told(explore(protocol, replace(asked, checkpoint=None)))
    assert found.distinct_states == expected()["two-voters"]["distinct_states"]


@pytest.mark.slow
@pytest.mark.parametrize("order", SEARCHES)
def test_every_checkpoint_leads_to_the_same_end(order: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps out of what was expanded before are counted too."""
    protocol, asked, folders = bound("counts/two-voters").protocol, SearchRequest(search=order, deadlock=False), []
    save = SymbolicCheckpoint.save

    def keep(checkpoint: SymbolicCheckpoint, *found: Any, finished: bool = False) -> None:
        save(checkpoint, *found, finished=finished)
        folders.append(shutil.copytree(tmp_path / "all", tmp_path / str(len(folders))))

    with monkeypatch.context() as patch:
        patch.setattr(SymbolicCheckpoint, "is_due", lambda *_: True)
        patch.setattr(SymbolicCheckpoint, "save", keep)
        whole = told(explore(protocol, replace(asked, checkpoint=tmp_path / "all")))
    assert whole == told(explore(protocol, asked))
    assert len(folders) >= 3
    for folder in folders:
        assert told(explore(protocol, replace(asked, resume=folder))) == whole


@pytest.mark.slow
@pytest.mark.parametrize("order", SEARCHES)
def test_ctrl_c_in_the_middle(order: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    protocol = bound(f"counts/{NAME}").protocol
    asked = SearchRequest(search=order, deadlock=False, checkpoint=tmp_path)
    search, looks = SymbolicSearch(protocol, asked), iter(range(10**6))
    looks_before = {"saturation": 600, "chaining": 60, "bfs": 12}
    pause = SymbolicSearch.pause

    def interrupt(self: SymbolicSearch) -> None:
        self._interruption.asked = self._interruption.asked or next(looks) > looks_before[order]
        pause(self)

    monkeypatch.setattr(SymbolicSearch, "pause", interrupt)
    with pytest.raises(Interrupted) as raised:
        search.run()
    assert raised.value.result.limit == INTERRUPTED_LIMIT
    assert 0 < raised.value.result.distinct_states < expected()[NAME]["distinct_states"]
    monkeypatch.undo()
    search = SymbolicSearch(protocol, replace(asked, checkpoint=None, resume=tmp_path))
    assert search._checkpoint.found is not None
    assert len(search._checkpoint.found.nodes) > 50
    found = search.run()
    assert (found.verdict, found.distinct_states) == (Verdict.OK, expected()[NAME]["distinct_states"])
    assert told(found) == told(explore(protocol, replace(asked, checkpoint=None)))


@pytest.mark.slow
def test_checkpoints_within_saturation_change_no_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "CLOCK_CHECK_SECONDS", 0.005)
    asked = SearchRequest(search="saturation", deadlock=False, checkpoint=tmp_path, checkpoint_every=0.01)
    found = explore(bound(f"counts/{NAME}").protocol, asked)
    assert found.distinct_states == expected()[NAME]["distinct_states"]
    assert json.loads((tmp_path / "manifest.json").read_text())["search"]["number"] >= 3


@pytest.mark.slow
def test_a_violation_after_a_resume_has_its_shortest_counterexample(tmp_path: Path) -> None:
    given = configured("registration", None, "not-durable")
    for order in SEARCHES:
        asked = SearchRequest.of(given, search=order)
        explore(given.protocol, replace(asked, checkpoint=tmp_path / order, time_limit=1e-6))
        found = explore(given.protocol, replace(asked, resume=tmp_path / order))
        assert [len(violation.trace) for violation in found.violations] == [7]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"search": "chaining"}, "search: saturation in the checkpoint, now chaining"),
        ({"deadlock": True}, "deadlock: false in the checkpoint, now true"),
    ],
)
def test_the_checkpoint_of_another_search_is_refused(change: dict[str, object], message: str, tmp_path: Path) -> None:
    protocol = bound("counts/two-voters").protocol
    asked = SearchRequest(search="saturation", deadlock=False)
    explore(protocol, replace(asked, checkpoint=tmp_path, time_limit=1e-6))
    with pytest.raises(InputError, match=message):
        explore(protocol, replace(asked, resume=tmp_path, **change))  # type: ignore[arg-type]
    [sets] = tmp_path.glob("sets-*.npz")
    sets.write_bytes(sets.read_bytes()[:-1])
    with pytest.raises(InputError, match="its content has changed"):
        explore(protocol, replace(asked, resume=tmp_path))


def test_another_engine_does_not_take_the_checkpoint(tmp_path: Path) -> None:
    protocol, asked = bound("counts/two-voters").protocol, SearchRequest(deadlock=False, time_limit=1e-6)
    explore(protocol, replace(asked, checkpoint=tmp_path / "sets"))
    with pytest.raises(InputError, match="engine: symbolic in the checkpoint, now none"):
        tables.explore(protocol, replace(asked, resume=tmp_path / "sets"))
    tables.explore(protocol, replace(asked, checkpoint=tmp_path / "tables", workers=1, max_states=10))
    with pytest.raises(InputError, match="engine: none in the checkpoint, now symbolic"):
        explore(protocol, replace(asked, resume=tmp_path / "tables"))


@pytest.mark.slow
@pytest.mark.parametrize("order", ["saturation", "bfs"])
def test_killed_and_resumed(order: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kraftcheck", "check", "reconfig", "--config", "smoke", "--engine", "symbolic"]
    command += ["--no-symmetry", "--search", order, "--quiet"]
    folder, every = tmp_path / "kept", ["--checkpoint-every", "0.05"]
    process = subprocess.Popen([*command, "--checkpoint", str(folder), *every], stdout=subprocess.DEVNULL)
    while not (folder / "sets-2.npz").exists() and process.poll() is None:
        time.sleep(0.002)
    assert process.poll() is None, "the search was over before it was killed"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    states = []
    for more in ([], ["--resume", str(folder)]):
        done = subprocess.run([*command, *more, "--json", "-"], capture_output=True, text=True, check=False)
        told = json.loads(done.stdout)
        states.append((done.returncode, told["distinct_states"], told["depth"], told["generated_states"]))
    assert states[0] == states[1]

"""The command on Spark in this machine: what the table engine finds, the user's own files, a counterexample."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import PING, Run
from tests.support.explorer.comparison import ALIKE
from tests.support.tlc import COUNTS, LARGE, MODELS

pytestmark = [pytest.mark.kernel, pytest.mark.spark, pytest.mark.usefixtures("application")]

ON_SPARK = ("--engine", "spark", "--master", "local[2]", "--conf", "spark.ui.enabled=false")
WITH_JOBS = ("--conf", "spark.kraftcheck.small=0")  # the driver runs no tasks itself


def alike(run: Run, folder: Path, *words: object, conf: tuple[str, ...] = ()) -> dict[str, Any]:
    """Run a command line with both engines; return what they found, which must agree."""
    results = []
    for engine in (("--engine", "tables"), (*ON_SPARK, *conf)):
        path = folder / f"{len(results)}.json"
        outcome = run("check", *words, "--quiet", "--json", path, *engine)
        assert outcome.code in (0, 11, 12), outcome.err
        found = json.loads(path.read_text())
        results.append({name: found[name] for name in (*ALIKE, "violated")})
    assert results[0] == results[1]
    return results[1]


@pytest.mark.slow
def test_a_shipped_model(run: Run, tmp_path: Path) -> None:
    assert alike(run, tmp_path, "two-phase-commit", "--config", "default")["result"] == "ok"


@pytest.mark.slow
@pytest.mark.usefixtures("no_driver_tasks")
def test_a_users_file_and_its_counterexample(run: Run, tmp_path: Path, ping: str) -> None:
    """This is the only search on a real Spark by default; all others have the marker `slow`."""
    found = alike(run, tmp_path, ping, conf=WITH_JOBS)
    assert found["result"] in ("violation", "deadlock")
    assert found["trace_length"] > 1


@pytest.mark.slow
def test_small_levels_of_a_users_file(run: Run, tmp_path: Path, ping: str) -> None:
    assert alike(run, tmp_path, ping)["trace_length"] > 1


@pytest.mark.slow
@pytest.mark.parametrize("conf", [WITH_JOBS, ()], ids=["jobs", "driver"])
def test_an_action_that_raises(run: Run, tmp_path: Path, conf: tuple[str, ...]) -> None:
    path = tmp_path / "raising.py"  # a name of its own: executors keep modules by name
    path.write_text(PING.replace("        number = me.pings + 1", "        number = 1 // (1 - me.pings)"))
    words = ("check", f"{path}:PingPong", "--quiet")
    ours, theirs = (run(*words, *engine) for engine in ((*ON_SPARK, *conf), ("--engine", "tables")))
    assert ours.code == theirs.code == 2
    said = [
        next(line.partition(": action ")[2] for line in outcome.err.splitlines() if ": action " in line)
        for outcome in (ours, theirs)
    ]
    assert said[0] == said[1]


HIDING = '''
from kraftcheck import Protocol, Record, Step, environment, hide, invariant


class World(Record):
    at: int = 0
    trace: int = 0


class Traced(Protocol):
    views = {"untraced": hide("trace")}

    def initial(self):
        yield self.start([], World())

    @environment
    def walk(self, shared: World):
        if shared.at < 3:
            yield Step().put(at=shared.at + 1, trace=shared.at)

    @environment
    def back(self, shared: World):
        if shared.at == 3 and shared.trace == 2:
            yield Step().put(at=0)

    @invariant
    def traces(self, shared: World) -> bool:
        return shared.at < 2 or shared.trace < 9
'''


@pytest.mark.slow
def test_what_a_view_leaves_out_is_read_in_tasks(run: Run, tmp_path: Path) -> None:
    path, config = tmp_path / "hiding.py", tmp_path / "hiding.cfg"
    path.write_text(HIDING)
    config.write_text("VIEW untraced\n")
    words = ("check", f"{path}:Traced", "--config", config, "--quiet", *ON_SPARK, *WITH_JOBS)
    outcome = run(*words)
    assert (outcome.code, "VIEW untraced leaves out trace (read or spent by action Back)" in outcome.out) == (0, True)
    config.write_text("VIEW untraced\nINVARIANT Traces\n")
    outcome = run(*words)
    assert (outcome.code, "invariant Traces reads trace, which VIEW untraced" in outcome.err) == (2, True)


CLOCKS = """
from kraftcheck import Protocol, Record, Step, environment, refines


class Clock(Record):
    hour: int = 0
    minute: int = 0


class Hours(Protocol):
    network = None

    def initial(self):
        yield self.start([], Clock())

    @environment
    def tick(self, shared: Clock):
        yield Step().put(hour=(shared.hour + 1) % 3)


class Minutes(Hours):
    def tick(self, shared: Clock):
        if shared.minute < 3:
            yield Step().put(minute=shared.minute + 1)
        else:
            yield Step().put(minute=0, hour=(shared.hour + 1) % 3)

    @refines(Hours)
    def hours(self, state, other):
        return other.start([], Clock(state.shared.hour))


class Fast(Minutes):
    def tick(self, shared: Clock):
        yield Step().put(hour=(shared.hour + 2) % 3)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("protocol", "verdict"), [("Minutes", "ok"), ("Fast", "violation")])
def test_a_refinement(run: Run, tmp_path: Path, protocol: str, verdict: str) -> None:
    path = tmp_path / "clocks.py"
    path.write_text(CLOCKS)
    assert alike(run, tmp_path, f"{path}:{protocol}", conf=WITH_JOBS)["result"] == verdict


IN_CI = ("two-voters-restart",)
"""What CI has time for; a level takes Spark a second however small it is."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in IN_CI else pytest.mark.exhaustive)
        for name in MODELS
        if name not in LARGE or name == "three-voters"
    ],
)
def test_counts(run: Run, tmp_path: Path, name: str) -> None:
    assert alike(run, tmp_path, "reconfig", "--config", COUNTS / f"{name}.cfg")["complete"]


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["observer-stands", "second-vote-in-epoch"])
def test_seeded_faults(run: Run, tmp_path: Path, fault: str) -> None:
    found = alike(run, tmp_path, "reconfig", "--variant", fault, "--config", f"fault.{fault}")
    assert found["result"] == "violation"

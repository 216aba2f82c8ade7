"""`kraftcheck mutate`: which slips it makes, what becomes of each, going on after a stop, and bad input."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kraftcheck.catalogue import Model, find_model
from kraftcheck.mutation import baseline
from kraftcheck.mutation.mutants import CodeSwap, Mutant, changeable_functions, changeable_modules, mutants_of
from kraftcheck.mutation.operators import OPERATOR_NAMES
from kraftcheck.mutation.workers import MutantWorkers
from tests.support.command_line import Run, start

TINY = '''
"""A small protocol: every sort of slip can be made in it, and come to every sort of end."""

from kraftcheck import *


class Mood(Symbol):
    CALM = "calm"
    EAGER = "eager"


class Node(Record):
    id: int
    sent: int = 0
    got: int = 0
    mood: Mood = Mood.CALM


class Ball(Record):
    number: int
    dest: int
    rank: int = 0


class Score(Record):
    played: frozenset[int] = frozenset()
    thrown: int = 0


class Game(Protocol):
    """Two nodes throw a ball, whose number rises."""

    rounds: int = bound("MaxRounds", default=2)
    network = Bag()

    def initial(self):
        yield self.start([Node(1), Node(2)], Score())

    @internal
    def throw(self, me: Node, shared: Score) -> Steps:
        """It is node 1's turn while nothing flies, then the other's."""
        if me.id != 1 or shared.thrown > 0:
            return
        yield become(me.but(sent=1)).send(Ball(1, 2)).put(thrown=1).spend("rounds")

    @on(Ball)
    def catch(self, me: Node, ball: Ball, shared: Score) -> Steps:
        if ball.number > 90:
            yield consume(me.but(mood=Mood.EAGER))
            return
        caught = me.but(got=ball.number, mood=Mood.EAGER if self._is_late(ball) else Mood.CALM)
        step = consume(caught).put(played=shared.played | {ball.number})
        if len(shared.played) >= 7:
            step = step.but(sends=())
        yield step

    @on(Ball)
    def answer(self, me: Node, ball: Ball, shared: Score) -> Steps:
        number = _next(ball.number)
        yield consume(me.but(got=ball.number)).reply(Ball(number, 3 - me.id)).put(thrown=max(number, 1)).spend("rounds")

    def _is_late(self, ball: Ball) -> bool:
        return ball.number > 1 and not any(number < 0 for number in (ball.number, ball.rank))

    @invariant
    def numbers_are_fresh(self, me: Node, shared: Score) -> bool:
        return me.got <= shared.thrown

    @invariant
    def caught_balls_were_played(self, me: Node, shared: Score) -> bool:
        return me.mood is Mood.CALM or me.got in shared.played


def _next(number: int) -> int:
    place, numbers = 0, range(number)[:number]
    while place < len(numbers):
        place = place + 1
    return place + 1
'''

MADE = {
    "guard dropped": "game.throw: me.id != 1 or shared.thrown > 0 -> False",
    "condition dropped": "game.throw: me.id != 1 or shared.thrown > 0 -> shared.thrown > 0",
    "condition negated": "game.catch: len(shared.played) >= 7 -> len(shared.played) < 7",
    "boundary": "game.catch: ball.number > 90 -> ball.number >= 90",
    "off by one": "game._next: 1 -> 0",
    "message not sent": "game.throw: become(me.but(sent=1)).send(Ball(1, 2)) -> become(me.but(sent=1))",
    "message sent twice": "game.throw: become(me.but(sent=1)).send(Ball(1, 2)) -> "
    "become(me.but(sent=1)).send(Ball(1, 2), Ball(1, 2))",
    "message kept": "game.catch: consume -> become",
    "field not updated": "game.answer: me.but(got=ball.number) -> me",
    "branch skipped": "game.catch: Mood.EAGER if self._is_late(ball) else Mood.CALM -> Mood.CALM",
    "step not taken": "game.catch: yield step -> pass",
    "wrong field": "game.catch: ball.number -> ball.dest",
    "wrong constant": "game.catch: Mood.CALM -> Mood.EAGER",
    "arguments swapped": "game.throw: Ball(1, 2) -> Ball(2, 1)",
    "operand dropped": "game.catch: shared.played | {ball.number} -> shared.played",
    "wrong rule": "game.answer: max -> min",
}
"""One mutant of each kind."""


@pytest.fixture
def game(tmp_path: Path) -> str:
    """Return the MODEL argument for the small protocol in a file."""
    path = tmp_path / "game.py"
    path.write_text(TINY)
    path.with_suffix(".cfg").write_text("INVARIANTS NumbersAreFresh CaughtBallsWerePlayed\nCHECK_DEADLOCK FALSE\n")
    return f"{path}:Game"


def mutants(game: str) -> tuple[Model, dict[str, Mutant]]:
    model = find_model(game)
    modules = changeable_modules(model, model.protocol)
    found = list(mutants_of(changeable_functions(model.protocol, modules), modules))
    names = {mutant.name: mutant for mutant in found}
    assert len(names) == len(found)
    return model, names


def judged(run, game: str, tmp_path: Path, *arguments: object, code: int = 0) -> tuple[dict[str, dict], str]:
    path = tmp_path / "mutants.json"
    outcome = run("mutate", game, "--engine", "reference", "--workers", 2, "--json", path, *arguments)
    assert (outcome.code, outcome.err) == (code, ""), outcome
    return {one["mutant"]: one for one in json.loads(path.read_text())["mutants"]}, outcome.out


# Slips


@pytest.mark.parametrize("kind", OPERATOR_NAMES)
def test_each_kind_of_slip_is_made(kind: str, game: str) -> None:
    _, found = mutants(game)
    assert found[MADE[kind]].kind == kind


def test_properties_and_the_language_are_not_changed(game: str) -> None:
    model, found = mutants(game)
    functions = {mutant.changed.definition.name for mutant in found.values()}
    assert functions == {"throw", "catch", "answer", "_is_late", "_next"}
    assert {mutant.path for mutant in found.values()} == {model.file.resolve()}


@pytest.mark.parametrize("name", ["lock-service", "registration"])
def test_every_mutant_of_a_shipped_model_is_python_that_fits(name: str) -> None:
    model = find_model(name)
    modules = changeable_modules(model, model.protocol)
    found = list(mutants_of(changeable_functions(model.protocol, modules), modules))
    assert len(found) > 20
    assert len({mutant.name for mutant in found}) == len(found)
    for mutant in found[:: len(found) // 20]:
        code = mutant.code()
        assert code is not None
        assert code.co_code != mutant.changed.function.__code__.co_code or code.co_consts or code.co_names


def test_a_variant_in_a_users_file_alone_is_changed(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "from kraftcheck import *\nfrom kraftcheck.spec.examples.lock_service import *\n"
        'class Mine(LockService, variant="mine"):\n'
        "    def free(self, me, release):\n        yield consume(me.but(holder=Name.NOBODY))\n"
    )
    _, found = mutants(f"{path}:Mine")
    assert {mutant.changed.definition.name for mutant in found.values()} == {"free"}


def test_a_swap_is_seen_by_all_and_taken_back(game: str) -> None:
    model, found = mutants(game)
    mutant = found["game._next: 1 -> 2"] if "game._next: 1 -> 2" in found else found["game._next: 1 -> 0 (2)"]
    function = mutant.changed.function
    code, module = mutant.code(), sys.modules[model.protocol.__module__]
    assert code is not None
    with CodeSwap(function, code).mutated() as _:
        assert module._next(4) == 4
        with CodeSwap(function, code).original():
            assert function.__code__ is code
    assert module._next(4) == 5


# Verdicts

VERDICTS = {
    "game.throw: me.id != 1 or shared.thrown > 0 -> False": "survived",
    "game.answer: max -> min": "killed",
    "game._next: 1 -> 0": "error",
    "game.catch: yield step -> pass": "lost",
    "game.catch: ball.number > 90 -> ball.number >= 90": "same",
    "game.catch: Mood.EAGER -> Mood.CALM": "never reached",
}


@pytest.mark.slow
def test_one_mutant_of_each_verdict(run, game: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baseline, "CALL_SECONDS", 0.2)
    only = [word for name in VERDICTS for word in ("--only", name)]
    found, printed = judged(run, game, tmp_path, *only)
    assert {name: found[name]["verdict"] for name in VERDICTS} == VERDICTS
    killed = found["game.answer: max -> min"]
    assert (killed["by"], killed["config"], killed["gains"]) == ("NumbersAreFresh", str(tmp_path / "game.cfg"), True)
    assert found["game._next: 1 -> 0"]["by"] == "CallTimeoutError: did not return within 0.2 s"
    assert found["game.catch: yield step -> pass"]["lost"] == ["Catch: every step"]
    assert "  -         if me.id != 1 or shared.thrown > 0:\n  +         if False:\n" in printed
    assert "game.py:42  guard dropped" in printed
    assert "Never reached\n  game.py: line 49\n" in printed
    assert "8 mutants: 1 killed, 1 error, 3 survived, 1 lost, 1 same, 1 never reached\n" in printed
    assert printed.endswith("1 of 4 mutants with a state or labelled step that the model does not have "
                            "are killed by a property (25 %)\n")  # fmt: skip


@pytest.mark.slow
def test_a_mutant_that_takes_too_long_is_stopped(run, game: str, tmp_path: Path) -> None:
    found, _ = judged(run, game, tmp_path, "--only", "game._next: 1 -> 0", "--time-limit", 0.5)
    assert found["game._next: 1 -> 0"]["by"] == "was not judged within 0.5 s"


@pytest.mark.slow
def test_nothing_of_a_mutant_stays_behind(run, game: str, tmp_path: Path) -> None:
    judged(run, game, tmp_path, "--sample", 3)
    outcome = run("check", game, "--engine", "reference", "--quiet")
    assert outcome.code == 0, outcome


# A sample, explanations, going on


@pytest.mark.slow
def test_a_sample_depends_on_its_seed_alone(run, game: str, tmp_path: Path) -> None:
    one, _ = judged(run, game, tmp_path, "--sample", 4)
    again, _ = judged(run, game, tmp_path, "--sample", 4, "--seed", 0)
    other, _ = judged(run, game, tmp_path, "--sample", 4, "--seed", 1)
    assert len(one) == 4
    assert list(one) == list(again)
    assert list(one) != list(other)


GUARD = "game.throw: me.id != 1 or shared.thrown > 0 -> False"


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        ("# nothing\n", 1, "  not explained\n"),
        (f"{GUARD}\n    Anyone may\n    throw.\n", 0, "  explained: Anyone may throw.\n"),
        ("game.throw: * -> False\n    Anyone.\nother\n    why\n", 0, "Warning: --explained: other matches no survivor"),
    ],
)
def test_survivors_are_explained(run, game: str, tmp_path: Path, text: str, code: int, told: str) -> None:
    path = tmp_path / "why.txt"
    path.write_text(text)
    _, printed = judged(run, game, tmp_path, "--only", GUARD, "--explained", path, "--strict", code=code)
    assert told in printed


@pytest.mark.slow
def test_a_run_goes_on_where_one_was_stopped(run, game: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("--sample", 6, "--checkpoint", tmp_path / "kept")
    whole, _ = judged(run, game, tmp_path, "--sample", 6)
    waited = MutantWorkers._ended
    seen: list[str] = []

    def interrupted(self):
        for mutant, verdict in waited(self):
            yield mutant, verdict
            seen.append(mutant.name)
            if len(seen) == 2:
                raise KeyboardInterrupt

    monkeypatch.setattr(MutantWorkers, "_ended", interrupted)
    outcome = run("mutate", game, "--engine", "reference", "--workers", 1, *arguments)
    assert outcome.code == 130
    assert "interrupted: 2 of 6 mutants judged\nTo go on: " in outcome.out
    words = shlex.split(outcome.out.splitlines()[-1].removeprefix("To go on: kraftcheck "))
    assert words[:2] == ["mutate", game]
    outcome = run(*words, "--json", tmp_path / "rest.json")
    assert outcome.code == 0
    rest = json.loads((tmp_path / "rest.json").read_text())["mutants"]
    assert {one["mutant"]: one["verdict"] for one in rest} == {name: one["verdict"] for name, one in whole.items()}
    assert len(seen) == len({*seen}), "a mutant was judged twice"


@pytest.mark.slow
def test_an_interruption_keeps_the_verdicts_so_far(
    run, game: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, _ = judged(run, game, tmp_path, "--only", GUARD)
    ended = MutantWorkers._ended

    def interrupted(self):
        for one in ended(self):
            yield one
            raise KeyboardInterrupt

    monkeypatch.setattr(MutantWorkers, "_ended", interrupted)
    explained, found = tmp_path / "explained", tmp_path / "found.json"
    explained.write_text("any\n  a reason\n")
    words = ("--engine", "reference", "--workers", 1, "--explained", explained, "--json", found)
    outcome = run("mutate", game, *words)
    assert outcome.code == 130
    assert "\n1 mutant: 1 " in outcome.out
    assert "any matches no survivor" not in outcome.out
    assert " mutants judged\nNo verdicts were saved; with --checkpoint DIR " in outcome.out
    content = json.loads(found.read_text())
    assert (content["result"], content["limit"], len(content["mutants"])) == ("incomplete", "interrupted", 1)
    assert content["chosen"] > len(whole)
    monkeypatch.setattr("kraftcheck.commands.mutate.record_baseline", interrupted_baseline)
    outcome = run("mutate", game, *words)
    assert outcome.code == 130
    assert "\ninterrupted: 0 of " in outcome.out
    assert json.loads(found.read_text())["mutants"] == []


def interrupted_baseline(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on(game: str, tmp_path: Path) -> None:
    process = start("mutate", game, "--engine", "reference", "--checkpoint", tmp_path / "kept")
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("kept/done/*.json")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode in (0, 130), err  # 0: it was done already
    assert process.returncode == 0 or "To go on: kraftcheck mutate" in out


ENDLESS = """
import os, time
from kraftcheck.mutation.workers import MutantWorkers

class Endless:
    def reached_in(self, mutant):
        return True

    def judge(self, mutant):
        os.write(1, f"{os.getpid()}\\n".encode())  # in one piece: two processes write
        time.sleep(600)

for _ in MutantWorkers(Endless(), 2, 600.0).judged(["one", "two"]):
    pass
"""


def test_processes_end_with_the_one_that_started_them() -> None:
    with subprocess.Popen([sys.executable, "-c", ENDLESS], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            children = [int(process.stdout.readline()) for _ in range(2)]
        finally:
            process.kill()
        deadline = time.monotonic() + 30
        while any(map(is_running, children)) and time.monotonic() < deadline:
            time.sleep(0.05)
    assert not any(map(is_running, children))


def is_running(pid: int) -> bool:
    found = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(found.strip()) and not found.startswith("Z")


def test_a_process_that_was_killed_while_it_wrote_its_first_note(run: Run, game: str, tmp_path: Path) -> None:
    half = tmp_path / "kept" / f".manifest.json.{'0' * 32}.new"
    half.parent.mkdir()
    half.write_text("{")
    assert run("mutate", game, "--engine", "reference", "--sample", 1, "--checkpoint", half.parent).code == 0
    assert not half.exists()


# Bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], "unknown model nope"),
        (["recovery", "--config", "nope*"], "--config nope*: no such configuration; recovery has smoke, "),
        (["recovery", "--config", "smok"], "unknown configuration smok (perhaps smoke?)"),
        (["GAME", "--only", "nothing like it"], "no mutants of that name"),
        (["GAME", "--explained", "nowhere.txt"], "--explained nowhere.txt: cannot be read: "),
        (["GAME", "--set", "MaxRounds=x"], "MaxRounds"),
        *((["GAME", "--engine", name], "invalid choice") for name in ("symbolic", "bytecode", "spark", "no")),
        (["GAME", "--sample", "0"], "expected a number of at least 1, found '0'"),
        (["GAME", "--checkpoint", "KEPT"], "--checkpoint KEPT: not a folder of an earlier run"),
    ],
)
def test_bad_input_is_one_message(run, game: str, tmp_path: Path, arguments: list[str], message: str) -> None:
    kept = tmp_path / "full"
    kept.mkdir()
    (kept / "something").touch()
    places = {"GAME": game, "KEPT": str(kept)}
    outcome = run("mutate", *[places.get(word, word) for word in arguments])
    assert outcome.code == 2
    assert message.replace("KEPT", str(kept)) in outcome.err
    assert "Traceback" not in outcome.err


def test_a_configuration_that_is_violated_without_a_slip_is_refused(run, ping: str) -> None:
    outcome = run("mutate", ping, "--engine", "reference")
    assert outcome.code == 2
    assert "is violated without a mutation; choose a configuration in which all properties hold" in outcome.err
    assert outcome.err.endswith(f"(kraftcheck check {ping})\n")


@pytest.mark.parametrize("text", ["    why\n", "one\ntwo\n    why\n", "one\n"])
def test_explanations_without_a_name_or_a_reason_are_refused(run, game: str, tmp_path: Path, text: str) -> None:
    path = tmp_path / "why.txt"
    path.write_text(text)
    outcome = run("mutate", game, "--explained", path)
    assert outcome.code == 2
    assert outcome.err.startswith(f"kraftcheck: error: {path}:")


def test_verdicts_on_another_model_are_not_taken(run, game: str, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    judged(run, game, tmp_path, "--sample", 1, "--checkpoint", kept)
    outcome = run("mutate", game, "--engine", "reference", "--checkpoint", kept, "--set", "MaxRounds=1")
    assert outcome.code == 2
    assert "it has verdicts on another model, or in other configurations" in outcome.err

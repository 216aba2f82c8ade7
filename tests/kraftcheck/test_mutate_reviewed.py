"""`kraftcheck mutate`: verdicts where other things than actions use what is changed, or say its name."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from kraftcheck.mutation import trial

HEAD = '''"""A small protocol."""

from __future__ import annotations

from functools import cache, cached_property

from kraftcheck import *


class Node(Record):
    id: int
    level: int = 0


class Nothing(Record):
    pass


'''
FAIR = '''class Fair(Protocol):
    network = Bag()

    def initial(self):
        yield self.start([Node(1)], Nothing())

    @internal(fair="weak")
    def work(self, me: Node) -> Steps:
        if me.level == 0:
            yield become(me.but(level=2))

    @predicate
    def is_done(self, me: Node) -> bool:
        return me.level > 0

    @temporal
    def gets_done(self) -> Formula:
        return eventually(anywhere(self.is_done))

    @temporal
    def stops(self) -> Formula:
        return always(~taken("Work") | ~anywhere(self.is_done))
'''
HELPED = '''def goal() -> int:
    return 2


class Helped(Protocol):
    network = Bag()

    def initial(self):
        yield self.start([Node(1)], Nothing())

    @internal
    def work(self, me: Node) -> Steps:
        if me.level == 0 and goal() == 2:
            yield become(me.but(level=1))

    @internal
    def help(self, me: Node) -> Steps:
        if me.level == 0 and goal() != 2:
            yield become(me.but(level=1))

    @reachable(without=("Help",))
    def can_be_done(self, me: Node) -> bool:
        return me.level == 1
'''
MEMOISED = '''@cache
def is_high(level: int) -> bool:
    return level > 2


class Memo(Protocol):
    network = Bag()

    def initial(self):
        yield self.start([Node(1, int(is_high(3)))], Nothing())

    @internal
    def work(self, me: Node) -> Steps:
        if is_high(3) and me.level < 4:
            yield become(me.but(level=me.level + 1))

    @invariant
    def low(self, me: Node) -> bool:
        return me.level < 9 and is_high(9)
'''
SHARED = '''def seen(level: int) -> int:
    return level if level < 3 else 2


def first(level: int) -> int:
    return 0 if level < 9 else 1


class Shared(Protocol):
    network = Bag()

    def initial(self):
        yield self.start([Node(1, first(8)), Node(2, 3)], Nothing())

    @projection
    def heard(self, me: Node) -> int:
        return seen(me.level)

    @internal(reads=[heard])
    def work(self, me: Node, heard: dict) -> Steps:
        if me.id == 1 and seen(me.level) == first(7) == 0:
            yield become(me.but(level=1))
        if me.level == 1 and max(heard.values()) > 2:
            yield become(me.but(level=9))
        if me.level == 3 and min(heard.values()) == 1:
            yield become(me.but(level=4))

    @invariant
    def low(self, me: Node) -> bool:
        return me.level < 9
'''
CASES = '''class Cases(Protocol):
    network = Bag()

    def initial(self):
        yield self.start([Node(1)], Nothing())

    @internal
    def work(self, me: Node) -> Steps:
        match me.level:
            case 0:
                yield become(me.but(level=1))
            case level if level < 3:
                try:
                    yield become(me.but(level=level + 6))
                except ZeroDivisionError:
                    yield become(me.but(level=5))

    @invariant
    def low(self, me: Node) -> bool:
        return me.level < 9
'''
CAPPED = '''def capped(level: int) -> int:
    return level if level < 7 else 6 + 1


class Capped(Protocol):
    network = None

    def initial(self):
        yield self.start([Node(1)])

    @projection
    def levels(self, me: Node) -> int:
        return capped(me.level)

    @internal(reads=[levels])
    def work(self, me: Node, levels: dict) -> Steps:
        if me.level < 9 and max(levels.values()) < 7 > -capped(8):
            yield become(me.but(level=me.level + 1))

    @constraint
    def early(self, me: Node) -> bool:
        return me.level < 6
'''
LAZY = '''class Lazy(Protocol):
    network = None

    def initial(self):
        yield self.start([Node(1)])

    @cached_property
    def most(self) -> int:
        return 3

    @internal
    def work(self, me: Node) -> Steps:
        if me.level < self.most:
            yield become(me.but(level=me.level + 1))

    @invariant
    def low(self, me: Node) -> bool:
        return me.level <= 3
'''


def judged(run, tmp_path: Path, source: str, config: str, *arguments: object) -> tuple[dict[str, dict], str]:
    path = tmp_path / "model.py"
    path.write_text(HEAD + source)
    path.with_suffix(".cfg").write_text(f"{config}\nCHECK_DEADLOCK FALSE\n")
    name = source.partition("(Protocol)")[0].rpartition(" ")[2]
    found = tmp_path / "mutants.json"
    outcome = run("mutate", f"{path}:{name}", "--engine", "reference", "--workers", 2, "--json", found, *arguments)
    assert (outcome.code, outcome.err) == (0, ""), outcome
    return {one["mutant"]: one for one in json.loads(found.read_text())["mutants"]}, outcome.out


@pytest.mark.parametrize("name", ["GetsDone", "Stops"])
def test_fairness_and_formulas_mean_a_mutants_new_steps_too(run, tmp_path: Path, name: str) -> None:
    found, printed = judged(run, tmp_path, FAIR, f"PROPERTY {name}", "--only", "2 -> 3", "--only", "pass")
    assert found["model.work: 2 -> 3"]["verdict"] == "survived"
    lost = {"GetsDone": "killed", "Stops": "lost"}
    assert found["model.work: yield become(me.but(level=2)) -> pass"]["verdict"] == lost[name]
    assert "nothing is checked" not in printed


def test_an_action_that_is_no_way_out_is_none_in_a_mutant(run, tmp_path: Path) -> None:
    found, _ = judged(run, tmp_path, HELPED, "PROPERTY CanBeDone", "--only", "model.goal")
    assert found["model.goal: 2 -> 3"]["by"] == "CanBeDone"


def test_a_memoised_function_is_reached_in_every_call(run, tmp_path: Path) -> None:
    found, _ = judged(run, tmp_path, MEMOISED, "INVARIANT Low", "--only", "is_high")
    verdicts = {name: one["verdict"] for name, one in found.items() if name.startswith("model.is_high")}
    assert verdicts == {
        "model.is_high: level > 2 -> level <= 2": "killed",
        "model.is_high: level > 2 -> level >= 2": "same",
        "model.is_high: 2 -> 3": "survived",
    }


@pytest.mark.slow
def test_what_a_projection_or_the_start_uses_is_searched(run, tmp_path: Path) -> None:
    found, _ = judged(run, tmp_path, SHARED, "INVARIANT Low", "--only", "model.seen", "--only", "model.first")
    verdicts = {name: (one["verdict"], one["gains"]) for name, one in found.items()}
    assert verdicts["model.seen: 3 -> 4"] == ("killed", True)
    assert verdicts["model.seen: 2 -> 3"] == ("killed", True)
    assert verdicts["model.first: 9 -> 10"] == ("same", False)
    assert verdicts["model.first: 0 if level < 9 else 1 -> 1"] == ("survived", True)


@pytest.mark.parametrize("limit", ["", "CONSTRAINT Early"])
def test_what_a_projection_uses_gains_nothing_beyond_the_configuration(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(trial, "MOST_WALKED_STATES", 3)
    found, _ = judged(run, tmp_path, CAPPED, limit, "--only", "model.capped")
    verdicts = {name: one["verdict"] for name, one in found.items()}
    assert verdicts["model.capped: 7 -> 8"] == "same"
    assert verdicts["model.capped: 6 -> 5"] == ("same" if limit else "survived")


def test_a_cached_property_is_computed_anew(run, tmp_path: Path) -> None:
    found, _ = judged(run, tmp_path, LAZY, "INVARIANT Low", "--only", "model.most")
    assert {name: one["verdict"] for name, one in found.items()} == {"model.most: 3 -> 4": "killed"}


def test_slips_are_made_in_functions_of_an_imported_module(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "far_rules.py").write_text("def most() -> int:\n    return 3\n")
    monkeypatch.setitem(sys.modules, "far_rules", None)  # restored behind the test
    del sys.modules["far_rules"]
    source = "import far_rules\n\n" + LAZY.replace("self.most", "far_rules.most()")
    found, _ = judged(run, tmp_path, source, "INVARIANT Low", "--only", "far_rules.most: 3")
    assert {name: one["verdict"] for name, one in found.items()} == {"far_rules.most: 3 -> 4": "killed"}


def test_slips_are_made_in_cases_and_handlers(run, tmp_path: Path) -> None:
    found, _ = judged(run, tmp_path, CASES, "INVARIANT Low")
    assert found["model.work: level < 3 -> True"]["verdict"] == "killed"
    assert found["model.work: level < 3 -> level >= 3"]["verdict"] == "lost"
    assert found["model.work: me.but(level=1) -> me"]["verdict"] == "lost"
    assert found["model.work: yield become(me.but(level=5)) -> pass"]["verdict"] == "never reached"


@pytest.mark.slow
def test_what_there_was_too_little_time_for_is_judged_again_with_more(run, tmp_path: Path) -> None:
    kept = ("--checkpoint", tmp_path / "kept", "--only", "2 -> 3")
    judged(run, tmp_path, FAIR, "PROPERTY GetsDone", *kept)
    (file,) = tmp_path.glob("kept/**/done/*.json")
    note = json.loads(file.read_text())
    note["verdict"] |= {"verdict": "error", "by": "was not judged within 0.5 s"}
    file.write_text(json.dumps(note))
    for limit, verdict in ((0.5, "error"), (600, "survived"), (0.5, "survived")):
        found, _ = judged(run, tmp_path, FAIR, "PROPERTY GetsDone", *kept, "--time-limit", limit)
        assert found["model.work: 2 -> 3"]["verdict"] == verdict

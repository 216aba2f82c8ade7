"""States beyond a constraint that Python evaluates: errors there, and a resumed search."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kraftcheck import load
from kraftcheck.explorer.tables import checkpoint

HEAD = """
from kraftcheck import *
class Node(Record):
    id: int
    x: int = 0
class World(Record):
    time: int = 0
class Word(Record):
    n: int
    dest: int
"""
ONE_STEP = """
class P(Protocol):
    network = MessageSet()
    def initial(self):
        yield self.start([Node(1), Node(2)], World())
    @internal
    def go(self, me: Node):
        if me.x < 1:
            yield become(me.but(x=1)).put(time=1).send(Word(0, 3 - me.id))
    @on(Word)
    def take(self, me: Node, word: Word):
        yield consume(me)
    def is_good(self, inbox):
        assert all(word.n > 0 for word in inbox)
        return True
    @constraint
    def in_parts(self, state: State):
        return all(self.is_good(inbox) for inbox in state.inboxes.values()) and state.shared.time < 1
    @constraint
    def whole(self, state: State):
        return len([self.is_good(inbox) for inbox in state.inboxes.values()]) < 9
    @constraint
    def local(self, shared: World):
        return shared.time < 1
    @invariant
    def typed(self, me: Node):
        return me.x < 2
"""
TRAP = """
class P(Protocol):
    network = MessageSet()
    def initial(self):
        yield self.start([Node(i) for i in range(3)], World())
    @internal
    def trap(self, me: Node):
        if me.x == 0:
            yield become(me.but(x=-1))
    @internal
    def beyond(self, me: Node):
        if me.x == -1:
            yield Step().send(Word(0, me.id))
    @internal
    def round(self, me: Node):
        if me.x >= 0:
            yield become(me.but(x=(me.x + 1) % 6))
    @on(Word)
    def take(self, me: Node, word: Word):
        yield consume(me)
    @constraint
    def empty(self, state: State):
        return all(len(inbox) < 1 for inbox in state.inboxes.values())
    @reachable
    def back(self, me: Node):
        return me.x == 0
    @predicate
    def trapped(self, me: Node):
        return me.x == -1
    @temporal
    def stays(self):
        return always(implies(self.trapped, always(self.trapped)))
"""


def searched(file: Path, text: str, config: str, **asked: Any) -> Any:
    file.write_text(HEAD + text)
    file.with_suffix(".cfg").write_text(config)
    return load(f"{file}:P", config=file.with_suffix(".cfg")).check(deadlock=False, **asked)


@pytest.mark.parametrize("order", ["bfs", "dfs"])
@pytest.mark.parametrize("constraints", ["InParts", "Whole Local"])
def test_an_error_in_a_state_that_another_constraint_prunes(constraints: str, order: str, tmp_path: Path) -> None:
    asked = {"search": order} if order == "dfs" else {}
    found = searched(tmp_path / "a.py", ONE_STEP, f"CONSTRAINTS {constraints}", engine="tables", **asked)
    assert [(one.property, len(one.trace)) for one in found.violations] == [(constraints.split()[0], 2)]


def test_a_constraint_is_not_evaluated_behind_one_that_fails(tmp_path: Path) -> None:
    for engine in ("reference", "tables"):
        found = searched(tmp_path / "a.py", ONE_STEP, "CONSTRAINTS Local Whole", engine=engine)
        assert (found.violations, found.distinct_states) == ([], 1), engine


@pytest.mark.parametrize(("limit", "repeated"), [(40, 200_000), (None, 200_000), (200, 10)])
def test_a_resumed_search_has_the_same_graph(
    limit: int | None, repeated: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "MOST_RECHECKED_STATES", repeated)
    config = "CONSTRAINT Empty\nPROPERTIES Back Stays"
    asked: dict[str, Any] = {"engine": "tables", "keep_going": True}
    found = searched(tmp_path / "a.py", TRAP, config, **asked)
    assert sorted(one.property for one in found.violations) == ["Back"]
    searched(tmp_path / "a.py", TRAP, config, checkpoint=tmp_path / "kept", max_states=limit, **asked)
    again = searched(tmp_path / "a.py", TRAP, config, resume=tmp_path / "kept", **asked)
    for one in (found, again):
        assert (one.distinct_states, one.complete) == (343, True)
    assert [one.property for one in again.violations] == ["Back"]
    assert str(again.violations[0].trace[-1].state) == str(found.violations[0].trace[-1].state)


OF_INBOXES = """
class P(Protocol):
    network = MessageSet()
    def initial(self):
        yield self.start([Node(1), Node(2)], World())
    @internal
    def send(self, me: Node):
        if me.x < 2:
            yield become(me.but(x=me.x + 1)).send(Word(me.x, 3 - me.id))
    @invariant
    def in_a_loop(self, state: State):
        for inbox in state.inboxes.values():
            if sum(word.n for word in inbox) > 4:
                return False
        return True
    @invariant
    def few(self, state: State):
        return all(word.n < 4 for inbox in state.inboxes.values() for word in inbox)
"""


def test_an_invariant_of_inboxes_is_not_vacuous(tmp_path: Path) -> None:
    for engine in ("reference", "tables"):
        found = searched(tmp_path / "a.py", OF_INBOXES, "INVARIANTS InALoop Few", engine=engine)
        assert found.vacuous == [], engine

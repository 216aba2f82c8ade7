"""Projections of all replicas: what is read of them, and nothing else, counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kraftcheck import load
from kraftcheck.spec import (
    Bag,
    Map,
    Protocol,
    Record,
    State,
    Step,
    Steps,
    become,
    bound,
    constraint,
    consume,
    internal,
    invariant,
    on,
    projection,
)

pytestmark = pytest.mark.kernel


class Cell(Record):
    """A replica that may divide, and keeps what it saw of others."""

    id: int
    seen: Map[int, int] = Map()


class Note(Record):
    """A message."""

    dest: int


class Nothing(Record):
    """No shared state."""


class Cells(Protocol):
    """Cells appear; each may look at what is under way to all that are there."""

    most: int = bound("Most", default=2)
    network = Bag()

    def initial(self) -> Iterator[State]:
        """One cell, and its twin in half of the initial states."""
        yield self.start([Cell(0)], Nothing())
        yield self.start([Cell(0), Cell(1)], Nothing())

    @internal
    def write(self, me: Cell) -> Steps:
        """A note to oneself."""
        yield Step().send(Note(me.id)).spend("most")

    @internal
    def divide(self, me: Cell) -> Steps:
        """A new cell."""
        yield Step().write(Cell(me.id + 1)).spend("most")

    @projection
    def waiting(self, messages: tuple[Record, ...]) -> int:
        """Messages under way."""
        return len(messages)

    @internal(reads=waiting)
    def look(self, me: Cell, waiting: Map[int, int]) -> Steps:
        """Keep the whole projection, without having looked at any of it."""
        if not me.seen:
            yield become(me.but(seen=waiting))

    @on(Note)
    def read(self, me: Cell, note: Note) -> Steps:
        """Take a note."""
        yield consume(me)

    @invariant(reads=waiting)
    def few(self, me: Cell, waiting: Map[int, int]) -> bool:
        """Nobody has seen more than are there."""
        return len(me.seen) <= len(waiting)

    @constraint
    def unseen(self, me: Cell) -> bool:
        """Nobody has looked."""
        return not me.seen

    @invariant
    def not_for_who_looked(self, me: Cell, message: Note) -> bool:
        """False: a note may come to a cell that has looked."""
        return message.dest != me.id or len(me.seen) < 2


def result_of(model: Any, engine: str, **options: Any) -> tuple[Any, ...]:
    found = load(model).check(engine=engine, keep_going=True, deadlock=False, **options)
    told = sorted((one.property, len(one.trace)) for one in found.violations)
    return found.distinct_states, found.generated_states, found.depth, dict(found.actions), told


def test_a_replica_that_is_not_there_has_no_inbox() -> None:
    found = result_of(Cells, "tables")
    assert found == result_of(Cells, "reference")
    assert found[-1] == [("NotForWhoLooked", 3)]


@pytest.mark.parametrize("search", ["bfs", "dfs"])
def test_what_a_constraint_rules_out_is_checked_all_the_same(tmp_path: Path, search: str) -> None:
    config = tmp_path / "unseen.cfg"
    config.write_text("CONSTANT Most = 2\nCONSTRAINT Unseen\nINVARIANT NotForWhoLooked\nCHECK_DEADLOCK FALSE\n")
    found = load(Cells, config).check(search=search)
    assert [one.property for one in found.violations] == ["NotForWhoLooked"]
    last = found.violations[0].trace[-1].state
    assert any(len(cell.seen) == 2 for cell in last.replicas.values()), "only beyond the constraint it is false"


def test_handlers_are_called_for_what_they_read() -> None:
    found = load("paxos").check()
    assert found.handler_calls["Phase2a"] < 200, "it reads the promises of one leader, and who was asked to vote"
    assert "OneChosen reads whole inboxes: it was evaluated 8 times" in found.notes

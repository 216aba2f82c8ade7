"""Projections of all replicas: what is read of them, and nothing else, counts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from kraftcheck import check, load
from kraftcheck.explorer.tables.rows import distinct_column_indices_and_inverse
from kraftcheck.spec import (
    Bag,
    Map,
    ModelValue,
    Protocol,
    Record,
    State,
    Step,
    Steps,
    become,
    bound,
    constant,
    constraint,
    consume,
    internal,
    invariant,
    on,
    ordered,
    projection,
    reachable,
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


class Successor(Cells):
    """One cell makes another, and sees that it is there."""

    most: int = bound("Most", default=0)

    def initial(self) -> Iterator[State]:
        """One cell."""
        yield self.start([Cell(0)], Nothing())

    @projection
    def looked(self, me: Cell) -> bool:
        """Whether it has seen something."""
        return bool(me.seen)

    @internal(reads=looked)
    def look(self, me: Cell, looked: Map[int, bool]) -> Steps:
        """Make the other cell, then look."""
        if me.id != 0:
            return
        if 7 not in looked:
            yield Step().write(Cell(7))
        elif not looked[7] and not me.seen:
            yield become(me.but(seen=Map({0: 0})))


@cache
def is_odd(cell: Cell) -> bool:
    """What is remembered is not read again."""
    return cell.id % 2 == 1


class Unread(Successor):
    """What should stay reachable is about messages; an invariant asks a helper that remembers."""

    most: int = bound("Most", default=2)

    @reachable
    def nothing_is_under_way(self, message: Note) -> bool:
        """False wherever a note is under way: nobody reads."""
        return message.dest < 0

    @on(Note)
    def read(self, me: Cell, note: Note) -> Steps:
        """Keep the note."""
        yield from ()

    @invariant
    def one_is_odd(self, me: Cell, peer: Cell) -> bool:
        """Of two cells one is odd."""
        return is_odd(me) != is_odd(peer) or abs(me.id - peer.id) != 1


class Peer(Record):
    """A replica whose fields others write."""

    id: int
    held: int = 0
    changes: tuple[int, ...] = ()
    key: int = 0


class Post(Record):
    """What everyone sees."""

    last: Peer = Peer(0)


class Peers(Protocol):
    """Replicas read, compare, keep and write whole others, and what is shared."""

    @projection
    def others(self, me: Peer) -> Peer:
        """The whole replica."""
        return me

    def initial(self) -> Iterator[State]:
        """Three replicas."""
        yield self.start([Peer(1), Peer(2), Peer(3)], Post())

    @internal(reads=others)
    def push(self, me: Peer, others: Map[int, Peer]) -> Steps:
        """Raise what another holds; of two steps that may be the same one is taken."""
        for other in others.values():
            if other.id != me.id and other.held < 2:
                yield Step().write(other.but(held=other.held + 1))
                yield Step().write(other.but(held=2))
                yield Step().write(other.but(held=2, key=other.key))

    @internal(reads=others)
    def post(self, me: Peer, others: Map[int, Peer], shared: Post) -> Steps:
        """Post a replica that is as this one, and keep what was posted."""
        if shared.last.held < me.held and me.but(id=1 + me.id % 3) == others[1 + me.id % 3]:
            yield become(me.but(changes=(shared.last.held,), key=shared.last.key)).put(last=others[1 + me.id % 3])

    @internal(reads=others)
    def rank(self, me: Peer, others: Map[int, Peer], shared: Post) -> Steps:
        """Do what needs records, and nothing that stands for one."""
        first = ordered([shared.last, *others.values()])[0]
        if first == me and type(first) is Peer:
            yield Step().write(others[1 + me.id % 3].but(id=me.id, held=0))

    @invariant(reads=others)
    def few(self, others: Map[int, Peer], shared: Post) -> bool:
        """Not everyone holds what was posted."""
        return not all(one.held == shared.last.held > 0 for one in others.values())


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


@pytest.mark.parametrize("model", [Successor, Unread, Peers])
def test_both_engines_find_the_same(model: type[Protocol]) -> None:
    """Of a replica made by who looked for it, of helpers that remember, of what is said of messages, of peers."""
    found = result_of(model, "tables")
    is_odd.cache_clear()
    assert found == result_of(model, "reference")
    assert ("NothingIsUnderWay" in dict(found[-1])) == (model is Unread)


class Token(Record):
    """A replica that hands something on."""

    id: ModelValue
    stage: int = 0


class Told(Record):
    """A message."""

    dest: ModelValue


class Stage(Record):
    """How far it came."""

    stage: int = 0


class Stages(Protocol):
    """One of several, all alike, goes through two stages."""

    hosts: frozenset[ModelValue] = constant("Hosts")
    network = Bag()
    symmetries = {"symmHosts": ("hosts",)}

    def initial(self) -> Iterator[State]:
        """Nobody has begun."""
        yield self.start([Token(host) for host in ordered(self.hosts)], Stage())

    @internal
    def begin(self, me: Token, shared: Stage) -> Steps:
        """The first stage."""
        if shared.stage == 0:
            yield become(me.but(stage=1)).send(Told(me.id)).put(stage=1)

    @internal
    def end(self, me: Token, shared: Stage) -> Steps:
        """The last one."""
        if shared.stage == 1 and me.stage == 1:
            yield become(me.but(stage=2)).put(stage=2)

    @invariant
    def never_begun(self, me: Token) -> bool:
        """False, and known by the tables."""
        return me.stage != 1

    @invariant
    def never_told(self, me: Token, message: Told) -> bool:
        """False at the same time, and evaluated in Python."""
        return me.stage != 1


def test_under_symmetry_what_is_violated_together_is_told_together(tmp_path: Path) -> None:
    config = tmp_path / "stages.cfg"
    config.write_text(
        "CONSTANT Hosts = {h1, h2}\nSYMMETRY symmHosts\nINVARIANTS NeverBegun NeverTold\nCHECK_DEADLOCK FALSE\n"
    )
    found = load(Stages, config).check(keep_going=True)
    assert sorted(one.property for one in found.violations) == ["NeverBegun", "NeverTold"]


@given(arrays(np.int32, st.tuples(st.integers(1, 40), st.integers(1, 3)), elements=st.integers(-1, 3)), st.booleans())
def test_eachdistinct_row_is_found_once(rows: NDArray[np.int32], are_far: bool) -> None:
    """Small numbers go by a table; far ones are sorted, as numbers or as bytes."""
    for scale in (1, 1 << 29) if are_far else (1,):
        first, which = distinct_column_indices_and_inverse(np.ascontiguousarray((rows * np.int32(scale)).T))
        assert (rows[first][which] == rows).all()
        assert len(first) == len(np.unique(rows, axis=0))
        assert all((rows[:index] != rows[index]).any(axis=1).all() for index in first)


class Row(Protocol):
    """Cells in an order that is not that of their ids."""

    network = None

    def initial(self) -> Iterator[State]:
        yield self.start(map(Cell, (3, 1, 2)), Nothing())

    @projection
    def sizes(self, me: Cell) -> int:
        return len(me.seen)

    @internal
    def see(self, me: Cell) -> Steps:
        if not me.seen:
            yield become(me.but(seen=Map({me.id: 1})))

    @invariant(reads=sizes)
    def not_first(self, sizes: Map[int, int]) -> bool:
        return list(sizes.values()) != [1, 0, 0]

    @invariant
    def not_last(self, state: State) -> bool:
        return [len(cell.seen) for cell in state.replicas.values()] != [0, 0, 1]


@pytest.mark.parametrize("engine", ["reference", "tables", "symbolic"])
def test_replicas_come_in_the_order_of_the_start(engine: str) -> None:
    found = check(Row(), engine=engine, deadlock=False, keep_going=True)
    assert {one.property: one.trace[1].actor for one in found.violations} == {"NotFirst": 3, "NotLast": 2}

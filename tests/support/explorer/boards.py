"""Protocols with shared sets, and the explosion of sets of few values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kraftcheck.explorer.tables.learning import shared_sets
from kraftcheck.explorer.tables.learning.shared_sets import ExplodedSets
from kraftcheck.spec import (
    Formula,
    ModelValue,
    Protocol,
    Record,
    State,
    Step,
    Steps,
    always,
    become,
    bound,
    constant,
    enabled,
    environment,
    internal,
    invariant,
    ordered,
    temporal,
    weak,
)


class Writer(Record):
    """Who writes on the board."""

    id: int
    seen: int = 0


class Line(Record):
    """A line on the board."""

    by: int
    number: int


class Note(Record):
    """An unsigned note on the board."""

    number: int
    by: int = 0


class Board(Record):
    """What all see."""

    lines: frozenset[Line | Note] = frozenset()
    kept: frozenset[Line | Note] = frozenset()


class Boards(Protocol):
    """Writers do all that can be done with a set."""

    def initial(self) -> Iterator[State]:
        """Two empty boards, one with a line."""
        yield self.start([Writer(1), Writer(2)], Board())
        yield self.start([Writer(1), Writer(2)], Board(frozenset({Line(9, 0)})))

    @internal
    def add(self, me: Writer, shared: Board) -> Steps:
        """Add a line that follows one's last, of two that may be the same, or be there."""
        latest = 0
        for line in shared.lines:
            if line.by == me.id and line.number > latest:
                latest = line.number
        for number in (min(latest + me.seen + 1, 2), 2):
            yield Step().put(lines=shared.lines | {Line(me.id, number)})
        yield Step().put(lines=shared.lines | {Line(me.id, 1), Line(me.id, 2)})

    @internal
    def wipe(self, me: Writer, shared: Board) -> Steps:
        """Wipe out what another has written, or all."""
        for line in shared.lines:
            if line.by == me.id:
                continue
            if line.number > 1 and me.seen == 0:
                yield become(me.but(seen=line.number)).put(lines=shared.lines - {line, Line(me.id, 7)})
        if me.seen and all(line.number >= 2 for line in shared.lines if line.by == me.id):
            yield Step().put(lines=frozenset({Line(9, me.id)}))

    def above(self, lines: frozenset[Line | Note], number: int) -> list[int]:
        """Return the writers of the lines above a number, in order."""
        return [line.by for line in ordered(lines) if isinstance(line, Line) and line.number > number]

    @internal
    def note(self, me: Writer, shared: Board) -> Steps:
        """Note lines by class, the least first."""
        found = 0
        for line in ordered(shared.lines):
            match line:
                case Line(by=by, number=number) if by != me.id and found == 0:
                    found = number
                case Note(number=number):
                    found += 10 * number
        if found and me.seen < 2:
            yield Step().put(lines=shared.lines | {Note(min(found, 2) - me.seen % 2)})
        if self.above(shared.lines, me.seen)[:1] == [me.id]:
            yield become(me.but(seen=2))
        for line in list(shared.lines):
            if isinstance(line, Note) and line.number == 1 and me.seen == 2:
                yield Step().put(lines=shared.lines - {line})

    @internal
    def look(self, me: Writer, shared: Board) -> Steps:
        """Count, compare, keep."""
        if shared.lines == {Line(1, 2), Line(2, 2)} or Line(9, 3 - me.id) in shared.lines:
            yield become(me.but(seen=len(shared.lines)))
        if me.seen > 1 and shared.lines > shared.kept:
            yield Step().put(kept=frozenset(line for line in shared.lines if line.number == me.seen))
        if me.seen == 0 and not shared.kept and {line.by for line in shared.lines} == {1, 2}:
            yield Step().put(kept=shared.lines)
        if len(shared.kept) == 2:
            yield become(me.but(seen=ordered(shared.kept)[0].number)).put(kept=shared.kept - shared.lines)

    @invariant
    def few(self, me: Writer, shared: Board) -> bool:
        """Nobody has written all, unless it is kept."""
        return sum(1 for line in shared.lines if line.by == me.id) < 2 or bool(shared.kept & shared.lines)

    @invariant
    def marked(self, me: Writer, shared: Board) -> bool:
        """Who was wiped out has seen nothing."""
        return Line(9, me.id) not in shared.lines or me.seen == 0


class TwoBoards(Protocol):
    """One set takes new elements for as long as the elements of another come and go."""

    def initial(self) -> Iterator[State]:
        yield self.start([Writer(1)], Board())

    @internal
    def add(self, me: Writer, shared: Board) -> Steps:
        if me.seen < 6:
            yield become(me.but(seen=me.seen + 1)).put(lines=shared.lines | {Line(1, me.seen)})

    @environment
    def turn(self, shared: Board) -> Steps:
        for number in range(3):
            line = Line(2, number)
            yield Step().put(kept=shared.kept - {line} if line in shared.kept else shared.kept | {line})

    @invariant
    def few(self, shared: Board) -> bool:
        return Line(2, 1) not in shared.kept or Line(1, 4) not in shared.lines


class Turns(Protocol):
    """A bound disables steps that would change a set, and others that would not."""

    turns: int = bound("MaxTurns", default=3)

    def initial(self) -> Iterator[State]:
        """An empty board."""
        yield self.start([Writer(1)], Board())

    @internal
    def add(self, me: Writer, shared: Board) -> Steps:
        """Add one of three lines, for ever."""
        for number in range(3):
            yield become(me.but(seen=number)).put(lines=shared.lines | {Line(1, number)})

    @environment
    def fill(self, shared: Board) -> Steps:
        """Keep a line."""
        yield Step().put(kept=shared.kept | {Line(2, 0)}).spend("turns")

    @environment
    def drop(self, shared: Board) -> Steps:
        """Keep it no longer."""
        yield Step().put(kept=shared.kept - {Line(2, 0)}).spend("turns")

    @environment
    def wipe(self, shared: Board) -> Steps:
        """Keep one line alone."""
        yield Step().put(kept=frozenset({Line(2, 1)})).spend("turns")

    @temporal(fairness=[weak("Add")])
    def never_fills(self) -> Formula:
        return always(~enabled("Fill"))

    @temporal
    def wipes_or_drops(self) -> Formula:
        return always(enabled("Wipe") | enabled("Drop"))

    @temporal
    def fills_or_drops(self) -> Formula:
        return always(enabled("Fill") | enabled("Drop"))

    @temporal
    def fills_and_drops(self) -> Formula:
        return always(enabled("Fill") | ~enabled("Drop"))


class Vote(Record):
    """A vote in a round; it may be for nobody."""

    by: ModelValue
    of: ModelValue | None
    round: int


class Voter(Record):
    """A voter, and whom it follows."""

    id: ModelValue
    round: int = 0
    follows: ModelValue | None = None


class Box(Record):
    """The votes, and those that were counted."""

    votes: frozenset[Vote] = frozenset()
    counted: frozenset[tuple[ModelValue, int]] = frozenset()


class Votes(Protocol):
    """Voters vote for each other in rounds; all of them, and all values, are interchangeable."""

    symmetries = {"Everybody": ("voters",)}
    voters: frozenset[ModelValue] = constant("Voters")

    def initial(self) -> Iterator[State]:
        """Nobody has voted."""
        yield self.start(map(Voter, ordered(self.voters)), Box())

    @internal
    def vote(self, me: Voter, shared: Box) -> Steps:
        """Vote for another, or for nobody, once a round."""
        for other in (None, *ordered(self.voters - {me.id})):
            if me.round < 2 and not any(vote.by == me.id and vote.round == me.round for vote in shared.votes):
                yield Step().put(votes=shared.votes | {Vote(me.id, other, me.round)})

    @internal
    def follow(self, me: Voter, shared: Box) -> Steps:
        """Follow whom another has voted for."""
        for vote in shared.votes:
            if vote.of is not None and vote.by != me.id and vote.round == me.round:
                yield become(me.but(follows=vote.of, round=me.round + 1))

    @internal
    def count(self, me: Voter, shared: Box) -> Steps:
        """Count the votes for one, and burn them."""
        mine = frozenset(vote for vote in shared.votes if vote.of == me.id and vote.round == 0)
        if mine:
            yield Step().put(votes=shared.votes - mine, counted=shared.counted | {(me.id, len(mine))})

    @invariant
    def few(self, shared: Box) -> bool:
        """Nobody gets all votes but one's own."""
        return not any(count == len(self.voters) - 1 for _, count in shared.counted)


def take_apart_at(values: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_worth(sets: ExplodedSets, field: int, found: list[Any]) -> bool:
        is_new = sets.is_allowed and field not in sets.elements and len(found) >= values
        return is_new and all(type(value) is frozenset for value in found)

    monkeypatch.setattr(ExplodedSets, "is_worth", is_worth)
    monkeypatch.setattr(shared_sets, "ELEMENTS_A_COLUMN", values)  # few, so that a set fills several columns

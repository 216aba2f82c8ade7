"""Every search order finds what the reference engine finds breadth first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from kraftcheck.explorer import reference
from kraftcheck.explorer.result import Options
from kraftcheck.explorer.tables import engine as tables
from kraftcheck.spec import (
    Bag,
    Map,
    Protocol,
    Record,
    State,
    Steps,
    become,
    bound,
    constraint,
    consume,
    environment,
    hide,
    internal,
    on,
    projection,
)
from kraftcheck.spec.language.step import Step

pytestmark = pytest.mark.kernel
DEEP = ("dfs", "iddfs")


class Node(Record):
    id: int
    at: int = 0


class Note(Record):
    dest: int


class Diary(Record):
    page: int = 0


class Noted(Protocol):
    """Two nodes send notes, of which few may be under way; the environment writes a diary that nothing reads."""

    notes: int = bound("MaxNotes", default=4)
    network = Bag(duplicates=True)
    views = {"without": hide("page")}

    def initial(self) -> Iterator[State]:
        for page in (0, 1):
            yield self.start([Node(1), Node(2)], Diary(page))

    @projection
    def waiting(self, inbox: Map[Note, int]) -> int:
        return sum(inbox.values())

    @internal
    def send(self, me: Node) -> Steps:
        for page in (1, 2):
            yield become(me).send(Note(3 - me.id)).spend("notes").put(page=page)

    @on(Note)
    def take(self, me: Node, note: Note) -> Steps:
        yield consume(me.but(at=(me.at + 1) % 3)).put(page=me.at)

    @environment
    def write(self) -> Steps:
        yield Step().put(page=3)

    @constraint(reads=waiting)
    def few(self, waiting: Map[int, int]) -> bool:
        return sum(waiting.values()) <= 2


@pytest.mark.parametrize("search", DEEP)
def test_a_state_beyond_a_constraint_that_is_met_again_nearer_is_one(search: str) -> None:
    """It may be another of the states that are one under the VIEW."""
    protocol = Noted()
    options = Options(deadlock=False, view="without", constraints=(protocol.properties["Few"],))
    expected = reference.explore(protocol, options)
    result = tables.explore(protocol, replace(options, search=search))
    assert result.complete
    assert result.distinct_states == expected.distinct_states
    if search == "dfs":
        assert (result.generated_states, result.actions) == (expected.generated_states, expected.actions)


@pytest.mark.parametrize("search", DEEP)
@pytest.mark.parametrize("view", [None, "without"])
def test_of_initial_states_that_are_one_the_first_is_expanded(search: str, view: str | None) -> None:
    protocol = Noted(notes=0)
    options = Options(deadlock=False, view=view)
    expected = reference.explore(protocol, options)
    result = tables.explore(protocol, replace(options, search=search))
    assert (result.distinct_states, result.generated_states) == (expected.distinct_states, expected.generated_states)
    assert result.actions == expected.actions


class Place(Record):
    id: int
    at: str = "start"


class Branching(Protocol):
    """`far` is met first at the end of a longer path."""

    ways = {"start": ("a", "b"), "a": ("c",), "c": ("far",), "b": ("far",)}

    def initial(self) -> Iterator[State]:
        yield self.start([Place(1)], Diary())

    @internal
    def go(self, me: Place) -> Steps:
        for place in self.ways.get(me.at, ()):
            yield become(me.but(at=place))


@pytest.mark.parametrize("explore", [reference.explore, tables.explore])
def test_a_limit_of_depth_that_cuts_nothing_off(explore: object) -> None:
    for depth, complete in ((3, False), (4, True)):
        for search in ("bfs", "dfs"):
            result = explore(Branching(), Options(search=search, deadlock=False, max_depth=depth))  # type: ignore[operator]
            assert (result.complete, result.distinct_states) == (complete, 5)

"""The part of a state graph with no way out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kraftcheck.explorer.result import Options
from kraftcheck.explorer.traps import find_trap
from kraftcheck.spec import InputError, Protocol, Record, State, Steps, become, constraint, internal


class Walker(Record):
    id: int
    at: int


class Nothing(Record):
    pass


class Maze(Protocol):
    """0 leads to 1 and 4; 1, 2 and 3 form a circle with an operator's exit to 5; 4 goes nowhere."""

    def initial(self) -> Iterator[State]:
        yield self.start([Walker(1, 0)], Nothing())

    @internal
    def walk(self, me: Walker) -> Steps:
        for place in {0: (1, 4), 1: (2,), 2: (3,), 3: (1,)}.get(me.at, ()):
            yield become(me.but(at=place))

    @internal
    def rescue(self, me: Walker) -> Steps:
        if me.at == 2:
            yield become(me.but(at=5))

    @internal
    def rest(self, me: Walker) -> Steps:
        yield become(me)

    @constraint
    def near(self, me: Walker) -> bool:
        return me.at < 4


def at(place: int):
    return lambda state: state.replicas[1].at == place


def places(trace) -> list[int]:
    return [step.state.replicas[1].at for step in trace]


def test_a_state_that_repeats_itself_is_a_trap() -> None:
    trap = find_trap(Maze(), at(5))
    assert (trap.states, trap.among, trap.components, places(trap.trace)) == (1, 6, (1,), [0, 4])


def test_a_circle_is_a_trap_where_its_exit_does_not_count() -> None:
    trap = find_trap(Maze(), at(5), without=["Rescue"])
    assert (trap.states, trap.components, places(trap.trace)) == (5, (3, 1), [0])


def test_nothing_wanted_everything_wanted() -> None:
    assert find_trap(Maze(), lambda _: False).states == 6
    trap = find_trap(Maze(), lambda _: True)
    assert (trap.states, trap.components, trap.trace) == (0, (), ())


def test_constraints_bound_what_is_searched() -> None:
    trap = find_trap(Maze(), at(3), Options(constraints=(Maze.properties["Near"],)))
    assert (trap.states, trap.among) == (0, 4)


def test_what_cannot_be_answered() -> None:
    with pytest.raises(InputError, match="unknown action Rescu"):
        find_trap(Maze(), at(5), without=["Rescu"])
    with pytest.raises(InputError, match="not complete"):
        find_trap(Maze(), at(5), Options(max_states=2))

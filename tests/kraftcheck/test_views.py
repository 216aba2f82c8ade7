"""A VIEW that leaves out what actions or properties read: warned of, or refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kraftcheck import check
from kraftcheck.explorer.result import Verdict
from kraftcheck.spec import (
    Bag,
    Protocol,
    Record,
    State,
    Step,
    Steps,
    become,
    bound,
    constraint,
    environment,
    hide,
    internal,
    invariant,
)
from kraftcheck.spec.errors import InputError


class Node(Record):
    """A replica."""

    id: int
    at: int = 0


class Shared(Record):
    """What is left out by one of the views."""

    last: int = 0


class Dear(Protocol):
    """It goes to 1 at the expense of a bound, or of nothing, and to 2 at the expense of the same bound."""

    network = Bag()
    once: int = bound("Once", default=1)
    views = {"without_bounds": hide("once"), "without_last": hide("last")}

    def initial(self) -> Iterator[State]:
        """One at 0."""
        yield self.start([Node(1)], Shared())

    @internal
    def dear(self, me: Node) -> Steps:
        """Go to 1 at the expense of the bound."""
        if me.at == 0:
            yield become(me.but(at=1)).spend("once")

    @internal
    def nothing(self, me: Node) -> Steps:
        """Go to 1."""
        if me.at == 0:
            yield become(me.but(at=1))

    @internal
    def on(self, me: Node) -> Steps:
        """Go to 2 at the expense of the bound."""
        if me.at == 1:
            yield become(me.but(at=2)).spend("once")

    @invariant
    def low(self, me: Node) -> bool:
        """It does not come to 2."""
        return me.at < 2


@pytest.mark.kernel
@pytest.mark.parametrize("engine", ["tables", "reference"])
def test_bounds_that_a_view_leaves_out_are_warned_of(engine: str) -> None:
    warned = "VIEW without_bounds leaves out once (read or spent by action Dear, action On): "
    found = check(Dear(), engine=engine, view="without_bounds", deadlock=False)
    assert found.verdict is Verdict.OK
    assert [one for one in found.warnings if one.startswith(warned)]
    for view in (None, "without_last"):
        found = check(Dear(), engine=engine, view=view, deadlock=False)
        assert found.verdict is Verdict.VIOLATION
        assert not [one for one in found.warnings if "VIEW" in one]


class World(Record):
    """What steps count, and what they leave behind."""

    at: int = 0
    trace: int = 0


class Traced(Protocol):
    """Two steps lead to states that differ in the trace alone."""

    network = Bag()
    views = {"untraced": hide("trace")}

    def initial(self) -> Iterator[State]:
        """No replica is there."""
        yield self.start([], World())

    @environment
    def one(self, shared: World) -> Steps:
        """Leave a trace."""
        if shared.at == 0:
            yield Step().put(at=1, trace=1)

    @environment
    def other(self, shared: World) -> Steps:
        """Leave another one."""
        if shared.at == 0:
            yield Step().put(at=1, trace=2)

    @environment
    def same(self, shared: World) -> Steps:
        """Go on from one of the traces."""
        if shared.at == 1 and shared.trace == 2:
            yield Step().put(at=2)

    @invariant
    def not_two(self, shared: World) -> bool:
        """It reads the trace, where it matters."""
        return shared.at == 0 or shared.trace != 2

    @invariant
    def not_two_of_state(self, state: State) -> bool:
        """It reads the trace of the whole state."""
        trace: int = state.shared.trace  # type: ignore[attr-defined]
        return trace != 2

    @invariant
    def not_another(self, shared: World) -> bool:
        """It compares the record, so it reads all fields."""
        return shared != World(1, 2)

    @invariant
    def not_three(self, shared: World) -> bool:
        """It reads what the view shows."""
        return shared.at < 3

    @constraint
    def small(self, shared: World) -> bool:
        """It reads the trace."""
        return shared.trace < 3


READING = ("NotTwo", "NotTwoOfState", "NotAnother")


@pytest.mark.kernel
@pytest.mark.parametrize("engine", ["tables", "reference"])
@pytest.mark.parametrize("name", READING)
def test_properties_that_read_what_a_view_leaves_out(engine: str, name: str) -> None:
    """The state found first stands for both, in TLC too: 2 distinct states of 3, and no violation."""
    found = check(Traced(), engine=engine, view="untraced", properties=[name], deadlock=False)
    assert (found.verdict, found.distinct_states, found.engine) == (Verdict.OK, 2, "reference")
    checked, searched = found.warnings
    assert checked.startswith(f"VIEW untraced leaves out trace (read by invariant {name}): only the first state found")
    assert searched.startswith("VIEW untraced leaves out trace (read or spent by action Same): only one of the states")
    assert check(Traced(), engine=engine, properties=[name], deadlock=False).verdict is Verdict.VIOLATION


@pytest.mark.kernel
@pytest.mark.parametrize("name", READING)
@pytest.mark.parametrize(
    "asked",
    [
        {"engine": "tables", "workers": 2},
        {"engine": "tables", "search": "dfs"},
        {"engine": "tables", "search": "iddfs"},
        {"engine": "reference", "search": "dfs"},
    ],
)
def test_orders_in_which_another_state_may_be_found_first_are_refused(name: str, asked: dict[str, Any]) -> None:
    refused = f"invariant {name} reads trace, which VIEW untraced leaves out: .*; expected --engine reference"
    with pytest.raises(InputError, match=refused):
        check(Traced(), view="untraced", properties=[name], deadlock=False, **asked)
    found = check(Traced(), view="untraced", properties=["NotThree"], deadlock=False, **asked)
    assert (found.verdict, found.distinct_states > 1) == (Verdict.OK, True)
    assert ["read or spent by action Same" in one for one in found.warnings] == [True]


@pytest.mark.kernel
def test_a_constraint_that_reads_what_a_view_leaves_out() -> None:
    asked: dict[str, Any] = {"view": "untraced", "constraints": ["Small"], "deadlock": False}
    with pytest.raises(InputError, match="constraint Small reads trace, which VIEW untraced leaves out"):
        check(Traced(), engine="tables", workers=2, properties=["NotThree"], **asked)
    assert "trace (read by constraint Small)" in check(Traced(), properties=["NotThree"], **asked).warnings[0]

"""What is told of a VIEW that leaves out bounds: of states that differ in these alone, one is searched."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kraftcheck import check
from kraftcheck.explorer.result import Verdict
from kraftcheck.spec import Bag, Protocol, Record, State, Steps, become, bound, hide, internal, invariant


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
def test_bounds_that_a_view_leaves_out_are_told_of(engine: str) -> None:
    noted = "VIEW without_bounds leaves out the bounds once: of states that differ in these alone, one is searched, so"
    found = check(Dear(), engine=engine, view="without_bounds", deadlock=False)
    assert found.verdict is Verdict.OK
    assert [note for note in found.notes if note.startswith(noted)]
    for view in (None, "without_last"):
        found = check(Dear(), engine=engine, view=view, deadlock=False)
        assert found.verdict is Verdict.VIOLATION
        assert not [note for note in found.notes if "VIEW" in note]

"""A property that raises fails a search only where a state, or a step that a state enables, makes it raise."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kraftcheck import check
from kraftcheck.spec import Protocol, Record, State, Step, Steps, become, bound, internal, step_invariant
from kraftcheck.spec.errors import RaisedError

pytestmark = pytest.mark.kernel


class Climber(Record):
    """A climber on a ladder."""

    id: int
    rung: int = 0


class Ladder(Record):
    """The highest rung that anyone has marked."""

    marked: int = 0


class Climbing(Protocol):
    """Three climbers share a number of steps; the third rung is out of reach for two steps."""

    climbs: int = bound("MaxClimbs", default=2)

    def initial(self) -> Iterator[State]:
        yield self.start([Climber(1), Climber(2), Climber(3)], Ladder())

    @internal
    def climb(self, me: Climber) -> Steps:
        if me.rung < 3:
            yield become(me.but(rung=me.rung + 1)).spend("climbs")

    @internal
    def mark(self, me: Climber, shared: Ladder) -> Steps:
        if me.rung > shared.marked:
            yield become(me).put(marked=me.rung)


class RaisesBySpending(Climbing):
    """Its property reads what a step spends."""

    @step_invariant
    def low(self, before: Climber, after: Climber, step: Step) -> bool:
        if after.rung == 3 and "climbs" in step.spends:
            raise ValueError(before.rung)
        return True


class RaisesByMark(Climbing):
    """Its property reads what all share."""

    @step_invariant
    def low(self, before: Climber, after: Climber, shared: Ladder) -> bool:
        if after.rung == 3 and shared.marked == 2:
            raise ValueError(before.rung)
        return True


@pytest.mark.parametrize("engine", ["reference", "tables", "symbolic"])
@pytest.mark.parametrize(("model", "steps"), [(RaisesBySpending, 3), (RaisesByMark, 4)])
def test_a_property_raises_only_for_steps_that_the_bounds_allow(
    model: type[Climbing], steps: int, engine: str
) -> None:
    result = check(model(), engine=engine, deadlock=False)
    assert (result.violations, result.complete) == ([], True)
    with pytest.raises(RaisedError, match="property Low raised ValueError: 2") as raised:
        check(model(climbs=3), engine=engine, deadlock=False)
    assert raised.value.trace is not None
    assert len(raised.value.trace) == 1 + steps

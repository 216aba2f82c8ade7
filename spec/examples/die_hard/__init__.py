"""Two jugs and a tap: measure four gallons with jugs of three and five, as in the film "Die Hard 3".

Source: module DieHard of the TLA+ examples. The state is the shared record alone, without replicas. To find a
solution, claim that none exists:

>>> from kraftcheck.explorer.reference import explore
>>> from kraftcheck.explorer.result import SearchRequest
>>> protocol = DieHard()
>>> result = explore(protocol, SearchRequest(properties=(protocol.properties["NotSolved"],)))
>>> for step in result.violations[0].trace[1:]:
...     print(step.action, step.state.shared)
FillBigJug Jugs(small=0, big=5)
BigToSmall Jugs(small=3, big=2)
EmptySmallJug Jugs(small=0, big=2)
BigToSmall Jugs(small=2, big=0)
FillBigJug Jugs(small=2, big=5)
BigToSmall Jugs(small=3, big=4)
"""

from __future__ import annotations

from collections.abc import Iterator

from kraftcheck.spec import Protocol, Record, State, Step, Steps, constant, environment, invariant


class Jugs(Record):
    """The number of gallons in each jug."""

    small: int = 0
    big: int = 0


class DieHard(Protocol):
    """Two jugs without marks are filled, emptied and poured into each other until one holds four gallons."""

    small: int = constant("Small", default=3, at_least=1)
    big: int = constant("Big", default=5, at_least=1)
    goal: int = constant("Goal", default=4, at_least=0)

    def initial(self) -> Iterator[State]:
        """Yield the initial state with two empty jugs."""
        yield self.start([], Jugs())

    @environment
    def fill_small_jug(self) -> Steps:
        """The small jug is filled from the tap."""
        yield Step().put(small=self.small)

    @environment
    def fill_big_jug(self) -> Steps:
        """The big jug is filled from the tap."""
        yield Step().put(big=self.big)

    @environment
    def empty_small_jug(self) -> Steps:
        """The small jug is emptied onto the ground."""
        yield Step().put(small=0)

    @environment
    def empty_big_jug(self) -> Steps:
        """The big jug is emptied onto the ground."""
        yield Step().put(big=0)

    @environment
    def small_to_big(self, shared: Jugs) -> Steps:
        """The small jug is poured into the big one until either is empty or full."""
        poured = min(shared.small, self.big - shared.big)
        yield Step().put(small=shared.small - poured, big=shared.big + poured)

    @environment
    def big_to_small(self, shared: Jugs) -> Steps:
        """The big jug is poured into the small one until either is empty or full."""
        poured = min(shared.big, self.small - shared.small)
        yield Step().put(small=shared.small + poured, big=shared.big - poured)

    @invariant
    def type_ok(self, shared: Jugs) -> bool:
        """No jug holds more than its capacity."""
        return 0 <= shared.small <= self.small and 0 <= shared.big <= self.big

    @invariant
    def not_solved(self, shared: Jugs) -> bool:
        """The big jug never holds the goal; a counterexample is a solution."""
        return shared.big != self.goal

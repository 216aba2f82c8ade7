"""Names that two things have are refused; a method that overrides a projection counts wherever that is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kraftcheck.explorer.reference import explore
from kraftcheck.explorer.result import SearchRequest
from kraftcheck.spec import (
    Bag,
    Map,
    Protocol,
    ProtocolError,
    Record,
    State,
    Steps,
    become,
    internal,
    invariant,
    predicate,
    projection,
)


class Node(Record):
    id: int
    count: int = 0


class Nothing(Record):
    pass


class Counting(Protocol):
    def initial(self) -> Iterator[State]:
        yield self.start([Node(1), Node(2)], Nothing())

    @projection
    def counts(self, me: Node) -> int:
        return me.count

    @internal(reads=counts)
    def count(self, me: Node, counts: Map[int, int]) -> Steps:
        if max(counts.values()) < 2:
            yield become(me.but(count=me.count + 1))

    @invariant(reads=counts)
    def low(self, counts: Map[int, int]) -> bool:
        return max(counts.values()) < 3


def less(self: Any, me: Node) -> int:
    return me.count - 1


def counts(self: Any, me: Node) -> int:
    return me.count - 1


def never(self: Any, me: Node) -> bool:
    return False


@pytest.mark.parametrize("override", [less, projection(counts)])
def test_a_projection_is_read_as_a_variant_overrides_it(override: Callable[..., Any]) -> None:
    changed = type("More", (Counting,), {"counts": override})
    found = [explore(model(), SearchRequest(deadlock=False)).distinct_states for model in (Counting, changed)]
    assert found == [8, 15]


def test_something_else_of_the_name_overrides_no_projection() -> None:
    changed = type("More", (Counting,), {"counts": predicate(never)})
    assert explore(changed(), SearchRequest(deadlock=False)).distinct_states == 8


def told(**methods: Any) -> str:
    with pytest.raises(ProtocolError) as caught:
        type("Other", (Counting,), methods)()
    return str(caught.value)


def stand(self: Any, me: Node) -> Steps:
    yield become(me)


def test_two_properties_or_actions_of_one_name_are_refused() -> None:
    assert "never: Counting.low is called Low too; name= gives another name" in told(never=invariant(name="Low")(never))
    assert "stand: Counting.count is called Count too" in told(stand=internal(name="Count")(stand))
    assert "never: no next state is called Deadlock too" in told(deadlock=invariant(never))
    assert "stand: a step of the network is called LoseMessage too" in told(
        network=Bag(loses=True), lose_message=internal(stand)
    )


def test_two_projections_of_one_name_are_refused() -> None:
    def lowest(self: Any, counts: Map[int, int]) -> bool:
        return min(counts.values()) < 2

    other = projection(counts)
    assert "two projections are called counts: " in told(lowest=invariant(reads=other)(lowest))

"""1 and True are equal in Python and not the same value: every engine tells them apart wherever they stand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kraftcheck import check
from kraftcheck.spec import Bag, Map, Protocol, Record, State, Step, Steps, become, consume, internal, invariant, on
from kraftcheck.spec.values import is_mixture

pytestmark = pytest.mark.kernel
Either = int | bool


class Node(Record):
    id: int
    held: Either = 0
    several: tuple[Either, ...] = ()
    known: frozenset[tuple[Either, ...]] = frozenset()
    counts: Map[str, Either] = Map()
    seen: object = None


class Told(Record):
    dest: int
    what: Either


class Paper(Record):
    held: Either = 0
    several: tuple[Either, ...] = ()


class Alike(Protocol):
    """What follows 1 is nothing, and what follows True is wrong."""

    network = Bag()
    field = "held"

    def wrapped(self, value: Any) -> Any:
        """Return what a field has that holds a value."""
        made = {
            "several": (value,), "known": frozenset([(value,)]), "counts": Map({"a": value}), "seen": ((value, None),)
        }  # fmt: skip
        return made.get(self.field, value)

    def initial(self) -> Iterator[State]:
        """Nothing is held."""
        yield self.start([Node(1)], Paper())

    @internal
    def choose(self, me: Node) -> Steps:
        """1 comes first."""
        if me == Node(1):
            for value in (1, True):
                yield become(me.but(**{self.field: self.wrapped(value)}))

    @internal
    def err(self, me: Node) -> Steps:
        """Only True errs."""
        if repr(getattr(me, self.field)) == repr(self.wrapped(True)):
            yield become(me.but(held=7))

    @invariant
    def right(self, me: Node) -> bool:
        """Nobody errs."""
        return me.held != 7


class Several(Alike):
    field = "several"


class Known(Alike):
    field = "known"


class Counts(Alike):
    field = "counts"


class Seen(Alike):
    field = "seen"


class InMessages(Alike):
    @internal
    def choose(self, me: Node) -> Steps:
        if me.several == ():
            for value in (1, True):
                yield become(me.but(several=(0,))).send(Told(1, value))

    @on(Told)
    def err(self, me: Node, message: Told) -> Steps:
        yield consume(me.but(held=7 if message.what is True else 2))


class InShared(Alike):
    @internal
    def choose(self, me: Node, shared: Paper) -> Steps:
        if shared == Paper():
            for value in (1, True):
                yield Step().put(**{self.field: self.wrapped(value)})

    @internal
    def err(self, me: Node, shared: Paper) -> Steps:
        if repr(getattr(shared, self.field)) == repr(self.wrapped(True)):
            yield become(me.but(held=7))


class SeveralInShared(InShared):
    field = "several"


MODELS = [Alike, Several, Known, Counts, Seen, InMessages, InShared, SeveralInShared]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("model", MODELS)
def test_they_are_told_apart(model: type[Protocol]) -> None:
    found = []
    for engine, search in (("reference", "bfs"), ("tables", "bfs"), ("tables", "dfs"), ("symbolic", "saturation")):
        result = check(model(), engine=engine, search=search, deadlock=False, keep_going=True)
        found.append((result.distinct_states, [(one.property, len(one.trace)) for one in result.violations]))
    assert [one for one in found if one != found[0]] == []
    assert found[0] == (5 if model is InMessages else 4, [("Right", 3)])


@pytest.mark.parametrize("kind", [int, str, int | None, tuple[int, ...], frozenset[str], Node, Map[str, int]])
def test_most_types_have_no_values_alike(kind: Any) -> None:
    assert not is_mixture(kind)

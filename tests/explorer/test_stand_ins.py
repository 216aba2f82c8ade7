"""What a method can ask of a record has the same answer where the tables give it a stand-in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from kraftcheck import check
from kraftcheck.explorer.calls.inspection import find_proxy_revealing_methods
from kraftcheck.spec import (
    Map,
    Protocol,
    Record,
    State,
    Step,
    Steps,
    action_constraint,
    become,
    environment,
    internal,
    invariant,
    projection,
    step_invariant,
)

pytestmark = pytest.mark.kernel


class Client(Record):
    """One of two kinds of replica."""

    id: int
    count: int = 0


class Server(Record):
    """The other kind."""

    id: int
    count: int = 0


class World(Record):
    """What all share."""

    day: int = 0


def is_server(replica: Record) -> bool:
    return type(replica) is Server


class Counting(Protocol):
    """A client and a server count to three."""

    def initial(self) -> Iterator[State]:
        """Both at 0."""
        yield self.start([Client(1), Server(2)], World())

    @projection
    def whole(self, me: Record) -> Record:
        """All of a replica."""
        return me

    @internal
    def count(self, me: Client | Server) -> Steps:
        """Count."""
        if me.count < 3:
            yield become(me.but(count=me.count + 1))


class OfSteps(Counting):
    @step_invariant
    def low(self, before: Record, after: Any) -> bool:
        return not (type(after) is Server and after.count == 2)


class OfPairs(Counting):
    @invariant
    def low(self, me: Client, peer: Any) -> bool:
        return not (type(peer) is Server and peer.count == 2)


class ByAHelper(Counting):
    def servers(self, *some: Any) -> list[Any]:
        return list(filter(is_server, some))

    @step_invariant
    def low(self, before: Record, after: Any) -> bool:
        return not any(one.count == 2 for one in self.servers(after))


class Copies(Counting):
    @step_invariant
    def low(self, before: Any, after: Any) -> bool:
        return replace(before, count=after.count) == after and after.count < 3


class OfOthers(Counting):
    @internal(reads=Counting.whole)
    def jump(self, me: Client, whole: Map[int, Any]) -> Steps:
        if me.count == 0 and any(type(one) is Server and one.count == 2 for one in whole.values()):
            yield become(me.but(count=9))

    @invariant
    def low(self, me: Client) -> bool:
        return me.count < 9


class Shared(Counting):
    @environment
    def dawn(self, shared: World) -> Steps:
        assert isinstance(shared, World)
        if shared == World(0) and World(1) != shared and hash(shared) == hash(World(0)):
            yield Step().put(day=1)

    @invariant
    def low(self, shared: World) -> bool:
        return isinstance(shared, World) and shared != World(1)


class TypeOfShared(Counting):
    """An action and a property ask for the type of the shared record."""

    @internal
    def more(self, me: Server, shared: World) -> Steps:
        if type(shared) is World and me.count < 3:
            yield become(me.but(count=me.count + 1))

    @invariant
    def low(self, me: Server, shared: World) -> bool:
        return type(shared) is not World or me.count < 2


class Pruned(Counting):
    @action_constraint
    def short(self, before: Record, after: Any) -> bool:
        return not (type(after) is Server and after.count == 2)

    @invariant
    def low(self, me: Server) -> bool:
        return me.count < 2


class Paper(Record):
    """What is left for others."""

    last: Client | Server | None = None
    any: Any = None


class Left(Counting):
    """A shared field holds a record now and then."""

    def initial(self) -> Iterator[State]:
        yield self.start([Client(1), Server(2)], Paper())

    @internal
    def leave(self, me: Client | Server, shared: Paper) -> Steps:
        if shared.last is None or shared.last.count < me.count:
            yield become(me).put(last=me, any=None if shared.any == me else me)
        elif isinstance(shared.last, Server) and shared.last.count == 2:
            yield become(me).put(last=None, any=1)

    @invariant
    def low(self, shared: Paper) -> bool:
        return shared.last is None or isinstance(shared.last, Client) or shared.last.count < 3


class Book(Record):
    """What all share: the last step, and all steps."""

    last: Client | Server = Server(0, 5)
    steps: tuple[int, ...] = ()


class Replaced(Counting):
    """Records are copied by `dataclasses.replace`: of a replica, of its peers, in the shared state."""

    def initial(self) -> Iterator[State]:
        yield self.start([Client(1), Server(2), Server(3)], Book())

    @projection
    def whole(self, me: Client | Server) -> Client | Server:
        return me

    @internal
    def begin(self, me: Client | Server) -> Steps:
        if me.count < 1:
            yield become(replace(me, count=me.count + 1))

    @internal
    def leave(self, me: Client | Server, shared: Book) -> Steps:
        if me.count == 1 and len(shared.steps) < 4:
            yield become(replace(me, count=2)).put(last=replace(shared.last, id=me.id), steps=(*shared.steps, me.id))

    @internal(reads=whole)
    def promote(self, me: Client, whole: Map[int, Any]) -> Steps:
        for other in whole.values():
            if other.id != me.id and other.count == 2:
                yield become(replace(me, count=0)).write(replace(other, count=3))

    @invariant
    def low(self, state: State) -> bool:
        return replace(state.shared.last, id=0) != Server(0, 5) if len(state.shared.steps) > 2 else True


class Typed(Replaced):
    """An action that asks for a type reads its replica alone."""

    @internal
    def begin(self, me: Client | Server) -> Steps:
        if me.count < 1:
            yield become(type(me)(me.id, me.count + 1))


class Namesake(Record):
    """A client of another class of the same name, as a function makes."""

    id: int
    count: int = 0


Namesake.__qualname__ = Client.__qualname__


class Alike(Protocol):
    """Two kinds of replica have classes of one name."""

    def initial(self) -> Iterator[State]:
        """The second is of either."""
        yield self.start([Client(1), Client(2)], World())
        yield self.start([Client(1), Namesake(2)], World())

    @internal
    def grow(self, me: Client | Namesake) -> Steps:
        """Grow once."""
        if me.count < 1:
            yield become(me.but(count=1))

    @invariant
    def low(self, me: Client, peer: Client | Namesake) -> bool:
        """It does not hold of the other class."""
        return not (isinstance(peer, Namesake) and peer.count)


@pytest.mark.parametrize("engine", ["tables", "symbolic"])
@pytest.mark.parametrize(
    "model", [OfSteps, OfPairs, ByAHelper, Copies, OfOthers, Shared, TypeOfShared, Pruned, Left, Alike, Replaced, Typed]
)
def test_a_stand_in_answers_as_the_record_does(model: type[Protocol], engine: str) -> None:
    beyond = ["Short"] if model is Pruned else []
    found, expected = (
        check(model(), engine=name, keep_going=True, deadlock=False, action_constraints=beyond)
        for name in (engine, "reference")
    )
    told = [(one.property, len(one.trace)) for one in expected.violations]
    assert [name for name, _ in told] == ["Low"]
    assert [(one.property, len(one.trace)) for one in found.violations] == told
    assert (found.distinct_states, found.actions) == (expected.distinct_states, expected.actions)


def test_an_assert_asks_for_no_type_though_pytest_rewrites_it() -> None:
    assert any(name.startswith("@") for name in Shared.dawn.__code__.co_names)
    assert find_proxy_revealing_methods(Shared()) == set()
    assert find_proxy_revealing_methods(TypeOfShared()) == {"Low", "More"}


def test_a_handler_of_its_replica_does_not_depend_on_the_shared_history() -> None:
    for model, names in ((Replaced, set[str]()), (Typed, {"Begin"})):
        assert find_proxy_revealing_methods(model()) == names
        found = check(model(), engine="tables", keep_going=True, deadlock=False)
        assert found.handler_calls["Begin"] < 20 < found.distinct_states

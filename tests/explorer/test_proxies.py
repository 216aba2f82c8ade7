"""Handlers that notice a read-tracking proxy: every engine finds the reference engine's states and verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import ClassVar, Literal

import pytest

from kraftcheck import check
from kraftcheck.explorer.calls.handlers import function_with_filtering_loops
from kraftcheck.spec import (
    Map,
    MessageSet,
    Protocol,
    Record,
    State,
    Step,
    Steps,
    become,
    constraint,
    environment,
    hide,
    internal,
    invariant,
    on,
    ordered,
    projection,
)

pytestmark = pytest.mark.kernel


class Note(Record):
    """A numbered note."""

    number: int


class Reader(Record):
    """Who reads; true once it has read."""

    id: int
    read: int = 0

    def __bool__(self) -> bool:
        return self.read > 0

    def __str__(self) -> str:
        return f"read {self.read}"

    @property
    def _key(self) -> int:
        """A name that a proxy might have used."""
        return self.read


class Wall(Record):
    """What all see."""

    notes: frozenset[Note] = frozenset()
    bell: int = 0

    def __bool__(self) -> bool:
        return self.bell > 0

    def __str__(self) -> str:
        return f"bell {self.bell}"

    @property
    def rung_twice(self) -> bool:
        """Whether the bell rang twice."""
        return self.bell == 2

    def read_through(self) -> int:
        """A name that a proxy might have used."""
        return self.bell


class Bell(Protocol):
    """Readers read, a bell rings."""

    network = None
    views: ClassVar = {"bell": hide("notes")}

    def initial(self) -> Iterator[State]:
        """Nobody has read."""
        yield self.start([Reader(1), Reader(2)], Wall())

    @projection
    def whole(self, me: Reader) -> Reader:
        """The replica."""
        return me

    @internal
    def read(self, me: Reader) -> Steps:
        """Read up to three times."""
        if me.read < 3:
            yield become(me.but(read=me.read + 1))

    @environment
    def ring(self, shared: Wall) -> Steps:
        """Ring, up to twice."""
        yield Step().put(bell=(shared.bell + 1) % 3)


class Swallowing(Bell):
    """An `except` without a class catches more than the handler's own errors."""

    @internal
    def look(self, me: Reader, shared: Wall) -> Steps:
        """Read how often the bell rang."""
        try:
            rung = {0: 10, 1: 20}[shared.bell]
        except:  # noqa: E722 - as beginners write it
            rung = -1
        yield become(me.but(read=rung))


class Truth(Bell):
    """Tests the truth of records that define it."""

    @internal(reads=Bell.whole)
    def forget(self, me: Reader, shared: Wall, whole: Map[int, Reader]) -> Steps:
        """Forget if the other has read and the bell has rung."""
        if whole[3 - me.id] and shared:
            yield become(me.but(read=0))


class Text(Bell):
    """Compares the texts of records that define them."""

    @internal(reads=Bell.whole)
    def forget(self, me: Reader, shared: Wall, whole: Map[int, Reader]) -> Steps:
        """Forget where the texts say so."""
        if f"{whole[3 - me.id]}, {shared}" == "read 3, bell 2":
            yield become(me.but(read=0))


class SharedProperty(Bell):
    """Reads a property of the shared record, and changes a copy of the record."""

    @internal
    def look(self, me: Reader, shared: Wall) -> Steps:
        """Read a property, and a field of a copy."""
        if shared.rung_twice and not getattr(shared.but(bell=0), "rung_twice", True):
            yield become(me.but(read=0))


class Names(Bell):
    """Calls methods with names that proxies might have used."""

    @internal(reads=Bell.whole)
    def forget(self, me: Reader, whole: Map[int, Reader]) -> Steps:
        """Forget if the other has read three times."""
        if whole[3 - me.id]._key == 3:
            yield become(me.but(read=0))

    @internal
    def look(self, me: Reader, shared: Wall) -> Steps:
        """Read how often the bell rang."""
        yield become(me.but(read=shared.read_through()))


class Identity(Bell):
    """Compares replicas by identity."""

    @internal(reads=Bell.whole)
    def follow(self, me: Reader, whole: Map[int, Reader]) -> Steps:
        """Read what another has read."""
        for other in whole.values():
            if other is not me:
                yield become(me.but(read=other.read))

    @invariant(reads=Bell.whole)
    def one_is_me(self, me: Reader, whole: Map[int, Reader]) -> bool:
        """Exactly one of the replicas is the replica."""
        return sum(one is me for one in whole.values()) == 1


class SameObject(Bell):
    """Compares elements of projections by identity, under other names."""

    @projection
    def again(self, me: Reader) -> Reader:
        """The replica, once more."""
        return me

    @internal(reads=(Bell.whole, again))
    def forget(self, me: Reader, whole: Map[int, Reader], again: Map[int, Reader]) -> Steps:
        """Forget, since a replica is one object in all projections."""
        same = [one is other for one in whole.values() for other in again.values()]
        if me is whole[me.id] and sum(same) == 2:
            yield become(me.but(read=0))

    @environment(reads=(Bell.whole, again))
    def restart(self, whole: Map[int, Reader], again: Map[int, Reader]) -> Steps:
        """Set a replica back, for the same reason."""
        if whole[1] is again[1]:
            yield Step().write(whole[1].but(read=1))

    @invariant(reads=Bell.whole)
    def found_by_id(self, me: Reader, whole: Map[int, Reader]) -> bool:
        """The replica is the one with its id."""
        return me is whole[me.id] and me is max(whole.values(), key=lambda one: one.id == me.id)

    @invariant(reads=(Bell.whole, again))
    def one_object(self, whole: Map[int, Reader], again: Map[int, Reader]) -> bool:
        """Both projections have the same objects."""
        return all(one is other for one, other in zip(whole.values(), again.values(), strict=True))


class Odd(Record):
    """A note whose special methods are no plain functions."""

    number: int
    __bool__ = property(lambda self: lambda: self.number > 2)  # type: ignore[assignment]

    @cache  # noqa: B019 - records are kept anyway
    def __str__(self) -> str:
        return f"note {self.number}"


class OddReader(Reader):
    """A reader with such a note."""

    note: Odd = Odd(2)


class Specials(Bell):
    """Uses special methods of all kinds."""

    def initial(self) -> Iterator[State]:
        """Notes differ."""
        yield self.start([OddReader(1), OddReader(2, note=Odd(3))], Wall())

    @internal(reads=Bell.whole)
    def forget(self, me: OddReader, whole: Map[int, OddReader]) -> Steps:
        """Read what the other's note tells."""
        note = whole[3 - me.id].note
        if note and str(note) == "note 3":
            yield become(me.but(read=9))


class NobodyReads(Bell):
    """Claims that two replicas that have read have a reader among the others."""

    @invariant
    def both_or_none(self, me: Reader, peer: Reader) -> bool:
        """Both have read, or none."""
        return not (me and not peer)


class Notes(Protocol):
    """Notes are put on a wall; readers count them."""

    network = None

    def initial(self) -> Iterator[State]:
        """No notes."""
        yield self.start([Reader(1)], Wall())

    @environment
    def put(self, shared: Wall) -> Steps:
        """Put one of seven notes: enough sets for the table engine to take the set apart."""
        for number in range(7):
            yield Step().put(notes=shared.notes | {Note(number)})


class Following(Notes):
    """The test of a loop over a sorted copy changes with each element."""

    @internal
    def count(self, me: Reader, shared: Wall) -> Steps:
        """Count the notes 0, 1, 2, ... up to the first gap."""
        wanted = 0
        for note in ordered(shared.notes):
            if note.number == wanted:
                wanted += 1
        yield become(me.but(read=wanted))

    @invariant
    def has_gap(self, shared: Wall) -> bool:
        """The notes have a gap."""
        wanted = 0
        for note in ordered(shared.notes):
            if note.number != wanted:
                continue
            wanted += 1
        return wanted < 7


class Linking(Notes):
    """The test of a loop over a copy reads a set that the loop changes."""

    @internal
    def link(self, me: Reader, shared: Wall) -> Steps:
        """Count the notes that are linked with note 0."""
        linked = {0}
        for note in ordered(shared.notes):
            if note.number - 1 in linked:
                linked.add(note.number)
        yield become(me.but(read=len(linked)))


class Held(Notes):
    """The test of a loop over a copy reads a set within a tuple."""

    @internal
    def link(self, me: Reader, shared: Wall) -> Steps:
        """Count the notes that are linked with note 0."""
        linked = ({0}, 0)
        for note in ordered(shared.notes):
            if note.number - 1 in linked[0]:
                linked[0].add(note.number)
        yield become(me.but(read=len(linked[0])))


class Naming(Notes):
    """Rebinds a tested variable with a walrus, and before a generator is consumed."""

    @internal
    def climb(self, me: Reader, shared: Wall) -> Steps:
        """Count the notes before the first gap, and those above a limit."""
        last = -1
        climbed = [last := note.number for note in ordered(shared.notes) if note.number == last + 1]
        limit = 5
        above = (note for note in ordered(shared.notes) if note.number > limit)
        limit = 3
        yield become(me.but(read=10 * len(climbed) + sum(1 for _ in above)))


class Last(Notes):
    """Reads the variable of a loop after the loop."""

    @internal
    def see(self, me: Reader, shared: Wall) -> Steps:
        """See the last note, whatever the loop does with it."""
        note, ones = Note(-1), 0
        for note in ordered(shared.notes):
            if note.number == 1:
                ones += 1
        yield become(me.but(read=note.number + ones))


class Seer(Record):
    """Who sees numbers: enough sets of them for the symbolic engine to take the sets apart."""

    id: int
    seen: frozenset[int] = frozenset()
    told: int = 0

    @property
    def size(self) -> int:
        """How many numbers it has seen, modulo 3."""
        try:
            return len(self.seen) % 3
        except:  # noqa: E722 - as beginners write it
            return 7


class Question(Record):
    """A question."""

    dest: int
    number: int


class Seers(Protocol):
    """Seer 1 sees the numbers below 7."""

    network = MessageSet()

    def initial(self) -> Iterator[State]:
        """Nothing is seen."""
        yield self.start([Seer(1), Seer(2)])

    @projection
    def size(self, me: Seer) -> int:
        """The size modulo 3."""
        return me.size

    @internal
    def see(self, me: Seer) -> Steps:
        """See a number."""
        if me.id == 1:
            for number in range(7):
                yield become(me.but(seen=me.seen | {number}))


class Catching(Notes):
    """Catches the error of a function that takes a set, but no proxy of one."""

    @internal
    def count(self, me: Reader, shared: Wall) -> Steps:
        """Count the notes and note 9."""
        try:
            count = len(frozenset.union(shared.notes, [Note(9)]))
        except TypeError:
            count = 9
        yield become(me.but(read=count))


class Suppressing(Notes):
    """Catches this error without saying so."""

    @internal
    def count(self, me: Reader, shared: Wall) -> Steps:
        """Count the notes and note 9."""
        count = 9
        with suppress(TypeError):
            count = len(frozenset.union(shared.notes, [Note(9)]))
        yield become(me.but(read=count))


class CatchingAll(Notes):
    """Catches every error."""

    @internal
    def count(self, me: Reader, shared: Wall) -> Steps:
        """Count the notes and note 9."""
        count = 9
        try:
            count = len(frozenset.union(shared.notes, [Note(9)]))
        except:  # noqa: E722 - as beginners write it
            count = 9
        yield become(me.but(read=count))


class CatchingOwn(Seers):
    """Catches this error for a set of the replica's own."""

    @internal
    def tell(self, me: Seer) -> Steps:
        """Tell the size."""
        if me.id == 1:
            try:
                told = len(frozenset.union(me.seen, [9]))
            except TypeError:
                told = 9
            yield become(me.but(told=told))

    @constraint
    def few(self, me: Seer) -> bool:
        """At most four numbers are seen."""
        try:
            return len(frozenset.union(me.seen, [9])) < 6
        except TypeError:
            return False


class SwallowingProjection(Seers):
    """A projection, read by another replica and by its own, with an `except` without a class."""

    @internal(reads=Seers.size)
    def tell(self, me: Seer, size: Map[int, int]) -> Steps:
        """Tell the size of the first set."""
        yield become(me.but(told=size[1]))


class SwallowingClaim(Seers):
    """An invariant that reads the projection."""

    @invariant(reads=Seers.size)
    def small(self, size: Map[int, int]) -> bool:
        """The size is below 3."""
        return size[1] < 3


class SwallowingReceiver(Seers):
    """A test whether a message is received, with an `except` without a class."""

    def receives(self, me: Seer, message: Question) -> bool:
        """Whether a question has the size."""
        return me.size == message.number

    @internal
    def ask(self, me: Seer) -> Steps:
        """Ask for 0, then for 1."""
        if me.id == 2 and me.told < 2:
            yield become(me.but(told=me.told + 1)).send(Question(1, me.told))

    @on(Question)
    def answer(self, me: Seer, message: Question) -> Steps:
        """Tell the size."""
        yield become(me.but(told=message.number + 1))


ALL = (Swallowing, Truth, Text, SharedProperty, NobodyReads, Following, Linking, Held, Naming, Last)
ALL += (
    SameObject,
    Specials,
    Catching,
    Suppressing,
    CatchingAll,
    CatchingOwn,
    SwallowingProjection,
    SwallowingClaim,
    SwallowingReceiver,
    Names,
    Identity,
)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("protocol", ALL)
def test_engines_agree(protocol: type[Protocol]) -> None:
    def run(**how: str) -> tuple[object, ...]:
        found = check(protocol(), deadlock=False, keep_going=True, **how)  # type: ignore[misc]
        violated = [one.property for one in found.violations]
        return found.verdict, violated, found.distinct_states, found.generated_states

    expected = run(engine="reference")
    for options in ({"engine": "tables"}, {"engine": "tables", "search": "dfs"}, {"engine": "symbolic"}):
        assert run(**options) == expected, options


@pytest.mark.parametrize("engine", ["reference", "tables"])
@pytest.mark.parametrize("protocol", [Truth, Text])
def test_a_view_keeps_special_methods(protocol: type[Protocol], engine: Literal["reference", "tables"]) -> None:
    """A shared record with a hidden field uses the `__bool__` and `__str__` of its class."""
    shown, hidden = (check(protocol(), deadlock=False, properties=[], engine=engine, view=v) for v in (None, "bell"))
    assert (hidden.distinct_states, hidden.generated_states) == (shown.distinct_states, shown.generated_states)


def test_which_copies_are_filtered() -> None:
    """A loop over a copy tests its elements first where the test is the same for all of them."""

    def constant(self: object, me: Reader, shared: Wall) -> int:
        limit = me.read
        return len([note for note in ordered(shared.notes) if note.number > limit])

    def twice(self: object, me: Reader, shared: Wall) -> Steps:
        for note in ordered(shared.notes):
            if note.number > me.read:
                yield become(me.but(read=note.number))
        for note in sorted(shared.notes, key=lambda note: note.number):
            if note.number > me.read:
                yield become(me)

    def is_filtered(function: object) -> bool:
        return function_with_filtering_loops(function) is not function  # type: ignore[arg-type]

    assert is_filtered(constant)
    assert is_filtered(twice)
    assert not is_filtered(Last.see)


class Counter(Record):
    """What its neighbour counts up."""

    id: int
    up: int = 0
    other: int = 0


class Printed(Counter):
    """The same with a text of its own."""

    def __str__(self) -> str:
        return f"{self.up}"


class Counters(Protocol):
    """Each replica counts its neighbour up."""

    network = None
    kind: type[Counter] = Counter

    def initial(self) -> Iterator[State]:
        """All at 0, and a field that is not read."""
        for others in range(64):
            yield self.start([self.kind(1, 0, others % 8), self.kind(2, 0, others // 8)])

    @projection
    def whole(self, me: Counter) -> Counter:
        """The replica."""
        return me

    @internal(reads=whole)
    def count(self, me: Counter, whole: Map[int, Counter]) -> Steps:
        """Count the other up."""
        other = whole[3 - me.id]
        if other.up < 2:
            yield Step().write(other.but(up=other.up + 1))


class PrintedCounters(Counters):
    """Records with a special method."""

    kind = Printed


@pytest.mark.parametrize("protocol", [Counters, PrintedCounters])
def test_a_written_replica_is_not_read_whole(protocol: type[Protocol]) -> None:
    """A replica that is written by its changes alone stays unread but for these, whatever its class."""
    found = check(protocol(), deadlock=False, engine="tables")
    assert found.distinct_states == 64 * 9
    assert sum(found.handler_calls.values()) <= 144  # of 816 steps

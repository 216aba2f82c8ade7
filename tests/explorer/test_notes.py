"""What the kernel notes of a successor, and what it must not take for one that it has had."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kraftcheck import Protocol, Record, State, Steps, become, bound, internal, invariant
from kraftcheck.explorer.reference import ReferenceSearch
from kraftcheck.explorer.result import SearchRequest
from kraftcheck.explorer.tables.searches.bfs import BreadthFirstSearch
from kraftcheck.spec import Bag

pytestmark = pytest.mark.kernel


class Nothing(Record):
    pass


class Writer(Record):
    id: int
    at: int = 0


class Note(Record):
    source: int
    dest: int
    at: int


class Notes(Protocol):
    """Writers send themselves notes, which stay; of nothing else does the invariant speak."""

    network = Bag()
    notes: int = bound("MaxNotes", default=3)

    def initial(self) -> Iterator[State]:
        yield self.start([Writer(1), Writer(2)], Nothing())

    @internal
    def write(self, me: Writer) -> Steps:
        yield become(me.but(at=me.at + 1)).send(Note(source=me.id, dest=me.id, at=me.at)).spend("notes")

    @invariant
    def first_notes_only(self, message: Note) -> bool:
        return message.at < 2


@pytest.mark.parametrize("keep_going", [False, True])
def test_a_message_that_must_not_be_is_found_in_the_last_states_too(keep_going: bool) -> None:
    protocol = Notes()
    options = SearchRequest(properties=tuple(protocol.properties.values()), deadlock=False, keep_going=keep_going)
    expected, found = ReferenceSearch(protocol, options).run(), BreadthFirstSearch(protocol, options, 1).run()
    assert [(one.property, len(one.trace)) for one in expected.violations] == [("FirstNotesOnly", 4)]
    assert [(one.property, len(one.trace)) for one in found.violations] == [("FirstNotesOnly", 4)]

"""Exploded shared sets: a bit of the control row for each element that may be in the set.

A set of messages that every replica reads has nearly as many values as there are states. Exploded, it is read one
element at a time, and a step that adds an element applies to any rest of the set. Paxos with one shared set and two
ballots then calls handlers 785 times instead of 39,268 times (`benchmarks/models/paxos_msgs.py`).

A set is exploded once it has many values of few elements; its memoized results are dropped. A new element drops the
results of calls that iterated over the set, unless the call's test rejects the element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from functools import partial
from itertools import count, islice
from operator import eq, is_
from types import CellType, FunctionType, NoneType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.calls.proxies import SetChange
from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.interning import BITS_LOG2
from kraftcheck.explorer.tables.learning.growing_tables import GrowingTables, InternedList, OrbitInterner, ValueQueries
from kraftcheck.spec.errors import ProtocolError
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.type_checks import may_be_record
from kraftcheck.spec.values import (
    ModelValue,
    Record,
    Value,
    field_types,
    field_values,
    may_conflate_values,
    ordered,
    type_distinguishing_key,
)

FEWEST_VALUES_TO_EXPLODE = 64
"""Values of a shared set from which on exploding it is considered."""

ELEMENTS_A_COLUMN = 31
"""Bits of a column that stand for elements; the sign stays free. More elements insert columns into all control rows."""

ElementTestFunction = Callable[[Any], Any]
MOST_KEPT_ELEMENT_TESTS = 4096
"""Tests of the elements of a set that are kept."""

_UNSET_VARIABLE = object()
_NO_FIXED_KEY = object()
_SCALAR_TYPES = frozenset({bool, int, str, NoneType, ModelValue})


class ExplodedSets:
    """The shared sets of one protocol that control rows store as a bit for each element."""

    def __init__(self, tables: GrowingTables, orbits: OrbitInterner) -> None:
        self._tables, self._orbits = tables, orbits
        tables.exploded = np.zeros((0, 3), np.int32)
        self.fields = 0  # of the shared record
        self.first: dict[int, int] = {}
        self.room: dict[int, int] = {}  # number of its columns
        self.elements: dict[int, dict[Value, int]] = {}
        self.tests: dict[int, dict[Value, MemoizedElementTest]] = {}
        self.columns = self.changes = 0
        self.mixed: set[int] = set()  # fields whose elements may be equal and distinct, as 1 and True are
        self.is_allowed = True
        self.added: Callable[[int, Value], None] = lambda field, element: None  # called for each new element

    def is_worth(self, field: int, values: list[Value]) -> bool:
        """Return whether exploding a shared field pays: its many values are sets over few elements."""
        if not self.is_allowed or field in self.elements or len(values) < FEWEST_VALUES_TO_EXPLODE:
            return False
        if not all(type(value) is frozenset for value in values):
            return False
        found = frozenset().union(*values)
        if field in self.mixed and len(
            {type_distinguishing_key(element) for value in values for element in value}
        ) > len(found):
            return False
        return 2 * len(found) <= len(values)

    def explode(
        self, field: int, column: int, base: int, values: list[Any], known: Iterable[Value] = (), room: int = 0
    ) -> None:
        """Explode a shared set: give its elements bits, in the order of those `known`, and convert rows and deltas."""
        tables, found = self._tables, [*known] or ordered(frozenset().union(*values))
        self.first[field], self.room[field] = base, 0
        self.elements[field], self.tests[field] = {}, {}
        self._insert(field, max(room, len(found) // ELEMENTS_A_COLUMN + 1))
        for element in found:
            self.place(field, element)
        rows = int(tables.meta[codes.META_ROWS])
        words = self.words_of(field, values)[tables.rows[:rows, column]]
        tables.rows[:rows, base : base + words.shape[1]] = words
        tables.rows[:rows, column] = 0
        tables.rehash_control_rows(len(tables.row_table))
        for delta in np.flatnonzero(tables.deltas[:, 1]).tolist():
            first, count, *spent = tables.deltas[delta].tolist()
            assigned = {at: pair for at, *pair in tables.assignments[first : first + count].tolist()}
            if column in assigned:
                whole = values[assigned.pop(column)[0]]
                again = [(at, *pair) for at, pair in (self.assigned(field, SetChange(whole, None)) | assigned).items()]
                tables.deltas[delta] = tables.extend("assignments", again), len(again), *spent

    def words_of(self, field: int, values: list[Any]) -> NDArray[np.int32]:
        """Return the columns of an exploded set's values."""
        words = np.zeros((len(values), self.room[field]), np.int32)
        for number, value in enumerate(values):
            for at, bit in (self.bit(field, self.elements[field][element]) for element in value):
                words[number, at - self.first[field]] |= 1 << bit
        return words

    def largest_words(self) -> list[int]:
        """Return the largest value of each column of exploded sets."""
        lefts = [len(self.elements[f]) - n * ELEMENTS_A_COLUMN for f, room in self.room.items() for n in range(room)]
        return [(1 << min(max(left, 0), ELEMENTS_A_COLUMN)) - 1 for left in lefts]

    def _insert(self, field: int, more: int) -> None:
        """Insert columns at the end of a set's columns."""
        tables = self._tables
        at = self.first[field] + self.room[field]
        self.changes += 1
        self.columns += more
        gap = np.zeros((len(tables.rows), more), np.int32)
        tables.rows = np.ascontiguousarray(np.hstack([tables.rows[:, :at], gap, tables.rows[:, at:]]))
        tables.hidden = np.concatenate([tables.hidden[:at], gap[0], tables.hidden[at:]])
        columns, nodes = tables.assignments[:, 0], tables.nodes
        columns[columns >= at] += more
        columns[columns < ~at + 1] -= more
        reads_column = np.isin(nodes[:, codes.NODE_KIND], (codes.SHARED, codes.ELEMENT))
        nodes[reads_column & (nodes[:, codes.NODE_A] >= at), codes.NODE_A] += more
        for other, first in self.first.items():
            if other != field and first >= at:
                self.first[other] = first + more
        self.room[field] += more
        cleared = tables.assignments[:, 0] == ~self.first[field]
        tables.assignments[cleared, 1] = self.room[field]
        tables.meta[codes.META_SLOT_BASE] += more
        exploded = [(one, first, self.room[one]) for one, first in self.first.items()]
        tables.exploded = np.array(exploded, np.int32)
        tables.rehash_control_rows(len(tables.row_table))

    def bit(self, field: int, place: int) -> tuple[int, int]:
        """Return the column and the bit of an element, given its place among the known ones."""
        return self.first[field] + place // ELEMENTS_A_COLUMN, place % ELEMENTS_A_COLUMN

    def place(self, field: int, element: Value) -> int:
        """Return the place of an element among the known ones; a new element is added to them."""
        known = self.elements[field]
        place = known.get(element)
        if place is None:
            place = known[element] = len(known)
            if place >= self.room[field] * ELEMENTS_A_COLUMN:
                self._insert(field, self.room[field] // 4 + 1)
            self.added(field, element)
            self._orbits.note(
                "permuted_shared", _kernel_bit_number(place), element, partial(self._bit_of, field), field, self.fields
            )
        elif field in self.mixed and type_distinguishing_key(element) != type_distinguishing_key(
            other := next(islice(known, place, None))
        ):
            both = f"{other!r} or {element!r}, which are equal in Python"
            raise ProtocolError(f"a shared set holds {both}; make them differ, or use --engine reference")
        return place

    def _bit_of(self, field: int, element: Value) -> int:
        return _kernel_bit_number(self.place(field, element))

    def assigned(self, field: int, change: SetChange) -> dict[int, tuple[int, int]]:
        """Return the value and the mask that a delta which makes `change` to an exploded set assigns to each column."""
        bits = [(self.place(field, element), 1) for element in ordered(change.added)]
        removed = [element for element in ordered(change.removed or ()) if element in self.elements[field]]
        bits += [(self.place(field, element), 0) for element in removed]
        found = {~self.first[field]: (self.room[field], 0)} if change.removed is None else {}
        for column, bit, value in ((*self.bit(field, place), value) for place, value in bits):
            before, kept = found.get(column, (0, (1 << ELEMENTS_A_COLUMN) - 1))
            found[column] = before | value << bit, kept & ~(1 << bit)
        return found

    def value(self, field: int, control: list[int]) -> frozenset[Value]:
        """Return the value of an exploded set, given the columns of a control row."""
        places = ((element, self.bit(field, place)) for element, place in self.elements[field].items())
        return frozenset(element for element, (column, bit) in places if control[column] >> bit & 1)


def _kernel_bit_number(place: int) -> int:
    """Return the number that the kernel gives to the bit of an element."""
    column, bit = divmod(place, ELEMENTS_A_COLUMN)
    return column << BITS_LOG2 | bit


HasAt = Callable[[Value, int], bool]
"""Membership function of an exploded set, by an element and its place among the known ones."""
NoteTest = Callable[[Value, ElementTestFunction | None], None]
"""Function that records a test of elements under a key; None for an iteration over the whole set."""


class KnownElementsWithTests:
    """The known elements of an exploded set, with a record of each test that a new element could pass."""

    def __init__(
        self, known: dict[Value, int], tests: dict[Value, MemoizedElementTest], has_at: HasAt, note: NoteTest
    ) -> None:
        self.known, self._tests = known, tests
        self.has_at, self._note = has_at, note

    def __iter__(self) -> Iterator[Value]:
        yield from list(self.known)
        self._note(None, None)

    def __contains__(self, element: Any) -> bool:
        if element in self.known:
            return True
        self._note(("is", element), partial(eq, element))
        return False

    def passing(self, passes: Any, has: HasAt) -> Iterator[Value]:
        """Yield the elements that pass a test, or for which the test raises an error, and that the set has.

        The test is recorded at the end, with the variables that it would see for a new, last element.
        """
        known, first = self.known, 0
        contents = _closure_values(passes)
        key, test = self._test(passes, contents)
        if test is not None:
            for element, place in list(test.passing().items()):
                if has(element, place):
                    yield element
                    if contents and not all(map(is_, _closure_values(passes), contents)):  # the loop changed its test
                        first, test = place + 1, None
                        break
        if test is None:
            for element, place in list(islice(known.items(), first, None)):
                if may_pass_test(passes, element) and has(element, place):
                    yield element
            key, test = self._test(passes, _closure_values(passes))
        self._note(key, test)  # at the end, since a new element would come last

    def _test(self, passes: Any, contents: list[Any]) -> tuple[Value, MemoizedElementTest | None]:
        """Return a test's key, and the test with its current closure; (None, None) if that may hold a proxy."""
        key = (passes.__code__, id(passes.__globals__), *map(_proxy_free_key, contents))
        if _NO_FIXED_KEY in key:
            return None, None
        test = self._tests.get(key)
        if test is None:
            if len(self._tests) >= MOST_KEPT_ELEMENT_TESTS:
                self._tests.clear()
            again = FunctionType(passes.__code__, passes.__globals__, closure=tuple(map(CellType, contents)))
            test = self._tests[key] = MemoizedElementTest(self.known, again)
        return key, test


class MemoizedElementTest:
    """A test with the closure of one call. It is evaluated once for each known element."""

    def __init__(self, known: dict[Value, int], passes: ElementTestFunction) -> None:
        self._known, self._passes = known, passes
        self._examined = 0
        self._passing: dict[Value, int] = {}

    def passing(self) -> dict[Value, int]:
        """Return the known elements that pass, and the place of each among all."""
        if self._examined < len(self._known):
            for element in list(islice(self._known, self._examined, None)):
                if may_pass_test(self._passes, element):
                    self._passing[element] = self._known[element]
            self._examined = len(self._known)
        return self._passing

    def __call__(self, element: Value) -> bool:
        """Return whether a known element passes."""
        return element in self.passing()


def _closure_values(passes: Any) -> list[Any]:
    """Return the current values of a function's closure; `_UNSET_VARIABLE` for a variable without a value."""
    return [_closure_cell_value(cell) for cell in passes.__closure__ or ()]


def _closure_cell_value(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _UNSET_VARIABLE


def may_pass_test(passes: ElementTestFunction, element: Value) -> bool:
    """Return whether an element passes a test, or the test raises an error."""
    try:
        return bool(passes(element))
    except Exception:
        return True


def _proxy_free_key(value: Any) -> Any:
    """Return a key of a value; `_NO_FIXED_KEY` if the value may hold a proxy, which would read other states later."""
    kind = type(value)
    if kind in _SCALAR_TYPES or issubclass(kind, type | Enum):
        return kind, value
    if issubclass(kind, Protocol):
        return id(value)
    if issubclass(kind, Record):
        return value if all(_proxy_free_key(one) is not _NO_FIXED_KEY for one in field_values(value)) else _NO_FIXED_KEY
    is_collection = issubclass(kind, tuple | frozenset)  # a `SetProxy` is none
    parts = tuple(map(_proxy_free_key, value)) if is_collection else (_NO_FIXED_KEY,)
    return _NO_FIXED_KEY if _NO_FIXED_KEY in parts else (kind, parts if issubclass(kind, tuple) else frozenset(parts))


class SharedFieldInterner:
    """The interned values of the shared record's fields; ids are per field."""

    def __init__(self, tables: GrowingTables, orbits: OrbitInterner, first: int) -> None:
        self.type: type[Record] | None = None
        self.names: tuple[str, ...] = ()
        self.records: set[int] = set()  # fields that may hold a record
        self.values: list[InternedList] = []
        self.queries: list[ValueQueries] = []
        self.sets = ExplodedSets(tables, orbits)
        self._tables, self._orbits, self._first = tables, orbits, first

    def shape(self, record_type: type[Record]) -> None:
        """Make room for the fields of the shared record."""
        kinds = field_types(record_type)
        self.type, self.names = record_type, tuple(kinds)
        self.records = {i for i, kind in enumerate(kinds.values()) if may_be_record(kind)}
        self.sets.fields = len(kinds)
        self.sets.mixed = {i for i, kind in enumerate(kinds.values()) if may_conflate_values(kind)}
        self.values = [InternedList() for _ in self.names]
        numbers = count()
        self.queries = [ValueQueries(self._tables, "shared_answers", values, numbers) for values in self.values]

    def id_of(self, column: int, value: Value) -> int:
        """Return the id of a field's value."""
        key = type_distinguishing_key(value)
        found = self.values[column].find(key)
        if found is None:
            found = self.values[column].add(key, value)
            self.queries[column].add(found, value)
            intern = partial(self.id_of, column)
            self._orbits.note("permuted_shared", found, value, intern, column, len(self.names))
        return found

    def record_of(self, control: list[int]) -> Record:
        """Return the shared record, given the columns of a control row."""
        assert self.type is not None
        fields = [
            values[control[self._first + i]] if i not in self.sets.elements else self.sets.value(i, control)
            for i, values in enumerate(self.values)
        ]
        return self.type(*fields)

    @property
    def end(self) -> int:
        """The first column of control rows after the shared record."""
        return self._first + len(self.names) + self.sets.columns

    def explode_sets(self) -> bool:
        """Explode each shared set for which that pays; return whether there was one."""
        # A VIEW's representative of a control row has id 0 in hidden columns, which an explosion would change.
        shown = [i for i in range(len(self.values)) if not self._tables.hidden[self._first + i]]
        worth = [i for i in shown if self.sets.is_worth(i, self.values[i])]
        for index in worth:
            self.explode(index)
        return bool(worth)

    def explode(self, index: int, known: Iterable[Value] = (), room: int = 0) -> None:
        """Explode a set into `room` columns or more; the elements `known` come first, in this order."""
        self.sets.explode(index, self._first + index, self.end, self.values[index], known, room)

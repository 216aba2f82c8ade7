"""Interned values on disk, in the order of their ids.

A new interner that reads the values in this order gives them the same ids. Inbox contents and control rows are set
as arrays. Memoized results are not stored; handlers are called again. Each `require_...` function raises
`CorruptFileError` for the first number out of range.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.checkpoint import SearchCheckpoint
from kraftcheck.explorer.native.arrays import grow_array
from kraftcheck.explorer.tables.kernel import codes, interning
from kraftcheck.explorer.tables.learning.growing_tables import NOT_EVALUATED
from kraftcheck.explorer.tables.learning.interner import Interner
from kraftcheck.explorer.tables.rows import Rows
from kraftcheck.persistence.folder import BatchNote
from kraftcheck.persistence.stored_files import (
    CorruptFileError,
    RowIndex,
    errors_as_corrupt_file,
    hash_each_number,
    require_condition,
    require_distinct_hashes,
)
from kraftcheck.spec.encoding import decode, encode
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.state import permute_model_values
from kraftcheck.spec.type_checks import fits_type
from kraftcheck.spec.values import Record, Value, field_types, text_of, truncate_text

FILES_OF_VALUES = ("values", "controls", "inboxes", "inbox_items")
SLOT_TAG, LOCAL_TAG, MESSAGE_TAG, SHARED_TAG, INBOX_TAG, ELEMENT_TAG, COLUMNS_TAG = b"SLMHIEC"
NUMBER_BYTES = 4  # bytes of a number in the file of values


class SavedValueCounts(NamedTuple):
    """Number of values of each kind that are on disk."""

    slots: int = 0
    locals: int = 0
    messages: int = 0
    shared: tuple[int, ...] = ()
    inboxes: int = 1  # content 0, the empty inbox, is not written
    items: int = 0
    controls: int = 0


MANIFEST_SHAPE: dict[str, Any] = dict.fromkeys(SavedValueCounts._fields, int)
MANIFEST_SHAPE |= {"shared": [int], "controls": [(int, int)]}
"""Schema of the manifest: see `require_json_shape`."""


class InternerFiles:
    """Checkpoint files with an interner's values: `save` appends new values, `load` restores all."""

    def __init__(self, interner: Interner, checkpoint: SearchCheckpoint) -> None:
        self.interner = interner
        self._elements: dict[int, dict[Value, int]] = {}  # of exploded sets
        self._rooms: dict[int, tuple[int, ...]] = {}  # columns of a control row -> those of each exploded set
        self._checkpoint, self.files = checkpoint, checkpoint.files
        self._written = SavedValueCounts()
        self._controls = RowIndex(np.int32)

    # Writing

    def save(self) -> BatchNote:
        """Append the values interned since the last call; return the counts for the manifest."""
        interner, done = self.interner, self._written
        now = self._counts()
        for key in list(interner.slots)[done.slots :]:
            self._value(SLOT_TAG, 0, key)
        for record in interner.locals[max(done.locals, 1) :]:  # local 0 is "no replica here"
            self._value(LOCAL_TAG, 0, record)
        for column, values in enumerate(interner.shared.values):
            for value in values[done.shared[column] if done.shared else 0 :]:
                self._value(SHARED_TAG, column, value)
        for message in interner.inboxes.messages[done.messages :]:
            self._value(MESSAGE_TAG, 0, message)
        for content in range(done.inboxes, now.inboxes if interner.inboxes.content_values else done.inboxes):
            if content in interner.inboxes.content_values:
                self._value(INBOX_TAG, content, interner.inboxes.content_values[content])
        rows: Rows = interner.tables.rows[done.controls : interner.tables.meta[codes.META_ROWS]]
        self._save_exploded_sets(rows.shape[1])
        heads, items = inbox_contents_since_id(interner, done.inboxes, done.items)
        self.files["inboxes"].append(heads)
        self.files["inbox_items"].append(items)
        self._controls.append(self.files["controls"], rows)
        self._written = now
        return {**now._asdict(), "controls": self._controls.shapes}

    def _save_exploded_sets(self, columns: int) -> None:
        """Append the new elements of exploded sets, and the columns of each in control rows of `columns` columns."""
        sets = self.interner.shared.sets
        for field, known in sets.elements.items():
            for element in list(known)[len(self._elements.get(field, ())) :]:
                self._value(ELEMENT_TAG, field, element)
            self._elements[field] = dict(known)
        if sets.elements and columns not in self._rooms:
            self._rooms[columns] = tuple(sets.room.values())
            self._value(COLUMNS_TAG, columns, self._rooms[columns])

    def _value(self, kind: int, number: int, value: Value) -> None:
        self._checkpoint.note(value)
        data = encode(value)
        head = bytes([kind]) + number.to_bytes(NUMBER_BYTES, "big") + len(data).to_bytes(NUMBER_BYTES, "big")
        self.files["values"].append(head + data)

    # Reading

    def load(self, noted: BatchNote) -> None:
        """Load the files into an empty interner."""
        with errors_as_corrupt_file("a value that is not of the protocol"):
            self._load(noted)

    def _load(self, noted: BatchNote) -> None:
        interner, inboxes = self.interner, self._values()
        items = self._pairs("inbox_items", noted["items"])
        heads = self._pairs("inboxes", max(noted["inboxes"] - 1, 0))
        require_valid_inbox_contents(interner, heads, items, np.array([number for number, _ in inboxes], np.int64))
        restore_inbox_contents(interner, heads, items)
        restore_ruleless_inbox_contents(interner, inboxes)
        for number, (field, known) in enumerate(self._elements.items()):
            room = max(rooms[number] for rooms in self._rooms.values() if number < len(rooms))
            require_condition(room <= 2 * len(known) + 1, f"a set of {len(known)} elements has {room} columns")
            interner.shared.explode(field, known, room)
            is_same = [*interner.shared.sets.elements[field]] == [*known]
            require_condition(is_same, "the elements of a set are not in order")
        offset = 0
        for rows, columns in noted["controls"]:
            offset = self._controls.note(rows, columns, offset)
        require_file_length("controls", self.files["controls"].length, offset)
        blocks = [*map(self._in_present_columns, self._controls.chunks(self.files["controls"], self._controls.count))]
        require_valid_control_rows(interner, blocks)
        restore_control_rows(interner, blocks)
        self._written = self._counts()
        found = {**self._written._asdict(), "shared": list(self._written.shared), "controls": noted["controls"]}
        expected = {name: noted[name] for name in found}
        if found != expected or self._written.controls != self._controls.count:
            raise CorruptFileError(f"expected {expected}, found {found}")

    def _in_present_columns(self, block: Rows) -> Rows:
        """Return stored control rows with the columns of the interner, whose sets have exploded since or have grown."""
        interner, sets, rooms = self.interner, self.interner.shared.sets, self._rooms.get(block.shape[1], ())
        bounds, at = len(interner.bounds), len(interner.bounds) + len(interner.shared.names)
        columns, slots = [block[:, :at]], block[:, at + sum(rooms) :]
        for number, field in enumerate(sets.elements):
            words = block[:, at : at + rooms[number]] if number < len(rooms) else None
            if words is None:
                values, ids = interner.shared.values[field], block[:, bounds + field]
                require_condition((ids >= 0) & (ids < len(values)), "a control row with an unknown value")
                words = sets.words_of(field, values)[ids]
                columns[0] = columns[0].copy()
                columns[0][:, bounds + field] = 0
            at += rooms[number] if number < len(rooms) else 0
            columns.append(np.pad(words, ((0, 0), (0, sets.room[field] - words.shape[1]))))
        return np.hstack([*columns, slots])

    def _counts(self) -> SavedValueCounts:
        interner = self.interner
        counts = len(interner.slots), len(interner.locals), len(interner.inboxes.messages)
        return SavedValueCounts(*counts, tuple(map(len, interner.shared.values)), *interner.totals())

    def _values(self) -> list[tuple[int, Value]]:
        """Intern all values of the file; return (id, value) of each inbox content that is stored as a value."""
        data, inboxes, start = self.files["values"].read(0, self.files["values"].length), list[tuple[int, Value]](), 0
        seen: Counter[tuple[int, int]] = Counter({(LOCAL_TAG, 0): 1})
        while start < len(data):
            kind = data[start]
            number = int.from_bytes(data[start + 1 : start + 1 + NUMBER_BYTES], "big")
            first = start + 1 + 2 * NUMBER_BYTES
            start = first + int.from_bytes(data[first - NUMBER_BYTES : first], "big")
            value = decode(data[first:start], self._checkpoint.lexicon)
            if kind == INBOX_TAG:
                inboxes.append((number, value))
                continue
            if kind == COLUMNS_TAG:
                require_condition(
                    all(type(one) is int and one > 0 for one in value), "columns of sets: expected numbers"
                )
                self._rooms[number] = value
                continue
            found = self._intern(kind, number, value)
            if found != seen[kind, number]:
                raise CorruptFileError(f"duplicate value: expected id {seen[kind, number]}, found {found}")
            seen[kind, number] += 1
        return inboxes

    def _intern(self, kind: int, number: int, value: Any) -> int:
        """Intern a value; return its id."""
        interner = self.interner
        if kind == SHARED_TAG:
            require_shared_value_type(interner, number, value)
            return interner.shared.id_of(number, value)
        if kind == ELEMENT_TAG:
            require_shared_value_type(interner, number, frozenset({value}))
            known = self._elements.setdefault(number, {})
            return known.setdefault(value, len(known))
        if kind == SLOT_TAG:
            return interner.slot(value)
        require_record_with_field(value, {LOCAL_TAG: "id", MESSAGE_TAG: "dest"}[kind])
        return interner.local(value) if kind == LOCAL_TAG else interner.inboxes.message(value)

    def _pairs(self, name: str, rows: int) -> NDArray[np.int32]:
        require_file_length(name, self.files[name].length, 8 * rows)
        array = np.empty((rows, 2), np.int32)
        self.files[name].read_into(0, array)
        return array


# The interner's tables


def inbox_contents_since_id(interner: Interner, first: int, first_item: int) -> tuple[Rows, Rows]:
    """Return inbox contents from id `first` on as (slot, item count), and their items from index `first_item` on."""
    tables = interner.tables
    heads = tables.contents[first : tables.meta[codes.META_CONTENTS]][:, [codes.CONTENT_SLOT, codes.CONTENT_COUNT]]
    return heads, tables.content_items[first_item : tables.meta[codes.META_CONTENT_ITEMS]]


def restore_inbox_contents(interner: Interner, heads: Rows, items: Rows) -> None:
    """Set an interner's inbox contents from `heads`, as (slot, item count) pairs, and their `items`."""
    tables, n = interner.tables, len(heads) + 1
    capacity = max(len(tables.contents), 1 << (2 * n + 16).bit_length())
    contents = np.zeros((capacity, tables.contents.shape[1]), np.int32)
    numbers = np.zeros(capacity, np.int32)
    contents[1:n, codes.CONTENT_SLOT], contents[1:n, codes.CONTENT_COUNT] = heads[:, 0], heads[:, 1]
    contents[1:n, codes.CONTENT_START] = np.cumsum(heads[:, 1]) - heads[:, 1]
    for slot in range(len(interner.slots)):
        mine = np.flatnonzero(heads[:, 0] == slot) + 1
        numbers[mine] = np.arange(1, len(mine) + 1)
        tables.slot_contents[slot] = len(mine)
    if n > 1:
        bad = tables.messages[items[:, 0], 1]
        contents[1:n, codes.CONTENT_VIOLATED] = np.bitwise_or.reduceat(bad, contents[1:n, codes.CONTENT_START])
        numbers[1:n] = codes.inbox_codes_marking_violations(numbers[1:n], contents[1:n, codes.CONTENT_VIOLATED])
    tables.contents, tables.inbox_codes = contents, numbers
    tables.content_items = grow_array(tables.content_items, 2 * len(items) + 16)
    tables.content_items[: len(items)] = items
    tables.permuted_contents = np.full((capacity, tables.permuted_contents.shape[1]), NOT_EVALUATED, np.int32)
    tables.inbox_answers = np.full((len(tables.inbox_answers), capacity), NOT_EVALUATED, np.int32)
    tables.meta[codes.META_CONTENTS] = n
    tables.meta[codes.META_CONTENT_ITEMS] = len(items)
    tables.rehash_contents(max(len(tables.content_table), 2 * capacity))


def restore_ruleless_inbox_contents(interner: Interner, inboxes: Sequence[tuple[int, Value]]) -> None:
    """Set the values and images of inbox contents that follow no counting rule."""
    numbers: dict[tuple[int, Value], int] = {}
    for content, inbox in inboxes:
        slot = interner.inboxes.slot_of_content(content)
        if interner.protocol.network.rule_of("discard", interner.protocol.network.known(inbox)[0]) is not None:
            raise InputError("made by an older kraftcheck, with another format of channels; start a new search")
        interner.inboxes.note_content(content, slot, inbox)
        numbers[slot, inbox] = content
        deliverable = {interner.inboxes.message(message) for message in interner.protocol.network.deliverable(inbox)}
        known = sorted({interner.inboxes.message(message) for message in interner.protocol.network.known(inbox)})
        if interner.inboxes.items_of_content(content) != [(message, int(message in deliverable)) for message in known]:
            raise CorruptFileError("the message counts of an inbox differ from its value")
    if len(numbers) != len(inboxes):
        raise CorruptFileError("two entries for the same inbox")
    tables = interner.tables
    for (slot, inbox), content in numbers.items() if len(interner.group) > 1 else ():
        for g, permutation in enumerate(interner.group):
            place = int(tables.permuted_slots[g, slot])
            tables.permuted_contents[content, g] = numbers[place, permute_model_values(inbox, permutation)]


def restore_control_rows(interner: Interner, blocks: list[Rows]) -> None:
    """Set the control rows of an interner; later blocks may have more columns."""
    tables, n = interner.tables, sum(map(len, blocks))
    capacity = max(len(tables.rows), 1 << (2 * n + 16).bit_length())
    rows, first = np.zeros((capacity, tables.rows.shape[1]), np.int32), 0
    for block in blocks:
        rows[first : first + len(block), : block.shape[1]] = block
        first += len(block)
    info = np.zeros((capacity, tables.row_info.shape[1]), np.int64)
    info[:n, codes.ROW_START] = -1
    info[:n, codes.ROW_IDENTITY] = _view_representative_rows(rows[:n], tables.hidden[: rows.shape[1]] != 0)
    tables.rows, tables.row_info = rows, info
    tables.permuted_rows = np.full((capacity, tables.permuted_rows.shape[1]), NOT_EVALUATED, np.int32)
    tables.meta[codes.META_ROWS] = n
    tables.rehash_control_rows(max(len(tables.row_table), 2 * capacity))


def _view_representative_rows(rows: Rows, hidden: NDArray[Any]) -> NDArray[np.int64]:
    """Return for each control row the row that represents it in canonical keys: the same row without hidden columns.

    A row that was never evaluated may have no representative yet; it gets one when it is evaluated, before a state has
    it.
    """
    own = np.arange(len(rows))
    if not hidden.any():
        return own
    numbers = {row.tobytes(): number for number, row in enumerate(rows)}
    seen = np.where(hidden, np.int32(0), rows)
    return np.array([numbers.get(row.tobytes(), number) for number, row in enumerate(seen)], np.int64)


# Validation of untrusted numbers, which compiled code would use as indices


def require_file_length(name: str, length: int, expected: int) -> None:
    """Require that a file has the length that its manifest implies."""
    require_condition(length == expected, f"{name}: expected {expected} bytes, found {length}")


def require_record_with_field(value: Value, field: str) -> None:
    """Require that a value is a record with the given field, and that its fields have their declared types."""
    is_right = isinstance(value, Record) and fits_type(value, type(value)) and hasattr(value, field)
    require_condition(is_right, f"expected a message or local state, found {truncate_text(text_of(value), 80)}")


def require_shared_value_type(interner: Interner, field: int, value: Value) -> None:
    """Require that a value has the type of a shared field."""
    assert interner.shared.type is not None
    kind = list(field_types(interner.shared.type).values())[field]
    require_condition(
        fits_type(value, kind), f"expected a value of a shared field, found {truncate_text(text_of(value), 80)}"
    )


def require_valid_inbox_contents(interner: Interner, heads: Rows, items: Rows, learned: NDArray[np.int64]) -> None:
    """Require that inbox contents have known slots and messages, are in canonical form, and are distinct."""
    slots, counts = heads[:, 0], heads[:, 1].astype(np.int64)
    require_condition((slots >= 0) & (slots < len(interner.slots)), "an inbox content of an unknown replica")
    require_condition((counts > 0) & (counts <= len(items)), "an inbox content with a wrong number of messages")
    require_condition(
        counts.sum() == len(items), f"expected {len(items)} messages in inbox contents, found {counts.sum()}"
    )
    messages, known = items[:, 0], len(interner.inboxes.messages)
    require_condition((messages >= 0) & (messages < known), "an inbox content with an unknown message")
    of = np.repeat(np.arange(len(heads)), counts)
    operations = interner.tables.messages[messages, 0]
    destinations = interner.tables.operations[operations, 0]
    require_condition(destinations == slots[of], "a message is in the inbox of another replica")
    keys = (messages.astype(np.int64) << 32) + items[:, 1]
    require_condition((np.diff(keys) > 0) | (np.diff(of) > 0), "the messages of an inbox content are not in order")
    require_condition((learned > 0) & (learned <= len(heads)), "a value of an unknown inbox content")
    has_value = np.zeros(len(heads), bool)
    has_value[learned - 1] = True
    needs_value = np.zeros(len(heads), bool)
    needs_value[of[interner.tables.operations[operations, 2] == interning.PYTHON_RULE]] = True
    require_condition(has_value == needs_value, "an inbox content with a missing or redundant value")
    sums = np.zeros(0, np.uint64)
    if len(heads):
        sums = np.add.reduceat(hash_each_number(keys.astype(np.uint64)), np.cumsum(counts) - counts)
    # values may differ in more than messages and their counts
    require_distinct_hashes(sums[~needs_value], "inbox contents")


def require_valid_control_rows(interner: Interner, blocks: list[Rows]) -> None:
    """Require that control rows are within the bounds, have known ids, and are distinct."""
    first, base, width = len(interner.bounds), interner.base, interner.base + len(interner.slots)
    slot_of = np.array([-1, *(interner.slots[record.id] for record in interner.locals[1:])])
    most = [*interner.tables.limits[:first], *(len(values) - 1 for values in interner.shared.values)]
    most += interner.shared.sets.largest_words()
    before, sums = base, [np.zeros(0, np.uint64)]
    weights = hash_each_number(np.arange(1, width + 1, dtype=np.uint64)) | np.uint64(1)
    for block in blocks:
        columns = block.shape[1]
        require_condition(
            before <= columns <= width, f"expected control rows of {before} to {width} columns, found {columns}"
        )
        before = columns
        values, locals_ = block[:, :base], block[:, base:]
        require_condition((values >= 0) & (values <= np.array(most)), "a control row with an unknown value")
        require_condition((locals_ >= 0) & (locals_ < len(slot_of)), "a control row with an unknown local state")
        is_own = (slot_of[locals_] == np.arange(columns - base)) | (locals_ == 0)
        require_condition(is_own, "a control row with the local state of another replica")
        sums.append((block.astype(np.uint64) * weights[:columns]).sum(axis=1, dtype=np.uint64))
    require_distinct_hashes(np.concatenate(sums), "control rows")


class SavedRowValidator:
    """Checks that a restored interner knows the ids in rows of states."""

    def __init__(self, interner: Interner) -> None:
        contents = int(interner.tables.meta[codes.META_CONTENTS])
        self._controls = int(interner.tables.meta[codes.META_ROWS])
        self._slot_of = interner.tables.contents[:contents, codes.CONTENT_SLOT].copy()
        self._slot_of[0] = -1  # the empty inbox belongs to no slot

    def check(self, rows: Rows) -> None:
        """Require that states have known control rows, and inbox contents of the right slots."""
        controls, contents = rows[:, 0], rows[:, 1:]
        require_condition((controls >= 0) & (controls < self._controls), "a state with an unknown control row")
        require_condition((contents >= 0) & (contents < len(self._slot_of)), "a state with an unknown inbox content")
        is_own = (self._slot_of[contents] == np.arange(contents.shape[1])) | (contents == 0)
        require_condition(is_own, "a state with the inbox content of another replica")

"""Numbers the values of a protocol: equal values, one id. A state becomes a row of ids, and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.calls.proxies import Fields
from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.codes import GROW_CONTENTS, GROW_ROWS, KEY_LIMIT, code_of
from kraftcheck.explorer.tables.kernel.flat.reading import intern_flat
from kraftcheck.explorer.tables.kernel.resolving.asking import Full
from kraftcheck.explorer.tables.kernel.resolving.control_rows import intern_row, set_identity
from kraftcheck.explorer.tables.kernel.resolving.inboxes import CLEARS, LEARNED, QUEUES, intern_content
from kraftcheck.explorer.tables.learning.growing_tables import UNASKED, GrowingTables, widened
from kraftcheck.explorer.tables.learning.permutations import Images, Orbits
from kraftcheck.explorer.tables.learning.questions import InboxQuestions, Questions
from kraftcheck.explorer.tables.learning.shared_sets import SharedSets
from kraftcheck.explorer.tables.states.packing import Rows
from kraftcheck.spec.errors import ProtocolError
from kraftcheck.spec.kinds import may_be_record
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.state import State, permutation_group, permuted
from kraftcheck.spec.values import Map, Record, Value, field_names, field_types, keyed


class Interner:
    """The ids of one protocol's values."""

    def __init__(
        self,
        protocol: Protocol,
        judge: Callable[[Record], int],
        view: str | None,
        symmetry: str | None,
    ) -> None:
        self.protocol = protocol
        self.network = protocol.network
        self.bounds = list(protocol.bounds)
        self.shared_type: type[Record] | None = None
        self.shared_names: tuple[str, ...] = ()
        self.shared_records: set[int] = set()
        self.shared_values: list[list[Value]] = []
        self.shared_questions: list[Questions] = []
        self.slots: dict[Value, int] = {}
        self.has_groups = False  # whether an operation is on a group of messages, or on a channel
        self.flat_slots: int | None = None  # replicas with columns in flat states; None: states have control rows
        self.locals: list[Any] = [None]
        self.messages: list[Any] = []
        self.operations: list[tuple[str, int]] = []
        self.content_values: dict[int, Value] = {}
        self._judge = judge
        self._view_name = view
        self._shared_ids: list[dict[Any, int]] = []
        self._local_ids: dict[Value, int] = {}
        self._locals_of: Counter[Value] = Counter()
        self._changes: list[Fields] = []
        self._change_ids: dict[Fields, int] = {}
        self._message_ids: dict[Value, int] = {}
        self._operation_ids: dict[tuple[str, int], int] = {}
        self._content_ids: dict[tuple[int, Value], int] = {}
        self._queues: dict[Value, int] = {None: 0}
        self._own_operations = [operation for _, operation, _ in self.network.own_operations()]
        self.group = permutation_group(protocol.symmetry_sets(symmetry) if symmetry is not None else ())
        self.tables = GrowingTables(len(self.group), len(self._own_operations))
        self.questions = Questions(self.tables, "local_answers", self.locals, count())
        self.questions.number(("whole",), lambda record: record)  # has the number WHOLE
        self.inbox_questions = InboxQuestions(self.tables, self.decode_content)
        self.sets = SharedSets(self.tables)
        self.sets.is_allowed = len(self.group) == 1 and view is None
        self._orbits = Orbits(Images(self.group), self.tables)
        self.slot_added: Callable[[], None] = lambda: None  # called when there is another replica

    @property
    def width(self) -> int:
        """Columns of a state's row: its control row and one inbox for each slot."""
        return 1 + len(self.slots)

    @property
    def base(self) -> int:
        """The first column of a control row that is of a replica."""
        return len(self.bounds) + len(self.shared_names) + self.sets.columns

    def counts(self) -> list[int]:
        """Return how many ids each column of a state's row has: control rows, then each slot's inbox contents."""
        return [int(self.tables.meta[codes.M_ROWS]), *self.tables.slot_contents[: len(self.slots)].tolist()]

    def totals(self) -> tuple[int, int, int]:
        """Return the numbers of inbox contents, of all their items, and of control rows."""
        contents, items, rows = self.tables.meta[[codes.M_CONTENTS, codes.M_CONTENT_ITEMS, codes.M_ROWS]].tolist()
        return contents, items, rows

    # Values

    def slot(self, key: Value) -> int:
        """Return the slot of a replica's id; a new one widens every row."""
        found = self.slots.get(key)
        if found is None:
            found = self.slots[key] = len(self.slots)
            self.tables.set("slot_contents", found, 0)
            self.tables.meta[codes.M_SLOTS] = len(self.slots)
            self._widen(self.base + len(self.slots))
            self.slot_added()
            self._orbits.note("permuted_slots", found, key, self.slot)
        return found

    def _widen(self, columns: int) -> None:
        tables = self.tables
        if columns > tables.rows.shape[1]:
            tables.rows = widened(tables.rows, columns)
            tables.hidden = codes.grown(tables.hidden, columns)
            tables.rehash_rows(len(tables.row_table))

    def local(self, record: Record) -> int:
        """Return the id of a local state."""
        found = self._local_ids.get(record)
        if found is None:
            found = self._local_ids[record] = within(len(self.locals), KEY_LIMIT, "local states")
            self.locals.append(record)
            self.questions.add(found, record)
            key: Value = record.id  # type: ignore[attr-defined]
            self._locals_of[key] += 1
            self.tables.set("local_codes", found, self._locals_of[key])
            self.tables.set("own_roots", found, UNASKED)
            self._orbits.note("permuted_locals", found, record, self.local)
        return found

    def change(self, fields: Fields) -> int:
        """Return the id of a change of some of a local state's fields."""
        if fields not in self._change_ids:
            self._change_ids[fields] = len(self._changes)
            self._changes.append(fields)
        return self._change_ids[fields]

    def changed(self, local: int, change: int) -> int:
        """Return the id of the local state that a change makes of another."""
        return self.local(self.locals[local].but(**{name: value for name, _, value in self._changes[change]}))

    def shared_id(self, column: int, value: Value) -> int:
        """Return the id of a shared field's value."""
        ids = self._shared_ids[column]
        key = keyed(value)
        found = ids.get(key)
        if found is None:
            found = ids[key] = len(ids)
            self.shared_values[column].append(value)
            self.shared_questions[column].add(found, value)
            intern = partial(self.shared_id, column)
            self._orbits.note("permuted_shared", found, value, intern, column, len(self.shared_names))
        return found

    def message(self, message: Record) -> int:
        """Return the id of a message."""
        found = self._message_ids.get(message)
        if found is None:
            found = self._message_ids[message] = len(self.messages)
            self.messages.append(message)
            own = self._queues.setdefault(self.network.queue(message), len(self._queues))
            if (group := self.network.group(message)) is not None:
                own = 1 + self.message(group)
            self.tables.set("messages", found, (self.operation("discard", found), self._judge(message), own))
            operations = [self.operation(operation, found) for operation in self._own_operations]
            table = self.tables.fit_columns("network_operations", found + 1)
            table[: len(operations), found] = operations
            self._orbits.note("permuted_messages", found, message, self.message)
        return found

    def operation(self, name: str, message: int) -> int:
        """Return the id of a network operation on a message."""
        found = self._operation_ids.get((name, message))
        if found is None:
            found = self._operation_ids[name, message] = within(len(self.operations), KEY_LIMIT, "network operations")
            self.operations.append((name, message))
            record = self.messages[message]
            rule = self.network.rule_of(name, record)
            kind = LEARNED if rule is None else CLEARS if rule.clears else QUEUES if rule.queues else rule.absent
            self.has_groups |= kind in (CLEARS, QUEUES)
            counting = (kind, rule.change, rule.least, rule.forgets) if rule else (kind, 0, 0, 0)
            self.tables.set("operations", found, (self.slot(record.dest), message, *counting))
        return found

    # Inbox contents

    def content(self, slot: int, inbox: Value) -> int:
        """Return the id of an inbox content."""
        if inbox == self.network.empty:
            return 0
        if (slot, inbox) in self._content_ids or self.network.rule_of("discard", self.network.known(inbox)[0]) is None:
            return self._learned_content(slot, inbox)
        items = self.network.to_items(inbox)
        return self.counted_content(slot, [(self.message(message), count) for message, count in items])

    def counted_content(self, slot: int, counts: Iterable[tuple[int, int]]) -> int:
        """Return the id of an inbox content, given the messages' ids with the counts of each."""
        tables, items = self.tables, sorted(counts)
        while True:
            free = int(tables.meta[codes.M_CONTENT_ITEMS])
            if free + len(items) + 2 < len(tables.content_items):
                tables.content_items[free : free + len(items)] = items
                with suppress(Full):
                    return int(intern_content(tables, slot, len(items)))
            tables.grow(GROW_CONTENTS)

    def _learned_content(self, slot: int, inbox: Value) -> int:
        found = self._content_ids.get((slot, inbox))
        if found is not None:
            return found
        tables = self.tables
        deliverable = {self.message(message) for message in self.network.deliverable(inbox)}
        known = {self.message(message) for message in self.network.known(inbox)}
        found, free = int(tables.meta[codes.M_CONTENTS]), int(tables.meta[codes.M_CONTENT_ITEMS])
        while found + 2 >= len(tables.contents) or free + len(known) + 2 >= len(tables.content_items):
            tables.grow(GROW_CONTENTS)
        bad = 0
        for k, message in enumerate(sorted(known)):
            tables.content_items[free + k] = message, int(message in deliverable)
            bad |= int(tables.messages[message, 1])
        tables.slot_contents[slot] += 1
        tables.contents[found] = slot, free, len(known), bad
        tables.inbox_codes[found] = code_of(tables.slot_contents[slot], bad)
        tables.meta[codes.M_CONTENTS] = found + 1
        tables.meta[codes.M_CONTENT_ITEMS] = free + len(known)
        self.note_content(found, slot, inbox)
        for g, permutation in enumerate(self.group if len(self.group) > 1 else ()):
            place = int(tables.permuted_slots[g, slot])
            tables.permuted_contents[found, g] = self._learned_content(place, permuted(inbox, permutation))
        return found

    def note_content(self, content: int, slot: int, inbox: Value) -> None:
        """Note the value of an inbox content that is more than counts of messages."""
        self._content_ids[slot, inbox] = content
        self.content_values[content] = inbox

    def slot_of_content(self, content: int) -> int:
        """Return the slot that an inbox content belongs to."""
        return int(self.tables.contents[content, codes.C_SLOT])

    def items_of_content(self, content: int) -> list[tuple[int, int]]:
        """Return an inbox content's messages, by id, with the count of each."""
        _, start, n, _ = self.tables.contents[content].tolist()
        return [(message, count) for message, count in self.tables.content_items[start : start + n].tolist()]

    def decode_content(self, content: int) -> Value:
        """Return the inbox of a content's id."""
        if content == 0:
            return self.network.empty
        if content in self.content_values:
            return self.content_values[content]
        items = self.items_of_content(content)
        return self.network.from_items((self.messages[message], count) for message, count in items)

    # States

    def shape(self, shared_type: type[Record]) -> None:
        """Lay out the columns of control rows: the bounds, the shared record's fields, then the replicas."""
        tables = self.tables
        self.shared_type = shared_type
        self.shared_names = field_names(shared_type)
        self.shared_records = {i for i, kind in enumerate(field_types(shared_type).values()) if may_be_record(kind)}
        self._shared_ids = [{} for _ in self.shared_names]
        self.shared_values = [[] for _ in self.shared_names]
        numbers = count()
        self.shared_questions = [Questions(tables, "shared_answers", v, numbers) for v in self.shared_values]
        tables.meta[codes.M_SLOT_BASE] = self.base
        tables.meta[codes.M_BOUNDS] = len(self.bounds)
        tables.permuted_shared = np.zeros((max(1, len(self.group) * len(self.shared_names)), 64), np.int32)
        tables.rows = np.zeros((len(tables.rows), self.base), np.int32)
        for column, name in enumerate(self.bounds):
            tables.set("limits", column, self.protocol.bounds[name])
        tables.hidden = np.zeros(max(self.base, 1), np.int32)
        if self._view_name is not None:
            hidden = self.protocol.hidden(self._view_name)
            tables.hidden[: self.base] = hidden.columns(self.bounds, self.shared_names)

    def encode_state(self, state: State) -> list[int]:
        """Return a state's row: the id of its control row, then of each slot's inbox content."""
        if self.shared_type is None:
            self.shape(type(state.shared))
        for key in [*state.replicas, *state.inboxes]:
            self.slot(key)
        inboxes = [(self.slots[key], self.content(self.slots[key], inbox)) for key, inbox in state.inboxes.items()]
        put = [(i, getattr(state.shared, name)) for i, name in enumerate(self.shared_names)]
        places = [self.sets.column(i, element) for i, value in put if i in self.sets.elements for element in value]
        values = [state.spent[name] for name in self.bounds]
        values += [0 if i in self.sets.elements else self.shared_id(i, value) for i, value in put]
        values += [0] * self.sets.columns
        replicas = [0] * len(self.slots)
        for key, replica in state.replicas.items():
            replicas[self.slots[key]] = self.local(replica)
        for column in places:
            values[column] = 1
        row = self.control_row(values + replicas)
        self._set_identity(row)
        result = [row] + [0] * len(self.slots)
        for slot, content in inboxes:
            result[1 + slot] = content
        return result

    def _set_identity(self, row: int) -> None:
        try:
            set_identity(self.tables, row)
        except Full:
            self.tables.grow()
            self._set_identity(row)

    def control_row(self, values: list[int]) -> int:
        """Return the id of a control row: what is spent, ids of the shared fields and of each slot's local state."""
        tables = self.tables
        while True:
            fresh = int(tables.meta[codes.M_ROWS])
            if fresh < len(tables.rows):
                tables.rows[fresh] = values
                with suppress(Full):
                    return int(intern_row(tables, fresh))
            tables.grow(0 if tables.meta[codes.M_GROW] else GROW_ROWS)

    def values_of_control_row(self, row: int) -> list[int]:
        """Return what a control row holds."""
        values: list[int] = self.tables.rows[row].tolist()
        return values

    def decode_state(self, row: Any) -> State:
        """Return the state of a row."""
        base = self.base
        (control,), (contents,) = (part.tolist() for part in self.parts_of(np.asarray(row)[None]))
        shared = self.shared_of(control)
        replicas = {key: self.locals[control[base + s]] for key, s in self.slots.items() if control[base + s]}
        known = len(contents)  # a row from before a replica appeared is shorter
        filled = {key: contents[s] for key, s in self.slots.items() if s < known and contents[s]}
        inboxes = {key: self.decode_content(content) for key, content in filled.items()}
        return State(Map(replicas), Map(inboxes), shared, Map(zip(self.bounds, control, strict=False)))

    @property
    def first_inbox(self) -> int:
        """The first inbox column of a state."""
        return 1 if self.flat_slots is None else self.base + self.flat_slots

    def parts_of(self, rows: Rows) -> tuple[Rows, Rows]:
        """Return what the control rows of states hold, and their inbox contents; flat states have both."""
        if self.flat_slots is None:
            return self.tables.rows[rows[:, 0]], rows[:, 1:]
        first = self.first_inbox
        return np.pad(rows[:, :first], ((0, 0), (0, self.base + len(self.slots) - first))), rows[:, first:]

    def flat_counts(self) -> list[int]:
        """Return how many ids each column of a flat state has; one more for replicas, whose codes begin with 1."""
        bounds = (self.tables.limits[: len(self.bounds)] + 1).tolist()
        replicas = [self._locals_of[key] + 1 for key in self.slots]
        return [*bounds, *map(len, self.shared_values), *replicas, *self.counts()[1:]]

    def control_rows_of(self, flat: Rows, slots: int) -> Rows:
        """Return flat states, which have columns for so many replicas, with their control rows interned."""
        tables = self.tables
        first, more = self.base + slots, len(self.slots) - slots
        columns = np.ascontiguousarray(np.pad(flat[:, :first], ((0, 0), (0, more))))
        found = np.zeros((len(flat), self.width), np.int32)
        found[:, 1 : 1 + slots] = flat[:, first:]
        ids, done = np.zeros(len(flat), np.int32), 0
        while (done := intern_flat(tables, columns, done, ids)) < len(flat):
            tables.make_room_for_rows()
        found[:, 0] = ids
        return found

    def shared_of(self, control: list[int]) -> Record:
        """Return the shared state of a control row, given what that holds."""
        assert self.shared_type is not None
        return self.shared_type(*[self.shared_value(i, control) for i in range(len(self.shared_names))])

    def shared_value(self, index: int, control: list[int]) -> Value:
        """Return the value of a shared field in a control row, given what that holds."""
        if index in self.sets.elements:
            return self.sets.value(index, control)
        return self.shared_values[index][control[len(self.bounds) + index]]

    def explode_sets(self) -> bool:
        """Explode the shared sets for which it is worth it; return whether there is one."""
        found = False
        for index, values in enumerate(self.shared_values):
            if self.sets.is_worth(index, values):
                self.sets.explode(index, len(self.bounds) + index, self.base, values)
                found = True
        return found

    # Images under symmetry, which must be known

    def images_of(self, ids: NDArray[Any], column: int) -> Rows:
        """Return the ids of the images of control rows (column 0) or of inbox contents."""
        found: Rows = (self.tables.permuted_contents if column else self.tables.permuted_rows)[ids]
        return found

    def images_of_state(self, row: Any) -> Rows:
        """Return the rows of the images of a state, without duplicates."""
        tables = self.tables
        images = np.zeros((len(self.group), len(row)), np.int32)
        images[:, 0] = tables.permuted_rows[row[0]]
        for slot, content in enumerate(row[1:].tolist()):
            if content:
                places = 1 + tables.permuted_slots[:, slot]
                images[np.arange(len(images)), places] = tables.permuted_contents[content]
        return np.unique(images, axis=0)


def within(number: int, limit: int, what: str) -> int:
    """Return a number; raise where there are more of something than the tables can number."""
    if number >= limit:
        raise ProtocolError(f"more than {limit:,} {what}: the table engine has no numbers for them")
    return number

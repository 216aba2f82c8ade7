"""Interning of a protocol's values, messages and inbox contents as dense ids; encoding of states as rows of ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import count, starmap
from typing import Any

import numpy as np

from kraftcheck.explorer.calls.proxies import FieldItems
from kraftcheck.explorer.native.arrays import grow_array
from kraftcheck.explorer.tables.kernel import arrays, codes, interning
from kraftcheck.explorer.tables.kernel.flat.facts import intern_rows_of_flat_states
from kraftcheck.explorer.tables.learning import growing_tables
from kraftcheck.explorer.tables.learning.shared_sets import SharedFieldInterner
from kraftcheck.explorer.tables.rows import Rows
from kraftcheck.spec.language.network import Network
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.state import Permutation, State, permutation_group, permute_model_values
from kraftcheck.spec.values import Map, Record, Value, field_names, type_distinguishing_key

MOST_DECODED_CONTENTS = 1 << 14
"""Most inbox contents that are kept as values where counting rules apply."""


class InboxInterner:
    """The messages and inbox contents of one protocol; `judge` returns the invariants that a message violates."""

    def __init__(
        self,
        network: Network,
        tables: growing_tables.GrowingTables,
        orbits: growing_tables.OrbitInterner,
        group: list[Permutation],
        slot: Callable[[Value], int],
        judge: Callable[[Record], int],
    ) -> None:
        self.messages = growing_tables.InternedList()
        self.operations = growing_tables.InternedList()
        self.has_groups = False  # whether some operation is on a group of messages, or on a channel
        self.content_values: dict[int, Value] = {}
        self.queries = growing_tables.InboxQueries(tables, self.decode_content)
        self._network, self._tables, self._orbits, self._group = network, tables, orbits, group
        self._slot, self._judge = slot, judge
        self._content_ids: dict[tuple[int, Value], int] = {}
        self._decoded: dict[int, Value] = {}
        self._queues: dict[Value, int] = {None: 0}
        self._own_operations = [operation for _, operation, _ in network.own_operations()]

    def message(self, message: Record) -> int:
        """Return the id of a message."""
        found = self.messages.find(message)
        if found is None:
            found = self.messages.add(message, message)
            own = self._queues.setdefault(self._network.queue(message), len(self._queues))
            if (group := self._network.group(message)) is not None:
                own = 1 + self.message(group)
            self._tables.set("messages", found, (self.operation("discard", found), self._judge(message), own))
            operations = [self.operation(operation, found) for operation in self._own_operations]
            table = self._tables.fit_columns("network_operations", found + 1)
            table[: len(operations), found] = operations
            self._orbits.note("permuted_messages", found, message, self.message)
        return found

    def operation(self, name: str, message: int) -> int:
        """Return the id of a network operation on a message."""
        key = name, message
        found = self.operations.find(key)
        if found is None:
            found = self.operations.add(key, key)
            growing_tables.require_id_below(found, codes.KEY_LIMIT, "network operations")
            record = self.messages[message]
            rule = self._network.rule_of(name, record)
            kind: int | np.int64 = interning.PYTHON_RULE
            if rule is not None:
                kind = interning.GROUP_RULE if rule.clears else interning.CHANNEL_RULE if rule.queues else rule.absent
            self.has_groups |= kind in (interning.GROUP_RULE, interning.CHANNEL_RULE)
            counting = (kind, rule.change, rule.least, rule.forgets) if rule else (kind, 0, 0, 0)
            self._tables.set("operations", found, (self._slot(record.dest), message, *counting))
        return found

    def content(self, slot: int, inbox: Value) -> int:
        """Return the id of a slot's inbox content."""
        if inbox == self._network.empty:
            return 0
        network = self._network
        if (slot, inbox) in self._content_ids or network.rule_of("discard", network.known(inbox)[0]) is None:
            return self._learned_content(slot, inbox)
        items = network.to_items(inbox)
        return self.counted_content(slot, [(self.message(message), count) for message, count in items])

    def counted_content(self, slot: int, counts: Iterable[tuple[int, int]]) -> int:
        """Return the id of an inbox content, given (message id, count) pairs."""
        tables, items = self._tables, sorted(counts)
        while True:
            free = int(tables.meta[codes.META_CONTENT_ITEMS])
            if free + len(items) + 2 < len(tables.content_items):
                tables.content_items[free : free + len(items)] = items
                with suppress(arrays.TableFull):
                    return int(interning.intern_inbox_content(tables, slot, len(items)))
            tables.grow(codes.GROW_CONTENTS)

    def _learned_content(self, slot: int, inbox: Value) -> int:
        """Return the id of an inbox content that is kept as a value, since no counting rule applies."""
        found = self._content_ids.get((slot, inbox))
        if found is not None:
            return found
        tables = self._tables
        deliverable = {self.message(message) for message in self._network.deliverable(inbox)}
        known = {self.message(message) for message in self._network.known(inbox)}
        found, free = int(tables.meta[codes.META_CONTENTS]), int(tables.meta[codes.META_CONTENT_ITEMS])
        while found + 2 >= len(tables.contents) or free + len(known) + 2 >= len(tables.content_items):
            tables.grow(codes.GROW_CONTENTS)
        bad = 0
        for k, message in enumerate(sorted(known)):
            tables.content_items[free + k] = message, int(message in deliverable)
            bad |= int(tables.messages[message, 1])
        tables.slot_contents[slot] += 1
        tables.contents[found] = slot, free, len(known), bad
        tables.inbox_codes[found] = codes.inbox_codes_marking_violations(tables.slot_contents[slot], bad)
        tables.meta[codes.META_CONTENTS] = found + 1
        tables.meta[codes.META_CONTENT_ITEMS] = free + len(known)
        self.note_content(found, slot, inbox)
        for g, permutation in enumerate(self._group if len(self._group) > 1 else ()):
            place = int(tables.permuted_slots[g, slot])
            tables.permuted_contents[found, g] = self._learned_content(place, permute_model_values(inbox, permutation))
        return found

    def note_content(self, content: int, slot: int, inbox: Value) -> None:
        """Store the value of an inbox content that follows no counting rule."""
        self._content_ids[slot, inbox] = content
        self.content_values[content] = inbox

    def slot_of_content(self, content: int) -> int:
        """Return the slot of an inbox content."""
        return int(self._tables.contents[content, codes.CONTENT_SLOT])

    def items_of_content(self, content: int) -> list[tuple[int, int]]:
        """Return an inbox content as (message id, count) pairs."""
        _, start, n, _ = self._tables.contents[content].tolist()
        return [(message, count) for message, count in self._tables.content_items[start : start + n].tolist()]

    def decode_content(self, content: int) -> Value:
        """Return the inbox with a content's id."""
        if content == 0:
            return self._network.empty
        if content in self.content_values:
            return self.content_values[content]
        found = self._decoded.get(content)
        if found is None:
            items = self.items_of_content(content)
            found = self._network.from_items((self.messages[message], count) for message, count in items)
            if len(self._decoded) >= MOST_DECODED_CONTENTS:
                self._decoded.clear()
            self._decoded[content] = found
        return found


class Interner:
    """The ids of one protocol's values."""

    def __init__(
        self, protocol: Protocol, judge: Callable[[Record], int], view: str | None, symmetry: str | None
    ) -> None:
        self.protocol = protocol
        self.bounds = list(protocol.bounds)
        self.slots: dict[Value, int] = {}
        self.flat_slots: int | None = None  # number of replicas in a flat state; None: states have control rows
        self.locals = growing_tables.InternedList([None])
        self.slot_added: Callable[[], None] = lambda: None  # called for each new replica
        self.group = permutation_group(protocol.symmetry_sets(symmetry) if symmetry is not None else ())
        self.tables = growing_tables.GrowingTables(len(self.group), len(list(protocol.network.own_operations())))
        self.queries = growing_tables.ValueQueries(self.tables, "local_answers", self.locals, count())
        self.queries.number(("whole",), lambda record: record)  # has the number WHOLE
        self._view_name = view
        self._locals_of: Counter[Value] = Counter()
        self._changes = growing_tables.InternedList()
        self._orbits = growing_tables.OrbitInterner(growing_tables.PermutationGroup(self.group), self.tables)
        self.inboxes = InboxInterner(protocol.network, self.tables, self._orbits, self.group, self.slot, judge)
        self.shared = SharedFieldInterner(self.tables, self._orbits, len(self.bounds))

    @property
    def width(self) -> int:
        """Number of columns of a state's row: its control row, and one inbox for each slot."""
        return 1 + len(self.slots)

    @property
    def base(self) -> int:
        """The first column of a control row that holds a local state."""
        return self.shared.end

    def counts(self) -> list[int]:
        """Return the number of control rows, then the number of each slot's inbox contents."""
        return [int(self.tables.meta[codes.META_ROWS]), *self.tables.slot_contents[: len(self.slots)].tolist()]

    def totals(self) -> tuple[int, int, int]:
        """Return the numbers of inbox contents, of their items, and of control rows."""
        meta = self.tables.meta
        return int(meta[codes.META_CONTENTS]), int(meta[codes.META_CONTENT_ITEMS]), int(meta[codes.META_ROWS])

    # Values

    def slot(self, key: Value) -> int:
        """Return a replica's slot, the index of its columns; a new replica adds columns to every row."""
        found = self.slots.get(key)
        if found is None:
            found = self.slots[key] = len(self.slots)
            self.tables.set("slot_contents", found, 0)
            self.tables.meta[codes.META_SLOTS] = len(self.slots)
            self._widen(self.base + len(self.slots))
            self.slot_added()
            self._orbits.note("permuted_slots", found, key, self.slot)
        return found

    def _widen(self, columns: int) -> None:
        tables = self.tables
        if columns > tables.rows.shape[1]:
            tables.rows = growing_tables.with_more_columns(tables.rows, columns)
            tables.hidden = grow_array(tables.hidden, columns)
            tables.rehash_control_rows(len(tables.row_table))

    def local(self, record: Record) -> int:
        """Return the id of a local state."""
        found = self.locals.find(record)
        if found is None:
            found = growing_tables.require_id_below(self.locals.add(record, record), codes.KEY_LIMIT, "local states")
            self.queries.add(found, record)
            key: Value = record.id  # type: ignore[attr-defined]
            self._locals_of[key] += 1
            self.tables.set("local_codes", found, self._locals_of[key])
            self.tables.set("own_roots", found, growing_tables.NOT_EVALUATED)
            self._orbits.note("permuted_locals", found, record, self.local)
        return found

    def change(self, fields: FieldItems) -> int:
        """Intern a change of some fields of a local state, as (name, value) pairs; return its id."""
        key = type_distinguishing_key(fields)
        found = self._changes.find(key)
        return self._changes.add(key, fields) if found is None else found

    def changed(self, local: int, change: int) -> int:
        """Return the id of the local state that results from `local` by the interned `change` of some fields."""
        return self.local(self.locals[local].but(**dict(self._changes[change])))

    # States

    def shape(self, shared_type: type[Record]) -> None:
        """Define the columns of control rows: the bounds, the shared record's fields, then the replicas."""
        tables = self.tables
        self.shared.shape(shared_type)
        tables.meta[codes.META_SLOT_BASE] = self.base
        tables.meta[codes.META_BOUNDS] = len(self.bounds)
        tables.permuted_shared = np.zeros((max(1, len(self.group) * len(self.shared.names)), 64), np.int32)
        tables.rows = np.zeros((len(tables.rows), self.base), np.int32)
        for column, name in enumerate(self.bounds):
            tables.set("limits", column, self.protocol.bounds[name])
        tables.hidden = np.zeros(max(self.base, 1), np.int32)
        if self._view_name is not None:
            hidden = self.protocol.hidden(self._view_name)
            tables.hidden[: self.base] = hidden.columns(self.bounds, self.shared.names)

    def encode_state(self, state: State) -> list[int]:
        """Return a state's row: the id of its control row, then of each slot's inbox content."""
        if self.shared.type is None:
            self.shape(type(state.shared))
        for key in [*state.replicas, *state.inboxes]:
            self.slot(key)
        filled = [(self.slots[key], inbox) for key, inbox in state.inboxes.items()]
        contents = [(slot, self.inboxes.content(slot, inbox)) for slot, inbox in filled]
        put = [(i, getattr(state.shared, name)) for i, name in enumerate(self.shared.names)]
        sets = self.shared.sets
        bits = [(i, sets.place(i, element)) for i, value in put if i in sets.elements for element in value]
        values = [state.spent[name] for name in self.bounds]
        values += [0 if i in sets.elements else self.shared.id_of(i, value) for i, value in put]
        values += [0] * sets.columns
        replicas = [0] * len(self.slots)
        for key, replica in state.replicas.items():
            replicas[self.slots[key]] = self.local(replica)
        for column, bit in starmap(sets.bit, bits):
            values[column] |= 1 << bit
        row = self.control_row(values + replicas)
        self.tables.call_with_room(partial(interning.set_view_representative, self.tables, row))
        result = [row] + [0] * len(self.slots)
        for slot, content in contents:
            result[1 + slot] = content
        return result

    def control_row(self, values: list[int]) -> int:
        """Return the id of a control row: bounds used, ids of the shared fields, and ids of the local states."""
        tables = self.tables
        while True:
            fresh = int(tables.meta[codes.META_ROWS])
            if fresh < len(tables.rows):
                tables.rows[fresh] = values
                with suppress(arrays.TableFull):
                    return int(interning.intern_written_control_row(tables, fresh))
            tables.grow(0 if tables.meta[codes.META_GROW] else codes.GROW_ROWS)

    def decode_state(self, row: Any) -> State:
        """Return the state of a row."""
        (control,), (contents,) = (part.tolist() for part in self.parts_of(np.asarray(row)[None]))
        return State(*map(self.decoder_of_parts(control, contents), field_names(State)))

    def decode_control_row(self, control: list[int]) -> State:
        """Return the state of a control row, given by its columns, with empty inboxes."""
        return State(*map(self.decoder_of_parts(control, []), field_names(State)))

    def decoder_of_parts(self, control: list[int], contents: list[int]) -> Callable[[str], Value]:
        """Return a function that decodes one part of the state with these columns of a control row and of inboxes."""
        base = self.base
        known = len(contents)  # a row is shorter if a replica appeared after it

        def read(name: str) -> Value:
            if name == "replicas":
                return Map({key: self.locals[control[base + s]] for key, s in self.slots.items() if control[base + s]})
            if name == "inboxes":
                decode, filled = self.inboxes.decode_content, self.slots.items()
                return Map({key: decode(contents[s]) for key, s in filled if s < known and contents[s]})
            return self.shared.record_of(control) if name == "shared" else Map(zip(self.bounds, control, strict=False))

        return read

    @property
    def first_inbox(self) -> int:
        """The first inbox column of a state."""
        return 1 if self.flat_slots is None else self.base + self.flat_slots

    def parts_of(self, rows: Rows) -> tuple[Rows, Rows]:
        """Return the control-row columns and the inbox columns of states, in either layout."""
        if self.flat_slots is None:
            return self.tables.rows[rows[:, 0]], rows[:, 1:]
        first = self.first_inbox
        return np.pad(rows[:, :first], ((0, 0), (0, self.base + len(self.slots) - first))), rows[:, first:]

    def flat_counts(self) -> list[int]:
        """Return the number of ids of each column of a flat state, with 0 for an absent replica."""
        bounds = (self.tables.limits[: len(self.bounds)] + 1).tolist()
        replicas = [self._locals_of[key] + 1 for key in self.slots]
        return [*bounds, *map(len, self.shared.values), *replicas, *self.counts()[1:]]

    def control_rows_of(self, flat: Rows, slots: int) -> Rows:
        """Convert flat states with columns for `slots` replicas to states with control rows."""
        tables = self.tables
        first, more = self.base + slots, len(self.slots) - slots
        columns = np.ascontiguousarray(np.pad(flat[:, :first], ((0, 0), (0, more))))
        found = np.zeros((len(flat), self.width), np.int32)
        found[:, 1 : 1 + slots] = flat[:, first:]
        ids, done = np.zeros(len(flat), np.int32), 0
        while (done := intern_rows_of_flat_states(tables, columns, done, ids)) < len(flat):
            tables.make_room_for_rows()
        found[:, 0] = ids
        return found

    # Images under symmetry, which must be cached

    def images_of_state(self, row: Any) -> Rows:
        """Return the rows of a state's images, without duplicates."""
        tables = self.tables
        images = np.zeros((len(self.group), len(row)), np.int32)
        images[:, 0] = tables.permuted_rows[row[0]]
        for slot, content in enumerate(row[1:].tolist()):
            if content:
                places = 1 + tables.permuted_slots[:, slot]
                images[np.arange(len(images)), places] = tables.permuted_contents[content]
        return np.unique(images, axis=0)

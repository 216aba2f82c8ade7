"""What a protocol's values are called: dense ids, the arrays that hold what is known of them, and states as rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.identity import permutation_group, permuted
from kraftcheck.explorer.tables.kernel.layout import (
    COLUMNS,
    GROW_BUNDLES,
    GROW_CONTENTS,
    GROW_ITEMS,
    GROW_MAP,
    GROW_ROWS,
    KEY_LIMIT,
    M_BOUNDS,
    M_BRANCHES,
    M_BUNDLES,
    M_CONTENT_ITEMS,
    M_CONTENTS,
    M_DELTAS,
    M_GROW,
    M_OPERATIONS,
    M_PERMUTATIONS,
    M_ROOTS,
    M_ROWS,
    M_SLOT_BASE,
    M_SLOTS,
    META_SIZE,
    Tables,
    grown,
    new_map,
)
from kraftcheck.explorer.tables.kernel.maps import copy_map, is_full, put
from kraftcheck.explorer.tables.kernel.native import ENTRY
from kraftcheck.explorer.tables.kernel.resolve import (
    CLEARS,
    LEARNED,
    identify,
    intern_content,
    intern_row,
    rehash_contents,
    rehash_rows,
)
from kraftcheck.explorer.tables.learning.permutations import Images
from kraftcheck.spec.errors import ProtocolError
from kraftcheck.spec.language.calling import evaluate_property
from kraftcheck.spec.language.property import Property
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.signature import Projection
from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import Map, Record, Value, field_names

MISS_ROOM = 1 << 14
LARGE_MAP = 1 << 14  # places of a map that grows by half only, to stay in the processor's caches
WHOLE = 0  # the view that is the local state itself
ROOM = {"rows": 10, "row_info": 10, "row_items": 12, "contents": 11, "content_items": 14, "bundle_items": 14}
MAPS = {
    "branches": M_BRANCHES,
    "roots": M_ROOTS,
    "operated": M_OPERATIONS,
    "changed": M_DELTAS,
    "bundles": M_BUNDLES,
}


class View(NamedTuple):
    """A function of a local state whose values are numbered: a field, a projection, the class, or the whole."""

    name: str
    function: Callable[[Record], Value]
    ids: dict[Value, int]


class Vocabulary:
    """The ids of one protocol's values.

    Parameters
    ----------
    protocol
        The protocol, with its constants.
    message_properties
        Invariants that read one message only, with the bit of each in a mask of violated properties.
    view, symmetry
        Names of one of the protocol's views and symmetries, or None.
    """

    def __init__(
        self,
        protocol: Protocol,
        message_properties: tuple[tuple[int, Property], ...],
        view: str | None,
        symmetry: str | None,
    ) -> None:
        self.protocol = protocol
        self.network = protocol.network
        self.message_properties = message_properties
        self.bounds = list(protocol.bounds)
        self.shared_type: type[Record] | None = None
        self.shared_names: tuple[str, ...] = ()
        self.shared_ids: list[dict[Value, int]] = []
        self.shared_values: list[list[Value]] = []
        self.slots: dict[Value, int] = {}
        self.locals: list[Any] = [None]
        self.local_ids: dict[Value, int] = {}
        self.messages: list[Any] = []
        self.message_ids: dict[Value, int] = {}
        self.operations: dict[tuple[str, int], int] = {}
        self.operation_names: list[tuple[str, int]] = []
        self.views: dict[Any, int] = {}
        self.view_list: list[View] = []
        self.inbox_views: dict[str, int] = {}
        self.inbox_view_list: list[tuple[Projection, dict[Value, int]]] = []
        self.learned_contents: dict[tuple[int, Value], int] = {}
        self.content_values: dict[int, Value] = {}
        self.network_operations = [operation for _, operation, _ in self.network.own_operations()]
        self._view_name = view
        sets = protocol.symmetry_sets(symmetry) if symmetry is not None else ()
        self.group = permutation_group(sets)
        self.images = Images(self.group)
        self._orbits: dict[tuple[str, int], list[tuple[int, Value]]] = {}
        self._make_arrays()
        self._noted: list[NDArray[Any] | None] = [None] * len(Tables.__annotations__)
        self._directory = np.zeros((len(Tables.__annotations__), ENTRY), np.int64)
        self._address = self._directory.ctypes.data
        self._add_view(("whole", ""), lambda record: record)

    # Arrays

    def _make_arrays(self) -> None:
        self.a: dict[str, NDArray[Any]] = {}
        for name, kind in Tables.__annotations__.items():
            size = 1 << ROOM.get(name, 6)
            shape = (size,) if COLUMNS[name] == 0 else (size, max(COLUMNS[name], 1))
            self.a[name] = np.zeros(shape, np.int64 if "Longs" in str(kind) else np.int32)
        for name in MAPS:
            self.a[name] = new_map(1 << 10)
        for name in ("row_table", "content_table"):
            self.a[name] = np.full(1 << 12, -1, np.int32)
        self.meta = self.a["meta"] = np.zeros(META_SIZE, np.int64)
        self.a["views"] = np.zeros((1, 64), np.int32)
        self.a["inbox_views"] = np.full((1, len(self.a["contents"])), -1, np.int32)
        self.a["misses"] = np.zeros((MISS_ROOM, COLUMNS["misses"]), np.int64)
        self.meta[M_CONTENTS] = 1  # content 0 is the empty inbox
        order = len(self.group)
        self.meta[M_PERMUTATIONS] = order
        self.a["permuted_rows"] = np.full((len(self.a["rows"]), order), -1, np.int32)
        self.a["permuted_contents"] = np.full((len(self.a["contents"]), order), -1, np.int32)
        self.a["network_operations"] = np.zeros((max(1, len(self.network_operations)), 64), np.int32)
        for name in ("permuted_slots", "permuted_locals", "permuted_messages", "permuted_shared"):
            self.a[name] = np.zeros((order, 64), np.int32)
        self.used: Counter[str] = Counter()

    @property
    def tables(self) -> int:
        """The address of the directory, by which the kernel finds the arrays as they are now."""
        for number, name in enumerate(Tables.__annotations__):
            array = self.a[name]
            if self._noted[number] is not array:  # the old one lives until here
                self._noted[number] = array
                self._directory[number] = array.ctypes.data, len(array), array.shape[-1]
        return self._address

    def _set(self, name: str, index: int, value: Any) -> None:
        """Set a row of an array, which grows as needed."""
        array = self.a[name]
        if index >= len(array):
            array = self.a[name] = grown(array, index + 1)
        array[index] = value

    def _append(self, name: str, row: Any) -> int:
        """Append a row to an array; return where it stands."""
        index = self.used[name]
        self._set(name, index, row)
        self.used[name] = index + 1
        return index

    def _extend(self, name: str, rows: Any) -> int:
        """Append rows to an array; return where they start."""
        start = self.used[name]
        for row in rows:
            self._append(name, row)
        return start

    def _put(self, name: str, key: int, value: int) -> None:
        """Set a map's value."""
        if is_full.py_func(self.meta[MAPS[name]], self.a[name]):
            self._grow_map(name)
        if put(self.a[name], np.int64(key), np.int64(value)):
            self.meta[MAPS[name]] += 1

    def _grow_map(self, name: str) -> None:
        size = len(self.a[name])
        larger = new_map((4 if size < LARGE_MAP else 2) * size)
        copy_map(self.a[name], larger)
        self.a[name] = larger

    def grow(self) -> None:
        """Make room where the kernel said that something is full."""
        wanted = int(self.meta[M_GROW])
        self.meta[M_GROW] = 0
        a = self.a
        if wanted & GROW_MAP:
            for name, count in MAPS.items():
                if is_full.py_func(self.meta[count], a[name]):
                    self._grow_map(name)
        if wanted & GROW_ITEMS:
            self._double("row_items")
        if wanted & GROW_ROWS:
            if len(a["rows"]) < 4 * self.meta[M_ROWS] + 16:
                self._double("rows", "row_info", "permuted_rows")
            if len(a["row_table"]) < 2 * len(a["rows"]):
                a["row_table"] = np.full(2 * len(a["row_table"]), -1, np.int32)
                rehash_rows(self.tables)
        if wanted & GROW_CONTENTS:
            if len(a["contents"]) < 4 * self.meta[M_CONTENTS] + 16:
                self._double("contents", "permuted_contents")
                wider = np.full((len(a["inbox_views"]), len(a["contents"])), -1, np.int32)
                wider[:, : a["inbox_views"].shape[1]] = a["inbox_views"]
                a["inbox_views"] = wider
            self._double("content_items")
            if len(a["content_table"]) < 2 * len(a["contents"]):
                a["content_table"] = np.full(2 * len(a["content_table"]), -1, np.int32)
                rehash_contents(self.tables)
        if wanted & GROW_BUNDLES:
            self._double("bundle_items")

    def _double(self, *names: str) -> None:
        for name in names:
            self.a[name] = grown(self.a[name], 2 * len(self.a[name]))

    # Interning

    def slot(self, key: Value) -> int:
        """Return the slot of a replica's id; a new one widens every row."""
        found = self.slots.get(key)
        if found is None:
            found = self.slots[key] = len(self.slots)
            self._set("slot_contents", found, 0)
            self.meta[M_SLOTS] = len(self.slots)
            self._widen()
            self._images("permuted_slots", 0, 1, found, key, self.slot)
        return found

    def _images(
        self, name: str, first: int, apart: int, index: int, value: Value, intern: Callable[[Value], int]
    ) -> None:
        """Note the ids of a value's images under every permutation `g`, in rows `first + g * apart` of an array.

        The whole orbit is interned and noted at once; while it is, `intern` comes here again for its members.
        """
        if len(self.group) == 1:
            return
        orbit = self._orbits.get((name, first))
        if orbit is not None:
            orbit.append((index, value))
            return
        orbit = self._orbits[name, first] = [(index, value)]
        under = {number: [intern(image(member)) for image in self.images.generators] for number, member in orbit}
        del self._orbits[name, first]
        array, most = self.a[name], max(under)
        if most >= array.shape[1]:
            wider = np.zeros((len(array), 2 * max(most, array.shape[1])), np.int32)
            wider[:, : array.shape[1]] = array
            array = self.a[name] = wider
        for number in under:
            numbers = [number] * len(self.group)
            for g, generator, before in self.images.products:
                numbers[g] = under[numbers[before]][generator]
            array[first : first + apart * len(self.group) : apart, number] = numbers

    def _widen(self) -> None:
        """Add a column for a new slot."""
        rows = self.a["rows"]
        columns = len(self.bounds) + len(self.shared_names) + len(self.slots)
        if columns > rows.shape[1]:
            wider = np.zeros((len(rows), columns), np.int32)
            wider[:, : rows.shape[1]] = rows
            self.a["rows"] = wider
            self.a["hidden"] = grown(self.a["hidden"], columns)
            self.a["row_table"][:] = -1
            rehash_rows(self.tables)
        self.slot_added()

    def slot_added(self) -> None:
        """Take note of a new slot: what was learned of all replicas no longer covers it."""

    @property
    def width(self) -> int:
        """Columns of a state's row: its control row and one inbox for each slot."""
        return 1 + len(self.slots)

    def local(self, record: Record) -> int:
        """Return the id of a local state."""
        found = self.local_ids.get(record)
        if found is None:
            found = self.local_ids[record] = len(self.locals)
            self.locals.append(record)
            views = self.a["views"]
            if found >= views.shape[1]:
                wider = np.zeros((len(views), 2 * views.shape[1]), np.int32)
                wider[:, : views.shape[1]] = views
                views = self.a["views"] = wider
            for index, view in enumerate(self.view_list):
                views[index, found] = self._viewed(view, record)
            self._images("permuted_locals", 0, 1, found, record, self.local)
        return found

    def _add_view(self, key: Any, function: Callable[[Record], Value]) -> int:
        found = self.views.get(key)
        if found is None:
            found = self.views[key] = len(self.view_list)
            view = View(str(key), function, {})
            self.view_list.append(view)
            views = self.a["views"]
            if found >= len(views):
                views = self.a["views"] = grown(views, found + 1)
            for index, record in enumerate(self.locals):
                if index:
                    views[found, index] = self._viewed(view, record)
        return found

    def _viewed(self, view: View, record: Record) -> int:
        value = view.function(record)
        keyed = (type(value), value)  # 1 and True are equal keys, and not the same value
        return view.ids.setdefault(keyed, len(view.ids) + 1)

    def shared_id(self, column: int, value: Value) -> int:
        """Return the id of a shared field's value."""
        ids = self.shared_ids[column]
        keyed = (type(value), value)
        found = ids.get(keyed)
        if found is None:
            found = ids[keyed] = len(ids)
            self.shared_values[column].append(value)
            columns = len(self.shared_names)
            self._images("permuted_shared", column, columns, found, value, partial(self.shared_id, column))
        return found

    def message(self, message: Record) -> int:
        """Return the id of a message."""
        found = self.message_ids.get(message)
        if found is None:
            found = self.message_ids[message] = len(self.messages)
            self.messages.append(message)
            bad = 0
            for bit, prop in self.message_properties:
                about = isinstance(message, prop.kinds("message"))
                if about and not evaluate_property(self.protocol, prop, {"message": message}):
                    bad |= 1 << bit
            group = self.network.group(message)
            own = 0 if group is None else 1 + self.message(group)
            self._set("messages", found, (self.operation("discard", found), bad, own))
            table = self.a["network_operations"]
            if found >= table.shape[1]:
                wider = np.zeros((len(table), 2 * table.shape[1]), np.int32)
                wider[:, : table.shape[1]] = table
                table = self.a["network_operations"] = wider
            for j, operation in enumerate(self.network_operations):
                self.a["network_operations"][j, found] = self.operation(operation, found)
            self._images("permuted_messages", 0, 1, found, message, self.message)
        return found

    def operation(self, name: str, message: int) -> int:
        """Return the id of a network operation on a message."""
        found = self.operations.get((name, message))
        if found is None:
            found = self.operations[name, message] = len(self.operation_names)
            self.operation_names.append((name, message))
            within(found, KEY_LIMIT, "network operations")
            record = self.messages[message]
            rule = self.network.rule(name, record)
            counting = (rule.absent, rule.change, rule.least, rule.forgets) if rule else (LEARNED, 0, 0, 0)
            if rule and rule.clears:
                counting = (CLEARS, 0, 0, 0)
            self._set("operations", found, (self.slot(record.dest), message, *counting))
        return found

    def content(self, slot: int, inbox: Value) -> int:
        """Return the id of an inbox content."""
        if inbox == self.network.empty:
            return 0
        counted = self.network.rule("discard", self.network.known(inbox)[0]) is not None
        if not counted:
            return self._learned_content(slot, inbox)
        return self.counted_content(slot, ((self.message(m), c) for m, c in self.network.to_counts(inbox).items()))

    def counted_content(self, slot: int, counts: Iterable[tuple[int, int]]) -> int:
        """Return the id of an inbox content that is made of messages, by id, and how often each is there."""
        items = sorted(counts)
        while True:
            free = int(self.meta[M_CONTENT_ITEMS])
            if free + len(items) + 2 < len(self.a["content_items"]):
                self.a["content_items"][free : free + len(items)] = items
                found = int(intern_content(self.tables, slot, len(items)))
                if found >= 0:
                    return found
            self.meta[M_GROW] |= GROW_CONTENTS
            self.grow()

    def _learned_content(self, slot: int, inbox: Value) -> int:
        found = self.learned_contents.get((slot, inbox))
        if found is not None:
            return found
        deliverable = {self.message(message) for message in self.network.deliverable(inbox)}
        known = {self.message(message) for message in self.network.known(inbox)}
        found, free = int(self.meta[M_CONTENTS]), int(self.meta[M_CONTENT_ITEMS])
        while found + 2 >= len(self.a["contents"]) or free + len(known) + 2 >= len(self.a["content_items"]):
            self.meta[M_GROW] |= GROW_CONTENTS
            self.grow()
        bad = 0
        for k, message in enumerate(sorted(known)):
            self.a["content_items"][free + k] = message, int(message in deliverable)
            bad |= int(self.a["messages"][message, 1])
        self.a["slot_contents"][slot] += 1
        self.a["contents"][found] = slot, self.a["slot_contents"][slot], free, len(known), bad
        self.meta[M_CONTENTS] = found + 1
        self.meta[M_CONTENT_ITEMS] = free + len(known)
        self.learned_contents[slot, inbox] = found
        self.content_values[found] = inbox
        for g, permutation in enumerate(self.group if len(self.group) > 1 else ()):
            place = int(self.a["permuted_slots"][g, slot])
            self.a["permuted_contents"][found, g] = self._learned_content(place, permuted(inbox, permutation))
        return found

    # States

    def encode_state(self, state: State) -> list[int]:
        """Return a state's row: the id of its control row, then of each slot's inbox content."""
        if self.shared_type is None:
            self.shape(type(state.shared))
        for key in [*state.replicas, *state.inboxes]:
            self.slot(key)
        inboxes = [(self.slots[key], self.content(self.slots[key], inbox)) for key, inbox in state.inboxes.items()]
        row = [state.spent[name] for name in self.bounds]
        row += [self.shared_id(i, getattr(state.shared, name)) for i, name in enumerate(self.shared_names)]
        replicas = [0] * len(self.slots)
        for key, replica in state.replicas.items():
            replicas[self.slots[key]] = self.local(replica)
        result = [self._identified(self.control_row(row + replicas))] + [0] * len(self.slots)
        for slot, content in inboxes:
            result[1 + slot] = content
        return result

    def _identified(self, row: int) -> int:
        """Return a control row, of which it is settled which one stands for it under a VIEW."""
        while identify(self.tables, row) < 0:
            self.grow()
        return row

    def shape(self, shared_type: type[Record]) -> None:
        """Lay out the columns of control rows: the bounds, the shared record's fields, then the replicas."""
        self.shared_type = shared_type
        self.shared_names = field_names(shared_type)
        self.shared_ids = [{} for _ in self.shared_names]
        self.shared_values = [[] for _ in self.shared_names]
        base = len(self.bounds) + len(self.shared_names)
        self.meta[M_SLOT_BASE] = base
        self.meta[M_BOUNDS] = len(self.bounds)
        self.a["permuted_shared"] = np.zeros((max(1, len(self.group) * len(self.shared_names)), 64), np.int32)
        self.a["rows"] = np.zeros((len(self.a["rows"]), base), np.int32)
        for column, name in enumerate(self.bounds):
            self._set("limits", column, self.protocol.bounds[name])
        self._hide(base)

    def _hide(self, base: int) -> None:
        self.a["hidden"] = np.zeros(max(base, 1), np.int32)
        if self._view_name is not None:
            self.a["hidden"][:base] = self.protocol.hidden(self._view_name).columns(self.bounds, self.shared_names)

    def control_row(self, values: list[int]) -> int:
        """Return the id of a control row."""
        while True:
            fresh = int(self.meta[M_ROWS])
            if fresh < len(self.a["rows"]):
                self.a["rows"][fresh] = values
                found = int(intern_row(self.tables, fresh))
                if found >= 0:
                    return found
            self.meta[M_GROW] |= GROW_ROWS
            self.grow()

    def decode_state(self, row: Any) -> State:
        """Return the state of a row."""
        control = self.a["rows"][row[0]].tolist()
        first, base = len(self.bounds), len(self.bounds) + len(self.shared_names)
        assert self.shared_type is not None
        shared = self.shared_type(*[self.shared_values[i][control[first + i]] for i in range(len(self.shared_names))])
        replicas = {key: self.locals[control[base + s]] for key, s in self.slots.items() if control[base + s]}
        known = len(row) - 1  # a row from before a replica appeared is shorter
        filled = {key: int(row[1 + s]) for key, s in self.slots.items() if s < known and row[1 + s]}
        inboxes = {key: self.decode_content(content) for key, content in filled.items()}
        return State(Map(replicas), Map(inboxes), shared, Map(zip(self.bounds, control, strict=False)))

    def decode_content(self, content: int) -> Value:
        """Return the inbox of a content's id."""
        if content == 0:
            return self.network.empty
        if content in self.content_values:
            return self.content_values[content]
        _, _, start, n, _ = self.a["contents"][content].tolist()
        items = self.a["content_items"][start : start + n].tolist()
        return self.network.from_counts(Map((self.messages[message], count) for message, count in items))


def within(number: int, limit: int, what: str) -> None:
    """Raise where there are more of something than the tables can number.

    Raises
    ------
    ProtocolError
        Naming what there is too much of, and the limit.
    """
    if number >= limit:
        raise ProtocolError(f"more than {limit:,} {what}: the table engine has no numbers for them")

"""Memo tables that grow on demand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.flat.clusters import WHERE, rehash_clusters
from kraftcheck.explorer.tables.kernel.maps import copy_map, is_full, put
from kraftcheck.explorer.tables.kernel.resolving.control_rows import rehash_rows
from kraftcheck.explorer.tables.kernel.resolving.inboxes import rehash_contents
from kraftcheck.explorer.tables.kernel.resolving.requests import TableFull
from kraftcheck.explorer.tables.kernel.tables import Tables
from kraftcheck.explorer.tables.kernel.tree_walk import MOST_JUMPS
from kraftcheck.explorer.tables.states.virtual_memory import reserved
from kraftcheck.spec.errors import ProtocolError

REMEDY = "reduce the model, or use --engine reference"
ROOM = {
    "rows": 10,
    "row_info": 10,
    "row_items": 12,
    "contents": 11,
    "inbox_codes": 11,
    "content_items": 14,
    "bundle_items": 14,
}
MOST_ROWS = 1 << 31  # of a table: other tables hold its indices in 32 bits
MOST = {"contents": codes.CODE_MASK + 1}  # of tables whose indices have fewer bits
FIRST_ROOM, FIRST_MAP, FIRST_HASHES, MOST_ASKED = 1 << 6, 1 << 10, 1 << 12, 1 << 14
LARGE_TABLE = 1 << 22  # bytes of a table from which on it gets huge pages: its reads are random
LARGE_MAP = 1 << 14  # places of a map from which on it is doubled, not quadrupled, to stay in the processor's caches
MAPS = {
    "branches": codes.M_BRANCHES,
    "roots": codes.M_ROOTS,
    "operated": codes.M_OPERATIONS,
    "changed": codes.M_DELTAS,
    "changed_locals": codes.M_LOCAL_CHANGES,
    "bundles": codes.M_BUNDLES,
}
NEAR = ("operated", "changed")
PERMUTED = ("permuted_slots", "permuted_messages", "permuted_shared")
BY_ID = ("local_answers", "shared_answers", "network_operations", *PERMUTED)
UNASKED = -1  # an answer or an image that is not evaluated yet


class GrowingTables(Tables):
    """The memo tables of one learner."""

    def __init__(self, permutations: int, network_operations: int) -> None:
        super().__init__()
        self._used: Counter[str] = Counter()
        self._reserved: dict[str, NDArray[Any]] = {}
        for name in self.declared:
            old = getattr(self, name)
            setattr(self, name, np.zeros((1 << ROOM.get(name, 6), *old.shape[1:]), old.dtype))
        for name in MAPS:
            setattr(self, name, np.full((FIRST_MAP, 2), -1, np.int64))
        self.meta = np.zeros(codes.META_SIZE, np.int64)
        self.meta[codes.M_CONTENTS] = 1  # content 0 is the empty inbox
        self.meta[codes.M_PERMUTATIONS] = permutations
        self.content_table = np.full(FIRST_HASHES, -1, np.int32)
        self.own_roots[0] = UNASKED
        self.asked = np.zeros((MOST_ASKED, self.asked.shape[1]), np.int64)
        for name in BY_ID:
            rows = {"local_answers": 1, "shared_answers": 1, "network_operations": max(1, network_operations)}
            setattr(self, name, np.zeros((rows.get(name, permutations), FIRST_ROOM), np.int32))
        self.inbox_answers = np.full((1, len(self.contents)), UNASKED, np.int32)
        self.forget_control_rows()
        self.forget_clusters()
        self.permuted_contents = np.full((len(self.contents), permutations), UNASKED, np.int32)
        self.permuted_locals = np.zeros((FIRST_ROOM, permutations), np.int32)

    def set(self, name: str, index: int, value: Any, fill: int = 0) -> None:
        """Set a row of a table, which grows if needed."""
        array = getattr(self, name)
        if index >= len(array):
            array = self.lengthen(name, index + 1, fill)
        array[index] = value

    def lengthen(self, name: str, rows: int, fill: int = 0) -> Any:
        """Return a table of at least `rows` rows; it is doubled if it grows, in place if reserved pages suffice."""
        array, most = getattr(self, name), _most_rows(name)
        if rows <= len(array):
            return array
        if rows > most:
            what = name.replace("_", " ")
            raise ProtocolError(f"more than {most:,} {what}: the table engine has no more ids; {REMEDY}")
        shape = min(max(rows, 2 * len(array)), most), *array.shape[1:]
        count, whole = prod(shape) * array.itemsize, self._reserved.get(name)
        is_there = whole is not None and array.base is whole and len(whole) >= count
        if whole is None or not is_there:
            whole = self._reserved[name] = reserved(count, LARGE_TABLE)
        longer = whole[:count].view(array.dtype).reshape(shape)
        if not is_there:
            longer[: len(array)] = array
        if fill:
            longer[len(array) :] = fill
        setattr(self, name, longer)
        return longer

    def append(self, name: str, row: Any) -> int:
        """Append a row to a table; return its index."""
        index = self._used[name]
        self.set(name, index, row)
        self._used[name] = index + 1
        return index

    def extend(self, name: str, rows: Sequence[Any]) -> int:
        """Append rows to a table; return the index of the first."""
        start = self._used[name]
        if rows:
            end = self._used[name] = start + len(rows)
            self.lengthen(name, end)[start:end] = rows
        return start

    def room_for_path(self, length: int) -> tuple[int, int]:
        """Make room for a path of `length` reads in the decision trees; return the numbers of used nodes and jumps."""
        nodes, jumps = self._used["nodes"], self._used["jumps"]
        self.lengthen("nodes", nodes + length)
        self.lengthen("jumps", jumps + length * MOST_JUMPS)
        while is_full.py_func(self.meta[codes.M_BRANCHES] + length, self.branches):
            self._grow_map("branches")
        return nodes, jumps

    def note_used(self, **used: int) -> None:
        """Set the number of used rows of the named tables."""
        for name, count in used.items():
            self._used[name] = count

    def fit_columns(self, name: str, columns: int, fill: int = 0) -> NDArray[np.int32]:
        """Return a table of at least `columns` columns; a table that grows gets twice `columns`."""
        array: NDArray[np.int32] = getattr(self, name)
        if columns > array.shape[1]:
            setattr(self, name, widened(array, 2 * columns, fill))
        found: NDArray[np.int32] = getattr(self, name)
        return found

    def put(self, name: str, key: int, value: int) -> None:
        """Set the value of a key in a map, which grows if needed."""
        count = MAPS[name]
        if is_full.py_func(self.meta[count], getattr(self, name)):
            self._grow_map(name)
        self.meta[count] += put(getattr(self, name), key, value, name in NEAR)

    def _grow_map(self, name: str) -> None:
        array = getattr(self, name)
        larger = np.full(((4 if len(array) < LARGE_MAP else 2) * len(array), 2), -1, np.int64)
        copy_map(array, larger, name in NEAR)
        setattr(self, name, larger)

    def call_with_room(self, call: Callable[[], None]) -> None:
        """Repeat `call` until it finds no table full; grow the full tables before each repetition."""
        while True:
            try:
                call()
                return
            except TableFull:
                self.grow()

    def grow(self, more: int = 0) -> None:
        """Grow the tables that the kernel, or the argument `more`, marks as full."""
        wanted = int(self.meta[codes.M_GROW]) | more
        self.meta[codes.M_GROW] = 0
        if not wanted:
            return
        growth: dict[int, Callable[[], None]] = {
            codes.GROW_MAP: self._grow_maps,
            codes.GROW_ITEMS: partial(self._double, "row_items"),
            codes.GROW_ROWS: self.make_room_for_rows,
            codes.GROW_HASHES: lambda: self.rehash_rows(2 * len(self.row_table)),
            codes.GROW_CONTENTS: self._grow_contents,
            codes.GROW_BUNDLES: partial(self._double, "bundle_items"),
            codes.GROW_CLUSTER_ITEMS: self._grow_cluster_items,
            codes.GROW_CLUSTERS: self._grow_clusters,
        }
        for what, make_room in growth.items():
            if wanted & what:
                make_room()

    def _grow_maps(self) -> None:
        for name, count in MAPS.items():
            if is_full.py_func(self.meta[count], getattr(self, name)):
                self._grow_map(name)

    def _grow_contents(self) -> None:
        count, most = int(self.meta[codes.M_CONTENTS]), _most_rows("contents")
        is_crowded = count + 4 >= most or len(self.contents) < min(4 * count + 16, most)
        if is_crowded:
            self._double("contents", "inbox_codes", "permuted_contents")
            self.inbox_answers = widened(self.inbox_answers, len(self.contents), UNASKED)
        if not is_crowded or len(self.content_items) < _most_rows("content_items"):
            self._double("content_items")
        if len(self.content_table) < 2 * len(self.contents):
            self.rehash_contents(2 * len(self.content_table))

    def _grow_cluster_items(self) -> None:
        if 2 * len(self.cluster_items) > WHERE:
            raise ProtocolError(f"more than {WHERE:,} entries of column groups: the table engine is full; {REMEDY}")
        self._double("cluster_items")

    def _grow_clusters(self) -> None:
        larger = np.zeros(2 * len(self.cluster_table), np.int64)
        rehash_clusters(self.cluster_table, larger)
        self.cluster_table = larger

    def _double(self, *names: str) -> None:
        for name in names:
            self.lengthen(name, 2 * len(getattr(self, name)))

    def forget_control_rows(self) -> None:
        """Clear all control rows, with their steps and verdicts."""
        for name in ("rows", "row_info", "row_items"):
            old = getattr(self, name)
            setattr(self, name, np.zeros((1 << ROOM[name], *old.shape[1:]), old.dtype))
        self.permuted_rows = np.full((len(self.rows), int(self.meta[codes.M_PERMUTATIONS])), UNASKED, np.int32)
        self.row_table = np.full(FIRST_HASHES, -1, np.int32)
        self.changed = np.full((FIRST_MAP, 2), -1, np.int64)
        self.meta[[codes.M_ROWS, codes.M_ROW_ITEMS, codes.M_DELTAS]] = 0

    def forget_clusters(self, fields: int = 0) -> None:
        """Clear all interned cluster contents; `fields` is the new number of fields."""
        self.cluster_table = np.zeros(FIRST_HASHES, np.int64)
        self.cluster_items = np.zeros(FIRST_HASHES, np.int32)
        self.cluster_counts = np.zeros(max(1, fields), np.int64)
        self.meta[[codes.M_CLUSTERS, codes.M_CLUSTER_ITEMS, codes.M_CLUSTER_ROOM]] = 0, 1, 0  # an entry is never 0

    def make_room_for_rows(self) -> None:
        """Make room for more control rows."""
        self._double("rows", "row_info", "permuted_rows")
        if len(self.row_table) < 2 * len(self.rows):
            self.rehash_rows(2 * len(self.rows))

    def rehash_rows(self, places: int) -> None:
        """Insert every control row into a new hash table of `places` places."""
        self.row_table = np.full(places, -1, np.int32)
        rehash_rows(self)

    def rehash_contents(self, places: int) -> None:
        """Insert every inbox content into a new hash table of `places` places."""
        self.content_table = np.full(places, -1, np.int32)
        rehash_contents(self)


def _most_rows(name: str) -> int:
    """Return the largest number of rows that a table may have."""
    return MOST.get(name, MOST_ROWS)


def widened(array: NDArray[Any], columns: int, fill: int = 0) -> NDArray[Any]:
    """Return a copy of an array with more columns."""
    wider = np.full((len(array), columns), fill, array.dtype)
    wider[:, : array.shape[1]] = array
    return wider


def require_below(number: int, limit: int, what: str) -> int:
    """Return `number` if it is below `limit`, the number of ids that tables have for `what`; else raise an error."""
    if number >= limit:
        raise ProtocolError(f"more than {limit:,} {what}: the table engine has no more ids; {REMEDY}")
    return number

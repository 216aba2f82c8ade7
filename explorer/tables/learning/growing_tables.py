"""Memo tables that grow on demand, and their columns of answers: queries about values, and images under symmetry.

A decision tree tests queries, functions of a local state, a shared value or an inbox. Each query is evaluated once for
each distinct value, and its answers are a column that the kernel reads.

Every permutation of a symmetry group is a product of generators. Only images under generators are rebuilt from values,
with each part of a value rebuilt once. All other images follow by table lookups. A value's images are cached by id when
the value is interned, so canonicalizing a state touches no value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.native.arrays import reserve_zeroed_bytes
from kraftcheck.explorer.tables.kernel import arrays, codes, interning, maps
from kraftcheck.explorer.tables.kernel.packing import CLUSTER_ITEM_MASK, rehash_column_clusters
from kraftcheck.explorer.tables.kernel.tree_walk import MOST_JUMPS
from kraftcheck.spec.errors import ProtocolError
from kraftcheck.spec.language.state import Permutation
from kraftcheck.spec.values import Map, ModelValue, Record, Value, field_values, same_types, type_distinguishing_key

LIMIT_ADVICE = "reduce the model, or use --engine reference"
FIRST_ROWS_LOG2 = {
    "rows": 10,
    "row_info": 10,
    "row_items": 12,
    "contents": 11,
    "inbox_codes": 11,
    "content_items": 14,
    "bundle_items": 14,
}
MOST_TABLE_ROWS = 1 << 31  # of a table: other tables hold its indices in 32 bits
MOST_ROWS_BY_TABLE = {"contents": codes.CODE_MASK + 1}  # of tables whose indices have fewer bits
FIRST_ID_ROOM, FIRST_MAP_PLACES, FIRST_HASH_PLACES, MOST_PYTHON_REQUESTS = 1 << 6, 1 << 10, 1 << 12, 1 << 14
HUGE_PAGES_FROM_BYTES = 1 << 22  # bytes of a table from which on it gets huge pages: its reads are random
MAP_DOUBLES_FROM_PLACES = 1 << 14  # a larger map is doubled, not quadrupled, to stay in the processor's caches
META_PLACE_BY_MAP = {
    "branches": codes.META_BRANCHES,
    "roots": codes.META_ROOTS,
    "operated": codes.META_OPERATIONS,
    "changed": codes.META_DELTAS,
    "changed_locals": codes.META_LOCAL_CHANGES,
    "bundles": codes.META_BUNDLES,
}
GROUPED_MAPS = ("operated", "changed")
IMAGE_TABLES = ("permuted_slots", "permuted_messages", "permuted_shared")
TABLES_WITH_COLUMN_PER_ID = ("local_answers", "shared_answers", "network_operations", *IMAGE_TABLES)
NOT_EVALUATED = -1  # an answer or an image that is not evaluated yet


class GrowingTables(arrays.MemoTables):
    """The memo tables of one learner."""

    def __init__(self, permutations: int, network_operations: int) -> None:
        super().__init__()
        self._used: Counter[str] = Counter()
        self._reserved: dict[str, NDArray[Any]] = {}
        for name in self.declared:
            old = getattr(self, name)
            setattr(self, name, np.zeros((1 << FIRST_ROWS_LOG2.get(name, 6), *old.shape[1:]), old.dtype))
        for name in META_PLACE_BY_MAP:
            setattr(self, name, np.full((FIRST_MAP_PLACES, 2), -1, np.int64))
        self.meta = np.zeros(codes.META_SIZE, np.int64)
        self.meta[codes.META_CONTENTS] = 1  # content 0 is the empty inbox
        self.meta[codes.META_PERMUTATIONS] = permutations
        self.content_table = np.full(FIRST_HASH_PLACES, -1, np.int32)
        self.own_roots[0] = NOT_EVALUATED
        self.asked = np.zeros((MOST_PYTHON_REQUESTS, self.asked.shape[1]), np.int64)
        for name in TABLES_WITH_COLUMN_PER_ID:
            rows = {"local_answers": 1, "shared_answers": 1, "network_operations": max(1, network_operations)}
            setattr(self, name, np.zeros((rows.get(name, permutations), FIRST_ID_ROOM), np.int32))
        self.inbox_answers = np.full((1, len(self.contents)), NOT_EVALUATED, np.int32)
        self.forget_control_rows()
        self.forget_clusters()
        self.permuted_contents = np.full((len(self.contents), permutations), NOT_EVALUATED, np.int32)
        self.permuted_locals = np.zeros((FIRST_ID_ROOM, permutations), np.int32)

    def set(self, name: str, index: int, value: Any, fill: int = 0) -> None:
        """Set a row of a table, which grows if needed."""
        array = getattr(self, name)
        if index >= len(array):
            array = self.lengthen(name, index + 1, fill)
        array[index] = value

    def lengthen(self, name: str, rows: int, fill: int = 0) -> Any:
        """Return a table of at least `rows` rows; it is doubled if it grows, in place if reserved pages suffice."""
        array, most = getattr(self, name), _row_limit_of_table(name)
        if rows <= len(array):
            return array
        if rows > most:
            what = name.replace("_", " ")
            raise ProtocolError(f"more than {most:,} {what}: the table engine has no more ids; {LIMIT_ADVICE}")
        shape = min(max(rows, 2 * len(array)), most), *array.shape[1:]
        count, whole = prod(shape) * array.itemsize, self._reserved.get(name)
        is_there = whole is not None and array.base is whole and len(whole) >= count
        if whole is None or not is_there:
            whole = self._reserved[name] = reserve_zeroed_bytes(count, HUGE_PAGES_FROM_BYTES)
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
        while maps.is_map_full.py_func(self.meta[codes.META_BRANCHES] + length, self.branches):
            self._grow_map("branches")
        return nodes, jumps

    def note_used(self, **used: int) -> None:
        """Set the number of used rows of the named tables."""
        for name, count in used.items():
            self._used[name] = count

    def fit_columns(self, name: str, columns: int) -> NDArray[np.int32]:
        """Return a table of at least `columns` columns; a table that grows gets twice `columns`."""
        array: NDArray[np.int32] = getattr(self, name)
        if columns > array.shape[1]:
            array = with_more_columns(array, 2 * columns)
            setattr(self, name, array)
        return array

    def put(self, name: str, key: int, value: int) -> None:
        """Set the value of a key in a map, which grows if needed."""
        count = META_PLACE_BY_MAP[name]
        if maps.is_map_full.py_func(self.meta[count], getattr(self, name)):
            self._grow_map(name)
        self.meta[count] += maps.put_from_python(getattr(self, name), key, value, name in GROUPED_MAPS)

    def _grow_map(self, name: str) -> None:
        array = getattr(self, name)
        larger = np.full(((4 if len(array) < MAP_DOUBLES_FROM_PLACES else 2) * len(array), 2), -1, np.int64)
        maps.copy_map(array, larger, name in GROUPED_MAPS)
        setattr(self, name, larger)

    def call_with_room(self, call: Callable[[], None]) -> None:
        """Repeat `call` until it finds no table full; grow the full tables before each repetition."""
        while True:
            try:
                call()
                return
            except arrays.TableFull:
                self.grow()

    def grow(self, more: int = 0) -> None:
        """Grow the tables that the kernel, or the argument `more`, marks as full."""
        wanted = int(self.meta[codes.META_GROW]) | more
        self.meta[codes.META_GROW] = 0
        if not wanted:
            return
        growth: dict[int, Callable[[], None]] = {
            codes.GROW_MAP: self._grow_maps,
            codes.GROW_ITEMS: partial(self._double, "row_items"),
            codes.GROW_ROWS: self.make_room_for_rows,
            codes.GROW_HASHES: lambda: self.rehash_control_rows(2 * len(self.row_table)),
            codes.GROW_CONTENTS: self._grow_contents,
            codes.GROW_BUNDLE_ITEMS: partial(self._double, "bundle_items"),
            codes.GROW_CLUSTER_ITEMS: self._grow_cluster_items,
            codes.GROW_CLUSTERS: self._grow_clusters,
        }
        for what, make_room in growth.items():
            if wanted & what:
                make_room()

    def _grow_maps(self) -> None:
        for name, count in META_PLACE_BY_MAP.items():
            if maps.is_map_full.py_func(self.meta[count], getattr(self, name)):
                self._grow_map(name)

    def _grow_contents(self) -> None:
        count, most = int(self.meta[codes.META_CONTENTS]), _row_limit_of_table("contents")
        is_crowded = count + 4 >= most or len(self.contents) < min(4 * count + 16, most)
        if is_crowded:
            self._double("contents", "inbox_codes", "permuted_contents")
            self.inbox_answers = with_more_columns(self.inbox_answers, len(self.contents), NOT_EVALUATED)
        if not is_crowded or len(self.content_items) < _row_limit_of_table("content_items"):
            self._double("content_items")
        if len(self.content_table) < 2 * len(self.contents):
            self.rehash_contents(2 * len(self.content_table))

    def _grow_cluster_items(self) -> None:
        if 2 * len(self.cluster_items) > CLUSTER_ITEM_MASK:
            what = f"more than {CLUSTER_ITEM_MASK:,} entries of column clusters"
            raise ProtocolError(f"{what}: the table engine is full; {LIMIT_ADVICE}")
        self._double("cluster_items")

    def _grow_clusters(self) -> None:
        larger = np.zeros(2 * len(self.cluster_table), np.int64)
        rehash_column_clusters(self.cluster_table, larger)
        self.cluster_table = larger

    def _double(self, *names: str) -> None:
        for name in names:
            self.lengthen(name, 2 * len(getattr(self, name)))

    def forget_control_rows(self) -> None:
        """Clear all control rows, with their steps and verdicts."""
        for name in ("rows", "row_info", "row_items"):
            old = getattr(self, name)
            setattr(self, name, np.zeros((1 << FIRST_ROWS_LOG2[name], *old.shape[1:]), old.dtype))
        self.permuted_rows = np.full((len(self.rows), int(self.meta[codes.META_PERMUTATIONS])), NOT_EVALUATED, np.int32)
        self.row_table = np.full(FIRST_HASH_PLACES, -1, np.int32)
        self.changed = np.full((FIRST_MAP_PLACES, 2), -1, np.int64)
        self.meta[[codes.META_ROWS, codes.META_ROW_ITEMS, codes.META_DELTAS]] = 0

    def forget_clusters(self, fields: int = 0) -> None:
        """Clear all interned cluster contents; `fields` is the new number of fields."""
        self.cluster_table = np.zeros(FIRST_HASH_PLACES, np.int64)
        self.cluster_items = np.zeros(FIRST_HASH_PLACES, np.int32)
        self.cluster_counts = np.zeros(max(1, fields), np.int64)
        self.meta[[codes.META_CLUSTERS, codes.META_CLUSTER_ROOM]] = 0
        self.meta[codes.META_CLUSTER_ITEMS] = 1  # an entry is never 0

    def make_room_for_rows(self) -> None:
        """Make room for more control rows."""
        self._double("rows", "row_info", "permuted_rows")
        if len(self.row_table) < 2 * len(self.rows):
            self.rehash_control_rows(2 * len(self.rows))

    def rehash_control_rows(self, places: int) -> None:
        """Insert every control row into a new hash table of `places` places."""
        self.row_table = np.full(places, -1, np.int32)
        interning.rehash_control_rows(self)

    def rehash_contents(self, places: int) -> None:
        """Insert every inbox content into a new hash table of `places` places."""
        self.content_table = np.full(places, -1, np.int32)
        interning.rehash_inbox_contents(self)


def _row_limit_of_table(name: str) -> int:
    """Return the largest number of rows that a table may have."""
    return MOST_ROWS_BY_TABLE.get(name, MOST_TABLE_ROWS)


def with_more_columns(array: NDArray[Any], columns: int, fill: int = 0) -> NDArray[Any]:
    """Return a copy of an array with more columns."""
    wider = np.full((len(array), columns), fill, array.dtype)
    wider[:, : array.shape[1]] = array
    return wider


def require_id_below(number: int, limit: int, what: str) -> int:
    """Return `number` if it is below `limit`, the number of ids that tables have for `what`; else raise an error."""
    if number >= limit:
        raise ProtocolError(f"more than {limit:,} {what}: the table engine has no more ids; {LIMIT_ADVICE}")
    return number


QueryKey = tuple[str, ...]
NodeQuery = tuple[int, int, int]  # kind of a decision tree's node, and its two arguments
WHOLE_LOCAL_QUERY = 0  # id of the query that returns the local state itself
CLASS_QUERY_KEY: QueryKey = ("class", "")  # query for the value's class
PRESENT_QUERY_KEY: QueryKey = ("present", "")  # query whether the replica exists
WHOLE_REPLICA_ANSWER: Any = object()
"""The answer of a projection that returns the whole replica."""


class InternedList(list[Any]):
    """A list of interned values, indexed by their ids."""

    def __init__(self, values: Iterable[Any] = ()) -> None:
        super().__init__(values)
        self._ids: dict[Any, int] = {}

    def find(self, key: Any) -> int | None:
        """Return the id of the value added with `key`, or None."""
        return self._ids.get(key)

    def add(self, key: Any, value: Any) -> int:
        """Add a value with a key; return its id."""
        found = self._ids[key] = len(self)
        self.append(value)
        return found


class InterningFunction(NamedTuple):
    """A function with interned results."""

    function: Callable[[Any], Value]
    values: list[Any]
    ids: dict[Any, int]

    def number(self, value: Any) -> int:
        """Return the id of the function's result for a value."""
        answer = self.function(value)
        key = type_distinguishing_key(answer)
        found = self.ids.get(key)
        if found is None:
            found = self.ids[key] = len(self.values)
            self.values.append(answer)
        return found


class ValueQueries:
    """The queries on values of one kind: local states, or a shared field's values."""

    def __init__(self, tables: GrowingTables, name: str, values: Sequence[Any], numbers: Iterator[int]) -> None:
        self._tables = tables
        self._name = name
        self._values = values
        self._free = numbers
        self._numbers: dict[QueryKey, int] = {}
        self._queries: dict[int, InterningFunction] = {}

    def number(self, key: QueryKey, function: Callable[[Any], Value]) -> int:
        """Return the id of a query; evaluate a new query for all known values."""
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = next(self._free)
            query = self._queries[found] = InterningFunction(function, [None], {None: 0})  # 0: no replica
            self._tables.set(self._name, found, 0)
            table = self._tables.fit_columns(self._name, len(self._values))
            for place, value in enumerate(self._values):
                table[found, place] = 0 if value is None else query.number(value)
        return found

    def known(self, key: QueryKey) -> int:
        """Return the id of a query, or -1 if there is none yet."""
        return self._numbers.get(key, -1)

    def add(self, place: int, value: Any) -> None:
        """Evaluate all known queries for a new value, whose id is `place`."""
        table = self._tables.fit_columns(self._name, place + 1) if self._queries else None
        for number, query in self._queries.items():
            table[number, place] = query.number(value)  # type: ignore[index]

    def answer(self, query: int, place: int) -> int:
        """Return the id of a query's answer for a value's id."""
        return int(getattr(self._tables, self._name)[query, place])

    def value(self, query: int, answer: int) -> Any:
        """Return the value whose id is `answer` among the answers to `query`."""
        return self._queries[query].values[answer]


class InboxQueries:
    """The queries on inboxes, each answered at its first use for an inbox content."""

    def __init__(self, tables: GrowingTables, decode: Callable[[int], Value]) -> None:
        self._tables = tables
        self._decode = decode
        self._numbers: dict[str, int] = {}
        self._queries: list[InterningFunction] = []

    def number(self, name: str, function: Callable[[Value], Value]) -> int:
        """Return the id of the query `name`; register a new one with `function`."""
        found = self._numbers.get(name)
        if found is None:
            found = self._numbers[name] = len(self._queries)
            self._queries.append(InterningFunction(function, [], {}))
            self._tables.set("inbox_answers", found, NOT_EVALUATED, NOT_EVALUATED)
        return found

    def answer(self, query: int, content: int) -> int:
        """Return the id of a query's answer for an inbox content, which is evaluated at the first call."""
        table = self._tables.inbox_answers
        if table[query, content] < 0:
            table[query, content] = self._queries[query].number(self._decode(content))
        return int(table[query, content])

    def value(self, query: int, answer: int) -> Any:
        """Return the value whose id is `answer` among the answers to `query`."""
        return self._queries[query].values[answer]


PermuteValue = Callable[[Value], Value]


class PermutationGroup:
    """A permutation group, with functions that return the image of a value under each generator."""

    def __init__(self, group: list[Permutation]) -> None:
        self.order = len(group)
        self._group = group
        self._numbers = {frozenset(permutation.items()): number for number, permutation in enumerate(group)}

    @cached_property
    def products(self) -> list[tuple[int, int, int]]:
        """Triples (g, k, h), one for each permutation g but the identity: g is generator k applied after h."""
        return self._generated[0]

    @cached_property
    def generators(self) -> list[PermuteValue]:
        """A function for each generator that returns the image of a value."""
        return [_memoized_permuter(self._group[number]) for number in self._generated[1]]

    @cached_property
    def _generated(self) -> tuple[list[tuple[int, int, int]], list[int]]:
        """The `products`, and the numbers of the permutations chosen as generators."""
        products: list[tuple[int, int, int]] = []
        generators: list[int] = []
        reached = [0]
        for candidate in range(1, self.order):
            if candidate in reached:
                continue
            generators.append(candidate)
            # Start again with one more generator: each product must come after its factors.
            products, reached = [], [0]
            for h in reached:
                for k, generator in enumerate(generators):
                    g = self._after(generator, h)
                    if g not in reached:
                        reached.append(g)
                        products.append((g, k, h))
        return products, generators

    def _after(self, g: int, h: int) -> int:
        """Return the number of the composition of two permutations: g after h."""
        outer = self._group[g]
        product = {value: outer.get(image, image) for value, image in self._group[h].items()}
        return self._numbers[frozenset(product.items())]


def _memoized_permuter(permutation: Permutation) -> PermuteValue:
    """Return a memoized function that permutes the model values in a value.

    For a permutation that is its own inverse, the image of an image is the original object. Dictionaries then find it
    by identity, without a comparison of values.
    """
    known: dict[tuple[type, Value], tuple[Value, Value]] = {}  # a value and its image
    undoes_itself = all(permutation.get(image, image) == value for value, image in permutation.items())

    def image(value: Value) -> Value:
        kind = type(value)
        if kind is ModelValue:
            return permutation.get(value, value)
        if not isinstance(value, (tuple, frozenset, Record, Map)):
            return value
        found, made = known.get((kind, value), (None, None))
        if found is None or not same_types(found, value):  # 1 and True are equal keys
            made = rebuilt(value)
            known[kind, value] = value, made
            if undoes_itself:
                known[kind, made] = made, value
        return made

    def rebuilt(value: Value) -> Value:
        if isinstance(value, tuple):
            return tuple(map(image, value))
        if isinstance(value, frozenset):
            return frozenset(map(image, value))
        if isinstance(value, Map):
            return Map([(image(k), image(v)) for k, v in value.items()])
        assert isinstance(value, Record)
        return type(value)(*map(image, field_values(value)))

    return image


class OrbitInterner:
    """Interns the images of values under the symmetry group, and stores the images' ids in tables."""

    def __init__(self, images: PermutationGroup, tables: GrowingTables) -> None:
        self._images = images
        self._tables = tables
        self._waiting: dict[tuple[str, int], list[tuple[int, Value]]] = {}

    def note(
        self, name: str, index: int, value: Value, intern: Callable[[Any], int], first: int = 0, apart: int = 1
    ) -> None:
        """Store the ids of a value's images under each permutation `g`, in row `first + g * apart` of a table.

        A table with a row for each id has the images in its columns. The whole orbit is interned at once; `intern`
        calls this method again for the orbit's members.
        """
        order = self._images.order
        if order == 1:
            return
        orbit = self._waiting.get((name, first))
        if orbit is not None:
            orbit.append((index, value))
            return
        orbit = self._waiting[name, first] = [(index, value)]
        under = {number: [intern(image(member)) for image in self._images.generators] for number, member in orbit}
        del self._waiting[name, first]
        tables, count = self._tables, max(under) + 1
        table = tables.fit_columns(name, count) if name in TABLES_WITH_COLUMN_PER_ID else tables.lengthen(name, count).T
        for number in under:
            numbers = [number] * order
            for g, generator, before in self._images.products:
                numbers[g] = under[numbers[before]][generator]
            table[first : first + apart * order : apart, number] = numbers

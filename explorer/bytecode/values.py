"""Values of Python on the interpreter's heap: kinds, encoding, decoding, and types of fields."""

from __future__ import annotations

import enum
from bisect import bisect_left
from collections.abc import Iterable
from operator import itemgetter
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np

from kraftcheck.explorer.bytecode.kernel import codes
from kraftcheck.explorer.bytecode.kernel.codes import InterpreterArrays
from kraftcheck.explorer.bytecode.kernel.heap import intern_node, rehash_nodes
from kraftcheck.spec.errors import NoBytecodeError
from kraftcheck.spec.language.state import Step
from kraftcheck.spec.type_checks import fits_type
from kraftcheck.spec.values import (
    Map,
    ModelValue,
    Record,
    field_names,
    field_types,
    is_enum,
    may_conflate_values,
    order_key,
)

ATOM_TYPES, COLLECTION_TYPES = (NoneType, bool, str, ModelValue, int), (tuple, list, frozenset, set, Map, dict)
"""Python's types, in the order of their kinds."""
KINDS_OF_TYPES: dict[type, int] = {of: kind for kind, of in enumerate((*ATOM_TYPES, *COLLECTION_TYPES))}
KINDS_OF_TYPES[Step] = codes.STEP_KIND
assert KINDS_OF_TYPES[dict] == codes.DICT_KIND
RANK_LIMIT = 1 << 30
"""Greater than any rank of an atomic value."""
_SPECIAL_METHODS = ("__bool__", "__len__", "__iter__", "__contains__", "__getitem__")
"""Methods of a class that change what operations on its instances mean."""


MOST_CACHED_NODES, MOST_CACHED_KEYS = 1 << 16, 1 << 12
"""Encoded nodes, and key sets of maps, before their caches are emptied."""


class UnsupportedTypePlaceholder:
    """The type of no value."""


class ValueHeap:
    """The values of one search. Classes must be known before `link`."""

    def __init__(self) -> None:
        self.machine = machine = InterpreterArrays()
        machine.at = np.zeros(codes.AT_SIZE, np.int64)
        machine.shape = np.zeros(codes.SHAPE_SIZE, np.int64)
        machine.words = np.zeros(2 * codes.SCRATCH_WORDS, np.int32)
        machine.table = np.zeros(1 << 16, np.int32)
        machine.answers = np.zeros((1 << 10, 2), np.int64)
        self._answers: dict[int, int] = {}
        machine.matched = np.zeros(1 << codes.MATCH_MEMO_BITS, np.int64)
        machine.registers = np.zeros(codes.MOST_REGISTERS + codes.MOST_REGISTERS // 2, np.int64)
        machine.frames = np.zeros((codes.MOST_FRAMES, 3), np.int64)
        machine.stack = np.zeros(codes.MOST_STACK_VALUES + codes.MOST_STACK_VALUES // 2, np.int64)
        machine.at[codes.AT_PERMANENT_TOP] = codes.SCRATCH_WORDS
        machine.words[0] = codes.INVALID_KIND
        self.classes: dict[type, int] = {}
        self._tests: dict[Any, int] = {}
        self._names: dict[str, int] = {}
        self._atoms: dict[tuple[type, Any], int] = {}
        self._ranked: list[tuple[Any, int]] = []  # the keys of atomic values in canonical order, and their addresses
        self._types: dict[Any, int] = {}
        self._rows: list[tuple[int, int, int]] = []
        self._items: list[int] = []
        self._decoded: dict[int, Any] = {}
        self._encoded_keys: dict[tuple[int, ...], list[tuple[Any, int]]] = {}  # of maps, by the ids of their keys
        self._nodes: dict[tuple[int, ...], int] = {}  # by kind and items: values have parts in common
        self._of_kind: dict[int, type] = {kind: of for of, kind in KINDS_OF_TYPES.items()}
        for name in field_names(Step):
            self.name(name)
        for value in (None, False, True):
            self._atom(value)
        self._append(codes.TUPLE_KIND, [])
        self._rehash(machine.table.shape[0])  # the empty tuple is looked up

    def _append(self, kind: int, items: list[int]) -> int:
        """Append a permanent node that is not looked up; return its address."""
        machine = self.machine
        address = int(machine.at[codes.AT_PERMANENT_TOP])
        self.require_room(len(items) + codes.NODE_HEAD_WORDS)
        machine.words[address : address + codes.NODE_HEAD_WORDS + len(items)] = [kind, len(items), *items]
        machine.at[codes.AT_PERMANENT_TOP] += len(items) + codes.NODE_HEAD_WORDS
        machine.at[codes.AT_NODES] += 1
        return address

    def _rehash(self, size: int) -> None:
        self.machine.table = np.zeros(size, np.int32)
        rehash_nodes(self.machine)

    def require_room(self, words: int) -> None:
        """Grow the arrays of permanent nodes where less than a number of words is free."""
        machine = self.machine
        needed = int(machine.at[codes.AT_PERMANENT_TOP]) + words
        if needed > machine.words.shape[0]:
            size = min(max(2 * machine.words.shape[0], needed), codes.NUMBER_LIMIT)
            if needed > size:
                raise NoBytecodeError("the values of the states exceed 2 GiB")
            machine.words = np.concatenate((machine.words, np.zeros(size - machine.words.shape[0], np.int32)))
        if 2 * (machine.at[codes.AT_NODES] + words // 8) > machine.table.shape[0]:
            self._rehash(2 * machine.table.shape[0])

    # Kinds

    def kind(self, of: type) -> int:
        """Return the kind of a class, which is added if it is new."""
        if of in KINDS_OF_TYPES:
            return KINDS_OF_TYPES[of]
        if of not in self.classes:
            _require_plain_class(of)
            self.classes[of] = codes.CLASS_KINDS_START + len(self.classes)
            self._of_kind[self.classes[of]] = of
            names = field_names(of) if issubclass(of, Record) else ()
            for name in names:  # all of them before a type that is not supported
                self.name(name)
            for name in names:
                self.learn_types(field_types(of)[name])
        return self.classes[of]

    def learn_types(self, kind: Any) -> None:
        """Add the classes that a type names."""
        for one in (kind, *get_args(kind)):
            if get_args(one) and one is not kind:
                self.learn_types(one)
            elif isinstance(one, type) and (is_enum(one) or (issubclass(one, Record) and one is not Record)):
                self.kind(one)

    def name(self, name: str) -> int:
        """Return the number of a field's name."""
        return self._names.setdefault(name, len(self._names))

    def test(self, kinds: Iterable[type]) -> int:
        """Return the number of a test of values for being an instance of some classes."""
        wanted = tuple(kinds)
        for one in wanted:
            if one not in KINDS_OF_TYPES and not issubclass(one, Record | enum.Enum):
                raise NoBytecodeError(f"a test for the type {one.__name__}")
        return self._tests.setdefault(wanted, len(self._tests))

    # Values

    def encode(self, value: Any) -> int:
        """Return a Python value on the heap, as a permanent one where it is immutable."""
        kind = type(value)
        if kind is int:
            if not -codes.NUMBER_LIMIT < value < codes.NUMBER_LIMIT:
                raise NoBytecodeError(f"the number {value}")
            return 2 * int(value) + 1
        if kind in (NoneType, bool, str, ModelValue) or is_enum(kind):
            return self._atom(value)
        if isinstance(value, type):
            if (type, value) not in self._atoms:
                self._atoms[type, value] = 2 * self._append(codes.CLASS_KIND, [self.test([value]), 1])
                self._decoded[self._atoms[type, value]] = value
            return self._atoms[type, value]
        number = self.kind(kind)  # before the items: a value of another kind has none
        items = self._encoded_map_items(value) if kind is Map else map(self.encode, _heap_node_items(value))
        return self._node(number, items)

    def _encoded_map_items(self, value: Map[Any, Any]) -> list[int]:
        """Return the items of a map's node. Maps often have the very same keys, which are sorted and encoded once."""
        ids = tuple(map(id, value))
        known = self._encoded_keys.get(ids)
        if known is None:
            if len(self._encoded_keys) >= MOST_CACHED_KEYS:
                self._encoded_keys.clear()
            keys = _sorted_canonically(value)
            known = self._encoded_keys[ids] = [(key, self.encode(key)) for key in keys]  # keeps the keys and their ids
        return [one for key, encoded in known for one in (encoded, self.encode(value[key]))]

    def encode_constant(self, value: Any) -> int:
        """Return a constant on the heap; its records must have values of their fields' types, as the kernel's have."""
        waiting = [value]
        while waiting:
            one = waiting.pop()
            if isinstance(one, Record):
                if not fits_type(one, type(one)):
                    raise NoBytecodeError(f"a value of type {type(one).__name__}, whose fields have other types")
            elif type(one) in COLLECTION_TYPES:
                waiting += _heap_node_items(one)
        return self.encode(value)

    def _atom(self, value: Any) -> int:
        key: tuple[type, Any] = (type(value), value)
        if key in self._atoms and isinstance(value, ModelValue) and self.decode(self._atoms[key]).index != value.index:
            raise NoBytecodeError(f"two model values {value}")
        if key not in self._atoms:
            self._atoms[key] = 2 * self._append(self.kind(type(value)), [0, int(bool(value))])
            self._decoded[self._atoms[key]] = value
            self._rank(order_key(value), self._atoms[key] >> 1)
        result: int = self._atoms[key]
        return result

    def _rank(self, key: Any, address: int) -> None:
        """Give an atomic value a rank between those of its neighbours in canonical order."""
        place, words, at = bisect_left(self._ranked, key, key=itemgetter(0)), self.machine.words, codes.NODE_HEAD_WORDS
        self._ranked.insert(place, (key, address))
        below = int(words[self._ranked[place - 1][1] + at]) if place else 0
        above = int(words[self._ranked[place + 1][1] + at]) if place + 1 < len(self._ranked) else RANK_LIMIT
        words[address + at] = (below + above) // 2
        if above - below < 2:  # there is no room left
            for number, (_, one) in enumerate(self._ranked, start=1):
                words[one + at] = number * (RANK_LIMIT // (len(self._ranked) + 1))

    def _node(self, kind: int, items: Iterable[int]) -> int:
        values = list(items)
        key = (kind, *values)
        if (known := self._nodes.get(key)) is not None:
            return known
        self.require_room(2 * len(values) + 64)
        end = codes.ATOM_WORDS + codes.NODE_HEAD_WORDS + len(values)
        if end > codes.SCRATCH_WORDS:
            raise NoBytecodeError("a value of over a million parts")
        self.machine.words[codes.ATOM_WORDS : end] = [kind, len(values), *values]
        if len(self._nodes) >= MOST_CACHED_NODES:
            self._nodes.clear()
        found = self._nodes[key] = 2 * int(intern_node(self.machine, codes.ATOM_WORDS))
        return found

    def decode(self, value: int) -> Any:
        """Return the Python value of a permanent value."""
        if value & 1:
            return value >> 1
        found = self._decoded.get(value)
        if found is None and value not in self._decoded:
            words, first = self.machine.words, (value >> 1) + codes.NODE_HEAD_WORDS
            kind, size = int(words[value >> 1]), int(words[(value >> 1) + 1])
            items = [self.decode(one) for one in words[first : first + size].tolist()]
            if kind in (codes.MAP_KIND, codes.DICT_KIND):
                items = list(zip(items[::2], items[1::2], strict=True))
            of: Any = self._of_kind[kind]
            found = of(items) if of in COLLECTION_TYPES else of(*items)
            if len(self._decoded) < 1 << 16 and of not in (list, set, dict):
                self._decoded[value] = found
        return found

    def answer(self, asked: int, value: Any) -> None:
        """Keep the value that Python returned for a tuple of a function's number and its arguments."""
        kinds, items = len(self.classes), value.items() if isinstance(value, dict) else value
        if not all(fits_type(one, Any) for one in (items if isinstance(value, list | set | dict) else [value])):
            raise NoBytecodeError(f"a value of type {type(value).__name__}")
        self._answers[asked] = self.encode(value)
        if len(self.classes) > kinds:  # the kernel does not know it
            raise NoBytecodeError(f"a value of type {type(value).__name__}")
        known, table = self._answers, self.machine.answers
        if 2 * len(known) > len(table):
            table = self.machine.answers = np.zeros((4 * len(table), 2), np.int64)
        else:
            known = {asked: known[asked]}
        for key, found in known.items():
            slot = (key * codes.ANSWER_FACTOR) & (len(table) - 1)
            while table[slot, 0]:
                slot = (slot + 1) & (len(table) - 1)
            table[slot] = key, found

    # Types

    def type_of(self, kind: Any) -> int:
        """Return the number of a type as in an annotation."""
        if kind not in self._types:
            row = self._row(kind)
            self._types[kind] = len(self._rows)
            self._rows.append(row)
        return self._types[kind]

    def _type_or_none(self, kind: Any) -> int:
        """Return the number of a type; that of a type without values if it is not supported."""
        try:
            return self.type_of(kind)
        except NoBytecodeError:
            return self._types.setdefault(kind, self.type_of(UnsupportedTypePlaceholder))

    def _row(self, kind: Any) -> tuple[int, int, int]:
        origin, arguments = get_origin(kind), get_args(kind)
        if may_conflate_values(kind):  # of values that are equal in Python and yet distinct; Any is one
            raise NoBytecodeError(f"the type {kind}")
        if origin is Literal:
            return self._listed(codes.TYPE_LITERAL, map(self.encode, arguments))
        if origin is None and isinstance(kind, type):
            return codes.TYPE_KINDS, self.exact_test(kind), 0
        types = [self.type_of(one) for one in arguments if one is not Ellipsis]
        if origin is tuple and Ellipsis not in arguments:
            return self._listed(codes.TYPE_PRODUCT, types)
        if origin in (Union, UnionType):
            return self._listed(codes.TYPE_UNION, types)
        operations: dict[Any, int] = {frozenset: codes.TYPE_SET, tuple: codes.TYPE_TUPLE, Map: codes.TYPE_MAP}
        if origin not in operations:
            raise NoBytecodeError(f"the type {kind}")
        return operations[origin], types[0], types[-1]

    def exact_test(self, kind: type) -> int:
        """Return the test for the values of a field of a type: those of bool are no numbers."""
        return self._tests.setdefault(("exact", kind), len(self._tests))

    def among(self, kinds: Iterable[type]) -> int:
        """Return the test of values for being of one of some classes exactly."""
        return self._tests.setdefault(("among", *kinds), len(self._tests))

    def _listed(self, operation: int, items: Iterable[int]) -> tuple[int, int, int]:
        found = list(items)
        self._items += found
        return operation, len(self._items) - len(found), len(found)

    def link(self) -> None:
        """Fill the tables of kinds, tests, fields and types."""
        machine, kinds = self.machine, codes.CLASS_KINDS_START + len(self.classes)
        machine.at[codes.AT_KINDS] = kinds
        machine.groups = np.full(kinds, codes.MUTABLE_GROUP, np.int32)
        machine.groups[list(codes.GROUP_OF_KIND)] = list(codes.GROUP_OF_KIND.values())
        machine.like = np.zeros(kinds, np.uint8)
        machine.like[[codes.BOOL_KIND, codes.INT_KIND, codes.STR_KIND, codes.INVALID_KIND]] = 1, 1, 2, 3
        for of, kind in self.classes.items():
            machine.groups[kind] = codes.RECORD_GROUP if issubclass(of, Record) else codes.ENUM_GROUP
            machine.like[kind] = issubclass(of, int) + 2 * issubclass(of, str)
        self._link_records(kinds)
        machine.types = np.array([*self._rows, (codes.TYPE_ANY, 0, 0)], np.int32)
        machine.type_items = np.array([*self._items, 0], np.int32)
        machine.tests = np.zeros(len(self._tests) * kinds + 1, np.uint8)
        for wanted, number in self._tests.items():
            for of, kind in (*KINDS_OF_TYPES.items(), *self.classes.items()):
                machine.tests[number * kinds + kind] = _passes_type_test(of, wanted)

    def _link_records(self, kinds: int) -> None:
        machine, types = self.machine, list[int]()
        machine.ranks = np.zeros(kinds, np.int32)
        machine.first_field = np.full(kinds, -1, np.int32)
        machine.offsets = np.full(len(self._names) * kinds, -1, np.int32)
        records = [of for of in self.classes if issubclass(of, Record)]
        for rank, of in enumerate(sorted(records, key=lambda of: (of.__qualname__, of.__module__))):
            machine.ranks[self.classes[of]] = rank
            machine.first_field[self.classes[of]] = len(types)
            types += map(self._type_or_none, field_types(of).values())
        for of in (*records, Step):
            for place, name in enumerate(field_names(of)):
                machine.offsets[self.name(name) * kinds + self.kind(of)] = place
        machine.field_types = np.array([*types, 0], np.int32)


def _require_plain_class(of: type) -> None:
    """Raise NoBytecodeError for a class whose instances are not just their fields, or its members."""
    own = [base for base in of.__mro__ if base.__module__ not in ("builtins", "enum")]
    is_simple = {base for base in of.__mro__ if base.__module__ == "builtins"} <= {object, int, str}
    is_plain = (is_enum(of) and is_simple) or (issubclass(of, Record) and of._is_plain)
    if not is_plain or any(name in vars(base) for base in own for name in _SPECIAL_METHODS):
        raise NoBytecodeError(f"a value of type {of.__name__}")


def _heap_node_items(value: Any) -> list[Any]:
    """Return the items of the node of a value, in order."""
    if isinstance(value, Map | dict):
        keys = list(value) if isinstance(value, dict) else _sorted_canonically(value)
        return [one for key in keys for one in (key, value[key])]
    if isinstance(value, Record):
        return [getattr(value, name) for name in field_names(type(value))]
    return _sorted_canonically(value) if isinstance(value, frozenset | set) else list(value)


def _passes_type_test(of: type, wanted: tuple[Any, ...]) -> bool:
    if wanted[0] == "exact":
        return of is wanted[1] if wanted[1] in KINDS_OF_TYPES else issubclass(of, wanted[1])
    if wanted[0] == "among":
        return of in wanted
    return issubclass(of, wanted)


def _sorted_canonically(values: Any) -> list[Any]:
    try:
        return sorted(values, key=order_key)
    except TypeError as error:
        raise NoBytecodeError(str(error)) from None

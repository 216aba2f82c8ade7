"""Values on the heap: allocation, equality, canonical order, unique permanent nodes, and types."""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.bytecode.kernel import codes
from kraftcheck.explorer.bytecode.kernel.codes import jit

HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_HASH_SHIFT = np.uint64(29)
STATE_NUMBER_ITEMS = 1  # items of a state after its columns: its number


@jit
def record_error(m: Any, error: Any) -> Any:
    """Record the first error of a run; return no value."""
    if m.at[codes.AT_ERROR] == 0:
        m.at[codes.AT_ERROR] = error
    return 0


@jit
def kind_of(m: Any, value: Any) -> Any:
    """Return the kind of a value."""
    return codes.INT_KIND if value & 1 else m.words[value >> 1]


@jit
def passes_kind_test(m: Any, test: Any, value: Any) -> Any:
    """Return whether the kind of a value passes a test."""
    return m.tests[test * m.at[codes.AT_KINDS] + kind_of(m, value)] != 0


@jit
def is_sequence_kind(kind: Any) -> Any:
    """Return whether a kind is a tuple or a list."""
    return kind == codes.TUPLE_KIND or kind == codes.LIST_KIND


@jit
def is_set_kind(kind: Any) -> Any:
    """Return whether a kind is a set or a frozenset."""
    return kind == codes.FROZENSET_KIND or kind == codes.SET_KIND


@jit
def is_mapping_kind(kind: Any) -> Any:
    """Return whether a kind is a map or a dict."""
    return kind == codes.MAP_KIND or kind == codes.DICT_KIND


@jit
def node_size(m: Any, value: Any) -> Any:
    """Return the number of items of a node."""
    return m.words[(value >> 1) + 1]


@jit
def node_item(m: Any, value: Any, place: Any) -> Any:
    """Return an item of a node."""
    return np.int64(m.words[(value >> 1) + codes.NODE_HEAD_WORDS + place])


@jit
def box_bool(value: Any) -> Any:
    """Return a bool as a value."""
    return codes.TRUE_VALUE if value else codes.FALSE_VALUE


@jit
def box_integer(m: Any, found: Any) -> Any:
    """Return an integer as a value."""
    if -(1 << 29) < found < (1 << 29):
        return (found << 1) | 1
    return record_error(m, codes.UNSUPPORTED_ERROR)


@jit
def allocate_node(m: Any, kind: Any, size: Any) -> Any:
    """Return the address of a new temporary node; 0 if there is no room."""
    place = m.at[codes.AT_SCRATCH_TOP]
    if size < 0 or place + size + codes.NODE_HEAD_WORDS > codes.SCRATCH_WORDS:
        return record_error(m, codes.SCRATCH_FULL_ERROR)
    m.at[codes.AT_SCRATCH_TOP] = place + size + codes.NODE_HEAD_WORDS
    m.words[place] = kind
    m.words[place + 1] = size
    return place


@jit
def is_truthy(m: Any, value: Any) -> Any:
    """Return whether Python takes a value for true."""
    if value & 1:
        return value != 1
    if value == 0:
        record_error(m, codes.UNSUPPORTED_ERROR)
        return False
    group = m.groups[m.words[value >> 1]]
    if group <= codes.ENUM_GROUP:
        return m.words[(value >> 1) + codes.NODE_HEAD_WORDS + 1] != 0
    if m.words[value >> 1] == codes.STATE_RECORD_KIND or group > codes.MUTABLE_GROUP:
        record_error(m, codes.UNSUPPORTED_ERROR)
        return False
    return group == codes.RECORD_GROUP or node_size(m, value) > 0


@jit
def may_equal_across_kinds(m: Any, kind: Any, other: Any) -> Any:
    """Return whether Python may take values of two different kinds for equal."""
    return kind != other and m.like[kind] & m.like[other] != 0


@jit
def are_equal(m: Any, one: Any, other: Any) -> Any:
    """Return whether two values are equal. Those of different kinds that Python may take for equal are an error.

    Equal permanent records are one node, since a field's type has no two kinds that Python may take for equal.
    """
    if one == other:
        return True
    if one & 1 and other & 1:
        return False
    kind, others = kind_of(m, one), kind_of(m, other)
    if may_equal_across_kinds(m, kind, others) or one == 0 or other == 0:
        record_error(m, codes.UNSUPPORTED_ERROR)
    a, b = one >> 1, other >> 1
    if (
        codes.CLASS_KIND in (kind, others)
        or m.groups[kind] <= codes.ENUM_GROUP
        or m.groups[others] <= codes.ENUM_GROUP
        or (kind == others and min(a, b) >= codes.SCRATCH_WORDS and m.groups[kind] == codes.RECORD_GROUP)
    ):
        return False
    size = m.words[a + 1]
    if (kind != others and not (is_set_kind(kind) and is_set_kind(others))) or size != m.words[b + 1]:
        return False
    for place in range(codes.NODE_HEAD_WORDS, codes.NODE_HEAD_WORDS + size):
        if not are_equal(m, np.int64(m.words[a + place]), np.int64(m.words[b + place])):
            if kind == codes.DICT_KIND:
                record_error(m, codes.UNSUPPORTED_ERROR)  # two dicts may differ in their order alone
            return False
    return True


@jit
def is_hashable(m: Any, value: Any) -> Any:
    """Return whether Python can hash a value: it is no list, set or dict, and has none within; constants pass."""
    if value & 1 or m.groups[kind_of(m, value)] >= codes.MUTABLE_GROUP:
        return value & 1 != 0
    address = value >> 1
    if address < codes.SCRATCH_WORDS and m.groups[m.words[address]] > codes.ENUM_GROUP:
        for place in range(codes.NODE_HEAD_WORDS, codes.NODE_HEAD_WORDS + m.words[address + 1]):
            if not is_hashable(m, np.int64(m.words[address + place])):
                return False
    return True


@jit
def compare_canonically(m: Any, one: Any, other: Any) -> Any:
    """Return -1, 0 or 1: the canonical order of two immutable values."""
    if one == other:
        return 0
    if one & 1 and other & 1:
        return -1 if one < other else 1
    kind, others = kind_of(m, one), kind_of(m, other)
    group, another = m.groups[kind], m.groups[others]
    if group >= codes.MUTABLE_GROUP or another >= codes.MUTABLE_GROUP or may_equal_across_kinds(m, kind, others):
        record_error(m, codes.UNSUPPORTED_ERROR)
        return 0
    if group != another:
        return -1 if group < another else 1
    a, b = one >> 1, other >> 1
    if group <= codes.ENUM_GROUP:
        return -1 if m.words[a + codes.NODE_HEAD_WORDS] < m.words[b + codes.NODE_HEAD_WORDS] else 1
    if group == codes.RECORD_GROUP:
        if kind != others:
            return -1 if m.ranks[kind] < m.ranks[others] else 1
    elif m.words[a + 1] != m.words[b + 1]:
        return -1 if m.words[a + 1] < m.words[b + 1] else 1
    for place in range(codes.NODE_HEAD_WORDS, codes.NODE_HEAD_WORDS + m.words[a + 1]):
        found = compare_canonically(m, np.int64(m.words[a + place]), np.int64(m.words[b + place]))
        if found != 0:
            return found
    return 0


@jit
def is_less_in_python(m: Any, one: Any, other: Any) -> Any:
    """Return whether `one < other` in Python, of numbers, bools, strings and sequences."""
    if one & 1 and other & 1:
        return one < other
    kind, others = kind_of(m, one), kind_of(m, other)
    if kind != others or not (is_sequence_kind(kind) or kind == codes.STR_KIND or kind == codes.BOOL_KIND):
        record_error(m, codes.UNSUPPORTED_ERROR)
        return False
    a, b = one >> 1, other >> 1
    if not is_sequence_kind(kind):
        return m.words[a + codes.NODE_HEAD_WORDS] < m.words[b + codes.NODE_HEAD_WORDS]
    size, others_size = m.words[a + 1], m.words[b + 1]
    for place in range(codes.NODE_HEAD_WORDS, codes.NODE_HEAD_WORDS + min(size, others_size)):
        mine, theirs = np.int64(m.words[a + place]), np.int64(m.words[b + place])
        if not are_equal(m, mine, theirs):
            return is_less_in_python(m, mine, theirs)
    return size < others_size


@jit
def make_set_from_stack(m: Any, kind: Any, first: Any, count: Any) -> Any:
    """Return the set of some values on the stack, which are sorted in place."""
    kept = 0
    for number_of in range(count):
        value = m.stack[first + number_of]
        if not is_hashable(m, value):
            return record_error(m, codes.UNSUPPORTED_ERROR)
        place, is_known = kept, False
        while place > 0:
            order = compare_canonically(m, m.stack[first + place - 1], value)
            if order < 0:
                break
            if order == 0:
                is_known = True
                break
            place -= 1
        if not is_known:
            for later in range(kept, place, -1):
                m.stack[first + later] = m.stack[first + later - 1]
            m.stack[first + place] = value
            kept += 1
    return make_node_from_stack(m, kind, first, kept)


@jit
def make_map_from_stack(m: Any, kind: Any, first: Any, count: Any) -> Any:
    """Return the map, or dict, of keys and values on the stack in turn; the last value of a key counts."""
    kept = 0
    for number_of in range(0, count, 2):
        key, value = m.stack[first + number_of], m.stack[first + number_of + 1]
        if not is_hashable(m, key):
            return record_error(m, codes.UNSUPPORTED_ERROR)
        place, is_known = kept, False
        while place > 0:
            order = compare_canonically(m, m.stack[first + place - 2], key)
            if order == 0:
                is_known = True
                m.stack[first + place - 1] = value
                break
            if order < 0 and kind == codes.MAP_KIND:
                break
            place -= 2
        if not is_known:
            if kind == codes.DICT_KIND:
                place = kept  # in order of insertion
            for later in range(kept + 1, place + 1, -1):
                m.stack[first + later] = m.stack[first + later - 2]
            m.stack[first + place] = key
            m.stack[first + place + 1] = value
            kept += 2
    return make_node_from_stack(m, kind, first, kept)


@jit
def make_node_from_stack(m: Any, kind: Any, first: Any, count: Any) -> Any:
    """Return a temporary node with values of the stack."""
    if count == 0 and kind == codes.TUPLE_KIND:
        return codes.EMPTY_TUPLE
    address = allocate_node(m, kind, count)
    if address == 0:
        return 0
    for place in range(count):
        m.words[address + codes.NODE_HEAD_WORDS + place] = m.stack[first + place]
    return address << 1


# Permanent nodes


@jit
def node_hash(m: Any, address: Any, size: Any) -> Any:
    """Return the hash of a node with permanent items."""
    found = np.uint64(m.words[address]) * HASH_FACTOR + np.uint64(size)
    for place in range(codes.NODE_HEAD_WORDS, codes.NODE_HEAD_WORDS + size):
        found = (found ^ np.uint64(np.uint32(m.words[address + place]))) * HASH_FACTOR
        found ^= found >> _HASH_SHIFT
    return found


@jit
def identifying_item_count(m: Any, address: Any) -> Any:
    """Return the number of items that identify a node: all but the number of a state."""
    size = m.words[address + 1]
    return size - STATE_NUMBER_ITEMS if m.words[address] == codes.STATE_RECORD_KIND else size


@jit
def intern_node(m: Any, address: Any) -> Any:
    """Return the permanent node equal to a temporary one with permanent items: a known one, or a copy."""
    words, table = m.words, m.table
    size = identifying_item_count(m, address)
    mask = np.uint64(table.shape[0] - 1)
    slot = node_hash(m, address, size) & mask
    while table[slot] != 0:
        known = np.int64(table[slot])
        if words[known] == words[address] and words[known + 1] == words[address + 1]:
            place = codes.NODE_HEAD_WORDS
            while place < codes.NODE_HEAD_WORDS + size and words[known + place] == words[address + place]:
                place += 1
            if place == codes.NODE_HEAD_WORDS + size:
                return known
        slot = (slot + np.uint64(1)) & mask
    whole = words[address + 1] + codes.NODE_HEAD_WORDS
    top = m.at[codes.AT_PERMANENT_TOP]
    if top + whole > words.shape[0] or 4 * (m.at[codes.AT_NODES] + 1) > 3 * table.shape[0]:
        return record_error(m, codes.PERMANENT_FULL_ERROR)
    for place in range(whole):
        words[top + place] = words[address + place]
    table[slot] = top
    m.at[codes.AT_PERMANENT_TOP] = top + whole
    m.at[codes.AT_NODES] += 1
    return top


@jit
def rehash_nodes(m: Any) -> Any:
    """Fill an empty table with all permanent nodes."""
    address = np.int64(codes.SCRATCH_WORDS)
    mask = np.uint64(m.table.shape[0] - 1)
    while address < m.at[codes.AT_PERMANENT_TOP]:
        slot = node_hash(m, address, identifying_item_count(m, address)) & mask
        while m.table[slot] != 0:
            slot = (slot + np.uint64(1)) & mask
        m.table[slot] = address
        address += m.words[address + 1] + codes.NODE_HEAD_WORDS


@jit
def intern_value(m: Any, value: Any) -> Any:
    """Return the permanent value equal to a value; an error if it is mutable, or a field has a wrong type.

    In a question to Python, lists, sets and dicts are copied.
    """
    if value & 1 or value >> 1 >= codes.SCRATCH_WORDS:
        return value
    address = value >> 1
    kind = m.words[address]
    is_collection = kind == codes.LIST_KIND or kind == codes.SET_KIND or kind == codes.DICT_KIND
    is_asked = is_collection and m.at[codes.AT_IS_ASKING] != 0
    if address == 0 or (m.groups[kind] >= codes.MUTABLE_GROUP and not is_asked):
        return record_error(m, codes.UNSUPPORTED_ERROR)
    size = m.words[address + 1]
    for place in range(codes.NODE_HEAD_WORDS, codes.NODE_HEAD_WORDS + size):
        m.words[address + place] = intern_value(m, np.int64(m.words[address + place]))
    if m.at[codes.AT_ERROR] != 0:
        return 0
    first = m.first_field[kind]
    if first >= 0:
        for place in range(size):
            if not matches_type(m, m.field_types[first + place], node_item(m, value, place)):
                return record_error(m, codes.UNSUPPORTED_ERROR)
    return intern_node(m, address) << 1


@jit
def matches_type(m: Any, kind: Any, value: Any) -> Any:
    """Return whether a permanent value matches a type; records have matched theirs when they were kept."""
    operation, first, count = m.types[kind, 0], m.types[kind, 1], m.types[kind, 2]
    found = kind_of(m, value)
    if operation == codes.TYPE_ANY:
        return True
    if operation == codes.TYPE_KINDS:
        return passes_kind_test(m, first, value)
    if operation == codes.TYPE_UNION or operation == codes.TYPE_LITERAL:
        for place in range(first, first + count):
            item = m.type_items[place]
            if item == value if operation == codes.TYPE_LITERAL else matches_type(m, item, value):
                return True
        return False
    key = (np.int64(value) << 32) | kind
    slot = (np.uint64(key) * HASH_FACTOR) >> np.uint64(64 - codes.MATCH_MEMO_BITS)
    if m.matched[slot] == key:
        return True
    wanted = codes.FROZENSET_KIND if operation == codes.TYPE_SET else codes.TUPLE_KIND
    if found != (codes.MAP_KIND if operation == codes.TYPE_MAP else wanted):
        return False
    size = node_size(m, value)
    if operation == codes.TYPE_PRODUCT and size != count:
        return False
    for place in range(size):
        own = first
        if operation == codes.TYPE_PRODUCT:
            own = m.type_items[first + place]
        elif operation == codes.TYPE_MAP and place & 1:
            own = count
        if not matches_type(m, own, node_item(m, value, place)):
            return False
    m.matched[slot] = key
    return True

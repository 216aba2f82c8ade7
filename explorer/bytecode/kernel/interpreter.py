"""The interpreter: it runs one function of the program on the values in the first registers."""

# ruff: noqa: SIM109, SIM110 - Numba compiles comparisons and loops better than membership tests and generators
from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.bytecode.kernel import codes, heap
from kraftcheck.explorer.bytecode.kernel.codes import Op, jit

# Numba reads module globals as constants, but not members of an enum.
OP_MOVE, OP_CONST, OP_JUMP, OP_IF, OP_UNLESS, OP_CALL, OP_RETURN, OP_MARK, OP_PUSH, OP_PUSH_ALL = range(10)
OP_COLLECT, OP_ITERATE, OP_NEXT, OP_FIELD, OP_BUT, OP_INDEX, OP_SLICE, OP_LEN, OP_NOT, OP_NEGATE = range(10, 20)
OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_MOD, OP_AND, OP_OR, OP_XOR = range(20, 28)
OP_EQ, OP_NE, OP_LT, OP_LE, OP_GT, OP_GE, OP_IN, OP_NOT_IN, OP_IS, OP_IS_NOT, OP_TEST = range(28, 39)
OP_ORDERED, OP_SORTED, OP_SORTED_PAIRS, OP_SUM, OP_MIN, OP_MAX, OP_RANGE, OP_ZIP, OP_REVERSED = range(39, 48)
OP_KEYS, OP_VALUES, OP_ITEMS, OP_GET, OP_PUT, OP_WITHOUT, OP_CONVERT, OP_ASK, OP_EXTEND = range(48, 57)
OP_UNPACK, OP_IMMUTABLE, OP_UNSET, OP_TEST_BY, OP_SEEN, OP_REQUIRE = range(57, 63)
assert [op.value for op in (Op.NEXT, Op.XOR, Op.TEST, Op.REVERSED, Op.REQUIRE)] == [12, 27, 38, 47, 62]


@jit
def push_value(m: Any, value: Any) -> Any:
    """Push a value on the stack."""
    height = m.at[codes.AT_STACK_HEIGHT]
    if height >= codes.MOST_STACK_VALUES:
        return heap.record_error(m, codes.SCRATCH_FULL_ERROR)
    m.stack[height] = value
    m.at[codes.AT_STACK_HEIGHT] = height + 1
    return 0


@jit
def items_per_element(m: Any, value: Any) -> Any:
    """Return the items of each element of a collection: two in a map, one in others; 0 for no collection."""
    kind = heap.kind_of(m, value)
    if heap.is_sequence_kind(kind) or heap.is_set_kind(kind):
        return 1
    if heap.is_mapping_kind(kind):
        return 2
    heap.record_error(m, codes.UNSUPPORTED_ERROR)
    return 0


@jit
def push_elements(m: Any, value: Any) -> Any:
    """Push the elements of a collection; the keys of a map."""
    stride = items_per_element(m, value)
    if stride:
        for place in range(0, heap.node_size(m, value), stride):
            push_value(m, heap.node_item(m, value, place))
    return 0


@jit
def build_value_from_stack(m: Any, kind: Any, mark: Any) -> Any:
    """Return a value of a kind with the values on the stack above a mark."""
    count = m.at[codes.AT_STACK_HEIGHT] - mark
    m.at[codes.AT_STACK_HEIGHT] = mark
    if m.at[codes.AT_ERROR] != 0:
        return 0
    if heap.is_set_kind(kind):
        return heap.make_set_from_stack(m, kind, mark, count)
    if heap.is_mapping_kind(kind):
        return heap.make_map_from_stack(m, kind, mark, count)
    return heap.make_node_from_stack(m, kind, mark, count)


@jit
def find_element(m: Any, value: Any, key: Any) -> Any:
    """Return the place of an element or a key in a collection; -1 if it is not there."""
    stride, kind = items_per_element(m, value), heap.kind_of(m, value)
    is_set_in_set = heap.is_set_kind(kind) and heap.kind_of(m, key) == codes.SET_KIND  # Python makes it a frozenset
    if stride and not heap.is_sequence_kind(kind) and not is_set_in_set and not heap.is_hashable(m, key):
        heap.record_error(m, codes.UNSUPPORTED_ERROR)
    if stride:
        # An identical element is equal. In a set or a map, no element before it can be.
        for place in range(0, heap.node_size(m, value), stride):
            if heap.node_item(m, value, place) == key:
                return place
        for place in range(0, heap.node_size(m, value), stride):
            if heap.are_equal(m, heap.node_item(m, value, place), key):
                return place
    return -1


@jit
def field_number(m: Any, value: Any, name: Any) -> Any:
    """Return the number of a field of a record; -1 with an error if it has none of this name."""
    found = np.int32(-1)
    if not value & 1:
        found = m.offsets[name * m.at[codes.AT_KINDS] + m.words[value >> 1]]
    if found < 0:
        heap.record_error(m, codes.UNSUPPORTED_ERROR)
    return found


@jit
def copy_with_item(m: Any, value: Any, place: Any, changed: Any) -> Any:
    """Return a copy of a node with one item changed."""
    size, address = heap.node_size(m, value), value >> 1
    made = heap.allocate_node(m, m.words[address], size)
    if made == 0:
        return 0
    for other in range(codes.NODE_HEAD_WORDS, codes.NODE_HEAD_WORDS + size):
        m.words[made + other] = m.words[address + other]
    m.words[made + codes.NODE_HEAD_WORDS + place] = changed
    return made << 1


@jit
def subscript(m: Any, value: Any, key: Any) -> Any:
    """Return `value[key]`."""
    kind = heap.kind_of(m, value)
    if heap.is_mapping_kind(kind):
        place = find_element(m, value, key)
        return heap.node_item(m, value, place + 1) if place >= 0 else heap.record_error(m, codes.UNSUPPORTED_ERROR)
    if not heap.is_sequence_kind(kind) or not key & 1:
        return heap.record_error(m, codes.UNSUPPORTED_ERROR)
    place, size = key >> 1, heap.node_size(m, value)
    if place < 0:
        place += size
    return heap.node_item(m, value, place) if 0 <= place < size else heap.record_error(m, codes.UNSUPPORTED_ERROR)


@jit
def slice_bound(m: Any, value: Any, size: Any, default: Any) -> Any:
    """Return a bound of a slice, within a sequence of `size` elements."""
    if value == codes.NONE_VALUE:
        return default
    if not value & 1:
        heap.record_error(m, codes.UNSUPPORTED_ERROR)
        return default
    place = value >> 1
    if place < 0:
        place = max(place + size, 0)
    return min(place, size)


@jit
def slice_sequence(m: Any, value: Any, first: Any, last: Any) -> Any:
    """Return `value[first:last]`."""
    kind = heap.kind_of(m, value)
    if not heap.is_sequence_kind(kind):
        return heap.record_error(m, codes.UNSUPPORTED_ERROR)
    size, mark = heap.node_size(m, value), m.at[codes.AT_STACK_HEIGHT]
    for place in range(slice_bound(m, first, size, 0), slice_bound(m, last, size, size)):
        push_value(m, heap.node_item(m, value, place))
    return build_value_from_stack(m, kind, mark)


@jit
def coerce_to_integer_or_zero(value: Any) -> Any:
    """Return a number unchanged, a bool as a number, and 0 for any other value. The lowest bit marks a number."""
    if value == codes.TRUE_VALUE or value == codes.FALSE_VALUE:
        return np.int64(3 if value == codes.TRUE_VALUE else 1)
    return np.int64(value if value & 1 else 0)


@jit
def add_values(m: Any, one: Any, other: Any) -> Any:
    """Return `one + other`."""
    if one & 1 and other & 1:
        return heap.box_integer(m, (one >> 1) + (other >> 1))
    kind, mark = heap.kind_of(m, one), m.at[codes.AT_STACK_HEIGHT]
    if not heap.is_sequence_kind(kind) or kind != heap.kind_of(m, other):
        a, b = coerce_to_integer_or_zero(one), coerce_to_integer_or_zero(other)
        return heap.box_integer(m, (a >> 1) + (b >> 1)) if a & b & 1 else heap.record_error(m, codes.UNSUPPORTED_ERROR)
    push_elements(m, one)
    push_elements(m, other)
    return build_value_from_stack(m, kind, mark)


@jit
def subtract_values(m: Any, one: Any, other: Any) -> Any:
    """Return `one - other`."""
    if one & 1 and other & 1:
        return heap.box_integer(m, (one >> 1) - (other >> 1))
    kind, mark = heap.kind_of(m, one), m.at[codes.AT_STACK_HEIGHT]
    if not heap.is_set_kind(kind) or not heap.is_set_kind(heap.kind_of(m, other)):
        a, b = coerce_to_integer_or_zero(one), coerce_to_integer_or_zero(other)
        return heap.box_integer(m, (a >> 1) - (b >> 1)) if a & b & 1 else heap.record_error(m, codes.UNSUPPORTED_ERROR)
    for place in range(heap.node_size(m, one)):
        if find_element(m, other, heap.node_item(m, one, place)) < 0:
            push_value(m, heap.node_item(m, one, place))
    return build_value_from_presorted_stack(m, kind, mark)


@jit
def build_value_from_presorted_stack(m: Any, kind: Any, mark: Any) -> Any:
    """Return a value of a kind with the values on the stack above a mark, which are in the order that it keeps."""
    count = m.at[codes.AT_STACK_HEIGHT] - mark
    m.at[codes.AT_STACK_HEIGHT] = mark
    return heap.make_node_from_stack(m, kind, mark, count)


@jit
def multiply_or_divide(m: Any, operation: Any, one: Any, other: Any) -> Any:
    """Return a product, a floored quotient or a remainder."""
    if operation == OP_MUL and other & 1 and heap.is_sequence_kind(heap.kind_of(m, one)):
        mark = m.at[codes.AT_STACK_HEIGHT]
        for _ in range(other >> 1):
            push_elements(m, one)
        return build_value_from_stack(m, heap.kind_of(m, one), mark)
    one, other = coerce_to_integer_or_zero(one), coerce_to_integer_or_zero(other)
    if not one & other & 1:
        return heap.record_error(m, codes.UNSUPPORTED_ERROR)
    a, b = one >> 1, other >> 1
    if operation == OP_MUL:
        return heap.box_integer(m, a * b)
    if b == 0:
        return heap.record_error(m, codes.UNSUPPORTED_ERROR)
    return heap.box_integer(m, a // b if operation == OP_DIV else a % b)


@jit
def bitwise_or_collection_operation(m: Any, operation: Any, one: Any, other: Any) -> Any:
    """Return `one & other`, `one | other` or `one ^ other`: of integers, bools, sets or maps."""
    if one & 1 and other & 1:  # the lowest bit marks an integer
        return one & other if operation == OP_AND else one | other if operation == OP_OR else one ^ other | 1
    kind, others, mark = heap.kind_of(m, one), heap.kind_of(m, other), m.at[codes.AT_STACK_HEIGHT]
    if kind == codes.BOOL_KIND and others == codes.BOOL_KIND:
        if operation == OP_XOR:
            return heap.box_bool(one != other)
        return one if (one == codes.TRUE_VALUE) == (operation == OP_OR) else other
    if heap.is_set_kind(kind) and heap.is_set_kind(others):
        return set_operation(m, operation, one, other)
    are_unlike = kind == codes.DICT_KIND and others == codes.MAP_KIND
    if operation != OP_OR or not heap.is_mapping_kind(kind) or not heap.is_mapping_kind(others) or are_unlike:
        return heap.record_error(m, codes.UNSUPPORTED_ERROR)
    push_keys_and_values(m, one)
    push_keys_and_values(m, other)
    return build_value_from_stack(m, kind, mark)


@jit
def set_operation(m: Any, operation: Any, one: Any, other: Any) -> Any:
    """Return an intersection, a union or a symmetric difference."""
    kind, mark = heap.kind_of(m, one), m.at[codes.AT_STACK_HEIGHT]
    for place in range(heap.node_size(m, one)):
        if operation == OP_OR or (find_element(m, other, heap.node_item(m, one, place)) >= 0) == (operation == OP_AND):
            push_value(m, heap.node_item(m, one, place))
    if operation == OP_AND:
        return build_value_from_presorted_stack(m, kind, mark)
    for place in range(heap.node_size(m, other)):
        if operation == OP_OR or find_element(m, one, heap.node_item(m, other, place)) < 0:
            push_value(m, heap.node_item(m, other, place))
    return build_value_from_stack(m, kind, mark)


@jit
def push_keys_and_values(m: Any, value: Any) -> Any:
    """Push the keys and values of a map in turn."""
    for place in range(heap.node_size(m, value)):
        push_value(m, heap.node_item(m, value, place))
    return 0


@jit
def is_subset(m: Any, one: Any, other: Any) -> Any:
    """Return whether a set is a subset of another."""
    for place in range(heap.node_size(m, one)):
        if find_element(m, other, heap.node_item(m, one, place)) < 0:
            return False
    return True


@jit
def python_order_comparison(m: Any, operation: Any, one: Any, other: Any) -> Any:
    """Return a comparison by `<`, `<=`, `>` or `>=`."""
    if heap.is_set_kind(heap.kind_of(m, one)) and heap.is_set_kind(heap.kind_of(m, other)):
        small, large = (one, other) if operation == OP_LT or operation == OP_LE else (other, one)
        may_be_equal = operation == OP_LE or operation == OP_GE
        is_larger = may_be_equal or heap.node_size(m, small) < heap.node_size(m, large)
        return heap.box_bool(is_subset(m, small, large) and is_larger)
    if operation == OP_LT or operation == OP_GE:
        return heap.box_bool(heap.is_less_in_python(m, one, other) == (operation == OP_LT))
    return heap.box_bool(heap.is_less_in_python(m, other, one) == (operation == OP_GT))


@jit
def is_singleton(m: Any, value: Any) -> Any:
    """Return whether a value is None, a bool, a model value or an enum member. Each is a single object."""
    return not value & 1 and m.groups[m.words[value >> 1]] <= codes.ENUM_GROUP and m.words[value >> 1] != codes.STR_KIND


@jit
def sorts_after(m: Any, operation: Any, one: Any, other: Any) -> Any:
    """Return whether a value comes after another in canonical order, as Python sorts, or as pairs by their first."""
    if operation == OP_ORDERED:
        return heap.compare_canonically(m, one, other) > 0
    if operation == OP_SORTED:
        return heap.is_less_in_python(m, other, one)
    return heap.is_less_in_python(m, heap.node_item(m, other, 0), heap.node_item(m, one, 0))


@jit
def sorted_list(m: Any, value: Any, operation: Any) -> Any:
    """Return the list of the elements of a collection, sorted in a stable way; of pairs, the second elements."""
    mark = m.at[codes.AT_STACK_HEIGHT]
    push_elements(m, value)
    if m.at[codes.AT_STACK_HEIGHT] == mark + 1 and operation == OP_ORDERED and not heap.is_hashable(m, m.stack[mark]):
        heap.record_error(m, codes.UNSUPPORTED_ERROR)  # nothing is compared, and yet it must be a value
    for last in range(mark + 1, m.at[codes.AT_STACK_HEIGHT]):
        value, place = m.stack[last], last
        while place > mark:
            before = m.stack[place - 1]
            if not sorts_after(m, operation, before, value):
                break
            m.stack[place] = before
            place -= 1
        m.stack[place] = value
    if operation == OP_SORTED_PAIRS:
        for place in range(mark, m.at[codes.AT_STACK_HEIGHT]):
            m.stack[place] = heap.node_item(m, m.stack[place], 1)
    return build_value_from_stack(m, codes.LIST_KIND, mark)


@jit
def sum_numbers(m: Any, value: Any) -> Any:
    """Return the sum of a collection of numbers and bools."""
    found, stride = 0, items_per_element(m, value)
    if stride:
        for place in range(0, heap.node_size(m, value), stride):
            one = heap.node_item(m, value, place)
            if one & 1:
                found += one >> 1
            elif one == codes.TRUE_VALUE:
                found += 1
            elif one != codes.FALSE_VALUE:
                heap.record_error(m, codes.UNSUPPORTED_ERROR)
    return heap.box_integer(m, found)


@jit
def min_or_max(m: Any, value: Any, is_least: Any) -> Any:
    """Return the least or the greatest element of a collection; the first among equal ones."""
    stride = items_per_element(m, value)
    if stride == 0 or heap.node_size(m, value) == 0:
        return heap.record_error(m, codes.UNSUPPORTED_ERROR)
    best = heap.node_item(m, value, 0)
    for place in range(stride, heap.node_size(m, value), stride):
        one = heap.node_item(m, value, place)
        if heap.is_less_in_python(m, one, best) if is_least else heap.is_less_in_python(m, best, one):
            best = one
    return best


@jit
def range_list(m: Any, first: Any, last: Any, step: Any) -> Any:
    """Return a range as a list."""
    mark = m.at[codes.AT_STACK_HEIGHT]
    if not (first & 1 and last & 1 and step & 1) or step == 1:
        return heap.record_error(m, codes.UNSUPPORTED_ERROR)
    one, end, by = first >> 1, last >> 1, step >> 1
    while (one < end if by > 0 else one > end) and m.at[codes.AT_ERROR] == 0:
        push_value(m, (one << 1) | 1)
        one += by
    return build_value_from_stack(m, codes.LIST_KIND, mark)


@jit
def map_view_list(m: Any, value: Any, kind: Any) -> Any:
    """Return the keys, the values or the items of a map, as a list."""
    mark, stride = m.at[codes.AT_STACK_HEIGHT], items_per_element(m, value)
    if stride != 2:
        return heap.record_error(m, codes.UNSUPPORTED_ERROR)
    for place in range(0, heap.node_size(m, value), 2):
        if kind == OP_ITEMS:
            address = heap.allocate_node(m, codes.TUPLE_KIND, 2)
            if address == 0:
                return 0
            m.words[address + codes.NODE_HEAD_WORDS] = heap.node_item(m, value, place)
            m.words[address + codes.NODE_HEAD_WORDS + 1] = heap.node_item(m, value, place + 1)
            push_value(m, address << 1)
        else:
            push_value(m, heap.node_item(m, value, place if kind == OP_KEYS else place + 1))
    return build_value_from_stack(m, codes.LIST_KIND, mark)


@jit
def zip_list(m: Any, registers: Any, first: Any, count: Any) -> Any:
    """Return the list of tuples of the elements of some collections, as long as the shortest."""
    mark, shortest = m.at[codes.AT_STACK_HEIGHT], np.int64(codes.MOST_STACK_VALUES)
    for which in range(count):
        stride = items_per_element(m, registers[first + which])
        if stride == 0:
            return 0
        shortest = min(shortest, heap.node_size(m, registers[first + which]) // stride)
    for place in range(shortest):
        address = heap.allocate_node(m, codes.TUPLE_KIND, count)
        if address == 0:
            return 0
        for which in range(count):
            value = registers[first + which]
            item = heap.node_item(m, value, place * items_per_element(m, value))
            m.words[address + codes.NODE_HEAD_WORDS + which] = item
        push_value(m, address << 1)
    return build_value_from_stack(m, codes.LIST_KIND, mark)


@jit
def reversed_list(m: Any, value: Any) -> Any:
    """Return the list of the elements of a sequence in reverse."""
    mark = m.at[codes.AT_STACK_HEIGHT]
    if not heap.is_sequence_kind(heap.kind_of(m, value)):
        return heap.record_error(m, codes.UNSUPPORTED_ERROR)
    for place in range(heap.node_size(m, value) - 1, -1, -1):
        push_value(m, heap.node_item(m, value, place))
    return build_value_from_stack(m, codes.LIST_KIND, mark)


@jit
def map_get(m: Any, value: Any, key: Any, default: Any) -> Any:
    """Return `value.get(key, default)`."""
    if not heap.is_mapping_kind(heap.kind_of(m, value)):
        return heap.record_error(m, codes.UNSUPPORTED_ERROR)
    place = find_element(m, value, key)
    return heap.node_item(m, value, place + 1) if place >= 0 else default


@jit
def map_or_list_with_entry(m: Any, value: Any, key: Any, changed: Any) -> Any:
    """Return a map with a key mapped to a value, or a list with an element replaced."""
    kind, mark = heap.kind_of(m, value), m.at[codes.AT_STACK_HEIGHT]
    if kind == codes.LIST_KIND and key & 1:
        place, size = key >> 1, heap.node_size(m, value)
        if place < 0:
            place += size
        is_place = 0 <= place < size
        return copy_with_item(m, value, place, changed) if is_place else heap.record_error(m, codes.UNSUPPORTED_ERROR)
    if not heap.is_mapping_kind(kind):
        return heap.record_error(m, codes.UNSUPPORTED_ERROR)
    place = find_element(m, value, key)
    if place >= 0:
        return copy_with_item(m, value, place + 1, changed)
    push_keys_and_values(m, value)
    push_value(m, key)
    push_value(m, changed)
    return build_value_from_stack(m, kind, mark)


@jit
def without_element(m: Any, value: Any, key: Any) -> Any:
    """Return a map without a key, or a set without an element."""
    kind, mark, stride = heap.kind_of(m, value), m.at[codes.AT_STACK_HEIGHT], items_per_element(m, value)
    if stride == 0 or heap.is_sequence_kind(kind):
        return heap.record_error(m, codes.UNSUPPORTED_ERROR)
    missing = find_element(m, value, key)
    for place in range(heap.node_size(m, value)):
        if missing < 0 or place < missing or place >= missing + stride:
            push_value(m, heap.node_item(m, value, place))
    return build_value_from_presorted_stack(m, kind, mark)


@jit
def convert_collection(m: Any, value: Any, kind: Any) -> Any:
    """Return a collection as one of another kind; a map from a map or from pairs."""
    found, mark = heap.kind_of(m, value), m.at[codes.AT_STACK_HEIGHT]
    if found == kind and m.groups[kind] < codes.MUTABLE_GROUP:
        return value
    if not heap.is_mapping_kind(kind):
        push_elements(m, value)
        if heap.is_set_kind(found):
            return build_value_from_presorted_stack(m, kind, mark)
        return build_value_from_stack(m, kind, mark)
    if heap.is_mapping_kind(found):
        push_keys_and_values(m, value)
    elif items_per_element(m, value):
        for place in range(heap.node_size(m, value)):
            pair = heap.node_item(m, value, place)
            if not heap.is_sequence_kind(heap.kind_of(m, pair)) or heap.node_size(m, pair) != 2:
                return heap.record_error(m, codes.UNSUPPORTED_ERROR)
            push_value(m, heap.node_item(m, pair, 0))
            push_value(m, heap.node_item(m, pair, 1))
    return build_value_from_stack(m, kind, mark)


@jit
def lookup_python_result(m: Any, asked: Any) -> Any:
    """Return the answer of Python to a tuple of a function's number and its arguments."""
    m.at[codes.AT_IS_ASKING] = 1
    key = heap.intern_value(m, asked)
    m.at[codes.AT_IS_ASKING] = 0
    slot = (key * codes.ANSWER_FACTOR) & (m.answers.shape[0] - 1)
    while m.answers[slot, 0] != key:
        if m.answers[slot, 0] == 0:
            m.at[codes.AT_ASKED] = key
            return heap.record_error(m, codes.ASKED_ERROR)
        slot = (slot + 1) & (m.answers.shape[0] - 1)
    return m.answers[slot, 1]


@jit
def step_with_stack_values(m: Any, step: Any, place: Any, mark: Any) -> Any:
    """Return a step with the values on the stack above a mark added to a field."""
    if heap.kind_of(m, step) != codes.STEP_KIND:
        return heap.record_error(m, codes.UNSUPPORTED_ERROR)
    before, count = heap.node_item(m, step, place), m.at[codes.AT_STACK_HEIGHT] - mark
    address = heap.allocate_node(m, codes.TUPLE_KIND, heap.node_size(m, before) + count)
    m.at[codes.AT_STACK_HEIGHT] = mark
    if address == 0:
        return 0
    known = codes.NODE_HEAD_WORDS
    for one in range(heap.node_size(m, before)):
        item, is_kept = heap.node_item(m, before, one), True
        for other in range(count if place == codes.STEP_PUTS else 0):  # the last value of a field counts
            is_kept &= heap.node_item(m, item, 0) != heap.node_item(m, m.stack[mark + other], 0)
        if is_kept:
            m.words[address + known] = item
            known += 1
    for one in range(count):
        m.words[address + known + one] = m.stack[mark + one]
    m.words[address + 1] = known - codes.NODE_HEAD_WORDS + count
    return copy_with_item(m, step, place, address << 1)


@jit
def unpack_to_registers(m: Any, registers: Any, first: Any, value: Any, count: Any) -> Any:
    """Store the elements of a collection of exactly `count` elements in registers."""
    stride = items_per_element(m, value)
    if stride == 0 or heap.node_size(m, value) != count * stride:
        return heap.record_error(m, codes.UNSUPPORTED_ERROR)
    for place in range(count):
        registers[first + place] = heap.node_item(m, value, place * stride)
    return 0


@jit
def run_rare_operation(m: Any, operation: Any, registers: Any, base: Any, b: Any, c: Any, d: Any) -> Any:
    """Return the result of an operation that is rarer than those of `run_function`."""
    one = registers[base + b]
    if OP_ORDERED <= operation <= OP_SORTED_PAIRS:
        return sorted_list(m, one, operation)
    if operation == OP_SUM:
        return sum_numbers(m, one)
    if operation == OP_MIN or operation == OP_MAX:
        return min_or_max(m, one, operation == OP_MIN)
    if operation == OP_RANGE:
        return range_list(m, one, registers[base + c], registers[base + d])
    if operation == OP_ZIP:
        return zip_list(m, registers, base + b, c)
    if operation == OP_REVERSED:
        return reversed_list(m, one)
    if OP_KEYS <= operation <= OP_ITEMS:
        return map_view_list(m, one, operation)
    if operation == OP_GET:
        return map_get(m, one, registers[base + c], registers[base + d])
    if operation == OP_PUT:
        return map_or_list_with_entry(m, one, registers[base + c], registers[base + d])
    return run_rarest_operation(m, operation, registers, base, b, c, d)


@jit
def run_rarest_operation(m: Any, operation: Any, registers: Any, base: Any, b: Any, c: Any, d: Any) -> Any:
    """Return the result of an operation that `run_rare_operation` does not know."""
    one = registers[base + b]
    if operation == OP_WITHOUT:
        return without_element(m, one, registers[base + c])
    if operation == OP_CONVERT:
        return convert_collection(m, one, c)
    if operation == OP_ASK:
        return lookup_python_result(m, one)
    if operation == OP_EXTEND:
        return step_with_stack_values(m, one, c, registers[base + d])
    if operation == OP_SLICE:
        return slice_sequence(m, one, registers[base + c], registers[base + d])
    if operation == OP_LEN:
        stride = items_per_element(m, one)
        return heap.box_integer(m, heap.node_size(m, one) // stride) if stride else 0
    if operation == OP_NEGATE:
        return heap.box_integer(m, -(one >> 1)) if one & 1 else heap.record_error(m, codes.UNSUPPORTED_ERROR)
    if OP_MUL <= operation <= OP_MOD:
        return multiply_or_divide(m, operation, one, registers[base + c])
    if OP_AND <= operation <= OP_XOR:
        return bitwise_or_collection_operation(m, operation, one, registers[base + c])
    if OP_LT <= operation <= OP_GE:
        return python_order_comparison(m, operation, one, registers[base + c])
    return heap.record_error(m, codes.UNSUPPORTED_ERROR)


@jit
def run_function(m: Any, function: Any) -> Any:
    """Run a function on the values in the first registers; return its value, with `AT_ERROR` set if it failed."""
    code, registers, at = m.code, m.registers, m.at
    place, base, value, depth = np.int64(m.functions[function, 0]), np.int64(0), np.int64(0), 0
    room, fuel, line = np.int64(m.functions[function, 1]), np.int64(codes.INSTRUCTION_FUEL), place
    while at[codes.AT_ERROR] == 0:
        operation, a, b, c, d = code[place, 0], code[place, 1], code[place, 2], code[place, 3], code[place, 4]
        if m.passed[place] == 0:
            m.passed[place] = at[codes.AT_IS_FRESH] = 1
        line, place, fuel = place, place + 1, fuel - 1
        if fuel < 0:
            heap.record_error(m, codes.SCRATCH_FULL_ERROR)
        # Moves, jumps and calls
        if operation == OP_MOVE:
            registers[base + a] = registers[base + b]
        elif operation == OP_CONST:
            registers[base + a] = m.constants[b]
        elif operation == OP_JUMP:
            place = np.int64(a)
        elif operation == OP_IF:
            if heap.is_truthy(m, registers[base + a]):
                place = np.int64(b)
        elif operation == OP_UNLESS:
            if not heap.is_truthy(m, registers[base + a]):
                place = np.int64(b)
        elif operation == OP_CALL:
            callee = base + room
            if depth == codes.MOST_FRAMES or callee + m.functions[b, 1] > codes.MOST_REGISTERS:
                heap.record_error(m, codes.SCRATCH_FULL_ERROR)
            else:
                for number_of in range(d):
                    registers[callee + number_of] = registers[base + c + number_of]
                m.frames[depth, 0], m.frames[depth, 1], m.frames[depth, 2] = (place << 20) | room, base, a
                depth += 1
                base, place, room = callee, np.int64(m.functions[b, 0]), np.int64(m.functions[b, 1])
        elif operation == OP_RETURN:
            value = registers[base + a]
            if depth == 0:
                break
            depth -= 1
            place, room = m.frames[depth, 0] >> 20, m.frames[depth, 0] & ((1 << 20) - 1)
            base = m.frames[depth, 1]
            registers[base + m.frames[depth, 2]] = value
        # Building values
        elif operation == OP_MARK:
            registers[base + a] = at[codes.AT_STACK_HEIGHT]
        elif operation == OP_PUSH:
            push_value(m, registers[base + a])
        elif operation == OP_PUSH_ALL:
            push_elements(m, registers[base + a])
        elif operation == OP_COLLECT:
            registers[base + a] = build_value_from_stack(m, b, registers[base + c])
        # Loops
        elif operation == OP_ITERATE:
            items_per_element(m, registers[base + b])
            registers[base + a], registers[base + a + 1] = registers[base + b], 0
        elif operation == OP_NEXT:
            over, at_place = registers[base + b], registers[base + b + 1]
            stride = 2 if heap.is_mapping_kind(heap.kind_of(m, over)) else 1
            if at_place >= heap.node_size(m, over):
                place = np.int64(c)
            else:
                registers[base + a] = heap.node_item(m, over, at_place)
                registers[base + b + 1] = at_place + stride
        # Records and elements
        elif operation == OP_FIELD:
            which = field_number(m, registers[base + b], c)
            registers[base + a] = heap.node_item(m, registers[base + b], which) if which >= 0 else 0
        elif operation == OP_BUT:
            which = field_number(m, registers[base + b], c)
            if which >= 0:
                registers[base + a] = copy_with_item(m, registers[base + b], which, registers[base + d])
        elif operation == OP_INDEX:
            registers[base + a] = subscript(m, registers[base + b], registers[base + c])
        # Tests and sums
        elif operation == OP_NOT:
            registers[base + a] = heap.box_bool(not heap.is_truthy(m, registers[base + b]))
        elif operation == OP_ADD:
            registers[base + a] = add_values(m, registers[base + b], registers[base + c])
        elif operation == OP_SUB:
            registers[base + a] = subtract_values(m, registers[base + b], registers[base + c])
        elif operation == OP_EQ:
            registers[base + a] = heap.box_bool(heap.are_equal(m, registers[base + b], registers[base + c]))
        elif operation == OP_NE:
            registers[base + a] = heap.box_bool(not heap.are_equal(m, registers[base + b], registers[base + c]))
        elif operation == OP_IN:
            registers[base + a] = heap.box_bool(find_element(m, registers[base + c], registers[base + b]) >= 0)
        elif operation == OP_NOT_IN:
            registers[base + a] = heap.box_bool(find_element(m, registers[base + c], registers[base + b]) < 0)
        elif operation == OP_IS or operation == OP_IS_NOT:
            one, other = registers[base + b], registers[base + c]
            if not is_singleton(m, one) and not is_singleton(m, other):
                heap.record_error(m, codes.UNSUPPORTED_ERROR)
            registers[base + a] = heap.box_bool((one == other) == (operation == OP_IS))
        elif operation == OP_TEST:
            registers[base + a] = heap.box_bool(heap.passes_kind_test(m, c, registers[base + b]))
        elif operation == OP_TEST_BY:
            wanted = registers[base + c]
            if heap.kind_of(m, wanted) != codes.CLASS_KIND:
                heap.record_error(m, codes.UNSUPPORTED_ERROR)
            else:
                passes = heap.passes_kind_test(m, heap.node_item(m, wanted, 0), registers[base + b])
                registers[base + a] = heap.box_bool(passes)
        elif operation == OP_SEEN:
            m.seen[a] = 1
            registers[base + b] = codes.FALSE_VALUE
        elif operation == OP_REQUIRE:
            if registers[base + a] == 0:
                heap.record_error(m, codes.UNSUPPORTED_ERROR)
        elif operation == OP_UNSET:
            registers[base + a] = 0
        elif operation == OP_UNPACK:
            unpack_to_registers(m, registers, base + a, registers[base + b], c)
        elif operation == OP_IMMUTABLE:
            if m.groups[heap.kind_of(m, registers[base + a])] >= codes.MUTABLE_GROUP:
                heap.record_error(m, codes.UNSUPPORTED_ERROR)
        else:
            registers[base + a] = run_rare_operation(m, operation, registers, base, b, c, d)
    at[codes.AT_ERROR_LINE] = line
    return value if at[codes.AT_ERROR] == 0 else 0

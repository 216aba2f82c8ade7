"""The interpreter: it runs one function of the program on the values in the first registers."""

# ruff: noqa: SIM109, SIM110 - Numba compiles comparisons and loops better than membership tests and generators
from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.bytecode.kernel import codes
from kraftcheck.explorer.bytecode.kernel.codes import Op, jit
from kraftcheck.explorer.bytecode.kernel.heap import (
    allocate,
    compare,
    fail,
    is_true,
    item,
    kind_of,
    less,
    map_of,
    node_of,
    number,
    same,
    set_of,
    size_of,
    truth,
)

# Numba reads module globals as constants, but not members of an enum.
MOVE, CONST, JUMP, IF, UNLESS, CALL, RETURN, MARK, PUSH, PUSH_ALL, COLLECT, ITERATE, NEXT = range(13)
FIELD, BUT, INDEX, SLICE, LEN, NOT, NEGATE, ADD, SUB, MUL, DIV, MOD, AND, OR, XOR = range(13, 28)
EQ, NE, LT, LE, GT, GE, IN, NOT_IN, IS, IS_NOT, TEST = range(28, 39)
ORDERED, SORTED, SORTED_PAIRS, SUM, MIN, MAX, RANGE, ZIP, REVERSED = range(39, 48)
KEYS, VALUES, ITEMS, GET, PUT, WITHOUT, CONVERT, COMBINATIONS, EXTEND = range(48, 57)
UNPACK, IMMUTABLE, UNSET, TEST_BY, SEEN, REQUIRE = range(57, 63)
assert [op.value for op in (Op.NEXT, Op.XOR, Op.TEST, Op.REVERSED, Op.REQUIRE)] == [12, 27, 38, 47, 62]


@jit
def push(m: Any, value: Any) -> Any:
    """Push a value on the stack."""
    height = m.at[codes.AT_STACK_HEIGHT]
    if height >= codes.MOST_STACK_VALUES:
        return fail(m, codes.SCRATCH_FULL_ERROR)
    m.stack[height] = value
    m.at[codes.AT_STACK_HEIGHT] = height + 1
    return 0


@jit
def is_sequence(kind: Any) -> Any:
    """Return whether a kind is a tuple or a list."""
    return kind == codes.TUPLE_KIND or kind == codes.LIST_KIND


@jit
def is_set(kind: Any) -> Any:
    """Return whether a kind is a set or a frozenset."""
    return kind == codes.FROZENSET_KIND or kind == codes.SET_KIND


@jit
def is_mapping(kind: Any) -> Any:
    """Return whether a kind is a map or a dict."""
    return kind == codes.MAP_KIND or kind == codes.DICT_KIND


@jit
def stride_of(m: Any, value: Any) -> Any:
    """Return the items of each element of a collection: two in a map, one in others; 0 for no collection."""
    kind = kind_of(m, value)
    if is_sequence(kind) or is_set(kind):
        return 1
    if is_mapping(kind):
        return 2
    fail(m, codes.UNSUPPORTED_ERROR)
    return 0


@jit
def push_all(m: Any, value: Any) -> Any:
    """Push the elements of a collection; the keys of a map."""
    stride = stride_of(m, value)
    if stride:
        for place in range(0, size_of(m, value), stride):
            push(m, item(m, value, place))
    return 0


@jit
def collect(m: Any, kind: Any, mark: Any) -> Any:
    """Return a value of a kind with the values on the stack above a mark."""
    count = m.at[codes.AT_STACK_HEIGHT] - mark
    m.at[codes.AT_STACK_HEIGHT] = mark
    if m.at[codes.AT_ERROR] != 0:
        return 0
    if is_set(kind):
        return set_of(m, kind, mark, count)
    if is_mapping(kind):
        return map_of(m, kind, mark, count)
    return node_of(m, kind, mark, count)


@jit
def place_of(m: Any, value: Any, key: Any) -> Any:
    """Return the place of an element or a key in a collection; -1 if it is not there."""
    stride = stride_of(m, value)
    if stride:
        for place in range(0, size_of(m, value), stride):
            if same(m, item(m, value, place), key):
                return place
    return -1


@jit
def field(m: Any, value: Any, name: Any) -> Any:
    """Return the number of a field of a record; -1 with an error if it has none of this name."""
    found = np.int32(-1)
    if not value & 1:
        found = m.offsets[name * m.at[codes.AT_KINDS] + m.words[value >> 1]]
    if found < 0:
        fail(m, codes.UNSUPPORTED_ERROR)
    return found


@jit
def but(m: Any, value: Any, place: Any, changed: Any) -> Any:
    """Return a copy of a node with one item changed."""
    size, address = size_of(m, value), value >> 1
    made = allocate(m, m.words[address], size)
    if made == 0:
        return 0
    for other in range(codes.NODE_HEAD_WORDS, codes.NODE_HEAD_WORDS + size):
        m.words[made + other] = m.words[address + other]
    m.words[made + codes.NODE_HEAD_WORDS + place] = changed
    return made << 1


@jit
def index(m: Any, value: Any, key: Any) -> Any:
    """Return `value[key]`."""
    kind = kind_of(m, value)
    if is_mapping(kind):
        place = place_of(m, value, key)
        return item(m, value, place + 1) if place >= 0 else fail(m, codes.UNSUPPORTED_ERROR)
    if not is_sequence(kind) or not key & 1:
        return fail(m, codes.UNSUPPORTED_ERROR)
    place, size = key >> 1, size_of(m, value)
    if place < 0:
        place += size
    return item(m, value, place) if 0 <= place < size else fail(m, codes.UNSUPPORTED_ERROR)


@jit
def bound(m: Any, value: Any, size: Any, default: Any) -> Any:
    """Return a bound of a slice, within a sequence of `size` elements."""
    if value == codes.NONE_VALUE:
        return default
    if not value & 1:
        fail(m, codes.UNSUPPORTED_ERROR)
        return default
    place = value >> 1
    if place < 0:
        place = max(place + size, 0)
    return min(place, size)


@jit
def part(m: Any, value: Any, first: Any, last: Any) -> Any:
    """Return `value[first:last]`."""
    kind = kind_of(m, value)
    if not is_sequence(kind):
        return fail(m, codes.UNSUPPORTED_ERROR)
    size, mark = size_of(m, value), m.at[codes.AT_STACK_HEIGHT]
    for place in range(bound(m, first, size, 0), bound(m, last, size, size)):
        push(m, item(m, value, place))
    return collect(m, kind, mark)


@jit
def added(m: Any, one: Any, other: Any) -> Any:
    """Return `one + other`."""
    if one & 1 and other & 1:
        return number(m, (one >> 1) + (other >> 1))
    kind, mark = kind_of(m, one), m.at[codes.AT_STACK_HEIGHT]
    if not is_sequence(kind) or kind != kind_of(m, other):
        return fail(m, codes.UNSUPPORTED_ERROR)
    push_all(m, one)
    push_all(m, other)
    return collect(m, kind, mark)


@jit
def without(m: Any, one: Any, other: Any) -> Any:
    """Return `one - other`."""
    if one & 1 and other & 1:
        return number(m, (one >> 1) - (other >> 1))
    kind, mark = kind_of(m, one), m.at[codes.AT_STACK_HEIGHT]
    if not is_set(kind) or not is_set(kind_of(m, other)):
        return fail(m, codes.UNSUPPORTED_ERROR)
    for place in range(size_of(m, one)):
        if place_of(m, other, item(m, one, place)) < 0:
            push(m, item(m, one, place))
    return collect_sorted(m, kind, mark)


@jit
def collect_sorted(m: Any, kind: Any, mark: Any) -> Any:
    """Return a set with the values on the stack above a mark, which are in order."""
    count = m.at[codes.AT_STACK_HEIGHT] - mark
    m.at[codes.AT_STACK_HEIGHT] = mark
    return node_of(m, kind, mark, count)


@jit
def arithmetic(m: Any, operation: Any, one: Any, other: Any) -> Any:
    """Return a product, a floored quotient or a remainder."""
    if not (one & 1 and other & 1):
        return fail(m, codes.UNSUPPORTED_ERROR)
    a, b = one >> 1, other >> 1
    if operation == MUL:
        return number(m, a * b)
    if b == 0:
        return fail(m, codes.UNSUPPORTED_ERROR)
    return number(m, a // b if operation == DIV else a % b)


@jit
def logic(m: Any, operation: Any, one: Any, other: Any) -> Any:
    """Return `one & other`, `one | other` or `one ^ other`: of bools, sets or maps."""
    kind, others, mark = kind_of(m, one), kind_of(m, other), m.at[codes.AT_STACK_HEIGHT]
    if kind == codes.BOOL_KIND and others == codes.BOOL_KIND:
        if operation == XOR:
            return truth(one != other)
        return one if (one == codes.TRUE_VALUE) == (operation == OR) else other
    if is_set(kind) and is_set(others):
        return of_sets(m, operation, one, other)
    if (
        operation != OR
        or not is_mapping(kind)
        or not is_mapping(others)
        or (kind == codes.DICT_KIND and others == codes.MAP_KIND)
    ):
        return fail(m, codes.UNSUPPORTED_ERROR)
    push_pairs(m, one)
    push_pairs(m, other)
    return collect(m, kind, mark)


@jit
def of_sets(m: Any, operation: Any, one: Any, other: Any) -> Any:
    """Return an intersection, a union or a symmetric difference."""
    kind, mark = kind_of(m, one), m.at[codes.AT_STACK_HEIGHT]
    for place in range(size_of(m, one)):
        if operation == OR or (place_of(m, other, item(m, one, place)) >= 0) == (operation == AND):
            push(m, item(m, one, place))
    if operation == AND:
        return collect_sorted(m, kind, mark)
    for place in range(size_of(m, other)):
        if operation == OR or place_of(m, one, item(m, other, place)) < 0:
            push(m, item(m, other, place))
    return collect(m, kind, mark)


@jit
def push_pairs(m: Any, value: Any) -> Any:
    """Push the keys and values of a map in turn."""
    for place in range(size_of(m, value)):
        push(m, item(m, value, place))
    return 0


@jit
def is_within(m: Any, one: Any, other: Any) -> Any:
    """Return whether a set is a subset of another."""
    for place in range(size_of(m, one)):
        if place_of(m, other, item(m, one, place)) < 0:
            return False
    return True


@jit
def ordering(m: Any, operation: Any, one: Any, other: Any) -> Any:
    """Return a comparison by `<`, `<=`, `>` or `>=`."""
    if is_set(kind_of(m, one)) and is_set(kind_of(m, other)):
        small, large = (one, other) if operation == LT or operation == LE else (other, one)
        strict = operation == LT or operation == GT
        return truth(is_within(m, small, large) and not (strict and size_of(m, small) == size_of(m, large)))
    if operation == LT or operation == GE:
        return truth(less(m, one, other) == (operation == LT))
    return truth(less(m, other, one) == (operation == GT))


@jit
def is_atom(m: Any, value: Any) -> Any:
    """Return whether a value is None, a bool, a model value or an enum member. Each is a single object."""
    return not value & 1 and m.groups[m.words[value >> 1]] <= codes.ENUM_GROUP and m.words[value >> 1] != codes.STR_KIND


@jit
def is_later(m: Any, operation: Any, one: Any, other: Any) -> Any:
    """Return whether a value comes after another in canonical order, as Python sorts, or as pairs by their first."""
    if operation == ORDERED:
        return compare(m, one, other) > 0
    if operation == SORTED:
        return less(m, other, one)
    return less(m, item(m, other, 0), item(m, one, 0))


@jit
def in_order(m: Any, value: Any, operation: Any) -> Any:
    """Return the list of the elements of a collection, sorted in a stable way; of pairs, the second elements."""
    mark = m.at[codes.AT_STACK_HEIGHT]
    push_all(m, value)
    for last in range(mark + 1, m.at[codes.AT_STACK_HEIGHT]):
        value, place = m.stack[last], last
        while place > mark:
            before = m.stack[place - 1]
            if not is_later(m, operation, before, value):
                break
            m.stack[place] = before
            place -= 1
        m.stack[place] = value
    if operation == SORTED_PAIRS:
        for place in range(mark, m.at[codes.AT_STACK_HEIGHT]):
            m.stack[place] = item(m, m.stack[place], 1)
    return collect(m, codes.LIST_KIND, mark)


@jit
def total(m: Any, value: Any) -> Any:
    """Return the sum of a collection of numbers and bools."""
    found, stride = 0, stride_of(m, value)
    if stride:
        for place in range(0, size_of(m, value), stride):
            one = item(m, value, place)
            if one & 1:
                found += one >> 1
            elif one == codes.TRUE_VALUE:
                found += 1
            elif one != codes.FALSE_VALUE:
                fail(m, codes.UNSUPPORTED_ERROR)
    return number(m, found)


@jit
def extreme(m: Any, value: Any, is_least: Any) -> Any:
    """Return the least or the greatest element of a collection; the first among equal ones."""
    stride = stride_of(m, value)
    if stride == 0 or size_of(m, value) == 0:
        return fail(m, codes.UNSUPPORTED_ERROR)
    best = item(m, value, 0)
    for place in range(stride, size_of(m, value), stride):
        one = item(m, value, place)
        if less(m, one, best) if is_least else less(m, best, one):
            best = one
    return best


@jit
def numbers(m: Any, first: Any, last: Any, step: Any) -> Any:
    """Return a range as a list."""
    mark = m.at[codes.AT_STACK_HEIGHT]
    if not (first & 1 and last & 1 and step & 1) or step == 1:
        return fail(m, codes.UNSUPPORTED_ERROR)
    one, end, by = first >> 1, last >> 1, step >> 1
    while (one < end if by > 0 else one > end) and m.at[codes.AT_ERROR] == 0:
        push(m, (one << 1) | 1)
        one += by
    return collect(m, codes.LIST_KIND, mark)


@jit
def pairs(m: Any, value: Any, kind: Any) -> Any:
    """Return the keys, the values or the items of a map, as a list."""
    mark, stride = m.at[codes.AT_STACK_HEIGHT], stride_of(m, value)
    if stride != 2:
        return fail(m, codes.UNSUPPORTED_ERROR)
    for place in range(0, size_of(m, value), 2):
        if kind == ITEMS:
            push_pair(m, item(m, value, place), item(m, value, place + 1))
        else:
            push(m, item(m, value, place if kind == KEYS else place + 1))
    return collect(m, codes.LIST_KIND, mark)


@jit
def push_pair(m: Any, one: Any, other: Any) -> Any:
    """Push a tuple of two values."""
    address = allocate(m, codes.TUPLE_KIND, 2)
    if address != 0:
        m.words[address + codes.NODE_HEAD_WORDS] = one
        m.words[address + codes.NODE_HEAD_WORDS + 1] = other
        push(m, address << 1)
    return 0


@jit
def zipped(m: Any, registers: Any, first: Any, count: Any) -> Any:
    """Return the list of tuples of the elements of some collections, as long as the shortest."""
    mark, shortest = m.at[codes.AT_STACK_HEIGHT], np.int64(codes.MOST_STACK_VALUES)
    for which in range(count):
        stride = stride_of(m, registers[first + which])
        if stride == 0:
            return 0
        shortest = min(shortest, size_of(m, registers[first + which]) // stride)
    for place in range(shortest):
        address = allocate(m, codes.TUPLE_KIND, count)
        if address == 0:
            return 0
        for which in range(count):
            value = registers[first + which]
            m.words[address + codes.NODE_HEAD_WORDS + which] = item(m, value, place * stride_of(m, value))
        push(m, address << 1)
    return collect(m, codes.LIST_KIND, mark)


@jit
def reverse(m: Any, value: Any) -> Any:
    """Return the list of the elements of a sequence in reverse."""
    mark = m.at[codes.AT_STACK_HEIGHT]
    if not is_sequence(kind_of(m, value)):
        return fail(m, codes.UNSUPPORTED_ERROR)
    for place in range(size_of(m, value) - 1, -1, -1):
        push(m, item(m, value, place))
    return collect(m, codes.LIST_KIND, mark)


@jit
def get(m: Any, value: Any, key: Any, default: Any) -> Any:
    """Return `value.get(key, default)`."""
    if not is_mapping(kind_of(m, value)):
        return fail(m, codes.UNSUPPORTED_ERROR)
    place = place_of(m, value, key)
    return item(m, value, place + 1) if place >= 0 else default


@jit
def put(m: Any, value: Any, key: Any, changed: Any) -> Any:
    """Return a map with a key mapped to a value, or a list with an element replaced."""
    kind, mark = kind_of(m, value), m.at[codes.AT_STACK_HEIGHT]
    if kind == codes.LIST_KIND and key & 1:
        place, size = key >> 1, size_of(m, value)
        if place < 0:
            place += size
        return but(m, value, place, changed) if 0 <= place < size else fail(m, codes.UNSUPPORTED_ERROR)
    if not is_mapping(kind):
        return fail(m, codes.UNSUPPORTED_ERROR)
    place = place_of(m, value, key)
    if place >= 0:
        return but(m, value, place + 1, changed)
    push_pairs(m, value)
    push(m, key)
    push(m, changed)
    return collect(m, kind, mark)


@jit
def less_one(m: Any, value: Any, key: Any) -> Any:
    """Return a map without a key, or a set without an element."""
    kind, mark, stride = kind_of(m, value), m.at[codes.AT_STACK_HEIGHT], stride_of(m, value)
    if stride == 0 or is_sequence(kind):
        return fail(m, codes.UNSUPPORTED_ERROR)
    missing = place_of(m, value, key)
    for place in range(size_of(m, value)):
        if missing < 0 or place < missing or place >= missing + stride:
            push(m, item(m, value, place))
    return collect_sorted(m, kind, mark)


@jit
def convert(m: Any, value: Any, kind: Any) -> Any:
    """Return a collection as one of another kind; a map from a map or from pairs."""
    found, mark = kind_of(m, value), m.at[codes.AT_STACK_HEIGHT]
    if found == kind and m.groups[kind] < codes.MUTABLE_GROUP:
        return value
    if not is_mapping(kind):
        push_all(m, value)
        return collect_sorted(m, kind, mark) if is_set(found) else collect(m, kind, mark)
    if is_mapping(found):
        push_pairs(m, value)
    elif stride_of(m, value):
        for place in range(size_of(m, value)):
            pair = item(m, value, place)
            if not is_sequence(kind_of(m, pair)) or size_of(m, pair) != 2:
                return fail(m, codes.UNSUPPORTED_ERROR)
            push(m, item(m, pair, 0))
            push(m, item(m, pair, 1))
    return collect(m, kind, mark)


@jit
def combinations(m: Any, value: Any, size: Any) -> Any:
    """Return the list of the combinations of a number of elements, in the order of positions."""
    mark = m.at[codes.AT_STACK_HEIGHT]
    if not size & 1 or stride_of(m, value) != 1 or size < 0:
        return fail(m, codes.UNSUPPORTED_ERROR)
    pool, count = size_of(m, value), size >> 1
    places = np.zeros(max(count, 1), np.int64)
    for place in range(count):
        places[place] = place
    while count <= pool and m.at[codes.AT_ERROR] == 0:
        if count == 0:
            push(m, codes.EMPTY_TUPLE)
            break
        address = allocate(m, codes.TUPLE_KIND, count)
        if address == 0:
            break
        for place in range(count):
            m.words[address + codes.NODE_HEAD_WORDS + place] = item(m, value, places[place])
        push(m, address << 1)
        last = count - 1
        while last >= 0 and places[last] == pool - count + last:
            last -= 1
        if last < 0:
            break
        places[last] += 1
        for place in range(last + 1, count):
            places[place] = places[place - 1] + 1
    return collect(m, codes.LIST_KIND, mark)


@jit
def extend(m: Any, step: Any, place: Any, mark: Any) -> Any:
    """Return a step with the values on the stack above a mark added to a field."""
    if kind_of(m, step) != codes.STEP_KIND:
        return fail(m, codes.UNSUPPORTED_ERROR)
    before, count = item(m, step, place), m.at[codes.AT_STACK_HEIGHT] - mark
    known = size_of(m, before)
    address = allocate(m, codes.TUPLE_KIND, known + count)
    m.at[codes.AT_STACK_HEIGHT] = mark
    if address == 0:
        return 0
    for one in range(known):
        m.words[address + codes.NODE_HEAD_WORDS + one] = item(m, before, one)
    for one in range(count):
        m.words[address + codes.NODE_HEAD_WORDS + known + one] = m.stack[mark + one]
    return but(m, step, place, address << 1)


@jit
def unpack(m: Any, registers: Any, first: Any, value: Any, count: Any) -> Any:
    """Store the elements of a collection of exactly `count` elements in registers."""
    stride = stride_of(m, value)
    if stride == 0 or size_of(m, value) != count * stride:
        return fail(m, codes.UNSUPPORTED_ERROR)
    for place in range(count):
        registers[first + place] = item(m, value, place * stride)
    return 0


@jit
def of_values(m: Any, operation: Any, registers: Any, base: Any, b: Any, c: Any, d: Any) -> Any:
    """Return the result of an operation that is rarer than those of `run`."""
    one = registers[base + b]
    if ORDERED <= operation <= SORTED_PAIRS:
        return in_order(m, one, operation)
    if operation == SUM:
        return total(m, one)
    if operation == MIN or operation == MAX:
        return extreme(m, one, operation == MIN)
    if operation == RANGE:
        return numbers(m, one, registers[base + c], registers[base + d])
    if operation == ZIP:
        return zipped(m, registers, base + b, c)
    if operation == REVERSED:
        return reverse(m, one)
    if KEYS <= operation <= ITEMS:
        return pairs(m, one, operation)
    if operation == GET:
        return get(m, one, registers[base + c], registers[base + d])
    if operation == PUT:
        return put(m, one, registers[base + c], registers[base + d])
    return of_more_values(m, operation, registers, base, b, c, d)


@jit
def of_more_values(m: Any, operation: Any, registers: Any, base: Any, b: Any, c: Any, d: Any) -> Any:
    """Return the result of an operation that `of_values` does not know."""
    one = registers[base + b]
    if operation == WITHOUT:
        return less_one(m, one, registers[base + c])
    if operation == CONVERT:
        return convert(m, one, c)
    if operation == COMBINATIONS:
        return combinations(m, one, registers[base + c])
    if operation == EXTEND:
        return extend(m, one, c, registers[base + d])
    if operation == SLICE:
        return part(m, one, registers[base + c], registers[base + d])
    if operation == LEN:
        stride = stride_of(m, one)
        return number(m, size_of(m, one) // stride) if stride else 0
    if operation == NEGATE:
        return number(m, -(one >> 1)) if one & 1 else fail(m, codes.UNSUPPORTED_ERROR)
    if MUL <= operation <= MOD:
        return arithmetic(m, operation, one, registers[base + c])
    if AND <= operation <= XOR:
        return logic(m, operation, one, registers[base + c])
    if LT <= operation <= GE:
        return ordering(m, operation, one, registers[base + c])
    return fail(m, codes.UNSUPPORTED_ERROR)


@jit
def run(m: Any, function: Any) -> Any:
    """Run a function on the values in the first registers; return its value, with `AT_ERROR` set if it failed."""
    code, registers, at = m.code, m.registers, m.at
    place, base, depth = np.int64(m.functions[function, 0]), np.int64(0), 0
    room, fuel = np.int64(m.functions[function, 1]), np.int64(codes.INSTRUCTION_FUEL)
    while at[codes.AT_ERROR] == 0:
        operation, a, b, c, d = code[place, 0], code[place, 1], code[place, 2], code[place, 3], code[place, 4]
        at[codes.AT_ERROR_LINE] = place
        if m.passed[place] == 0:
            m.passed[place] = at[codes.AT_IS_FRESH] = 1
        place, fuel = place + 1, fuel - 1
        if fuel < 0:
            fail(m, codes.SCRATCH_FULL_ERROR)
        # Moves, jumps and calls
        if operation == MOVE:
            registers[base + a] = registers[base + b]
        elif operation == CONST:
            registers[base + a] = m.constants[b]
        elif operation == JUMP:
            place = np.int64(a)
        elif operation == IF:
            if is_true(m, registers[base + a]):
                place = np.int64(b)
        elif operation == UNLESS:
            if not is_true(m, registers[base + a]):
                place = np.int64(b)
        elif operation == CALL:
            callee = base + room
            if depth == codes.MOST_FRAMES or callee + m.functions[b, 1] > codes.MOST_REGISTERS:
                fail(m, codes.SCRATCH_FULL_ERROR)
            else:
                for number_of in range(d):
                    registers[callee + number_of] = registers[base + c + number_of]
                m.frames[depth, 0], m.frames[depth, 1], m.frames[depth, 2] = (place << 20) | room, base, a
                depth += 1
                base, place, room = callee, np.int64(m.functions[b, 0]), np.int64(m.functions[b, 1])
        elif operation == RETURN:
            value = registers[base + a]
            if depth == 0:
                return value
            depth -= 1
            place, room = m.frames[depth, 0] >> 20, m.frames[depth, 0] & ((1 << 20) - 1)
            base = m.frames[depth, 1]
            registers[base + m.frames[depth, 2]] = value
        # Building values
        elif operation == MARK:
            registers[base + a] = at[codes.AT_STACK_HEIGHT]
        elif operation == PUSH:
            push(m, registers[base + a])
        elif operation == PUSH_ALL:
            push_all(m, registers[base + a])
        elif operation == COLLECT:
            registers[base + a] = collect(m, b, registers[base + c])
        # Loops
        elif operation == ITERATE:
            stride_of(m, registers[base + b])
            registers[base + a], registers[base + a + 1] = registers[base + b], 0
        elif operation == NEXT:
            over, at_place = registers[base + b], registers[base + b + 1]
            stride = 2 if is_mapping(kind_of(m, over)) else 1
            if at_place >= size_of(m, over):
                place = np.int64(c)
            else:
                registers[base + a] = item(m, over, at_place)
                registers[base + b + 1] = at_place + stride
        # Records and elements
        elif operation == FIELD:
            which = field(m, registers[base + b], c)
            registers[base + a] = item(m, registers[base + b], which) if which >= 0 else 0
        elif operation == BUT:
            which = field(m, registers[base + b], c)
            if which >= 0:
                registers[base + a] = but(m, registers[base + b], which, registers[base + d])
        elif operation == INDEX:
            registers[base + a] = index(m, registers[base + b], registers[base + c])
        # Tests and sums
        elif operation == NOT:
            registers[base + a] = truth(not is_true(m, registers[base + b]))
        elif operation == ADD:
            registers[base + a] = added(m, registers[base + b], registers[base + c])
        elif operation == SUB:
            registers[base + a] = without(m, registers[base + b], registers[base + c])
        elif operation == EQ:
            registers[base + a] = truth(same(m, registers[base + b], registers[base + c]))
        elif operation == NE:
            registers[base + a] = truth(not same(m, registers[base + b], registers[base + c]))
        elif operation == IN:
            registers[base + a] = truth(place_of(m, registers[base + c], registers[base + b]) >= 0)
        elif operation == NOT_IN:
            registers[base + a] = truth(place_of(m, registers[base + c], registers[base + b]) < 0)
        elif operation == IS or operation == IS_NOT:
            one, other = registers[base + b], registers[base + c]
            if not is_atom(m, one) and not is_atom(m, other):
                fail(m, codes.UNSUPPORTED_ERROR)
            registers[base + a] = truth((one == other) == (operation == IS))
        elif operation == TEST:
            registers[base + a] = truth(m.tests[c * at[codes.AT_KINDS] + kind_of(m, registers[base + b])] != 0)
        elif operation == TEST_BY:
            wanted = registers[base + c]
            if kind_of(m, wanted) != codes.CLASS_KIND:
                fail(m, codes.UNSUPPORTED_ERROR)
            else:
                test = item(m, wanted, 0)
                registers[base + a] = truth(m.tests[test * at[codes.AT_KINDS] + kind_of(m, registers[base + b])] != 0)
        elif operation == SEEN:
            m.seen[a] = 1
            registers[base + b] = codes.FALSE_VALUE
        elif operation == REQUIRE:
            if registers[base + a] == 0:
                fail(m, codes.UNSUPPORTED_ERROR)
        elif operation == UNSET:
            registers[base + a] = 0
        elif operation == UNPACK:
            unpack(m, registers, base + a, registers[base + b], c)
        elif operation == IMMUTABLE:
            if m.groups[kind_of(m, registers[base + a])] >= codes.MUTABLE_GROUP:
                fail(m, codes.UNSUPPORTED_ERROR)
        else:
            registers[base + a] = of_values(m, operation, registers, base, b, c, d)
    return 0

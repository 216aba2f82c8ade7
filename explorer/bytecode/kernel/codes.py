"""Kinds of values, operations, scalars and error codes of the interpreter.

A value is a 64-bit number. An odd one is the integer in its upper bits. An even one is twice the address of a *node* in
`InterpreterArrays.words`: its kind, its size, and its items. Nodes below `SCRATCH_WORDS` are temporary. The nodes above
are permanent, and each of them is unique: two permanent nodes are equal only if they are the same.
"""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path

import numpy as np

from kraftcheck.explorer.native.arrays import ArrayGroup, declare_array
from kraftcheck.explorer.native.compiling import kernel_compiler

jit = kernel_compiler(Path(__file__).parent)

NONE_KIND, BOOL_KIND, STR_KIND, MODEL_KIND, INT_KIND, TUPLE_KIND, LIST_KIND, FROZENSET_KIND = range(8)
SET_KIND, MAP_KIND, DICT_KIND, STATE_RECORD_KIND, STEP_KIND, INVALID_KIND, CLASS_KIND = range(8, 15)
CLASS_KINDS_START = 16
"""The first kind of an enum or a record class."""
NONE_GROUP, BOOL_GROUP, INT_GROUP, STR_GROUP, MODEL_GROUP, ENUM_GROUP = range(6)
TUPLE_GROUP, SET_GROUP, RECORD_GROUP, MAP_GROUP, MUTABLE_GROUP = range(6, 11)
"""Groups of kinds, in canonical order."""
GROUP_OF_KIND = {
    NONE_KIND: NONE_GROUP, BOOL_KIND: BOOL_GROUP, STR_KIND: STR_GROUP, MODEL_KIND: MODEL_GROUP, INT_KIND: INT_GROUP,
    TUPLE_KIND: TUPLE_GROUP, FROZENSET_KIND: SET_GROUP, MAP_KIND: MAP_GROUP, STEP_KIND: RECORD_GROUP,
}  # fmt: skip
"""The group of each kind that is no class of the protocol; kinds that are left out are in `MUTABLE_GROUP`."""

SCRATCH_WORDS = 1 << 20
"""Words for temporary nodes."""
NODE_HEAD_WORDS = 2  # words of a node before its items
ATOM_WORDS = 4  # words of an atomic value: its head, its rank in canonical order, and whether it is true
NONE_VALUE, FALSE_VALUE, TRUE_VALUE, EMPTY_TUPLE = (2 * (SCRATCH_WORDS + ATOM_WORDS * number) for number in range(4))
NUMBER_LIMIT = 1 << 29
"""Integers and addresses are less than this: a word holds twice the number."""
MOST_REGISTERS, MOST_FRAMES, MOST_STACK_VALUES, INSTRUCTION_FUEL = 1 << 16, 200, 1 << 16, 1 << 26

AT_PERMANENT_TOP, AT_SCRATCH_TOP, AT_NODES, AT_STACK_HEIGHT, AT_ERROR, AT_ERROR_LINE, AT_KINDS = range(7)
AT_STATES, AT_GENERATED, AT_DEADLOCKED, AT_LOGGED, AT_IS_FRESH, AT_ASKED, AT_IS_ASKING, AT_SIZE = range(7, 15)
"""Scalars in `InterpreterArrays.at`."""
SHAPE_REPLICAS, SHAPE_FIELDS, SHAPE_BOUNDS, SHAPE_ENTRIES, SHAPE_PROPERTIES, SHAPE_PROJECTIONS = range(6)
SHAPE_SHARED_KIND, SHAPE_IS_LOGGING, SHAPE_ID_NAME, SHAPE_MOST_STATES, SHAPE_STATE_KIND = range(6, 11)
SHAPE_HAS_STEP_PROPERTIES, SHAPE_READS_BOUNDS, SHAPE_SIZE = range(11, 14)
"""Numbers in `InterpreterArrays.shape`: of columns of replicas, shared fields and bounds; and so on. Where no property
takes the whole state, `SHAPE_STATE_KIND` is 0; where none takes the uses of bounds, `SHAPE_READS_BOUNDS`."""
ME_SOURCE, PEER_SOURCE, SHARED_SOURCE, STATE_SOURCE, SPENT_SOURCE, PROJECTION_SOURCE = range(6)
"""Sources of a function's parameters; a projection's number is added to the last. The list ends with -1."""
STATE_PROPERTY, CONSTRAINT, STEP_PROPERTY = range(3)
"""Kinds of properties."""
EXCLUDED_STATE = -2
"""The number of a state that violates a constraint, or exceeds the limit on states."""
UNCHECKED_STATE = -3
"""The number of a state whose check has not ended."""
UNSUPPORTED_ERROR, SCRATCH_FULL_ERROR, PERMANENT_FULL_ERROR, STATE_LIMIT_ERROR, ASKED_ERROR = 1, 2, 3, 4, 5
"""Errors: an operation that Python may define otherwise; scratch exhausted; permanent words,
the table or the numbers of states exhausted; the limit on states reached; a call of Python that has no answer yet."""

ANSWER_FACTOR = 40_503
"""Multiplied with a value, it gives its place in the table of answers."""
MATCH_MEMO_BITS = 16
"""Bits of a place in the cache of types that values match."""
TYPE_ANY, TYPE_KINDS, TYPE_TUPLE, TYPE_SET, TYPE_MAP, TYPE_UNION, TYPE_PRODUCT, TYPE_LITERAL = range(8)
"""Operations of a type: see `heap.matches_type`."""

STEP_ME, STEP_CONSUMES, STEP_SENDS, STEP_PUTS, STEP_WRITES, STEP_SPENDS, STEP_NEEDS = range(7)
"""Fields of a step."""


class Op(IntEnum):
    """Operations; the comments name the operands, registers unless they say otherwise."""

    MOVE = 0  # a = b
    CONST = 1  # a = constant number b
    JUMP = 2  # to instruction a
    IF = 3  # if a is true, to instruction b
    UNLESS = 4  # if a is false, to instruction b
    CALL = 5  # a = function b of d arguments from c on
    RETURN = 6  # a
    MARK = 7  # a = height of the stack
    PUSH = 8  # a
    PUSH_ALL = 9  # the elements of a
    COLLECT = 10  # a = value of kind b with the values on the stack above the mark c
    ITERATE = 11  # a = iterator over b; a + 1 is its position
    NEXT = 12  # a = next element of the iterator b, or to instruction c
    FIELD = 13  # a = field c (number of a name) of b
    BUT = 14  # a = b with field c (number of a name) set to d
    INDEX = 15  # a = b[c]
    SLICE = 16  # a = b[c:d]
    LEN = 17  # a = len(b)
    NOT = 18  # a = not b
    NEGATE = 19  # a = -b
    ADD = 20  # a = b + c, and so on
    SUB = 21
    MUL = 22
    DIV = 23
    MOD = 24
    AND = 25
    OR = 26
    XOR = 27
    EQ = 28
    NE = 29
    LT = 30
    LE = 31
    GT = 32
    GE = 33
    IN = 34
    NOT_IN = 35
    IS = 36
    IS_NOT = 37
    TEST = 38  # a = whether the kind of b passes test c (a number)
    ORDERED = 39  # a = ordered(b)
    SORTED = 40  # a = sorted(b)
    SORTED_PAIRS = 41  # a = second elements of the pairs b, sorted by the first
    SUM = 42  # a = sum(b)
    MIN = 43  # a = min(b)
    MAX = 44  # a = max(b)
    RANGE = 45  # a = range(b, c, d)
    ZIP = 46  # a = zip of c values from b on
    REVERSED = 47  # a = reversed(b)
    KEYS = 48  # a = b.keys(), and so on
    VALUES = 49
    ITEMS = 50
    GET = 51  # a = b.get(c, d)
    PUT = 52  # a = b with key c mapped to d
    WITHOUT = 53  # a = b without the key or element c
    CONVERT = 54  # a = b as kind c
    ASK = 55  # a = what Python returns for the tuple b of a function's number and its arguments
    EXTEND = 56  # a = step b with the values above the mark d added to field c (a number)
    UNPACK = 57  # c registers from a on = elements of b
    IMMUTABLE = 58  # fail if a is a list, a set or a dict
    UNSET = 59  # a = no value
    TEST_BY = 60  # a = whether b is an instance of the class c
    SEEN = 61  # the probe a (a number) was passed; b = True
    REQUIRE = 62  # fail if a has no value
    FAIL = 63


class InterpreterArrays(ArrayGroup):
    """The arrays of the heap, of the program and of the search."""

    at = declare_array(np.int64)
    words = declare_array(np.int32)
    table = declare_array(np.int32)  # addresses of permanent nodes by hash; 0 is free
    code = declare_array(np.int32, 5)
    passed = declare_array(np.uint8)  # by instruction: whether it was executed
    constants = declare_array(np.int64)
    functions = declare_array(np.int32, 2)  # first instruction, registers
    registers = declare_array(np.int64)
    frames = declare_array(np.int64, 3)
    stack = declare_array(np.int64)
    groups = declare_array(np.int32)  # by kind
    like = declare_array(
        np.uint8
    )  # by kind: 1 for numbers, 2 for strings; values of such kinds may be equal, as 1 and True
    ranks = declare_array(np.int32)  # of record classes in canonical order, by kind
    tests = declare_array(np.uint8)  # by test and kind
    offsets = declare_array(np.int32)  # by name of a field and kind: the number of the field, or -1
    types = declare_array(np.int32, 3)
    type_items = declare_array(np.int32)
    field_types = declare_array(np.int32)  # types of all fields
    answers = declare_array(np.int64, 2)  # hash table of the answers of Python: the tuple that asks, and the value
    matched = declare_array(
        np.int64
    )  # cache of types that permanent collections match: the value, and below it the type
    first_field = declare_array(np.int32)  # by kind: where its types begin in `field_types`; -1 for other than records
    # The search
    shape = declare_array(np.int64)  # see `search_encoding.py`
    columns = declare_array(np.int64)  # per replica: its id
    names = declare_array(np.int64)  # per shared field and bound: its name
    limits = declare_array(np.int64)  # per bound
    shared_types = declare_array(np.int32)  # per shared field
    entries = declare_array(np.int32, 4)  # action, function, replica or -1, test of actors
    parameters = declare_array(np.int32, 8)  # per entry, then per property: the sources of its parameters
    projections = declare_array(np.int32, 2)  # function, test of the replicas covered
    properties = declare_array(
        np.int32, 7
    )  # function, tests of me and peer, its kind, negated?, range of columns of me
    seen = declare_array(np.uint8)  # by probe
    inputs = declare_array(np.int64, 8)  # by property: its first input, and the number of distinct inputs, up to two
    row = declare_array(np.int64)  # the columns of a state, of a successor, of its least image, and of another image
    symmetric = declare_array(np.int64)  # the model values that the SYMMETRY permutes
    images = declare_array(
        np.int64, -1
    )  # by permutation and value in `symmetric`: its image; the first one is the identity
    column_images = declare_array(np.int64, -1)  # by permutation and replica's column: the column of its image
    permuted = declare_array(np.int64, 2)  # cache: value and permutation, and the permuted value
    environment = declare_array(np.int64)  # its shared record and its projections, then the successor's
    states = declare_array(np.int32)  # addresses by number
    sources = declare_array(np.int32)  # by number: the state that first led to it
    fired = declare_array(np.int64)  # by entry
    taken = declare_array(np.int64)  # by entry: steps of the state under expansion
    violations = declare_array(np.int64, 2)  # by property: the source + 2, and the address of the violating state
    log = declare_array(np.int64, 3)  # entry, target's address and source of each step, if wanted

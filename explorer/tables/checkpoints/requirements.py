"""Checks that the numbers in a checkpoint fit together: it may come from strangers, and compiled code takes any number.

Each function raises `Damaged` for the first number that is out of its range.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.checkpoints.shapes import Damaged
from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.resolving.inboxes import LEARNED
from kraftcheck.explorer.tables.learning.interner import Interner
from kraftcheck.explorer.tables.states.packing import Rows
from kraftcheck.spec.display import cut, text_of
from kraftcheck.spec.kinds import fits
from kraftcheck.spec.values import Record, Value, field_types

FACTOR = np.uint64(0x9E3779B97F4A7C15)


def require(is_right: Any, problem: str) -> None:
    """Raise Damaged unless all is right."""
    if not np.all(is_right):
        raise Damaged(problem)


def require_bytes(name: str, length: int, expected: int) -> None:
    """Require that a file has as many bytes as what is noted of it takes."""
    require(length == expected, f"{name}: expected {expected} bytes, found {length}")


def require_record(value: Value, field: str) -> None:
    """Require that a value is a record, of the types that it declares, with a field."""
    is_right = isinstance(value, Record) and fits(value, type(value)) and hasattr(value, field)
    require(is_right, f"{cut(text_of(value), 80)} as a message or local state")


def require_shared(interner: Interner, field: int, value: Value) -> None:
    """Require that a value is of the type of a shared field."""
    assert interner.shared_type is not None
    kind = list(field_types(interner.shared_type).values())[field]
    require(fits(value, kind), f"{cut(text_of(value), 80)} in the shared state")


def require_contents(interner: Interner, heads: Rows, items: Rows, learned: NDArray[np.int64]) -> None:
    """Require that inbox contents are of known slots and messages, in their canonical form, each once."""
    slots, counts = heads[:, 0], heads[:, 1].astype(np.int64)
    require((slots >= 0) & (slots < len(interner.slots)), "an inbox content is of an unknown replica")
    require((counts > 0) & (counts <= len(items)), "an inbox content has a wrong number of messages")
    require(counts.sum() == len(items), f"the inbox contents have {counts.sum()} messages, expected {len(items)}")
    messages = items[:, 0]
    require((messages >= 0) & (messages < len(interner.messages)), "an inbox content has an unknown message")
    of = np.repeat(np.arange(len(heads)), counts)
    operations = interner.tables.messages[messages, 0]
    destinations = interner.tables.operations[operations, 0]
    require(destinations == slots[of], "a message is in the inbox of another replica")
    keys = (messages.astype(np.int64) << 32) + items[:, 1]
    require((np.diff(keys) > 0) | (np.diff(of) > 0), "the messages of an inbox content are not in order")
    require((learned > 0) & (learned <= len(heads)), "the value of an unknown inbox content")
    has_value = np.zeros(len(heads), bool)
    has_value[learned - 1] = True
    needs_value = np.zeros(len(heads), bool)
    needs_value[of[interner.tables.operations[operations, 2] == LEARNED]] = True
    require(has_value == needs_value, "an inbox content lacks its value, or has one that follows from its messages")
    sums = np.zeros(0, np.uint64)
    if len(heads):
        sums = np.add.reduceat(mixed(keys.astype(np.uint64)), np.cumsum(counts) - counts)
    require_distinct(sums, "inbox contents")


def require_control_rows(interner: Interner, blocks: list[Rows]) -> None:
    """Require that control rows are within the bounds, of known values and local states, each once."""
    first, base, width = len(interner.bounds), interner.base, interner.base + len(interner.slots)
    slot_of = np.array([-1, *(interner.slots[record.id] for record in interner.locals[1:])])
    most = [*interner.tables.limits[:first], *(len(values) - 1 for values in interner.shared_values)]
    before, sums = base, [np.zeros(0, np.uint64)]
    weights = mixed(np.arange(1, width + 1, dtype=np.uint64)) | np.uint64(1)
    for block in blocks:
        columns = block.shape[1]
        require(before <= columns <= width, f"control rows have {columns} columns, expected {before} to {width}")
        before = columns
        require((block[:, :base] >= 0) & (block[:, :base] <= np.array(most)), "a control row has an unknown value")
        locals_ = block[:, base:]
        require((locals_ >= 0) & (locals_ < len(slot_of)), "a control row has an unknown local state")
        is_own = (slot_of[locals_] == np.arange(columns - base)) | (locals_ == 0)
        require(is_own, "a control row has the local state of another replica")
        sums.append((block.astype(np.uint64) * weights[:columns]).sum(axis=1, dtype=np.uint64))
    require_distinct(np.concatenate(sums), "control rows")


class StateRequirements:
    """Checks rows of states against an interner that has all their parts."""

    def __init__(self, interner: Interner) -> None:
        contents = int(interner.tables.meta[codes.M_CONTENTS])
        self._controls = int(interner.tables.meta[codes.M_ROWS])
        self._slot_of = interner.tables.contents[:contents, codes.C_SLOT].copy()
        self._slot_of[0] = -1  # the empty inbox is everyone's

    def check(self, rows: Rows) -> None:
        """Require that states have known control rows, and inbox contents of their own replicas."""
        controls, contents = rows[:, 0], rows[:, 1:]
        require((controls >= 0) & (controls < self._controls), "a state has an unknown control row")
        require((contents >= 0) & (contents < len(self._slot_of)), "a state has an unknown inbox content")
        is_own = (self._slot_of[contents] == np.arange(contents.shape[1])) | (contents == 0)
        require(is_own, "a state has the inbox content of another replica")


def require_distinct(keys: NDArray[np.uint64], what: str) -> None:
    """Require that no two of some hashes of 64 bits are equal."""
    require(len(np.unique(keys)) == len(keys), f"two {what} are equal")


def mixed(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return hashes of numbers."""
    keys = (keys ^ (keys >> np.uint64(31))) * FACTOR + FACTOR  # 0 becomes another number
    keys = (keys ^ (keys >> np.uint64(29))) * FACTOR
    return keys ^ (keys >> np.uint64(32))

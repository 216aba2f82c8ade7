"""Restoring of inbox contents and control rows in a new interner, with the ids that a checkpoint has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.codes import code_of, grown
from kraftcheck.explorer.tables.learning.growing_tables import UNASKED
from kraftcheck.explorer.tables.learning.interner import Interner
from kraftcheck.explorer.tables.states.packing import Rows
from kraftcheck.persistence.validation import CorruptFileError
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.state import permuted
from kraftcheck.spec.values import Value


def contents_from(interner: Interner, first: int, first_item: int) -> tuple[Rows, Rows]:
    """Return the inbox contents from an id on, as (slot, number of items), and the items from an index on."""
    tables = interner.tables
    heads = tables.contents[first : tables.meta[codes.M_CONTENTS]][:, [codes.C_SLOT, codes.C_N]]
    return heads, tables.content_items[first_item : tables.meta[codes.M_CONTENT_ITEMS]]


def control_rows_from(interner: Interner, first: int) -> Rows:
    """Return the control rows from an id on."""
    rows: Rows = interner.tables.rows[first : interner.tables.meta[codes.M_ROWS]]
    return rows


def restore_contents(interner: Interner, heads: Rows, items: Rows) -> None:
    """Set the inbox contents of an interner."""
    tables, n = interner.tables, len(heads) + 1
    capacity = max(len(tables.contents), 1 << (2 * n + 16).bit_length())
    contents = np.zeros((capacity, tables.contents.shape[1]), np.int32)
    numbers = np.zeros(capacity, np.int32)
    contents[1:n, codes.C_SLOT], contents[1:n, codes.C_N] = heads[:, 0], heads[:, 1]
    contents[1:n, codes.C_START] = np.cumsum(heads[:, 1]) - heads[:, 1]
    for slot in range(len(interner.slots)):
        mine = np.flatnonzero(heads[:, 0] == slot) + 1
        numbers[mine] = np.arange(1, len(mine) + 1)
        tables.slot_contents[slot] = len(mine)
    if n > 1:
        bad = tables.messages[items[:, 0], 1]
        contents[1:n, codes.C_BAD] = np.bitwise_or.reduceat(bad, contents[1:n, codes.C_START])
        numbers[1:n] = code_of(numbers[1:n], contents[1:n, codes.C_BAD])
    tables.contents, tables.inbox_codes = contents, numbers
    tables.content_items = grown(tables.content_items, 2 * len(items) + 16)
    tables.content_items[: len(items)] = items
    tables.permuted_contents = np.full((capacity, tables.permuted_contents.shape[1]), UNASKED, np.int32)
    tables.inbox_answers = np.full((len(tables.inbox_answers), capacity), UNASKED, np.int32)
    tables.meta[codes.M_CONTENTS] = n
    tables.meta[codes.M_CONTENT_ITEMS] = len(items)
    tables.rehash_contents(max(len(tables.content_table), 2 * capacity))


def restore_content_values(interner: Interner, inboxes: Sequence[tuple[int, Value]]) -> None:
    """Set the values and images of inbox contents that follow no counting rule."""
    numbers: dict[tuple[int, Value], int] = {}
    for content, inbox in inboxes:
        slot = interner.inboxes.slot_of_content(content)
        if interner.protocol.network.rule_of("discard", interner.protocol.network.known(inbox)[0]) is not None:
            raise InputError("made by an older kraftcheck, with another format of channels; start a new search")
        interner.inboxes.note_content(content, slot, inbox)
        numbers[slot, inbox] = content
        deliverable = {interner.inboxes.message(message) for message in interner.protocol.network.deliverable(inbox)}
        known = sorted({interner.inboxes.message(message) for message in interner.protocol.network.known(inbox)})
        if interner.inboxes.items_of_content(content) != [(message, int(message in deliverable)) for message in known]:
            raise CorruptFileError("the messages of an inbox content differ from its value")
    if len(numbers) != len(inboxes):
        raise CorruptFileError("two inbox contents are equal")
    tables = interner.tables
    for (slot, inbox), content in numbers.items() if len(interner.group) > 1 else ():
        for g, permutation in enumerate(interner.group):
            place = int(tables.permuted_slots[g, slot])
            tables.permuted_contents[content, g] = numbers[place, permuted(inbox, permutation)]


def restore_control_rows(interner: Interner, blocks: list[Rows]) -> None:
    """Set the control rows of an interner; later blocks may have more columns."""
    tables, n = interner.tables, sum(map(len, blocks))
    capacity = max(len(tables.rows), 1 << (2 * n + 16).bit_length())
    rows, first = np.zeros((capacity, tables.rows.shape[1]), np.int32), 0
    for block in blocks:
        rows[first : first + len(block), : block.shape[1]] = block
        first += len(block)
    info = np.zeros((capacity, tables.row_info.shape[1]), np.int64)
    info[:n, codes.R_START] = -1
    info[:n, codes.R_IDENTITY] = _identities(rows[:n], tables.hidden[: rows.shape[1]] != 0)
    tables.rows, tables.row_info = rows, info
    tables.permuted_rows = np.full((capacity, tables.permuted_rows.shape[1]), UNASKED, np.int32)
    tables.meta[codes.M_ROWS] = n
    tables.rehash_rows(max(len(tables.row_table), 2 * capacity))


def _identities(rows: Rows, hidden: NDArray[Any]) -> NDArray[np.int64]:
    """Return for each control row the row that represents it in canonical keys: the same row without hidden columns.

    A row that was never evaluated may have no representative yet; it gets one when it is evaluated, before a state has
    it.
    """
    own = np.arange(len(rows))
    if not hidden.any():
        return own
    numbers = {row.tobytes(): number for number, row in enumerate(rows)}
    seen = np.where(hidden, np.int32(0), rows)
    return np.array([numbers.get(row.tobytes(), number) for number, row in enumerate(seen)], np.int64)

"""Interning of control rows and inbox contents, with their images under symmetry.

Network operations are applied to inbox contents, and local properties are evaluated in control rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.native.compiling import inlined
from kraftcheck.explorer.tables.kernel import arrays, codes, jit, maps
from kraftcheck.explorer.tables.kernel.tree_walk import walk_while_row_answers

PYTHON_RULE = np.int64(-2)  # in place of a counting rule: Python computes the result
GROUP_RULE = np.int64(-3)  # the operation removes a group of messages
CHANNEL_RULE = np.int64(-4)  # the operation appends to a channel, or removes its oldest message


BITS_LOG2 = 5  # of a column, in the number of an element's bit: its column in the set comes first


@jit
def apply_inbox_operation(t: Any, inbox: Any, op: Any, groups: Any) -> Any:
    """Compute an inbox's content after operation `op`: REFUSED if forbidden, MISSING after a request to Python.

    `groups` is None where operations are on single messages only; Numba then compiles nothing for groups and channels.
    """
    key = maps.grouped_key(np.int64(inbox), np.int64(op))
    found = maps.find_grouped_value(t.operated, np.int64(inbox), np.int64(op))
    if found != codes.MISSING:
        return found
    if maps.is_map_full(t.meta[codes.META_OPERATIONS], t.operated):
        arrays.abort_to_grow(t, codes.GROW_MAP)
    if t.operations[op, 2] == PYTHON_RULE:
        arrays.append_request_to_python(t, codes.ASK_OPERATION, inbox, op, 0, 0, 0)
        return np.int64(codes.MISSING)
    if groups is None:
        result = change_inbox_message_count(t, inbox, op)
    elif t.operations[op, 2] == CHANNEL_RULE:
        result = change_inbox_channel(t, inbox, op)
    else:
        result = (
            remove_message_group(t, inbox, op)
            if t.operations[op, 2] == GROUP_RULE
            else change_inbox_message_count(t, inbox, op)
        )
    t.meta[codes.META_OPERATIONS] += 1
    maps.store_grouped_value(t.operated, key, result)
    return result


@inlined
def inbox_items_span_and_free_place(t: Any, inbox: Any) -> Any:
    """Return the place and the number of an inbox content's items, and a free place for a changed copy of them."""
    start, n = np.int64(t.contents[inbox, codes.CONTENT_START]), np.int64(t.contents[inbox, codes.CONTENT_COUNT])
    free = t.meta[codes.META_CONTENT_ITEMS]
    if free + n + 2 >= len(t.content_items):
        arrays.abort_to_grow(t, codes.GROW_CONTENTS)
    return start, n, free


@inlined
def write_inbox_item(t: Any, place: Any, message: Any, count: Any) -> Any:
    """Write an item of an inbox content; return the next place."""
    t.content_items[place, 0] = message
    t.content_items[place, 1] = count
    return place + 1


@jit
def change_inbox_message_count(t: Any, inbox: Any, op: Any) -> Any:
    """Change a message's count in an inbox content as operation `op` says; return the new content, or REFUSED."""
    message = t.operations[op, 1]
    start, n, free = inbox_items_span_and_free_place(t, inbox)
    # Copy the items, which are ordered by message, and change the count of one. An item may be dropped at the count 0.
    # A message without an item is inserted if the rule has a count for absent messages.
    end, seen = free, False
    for k in range(start, start + n):
        m, c = t.content_items[k, 0], t.content_items[k, 1]
        if not seen and m > message:
            seen = True
            if t.operations[op, 2] < 0:
                return np.int64(codes.REFUSED)
            end = write_inbox_item(t, end, message, t.operations[op, 2])
        if m == message:
            seen = True
            if c < t.operations[op, 4]:
                return np.int64(codes.REFUSED)
            c += t.operations[op, 3]
            if c == 0 and t.operations[op, 5]:
                continue
        end = write_inbox_item(t, end, m, c)
    if not seen:
        if t.operations[op, 2] < 0:
            return np.int64(codes.REFUSED)
        end = write_inbox_item(t, end, message, t.operations[op, 2])
    return intern_inbox_content(t, np.int64(t.operations[op, 0]), end - free)


@jit
def remove_message_group(t: Any, inbox: Any, op: Any) -> Any:
    """Remove a group of messages from an inbox content; return the resulting content."""
    group = t.operations[op, 1] + 1
    start, n, free = inbox_items_span_and_free_place(t, inbox)
    end = free
    for k in range(start, start + n):
        if t.messages[t.content_items[k, 0], 2] != group:
            end = write_inbox_item(t, end, t.content_items[k, 0], t.content_items[k, 1])
    return intern_inbox_content(t, np.int64(t.operations[op, 0]), end - free)


@jit
def change_inbox_channel(t: Any, inbox: Any, op: Any) -> Any:
    """Append a message to its channel, or remove it if it is the channel's oldest; return the resulting content.

    A channel's oldest message has the count 1, the next one 0, then -1, and so on. Items are ordered by message; equal
    messages are ordered by count.
    """
    message, change = t.operations[op, 1], t.operations[op, 3]
    channel = t.messages[message, 2]
    start, n, free = inbox_items_span_and_free_place(t, inbox)
    # Find the channel's length, and whether the message is in it, or is its oldest one.
    length, is_there, is_oldest = 0, False, False
    for k in range(start, start + n):
        if t.messages[t.content_items[k, 0], 2] == channel:
            length += 1
            if t.content_items[k, 0] == message:
                is_there = True
                is_oldest = is_oldest or t.content_items[k, 1] == 1
    if (change < 0 and not is_oldest) or (change > 0 and is_there and t.operations[op, 4] > 1):
        return np.int64(codes.REFUSED)
    # Copy the items. Counts are positions in the channel: removing the oldest message moves each other one up.
    end, is_done = free, False
    for k in range(start, start + n):
        m, c = t.content_items[k, 0], t.content_items[k, 1]
        if change > 0 and not is_done and m >= message:
            is_done = True
            end = write_inbox_item(t, end, message, 1 - length)
        if change < 0 and t.messages[m, 2] == channel:
            if c == 1:
                continue
            c += 1
        end = write_inbox_item(t, end, m, c)
    if change > 0 and not is_done:
        end = write_inbox_item(t, end, message, 1 - length)
    return intern_inbox_content(t, np.int64(t.operations[op, 0]), end - free)


@jit
def intern_inbox_content(t: Any, slot: Any, n: Any) -> Any:
    """Intern the inbox content whose `n` items are written behind the items in use; return its id."""
    if n == 0:
        return np.int64(0)
    free = t.meta[codes.META_CONTENT_ITEMS]
    fresh = t.meta[codes.META_CONTENTS]
    if fresh + 2 >= len(t.contents) or (fresh + 2) * 2 > len(t.content_table):
        arrays.abort_to_grow(t, codes.GROW_CONTENTS)
    # Look for an equal content.
    mask = np.int64(len(t.content_table) - 1)
    i = np.int64(inbox_hash(t, slot, free, n)) & mask
    while t.content_table[i] != -1:
        other = t.content_table[i]
        if t.contents[other, codes.CONTENT_SLOT] == slot and t.contents[other, codes.CONTENT_COUNT] == n:
            start = t.contents[other, codes.CONTENT_START]
            same = True
            for k in range(n):
                same &= t.content_items[start + k, 0] == t.content_items[free + k, 0]
                same &= t.content_items[start + k, 1] == t.content_items[free + k, 1]
            if same:
                return np.int64(other)
        i = (i + 1) & mask
    # A new content keeps its items in place, and takes the next id and the next number within its slot.
    t.content_table[i] = fresh
    t.contents[fresh, codes.CONTENT_SLOT] = slot
    t.slot_contents[slot] += 1
    t.contents[fresh, codes.CONTENT_START] = free
    t.contents[fresh, codes.CONTENT_COUNT] = n
    bad = 0
    for k in range(free, free + n):
        bad |= t.messages[t.content_items[k, 0], 1]
    t.contents[fresh, codes.CONTENT_VIOLATED] = bad
    t.inbox_codes[fresh] = t.slot_contents[slot] | (codes.CODE_BAD if bad else 0)
    t.permuted_contents[fresh, 0] = -1
    t.meta[codes.META_CONTENT_ITEMS] = free + n
    t.meta[codes.META_CONTENTS] = fresh + 1
    return np.int64(fresh)


@jit
def inbox_hash(t: Any, slot: Any, start: Any, n: Any) -> Any:
    """Hash the items of an inbox content."""
    h = np.uint64(slot)
    for k in range(start, start + n):
        count = np.uint64(t.content_items[k, 1])
        h = maps.mix64(h ^ np.uint64(t.content_items[k, 0])) + count * np.uint64(0x9E3779B97F4A7C15)
    return maps.mix64(h)


@jit
def rehash_inbox_contents(t: Any) -> None:
    """Insert every inbox content that follows counting rules into an emptied hash table."""
    mask = np.int64(len(t.content_table) - 1)
    for content in range(1, t.meta[codes.META_CONTENTS]):
        start, n = t.contents[content, codes.CONTENT_START], t.contents[content, codes.CONTENT_COUNT]
        i = np.int64(inbox_hash(t, t.contents[content, codes.CONTENT_SLOT], start, n)) & mask
        while t.content_table[i] != -1:
            i = (i + 1) & mask
        t.content_table[i] = content


@jit
def intern_inbox_images(t: Any, content: Any) -> None:
    """Intern an inbox content's images under every permutation, and cache their ids."""
    if t.permuted_contents[content, 0] >= 0:
        return
    for g in range(t.meta[codes.META_PERMUTATIONS] - 1, -1, -1):
        start, n, free = inbox_items_span_and_free_place(t, content)
        for k in range(n):  # the images of the items, sorted by insertion
            message, count = t.permuted_messages[g, t.content_items[start + k, 0]], t.content_items[start + k, 1]
            j = k
            while j > 0 and t.content_items[free + j - 1, 0] > message:
                write_inbox_item(t, free + j, t.content_items[free + j - 1, 0], t.content_items[free + j - 1, 1])
                j -= 1
            write_inbox_item(t, free + j, message, count)
        image = intern_inbox_content(t, np.int64(t.permuted_slots[g, t.contents[content, codes.CONTENT_SLOT]]), n)
        t.permuted_contents[content, g] = image


@jit
def control_row_home(t: Any, row: Any) -> Any:
    """Return the home place of a control row in the hash table of control rows; it hashes two columns at a time."""
    h, columns = np.uint64(1469598103934665603), t.rows.shape[1]
    for c in range(0, columns - 1, 2):
        h = (h ^ np.uint64(codes.pair_key(t.rows[row, c], t.rows[row, c + 1]))) * np.uint64(0x9E3779B97F4A7C15)
        h ^= h >> np.uint64(29)
    return np.int64(maps.mix64(h + np.uint64(t.rows[row, columns - 1]))) & np.int64(len(t.row_table) - 1)


@jit
def intern_written_control_row(t: Any, written: Any) -> Any:
    """Intern the control row written at a free place; return its id."""
    fresh = t.meta[codes.META_ROWS]
    if written + 2 >= t.rows.shape[0]:
        arrays.abort_to_grow(t, codes.GROW_ROWS)
    if (fresh + 2) * 2 > len(t.row_table):
        arrays.abort_to_grow(t, codes.GROW_HASHES)
    # Look for an equal control row.
    mask, i = np.int64(len(t.row_table) - 1), control_row_home(t, written)
    columns = t.rows.shape[1]
    while t.row_table[i] != -1:
        other = t.row_table[i]
        same = True
        for c in range(columns):
            if t.rows[other, c] != t.rows[written, c]:
                same = False
                break
        if same:
            return np.int64(other)
        i = (i + 1) & mask
    # A new control row moves to the first free place, and starts without verdict, steps and images.
    if written != fresh:
        for c in range(columns):
            t.rows[fresh, c] = t.rows[written, c]
    t.row_table[i] = fresh
    t.row_info[fresh, codes.ROW_FLAGS] = 0
    t.row_info[fresh, codes.ROW_VIOLATED] = 0
    t.row_info[fresh, codes.ROW_START] = -1
    t.row_info[fresh, codes.ROW_IDENTITY] = fresh
    t.permuted_rows[fresh, 0] = -1
    t.meta[codes.META_ROWS] = fresh + 1
    return np.int64(fresh)


@jit
def set_view_representative(t: Any, row: Any) -> None:
    """Set the control row that represents this one in canonical keys: the same row without hidden columns."""
    hides = False
    fresh = t.meta[codes.META_ROWS]
    if fresh + 2 >= t.rows.shape[0]:
        arrays.abort_to_grow(t, codes.GROW_ROWS)
    for c in range(t.rows.shape[1]):
        hides |= t.hidden[c] != 0
        t.rows[fresh, c] = 0 if t.hidden[c] != 0 else t.rows[row, c]
    if hides:
        t.row_info[row, codes.ROW_IDENTITY] = intern_written_control_row(t, fresh)


@jit
def rehash_control_rows(t: Any) -> None:
    """Insert every control row into an emptied hash table."""
    mask = np.int64(len(t.row_table) - 1)
    for row in range(t.meta[codes.META_ROWS]):
        i = control_row_home(t, row)
        while t.row_table[i] != -1:
            i = (i + 1) & mask
        t.row_table[i] = row


@jit
def write_exploded_set_image(t: Any, row: Any, fresh: Any, images: Any, number: Any) -> None:
    """Write the image of a control row's exploded set; `images` is the permutation's first row of `permuted_shared`."""
    field, first = np.int64(t.exploded[number, 0]), np.int64(t.exploded[number, 1])
    t.rows[fresh, t.meta[codes.META_BOUNDS] + field] = 0
    for c in range(t.exploded[number, 2]):
        word, bit = np.int64(t.rows[row, first + c]), c << BITS_LOG2
        while word != 0:
            if word & 1:
                image = np.int64(t.permuted_shared[images + field, bit])
                t.rows[fresh, first + (image >> BITS_LOG2)] |= 1 << (image & (1 << BITS_LOG2) - 1)
            word, bit = word >> 1, bit + 1


@jit
def intern_row_images(t: Any, row: Any) -> None:
    """Intern a control row's images under every permutation, and cache their ids."""
    if t.permuted_rows[row, 0] >= 0:
        return
    base, slots = t.meta[codes.META_SLOT_BASE], t.meta[codes.META_SLOTS]
    bounds, fields = t.meta[codes.META_BOUNDS], len(t.permuted_shared) // t.meta[codes.META_PERMUTATIONS]
    for g in range(t.meta[codes.META_PERMUTATIONS] - 1, -1, -1):
        fresh = t.meta[codes.META_ROWS]
        if fresh + 2 >= t.rows.shape[0]:
            arrays.abort_to_grow(t, codes.GROW_ROWS)
        for c in range(t.rows.shape[1]):
            t.rows[fresh, c] = 0
        for c in range(bounds):
            t.rows[fresh, c] = t.rows[row, c]
        for c in range(bounds, bounds + fields):
            t.rows[fresh, c] = t.permuted_shared[g * fields + c - bounds, t.rows[row, c]]
            if t.hidden[c]:
                t.rows[fresh, c] = 0
        for k in range(len(t.exploded)):
            write_exploded_set_image(t, row, fresh, g * fields, k)
        for s in range(slots):
            local = t.rows[row, base + s]
            if local != 0:
                t.rows[fresh, base + t.permuted_slots[g, s]] = t.permuted_locals[local, g]
        t.permuted_rows[row, g] = intern_written_control_row(t, fresh)


@jit
def evaluate_row_properties(t: Any, row: Any) -> None:
    """Evaluate the properties of a control row, or file requests to Python."""
    base, slots = t.meta[codes.META_SLOT_BASE], t.meta[codes.META_SLOTS]
    bad = np.int64(0)
    flags = codes.EVALUATED_ROW
    missing = False
    # A property is about the state (kind 0), each replica (1) or each pair (2). `me` and `peer` are local states, or 0.
    for p in range(t.meta[codes.META_PROPERTIES]):
        kind = t.properties[p, 1]
        outer = slots if kind >= 1 else 1
        inner = slots if kind == 2 else 1
        for s in range(outer):
            me = np.int64(t.rows[row, base + s]) if kind >= 1 else np.int64(0)
            if kind >= 1 and me == 0:
                continue
            for q in range(inner):
                peer = np.int64(t.rows[row, base + q]) if kind == 2 else np.int64(0)
                if kind == 2 and (peer == 0 or q == s):
                    continue
                root = np.int64(t.properties[p, 0])
                leaf = walk_while_row_answers(t, root, row, me, peer)
                if leaf < 0 or t.nodes[leaf, codes.NODE_KIND] != codes.LEAF:
                    missing = True
                    arrays.append_request_to_python(t, codes.ASK_PATH, root, row, me, peer, codes.NONE)
                elif t.nodes[leaf, codes.NODE_A] == 0:
                    if t.properties[p, 2]:
                        flags |= codes.PRUNED_ROW
                    else:
                        flags |= codes.VIOLATING_ROW
                        bad |= np.int64(1) << np.int64(p)
    # Store the verdict only if every property has one.
    if not missing:
        set_view_representative(t, row)
        t.row_info[row, codes.ROW_VIOLATED] = bad
        t.row_info[row, codes.ROW_FLAGS] = flags


@jit
def evaluate_step_properties(t: Any, row: Any, target: Any) -> Any:
    """Evaluate the step properties for each replica that the step changes; return the step's flags, or MISSING."""
    flags = np.int64(0)
    base = t.meta[codes.META_SLOT_BASE]
    missing = False
    for p in range(t.meta[codes.META_STEP_PROPERTIES]):
        for s in range(t.meta[codes.META_SLOTS]):
            before, after = np.int64(t.rows[row, base + s]), np.int64(t.rows[target, base + s])
            if before == after or before == 0 or after == 0:
                continue
            root = np.int64(t.step_properties[p, 0])
            leaf = walk_while_row_answers(t, root, row, before, after)
            if leaf < 0 or t.nodes[leaf, codes.NODE_KIND] != codes.LEAF:
                missing = True
                arrays.append_request_to_python(t, codes.ASK_PATH, root, row, before, after, codes.NONE)
            elif t.nodes[leaf, codes.NODE_A] == 0:
                flags |= codes.STEP_PRUNED if t.step_properties[p, 1] else codes.step_flags_for_violation(p)
    return np.int64(codes.MISSING) if missing else flags

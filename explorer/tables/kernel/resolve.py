"""Resolution of cache misses: steps of control rows, message handlers of inboxes, and the rows that they lead to.

It computes table entries, and files requests for those that only Python can compute. It runs in one thread, between two
runs of the kernel. Each entry is computed once for each distinct key.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.native.compiling import inlined, prefetch
from kraftcheck.explorer.tables.kernel import arrays, codes, interning, jit, maps
from kraftcheck.explorer.tables.kernel.expand import expand
from kraftcheck.explorer.tables.kernel.tree_walk import ALL_SLOTS, ROW_INBOXES, walk_tree, walk_while_row_answers


@jit
def find_local_after_change_or_request(t: Any, local: Any, change: Any) -> Any:
    """Return the local state after a change of some fields, or MISSING after one request to Python."""
    key = codes.pair_key(change, local)
    return arrays.find_value_or_request(
        t, t.changed_locals, codes.META_LOCAL_CHANGES, key, codes.ASK_CHANGE, local, change
    )


@jit
def write_row_after_delta(t: Any, row: Any, delta: Any, place: Any) -> Any:
    """Write the control row after a delta to a free place; return 0, REFUSED or MISSING."""
    for c in range(t.rows.shape[1]):
        t.rows[place, c] = t.rows[row, c]
    missing, refused = False, False
    for k in range(t.deltas[delta, 2], t.deltas[delta, 2] + t.deltas[delta, 3]):
        column, amount = t.spendings[k, 0], t.spendings[k, 1]
        refused |= t.rows[row, column] + codes.larger(np.int64(amount), 1) > t.limits[column]
        t.rows[place, column] += amount
    if refused and not t.meta[codes.META_WATCH_BOUNDS]:
        return np.int64(codes.REFUSED)
    # `record_bound_disabled_step` needs the local states after a step that a bound disables.
    for k in range(t.deltas[delta, 0], t.deltas[delta, 0] + t.deltas[delta, 1]):
        column, value = np.int64(t.assignments[k, 0]), np.int64(t.assignments[k, 1])
        if column < 0:  # clear the columns of an exploded set
            for c in range(~column, ~column + value):
                t.rows[place, c] = 0
            continue
        if value < 0:
            value = find_local_after_change_or_request(t, t.rows[row, column], ~value)
            missing |= value < 0
        t.rows[place, column] = t.rows[place, column] & t.assignments[k, 2] | value
    if missing:
        return np.int64(codes.MISSING)
    return np.int64(codes.REFUSED) if refused else np.int64(0)


@inlined
def flags_with_next_row_check(t: Any, target: Any, flags: Any) -> Any:
    """Return a step's flags, with MUST_CHECK_NEXT_ROW unless the next control row is evaluated and violates nothing."""
    return np.int64(flags) | (
        0 if t.row_info[target, codes.ROW_FLAGS] == codes.EVALUATED_ROW else codes.MUST_CHECK_NEXT_ROW
    )


@jit
def clear_next_row_check_flag(t: Any, row: Any, ref: Any) -> None:
    """Clear MUST_CHECK_NEXT_ROW in the table entry `ref` of a step from control row `row`.

    See `is_next_row_evaluated_or_miss_recorded`.
    """
    if ref < 0:
        t.row_items[~ref, 2] &= codes.STEP_FLAGS_MASK
    else:
        value = maps.find_grouped_value(t.changed, np.int64(row), np.int64(ref))
        settled = value & ~codes.pack_row_and_flags(np.int64(0), codes.MUST_CHECK_NEXT_ROW)
        maps.store_grouped_value(t.changed, maps.grouped_key(np.int64(row), np.int64(ref)), settled)


@jit
def apply_delta_to_row(t: Any, row: Any, delta: Any) -> Any:
    """Compute the control row after `delta`, with step flags above its id; return REFUSED or MISSING without one."""
    key = maps.grouped_key(np.int64(row), np.int64(delta))
    found = maps.find_grouped_value(t.changed, np.int64(row), np.int64(delta))
    if found != codes.MISSING:
        return found
    if maps.is_map_full(t.meta[codes.META_DELTAS], t.changed):
        arrays.abort_to_grow(t, codes.GROW_MAP)
    fresh = t.meta[codes.META_ROWS]
    if fresh + 4 >= t.rows.shape[0]:
        arrays.abort_to_grow(t, codes.GROW_ROWS)
    result = write_row_after_delta(t, row, delta, fresh)
    if result == 0:
        target = interning.intern_written_control_row(t, fresh)
        flags = interning.evaluate_step_properties(t, row, target)
        result = (
            np.int64(flags)
            if flags < 0
            else codes.pack_row_and_flags(target, flags_with_next_row_check(t, target, flags))
        )
    if result != codes.MISSING:
        t.meta[codes.META_DELTAS] += 1
        maps.store_grouped_value(t.changed, key, result)
    return result


@jit
def list_internal_outcomes(t: Any, row: Any, start: Any, fresh: Any) -> Any:
    """List the outcomes of the internal actions of replicas and environment, as items from index `start` on.

    Their control rows are written, not yet interned, from `fresh` on; an item has the place of its row, or a sentinel.
    Returns the number of items, and whether an entry is missing.
    """
    base, slots = t.meta[codes.META_SLOT_BASE], t.meta[codes.META_SLOTS]
    # The slot behind the last one stands for the environment, with local state 0.
    n, written, missing = 0, 0, False
    for s in range(slots + 1):
        local = np.int64(t.rows[row, base + s]) if s < slots else np.int64(0)
        if s < slots and local == 0:
            continue
        roots = arrays.find_or_request_handlers(t, local, 0)
        if roots < 0:
            missing = True
            continue
        for k in range(t.lists[roots, 0], t.lists[roots, 0] + t.lists[roots, 1]):
            root = np.int64(t.list_nodes[k])
            if root < 0:  # the action reads inboxes, so no control row decides its outcomes
                if start + n + 2 >= len(t.row_items):
                    arrays.abort_to_grow(t, codes.GROW_ITEMS)
                t.row_items[start + n, 0] = ~root
                t.row_items[start + n, 1] = codes.NONE
                t.row_items[start + n, 2] = s if s < slots else codes.NONE
                n += 1
                continue
            # The tree's leaf has the outcomes. Write the control row that each leads to.
            leaf = walk_while_row_answers(t, root, row, local, 0)
            if leaf < 0 or t.nodes[leaf, codes.NODE_KIND] == codes.UNKNOWN:
                missing = True
                arrays.append_request_to_python(t, codes.ASK_PATH, root, row, local, 0, codes.NONE)
                continue
            first, count = t.nodes[leaf, codes.NODE_A], t.nodes[leaf, codes.NODE_OUTCOMES]
            if start + n + count + 2 >= len(t.row_items):
                arrays.abort_to_grow(t, codes.GROW_ITEMS)
            if fresh + written + count + 4 >= t.rows.shape[0]:
                arrays.abort_to_grow(t, codes.GROW_ROWS)
            for o in range(first, first + count):
                found = write_row_after_delta(t, row, np.int64(t.outcomes[o, codes.OUTCOME_DELTA]), fresh + written)
                t.row_items[start + n, 0] = o
                t.row_items[start + n, 1] = fresh + written if found == 0 else codes.EXHAUSTED
                t.row_items[start + n, 2] = codes.NONE
                missing |= found == codes.MISSING
                written += found == 0
                n += found == 0 or (found == codes.REFUSED and t.meta[codes.META_WATCH_BOUNDS] != 0)
    return n, missing


@jit
def drop_steps_repeated_in_other_pieces(t: Any, start: Any, count: Any) -> Any:
    """Drop the row items that repeat a step of another piece of their action; return their number."""
    n = start
    for k in range(start, start + count):
        piece = np.int64(0)
        if t.row_items[k, 1] >= 0:
            piece = np.int64(t.outcomes[t.row_items[k, 0], codes.OUTCOME_PIECE])
        is_repeated = False
        for j in range(start, n if piece else start):
            is_repeated |= (
                t.row_items[j, 1] == t.row_items[k, 1]
                and np.int64(t.outcomes[t.row_items[j, 0], codes.OUTCOME_PIECE]) == piece
            )
        if not is_repeated:
            t.row_items[n] = t.row_items[k]
            n += 1
    return n - start


@jit
def build_internal_steps(t: Any, row: Any) -> None:
    """List the steps of a control row that depend on no inbox: internal actions of the replicas and the environment."""
    start, fresh = t.meta[codes.META_ROW_ITEMS], t.meta[codes.META_ROWS]
    n, missing = list_internal_outcomes(t, row, start, fresh)
    # Intern the outcomes' control rows, which stand side by side, and evaluate the step properties. Prefetches overlap
    # the random reads of the hash table, then those of the rows found there.
    for k in range(start, start + n):
        if t.row_items[k, 1] >= 0:
            home = interning.control_row_home(t, np.int64(t.row_items[k, 1]))
            prefetch(t.row_table, home)
            t.row_items[k, 2] = home
    for k in range(start, start + n):
        if t.row_items[k, 1] >= 0:
            prefetch(t.rows, codes.larger(np.int64(t.row_table[t.row_items[k, 2]]), 0))
    for k in range(start, start + n):
        place = np.int64(t.row_items[k, 1])
        if place < 0:
            continue
        target = interning.intern_written_control_row(t, place)
        flags = interning.evaluate_step_properties(t, row, target)
        missing |= flags < 0
        t.row_items[k, 1] = target
        t.row_items[k, 2] = flags
    n = drop_steps_repeated_in_other_pieces(t, start, n) if t.meta[codes.META_PIECES] else n
    # Evaluate control rows that are new and certainly reached. Mark steps to the others as MUST_CHECK_NEXT_ROW.
    for k in range(start, start + n):
        target = np.int64(t.row_items[k, 1])
        # Without an operation no inbox can refuse the step.
        is_sure = target >= fresh and t.outcomes[t.row_items[k, 0], codes.OUTCOME_COUNT] == 0
        if is_sure and not t.row_info[target, codes.ROW_FLAGS] & codes.EVALUATED_ROW:
            interning.evaluate_row_properties(t, target)
        if target >= 0 and t.row_items[k, 2] >= 0:
            t.row_items[k, 2] = flags_with_next_row_check(t, target, np.int64(t.row_items[k, 2]))
    # Keep only a complete list; otherwise it is built again once Python has answered the requests.
    if missing:
        return
    t.row_info[row, codes.ROW_START] = start
    t.row_info[row, codes.ROW_COUNT] = n
    t.meta[codes.META_ROW_ITEMS] = start + n


@jit
def list_handler_outcomes(t: Any, local: Any, inbox: Any, groups: Any) -> None:
    """List the outcomes of a replica's handlers for the messages of an inbox."""
    start = t.meta[codes.META_BUNDLE_ITEMS]
    n = 0
    missing = False
    if maps.is_map_full(t.meta[codes.META_BUNDLES], t.bundles):
        arrays.abort_to_grow(t, codes.GROW_MAP)
    first_item = t.contents[inbox, codes.CONTENT_START]
    for k in range(first_item, first_item + t.contents[inbox, codes.CONTENT_COUNT]):
        if t.content_items[k, 1] <= 0:
            continue
        # Find the message's handlers, and the inbox without the message.
        message = np.int64(t.content_items[k, 0])
        roots = arrays.find_or_request_handlers(t, local, message + 1)
        if roots < 0:
            missing = True
            continue
        if t.lists[roots, 1] == 0:
            continue
        rest = interning.apply_inbox_operation(t, inbox, np.int64(t.messages[message, 0]), groups)
        if rest < 0:
            missing = True
            continue
        for r in range(t.lists[roots, 0], t.lists[roots, 0] + t.lists[roots, 1]):
            # If the tree is a single leaf, list its outcomes; otherwise list its root, which the kernel walks.
            node = t.list_nodes[r]
            if node < 0:
                node = ~node
            leaf = t.nodes[node, codes.NODE_KIND] == codes.LEAF
            first = t.nodes[node, codes.NODE_A] if leaf else node
            last = first + t.nodes[node, codes.NODE_OUTCOMES] if leaf else first + 1
            if start + n + (last - first) + 2 >= len(t.bundle_items):
                arrays.abort_to_grow(t, codes.GROW_BUNDLE_ITEMS)
            for o in range(first, last):
                t.bundle_items[start + n, 0] = o
                t.bundle_items[start + n, 1] = 0 if leaf else 1
                t.bundle_items[start + n, 2] = rest
                n += 1
    if missing:
        return
    t.meta[codes.META_BUNDLE_ITEMS] = start + n
    t.meta[codes.META_BUNDLES] += 1
    maps.store_value(t.bundles, codes.pair_key(local, inbox), codes.pack_start_and_length(start, n))


MOST_EXPANSIONS_BEFORE_PYTHON = 16


@jit
def resolve_miss(t: Any, worker: Any, i: Any, symmetric: Any, groups: Any) -> Any:
    """Compute the table entry of cache miss number `i`; return whether the entry exists now."""
    kind, a, b, c = worker.misses[i, 0], worker.misses[i, 1], worker.misses[i, 2], worker.misses[i, 3]
    # The arguments of each kind are those that `record_miss` of `arrays.py` was given.
    if kind == codes.MISS_STEPS:
        if t.row_info[a, codes.ROW_START] < 0:
            build_internal_steps(t, a)
        return t.row_info[a, codes.ROW_START] >= 0
    if kind == codes.MISS_BUNDLE:
        if maps.find_value(t.bundles, codes.pair_key(a, b)) == codes.MISSING:
            list_handler_outcomes(t, a, b, groups)
        return maps.find_value(t.bundles, codes.pair_key(a, b)) != codes.MISSING
    if kind == codes.MISS_CHANGED:
        return apply_delta_to_row(t, a, b) != codes.MISSING
    if kind == codes.MISS_OPERATED:
        return interning.apply_inbox_operation(t, a, b, groups) != codes.MISSING
    if kind == codes.MISS_EVALUATION:
        if not t.row_info[a, codes.ROW_FLAGS] & codes.EVALUATED_ROW:
            interning.evaluate_row_properties(t, a)
        if t.row_info[a, codes.ROW_FLAGS] == codes.EVALUATED_ROW:
            clear_next_row_check_flag(t, b, c)
        return t.row_info[a, codes.ROW_FLAGS] & codes.EVALUATED_ROW != 0
    if kind == codes.MISS_PATH:
        at = worker.misses[i, 4]
        leaf = walk_tree(t, t.rows, b, ALL_SLOTS, a, c, np.int64(0), worker.states, at, ROW_INBOXES)
        if leaf < 0 or t.nodes[leaf, codes.NODE_KIND] != codes.LEAF:
            arrays.append_request_to_python(t, codes.ASK_PATH, a, b, c, 0, at)
            return False
    # The last kinds occur under a symmetry only.
    if symmetric is not None:
        if kind == codes.MISS_ROW_IMAGES:
            interning.intern_row_images(t, a)
        elif kind == codes.MISS_CONTENT_IMAGES:
            interning.intern_inbox_images(t, a)
    return True


@jit
def resolve_misses(t: Any, worker: Any, symmetric: Any, groups: Any) -> Any:
    """Resolve the worker's cache misses from number `meta[META_RESOLVED]` on; return whether all entries exist now."""
    is_all = True
    while t.meta[codes.META_RESOLVED] < worker.stats[codes.STATS_MISSES]:
        is_all &= resolve_miss(t, worker, t.meta[codes.META_RESOLVED], symmetric, groups)
        t.meta[codes.META_RESOLVED] += 1
    worker.stats[codes.STATS_MISSES] = 0
    t.meta[codes.META_RESOLVED] = 0
    return is_all


@inlined
def must_expand_until_complete(t: Any, worker: Any, at: Any) -> Any:
    """Return whether to expand a state here until nothing is missing: inboxes are not empty, or steps unknown.

    Another state may still miss an operation or an evaluation; the next run over the batch finds it.
    """
    under_way = np.int64(0)
    for c in range(1, worker.states.shape[1]):
        under_way |= worker.states[at, c]
    return under_way != 0 or t.row_info[worker.states[at, 0], codes.ROW_START] < 0


@jit
def resolve_misses_of_states(t: Any, worker: Any, symmetric: Any, groups: Any) -> None:
    """Resolve the worker's cache misses, and those that the same states meet next.

    A state meets one miss after another: a handler's outcome, the next control row, its properties, an inbox. Each
    state in `waiting` is expanded here until it meets none, which saves further runs of the parallel kernel. States
    that need an answer from Python stay in `waiting`; their requests are in `asked`. `meta[META_SETTLED]` counts the
    states done, and `meta[META_WAITING]` those that stay.

    `symmetric` is None without a symmetry, and `groups` without operations on groups or channels; Numba then compiles
    nothing for these.
    """
    resolve_misses(t, worker, symmetric, groups)
    while t.meta[codes.META_SETTLED] < t.meta[codes.META_LEFT]:
        at, tries = np.int64(t.waiting[t.meta[codes.META_SETTLED]]), 0
        worker.stats[codes.STATS_MISSES] = 0
        while must_expand_until_complete(t, worker, at) and expand(t, worker, at) == codes.MISSING:
            tries += 1
            if not resolve_misses(t, worker, symmetric, groups) or tries == MOST_EXPANSIONS_BEFORE_PYTHON:
                t.waiting[t.meta[codes.META_WAITING]] = at
                t.meta[codes.META_WAITING] += 1
                break
        t.meta[codes.META_SETTLED] += 1

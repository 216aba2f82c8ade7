"""Successor generation for states with control rows, by table lookups alone.

The kernel knows no protocol: a state is a row of ids, and each step is a table entry. Threads share the tables and
only read them. A lookup that fails is a cache miss. The thread records it, and `resolve.py` fills the table after the
batch. For a worked example see `docs/kernel.md`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.native.compiling import inlined, prefetch, stack_array, unowned_array
from kraftcheck.explorer.tables.kernel import arrays, codes, jit, maps
from kraftcheck.explorer.tables.kernel.packing import hash_words, pack_canonical_row, partition_of_hash, xor_bits
from kraftcheck.explorer.tables.kernel.symmetry import write_least_image
from kraftcheck.explorer.tables.kernel.tree_walk import ALL_SLOTS, ROW_INBOXES, walk_tree

RECENT_PLACES = 1 << 12  # places of the recent-successors cache, which drops duplicates before the visited set
PREFETCH_DISTANCE = 8  # states between a prefetch and the read


@inlined
def find_row_after_delta(t: Any, worker: Any, row: Any, delta: Any) -> Any:
    """Look up the control row after `delta`, with step flags above its id; return REFUSED or MISSING without one."""
    if delta == 0:
        return row
    found = maps.find_grouped_value(t.changed, row, delta)
    if found == codes.MISSING:
        arrays.record_miss(worker, codes.MISS_CHANGED, row, delta, 0, 0)
    return found


@inlined
def find_inbox_after_operation(t: Any, worker: Any, inbox: Any, op: Any) -> Any:
    """Look up the inbox content after network operation `op`; return REFUSED if forbidden, MISSING if unknown."""
    found = maps.find_grouped_value(t.operated, inbox, op)
    if found == codes.MISSING:
        arrays.record_miss(worker, codes.MISS_OPERATED, inbox, op, 0, 0)
    return found


@inlined
def write_successor_inboxes(t: Any, worker: Any, at: Any, n: Any, outcome: Any, slot: Any, inbox: Any) -> Any:
    """Write the inbox columns of successor `n`; return False where an operation is refused or missing.

    `inbox` is the actor's inbox before the outcome's messages are sent; NONE leaves it as it is.
    """
    states, succ = worker.states, worker.succ
    for c in range(1, states.shape[1]):
        succ[n, 2 + c] = states[at, c]
    if inbox >= 0:
        succ[n, 3 + slot] = inbox
    first = t.outcomes[outcome, codes.OUTCOME_FIRST]
    for k in range(first, first + t.outcomes[outcome, codes.OUTCOME_COUNT]):
        op = np.int64(t.outcome_operations[k])
        place = 3 + t.operations[op, 0]
        after = find_inbox_after_operation(t, worker, np.int64(succ[n, place]), op)
        if after < 0:
            return False
        succ[n, place] = after
        if t.inbox_codes[after] < 0:
            worker.stats[codes.STATS_NOTABLE] = 1
    return True


@inlined
def write_successor(
    t: Any, worker: Any, at: Any, n: Any, outcome: Any, goal: Any, ref: Any, slot: Any, inbox: Any
) -> Any:
    """Write the successor of an outcome at index `n`; return the next index, or BUFFER_FULL.

    The next control row `goal` has the step's flags above it; `ref` is its table entry.
    See `is_next_row_evaluated_or_miss_recorded`.
    The content `inbox` replaces the actor's inbox; NONE leaves it as it is.
    """
    succ = worker.succ
    if n >= len(succ) - 1:
        return codes.BUFFER_FULL
    target, found = goal & codes.ROW_ID_MASK, goal >> codes.STEP_FLAGS_SHIFT
    flags = (found & codes.STEP_FLAGS_MASK) | t.outcomes[outcome, codes.OUTCOME_STEP_FLAGS]
    if flags:
        worker.stats[codes.STATS_NOTABLE] = 1
    succ[n, 0] = t.outcomes[outcome, codes.OUTCOME_ACTION]
    succ[n, 1] = flags
    succ[n, 2] = target
    if not write_successor_inboxes(t, worker, at, n, outcome, slot, inbox):
        return n
    # A control row is evaluated only once the step to it is certain: an inbox operation may still refuse the step, and
    # properties must not be evaluated on a control row that no state has.
    row = np.int64(worker.states[at, 0])
    if found & codes.MUST_CHECK_NEXT_ROW and not arrays.is_next_row_evaluated_or_miss_recorded(
        t, worker, target, row, ref
    ):
        return n
    return n + 1


@inlined
def record_label_blocked_by_bound(worker: Any, n: Any, outcome_label: Any) -> Any:
    """Record the label of a step that only an exhausted bound disables; return `n`, or BUFFER_FULL."""
    count = worker.stats[codes.STATS_BLOCKED]
    if count >= len(worker.blocked):
        return codes.BUFFER_FULL
    worker.blocked[count] = outcome_label
    worker.stats[codes.STATS_BLOCKED] = count + 1
    return n


@jit
def record_bound_disabled_step(
    t: Any, worker: Any, at: Any, n: Any, outcome: Any, row: Any, slot: Any, inbox: Any
) -> Any:
    """Record a step that only an exhausted bound disables, if it would change the state; return `n`, or BUFFER_FULL.

    `inbox` would replace the actor's inbox; NONE leaves it as it is.
    """
    states, succ = worker.states, worker.succ
    if n >= len(succ) - 1:
        return codes.BUFFER_FULL
    # Row `n` is scratch here: it shows whether an inbox refuses the step, and the next successor overwrites it.
    if not write_successor_inboxes(t, worker, at, n, outcome, slot, inbox):
        return n
    changes = False
    for c in range(1, states.shape[1]):
        changes |= succ[n, 2 + c] != states[at, c]
    delta = t.outcomes[outcome, codes.OUTCOME_DELTA]
    last = t.deltas[delta, 0] + t.deltas[delta, 1]
    for k in range(t.deltas[delta, 0], last):
        column, value = np.int64(t.assignments[k, 0]), np.int64(t.assignments[k, 1])
        if column >= 0:
            if value < 0:
                value = maps.find_value(t.changed_locals, codes.pair_key(~value, np.int64(t.rows[row, column])))
            changes |= t.rows[row, column] & t.assignments[k, 2] | value != t.rows[row, column]
            continue
        for c in range(~column, ~column + value):  # an exploded set loses all elements but those assigned after this
            kept = np.int64(0)
            for later in range(k + 1, last):
                kept = np.int64(t.assignments[later, 1]) if t.assignments[later, 0] == c else kept
            changes |= t.rows[row, c] != kept
    return record_label_blocked_by_bound(worker, n, t.outcomes[outcome, codes.OUTCOME_ACTION]) if changes else n


@inlined
def expand_outcome(t: Any, worker: Any, at: Any, n: Any, outcome: Any, row: Any, slot: Any, rest: Any) -> Any:
    """Look up an outcome's next control row, and write the successor; `rest` is the inbox after consumption."""
    delta = np.int64(t.outcomes[outcome, codes.OUTCOME_DELTA])
    goal = find_row_after_delta(t, worker, row, delta)
    inbox = rest if t.outcomes[outcome, codes.OUTCOME_CONSUMES] else codes.NONE
    if goal < 0:
        if goal == codes.REFUSED and t.meta[codes.META_WATCH_BOUNDS]:
            return record_bound_disabled_step(t, worker, at, n, outcome, row, slot, inbox)
        return n
    return write_successor(t, worker, at, n, outcome, goal, delta, slot, inbox)


@jit
def expand_decision_tree(
    t: Any, worker: Any, at: Any, n: Any, node: Any, row: Any, local: Any, slot: Any, rest: Any
) -> Any:
    """Walk a decision tree and write the successors of the outcomes at its leaf."""
    leaf = walk_tree(t, t.rows, row, ALL_SLOTS, node, local, np.int64(0), worker.states, at, ROW_INBOXES)
    if leaf < 0 or t.nodes[leaf, codes.NODE_KIND] != codes.LEAF:
        arrays.record_miss(worker, codes.MISS_PATH, node, row, local, at)
        return n
    first = np.int64(t.nodes[leaf, codes.NODE_A])
    for outcome in range(first, first + t.nodes[leaf, codes.NODE_OUTCOMES]):
        n = expand_outcome(t, worker, at, n, outcome, row, slot, rest)
        if n == codes.BUFFER_FULL:
            break
    return n


@jit
def expand_internal_actions(t: Any, worker: Any, at: Any, n: Any, row: Any) -> Any:
    """Write the successors of the control row's own steps: internal actions of the replicas and of the environment."""
    first = t.row_info[row, codes.ROW_START]
    if first < 0:
        arrays.record_miss(worker, codes.MISS_STEPS, row, 0, 0, 0)
        return n
    for k in range(first, first + t.row_info[row, codes.ROW_COUNT]):
        ref, target = np.int64(t.row_items[k, 0]), np.int64(t.row_items[k, 1])
        extra = np.int64(t.row_items[k, 2])  # the step's flags, or the slot of an action that reads inboxes
        if target >= 0:
            goal = codes.pack_row_and_flags(target, extra)
            n = write_successor(t, worker, at, n, ref, goal, ~np.int64(k), codes.NONE, codes.NONE)
        elif target == codes.EXHAUSTED:
            n = record_bound_disabled_step(t, worker, at, n, ref, row, codes.NONE, codes.NONE)
        else:
            local = np.int64(t.rows[row, t.meta[codes.META_SLOT_BASE] + extra]) if extra >= 0 else np.int64(0)
            n = expand_decision_tree(t, worker, at, n, ref, row, local, extra, codes.NONE)
        if n == codes.BUFFER_FULL:
            break
    return n


@jit
def expand_inbox(t: Any, worker: Any, at: Any, n: Any, row: Any, slot: Any, inbox: Any) -> Any:
    """Write the successors of one replica's message handlers, for the messages in its inbox."""
    local = np.int64(t.rows[row, t.meta[codes.META_SLOT_BASE] + slot])
    if local == 0:
        return n
    bundle = maps.find_value(t.bundles, codes.pair_key(local, inbox))
    if bundle < 0:
        arrays.record_miss(worker, codes.MISS_BUNDLE, local, inbox, 0, 0)
        return n
    first, last = codes.span_start_and_end(bundle)
    for k in range(first, last):
        ref, rest = np.int64(t.bundle_items[k, 0]), np.int64(t.bundle_items[k, 2])
        if t.bundle_items[k, 1]:
            n = expand_decision_tree(t, worker, at, n, ref, row, local, slot, rest)
        else:
            n = expand_outcome(t, worker, at, n, ref, row, slot, rest)
        if n == codes.BUFFER_FULL:
            break
    return n


@jit
def expand_network(t: Any, worker: Any, at: Any, n: Any, row: Any, slot: Any, inbox: Any) -> Any:
    """Write the successors of the network's own steps on each message of an inbox."""
    first = t.contents[inbox, codes.CONTENT_START]
    for k in range(first, first + t.contents[inbox, codes.CONTENT_COUNT]):
        if t.content_items[k, 1] <= 0:
            continue
        for j in range(t.meta[codes.META_NETWORK_STEPS]):
            goal = find_row_after_delta(t, worker, row, np.int64(t.network_steps[j, 1]))
            op = np.int64(t.network_operations[j, t.content_items[k, 0]])
            after = find_inbox_after_operation(t, worker, inbox, op)
            outcome = np.int64(t.network_steps[j, 0])
            if goal >= 0 and after >= 0:
                n = write_successor(t, worker, at, n, outcome, goal, np.int64(t.network_steps[j, 1]), slot, after)
            elif goal == codes.REFUSED and after >= 0 and after != inbox and t.meta[codes.META_WATCH_BOUNDS]:
                n = record_label_blocked_by_bound(worker, n, t.outcomes[outcome, codes.OUTCOME_ACTION])
            if n == codes.BUFFER_FULL:
                return n
    return n


@jit
def expand(t: Any, worker: Any, at: Any) -> Any:
    """Write all successors of a state to `worker.succ`, as rows (action, flags, control row, inboxes ...).

    Returns their number, MISSING after a cache miss, or BUFFER_FULL where the buffer has no room.
    """
    # The successors are a union of lists, each memoized by its own key: by the control row, and by each pair of a local
    # state and its inbox. A state that was never seen mostly consists of known keys, so no user code runs for it.
    # The loop goes on after a miss, so that one pass records all misses of the state that do not depend on each other.
    row = np.int64(worker.states[at, 0])
    worker.stats[codes.STATS_MISSED] = 0
    worker.stats[codes.STATS_BLOCKED] = 0
    worker.stats[codes.STATS_NOTABLE] = 0
    n = expand_internal_actions(t, worker, at, np.int64(0), row)
    for slot in range(t.meta[codes.META_SLOTS]):
        inbox = np.int64(worker.states[at, 1 + slot])
        if t.inbox_codes[inbox] < 0:
            worker.stats[codes.STATS_NOTABLE] = 1
        if inbox != 0 and n != codes.BUFFER_FULL:
            n = expand_inbox(t, worker, at, n, row, slot, inbox)
        if inbox != 0 and n != codes.BUFFER_FULL and t.meta[codes.META_NETWORK_STEPS]:
            n = expand_network(t, worker, at, n, row, slot, inbox)
    return codes.MISSING if n != codes.BUFFER_FULL and worker.stats[codes.STATS_MISSED] else n


@jit
def order_by_control_row(rows: Any, shift: Any, firsts: Any, order: Any) -> None:
    """Sort state indices into `order` by the high bits of the control rows' ids (counting sort); `firsts` is zeros."""
    rows, firsts, order = unowned_array(rows), unowned_array(firsts), unowned_array(order)
    for i in range(len(rows)):
        firsts[(rows[i, 0] >> shift) + 1] += 1
    for b in range(1, len(firsts)):
        firsts[b] += firsts[b - 1]
    for i in range(len(rows)):
        b = rows[i, 0] >> shift
        order[firsts[b]] = i
        firsts[b] += 1


@inlined
def prefetch_row(t: Any, worker: Any, at: Any) -> None:
    """Prefetch the table entries of a state's control row."""
    row = np.int64(worker.states[at, 0])
    prefetch(t.row_info, row)
    prefetch(t.rows, row)
    group = maps.group_start(t.changed, row)
    prefetch(t.changed, group)
    prefetch(t.changed, group + maps.GROUP_PLACES // 2)


@inlined
def prefetch_inboxes(t: Any, worker: Any, at: Any) -> None:
    """Prefetch the table entries of a state's inboxes."""
    row = np.int64(worker.states[at, 0])
    prefetch(t.row_items, codes.larger(t.row_info[row, codes.ROW_START], 0))
    for slot in range(t.meta[codes.META_SLOTS]):
        inbox = np.int64(worker.states[at, 1 + slot])
        group = maps.group_start(t.operated, inbox)
        prefetch(t.operated, group)
        prefetch(t.operated, group + maps.GROUP_PLACES // 2)
        if inbox != 0:
            local = np.int64(t.rows[row, t.meta[codes.META_SLOT_BASE] + slot])
            prefetch(t.bundles, maps.home_of_key(t.bundles, codes.pair_key(local, inbox)))


@inlined
def prefetch_later_states(t: Any, worker: Any, which: Any, i: Any) -> None:
    """Prefetch the table entries of the states after number `i` of the batch, in three stages."""
    # Each stage reads addresses that the stage before has prefetched: the state, its control row, its inboxes. Loads
    # that overlap cost about as much as one.
    if i + 3 * PREFETCH_DISTANCE < len(which):
        prefetch(worker.states, which[i + 3 * PREFETCH_DISTANCE])
    if i + 2 * PREFETCH_DISTANCE < len(which):
        prefetch_row(t, worker, which[i + 2 * PREFETCH_DISTANCE])
    if i + PREFETCH_DISTANCE < len(which):
        prefetch_inboxes(t, worker, which[i + PREFETCH_DISTANCE])


@inlined
def has_hidden_columns(t: Any) -> Any:
    """Return whether a VIEW hides columns of control rows."""
    hides = False
    for c in range(t.rows.shape[1]):
        hides |= t.hidden[c] != 0
    return hides


@inlined
def packed_value_of_id(t: Any, hides: Any, f: Any, field: Any) -> Any:
    """Return the packed value of id `field` in field number `f`: 0 is the control row, all others are inboxes."""
    if f > 0:
        return np.uint64(t.inbox_codes[field] & codes.CODE_MASK)
    return np.uint64(t.row_info[field, codes.ROW_IDENTITY]) if hides else np.uint64(field)


@inlined
def pack_successor_key_from_source_key(
    t: Any, packing: Any, worker: Any, at: Any, k: Any, hides: Any, words: Any
) -> Any:
    """Write the packed key of successor `k` to words[1], given its source's key in words[0]; return if they differ."""
    states, succ = worker.states, worker.succ
    for w in range(words.shape[1]):
        words[1, w] = words[0, w]
    differ = False
    for f in range(len(packing.position)):
        before, after = np.int64(states[at, f]), np.int64(succ[k, 2 + f])
        if before != after:
            difference = packed_value_of_id(t, hides, f, before) ^ packed_value_of_id(t, hides, f, after)
            xor_bits(words, 1, packing.position[f], packing.width[f], difference)
            differ |= difference != 0
    return differ


@inlined
def test_and_set_recent_successor(recent: Any, words: Any, k: Any, place: Any) -> Any:
    """Return whether a place of the recent-successors cache holds the packed words[k]; store words[k] there."""
    same = True
    for w in range(words.shape[1]):
        same &= recent[place, w] == words[k, w]
        recent[place, w] = words[k, w]
    return same


@inlined
def unowned_array_or_none(images: Any) -> Any:
    """Return an array without an owner, or None for None."""
    if images is None:
        return None
    return unowned_array(images)


@inlined
def write_canonical_images(t: Any, worker: Any, n: Any, images: Any) -> Any:
    """Write the canonical images of `n` successors; return `n`, or MISSING where an image is not cached.

    `images` has room for one image more, as scratch. Without a symmetry it is None, and Numba compiles nothing for it.
    """
    if images is None:
        return n
    known = True
    for k in range(n):
        known &= write_least_image(t, worker, worker.succ, k, 2, images, k, images[len(images) - 1])
    return n if known else codes.MISSING


@inlined
def forget_recent_successors(recent: Any) -> None:
    """Clear the recent-successors cache; packed words are never all ones."""
    for place in range(recent.shape[0]):
        for w in range(recent.shape[1]):
            recent[place, w] = ~np.uint64(0)


@inlined
def append_state_unless_recent(found: Any, recent: Any, words: Any, k: Any, rows: Any, row: Any, column: Any) -> Any:
    """Append the state rows[row, column:] to its partition; return the partition's count, or 0 for a duplicate."""
    h = hash_words(words, k)
    if test_and_set_recent_successor(recent, words, k, np.int64(h & np.uint64(RECENT_PLACES - 1))):
        return np.int64(0)
    p = partition_of_hash(h)
    at = found.counts[p]
    for c in range(found.rows.shape[2]):
        found.rows[p, at, c] = rows[row, column + c]
    for w in range(words.shape[1]):
        found.words[p, at, w] = words[k, w]
    found.counts[p] = at + 1
    return np.int64(at + 1)


@inlined
def append_successor(
    t: Any, packing: Any, hides: Any, worker: Any, found: Any, at: Any, k: Any, images: Any, words: Any, recent: Any
) -> Any:
    """Pack successor `k` to words[1] and append it to the partition that owns it; return that partition's count.

    Returns 0 for a self-loop and for a successor in the recent-successors cache. words[0] holds the packed state.
    """
    if images is None:
        if not pack_successor_key_from_source_key(t, packing, worker, at, k, hides, words):
            return np.int64(0)
    else:
        pack_canonical_row(t, packing, images, k, 0, words, 1)
    return append_state_unless_recent(found, recent, words, 1, worker.succ, k, 2)


@jit
def expand_batch(t: Any, worker: Any, found: Any, packing: Any, which: Any, deadlocks: Any, images: Any) -> None:
    """Expand the worker's states with these indices, each completely or not at all.

    Appends successors to `found`. Writes the number of states done to `stats[STATS_DONE]`. The number is less than all
    where an array is full; `stats[STATS_CODE]` names that array. For `images` see `write_canonical_images`.
    """
    states, succ, stats, which = worker.states, worker.succ, worker.stats, unowned_array(which)
    # The small cache `recent` drops duplicates that recur soon, before they cost a place in the large buffers.
    words, recent = stack_array(2, found.words.shape[2]), stack_array(RECENT_PLACES, found.words.shape[2])
    forget_recent_successors(recent)
    best = unowned_array_or_none(images)
    room, fullest, hides = found.rows.shape[1], np.int64(0), has_hidden_columns(t)
    collects = len(worker.collected) > 0
    stats[codes.STATS_CODE] = codes.OK
    for p in range(len(found.counts)):
        fullest = codes.larger(fullest, found.counts[p])
    for i in range(len(which)):
        prefetch_later_states(t, worker, which, i)
        # Look up all successors, and under symmetry their images. A miss drops them all: the state is expanded again
        # once the miss is resolved, and its steps must be counted once. The miss is not resolved here: threads may read
        # the tables without locks because no thread writes them, and one call from Python serves a whole batch.
        n = write_canonical_images(t, worker, expand(t, worker, which[i]), best)
        if n == codes.MISSING:
            arrays.append_retried_state(worker, which[i])
            continue
        # Stop before an array that might have no room for all of them.
        full = len(worker.collected) > 0 and stats[codes.STATS_COLLECTED] + n > len(worker.collected)
        if n == codes.BUFFER_FULL or fullest + n >= room or full:
            arrays.record_early_batch_end(worker, i, codes.MANY_SUCCESSORS if n == codes.BUFFER_FULL else codes.NO_ROOM)
            return
        # Count the steps, record violations, and give each successor to the partition that owns it.
        if n == 0 and deadlocks:
            arrays.record_deadlock(worker, which[i])
        notable = stats[codes.STATS_NOTABLE] != 0
        if images is None and n > 0:
            pack_canonical_row(t, packing, states, which[i], 0, words, 0)
        for k in range(n):
            if not notable:
                worker.fired[succ[k, 0]] += 1
            pruned = notable and not arrays.count_step_and_record_violations(t, worker, which[i], k)
            if collects:
                arrays.collect_successor_for_python(t, worker, which[i], k, pruned)
            if pruned:
                continue
            count = append_successor(t, packing, hides, worker, found, which[i], k, best, words, recent)
            fullest = codes.larger(fullest, count)
        stats[codes.STATS_GENERATED] += n
    stats[codes.STATS_DONE] = len(which)


@jit
def find_predecessor(t: Any, worker: Any, targets: Any) -> Any:
    """Return the index of the first of the worker's states with one of the targets as a successor, or -1."""
    succ, stats, targets = worker.succ, worker.stats, unowned_array(targets)
    for i in range(len(worker.states)):
        n = expand(t, worker, i)
        if n < 0:
            stats[codes.STATS_CODE] = codes.MANY_SUCCESSORS if n == codes.BUFFER_FULL else codes.OK
            arrays.append_retried_state(worker, i)
        for k in range(n):
            for target in range(len(targets)):
                same = True
                for c in range(targets.shape[1]):
                    same &= succ[k, 2 + c] == targets[target, c]
                if same:
                    return i
    return -1

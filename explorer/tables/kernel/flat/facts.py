"""Table lookups and invariants of flat states, and a worker's memo of facts about the shared fields and local states.

A failed lookup is recorded; in a serial run it fills the table or files a request to Python.

Flat states seldom repeat as a whole, but the shared fields with one or two local states do. Each worker numbers the
contents of the shared fields that it meets, and keys facts by that number and the local states. When the numbers run
out it clears the memo and starts again. Where the contents themselves seldom repeat, facts are keyed by local states
alone. Invariants and constraints are evaluated once for each new state.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.native.compiling import inlined, unowned_array
from kraftcheck.explorer.tables.kernel import arrays, codes, interning, jit, maps
from kraftcheck.explorer.tables.kernel.resolve import list_handler_outcomes
from kraftcheck.explorer.tables.kernel.tree_walk import find_child_for_answer, walk_tree


@jit
def intern_control_row(t: Any, rows: Any, row: Any, known: Any) -> Any:
    """Intern the control row in the first `known` columns of a row; return its id."""
    fresh = t.meta[codes.META_ROWS]
    if fresh + 4 >= t.rows.shape[0]:
        arrays.abort_to_grow(t, codes.GROW_ROWS)
    for c in range(t.rows.shape[1]):
        t.rows[fresh, c] = rows[row, c] if c < known else 0
    return interning.intern_written_control_row(t, fresh)


@jit
def intern_rows_of_flat_states(t: Any, flat: Any, first: Any, ids: Any) -> Any:
    """Intern the control rows of flat states from number `first` on; return the number done when the table is full."""
    flat, ids = unowned_array(flat), unowned_array(ids)
    for i in range(first, len(flat)):
        if t.meta[codes.META_ROWS] + 4 >= t.rows.shape[0] or (t.meta[codes.META_ROWS] + 4) * 2 > len(t.row_table):
            return i
        ids[i] = intern_control_row(t, flat, np.int64(i), flat.shape[1])
        interning.set_view_representative(t, np.int64(ids[i]))
    return len(flat)


@jit
def request_tree_result(t: Any, rows: Any, row: Any, root: Any, me: Any, peer: Any, at: Any) -> None:
    """Request the result of a decision tree; Python reads the state as an interned control row."""
    interned = intern_control_row(t, rows, row, codes.first_inbox_column_of_flat_state(t, rows.shape[1]))
    arrays.append_request_to_python(t, codes.ASK_PATH, root, interned, me, peer, at)


@inlined
def find_decision_tree_leaf(
    t: Any, worker: Any, serial: Any, rows: Any, row: Any, root: Any, me: Any, peer: Any, at: Any
) -> Any:
    """Walk a decision tree; return its leaf or MISSING. `at` is the state whose inboxes may be read, or NONE."""
    slots, inboxes = (
        codes.slot_count_of_flat_state(t, rows.shape[1]),
        codes.first_inbox_column_of_flat_state(t, rows.shape[1]),
    )
    leaf = walk_tree(t, rows, row, slots, root, me, peer, worker.states, at, inboxes)
    if leaf < 0 or t.nodes[leaf, codes.NODE_KIND] != codes.LEAF:
        worker.stats[codes.STATS_MISSED] = 1
        leaf = codes.MISSING
        if serial:
            request_tree_result(t, rows, row, root, me, peer, at)
    return leaf


@inlined
def internal_action_list_id(t: Any, worker: Any, serial: Any, local: Any) -> Any:
    """Return the id of the list of tree nodes for a replica's internal actions; a negative number if unknown."""
    found = np.int64(t.own_roots[local])
    if found < 0:
        worker.stats[codes.STATS_MISSED] = 1
        if serial:
            arrays.find_or_request_handlers(t, local, np.int64(0))
    return found


@inlined
def inbox_after_operation(t: Any, worker: Any, serial: Any, inbox: Any, op: Any) -> Any:
    """Return an inbox's content after network operation `op`: REFUSED if forbidden, MISSING if unknown."""
    found = maps.find_grouped_value(t.operated, inbox, op)
    if found == codes.MISSING and serial:
        found = interning.apply_inbox_operation(t, inbox, op, True)
    if found == codes.MISSING:
        worker.stats[codes.STATS_MISSED] = 1
    return found


@inlined
def handler_outcome_span(t: Any, worker: Any, serial: Any, local: Any, inbox: Any) -> Any:
    """Return the span of `bundle_items` with a local state's handlers for its inbox, or a negative number."""
    found = maps.find_value(t.bundles, codes.pair_key(local, inbox))
    if found < 0 and serial:
        list_handler_outcomes(t, local, inbox, True)
        found = maps.find_value(t.bundles, codes.pair_key(local, inbox))
    if found < 0:
        worker.stats[codes.STATS_MISSED] = 1
    return found


# Kinds of fact: properties that hold (of one replica or the state; of two); a step that violates nothing; the span of
# internal actions that may be enabled.
FACT_HOLDS_OF_ONE, FACT_HOLDS_OF_PAIR, FACT_STEP_HOLDS, FACT_ENABLED_ACTIONS = 0, 1, 2, 3
LOCAL_BITS, KIND_BITS = 24, 2  # of a fact's key; the other bits are the number of the shared fields
MOST_SHARED_CONTENT_NUMBERS = 1 << (64 - 2 * LOCAL_BITS - KIND_BITS)  # numbered contents of the shared fields
LEAST_MEMO_PLACES, MOST_MEMO_PLACES = 1 << 14, 1 << 20  # places of the memo, a direct-mapped cache
SAFE_PAIR_LOCALS = 1 << 10  # local ids below this have a place in the pair table `safe_pairs`
LISTED_NODES_CAPACITY = 1 << 18  # places of `listed`, for tree nodes of internal actions
LEAST_USES_A_SHARED_NUMBER = 8  # mean uses of a number of the shared fields from which numbering pays

# Places in `fact_counts`.
(
    AT_NUMBERS,  # numbered contents of the shared fields
    AT_NUMBER_LOOKUPS,  # lookups of a number
    AT_LISTED_NODES,  # used places of `listed`
    AT_CONTENTS_SELDOM_REPEAT,  # whether the contents repeat too seldom to number them
    AT_NUMBERS_RAN_OUT,  # whether the numbers ran out
    AT_CURRENT_NUMBER,  # number of the shared fields of the state being expanded
    AT_REPLACED_FACTS,  # facts that overwrote another one
    AT_READS_SHARED,  # from here on, by kind of fact: whether a fact of that kind has read shared fields
) = range(8)
FACT_COUNTER_PLACES = AT_READS_SHARED + (1 << KIND_BITS)

READS_OTHER_PARTS = np.int64(-5)  # in place of a node: the tree reads another part of the state
NO_SHARED_NUMBER = np.int64(0)  # of shared fields: facts are keyed without their contents


@jit
def clear_shared_contents_ids_and_facts(worker: Any) -> None:
    """Clear the numbers of the shared fields' contents, and all facts."""
    counts = worker.fact_counts
    counts[AT_CONTENTS_SELDOM_REPEAT] = counts[AT_NUMBER_LOOKUPS] < LEAST_USES_A_SHARED_NUMBER * counts[AT_NUMBERS]
    counts[AT_NUMBERS] = counts[AT_NUMBER_LOOKUPS] = counts[AT_NUMBERS_RAN_OUT] = 0
    worker.shared_places[:] = 0
    clear_facts(worker)


@jit
def clear_facts(worker: Any) -> None:
    """Clear all facts from the memo, and the lists of internal actions in `worker.listed`."""
    worker.fact_counts[AT_LISTED_NODES] = 0
    worker.facts[:] = 0


@jit
def shared_contents_id(t: Any, worker: Any, rows: Any, row: Any) -> Any:
    """Return the number of the contents of a flat state's shared fields, or NO_SHARED_NUMBER."""
    first, last = t.meta[codes.META_BOUNDS], t.meta[codes.META_SLOT_BASE]
    counts, places, contents = worker.fact_counts, worker.shared_places, worker.shared_contents
    if first == last or counts[AT_CONTENTS_SELDOM_REPEAT]:
        return NO_SHARED_NUMBER
    counts[AT_NUMBER_LOOKUPS] += 1
    # Look these contents up by their hash.
    h = np.uint64(0)
    for c in range(first, last):
        h = (h ^ np.uint64(rows[row, c])) * np.uint64(0x9E3779B97F4A7C15)
        h ^= h >> np.uint64(29)
    mask = np.int64(len(places) - 1)
    i = np.int64(maps.mix64(h)) & mask
    while places[i] != 0:
        number = np.int64(places[i])
        same = True
        for c in range(first, last):
            same &= contents[number, c - first] == rows[row, c]
        if same:
            return number
        i = (i + 1) & mask
    # New contents take the next number, if one is left.
    number = counts[AT_NUMBERS] + 1
    if number == len(contents):
        counts[AT_NUMBERS_RAN_OUT] = 1
        return NO_SHARED_NUMBER
    counts[AT_NUMBERS] = places[i] = number
    for c in range(first, last):
        contents[number, c - first] = rows[row, c]
    return number


@inlined
def shared_fields_number_for_fact(worker: Any, kind: Any, shared: Any) -> Any:
    """Return the shared fields' number for a fact's key; NO_SHARED_NUMBER if no fact of this kind reads them."""
    return shared if worker.fact_counts[AT_READS_SHARED + kind] else NO_SHARED_NUMBER


@inlined
def fact_key(kind: Any, number: Any, me: Any, peer: Any) -> Any:
    """Return the memo key of a fact: its kind, the shared fields' number, and one or two local states."""
    return (((number << KIND_BITS) | kind) << (2 * LOCAL_BITS)) | (me << LOCAL_BITS) | peer


@inlined
def fact_place(facts: Any, key: Any) -> Any:
    """Return the memo place of a key; all bits of the key are hashed."""
    h = np.uint64(key ^ (key >> LOCAL_BITS)) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(((h >> np.uint64(32)) * np.uint64(len(facts))) >> np.uint64(32))


@inlined
def get_memoized_fact(worker: Any, key: Any) -> Any:
    """Return the memoized fact of a key, or 0."""
    place = fact_place(worker.facts, key)
    return worker.facts[place, 1] if worker.facts[place, 0] == key else np.int64(0)


@inlined
def memoize_fact(worker: Any, key: Any, fact: Any) -> None:
    """Memoize the fact of a key; it overwrites a fact at the same place."""
    place = fact_place(worker.facts, key)
    worker.fact_counts[AT_REPLACED_FACTS] += worker.facts[place, 0] != 0 and worker.facts[place, 0] != key
    worker.facts[place, 0] = key
    worker.facts[place, 1] = fact


@inlined
def fact_of_span(packed: Any) -> Any:
    """Encode a packed span as a fact: an odd number, since 0 means no fact."""
    return packed << 1 | 1


@inlined
def span_of_fact(fact: Any) -> Any:
    """Return the packed span that a fact encodes."""
    return fact >> 1


@jit
def copy_facts(facts: Any, more: Any) -> None:
    """Copy all facts to a larger memo."""
    for n in range(len(facts)):
        if facts[n, 0] != 0:
            place = fact_place(more, facts[n, 0])
            more[place, 0] = facts[n, 0]
            more[place, 1] = facts[n, 1]


@inlined
def is_known_safe_pair(worker: Any, me: Any, peer: Any, asked: Any) -> Any:
    """Return whether all pair properties of the kinds `asked` are known to hold for two local states in any state."""
    return codes.larger(me, peer) < SAFE_PAIR_LOCALS and worker.safe_pairs[me * SAFE_PAIR_LOCALS + peer] & asked != 0


@inlined
def memoize_safe_pair(worker: Any, me: Any, peer: Any, asked: Any) -> None:
    """Store that all pair properties of the kinds `asked` hold for two local states in any state."""
    if codes.larger(me, peer) < SAFE_PAIR_LOCALS:
        worker.safe_pairs[me * SAFE_PAIR_LOCALS + peer] |= np.uint8(asked)


@inlined
def walk_tree_by_shared_and_locals(
    t: Any, worker: Any, kind: Any, number: Any, rows: Any, row: Any, node: Any, me: Any, peer: Any
) -> Any:
    """Walk a decision tree by the shared fields and two local states alone.

    Returns MISSING for an absent branch, and READS_OTHER_PARTS where the tree reads another part of the state. Without
    a number of the shared fields, a read of these is one too, and is recorded so that later keys include the number.
    """
    while True:
        asks, a, b = t.nodes[node, codes.NODE_KIND], t.nodes[node, codes.NODE_A], t.nodes[node, codes.NODE_B]
        if asks == codes.LEAF:
            return node
        if asks == codes.LOCAL_QUERY and b < 0:
            answer = np.int64(t.local_answers[a, peer if b == codes.PEER else me])
        elif (asks == codes.SHARED and a >= t.meta[codes.META_BOUNDS]) or asks == codes.SHARED_QUERY:
            if number == NO_SHARED_NUMBER:
                worker.fact_counts[AT_READS_SHARED + kind] = 1
                return READS_OTHER_PARTS
            answer = np.int64(rows[row, a] if asks == codes.SHARED else t.shared_answers[a, rows[row, b]])
        else:
            return np.int64(codes.MISSING) if asks == codes.UNKNOWN else READS_OTHER_PARTS
        node = find_child_for_answer(t, node, answer)
        if node < 0:
            return np.int64(codes.MISSING)


@inlined
def evaluate_property_tree(
    t: Any, worker: Any, serial: Any, rows: Any, row: Any, root: Any, kind: Any, number: Any, me: Any, peer: Any
) -> Any:
    """Walk a property's tree; return flags: violated, decided by shared fields and replicas alone, verdict known."""
    leaf, certain = walk_tree_by_shared_and_locals(t, worker, kind, number, rows, row, root, me, peer), True
    if leaf < 0:
        certain = False
        leaf = find_decision_tree_leaf(t, worker, serial, rows, row, root, me, peer, codes.NONE)
    return leaf >= 0 and t.nodes[leaf, codes.NODE_A] == 0, certain, leaf >= 0


@jit
def evaluate_and_memoize_state_part(
    t: Any, worker: Any, serial: Any, rows: Any, row: Any, kind: Any, number: Any, left: Any, me: Any, peer: Any
) -> Any:
    """Return the mask of the properties in `left` that a state, a replica or a pair of replicas violates; or MISSING.

    Verdicts that these parts alone decide are memoized. A pair is evaluated in both orders.
    """
    key = fact_key(kind, number, me, peer)
    bad, missing, sure = np.int64(0), False, np.int64(0)
    for p in range(t.meta[codes.META_PROPERTIES]):
        bit = np.int64(1) << np.int64(p)
        if left & bit == 0:
            continue
        root = np.int64(t.properties[p, 0])
        is_bad, certain, is_known = evaluate_property_tree(t, worker, serial, rows, row, root, kind, number, me, peer)
        if peer != 0:
            other_bad, other_certain, other_known = evaluate_property_tree(
                t, worker, serial, rows, row, root, kind, number, peer, me
            )
            certain = (is_bad and certain) or (other_bad and other_certain) or (certain and other_certain)
            is_bad, is_known = is_bad or other_bad, is_known and other_known
        if is_bad:
            bad |= bit
        if certain:
            sure |= bit << codes.MOST_PROPERTIES if is_bad else bit
        missing |= not is_known
    if sure:
        memoize_fact(worker, key, sure | get_memoized_fact(worker, key))
    return np.int64(codes.MISSING) if missing else bad


@inlined
def state_part_violation_mask(
    t: Any, worker: Any, serial: Any, rows: Any, row: Any, shared: Any, constraints: Any, asked: Any, me: Any, peer: Any
) -> Any:
    """Return the mask of `asked` properties that the state, a replica or a pair violates, and whether all are known."""
    # A fact has masks of the properties that hold (low bits) and of those violated.
    kind = FACT_HOLDS_OF_ONE if peer == 0 else FACT_HOLDS_OF_PAIR
    number = shared_fields_number_for_fact(worker, kind, shared)
    fact = get_memoized_fact(worker, fact_key(kind, number, me, peer))
    bad = asked & (fact >> codes.MOST_PROPERTIES)
    left = asked & ~(fact | fact >> codes.MOST_PROPERTIES)
    if peer != 0 and fact & asked == asked and number == NO_SHARED_NUMBER:
        memoize_safe_pair(worker, me, peer, constraints + 1)
    found = np.int64(0)
    if left:
        found = evaluate_and_memoize_state_part(t, worker, serial, rows, row, kind, number, left, me, peer)
    return bad | found, found >= 0


@inlined
def message_violation_mask(t: Any, rows: Any, row: Any) -> Any:
    """Return the mask of message invariants that messages in flight violate."""
    bad = np.int64(0)
    for c in range(codes.first_inbox_column_of_flat_state(t, rows.shape[1]), rows.shape[1]):
        if t.inbox_codes[rows[row, c]] < 0:
            bad |= t.contents[rows[row, c], codes.CONTENT_VIOLATED]
    return bad


@jit
def flat_state_violation_mask(t: Any, worker: Any, serial: Any, rows: Any, row: Any, constraints: Any) -> Any:
    """Return the mask of invariants, or of constraints, that a flat state violates; or MISSING."""
    base, slots = t.meta[codes.META_SLOT_BASE], codes.slot_count_of_flat_state(t, rows.shape[1])
    of_all, of_one, of_two = (
        t.property_masks[constraints, 0],
        t.property_masks[constraints, 1],
        t.property_masks[constraints, 2],
    )
    shared = shared_contents_id(t, worker, rows, row)
    bad, known = np.int64(0), True
    # Evaluate the properties of the state as a whole.
    if of_all:
        bad, known = state_part_violation_mask(
            t, worker, serial, rows, row, shared, constraints, of_all, np.int64(0), np.int64(0)
        )
    # Evaluate those of each replica, and of each pair.
    for s in range(slots if of_one | of_two else 0):
        me = np.int64(rows[row, base + s])
        for other in range(s, (slots if of_two else s + 1) if me != 0 else 0):
            peer = np.int64(rows[row, base + other]) if other != s else np.int64(0)
            if other != s and (peer == 0 or is_known_safe_pair(worker, me, peer, constraints + 1)):
                continue
            asked = of_one if other == s else of_two
            more, is_known = state_part_violation_mask(
                t, worker, serial, rows, row, shared, constraints, asked, me, peer
            )
            bad |= more
            known &= is_known
    if not constraints:
        bad |= message_violation_mask(t, rows, row)
    return bad if known else np.int64(codes.MISSING)


@jit
def evaluate_flat_batch_invariants(t: Any, worker: Any, which: Any) -> None:
    """Evaluate the invariants of the worker's states with these indices, and record violations."""
    which = unowned_array(which)
    for i in range(len(which)):
        if worker.fact_counts[AT_NUMBERS_RAN_OUT]:
            clear_shared_contents_ids_and_facts(worker)
        bad = flat_state_violation_mask(t, worker, False, worker.states, which[i], 0)
        if bad < 0:
            arrays.append_retried_state(worker, which[i])
        else:
            arrays.record_violations(worker, which[i], codes.EVENT_BAD_STATE, codes.STATS_SEEN, bad)


@jit
def resolve_evaluation_misses(t: Any, worker: Any) -> None:
    """Evaluate the invariants of states that met cache misses again; leave those that need Python waiting."""
    while t.meta[codes.META_SETTLED] < t.meta[codes.META_LEFT]:
        at = np.int64(t.waiting[t.meta[codes.META_SETTLED]])
        if flat_state_violation_mask(t, worker, True, worker.states, at, 0) < 0:
            t.waiting[t.meta[codes.META_WAITING]] = at
            t.meta[codes.META_WAITING] += 1
        t.meta[codes.META_SETTLED] += 1

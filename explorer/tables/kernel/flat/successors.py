"""Successors of a flat state."""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.native.compiling import inlined
from kraftcheck.explorer.tables.kernel import codes, jit, maps
from kraftcheck.explorer.tables.kernel.flat import facts
from kraftcheck.explorer.tables.kernel.packing import pack_single_columns, update_packed_column
from kraftcheck.explorer.tables.kernel.resolve import find_local_after_change_or_request


@inlined
def change_successor_column(t: Any, packing: Any, worker: Any, n: Any, column: Any, later: Any) -> None:
    """Set a column of successor `n`, and update its packed words."""
    before = np.int64(worker.succ[n, 2 + column])
    worker.succ[n, 2 + column] = later
    if t.meta[codes.META_PERMUTATIONS] == 1:  # under a symmetry the canonical image is packed later
        update_packed_column(t, packing, worker, n, column, before, later)


@inlined
def bounds_allow_delta(t: Any, worker: Any, at: Any, delta: Any) -> Any:
    """Return whether a state has enough left of each bound that `delta` spends or needs."""
    can = True
    for k in range(t.deltas[delta, 2], t.deltas[delta, 2] + t.deltas[delta, 3]):
        column, amount = t.spendings[k, 0], t.spendings[k, 1]
        can &= worker.states[at, column] + codes.larger(np.int64(amount), 1) <= t.limits[column]
    return can


@inlined
def apply_delta_to_successor(t: Any, packing: Any, worker: Any, serial: Any, at: Any, n: Any, delta: Any) -> Any:
    """Write the columns of successor `n` that a delta changes; return whether all new local states are known."""
    states, succ = worker.states, worker.succ
    for k in range(t.deltas[delta, 2], t.deltas[delta, 2] + t.deltas[delta, 3]):
        column = t.spendings[k, 0]
        change_successor_column(t, packing, worker, n, column, np.int64(succ[n, 2 + column] + t.spendings[k, 1]))
    known = True
    for k in range(t.deltas[delta, 0], t.deltas[delta, 0] + t.deltas[delta, 1]):
        column, value = np.int64(t.assignments[k, 0]), np.int64(t.assignments[k, 1])
        before = np.int64(states[at, column])
        if value < 0:
            fields = ~value
            value = maps.find_value(t.changed_locals, codes.pair_key(fields, before))
            if value < 0:
                known = False
                worker.stats[codes.STATS_MISSED] = 1
                if serial:
                    find_local_after_change_or_request(t, before, fields)
        if known:
            change_successor_column(t, packing, worker, n, column, value)
    return known


@jit
def evaluate_step_properties(t: Any, worker: Any, serial: Any, at: Any, n: Any) -> Any:
    """Return the flags of the step to successor `n`; MISSING where a step property is not known."""
    states, succ, base = worker.states, worker.succ, t.meta[codes.META_SLOT_BASE]
    kind, flags = facts.FACT_STEP_HOLDS, np.int64(0)
    number = facts.shared_fields_number_for_fact(worker, kind, worker.fact_counts[facts.AT_CURRENT_NUMBER])
    missing = False
    for s in range(codes.slot_count_of_flat_state(t, states.shape[1])):
        before, later = np.int64(states[at, base + s]), np.int64(succ[n, 2 + base + s])
        if before == later or before == 0 or later == 0:
            continue
        key = facts.fact_key(kind, number, before, later)
        if facts.get_memoized_fact(worker, key):
            continue
        all_hold = True
        for p in range(t.meta[codes.META_STEP_PROPERTIES]):
            root = np.int64(t.step_properties[p, 0])
            is_bad, certain, is_known = facts.evaluate_property_tree(
                t, worker, serial, states, at, root, kind, number, before, later
            )
            all_hold &= certain and not is_bad
            missing |= not is_known
            if is_bad:
                flags |= codes.STEP_PRUNED if t.step_properties[p, 1] else codes.step_flags_for_violation(p)
        if all_hold:
            facts.memoize_fact(worker, key, np.int64(1))
    return np.int64(codes.MISSING) if missing else flags


@inlined
def violation_mask_of_successor(t: Any, worker: Any, serial: Any, k: Any, constraints: Any) -> Any:
    """Return the mask of invariants, or of constraints, that successor `k` violates; or MISSING."""
    for c in range(worker.scratch.shape[1]):
        worker.scratch[0, c] = worker.succ[k, 2 + c]
    return facts.flat_state_violation_mask(t, worker, serial, worker.scratch, np.int64(0), constraints)


@inlined
def store_action_piece_number(t: Any, worker: Any, n: Any, outcome: Any) -> Any:
    """Store and return the piece number of successor `n`, if any action is called in pieces."""
    if t.meta[codes.META_PIECES] == 0:
        return np.int64(0)
    worker.pieces[n] = t.outcomes[outcome, codes.OUTCOME_PIECE]
    return np.int64(worker.pieces[n])


@inlined
def write_flat_successor(
    t: Any, packing: Any, worker: Any, serial: Any, at: Any, n: Any, outcome: Any, delta: Any, slot: Any, inbox: Any
) -> Any:
    """Write the successor of an outcome at index `n`, with the actor's new inbox; return the next, or BUFFER_FULL."""
    states, succ = worker.states, worker.succ
    if n >= len(succ) - 1:
        return codes.BUFFER_FULL
    # A self-loop is only counted: it needs the action, and no successor.
    inboxes = codes.first_inbox_column_of_flat_state(t, states.shape[1])
    stays = inbox < 0 or inbox == states[at, inboxes + slot]
    operations = t.outcomes[outcome, codes.OUTCOME_COUNT]
    piece = store_action_piece_number(t, worker, n, outcome)
    if stays and delta == 0 and operations | piece | t.outcomes[outcome, codes.OUTCOME_STEP_FLAGS] == 0:
        succ[n, 0] = t.outcomes[outcome, codes.OUTCOME_ACTION]
        succ[n, 1] = codes.SELF_LOOP_FLAGS
        return n + 1
    if not bounds_allow_delta(t, worker, at, delta):
        return n
    # Copy the state and its packed words, then apply the step's changes to both.
    for c in range(states.shape[1]):
        succ[n, 2 + c] = states[at, c]
    for w in range(worker.words.shape[1]):
        worker.words[n, w] = worker.words[len(worker.words) - 1, w]
    worker.touched[n] = 0
    if not apply_delta_to_successor(t, packing, worker, serial, at, n, delta):
        return n
    if inbox >= 0:
        change_successor_column(t, packing, worker, n, inboxes + slot, inbox)
    first = t.outcomes[outcome, codes.OUTCOME_FIRST]
    for k in range(first, first + operations):
        op = np.int64(t.outcome_operations[k])
        place = np.int64(t.operations[op, 0])
        content = facts.inbox_after_operation(t, worker, serial, np.int64(succ[n, 2 + inboxes + place]), op)
        if content < 0:
            return n
        change_successor_column(t, packing, worker, n, inboxes + place, content)
    # Evaluate the step properties, and the constraints of the successor.
    flags = np.int64(t.outcomes[outcome, codes.OUTCOME_STEP_FLAGS])
    if t.meta[codes.META_STEP_PROPERTIES]:
        more = evaluate_step_properties(t, worker, serial, at, n)
        if more < 0:
            return n
        flags |= more
    if t.meta[codes.META_CONSTRAINTS]:
        broken = violation_mask_of_successor(t, worker, serial, n, 1)
        if broken < 0:
            return n
        if broken:
            flags |= codes.STEP_PRUNED
    if flags:
        worker.stats[codes.STATS_NOTABLE] = 1
    succ[n, 0] = t.outcomes[outcome, codes.OUTCOME_ACTION]
    succ[n, 1] = flags
    return n + 1


@jit
def expand_decision_tree(
    t: Any, packing: Any, worker: Any, serial: Any, at: Any, n: Any, root: Any, me: Any, slot: Any, only: Any, rest: Any
) -> Any:
    """Write the successors of outcome `only` or, if that is NONE, of all outcomes at the leaf of tree `root`.

    `rest` is the actor's inbox without the message that the step consumes, or NONE.
    """
    first, last = only, only + 1
    if only < 0:
        leaf = facts.find_decision_tree_leaf(t, worker, serial, worker.states, at, root, me, np.int64(0), at)
        if leaf < 0:
            return n
        first = np.int64(t.nodes[leaf, codes.NODE_A])
        last = first + t.nodes[leaf, codes.NODE_OUTCOMES]
    for outcome in range(first, last):
        delta, inbox = t.outcomes[outcome, codes.OUTCOME_DELTA], codes.NONE
        if t.outcomes[outcome, codes.OUTCOME_CONSUMES]:
            inbox = rest
        n = write_flat_successor(t, packing, worker, serial, at, n, outcome, delta, slot, inbox)
        if n == codes.BUFFER_FULL:
            break
    return n


@jit
def expand_network(t: Any, packing: Any, worker: Any, serial: Any, at: Any, n: Any, slot: Any, inbox: Any) -> Any:
    """Write the successors of the network's own steps on each message of an inbox."""
    first = t.contents[inbox, codes.CONTENT_START]
    for k in range(first, first + t.contents[inbox, codes.CONTENT_COUNT]):
        if t.content_items[k, 1] <= 0:
            continue
        for j in range(t.meta[codes.META_NETWORK_STEPS]):
            op = np.int64(t.network_operations[j, t.content_items[k, 0]])
            content = facts.inbox_after_operation(t, worker, serial, inbox, op)
            if content >= 0:
                outcome, delta = np.int64(t.network_steps[j, 0]), t.network_steps[j, 1]
                n = write_flat_successor(t, packing, worker, serial, at, n, outcome, delta, slot, content)
            if n == codes.BUFFER_FULL:
                return n
    return n


@jit
def list_possible_internal_actions(t: Any, worker: Any, at: Any, number: Any, local: Any, roots: Any) -> Any:
    """List the decision-tree nodes of a replica's internal actions in `worker.listed`; return their span as a fact.

    Actions that the shared fields and the local state disable are left out. Also returns whether no branch is missing.
    """
    states, known, n = worker.states, True, np.int64(0)
    first, count = t.lists[roots, 0], t.lists[roots, 1]
    if worker.fact_counts[facts.AT_LISTED_NODES] + count > len(worker.listed):
        facts.clear_facts(worker)
    start = worker.fact_counts[facts.AT_LISTED_NODES]
    for k in range(first, first + count):
        root = np.int64(t.list_nodes[k])
        root = root if root >= 0 else ~root
        node = facts.walk_tree_by_shared_and_locals(
            t, worker, facts.FACT_ENABLED_ACTIONS, number, states, at, root, local, np.int64(0)
        )
        known &= node != codes.MISSING
        if node < 0 or t.nodes[node, codes.NODE_OUTCOMES] > 0:
            worker.listed[start + n] = root if node < 0 else node
            n += 1
    return facts.fact_of_span(codes.pack_start_and_length(start, n)), known


@jit
def drop_successors_repeated_in_other_pieces(worker: Any, first: Any, last: Any) -> Any:
    """Drop the successors from `first` on that repeat a step of another piece of their action; return their end."""
    succ, pieces, n = worker.succ, worker.pieces, first
    for k in range(first, last):
        is_repeated = False
        for j in range(first, n if pieces[k] else first):
            same = pieces[j] == pieces[k]
            for c in range(succ.shape[1] if same else 0):
                same &= succ[j, c] == succ[k, c]
            is_repeated |= same
        if is_repeated:
            continue
        if n != k:
            succ[n], worker.words[n] = succ[k], worker.words[k]
            pieces[n], worker.touched[n] = pieces[k], worker.touched[k]
        n += 1
    return n


@inlined
def expand_internal_actions(
    t: Any, packing: Any, worker: Any, serial: Any, at: Any, n: Any, slot: Any, local: Any
) -> Any:
    """Write the successors of a replica's internal actions; local state 0 is the environment."""
    number = facts.shared_fields_number_for_fact(
        worker, facts.FACT_ENABLED_ACTIONS, worker.fact_counts[facts.AT_CURRENT_NUMBER]
    )
    key = facts.fact_key(facts.FACT_ENABLED_ACTIONS, number, local, np.int64(0))
    fact = facts.get_memoized_fact(worker, key)
    if fact == 0:
        roots = facts.internal_action_list_id(t, worker, serial, local)
        if roots < 0:
            return n
        fact, known = list_possible_internal_actions(t, worker, at, number, local, roots)
        if known:  # a missing branch makes the list valid for this state alone
            first, last = codes.span_start_and_end(facts.span_of_fact(fact))
            worker.fact_counts[facts.AT_LISTED_NODES] += last - first
            facts.memoize_fact(worker, key, fact)
    first, last = codes.span_start_and_end(facts.span_of_fact(fact))
    own = n
    for k in range(first, last):
        root = np.int64(worker.listed[k])
        n = expand_decision_tree(t, packing, worker, serial, at, n, root, local, slot, codes.NONE, codes.NONE)
        if n == codes.BUFFER_FULL:
            break
    return drop_successors_repeated_in_other_pieces(worker, own, n) if t.meta[codes.META_PIECES] and n > own else n


@inlined
def expand_inbox(t: Any, packing: Any, worker: Any, serial: Any, at: Any, n: Any, slot: Any, inbox: Any) -> Any:
    """Write the successors of a replica's message handlers, and of the network's steps on its messages."""
    local = np.int64(worker.states[at, t.meta[codes.META_SLOT_BASE] + slot])
    bundle = facts.handler_outcome_span(t, worker, serial, local, inbox) if local != 0 else np.int64(0)
    first, last = codes.span_start_and_end(codes.larger(bundle, 0))
    for k in range(first, last):
        ref, rest = np.int64(t.bundle_items[k, 0]), np.int64(t.bundle_items[k, 2])
        outcome = codes.NONE if t.bundle_items[k, 1] else ref
        n = expand_decision_tree(t, packing, worker, serial, at, n, ref, local, slot, outcome, rest)
        if n == codes.BUFFER_FULL:
            return n
    return expand_network(t, packing, worker, serial, at, n, slot, inbox) if t.meta[codes.META_NETWORK_STEPS] else n


@jit
def expand_flat_state(t: Any, packing: Any, worker: Any, at: Any, serial: Any) -> Any:
    """Write all successors of a flat state to `worker.succ`, as rows (action, flags, columns, inboxes ...).

    Returns their number, MISSING after a cache miss, or BUFFER_FULL where the buffer has no room.
    """
    states, base = worker.states, t.meta[codes.META_SLOT_BASE]
    slots = codes.slot_count_of_flat_state(t, states.shape[1])
    worker.stats[codes.STATS_MISSED] = 0
    worker.stats[codes.STATS_NOTABLE] = 0
    # Number the shared fields for the memo. Pack the state once: each successor's words are a copy with a few changes.
    if worker.fact_counts[facts.AT_NUMBERS_RAN_OUT]:
        facts.clear_shared_contents_ids_and_facts(worker)
    worker.fact_counts[facts.AT_CURRENT_NUMBER] = facts.shared_contents_id(t, worker, states, at)
    if t.meta[codes.META_PERMUTATIONS] == 1:
        pack_single_columns(t, packing, states, at, np.int64(0), worker.words, len(worker.words) - 1)
    # Internal actions of the replicas, then those of the environment.
    n = np.int64(0)
    for s in range(slots + 1):
        local = np.int64(states[at, base + s]) if s < slots else np.int64(0)
        if n != codes.BUFFER_FULL and (s == slots or local != 0):
            n = expand_internal_actions(t, packing, worker, serial, at, n, s, local)
    # Message handlers, and the network's own steps.
    for s in range(slots):
        inbox = np.int64(states[at, base + slots + s])
        if n != codes.BUFFER_FULL and inbox != 0:
            n = expand_inbox(t, packing, worker, serial, at, n, s, inbox)
    return codes.MISSING if n != codes.BUFFER_FULL and worker.stats[codes.STATS_MISSED] else n


@inlined
def evaluate_invariants_of_pruned_successors(t: Any, worker: Any, serial: Any, n: Any) -> Any:
    """Evaluate the invariants of pruned successors, which are not stored; return whether all verdicts are known."""
    known = True
    for k in range(n if worker.stats[codes.STATS_NOTABLE] else 0):
        worker.broken[k] = 0
        if worker.succ[k, 1] & codes.STEP_PRUNED:
            worker.broken[k] = violation_mask_of_successor(t, worker, serial, k, 0)
            known &= worker.broken[k] >= 0
    return known

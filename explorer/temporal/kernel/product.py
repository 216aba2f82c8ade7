"""Product of a state graph with an automaton: reachable nodes, and fair components; backward reachability in the graph.

Node `s * Q + q` stands for state s of the graph and state q of the automaton. An edge of the product is a step of the
graph, or a stutter, together with a move of the automaton that its atoms allow. Edges are computed on demand, not
stored.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from kraftcheck.explorer.native.arrays import ArrayGroup, declare_array
from kraftcheck.explorer.native.compiling import inlined, kernel_compiler, unowned_array

jit = kernel_compiler(Path(__file__).parent)

DEAD_MARK, ALIVE_MARK, RETRY_MARK = 0, -1, -2
"""Marks of a node: on no fair cycle; possibly on one; possibly on one, once other nodes are removed.

A positive mark is the number of the node's fair component.
"""

STUTTER_EDGE = -1
"""Replaces the number of an edge."""
NO_NODE = np.int64(-1)
"""Replaces the number of a node."""


class ProductArrays(ArrayGroup):
    """A state graph with its atoms and fairness, an automaton, and the marks of the product's nodes."""

    first = declare_array(np.int64)  # by state: its first edge; one entry more than states
    kind = declare_array(np.int32)  # by state: its kind, which are its true atoms and enabled conditions
    target = declare_array(np.int32)  # by edge: its target, another state except for a round (`ROUND`)
    label = declare_array(np.uint16)  # by edge: its label
    held = declare_array(np.uint64)  # by kind: the true atoms
    enabled = declare_array(np.uint64)  # by kind: the fairness conditions with an enabled action
    label_atoms = declare_array(np.uint64)  # by label: the atoms that its steps make true
    label_taken = declare_array(np.uint64)  # by label: the fairness conditions whose action it is
    move_first = declare_array(np.int64)  # by state of the automaton: its first move
    move_target = declare_array(np.int64)
    wanted = declare_array(np.uint64)
    unwanted = declare_array(np.uint64)
    accepts = declare_array(np.uint64)
    mark = declare_array(np.int32)  # by node: a mark, or its component
    parent = declare_array(np.int32)  # by node: the node that it was reached from; itself if initial, -1 if not reached
    order = declare_array(np.int32)  # the reached nodes, in breadth-first order
    rank = declare_array(np.int32)  # by node: its rank in the search for components


@inlined
def automaton_move_agrees(p: Any, m: Any, letter: Any) -> Any:
    """Whether a move of the automaton agrees with the true atoms."""
    return (p.wanted[m] & ~letter) == 0 and (p.unwanted[m] & letter) == 0


@inlined
def edge_target_and_atoms(p: Any, s: Any, e: Any) -> Any:
    """Return the edge at a place, its target and the atoms that are true of it and of the state `s` before it.

    Every state may stutter for ever: the place before its edges is the stutter.
    """
    if e < p.first[s]:
        return np.int64(STUTTER_EDGE), s, p.held[p.kind[s]]
    return np.int64(e), np.int64(p.target[e]), p.held[p.kind[s]] | p.label_atoms[p.label[e]]


@inlined
def fairness_conditions_taken(p: Any, s: Any, e: Any) -> Any:
    """Return the bit mask of the fairness conditions whose action contains a step; 0 for a stutter."""
    if e == STUTTER_EDGE:
        return np.uint64(0)
    return p.label_taken[p.label[e]]


@jit
def visit_reachable(p: Any, starts: Any) -> Any:
    """Visit the nodes reachable from some nodes, breadth first; return their number.

    `order` lists the nodes; `parent`, initially -1, has the node that each was reached from.
    """
    states = np.int64(len(p.move_first) - 1)
    order, parent = p.order, p.parent
    starts = unowned_array(starts)
    count = np.int64(0)
    for k in range(len(starts)):
        v = np.int64(starts[k])
        if parent[v] < 0:
            parent[v] = v
            order[count] = v
            count += 1
    done = np.int64(0)
    while done < count:
        v = np.int64(order[done])
        done += 1
        s, q = v // states, v % states
        for e in range(p.first[s] - 1, p.first[s + 1]):
            _, t, letter = edge_target_and_atoms(p, s, e)
            for m in range(p.move_first[q], p.move_first[q + 1]):
                w = t * states + p.move_target[m]
                if parent[w] < 0 and automaton_move_agrees(p, m, letter):
                    parent[w] = v
                    order[count] = w
                    count += 1
    return count


@jit
def mark_possibly_accepting(p: Any, states_alive: Any) -> None:
    """Mark each reached node as alive if its automaton state may lie on an accepting cycle; mark others as dead."""
    alive = unowned_array(states_alive)
    states = np.int64(len(alive))
    for v in range(len(p.mark)):
        may = p.parent[v] >= 0 and alive[v % states]
        p.mark[v] = ALIVE_MARK if may else DEAD_MARK


@jit
def reset_retried_nodes(p: Any) -> None:
    """Mark the nodes to retry as alive, and reset the search for components."""
    for v in range(len(p.mark)):
        p.rank[v] = 0
        if p.mark[v] == RETRY_MARK:
            p.mark[v] = ALIVE_MARK


@inlined
def next_unvisited_successor(p: Any, v: Any, edge: Any, m: Any, roots: Any, depth: Any) -> Any:
    """Return the next unvisited successor of a node, or NO_NODE, with the edge and move to continue from.

    A visited successor may lower the node's rank; then the node is not a root.
    """
    states = np.int64(len(p.move_first) - 1)
    rank, first = p.rank, p.first
    s, q = v // states, v % states
    last = p.move_first[q + 1]
    while edge < first[s + 1]:
        _, t, letter = edge_target_and_atoms(p, s, edge)
        while m < last:
            w = t * states + p.move_target[m]
            if p.mark[w] == ALIVE_MARK and automaton_move_agrees(p, m, letter):
                if rank[w] == 0:
                    return w, edge, m  # it is examined again when its own search is done
                if rank[w] < rank[v]:
                    rank[v] = rank[w]
                    roots[depth] = False
            m += 1
        edge += 1
        m = p.move_first[q]
    return NO_NODE, edge, m


@jit
def mark_fair_components(p: Any, acceptance: Any, weak: Any, strong: Any, most: Any) -> Any:
    """Mark the alive nodes by their strongly connected components.

    A component gets a number from `most` on if a behaviour within it can be accepted and fair; otherwise its nodes are
    dead. If strong fairness alone fails, the nodes that enable a neglected condition are dead. The other nodes may form
    fair components by themselves, so they are marked for a retry. Return the next number, and the number of nodes to
    retry.

    References
    ----------
    D. J. Pearce: "A space-efficient algorithm for finding strongly connected components" (2016), for one number a node.
    """
    states = np.int64(len(p.move_first) - 1)
    mark, rank, first = p.mark, p.rank, p.first
    n = np.int64(len(mark))
    c, index, again = n + 1, np.int64(1), np.int64(0)
    # The stack of a recursive search, made explicit: a node, its next edge and move, and whether it is still a root.
    calls, roots = np.empty(1 << 12, np.int32), np.empty(1 << 12, np.bool_)
    edges, moves = np.empty(1 << 12, np.int64), np.empty(1 << 12, np.int32)
    stack, stacked = np.empty(1 << 12, np.int32), np.int64(0)  # nodes of incomplete components
    for begin in range(n):
        if mark[begin] != ALIVE_MARK or rank[begin] != 0:
            continue
        depth, child = np.int64(-1), np.int64(begin)
        while True:
            # Descend to an unvisited node.
            if child != NO_NODE:
                depth += 1
                if depth == len(calls):
                    calls, edges = np.append(calls, calls), np.append(edges, edges)
                    moves, roots = np.append(moves, moves), np.append(roots, roots)
                calls[depth], roots[depth] = child, True
                edges[depth], moves[depth] = first[child // states] - 1, p.move_first[child % states]
                rank[child] = index
                index += 1
            v = np.int64(calls[depth])
            child, edges[depth], moves[depth] = next_unvisited_successor(
                p, v, edges[depth], np.int64(moves[depth]), roots, depth
            )
            if child != NO_NODE:
                continue
            # The node is done. A root takes its component off the stack; any other node waits there for its root.
            if stacked + 1 >= len(stack):
                stack = np.append(stack, stack)
            stack[stacked] = v
            if roots[depth]:
                begin_of = stacked
                while begin_of > 0 and rank[stack[begin_of - 1]] >= rank[v]:
                    begin_of -= 1
                c -= 1
                for k in range(begin_of, stacked + 1):
                    rank[stack[k]] = c
                index -= stacked + 1 - begin_of
                verdict, later = classify_component(p, stack, begin_of, stacked + 1, acceptance, weak, strong, most)
                most += verdict
                again += later
                stacked = begin_of
            else:
                stacked += 1
            depth -= 1
            if depth < 0:
                break
    return most, again


@jit
def classify_component(
    p: Any, nodes: Any, begin: Any, end: Any, acceptance: Any, weak: Any, strong: Any, number: Any
) -> Any:
    """Mark the nodes of one component; return 1 if it is fair, else 0, and the number of nodes to retry."""
    states = np.int64(len(p.move_first) - 1)
    rank, mark = p.rank, p.mark
    component = rank[nodes[begin]]
    # Over all nodes and inner edges of the component: acceptance sets and conditions met; conditions enabled in every
    # node (`always`) and in some node (`ever`).
    accepted, taken = np.uint64(0), np.uint64(0)
    always, ever = ~np.uint64(0), np.uint64(0)
    moves_on = False
    for k in range(begin, end):
        v = np.int64(nodes[k])
        s, q = v // states, v % states
        always &= p.enabled[p.kind[s]]
        ever |= p.enabled[p.kind[s]]
        for e in range(p.first[s] - 1, p.first[s + 1]):
            edge, t, letter = edge_target_and_atoms(p, s, e)
            for m in range(p.move_first[q], p.move_first[q + 1]):
                w = t * states + p.move_target[m]
                if rank[w] == component and mark[w] == ALIVE_MARK and automaton_move_agrees(p, m, letter):
                    moves_on = True
                    accepted |= p.accepts[m]
                    taken |= fairness_conditions_taken(p, s, edge)
    # A behaviour can repeat every edge of the component for ever. It is accepted if the edges meet every acceptance
    # set. It is weakly fair unless a condition is always enabled and never taken. It is strongly fair unless a
    # condition is enabled in some node and never taken.
    fair = moves_on and (acceptance & ~accepted) == 0 and (weak & always & ~taken) == 0
    left_out = strong & ever & ~taken
    later = np.int64(0)
    for k in range(begin, end):
        v = np.int64(nodes[k])
        if not fair:
            mark[v] = DEAD_MARK
        elif left_out == 0:
            mark[v] = number
        elif p.enabled[p.kind[v // states]] & left_out:
            mark[v] = DEAD_MARK
        else:
            mark[v] = RETRY_MARK
            later += 1
    return 1 if fair and left_out == 0 else 0, later


@jit
def stutters_fairly(p: Any, v: Any, acceptance: Any, conditions: Any) -> Any:
    """Whether a behaviour that stutters in a node for ever is accepted and fair."""
    states = np.int64(len(p.move_first) - 1)
    s, q = v // states, v % states
    if p.enabled[p.kind[s]] & conditions:
        return False
    for m in range(p.move_first[q], p.move_first[q + 1]):
        stays = p.move_target[m] == q and (acceptance & ~p.accepts[m]) == 0
        if stays and automaton_move_agrees(p, m, p.held[p.kind[s]]):
            return True
    return False


@jit
def first_nodes_with_fair_cycle_and_stutter(p: Any, reached: Any, acceptance: Any, conditions: Any) -> Any:
    """Return the first reached node on a fair cycle, and the first with a fair stutter; -1 for a missing node."""
    found, still = np.int64(-1), np.int64(-1)
    for k in range(reached):
        v = np.int64(p.order[k])
        if p.mark[v] > 0:
            if found < 0:
                found = v
            if stutters_fairly(p, v, acceptance, conditions):
                still = v
                break
    return found, still


@jit
def find_demanded_edge(p: Any, start: Any, goal: Any, accepts: Any, taken: Any, idle: Any) -> Any:
    """Find the nearest edge within a component that fulfils one of the demands, or leads to the node `goal`.

    Demands are acceptance sets (`accepts`), conditions to take (`taken`), and conditions to see disabled (`idle`).
    """
    states = np.int64(len(p.move_first) - 1)
    mark, rank, order = p.mark, p.rank, p.order
    component = mark[start]
    # Breadth first; `order` is the queue, and `rank` has the predecessor of each visited node.
    count, done = np.int64(1), np.int64(0)
    order[0] = start
    rank[start] = start
    source: Any = np.int64(-1)
    found: Any = np.int64(-2)
    by: Any = np.int64(-1)
    while done < count and source < 0:
        v = np.int64(order[done])
        done += 1
        s, q = v // states, v % states
        resting = (idle & ~p.enabled[p.kind[s]]) != 0
        for e in range(p.first[s] - 1, p.first[s + 1]):
            edge, t, letter = edge_target_and_atoms(p, s, e)
            for m in range(p.move_first[q], p.move_first[q + 1]):
                w = t * states + p.move_target[m]
                if mark[w] != component or not automaton_move_agrees(p, m, letter):
                    continue
                does = resting or (p.accepts[m] & accepts) != 0 or (fairness_conditions_taken(p, s, edge) & taken) != 0
                if source < 0 and (does or w == goal):
                    source, found, by = v, edge, m
                if rank[w] < 0:
                    rank[w] = v
                    order[count] = w
                    count += 1
    return source, found, by, count


@jit
def edge_between(p: Any, v: Any, w: Any) -> Any:
    """Return the number of an edge from one node to another; -2 if there is none."""
    states = np.int64(len(p.move_first) - 1)
    s, q = v // states, v % states
    for e in range(p.first[s] - 1, p.first[s + 1]):
        edge, t, letter = edge_target_and_atoms(p, s, e)
        for m in range(p.move_first[q], p.move_first[q + 1]):
            if t * states + p.move_target[m] == w and automaton_move_agrees(p, m, letter):
                return edge
    return np.int64(-2)


@jit
def gather_label_bits(first: Any, label: Any, bits: Any, begin: Any, found: Any) -> None:
    """Add to `found[k]` the bits of the labels of all steps out of the state `begin + k`, by bitwise or."""
    first, label, bits, found = unowned_array(first), unowned_array(label), unowned_array(bits), unowned_array(found)
    for k in range(len(found)):
        for e in range(first[begin + k], first[begin + k + 1]):
            found[k] |= bits[label[e]]


@jit
def gather_label_atom_changes(p: Any, value: Any, changed: Any) -> None:
    """Add to `changed`, for each label, the atoms that its steps change away from their value in `value`."""
    changed = unowned_array(changed)
    for s in range(len(p.kind)):
        before = p.held[p.kind[s]]
        for e in range(p.first[s], p.first[s + 1]):
            changed[p.label[e]] |= (before ^ p.held[p.kind[p.target[e]]]) & ~(before ^ value)


@jit
def classify_states_by_atoms_and_conditions(held: Any, enabled: Any, begin: Any, p: Any, slots: Any, n: Any) -> Any:
    """Assign states from `begin` on to kinds; return the number of states done, and the number of kinds.

    States of one kind have the same true atoms and enabled conditions.
    """
    held, enabled, slots = unowned_array(held), unowned_array(enabled), unowned_array(slots)
    mask = np.uint64(len(slots) - 1)
    for k in range(len(held)):
        mixed = (held[k] * np.uint64(0x9E3779B97F4A7C15)) ^ (enabled[k] + np.uint64(0x7F4A7C15))
        place = ((mixed * np.uint64(0xD6E8FEB86659FD93)) >> np.uint64(32)) & mask
        kind = np.int64(slots[place])
        while kind >= 0 and (p.held[kind] != held[k] or p.enabled[kind] != enabled[k]):
            place = (place + np.uint64(1)) & mask
            kind = np.int64(slots[place])
        if kind < 0:
            if n == len(p.held):
                return k, n
            kind = np.int64(n)
            slots[place] = n
            p.held[n], p.enabled[n] = held[k], enabled[k]
            n += 1
        p.kind[begin + k] = kind
    return len(held), n


@jit
def mark_states_leading_to_marked(
    sources: Any, targets: Any, marked: Any, first: Any, before: Any, waiting: Any
) -> None:
    """Mark every state with a path to a marked state; `first` is an array of zeros, one longer than the states."""
    sources, targets, marked = unowned_array(sources), unowned_array(targets), unowned_array(marked)
    first, before, waiting = unowned_array(first), unowned_array(before), unowned_array(waiting)
    # Group the sources by target, by counting sort.
    for e in range(len(targets)):
        first[targets[e] + 1] += 1
    for s in range(1, len(first)):
        first[s] += first[s - 1]
    for e in range(len(targets)):  # each source advances first[s], which ends where the sources of s + 1 begin
        before[first[targets[e]]] = sources[e]
        first[targets[e]] += 1
    # Search backwards from the marked states.
    n = 0
    for s in range(len(marked)):
        if marked[s]:
            waiting[n] = s
            n += 1
    while n:
        n -= 1
        s = waiting[n]
        for k in range(first[s - 1] if s else 0, first[s]):
            source = before[k]
            if not marked[source]:
                marked[source] = 1
                waiting[n] = source
                n += 1

"""The product of a state graph with an automaton: which of its nodes are reached, and which lie on a fair cycle.

Node `s * Q + q` stands for state s of the graph and state q of the automaton. An edge of the product is a step of the
graph, or a stutter, together with a move of the automaton that it allows. No edge of the product is stored.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from kraftcheck.explorer.native.arrays import Arrays, array
from kraftcheck.explorer.native.compiling import bare, compiler, inlined

jit = compiler(Path(__file__).parent)

DEAD, ALIVE, AGAIN = 0, -1, -2
"""Marks of a node: it lies on no fair cycle, it may, it may once others are left out. A number above 0: it does."""

STUTTER = -1
"""In the place of an edge's number."""
NO_NODE = np.int64(-1)
"""In the place of a node's number."""


class ProductArrays(Arrays):
    """A state graph with what atoms and fairness say of it, an automaton, and marks of the product's nodes."""

    first = array(np.int64)  # where the edges of a state begin; one more than there are states
    kind = array(np.int32)  # of a state: what is true of it
    target = array(np.int32)  # of an edge, which leads to another state
    label = array(np.uint16)  # of an edge
    held = array(np.uint64)  # the atoms that are true in a state of a kind
    enabled = array(np.uint64)  # the fairness conditions of which an action is enabled in one of a kind
    label_atoms = array(np.uint64)  # the atoms that a step of a label makes true
    label_taken = array(np.uint64)  # the fairness conditions of which a step of a label is an action
    move_first = array(np.int64)  # where the moves of a state of the automaton begin
    move_target = array(np.int64)
    wanted = array(np.uint64)
    unwanted = array(np.uint64)
    accepts = array(np.uint64)
    mark = array(np.int32)  # of a node
    parent = array(np.int32)  # of a node: from where it was reached; itself for a first one, -1 for none
    order = array(np.int32)  # the nodes in the order in which they were reached
    rank = array(np.int32)  # of a node: its place in the search for components


@inlined
def allows(p: Any, m: Any, letter: Any) -> Any:
    """Return whether move m goes with what is true."""
    return (p.wanted[m] & ~letter) == 0 and (p.unwanted[m] & letter) == 0


@inlined
def letter_of(p: Any, s: Any, e: Any) -> Any:
    """Return the atoms that are true of a state and the step, or the stutter, that follows."""
    if e == STUTTER:
        return p.held[p.kind[s]]
    return p.held[p.kind[s]] | p.label_atoms[p.label[e]]


@inlined
def taken_by(p: Any, s: Any, e: Any) -> Any:
    """Return the fairness conditions of which a step is an action that changes the state."""
    if e == STUTTER:
        return np.uint64(0)
    return p.label_taken[p.label[e]]


@jit
def reach(p: Any, starts: Any) -> Any:
    """Visit the nodes from some on, breadth first; return how many there are.

    `order` lists them, and `parent`, which was -1, says from where each was reached.
    """
    states = np.int64(len(p.move_first) - 1)
    order, parent, target, first = p.order, p.parent, p.target, p.first
    starts = bare(starts)
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
        for e in range(first[s] - 1, first[s + 1]):
            edge = np.int64(STUTTER) if e < first[s] else e
            t = s if edge == STUTTER else np.int64(target[edge])
            letter = letter_of(p, s, edge)
            for m in range(p.move_first[q], p.move_first[q + 1]):
                w = t * states + p.move_target[m]
                if parent[w] < 0 and allows(p, m, letter):
                    parent[w] = v
                    order[count] = w
                    count += 1
    return count


@jit
def begin_marks(p: Any, states_alive: Any) -> None:
    """Mark the nodes that may lie on a fair cycle: reached, of a state of the automaton that may."""
    alive = bare(states_alive)
    states = np.int64(len(alive))
    for v in range(len(p.mark)):
        may = p.parent[v] >= 0 and alive[v % states]
        p.mark[v] = ALIVE if may else DEAD


@jit
def try_again(p: Any) -> None:
    """Mark the nodes that are to be tried again as alive, and begin the search for components anew."""
    for v in range(len(p.mark)):
        p.rank[v] = 0
        if p.mark[v] == AGAIN:
            p.mark[v] = ALIVE


@inlined
def next_child(p: Any, v: Any, edge: Any, m: Any, roots: Any, depth: Any) -> Any:
    """Return the next node that a node leads to and that was not visited, or NO_NODE, and where to go on from.

    What was visited already lowers the rank of the node, which then is no root.
    """
    states = np.int64(len(p.move_first) - 1)
    rank, first = p.rank, p.first
    s, q = v // states, v % states
    last = p.move_first[q + 1]
    while edge < first[s + 1]:
        real = np.int64(STUTTER) if edge < first[s] else edge
        t = s if real == STUTTER else np.int64(p.target[real])
        letter = letter_of(p, s, real)
        while m < last:
            w = t * states + p.move_target[m]
            if p.mark[w] == ALIVE and allows(p, m, letter):
                if rank[w] == 0:
                    return w, edge, m  # it is looked at once more when it is done
                if rank[w] < rank[v]:
                    rank[v] = rank[w]
                    roots[depth] = False
            m += 1
        edge += 1
        m = p.move_first[q]
    return NO_NODE, edge, m


@jit
def find_fair(p: Any, acceptance: Any, weak: Any, strong: Any, most: Any) -> Any:
    """Mark the nodes that are alive by the strongly connected components in which they are.

    A component gets a number from `most` on if a behaviour can stay in it and be fair and accepted. It is dead if none
    can. Where strong fairness alone forbids it, the nodes that do not enable what is left out may form fair components
    by themselves, and are marked to be tried again. Returns the next number, and how many are to be tried again.

    References
    ----------
    D. J. Pearce: "A space-efficient algorithm for finding strongly connected components" (2016), for one number a node.
    """
    states = np.int64(len(p.move_first) - 1)
    mark, rank, first = p.mark, p.rank, p.first
    n = np.int64(len(mark))
    c, index, again = n + 1, np.int64(1), np.int64(0)
    # What a recursive search would have on its stack: a node, its next edge and move, and whether it is still a root.
    calls, roots = np.empty(1 << 12, np.int32), np.empty(1 << 12, np.bool_)
    edges, moves = np.empty(1 << 12, np.int64), np.empty(1 << 12, np.int32)
    stack, stacked = np.empty(1 << 12, np.int32), np.int64(0)  # nodes whose component is not complete
    for begin in range(n):
        if mark[begin] != ALIVE or rank[begin] != 0:
            continue
        depth, child = np.int64(-1), np.int64(begin)
        while True:
            # Go down to a node that was not visited.
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
            child, edges[depth], moves[depth] = next_child(p, v, edges[depth], np.int64(moves[depth]), roots, depth)
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
                verdict, later = judge(p, stack, begin_of, stacked + 1, acceptance, weak, strong, most)
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
def judge(p: Any, nodes: Any, begin: Any, end: Any, acceptance: Any, weak: Any, strong: Any, number: Any) -> Any:
    """Mark the nodes of one component; return 1 if it is fair, and how many are to be tried again."""
    states = np.int64(len(p.move_first) - 1)
    rank, mark = p.rank, p.mark
    component = rank[nodes[begin]]
    accepted, taken = np.uint64(0), np.uint64(0)
    always, ever = ~np.uint64(0), np.uint64(0)
    moves_on = False
    for k in range(begin, end):
        v = np.int64(nodes[k])
        s, q = v // states, v % states
        always &= p.enabled[p.kind[s]]
        ever |= p.enabled[p.kind[s]]
        for e in range(p.first[s] - 1, p.first[s + 1]):
            edge = np.int64(STUTTER) if e < p.first[s] else e
            t = s if edge == STUTTER else np.int64(p.target[edge])
            letter = letter_of(p, s, edge)
            for m in range(p.move_first[q], p.move_first[q + 1]):
                w = t * states + p.move_target[m]
                if rank[w] == component and mark[w] == ALIVE and allows(p, m, letter):
                    moves_on = True
                    accepted |= p.accepts[m]
                    taken |= taken_by(p, s, edge)
    fair = moves_on and (acceptance & ~accepted) == 0 and (weak & always & ~taken) == 0
    left_out = strong & ever & ~taken
    later = np.int64(0)
    for k in range(begin, end):
        v = np.int64(nodes[k])
        if not fair:
            mark[v] = DEAD
        elif left_out == 0:
            mark[v] = number
        elif p.enabled[p.kind[v // states]] & left_out:
            mark[v] = DEAD
        else:
            mark[v] = AGAIN
            later += 1
    return 1 if fair and left_out == 0 else 0, later


@jit
def stutters_fairly(p: Any, v: Any, acceptance: Any, conditions: Any) -> Any:
    """Return whether a behaviour may stay in a node for ever by stuttering."""
    states = np.int64(len(p.move_first) - 1)
    s, q = v // states, v % states
    if p.enabled[p.kind[s]] & conditions:
        return False
    for m in range(p.move_first[q], p.move_first[q + 1]):
        if p.move_target[m] == q and (acceptance & ~p.accepts[m]) == 0 and allows(p, m, p.held[p.kind[s]]):
            return True
    return False


@jit
def first_fair(p: Any, reached: Any, acceptance: Any, conditions: Any) -> Any:
    """Return the nodes reached first that lie on a fair cycle, and that stutter fairly; -1 where there is none."""
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
def seek(p: Any, start: Any, goal: Any, accepts: Any, taken: Any, idle: Any) -> Any:
    """Find the nearest edge within a component that does something that is wanted."""
    states = np.int64(len(p.move_first) - 1)
    mark, rank, order = p.mark, p.rank, p.order
    component = mark[start]
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
            edge = np.int64(STUTTER) if e < p.first[s] else e
            t = s if edge == STUTTER else np.int64(p.target[edge])
            letter = letter_of(p, s, edge)
            for m in range(p.move_first[q], p.move_first[q + 1]):
                w = t * states + p.move_target[m]
                if mark[w] != component or not allows(p, m, letter):
                    continue
                does = resting or (p.accepts[m] & accepts) != 0 or (taken_by(p, s, edge) & taken) != 0
                if source < 0 and (does or w == goal):
                    source, found, by = v, edge, m
                if rank[w] < 0:
                    rank[w] = v
                    order[count] = w
                    count += 1
    return source, found, by, count


@jit
def edge_between(p: Any, v: Any, w: Any) -> Any:
    """Return the number of an edge that leads from one node to another one; -2 where there is none."""
    states = np.int64(len(p.move_first) - 1)
    s, q = v // states, v % states
    for e in range(p.first[s] - 1, p.first[s + 1]):
        edge = np.int64(STUTTER) if e < p.first[s] else e
        t = s if edge == STUTTER else np.int64(p.target[edge])
        letter = letter_of(p, s, edge)
        for m in range(p.move_first[q], p.move_first[q + 1]):
            if t * states + p.move_target[m] == w and allows(p, m, letter):
                return edge
    return np.int64(-2)


@jit
def target_of(p: Any, v: Any, edge: Any, m: Any) -> Any:
    """Return the node to which an edge leads by a move."""
    states = np.int64(len(p.move_first) - 1)
    t = v // states if edge == STUTTER else np.int64(p.target[edge])
    return t * states + p.move_target[m]


@jit
def gather(first: Any, label: Any, bits: Any, begin: Any, found: Any) -> None:
    """Add to each state from `begin` on the bits of the labels of the steps that leave it."""
    first, label, bits, found = bare(first), bare(label), bare(bits), bare(found)
    for k in range(len(found)):
        for e in range(first[begin + k], first[begin + k + 1]):
            found[k] |= bits[label[e]]


@jit
def changes_of(p: Any, value: Any, changed: Any) -> None:
    """Add to each label the atoms that a step of it changes from what they are in `value`."""
    changed = bare(changed)
    for s in range(len(p.kind)):
        before = p.held[p.kind[s]]
        for e in range(p.first[s], p.first[s + 1]):
            changed[p.label[e]] |= (before ^ p.held[p.kind[p.target[e]]]) & ~(before ^ value)


@jit
def classify(held: Any, enabled: Any, begin: Any, p: Any, slots: Any, n: Any) -> Any:
    """Give states that are alike one number: those with the same atoms and conditions."""
    held, enabled, slots = bare(held), bare(enabled), bare(slots)
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

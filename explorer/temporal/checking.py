"""Check of a temporal property: search for a fair lasso that violates it.

The search is on the labelled state graph. The property's negation becomes an automaton that accepts exactly its
behaviours (tableau construction). The result is a generalised Büchi automaton with labels and acceptance on its
transitions. A state is a set of formulas that the rest of a behaviour must satisfy; it is expanded when it is reached.
An *until* may be postponed, but not for ever. So each until has an acceptance set: the transitions that do not postpone
it.

References
----------
J.-M. Couvreur: "On-the-fly verification of linear temporal logic" (1999); R. Gerth, D. Peled, M. Vardi, P. Wolper:
"Simple on-the-fly automatic verification of linear temporal logic" (1995).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.state_graph import LabelledGraph, MaskArray
from kraftcheck.explorer.temporal.kernel import product as kernel
from kraftcheck.explorer.transition_system import StepLabel, fairness_subject
from kraftcheck.spec.errors import InputError, ProtocolError
from kraftcheck.spec.language.formula import (
    NEXT_ACTION,
    And,
    Atom,
    BooleanConstant,
    Enabled,
    Fairness,
    Formula,
    Not,
    Or,
    Release,
    StatePredicate,
    Taken,
    Until,
    negation_normal_form,
)

MOST_FAIRNESS_CONDITIONS = 60


class FairnessCondition(NamedTuple):
    """A fairness condition for one subject: all steps, a replica, a pair of replicas, or a message type."""

    fairness: Fairness  # the declared fairness
    whom: Any = None  # the replica, pair or message type; None for all steps

    def concerns(self, label: StepLabel) -> bool:
        """Whether steps with a label are actions of the condition."""
        meant = self.fairness.names(label.action) and (not self.fairness.when or self.fairness in label.parts)
        return meant and self.whom == fairness_subject(self.fairness, label)

    def __str__(self) -> str:
        whom = " and ".join(map(str, self.whom)) if self.fairness.each == "pair" else self.whom
        return f"{self.fairness}, {whom}" if self.fairness.each else str(self.fairness)


def fairness_conditions_of(fairness: Iterable[Fairness], labels: list[StepLabel]) -> list[FairnessCondition]:
    """Return the conditions of declared fairness, given the labels of steps."""
    found = {FairnessCondition(one): None for one in fairness if not one.each} | {
        condition: None
        for one in fairness
        for label in labels
        if (condition := FairnessCondition(one, fairness_subject(one, label))).concerns(label)
    }
    if len(found) > MOST_FAIRNESS_CONDITIONS:
        raise InputError(f"fairness comes to {len(found)} conditions; expected at most {MOST_FAIRNESS_CONDITIONS}")
    return list(found)


def fairness_masks_of_labels(labels: list[StepLabel], conditions: list[FairnessCondition]) -> NDArray[np.uint64]:
    """Return for each label a bit mask of the fairness conditions that concern it."""
    masks = [sum(1 << bit for bit, one in enumerate(conditions) if one.concerns(label)) for label in labels]
    return np.array(masks, np.uint64)


MOST_AUTOMATON_STATES = 256
MOST_UNTILS = 60

Obligations = frozenset[Formula]


class AutomatonTransition(NamedTuple):
    """A transition of an automaton."""

    source: int  # number of a state
    target: int
    wanted: int  # bits of the atoms that must be true
    unwanted: int  # bits of the atoms that must be false
    accepts: int  # bits of the acceptance sets that contain the transition


class Automaton(NamedTuple):
    """Generalised Büchi automaton; its initial state is 0."""

    atoms: tuple[Atom, ...]  # the atoms, in the order of their numbers
    states: int  # number of states
    moves: tuple[AutomatonTransition, ...]  # the transitions, by source
    acceptance: int  # bits of all acceptance sets; an accepting run meets each infinitely often


class TableauBranch(NamedTuple):
    """A way to satisfy obligations now: atoms that must be true or false, and the obligations of the next state."""

    wanted: frozenset[Atom] = frozenset()  # atoms that must be true now
    unwanted: frozenset[Atom] = frozenset()  # atoms that must be false now
    later: Obligations = frozenset()  # obligations of the next state
    put_off: frozenset[Until] = frozenset()  # untils that are postponed

    def covers(self, other: TableauBranch) -> bool:
        """Whether this branch is available to every behaviour that may take the other branch."""
        return all(mine <= theirs for mine, theirs in zip(self, other, strict=True))


def automaton_of(formula: Formula) -> Automaton:
    """Return an automaton that accepts exactly the behaviours that satisfy a formula."""
    first: Obligations = frozenset([negation_normal_form(formula)])
    numbers, waiting = {first: 0}, [first]
    found: list[tuple[int, TableauBranch, int]] = []
    for state in waiting:
        for branch in _tableau_branches(state):
            if branch.later not in numbers:
                numbers[branch.later] = len(numbers)
                waiting.append(branch.later)
            found.append((numbers[state], branch, numbers[branch.later]))
        if len(numbers) > MOST_AUTOMATON_STATES:
            raise ProtocolError(f"the formula is too large: its automaton has more than {MOST_AUTOMATON_STATES} states")
    atoms = tuple(dict.fromkeys(formula.atoms()))
    untils = sorted({until for _, branch, _ in found for until in branch.put_off}, key=repr)
    if max(len(untils), len(atoms)) > MOST_UNTILS:
        raise ProtocolError(f"the formula is too large: more than {MOST_UNTILS} atoms or eventualities")
    acceptance = (1 << len(untils)) - 1
    moves = [
        AutomatonTransition(
            source, target, _formula_bit_mask(atoms, branch.wanted), _formula_bit_mask(atoms, branch.unwanted),
            acceptance & ~_formula_bit_mask(untils, branch.put_off),
        )
        for source, branch, target in found
    ]  # fmt: skip
    return _merge_equivalent_states(Automaton(atoms, len(numbers), tuple(moves), acceptance))


def _formula_bit_mask(formulas: Sequence[Formula], chosen: Iterable[Formula]) -> int:
    return sum(1 << formulas.index(one) for one in chosen)


def _merge_equivalent_states(automaton: Automaton) -> Automaton:
    """Return an automaton without equivalent states: states with the same transitions are merged."""
    while True:
        by_moves: dict[frozenset[AutomatonTransition], int] = {}
        number = []
        for state in range(automaton.states):
            possible = frozenset(move._replace(source=0) for move in automaton.moves if move.source == state)
            number.append(by_moves.setdefault(possible, len(by_moves)))
        if len(by_moves) == automaton.states:
            return automaton
        moves = (move._replace(source=number[move.source], target=number[move.target]) for move in automaton.moves)
        automaton = automaton._replace(states=len(by_moves), moves=tuple(dict.fromkeys(moves)))


def _tableau_branches(state: Obligations) -> list[TableauBranch]:
    """Return the branches of some obligations, without any branch that another branch covers."""
    found = list(dict.fromkeys(_unfold_branch(tuple(sorted(state, key=repr)), frozenset(), TableauBranch())))
    kept: list[TableauBranch] = []
    for one in sorted(found, key=lambda branch: sum(map(len, branch))):
        if not any(other.covers(one) for other in kept):
            kept.append(one)
    return kept


def _unfold_branch(
    todo: tuple[Formula, ...], done: frozenset[Formula], branch: TableauBranch
) -> Iterator[TableauBranch]:
    """Yield the extensions of a branch that satisfy all remaining formulas."""
    while todo and (todo[0] in done or todo[0] == BooleanConstant(True)):
        todo = todo[1:]
    if not todo:
        yield branch
        return
    for parts, one in _ways_to_satisfy(todo[0], branch):
        yield from _unfold_branch((*parts, *todo[1:]), done | {todo[0]}, one)


def _ways_to_satisfy(formula: Formula, branch: TableauBranch) -> list[tuple[tuple[Formula, ...], TableauBranch]]:
    """Return the ways to satisfy one formula now, each as (remaining formulas, branch)."""
    later = branch._replace(later=branch.later | {formula})
    # Expansion laws: `l U r` is `r or (l and next(l U r))`; `l R r` is `(l and r) or (r and next(l R r))`. Only the
    # second way of an until postpones it.
    match formula:
        case BooleanConstant():
            return []
        case And(left, right):
            return [((left, right), branch)]
        case Or(left, right):
            return [((left,), branch), ((right,), branch)]
        case Until(left, right):
            return [((right,), branch), ((left,), later._replace(put_off=branch.put_off | {formula}))]
        case Release(left, right):
            return [((left, right), branch), ((right,), later)]
        case Not(Atom() as part):
            return [] if part in branch.wanted else [((), branch._replace(unwanted=branch.unwanted | {part}))]
    assert isinstance(formula, Atom)
    return [] if formula in branch.unwanted else [((), branch._replace(wanted=branch.wanted | {formula}))]


MOST_PRODUCT_NODES = (1 << 31) - 4
STATES_A_CHUNK = 1 << 20
"""States that are processed together."""
FIRST_STATE_KINDS_CAPACITY = 1 << 10
"""Initial capacity for kinds of states."""
EMPTY_MASK = np.uint64(0)


class LassoStep(NamedTuple):
    """A step of a lasso."""

    target: int  # number of the target state
    label: StepLabel | None  # label of the step; None for a stutter


class Lasso(NamedTuple):
    """An infinite behaviour, by the numbers of its states: a path, then a cycle."""

    start: int  # an initial state
    way: tuple[LassoStep, ...]  # steps to the cycle
    # steps of the cycle; the last leads back to its beginning. Empty if the behaviour stutters.
    cycle: tuple[LassoStep, ...]
    kept: tuple[str, ...]  # for each fairness condition, how the cycle satisfies it
    # names of actions that would change an atom that must stay constant in the cycle
    waited: tuple[str, ...] = ()


class TemporalResult(NamedTuple):
    """Result of checking a temporal property."""

    lasso: Lasso | None  # a counterexample, or None
    notes: tuple[str, ...] = ()  # notes for the user


def check_formula_on_graph(
    name: str, formula: Formula, fairness: tuple[Fairness, ...], graph: LabelledGraph
) -> TemporalResult:
    """Check a temporal property on a state graph."""
    # The automaton accepts the violations. A node of its product with the state graph is a pair of states. The property
    # is violated if a reachable strongly connected component of the product is accepting and fair.
    automaton = automaton_of(~formula)
    if graph.count * automaton.states > MOST_PRODUCT_NODES:
        found = f"{graph.count:,} states, and {automaton.states} of the formula's automaton"
        raise InputError(f"{name}: found {found}; expected a product of at most {MOST_PRODUCT_NODES:,}")
    possible = _accepting_cycle_states(automaton)
    if not possible:
        return TemporalResult(None, (f"{name}: no behaviour of any protocol could violate it",))
    conditions = fairness_conditions_of(fairness, graph.labels_in_use())
    product = ProductGraph(graph, automaton, conditions)
    reached = product.reach()
    alive = np.zeros(automaton.states, bool)
    alive[list(possible)] = True
    kernel.mark_possibly_accepting(product.arrays, alive)
    lasso = product.lasso(reached) if product.find_fair() else None
    product.close()
    return TemporalResult(lasso, tuple(product.idle_atoms(name)) if lasso is None else ())


def _accepting_cycle_states(automaton: Automaton) -> set[int]:
    """Return the states of an automaton that lie on an accepting cycle."""
    reach = np.eye(automaton.states, dtype=bool)
    for move in automaton.moves:
        reach[move.source, move.target] = True
    for middle in range(automaton.states):
        reach |= np.outer(reach[:, middle], reach[middle])
    found: set[int] = set()
    for state in range(automaton.states):
        component = reach[state] & reach[:, state]
        inner = [move for move in automaton.moves if component[move.source] and reach[move.target, move.source]]
        if inner and np.bitwise_or.reduce([move.accepts for move in inner]) == automaton.acceptance:
            found.add(state)
    return found


def enabled_label_bits(graph: LabelledGraph, bits: MaskArray, first: int, count: int) -> MaskArray:
    """Return, for each state from `first` on, the bits of the labels of enabled steps that change it."""
    found = np.zeros(count, np.uint64)
    graph.beyond.add(bits, first, found)
    graph.blocked.add(bits, first, found)
    kernel.gather_label_bits(graph.first, graph.label, bits, first, found)
    return found


class ProductGraph:
    """Product of a state graph with an automaton, under fairness conditions."""

    def __init__(self, graph: LabelledGraph, automaton: Automaton, conditions: list[FairnessCondition]) -> None:
        self._graph, self._automaton, self._conditions = graph, automaton, conditions
        self._acceptance = np.uint64(automaton.acceptance)
        self._weak, self._strong = (
            np.uint64(sum(1 << bit for bit, one in enumerate(conditions) if one.fairness.kind == kind))
            for kind in ("weak", "strong")
        )
        labels, size, room = graph.book.labels, graph.count * automaton.states, graph.room
        arrays = self.arrays = kernel.ProductArrays()
        arrays.first, arrays.target, arrays.label = graph.first, graph.target, graph.label
        arrays.label_taken = fairness_masks_of_labels(labels, conditions)
        arrays.label_atoms = _atom_masks_of_labels(labels, automaton.atoms, Taken)
        self._partition_states(_atom_masks_of_labels(labels, automaton.atoms, Enabled))
        moves = sorted(automaton.moves)
        sources = [move.source for move in moves]
        arrays.move_first = np.searchsorted(sources, np.arange(automaton.states + 1)).astype(np.int64)
        arrays.move_target = np.array([move.target for move in moves], np.int64)
        for column in ("wanted", "unwanted", "accepts"):
            setattr(arrays, column, np.array([getattr(move, column) for move in moves], np.uint64))
        arrays.parent = room.array(size, np.int32, -1)
        arrays.order, arrays.rank, arrays.mark = (room.array(size, np.int32) for _ in range(3))

    def _partition_states(self, of_labels: MaskArray) -> None:
        """Partition the states into kinds: the same true atoms and the same enabled fairness conditions."""
        atoms = enumerate(self._automaton.atoms)
        held = {bit: self._graph.holds(atom.prop) for bit, atom in atoms if isinstance(atom, StatePredicate)}
        self.arrays.kind = self._graph.room.array(self._graph.count, np.int32)
        most = FIRST_STATE_KINDS_CAPACITY
        while not self._try_partition(of_labels, held, most):
            most *= 16

    def _try_partition(self, of_labels: MaskArray, held: dict[int, NDArray[np.bool_]], most: int) -> bool:
        """Partition the states into at most `most` kinds; return False if there are more kinds."""
        arrays, graph, known = self.arrays, self._graph, 0
        slots = np.full(2 * most, -1, np.int32)
        arrays.held, arrays.enabled = np.zeros(most, np.uint64), np.zeros(most, np.uint64)
        for first in range(0, graph.count, STATES_A_CHUNK):
            count = min(STATES_A_CHUNK, graph.count - first)
            true, ready = (enabled_label_bits(graph, bits, first, count) for bits in (of_labels, arrays.label_taken))
            for bit, where in held.items():
                true |= where[first : first + count].astype(np.uint64) << np.uint64(bit)
            done, known = kernel.classify_states_by_atoms_and_conditions(true, ready, first, arrays, slots, known)
            if done < count:
                return False
        arrays.held, arrays.enabled = arrays.held[:known].copy(), arrays.enabled[:known].copy()
        return True

    def close(self) -> None:
        """Release the memory of large arrays."""
        for name in ("kind", "parent", "order", "rank", "mark"):
            self._graph.room.give_back(getattr(self.arrays, name))

    def reach(self) -> int:
        """Visit the reachable nodes; return their number."""
        starts = np.arange(self._graph.starts, dtype=np.int64) * self._automaton.states
        return int(kernel.visit_reachable(self.arrays, starts))

    def find_fair(self) -> bool:
        """Mark the nodes of fair components; return whether there is one."""
        # A component may violate strong fairness alone: a condition is enabled in some of its nodes, but never taken.
        # Without these nodes, the rest may be fair, so its components are searched again.
        arrays, most, again = self.arrays, 1, 1
        while again:
            most, again = kernel.mark_fair_components(arrays, self._acceptance, self._weak, self._strong, most)
            kernel.reset_retried_nodes(arrays)
        return most > 1

    def idle_atoms(self, name: str) -> list[str]:
        """Return a note for each state predicate of the formula that is true in all states, or in none."""
        found = []
        for bit, atom in enumerate(self._automaton.atoms):
            if isinstance(atom, StatePredicate):
                true = self.arrays.held >> np.uint64(bit) & np.uint64(1) != 0
                if true.all() or not true.any():
                    found.append(f"{name}: {atom.prop.name} was {'never false' if true.all() else 'never true'}")
        return found

    # Counterexample

    def lasso(self, reached: int) -> Lasso:
        """Return a lasso into the first fair component reached, or a lasso that ends in a fair stutter if shorter."""
        arrays, every = self.arrays, self._weak | self._strong
        first, still = kernel.first_nodes_with_fair_cycle_and_stutter(arrays, reached, self._acceptance, every)
        way = _path_to_node(arrays.parent, first)
        short = _path_to_node(arrays.parent, still) if still >= 0 else None
        arrays.rank[:] = -1
        cycle = self._cycle(first)
        if short is not None and len(short) <= len(way) + len(cycle):
            return self._lasso_of(short, [])
        return self._lasso_of(way, cycle)

    def _cycle(self, node: int) -> list[tuple[int, int]]:
        """Return the edges of a fair cycle through a node, each as (edge number, target node)."""
        arrays, states = self.arrays, self._automaton.states
        inside = arrays.mark == arrays.mark[node]
        # Strong fairness demands only the conditions that are enabled somewhere in the component.
        ever = np.bitwise_or.reduce(arrays.enabled[arrays.kind[np.flatnonzero(inside) // states]])
        accepts, weak, strong = self._acceptance, self._weak, self._strong & ever
        here, edges = node, []
        # Walk to the nearest edge that fulfils an open demand, an acceptance set or a fairness condition, until no
        # demand is open. Then return to the first node.
        while True:
            source, edge, move, count = kernel.find_demanded_edge(arrays, here, -1, accepts, weak | strong, weak)
            edges += self._edges_along(_path_to_node(arrays.rank, source)) if source >= 0 else []
            arrays.rank[arrays.order[:count]] = -1
            if source < 0:
                break
            state = source // states
            here = int(arrays.target[edge] if edge >= 0 else state) * states + int(arrays.move_target[move])
            edges.append((edge, here))
            taken = arrays.label_taken[arrays.label[edge]] if edge >= 0 else EMPTY_MASK
            accepts &= ~arrays.accepts[move]
            weak &= arrays.enabled[arrays.kind[state]] & ~taken
            strong &= ~taken
            if not (accepts | weak | strong):
                break
        if here != node or not edges:
            source, edge, move, count = kernel.find_demanded_edge(arrays, here, node, *[EMPTY_MASK] * 3)
            edges += [*self._edges_along(_path_to_node(arrays.rank, source)), (edge, node)]
            arrays.rank[arrays.order[:count]] = -1
        return edges

    def _edges_along(self, way: list[int]) -> list[tuple[int, int]]:
        """Return the edges along a path of nodes, each as (edge number, target node)."""
        return [(int(kernel.edge_between(self.arrays, v, w)), w) for v, w in itertools.pairwise(way)]

    def _lasso_of(self, way: list[int], cycle: list[tuple[int, int]]) -> Lasso:
        states = self._automaton.states
        taken, again = self._moves(self._edges_along(way)), self._moves(cycle)
        round_ = [way[-1] // states, *(move.target for move in again)]
        inside = {way[-1] % states, *(node % states for _, node in cycle)}
        waited = self._waited(round_, inside)
        return Lasso(way[0] // states, tuple(taken), tuple(again), tuple(self._kept(round_, again)), waited)

    def _waited(self, states: list[int], inside: set[int]) -> tuple[str, ...]:
        """Return the actions that would change an atom that the cycle keeps constant and the automaton requires."""
        insisted = EMPTY_MASK
        for move in self._automaton.moves:
            if move.source in inside and move.target in inside:
                insisted |= np.uint64(move.wanted | move.unwanted)
        held = self.arrays.held[self.arrays.kind[states]]
        kept = insisted & ~(np.bitwise_or.reduce(held) & ~np.bitwise_and.reduce(held))
        labels = self._graph.book.labels
        changed = np.zeros(len(labels), np.uint64)
        kernel.gather_label_atom_changes(self.arrays, held[0], changed)
        names = {label.action for label, bits in zip(labels, changed.tolist(), strict=True) if bits & int(kept)}
        for bit, atom in enumerate(self._automaton.atoms):
            if isinstance(atom, Taken) and int(kept) >> bit & 1:
                names |= atom.actions - {NEXT_ACTION}
        return tuple(sorted(names))

    def _moves(self, edges: list[tuple[int, int]]) -> list[LassoStep]:
        """Return the steps along edges of the product, without stuttering steps."""
        labels, states = self._graph.book.labels, self._automaton.states
        return [LassoStep(node // states, labels[self._graph.label[edge]]) for edge, node in edges if edge >= 0]

    def _kept(self, states: list[int], moves: list[LassoStep]) -> list[str]:
        """Return for each fairness condition how a cycle satisfies it."""
        found = []
        for bit, condition in enumerate(self._conditions):
            taken = any(move.label is not None and condition.concerns(move.label) for move in moves)
            ready = [bool(int(self.arrays.enabled[self.arrays.kind[state]]) >> bit & 1) for state in states]
            how = "is taken" if taken else "is never enabled" if not any(ready) else "is not always enabled"
            found.append(f"{condition} {how}")
        return found


def _atom_masks_of_labels(
    labels: list[StepLabel], atoms: tuple[Atom, ...], kind: type[Enabled] | type[Taken]
) -> MaskArray:
    """Return for each label a bit mask of the atoms of type `kind` that name the label's action."""
    named = [(1 << bit, atom.actions) for bit, atom in enumerate(atoms) if isinstance(atom, kind)]
    masks = [sum(bit for bit, names in named if names & {NEXT_ACTION, label.action}) for label in labels]
    return np.array(masks, np.uint64)


def _path_to_node(previous: NDArray[np.int32], node: int) -> list[int]:
    """Return the path to a node, given the node before each; the first node of a path comes before itself."""
    way = [node]
    while previous[way[-1]] != way[-1]:
        way.append(int(previous[way[-1]]))
    return way[::-1]

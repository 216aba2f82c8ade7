"""Translation of a formula to an automaton that accepts exactly its behaviours (tableau construction).

The result is a generalised Büchi automaton with labels and acceptance on its transitions. A state is a set of formulas
that the rest of a behaviour must satisfy; it is expanded when it is reached. An *until* may be postponed, but not for
ever. So each until has an acceptance set: the transitions that do not postpone it.

References
----------
J.-M. Couvreur: "On-the-fly verification of linear temporal logic" (1999); R. Gerth, D. Peled, M. Vardi, P. Wolper:
"Simple on-the-fly automatic verification of linear temporal logic" (1995).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kraftcheck.spec.errors import ProtocolError
from kraftcheck.spec.language.formula import And, Atom, Boolean, Formula, Not, Or, Release, Until, negation_normal_form

MOST_STATES = 256
MOST_UNTILS = 60

Obligations = frozenset[Formula]


class Move(NamedTuple):
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
    moves: tuple[Move, ...]  # the transitions, by source
    acceptance: int  # bits of all acceptance sets; an accepting run meets each infinitely often


class Branch(NamedTuple):
    """A way to satisfy obligations now: atoms that must be true or false, and the obligations of the next state."""

    wanted: frozenset[Atom] = frozenset()  # atoms that must be true now
    unwanted: frozenset[Atom] = frozenset()  # atoms that must be false now
    later: Obligations = frozenset()  # obligations of the next state
    put_off: frozenset[Until] = frozenset()  # untils that are postponed

    def covers(self, other: Branch) -> bool:
        """Whether this branch is available to every behaviour that may take the other branch."""
        return all(mine <= theirs for mine, theirs in zip(self, other, strict=True))


def automaton_of(formula: Formula) -> Automaton:
    """Return an automaton that accepts exactly the behaviours that satisfy a formula."""
    first: Obligations = frozenset([negation_normal_form(formula)])
    numbers, waiting = {first: 0}, [first]
    found: list[tuple[int, Branch, int]] = []
    for state in waiting:
        for branch in _branches(state):
            if branch.later not in numbers:
                numbers[branch.later] = len(numbers)
                waiting.append(branch.later)
            found.append((numbers[state], branch, numbers[branch.later]))
        if len(numbers) > MOST_STATES:
            raise ProtocolError(f"the formula is too large: its automaton has more than {MOST_STATES} states")
    atoms = tuple(dict.fromkeys(formula.atoms()))
    untils = sorted({until for _, branch, _ in found for until in branch.put_off}, key=repr)
    if max(len(untils), len(atoms)) > MOST_UNTILS:
        raise ProtocolError(f"the formula is too large: more than {MOST_UNTILS} atoms or eventualities")
    acceptance = (1 << len(untils)) - 1
    moves = [
        Move(
            source, target, _bits(atoms, branch.wanted), _bits(atoms, branch.unwanted),
            acceptance & ~_bits(untils, branch.put_off),
        )
        for source, branch, target in found
    ]  # fmt: skip
    return _merged(Automaton(atoms, len(numbers), tuple(moves), acceptance))


def _bits(formulas: Sequence[Formula], chosen: Iterable[Formula]) -> int:
    return sum(1 << formulas.index(one) for one in chosen)


def _merged(automaton: Automaton) -> Automaton:
    """Return an automaton without equivalent states: states with the same transitions are merged."""
    while True:
        by_moves: dict[frozenset[Move], int] = {}
        number = []
        for state in range(automaton.states):
            possible = frozenset(move._replace(source=0) for move in automaton.moves if move.source == state)
            number.append(by_moves.setdefault(possible, len(by_moves)))
        if len(by_moves) == automaton.states:
            return automaton
        moves = dict.fromkeys(
            move._replace(source=number[move.source], target=number[move.target]) for move in automaton.moves
        )
        automaton = automaton._replace(states=len(by_moves), moves=tuple(moves))


def _branches(state: Obligations) -> list[Branch]:
    """Return the branches of some obligations, without any branch that another branch covers."""
    found = list(dict.fromkeys(_unfolded(tuple(sorted(state, key=repr)), frozenset(), Branch())))
    kept: list[Branch] = []
    for one in sorted(found, key=lambda branch: sum(map(len, branch))):
        if not any(other.covers(one) for other in kept):
            kept.append(one)
    return kept


def _unfolded(todo: tuple[Formula, ...], done: frozenset[Formula], branch: Branch) -> Iterator[Branch]:
    """Yield the extensions of a branch that satisfy all remaining formulas."""
    while todo and (todo[0] in done or todo[0] == Boolean(True)):
        todo = todo[1:]
    if not todo:
        yield branch
        return
    for parts, one in _ways(todo[0], branch):
        yield from _unfolded((*parts, *todo[1:]), done | {todo[0]}, one)


def _ways(formula: Formula, branch: Branch) -> list[tuple[tuple[Formula, ...], Branch]]:
    """Return the ways to satisfy one formula now, each as (remaining formulas, branch)."""
    later = branch._replace(later=branch.later | {formula})
    # Expansion laws: `l U r` is `r or (l and next(l U r))`; `l R r` is `(l and r) or (r and next(l R r))`. Only the
    # second way of an until postpones it.
    match formula:
        case Boolean():
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

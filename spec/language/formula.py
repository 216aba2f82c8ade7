"""Temporal formulas: what every behaviour must do, over predicates of states and of steps; and what is fair.

A `@temporal` method returns a formula. Its atoms are `@predicate` methods, `enabled(...)` and `taken(...)`; `always`,
`eventually` and what is made of them say when. The meaning is that of TLA+: behaviours are infinite, and may
stutter at any time unless fairness forbids it. There is no "next": nothing that a formula says changes by stuttering.

References
----------
L. Lamport: "The Temporal Logic of Actions" (1994), sections 2 and 5, for leads-to, WF and SF.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

from kraftcheck.spec.errors import ProtocolError
from kraftcheck.spec.values import Value

NEXT = "Next"
"""In the place of an action's name: any action."""


class Formula:
    """A formula of temporal logic. `&`, `|` and `~` combine formulas."""

    def __and__(self, other: Claim) -> Formula:
        return Both(self, as_formula(other))

    __rand__ = __and__

    def __or__(self, other: Claim) -> Formula:
        return Either(self, as_formula(other))

    __ror__ = __or__

    def __invert__(self) -> Formula:
        return Not(self)

    def __bool__(self) -> bool:
        raise ProtocolError("a formula is neither true nor false by itself: combine formulas by &, | and ~")

    def atoms(self) -> Iterator[Atom]:
        """Yield its atoms, some of them more than once."""
        for part in vars(self).values():
            if isinstance(part, Formula):
                yield from part.atoms()


Claim = Formula | Callable[..., Any]
"""A formula, or a predicate as `self.name`."""


class Atom(Formula):
    """What a state or a step decides by itself."""

    def atoms(self) -> Iterator[Atom]:
        """Yield it."""
        yield self


@dataclass(frozen=True, eq=False)
class Held(Atom):
    """A predicate of states."""

    prop: Any  # the predicate, a `Property`. One that asks for `me` is true where it is true of every replica.

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Held) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[object, ...]:
        prop = self.prop
        return prop.function, prop.opposite, prop.only, prop.fixed

    def of(self, **values: Value) -> Held:
        """Return the predicate for values of the parameters that a formula gives it (`given=`)."""
        return Held(self.prop.with_values(values))


@dataclass(frozen=True)
class Enabled(Atom):
    """Whether one of some actions can be taken, and would change the state."""

    actions: frozenset[str]


@dataclass(frozen=True)
class Taken(Atom):
    """Whether the step that follows is one of some actions, and changes the state."""

    actions: frozenset[str]

    def __str__(self) -> str:
        return f"taken({', '.join(sorted(self.actions))})"


@dataclass(frozen=True)
class Truth(Formula):
    """True or false."""

    value: bool


@dataclass(frozen=True)
class Not(Formula):
    """What is not so."""

    part: Formula


@dataclass(frozen=True)
class Both(Formula):
    """Two things that are so."""

    left: Formula
    right: Formula


@dataclass(frozen=True)
class Either(Formula):
    """Two things, of which one is so."""

    left: Formula
    right: Formula


@dataclass(frozen=True)
class Until(Formula):
    """`right` at some time, and `left` until then."""

    left: Formula
    right: Formula


@dataclass(frozen=True)
class Release(Formula):
    """`right` until `left` holds too, or for ever."""

    left: Formula
    right: Formula


def pushed(formula: Formula, positive: bool = True) -> Formula:
    """Return a formula, or its negation, in which only atoms are negated."""
    match formula:
        case Truth(value):
            return Truth(value is positive)
        case Not(part):
            return pushed(part, not positive)
        case Both(left, right) | Either(left, right):
            both = isinstance(formula, Both) is positive
            return _joined(both, pushed(left, positive), pushed(right, positive))
        case Until(left, right) | Release(left, right):
            kind = Until if isinstance(formula, Until) is positive else Release
            return kind(pushed(left, positive), pushed(right, positive))
    return formula if positive else Not(formula)


def _joined(both: bool, left: Formula, right: Formula) -> Formula:
    neutral, decisive = Truth(both), Truth(not both)
    if decisive in (left, right):
        return decisive
    if left in (neutral, right):
        return right
    return left if right == neutral else (Both if both else Either)(left, right)


def changed_by_stuttering(formula: Formula) -> Taken | None:
    """Return a `taken(...)` that stands where stuttering would change what a formula says; None where there is none.

    A step may be asked for at some time (`eventually`), and be ruled out at all times. That every step be one, or the
    first, is what a stutter breaks.
    """
    return _misplaced(pushed(formula), None)


def _misplaced(formula: Formula, allowed: bool | None) -> Taken | None:
    """Return a misplaced `taken(...)`: at this time it may be wanted (True), unwanted (False), or neither (None)."""
    match formula:
        case Taken():
            return None if allowed is True else formula
        case Not(Taken() as part):
            return None if allowed is False else part
        case Both(left, right) | Either(left, right):
            found = _misplaced(left, allowed), _misplaced(right, allowed)
        case Until(left, right):
            found = _misplaced(left, False), _misplaced(right, True)
        case Release(left, right):
            found = _misplaced(left, True), _misplaced(right, False)
        case _:
            return None
    return found[1] if found[0] is None else found[0]


def as_formula(claim: Claim) -> Formula:
    """Return a formula, given one or a predicate."""
    if isinstance(claim, Formula):
        return claim
    name = getattr(claim, "__qualname__", None) or repr(claim)
    raise ProtocolError(
        f"{name} is no formula; expected a @predicate as self.name, enabled(...), taken(...), or those combined"
    )


def always(claim: Claim) -> Formula:
    """Say that something is so at all times: `[]F` in TLA+."""
    return Release(Truth(False), as_formula(claim))


def eventually(claim: Claim) -> Formula:
    """Say that something is so at some time, now or later: `<>F` in TLA+."""
    return Until(Truth(True), as_formula(claim))


def infinitely_often(claim: Claim) -> Formula:
    """Say that something is so again and again: `[]<>F` in TLA+."""
    return always(eventually(claim))


def eventually_always(claim: Claim) -> Formula:
    """Say that something is so from some time on: `<>[]F` in TLA+."""
    return eventually(always(claim))


def implies(condition: Claim, claim: Claim) -> Formula:
    """Say that where one thing is so, another is: `F => G` in TLA+."""
    return ~as_formula(condition) | as_formula(claim)


def leads_to(condition: Claim, claim: Claim) -> Formula:
    """Say that whenever one thing is so, another is at that time or later: `F ~> G` in TLA+."""
    return always(implies(condition, eventually(claim)))


def every(claims: Iterator[Formula] | list[Formula]) -> Formula:
    """Say that each of some things is so, one for each replica perhaps."""
    result: Formula = Truth(True)
    for claim in claims:
        result = claim if result == Truth(True) else result & claim
    return result


def some(claims: Iterator[Formula] | list[Formula]) -> Formula:
    """Say that one of some things is so, one for each replica perhaps."""
    result: Formula = Truth(False)
    for claim in claims:
        result = claim if result == Truth(False) else result | claim
    return result


def enabled(*actions: str) -> Formula:
    """Say that one of some actions, by their names, can be taken and would change the state."""
    return Enabled(_named("enabled", actions))


def taken(*actions: str) -> Formula:
    """Say that the step that follows is one of some actions, by their names, and changes the state."""
    return Taken(_named("taken", actions))


def everywhere(predicate: Claim) -> Formula:
    """Say that a predicate that asks for `me` is true of every replica: as it is by itself."""
    return _held("everywhere", predicate)


def anywhere(predicate: Claim) -> Formula:
    """Say that a predicate that asks for `me` is true of some replica."""
    return Not(Held(_held("anywhere", predicate).prop.negated()))


def at(replica: Value, predicate: Claim) -> Formula:
    """Say that there is a replica of this id, and that a predicate that asks for `me` is true of it."""
    held = _held("at", predicate)
    return Not(Held(held.prop.negated().of(replica)))


def _held(word: str, predicate: Claim) -> Held:
    if not isinstance(predicate, Held):
        found = getattr(predicate, "__qualname__", None) or repr(predicate)
        raise ProtocolError(f"{word}(...) takes a @predicate, as self.name; found {found}")
    if "me" not in predicate.prop.asks:
        raise ProtocolError(f"{word}(...) takes a predicate that asks for me; {predicate.prop.name} does not")
    return predicate


def _named(word: str, actions: tuple[str, ...]) -> frozenset[str]:
    if not actions or not all(isinstance(name, str) for name in actions):
        raise ProtocolError(f'{word}(...) takes the names of actions, as "{NEXT}" or "HandleFetch"; found {actions!r}')
    return frozenset(actions)


Each = Literal["", "replica", "pair", "message"]


@dataclass(frozen=True)
class Fairness:
    """What a behaviour may not do for ever: leave out an action that could be taken.

    Attributes
    ----------
    kind
        "weak": leave it out while it can be taken all the time. "strong": leave it out though it can be taken again
        and again.
    actions
        Names of actions, of which any one does; `Next` stands for all.
    each
        Whether it is asked for each replica that acts ("replica"), for each together with the one that it hears from or
        sends to ("pair"), or for each type of message delivered ("message"), by itself.
    """

    kind: Literal["weak", "strong"]
    actions: tuple[str, ...]
    each: Each = ""

    def __str__(self) -> str:
        of = f" of each {self.each}" if self.each else ""
        return f"{'WF' if self.kind == 'weak' else 'SF'}({' or '.join(self.actions)}){of}"


def fairness_problem(declared: object) -> str | None:
    """Say what is wrong with what should be a tuple of conditions of fairness; None where nothing is."""
    wrong = [one for one in declared if not isinstance(one, Fairness)] if isinstance(declared, tuple) else [declared]
    return f"expected a tuple of weak(...) and strong(...), found {wrong[0]!r}" if wrong else None


def weak(*actions: str, each: Each = "") -> Fairness:
    """Return weak fairness of some actions together: WF of their disjunction in TLA+.

    Parameters
    ----------
    actions
        Their names; `Next` stands for all.
    each
        "replica", "pair" or "message", to ask it of each replica, of each with the one that it hears from or sends to,
        or of each type of message, by itself.
    """
    return Fairness("weak", _in_order("weak", actions), _checked("weak", each))


def strong(*actions: str, each: Each = "") -> Fairness:
    """Return strong fairness of some actions together: SF of their disjunction in TLA+.

    Parameters
    ----------
    actions
        Their names; `Next` stands for all.
    each
        "replica", "pair" or "message", to ask it of each replica, of each with the one that it hears from or sends to,
        or of each type of message, by itself.
    """
    return Fairness("strong", _in_order("strong", actions), _checked("strong", each))


def _in_order(word: str, actions: tuple[str, ...]) -> tuple[str, ...]:
    _named(word, actions)
    return tuple(dict.fromkeys(actions))


def _checked(word: str, each: Each) -> Each:
    if each not in get_args(Each):
        raise ProtocolError(f'{word}(each=...): expected "replica", "pair" or "message", found {each!r}')
    return each

"""Linear temporal logic over predicates of states and of steps, and fairness conditions.

A `@temporal` method returns a formula. Its atoms are `@predicate` methods, `enabled(...)` and `taken(...)`; `always`,
`eventually` and their combinations are the temporal operators. The semantics is that of TLA+: behaviours are infinite,
and may stutter at any time unless fairness forbids it. There is no "next" operator: formulas are invariant under
stuttering.

References
----------
L. Lamport: "The Temporal Logic of Actions" (1994), sections 2 and 5, for leads-to, WF and SF.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

from kraftcheck.spec.errors import ProtocolError
from kraftcheck.spec.values import Value, type_distinguishing_key

NEXT_ACTION = "Next"
"""The action name that stands for any action."""


class Formula:
    """A formula of temporal logic. `&`, `|` and `~` combine formulas."""

    def __and__(self, other: FormulaOrPredicate) -> Formula:
        return And(self, require_formula(other))

    __rand__ = __and__

    def __or__(self, other: FormulaOrPredicate) -> Formula:
        return Or(self, require_formula(other))

    __ror__ = __or__

    def __invert__(self) -> Formula:
        return Not(self)

    def __bool__(self) -> bool:
        raise ProtocolError("a formula is neither true nor false by itself: combine formulas by &, | and ~")

    def atoms(self) -> Iterator[Atom]:
        """Yield the atoms of the formula, possibly repeated."""
        for part in vars(self).values():
            if isinstance(part, Formula):
                yield from part.atoms()


FormulaOrPredicate = Formula | Callable[..., Any]
"""A formula, or a predicate as `self.name`."""


class Atom(Formula):
    """An atomic proposition over one state or one step."""

    def atoms(self) -> Iterator[Atom]:
        """Yield the atom itself."""
        yield self


@dataclass(frozen=True, eq=False)
class StatePredicate(Atom):
    """A predicate of states."""

    prop: Any  # the predicate, a `Property`; one that asks for `me` must be true of every replica

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StatePredicate) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[object, ...]:
        prop = self.prop
        return prop.function, prop.opposite, prop.only, type_distinguishing_key(prop.fixed)

    def __call__(self, *_: object) -> bool:
        """Raise ProtocolError: a predicate has no value in another method."""
        raise ProtocolError(f"predicate {self.prop.name} belongs to formulas; here, call a method without a decorator")

    def of(self, **values: Value) -> StatePredicate:
        """Return the predicate with its `given` parameters bound."""
        return StatePredicate(self.prop.with_values(values))


@dataclass(frozen=True)
class Enabled(Atom):
    """Whether one of the actions is enabled and would change the state."""

    actions: frozenset[str]


@dataclass(frozen=True)
class Taken(Atom):
    """Whether the next step is one of the actions and changes the state."""

    actions: frozenset[str]

    def __str__(self) -> str:
        return f"taken({', '.join(sorted(self.actions))})"


@dataclass(frozen=True)
class BooleanConstant(Formula):
    """A Boolean constant."""

    value: bool


@dataclass(frozen=True)
class Not(Formula):
    """Negation."""

    part: Formula


@dataclass(frozen=True)
class And(Formula):
    """Conjunction."""

    left: Formula
    right: Formula


@dataclass(frozen=True)
class Or(Formula):
    """Disjunction."""

    left: Formula
    right: Formula


@dataclass(frozen=True)
class Until(Formula):
    """`left` U `right`: `right` holds at some time, and `left` until then."""

    left: Formula
    right: Formula


@dataclass(frozen=True)
class Release(Formula):
    """`left` R `right`: `right` holds until and including the time when `left` holds, or forever."""

    left: Formula
    right: Formula


def negation_normal_form(formula: Formula, positive: bool = True) -> Formula:
    """Return the negation normal form of a formula or of its negation."""
    match formula:
        case BooleanConstant(value):
            return BooleanConstant(value is positive)
        case Not(part):
            return negation_normal_form(part, not positive)
        case And(left, right) | Or(left, right):
            both = isinstance(formula, And) is positive
            return _simplified_junction(
                both, negation_normal_form(left, positive), negation_normal_form(right, positive)
            )
        case Until(left, right) | Release(left, right):
            kind = Until if isinstance(formula, Until) is positive else Release
            return kind(negation_normal_form(left, positive), negation_normal_form(right, positive))
    return formula if positive else Not(formula)


def _simplified_junction(both: bool, left: Formula, right: Formula) -> Formula:
    neutral, decisive = BooleanConstant(both), BooleanConstant(not both)
    if decisive in (left, right):
        return decisive
    if left in (neutral, right):
        return right
    return left if right == neutral else (And if both else Or)(left, right)


def stutter_sensitive_taken(formula: Formula) -> Taken | None:
    """Return a `taken(...)` that makes a formula sensitive to stuttering, or None.

    A step may be required at some time (`eventually`), or forbidden at all times. A formula that requires every step,
    or the first one, to be of an action is sensitive to stuttering.
    """
    return _misplaced_taken(negation_normal_form(formula), None)


def _misplaced_taken(formula: Formula, allowed: bool | None) -> Taken | None:
    """Return a misplaced `taken(...)`, or None; `allowed` permits it plain (True), negated (False) or never (None)."""
    match formula:
        case Taken():
            return None if allowed is True else formula
        case Not(Taken() as part):
            return None if allowed is False else part
        case And(left, right) | Or(left, right):
            found = _misplaced_taken(left, allowed), _misplaced_taken(right, allowed)
        case Until(left, right):
            found = _misplaced_taken(left, False), _misplaced_taken(right, True)
        case Release(left, right):
            found = _misplaced_taken(left, True), _misplaced_taken(right, False)
        case _:
            return None
    return found[1] if found[0] is None else found[0]


def require_formula(claim: FormulaOrPredicate) -> Formula:
    """Return a claim as a formula; raise ProtocolError if it is neither a formula nor a predicate."""
    if isinstance(claim, Formula):
        return claim
    name = getattr(claim, "__qualname__", None) or repr(claim)
    raise ProtocolError(
        f"{name} is no formula; expected a @predicate as self.name, enabled(...), taken(...), or those combined"
    )


def always(claim: FormulaOrPredicate) -> Formula:
    """Return `[]F` of TLA+: F holds at all times."""
    return Release(BooleanConstant(False), require_formula(claim))


def eventually(claim: FormulaOrPredicate) -> Formula:
    """Return `<>F` of TLA+: F holds now or at a later time."""
    return Until(BooleanConstant(True), require_formula(claim))


def infinitely_often(claim: FormulaOrPredicate) -> Formula:
    """Return `[]<>F` of TLA+: F holds infinitely often."""
    return always(eventually(claim))


def eventually_always(claim: FormulaOrPredicate) -> Formula:
    """Return `<>[]F` of TLA+: F holds at all times from some time on."""
    return eventually(always(claim))


def implies(condition: FormulaOrPredicate, claim: FormulaOrPredicate) -> Formula:
    """Return `F => G` of TLA+: if F holds, so does G."""
    return ~require_formula(condition) | require_formula(claim)


def leads_to(condition: FormulaOrPredicate, claim: FormulaOrPredicate) -> Formula:
    """Return `F ~> G` of TLA+: whenever F holds, G holds then or later."""
    return always(implies(condition, eventually(claim)))


def every(claims: Iterator[Formula] | list[Formula]) -> Formula:
    """Return the conjunction of formulas, for example of a formula for each replica."""
    result: Formula = BooleanConstant(True)
    for claim in claims:
        result = claim if result == BooleanConstant(True) else result & claim
    return result


def some(claims: Iterator[Formula] | list[Formula]) -> Formula:
    """Return the disjunction of formulas, for example of a formula for each replica."""
    result: Formula = BooleanConstant(False)
    for claim in claims:
        result = claim if result == BooleanConstant(False) else result | claim
    return result


def enabled(*actions: str) -> Formula:
    """Return the proposition that one of the named actions is enabled and would change the state."""
    return Enabled(_require_action_names("enabled", actions))


def taken(*actions: str) -> Formula:
    """Return the proposition that the next step is one of the named actions and changes the state."""
    return Taken(_require_action_names("taken", actions))


def everywhere(predicate: FormulaOrPredicate) -> Formula:
    """Return the proposition that every replica satisfies a predicate of `me`, the default meaning of a predicate."""
    return _require_predicate_of_me("everywhere", predicate)


def anywhere(predicate: FormulaOrPredicate) -> Formula:
    """Return the proposition that a predicate of `me` is true of some replica."""
    return Not(StatePredicate(_require_predicate_of_me("anywhere", predicate).prop.negated()))


def at(replica: Value, predicate: FormulaOrPredicate) -> Formula:
    """Return the proposition that the replica with this id exists and satisfies a predicate of `me`."""
    held = _require_predicate_of_me("at", predicate)
    return Not(StatePredicate(held.prop.negated().of(replica)))


def _require_predicate_of_me(word: str, predicate: FormulaOrPredicate) -> StatePredicate:
    if not isinstance(predicate, StatePredicate):
        found = getattr(predicate, "__qualname__", None) or repr(predicate)
        raise ProtocolError(f"{word}(...) takes a @predicate, as self.name; found {found}")
    if "me" not in predicate.prop.asks:
        raise ProtocolError(f"{word}(...) takes a predicate that asks for me; {predicate.prop.name} does not")
    return predicate


def _require_action_names(word: str, actions: tuple[str, ...]) -> frozenset[str]:
    if not actions or not all(isinstance(name, str) for name in actions):
        raise ProtocolError(
            f'{word}(...) takes the names of actions, as "{NEXT_ACTION}" or "HandleFetch"; found {actions!r}'
        )
    return frozenset(actions)


Each = Literal["", "replica", "pair", "message"]


@dataclass(frozen=True)
class Fairness:
    """A fairness condition: a behaviour may not neglect an enabled action forever.

    Attributes
    ----------
    kind
        "weak": an action that stays enabled is taken. "strong": an action that is enabled infinitely often is taken.
    actions
        Names of actions; taking any one of them satisfies the condition. `Next` stands for all.
    each
        The scope of separate conditions. "replica": each acting replica. "pair": each pair of an acting replica and its
        sender or receiver. "message": each message type.
    when
        Name of a predicate of the protocol, `(self, me, message) -> bool`, that selects steps of the actions. `me` is
        None for a step of the environment, `message` for a step without one.
    """

    kind: Literal["weak", "strong"]
    actions: tuple[str, ...]
    each: Each = ""
    when: str = ""

    def __str__(self) -> str:
        of = (f" of each {self.each}" if self.each else "") + (f" when {self.when}" if self.when else "")
        return f"{'WF' if self.kind == 'weak' else 'SF'}({' or '.join(self.actions)}){of}"

    def names(self, action: str) -> bool:
        """Whether the condition covers an action, by its name or by Next."""
        return NEXT_ACTION in self.actions or action in self.actions


def fairness_declaration_problem(declared: object) -> str | None:
    """Return the error text for a value that is no tuple of fairness conditions; None for a valid value."""
    wrong = [one for one in declared if not isinstance(one, Fairness)] if isinstance(declared, tuple) else [declared]
    return f"expected a tuple of weak(...) and strong(...), found {wrong[0]!r}" if wrong else None


def weak(*actions: str, each: Each = "", when: str = "") -> Fairness:
    """Return weak fairness of the disjunction of the given actions: WF in TLA+.

    Parameters
    ----------
    actions
        Action names; `Next` stands for all.
    each
        "replica", "pair" or "message", for a separate condition of each replica, of each replica with its sender or
        receiver, or of each message type.
    when
        Name of a predicate of the protocol, `(self, me, message) -> bool`, that selects steps of the actions.
    """
    return Fairness("weak", _distinct_action_names("weak", actions), _require_valid_fairness_each("weak", each), when)


def strong(*actions: str, each: Each = "", when: str = "") -> Fairness:
    """Return strong fairness of the disjunction of the given actions: SF in TLA+.

    Parameters
    ----------
    actions
        Action names; `Next` stands for all.
    each
        "replica", "pair" or "message", for a separate condition of each replica, of each replica with its sender or
        receiver, or of each message type.
    when
        Name of a predicate of the protocol, `(self, me, message) -> bool`, that selects steps of the actions.
    """
    return Fairness(
        "strong", _distinct_action_names("strong", actions), _require_valid_fairness_each("strong", each), when
    )


def _distinct_action_names(word: str, actions: tuple[str, ...]) -> tuple[str, ...]:
    _require_action_names(word, actions)
    return tuple(dict.fromkeys(actions))


def _require_valid_fairness_each(word: str, each: Each) -> Each:
    if each not in get_args(Each):
        raise ProtocolError(f'{word}(each=...): expected "replica", "pair" or "message", found {each!r}')
    return each

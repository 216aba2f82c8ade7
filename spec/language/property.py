"""Properties: named predicates whose parameters say what they read.

The parameters are `me` (every replica), `peer` (every other replica), `message`
(every message that the network knows), `shared`, declared projections of all replicas, or the whole `state`. What
should stay reachable may also ask for `spent`, what has been used of each bound.
Engines evaluate a property once for each distinct value of its parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar, overload

from kraftcheck.spec.errors import ProtocolError
from kraftcheck.spec.language.action import Reads, camel_case
from kraftcheck.spec.language.signature import Projection, declared, parameters, place_of, record_types
from kraftcheck.spec.values import Record

F = TypeVar("F", bound=Callable[..., Any])
QUANTIFIED = ("me", "peer", "message")
STEP = ("before", "after")
ACT = ("message", "step")
SPENT = "spent"
REACHABLE = "reachable"


@overload
def invariant(function: F) -> F: ...


@overload
def invariant(*, reads: Reads = (), needs: Iterable[str] = (), name: str | None = None) -> Callable[[F], F]: ...


def invariant(
    function: F | None = None, *, reads: Reads = (), needs: Iterable[str] = (), name: str | None = None
) -> Any:
    """Mark a method as an invariant: true in every reachable state.

    Parameters
    ----------
    function
        The method, if the decorator is used without arguments.
    reads
        Projections of all replicas that it reads, each as a parameter of the projection's name.
    needs
        Names of constants, as a `.cfg` has them, without which it says nothing: where one is FALSE, 0 or empty, `check`
        notes it.
    name
        Its name in a `.cfg` and in reports; by default the method's name in camel case.
    """
    return _marked("invariant", function, reads, name, needs=tuple(needs))


@overload
def constraint(function: F) -> F: ...


@overload
def constraint(*, reads: Reads = (), name: str | None = None) -> Callable[[F], F]: ...


def constraint(function: F | None = None, *, reads: Reads = (), name: str | None = None) -> Any:
    """Mark a method as a state constraint, which a `.cfg` may name under CONSTRAINT to bound a search.

    Parameters
    ----------
    function
        The method, if the decorator is used without arguments.
    reads
        Projections of all replicas that it reads, each as a parameter of the projection's name.
    name
        Its name in a `.cfg` and in reports; by default the method's name in camel case.
    """
    return _marked("constraint", function, reads, name)


@overload
def step_invariant(function: F) -> F: ...


@overload
def step_invariant(*, name: str | None = None) -> Callable[[F], F]: ...


def step_invariant(function: F | None = None, *, name: str | None = None) -> Any:
    """Mark a method as a step property over a replica `before` and `after` a step: true of every step.

    It is evaluated on every replica that a step changes (not on one that it creates), and may also ask for the
    `shared` state before the step.

    With `step` or `message` among its parameters it says what a replica's own step must be: how it answers, what it
    may send. Then it is evaluated on the acting replica alone, in every step that the replica takes, changed or not;
    `step` is the `Step`, and with `message` only steps count in which a message of the annotated type is delivered.

    Parameters
    ----------
    function
        The method, if the decorator is used without arguments.
    name
        Its name in a `.cfg` and in reports; by default the method's name in camel case.
    """
    return _marked("step_invariant", function, (), name)


@overload
def action_constraint(function: F) -> F: ...


@overload
def action_constraint(*, name: str | None = None) -> Callable[[F], F]: ...


def action_constraint(function: F | None = None, *, name: str | None = None) -> Any:
    """Mark a method as an action constraint, which a `.cfg` may name under ACTION_CONSTRAINT to bound a search.

    It is a predicate over a replica `before` and `after` a step, as a `step_invariant` is.

    Parameters
    ----------
    function
        The method, if the decorator is used without arguments.
    name
        Its name in a `.cfg` and in reports; by default the method's name in camel case.
    """
    return _marked("action_constraint", function, (), name)


@overload
def reachable(function: F) -> F: ...


@overload
def reachable(*, reads: Reads = (), without: Iterable[str] = (), name: str | None = None) -> Callable[[F], F]: ...


def reachable(
    function: F | None = None, *, reads: Reads = (), without: Iterable[str] = (), name: str | None = None
) -> Any:
    """Mark a method as what should stay reachable: from every reachable state, a state in which it is true.

    In CTL this is AG EF p, of the states within the bounds and constraints of the search. A bound that is used up, and
    a CONSTRAINT, end the ways that lead beyond them: give what must go on enough of the bound, or let the method ask
    for `spent` and be true where nothing is left. Nothing is assumed of fairness: where there is no way out, there is
    none whatever is fair; a way out that is there need not be taken.

    Parameters
    ----------
    function
        The method, if the decorator is used without arguments.
    reads
        Projections of all replicas that it reads, each as a parameter of the projection's name.
    without
        Names of actions that are no way out, because nobody may have to wait for them: a crash, an operator's help.
        The states to which they lead are searched, and must have a way out themselves.
    name
        Its name in a `.cfg`, under PROPERTY, and in reports; by default the method's name in camel case.

    References
    ----------
    E. M. Clarke, E. A. Emerson: "Design and synthesis of synchronization skeletons using branching time temporal
    logic" (1981), for AG EF.
    """
    return _marked(REACHABLE, function, reads, name, tuple(without))


def _marked(
    kind: str,
    function: F | None,
    reads: Reads,
    name: str | None,
    without: tuple[str, ...] = (),
    needs: tuple[str, ...] = (),
) -> Any:
    def mark(function: F) -> F:
        found = PropertyMark(kind, declared(reads, function.__qualname__), name, without, needs)
        function.property_mark = found  # type: ignore[attr-defined]
        return function

    return mark if function is None else mark(function)


@dataclass(frozen=True, eq=False)
class Property:
    """One property of a protocol class.

    Attributes
    ----------
    name
        Its name in a `.cfg` and in reports.
    kind
        "invariant", "constraint", "step_invariant", "action_constraint" or "reachable".
    function
        The method, unbound.
    reads
        The projections that it declares.
    without
        Of what should stay reachable: the actions that are no way out.
    needs
        Constants without which it says nothing.
    """

    name: str
    kind: str
    function: Callable[..., Any]
    reads: tuple[Projection, ...]
    without: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()

    @property
    def over_steps(self) -> bool:
        """Whether it is about steps rather than states."""
        return self.kind in ("step_invariant", "action_constraint")

    @cached_property
    def of_actor(self) -> bool:
        """Whether it is about what a step's acting replica does: it reads the step or the delivered message."""
        return self.over_steps and any(name in self.asks for name in ACT)

    @cached_property
    def asks(self) -> tuple[str, ...]:
        """Names of its parameters after self."""
        allowed = (*STEP, "shared") if self.over_steps else (*QUANTIFIED, "shared", "state")
        if self.kind == "step_invariant":
            allowed = (*allowed, *ACT)
        if self.kind == REACHABLE:
            allowed = (*allowed, SPENT)
        names = parameters(self.function, allowed, self.reads)
        if "peer" in names and "me" not in names:
            raise ProtocolError(f"{place_of(self.function)}: property {self.name} asks for peer without me")
        needed = {"before"} if any(name in names for name in ACT) else set(STEP)
        if self.over_steps and not needed <= set(names):
            what = f"property {self.name} is about steps: it takes (self, before, after)"
            raise ProtocolError(f"{place_of(self.function)}: {what}")
        return names

    def kinds(self, parameter: str) -> tuple[type[Record], ...]:
        """Return the record types over which a quantified parameter ranges."""
        return self._kinds[parameter]

    @cached_property
    def _kinds(self) -> dict[str, tuple[type[Record], ...]]:
        return {name: record_types(self.function, name) for name in self.asks if name in (*QUANTIFIED, *STEP)}


@dataclass(frozen=True)
class PropertyMark:
    """What a property's decorator declares."""

    kind: str
    reads: tuple[Projection, ...]
    name: str | None
    without: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()

    def made(self, method: str, function: Callable[..., Any]) -> Property:
        """Return the property that a method of this name is."""
        return Property(self.name or camel_case(method), self.kind, function, self.reads, self.without, self.needs)

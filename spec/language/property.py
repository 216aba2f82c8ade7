"""Properties: named predicates whose parameters say what they read.

The parameters are `me` (every replica), `peer` (every other replica), `message`
(every message that the network knows), `shared`, declared projections of all replicas, or the whole `state`. What
should stay reachable may also ask for `spent`, what has been used of each bound.
Engines evaluate a property once for each distinct value of its parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, TypeVar, overload

from kraftcheck.spec.errors import ProtocolError
from kraftcheck.spec.language.action import Reads, camel_case
from kraftcheck.spec.language.formula import Fairness, Formula, Held, fairness_problem
from kraftcheck.spec.language.signature import Projection, declared, parameters, place_of, record_types
from kraftcheck.spec.values import Record, Value

F = TypeVar("F", bound=Callable[..., Any])
QUANTIFIED = ("me", "peer", "message")
STEP = ("before", "after")
ACT = ("message", "step")
SPENT = "spent"
REACHABLE = "reachable"
TEMPORAL = "temporal"
PREDICATE = "predicate"
OF_BEHAVIOURS = (REACHABLE, TEMPORAL)
"""Kinds of property that a search decides once it has visited every state."""


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
    return _marked(REACHABLE, function, reads, name, without=tuple(without))


class Predicate:
    """A `@predicate` method. Of a protocol, as `self.name`, it is a formula."""

    def __init__(self, method: Callable[..., Any], mark: PropertyMark) -> None:
        self.__doc__ = method.__doc__
        self.method = method
        self.property_mark = mark

    @overload
    def __get__(self, protocol: None, owner: type) -> Self: ...

    @overload
    def __get__(self, protocol: object, owner: type) -> Held: ...

    def __get__(self, protocol: Any, owner: type) -> Self | Held:
        """Return it as a formula, or by itself where it is asked of the class."""
        if protocol is None:
            return self
        return Held(protocol.properties[self.property_mark.name or camel_case(self.method.__name__)])


@overload
def predicate(function: Callable[..., Any]) -> Predicate: ...


@overload
def predicate(
    *, reads: Reads = (), given: Iterable[str] = (), name: str | None = None
) -> Callable[[Callable[..., Any]], Predicate]: ...


def predicate(
    function: Callable[..., Any] | None = None,
    *,
    reads: Reads = (),
    given: Iterable[str] = (),
    name: str | None = None,
) -> Any:
    """Mark a method as a predicate of states, for temporal properties: true or false, and claimed by nobody.

    Parameters
    ----------
    function
        The method, if the decorator is used without arguments.
    reads
        Projections of all replicas that it reads, each as a parameter of the projection's name.
    given
        Names of parameters whose values a formula gives it, as `self.committed.of(value=v)`.
    name
        Its name in reports; by default the method's name in camel case.
    """

    def mark(function: Callable[..., Any]) -> Predicate:
        mark = PropertyMark(PREDICATE, declared(reads, function.__qualname__), name, given=tuple(given))
        return Predicate(function, mark)

    return mark if function is None else mark(function)


@overload
def temporal(function: F) -> F: ...


@overload
def temporal(*, fairness: Iterable[Fairness] = (), name: str | None = None) -> Callable[[F], F]: ...


def temporal(function: F | None = None, *, fairness: Iterable[Fairness] = (), name: str | None = None) -> Any:
    """Mark a method that returns a formula as a temporal property: what every fair behaviour does.

    Parameters
    ----------
    function
        The method, if the decorator is used without arguments. It takes the protocol alone.
    fairness
        What it assumes besides what the specification (SPECIFICATION) does: `weak(...)` and `strong(...)`.
    name
        Its name in a `.cfg`, under PROPERTY, and in reports; by default the method's name in camel case.

    Raises
    ------
    ProtocolError
        If something else than fairness is assumed.
    """
    assumed = tuple(fairness)
    problem = fairness_problem(assumed)
    if problem is not None:
        raise ProtocolError(f"@temporal(fairness=...): {problem}")
    return _marked(TEMPORAL, function, (), name, fairness=assumed)


def _marked(kind: str, function: F | None, reads: Reads, name: str | None, **more: Any) -> Any:
    def mark(function: F) -> F:
        found = PropertyMark(kind, declared(reads, function.__qualname__), name, **more)
        function.property_mark = found  # type: ignore[attr-defined]
        return function

    return mark if function is None else mark(function)


@dataclass(frozen=True, eq=False)
class Property:
    """One property of a protocol class."""

    name: str  # its name in a `.cfg` and in reports
    # "invariant", "constraint", "step_invariant", "action_constraint", "reachable", "predicate" or "temporal"
    kind: str
    function: Callable[..., Any]  # the method, unbound
    reads: tuple[Projection, ...]  # the projections that it declares
    without: tuple[str, ...] = ()  # of what should stay reachable: the actions that are no way out
    needs: tuple[str, ...] = ()  # constants without which it says nothing
    fairness: tuple[Fairness, ...] = ()  # of a temporal property: what it assumes besides what the specification does
    opposite: bool = False  # whether it is true where the method says that it is not
    only: Value = None  # the id of the replica that is meant by `me`, where it is not every one
    given: tuple[str, ...] = ()  # names of parameters whose values a formula gives it
    fixed: tuple[tuple[str, Value], ...] = ()  # those values, by name

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """What tells it from the other properties of a protocol: values of several types may have one text."""
        return self.name, self.only, self.fixed

    def with_values(self, values: Mapping[str, Value]) -> Property:
        """Return the property for some values of the parameters that are given to it."""
        if set(values) != set(self.given):
            wanted = ", ".join(self.given) or "none"
            raise ProtocolError(
                f"{self.name}.of(...): expected values for {wanted}, found {', '.join(values) or 'none'}"
            )
        told = ", ".join(str(values[name]) for name in self.given)
        return replace(self, name=f"{self.name}({told})", fixed=tuple((name, values[name]) for name in self.given))

    def negated(self) -> Property:
        """Return the property that is true of a replica where this one is not."""
        return replace(self, name=f"not {self.name}", opposite=not self.opposite)

    def of(self, replica: Value) -> Property:
        """Return the property of one replica, by its id."""
        return replace(self, name=f"{self.name} at {replica}", only=replica)

    def formula(self, protocol: object) -> Formula:
        """Return what a temporal property says."""
        code = self.function.__code__
        place = f"{code.co_filename}:{code.co_firstlineno}: temporal property {self.name}"
        try:
            found = self.function(protocol)
        except ProtocolError as error:
            raise ProtocolError(f"{place}: {error}") from error
        except Exception as error:
            raise ProtocolError(f"{place} raised {type(error).__name__}: {error}") from error
        if not isinstance(found, Formula):
            raise ProtocolError(f"{place} returned {found!r}; expected a formula, as always(...) or leads_to(...)")
        return found

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
        allowed: tuple[str, ...] = (*STEP, "shared") if self.over_steps else (*QUANTIFIED, "shared", "state")
        if self.kind == TEMPORAL:
            allowed = ()
        if self.kind == "step_invariant":
            allowed = (*allowed, *ACT)
        if self.kind in (REACHABLE, PREDICATE):
            allowed = (*allowed, SPENT)
        names = tuple(n for n in parameters(self.function, (*allowed, *self.given), self.reads) if n not in self.given)
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

    def speaks_of(self, actor: type, message: type) -> bool:
        """Return whether a property of a replica's own steps is about those of such replicas, on such messages."""
        found = self._spoken_of.get((actor, message))
        if found is None:
            found = issubclass(actor, self.kinds("before"))
            found &= "message" not in self.asks or issubclass(message, self.kinds("message"))
            self._spoken_of[actor, message] = found
        return found

    @cached_property
    def _spoken_of(self) -> dict[tuple[type, type], bool]:
        return {}


@dataclass(frozen=True)
class PropertyMark:
    """What a property's decorator declares."""

    kind: str
    reads: tuple[Projection, ...]
    name: str | None
    without: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    fairness: tuple[Fairness, ...] = ()
    given: tuple[str, ...] = ()

    def made(self, method: str, function: Callable[..., Any]) -> Property:
        """Return the property that a method of this name is."""
        plain = function.method if isinstance(function, Predicate) else function
        name = self.name or camel_case(method)
        return Property(name, self.kind, plain, self.reads, self.without, self.needs, self.fairness, given=self.given)

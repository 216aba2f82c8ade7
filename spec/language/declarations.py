"""Decorators that declare a protocol's projections, actions and properties.

Actions are marked by their trigger. Properties are named predicates. The parameters of a method are its inputs. They
range over replicas (`me`), pairs of replicas (`me` and `peer`), and messages known to the network (`message`). Others
are the `shared` state, the whole `state`, and projections of all replicas, declared with `reads=`. Reachability goals
may also ask for `spent`, the used part of each bound. Engines pass exactly these inputs and evaluate a method once per
distinct input.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from inspect import isfunction
from typing import (
    Any,
    Literal,
    NamedTuple,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    cast,
    get_args,
    get_type_hints,
    overload,
)

from kraftcheck.spec.errors import ProtocolError
from kraftcheck.spec.language.formula import Each, Fairness, Formula, StatePredicate, fairness_declaration_problem
from kraftcheck.spec.values import Record, Value, type_distinguishing_key

F = TypeVar("F", bound=Callable[..., Any])
FairnessKind = Literal["", "weak", "strong"]
Reads = Callable[..., Any] | Iterable[Callable[..., Any]]
P = ParamSpec("P")

QUANTIFIED_PARAMETERS = ("me", "peer", "message")
STEP_PARAMETERS = ("before", "after")
OWN_STEP_PARAMETERS = ("message", "step")
SPENT_PARAMETER = "spent"
REACHABLE = "reachable"
TEMPORAL = "temporal"
REFINES = "refines"
PREDICATE = "predicate"
STEP_PROPERTY_KINDS = ("step_invariant", "action_constraint")
"""Kinds of property over the replicas that a step changes."""

GRAPH_PROPERTY_KINDS = (REACHABLE, TEMPORAL)
"""Kinds of property that a search evaluates after it has visited every state."""

PARAMETERS_BY_KIND = {
    **dict.fromkeys(("invariant", "constraint"), (*QUANTIFIED_PARAMETERS, "shared", "state")),
    **dict.fromkeys((REACHABLE, PREDICATE), (*QUANTIFIED_PARAMETERS, "shared", "state", SPENT_PARAMETER)),
    "step_invariant": (*STEP_PARAMETERS, "shared", *OWN_STEP_PARAMETERS),
    "action_constraint": (*STEP_PARAMETERS, "shared"),
    TEMPORAL: (),
    REFINES: ("state", "other"),
}
"""The parameters that a method may have, by kind of property, besides its projections."""


class Decorator(Protocol[P]):
    """A decorator of methods, with or without arguments."""

    @overload
    def __call__(self, function: F, /) -> F: ...

    @overload
    def __call__(self, *args: P.args, **options: P.kwargs) -> Callable[[F], F]: ...


MethodMarker = Callable[[Callable[..., Any]], Callable[..., Any]]


def decorator_with_optional_arguments(make: Callable[P, MethodMarker]) -> Decorator[P]:
    """Return the decorator that `make` defines, for use with keyword arguments, `@name(...)`, and without, `@name`."""

    @wraps(make)
    def decorator(function: Any = None, /, **options: Any) -> Any:
        mark = cast("Callable[..., MethodMarker]", make)(**options)
        return mark if function is None else mark(function)

    return cast("Decorator[P]", decorator)


class Projection(NamedTuple):
    """A named function of each replica, or of each inbox, that other methods may read."""

    name: str  # the parameter that requests it; its value is a map from replica ids
    # takes the protocol and the replica, or with `of_inbox` the messages in flight to it
    function: Callable[..., Any]
    of_inbox: bool  # whether it reads the inbox rather than the replica
    # whether it takes the network's own inbox, including messages no longer in flight
    is_whole: bool = False
    of: tuple[type[Record], ...] = ()  # the types of replica that it covers; empty for all


class NotProjected(enum.Enum):
    """The marker for a replica of a type that a projection does not cover; the projection's map omits the replica."""

    OF_ANOTHER_TYPE = "a replica of another type"


NOT_PROJECTED = NotProjected.OF_ANOTHER_TYPE


@decorator_with_optional_arguments
def projection(*, of: type[Record] | tuple[type[Record], ...] = ()) -> MethodMarker:
    """Mark a method as a projection, a function of every replica that actions and properties may read.

    The method takes the replica, `(self, me)`, the messages in flight to it, `(self, messages)`, or its inbox as the
    network represents it, `(self, inbox)`. An engine evaluates it once for each distinct input.

    Parameters
    ----------
    of
        One type of replica, or several. The map has these replicas only. By default it has all replicas.
    """
    kinds = of if isinstance(of, tuple) else (of,)

    def mark(function: Callable[..., Any]) -> Callable[..., Any]:
        name, parameters = function.__name__, list(inspect.signature(function).parameters)[1:]
        if len(parameters) != 1:
            raise ProtocolError(f"projection {name} takes one parameter besides self, found {parameters}")
        wrong = [kind for kind in kinds if not (isinstance(kind, type) and issubclass(kind, Record))]
        if wrong:
            raise ProtocolError(f"projection {name}, of=: expected types of replica, found {wrong[0]!r}")
        whole = parameters[0] == "inbox"
        of_inbox = whole or parameters[0] == "messages"
        if of_inbox and kinds:
            raise ProtocolError(f"projection {name}, of=: it takes {parameters[0]}, not a replica; expected (self, me)")
        function.projection = Projection(name, function, of_inbox, whole, kinds)  # type: ignore[attr-defined]
        return function

    return mark


def projections_in_reads(
    reads: Callable[..., Any] | Iterable[Callable[..., Any]], owner: str
) -> tuple[Projection, ...]:
    """Return the projections of the methods in a `reads=`; raise ProtocolError for a method that is none."""
    functions = [reads] if callable(reads) or isinstance(reads, str) else list(reads)
    for function in functions:
        if not hasattr(function, "projection"):
            raise ProtocolError(f"{owner}: reads= takes methods marked @projection, found {function!r}")
    return tuple(getattr(function, "projection") for function in functions)  # noqa: B009 - set by the decorator


def require_allowed_parameters(
    function: Callable[..., Any], allowed: Iterable[str], reads: tuple[Projection, ...]
) -> tuple[str, ...]:
    """Return a method's parameters after self; raise ProtocolError for one in neither `allowed` nor `reads`."""
    names = tuple(list(inspect.signature(function).parameters)[1:])
    offered = (*allowed, *(read.name for read in reads))
    for name in names:
        if name not in offered:
            raise ProtocolError(
                f"{place_and_name_of_method(function)} asks for {name!r}; it can ask for {', '.join(offered)}"
                " or declare a projection with reads="
            )
    return names


def place_and_name_of_method(function: Callable[..., Any]) -> str:
    """Return the file, line and name of a method."""
    code = function.__code__
    return f"{code.co_filename}:{code.co_firstlineno}: {function.__qualname__}"


def annotated_record_types(function: Callable[..., Any], parameter: str) -> tuple[type[Record], ...]:
    """Return the record types of a parameter's annotation; `Record` itself if it has none."""
    try:
        closure = inspect.getclosurevars(function).nonlocals if hasattr(function, "__code__") else {}
        hint = get_type_hints(function, localns=dict(closure)).get(parameter, Any)
    except NameError as error:
        raw = function.__annotations__.get(parameter)
        if isinstance(raw, type):
            hint = raw
        else:
            raise ProtocolError(
                f"{place_and_name_of_method(function)}: cannot resolve the annotation of {parameter!r}: {error}"
            ) from error
    kinds = tuple(kind for kind in (get_args(hint) or (hint,)) if isinstance(kind, type) and issubclass(kind, Record))
    return kinds or (Record,)


def on(
    *messages: type[Record], reads: Reads = (), name: str | None = None, fair: FairnessKind = "", each: Each = ""
) -> Callable[[F], F]:
    """Mark a method as an action on a message delivered to a replica: `(self, me, message, ...)`.

    The annotation of `me` restricts the acting replicas. Further parameters may be `shared` and the declared
    projections.

    Parameters
    ----------
    messages
        The message types that trigger it.
    reads
        Projections of all replicas that it reads, each as a parameter of the projection's name.
    name
        The action's name in TLA+ and in reports; by default the method's name in camel case.
    fair, each
        The fairness that temporal properties assume of the action: see `Protocol.specifications`.
    """
    return _make_action_marker("on", messages, reads, name, fair, each)


@decorator_with_optional_arguments
def internal(*, reads: Reads = (), name: str | None = None, fair: FairnessKind = "", each: Each = "") -> MethodMarker:
    """Mark a method as an internal action of a replica, such as a timeout or a client's request: `(self, me, ...)`.

    Parameters
    ----------
    reads
        Projections of all replicas that it reads, each as a parameter of the projection's name.
    name
        The action's name in TLA+ and in reports; by default the method's name in camel case.
    fair, each
        The fairness that temporal properties assume of the action: see `Protocol.specifications`.
    """
    return _make_action_marker("internal", (), reads, name, fair, each)


@decorator_with_optional_arguments
def environment(
    *, reads: Reads = (), name: str | None = None, fair: FairnessKind = "", each: Each = ""
) -> MethodMarker:
    """Mark a method as an action of the environment, such as the start of a server: `(self, ...)`.

    Parameters
    ----------
    reads
        Projections of all replicas that it reads, each as a parameter of the projection's name.
    name
        The action's name in TLA+ and in reports; by default the method's name in camel case.
    fair, each
        The fairness that temporal properties assume of the action: see `Protocol.specifications`.
    """
    return _make_action_marker("environment", (), reads, name, fair, each)


MARK_ATTRIBUTES = ("action_mark", "property_mark")


def _require_unmarked_method(function: Any, kind: str) -> None:
    """Raise ProtocolError for something else than a method, and for one with a decorator of another kind."""
    if not hasattr(function, "__code__"):
        raise ProtocolError(f"@{kind}: expected a method, found {function!r}")
    for other in (getattr(function, name) for name in MARK_ATTRIBUTES if hasattr(function, name)):
        if other.kind != kind:
            what = f"expected one decorator, found @{kind} and @{other.kind}"
            raise ProtocolError(f"{place_and_name_of_method(function)}: {what}")


def _make_action_marker(
    kind: str, messages: tuple[type[Record], ...], reads: Reads, name: str | None, fair: FairnessKind, each: Each
) -> Callable[[F], F]:
    if fair not in ("", "weak", "strong") or (each and not fair):
        raise ProtocolError(
            f'fair={fair!r}, each={each!r}: expected fair="weak" or fair="strong", and each= with it only'
        )

    def mark(function: F) -> F:
        for message in messages:
            if not (isinstance(message, type) and issubclass(message, Record)):
                raise ProtocolError(
                    f"{place_and_name_of_method(function)}: @on takes types of message, found {message!r}"
                )
        _require_unmarked_method(function, kind)
        if getattr(function, "action_mark", None) and function.action_mark.messages != messages:  # type: ignore[attr-defined]
            raise ProtocolError(f"{place_and_name_of_method(function)}: expected one @on, as @on(First, Second)")
        read = projections_in_reads(reads, function.__qualname__)
        function.action_mark = ActionMark(kind, messages, read, name, fair, each)  # type: ignore[attr-defined]
        return function

    if kind == "on" and not messages:
        raise ProtocolError("@on needs the type of the message: @on(RequestVote)")
    for message in messages:
        if isfunction(message):
            raise ProtocolError(
                f"{place_and_name_of_method(message)}: @on needs the type of the message: @on(RequestVote)"
            )
    return mark


def camel_case(method: str) -> str:
    """Return a method's name in camel case: `HandleFetch` for `handle_fetch`."""
    return "".join(word[:1].upper() + word[1:] for word in method.split("_") if word)


@dataclass(frozen=True, eq=False)
class Action:
    """One action of a protocol class.

    Attributes
    ----------
    name
        The name in TLA+ and in reports.
    kind
        "on", "internal" or "environment".
    function
        The method, unbound.
    messages
        The message types that trigger it (`on` only).
    reads
        The projections that it declares.
    fairness
        The fairness that it declares, or None.
    """

    name: str
    kind: str
    function: Callable[..., Any]
    messages: tuple[type[Record], ...]
    reads: tuple[Projection, ...]
    fairness: Fairness | None = None

    @property
    def method_name(self) -> str:
        """The name of the action that the method declares."""
        return self.name

    @cached_property
    def asks(self) -> tuple[str, ...]:
        """Names of the parameters after the acting replica and the message: `shared` and projections."""
        leading = {"on": 2, "internal": 1, "environment": 0}[self.kind]
        names = self.function.__code__.co_varnames[1 : self.function.__code__.co_argcount]
        if len(names) < leading:
            wanted = ", ".join(("self", "me", "message")[: leading + 1])
            raise ProtocolError(f"{place_and_name_of_method(self.function)}: action {self.name} takes ({wanted}, ...)")
        require_allowed_parameters(self.function, (*names[:leading], "shared"), self.reads)
        return names[leading:]

    @cached_property
    def actors(self) -> tuple[type[Record], ...]:
        """Types of the replicas that may take the action."""
        if self.kind == "environment":
            return ()
        assert self.asks is not None  # rejects missing parameters
        return annotated_record_types(self.function, self.function.__code__.co_varnames[1])


@dataclass(frozen=True)
class ActionMark:
    """The arguments of an action's decorator."""

    kind: str
    messages: tuple[type[Record], ...]
    reads: tuple[Projection, ...]
    name: str | None
    fair: FairnessKind = ""
    each: Each = ""

    def made(self, method: str, function: Callable[..., Any]) -> Action:
        """Return the `Action` that this mark declares for the method named `method`."""
        name = self.name or camel_case(method)
        fairness = Fairness(self.fair, (name,), self.each) if self.fair else None
        return Action(name, self.kind, function, self.messages, self.reads, fairness)


@decorator_with_optional_arguments
def invariant(*, reads: Reads = (), needs: Iterable[str] = (), name: str | None = None) -> MethodMarker:
    """Mark a method as an invariant: true in every reachable state.

    Parameters
    ----------
    reads
        Projections of all replicas that it reads, each as a parameter of the projection's name.
    needs
        Names in the `.cfg` of constants that the invariant needs: it is vacuous if one is FALSE, 0 or empty, and
        `check` reports it.
    name
        Its name in a `.cfg` and in reports; by default the method's name in camel case.
    """
    return _make_property_marker("invariant", reads, name, needs=tuple(needs))


@decorator_with_optional_arguments
def constraint(*, reads: Reads = (), name: str | None = None) -> MethodMarker:
    """Mark a method as a state constraint, which a `.cfg` may name under CONSTRAINT to bound a search.

    Parameters
    ----------
    reads
        Projections of all replicas that it reads, each as a parameter of the projection's name.
    name
        Its name in a `.cfg` and in reports; by default the method's name in camel case.
    """
    return _make_property_marker("constraint", reads, name)


@decorator_with_optional_arguments
def step_invariant(*, name: str | None = None) -> MethodMarker:
    """Mark a method as a step property over a replica `before` and `after` a step: true of every step.

    It is evaluated on every replica that a step changes, except a created one. It may also ask for the `shared` state
    before the step.

    With `step` or `message` among its parameters it is a property of a replica's own steps: its responses and other
    messages. It is then evaluated on the acting replica alone, in every step of that replica, changed or not. `step`
    is the `Step`. With `message`, only steps count that deliver a message of the annotated type.

    Parameters
    ----------
    name
        Its name in a `.cfg` and in reports; by default the method's name in camel case.
    """
    return _make_property_marker("step_invariant", (), name)


@decorator_with_optional_arguments
def action_constraint(*, name: str | None = None) -> MethodMarker:
    """Mark a method as an action constraint, which a `.cfg` may name under ACTION_CONSTRAINT to bound a search.

    Like a `step_invariant`, it is a predicate over a replica `before` and `after` a step.

    Parameters
    ----------
    name
        Its name in a `.cfg` and in reports; by default the method's name in camel case.
    """
    return _make_property_marker("action_constraint", (), name)


@decorator_with_optional_arguments
def reachable(*, reads: Reads = (), without: Iterable[str] = (), name: str | None = None) -> MethodMarker:
    """Mark a method as a reachability goal: from every reachable state, a state that satisfies it is reachable.

    In CTL this is AG EF p, over the states within the bounds and constraints of the search. A CONSTRAINT and an
    exhausted bound cut off the paths beyond them. Give the actions on these paths a large bound, or let the method read
    `spent` and return True at an exhausted bound. AG EF needs no fairness: it requires a path to the goal, not that an
    execution takes it.

    Parameters
    ----------
    reads
        Projections of all replicas that it reads, each as a parameter of the projection's name.
    without
        Names of actions that may not occur on a path to the goal, such as a crash or an operator's help. The states
        after these actions are still searched, and must have a path themselves.
    name
        Its name in a `.cfg`, under PROPERTY, and in reports; by default the method's name in camel case.

    References
    ----------
    E. M. Clarke, E. A. Emerson: "Design and synthesis of synchronization skeletons using branching time temporal
    logic" (1981), for AG EF.
    """
    return _make_property_marker(REACHABLE, reads, name, without=tuple(without))


class Predicate:
    """A `@predicate` method; accessed as `self.name` on a protocol, it is a formula."""

    def __init__(self, method: Callable[..., Any], mark: PropertyMark) -> None:
        self.__doc__ = method.__doc__
        self.method = method
        self.property_mark = mark

    @overload
    def __get__(self, protocol: None, owner: type) -> Self: ...

    @overload
    def __get__(self, protocol: object, owner: type) -> StatePredicate: ...

    def __get__(self, protocol: Any, owner: type) -> Self | StatePredicate:
        """Return the predicate as a formula, or itself if accessed on the class."""
        if protocol is None:
            return self
        return StatePredicate(protocol.properties[self.property_mark.name or camel_case(self.method.__name__)])


@overload
def predicate(function: Callable[..., Any]) -> Predicate: ...


@overload
def predicate(
    *, reads: Reads = (), given: Iterable[str] = (), name: str | None = None
) -> Callable[[Callable[..., Any]], Predicate]: ...


def predicate(
    function: Callable[..., Any] | None = None, *, reads: Reads = (), given: Iterable[str] = (), name: str | None = None
) -> Any:
    """Mark a method as a state predicate for temporal properties; it makes no claim by itself.

    Parameters
    ----------
    function
        The method, if the decorator is used without arguments.
    reads
        Projections of all replicas that it reads, each as a parameter of the projection's name.
    given
        Names of parameters that a formula binds, as in `self.committed.of(value=v)`.
    name
        Its name in reports; by default the method's name in camel case.
    """

    def mark(function: Callable[..., Any]) -> Predicate:
        _require_unmarked_method(function, PREDICATE)
        mark = PropertyMark(PREDICATE, projections_in_reads(reads, function.__qualname__), name, given=tuple(given))
        return Predicate(function, mark)

    return mark if function is None else mark(function)


@decorator_with_optional_arguments
def temporal(*, fairness: Iterable[Fairness] = (), name: str | None = None) -> MethodMarker:
    """Mark a method that returns a formula as a temporal property, which every fair behaviour satisfies.

    Parameters
    ----------
    fairness
        Fairness that it assumes in addition to SPECIFICATION: `weak(...)` and `strong(...)`.
    name
        Its name in a `.cfg`, under PROPERTY, and in reports; by default the method's name in camel case.

    Raises
    ------
    ProtocolError
        If `fairness` contains anything else.
    """
    assumed = tuple(fairness)
    problem = fairness_declaration_problem(assumed)
    if problem is not None:
        raise ProtocolError(f"@temporal(fairness=...): {problem}")
    return _make_property_marker(TEMPORAL, (), name, fairness=assumed)


def refines(other: type, *, name: str | None = None) -> MethodMarker:
    """Mark a method as a refinement mapping, from states to another protocol's states: `(self, state, other)`.

    `other` is the abstract protocol: `other.start(...)` makes its states. Each initial state must map to an initial
    state of the abstract protocol, and each step to a step of it or to none. The abstract protocol has the constants of
    this one that have the same attributes. Its fairness is not checked.

    Parameters
    ----------
    other
        The protocol that is refined, a class.
    name
        Its name in a `.cfg`, under PROPERTY, and in reports; by default the method's name in camel case.
    """
    if not (isinstance(other, type) and hasattr(other, "actions")):
        raise ProtocolError(f"@refines(...): expected a protocol, as @refines(TransactionCommit), found {other!r}")
    return _make_property_marker(REFINES, (), name, refined=other)


def _make_property_marker(kind: str, reads: Reads, name: str | None, **more: Any) -> MethodMarker:
    def mark(function: Callable[..., Any]) -> Callable[..., Any]:
        _require_unmarked_method(function, kind)
        found = PropertyMark(kind, projections_in_reads(reads, function.__qualname__), name, **more)
        function.property_mark = found  # type: ignore[attr-defined]
        return function

    return mark


@dataclass(frozen=True, eq=False)
class Property:
    """One property of a protocol class."""

    name: str  # its name in a `.cfg` and in reports
    # "invariant", "constraint", "step_invariant", "action_constraint", "reachable", "predicate", "temporal", "refines"
    kind: str
    function: Callable[..., Any]  # the method, unbound
    reads: tuple[Projection, ...]  # the projections that it declares
    without: tuple[str, ...] = ()  # of a reachability goal: the actions that may not occur on a path to it
    needs: tuple[str, ...] = ()  # constants without which it is vacuous
    fairness: tuple[Fairness, ...] = ()  # of a temporal property: fairness assumed in addition to the specification's
    opposite: bool = False  # whether it negates the method's result
    only: Value = None  # the id of the only replica to bind to `me`, or None for every replica
    given: tuple[str, ...] = ()  # names of parameters that a formula binds
    fixed: tuple[tuple[str, Value], ...] = ()  # the bound values, by name
    base_name: str = ""  # of a predicate with bound values, a replica or a negation: the predicate's name
    refined: Any = None  # of a refinement: the abstract protocol, a class
    whole: Any = None  # of a part of a property over states: that property

    @property
    def method_name(self) -> str:
        """The name of the property that the method declares."""
        return self.base_name or self.name

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """The unique key among the properties of a protocol and their parts: unequal values may have equal texts."""
        return self.name, self.only, type_distinguishing_key(self.fixed), self.asks if self.whole else None

    def with_values(self, values: Mapping[str, Value]) -> Property:
        """Return the property with its `given` parameters bound."""
        if set(values) != set(self.given):
            wanted = ", ".join(self.given) or "none"
            raise ProtocolError(
                f"{self.name}.of(...): expected values for {wanted}, found {', '.join(values) or 'none'}"
            )
        told = ", ".join(str(values[name]) for name in self.given)
        fixed = tuple((name, values[name]) for name in self.given)
        return replace(self, name=f"{self.name}({told})", base_name=self.method_name, fixed=fixed)

    def negated(self) -> Property:
        """Return the negation of the property, for each replica."""
        return replace(self, name=f"not {self.name}", base_name=self.method_name, opposite=not self.opposite)

    def of(self, replica: Value) -> Property:
        """Return the property, restricted to the replica with the id `replica`."""
        return replace(self, name=f"{self.name} at {replica}", base_name=self.method_name, only=replica)

    def formula(self, protocol: object) -> Formula:
        """Return the formula of a temporal property."""
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
        """Whether the property is over steps rather than states."""
        return self.kind in (*STEP_PROPERTY_KINDS, REFINES)

    @cached_property
    def of_actor(self) -> bool:
        """Whether the property is over the acting replica's step: it reads the step or the delivered message."""
        return self.over_steps and any(name in self.asks for name in OWN_STEP_PARAMETERS)

    @cached_property
    def asks(self) -> tuple[str, ...]:
        """Names of the property's parameters, without self."""
        names = require_allowed_parameters(self.function, (*PARAMETERS_BY_KIND[self.kind], *self.given), self.reads)
        names = tuple(name for name in names if name not in self.given)
        if "peer" in names and "me" not in names:
            raise ProtocolError(
                f"{place_and_name_of_method(self.function)}: property {self.name} asks for peer without me; add me"
            )
        needed = {"before"} if any(name in names for name in OWN_STEP_PARAMETERS) else set(STEP_PARAMETERS)
        if self.over_steps and self.kind != REFINES and not needed <= set(names):
            what = f"property {self.name} is about steps: it takes (self, before, after)"
            raise ProtocolError(f"{place_and_name_of_method(self.function)}: {what}")
        return names

    def kinds(self, parameter: str) -> tuple[type[Record], ...]:
        """Return the record types that a quantified parameter ranges over."""
        return self._kinds[parameter]

    @cached_property
    def _kinds(self) -> dict[str, tuple[type[Record], ...]]:
        return {
            name: annotated_record_types(self.function, name)
            for name in self.asks
            if name in (*QUANTIFIED_PARAMETERS, *STEP_PARAMETERS)
        }

    def speaks_of(self, actor: type, message: type) -> bool:
        """Return whether a step property covers the steps of replicas of type `actor` on messages of type `message`."""
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
    """The arguments of a property's decorator."""

    kind: str
    reads: tuple[Projection, ...]
    name: str | None
    without: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    fairness: tuple[Fairness, ...] = ()
    given: tuple[str, ...] = ()
    refined: Any = None

    def made(self, method: str, function: Callable[..., Any]) -> Property:
        """Return the `Property` that this mark declares for the method named `method`."""
        plain = function.method if isinstance(function, Predicate) else function
        name = self.name or camel_case(method)
        more: dict[str, Any] = {"given": self.given, "refined": self.refined}
        return Property(name, self.kind, plain, self.reads, self.without, self.needs, self.fairness, **more)

"""The base class of protocols: constants, bounds, actions, properties, variants."""

from __future__ import annotations

import enum
import gc
import inspect
import re
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, ClassVar, Never

from kraftcheck.spec.errors import FORGOT_YIELD_MESSAGE, ConstantError, ProtocolError, RaisedError, unknown_name_message
from kraftcheck.spec.language.declarations import (
    MARK_ATTRIBUTES,
    NOT_PROJECTED,
    Action,
    Predicate,
    Projection,
    Property,
    place_and_name_of_method,
)
from kraftcheck.spec.language.formula import Fairness, fairness_declaration_problem
from kraftcheck.spec.language.network import BagWithMemory, Network, NoNetwork
from kraftcheck.spec.language.state import NOTHING, State, note_replica_types
from kraftcheck.spec.language.views import HiddenFieldsAndBounds, HiddenReadLog
from kraftcheck.spec.type_checks import describe_value, type_mismatch
from kraftcheck.spec.values import Map, Record, Value, field_types, ordered, truncate_text, type_hints

NO_DEFAULT: Any = object()
MAX_BOUND = 2**31 - 1
"""The largest bound: engines count the use of each bound in 32 bits."""
DEADLOCK = "Deadlock"
"""The verdict name of a state without successors."""
FAIR_SPEC = "FairSpec"
"""The specification with the fairness that the actions declare."""

_SEARCH_FUNCTIONS = {
    ("kraftcheck.spec.language.semantics", "call_action"),
    ("kraftcheck.spec.language.semantics", "evaluate_property"),
    ("kraftcheck.spec.language.protocol", "projected"),
}
"""The callers of protocol methods in a search: module and function."""


class Constant:
    """A constant of a protocol class, made by `constant` or `bound`; each instance has its own value."""

    def __init__(self, name: str, default: Value, at_least: int | None, counter: str | None) -> None:
        if not name or not isinstance(name, str):
            raise ProtocolError(f"expected a constant's name in the .cfg, found {name!r}; a value is default=...")
        self.name = name
        self.default = default
        self.at_least = at_least
        self.counter = counter
        self.attribute = ""

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.attribute = attribute

    @property
    def is_bound(self) -> bool:
        """Whether the constant is a bound, which steps spend."""
        return self.counter is not None


def constant(name: str, *, default: Value = NO_DEFAULT, at_least: int | None = None) -> Any:
    """Declare a constant.

    Example: `hosts: frozenset[ModelValue] = constant("Hosts")`.

    Parameters
    ----------
    name
        The name in the `.cfg`.
    default
        The value if the `.cfg` has none. Without a default the `.cfg` must set it.
    at_least
        Lowest number allowed, inclusive.
    """
    return Constant(name, default, at_least, None)


def bound(name: str, *, default: Value = NO_DEFAULT, counter: str = "") -> Any:
    """Declare a bound, a number that steps spend.

    Example: `elections: int = bound("MaxElections")`.

    Parameters
    ----------
    name
        The name of the limit in the `.cfg`.
    default
        The limit if the `.cfg` has none. Without a default the `.cfg` must set it.
    counter
        The TLA+ variable that counts the uses; by default `_` and the attribute's name in camel case.
    """
    return Constant(name, default, 0, counter)


def _non_record_argument_text(given: object) -> str:
    """Return a description of a value that `start` is given instead of a record, with the probable fix."""
    if isinstance(given, list | tuple):
        return f"a {type(given).__name__}; messages are messages=[...]"
    return f"{describe_value(given)} (forgot `()`?)" if isinstance(given, type) else describe_value(given)


@contextmanager
def _pause_garbage_collection() -> Iterator[None]:
    """Stop the garbage collector, which would look at all states again and again while many are made."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


class Protocol:
    """A protocol: an explicit-state transition system. For small examples see `kraftcheck.spec.examples`.

    A subclass declares constants and bounds, its `network`, its initial states (`initial`), and methods decorated as
    actions and properties. A subclass of a protocol with `variant="name"` is a variant of it.

    Class attributes a subclass may set
    -----------------------------------
    network
        The network discipline; None where there are no messages.
    symbols
        The `Symbol` classes, or other enums, whose members a `.cfg` may assign to themselves (`Leader = Leader`).
    symmetries
        From a name for SYMMETRY to the constants (attributes) with interchangeable members.
    views
        From a name for VIEW to the view, made by `hide`.
    specifications
        From a name for SPECIFICATION to the fairness that it requires: False or () for none. Without SPECIFICATION in
        the `.cfg`, or with `FairSpec`, it is the fairness that the actions declare by `fair=`.
    strict_bounds
        Whether bounds are part of the specification: an exhausted bound disables an action, as in TLC. Otherwise
        temporal properties treat an action that only a bound blocks as enabled.
    accepted_constants
        Names of constants of the specification that a `.cfg` may set without effect.
    accepted_names
        Names for INIT and NEXT besides `Init` and `Next`: those of a specification, such as `TCInit` and `TCNext`.
    none_is
        Name of the model value that stands for None in TLA+: in traces, in dumps and in a `.cfg`.
    written_only
        Names of intentionally unread fields, such as those of a specification or for display.
    configuration
        The default configuration of every command; for a variant, one that shows the effect of its change. It is a
        configuration name of the model, or a file (relative to the user file that names it).
    """

    network: Network | Any = BagWithMemory()  # Any lets a subclass say None
    symbols: ClassVar[tuple[type[enum.Enum], ...]] = ()
    symmetries: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    views: ClassVar[Mapping[str, frozenset[str]]] = {}
    specifications: ClassVar[Mapping[str, bool | tuple[Fairness, ...]]] = {"Spec": False}
    strict_bounds: ClassVar[bool] = False
    accepted_constants: ClassVar[tuple[str, ...]] = ()
    accepted_names: ClassVar[tuple[str, ...]] = ()
    none_is: ClassVar[str] = "None"
    written_only: ClassVar[tuple[str, ...]] = ()
    configuration: ClassVar[str | None] = None

    actions: ClassVar[Mapping[str, Action]] = {}
    properties: ClassVar[Mapping[str, Property]] = {}
    constants: ClassVar[Mapping[str, Constant]] = {}
    variants: ClassVar[dict[str, type[Protocol]]] = {}
    variant: ClassVar[str | None] = None

    shared_record: Any  # the class of the shared state
    id_types: tuple[Any, ...]  # of the initial replicas
    replica_types: dict[Value, set[type]]  # by id, of these and of replicas that actions create
    message_senders: dict[tuple[type, Value], Action]  # message types and destinations, with a sending action
    is_sampled: bool  # whether a search repeats a sample of calls, to detect impure actions
    probes: dict[str, Any]  # property -> `PropertyCoverageProbe` of `diagnosis/lint`, called in its place
    by_type: Container[str]  # actions and properties that may tell a proxy from its record
    kept_initial: dict[str, list[State]] | None  # initial states by name, while several engines try one search
    hidden_reads: HiddenReadLog | None  # records the methods' reads of fields that a VIEW hides

    def __init_subclass__(cls, variant: str | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        _refuse_reserved_names(cls, {"variants"} if variant else set())  # a variant may take those of another base
        cls.variant = variant
        if cls.network is None:
            cls.network = NoNetwork()
        if variant is None:
            cls.variants = {}
        else:
            other = cls.variants.get(variant)
            if other is not None and (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
                raise ProtocolError(f"{cls.__qualname__} and {other.__qualname__} are both the variant {variant!r}")
            cls.variants[variant] = cls
        declared = (c for base in reversed(cls.__mro__) for c in vars(base).values() if isinstance(c, Constant))
        cls.constants = MappingProxyType({c.name: c for c in declared})
        cls.actions, cls.properties = (_declared_actions_or_properties(cls, mark) for mark in MARK_ATTRIBUTES)
        _refuse_projections_sharing_a_name((*cls.actions.values(), *cls.properties.values()))

    def __init__(self, *unnamed: Never, **values: Value) -> None:
        _refuse_unnamed_constants(type(self).__name__, unnamed)
        hints = type_hints(type(self))
        for declared in self.constants.values():
            value = values.pop(declared.attribute, declared.default)
            if value is NO_DEFAULT:
                raise ConstantError(declared.name, "is not given a value")
            problem = type_mismatch(value, hints.get(declared.attribute, Any), declared.name)
            if problem:
                raise ConstantError(declared.name, problem.removeprefix(f"{declared.name}: "))
            if declared.at_least is not None and value < declared.at_least:
                raise ConstantError(declared.name, f"expected a number of at least {declared.at_least}, found {value}")
            if declared.is_bound and value > MAX_BOUND:
                raise ConstantError(
                    declared.name, f"expected a number of at most {MAX_BOUND}, found {truncate_text(str(value), 60)}"
                )
            setattr(self, declared.attribute, value)
        if values:
            known = ", ".join(c.attribute for c in self.constants.values())
            raise ConstantError(min(values), f"is not a constant of {self.name()}; its constants are {known}")
        self.check_constants()
        self._check_declarations()
        self.shared_record, self.id_types, self.replica_types, self.message_senders = None, (), {}, {}
        self.is_sampled, self.probes, self.by_type, self.hidden_reads, self.kept_initial = True, {}, (), None, None

    def __setattr__(self, name: str, value: Any) -> None:
        _refuse_write_in_search(self, name)
        super().__setattr__(name, value)

    @classmethod
    def fairness_of(cls, specification: str | None) -> tuple[Fairness, ...]:
        """Return the fairness conditions of a specification; None and `FairSpec` stand for those of the actions.

        Raises
        ------
        ProtocolError
            If the specification is unknown, or does not define its fairness.
        """
        if specification is None or (specification == FAIR_SPEC and FAIR_SPEC not in cls.specifications):
            return tuple(action.fairness for action in cls.actions.values() if action.fairness is not None)
        if specification not in cls.specifications:
            raise ProtocolError(unknown_name_message("specification", specification, cls.specifications, cls.name()))
        declared = cls.specifications[specification]
        if declared is True:
            raise ProtocolError(f"SPECIFICATION {specification} requires fairness, but {cls.name()} declares none")
        return declared or ()

    @classmethod
    def name(cls) -> str:
        """Return the protocol's name in reports: the class's name, or for a variant the base's."""
        return next(base.__name__ for base in cls.__mro__ if base.__dict__.get("variant") is None)

    def check_constants(self) -> None:
        """Raise `ConstantError` if constants are inconsistent; by default they are consistent."""

    def _check_declarations(self) -> None:
        """Raise ProtocolError if the network, a specification or a symmetry is invalid."""
        name, network = type(self).__name__, self.network
        at = partial(_place_of_attribute, type(self))
        if not isinstance(network, Network):
            forgot = " (forgot `()`?)" if isinstance(network, type) else ""
            what = f"expected a network, such as MessageSet(), found {network!r}{forgot}"
            raise ProtocolError(f"{at('network')}{name}.network: {what}")
        if (problem := self._network_problem()) is not None:
            raise ProtocolError(f"{at('network')}{name}.network: {problem}")
        for action in network.own_actions():
            if action in self.actions:
                place = place_and_name_of_method(self.actions[action].function)
                raise ProtocolError(f"{place}: a step of the network is called {action} too; name= gives another name")
        for specification, declared in self.specifications.items():
            if not isinstance(declared, bool) and (problem := fairness_declaration_problem(declared)) is not None:
                raise ProtocolError(f"{at('specifications')}{name}.specifications[{specification!r}]: {problem}")
        for symmetry, attributes in self.symmetries.items():
            if (problem := self._symmetry_problem(attributes)) is not None:
                raise ProtocolError(f"{at('symmetries')}{name}.symmetries[{symmetry!r}]: {problem}")

    def _symmetry_problem(self, attributes: Any) -> str | None:
        if isinstance(attributes, str):
            return f"expected a tuple of constants, ({attributes!r},), found a string"
        sets = [c.attribute for c in self.constants.values() if isinstance(getattr(self, c.attribute), frozenset)]
        missing = [one for one in attributes if one not in sets]
        return unknown_name_message("set of model values", missing[0], sets, type(self).__name__) if missing else None

    def _network_problem(self) -> str | None:
        """Return the problem of the bounds that the network spends, or None."""
        for option in ("loses", "duplicates"):
            given: object = getattr(self.network, option)
            if isinstance(given, Constant):
                return f"{option}=: expected the name of a bound, {given.attribute!r}, found the bound itself"
            if not isinstance(given, bool | str):
                what = "True, False or the name of a bound"
                return f"{option}=: expected {what}, found {describe_value(given)}"
            if isinstance(given, str) and given not in self.bounds:
                return f"{option}=: {unknown_name_message('bound', given, self.bounds, type(self).__name__)}"
        spent = (bound for _, _, spends in self.network.own_operations() for bound in spends)
        missing = next((bound for bound in spent if bound not in self.bounds), None)
        return None if missing is None else unknown_name_message("bound", missing, self.bounds, type(self).__name__)

    def initial(self) -> Iterable[State]:
        """Return the initial states; build them with `start`."""
        raise ProtocolError(f"{type(self).__name__} has no initial states: define initial(self)")

    def receives(self, me: Record, message: Record) -> bool:
        """Return whether a message can be delivered to a replica in this state; by default, yes."""
        return True

    def start(self, replicas: Iterable[Record], shared: Record = NOTHING, messages: Iterable[Record] = ()) -> State:
        """Return an initial state.

        Parameters
        ----------
        replicas
            The replicas, each with a field `id`.
        shared
            The shared state. By default there is none.
        messages
            Messages in flight, each with a field `dest`.
        """
        if isinstance(replicas, Record):
            what = f"expected a list of replicas, [...], found {describe_value(replicas)}"
            raise ProtocolError(f"{self._start()}: {what}")
        replicas = list(replicas)
        for one in (*replicas, shared):
            if type(one) is Record:
                raise ProtocolError(f"{self._start()}: expected a record of a class of your own, found Record()")
            if not isinstance(one, Record):
                raise ProtocolError(f"{self._start()}: expected a record, found {_non_record_argument_text(one)}")
        by_id = Map((replica.id, replica) for replica in replicas)  # type: ignore[attr-defined]
        for replica in replicas:
            if by_id[replica.id] is not replica:  # type: ignore[attr-defined]
                raise ProtocolError(f"{self._start()}: two replicas have one id: {replica!r} and {by_id[replica.id]!r}")  # type: ignore[attr-defined]
        inboxes: Map[Any, Any] = Map()
        for message in messages:
            destination = message.dest  # type: ignore[attr-defined]
            inbox = self.network.send(inboxes.get(destination, self.network.empty), message)
            if inbox is None:
                raise ProtocolError(f"{self._start()}: the network refuses to send {message!r}")
            inboxes = inboxes.put(destination, inbox)
        return State(by_id, inboxes, shared, Map(dict.fromkeys(self.bounds, 0)))

    def _start(self, method: str = "initial") -> str:
        """Return the place of a method that yields initial states, as text for messages."""
        code = getattr(type(self), method).__code__
        return f"{code.co_filename}:{code.co_firstlineno}: {method} of {type(self).__name__}"

    @cached_property
    def bounds(self) -> dict[str, int]:
        """The limit of each bound, by the attribute's name."""
        return {c.attribute: getattr(self, c.attribute) for c in self.constants.values() if c.is_bound}

    def constant_values(self) -> dict[str, Value]:
        """Return the value of every constant, by its name in the `.cfg`."""
        return {name: getattr(self, c.attribute) for name, c in self.constants.items()}

    def projected(self, read: Projection, source: Value) -> Value:
        """Return a projection of one replica or inbox; `NOT_PROJECTED` for a replica of another type."""
        if read.of and not isinstance(source, read.of):
            return NOT_PROJECTED
        under_way = read.of_inbox and not read.is_whole
        given = self.network.deliverable(source) if under_way else source
        what = f"projection {read.name} of {type(self).__name__}"
        try:
            found = read.function(self, given)
        except Exception as error:
            raise RaisedError(self, what, read.function, "", {"of": given}, error) from error
        if type_mismatch(found, Any) is not None:
            raise RaisedError(self, what, read.function, f"returned {describe_value(found)}", {"of": given})
        return found

    def hidden(self, view: str) -> HiddenFieldsAndBounds:
        """Return the fields and bounds that a view hides."""
        names = self.views[view]
        return HiddenFieldsAndBounds(names - set(self.bounds), names & set(self.bounds))

    def renames(self, view: str | None) -> Callable[[State, int | None], State] | None:
        """Return the function by which a view renames states, or None. Raise ProtocolError if the class lacks it."""
        by = None if view is None else getattr(self.views[view], "by", None)
        if by is None:
            return None
        method = getattr(self, by, None)
        if not callable(method):
            message = f"by={by!r}: expected a method def {by}(self, state, lift) -> State"
            raise ProtocolError(
                f"{_place_of_attribute(type(self), 'views')}{type(self).__name__}.views[{view!r}]: {message}"
            )

        def renamed(state: State, lift: int | None) -> State:
            found, cause = None, None
            try:
                found = method(state, lift)
            except Exception as error:
                cause = error
            if type(found) is State:
                return found
            problem = "" if cause else f"returned {describe_value(found)}; expected a State"
            what, function = f"renaming {by}", getattr(type(self), by)
            raise RaisedError(self, what, function, problem, {"lift": lift}, cause) from cause

        return renamed

    def constant_of(self, attribute: str) -> str:
        """Return the name of a constant in a `.cfg`, given its attribute."""
        return next(one.name for one in self.constants.values() if one.attribute == attribute)

    def symmetry_sets(self, name: str) -> tuple[tuple[Value, ...], ...]:
        """Return the sets of interchangeable values of a symmetry, by its name."""
        return tuple(tuple(ordered(getattr(self, attribute))) for attribute in self.symmetries[name])

    def _check_views(self, shared: Mapping[str, Any]) -> None:
        """Raise ProtocolError if a view hides unknown fields or bounds."""
        known, name = [*self.bounds, *shared], type(self).__name__
        for view, names in self.views.items():
            message = ""
            if not isinstance(names, set | frozenset):
                message = f"expected hide(...), found {names!r}"
            elif names - set(known):
                message = unknown_name_message("bound or shared field", min(names - set(known)), known, name)
            if message:
                raise ProtocolError(f"{_place_of_attribute(type(self), 'views')}{name}.views[{view!r}]: {message}")

    @_pause_garbage_collection()
    def checked_initial(self, method: str = "initial") -> list[State]:
        """Return the distinct initial states, after type checks of their values.

        Parameters
        ----------
        method
            Name of the method that yields them.

        Raises
        ------
        ProtocolError
            If there is no initial state, or a value does not match its declared type.
        """
        given: object = getattr(self, method)()
        if not isinstance(given, Iterable):
            raise ProtocolError(f"{self._start(method)} returned {describe_value(given)}; {FORGOT_YIELD_MESSAGE}")
        given = list(given)
        for state in given:
            if not isinstance(state, State):
                what = f"yielded {describe_value(state)}; expected a state, self.start([...], ...)"
                raise ProtocolError(f"{self._start(method)} {what}")
            problem = type_mismatch(state, State, "")
            if problem:
                raise ProtocolError(f"initial state of {type(self).__name__}: {problem}")
        found: list[State] = list(dict.fromkeys(given))
        if not found:
            raise ProtocolError(f"{self._start(method)}: there is no initial state")
        id_types = dict.fromkeys(self.id_types)
        self.shared_record = type(found[0].shared)
        self._check_views(field_types(self.shared_record))
        for state in found:
            if type(state.shared) is not type(found[0].shared):
                classes = f"{type(found[0].shared).__name__} and {type(state.shared).__name__}"
                raise ProtocolError(f"{self._start(method)}: expected shared records of one class, found {classes}")
            note_replica_types(state.replicas.values(), self.replica_types)
            self._require_known_destinations(state, method)
            id_types.update((field_types(type(one)).get("id", Any), None) for one in state.replicas.values())
        self.id_types = tuple(id_types)
        return found

    def _require_known_destinations(self, state: State, method: str) -> None:
        """Raise ProtocolError if a message of an initial state is sent to no replica."""
        for destination in state.inboxes:
            if destination not in state.replicas:
                what = f"a message is sent to {destination!r}, which is no replica"
                raise ProtocolError(f"{self._start(method)}: {what}")


def _place_of_attribute(cls: type, attribute: str) -> str:
    """Return the place where a class, or a base of it, assigns an attribute, with a colon; "" if unknown."""
    owner = next(base for base in cls.__mro__ if attribute in vars(base))
    try:
        lines, first = inspect.getsourcelines(owner)
    except (OSError, TypeError):
        return ""
    for line, text in enumerate(lines, start=first):
        if re.match(rf"\s+(?:def )?{attribute}\s*[:=(]", text):
            return f"{inspect.getsourcefile(owner)}:{line}: "
    return ""


_OVERRIDABLE_NAMES = {
    *("network", "symbols", "symmetries", "views", "specifications", "strict_bounds", "accepted_constants"),
    *("accepted_names", "none_is", "written_only", "configuration", "initial", "receives", "check_constants"),
}
"""The names of `Protocol` that a subclass may define."""


def _refuse_unnamed_constants(name: str, unnamed: tuple[object, ...]) -> None:
    if unnamed:
        marker = f"as a pytest marker, write pytest.mark.kraftcheck.with_args({name})"
        raise ProtocolError(f"{name}: expected each constant by name, as {name}(CONSTANT=1); {marker}")


def _refuse_reserved_names(cls: type, more: set[str]) -> None:
    """Raise ProtocolError if a class, or a base of it, defines a name that `Protocol` uses itself."""
    used = {*vars(Protocol), *Protocol.__annotations__} - _OVERRIDABLE_NAMES - more
    own = [base for base in cls.__mro__ if base is cls or not issubclass(base, Protocol)]
    for name in (name for base in own for name in vars(base) if name in used and not name.startswith("__")):
        what = "Protocol has an attribute of this name; choose another name"
        raise ProtocolError(f"{_place_of_attribute(cls, name)}{cls.__name__}.{name}: {what}")


def _declared_actions_or_properties(cls: type, mark: str) -> Mapping[str, Any]:
    """Return the actions, or the properties, of a class and its bases by name; `mark` is the decorator's attribute.

    They are in the order of first definition. An override inherits the mark of the overridden method unless it has its
    own. An override that is None removes the method.
    """
    made: dict[str, Any] = {}
    for method, found in _marks_of_methods(cls, mark).items():
        function = getattr(cls, method)
        if not (inspect.isfunction(function) or isinstance(function, Predicate)):
            what = f"@{found.kind}: expected a method, found {function!r}"
            raise ProtocolError(f"{_place_of_attribute(cls, method)}{cls.__name__}.{method}: {what}")
        one = found.made(method, function)
        if one.name in made or one.name == DEADLOCK:
            other = made[one.name].function.__qualname__ if one.name in made else "no next state"
            raise ProtocolError(
                f"{place_and_name_of_method(one.function)}: {other} is called {one.name} too; name= gives another name"
            )
        made[one.name] = replace(one, reads=tuple(_overriding_projection(cls, read) for read in one.reads))
    return MappingProxyType(made)


def _marks_of_methods(cls: type, mark: str) -> dict[str, Any]:
    """Return the marks of a class and its bases by the names of the methods."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        for method, function in vars(base).items():
            _refuse_hidden_mark(base, method, function, mark)
            _refuse_unchecked_override(base, method, found.get(method), mark)
            if hasattr(function, mark):
                found[method] = getattr(function, mark)
            elif function is None:
                found.pop(method, None)
    return found


def _refuse_hidden_mark(owner: type, method: str, value: Any, mark: str) -> None:
    """Raise ProtocolError for an object that hides a decorated method, such as a staticmethod."""
    for name in ("__func__", "fget", "func"):
        if hasattr(getattr(value, name, None), mark) and not hasattr(value, mark):
            what = f"expected a method, found a {type(value).__name__} of one"
            raise ProtocolError(f"{_place_of_attribute(owner, method)}{owner.__name__}.{method}: {what}")


def _refuse_unchecked_override(owner: type, method: str, overridden: Any, mark: str) -> None:
    """Raise ProtocolError if an action overrides a property, or a method without a verdict one that has a verdict."""
    function = vars(owner)[method]
    own = next((getattr(function, name) for name in MARK_ATTRIBUTES if hasattr(function, name)), None)
    if overridden is None or own is None:
        return
    unchecked = ("constraint", "action_constraint", "predicate")
    if not hasattr(function, mark) or (own.kind in unchecked and overridden.kind not in unchecked):
        what = f"@{own.kind} overrides @{overridden.kind}; choose another name"
        raise ProtocolError(f"{_place_of_attribute(owner, method)}{owner.__name__}.{method}: {what}")


def _overriding_projection(cls: type, read: Projection) -> Projection:
    """Return the projection `read` with the method by which `cls` overrides it, or unchanged without an override."""
    for base in cls.__mro__:
        for method, function in vars(base).items():
            found: Projection | None = getattr(function, "projection", None)
            if found is not None and found is read:
                current: Any = getattr(cls, method)
                if not inspect.isfunction(current) or any(hasattr(current, mark) for mark in MARK_ATTRIBUTES):
                    return read  # another attribute has the name
                _, _, *rest = getattr(current, "projection", read)
                return Projection(read.name, current, *rest)
    return read


def _refuse_projections_sharing_a_name(owners: Iterable[Any]) -> None:
    """Raise ProtocolError if two projections have the same name."""
    known: dict[str, Projection] = {}
    for owner in owners:
        for read in owner.reads:
            if known.setdefault(read.name, read) != read:
                places = " and ".join(sorted(map(place_and_name_of_method, (known[read.name].function, read.function))))
                raise ProtocolError(f"two projections are called {read.name}: {places}")


def _refuse_write_in_search(protocol: object, name: str) -> None:
    """Raise AttributeError if a method called by a search writes an attribute of its protocol."""
    frame = sys._getframe(2)
    while frame.f_back is not None:
        if (frame.f_globals.get("__name__"), frame.f_code.co_name) in _SEARCH_FUNCTIONS:
            kept = "keep it in a replica or in the shared state"
            raise AttributeError(f"{type(protocol).__name__}.{name} is written during a search; {kept}")
        frame = frame.f_back

"""The base class of protocols: constants, bounds, actions, properties, variants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, get_type_hints

from kraftcheck.spec.errors import ConstantError, ProtocolError
from kraftcheck.spec.kinds import mismatch
from kraftcheck.spec.language.action import Action, Trigger, camel_case
from kraftcheck.spec.language.network import BagWithMemory, Network
from kraftcheck.spec.language.property import Property, property_of
from kraftcheck.spec.language.signature import Projection
from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import Map, Record, Symbol, Value, field_types, ordered

MISSING: Any = object()


class Constant:
    """A constant of a protocol class, set in each instance. Made by `constant` and `bound`."""

    def __init__(self, name: str, default: Value, at_least: int | None, counter: str | None) -> None:
        self.name = name
        self.default = default
        self.at_least = at_least
        self.counter = counter
        self.attribute = ""

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.attribute = attribute

    @property
    def is_bound(self) -> bool:
        """Whether steps spend it."""
        return self.counter is not None


def constant(name: str, *, default: Value = MISSING, at_least: int | None = None) -> Any:
    """Declare a constant.

    A subclass says `hosts: frozenset[ModelValue] = constant("Hosts")`.

    Parameters
    ----------
    name
        Its name in the `.cfg`.
    default
        Its value where the `.cfg` has none; without it the constant must be given.
    at_least
        The smallest number allowed.
    """
    return Constant(name, default, at_least, None)


def bound(name: str, *, default: Value = MISSING, counter: str = "") -> Any:
    """Declare a bound, a number that steps spend.

    A subclass says `elections: int = bound("MaxElections")`.

    Parameters
    ----------
    name
        The name of the limit in the `.cfg`.
    default
        The limit where the `.cfg` has none.
    counter
        The TLA+ variable that counts what is spent; by default `_` and the attribute's name.
    """
    return Constant(name, default, 0, counter)


class Hidden(NamedTuple):
    """What a VIEW leaves out of a state's identity: shared fields and bounds, by name."""

    shared: frozenset[str]
    bounds: frozenset[str]

    def columns(self, bounds: Iterable[str], shared: Iterable[str]) -> list[bool]:
        """Return of bounds, and after them of shared fields, whether each is left out."""
        return [*(name in self.bounds for name in bounds), *(name in self.shared for name in shared)]


def hide(*names: str) -> frozenset[str]:
    """Return a view that leaves out the named shared fields and bounds."""
    return frozenset(names)


class Protocol:
    """An explicit-state transition system. Subclass it; see `kraftcheck.spec.examples` for complete small ones.

    A subclass declares constants and bounds, its `network`, how it starts (`initial`), and methods decorated as
    actions and properties. A subclass of a protocol with `variant="name"` is a variant of it.

    Class attributes a subclass may set
    -----------------------------------
    network
        The network discipline.
    symbols
        The `Symbol` classes whose members a `.cfg` may assign to themselves (`Leader = Leader`).
    symmetries
        From the name that SYMMETRY may use to the constants (attributes) whose members are interchangeable.
    views
        From the name that VIEW may use to what it leaves out (`hide`).
    specifications
        From the name that SPECIFICATION may use to whether it asks for fairness.
    temporal
        Names of temporal properties that the specification defines and kraftcheck does not check.
    accepted_constants
        Names of constants of the specification that a `.cfg` may set and that make no difference here.
    configuration
        For a variant, the configuration in which it shows what it changes: one of the model's by name, or a file (in
        a user's file, relative to that). `kraftcheck compare` takes it where no other is asked for.
    """

    network: Network = BagWithMemory()
    symbols: ClassVar[tuple[type[Symbol], ...]] = ()
    symmetries: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    views: ClassVar[Mapping[str, frozenset[str]]] = {}
    specifications: ClassVar[Mapping[str, bool]] = {"Spec": False}
    temporal: ClassVar[tuple[str, ...]] = ()
    accepted_constants: ClassVar[tuple[str, ...]] = ()
    configuration: ClassVar[str | None] = None

    actions: ClassVar[Mapping[str, Action]] = {}
    properties: ClassVar[Mapping[str, Property]] = {}
    constants: ClassVar[Mapping[str, Constant]] = {}
    variants: ClassVar[dict[str, type[Protocol]]] = {}
    variant: ClassVar[str | None] = None

    def __init_subclass__(cls, variant: str | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.variant = variant
        if variant is None:
            cls.variants = {}
        else:
            other = cls.variants.get(variant)
            if other is not None and (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
                raise ProtocolError(f"{cls.__qualname__} and {other.__qualname__} are both the variant {variant!r}")
            cls.variants[variant] = cls
        cls.constants = MappingProxyType(
            {**cls.constants, **{c.name: c for c in vars(cls).values() if isinstance(c, Constant)}}
        )
        actions = dict(_inherited(cls, "trigger"))
        cls.actions = MappingProxyType(
            {a.name: a for a in (_action(method, getattr(cls, method), trigger) for method, trigger in actions.items())}
        )
        marked = dict(_inherited(cls, "property"))
        cls.properties = MappingProxyType(
            {p.name: p for p in (property_of(method, getattr(cls, method), m) for method, m in marked.items())}
        )

    def __init__(self, **values: Value) -> None:
        hints = get_type_hints(type(self))
        for declared in self.constants.values():
            value = values.pop(declared.attribute, declared.default)
            if value is MISSING:
                raise ConstantError(declared.name, "is not given a value")
            problem = mismatch(value, hints.get(declared.attribute, Any), declared.name)
            if problem:
                raise ConstantError(declared.name, problem.removeprefix(f"{declared.name}: "))
            if declared.at_least is not None and value < declared.at_least:
                raise ConstantError(declared.name, f"expected a number of at least {declared.at_least}, found {value}")
            setattr(self, declared.attribute, value)
        if values:
            known = ", ".join(c.attribute for c in self.constants.values())
            raise ConstantError(min(values), f"is not a constant of {self.name()}; its constants are {known}")
        self.check_constants()
        self.shared_types: dict[str, Any] | None = None

    @classmethod
    def name(cls) -> str:
        """Return the protocol's name in reports: that of the class, or of its base for a variant."""
        return next(base.__name__ for base in cls.__mro__ if base.__dict__.get("variant") is None)

    def check_constants(self) -> None:
        """Raise `ConstantError` where constants do not fit together. By default everything fits."""

    def initial(self) -> Iterable[State]:
        """Return the initial states; build them with `start`."""
        raise ProtocolError(f"{type(self).__name__} does not say how it starts: define initial(self)")

    def receives(self, me: Record, message: Record) -> bool:
        """Return whether messages can be delivered to a replica in this state. By default always."""
        return True

    def start(self, replicas: Iterable[Record], shared: Record, messages: Iterable[Record] = ()) -> State:
        """Return a state with these replicas (each with its `id`), this shared state and these messages sent."""
        by_id = Map((replica.id, replica) for replica in replicas)  # type: ignore[attr-defined]
        inboxes: Map[Any, Any] = Map()
        for message in messages:
            destination = message.dest  # type: ignore[attr-defined]
            inbox = inboxes.get(destination, self.network.empty)
            inboxes = inboxes.put(destination, self.network.send(inbox, message))
        return State(by_id, inboxes, shared, Map(dict.fromkeys(self.bounds, 0)))

    @cached_property
    def bounds(self) -> dict[str, int]:
        """The limit of each bound, by attribute name."""
        return {c.attribute: getattr(self, c.attribute) for c in self.constants.values() if c.is_bound}

    def constant_values(self) -> dict[str, Value]:
        """Return the value of every constant, by its name in the `.cfg`."""
        return {name: getattr(self, c.attribute) for name, c in self.constants.items()}

    def projected(self, read: Projection, source: Value) -> Value:
        """Return a projection of one replica, or of one inbox."""
        return read.function(self, self.network.deliverable(source) if read.of_inbox else source)

    def hidden(self, view: str) -> Hidden:
        """Return what the named view leaves out."""
        names = self.views[view]
        return Hidden(names - set(self.bounds), names & set(self.bounds))

    def symmetry_sets(self, name: str) -> tuple[tuple[Value, ...], ...]:
        """Return the sets of values that the named symmetry makes interchangeable."""
        return tuple(tuple(ordered(getattr(self, attribute))) for attribute in self.symmetries[name])

    def checked_initial(self) -> list[State]:
        """Return the initial states, each once, after checking that their values are of the declared types.

        Raises
        ------
        ProtocolError
            Where there is none, or a value is not of its declared type.
        """
        found = list(dict.fromkeys(self.initial()))
        if not found:
            raise ProtocolError(f"{type(self).__name__} has no initial state")
        for state in found:
            problem = mismatch(state, State, "")
            if problem:
                raise ProtocolError(f"initial state of {type(self).__name__}: {problem}")
            self.shared_types = field_types(type(state.shared))
        return found


def _inherited(cls: type, mark: str) -> list[tuple[str, Any]]:
    """Return (method, mark) for every method that the class or a base marks, in the order of first definition.

    A method that overrides a marked one is marked as that one is, unless it has a mark of its own.
    """
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        for method, function in vars(base).items():
            if hasattr(function, mark):
                found[method] = getattr(function, mark)
    return list(found.items())


def _action(method: str, function: Callable[..., Any], trigger: Trigger) -> Action:
    return Action(trigger.name or camel_case(method), trigger.kind, function, trigger.messages, trigger.reads)

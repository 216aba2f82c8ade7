"""Actions: decorated methods of a protocol, marked by what triggers them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from inspect import isfunction
from typing import Any, Literal, TypeVar, overload

from kraftcheck.spec.errors import ProtocolError
from kraftcheck.spec.language.formula import Each, Fairness
from kraftcheck.spec.language.signature import Projection, declared, parameters, place_of, record_types
from kraftcheck.spec.values import Record

F = TypeVar("F", bound=Callable[..., Any])
Fair = Literal["", "weak", "strong"]
Reads = Callable[..., Any] | Iterable[Callable[..., Any]]


def on(
    *messages: type[Record], reads: Reads = (), name: str | None = None, fair: Fair = "", each: Each = ""
) -> Callable[[F], F]:
    """Mark a method as an action on a message delivered to a replica: `(self, me, message, ...)`.

    The annotation of `me` says which replicas may take it. Further parameters may be `shared` and the declared
    projections.

    Parameters
    ----------
    messages
        The types of message that trigger it.
    reads
        Projections of all replicas that it reads, each as a parameter of the projection's name.
    name
        The action's name in TLA+ and in reports; by default the method's name in camel case.
    fair, each
        The fairness with which it is taken, in what temporal properties say: see `Protocol.specifications`.
    """
    return _marked("on", messages, reads, name, fair, each)


@overload
def internal(function: F) -> F: ...


@overload
def internal(*, reads: Reads = (), name: str | None = None, fair: Fair = "", each: Each = "") -> Callable[[F], F]: ...


def internal(
    function: F | None = None, *, reads: Reads = (), name: str | None = None, fair: Fair = "", each: Each = ""
) -> Any:
    """Mark a method as a replica's own action, such as a timeout or a client's request: `(self, me, ...)`.

    Parameters
    ----------
    function
        The method, if the decorator is used without arguments.
    reads
        Projections of all replicas that it reads, each as a parameter of the projection's name.
    name
        The action's name in TLA+ and in reports; by default the method's name in camel case.
    fair, each
        The fairness with which it is taken, in what temporal properties say: see `Protocol.specifications`.
    """
    mark = _marked("internal", (), reads, name, fair, each)
    return mark if function is None else mark(function)


@overload
def environment(function: F) -> F: ...


@overload
def environment(
    *, reads: Reads = (), name: str | None = None, fair: Fair = "", each: Each = ""
) -> Callable[[F], F]: ...


def environment(
    function: F | None = None, *, reads: Reads = (), name: str | None = None, fair: Fair = "", each: Each = ""
) -> Any:
    """Mark a method as an action of the environment, such as the start of a server: `(self, ...)`.

    Parameters
    ----------
    function
        The method, if the decorator is used without arguments.
    reads
        Projections of all replicas that it reads, each as a parameter of the projection's name.
    name
        The action's name in TLA+ and in reports; by default the method's name in camel case.
    fair, each
        The fairness with which it is taken, in what temporal properties say: see `Protocol.specifications`.
    """
    mark = _marked("environment", (), reads, name, fair, each)
    return mark if function is None else mark(function)


def _marked(
    kind: str, messages: tuple[type[Record], ...], reads: Reads, name: str | None, fair: Fair, each: Each
) -> Callable[[F], F]:
    if fair not in ("", "weak", "strong") or (each and not fair):
        raise ProtocolError(
            f'fair={fair!r}, each={each!r}: expected fair="weak" or fair="strong", and each= with it only'
        )

    def mark(function: F) -> F:
        for message in messages:
            if not (isinstance(message, type) and issubclass(message, Record)):
                raise ProtocolError(f"{place_of(function)}: @on takes types of message, found {message!r}")
        function.action_mark = ActionMark(kind, messages, declared(reads, function.__qualname__), name, fair, each)  # type: ignore[attr-defined]
        return function

    if kind == "on" and not messages:
        raise ProtocolError("@on needs the type of the message: @on(RequestVote)")
    for message in messages:
        if isfunction(message):
            raise ProtocolError(f"{place_of(message)}: @on needs the type of the message: @on(RequestVote)")
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
        Its name in TLA+ and in reports.
    kind
        "on", "internal" or "environment".
    function
        The method, unbound.
    messages
        The types of message that trigger it (`on` only).
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

    @cached_property
    def asks(self) -> tuple[str, ...]:
        """Names of the parameters that follow the acting replica and the message: `shared` and projections."""
        leading = {"on": 2, "internal": 1, "environment": 0}[self.kind]
        names = self.function.__code__.co_varnames[1 : self.function.__code__.co_argcount]
        if len(names) < leading:
            wanted = ", ".join(("self", "me", "message")[: leading + 1])
            raise ProtocolError(f"{place_of(self.function)}: action {self.name} takes ({wanted}, ...)")
        parameters(self.function, (*names[:leading], "shared"), self.reads)
        return names[leading:]

    @cached_property
    def actors(self) -> tuple[type[Record], ...]:
        """Types of the replicas that may take it."""
        if self.kind == "environment":
            return ()
        assert self.asks is not None  # refuses missing parameters
        return record_types(self.function, self.function.__code__.co_varnames[1])


@dataclass(frozen=True)
class ActionMark:
    """What an action's decorator declares."""

    kind: str
    messages: tuple[type[Record], ...]
    reads: tuple[Projection, ...]
    name: str | None
    fair: Fair = ""
    each: Each = ""

    def made(self, method: str, function: Callable[..., Any]) -> Action:
        """Return the action that a method of this name is."""
        name = self.name or camel_case(method)
        fairness = Fairness(self.fair, (name,), self.each) if self.fair else None
        return Action(name, self.kind, function, self.messages, self.reads, fairness)

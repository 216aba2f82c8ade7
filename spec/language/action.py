"""Actions: decorated methods of a protocol, marked by what triggers them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, overload

from kraftcheck.spec.errors import ActionError, ProtocolError
from kraftcheck.spec.kinds import mismatch
from kraftcheck.spec.language.signature import Projection, declared, parameters, record_types
from kraftcheck.spec.language.step import Step
from kraftcheck.spec.values import Record, Value

if TYPE_CHECKING:
    from kraftcheck.spec.language.protocol import Protocol

F = TypeVar("F", bound=Callable[..., Any])
Reads = Callable[..., Any] | Iterable[Callable[..., Any]]


@dataclass(frozen=True)
class Trigger:
    """What a decorator says of an action, before the class that holds it is known."""

    kind: str
    messages: tuple[type[Record], ...]
    reads: tuple[Projection, ...]
    name: str | None


def on(*messages: type[Record], reads: Reads = (), name: str | None = None) -> Callable[[F], F]:
    """Mark a method as the handling of a message delivered to a replica: `(self, me, message, ...)`.

    Parameters
    ----------
    messages
        The types of message that trigger it.
    reads
        Projections of all replicas that it sees, each as a parameter of the projection's name.
    name
        The action's name in TLA+ and in reports; by default the method's name in camel case.

    The first parameter's annotation says which replicas handle the message. Parameters after the message may be
    `shared` and the declared projections.
    """
    return _marked("on", messages, reads, name)


@overload
def internal(function: F) -> F: ...


@overload
def internal(*, reads: Reads = (), name: str | None = None) -> Callable[[F], F]: ...


def internal(function: F | None = None, *, reads: Reads = (), name: str | None = None) -> Any:
    """Mark a method as a replica's own step, such as a timeout or a client's request: `(self, me, ...)`."""
    mark = _marked("internal", (), reads, name)
    return mark if function is None else mark(function)


@overload
def environment(function: F) -> F: ...


@overload
def environment(*, reads: Reads = (), name: str | None = None) -> Callable[[F], F]: ...


def environment(function: F | None = None, *, reads: Reads = (), name: str | None = None) -> Any:
    """Mark a method as a step of the environment, such as a server that starts: `(self, ...)`."""
    mark = _marked("environment", (), reads, name)
    return mark if function is None else mark(function)


def _marked(kind: str, messages: tuple[type[Record], ...], reads: Reads, name: str | None) -> Callable[[F], F]:
    def mark(function: F) -> F:
        function.trigger = Trigger(kind, messages, declared(reads, function.__qualname__), name)  # type: ignore[attr-defined]
        return function

    if kind == "on" and not messages:
        raise ProtocolError("@on needs the type of the message: @on(RequestVote)")
    return mark


def camel_case(method: str) -> str:
    """Return an action's name for a method's: `handle_fetch` is `HandleFetch`."""
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
    """

    name: str
    kind: str
    function: Callable[..., Any]
    messages: tuple[type[Record], ...]
    reads: tuple[Projection, ...]

    @cached_property
    def asks(self) -> tuple[str, ...]:
        """Names of the parameters after the acting replica and the message: `shared` and projections."""
        leading = {"on": 2, "internal": 1, "environment": 0}[self.kind]
        names = self.function.__code__.co_varnames[1 : self.function.__code__.co_argcount]
        if len(names) < leading:
            wanted = ", ".join(("self", "me", "message")[: leading + 1])
            raise ProtocolError(f"action {self.name} ({self.function.__qualname__}) takes ({wanted}, ...)")
        parameters(self.function, (*names[:leading], "shared"), self.reads)
        return names[leading:]

    @cached_property
    def actors(self) -> tuple[type[Record], ...]:
        """Types of replica that may take it."""
        if self.kind == "environment":
            return ()
        assert self.asks is not None  # it is there that missing parameters are refused
        return record_types(self.function, self.function.__code__.co_varnames[1])

    def call(
        self, protocol: Protocol, me: Record | None, message: Record | None, context: Mapping[str, Value]
    ) -> tuple[Step, ...]:
        """Return the steps that the action would take, equal ones once.

        Parameters
        ----------
        protocol
            The protocol, with its constants.
        me, message
            The acting replica and the delivered message, or None where the trigger has none.
        context
            `shared` and the projections, by name; it may hold more than the action asks for.

        Raises
        ------
        ActionError
            Where the action raises, or breaks its contract: it yields something that is not a step, or a value
            that is not of the declared type.
        """
        leading = [item for item in (me, message) if item is not None]
        try:
            steps = tuple(dict.fromkeys(self.function(protocol, *leading, *[context[name] for name in self.asks])))
        except ActionError:
            raise
        except Exception as error:
            raise ActionError(self, protocol, me, message, f"raised {type(error).__name__}: {error}") from error
        for step in steps:
            problem = self._breach(protocol, me, message, step)
            if problem:
                raise ActionError(self, protocol, me, message, problem)
        return steps

    def _breach(self, protocol: Protocol, me: Record | None, message: Record | None, step: Any) -> str | None:
        if not isinstance(step, Step):
            return f"yielded {step!r}, which is not a step (become(...), consume(...) or Step())"
        if step.me != () and (me is None or type(step.me) is not type(me) or step.me.id != me.id):  # type: ignore[attr-defined]
            return f"yielded {step.me!r} as the next state of {getattr(me, 'id', 'the environment')}"
        if step.consumes and message is None:
            return "consumes a message, but none was delivered"
        written = [(f"the replica {replica!r}", replica) for replica in step.writes]
        if step.me != ():
            written.append(("me", step.me))
        written += [("the message", sent) for _, sent in step.sends]
        for path, value in written:
            if not isinstance(value, Record):
                return f"{path}: expected a record, found {value!r}"
            problem = mismatch(value, type(value), path)
            if problem:
                return problem
        return protocol.problem_with_effects(step)

"""Reads from the parameters of a protocol's method what the method depends on.

The parameters are `me`, `peer`, `message`, `shared`, `state`, or projections that the decorator declares with
`reads=`. Engines pass exactly these, so a method cannot depend on anything else.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, get_args, get_type_hints

from kraftcheck.spec.errors import ProtocolError
from kraftcheck.spec.values import Record


class Projection(NamedTuple):
    """A named function of each replica, or of each inbox, that others may read."""

    name: str  # the parameter that asks for it. Its value is a map from the replica's id.
    # takes the protocol and the replica (or, with `of_inbox`, the messages under way to it)
    function: Callable[..., Any]
    of_inbox: bool  # whether it reads the inbox rather than the replica
    # whether it takes the inbox as the network's discipline keeps it, with what is not under way
    is_whole: bool = False


def projection(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a method as a projection: something of every replica that an action or a property may read.

    The method takes the replica, `(self, me)`, the messages under way to it, `(self, messages)`, or its inbox as the
    network's discipline keeps it, `(self, inbox)`. An engine evaluates it once for each distinct input.
    """
    parameters = list(inspect.signature(function).parameters)[1:]
    if len(parameters) != 1:
        raise ProtocolError(f"projection {function.__name__} takes one parameter besides self, found {parameters}")
    whole = parameters[0] == "inbox"
    function.projection = Projection(function.__name__, function, whole or parameters[0] == "messages", whole)  # type: ignore[attr-defined]
    return function


def declared(reads: Callable[..., Any] | Iterable[Callable[..., Any]], owner: str) -> tuple[Projection, ...]:
    """Return the projections that a `reads=` lists."""
    functions = [reads] if callable(reads) else list(reads)
    for function in functions:
        if not hasattr(function, "projection"):
            raise ProtocolError(f"{owner}: reads= takes methods marked @projection, found {function!r}")
    return tuple(getattr(function, "projection") for function in functions)  # noqa: B009 - set by the decorator


def parameters(function: Callable[..., Any], allowed: Iterable[str], reads: tuple[Projection, ...]) -> tuple[str, ...]:
    """Return the names of a method's parameters after self, checked."""
    names = tuple(list(inspect.signature(function).parameters)[1:])
    offered = (*allowed, *(read.name for read in reads))
    for name in names:
        if name not in offered:
            raise ProtocolError(
                f"{place_of(function)} asks for {name!r}; it can ask for {', '.join(offered)}"
                " or declare a projection with reads="
            )
    return names


def place_of(function: Callable[..., Any]) -> str:
    """Return the file and the line of a method, and its name."""
    code = function.__code__
    return f"{code.co_filename}:{code.co_firstlineno}: {function.__qualname__}"


def record_types(function: Callable[..., Any], parameter: str) -> tuple[type[Record], ...]:
    """Return the record types that a parameter's annotation names; `Record` itself where it names none."""
    try:
        closure = inspect.getclosurevars(function).nonlocals if hasattr(function, "__code__") else {}
        hint = get_type_hints(function, localns=dict(closure)).get(parameter, Any)
    except NameError as error:
        raw = function.__annotations__.get(parameter)
        if isinstance(raw, type):
            hint = raw
        else:
            raise ProtocolError(
                f"{place_of(function)}: cannot resolve the annotation of {parameter!r}: {error}"
            ) from error
    kinds = tuple(kind for kind in (get_args(hint) or (hint,)) if isinstance(kind, type) and issubclass(kind, Record))
    return kinds or (Record,)

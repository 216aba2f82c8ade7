"""Calls the actions and properties of a protocol, and checks that they keep their contract."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import GeneratorType
from typing import Any

from kraftcheck.spec.errors import FORGOT_YIELD, ActionError, RaisedError
from kraftcheck.spec.kinds import describe_type, describe_value, fits, mismatch
from kraftcheck.spec.language.action import Action
from kraftcheck.spec.language.property import Property
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.step import Step
from kraftcheck.spec.values import Record, Value, is_enum

TOLD = ("me", "peer", "message", "before", "after")
"""What an error says of a property's arguments."""


def call_action(
    protocol: Protocol, action: Action, me: Record | None, message: Record | None, context: Mapping[str, Value]
) -> tuple[Step, ...]:
    """Return the steps that an action would take, equal ones once."""
    leading = [item for item in (me, message) if item is not None]
    reader, steps = f"action {action.name}", list[Step]()
    try:
        made = action.function(protocol, *leading, *_asked(protocol, reader, action, context))
        if not isinstance(made, GeneratorType | Iterable):
            raise ActionError(action, protocol, me, message, f"returned {describe_value(made)}; {FORGOT_YIELD}")
        for step in made:
            problem = _breach(protocol, me, message, step)
            if problem:
                raise ActionError(action, protocol, me, message, problem, line=line_of(made))
            steps.append(step)
            _note(protocol, action, step)
            if protocol.hidden_reads is not None:
                protocol.hidden_reads.note(reader, (*step.spends, *step.needs))
    except ActionError:
        raise
    except (Exception, SystemExit) as error:
        raise ActionError(action, protocol, me, message, cause=error) from error
    return tuple(steps if len(steps) < 2 else dict.fromkeys(steps))


def _asked(protocol: Protocol, reader: str, owner: Action | Property, given: Mapping[str, Value]) -> list[Value]:
    """Return the arguments that an action or a property asks for; what it reads of hidden ones is noted.

    Where it may ask for types, it gets the shared record itself, not a stand-in, so all of that is read.
    """
    asked = {name: given[name] for name in owner.asks}
    if "shared" in asked and owner.name in protocol.by_type and hasattr(type(asked["shared"]), "_whole"):
        asked["shared"] = asked["shared"]._whole()
    reads = protocol.hidden_reads
    return [value if reads is None else reads.seen(reader, owner.name, name, value) for name, value in asked.items()]


def line_of(made: object) -> int | None:
    """Return the line at which a generator stands; None where it is none."""
    frame = made.gi_frame if isinstance(made, GeneratorType) else None
    return None if frame is None else frame.f_lineno


def _note(protocol: Protocol, action: Action, step: Step) -> None:
    """Note what an action sends and creates, unless a bound of 0 lets it never."""
    if (step.sends or step.writes) and all(protocol.bounds[name] for name in (*step.spends, *step.needs)):
        protocol.ids.update(replica.id for replica in step.writes)
        for operation, sent in step.sends:
            if operation != "forget":
                protocol.sent.setdefault((type(sent), sent.dest), action)


def assignments(prop: Property, replicas: Sequence[Any], messages: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Yield what a property of states is about, by parameter: each replica, each pair of two, each message."""
    mes: Sequence[Any] = [None]
    if "me" in prop.asks:
        mes = [r for r in replicas if isinstance(r, prop.kinds("me")) and prop.only in (None, getattr(r, "id", None))]
    if "message" in prop.asks:
        messages = [message for message in messages if isinstance(message, prop.kinds("message"))]
    else:
        messages = [None]
    for me in mes:
        peers: Sequence[Any] = [None]
        if "peer" in prop.asks:
            peers = [r for r in replicas if r is not me and isinstance(r, prop.kinds("peer"))]
        for peer in peers:
            for message in messages:
                yield {"me": me, "peer": peer, "message": message}


def evaluate_property(protocol: Protocol, prop: Property, arguments: Mapping[str, Value]) -> bool:
    """Return whether a property is true of the given arguments."""
    function, cause = protocol.probes.get(prop.name, prop.function), None
    reader = f"{prop.kind.replace('_', ' ')} {prop.name}"
    try:
        result = function(protocol, *_asked(protocol, reader, prop, arguments), **dict(prop.fixed))
    except (Exception, SystemExit) as error:
        cause, result = error, None
    if protocol.hidden_reads is not None:
        protocol.hidden_reads.require_unread(reader)
    if type(result) is bool:
        return result is not prop.opposite
    hint = "; forgot `return`?" if result is None else ""
    problem = f"returned {result!r}; expected True or False{hint}"
    if isinstance(result, GeneratorType):
        problem = "yields; expected True or False (`return`, not `yield`)"
    given = {name: arguments[name] for name in prop.asks if name in TOLD}
    raise RaisedError(protocol, f"property {prop.name}", prop.function, problem, given, cause) from cause


def act_of(prop: Property, me: Record, message: Record | None, step: Step) -> dict[str, Any] | None:
    """Return what a property of a replica's own steps is given; None where it says nothing of such a step."""
    if not prop.speaks_of(me.__class__, message.__class__):
        return None
    return {"before": me, "after": me if step.me == () else step.me, "message": message, "step": step}


def _breach(protocol: Protocol, me: Record | None, message: Record | None, step: Any) -> str | None:
    """Return what is wrong with a step that an action yielded, or None."""
    if not isinstance(step, Step):
        return f"yielded {step!r}, which is not a step (become(...), consume(...) or Step())"
    written, sends = step.writes, step.sends
    if step.me != ():
        if me is None or type(step.me) is not type(me) or step.me.id != me.id:  # type: ignore[attr-defined]
            return f"yielded {step.me!r} as the next state of {getattr(me, 'id', 'the environment')}"
        written = (*written, step.me)
    if step.consumes and message is None:
        return "consumes a message, but none was delivered"
    if len(written) > 1:
        ids = [getattr(replica, "id", None) for replica in written]
        for one in ids:
            if ids.count(one) > 1:
                return f"writes the replica {one!r} twice in one step"
    for value in (*written, *[sent for _, sent in sends]):
        if not isinstance(value, Record) or not fits(value, type(value)):
            return _misfit(step, value)
    return _effects_breach(protocol, step)


def _misfit(step: Step, value: Any) -> str | None:
    """Return what is wrong with a replica or a message of a step."""
    path = "the message"
    if value is step.me:
        path = "me"
    elif any(value is replica for replica in step.writes):
        path = f"the replica {value!r}"
    if not isinstance(value, Record):
        return f"{path}: expected a record, found {value!r}"
    return mismatch(value, type(value), path)


def _effects_breach(protocol: Protocol, step: Step) -> str | None:
    """Return what is wrong with the bounds, shared fields and messages of a step, or None."""
    for name in (*step.spends, *step.needs):
        if name not in protocol.bounds:
            return f"spends {name!r}, which is not a bound; bounds are {', '.join(protocol.bounds) or 'none'}"
    if step.puts and protocol.shared_types is not None:
        for field, value in step.puts:
            if field not in protocol.shared_types:
                return f"writes the shared field {field!r}; there are {', '.join(protocol.shared_types)}"
            problem = mismatch(value, protocol.shared_types[field], f"shared.{field}")
            if problem:
                return problem
    for operation, message in step.sends:
        if not hasattr(message, "dest"):
            return f"sends {message!r}, which has no field dest"
        outside = operation == "forget" or is_enum(type(message.dest))  # a name for whom the model leaves out
        kinds = () if outside else protocol.id_types
        if kinds and all(mismatch(message.dest, kind, "dest") for kind in kinds):
            wanted = " or ".join(map(describe_type, kinds))
            return f"sends {message!r} to {message.dest!r}; expected the id of a replica, {wanted}"
    return None

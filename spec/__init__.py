"""The specification language for protocols.

A protocol is a class. It has constants, record types for states and messages, and a decorated method for each action.
`kraftcheck.spec.examples.lock_service` is a complete example on one page.
"""

from kraftcheck.spec.errors import ActionError, ConstantError, InputError, ProtocolError, RaisedError
from kraftcheck.spec.language.declarations import (
    Action,
    action_constraint,
    constraint,
    environment,
    internal,
    invariant,
    on,
    predicate,
    projection,
    reachable,
    refines,
    step_invariant,
    temporal,
)
from kraftcheck.spec.language.formula import (
    Fairness,
    Formula,
    always,
    anywhere,
    at,
    enabled,
    eventually,
    eventually_always,
    every,
    everywhere,
    implies,
    infinitely_often,
    leads_to,
    some,
    strong,
    taken,
    weak,
)
from kraftcheck.spec.language.network import Bag, BagWithMemory, Channels, MessageSet, MessageSetWithMemory, Network
from kraftcheck.spec.language.protocol import Protocol, bound, constant
from kraftcheck.spec.language.semantics import Take, init, scenario, take
from kraftcheck.spec.language.state import State, Step, Steps, become, consume
from kraftcheck.spec.language.views import RelativeNumbers, hide
from kraftcheck.spec.values import Map, ModelValue, Record, Symbol, ordered

if __name__ != "kraftcheck.spec":
    raise ImportError("this package is kraftcheck.spec: import that", name=__name__)

__all__ = [
    "Action",
    "ActionError",
    "Bag",
    "BagWithMemory",
    "Channels",
    "ConstantError",
    "Fairness",
    "Formula",
    "InputError",
    "Map",
    "MessageSet",
    "MessageSetWithMemory",
    "ModelValue",
    "Network",
    "Protocol",
    "ProtocolError",
    "RaisedError",
    "Record",
    "RelativeNumbers",
    "State",
    "Step",
    "Steps",
    "Symbol",
    "Take",
    "action_constraint",
    "always",
    "anywhere",
    "at",
    "become",
    "bound",
    "constant",
    "constraint",
    "consume",
    "enabled",
    "environment",
    "eventually",
    "eventually_always",
    "every",
    "everywhere",
    "hide",
    "implies",
    "infinitely_often",
    "init",
    "internal",
    "invariant",
    "leads_to",
    "on",
    "ordered",
    "predicate",
    "projection",
    "reachable",
    "refines",
    "scenario",
    "some",
    "step_invariant",
    "strong",
    "take",
    "taken",
    "temporal",
    "weak",
]

"""The language that protocols are written in.

A protocol is a class: constants, records for what a replica knows and says, and one decorated method an action.
`spec.examples.lock_service` is a complete one of a page.
"""

from spec.action import Action, environment, internal, on
from spec.errors import ActionError, ConstantError, InputError, ProtocolError
from spec.network import Bag, BagWithMemory, Channels, MessageSet, Network
from spec.property import action_constraint, constraint, invariant, step_invariant
from spec.protocol import Protocol, bound, constant, hide
from spec.signature import projection
from spec.starts import scenario, take
from spec.state import State
from spec.step import Step, Steps, become, consume
from spec.values import Map, ModelValue, Record, Symbol, ordered

__all__ = [
    "Action",
    "ActionError",
    "Bag",
    "BagWithMemory",
    "Channels",
    "ConstantError",
    "InputError",
    "Map",
    "MessageSet",
    "ModelValue",
    "Network",
    "Protocol",
    "ProtocolError",
    "Record",
    "State",
    "Step",
    "Steps",
    "Symbol",
    "action_constraint",
    "become",
    "bound",
    "constant",
    "constraint",
    "consume",
    "environment",
    "hide",
    "internal",
    "invariant",
    "on",
    "ordered",
    "projection",
    "scenario",
    "step_invariant",
    "take",
]

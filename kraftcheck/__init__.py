"""kraftcheck: an explicit-state model checker for KRaft, Kafka's Raft.

Everything that a user's own protocol needs is here: the language in which it is written, `check`, which searches its
states, and `explain`, which tells a counterexample. Two replicas pass a token that nobody must hold twice:

>>> from collections.abc import Iterator
>>> from kraftcheck import MessageSet, Protocol, Record, State, Steps, become, check, consume, explain
>>> from kraftcheck import internal, invariant, on
>>> class Node(Record):
...     id: int
...     has_token: bool
>>> class Token(Record):
...     dest: int
>>> class Shared(Record):
...     pass
>>> class Ring(Protocol):
...     network = MessageSet()
...     def initial(self) -> Iterator[State]:
...         yield self.start([Node(1, True), Node(2, False)], Shared())
...     @internal
...     def pass_on(self, me: Node) -> Steps:
...         if me.has_token:
...             yield become(me).send(Token(dest=3 - me.id))
...     @on(Token)
...     def take(self, me: Node, token: Token) -> Steps:
...         yield consume(me.but(has_token=True))
...     @invariant
...     def one_holder(self, me: Node, peer: Node) -> bool:
...         return not (me.has_token and peer.has_token)
>>> result = check(Ring())
>>> print(explain(Ring(), result.violations[0]))
Counterexample to OneHolder, 3 states
messages: - consumed, * delivered and kept, + sent, the others still under way
<BLANKLINE>
State 1  initial state
    replicas   1, 2
    has_token  TRUE (1); FALSE (2)
<BLANKLINE>
State 2  PassOn by 1
    messages  + Token  -> 2
<BLANKLINE>
State 3  Take by 2 on Token
    2.has_token  FALSE -> TRUE
    messages  - Token  -> 2
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kraftcheck.api import check, explain, simulate
    from kraftcheck.explorer.result import Interrupted, Progress, Result, Search, TraceStep, Verdict, Violation
    from kraftcheck.spec import (
        Action,
        ActionError,
        Bag,
        BagWithMemory,
        Channels,
        ConstantError,
        InputError,
        Map,
        MessageSet,
        ModelValue,
        Network,
        Protocol,
        ProtocolError,
        Record,
        State,
        Step,
        Steps,
        Symbol,
        action_constraint,
        become,
        bound,
        constant,
        constraint,
        consume,
        environment,
        hide,
        internal,
        invariant,
        on,
        ordered,
        projection,
        step_invariant,
    )
    from kraftcheck.spec.language.starts import Take, scenario, take
    from kraftcheck.traces.replay.replayer import Replay, Replayer

__all__ = [
    "Action",
    "ActionError",
    "Bag",
    "BagWithMemory",
    "Channels",
    "ConstantError",
    "InputError",
    "Interrupted",
    "Map",
    "MessageSet",
    "ModelValue",
    "Network",
    "Progress",
    "Protocol",
    "ProtocolError",
    "Record",
    "Replay",
    "Replayer",
    "Result",
    "Search",
    "State",
    "Step",
    "Steps",
    "Symbol",
    "Take",
    "TraceStep",
    "Verdict",
    "Violation",
    "action_constraint",
    "become",
    "bound",
    "check",
    "constant",
    "constraint",
    "consume",
    "environment",
    "explain",
    "hide",
    "internal",
    "invariant",
    "on",
    "ordered",
    "projection",
    "scenario",
    "simulate",
    "step_invariant",
    "take",
]

_HOMES = {
    **dict.fromkeys(
        ("Interrupted", "Progress", "Result", "Search", "TraceStep", "Verdict", "Violation"),
        "kraftcheck.explorer.result",
    ),
    **dict.fromkeys(("check", "explain", "simulate"), "kraftcheck.api"),
    **dict.fromkeys(("Take", "scenario", "take"), "kraftcheck.spec.language.starts"),
    **dict.fromkeys(("Replay", "Replayer"), "kraftcheck.traces.replay.replayer"),
}
"""Where names come from that do not come from `spec`."""


def __getattr__(name: str) -> Any:
    """Return a public name, imported when it is first asked for: `kraftcheck --help` must stay quick."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES.get(name, "kraftcheck.spec")), name)
    globals()[name] = value
    return value

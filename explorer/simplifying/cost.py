"""What makes a counterexample hard to read, as numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from kraftcheck.explorer.behaviour import Behaviour
from kraftcheck.spec.language.network import Network
from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import Map, Record, Value, field_values


class Cost(NamedTuple):
    """What makes a counterexample hard to read; what comes first counts most."""

    steps: int
    replicas: int  # replicas that take one
    actions: int  # different actions
    switches: int  # steps taken by another replica than the one before
    messages: int  # messages sent
    left: int  # messages that are under way in the end: nobody needed them
    values: int  # the sum of all numbers in the last state


class Costs:
    """Says what behaviours of one protocol cost."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._weights: dict[Record, int] = {}
        self._sent: dict[tuple[Value, Value], int] = {}

    def of(self, trace: Behaviour) -> Cost:
        """Return what makes a behaviour hard to read."""
        steps = trace[1:]
        actors = [step.actor for step in steps]
        sent = sum(self.sent(a.state, b.state) for a, b in zip(trace, steps, strict=False))
        return Cost(
            len(steps),
            len({*actors} - {None}),
            len({step.action for step in steps}),
            sum(a != b for a, b in pairwise(actors)),
            sent,
            sum(self._copies(inbox).total() for inbox in trace[-1].state.inboxes.values()),
            self.weight(trace[-1].state),
        )

    def sent(self, before: State, after: State) -> int:
        """Return how many messages a step sends."""
        empty, sent = self._network.empty, 0
        for key, inbox in after.inboxes.items():
            old = before.inboxes.get(key, empty)
            if old is not inbox:
                if (old, inbox) not in self._sent:
                    self._sent[old, inbox] = (self._copies(inbox) - self._copies(old)).total()
                sent += self._sent[old, inbox]
        return sent

    def _copies(self, inbox: Value) -> Counter[Any]:
        return Counter({message: self._network.count(inbox, message) for message in self._network.known(inbox)})

    def weight(self, state: State) -> int:
        """Return the sum of the numbers in a state."""
        return sum(self._weight_of(record) for record in (*state.replicas.values(), state.shared))

    def _weight_of(self, record: Record) -> int:
        if record not in self._weights:
            self._weights[record] = _sum(record)
        return self._weights[record]


def _sum(value: Value) -> int:
    """Return the sum of the numbers in a value, without their signs."""
    if isinstance(value, bool):
        return 0
    if isinstance(value, int):
        return abs(value)
    if isinstance(value, Record):
        return sum(map(_sum, field_values(value)))
    if isinstance(value, Map):
        return sum(_sum(key) + _sum(one) for key, one in value.items())
    return sum(map(_sum, value)) if isinstance(value, tuple | frozenset) else 0


def told(name: str, before: Cost, after: Cost, done: Sequence[str], seconds: float) -> str:
    """Return what simplifying did, as a note."""
    changed = [
        f"{old:,} -> {new:,} {what.replace('left', 'messages that nobody takes').replace('values', 'in values')}"
        for what, old, new in zip(Cost._fields, before, after, strict=True)
        if old != new
    ]
    how = f" ({', '.join(done)})" if done else ""
    return f"simplified {name} in {seconds:.1f} s: {', '.join(changed) or 'nothing'}{how}"

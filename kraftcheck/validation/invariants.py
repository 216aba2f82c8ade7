"""Properties of `quorum` on the states that a replay reaches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kraftcheck.kraft_model.quorum.base import QuorumBase
from kraftcheck.kraft_model.quorum.records import Replica, Shared
from kraftcheck.spec import Map, ModelValue, State
from kraftcheck.spec.language.changes import broken
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.validation.events import Event

WATCHED = ("mode", "epoch", "leader", "voted", "log", "high_watermark", "voters", "start")
"""Fields of a replica; a step that changes none of them breaks no property."""

EXCUSED = {"NewVotersHaveCaughtUp": "CaughtUpWithinTheHour", "UpdatesAreKept": "UpdateVoterWithoutError"}
"""Properties that a known difference breaks, by its class; they are evaluated if the difference is left out.

AddVoter accepts a replica that was at the log end within the last hour; UpdateVoter is answered before its commit.
"""

OF_ONE_STEP = ("PreVoteRaisesNoEpoch",)
"""Properties of single steps: a unit may take several. The replay takes the model's own steps, which keep them."""

ROUTINE = 16
"""Appends and commits in a row after which the properties are evaluated; every other step is evaluated at once."""

MOST_STATES = 2_000
"""States after which memoized calls are dropped."""


class BrokenProperty(NamedTuple):
    """A property that a step of the cluster breaks, and the last event of the step."""

    name: str
    event: Event


class PropertyCheck:
    """Evaluates the invariants of a protocol after each step that may break one.

    Unless a replay is whole, some replicas are unknown: only properties of one replica are checked.
    """

    def __init__(self, protocol: QuorumBase, *, is_whole: bool) -> None:
        self._protocol = protocol
        self.is_whole = is_whole
        excused = _excused(protocol)
        found = [p for p in protocol.properties.values() if p.name not in excused]
        found = [p for p in found if not p.needs and "message" not in p.asks]
        if not is_whole:
            found = [p for p in found if not p.reads and not {"shared", "peer"} & set(p.asks)]
        self._of_states = [p for p in found if p.kind == "invariant"]
        self._of_steps = [p for p in found if p.kind == "step_invariant" and not p.of_actor]
        self._semantics = Semantics(protocol)
        self.before: State | None = None
        self.states = 0
        self._routine = 0
        self.first: dict[str, Event] = {}  # the broken properties, each with the last event of the step

    def is_due(self, before: Replica | None, after: Replica) -> bool:
        """Whether the properties are to be evaluated after a step of a replica."""
        fields = changed(before, after)
        self._routine += is_routine(fields, before, after)
        if fields and (not is_routine(fields, before, after) or self._routine >= ROUTINE):
            self._routine = 0
            return True
        return False

    def look(self, replicas: Mapping[ModelValue, Replica], shared: Shared, event: Event) -> None:
        """Note the properties that the step to this state breaks; `event` is its last."""
        for name in self._broken(replicas, shared):
            self.first.setdefault(name, event)

    def _broken(self, replicas: Mapping[ModelValue, Replica], shared: Shared) -> list[str]:
        before, self.states = self.before, self.states + 1
        if self.states % MOST_STATES == 0:
            self._semantics = Semantics(self._protocol)
        after = State(Map(replicas), Map(), shared, Map())
        self.before = after
        if before is None:
            return [p.name for p in self._of_states if not self._semantics.holds(p, after)]
        found = [p.name for p in broken(self._semantics, self._of_states, before, after)]
        found += [p.name for p in self._of_steps if not self._semantics.holds_over(p, before, after)]
        return found

    def divided(self, replicas: Mapping[ModelValue, Replica], shared: Shared) -> None:
        """Take over the last state with its logs divided into other batches."""
        if self.before is not None:
            self.before = State(Map(replicas), Map(), shared, Map())


def _excused(protocol: QuorumBase) -> set[str]:
    """Return the properties that are not evaluated, given the known differences of a protocol."""
    kinds = {kind.__name__ for kind in type(protocol).__mro__}
    return {name for name, difference in EXCUSED.items() if difference in kinds} | set(OF_ONE_STEP)


def changed(before: Replica | None, after: Replica) -> set[str]:
    """Return the fields that a step changes and that a property may depend on."""
    return {name for name in WATCHED if before is None or getattr(before, name) != getattr(after, name)}


def is_routine(fields: set[str], before: Replica | None, after: Replica) -> bool:
    """Whether a step only appends batches or raises the high watermark; a property that it breaks stays broken."""
    return before is not None and fields <= {"log", "high_watermark"} and len(after.log) >= len(before.log)

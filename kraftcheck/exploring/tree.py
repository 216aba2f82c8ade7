"""The tree of visited states of `explore`, each with the walk that leads to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from kraftcheck.catalogue import SearchJob
from kraftcheck.explorer.result import TraceStep, behaviour_along, trace_step_of_transition
from kraftcheck.explorer.transition_system import canonicalizer
from kraftcheck.reporting.counterexample import state_changes
from kraftcheck.reporting.lines import lines_as_plain_text
from kraftcheck.reporting.replay import numbered_trace_file_name, replay_lines
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.semantics import Semantics, Transition, initial_states
from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import truncate_text
from kraftcheck.traces.replay.claims import ClaimVerdict
from kraftcheck.traces.replay.replayer import Replay, ReplayedState, Replayer, ReplayVerdict

MOST_DESCRIPTION_CHARACTERS = 60
"""Maximum length of an initial state's description."""


@dataclass(frozen=True)
class VisitedNode:
    """A visited state."""

    number: int  # in the order of visits
    before: VisitedNode | None  # the previous node; None for an initial state
    transition: Transition | None  # the step that leads here; None for an initial state
    step: TraceStep  # the state as a step of a trace

    @property
    def way(self) -> list[VisitedNode]:
        """The nodes on the path from the initial state to this node."""
        found, node = [self], self.before
        while node is not None:
            found.append(node)
            node = node.before
        return found[::-1]


class WalkStart(NamedTuple):
    """A possible start of a walk: an initial state or a trace."""

    name: str
    node: int  # the number of the last node
    note: str = ""  # such as the place where a trace diverges from the protocol


class StateTree:
    """The tree of visited states of a protocol."""

    def __init__(self, job: SearchJob, settings: Sequence[str] = ()) -> None:
        self.job = job
        self.settings = settings
        self.semantics = Semantics(job.protocol)
        self._nodes: list[VisitedNode] = []
        self._taken: dict[tuple[int, int], VisitedNode] = {}
        self._places = {name: place for place, name in enumerate(self.actions)}
        self._initial = initial_states(self.semantics, job.options.init)
        self.starts = [
            WalkStart(self._called(state), self._add(None, None, TraceStep(state))) for state in self._initial
        ]

    @property
    def actions(self) -> list[str]:
        """The names of the actions, the network's own last."""
        return [*self.job.protocol.actions, *self.job.protocol.network.own_actions()]

    def _called(self, state: State) -> str:
        place = self._initial.index(state)
        name = "Initial state" if self.job.options.init == "Init" else self.job.options.init
        if place == 0:
            return name
        news = state_changes(self.job.protocol, self._initial[0], self._initial[place])
        text = "; ".join(f"{one.path} {one.text}" for one in news)
        return f"{name} {place + 1}: {truncate_text(text or 'other messages', MOST_DESCRIPTION_CHARACTERS)}"

    def _add(self, before: VisitedNode | None, transition: Transition | None, step: TraceStep) -> int:
        self._nodes.append(VisitedNode(len(self._nodes), before, transition, step))
        return len(self._nodes) - 1

    def node(self, number: int) -> VisitedNode:
        """Return the node with a number."""
        if not 0 <= number < len(self._nodes):
            raise InputError(f"state {number}: unknown after a restart of kraftcheck explore; reload the page")
        return self._nodes[number]

    def offered(self, node: VisitedNode) -> list[Transition]:
        """Return the enabled steps of a state in a fixed order, by action."""
        return sorted(self.semantics.transitions(node.step.state), key=lambda one: self._places[one.action])

    def take(self, number: int, choice: int) -> VisitedNode:
        """Take a step from a node and return the next node."""
        node = self.node(number)
        if (number, choice) not in self._taken:
            offered = self.offered(node)
            if not 0 <= choice < len(offered):
                raise InputError(f"expected a step from 0 to {len(offered) - 1}, found {choice}")
            found = self._add(node, offered[choice], trace_step_of_transition(offered[choice]))
            self._taken[number, choice] = self._nodes[found]
        return self._taken[number, choice]

    def visited(self, number: int, choice: int) -> int | None:
        """Return the number of the node to which a step led before; None if the step was not taken yet."""
        found = self._taken.get((number, choice))
        return None if found is None else found.number

    def open(self, file: str | PathLike[str], limit_bytes: int) -> None:
        """Insert the traces of a file before the other starts, each up to its divergence from the protocol."""
        walked: list[ReplayedState] = []
        replayer = self.job.replayer(limit_bytes=limit_bytes, watch=walked.append)
        found: list[WalkStart] = []
        for replay in replayer.replay(file):
            if walked:
                found.append(
                    WalkStart(numbered_trace_file_name(replay), self._follow(walked, replayer), _trace_note(replay))
                )
                walked.clear()
            elif replay.verdict is ReplayVerdict.UNREADABLE:
                raise InputError(str(replay.problem))
            else:
                raise InputError(f"{file}: {replay.reason}")
        self.starts = found + self.starts

    def _follow(self, walked: Sequence[ReplayedState], replayer: Replayer) -> int:
        """Take the steps of a trace and return the number of the last node."""
        behaviour = self._behaviour(walked, replayer)
        node = self._nodes[self._initial.index(behaviour[0].state)]
        for step in behaviour[1:]:
            offered = enumerate(self.offered(node))
            choice = next(at for at, one in offered if (one.action, one.target) == (step.action, step.state))
            node = self.take(node.number, choice)
        return node.number

    def _behaviour(self, walked: Sequence[ReplayedState], replayer: Replayer) -> Sequence[TraceStep]:
        """Return the steps of a trace; for a trace under symmetry, a real path through equivalent states."""
        steps = [TraceStep(one.state, one.transition.action if one.transition else None) for one in walked]
        linked = all(one.transition is None or one.transition.target == one.state for one in walked)
        if walked[0].state in self._initial and linked:
            return steps
        same = canonicalizer(self.job.protocol, self.job.options.symmetry or replayer.widest_symmetry, None)
        return behaviour_along(
            self.semantics,
            [same(one.state) for one in walked],
            actions=[str(one.action) for one in steps[1:]],
            starts=self._initial,
            class_of=same,
        )


def _trace_note(replay: Replay) -> str:
    """Return the note on a trace: its divergence or claim, or its notes if it conforms."""
    if replay.verdict is ReplayVerdict.UNREADABLE:
        return f"The rest of it cannot be read: {replay.problem}"
    if replay.divergence is None and (replay.claim is None or replay.claim.verdict is ClaimVerdict.SHOWN):
        return "\n".join(replay.notes)
    return lines_as_plain_text(replay_lines(replay, name=Path(replay.file).name))

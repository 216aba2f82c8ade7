"""Cover of a bounded state graph: walks that together take every labelled step.

A walk takes steps that no walk has taken; if there is none, it takes a shortest path to the next one. It ends when none
is left. Kafka does not always follow. It takes an urgent step at once where the model may wait, and it drops answers
that it no longer awaits. So a walk keeps the model's state, with all messages, beside the state that Kafka agrees with.
Steps that Kafka refuses several times are counted by reason.

References
----------
R. Korf, "Real-Time Heuristic Search" (1990), for the path to the next step. Distances are lower bounds, which are
raised where a walk finds them too low.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from kraftcheck.kraft_model.quorum.records import FetchRequest, VoteRequest
from kraftcheck.lockstep.driver_commands import can_drive_action
from kraftcheck.lockstep.lockstep import Lockstep, StepChooser
from kraftcheck.lockstep.walks import ActionCandidates, ChosenOutcome, StepChoice, labelled_transitions
from kraftcheck.spec import State
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.semantics import Semantics, initial_states, takes_to_named_start, transition_matching_take

MOST_STATES = 500_000
"""Most states that are kept in memory."""


class LabelledStep(NamedTuple):
    """A labelled step."""

    label: StepChoice
    target: int  # number of the target state
    is_driven: bool  # whether Kafka can be made to take it


@dataclass
class LockstepStateGraph:
    """State graph of the model with labelled steps."""

    init: str  # "Init", or the name of a scenario; its state is number 0
    states: list[State] = field(default_factory=list)  # in the order of discovery
    numbers: dict[State, int] = field(default_factory=dict)
    edges: list[list[LabelledStep]] = field(default_factory=list)  # by state: its steps; empty beyond the depth
    depth: int = 0  # number of steps to the farthest state
    is_whole: bool = True  # whether every state is included
    # whether a pre-vote request stays in flight after its sender has stopped asking (LatePreVotes)
    has_late_pre_votes: bool = True

    @property
    def size(self) -> int:
        """Number of labelled steps."""
        return sum(map(len, self.edges))


def build_state_graph(semantics: Semantics, init: str, depth: int | None = None) -> LockstepStateGraph:
    """Return the state graph of a model."""
    (start,) = initial_states(semantics, init)[:1]
    late = bool(getattr(semantics.protocol, "late_pre_votes", True))
    graph = LockstepStateGraph(init, [start], {start: 0}, has_late_pre_votes=late)
    first = 0
    while first < len(graph.states):
        if graph.depth == depth:
            graph.is_whole = False
            graph.edges += [[] for _ in graph.states[first:]]
            break
        last = len(graph.states)
        for state in graph.states[first:last]:
            edges: list[LabelledStep] = []
            for label, transition in labelled_transitions(semantics.transitions(state)):
                target = graph.numbers.setdefault(transition.target, len(graph.states))
                if target == len(graph.states):
                    graph.states.append(transition.target)
                edges.append(LabelledStep(label, target, can_drive_action(label.action, label.message is not None)))
            graph.edges.append(edges)
            if len(graph.states) > MOST_STATES:
                raise InputError(f"expected at most {MOST_STATES:,} states, found more; limit the --depth")
        first = last
        graph.depth += first < len(graph.states)
    return graph


MOST_REFUSALS = 4
"""Refusals by Kafka after which a step is given up."""

MOST_FRUITLESS_WALKS = 10 * MOST_REFUSALS
"""Consecutive walks without news, after which no more walks are begun."""

NETWORK_ACTIONS = ("LoseMessage", "DuplicateMessage")
"""Steps of the network, which concern messages too."""

EdgePlace = tuple[int, int]
"""A labelled step: the number of its state, and its place among the steps there."""


class UntakenReason(StrEnum):
    """Reason why a labelled step was not taken."""

    POSTPONED = "an urgent step postponed"
    """Kafka takes a timeout at once where the model may do something else first."""
    STALE = "a stale answer taken"
    """Kafka drops the message, an answer that it no longer awaits; in the model it has an effect."""
    UNSENT = "a request that Kafka, taking an urgent step, does not send"
    """In the model, a follower has fetched before it takes the urgent step."""
    OUTCOME = "another outcome"
    """Kafka takes the action with another outcome, perhaps one beyond the bounds."""
    NOT_DRIVEN = "not driven"
    """Kafka cannot be made to take the action: see `commands.NOT_DRIVEN_REASONS`."""
    DIFFERS = "behind a difference"
    """A walk ended with a finding before the step."""
    LEFT = "the walk left the graph"
    """Kafka's state is outside of the graph, and the walk went on from it: a rule of known differences."""
    MISSING = "missing"
    """No rule explains it."""


class EdgeCover:
    """The labelled steps of a state graph: taken, still untaken, and given up."""

    def __init__(self, graph: LockstepStateGraph) -> None:
        self.graph = graph
        self.walks = self.taken = 0
        self._taken = [bytearray(len(edges)) for edges in graph.edges]
        self._left = [len(edges) for edges in graph.edges]
        self._barred: dict[EdgePlace, UntakenReason] = {}
        self._refused: Counter[tuple[EdgePlace, UntakenReason]] = Counter()
        self._leads: dict[
            EdgePlace, tuple[UntakenReason, int | None]
        ] = {}  # Kafka's own target; None: outside of the graph
        self._closed: dict[EdgePlace, UntakenReason] = {}  # taken, but given up as parts of paths
        self._in_vain: Counter[EdgePlace] = Counter()  # number of consecutive failures
        self._reopened = False
        self._walk: CoverStepChooser | None = None
        self._fruitless = self._tried = 0
        self._distances = [0] * len(graph.states)
        for place in self._places(range(len(graph.edges))):
            if not self.edge(place).is_driven:
                self._bar(place, UntakenReason.NOT_DRIVEN)

    def goes_on(self) -> bool:
        """Whether a further walk can reach an untaken step."""
        self._end_walk()
        if self._fruitless < MOST_FRUITLESS_WALKS and (self._settle(0) or self._settles_anew()):
            return True
        if not self._reopened:  # a step that failed on some paths may succeed on others
            self._reopened = True
            self._fruitless = -1 if self._closed else 0  # reopened steps count as news
            self._closed.clear()
            self._in_vain.clear()
        return self._fruitless < MOST_FRUITLESS_WALKS and self._settles_anew()

    def _settles_anew(self) -> bool:
        """Recompute all distances to untaken steps; return whether a path from the start to an untaken step is left."""
        self._distances = [0] * len(self.graph.states)
        return self._settle(0)

    def walk(self, lockstep: Lockstep) -> StepChooser:
        """Return the chooser of steps for the next walk."""
        self.walks += 1
        self._walk = CoverStepChooser(self, lockstep)
        return self._walk

    def _end_walk(self) -> None:
        """End the walk: record a last step on which model and Kafka differ, and whether the walk learned anything."""
        if self._walk is None:
            return
        if self._walk.last is not None:
            self.take(self._walk.last)
            self._leads[self._walk.last] = UntakenReason.DIFFERS, None
        self._fruitless = self._fruitless + 1 if self.learnt == self._walk.learnt_before else 0
        self._walk = None

    @property
    def far(self) -> int:
        """A distance longer than any path to an untaken step."""
        return 2 * self.graph.depth + 10

    @property
    def learnt(self) -> int:
        """A counter that grows whenever the walks learn of a step's effect in Kafka."""
        return self.taken + len(self._barred) + len(self._leads) + len(self._closed) + self._tried

    # Recording

    def is_taken(self, place: EdgePlace) -> bool:
        """Whether a step was taken."""
        return bool(self._taken[place[0]][place[1]])

    def take(self, place: EdgePlace) -> None:
        """Record that a step was taken."""
        node, number = place
        self._in_vain[place] = 0
        if not self._taken[node][number]:
            self._taken[node][number] = 1
            self.taken += 1
            self._left[node] -= self._barred.pop(place, None) is None

    def refuse(self, place: EdgePlace, reason: UntakenReason, leads: int | None = None) -> None:
        """Record that Kafka refused a step, or took it to another target than the model."""
        self._refused[place, reason] += 1
        self._tried += reason is not UntakenReason.MISSING and self._refused[place, reason] <= 2 * MOST_REFUSALS
        if self._refused[place, reason] < MOST_REFUSALS or reason is UntakenReason.MISSING:
            return
        if reason in (UntakenReason.POSTPONED, UntakenReason.LEFT):
            self._leads[place] = reason, leads
        elif not self._taken[place[0]][place[1]]:
            self._bar(place, reason)
        else:
            self._in_vain[place] += 1
            if self._in_vain[place] >= 2 * MOST_REFUSALS:
                self._closed[place] = reason

    def _bar(self, place: EdgePlace, reason: UntakenReason) -> None:
        if place not in self._barred:
            self._barred[place] = reason
            self._left[place[0]] -= 1

    # Choosing

    def next(self, nodes: Iterable[int], offered: Container[tuple[object, ...]]) -> EdgePlace | None:
        """Return the step to take: an untaken step, or the first step on a path to one; None if none exists."""
        fresh: list[tuple[int, EdgePlace]] = []
        ways: list[tuple[int, EdgePlace]] = []
        gone: list[tuple[int, EdgePlace]] = []
        for place in self._places(nodes):
            target, is_left = self._target(*place), self._is_left(place)
            if self.edge(place).label[:3] in offered:
                if is_left:
                    fresh.append((self._onward(place[0], target), place))
                elif (nearer := self._nearer(place)) is not None:
                    ways.append((self._distances[nearer], place))
            elif is_left:
                self.refuse(place, untaken_reason_of_missing_message(self.edge(place)))
            elif target is not None:
                gone.append((self._distances[target], place))
        if fresh:
            return min(fresh)[1]
        distance, best = min(ways, default=(self.far, None))
        for nearer, place in gone:
            if nearer < distance:
                self.refuse(place, untaken_reason_of_missing_message(self.edge(place)))
        return best

    def _nearer(self, place: EdgePlace) -> int | None:
        """Return the target of a step that begins a path to an untaken step; None for any other step."""
        target = self._target(*place)
        if target is None or target == place[0] or self._is_closed(place):
            return None
        return target if self._settle(target) else None

    def edge(self, place: EdgePlace) -> LabelledStep:
        """Return a labelled step."""
        return self.graph.edges[place[0]][place[1]]

    def _places(self, nodes: Iterable[int]) -> Iterator[EdgePlace]:
        return ((node, number) for node in nodes for number in range(len(self.graph.edges[node])))

    def _is_left(self, place: EdgePlace) -> bool:
        return not self.is_taken(place) and place not in self._barred

    def _onward(self, node: int, target: int | None) -> int:
        """Rank a step: 0 if it stays in its state or leaves the graph, 1 if its target has untaken steps, else 2."""
        return 0 if target in (node, None) else 1 if self._left[target or 0] else 2

    def _is_closed(self, place: EdgePlace) -> bool:
        """Whether paths must avoid a step that Kafka refuses."""
        return place in self._barred or place in self._closed

    def _target(self, node: int, number: int) -> int | None:
        found = self._leads.get((node, number))
        return self.edge((node, number)).target if found is None else found[1]

    def _successors(self, node: int) -> Iterator[int]:
        for number in range(len(self.graph.edges[node])):
            target = self._target(node, number)
            if target is not None and not self._is_closed((node, number)):
                yield target

    def _settle(self, start: int) -> bool:
        """Raise distances until a descent along them from `start` ends at an untaken step; return whether it does."""
        way, far = [start], self.far
        while self._distances[start] < far:
            node = way[-1]
            if self._left[node] > 0:
                return True
            nearest = min(self._successors(node), key=self._distances.__getitem__, default=None)
            distance = far if nearest is None else min(far, 1 + self._distances[nearest])
            if distance > self._distances[node]:
                self._distances[node] = distance
                if len(way) > 1:
                    way.pop()
            else:
                assert nearest is not None
                way.append(nearest)
        return False

    # Steps not taken

    def untaken(self) -> Iterator[tuple[LabelledStep, UntakenReason, bool]]:
        """Yield each labelled step that no walk took, its reason, and whether the reason concerns the step itself.

        A step that can be reached only behind an untaken step has the same reason.
        """
        behind = self._behind()
        for place in self._places(range(len(self.graph.edges))):
            if not self.is_taken(place):
                own = self._barred.get(place)
                yield self.edge(place), own or behind.get(place[0], UntakenReason.MISSING), own is not None

    def _behind(self) -> dict[int, UntakenReason]:
        """Return the states that no walk can reach, each with the reason of an untaken step before it."""
        reached = self._reachable({0})
        found: dict[int, UntakenReason] = {}
        for place in self._places(sorted(reached)):
            why = self._why_closed(place)
            if why is not None and self.edge(place).target not in reached:
                found.setdefault(self.edge(place).target, why)
        waiting = deque(found)
        while waiting:
            node = waiting.popleft()
            for edge in self.graph.edges[node]:
                if edge.target not in reached and edge.target not in found:
                    found[edge.target] = found[node]
                    waiting.append(edge.target)
        return found

    def _why_closed(self, place: EdgePlace) -> UntakenReason | None:
        """Return the reason why a step does not lead to its target; None if it does."""
        if self._is_closed(place):
            return self._barred.get(place) or self._closed[place]
        return self._leads[place][0] if place in self._leads else None

    def _reachable(self, reached: set[int]) -> set[int]:
        waiting = deque(reached)
        while waiting:
            for target in self._successors(waiting.popleft()):
                if target not in reached:
                    reached.add(target)
                    waiting.append(target)
        return reached


def untaken_reason_of_missing_message(edge: LabelledStep) -> UntakenReason:
    """Return the reason why the message of a step is not in flight in Kafka."""
    message = edge.label.message
    if isinstance(message, FetchRequest):
        return UntakenReason.UNSENT
    return UntakenReason.STALE if type(message).__name__.endswith("Response") else UntakenReason.MISSING


class CoverStepChooser:
    """Chooses the steps of one walk of a cover.

    If Kafka has dropped messages that the model still has, the walk is in several states of the graph at once. Each of
    these messages is in some of them, and not in others.
    """

    def __init__(self, cover: EdgeCover, lockstep: Lockstep) -> None:
        self.last: EdgePlace | None = None
        self.learnt_before = cover.learnt
        self._cover = cover
        self._graph = cover.graph
        self._lockstep = lockstep
        self._way = takes_to_named_start(lockstep.protocol, cover.graph.init)
        self._drops_late = not cover.graph.has_late_pre_votes
        self._nodes: list[int] | None = None
        self._idle = self._learnt = 0

    def __call__(self, offers: ActionCandidates) -> ChosenOutcome | None:
        """Return the next step; None if no new step can be reached, or the walk has left the graph."""
        offered = {offer[:3]: offer for offer in offers.all}
        for take in self._way:
            if self._lockstep.also == (take.action, take.actor):
                continue
            where = f"on the way to {self._graph.init}"
            transition = transition_matching_take(self._lockstep.semantics, offers.state, take, where, any_outcome=True)
            outcomes = offers.outcomes(offered[transition[:3]])
            return outcomes, outcomes.index(transition)
        if self._nodes is None:
            reached = [0] if self._is_at(0, offers.state) else []
        else:
            assert self.last is not None
            reached = self._arrived(*self.last, offers.state)
        self._nodes = self._equal(reached, offers.state)
        self._idle = self._idle + 1 if self._cover.learnt == self._learnt else 0
        self._learnt = self._cover.learnt
        if self._idle > self._cover.far:  # its goal cannot be reached
            self.last = None
            return None
        self.last = self._cover.next(self._nodes, offered)
        if self.last is None:
            return None
        node, number = self.last
        label = self._graph.edges[node][number].label
        return offers.outcomes(offered[label[:3]]), label.outcome - 1

    def _arrived(self, node: int, number: int, state: State) -> list[int]:
        """Record the last step for each graph state in which it was taken; return the graph states that it led to."""
        label = self._graph.edges[node][number].label
        reached: list[int] = []
        for other in self._nodes or ():
            for place in [place for place, edge in enumerate(self._graph.edges[other]) if edge.label == label]:
                targets = list(self._from(other, place, state))
                if not targets and (other == node or self._lockstep.also is not None):
                    self._left((other, place), state)
                reached += targets
        return reached

    def _left(self, place: EdgePlace, state: State) -> None:
        """Record a step after which Kafka's state is outside of the graph."""
        target = self._graph.states[self._graph.edges[place[0]][place[1]].target]
        if self._lockstep.also is None and state.spent != target.spent:
            self._cover.refuse(place, UntakenReason.OUTCOME)  # an outcome beyond the bounds
            return
        self._cover.take(place)
        self._cover.refuse(place, UntakenReason.LEFT if self._lockstep.also is None else UntakenReason.POSTPONED)

    def _from(self, node: int, number: int, state: State) -> Iterator[int]:
        """Yield the targets that a step had in Kafka: its own, another outcome's, or one after an urgent step."""
        cover, edges, also = self._cover, self._graph.edges, self._lockstep.also
        outcomes = self._outcomes(node, number)
        for other in outcomes:
            target = edges[node][other].target
            if also is not None:
                fitting = [then for then, edge in enumerate(edges[target]) if edge.label[:2] == also]
                then = next((then for then in fitting if self._is_at(edges[target][then].target, state)), None)
                if then is not None:
                    cover.take((node, other))
                    cover.take((target, then))
                    cover.refuse((node, number), UntakenReason.POSTPONED, edges[target][then].target)
                    yield edges[target][then].target
                    return
            elif self._is_at(target, state):
                for left in outcomes:
                    if left != other and not cover.is_taken((node, left)):
                        cover.refuse((node, left), UntakenReason.OUTCOME)
                cover.take((node, other))
                yield target
                return

    def _outcomes(self, node: int, number: int) -> list[int]:
        """Return the numbers of the edges with the same action, actor and message as edge `number`, itself first."""
        edges = self._graph.edges[node]
        others = [other for other, edge in enumerate(edges) if edge.label[:3] == edges[number].label[:3]]
        return sorted(others, key=lambda other: other != number)

    def _equal(self, reached: list[int], state: State) -> list[int]:
        """Return the states that Kafka cannot tell apart; mark the steps between them as taken: they drop an answer."""
        found = dict.fromkeys(reached)
        exact = self._graph.numbers.get(state)
        if reached and exact is not None:
            found[exact] = None
        waiting = list(found)
        while waiting:
            node = waiting.pop()
            for number, edge in enumerate(self._graph.edges[node]):
                if self._is_dropped(edge, state) and edge.target != node and self._is_at(edge.target, state):
                    self._cover.take((node, number))
                    if edge.target not in found:
                        found[edge.target] = None
                        waiting.append(edge.target)
        return list(found)

    @staticmethod
    def _is_dropped(edge: LabelledStep, state: State) -> bool:
        """Whether a step delivers an answer that is no longer in flight."""
        is_answer = (
            edge.label.action not in NETWORK_ACTIONS and untaken_reason_of_missing_message(edge) is UntakenReason.STALE
        )
        return is_answer and edge.label.message not in state.inboxes.get(edge.label.actor, ())

    def _is_at(self, node: int, state: State) -> bool:
        """Whether a state equals a state of the graph, except for messages that Kafka has dropped or not sent.

        If the graph has no late pre-vote requests, they stay in flight for ever on the other side.
        """
        expected = self._graph.states[node]
        if state == expected:
            return True
        if (state.replicas, state.shared, state.spent) != (expected.replicas, expected.shared, expected.spent):
            return False
        known = expected.inboxes
        more = (m for dest, inbox in state.inboxes.items() for m in inbox if m not in known.get(dest, ()))
        return all(isinstance(m, VoteRequest) and m.pre_vote and self._drops_late for m in more)

"""One walk on both sides: the model takes a step, Kafka takes the same step, and their states are compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from enum import StrEnum
from itertools import filterfalse, pairwise
from typing import NamedTuple

from kraftcheck.explorer.result import TraceStep
from kraftcheck.kraft_model.quorum.base import QuorumBase
from kraftcheck.kraft_model.quorum.records import (
    ENDED_MODES,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotResponse,
    Mode,
    Replica,
    VoteResponse,
)
from kraftcheck.lockstep.driver_commands import (
    TIMER_ACTIONS,
    URGENT_TIMEOUTS_AFTER,
    can_drive_action,
    command_function_of_step,
    effect_identifies_request,
    may_be_outcomes_of_same_request,
)
from kraftcheck.lockstep.driver_process import Driver
from kraftcheck.lockstep.kafka_cluster import (
    KafkaCluster,
    KafkaThrew,
    MessageNotInFlight,
    ModelKafkaDifference,
    canonical_and_model_messages,
    canonical_messages_in_flight,
    model_state_of,
    state_differences,
    state_without_message,
)
from kraftcheck.lockstep.messages import canonical_message
from kraftcheck.lockstep.walks import ActionCandidateCache, ActionCandidates, ChosenOutcome, StepChoice
from kraftcheck.spec import Record, State
from kraftcheck.spec.language.incremental_checks import properties_violated_by_step
from kraftcheck.spec.language.semantics import Semantics, Transition

StepChooser = Callable[[ActionCandidates], ChosenOutcome | None]
"""Chooses the next step of a walk among those that can be driven; None ends the walk."""


class LockstepVerdict(StrEnum):
    """Verdict of walks, in order of severity; `INCOMPLETE` if an error or the user ended them."""

    AGREES = "agrees"
    INCOMPLETE = "incomplete"
    DIFFERS = "differs"
    FAILS = "fails"
    VIOLATES = "violates"


class LockstepFinding(NamedTuple):
    """A difference between the model and Kafka, or a property that Kafka violates."""

    verdict: LockstepVerdict
    step: int  # the number of the step; the first is 1
    taken: StepChoice | None  # the step
    differences: tuple[ModelKafkaDifference, ...] = ()  # the differences, if any
    violated: tuple[str, ...] = ()  # properties that Kafka's own states violate
    problem: str = ""  # the exception that Kafka threw, with its place


class _ComparedStep(NamedTuple):
    """A step taken by model and Kafka: the states before, between and after it, differences, Kafka's exception."""

    number: int
    taken: StepChoice
    states: tuple[State, ...]
    differing: tuple[ModelKafkaDifference, ...]
    problem: str


class _StepEvaluator:
    """Evaluates a step while Kafka takes the next one."""

    def __init__(self, lockstep: Lockstep) -> None:
        self.findings: list[LockstepFinding] = []
        self.is_over = False
        self.waiting: _ComparedStep | None = None
        self._lockstep = lockstep
        self._known: set[str] = set()  # properties violated before

    def look(self) -> None:
        """Evaluate the waiting step, if any: record its violations and differences as findings."""
        if self.waiting is None:
            return
        (number, taken, states, differing, problem), self.waiting = self.waiting, None
        violated = dict.fromkeys(name for pair in pairwise(states) for name in self._lockstep.violated(*pair))
        fresh = tuple(filterfalse(self._known.__contains__, violated))
        if problem:
            self.findings.append(LockstepFinding(LockstepVerdict.FAILS, number, taken, differing, problem=problem))
        if fresh:
            self.findings.append(LockstepFinding(LockstepVerdict.VIOLATES, number, taken, differing, fresh))
            self._known.update(fresh)
        elif differing and not problem:
            self.findings.append(LockstepFinding(LockstepVerdict.DIFFERS, number, taken, differing))
        self.is_over = bool(self.findings) and not self._lockstep.go_on


MOST_STEPS = 5_000
"""Steps after which the model's memoized calls are dropped."""


class Lockstep:
    """Makes walks in which the model and Kafka take the same steps."""

    # action and actor of the urgent step that Kafka took together with the last step, or None
    also: tuple[str, object] | None = None

    def __init__(
        self, driver: Driver, protocol: QuorumBase, *, go_on: bool = False, ignored: Collection[str] = ()
    ) -> None:
        self.protocol = protocol
        self.driver = driver
        self.go_on = go_on
        self.ignored = ignored
        self.taken: Counter[str] = Counter()
        self.steps = 0
        # the model's states of the last walk: those of the start, then those of each step
        self.behaviour = list[tuple[TraceStep, ...]]()
        self._forget()
        found = [prop for prop in protocol.properties.values() if prop.name not in ignored]
        self._of_states = [prop for prop in found if prop.kind == "invariant"]
        self._of_steps = [prop for prop in found if prop.kind == "step_invariant" and not prop.of_actor]

    def walk(self, choose: StepChooser, depth: int) -> tuple[list[StepChoice], list[LockstepFinding]]:
        """Walk until the end, a difference or a violation; return the steps and the findings."""
        state, walked, judge = self._start(), list[StepChoice](), _StepEvaluator(self)
        differing = tuple(state_differences(state, self.cluster))
        if differing:
            return walked, [LockstepFinding(LockstepVerdict.DIFFERS, 0, None, differing)]
        for number in range(1, depth + 1):
            chosen = choose(ActionCandidates(self._menu, state))
            if chosen is None:
                break
            alike, which = _last_request_identifying_outcome(*chosen)
            step = alike[which]
            taken = StepChoice(step.action, step.actor, step.message, which + 1)
            walked.append(taken)
            self.also = None
            # Kafka takes a step in a process of its own. Meanwhile, Python evaluates the properties of the step before.
            # So a violation shows only when Kafka takes the next step already, and that step is removed from the walk.
            self.driver.meanwhile = judge.look
            states, differing, problem = self._take(state, step, alike)
            judge.look()  # if Kafka was asked for nothing
            if judge.is_over:  # the step before was the last one
                walked.pop()
                break
            if not states:
                judge.findings.append(LockstepFinding(LockstepVerdict.DIFFERS, number, taken, differing))
                break
            self.cluster.merge(shown for shown, _ in canonical_and_model_messages(states[-1]))
            self.steps += 1
            reached = TraceStep(states[0], step.action, step.actor, step.message)
            self.behaviour.append(self._along(reached, states[1:]))
            judge.waiting = _ComparedStep(number, taken, (state, *states), differing, problem)
            if differing or problem:
                judge.look()
            if judge.is_over:
                break
            state = states[-1]
        judge.look()
        return walked, judge.findings

    def _start(self) -> State:
        """Begin a walk of the model and of Kafka; return the state after every process has started."""
        if self.steps - self._forgot > MOST_STEPS:
            self._forget()
        self.cluster = KafkaCluster(self.driver, self.protocol)
        initial = self.semantics.initial()[0]
        self.cluster.start()
        state = self._begun(initial)
        self.behaviour = [self._along(TraceStep(initial), (state,) if state != initial else ())]
        return state

    def _along(self, step: TraceStep, more: tuple[State, ...]) -> tuple[TraceStep, ...]:
        """Return the trace of a step: the step, then the urgent step that Kafka took with it, if any."""
        return (step, *(TraceStep(state, *(self.also or ())) for state in more))

    def _begun(self, state: State) -> State:
        """Return the state after every process has started, in which a sole voter is already elected."""
        self.also = None
        offers = ActionCandidates(self._timeouts, state)
        for offer in offers.all if any(state_differences(state, self.cluster)) else ():
            for transition in offers.outcomes(offer):
                if not any(state_differences(transition.target, self.cluster)):
                    self.also = transition.action, transition.actor
                    return transition.target
        return state

    def _take(
        self, state: State, step: Transition, alike: list[Transition]
    ) -> tuple[tuple[State, ...], tuple[ModelKafkaDifference, ...], str]:
        """Take a step on both sides; return the states after it, the differences, and Kafka's exception as text.

        The last state is Kafka's. There are no states if Kafka cannot be asked for the step. If the model has several
        outcomes, Kafka may take any of them. An exception of Kafka agrees with a process that ends in the model.
        """
        # The driver answers after Kafka has polled until nothing is left to do at its virtual time. In these polls,
        # Kafka may have taken an urgent timeout as well. So its state is compared with each outcome of the step first,
        # and then with each outcome followed by an urgent timeout of the same replica.
        try:
            problem, lost = self._drive(state, step)
        except MessageNotInFlight as missing:
            return (), (ModelKafkaDifference(None, "message", str(missing), None),), ""
        others = (other for other in alike if other is not step)
        candidates = [
            step,
            *(other for other in others if may_be_outcomes_of_same_request(self.cluster, state, step, other)),
        ]
        for candidate, action, final in self._reachable(state, candidates):
            target = self._without(final, lost)
            if problem and not _has_replica_ended(state, target):
                continue
            if not any(self._differing(state, candidate._replace(target=final), target, lost)):
                self.taken[f"{step.action}, {action} at once" if action else step.action] += 1
                if not action:
                    return (target,), (), ""
                self.also = action, step.actor
                return (candidate.target, target), (), ""
        target = self._without(step.target, lost)
        differing = tuple(self._differing(state, step, target, lost))
        return (model_state_of(target, self.cluster),), differing, problem

    def _drive(self, state: State, step: Transition) -> tuple[str, list[Record]]:
        """Make Kafka take a step; return its exception as text, and the stale answers that it dropped."""
        problem, lost = "", list[Record]()
        try:
            command_function_of_step(step)(self.cluster, state, step)
        except KafkaThrew as threw:
            problem = f"{threw} ({threw.place})"
        try:
            lost += self.cluster.stale_answers()
        except KafkaThrew as threw:
            problem = problem or f"{threw} ({threw.place})"
        return problem, lost

    def _reachable(self, state: State, candidates: Sequence[Transition]) -> Iterator[tuple[Transition, str, State]]:
        """Yield each target of the steps: first of the step alone, then of the step and a named urgent step."""
        yield from ((candidate, "", candidate.target) for candidate in candidates)
        for candidate in candidates:
            yield from ((candidate, action, final) for action, final in self._urgent(state, candidate))

    def _differing(
        self, state: State, step: Transition, target: State, lost: list[Record]
    ) -> Iterator[ModelKafkaDifference]:
        """Yield the differences after a step; `target` is its state without the answers that Kafka dropped."""
        shown = list(state_differences(target, self.cluster))
        yield from shown or (*self._effects(step.target, lost), *self._successors(state, step))

    def _successors(self, state: State, step: Transition) -> Iterator[ModelKafkaDifference]:
        """Yield differences in the order of preferred successors, except between equal fetch offsets."""
        for message in () if step.step.consumes else step.step.sent:
            if not isinstance(message, EndQuorumEpochRequest):
                continue
            orders = message.preferred, self.cluster.preferred(canonical_message(message))
            offsets = state.replicas[message.source].offsets
            ours, theirs = ([offsets.get(key, 0) for key in order] for order in orders)
            if ours != theirs:
                yield ModelKafkaDifference(message.source, "preferred", *orders)

    def _effects(self, state: State, lost: list[Record]) -> Iterator[ModelKafkaDifference]:
        """Yield a difference for each answer that Kafka dropped and that has an effect in the model.

        Kafka matches answers by number. The model has no numbers, and may accept the answer to an equal request.
        """
        for message in lost:
            rest = state_without_message(state, message)
            if rest == state or may_be_awaited_answer(state, message):
                continue
            offers = ActionCandidates(self._menu, state)
            handled = (o for o in offers.of(message.dest) if o.action in self.protocol.actions)  # type: ignore[attr-defined]
            for offer in handled:
                outcomes = offers.outcomes(offer) if offer.message == message else []
                if outcomes and all(outcome.target != rest for outcome in outcomes):
                    yield ModelKafkaDifference(message.dest, type(message).__name__, message, None)  # type: ignore[attr-defined]

    def _urgent(self, state: State, step: Transition) -> Iterator[tuple[str, State]]:
        """Yield the states after a step and a timeout of the same replica, which Kafka takes within one poll.

        Kafka does not send the fetch that the model sends in between.
        """
        urgent = URGENT_TIMEOUTS_AFTER.get(step.action, ())
        if not urgent:
            return
        between = canonical_messages_in_flight(step.target) - canonical_messages_in_flight(state)
        unsent: list[Record] = [m for m in between if isinstance(m, FetchRequest) and m.source == step.actor]
        later = ActionCandidates(self._timeouts, step.target)
        for offer in later.of(step.actor):
            for second in later.outcomes(offer) if offer.action in urgent else ():
                yield second.action, self._without(second.target, unsent)

    def _forget(self) -> None:
        """Drop the memoized calls of the model, so that memory stays bounded."""
        self.semantics = Semantics(self.protocol)
        self._menu = ActionCandidateCache(self.semantics, can_drive_action)
        self._timeouts = ActionCandidateCache(self.semantics, lambda action, _: action in TIMER_ACTIONS)
        self._forgot = self.steps

    @staticmethod
    def _without(state: State, messages: list[Record]) -> State:
        for message in messages:
            state = state_without_message(state, message)
        return state

    def violated(self, before: State, after: State) -> Iterator[str]:
        """Yield the properties violated in a state, or by the step to it."""
        yield from (prop.name for prop in properties_violated_by_step(self.semantics, self._of_states, before, after))
        for prop in self._of_steps:
            if not self.semantics.holds_over(prop, before, after):
                yield prop.name


def _last_request_identifying_outcome(alike: list[Transition], which: int) -> tuple[list[Transition], int]:
    """Return the outcomes `alike`, and the number of the last one up to `which` that identifies the request."""
    while which > 0 and not effect_identifies_request(alike[which]):
        which -= 1
    return alike, which


def _has_replica_ended(before: State, after: State) -> bool:
    """Whether a process that runs in one state has ended in the next."""
    return any(
        isinstance(replica, Replica) and replica.mode in ENDED_MODES and before.replicas[host].mode not in ENDED_MODES
        for host, replica in after.replicas.items()
    )


def may_be_awaited_answer(state: State, answer: Record) -> bool:
    """Whether an answer that Kafka dropped may equal an answer that its receiver still awaits."""
    me = state.replicas[answer.dest]  # type: ignore[attr-defined]
    if isinstance(answer, FetchResponse | FetchSnapshotResponse):
        return bool(me.pending == answer.request)
    return not isinstance(answer, VoteResponse) or answer.pre_vote == (me.mode is Mode.PROSPECTIVE)

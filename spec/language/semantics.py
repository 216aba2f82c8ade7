"""The meaning of the language: which actions a state offers, which of their steps are enabled, where they lead.

The reference engine calls this module for every state. Every other engine must agree with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from kraftcheck.spec.language.action import Action
from kraftcheck.spec.language.calling import act_of, assignments, call_action, evaluate_property
from kraftcheck.spec.language.property import QUANTIFIED, SPENT, Property
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.signature import Projection
from kraftcheck.spec.language.state import State
from kraftcheck.spec.language.step import Step, is_within, note_spent
from kraftcheck.spec.values import Map, Record, Value, is_same, ordered


class Refusal(NamedTuple):
    """The reason for which a step of an action is not enabled."""

    kind: str  # "bound", "network" or "message"
    reason: str  # a sentence for a person


class Transition(NamedTuple):
    """A step from a state to the next one."""

    action: str  # the action's name
    actor: Any  # the id of the acting replica; of the destination for the network's own steps; None for the environment
    message: Record | None  # the delivered message, or None
    step: Step
    target: State  # the next state


class Candidate(NamedTuple):
    """An action, the replica that may take it, and the delivered message."""

    action: Action
    actor: Any
    message: Record | None


class Choice(NamedTuple):
    """A step that a state offers."""

    action: str  # as in `Transition`
    actor: Any
    message: Record | None
    step: Step
    inbox: Value | None = None  # for the network's own steps, the actor's inbox afterwards; else None


class Offer(NamedTuple):
    """An action that a replica may take on a message, with its steps; None if they depend on other replicas."""

    action: Action
    message: Record | None
    steps: tuple[Step, ...] | None


class Semantics:
    """The transitions and properties of one protocol.

    Actions are pure and read little, so their outcomes are memoised: an action is called once for each distinct
    (replica, message, whatever else it asks for). Equal parts of states are made identical, so that comparing states
    is cheap.
    """

    def __init__(self, protocol: Protocol) -> None:
        self.protocol = protocol
        self.network = protocol.network
        self.handler_calls: Counter[str] = Counter()
        self.most_spent: dict[str, int] = {}
        self._environment = [a for a in protocol.actions.values() if a.kind == "environment"]
        self._same: dict[Value, Value] = {}
        self._offers: dict[tuple[Value, Value, Value], tuple[Offer, ...]] = {}
        self._deliverable: dict[Value, tuple[Any, ...]] = {}
        self._calls: dict[tuple[Any, ...], tuple[Step, ...]] = {}
        self._inboxes: dict[tuple[str, Value, Value], Value] = {}
        self._projected: dict[tuple[str, Value], Value] = {}
        self._verdicts: dict[tuple[Any, ...], bool] = {}

    def same(self, value: Value) -> Value:
        """Return the one object that represents all values equal to this one."""
        found = self._same.setdefault(value, value)
        return found if is_same(found, value) else value  # 1 and True are equal keys, and not the same value

    def initial(self) -> list[State]:
        """Return the initial states, checked."""
        return self.protocol.checked_initial()

    # Who may do what

    def candidates(self, state: State) -> Iterator[Candidate]:
        """Yield every (action, actor, delivered message) of a state, in a fixed order."""
        for key in ordered(state.replicas):
            yield from self.candidates_of(key, state.replicas[key], state.inboxes.get(key, self.network.empty))
        for action in self._environment:
            yield Candidate(action, None, None)

    def candidates_of(self, key: Value, me: Record, inbox: Value) -> Iterator[Candidate]:
        """Yield every (action, actor, delivered message) of one replica, in a fixed order."""
        for action in self.protocol.actions.values():
            for message in self._delivered(action, me, inbox):
                yield Candidate(action, key, message)

    def _delivered(self, action: Action, me: Record, inbox: Value) -> list[Any]:
        """Return the messages on which a replica may take an action; [None] if the action needs no message."""
        if action.kind == "environment" or not isinstance(me, action.actors):
            return []
        if action.kind == "internal":
            return [None]
        return [m for m in self.deliverable(inbox) if isinstance(m, action.messages) and self.protocol.receives(me, m)]

    def _offered(self, me: Record, inbox: Value, shared: Value) -> tuple[Offer, ...]:
        """Return what a replica may do, given its local state, its inbox and the shared state; memoised."""
        key = (me, inbox, shared)
        found = self._offers.get(key)
        if found is None:
            found = self._offers[key] = tuple(self._make_offers(me, inbox, shared))
        return found

    def _make_offers(self, me: Record, inbox: Value, shared: Value) -> Iterator[Offer]:
        for action in self.protocol.actions.values():
            for message in self._delivered(action, me, inbox):
                steps = None if action.reads else self.steps(action, me, message, {"shared": shared})
                if steps != ():
                    yield Offer(action, message, steps)

    def context(self, state: State, action: Action, known: dict[str, Value]) -> dict[str, Value]:
        """Return `shared` and the projections that an action reads, by name."""
        known.setdefault("shared", state.shared)
        for read in action.reads:
            if read.name not in known:
                known[read.name] = self.project(read, state)
        return known

    def project(self, read: Projection, state: State) -> Map[Any, Any]:
        """Return a projection of all replicas of a state, by id."""
        empty = self.network.empty
        result = {}
        for key, replica in state.replicas.items():
            result[key] = self.view(read, state.inboxes.get(key, empty) if read.of_inbox else replica)
        return Map(result)

    def steps(
        self, action: Action, me: Record | None, message: Record | None, given: dict[str, Value]
    ) -> tuple[Step, ...]:
        """Return the steps that an action would take, enabled or not; memoised."""
        key = (action.name, me, message, *[given[name] for name in action.asks])
        found = self._calls.get(key)
        if found is None:
            self.handler_calls[action.name] += 1
            taken = self.call(action, me, message, given)
            note_spent(taken, self.most_spent)
            found = tuple(self._shared_parts(step) for step in taken if is_within(step, self.protocol.bounds))
            self._calls[key] = found
        return found

    def call(
        self, action: Action, me: Record | None, message: Record | None, given: dict[str, Value]
    ) -> tuple[Step, ...]:
        """Call an action."""
        return call_action(self.protocol, action, me, message, given)

    def _shared_parts(self, step: Step) -> Step:
        return step.but(
            me=self.same(step.me) if step.me != () else (),
            sends=tuple((operation, self.same(message)) for operation, message in step.sends),
            puts=tuple((name, self.same(value)) for name, value in step.puts),
            writes=tuple(self.same(replica) for replica in step.writes),
        )

    # What follows

    def transitions(self, state: State) -> Iterator[Transition]:
        """Yield every transition out of a state: each (action, actor, message, step) once, self-loops included."""
        for choice in self.choices(state):
            found = self.taken(state, choice)
            if found is not None:
                yield found

    def choices(self, state: State) -> Iterator[Choice]:
        """Yield every step that a state offers; bounds and the network may still refuse it."""
        known: dict[str, Value] = {}
        empty, inboxes, shared = self.network.empty, state.inboxes, state.shared
        for key, me in state.replicas.items():
            for action, message, steps in self._offered(me, inboxes.get(key, empty), shared):
                if steps is None:
                    steps = self.steps(action, me, message, self.context(state, action, known))
                for step in steps:
                    yield Choice(action.name, key, message, step)
        for action in self._environment:
            for step in self.steps(action, None, None, self.context(state, action, known)):
                yield Choice(action.name, None, None, step)
        if self.network.own_actions():
            for key in ordered(inboxes):
                yield from self.network_choices(key, inboxes[key])

    def network_choices(self, key: Value, inbox: Value) -> Iterator[Choice]:
        """Yield the steps that the network offers by itself on the inbox of a replica."""
        for name, message, after, spends in self.network.own_steps(inbox):
            yield Choice(name, key, message, Step(spends=spends), self.same(after))

    def deliverable(self, inbox: Value) -> tuple[Any, ...]:
        """Return the messages in an inbox that can be delivered next; memoised."""
        messages = self._deliverable.get(inbox)
        if messages is None:
            messages = self._deliverable[inbox] = tuple(map(self.same, self.network.deliverable(inbox)))
        return messages

    def taken(self, state: State, choice: Choice) -> Transition | None:
        """Return the transition that a choice leads to, or None where it is not enabled."""
        action, actor, message, step, inbox = choice
        if inbox is None:
            target = self.apply(state, actor, message, step)
            return Transition(action, actor, message, step, target) if type(target) is State else None
        spent = self._spend(state.spent, step.spends)
        if isinstance(spent, Refusal):
            return None
        target = state.but(inboxes=self._with_inbox(state.inboxes, actor, inbox), spent=spent)
        return Transition(action, actor, message, step, target)

    def apply(self, state: State, actor: Value, message: Record | None, step: Step) -> State | Refusal:
        """Return the state to which a step leads, or the reason for which it is not enabled.

        A step is enabled only if all its parts are: bounds have something left, and the network refuses nothing.
        """
        spent = state.spent
        if step.needs or step.spends:
            for name in step.needs:
                if spent[name] >= self.protocol.bounds[name]:
                    return self._exhausted(name)
            left = self._spend(spent, step.spends)
            if isinstance(left, Refusal):
                return left
            spent = left
        inboxes = state.inboxes
        if step.consumes:
            rest = self._operate("discard", inboxes[actor], message)
            if rest is None:
                return Refusal("message", f"{message!r} is not under way")
            inboxes = self._with_inbox(inboxes, actor, rest)
        for operation, sent in step.sends:
            destination = sent.dest
            inbox = self._operate(operation, inboxes.get(destination, self.network.empty), sent)
            if inbox is None:
                return Refusal("network", f"the network refuses to {operation.replace('_', ' ')} again {sent!r}")
            inboxes = self._with_inbox(inboxes, destination, inbox)
        replicas = state.replicas
        if step.me != () and step.me is not replicas[actor]:
            replicas = replicas.put(actor, step.me)
        for replica in step.writes:
            replicas = replicas.put(replica.id, replica)
        shared = self.same(state.shared.but(**dict(step.puts))) if step.puts else state.shared
        return State(replicas, inboxes, shared, spent)

    def _operate(self, operation: str, inbox: Value, message: Value) -> Value:
        key = (operation, inbox, message)
        try:
            return self._inboxes[key]
        except KeyError:
            result = self.network.apply(operation, inbox, message)
            self._inboxes[key] = None if result is None else self.same(result)
            return self._inboxes[key]

    def _with_inbox(self, inboxes: Map[Any, Any], key: Value, inbox: Value) -> Map[Any, Any]:
        """Return the inboxes with one replaced, or left out if it is empty."""
        return inboxes.without(key) if inbox == self.network.empty else inboxes.put(key, inbox)

    def _spend(self, spent: Map[str, int], names: tuple[str, ...]) -> Map[str, int] | Refusal:
        for name in names:
            if spent[name] >= self.protocol.bounds[name]:
                return self._exhausted(name)
            spent = spent.put(name, spent[name] + 1)
        return self.same(spent)  # type: ignore[no-any-return]

    def _exhausted(self, name: str) -> Refusal:
        limit = next(c.name for c in self.protocol.constants.values() if c.attribute == name)
        return Refusal("bound", f"nothing is left of {name}: {limit} = {self.protocol.bounds[name]}")

    # Properties

    def holds(self, prop: Property, state: State) -> bool:
        """Return whether a state property is true of a state; memoised for each distinct input."""
        if "message" in prop.asks or "state" in prop.asks or any(read.of_inbox for read in prop.reads):
            return self._holds(prop, state)
        shared = state.shared if "shared" in prop.asks else None
        key = (*prop.key, state.replicas, shared, state.spent if SPENT in prop.asks else None)
        found = self._verdicts.get(key)
        if found is None:
            found = self._verdicts[key] = self._holds(prop, state)
        return found

    def _holds(self, prop: Property, state: State) -> bool:
        return self.falsifying(prop, state) is None

    def culprits(self, prop: Property, state: State) -> dict[str, Value] | None:
        """Return the replicas and the message of which a state property is false, by parameter; None where it holds."""
        known = self.falsifying(prop, state)
        return None if known is None else {name: known[name] for name in QUANTIFIED if name in prop.asks}

    def falsifying(self, prop: Property, state: State) -> dict[str, Value] | None:
        """Return what a state property is false of, by parameter; None where it holds."""
        known: dict[str, Value] = {"shared": state.shared, "state": state, SPENT: state.spent}
        for read in prop.reads:
            known[read.name] = self.project(read, state)
        messages: list[Any] = []
        if "message" in prop.asks:
            messages = [message for inbox in state.inboxes.values() for message in self.network.known(inbox)]
        for about in assignments(prop, list(state.replicas.values()), messages):
            known.update(about)
            if not self.verdict(prop, known):
                return known
        return None

    def view(self, read: Projection, source: Value) -> Value:
        """Return a projection of one replica or inbox; memoised."""
        found = self._projected.get((read.name, source))
        if found is None:
            found = self._projected[read.name, source] = self.same(self.protocol.projected(read, source))
        return found

    def holds_over(self, prop: Property, before: State, after: State) -> bool:
        """Return whether a step property is true of every replica that a step changes."""
        kinds = prop.kinds("before")
        for key, replica in after.replicas.items():
            old = before.replicas.get(key)
            if old is None or old == replica or not isinstance(replica, kinds):
                continue
            if not self.verdict(prop, {"before": old, "after": replica, "shared": before.shared}):
                return False
        return True

    def kept_by(self, prop: Property, before: State, transition: Transition) -> bool:
        """Return whether a step property is true of a transition."""
        if not prop.of_actor:
            return self.holds_over(prop, before, transition.target)
        if transition.actor is None or transition.action not in self.protocol.actions:
            return True
        known = act_of(prop, before.replicas[transition.actor], transition.message, transition.step)
        return known is None or self.verdict(prop, {**known, "shared": before.shared})

    def verdict(self, prop: Property, known: dict[str, Value]) -> bool:
        """Return whether a property is true of given replicas, messages and whatever else it asks for; memoised."""
        key = (*prop.key, *[known[name] for name in prop.asks])
        found = self._verdicts.get(key)
        if found is None:
            found = evaluate_property(self.protocol, prop, known)
            if "state" not in prop.asks:
                self._verdicts[key] = found
        return found

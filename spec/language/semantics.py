"""The reference semantics: candidate actions of a state, enabled steps, next states, property evaluation.

This module calls actions and properties, and checks their contract. The reference engine calls it for every state.
Every other engine must agree with it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from inspect import unwrap
from types import GeneratorType
from typing import Any, NamedTuple

from kraftcheck.spec.errors import FORGOT_YIELD_MESSAGE, ActionError, ProtocolError, RaisedError, unknown_name_message
from kraftcheck.spec.language.declarations import (
    NOT_PROJECTED,
    REFINES,
    SPENT_PARAMETER,
    Action,
    Projection,
    Property,
    camel_case,
)
from kraftcheck.spec.language.formula import Fairness
from kraftcheck.spec.language.network import NoNetwork
from kraftcheck.spec.language.protocol import NO_DEFAULT, Protocol
from kraftcheck.spec.language.refinement import RefinementChecker
from kraftcheck.spec.language.state import (
    NON_SENDING_OPERATIONS,
    InternedFieldValues,
    ProjectedValues,
    SelfDisablingMemo,
    State,
    Step,
    distinct_steps,
    make_state,
    note_replica_types,
    record_largest_bound_use,
    step_fits_unused_bounds,
)
from kraftcheck.spec.type_checks import describe_type, describe_value, field_checkers, fits_type, type_mismatch
from kraftcheck.spec.values import Map, Record, Value, field_types, is_enum, ordered, same_types, text_of, with_fields

REPORTED_PARAMETERS = ("me", "peer", "message", "before", "after")
"""The arguments of a property that an error message shows."""


def call_action(
    protocol: Protocol, action: Action, me: Record | None, message: Record | None, context: Mapping[str, Value]
) -> tuple[Step, ...]:
    """Return the distinct steps of an action."""
    leading = [item for item in (me, message) if item is not None]
    reads, steps = protocol.hidden_reads, list[Step]()
    try:
        made = action.function(protocol, *leading, *_read_tracked_arguments(protocol, action, context))
        if type(made) is not GeneratorType and not isinstance(made, Iterable):
            raise ActionError(action, protocol, me, message, f"returned {describe_value(made)}; {FORGOT_YIELD_MESSAGE}")
        for step in made:
            problem = _step_problem(protocol, me, message, step)
            if problem:
                raise ActionError(action, protocol, me, message, problem, line=generator_line(made))
            steps.append(step)
            _record_sent_and_written_types(protocol, action, step)
            if reads is not None:
                reads.note(f"action {action.name}", (*step.spends, *step.needs))
    except ActionError:
        raise
    except (Exception, SystemExit) as error:
        raise ActionError(action, protocol, me, message, cause=error) from error
    return distinct_steps(steps)


def _read_tracked_arguments(protocol: Protocol, owner: Action | Property, given: Mapping[str, Value]) -> list[Value]:
    """Return the arguments of an action or a property; record which hidden fields the call reads.

    A method that may inspect types gets the shared record itself instead of a proxy, which counts as reading all of it.
    """
    if owner.method_name in protocol.by_type and "shared" in owner.asks and hasattr(type(given["shared"]), "__whole__"):
        given = {**given, "shared": given["shared"].__whole__()}
    if protocol.hidden_reads is None:
        return [given[name] for name in owner.asks]
    reader = f"{'action' if isinstance(owner, Action) else owner.kind.replace('_', ' ')} {owner.name}"
    return [protocol.hidden_reads.seen(reader, owner.method_name, name, given[name]) for name in owner.asks]


def generator_line(made: object) -> int | None:
    """Return the current line of a generator; None for any other object."""
    frame = made.gi_frame if isinstance(made, GeneratorType) else None
    return None if frame is None else frame.f_lineno


def _record_sent_and_written_types(protocol: Protocol, action: Action, step: Step) -> None:
    """Record the sent messages and written replicas of a step, unless a bound of 0 rules the step out."""
    if (step.sends or step.writes) and all(protocol.bounds[name] for name in (*step.spends, *step.needs)):
        note_replica_types(step.writes, protocol.replica_types)
        for operation, sent in step.sends:
            if operation not in NON_SENDING_OPERATIONS:
                protocol.message_senders.setdefault((type(sent), sent.dest), action)


def property_bindings(prop: Property, replicas: Sequence[Any], messages: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Yield the bindings of a state property's parameters: each replica, each pair of replicas, each message."""
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
    function, cause = protocol.probes.get("" if prop.whole else prop.name, prop.function), None
    try:
        result = function(protocol, *_read_tracked_arguments(protocol, prop, arguments), **dict(prop.fixed))
    except (Exception, SystemExit) as error:
        cause, result = error, None
    if protocol.hidden_reads is not None:
        protocol.hidden_reads.require_unread(f"{prop.kind.replace('_', ' ')} {prop.name}")
    if type(result) is bool:
        return result is not prop.opposite
    hint = "; forgot `return`?" if result is None else ""
    problem = f"returned {result!r}; expected True or False{hint}"
    if isinstance(result, GeneratorType):
        problem = "yields; expected True or False (`return`, not `yield`)"
    given = {name: arguments[name] for name in prop.asks if name in REPORTED_PARAMETERS}
    raise RaisedError(protocol, f"property {prop.name}", prop.function, problem, given, cause) from cause


def satisfies_fairness_predicate(
    protocol: Protocol, fairness: Fairness, me: Record | None, message: Record | None
) -> bool:
    """Return whether the predicate of a fairness condition selects a step of a replica on a message."""
    function, cause, found = getattr(type(protocol), fairness.when), None, None
    try:
        found = function(protocol, me, message)
    except (Exception, SystemExit) as error:
        cause = error
    if type(found) is bool:
        return found
    problem = "" if cause else f"returned {describe_value(found)}; expected True or False"
    what, given = f"fairness {fairness.when}", {"me": me, "message": message}
    raise RaisedError(protocol, what, function, problem, given, cause) from cause


def step_property_arguments(prop: Property, me: Record, message: Record | None, step: Step) -> dict[str, Any] | None:
    """Return the arguments of a step property for an actor's step; None if the property does not cover the step."""
    if not prop.speaks_of(me.__class__, message.__class__):
        return None
    return {"before": me, "after": me if step.me == () else step.me, "message": message, "step": step}


def _step_problem(protocol: Protocol, me: Record | None, message: Record | None, step: Any) -> str | None:
    """Return the error text for an invalid step that an action yielded, or None."""
    if not isinstance(step, Step):
        return f"yielded {step!r}, which is not a step (become(...), consume(...) or Step())"
    written = step.writes
    if step.me != ():
        if me is None or type(step.me) is not type(me) or step.me.id != me.id:  # type: ignore[attr-defined]
            return f"yielded {step.me!r} as the next state of {getattr(me, 'id', 'the environment')}"
        written = (*written, step.me)
    if step.consumes and message is None:
        return "consumes a message, but none was delivered; write become(...)"
    problem = _replica_written_twice_problem(written) if len(written) > 1 else None
    if problem is not None:
        return problem
    for value in (*written, *[sent for _, sent in step.sends]):
        if not isinstance(value, Record) or not fits_type(value, type(value)):
            return _written_or_sent_problem(step, value)
    return _spends_puts_or_sends_problem(protocol, step)


def _replica_written_twice_problem(written: Sequence[Any]) -> str | None:
    ids = [getattr(replica, "id", None) for replica in written]
    twice = [one for one in ids if ids.count(one) > 1]
    return f"writes the replica {twice[0]!r} twice in one step" if twice else None


def _written_or_sent_problem(step: Step, value: Any) -> str | None:
    """Return the error text for an invalid `value`: a replica that `step` writes, or a message that it sends."""
    written = value is step.me or any(value is replica for replica in step.writes)
    if not isinstance(value, Record):
        fix = "; write send(*messages)" if isinstance(value, list | tuple | frozenset) and not written else ""
        return f"{'writes a replica' if written else 'sends a message'}: expected a record, found {value!r}{fix}"
    path = "me" if value is step.me else f"the replica {value!r}" if written else type(value).__name__
    return f"{'writes' if written else 'sends'} {type_mismatch(value, type(value), path)}"


def _spends_puts_or_sends_problem(protocol: Protocol, step: Step) -> str | None:
    """Return the error text for an invalid bound, shared field or message of a step, or None."""
    for name in (*step.spends, *step.needs):
        if name not in protocol.bounds:
            return f"spends {name!r}, which is not a bound; bounds are {', '.join(protocol.bounds) or 'none'}"
    if step.puts and protocol.shared_record is not None:
        checkers = field_checkers(protocol.shared_record)
        for field, value in step.puts:
            if field not in checkers:
                return f"writes an {unknown_name_message('shared field', field, checkers)}"
            if not checkers[field](value):
                return f"writes {type_mismatch(value, field_types(protocol.shared_record)[field], f'shared.{field}')}"
    return next(filter(None, [_send_problem(protocol, *sent) for sent in step.sends]), None)


def _send_problem(protocol: Protocol, operation: str, message: Any) -> str | None:
    if isinstance(protocol.network, NoNetwork):
        return f"sends {message!r}, but there are no messages: network = None"
    if not hasattr(message, "dest"):
        return f"sends {message!r}, which has no field dest"
    outside = operation == "forget" or is_enum(type(message.dest))  # a name for an unmodelled destination
    kinds = () if outside else protocol.id_types
    if kinds and all(type_mismatch(message.dest, kind, "dest") for kind in kinds):
        wanted = " or ".join(map(describe_type, kinds))
        return f"sends {message!r} to {message.dest!r}; expected the id of a replica, {wanted}"
    return None


class DisabledStepReason(NamedTuple):
    """The reason why a step is disabled."""

    kind: str  # "bound", "network" or "message"
    reason: str  # a sentence for the user


class Transition(NamedTuple):
    """A step from a state to the next one."""

    action: str  # the action's name
    actor: Any  # the id of the acting replica; the destination for the network's own steps; None for the environment
    message: Record | None  # the delivered message, or None
    step: Step
    target: State  # the next state


class ActionInstance(NamedTuple):
    """An action, its possible actor, and the delivered message."""

    action: Action
    actor: Any
    message: Record | None


class CandidateStep(NamedTuple):
    """A candidate step of a state."""

    action: str  # as in `Transition`
    actor: Any
    message: Record | None
    step: Step
    inbox: Value | None = None  # the actor's next inbox for the network's own steps; else None


class ActionWithSteps(NamedTuple):
    """An action of a replica on a message, and its steps; `steps` is None if they depend on other replicas."""

    action: Action
    message: Record | None
    steps: tuple[Step, ...] | None


class Semantics:
    """The transitions and properties of one protocol.

    Actions are pure, so their outcomes are memoized: an action is called once per distinct (replica, message, further
    inputs). Equal parts of states are interned, so that comparing states is cheap.
    """

    def __init__(self, protocol: Protocol) -> None:
        self.protocol = protocol
        self.network = protocol.network
        self.handler_calls: Counter[str] = Counter()
        self.most_spent: dict[str, int] = {}
        self._environment = [a for a in protocol.actions.values() if a.kind == "environment"]
        self._interned: dict[Value, Value] = {}
        self._fields: defaultdict[str, InternedFieldValues] = defaultdict(InternedFieldValues)  # of shared fields
        self._shared = SelfDisablingMemo()  # interned shared records
        self._memo = SelfDisablingMemo()
        self._deliverable: dict[Value, tuple[Any, ...]] = {}
        self._calls: defaultdict[str, SelfDisablingMemo] = defaultdict(SelfDisablingMemo)
        self._inboxes: dict[tuple[str, Value, Value], Value] = {}
        self._projected = ProjectedValues()
        self._verdicts: defaultdict[tuple[Any, ...], SelfDisablingMemo] = defaultdict(SelfDisablingMemo)
        self._refinements: dict[str, RefinementChecker] = {}

    def intern(self, value: Value) -> Value:
        """Return the interned object of a value."""
        found = self._interned.setdefault(value, value)
        return found if found is value or same_types(found, value) else value  # 1 and True are equal keys

    def initial(self) -> list[State]:
        """Return the initial states, checked."""
        return self.protocol.checked_initial()

    # Candidate actions

    def candidates(self, state: State) -> Iterator[ActionInstance]:
        """Yield every (action, actor, delivered message) of a state, in a fixed order."""
        for key in ordered(state.replicas):
            yield from self.candidates_of(key, state.replicas[key], state.inboxes.get(key, self.network.empty))
        for action in self._environment:
            yield ActionInstance(action, None, None)

    def candidates_of(self, key: Value, me: Record, inbox: Value) -> Iterator[ActionInstance]:
        """Yield every (action, actor, delivered message) of one replica, in a fixed order."""
        for action in self.protocol.actions.values():
            for message in self._delivered(action, me, inbox):
                yield ActionInstance(action, key, message)

    def _delivered(self, action: Action, me: Record, inbox: Value) -> list[Any]:
        """Return the messages on which a replica may take an action; [None] if the action needs no message."""
        if action.kind == "environment" or not isinstance(me, action.actors):
            return []
        if action.kind == "internal":
            return [None]
        return [m for m in self.deliverable(inbox) if isinstance(m, action.messages) and self.protocol.receives(me, m)]

    def _offered(self, me: Record, inbox: Value, shared: Value) -> tuple[ActionWithSteps, ...]:
        """Return the candidate actions of a replica's local state, inbox and shared state; memoized."""
        key, memo = (me, inbox, shared), self._memo
        found: tuple[ActionWithSteps, ...] | None = memo.get(key)
        if found is None:
            found = tuple(self._local_actions(me, inbox, shared))
            memo.keep(key, found)
        else:
            memo.hits += 1
        return found

    def _local_actions(self, me: Record, inbox: Value, shared: Value) -> Iterator[ActionWithSteps]:
        for action in self.protocol.actions.values():
            for message in self._delivered(action, me, inbox):
                steps = None if action.reads else self.steps(action, me, message, {"shared": shared})
                if steps != ():
                    yield ActionWithSteps(action, message, steps)

    def context(self, state: State, action: Action, known: dict[str, Value]) -> dict[str, Value]:
        """Return the values of `shared` and of the projections that an action reads, by name."""
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
            found = self.view(read, state.inboxes.get(key, empty) if read.of_inbox else replica)
            if found is not NOT_PROJECTED:
                result[key] = found
        return Map(result)

    def steps(
        self, action: Action, me: Record | None, message: Record | None, given: dict[str, Value]
    ) -> tuple[Step, ...]:
        """Return the steps of an action, enabled or not, within the total bounds; memoized."""
        memo = self._calls[action.name]
        if memo.is_useless:
            return self._called(action, me, message, given)
        key = (me, message, *self._projected.keyed(action.asks, given))
        found: tuple[Step, ...] | None = memo.get(key)
        if found is None:
            found = self._called(action, me, message, given)
            memo.keep(key, found)
        else:
            memo.hits += 1
        return found

    def _called(
        self, action: Action, me: Record | None, message: Record | None, given: dict[str, Value]
    ) -> tuple[Step, ...]:
        self.handler_calls[action.name] += 1
        taken = self.call(action, me, message, given)
        if not taken:
            return ()
        record_largest_bound_use(taken, self.most_spent)
        return tuple([self._shared_parts(one) for one in taken if step_fits_unused_bounds(one, self.protocol.bounds)])

    def call(
        self, action: Action, me: Record | None, message: Record | None, given: dict[str, Value]
    ) -> tuple[Step, ...]:
        """Call an action."""
        return call_action(self.protocol, action, me, message, given)

    def _shared_parts(self, step: Step) -> Step:
        """Replace the values of a step by interned ones, in place: they are equal."""
        known = step.__dict__
        if step.me != ():
            known["me"] = self.intern(step.me)
        if step.sends:
            known["sends"] = tuple([(operation, self.intern(message)) for operation, message in step.sends])
        if step.puts:
            known["puts"] = tuple([(name, self._fields[name].intern(value)) for name, value in step.puts])
        if step.writes:
            known["writes"] = tuple(map(self.intern, step.writes))
        return step

    # Next states

    def transitions(self, state: State) -> Iterator[Transition]:
        """Yield every transition of a state: each (action, actor, message, step) once, self-loops included."""
        for choice in self.choices(state):
            found = self.taken(state, choice)
            if found is not None:
                yield found

    def choices(self, state: State) -> Iterator[CandidateStep]:
        """Yield every candidate step of a state, before bounds and the network are checked."""
        known: dict[str, Value] = {}
        empty, inboxes, shared = self.network.empty, state.inboxes, state.shared
        for key, me in state.replicas.items():
            for action, message, steps in self._offered(me, inboxes.get(key, empty), shared):
                if steps is None:
                    steps = self.steps(action, me, message, self.context(state, action, known))
                for step in steps:
                    yield CandidateStep(action.name, key, message, step)
        for action in self._environment:
            for step in self.steps(action, None, None, self.context(state, action, known)):
                yield CandidateStep(action.name, None, None, step)
        if self.network.own_actions():
            for key in ordered(inboxes):
                yield from self.network_choices(key, inboxes[key])

    def network_choices(self, key: Value, inbox: Value) -> Iterator[CandidateStep]:
        """Yield the network's own steps on the inbox of a replica."""
        for name, message, after, spends in self.network.own_steps(inbox):
            yield CandidateStep(name, key, message, Step(spends=spends), self.intern(after))

    def deliverable(self, inbox: Value) -> tuple[Any, ...]:
        """Return the deliverable messages of an inbox; memoized."""
        messages = self._deliverable.get(inbox)
        if messages is None:
            messages = self._deliverable[inbox] = tuple(map(self.intern, self.network.deliverable(inbox)))
        return messages

    def taken(self, state: State, choice: CandidateStep) -> Transition | None:
        """Return the transition of a candidate step, or None if it is disabled."""
        action, actor, message, step, inbox = choice
        if inbox is None:
            target = self.apply(state, actor, message, step)
            return Transition(action, actor, message, step, target) if type(target) is State else None
        spent = self._spend(state.spent, step.spends)
        if isinstance(spent, DisabledStepReason):
            return None
        target = state.but(inboxes=self._with_inbox(state.inboxes, actor, inbox), spent=spent)
        return Transition(action, actor, message, step, target)

    def is_blocked(self, state: State, choice: CandidateStep) -> bool:
        """Return whether only a bound blocks a step that would change the state."""
        if choice.inbox is None:
            refused = self.apply(state, choice.actor, choice.message, choice.step)
            if not isinstance(refused, DisabledStepReason) or refused.kind != "bound":
                return False
        target = self.taken(state, choice._replace(step=choice.step.but(spends=(), needs=())))
        return target is not None and target.target != state

    def apply(self, state: State, actor: Value, message: Record | None, step: Step) -> State | DisabledStepReason:
        """Return the next state of a step, or the reason why the step is disabled.

        A step is enabled only if all its parts are: no bound is exhausted, and the network refuses no operation.
        """
        spent = state.spent
        if step.needs or step.spends:
            for name in step.needs:
                if spent[name] >= self.protocol.bounds[name]:
                    return self._exhausted(name)
            left = self._spend(spent, step.spends)
            if isinstance(left, DisabledStepReason):
                return left
            spent = left
        inboxes = state.inboxes
        if step.consumes:
            rest = self._operate("discard", inboxes[actor], message)
            if rest is None:
                return DisabledStepReason("message", f"{message!r} is not under way")
            inboxes = self._with_inbox(inboxes, actor, rest)
        for operation, sent in step.sends:
            destination = sent.dest
            inbox = self._operate(operation, inboxes.get(destination, self.network.empty), sent)
            if inbox is None:
                what = operation.replace("_", " ")
                return DisabledStepReason("network", f"the network refuses to {what} again {sent!r}")
            inboxes = self._with_inbox(inboxes, destination, inbox)
        replicas = state.replicas
        if step.me != () and step.me is not replicas[actor]:
            replicas = replicas.put(actor, step.me)
        for replica in step.writes:
            replicas = replicas.put(replica.id, replica)
        shared = self._shared.intern(with_fields(state.shared, step.puts)) if step.puts else state.shared
        return make_state(replicas, inboxes, shared, spent)

    def _operate(self, operation: str, inbox: Value, message: Value) -> Value:
        key = (operation, inbox, message)
        try:
            return self._inboxes[key]
        except KeyError:
            result = self.network.apply(operation, inbox, message)
            self._inboxes[key] = None if result is None else self.intern(result)
            return self._inboxes[key]

    def _with_inbox(self, inboxes: Map[Any, Any], key: Value, inbox: Value) -> Map[Any, Any]:
        """Return the inboxes with `inbox` for the replica `key`, or without one if `inbox` is empty."""
        return inboxes.without(key) if inbox == self.network.empty else inboxes.put(key, inbox)

    def _spend(self, spent: Map[str, int], names: tuple[str, ...]) -> Map[str, int] | DisabledStepReason:
        for name in names:
            if spent[name] >= self.protocol.bounds[name]:
                return self._exhausted(name)
            spent = spent.put(name, spent[name] + 1)
        return self.intern(spent)  # type: ignore[no-any-return]

    def _exhausted(self, name: str) -> DisabledStepReason:
        limit = next(c.name for c in self.protocol.constants.values() if c.attribute == name)
        return DisabledStepReason("bound", f"nothing is left of {name}: {limit} = {self.protocol.bounds[name]}")

    # Properties

    def holds(self, prop: Property, state: State) -> bool:
        """Return whether a state satisfies a state property; memoized per distinct input."""
        if "message" in prop.asks or "state" in prop.asks or any(read.of_inbox for read in prop.reads):
            return self._holds(prop, state)
        shared = state.shared if "shared" in prop.asks else None
        key = (state.replicas, shared, state.spent if SPENT_PARAMETER in prop.asks else None)
        memo = self._verdicts[(*prop.key, "whole")]
        found: bool | None = memo.get(key)
        if found is None:
            found = self._holds(prop, state)
            memo.keep(key, found)
        else:
            memo.hits += 1
        return found

    def _holds(self, prop: Property, state: State) -> bool:
        return self.falsifying(prop, state) is None

    def falsifying(self, prop: Property, state: State) -> dict[str, Value] | None:
        """Return the arguments that violate a state property, by parameter, or None."""
        known: dict[str, Value] = {"shared": state.shared, "state": state, SPENT_PARAMETER: state.spent}
        for read in prop.reads:
            known[read.name] = self.project(read, state)
        messages: list[Any] = []
        if "message" in prop.asks:
            messages = [message for inbox in state.inboxes.values() for message in self.network.known(inbox)]
        for about in property_bindings(prop, list(state.replicas.values()), messages):
            known.update(about)
            if not self.verdict(prop, known):
                return known
        return None

    def view(self, read: Projection, source: Value) -> Value:
        """Return a projection of one replica or inbox; memoized."""
        found = self._projected.get((read.name, source))
        if found is None:
            found = self._projected[read.name, source] = self.intern(self.protocol.projected(read, source))
            if self._interned[found] is not found:
                self._projected.alike.add(read.name)
        return found

    def holds_over(self, prop: Property, before: State, after: State) -> bool:
        """Return whether every replica that a step changes satisfies a step property."""
        kinds, kinds_after = prop.kinds("before"), prop.kinds("after")
        for key, replica in after.replicas.items():
            old = before.replicas.get(key)
            if old is None or old == replica or not (isinstance(old, kinds) and isinstance(replica, kinds_after)):
                continue
            if not self.verdict(prop, {"before": old, "after": replica, "shared": before.shared}):
                return False
        return True

    def step_satisfies(self, prop: Property, before: State, transition: Transition) -> bool:
        """Return whether a transition satisfies a step property."""
        if prop.kind == REFINES:
            refinement = self.refinement(prop)
            return refinement.allows(refinement.number(before), refinement.number(transition.target))
        if not prop.of_actor:
            return self.holds_over(prop, before, transition.target)
        if transition.actor is None or transition.action not in self.protocol.actions:
            return True
        known = step_property_arguments(prop, before.replicas[transition.actor], transition.message, transition.step)
        return known is None or self.verdict(prop, {**known, "shared": before.shared})

    def begins(self, prop: Property, state: State) -> bool:
        """Return whether a behaviour that satisfies a step property may begin in a state."""
        if prop.kind != REFINES:
            return True
        refinement = self.refinement(prop)
        return refinement.begins(refinement.number(state))

    def refinement(self, prop: Property) -> RefinementChecker:
        """Return the refinement that a property declares."""
        if prop.name not in self._refinements:
            other = Semantics(_abstract_protocol(self.protocol, prop))
            self._refinements[prop.name] = RefinementChecker(self.protocol, prop, other)
        return self._refinements[prop.name]

    def verdict(self, prop: Property, known: dict[str, Value]) -> bool:
        """Return whether a property is true of its arguments; memoized, if it does not read whole states."""
        if "state" in prop.asks:
            return evaluate_property(self.protocol, prop, known)
        key, memo = tuple(self._projected.keyed(prop.asks, known)), self._verdicts[prop.key]
        found: bool | None = memo.get(key)
        if found is not None:
            memo.hits += 1
            return found
        memo.keep(key, found := evaluate_property(self.protocol, prop, known))
        return found


def _abstract_protocol(protocol: Protocol, prop: Property) -> Protocol:
    """Return the abstract protocol of a refinement; constants that both protocols have are equal."""
    other: type[Protocol] = prop.refined
    names = [constant.attribute for constant in other.constants.values()]
    given = {name: getattr(protocol, name) for name in names if hasattr(protocol, name)}
    missing = [c.attribute for c in other.constants.values() if c.attribute not in given and c.default is NO_DEFAULT]
    if missing:
        code = prop.function.__code__
        expected = f"{other.name()} needs the constant {missing[0]}, which {protocol.name()} does not have"
        raise ProtocolError(f"{code.co_filename}:{code.co_firstlineno}: refinement {prop.name}: {expected}")
    return other(**given)


class Take(NamedTuple):
    """One step of a scenario: an action, and details that select one of its steps.

    Attributes
    ----------
    action
        The action's name.
    actor
        The id of the acting replica; None for any.
    message
        Required fields of the delivered message.
    result
        A predicate of the acting replica's next state (without a replica: of the next state), which selects among the
        steps of the action.
    """

    action: str
    actor: Value = None
    message: dict[str, Value] = {}
    result: Callable[[Any], bool] | None = None


def take(action: str, actor: Value = None, result: Callable[[Any], bool] | None = None, **message: Value) -> Take:
    """Return one step of a scenario: `take("HandleRequestVoteRequest", n2, source=n1)`.

    Parameters
    ----------
    action
        The action's name.
    actor
        The id of the acting replica; None for any.
    result
        A predicate of the acting replica's next state (without a replica: of the next state).
    **message
        Required fields of the delivered message.
    """
    return Take(action, actor, message, result)


def scenario(function: Callable[..., Iterator[Take]]) -> Callable[..., Iterator[Take]]:
    """Mark a method as a scenario: it yields the path from the first initial state to a named one.

    A `.cfg` names that state under INIT, in camel case.
    """
    function.scenario = camel_case(function.__name__)  # type: ignore[attr-defined]
    return function


def init(function: Callable[..., Iterator[State]]) -> Callable[..., Iterator[State]]:
    """Mark a method that yields initial states, as `initial` does.

    A `.cfg` names the method under INIT, in camel case: `INIT InitNoBcast` for `init_no_bcast`.
    """
    function.initial = camel_case(function.__name__)  # type: ignore[attr-defined]
    return function


def methods_by_init_name(protocol: type | object) -> dict[str, str]:
    """Return the names for INIT, each with its method."""
    owner = protocol if isinstance(protocol, type) else type(protocol)
    names = {"Init": "initial"}
    for method in dir(owner):
        function = getattr(owner, method)
        name = getattr(function, "scenario", None) or getattr(function, "initial", None)
        if isinstance(name, str):
            names[name] = method
    return names


def initial_states(semantics: Semantics, init: str) -> list[State]:
    """Return the initial states of a search."""
    kept = {} if semantics.protocol.kept_initial is None else semantics.protocol.kept_initial
    if init not in kept:
        kept[init] = _uncached_initial_states(semantics, init)
    return kept[init]


def _uncached_initial_states(semantics: Semantics, init: str) -> list[State]:
    method = methods_by_init_name(semantics.protocol)[init]
    if init == "Init" or hasattr(getattr(semantics.protocol, method), "initial"):
        return semantics.protocol.checked_initial(method)
    state = semantics.initial()[0]
    for number, chosen in enumerate(takes_to_named_start(semantics.protocol, init), start=1):
        state = transition_matching_take(semantics, state, chosen, f"step {number} of {init}").target
    return [state]


def takes_to_named_start(protocol: Protocol, init: str) -> Iterator[Take]:
    """Yield the steps from the first initial state to a named initial state; no steps for "Init"."""
    method = getattr(protocol, methods_by_init_name(protocol)[init])
    if not hasattr(method, "scenario"):
        return
    made = method()
    if not isinstance(made, Iterable):
        what = f"{init} returned {describe_value(made)}; {FORGOT_YIELD_MESSAGE}"
        raise ProtocolError(f"{_scenario_source_location(method)}: {what}")
    for number, chosen in enumerate(made, start=1):
        problem = _take_problem(protocol, chosen)
        if problem is not None:
            where = _scenario_source_location(method, generator_line(made))
            raise ProtocolError(f"{where}: step {number} of {init}: {problem}")
        yield chosen


def _take_problem(protocol: Protocol, chosen: object) -> str | None:
    """Return the problem of an object that a scenario yields, or None."""
    if not isinstance(chosen, Take):
        return f'expected take("Action", ...), found {describe_value(chosen)}'
    actions = [*protocol.actions, *protocol.network.own_actions()]
    if chosen.action not in actions:
        return unknown_name_message("action", str(chosen.action), actions, type(protocol).__name__)
    if chosen.result is not None and not callable(chosen.result):
        expected = "a function of the actor's next state, such as lambda me: me.ready"
        return f"result=: expected {expected}, found {describe_value(chosen.result)}"
    return None


def _scenario_source_location(method: Callable[..., Any], line: int | None = None) -> str:
    """Return the file and a line of a scenario, by default its first."""
    code = unwrap(method).__code__
    return f"{code.co_filename}:{line or code.co_firstlineno}"


def transition_matching_take(
    semantics: Semantics, state: State, chosen: Take, where: str = "the step", *, any_outcome: bool = False
) -> Transition:
    """Return the transition that a scenario step selects in a state."""
    fitting = [t for t in semantics.transitions(state) if _matches_take(chosen, t)]
    if not fitting:
        enabled = list(semantics.transitions(state))
        alike = [_transition_text(t) for t in enabled if t.action == chosen.action]
        names = ", ".join(dict.fromkeys(alike or sorted(t.action for t in enabled)))
        raise ProtocolError(f"{where}: {_take_text(chosen)} is not enabled; enabled are {names}")
    if len({t[:3] if any_outcome else t.target for t in fitting}) > 1:
        ways = "; ".join(dict.fromkeys(f"{_transition_text(t)}{sent_messages_text(t)}" for t in fitting))
        raise ProtocolError(
            f"{where}: {_take_text(chosen)} has {len(fitting)} matching steps; add fields or result=: {ways}"
        )
    return fitting[0]


def _matches_take(chosen: Take, transition: Transition) -> bool:
    if transition.action != chosen.action or chosen.actor not in (None, transition.actor):
        return False
    if any(getattr(transition.message, name, None) != value for name, value in chosen.message.items()):
        return False
    if chosen.result is None:
        return True
    me: Record | None = transition.target.replicas.get(transition.actor) if transition.actor is not None else None
    return chosen.result(me if me is not None else transition.target)


def _transition_text(transition: Transition) -> str:
    """Return the action of a transition with its actor and message."""
    actor = "" if transition.actor is None else f" by {text_of(transition.actor)}"
    return f"{transition.action}{actor}{'' if transition.message is None else f' on {text_of(transition.message)}'}"


def sent_messages_text(transition: Transition) -> str:
    """Return the types of the messages that a step sends, each with its receiver."""
    sent = [message for _, message in transition.step.sends]
    to = [f"{type(one).__name__} to {text_of(getattr(one, 'dest', None))}" for one in sent]
    return f", sends {', '.join(to)}" if to else ""


def _take_text(chosen: Take) -> str:
    parts = [chosen.action]
    if chosen.actor is not None:
        parts.append(f"by {chosen.actor!r}")
    parts += [f"{name} = {value!r}" for name, value in chosen.message.items()]
    return " ".join(parts)

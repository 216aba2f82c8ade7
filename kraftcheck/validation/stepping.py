"""Validation one step at a time, while an implementation runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kraftcheck.spec.errors import InputError
from kraftcheck.spec.type_checks import check_arguments
from kraftcheck.validation.event_stream import events_from_json_object
from kraftcheck.validation.events import (
    Event,
    EventKind,
    MessageBody,
    SendReceivePairs,
    assign_sequence_numbers,
    is_transport_error,
)

if TYPE_CHECKING:  # `from kraftcheck import *` imports this module, and must not import the model
    from kraftcheck.validation.replay import ClusterReplay
    from kraftcheck.validation.replay_state import EventRefusal


class Refused(NamedTuple):
    """The answer of `validate_step` to a step that the model does not allow.

    Attributes
    ----------
    guard
        The problem of the event, with the fields that differ: Kafka's value, then the model's.
    event
        The event of the step, or of an earlier one that only this step shows to be wrong.
    action
        The action of `quorum` that comes nearest; empty if none does.
    """

    guard: str
    event: Event
    action: str


class _TakenStep(NamedTuple):
    node: int
    end: int  # the number of the node's events with this step
    is_last: bool


class ValidationState:
    """The model's state after the steps of a cluster that `validate_step` has allowed.

    Parameters
    ----------
    without
        Names of known differences of Kafka in which the model does not follow it.

    Raises
    ------
    InputError
        A difference is unknown.
    """

    @check_arguments
    def __init__(self, *, without: Collection[str] = ()) -> None:
        from kraftcheck.kraft_model.quorum.variants.kafka import (
            known_difference_classes_by_name,
            require_known_differences,
        )

        require_known_differences(without, known_difference_classes_by_name(cluster=True), cluster=True)
        self._without = tuple(without)
        self._logs: dict[int, list[Event]] = {}
        self._taken: list[_TakenStep] = []
        self._facts: set[Any] = set()
        self._replay: _MessagePairingReplay | None = None

    @property
    def broken(self) -> tuple[str, ...]:
        """The properties of `quorum` that the steps have violated."""
        return () if self._replay is None else tuple(self._replay.replay.check.first)

    @property
    def replicas(self) -> Mapping[int, Any]:
        """The replicas of the model by node, for each process that has started."""
        if self._replay is None:
            return {}
        nodes = self._replay.replay.nodes.items()
        return {number: node.state.me for number, node in nodes if node.state is not None}

    def _step(self, events: Sequence[Event], *, is_last: bool) -> EventRefusal | None:
        """Take a step; a refused one leaves no trace."""
        (number,) = {event.node for event in events}
        log = self._logs.setdefault(number, [])
        log += events
        assign_sequence_numbers(log)
        step = _TakenStep(number, len(log), is_last)
        facts = {fact for event in events for fact in _cluster_facts_in_event(event)}
        refusal: EventRefusal | None = None
        if self._replay is not None and facts <= self._facts:
            refusal = self._replay.refusal(step)
            if refusal is None:
                self._taken.append(step)
                return None
        # The step shows something new of the cluster, or of what comes before it: begin again with all events.
        replay, refusal = self._again([*self._taken, step])
        if refusal is None:
            self._replay, self._facts = replay, self._facts | facts
            self._taken.append(step)
            return None
        del log[len(log) - len(events) :]
        if not log:
            del self._logs[number]
        self._replay = self._again(self._taken)[0] if self._taken else None
        return refusal

    def _again(self, steps: Iterable[_TakenStep]) -> tuple[_MessagePairingReplay, EventRefusal | None]:
        replay = _MessagePairingReplay(self._logs, self._without)
        return replay, next(filter(None, map(replay.refusal, steps)), None)


class _MessagePairingReplay:
    """A replay of steps, which pairs messages in their order: each is sent before it is received."""

    def __init__(self, logs: Mapping[int, list[Event]], without: Collection[str]) -> None:
        from kraftcheck.validation.cluster import prepare_log_replay

        self.pairs = SendReceivePairs({}, {}, [], [])
        self.replay: ClusterReplay = prepare_log_replay(dict(logs), without=without, pairs=self.pairs)
        self._sends: dict[tuple[int, MessageBody], list[Event]] = defaultdict(list)
        self._killed: set[int] = set()  # nodes whose events may be missing
        self._asked: dict[tuple[int, int, int], Event] = {}
        self._answers: dict[tuple[int, int | None, MessageBody], list[Event]] = defaultdict(list)

    def refusal(self, step: _TakenStep) -> EventRefusal | None:
        """Take a step; return why the model does not allow it, or None."""
        from kraftcheck.validation.replay_state import EventRefusal, next_unit_events

        node = self.replay.nodes[step.node]
        try:
            while node.position < step.end:
                unit = next_unit_events(node)[: step.end - node.position]
                is_over = node.position + len(unit) >= step.end
                self._pair(unit[0])
                self.replay.take(node, unit, is_last=step.is_last and is_over)
                self._note(unit)
            if step.is_last:
                self._killed.add(step.node)
        except EventRefusal as refusal:
            return refusal
        return None

    def _pair(self, event: Event) -> None:
        """Find the sending of a message; raise EventRefusal if its sender, which has steps, has not sent it."""
        if event.kind is EventKind.REQUEST:
            self._pair_request(event)
        elif (
            event.kind in (EventKind.RESPONSE, EventKind.IGNORED)
            and event.body.api != "ApiVersions"
            and not is_transport_error(event)
        ):
            self._pair_response(event)

    def _pair_request(self, event: Event) -> None:
        if event.peer is None or event.peer not in self.replay.nodes:
            return
        sent, homes = self._sends[event.peer, event.body], self.replay.homes
        found = next((one for one in sent if homes.get(one.address, event.node) == event.node), None)
        if found is not None:
            sent.remove(found)
            self.pairs.sent[id(event)] = found
        else:
            self._require_killed(event, event.peer)

    def _pair_response(self, event: Event) -> None:
        request = self._asked.pop((event.node, event.incarnation, event.correlation), None)
        receiver = None if request is None else self.replay.homes.get(request.address)
        if receiver is None or receiver not in self.replay.nodes:
            return
        answers = self._answers[receiver, event.node, event.body]
        if answers:
            self.pairs.answered[id(event)] = answers.pop(0)
        else:
            self._require_killed(event, receiver)

    def _require_killed(self, event: Event, sender: int) -> None:
        from kraftcheck.validation.replay_state import EventRefusal

        if sender not in self._killed:
            raise EventRefusal(event, f"is received, and node {sender} has not sent it")

    def _note(self, unit: Sequence[Event]) -> None:
        for event in unit:
            if event.kind is EventKind.SEND:
                self._sends[event.node, event.body].append(event)
                self._asked[event.node, event.incarnation, event.correlation] = event
            elif event.kind is EventKind.ANSWER:
                self._answers[event.node, event.peer, event.body].append(event)


def _cluster_facts_in_event(event: Event) -> Iterator[Any]:
    """Yield what an event shows of the cluster as a whole: nodes, addresses, voters, and what starts with a process."""
    from kraftcheck.validation.replay_state import BOOT_KINDS

    yield event.node
    if event.peer is not None:
        yield event.peer
    if event.kind in (*BOOT_KINDS, EventKind.STARTING_VOTERS):
        yield event.node, event.incarnation, event.kind, event.body
    elif event.kind is EventKind.SEND and event.body.get("clusterId") is not None:
        yield event.node, event.incarnation, event.body.get("clusterId")
    elif event.kind in (EventKind.VOTERS, EventKind.VERSION):
        yield event.kind, event.body
    elif event.kind in (EventKind.ANSWER, EventKind.RESPONSE):
        yield from zip(event.body.all("nodeId"), event.body.all("host"), event.body.all("port"), strict=False)


@check_arguments
def validate_step(
    state: ValidationState, step: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, is_last: bool = False
) -> Refused | None:
    """Return None if the model `quorum` allows a step of a node, else the guard that says no.

    A step is a unit of docs/validate.md: a received message, the start of a process, or a timer. It has every event up
    to the next unit. The model is that of KIP-595, KIP-853 and KIP-996, with the known
    differences of Kafka. A message is sent by an earlier step than the one that receives it.

    Parameters
    ----------
    state
        The state, which an allowed step changes; a refused step leaves it as it was.
    step
        The events, in the order in which the node acts: objects of validate-events.schema.json, with their node.
    is_last
        Whether the process was killed in this step, whose last events may be missing.

    Returns
    -------
    Refused or None
        The guard, or None if the step is allowed. `state.broken` then has the properties that it violates.

    Raises
    ------
    InputError
        An event is not of the schema, or the events are not those of one node.
    """
    given = [step] if isinstance(step, Mapping) else list(step)
    events = [
        event for place, one in enumerate(given, start=1) for event in events_from_json_object(dict(one), "step", place)
    ]
    nodes = {event.node for event in events}
    if len(nodes) != 1 or -1 in nodes:
        named = ", ".join(map(str, sorted(nodes))) or "none"
        raise InputError(f"step: expected events of one node, found those of {named}; give each its node")
    refusal = state._step(events, is_last=is_last)
    if refusal is None:
        return None
    return Refused(_refusal_text(refusal), refusal.event, refusal.action)


def _refusal_text(refusal: EventRefusal) -> str:
    event = refusal.event
    subject = f"{event.kind} {event.body.api}" if isinstance(event.body, MessageBody) else event.kind
    shown = "; ".join(f"{one.field}: {one.kafka}, model {one.model}" for one in refusal.differences)
    return f"{subject} {refusal.what}{': ' if shown else ''}{shown}"

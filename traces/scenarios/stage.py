"""The model and the present state of a scenario: which steps its commands ask for.

Who leads a scenario asks for the steps of a command (`Stage.steps`) and sets the state after each: to the step's own
target, or to what really became of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kraftcheck.spec.diagnosis.why import diagnose
from kraftcheck.spec.display import text_of
from kraftcheck.spec.errors import unknown
from kraftcheck.spec.language.semantics import Semantics, Transition
from kraftcheck.spec.language.starts import initial_states
from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import Record, Value, field_names
from kraftcheck.traces.scenarios.text import Ask, ScenarioError, read_ask

MANY = 200
"""The most messages that one `deliver` delivers: more means that they cause each other for ever."""

TAKES = ("briefly", "deliver", "settle")
LOOKS = ("cannot", "hide", "show", "property")
"""Commands that take steps, and commands that only look; besides, an action is a command."""

Tell = Callable[[Transition], Iterable[str]]


class NothingThereError(ScenarioError):
    """A path that leads into a value that is no record at the moment, such as `Nil`."""


class Stage:
    """The model and the present state of a scenario."""

    state: State  # the present state; who leads the scenario sets it

    def __init__(self, semantics: Semantics, tell: Tell | None = None, *, any_outcome: bool = False) -> None:
        self.semantics = semantics
        self._any_outcome = any_outcome
        self._tell = tell or (lambda transition: [self.heading(transition)])

    def begin(self, init: str, then: dict[str, str]) -> None:
        """Begin in the first initial state in which paths have these values."""
        starts = initial_states(self.semantics, init)
        found = next((s for s in starts if all(self._is(s, None, *item) for item in then.items())), None)
        if found is None:
            raise ScenarioError("no initial state is such")
        self.state = found

    def steps(self, verb: str, rest: list[str]) -> Iterator[Transition]:
        """Yield the steps that a command asks for, one after the other; none where it only looks."""
        if verb == "briefly" and rest:
            verb, *rest = rest
        if verb == "deliver":
            yield from self.deliver(rest)
        elif verb == "settle":
            yield from self.settle(rest)
        elif verb[:1].isupper():
            yield self.chosen(read_ask([verb, *rest]))
        elif verb not in LOOKS:
            raise ScenarioError(f"{unknown('command', verb, [*TAKES, *LOOKS], 'a scenario')}, or an action")

    # Choosing a step

    def chosen(self, ask: Ask) -> Transition:
        """Return the one step that is as asked."""
        fitting = self.fitting(ask)
        if not fitting:
            raise ScenarioError(f"no such step; {'; '.join(self.refusals(ask))}")
        if self._differ(fitting):
            ways = "\n  or ".join(" ".join(line.split()) for t in fitting for line in ["; ".join(self._tell(t))])
            raise ScenarioError(f"{len(fitting)} steps are such:\n  {ways}")
        return fitting[0]

    def fitting(self, ask: Ask) -> list[Transition]:
        """Return the steps that are as asked."""
        protocol = self.semantics.protocol
        known = [*protocol.actions, *protocol.network.own_actions()]
        if ask.action not in known:
            raise ScenarioError(unknown("action", ask.action, known, protocol.name()))
        return [
            t
            for t in self.semantics.transitions(self.state)
            if t.action == ask.action
            and ask.by in (None, text_of(t.actor))
            and _describes(ask, t.message)
            and _sends(ask, t)
            and all(self._is(t.target, t.actor, *item) for item in ask.then.items())
        ]

    def refusals(self, ask: Ask) -> list[str]:
        """Return why no step is as asked."""
        actor = None if ask.by is None else self.replica(ask.by)
        found = diagnose(self.semantics, self.state, ask.action, actor)
        told = dict.fromkeys(r.text for r in found if r.message is None or _describes(ask, r.message))
        others = [text for text in told if text != "enabled"]
        return others or [f"no step of {ask.action} is such"]

    def _differ(self, steps: list[Transition]) -> bool:
        """Whether it matters which of several steps is taken."""
        return len({step[:3] if self._any_outcome else step.target for step in steps}) > 1

    # Delivering

    def deliver(self, given: list[str]) -> Iterator[Transition]:
        """Yield the deliveries of `deliver [MESSAGE ...] [to ID] [from ID]`."""
        named: dict[str, str | None] = {"to": None, "from": None}
        kinds: list[str] = []
        remaining = iter(given)
        for word in remaining:
            if word in named:
                named[word] = next(remaining, None)
            else:
                kinds.append(word)
        for _ in range(MANY):
            fitting = [
                t
                for t in self._deliveries([])
                if (not kinds or type(t.message).__name__ in kinds)
                and named["to"] in (None, text_of(t.actor))
                and named["from"] in (None, text_of(getattr(t.message, "source", "")))
            ]
            if not fitting:
                return
            yield self._only([t for t in fitting if (t.actor, t.message) == (fitting[0].actor, fitting[0].message)])
        raise ScenarioError(f"{MANY} messages were delivered, and still there are more")

    def settle(self, given: list[str]) -> Iterator[Transition]:
        """Yield the deliveries of `settle [among ID ...] [until MESSAGE]`."""
        among, until = self._settling(given)
        seen = set[State]()
        for _ in range(MANY):
            if self.state in seen or self._is_under_way(until):
                break
            seen.add(self.state)
            for actor, message in dict.fromkeys((t.actor, t.message) for t in self._deliveries(among)):
                steps = [t for t in self._deliveries(among) if (t.actor, t.message) == (actor, message)]
                if steps and not self._is_under_way(until):
                    yield self._only(steps)
        else:
            raise ScenarioError(f"messages were delivered in {MANY} turns, and still something changes")
        if until and not self._is_under_way(until):
            raise ScenarioError(f"no {until} is ever under way")

    def _settling(self, given: list[str]) -> tuple[list[str], str]:
        among: list[str] = []
        until = ""
        words_left = list(given)
        if words_left[-2:-1] == ["until"]:
            until = words_left.pop()
            words_left.pop()
        if words_left[:1] == ["among"] and words_left[1:]:
            among = words_left[1:]
        elif words_left:
            raise ScenarioError("expected among ID ..., or until MESSAGE, or nothing")
        for name in among:
            if self.replica(name) is None:
                raise ScenarioError(f"there is no replica {name}")
        return among, until

    def _only(self, steps: list[Transition]) -> Transition:
        if self._differ(steps):
            raise ScenarioError(f"{self.heading(steps[0])} can end in {len(steps)} ways: take it by name")
        return steps[0]

    def _is_under_way(self, kind: str) -> bool:
        """Whether a message of this type is under way."""
        network = self.semantics.network
        return bool(kind) and any(
            type(message).__name__ == kind
            for inbox in self.state.inboxes.values()
            for message in network.known(inbox)
            if network.count(inbox, message)
        )

    def _deliveries(self, among: list[str]) -> list[Transition]:
        """The steps taken on messages between these replicas; between any where none are named."""
        return [
            t
            for t in self.semantics.transitions(self.state)
            if t.message is not None
            and t.action in self.semantics.protocol.actions
            and (not among or {text_of(t.actor), text_of(getattr(t.message, "source", t.actor))} <= set(among))
        ]

    # Looking

    def replica(self, text: str) -> Value:
        """Return the id of the replica that is written so; None where there is none."""
        return next((key for key in self.state.replicas if text_of(key) == text), None)

    def at(self, path: str) -> Value:
        """Return what a path leads to: a replica, its field, or a shared field."""
        return self._at(self.state, None, path)

    def heading(self, transition: Transition) -> str:
        """Return what a step is called: `HandleVoteRequest by n2 on VoteRequest from n1`."""
        text = transition.action
        if transition.action in self.semantics.protocol.network.own_actions():
            text += " by the network"
        elif transition.actor is not None:
            text += f" by {text_of(transition.actor)}"
        if transition.message is not None:
            text += f" on {type(transition.message).__name__}"
            source = getattr(transition.message, "source", None)
            text += f" from {text_of(source)}" if source is not None else ""
        return text

    def _is(self, state: State, actor: Value, path: str, text: str) -> bool:
        try:
            return text_of(self._at(state, actor, path)) == text
        except NothingThereError:
            return False

    def _at(self, state: State, actor: Value, path: str) -> Value:
        """Return what a path leads to; a bare field is one of the replica that acts."""
        first, *names = path.split(".")
        key = next((key for key in state.replicas if text_of(key) == first), None)
        if key is not None:
            value: Any = state.replicas[key]
        elif first == "shared":
            value = state.shared
        elif actor is not None and actor in state.replicas:
            value, names = state.replicas[actor], [first, *names]
        else:
            raise ScenarioError(f"{path}: there is no replica {first}")
        for name in names:
            value = _field(value, name)
        return value


def _describes(ask: Ask, message: Record | None) -> bool:
    """Whether a command's words about the message fit one."""
    if message is None:
        return ask.on is None and ask.source is None
    if ask.on not in (None, type(message).__name__):
        return False
    wanted = {**ask.fields, **({"source": ask.source} if ask.source is not None else {})}
    return all(text_of(_field(message, name)) == text for name, text in wanted.items())


def _sends(ask: Ask, transition: Transition) -> bool:
    """Whether a command's words about what is sent fit a step: all its fields, where no message is delivered."""
    fields = {} if transition.message is not None else dict(ask.fields)
    if ask.dest is not None:
        fields["dest"] = ask.dest
    sent = [message for _, message in transition.step.sends]
    return not fields or any(
        all(name in field_names(type(one)) and text_of(getattr(one, name)) == text for name, text in fields.items())
        for one in sent
    )


def _field(value: Value, path: str) -> Value:
    for name in path.split("."):
        if not isinstance(value, Record):
            raise NothingThereError(f"{text_of(value)} has no field {name}")
        if name not in field_names(type(value)):
            raise ScenarioError(f"{text_of(value)} has no field {name}")
        value = getattr(value, name)
    return value

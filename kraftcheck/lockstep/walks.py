"""Walks: candidate steps, random choice, and walk files.

A walk file is text. Blank lines, and lines that begin with `#`, are ignored:

    model quorum
    set Hosts = {n1, n2}
    go on
    ElectionTimeout by n1
    HandleVoteRequest by n2 on VoteRequest(epoch=0, pre_vote=TRUE, ...)
    RemoveVoter by n1, outcome 2

The line `without NAME` removes a known difference from the model, so that it shows. The line `ignore NAME` skips a
property. The line `go on` continues the walk from Kafka's state after a difference. If an action has several outcomes,
`outcome` numbers them in the order of the model.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from kraftcheck.files import atomic_replacement, read_text_file
from kraftcheck.kraft_model.quorum.records import Nil, Replica
from kraftcheck.spec import Protocol, Record, State
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.semantics import CandidateStep, Semantics, Transition
from kraftcheck.spec.values import Value, text_of


class ActionCandidate(NamedTuple):
    """An action with its actor and message, perhaps not enabled."""

    action: str  # as in `Transition`
    actor: Any
    message: Record | None
    inbox: Value | None = None  # the actor's inbox for the network's own step; else None


CandidateKind = tuple[object, ...]
"""Key of similar steps: the action, the actor's mode, and the kind of its message."""

CandidatesByKind = dict[CandidateKind, list[ActionCandidate]]
"""Candidate steps of one replica, by sort."""


class ActionCandidateCache:
    """A cache of the candidate steps that Kafka can be driven to take, by state of a replica."""

    def __init__(self, semantics: Semantics, driven: Callable[[str, bool], bool]) -> None:
        self.semantics = semantics
        self._cards: dict[tuple[Value, Value, Value], CandidatesByKind] = {}
        actions = semantics.protocol.actions.values()
        self._alone = [action.name for action in actions if action.kind == "environment" and driven(action.name, False)]
        self._internal = [action for action in actions if action.kind == "internal" and driven(action.name, False)]
        self._handlers = [action for action in actions if action.kind == "on" and driven(action.name, True)]
        self._network = [name for name in semantics.network.own_actions() if driven(name, True)]
        self._of_type: dict[tuple[type, type], list[str]] = {}

    def card(self, key: Value, state: State) -> CandidatesByKind:
        """Return the candidate steps of a replica, or of the environment if `key` is None."""
        if key is None:
            return {(name,): [ActionCandidate(name, None, None)] for name in self._alone}
        me = state.replicas[key]
        inbox = state.inboxes.get(key, self.semantics.network.empty)
        found = self._cards.get((me, inbox, state.shared))
        if found is None:
            found = self._cards[me, inbox, state.shared] = self._made(key, me, inbox)
        return found

    def _made(self, key: Value, me: Record, inbox: Value) -> CandidatesByKind:
        mode = me.mode if isinstance(me, Replica) else None
        card: CandidatesByKind = {}
        for action in self._internal:
            if isinstance(me, action.actors):
                card[action.name, mode] = [ActionCandidate(action.name, key, None)]
        for message in self.semantics.deliverable(inbox):
            kind = message_kind(message)
            if self.semantics.protocol.receives(me, message):
                for name in self._handlers_of(me, message):
                    card.setdefault((name, mode, *kind), []).append(ActionCandidate(name, key, message))
            for name in self._network:
                card.setdefault((name, None, *kind), []).append(ActionCandidate(name, key, message, inbox))
        return card

    def _handlers_of(self, me: Record, message: Record) -> list[str]:
        types = type(me), type(message)
        found = self._of_type.get(types)
        if found is None:
            fitting = (a for a in self._handlers if isinstance(me, a.actors) and isinstance(message, a.messages))
            found = self._of_type[types] = [action.name for action in fitting]
        return found


class ActionCandidates:
    """Candidate steps of a state."""

    def __init__(self, menu: ActionCandidateCache, state: State) -> None:
        self.state = state
        self._semantics = menu.semantics
        self._known: dict[str, Value] = {}
        self._cards: dict[Value, CandidatesByKind] = {key: menu.card(key, state) for key in (*state.replicas, None)}

    @property
    def all(self) -> list[ActionCandidate]:
        """All candidate steps."""
        return [offer for _, alike in self.by_kind() for offer in alike]

    def by_kind(self) -> list[tuple[CandidateKind, list[ActionCandidate]]]:
        """Return the candidate steps, grouped by replica and kind."""
        return [entry for card in self._cards.values() for entry in card.items()]

    def of(self, actor: Value) -> list[ActionCandidate]:
        """Return the candidate steps of one replica."""
        return [offer for alike in self._cards[actor].values() for offer in alike]

    def outcomes(self, offer: ActionCandidate) -> list[Transition]:
        """Return the enabled steps of a candidate, in the order of the model."""
        semantics, choices = self._semantics, tuple[CandidateStep, ...]()
        if offer.inbox is None:
            action = semantics.protocol.actions[offer.action]
            me = None if offer.actor is None else self.state.replicas[offer.actor]
            steps = semantics.steps(action, me, offer.message, semantics.context(self.state, action, self._known))
            if not steps and not action.reads:
                self._strike(offer)
            choices = tuple(CandidateStep(offer.action, offer.actor, offer.message, step) for step in steps)
        else:
            own = semantics.network_choices(offer.actor, offer.inbox)
            choices = tuple(c for c in own if c.action == offer.action and c.message == offer.message)
        found = (semantics.taken(self.state, choice) for choice in choices)
        return [transition for transition in found if transition is not None]

    def _strike(self, offer: ActionCandidate) -> None:
        """Remove a candidate that stays disabled until its replica changes."""
        card = self._cards[offer.actor]
        for kind, alike in card.items():
            if any(other is offer for other in alike):
                card[kind] = [other for other in alike if other is not offer]
                if not card[kind]:
                    del card[kind]
                return

    def enabled(self) -> Iterator[Transition]:
        """Yield every enabled step."""
        return (transition for offer in self.all for transition in self.outcomes(offer))


ChosenOutcome = tuple[list[Transition], int]
"""The enabled steps of one candidate, and the index of the chosen one."""


class StepChoice(NamedTuple):
    """A step of a walk: action, actor, message, and number of the outcome, from 1."""

    action: str
    actor: object
    message: Record | None
    outcome: int = 1


def labelled_transitions(offered: Iterable[Transition]) -> Iterator[tuple[StepChoice, Transition]]:
    """Yield the transitions out of a state with their labels."""
    outcomes: Counter[tuple[Any, ...]] = Counter()
    for transition in offered:
        key = transition.action, transition.actor, transition.message
        outcomes[key] += 1
        yield StepChoice(*key, outcomes[key]), transition


@lru_cache(maxsize=1 << 14)
def text_of_message(message: Record | None) -> str:
    """Return the text of a message in a walk file; "" for None."""
    return "" if message is None else text_of(message)


DECIDING_FIELDS = ("pre_vote", "granted", "error")
BRANCH_DECIDING_FIELDS = ("records", "diverging", "snapshot")
"""Fields of a message that decide the branch of its handler: by their value, or by being present."""


@lru_cache(maxsize=1 << 14)
def message_kind(message: Record | None) -> tuple[object, ...]:
    """Return the kind of a message: its type, and the fields that decide the branch of its handler."""
    values = tuple(getattr(message, name, None) for name in DECIDING_FIELDS)
    parts = tuple(getattr(message, name, Nil.NIL) not in (Nil.NIL, ()) for name in BRANCH_DECIDING_FIELDS)
    return type(message).__name__, *values, *parts


COVER_FETCH_LIMIT = 2
"""Batches that one fetch returns from the log of Kafka's tests."""

DEFAULT_RUNS, DEFAULT_DEPTH = 100, 100
"""Default number of random walks, and of the steps of one."""

STEP_LINE = re.compile(r"(?P<action>\w+) by (?P<actor>[^\s,]+)(?: on (?P<message>.+?))?(?:, outcome (?P<outcome>\d+))?")

SETTING_LINE = re.compile(r"(model|variant|without|ignore|set(?= .*=)|go(?= on$)) (.+)")


class WalkFileStep(NamedTuple):
    """A step of a walk, as text of a walk file."""

    action: str  # the action and its replica
    actor: str
    message: str = ""  # the delivered message; "" without one
    outcome: int = 1  # number of the outcome, from 1
    line: int = 0  # line in its file; 0 without a file

    @classmethod
    def of(cls, taken: StepChoice) -> WalkFileStep:
        """Return a taken step, as text."""
        return cls(taken.action, str(taken.actor), text_of_message(taken.message), taken.outcome)

    def __str__(self) -> str:
        message = f" on {self.message}" if self.message else ""
        outcome = f", outcome {self.outcome}" if self.outcome > 1 else ""
        return f"{self.action} by {self.actor}{message}{outcome}"


class WalkFile(NamedTuple):
    """Contents of a walk file."""

    model: str  # the model and its variant, or ""
    variant: str
    settings: tuple[str, ...]  # the constants, each as `NAME = VALUE`
    go_on: bool  # whether to continue from Kafka's state after a difference
    steps: tuple[WalkFileStep, ...]
    without: tuple[str, ...] = ()  # names of known differences removed from the model, so that they show
    ignored: tuple[str, ...] = ()  # names of the properties to skip


def non_default_settings(protocol: Protocol) -> tuple[str, ...]:
    """Return the constants of a model that are not default, as text of a walk file."""
    usual = {name: declared.default for name, declared in protocol.constants.items()}
    return tuple(f"{name} = {text_of(v)}" for name, v in protocol.constant_values().items() if v != usual[name])


class RandomStepChooser:
    """Chooses steps at random; kinds of steps that were rarely taken are more likely."""

    def __init__(self, seed: str, taken: Counter[CandidateKind], tried: Counter[CandidateKind] | None = None) -> None:
        self._random = random.Random(seed)
        self._taken = taken
        self._tried = Counter[CandidateKind]() if tried is None else tried
        self._eagerness: dict[str, float] = {}
        self._weights: dict[CandidateKind, float] = {}

    def __call__(self, offers: ActionCandidates) -> ChosenOutcome | None:
        """Return the next step, or None if no step is enabled."""
        entries, known = offers.by_kind(), self._weights
        weights = [known.get(kind) or self._weight(kind) for kind, _ in entries]
        places = range(len(entries))
        while any(weights):
            (place,) = self._random.choices(places, weights)
            kind, alike = entries[place]
            offer = alike[self._random.randrange(len(alike))]
            outcomes = offers.outcomes(offer)
            self._tried[kind] += 1
            self._weights.pop(kind, None)
            if outcomes:
                self._taken[kind] += 1
                return outcomes, self._random.randrange(len(outcomes))
            others = [other for other in alike if other is not offer]
            entries[place] = kind, others
            if not others:
                weights[place] = 0.0
        return None

    def _weight(self, kind: CandidateKind) -> float:
        """Return the weight of a kind of step in the random choice.

        Deliveries advance a quorum; frequent timeouts would only start elections again. Each walk nearly excludes some
        of the other actions, so that walks differ more (swarm testing: A. Groce et al., ISSTA 2012). A sort that is
        rarely enabled is rarely tried.
        """
        action, taken = str(kind[0]), self._taken[kind]
        eagerness = 6.0 if action.startswith("Handle") else self._eagerness.get(action)
        if eagerness is None:
            eagerness = self._eagerness[action] = self._random.choice(DRAWN_ACTION_WEIGHTS)
        weight = eagerness / math.sqrt(1 + taken) * (1 + taken) / (1 + self._tried[kind])
        self._weights[kind] = weight
        return weight


OMITTABLE_FIELDS_PATTERN = re.compile(r", (?:address|endpoint)=\d+")
"""Fields of messages that a walk file may omit."""

DRAWN_ACTION_WEIGHTS = (0.02, 0.2, 1.0)
"""Weights of actions that deliver no message; drawn for each walk and action."""


class GivenStepChooser:
    """Chooses the steps of a given walk, in their order."""

    def __init__(
        self, steps: Iterable[WalkFileStep], *, skips: bool = False, then: RandomStepChooser | None = None
    ) -> None:
        self._steps = iter(steps)
        self._skips = skips
        self._then = then

    def __call__(self, offers: ActionCandidates) -> ChosenOutcome | None:
        """Return the next step, or None at the end."""
        for step in self._steps:
            found = self._find(offers, step)
            if found is not None:
                return found
            if not self._skips:
                raise InputError(f"line {step.line}: {step} is not enabled there; {_enabled_steps_text(offers, step)}")
        return None if self._then is None else self._then(offers)

    @staticmethod
    def _find(offers: ActionCandidates, step: WalkFileStep) -> ChosenOutcome | None:
        fitting = [offer for offer in offers.all if (offer.action, str(offer.actor)) == (step.action, step.actor)]
        texts = [text_of_message(offer.message) for offer in fitting]
        for told in (texts, [OMITTABLE_FIELDS_PATTERN.sub("", text) for text in texts]):  # an exact text comes first
            if step.message in told:
                found = offers.outcomes(fitting[told.index(step.message)])
                return (found, step.outcome - 1) if step.outcome <= len(found) else None
        return None


def _enabled_steps_text(offers: ActionCandidates, step: WalkFileStep) -> str:
    """Return the steps of the same action and replica that are enabled, with their messages; else all actions."""
    enabled = [WalkFileStep.of(taken) for taken, _ in labelled_transitions(offers.enabled())]
    alike = [str(one) for one in enabled if (one.action, one.actor) == (step.action, step.actor)]
    return f"enabled are {', '.join(alike or sorted({f'{one.action} by {one.actor}' for one in enabled}))}"


def read_walk(path: Path) -> WalkFile:
    """Read a walk file."""
    said: defaultdict[str, list[str]] = defaultdict(list)
    steps, text = list[WalkFileStep](), read_text_file(path, "walk file")
    if not text:
        raise InputError(f"{path}: expected a walk file, found an empty one")
    for number, line in enumerate(map(str.strip, text.splitlines()), start=1):
        if setting := SETTING_LINE.fullmatch(line):
            said[setting[1]].append(setting[2])
        elif step := STEP_LINE.fullmatch(line):
            steps.append(
                WalkFileStep(step["action"], step["actor"], step["message"] or "", int(step["outcome"] or 1), number)
            )
        elif line and not line.startswith("#"):
            expected = "ACTION by REPLICA, `set NAME = VALUE` or `go on`"
            raise InputError(f"{path}:{number}:1: expected {expected}, found {line!r}")
    if not said["model"]:
        raise InputError(f"{path}:1:1: expected a line `model NAME`, found none")
    settings, without, ignored = (tuple(said[word]) for word in ("set", "without", "ignore"))
    variant = "".join(said["variant"][-1:])
    return WalkFile(said["model"][-1], variant, settings, "go" in said, tuple(steps), without, ignored)


def write_walk(path: Path, walk: WalkFile, comments: Iterable[str] = ()) -> None:
    """Write a walk file."""
    head = [f"# {comment}" for comment in comments]
    head.append(f"model {walk.model}")
    head += [f"variant {walk.variant}"] if walk.variant else []
    head += [f"set {setting}" for setting in walk.settings]
    head += [f"without {name}" for name in walk.without]
    head += [f"ignore {name}" for name in walk.ignored]
    head += ["go on"] if walk.go_on else []
    with atomic_replacement(path) as new:
        new.write_text("\n".join([*head, "", *map(str, walk.steps)]) + "\n")

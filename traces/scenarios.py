"""Scenario files: parsing, the choice of steps, and commands for the steps of a walk."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from kraftcheck.files import read_text_file
from kraftcheck.spec.diagnosis.action_explanation import explain_action
from kraftcheck.spec.errors import InputError, unknown_name_message
from kraftcheck.spec.language.semantics import Semantics, Transition, initial_states, sent_messages_text
from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import Record, Value, field_names, ordered, text_of

OUTPUT_SEPARATOR = "----"


class ScenarioError(InputError):
    """An error in a scenario or in its execution."""


class CommandsWithOutput(NamedTuple):
    """Commands with their recorded output."""

    line: int  # the line number of the first command
    before: list[str]  # the comments and blank lines before it
    commands: list[str]
    told: list[str]  # the recorded output


def parse_scenario_blocks(text: str) -> tuple[list[CommandsWithOutput], list[str]]:
    """Return the blocks of a scenario, and the comments after the last block."""
    blocks: list[CommandsWithOutput] = []
    before: list[str] = []
    commands: list[str] = []
    lines = iter(enumerate(text.splitlines(), start=1))
    first = 0
    for number, line in lines:
        if not commands and (not line.strip() or line.startswith("#")):
            before.append(line)
        elif line == OUTPUT_SEPARATOR and commands:
            output = list(takewhile(str.strip, (outcome for _, outcome in lines)))
            blocks.append(CommandsWithOutput(first, before, commands, output))
            before, commands = [], []
        elif not line.strip() or line == OUTPUT_SEPARATOR:
            raise ScenarioError(f"line {number}: expected commands, then {OUTPUT_SEPARATOR}")
        else:
            first = first if commands else number
            commands.append(line)
    if commands:
        raise ScenarioError(f"line {first}: expected {OUTPUT_SEPARATOR} after the commands")
    return blocks, before


def blocks_as_text(blocks: list[CommandsWithOutput], after: list[str]) -> str:
    """Return blocks as the text of a scenario."""
    lines: list[str] = []
    for block in blocks:
        lines += [*block.before, *block.commands, OUTPUT_SEPARATOR, *block.told, ""]
    return "\n".join([*lines, *after]).rstrip() + "\n"


def split_command_words(command: str) -> list[str]:
    """Split a command into words. A set or a sequence is one word, even with blanks."""
    found: list[str] = []
    for word in _split_at_unquoted_blanks(command):
        is_open = bool(found) and sum(map(found[-1].count, "{[(")) > sum(map(found[-1].count, ")]}"))
        if is_open:
            found[-1] += f" {word}"
        else:
            found.append(word)
    return found


def _split_at_unquoted_blanks(command: str) -> Iterator[str]:
    words_of = shlex.shlex(command, posix=True)
    words_of.whitespace_split, words_of.quotes, words_of.escape, words_of.commenters = True, '"', "", ""
    try:
        yield from words_of  # a single quote may be part of a name
    except ValueError as error:
        raise ScenarioError(f"{error}".lower()) from None


class StepDescription(NamedTuple):
    """The description of a step in a command; None for an unspecified part."""

    action: str
    by: str | None  # the acting replica
    on: str | None  # the type of the delivered message
    source: str | None  # the sender of the message
    dest: str | None  # the receiver of the message
    fields: dict[str, str]  # fields of the message, as text
    then: dict[str, str]  # paths into the next state, with values as text


def parse_step_description(given: list[str]) -> StepDescription:
    """Parse the description of a step from the words of a command."""
    action, *rest = given
    named: dict[str, str | None] = {"by": None, "on": None, "from": None, "to": None}
    fields: dict[str, str] = {}
    into = fields
    then: dict[str, str] = {}
    remaining = iter(rest)
    for word in remaining:
        if word in named:
            named[word] = next(remaining, None)
        elif word == "->":
            into = then
        elif "=" in word:
            name, _, value = word.partition("=")
            into[name] = value
        else:
            raise ScenarioError(f"unknown word {word!r}; expected by ID, on MESSAGE, from ID, to ID, FIELD=VALUE or ->")
    return StepDescription(action, named["by"], named["on"], named["from"], named["to"], fields, then)


class StartArguments(NamedTuple):
    """The arguments of `start`; "" for an unspecified name."""

    model: str
    variant: str
    config: str
    at: str
    bounds: str  # the value of every bound without its own setting; "" for the configuration's values
    settings: dict[str, str]  # constants, as text
    then: dict[str, str]  # paths into the initial state, with values as text


def parse_start_arguments(given: list[str]) -> StartArguments:
    """Parse the arguments of `start`."""
    if not given:
        raise ScenarioError("expected start MODEL, found no model")
    name, *rest = given
    ask = parse_step_description(["start", *rest])
    named = {key: ask.fields.pop(key, "") for key in ("variant", "config", "at", "bounds")}
    return StartArguments(name, **named, settings=ask.fields, then=ask.then)


class ScenarioCommand(NamedTuple):
    """A command of a scenario."""

    line: int
    text: str
    verb: str  # the first word: `start`, `settle` ..., or an action
    rest: list[str]  # the other words


class ScenarioSection(NamedTuple):
    """A part of a scenario from `start` to the next `start`."""

    file: Path
    start: ScenarioCommand
    words: StartArguments  # the arguments of `start`
    commands: list[ScenarioCommand]  # the other commands


def read_scenario_sections(path: Path) -> list[ScenarioSection]:
    """Return the parts of a scenario file, one for each `start`."""
    text = read_text_file(path, "scenario")
    try:
        blocks, _ = parse_scenario_blocks(text)
    except ScenarioError as error:
        raise ScenarioError(f"{path}: {error}") from None
    parts: list[ScenarioSection] = []
    for command in (
        _parse_command(path, *line) for block in blocks for line in enumerate(block.commands, start=block.line)
    ):
        if command.verb == "start":
            parts.append(ScenarioSection(path, command, parse_start_arguments(command.rest), []))
        elif parts:
            parts[-1].commands.append(command)
        else:
            raise ScenarioError(f"{path}:{command.line}:1: expected `start` first, found {command.text!r}")
    if not parts:
        raise ScenarioError(f"{path}:1:1: expected `start MODEL`, found no command")
    return parts


def _parse_command(path: Path, line: int, text: str) -> ScenarioCommand:
    try:
        verb, *rest = split_command_words(text)
        if verb == "start":
            parse_start_arguments(rest)
    except ScenarioError as error:
        raise ScenarioError(f"{path}:{line}:1: {text}: {error}") from None
    return ScenarioCommand(line, text, verb, rest)


MOST_DELIVERY_ROUNDS = 200
"""Limit on the messages of one `deliver`; beyond it they cause each other without end."""

STEP_VERBS = ("briefly", "deliver", "settle")
LOOK_VERBS = ("cannot", "hide", "show", "property")
"""Commands that take steps, and commands that take none. The name of an action is a command too."""

StepFormatter = Callable[[Transition], Iterable[str]]


class NotARecordError(ScenarioError):
    """A path leads into a value that is currently no record, such as `Nil`."""


class ScenarioPlayer:
    """The model and the current state of a scenario."""

    state: State  # set by the caller after each step

    def __init__(self, semantics: Semantics, tell: StepFormatter | None = None, *, any_outcome: bool = False) -> None:
        self.semantics = semantics
        self._any_outcome = any_outcome
        self._tell = tell or (lambda transition: [self.heading(transition)])

    def begin(self, init: str, then: dict[str, str]) -> None:
        """Start in the first initial state in which the paths have these values."""
        starts = initial_states(self.semantics, init)
        found = next((s for s in starts if all(self._is(s, None, *item) for item in then.items())), None)
        if found is None:
            raise ScenarioError("no initial state has these values")
        self.state = found

    def steps(self, verb: str, rest: list[str]) -> Iterator[Transition]:
        """Yield the steps of a command one by one; none for a command that takes no steps."""
        if verb == "briefly" and rest:
            verb, *rest = rest
        if verb == "deliver":
            yield from self.deliver(rest)
        elif verb == "settle":
            yield from self.settle(rest)
        elif verb[:1].isupper():
            yield self.chosen(parse_step_description([verb, *rest]))
        elif verb not in LOOK_VERBS:
            raise ScenarioError(
                f"{unknown_name_message('command', verb, [*STEP_VERBS, *LOOK_VERBS], 'a scenario')}, or an action"
            )

    # Choosing a step

    def chosen(self, ask: StepDescription) -> Transition:
        """Return the only step that fits a description; raise ScenarioError if none or several fit."""
        fitting = self.fitting(ask)
        if not fitting:
            raise ScenarioError(f"no such step; {'; '.join(self.refusals(ask))}")
        if self._differ(fitting):
            ways = "\n  or ".join(self._ways(fitting))
            raise ScenarioError(f"ambiguous command, {len(fitting)} matching steps:\n  {ways}")
        return fitting[0]

    def _ways(self, fitting: list[Transition]) -> list[str]:
        """Return steps as text; those with equal text also with the receivers of their messages."""
        texts = [" ".join("; ".join(self._tell(step)).split()) for step in fitting]
        return [
            f"{text}{sent_messages_text(step) if texts.count(text) > 1 else ''}"
            for text, step in zip(texts, fitting, strict=True)
        ]

    def fitting(self, ask: StepDescription) -> list[Transition]:
        """Return the steps that fit a description."""
        protocol = self.semantics.protocol
        known = [*protocol.actions, *protocol.network.own_actions()]
        if ask.action not in known:
            raise ScenarioError(unknown_name_message("action", ask.action, known, protocol.name()))
        return [
            t
            for t in self.semantics.transitions(self.state)
            if t.action == ask.action
            and ask.by in (None, text_of(t.actor))
            and _fits_message(ask, t.message)
            and _fits_sent_messages(ask, t)
            and all(self._is(t.target, t.actor, *item) for item in ask.then.items())
        ]

    def refusals(self, ask: StepDescription) -> list[str]:
        """Return the reasons why no step fits a description."""
        actor = None if ask.by is None else self.replica(ask.by)
        found = explain_action(self.semantics, self.state, ask.action, actor)
        texts = dict.fromkeys(r.text for r in found if r.message is None or _fits_message(ask, r.message))
        others = [text for text in texts if text != "enabled"]
        if others:
            return others
        enabled = (step for step in self.semantics.transitions(self.state) if step.action == ask.action)
        told = dict.fromkeys(
            f"{self.heading(s)}{'' if s.message is None else f': {text_of(s.message)}'}" for s in enabled
        )
        return [f"no step of {ask.action} fits the command; enabled are {', '.join(told)}"]

    def _differ(self, steps: list[Transition]) -> bool:
        """Whether several steps have different outcomes."""
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
        for _ in range(MOST_DELIVERY_ROUNDS):
            fitting = [
                t
                for t in self._deliveries([])
                if (not kinds or type(t.message).__name__ in kinds)
                and named["to"] in (None, text_of(t.actor))
                and named["from"] in (None, text_of(getattr(t.message, "source", "")))
            ]
            if not fitting:
                return
            yield self._only(
                [
                    step
                    for step in fitting
                    if _actor_and_message_of_transition(step) == _actor_and_message_of_transition(fitting[0])
                ]
            )
        raise ScenarioError(f"deliver: more than {MOST_DELIVERY_ROUNDS} messages; name the type or the receiver")

    def settle(self, given: list[str]) -> Iterator[Transition]:
        """Yield the deliveries of `settle [among ID ...] [until MESSAGE]`."""
        among, until = self._settling(given)
        seen = set[State]()
        for _ in range(MOST_DELIVERY_ROUNDS):
            if self.state in seen or self._is_under_way(until):
                break
            seen.add(self.state)
            for delivery in dict.fromkeys(map(_actor_and_message_of_transition, self._deliveries(among))):
                steps = [step for step in self._deliveries(among) if _actor_and_message_of_transition(step) == delivery]
                if steps and not self._is_under_way(until):
                    yield self._only(steps)
        else:
            raise ScenarioError(
                f"settle: messages are still delivered after {MOST_DELIVERY_ROUNDS} rounds; use among or until"
            )
        if until and not self._is_under_way(until):
            raise ScenarioError(f"settle: no {until} was in flight at any time")

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
            raise ScenarioError("settle: expected among ID ..., until MESSAGE, or nothing")
        for name in among:
            if self.replica(name) is None:
                raise ScenarioError(f"unknown replica {name}")
        return among, until

    def _only(self, steps: list[Transition]) -> Transition:
        if self._differ(steps):
            raise ScenarioError(f"{self.heading(steps[0])} has {len(steps)} outcomes; choose one by an action")
        return steps[0]

    def _is_under_way(self, kind: str) -> bool:
        """Whether a message of this type is in flight."""
        network = self.semantics.network
        return bool(kind) and any(
            type(message).__name__ == kind
            for inbox in self.state.inboxes.values()
            for message in network.known(inbox)
            if network.count(inbox, message)
        )

    def _deliveries(self, among: list[str]) -> list[Transition]:
        """Return the deliveries of messages between these replicas, or between all if `among` is empty."""
        return [
            t
            for t in self.semantics.transitions(self.state)
            if t.message is not None
            and t.action in self.semantics.protocol.actions
            and (not among or {text_of(t.actor), text_of(getattr(t.message, "source", t.actor))} <= set(among))
        ]

    # Looking

    def replica(self, text: str) -> Value:
        """Return the id of the replica whose id has this text; None if no replica has it."""
        return next((key for key in self.state.replicas if text_of(key) == text), None)

    def at(self, path: str) -> Value:
        """Return the value at a path: a replica, its field, or a shared field."""
        return self._at(self.state, None, path)

    def heading(self, transition: Transition) -> str:
        """Return a step as text: `HandleVoteRequest by n2 on VoteRequest from n1`."""
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
        except NotARecordError:
            return False

    def _at(self, state: State, actor: Value, path: str) -> Value:
        """Return the value at a path; a bare field belongs to the acting replica."""
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
            value = _field_at_path(value, name)
        return value


def _actor_and_message_of_transition(step: Transition) -> tuple[Value, Record | None]:
    return step.actor, step.message


def _fits_message(ask: StepDescription, message: Record | None) -> bool:
    """Whether a message fits a description."""
    if message is None:
        return ask.on is None and ask.source is None
    if ask.on not in (None, type(message).__name__):
        return False
    wanted = {**ask.fields, **({"source": ask.source} if ask.source is not None else {})}
    return all(text_of(_field_at_path(message, name)) == text for name, text in wanted.items())


def _fits_sent_messages(ask: StepDescription, transition: Transition) -> bool:
    """Whether a step's sent messages fit a description's receiver and, without a delivery, its fields."""
    fields = {} if transition.message is not None else dict(ask.fields)
    if ask.dest is not None:
        fields["dest"] = ask.dest
    sent = [message for _, message in transition.step.sends]
    return not fields or any(
        all(name in field_names(type(one)) and text_of(getattr(one, name)) == text for name, text in fields.items())
        for one in sent
    )


def _field_at_path(value: Value, path: str) -> Value:
    for name in path.split("."):
        if not isinstance(value, Record):
            raise NotARecordError(f"{text_of(value)} has no field {name}")
        if name not in field_names(type(value)):
            raise ScenarioError(f"{text_of(value)} has no field {name}")
        value = getattr(value, name)
    return value


def words_selecting_initial_state(stage: ScenarioPlayer, init: str, wanted: State) -> list[str]:
    """Return the arguments after `->` by which `start` selects an initial state; none for the first one."""
    then: dict[str, str] = {}
    while True:
        stage.begin(init, then)
        if stage.state == wanted:
            return [quoted_word(f"{path}={text}") for path, text in then.items()]
        news = (
            pair
            for pair in _field_differences_between_states(wanted, stage.state)
            if pair[0] not in then and _quoted_or_none("=".join(pair))
        )
        path, text = next(news, ("", ""))
        if not path:
            raise ScenarioError("no command of a scenario distinguishes its initial state from another one")
        then[path] = text


def command_for_step(stage: ScenarioPlayer, wanted: Transition) -> str:
    """Return a command that takes a step from the current state."""
    words: list[str] = [wanted.action]
    after: list[str] = []
    ends = _target_states_of_command(stage, words, after)
    for name, word in _possible_step_clauses(stage, wanted):
        if ends == {wanted.target} and name != "by":
            break
        more = (words, [*after, *word]) if name == "->" else ([*words, *word], after)
        fewer = _target_states_of_command(stage, *more) if all(map(_quoted_or_none, word)) else set()
        if wanted.target in fewer and (len(fewer) < len(ends) or name == "by"):
            (words, after), ends = more, fewer
    if ends != {wanted.target}:
        raise ScenarioError(f"{stage.heading(wanted)}: no command of a scenario distinguishes this step from another")
    return " ".join(map(quoted_word, words + (["->", *after] if after else [])))


def quoted_word(word: str) -> str:
    """Return a word for a command, quoted if needed."""
    written = _quoted_or_none(word)
    if written is None:
        raise ScenarioError(f"{word}: cannot be written as a word of a scenario")
    return written


def _quoted_or_none(word: str) -> str | None:
    for written in (word, f'"{word}"'):
        with suppress(ScenarioError):
            if split_command_words(f"x {written} y") == ["x", word, "y"]:
                return written
    return None


def _target_states_of_command(stage: ScenarioPlayer, words: list[str], after: list[str]) -> set[State]:
    """Return the target states of the steps that fit a command."""
    return {step.target for step in stage.fitting(parse_step_description([*words, *(["->", *after] if after else [])]))}


def _possible_step_clauses(stage: ScenarioPlayer, wanted: Transition) -> Iterator[tuple[str, list[str]]]:
    """Yield possible clauses for a step: `by n1`, `on Vote`, `epoch=2`, then fields of the next state."""
    if wanted.actor is not None:
        yield "by", ["by", text_of(wanted.actor)]
    message = wanted.message
    if message is not None:
        yield "on", ["on", type(message).__name__]
        yield from _endpoint_clauses(message, "source", "from")
        yield from (("=", [pair]) for pair in _field_arguments(message, "source"))
    else:
        for _, sent in wanted.step.sends[:1]:
            yield from _endpoint_clauses(sent, "dest", "to")
            yield from (("=", [pair]) for pair in _field_arguments(sent, "dest"))
    own = f"{text_of(wanted.actor)}."
    for path, text in _field_differences_between_states(wanted.target, stage.state):
        yield "->", [f"{path.removeprefix(own)}={text}"]
    for other in stage.fitting(parse_step_description([wanted.action])):
        for path, text in _field_differences_between_states(wanted.target, other.target):
            yield "->", [f"{path.removeprefix(own)}={text}"]


def _endpoint_clauses(message: Record, field: str, word: str) -> Iterator[tuple[str, list[str]]]:
    if field in field_names(type(message)):
        yield word, [word, text_of(getattr(message, field))]


def _field_arguments(message: Record, but: str) -> Iterable[str]:
    return (f"{name}={text_of(getattr(message, name))}" for name in field_names(type(message)) if name != but)


def _field_differences_between_states(state: State, other: State) -> Iterator[tuple[str, str]]:
    """Yield the fields whose text differs from that in another state, as paths with their text."""
    for key in ordered(state.replicas):
        for name in field_names(type(state.replicas[key])):
            text = text_of(getattr(state.replicas[key], name))
            if text != text_of(getattr(other.replicas.get(key), name, None)):
                yield f"{text_of(key)}.{name}", text
    for name in field_names(type(state.shared)):
        text = text_of(getattr(state.shared, name))
        if text != text_of(getattr(other.shared, name)):
            yield f"shared.{name}", text

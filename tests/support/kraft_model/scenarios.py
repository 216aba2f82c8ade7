r"""Scenarios: text files with commands and what happens.

A scenario is for readers who know the KIP and not our code. It is a list of blocks: commands, a line `----`, and what
happened, up to the next blank line. Lines that begin with `#`, and blank ones, may stand between blocks: they tell the
story. Everything under `----` is the model's output; the test fails if the output differs.

    # A candidate asks for votes.
    RequestVote by n2
    ----
    RequestVote by n2
        n2.state          Follower -> Candidate
        n2.current_epoch  1 -> 2
        + RequestVoteRequest  n2 -> n1  epoch=2

To write a scenario, write the commands, each followed by `----`, and run

    KRAFTCHECK_REWRITE_SCENARIOS=1 pytest tests/scenarios

which fills in what happened. Then read it: it is right only if the KIP says so.

The commands:

start MODEL [variant=NAME] [config=NAME] [at=START] [bounds=N] [CONSTANT=VALUE ...]
    Begin in the initial state of a model, or of a variant, with a configuration (default: `smoke`) and these constants
    changed; `bounds` sets every bound that no constant sets. It comes first. `at` names one of the model's named
    starts. A model with several initial states begins in the first that fits `-> PATH=VALUE ...`.
ACTION [by ID] [on MESSAGE] [from ID] [to ID] [FIELD=VALUE ...] [-> PATH=VALUE ...]
    Take the step of the action of that name: taken by this replica, on a message of this type from this replica whose
    fields have these values, or, where it is taken on no message, sending such a message; and such that then PATH has
    this VALUE: a field of the replica that acts (`leader=n2`), of another one (`n2.log`), or of the shared state
    (`shared.acked`). `to` is the receiver of a message. Exactly one step must fit. The output is what changed, then the
    message that was consumed (-) or delivered and kept (*), and those that were sent (+).
briefly ACTION ...
    The same; the output says only that it happened. So does `briefly settle`.
deliver [MESSAGE ...] [to ID] [from ID]
    Deliver messages under way, of these types, to this replica, from this replica, one after the other in their
    canonical order, until no replica takes one. The output is a line for each.
settle [among ID ...] [until MESSAGE]
    Deliver what is under way (between these replicas) and what is sent in answer, in turns, until nothing is left or
    the states repeat, as they do when all have caught up and fetch; or until a message of this type is under way. The
    output is what has changed by then.
cannot ACTION [by ID] [on MESSAGE] [from ID] [to ID] [FIELD=VALUE ...] [-> PATH=VALUE ...]
    No such step is enabled. The output is why: the model's condition that fails.
hide FIELD ...
    From here on leave out these fields: of replicas (`flushed`) and messages (`request`), of the shared
    state (`shared.elected`).
show [PATH ...]
    Show values: of a replica (`n1`: what differs from a new one), of a field (`n1.log`, `shared.acked`); or every
    message under way (`messages`).
property NAME ...
    Say whether properties hold in the present state or over the last step.

Values are written as counterexamples show them: `TRUE`, `{n1, n2}`, `Candidate`.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kraftcheck.catalogue import find_config, find_model
from kraftcheck.reporting.changes import changes, fields_set, message_words, messages
from kraftcheck.spec.cfg.binding import bind
from kraftcheck.spec.cfg.config import override, parse_setting
from kraftcheck.spec.diagnosis.why import diagnose
from kraftcheck.spec.display import text_of
from kraftcheck.spec.errors import unknown
from kraftcheck.spec.language.semantics import Semantics, Transition
from kraftcheck.spec.language.starts import initial_states
from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import Record, Value, field_names, ordered

REWRITE = bool(os.environ.get("KRAFTCHECK_REWRITE_SCENARIOS"))
SEPARATOR = "----"
INDENT = "    "
MANY = 200
"""The most messages that one `deliver` delivers: more means that they cause each other for ever."""


class ScenarioError(Exception):
    """A scenario that cannot run as written."""


class NothingThereError(ScenarioError):
    """A path that leads into a value that is no record at the moment, such as `Nil`."""


class Block(NamedTuple):
    """Some commands and what happened.

    Attributes
    ----------
    line
        The number of the first command's line.
    before
        The lines of prose before it.
    commands
        The commands.
    told
        What happened, as the file says.
    """

    line: int
    before: list[str]
    commands: list[str]
    told: list[str]


def read_blocks(text: str) -> tuple[list[Block], list[str]]:
    """Return the blocks of a scenario, and the lines of prose after the last one.

    Raises
    ------
    ScenarioError
        If commands are not followed by `----`.
    """
    blocks: list[Block] = []
    before: list[str] = []
    commands: list[str] = []
    lines = iter(enumerate(text.splitlines(), start=1))
    first = 0
    for number, line in lines:
        if not commands and (not line.strip() or line.startswith("#")):
            before.append(line)
        elif line == SEPARATOR and commands:
            told: list[str] = []
            for _, outcome in lines:
                if not outcome.strip():
                    break
                told.append(outcome)
            blocks.append(Block(first, before, commands, told))
            before, commands = [], []
        elif not line.strip() or line == SEPARATOR:
            raise ScenarioError(f"line {number}: expected commands, then {SEPARATOR}")
        else:
            first = first if commands else number
            commands.append(line)
    if commands:
        raise ScenarioError(f"line {first}: expected {SEPARATOR} after the commands")
    return blocks, before


def write_blocks(blocks: list[Block], after: list[str]) -> str:
    """Return the text of a scenario."""
    lines: list[str] = []
    for block in blocks:
        lines += [*block.before, *block.commands, SEPARATOR, *block.told, ""]
    return "\n".join([*lines, *after]).rstrip() + "\n"


def run_scenario(path: Path, *, rewrite: bool = REWRITE) -> list[tuple[Block, list[str]]]:
    """Run a scenario.

    Parameters
    ----------
    path
        The file.
    rewrite
        Whether to write the output into the file.

    Returns
    -------
    list
        Each block with what happened.

    Raises
    ------
    ScenarioError
        If a command cannot be done, naming the file and the line.
    """
    try:
        blocks, after = read_blocks(path.read_text(encoding="utf-8"))
    except ScenarioError as error:
        raise ScenarioError(f"{path.name}, {error}") from None
    stage = Stage()
    found: list[tuple[Block, list[str]]] = []
    for block in blocks:
        told: list[str] = []
        for number, command in enumerate(block.commands, start=block.line):
            try:
                told += stage.run(command)
            except Exception as error:
                raise ScenarioError(f"{path.name}, line {number}: {command}: {error}") from error
        found.append((block, told))
    if rewrite:
        path.write_text(write_blocks([block._replace(told=told) for block, told in found], after), encoding="utf-8")
    return found


def split(command: str) -> list[str]:
    """Return the words of a command; a set or a sequence is one word, blanks or not."""
    found: list[str] = []
    words_of = shlex.shlex(command, posix=True)
    words_of.whitespace_split, words_of.quotes, words_of.escape, words_of.commenters = True, '"', "", ""
    for word in words_of:  # a single quote is part of a name
        is_open = bool(found) and sum(map(found[-1].count, "{[(")) > sum(map(found[-1].count, ")]}"))
        if is_open:
            found[-1] += f" {word}"
        else:
            found.append(word)
    return found


class Ask(NamedTuple):
    """A step that a command describes.

    Attributes
    ----------
    action
        The action's name.
    by, on, source, dest
        The replica that takes it, the type of the message delivered, its sender, the receiver of a message; or None.
    fields
        Fields of the message, as text.
    then
        Paths into the next state, with values as text.
    """

    action: str
    by: str | None
    on: str | None
    source: str | None
    dest: str | None
    fields: dict[str, str]
    then: dict[str, str]


def read_ask(given: list[str]) -> Ask:
    """Return the step that the words of a command describe."""
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
            raise ScenarioError(f"what is {word!r}? expected by ID, on MESSAGE, from ID, to ID, FIELD=VALUE or ->")
    return Ask(action, named["by"], named["on"], named["from"], named["to"], fields, then)


class Stage:
    """The model and the present state of a scenario."""

    def __init__(self) -> None:
        self._semantics: Semantics | None = None
        self._state: State | None = None
        self._before: State | None = None
        self._hidden: set[str] = set()

    def run(self, command: str) -> list[str]:
        """Do one command; return its output."""
        verb, *rest = split(command)
        verbs = {
            "start": self._start,
            "briefly": self._briefly,
            "deliver": self._deliver,
            "settle": self._settle,
            "cannot": self._cannot,
            "hide": self._hide,
            "show": self._show,
            "property": self._property,
        }
        if verb in verbs:
            return list(verbs[verb](rest))
        if not verb[0].isupper():
            raise ScenarioError(f"{unknown('command', verb, verbs, 'a scenario')}, or an action")
        return list(self._take(read_ask([verb, *rest])))

    @property
    def semantics(self) -> Semantics:
        """The meaning of the protocol with its constants."""
        if self._semantics is None:
            raise ScenarioError("expected `start` first")
        return self._semantics

    @property
    def state(self) -> State:
        """The present state."""
        if self._state is None:
            raise ScenarioError("expected `start` first")
        return self._state

    # The commands

    def _start(self, given: list[str]) -> Iterator[str]:
        name, *rest = given
        ask = read_ask(["start", *rest])
        options = {key: ask.fields.pop(key, None) for key in ("variant", "config", "at", "bounds")}
        model = find_model(name, options["variant"])
        _, config = find_config(model, options["config"] or "smoke")
        if options["bounds"]:
            bounds = [c.name for c in model.protocol.constants.values() if c.is_bound]
            ask.fields.update({name: options["bounds"] for name in bounds if name not in ask.fields})
        settings = [parse_setting(f"{constant}={value}", config) for constant, value in ask.fields.items()]
        bound = bind(model.protocol, override(config, settings))
        self._semantics = Semantics(bound.protocol)
        self._hidden = set()
        starts = initial_states(self._semantics, options["at"] or bound.init)
        self._before = None
        self._state = next((s for s in starts if all(self._is(s, None, *item) for item in ask.then.items())), None)
        if self._state is None:
            raise ScenarioError("no initial state is such")
        for key in ordered(self._state.replicas):
            yield f"{text_of(key)}: {self._shown(self._state.replicas[key])}"

    def _briefly(self, given: list[str]) -> Iterator[str]:
        yield next(iter(self._settle(given[1:]) if given[0] == "settle" else self._take(read_ask(given))))

    def _take(self, ask: Ask) -> list[str]:
        fitting = self._fitting(ask)
        if not fitting:
            raise ScenarioError(f"no such step; {'; '.join(self._refusals(ask))}")
        if len({transition.target for transition in fitting}) > 1:
            ways = "\n  or ".join(" ".join(line.split()) for t in fitting for line in ["; ".join(self._told(t))])
            raise ScenarioError(f"{len(fitting)} steps are such:\n  {ways}")
        return self._go(fitting[0])

    def _go(self, transition: Transition) -> list[str]:
        told = list(self._told(transition))
        self._before, self._state = self.state, transition.target
        return told

    def _deliver(self, given: list[str]) -> Iterator[str]:
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
                for t in self.semantics.transitions(self.state)
                if t.message is not None
                and t.action in self.semantics.protocol.actions
                and (not kinds or type(t.message).__name__ in kinds)
                and named["to"] in (None, text_of(t.actor))
                and named["from"] in (None, text_of(getattr(t.message, "source", "")))
            ]
            if not fitting:
                return
            first = [t for t in fitting if (t.actor, t.message) == (fitting[0].actor, fitting[0].message)]
            if len({t.target for t in first}) > 1:
                raise ScenarioError(f"{self._heading(first[0])} can end in {len(first)} ways: take it by name")
            yield self._go(first[0])[0]
        raise ScenarioError(f"{MANY} messages were delivered, and still there are more")

    def _settle(self, given: list[str]) -> Iterator[str]:
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
            if self._replica(self.state, name) is None:
                raise ScenarioError(f"there is no replica {name}")
        before, seen = self.state, set[State]()
        for _ in range(MANY):
            if self.state in seen or self._is_under_way(until):
                break
            seen.add(self.state)
            for actor, message in dict.fromkeys((t.actor, t.message) for t in self._deliveries(among)):
                steps = [t for t in self._deliveries(among) if (t.actor, t.message) == (actor, message)]
                if len({t.target for t in steps}) > 1:
                    raise ScenarioError(f"{self._heading(steps[0])} can end in {len(steps)} ways: take it by name")
                if steps and not self._is_under_way(until):
                    self._go(steps[0])
        else:
            raise ScenarioError(f"messages were delivered in {MANY} turns, and still something changes")
        if until and not self._is_under_way(until):
            raise ScenarioError(f"no {until} is ever under way")
        yield f"messages{' among ' if among else ''}{', '.join(among)} are delivered"
        yield from list(self._changed(before, self.state)) or [f"{INDENT}nothing changes"]

    def _is_under_way(self, kind: str) -> bool:
        """Whether a message of this type is under way."""
        return bool(kind) and any(
            type(found.message).__name__ == kind for found in messages(self.semantics.network, None, self.state, None)
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

    def _cannot(self, given: list[str]) -> Iterator[str]:
        ask = read_ask(given)
        fitting = self._fitting(ask)
        if fitting:
            raise ScenarioError(f"it can: {self._heading(fitting[0])}")
        yield from self._refusals(ask)

    def _hide(self, given: list[str]) -> Iterator[str]:
        kinds = [type(replica) for replica in self.state.replicas.values()]
        kinds += [kind for action in self.semantics.protocol.actions.values() for kind in action.messages]
        known = {name for kind in kinds for name in field_names(kind)}
        known |= {f"shared.{name}" for name in field_names(type(self.state.shared))}
        for name in given:
            if name not in known:
                raise ScenarioError(unknown("field", name, known, "the model"))
        self._hidden |= set(given)
        yield from ()

    def _is_told(self, path: str) -> bool:
        """Whether a change at a path is shown: `spent` and hidden fields are not."""
        names = [name.partition("[")[0] for name in path.split(".")]
        return not path.startswith("spent ") and not {".".join(names[:2]), *names[1:2]} & self._hidden

    def _show(self, given: list[str]) -> Iterator[str]:
        for path in given:
            if path == "messages":
                under_way = messages(self.semantics.network, None, self.state, None)
                lines = self._message_lines([(" ", found.message) for found in under_way])
                yield from lines if under_way else ["none"]
                continue
            value = self._at(self.state, None, path)
            yield f"{path}: {self._shown(value) if isinstance(value, Record) and '.' not in path else text_of(value)}"

    def _property(self, given: list[str]) -> Iterator[str]:
        for name in given:
            known = self.semantics.protocol.properties
            if name not in known:
                raise ScenarioError(unknown("property", name, known, self.semantics.protocol.name()))
            prop = known[name]
            if prop.over_steps:
                holds = self._before is None or self.semantics.holds_over(prop, self._before, self.state)
            else:
                holds = self.semantics.holds(prop, self.state)
            yield f"{name} {'holds' if holds else 'is violated'}"

    # Choosing a step

    def _fitting(self, ask: Ask) -> list[Transition]:
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

    def _refusals(self, ask: Ask) -> list[str]:
        actor = None if ask.by is None else self._replica(self.state, ask.by)
        found = diagnose(self.semantics, self.state, ask.action, actor)
        told = dict.fromkeys(r.text for r in found if r.message is None or _describes(ask, r.message))
        others = [text for text in told if text != "enabled"]
        return others or [f"no step of {ask.action} is such"]

    def _is(self, state: State, actor: Value, path: str, text: str) -> bool:
        try:
            return text_of(self._at(state, actor, path)) == text
        except NothingThereError:
            return False

    def _at(self, state: State, actor: Value, path: str) -> Value:
        """Return what a path leads to: a replica, its field, a shared field, or a field of the replica that acts."""
        first, *names = path.split(".")
        key = self._replica(state, first)
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

    def _replica(self, state: State, text: str) -> Value:
        return next((key for key in state.replicas if text_of(key) == text), None)

    # Telling

    def _heading(self, transition: Transition) -> str:
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

    def _told(self, transition: Transition) -> Iterator[str]:
        yield self._heading(transition)
        before, after = self.state, transition.target
        if before == after:
            yield f"{INDENT}nothing changes"
            return
        yield from self._changed(before, after)
        marked = messages(self.semantics.network, before, after, transition.message)
        yield from self._message_lines([(m.mark, m.message) for m in marked if m.mark != " "])

    def _message_lines(self, marked: list[tuple[str, Record]]) -> Iterator[str]:
        texts = [(mark, *message_words(message, self._hidden)) for mark, message in marked]
        kinds, ways = (max((len(text[column]) for text in texts), default=0) for column in (1, 2))
        for mark, kind, way, rest in texts:
            yield f"{INDENT}{mark} {kind:{kinds}}  {way:{ways}}  {rest}".rstrip()

    def _shown(self, replica: Record) -> str:
        """Return in words how a replica differs from a new one."""
        return fields_set(replica, self._hidden) or f"a new {type(replica).__name__}"

    def _changed(self, before: State, after: State) -> Iterator[str]:
        """Return what differs between two states besides the messages under way."""
        found = [c for c in changes(self.semantics.protocol, before, after) if self._is_told(c.path)]
        width = max((len(change.path) for change in found), default=0)
        for change in found:
            yield f"{INDENT}{change.path:{width}}  {change.text}"




def _describes(ask: Ask, message: Record | None) -> bool:
    """Whether a command's words about the message fit one."""
    if message is None:
        return ask.on is None and ask.source is None
    if ask.on not in (None, type(message).__name__):
        return False
    wanted = {**ask.fields, **({"source": ask.source} if ask.source is not None else {})}
    return all(text_of(_field(message, name)) == text for name, text in wanted.items())


def _sends(ask: Ask, transition: Transition) -> bool:
    """Whether a command's words about what is sent fit a step; if no message is delivered, the fields are those of the
    message sent."""
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

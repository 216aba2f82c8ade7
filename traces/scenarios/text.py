"""The blocks of a scenario's file, and the words of its commands. `stage` says what the commands do."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kraftcheck.files import read_small
from kraftcheck.spec.errors import InputError

SEPARATOR = "----"


class ScenarioError(InputError):
    """A scenario that cannot run as written."""


class Block(NamedTuple):
    """Some commands and what happened."""

    line: int  # the number of the first command's line
    before: list[str]  # the lines of prose before it
    commands: list[str]
    told: list[str]  # what happened, as the file says


def read_blocks(text: str) -> tuple[list[Block], list[str]]:
    """Return the blocks of a scenario, and the lines of prose after the last one."""
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


def split(command: str) -> list[str]:
    """Return the words of a command; a set or a sequence is one word, blanks or not."""
    found: list[str] = []
    for word in _words(command):
        is_open = bool(found) and sum(map(found[-1].count, "{[(")) > sum(map(found[-1].count, ")]}"))
        if is_open:
            found[-1] += f" {word}"
        else:
            found.append(word)
    return found


def _words(command: str) -> Iterator[str]:
    words_of = shlex.shlex(command, posix=True)
    words_of.whitespace_split, words_of.quotes, words_of.escape, words_of.commenters = True, '"', "", ""
    try:
        yield from words_of  # a single quote is part of a name
    except ValueError as error:
        raise ScenarioError(f"{error}".lower()) from None


class Ask(NamedTuple):
    """A step that a command describes."""

    action: str  # the action's name
    # the replica that takes it, the type of the message delivered, its sender, the receiver of a message; or None
    by: str | None
    on: str | None
    source: str | None
    dest: str | None
    fields: dict[str, str]  # fields of the message, as text
    then: dict[str, str]  # paths into the next state, with values as text


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


class Start(NamedTuple):
    """What `start` says."""

    model: str  # names; "" where there is none
    variant: str
    config: str
    at: str
    bounds: str  # what every bound is that no constant sets; "" for what the configuration says
    settings: dict[str, str]  # constants, as text
    then: dict[str, str]  # what tells the initial state from others, as in `Ask`


def read_start(given: list[str]) -> Start:
    """Return what the words after `start` say."""
    if not given:
        raise ScenarioError("expected start MODEL, found no model")
    name, *rest = given
    ask = read_ask(["start", *rest])
    named = {key: ask.fields.pop(key, "") for key in ("variant", "config", "at", "bounds")}
    return Start(name, **named, settings=ask.fields, then=ask.then)


class Command(NamedTuple):
    """A command of a scenario."""

    line: int  # the number of its line
    text: str  # the line
    verb: str  # its first word: `start`, `settle` ..., or an action
    rest: list[str]  # the other words


class Story(NamedTuple):
    """A part of a scenario that begins with `start`."""

    file: Path  # the scenario
    start: Command  # its first command
    words: Start  # what that says
    commands: list[Command]  # the others


def read_stories(path: Path) -> list[Story]:
    """Return the stories of a scenario: one for each `start`."""
    try:
        blocks, _ = read_blocks(read_small(path))
    except OSError as error:
        raise ScenarioError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ScenarioError(f"{path}: expected a scenario, found bytes that are not text") from None
    except ScenarioError as error:
        raise ScenarioError(f"{path}: {error}") from None
    stories: list[Story] = []
    for block in blocks:
        for line, text in enumerate(block.commands, start=block.line):
            try:
                verb, *rest = split(text)
                command = Command(line, text, verb, rest)
                start = read_start(rest) if verb == "start" else None
            except ScenarioError as error:
                raise ScenarioError(f"{path}:{line}:1: {text}: {error}") from None
            if start is not None:
                stories.append(Story(path, command, start, []))
            elif stories:
                stories[-1].commands.append(command)
            else:
                raise ScenarioError(f"{path}:{line}:1: expected `start` first, found {text!r}")
    if not stories:
        raise ScenarioError(f"{path}:1:1: expected `start MODEL`, found no command")
    return stories

"""The commands of a scenario that lead along a walk: as few words as tell each step from the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from kraftcheck.spec.display import text_of
from kraftcheck.spec.language.semantics import Transition
from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import Record, field_names, ordered
from kraftcheck.traces.scenarios.stage import Stage
from kraftcheck.traces.scenarios.text import ScenarioError, read_ask, split


def beginning(stage: Stage, init: str, wanted: State) -> list[str]:
    """Return the words after `->` with which `start` begins in a state; none where it does so without."""
    then: dict[str, str] = {}
    while True:
        stage.begin(init, then)
        if stage.state == wanted:
            return [quoted(f"{path}={text}") for path, text in then.items()]
        news = (pair for pair in _fields(wanted, stage.state) if pair[0] not in then and _written("=".join(pair)))
        path, text = next(news, ("", ""))
        if not path:
            raise ScenarioError("no words of a scenario tell its initial state from another one")
        then[path] = text


def command_of(stage: Stage, wanted: Transition) -> str:
    """Return the command that takes a step from the present state of a scenario."""
    words: list[str] = [wanted.action]
    after: list[str] = []
    ends = _ends(stage, words, after)
    for name, word in _words(stage, wanted):
        if ends == {wanted.target} and name != "by":
            break
        if not all(map(_written, word)):
            continue
        more = (words, [*after, *word]) if name == "->" else ([*words, *word], after)
        fewer = _ends(stage, *more)
        if wanted.target in fewer and (len(fewer) < len(ends) or name == "by"):
            (words, after), ends = more, fewer
    if ends != {wanted.target}:
        raise ScenarioError(f"no words of a scenario tell {stage.heading(wanted)} from another step")
    return " ".join(map(quoted, words + (["->", *after] if after else [])))


def quoted(word: str) -> str:
    """Return a word as a command has it: in quotes where it would not be one word."""
    written = _written(word)
    if written is None:
        raise ScenarioError(f"{word}: cannot be a word of a scenario")
    return written


def _written(word: str) -> str | None:
    for written in (word, f'"{word}"'):
        with suppress(ScenarioError):
            if split(f"x {written} y") == ["x", word, "y"]:
                return written
    return None


def _ends(stage: Stage, words: list[str], after: list[str]) -> set[State]:
    """Return where the steps lead that a command asks for."""
    return {step.target for step in stage.fitting(read_ask([*words, *(["->", *after] if after else [])]))}


def _words(stage: Stage, wanted: Transition) -> Iterator[tuple[str, list[str]]]:
    """Yield what may be said of a step, the shortest first: `by n1`, `on Vote`, `epoch=2`, and what is so after it."""
    if wanted.actor is not None:
        yield "by", ["by", text_of(wanted.actor)]
    message = wanted.message
    if message is not None:
        yield "on", ["on", type(message).__name__]
        yield from _ends_of(message, "source", "from")
        yield from (("=", [pair]) for pair in _pairs(message, "source"))
    else:
        for _, sent in wanted.step.sends[:1]:
            yield from _ends_of(sent, "dest", "to")
            yield from (("=", [pair]) for pair in _pairs(sent, "dest"))
    own = f"{text_of(wanted.actor)}."
    for path, text in _fields(wanted.target, stage.state):
        yield "->", [f"{path.removeprefix(own)}={text}"]
    for other in stage.fitting(read_ask([wanted.action])):
        for path, text in _fields(wanted.target, other.target):
            yield "->", [f"{path.removeprefix(own)}={text}"]


def _ends_of(message: Record, field: str, word: str) -> Iterator[tuple[str, list[str]]]:
    if field in field_names(type(message)):
        yield word, [word, text_of(getattr(message, field))]


def _pairs(message: Record, but: str) -> Iterable[str]:
    return (f"{name}={text_of(getattr(message, name))}" for name in field_names(type(message)) if name != but)


def _fields(state: State, other: State) -> Iterator[tuple[str, str]]:
    """Yield the paths of fields that have another text in one state than in another, with the text."""
    for key in ordered(state.replicas):
        for name in field_names(type(state.replicas[key])):
            text = text_of(getattr(state.replicas[key], name))
            if text != text_of(getattr(other.replicas.get(key), name, None)):
                yield f"{text_of(key)}.{name}", text
    for name in field_names(type(state.shared)):
        text = text_of(getattr(state.shared, name))
        if text != text_of(getattr(other.shared, name)):
            yield f"shared.{name}", text

"""Changing one field of a value, at random."""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random
from typing import Any

from kraftcheck.spec.tla.text import format_value, parse_value, sort_in_tlc_order
from kraftcheck.spec.values import Map, ModelValue, Value

Path = tuple[Any, ...]


def fields(value: Value, path: Path = ()) -> Iterator[Path]:
    """Yield the place of everything in a value that can be changed by itself: leaves, sets and sequences."""
    if isinstance(value, Map | dict):
        for key in value if isinstance(value, dict) else sort_in_tlc_order(value):
            yield from fields(value[key], (*path, ("value", key)))
            if not isinstance(key, str):
                yield from fields(key, (*path, ("key", key)))
    elif isinstance(value, tuple | list):
        if value:
            yield path
        for place, item in enumerate(value):
            yield from fields(item, (*path, ("item", place)))
    elif isinstance(value, frozenset):
        if value:
            yield path
        for element in sort_in_tlc_order(value):
            yield from fields(element, (*path, ("element", element)))
    else:
        yield path


def changed(value: Value, path: Path, names: list[str], random: Random) -> Value:
    """Return a value with the field at a place changed; the same value where that did not work out."""
    if not path:
        return _other(value, names, random)
    (how, where), rest = path[0], path[1:]
    if how == "element":
        return (value - {where}) | {changed(where, rest, names, random)}
    if how == "item":
        items = list(value)
        items[where] = changed(items[where], rest, names, random)
        return type(value)(items)
    if how == "key":
        new = changed(where, rest, names, random)
        return value if new in value else Map([(new if key == where else key, item) for key, item in value.items()])
    pairs = [(key, changed(item, rest, names, random) if key == where else item) for key, item in value.items()]
    return type(value)(pairs)


def _other(value: Value, names: list[str], random: Random) -> Value:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return random.choice([value + 1, value - 1, 0, 7])
    if isinstance(value, ModelValue):
        return ModelValue(random.choice(names))
    if isinstance(value, str):
        return random.choice(names)
    if isinstance(value, frozenset):
        return value - {random.choice(sort_in_tlc_order(value))}
    return value[:-1]


def tampered_walk(text: str, variables: list[str], random: Random) -> tuple[str, int, str]:
    """Return a walk's module with one field of one state changed, the number of the state, and the variable.

    The last state is left alone: where a step can be taken in several ways, another one may be a next state too.
    """
    states = len(re.findall(r"^STATE_\d+ == $", text, re.MULTILINE))
    names = sorted({*re.findall(r"\b[A-Za-z]\w*\b", text)} - {*variables})
    while True:
        number, variable = random.randrange(1, states), random.choice(variables)
        start = text.index(f"/\\ {variable} = ", text.index(f"STATE_{number} == \n")) + len(f"/\\ {variable} = ")
        ends = [text.find(mark, start) for mark in ("\n/\\ ", "\n\n")]
        end = min(place for place in ends if place >= 0)
        value = parse_value(text[start:end])
        found = list(fields(value))
        if not found:
            continue
        other = changed(value, random.choice(found), names, random)
        if other != value:
            return text[:start] + format_value(other) + text[end:], number, variable

"""Finds what a protocol is made of: its modules, and the record and symbol classes that its values may have."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

from kraftcheck.spec.decoding import Lexicon
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import Record, Symbol, field_types, is_enum

ClassName = tuple[str, str]
"""The module of a class and its qualified name."""


def reachable_classes(protocol: Protocol, states: Iterable[State]) -> dict[ClassName, type]:
    """Return the record and symbol classes that values of a protocol may have.

    These are the classes of the values in its initial states, of its actions' messages and actors and of its symbols,
    the classes in its modules, and those in the annotations of all these classes' fields.
    """
    seen = Lexicon()
    for value in (*states, *protocol.constant_values().values()):
        seen.note(value)
    named = [State, *seen.classes, *protocol.symbols]
    for action in protocol.actions.values():
        named += [*action.messages, *action.actors]
    for module in modules_of(type(protocol)):
        named += [cls for cls in vars(module).values() if isinstance(cls, type)]
    found: dict[ClassName, type] = {}
    while named:
        cls = named.pop(0)
        name = (cls.__module__, cls.__qualname__)
        if not (issubclass(cls, Record) or is_enum(cls)) or cls in (Record, Symbol) or name in found:
            continue
        found[name] = cls
        if issubclass(cls, Record):
            named += [used for annotation in _annotations(cls) for used in _classes_in(annotation)]
    return found


def _annotations(cls: type[Record]) -> list[Any]:
    try:
        return list(field_types(cls).values())
    except NameError:  # a class defined within a function: its classes are found in its values
        return []


def _classes_in(annotation: Any) -> Iterator[type]:
    if isinstance(annotation, type):
        yield annotation
    for argument in get_args(annotation):
        yield from _classes_in(argument)


def modules_of(protocol: type[Protocol]) -> list[ModuleType]:
    """Return the modules of a protocol's classes, and the modules of the same folders that these use."""
    bases = protocol.__mro__[: protocol.__mro__.index(Protocol)]
    waiting = [sys.modules[cls.__module__] for cls in bases if cls.__module__ in sys.modules]
    folders = {path.parent for path in map(source_of, waiting) if path is not None}
    found: dict[str, ModuleType] = {}
    seen = set[str]()
    while waiting:
        module = waiting.pop(0)
        if module.__name__ in seen:
            continue
        seen.add(module.__name__)
        path = source_of(module)
        if module.__name__ != protocol.__module__ if path is None else path.parent not in folders:
            continue
        found[module.__name__] = module
        for value in vars(module).values():
            owner = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
            if isinstance(owner, str) and owner in sys.modules:
                waiting.append(sys.modules[owner])
    return [found[name] for name in sorted(found)]


def source_of(module: ModuleType) -> Path | None:
    """Return the source file of a module, or None if it has none."""
    name = getattr(module, "__file__", None)
    return Path(name).resolve() if isinstance(name, str) else None

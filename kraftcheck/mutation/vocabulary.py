"""What a person may take for one another: fields of a record, members of a symbol, names of one kind."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, get_args, get_type_hints

from kraftcheck.spec.values import Record, field_types

Fields = dict[str, Any]
"""The types of a record's fields, by name."""


class Vocabulary:
    """The records and symbols that a protocol's modules name."""

    def __init__(self, modules: Iterable[ModuleType]) -> None:
        named = [value for module in modules for value in vars(module).values() if isinstance(value, type)]
        records = dict.fromkeys(cls for cls in named if issubclass(cls, Record) and cls is not Record)
        self._fields = {cls: _types(cls) for cls in records}

    def other_field(self, name: str, owners: Iterable[type]) -> str | None:
        """Return a plausible wrong field: the next one of the same type, in every record that may be meant."""
        asked = [cls for cls in owners if cls in self._fields] or list(self._fields)
        having = [self._fields[cls] for cls in asked if name in self._fields[cls]]
        if not having:
            return None
        names = list(having[0])
        place = names.index(name)
        for other in (*names[place + 1 :], *names[:place]):
            if all(fields.get(other, Ellipsis) == fields[name] for fields in having):
                return other
        return None

    def swappable(self, cls: object) -> list[tuple[int, int]]:
        """Return the pairs of neighbouring places in a record's constructor that take values of one type."""
        types = list(self._fields.get(cls, {}).values()) if isinstance(cls, type) else []
        return [(place, place + 1) for place in range(len(types) - 1) if types[place] == types[place + 1]]

    def owners(self, function: Callable[..., Any], parameter: str) -> tuple[type, ...]:
        """Return the records that the annotation of a function's parameter names."""
        try:
            hint = get_type_hints(function).get(parameter)
        except (NameError, TypeError):
            return ()
        return tuple(kind for kind in (get_args(hint) or (hint,)) if kind in self._fields)


def _types(cls: type[Record]) -> Fields:
    try:
        return field_types(cls)
    except NameError:  # a class defined within a function
        return {}


def other_member(symbol: enum.Enum) -> enum.Enum | None:
    """Return the next member of an enum, or None where there is no other."""
    members = list(type(symbol))
    other = members[(members.index(symbol) + 1) % len(members)]
    return None if other is symbol else other


def other_name(name: str, names: dict[str, Any]) -> str | None:
    """Return the next of a module's names that stands for another symbol of the same class, or None."""
    symbol = names.get(name)
    if not isinstance(symbol, enum.Enum):
        return None
    alike = [known for known, value in names.items() if type(value) is type(symbol)]
    place = alike.index(name)
    return next((known for known in (*alike[place + 1 :], *alike[:place]) if names[known] is not symbol), None)

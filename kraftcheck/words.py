"""Values in a few words, for people."""

from __future__ import annotations

from spec.values import Map, Record, Value, field_names, ordered


def words(value: Value) -> str:
    """Return a value as short text: what reports and counterexamples show.

    A record is shown by its `__str__` where its class has one of its own, as the identity of a server does.

    >>> words(frozenset({2, 1})), words((True, "a")), words(Map({1: 2}))
    ('{1, 2}', '[TRUE, "a"]', '{1: 2}')
    """
    kind = type(value)
    if kind is bool:
        return "TRUE" if value else "FALSE"
    if kind is str:
        return f'"{value}"'
    if kind is frozenset:
        return "{" + ", ".join(map(words, ordered(value))) + "}"
    if kind is tuple:
        return "[" + ", ".join(map(words, value)) + "]"
    if isinstance(value, Map):
        return "{" + ", ".join(f"{words(key)}: {words(value[key])}" for key in ordered(value)) + "}"
    if is_shown_by_fields(value):
        return f"{kind.__name__}({fields(value)})"
    return str(value)


def fields(record: Record, leaving_out: tuple[str, ...] = ()) -> str:
    """Return a record's fields as `name=value`."""
    names = [name for name in field_names(type(record)) if name not in leaving_out]
    return ", ".join(f"{name}={words(getattr(record, name))}" for name in names)


def message_words(message: Record) -> tuple[str, str, str]:
    """Return a message as its type, from whom to whom, and the rest of its fields, long ones last."""
    names = field_names(type(message))
    ends = [words(getattr(message, end)) if end in names else "" for end in ("source", "dest")]
    rest = sorted((name for name in names if name not in ("source", "dest")), key=lambda name: _is_long(message, name))
    text = " ".join(f"{name}={words(getattr(message, name))}" for name in rest)
    return type(message).__name__, " -> ".join(ends).strip(), text


def _is_long(record: Record, name: str) -> bool:
    value = getattr(record, name)
    return isinstance(value, tuple | Map) or is_shown_by_fields(value)


def is_shown_by_fields(value: Value) -> bool:
    """Return whether a value is a record without a `__str__` of its own."""
    text: object = type(value).__str__
    return isinstance(value, Record) and text is object.__str__

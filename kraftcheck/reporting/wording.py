"""Records and messages in words, beyond what `kraftcheck.spec.display` says of any value."""

from __future__ import annotations

from collections.abc import Collection

from kraftcheck.spec.display import text_of
from kraftcheck.spec.values import Map, Record, Value, field_names


def fields(record: Record, leaving_out: tuple[str, ...] = ()) -> str:
    """Return a record's fields as `name=value`."""
    names = [name for name in field_names(type(record)) if name not in leaving_out]
    return ", ".join(f"{name}={text_of(getattr(record, name))}" for name in names)


def message_words(message: Record, leaving_out: Collection[str] = ()) -> tuple[str, str, str]:
    """Return a message as its type, from whom to whom, and the rest of its fields, long ones last."""
    names = field_names(type(message))
    ends = [text_of(getattr(message, end)) if end in names else "" for end in ("source", "dest")]
    others = (name for name in names if name not in {"source", "dest", *leaving_out})
    rest = sorted(others, key=lambda name: _is_long(message, name))
    text = " ".join(f"{name}={text_of(getattr(message, name))}" for name in rest)
    return type(message).__name__, " -> ".join(ends).strip(), text


def _is_long(record: Record, name: str) -> bool:
    value = getattr(record, name)
    return isinstance(value, tuple | Map) or is_shown_by_fields(value)


def is_shown_by_fields(value: Value) -> bool:
    """Return whether a value is a record without a `__str__` of its own."""
    text: object = type(value).__str__
    return isinstance(value, Record) and text is object.__str__

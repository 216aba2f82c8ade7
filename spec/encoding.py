"""The canonical encoding of values, as bytes."""

from __future__ import annotations

import enum

from kraftcheck.spec.values import Map, ModelValue, Record, Symbol, Value, field_names, field_values, is_enum


def _length(number: int) -> bytes:
    return number.to_bytes(4, "big")


def _text(tag: bytes, text: str) -> bytes:
    data = text.encode()
    return tag + _length(len(data)) + data


def encode(value: Value) -> bytes:
    """Return the canonical encoding of a value. Values have equal encodings if and only if they are equal."""
    kind = type(value)
    if kind is bool:
        return b"T" if value else b"F"
    if kind is int:
        return _text(b"i", str(value))
    if kind is str:
        return _text(b"s", value)
    if kind is ModelValue:
        return _text(b"m", value.name)
    if isinstance(value, Symbol):
        return _text(b"y", kind.__qualname__) + _text(b"", str(value.value))
    if value is None:
        return b"N"
    if isinstance(value, enum.Enum) and is_enum(kind):
        return _text(b"e", kind.__qualname__) + _text(b"", value.name)
    if kind is tuple:
        return b"(" + _length(len(value)) + b"".join(map(encode, value))
    if kind is frozenset:
        return b"{" + _length(len(value)) + b"".join(sorted(map(encode, value)))
    if isinstance(value, Record):
        fields = b"".join(map(encode, field_values(value)))
        return _text(b"r", kind.__qualname__) + _length(len(field_names(kind))) + fields
    if isinstance(value, Map):
        pairs = sorted(encode(k) + encode(v) for k, v in value.items())
        return b"[" + _length(len(pairs)) + b"".join(pairs)
    raise TypeError(f"{value!r} of type {kind.__name__} is not a value")

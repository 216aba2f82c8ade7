"""Values in a few words, for people."""

from __future__ import annotations

from kraftcheck.spec.values import Map, Record, Value, field_names, ordered


def words(value: Value) -> str:
    """Return a value as short text: what reports, reasons and counterexamples show.

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
    if isinstance(value, Record) and not any("__str__" in vars(base) for base in kind.__mro__[:-1]):
        fields = [f"{name}={words(getattr(value, name))}" for name in field_names(kind)]
        return f"{kind.__name__}({', '.join(fields)})"
    return str(value)

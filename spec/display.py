"""Values as short text for people."""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence

from kraftcheck.spec.values import Map, Record, Value, name_of, ordered, shown_names


def text_of(value: Value) -> str:
    """Return a value as reports, reasons and counterexamples show it.

    A record is shown by its `__str__` if its class defines one, as the identity of a server does.

    >>> text_of(frozenset({2, 1})), text_of((True, "a")), text_of(Map({1: 2}))
    ('{1, 2}', '[TRUE, "a"]', '{1: 2}')
    """
    kind = type(value)
    if kind is bool:
        return "TRUE" if value else "FALSE"
    if kind is str:
        return f'"{visible(value)}"'
    if isinstance(value, enum.Enum):
        return name_of(value)
    if kind is frozenset:
        return "{" + ", ".join(map(text_of, ordered(value))) + "}"
    if kind is tuple:
        return "[" + ", ".join(map(text_of, value)) + "]"
    if isinstance(value, Map):
        return "{" + ", ".join(f"{text_of(key)}: {text_of(value[key])}" for key in ordered(value)) + "}"
    if isinstance(value, Record) and not any("__str__" in vars(base) for base in kind.__mro__[:-1]):
        fields = [f"{name}={text_of(getattr(value, name))}" for name in shown_names(value)]
        return f"{kind.__name__}({', '.join(fields)})"
    return str(value)


_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def in_xml(text: str) -> str:
    """Return text with `?` for each character that XML cannot have, such as ESC."""
    return _NOT_IN_XML.sub("?", text)


def visible(text: str, keep: str = "") -> str:
    r"""Return text with the codes of characters that cannot be seen, or that steer a terminal or the way of writing."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in keep else _code(one) for one in text)


def _code(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def one_of(choices: Sequence[str]) -> str:
    """Return choices in one phrase.

    >>> one_of(["a value", "','", "'}'"])
    "a value, ',' or '}'"
    """
    return " or ".join(filter(None, [", ".join(choices[:-1]), *choices[-1:]]))


def cut(text: str, width: int) -> str:
    """Return text of at most `width` characters, with `...` for what does not fit.

    >>> cut("NoIllegalState", 8)
    'NoIll...'
    """
    return text if len(text) <= width else text[: width - 3] + "..."

"""Finds comparisons of values that can never be equal, by the declared types of fields, constants and parameters."""

from __future__ import annotations

import ast
import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FunctionType, NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from kraftcheck.spec.diagnosis.source import nodes_of
from kraftcheck.spec.kinds import describe_type
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.values import Map, ModelValue, Record, field_types, is_enum

Kinds = tuple[Any, ...] | None
"""The types that a value may have; None where they are not known."""

_LITERALS = {ast.Tuple: tuple, ast.List: list, ast.Set: frozenset, ast.SetComp: frozenset, ast.ListComp: list}
_PLAIN = (bool, int, str, NoneType, ModelValue, tuple, list, frozenset, Map)


def never_equal(function: FunctionType, owner: type | None, definition: ast.FunctionDef) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each comparison in a method that always comes to the same."""
    compared = [node for node in nodes_of(definition, ast.Compare) if len(node.ops) == 1]
    if not compared:
        return
    types = _Types(function, owner, definition)
    for node in compared:
        left, right = types.of(node.left), types.other(node.ops[0], node.comparators[0])
        if left and right and not any(_may_equal(one, other) for one in left for other in right):
            told = [" or ".join(dict.fromkeys(map(describe_type, kinds))) for kinds in (left, right)]
            yield node.lineno, f"`{ast.unparse(node)}` compares {told[0]} with {told[1]}, which are never equal"


class _Types:
    """Tells the types of expressions in one method."""

    def __init__(self, function: FunctionType, owner: type | None, definition: ast.FunctionDef) -> None:
        self._globals = function.__globals__
        known = {name: _choices(kind) for name, kind in _hints(function).items()}
        if owner is not None and definition.args.args:
            known[definition.args.args[0].arg] = (owner,)
        inner: list[Any] = [*nodes_of(definition, ast.Lambda), *nodes_of(definition, ast.FunctionDef)[1:]]
        stored = {node.id for node in nodes_of(definition, ast.Name) if isinstance(node.ctx, ast.Store)}
        stored |= {one.arg for node in inner for one in node.args.args}
        self._names = {name: kinds for name, kinds in known.items() if name not in stored}

    def of(self, node: ast.expr) -> Kinds:
        """Return the types that an expression may have."""
        if isinstance(node, ast.Constant):
            return (type(node.value),) if type(node.value) in _PLAIN else None
        if isinstance(node, ast.Name):
            return self._names.get(node.id)
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        kind = _LITERALS.get(type(node))
        return None if kind is None else (kind,)

    def other(self, operator: ast.cmpop, node: ast.expr) -> Kinds:
        """Return the types of what an operator compares with: with `in`, of the elements."""
        if isinstance(operator, ast.Eq | ast.NotEq | ast.Is | ast.IsNot):
            return self.of(node)
        if not isinstance(operator, ast.In | ast.NotIn):
            return None
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            return _united(map(self.of, node.elts))
        return _united(map(_elements, self.of(node) or (Any,)))

    def _attribute(self, node: ast.Attribute) -> Kinds:
        if isinstance(node.value, ast.Name) and node.value.id not in self._names:
            cls: Any = self._globals.get(node.value.id)
            return (cls,) if is_enum(cls) and node.attr in cls.__members__ else None
        owners = self.of(node.value)
        return None if owners is None else _united(_choices(_fields(one).get(node.attr, Any)) for one in owners)


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function)
    except Exception:  # whatever the annotations are
        return {}


def _fields(owner: Any) -> Mapping[str, Any]:
    try:
        if isinstance(owner, type) and issubclass(owner, Record):
            return field_types(owner)
        if isinstance(owner, type) and issubclass(owner, Protocol):
            constants = {declared.attribute for declared in owner.constants.values()}
            return {name: kind for name, kind in get_type_hints(owner).items() if name in constants}
    except NameError:
        pass
    return {}


def _choices(kind: Any) -> Kinds:
    """Return the types of a union, each one that `_may_equal` knows; else None."""
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _united(map(_choices, get_args(kind)))
    if origin is Literal:
        return tuple(dict.fromkeys(map(type, get_args(kind))))
    plain = origin or kind
    is_known = isinstance(plain, type) and (plain in _PLAIN or is_enum(plain) or issubclass(plain, Record))
    return (kind,) if is_known and plain is not Record else None


def _elements(kind: Any) -> Kinds:
    """Return the types of a collection's elements, or of a map's keys."""
    arguments = get_args(kind)
    if get_origin(kind) in (frozenset, Map) or (get_origin(kind) is tuple and arguments[-1] is Ellipsis):
        return _choices(arguments[0])
    return None


def _united(parts: Iterable[Kinds]) -> Kinds:
    found = list(parts)
    return None if None in found else tuple(kind for kinds in found for kind in kinds or ())


def _may_equal(one: Any, other: Any) -> bool:
    """Return whether values of two types may be equal: 1 and True are."""
    first, second = get_origin(one) or one, get_origin(other) or other
    return issubclass(first, second) or issubclass(second, first) or _is_one_kind(first, second)


def _is_one_kind(first: type, second: type) -> bool:
    numbers = issubclass(first, int) and issubclass(second, int)
    texts = issubclass(first, str) and issubclass(second, str)
    return (numbers or texts) and not (issubclass(first, enum.Enum) and issubclass(second, enum.Enum))

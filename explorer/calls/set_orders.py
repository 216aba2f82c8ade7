"""Handler inputs with a chosen iteration order of sets and maps, to find dependence on that order."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache, partial, partialmethod
from itertools import groupby
from opcode import opmap
from operator import is_
from pickle import dumps, loads
from types import CellType, CodeType, FunctionType, NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from kraftcheck.explorer.calls.loops import declared_in, with_methods
from kraftcheck.spec.diagnosis.source import definition_of, recompiled
from kraftcheck.spec.kinds import SCALARS
from kraftcheck.spec.language.network import BagWithMemory, MessageSet, MessageSetWithMemory, Network
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.state import Step
from kraftcheck.spec.values import Map, Record, Value, cached, field_names, field_types, is_enum, order_key, ordered

_SET = "__set__"
_BUILTINS = {"frozenset", "set"}
_OPCODES = {opmap["BUILD_SET"], opmap["SET_ADD"]}
_MAKING_SETS = ("copy", "difference", "intersection", "symmetric_difference", "union")
_OPERATORS = ("__and__", "__or__", "__sub__", "__xor__", "__rand__", "__ror__", "__rsub__", "__rxor__")


class Ascending(frozenset[Any]):
    """A set that iterates in canonical order, as do its unions and differences."""

    __slots__ = ("_elements",)

    def __iter__(self) -> Iterator[Any]:
        if not hasattr(self, "_elements"):
            self._elements = self._in_order()
        return iter(self._elements)

    def _in_order(self) -> list[Any]:
        return ordered(super().__iter__())

    def _made(self, name: str, *others: Any) -> Any:
        made = getattr(frozenset, name)(self, *others)
        return made if made is NotImplemented else type(self)(made)


for _name in (*_MAKING_SETS, *_OPERATORS):
    setattr(Ascending, _name, partialmethod(Ascending._made, _name))


class Descending(Ascending):
    """A set that iterates in reverse canonical order."""

    __slots__ = ()

    def _in_order(self) -> list[Any]:
        return super()._in_order()[::-1]


class InOrder:
    """Calls handlers with all sets converted to class `kind`: arguments, constants, and sets made in handlers."""

    def __init__(self, protocol: Protocol, kind: type[Ascending]) -> None:
        self._kind = kind
        self._protocol = with_methods(protocol, lambda method: _making(method, kind))
        known = declared_in(protocol) | vars(self._protocol)
        collections = {name: value for name, value in known.items() if type(value) in (frozenset, tuple, Map)}
        vars(self._protocol).update({name: changed(value, kind) for name, value in collections.items()})

    def call(self, function: Any, arguments: tuple[Any, ...]) -> list[Step]:
        """Call a handler with all sets converted to class `kind`; return its steps, with plain sets."""
        made = _making(function, self._kind)(self._protocol, *[changed(one, self._kind) for one in arguments])
        return [changed(step, frozenset) for step in made]


def unordered(step: Step, network: Network) -> tuple[Any, ...]:
    """Return the effects of a step in a form that ignores the order of independent sends, puts and writes."""
    if isinstance(network, BagWithMemory | MessageSet | MessageSetWithMemory):
        runs = groupby(step.sends, lambda send: send[0])
        sends: Any = tuple((operation, frozenset(Counter(run).items())) for operation, run in runs)
    else:
        sends = defaultdict(list)
        for send in step.sends:
            sends[getattr(send[1], "dest", None)].append(send)
        sends = frozenset((dest, tuple(sent)) for dest, sent in sends.items())
    spent = (frozenset(Counter(bounds).items()) for bounds in (step.spends, step.needs))
    return step.me, step.consumes, sends, frozenset(dict(step.puts).items()), frozenset(step.writes), *spent


def changed(value: Value, kind: type[frozenset[Any]]) -> Any:
    """Return an equal value whose sets have the class `kind`, and whose maps iterate in the order of `kind`."""
    own = type(value)
    if issubclass(own, frozenset):
        return kind([changed(one, kind) for one in value])
    if own is tuple:
        parts = [changed(one, kind) for one in value]
        return value if all(map(is_, parts, value)) else tuple(parts)
    if own is Map:
        items = [(changed(key, kind), changed(item, kind)) for key, item in value.items()]
        items = items if kind is frozenset else sorted(items, key=lambda item: order_key(item[0]))
        return Map(reversed(items) if kind is Descending else items)
    if issubclass(own, Record):
        return _changed_record(value, kind)
    through = getattr(own, "read_through", None)  # a proxy converts when it is read
    return value if through is None else through(value, partial(changed, kind=kind))


def _changed_record(value: Any, kind: type[frozenset[Any]]) -> Any:
    known, own = vars(value), type(value)
    new = {name: changed(known[name], kind) for name in _collections(own)}
    if all(new[name] is known[name] for name in new):
        return value
    made = object.__new__(own)
    vars(made).update({name: known[name] for name in field_names(own)} | new)
    return made


@cached
def _collections(record_type: type[Record]) -> list[str]:
    """Return the fields of a record class that may contain a set or a map."""
    try:
        return [name for name, kind in field_types(record_type).items() if not _is_scalar(kind)]
    except NameError:
        return list(field_names(record_type))


def _is_scalar(kind: Any) -> bool:
    if get_origin(kind) in (Union, UnionType):
        return all(map(_is_scalar, get_args(kind)))
    return kind in SCALARS or kind is NoneType or is_enum(kind) or get_origin(kind) is Literal


@cache
def _making(function: FunctionType, kind: type[Ascending]) -> Any:
    """Return `function` rewritten to create sets of class `kind`; unchanged if it creates none or has no source."""
    made = _rewritten(function)
    if made is function:
        return function
    code = made.__code__
    cells = dict(zip(code.co_freevars, made.__closure__, strict=True)) | {_SET: CellType(kind)}
    other = FunctionType(code, made.__globals__, made.__name__, made.__defaults__, tuple(cells.values()))
    other.__kwdefaults__ = made.__kwdefaults__
    return other


@cache
def _rewritten(function: FunctionType) -> Any:
    """Return `function` rewritten to create `Ascending` sets, compiled once for all classes of sets."""
    code = getattr(function, "__code__", None)
    definition = definition_of(code) if code is not None and _may_make_sets(code) else None
    if definition is None:
        return function
    making = _Making()
    copied = making.visit(loads(dumps(definition)))
    copied.decorator_list = []
    return recompiled(function, copied, {_SET: Ascending}) if making.found else function


def _may_make_sets(code: CodeType) -> bool:
    """Return whether a function's bytecode may create a set; a quick check before its source is parsed."""
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    return not (_BUILTINS.isdisjoint(code.co_names) and _OPCODES.isdisjoint(code.co_code[::2])) or any(
        map(_may_make_sets, inner)
    )


class _Making(ast.NodeTransformer):
    """AST transformer that makes a function create sets of a given class, except sets used only for `in` tests."""

    def __init__(self) -> None:
        self.found = 0

    def visit_Compare(self, node: ast.Compare) -> ast.Compare:
        return node if isinstance(node.ops[0], ast.In | ast.NotIn) else self.generic_visit(node)  # type: ignore[return-value]

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in _BUILTINS:
            self.found += 1
            node.func = ast.copy_location(ast.Name(_SET, ast.Load()), node.func)
        return node

    def _set(self, node: Any) -> ast.Call:
        self.generic_visit(node)
        self.found += 1
        return ast.copy_location(ast.Call(ast.Name(_SET, ast.Load()), [node], []), node)

    visit_Set = visit_SetComp = _set  # noqa: N815 - named after the nodes

"""Rewriting of handlers that read sets: loops that test an element first, and inputs with a chosen iteration order.

`[m for m in shared.msgs if isinstance(m, Vote) and m.ballot == me.ballot]` depends on the votes of one ballot alone. A
copy of the function iterates over `among(shared.msgs, lambda m: isinstance(m, Vote) and m.ballot == me.ballot)`. For
any set but a `SetProxy` that is the set itself; the loop keeps its tests. Only comparisons, attribute accesses and type
tests are moved, since other tests may have effects. A loop over `ordered(shared.msgs)` sorts the elements that pass;
so do loops over copies of a set. The methods that a handler calls are rewritten too.

A call with sets and maps in another order finds a handler whose result depends on that order.
"""

from __future__ import annotations

import ast
import builtins
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from copy import copy, deepcopy
from dataclasses import replace
from functools import cache, partial, partialmethod
from itertools import groupby, takewhile
from opcode import opmap
from operator import is_
from pickle import dumps, loads
from types import CellType, CodeType, FunctionType, MethodType, NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from kraftcheck.explorer.calls.proxies import SetProxy
from kraftcheck.spec.diagnosis.source import definition_of, recompiled
from kraftcheck.spec.kinds import SCALARS
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.network import BagWithMemory, MessageSet, MessageSetWithMemory, Network
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.state import Step
from kraftcheck.spec.values import Map, Record, Value, cached, field_names, field_types, is_enum, order_key, ordered

AMONG = "__among__"
COPIES = (ordered, list, tuple, set, frozenset)
"""Functions whose result has the elements of their argument, and that raise no error."""
_SIMPLE = (
    ast.BoolOp, ast.boolop, ast.UnaryOp, ast.unaryop, ast.BinOp, ast.operator, ast.Compare, ast.cmpop, ast.Attribute,
    ast.Name, ast.Constant, ast.Subscript, ast.Tuple, ast.expr_context,
)  # fmt: skip


def among(elements: Any, passes: Callable[[Any], Any]) -> Iterable[Any]:
    """Return a set unchanged, or for a `SetProxy` its elements that pass a test."""
    return elements.among(passes) if type(elements) is SetProxy else elements


@cache
def filtered_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a copy of `function` whose filtering loops use `among`, or `function` itself if it has none."""
    code = getattr(function, "__code__", None)
    definition = definition_of(code) if code is not None else None
    if definition is None:
        return function
    copied = deepcopy(definition)
    loops = _Loops(function)
    loops.visit(copied)
    copied.decorator_list = []
    return recompiled(function, copied, {AMONG: among}) if loops.found else function


@cache
def filtered_property(prop: Property) -> Property:
    """Return a copy of a property whose filtering loops use `among`, renamed so that no probe records it."""
    return replace(prop, name=f"{prop.name} ", function=filtered_function(prop.function))


class _Loops(ast.NodeTransformer):
    """AST transformer that makes loops iterate over `among(set, test)`, where they test each element first."""

    def __init__(self, function: Any) -> None:
        self.found = 0
        self._code, self._names = function.__code__, vars(builtins) | function.__globals__

    def _among(self, target: ast.expr, elements: ast.expr, tests: list[ast.expr]) -> ast.expr:
        conjuncts = (
            part
            for test in tests
            for part in (test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test])
        )
        simple = list(takewhile(_is_simple, conjuncts))
        if not simple or not isinstance(target, ast.Name):
            return elements
        if isinstance(elements, ast.Call) and self._is_copy(elements):
            elements.args[0] = self._among(target, elements.args[0], tests)
            return elements
        self.found += 1
        body = deepcopy(simple[0] if len(simple) == 1 else ast.BoolOp(ast.And(), simple))
        argument = ast.arguments([], [ast.arg(target.id)], None, [], [], None, [])
        call = ast.Call(ast.Name(AMONG, ast.Load()), [elements, ast.Lambda(argument, body)], [])
        return ast.fix_missing_locations(ast.copy_location(call, elements))

    def _is_copy(self, call: ast.Call) -> bool:
        """Return whether a call copies or sorts the elements of its argument, such as `ordered(...)`."""
        name, local = getattr(call.func, "id", ""), (*self._code.co_varnames, *self._code.co_cellvars)
        is_global = name not in (*local, *self._code.co_freevars) and len(call.args) == 1 and not call.keywords
        return is_global and any(self._names.get(name) is copying for copying in COPIES)

    def visit_comprehension(self, node: ast.comprehension) -> ast.comprehension:
        self.generic_visit(node)
        node.iter = self._among(node.target, node.iter, node.ifs)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        quantifier = node.func.id if isinstance(node.func, ast.Name) else None
        inner = node.args[0] if len(node.args) == 1 else None
        last = None
        if quantifier in ("any", "all") and isinstance(inner, ast.GeneratorExp) and not inner.generators[-1].ifs:
            test = inner.elt if quantifier == "any" else ast.UnaryOp(ast.Not(), inner.elt)
            last = inner.generators[-1]
        self.generic_visit(node)
        if last is not None:
            last.iter = self._among(last.target, last.iter, [test])
        return node

    def visit_For(self, node: ast.For) -> ast.For:
        self.generic_visit(node)
        tests: list[ast.expr] = []
        for statement in node.body:
            if isinstance(statement, ast.Match) and statement is node.body[-1]:
                tests += _matching(statement)
            if not isinstance(statement, ast.If) or statement.orelse:
                break
            if len(statement.body) == 1 and isinstance(statement.body[0], ast.Continue):
                tests.append(ast.UnaryOp(ast.Not(), statement.test))
                continue
            if statement is node.body[-1]:
                tests.append(statement.test)
            break
        node.iter = self._among(node.target, node.iter, tests)
        return node


def _matching(statement: ast.Match) -> list[ast.expr]:
    """Return a test of the subject's class that holds where a case may match, in a list; [] if any class may."""
    patterns = [case.pattern for case in statement.cases]
    kinds = [p.cls for p in patterns if isinstance(p, ast.MatchClass)]
    if len(kinds) < len(patterns):
        return []
    arguments = [deepcopy(statement.subject), ast.Tuple(kinds, ast.Load())]
    return [ast.Call(ast.Name("isinstance", ast.Load()), arguments, [])]


def with_methods(protocol: Protocol, rewrite: Callable[[Any], Any]) -> Protocol:
    """Return a copy of a protocol that calls its methods rewritten."""
    copied = copy(protocol)
    for name, value in declared_in(protocol).items():
        if isinstance(value, FunctionType) and (made := rewrite(value)) is not value:
            vars(copied).setdefault(name, MethodType(made, copied))
    return copied


def declared_in(protocol: Protocol) -> dict[str, Any]:
    """Return the attributes that a protocol's own classes define."""
    bases = type(protocol).__mro__[: type(protocol).__mro__.index(Protocol)]
    return {name: value for base in reversed(bases) for name, value in vars(base).items()}


def _is_simple(test: ast.expr) -> bool:
    return all(isinstance(node, _SIMPLE) or _is_type_test(node) for node in ast.walk(test))


def _is_type_test(node: ast.AST) -> bool:
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords
    return is_call and node.func.id == "isinstance"  # type: ignore[attr-defined]


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

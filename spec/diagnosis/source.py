"""Source of functions as syntax trees, and traces of single calls."""

from __future__ import annotations

import ast
import enum
import linecache
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from inspect import CO_GENERATOR
from pathlib import Path
from types import CellType, CodeType, FrameType, FunctionType
from typing import Any, NamedTuple, TypeVar

from kraftcheck.spec.values import Map, ModelValue, Record, cut, text_of

T = TypeVar("T")
Names = dict[str, Any]


class Moment(NamedTuple):
    """A line before its execution, with the local variables."""

    line: int
    names: Names


class TracedCall:
    """The trace of one call of a function."""

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.moments: list[Moment] = []
        self.ends: list[int] = []
        self.result: object = None
        self.inner: list[tuple[int, TracedCall]] = []

    @property
    def end(self) -> int:
        """The line of the last return or yield; the function's first line if there was none."""
        return self.ends[-1] if self.ends else self.code.co_firstlineno

    @property
    def is_generator(self) -> bool:
        """Whether the function is a generator."""
        return bool(self.code.co_flags & CO_GENERATOR)


def trace_call(code: CodeType, call: Callable[[], T]) -> tuple[T, TracedCall]:
    """Return the result of `call`, and the trace of its first call of the function with this `code`."""
    outer = TracedCall(code)
    traced: dict[FrameType, TracedCall] = {}

    def begin(frame: FrameType, event: str, argument: object) -> Any:
        if frame not in traced:
            caller = None if frame.f_back is None else traced.get(frame.f_back)
            found = outer if frame.f_code is code and outer not in traced.values() else TracedCall(frame.f_code)
            if found is outer:
                pass
            elif caller is not None and _is_followed(caller, outer) and not frame.f_code.co_name.startswith("<"):
                caller.inner.append((getattr(frame.f_back, "f_lineno", 0), found))
            elif found.is_generator and _was_returned(frame.f_code, outer):
                outer.inner.append((outer.end, found))  # a handler may return the generator of another method
            else:
                return None
            traced[frame] = found
        return note

    def note(frame: FrameType, event: str, argument: object) -> Any:
        if event == "line":
            traced[frame].moments.append(Moment(frame.f_lineno, dict(frame.f_locals)))
        elif event == "return":
            traced[frame].ends.append(frame.f_lineno)
            traced[frame].result = argument
        return note

    before = sys.gettrace()
    sys.settrace(begin)
    try:
        result = call()
    finally:
        sys.settrace(before)
    return result, outer


def _is_followed(caller: TracedCall, outer: TracedCall) -> bool:
    """Whether to trace the calls that `caller` makes: it is the call `outer` itself, or that of a generator."""
    return caller is outer or caller.is_generator


def _was_returned(code: CodeType, outer: TracedCall) -> bool:
    return bool(outer.ends) and not outer.is_generator and code.co_name in outer.code.co_names


SHOWN = 80
"""Maximum length of a value's text."""

VALUES = (bool, int, str, ModelValue, tuple, frozenset, enum.Enum, Record, Map)

_MAKE = "__make__"
Node = TypeVar("Node", bound=ast.AST)

_OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.Is: ast.IsNot,
    ast.In: ast.NotIn,
    ast.Lt: ast.GtE,
    ast.Gt: ast.LtE,
}
_OPPOSITES |= {other: one for one, other in _OPPOSITES.items()}


class FunctionSource:
    """The definition of a function as a syntax tree."""

    def __init__(self, definition: ast.FunctionDef) -> None:
        self.parents: dict[ast.AST, ast.AST] = {}
        self._statements: list[ast.stmt] = []
        self._visit(definition)

    def _visit(self, node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            self.parents[child] = node
            if isinstance(child, ast.stmt):
                self._statements.append(child)
            if not isinstance(child, ast.FunctionDef | ast.Lambda):
                self._visit(child)

    def at(self, line: int) -> ast.stmt | None:
        """Return the innermost statement of a line."""
        found = [s for s in self._statements if s.lineno <= line <= (s.end_lineno or s.lineno)]
        return found[-1] if found else None


def source_of_function(code: CodeType) -> FunctionSource | None:
    """Return the source of a function, or None."""
    found = definition_of(code)
    return None if found is None else FunctionSource(found)


def definition_of(code: CodeType) -> ast.FunctionDef | None:
    """Return the shared syntax tree of a function's definition, or None."""
    module = parsed(code.co_filename)
    for node in nodes_of(module, ast.FunctionDef) if module is not None else ():
        if node.name == code.co_name:
            first = min([node.lineno, *[decorator.lineno for decorator in node.decorator_list]])
            if first == code.co_firstlineno:
                return node
    return None


def recompiled(function: Callable[..., Any], definition: ast.FunctionDef, more: Mapping[str, Any]) -> Any:
    """Return a function compiled from `definition`, with the globals, defaults and closure of `function`."""
    code: CodeType = function.__code__
    free = [ast.arg(name) for name in (*more, *code.co_freevars)]
    no_more: dict[str, Any] = {"kwonlyargs": [], "kw_defaults": [], "defaults": []}
    outer = ast.FunctionDef(_MAKE, ast.arguments([], free, **no_more), [definition], [], lineno=1, col_offset=0)
    module = ast.fix_missing_locations(ast.Module([outer], []))
    maker = next(c for c in compile(module, code.co_filename, "exec", dont_inherit=True).co_consts if _is_code(c))
    inner = next(c for c in maker.co_consts if _is_code(c) and c.co_name == code.co_name)
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    cells |= {name: CellType(value) for name, value in more.items()}
    made = FunctionType(
        inner,
        function.__globals__,
        code.co_name,
        function.__defaults__,
        tuple(cells[name] for name in inner.co_freevars),
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _is_code(value: object) -> bool:
    return isinstance(value, CodeType)


def parsed(file: str | Path) -> ast.Module | None:
    """Return the shared syntax tree of a file, or None if it is not Python."""
    linecache.checkcache(str(file))
    return _module("".join(linecache.getlines(str(file))))


@lru_cache(maxsize=256)
def _module(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def nodes_of(root: ast.AST, kind: type[Node]) -> Sequence[Node]:
    """Return the nodes of a type in a tree, in the order of `ast.walk`; the result is cached."""
    return _nodes_by_kind(root).get(kind, ())  # type: ignore[return-value]


@lru_cache(maxsize=2048)
def _nodes_by_kind(root: ast.AST) -> dict[type, list[ast.AST]]:
    nodes: list[ast.AST] = [root]
    kinds: dict[type, list[ast.AST]] = {}
    for node in nodes:
        kinds.setdefault(type(node), []).append(node)
        for name in node._fields:
            value = getattr(node, name, None)
            if type(value) is list:
                nodes += [one for one in value if isinstance(one, ast.AST)]
            elif isinstance(value, ast.AST) and value._fields:  # contexts and operators are never requested
                nodes.append(value)
    return kinds


def called(call: ast.Call) -> str | None:
    """Return the name of the called function or method."""
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)


def negated(test: ast.expr) -> ast.expr:
    """Return the negation of a test, simplified."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return ast.Compare(test.left, [_OPPOSITES[type(test.ops[0])]()], test.comparators)
    return ast.UnaryOp(ast.Not(), test)


def equation(node: ast.expr, value: object) -> Iterator[str]:
    """Yield `source = value` if the value has one of the value types of protocols."""
    if isinstance(value, VALUES):
        yield f"{ast.unparse(node)} = {cut(text_of(value), SHOWN)}"


def equations_in(test: ast.AST, names: Names) -> Iterator[str]:
    """Yield `source = value` for the longest names, attributes and subscripts with a value in a test."""
    if isinstance(test, ast.Name | ast.Attribute | ast.Subscript | ast.Call):
        try:
            value = _value(test, names)
        except (LookupError, AttributeError, TypeError):
            pass
        else:
            if not (isinstance(test, ast.Name) and isinstance(value, Record)):
                yield from equation(test, value)
            if isinstance(test, ast.Subscript):
                yield from equations_in(test.slice, names)
            return
    if isinstance(test, ast.Call):
        yield from _values_in_call(test, names)
    else:
        for child in ast.iter_child_nodes(test):
            yield from equations_in(child, names)


def _values_in_call(call: ast.Call, names: Names) -> Iterator[str]:
    if called(call) == "isinstance" and isinstance(call.args[0], ast.Name):
        yield f"{call.args[0].id} is a {type(names.get(call.args[0].id)).__name__}"
    if isinstance(call.func, ast.Attribute):
        yield from equations_in(call.func.value, names)  # the receiver of the method call
    for argument in (*call.args, *call.keywords):
        yield from equations_in(argument, names)


def _value(node: ast.AST, names: Names) -> Any:
    """Return the value of a name, attribute, subscript, sum or length; call no function but `len`."""
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return names[node.id]
        case ast.Attribute():
            return getattr(_value(node.value, names), node.attr)
        case ast.Subscript():
            return _value(node.value, names)[_value(node.slice, names)]
        case ast.BinOp(op=ast.Add()):
            return _value(node.left, names) + _value(node.right, names)
        case ast.BinOp(op=ast.Sub()):
            return _value(node.left, names) - _value(node.right, names)
        case ast.Call(func=ast.Name("len"), args=[argument]):
            return len(_value(argument, names))
    raise LookupError(ast.dump(node))

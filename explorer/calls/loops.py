"""Rewriting of loops over sets: test an element first, and read its membership only if it passes.

`[m for m in shared.msgs if isinstance(m, Vote) and m.ballot == me.ballot]` depends on the votes of one ballot alone. A
copy of the function iterates over `among(shared.msgs, lambda m: isinstance(m, Vote) and m.ballot == me.ballot)`. For
any set but a `SetProxy` that is the set itself; the loop keeps its tests. Only comparisons, attribute accesses and type
tests are moved, since other tests may have effects. A loop over `ordered(shared.msgs)` sorts the elements that pass;
so do loops over copies of a set. The methods that a handler calls are rewritten too.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable
from copy import copy, deepcopy
from dataclasses import replace
from functools import cache
from itertools import takewhile
from types import FunctionType, MethodType
from typing import Any

from kraftcheck.explorer.calls.proxies import SetProxy
from kraftcheck.spec.diagnosis.source import definition_of, recompiled
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.values import ordered

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

"""Rewriting of loops over sets: test an element first, and read its membership only if it passes.

`[m for m in shared.msgs if isinstance(m, Vote) and m.ballot == me.ballot]` depends on the votes of one ballot alone. A
copy of the function iterates over `among(shared.msgs, lambda m: isinstance(m, Vote) and m.ballot == me.ballot)`. For
any set but a `SetProxy` that is the set itself; the loop keeps its tests. Only comparisons, attribute accesses and type
tests are moved, since other tests may have effects.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import replace
from functools import cache
from itertools import takewhile
from typing import Any

from kraftcheck.explorer.calls.proxies import SetProxy
from kraftcheck.spec.diagnosis.source import definition_of, recompiled
from kraftcheck.spec.language.declarations import Property

AMONG = "__among__"
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
    loops = _Loops()
    loops.visit(copied)
    copied.decorator_list = []
    return recompiled(function, copied, {AMONG: among}) if loops.found else function


@cache
def filtered_property(prop: Property) -> Property:
    """Return a copy of a property whose filtering loops use `among`, renamed so that no probe records it."""
    return replace(prop, name=f"{prop.name} ", function=filtered_function(prop.function))


class _Loops(ast.NodeTransformer):
    """AST transformer that makes loops iterate over `among(set, test)`, where they test each element first."""

    def __init__(self) -> None:
        self.found = 0

    def _among(self, target: ast.expr, elements: ast.expr, tests: list[ast.expr]) -> ast.expr:
        conjuncts = (
            part
            for test in tests
            for part in (test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test])
        )
        simple = list(takewhile(_is_simple, conjuncts))
        if not simple or not isinstance(target, ast.Name):
            return elements
        self.found += 1
        body = deepcopy(simple[0] if len(simple) == 1 else ast.BoolOp(ast.And(), simple))
        argument = ast.arguments([], [ast.arg(target.id)], None, [], [], None, [])
        call = ast.Call(ast.Name(AMONG, ast.Load()), [elements, ast.Lambda(argument, body)], [])
        return ast.fix_missing_locations(ast.copy_location(call, elements))

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


def _is_simple(test: ast.expr) -> bool:
    return all(isinstance(node, _SIMPLE) or _is_type_test(node) for node in ast.walk(test))


def _is_type_test(node: ast.AST) -> bool:
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords
    return is_call and node.func.id == "isinstance"  # type: ignore[attr-defined]

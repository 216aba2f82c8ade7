"""Finds which part of a condition was false: of a property's last statement, or of an `assert`.

A property is a pure function, so parts of what it returned can be evaluated once more with the names that they had.

>>> names = {"votes": (1, 2), "count": 7}
>>> list(false_parts(ast.parse("count < 5 or all(vote < 2 for vote in votes)", mode="eval").body, names, {}))
['count < 5  (count = 7)', 'vote < 2  (vote = 2)']
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from kraftcheck.spec.diagnosis.guards import guard_of
from kraftcheck.spec.diagnosis.source import negated, nodes_of, parsed, source_of_function, values_in
from kraftcheck.spec.diagnosis.tracing import Names, trace_call
from kraftcheck.spec.display import cut

MOST = 4
"""Parts that are shown."""
SHOWN = 200
"""The most characters of a part."""


def why_false(function: Callable[..., Any], *arguments: Any) -> tuple[str, ...]:
    """Return which parts of what a property returned were false, each with the values in it."""
    code = function.__code__
    _, call = trace_call(code, lambda: function(*arguments))
    source = source_of_function(code)
    statement = None if source is None else source.at(call.end)
    if not isinstance(statement, ast.Return) or statement.value is None or not call.moments:
        return ()
    if isinstance(statement.value, ast.Constant):
        guard = guard_of(call)
        return (f"true: {guard.text}",) if guard.text else ()
    return _parts(statement.value, function.__globals__, call.moments[-1].names)


def why_assertion(error: BaseException, place: tuple[str, int]) -> tuple[str, ...]:
    """Return which parts of the test of an `assert` were false, each with the values in it."""
    module, traceback = parsed(place[0]), error.__traceback__
    for node in nodes_of(module, ast.Assert) if module is not None else ():
        if node.lineno <= place[1] <= (node.end_lineno or node.lineno):
            while traceback is not None:
                frame = traceback.tb_frame
                if (frame.f_code.co_filename, traceback.tb_lineno) == place:
                    return _parts(node.test, frame.f_globals, frame.f_locals)
                traceback = traceback.tb_next
    return ()


def _parts(test: ast.expr, outer: Names, names: Names) -> tuple[str, ...]:
    found = [f"false: {part}" for part in dict.fromkeys(false_parts(test, names, outer))]
    return (*found[:MOST], *(["..."] if len(found) > MOST else []))


def false_parts(test: ast.expr, names: Names, outer: Names) -> Iterator[str]:
    """Yield the parts of a false expression on account of which it is false, each with the values in it."""
    try:
        inner = list(_inner(test, _Scope(outer | names)))
    except Exception:  # evaluated once more it raises: it is not pure
        inner = []
    if inner:
        for part, more in inner:
            yield from false_parts(part, names | more, outer)
        return
    values = ", ".join(dict.fromkeys(values_in(test, names)))
    yield cut(ast.unparse(test), SHOWN) + (f"  ({cut(values, SHOWN)})" if values else "")


class _Scope:
    """Evaluates expressions with the names that they had."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def value(self, node: ast.expr) -> Any:
        expression = ast.fix_missing_locations(ast.Expression(node))
        return eval(compile(expression, "<property>", "eval"), dict(self._names))


def _inner(test: ast.expr, scope: _Scope) -> Iterator[tuple[ast.expr, Names]]:
    """Yield the parts on account of which an expression is false, with further names; nothing where it has none."""
    if isinstance(test, ast.BoolOp):
        false = [part for part in test.values if not scope.value(part)]
        yield from ((part, {}) for part in (false[:1] if isinstance(test.op, ast.And) else false))
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inside = test.operand
        if isinstance(inside, ast.BoolOp) and isinstance(inside.op, ast.Or):
            yield negated(next(part for part in inside.values if scope.value(part))), {}
        elif isinstance(inside, ast.Call):
            yield from ((negated(part), more) for part, more in _element(inside, "any", scope, wanted=True))
    elif isinstance(test, ast.IfExp):
        yield (test.body if scope.value(test.test) else test.orelse), {}
    elif isinstance(test, ast.Compare) and len(test.ops) > 1:
        terms = pairwise([test.left, *test.comparators])
        pairs = [ast.Compare(a, [op], [b]) for (a, b), op in zip(terms, test.ops, strict=True)]
        yield next(pair for pair in pairs if not scope.value(pair)), {}
    elif isinstance(test, ast.Call):
        yield from _element(test, "all", scope, wanted=False)


def _element(call: ast.Call, name: str, scope: _Scope, *, wanted: bool) -> Iterator[tuple[ast.expr, Names]]:
    """Yield the first element of `all(... for ...)` or `any(... for ...)` that decides it, with its names."""
    is_it = isinstance(call.func, ast.Name) and call.func.id == name and len(call.args) == 1
    found = call.args[0] if is_it else None
    if not isinstance(found, ast.GeneratorExp | ast.ListComp):
        return
    bound = [node.id for each in found.generators for node in ast.walk(each.target) if isinstance(node, ast.Name)]
    names = ast.Dict([ast.Constant(one) for one in bound], [ast.Name(one, ast.Load()) for one in bound])
    test = found.elt if wanted else ast.UnaryOp(ast.Not(), found.elt)
    *outer, last = found.generators
    last = ast.comprehension(last.target, last.iter, [*last.ifs, test], last.is_async)
    chosen = next(scope.value(ast.GeneratorExp(names, [*outer, last])), None)
    if chosen is not None:
        yield found.elt, chosen

"""Source of the functions that are translated, and which of their variables hold a list, set or dict of their own."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from functools import partial
from types import FunctionType
from typing import Any

from kraftcheck.explorer.bytecode import library
from kraftcheck.spec.diagnosis.lint import PROBE_NAME
from kraftcheck.spec.diagnosis.source import unchanged_definition
from kraftcheck.spec.errors import NoBytecodeError
from kraftcheck.spec.values import ordered

MUTATORS = {"add", "append", "discard", "extend", "pop", "sort", *library.CHANGES}
"""Methods that change a list, a set or a dict in place."""
CacheWrapper = type(functools.cache(len))
"""The type of a function with `functools.cache`."""


def checked_syntax_tree(function: Any) -> ast.FunctionDef:
    """Return the syntax tree of a function, if it is sure to be that of its code."""
    if not isinstance(function, FunctionType) or hasattr(function, "__wrapped__"):
        raise NoBytecodeError(f"a call of {function!r}")
    tree = unchanged_definition(function)
    if tree is None:
        raise NoBytecodeError(f"{function.__qualname__}: its source is not at hand, or has changed")
    return tree


def coverage_probe_number(node: ast.expr) -> int | None:
    """Return the number of the probe that an expression is, or None."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == PROBE_NAME:
        (number,) = node.args
        return number.value if isinstance(number, ast.Constant) and isinstance(number.value, int) else None
    return None


@functools.lru_cache(maxsize=8)
def walrus_variables(tree: ast.AST) -> frozenset[str]:
    """Return the variables that a walrus in a function changes; each read of a variable asks for them."""
    return frozenset(one.target.id for one in ast.walk(tree) if isinstance(one, ast.NamedExpr))


def local_variables(tree: ast.FunctionDef | ast.Module) -> set[str]:
    """Return the local variables of a function, without those of its comprehensions."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            found.update(walrus_variables(node))
            return
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        if isinstance(node, ast.FunctionDef | ast.MatchAs | ast.MatchStar) and node.name is not None:
            found.add(node.name)
        for child in ast.iter_child_nodes(node):
            visit(child)

    for statement in tree.body:
        visit(statement)
    return found


def mutated_variables(tree: ast.FunctionDef | ast.Module) -> set[str]:
    """Return the variables whose lists, sets or dicts a function changes in place."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
            found |= _bare_variable_names(node.func.value)
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            found |= _bare_variable_names(node.value)
        elif isinstance(node, ast.AugAssign):
            names = _bare_variable_names(node.target)
            found |= {name for name in names if any(map(_makes_collection, _values_or_targets_assigned_to(tree, name)))}
    return found


def _bare_variable_names(node: ast.expr) -> set[str]:
    return {node.id} if isinstance(node, ast.Name) else set()


_DISPLAY_NODES = ast.List | ast.Set | ast.Dict | ast.ListComp | ast.SetComp | ast.DictComp
RECOGNIZED_FUNCTIONS: dict[str, Any] = {
    **{one.__name__: one for one in (list, set, dict, sorted, tuple, frozenset, len, isinstance, range)},
    **{one.__name__: one for one in (any, all, sum, min, max, enumerate, zip, reversed, bool)},
    "ordered": ordered,
}
"""Functions that are recognized by their names, or called where a statement does so."""
_COLLECTION_MAKERS = {"list", "set", "dict", "sorted", "ordered"}


def _makes_collection(node: ast.expr | None) -> bool:
    """Return whether an expression makes a list, a set or a dict."""
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _COLLECTION_MAKERS
    return is_call or isinstance(node, _DISPLAY_NODES)


def _values_or_targets_assigned_to(tree: ast.AST, name: str) -> Iterator[ast.expr | None]:
    """Yield the values assigned to a variable alone, and the targets of other assignments to it; None for no value."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            is_alone = [_bare_variable_names(one) for one in node.targets] == [{name}]
            yield from [node.value] if is_alone else (one for one in node.targets if _has_name(one, name, ast.Store))
        elif isinstance(node, ast.AnnAssign) and name in _bare_variable_names(node.target):
            yield node.value
        elif isinstance(node, ast.For | ast.comprehension | ast.NamedExpr) and _has_name(node.target, name, ast.Store):
            yield node.target


def are_only_elements_read(tree: ast.AST, name: str) -> bool:
    """Return whether a variable is assigned once, and each use of it looks at its elements and keeps nothing else."""
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    uses = [one for one in parents if isinstance(one, ast.Name) and one.id == name]
    return len([one for one in uses if isinstance(one.ctx, ast.Store)]) == 1 and all(
        isinstance(one.ctx, ast.Store) or _reads_only_elements(parents[one], one) for one in uses
    )


def _reads_only_elements(parent: ast.AST, node: ast.Name) -> bool:
    if isinstance(parent, ast.For | ast.comprehension):
        return parent.iter is node
    if isinstance(parent, ast.Compare):
        return parent.left is not node and all(isinstance(one, ast.In | ast.NotIn) for one in parent.ops)
    return isinstance(parent, ast.Call) and getattr(parent.func, "id", "") in _READING_BUILTINS and node in parent.args


def _has_name(node: ast.AST, name: str, context: type[ast.expr_context]) -> bool:
    return any(isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, context) for one in ast.walk(node))


def find_aliasing(tree: ast.FunctionDef, name: str) -> ast.AST | None:
    """Return a place where the value of a changed variable gets a second name, or where it is changed in its loop."""
    given = [
        one for one in _values_or_targets_assigned_to(tree, name) if one is not None and not _makes_collection(one)
    ]
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    uses = [one for one in parents if _has_name(one, name, ast.Load) and isinstance(one, ast.Name)]
    loops = [one for one in parents if isinstance(one, ast.For) and _has_name(one.iter, name, ast.Load)]
    escaping = [one for one in uses if not _is_read_only_use(one, parents)]
    return next(iter([*given, *escaping, *filter(partial(_loop_changes_iterated_variable, name), loops)]), None)


def _loop_changes_iterated_variable(name: str, loop: ast.For) -> bool:
    """Return whether a loop's body changes a variable."""
    body = ast.Module(loop.body, [])
    return name in mutated_variables(body) or name in local_variables(body)


_READING_BUILTINS = _COLLECTION_MAKERS | {
    *("len", "any", "all", "sum", "min", "max", "frozenset", "tuple", "Map", "bool", "enumerate", "zip", "reversed"),
}
_TESTING_NODES = ast.If | ast.While | ast.Return
_READING_NODES = ast.BinOp | ast.Compare | ast.For | ast.comprehension | ast.UnaryOp | ast.AugAssign | ast.Starred


def _is_read_only_use(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """Return whether a use of a variable only reads its value, and keeps no reference to it."""
    parent = parents[node]
    if isinstance(parent, ast.Call):
        return isinstance(parent.func, ast.Name) and parent.func.id in _READING_BUILTINS
    if isinstance(parent, ast.Attribute):
        return isinstance(parents[parent], ast.Call)
    if isinstance(parent, ast.Subscript):
        return parent.value is node
    if isinstance(parent, ast.BoolOp):
        return isinstance(parents[parent], _TESTING_NODES | ast.BoolOp)
    return isinstance(parent, _TESTING_NODES | _READING_NODES)

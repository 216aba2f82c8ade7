"""Source of the functions that are translated, and which of their variables hold a list, set or dict of their own."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from types import FunctionType
from typing import Any, NamedTuple

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


class ChangedItem(NamedTuple):
    """An item of a list or dict that a method changes in place, as in `found[key].add(1)`."""

    variable: str
    base: ast.Name  # of the variable
    key: ast.expr
    value: ast.expr  # the item before the change


def item_changed_in_place(node: ast.AST) -> ChangedItem | None:
    """Return the item of a variable that a call changes in place; None for another node."""
    match node:
        case ast.Call(ast.Attribute(ast.Subscript(ast.Name(name) as of, key) as item, method)) if method in MUTATORS:
            return ChangedItem(name, of, key, item)
        case ast.Call(
            ast.Attribute(ast.Call(ast.Attribute(ast.Name(name) as of, "setdefault"), [key, default], []), method)
        ) if method in MUTATORS and _makes_collection(default):
            value = ast.Call(ast.Attribute(of, "get", ast.Load()), [key, default], [])
            return ChangedItem(name, of, key, ast.fix_missing_locations(ast.copy_location(value, node)))
    return None


def mutated_variables(tree: ast.FunctionDef | ast.Module) -> set[str]:
    """Return the variables whose lists, sets or dicts a function changes in place."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
            item = item_changed_in_place(node)
            found |= _bare_variable_names(node.func.value) if item is None else {item.variable}
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            found |= _bare_variable_names(node.value)
        elif isinstance(node, ast.AugAssign):
            names = _bare_variable_names(node.target)
            found |= {name for name in names if any(map(_makes_collection, _values_or_targets_assigned_to(tree, name)))}
    return found


def _bare_variable_names(node: ast.AST) -> set[str]:
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
            yield from _value_or_targets_of_assignment(node, name)
        elif isinstance(node, ast.AnnAssign) and name in _bare_variable_names(node.target):
            yield node.value
        elif isinstance(node, ast.For | ast.comprehension | ast.NamedExpr) and _has_name(node.target, name, ast.Store):
            yield node.target


def _value_or_targets_of_assignment(statement: ast.Assign, name: str) -> Iterator[ast.expr]:
    for targets, value in _parallel_assignments(statement):
        is_alone = [_bare_variable_names(one) for one in targets] == [{name}]
        yield from [value] if is_alone else (one for one in targets if _has_name(one, name, ast.Store))


def _parallel_assignments(statement: ast.Assign) -> list[tuple[list[ast.expr], ast.expr]]:
    """Return the targets and values of an assignment: of `seen, left = set(), []` two, and of any other one."""
    match statement:
        case ast.Assign([ast.Tuple(targets)], ast.Tuple(values)) if len(targets) == len(values):
            if not any(isinstance(one, ast.Starred) for one in (*targets, *values)):
                return [([target], value) for target, value in zip(targets, values, strict=True)]
    return [(statement.targets, statement.value)]


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


def reads_variable(node: ast.AST, name: str) -> bool:
    """Return whether a tree reads a variable."""
    return _has_name(node, name, ast.Load)


def find_aliasing(tree: ast.FunctionDef, name: str) -> ast.AST | None:
    """Return a place where the value of a changed variable gets a second name, or where it is changed in its loop."""
    given = [
        one for one in _values_or_targets_assigned_to(tree, name) if one is not None and not _makes_collection(one)
    ]
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    uses = [one for one in parents if _has_name(one, name, ast.Load) and isinstance(one, ast.Name)]
    loops = [one for one in parents if isinstance(one, ast.For) and _has_name(one.iter, name, ast.Load)]
    escaping = [one for one in uses if not _is_read_only_use(one, parents)]
    items = _second_names_of_items(tree, name, parents)
    return next(iter([*given, *escaping, *items, *filter(partial(_loop_changes_iterated_variable, name), loops)]), None)


def _second_names_of_items(tree: ast.FunctionDef, name: str, parents: Mapping[ast.AST, ast.AST]) -> Iterator[ast.AST]:
    """Yield the uses of a variable by which an item that is changed in place may have or get a second name.

    An item must be made where it is stored. Up to the last change, items may be tested, stored and changed alone.
    """
    items = {node: item for node in ast.walk(tree) if (item := item_changed_in_place(node)) and item.variable == name}
    if items:
        last = max(place for place, one in enumerate(tree.body) if not items.keys().isdisjoint(ast.walk(one)))
        before, own = _nodes_of(tree.body[: last + 1]), {item.base for item in items.values()}
        uses = {one for one in parents if name in _bare_variable_names(one)}
        late = {one for one in uses if isinstance(getattr(one, "ctx", None), ast.Load)} - before
        wrong = {one for one in uses - own - late if not _keeps_items_apart(one, parents)}
        yield from sorted(wrong, key=lambda one: (one.lineno, one.col_offset))  # type: ignore[attr-defined]


def _keeps_items_apart(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Return whether a use of a variable stores items that it makes, deletes one, or tests for a key."""
    parent = parents[node]
    match parent:
        case ast.Assign([target], value) if target is node:
            return _has_fresh_items(value)
        case ast.AnnAssign(target, _, ast.expr() as value) if target is node:
            return _has_fresh_items(value)
        case ast.Compare(left, [ast.In() | ast.NotIn()], [_]):
            return left is not node
        case ast.Subscript(target, _, ast.Store()) if target is node:
            statement = parents[parent]
            is_alone = isinstance(statement, ast.Assign) and statement.targets == [parent]
            return is_alone and _makes_collection(getattr(statement, "value", None))
        case ast.Subscript(target, _, ast.Del()):
            return target is node
    return False


def _nodes_of(trees: Iterable[ast.AST]) -> set[ast.AST]:
    return {node for tree in trees for node in ast.walk(tree)}


def _has_fresh_items(value: ast.expr) -> bool:
    """Return whether a list or dict is empty, or a display of lists, sets and dicts made there."""
    match value:
        case ast.Dict(keys, items):
            return None not in keys and all(map(_makes_collection, items))
        case ast.List(items):
            return all(map(_makes_collection, items))
        case ast.DictComp(_, item) | ast.ListComp(item):
            return _makes_collection(item)
        case ast.Call(ast.Name("dict" | "list"), [], []):
            return True
    return False


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

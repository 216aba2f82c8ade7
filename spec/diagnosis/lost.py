"""Finds what a protocol makes or defines and nothing uses, and what its methods keep outside of states."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from types import FunctionType, ModuleType
from typing import Any

from kraftcheck.spec.diagnosis.never_equal import never_equal
from kraftcheck.spec.diagnosis.source import definition_of, nodes_of
from kraftcheck.spec.errors import near_misses
from kraftcheck.spec.language.network import Network
from kraftcheck.spec.language.protocol import Constant, Protocol
from kraftcheck.spec.language.starts import take
from kraftcheck.spec.language.step import Step, become, consume
from kraftcheck.spec.values import Record

MAKING = (become, consume, Step, take)
"""What makes a step, which a method yields."""
LOSING = {"but", *(name for name, value in vars(Step).items() if name[0] != "_" and isinstance(value, FunctionType))}
"""Methods that return a copy and change nothing."""
CHANGING = {
    "add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "setdefault",
    "update",
}  # fmt: skip
"""Methods that change a list, a set or a dict."""
LANGUAGE = [name for name in vars(Protocol) if name[0] != "_"]


def wrong_in_methods(modules: Iterable[ModuleType]) -> Iterator[str]:
    """Yield warnings about statements in the protocols, the records and the functions of some modules."""
    for module in modules:
        own = [value for value in vars(module).values() if getattr(value, "__module__", None) == module.__name__]
        classes = [one for one in own if isinstance(one, type) and issubclass(one, Record | Protocol)]
        functions: list[tuple[type | None, Any]] = [(cls, value) for cls in classes for value in vars(cls).values()]
        functions += [(None, one) for one in own if not getattr(one, "__name__", "").startswith("test_")]
        for owner, function in functions:
            definition = definition_of(function.__code__) if isinstance(function, FunctionType) else None
            if definition is not None:
                found = [*_lost_steps(definition, function), *_kept_outside(definition, function, owner)]
                found += never_equal(function, owner, definition)
                yield from (f"{function.__code__.co_filename}:{line}: {text}" for line, text in found)


def _lost_steps(definition: ast.FunctionDef, function: FunctionType) -> Iterator[tuple[int, str]]:
    """Yield the line of each statement that makes a step or a copy, and does nothing with it."""
    for node in nodes_of(definition, ast.Expr):
        if not isinstance(node.value, ast.Call):
            continue
        method, root = node.value.func, _root(node.value)
        shown = ast.unparse(node.value).partition("(")[0]
        if function.__globals__.get(root) in MAKING:
            yield node.lineno, f"`{shown}(...)` makes a step that is lost; forgot `yield`?"
        elif isinstance(method, ast.Attribute) and method.attr in LOSING and root in _parameters(definition):
            yield node.lineno, f"`{shown}(...)` returns a copy that is lost; it changes nothing"


def _root(node: ast.expr) -> str:
    """Return the name with which a chain of calls and attributes begins; "" where that is none."""
    while isinstance(node, ast.Call | ast.Attribute):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _parameters(definition: ast.FunctionDef) -> list[str]:
    """Return the parameters of a method but `self`."""
    return [one.arg for one in definition.args.args[1:]]


def _kept_outside(definition: ast.FunctionDef, function: FunctionType, owner: type | None) -> Iterator[tuple[int, str]]:
    """Yield the line of each statement that changes a global or an attribute of a class."""
    stored = [node for node in nodes_of(definition, ast.Name) if isinstance(node.ctx, ast.Store)]
    declared = {name for node in nodes_of(definition, ast.Global) for name in node.names}
    local = {node.id for node in stored} | {one.arg for one in definition.args.args}
    calls = [node.func for node in nodes_of(definition, ast.Call) if isinstance(node.func, ast.Attribute)]
    changed = [method.value for method in calls if method.attr in CHANGING]
    changed += [node.value for node in nodes_of(definition, ast.Subscript) if not isinstance(node.ctx, ast.Load)]
    found: list[ast.expr] = [node for node in stored if node.id in declared]
    for node in changed:
        value = None
        if isinstance(node, ast.Name) and node.id not in local:
            value = function.__globals__.get(node.id)
        elif isinstance(node, ast.Attribute) and owner is not None and _root(node) in ("self", owner.__name__):
            value = getattr(owner, node.attr, None)
        if isinstance(value, list | set | dict):
            found.append(node)
    for node in found:
        yield node.lineno, f"{ast.unparse(node)} is changed and part of no state; equal states may behave otherwise"


def unused(owner: type[Protocol], names: set[str]) -> Iterator[tuple[str, str]]:
    """Yield each attribute and method of a protocol that is no part of the language and that nothing uses."""
    inherited = {name for base in owner.__mro__[1:] for name in vars(base)}
    annotated = dict.fromkeys(vars(owner).get("__annotations__", {}))
    for name, value in (annotated | dict(vars(owner))).items():
        if name[0] == "_" or name in inherited or isinstance(value, Constant | type):
            continue
        if isinstance(value, FunctionType):
            if not vars(value) and name not in names:
                yield name, f"nothing calls {owner.__name__}.{name}{_hint(name, inherited)}"
        elif isinstance(value, Network) or (name not in names and not hasattr(value, "__get__")):
            more = "; constant(...) or bound(...) makes a constant" if name in annotated else ""
            yield name, f"nothing reads {owner.__name__}.{name}{_hint(name, LANGUAGE) or more}"


def _hint(name: str, known: Iterable[str]) -> str:
    near = near_misses(name, [one for one in known if one[0] != "_"])
    return f" (perhaps {' or '.join(near)}?)" if near else ""

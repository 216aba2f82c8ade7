"""Finds what looks like a slip in a model: bounds, constants and fields that nothing reads, messages that nobody takes.

What can only be a mistake is an error where it is met (`language/calling`, `language/protocol`). Here are warnings,
each of which names its place.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

from kraftcheck.spec.diagnosis.lost import unused, wrong_in_methods
from kraftcheck.spec.diagnosis.source import nodes_of, parsed
from kraftcheck.spec.display import text_of
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.state import State
from kraftcheck.spec.loading.classes import modules_of, source_of
from kraftcheck.spec.values import Record, field_names, is_enum

MARKS = {"on", "internal", "environment", "invariant", "step_invariant", "constraint", "action_constraint", "reachable"}
"""Decorators of actions and properties."""
BY_EVERYONE = ("id", "dest", "source")
"""Fields that kraftcheck itself reads."""


def unread(protocol: Protocol, states: Iterable[State]) -> list[str]:
    """Return warnings about bounds, constants and fields of replicas, messages and the shared state that nothing reads.

    A name is read where an attribute or a string of that name stands anywhere in the protocol's modules.
    """
    modules = modules_of(type(protocol))
    files = [path for path in map(source_of, modules) if path is not None and path.is_file()]
    trees = {path: tree for path in files if (tree := parsed(path)) is not None}
    read = {name for tree in trees.values() for name in _names_read(tree)}
    unread = [*_unread_constants(protocol, trees, read), *_unread_fields(protocol, states, trees, read)]
    loaded = [node.id for tree in trees.values() for node in nodes_of(tree, ast.Name) if isinstance(node.ctx, ast.Load)]
    named = read.union(loaded)
    bases = type(protocol).__mro__[: type(protocol).__mro__.index(Protocol)]
    for base in bases if trees else ():
        for name, text in unused(base, named):
            unread.append(f"{_place(base, name, trees) or base.__qualname__}: {text}")
    return [*unread, *_defined_twice(trees), *wrong_in_methods(modules)]


def _defined_twice(trees: dict[Path, ast.Module]) -> Iterator[str]:
    """Yield a warning for each action or property that a class defines twice: the first is lost."""
    for path, tree in trees.items():
        for owner in nodes_of(tree, ast.ClassDef):
            found: dict[str, int] = {}
            for method in owner.body:
                if isinstance(method, ast.FunctionDef):
                    marks = {ast.unparse(mark).partition("(")[0] for mark in method.decorator_list}
                    if method.name in found and marks & MARKS:
                        line = found[method.name]
                        what = f"{owner.name}.{method.name} is defined at line {line} too, which is lost"
                        yield f"{path}:{method.lineno}: {what}"
                    found[method.name] = method.lineno


def slips(protocol: Protocol, *, complete: bool) -> list[str]:
    """Return what looks like a slip, after a search: `unread` and `untaken`."""
    return [*unread(protocol, protocol.initial()), *untaken(protocol, complete=complete)]


def _names_read(tree: ast.Module) -> Iterator[str]:
    yield from (node.attr for node in nodes_of(tree, ast.Attribute) if isinstance(node.ctx, ast.Load))
    yield from (node.value for node in nodes_of(tree, ast.Constant) if isinstance(node.value, str))
    for node in nodes_of(tree, ast.MatchClass):
        yield from node.kwd_attrs


def _unread_constants(protocol: Protocol, trees: dict[Path, ast.Module], read: set[str]) -> Iterator[str]:
    for declared in protocol.constants.values():
        if declared.attribute in read:
            continue
        owner = next(cls for cls in type(protocol).__mro__ if vars(cls).get(declared.attribute) is declared)
        place = _place(owner, declared.attribute, trees)
        if place and declared.is_bound:
            yield f"{place}: no step spends or needs the bound {declared.name} ({owner.__name__}.{declared.attribute})"
        elif place:
            yield f"{place}: nothing reads the constant {declared.name} ({owner.__name__}.{declared.attribute})"


def _unread_fields(
    protocol: Protocol, states: Iterable[State], trees: dict[Path, ast.Module], read: set[str]
) -> Iterator[str]:
    kinds: dict[type, None] = {}
    for state in states:
        kinds |= dict.fromkeys([type(state.shared), *map(type, state.replicas.values())])
    for action in protocol.actions.values():
        kinds |= dict.fromkeys([*action.actors, *action.messages])
    kinds |= dict.fromkeys(kind for kind, _ in protocol.sent)
    for kind in kinds:
        for field in field_names(kind) if issubclass(kind, Record) and kind is not Record else ():
            if field not in read and field not in (*BY_EVERYONE, *protocol.written_only):
                place = _place(kind, field, trees)
                if place:
                    yield f"{place}: nothing reads the field {kind.__name__}.{field}"


def _place(owner: type, name: str, trees: dict[Path, ast.Module]) -> str | None:
    """Return where a class, or a base of it, declares a name; None where its source cannot be found."""
    for cls in owner.__mro__:
        if name not in vars(cls).get("__annotations__", {}) and name not in vars(cls):
            continue
        for path, tree in trees.items():
            for node in nodes_of(tree, ast.ClassDef):
                if node.name == cls.__name__ and _is_in(cls, path):
                    for line in node.body:
                        if name in _targets(line):
                            return f"{path}:{line.lineno}"
    return None


def _is_in(cls: type, path: Path) -> bool:
    module = inspect.getmodule(cls)
    return module is not None and source_of(module) == path


def _targets(line: ast.stmt) -> list[str]:
    if isinstance(line, ast.FunctionDef):
        return [line.name]
    if not isinstance(line, ast.AnnAssign | ast.Assign):
        return []
    targets = [line.target] if isinstance(line, ast.AnnAssign) else line.targets
    return [target.id for target in targets if isinstance(target, ast.Name)]


def untaken(protocol: Protocol, *, complete: bool) -> list[str]:
    """Return warnings about messages that nobody takes, after a search."""
    handled = tuple(kind for action in protocol.actions.values() for kind in action.messages)
    reads = [read for action in protocol.actions.values() for read in action.reads if read.of_inbox]
    reads += [read for prop in protocol.properties.values() for read in prop.reads if read.of_inbox]
    warnings: dict[str, None] = {}
    for (kind, dest), action in protocol.sent.items():
        where = f"{place_of(protocol.actions[action.name].function)}: {action.name}"  # the engine may have wrapped it
        if not issubclass(kind, handled) and not any(_names(read.function.__code__, kind.__name__) for read in reads):
            warnings[f"{where} sends {kind.__name__}, which no @on takes"] = None
        elif (complete or is_enum(type(dest))) and protocol.ids and dest not in protocol.ids:
            warnings[f"{where} sends {kind.__name__} to {text_of(dest)}, which is no replica in any state"] = None
    return list(warnings)


def _names(code: CodeType, name: str) -> bool:
    """Whether a function names a class; one that reads messages under way may take them without an action on them."""
    return name in code.co_names or any(_names(one, name) for one in code.co_consts if isinstance(one, CodeType))


def place_of(function: Callable[..., Any]) -> str:
    """Return the file and the line of a function."""
    code = function.__code__
    return f"{code.co_filename}:{code.co_firstlineno}"

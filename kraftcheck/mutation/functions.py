"""Finds the functions of a protocol that may be changed: its actions, and what they call in the protocol's modules."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from kraftcheck.catalogue import Model
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.loading.classes import modules_of, source_of

LANGUAGE = Path(__file__).resolve().parents[1]
CHECKS = ("property_mark", "projection", "scenario")
"""What marks methods that are never changed: properties are the checks, the others are not what an action does."""


class SourceFile:
    """The source of a module."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = path.read_bytes()
        self.lines = self.text.splitlines(keepends=True)
        self._starts = [0]
        for line in self.lines:
            self._starts.append(self._starts[-1] + len(line))

    @cached_property
    def definitions(self) -> dict[tuple[str, int], ast.FunctionDef]:
        """The definitions of functions, by name and first line: that of the first decorator."""
        found = {}
        for node in ast.walk(ast.parse(self.text)):
            if isinstance(node, ast.FunctionDef):
                first = min([node.lineno, *[decorator.lineno for decorator in node.decorator_list]])
                found[node.name, first] = node
        return found

    def span(self, node: Any) -> tuple[int, int]:
        """Return where a node of the syntax tree begins in the source, and where it ends."""
        begin = self._starts[node.lineno - 1] + node.col_offset
        return begin, self._starts[node.end_lineno - 1] + node.end_col_offset


class ChangeableFunction(NamedTuple):
    """A function that may be changed."""

    function: Any
    source: SourceFile  # the source of its module
    definition: ast.FunctionDef  # its definition in it


def changeable_modules(model: Model, protocol: type[Protocol]) -> list[ModuleType]:
    """Return the modules whose functions may be changed."""
    with_source = [(module, source_of(module)) for module in modules_of(protocol)]
    if model.file is None:
        return [module for module, path in with_source if path is not None]
    ours = [(LANGUAGE / part).resolve() for part in ("spec", "kraft_model", "explorer", "traces")]
    return [
        module
        for module, path in with_source
        if path is not None and not any(folder in path.parents for folder in (*ours, LANGUAGE))
    ]


def changeable_functions(protocol: type[Protocol], modules: list[ModuleType]) -> list[ChangeableFunction]:
    """Return the functions that may be changed, in the order of their modules and lines.

    These are the protocol's actions, and what they call by name in the given modules, also by way of others.
    Properties, projections, named starts and `initial` are not among them.
    """
    sources = {str(module.__file__): SourceFile(Path(str(module.__file__))) for module in modules}
    result = []
    for function in dict.fromkeys(one for found in functions_of_actions(protocol, modules).values() for one in found):
        code = function.__code__
        source = sources.get(code.co_filename)
        definition = source and source.definitions.get((code.co_name, code.co_firstlineno))
        if source and definition:
            result.append(ChangeableFunction(function, source, definition))
    return sorted(result, key=lambda one: (str(one.source.path), one.definition.lineno))


def functions_of_actions(protocol: type[Protocol], modules: list[ModuleType]) -> dict[str, list[FunctionType]]:
    """Return for each action the functions that it may call, itself included, by way of others too."""
    names = {module.__name__ for module in modules}
    calls: dict[FunctionType, list[FunctionType]] = {}
    result = {}
    for action in protocol.actions.values():
        found = _reached_from([action.function], protocol, modules, calls)
        result[action.name] = [function for function in found if function.__module__ in names]
    return result


def functions_of_projections(protocol: type[Protocol], modules: list[ModuleType]) -> list[FunctionType]:
    """Return the functions that projections which actions read may call, by way of others too."""
    read = dict.fromkeys(one.function for action in protocol.actions.values() for one in action.reads)
    return list(_reached_from(read, protocol, modules, {}))


def _reached_from(
    firsts: Iterable[Any],
    protocol: type[Protocol],
    modules: list[ModuleType],
    calls: dict[FunctionType, list[FunctionType]],
) -> dict[FunctionType, None]:
    """Return functions and what they may call, by way of others too; `calls` has what each was found to call."""
    waiting = [one for one in map(_function_of, firsts) if one is not None]
    found = dict[FunctionType, None]()
    while waiting:
        function = waiting.pop()
        if function in found:
            continue
        found[function] = None
        if function not in calls:
            calls[function] = list(_called_by(function, protocol, modules))
        waiting += calls[function]
    return found


def memories_of(modules: Iterable[ModuleType]) -> list[Callable[[], object]]:
    """Return what makes the memoised functions of modules, and the memoised methods of their classes, forget."""
    found = dict[int, Callable[[], object]]()
    for module in modules:
        for value in vars(module).values():
            for one in (value, *(vars(value).values() if isinstance(value, type) else ())):
                behind = one.fget if isinstance(one, property) else getattr(one, "__func__", one)
                forget = getattr(behind, "cache_clear", None)
                if callable(forget):
                    found[id(behind)] = forget
    return list(found.values())


def _called_by(function: FunctionType, protocol: type[Protocol], modules: list[ModuleType]) -> Iterator[FunctionType]:
    """Yield the functions that a function may call itself."""
    names = {module.__name__ for module in modules}
    for name in _names_in(function.__code__):
        for called in map(_function_of, _named(name, function, protocol, modules)):
            if called is not None and called.__module__ in names and _may_change(called):
                yield called


def _names_in(code: CodeType) -> Iterator[str]:
    """Yield the names that a function uses, those of functions within it included."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names_in(inner)


def _named(name: str, user: FunctionType, protocol: type[Protocol], modules: list[ModuleType]) -> Iterator[Any]:
    """Yield the functions for which a name may stand where a function uses it."""
    yield user.__globals__.get(name)
    owners = [base for base in protocol.__mro__ if name in vars(base)]
    yield from (vars(base)[name] for base in (owners if "super" in user.__code__.co_names else owners[:1]))
    for module in modules:
        for cls in vars(module).values():
            if isinstance(cls, type) and not issubclass(cls, Protocol) and name in vars(cls):
                yield vars(cls)[name]


def _may_change(function: FunctionType) -> bool:
    if function.__name__ == "initial" or function.__name__.startswith("__"):
        return False
    return not any(hasattr(function, mark) for mark in CHECKS)


def _function_of(value: Any) -> FunctionType | None:
    """Return the function behind a method, a property or a memoised function."""
    if isinstance(value, property):
        value = value.fget
    value = getattr(value, "func", getattr(value, "__func__", value))
    value = inspect.unwrap(value) if callable(value) else value
    return value if isinstance(value, FunctionType) else None

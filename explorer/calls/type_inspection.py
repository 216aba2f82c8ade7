"""Detection of methods that inspect the type of a record: a proxy answers `type(peer) is Server` differently."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from kraftcheck.spec.discovery import modules_of
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.values import cached

REVEALING = {"type", "vars", "__dict__"}
"""Names by which code can tell a proxy from its record."""
LANGUAGE, MODELS = "kraftcheck.", ("kraftcheck.spec.examples.", "kraftcheck.kraft_model.")
MOST_WRAPPED = 4
"""Most wrappers around a function, for example a property of a memoized function."""

Named = dict[str, list[FunctionType]]


def note_types(protocol: Protocol) -> set[str]:
    """Record and return the names of actions and properties that may inspect a type, directly or transitively."""
    methods, known = _methods(type(protocol)), dict[FunctionType, bool]()
    owners: list[Any] = [*protocol.actions.values(), *protocol.properties.values()]
    protocol.by_type = found = {owner.name for owner in owners if _inspects_types(owner.function, methods, known)}
    return found


@cached
def _methods(protocol: type[Protocol]) -> Named:
    """Return the methods of a protocol and of the classes in its modules, by name."""
    found: Named = defaultdict(list)
    classes: list[type] = [*protocol.__mro__, *(one for module in modules_of(protocol) for one in _classes(module))]
    for cls in dict.fromkeys(classes):
        if not _is_language(cls):
            for name, value in vars(cls).items():
                found[name] += _behind(value)
    return found


def _classes(module: ModuleType) -> list[type]:
    return [one for one in vars(module).values() if isinstance(one, type)]


def _is_language(value: Any) -> bool:
    module = str(value.__module__)  # generated code has none
    return module.startswith(LANGUAGE) and not module.startswith(MODELS)


def _behind(value: Any) -> list[FunctionType]:
    """Return the function inside of a method, a property or a memoized function."""
    for _ in range(MOST_WRAPPED):
        if isinstance(value, FunctionType):
            return [] if _is_language(value) else [value]
        if value is None or isinstance(value, type):
            break
        inner = (getattr(value, name, None) for name in ("fget", "__func__", "func", "__wrapped__", "method"))
        value = next(filter(callable, inner), None)
    return []


def _inspects_types(function: Callable[..., Any], methods: Named, known: dict[FunctionType, bool]) -> bool:
    """Whether a function may inspect a type, directly or transitively; an unknown function counts as yes."""
    waiting, seen = _behind(function), set[FunctionType]()
    if not waiting:
        return True
    while waiting:
        one = waiting.pop()
        if one in seen or known.get(one) is False:
            continue
        seen.add(one)
        names = set(_names(one.__code__))
        if known.get(one) or names & REVEALING:
            known[one] = True
            return True
        waiting += _called(one, names, methods)
    known.update(dict.fromkeys(seen, False))
    return False


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names that a function uses, including those of inner functions."""
    yield from (*code.co_names, *code.co_freevars)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


def _called(function: FunctionType, names: set[str], methods: Named) -> Iterator[FunctionType]:
    """Yield the functions that the names used by a function may refer to."""
    closure = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    cells = {name: cell.cell_contents for name, cell in closure if _is_filled(cell)}
    for name in names:
        if name.startswith("@"):  # added by pytest's rewriting of asserts
            continue
        value = cells.get(name, function.__globals__.get(name))
        yield from _behind(value)
        yield from methods.get(name, ())
        if isinstance(value, ModuleType):
            yield from (found for inner in names for found in _behind(vars(value).get(inner)))


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False

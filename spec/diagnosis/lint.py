"""Lint warnings for a model: unused declarations, unhandled messages, lost steps, comparisons of disjoint types.

Certain mistakes raise errors elsewhere (`language/semantics`, `language/protocol`). A warning names its file and line.
"""

from __future__ import annotations

import ast
import enum
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from types import CodeType, FunctionType, ModuleType, NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from kraftcheck.spec.diagnosis.source import definition_of, nodes_of, parsed
from kraftcheck.spec.discovery import modules_of, source_of
from kraftcheck.spec.errors import near_misses
from kraftcheck.spec.kinds import describe_type
from kraftcheck.spec.language.declarations import Action, Property
from kraftcheck.spec.language.network import Network
from kraftcheck.spec.language.protocol import Constant, Protocol
from kraftcheck.spec.language.semantics import take
from kraftcheck.spec.language.state import State, Step, become, consume
from kraftcheck.spec.values import Map, ModelValue, Record, Value, field_names, field_types, is_enum, text_of

Kinds = tuple[Any, ...] | None
"""The possible types of a value; None if unknown."""

_LITERALS = {ast.Tuple: tuple, ast.List: list, ast.Set: frozenset, ast.SetComp: frozenset, ast.ListComp: list}
_PLAIN = (bool, int, str, NoneType, ModelValue, tuple, list, frozenset, Map)


def never_equal(function: FunctionType, owner: type | None, definition: ast.FunctionDef) -> Iterator[tuple[int, str]]:
    """Yield (line, warning) for each comparison in a method between values of types that are never equal."""
    compared = [node for node in nodes_of(definition, ast.Compare) if len(node.ops) == 1]
    if not compared:
        return
    types = _Types(function, owner, definition)
    for node in compared:
        left, right = types.of(node.left), types.other(node.ops[0], node.comparators[0])
        if left and right and not any(_may_equal(one, other) for one in left for other in right):
            told = [" or ".join(dict.fromkeys(map(describe_type, kinds))) for kinds in (left, right)]
            yield node.lineno, f"`{ast.unparse(node)}` compares {told[0]} with {told[1]}, which are never equal"


class _Types:
    """Type inference for the expressions of one method."""

    def __init__(self, function: FunctionType, owner: type | None, definition: ast.FunctionDef) -> None:
        self._globals = function.__globals__
        known = {name: _choices(kind) for name, kind in _hints(function).items()}
        if owner is not None and definition.args.args:
            known[definition.args.args[0].arg] = (owner,)
        inner: list[Any] = [*nodes_of(definition, ast.Lambda), *nodes_of(definition, ast.FunctionDef)[1:]]
        stored = {node.id for node in nodes_of(definition, ast.Name) if isinstance(node.ctx, ast.Store)}
        stored |= {one.arg for node in inner for one in node.args.args}
        self._names = {name: kinds for name, kinds in known.items() if name not in stored}

    def of(self, node: ast.expr) -> Kinds:
        """Return the possible types of an expression."""
        if isinstance(node, ast.Constant):
            return (type(node.value),) if type(node.value) in _PLAIN else None
        if isinstance(node, ast.Name):
            return self._names.get(node.id)
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        kind = _LITERALS.get(type(node))
        return None if kind is None else (kind,)

    def other(self, operator: ast.cmpop, node: ast.expr) -> Kinds:
        """Return the types of a comparison's right operand; for `in`, the types of its elements."""
        if isinstance(operator, ast.Eq | ast.NotEq | ast.Is | ast.IsNot):
            return self.of(node)
        if not isinstance(operator, ast.In | ast.NotIn):
            return None
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            return _united(map(self.of, node.elts))
        return _united(map(_elements, self.of(node) or (Any,)))

    def _attribute(self, node: ast.Attribute) -> Kinds:
        if isinstance(node.value, ast.Name) and node.value.id not in self._names:
            cls: Any = self._globals.get(node.value.id)
            return (cls,) if is_enum(cls) and node.attr in cls.__members__ else None
        owners = self.of(node.value)
        return None if owners is None else _united(_choices(_fields(one).get(node.attr, Any)) for one in owners)


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function)
    except Exception:  # annotations may raise any error
        return {}


def _fields(owner: Any) -> Mapping[str, Any]:
    try:
        if isinstance(owner, type) and issubclass(owner, Record):
            return field_types(owner)
        if isinstance(owner, type) and issubclass(owner, Protocol):
            constants = {declared.attribute for declared in owner.constants.values()}
            return {name: kind for name, kind in get_type_hints(owner).items() if name in constants}
    except NameError:
        pass
    return {}


def _choices(kind: Any) -> Kinds:
    """Return the alternatives of a type, several for a union; None if `_may_equal` does not support one of them."""
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _united(map(_choices, get_args(kind)))
    if origin is Literal:
        return tuple(dict.fromkeys(map(type, get_args(kind))))
    plain = origin or kind
    is_known = isinstance(plain, type) and (plain in _PLAIN or is_enum(plain) or issubclass(plain, Record))
    return (kind,) if is_known and plain is not Record else None


def _elements(kind: Any) -> Kinds:
    """Return the types of a collection's elements, or of a map's keys."""
    arguments = get_args(kind)
    if get_origin(kind) in (frozenset, Map) or (get_origin(kind) is tuple and arguments[-1] is Ellipsis):
        return _choices(arguments[0])
    return None


def _united(parts: Iterable[Kinds]) -> Kinds:
    found = list(parts)
    return None if None in found else tuple(kind for kinds in found for kind in kinds or ())


def _may_equal(one: Any, other: Any) -> bool:
    """Return whether values of two types may be equal, as 1 and True are."""
    first, second = get_origin(one) or one, get_origin(other) or other
    return issubclass(first, second) or issubclass(second, first) or _is_one_kind(first, second)


def _is_one_kind(first: type, second: type) -> bool:
    numbers = issubclass(first, int) and issubclass(second, int)
    texts = issubclass(first, str) and issubclass(second, str)
    return (numbers or texts) and not (issubclass(first, enum.Enum) and issubclass(second, enum.Enum))


MAKING = (become, consume, Step, take)
"""Functions that make a step, which a method must yield."""
LOSING = {"but", *(name for name, value in vars(Step).items() if name[0] != "_" and isinstance(value, FunctionType))}
"""Methods that return a copy."""
CHANGING = {
    "add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "setdefault",
    "update",
}  # fmt: skip
"""Methods that mutate a list, a set or a dict."""
LANGUAGE = [name for name in vars(Protocol) if name[0] != "_"]


def wrong_in_methods(modules: Iterable[ModuleType]) -> Iterator[str]:
    """Yield warnings about statements in the protocols, records and functions of modules."""
    for owner, function in (pair for module in modules for pair in _functions_of(module)):
        definition = definition_of(function.__code__) if isinstance(function, FunctionType) else None
        if definition is not None:
            found = [*_lost_steps(definition, function), *_kept_outside(definition, function, owner)]
            found += never_equal(function, owner, definition)
            yield from (f"{function.__code__.co_filename}:{line}: {text}" for line, text in found)


def _functions_of(module: ModuleType) -> Iterator[tuple[type | None, Any]]:
    """Yield (class, attribute) for a module's records and protocols, and (None, value) for each of its own values."""
    own = [value for value in vars(module).values() if getattr(value, "__module__", None) == module.__name__]
    classes = [one for one in own if isinstance(one, type) and issubclass(one, Record | Protocol)]
    yield from ((cls, value) for cls in classes for value in vars(cls).values())
    yield from ((None, one) for one in own if not getattr(one, "__name__", "").startswith("test_"))


def _lost_steps(definition: ast.FunctionDef, function: FunctionType) -> Iterator[tuple[int, str]]:
    """Yield (line, warning) for each statement that makes a step or a copy of a record and discards it."""
    for node in nodes_of(definition, ast.Expr):
        if not isinstance(node.value, ast.Call):
            continue
        method, root = node.value.func, _root(node.value)
        shown = ast.unparse(node.value).partition("(")[0]
        if function.__globals__.get(root) in MAKING:
            yield node.lineno, f"`{shown}(...)` makes a step that is discarded; forgot `yield`?"
        elif isinstance(method, ast.Attribute) and method.attr in LOSING and root in _parameters(definition):
            yield node.lineno, f"`{shown}(...)` returns a copy that is discarded; the original is unchanged"


def _root(node: ast.expr) -> str:
    """Return the name at the root of a chain of calls and attributes; "" if the root is not a name."""
    while isinstance(node, ast.Call | ast.Attribute):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _parameters(definition: ast.FunctionDef) -> list[str]:
    """Return the parameters of a method except `self`."""
    return [one.arg for one in definition.args.args[1:]]


def _kept_outside(definition: ast.FunctionDef, function: FunctionType, owner: type | None) -> Iterator[tuple[int, str]]:
    """Yield (line, warning) for each statement that mutates a global or a class attribute."""
    stored = [node for node in nodes_of(definition, ast.Name) if isinstance(node.ctx, ast.Store)]
    declared = {name for node in nodes_of(definition, ast.Global) for name in node.names}
    local = {node.id for node in stored} | {one.arg for one in definition.args.args}

    def outside(node: ast.expr) -> object:
        if isinstance(node, ast.Name) and node.id not in local:
            return function.__globals__.get(node.id)
        if isinstance(node, ast.Attribute) and owner is not None and _root(node) in ("self", owner.__name__):
            return getattr(owner, node.attr, None)
        return None

    found: list[ast.expr] = [node for node in stored if node.id in declared]
    found += [node for node in _changed(definition) if isinstance(outside(node), list | set | dict)]
    for node in found:
        yield node.lineno, f"{ast.unparse(node)} is mutated outside the state; equal states may behave differently"


def _changed(definition: ast.FunctionDef) -> Iterator[ast.expr]:
    """Yield the collections that a method mutates."""
    calls = [node.func for node in nodes_of(definition, ast.Call) if isinstance(node.func, ast.Attribute)]
    yield from (method.value for method in calls if method.attr in CHANGING)
    yield from (node.value for node in nodes_of(definition, ast.Subscript) if not isinstance(node.ctx, ast.Load))


def unused(owner: type[Protocol], names: set[str]) -> Iterator[tuple[str, str]]:
    """Yield (name, warning) for each unused attribute or method that a protocol class adds to its bases."""
    inherited = {name for base in owner.__mro__[1:] for name in vars(base)}
    annotated = dict.fromkeys(vars(owner).get("__annotations__", {}))
    own = {name: value for name, value in (annotated | dict(vars(owner))).items() if name not in inherited}
    for name, value in own.items():
        if name[0] == "_" or isinstance(value, Constant | type):
            continue
        if isinstance(value, FunctionType):
            if not (vars(value) or name in names):
                yield name, f"nothing calls {owner.__name__}.{name}{_hint(name, inherited)}"
        elif isinstance(value, Network) or not (name in names or hasattr(value, "__get__")):
            hint = _hint(name, LANGUAGE) or ("; constant(...) or bound(...) makes a constant" * (name in annotated))
            yield name, f"nothing reads {owner.__name__}.{name}{hint}"


def _hint(name: str, known: Iterable[str]) -> str:
    near = near_misses(name, [one for one in known if one[0] != "_"])
    return f" (perhaps {' or '.join(near)}?)" if near else ""


MARKS = {"on", "internal", "environment", "invariant", "step_invariant", "constraint", "action_constraint", "reachable"}
"""Decorators of actions and properties."""
BY_EVERYONE = ("id", "dest", "source")
"""Fields that kraftcheck itself reads."""


def unused_declarations(protocol: Protocol, states: Iterable[State]) -> list[str]:
    """Return warnings about unread bounds, constants, and fields of replicas, messages and the shared state.

    A name counts as read if an attribute or a string equal to it occurs anywhere in the protocol's modules.
    """
    modules = modules_of(type(protocol))
    files = [path for path in map(source_of, modules) if path is not None and path.is_file()]
    trees = {path: tree for path in files if (tree := parsed(path)) is not None}
    read = {name for tree in trees.values() for name in _names_read(tree)}
    return [
        *_unread_constants(protocol, trees, read),
        *_unread_fields(protocol, states, trees, read),
        *(_unused_names(type(protocol), trees, read) if trees else ()),
        *_defined_twice(trees),
        *wrong_in_methods(modules),
    ]


def _unused_names(protocol: type[Protocol], trees: dict[Path, ast.Module], read: set[str]) -> Iterator[str]:
    loaded = [node.id for tree in trees.values() for node in nodes_of(tree, ast.Name) if isinstance(node.ctx, ast.Load)]
    declared = [found for found in protocol.specifications.values() if isinstance(found, tuple)]
    loaded += [one.when for one in chain.from_iterable(declared)]
    for base in protocol.__mro__[: protocol.__mro__.index(Protocol)]:
        for name, text in unused(base, read.union(loaded)):
            yield f"{_place(base, name, trees) or base.__qualname__}: {text}"


def _defined_twice(trees: dict[Path, ast.Module]) -> Iterator[str]:
    """Yield a warning for each action or property that its class defines twice."""
    for path, tree in trees.items():
        for owner in nodes_of(tree, ast.ClassDef):
            found: dict[str, int] = {}
            for method in owner.body:
                if isinstance(method, ast.FunctionDef):
                    marks = {ast.unparse(mark).partition("(")[0] for mark in method.decorator_list}
                    if method.name in found and marks & MARKS:
                        line = found[method.name]
                        what = f"{owner.name}.{method.name} is defined at line {line} too; that one is overridden"
                        yield f"{path}:{method.lineno}: {what}"
                    found[method.name] = method.lineno


def lint(protocol: Protocol, *, complete: bool) -> list[str]:
    """Return all lint warnings after a search: unused declarations, and unhandled messages."""
    return [*unused_declarations(protocol, protocol.initial()), *unhandled_messages(protocol, complete=complete)]


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
    kinds = [type(one) for state in states for one in (state.shared, *state.replicas.values())]
    kinds += [kind for action in protocol.actions.values() for kind in (*action.actors, *action.messages)]
    kinds += [kind for kind, _ in protocol.sent]
    known = {*read, *BY_EVERYONE, *protocol.written_only}
    for kind in dict.fromkeys(kinds):
        for field in field_names(kind) if issubclass(kind, Record) and kind is not Record else ():
            place = None if field in known else _place(kind, field, trees)
            if place:
                yield f"{place}: nothing reads the field {kind.__name__}.{field}"


def _place(owner: type, name: str, trees: dict[Path, ast.Module]) -> str | None:
    """Return the place where a class, or a base of it, declares a name; None without a source."""
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


def unhandled_messages(protocol: Protocol, *, complete: bool) -> list[str]:
    """Return warnings about sent messages that no action handles, after a search."""
    handled = tuple(kind for action in protocol.actions.values() for kind in action.messages)
    readers: list[Action | Property] = [*protocol.actions.values(), *protocol.properties.values()]
    codes = [read.function.__code__ for reader in readers for read in reader.reads if read.of_inbox]
    warnings: dict[str, None] = {}
    for (kind, dest), action in protocol.sent.items():
        where = f"{_line_of(protocol.actions[action.name].function)}: {action.name}"  # may be wrapped
        if not (issubclass(kind, handled) or any(_names(code, kind.__name__) for code in codes)):
            warnings[f"{where} sends {kind.__name__}, which no @on action handles"] = None
        elif protocol.ids and dest not in protocol.ids and (complete or is_enum(type(dest))):
            warnings[f"{where} sends {kind.__name__} to {text_of(dest)}, which is not a replica in any state"] = None
        elif complete and _is_misdirected(protocol, kind, dest):
            sent = kind.__name__
            warnings[f"{where} sends {sent} to {text_of(dest)}; no @on({sent}) action has a `me` of that type"] = None
    return list(warnings)


def _is_misdirected(protocol: Protocol, kind: type, dest: Value) -> bool:
    """Whether actions handle a type of message, but all for replicas of other types than the destination."""
    actors = [action.actors for action in protocol.actions.values() if issubclass(kind, action.messages)]
    types = protocol.ids.get(dest, ())
    return bool(actors and types) and not any(issubclass(one, some) for some in actors for one in types)


def _names(code: CodeType, name: str) -> bool:
    """Whether a function, or a function inside it, refers to a class by name."""
    return name in code.co_names or any(_names(one, name) for one in code.co_consts if isinstance(one, CodeType))


def _line_of(function: Callable[..., Any]) -> str:
    """Return the file and the line of a function."""
    code = function.__code__
    return f"{code.co_filename}:{code.co_firstlineno}"

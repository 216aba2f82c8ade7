"""Mutants: the functions of a protocol that may be changed, and their code with one mutation in it."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from inspect import CO_GENERATOR
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from kraftcheck.catalogue import Model
from kraftcheck.mutation.operators import Mutation, MutationFinder, RecordClasses
from kraftcheck.spec.discovery import project_modules_of_protocol, source_path
from kraftcheck.spec.language.protocol import Protocol

PACKAGE_FOLDER = Path(__file__).resolve().parents[1]
UNMUTATED_FUNCTION_MARKS = ("property_mark", "projection", "scenario")
"""Marks of methods that are never mutated: properties are the checks, and the others are no part of actions."""


class SourceFile:
    """Source of a module."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = path.read_bytes()
        self.lines = self.text.splitlines(keepends=True)
        self._starts = [0]
        for line in self.lines:
            self._starts.append(self._starts[-1] + len(line))

    @cached_property
    def definitions(self) -> dict[tuple[str, int], ast.FunctionDef]:
        """Definitions of functions, by name and first line; the first line may be a decorator's."""
        found = {}
        for node in ast.walk(ast.parse(self.text)):
            if isinstance(node, ast.FunctionDef):
                first = min([node.lineno, *[decorator.lineno for decorator in node.decorator_list]])
                found[node.name, first] = node
        return found

    def span(self, node: Any) -> tuple[int, int]:
        """Return the begin and the end of a syntax node in the source."""
        begin = self._starts[node.lineno - 1] + node.col_offset
        return begin, self._starts[node.end_lineno - 1] + node.end_col_offset


class ChangeableFunction(NamedTuple):
    """A function that may be mutated."""

    function: Any
    source: SourceFile  # the source of its module
    definition: ast.FunctionDef  # its definition in that source


def changeable_modules(model: Model, protocol: type[Protocol]) -> list[ModuleType]:
    """Return the modules whose functions may be mutated."""
    with_source = [(module, source_path(module)) for module in project_modules_of_protocol(protocol)]
    if model.file is None:
        return [module for module, path in with_source if path is not None]
    ours = [(PACKAGE_FOLDER / part).resolve() for part in ("spec", "kraft_model", "explorer", "traces")]
    return [
        module
        for module, path in with_source
        if path is not None and not any(folder in path.parents for folder in (*ours, PACKAGE_FOLDER))
    ]


def changeable_functions(protocol: type[Protocol], modules: list[ModuleType]) -> list[ChangeableFunction]:
    """Return the functions that may be mutated, in the order of their modules and lines.

    These are the protocol's actions, and functions of the given modules that they call by name, directly or
    transitively. Properties, projections, scenarios and `initial` are excluded.
    """
    sources = {str(module.__file__): SourceFile(Path(str(module.__file__))) for module in modules}
    result = []
    for function in dict.fromkeys(one for found in functions_by_action(protocol, modules).values() for one in found):
        code = function.__code__
        source = sources.get(code.co_filename)
        definition = source and source.definitions.get((code.co_name, code.co_firstlineno))
        if source and definition:
            result.append(ChangeableFunction(function, source, definition))
    return sorted(result, key=lambda one: (str(one.source.path), one.definition.lineno))


def functions_by_action(protocol: type[Protocol], modules: list[ModuleType]) -> dict[str, list[FunctionType]]:
    """Return for each action the functions that it may call, directly or transitively, including itself."""
    names = {module.__name__ for module in modules}
    calls: dict[FunctionType, list[FunctionType]] = {}
    result = {}
    for action in protocol.actions.values():
        found = _transitive_calls([action.function], protocol, modules, calls)
        result[action.name] = [function for function in found if function.__module__ in names]
    return result


def functions_of_projections(protocol: type[Protocol], modules: list[ModuleType]) -> list[FunctionType]:
    """Return the functions that the projections read by actions may call, directly or transitively."""
    read = dict.fromkeys(one.function for action in protocol.actions.values() for one in action.reads)
    return list(_transitive_calls(read, protocol, modules, {}))


def _transitive_calls(
    firsts: Iterable[Any],
    protocol: type[Protocol],
    modules: list[ModuleType],
    calls: dict[FunctionType, list[FunctionType]],
) -> dict[FunctionType, None]:
    """Return the given functions and those that they may call, transitively; `calls` caches the direct calls."""
    waiting = [one for one in map(_undecorated_function, firsts) if one is not None]
    found = dict[FunctionType, None]()
    while waiting:
        function = waiting.pop()
        if function in found:
            continue
        found[function] = None
        if function not in calls:
            calls[function] = list(_direct_calls(function, protocol, modules))
        waiting += calls[function]
    return found


def cache_clearers(modules: Iterable[ModuleType]) -> list[Callable[[], object]]:
    """Return functions that clear the caches of memoized functions and methods in the given modules."""
    found = dict[int, Callable[[], object]]()
    for module in modules:
        for value in vars(module).values():
            for one in (value, *(vars(value).values() if isinstance(value, type) else ())):
                behind = one.fget if isinstance(one, property) else getattr(one, "__func__", one)
                forget = getattr(behind, "cache_clear", None)
                if callable(forget):
                    found[id(behind)] = forget
    return list(found.values())


@contextmanager
def disabled_cached_properties(modules: Iterable[ModuleType]) -> Iterator[None]:
    """Compute the cached properties of classes at each access within the block: a value may outlive the mutant."""
    named = [(module, value) for module in modules for value in vars(module).values() if isinstance(value, type)]
    classes = [cls for module, cls in named if cls.__module__ == module.__name__]
    cached = [
        (cls, name, one) for cls in classes for name, one in vars(cls).items() if isinstance(one, cached_property)
    ]
    for cls, name, one in cached:
        setattr(cls, name, property(one.func))
    try:
        yield
    finally:
        for cls, name, one in cached:
            setattr(cls, name, one)


def _direct_calls(
    function: FunctionType, protocol: type[Protocol], modules: list[ModuleType]
) -> Iterator[FunctionType]:
    """Yield the functions that a function may call directly."""
    names = {module.__name__ for module in modules}
    for name in _names_used_by(function.__code__):
        for called in map(_undecorated_function, _functions_named(name, function, protocol, modules)):
            if called is not None and called.__module__ in names and _is_mutable_function(called):
                yield called


def _names_used_by(code: CodeType) -> Iterator[str]:
    """Yield the names that a function uses, including those of inner functions."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names_used_by(inner)


def _functions_named(
    name: str, user: FunctionType, protocol: type[Protocol], modules: list[ModuleType]
) -> Iterator[Any]:
    """Yield the functions that a name in a function may refer to."""
    yield user.__globals__.get(name)
    yield from (vars(module).get(name) for module in _modules_imported_by(user, modules))
    owners = [base for base in protocol.__mro__ if name in vars(base)]
    yield from (vars(base)[name] for base in (owners if "super" in user.__code__.co_names else owners[:1]))
    for module in modules:
        for cls in vars(module).values():
            if isinstance(cls, type) and not issubclass(cls, Protocol) and name in vars(cls):
                yield vars(cls)[name]


def _modules_imported_by(user: FunctionType, modules: list[ModuleType]) -> list[ModuleType]:
    """Return those of the given modules that a function's module has imported by name."""
    return [one for one in user.__globals__.values() if isinstance(one, ModuleType) and one in modules]


def _is_mutable_function(function: FunctionType) -> bool:
    if function.__name__ == "initial" or function.__name__.startswith("__"):
        return False
    return not any(hasattr(function, mark) for mark in UNMUTATED_FUNCTION_MARKS)


def _undecorated_function(value: Any) -> FunctionType | None:
    """Return the function inside of a method, a property or a memoized function."""
    if isinstance(value, property):
        value = value.fget
    value = getattr(value, "func", getattr(value, "__func__", value))
    value = inspect.unwrap(value) if callable(value) else value
    return value if isinstance(value, FunctionType) else None


class Mutant(NamedTuple):
    """A mutant of a protocol."""

    name: str  # name unique in the protocol, even after lines move: module, function, old and new source
    kind: str  # the mutation operator
    changed: ChangeableFunction  # the mutated function
    span: tuple[int, int]  # begin and end of the replaced source
    text: str  # its replacement
    lines: range  # lines that must run for an effect: the statement, or the head of a compound one

    @property
    def path(self) -> Path:
        """The mutated file."""
        return self.changed.source.path

    @property
    def source(self) -> bytes:
        """The source of the module with the mutation."""
        begin, end = self.span
        text = self.changed.source.text
        return text[:begin] + self.text.encode() + text[end:]

    @property
    def line(self) -> int:
        """The line at which the mutation begins."""
        return self.changed.source.text.count(b"\n", 0, self.span[0]) + 1

    def diff(self) -> tuple[list[str], list[str]]:
        """Return the changed lines, before and after the mutation."""
        begin, end = self.span
        text, lines = self.changed.source.text, self.changed.source.lines
        first, last = self.line, text.count(b"\n", 0, end) + 1
        before = b"".join(lines[first - 1 : last])
        offset = sum(map(len, lines[: first - 1]))
        after = before[: begin - offset] + self.text.encode() + before[end - offset :]
        old, new = before.decode().splitlines(), after.decode().splitlines()
        while len(old) > 1 and len(new) > 1 and old[-1] == new[-1]:
            old.pop(), new.pop()
        return old, new

    def code(self) -> CodeType | None:
        """Return the code of the function with the mutation; None if it cannot replace the function's code."""
        function = self.changed.function
        module = ast.parse(self.source)
        definition = next(
            (
                node
                for node in ast.walk(module)
                if isinstance(node, ast.FunctionDef)
                and (node.name, node.lineno) == (self.changed.definition.name, self.changed.definition.lineno)
            ),
            None,
        )
        if definition is None:
            return None
        if function.__code__.co_flags & CO_GENERATOR:  # it stays a generator without its last yield
            definition.body.append(_unreachable_expression_statement("yield"))
        definition.body += [_unreachable_expression_statement(name) for name in function.__code__.co_freevars]
        ast.fix_missing_locations(module)
        inside = compile(module, function.__code__.co_filename, "exec", dont_inherit=True)
        key = (function.__code__.co_qualname, function.__code__.co_firstlineno)
        found = next((code for code in _code_objects(inside) if (code.co_qualname, code.co_firstlineno) == key), None)
        return found if found is not None and found.co_freevars == function.__code__.co_freevars else None


def _unreachable_expression_statement(expression: str) -> ast.stmt:
    """Return a statement that mentions an expression, and never runs."""
    (statement,) = ast.parse(f"def f():\n if False:\n  {expression}").body[0].body  # type: ignore[attr-defined]
    found: ast.stmt = statement
    return found


def _code_objects(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _code_objects(inner)


def mutants_of(functions: Iterable[ChangeableFunction], modules: Iterable[ModuleType]) -> Iterator[Mutant]:
    """Yield all mutants of the given functions, without duplicates."""
    vocabulary = RecordClasses(modules)
    names: dict[str, int] = {}
    for changed in functions:
        seen: set[str] = set()
        for mutation in MutationFinder(changed.function, vocabulary).of(changed.definition):
            mutant = _make_mutant(changed, mutation)
            tree = _dump_changed_tree(mutant)
            if tree is None or tree in seen:
                continue
            seen.add(tree)
            names[mutant.name] = names.get(mutant.name, 0) + 1
            number = names[mutant.name]
            yield mutant if number == 1 else mutant._replace(name=f"{mutant.name} ({number})")


def _make_mutant(changed: ChangeableFunction, mutation: Mutation) -> Mutant:
    source = changed.source
    begin, end = source.span(mutation.node)
    old = source.text[begin:end].decode()
    text = mutation.text + "\n" * (old.count("\n") if isinstance(mutation.node, ast.stmt) else 0)
    was, became = (" ".join(piece.split()) for piece in (old, text))
    name = f"{source.path.stem}.{changed.definition.name}: {was} -> {became}"
    return Mutant(
        name, mutation.kind, changed, (begin, end), text.rstrip("\n"), _statement_lines_without_body(mutation.statement)
    )


def _statement_lines_without_body(statement: ast.stmt) -> range:
    """Return the lines of a statement, without the body of a compound statement."""
    body: list[ast.stmt] = getattr(statement, "body", [])
    last = body[0].lineno - 1 if body else statement.end_lineno or statement.lineno
    return range(statement.lineno, max(last, statement.lineno) + 1)


def _dump_changed_tree(mutant: Mutant) -> str | None:
    """Return the syntax tree of the mutated definition as text; None if the mutation changes nothing."""
    source, definition = mutant.changed.source, mutant.changed.definition
    first, last = source.span(definition)
    first -= definition.col_offset
    begin, end = mutant.span
    text = source.text[first:begin] + mutant.text.encode() + source.text[end:last]
    try:
        module = ast.parse(b"if True:\n" + text if definition.col_offset else text)
    except SyntaxError as error:
        raise AssertionError(f"{mutant.path}:{mutant.line}: mutation to invalid Python: {mutant.text!r}") from error
    (statement,) = module.body
    found = statement.body[0] if isinstance(statement, ast.If) else statement
    assert isinstance(found, ast.FunctionDef)
    original = ast.dump(ast.Module(definition.body, []))
    dumped = ast.dump(ast.Module(found.body, []))
    return None if dumped == original else dumped


class CodeSwap:
    """Switches a function between its own code and a mutant's, for every reference to the function."""

    def __init__(self, function: FunctionType, code: CodeType, modules: Iterable[ModuleType] = ()) -> None:
        self._function = function
        self._original, self._mutated = function.__code__, code
        self._forget = cache_clearers(modules)

    @contextmanager
    def mutated(self) -> Iterator[None]:
        """Use the mutant's code within the block."""
        with self._being(self._mutated):
            yield

    @contextmanager
    def original(self) -> Iterator[None]:
        """Use the original code within the block, also inside of `mutated`."""
        with self._being(self._original):
            yield

    @contextmanager
    def _being(self, code: CodeType) -> Iterator[None]:
        before = self._function.__code__
        self._set(code)
        try:
            yield
        finally:
            self._set(before)

    def _set(self, code: CodeType) -> None:
        self._function.__code__ = code
        for forget in self._forget:
            forget()

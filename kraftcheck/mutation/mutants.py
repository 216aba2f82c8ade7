"""Mutants: a function with one slip in it, and the code that this makes of it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from inspect import CO_GENERATOR
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import NamedTuple

from kraftcheck.mutation.functions import ChangeableFunction, memories_of
from kraftcheck.mutation.slips import Slip, Slips
from kraftcheck.mutation.vocabulary import Vocabulary


class Mutant(NamedTuple):
    """One mutant."""

    name: str  # names it among those of its protocol, also after lines have moved: module, function, what became what
    kind: str  # the kind of slip
    changed: ChangeableFunction  # the function
    span: tuple[int, int]  # where in the source the replaced piece begins and ends
    text: str  # what it is replaced by
    lines: range  # the lines that must run for it to matter: the statement, or the head of a compound one

    @property
    def path(self) -> Path:
        """The file that it changes."""
        return self.changed.source.path

    @property
    def source(self) -> bytes:
        """The source of its module."""
        begin, end = self.span
        text = self.changed.source.text
        return text[:begin] + self.text.encode() + text[end:]

    @property
    def line(self) -> int:
        """The line at which the changed piece begins."""
        return self.changed.source.text.count(b"\n", 0, self.span[0]) + 1

    def diff(self) -> tuple[list[str], list[str]]:
        """Return the lines that it changes as they were, and as they are."""
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
        """Return the function's code with the slip in it; None where it cannot replace the function's own."""
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
        if function.__code__.co_flags & CO_GENERATOR:  # it stays one without its last yield
            definition.body.append(_never("yield"))
        definition.body += [_never(name) for name in function.__code__.co_freevars]
        ast.fix_missing_locations(module)
        inside = compile(module, function.__code__.co_filename, "exec", dont_inherit=True)
        key = (function.__code__.co_qualname, function.__code__.co_firstlineno)
        found = next((code for code in _codes(inside) if (code.co_qualname, code.co_firstlineno) == key), None)
        return found if found is not None and found.co_freevars == function.__code__.co_freevars else None


def _never(expression: str) -> ast.stmt:
    """Return a statement that mentions an expression, and never runs."""
    (statement,) = ast.parse(f"def f():\n if False:\n  {expression}").body[0].body  # type: ignore[attr-defined]
    found: ast.stmt = statement
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)


def mutants_of(functions: Iterable[ChangeableFunction], modules: Iterable[ModuleType]) -> Iterator[Mutant]:
    """Yield all mutants of functions, each once."""
    vocabulary = Vocabulary(modules)
    names: dict[str, int] = {}
    for changed in functions:
        seen: set[str] = set()
        for slip in Slips(changed.function, vocabulary).of(changed.definition):
            mutant = _mutant(changed, slip)
            tree = _dumped(mutant)
            if tree is None or tree in seen:
                continue
            seen.add(tree)
            names[mutant.name] = names.get(mutant.name, 0) + 1
            number = names[mutant.name]
            yield mutant if number == 1 else mutant._replace(name=f"{mutant.name} ({number})")


def _mutant(changed: ChangeableFunction, slip: Slip) -> Mutant:
    source = changed.source
    begin, end = source.span(slip.node)
    old = source.text[begin:end].decode()
    text = slip.text + "\n" * (old.count("\n") if isinstance(slip.node, ast.stmt) else 0)
    was, became = (" ".join(piece.split()) for piece in (old, text))
    name = f"{source.path.stem}.{changed.definition.name}: {was} -> {became}"
    return Mutant(name, slip.kind, changed, (begin, end), text.rstrip("\n"), _head(slip.statement))


def _head(statement: ast.stmt) -> range:
    """Return the lines of a statement, those of a compound one's body left out."""
    body: list[ast.stmt] = getattr(statement, "body", [])
    last = body[0].lineno - 1 if body else statement.end_lineno or statement.lineno
    return range(statement.lineno, max(last, statement.lineno) + 1)


def _dumped(mutant: Mutant) -> str | None:
    """Return the changed definition as a text that tells it from others; None where the slip changes nothing."""
    source, definition = mutant.changed.source, mutant.changed.definition
    first, last = source.span(definition)
    first -= definition.col_offset
    begin, end = mutant.span
    text = source.text[first:begin] + mutant.text.encode() + source.text[end:last]
    try:
        module = ast.parse(b"if True:\n" + text if definition.col_offset else text)
    except SyntaxError as error:
        raise AssertionError(f"{mutant.path}:{mutant.line}: a slip that is no Python: {mutant.text!r}") from error
    (statement,) = module.body
    found = statement.body[0] if isinstance(statement, ast.If) else statement
    assert isinstance(found, ast.FunctionDef)
    original = ast.dump(ast.Module(definition.body, []))
    dumped = ast.dump(ast.Module(found.body, []))
    return None if dumped == original else dumped


class Swap:
    """Gives a function the code of a mutant, and back. All that refers to the function then sees it."""

    def __init__(self, function: FunctionType, code: CodeType, modules: Iterable[ModuleType] = ()) -> None:
        self._function = function
        self._original, self._mutated = function.__code__, code
        self._forget = memories_of(modules)

    @contextmanager
    def mutated(self) -> Iterator[None]:
        """Let the function be the mutant's; in the end it is what it was before."""
        with self._being(self._mutated):
            yield

    @contextmanager
    def original(self) -> Iterator[None]:
        """Let the function be itself, within `mutated` too; in the end it is what it was before."""
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

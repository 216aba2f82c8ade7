"""Emission of instructions, and the parts of a function that Python evaluates at translation."""

from __future__ import annotations

import ast
import builtins
import inspect
import itertools
from collections.abc import Iterable, Iterator, Sequence
from types import FunctionType, MethodType, ModuleType
from typing import Any

from kraftcheck.explorer.bytecode.kernel.codes import Op
from kraftcheck.explorer.bytecode.program import Program
from kraftcheck.explorer.bytecode.source import checked_syntax_tree, find_aliasing, local_variables, mutated_variables
from kraftcheck.spec.diagnosis.lint import CoverageProbe
from kraftcheck.spec.errors import UntranslatableError
from kraftcheck.spec.language.protocol import Protocol

MOST_FOLDED_ELEMENTS = 100_000
"""Elements of an iterator that is evaluated at translation."""
OPS_WITHOUT_RESULT = {
    *(Op.JUMP, Op.IF, Op.UNLESS, Op.RETURN, Op.PUSH, Op.PUSH_ALL, Op.ITERATE),
    *(Op.UNPACK, Op.IMMUTABLE, Op.UNSET, Op.SEEN, Op.REQUIRE, Op.FAIL),
}
"""Operations whose first operand is not the register of one result."""
_VIEW_TYPES: tuple[type, ...] = (range, type({}.keys()), type({}.values()), type({}.items()))


class JumpLabel:
    """A place in the instructions of a function."""

    place: int  # known once `Emitter._here` has met it


class Emitter:
    """The instructions of one function."""

    def __init__(self, program: Program, function: FunctionType, watch: CoverageProbe | None = None) -> None:
        self.program, self.function, self.watch = program, function, watch
        self.tree = checked_syntax_tree(function)
        if watch is not None and (definition := watch.definition) is not None:
            self.tree = definition
        self._line = 0
        self._code: list[list[Any]] = []
        self._labelled = 0  # instructions before the last place that a jump may lead to
        self.lines: list[int] = []
        self._registers = 0
        self._names: dict[str, int] = {}
        closure = inspect.getclosurevars(function).nonlocals if function.__closure__ else {}
        self._globals = {**function.__globals__, **closure}
        arguments = self.tree.args
        if arguments.vararg or arguments.kwarg:
            raise self._unsupported(self.tree, "arguments in a star")
        self.parameters = [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        if program.is_method(function) and self.parameters:
            self._globals[self.parameters.pop(0)] = program.protocol
        self._locals = {*self.parameters, *local_variables(self.tree)}
        self._certain = set(self.parameters)  # variables that have a value here on every path
        self._changed = mutated_variables(self.tree)
        self._require_owned()

    def _unsupported(self, node: ast.AST, what: str) -> UntranslatableError:
        line = getattr(node, "lineno", 1)
        return UntranslatableError(f"{what} ({self.function.__qualname__}, line {line})")

    def _emit(self, operation: Op, *operands: Any) -> None:
        self._code.append([int(operation), *operands, *[0] * (4 - len(operands))])
        self.lines.append(self._line)

    def _register(self, count: int = 1) -> int:
        self._registers += count
        return self._registers - count

    def _result(self, operation: Op, *operands: Any) -> int:
        into = self._register()
        self._emit(operation, into, *operands)
        return into

    def _constant(self, value: Any) -> int:
        return self._result(Op.CONST, self.program.constant(value))

    def _store(self, into: int, value: int) -> None:
        """Store a value, which nothing else uses, in a register: where possible, by the instruction that makes it."""
        made = self._code[-1] if self._labelled < len(self._code) else [Op.FAIL]
        if made[0] not in OPS_WITHOUT_RESULT and made[1] == value and value not in self._names.values():
            made[1] = into
        else:
            self._emit(Op.MOVE, into, value)

    def _here(self, label: JumpLabel) -> None:
        label.place = self._labelled = len(self._code)

    def _require_owned(self) -> None:
        """Raise unless no other name can refer to a list, set or dict that a variable changes."""
        for name in self._changed:
            if name in self.parameters or name not in self._locals:
                raise self._unsupported(self.tree, f"a change of {name}, which is not the function's own")
            problem = find_aliasing(self.tree, name)
            if problem is not None:
                raise self._unsupported(problem, f"{name}, which is changed, has a second name")

    def _folded(self, node: ast.expr) -> tuple[bool, Any]:
        """Return whether an expression depends on constants alone, and its value."""
        if not self._is_static(node):
            return False, None
        try:
            value = eval(compile(ast.Expression(node), "<constant>", "eval"), self._globals)
            if isinstance(value, Iterator):
                value = list(itertools.islice(value, MOST_FOLDED_ELEMENTS + 1))
            elif type(value) in _VIEW_TYPES:
                value = list(value)
            if hasattr(value, "__len__") and len(value) > MOST_FOLDED_ELEMENTS:
                return False, None
            self.program.heap.encode(value)
        except Exception:  # the handler raises it only where it evaluates the expression
            return False, None
        return True, value

    def _is_static(self, node: ast.expr) -> bool:
        parts = list(ast.walk(node))
        if any(isinstance(one, ast.Lambda | ast.NamedExpr | ast.Yield | ast.YieldFrom | ast.Await) for one in parts):
            return False
        names = [one for one in parts if isinstance(one, ast.Name)]
        bound = {one.id for one in names if isinstance(one.ctx, ast.Store)}
        known = (one.id in bound or one.id in self._globals or hasattr(builtins, one.id) for one in names)
        return all(known) and not any(one.id in self._locals for one in names)

    def _object(self, node: ast.expr) -> Any:
        """Return the Python object that an expression names at translation, or None."""
        if isinstance(node, ast.Name) and node.id not in self._locals:
            return self._globals.get(node.id, getattr(builtins, node.id, None))
        if isinstance(node, ast.Attribute):
            if getattr(getattr(node.value, "func", None), "id", None) == "super":
                return self._of_super(node.attr)
            owner = self._object(node.value)
            if isinstance(owner, type | ModuleType | Protocol):
                return getattr(owner, node.attr, None)
        return None

    def _of_super(self, name: str) -> Any:
        """Return the method that `super()` finds, in the class that defines the function."""
        mro = type(self.program.protocol).__mro__
        owner = next((one for one in mro if self.function in vars(one).values()), None)
        if owner is None:
            return None
        following = (vars(one)[name] for one in mro[mro.index(owner) + 1 :] if name in vars(one))
        found = next(following, None)
        return MethodType(found, self.program.protocol) if isinstance(found, FunctionType) else None


class VariableScope:
    """The scope of some variables: those of a comprehension, or of a lambda."""

    def __init__(self, of: Emitter, bound: Iterable[str]) -> None:
        self._of, self._bound = of, set(bound)

    def __enter__(self) -> None:
        of = self._of
        self._before = of._names, of._locals, of._certain
        of._names = {**of._names, **{name: of._register() for name in self._bound}}
        of._locals, of._certain = of._locals | self._bound, of._certain | self._bound

    def __exit__(self, *_: object) -> None:
        self._of._names, self._of._locals, self._of._certain = self._before


def comprehension_variables(loops: Sequence[ast.comprehension]) -> set[str]:
    """Return the variables of a comprehension."""
    return {one.id for loop in loops for one in ast.walk(loop.target) if isinstance(one, ast.Name)}

"""The program: translated handlers and properties.

An expression that depends on the protocol's constants alone is evaluated once, by Python. The rest is translated from
its source. Unsupported code raises `NoBytecodeError`. An operation that Python may define otherwise ends the run
with the same error. In both cases another engine searches.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import itertools
from collections import Counter
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Sequence, ValuesView
from copy import deepcopy
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from kraftcheck.explorer.bytecode.kernel import codes
from kraftcheck.explorer.bytecode.kernel.codes import Op
from kraftcheck.explorer.bytecode.source import (
    RECOGNIZED_FUNCTIONS,
    checked_syntax_tree,
    find_aliasing,
    local_variables,
    mutated_variables,
)
from kraftcheck.explorer.bytecode.values import ValueHeap
from kraftcheck.spec.diagnosis.lint import PropertyCoverageProbe
from kraftcheck.spec.errors import NoBytecodeError
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.values import Record

MOST_FOLDED_ELEMENTS = 100_000
"""Elements of an iterator that is evaluated at translation."""
OPS_WITHOUT_RESULT = {
    *(Op.JUMP, Op.IF, Op.UNLESS, Op.RETURN, Op.PUSH, Op.PUSH_ALL, Op.ITERATE),
    *(Op.UNPACK, Op.IMMUTABLE, Op.UNSET, Op.SEEN, Op.REQUIRE, Op.FAIL),
}
"""Operations whose first operand is not the register of one result."""
_VIEW_TYPES: tuple[type, ...] = (range, type({}.keys()), type({}.values()), type({}.items()))


class AskedFunction(NamedTuple):
    """An untranslated expression, as a function that Python calls."""

    function: Callable[..., Any]
    is_consumed: bool  # whether its value is, so that a tuple may stand for an iterator
    reason: str  # the unsupported code, with its place


class BytecodeProgram:
    """The instructions of all functions that a search needs.

    `translation(program, function, watch)` returns the translation of one function.
    """

    def __init__(self, protocol: Protocol, heap: ValueHeap, translation: Callable[..., Any]) -> None:
        self.protocol, self.heap, self._translation = protocol, heap, translation
        self._code: list[tuple[int, int, int, int, int]] = []
        self._entries: list[tuple[int, int]] = []
        self._constants: dict[int, int] = {}
        self._functions: dict[Any, int] = {}
        self._waiting: list[Any] = []  # translations
        self.asked: list[AskedFunction] = []
        self._answered: Counter[int] = Counter()  # by the number of the function
        self.probes: dict[PropertyCoverageProbe, dict[int, int]] = {}
        self._probes = 0
        self.lines: list[str] = []
        self.records = [one for one in heap.classes if issubclass(one, Record)]

    def constant(self, value: Any) -> int:
        """Return the number of a constant."""
        return self._constants.setdefault(self.heap.encode_constant(value), len(self._constants))

    def function(self, function: Any, watch: PropertyCoverageProbe | None = None, *, is_helper: bool = False) -> int:
        """Return the number of a function, with the probes of a watch; it is translated if it is new.

        Python calls a helper that cannot be translated.
        """
        key = watch or function
        if key not in self._functions:
            self._waiting.append(self._prepared(function, watch, is_helper))
            self._functions[key] = len(self._functions)
            self._entries.append((0, 0))
        return self._functions[key]

    def _prepared(self, function: Any, watch: PropertyCoverageProbe | None, is_helper: bool) -> Any:
        try:
            made = self._translation(self, function, watch)
            made.is_helper = is_helper
        except NoBytecodeError as error:
            if not is_helper:
                raise
            return PythonCallStub(self, function, error.what)
        return made

    def asked_function(self, asked: AskedFunction) -> int:
        """Return the number of a function that Python calls."""
        self.asked.append(asked)
        return len(self.asked) - 1

    def answer(self, most: int) -> None:
        """Let Python answer what the machine asks; raise NoBytecodeError after too many answers."""
        if self._answered.total() >= most:
            ((number, _),) = self._answered.most_common(1)
            reason = self.asked[number].reason
            raise NoBytecodeError(f"{reason}, which Python evaluates in more than one of two steps")
        asked = int(self.heap.machine.at[codes.AT_ASKED])
        number, *arguments = self.heap.decode(asked)
        function, is_consumed, _ = self.asked[number]
        self._answered[number] += 1
        before = deepcopy(arguments) if _has_mutable_argument(arguments) else arguments
        try:
            found = function(*arguments)
            if isinstance(found, Iterator | range | KeysView | ValuesView | ItemsView):
                found = tuple(itertools.islice(found, MOST_FOLDED_ELEMENTS + 1)) if is_consumed else object()
        except Exception:  # the reference engine raises it with its path
            raise NoBytecodeError("an error in a call of Python") from None
        if arguments != before:  # they are copies
            raise NoBytecodeError("a function that changes its arguments")
        self.heap.answer(asked, found)

    def seen(self, watch: PropertyCoverageProbe) -> list[int]:
        """Return the numbers of the probes of a property that a search has passed."""
        seen = self.heap.machine.seen
        return [number for number, place in self.probes.get(watch, {}).items() if seen[place]]

    def probe(self, watch: PropertyCoverageProbe, number: int) -> int:
        """Return the place of a probe among all probes."""
        places = self.probes.setdefault(watch, {})
        if number not in places:
            places[number] = self._probes
            self._probes += 1
        return places[number]

    def is_method(self, function: FunctionType) -> bool:
        """Return whether a function's first parameter is the protocol."""
        methods = [found for base in type(self.protocol).__mro__ for found in vars(base).values()]
        inner = ("fget", "__wrapped__", "method")  # of a property, a decorated function, a predicate
        known = [(one, *(getattr(one, name, None) for name in inner)) for one in methods]
        return any(function in those and not isinstance(those[0], staticmethod | classmethod) for those in known)

    def link(self) -> None:
        """Translate all functions that were asked for, and hand the program to the machine."""
        while self._waiting:
            one = self._waiting.pop()
            first = len(self._code)
            try:
                instructions, registers = one.translated()
            except NoBytecodeError as error:
                if not getattr(one, "is_helper", False):
                    raise
                one = PythonCallStub(self, one.function, error.what)
                instructions, registers = one.translated()
            self._entries[self._functions[one.watch or one.function]] = first, registers
            self._code += [_relocated_instruction(code, first) for code in instructions]
            self.lines += [f"{one.function.__qualname__}, line {line}" for line in one.lines]
        self.heap.link()
        machine = self.heap.machine
        machine.code = np.array(self._code, np.int32).reshape(-1, 5)
        machine.passed = np.zeros(len(self._code) + 1, np.uint8)
        machine.constants = np.array([*self._constants, 0], np.int64)
        machine.seen = np.zeros(self._probes + 1, np.uint8)
        machine.functions = np.array([*self._entries, (0, 0)], np.int32)


def _relocated_instruction(code: tuple[int, ...], first: int) -> tuple[int, int, int, int, int]:
    operation, a, b, c, d = code
    if operation == Op.JUMP:
        a += first
    elif operation in (Op.IF, Op.UNLESS):
        b += first
    elif operation == Op.NEXT:
        c += first
    return operation, a, b, c, d


class PythonCallStub:
    """A function that Python calls: its instructions ask for its result."""

    watch = None

    def __init__(self, program: BytecodeProgram, function: Any, reason: str) -> None:
        self.function, self._program = function, program
        parameters = list(inspect.signature(function).parameters.values())
        kinds = {one.kind for one in parameters}
        if kinds - {inspect.Parameter.POSITIONAL_OR_KEYWORD}:
            raise NoBytecodeError(f"a call of {function.__qualname__}")
        is_method = program.is_method(function)
        called: Any = MethodType(function, program.protocol) if is_method else function
        self._yields = inspect.isgeneratorfunction(function)
        if self._yields:
            called = partial(_tuple_of_yielded_values, called)
        self._number = program.asked_function(AskedFunction(called, False, reason))
        self._count = len(parameters) - is_method
        self.lines = [function.__code__.co_firstlineno] * (self._count + 6 + self._yields)

    def translated(self) -> tuple[list[tuple[int, ...]], int]:
        """Return the instructions and the number of registers."""
        count, number = self._count, self._program.constant(self._number)
        mark, first, asked, found = range(count, count + 4)
        pushed = [(Op.PUSH, one, 0, 0, 0) for one in (first, *range(count))]
        begin = [(Op.MARK, mark, 0, 0, 0), (Op.CONST, first, number, 0, 0), *pushed]
        ask = [(Op.COLLECT, asked, codes.TUPLE_KIND, mark, 0), (Op.ASK, found, asked, 0, 0)]
        yielded = [(Op.PUSH_ALL, found, 0, 0, 0)] * self._yields
        return [*begin, *ask, *yielded, (Op.RETURN, found, 0, 0, 0)], count + 5


def _has_mutable_argument(arguments: list[Any]) -> bool:
    try:
        hash(tuple(arguments))
    except TypeError:
        return True
    return False


def _tuple_of_yielded_values(function: Callable[..., Iterable[Any]], *arguments: Any) -> tuple[Any, ...]:
    return tuple(function(*arguments))


class JumpLabel:
    """A place in the instructions of a function."""

    place: int  # known once `Emitter._here` has met it


class Emitter:
    """The instructions of one function."""

    def __init__(
        self, program: BytecodeProgram, function: FunctionType, watch: PropertyCoverageProbe | None = None
    ) -> None:
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
        if arguments.kwarg:
            raise self._unsupported(self.tree, "arguments in two stars")
        starred = [arguments.vararg] if arguments.vararg else []
        every = (*arguments.posonlyargs, *arguments.args, *starred, *arguments.kwonlyargs)
        self.parameters = [one.arg for one in every]
        if program.is_method(function) and self.parameters:
            self._globals[self.parameters.pop(0)] = program.protocol
        self._locals = {*self.parameters, *local_variables(self.tree)}
        self._require_functions_of_python()
        self._certain = set(self.parameters)  # variables that have a value here on every path
        self._changed = mutated_variables(self.tree)
        self._require_owned()

    def _unsupported(self, node: ast.AST, what: str) -> NoBytecodeError:
        line = getattr(node, "lineno", 1)
        return NoBytecodeError(f"{what} ({self.function.__qualname__}, line {line})")

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

    @property
    def scope(self) -> tuple[Any, ...]:
        """The registers of the variables, their names, and those that have a value."""
        return self._names, self._locals, self._certain

    @scope.setter
    def scope(self, scope: tuple[Any, ...]) -> None:
        self._names, self._locals, self._certain = scope

    def _require_owned(self) -> None:
        """Raise unless no other name can refer to a list, set or dict that a variable changes."""
        for name in self._changed:
            if name in self.parameters or name not in self._locals:
                raise self._unsupported(self.tree, f"a change of {name}, which is not the function's own")
            problem = find_aliasing(self.tree, name)
            if problem is not None:
                raise self._unsupported(problem, f"{name}, which is changed, has a second name")

    def _folded(self, node: ast.expr, *, is_consumed: bool) -> tuple[bool, Any]:
        """Return whether an expression depends on constants alone, and its value; a list for a consumed iterator."""
        if not self._is_static(node):
            return False, None
        try:
            value = eval(compile(ast.Expression(node), "<constant>", "eval"), self._globals)
            if isinstance(value, Iterator):
                if not is_consumed:  # a later use finds it consumed
                    return False, None
                value = list(itertools.islice(value, MOST_FOLDED_ELEMENTS + 1))
            elif type(value) in _VIEW_TYPES:
                value = list(value)
            if hasattr(value, "__len__") and len(value) > MOST_FOLDED_ELEMENTS:
                return False, None
            self.program.heap.encode_constant(value)
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

    def _require_functions_of_python(self) -> None:
        """Raise NoBytecodeError where a name means another function than the one that it is recognized by."""
        own = {name for name, known in RECOGNIZED_FUNCTIONS.items() if self._globals.get(name, known) is not known}
        called = {getattr(one.func, "id", "") for one in ast.walk(self.tree) if isinstance(one, ast.Call)}
        if shadowed := sorted(own | (called & self._locals & RECOGNIZED_FUNCTIONS.keys())):
            raise self._unsupported(self.tree, f"another {shadowed[0]} than Python's")

    def _object(self, node: ast.expr) -> Any:
        """Return the Python object that an expression names at translation, or None."""
        if isinstance(node, ast.Name) and node.id not in self._locals:
            return self._globals.get(node.id, getattr(builtins, node.id, None))
        if isinstance(node, ast.Attribute):
            if getattr(getattr(node.value, "func", None), "id", None) == "super":
                return None if getattr(node.value, "args", None) else self._of_super(node.attr)
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


class NestedVariableScope:
    """The scope of some variables: those of a comprehension, or of a lambda."""

    def __init__(self, of: Emitter, bound: Iterable[str]) -> None:
        self._of, self._bound = of, set(bound)

    def __enter__(self) -> None:
        of = self._of
        self._before = of.scope
        of._names = {**of._names, **{name: of._register() for name in self._bound}}
        of._locals, of._certain = of._locals | self._bound, of._certain | self._bound

    def __exit__(self, *_: object) -> None:
        self._of.scope = self._before


def comprehension_variables(loops: Sequence[ast.comprehension]) -> set[str]:
    """Return the variables of a comprehension."""
    return {one.id for loop in loops for one in ast.walk(loop.target) if isinstance(one, ast.Name)}

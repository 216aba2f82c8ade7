"""Translation of expressions, without calls."""

from __future__ import annotations

import ast
import enum
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

from kraftcheck.explorer.bytecode import library
from kraftcheck.explorer.bytecode.emitter import (
    AskedFunction,
    Emitter,
    JumpLabel,
    NestedVariableScope,
    comprehension_variables,
)
from kraftcheck.explorer.bytecode.kernel.codes import DICT_KIND, LIST_KIND, SET_KIND, TUPLE_KIND, Op
from kraftcheck.explorer.bytecode.source import walrus_variables
from kraftcheck.explorer.bytecode.values import KINDS_OF_TYPES
from kraftcheck.spec.diagnosis.lint import PROBE_NAME
from kraftcheck.spec.errors import NoBytecodeError
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.values import Record, field_names

BINARY_OPS: dict[type[ast.AST], Op] = {
    ast.Add: Op.ADD, ast.Sub: Op.SUB, ast.Mult: Op.MUL, ast.FloorDiv: Op.DIV, ast.Mod: Op.MOD, ast.BitAnd: Op.AND,
    ast.BitOr: Op.OR, ast.BitXor: Op.XOR, ast.Eq: Op.EQ, ast.NotEq: Op.NE, ast.Lt: Op.LT, ast.LtE: Op.LE, ast.Gt: Op.GT,
    ast.GtE: Op.GE, ast.In: Op.IN, ast.NotIn: Op.NOT_IN, ast.Is: Op.IS, ast.IsNot: Op.IS_NOT,
}  # fmt: skip

_SAMENESS = (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)
_REFUSED_IN_ASKED = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Is, ast.IsNot)
MAP_VIEW_METHODS = {"keys", "values", "items"}
"""Methods of maps that return a view."""


def library_replacement(target: Any) -> Any:
    """Return the function that is translated in place of one of Python's, or None."""
    return library.FUNCTIONS.get(target) if isinstance(target, Hashable) else None


class ExpressionTranslator(Emitter, ABC):
    """Translation of expressions: each leaves its value in a register."""

    _lambdas: dict[str, tuple[ast.Lambda, tuple[Any, ...]]]  # local functions, with their scopes

    @abstractmethod
    def _called(self, node: ast.expr) -> tuple[Any, list[int]] | None:
        """Return the function of the protocol, or beside it, that a call names, and its arguments."""

    @abstractmethod
    def _call(self, function: Any, arguments: list[int]) -> int:
        """Translate a call of a function."""

    @abstractmethod
    def _assign(self, target: ast.expr, value: int) -> None:
        """Translate an assignment."""

    def _value(self, node: ast.expr) -> int:
        """Translate an expression; return the register of its value."""
        if self._is_lazy(node):  # its elements would be taken too early, or twice
            raise self._unsupported(node, "an iterator or a view beyond the expression that consumes it")
        return self._translated(node, is_consumed=False)

    def _consumed(self, node: ast.expr) -> int:
        """Translate an expression whose value is consumed at once, so that a list may stand for an iterator."""
        return self._translated(node, is_consumed=True)

    def _translated(self, node: ast.expr, *, is_consumed: bool) -> int:
        found, value = self._folded(node, is_consumed=is_consumed)
        if found:
            return self._constant(value)
        method = getattr(self, f"_of_{type(node).__name__.lower()}", None)
        before = len(self._code), self._labelled, self.scope
        try:
            if method is None:
                raise self._unsupported(node, f"an expression {type(node).__name__.lower()}")
            result: int = method(node)
        except NoBytecodeError as error:
            count, self._labelled, self.scope = before
            del self._code[count:], self.lines[count:]
            asked = self._asked(node, error.what, is_consumed=is_consumed)
            if asked is None:
                raise
            return asked
        return result

    def _asked(self, node: ast.expr, reason: str, *, is_consumed: bool) -> int | None:
        """Let Python evaluate an expression once for each of its inputs; None if that may differ, or it has none."""
        inputs = _LocalReadParameterizer(self._locals)
        body = inputs.visit(deepcopy(node))
        if not inputs.found or not self._may_ask(node):
            return None
        names = ast.arguments([], [ast.arg(name) for name, _ in inputs.found.values()], None, [], [], None, [])
        made = ast.fix_missing_locations(ast.Expression(ast.copy_location(ast.Lambda(names, body), node)))
        function = eval(compile(made, self.function.__code__.co_filename, "eval"), self._globals)
        number = self.program.asked_function(AskedFunction(function, is_consumed, reason))
        values = [self._constant(number), *(self._value(one) for _, one in inputs.found.values())]
        return self._result(Op.ASK, self._collected(TUPLE_KIND, values))

    def _may_ask(self, node: ast.expr) -> bool:
        """Return whether an expression has a value of its own that depends on its inputs alone."""
        parts = list(ast.walk(node))
        names = {name for one in parts for name in (getattr(one, "id", ""), getattr(one, "arg", ""))}
        if names & {*self._lambdas, *self._changed, PROBE_NAME, "super"} or self._locals & bound_variables(parts):
            return False
        return not self._makes_foreign(node) and not any(isinstance(one, _REFUSED_IN_ASKED) for one in parts)

    def _makes_foreign(self, node: ast.expr) -> bool:
        """Return whether an expression makes a value that no state holds, such as a float, or none."""
        target = self._object(node.func) if isinstance(node, ast.Call) else None
        own = (Record, enum.Enum, Iterator, range)
        is_class = isinstance(target, type) and target not in KINDS_OF_TYPES and not issubclass(target, own)
        is_fraction = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
        return is_class or is_fraction or isinstance(node, ast.Starred)

    def _value_or_none(self, node: ast.expr | None) -> int:
        return self._constant(None) if node is None else self._value(node)

    def _is_lazy(self, node: ast.expr) -> bool:
        """Return whether an expression makes an iterator or a view: it is consumed once, or follows later changes."""
        if not isinstance(node, ast.Call):
            return isinstance(node, ast.GeneratorExp)
        target = self._object(node.func)
        if target is None:
            return isinstance(node.func, ast.Attribute) and node.func.attr in MAP_VIEW_METHODS
        target = library_replacement(target) or target
        is_class = isinstance(target, type) and (target is range or issubclass(target, Iterator))
        return is_class or inspect.isgeneratorfunction(getattr(target, "__wrapped__", target))

    def _of_name(self, node: ast.Name) -> int:
        if node.id in self._names and node.id not in self._lambdas:
            if node.id not in self._certain:
                self._emit(Op.REQUIRE, self._names[node.id])
            if node.id in walrus_variables(self.tree):
                return self._result(Op.MOVE, self._names[node.id])  # the rest of the expression may change it
            return self._names[node.id]
        raise self._unsupported(node, f"the name {node.id}")

    def _of_attribute(self, node: ast.Attribute) -> int:
        owner = self._object(node.value)
        if isinstance(owner, Protocol):
            declared = inspect.getattr_static(type(owner), node.attr, None)
            if isinstance(declared, property) and declared.fget is not None:
                return self._call(declared.fget, [])
            raise self._unsupported(node, f"self.{node.attr}")
        if owner is not None:
            raise self._unsupported(node, f"the attribute {node.attr}")
        value = self._value(node.value)
        own = {one: getattr(one, node.attr, None) for one in self.program.records if node.attr not in field_names(one)}
        declared = {one: inspect.getattr_static(one, node.attr, None) for one in own}
        properties = {one: found.fget for one, found in declared.items() if isinstance(found, property)}

        def field() -> int:
            return self._result(Op.FIELD, value, self.program.heap.name(node.attr))

        return self._by_class(properties, value, [value], field) if properties else field()

    def _by_class(self, methods: dict[type, Any], value: int, arguments: list[int], default: Callable[[], int]) -> int:
        """Call the method of the class of a value; take another way for values of other classes."""
        into, end = self._register(), JumpLabel()
        for method in dict.fromkeys(methods.values()):
            following = JumpLabel()
            kinds = [one for one, found in methods.items() if found is method]
            self._emit(Op.UNLESS, self._result(Op.TEST, value, self.program.heap.among(kinds)), following)
            self._emit(Op.MOVE, into, self._call(method, arguments))
            self._emit(Op.JUMP, end)
            self._here(following)
        self._emit(Op.MOVE, into, default())
        self._here(end)
        return into

    def _of_binop(self, node: ast.BinOp) -> int:
        operation, left = BINARY_OPS.get(type(node.op)), node.left
        if isinstance(left, ast.Call) and getattr(left.func, "attr", "") == "keys" and self._is_lazy(left):
            value = self._result(Op.CONVERT, self._consumed(left), SET_KIND)
        else:
            value = self._value(left)
        if operation is None or self._is_text(left) or self._is_text(node.right):
            raise self._unsupported(node, f"the operator {type(node.op).__name__}")
        return self._result(operation, value, self._value(node.right))

    def _is_text(self, node: ast.expr) -> bool:
        is_call = isinstance(node, ast.Call) and self._object(node.func) is str
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        return is_call or is_text or isinstance(node, ast.JoinedStr)

    def _of_unaryop(self, node: ast.UnaryOp) -> int:
        if isinstance(node.op, ast.Not):
            return self._result(Op.NOT, self._value(node.operand))
        if isinstance(node.op, ast.USub):
            return self._result(Op.NEGATE, self._value(node.operand))
        raise self._unsupported(node, f"the operator {type(node.op).__name__}")

    def _of_boolop(self, node: ast.BoolOp) -> int:
        into, end = self._register(), JumpLabel()
        for place, one in enumerate(node.values):
            self._store(into, self._value(one))
            if place < len(node.values) - 1:
                self._emit(Op.UNLESS if isinstance(node.op, ast.And) else Op.IF, into, end)
        self._here(end)
        return into

    def _of_compare(self, node: ast.Compare) -> int:
        match node:
            case ast.Compare(ast.Call(called, [one]), [operator], [kind]) if (
                self._object(called) is type and self._is_record_class(kind) and isinstance(operator, _SAMENESS)
            ):
                is_it = self._result(Op.TEST, self._value(one), self.program.heap.among([self._object(kind)]))
                return is_it if isinstance(operator, ast.Is | ast.Eq) else self._result(Op.NOT, is_it)
        into, end = self._register(), JumpLabel()
        left = self._value(node.left)
        for place, (operator, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
            other = self._consumed(right) if isinstance(operator, ast.In | ast.NotIn) else self._value(right)
            self._emit(BINARY_OPS[type(operator)], into, left, other)
            if place < len(node.ops) - 1:
                self._emit(Op.UNLESS, into, end)
            left = other
        if len(node.ops) > 1:
            self._here(end)
        return into

    def _is_record_class(self, node: ast.expr) -> bool:
        found = self._object(node)
        return isinstance(found, type) and issubclass(found, Record)

    def _of_ifexp(self, node: ast.IfExp) -> int:
        into, otherwise, end = self._register(), JumpLabel(), JumpLabel()
        self._emit(Op.UNLESS, self._value(node.test), otherwise)
        self._store(into, self._value(node.body))
        self._emit(Op.JUMP, end)
        self._here(otherwise)
        self._store(into, self._value(node.orelse))
        self._here(end)
        return into

    def _of_namedexpr(self, node: ast.NamedExpr) -> int:
        value, certain = self._value(node.value), set(self._certain)
        self._assign(node.target, value)
        self._certain = certain  # other paths through the expression may lead past the assignment
        return self._of_name(node.target)

    def _of_subscript(self, node: ast.Subscript) -> int:
        value = self._value(node.value)
        if isinstance(node.slice, ast.Slice):
            if node.slice.step is not None:
                raise self._unsupported(node, "a slice with a step")
            return self._result(Op.SLICE, value, *map(self._value_or_none, (node.slice.lower, node.slice.upper)))
        return self._result(Op.INDEX, value, self._value(node.slice))

    def _of_tuple(self, node: ast.Tuple) -> int:
        return self._display(TUPLE_KIND, node.elts)

    def _of_list(self, node: ast.List) -> int:
        return self._display(LIST_KIND, node.elts)

    def _of_set(self, node: ast.Set) -> int:
        return self._display(SET_KIND, node.elts)

    def _display(self, kind: int, elements: Sequence[ast.expr], take: Callable[[ast.expr], int] | None = None) -> int:
        mark = self._result(Op.MARK)
        self._push_each(elements, take)
        return self._result(Op.COLLECT, kind, mark)

    def _push_each(self, elements: Sequence[ast.expr], take: Callable[[ast.expr], int] | None = None) -> None:
        for one in elements:
            if isinstance(one, ast.Starred):
                self._push_all(one.value)
            else:
                self._emit(Op.PUSH, (take or self._value)(one))

    def _pushed(self, values: Iterable[int]) -> int:
        """Push values on the stack; return the register of its height before."""
        mark = self._result(Op.MARK)
        for one in values:
            self._emit(Op.PUSH, one)
        return mark

    def _collected(self, kind: int, values: Iterable[int]) -> int:
        return self._result(Op.COLLECT, kind, self._pushed(values))

    def _of_dict(self, node: ast.Dict) -> int:
        if None in node.keys:  # {..., **more, ...} is {...} | more | {...}
            place = node.keys.index(None)
            found = self._of_dict(ast.Dict(node.keys[:place], node.values[:place]))
            found = self._result(Op.OR, found, self._result(Op.CONVERT, self._value(node.values[place]), DICT_KIND))
            rest = self._of_dict(ast.Dict(node.keys[place + 1 :], node.values[place + 1 :]))
            return self._result(Op.OR, found, rest)
        items = (one for pair in zip(node.keys, node.values, strict=True) for one in pair)
        return self._collected(DICT_KIND, map(self._value_or_none, items))

    def _of_listcomp(self, node: ast.ListComp | ast.GeneratorExp) -> int:
        return self._comprehension(LIST_KIND, node.generators, [node.elt])

    _of_generatorexp = _of_listcomp

    def _of_setcomp(self, node: ast.SetComp) -> int:
        return self._comprehension(SET_KIND, node.generators, [node.elt])

    def _of_dictcomp(self, node: ast.DictComp) -> int:
        return self._comprehension(DICT_KIND, node.generators, [node.key, node.value])

    def _comprehension(self, kind: int, loops: Sequence[ast.comprehension], pushed: Sequence[ast.expr]) -> int:
        mark = self._result(Op.MARK)
        self._scoped_loop(loops, lambda: self._push_each(pushed))
        return self._result(Op.COLLECT, kind, mark)

    def _scoped_loop(self, loops: Sequence[ast.comprehension], body: Callable[[], object]) -> None:
        """Translate the loops of a comprehension; only the first iterable is evaluated outside its scope."""
        first = self._iterable(loops[0].iter, ())
        with NestedVariableScope(self, comprehension_variables(loops)):
            self._loop(loops, body, first)

    def _loop(self, loops: Sequence[ast.comprehension], body: Callable[[], object], first: int | None = None) -> None:
        if not loops:
            body()
            return
        with self._each(self._iterable(loops[0].iter, ()) if first is None else first) as (element, again):
            self._assign(loops[0].target, element)
            for condition in loops[0].ifs:
                self._emit(Op.UNLESS, self._value(condition), again)
            self._loop(loops[1:], body)

    def _iterable(self, node: ast.expr, changing: Iterable[ast.AST]) -> int:
        """Translate the iterable of a loop before the loop; refuse one that reads variables which the loop changes."""
        read = {one.id for late in self._late_parts(node) for one in ast.walk(late) if isinstance(one, ast.Name)}
        changed = bound_variables(one for part in changing for one in ast.walk(part)) | self._changed
        if not read.isdisjoint(changed | walrus_variables(self.tree)):
            raise self._unsupported(node, "an iterator over variables that the loop may change")
        return self._consumed(node)

    def _late_parts(self, node: ast.expr) -> Iterator[ast.AST]:
        """Yield the parts of an iterable that Python evaluates during the loop."""
        if isinstance(node, ast.GeneratorExp):
            first, *others = node.generators
            yield from (node.elt, first.target, *first.ifs, *others)
            yield from self._late_parts(first.iter)
        elif isinstance(node, ast.Lambda):
            yield node
        elif isinstance(node, ast.Name) and node.id in self._lambdas:
            yield self._lambdas[node.id][0]
        elif isinstance(node, ast.Call) and (self._is_lazy(node) or self._object(node.func) is iter):
            for one in (*node.args, *(word.value for word in node.keywords)):
                yield from self._late_parts(one)

    @contextmanager
    def _each(self, value: int) -> Iterator[tuple[int, JumpLabel]]:
        """Translate a loop over a value: its body knows the register of an element, and where the next one begins."""
        iterator, element, again, end = self._register(2), self._register(), JumpLabel(), JumpLabel()
        self._emit(Op.ITERATE, iterator, value)
        self._here(again)
        self._emit(Op.NEXT, element, iterator, end)
        yield element, again
        self._emit(Op.JUMP, again)
        self._here(end)

    def _push_all(self, node: ast.expr) -> None:
        called = self._called(node)
        if called is not None and inspect.isgeneratorfunction(called[0]):
            self._call(*called)
        else:
            self._emit(Op.PUSH_ALL, self._consumed(node))


def bound_variables(parts: Iterable[ast.AST]) -> set[str]:
    """Return the variables of the comprehensions and lambdas among some nodes."""
    stored = (one for one in parts if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))
    return {*(one.id for one in stored), *(one.arg for one in parts if isinstance(one, ast.arg))}


class _LocalReadParameterizer(ast.NodeTransformer):
    """Replaces what an expression reads of local variables, as `me.term`, by the parameters of a function."""

    def __init__(self, local: set[str]) -> None:
        self._local = local
        self.found: dict[str, tuple[str, ast.expr]] = {}

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._input(node) if node.id in self._local and isinstance(node.ctx, ast.Load) else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        root: ast.expr = node
        while isinstance(root, ast.Attribute):
            root = root.value
        return self._input(node) if isinstance(root, ast.Name) and root.id in self._local else self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Attribute):  # a method is no input
            node.func.value = self.visit(node.func.value)
            node.args = [self.visit(one) for one in node.args]
            node.keywords = [self.visit(one) for one in node.keywords]
            return node
        return self.generic_visit(node)

    def _input(self, node: ast.expr) -> ast.Name:
        name, _ = self.found.setdefault(ast.dump(node), (f"input_{len(self.found)}", node))
        return ast.copy_location(ast.Name(name, ast.Load()), node)

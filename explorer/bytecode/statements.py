"""Translation of a function: its statements."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from kraftcheck.explorer.bytecode.calls import CallTranslator
from kraftcheck.explorer.bytecode.emitter import JumpLabel
from kraftcheck.explorer.bytecode.expressions import BINARY_OPS
from kraftcheck.explorer.bytecode.kernel.codes import LIST_KIND, SET_KIND, Op
from kraftcheck.explorer.bytecode.source import MUTATORS, probe_number


class FunctionTranslator(CallTranslator):
    """The translation of one function."""

    def translated(self) -> tuple[list[tuple[int, ...]], int]:
        """Return the instructions and the number of registers."""
        self._loops: list[tuple[JumpLabel, JumpLabel]] = []  # where continue and break lead
        self._names = {name: self._register() for name in self.parameters}
        self._names |= {name: self._result(Op.UNSET) for name in self._locals if name not in self.parameters}
        self._block(self.tree.body)
        self._emit(Op.RETURN, self._constant(None))
        placed = [tuple(one.place if isinstance(one, JumpLabel) else one for one in code) for code in self._code]
        return [_with_last_target(code, placed) for code in placed], self._registers + 1

    def _block(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            self._line = statement.lineno
            method = getattr(self, f"_do_{type(statement).__name__.lower()}", None)
            if method is None:
                raise self._unsupported(statement, f"a statement {type(statement).__name__.lower()}")
            method(statement)

    def _branch(self, body: Sequence[ast.stmt]) -> None:
        """Translate statements that may be passed over."""
        before = set(self._certain)
        self._block(body)
        self._certain = before

    def _do_pass(self, _: ast.Pass) -> None:
        pass

    def _do_return(self, statement: ast.Return) -> None:
        self._emit(Op.RETURN, self._value_or_none(statement.value))

    def _do_expr(self, statement: ast.Expr) -> None:
        value = statement.value
        if isinstance(value, ast.Yield):
            if value.value is None:
                raise self._unsupported(value, "yield without a value")
            self._emit(Op.PUSH, self._value(value.value))
        elif isinstance(value, ast.YieldFrom):
            self._push_all(value.value)
        elif probe_number(value) is not None:
            self._value(value)
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in MUTATORS:
            self._change(value, value.func)
        elif not isinstance(value, ast.Constant):
            raise self._unsupported(statement, "an expression whose value is not used")

    def _change(self, call: ast.Call, method: ast.Attribute) -> None:
        """Translate a method that changes a list or a set that a local variable alone holds."""
        if not isinstance(method.value, ast.Name) or method.value.id not in self._names or len(call.args) != 1:
            raise self._unsupported(call, f".{method.attr}() of something else than a local variable")
        into = self._names[method.value.id]
        given = (self._consumed if method.attr == "extend" else self._value)(call.args[0])
        if method.attr in ("add", "append"):  # of a set, or of a list: other kinds end the search
            kind, operation = (SET_KIND, Op.OR) if method.attr == "add" else (LIST_KIND, Op.ADD)
            self._emit(operation, into, into, self._collected(kind, [given]))
        elif method.attr == "extend":
            self._emit(Op.ADD, into, into, self._result(Op.CONVERT, given, LIST_KIND))
        elif method.attr == "discard":
            self._emit(Op.WITHOUT, into, into, given)
        else:
            raise self._unsupported(call, f".{method.attr}()")

    def _do_assign(self, statement: ast.Assign) -> None:
        unpacks = [isinstance(one, ast.Tuple | ast.List) for one in statement.targets] == [True]
        value = (self._consumed if unpacks else self._value)(statement.value)
        if len(statement.targets) > 1:
            self._here(JumpLabel())  # keeps the value in its register
        for target in statement.targets:
            self._assign(target, value)

    def _do_annassign(self, statement: ast.AnnAssign) -> None:
        if statement.value is not None:
            self._assign(statement.target, self._value(statement.value))

    def _do_augassign(self, statement: ast.AugAssign) -> None:
        target = statement.target
        operation = BINARY_OPS.get(type(statement.op))
        if not isinstance(target, ast.Name) or operation is None:
            raise self._unsupported(statement, "an augmented assignment")
        into = self._names[target.id]
        if target.id not in self._changed:
            self._emit(Op.IMMUTABLE, into)
        self._emit(operation, into, self._value(ast.Name(target.id, ast.Load())), self._value(statement.value))

    def _assign(self, target: ast.expr, value: int) -> None:
        if isinstance(target, ast.Name):
            self._store(self._names[target.id], value)
            self._certain.add(target.id)
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(target, value)
        elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
            into = self._names.get(target.value.id)
            if into is None or target.value.id not in self._changed:
                raise self._unsupported(target, "an assignment to an element")
            self._emit(Op.PUT, into, into, self._value(target.slice), value)
        else:
            raise self._unsupported(target, "an assignment to something else than variables")

    def _unpack(self, target: ast.Tuple | ast.List, value: int) -> None:
        """Assign the elements of a sequence, the last ones as a list to a variable in a star at the end."""
        names = [one.value if isinstance(one, ast.Starred) else one for one in target.elts]
        count = len([one for one in target.elts if not isinstance(one, ast.Starred)])
        if count == len(names):
            first = self._register(count)
            self._emit(Op.UNPACK, first, value, count)
            places = [first + place for place in range(count)]
        elif names[:count] == target.elts[:count]:
            places = [self._result(Op.INDEX, value, self._constant(place)) for place in range(count)]
            rest = self._result(Op.SLICE, value, self._constant(count), self._constant(None))
            places.append(self._result(Op.CONVERT, rest, LIST_KIND))
        else:
            raise self._unsupported(target, "a star before other variables")
        for one, place in zip(names, places, strict=True):
            self._assign(one, place)

    def _do_if(self, statement: ast.If) -> None:
        otherwise, end = JumpLabel(), JumpLabel()
        self._emit(Op.UNLESS, self._value(statement.test), otherwise)
        self._branch(statement.body)
        if statement.orelse:
            self._emit(Op.JUMP, end)
        self._here(otherwise)
        self._branch(statement.orelse)
        self._here(end)

    def _do_for(self, statement: ast.For) -> None:
        end = JumpLabel()
        with self._each(self._consumed(statement.iter)) as (element, again):
            before = set(self._certain)
            self._assign(statement.target, element)
            self._loops.append((again, end))
            self._branch(statement.body)
            self._loops.pop()
        self._certain = before
        self._branch(statement.orelse)
        self._here(end)

    def _do_while(self, statement: ast.While) -> None:
        again, over, end = JumpLabel(), JumpLabel(), JumpLabel()
        self._here(again)
        self._emit(Op.UNLESS, self._value(statement.test), over)
        self._loops.append((again, end))
        self._branch(statement.body)
        self._loops.pop()
        self._emit(Op.JUMP, again)
        self._here(over)
        self._branch(statement.orelse)
        self._here(end)

    def _do_break(self, _: ast.Break) -> None:
        self._emit(Op.JUMP, self._loops[-1][1])

    def _do_continue(self, _: ast.Continue) -> None:
        self._emit(Op.JUMP, self._loops[-1][0])

    def _do_assert(self, statement: ast.Assert) -> None:
        end = JumpLabel()
        self._emit(Op.IF, self._value(statement.test), end)
        self._emit(Op.FAIL)
        self._here(end)

    def _do_raise(self, _: ast.Raise) -> None:
        self._emit(Op.FAIL)


def _with_last_target(code: tuple[int, ...], placed: list[tuple[int, ...]]) -> tuple[int, ...]:
    """Return a jump with the target to which further jumps from its own lead, other instructions unchanged."""
    operation, tested = code[:2]
    if operation == Op.JUMP:
        return operation, _last_target(code[1], placed), *code[2:]
    if operation in (Op.IF, Op.UNLESS):
        return operation, tested, _last_target(code[2], placed, operation, tested), *code[3:]
    return code


def _last_target(target: int, placed: list[tuple[int, ...]], operation: int = Op.JUMP, tested: int = -1) -> int:
    """Return where a jump ends that leads to other jumps, which may test the same register for the same."""
    for _ in placed:  # a loop may be endless
        following = placed[target]
        if following[0] == Op.JUMP:
            target = following[1]
        elif following[:2] == (operation, tested):
            target = following[2]
        else:
            break
    return target

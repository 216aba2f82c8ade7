"""Translation of a function: its statements."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Any

from kraftcheck.explorer.bytecode import library
from kraftcheck.explorer.bytecode.calls import CallTranslator
from kraftcheck.explorer.bytecode.emitter import JumpLabel, NestedVariableScope
from kraftcheck.explorer.bytecode.expressions import BINARY_OPS, bound_variables
from kraftcheck.explorer.bytecode.kernel.codes import LIST_KIND, SET_KIND, Op
from kraftcheck.explorer.bytecode.source import (
    MUTATORS,
    ChangedItem,
    are_only_elements_read,
    coverage_probe_number,
    item_changed_in_place,
    reads_variable,
    walrus_variables,
)
from kraftcheck.spec.values import field_names

Pattern = tuple[list[ast.expr], dict[str, ast.expr]]
"""Tests of a value for a pattern, and the values of the names that the pattern captures."""


class FunctionTranslator(CallTranslator):
    """The translation of one function."""

    def translated(self) -> tuple[list[tuple[int, ...]], int]:
        """Return the instructions and the number of registers."""
        self._loops: list[tuple[JumpLabel, JumpLabel]] = []  # where continue and break lead
        self._lambdas = {}
        self._names = {name: self._register() for name in self.parameters}
        self._names |= {name: self._result(Op.UNSET) for name in self._locals if name not in self.parameters}
        self._block(self.tree.body)
        self._emit(Op.RETURN, self._constant(None))
        placed = [tuple(one.place if isinstance(one, JumpLabel) else one for one in code) for code in self._code]
        return [_jump_to_final_target(code, placed) for code in placed], self._registers + 1

    def _block(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            self._line = statement.lineno
            method = getattr(self, f"_do_{type(statement).__name__.lower()}", None)
            if method is None:
                raise self._unsupported(statement, f"a statement {type(statement).__name__.lower()}")
            method(statement)
            if isinstance(statement, ast.Return | ast.Raise | ast.Continue | ast.Break):
                break  # `return` before a `yield` makes a generator without elements

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
        elif coverage_probe_number(value) is not None:
            self._value(value)
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in MUTATORS:
            self._change_variable_or_item(value, value.func)
        elif not isinstance(value, ast.Constant):
            raise self._unsupported(statement, "an expression whose value is not used")

    def _change_variable_or_item(self, call: ast.Call, method: ast.Attribute) -> None:
        item = item_changed_in_place(call)
        if item is None or item.variable not in self._names:
            self._require_no_late_reads(call, method)
            self._change(call, method)
        elif method.attr == "pop" or any(isinstance(one, ast.NamedExpr) for one in ast.walk(call)):
            raise self._unsupported(call, f"this .{method.attr}() of an item")  # the key is evaluated twice
        else:
            self._change_item(call, method.attr, item)

    def _require_no_late_reads(self, call: ast.Call, method: ast.Attribute) -> None:
        """Raise for an iterator that reads a variable while the method changes it."""
        name = method.value.id if isinstance(method.value, ast.Name) else ""
        if any(self._is_lazy(one) and reads_variable(one, name) for one in call.args):
            raise self._unsupported(call, f".{method.attr}() with an iterator that reads its variable")

    def _change(self, call: ast.Call, method: ast.Attribute) -> None:
        """Translate a method that changes a list, a set or a dict that a local variable alone holds."""
        name = method.attr
        if not isinstance(method.value, ast.Name) or method.value.id not in self._names:
            raise self._unsupported(call, f".{name}() of something else than a local variable")
        into = self._names[method.value.id]
        if name in library.CHANGES:
            function = library.CHANGES[name]
            self._emit(Op.MOVE, into, self._call(function, self._arguments(call, function, [into])))
        elif name == "pop":
            self._popped(call)
        elif name == "sort" and not call.args:
            made = ast.Call(ast.Name("sorted", ast.Load()), [method.value], call.keywords)
            self._emit(Op.MOVE, into, self._value(ast.copy_location(made, call)))
        elif len(call.args) == 1:
            self._change_by_one(name, into, (self._consumed if name == "extend" else self._value)(call.args[0]))
        else:
            raise self._unsupported(call, f"the arguments of .{name}()")

    def _change_item(self, call: ast.Call, method: str, item: ChangedItem) -> None:
        """Translate a method that changes an item of a local variable as a change of a variable that is stored."""
        changed = "changed item"
        with NestedVariableScope(self, [changed]):
            self._emit(Op.MOVE, self._names[changed], self._value(item.value))
            of = ast.Attribute(ast.Name(changed, ast.Load()), method, ast.Load())
            again = ast.fix_missing_locations(ast.copy_location(ast.Call(of, call.args, call.keywords), call))
            self._change(again, of)
            into = ast.Subscript(ast.Name(item.variable, ast.Load()), item.key, ast.Store())
            self._assign(ast.fix_missing_locations(ast.copy_location(into, call)), self._names[changed])

    def _change_by_one(self, name: str, into: int, given: int) -> None:
        if name in ("add", "append"):  # of a set, or of a list: other kinds end the search
            kind, operation = (SET_KIND, Op.OR) if name == "add" else (LIST_KIND, Op.ADD)
            self._emit(operation, into, into, self._collected(kind, [given]))
        elif name == "extend":
            self._emit(Op.ADD, into, into, self._result(Op.CONVERT, given, LIST_KIND))
        else:
            self._emit(Op.WITHOUT, into, into, given)

    def _do_assign(self, statement: ast.Assign) -> None:
        value = statement.value
        match statement.targets:
            case [ast.Name(name)] if isinstance(value, ast.Lambda):
                self._define(name, value, statement)
                return
            case [ast.Name(name)] if self._is_view(value) and are_only_elements_read(self.tree, name):
                found = self._consumed(value)
            case [ast.Tuple() | ast.List()]:
                found = self._consumed(value)
            case _:
                popped = self._popped(value)
                found = self._value(value) if popped is None else popped
        if len(statement.targets) > 1:
            self._here(JumpLabel())  # keeps the value in its register
        for target in statement.targets:
            self._assign(target, found)

    def _popped(self, node: ast.expr) -> int | None:
        """Translate `pop` of a local variable; return the element, or None for another expression."""
        match node:
            case ast.Call(ast.Attribute(ast.Name(name), "pop")) if name in self._changed:
                returned: Any = library.popped_element
                arguments = self._arguments(node, returned, [self._names[name]])
                found = self._call(returned, arguments)
                self._emit(Op.MOVE, self._names[name], self._call(library.without_popped, arguments))
                return found
        return None

    def _is_view(self, node: ast.expr) -> bool:
        """Return whether an expression is a range, or a view of something that does not change."""
        if not isinstance(node, ast.Call) or not self._is_lazy(node):
            return False
        target, owner = self._object(node.func), node.func.value if isinstance(node.func, ast.Attribute) else None
        return target is range or (
            target is None and owner is not None and _name_if_variable(owner) not in self._changed
        )

    def _define(self, name: str, function: ast.Lambda, statement: ast.stmt) -> None:
        """Define a local function, which is translated where it is called; its variables may change before that."""
        names = [one for one in ast.walk(self.tree) if isinstance(one, ast.Name | ast.FunctionDef)]
        stored = [one for one in names if getattr(one, "name", "") == name or _is_store_of_name(one, name)]
        is_certain = statement in self.tree.body  # else another path may lead to a call
        has_walrus = any(isinstance(one, ast.NamedExpr) for one in ast.walk(function))
        if not is_certain or len(stored) != 1 or name in self.parameters or has_walrus:
            raise self._unsupported(function, f"the local function {name}")
        names_there, local, certain = self.scope
        self._lambdas[name] = function, (names_there, local, set(certain))

    def _do_functiondef(self, statement: ast.FunctionDef) -> None:
        match [one for one in statement.body if not _is_constant_statement(one)]:
            case [ast.Return(ast.expr() as value)] if not statement.decorator_list:
                self._define(statement.name, ast.copy_location(ast.Lambda(statement.args, value), statement), statement)
            case _:
                raise self._unsupported(statement, "a local function of several statements")

    def _do_delete(self, statement: ast.Delete) -> None:
        for target in statement.targets:
            if not isinstance(target, ast.Subscript) or _name_if_variable(target.value) not in self._changed:
                raise self._unsupported(statement, "a deletion of something else than an item of a local variable")
            into = self._names[_name_if_variable(target.value)]
            self._emit(Op.MOVE, into, self._call(library.without_key, [into, self._value(target.slice)]))

    def _do_match(self, statement: ast.Match) -> None:
        """Translate a match as a chain of tests."""
        subject = "subject of match"
        with NestedVariableScope(self, [subject]):
            self._emit(Op.MOVE, self._names[subject], self._value(statement.subject))
            found = [(one, *self._pattern(ast.Name(subject, ast.Load()), one.pattern)) for one in statement.cases]
            chain: list[ast.stmt] = []
            for case, tests, captured in reversed(found):
                if case.guard is not None:
                    if not bound_variables(ast.walk(case.guard)).isdisjoint(captured):
                        raise self._unsupported(case.guard, "a captured name that the guard binds too")
                    for name in captured:
                        self._require_read_in(name, [one for one, _, names in found if name in names])
                    tests.append(_PatternCaptureSubstituter(captured).visit(deepcopy(case.guard)))
                bound = [ast.Assign([ast.Name(one, ast.Store())], value) for one, value in captured.items()]
                chain = [ast.If(_conjunction(tests), [*bound, *case.body], chain)]
            self._block([ast.fix_missing_locations(ast.copy_location(one, statement)) for one in chain])

    def _require_read_in(self, name: str, cases: Iterable[ast.AST]) -> None:
        """Raise unless a captured name is read in these cases alone: a guard that fails has set it too."""
        inner, outer = ([one for tree in trees for one in _load_nodes(tree, name)] for trees in (cases, [self.tree]))
        if len(inner) != len(outer):
            raise self._unsupported(self.tree, f"the name {name} in a guard and beyond")

    def _pattern(self, value: ast.expr, pattern: ast.pattern) -> Pattern:
        """Return the tests of a value for a pattern, and the values of the names that it captures."""
        method = getattr(self, f"_of_{type(pattern).__name__.lower()}", None)
        found: Pattern | None = method and method(value, pattern)
        if found is None or not self._changed.isdisjoint(found[1]):
            raise self._unsupported(pattern, f"a pattern {type(pattern).__name__}")
        return found

    def _of_matchvalue(self, value: ast.expr, pattern: ast.MatchValue) -> Pattern:
        return [ast.Compare(value, [ast.Eq()], [pattern.value])], {}

    def _of_matchsingleton(self, value: ast.expr, pattern: ast.MatchSingleton) -> Pattern:
        return [ast.Compare(value, [ast.Is()], [ast.Constant(pattern.value)])], {}

    def _of_matchas(self, value: ast.expr, pattern: ast.MatchAs) -> Pattern:
        tests, captured = ([], {}) if pattern.pattern is None else self._pattern(value, pattern.pattern)
        return tests, captured | ({} if pattern.name is None else {pattern.name: value})

    def _of_matchor(self, value: ast.expr, pattern: ast.MatchOr) -> Pattern | None:
        ways = [self._pattern(value, one) for one in pattern.patterns]
        test = ast.BoolOp(ast.Or(), [_conjunction(tests) for tests, _ in ways])
        return None if any(captured for _, captured in ways) else ([test], {})

    def _of_matchclass(self, value: ast.expr, pattern: ast.MatchClass) -> Pattern | None:
        if not self._is_record_class(pattern.cls):
            return None
        known = field_names(self._object(pattern.cls))
        fields = [*known[: len(pattern.patterns)], *pattern.kwd_attrs]
        parts = [ast.Attribute(value, one, ast.Load()) for one in fields]
        tests = [_call_node("isinstance", value, pattern.cls)]
        inner = [*pattern.patterns, *pattern.kwd_patterns]
        return self._patterns(tests, parts, inner) if {*fields} <= {*known} and len(inner) == len(fields) else None

    def _of_matchsequence(self, value: ast.expr, pattern: ast.MatchSequence) -> Pattern:
        patterns, parts = pattern.patterns, list[ast.expr]()
        star = next((place for place, one in enumerate(patterns) if isinstance(one, ast.MatchStar)), None)
        count, compared = (len(patterns), ast.Eq()) if star is None else (len(patterns) - 1, ast.GtE())
        for place, one in enumerate(patterns):
            at: ast.expr = ast.Constant(place if star is None or place <= star else place - len(patterns))
            if isinstance(one, ast.MatchStar):
                end = None if place == count else ast.Constant(place - count)
                parts.append(_call_node("list", ast.Subscript(value, ast.Slice(at, end), ast.Load())))
            else:
                parts.append(ast.Subscript(value, at, ast.Load()))
        kinds = ast.Tuple([ast.Name("tuple", ast.Load()), ast.Name("list", ast.Load())], ast.Load())
        tests = [
            _call_node("isinstance", value, kinds),
            ast.Compare(_call_node("len", value), [compared], [ast.Constant(count)]),
        ]
        return self._patterns(tests, parts, patterns)

    def _of_matchstar(self, value: ast.expr, pattern: ast.MatchStar) -> Pattern:
        return [], {} if pattern.name is None else {pattern.name: value}

    def _patterns(self, tests: list[ast.expr], values: Sequence[ast.expr], patterns: Sequence[ast.pattern]) -> Pattern:
        captured: dict[str, ast.expr] = {}
        for value, pattern in zip(values, patterns, strict=True):
            more, names = self._pattern(value, pattern)
            tests, captured = [*tests, *more], captured | names
        return tests, captured

    def _do_annassign(self, statement: ast.AnnAssign) -> None:
        if statement.value is not None:
            self._assign(statement.target, self._value(statement.value))

    def _do_augassign(self, statement: ast.AugAssign) -> None:
        target = statement.target
        operation = BINARY_OPS.get(type(statement.op))
        if isinstance(target, ast.Subscript) and not walrus_variables(target):  # its value must not change in place
            item = self._value(ast.copy_location(ast.Subscript(target.value, target.slice, ast.Load()), target))
            self._emit(Op.IMMUTABLE, item)
            with NestedVariableScope(self, ["item of a variable"]):
                self._emit(Op.MOVE, self._names["item of a variable"], item)
                made = ast.BinOp(ast.Name("item of a variable", ast.Load()), statement.op, statement.value)
                found = self._value(ast.copy_location(made, statement))
            self._assign(target, found)
            return
        if not isinstance(target, ast.Name) or operation is None:
            raise self._unsupported(statement, "an augmented assignment")
        into = self._names[target.id]
        if target.id in self._changed and operation is Op.ADD:  # a list of its own
            self._change_by_one("extend", into, self._value(statement.value))
            return
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
        with self._each(self._iterable(statement.iter, [statement.target, *statement.body])) as (element, again):
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


def _jump_to_final_target(code: tuple[int, ...], placed: list[tuple[int, ...]]) -> tuple[int, ...]:
    """Return a jump with the target to which further jumps from its own lead, other instructions unchanged."""
    operation, tested = code[:2]
    if operation == Op.JUMP:
        return operation, _final_jump_target(code[1], placed), *code[2:]
    if operation in (Op.IF, Op.UNLESS):
        return operation, tested, _final_jump_target(code[2], placed, operation, tested), *code[3:]
    return code


def _final_jump_target(target: int, placed: list[tuple[int, ...]], operation: int = Op.JUMP, tested: int = -1) -> int:
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


class _PatternCaptureSubstituter(ast.NodeTransformer):
    """Replaces names that a pattern captures by the values that they stand for."""

    def __init__(self, captured: dict[str, ast.expr]) -> None:
        self._captured = captured

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._captured.get(node.id, node)


def _conjunction(tests: list[ast.expr]) -> ast.expr:
    return ast.BoolOp(ast.And(), tests) if len(tests) > 1 else next(iter(tests), ast.Constant(True))


def _call_node(name: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(name, ast.Load()), [*arguments], [])


def _name_if_variable(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _is_store_of_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)


def _load_nodes(tree: ast.AST, name: str) -> list[ast.AST]:
    return [
        one
        for one in ast.walk(tree)
        if isinstance(one, ast.Name) and one.id == name and not _is_store_of_name(one, name)
    ]


def _is_constant_statement(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)

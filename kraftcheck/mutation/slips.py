"""The slips that people make in a protocol's methods: each a piece of the source, and what it is replaced by."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from kraftcheck.mutation.vocabulary import Vocabulary, other_member, other_name
from kraftcheck.spec.diagnosis.source import called, negated
from kraftcheck.spec.values import is_enum

GUARD = "guard dropped"
CONDITION = "condition dropped"
NEGATED = "condition negated"
BOUNDARY = "boundary"
OFF_BY_ONE = "off by one"
NOT_SENT = "message not sent"
SENT_TWICE = "message sent twice"
KEPT = "message kept"
NOT_UPDATED = "field not updated"
SKIPPED = "branch skipped"
NO_STEP = "step not taken"
WRONG_FIELD = "wrong field"
WRONG_CONSTANT = "wrong constant"
SWAPPED = "arguments swapped"
OPERAND = "operand dropped"
WRONG_RULE = "wrong rule"
KINDS = (
    *(GUARD, CONDITION, NEGATED, BOUNDARY, OFF_BY_ONE, NOT_SENT, SENT_TWICE, KEPT, NOT_UPDATED, SKIPPED, NO_STEP),
    *(WRONG_FIELD, WRONG_CONSTANT, SWAPPED, OPERAND, WRONG_RULE),
)
"""The kinds of slips, as reports list them."""

_BOUNDARIES: dict[type[ast.cmpop], str] = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}
_OPPOSITE_RULES = {"min": "max", "max": "min", "any": "all", "all": "any"}
_COMPOUND = (ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.IfExp, ast.Lambda)
_SENDS = ("send", "send_once", "reply", "forget", "write")
_LEAVES = (ast.Return, ast.Continue, ast.Break, ast.Raise)


class Slip(NamedTuple):
    """One slip."""

    kind: str  # one of `KINDS`
    node: ast.AST  # what is replaced: a node of the syntax tree
    text: str  # by what, as source
    statement: ast.stmt  # the statement that it is in; of a compound one its head matters


class Slips:
    """Finds the slips in one function."""

    def __init__(self, function: Callable[..., Any], vocabulary: Vocabulary) -> None:
        self._function = function
        self._names = function.__globals__
        self._vocabulary = vocabulary
        self._parameters = function.__code__.co_varnames[: function.__code__.co_argcount]

    def of(self, definition: ast.FunctionDef) -> Iterator[Slip]:
        """Yield the slips in the function's definition."""
        body = definition.body[1:] if ast.get_docstring(definition) is not None else definition.body
        for statement in body:
            yield from self._statement(statement)

    def _statement(self, statement: ast.stmt) -> Iterator[Slip]:
        if isinstance(statement, ast.If | ast.While):
            yield from self._branch(statement)
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Yield | ast.YieldFrom):
            yield Slip(NO_STEP, statement, "pass", statement)
        if isinstance(statement, ast.Return) and statement.value is not None and _is_test(statement.value):
            yield Slip(NEGATED, statement.value, ast.unparse(negated(statement.value)), statement)
        yield from self._parts(statement, statement)

    def _parts(self, node: ast.AST, statement: ast.stmt) -> Iterator[Slip]:
        """Yield the slips in the parts of a statement, those of its cases, handlers and contexts included."""
        for field, value in ast.iter_fields(node):
            inner = value if isinstance(value, list) else [value]
            for child in inner:
                if isinstance(child, ast.stmt):
                    yield from self._statement(child)
                elif isinstance(child, ast.match_case):
                    yield from self._case(child, statement)
                elif isinstance(child, ast.ExceptHandler | ast.withitem):
                    yield from self._parts(child, statement)
                elif isinstance(child, ast.expr) and field != "annotation":
                    yield from self._expression(child, node, statement)

    def _case(self, case: ast.match_case, statement: ast.stmt) -> Iterator[Slip]:
        if case.guard is not None:
            yield Slip(CONDITION, case.guard, "True", statement)
            yield Slip(NEGATED, case.guard, ast.unparse(negated(case.guard)), statement)
            yield from self._expression(case.guard, case, statement)
        for inner in case.body:
            yield from self._statement(inner)

    def _branch(self, statement: ast.If | ast.While) -> Iterator[Slip]:
        leaves = len(statement.body) == 1 and isinstance(statement.body[0], _LEAVES) and not statement.orelse
        yield Slip(GUARD if leaves else SKIPPED, statement.test, "False", statement)
        if isinstance(statement, ast.If):
            yield Slip(NEGATED, statement.test, ast.unparse(negated(statement.test)), statement)
            if statement.orelse:
                yield Slip(SKIPPED, statement.test, "True", statement)

    def _expression(self, node: ast.expr, parent: ast.AST, statement: ast.stmt) -> Iterator[Slip]:
        for kind, target, text in self._slips_at(node, parent):
            yield Slip(kind, target, text, statement)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.keyword):
                yield from self._expression(child.value, child, statement)
            elif isinstance(child, ast.comprehension):
                yield from self._comprehension(child, statement)
            elif isinstance(child, ast.expr):
                yield from self._expression(child, node, statement)

    def _comprehension(self, node: ast.comprehension, statement: ast.stmt) -> Iterator[Slip]:
        yield from self._expression(node.iter, node, statement)
        for test in node.ifs:
            yield Slip(CONDITION, test, "True", statement)
            yield Slip(NEGATED, test, _within(ast.unparse(negated(test)), negated(test), node), statement)
            yield from self._expression(test, node, statement)

    def _slips_at(self, node: ast.expr, parent: ast.AST) -> Iterator[tuple[str, ast.AST, str]]:
        """Yield the slips that replace an expression itself: kind, what is replaced, and by what."""
        match node:
            case ast.BoolOp():
                for operand in node.values:
                    others = [other for other in node.values if other is not operand]
                    rest = others[0] if len(others) == 1 else ast.BoolOp(node.op, others)
                    yield CONDITION, node, _within(ast.unparse(rest), rest, parent)
            case ast.IfExp():
                for branch in (node.body, node.orelse):
                    yield SKIPPED, node, _within(ast.unparse(branch), branch, parent)
            case ast.Compare(ops=[op]) if type(op) in _BOUNDARIES:
                left, right = ast.unparse(node.left), ast.unparse(node.comparators[0])
                yield BOUNDARY, node, _within(f"{left} {_BOUNDARIES[type(op)]} {right}", node, parent)
            case ast.Compare(ops=[_]) if isinstance(parent, ast.Lambda | ast.GeneratorExp):
                opposite = negated(node)
                yield NEGATED, node, ast.unparse(opposite)
            case ast.BinOp(op=ast.BitOr() | ast.Sub() | ast.BitAnd()) if not isinstance(node.right, ast.Constant):
                yield OPERAND, node, _within(ast.unparse(node.left), node.left, parent)
            case ast.Constant():
                yield from _constant(node, parent)
            case ast.Slice():
                for edge in (node.lower, node.upper):
                    if isinstance(edge, ast.Name | ast.Attribute):
                        yield OFF_BY_ONE, edge, f"{ast.unparse(edge)} + 1"
            case ast.Attribute(ctx=ast.Load()):
                yield from self._attribute(node)
            case ast.Name(ctx=ast.Load()):
                other = other_name(node.id, self._names) if node.id not in self._parameters else None
                if other is not None:
                    yield WRONG_CONSTANT, node, other
            case ast.Call():
                yield from self._call(node, parent)

    def _attribute(self, node: ast.Attribute) -> Iterator[tuple[str, ast.AST, str]]:
        owner = node.value
        if isinstance(owner, ast.Name):
            cls = self._names.get(owner.id)
            if cls is not None and is_enum(cls):
                other = other_member(getattr(cls, node.attr)) if node.attr in cls.__members__ else None
                if other is not None:
                    yield WRONG_CONSTANT, node, f"{owner.id}.{other.name}"
                return
        owners = self._vocabulary.owners(self._function, owner.id) if isinstance(owner, ast.Name) else ()
        field = self._vocabulary.other_field(node.attr, owners)
        if field is not None and not (isinstance(owner, ast.Name) and owner.id == "self"):
            yield WRONG_FIELD, node, f"{ast.unparse(owner)}.{field}"

    def _call(self, node: ast.Call, parent: ast.AST) -> Iterator[tuple[str, ast.AST, str]]:
        name = called(node)
        method = isinstance(node.func, ast.Attribute)
        if method and name in _SENDS:
            yield from _sending(node, str(name))
        if method and name in ("but", "put"):
            yield from _not_updated(node)
        if not method and name == "consume":
            yield KEPT, node.func, "become"
        if not method and name in _OPPOSITE_RULES:
            yield WRONG_RULE, node.func, _OPPOSITE_RULES[str(name)]
        for one, two in self._vocabulary.swappable(self._names.get(str(name))) if not method else ():
            if two < len(node.args) and ast.dump(node.args[one]) != ast.dump(node.args[two]):
                places = [*node.args]
                places[one], places[two] = places[two], places[one]
                yield SWAPPED, node, ast.unparse(ast.Call(node.func, places, node.keywords))


def _sending(node: ast.Call, name: str) -> Iterator[tuple[str, ast.AST, str]]:
    """Yield the slips of a call that sends messages, or writes replicas."""
    assert isinstance(node.func, ast.Attribute)
    before = ast.unparse(node.func.value)
    kind = NOT_UPDATED if name == "write" else NOT_SENT
    if len(node.args) == 1:
        yield kind, node, f"{before}.but(consumes=True)" if name == "reply" else before
    else:
        for argument in node.args:
            left: list[ast.expr] = [other for other in node.args if other is not argument]
            yield kind, node, ast.unparse(ast.Call(node.func, left, node.keywords))
    if name == "send":
        yield SENT_TWICE, node, ast.unparse(ast.Call(node.func, [*node.args, *node.args], node.keywords))
    elif name == "reply":
        yield SENT_TWICE, node, f"{ast.unparse(node)}.send({', '.join(map(ast.unparse, node.args))})"


def _not_updated(node: ast.Call) -> Iterator[tuple[str, ast.AST, str]]:
    """Yield the slips of a call that gives fields new values: one of them stays as it was."""
    assert isinstance(node.func, ast.Attribute)
    for keyword in node.keywords:
        left = [other for other in node.keywords if other is not keyword]
        changed = ast.Call(node.func, node.args, left) if left or node.args else node.func.value
        yield NOT_UPDATED, node, ast.unparse(changed)


def _constant(node: ast.Constant, parent: ast.AST) -> Iterator[tuple[str, ast.AST, str]]:
    value = node.value
    if isinstance(value, bool):
        yield WRONG_CONSTANT, node, str(not value)
    elif isinstance(value, int):
        forgotten = isinstance(parent, ast.BinOp) and value > 0
        yield OFF_BY_ONE, node, str(value - 1 if forgotten else value + 1)


def _is_test(node: ast.expr) -> bool:
    return isinstance(node, ast.BoolOp | ast.Compare) or (
        isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    )


def _within(text: str, node: ast.expr, parent: ast.AST) -> str:
    """Return the source of an expression as it stands within another one."""
    holds = isinstance(parent, (*_COMPOUND, ast.Attribute, ast.Subscript, ast.Starred))
    plain = isinstance(node, ast.Compare) and isinstance(parent, ast.BoolOp)
    return f"({text})" if isinstance(node, _COMPOUND) and holds and not plain else text

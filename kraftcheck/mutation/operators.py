"""Mutation operators: small mistakes in the methods of a protocol, each the replacement of a piece of source."""

from __future__ import annotations

import ast
import enum
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any, NamedTuple, get_args, get_type_hints

from kraftcheck.spec.diagnosis.source import called_name, negation
from kraftcheck.spec.values import Record, field_types, is_enum

GUARD_DROPPED = "guard dropped"
CONDITION_DROPPED = "condition dropped"
CONDITION_NEGATED = "condition negated"
BOUNDARY_SHIFTED = "boundary"
OFF_BY_ONE = "off by one"
MESSAGE_NOT_SENT = "message not sent"
MESSAGE_SENT_TWICE = "message sent twice"
MESSAGE_KEPT = "message kept"
FIELD_NOT_UPDATED = "field not updated"
BRANCH_SKIPPED = "branch skipped"
STEP_NOT_TAKEN = "step not taken"
WRONG_FIELD = "wrong field"
WRONG_CONSTANT = "wrong constant"
ARGUMENTS_SWAPPED = "arguments swapped"
OPERAND_DROPPED = "operand dropped"
WRONG_RULE = "wrong rule"
OPERATOR_NAMES = (
    *(GUARD_DROPPED, CONDITION_DROPPED, CONDITION_NEGATED, BOUNDARY_SHIFTED, OFF_BY_ONE, MESSAGE_NOT_SENT),
    *(MESSAGE_SENT_TWICE, MESSAGE_KEPT, FIELD_NOT_UPDATED, BRANCH_SKIPPED, STEP_NOT_TAKEN, WRONG_FIELD),
    *(WRONG_CONSTANT, ARGUMENTS_SWAPPED, OPERAND_DROPPED, WRONG_RULE),
)
"""The mutation operators, in the order of reports."""

_BOUNDARY_OPERATORS: dict[type[ast.cmpop], str] = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}
_OPPOSITE_FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}
_COMPOUND_EXPRESSIONS = (ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.IfExp, ast.Lambda)
_SENDING_METHODS = ("send", "send_once", "reply", "forget", "write")
_LEAVING_NODES = (ast.Return, ast.Continue, ast.Break, ast.Raise)

FieldTypes = dict[str, Any]
"""The types of a record's fields, by name."""

Replacement = tuple[str, ast.AST, str]
"""A mutation operator, the replaced node, and the new source."""


class RecordClasses:
    """Record classes that a protocol's modules name, with the types of their fields, for use in mutations."""

    def __init__(self, modules: Iterable[ModuleType]) -> None:
        named = [value for module in modules for value in vars(module).values() if isinstance(value, type)]
        records = dict.fromkeys(cls for cls in named if issubclass(cls, Record) and cls is not Record)
        self._fields = {cls: _field_types(cls) for cls in records}

    def other_field(self, name: str, owners: Iterable[type]) -> str | None:
        """Return another field to read instead of `name`: the next one with the same type; None if there is none."""
        asked = [cls for cls in owners if cls in self._fields] or list(self._fields)
        having = [self._fields[cls] for cls in asked if name in self._fields[cls]]
        if not having:
            return None
        names = list(having[0])
        place = names.index(name)
        for other in (*names[place + 1 :], *names[:place]):
            if all(fields.get(other, Ellipsis) == fields[name] for fields in having):
                return other
        return None

    def swappable(self, cls: object) -> list[tuple[int, int]]:
        """Return the pairs of neighbouring parameters with one type in a record's constructor."""
        types = list(self._fields.get(cls, {}).values()) if isinstance(cls, type) else []
        return [(place, place + 1) for place in range(len(types) - 1) if types[place] == types[place + 1]]

    def owners(self, function: Callable[..., Any], parameter: str) -> tuple[type, ...]:
        """Return the record classes in the annotation of a function's parameter."""
        try:
            hint = get_type_hints(function).get(parameter)
        except (NameError, TypeError):
            return ()
        return tuple(kind for kind in (get_args(hint) or (hint,)) if kind in self._fields)


def _field_types(cls: type[Record]) -> FieldTypes:
    try:
        return field_types(cls)
    except NameError:  # a class defined within a function
        return {}


def next_enum_member(symbol: enum.Enum) -> enum.Enum | None:
    """Return the next member of an enum, or None if there is no other."""
    members = list(type(symbol))
    other = members[(members.index(symbol) + 1) % len(members)]
    return None if other is symbol else other


def module_name_of_other_enum_member(name: str, names: dict[str, Any]) -> str | None:
    """Return the next name in a module for another symbol of the same class, or None."""
    symbol = names.get(name)
    if not isinstance(symbol, enum.Enum):
        return None
    alike = [known for known, value in names.items() if type(value) is type(symbol)]
    place = alike.index(name)
    return next((known for known in (*alike[place + 1 :], *alike[:place]) if names[known] is not symbol), None)


class Mutation(NamedTuple):
    """A mutation: a mistake at one place."""

    kind: str  # one of `OPERATOR_NAMES`
    node: ast.AST  # the replaced node of the syntax tree
    text: str  # the new source
    statement: ast.stmt  # the statement that contains the node; of a compound one, its head matters


class MutationFinder:
    """Finds the mutations of one function."""

    def __init__(self, function: Callable[..., Any], vocabulary: RecordClasses) -> None:
        self._function = function
        self._names = function.__globals__
        self._vocabulary = vocabulary
        self._parameters = function.__code__.co_varnames[: function.__code__.co_argcount]

    def of(self, definition: ast.FunctionDef) -> Iterator[Mutation]:
        """Yield the mutations of the function's definition."""
        body = definition.body[1:] if ast.get_docstring(definition) is not None else definition.body
        for statement in body:
            yield from self._statement(statement)

    def _statement(self, statement: ast.stmt) -> Iterator[Mutation]:
        if isinstance(statement, ast.If | ast.While):
            yield from self._branch(statement)
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Yield | ast.YieldFrom):
            yield Mutation(STEP_NOT_TAKEN, statement, "pass", statement)
        if isinstance(statement, ast.Return) and statement.value is not None and _is_condition(statement.value):
            yield Mutation(CONDITION_NEGATED, statement.value, ast.unparse(negation(statement.value)), statement)
        yield from self._parts(statement, statement)

    def _parts(self, node: ast.AST, statement: ast.stmt) -> Iterator[Mutation]:
        """Yield the mutations in the parts of a statement, including its cases, handlers and contexts."""
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

    def _case(self, case: ast.match_case, statement: ast.stmt) -> Iterator[Mutation]:
        if case.guard is not None:
            yield Mutation(CONDITION_DROPPED, case.guard, "True", statement)
            yield Mutation(CONDITION_NEGATED, case.guard, ast.unparse(negation(case.guard)), statement)
            yield from self._expression(case.guard, case, statement)
        for inner in case.body:
            yield from self._statement(inner)

    def _branch(self, statement: ast.If | ast.While) -> Iterator[Mutation]:
        leaves = len(statement.body) == 1 and isinstance(statement.body[0], _LEAVING_NODES) and not statement.orelse
        yield Mutation(GUARD_DROPPED if leaves else BRANCH_SKIPPED, statement.test, "False", statement)
        if isinstance(statement, ast.If):
            yield Mutation(CONDITION_NEGATED, statement.test, ast.unparse(negation(statement.test)), statement)
            if statement.orelse:
                yield Mutation(BRANCH_SKIPPED, statement.test, "True", statement)

    def _expression(self, node: ast.expr, parent: ast.AST, statement: ast.stmt) -> Iterator[Mutation]:
        for kind, target, text in self._mutations_at(node, parent):
            yield Mutation(kind, target, text, statement)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.keyword):
                yield from self._expression(child.value, child, statement)
            elif isinstance(child, ast.comprehension):
                yield from self._comprehension(child, statement)
            elif isinstance(child, ast.expr):
                yield from self._expression(child, node, statement)

    def _comprehension(self, node: ast.comprehension, statement: ast.stmt) -> Iterator[Mutation]:
        yield from self._expression(node.iter, node, statement)
        for test in node.ifs:
            yield Mutation(CONDITION_DROPPED, test, "True", statement)
            yield Mutation(
                CONDITION_NEGATED,
                test,
                _parenthesized_source(ast.unparse(negation(test)), negation(test), node),
                statement,
            )
            yield from self._expression(test, node, statement)

    def _mutations_at(self, node: ast.expr, parent: ast.AST) -> Iterator[Replacement]:
        """Yield the mutations that replace an expression itself."""
        match node:
            case ast.BoolOp() | ast.IfExp() | ast.BinOp():
                yield from _operand_or_branch_dropping_mutations(node, parent)
            case ast.Compare(ops=[op]) if type(op) in _BOUNDARY_OPERATORS:
                left, right = ast.unparse(node.left), ast.unparse(node.comparators[0])
                yield (
                    BOUNDARY_SHIFTED,
                    node,
                    _parenthesized_source(f"{left} {_BOUNDARY_OPERATORS[type(op)]} {right}", node, parent),
                )
            case ast.Compare(ops=[_]) if isinstance(parent, ast.Lambda | ast.GeneratorExp):
                yield CONDITION_NEGATED, node, ast.unparse(negation(node))
            case ast.Constant():
                yield from _constant_mutations(node, parent)
            case ast.Slice():
                yield from _slice_mutations(node)
            case ast.Attribute(ctx=ast.Load()):
                yield from self._attribute(node)
            case ast.Name(ctx=ast.Load()) if node.id not in self._parameters:
                if (other := module_name_of_other_enum_member(node.id, self._names)) is not None:
                    yield WRONG_CONSTANT, node, other
            case ast.Call():
                yield from self._call(node, str(called_name(node)))

    def _attribute(self, node: ast.Attribute) -> Iterator[Replacement]:
        owner = node.value
        if isinstance(owner, ast.Name):
            cls = self._names.get(owner.id)
            if cls is not None and is_enum(cls):
                other = next_enum_member(getattr(cls, node.attr)) if node.attr in cls.__members__ else None
                if other is not None:
                    yield WRONG_CONSTANT, node, f"{owner.id}.{other.name}"
                return
        owners = self._vocabulary.owners(self._function, owner.id) if isinstance(owner, ast.Name) else ()
        field = self._vocabulary.other_field(node.attr, owners)
        if field is not None and not (isinstance(owner, ast.Name) and owner.id == "self"):
            yield WRONG_FIELD, node, f"{ast.unparse(owner)}.{field}"

    def _call(self, node: ast.Call, name: str) -> Iterator[Replacement]:
        if isinstance(node.func, ast.Attribute):
            yield from _sending_or_field_update_mutations(node, name)
            return
        if name == "consume":
            yield MESSAGE_KEPT, node.func, "become"
        if name in _OPPOSITE_FUNCTIONS:
            yield WRONG_RULE, node.func, _OPPOSITE_FUNCTIONS[name]
        for one, two in self._vocabulary.swappable(self._names.get(name)):
            if two < len(node.args) and ast.dump(node.args[one]) != ast.dump(node.args[two]):
                places = [*node.args]
                places[one], places[two] = places[two], places[one]
                yield ARGUMENTS_SWAPPED, node, ast.unparse(ast.Call(node.func, places, node.keywords))


def _operand_or_branch_dropping_mutations(
    node: ast.BoolOp | ast.IfExp | ast.BinOp, parent: ast.AST
) -> Iterator[Replacement]:
    """Yield the mutations that drop an operand, or a branch."""
    left: list[tuple[str, ast.expr]] = []
    if isinstance(node, ast.BoolOp):
        for operand in node.values:
            others = [other for other in node.values if other is not operand]
            left.append((CONDITION_DROPPED, others[0] if len(others) == 1 else ast.BoolOp(node.op, others)))
    elif isinstance(node, ast.IfExp):
        left = [(BRANCH_SKIPPED, node.body), (BRANCH_SKIPPED, node.orelse)]
    elif isinstance(node.op, ast.BitOr | ast.Sub | ast.BitAnd) and not isinstance(node.right, ast.Constant):
        left = [(OPERAND_DROPPED, node.left)]
    yield from ((kind, node, _parenthesized_source(ast.unparse(rest), rest, parent)) for kind, rest in left)


def _slice_mutations(node: ast.Slice) -> Iterator[Replacement]:
    for edge in (node.lower, node.upper):
        if isinstance(edge, ast.Name | ast.Attribute):
            yield OFF_BY_ONE, edge, f"{ast.unparse(edge)} + 1"


def _sending_or_field_update_mutations(node: ast.Call, name: str) -> Iterator[Replacement]:
    if name in _SENDING_METHODS:
        yield from _sending_mutations(node, name)
    if name in ("but", "put"):
        yield from _field_update_mutations(node)


def _sending_mutations(node: ast.Call, name: str) -> Iterator[Replacement]:
    """Yield the mutations of a call that sends messages, or writes replicas."""
    assert isinstance(node.func, ast.Attribute)
    before = ast.unparse(node.func.value)
    kind = FIELD_NOT_UPDATED if name == "write" else MESSAGE_NOT_SENT
    if len(node.args) == 1:
        yield kind, node, f"{before}.but(consumes=True)" if name == "reply" else before
    else:
        for argument in node.args:
            left: list[ast.expr] = [other for other in node.args if other is not argument]
            yield kind, node, ast.unparse(ast.Call(node.func, left, node.keywords))
    if name == "send":
        yield MESSAGE_SENT_TWICE, node, ast.unparse(ast.Call(node.func, [*node.args, *node.args], node.keywords))
    elif name == "reply":
        yield MESSAGE_SENT_TWICE, node, f"{ast.unparse(node)}.send({', '.join(map(ast.unparse, node.args))})"


def _field_update_mutations(node: ast.Call) -> Iterator[Replacement]:
    """Yield the mutations of a call that sets fields: one field keeps its old value."""
    assert isinstance(node.func, ast.Attribute)
    for keyword in node.keywords:
        left = [other for other in node.keywords if other is not keyword]
        changed = ast.Call(node.func, node.args, left) if left or node.args else node.func.value
        yield FIELD_NOT_UPDATED, node, ast.unparse(changed)


def _constant_mutations(node: ast.Constant, parent: ast.AST) -> Iterator[Replacement]:
    value = node.value
    if isinstance(value, bool):
        yield WRONG_CONSTANT, node, str(not value)
    elif isinstance(value, int):
        forgotten = isinstance(parent, ast.BinOp) and value > 0
        yield OFF_BY_ONE, node, str(value - 1 if forgotten else value + 1)


def _is_condition(node: ast.expr) -> bool:
    return isinstance(node, ast.BoolOp | ast.Compare) or (
        isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    )


def _parenthesized_source(text: str, node: ast.expr, parent: ast.AST) -> str:
    """Return the source of an expression, in parentheses if its parent expression needs them."""
    holds = isinstance(parent, (*_COMPOUND_EXPRESSIONS, ast.Attribute, ast.Subscript, ast.Starred))
    plain = isinstance(node, ast.Compare) and isinstance(parent, ast.BoolOp)
    return f"({text})" if isinstance(node, _COMPOUND_EXPRESSIONS) and holds and not plain else text

"""Clauses of a property over one state: guards, loops and a test, found in the source of its method.

The property holds where all its clauses hold. A clause over one or two replicas is a test of `me` and `peer`, so the
tables decide it once for each local state. One over inboxes is a test of each inbox. Variables are replaced by their
values, and the variables of loops get unique names. Some clauses only evaluate an expression, since it may raise an
error.
"""

from __future__ import annotations

import ast
import builtins
import enum
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from functools import cache, cached_property
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple

from kraftcheck.spec.diagnosis.source import nodes_of_type
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.values import Record, ordered

REPLICA_PARAMETERS = ("me", "peer")
MOST_REPLICA_PARAMETERS = len(REPLICA_PARAMETERS)
INBOX_PARAMETER = "inbox"
USUAL_PARAMETERS = 2  # of a property over one state: `self` and `state`
BUILTINS_IN_CLAUSES = {"all", "any", "bool", "isinstance", "len", "sum"}
COPYING_FUNCTIONS = {"frozenset": frozenset, "list": list, "ordered": ordered, "set": set, "tuple": tuple}
_IMMUTABLE_COPIES = {"frozenset", "tuple"}
_REFUSED_NAMES = {"__class__", "dir", "eval", "exec", "globals", "locals", "super", "vars"}
_REFUSED_NODES = (ast.NamedExpr, ast.Yield, ast.YieldFrom)
MOST_NODES_OF_CLAUSES = 4_000
_CERTAIN_COLLECTIONS = {"state.replicas", *(f"state.replicas.{name}()" for name in ("items", "keys", "values"))}
_CERTAIN_COLLECTIONS |= {"state.inboxes.values()"}
"""Collections that any state has."""
_ITERATING_FUNCTIONS = {"enumerate", "range", "reversed", "sorted", "zip", *COPYING_FUNCTIONS}
_READING_METHODS = {"difference", "get", "intersection", "items", "keys", "union", "values"}
_TARGET_NODES = (ast.Name, ast.Tuple, ast.List, ast.Starred, ast.expr_context)
_LEAVING_STATEMENTS = (ast.Return, ast.Continue)
_COMPREHENSIONS = (ast.GeneratorExp, ast.ListComp, ast.SetComp)
_IMMUTABLE_NODES = (
    *(ast.Attribute, ast.BinOp, ast.BoolOp, ast.Compare, ast.Constant, ast.IfExp, ast.Name, ast.Subscript, ast.UnaryOp),
    *(ast.boolop, ast.cmpop, ast.comprehension, ast.expr_context, ast.operator, ast.unaryop),
)
_VALUE_NODES = (*_IMMUTABLE_NODES, ast.Slice, ast.Starred, ast.Tuple)


class NoClausesError(Exception):
    """The source of a property is no conjunction that can be divided."""


def without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return statements without a leading docstring."""
    first = body[0].value if isinstance(body[0], ast.Expr) else None
    return body[1:] if isinstance(first, ast.Constant) else body


def assignment_targets(node: ast.AST) -> list[ast.expr]:
    """Return the targets of an assignment or a loop."""
    if isinstance(node, ast.Assign):
        return node.targets
    return [node.target] if isinstance(node, ast.AnnAssign | ast.AugAssign | ast.For) else []


def assigned_names(root: ast.AST) -> set[str]:
    """Return the names that assignments and loops in a tree bind."""
    return stored_names(target for node in ast.walk(root) for target in assignment_targets(node))


def stored_names(targets: Iterable[ast.AST]) -> set[str]:
    """Return the names that trees bind."""
    return {
        node.id
        for target in targets
        for node in ast.walk(target)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def loaded_names(node: ast.AST) -> set[str]:
    """Return the names that a tree reads."""
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}


# Clauses: the conjuncts of a property, with the loops around them


_TRUE = ast.Constant(value=True)


class _Clause(NamedTuple):
    """A test that must hold for all elements of some loops, if the guards hold."""

    guards: tuple[ast.expr, ...] = ()
    loops: tuple[ast.comprehension, ...] = ()  # with further guards
    test: ast.expr = _TRUE

    def guarded(self, guard: ast.expr) -> _Clause:
        """Return the clause with one more guard, which may read the variables of the loops."""
        if not self.loops:
            return self._replace(guards=(*self.guards, guard))
        *outer, last = self.loops
        return self._replace(loops=(*outer, ast.comprehension(last.target, last.iter, [*last.ifs, guard], 0)))

    def within(self, target: ast.expr, elements: ast.expr, guards: Iterable[ast.expr] = ()) -> _Clause:
        """Return the clause with one more loop inside of the others."""
        return self._replace(loops=(*self.loops, ast.comprehension(target, elements, [*guards], 0)))

    def evaluating(self, value: ast.expr) -> Iterator[_Clause]:
        """Yield the clause that a value can be evaluated, unless that is certain."""
        path = self
        match value:
            case ast.ListComp(element, loops) | ast.SetComp(element, loops):
                for loop in loops:
                    path = path.within(loop.target, loop.iter, loop.ifs)
                value = element if isinstance(value, ast.ListComp) else ast.Set([element])
        if not _certainly_raises_no_error(value):
            values, nothing = ast.Tuple([value], ast.Load()), ast.Tuple([], ast.Load())
            yield path._replace(test=ast.Compare(values, [ast.NotEq()], [nothing]))

    @property
    def as_condition(self) -> _Clause:
        """The clause without the value of its test where the test is true."""
        return self if _is_bool(self.test) else self._replace(test=ast.BoolOp(ast.And(), [self.test, _TRUE]))

    @property
    def uncertain_names(self) -> set[str]:
        """The variables of the loops over elements that a use may change, or use up."""
        return stored_names(
            loop.target for loop in self.loops if not _has_elements_certainly_unchanged_by_use(loop.iter)
        )

    @property
    def free_names(self) -> set[str]:
        """The names that the clause reads, apart from the variables of its loops."""
        parts = (*self.guards, *self.loops, self.test)
        return set[str]().union(*map(loaded_names, parts)) - stored_names(self.loops)


def _certainly_raises_no_error(value: ast.expr) -> bool:
    """Whether the evaluation of an expression raises no error."""
    return (
        isinstance(value, ast.Constant)
        or ast.unparse(value) == "state.shared"
        or _loop_over_certainly_raises_no_error(value)
    )


def _loop_over_certainly_raises_no_error(value: ast.expr) -> bool:
    """Whether a loop over the elements of an expression raises no error."""
    match value:
        case ast.Call(ast.Name(name), [only], []) if name in COPYING_FUNCTIONS:
            return _loop_over_certainly_raises_no_error(only)
    return ast.unparse(value) in _CERTAIN_COLLECTIONS


def _loop_certainly_raises_no_error(target: ast.expr, elements: ast.expr) -> bool:
    match target:
        case ast.Tuple([ast.Name(), ast.Name()]):
            return ast.unparse(elements) == "state.replicas.items()"
    return isinstance(target, ast.Name) and _loop_over_certainly_raises_no_error(elements)


def _negated(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), test)


def _clauses_of_test(test: ast.expr, path: _Clause) -> Iterator[_Clause]:
    """Yield the clauses of a test that is evaluated on a path: inside of loops and under guards."""
    quantified = _parse_universal_quantifier(test)
    match test:
        case ast.BoolOp(ast.And(), [*others, last]):
            yield from _clauses_of_tests_with_unused_values(others, path)
            yield from _clauses_of_test(last, path)
        case ast.BoolOp(ast.Or(), [*others, last]) if all(map(_is_bool, others)):
            for other in others:
                path = path.guarded(_negated(other))
            yield from _clauses_of_test(last, path)
        case ast.IfExp(condition, then, otherwise):
            yield from _clauses_of_test(then, path.guarded(condition))
            yield from _clauses_of_test(otherwise, path.guarded(_negated(condition)))
        case _ if quantified is not None:
            for loop in quantified[1]:
                path = path.within(loop.target, loop.iter, loop.ifs)
            yield from _clauses_of_test(quantified[0], path)
        case _:
            yield _clause_of_pairs(test, path) or path._replace(test=test)


def _clauses_of_tests_with_unused_values(tests: list[ast.expr], path: _Clause) -> Iterator[_Clause]:
    """Yield the clauses of tests whose values are not used where they are true."""
    for test in tests:
        yield from (one.as_condition for one in _clauses_of_test(test, path))


def _parse_universal_quantifier(test: ast.expr) -> tuple[ast.expr, list[ast.comprehension]] | None:
    """Return the element and the loops of `all(...)` or `not any(...)`; None for another test."""
    match test:
        case ast.Call(ast.Name("all"), [ast.GeneratorExp(element, loops) | ast.ListComp(element, loops)], []):
            return element, loops
        case ast.UnaryOp(ast.Not(), ast.Call(ast.Name("any"), [ast.GeneratorExp(element, loops)], [])):
            return _negated(element), loops
    return None


def _clause_of_pairs(test: ast.expr, path: _Clause) -> _Clause | None:
    """Return the clause of a test that a set has at most one element, or that one replica at most passes; or None."""
    match test:
        case ast.Compare(ast.Call(ast.Name(function), [made], []), [ast.LtE()], [ast.Constant(1)]):
            pass
        case ast.Compare(ast.Call(ast.Name(function), [made], []), [ast.Lt()], [ast.Constant(2)]):
            pass
        case _:
            return None
    match function, made:
        case "len", ast.SetComp(element, [ast.comprehension(ast.Name(name), elements, ifs)]):
            return _clause_of_equal_elements(name, elements, element, ifs, path)
        case "len", ast.ListComp(ast.Name(same), [ast.comprehension(ast.Name(name), elements, ifs)]) if same == name:
            pass
        case "sum", ast.GeneratorExp(ast.Constant(1), [ast.comprehension(ast.Name(name), elements, ifs)]):
            pass
        case _:
            return None
    key = ast.Attribute(ast.Name(name, ast.Load()), "id", ast.Load())
    is_of_replicas = ast.unparse(elements) == "state.replicas.values()"  # other records may share an id
    return _clause_of_equal_elements(name, elements, key, ifs, path) if is_of_replicas else None


def _clause_of_equal_elements(
    name: str, elements: ast.expr, value: ast.expr, ifs: list[ast.expr], path: _Clause
) -> _Clause:
    """Return the clause that a value, which sets may hold, is equal for any two elements that pass some tests."""
    second = f"other {name}"
    made = ast.Set([value])
    others = [_VariableSubstituter({name: ast.Name(second, ast.Load())}).visit(deepcopy(one)) for one in (made, *ifs)]
    path = path.within(ast.Name(name, ast.Store()), elements, ifs)
    path = path.within(ast.Name(second, ast.Store()), elements, others[1:])
    return path._replace(test=ast.Compare(made, [ast.Eq()], others[:1]))


def _is_bool(test: ast.expr) -> bool:
    """Whether the value of an expression is certainly a bool."""
    match test:
        case ast.BoolOp(_, values):
            return all(map(_is_bool, values))
        case ast.Call(ast.Name("all" | "any" | "bool" | "isinstance")):
            return True
    return isinstance(test, ast.Compare) or (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not))


def _clauses_of_statements(body: list[ast.stmt], path: _Clause) -> Iterator[_Clause]:
    """Yield the clauses of statements that return False if a test fails; among them, that nothing raises an error."""
    for number, statement in enumerate(body):
        match statement:
            case ast.Return() | ast.Continue():
                yield from _clauses_of_end(statement, path)
                return
            case ast.Assign([ast.Name(name)], value) if _is_repeatable(value):
                yield from path.evaluating(value)
                yield from _clauses_of_statements(
                    _statements_with_value_of_variable(name, value, body[number + 1 :]), path
                )
                return
            case ast.If():
                yield from _clauses_of_branch(statement, path)
                if _always_leave_loop_body([statement]):
                    return
                path = _path_after_branch(statement, path)
            case ast.For(target, elements, inner, []):
                if not _loop_certainly_raises_no_error(target, elements):
                    yield path.within(target, elements)
                yield from _clauses_of_statements(inner, path.within(target, elements))
            case _ if not isinstance(statement, ast.Pass) and without_docstring([statement]):
                raise NoClausesError("a statement of another kind")


def _clauses_of_branch(branch: ast.If, path: _Clause) -> Iterator[_Clause]:
    if not any(isinstance(one, ast.Return) for one in branch.body):  # with a clause that evaluates the test
        yield from path.evaluating(_negated(branch.test))
    yield from _clauses_of_statements(branch.body, path.guarded(branch.test))
    yield from _clauses_of_statements(branch.orelse, path.guarded(_negated(branch.test)))


def _clauses_of_end(statement: ast.Return | ast.Continue, path: _Clause) -> Iterator[_Clause]:
    if isinstance(statement, ast.Return):
        if statement.value is None or (path.loops and not _is_false(statement.value)):
            raise NoClausesError("a loop ends with another value than False")
        yield from _clauses_of_test(statement.value, path)


def _path_after_branch(branch: ast.If, path: _Clause) -> _Clause:
    """Return the path of the statements that follow an `if`."""
    for body, guard in ((branch.body, _negated(branch.test)), (branch.orelse, branch.test)):
        if _always_leave_loop_body(body):
            path = path.guarded(guard)
        elif _may_leave_without_false(body):
            raise NoClausesError("a branch may leave")
    return path


def _always_leave_loop_body(body: list[ast.stmt]) -> bool:
    """Whether statements always return, or go on with the next element of a loop."""
    last = body[-1] if body else None
    if isinstance(last, ast.If):
        return _always_leave_loop_body(last.body) and _always_leave_loop_body(last.orelse)
    return isinstance(last, _LEAVING_STATEMENTS)


def _may_leave_without_false(body: list[ast.stmt]) -> bool:
    """Whether statements may return another value than False, or go on with the next element of a loop."""
    ends = [one.value if isinstance(one, ast.Return) else None for one in body if isinstance(one, _LEAVING_STATEMENTS)]
    branches = (one for one in body if isinstance(one, ast.If))
    return not all(map(_is_false, ends)) or any(_may_leave_without_false([*one.body, *one.orelse]) for one in branches)


def _is_false(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is False


def _statements_with_value_of_variable(name: str, value: ast.expr, statements: list[ast.stmt]) -> list[ast.stmt]:
    """Return statements with the value of a variable in its place."""
    stored = {part for one in stored_names(statements) for part in (one, one.partition(" ")[0])}  # loops leave theirs
    changes = (_is_mutable(value) and not _only_read_collection(name, statements)) or _is_identity_used(
        name, value, statements
    )
    changes |= _reads_python_property(value) and not _only_compare_variables({name}, statements)
    if changes or not {name, *loaded_names(value)}.isdisjoint(stored):
        raise NoClausesError("a variable may change")
    made = [_VariableSubstituter({name: value}).visit(deepcopy(one)) for one in statements]
    if len([*chain(*map(ast.walk, made))]) > MOST_NODES_OF_CLAUSES:
        raise NoClausesError("too many nodes")
    return made


def _is_mutable(value: ast.expr) -> bool:
    """Whether the value of an expression may be a list or a set, or the method of one, which a use may change."""
    match value:
        case ast.Call():
            return not _is_call_for_number(value) and ast.unparse(value.func) not in _IMMUTABLE_COPIES
        case ast.Compare() | ast.Subscript():
            return False  # elements of lists and sets are values
        case ast.ListComp() | ast.SetComp():
            return True
    return any(_is_mutable(one) for one in ast.iter_child_nodes(value) if isinstance(one, ast.expr))


def _only_read_collection(name: str, statements: list[ast.stmt]) -> bool:
    """Whether statements only take the length of a collection, search it, or loop over its elements."""
    loads = reads = 0
    for node in chain(*map(ast.walk, statements)):
        loads += isinstance(node, ast.Name) and node.id == name
        match node:
            case ast.Call(ast.Name("len"), [ast.Name(read)], []) | ast.comprehension(_, ast.Name(read)):
                reads += read == name
            case ast.For(_, ast.Name(read)) | ast.Compare(_, [ast.In() | ast.NotIn()], [ast.Name(read)]):
                reads += read == name
    return loads == reads


def _only_compare_variables(names: set[str], roots: Iterable[ast.AST]) -> bool:
    """Whether trees only compare and test the values of variables, or read their attributes: none is used up."""
    nodes = [*chain(*map(ast.walk, roots))]
    methods = [node.func for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    compared = {*map(id, chain(*map(_compared_parts, nodes)))} - {id(method.value) for method in methods}
    loads = [node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    return {id(node) for node in loads if node.id in names} <= compared


def _compared_parts(node: ast.AST) -> list[ast.expr]:
    """Return the parts of a node whose values it only compares or tests, or whose attribute it reads."""
    match node:
        case ast.Compare(left, operators, others):
            pairs = zip(operators, others, strict=True)
            return [left, *(one for kind, one in pairs if not isinstance(kind, ast.In | ast.NotIn))]
        case ast.BinOp(left, _, right):
            return [left, right]
        case ast.If(test) | ast.IfExp(test) | ast.UnaryOp(_, test) | ast.Subscript(_, test):
            return [test]
        case ast.Attribute(value) if not _reads_python_property(node):
            return [value]
        case ast.comprehension(_, _, ifs):
            return ifs
    return []


def _reads_python_property(value: ast.expr) -> bool:
    """Whether an expression reads a property of Python's, which may make a list or a generator for each use."""
    names = {one.attr for one in ast.walk(value) if isinstance(one, ast.Attribute)}
    return bool(names) and not names.isdisjoint(_names_of_python_properties())


@cache
def _names_of_python_properties() -> set[str]:
    """Return the names of Python's properties in the classes of records, protocols and enums."""
    found, waiting, seen = set[str](), [Record, Protocol, enum.Enum], set[type]()
    while waiting:
        kind: type = waiting.pop()
        if kind not in seen:
            seen.add(kind)
            waiting += kind.__subclasses__()
            own = {} if kind is enum.Enum else vars(kind)
            found.update(name for name, value in own.items() if isinstance(value, property | cached_property))
    return found


def _has_elements_certainly_unchanged_by_use(value: ast.expr) -> bool:
    """Whether an expression certainly makes a collection of values, which no use changes or uses up."""
    match value:
        case ast.Call(ast.Name(name), arguments, []) if name in _ITERATING_FUNCTIONS:
            return all(map(_has_elements_certainly_unchanged_by_use, arguments))
        case ast.GeneratorExp(element, loops) | ast.ListComp(element, loops) | ast.SetComp(element, loops):
            inner = [element, *chain(*(loop.ifs for loop in loops))]
            return all(_has_elements_certainly_unchanged_by_use(loop.iter) for loop in loops) and all(
                map(_is_certainly_unchanged_by_use, inner)
            )
        case ast.List(elements) | ast.Set(elements) | ast.Tuple(elements):
            return all(map(_is_certainly_unchanged_by_use, elements))
    return _is_certainly_unchanged_by_use(value)


def _is_certainly_unchanged_by_use(value: ast.AST) -> bool:
    """Whether the value of an expression is certainly one that no use changes or uses up."""
    match value:
        case ast.Attribute() if _reads_python_property(value):
            return False
        case ast.Call() if _is_call_for_number(value):
            return True
        case ast.Call(ast.Name(name), arguments, []) if name in _IMMUTABLE_COPIES:
            return all(map(_has_elements_certainly_unchanged_by_use, arguments))
        case ast.Call(ast.Attribute(of, name), arguments, []) if name in _READING_METHODS:
            return all(map(_is_certainly_unchanged_by_use, (of, *arguments)))
    return isinstance(value, _VALUE_NODES) and all(map(_is_certainly_unchanged_by_use, ast.iter_child_nodes(value)))


def _is_identity_used(name: str, value: ast.expr, statements: list[ast.stmt]) -> bool:
    """Whether statements compare a variable by `is` that is another object whenever its value is evaluated."""
    if isinstance(value, ast.Name | ast.Attribute | ast.Constant):
        return False
    compared = [one for root in statements for one in ast.walk(root) if isinstance(one, ast.Compare)]
    return any(
        name in loaded_names(one) for one in compared if any(isinstance(kind, ast.Is | ast.IsNot) for kind in one.ops)
    )


def _is_repeatable(value: ast.expr) -> bool:
    """Whether an expression has an immutable value, or makes a list or set: it may be evaluated for each use."""
    inner = [one for call in nodes_of_type(value, ast.Call) for one in call.args if _is_call_for_number(call)]
    inside = {id(node) for one in inner for node in ast.walk(one)} | {id(value)}
    nodes = [node for node in ast.walk(value) if not (isinstance(node, _COMPREHENSIONS) and id(node) in inside)]
    return not isinstance(value, ast.GeneratorExp) and all(map(_is_node_of_immutable, nodes))


def _is_node_of_immutable(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return _is_call_for_number(node) or _certainly_raises_no_error(node)
    return isinstance(node, _IMMUTABLE_NODES)


def _is_call_for_number(call: ast.Call) -> bool:
    """Whether a call of a function of Python returns a number or a bool."""
    usual = isinstance(call.func, ast.Name) and call.func.id in BUILTINS_IN_CLAUSES and not call.keywords
    return usual and (len(call.args) == 1 or ast.unparse(call.func) == "isinstance")


class _VariableSubstituter(ast.NodeTransformer):
    """AST transformer that replaces variables by expressions, and items of maps by variables."""

    def __init__(self, values: Mapping[str, ast.expr], items: Mapping[str, str] = MappingProxyType({})) -> None:
        self._values, self._items = values, items

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        found = self._items.get(ast.unparse(node))
        return self.generic_visit(node) if found is None else ast.Name(found, ast.Load())

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return deepcopy(self._values[node.id]) if node.id in self._values and isinstance(node.ctx, ast.Load) else node


class _UniqueNameRewriter(ast.NodeTransformer):
    """AST transformer that gives the variables of each loop, comprehension and lambda names of their own.

    A substitution then captures no variable. No name of Python's has a blank.
    """

    def __init__(self) -> None:
        self._scopes: list[dict[str, str]] = []
        self._count = 0

    def _open(self, names: Iterable[str]) -> None:
        self._count += 1
        self._scopes.append({name: f"{name} {self._count}" for name in names})

    def _open_target(self, target: ast.expr) -> None:
        if not all(isinstance(one, _TARGET_NODES) for one in ast.walk(target)):
            raise NoClausesError("a loop changes an attribute or an item")
        names = [one.id for one in ast.walk(target) if isinstance(one, ast.Name)]
        if len(names) > len({*names}):
            raise NoClausesError("a target has one name twice")
        self._open(names)

    def visit_Name(self, node: ast.Name) -> ast.Name:
        found = next((scope[node.id] for scope in reversed(self._scopes) if node.id in scope), node.id)
        return ast.copy_location(ast.Name(found, node.ctx), node)

    def visit_For(self, node: ast.For) -> ast.For:
        if not stored_names([node.target]).isdisjoint(chain(*map(assigned_names, node.body))):
            raise NoClausesError("a loop changes its variable")
        elements, after = self.visit(node.iter), [self.visit(one) for one in node.orelse]
        self._open_target(node.target)
        made = ast.For(self.visit(node.target), elements, [self.visit(one) for one in node.body], after)
        self._scopes.pop()
        return ast.copy_location(made, node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        if len(node.args.args) < len([*nodes_of_type(node.args, ast.arg)]) or node.args.defaults:
            raise NoClausesError("a lambda with parameters of other kinds")
        self._open(one.arg for one in node.args.args)
        parameters = [ast.arg(self._scopes[-1][one.arg]) for one in node.args.args]
        made = ast.Lambda(
            ast.arguments([], parameters, kwonlyargs=[], kw_defaults=[], defaults=[]), self.visit(node.body)
        )
        self._scopes.pop()
        return ast.copy_location(made, node)

    def _visit_comprehension(self, node: Any) -> Any:
        opened = len(self._scopes)
        for loop in node.generators:
            if loop.is_async:
                raise NoClausesError("an asynchronous loop")
            loop.iter = self.visit(loop.iter)
            self._open_target(loop.target)
            loop.target, loop.ifs = self.visit(loop.target), [self.visit(one) for one in loop.ifs]
        for name in ("key", "value", "elt"):
            if hasattr(node, name):
                setattr(node, name, self.visit(getattr(node, name)))
        del self._scopes[opened:]
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _visit_comprehension  # noqa: N815 - nodes


class StatePart(NamedTuple):
    """A test of a property over whole states, with the parameters that it takes."""

    test: ast.expr
    asks: tuple[str, ...]


def _copying_functions(names: Mapping[str, Any]) -> set[str]:
    """Return the names of functions that copy a collection, unless they mean something else or nothing."""
    return {name for name, one in COPYING_FUNCTIONS.items() if names.get(name, vars(builtins).get(name)) is one}


def _are_two_parameters_with_unused_names(parameters: list[str], positional: list[ast.arg]) -> bool:
    """Whether a property has two parameters, positional ones, whose names no part uses."""
    is_usual = [one.arg for one in positional] == parameters and len(parameters) == USUAL_PARAMETERS
    return is_usual and {*REPLICA_PARAMETERS, INBOX_PARAMETER, "shared"}.isdisjoint(parameters)


class StatePartFinder:
    """Finds the parts of a property over one state, from the definition of its function."""

    def __init__(self, function: Any, definition: ast.FunctionDef) -> None:
        _names_of_python_properties.cache_clear()  # there may be more classes now
        parameters = [one.arg for one in nodes_of_type(definition.args, ast.arg)]
        inner = {*function.__code__.co_freevars, *parameters, *stored_names([definition])}
        own = {*function.__globals__, *inner}
        self._copying = _copying_functions(function.__globals__) - inner
        attributes = {one.attr for one in nodes_of_type(definition, ast.Attribute)}
        others = (COPYING_FUNCTIONS.keys() - self._copying) | (_ITERATING_FUNCTIONS - COPYING_FUNCTIONS.keys()) & own
        refused = not _REFUSED_NAMES.isdisjoint(attributes) or any(nodes_of_type(definition, k) for k in _REFUSED_NODES)
        refused |= not (_REFUSED_NAMES | others).isdisjoint(loaded_names(definition))
        refused |= not own.isdisjoint(BUILTINS_IN_CLAUSES)
        if refused or not _are_two_parameters_with_unused_names(parameters, definition.args.args):
            raise NoClausesError("a name may mean something else")
        self._definition, self._state = _UniqueNameRewriter().visit(deepcopy(definition)), parameters[-1]
        self._variables = assigned_names(definition) | assigned_names(self._definition)

    def parts(self) -> Iterator[StatePart]:
        """Yield the parts: of one or two replicas, one inbox or the shared fields; the rest of the whole state."""
        if not _always_leave_loop_body(self._definition.body):
            raise NoClausesError("it may return nothing")
        for clause in _clauses_of_statements(self._definition.body, _Clause()):
            if not clause.free_names.isdisjoint(self._variables):
                raise NoClausesError("a variable is read outside of its loop")
            if not _only_compare_variables(clause.uncertain_names, (*clause.guards, *clause.loops, clause.test)):
                raise NoClausesError("an element of a loop may change")
            if any(one.attr == "inboxes" for one in nodes_of_type(_clause_as_expression(clause), ast.Attribute)):
                yield self._part_of_inbox(clause)
            else:
                yield from self._parts_of_clause(clause)

    def _parts_of_clause(self, clause: _Clause) -> Iterator[StatePart]:
        test, names = self._test_of_replicas(clause)
        if not names:
            shared = self._local(test, {})
            yield StatePart(test, ("state",)) if shared is None else StatePart(shared, ("shared",))
            return
        first = next(number for number, loop in enumerate(clause.loops) if self._name_of_replica(loop, {}, {}))
        if clause.guards or first:  # there may be no replica
            yield from self._parts_of_clause(_Clause(clause.guards, clause.loops[:first]))
        for roles in dict.fromkeys((REPLICA_PARAMETERS[:1], REPLICA_PARAMETERS[: len(names)])):
            # one role for both: a replica with itself
            local = self._local(test, dict(zip(names, roles * MOST_REPLICA_PARAMETERS, strict=False)))
            if local is None:
                yield StatePart(_clause_as_expression(clause), ("state",))
                return
            yield StatePart(local, (*roles, "shared") if "shared" in loaded_names(local) else roles)

    def _part_of_inbox(self, clause: _Clause) -> StatePart:
        """Return the part of a clause that holds if a test holds for each inbox."""
        match clause:
            case _Clause((), (ast.comprehension(ast.Name(name), elements, ifs), *inner), test):
                if ast.unparse(elements) == f"{self._state}.inboxes.values()":
                    local = self._local(
                        _clause_as_expression(_Clause((*ifs,), (*inner,), test)), {name: INBOX_PARAMETER}
                    )
                    if local is not None and "shared" not in loaded_names(local):
                        return StatePart(local, (INBOX_PARAMETER,))
        raise NoClausesError("it reads inboxes together")

    def _test_of_replicas(self, clause: _Clause) -> tuple[ast.expr, list[str]]:
        """Return a clause as a test of one or two replicas, and their names; [] for a clause of another kind."""
        names, outer, inner = list[str](), [*clause.guards], list[ast.comprehension]()
        values, items = dict[str, ast.expr](), dict[str, str]()
        for loop in clause.loops:
            name = self._name_of_replica(loop, values, items)
            if name is None:
                inner.append(ast.comprehension(loop.target, loop.iter, [*loop.ifs], 0))
            else:
                names.append(name)
                (inner[-1].ifs if inner else outer).extend(loop.ifs)
        if not 1 <= len(names) <= MOST_REPLICA_PARAMETERS:
            return _clause_as_expression(clause), []
        fails = _negated(_clause_as_expression(_Clause((), tuple(inner), clause.test)))
        fails = ast.BoolOp(ast.And(), [*outer, fails]) if outer else fails
        found: ast.expr = _VariableSubstituter(values, items).visit(deepcopy(_negated(fails)))
        return found, names

    def _name_of_replica(
        self, loop: ast.comprehension, values: dict[str, ast.expr], items: dict[str, str]
    ) -> str | None:
        """Return the variable of a loop over replicas, or None; note what stands for a replica or its id."""
        elements, replicas = loop.iter, f"{self._state}.replicas"
        match elements:
            case ast.Call(ast.Name(name), [only], []) if name in self._copying:
                elements = only
        source = ast.unparse(elements).removesuffix(".keys()")
        match loop.target:
            case ast.Name(name) if source == f"{replicas}.values()":
                return name
            case ast.Tuple([ast.Name(key), ast.Name(name)]) if source == f"{replicas}.items()":
                values[key] = ast.Attribute(ast.Name(name, ast.Load()), "id", ast.Load())
                return name
            case ast.Name(key) if source == replicas:
                name = items[f"{replicas}[{key}]"] = f"replica {key}"
                values[key] = ast.Attribute(ast.Name(name, ast.Load()), "id", ast.Load())
                return name
        return None

    def _local(self, test: ast.expr, roles: dict[str, str]) -> ast.expr | None:
        """Return a test with its replicas and `state.shared` as parameters; None if it reads more of the state."""
        renaming = _TestToParametersRewriter(self._state, roles)
        local = renaming.visit(deepcopy(test))
        return None if renaming.clashes else local


def _clause_as_expression(clause: _Clause) -> ast.expr:
    """Return a clause as one expression."""
    test = clause.test
    if clause.loops:
        test = ast.Call(ast.Name("all", ast.Load()), [ast.GeneratorExp(test, [*clause.loops])], [])
    holds = ast.BoolOp(ast.And(), [*clause.guards]) if len(clause.guards) > 1 else next(iter(clause.guards), None)
    return test if holds is None else ast.IfExp(holds, test, ast.Constant(value=True))


class _TestToParametersRewriter(ast.NodeTransformer):
    """AST transformer that names replicas and the shared state as parameters."""

    def __init__(self, state: str, roles: dict[str, str]) -> None:
        self._state, self._roles = state, roles
        self.clashes = False

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if isinstance(node.value, ast.Name) and node.value.id == self._state and node.attr == "shared":
            return ast.copy_location(ast.Name("shared", ast.Load()), node)
        return self.generic_visit(node)  # type: ignore[return-value]

    def visit_arg(self, node: ast.arg) -> ast.arg:
        self.clashes |= node.arg in (*self._roles, self._state)
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        is_role = node.id in self._roles
        stores = isinstance(node.ctx, ast.Store) and (is_role or node.id == self._state)
        parameters = (*REPLICA_PARAMETERS, INBOX_PARAMETER, "shared")
        self.clashes |= stores or node.id == self._state or (not is_role and node.id in parameters)
        return ast.copy_location(ast.Name(self._roles[node.id], node.ctx), node) if is_role else node

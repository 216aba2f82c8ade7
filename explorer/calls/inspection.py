"""Inspection of what methods read: parts of properties over whole states, and uses of the type of a record.

The property `all(r.count < 3 for r in state.replicas.values()) and state.shared.epoch < 5` has a part for each replica
and a part for the shared state. So has one that returns False in a loop. The tables decide each part once for each
local state. A part that raises an error or returns no bool asks for a search with the whole property, since an earlier
conjunct may guard it.

A proxy answers `type(peer) is Server` and `peer is me` differently from a record, and `frozenset.union(votes)` with an
error. So methods that inspect types, compare records by identity or catch errors are found beforehand.

An action that ends in `for ballot in range(self.most + 1): ...` is a union of pieces, one for each ballot, as TLC
splits an existential quantifier over a constant. Each piece has a decision tree of its own: the whole action has a path
for each combination of the pieces' paths.
"""

from __future__ import annotations

import ast
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from dis import Instruction, get_instructions, opmap
from functools import wraps
from itertools import chain, islice, pairwise
from pathlib import Path
from types import CodeType, FunctionType, MappingProxyType, ModuleType
from typing import Any, NamedTuple

from kraftcheck.explorer.calls.proxies import UnansweredRead
from kraftcheck.explorer.request import SearchRequest
from kraftcheck.spec.diagnosis.source import compile_definition, definition_of, nodes_of_type, unchanged_definition
from kraftcheck.spec.discovery import project_modules_of_protocol
from kraftcheck.spec.language.declarations import Action, Property
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.values import memoize, ordered

REPLICA_PARAMETERS = ("me", "peer")
MOST_REPLICA_PARAMETERS = len(REPLICA_PARAMETERS)
MOST_PIECES = 64  # of an action
_REFUSED_IN_LOOPS = {ast.NamedExpr, ast.Lambda}
UNREAD_NAME = "_"
BUILTINS_IN_CLAUSES = {"all", "any", "bool", "isinstance", "len", "sum"}
COPYING_FUNCTIONS = {"frozenset": frozenset, "list": list, "ordered": ordered, "set": set, "tuple": tuple}
_LEAVING_STATEMENTS = (ast.Return, ast.Continue)
_MUTABLE_VALUES = (ast.Call, ast.Dict, ast.DictComp, ast.List, ast.ListComp, ast.Set, ast.SetComp)
_REPEATABLE_CALLS = {*COPYING_FUNCTIONS, *BUILTINS_IN_CLAUSES, "get", "items", "keys", "max", "min", "values"}


class WholeStateNeededError(UnansweredRead):
    """A property cannot be evaluated in parts."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class NoClausesError(Exception):
    """The source of a property is no conjunction that can be divided."""


def request_with_split_constraints(options: SearchRequest, whole: set[str]) -> SearchRequest:
    """Return a search whose constraints over whole states are in parts, except those named in `whole`.

    The reads of other parts, and those of invariants over whole states, are tracked.
    """
    constraints = [[one] if one.name in whole else split_property(one) for one in options.constraints]
    properties = [one if one.name in whole else property_with_tracked_reads(one) for one in options.properties]
    return replace(options, constraints=tuple(chain(*constraints)), properties=tuple(properties))


def tracks_state_reads(prop: Property) -> bool:
    """Whether the reads of a property over whole states are tracked."""
    return bool(vars(prop).get("tracks_state_reads"))


def property_with_tracked_reads(prop: Property) -> Property:
    """Return a property with tracked reads of the state; unchanged if it has other parameters."""
    if prop.over_steps or prop.asks != ("state",):
        return prop
    made = replace(prop)
    vars(made).update(asks=prop.asks, tracks_state_reads=True)
    return made


def split_property(prop: Property) -> list[Property]:
    """Return the parts of a property over one state, which holds where all of them hold."""
    is_plain = not any((prop.opposite, prop.given, prop.fixed, prop.only is not None))
    definition = unchanged_definition(prop.function) if prop.asks == ("state",) and is_plain else None
    groups, parts = dict[tuple[str, ...], list[ast.expr]](), list[StatePart]()
    with suppress(NoClausesError):
        parts = [] if definition is None else list(_StatePartFinder(prop.function, definition).parts())
    for part in parts:
        groups.setdefault(part.asks, []).append(part.test)
    if definition is None or groups.keys() <= {("state",)}:
        return [property_with_tracked_reads(prop)]
    return [_property_of_tests(prop, definition, asks, tests) for asks, tests in groups.items()]


def _property_of_tests(
    prop: Property, whole: ast.FunctionDef, asks: tuple[str, ...], tests: list[ast.expr]
) -> Property:
    """Return the property of the tests that take the parameters `asks`."""
    copied = deepcopy(whole)
    copied.args.args = [copied.args.args[0], *map(ast.arg, asks)]
    copied.decorator_list, copied.returns = [], None
    copied.body = [ast.Return(tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests))]
    function = _function_raising_unless_bool(prop, compile_definition(prop.function, copied, {}))
    made = replace(prop, function=function, whole=prop)
    vars(made).update(asks=asks, tracks_state_reads="state" in asks)
    return made


def _function_raising_unless_bool(prop: Property, function: Callable[..., Any]) -> Callable[..., bool]:
    @wraps(prop.function)
    def checked(*arguments: Any) -> bool:
        try:
            found = function(*arguments)
        except Exception:
            found = None
        if type(found) is not bool:
            raise WholeStateNeededError(prop.name)
        return found

    return checked


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0].value if isinstance(body[0], ast.Expr) else None
    return body[1:] if isinstance(first, ast.Constant) else body


# Clauses: the conjuncts of a property, with the loops around them


class _Clause(NamedTuple):
    """A test that must hold for all elements of some loops, if the guards hold."""

    guards: tuple[ast.expr, ...] = ()
    loops: tuple[ast.comprehension, ...] = ()  # with further guards
    test: ast.expr = ast.Constant(value=True)

    def guarded(self, guard: ast.expr) -> _Clause:
        """Return the clause with one more guard, which may read the variables of the loops."""
        if not self.loops:
            return self._replace(guards=(*self.guards, guard))
        *outer, last = self.loops
        return self._replace(loops=(*outer, ast.comprehension(last.target, last.iter, [*last.ifs, guard], 0)))

    def within(self, target: ast.expr, elements: ast.expr, guards: Iterable[ast.expr] = ()) -> _Clause:
        """Return the clause with one more loop inside of the others."""
        parts, bound = (*self.guards, *self.loops), _stored_names([target]) - {UNREAD_NAME}
        if not bound.isdisjoint(chain(_stored_names(parts), *map(_loaded_names, parts))):
            raise NoClausesError("a loop reuses a variable")
        return self._replace(loops=(*self.loops, ast.comprehension(target, elements, [*guards], 0)))

    @property
    def free_names(self) -> set[str]:
        """The names that the clause reads, apart from the variables of its loops."""
        parts = (*self.guards, *self.loops, self.test)
        return set[str]().union(*map(_loaded_names, parts)) - _stored_names(self.loops)


def _negated(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), test)


def _clauses_of_test(test: ast.expr, path: _Clause) -> Iterator[_Clause]:
    """Yield the clauses of a test that is evaluated on a path: inside of loops and under guards."""
    quantified = _parse_universal_quantifier(test)
    match test:
        case ast.BoolOp(ast.And(), values):
            for value in values:
                yield from _clauses_of_test(value, path)
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
        case ast.Compare(ast.Call(ast.Name("len" | "sum"), [made], []), [ast.LtE()], [ast.Constant(1)]):
            pass
        case ast.Compare(ast.Call(ast.Name("len" | "sum"), [made], []), [ast.Lt()], [ast.Constant(2)]):
            pass
        case _:
            return None
    match made:
        case ast.SetComp(element, [ast.comprehension(ast.Name(name), elements, ifs)]):
            return _clause_of_equal_elements(name, elements, element, ifs, path)
        case ast.ListComp(_, [loop]) | ast.GeneratorExp(ast.Constant(1), [loop]) if isinstance(loop.target, ast.Name):
            is_of_replicas = ast.unparse(loop.iter).endswith(".replicas.values()")
            key = ast.Attribute(ast.Name(loop.target.id, ast.Load()), "id", ast.Load())
            return _clause_of_equal_elements(loop.target.id, loop.iter, key, loop.ifs, path) if is_of_replicas else None
    return None


def _clause_of_equal_elements(
    name: str, elements: ast.expr, value: ast.expr, ifs: list[ast.expr], path: _Clause
) -> _Clause:
    """Return the clause that a value is equal for any two elements that pass some tests."""
    second = f"other {name}"
    others = [_Substitution({name: ast.Name(second, ast.Load())}).visit(deepcopy(one)) for one in (value, *ifs)]
    path = path.within(ast.Name(name, ast.Store()), elements, ifs)
    path = path.within(ast.Name(second, ast.Store()), elements, others[1:])
    return path._replace(test=ast.Compare(value, [ast.Eq()], others[:1]))


def _is_bool(test: ast.expr) -> bool:
    """Whether the value of an expression is certainly a bool."""
    match test:
        case ast.BoolOp(_, values):
            return all(map(_is_bool, values))
        case ast.Call(ast.Name("all" | "any" | "bool" | "isinstance")):
            return True
    return isinstance(test, ast.Compare) or (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not))


def _clauses_of_statements(body: list[ast.stmt], path: _Clause) -> Iterator[_Clause]:
    """Yield the clauses of statements that return False if a test fails."""
    for number, statement in enumerate(body):
        match statement:
            case ast.Return():
                yield from _clauses_of_return(statement.value, path)
                return
            case ast.Continue():
                return
            case ast.Assign([ast.Name(name)], value) if _is_repeatable(value):
                yield from _clauses_of_statements(_with_value(name, value, body[number + 1 :]), path)
                return
            case ast.If():
                yield from _clauses_of_statements(statement.body, path.guarded(statement.test))
                yield from _clauses_of_statements(statement.orelse, path.guarded(_negated(statement.test)))
                path = _path_after_branch(statement, path)
            case ast.For(target, elements, inner, []):
                yield from _clauses_of_statements(inner, path.within(target, elements))
            case _ if not isinstance(statement, ast.Pass) and _without_docstring([statement]):
                raise NoClausesError("a statement of another kind")


def _clauses_of_return(value: ast.expr | None, path: _Clause) -> Iterator[_Clause]:
    if value is None or (path.loops and not _is_false(value)):
        raise NoClausesError("a loop ends with another value than False")
    yield from _clauses_of_test(value, path)


def _path_after_branch(branch: ast.If, path: _Clause) -> _Clause:
    """Return the path of the statements that follow an `if`."""
    if _leaves(branch.body):
        return path.guarded(_negated(branch.test))
    if _leaves(branch.orelse):
        return path.guarded(branch.test)
    if _may_leave(branch.body) or _may_leave(branch.orelse):
        raise NoClausesError("a branch may leave")
    return path


def _leaves(body: list[ast.stmt]) -> bool:
    """Whether statements always return, or go on with the next element of a loop."""
    last = body[-1] if body else None
    if isinstance(last, ast.If):
        return _leaves(last.body) and _leaves(last.orelse)
    return isinstance(last, _LEAVING_STATEMENTS)


def _may_leave(body: list[ast.stmt]) -> bool:
    """Whether statements may return another value than False, or go on with the next element of a loop."""
    ends = [one.value if isinstance(one, ast.Return) else None for one in body if isinstance(one, _LEAVING_STATEMENTS)]
    branches = (one for one in body if isinstance(one, ast.If))
    return not all(map(_is_false, ends)) or any(_may_leave([*one.body, *one.orelse]) for one in branches)


def _is_false(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is False


def _with_value(name: str, value: ast.expr, statements: list[ast.stmt]) -> list[ast.stmt]:
    """Return statements with the value of a variable in its place."""
    changed = {name} & _names_perhaps_changed(statements) if isinstance(value, _MUTABLE_VALUES) else set[str]()
    if changed or not {name, *_loaded_names(value)}.isdisjoint(_stored_names(statements)):
        raise NoClausesError("a variable may change")
    return [_Substitution({name: value}).visit(deepcopy(one)) for one in statements]


def _names_perhaps_changed(statements: list[ast.stmt]) -> set[str]:
    """Return the variables whose methods are called, or that other functions than those of Python get."""
    found = set[str]()
    for node in chain(*map(ast.walk, statements)):
        match node:
            case ast.Attribute(ast.Name(owner)):
                found.add(owner)
            case ast.Call(function, arguments) if ast.unparse(function) not in _REPEATABLE_CALLS:
                found.update(*map(_loaded_names, arguments))
    return found


def _is_repeatable(value: ast.expr) -> bool:
    """Whether an expression may be evaluated again in place of its variable; iterators may be read only once."""
    calls = nodes_of_type(value, ast.Call)
    names = [call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func) for call in calls]
    return not isinstance(value, ast.GeneratorExp) and _REPEATABLE_CALLS.issuperset(names)


class _Substitution(ast.NodeTransformer):
    """AST transformer that replaces variables by expressions, and items of maps by variables."""

    def __init__(self, values: Mapping[str, ast.expr], items: Mapping[str, str] = MappingProxyType({})) -> None:
        self._values, self._items = values, items

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        found = self._items.get(ast.unparse(node))
        return self.generic_visit(node) if found is None else ast.Name(found, ast.Load())

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return deepcopy(self._values[node.id]) if node.id in self._values and isinstance(node.ctx, ast.Load) else node


class StatePart(NamedTuple):
    """A test of a property over whole states, with the parameters that it takes."""

    test: ast.expr
    asks: tuple[str, ...]


class _StatePartFinder:
    """Finds the parts of a property over one state, from the definition of its function."""

    def __init__(self, function: Any, definition: ast.FunctionDef) -> None:
        self._definition, self._state = definition, definition.args.args[-1].arg
        self._copying = {name for name, one in COPYING_FUNCTIONS.items() if function.__globals__.get(name, one) is one}
        changed = not BUILTINS_IN_CLAUSES.isdisjoint(function.__globals__) or UNREAD_NAME in _loaded_names(definition)
        if changed or nodes_of_type(definition, ast.NamedExpr):
            raise NoClausesError("a name may mean something else")

    def parts(self) -> Iterator[StatePart]:
        """Yield the parts: of one replica, two replicas or the shared fields; the rest of the whole state."""
        if not _leaves(self._definition.body):
            raise NoClausesError("it may return nothing")
        variables = _assigned_names(self._definition)
        for clause in _clauses_of_statements(self._definition.body, _Clause()):
            if not clause.free_names.isdisjoint(variables):
                raise NoClausesError("a variable is read outside of its loop")
            yield from self._parts_of_clause(clause)

    def _parts_of_clause(self, clause: _Clause) -> Iterator[StatePart]:
        test, names = self._test_of_replicas(clause)
        if not names:
            shared = self._local(test, {})
            yield StatePart(test, ("state",)) if shared is None else StatePart(shared, ("shared",))
            return
        for roles in dict.fromkeys((REPLICA_PARAMETERS[:1], REPLICA_PARAMETERS[: len(names)])):
            # one role for both: a replica with itself
            local = self._local(test, dict(zip(names, roles * MOST_REPLICA_PARAMETERS, strict=False)))
            if local is None:
                yield StatePart(_test_of_loops(clause), ("state",))
                return
            yield StatePart(local, (*roles, "shared") if "shared" in _loaded_names(local) else roles)

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
            return _test_of_loops(clause), []
        fails = _negated(_test_of_loops(_Clause((), tuple(inner), clause.test)))
        fails = ast.BoolOp(ast.And(), [*outer, fails]) if outer else fails
        found: ast.expr = _Substitution(values, items).visit(deepcopy(_negated(fails)))
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


def _test_of_loops(clause: _Clause) -> ast.expr:
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
        self.clashes |= stores or node.id == self._state or (not is_role and node.id in (*REPLICA_PARAMETERS, "shared"))
        return ast.copy_location(ast.Name(self._roles[node.id], node.ctx), node) if is_role else node


REVEALING_NAMES = {"type", "vars", "__dict__", "suppress"}
"""Names by which code can tell a proxy from its record."""
PROXY_ERRORS = {"AttributeError", "BaseException", "Exception", "TypeError"}
"""Errors that a proxy may raise in place of a record or a set, and their bases."""
_CATCH_OPCODES, _CATCH_ALL_OPCODES = opmap["CHECK_EXC_MATCH"], (opmap["PUSH_EXC_INFO"], opmap["POP_TOP"])
AFTER_VARIABLE = "after"
"""Name of a variable that holds a replica; `after is me` asks whether it changed, and compares no two replicas."""
_LOAD_OPCODES = {code for name, code in opmap.items() if name.startswith(("LOAD_FAST", "LOAD_DEREF"))}
_RESULT_OPCODES = ("BINARY_SUBSCR", "CALL", "CALL_FUNCTION_EX")
STANDARD_LIBRARY_PREFIX = f"{Path(os.__file__).parent}{os.sep}"
KRAFTCHECK_PREFIX, MODEL_PREFIXES = "kraftcheck.", ("kraftcheck.spec.examples.", "kraftcheck.kraft_model.")
MOST_WRAPPER_LEVELS = 4
"""Most wrappers around a function, for example a property of a memoized function."""

FunctionsByName = dict[str, list[FunctionType]]


def find_proxy_revealing_methods(protocol: Protocol) -> set[str]:
    """Record and return the names of actions and properties that may tell a proxy from its record.

    Each replica is one object for an action and for a property of a state. For other properties `is` matters too.
    """
    methods, found = _methods_by_name(type(protocol)), set[str]()
    known: dict[bool, dict[Any, bool]] = {False: {}, True: {}}
    owners: list[Action | Property] = [*protocol.actions.values(), *protocol.properties.values()]
    for owner in owners:
        compares = isinstance(owner, Property) and owner.asks != ("state",)
        if _may_reveal_proxy(owner.function, methods, known[compares], compares=compares):
            found.add(owner.name)
    protocol.by_type = found
    return found


@memoize
def _methods_by_name(protocol: type[Protocol]) -> FunctionsByName:
    """Return the methods of a protocol and of the classes in its modules, by name."""
    found: FunctionsByName = defaultdict(list)
    values = [
        *protocol.__mro__,
        *(one for module in project_modules_of_protocol(protocol) for one in vars(module).values()),
    ]
    for cls in dict.fromkeys(one for one in values if isinstance(one, type)):
        if not _is_of_kraftcheck(cls):
            for name, value in vars(cls).items():
                found[name] += _unwrapped_functions(value)
    return found


def _is_of_kraftcheck(value: Any) -> bool:
    module = str(value.__module__)  # generated code has none
    return module.startswith(KRAFTCHECK_PREFIX) and not module.startswith(MODEL_PREFIXES)


def _unwrapped_functions(value: Any) -> list[FunctionType]:
    """Return the function inside of a method, a property or a memoized function."""
    for _ in range(MOST_WRAPPER_LEVELS):
        if isinstance(value, FunctionType):
            return [] if _is_of_kraftcheck(value) else [value]
        if value is None or isinstance(value, type):
            break
        inner = (getattr(value, name, None) for name in ("fget", "__func__", "func", "__wrapped__", "method"))
        value = next(filter(callable, inner), None)
    return []


def _may_reveal_proxy(function: Any, methods: FunctionsByName, known: dict[Any, bool], *, compares: bool) -> bool:
    """Whether a function, or one that it calls, may inspect a type, catch an error or, if it `compares`, use `is`.

    An unknown function counts as yes.
    """
    waiting, seen = _unwrapped_functions(function), set[FunctionType]()
    if not waiting:
        return True
    while waiting:
        one = waiting.pop()
        if one in seen or known.get(one) is False or one is replace:
            continue
        seen.add(one)
        names = set(_names_used(one.__code__))
        if known.get(one) or names & REVEALING_NAMES or _tells_proxy_from_record(one.__code__, compares=compares):
            known[one] = True
            return True
        waiting += _called_functions(one, names, methods)
    known.update(dict.fromkeys(seen, False))
    return False


def _tells_proxy_from_record(code: CodeType, *, compares: bool) -> bool:
    """Whether code may catch a proxy's error or use `is`; Python's library does so for values of its own."""
    if code.co_filename.startswith(("<frozen ", STANDARD_LIBRARY_PREFIX)) and "site-packages" not in code.co_filename:
        return False
    return _may_catch_proxy_error(code) or (compares and _compares_identity(code))


def _names_used(code: CodeType) -> Iterator[str]:
    """Yield the names that a function uses, including those of inner functions."""
    yield from (*code.co_names, *code.co_freevars)
    for inner in _inner_codes(code):
        yield from _names_used(inner)


def _may_catch_proxy_error(code: CodeType) -> bool:
    """Whether code may catch an error that a proxy raises, such as that of `frozenset.union(proxy)`."""
    steps = code.co_code[::2]
    catches_named = _CATCH_OPCODES in steps and not PROXY_ERRORS.isdisjoint(code.co_names)
    return (
        catches_named or _CATCH_ALL_OPCODES in pairwise(steps) or any(map(_may_catch_proxy_error, _inner_codes(code)))
    )


def _inner_codes(code: CodeType) -> list[CodeType]:
    return [one for one in code.co_consts if isinstance(one, CodeType)]


def _compares_identity(code: CodeType) -> bool:
    """Whether code compares two variables, elements or results by `is`, which may be replicas."""
    steps = [*get_instructions(code)] if opmap["IS_OP"] in code.co_code[::2] else []
    loaded = [_variables_loaded_by_instruction(step) for step in steps]
    compared = (loaded[at - 2 : at] for at, step in enumerate(steps) if step.opname == "IS_OP")
    return any(map(_compares_identity, _inner_codes(code))) or any(
        ((first and last) or len(last) > 1 or "" in last) and AFTER_VARIABLE not in (*first, *last)
        for first, last in compared
    )


def _variables_loaded_by_instruction(step: Instruction) -> tuple[str, ...]:
    """Return the variables that an instruction loads, some load two; "" for an element or a result."""
    if step.opcode in _LOAD_OPCODES:
        return step.argval if isinstance(step.argval, tuple) else (step.argval,)
    return ("",) if step.opname in _RESULT_OPCODES else ()


def _called_functions(function: FunctionType, names: set[str], methods: FunctionsByName) -> Iterator[FunctionType]:
    """Yield the functions that the names used by a function may refer to."""
    closure = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    cells = {name: cell.cell_contents for name, cell in closure if _is_filled_cell(cell)}
    for name in names:
        if name.startswith("@"):  # added by pytest's rewriting of asserts
            continue
        value = cells.get(name, function.__globals__.get(name))
        yield from _unwrapped_functions(value)
        yield from methods.get(name, ())
        if isinstance(value, ModuleType):
            yield from (found for inner in names for found in _unwrapped_functions(vars(value).get(inner)))


def _is_filled_cell(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


# Actions that are a union over the elements of a constant


def independent_loop_elements(protocol: Protocol, function: Callable[..., Any]) -> tuple[Any, ...]:
    """Return the elements of the loop whose iterations are independent pieces of an action; () for other actions."""
    definition = definition_of(function.__code__) if hasattr(function, "__code__") else None
    loop = None if definition is None else _independent_loop(definition)
    if definition is None or loop is None or unchanged_definition(function) is None:
        return ()
    copied = deepcopy(definition)
    copied.args.args, copied.decorator_list, copied.returns = copied.args.args[:1], [], None
    copied.body = [ast.Return(deepcopy(loop.iter))]
    try:
        found = tuple(islice(compile_definition(function, copied, {})(protocol), MOST_PIECES + 1))
    except Exception:  # the loop's iterable raises it again when the action is called
        return ()
    return found if 1 < len(found) <= MOST_PIECES else ()


def _independent_loop(definition: ast.FunctionDef) -> ast.For | None:
    """Return the loop that ends an action, if it runs over a constant and its iterations are independent."""
    *guards, loop = _without_docstring(definition.body) or definition.body
    kinds = set(map(type, ast.walk(definition)))  # a `:=` in a guard may make a list that the iterations share
    if not isinstance(loop, ast.For) or loop.orelse or kinds & _REFUSED_IN_LOOPS or not all(map(_is_guard, guards)):
        return None
    owner, *given = (one.arg for one in definition.args.args)
    scoped, stored = _stored_names(nodes_of_type(definition, ast.comprehension)), {*given} | _assigned_names(definition)
    if not _is_loop_worth_splitting(loop, owner) or not stored.isdisjoint(scoped | _loaded_names(loop.iter)):
        return None
    known = _stored_names([loop.target])
    return loop if _assigns_before_reading(loop.body, _assigned_names(loop), known, is_inner=False) else None


def _is_loop_worth_splitting(loop: ast.For, owner: str) -> bool:
    """Whether a loop yields steps that may depend on more than a few fields."""
    kinds = set(map(type, ast.walk(loop)))
    reads_much = ast.comprehension in kinds or any(
        _is_call_on_variable(owner, call) for call in nodes_of_type(loop, ast.Call)
    )
    return reads_much and not kinds.isdisjoint({ast.Yield, ast.YieldFrom})


def _is_call_on_variable(owner: str, call: ast.Call) -> bool:
    """Whether a call is one of a method of the variable named `owner`."""
    return getattr(getattr(call.func, "value", None), "id", "") == owner


def _is_guard(statement: ast.stmt) -> bool:
    """Whether a statement is `if ...: return`."""
    body = statement.body if isinstance(statement, ast.If) and not statement.orelse else []
    return len(body) == 1 and isinstance(body[0], ast.Return) and body[0].value is None


def _assignment_targets(node: ast.AST) -> list[ast.expr]:
    """Return the targets of an assignment or a loop."""
    if isinstance(node, ast.Assign):
        return node.targets
    return [node.target] if isinstance(node, ast.AnnAssign | ast.AugAssign | ast.For) else []


def _assigned_names(root: ast.AST) -> set[str]:
    return _stored_names(target for node in ast.walk(root) for target in _assignment_targets(node))


def _stored_names(targets: Iterable[ast.AST]) -> set[str]:
    return {
        node.id
        for target in targets
        for node in ast.walk(target)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def _loaded_names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}


def _assigns_before_reading(body: list[ast.stmt], changed: set[str], known: set[str], *, is_inner: bool) -> bool:
    """Whether statements read a variable of `changed` only after they have set it, and do not end the outer loop."""
    for statement in body:
        read, inner = _loaded_names(statement), list[list[ast.stmt]]()
        if isinstance(statement, ast.If):
            read, inner = _loaded_names(statement.test), [statement.body, statement.orelse]
        elif isinstance(statement, ast.For):
            read, inner = _loaded_names(statement.iter), [statement.body]
        there, is_loop = known | _stored_names(_assignment_targets(statement)), isinstance(statement, ast.For)
        if (
            not _is_simple_loop_statement(statement, is_inner=is_inner)
            or not changed.isdisjoint(read - known)
            or not all(_assigns_before_reading(part, changed, there, is_inner=is_inner or is_loop) for part in inner)
        ):
            return False
        known = known if inner else there
    return True


def _is_simple_loop_statement(statement: ast.stmt, *, is_inner: bool) -> bool:
    """Whether a statement of a loop only assigns, yields, branches or loops."""
    allowed = (ast.If, ast.Assign, ast.AnnAssign, ast.Expr, ast.Continue, ast.Pass, *([ast.Break] if is_inner else []))
    return isinstance(statement, allowed) or (isinstance(statement, ast.For) and not statement.orelse)

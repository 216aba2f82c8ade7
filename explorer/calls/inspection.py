"""Inspection of what methods read: parts of properties over whole states, and uses of the type of a record.

The property `all(r.count < 3 for r in state.replicas.values()) and state.shared.epoch < 5` has a part for each replica
and a part for the shared state. So has one that returns False in a loop. The tables decide each part once for each
local state. A loop over `state.inboxes.values()` is a part too, evaluated once for each inbox. A part that raises an
error or returns no bool asks for a search with the whole property, since an earlier conjunct may guard it.

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
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from dis import Instruction, get_instructions, opmap
from functools import wraps
from itertools import islice, pairwise
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from kraftcheck.explorer.calls.clauses import (
    INBOX_PARAMETER,
    NoClausesError,
    StatePart,
    StatePartFinder,
    assigned_names,
    assignment_targets,
    loaded_names,
    stored_names,
    without_docstring,
)
from kraftcheck.explorer.calls.proxies import UnansweredRead
from kraftcheck.explorer.request import SearchRequest
from kraftcheck.spec.diagnosis.source import compile_definition, definition_of, nodes_of_type, unchanged_definition
from kraftcheck.spec.discovery import project_modules_of_protocol
from kraftcheck.spec.language.declarations import Action, Property
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.values import memoize

MOST_PIECES = 64  # of an action
_REFUSED_IN_LOOPS = {ast.NamedExpr, ast.Lambda}


class WholeStateNeededError(UnansweredRead):
    """A property cannot be evaluated in parts."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def request_with_tracked_reads(options: SearchRequest, whole: set[str]) -> SearchRequest:
    """Return a search that tracks the reads of its properties and constraints over whole states.

    Those named in `whole` are evaluated on each state.
    """
    constraints, properties = (
        tuple(one if one.name in whole else property_with_tracked_reads(one) for one in some)
        for some in (options.constraints, options.properties)
    )
    return replace(options, constraints=constraints, properties=properties)


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


def split_property(prop: Property, *, by_inbox: bool = True) -> list[Property]:
    """Return the parts of a property over one state, which holds where all of them hold.

    With `by_inbox`, a part may ask for one inbox.
    """
    is_plain = not any((prop.opposite, prop.given, prop.fixed, prop.only is not None))
    definition = unchanged_definition(prop.function) if prop.asks == ("state",) and is_plain else None
    groups, parts = dict[tuple[str, ...], list[ast.expr]](), list[StatePart]()
    with suppress(NoClausesError):
        parts = [] if definition is None else list(StatePartFinder(prop.function, definition).parts())
    for part in parts:
        groups.setdefault(part.asks, []).append(part.test)
    if definition is None or groups.keys() <= {("state",)} or (not by_inbox and (INBOX_PARAMETER,) in groups):
        return [property_with_tracked_reads(prop)]
    return [_property_of_tests(prop, definition, asks, tests) for asks, tests in groups.items()]


def _property_of_tests(
    prop: Property, whole: ast.FunctionDef, asks: tuple[str, ...], tests: list[ast.expr]
) -> Property:
    """Return the property of the tests that take the parameters `asks`."""
    copied = deepcopy(whole)
    copied.args.args = [copied.args.args[0], *map(ast.arg, asks)]
    copied.decorator_list, copied.returns = [], None
    copied.body = [ast.Expr(ast.Yield(test)) for test in tests]
    function = _function_of_tests(prop, compile_definition(prop.function, copied, {}))
    made = replace(prop, function=function, whole=prop)
    vars(made).update(asks=asks, tracks_state_reads="state" in asks)
    return made


def _function_of_tests(prop: Property, function: Callable[..., Iterator[Any]]) -> Callable[..., bool]:
    @wraps(prop.function)
    def checked(*arguments: Any) -> bool:
        """Return whether all tests are true: the property may return the value of each."""
        try:
            found: Any = next((one for one in function(*arguments) if one is not True), True)
        except (Exception, SystemExit):
            found = None
        if type(found) is not bool:
            raise WholeStateNeededError(prop.name)
        return found

    return checked


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
    *guards, loop = without_docstring(definition.body) or definition.body
    kinds = set(map(type, ast.walk(definition)))  # a `:=` in a guard may make a list that the iterations share
    if (
        not isinstance(loop, ast.For)
        or loop.orelse
        or kinds & _REFUSED_IN_LOOPS
        or not all(map(_is_conditional_return, guards))
    ):
        return None
    owner, *given = (one.arg for one in definition.args.args)
    scoped, stored = stored_names(nodes_of_type(definition, ast.comprehension)), {*given} | assigned_names(definition)
    if not _is_loop_worth_splitting(loop, owner) or not stored.isdisjoint(scoped | loaded_names(loop.iter)):
        return None
    known = stored_names([loop.target])
    return loop if _assigns_before_reading(loop.body, assigned_names(loop), known, is_inner=False) else None


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


def _is_conditional_return(statement: ast.stmt) -> bool:
    """Whether a statement is `if ...: return`."""
    body = statement.body if isinstance(statement, ast.If) and not statement.orelse else []
    return len(body) == 1 and isinstance(body[0], ast.Return) and body[0].value is None


def _assigns_before_reading(body: list[ast.stmt], changed: set[str], known: set[str], *, is_inner: bool) -> bool:
    """Whether statements read a variable of `changed` only after they have set it, and do not end the outer loop."""
    for statement in body:
        read, inner = loaded_names(statement), list[list[ast.stmt]]()
        if isinstance(statement, ast.If):
            read, inner = loaded_names(statement.test), [statement.body, statement.orelse]
        elif isinstance(statement, ast.For):
            read, inner = loaded_names(statement.iter), [statement.body]
        there, is_loop = known | stored_names(assignment_targets(statement)), isinstance(statement, ast.For)
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

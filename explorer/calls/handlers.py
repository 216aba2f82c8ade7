"""Calls of actions and properties for every engine, with purity tests of a sample of calls, or of all.

An action may depend on its input alone. An action that reads the time, chance or a file raises `ActionError`. So does
one that keeps state between calls, changes its input, or depends on the order of a set. A call with sets and maps in
another order finds the last.

Handlers that read sets are rewritten, so that loops test an element first.
`[m for m in shared.msgs if isinstance(m, Vote) and m.ballot == me.ballot]` depends on the votes of one ballot alone. A
copy of the function iterates over
`prefilter_set_proxy(shared.msgs, lambda m: isinstance(m, Vote) and m.ballot == me.ballot)`. For any set but a
`SetProxy` that is the set itself; the loop keeps its tests. Only comparisons, attribute accesses and type tests are
moved, since other tests may have effects. A loop over `ordered(shared.msgs)` sorts the elements that pass; so do loops
over copies of a set. The methods that a handler calls are rewritten too.
"""

from __future__ import annotations

import ast
import builtins
import gc
import os
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy, deepcopy
from dataclasses import replace
from datetime import date, datetime
from enum import Enum
from functools import cache, cached_property, partial, partialmethod
from itertools import groupby, takewhile
from opcode import opmap
from operator import is_
from pickle import dumps, loads
from traceback import walk_stack
from types import BuiltinFunctionType, CellType, CodeType, FrameType, FunctionType, MethodType, NoneType, UnionType
from typing import Any, ClassVar, Literal, Union, get_args, get_origin

from kraftcheck.explorer.calls.inspection import independent_loop_elements
from kraftcheck.explorer.calls.proxies import SetProxy, UnansweredRead, reraising_unanswered_read
from kraftcheck.spec.diagnosis.source import compile_definition, unchanged_definition
from kraftcheck.spec.encoding import encode
from kraftcheck.spec.errors import ActionError
from kraftcheck.spec.language.declarations import Action, Property
from kraftcheck.spec.language.network import BagWithMemory, MessageSet, MessageSetWithMemory, Network
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics, call_action, evaluate_property
from kraftcheck.spec.language.state import Step, record_largest_bound_use, step_fits_unused_bounds
from kraftcheck.spec.type_checks import PHRASE_OF_SCALAR
from kraftcheck.spec.values import Map, Record, Value, field_names, field_types, field_values, is_enum, memoize, ordered

# Loops that test an element first


ELEMENTS_PASSING_NAME, ELEMENT_NAME = "__among__", "__element__"
COPYING_BUILTINS = (ordered, list, tuple, set, frozenset)
"""Functions whose result has the elements of their argument, and that raise no error."""
_SIMPLE_TEST_NODES = (
    ast.BoolOp, ast.boolop, ast.UnaryOp, ast.unaryop, ast.BinOp, ast.operator, ast.Compare, ast.cmpop, ast.Attribute,
    ast.Name, ast.Constant, ast.Subscript, ast.Tuple, ast.expr_context,
)  # fmt: skip


_IMMUTABLE_TYPES = (*PHRASE_OF_SCALAR, NoneType, Enum, frozenset, Map, Record, Protocol, type, FunctionType)


def prefilter_set_proxy(elements: Any, passes: Any, *, copies: bool = False) -> Any:
    """Return a set unchanged, or for a `SetProxy` its elements that pass a test.

    A copy is made before the loop begins, so its test must not see a value that the loop may change in place.
    """
    is_plain = type(elements) is not SetProxy or (copies and not all(map(_is_immutable_cell, passes.__closure__ or ())))
    return elements if is_plain else elements.among(passes)


def _is_immutable_cell(cell: CellType) -> bool:
    try:
        return _is_immutable_value(cell.cell_contents)
    except ValueError:
        return False


def _is_immutable_value(value: Any) -> bool:
    return all(map(_is_immutable_value, value)) if type(value) is tuple else isinstance(value, _IMMUTABLE_TYPES)


def _rewritten_function(
    function: Any, rewriting: Callable[[Any], Any] | None, names: dict[str, Any], elements: tuple[Any, ...] = ()
) -> Any:
    """Return a copy of `function` as an AST transformer rewrites it; `function` itself if that finds nothing.

    The last loop of the copy runs over `elements` alone, if there are any.
    """
    definition = unchanged_definition(function)
    if definition is None:
        return function
    copied = loads(dumps(definition))
    transformer = None if rewriting is None else rewriting(copied)
    if transformer is not None:
        transformer.visit(copied)
    if elements:
        copied.body[-1].iter = ast.Name(ELEMENT_NAME, ast.Load())
    elif transformer is None or not transformer.found:
        return function
    copied.decorator_list = []
    return compile_definition(function, copied, names | {ELEMENT_NAME: elements})


@cache
def function_with_filtering_loops(function: Callable[..., Any]) -> Any:
    """Return a copy of `function` whose filtering loops use `prefilter_set_proxy`; without such loops, itself."""
    return _rewritten_function(
        function, partial(_FilteringLoopRewriter, function), {ELEMENTS_PASSING_NAME: prefilter_set_proxy}
    )


@cache
def property_with_filtering_loops(prop: Property) -> Property:
    """Return a copy of a property with filtering loops (`prefilter_set_proxy`), renamed so that no probe records it."""
    return replace(prop, name=f"{prop.name} ", function=function_with_filtering_loops(prop.function))


class _FilteringLoopRewriter(ast.NodeTransformer):
    """AST transformer that makes loops that first test an element iterate over `prefilter_set_proxy(set, test)`."""

    def __init__(self, function: Any, definition: ast.AST) -> None:
        self.found = 0
        self._code, self._names = function.__code__, vars(builtins) | function.__globals__
        nodes = [*ast.walk(definition)]
        declared = (name for node in nodes if isinstance(node, ast.Nonlocal | ast.Global) for name in node.names)
        named = (node.target.id for node in nodes if isinstance(node, ast.NamedExpr))
        self._changing = {*declared, *named}
        self._later = {name for name, times in Counter(_stored_or_deleted_names(definition)).items() if times > 1}
        self._at_once = {id(one) for node in nodes if isinstance(node, ast.Call) for one in node.args}
        self._outliving = _loop_variables_read_outside(definition)

    def _among(
        self, target: ast.expr, elements: ast.expr, tests: list[ast.expr], changing: set[str], *, copies: bool = False
    ) -> ast.expr:
        """Return elements that pass the tests; a copy only if no variable of `changing` is tested."""
        simple = list(takewhile(_is_movable_test, _conjuncts(tests)))
        if not simple or not isinstance(target, ast.Name):
            return elements
        if isinstance(elements, ast.Call) and self._is_copy(elements):
            tested = {node.id for test in simple for node in ast.walk(test) if isinstance(node, ast.Name)}
            if tested.isdisjoint(changing | self._changing):
                elements.args[0] = self._among(target, elements.args[0], tests, changing, copies=True)
            return elements
        self.found += 1
        body = deepcopy(simple[0] if len(simple) == 1 else ast.BoolOp(ast.And(), simple))
        argument = ast.arguments([], [ast.arg(target.id)], None, [], [], None, [])
        copied = [ast.keyword("copies", ast.Constant(copies))]
        call = ast.Call(ast.Name(ELEMENTS_PASSING_NAME, ast.Load()), [elements, ast.Lambda(argument, body)], copied)
        return ast.fix_missing_locations(ast.copy_location(call, elements))

    def _is_copy(self, call: ast.Call) -> bool:
        """Return whether a call copies or sorts the elements of its argument, such as `ordered(...)`."""
        name, local = getattr(call.func, "id", ""), (*self._code.co_varnames, *self._code.co_cellvars)
        is_global = name not in (*local, *self._code.co_freevars) and len(call.args) == 1 and not call.keywords
        return is_global and any(self._names.get(name) is copying for copying in COPYING_BUILTINS)

    def _visit_comprehension(self, node: Any) -> Any:
        self.generic_visit(node)
        is_late = isinstance(node, ast.GeneratorExp) and id(node) not in self._at_once
        for one in node.generators:
            one.iter = self._among(one.target, one.iter, one.ifs, self._later if is_late else set())
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _visit_comprehension  # noqa: N815 - nodes

    def visit_Call(self, node: ast.Call) -> ast.expr:
        quantifier = node.func.id if isinstance(node.func, ast.Name) else None
        inner = node.args[0] if len(node.args) == 1 else None
        last = None
        if quantifier in ("any", "all") and isinstance(inner, ast.GeneratorExp) and not inner.generators[-1].ifs:
            test = inner.elt if quantifier == "any" else ast.UnaryOp(ast.Not(), inner.elt)
            last = inner.generators[-1]
        self.generic_visit(node)
        if last is not None:
            last.iter = self._among(last.target, last.iter, [test], set())
        return node

    def visit_For(self, node: ast.For) -> ast.For:
        self.generic_visit(node)
        if isinstance(node.target, ast.Name) and node.target.id not in self._outliving:
            node.iter = self._among(
                node.target, node.iter, _leading_loop_tests(node.body), {*_stored_or_deleted_names(*node.body)}
            )
        return node


def _conjuncts(tests: list[ast.expr]) -> Iterator[ast.expr]:
    for test in tests:
        yield from test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]


def _leading_loop_tests(body: list[ast.stmt]) -> list[ast.expr]:
    """Return the tests that an element passes before a loop does anything with it."""
    tests: list[ast.expr] = []
    for statement in body:
        if isinstance(statement, ast.Match) and statement is body[-1]:
            tests += _isinstance_tests_of_match(statement)
        if not isinstance(statement, ast.If) or statement.orelse:
            break
        if len(statement.body) == 1 and isinstance(statement.body[0], ast.Continue):
            tests.append(ast.UnaryOp(ast.Not(), statement.test))
            continue
        if statement is body[-1]:
            tests.append(statement.test)
        break
    return tests


def _loop_variables_read_outside(definition: ast.AST) -> set[str]:
    """Return the variables of loops that are read outside of the loops' bodies: the last element may fail a test."""
    binding: dict[str, list[ast.AST]] = defaultdict(list)
    for node in ast.walk(definition):
        if isinstance(node, ast.For) and isinstance(node.target, ast.Name):
            binding[node.target.id] += node.body
        elif isinstance(node, ast.Lambda):
            for argument in node.args.args:
                binding[argument.arg].append(node)
        for one in getattr(node, "generators", ()):
            binding[getattr(one.target, "id", "")].append(node)
    return {
        name
        for name, nodes in binding.items()
        if _name_load_node_ids(name, definition) - _name_load_node_ids(name, *nodes)
    }


def _stored_or_deleted_names(*nodes: ast.AST) -> list[str]:
    names = (node for root in nodes for node in ast.walk(root) if isinstance(node, ast.Name))
    return [node.id for node in names if not isinstance(node.ctx, ast.Load)]


def _name_load_node_ids(name: str, *nodes: ast.AST) -> set[int]:
    names = (node for root in nodes for node in ast.walk(root) if isinstance(node, ast.Name) and node.id == name)
    return {id(node) for node in names if not isinstance(node.ctx, ast.Store)}


def _isinstance_tests_of_match(statement: ast.Match) -> list[ast.expr]:
    """Return a test of the subject's class that holds where a case may match, in a list; [] if any class may."""
    patterns = [case.pattern for case in statement.cases]
    kinds = [p.cls for p in patterns if isinstance(p, ast.MatchClass)]
    if len(kinds) < len(patterns):
        return []
    arguments = [deepcopy(statement.subject), ast.Tuple(kinds, ast.Load())]
    return [ast.Call(ast.Name("isinstance", ast.Load()), arguments, [])]


def protocol_with_rewritten_methods(protocol: Protocol, rewrite: Callable[[Any], Any]) -> Protocol:
    """Return a copy of a protocol that calls its methods rewritten."""
    copied = copy(protocol)
    for name, value in user_class_attributes_by_name(protocol).items():
        if isinstance(value, FunctionType) and (made := rewrite(value)) is not value:
            vars(copied).setdefault(name, MethodType(made, copied))
    return copied


def user_class_attributes_by_name(protocol: Protocol) -> dict[str, Any]:
    """Return the attributes that a protocol's own classes define."""
    bases = type(protocol).__mro__[: type(protocol).__mro__.index(Protocol)]
    return {name: value for base in reversed(bases) for name, value in vars(base).items()}


def _is_movable_test(test: ast.expr) -> bool:
    """Whether a test has no effect: an item of a variable may be one of a `defaultdict`, which then gets it."""
    parts = list(ast.walk(test))
    has_items = any(isinstance(one, ast.Subscript) and not isinstance(one.value, ast.Attribute) for one in parts)
    return not has_items and all(isinstance(one, _SIMPLE_TEST_NODES) or _is_type_test(one) for one in parts)


def _is_type_test(node: ast.AST) -> bool:
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords
    return is_call and node.func.id == "isinstance"  # type: ignore[attr-defined]


# Sets and maps in another order


_SET_CLASS_NAME = "__set__"
_SET_BUILTINS = {"frozenset", "set"}
_SET_OPCODES = {opmap["BUILD_SET"], opmap["SET_ADD"]}
_METHODS_MAKING_SETS = ("copy", "difference", "intersection", "symmetric_difference", "union")
_OPERATORS_MAKING_SETS = ("__and__", "__or__", "__sub__", "__xor__", "__rand__", "__ror__", "__rsub__", "__rxor__")


class AscendingTestFrozenset(frozenset[Any]):
    """A set that iterates in canonical order, as do its unions and differences, for the purity test."""

    __slots__ = ("_elements",)
    mutable: ClassVar[type[set[Any]]]

    def __iter__(self) -> Iterator[Any]:
        if not hasattr(self, "_elements"):
            self._elements = self._in_order()
        return iter(self._elements)

    def _in_order(self) -> list[Any]:
        return ordered(super().__iter__())


class DescendingTestFrozenset(AscendingTestFrozenset):
    """A set that iterates in reverse canonical order."""

    __slots__ = ()

    def _in_order(self) -> list[Any]:
        return super()._in_order()[::-1]


class AscendingTestSet(set[Any]):
    """A set that can change, iterates in canonical order and pops the first element, as do its unions."""

    _order = 1

    def __iter__(self) -> Iterator[Any]:
        return iter(ordered(super().__iter__())[:: self._order])

    def pop(self) -> Any:
        """Remove and return the first element; raise KeyError if there is none."""
        first = next(iter(self), None)
        self.remove(first)
        return first


class DescendingTestSet(AscendingTestSet):
    """A set that can change, and iterates in reverse canonical order."""

    _order = -1


def _set_method_result_in_own_class(own: Any, base: type, name: str, *others: Any) -> Any:
    """Return the set that a method of `frozenset` or `set` makes, as one of the class of `own`."""
    made = getattr(base, name)(own, *others)
    return made if made is NotImplemented else type(own)(made)


for _name in (*_METHODS_MAKING_SETS, *_OPERATORS_MAKING_SETS):
    setattr(AscendingTestFrozenset, _name, partialmethod(_set_method_result_in_own_class, frozenset, _name))
    setattr(AscendingTestSet, _name, partialmethod(_set_method_result_in_own_class, set, _name))
AscendingTestFrozenset.mutable, DescendingTestFrozenset.mutable = AscendingTestSet, DescendingTestSet


class SetClassHandlerCaller:
    """Calls handlers with all sets converted to class `kind`: arguments, constants, and sets made in handlers."""

    def __init__(self, protocol: Protocol, kind: type[AscendingTestFrozenset]) -> None:
        self._kind = kind
        self._protocol = protocol_with_rewritten_methods(
            protocol, lambda method: _function_with_ordered_sets(method, kind)
        )
        known = user_class_attributes_by_name(protocol) | vars(self._protocol)
        collections = {name: value for name, value in known.items() if type(value) in (frozenset, tuple, Map)}
        vars(self._protocol).update({name: value_with_set_class(value, kind) for name, value in collections.items()})

    def call(self, function: Any, arguments: tuple[Any, ...]) -> list[Step]:
        """Call a handler with all sets converted to class `kind`; return its steps, with plain sets."""
        own = [value_with_set_class(one, self._kind) for one in arguments]
        made = _function_with_ordered_sets(function, self._kind)(self._protocol, *own)
        return [value_with_set_class(step, frozenset) for step in made]


def step_effects_without_order(step: Step, network: Network) -> tuple[Any, ...]:
    """Return the effects of a step in a form that ignores the order of independent sends, puts and writes."""
    if isinstance(network, BagWithMemory | MessageSet | MessageSetWithMemory):
        runs = groupby(step.sends, lambda send: send[0])
        sends: Any = tuple((operation, frozenset(Counter(run).items())) for operation, run in runs)
    else:
        sends = defaultdict(list)
        for send in step.sends:
            sends[getattr(send[1], "dest", None)].append(send)
        sends = frozenset((dest, tuple(sent)) for dest, sent in sends.items())
    spent = (frozenset(Counter(bounds).items()) for bounds in (step.spends, step.needs))
    return step.me, step.consumes, sends, frozenset(dict(step.puts).items()), frozenset(step.writes), *spent


def value_with_set_class(value: Value, kind: type[frozenset[Any]]) -> Any:
    """Return an equal value whose sets have the class `kind`, and whose maps iterate in the order of `kind`."""
    own = type(value)
    if issubclass(own, frozenset):
        return kind([value_with_set_class(one, kind) for one in value])
    if own is tuple:
        parts = [value_with_set_class(one, kind) for one in value]
        return value if all(map(is_, parts, value)) else tuple(parts)
    if own is Map:
        items = {value_with_set_class(key, kind): value_with_set_class(item, kind) for key, item in value.items()}
        keys = [*items] if kind is frozenset else ordered(items)
        return Map((key, items[key]) for key in (keys[::-1] if kind is DescendingTestFrozenset else keys))
    if issubclass(own, Record):
        return _record_with_set_class(value, kind)
    through = getattr(own, "__read_through__", None)  # a proxy converts when it is read
    return value if through is None else through(value, partial(value_with_set_class, kind=kind))


def _record_with_set_class(value: Any, kind: type[frozenset[Any]]) -> Any:
    known, own = vars(value), type(value)
    new = {name: value_with_set_class(known[name], kind) for name in _collection_fields(own)}
    if all(new[name] is known[name] for name in new):
        return value
    made = object.__new__(own)
    vars(made).update({name: known[name] for name in field_names(own)} | new)
    return made


@memoize
def _collection_fields(record_type: type[Record]) -> list[str]:
    """Return the fields of a record class that may contain a set or a map."""
    try:
        return [name for name, kind in field_types(record_type).items() if not _is_scalar_type(kind)]
    except NameError:
        return list(field_names(record_type))


def _is_scalar_type(kind: Any) -> bool:
    if get_origin(kind) in (Union, UnionType):
        return all(map(_is_scalar_type, get_args(kind)))
    return kind in PHRASE_OF_SCALAR or kind is NoneType or is_enum(kind) or get_origin(kind) is Literal


@cache
def _function_with_ordered_sets(function: FunctionType, kind: type[AscendingTestFrozenset]) -> Any:
    """Return `function` rewritten to create sets of class `kind`; unchanged if it creates none or has no source."""
    made = _rewrite_to_ascending_sets(function)
    if made is function:
        return function
    code = made.__code__
    cells = dict(zip(code.co_freevars, made.__closure__, strict=True)) | {_SET_CLASS_NAME: CellType(kind)}
    other = FunctionType(code, made.__globals__, made.__name__, made.__defaults__, tuple(cells.values()))
    other.__kwdefaults__ = made.__kwdefaults__
    return other


@cache
def _rewrite_to_ascending_sets(function: FunctionType) -> Any:
    """Return `function` rewritten to create `AscendingTestFrozenset` sets, compiled once for all classes of sets."""
    if not hasattr(function, "__code__") or not _may_make_sets(function.__code__):
        return function
    return _rewritten_function(function, lambda _: _SetClassRewriter(), {_SET_CLASS_NAME: AscendingTestFrozenset})


def _may_make_sets(code: CodeType) -> bool:
    """Return whether a function's bytecode may create a set; a quick check before its source is parsed."""
    own = _SET_BUILTINS.intersection(code.co_names) or _SET_OPCODES.intersection(code.co_code[::2])
    return bool(own) or any(_may_make_sets(one) for one in code.co_consts if isinstance(one, CodeType))


class _SetClassRewriter(ast.NodeTransformer):
    """AST transformer that makes a function create sets of a given class, except sets used only for `in` tests."""

    def __init__(self) -> None:
        self.found = 0

    def visit_Compare(self, node: ast.Compare) -> ast.Compare:
        return node if isinstance(node.ops[0], ast.In | ast.NotIn) else self.generic_visit(node)  # type: ignore[return-value]

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in _SET_BUILTINS:
            node.func = self._kind(node.func, is_mutable=node.func.id == "set")
        return node

    def _set(self, node: Any) -> ast.Call:
        self.generic_visit(node)
        return ast.copy_location(ast.Call(self._kind(node, is_mutable=True), [node], []), node)

    def _kind(self, node: ast.expr, *, is_mutable: bool) -> ast.expr:
        self.found += 1
        kind = ast.Name(_SET_CLASS_NAME, ast.Load())
        made = ast.Attribute(kind, "mutable", ast.Load()) if is_mutable else kind
        return ast.fix_missing_locations(ast.copy_location(made, node))

    visit_Set = visit_SetComp = _set  # noqa: N815 - named after the nodes


CallArguments = Mapping[str, Value]
"""Arguments of an action or a property, by name."""
CallOutcome = frozenset[tuple[Any, ...]]
SettleSteps = Callable[[Iterable[Any]], Iterable[Any]]
"""Function that returns the steps of a handler without proxies."""
# Calls, and tests of their purity


FAILED_ASSERT_OUTCOME: CallOutcome = frozenset({("an assert failed",)})
DEPENDS_ON_ORDER_TEXT = "is not pure: its steps depend on the order of a set or a map; use ordered(...)"
YIELDED_OTHERS_TEXT = "is not pure: called twice on the same input, it yielded other steps"
_TIME_FUNCTIONS = [function for function in vars(time).values() if isinstance(function, BuiltinFunctionType)]
IMPURE_FUNCTIONS = {*_TIME_FUNCTIONS, os.getpid, os.urandom, os.listdir, os.stat, os.times, builtins.input, open}
"""Built-in functions that return different values from call to call."""
CLOCK_METHODS = {"now", "today", "utcnow"}  # class methods of dates


class ImpureCallWatch:
    """Context manager that records the first call of an impure built-in function, such as `time.time`."""

    def __init__(self) -> None:
        self.found: str | None = None

    def __enter__(self) -> ImpureCallWatch:
        self._before, self._collects = sys.getprofile(), gc.isenabled()
        gc.disable()  # callbacks of the collector may read the clock
        if self._before is None:  # a profiler that is active already stays
            sys.setprofile(self._look)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is None:
            sys.setprofile(None)
        if self._collects:
            gc.enable()

    def _look(self, frame: FrameType, event: str, function: Any) -> None:
        is_first_call = event == "c_call" and self.found is None
        if is_first_call and _is_impure_function(function) and not _is_importing_module(frame):
            owner = getattr(function, "__self__", None)
            place = type(owner).__name__ if isinstance(owner, random.Random) else getattr(owner, "__name__", None)
            self.found = ".".join(filter(None, (place, function.__name__)))


def _is_impure_function(function: Any) -> bool:
    owner = getattr(function, "__self__", None)
    if isinstance(owner, random.Random):
        return owner is random._inst or isinstance(owner, random.SystemRandom)
    if isinstance(owner, type) and issubclass(owner, date | datetime):
        return function.__name__ in CLOCK_METHODS
    return function in IMPURE_FUNCTIONS


def _is_importing_module(frame: FrameType) -> bool:
    """Whether an action imports a module here, which reads files: `Counter.most_common` imports `heapq`."""
    own = takewhile(lambda code: code is not call_action.__code__, (one.f_code for one, _ in walk_stack(frame)))
    return any(code.co_filename == "<frozen importlib._bootstrap>" for code in own)


class PurityTest:
    """Repeats calls of actions on equal input, and compares the results: all calls, or calls 1, 2, 4, 8 of each action.

    A call is repeated at once, with its sets and maps in two orders, and once more at the end.
    """

    def __init__(self, protocol: Any, *, thorough: bool) -> None:
        self._protocol, self._thorough = protocol, thorough
        self._calls: Counter[str] = Counter()
        self._due: dict[str, int] = {}
        self._in_order: dict[type[AscendingTestFrozenset], SetClassHandlerCaller] = {}
        self._made: list[tuple[Action, Any, Any, CallArguments, CallOutcome]] = []

    def is_due(self, action: Action) -> bool:
        """Count a call of an action; return whether to test it."""
        count = self._calls[action.name] = self._calls[action.name] + 1
        if not self._thorough and (count < self._due.get(action.name, 1) or not self._protocol.is_sampled):
            return False
        self._due[action.name] = 2 * count
        return True

    def call(self, action: Action, me: Any, message: Any, given: CallArguments) -> tuple[Step, ...]:
        """Return the steps that an action would take."""
        read = _concatenated_encodings if self._thorough else _field_values_of_records
        before = read(me, message)
        with ImpureCallWatch() as impure:
            steps = call_action(self._protocol, action, me, message, given)
        if impure.found is not None:
            raise ActionError(action, self._protocol, me, message, f"is not pure: it calls {impure.found}")
        if read(me, message) != before:
            raise ActionError(action, self._protocol, me, message, "changes its input")
        call, found = (action, me, message, given), self._outcome(steps)
        one, other = (self._reordered(kind, *call) for kind in (AscendingTestFrozenset, DescendingTestFrozenset))
        if one != found or other != found:
            self._compare(*call, found)
            if one != other and None not in (one, other):  # else the class of the sets matters, not their order
                raise ActionError(action, self._protocol, me, message, DEPENDS_ON_ORDER_TEXT)
        self._made.append((*call, found))
        return steps

    def call_again(self) -> None:
        """Repeat the tested calls in reverse order; raise ActionError if one gives another result than before."""
        while self._made:
            self._compare(*self._made.pop())

    def _compare(self, action: Action, me: Any, message: Any, given: CallArguments, found: CallOutcome) -> None:
        if self._outcome(call_action(self._protocol, action, me, message, given)) != found:
            raise ActionError(action, self._protocol, me, message, YIELDED_OTHERS_TEXT)

    def _reordered(
        self, kind: type[AscendingTestFrozenset], action: Action, me: Any, message: Any, given: CallArguments
    ) -> CallOutcome | None:
        """Repeat a call on sets of class `kind`; return its outcome, FAILED_ASSERT_OUTCOME, or None (other error)."""
        leading = [item for item in (me, message) if item is not None]
        if kind not in self._in_order:
            self._in_order[kind] = SetClassHandlerCaller(self._protocol, kind)
        try:
            arguments = (*leading, *[given[name] for name in action.asks])
            return self._outcome(self._in_order[kind].call(action.function, arguments))
        except AssertionError:
            return FAILED_ASSERT_OUTCOME
        except Exception:  # the action inspects the class
            return None

    def _outcome(self, steps: Iterable[Step]) -> CallOutcome:
        return frozenset(step_effects_without_order(step, self._protocol.network) for step in steps)


class MissingRead(UnansweredRead):
    """Raised for a read whose value is unknown."""

    def __init__(self, read: Any = None) -> None:
        super().__init__(read)
        self.read = read


class HandlerCaller:
    """Calls the actions and properties of one protocol for an engine, and counts the calls."""

    def __init__(self, protocol: Protocol, *, thorough: bool = False) -> None:
        self.protocol = protocol
        self.counts: Counter[str] = Counter()
        self.evaluations: Counter[str] = Counter()  # of properties whose reads are recorded
        self.most_spent: dict[str, int] = {}
        self.purity = PurityTest(protocol, thorough=thorough)
        self._actions: dict[type, list[Action]] = {}
        self._settling: dict[tuple[str, bool, int | None], Action] = {}
        self._pieces: dict[str, tuple[Any, ...]] = {}
        self._settle: Any = None

    @cached_property
    def _filtering(self) -> Protocol:
        """The protocol, with methods whose loops over sets test an element before they read its membership."""
        return protocol_with_rewritten_methods(self.protocol, function_with_filtering_loops)

    def applicable(self, me: Any, message: Any, receiver: Any = None) -> Iterator[Action]:
        """Yield the actions that replica `me` (None: the environment) may take on `message` (None: on no message).

        `receiver`, by default `me`, decides whether the replica receives the message.
        """
        replica = me if receiver is None else receiver
        for action in self._actions_on(type(message)):
            if (me is None) != (action.kind == "environment"):
                continue
            if me is None or (isinstance(me, action.actors) and (message is None or self._receives(replica, message))):
                yield action

    def _receives(self, replica: Any, message: Any) -> bool:
        with reraising_unanswered_read:
            return self.protocol.receives(replica, message)

    def _actions_on(self, kind: type) -> list[Action]:
        """Return the actions on messages of a class; for NoneType, the actions without a message."""
        if kind not in self._actions:
            known = [(one, one.messages if one.kind == "on" else NoneType) for one in self.protocol.actions.values()]
            self._actions[kind] = [one for one, kinds in known if issubclass(kind, kinds)]
        return self._actions[kind]

    def steps(
        self,
        action: Action,
        me: Any,
        message: Any,
        given: CallArguments,
        whole: Callable[[], CallArguments] | None = None,
        settle: SettleSteps | None = None,
        *,
        filters: bool = False,
        piece: int | None = None,
    ) -> list[Step]:
        """Call an action or a piece of it, and return those of its steps that stay within the protocol's bounds.

        `whole` returns the arguments without proxies; `settle` returns the steps without proxies. With `filters`, the
        action's loops over sets test an element before they read its membership.
        """
        self.counts[action.name] += 1
        is_tested = (settle is None or whole is not None) and self.purity.is_due(action)
        with reraising_unanswered_read:
            if is_tested:
                steps = self.purity.call(action, me, message, given if whole is None else whole())
            if not is_tested or whole is not None:
                is_plain = settle is None and piece is None
                called = action if is_plain else self._settling_action(action, settle, filters, piece)
                steps = call_action(self.protocol, called, me, message, given)
        record_largest_bound_use(steps, self.most_spent)
        return [step for step in steps if step_fits_unused_bounds(step, self.protocol.bounds)]

    def pieces(self, action: Action) -> Iterable[int | None]:
        """Return the numbers of an action's pieces; None alone for an action in one piece."""
        if action.name not in self._pieces:
            self._pieces[action.name] = independent_loop_elements(self.protocol, action.function)
        return range(len(self._pieces[action.name])) or (None,)

    def _settling_action(self, action: Action, settle: SettleSteps | None, filters: bool, piece: int | None) -> Action:
        """Return a copy of an action, or of a piece of it, whose function applies `settle` to its steps."""
        self._settle, key = settle, (action.name, filters, piece)
        if key not in self._settling:
            elements = () if piece is None else self._pieces[action.name][piece : piece + 1]
            rewriting = partial(_FilteringLoopRewriter, action.function) if filters else None
            names = {ELEMENTS_PASSING_NAME: prefilter_set_proxy}
            function = _rewritten_function(action.function, rewriting, names, elements)

            def call(protocol: Protocol, *arguments: Any) -> Any:
                made = function(self._filtering if filters else protocol, *arguments)
                return self._settle(made) if self._settle is not None and isinstance(made, Iterable) else made

            self._settling[key] = action_with_function(action, call)
        return self._settling[key]

    def holds(self, prop: Property, given: CallArguments, whole: Callable[[], CallArguments] | None = None) -> bool:
        """Return whether a property holds for the arguments `given`.

        With `whole`, the property's loops over sets test an element before they read its membership. A probe, which
        observes the evaluation, gets the arguments without proxies; for a part of a property, those of the property.
        """
        protocol, evaluated = self.protocol, prop
        if whole is not None and prop.whole is None:
            protocol, evaluated = self._filtering, property_with_filtering_loops(prop)
        with reraising_unanswered_read:
            found = evaluate_property(protocol, evaluated, given)
        if whole is not None and (probe := self.protocol.probes.get(prop.name)) is not None:
            probe.observe(lambda: evaluate_property(self.protocol, prop.whole or prop, whole()))
        return found


def action_with_function(action: Action, function: Callable[..., Any], **changes: Any) -> Action:
    """Return a copy of `action` that calls `function` in place of its own, with the same parameters."""
    vars(function)["__wrapped__"] = action.function  # an error names its file and line
    made = replace(action, function=function, **changes)
    vars(made).update(asks=action.asks, actors=action.actors)
    return made


class PurityTestingSemantics(Semantics):
    """`Semantics` that tests the action calls selected by `PurityTest` for purity."""

    def __init__(self, protocol: Any, purity: PurityTest) -> None:
        super().__init__(protocol)
        self._purity = purity

    def call(self, action: Action, me: Any, message: Any, given: dict[str, Value]) -> tuple[Step, ...]:
        """Return the steps that an action would take."""
        if self._purity.is_due(action):
            return self._purity.call(action, me, message, given)
        return call_action(self.protocol, action, me, message, given)


def _field_values_of_records(*records: Any) -> tuple[Any, ...]:
    """Return the records' field values, to compare later.

    Faster than `_concatenated_encodings`, but blind to mutated values.
    """
    return tuple(field_values(record) for record in records if record is not None)


def _concatenated_encodings(*values: Any) -> bytes:
    return b"".join(encode(value) for value in values if value is not None)

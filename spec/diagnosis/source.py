"""Source of functions as syntax trees; conditions behind a disabled action, a false property or a failed `assert`.

A handler without a step ends at a `return`, or at its last line. Its call is traced, and the source gives the
conditions that led to that line. A property is a pure function, so parts of its result can be evaluated again with the
same names.

>>> names = {"votes": (1, 2), "count": 7}
>>> list(false_part_texts(ast.parse("count < 5 or all(vote < 2 for vote in votes)", mode="eval").body, names, {}))
['count < 5  (count = 7)', 'vote < 2  (vote = 2)']
"""

from __future__ import annotations
import __future__

import ast
import enum
import linecache
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from inspect import CO_GENERATOR
from itertools import pairwise
from pathlib import Path
from types import CellType, CodeType, FrameType, FunctionType
from typing import Any, NamedTuple, TypeVar

from kraftcheck.spec.values import Map, ModelValue, Record, text_of, truncate_text

T = TypeVar("T")
LocalVariables = dict[str, Any]


class TracedLine(NamedTuple):
    """A line before its execution, with the local variables."""

    line: int
    names: LocalVariables


class TracedCall:
    """The trace of one call of a function."""

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.moments: list[TracedLine] = []
        self.ends: list[int] = []
        self.result: object = None
        self.inner: list[tuple[int, TracedCall]] = []

    @property
    def end(self) -> int:
        """The line of the last return or yield; the function's first line if there was none."""
        return self.ends[-1] if self.ends else self.code.co_firstlineno

    @property
    def is_generator(self) -> bool:
        """Whether the function is a generator."""
        return bool(self.code.co_flags & CO_GENERATOR)


def trace_call(code: CodeType, call: Callable[[], T]) -> tuple[T, TracedCall]:
    """Return the result of `call`, and the trace of its first call of the function with this `code`."""
    outer = TracedCall(code)
    traced: dict[FrameType, TracedCall] = {}

    def begin(frame: FrameType, event: str, argument: object) -> Any:
        if frame not in traced:
            caller = None if frame.f_back is None else traced.get(frame.f_back)
            found = outer if frame.f_code is code and outer not in traced.values() else TracedCall(frame.f_code)
            if found is outer:
                pass
            elif (
                caller is not None and _should_trace_callees(caller, outer) and not frame.f_code.co_name.startswith("<")
            ):
                caller.inner.append((getattr(frame.f_back, "f_lineno", 0), found))
            elif found.is_generator and _is_returned_generator(frame.f_code, outer):
                outer.inner.append((outer.end, found))  # a handler may return the generator of another method
            else:
                return None
            traced[frame] = found
        return note

    def note(frame: FrameType, event: str, argument: object) -> Any:
        if event == "line":
            traced[frame].moments.append(TracedLine(frame.f_lineno, dict(frame.f_locals)))
        elif event == "return":
            traced[frame].ends.append(frame.f_lineno)
            traced[frame].result = argument
        return note

    before = sys.gettrace()
    sys.settrace(begin)
    try:
        result = call()
    finally:
        sys.settrace(before)
    return result, outer


def _should_trace_callees(caller: TracedCall, outer: TracedCall) -> bool:
    """Whether to trace the calls that `caller` makes: it is the call `outer` itself, or that of a generator."""
    return caller is outer or caller.is_generator


def _is_returned_generator(code: CodeType, outer: TracedCall) -> bool:
    return bool(outer.ends) and not outer.is_generator and code.co_name in outer.code.co_names


MAX_VALUE_TEXT_LENGTH = 80
"""Maximum length of a value's text."""

VALUE_TYPES = (bool, int, str, ModelValue, tuple, frozenset, enum.Enum, Record, Map)

_FACTORY_NAME = "__make__"
Node = TypeVar("Node", bound=ast.AST)

_NEGATED_OPERATORS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.Is: ast.IsNot,
    ast.In: ast.NotIn,
    ast.Lt: ast.GtE,
    ast.Gt: ast.LtE,
}
_NEGATED_OPERATORS |= {other: one for one, other in _NEGATED_OPERATORS.items()}


class FunctionSource:
    """The definition of a function as a syntax tree."""

    def __init__(self, definition: ast.FunctionDef) -> None:
        self.parents: dict[ast.AST, ast.AST] = {}
        self._statements: list[ast.stmt] = []
        self._visit(definition)

    def _visit(self, node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            self.parents[child] = node
            if isinstance(child, ast.stmt):
                self._statements.append(child)
            if not isinstance(child, ast.FunctionDef | ast.Lambda):
                self._visit(child)

    def at(self, line: int) -> ast.stmt | None:
        """Return the innermost statement of a line."""
        found = [s for s in self._statements if s.lineno <= line <= (s.end_lineno or s.lineno)]
        return found[-1] if found else None


def source_of_function(code: CodeType) -> FunctionSource | None:
    """Return the source of a function, or None."""
    found = definition_of(code)
    return None if found is None else FunctionSource(found)


def definition_of(code: CodeType) -> ast.FunctionDef | None:
    """Return the shared syntax tree of a function's definition, or None."""
    module = syntax_tree(code.co_filename)
    for node in nodes_of_type(module, ast.FunctionDef) if module is not None else ():
        if node.name == code.co_name:
            first = min([node.lineno, *[decorator.lineno for decorator in node.decorator_list]])
            if first == code.co_firstlineno:
                return node
    return None


def unchanged_definition(function: Any) -> ast.FunctionDef | None:
    """Return the definition that a function has the code of; None where its file or its code has changed since."""
    code: Any = getattr(function, "__code__", None)
    definition = definition_of(code) if code is not None else None
    made = None if definition is None else _code_compiled_from_definition(function, definition, ())
    return definition if made is not None and made.replace(co_flags=code.co_flags) == code else None


def compile_definition(function: Callable[..., Any], definition: ast.FunctionDef, more: Mapping[str, Any]) -> Any:
    """Return a function compiled from `definition`, with the globals, defaults and closure of `function`."""
    code, inner = function.__code__, _code_compiled_from_definition(function, definition, more)
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    cells |= {name: CellType(value) for name, value in more.items()}
    made = FunctionType(
        inner,
        function.__globals__,
        code.co_name,
        function.__defaults__,
        tuple(cells[name] for name in inner.co_freevars),
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _code_compiled_from_definition(function: Any, definition: ast.FunctionDef, more: Iterable[str]) -> CodeType:
    code: CodeType = function.__code__
    free = [ast.arg(name) for name in (*more, *code.co_freevars)]
    no_more: dict[str, Any] = {"kwonlyargs": [], "kw_defaults": [], "defaults": []}
    # The factory's parameters are free variables of the function; its name stays global, as in a recursion.
    named: list[ast.stmt] = [] if code.co_name in code.co_freevars else [ast.Global([code.co_name])]
    arguments = ast.arguments([], free, **no_more)
    outer = ast.FunctionDef(_FACTORY_NAME, arguments, [*named, definition], [], lineno=1, col_offset=0)
    # The compiler translates calls of attributes of imported names in another way.
    used = {node.id for node in ast.walk(definition) if isinstance(node, ast.Name)}
    imports = [ast.Import([ast.alias(name)]) for name in sorted(used & _names_bound_by_imports(code.co_filename))]
    owner = code.co_qualname.rpartition(".")[0].rpartition(".")[2]  # its private names have the name of the class
    within: ast.stmt = ast.ClassDef(owner, [], [], [outer], []) if owner.isidentifier() else outer
    module = ast.fix_missing_locations(ast.Module([*imports, within], []))
    flags = code.co_flags & __future__.annotations.compiler_flag
    made = compile(module, code.co_filename, "exec", flags=flags, dont_inherit=True)
    while made.co_name != _FACTORY_NAME:
        made = next(c for c in made.co_consts if _is_code(c))
    found: CodeType = next(c for c in made.co_consts if _is_code(c) and c.co_name == code.co_name)
    return found


def _names_bound_by_imports(file: str) -> set[str]:
    module, imports = syntax_tree(file), list[ast.Import | ast.ImportFrom]()
    if module is not None:
        imports = [*nodes_of_type(module, ast.Import), *nodes_of_type(module, ast.ImportFrom)]
    return {(one.asname or one.name).partition(".")[0] for node in imports for one in node.names}


def _is_code(value: object) -> bool:
    return isinstance(value, CodeType)


def syntax_tree(file: str | Path) -> ast.Module | None:
    """Return the shared syntax tree of a file, or None if it is not Python."""
    linecache.checkcache(str(file))
    return _parsed_module("".join(linecache.getlines(str(file))))


@lru_cache(maxsize=256)
def _parsed_module(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def nodes_of_type(root: ast.AST, kind: type[Node]) -> Sequence[Node]:
    """Return the nodes of a type in a tree, in the order of `ast.walk`; the result is cached."""
    return _nodes_by_type(root).get(kind, ())  # type: ignore[return-value]


@lru_cache(maxsize=2048)
def _nodes_by_type(root: ast.AST) -> dict[type, list[ast.AST]]:
    nodes: list[ast.AST] = [root]
    kinds: dict[type, list[ast.AST]] = {}
    for node in nodes:
        kinds.setdefault(type(node), []).append(node)
        for name in node._fields:
            value = getattr(node, name, None)
            if type(value) is list:
                nodes += [one for one in value if isinstance(one, ast.AST)]
            elif isinstance(value, ast.AST) and value._fields:  # contexts and operators are never requested
                nodes.append(value)
    return kinds


def called_name(call: ast.Call) -> str | None:
    """Return the name of the called function or method."""
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)


def negation(test: ast.expr) -> ast.expr:
    """Return the negation of a test, simplified."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return ast.Compare(test.left, [_NEGATED_OPERATORS[type(test.ops[0])]()], test.comparators)
    return ast.UnaryOp(ast.Not(), test)


def value_equation(node: ast.expr, value: object) -> Iterator[str]:
    """Yield `source = value` if the value has one of the value types of protocols."""
    if isinstance(value, VALUE_TYPES):
        yield f"{ast.unparse(node)} = {truncate_text(text_of(value), MAX_VALUE_TEXT_LENGTH)}"


def value_equations_in(test: ast.AST, names: LocalVariables) -> Iterator[str]:
    """Yield `source = value` for the longest names, attributes and subscripts with a value in a test."""
    if isinstance(test, ast.Name | ast.Attribute | ast.Subscript | ast.Call):
        try:
            value = _value_of_simple_expression(test, names)
        except (LookupError, AttributeError, TypeError):
            pass
        else:
            if not (isinstance(test, ast.Name) and isinstance(value, Record)):
                yield from value_equation(test, value)
            if isinstance(test, ast.Subscript):
                yield from value_equations_in(test.slice, names)
            return
    if isinstance(test, ast.Call):
        yield from _value_equations_in_call(test, names)
    else:
        for child in ast.iter_child_nodes(test):
            yield from value_equations_in(child, names)


def _value_equations_in_call(call: ast.Call, names: LocalVariables) -> Iterator[str]:
    if called_name(call) == "isinstance" and isinstance(call.args[0], ast.Name):
        yield f"{call.args[0].id} is a {type(names.get(call.args[0].id)).__name__}"
    if isinstance(call.func, ast.Attribute):
        yield from value_equations_in(call.func.value, names)  # the receiver of the method call
    for argument in (*call.args, *call.keywords):
        yield from value_equations_in(argument, names)


def _value_of_simple_expression(node: ast.AST, names: LocalVariables) -> Any:
    """Return the value of a name, attribute, subscript, sum or length; call no function but `len`."""
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return names[node.id]
        case ast.Attribute():
            return getattr(_value_of_simple_expression(node.value, names), node.attr)
        case ast.Subscript():
            return _value_of_simple_expression(node.value, names)[_value_of_simple_expression(node.slice, names)]
        case ast.BinOp(op=ast.Add()):
            return _value_of_simple_expression(node.left, names) + _value_of_simple_expression(node.right, names)
        case ast.BinOp(op=ast.Sub()):
            return _value_of_simple_expression(node.left, names) - _value_of_simple_expression(node.right, names)
        case ast.Call(func=ast.Name("len"), args=[argument]):
            return len(_value_of_simple_expression(argument, names))
    raise LookupError(ast.dump(node))


MAX_EXPLAINED_ITERATIONS = 4
"""Maximum number of loop iterations to explain."""


class EndingGuard(NamedTuple):
    """The line at which a function ended, and the condition that led there."""

    # the true condition, with its values; empty if there is none or the source is unavailable
    text: str
    file: str  # the file
    line: int


def find_ending_guard(call: TracedCall) -> EndingGuard:
    """Return the `EndingGuard` of a call that yielded no step: the line of its end, and the conditions before."""
    source = source_of_function(call.code)
    if source is None:
        return EndingGuard("", call.code.co_filename, call.end)
    return _GuardFinder(call, source).guard()


class _SatisfiedTest(NamedTuple):
    """A test that was true, as an expression or text, with the moment of its evaluation."""

    test: ast.expr | str
    moment: TracedLine


class _GuardFinder:
    """Finder of the `EndingGuard` of one traced call, in the source of the called function."""

    def __init__(self, call: TracedCall, source: FunctionSource) -> None:
        self._call = call
        self._source = source

    def guard(self) -> EndingGuard:
        line = self._call.end
        statement = self._source.at(line)
        delegate = self._delegate(statement)
        if delegate is not None:
            return find_ending_guard(delegate)
        if isinstance(statement, ast.Return):
            return self._guard(self._around(statement, self._moment(line, len(self._call.moments))), line)
        if isinstance(statement, ast.For | ast.While):
            return self._after_loop(statement, line)
        last = self._last_decision(0, len(self._call.moments))
        return self._guard(*last) if last is not None else EndingGuard("", self._call.code.co_filename, line)

    def _delegate(self, statement: ast.stmt | None) -> TracedCall | None:
        """Return the traced call of the generator that `statement` delegates to if it ended without a step, or None."""
        source: ast.expr | None = None
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.YieldFrom):
            source = statement.value.value
        elif isinstance(statement, ast.Return):
            source = statement.value
        elif isinstance(statement, ast.For):
            source = statement.iter
        if not isinstance(source, ast.Call):
            return None
        name = called_name(source)
        inner = [call for _, call in self._call.inner if call.is_generator and call.code.co_name == name]
        return inner[-1] if inner and len(inner[-1].ends) == 1 else None

    def _after_loop(self, loop: ast.For | ast.While, line: int) -> EndingGuard:
        """Return the guard of a loop that yields no step: the conditions of the last branch in each iteration."""
        moments = self._call.moments
        heads = [n for n, moment in enumerate(moments) if self._source.at(moment.line) is loop]
        decisions = [self._last_decision(a + 1, b) for a, b in pairwise([*heads, len(moments)])]
        found = [decision for decision in decisions if decision is not None]
        if not found and isinstance(loop, ast.For) and heads == [len(moments) - 1]:
            condition = _SatisfiedTest(f"{ast.unparse(loop.iter)} is empty", moments[heads[0]])
            return self._guard([condition, *self._around(loop, moments[heads[0]])], line)
        texts = list(dict.fromkeys(self._guard(*decision).text for decision in found))
        told = [*texts[:MAX_EXPLAINED_ITERATIONS], *(["..."] if len(texts) > MAX_EXPLAINED_ITERATIONS else [])]
        return EndingGuard("; ".join(told), self._call.code.co_filename, found[-1][1] if found else line)

    def _last_decision(self, first: int, after: int) -> tuple[list[_SatisfiedTest], int] | None:
        """Return the conditions and the line of the last branch taken between two traced moments."""
        moments = self._call.moments
        for number in range(after - 1, first - 1, -1):
            moment = moments[number]
            statement = self._source.at(moment.line)
            if isinstance(statement, ast.Continue | ast.Break | ast.Pass):
                return self._around(statement, moment), moment.line
            if isinstance(statement, ast.If):
                following = moments[number + 1].line if number + 1 < len(moments) else None
                if not _is_line_within(following, statement.body) and not _is_line_within(following, statement.orelse):
                    test = _SatisfiedTest(negation(statement.test), moment)
                    return [test, *self._before(statement, moment)], moment.line
        return None

    def _before(self, statement: ast.If, moment: TracedLine) -> list[_SatisfiedTest]:
        """Return the conditions under which an `elif` is tested; none for a plain `if`."""
        parent = self._source.parents[statement]
        if isinstance(parent, ast.If) and statement in parent.orelse:
            return self._around(statement, moment)
        return []

    def _around(self, node: ast.AST, moment: TracedLine) -> list[_SatisfiedTest]:
        """Return the tests of the innermost `if` around a statement, including preceding `elif`s."""
        while not isinstance(node, ast.FunctionDef):
            parent = self._source.parents.get(node)
            if parent is None:
                return []
            if isinstance(parent, ast.match_case):
                match = self._source.parents[parent]
                assert isinstance(match, ast.Match)
                return [_SatisfiedTest(f"{ast.unparse(match.subject)} is {ast.unparse(parent.pattern)}", moment)]
            if isinstance(parent, ast.If):
                tested = self._moment(parent.lineno, len(self._call.moments))
                if node in parent.body:
                    return [_SatisfiedTest(parent.test, tested), *self._before(parent, tested)]
                return [*self._before(parent, tested), _SatisfiedTest(negation(parent.test), tested)]
            node = parent
        return []

    def _moment(self, line: int, before: int) -> TracedLine:
        """Return the last traced moment of a line's statement, among the first `before` moments."""
        statement = self._source.at(line)
        for moment in reversed(self._call.moments[:before]):
            if self._source.at(moment.line) is statement:
                return moment
        return TracedLine(line, {})

    def _guard(self, conditions: list[_SatisfiedTest], line: int) -> EndingGuard:
        texts = [c.test if isinstance(c.test, str) else ast.unparse(c.test) for c in conditions]
        tests = [(c.test, c.moment) for c in conditions if not isinstance(c.test, str)]
        values = list(dict.fromkeys(value for test, moment in tests for value in self._values(test, moment)))
        text = " and ".join(f"({t})" if len(texts) > 1 and " or " in t else t for t in texts)
        return EndingGuard(text + (f" ({', '.join(values)})" if values else ""), self._call.code.co_filename, line)

    def _values(self, test: ast.expr, moment: TracedLine) -> Iterator[str]:
        """Yield `source = value` for the names and calls in a test, and for the results of these calls."""
        yield from value_equations_in(test, moment.names)
        statement = self._source.at(moment.line)
        for node in ast.walk(test):
            if not isinstance(node, ast.Call):
                continue
            inner = [call for line, call in self._call.inner if self._source.at(line) is statement]
            call = next((call for call in reversed(inner) if call.code.co_name == called_name(node)), None)
            if call is None:
                continue
            if type(call.result) is not bool:
                yield from value_equation(node, call.result)
            if not list(value_equations_in(node, moment.names)):  # the arguments do not explain the result
                source = source_of_function(call.code)
                yield from _GuardFinder(call, source).returned() if source is not None else ()

    def returned(self) -> Iterator[str]:
        """Yield texts such as `in f: x = 1`, which explain the value that the traced call returned."""
        statement = self._source.at(self._call.end)
        if not isinstance(statement, ast.Return) or statement.value is None or not self._call.moments:
            return
        moment = self._call.moments[-1]
        found = list(value_equations_in(statement.value, moment.names))
        if not found:
            around = self._around(statement, moment)
            found = [
                v for c in around if not isinstance(c.test, str) for v in value_equations_in(c.test, c.moment.names)
            ]
        yield from (f"in {self._call.code.co_name}: {value}" for value in found)


def _is_line_within(line: int | None, statements: list[ast.stmt]) -> bool:
    if line is None or not statements:
        return False
    return statements[0].lineno <= line <= (statements[-1].end_lineno or 0)


MAX_SHOWN_PARTS = 4
"""Maximum number of parts to show."""
MAX_TEST_LENGTH = 200
"""Maximum length of a part."""


def why_property_is_false(function: Callable[..., Any], *arguments: Any) -> tuple[str, ...]:
    """Return the false parts of a property's result, with their values."""
    code = function.__code__
    _, call = trace_call(code, lambda: function(*arguments))
    source = source_of_function(code)
    statement = None if source is None else source.at(call.end)
    if not isinstance(statement, ast.Return) or statement.value is None or not call.moments:
        return ()
    if isinstance(statement.value, ast.Constant):
        guard = find_ending_guard(call)
        return (f"true: {guard.text}",) if guard.text else ()
    return _first_false_part_texts(statement.value, function.__globals__, call.moments[-1].names)


def why_assertion_failed(error: BaseException, place: tuple[str, int]) -> tuple[str, ...]:
    """Return the false parts of the test of a failed `assert`, with their values."""
    module, traceback = syntax_tree(place[0]), error.__traceback__
    for node in nodes_of_type(module, ast.Assert) if module is not None else ():
        if node.lineno <= place[1] <= (node.end_lineno or node.lineno):
            while traceback is not None:
                frame = traceback.tb_frame
                if (frame.f_code.co_filename, traceback.tb_lineno) == place:
                    return _first_false_part_texts(node.test, frame.f_globals, frame.f_locals)
                traceback = traceback.tb_next
    return ()


def _first_false_part_texts(test: ast.expr, outer: LocalVariables, names: LocalVariables) -> tuple[str, ...]:
    found = [f"false: {part}" for part in dict.fromkeys(false_part_texts(test, names, outer))]
    return (*found[:MAX_SHOWN_PARTS], *(["..."] if len(found) > MAX_SHOWN_PARTS else []))


def false_part_texts(test: ast.expr, names: LocalVariables, outer: LocalVariables) -> Iterator[str]:
    """Yield the innermost false parts that make an expression false, with their values."""
    try:
        inner = list(_inner_false_parts(test, _ExpressionEvaluator(outer | names)))
    except Exception:  # evaluation raised an exception: the expression is not pure
        inner = []
    if inner:
        for part, more in inner:
            yield from false_part_texts(part, names | more, outer)
        return
    values = ", ".join(dict.fromkeys(value_equations_in(test, names)))
    yield truncate_text(ast.unparse(test), MAX_TEST_LENGTH) + (
        f"  ({truncate_text(values, MAX_TEST_LENGTH)})" if values else ""
    )


class _ExpressionEvaluator:
    """Evaluator of expressions in a namespace."""

    def __init__(self, names: LocalVariables) -> None:
        self._names = names

    def value(self, node: ast.expr) -> Any:
        expression = ast.fix_missing_locations(ast.Expression(node))
        return eval(compile(expression, "<property>", "eval"), dict(self._names))


def _inner_false_parts(test: ast.expr, scope: _ExpressionEvaluator) -> Iterator[tuple[ast.expr, LocalVariables]]:
    """Yield the parts that make an expression false, with their bound names; none if it is atomic."""
    match test:
        case ast.BoolOp(op=op, values=parts):
            false = [(part, LocalVariables()) for part in parts if not scope.value(part)]
            yield from false[:1] if isinstance(op, ast.And) else false
        case ast.UnaryOp(op=ast.Not(), operand=ast.BoolOp(op=ast.Or(), values=parts)):
            yield negation(next(part for part in parts if scope.value(part))), {}
        case ast.UnaryOp(op=ast.Not(), operand=ast.Call() as call):
            yield from (
                (negation(part), more)
                for part, more in _deciding_elements_of_quantifier(call, "any", scope, wanted=True)
            )
        case ast.IfExp():
            yield (test.body if scope.value(test.test) else test.orelse), {}
        case ast.Compare(ops=[_, _, *_]):
            yield next(pair for pair in _comparisons_in_chain(test) if not scope.value(pair)), {}
        case ast.Call():
            yield from _deciding_elements_of_quantifier(test, "all", scope, wanted=False)


def _comparisons_in_chain(test: ast.Compare) -> list[ast.expr]:
    """Return the comparisons of a chain, such as `a < b` and `b < c`."""
    terms = pairwise([test.left, *test.comparators])
    return [ast.Compare(a, [op], [b]) for (a, b), op in zip(terms, test.ops, strict=True)]


def _deciding_elements_of_quantifier(
    call: ast.Call, name: str, scope: _ExpressionEvaluator, *, wanted: bool
) -> Iterator[tuple[ast.expr, LocalVariables]]:
    """Yield the element expression of `all(... for ...)` or `any(... for ...)`, with the bindings that decide it."""
    is_it = isinstance(call.func, ast.Name) and call.func.id == name and len(call.args) == 1
    found = call.args[0] if is_it else None
    if not isinstance(found, ast.GeneratorExp | ast.ListComp):
        return
    bound = [node.id for each in found.generators for node in ast.walk(each.target) if isinstance(node, ast.Name)]
    names = ast.Dict([ast.Constant(one) for one in bound], [ast.Name(one, ast.Load()) for one in bound])
    test = found.elt if wanted else ast.UnaryOp(ast.Not(), found.elt)
    *outer, last = found.generators
    last = ast.comprehension(last.target, last.iter, [*last.ifs, test], last.is_async)
    chosen = next(scope.value(ast.GeneratorExp(names, [*outer, last])), None)
    if chosen is not None:
        yield found.elt, chosen

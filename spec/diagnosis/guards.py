"""Which condition of a method said no: the lines that ran, and the tests that they passed.

A handler that yields nothing says why by the `return` at which it stopped, or by the end that it reached. This
module runs it under a trace function, finds that line, and reads in its source the conditions that led there.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from inspect import CO_GENERATOR
from itertools import pairwise
from types import CodeType, FrameType
from typing import Any, NamedTuple, TypeVar

from kraftcheck.spec.display import cut, text_of
from kraftcheck.spec.values import Map, ModelValue, Record, Symbol

T = TypeVar("T")
SHOWN = 80  # characters of a value
ITERATIONS = 4  # of a loop that are told apart
VALUES = (bool, int, str, ModelValue, tuple, frozenset, Symbol, Record, Map)
FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.Is: ast.IsNot,
    ast.In: ast.NotIn,
    ast.Lt: ast.GtE,
    ast.Gt: ast.LtE,
}
FLIPPED |= {other: one for one, other in FLIPPED.items()}
Names = dict[str, Any]


class Guard(NamedTuple):
    """Where a method stopped, and why.

    Attributes
    ----------
    text
        The condition that held, with the values in it; empty where there is none, or the source is not there.
    file, line
        The place.
    """

    text: str
    file: str
    line: int


class Moment(NamedTuple):
    """A line about to run, and the local variables at that time."""

    line: int
    names: Names


class Run:
    """What one call of a function did.

    Attributes
    ----------
    code
        The function's code.
    moments
        Its lines in the order in which they ran.
    ends
        The lines at which it yielded, and last the one at which it returned.
    result
        What it returned last.
    inner
        The calls that it made itself, in the order in which they began, with the line of each.
    """

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.moments: list[Moment] = []
        self.ends: list[int] = []
        self.result: object = None
        self.inner: list[tuple[int, Run]] = []

    @property
    def end(self) -> int:
        """The line at which it returned."""
        return self.ends[-1] if self.ends else self.code.co_firstlineno


def run_traced(code: CodeType, call: Callable[[], T]) -> tuple[T, Run]:
    """Make a call, and note what the function of the given code did in it.

    Parameters
    ----------
    code
        The code of the function, which the call calls.
    call
        The call. A trace function that was set before is back in place after it.

    Returns
    -------
    tuple
        What the call returned, and the run of the function (of its first frame).
    """
    run = Run(code)
    runs: dict[FrameType, Run] = {}

    def begin(frame: FrameType, event: str, argument: object) -> Any:
        if frame not in runs:
            caller = runs.get(frame.f_back) if frame.f_back is not None else None
            if frame.f_code is code and run not in runs.values():
                runs[frame] = run
            elif caller is not None and _is_followed(caller, run) and not frame.f_code.co_name.startswith("<"):
                runs[frame] = Run(frame.f_code)
                assert frame.f_back is not None
                caller.inner.append((frame.f_back.f_lineno, runs[frame]))
            elif frame.f_code.co_flags & CO_GENERATOR and _was_returned(frame.f_code, run):
                runs[frame] = Run(frame.f_code)  # a handler may return the generator that another method makes
                run.inner.append((run.end, runs[frame]))
            else:
                return None
        return note

    def note(frame: FrameType, event: str, argument: object) -> Any:
        if event == "line":
            runs[frame].moments.append(Moment(frame.f_lineno, dict(frame.f_locals)))
        elif event == "return":
            runs[frame].ends.append(frame.f_lineno)
            runs[frame].result = argument
        return note

    before = sys.gettrace()
    sys.settrace(begin)
    try:
        result = call()
    finally:
        sys.settrace(before)
    return result, run


def _is_followed(caller: Run, run: Run) -> bool:
    """Whether the calls of a run are noted: the function's own, and those of the generators that it passes on."""
    return caller is run or bool(caller.code.co_flags & CO_GENERATOR)


def _was_returned(code: CodeType, run: Run) -> bool:
    return bool(run.ends) and not run.code.co_flags & CO_GENERATOR and code.co_name in run.code.co_names


def guard_of(run: Run) -> Guard:
    """Return where a run ended without a step, and the conditions that led there."""
    source = _function(run.code)
    if source is None:
        return Guard("", run.code.co_filename, run.end)
    return _Reader(run, source).guard()


@lru_cache(maxsize=256)
def _module(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def _function(code: CodeType) -> ast.FunctionDef | None:
    """Return the definition of a function, or None where its source is not there."""
    linecache.checkcache(code.co_filename)
    module = _module("".join(linecache.getlines(code.co_filename)))
    for node in ast.walk(module) if module is not None else ():
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *[decorator.lineno for decorator in node.decorator_list]])
            if first == code.co_firstlineno:
                return node
    return None


class _Condition(NamedTuple):
    """A test that came out true (as it is written here), and the local variables that it saw."""

    test: ast.expr | str
    moment: Moment


class _Reader:
    """Reads in the source of a function why one run of it ended as it did."""

    def __init__(self, run: Run, source: ast.FunctionDef) -> None:
        self._run = run
        self._parents: dict[ast.AST, ast.AST] = {}
        self._statements: list[ast.stmt] = []
        self._visit(source)

    def _visit(self, node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            self._parents[child] = node
            if isinstance(child, ast.stmt):
                self._statements.append(child)
            if not isinstance(child, ast.FunctionDef | ast.Lambda):
                self._visit(child)

    def guard(self) -> Guard:
        line = self._run.end
        statement = self._at(line)
        delegate = self._delegate(statement)
        if delegate is not None:
            return guard_of(delegate)
        if isinstance(statement, ast.Return):
            return self._guard(self._around(statement, self._moment(line, len(self._run.moments))), line)
        moments = self._run.moments
        if isinstance(statement, ast.For | ast.While):
            return self._after_loop(statement, line)
        last = self._last_decision(0, len(moments))
        return self._guard(*last) if last is not None else Guard("", self._run.code.co_filename, line)

    def _delegate(self, statement: ast.stmt | None) -> Run | None:
        """Return the run of the generator that said no in the function's place, if the function only passes on."""
        if statement is None:
            return None
        source: ast.expr | None = None
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.YieldFrom):
            source = statement.value.value
        elif isinstance(statement, ast.Return):
            source = statement.value
        elif isinstance(statement, ast.For):
            source = statement.iter
        if not isinstance(source, ast.Call):
            return None
        name = _called(source)
        inner = [run for _, run in self._run.inner if run.code.co_flags & CO_GENERATOR and run.code.co_name == name]
        return inner[-1] if inner and len(inner[-1].ends) == 1 else None

    def _after_loop(self, loop: ast.For | ast.While, line: int) -> Guard:
        """Say why no turn of a loop yielded a step: what was decided last in each."""
        moments = self._run.moments
        heads = [n for n, moment in enumerate(moments) if self._at(moment.line) is loop]
        starts = [*heads, len(moments)]
        decisions = [self._last_decision(a + 1, b) for a, b in pairwise(starts)]
        found = [decision for decision in decisions if decision is not None]
        if not found and isinstance(loop, ast.For) and len(moments) - 1 == (heads or [0])[-1] and len(heads) == 1:
            condition = _Condition(f"{ast.unparse(loop.iter)} is empty", moments[heads[0]])
            return self._guard([condition, *self._around(loop, moments[heads[0]])], line)
        texts = dict.fromkeys(self._guard(*decision).text for decision in found)
        shown_texts = [*list(texts)[:ITERATIONS], *(["..."] if len(texts) > ITERATIONS else [])]
        lines = [decision[1] for decision in found]
        return Guard("; ".join(shown_texts), self._run.code.co_filename, lines[-1] if lines else line)

    def _last_decision(self, first: int, after: int) -> tuple[list[_Condition], int] | None:
        """Return what was decided last between two moments: the conditions, and the line."""
        moments = self._run.moments
        for number in range(after - 1, first - 1, -1):
            moment = moments[number]
            statement = self._at(moment.line)
            if isinstance(statement, ast.Continue | ast.Break | ast.Pass):
                return self._around(statement, moment), moment.line
            if isinstance(statement, ast.If):
                following = moments[number + 1].line if number + 1 < len(moments) else None
                if following is not None and any(s.lineno <= following <= (s.end_lineno or 0) for s in statement.body):
                    continue
                if not (statement.orelse and following is not None and self._within(following, statement.orelse)):
                    return [_Condition(_negated(statement.test), moment), *self._before(statement, moment)], moment.line
        return None

    def _within(self, line: int, statements: list[ast.stmt]) -> bool:
        return statements[0].lineno <= line <= (statements[-1].end_lineno or 0)

    def _before(self, statement: ast.If, moment: Moment) -> list[_Condition]:
        """Return the tests that came out false before an `elif` was reached."""
        parent = self._parents[statement]
        if isinstance(parent, ast.If) and statement in parent.orelse:
            return self._around(statement, moment)
        return []

    def _around(self, node: ast.AST, moment: Moment) -> list[_Condition]:
        """Return the tests that led to a statement: those of the innermost `if`, with the `elif`s before it."""
        while not isinstance(node, ast.FunctionDef):
            parent = self._parents.get(node)
            if parent is None:
                return []
            if isinstance(parent, ast.match_case):
                match = self._parents[parent]
                assert isinstance(match, ast.Match)
                return [_Condition(f"{ast.unparse(match.subject)} is {ast.unparse(parent.pattern)}", moment)]
            if isinstance(parent, ast.If):
                at = self._moment(parent.lineno, len(self._run.moments))
                if node in parent.body:
                    return [_Condition(parent.test, at), *self._before(parent, at)]
                return [*self._before(parent, at), _Condition(_negated(parent.test), at)]
            node = parent
        return []

    def _at(self, line: int) -> ast.stmt | None:
        """Return the innermost statement that a line belongs to."""
        found = [s for s in self._statements if s.lineno <= line <= (s.end_lineno or s.lineno)]
        return found[-1] if found else None

    def _moment(self, line: int, before: int) -> Moment:
        """Return the last moment, before one of the given number, at which the statement of a line ran."""
        statement = self._at(line)
        for moment in reversed(self._run.moments[:before]):
            if self._at(moment.line) is statement:
                return moment
        return Moment(line, {})

    def _guard(self, conditions: list[_Condition], line: int) -> Guard:
        texts = [c.test if isinstance(c.test, str) else ast.unparse(c.test) for c in conditions]
        values: dict[str, None] = {}
        for condition in conditions:
            if not isinstance(condition.test, str):
                values.update(dict.fromkeys(self._values(condition.test, condition.moment)))
        text = " and ".join(f"({t})" if len(texts) > 1 and " or " in t else t for t in texts)
        return Guard(text + (f" ({', '.join(values)})" if values else ""), self._run.code.co_filename, line)

    def _values(self, test: ast.expr, moment: Moment) -> Iterator[str]:
        """Yield `name = value` for what occurs in a test, and what the functions that it calls returned and why."""
        yield from _values(test, moment.names)
        for call in (node for node in ast.walk(test) if isinstance(node, ast.Call)):
            runs = [run for line, run in self._run.inner if self._at(line) is self._at(moment.line)]
            run = next((run for run in reversed(runs) if run.code.co_name == _called(call)), None)
            if run is None:
                continue
            if isinstance(run.result, VALUES) and type(run.result) is not bool:
                yield f"{ast.unparse(call)} = {cut(text_of(run.result), SHOWN)}"
            if not list(_values(call, moment.names)):  # the arguments do not show why
                source = _function(run.code)
                yield from _Reader(run, source).returned() if source is not None else ()

    def returned(self) -> Iterator[str]:
        """Yield the values on which a called function returned what it did."""
        statement = self._at(self._run.end)
        if not isinstance(statement, ast.Return) or statement.value is None or not self._run.moments:
            return
        moment = self._run.moments[-1]
        found = list(_values(statement.value, moment.names))
        if not found:
            around = self._around(statement, moment)
            found = [v for c in around if not isinstance(c.test, str) for v in _values(c.test, c.moment.names)]
        yield from (f"in {self._run.code.co_name}: {value}" for value in found)


def _called(call: ast.Call) -> str | None:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)


def _negated(test: ast.expr) -> ast.expr:
    """Return the test that holds where this one does not, as a person would write it."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return ast.Compare(test.left, [FLIPPED[type(test.ops[0])]()], test.comparators)
    return ast.UnaryOp(ast.Not(), test)


# The values in a test


def _values(test: ast.AST, names: Names) -> Iterator[str]:
    """Yield `name = value` for the longest names, attributes and subscripts in a test that have a value."""
    if isinstance(test, ast.Name | ast.Attribute | ast.Subscript | ast.Call):
        try:
            value = _value(test, names)
        except (LookupError, AttributeError, TypeError):
            pass
        else:
            if isinstance(value, VALUES) and not (isinstance(test, ast.Name) and isinstance(value, Record)):
                yield f"{ast.unparse(test)} = {cut(text_of(value), SHOWN)}"
            if isinstance(test, ast.Subscript):
                yield from _values(test.slice, names)
            return
    if isinstance(test, ast.Call) and _called(test) == "isinstance" and isinstance(test.args[0], ast.Name):
        yield f"{test.args[0].id} is a {type(names.get(test.args[0].id)).__name__}"
    for child in ast.iter_child_nodes(test):
        if not (isinstance(test, ast.Call) and child is test.func):
            yield from _values(child, names)
        elif isinstance(child, ast.Attribute):
            yield from _values(child.value, names)  # what a method is called on


def _value(node: ast.AST, names: Names) -> Any:
    """Return the value of a name, attribute, subscript or length; nothing is called but `len`."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return names[node.id]
    if isinstance(node, ast.Attribute):
        return getattr(_value(node.value, names), node.attr)
    if isinstance(node, ast.Subscript):
        return _value(node.value, names)[_value(node.slice, names)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        left, right = _value(node.left, names), _value(node.right, names)
        return left + right if isinstance(node.op, ast.Add) else left - right
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len" and len(node.args) == 1:
        return len(_value(node.args[0], names))
    raise LookupError(ast.dump(node))

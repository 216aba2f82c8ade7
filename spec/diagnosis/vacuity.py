"""Notes which parts of a property a search never evaluates: what holds because nothing was there to break it.

A property is called through a copy of its function in which marks stand: at each statement behind a condition, at the
operands of `and` and `or` but the first, at the branches of a conditional expression and the elements of a
comprehension. A mark that was met is taken out again, so that what is evaluated often costs nothing.

Source: I. Beer, S. Ben-David, C. Eisner, Y. Rodeh, "Efficient Detection of Vacuity in ACTL Formulas" (1997).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from pickle import dumps, loads
from typing import Any, NamedTuple

from kraftcheck.spec.diagnosis.source import definition_of, recompiled
from kraftcheck.spec.errors import ProtocolError, unknown
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.values import cut, text_of

SHOWN = 80
"""The most characters of a part that are shown."""
NAMED = 2
"""Parts of properties that a note names."""
ALWAYS = ("return False", "return True")
"""Parts that say no more than the conditions before them."""
_SEEN = "__seen__"


class Part(NamedTuple):
    """A part of a property that a condition decides on: its line, its text, and whether it is what the property claims.

    That is its last statement; in this an operand of `or` behind negations, "not this or that", and the elements of a
    comprehension. An operand behind a comparison may be an exemption that nothing needs. The elements of comprehensions
    before that are what it claims something of.
    """

    line: int
    text: str
    is_claim: bool
    is_element: bool = False


class Vacuity(NamedTuple):
    """What nothing made worth checking."""

    property: str  # the property's name
    reason: str  # why, as a clause


class Watch:
    """Is called instead of a property, and notes what is never evaluated."""

    def __init__(self, prop: Property) -> None:
        self.calls = self.before = self.elements = 0
        self.prop = prop
        self._function: Callable[..., Any] = prop.function
        self._open: dict[int, Part] = {}
        self._met: set[int] = set()
        definition = definition_of(prop.function.__code__)
        if definition is not None:
            self._definition = dumps(definition)  # of which a copy is quickly made
            self._open = self._mark(set())
            self.elements = sum(part.is_element for part in self._open.values())

    def __call__(self, *arguments: Any) -> Any:
        """Call the property."""
        self.calls += 1
        if self._met and not self.calls & (self.calls - 1):  # now and then: at each power of two
            self._rebuild()
        return self._function(*arguments)

    @property
    def inputs(self) -> int:
        """On how many distinct inputs it was called, at least: a resumed search evaluates some of them again."""
        return max(self.calls, self.before)

    @property
    def noted(self) -> list[Any]:
        """What a checkpoint keeps: the number of inputs, and the parts that were never evaluated."""
        return [self.inputs, [number for number in self._open if number not in self._met]]

    def restore(self, noted: Any) -> bool:
        """Go on from what a checkpoint kept; return whether it can be of this property."""
        match noted:
            case [int(inputs), list(numbers)] if all(type(one) is int and one in self._open for one in numbers):
                self.before = inputs
                self._met.update(self._open.keys() - numbers)
                self._rebuild()
                return True
        return False

    def never(self) -> list[Part]:
        """Return the parts that were never evaluated."""
        return [part for number, part in self._open.items() if number not in self._met]

    def unmet_claims(self) -> list[Part]:
        """Return what it claims and was never evaluated: where that is nothing, its elements if none of them was."""
        never = self.never()
        elements = [part for part in never if part.is_element]
        return [part for part in never if part.is_claim] or (elements if len(elements) == self.elements else [])

    def _rebuild(self) -> None:
        """Take out the marks that were met."""
        self._open = {number: part for number, part in self._open.items() if number not in self._met}
        self._met.clear()
        self._function = self.prop.function
        if self._open:
            self._mark(set(self._open))

    def _mark(self, wanted: set[int]) -> dict[int, Part]:
        """Put in the marks of these numbers, or all; return the parts that may have one."""
        definition, marker = loads(self._definition), _Marker(wanted)
        marker.mark(definition)
        if marker.parts:
            self._function = recompiled(self.prop.function, definition, {_SEEN: self._met.add})
        return marker.parts


class _Marker:
    """Puts marks into a definition: all, or those of the given numbers."""

    def __init__(self, wanted: set[int]) -> None:
        self.parts: dict[int, Part] = {}
        self._wanted = wanted

    def mark(self, definition: ast.FunctionDef) -> None:
        """Put the marks into a definition."""
        definition.decorator_list = []
        self.last = definition.body[-1]
        definition.body = self._block(definition.body, inner=False)
        ast.fix_missing_locations(definition)

    def _call(self, node: ast.AST, text: str, *, is_claim: bool, is_element: bool = False) -> ast.Call | None:
        number = len(self.parts)
        self.parts[number] = Part(getattr(node, "lineno", 0), cut(text, SHOWN), is_claim, is_element)
        if self._wanted and number not in self._wanted:
            return None
        return ast.copy_location(ast.Call(ast.Name(_SEEN, ast.Load()), [ast.Constant(number)], []), node)

    def _block(self, statements: list[ast.stmt], *, inner: bool) -> list[ast.stmt]:
        """Return a block with a mark where a condition has decided that it goes on."""
        found: list[ast.stmt] = []
        behind = inner
        for statement in statements:
            text = ast.unparse(statement).splitlines()[0]
            is_claim = statement is self.last and text not in ("return True", "return False")
            call = self._call(statement, text, is_claim=is_claim) if behind else None
            if call is not None:
                found.append(ast.copy_location(ast.Expr(call), statement))
            behind = isinstance(statement, ast.If | ast.For | ast.While | ast.Match | ast.Try)
            found.append(self._statement(statement))
        return found

    def _statement(self, statement: ast.stmt) -> ast.stmt:
        for name in ("body", "orelse", "finalbody"):
            block = getattr(statement, name, None)
            if block:
                setattr(statement, name, self._block(block, inner=True))
        for case in getattr(statement, "cases", ()):
            case.body = self._block(case.body, inner=True)
        _Expressions(self, statement).visit_own(statement)
        return statement

    def expression(self, node: ast.expr, text: str, *, is_claim: bool = False, is_element: bool = False) -> ast.expr:
        """Return an expression with a mark before it."""
        call = self._call(node, text, is_claim=is_claim, is_element=is_element)
        return node if call is None else ast.copy_location(ast.BoolOp(ast.Or(), [call, node]), node)


class _Expressions(ast.NodeTransformer):
    """Puts marks into the expressions of a statement."""

    def __init__(self, marker: _Marker, statement: ast.stmt) -> None:
        self._marker = marker
        self._is_last = statement is marker.last

    def visit_own(self, statement: ast.stmt) -> None:
        for field, value in ast.iter_fields(statement):
            if isinstance(value, ast.expr):
                setattr(statement, field, self.visit(value))

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        texts = [ast.unparse(value) for value in node.values]
        negated = [_is_negation(value) for value in node.values]
        found = [self.visit(value) for value in node.values]
        for place in range(1, len(found)):
            is_last = place == len(found) - 1 and isinstance(node.op, ast.Or)
            is_claim = self._is_last and is_last and all(negated[:place])
            found[place] = self._marker.expression(found[place], texts[place], is_claim=is_claim)
        node.values = found
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        texts = [ast.unparse(branch) for branch in (node.body, node.orelse)]
        self.generic_visit(node)
        node.body = self._marker.expression(node.body, texts[0])
        node.orelse = self._marker.expression(node.orelse, texts[1])
        return node

    def _element(self, node: Any) -> ast.expr:
        text = ast.unparse(node.elt)
        self.generic_visit(node)
        node.elt = self._marker.expression(node.elt, text, is_claim=self._is_last, is_element=True)
        return node  # type: ignore[no-any-return]

    def visit_DictComp(self, node: ast.DictComp) -> ast.expr:
        text = ast.unparse(node.value)
        self.generic_visit(node)
        node.value = self._marker.expression(node.value, text, is_claim=self._is_last, is_element=True)
        return node

    visit_GeneratorExp = visit_ListComp = visit_SetComp = _element  # noqa: N815 - named after the nodes


def _is_negation(node: ast.expr) -> bool:
    """Whether an expression says that something is not so."""
    if isinstance(node, ast.Compare):
        return all(isinstance(op, ast.IsNot | ast.NotEq | ast.NotIn) for op in node.ops)
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def watch(protocol: Protocol, properties: Iterable[Property]) -> list[Watch]:
    """Have a protocol's properties watched from now on, and return what watches them."""
    found = [Watch(prop) for prop in properties]
    for one in found:
        for name in one.prop.needs:
            if name not in protocol.constants:
                message = unknown("constant", name, protocol.constants, protocol.name())
                raise ProtocolError(f"property {one.prop.name}, needs=: {message}")
    protocol.probes.update({one.prop.name: one for one in found})
    return found


def noted(protocol: Protocol) -> dict[str, Any]:
    """Return what a checkpoint keeps of a protocol's properties that are watched."""
    return {name: probe.noted for name, probe in protocol.probes.items() if isinstance(probe, Watch)}


def restore(protocol: Protocol, kept: object) -> None:
    """Go on from what a checkpoint kept; watch no longer what it kept nothing of, since that is unknown now."""
    known = kept if isinstance(kept, dict) else {}
    for name, probe in list(protocol.probes.items()):
        if isinstance(probe, Watch) and not probe.restore(known.get(name)):
            del protocol.probes[name]


def vacuous(protocol: Protocol, watched: Iterable[Watch]) -> list[Vacuity]:
    """Return the properties that nothing made worth checking, after a search."""
    reasons = [(one.prop.name, _reason(protocol, one)) for one in watched]
    return [Vacuity(name, reason) for name, reason in reasons if reason is not None]


def unmet(watched: Iterable[Watch], told: Collection[str]) -> Iterator[str]:
    """Yield a note that names the first parts which a whole search never evaluated, of properties not told yet."""
    found = [
        f"`{part.text}` of {one.prop.name} ({Path(one.prop.function.__code__.co_filename).name}:{part.line})"
        for one in watched
        for part in one.never()
        if one.prop.name not in told and part.text not in ALWAYS
    ]
    if found:
        more = f"; {len(found) - NAMED} more, which --json lists" if len(found) > NAMED else ""
        yield f"never evaluated: {', '.join(found[:NAMED])}{more}"


def _reason(protocol: Protocol, watched: Watch) -> str | None:
    prop = watched.prop
    constants = protocol.constant_values()
    lacking = next((name for name in prop.needs if not constants[name]), None)
    if lacking is not None:
        return f"it needs {lacking}, which is {text_of(constants[lacking])} here"
    if not watched.inputs:
        return f"it was never evaluated: there was no {' with a '.join(name for name in prop.asks if name != 'shared')}"
    if watched.inputs == 1 and prop.asks:
        return "all that it reads was always the same"
    claims = watched.unmet_claims()
    if not claims:
        return None
    part = max(claims, key=lambda part: (part.text.startswith("return"), part.line))
    file = Path(prop.function.__code__.co_filename).name
    return f"`{part.text}` was never evaluated ({file}:{part.line})"

"""Vacuity detection: parts of properties that a search never evaluates.

A property is called through an instrumented copy of its function. Probes precede statements after a condition, the
later operands of `and` and `or`, branches of conditional expressions and elements of comprehensions. A probe that fired
is removed, so frequent evaluations cost nothing.

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
from kraftcheck.spec.language.declarations import REFINES, Property
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.values import cut, text_of

SHOWN = 80
"""Maximum length of a part's text."""
NAMED = 2
"""Maximum number of parts in a note."""
ALWAYS = ("return False", "return True")
"""Parts that add nothing to their conditions."""
SEEN = "__seen__"
"""The name of the function that a probe calls with its number."""


class Part(NamedTuple):
    """A conditional part of a property: its line, its text, and whether it is the property's claim.

    The claim is the last statement, an operand of `or` after negations in it, or the elements of a comprehension in it.
    An operand after a comparison is no claim: it may be an exemption that the model never uses. Elements of earlier
    comprehensions are the subjects of the claim.
    """

    line: int
    text: str
    is_claim: bool
    is_element: bool = False


class Vacuity(NamedTuple):
    """A property that holds vacuously."""

    property: str  # the property's name
    reason: str  # the reason, as a clause


class Watch:
    """Coverage probe of a property, called in its place."""

    def __init__(self, prop: Property) -> None:
        self.calls = self.before = self.elements = 0
        self.prop = prop
        self._function: Callable[..., Any] = prop.function
        self._open: dict[int, Part] = {}
        self._met: set[int] = set()
        definition = definition_of(prop.function.__code__)
        if definition is not None:
            self._definition = dumps(definition)  # pickled, since copying a tree is slower
            self._open = self._mark(set())
            self.elements = sum(part.is_element for part in self._open.values())

    def __call__(self, *arguments: Any) -> Any:
        """Call the property."""
        self.calls += 1
        if self._met and not self.calls & (self.calls - 1):  # at each power of two
            self._rebuild()
        return self._function(*arguments)

    @property
    def definition(self) -> ast.FunctionDef | None:
        """The definition with a call of `__seen__` at each probe, for an engine that translates it."""
        definition = None if definition_of(self.prop.function.__code__) is None else loads(self._definition)
        if definition is not None:
            _Marker(set(self._open)).mark(definition)
        return definition

    def note(self, inputs: int, met: Collection[int]) -> None:
        """Note what another engine evaluated: a lower bound on the distinct inputs, and the numbers of probes."""
        self.calls = max(self.calls, inputs)
        self._met.update(self._open.keys() & met)
        self._rebuild()

    @property
    def inputs(self) -> int:
        """A lower bound on the number of distinct inputs: a resumed search evaluates some inputs again."""
        return max(self.calls, self.before)

    @property
    def noted(self) -> list[Any]:
        """The checkpoint data: the number of inputs, and the unevaluated parts."""
        return [self.inputs, [number for number in self._open if number not in self._met]]

    def restore(self, noted: Any) -> bool:
        """Restore checkpoint data; return whether it fits this property."""
        match noted:
            case [int(inputs), list(numbers)] if all(type(one) is int and one in self._open for one in numbers):
                self.before = inputs
                self._met.update(self._open.keys() - numbers)
                self._rebuild()
                return True
        return False

    def never(self) -> list[Part]:
        """Return the parts of the property that were never evaluated."""
        return [part for number, part in self._open.items() if number not in self._met]

    def unmet_claims(self) -> list[Part]:
        """Return the unevaluated claims; without claims, the elements if none was evaluated."""
        never = self.never()
        elements = [part for part in never if part.is_element]
        return [part for part in never if part.is_claim] or (elements if len(elements) == self.elements else [])

    def _rebuild(self) -> None:
        """Remove the probes that fired."""
        self._open = {number: part for number, part in self._open.items() if number not in self._met}
        self._met.clear()
        self._function = self.prop.function
        if self._open:
            self._mark(set(self._open))

    def _mark(self, wanted: set[int]) -> dict[int, Part]:
        """Insert the probes of the given numbers, or all; return the parts that may have one."""
        definition, marker = loads(self._definition), _Marker(wanted)
        marker.mark(definition)
        if marker.parts:
            self._function = recompiled(self.prop.function, definition, {SEEN: self._met.add})
        return marker.parts


class _Marker:
    """Inserter of probes into a definition: all probes, or only the given numbers."""

    def __init__(self, wanted: set[int]) -> None:
        self.parts: dict[int, Part] = {}
        self._wanted = wanted

    def mark(self, definition: ast.FunctionDef) -> None:
        """Insert the probes into a definition."""
        definition.decorator_list = []
        self.last = definition.body[-1]
        definition.body = self._block(definition.body, inner=False)
        ast.fix_missing_locations(definition)

    def _call(self, node: ast.AST, text: str, *, is_claim: bool, is_element: bool = False) -> ast.Call | None:
        number = len(self.parts)
        self.parts[number] = Part(getattr(node, "lineno", 0), cut(text, SHOWN), is_claim, is_element)
        if self._wanted and number not in self._wanted:
            return None
        return ast.copy_location(ast.Call(ast.Name(SEEN, ast.Load()), [ast.Constant(number)], []), node)

    def _block(self, statements: list[ast.stmt], *, inner: bool) -> list[ast.stmt]:
        """Return a block with probes after its conditions."""
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
        """Return an expression with a probe before it."""
        call = self._call(node, text, is_claim=is_claim, is_element=is_element)
        return node if call is None else ast.copy_location(ast.BoolOp(ast.Or(), [call, node]), node)


class _Expressions(ast.NodeTransformer):
    """Inserter of probes into the expressions of a statement."""

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
    """Whether an expression is a negation."""
    if isinstance(node, ast.Compare):
        return all(isinstance(op, ast.IsNot | ast.NotEq | ast.NotIn) for op in node.ops)
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def watch(protocol: Protocol, properties: Iterable[Property]) -> list[Watch]:
    """Install coverage probes on a protocol's properties, except refinements, and return them."""
    found = [Watch(prop) for prop in properties if prop.kind != REFINES]
    for one in found:
        for name in one.prop.needs:
            if name not in protocol.constants:
                message = unknown("constant", name, protocol.constants, protocol.name())
                raise ProtocolError(f"property {one.prop.name}, needs=: {message}")
    protocol.probes.update({one.prop.name: one for one in found})
    return found


def noted(protocol: Protocol) -> dict[str, Any]:
    """Return the checkpoint data of a protocol's coverage probes."""
    return {name: probe.noted for name, probe in protocol.probes.items() if isinstance(probe, Watch)}


def restore(protocol: Protocol, kept: object) -> None:
    """Restore the checkpoint data of coverage probes; remove probes without data, whose coverage is unknown."""
    known = kept if isinstance(kept, dict) else {}
    for name, probe in list(protocol.probes.items()):
        if isinstance(probe, Watch) and not probe.restore(known.get(name)):
            del protocol.probes[name]


def vacuous(protocol: Protocol, watched: Iterable[Watch]) -> list[Vacuity]:
    """Return the vacuous properties after a search."""
    reasons = [(one.prop.name, _reason(protocol, one)) for one in watched]
    return [Vacuity(name, reason) for name, reason in reasons if reason is not None]


def unmet(watched: Iterable[Watch], told: Collection[str]) -> Iterator[str]:
    """Yield a note on parts of properties that a complete search never evaluated; skip properties in `told`."""
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
        return "its inputs never changed"
    claims = watched.unmet_claims()
    if not claims:
        return None
    part = max(claims, key=lambda part: (part.text.startswith("return"), part.line))
    file = Path(prop.function.__code__.co_filename).name
    return f"`{part.text}` was never evaluated ({file}:{part.line})"

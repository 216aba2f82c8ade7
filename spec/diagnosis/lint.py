"""Warnings about a model: lint, and parts of properties that a search never evaluates (vacuity).

Lint finds unused declarations, unhandled messages, lost steps and comparisons of disjoint types. Certain mistakes raise
errors elsewhere (`language/semantics`, `language/protocol`). A warning names its file and line.

For vacuity a property is called through an instrumented copy of its function. Probes precede statements after a
condition, the later operands of `and` and `or`, branches of conditional expressions and elements of comprehensions. A
probe that fired is removed, so frequent evaluations cost nothing.

Source: I. Beer, S. Ben-David, C. Eisner, Y. Rodeh, "Efficient Detection of Vacuity in ACTL Formulas" (1997).
"""

from __future__ import annotations

import ast
import enum
import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from pickle import dumps, loads
from types import CodeType, FunctionType, ModuleType, NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from kraftcheck.spec.diagnosis.source import compile_definition, definition_of, nodes_of_type, syntax_tree
from kraftcheck.spec.discovery import project_modules_of_protocol, source_path
from kraftcheck.spec.errors import ProtocolError, nearest_known_names, unknown_name_message
from kraftcheck.spec.language.declarations import REFINES, Action, Property
from kraftcheck.spec.language.network import Network
from kraftcheck.spec.language.protocol import Constant, Protocol
from kraftcheck.spec.language.semantics import take
from kraftcheck.spec.language.state import Step, become, consume
from kraftcheck.spec.type_checks import describe_type
from kraftcheck.spec.values import (
    Map,
    ModelValue,
    Record,
    Value,
    field_names,
    field_types,
    is_enum,
    map_model_values,
    text_of,
    truncate_text,
)

MAX_PART_LENGTH = 80
"""Maximum length of a part's text."""
MAX_PARTS_IN_NOTE = 2
"""Maximum number of parts in a note."""
CONSTANT_RETURNS = ("return False", "return True")
"""Parts that add nothing to their conditions."""
PROBE_NAME = "__seen__"
"""The name of the function that a probe calls with its number."""


class ConditionalPropertyPart(NamedTuple):
    """A conditional part of a property: its line, its text, and whether it is the property's claim.

    The claim is the last statement, an operand of `or` after negations in it, or the elements of a comprehension in it.
    An operand after a comparison is no claim: it may be an exemption that the model never uses. Elements of earlier
    comprehensions are the subjects of the claim.
    """

    line: int
    text: str
    is_claim: bool
    is_element: bool = False


class VacuousProperty(NamedTuple):
    """A property that holds vacuously."""

    property: str  # the property's name
    reason: str  # the reason, as a clause


class PropertyCoverageProbe:
    """Coverage probe of a property, called in its place."""

    def __init__(self, prop: Property) -> None:
        self.calls = self.before = self.elements = 0
        self.prop = prop
        self._function: Callable[..., Any] = prop.function
        self._open: dict[int, ConditionalPropertyPart] = {}
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

    def observe(self, evaluate: Callable[[], object]) -> None:
        """Count an evaluation that was made without this probe; repeat it while some part has not been evaluated."""
        if self.never():
            evaluate()
        else:
            self.calls += 1

    @property
    def definition(self) -> ast.FunctionDef | None:
        """The definition with a call of `__seen__` at each probe, for an engine that translates it."""
        definition = None if definition_of(self.prop.function.__code__) is None else loads(self._definition)
        if definition is not None:
            _ProbeInserter(set(self._open)).mark(definition)
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

    def never(self) -> list[ConditionalPropertyPart]:
        """Return the parts of the property that were never evaluated."""
        return [part for number, part in self._open.items() if number not in self._met]

    def unmet_claims(self) -> list[ConditionalPropertyPart]:
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

    def _mark(self, wanted: set[int]) -> dict[int, ConditionalPropertyPart]:
        """Insert the probes of the given numbers, or all; return the parts that may have one."""
        definition, marker = loads(self._definition), _ProbeInserter(wanted)
        marker.mark(definition)
        if marker.parts:
            self._function = compile_definition(self.prop.function, definition, {PROBE_NAME: self._met.add})
        return marker.parts


class _ProbeInserter:
    """Inserter of probes into a definition: all probes, or only the given numbers."""

    def __init__(self, wanted: set[int]) -> None:
        self.parts: dict[int, ConditionalPropertyPart] = {}
        self._wanted = wanted

    def mark(self, definition: ast.FunctionDef) -> None:
        """Insert the probes into a definition."""
        definition.decorator_list = []
        self.last = definition.body[-1]
        definition.body = self._block(definition.body, inner=False)
        ast.fix_missing_locations(definition)

    def _call(self, node: ast.AST, text: str, *, is_claim: bool, is_element: bool = False) -> ast.Call | None:
        number = len(self.parts)
        line = getattr(node, "lineno", 0)
        self.parts[number] = ConditionalPropertyPart(line, truncate_text(text, MAX_PART_LENGTH), is_claim, is_element)
        if self._wanted and number not in self._wanted:
            return None
        return ast.copy_location(ast.Call(ast.Name(PROBE_NAME, ast.Load()), [ast.Constant(number)], []), node)

    def _block(self, statements: list[ast.stmt], *, inner: bool) -> list[ast.stmt]:
        """Return a block with probes after its conditions."""
        found: list[ast.stmt] = []
        behind = inner
        for statement in statements:
            text = ast.unparse(statement).splitlines()[0]
            is_claim = statement is self.last and text not in CONSTANT_RETURNS
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
        _ExpressionProbeInserter(self, statement).visit_own(statement)
        return statement

    def expression(self, node: ast.expr, text: str, *, is_claim: bool = False, is_element: bool = False) -> ast.expr:
        """Return an expression with a probe before it."""
        call = self._call(node, text, is_claim=is_claim, is_element=is_element)
        return node if call is None else ast.copy_location(ast.BoolOp(ast.Or(), [call, node]), node)


class _ExpressionProbeInserter(ast.NodeTransformer):
    """Inserter of probes into the expressions of a statement."""

    def __init__(self, marker: _ProbeInserter, statement: ast.stmt) -> None:
        self._marker = marker
        self._is_last = statement is marker.last

    def visit_own(self, statement: ast.stmt) -> None:
        for field, value in ast.iter_fields(statement):
            if isinstance(value, ast.expr):
                setattr(statement, field, self.visit(value))

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        texts = [ast.unparse(value) for value in node.values]
        negated = [_is_negation_or_negated_comparison(value) for value in node.values]
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
        node.body, node.orelse = map(self._marker.expression, (node.body, node.orelse), texts)
        return node

    def _element(self, node: Any) -> Any:
        name = "value" if isinstance(node, ast.DictComp) else "elt"
        text = ast.unparse(getattr(node, name))
        self.generic_visit(node)
        marked = self._marker.expression(getattr(node, name), text, is_claim=self._is_last, is_element=True)
        setattr(node, name, marked)
        return node

    visit_GeneratorExp = visit_ListComp = visit_SetComp = visit_DictComp = _element  # noqa: N815 - named after the nodes


def _is_negation_or_negated_comparison(node: ast.expr) -> bool:
    """Whether an expression is a negation."""
    if isinstance(node, ast.Compare):
        return all(isinstance(op, ast.IsNot | ast.NotEq | ast.NotIn) for op in node.ops)
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def install_coverage_probes(protocol: Protocol, properties: Iterable[Property]) -> list[PropertyCoverageProbe]:
    """Install coverage probes on a protocol's properties, except refinements, and return them."""
    found = [PropertyCoverageProbe(prop) for prop in properties if prop.kind != REFINES]
    for one in found:
        for name in one.prop.needs:
            if name not in protocol.constants:
                message = unknown_name_message("constant", name, protocol.constants, protocol.name())
                raise ProtocolError(f"property {one.prop.name}, needs=: {message}")
    protocol.probes.update({one.prop.name: one for one in found})
    return found


def checkpoint_data_of_probes(protocol: Protocol) -> dict[str, Any]:
    """Return the checkpoint data of a protocol's coverage probes."""
    return {name: probe.noted for name, probe in protocol.probes.items() if isinstance(probe, PropertyCoverageProbe)}


def restore_probe_checkpoint(protocol: Protocol, kept: object) -> None:
    """Restore the checkpoint data of coverage probes; remove probes without data, whose coverage is unknown."""
    known = kept if isinstance(kept, dict) else {}
    for name, probe in list(protocol.probes.items()):
        if isinstance(probe, PropertyCoverageProbe) and not probe.restore(known.get(name)):
            del protocol.probes[name]


def vacuous_properties(protocol: Protocol, watched: Iterable[PropertyCoverageProbe]) -> list[VacuousProperty]:
    """Return the vacuous properties after a search."""
    reasons = [(one.prop.name, _vacuity_reason(protocol, one)) for one in watched]
    return [VacuousProperty(name, reason) for name, reason in reasons if reason is not None]


def notes_on_unevaluated_parts(watched: Iterable[PropertyCoverageProbe], told: Collection[str]) -> Iterator[str]:
    """Yield a note on parts of properties that a complete search never evaluated; skip properties in `told`."""
    found = [
        f"`{part.text}` of {one.prop.name} ({Path(one.prop.function.__code__.co_filename).name}:{part.line})"
        for one in watched
        for part in one.never()
        if one.prop.name not in told and part.text not in CONSTANT_RETURNS
    ]
    if found:
        more = f"; {len(found) - MAX_PARTS_IN_NOTE} more, which --json lists" if len(found) > MAX_PARTS_IN_NOTE else ""
        yield f"never evaluated: {', '.join(found[:MAX_PARTS_IN_NOTE])}{more}"


def _vacuity_reason(protocol: Protocol, watched: PropertyCoverageProbe) -> str | None:
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


LineWarning = tuple[int, str]
PossibleTypes = tuple[Any, ...] | None
"""The possible types of a value; None if unknown."""

_TYPES_OF_LITERALS = {ast.Tuple: tuple, ast.List: list, ast.Set: frozenset, ast.SetComp: frozenset, ast.ListComp: list}
_PLAIN_TYPES = (bool, int, str, NoneType, ModelValue, tuple, list, frozenset, Map)


def never_equal_comparison_warnings(
    function: FunctionType, owner: type | None, tree: ast.FunctionDef
) -> Iterator[LineWarning]:
    """Yield (line, warning) for each comparison in a method between values of types that are never equal."""
    compared = [node for node in nodes_of_type(tree, ast.Compare) if len(node.ops) == 1]
    if not compared:
        return
    types = _TypeInference(function, owner, tree)
    for node in compared:
        left, right = types.of(node.left), types.other(node.ops[0], node.comparators[0])
        if left and right and not any(_may_types_compare_equal(one, other) for one in left for other in right):
            told = [" or ".join(dict.fromkeys(map(describe_type, kinds))) for kinds in (left, right)]
            yield node.lineno, f"`{ast.unparse(node)}` compares {told[0]} with {told[1]}, which are never equal"


class _TypeInference:
    """Type inference for the expressions of one method."""

    def __init__(self, function: FunctionType, owner: type | None, definition: ast.FunctionDef) -> None:
        self._globals = function.__globals__
        known = {name: _alternative_types(kind) for name, kind in _resolved_type_hints(function).items()}
        if owner is not None and definition.args.args:
            known[definition.args.args[0].arg] = (owner,)
        inner: list[Any] = [*nodes_of_type(definition, ast.Lambda), *nodes_of_type(definition, ast.FunctionDef)[1:]]
        stored = {node.id for node in nodes_of_type(definition, ast.Name) if isinstance(node.ctx, ast.Store)}
        stored |= {one.arg for node in inner for one in node.args.args}
        self._names = {name: kinds for name, kinds in known.items() if name not in stored}

    def of(self, node: ast.expr) -> PossibleTypes:
        """Return the possible types of an expression."""
        if isinstance(node, ast.Constant):
            return (type(node.value),) if type(node.value) in _PLAIN_TYPES else None
        if isinstance(node, ast.Name):
            return self._names.get(node.id)
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        kind = _TYPES_OF_LITERALS.get(type(node))
        return None if kind is None else (kind,)

    def other(self, operator: ast.cmpop, node: ast.expr) -> PossibleTypes:
        """Return the types of a comparison's right operand; for `in`, the types of its elements."""
        if isinstance(operator, ast.Eq | ast.NotEq | ast.Is | ast.IsNot):
            return self.of(node)
        if not isinstance(operator, ast.In | ast.NotIn):
            return None
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            return _union_of_types(map(self.of, node.elts))
        return _union_of_types(map(_element_types, self.of(node) or (Any,)))

    def _attribute(self, node: ast.Attribute) -> PossibleTypes:
        if isinstance(node.value, ast.Name) and node.value.id not in self._names:
            cls: Any = self._globals.get(node.value.id)
            return (cls,) if is_enum(cls) and node.attr in cls.__members__ else None
        owners = self.of(node.value)
        if owners is None:
            return None
        return _union_of_types(_alternative_types(_types_of_fields(one).get(node.attr, Any)) for one in owners)


def _resolved_type_hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function)
    except Exception:  # annotations may raise any error
        return {}


def _types_of_fields(owner: Any) -> Mapping[str, Any]:
    try:
        if isinstance(owner, type) and issubclass(owner, Record):
            return field_types(owner)
        if isinstance(owner, type) and issubclass(owner, Protocol):
            constants = {declared.attribute for declared in owner.constants.values()}
            return {name: kind for name, kind in get_type_hints(owner).items() if name in constants}
    except NameError:
        pass
    return {}


def _alternative_types(kind: Any) -> PossibleTypes:
    """Return the alternatives of a type, several for a union; None if `_may_types_compare_equal` does not know one."""
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _union_of_types(map(_alternative_types, get_args(kind)))
    if origin is Literal:
        return tuple(dict.fromkeys(map(type, get_args(kind))))
    plain = origin or kind
    is_known = isinstance(plain, type) and (plain in _PLAIN_TYPES or is_enum(plain) or issubclass(plain, Record))
    return (kind,) if is_known and plain is not Record else None


def _element_types(kind: Any) -> PossibleTypes:
    """Return the types of a collection's elements, or of a map's keys."""
    arguments = get_args(kind)
    if get_origin(kind) in (frozenset, Map) or (get_origin(kind) is tuple and arguments[-1] is Ellipsis):
        return _alternative_types(arguments[0])
    return None


def _union_of_types(parts: Iterable[PossibleTypes]) -> PossibleTypes:
    found = list(parts)
    return None if None in found else tuple(kind for kinds in found for kind in kinds or ())


def _may_types_compare_equal(one: Any, other: Any) -> bool:
    """Return whether values of two types may be equal, as 1 and True are."""
    first, second = get_origin(one) or one, get_origin(other) or other
    return issubclass(first, second) or issubclass(second, first) or _are_both_int_or_str(first, second)


def _are_both_int_or_str(first: type, second: type) -> bool:
    numbers = issubclass(first, int) and issubclass(second, int)
    texts = issubclass(first, str) and issubclass(second, str)
    return (numbers or texts) and not (issubclass(first, enum.Enum) and issubclass(second, enum.Enum))


STEP_MAKERS = (become, consume, Step, take)
"""Functions that make a step, which a method must yield."""
COPY_METHODS = {"but", *(name for name, one in vars(Step).items() if name[0] != "_" and isinstance(one, FunctionType))}
"""Methods that return a copy."""
MUTATING_METHODS = {
    "add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "setdefault",
    "update",
}  # fmt: skip
"""Methods that mutate a list, a set or a dict."""
PROTOCOL_ATTRIBUTES = [name for name in vars(Protocol) if name[0] != "_"]


def warnings_in_methods(modules: Iterable[ModuleType]) -> Iterator[str]:
    """Yield warnings about statements in the protocols, records and functions of modules."""
    for owner, function in (pair for module in modules for pair in _members_with_owner_in_module(module)):
        definition = definition_of(function.__code__) if isinstance(function, FunctionType) else None
        if definition is not None:
            found = [
                *_discarded_result_warnings(definition, function),
                *_nonstate_mutation_warnings(definition, function, owner),
            ]
            found += [
                *never_equal_comparison_warnings(function, owner, definition),
                *_hash_and_id_call_warnings(definition, function),
            ]
            yield from (f"{function.__code__.co_filename}:{line}: {text}" for line, text in found)


def _members_with_owner_in_module(module: ModuleType) -> Iterator[tuple[type | None, Any]]:
    """Yield (class, attribute) for a module's records and protocols, and (None, value) for each of its own values."""
    own = [value for value in vars(module).values() if getattr(value, "__module__", None) == module.__name__]
    classes = [one for one in own if isinstance(one, type) and issubclass(one, Record | Protocol)]
    yield from ((cls, value) for cls in classes for value in vars(cls).values())
    yield from ((None, one) for one in own if not getattr(one, "__name__", "").startswith("test_"))


def _discarded_result_warnings(definition: ast.FunctionDef, function: FunctionType) -> Iterator[LineWarning]:
    """Yield (line, warning) for each statement that makes a step or a copy of a record and discards it."""
    for node in nodes_of_type(definition, ast.Expr):
        if not isinstance(node.value, ast.Call):
            continue
        method, root = node.value.func, _root_name_of_chain(node.value)
        shown = ast.unparse(node.value).partition("(")[0]
        if function.__globals__.get(root) in STEP_MAKERS:
            yield node.lineno, f"`{shown}(...)` makes a step that is discarded; forgot `yield`?"
        elif (
            isinstance(method, ast.Attribute)
            and method.attr in COPY_METHODS
            and root in _parameters_after_self(definition)
        ):
            yield node.lineno, f"`{shown}(...)` returns a copy that is discarded; the original is unchanged"


def _root_name_of_chain(node: ast.expr) -> str:
    """Return the name at the root of a chain of calls and attributes; "" if the root is not a name."""
    while isinstance(node, ast.Call | ast.Attribute):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _parameters_after_self(definition: ast.FunctionDef) -> list[str]:
    """Return the parameters of a method except `self`."""
    return [one.arg for one in definition.args.args[1:]]


def _nonstate_mutation_warnings(
    tree: ast.FunctionDef, function: FunctionType, owner: type | None
) -> Iterator[LineWarning]:
    """Yield (line, warning) for each statement that mutates a global, a class attribute or a default."""
    stored = [node for node in nodes_of_type(tree, ast.Name) if isinstance(node.ctx, ast.Store)]
    declared = {name for node in nodes_of_type(tree, ast.Global) for name in node.names}
    defaults = {name: one.default for name, one in inspect.signature(function).parameters.items()}
    known = function.__globals__ | defaults | {node.id: None for node in stored}

    def outside(node: ast.expr) -> object:
        if isinstance(node, ast.Name):
            return known.get(node.id)
        if (
            isinstance(node, ast.Attribute)
            and owner is not None
            and _root_name_of_chain(node) in ("self", owner.__name__)
        ):
            return getattr(owner, node.attr, None)
        return None

    found: list[ast.expr] = [node for node in stored if node.id in declared]
    found += [node for node in _mutated_collection_nodes(tree) if isinstance(outside(node), list | set | dict)]
    for node in found:
        yield node.lineno, f"{ast.unparse(node)} is mutated outside the state; equal states may behave differently"


def _hash_and_id_call_warnings(definition: ast.FunctionDef, function: FunctionType) -> Iterator[LineWarning]:
    """Yield (line, warning) for each call of a built-in function whose result another process does not repeat."""
    for node in nodes_of_type(definition, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in ("hash", "id") and name not in function.__globals__ and definition.name != "__hash__":
            yield node.lineno, f"`{ast.unparse(node)}` may differ from run to run"


def _mutated_collection_nodes(definition: ast.FunctionDef) -> Iterator[ast.expr]:
    """Yield the collections that a method mutates."""
    calls = [node.func for node in nodes_of_type(definition, ast.Call) if isinstance(node.func, ast.Attribute)]
    yield from (method.value for method in calls if method.attr in MUTATING_METHODS)
    yield from (node.value for node in nodes_of_type(definition, ast.Subscript) if not isinstance(node.ctx, ast.Load))


def unused_attributes_with_warnings(owner: type[Protocol], names: set[str]) -> Iterator[tuple[str, str]]:
    """Yield (name, warning) for each unused attribute or method that a protocol class adds to its bases."""
    inherited = {name for base in owner.__mro__[1:] for name in vars(base)}
    annotated = dict.fromkeys(vars(owner).get("__annotations__", {}))
    own = {name: value for name, value in (annotated | dict(vars(owner))).items() if name not in inherited}
    for name, value in own.items():
        if name[0] == "_" or isinstance(value, Constant | type):
            continue
        if isinstance(value, FunctionType):
            if not (vars(value) or name in names):
                yield name, f"nothing calls {owner.__name__}.{name}{_similar_name_hint(name, inherited)}"
        elif isinstance(value, Network) or not (name in names or hasattr(value, "__get__")):
            constant = "; constant(...) or bound(...) makes a constant" * (name in annotated)
            hint = _similar_name_hint(name, PROTOCOL_ATTRIBUTES) or constant
            yield name, f"nothing reads {owner.__name__}.{name}{hint}"


def _similar_name_hint(name: str, known: Iterable[str]) -> str:
    near = nearest_known_names(name, [one for one in known if one[0] != "_"])
    return f" (perhaps {' or '.join(near)}?)" if near else ""


DECORATOR_NAMES = {
    *("on", "internal", "environment", "invariant", "step_invariant", "constraint", "action_constraint", "reachable"),
    *("temporal", "refines"),
}
"""Decorators of actions and properties."""
ALWAYS_READ_FIELDS = ("id", "dest", "source")
"""Fields that kraftcheck itself reads."""


def declaration_warnings(protocol: Protocol) -> list[str]:
    """Return warnings about unread bounds, constants, and fields of replicas, messages and the shared state.

    The initial states must have been made: the fields of their records count. A name counts as read if an attribute or
    a string equal to it occurs anywhere in the protocol's modules.
    """
    modules = project_modules_of_protocol(type(protocol))
    files = [path for path in map(source_path, modules) if path is not None and path.is_file()]
    trees = {path: tree for path in files if (tree := syntax_tree(path)) is not None}
    read = {name for tree in trees.values() for name in _attributes_and_strings_read(tree)}
    return [
        *_unread_constant_warnings(protocol, trees, read),
        *_unread_field_warnings(protocol, trees, read),
        *(_unused_attribute_warnings(type(protocol), trees, read) if trees else ()),
        *_redefinition_warnings(trees),
        *_misplaced_method_warnings(trees),
        *_model_value_warnings(protocol, trees),
        *warnings_in_methods(modules),
    ]


def _unused_attribute_warnings(
    protocol: type[Protocol], trees: dict[Path, ast.Module], read: set[str]
) -> Iterator[str]:
    loaded = [
        node.id for tree in trees.values() for node in nodes_of_type(tree, ast.Name) if isinstance(node.ctx, ast.Load)
    ]
    declared = [found for found in protocol.specifications.values() if isinstance(found, tuple)]
    loaded += [one.when for one in chain.from_iterable(declared)]
    for base in protocol.__mro__[: protocol.__mro__.index(Protocol)]:
        for name, text in unused_attributes_with_warnings(base, read.union(loaded)):
            yield f"{_place_of_declaration(base, name, trees) or base.__qualname__}: {text}"


def _redefinition_warnings(trees: dict[Path, ast.Module]) -> Iterator[str]:
    """Yield a warning for each action or property that its class defines twice."""
    for path, tree in trees.items():
        for owner in nodes_of_type(tree, ast.ClassDef):
            found: dict[str, int] = {}
            for method in owner.body:
                if isinstance(method, ast.FunctionDef):
                    marks = {ast.unparse(mark).partition("(")[0] for mark in method.decorator_list}
                    if method.name in found and marks & DECORATOR_NAMES:
                        line = found[method.name]
                        what = f"{owner.name}.{method.name} is defined at line {line} too; that one is overridden"
                        yield f"{path}:{method.lineno}: {what}"
                    found[method.name] = method.lineno


def _misplaced_method_warnings(trees: dict[Path, ast.Module]) -> Iterator[str]:
    """Yield a warning for each action or property outside of a class."""
    for path, tree in trees.items():
        named = {one.id for owner in nodes_of_type(tree, ast.ClassDef) for one in nodes_of_type(owner, ast.Name)}
        for function in (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name not in named):
            for mark in function.decorator_list:
                name = ast.unparse(mark).partition("(")[0]
                if name in DECORATOR_NAMES:
                    yield f"{path}:{function.lineno}: {function.name} is in no class, so @{name} has no effect"


def _model_value_warnings(protocol: Protocol, trees: dict[Path, ast.Module]) -> Iterator[str]:
    """Yield a warning for each model value of a constant that the source makes again, at another place in the order.

    Equal values are one in a state, so the order of the search would decide how `ordered` sorts them.
    """
    places: dict[str, int] = {}
    for value in protocol.constant_values().values():
        map_model_values(value, lambda one: places.setdefault(one.name, one.index))
    for path, tree in trees.items():
        for call, name, place in _model_values_made(tree):
            if places.get(name, place) != place:
                what = f"`{ast.unparse(call)}` is not sorted as the {name} of a constant; use that one"
                yield f"{path}:{call.lineno}: {what}"


def _model_values_made(tree: ast.Module) -> Iterator[tuple[ast.Call, str, int]]:
    """Yield the calls that make a model value, with its name and place; those in defaults of constants are left out."""
    calls = nodes_of_type(tree, ast.Call)
    defaults = {id(part) for call in calls if _root_name_of_chain(call.func) == "constant" for part in ast.walk(call)}
    for call in calls:
        match call:
            case ast.Call(ast.Name("ModelValue"), [ast.Constant(str(name))], []) if id(call) not in defaults:
                yield call, name, 0
            case ast.Call(ast.Name("ModelValue"), [ast.Constant(str(name)), ast.Constant(int(place))], []):
                if id(call) not in defaults:
                    yield call, name, place


def lint(protocol: Protocol, *, complete: bool) -> list[str]:
    """Return all lint warnings after a search: unused declarations, and unhandled messages."""
    return [*declaration_warnings(protocol), *unhandled_message_warnings(protocol, complete=complete)]


def _attributes_and_strings_read(tree: ast.Module) -> Iterator[str]:
    yield from (node.attr for node in nodes_of_type(tree, ast.Attribute) if isinstance(node.ctx, ast.Load))
    yield from (node.value for node in nodes_of_type(tree, ast.Constant) if isinstance(node.value, str))
    for node in nodes_of_type(tree, ast.MatchClass):
        yield from node.kwd_attrs


def _unread_constant_warnings(protocol: Protocol, trees: dict[Path, ast.Module], read: set[str]) -> Iterator[str]:
    for declared in protocol.constants.values():
        if declared.attribute in read:
            continue
        owner = next(cls for cls in type(protocol).__mro__ if vars(cls).get(declared.attribute) is declared)
        place = _place_of_declaration(owner, declared.attribute, trees)
        if place and declared.is_bound:
            yield f"{place}: no step spends or needs the bound {declared.name} ({owner.__name__}.{declared.attribute})"
        elif place:
            yield f"{place}: nothing reads the constant {declared.name} ({owner.__name__}.{declared.attribute})"


def _unread_field_warnings(protocol: Protocol, trees: dict[Path, ast.Module], read: set[str]) -> Iterator[str]:
    kinds = [] if protocol.shared_record is None else [protocol.shared_record]
    kinds += sorted(set().union(*protocol.replica_types.values()), key=lambda kind: kind.__qualname__)
    kinds += [kind for action in protocol.actions.values() for kind in (*action.actors, *action.messages)]
    kinds += [kind for kind, _ in protocol.message_senders]
    known = {*read, *ALWAYS_READ_FIELDS, *protocol.written_only}
    for kind in dict.fromkeys(kinds):
        for field in field_names(kind) if issubclass(kind, Record) and kind is not Record else ():
            place = None if field in known else _place_of_declaration(kind, field, trees)
            if place:
                yield f"{place}: nothing reads the field {kind.__name__}.{field}"


def _place_of_declaration(owner: type, name: str, trees: dict[Path, ast.Module]) -> str | None:
    """Return the place where a class, or a base of it, declares a name; None without a source."""
    for cls in owner.__mro__:
        if name not in vars(cls).get("__annotations__", {}) and name not in vars(cls):
            continue
        for path, tree in trees.items():
            for node in nodes_of_type(tree, ast.ClassDef):
                if node.name == cls.__name__ and _is_class_defined_in_file(cls, path):
                    for line in node.body:
                        if name in _names_declared_by_statement(line):
                            return f"{path}:{line.lineno}"
    return None


def _is_class_defined_in_file(cls: type, path: Path) -> bool:
    module = inspect.getmodule(cls)
    return module is not None and source_path(module) == path


def _names_declared_by_statement(line: ast.stmt) -> list[str]:
    if isinstance(line, ast.FunctionDef):
        return [line.name]
    if not isinstance(line, ast.AnnAssign | ast.Assign):
        return []
    targets = [line.target] if isinstance(line, ast.AnnAssign) else line.targets
    return [target.id for target in targets if isinstance(target, ast.Name)]


def unhandled_message_warnings(protocol: Protocol, *, complete: bool) -> list[str]:
    """Return warnings about sent messages that no action handles, after a search."""
    handled = tuple(kind for action in protocol.actions.values() for kind in action.messages)
    readers: list[Action | Property] = [*protocol.actions.values(), *protocol.properties.values()]
    codes = [read.function.__code__ for reader in readers for read in reader.reads if read.of_inbox]
    warnings: dict[str, None] = {}
    for (kind, dest), action in protocol.message_senders.items():
        code = protocol.actions[action.name].function.__code__  # may be wrapped
        where = f"{code.co_filename}:{code.co_firstlineno}: {action.name}"
        if not (issubclass(kind, handled) or any(_code_mentions_name(code, kind.__name__) for code in codes)):
            warnings[f"{where} sends {kind.__name__}, which no @on action handles"] = None
        elif protocol.replica_types and dest not in protocol.replica_types and (complete or is_enum(type(dest))):
            warnings[f"{where} sends {kind.__name__} to {text_of(dest)}, which is not a replica in any state"] = None
        elif complete and _is_dest_type_without_handler(protocol, kind, dest):
            sent = kind.__name__
            warnings[f"{where} sends {sent} to {text_of(dest)}; no @on({sent}) action has a `me` of that type"] = None
    return list(warnings)


def _is_dest_type_without_handler(protocol: Protocol, kind: type, dest: Value) -> bool:
    """Whether actions handle a type of message, but all for replicas of other types than the destination."""
    actors = [action.actors for action in protocol.actions.values() if issubclass(kind, action.messages)]
    types = protocol.replica_types.get(dest, ())
    return bool(actors and types) and not any(issubclass(one, some) for some in actors for one in types)


def _code_mentions_name(code: CodeType, name: str) -> bool:
    """Whether a function, or a function inside it, refers to a class by name."""
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    return name in code.co_names or any(_code_mentions_name(one, name) for one in inner)

"""Translation of calls: of functions beside the handler, of classes, and of what Python and the language offer."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
from collections.abc import Callable, Hashable, Iterable, Sequence
from types import FunctionType, MethodType
from typing import Any

from kraftcheck.explorer.bytecode import library
from kraftcheck.explorer.bytecode.emitter import JumpLabel, NestedVariableScope
from kraftcheck.explorer.bytecode.expressions import MAP_VIEW_METHODS, ExpressionTranslator, library_replacement
from kraftcheck.explorer.bytecode.kernel import codes
from kraftcheck.explorer.bytecode.kernel.codes import Op
from kraftcheck.explorer.bytecode.source import CacheWrapper, coverage_probe_number, walrus_variables
from kraftcheck.explorer.bytecode.values import COLLECTION_TYPES, KINDS_OF_TYPES
from kraftcheck.spec.errors import NoBytecodeError
from kraftcheck.spec.language.state import Step, become, consume
from kraftcheck.spec.values import Record, field_names, ordered

ONE_ARGUMENT_OPS: dict[Any, Op] = {len: Op.LEN, bool: Op.NOT, ordered: Op.ORDERED, sum: Op.SUM, reversed: Op.REVERSED}
SET_METHOD_OPS = {
    "union": Op.OR, "intersection": Op.AND, "difference": Op.SUB, "symmetric_difference": Op.XOR, "issubset": Op.LE,
    "issuperset": Op.GE, "isdisjoint": Op.AND,
}  # fmt: skip
"""Methods that take any collection, which is converted to a set."""
METHOD_OPS = {
    "keys": (Op.KEYS, 0), "values": (Op.VALUES, 0), "items": (Op.ITEMS, 0), "put": (Op.PUT, 2),
    "without": (Op.WITHOUT, 1),
}  # fmt: skip
"""Methods with their operation and the number of their arguments."""
STEP_METHOD_PARTS = {"write": codes.STEP_WRITES, "spend": codes.STEP_SPENDS, "need": codes.STEP_NEEDS}
CALL_TRANSLATORS: dict[Any, str] = {
    isinstance: "_isinstance", any: "_any_or_all", all: "_any_or_all", next: "_next", min: "_in_order",
    max: "_in_order", sorted: "_in_order", range: "_range", enumerate: "_enumerate", zip: "_zip", become: "_become",
    consume: "_become", divmod: "_divmod", map: "_mapped", filter: "_mapped",
    functools.reduce: "_reduced", dataclasses.replace: "_replaced",
    **dict.fromkeys(COLLECTION_TYPES, "_converted"), **dict.fromkeys(ONE_ARGUMENT_OPS, "_of_one"),
}  # fmt: skip
"""The method that translates a call of each known function."""
ARGUMENT_COUNTS = {"_isinstance": 2, "_divmod": 2, "_any_or_all": 1, "_become": 1, "_of_one": 1}
"""The number of arguments of calls that take no keywords."""
KeywordArguments = dict[str | None, ast.expr]
"""Arguments by keyword."""


class CallTranslator(ExpressionTranslator):
    """Translation of calls."""

    def _of_call(self, node: ast.Call) -> int:
        if (number := coverage_probe_number(node)) is not None and self.watch is not None:
            into = self._register()
            self._emit(Op.SEEN, self.program.probe(self.watch, number), into)
            return into
        if not node.keywords and (isinstance(node.func, ast.Lambda) or getattr(node.func, "id", "") in self._lambdas):
            return self._applied(node.func, [self._value(one) for one in node.args])
        called = self._called(node)
        if called is not None:
            return self._call_for_value(*called)
        target = self._object(node.func)
        if target is not None:
            return self._call_known(node, target)
        if isinstance(node.func, ast.Attribute):
            return self._call_method(node, node.func)
        raise self._unsupported(node, "a call of a value")

    def _call_for_value(self, function: Any, arguments: list[int]) -> int:
        """Translate a call; a generator function returns a list."""
        if not inspect.isgeneratorfunction(function):
            return self._call(function, arguments)
        mark = self._result(Op.MARK)
        self._call(function, arguments)
        return self._result(Op.COLLECT, codes.LIST_KIND, mark)

    def _called(self, node: ast.expr) -> tuple[Any, list[int]] | None:
        """Return the function of the protocol, or beside it, that a call names, and its arguments."""
        if not isinstance(node, ast.Call):
            return None
        target = self._object(node.func)
        known = library_replacement(target)
        if known is not None and target not in CALL_TRANSLATORS:
            return known, self._arguments(node, known)
        if isinstance(target, MethodType):
            if target.__self__ is not self.program.protocol and target.__self__ is not type(self.program.protocol):
                raise self._unsupported(node, f"a call of {target!r}")
            target = target.__func__
        if isinstance(target, CacheWrapper):
            target = target.__wrapped__
        if not isinstance(target, FunctionType) or target in (ordered, become, consume, dataclasses.replace):
            return None
        return target, self._arguments(node, target)

    def _arguments(self, node: ast.Call, function: FunctionType, given: Sequence[int] = ()) -> list[int]:
        parameters = list(inspect.signature(function).parameters.values())[self.program.is_method(function) :]
        is_library = function.__module__ == library.__name__
        if is_library and any(map(self._is_text, node.args)):
            raise self._unsupported(node, "a call with text")
        values = self._bound(node, parameters[len(given) :], self._consumed if is_library else self._value)
        return [*given, *values.values()]

    def _bound(
        self, node: ast.Call, parameters: Sequence[inspect.Parameter], take: Callable[[ast.expr], int] | None = None
    ) -> dict[str, int]:
        """Return the register of each parameter of a call, in order."""
        take = take or self._value
        starred = [place for place, one in enumerate(parameters) if one.kind is inspect.Parameter.VAR_POSITIONAL]
        count = starred[0] if starred else len(node.args)
        values: dict[str | None, int] = {}
        for name, one in self._given(node, [one.name for one in parameters], node.args[:count]):
            values[name] = take(one)
        for place in starred:
            values[parameters[place].name] = self._display(codes.TUPLE_KIND, node.args[count:], take)
        return {one.name: self._argument(node, values, one) for one in parameters}

    def _given(
        self, node: ast.Call, names: Sequence[str], plain: Sequence[ast.expr]
    ) -> list[tuple[str | None, ast.expr]]:
        """Return the names and values of the arguments by place and by keyword."""
        if any(isinstance(one, ast.Starred) for one in plain) or len(plain) > len(names):
            raise self._unsupported(node, "arguments in a star")
        by_place = dict(zip(names, plain, strict=False))
        for word in node.keywords:
            if word.arg not in names or word.arg in by_place:
                raise self._unsupported(node, f"the argument {word.arg}")
        return [*by_place.items(), *((word.arg, word.value) for word in node.keywords)]

    def _argument(self, node: ast.Call, values: dict[str | None, int], parameter: inspect.Parameter) -> int:
        if parameter.name in values:
            return values[parameter.name]
        default = parameter.default
        if default is inspect.Parameter.empty or type(default).__name__ == "_HAS_DEFAULT_FACTORY_CLASS":
            raise self._unsupported(node, f"a call without {parameter.name}")
        return self._constant(default)

    def _call(self, function: Any, arguments: list[int]) -> int:
        first = self._register(max(1, len(arguments)))
        for place, one in enumerate(arguments):
            self._emit(Op.MOVE, first + place, one)
        return self._result(Op.CALL, self.program.function(function, is_helper=True), first, len(arguments))

    def _call_known(self, node: ast.Call, target: Any) -> int:
        """Translate a call of a class, or of a function of Python or of the language."""
        if isinstance(target, type) and issubclass(target, Record):
            return self._record(node, target)
        words = {word.arg: word.value for word in node.keywords}
        method = CALL_TRANSLATORS.get(target, "") if isinstance(target, Hashable) else ""
        found: int | None = None
        if _has_method_for_arguments(node, method):
            found = getattr(self, method)(node, target, words)
        if found is None and (known := library_replacement(target)) is not None:
            return self._call(known, self._arguments(node, known))
        if found is None:
            raise self._unsupported(node, f"a call of {getattr(target, '__name__', target)}")
        return found

    def _mapped(self, node: ast.Call, target: Any, words: KeywordArguments) -> int | None:
        """Translate map and filter."""
        if len(node.args) < 2 or words or (target is filter and len(node.args) > 2):
            return None
        function, *values = node.args
        is_none = isinstance(function, ast.Constant) and function.value is None
        mark = self._result(Op.MARK)
        with self._each(self._zipped(map(self._consumed, values), len(values))) as (those, again):
            elements = [self._result(Op.INDEX, those, self._constant(place)) for place in range(len(values))]
            found = elements[0] if is_none else self._applied(function, elements)
            if target is filter:
                self._emit(Op.UNLESS, found, again)
            self._emit(Op.PUSH, elements[0] if target is filter else found)
        return self._result(Op.COLLECT, codes.LIST_KIND, mark)

    def _reduced(self, node: ast.Call, _: Any, words: KeywordArguments) -> int | None:
        if len(node.args) not in (2, 3) or words:
            return None
        values, into = self._result(Op.CONVERT, self._consumed(node.args[1]), codes.LIST_KIND), self._register()
        if len(node.args) == 3:
            self._emit(Op.MOVE, into, self._value(node.args[2]))
        else:
            self._emit(Op.INDEX, into, values, self._constant(0))
            values = self._result(Op.SLICE, values, self._constant(1), self._constant(None))
        with self._each(values) as (element, _again):
            self._emit(Op.MOVE, into, self._applied(node.args[0], [into, element]))
        return into

    def _of_one(self, node: ast.Call, target: Any, _: KeywordArguments) -> int:
        if self._is_text(node.args[0]):
            raise self._unsupported(node, "a call with text")
        is_view = isinstance(node.args[0], ast.Call) and getattr(node.args[0].func, "attr", "") in MAP_VIEW_METHODS
        take = self._value if target in (len, bool) and not is_view else self._consumed
        found = self._result(ONE_ARGUMENT_OPS[target], take(node.args[0]))
        return self._result(Op.NOT, found) if target is bool else found

    def _divmod(self, node: ast.Call, _: Any, __: KeywordArguments) -> int:
        one, other = map(self._value, node.args)
        return self._collected(codes.TUPLE_KIND, [self._result(half, one, other) for half in (Op.DIV, Op.MOD)])

    def _become(self, node: ast.Call, target: Any, _: KeywordArguments) -> int:
        return self._step(self._value(node.args[0]), consumes=target is consume)

    def _any_or_all(self, node: ast.Call, target: Any, _: KeywordArguments) -> int:
        """Translate any(...) or all(...): a loop that ends at the first decisive element."""
        given, stops_at = node.args[0], target is any
        if not isinstance(given, ast.GeneratorExp):
            given = _generator_expression_over(node, given)
        into, end, test, stop = self._register(), JumpLabel(), given.elt, Op.IF if stops_at else Op.UNLESS
        self._emit(Op.CONST, into, self.program.constant(stops_at))
        self._scoped_loop(given.generators, lambda: self._emit(stop, self._value(test), end))
        self._emit(Op.CONST, into, self.program.constant(not stops_at))
        self._here(end)
        return into

    def _range(self, node: ast.Call, _: Any, words: KeywordArguments) -> int | None:
        if not 1 <= len(node.args) <= 3 or words:
            return None
        ends = [self._value(one) for one in node.args]
        first = ends[0] if len(ends) > 1 else self._constant(0)
        step = ends[2] if len(ends) == 3 else self._constant(1)
        return self._result(Op.RANGE, first, ends[len(ends) > 1], step)

    def _enumerate(self, node: ast.Call, _: Any, words: KeywordArguments) -> int | None:
        start = [*node.args[1:], *words.values()]
        if not node.args or words.keys() - {"start"} or len(start) > 1:
            return None
        values = self._consumed(node.args[0])
        begin = self._value(start[0]) if start else self._constant(0)
        end = self._result(Op.ADD, begin, self._result(Op.LEN, values))
        return self._zipped([self._result(Op.RANGE, begin, end, self._constant(1)), values], 2)

    def _zip(self, node: ast.Call, _: Any, words: KeywordArguments) -> int | None:
        strict = words.get("strict")
        if not node.args or words.keys() - {"strict"} or (strict is not None and ast.unparse(strict) != "False"):
            return None
        return self._zipped(map(self._consumed, node.args), len(node.args))

    def _zipped(self, values: Iterable[int], count: int) -> int:
        first = self._register(count)
        for place, one in enumerate(values):
            self._emit(Op.MOVE, first + place, one)
        return self._result(Op.ZIP, first, count)

    def _next(self, node: ast.Call, _: Any, words: KeywordArguments) -> int | None:
        """Translate next(...) over a generator expression, perhaps with a default."""
        generator = node.args[0] if node.args else None
        if isinstance(generator, ast.Call) and self._object(generator.func) is iter and len(generator.args) == 1:
            generator = _generator_expression_over(generator, generator.args[0])
        if not isinstance(generator, ast.GeneratorExp) or len(node.args) > 2 or words:
            return None
        into, end = self._register(), JumpLabel()
        default = self._value(node.args[1]) if len(node.args) == 2 else None

        def found() -> None:
            self._emit(Op.MOVE, into, self._value(generator.elt))
            self._emit(Op.JUMP, end)

        self._scoped_loop(generator.generators, found)
        if default is None:
            self._emit(Op.FAIL)
        else:
            self._emit(Op.MOVE, into, default)
        self._here(end)
        return into

    def _converted(self, node: ast.Call, target: Any, words: KeywordArguments) -> int | None:
        kind = KINDS_OF_TYPES[target]
        if len(node.args) > 1 or words:
            return None
        if not node.args:
            return self._result(Op.COLLECT, kind, self._result(Op.MARK))
        one = node.args[0]
        if isinstance(one, ast.GeneratorExp) and kind not in (codes.MAP_KIND, codes.DICT_KIND):
            return self._comprehension(kind, one.generators, [one.elt])
        return self._result(Op.CONVERT, self._consumed(one), kind)

    def _record(self, node: ast.Call, kind: type[Record]) -> int:
        if kind is Step:
            if node.args or node.keywords:
                raise self._unsupported(node, "Step with arguments")
            return self._step(self._constant(()))
        if kind not in self.program.records:
            self.program.heap.kind(kind)
            self.program.records.append(kind)
        values = self._bound(node, list(inspect.signature(kind).parameters.values()))
        return self._collected(self.program.heap.kind(kind), [values[name] for name in field_names(kind)])

    def _step(self, me: int, *, consumes: bool = False) -> int:
        return self._collected(codes.STEP_KIND, (me, self._constant(consumes), *[self._constant(())] * 5))

    def _isinstance(self, node: ast.Call, _: Any, __: KeywordArguments) -> int:
        wanted = node.args[1]
        if isinstance(wanted, ast.Name) and wanted.id in self._locals:
            return self._result(Op.TEST_BY, self._value(node.args[0]), self._value(wanted))
        kinds = self._classes(wanted)
        if not all(isinstance(one, type) for one in kinds):
            raise self._unsupported(node, "isinstance of a class that is not known before the search")
        return self._result(Op.TEST, self._value(node.args[0]), self.program.heap.test(kinds))

    def _classes(self, node: ast.expr) -> list[Any]:
        """Return the classes that an expression names: one, a tuple, or a union."""
        if isinstance(node, ast.Tuple):
            return [one for part in node.elts for one in self._classes(part)]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return [*self._classes(node.left), *self._classes(node.right)]
        found = self._object(node)
        return list(found) if isinstance(found, tuple) else [found]

    def _in_order(self, node: ast.Call, target: Any, words: KeywordArguments) -> int | None:
        """Translate min, max and sorted."""
        if not node.args or words.keys() - ({"key", "reverse"} if target is sorted else {"key", "default"}):
            return None
        is_one = len(node.args) == 1
        if not is_one and (target is sorted or "default" in words):
            return None
        values = self._consumed(node.args[0]) if is_one else self._display(codes.TUPLE_KIND, node.args)
        key = words.get("key")
        if target is sorted:
            return self._sorted(values, key, words.get("reverse"))
        into, end, otherwise = self._register(), JumpLabel(), JumpLabel()
        if "default" in words:
            default = self._value(words["default"])
            self._emit(Op.IF, self._result(Op.LEN, values), otherwise)
            self._emit(Op.MOVE, into, default)
            self._emit(Op.JUMP, end)
        self._here(otherwise)
        self._emit(Op.MOVE, into, self._extreme(values, key, is_least=target is min))
        self._here(end)
        return into

    def _sorted(self, values: int, key: ast.expr | None, reverse: ast.expr | None) -> int | None:
        is_reverse = reverse is not None and ast.unparse(reverse) == "True"
        if reverse is not None and not is_reverse:
            return None
        if is_reverse:  # equal ones stay in order
            values = self._result(Op.REVERSED, self._result(Op.CONVERT, values, codes.LIST_KIND))
        sortable = values if key is None else self._with_keys(values, key)
        found = self._result(Op.SORTED if key is None else Op.SORTED_PAIRS, sortable)
        return self._result(Op.REVERSED, found) if is_reverse else found

    def _extreme(self, values: int, key: ast.expr | None, *, is_least: bool) -> int:
        if key is None:
            return self._result(Op.MIN if is_least else Op.MAX, values)
        pairs = self._with_keys(values, key)
        if not is_least:  # the first of equal ones is the last of those in reverse
            pairs = self._result(Op.REVERSED, pairs)
        in_order = self._result(Op.SORTED_PAIRS, pairs)
        return self._result(Op.INDEX, in_order, self._constant(0 if is_least else -1))

    def _with_keys(self, values: int, key: ast.expr) -> int:
        """Return the pairs of a key and an element, for each element."""
        mark = self._result(Op.MARK)
        with self._each(values) as (element, _):
            self._emit(Op.PUSH, self._collected(codes.TUPLE_KIND, (self._applied(key, [element]), element)))
        return self._result(Op.COLLECT, codes.LIST_KIND, mark)

    def _applied(self, function: ast.expr, values: Sequence[int]) -> int:
        """Return the result of a function, which an expression names, for some values."""
        known, scope = self._lambdas.get(getattr(function, "id", ""), (function, self.scope))
        before, names = self.scope, [f"argument {place}" for place in range(len(values))]
        body: ast.expr = ast.Call(known, [ast.Name(name, ast.Load()) for name in names], [])
        if isinstance(known, ast.Lambda):
            given, names, body = known.args, [one.arg for one in known.args.args], known.body
            if ast.unparse(given) != ", ".join(names) or len(names) != len(values) or walrus_variables(known):
                raise self._unsupported(known, "a local function with other than plain arguments")
        self.scope = scope
        with NestedVariableScope(self, names):
            for name, value in zip(names, values, strict=True):
                self._emit(Op.MOVE, self._names[name], value)
            found = self._value(body)
        self.scope = before
        return found

    def _call_method(self, node: ast.Call, method: ast.Attribute) -> int:
        """Translate a call of a method of a value."""
        value = self._value(method.value)
        own = {one: inspect.getattr_static(one, method.attr, None) for one in self.program.records if one is not Step}
        own = {one: known for one, known in own.items() if isinstance(known, FunctionType)}
        own = {one: known for one, known in own.items() if known.__module__ != Record.__module__}
        if not own:
            return self._call_builtin(node, method.attr, value)
        if len(set(own.values())) == 1:
            (function,) = set(own.values())
            return self._by_class(own, value, self._arguments(node, function, [value]), self._failing)
        raise self._unsupported(node, f"the method {method.attr} of several classes")

    def _failing(self) -> int:
        self._emit(Op.FAIL)
        return self._constant(None)

    def _call_builtin(self, node: ast.Call, name: str, value: int) -> int:
        words = {word.arg: word.value for word in node.keywords}
        if name == "but":
            return self._but(node, value)
        if name == "put" and not node.args:
            return self._put(value, words)
        if name in STEP_METHOD_PARTS and not words:
            mark = self._result(Op.MARK)
            self._push_each(node.args)
            return self._result(Op.EXTEND, value, STEP_METHOD_PARTS[name], mark)
        if words:
            raise self._unsupported(node, f"arguments by keyword of .{name}()")
        return self._call_of_set(node, name, value) if name in SET_METHOD_OPS else self._call_plain(node, name, value)

    def _call_of_set(self, node: ast.Call, name: str, value: int) -> int:
        """Translate a method of a set that takes any collections."""
        if len(node.args) == 1 and not isinstance(node.args[0], ast.Starred):
            other = self._result(Op.CONVERT, self._consumed(node.args[0]), codes.FROZENSET_KIND)
            found = self._result(SET_METHOD_OPS[name], value, other)
            return self._result(Op.NOT, found) if name == "isdisjoint" else found
        return self._call_plain(node, name, value)

    def _call_plain(self, node: ast.Call, name: str, value: int) -> int:
        """Translate a method of a map, a sequence or a set."""
        if name in library.METHODS:
            function = library.METHODS[name]
            return self._call(function, self._arguments(node, function, [value]))
        given = [self._value(one) for one in node.args]
        if METHOD_OPS.get(name, (None, None))[1] == len(given):
            return self._result(METHOD_OPS[name][0], value, *given)
        if name == "get" and len(given) in (1, 2):
            return self._result(Op.GET, value, given[0], given[1] if len(given) == 2 else self._constant(None))
        raise self._unsupported(node, f"the method .{name}()")

    def _replaced(self, node: ast.Call, _: Any, __: KeywordArguments) -> int | None:
        return self._but(node, self._value(node.args[0]), 1) if node.args else None

    def _but(self, node: ast.Call, value: int, positional: int = 0) -> int:
        if len(node.args) > positional or any(word.arg is None for word in node.keywords):
            raise self._unsupported(node, "a call of .but() with other than keyword arguments")
        for name, changed in [(str(word.arg), self._value(word.value)) for word in node.keywords]:
            value = self._result(Op.BUT, value, self.program.heap.name(name), changed)
        return value

    def _put(self, step: int, words: KeywordArguments) -> int:
        """Translate the writing of shared fields, in the order of their names, as `Step.put` notes them."""
        if None in words:
            raise NoBytecodeError("** in put()")
        values = {str(name): self._value(one) for name, one in words.items()}
        pairs = [self._collected(codes.TUPLE_KIND, (self._constant(name), values[name])) for name in sorted(values)]
        return self._result(Op.EXTEND, step, codes.STEP_PUTS, self._pushed(pairs))


def _has_method_for_arguments(node: ast.Call, method: str) -> bool:
    """Return whether there is a method for a call, with as many arguments as it has."""
    if not method or any(isinstance(one, ast.Starred) for one in node.args):
        return False
    count = ARGUMENT_COUNTS.get(method)
    return count is None or (len(node.args) == count and not node.keywords)


def _generator_expression_over(node: ast.Call, values: ast.expr) -> ast.GeneratorExp:
    """Return a generator expression for the elements of some values."""
    loop = ast.comprehension(ast.Name("element of a call", ast.Store()), values, [], 0)
    found = ast.GeneratorExp(ast.Name("element of a call", ast.Load()), [loop])
    return ast.fix_missing_locations(ast.copy_location(found, node))

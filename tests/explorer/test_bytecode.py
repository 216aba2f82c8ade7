"""The bytecode engine: translated handlers do what Python does, or are refused."""

from __future__ import annotations

import ast
import importlib.util
import random
import sys
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from kraftcheck import Map, Protocol, engines, load
from kraftcheck.explorer.bytecode import engine, search_encoding
from kraftcheck.explorer.bytecode.engine import explore
from kraftcheck.explorer.bytecode.kernel.codes import Op
from kraftcheck.explorer.bytecode.search import BytecodeSearch
from kraftcheck.explorer.bytecode.values import ValueHeap
from kraftcheck.explorer.reference import explore as by_reference
from kraftcheck.explorer.request import SearchRequest
from kraftcheck.explorer.result import Result
from kraftcheck.spec.errors import ActionError, InputError, NoBytecodeError

STYLES = Path(__file__).parents[2] / "benchmarks" / "styles"

pytestmark = pytest.mark.kernel

HEAD = """
import dataclasses
import itertools
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, reduce
from collections import Counter
from itertools import accumulate, chain, pairwise, permutations, product
from kraftcheck import *


class Colour(Symbol):
    RED = "Red"
    BLUE = "Blue"


class Item(Record):
    number: int
    colour: Colour = Colour.RED
    more: tuple[int, ...] = ()

    @property
    def double(self):
        return 2 * self.number

    def plus(self, other, twice=False):
        return self.number + other * (2 if twice else 1)


class Other(Record):
    number: int


class Box(Record):
    n: int = 3
    numbers: tuple[int, ...] = (3, 1, 2, 1)
    few: frozenset[int] = frozenset({5, 3, 4})
    items: frozenset[Item] = frozenset({Item(2), Item(1, Colour.BLUE), Item(3, more=(1, 2))})
    item: Item = Item(7, Colour.BLUE, (4, 5))
    by_name: Map[str, int] = Map({"b": 2, "a": 1, "c": 3})
    maybe: int | None = None
    flag: bool = True
    found: bool = False
    day: int = 0


def helper(x, y=1, *, z=10):
    return x + y * z


def evens(values):
    for one in ordered(values):
        if one % 2 == 0:
            yield one


def rest(values):
    (first, second), *others = zip(values, values)
    _, *last = others
    return [first - second, *last, len(others)]


def swapped(values):
    changing = list(values)
    changing[0], changing[-1] = changing[-1], changing[0] + 7
    return tuple(changing)


def factorial(n):
    return 1 if n <= 1 else n * factorial(n - 1)


@cache
def cached(n):
    return n + 1


def most(*values, least=0):
    return max([least, *values])


def matched(value):
    match value:
        case None | True:
            return "none"
        case 1 | 2:
            return "few"
        case Item(number=2 | 3 as n, colour=Colour.BLUE):
            return n
        case Item(n, Colour.RED, (first, *_)) if first + n > 3:
            return n + first
        case Item(more=(4, last)):
            return last
        case Other(n):
            return n
        case (1, *middle, 1):
            return middle
        case [first, second] if first < second:
            return second - first
        case ():
            return "empty"
        case _:
            return "other"


def tried(s, name):
    try:
        return s.by_name[name]
    except KeyError:
        return "none"


def trying(values):
    for value in values:
        try:
            yield 6 // (value - 1)
        except ZeroDivisionError:
            yield 0


def doubly(*values):
    one = other = [values]
    one.append(other[0])
    return len(other) + len(values)


def growing(values):
    values.append(len(values))
    return len(values)


def guarded(s):
    return [tried(s, name) + 1 if name in s.by_name else helper(s.n) for name in ("a", "z")]


def grouped(numbers):
    found = {}
    for number in numbers:
        found.setdefault(number % 2, []).append(number)
    return tuple((key, tuple(some)) for key, some in sorted(found.items()))


def changed(values, by_name):
    numbers = list(values)
    few = set(values)
    names = dict(by_name)
    numbers.sort()
    numbers.insert(1, 9)
    numbers.insert(-1, 8)
    numbers.remove(1)
    numbers.reverse()
    last = numbers.pop()
    first = numbers.pop(0)
    few.update([5], {6})
    few.remove(5)
    names["q"] = 1
    names["a"] += 4
    del names["b"]
    names.update({"y": 7})
    gone = names.pop("y")
    none = names.pop("none", 0)
    old = numbers.copy()
    gone += sum(place * one + other for place, (one, other) in enumerate(zip(numbers, reversed(numbers))))
    numbers.clear()
    return [first, last, gone, none, *old, *numbers, *ordered(few), *ordered(names.items())]


def locally(values, by_name):
    n = 2
    twice = lambda x: x * n

    def both(x, y):
        return twice(x) + y + n

    n = 3
    pairs = by_name.items()
    ids = range(n)
    return [*map(twice, values), both(1, 2), [both(n, 1) for n in ids if n in ids], [k for k, _ in sorted(pairs)]]

"""

EXPRESSIONS = [
    *("s.n + 2 * s.n - 1", "-s.n // 2", "-s.n % 4", "s.n - (-5)", "7 // s.n", "s.n < 4 <= 4 != 5", "not s.flag"),
    *("s.flag and s.n", "s.maybe or s.n", "s.n if s.maybe is None else 0", "s.maybe is not None", "s.numbers[0]"),
    *("s.n + (s.n > 2)", "s.n - s.flag", "s.flag - s.flag", "s.flag + s.flag", "s.flag * s.n", "s.n // (s.n > 0)"),
    *("tuple(c + (i == 1) for i, c in enumerate(s.numbers))", "s.n % (s.n > 0)", "(s.n > 0) * (s.n > 1)"),
    *("s.numbers.index(1)", "[1, s.n].index(s.n)", "divmod(-s.n, 4)", "rest(s.numbers)", "swapped(s.numbers)"),
    *("s.numbers[-1]", "s.numbers[1:]", "s.numbers[:-1]", "s.numbers[5:]", "s.numbers[-2:2]", "s.numbers + (s.n,)"),
    *("len(s.numbers)", "len(s.by_name)", "sorted(s.numbers)", "sorted(s.few)[0]", "max(s.numbers)", "min(s.few)"),
    *("max(s.numbers, default=0)", "max((), default=s.n)", "min(s.n, 2)", "max(s.n, 2, 9)", "sum(s.numbers)"),
    *("sum(1 for x in s.numbers if x == 1)", "any(x > 2 for x in s.numbers)", "all(x > 2 for x in s.numbers)"),
    *("any(s.numbers)", "all(x for x in s.numbers)", "next((x for x in s.numbers if x < 3), 0)", "s.n in s.few"),
    *("next(x for x in ordered(s.few) if x > 3)", "s.n not in s.few", "3 in s.numbers", "'a' in s.by_name"),
    *("s.few | {9}", "s.few - {3}", "s.few & {3, 9}", "s.few ^ {3, 9}", "s.few <= {3, 4, 5, 6}", "s.few < s.few"),
    *("s.few >= {3}", "{3} > s.few", "s.few.union([1])", "s.few.issubset({3})", "s.few.isdisjoint({1})"),
    *("s.few.intersection((3, 4))", "s.few.difference([3])", "s.few == {3, 4, 5}", "s.few != frozenset({3})"),
    *("{x + 1 for x in s.few}", "[x * 2 for x in s.numbers]", "{x: x + 1 for x in s.few}", "tuple(ordered(s.few))"),
    *("[(x, y) for x in s.numbers for y in s.numbers if x < y]", "frozenset(s.numbers)", "list(s.numbers)"),
    *("Map({x: 1 for x in s.few})", "s.by_name['a']", "s.by_name.get('a')", "s.by_name.get('z')"),
    *("s.by_name.get('z', s.n)", "s.by_name.put('z', 4)", "s.by_name.put('a', 4)", "s.by_name.without('a')"),
    *("s.by_name | {'a': 9, 'y': 8}", "sorted(s.by_name.values())", "ordered(s.by_name)", "ordered(s.by_name.items())"),
    *("sum(v for k, v in s.by_name.items())", "s.item.number", "s.item.double", "s.item.plus(1)"),
    *("s.item.plus(1, twice=True)", "s.item.but(number=s.n, more=())", "s.item.colour is Colour.BLUE"),
    *("replace(s.item, number=s.n, more=())", "dataclasses.replace(s.item, colour=Colour.RED)", "replace(s.item)"),
    *("s.item.colour == Colour.RED", "s.item == Item(7, Colour.BLUE, (4, 5))", "s.item in s.items", "Item(s.n)"),
    *("Item(number=s.n, more=(s.n,))", "ordered(s.items)", "[i.number for i in ordered(s.items)]"),
    *(
        "isinstance(s.item, Item)",
        "isinstance(s.item, Other)",
        "isinstance(s.item, (Other, Item))",
        "s.item != Other(7)",
    ),
    *("isinstance(s.item, Other | Item)", "isinstance(s.n, int)", "isinstance(s.flag, int)", "isinstance(s.n, bool)"),
    *("min(s.items, key=lambda i: i.number).number", "max(s.items, key=lambda i: (i.colour is Colour.RED, i.number))"),
    *("max(((1, 'a'), (1, 'b'), (0, 'c')), key=lambda p: p[0] + 0 * s.n)", "sorted(s.items, key=lambda i: -i.number)"),
    *("helper(s.n)", "helper(s.n, 2)", "helper(s.n, z=3)", "self.method(s.n)", "list(evens(s.few))", "factorial(s.n)"),
    *(
        "cached(s.n)",
        "list(range(s.n))",
        "list(range(1, s.n))",
        "list(range(s.n, 0, -1))",
        "list(enumerate(s.numbers))",
    ),
    *("list(enumerate(s.numbers, start=2))", "list(zip(s.numbers, s.numbers[1:]))", "list(reversed(s.numbers))"),
    *(
        "list(itertools.combinations(ordered(s.few), 2))",
        "list(itertools.combinations(s.numbers, s.n))",
        "(*s.numbers, 9)",
    ),
    *(
        "[*s.few, *s.numbers][0] > 0",
        "{*s.few, 8}",
        "[x for x, y in [(1, 2), (s.n, 4)] if y > 2]",
        "(y := s.n + 1) + y",
    ),
    *("(s.n, s.flag, None)", "(s.n, 2) < (s.n, 3)", "(s.n,) < (s.n, 0)", "self.limit + s.n"),
    *("tuple(x for x in s.numbers if x != 1)", "bool(s.numbers)", "bool(s.n - 3)", "[] == list(s.numbers[9:])"),
    *("self.counted(s.numbers)", "self.grown(s.few)", "self.looped(s.n)", "self.searched(s.numbers)", "s.few and s.n"),
    *("ordered([None, (1, 2), (3,), s.n, 'a', Colour.RED])", "ordered([s.item, Other(1), Item(1)])"),
    *(
        "ordered({frozenset({1, 2}), frozenset({3}), s.few})",
        "self.renamed(s.n, s.numbers)",
        "self.either(s.item)",
        "ordered([Map({1: 2}), Map({1: s.n})])",
    ),
    *("abs(s.n)", "abs(-s.n)", "s.n ** 2", "pow(2, s.n)", "s.n & 6", "s.n | 4", "s.n ^ 1", "-s.n & 6", "-s.n ^ 1"),
    *("1 << s.n", "s.n >> 1", "~s.n", "+s.n", "+s.flag", "int(s.flag)", "int(s.n)", "[0] * s.n", "(1, 2) * s.n"),
    *("s.numbers.count(1)", "sum(s.numbers, 1)", "sum([[1], [2]], [])", "s.numbers[::-1]", "s.few.copy()"),
    *("list(map(lambda x: x + s.n, s.numbers))", "tuple(map(helper, s.numbers))", "sum(map(len, [s.numbers, ()]))"),
    *("list(map(lambda x, y: x - y, s.numbers, s.numbers[1:]))", "any(map(lambda x: x > 2, s.numbers))"),
    *("list(filter(lambda x: x > 1, s.numbers))", "list(filter(None, [0, s.n]))", "max(*s.numbers)", "min(*s.few, 0)"),
    *("reduce(lambda a, b: a - b, s.numbers)", "reduce(lambda a, b: a | {b}, s.numbers, frozenset())"),
    *("max(s.by_name, key=s.by_name.get)", "sorted(s.numbers, reverse=True)", "getattr(s.item, 'number')"),
    *("sorted(s.numbers, key=lambda x: x % 2, reverse=True)", "sorted(s.items, key=lambda i: i.double, reverse=True)"),
    *("list(product(s.numbers, s.numbers[2:], [s.n]))", "list(product((s.n, 1), repeat=2))", "list(product())"),
    *("list(permutations(s.numbers, 2))", "list(permutations(ordered(s.few)))", "list(permutations((), 1))"),
    *("list(permutations(s.numbers, 5))", "list(permutations(s.numbers, 0))", "list(permutations(()))"),
    *("list(chain(s.numbers, range(s.n)))", "list(chain.from_iterable([s.numbers, (s.n,)]))", "list(chain())"),
    *("list(pairwise(s.numbers))", "list(pairwise((s.n,)))", "s.few.union({1}, [s.n])", "frozenset.union(s.few, {1})"),
    *("frozenset().union(*[s.few, {s.n}])", "s.few.intersection({3}, (3, 4))", "set.union({s.n}, s.few)"),
    *("Map({**s.by_name, 'z': s.n})", "Map({'a': s.n, **s.by_name, 'b': 9, **{'c': 4}})", "list({**{s.n: 1}, 1: 2})"),
    *("type(s.item) is Item", "type(s.item) != Item", "type(s.item) == Other", "(lambda x, y: x - y)(s.n, 1)"),
    *("s.by_name.keys() - {'a'}", "s.by_name.keys() & {'a', 'z'}", "len(s.by_name.values())", "len(s.by_name.keys())"),
    *("next(iter(s.numbers))", "next(iter(s.few & {3}))", "next(iter(()), s.n)", "most(s.n, *s.numbers, least=2)"),
    *("most(least=s.n)", "[matched(one) for one in [None, True, 1, s.n, s.numbers, s.numbers[1:], (1, 4), (4, 1)]]"),
    "[matched(one) for one in [Item(s.n, Colour.BLUE), Item(3, Colour.BLUE), Item(4, more=(1,)), Item(1, more=(1,))]]",
    "[matched(one) for one in [s.item, Item(1), Other(s.n), s.few, [1, s.n, 1], [s.n, 4], s.by_name, ()]]",
    *("changed(s.numbers, s.by_name)", "locally(s.numbers, s.by_name)", "tried(s, 'z')", "tried(s, 'a')", "guarded(s)"),
    *("f'x{s.n}'", "str(s.n)", "'n' + str(s.n)", "f'{s.n}' + 'x'", "[f'{x}-{s.n}' for x in s.numbers]"),
    *("int(s.n / 2)", "s.n / 2 > 1", "Counter(s.numbers).most_common(1)[0]", "Counter(s.numbers)[1] + s.n"),
    *("hasattr(s.item, 'number')", "round(s.n)", "s.numbers[::2]", "str(Colour.RED) + str(s.flag)", "Colour('Red')"),
    *("list(accumulate(s.numbers))", "[*accumulate(s.numbers), s.n]", "max(accumulate(s.numbers))"),
    *("[list(trying(s.numbers)), *trying((s.n,)), *(x for x in trying(s.numbers))]", "[doubly(s.n), doubly(s.n)]"),
    *("grouped(s.numbers)", "'-'.join(sorted(s.by_name))"),
]

METHODS = """
    def method(self, x):
        return x + self.limit

    def counted(self, values):
        found = {}
        for one in values:
            found[one] = found.get(one, 0) + 1
        return ordered(found.items())

    def grown(self, values):
        reached = {0}
        again = [0]
        for one in ordered(values):
            reached.add(one)
            reached |= {one + 10}
            again.append(one)
            again += [one]
        reached.discard(0)
        return ordered(reached) + again

    def looped(self, n):
        total = 0
        while True:
            n -= 1
            if n == 1:
                continue
            if n < 0:
                break
            total += n
        else:
            total = -1
        return total

    def searched(self, values):
        for one in values:
            if one == 2:
                return "two"
        else:
            return "none"

    def renamed(self, n, values):
        found = [helper(n, (n := 1)), divmod(7 + n, (n := 2)), values[n : (n := 3)], values.index((n := n - 1))]
        n += (n := 5)
        return [*found, n, Item(n, more=((n := 4), n)), {x for x in values if x in (y for y in values)}]

    def either(self, item):
        kind = Item if self.limit > 9 else Other
        return isinstance(item, kind)
"""


def made(path: Path, body: str) -> Any:
    """Return a module of the given source, in a file, so that the engine finds the source."""
    file = path / f"made_{abs(hash(body))}.py"
    file.write_text(HEAD + body)
    specification = importlib.util.spec_from_file_location(file.stem, file)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)

    sys.modules[file.stem] = module
    specification.loader.exec_module(module)
    return module


def protocol_of(path: Path, actions: str) -> Protocol:
    """Return a protocol over one `Box` with some actions."""
    body = f"""
class Boxes(Protocol):
    limit: int = constant("Limit", default=7)
    network = None

    def initial(self) -> Iterator[State]:
        yield self.start([], Box())
{METHODS}
{actions}
"""
    boxes: Protocol = made(path, body).Boxes()
    return boxes


def counts(result: Result) -> tuple[Any, ...]:
    """Return what two engines must agree on."""
    where = [(one.property, len(one.trace)) for one in result.violations]
    return result.verdict, result.distinct_states, result.generated_states, result.depth, result.actions, where


def request(protocol: Protocol, **options: Any) -> SearchRequest:
    checked = tuple(one for one in protocol.properties.values() if one.kind == "invariant")
    within = tuple(one for one in protocol.properties.values() if one.kind == "constraint")
    return SearchRequest(properties=checked, constraints=within, **options)


def both(protocol: Protocol, **options: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the counts of the bytecode engine, and those of the reference engine."""
    wanted = counts(by_reference(protocol, request(protocol, **options), whole_levels=True))
    return counts(explore(protocol, request(protocol, **options))), wanted


@pytest.mark.slow
def test_expressions_are_evaluated_as_python_does(tmp_path: Path) -> None:
    assert wrong_among(tmp_path, EXPRESSIONS) == []


def wrong_among(path: Path, expressions: list[str]) -> list[str]:
    """Return the expressions with another value than in Python, by a search without its sample of states."""
    from kraftcheck.explorer.bytecode import search

    class Unsampled(search.BytecodeSearch):
        @staticmethod
        def next_sample(first: int) -> int:
            return 1 << 62

    body = "".join(
        f"""
    def expression_{number}(self, s):
        {expression if "return" in expression else f"return {expression}"}

    @environment
    def try_{number}(self, shared: Box) -> Steps:
        found = self.expression_{number}(shared)
        yield Step().put(found=found == self.wanted_{number}, day={number} + 1)
"""
        for number, expression in enumerate(expressions)
    )
    protocol = protocol_of(path, body)
    box = next(iter(protocol.initial())).shared
    for number in range(len(expressions)):
        setattr(type(protocol), f"wanted_{number}", getattr(protocol, f"expression_{number}")(box))
    searched = Unsampled(protocol, request(protocol, max_depth=2, deadlock=False))
    result = searched.run()
    assert result.distinct_states == len(expressions) + 1
    shared = [searched.state(number).shared for number in range(1, result.distinct_states)]
    return [expressions[one.day - 1] for one in shared if not one.found]


class Drawer:
    """Random expressions over a box, by the kind of their values."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._variables: list[str] = []

    def draw(self, kind: str, depth: int = 3) -> str:
        """Return an expression of a kind: a number, a bool, a tuple of numbers, or a set of numbers."""
        form = self._random.choice(FORMS[kind][: None if depth else 3])
        if "{x}" in form:
            name = f"x{len(self._variables)}"
            source = self._random.choice(["<tuple>", "ordered(<set>)"])  # a set has another order in Python
            source = self._filled(source, depth)
            self._variables.append(name)
            form = form.replace("{x}", name).replace("{source}", f"({source})")
            found = self._filled(form, depth)
            self._variables.pop()
            return found
        return self._filled(form, depth)

    def statements(self, depth: int = 2) -> str:
        """Return statements that change three variables."""
        return "\n".join(self._statement(depth) for _ in range(self._random.randint(1, 3)))

    def _statement(self, depth: int) -> str:
        form = self._random.choice(STATEMENTS[: None if depth else 5])
        form = form.replace("{v}", self._random.choice("abc")).replace("{w}", self._random.choice("abc"))
        for name, margin in (("{block}", "    "), ("{inner}", 8 * " ")):
            while name in form:
                form = form.replace(name, indent(self.statements(depth - 1), margin), 1)
        return self._filled(form, 1)

    def function(self) -> str:
        """Return the body of a function of `s`."""
        self._variables = ["a", "b", "c"]
        lines = f"a, b, c = 1, s.n, 0\n{self.statements()}\n{self.statements()}\nreturn a, b, c"
        return indent(lines, 8 * " ").strip()

    def _filled(self, form: str, depth: int) -> str:
        for part in ("number", "bool", "tuple", "set"):
            while f"<{part}>" in form:
                form = form.replace(f"<{part}>", f"({self.draw(part, max(0, depth - 1))})", 1)
        if "<variable>" in form:
            form = form.replace("<variable>", self._random.choice([*self._variables, "s.n"]))
        return form.replace("<digit>", str(self._random.randint(-2, 4)))


FORMS = {
    "number": [
        *("s.n", "<digit>", "<variable>", "<number> + <number>", "<number> - <number>", "<number> * <digit>"),
        *(
            "<number> // 3",
            "<number> % 3",
            "len(<tuple>)",
            "len(<set>)",
            "sum(<tuple>)",
            "max(<tuple>, default=<digit>)",
        ),
        *(
            "min(<set>, default=0)",
            "<number> if <bool> else <number>",
            "sum(<number> for {x} in {source})",
            "-<number>",
        ),
        *("next(({x} for {x} in ordered({source}) if <bool>), <digit>)", "s.by_name.get('a', <number>)"),
        *("int(<number> / 2)", "round(<number> / 4)", "len(str(<number>))", "sum(accumulate(<tuple>))"),
        *("abs(<number>)", "int(<bool>)", "<number> & 7", "<number> ^ <digit>", "(lambda q: q - <number>)(<number>)"),
        *("reduce(lambda p, q: p - q, <tuple>, <number>)", "<tuple>.count(<number>)", "sum(<tuple>, <number>)"),
        *("max(*<tuple>, <number>, 0)", "next(iter(<tuple>), <number>)", "sum(map(lambda q: q + <number>, <tuple>))"),
        *("max([<number>, *<tuple>], key=lambda q: -q)", "helper(<number>, <number>)", "s.item.plus(<number>)"),
        *(
            "min(ordered(<set>) + [<number>])",
            "s.by_name.put('z', <number>)['z']",
            "s.item.but(number=<number>).double",
        ),
    ],
    "bool": [
        *(
            "s.flag",
            "<number> < <number>",
            "<number> == <number>",
            "<bool> and <bool>",
            "<bool> or <bool>",
            "not <bool>",
        ),
        *("<number> in <tuple>", "<number> not in <set>", "<set> <= <set>", "<tuple> == <tuple>", "<set> == <set>"),
        *("any(<bool> for {x} in {source})", "all(<bool> for {x} in {source})", "<tuple> < <tuple>", "bool(<tuple>)"),
        *("str(<number>) < str(<number>)", "str(<tuple>) == str(<tuple>)", "str(<number>) in [str(<number>), '3']"),
        *("<set>.isdisjoint(<set>)", "isinstance(s.item, Item) and <bool>", "<number> <= <number> < <number>"),
    ],
    "tuple": [
        *(
            "s.numbers",
            "()",
            "(<digit>, <digit>)",
            "(<number>,)",
            "<tuple> + <tuple>",
            "<tuple>[<digit>:]",
            "<tuple>[:<digit>]",
        ),
        *("tuple(ordered(<set>))", "tuple(sorted(<tuple>))", "tuple(<number> for {x} in {source} if <bool>)"),
        *("(*<tuple>, <number>)", "tuple(reversed(<tuple>))", "tuple(range(<digit>, <digit>))"),
        *("<tuple>[::-1]", "tuple(filter(lambda q: q < <number>, <tuple>))", "tuple(map(lambda q: <number>, <tuple>))"),
        *("tuple(sorted(<tuple>, reverse=True))", "tuple(chain(<tuple>, <tuple>))", "<tuple> * (<number> % 3)"),
        *("tuple(q - p for q, p in product(<tuple>[:3], <tuple>[:3]))", "tuple(p + q for p, q in pairwise(<tuple>))"),
        *("tuple(a + b for a, b in zip(<tuple>, <tuple>))", "tuple(i for i, _ in enumerate(<tuple>))"),
        *("tuple(sorted(<tuple>, key=lambda q: (q % 2, q)))", "tuple(evens(<set>))", "<tuple> if <bool> else <tuple>"),
    ],
    "set": [
        *("s.few", "frozenset()", "frozenset({<digit>, <digit>})", "<set> | <set>", "<set> & <set>", "<set> - <set>"),
        *("<set> ^ <set>", "frozenset(<tuple>)", "frozenset({<number> for {x} in {source}})", "<set> | {<number>}"),
        *("<set>.union(<tuple>, <set>)", "frozenset().union(*[<set>, <tuple>])", "<set>.intersection(<tuple>, <set>)"),
        *("<set>.union(<tuple>)", "frozenset(sum(q) for q in itertools.combinations(ordered(<set>), 2))"),
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))])
def test_random_expressions_are_evaluated_as_python_does(tmp_path: Path, seed: int) -> None:
    drawer, kinds = Drawer(seed), list(FORMS)
    expressions = [drawer.draw(kinds[number % 4]) for number in range(160)]
    assert wrong_among(tmp_path, expressions) == []


STATEMENTS = (
    *("{v} = <number> % 9", "{v} = {w} = <number> % 9", "{v}, {w} = <number> % 9, {v}", "{v} += <digit>", "{v} = {w}"),
    *("if {v}:\n{block}", "if <bool>:\n{block}\nelse:\n{block}", "if ({v} := <number> % 9) > {w}:\n{block}"),
    *("for {v} in (2, {w}, 1):\n{block}", "for {v} in range({w} % 4):\n{block}\n    if {w}:\n        break"),
    "for {v} in range(3):\n    if <bool>:\n        continue\n{block}\nelse:\n{block}",
    "match {w} % 4:\n    case 1 | 3:\n{inner}\n    case 2 if <bool>:\n{inner}\n    case _:\n{inner}",
    "match <tuple>:\n    case (1, *_) | ():\n{inner}\n    case (_, {v}, *_):\n{inner}",
    "d = {}\nfor {v} in <tuple>:\n    d.setdefault({v} % 3, set()).add({v} + {w})\n{w} = sum(map(len, d.values()))",
)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 9))])
def test_random_statements_are_executed_as_python_does(tmp_path: Path, seed: int) -> None:
    drawer = Drawer(seed)
    assert wrong_among(tmp_path, [drawer.function() for _ in range(60)]) == []


ITEMS_CHANGED_IN_PLACE = [
    (
        "found = {}\n        for n in s.numbers:\n            found.setdefault(n % 3, set()).add(n)\n"
        "        return [(n, sorted(found[n])) for n in sorted(found)]"
    ),
    (
        "found = {}\n        for n in s.numbers:\n            found.setdefault(n % 2, []).append(n)\n"
        "        for n in s.numbers:\n            if n in found:\n                found[n].extend([n, 7])\n"
        "        return sorted(len(one) for one in found.values())"
    ),
    (
        "found = {n: [] for n in range(3)}\n        for n in s.numbers:\n            found[n % 3].append(n)\n"
        "            found[n % 3].sort(reverse=True)\n        found[1] = [9]\n        found[1].remove(9)\n"
        "        return [found[n] for n in range(3)]"
    ),
    (
        "rows = [set(), {4}]\n        for n in s.numbers:\n            rows[n % 2].update({n}, (n, n + 1))\n"
        "        rows[0].discard(2)\n        return [sorted(row) for row in rows]"
    ),
    (
        "seen, left = set(), list(s.few)\n        while left:\n            n = left.pop()\n"
        "            if n not in seen:\n"
        "                seen.add(n)\n                left += frozenset({n // 2})\n                left += (n % 3,)\n"
        "        return sorted(seen)"
    ),
    (
        "found = {}\n        for n in s.numbers:\n            found.setdefault(n % 2, {}).update({n: n})\n"
        "        return sorted((found.get(1, {}) | found.get(0, {})).items())"
    ),
]


def test_items_are_changed_as_python_does(tmp_path: Path) -> None:
    assert wrong_among(tmp_path, ITEMS_CHANGED_IN_PLACE) == []


SECOND_NAMES_OF_ITEMS = [
    "one = found = {}\n        found[0] = found[1] = set()\n        found[0].add(1)\n        n = len(found[1])",
    "found = {0: set()}\n        one = found[0] = set()\n        found[0].add(1)\n        n = len(one)",
    "one, found = [1], {}\n        found[0], n = [one, 2]\n        found[0].append(1)\n        n = len(one)",
    "one = set()\n        found: dict[int, set[int]] = {0: one}\n        found[0].add(1)\n        n = len(one)",
    "one, found = set(), {}\n        found[0]: set[int] = one\n        found[0].add(1)\n        n = len(one)",
    "one = set()\n        found = {}\n        found |= {0: one}\n        found[0].add(1)\n        n = len(one)",
    "one = set()\n        found = []\n        found += [one]\n        found[0].add(1)\n        n = len(one)",
    "one = set()\n        found = {}\n        for found[0] in (one,):\n            found[0].add(1)\n        n = 1",
    "one = set()\n        found = {**{0: one}}\n        found[0].add(1)\n        n = len(one)",
    "found = {0: []}\n        found.setdefault(2, [found[0]]).append(5)\n        found[0].append(1)\n        n = 1",
    "found = self.shared_dict()\n        found[0].append(1)\n        n = 1",
    "one = set()\n        found, n = {1: one}, 2\n        found[1].add(2)\n        n = len(one)",
    "one = set()\n        found = {}\n        found[1] = one\n        found[1].add(2)\n        n = len(one)",
    "found = {1: set()}\n        one = found[1]\n        found[1].add(2)\n        n = len(one)",
    "found = {}\n        for k in (1, 1):\n            n = found.get(k)\n            found.setdefault(k, set()).add(2)",
    "one = [1]\n        found = {1: one}\n        found[1].append(2)\n        n = len(one)",
    "found = {k: shared.numbers for k in (1, 2)}\n        found[1].add(2)\n        n = 1",
    "found = dict({1: set()})\n        found[1].add(2)\n        n = 1",
    "found = {1: set()}\n        found[2] = found[1]\n        found[1].add(2)\n        n = len(found[2])",
    "found = {1: set()}\n        for one in found.values():\n            found[1].add(2)\n            n = len(one)",
    "found = {1: set()}\n        other = {2: found[1]}\n        found[1].add(2)\n        n = len(other[2])",
]


@pytest.mark.parametrize("body", SECOND_NAMES_OF_ITEMS)
def test_an_item_with_a_second_name_is_refused(body: str, tmp_path: Path) -> None:
    action = (
        f"    @environment\n    def go(self, shared: Box) -> Steps:\n        {body}\n        yield Step().put(n=n)\n"
    )
    protocol = protocol_of(tmp_path, action)
    with pytest.raises(NoBytecodeError, match="found, which is changed, has a second name"):
        explore(protocol, request(protocol))


REFUSED = {
    "this .pop() of an item": "found = {0: [1]}\n        found[0].pop()\n        yield Step().put(n=len(found[0]))",
    "this .append() of an item": "found = {0: []}\n        found[k := 0].append(5)\n        yield Step().put(n=k)",
    ".extend() with an iterator": (
        "left = [1]\n        left.extend(n for n in (2, 2) if n not in left)\n        yield Step().put(n=len(left))"
    ),
    "an iterator or a view": (
        "left = [1]\n        left += (n for n in (2, 2) if n not in left)\n        yield Step().put(n=len(left))"
    ),
    "a statement try": "try:\n            x = 1\n        except ValueError:\n            x = 2\n        yield Step()",
    "found, which is changed, has a second name": (
        "found = [1]\n        other = found\n        found.append(2)\n        yield Step().put(n=len(other))"
    ),
    "queue, which is changed": (
        "queue = [1]\n        for one in queue:\n            if one < 4:\n                queue.append(one + 1)\n"
        "        yield Step().put(n=len(queue))"
    ),
    "the method .pop()": "found = list(shared.numbers)\n        yield Step().put(n=found.pop())",
    "the action Go, which yields nothing itself": "return [Step().put(n=shared.n)]",
    "found, which is changed, has a second": (
        "found = other = [1]\n        found.append(2)\n        yield Step().put(n=len(other))"
    ),
    "a local function of several": (
        "def f(x):\n            y = x\n            return y\n        yield Step().put(n=f(1))"
    ),
    "the local function f": "f = lambda x: x\n        f = lambda x: x + 1\n        yield Step().put(n=f(1))",
    "the name f": "f = lambda x: x\n        g = [f]\n        yield Step().put(n=g[0](1))",
    "a local function with other than plain": "f = lambda x, y=2: x + y\n        yield Step().put(n=f(1))",
    "the name k in a guard and beyond": (
        "k = 7\n        match shared.n:\n            case k if k > 3:\n                x = 1\n            case _:\n"
        "                x = k\n        yield Step().put(n=x)"
    ),
    "a pattern MatchAs": (
        "match [shared.numbers, 2]:\n            case [x, 2]:\n                x = list(x)\n"
        "                x.append(1)\n        yield Step().put(n=len(x))"
    ),
    "a call of map": "yield Step().put(n=len(list(map(lambda x: x))))",
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_supported_is_refused_with_its_line(tmp_path: Path, what: str) -> None:
    action = f"    @environment\n    def go(self, shared: Box) -> Steps:\n        {REFUSED[what]}\n"
    protocol = protocol_of(tmp_path, action)
    with pytest.raises(NoBytecodeError, match=r"go, line|Go, which") as caught:
        explore(protocol, request(protocol))
    assert what.removesuffix("()") in str(caught.value)


KEPT = [
    "yield Step().put(found=not (x for x in shared.few if x > 9))",
    "few = (x for x in shared.few)\n        yield Step().put(n=sum(few) + sum(few))",
    "limit = shared.n\n        few = (x for x in shared.few if x > limit)\n        limit = 4\n"
    "        yield Step().put(n=sum(few))",
    "yield Step().put(found=list(shared.numbers) == range(3, shared.n))",
    "many = {1: 2}\n        keys = many.keys()\n        many[3] = 4\n        yield Step().put(n=sum(keys))",
    "yield Step().put(found=bool(evens(shared.few)))",
    "yield Step().put(n=helper(1, zip(shared.few, shared.few)))",
]

KEPT_BY_PYTHON = (KEPT[0], KEPT[3], KEPT[5])
"""Those that Python evaluates as a whole."""


@pytest.mark.parametrize("code", KEPT)
def test_an_iterator_or_a_view_is_consumed_where_it_is_made(tmp_path: Path, code: str) -> None:
    """Python evaluates an iterator late and once, so a list does not stand for one that is kept."""
    protocol = protocol_of(tmp_path, f"    @environment\n    def go(self, shared: Box) -> Steps:\n        {code}\n")
    if code in KEPT_BY_PYTHON:
        ours, wanted = both(protocol, deadlock=False)
        assert ours == wanted
    else:
        with pytest.raises(NoBytecodeError, match=r"an iterator or a view|an error in a call of Python"):
            explore(protocol, request(protocol))


def test_a_value_is_read_before_the_rest_of_its_expression_changes_it(tmp_path: Path) -> None:
    """The first samples, below 100, do not tell the two readings apart."""
    action = """
    @environment
    def go(self, shared: Box) -> Steps:
        if shared.day < 200:
            yield Step().put(day=shared.day + 1)
        hundreds = shared.day // 100
        yield Step().put(n=hundreds, found=bool(hundreds := 0))
"""
    found, wanted = both(protocol_of(tmp_path, action), deadlock=False)
    assert found == wanted


@pytest.mark.slow
def test_python_answers_in_properties_and_handlers(tmp_path: Path) -> None:
    """A state whose check waits for an answer is checked again, and its handler runs again."""
    code = """
    @environment
    def count(self, shared: Box) -> Steps:
        for more in (1, 2):
            if f"{shared.n + more}" not in ("9", "10", "17"):
                yield Step().put(n=shared.n + more, maybe=int(shared.n / more))

    @constraint
    def small(self, shared: Box) -> bool:
        return int(f"{shared.n}{shared.n}") < 2_000

    @invariant
    def known(self, shared: Box) -> bool:
        return tried(shared, f"{shared.n - 7}") == "none" and str(shared.n) != "BAD"
"""
    for bad, violations in (("99", 0), ("8", 1), ("3", 1)):
        protocol = protocol_of(tmp_path, code.replace("BAD", bad))
        for options in ({}, {"keep_going": True}):
            ours, wanted = both(protocol, deadlock=False, **options)
            assert ours == wanted
            assert len(ours[-1]) == violations


@pytest.mark.parametrize(("made", "kept"), [("shared.n * 7919 % 401", "-3:"), ("9000 - shared.n", ":3")])
def test_texts_made_in_a_search_have_their_places_in_the_order(
    made: str, kept: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kraftcheck.explorer.bytecode import search

    monkeypatch.setattr(search.BytecodeSearch, "next_sample", staticmethod(lambda first: first))
    code = f"""
    @environment
    def label(self, shared: Box) -> Steps:
        if shared.n < 400:
            names = sorted([*shared.by_name, f"{{{made}}}"])
            yield Step().put(n=shared.n + 1, by_name=Map({{name: shared.n for name in names[{kept}]}}))
"""
    ours, wanted = both(protocol_of(tmp_path, code), deadlock=False)
    assert ours == wanted
    assert ours[1] == 398


def test_python_is_not_asked_in_half_of_the_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kraftcheck.explorer.bytecode import search

    code = """
    @environment
    def count(self, shared: Box) -> Steps:
        if len(f"{shared.n}") < 3:
            yield Step().put(n=shared.n + 1)
"""
    protocol = protocol_of(tmp_path, code)
    ours, wanted = both(protocol, deadlock=False)
    assert ours == wanted
    monkeypatch.setattr(search, "MOST_ANSWERS", 20)
    with pytest.raises(
        NoBytecodeError, match=r"a call with text .*which Python evaluates in more than one of two steps"
    ):
        explore(protocol, request(protocol))


CHANGING = [
    "d = dict(shared.by_name)\n        d.pop('zz')\n        yield Step()",
    "x = [shared.n]\n        x.pop()\n        x.pop()\n        yield Step()",
    "d = dict(shared.by_name)\n        n = d.setdefault('zz', 0)\n        yield Step().put(n=n + len(d))",
    "found = [shared.n]\n        n = growing(found)\n        yield Step().put(n=n + len(found))",
    "p = itertools.product((1,), (3, shared.n))\n        yield Step().put(n=sum(1 for _ in p) + sum(1 for _ in p))",
    "even = evens(shared.few)\n        yield Step().put(n=sum(1 for _ in even) + sum(1 for _ in even))",
    "match shared.n:\n            case x if any(x > 1 for x in (1, 2)):\n                yield Step().put(n=x)",
    "f = lambda x: (x, k)\n        if shared.n > 99:\n            k = 1\n        yield Step().put(n=len(f(1)))",
]
"""Code that raises an error, or that changes a value or consumes an iterator twice where a copy would not show it."""


@pytest.mark.parametrize("code", CHANGING)
def test_a_change_or_an_error_of_python_is_not_lost(tmp_path: Path, code: str) -> None:
    protocol = protocol_of(tmp_path, f"    @environment\n    def go(self, shared: Box) -> Steps:\n        {code}\n")
    with pytest.raises(NoBytecodeError) as caught:
        explore(protocol, request(protocol))
    assert "differs from Python" not in str(caught.value)


def test_a_local_function_takes_variables_as_they_are_when_it_is_called(tmp_path: Path) -> None:
    code = """
    @environment
    def go(self, shared: Box) -> Steps:
        add = lambda x: x + k
        k = 5
        numbers = [add(k) for k in (1, 2)]
        for k in numbers:
            yield Step().put(n=add(k))
        items = {1: 1}
        view = items.items()
        items = {2: 2, 3: 3}
        yield Step().put(n=len([key for key, _ in view]) + len(items))
"""
    protocol = protocol_of(tmp_path, code)
    ours, wanted = both(protocol, deadlock=False, max_depth=3)
    assert ours == wanted


def test_a_local_variable_is_not_taken_for_a_global_one(tmp_path: Path) -> None:
    action = """
    @environment
    def go(self, shared: Box) -> Steps:
        helper = shared.n + 1
        if shared.n < 9:
            yield Step().put(n=len([helper for helper in (1, 2)]) + helper)
"""
    found, wanted = both(protocol_of(tmp_path, action), deadlock=False)
    assert found == wanted


def test_a_handler_that_depends_on_the_order_of_a_set_is_an_error(tmp_path: Path) -> None:
    action = """
    @environment
    def go(self, shared: Box) -> Steps:
        yield Step().put(n=next(x for x in shared.few))
"""
    protocol = protocol_of(tmp_path, action)
    with pytest.raises(ActionError, match="order of a set"):
        explore(protocol, request(protocol))


def test_values_that_are_nested_deeply_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kraftcheck.explorer.bytecode import search

    monkeypatch.setattr(search, "SAMPLE_INTERVAL_STATES", 1 << 9)  # else each sample decodes a few levels more
    body = """
class Nest(Record):
    inner: "Nest | None" = None


class Nested(Protocol):
    network = None

    def initial(self) -> Iterator[State]:
        yield self.start([], Nest())

    @environment
    def wrap(self, shared: Nest) -> Steps:
        yield Step().put(inner=shared)
"""
    protocol = made(tmp_path, body).Nested()
    with pytest.raises(InputError, match=r"so deep a recursion|maximum recursion depth"):
        explore(protocol, request(protocol, max_states=30_000))


UNSURE = {
    "a wrong type that another field has": "yield Step().put(few=frozenset({9}), items=frozenset({9}))",
    "a bool and a number": "yield Step().put(found=shared.flag == shared.n)",
    "a large number": "yield Step().put(n=shared.n * 1000 * 1000 * 1000)",
    "a missing key": "yield Step().put(n=shared.by_name['q'])",
    "a wrong type": "yield Step().put(n=shared.maybe)",
    "a list in a field": "yield Step().put(numbers=[shared.n])",
    "an unbound variable": "if shared.n > 3:\n            x = 1\n        yield Step().put(n=x)",
    "a set in a set": "yield Step().put(n=len({{shared.n}}))",
    "an order of records": "yield Step().put(n=min(shared.items).number)",
    "an append to a set": "found = {1}\n        found.append(2)\n        yield Step().put(n=len(found))",
    "an assertion": "assert shared.n > 3\n        yield Step().put(n=1)",
    "not a step": "yield shared.n",
    "endless": "n = shared.n\n        while n > 0:\n            n += 0 * shared.n\n        yield Step().put(n=n)",
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("what", UNSURE)
def test_what_python_defines_otherwise_ends_the_search(tmp_path: Path, what: str) -> None:
    action = f"    @environment\n    def go(self, shared: Box) -> Steps:\n        {UNSURE[what]}\n"
    protocol = protocol_of(tmp_path, action)
    with pytest.raises(NoBytecodeError):
        explore(protocol, request(protocol))


COUNTING = """
    copies: int = bound("MaxCopies", default=2)

    @environment
    def count(self, shared: Box) -> Steps:
        for more in (1, 2):
            if shared.n + more < 12:
                yield Step().put(n=shared.n + more)
        yield Step().put(n=shared.n)

    @environment
    def copy(self, shared: Box) -> Steps:
        yield Step().put(numbers=(*shared.numbers, shared.n)).spend("copies")

    @constraint
    def small(self, shared: Box) -> bool:
        return len(shared.numbers) < 6

    @invariant
    def below(self, shared: Box) -> bool:
        return shared.n < {limit}
"""


@pytest.mark.parametrize("limit", [20, 9])
@pytest.mark.parametrize("options", [{}, {"keep_going": True}, {"max_depth": 3}])
def test_counts_are_those_of_the_reference_engine(tmp_path: Path, limit: int, options: dict[str, Any]) -> None:
    found, wanted = both(protocol_of(tmp_path, COUNTING.format(limit=limit)), **options)
    assert found == wanted


def test_the_limit_on_states_is_exact(tmp_path: Path) -> None:
    protocol = protocol_of(tmp_path, COUNTING.format(limit=20))
    assert explore(protocol, request(protocol, max_states=7)).distinct_states == 7


@pytest.mark.slow
def test_a_state_may_have_many_successors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log of a sampled state grows."""
    action = """
    @environment
    def go(self, shared: Box) -> Steps:
        for n in range(2_000 if shared.day == 0 else 0):
            yield Step().put(day=n)
"""
    monkeypatch.setattr(search_encoding, "FIRST_STEP_LOG_ENTRIES", 100)
    protocol = protocol_of(tmp_path, action)
    assert explore(protocol, request(protocol, deadlock=False, max_states=2_000)).distinct_states == 2_000


def test_a_deadlock_is_found(tmp_path: Path) -> None:
    action = """
    @environment
    def go(self, shared: Box) -> Steps:
        if shared.n < 6:
            yield Step().put(n=shared.n + 1)
"""
    found, wanted = both(protocol_of(tmp_path, action))
    assert found == wanted
    assert wanted[-1] == [("Deadlock", 4)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("model", "config", "constants"),
    [
        ("si.py:SnapshotIsolation", "si.one.cfg", {}),
        ("disruptor.py:Disruptor", "disruptor.cfg", {"MaxPublished": 2}),
        ("paxos_shared.py:Paxos", "paxos_shared.cfg", {"MaxBallot": 0}),
        pytest.param(
            *("mongo.py:LoglessRaft", "mongo.cfg", {"MaxTerm": 2, "MaxConfigVersion": 2}), marks=pytest.mark.slow
        ),
        pytest.param("kip279.py:Kip279", "kip279.small.cfg", {}, marks=pytest.mark.slow),
        ("die-hard", "default", {}),
    ],
)
def test_protocols_as_others_write_them(model: str, config: str, constants: dict[str, int]) -> None:
    place = f"{STYLES}/" if ".py" in model else ""
    loaded = load(place + model, place + config, constants=constants)
    found, wanted = loaded.check(engine="bytecode"), loaded.check(engine="reference")
    assert counts(found) == counts(wanted)
    assert (found.vacuous, found.never_evaluated) == (wanted.vacuous, wanted.never_evaluated)


@pytest.mark.parametrize("is_compiled", [True, False])
def test_a_search_whose_inputs_hardly_repeat_is_taken_over(is_compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "is_interpreter_compiled", lambda: is_compiled)
    monkeypatch.setattr(engines, "BYTECODE_TRIAL_STATES", 1)
    monkeypatch.setattr(engines, "ENGINE_CALL_THRESHOLDS", {"bytecode": ((64, 0.2),)})
    place = f"{STYLES / 'disruptor.py'}:Disruptor"
    found = load(place, f"{STYLES / 'disruptor.cfg'}", constants={"MaxPublished": 3}).check()
    assert (found.engine, found.distinct_states, found.generated_states) == (
        "bytecode" if is_compiled else "tables",
        645,
        2_315,
    )
    assert any("the bytecode engine searched" in note for note in found.notes) == is_compiled


def test_a_wrong_translation_shows_in_the_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    from kraftcheck.explorer.bytecode.expressions import BINARY_OPS

    monkeypatch.setitem(BINARY_OPS, ast.Add, Op.SUB)
    protocol = protocol_of(tmp_path, COUNTING.format(limit=20))
    with pytest.raises(NoBytecodeError, match="differs from Python"):
        explore(protocol, request(protocol))


@pytest.mark.parametrize(
    ("first", "sampled"),
    [(7, 7), (65, 256), (1_024, 1_024), (1 << 17, 1 << 17), ((1 << 20) + 1, (1 << 20) + (1 << 13))],
)
def test_samples_become_rarer(first: int, sampled: int) -> None:
    assert BytecodeSearch.next_sample(first) == sampled


def test_a_wrong_verdict_shows_in_the_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    from kraftcheck.explorer.bytecode.expressions import BINARY_OPS

    protocol = protocol_of(tmp_path, COUNTING.format(limit=9).replace("shared.n < 9", "not shared.n >= 9"))
    monkeypatch.setitem(BINARY_OPS, ast.GtE, Op.LT)
    with pytest.raises(NoBytecodeError, match="differs from Python"):
        explore(protocol, request(protocol, keep_going=True))


@pytest.mark.parametrize("limit", [None, 0])
def test_one_state_has_depth_one(tmp_path: Path, limit: int | None) -> None:
    invariant = f"""
    @invariant
    def below(self, shared: Box) -> bool:
        return shared.n < {limit}
"""
    found, wanted = both(protocol_of(tmp_path, "    pass\n" if limit is None else invariant))
    assert found == wanted


RARE = """
    @environment
    def count(self, shared: Box) -> Steps:
        if shared.n == 203:
            yield Step().put(n=shared.n + shared.n)
        elif shared.n < 300:
            yield Step().put(n=shared.n - -1)

    @invariant
    def below(self, shared: Box) -> bool:
        return shared.n < 1000
"""


def test_a_wrong_translation_shows_in_the_first_state_that_executes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kraftcheck.explorer.bytecode.expressions import BINARY_OPS

    protocol = protocol_of(tmp_path, RARE)
    found, wanted = both(protocol)
    assert found == wanted
    monkeypatch.setitem(BINARY_OPS, ast.Add, Op.SUB)
    with pytest.raises(NoBytecodeError, match="differs from Python"):
        explore(protocol, request(protocol))


def test_the_verdict_of_an_initial_state_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kraftcheck.explorer.bytecode.expressions import BINARY_OPS

    protocol = protocol_of(tmp_path, COUNTING.format(limit=0))
    monkeypatch.setitem(BINARY_OPS, ast.Lt, Op.GE)
    with pytest.raises(NoBytecodeError, match="differs from Python"):
        explore(protocol, request(protocol))


def test_messages_and_features_are_refused() -> None:
    with pytest.raises(Exception, match="messages"):
        load("two-phase-commit", "smoke").check(engine="bytecode")


def test_maps_with_equal_keys_of_different_types_are_different_values() -> None:
    """Also where keys are sorted and encoded once for many maps."""
    heap = ValueHeap()
    one, true, other = (1,), (True,), (0,)
    maps = [Map({key: n, other: 2}) for n in range(3) for key in (one, true)]
    maps += [Map({other: 2, key: 1}) for key in (one, true)]
    encoded = [heap.encode(found) for found in maps]
    assert len(set(encoded)) == 6
    assert encoded[2:4] == encoded[6:]
    assert [heap.decode(found) for found in encoded] == maps
    assert [sorted(map(repr, heap.decode(found))) for found in encoded[:2]] == [["(0,)", "(1,)"], ["(0,)", "(True,)"]]


def test_an_action_may_yield_nothing(tmp_path: Path) -> None:
    code = """
    @environment
    def count(self, shared: Box) -> Steps:
        if shared.n < 9:
            yield Step().put(n=shared.n + 1)

    @environment
    def never(self, shared: Box) -> Steps:
        return
        yield
"""
    ours, wanted = both(protocol_of(tmp_path, code), deadlock=False)
    assert ours == wanted
    assert ours[1] == 7


@pytest.mark.parametrize("most", [0, 1, 2])
def test_properties_may_take_the_uses_of_bounds(most: int, tmp_path: Path) -> None:
    code = f"""
    tries: int = bound("MaxTries", default=2)

    @environment
    def count(self, shared: Box) -> Steps:
        if shared.n < 5:
            yield Step().put(n=shared.n + 1).spend("tries")

    @reachable
    def done(self, shared: Box, spent: Map[str, int]) -> bool:
        return shared.n > 3 and spent["tries"] > {most}

    @predicate
    def tried(self, spent: Map[str, int]) -> bool:
        return spent["tries"] > {most}

    @temporal
    def rarely(self):
        return always(~self.tried)
"""
    protocol = protocol_of(tmp_path, code)
    kinds = {one.kind: (one,) for one in protocol.properties.values()}
    asked = SearchRequest(
        reachable=kinds["reachable"], temporal=kinds["temporal"], deadlock=False, keep_going=True, strict_bounds=True
    )
    names = [sorted(one.property for one in run(protocol, asked).violations) for run in (explore, by_reference)]
    assert names == 2 * [["Rarely"] if most < 2 else ["Done"]]

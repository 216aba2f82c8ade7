"""Random protocols under a VIEW: where nothing hidden is read, states that look alike are one; else it is said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kraftcheck.engines import search
from kraftcheck.explorer.reference import ReferenceSearch
from kraftcheck.explorer.result import Result, Search, SearchRequest
from kraftcheck.explorer.transition_system import canonicalizer
from kraftcheck.spec import Bag, Protocol, Record, State, Step, bound, environment, hide, invariant
from kraftcheck.spec.language.views import HiddenReadError
from kraftcheck.traces import crosscheck

pytestmark = pytest.mark.kernel

FIELDS = ("a", "b", "c")
Tests = tuple[tuple[str, int], ...]


class World(Record):
    """Three numbers below 3."""

    a: int = 0
    b: int = 0
    c: int = 0


class Drawn(Protocol):
    """Rules and invariants that read and write some of the three."""

    network = Bag()
    ticks: int = bound("MaxTicks", default=2)

    def initial(self) -> Iterator[State]:
        """All are 0."""
        yield self.start([], World())


def fits(shared: Any, tests: Tests) -> bool:
    """Return whether fields have values; a field is read where all tests before its own hold."""
    return all(getattr(shared, name) == value for name, value in tests)


def drawn_tests(random: Random, most: int, fields: tuple[str, ...]) -> Tests:
    return tuple((random.choice(fields), random.randrange(3)) for _ in range(random.randint(0, most)))


def drawn(random: Random) -> Drawn:
    """Draw a protocol with a view."""
    hidden = random.sample((*FIELDS, "ticks"), random.choice((1, 1, 2)))
    members: dict[str, Any] = {"views": {"view": hide(*hidden)}}
    reads = FIELDS if random.random() < 0.5 else tuple(name for name in FIELDS if name not in hidden)
    for number in range(random.randint(3, 7)):
        tests, spends = drawn_tests(random, 2, reads), ("ticks",) if random.random() < 0.15 else ()
        puts = {random.choice(FIELDS): random.choice((0, 1, 2, *reads)) for _ in range(random.randint(1, 2))}
        members[f"rule_{number}"] = environment(rule(tests, puts, spends))
    for number in range(2):
        members[f"holds_{number}"] = invariant(holds(drawn_tests(random, 3, reads)))
    made: Drawn = type("DrawnWithView", (Drawn,), members)()
    return made


def rule(tests: Tests, puts: dict[str, Any], spends: tuple[str, ...]) -> Any:
    """Return an action that puts numbers, or a field's next number, where the tests hold."""

    def step(self: Drawn, shared: World) -> Iterator[Step]:
        if fits(shared, tests):
            written = {n: v if isinstance(v, int) else (getattr(shared, v) + 1) % 3 for n, v in puts.items()}
            yield Step().put(**written).spend(*spends)

    return step


def holds(tests: Tests) -> Any:
    """Return an invariant: not all of the tests hold."""

    def kept(self: Drawn, shared: World) -> bool:
        return not (tests and fits(shared, tests))

    return kept


def seen(result: Result) -> tuple[int, set[str]]:
    """Return what depends on the order where something hidden is read."""
    return result.distinct_states, {violation.property for violation in result.violations}


@pytest.mark.slow
def test_what_is_read_decides_whether_the_order_matters() -> None:
    random, kinds = Random(38), Counter[str]()
    for _ in range(100):
        protocol = drawn(random)
        properties = tuple(prop for prop in protocol.properties.values() if prop.kind == "invariant")
        options = SearchRequest(properties=properties, deadlock=False, keep_going=True)
        whole = ReferenceSearch(protocol, options)
        seen_whole = seen(whole.run())
        options = replace(options, view="view")
        first = ReferenceSearch(protocol, options).run()
        by_properties = any("read by invariant" in one for one in first.warnings)
        by_actions = any("spent by action" in one for one in first.warnings)
        if by_properties:
            kinds["refused"] += 1
            for more in ({"workers": 2}, {"search": Search.DFS}, {"search": Search.IDDFS}):
                with pytest.raises(HiddenReadError, match="which VIEW view leaves out"):
                    search("tables", protocol, replace(options, **more))
            assert seen(search("tables", protocol, options)) == seen(first)
            continue
        kinds["warned" if by_actions else "exact"] += 1
        found = [search("tables", protocol, replace(options, search=order)) for order in Search]
        assert all(any("spent by action" in one for one in each.warnings) is by_actions for each in found)
        if not by_actions:
            kinds["smaller"] += first.distinct_states < seen_whole[0]
            identity = canonicalizer(protocol, None, "view")
            expected = len(set(map(identity, whole.states()))), seen_whole[1]
            assert [seen(each) for each in (first, *found)] == [expected] * (1 + len(found)), protocol
    assert all(kinds[kind] >= 10 for kind in ("refused", "warned", "exact", "smaller")), kinds


MODULE = """\
---- MODULE Traced ----
EXTENDS Integers
VARIABLES at, trace
Init == at = 0 /\\ trace = 0
One == at = 0 /\\ at' = 1 /\\ trace' = {first}
Other == at = 0 /\\ at' = 1 /\\ trace' = {second}
Next == One \\/ Other
View == at
Fine == trace # 2
====
"""


class Traced(Drawn):
    """Two steps lead to states that differ in the field `b` alone, which the view leaves out."""

    first = 1
    views = {"View": hide("b")}

    @environment
    def one(self, shared: World) -> Iterator[Step]:
        """Take the first."""
        if shared.a == 0:
            yield Step().put(a=1, b=self.first)

    @environment
    def other(self, shared: World) -> Iterator[Step]:
        """Take the other."""
        if shared.a == 0:
            yield Step().put(a=1, b=3 - self.first)

    @invariant
    def fine(self, shared: World) -> bool:
        """It reads the field."""
        return shared.b != 2


class OtherFirst(Traced):
    """The other way round."""

    first = 2


@pytest.mark.slow
@pytest.mark.tlc
@pytest.mark.parametrize("cls", [Traced, OtherFirst])
def test_tlc_checks_the_state_found_first(tmp_path: Path, cls: type[Traced]) -> None:
    protocol, (spec, config) = cls(), (tmp_path / "Traced.tla", tmp_path / "Traced.cfg")
    spec.write_text(MODULE.format(first=cls.first, second=3 - cls.first))
    config.write_text("INIT Init\nNEXT Next\nVIEW View\nINVARIANT Fine\n")
    theirs = crosscheck.run_tlc(crosscheck.find_tlc(), spec, config, ["-deadlock"])
    options = SearchRequest(properties=(protocol.properties["Fine"],), deadlock=False, view="View")
    for engine in ("reference", "tables"):
        ours = search(engine, protocol, options)
        assert [violation.property for violation in ours.violations] == ([theirs.violated] if theirs.violated else [])
        assert (ours.distinct_states, ours.generated_states) == (theirs.distinct, theirs.generated)


class Ticking(Drawn):
    """Each tick spends the bound that the view leaves out; then nothing can happen."""

    views = {"View": hide("ticks")}

    @environment
    def tick(self) -> Iterator[Step]:
        """Change nothing but what is spent."""
        yield Step().spend("ticks")


@pytest.mark.parametrize("engine", ["reference", "tables", "symbolic"])
def test_a_deadlock_where_a_hidden_bound_is_spent_is_warned_of(engine: str) -> None:
    assert search(engine, Ticking(), SearchRequest()).violations
    hiding = search(engine, Ticking(), SearchRequest(view="View"))
    assert not hiding.violations
    assert any("leaves out ticks" in warning for warning in hiding.warnings), hiding.warnings

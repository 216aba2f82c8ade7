"""Actions that are a union over the elements of a constant: pieces of their own, and the steps that these share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from kraftcheck.explorer import reference
from kraftcheck.explorer.bytecode import engine as bytecode
from kraftcheck.explorer.calls.handlers import HandlerCaller
from kraftcheck.explorer.request import Search, SearchRequest
from kraftcheck.explorer.tables import engine as tables
from kraftcheck.explorer.tables.learning import shared_sets
from kraftcheck.explorer.tables.learning.python_misses import PythonMissHandler
from kraftcheck.spec import Protocol, Record, State, Step, Steps, become, bound, environment, internal, invariant
from kraftcheck.spec.errors import NoBytecodeError
from kraftcheck.spec.language.declarations import Action
from tests.support.explorer.agreement import check_agreement, compared
from tests.support.explorer.random_protocols import sample

pytestmark = pytest.mark.kernel


@pytest.fixture
def doubled(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Give each action two pieces that both make all of its steps; return the actions' names."""
    names = set()

    def pieces(answers: PythonMissHandler, action: Action, message: Any) -> Iterable[int | None]:
        if message is not None or any(read.of_inbox for read in action.reads):
            return (None,)
        names.add(action.name)
        answers.calls._pieces[action.name] = ()  # each piece is the whole action
        return range(2)

    monkeypatch.setattr(PythonMissHandler, "_pieces", pieces)
    return names


EXAMPLES = [3, pytest.param(15, marks=pytest.mark.slow), pytest.param(40, marks=pytest.mark.exhaustive)]


@pytest.mark.slow
@pytest.mark.parametrize("examples", EXAMPLES)
def test_a_step_of_two_pieces_is_one_step(examples: int, doubled: set[str]) -> None:
    for number, found in enumerate(sample(examples, seed=5_911, large=60, most=1_000)):
        check_agreement(found, 1 + number % 2)
    assert doubled


@pytest.mark.slow
@pytest.mark.parametrize("examples", EXAMPLES)
def test_a_step_of_two_pieces_is_one_step_of_flat_states(
    examples: int, doubled: set[str], packed_together: list[list[list[int]]]
) -> None:
    for number, found in enumerate(sample(examples, seed=5_912, large=60, most=1_000)):
        check_agreement(found, 1 + number % 2)
    assert doubled
    assert packed_together


class Item(Record):
    by: int
    number: int


class Seat(Record):
    id: int
    count: int = 0


class Table(Record):
    items: frozenset[Item] = frozenset()
    last: int = 0


class Loops(Protocol):
    """Actions that end in a loop; the names of those with dependent iterations begin with `whole`."""

    numbers = (1, 2, 3)
    most: int = bound("Most")

    def initial(self) -> Iterator[State]:
        """Two seats at an empty table."""
        yield self.start([Seat(1), Seat(2)], Table())

    def is_free(self, items: frozenset[Item], number: int) -> bool:
        """Return whether an item is missing."""
        return all(item.number != number for item in items)

    @environment
    def add(self, shared: Table) -> Steps:
        """Add an item, after the one before it; several numbers lead to the same step."""
        for number in self.numbers:
            if number > 1 and self.is_free(shared.items, number - 1):
                continue
            for by in (0, number):
                yield Step().put(items=shared.items | {Item(by % 3, number)})
                if by:
                    yield Step().put(items=shared.items)

    @internal
    def count(self, me: Seat, shared: Table) -> Steps:
        """Count to the number of an item, with a guard, and a variable that each iteration sets first."""
        if me.count > 2:
            return
        for number in range(1, 4):
            later = me.but(count=min(number, 2)) if any(item.number == number for item in shared.items) else me
            if later.count > me.count:
                yield become(later).spend("most")
            yield become(me.but(count=me.count))

    @environment
    def whole_carries(self, shared: Table) -> Steps:
        """Add to what earlier iterations have found."""
        seen: list[int] = []
        for number in self.numbers:
            if not self.is_free(shared.items, number):
                seen.append(number)
            yield Step().put(last=len(seen))

    @environment
    def whole_reads_late(self, shared: Table) -> Steps:
        """Read what the iteration before has set."""
        for number in self.numbers:
            if number == 1:
                before = 0
            if not self.is_free(shared.items, number):
                yield Step().put(last=before)
            before = number

    @environment
    def whole_breaks(self, shared: Table) -> Steps:
        """Stop at the first missing item."""
        for number in self.numbers:
            if self.is_free(shared.items, number):
                break
            yield Step().put(last=number)

    @environment
    def whole_returns(self, shared: Table) -> Steps:
        """Return at the first missing item."""
        for number in self.numbers:
            if self.is_free(shared.items, number):
                return
            yield Step().put(last=number)

    @environment
    def whole_varies(self, shared: Table) -> Steps:
        """Loop over what the state has."""
        for number in range(shared.last + 2):
            if self.is_free(shared.items, number):
                yield Step().put(last=number % 3)

    @invariant
    def few(self, shared: Table) -> bool:
        """Return whether there are few items, or none is the last."""
        return len(shared.items) < 5 or shared.last < 2


PROTOCOL = Loops(most=2)
SPLIT = {"Add", "Count"}


@pytest.fixture
def exploded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Explode sets of few values, into several columns."""
    monkeypatch.setattr(shared_sets, "FEWEST_VALUES_TO_EXPLODE", 8)
    monkeypatch.setattr(shared_sets, "ELEMENTS_A_COLUMN", 2)


def test_only_independent_iterations_are_pieces() -> None:
    calls = HandlerCaller(PROTOCOL)
    assert {name for name, action in PROTOCOL.actions.items() if len([*calls.pieces(action)]) > 1} == SPLIT


@pytest.mark.usefixtures("exploded")
@pytest.mark.parametrize("is_flat", [False, True])
def test_pieces_have_the_steps_of_the_whole_action(
    is_flat: bool, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    laid_out = request.getfixturevalue("laid_out") if is_flat else None
    if is_flat:  # flat states have no exploded sets
        monkeypatch.setattr(PythonMissHandler, "_pieces", lambda answers, action, _: answers.calls.pieces(action))
    options = SearchRequest(properties=(PROTOCOL.properties["Few"],), keep_going=True)
    expected = reference.explore(PROTOCOL, options)
    for search in (Search.BFS, Search.DFS):
        found = tables.explore(PROTOCOL, replace(options, search=search))
        assert compared(found) == compared(expected)
        assert found.depth == expected.depth or search is Search.DFS
    assert laid_out is None or True in laid_out


@pytest.mark.usefixtures("exploded")
@pytest.mark.parametrize("engine", [tables, bytecode])
def test_an_action_whose_code_was_replaced_is_not_taken_from_its_file(
    engine: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, function = PROTOCOL.properties["Few"], PROTOCOL.actions["Add"].function
    code = function.__code__
    constants = tuple(2 if one == 3 else one for one in code.co_consts)
    assert constants != code.co_consts
    before = reference.explore(PROTOCOL, SearchRequest(properties=(few,), keep_going=True))
    monkeypatch.setattr(function, "__code__", code.replace(co_consts=constants))
    options = SearchRequest(properties=(few,), keep_going=True)
    expected = reference.explore(PROTOCOL, options)
    assert expected.distinct_states != before.distinct_states
    with nullcontext() if engine is tables else pytest.raises(NoBytecodeError, match="has changed"):
        assert compared(engine.explore(PROTOCOL, options)) == compared(expected)

"""Actions that cheat are named, with `--check-actions` and without, and honest ones are not."""

from __future__ import annotations

import gc
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from kraftcheck.explorer import reference
from kraftcheck.explorer.result import Result, Search, SearchRequest
from kraftcheck.explorer.symbolic import engine as symbolic
from kraftcheck.explorer.tables import engine
from kraftcheck.spec import MessageSet, Protocol, Record, State, Steps, become, constant, hide, internal, reachable
from kraftcheck.spec.errors import ActionError, InputError
from kraftcheck.spec.examples.lock_service import LockService
from kraftcheck.spec.language.protocol import bound
from kraftcheck.spec.values import Map, ModelValue

SAMPLING = {
    "symbolic": lambda protocol, options: symbolic.explore(protocol, replace(options, search="saturation")),
}
ENGINES = {"reference": reference.explore, "tables": engine.explore}


class Ticker(Record):
    id: int
    count: int = 0


class Nothing(Record):
    pass


KEPT: dict[str, Any] = {"calls": 0, "seen": set(), "noted": False}


class Honest(Protocol):
    ticks: int = bound("Ticks", default=4)

    def initial(self) -> Iterator[State]:
        KEPT.update(calls=0, seen=set(), noted=False)
        yield self.start([Ticker(1), Ticker(2)], Nothing())

    @internal
    def tick(self, me: Ticker) -> Steps:
        yield become(me.but(count=self.next(me))).spend("ticks")

    def next(self, me: Ticker) -> int:
        return me.count + random.Random(me.count).randrange(2)  # seeded: always the same


def cheats_with(function: Callable[[Any, Ticker], int]) -> Protocol:
    return type("Cheat", (Honest,), {"next": function})()


def counts_calls(self: Protocol, me: Ticker) -> int:
    KEPT["calls"] += 1
    return int(KEPT["calls"]) % 7


def remembers(self: Protocol, me: Ticker) -> int:
    fresh = me not in KEPT["seen"]
    KEPT["seen"].add(me)
    return int(fresh)


def changes_its_input(self: Protocol, me: Ticker) -> int:
    object.__setattr__(me, "count", me.count + 1)
    return 0


def told_by_another_call(self: Protocol, me: Ticker) -> int:
    if me.count == 2:
        KEPT["noted"] = True
    return 0 if KEPT["noted"] and me.count == 0 else me.count + 1


def writes_an_attribute(self: Any, me: Ticker) -> int:
    self.total = me.count + 1
    return int(self.total)


def explored(name: str, protocol: Protocol, search: Search = Search.BFS, check: bool = True) -> Result:
    return (ENGINES | SAMPLING)[name](protocol, SearchRequest(search=search, deadlock=False, check_actions=check))


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (counts_calls, "is not pure: called twice on the same input, it yielded other steps"),
        (remembers, "is not pure: called twice on the same input, it yielded other steps"),
        (changes_its_input, "changes its input"),
        (lambda self, me: int(time.time()) % 2, "is not pure: it calls time.time"),
        (lambda self, me: time.perf_counter_ns() % 3, "is not pure: it calls time.perf_counter_ns"),
        (lambda self, me: datetime.now().year % 3, "is not pure: it calls datetime.now"),
        (lambda self, me: random.randrange(3), "is not pure: it calls Random.getrandbits"),
        (lambda self, me: os.getpid() % 3, "is not pure: it calls posix.getpid"),
        (lambda self, me: len(open(__file__).name), "is not pure: it calls io.open"),  # noqa: SIM115
    ],
)
def test_a_cheat_is_named(name, function, problem) -> None:
    with pytest.raises(ActionError) as caught:
        explored(name, cheats_with(function))
    assert f"action Tick of Cheat {problem}" in str(caught.value)
    assert str(caught.value).startswith(f"{__file__}:")
    assert sys.getprofile() is None


@pytest.mark.parametrize("name", ENGINES | SAMPLING)
@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (counts_calls, "is not pure: called twice on the same input, it yielded other steps"),
        (remembers, "is not pure: called twice on the same input, it yielded other steps"),
        (told_by_another_call, "is not pure: called twice on the same input, it yielded other steps"),
        (writes_an_attribute, "raised AttributeError: Cheat.total is written during a search"),
        (lambda self, me: int(time.time()) % 2, "is not pure: it calls time.time"),
        (lambda self, me: random.randrange(3), "is not pure: it calls Random.getrandbits"),
    ],
)
def test_a_cheat_is_named_in_every_search(name, function, problem) -> None:
    with pytest.raises(ActionError) as caught:
        explored(name, cheats_with(function), check=False)
    assert f"action Tick of Cheat {problem}" in str(caught.value)


class Voter(Record):
    id: int
    peers: frozenset[str] = frozenset("abcd")
    terms: Map[str, int] = Map({"a": 1, "b": 2})
    chosen: str = ""


class Choosing(Protocol):
    """Each voter chooses; how, its subclasses say."""

    network = MessageSet()
    names: frozenset[str] = constant("Names", default=frozenset("efg"))

    def initial(self) -> Iterator[State]:
        yield self.start([Voter(1), Voter(2)], Nothing())

    @internal
    def choose(self, me: Voter) -> Steps:
        if not me.chosen:
            yield from self.choices(me)

    def choices(self, me: Voter) -> Steps:
        yield become(me.but(chosen=self.choice(me)))

    def choice(self, me: Voter) -> str:
        raise NotImplementedError


def of_made_set(self: Choosing, me: Voter) -> str:
    best = max(me.terms.values())
    return next(iter({name + "!" for name in me.peers if best}))


def of_built_set(self: Choosing, me: Voter) -> str:
    return next(iter(frozenset(sorted(me.peers))))


def of_a_set_that_changes(self: Choosing, me: Voter) -> str:
    waiting = set(me.peers)
    waiting.add("z")
    return waiting.pop()


def with_an_assert(self: Choosing, me: Voter) -> str:
    assert next(iter(me.terms)) == min(me.terms)  # a map is in order, and a protocol may not rely on it
    return "e"


def until_the_first(self: Choosing, me: Voter) -> Steps:
    for peer in me.peers:
        yield become(me.but(chosen=peer))
        return


def each_of_them(self: Choosing, me: Voter) -> Steps:
    for peer in me.peers | self.names:
        yield become(me.but(chosen=peer))


def until_none_waits(self: Choosing, me: Voter) -> Steps:
    waiting = set(me.peers) | self.names
    while waiting:
        yield become(me.but(chosen=waiting.pop()))


def with_a_hundred_words(self: Choosing, me: Voter) -> str:
    return "".join(sorted(me.peers)) + str(sum(me.terms.values())) + str(len({*me.peers, "e"}))


@pytest.mark.parametrize("name", ENGINES | SAMPLING)
@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    "methods",
    [
        {"choices": until_the_first},
        {"choice": lambda self, me: min(me.peers, key=len)},
        {"choice": lambda self, me: next(iter(self.names - {"e"}))},
        {"choice": lambda self, me: next(iter(me.terms))},
        {"choice": of_made_set},
        {"choice": of_built_set},
        {"choice": of_a_set_that_changes},
        {"choice": with_an_assert},
    ],
    ids=["first", "least", "constant", "map", "comprehension", "set made", "set that changes", "assert"],
)
def test_what_depends_on_an_order_is_named(name, check, methods) -> None:
    with pytest.raises(ActionError, match="action Choose of Chooser is not pure: its steps depend on the order"):
        explored(name, type("Chooser", (Choosing,), methods)(), check=check)


@pytest.mark.parametrize("name", ENGINES | SAMPLING)
@pytest.mark.parametrize(
    "methods", [{"choices": each_of_them}, {"choice": with_a_hundred_words}, {"choices": until_none_waits}]
)
def test_what_goes_through_all_of_a_set_is_pure(name, methods) -> None:
    protocol = type("Chooser", (Choosing,), methods)()
    assert explored(name, protocol, check=name != "symbolic").distinct_states in (4, 64)


@pytest.mark.parametrize("search", [Search.BFS, Search.DFS])
def test_what_another_call_left_behind_is_found_in_the_end(search) -> None:
    with pytest.raises(ActionError, match="called twice on the same input"):
        explored("tables", cheats_with(told_by_another_call), search)


class Counted(Protocol):
    """Two replicas, of which each goes its own way: the second is as it was while the first takes steps."""

    def initial(self) -> Iterator[State]:
        yield self.start([Ticker(1), Ticker(2)], Nothing())

    @internal
    def tick(self, me: Ticker) -> Steps:
        CALLS.append(me.id)
        if me.count < 2 and len(CALLS) < 5:
            yield become(me.but(count=me.count + 1))


CALLS: list[int] = []


@pytest.mark.parametrize("name", ENGINES)
def test_a_call_is_made_anew_in_every_state(name) -> None:
    CALLS.clear()
    with pytest.raises(ActionError, match="called twice on the same input"):
        explored(name, Counted())


class Spender(Protocol):
    """A step spends two of a bound at once."""

    coins: int = bound("Coins")
    views = {"plain": hide("coins")}

    def initial(self) -> Iterator[State]:
        yield self.start([Ticker(1)], Nothing())

    @internal
    def pay(self, me: Ticker) -> Steps:
        if me.count < 2:
            yield become(me.but(count=me.count + 1)).spend("coins", "coins")

    @reachable
    def is_paid(self, me: Ticker) -> bool:
        return me.count == 1


@pytest.mark.parametrize("check", [True, False])
def test_what_a_step_spends_is_known_too(check) -> None:
    protocol = Spender(coins=5)
    wanted = (protocol.properties["IsPaid"],)
    options = SearchRequest(view="plain", check_actions=check, deadlock=False, reachable=wanted)
    with pytest.raises(InputError, match="less than a step spends"):
        reference.explore(protocol, options)


@pytest.mark.slow
@pytest.mark.parametrize("name", ENGINES)
def test_a_collector_that_looks_at_the_clock_is_no_cheat(name) -> None:
    before = gc.get_threshold()
    gc.callbacks.append(lambda phase, info: time.perf_counter())
    gc.set_threshold(1)
    try:
        assert explored(name, Honest()).distinct_states > 10
    finally:
        gc.set_threshold(*before)
        gc.callbacks.pop()
    assert gc.isenabled()


@pytest.mark.parametrize("name", ENGINES)
def test_an_action_may_import_a_module(name, monkeypatch, tmp_path) -> None:
    class Importing(Honest):
        def next(self, me: Ticker) -> int:
            import late_import  # at the first call

            return me.count + late_import.ONE

    (tmp_path / "late_import.py").write_text("import time\nONE = 1 if time.time() else 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "late_import", raising=False)
    assert explored(name, Importing()).distinct_states > 10


@pytest.mark.parametrize("name", ENGINES)
def test_honest_actions_pass(name) -> None:
    found, plain = (explored(name, Honest(), check=check) for check in (True, False))
    assert (found.distinct_states, found.generated_states) == (plain.distinct_states, plain.generated_states)
    clients = frozenset(ModelValue(f"c{i}", i) for i in (1, 2))
    assert explored(name, LockService(clients=clients, losses=1)).distinct_states > 20

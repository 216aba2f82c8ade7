"""SYMMETRY and properties of steps in the bytecode engine, for values of every kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from kraftcheck.explorer import reference
from kraftcheck.explorer.bytecode import engine as bytecode
from kraftcheck.explorer.bytecode import search, search_encoding
from kraftcheck.explorer.result import Result, SearchRequest
from kraftcheck.spec import (
    InputError,
    Map,
    ModelValue,
    Protocol,
    Record,
    State,
    Step,
    Steps,
    Symbol,
    become,
    constant,
    environment,
    internal,
    invariant,
    ordered,
    reachable,
    step_invariant,
)
from kraftcheck.spec.language.protocol import DEADLOCK
from tests.support.sizes import sizes

pytestmark = pytest.mark.kernel


class Phase(Symbol):
    IDLE = "Idle"
    BUSY = "Busy"


class Job(Record):
    owner: ModelValue
    colour: ModelValue
    size: int = 0


class Site(Record):
    id: ModelValue
    phase: Phase = Phase.IDLE
    friend: ModelValue | None = None
    seen: frozenset[ModelValue] = frozenset()


class Board(Record):
    jobs: tuple[Job, ...] = ()
    done: frozenset[tuple[ModelValue, int]] = frozenset()
    owners: Map[ModelValue, ModelValue] = Map()
    best: Map[ModelValue, frozenset[ModelValue]] = Map()
    nested: tuple[tuple[ModelValue, ...], ...] = ()


class Sites(Protocol):
    """Sites with colours exchange model values in sets, maps, records and tuples; `rules` says what is allowed."""

    sites: frozenset[ModelValue] = constant("Sites")
    colours: frozenset[ModelValue] = constant("Colours")
    limit: int = constant("Limit")
    most: int = constant("Most")
    rules: tuple[str, ...] = ()
    network = None
    symmetries = {"All": ("sites", "colours"), "OfSites": ("sites",), "OfColours": ("colours",)}

    def initial(self) -> Iterator[State]:
        yield self.start([Site(one) for one in ordered(self.sites)], Board())

    @internal
    def befriend(self, me: Site, shared: Board) -> Steps:
        for other in ordered(self.sites - me.seen - {me.id}):
            if "befriend" in self.rules and len(me.seen) < self.limit:
                yield become(me.but(friend=other, seen=me.seen | {other}, phase=Phase.BUSY))

    @internal
    def queue(self, me: Site, shared: Board) -> Steps:
        for colour in ordered(self.colours):
            if "queue" in self.rules and me.phase is Phase.IDLE and len(shared.jobs) < self.limit:
                yield become(me.but(phase=Phase.BUSY)).put(jobs=(*shared.jobs, Job(me.id, colour, len(shared.jobs))))

    @internal
    def finish(self, me: Site, shared: Board) -> Steps:
        if "finish" in self.rules and shared.jobs and shared.jobs[0].owner == me.id:
            job = shared.jobs[0]
            yield become(me.but(phase=Phase.IDLE)).put(
                jobs=shared.jobs[1:],
                done=shared.done | {(job.colour, min(job.size, 1))},
                owners=shared.owners.put(job.colour, me.id),
            )

    @environment
    def mix(self, shared: Board) -> Steps:
        for colour, owner in ordered(shared.owners.items()):
            known = shared.best.get(owner, frozenset())
            if "mix" in self.rules and colour not in known:
                yield Step().put(best=shared.best.put(owner, known | {colour}))

    @environment
    def nest(self, shared: Board) -> Steps:
        if "nest" in self.rules and len(shared.nested) < self.limit:
            yield Step().put(nested=(*shared.nested, tuple(ordered(shared.owners.values()))))

    @invariant
    def few_done(self, shared: Board) -> bool:
        return len(shared.done) < self.most

    @invariant
    def no_mutual_friends(self, me: Site, peer: Site) -> bool:
        return self.most > 3 or me.friend != peer.id or peer.friend != me.id

    @step_invariant
    def seen_grows(self, before: Site, after: Site) -> bool:
        return before.seen <= after.seen

    @step_invariant
    def idle_after_the_last_job(self, before: Site, after: Site, shared: Board) -> bool:
        return after.phase is not Phase.IDLE or len(shared.jobs) < self.limit

    @reachable
    def all_idle(self, me: Site) -> bool:
        return me.phase is Phase.IDLE


MOST_STATES = 250
RULES = ("befriend", "queue", "finish", "mix", "nest")


def protocol_of(random: Random) -> Sites:
    sites = frozenset(ModelValue(f"s{i}", i) for i in range(random.choice((2, 3))))
    colours = frozenset(ModelValue(f"c{i}", 10 + i) for i in range(random.choice((1, 2))))
    found = Sites(sites=sites, colours=colours, limit=random.choice((1, 2)), most=random.choice((1, 2, 3, 9)))
    found.rules = random.choice((RULES[:1], RULES[1:3], RULES[1:4], RULES[1:], RULES))
    return found


def counts(result: Result) -> dict[str, Any]:
    violations = {one.property: len(one.trace) for one in result.violations}
    dead_ends = [one.trap for one in result.violations]
    return {
        "counts": (result.distinct_states, result.generated_states, result.depth, result.actions),
        "violations": violations,
        "dead ends": dead_ends,
    }


@pytest.mark.parametrize("examples", sizes(15, 120, 1_000))
def test_orbits_and_violations_are_those_of_the_reference_engine(examples: int) -> None:
    seen: set[Any] = set()
    for seed in range(examples):
        random = Random(seed)
        protocol, symmetry = protocol_of(random), random.choice(("All", "OfSites", "OfColours"))
        properties = tuple(one for one in protocol.properties.values() if one.kind in ("invariant", "step_invariant"))
        options = SearchRequest(
            properties=properties,
            reachable=(protocol.properties["AllIdle"],) if random.random() < 0.5 else (),
            deadlock=random.random() < 0.3,
            keep_going=True,
            symmetry=symmetry,
            max_depth=random.choice((None, None, 4)),
        )
        if reference.explore(protocol, replace(options, max_states=MOST_STATES)).limit == "max_states":
            continue
        wanted, found = counts(reference.explore(protocol, options)), counts(bytecode.explore(protocol, options))
        assert found == wanted, (seed, protocol.rules, options)
        seen |= {symmetry, *wanted["violations"]}
    properties = {"FewDone", "NoMutualFriends", "IdleAfterTheLastJob", "AllIdle", DEADLOCK}
    assert seen == {"All", "OfSites", "OfColours"} | properties or examples < 60
    assert seen & properties


@pytest.mark.parametrize("room", [1, 3])
def test_a_log_that_is_full_becomes_longer(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    monkeypatch.setattr(search_encoding, "FIRST_STEP_LOG_ENTRIES", room)
    monkeypatch.setattr(search, "FIRST_SAMPLED_STATES", 3)
    sites, colours = (frozenset(ModelValue(f"{kind}{i}", i) for i in range(2)) for kind in ("s", "c"))
    protocol = Sites(sites=sites, colours=colours, limit=2, most=9)
    protocol.rules = ("queue", "finish")
    options = SearchRequest(deadlock=False, reachable=(protocol.properties["AllIdle"],), keep_going=True)
    assert counts(bytecode.explore(protocol, options)) == counts(reference.explore(protocol, options))


@pytest.mark.parametrize("most", [1, 2, 5])
def test_a_limit_on_states_has_the_depth_of_the_reference_engine(most: int) -> None:
    sites = frozenset(ModelValue(f"s{i}", i) for i in range(2))
    protocol = Sites(sites=sites, colours=sites, limit=2, most=9)
    protocol.rules = ("queue", "finish")
    options = SearchRequest(deadlock=False, max_states=most)
    assert bytecode.explore(protocol, options).depth == reference.explore(protocol, options).depth


def test_states_of_two_orbits_with_one_number_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    sites = frozenset(ModelValue(f"s{i}", i) for i in range(3))
    protocol = Sites(sites=sites, colours=frozenset({ModelValue("c", 9)}), limit=2, most=9)
    protocol.rules = ("befriend",)
    options = SearchRequest(deadlock=False, symmetry="All")
    assert bytecode.explore(protocol, options).distinct_states == reference.explore(protocol, options).distinct_states
    original = search.BytecodeSearch._number_at
    monkeypatch.setattr(search.BytecodeSearch, "_number_at", lambda self, address: min(0, original(self, address)))
    with pytest.raises(InputError, match="differs from Python"):
        bytecode.explore(protocol, options)


class Twice(Sites):
    """An action yields each of its steps twice; most targets are no least image of their orbit."""

    def befriend(self, me: Site) -> Steps:
        for friend in ordered(self.sites):
            for _ in range(2):
                yield become(me.but(friend=friend, seen=me.seen ^ {friend}))


def test_a_step_to_a_new_orbit_that_is_yielded_twice_counts_once() -> None:
    protocol = Twice(sites=frozenset(ModelValue(f"s{i}", i) for i in range(3)), colours=frozenset(), limit=0, most=9)
    protocol.rules = ()
    options = SearchRequest(deadlock=False, symmetry="OfSites")
    wanted, found = counts(reference.explore(protocol, options)), counts(bytecode.explore(protocol, options))
    assert found == wanted


def test_images_of_replicas_must_be_replicas() -> None:
    class Lone(Sites):
        def initial(self) -> Iterator[State]:
            yield self.start([Site(ordered(self.sites)[0])], Board())

    sites = frozenset(ModelValue(f"s{i}", i) for i in range(2))
    protocol = Lone(sites=sites, colours=frozenset(), limit=1, most=9)
    with pytest.raises(InputError, match="images of replicas that are no replicas"):
        bytecode.explore(protocol, SearchRequest(symmetry="OfSites"))

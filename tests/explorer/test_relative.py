"""Views that rename states by their epochs: elections without end are cycles, and absolute epochs are refused."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product
from typing import Any, ClassVar

import pytest

from kraftcheck import api
from kraftcheck.explorer.reference import LIFT_BEYOND_CONSTANTS, explore, renaming_check_offsets
from kraftcheck.explorer.result import Result, SearchRequest, Verdict
from kraftcheck.explorer.transition_system import canonicalizer
from kraftcheck.spec import (
    Formula,
    MessageSet,
    Protocol,
    Record,
    RelativeNumbers,
    State,
    Steps,
    anywhere,
    become,
    bound,
    constant,
    constraint,
    consume,
    eventually_always,
    hide,
    infinitely_often,
    internal,
    invariant,
    on,
    predicate,
    reachable,
    taken,
    temporal,
)
from kraftcheck.spec.errors import InputError, ProtocolError, RaisedError
from kraftcheck.spec.language.semantics import Semantics

NUMBERS = RelativeNumbers("epoch", "seen")


class Node(Record):
    id: int
    epoch: int = 0
    mode: int = 0
    seen: int = 0


class Claim(Record):
    epoch: int
    kind: int
    source: int
    dest: int


def order(one: int, other: int) -> int:
    return (one > other) - (one < other)


class Elections(Protocol):
    """Two nodes stand for election by rules of a table: by mode and by the order of two epochs alone."""

    network = MessageSet()
    elections: int = bound("MaxElections", default=1000)
    # by mode and the order of the node's epochs (-1, 0, 1): mode after, increment, whether to note, claims to send
    alone: ClassVar[dict[tuple[int, int], tuple[int, int, bool, tuple[int, ...]]]] = {}
    # by mode, kind and the order of the epochs: mode after, whether to take the claim's epoch, claims to send
    told: ClassVar[dict[tuple[int, int, int], tuple[int, bool, tuple[int, ...]]]] = {}
    views: ClassVar = {
        "endless": hide("elections", by="relative"),
        "bounded": hide(by="relative"),
    }

    def relative(self, state: State, lift: int | None = 0) -> State:
        return NUMBERS.relative(state, [node.epoch for node in state.replicas.values()], lift)

    def initial(self) -> list[State]:
        return [self.start([Node(1), Node(2)])]

    @internal(fair="weak", each="replica")
    def act(self, me: Node) -> Steps:
        rule = self.alone.get((me.mode, order(me.epoch, me.seen)))
        if rule is not None:
            mode, more, notes, kinds = rule
            after = me.but(mode=mode, epoch=me.epoch + more, seen=me.epoch if notes else me.seen)
            step = become(after).send(*[Claim(after.epoch, kind, me.id, 3 - me.id) for kind in kinds])
            yield step.spend("elections") if more else step

    @on(Claim, fair="strong", each="replica")
    def hear(self, me: Node, claim: Claim) -> Steps:
        rule = self.told.get((me.mode, claim.kind, order(claim.epoch, me.epoch)))
        mode, takes, kinds = (me.mode, False, ()) if rule is None else rule
        after = me.but(mode=mode, epoch=max(me.epoch, claim.epoch) if takes else me.epoch)
        yield consume(after).send(*[Claim(claim.epoch, kind, me.id, 3 - me.id) for kind in kinds])

    @constraint
    def close(self, me: Node, peer: Node) -> bool:
        return me.epoch - peer.epoch <= 2

    @constraint
    def fresh(self, state: State) -> bool:
        lowest = min(node.epoch for node in state.replicas.values())
        sent = [claim.epoch for inbox in state.inboxes.values() for claim in inbox]
        return all(lowest <= epoch <= lowest + 2 for epoch in sent)

    @invariant
    def one_leader(self, me: Node, peer: Node) -> bool:
        return me.mode != 2 or peer.mode != 2 or me.epoch != peer.epoch

    @predicate
    def leads(self, me: Node) -> bool:
        return me.mode == 2

    @reachable
    def may_lead(self, me: Node) -> bool:
        return me.mode == 2

    @temporal
    def settles(self) -> Formula:
        return eventually_always(anywhere(self.leads))

    @temporal
    def returns(self) -> Formula:
        return infinitely_often(anywhere(self.leads))


class Bully(Elections):
    """A node stands, leads at once, and resigns, for ever."""

    alone = dict.fromkeys(product((0, 1), (-1, 0, 1)), (2, 1, False, (0,))) | {
        (2, sign): (1, 0, False, ()) for sign in (-1, 0, 1)
    }
    told = {(mode, 0, 1): (1, True, ()) for mode in (0, 1, 2)}


def searched(protocol: Protocol, view: str | None, *names: str, **more: Any) -> Result:
    found = [protocol.properties[name] for name in names]
    request = SearchRequest(
        properties=tuple(one for one in found if one.kind == "invariant"),
        reachable=tuple(one for one in found if one.kind == "reachable"),
        temporal=tuple(one for one in found if one.kind == "temporal"),
        constraints=tuple(protocol.properties[name] for name in ("Close", "Fresh")),
        fairness=protocol.fairness_of(None),
        deadlock=False,
        keep_going=True,
        view=view,
    )
    return explore(protocol, replace(request, **more))


def violated(result: Result) -> set[str]:
    assert result.limit is None
    return {one.property for one in result.violations}


# The renaming


def test_order_and_differences_are_kept() -> None:
    chance = random.Random(1)
    for _ in range(500):
        live = [chance.randrange(9) for _ in range(3)]
        held, lift = {*live, *(chance.randrange(9) for _ in range(4))}, chance.choice((0, 1, 7))
        names = NUMBERS.renaming(held, live, lift)
        assert [names[n] for n in sorted(held)] == sorted(names[n] for n in held)
        assert len(set(names.values())) == len(names)
        assert names[0] == 0
        if min(live) == 0:
            assert all(names[n] == n for n in held)
            continue
        first = min(live)
        assert all(names[n] - names[first] == n - first for n in held if n >= first)
        assert names[first] == 1 + lift + sum(0 < n < first for n in held)


def test_states_of_one_class_have_one_form_whatever_the_lift() -> None:
    protocol = Bully()
    state = protocol.start([Node(1, 7, 2, 3), Node(2, 8)], messages=[Claim(5, 0, 2, 1)])
    form = protocol.relative(state)
    assert (form.replicas[1].epoch, form.replicas[2].epoch, form.replicas[1].seen) == (3, 4, 1)
    assert form.inboxes[1] == frozenset({Claim(2, 0, 2, 1)})
    for lift in (0, 1, LIFT_BEYOND_CONSTANTS):
        assert protocol.relative(protocol.relative(state, lift)) == form


# Verdicts


@pytest.mark.slow
def test_an_endless_row_of_elections_is_a_cycle() -> None:
    result = searched(Bully(), "endless", "Settles", "Returns")
    assert violated(result) == {"Settles"}
    (found,) = result.violations
    cycle = [*found.trace[found.loop.back_to :], found.loop.again]
    assert any(step.action == "Act" for step in cycle)
    first, last = found.trace[found.loop.back_to - 1].state, found.loop.again.state
    assert last.replicas[1].epoch > first.replicas[1].epoch
    assert "Settles: the cycle leads back to state" in " ".join(result.notes)
    # Without the renaming every behaviour ends at the bound, which excuses it.
    assert violated(searched(Bully(elections=4), None, "Settles", "Returns")) == set()


@pytest.mark.slow
def test_no_engine_but_the_reference_engine_searches_it() -> None:
    result = api.check(Bully(), properties=["Settles"], constraints=["Close", "Fresh"], view="endless", deadlock=False)
    assert result.verdict is Verdict.VIOLATION
    assert result.engine == "reference"
    with pytest.raises(InputError, match="VIEW endless, which renames states: not supported"):
        api.check(Bully(), properties=["Settles"], view="endless", engine="tables")


class Restless(Elections):
    """Both nodes stand again and again: the renaming identifies source and target of a step."""

    alone = {(0, sign): (0, 1, False, ()) for sign in (-1, 0, 1)}

    @temporal
    def stops(self) -> Formula:
        return eventually_always(~taken("Act"))

    @temporal
    def goes_on(self) -> Formula:
        return infinitely_often(taken("Act"))


def test_a_cycle_may_be_one_step() -> None:
    class Alone(Restless):
        def initial(self) -> list[State]:
            return [self.start([Node(1, 1)])]

    for protocol in (Alone(), Restless()):
        result = searched(protocol, "endless", "Stops", "GoesOn")
        assert violated(result) == {"Stops"}
        assert cycles_on(protocol, result, "Stops")
    assert searched(Alone(), "endless", "Stops").distinct_states == 1


def cycles_on(protocol: Protocol, result: Result, name: str) -> bool:
    """Whether a lasso can be walked on for two more rounds by the reference semantics, step by step."""
    found = next(one for one in result.violations if one.property == name)
    if found.loop.again is None:
        return True
    identity, semantics = canonicalizer(protocol, None, "endless"), Semantics(protocol)
    cycle = [*found.trace[found.loop.back_to :], found.loop.again]
    state = found.loop.again.state
    for step in [*cycle, *cycle]:
        fitting = [
            one.target
            for one in semantics.transitions(state)
            if (one.action, one.actor) == (step.action, step.actor) and identity(one.target) == identity(step.state)
        ]
        if not fitting:
            return False
        state = fitting[0]
    return True


def random_elections(seed: int) -> type[Elections]:
    chance = random.Random(seed)

    def kinds() -> tuple[int, ...]:
        return tuple(sorted(chance.sample((0, 1), chance.choice((0, 0, 1, 1, 2)))))

    alone = {
        key: (chance.randrange(3), chance.choice((0, 1)), chance.random() < 0.3, kinds())
        for key in product((0, 1, 2), (-1, 0, 1))
        if chance.random() < 0.6
    }
    told = {
        key: (chance.randrange(3), chance.random() < 0.6, tuple(k for k in kinds() if k > key[1]))
        for key in product((0, 1, 2), (0, 1), (-1, 0, 1))
        if chance.random() < 0.8
    }
    return type("Random", (Elections,), {"alone": alone, "told": told})


NAMES = ("OneLeader", "MayLead", "Settles", "Returns")


def compared(seeds: range, most: int) -> dict[str, set[bool]]:
    """Compare random protocols with and without the renaming; return the verdicts met of each property."""
    met: dict[str, set[bool]] = {name: set() for name in NAMES}
    for seed in seeds:
        kind = random_elections(seed)
        plain = searched(kind(elections=3), None, *NAMES)
        renamed = searched(kind(elections=3), "bounded", *NAMES)
        endless = searched(kind(), "endless", *NAMES, max_states=most)
        assert violated(renamed) == violated(plain), seed
        assert renamed.distinct_states <= plain.distinct_states
        for name in NAMES:
            met[name].add(name in violated(plain))
        if endless.limit is None:
            found = violated(endless)
            assert ("OneLeader" in found) >= ("OneLeader" in violated(plain)), seed
            assert {"Settles", "Returns"} & violated(plain) <= found, seed
            assert all(cycles_on(kind(), endless, name) for name in {"Settles", "Returns"} & found)
    return met


def test_random_protocols_have_the_same_verdicts_with_and_without() -> None:
    assert compared(range(3), 60)["Settles"]


@pytest.mark.slow
def test_more_random_protocols() -> None:
    met = compared(range(108, 120), 60)
    assert all(both == {False, True} for both in met.values())


# Refusals


class UpToFive(Bully):
    """No node stands in an epoch from 5 on."""

    limit: int = constant("Limit", default=5)

    @internal(fair="weak", each="replica")
    def act(self, me: Node) -> Steps:
        if me.epoch < self.limit:
            yield from super().act(me)

    @invariant
    def never_forty(self, me: Node) -> bool:
        return me.epoch != 40

    @predicate
    def is_odd(self, me: Node) -> bool:
        return me.epoch % 2 == 1

    @temporal
    def becomes_odd(self) -> Formula:
        return infinitely_often(anywhere(self.is_odd))

    @constraint
    def below_nine(self, me: Node) -> bool:
        return me.epoch < 9


class Adjacent(Bully):
    """Distinguishes a claim of the epoch before from older ones: below the lowest epoch, differences are not kept."""

    told = {**Bully.told, (1, 0, -1): (1, False, ())}

    @on(Claim, fair="strong", each="replica")
    def hear(self, me: Node, claim: Claim) -> Steps:
        yield from super().hear(me.but(mode=0) if claim.epoch + 1 == me.epoch else me, claim)


class Squeezed(Bully):
    """Renames every epoch by its order alone, which is no bisimulation."""

    def relative(self, state: State, lift: int | None = 0) -> State:
        return NUMBERS.relative(state, [1 + max(node.epoch for node in state.replicas.values())], lift)


class Unstable(Bully):
    """A lifted state is of another class."""

    def relative(self, state: State, lift: int | None = 0) -> State:
        return state if lift == 0 else super().relative(state, lift)


@pytest.mark.parametrize("limit", [3, 5, 77, 1000])
def test_an_action_that_reads_an_absolute_epoch_is_refused_by_name(limit: int) -> None:
    with pytest.raises(InputError, match="action Act: differs in two states that VIEW endless identifies"):
        searched(UpToFive(limit=limit), "endless", "Settles")


@pytest.mark.parametrize(
    ("name", "where"), [("NeverForty", "properties"), ("BecomesOdd", "temporal"), ("BelowNine", "constraints")]
)
def test_a_property_that_reads_an_absolute_epoch_is_refused_by_name(name: str, where: str) -> None:
    protocol = UpToFive(limit=LIFT_BEYOND_CONSTANTS * 9)
    more = {where: (protocol.properties[name],)}
    if where == "constraints":
        more[where] += tuple(protocol.properties[one] for one in ("Close", "Fresh"))
    culprit = {"BecomesOdd": "IsOdd"}.get(name, name)
    with pytest.raises(InputError, match=f"{culprit}: differs in two states"):
        searched(protocol, "endless", **more)


@pytest.mark.slow
def test_a_difference_of_old_epochs_is_refused() -> None:
    protocol = Adjacent()
    loose = tuple(protocol.properties[name] for name in ("Close",))
    with pytest.raises(InputError, match="action Hear: differs in two states"):
        searched(protocol, "endless", constraints=loose, max_states=400)


def test_a_renaming_that_is_no_bisimulation_is_refused() -> None:
    with pytest.raises(InputError, match=r"action (Hear|Act): differs"):
        searched(Squeezed(), "endless", "Settles")
    with pytest.raises(InputError, match="leads to a state of another class"):
        searched(Unstable(), "endless", "Settles")


def test_a_view_names_a_method() -> None:
    class Misnamed(Bully):
        views: ClassVar = {"endless": hide("elections", by="relativ")}

    class Broken(Bully):
        def relative(self, state: State, lift: int | None = 0) -> State:
            return state if lift else state.nothing  # type: ignore[attr-defined, no-any-return]

    class Valueless(Bully):
        def relative(self, state: State, lift: int | None = 0) -> State:
            return None  # type: ignore[return-value]

    with pytest.raises(ProtocolError, match="expected a method def relativ"):
        searched(Misnamed(), "endless", "Settles")
    with pytest.raises(RaisedError, match="renaming relative"):
        searched(Broken(), "endless", "Settles")
    with pytest.raises(RaisedError, match="expected a State"):
        searched(Valueless(), "endless", "Settles")


def test_lifts_surround_the_constants_and_literals_of_a_protocol() -> None:
    lifts = renaming_check_offsets(UpToFive(limit=77))
    assert lifts[0] == 0
    assert {1, LIFT_BEYOND_CONSTANTS, 73, 77, 78, 38, 40} <= set(lifts)

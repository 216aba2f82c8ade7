"""The language's contract: constants, bounds, actions, steps, properties, variants, and what is said of a breach."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from kraftcheck.explorer.reference import explore
from kraftcheck.explorer.result import Verdict
from kraftcheck.spec import (
    ActionError,
    BagWithMemory,
    ConstantError,
    InputError,
    Map,
    ModelValue,
    Protocol,
    ProtocolError,
    Record,
    State,
    Step,
    Steps,
    Symbol,
    become,
    bound,
    constant,
    consume,
    environment,
    internal,
    invariant,
    on,
    ordered,
    projection,
    step_invariant,
)
from kraftcheck.spec.language.semantics import Semantics, Transition

n1, n2, n3 = (ModelValue(f"n{number}", number) for number in (1, 2, 3))


class Mood(Symbol):
    CALM = "calm"
    LOUD = "loud"


class Node(Record):
    id: ModelValue
    count: int = 0
    mood: Mood = Mood.CALM
    seen: tuple[int, ...] = ()


class Watcher(Record):
    id: ModelValue
    count: int = 0


class Ping(Record):
    source: ModelValue
    dest: ModelValue
    number: int = 0


class LoudPing(Ping):
    """A subclass: whoever handles Ping handles it."""


class Pong(Record):
    source: ModelValue
    dest: ModelValue


class Undirected(Record):
    number: int


class Shared(Record):
    total: int = 0
    last: ModelValue | Mood = Mood.CALM


class Pair(Protocol):
    """Two nodes and a watcher."""

    steps: int = bound("MaxSteps", default=2)
    network = BagWithMemory(once=(Pong,))

    def initial(self) -> Iterator[State]:
        yield self.start([Node(n1), Node(n2), Watcher(n3)], Shared())


def taken(protocol: Protocol, action: str, state: State | None = None) -> list[Transition]:
    semantics = Semantics(protocol)
    start = semantics.initial()[0] if state is None else state
    return [t for t in semantics.transitions(start) if t.action == action]


def targets(protocol: Protocol, action: str, state: State | None = None) -> list[State]:
    return [transition.target for transition in taken(protocol, action, state)]


# Constants


class Configured(Pair):
    hosts: frozenset[ModelValue] = constant("Hosts")
    size: int = constant("Size", default=1, at_least=1)
    mood: Mood = constant("Mood", default=Mood.CALM)

    def check_constants(self) -> None:
        if self.size > len(self.hosts):
            raise ConstantError("Size", f"expected at most {len(self.hosts)}, found {self.size}")


def test_constants_are_attributes() -> None:
    protocol = Configured(hosts=frozenset({n1}))
    assert (protocol.hosts, protocol.size, protocol.mood, protocol.steps) == (frozenset({n1}), 1, Mood.CALM, 2)
    assert protocol.constant_values() == {"MaxSteps": 2, "Hosts": frozenset({n1}), "Size": 1, "Mood": Mood.CALM}
    assert protocol.bounds == {"steps": 2}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "constant Hosts is not given a value"),
        ({"hosts": frozenset({1})}, "constant Hosts.*expected a model value, found a number, 1"),
        ({"hosts": n1}, "constant Hosts: expected a set of model values, found a model value, n1"),
        ({"hosts": frozenset(), "size": True}, "constant Size: expected a number, found TRUE"),
        ({"hosts": frozenset(), "size": 0}, "constant Size: expected a number of at least 1, found 0"),
        ({"hosts": frozenset(), "steps": -1}, "constant MaxSteps: expected a number of at least 0, found -1"),
        ({"hosts": frozenset(), "mood": n1}, "constant Mood: expected a Mood, found a model value, n1"),
        ({"hosts": frozenset({n1}), "size": 2}, "constant Size: expected at most 1, found 2"),
        ({"hosts": frozenset(), "sizes": 1}, "constant sizes is not a constant of Configured; its constants are"),
    ],
)
def test_constants_that_do_not_fit(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConstantError, match=message) as raised:
        Configured(**values)
    assert isinstance(raised.value, InputError)


def test_a_constant_without_a_name() -> None:
    """As in `@pytest.mark.kraftcheck(Configured)`: pytest marks the class, and calls it with the test."""
    with pytest.raises(ProtocolError, match=r"Configured: expected each constant by name, .*\.with_args\(Configured\)"):
        Configured(test_a_constant_without_a_name)


# Actions


class Acting(Pair):
    @internal
    def louder(self, me: Node) -> Steps:
        """An action of one class of replicas."""
        yield become(me.but(mood=Mood.LOUD))

    @internal(name="Tick!")
    def tick(self, me: Node | Watcher, shared: Shared) -> Steps:
        """An action of two, with a name of its own, that reads shared state."""
        yield become(me.but(count=shared.total + 1))
        yield become(me.but(count=shared.total + 1))
        yield become(me)

    @internal
    def everyone(self, me: Any) -> Steps:
        """An action of whoever there is."""
        yield become(me)

    @projection
    def counts(self, me: Record) -> int:
        """What others see."""
        return me.count  # type: ignore[attr-defined, no-any-return]

    @projection
    def waiting(self, messages: tuple[Record, ...]) -> int:
        """How many messages are under way."""
        return len(messages)

    @environment(reads=(counts, waiting))
    def spread(self, shared: Shared, waiting: Map[ModelValue, int], counts: Map[ModelValue, int]) -> Steps:
        """A step of nobody that sees all, sends, writes shared state and a replica, and makes a new one."""
        if counts != Map({n1: 0, n2: 0, n3: 0}) or set(waiting.values()) != {0}:
            return
        new = Node(ModelValue("n4", 4), 9)
        yield Step().send(Ping(n1, n2, 3)).put(total=shared.total + 1, last=n2).write(Watcher(n3, 7), new)

    @on(Ping, Pong)
    def hear(self, me: Node, message: Ping | Pong) -> Steps:
        """An action on two types of message, and on their subclasses."""
        yield consume(me.but(count=me.count + 1))
        yield become(me)

    @on(LoudPing)
    def hear_loud(self, me: Node | Watcher, message: LoudPing) -> Steps:
        yield consume(me)


def test_who_takes_an_action_follows_from_its_annotation() -> None:
    acting = Acting()
    assert [t.actor for t in taken(acting, "Louder")] == [n1, n2]
    assert [t.actor for t in taken(acting, "Tick!")] == [n1, n1, n2, n2, n3, n3]
    assert [t.actor for t in taken(acting, "Everyone")] == [n1, n2, n3]


def test_equal_steps_count_once_and_a_step_that_changes_nothing_counts() -> None:
    (start,) = Semantics(Acting()).initial()
    first, second = taken(Acting(), "Tick!")[:2]
    assert first.target.replicas[n1] == Node(n1, 1)
    assert second.target == start


def test_actions_are_named_after_their_methods() -> None:
    assert list(Acting.actions) == ["Louder", "Tick!", "Everyone", "Spread", "Hear", "HearLoud"]


def test_a_step_of_the_environment() -> None:
    (spread,) = taken(Acting(), "Spread")
    assert (spread.actor, spread.message) == (None, None)
    after = spread.target
    assert after.shared == Shared(1, n2)
    assert after.replicas[n3] == Watcher(n3, 7)
    assert after.replicas[ModelValue("n4")] == Node(ModelValue("n4"), 9)
    assert after.inboxes == Map({n2: Map({Ping(n1, n2, 3): 1})})


def test_messages_are_delivered_by_type_and_to_their_destination() -> None:
    acting = Acting()
    messages = [Ping(n1, n2, 1), LoudPing(n1, n2, 2), Pong(n2, n1), LoudPing(n1, n3, 3), Ping(n1, n3)]
    state = acting.start([Node(n1), Node(n2), Watcher(n3)], Shared(), messages)
    heard = taken(acting, "Hear", state)
    assert {(t.actor, t.message) for t in heard} == {(n1, messages[2]), (n2, messages[0]), (n2, messages[1])}
    assert {(t.actor, t.message) for t in taken(acting, "HearLoud", state)} == {(n2, messages[1]), (n3, messages[3])}
    consumed, left = (t.target for t in heard if t.actor == n1)
    assert consumed.inboxes[n1] == Map({Pong(n2, n1): 0})
    assert left == state


class Deaf(Acting):
    def receives(self, me: Record, message: Record) -> bool:
        return me.id != n2  # type: ignore[attr-defined, no-any-return]


def test_a_replica_may_receive_nothing() -> None:
    state = Deaf().start([Node(n1), Node(n2)], Shared(), [Ping(n1, n2), Ping(n2, n1)])
    assert [t.actor for t in taken(Deaf(), "Hear", state)] == [n1, n1]


def test_an_action_is_called_once_for_what_it_reads() -> None:
    semantics = Semantics(Acting())
    (start,) = semantics.initial()
    for _ in range(3):
        list(semantics.transitions(start))
    other = start.but(shared=Shared(5))
    list(semantics.transitions(other))
    assert semantics.handler_calls["Louder"] == 2  # once a node; it does not read the shared state
    assert semantics.handler_calls["Tick!"] == 6  # three replicas, two totals


# Bounds


class Bounded(Pair):
    credit: int = bound("MaxCredit", default=0)

    @internal
    def cheap(self, me: Node) -> Steps:
        yield become(me.but(count=me.count + 1)).spend("steps")

    @internal
    def dear(self, me: Node) -> Steps:
        yield become(me.but(count=me.count + 10)).spend("steps", "steps")

    @internal
    def careful(self, me: Node) -> Steps:
        yield become(me.but(mood=Mood.LOUD)).need("steps")

    @internal
    def on_credit(self, me: Node) -> Steps:
        yield become(me).need("credit")

    @internal
    def both(self, me: Node) -> Steps:
        yield become(me.but(count=99)).spend("steps").need("credit")


def test_a_step_is_disabled_when_nothing_is_left() -> None:
    protocol = Bounded()
    once = targets(protocol, "Cheap")[0]
    assert once.spent == Map({"steps": 1, "credit": 0})
    assert targets(protocol, "Dear")[0].spent["steps"] == 2
    assert targets(protocol, "Dear", once) == []  # two are asked for, one is left
    twice = targets(protocol, "Cheap", once)[0]
    assert targets(protocol, "Cheap", twice) == []


def test_what_is_needed_is_not_spent() -> None:
    protocol = Bounded()
    careful = targets(protocol, "Careful")[0]
    assert careful.spent["steps"] == 0
    twice = targets(protocol, "Cheap", targets(protocol, "Cheap")[0])[0]
    assert targets(protocol, "Careful", twice) == []
    assert targets(protocol, "OnCredit") == targets(protocol, "Both") == []
    generous = Bounded(credit=1)
    assert len(targets(generous, "OnCredit")) == 2
    assert targets(generous, "Both")[0].spent == Map({"steps": 1, "credit": 0})


# Sending


class Sending(Pair):
    @internal
    def ask_all(self, me: Node) -> Steps:
        yield become(me.but(count=1)).send_once(*[Ping(me.id, peer) for peer in (n1, n2, n3) if peer != me.id])

    @internal
    def ask_twice(self, me: Node) -> Steps:
        yield become(me).send_once(Ping(me.id, n3, 9), Ping(me.id, n3, 9))

    @internal
    def send_pong(self, me: Node) -> Steps:
        yield become(me).send(Pong(me.id, n3))

    @on(Ping)
    def answer(self, me: Watcher, message: Ping) -> Steps:
        yield become(me.but(count=me.count + 1)).reply(Pong(me.id, message.source))


def test_sending_once_is_all_or_nothing() -> None:
    protocol = Sending()
    first, second = targets(protocol, "AskAll")
    assert first.inboxes == Map({n2: Map({Ping(n1, n2): 1}), n3: Map({Ping(n1, n3): 1})})
    assert second.inboxes == Map({n1: Map({Ping(n2, n1): 1}), n3: Map({Ping(n2, n3): 1})})
    (start,) = Semantics(protocol).initial()
    partly = start.but(inboxes=Map({n3: Map({Ping(n1, n3): 0})}))
    (only,) = taken(protocol, "AskAll", partly)
    assert only.actor == n2
    assert targets(protocol, "AskTwice") == []  # the second is refused because of the first


def test_the_network_decides_what_is_sent_once() -> None:
    protocol = Sending()
    (start,) = Semantics(protocol).initial()
    sent = targets(protocol, "SendPong")[0]
    assert [t.actor for t in taken(protocol, "SendPong", sent)] == [n2]
    assert targets(protocol, "SendPong", start.but(inboxes=sent.inboxes))[0].inboxes[n3] == Map(
        {Pong(n1, n3): 1, Pong(n2, n3): 1}
    )


def test_a_reply_consumes_and_answers() -> None:
    protocol = Sending()
    state = protocol.start([Node(n1), Watcher(n3)], Shared(), [Ping(n1, n3)])
    (answered,) = targets(protocol, "Answer", state)
    assert answered.inboxes == Map({n3: Map({Ping(n1, n3): 0}), n1: Map({Pong(n3, n1): 1})})
    assert answered.replicas[n3] == Watcher(n3, 1)


# Variants


class Honest(Pair):
    @internal
    def grow(self, me: Node) -> Steps:
        if self._may_grow(me):
            yield become(me.but(count=me.count + 1))

    def _may_grow(self, me: Node) -> bool:
        return me.count < 1

    @invariant
    def small(self, me: Node) -> bool:
        """Nobody is large."""
        return me.count < 2


class Greedy(Honest, variant="greedy"):
    def _may_grow(self, me: Node) -> bool:
        return me.count < 2


class Doubling(Honest, variant="doubling"):
    def grow(self, me: Node) -> Steps:
        for step in super().grow(me):
            yield step.but(me=me.but(count=2 * step.me.count))


class Tolerant(Greedy, variant="tolerant"):
    def small(self, me: Node) -> bool:
        return me.count < 3


@pytest.mark.parametrize(
    ("protocol", "verdict"),
    [
        (Honest, Verdict.DEADLOCK),
        (Greedy, Verdict.VIOLATION),
        (Doubling, Verdict.VIOLATION),
        (Tolerant, Verdict.DEADLOCK),
    ],
)
def test_a_variant_changes_a_rule(protocol: type[Honest], verdict: Verdict) -> None:
    assert explore(protocol()).verdict is verdict
    assert list(protocol.actions) == ["Grow"]
    assert list(protocol.properties) == ["Small"]
    assert protocol.name() == "Honest"


def test_variants_are_known_by_name() -> None:
    assert Honest.variants == {"greedy": Greedy, "doubling": Doubling, "tolerant": Tolerant}
    assert (Honest.variant, Greedy.variant) == (None, "greedy")
    assert Pair.variants == {}


# Properties


class Judged(Acting):
    @invariant
    def calm(self, me: Node) -> bool:
        return me.mood is Mood.CALM

    @invariant
    def close(self, me: Node, peer: Node) -> bool:
        return me.id != peer.id and abs(me.count - peer.count) < 2

    @invariant
    def few_messages(self, message: Ping, shared: Shared) -> bool:
        return message.number < 5 or shared.total > 0

    @invariant(reads=(Acting.counts, Acting.waiting))
    def balanced(self, counts: Map[ModelValue, int], waiting: Map[ModelValue, int]) -> bool:
        return sum(counts.values()) + sum(waiting.values()) < 4

    @invariant
    def whole(self, state: State) -> bool:
        return len(state.replicas) == 3

    @step_invariant
    def never_less(self, before: Node, after: Node, shared: Shared) -> bool:
        return after.count >= before.count or shared.total > 0


def verdicts(state: State) -> set[str]:
    semantics = Semantics(Judged())
    return {p.name for p in Judged.properties.values() if not p.over_steps and not semantics.holds(p, state)}


def test_what_properties_range_over() -> None:
    nodes = [Node(n1), Node(n2), Watcher(n3)]
    start = Judged().start
    assert verdicts(start(nodes, Shared())) == set()
    assert verdicts(start([Node(n1), Node(n2, mood=Mood.LOUD), Watcher(n3)], Shared())) == {"Calm"}
    assert verdicts(start([Node(n1), Node(n2, 2), Watcher(n3)], Shared())) == {"Close"}
    assert verdicts(start([Node(n1), Node(n2), Watcher(n3, 3)], Shared())) == set()
    assert verdicts(start(nodes, Shared(), [Ping(n1, n2, 7)])) == {"FewMessages"}
    assert verdicts(start(nodes, Shared(1), [LoudPing(n1, n2, 7)])) == set()
    assert verdicts(start(nodes, Shared(), [LoudPing(n1, n2, 7), Ping(n1, n3)])) == {"FewMessages"}
    assert verdicts(start([Node(n1, 1), Node(n2, 1), Watcher(n3, 1)], Shared(), [Pong(n1, n2)])) == {"Balanced"}
    assert verdicts(start([Node(n1)], Shared())) == {"Whole"}


def test_a_property_over_messages_sees_what_the_network_remembers() -> None:
    state = Judged().start([Node(n1), Node(n2), Watcher(n3)], Shared())
    assert verdicts(state.but(inboxes=Map({n2: Map({Ping(n1, n2, 7): 0})}))) == {"FewMessages"}


def test_a_step_property_is_about_the_replicas_that_change() -> None:
    semantics, prop = Semantics(Judged()), Judged.properties["NeverLess"]
    start = Judged().start
    before = start([Node(n1, 5), Node(n2, 5)], Shared())
    assert semantics.holds_over(prop, before, start([Node(n1, 6), Node(n2, 5)], Shared()))
    assert not semantics.holds_over(prop, before, start([Node(n1, 4), Node(n2, 5)], Shared()))
    assert semantics.holds_over(prop, before.but(shared=Shared(1)), start([Node(n1, 4), Node(n2, 5)], Shared()))
    assert semantics.holds_over(prop, start([Watcher(n1, 5)], Shared()), start([Watcher(n1, 1)], Shared()))


# Breaches of the contract


def breach(method: Any, messages: tuple[Record, ...] = ()) -> str:
    """Return the error for a protocol with this one action."""

    def initial(self: Protocol) -> Iterator[State]:
        yield self.start([Node(n1), Watcher(n3)], Shared(), messages)

    cls: Any = type("Broken", (Pair,), {"initial": initial, "act": method})
    with pytest.raises(ActionError) as raised:
        explore(cls())
    assert isinstance(raised.value, InputError)
    assert raised.value.action == "Act"
    text = str(raised.value)
    place = re.match(rf"{re.escape(__file__)}:\d+: action Act of Broken ", text)
    assert place is not None, text
    return re.sub(r"\n  line \d+: .*", "", text[place.end() :])


def acting(steps: Any) -> Any:
    """Return an action of a node that yields what a function of it returns."""

    def act(self: Any, me: Node) -> Steps:
        yield steps(me)

    act.__annotations__["me"] = Node
    return internal(act)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (lambda me: None, "yielded None, which is not a step (become(...), consume(...) or Step())"),
        (lambda me: me, "yielded Node(id=n1, count=0, mood=calm, seen=()), which is not a step"),
        (lambda me: become(me.but(count="x")), "me.count: expected a number, found a string, 'x'"),
        (lambda me: become(me.but(count="x").but(seen=())), "me.count: expected a number, found a string, 'x'"),
        (lambda me: become(me.but(count=True)), "me.count: expected a number, found TRUE"),
        (lambda me: become(me.but(seen=[1])), "me.seen: expected a sequence of numbers, found [1]"),
        (lambda me: become(me.but(seen=(1, n1))), "me.seen[2]: expected a number, found a model value, n1"),
        (lambda me: become(me.but(mood=None)), "me.mood: expected a Mood, found None"),
        (lambda me: become(me.but(id=n2)), "as the next state of n1"),
        (lambda me: become(Watcher(n1)), "yielded Watcher(id=n1, count=0) as the next state of n1"),
        (lambda me: consume(me), "consumes a message, but none was delivered; write become(...)"),
        (lambda me: become(me).spend("stps"), "spends 'stps', which is not a bound; bounds are steps"),
        (lambda me: become(me).need("stps"), "spends 'stps', which is not a bound; bounds are steps"),
        (lambda me: become(me).put(totl=1), "unknown shared field totl (perhaps total?); there is total, last"),
        (lambda me: become(me).put(total=n1), "shared.total: expected a number, found a model value, n1"),
        (lambda me: become(me).send(Ping(n1, n2, "3")), "sends Ping.number: expected a number, found a string, '3'"),
        (lambda me: become(me).send(Undirected(1)), "sends Undirected(number=1), which has no field dest"),
        (lambda me: become(me).send(3), "sends a message: expected a record, found 3"),
        (lambda me: become(me).send([Ping(n1, n2, 3)]), "; write send(*messages)"),
        (lambda me: become(me).broadcast(3), "a step has no method 'broadcast'; its methods are send, send_once, "),
        (lambda me: become(me).write(Watcher(n2, n2)), "count: expected a number, found a model value, n2"),
        (lambda me: become(me).write(3), "expected a record, found 3"),
        (lambda me: 1 // me.count, "raised ZeroDivisionError: integer division or modulo by zero"),
        (lambda me: me.but(cnt=1), "raised TypeError: Node has no field 'cnt'; its fields are id, count, mood, seen"),
    ],
)
def test_a_breach_is_named(steps: Any, message: str) -> None:
    text = breach(acting(steps))
    assert message in text
    assert "me = Node(id=n1, count=0, mood=calm, seen=())" in text


def test_a_breach_on_a_message_shows_the_message() -> None:
    def act(self: Any, me: Watcher, message: Ping) -> Steps:
        yield consume(me.but(count=message.source))

    text = breach(on(Ping)(act), (Ping(n1, n3),))
    assert text == (
        "writes me.count: expected a number, found a model value, n1\n"
        "  me = Watcher(id=n3, count=0)\n"
        "  message = Ping(source=n1, dest=n3, number=0)"
    )


def test_a_breach_of_the_environment() -> None:
    def act(self: Any) -> Steps:
        yield become(Node(n1))

    assert "as the next state of the environment" in breach(environment(act))


def refused(**methods: Any) -> str:
    """Return what is said of a protocol class that cannot be searched."""
    cls: Any = type("Refused", (Pair,), methods)
    with pytest.raises(ProtocolError) as raised:
        explore(cls())
    return str(raised.value)


def test_protocols_that_make_no_sense() -> None:
    @internal
    def asks(self: Any, me: Node, nonsense: int) -> Steps:
        yield become(me)

    @invariant
    def asks_too(self: Any, nonsense: int) -> bool:
        return True

    @invariant
    def peer_alone(self: Any, peer: Node) -> bool:
        return True

    @invariant
    def not_a_truth(self: Any, me: Node) -> int:
        return me.count

    @invariant
    def raises(self: Any, me: Node) -> bool:
        return me.nothing  # type: ignore[attr-defined, no-any-return]

    def unresolved(self: Any, me: Missing) -> Steps:  # type: ignore[name-defined] # noqa: F821
        yield become(me)

    assert "asks for 'nonsense'; it can ask for me, shared or declare a projection with reads=" in refused(asks=asks)
    assert "asks for 'nonsense'" in refused(asks_too=asks_too)
    assert refused(peer_alone=peer_alone).endswith(": property PeerAlone asks for peer without me; add me")
    assert ": property NotATruth returned 0; expected True or False\n" in refused(not_a_truth=not_a_truth)
    assert "property Raises raised AttributeError" in refused(raises=raises)
    assert "cannot resolve the annotation of 'me'" in refused(unresolved=internal(unresolved))
    assert refused(initial=lambda self: iter(())).endswith(": initial of Refused: there is no initial state")
    assert "Refused: replicas[n1].count: expected a number" in refused(
        initial=lambda self: [self.start([Node(n1, "x")], Shared())]
    )
    with pytest.raises(ProtocolError, match="@on needs the type of the message"):
        on()
    with pytest.raises(ProtocolError, match="marked @projection, found 'whole'"):
        internal(reads="whole")(asks)  # type: ignore[arg-type]
    with pytest.raises(ProtocolError, match="reads= takes methods marked @projection, found"):
        internal(reads=(len,))(asks)
    with pytest.raises(ProtocolError, match="takes one parameter besides self"):
        projection(lambda self, me, peer: 0)


def test_an_action_of_nobody() -> None:
    @internal
    def takes_nobody(self: Any) -> Steps:
        yield Step()

    assert "action TakesNobody" in refused(takes_nobody=takes_nobody)
    assert "takes (self, me, ...)" in refused(takes_nobody=takes_nobody)


def test_a_protocol_says_how_it_starts() -> None:
    class Startless(Protocol):
        pass

    with pytest.raises(ProtocolError, match="Startless has no initial states"):
        explore(Startless())


def test_ordered_members_make_a_choice_that_no_process_changes() -> None:
    assert ordered(frozenset({n3, n1, n2})) == [n1, n2, n3]


def test_two_variants_of_one_name_are_refused() -> None:
    class Base(Protocol):
        pass

    class First(Base, variant="change"):
        pass

    with pytest.raises(ProtocolError, match=r"First.* 'change'"):

        class Second(Base, variant="change"):
            pass

    assert Base.variants == {"change": First}


def test_a_protocol_may_call_its_own_attributes_ids_and_sent() -> None:
    class Named(Pair):
        ids = (n1, n2)
        sent: int = constant("Sent", default=3)

        def initial(self) -> Iterator[State]:
            yield self.start(map(Node, self.ids), Shared(self.sent))

    (state,) = Named().initial()
    assert (list(state.replicas), state.shared.total) == ([n1, n2], 3)


def test_names_that_protocols_have_are_refused() -> None:
    with pytest.raises(ProtocolError, match=r"test_protocol.py:\d+: Starts.start: Protocol has an attribute of"):

        class Starts(Protocol):
            @internal
            def start(self, me: Record) -> Steps:
                yield become(me)

    class Helpers:
        probes = 3

    for bases, body in (((Protocol,), {"actions": ()}), ((Protocol,), {"bounds": 1}), ((Helpers, Protocol), {})):
        with pytest.raises(ProtocolError, match="Protocol has an attribute of this name; choose another name"):
            type("Taken", bases, body)

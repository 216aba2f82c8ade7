"""Network disciplines: what becomes of messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftcheck.explorer.reference import explore
from kraftcheck.explorer.result import SearchRequest
from kraftcheck.explorer.symbolic.engine import explore as explore_symbolic
from kraftcheck.explorer.tables.engine import explore as explore_tables
from kraftcheck.spec import (
    Bag,
    BagWithMemory,
    Channels,
    Map,
    MessageSet,
    MessageSetWithMemory,
    ModelValue,
    Network,
    Protocol,
    ProtocolError,
    Record,
    State,
    Steps,
    become,
    bound,
    consume,
    internal,
    on,
)
from kraftcheck.spec.language.network import ABOVE_EVERY_COUNT, CopyCountRule
from kraftcheck.spec.language.semantics import Semantics

a, b = ModelValue("a", 0), ModelValue("b", 1)


class Ask(Record):
    source: ModelValue
    dest: ModelValue
    number: int = 0


class Answer(Record):
    source: ModelValue
    dest: ModelValue
    number: int = 0


ASK, OTHER, ANSWER = Ask(a, b), Ask(a, b, 1), Answer(a, b)
OPERATIONS = ["send", "send_once", "reply", "discard", "lose", "duplicate"]
NETWORKS: list[Network] = [
    BagWithMemory(),
    BagWithMemory(once=(Ask,), replies_once=(Answer,)),
    Bag(),
    Bag(once=(Ask,), replies_once=(Answer,)),
    MessageSet(),
    MessageSet(keeps=True),
    MessageSetWithMemory(),
    Channels(),
]
NAMES = ["memory", "memory-once", "bag", "bag-once", "set", "kept", "set-memory", "channels"]
every_network = pytest.mark.parametrize("network", NETWORKS, ids=NAMES)


@every_network
def test_a_message_that_was_sent_can_be_delivered(network: Network) -> None:
    inbox = network.send(network.empty, ASK)
    assert network.deliverable(inbox) == (ASK,)
    assert network.known(inbox) == (ASK,)
    assert network.count(inbox, ASK) == 1
    assert network.count(inbox, OTHER) == 0
    assert network.deliverable(network.empty) == network.known(network.empty) == ()


@every_network
def test_what_is_not_under_way_cannot_be_taken_out(network: Network) -> None:
    assert network.discard(network.empty, ASK) is None
    assert network.discard(network.send(network.empty, ASK), OTHER) is None


@every_network
def test_send_once_is_refused_for_what_is_under_way(network: Network) -> None:
    inbox = network.send_once(network.empty, ASK)
    assert inbox is not None
    assert network.send_once(inbox, ASK) is None
    assert network.send_once(inbox, OTHER) is not None


@every_network
def test_an_operation_nobody_knows(network: Network) -> None:
    with pytest.raises(ValueError, match="'shout' is not an operation of the network"):
        network.apply("shout", network.empty, ASK)


def test_a_bag_with_memory_remembers_what_it_delivered() -> None:
    network = BagWithMemory()
    inbox = network.send(network.send(network.empty, ASK) or Map(), ASK)
    assert inbox == Map({ASK: 2})
    inbox = network.discard(network.discard(inbox or Map(), ASK) or Map(), ASK)
    assert inbox == Map({ASK: 0})
    assert inbox is not None
    assert network.deliverable(inbox) == ()
    assert network.known(inbox) == (ASK,)
    assert network.send_once(inbox, ASK) is None
    assert network.discard(inbox, ASK) is None


def test_types_that_are_sent_once() -> None:
    network = BagWithMemory(once=(Ask,), replies_once=(Answer,))
    asked = network.send(Map(), ASK)
    assert asked is not None
    assert network.send(asked, ASK) is None
    assert network.reply(asked, ASK) == Map({ASK: 2})  # `once` is about ordinary sends
    answered = network.reply(Map(), ANSWER)
    assert answered is not None
    assert network.reply(answered, ANSWER) is None
    assert network.send(answered, ANSWER) == Map({ANSWER: 2})  # and `replies_once` about replies


def test_a_bag_forgets() -> None:
    network = Bag()
    inbox = network.send(network.empty, ASK)
    assert inbox is not None
    assert network.discard(inbox, ASK) == network.empty
    assert network.send_once(network.discard(inbox, ASK) or Map(), ASK) == Map({ASK: 1})


def test_a_set_has_no_counts() -> None:
    network = MessageSet()
    inbox = network.send(network.send(network.empty, ASK), ASK)
    assert inbox == frozenset({ASK})
    assert network.discard(inbox, ASK) == frozenset()
    assert MessageSet(keeps=True).discard(inbox, ASK) == inbox
    assert MessageSet(keeps=True).lose(inbox, ASK) == frozenset()


def test_a_set_with_memory_remembers_what_was_processed() -> None:
    network = MessageSetWithMemory(groups=lambda message: Answer(a, b) if isinstance(message, Ask) else None)
    both = network.send(network.send(network.empty, ASK), ANSWER)
    taken = network.discard(both, ASK)
    assert taken == (frozenset({ANSWER}), frozenset({ASK}))
    assert network.send_once(taken, ASK) is None
    again = network.send(taken, ASK)
    assert again == (frozenset({ANSWER, ASK}), frozenset({ASK}))
    assert network.known(again) == (ANSWER, ASK)
    assert network.forget(again, Answer(a, b)) == taken
    assert network.lose(both, ASK) == network.send(network.empty, ANSWER)
    assert network.lose(taken, ASK) is None
    assert network.group(ANSWER) is None


def test_channels_keep_the_order_of_each_sender() -> None:
    network = Channels()
    inbox = network.empty
    for message in (OTHER, ASK, Ask(b, b)):
        inbox = network.send(inbox, message)
    assert network.deliverable(inbox) == (OTHER, Ask(b, b))
    assert network.known(inbox) == (ASK, OTHER, Ask(b, b))
    assert network.discard(inbox, ASK) is None
    rest = network.discard(inbox, OTHER)
    assert rest is not None
    assert network.deliverable(rest) == (ASK, Ask(b, b))
    assert network.discard(network.discard(rest, ASK) or Map(), Ask(b, b)) == network.empty
    assert network.count(network.send(rest, ASK), ASK) == 2


@pytest.mark.sampled(4)
@every_network
@given(st.lists(st.tuples(st.sampled_from(OPERATIONS), st.sampled_from([ASK, OTHER, ANSWER])), max_size=8))
def test_a_counting_rule_says_what_the_operation_does(network: Network, operations: list[tuple[str, Record]]) -> None:
    inbox = network.empty
    for operation, message in operations:
        rule = network.rule(operation, message)
        if operation in ("lose", "duplicate") and message not in network.deliverable(inbox):
            continue  # these are about messages that can be delivered
        if operation == "duplicate" and isinstance(network, MessageSet | MessageSetWithMemory):
            continue  # a set has no second copies
        after = network.apply(operation, inbox, message)
        if rule is not None and rule.queues:
            assert network.from_items(network.to_items(inbox)) == inbox
            queue = queue_by_rule(network, inbox, message, rule)
            assert (after is None) == (queue is None)
            if after is not None and queue is not None:
                rest = [item for item in network.to_items(inbox) if network.queue(item[0]) != network.queue(message)]
                assert Counter(network.to_items(after)) == Counter([*queue, *rest])
        elif rule is not None:
            counts = dict(network.to_counts(inbox))
            assert network.from_counts(Map(counts)) == inbox
            known = counts.get(message)
            if known is None:
                refused, count = rule.absent < 0, rule.absent
            else:
                refused, count = known < rule.least, known + rule.change
            assert (after is None) == refused
            if after is not None:
                counts[message] = count
                if rule.forgets and count == 0:
                    del counts[message]
                assert network.to_counts(after) == Map(counts)
        if after is not None:
            inbox = after


def queue_by_rule(
    network: Network, inbox: Any, message: Record, rule: CopyCountRule
) -> list[tuple[Record, int]] | None:
    """Return the channel of a message after an operation, with the number of each message there, as the rule says."""
    items = [(one, at) for one, at in network.to_items(inbox) if network.queue(one) == network.queue(message)]
    if rule.change < 0:
        return [(one, at + 1) for one, at in items if at < 1] if (message, 1) in items else None
    is_refused = rule.least == ABOVE_EVERY_COUNT and message in dict(items)
    return None if is_refused else [*items, (message, 1 - len(items))]


class Unsigned(Record):
    dest: ModelValue


def test_channels_need_a_sender() -> None:
    with pytest.raises(ProtocolError, match=r"Unsigned has no field 'source'.* add a field source"):
        Channels().send(Channels().empty, Unsigned(a))


class ByKind(Channels):
    """One channel for each type of message."""

    def queue(self, message: Record) -> str:
        """Return the name of the message's type."""
        return type(message).__name__


class Grouped(Channels):
    """Channels of which a sender's messages can be forgotten."""

    def group(self, message: Record) -> Record | None:
        return Answer(a, message.source) if isinstance(message, Ask) else None

    def rule(self, operation: str, message: Record) -> CopyCountRule | None:
        return super().rule(operation, message)


class Forgetful(Channels):
    """Channels that lose what is sent while another message is under way: the rule of `Channels` does not hold."""

    def send(self, inbox: Map[Any, tuple[Record, ...]], message: Record) -> Map[Any, tuple[Record, ...]]:
        return inbox if inbox else super().send(inbox, message)


class Last(Bag):
    """A bag of which only the last message can be delivered."""

    def deliverable(self, inbox: Map[Record, int]) -> tuple[Record, ...]:
        return super().deliverable(inbox)[-1:]


def test_a_rule_is_not_followed_where_a_subclass_changes_what_it_is_about() -> None:
    for network in NETWORKS:
        assert network.rule_of("send", ASK) == network.rule("send", ASK)
    assert Forgetful().rule_of("send", ASK) is None
    assert Forgetful().rule("send", ASK) is not None
    assert Last().rule_of("send", ASK) is None
    assert Grouped().rule_of("send", ASK) is None


# In a protocol


class Node(Record):
    id: ModelValue
    got: int = 0


class Nothing(Record):
    pass


class Chatter(Protocol):
    """`a` asks `b` twice; `b` answers."""

    asks: int = bound("MaxAsks", default=2)
    faults: int = bound("MaxFaults", default=1)

    def initial(self) -> Iterator[State]:
        yield self.start([Node(a), Node(b)], Nothing())

    @internal
    def ask(self, me: Node) -> Steps:
        if me.id == a:
            yield become(me).send(Ask(a, b)).spend("asks")

    @on(Ask)
    def answer(self, me: Node, message: Ask) -> Steps:
        yield consume(me.but(got=me.got + 1)).reply(Answer(b, a))

    @on(Answer)
    def hear(self, me: Node, message: Answer) -> Steps:
        yield consume(me.but(got=me.got + 1))


class Crowd(Chatter):
    """All ask `b`, itself too; it remembers in which order it heard them."""

    @internal
    def ask(self, me: Node) -> Steps:
        yield become(me).send(Ask(me.id, b)).spend("asks")

    @on(Ask)
    def answer(self, me: Node, message: Ask) -> Steps:
        heard = me.but(got=3 * me.got + (1 if message.source == a else 2))
        yield consume(heard).reply(Answer(b, message.source))


@pytest.mark.parametrize(
    "network",
    [
        Forgetful(),
        Last(),
        pytest.param(ByKind(), marks=pytest.mark.slow),
        Grouped(),
        Channels(duplicates="faults", loses="faults"),
    ],
    ids=["forgetful", "last", "by-kind", "grouped", "faults"],
)
def test_engines_agree_on_what_a_network_does(network: Network) -> None:
    crowd: Any = type("Crowded", (Crowd,), {"network": network})
    found = explore(crowd(asks=3), SearchRequest(deadlock=False))
    tables = explore_tables(crowd(asks=3), SearchRequest(deadlock=False))
    assert found.distinct_states > 4
    symbolic = explore_symbolic(crowd(asks=3), SearchRequest(deadlock=False))
    assert tables.distinct_states == symbolic.distinct_states == found.distinct_states
    assert tables.generated_states == found.generated_states
    assert tables.actions == found.actions


@pytest.mark.parametrize("network", [BagWithMemory(), MessageSet(), Channels()])
@pytest.mark.parametrize("engine", [explore, explore_tables, explore_symbolic])
def test_no_engine_forgets_where_there_are_no_groups(network: Network, engine: Any) -> None:
    class Cutter(Crowd):
        @on(Ask)
        def answer(self, me: Node, message: Ask) -> Steps:
            yield become(me).forget(message)

    cutter: Any = type("Cutting", (Cutter,), {"network": network})
    with pytest.raises(ProtocolError, match=r"no message groups, so no step can use forget\(...\)"):
        engine(cutter(asks=1), SearchRequest(deadlock=False))


def chatter(network: Network, **limits: int) -> Semantics:
    cls: Any = type("Chat", (Chatter,), {"network": network})
    return Semantics(cls(**limits))


def after(semantics: Semantics, state: State, *names: str) -> State:
    for name in names:
        (state,) = [t.target for t in semantics.transitions(state) if t.action == name]
    return state


def actions(semantics: Semantics, state: State) -> list[str]:
    return [t.action for t in semantics.transitions(state)]


def test_an_inbox_that_is_empty_again_is_as_if_nothing_was_ever_sent() -> None:
    semantics = chatter(Bag())
    (start,) = semantics.initial()
    done = after(semantics, start, "Ask", "Answer", "Hear")
    assert done.inboxes == Map()
    assert done.but(replicas=start.replicas, spent=start.spent) == start
    remembering = chatter(BagWithMemory())
    assert after(remembering, start, "Ask", "Answer", "Hear").inboxes == Map(
        {a: Map({Answer(b, a): 0}), b: Map({Ask(a, b): 0})}
    )


def test_a_reply_that_is_refused_disables_the_whole_step() -> None:
    semantics = chatter(BagWithMemory(replies_once=(Answer,)))
    (start,) = semantics.initial()
    answered = after(semantics, start, "Ask", "Answer")
    again = after(semantics, answered, "Ask")
    assert again.inboxes[b] == Map({Ask(a, b): 1})
    assert actions(semantics, again) == ["Hear"]  # the second request is never consumed
    assert actions(semantics, after(semantics, again, "Hear")) == []


def test_a_send_that_is_refused_spends_nothing() -> None:
    semantics = chatter(BagWithMemory(once=(Ask,)))
    (start,) = semantics.initial()
    asked = after(semantics, start, "Ask")
    assert asked.spent["asks"] == 1
    assert actions(semantics, asked) == ["Answer"]


def test_messages_are_lost_and_doubled_as_far_as_the_bound_allows() -> None:
    semantics = chatter(Bag(loses=True, duplicates="faults"))
    (start,) = semantics.initial()
    asked = after(semantics, start, "Ask")
    assert after(semantics, asked, "LoseMessage") == start.but(spent=asked.spent)
    doubled = after(semantics, asked, "DuplicateMessage")
    assert doubled.inboxes[b] == Map({Ask(a, b): 2})
    assert doubled.spent["faults"] == 1
    assert actions(semantics, doubled) == ["Ask", "Answer", "LoseMessage"]
    lost = after(semantics, doubled, "LoseMessage")
    assert lost.inboxes == asked.inboxes


def test_a_lost_message_stays_known_where_the_network_remembers() -> None:
    semantics = chatter(BagWithMemory(loses="faults"))
    (start,) = semantics.initial()
    lost = after(semantics, start, "Ask", "LoseMessage")
    assert lost.inboxes == Map({b: Map({Ask(a, b): 0})})
    assert "LoseMessage" not in actions(semantics, after(semantics, lost, "Ask"))


def test_a_kept_message_is_delivered_again_until_it_is_lost() -> None:
    semantics = chatter(MessageSet(keeps=True, loses=True), asks=1)
    (start,) = semantics.initial()
    twice = after(semantics, start, "Ask", "Answer", "Answer")
    assert twice.replicas[b].got == 2
    lost = [t.target for t in semantics.transitions(twice) if t.action == "LoseMessage" and t.actor == b]
    assert [set(state.inboxes) for state in lost] == [{a}]


def counted(*, most: int = 9, once: bool = False, loses: bool = False, doubles: bool = False) -> tuple[int, int]:
    """Count the states and steps of `Chatter` from what each does to five numbers, with one fault at most."""
    start = (0, 0, 0, 0, 0, 0)
    seen, waiting, generated = {start}, [start], 1
    while waiting:
        asked, asks, got, answers, heard, faults = waiting.pop()
        following = []
        if asked < (1 if once else 2):
            following.append((asked + 1, min(asks + 1, most), got, answers, heard, faults))
        if asks:
            following.append((asked, asks - 1, got + 1, min(answers + 1, most), heard, faults))
        if answers:
            following.append((asked, asks, got, answers - 1, heard + 1, faults))
        for change in ([-1] if loses else []) + ([1] if doubles else []):
            if asks and not faults:
                following.append((asked, asks + change, got, answers, heard, 1))
            if answers and not faults:
                following.append((asked, asks, got, answers + change, heard, 1))
        generated += len(following)
        waiting += [state for state in dict.fromkeys(following) if state not in seen]
        seen.update(following)
    return len(seen), generated


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        (BagWithMemory(), counted()),
        (Bag(), counted()),
        (Channels(), counted()),
        (MessageSet(), counted(most=1)),
        (BagWithMemory(once=(Ask,)), counted(once=True)),
        (BagWithMemory(loses="faults"), counted(loses=True)),
        (Bag(loses="faults"), counted(loses=True)),
        (BagWithMemory(duplicates="faults"), counted(doubles=True)),
        (Bag(loses="faults", duplicates="faults"), counted(loses=True, doubles=True)),
    ],
)
def test_how_many_states_each_makes(network: Network, expected: tuple[int, int]) -> None:
    result = explore(chatter(network).protocol, SearchRequest(deadlock=False))
    assert (result.distinct_states, result.generated_states) == expected
    assert expected[0] > 3


def test_the_count_by_hand() -> None:
    """The asks sent, answered and heard are 0 <= heard <= answered <= sent <= 2: 10 states, 4 steps of each kind."""
    assert counted() == (10, 13)

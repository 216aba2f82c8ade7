"""What a TLA+ specification may have: no messages, another name for None, initial states by name, partial fairness."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kraftcheck import check
from kraftcheck.spec import (
    Bag,
    InputError,
    Map,
    ModelValue,
    Protocol,
    ProtocolError,
    Record,
    State,
    Step,
    Steps,
    become,
    bound,
    constant,
    constraint,
    consume,
    eventually,
    init,
    internal,
    invariant,
    on,
    ordered,
    predicate,
    projection,
    temporal,
    weak,
)
from kraftcheck.spec.language.formula import Formula
from kraftcheck.spec.language.network import Channels, MessageSet, Network
from kraftcheck.spec.tla.state_conversion import TlaStateConverter
from kraftcheck.spec.tla.types import TlaVariablesError
from tests.support.command_line import Run

ENGINES = ("reference", "tables")


class Lamp(Record):
    id: ModelValue
    lit: bool = False
    last: ModelValue | None = None


class House(Record):
    pass


class Lamps(Protocol):
    """Lamps that visitors switch, without messages."""

    lamps: frozenset[ModelValue] = constant("Lamp")
    visitors: frozenset[ModelValue] = constant("Visitor")
    network = None
    none_is = "NULL"

    def initial(self) -> Iterator[State]:
        yield self.start([Lamp(one) for one in ordered(self.lamps)], House())

    @init
    def one_lit(self) -> Iterator[State]:
        for lit in ordered(self.lamps):
            yield self.start([Lamp(one, one == lit) for one in ordered(self.lamps)], House())

    @internal
    def switch(self, me: Lamp) -> Steps:
        for visitor in ordered(self.visitors - {me.last}):
            yield become(me.but(lit=not me.lit, last=visitor))


LAMPS, VISITORS = (frozenset(ModelValue(f"{x}{i}", i) for i in (1, 2)) for x in "lv")
HOUSE = Lamps(lamps=LAMPS, visitors=VISITORS)


def test_no_messages_and_none_by_another_name() -> None:
    view, (state,) = TlaStateConverter(HOUSE), HOUSE.initial()
    variables = view.variables(state)
    assert list(variables) == ["lit", "last"]
    assert set(variables["last"].values()) == {ModelValue("NULL")}
    assert view.state(variables) == state
    assert view.state({**variables, "messages": frozenset()}) == state  # of a file of an earlier release
    with pytest.raises(TlaVariablesError, match="variable messages: expected one of Lamps's variables, lit, last"):
        view.state({**variables, "messages": frozenset({1})})
    with pytest.raises(TlaVariablesError, match=r"variable last\[l1\]: expected .*NULL.*, found None"):
        view.state({**variables, "last": Map({one: ModelValue("None") for one in LAMPS})})


def test_a_message_where_there_are_none() -> None:
    class Note(Record):
        dest: ModelValue

    class Chatty(Lamps):
        @internal
        def say(self, me: Lamp) -> Steps:
            yield become(me).send(Note(me.id))

    with pytest.raises(ProtocolError, match=r"Say.*sends Note.*but there are no messages: network = None"):
        check(Chatty(lamps=LAMPS, visitors=VISITORS), engine="reference")


def test_a_network_that_is_none() -> None:
    class Slip(Lamps):
        network = MessageSet

    with pytest.raises(ProtocolError, match=r"Slip.network: expected a network.*forgot `\(\)`"):
        Slip(lamps=LAMPS, visitors=VISITORS)


@pytest.mark.parametrize("engine", ENGINES)
def test_initial_states_by_name(engine: str) -> None:
    from_dark, from_lit = (check(HOUSE, init=name, engine=engine) for name in ("Init", "OneLit"))
    assert (from_dark.distinct_states, from_lit.distinct_states) == (25, 34)
    with pytest.raises(InputError, match=r"OneLitt.*OneLit"):
        check(HOUSE, init="OneLitt", engine=engine)


def test_named_initial_states_are_checked() -> None:
    class Bare(Lamps):
        @init
        def nothing(self) -> Iterator[State]:
            return iter(())

    with pytest.raises(ProtocolError, match=r"test_way_in.py:\d+: nothing of Bare: there is no initial state"):
        check(Bare(lamps=LAMPS, visitors=VISITORS), init="Nothing", engine="reference")


CONFIG = "CONSTANTS\n Lamp = {l1, l2}\n Visitor = {v1, v2}\n NULL = NULL\nINIT OneLit\nNEXT Step\n"
MODULE = Path(__file__).parents[1] / "data" / "toy" / "Lamps.tla"
TRACE = """Error: The behavior up to this point is:
State 1: <OneLit line 12, col 5 to line 13, col 40 of module Lamps>
/\\ lit = (l1 :> TRUE @@ l2 :> FALSE)
/\\ last = (l1 :> NULL @@ l2 :> NULL)

State 2: <Step line 20, col 9 to line 20, col 50 of module Lamps>
/\\ lit = (l1 :> TRUE @@ l2 :> TRUE)
/\\ last = (l1 :> NULL @@ l2 :> v2)

1 states generated
"""


def files(folder: Path) -> tuple[Path, Path]:
    (folder / "model.cfg").write_text(CONFIG)
    (folder / "trace.out").write_text(TRACE)
    source, begin, end = Path(__file__).read_text(), "class Lamp(Record)", "LAMPS, VISITORS ="
    head = "from collections.abc import Iterator\nfrom kraftcheck import *\n\n\n"
    (folder / "lamps.py").write_text(head + source[source.index(begin) : source.index(end)])
    return folder / "lamps.py", folder / "model.cfg"


def test_a_trace_with_names_of_its_own(run: Run, tmp_path: Path) -> None:
    model, config = files(tmp_path)
    outcome = run("replay", f"{model}:Lamps", "--config", config, tmp_path / "trace.out")
    assert outcome.code == 0, outcome.out + outcome.err
    assert "Lamps has no NEXT Step; it is taken for the protocol's own" in outcome.out
    assert "Note: Step is no action of Lamps: a step of that name may be any action" in outcome.out
    (tmp_path / "trace.out").write_text(TRACE.replace("l2 :> v2", "l2 :> NULL"))
    outcome = run("replay", f"{model}:Lamps", "--config", config, tmp_path / "trace.out")
    assert (outcome.code, "diverges at state 2" in outcome.out) == (1, True)


@pytest.mark.slow
@pytest.mark.tlc
@pytest.mark.kernel
def test_a_crosscheck_without_names(run: Run, tmp_path: Path) -> None:
    model, config = files(tmp_path)
    asked = ("crosscheck", f"{model}:Lamps", "--config", config, "--spec", MODULE, "--json", tmp_path / "found.json")
    outcome = run(*asked, "--unlabelled")
    assert (outcome.code, outcome.out.splitlines()[-1]) == (0, "EQUAL: the same states and steps")
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["distinct_states"] == {"ours": 34, "theirs": 34}
    assert (found["edges"]["labelled"], found["actions"]["theirs"]) == (False, None)
    outcome = run(*asked)
    assert (outcome.code, outcome.out.splitlines()[-1]) == (0, "EQUAL: the same states and steps")
    assert "Step is no action of Lamps: a step of that name may be any action" in outcome.out
    model.write_text(model.read_text().replace("self.visitors - {me.last}", "self.visitors"))
    assert (run(*asked).code, run(*asked, "--unlabelled").code) == (1, 1)


class Peer(Record):
    id: int
    heard: frozenset[int] = frozenset()


class Word(Record):
    source: int
    dest: int


class History(Record):
    lost: int = 0
    doubled: int = 0


class Lossy(Protocol):
    """Words that are lost and doubled, each noted in a history."""

    losses: int = bound("Losses", default=2)
    network: Network | None = Bag()

    def initial(self) -> Iterator[State]:
        yield self.start([Peer(0), Peer(1)], History(), [Word(0, 1), Word(1, 0)])

    @on(Word)
    def hear(self, me: Peer, message: Word) -> Steps:
        yield consume(me.but(heard=me.heard | {message.source}))

    @on(Word)
    def lose_message(self, me: Peer, message: Word, shared: History) -> Steps:
        yield become(me).lose(message).put(lost=shared.lost + 1).spend("losses")

    @on(Word)
    def duplicate_message(self, me: Peer, message: Word, shared: History) -> Steps:
        yield become(me).duplicate(message).put(doubled=shared.doubled + 1).spend("losses")


class Kept(Lossy):
    network = MessageSet(keeps=True)


class Queued(Lossy):
    network = Channels()


class BuiltIn(Lossy):
    """The same without the history: the network's own steps."""

    network = Bag(loses="losses", duplicates="losses")
    lose_message = duplicate_message = None  # type: ignore[assignment]


@pytest.mark.parametrize("protocol", [Lossy, Kept, Queued])
@pytest.mark.parametrize("engine", ["tables", "symbolic"])
def test_network_actions_with_effects(protocol: type[Protocol], engine: str) -> None:
    expected = check(protocol(), engine="reference", deadlock=False)
    found = check(protocol(), engine=engine, deadlock=False)
    assert found.distinct_states == expected.distinct_states > 10
    assert {"LoseMessage", "DuplicateMessage"} <= {name for name, times in expected.actions.items() if times}


def test_they_do_what_the_network_does() -> None:
    """But for the history, the steps are those of the built-in actions."""
    (state,) = Lossy().initial()
    network = BuiltIn.network
    (inbox,) = {state.inboxes[1]}
    word = Word(0, 1)
    for step, own in ((Step().lose(word), network.lose), (Step().duplicate(word), network.duplicate)):
        ((operation, message),) = step.sends
        assert network.apply(operation, inbox, message) == own(inbox, word)
        assert step.sent == ()


class Twice(Lossy):
    network = Bag(loses=True)


def test_a_network_action_in_two_places() -> None:
    with pytest.raises(ProtocolError, match="a step of the network is called LoseMessage too"):
        Twice()


class Inbox(Record):
    id: int
    seen: frozenset[int] = frozenset()


class Byzantine(Protocol):
    """A receiver that must hear from correct senders, and need not from the faulty one."""

    senders: int = constant("Senders", default=3)
    network = MessageSet()
    specifications = {
        "Correct": (weak("Receive", each="message", when="from_correct"),),
        "All": (weak("Receive"),),
        "No": (),
    }

    def initial(self) -> Iterator[State]:
        yield self.start([Inbox(0)], History(), [Word(source, 0) for source in range(1, self.senders + 1)])

    def from_correct(self, me: Inbox, message: Word) -> bool:
        return message.source != 3

    @on(Word)
    def receive(self, me: Inbox, message: Word) -> Steps:
        yield consume(me.but(seen=me.seen | {message.source}))

    @predicate
    def heard_all(self, me: Inbox) -> bool:
        return len(me.seen) == 3

    @predicate
    def heard_correct(self, me: Inbox) -> bool:
        return me.seen >= {1, 2}

    @temporal
    def all_heard(self) -> Formula:
        return eventually(self.heard_all)  # type: ignore[arg-type]

    @temporal
    def correct_heard(self) -> Formula:
        return eventually(self.heard_correct)  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("specification", "violated"),
    [("All", []), ("Correct", ["AllHeard"]), ("No", ["AllHeard", "CorrectHeard"])],
)
def test_fairness_of_a_part_of_an_action(engine: str, specification: str, violated: list[str]) -> None:
    for name in ("AllHeard", "CorrectHeard"):
        result = check(Byzantine(), engine=engine, specification=specification, properties=[name], deadlock=False)
        assert [one.property for one in result.violations] == [name] * (name in violated)


@pytest.mark.parametrize(
    ("fairness", "network", "message"),
    [
        (weak("Receive", when="from_corect"), MessageSet(), r"Byzantine has no method from_corect; expected def from_"),
        (
            weak("Next", when="from_correct"),
            Bag(loses=True),
            "Next has steps without a replica; when= needs actions of replicas",
        ),
        (weak("Receive", when="initial"), MessageSet(), r"fairness initial"),
    ],
)
def test_fairness_of_a_part_that_cannot_be(fairness: Any, network: Network, message: str) -> None:
    class Slip(Byzantine, variant="slip"):
        specifications = {"Slip": (fairness,)}

    Slip.network = network
    try:
        with pytest.raises((InputError, ProtocolError), match=message):
            check(Slip(), engine="reference", specification="Slip", properties=["AllHeard"], deadlock=False)
    finally:
        Byzantine.variants.clear()


class Leader(Record):
    id: int
    votes: int = 0


class Voter(Record):
    id: int
    has_voted: bool = False


class Election(Protocol):
    """Voters see the leader's votes; a voter has none."""

    network = None

    def initial(self) -> Iterator[State]:
        yield self.start([Leader(0), *map(Voter, range(1, 4))], History())

    @projection(of=Leader)
    def votes(self, me: Leader) -> int:
        return me.votes

    @internal(reads=votes)
    def vote(self, me: Voter, votes: Map[int, int]) -> Steps:
        if not me.has_voted and list(votes) == [0] and 1 not in votes:
            yield become(me.but(has_voted=True)).write(Leader(0, votes[0] + 1))

    @invariant(reads=votes)
    def votes_are_few(self, votes: Map[int, int], me: Leader) -> bool:
        return len(votes) == 1 and sum(votes.values()) == me.votes < 4


@pytest.mark.parametrize("engine", ["reference", "tables", "symbolic"])
def test_a_projection_of_one_type_of_replica(engine: str) -> None:
    result = check(Election(), engine=engine, deadlock=False)
    assert (result.distinct_states, result.violations) == (8, [])


def test_projections_that_cannot_be_of_a_type() -> None:
    with pytest.raises(ProtocolError, match=r"projection leads, of=: expected types of replica, found 'Leader'"):

        @projection(of="Leader")  # type: ignore[arg-type]
        def leads(self: Any, me: Any) -> bool:
            return True

    with pytest.raises(ProtocolError, match=r"projection sent, of=: it takes messages, not a replica"):

        @projection(of=Leader)
        def sent(self: Any, messages: Any) -> int:
            return 0


class Beyond(Lamps):
    @constraint
    def nothing_is_dark(self, me: Lamp) -> bool:
        return me.lit


@pytest.mark.parametrize("engine", ["reference", "tables", "symbolic"])
def test_no_initial_state_within_a_constraint(engine: str) -> None:
    protocol = Beyond(lamps=LAMPS, visitors=VISITORS)
    result = check(protocol, engine=engine, constraints=["NothingIsDark"], properties=[])
    assert (result.distinct_states, result.complete) == (0, True)
    assert result.warnings == ["no state was searched: every initial state violates CONSTRAINT NothingIsDark"]
    assert check(protocol, engine=engine, properties=[]).warnings == []


class FromFirst(Byzantine):
    specifications = {"First": (weak("Receive", when="from_first"),)}

    def from_first(self, me: Inbox, message: Word) -> bool:
        return message.source == 1


def test_a_predicate_of_fairness_is_used() -> None:
    result = check(FromFirst(), specification="First", properties=["CorrectHeard"], deadlock=False)
    assert result.warnings == []


class Alone(Lamps):
    def initial(self) -> Iterator[State]:
        yield self.start([Lamp(one) for one in ordered(self.lamps)])


@pytest.mark.parametrize("engine", ["reference", "tables", "symbolic"])
def test_a_protocol_without_shared_state(engine: str) -> None:
    protocol = Alone(lamps=LAMPS, visitors=VISITORS)
    assert check(protocol, engine=engine, deadlock=False).distinct_states == 25
    assert list(TlaStateConverter(protocol).names) == ["lit", "last"]


def test_a_shared_state_of_no_class() -> None:
    class Bare(Lamps):
        def initial(self) -> Iterator[State]:
            yield self.start([], Record())

    with pytest.raises(ProtocolError, match=r"initial of Bare: expected a record of a class of your own, found Record"):
        check(Bare(lamps=LAMPS, visitors=VISITORS), engine="reference")

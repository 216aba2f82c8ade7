"""States as TLA+ variables: nothing is lost on the way there and back, and what does not fit is named."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from kraftcheck.explorer.reference import ReferenceSearch
from kraftcheck.explorer.result import SearchRequest
from kraftcheck.kraft_model.prevote import Prevote
from kraftcheck.kraft_model.reconfig import Reconfig
from kraftcheck.spec import (
    Bag,
    Channels,
    InputError,
    Map,
    MessageSet,
    ModelValue,
    Protocol,
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
    on,
    ordered,
)
from kraftcheck.spec.encoding import encode
from kraftcheck.spec.examples.two_phase_commit import TwoPhaseCommit
from kraftcheck.spec.tla.state_conversion import TlaStateConverter
from kraftcheck.spec.tla.text import format_on_one_line, format_value, parse_value
from kraftcheck.spec.tla.types import TlaTypeMismatchError, TlaVariablesError
from kraftcheck.spec.values import Value
from tests.support import tlc as models

n1, n2 = ModelValue("n1", 0), ModelValue("n2", 1)
RECONFIG = [
    *("config", "currentEpoch", "role", "state", "votedFor", "leader", "pendingFetch", "log", "highWatermark"),
    *("votesGranted", "endOffset", "messages", "servers", "_acked", "_valueCtr", "_diskIdGen"),
    *("_electionCtr", "_restartCtr", "_addReconfigCtr", "_removeReconfigCtr"),
]


def states_of(protocol: Protocol, limit: int | None = None) -> list[State]:
    search = ReferenceSearch(protocol, SearchRequest(deadlock=False, max_states=limit))
    search.run()
    return list(search.states())


def as_json(value: Value) -> Any:
    """Return a TLA+ value as TLC's JSON has it."""
    if isinstance(value, ModelValue):
        return value.name
    if isinstance(value, frozenset):
        return [as_json(item) for item in ordered(value)]
    if isinstance(value, tuple):
        return [as_json(item) for item in value]
    if isinstance(value, Map):
        record = all(isinstance(key, str) for key in value)
        return {key if record else format_on_one_line(key): as_json(item) for key, item in value.items()}
    return value


# KRaft


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("grow-with-election", 500),
        ("two-voters-remove", 500),
        ("grow-and-shrink-with-election", 500),
        pytest.param("grow-with-election", None, marks=pytest.mark.slow),
        pytest.param("two-voters-remove", None, marks=pytest.mark.slow),
        pytest.param("grow-and-shrink-with-election", 1500, marks=pytest.mark.slow),
    ],
)
def test_every_state_of_reconfig_comes_back(name: str, limit: int | None) -> None:
    protocol = models.bound(f"counts/{name}").protocol
    view = TlaStateConverter(protocol)
    states = states_of(protocol, limit)
    printed: dict[bytes, Value] = {}
    for number, state in enumerate(states):
        variables = view.variables(state)
        assert list(variables) == RECONFIG
        assert view.state(variables) == state
        if number % 100 == 0:
            assert view.state({name: as_json(value) for name, value in variables.items()}, untyped=True) == state
        if number % 200 == 0:
            printed.update((encode(value), value) for value in variables.values())
    for code, value in printed.items():
        assert encode(parse_value(format_value(value))) == code
        assert encode(parse_value(format_value(value, style="tlc2.15"))) == code


@pytest.mark.slow
def test_every_state_of_prevote_comes_back() -> None:
    protocol = models.bound("prevote/counts/three-voters-cut", Prevote).protocol
    view = TlaStateConverter(protocol)
    for number, state in enumerate(states_of(protocol, 800)):
        variables = view.variables(state)
        assert view.state(variables) == state
        if number % 100 == 0:
            assert view.state({name: as_json(value) for name, value in variables.items()}, untyped=True) == state
    assert {"server_ids", "current_epoch", "net_messages", "net_messages_processed", "aux_ctrs"} < set(view.names)


@pytest.mark.slow
def test_states_come_back_from_their_text_with_the_protocols_own_model_values() -> None:
    """What is read from text knows no order of model values; the protocol does."""
    protocol = models.bound("counts/grow-with-election").protocol
    assert isinstance(protocol, Reconfig)
    view = TlaStateConverter(protocol)
    state = states_of(protocol)[-1]
    read = view.state({name: parse_value(format_value(value)) for name, value in view.variables(state).items()})
    assert read == state
    hosts = [server.host for server in ordered(read.replicas)]
    assert {(host.name, host.index) for host in hosts} == {(host.name, host.index) for host in protocol.hosts}
    assert [*map(format_on_one_line, ordered(read.replicas))] == [*map(format_on_one_line, ordered(state.replicas))]


CLIENTS = (ModelValue("client", 9),)
"""Model values that no constant and no initial state has."""


class Asked(Record):
    id: int
    by: ModelValue | None = None
    at: ModelValue | None = None


class Asking(Protocol):
    """A replica is asked by a client, at a place."""

    places = {1: ModelValue("here", 8)}

    def initial(self) -> Iterator[State]:
        yield self.start([Asked(1)])

    @internal
    def ask(self, me: Asked) -> Steps:
        yield become(me.but(by=CLIENTS[0], at=self.places[me.id]))


def test_model_values_in_collections_of_a_module_and_a_class_come_back() -> None:
    protocol = Asking()
    view, asked = TlaStateConverter(protocol), states_of(protocol)[-1]
    assert asked.replicas[1].by is CLIENTS[0]
    read = view.state({name: parse_value(format_value(value)) for name, value in view.variables(asked).items()})
    assert read == asked
    assert (read.replicas[1].by.index, read.replicas[1].at.index) == (9, 8)


def test_two_phase_commit() -> None:
    protocol = TwoPhaseCommit(resource_managers=frozenset({n1, n2}))
    view = TlaStateConverter(protocol)
    assert view.names == ("phase", "prepared", "messages")
    for state in states_of(protocol):
        variables = view.variables(state)
        assert view.state(variables) == state
        assert view.state({name: as_json(value) for name, value in variables.items()}, untyped=True) == state
    sent = {
        format_on_one_line(message) for state in states_of(protocol) for message in view.variables(state)["messages"]
    }
    assert sorted(sent) == [
        '[type |-> "Decision", phase |-> aborted, dest |-> n1]',
        '[type |-> "Decision", phase |-> aborted, dest |-> n2]',
        '[type |-> "Decision", phase |-> committed, dest |-> n1]',
        '[type |-> "Decision", phase |-> committed, dest |-> n2]',
        '[type |-> "Prepared", source |-> n1, dest |-> tm]',
        '[type |-> "Prepared", source |-> n2, dest |-> tm]',
    ]


# Every kind of field, replica and network


class Colour(Symbol):
    RED = "red"
    BLUE = "blue"


class Part(Record):
    """Has a record of its own class in it, and an alternative that looks different."""

    size: int
    inner: Part | Colour = Colour.RED


class OtherPart(Record):
    tla_names: ClassVar[dict[str, str]] = {"wide_name": "odd"}
    wide_name: str


class Counter(Record):
    id: int
    total_count: int = 0
    by_name: Map[str, int] = Map()
    by_number: Map[int, bool] = Map()
    pair: tuple[int, bool] = (0, False)
    parts: frozenset[Part | OtherPart] = frozenset()
    either: bool | int | Colour | tuple[int, ...] = Colour.RED
    anything: Any = Colour.BLUE


class Speaker(Record):
    id: int
    total_count: int = 0
    words_said: tuple[str, ...] = ()


class Said(Record):
    source: int
    dest: int
    text: str


class Noted(Record):
    """Looks like `Said` but for its type."""

    source: int
    dest: int
    text: str


class Common(Record):
    tla_prefix: ClassVar[str] = "_"
    hosts_seen: frozenset[ModelValue]


class Talk(Protocol):
    hosts: frozenset[ModelValue] = constant("Hosts")
    many_words: int = bound("MaxWords")
    turns: int = bound("MaxTurns", counter="turnCtr")
    network = Bag()
    symbols = (Colour,)

    def initial(self) -> Iterator[State]:
        yield self.start([Counter(1), Counter(2), Speaker(3)], Common(frozenset()), [Said(0, 1, "hello")])

    @on(Said)
    def count(self, me: Counter, message: Said) -> Steps:
        yield consume(
            me.but(
                total_count=me.total_count + 1,
                by_name=me.by_name.put(message.text, 1),
                by_number=me.by_number.put(len(me.by_number) + me.id, True),
                pair=(me.total_count, True),
                parts=me.parts | {Part(1, Part(2)), OtherPart(message.text)},
                either=[True, 1, Colour.BLUE, (1, 2)][me.total_count % 4],
                anything=n1 if message.text == "hello" else (Colour.RED, frozenset({1})),
            )
        ).send(Noted(me.id, 3, message.text)).put(hosts_seen=frozenset({n1}))

    @internal
    def speak(self, me: Speaker) -> Steps:
        text = f'word "{len(me.words_said)}"'
        yield become(me.but(words_said=(*me.words_said, text))).send(Said(me.id, 1, text)).spend("many_words")

    @on(Noted)
    def note(self, me: Speaker, message: Noted) -> Steps:
        yield consume(me.but(total_count=me.total_count + 1)).spend("turns")


class SetTalk(Talk):
    network = MessageSet()


class ChannelTalk(Talk):
    network = Channels()


def talk(cls: type[Talk] = Talk) -> Talk:
    return cls(hosts=frozenset({n1, n2}), many_words=3, turns=1)


@pytest.mark.parametrize("cls", [Talk, SetTalk, ChannelTalk])
def test_every_type_and_network_comes_back(cls: type[Talk]) -> None:
    protocol = talk(cls)
    view = TlaStateConverter(protocol)
    states = states_of(protocol)
    assert len(states) > 30
    for state in states:
        variables = view.variables(state)
        back = view.state(variables)
        assert back == state
        assert encode(back) == encode(state)
        texts = {name: format_value(value) for name, value in variables.items()}
        assert encode(view.state({name: parse_value(text) for name, text in texts.items()})) == encode(state)


def test_names_and_shapes() -> None:
    view = TlaStateConverter(talk())
    assert view.names == (
        "totalCount",
        "byName",
        "byNumber",
        "pair",
        "parts",
        "either",
        "anything",
        "wordsSaid",
        "messages",
        "_hostsSeen",
        "_manyWords",
        "turnCtr",
    )
    variables = view.variables(states_of(talk())[-1])
    assert len(variables["totalCount"]) == 3  # a function with the domain 1..3 is a sequence
    assert isinstance(variables["totalCount"], tuple)
    assert isinstance(variables["pair"], tuple)  # of two, the counters
    assert format_on_one_line(variables["wordsSaid"]).startswith("(3 :> <<")
    assert 'odd |-> "hello"' in format_on_one_line(variables["parts"])
    assert view.variables(talk().initial().__next__())["messages"] == Map(
        {Map({"type": "Said", "source": 0, "dest": 1, "text": "hello"}): 1}
    )


class Holder(Record):
    """A replica whose id is a string."""

    id: str
    holds: ModelValue | None = None


class Held(Record):
    """A replica whose id is a model value."""

    id: ModelValue
    is_held: bool = False


class Nothing(Record):
    """No shared state."""


class Holding(Protocol):
    """Some ids are strings, some are model values; one variable is of the first kind only."""

    held: frozenset[ModelValue] = constant("Held")

    def initial(self) -> Iterator[State]:
        """Nothing is held."""
        yield self.start([Holder("first"), Holder("second"), *map(Held, ordered(self.held))], Nothing())


def test_ids_that_are_strings_beside_model_values_come_back_from_json() -> None:
    protocol = Holding(held=frozenset({ModelValue("a", 1), ModelValue("b", 2)}))
    view, [state] = TlaStateConverter(protocol), protocol.initial()
    untyped = {name: as_json(value) for name, value in view.variables(state).items()}
    assert untyped["holds"] == {"first": "None", "second": "None"}
    assert view.state(untyped, untyped=True) == state


def test_channels_are_a_function_from_pairs_to_sequences() -> None:
    protocol = talk(ChannelTalk)
    view = TlaStateConverter(protocol)
    (state,) = [s for s in states_of(protocol) if s.spent["many_words"] == 3 and len(s.replicas[1].by_name) == 0]
    channels = view.variables(state)["messages"]
    assert list(channels) == [(0, 1), (3, 1)]
    assert [message["text"] for message in channels[3, 1]] == ['word "0"', 'word "1"', 'word "2"']
    untyped = {name: as_json(value) for name, value in view.variables(state).items()}
    assert list(untyped["messages"]) == ["<<0, 1>>", "<<3, 1>>"]
    assert view.state(untyped, untyped=True) == state
    crossed = Map({(3, 1): channels[0, 1]})
    with pytest.raises(
        TlaVariablesError, match=r"messages\[<<3, 1>>\]: expected messages that all go from and to <<3, 1>>"
    ):
        view.state({**view.variables(state), "messages": crossed})


def test_a_bag_that_forgets_has_no_message_that_is_not_under_way() -> None:
    protocol = talk()
    view = TlaStateConverter(protocol)
    (state,) = protocol.initial()
    variables = view.variables(state)
    variables["messages"] = variables["messages"].put(Map({"type": "Said", "source": 0, "dest": 2, "text": ""}), 0)
    with pytest.raises(TlaVariablesError, match=r"messages\[.*\]: expected a count of at least 1, found 0"):
        view.state(variables)


class Plain(Record):
    id: str


class Twin(Record):
    id: str


class Base(Record):
    id: str


class Derived(Base):
    x: int = 0


class Twins(Protocol):
    """Replicas that only their class tells apart, known by strings; and one that only an action's annotation shows."""

    network = MessageSet()

    def initial(self) -> Iterator[State]:
        yield self.start([Plain("a"), Twin("b")], Common(frozenset()))

    @environment
    def join(self) -> Steps:
        yield Step().write(Derived("c", 1))

    @internal
    def act(self, me: Base) -> Steps:
        yield become(me)


class Strangers(Twins):
    @environment
    def join(self) -> Steps:
        yield Step().write(Counter(4))


def test_classes_that_only_their_name_tells_apart() -> None:
    protocol = Twins()
    view = TlaStateConverter(protocol)
    assert view.names == ("kind", "x", "messages", "_hostsSeen")
    states = states_of(protocol)
    assert len(states) == 2
    for state in states:
        variables = view.variables(state)
        assert encode(view.state(variables)) == encode(state)
        assert view.state({name: as_json(value) for name, value in variables.items()}, untyped=True) == state
    assert format_on_one_line(variables["kind"]) == '[a |-> "Plain", b |-> "Twin"]'
    wrong = {**variables, "kind": Map({"a": "Plain", "b": "Triplet"})}
    with pytest.raises(TlaVariablesError, match=r'variable kind\["b"\]: expected Plain or Twin, found "Triplet"'):
        view.state(wrong)


def test_a_replica_of_a_class_that_nothing_names() -> None:
    protocol = Strangers()
    with pytest.raises(
        TlaVariablesError, match="expected a class of replicas that an action's parameter is annotated with"
    ):
        TlaStateConverter(protocol).variables(states_of(protocol)[-1])


class Clash(Record):
    total_count: int = 0


class Clashing(Talk):
    def initial(self) -> Iterator[State]:
        yield self.start([Counter(1)], Clash())


def test_two_variables_of_one_name() -> None:
    with pytest.raises(
        TlaVariablesError, match=r"variable totalCount: .*tla_names.*found two of that name in Clashing"
    ):
        TlaStateConverter(talk(Clashing))


# What does not fit


def reconfig() -> tuple[TlaStateConverter, dict[str, Value]]:
    protocol = models.bound("counts/two-voters").protocol
    view = TlaStateConverter(protocol)
    state = next(s for s in states_of(protocol) if s.inboxes and len(s.replicas[ordered(s.replicas)[0]].log) > 1)
    return view, view.variables(state)


def changed(value: Value, path: list[Any], new: Value) -> Value:
    """Return a value with what is at a path replaced; in a path, a number is a place among the arguments."""
    if not path:
        return new
    key = ordered(value)[path[0]] if isinstance(value, Map) and isinstance(path[0], int) else path[0]
    if isinstance(value, tuple):
        return tuple(changed(item, path[1:], new) if i == key else item for i, item in enumerate(value))
    return value.put(key, changed(value[key], path[1:], new))


SERVER = r"\[host \|-> n1, diskId \|-> 0\]"


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    ("variable", "path", "new", "message"),
    [
        ("currentEpoch", [0], True, rf"currentEpoch\[{SERVER}\]: expected a number, found TRUE"),
        ("currentEpoch", [], 3, r"currentEpoch: expected a function, found 3"),
        ("currentEpoch", [], (1, 2), "variable config: expected a value for 1, as currentEpoch has, found none"),
        ("role", [1], ModelValue("Leader"), r"role\[.*n2.*\]: expected .*Observer.* or Voter, found Leader"),
        ("votedFor", [0], n1, rf"votedFor\[{SERVER}\]: expected a record of diskId, host or Nil, found n1"),
        ("log", [0, 1, "epoch"], "x", rf'log\[{SERVER}\]\[2\].epoch: expected a number, found "x"'),
        ("log", [0, 0], Map({"epoch": 1}), rf"log\[{SERVER}\]\[1\]: expected a record of .*, found no c.* or value"),
        ("log", [0, 0, "value", "id"], "x", r'\[1\].value.id: expected a number, found "x"'),
        ("log", [0, 1, "value"], ModelValue("v9"), r"\[2\].value: expected .*a model value: n1, n2 or v1, found v9"),
        ("config", [0, "committed"], 1, r"config\[.*\].committed: expected TRUE or FALSE, found 1"),
        ("config", [0, "members"], (), rf"config\[{SERVER}\].members: expected a set, found <<>>"),
        ("config", [0, "members"], frozenset({n1}), r"members\{n1\}: expected a record of diskId, host, found n1"),
        ("endOffset", [0, 1], (), r"endOffset.*n2.*\]: expected a number, found <<>>"),
        ("endOffset", [0], Map({n1: 1}), r"endOffset.*\[n1\]: expected as an argument a record of diskId, host, found"),
        ("_acked", [], Map({n1: 2}), r"_acked\[n1\]: expected TRUE or FALSE or Nil, found 2"),
        ("_acked", [], Map({ModelValue("v9"): True}), r"_acked\[v9\]: expected as an argument a model value: n1, n2"),
        ("_valueCtr", [], (0, True), r"_valueCtr\[2\]: expected a number, found TRUE"),
        ("_valueCtr", [], frozenset(), r"_valueCtr: expected a sequence, found {}"),
        ("_electionCtr", [], "one", r'_electionCtr: expected a number, found "one"'),
        ("messages", [0], -1, r"messages\[.*\]: expected a count of at least 0, found -1"),
        ("messages", [0], "x", r'messages\[.*\]: expected a number, found "x"'),
        ("messages", [], Map({Map({"mtype": n1}): 1}), r"messages\[.*\].mtype: expected as an argument .*FetchRequest"),
        (
            "messages",
            [],
            Map({Map({"mtype": ModelValue("BeginQuorumRequest"), "mepoch": 1}): 1}),
            r"expected as an argument a record of mdest, mepoch, msource, mtype, found no mdest or msource",
        ),
        (
            "servers",
            [],
            frozenset({Map({"host": n1, "diskId": 0, "rack": 1})}),
            r"servers\{.*\}: expected a record of diskId, host, found also rack",
        ),
    ],
)
def test_what_does_not_fit_is_named(variable: str, path: list[Any], new: Value, message: str) -> None:
    view, variables = reconfig()
    view.state(variables)  # what was read before is known again, and only that
    with pytest.raises(TlaVariablesError, match=message) as raised:
        view.state({**variables, variable: changed(variables[variable], path, new)})
    assert str(raised.value).startswith(f"variable {raised.value.path}: expected ")
    assert raised.value.path.startswith(raised.value.variable)
    assert isinstance(raised.value, InputError)
    copy = pickle.loads(pickle.dumps(raised.value))
    assert (str(copy), copy.path, copy.found, copy.expected) == (
        str(raised.value),
        raised.value.path,
        raised.value.found,
        raised.value.expected,
    )


def test_a_server_that_one_variable_lacks_or_has_alone() -> None:
    view, variables = reconfig()
    server = ordered(variables["log"])[1]
    with pytest.raises(
        TlaVariablesError, match=r"variable log: expected a value for \[.*n2.*\], as config has, found none"
    ):
        view.state({**variables, "log": variables["log"].without(server)})
    more = variables["state"].put(Map({"host": n1, "diskId": 7}), ModelValue("Leader"))
    with pytest.raises(TlaVariablesError, match=r"variable config: expected a value for \[.*7.*\], as state has"):
        view.state({**variables, "state": more})


def test_missing_and_unknown_variables() -> None:
    view, variables = reconfig()
    del variables["log"]
    with pytest.raises(TlaVariablesError, match="variable log: expected a value, found no such variable"):
        view.state(variables)
    _, variables = reconfig()
    with pytest.raises(
        TlaVariablesError, match=r"variable lag: expected one of Reconfig's variables, config, .*, found"
    ):
        view.state({**variables, "lag": 1})


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("variable", "new", "message"),
    [
        ("currentEpoch", {"[host |-> n1": 1}, r"expected an argument as TLA\+ text \(.*end of the text.*\), found"),
        ("currentEpoch", None, "currentEpoch: expected a function, found null"),
        ("servers", {}, r"servers: expected a set, found \{\}"),
        ("_valueCtr", [0, 1.5], r"_valueCtr\[2\]: expected a number, found 1.5"),
        ("_acked", {"v1": "Nile"}, 'expected TRUE or FALSE or Nil, found "Nile"'),
        ("servers", [{"host": "n9", "diskId": 0}], r'\.host: expected a model value: n1, n2 or v1, found "n9"'),
        ("servers", [{"host": "n1", "diskId": 0}] * 2, r"servers: expected a set \(each element once\), found"),
        ("_acked", {"v1": "Nil", " v1": True}, r"_acked: expected a function \(each argument once\), found"),
    ],
)
def test_what_does_not_fit_in_json(variable: str, new: Any, message: str) -> None:
    view, variables = reconfig()
    untyped = {name: as_json(value) for name, value in variables.items()}
    view.state(untyped, untyped=True)
    with pytest.raises(TlaVariablesError, match=message):
        view.state({**untyped, variable: new}, untyped=True)


# Classes that derive from one


class Note(Record):
    pass


class Chosen(Note):
    leader: ModelValue


class Preferred(Note):
    leader: ModelValue


class Counted(Note):
    number: int


class Book(Record):
    id: ModelValue
    notes: tuple[Note, ...] = ()


class Blank(Record):
    pass


class Writer(Protocol):
    network = MessageSet()

    def initial(self) -> Iterator[State]:
        yield self.start([Book(n1)], Blank())

    @internal
    def write(self, me: Book) -> Steps:
        if not me.notes:
            yield become(me.but(notes=(Chosen(n1), Preferred(n1), Counted(1))))


def test_records_of_one_base_are_told_apart_though_their_fields_are_the_same() -> None:
    protocol = Writer()
    view = TlaStateConverter(protocol)
    first, written = states_of(protocol)
    assert '[type |-> "Preferred", leader |-> n1]' in format_on_one_line(view.variables(written)["notes"])
    assert "[leader |-> n1], " in format_on_one_line(view.variables(written)["notes"])
    for state in (first, written):
        assert view.state(view.variables(state)) == state


@pytest.mark.slow
def test_an_error_of_an_alternative_that_does_not_fit_leaves_no_cycle() -> None:
    """Else memory grows with the number of states that are read, as commands look for cycles rarely."""
    protocol = talk()
    view = TlaStateConverter(protocol)
    found = [view.variables(state) for state in states_of(protocol)]
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for variables in found:
            view.state(variables)
        gc.collect()
        kinds = set(map(type, gc.garbage))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert TlaTypeMismatchError not in kinds


def test_two_fields_of_a_record_with_one_name_are_refused() -> None:
    class Broker(Record):
        id: int
        last_epoch: int = 0
        lastEpoch: int = 0  # noqa: N815

    class Twice(Protocol):
        def initial(self) -> Iterator[State]:
            yield self.start([Broker(1)])

    with pytest.raises(TlaVariablesError, match="lastEpoch: expected one; set tla_names, found two of that name in"):
        TlaStateConverter(Twice())

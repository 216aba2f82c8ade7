"""Why an action is not enabled: asked of every action in every state along counterexamples, and of particular ones."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import kraftcheck.kraft_model.reconfig
from kraftcheck.kraft_model.reconfig import Reconfig
from kraftcheck.kraft_model.reconfig.records import Role, ServerId, ServerState
from kraftcheck.kraft_model.reconfig.variants import RemovedLeaderContradicted
from kraftcheck.spec import (
    Bag,
    BagWithMemory,
    InputError,
    Map,
    MessageSet,
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
    consume,
    environment,
    internal,
    on,
    projection,
)
from kraftcheck.spec.cfg.binding import bind_constants
from kraftcheck.spec.cfg.config import read_config
from kraftcheck.spec.diagnosis.action_explanation import ActionExplanation, explain_action, explain_action_as_text
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.tla.state_conversion import TlaStateConverter
from tests.support import tlc as models

KINDS = {"enabled", "guard", "bound", "network", "no message", "no replica", "not receiving"}
FOLDER = Path(kraftcheck.kraft_model.reconfig.__file__).parent


def file_with(text: str) -> Path:
    """Return the one file of the model that has a text."""
    (found,) = [path for path in FOLDER.glob("*.py") if text in path.read_text()]
    return found


def line(text: str, after: str = "", path: Path | None = None) -> int:
    """Return the number of the first line that has a text, after the first that has another."""
    lines = (path or file_with(after or text)).read_text().splitlines()
    begin = next(number for number, found in enumerate(lines) if after in found)
    return next(number for number in range(begin, len(lines)) if text in lines[number]) + 1


def check_all(semantics: Semantics, state: State) -> list[ActionExplanation]:
    """Ask of every action, and compare what is said to be enabled with the transitions."""
    enabled = {(t.action, t.actor, t.message) for t in semantics.transitions(state)}
    names = [*semantics.protocol.actions, *semantics.network.own_actions()]
    reasons = {name: explain_action(semantics, state, name) for name in names}
    said = {(name, r.actor, r.message) for name in names for r in reasons[name] if r.kind == "enabled"}
    assert said == enabled
    for name, found in reasons.items():
        assert found, name
        for reason in found:
            assert reason.kind in KINDS
            assert reason.text
            assert (reason.file is None) == (reason.line is None)
            if reason.kind == "guard":
                source = Path(reason.file)
                assert source.parent == FOLDER
                stopped = source.read_text().splitlines()[reason.line - 1]
                assert any(word in stopped for word in ("return", "continue", "if ", "for "))
                assert str(reason).endswith(f"/{source.name}:{reason.line}")
        assert explain_action_as_text(semantics, state, name).startswith(f"{name} is ")
    return [reason for found in reasons.values() for reason in found]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", models.COUNTEREXAMPLES)
def test_every_action_in_every_state_along_a_counterexample(name: str) -> None:
    protocol = bind_constants(Reconfig, read_config(models.TLC / f"counterexamples/{name}.cfg"))
    view, semantics = TlaStateConverter(protocol), Semantics(protocol)
    for _, variables in models.states_of(models.text_of(f"counterexamples/{name}.out")):
        check_all(semantics, view.state(variables))


# Particular reasons


@pytest.fixture
def start() -> tuple[Semantics, State, ServerId, ServerId]:
    protocol = models.bound("counts/two-voters").protocol
    semantics = Semantics(protocol)
    (state,) = semantics.initial()
    leader, follower = sorted(state.replicas, key=lambda key: key.host.name)
    return semantics, state, leader, follower


def only(reasons: list[ActionExplanation]) -> ActionExplanation:
    (reason,) = reasons
    return reason


def with_server(before: State, key: ServerId, **changes: Any) -> State:
    return before.but(replicas=before.replicas.put(key, before.replicas[key].but(**changes)))


def test_a_guard_is_shown_with_the_values_in_it(start: tuple[Semantics, State, ServerId, ServerId]) -> None:
    semantics, state, leader, follower = start
    reason = only(explain_action(semantics, state, "ClientRequest", follower))
    assert (reason.kind, reason.actor, reason.message) == ("guard", follower, None)
    assert reason.text == "me.state is not ServerState.LEADER (me.state = Follower)"
    assert reason.line == line("return", after="def client_request")
    assert only(explain_action(semantics, state, "ClientRequest", leader)).kind == "enabled"


def test_arithmetic_subscripts_and_lengths(start: tuple[Semantics, State, ServerId, ServerId]) -> None:
    semantics, state, leader, _ = start
    used = state.but(shared=state.shared.but(value_ctr=(1, 0)))
    assert only(explain_action(semantics, used, "ClientRequest", leader)).text == (
        "shared.value_ctr[me.current_epoch - 1] >= self.max_values_per_epoch"
        " (shared.value_ctr[me.current_epoch - 1] = 1, me.current_epoch = 1, self.max_values_per_epoch = 1)"
    )
    assert only(explain_action(semantics, state, "StartNewServer")).text == (
        "len(shared.servers) >= self.max_spawned_servers (len(shared.servers) = 2, self.max_spawned_servers = 2)"
    )


def test_a_loop_in_which_no_turn_yields(start: tuple[Semantics, State, ServerId, ServerId]) -> None:
    semantics, state, leader, _ = start
    acked = Map((value, True) for value in state.shared.acked)
    reason = only(explain_action(semantics, state.but(shared=state.shared.but(acked=acked)), "ClientRequest", leader))
    assert reason.text == "shared.acked[value] is not Nil.NIL (shared.acked[value] = TRUE, value = v1)"
    assert reason.line == line("if shared.acked[value] is Nil.NIL")
    reason = only(explain_action(semantics, state, "HandleRemoveRequest", leader))
    assert reason.kind == "bound"
    pending = with_server(state, leader, config=state.replicas[leader].config.but(committed=False))
    reason = only(explain_action(semantics, pending, "HandleRemoveRequest", leader))
    assert reason.kind == "guard"
    assert "self._reconfig_error(me, removed, joins=False) = ReconfigInProgress" in reason.text
    assert reason.line == line("continue", after="def handle_remove_request")


def test_an_else_shows_every_branch_before_it(start: tuple[Semantics, State, ServerId, ServerId]) -> None:
    semantics, state, leader, _ = start
    reason = only(explain_action(semantics, state, "SendFetchRequest", leader))
    assert reason.text == (
        "me.state is not ServerState.FOLLOWER and not (me.role is Role.OBSERVER and me.state is ServerState.UNATTACHED)"
        " (me.state = Leader, me.role = Voter)"
    )


def test_what_a_method_in_a_condition_looked_at(start: tuple[Semantics, State, ServerId, ServerId]) -> None:
    semantics, state, _, follower = start
    reason = only(explain_action(semantics, with_server(state, follower, role=Role.OBSERVER), "RequestVote", follower))
    assert reason.text.startswith("not self._may_stand(me) (in _may_stand: me.role = Observer, ")


def test_a_bound_that_is_used_up(start: tuple[Semantics, State, ServerId, ServerId]) -> None:
    semantics, state, _, follower = start
    used = state.but(spent=state.spent.put("elections", 1))
    reason = only(explain_action(semantics, used, "RequestVote", follower))
    assert (reason.kind, reason.text) == ("bound", "nothing is left of elections: MaxElections = 1")
    assert reason.line == line("yield", after="def request_vote")
    assert {r.kind for r in explain_action(semantics, state, "RestartWithState")} == {"bound"}  # MaxRestarts = 0


def test_a_message_that_may_be_sent_once(start: tuple[Semantics, State, ServerId, ServerId]) -> None:
    semantics, state, _, follower = start
    (asked,) = [t.target for t in semantics.transitions(state) if t.action == "RequestVote"]
    again = with_server(asked, follower, state=ServerState.FOLLOWER, current_epoch=1)
    reason = only(explain_action(semantics, again.but(spent=state.spent), "RequestVote", follower))
    assert reason.kind == "network"
    assert reason.text == (
        "RequestVoteRequest(epoch=2, last_log_epoch=1, last_log_offset=1, source=n2, dest=n1) was sent before,"
        " and may be sent only once"
    )


def test_a_message_that_is_not_there(start: tuple[Semantics, State, ServerId, ServerId]) -> None:
    semantics, state, leader, follower = start
    reasons = explain_action(semantics, state, "HandleRequestVoteRequest")
    assert [(r.kind, r.actor) for r in reasons] == [("no message", leader), ("no message", follower)]
    assert explain_action_as_text(semantics, state, "HandleRequestVoteRequest") == (
        "HandleRequestVoteRequest is not enabled:\n  n1; n2: no RequestVoteRequest is under way to it"
    )
    (asked,) = [t.target for t in semantics.transitions(state) if t.action == "RequestVote"]
    (request,) = semantics.network.deliverable(asked.inboxes[leader])
    assert only(explain_action(semantics, asked, "HandleRequestVoteRequest", leader, request)).kind == "enabled"
    assert only(explain_action(semantics, asked, "HandleRequestVoteRequest", follower, request)).kind == "no message"
    assert only(explain_action(semantics, asked, "RejectFetchRequest", leader, request)).text == (
        "RejectFetchRequest is taken on FetchRequest"
    )


def test_a_replica_that_receives_nothing(start: tuple[Semantics, State, ServerId, ServerId]) -> None:
    semantics, state, leader, _ = start
    (asked,) = [t.target for t in semantics.transitions(state) if t.action == "RequestVote"]
    dead = with_server(asked, leader, state=ServerState.DEAD_NO_STATE)
    reason = only(explain_action(semantics, dead, "HandleRequestVoteRequest", leader))
    assert (reason.kind, reason.text) == ("not receiving", "it receives no messages in this state")


def test_nobody_who_could_take_it(start: tuple[Semantics, State, ServerId, ServerId]) -> None:
    semantics, state, _, _ = start
    stranger = ServerId(ModelValue("n9"), 0)
    reason = only(explain_action(semantics, state, "RequestVote", stranger))
    assert (reason.kind, reason.text) == ("no replica", "there is no replica n9: RequestVote is taken by a Server")


def test_an_action_that_nobody_knows(start: tuple[Semantics, State, ServerId, ServerId]) -> None:
    semantics, state, _, _ = start
    with pytest.raises(InputError, match=r"unknown action RequestVotes \(perhaps RequestVote\?\); Reconfig has"):
        explain_action(semantics, state, "RequestVotes")


def test_a_variant_that_passes_on_what_its_base_yields() -> None:
    protocol = models.bound("counts/two-voters", RemovedLeaderContradicted).protocol
    semantics = Semantics(protocol)
    (state,) = semantics.initial()
    while not any(r.message for r in explain_action(semantics, state, "HandleNonSuccessFetchResponse")):
        wanted = ("SendFetchRequest", "AcceptFetchRequestFromVoter")
        state = next(t.target for t in semantics.transitions(state) if t.action in wanted)
    reason = next(r for r in explain_action(semantics, state, "HandleNonSuccessFetchResponse") if r.message)
    assert reason.text == "not outcome.handled (outcome.handled = FALSE)"
    assert reason.file == str(FOLDER / "replication.py")


# The language's other corners


class Side(Symbol):
    LEFT = "left"
    RIGHT = "right"


class Node(Record):
    id: int
    side: Side = Side.LEFT
    count: int = 0


class Other(Record):
    id: int


class Note(Record):
    source: int
    dest: int
    number: int


class Nothing(Record):
    pass


class Corners(Protocol):
    losses: int = bound("MaxLosses")
    copies: int = bound("MaxCopies")
    network = BagWithMemory(once=(Note,), loses="losses", duplicates="copies")

    def initial(self) -> Iterator[State]:
        yield self.start([Node(1), Node(2, Side.RIGHT, 3)], Nothing(), [Note(1, 2, 7)])

    @internal
    def one_liner(self, me: Node) -> Steps:
        if me.side is Side.LEFT: return  # noqa: E701
        if me.count > 2: return  # noqa: E701
        yield become(me)

    @internal
    def matching(self, me: Node) -> Steps:
        match me.side:
            case Side.LEFT:
                return
            case Side.RIGHT:
                yield become(me)

    @internal
    def nested(self, me: Node) -> Steps:
        if me.side is Side.LEFT:
            if me.count == 0 or me.count > 5:
                return
            yield become(me)
        elif me.count > 2:
            for number in range(me.count):
                if number > 5:
                    yield become(me)
        else:
            yield become(me)

    @internal
    def falls_through(self, me: Node) -> Steps:
        wanted = Side.LEFT if me.count else Side.RIGHT
        if me.side is wanted:
            yield become(me)

    @internal
    def empty_loop(self, me: Node) -> Steps:
        for number in range(me.count, 3):
            if number > me.count + 1:
                yield become(me.but(count=number))
        if me.count > 100:
            yield become(me)

    @internal
    def only_loop(self, me: Node) -> Steps:
        for _ in self._notes(me):
            yield become(me)

    def _notes(self, me: Node) -> list[int]:
        return [me.count] if me.side is Side.LEFT else []

    @internal
    def passes_on(self, me: Node) -> Steps:
        yield from self._if_left(me)

    @internal
    def returns_one(self, me: Node) -> Steps:
        return self._if_left(me)

    def _if_left(self, me: Node) -> Steps:
        if me.side is not Side.LEFT:
            return
        yield become(me)

    @internal
    def always_nothing(self, me: Node) -> Steps:
        yield from ()

    @internal
    def whiles(self, me: Node) -> Steps:
        left = me.count
        while left > 0:
            left -= 1
            if left == 7:
                yield become(me)

    @internal
    def of_another(self, me: Other) -> Steps:
        yield become(me)

    @on(Note)
    def read(self, me: Node, note: Note) -> Steps:
        if note.number != 8:
            return
        yield consume(me)

    @projection
    def counts(self, me: Node) -> int:
        return me.count

    @environment(reads=counts)
    def watch(self, counts: Map[int, int]) -> Steps:
        if sum(counts.values()) < 10:
            return
        yield Step()

    @internal
    def several(self, me: Node) -> Steps:
        yield become(me).spend("losses")
        yield become(me).send(Note(1, 2, 7))  # the last of them
        del me


class SingleCopies(Bag):
    """Takes no second copy."""

    def duplicate(self, inbox: Map[Record, int], message: Record) -> None:
        return None


class Single(Corners):
    network = SingleCopies(loses="losses", duplicates="copies")


HERE = Path(__file__)


@pytest.mark.parametrize(
    ("action", "actor", "text", "at"),
    [
        ("OneLiner", 1, "me.side is Side.LEFT (me.side = left)", "if me.side is Side.LEFT: return"),
        ("OneLiner", 2, "me.count > 2 (me.count = 3)", "if me.count > 2: return"),
        ("Matching", 1, "me.side is Side.LEFT", "return"),
        ("Nested", 1, "me.count == 0 or me.count > 5 (me.count = 0)", "return"),
        (
            "Nested",
            2,
            "number <= 5 (number = 0); number <= 5 (number = 1); number <= 5 (number = 2)",
            "if number > 5",
        ),
        ("FallsThrough", 1, "me.side is not wanted (me.side = left, wanted = right)", "if me.side is wanted"),
        ("FallsThrough", 2, "me.side is not wanted (me.side = right, wanted = left)", "if me.side is wanted"),
        ("EmptyLoop", 2, "me.count <= 100 (me.count = 3)", "if me.count > 100"),
        ("OnlyLoop", 2, "self._notes(me) is empty", "for _ in self._notes"),
        ("PassesOn", 2, "me.side is not Side.LEFT (me.side = right)", "        return"),
        ("ReturnsOne", 2, "me.side is not Side.LEFT (me.side = right)", "        return"),
        ("AlwaysNothing", 1, "it yields no step here", "yield from ()"),
        ("Whiles", 2, "left != 7 (left = 2); left != 7 (left = 1); left != 7 (left = 0)", "if left == 7"),
        ("Watch", None, "sum(counts.values()) < 10 (counts = {1: 0, 2: 3})", "return"),
    ],
)
def test_corners(action: str, actor: int | None, text: str, at: str) -> None:
    semantics = Semantics(Corners(losses=1, copies=0))
    (state,) = semantics.initial()
    reason = only(explain_action(semantics, state, action, actor))
    assert (reason.kind, reason.text) == ("guard", text)
    method = semantics.protocol.actions[action].function.__name__
    after = "def _if_left" if action in ("PassesOn", "ReturnsOne") else f"def {method}("
    assert (reason.file, reason.line) == (str(HERE), line(at, after, HERE))


def test_nobody_of_the_right_class() -> None:
    semantics = Semantics(Corners(losses=1, copies=0))
    (state,) = semantics.initial()
    assert explain_action_as_text(semantics, state, "OfAnother") == (
        "OfAnother is not enabled:\n  there is none: OfAnother is taken by a Other"
    )
    assert only(explain_action(semantics, state, "OfAnother", 1)).text == "1 is a Node: OfAnother is taken by a Other"


def test_several_steps_that_are_all_refused() -> None:
    semantics = Semantics(Corners(losses=0, copies=0))
    (state,) = semantics.initial()
    reason = only(explain_action(semantics, state, "Several", 1))
    assert (reason.kind, reason.line) == ("bound", line("# the last of them", path=HERE))
    assert reason.text == (
        "nothing is left of losses: MaxLosses = 0;"
        " Note(source=1, dest=2, number=7) was sent before, and may be sent only once"
    )


def test_the_networks_own_actions() -> None:
    semantics = Semantics(Corners(losses=0, copies=1))
    (state,) = semantics.initial()
    note = Note(1, 2, 7)
    assert explain_action(semantics, state, "LoseMessage") == [
        ActionExplanation("bound", "nothing is left of losses: MaxLosses = 0", 2, note)
    ]
    assert only(explain_action(semantics, state, "DuplicateMessage")).kind == "enabled"
    assert only(explain_action(Semantics(Single(losses=1, copies=1)), state, "DuplicateMessage")) == ActionExplanation(
        "network", "the network refuses a second copy of it", 2, note
    )
    assert only(explain_action(Semantics(Corners(losses=1, copies=0)), state, "LoseMessage")).kind == "enabled"
    read = state.but(inboxes=Map({2: Map({note: 0})}))
    assert only(explain_action(semantics, read, "LoseMessage")).text == "no message is under way"
    assert only(explain_action(semantics, state, "LoseMessage", 1)).kind == "no message"
    lost = only(explain_action(semantics, state, "LoseMessage", 2, Note(1, 2, 8)))
    assert lost.text == "that message is not under way"


@pytest.mark.parametrize("network", [Bag(loses=True, duplicates=True), MessageSet(loses=True)])
def test_every_action_of_the_network_has_reasons(network: Any) -> None:
    class Noisy(Corners):
        pass

    Noisy.network = network
    semantics = Semantics(Noisy(losses=1, copies=1))
    (state,) = semantics.initial()
    enabled = {(t.action, t.actor, t.message) for t in semantics.transitions(state)}
    for name in [*semantics.protocol.actions, *network.own_actions()]:
        found = {(name, r.actor, r.message) for r in explain_action(semantics, state, name) if r.kind == "enabled"}
        assert found == {item for item in enabled if item[0] == name}


def test_an_action_without_source_still_has_a_line() -> None:
    namespace: dict[str, Any] = {"Protocol": Corners, "internal": internal, "become": become, "Node": Node}
    code = (
        "class Typed(Protocol):\n"
        "    @internal\n"
        "    def typed(self, me: Node):\n"
        "        if me.count == 0:\n"
        "            return\n"
        "        yield become(me)\n"
    )
    exec(code, namespace)
    semantics = Semantics(namespace["Typed"](losses=1, copies=0))
    reason = only(explain_action(semantics, semantics.initial()[0], "Typed", 1))
    assert (reason.kind, reason.text, reason.file, reason.line) == ("guard", "it yields no step here", "<string>", 5)


def test_a_trace_function_is_put_back() -> None:
    semantics = Semantics(Corners(losses=1, copies=0))
    (state,) = semantics.initial()

    def mine(frame: FrameType, event: str, argument: Any) -> Any:
        return None

    before = sys.gettrace()
    sys.settrace(mine)
    try:
        explain_action(semantics, state, "OneLiner")
        kept = sys.gettrace()
    finally:
        sys.settrace(before)
    assert kept is mine


def test_a_trace_function_is_put_back_after_an_error() -> None:
    class Breaking(Corners):
        @internal
        def break_it(self, me: Node) -> Steps:
            raise ValueError("no")

    semantics = Semantics(Breaking(losses=1, copies=0))
    before = sys.gettrace()
    with pytest.raises(ProtocolError, match="action BreakIt of Breaking raised ValueError: no"):
        explain_action(semantics, semantics.initial()[0], "BreakIt")
    assert sys.gettrace() is before

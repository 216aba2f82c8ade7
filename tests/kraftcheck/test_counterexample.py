"""Counterexamples in words: what a protocol engineer reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

import pytest

from kraftcheck import (
    Channels,
    MessageSet,
    ModelValue,
    Protocol,
    Record,
    State,
    Step,
    Steps,
    Symbol,
    bound,
    check,
    consume,
    environment,
    explain,
    internal,
    invariant,
    on,
)
from kraftcheck.kraft_model.reconfig.records import FetchRequest, Nil, ServerId
from kraftcheck.reporting.counterexample import (
    message_columns,
    messages_around_step,
    non_default_fields_text,
    value_differences,
)
from kraftcheck.reporting.lines import continuation_indent, line_breaks, print_lines
from kraftcheck.spec import Bag, Map
from kraftcheck.spec.values import text_of

pytestmark = pytest.mark.kernel

N1, N2 = ModelValue("n1", 0), ModelValue("n2", 1)


class Colour(Symbol):
    RED = "Red"


class Point(Record):
    x: int
    y: int = 0


def changed(old: object, new: object) -> list[str]:
    return [f"{change.path} {change.text}" for change in value_differences("p", old, new)]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "TRUE"),
        (7, "7"),
        ("a", '"a"'),
        (Colour.RED, "Red"),
        (N1, "n1"),
        (frozenset({N2, N1}), "{n1, n2}"),
        ((1, (False,)), "[1, [FALSE]]"),
        (Map({N2: 2, N1: 1}), "{n1: 1, n2: 2}"),
        (Point(1), "Point(x=1, y=0)"),
        (ServerId(N1, 0), "n1"),
        (ServerId(N1, 2), "n1/2"),
    ],
)
def test_words(value, text) -> None:
    assert text_of(value) == text


@pytest.mark.parametrize(
    ("old", "new", "texts"),
    [
        (1, 1, []),
        (1, 2, ["p 1 -> 2"]),
        (1, True, ["p 1 -> TRUE"]),  # equal in Python
        (Point(1), Point(1, 3), ["p.y 0 -> 3"]),
        (Point(1), 5, ["p Point(...) -> 5"]),
        (5, Point(1), ["p 5 -> Point(x=1, y=0)"]),
        (frozenset({1, 2}), frozenset({2, 3, 4}), ["p +3 +4 -1"]),
        (Map({N1: 1, N2: 2}), Map({N1: 3, 7: 0}), ["p[7] + 0", "p[n1] 1 -> 3", "p[n2] - 2"]),
        ((1, 2), (1, 2, 3), ["p[3] + 3"]),
        ((1, 2, 3), (1,), ["p[2] - 2", "p[3] - 3"]),
        ((1, 2, 3), (1, 4), ["p[2] - 2", "p[3] - 3", "p[2] + 4"]),
        ((1, Point(1)), (2, Point(2)), ["p[1] 1 -> 2", "p[2].x 1 -> 2"]),
        (ServerId(N1, 0), ServerId(N1, 1), ["p n1 -> n1/1"]),
        (ServerId(N1, 0), Nil.NIL, ["p n1 -> Nil"]),
    ],
)
def test_difference(old, new, texts) -> None:
    assert changed(old, new) == texts


def test_a_message_says_who_to_whom_first_and_long_fields_last() -> None:
    request = FetchRequest(2, 3, 1, False, ServerId(N1, 0), ServerId(N2, 1))
    text = "epoch=2 fetch_offset=3 last_fetched_epoch=1 observer=FALSE"
    assert message_columns(request) == ("FetchRequest", "n1 -> n2/1", text)


def test_only_what_is_not_a_default_is_said_of_a_new_replica() -> None:
    assert non_default_fields_text(Point(1)) == "x=1"
    assert non_default_fields_text(Point(1, 2)) == "x=1, y=2"


# A behaviour told


class Node(Record):
    id: ModelValue
    heard: tuple[int, ...] = ()


class Observer(Record):
    id: int
    awake: bool = False


class Note(Record):
    number: int
    dest: ModelValue


class Shared(Record):
    sent: int = 0


class Notes(Protocol):
    """Notes to one node, sent by the environment; some are read and kept, some lost."""

    losses: int = bound("MaxLosses", default=1)
    network = MessageSet(keeps=True, loses="losses")

    def initial(self) -> Iterator[State]:
        yield self.start([Node(N1), Node(N2, (7,)), Observer(3)], Shared(), [Note(1, N1)])

    @environment
    def write(self, shared: Shared) -> Steps:
        yield Step().send(Note(2, N1)).put(sent=shared.sent + 1)

    @on(Note)
    def read(self, me: Node, note: Note) -> Steps:
        if note.number not in me.heard:
            yield consume(me.but(heard=(*me.heard, note.number)))

    @internal
    def start_peer(self, me: Observer) -> Steps:
        if not me.awake:
            yield Step().write(Observer(4, True), me.but(awake=True))

    @invariant
    def never_both(self, me: Node) -> bool:
        return len(me.heard) < 2

    @invariant
    def never_lost(self, state: State) -> bool:
        return bool(state.inboxes) or not state.spent["losses"]

    @invariant
    def sleeps(self, me: Observer) -> bool:
        return not me.awake


def told(name: str) -> str:
    protocol = Notes()
    # Of several shortest counterexamples, the reference engine's first.
    result = check(protocol, properties=[name], deadlock=False, engine="reference")
    return explain(protocol, result.violations[0])


def test_environment_delivery_and_messages_that_stay() -> None:
    assert told("NeverBoth") == (
        "Counterexample to NeverBoth, 4 states\n"
        "messages: - consumed, * delivered and kept, + sent, the others still under way\n"
        "\n"
        "State 1  initial state\n"
        "    replicas        3, n1, n2\n"
        "    Observer.awake  FALSE\n"
        "    Node.heard      [] (n1); [7] (n2)\n"
        "    shared.sent     0\n"
        "    messages    Note  -> n1  number=1\n"
        "\n"
        "State 2  Write by the environment\n"
        "    shared.sent  0 -> 1\n"
        "    messages  + Note  -> n1  number=2\n"
        "                Note  -> n1  number=1\n"
        "\n"
        "State 3  Read by n1 on Note\n"
        "    n1.heard[1]  + 1\n"
        "    messages  * Note  -> n1  number=1\n"
        "                Note  -> n1  number=2\n"
        "\n"
        "State 4  Read by n1 on Note\n"
        "    n1.heard[2]  + 2\n"
        "    messages  * Note  -> n1  number=2\n"
        "                Note  -> n1  number=1\n"
        "\n"
        "NeverBoth\n"
        "    violated for me = n1: `len(me.heard) < 2` is false  (len(me.heard) = 2)"
    )


def test_what_the_network_does_by_itself_and_what_is_spent() -> None:
    assert told("NeverLost").endswith(
        "State 2  LoseMessage by the network on Note\n"
        "    spent MaxLosses  0 -> 1 of 1\n"
        "    messages  - Note  -> n1  number=1\n"
        "\n"
        "NeverLost\n"
        "    violated: `bool(state.inboxes)` is false  (state.inboxes = {})\n"
        "      `not state.spent['losses']` is false  (state.spent['losses'] = 1)"
    )


def test_a_new_replica() -> None:
    assert "State 2  StartPeer by 3\n    3.awake  FALSE -> TRUE\n    4        + awake=TRUE\n" in told("Sleeps") + "\n"


def test_an_initial_state_that_violates() -> None:
    class Bad(Notes):
        @invariant
        def nothing_sent(self, message: Note) -> bool:
            return False

    result = check(Bad(), properties=["NothingSent"])
    assert explain(Bad(), result.violations[0]).startswith("Counterexample to NothingSent, 1 state\n")


def test_a_step_that_changes_nothing() -> None:
    class Idle(Notes):
        def write(self, shared: Shared) -> Steps:
            yield Step()

        @invariant(name="Dull")
        def dull(self, me: Node) -> bool:
            return True

    from kraftcheck.explorer.result import TraceStep, Violation

    (state,) = Idle().initial()
    told_lines = explain(Idle(), Violation("Dull", (TraceStep(state), TraceStep(state, "Write")))).splitlines()
    assert told_lines[-3:] == [
        "State 2  Write by the environment", "    nothing changes", "    messages    Note  -> n1  number=1",
    ]  # fmt: skip


def state_with(network, *sent: Record) -> State:
    inbox = network.empty
    for message in sent:
        inbox = network.send(inbox, message)
    return State(Map(), Map({N1: inbox}), Shared(), Map())


def test_copies_are_counted() -> None:
    network, note = Bag(), Note(1, N1)
    found = messages_around_step(network, state_with(network, note, note), state_with(network, note), note)
    assert [(message.mark, message.copies) for message in found] == [("-", 1)]
    found = messages_around_step(network, state_with(network, note), state_with(network, note, note), None)
    assert [(message.mark, message.copies) for message in found] == [("+", 2)]


def test_a_channel_with_the_same_message_twice() -> None:
    class Letter(Record):
        source: ModelValue
        dest: ModelValue

    network, letter = Channels(), Letter(N2, N1)
    found = messages_around_step(network, state_with(network, letter), state_with(network, letter, letter), None)
    assert [(message.mark, message.copies) for message in found] == [("+", 2)]


def test_styles_only_on_a_terminal(capsys, monkeypatch) -> None:
    from kraftcheck.reporting.counterexample import counterexample_lines as lines_of

    violation = check(Notes(), properties=["Sleeps"], deadlock=False).violations[0]
    print_lines(lines_of(Notes(), violation))
    assert "\x1b[" not in capsys.readouterr().out
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    print_lines(lines_of(Notes(), violation))
    assert "\x1b[31mFALSE\x1b[0m -> \x1b[32mTRUE\x1b[0m" in capsys.readouterr().out


class Crowd(Protocol):
    """A node that many messages are on the way to."""

    network = Bag()

    def initial(self) -> Iterator[State]:
        yield self.start([Node(N1), Node(N2)], Shared(), [Note(number, N1) for number in range(5)])

    @on(Note)
    def read(self, me: Node, note: Note) -> Steps:
        yield consume(me.but(heard=(*me.heard, note.number)))

    @invariant
    def silent(self, me: Node) -> bool:
        """Nobody hears anything.

        This is not told.
        """
        return not me.heard


def test_messages_that_stay_are_counted_and_the_reason_is_told() -> None:
    (violation,) = check(Crowd(), engine="reference").violations
    assert explain(Crowd(), violation).endswith(
        "State 2  Read by n1 on Note\n"
        "    n1.heard[1]  + 0\n"
        "    messages  - Note  -> n1  number=0\n"
        "                4 others still under way\n"
        "\n"
        "Silent  Nobody hears anything.\n"
        "    violated for me = n1: `not me.heard` is false  (me.heard = [0])"
    )


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_lines_are_broken_to_the_width_of_a_terminal(width: int) -> None:
    line = "    messages  + FetchRequest  n1 -> n2  epoch=1 offset=2 " + "x" * 90 + " end"
    cut = line_breaks(line, width)
    pieces = [line[a:b] for a, b in pairwise([0, *cut, len(line)])]
    assert "".join(pieces) == line
    indent = continuation_indent(line, width)
    assert indent == (14 if width > 28 else 8)
    assert all(len(piece.rstrip()) <= width - (indent if place else 0) for place, piece in enumerate(pieces))
    assert width < 200 or cut == []


@pytest.mark.parametrize("width", [80, 200])
def test_a_terminal_is_filled_to_its_width(width: int, capsys, monkeypatch) -> None:
    from kraftcheck.reporting.counterexample import counterexample_lines as lines_of

    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    request = FetchRequest(2, 3, 1, False, ServerId(N1, 0), ServerId(N2, 1))
    long = [("", f"    messages  + {'  '.join(message_columns(request))} and {'so on ' * 8}end")]
    (violation,) = check(Crowd(), engine="reference").violations
    print_lines([*lines_of(Crowd(), violation), long])
    lines = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out).splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) == {80: 23, 200: 21}[width]
    assert width == 200 or lines[-1].startswith(" " * 14 + "on so on ")


def test_one_column_a_replica() -> None:
    from kraftcheck.reporting.counterexample import counterexample_lines as lines_of
    from kraftcheck.reporting.lines import lines_as_plain_text

    result = check(Notes(), properties=["NeverBoth"], deadlock=False, engine="reference")
    assert lines_as_plain_text(lines_of(Notes(), result.violations[0], 60)) == (
        "Counterexample to NeverBoth, 4 states\n"
        "messages: > sent, < delivered and consumed, * delivered and kept, x lost or dropped\n"
        "\n"
        "    n1\n"
        "    unchanged: 3, n2\n"
        "\n"
        "State 1  initial state\n"
        "    heard []\n"
        "    shared.sent  0\n"
        "\n"
        "State 2  Write by the environment\n"
        "    > Note to n1 number=2\n"
        "    shared.sent 0 -> 1\n"
        "    1 still under way\n"
        "\n"
        "State 3  Read by n1 on Note\n"
        "    * Note number=1\n"
        "    heard[1] + 1\n"
        "    1 still under way\n"
        "\n"
        "State 4  Read by n1 on Note\n"
        "    * Note number=2\n"
        "    heard[2] + 2\n"
        "    1 still under way\n"
        "\n"
        "NeverBoth\n"
        "    violated for me = n1: `len(me.heard) < 2` is false  (len(me.heard) = 2)"
    )


def test_two_columns_on_the_command_line(run, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    asked = ("lock-service", "--variant", "impatient-server", "--engine", "reference", "--quiet", "--view", "columns")
    told_lines = run("check", *asked).out.split("State 4")[1].splitlines()
    assert told_lines[1:3] == [" " * 56 + "< Acquire from c1", " " * 56 + "> Grant to c1"]


def test_a_protocol_without_replicas_has_no_columns(run) -> None:
    asked = ("die-hard", "--config", "solve", "--engine", "reference", "--quiet")
    steps, columns = (run("check", *asked, "--view", view).out.splitlines()[:-1] for view in ("steps", "columns"))
    assert steps == columns != []

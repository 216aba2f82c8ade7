"""TLC's log: traces of every kind, as TLC prints them."""

import re
from itertools import pairwise
from pathlib import Path
from textwrap import dedent

import pytest

from kraftcheck.spec.values import Map
from kraftcheck.traces import ActionLocation, InfiniteEnding, TraceError, TraceFormat, ValueCache, read_traces
from kraftcheck.traces.formats.tlc_log import parse_action_label
from tests.support.samples import TLC, TOY, text_of, traces_of, variables

STEP = ActionLocation(6, 12, 6, 50, "Toy")

# file: (violated, problem, ending, values of x, actions)
EXPECTED = {
    "invariant": ("Small", "Invariant Small is violated.", None, [0, 1, 2], ["Step"] * 2),
    "toolinv": ("Small", "Invariant Small is violated.", None, [0, 1, 2], ["Step"] * 2),
    "initial": ("NotInit", "Invariant NotInit is violated by the initial state:", None, [0], []),
    "deadlock": (None, "Deadlock reached.", None, [0, 1, 2, 3, 4], ["Step"] * 3 + ["SameNext"]),
    "action": ("Grow", "Action property Grow is violated.", None, [0, 1, 2, 3, 1], ["Step"] * 3 + ["Back"]),
    "back": (
        None,
        "Temporal properties were violated.",
        InfiniteEnding(2, "Back", ActionLocation(7, 9, 7, 43, "Toy")),
        [0, 1, 2, 3],
        ["Step"] * 3,
    ),
    "tool": (
        None,
        "Temporal properties were violated.",
        InfiniteEnding(2, "Back", ActionLocation(7, 9, 7, 43, "Toy")),
        [0, 1, 2, 3],
        ["Step"] * 3,
    ),
    "stutter": (None, "Temporal properties were violated.", InfiniteEnding(), [0, 1, 2, 3], ["Step"] * 3),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_traces_of_every_kind(name: str) -> None:
    (trace,) = read_traces(TOY / f"{name}.out")
    violated, problem, ending, xs, actions = EXPECTED[name]
    assert (trace.violated, trace.problem, trace.ending) == (violated, problem, ending)
    assert [state.variables["x"] for state in trace.states] == xs
    assert [state.number for state in trace.states] == list(range(1, len(xs) + 1))
    assert [state.action for state in trace.states] == [None, *actions]
    assert [state.location for state in trace.states[:2]] == [None, STEP][: len(xs)]
    a: frozenset[int] = frozenset()
    for before, action, state in zip([0, *xs], [None, *actions], trace.states, strict=False):
        a = {"Step": frozenset({before}), "Back": frozenset({0})}.get(action, a)
        assert state.variables["y"] == Map({"a": a})
    assert (trace.index, trace.format, trace.complete, trace.untyped) == (0, TraceFormat.TLC_LOG, True, False)
    assert trace.file == str(TOY / f"{name}.out")


def test_a_state_knows_its_line() -> None:
    (trace,) = read_traces(TOY / "invariant.out")
    lines = (TOY / "invariant.out").read_text().splitlines()
    assert [lines[state.line - 1][:8] for state in trace.states] == ["State 1:", "State 2:", "State 3:"]


def test_several_errors_in_one_log() -> None:
    traces = list(read_traces(TOY / "continue.out"))
    assert [trace.index for trace in traces] == [0, 1, 2, 3, 4]
    assert [len(trace.states) for trace in traces] == [2, 3, 3, 3, 3]
    assert {trace.violated for trace in traces} == {"Small"}
    assert all(trace.complete for trace in traces)


def test_a_single_variable_has_no_conjunction() -> None:
    (trace,) = read_traces(TOY / "one.out")
    text = "a string that is long enough to be wrapped when there are several of them"
    second = frozenset({(text, frozenset())})
    assert [state.variables["x"] for state in trace.states] == [
        frozenset(),
        second,
        second | {(text, second)},
    ]


DIFFERENCES = """\
    Error: Temporal property Live was violated.

    Error: The following behavior constitutes a counter-example:

    State 1: <Initial predicate>
    /\\ x = 0
    /\\ y = << 1,
         2 >>
    /\\ z = {}

    State 2: <Vote(n1,n2) line 6, col 12 to line 6, col 50 of module Toy>
    /\\ x = 1

    State 3: <Idle line 7, col 12 to line 7, col 50 of module Toy>

    State 4: <Vote(n2,<<1, 2>>) line 6, col 12 to line 6, col 50 of module Toy>
    /\\ z = {2}
    /\\ y = <<>>

    Back to state 1: <Idle line 7, col 12 to line 7, col 50 of module Toy>

    4 states generated, 4 distinct states found, 0 states left on queue.
    """


def test_the_last_of_states_that_show_what_changed_is_whole() -> None:
    """So TLC prints the last state before an invariant is violated, also with `-difftrace`."""
    (trace,) = read_traces(TOY / "difftrace.out")
    assert [state.action for state in trace.states] == [None, "Ask", "Grant", "Enter"]
    assert all(len(state.variables) == 4 for state in trace.states)
    assert trace.states[2].variables["phase"] == trace.states[1].variables["phase"]


def test_states_that_show_only_what_changed_are_completed(tmp_path: Path) -> None:
    (trace,) = traces_of(tmp_path, dedent(DIFFERENCES))
    assert variables(trace) == [
        {"x": 0, "y": (1, 2), "z": frozenset()},
        {"x": 1, "y": (1, 2), "z": frozenset()},
        {"x": 1, "y": (1, 2), "z": frozenset()},
        {"x": 1, "y": (), "z": frozenset({2})},
    ]
    assert [list(state.variables) for state in trace.states] == [["x", "y", "z"]] * 4
    assert [len(state.fingerprints) for state in trace.states] == [3] * 4
    assert trace.states[1].fingerprints[1:] == trace.states[0].fingerprints[1:]
    assert trace.states[1].fingerprints[0] != trace.states[0].fingerprints[0]
    assert [(state.action, state.parameters) for state in trace.states[1:]] == [
        ("Vote", "n1,n2"),
        ("Idle", None),
        ("Vote", "n2,<<1, 2>>"),
    ]
    assert trace.violated == "Live"
    assert trace.ending == InfiniteEnding(1, "Idle", ActionLocation(7, 12, 7, 50, "Toy"))


def test_equal_texts_are_one_object() -> None:
    (trace,) = read_traces(TLC / "counterexamples" / "joined.out.gz")
    for before, after in pairwise(trace.states):
        for index, name in enumerate(before.variables):
            same_text = before.fingerprints[index] == after.fingerprints[index]
            assert same_text == (before.variables[name] == after.variables[name])
            assert not same_text or before.variables[name] is after.variables[name]


def test_the_end_of_lines_does_not_matter(tmp_path: Path) -> None:
    for text in (dedent(DIFFERENCES), (TOY / "tool.out").read_text(), (TOY / "stutter.out").read_text()):
        (plain,) = traces_of(tmp_path, text)
        (windows,) = traces_of(tmp_path, text.replace("\n", "\r\n"))
        (marked,) = traces_of(tmp_path, b"\xef\xbb\xbf" + text.encode())
        assert windows == plain == marked


def test_noise_between_states_is_passed_over(tmp_path: Path) -> None:
    text = (TOY / "invariant.out").read_text()
    (plain,) = traces_of(tmp_path, text)
    noisy = text.replace(
        "\n\nState", '\n\n<<"printed by the specification", 1>>\nProgress(3) at noon\n12: <odd>\nState'
    )
    (trace,) = traces_of(tmp_path, noisy)
    assert variables(trace) == variables(plain)
    assert trace.complete


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "name",
    [
        *[pytest.param(name, marks=pytest.mark.slow) for name in ("continue", "tool", "invariant")],
        *("back", "stutter", "initial", "one"),
    ],
)
def test_a_log_cut_short_anywhere_never_gives_a_wrong_state(name: str, tmp_path: Path) -> None:
    text = (TOY / f"{name}.out").read_text()
    whole = traces_of(tmp_path, text)
    cache = ValueCache()
    for size in range(text.index(" state"), len(text), 1 if len(text) < 1100 else 3):
        try:
            traces = traces_of(tmp_path, text[:size], cache=cache)
        except TraceError:
            continue
        for trace, original in zip(traces, whole, strict=False):
            assert variables(trace) == variables(original)[: len(trace.states)]
            assert not trace.complete or len(trace.states) == len(original.states)
        assert all(trace.complete for trace in traces[:-1])


def test_a_cut_log_gives_what_it_has(tmp_path: Path) -> None:
    text = (TOY / "invariant.out").read_text()
    cut = text.index("State 3")
    for end, length in ((cut, 2), (cut + 8, 2), (text.index("/\\ y = [a |-> {1}]"), 2), (text.index("\n3 states"), 3)):
        (trace,) = traces_of(tmp_path, text[:end])
        assert (len(trace.states), trace.complete) == (length, False)


@pytest.mark.parametrize("name", ["invariant", "continue", "back", "tool"])
def test_a_log_that_lacks_a_line_never_gives_a_wrong_state(name: str, tmp_path: Path) -> None:
    lines = (TOY / f"{name}.out").read_text().splitlines(keepends=True)
    whole = traces_of(tmp_path, "".join(lines))
    wrong = []
    for missing in range(len(lines)):
        try:
            traces = traces_of(tmp_path, "".join(lines[:missing] + lines[missing + 1 :]))
        except TraceError:
            continue
        for trace, original in zip(traces, whole, strict=False):
            known = {state.number: state.variables for state in original.states}
            if any(known[state.number] != state.variables for state in trace.states):
                wrong.append(lines[missing])
    # All variables of the toy change in every step, so its log without one is the log of -difftrace.
    assert {line[:2] for line in wrong} <= {"/\\"}


ERRORS = [
    ("", "1:1: expected a trace ('State 1: <Initial predicate>'), found the end of the file"),
    ("hello\n", "2:1: expected a trace ('State 1: <Initial predicate>'), found the end of the file"),
    (
        "Model checking completed. No error has been found.\n3 states generated\n",
        "2:1: expected a trace ('State 1: <Initial predicate>'), found a log in which TLC found no error",
    ),
    ("State 5: <A>\n/\\ x = 1\n\nState 4: <A>\n", "4:1: expected state 6, found state 4"),
    (
        "State 1: <A>\n/\\ x = 1\n/\\ y = 1\n\nState 3: <A>\n/\\ y = 2\n\n",
        "5:1: expected all variables in the first state after those left out",
    ),
    ("State 1: <A>\n/\\ x = 1\n\nState 3: Stuttering\n", "4:1: expected state 2, found 'State 3: Stuttering'"),
    ("State 2: Stuttering\n", "1:1: expected state 1, found 'State 2: Stuttering'"),
    ("State 1: <A>\n/\\ x = 1\n\nBack to state 2: <A>\n", "4:1: expected one of the states 1 to 1, found 'Back to "),
    ("Back to state 1: <A>\n", "1:1: expected a state, found 'Back to state 1: <A>'"),
    ("State 1: <A>\n\n", "2:1: expected '/\\ name = value', found a state without variables"),
    ("State 1: <A>\n/\\ x = 1\n/\\ x = 2\n", "3:1: expected a variable that this state did not have yet, found 'x' ag"),
    ("State 1: <A>\n/\\ x = 1\n/\\ y == 2\n", "3:1: expected '/\\ name = value', or an empty line after the state, f"),
    ("State 1: <A>\n  12\n", "2:1: expected '/\\ name = value', found a state without variables"),
    ("State 1: <A>\n/\\ x = {1,\n  2;}\n", "3:4: expected ',' or '}', found ';'"),
    ("State 1: <A>\n/\\ x = {1,\n", "2:11: expected a value, found the end of the text"),
    ("State 1: <A>\n/\\ x = \n\n", "2:8: expected a value, found the end of the text"),
    (
        "State 1: <A>\n/\\ x = 1",
        "3:1: expected the rest of the first state, and an empty line, found the end of the file",
    ),
    (
        "State 1: <A>\n/\\ x = 1\n\nState 2: <A>\n/\\ y = 1\n\n",
        "4:1: expected one of the variables of the state before, found a state with the variable 'y'",
    ),
    (
        "State 1: <A>\n/\\ x = 1\n/\\ y = 1\n\nState 2: <A>\n/\\ x = 1\n\n",
        "5:1: expected all variables in every state, or what changed in every state, found a state without 'y'",
    ),
    (
        "State 1: <A>\n/\\ x = 1\n/\\ y = 1\n\nState 2: <A>\n/\\ x = 2\n\nState 3: <A>\n/\\ x = 3\n/\\ y = 1\n\n"
        "State 4: <A>\n/\\ x = 4\n\n",
        "12:1: expected that state to be the last, as the others show only what changed, found a state after one tha",
    ),
    (
        "State 1: <A>\n/\\ x = 1\n\nState 2 <A>\n/\\ x = 2\n\n1 states generated",
        "5:1: expected 'State 2: <...>' before it, found '/\\ x = 2'",
    ),
    (
        "State 1: <A>\nx = 1\n\nState 2 <A>\nx = 2\n\n1 states generated",
        "5:1: expected 'State 2: <...>' before it, found 'x = 2'",
    ),
    ("State 1: <A>\n/\\ x = 1\n\nBack to state 1 <A>\n", "4:1: expected 'Back to state 1: <...>', found 'Back to"),
    ("State 1: <A>\n/\\ x = 1\n\nBack to state 1: <A> and\n", "4:1: expected 'Back to state 1: <...>', found 'Back t"),
]


@pytest.mark.parametrize(("text", "message"), ERRORS, ids=[repr(text)[-40:] for text, _ in ERRORS])
def test_errors_say_where_and_what(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError) as error:
        traces_of(tmp_path, text)
    assert str(error.value).removeprefix(f"{tmp_path / 'sample'}:").startswith(message)


def test_the_traces_before_an_error_are_given(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text((TOY / "invariant.out").read_text() + "State 1: <A>\n/\\ x = {\n\n")
    traces = read_traces(path)
    assert len(next(traces).states) == 3
    with pytest.raises(TraceError, match="found the end of the text"):
        next(traces)


@pytest.mark.parametrize(
    ("message", "violated"),
    [
        ("Invariant A is violated.", "A"),
        ("Property A is violated by the initial state:", "A"),
        ("Action property A is violated.", "A"),
        ("Temporal property A was violated.", "A"),
        ("Temporal properties A, B, and C were violated.", "A, B, and C"),
        ("Evaluating invariant A failed.", None),
    ],
)
def test_the_violated_property_is_named(message: str, violated: str | None, tmp_path: Path) -> None:
    up_to_here = (
        "" if "initial" in message else "Error: The behavior up to this point is:\nState 1: <Initial predicate>\n"
    )
    (trace,) = traces_of(tmp_path, f"Error: {message}\n{up_to_here}/\\ x = 1\n\n1 states generated\n")
    assert (trace.violated, trace.problem, len(trace.states)) == (violated, message, 1)


def test_the_first_state_has_no_action(tmp_path: Path) -> None:
    (trace,) = traces_of(tmp_path, "State 1: <Init line 1, col 2 to line 3, col 4 of module M>\n/\\ x = 1\n\n")
    assert (trace.states[0].action, trace.states[0].location) == (None, None)


def test_a_value_at_the_end_of_the_file_may_be_cut(tmp_path: Path) -> None:
    text = "State 1: <A>\n/\\ x = 1\n\nState 2: <A>\n/\\ x = 12"
    assert [len(traces_of(tmp_path, end)[0].states) for end in (text, text + "\n")] == [1, 2]


def test_logs_one_after_the_other_need_not_show_the_same(tmp_path: Path) -> None:
    differences, whole = dedent(DIFFERENCES), "State %d: <A>\n/\\ x = 1\n/\\ y = 2\n\n"
    assert [len(trace.states) for trace in traces_of(tmp_path, differences + whole % 1 + whole % 2)] == [4, 2]
    assert [len(trace.states) for trace in traces_of(tmp_path, whole % 1 + whole % 2 + differences)] == [2, 4]


def test_a_problem_belongs_to_one_trace(tmp_path: Path) -> None:
    state = "State 1: <Initial predicate>\n/\\ x = 1\n\n"
    first, second = traces_of(tmp_path, f"Error: Deadlock reached.\n{state}{state}")
    assert (first.problem, first.complete) == ("Deadlock reached.", True)
    assert (second.problem, second.complete) == (None, False)


@pytest.mark.parametrize(
    ("label", "action"),
    [
        ("Initial predicate", ("Initial predicate", None, None)),
        ("Action line 1, col 2 to line 3, col 4 of module M", (None, None, ActionLocation(1, 2, 3, 4, "M"))),
        (
            "A!B(<<1>>,x) line 1, col 2 to line 3, col 4 of module M",
            ("A!B", "<<1>>,x", ActionLocation(1, 2, 3, 4, "M")),
        ),
        ("Vote", ("Vote", None, None)),
        ("Vote Unknown location", ("Vote", None, None)),
        ("what is this?", ("what is this?", None, None)),
        ("", (None, None, None)),
    ],
)
def test_labels_of_actions(label: str, action: tuple[object, object, object]) -> None:
    assert parse_action_label(label) == action


@pytest.mark.parametrize("path", sorted(TLC.glob("counterexamples/*.out.gz")), ids=lambda path: path.name)
def test_both_versions_of_tlc(path: Path) -> None:
    (trace,) = read_traces(path)
    text = text_of(path)
    assert trace.complete
    assert trace.violated == re.findall(r"Invariant (\w+) is violated", text)[0]
    assert len(trace.states) == text.count("\nState ")
    assert all(len(state.variables) == 20 for state in trace.states)
    assert [state.action for state in trace.states] == [None, *re.findall(r"\nState \d+: <(\w+) line", text)]

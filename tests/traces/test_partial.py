"""Parts of traces, as people post them: a beginning, a middle or an end that is missing."""

from __future__ import annotations

import re
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import kraftcheck.traces.replay.replayer
from kraftcheck.spec.tla.text import format_value
from kraftcheck.traces import (
    ActionLocation,
    InfiniteEnding,
    Trace,
    TraceError,
    TraceFormat,
    read_traces,
    trace_as_tlc_text,
)
from kraftcheck.traces.replay.claims import ClaimVerdict
from kraftcheck.traces.replay.divergence import DivergenceKind
from kraftcheck.traces.replay.replayer import Replay, Replayer, ReplayVerdict
from tests.support.command_line import Run
from tests.support.locks import LOCKS, ROUND, behaviour, changed

TEXT = "".join(trace_as_tlc_text(behaviour(ROUND)))
END = "The trace ends in state 6.\n"


def without(*numbers: int, text: str = TEXT) -> str:
    """Return the text of a trace without some states, and without what stands before the first one left."""
    head, *states = text.split("State ")
    assert head.startswith("Error")
    return "".join(f"State {state}" for state in states if int(state.partition(":")[0]) not in numbers) + END


def replayed(text: str, folder: Path, **options: Any) -> Replay:
    (folder / "part").write_text(text)
    (found,) = Replayer(LOCKS, **{"reach_first": 0, **options}).replay(folder / "part")
    return found


def test_a_trace_that_begins_in_the_middle(tmp_path: Path) -> None:
    found = replayed(without(1, 2), tmp_path)
    assert (found.verdict, found.steps, found.actions) == (ReplayVerdict.CONFORMS, 3, ("Enter", "Leave", "Free"))
    assert found.partial == ("state 3 taken as given",)
    assert "begins at state 3" in found.notes[0]


def test_its_first_state_is_looked_for(tmp_path: Path) -> None:
    found = replayed(without(1, 2), tmp_path, reach_first=100)
    assert found.verdict is ReplayVerdict.CONFORMS
    assert (found.partial, found.notes) == ((), ("state 3 is reached in 2 steps: Ask, Grant",))
    given = replayed(without(1, 2), tmp_path, reach_first=1)
    assert given.partial == ("state 3 taken as given",)
    assert "not found among the first 1 states" in given.notes[0]


def test_a_first_state_that_nothing_reaches(tmp_path: Path) -> None:
    text = "".join(
        trace_as_tlc_text(
            changed(changed(behaviour(ROUND), 3, "_losses", "1"), 3, "phase", "(c1 :> holding @@ c2 :> holding)")
        )
    )
    found = replayed(without(1, 2, 4, 5, 6, text=text), tmp_path, reach_first=100_000)
    assert found.verdict is ReplayVerdict.DIVERGES
    assert found.divergence is not None
    assert (found.divergence.kind, found.diverged_at) == (DivergenceKind.START, 3)
    assert found.reason == "state 3 is unreachable: all states were searched"
    assert replayed(without(1, 2, 4, 5, 6, text=text), tmp_path).verdict is ReplayVerdict.CONFORMS  # taken as given


def test_states_left_out(tmp_path: Path) -> None:
    found = replayed(without(3, 4), tmp_path)
    assert (found.verdict, found.actions) == (ReplayVerdict.CONFORMS, ("Ask", "Grant", "Enter", "Leave", "Free"))
    assert found.partial == ("states 3 to 4 found by a search",)
    assert found.notes == ("from state 2 to state 5: Grant, Enter, Leave",)


def test_a_gap_of_another_length_diverges(tmp_path: Path) -> None:
    text = without(3, 4).replace("State 5: ", "State 4: ").replace("State 6: ", "State 5: ")
    found = replayed(text, tmp_path)
    assert (found.verdict, found.diverged_at) == (ReplayVerdict.DIVERGES, 4)
    assert found.reason == "state 4 does not follow from state 2 in 2 steps, the last of them Leave"


def test_a_gap_that_is_too_wide_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kraftcheck.traces.replay.replayer, "MOST_BRIDGED_STATES", 1)
    found = replayed(without(3, 4), tmp_path)
    assert (found.verdict, found.partial) == (ReplayVerdict.CONFORMS, ("state 5 taken as given",))
    assert "no path among the first 1 states" in found.notes[0]


def test_a_state_that_nothing_reaches_diverges_after_a_gap_of_any_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The states are few; a path of the given length visits each many times."""
    monkeypatch.setattr(kraftcheck.traces.replay.replayer, "MOST_BRIDGED_STATES", 2_000)
    text = "".join(trace_as_tlc_text(changed(behaviour(ROUND), 5, "phase", "(c1 :> holding @@ c2 :> holding)")))
    found = replayed(without(3, 4, 6, text=text).replace("State 5: ", "State 9999: "), tmp_path)
    assert (found.verdict, found.diverged_at) == (ReplayVerdict.DIVERGES, 9999)
    assert found.reason == "state 9999 does not follow from state 2 in 9997 steps, the last of them Leave"


@pytest.mark.slow
def test_a_huge_gap_ends(tmp_path: Path) -> None:
    text = without(3, 4).replace("State 5: ", "State 999999999: ").replace("State 6: ", "State 1000000000: ")
    assert replayed(text, tmp_path).partial == ("state 999999999 taken as given",)


def test_only_the_command_takes_parts(tmp_path: Path) -> None:
    (tmp_path / "part").write_text(without(1, 2))
    (found,) = Replayer(LOCKS).replay(tmp_path / "part")
    assert found.verdict is ReplayVerdict.UNREADABLE
    assert "part:1:1: expected state 1: `kraftcheck replay` alone takes" in (found.problem or "")


def test_a_cut_trace_shows_no_violation_and_refutes_none(tmp_path: Path) -> None:
    text = "Error: Invariant MutualExclusion is violated.\n" + TEXT
    whole = replayed(text + END, tmp_path)
    assert whole.verdict is ReplayVerdict.REFUTED
    cut = replayed(text, tmp_path)
    assert (cut.verdict, cut.partial) == (ReplayVerdict.CONFORMS, ("cut after state 6",))
    assert cut.claim is not None
    assert (cut.claim.verdict, cut.claim.says) == (ClaimVerdict.UNKNOWN, "the trace is cut")


def test_a_state_after_a_gap_shows_all_variables(tmp_path: Path) -> None:
    (tmp_path / "part").write_text("State 1: <A>\n/\\ x = 1\n/\\ y = 1\n\nState 3: <A>\n/\\ y = 2\n\n")
    with pytest.raises(TraceError, match="expected all variables in the first state after those left out"):
        list(read_traces(tmp_path / "part"))


def test_the_headline_says_so(tmp_path: Path, run: Run) -> None:
    (tmp_path / "part.out").write_text(without(1, 2, 4))
    config = tmp_path / "locks.cfg"
    config.write_text("CONSTANTS\n Clients = {c1, c2}\n MaxLosses = 1\n")
    outcome = run(
        "replay", "lock-service", "--config", config, tmp_path / "part.out", "--json", tmp_path / "found.json"
    )
    assert outcome.code == 0, outcome.err
    assert "conforms, 3 steps (state 3 taken as given; state 4 found by a search)" in outcome.out
    outcome = run("replay", "lock-service", "--config", config, tmp_path / "part.out", "--reach-first", "--quiet")
    assert "conforms, 3 steps (state 4 found by a search)" in outcome.out
    outcome = run("replay", "lock-service", "--config", config, tmp_path / "part.out", "--reach-first", "many")
    assert outcome.code == 2
    assert "--reach-first" in outcome.err


@pytest.mark.parametrize(
    "label", ["", ": <Enter line 20, col 18 to line 21, col 34>", ": <Enter in process 1>", ": <Enter(c1) x>"]
)
def test_labels_as_people_post_them(label: str, tmp_path: Path) -> None:
    text = TEXT.replace("State 4: <Enter>", f"State 4{label or ':'}") + END
    assert text != TEXT + END
    found = replayed(text, tmp_path)
    assert (found.verdict, found.actions[2], found.partial, found.notes) == (ReplayVerdict.CONFORMS, "Enter", (), ())


@pytest.mark.parametrize("quote", ["  ", "\t", "> ", "# ", "// ", "\\* ", " \\* *   ", "    \\*  "])
def test_a_quoted_trace(quote: str, tmp_path: Path) -> None:
    lines = TEXT.splitlines()
    quoted = "\n".join([f"{quote}{line}".rstrip() for line in lines])
    found = replayed(f"Look at this:\n\n{quoted}\nIt is odd.\n", tmp_path)
    assert (found.verdict, found.steps, found.actions) == (ReplayVerdict.CONFORMS, 5, replayed(TEXT, tmp_path).actions)


def test_an_error_in_a_quotation_has_its_place(tmp_path: Path) -> None:
    (tmp_path / "part").write_text("# State 1: <A>\n#   /\\ x = {1,\n#      2;}\n")
    with pytest.raises(TraceError, match="part:3:9: expected ',' or '}', found ';'"):
        list(read_traces(tmp_path / "part"))


def test_variables_below_their_heading_and_fences(tmp_path: Path) -> None:
    text = TEXT.replace("\n/\\ ", "\n    /\\ ")
    assert replayed(f"```tla\n{text.rstrip()}\n```\n", tmp_path).steps == 5
    assert replayed(f"{text.rstrip()}\n...\n", tmp_path).steps == 5


def test_states_by_their_numbers_alone(tmp_path: Path) -> None:
    text = TEXT.replace("<Enter>", "<Enter line 1, col 1 to line 2, col 2 of module LockService>")
    for name in ("Ask", "Grant", "Leave", "Free"):
        text = text.replace(f"<{name}>", f"<{name} line 1, col 1 to line 2, col 2 of module LockService>")
    text = text.replace("State ", "").replace("\n\n", "\n")
    found = replayed(f"Invariant MutualExclusion is violated.\n{text}", tmp_path)
    assert (found.verdict, found.steps, found.violated) == (ReplayVerdict.CONFORMS, 5, "MutualExclusion")


def test_states_without_labels(tmp_path: Path) -> None:
    text = re.sub(r"(?m)^(State \d+:) .*", r"\1 ", TEXT.partition("\n")[2])
    assert replayed(textwrap.indent(text, "  "), tmp_path).steps == 5
    remedy = "if they are a trace, write 'State 1: <Initial predicate>' in its first line"
    assert remedy in (replayed(text, tmp_path).problem or "")


def test_comments_after_values(tmp_path: Path) -> None:
    (tmp_path / "part").write_text('State 1: <A>\n/\\ x = <<1,  \\* one\n  2>> \\* two\n/\\ y = "a \\\\* b"\n\n')
    (trace,) = read_traces(tmp_path / "part")
    assert trace.states[0].variables == {"x": (1, 2), "y": "a \\* b"}


@pytest.mark.parametrize("value", ["...", "<<1, ...>>", "<<1, …>>", "[a |-> 1, ...]"])
def test_a_value_of_which_a_part_is_left_out(value: str, tmp_path: Path) -> None:
    (tmp_path / "part").write_text(f"State 1: <A>\n/\\ x = {value}\n\n")
    with pytest.raises(TraceError, match="expected the whole value of x; replay needs every value in full"):
        list(read_traces(tmp_path / "part"))


@pytest.mark.parametrize(
    "text", ["State 1: <A> /\\ x = 1 /\\ y = {}", "State 1: <A>   x = 1   y = 2", "State 2: x = 1"]
)
def test_a_state_on_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "part").write_text(f"{text}\n")
    with pytest.raises(TraceError, match="part:1:1: expected each variable on a line of its own"):
        list(read_traces(tmp_path / "part"))


def test_a_label_that_is_shortened(tmp_path: Path) -> None:
    assert replayed(TEXT.replace("<Enter>", "<Enter ...>"), tmp_path).actions[2] == "Enter"


def test_a_label_that_is_the_name_of_a_method(tmp_path: Path) -> None:
    found = replayed(TEXT.replace("<Enter>", "<enter>") + END, tmp_path)
    assert (found.verdict, found.actions[2], found.notes) == (ReplayVerdict.CONFORMS, "Enter", ())
    assert replayed(TEXT.replace("<Enter>", "<leave>") + END, tmp_path).verdict is ReplayVerdict.DIVERGES


def test_variables_that_an_alias_adds(tmp_path: Path) -> None:
    text = TEXT.replace("/\\ holder", "/\\ level = 1\n/\\ holder")
    found = replayed(text + END, tmp_path)
    assert (found.verdict, found.steps, found.partial) == (ReplayVerdict.CONFORMS, 5, ("without level",))
    assert found.notes == ("LockService has no variable level: not compared",)
    assert replayed(text + END, tmp_path, reach_first=None).verdict is ReplayVerdict.UNREADABLE


def test_another_spelling_of_a_variable_is_told(tmp_path: Path) -> None:
    found = replayed(TEXT.replace("holder", "Hol_der"), tmp_path)
    assert "(`tla_snake_case` and `tla_names` in the record set other spellings)" in (found.problem or "")


def test_a_violation_at_the_end_of_the_text_is_not_cut(tmp_path: Path) -> None:
    trace = changed(behaviour(ROUND), 6, "phase", "(c1 :> holding @@ c2 :> holding)")
    text = "".join(trace_as_tlc_text(trace)).partition("State 6")[2]
    found = replayed(f"Error: Invariant MutualExclusion is violated.\nState 6{text}", tmp_path)
    assert (found.verdict, found.partial) == (ReplayVerdict.CONFORMS, ("state 6 taken as given",))
    assert found.claim is not None
    assert found.claim.verdict is ClaimVerdict.SHOWN


def copied(trace: Trace, last: str = "") -> str:
    """Return a trace as the Toolbox copies it."""
    records = []
    for state in trace.states:
        name = state.action or "Initial predicate"
        where = f"line 1, col 2 to line 3, col {state.number} of module M" if state.action else "Unknown location"
        step = f'[\n   position |-> {state.number},\n   name |-> "{name}",\n   location |-> "{where}"\n ]'
        variables = [f" {name} |-> {format_value(value)}" for name, value in state.variables.items()]
        records.append("[\n" + ",\n".join([f" _TEAction |-> {step}", *variables]) + "\n]")
    return "<<\n" + ",\n".join([*records, *([last] if last else [])]) + "\n>>\n"


@pytest.mark.parametrize("indent", ["", "    "])
@pytest.mark.parametrize("last", ["", "<Stuttering>", "<Back to state 1>"])
def test_a_trace_that_the_toolbox_copies(last: str, indent: str, tmp_path: Path) -> None:
    text = textwrap.indent(copied(behaviour(ROUND), last), indent)
    text = f"This is a trace:\n\nErrorTrace ==\n{text}So it is.\n"
    (tmp_path / "part").write_text(text + text)
    first, second = read_traces(tmp_path / "part")
    assert (first.format, first.complete, second.index) == (TraceFormat.TLC_TOOLBOX, True, 1)
    assert first.states[1].location == ActionLocation(1, 2, 3, 2, "M")
    assert [state.variables for state in first.states] == [state.variables for state in behaviour(ROUND).states]
    expected = {"": None, "<Stuttering>": InfiniteEnding(), "<Back to state 1>": InfiniteEnding(1)}
    assert first.ending == second.ending == expected[last]
    (tmp_path / "part").write_text(text)
    assert replayed(text, tmp_path).actions[:5] == ("Ask", "Grant", "Enter", "Leave", "Free")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\n>>\n", "\n", "expected '>>', the end of the trace, found the end of the file"),
        ("position |-> 3", "position |-> 2", "part:1:1: expected records of '_TEAction' and the variables"),
        ("position |-> 3", "place |-> 3", "part:1:1: expected records of '_TEAction' and the variables"),
        ("name |->", "name ->", "part:5:"),
    ],
)
def test_a_copy_that_is_damaged(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert message in (replayed(copied(behaviour(ROUND)).replace(old, new), tmp_path).problem or "")


def lasso(back: str, *omitted: int) -> str:
    """Return a cycle of the lock service that returns to a state, without some states."""
    return without(*omitted).replace(END, f"Back to state {back}: <Free>\n")


def test_a_cycle_to_a_state_left_out(tmp_path: Path) -> None:
    found = replayed(lasso("2", 1, 2, 3), tmp_path)
    assert found.verdict is ReplayVerdict.CONFORMS
    assert "the step back to state 2 not compared" in found.partial
    (tmp_path / "whole").write_text(lasso("1"))
    (whole,) = Replayer(LOCKS).replay(tmp_path / "whole")
    assert (whole.verdict, whole.partial) == (ReplayVerdict.DIVERGES, ())  # compared: Free does not lead to state 1


def test_a_cycle_to_a_state_that_never_was(tmp_path: Path) -> None:
    trace = behaviour(ROUND)
    ended = replace(trace, ending=InfiniteEnding(9, "Free"))
    found = Replayer(LOCKS, reach_first=0).replay_trace(ended)
    assert (found.verdict, found.problem) == (
        ReplayVerdict.UNREADABLE,
        "sample: expected a step back to one of 6 states, found state 9",
    )


def test_a_comment_after_many_spaces(tmp_path: Path) -> None:
    """A search for the comment that is quadratic in the spaces before it would take minutes."""
    spaces = " " * 400_000
    (tmp_path / "part").write_text(
        f"State 1: <Initial predicate>\n/\\ x = {{1,\n{spaces}2}}\n \\* a\n /\\ y = 1 \\* b\n\n{END}"
    )
    (trace,) = read_traces(tmp_path / "part")
    assert trace.states[0].variables == {"x": frozenset({1, 2}), "y": 1}

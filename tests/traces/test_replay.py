"""Where and why a trace diverges; permutations, stuttering, lassos, cut and damaged traces."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

import kraftcheck.traces.replay.replayer
from kraftcheck.spec.examples.lock_service import ImpatientServer, LockService
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.language.state import permute_model_values
from kraftcheck.spec.tla.state_conversion import TlaStateConverter
from kraftcheck.spec.tla.text import parse_value
from kraftcheck.spec.values import Map, Value
from kraftcheck.traces import InfiniteEnding, Trace, TraceFormat, TraceState, trace_as_tlc_text, write_trace
from kraftcheck.traces.replay.divergence import DivergenceKind, variable_differences
from kraftcheck.traces.replay.replayer import Replayer, ReplayVerdict
from tests.support.locks import C1, C2, LOCKS, ROUND, behaviour, changed, renamed


def swapped(state: TraceState) -> TraceState:
    """Return a state with the two clients exchanged."""
    values = permute_model_values(Map(state.variables), {C1: C2, C2: C1})
    assert isinstance(values, Map)
    return replace(state, variables=dict(values))


def test_a_behaviour_conforms() -> None:
    replay = Replayer(LOCKS).replay_trace(behaviour(ROUND))
    assert replay.verdict is ReplayVerdict.CONFORMS
    assert replay.actions == ("Ask", "Grant", "Enter", "Leave", "Free")
    assert (replay.steps, replay.diverged_at, replay.reason, replay.notes) == (5, None, None, ())


@pytest.mark.parametrize("name", ["trace.out", "trace.json", "trace.itf.json", "trace.out.gz"])
def test_every_format_that_we_write(name: str, tmp_path: Path) -> None:
    write_trace(behaviour(ROUND), tmp_path / name)
    (replay,) = Replayer(LOCKS).replay(tmp_path / name)
    assert replay.verdict is ReplayVerdict.CONFORMS, replay.reason
    assert replay.actions == ("Ask", "Grant", "Enter", "Leave", "Free")


def test_a_later_state_that_is_called_the_initial_one(tmp_path: Path) -> None:
    text = "".join(trace_as_tlc_text(behaviour(ROUND))).replace("State 3: <Grant>", "State 3: <Initial predicate>")
    (tmp_path / "trace").write_text(text)
    (replay,) = Replayer(LOCKS).replay(tmp_path / "trace")
    assert (replay.diverged_at, replay.divergence and replay.divergence.kind) == (3, DivergenceKind.NAME)


def test_what_was_learned_is_forgotten(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kraftcheck.traces.replay.replayer, "MEMO_RESET_STATES", 3)
    trace = behaviour(("Ask c2", *ROUND[:4]))
    write_trace(replace(trace, ending=InfiniteEnding(2, "Free")), tmp_path / "trace")
    walker, seen = Replayer(LOCKS), set()
    for _ in range(4):
        (replay,) = walker.replay(tmp_path / "trace")
        assert (replay.verdict, replay.steps) == (ReplayVerdict.CONFORMS, 6)
        seen.add(id(walker.semantics))
    assert len(seen) > 1


def test_steps_of_a_state_are_computed_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Traces of a model pass the same states; the steps of a few are kept."""
    monkeypatch.setattr(kraftcheck.traces.replay.replayer, "CACHED_STATES", 4)
    write_trace(behaviour(ROUND[:4]), tmp_path / "trace")
    walker, asked, compute = Replayer(LOCKS), [], Semantics.transitions
    monkeypatch.setattr(Semantics, "transitions", lambda self, state: asked.append(state) or compute(self, state))
    for _ in range(3):
        (replay,) = walker.replay(tmp_path / "trace")
        assert (replay.verdict, replay.steps) == (ReplayVerdict.CONFORMS, 4)
    assert len(asked) == 4
    walker.replay_trace(behaviour(ROUND))
    assert walker.steps.cache_info().currsize == 4


def test_states_are_reported(tmp_path: Path) -> None:
    write_trace(behaviour(ROUND), tmp_path / "trace")
    count = []
    list(Replayer(LOCKS, report=lambda: count.append(1)).replay(tmp_path / "trace"))
    assert len(count) == 6


def test_steps_without_names_are_named() -> None:
    trace = behaviour(ROUND)
    nameless = replace(trace, states=tuple(replace(state, action=None) for state in trace.states))
    assert Replayer(LOCKS).replay_trace(nameless).actions == ("Ask", "Grant", "Enter", "Leave", "Free")


def test_a_field_that_differs() -> None:
    trace = changed(behaviour(ROUND), 3, "holder", "(server :> c2)")
    replay = Replayer(LOCKS).replay_trace(trace)
    found = replay.divergence
    assert found is not None
    assert (found.kind, found.number, found.before, found.action) == (DivergenceKind.STEP, 3, 2, "Grant")
    assert found.nearest == "Grant by server on Acquire from c1"
    assert [tuple(item) for item in found.differences] == [("holder[server]", "c2", "c1", False)]
    assert replay.reason == (
        "state 3 does not follow from state 2 by Grant; the nearest step of that name is Grant by server on Acquire "
        "from c1; that has holder[server] = c1 (in the trace: c2)"
    )
    assert {item.action: item.ways for item in found.enabled} == {
        "Ask": ("by c2",),
        "Grant": ("by server on Acquire from c1",),
        "LoseMessage": ("by the network on Acquire from c1",),
    }
    assert found.why is None
    assert replay.actions == ("Ask",)
    assert replay.steps == 5


def test_a_name_that_is_another_action_of_ours() -> None:
    replay = Replayer(LOCKS).replay_trace(renamed(behaviour(ROUND), 4, "Leave"))
    found = replay.divergence
    assert found is not None
    assert (found.kind, found.number) == (DivergenceKind.NAME, 4)
    assert replay.reason == "state 4 follows from state 3 by Enter by c1 on Grant, not by Leave as the trace says"
    assert found.why is not None
    assert found.why.startswith("Leave is not enabled:\n")
    guard = "me.phase is not Phase.HOLDING (me.phase = waiting)"
    assert f"{guard}, kraftcheck/spec/examples/lock_service/__init__.py" in found.why


def test_a_name_that_is_no_action() -> None:
    replay = Replayer(LOCKS).replay_trace(renamed(behaviour(ROUND), 4, "Next"))
    assert (replay.verdict, replay.actions[2]) == (ReplayVerdict.CONFORMS, "Enter")
    assert replay.notes == ("Next is no action of LockService: a step of that name may be any action",)
    replay = Replayer(LOCKS).replay_trace(renamed(changed(behaviour(ROUND), 4, "_losses", "1"), 4, "Next"))
    assert replay.diverged_at == 4
    assert "state 4 does not follow from state 3 by Next (there is no action of that name in" in (replay.reason or "")


def test_the_networks_own_actions_are_known() -> None:
    replay = Replayer(LOCKS).replay_trace(renamed(behaviour(ROUND), 2, "LoseMessage"))
    assert replay.divergence is not None
    assert replay.divergence.why == "LoseMessage is not enabled:\n  no message is under way"


def test_an_initial_state_of_another_bound() -> None:
    replay = Replayer(LOCKS).replay_trace(changed(behaviour(ROUND), 1, "_losses", "1"))
    assert (replay.diverged_at, replay.divergence and replay.divergence.kind) == (1, DivergenceKind.START)
    assert replay.reason == (
        "state 1 is no initial state; compared with the nearest initial state; that has _losses = 0 (in the trace: 1)"
    )


def test_a_step_that_changes_nothing() -> None:
    trace = behaviour(ROUND)
    states = [*trace.states[:3], *[replace(state, number=state.number + 1) for state in trace.states[2:]]]
    replay = Replayer(LOCKS).replay_trace(replace(trace, states=tuple(states)))
    assert (replay.diverged_at, replay.divergence and replay.divergence.kind) == (4, DivergenceKind.STUTTERING)
    assert "no action does that" in (replay.reason or "")


def test_an_action_that_changes_nothing_conforms() -> None:
    from kraftcheck.spec.examples.two_phase_commit import TwoPhaseCommit

    protocol = TwoPhaseCommit(resource_managers=frozenset({C1}))
    semantics, view = Semantics(protocol), TlaStateConverter(protocol)
    states = semantics.initial()
    for action in ("Prepare", "HearPrepared", "HearPrepared"):
        states.append(next(t.target for t in semantics.transitions(states[-1]) if t.action == action))
    assert states[2] == states[3]
    found = [TraceState(number, view.variables(state)) for number, state in enumerate(states, start=1)]
    replay = Replayer(protocol).replay_trace(Trace("", 0, TraceFormat.TLC_LOG, tuple(found)))
    assert replay.actions == ("Prepare", "HearPrepared", "HearPrepared")


def test_a_name_of_another_kind_of_thing_is_no_state_of_ours() -> None:
    replay = Replayer(LOCKS).replay_trace(changed(behaviour(ROUND), 3, "phase", "(c1 :> nobody @@ c2 :> idle)"))
    assert (replay.diverged_at, replay.divergence and replay.divergence.kind) == (3, DivergenceKind.STATE)
    assert replay.reason == (
        "state 3 is no state of LockService: variable phase[c1]: expected holding, idle or waiting, found nobody; the "
        "nearest step of that name is Grant by server on Acquire from c1; that has phase[c1] = waiting (in the trace: "
        "nobody)"
    )


@pytest.mark.parametrize(
    ("variable", "text", "problem"),
    [
        ("_losses", "{}", "expected a number for _losses in state 3, found {}"),
        ("phase", "3", "expected a function for phase in state 3, found 3"),
        ("phase", '(c1 :> "a" @@ c2 :> idle)', "expected holding, idle or waiting for phase[c1] in state 3, found"),
        ("messages", "([a |-> 1] :> 1)", "expected as an argument a record of"),
    ],
)
def test_another_kind_of_value_cannot_be_read(variable: str, text: str, problem: str, tmp_path: Path) -> None:
    trace = changed(behaviour(ROUND), 3, variable, text)
    write_trace(trace, tmp_path / "trace")
    (replay,) = Replayer(LOCKS).replay(tmp_path / "trace")
    assert replay.verdict is ReplayVerdict.UNREADABLE
    lines = (tmp_path / "trace").read_text().splitlines()
    line = next(n for n in range(lines.index("State 3: <Grant>"), 99) if lines[n].startswith(f"/\\ {variable} = "))
    assert (replay.problem or "").startswith(f"{tmp_path / 'trace'}:{line + 1}:{len(variable) + 7}: {problem}")


def test_a_trace_of_another_specification(tmp_path: Path) -> None:
    (tmp_path / "trace").write_text("Error: x\nState 1: <Initial predicate>\n/\\ holder = 1\n/\\ pc = 2\n\nFinished \n")
    (replay,) = Replayer(LOCKS).replay(tmp_path / "trace")
    found = "a state without phase, messages, _losses and with pc"
    assert replay.problem == f"{tmp_path / 'trace'}:2:1: expected the variables of LockService, found {found}"


def test_a_trace_that_begins_with_permuted_hosts() -> None:
    protocol = Favourite(clients=frozenset({C1, C2}), losses=1)
    steps = ("Grant server", "Enter c1", "Leave c1")
    states = tuple(swapped(state) for state in behaviour_of(protocol, steps))
    replay = Replayer(protocol).replay_trace(Trace("", 0, TraceFormat.TLC_LOG, states))
    assert replay.verdict is ReplayVerdict.CONFORMS
    note = "it begins in an initial state in which c1 stands for our c2, c2 stands for our c1"
    assert replay.notes == (note,)


def test_a_jump_to_a_permuted_state_under_symmetry() -> None:
    trace = behaviour(("Ask c1", "Ask c2", "Grant server", "Enter c1"))
    jumping = replace(trace, states=(*trace.states[:3], *map(swapped, trace.states[3:])))
    assert Replayer(LOCKS).replay_trace(jumping).verdict is ReplayVerdict.CONFORMS  # to the server both are equal here
    jumping = replace(trace, states=(*trace.states[:4], *map(swapped, trace.states[4:])))
    assert Replayer(LOCKS).replay_trace(jumping).diverged_at == 5
    replay = Replayer(LOCKS, symmetry="symmClients").replay_trace(jumping)
    assert replay.verdict is ReplayVerdict.CONFORMS
    where = "from state 4 to state 5 under SYMMETRY"
    assert replay.notes == (f"{where}: in the latter c1 stands for our c2, c2 stands for our c1",)
    wrong = renamed(jumping, 5, "Leave")
    reason = Replayer(LOCKS, symmetry="symmClients").replay_trace(wrong).reason
    assert reason == "state 5 follows from state 4 by Enter by c1 on Grant, not by Leave as the trace says"


class Favourite(LockService):
    """Begins with the first client's request."""

    def initial(self):  # type: ignore[no-untyped-def]
        for state in super().initial():
            semantics = Semantics(LockService(clients=self.clients, losses=self.losses))
            yield next(t.target for t in semantics.transitions(state) if (t.action, t.actor) == ("Ask", C1))


def behaviour_of(protocol: LockService, steps: Iterable[str]) -> list[TraceState]:
    return list(behaviour(steps, protocol).states)


def test_a_lasso_leads_back(tmp_path: Path) -> None:
    trace = behaviour(("Ask c2", *ROUND[:4]))
    write_trace(replace(trace, ending=InfiniteEnding(2, "Free")), tmp_path / "trace")
    (replay,) = Replayer(LOCKS).replay(tmp_path / "trace")
    assert replay.verdict is ReplayVerdict.CONFORMS, replay.reason
    assert replay.actions == ("Ask", "Ask", "Grant", "Enter", "Leave", "Free")
    assert replay.steps == 6
    for ending, at in ((InfiniteEnding(3, "Free"), 3), (InfiniteEnding(2, "Enter"), 2), (InfiniteEnding(1), 1)):
        assert Replayer(LOCKS).replay_trace(replace(trace, ending=ending)).diverged_at == at


def test_stuttering_for_ever_is_said() -> None:
    replay = Replayer(LOCKS).replay_trace(replace(behaviour(ROUND), ending=InfiniteEnding()))
    assert replay.verdict is ReplayVerdict.CONFORMS
    assert (replay.steps, len(replay.notes)) == (5, 1)


def test_a_trace_that_is_cut_short(tmp_path: Path) -> None:
    text = "".join(trace_as_tlc_text(behaviour(ROUND)))
    (tmp_path / "trace").write_text(text)
    (replay,) = Replayer(LOCKS).replay(tmp_path / "trace")
    assert (replay.verdict, replay.steps) == (ReplayVerdict.CONFORMS, 5)
    assert replay.notes == ("the file ends after state 6, maybe before the end of the trace",)
    (tmp_path / "trace").write_text(text[: text.index("State 5") - 20])
    (replay,) = Replayer(LOCKS).replay(tmp_path / "trace")
    assert replay.verdict in (ReplayVerdict.CONFORMS, ReplayVerdict.UNREADABLE)
    assert replay.steps < 5


def test_a_file_damaged_after_it_diverged(tmp_path: Path) -> None:
    text = "".join(trace_as_tlc_text(renamed(behaviour(ROUND), 3, "Leave")))
    (tmp_path / "trace").write_text(text.replace("State 5: <Leave>", "State 3: <Leave>"))
    (replay,) = Replayer(LOCKS).replay(tmp_path / "trace")
    assert (replay.verdict, replay.diverged_at) == (ReplayVerdict.DIVERGES, 3)
    assert "expected state 5" in (replay.problem or "")


def test_traces_after_one_that_diverges(tmp_path: Path) -> None:
    traces = [behaviour(ROUND), renamed(behaviour(ROUND), 3, "Leave"), changed(behaviour(ROUND), 2, "_losses", "{}")]
    texts = ["".join(trace_as_tlc_text(trace)) for trace in (*traces, behaviour(ROUND[:2]))]
    (tmp_path / "trace").write_text("".join(texts) + "2 states generated\nState 9: <Leave>\n")
    replays = list(Replayer(LOCKS).replay(tmp_path / "trace"))
    assert [replay.verdict for replay in replays] == ["conforms", "diverges", "unreadable", "conforms", "unreadable"]
    assert [replay.index for replay in replays] == [0, 1, 2, 3, 4]
    assert [replay.steps for replay in replays] == [5, 5, 5, 2, 0]


def test_a_variant_goes_another_way() -> None:
    impatient = ImpatientServer(clients=LOCKS.clients, losses=1)
    assert Replayer(impatient).replay_trace(behaviour(ROUND)).verdict is ReplayVerdict.CONFORMS
    trace = behaviour(("Ask c1", "Grant server", "Expire server"), impatient)
    found = Replayer(LOCKS).replay_trace(trace)
    assert found.diverged_at == 4
    assert "by Expire (there is no action of that name in LockService)" in (found.reason or "")


def compared(theirs: str, ours: str, names: dict[Value, str] | None = None) -> list[str]:
    return [str(item) for item in variable_differences({"x": parse_value(theirs)}, {"x": parse_value(ours)}, names)]


@pytest.mark.parametrize(
    ("theirs", "ours", "found"),
    [
        ("1", "1", []),
        ("TRUE", "1", ["x: TRUE in the trace, 1 by the protocol"]),
        ("<<1, 2, 3>>", "<<1, 4>>", ["x[2]: 2 in the trace, 4 by the protocol", "x[3]: 3 in the trace only"]),
        ("<<>>", "(a :> 1)", ["x[a]: 1 is missing"]),
        ("[a |-> 1]", "[b |-> 1]", ["x: [a |-> 1] in the trace, [b |-> 1] by the protocol"]),
        ("{1, 2}", "{2, 3}", ["x: 1 is in the trace only", "x: 3 is missing in the trace"]),
        (
            "{[a |-> 1, b |-> 2]}",
            "{[a |-> 1, b |-> 3]}",
            ["x{[a |-> 1, b |-> 3]}.b: 2 in the trace, 3 by the protocol"],
        ),
        (
            "([a |-> 1, b |-> 2] :> 0)",
            "([a |-> 1, b |-> 3] :> 1)",
            [
                "x[[a |-> 1, b |-> 3]].b: 2 in the trace, 3 by the protocol",
                "x[[a |-> 1, b |-> 3]]: 0 in the trace, 1 by the protocol",
            ],
        ),
        ("nil", "[a |-> 1]", ["x: nil in the trace, [a |-> 1] by the protocol"]),
    ],
)
def test_differences(theirs: str, ours: str, found: list[str]) -> None:
    assert compared(theirs, ours) == found


def test_short_names_stand_for_records() -> None:
    names = {parse_value("[host |-> n1, id |-> 0]"): "n1"}
    theirs, ours = "([host |-> n1, id |-> 0] :> {})", "([host |-> n1, id |-> 0] :> {[host |-> n1, id |-> 0]})"
    assert compared(theirs, ours, names) == ["x[n1]: n1 is missing in the trace"]


def test_a_variable_that_is_missing() -> None:
    found = [str(item) for item in variable_differences({"a": 1}, {"b": 2})]
    assert found == ["b: 2 is missing", "a: 1 in the trace only"]

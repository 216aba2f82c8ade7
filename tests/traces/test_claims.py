"""What a trace claims of its behaviour is judged: a violation, a deadlock, an assert, that it is fair."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import kraftcheck.traces.replay.replayer
from kraftcheck.spec import (
    Map,
    ModelValue,
    Protocol,
    Record,
    State,
    Steps,
    always,
    become,
    constant,
    eventually,
    every,
    internal,
    invariant,
    ordered,
    predicate,
    projection,
    reachable,
    step_invariant,
    temporal,
)
from kraftcheck.spec.language.formula import Formula
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.tla.state_conversion import TlaStateConverter
from kraftcheck.traces import InfiniteEnding, Trace, TraceFormat, TraceState, write_trace
from kraftcheck.traces.pipeline.rows import FileReplayer
from kraftcheck.traces.replay.claims import ClaimVerdict
from kraftcheck.traces.replay.replayer import Replay, Replayer, ReplayVerdict
from tests.support.command_line import Run

SHOWN, REFUTED, UNKNOWN = ClaimVerdict.SHOWN, ClaimVerdict.REFUTED, ClaimVerdict.UNKNOWN


class Lamp(Record):
    id: int
    level: int = 0


class Nothing(Record):
    pass


class Dimmer(Protocol):
    """A lamp is turned up to 3, where it breaks, and down again."""

    most: int = constant("Most", default=2)

    def initial(self) -> Iterator[State]:
        yield self.start([Lamp(1)], Nothing())

    @internal(fair="weak")
    def up(self, me: Lamp) -> Steps:
        if me.level < 3:
            yield become(me.but(level=me.level + 1))

    @internal
    def down(self, me: Lamp) -> Steps:
        if 0 < me.level < 3:
            yield become(me.but(level=me.level - 1))

    @internal
    def look(self, me: Lamp) -> Steps:
        assert me.level < 2, "too bright"
        return
        yield

    @invariant
    def dim(self, me: Lamp) -> bool:
        return me.level < self.most

    @step_invariant
    def never_down(self, before: Lamp, after: Lamp) -> bool:
        return after.level >= before.level

    @projection
    def levels(self, me: Lamp) -> int:
        return me.level

    @reachable(reads=levels)
    def can_be_dark(self, levels: Map[int, int]) -> bool:
        return 0 in levels.values()

    @predicate(reads=levels)
    def is_lit(self, levels: Map[int, int]) -> bool:
        return 0 not in levels.values()

    @predicate(reads=levels)
    def is_dark(self, levels: Map[int, int]) -> bool:
        return 0 in levels.values()

    @temporal
    def is_lit_once(self) -> Formula:
        return eventually(self.is_lit)

    @temporal
    def goes_dark_again(self) -> Formula:
        return always(eventually(self.is_dark))


class Quiet(Dimmer, variant="quiet"):
    """Nobody looks."""

    def look(self, me: Lamp) -> Steps:
        return
        yield


QUIET = Quiet()


def behaviour(steps: Sequence[str], **more: object) -> Trace:
    """Return the trace of a behaviour, and what it claims."""
    semantics, view = Semantics(QUIET), TlaStateConverter(QUIET)
    (state,) = semantics.initial()
    states = [TraceState(1, view.variables(state))]
    for action in steps:
        state = next(one.target for one in semantics.transitions(state) if one.action == action)
        states.append(TraceState(len(states) + 1, view.variables(state), action))
    return Trace("sample", 0, TraceFormat.TLC_LOG, tuple(states), **more)  # type: ignore[arg-type]


def judged(steps: str, protocol: Protocol = QUIET, **more: object) -> Replay:
    fairness = type(protocol).fairness_of(None)
    return Replayer(protocol, fairness=fairness).replay_trace(behaviour(steps.split(), **more))


@pytest.mark.parametrize(
    ("steps", "violated", "verdict", "says"),
    [
        ("Up Up", "Dim", SHOWN, "Dim is false in state 3"),
        ("Up Up Down", "Dim", SHOWN, "Dim is false in state 3"),
        ("Up Down", "Dim", REFUTED, "Dim holds in all its states"),
        ("Up Down", "NeverDown", SHOWN, "the step to state 3 breaks NeverDown"),
        ("Up Up", "NeverDown", REFUTED, "NeverDown is kept by all its steps"),
        ("Up Up Up", "Deadlock", SHOWN, "nothing is enabled in its last state"),
        ("Up Up", "Deadlock", REFUTED, "Up is enabled in its last state"),
        ("Up", "CanBeDark", UNKNOWN, "a reachability property depends on all states"),
        ("Up", "IsLitOnce", UNKNOWN, "the trace does not show its infinite continuation"),
        ("Up", "Bright", UNKNOWN, "Dimmer has no property Bright"),
    ],
)
def test_violations(steps: str, violated: str, verdict: ClaimVerdict, says: str) -> None:
    replay = judged(steps, violated=violated)
    what = "a deadlock" if violated == "Deadlock" else f"a violation of {violated}"
    assert replay.claim is not None
    assert replay.claim[:3] == (what, verdict, says)
    assert replay.verdict is (ReplayVerdict.REFUTED if verdict is REFUTED else ReplayVerdict.CONFORMS)
    assert (replay.diverged_at, len(replay.actions)) == (None, len(steps.split()))
    assert replay.reason == (f"{what} is claimed, but {says}" if verdict is REFUTED else None)


def test_constants_are_those_that_are_given() -> None:
    dim = judged("Up Up", Quiet(most=3), violated="Dim").claim
    assert dim is not None
    assert dim.verdict is REFUTED


BACK, STUTTERS = InfiniteEnding(2, "Down"), InfiniteEnding()


@pytest.mark.parametrize(
    ("steps", "ending", "violated", "verdict", "says"),
    [
        ("Up Up", BACK, "GoesDarkAgain", SHOWN, "GoesDarkAgain is false of the behaviour"),
        ("Up Up", BACK, "IsLitOnce", REFUTED, "IsLitOnce is true of the behaviour"),
        ("Up Up Up", STUTTERS, "GoesDarkAgain", SHOWN, "GoesDarkAgain is false of the behaviour"),
        ("Up", STUTTERS, "GoesDarkAgain", REFUTED, "the behaviour is not fair: WF(Up)"),
        ("", STUTTERS, "IsLitOnce", REFUTED, "the behaviour is not fair: WF(Up)"),
    ],
)
def test_behaviours_that_go_on_for_ever(
    steps: str, ending: InfiniteEnding, violated: str, verdict: ClaimVerdict, says: str
) -> None:
    replay = judged(steps, violated=violated, ending=ending)
    assert replay.claim is not None
    assert replay.claim[:3] == (f"a violation of {violated}", verdict, says)
    assert replay.verdict is (ReplayVerdict.REFUTED if verdict is REFUTED else ReplayVerdict.CONFORMS)


@pytest.mark.parametrize(("checked", "shown"), [("GoesDarkAgain", True), ("GoesDarkAgain IsLitOnce", False)])
def test_the_only_temporal_property_is_meant(checked: str, shown: bool, tmp_path: Path, run: Run) -> None:
    trace = behaviour(["Up", "Up"], problem="Temporal properties were violated.", ending=BACK)
    write_trace(trace, tmp_path / "trace.out")
    (tmp_path / "quiet.cfg").write_text(f"SPECIFICATION Spec\nPROPERTIES {checked}\n")
    outcome = run("replay", f"{__file__}:Quiet", "--config", tmp_path / "quiet.cfg", tmp_path / "trace.out")
    expected = "to a violation of GoesDarkAgain" if shown else "is not evaluated: it names no property"
    assert (outcome.code, expected in outcome.out) == (0, True), outcome


def test_a_temporal_claim_of_a_trace_with_states_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kraftcheck.traces.replay.replayer, "MOST_BRIDGED_STATES", 0)
    whole = behaviour(["Up", "Up", "Down", "Up"], violated="GoesDarkAgain", ending=BACK)
    trace = replace(whole, states=whole.states[:2] + whole.states[3:])
    claim = Replayer(QUIET, reach_first=0).replay_trace(trace).claim
    assert claim is not None
    assert (claim.verdict, claim.says) == (UNKNOWN, "it leaves states out after state 2")


@pytest.mark.parametrize(("left_out", "verdict"), [((), REFUTED), ((3,), UNKNOWN)])
@pytest.mark.parametrize(("violated", "ending"), [("IsLitOnce", BACK), ("NeverDown", None)])
def test_states_left_out_may_show_a_claim(
    left_out: tuple[int, ...], verdict: ClaimVerdict, violated: str, ending: InfiniteEnding | None
) -> None:
    steps = ["Up", "Up", "Down", "Up"] if ending else ["Up", "Up", "Up"]
    whole = behaviour(steps, violated=violated, ending=ending)
    trace = replace(whole, states=tuple(one for one in whole.states if one.number not in left_out))
    claim = Replayer(QUIET, reach_first=0).replay_trace(trace).claim
    assert claim is not None
    assert claim.verdict is verdict


class Holder(Record):
    id: ModelValue
    holds: bool = False
    turns: int = 0


class Passing(Protocol):
    """Two nodes pass a token to each other for ever."""

    nodes: frozenset[ModelValue] = constant("Nodes")
    network = None
    symmetries = {"Alike": ("nodes",)}

    def initial(self) -> Iterator[State]:
        first, second = ordered(self.nodes)
        yield self.start([Holder(first, holds=True), Holder(second)])

    @internal(fair="weak")
    def give(self, me: Holder) -> Steps:
        (other,) = self.nodes - {me.id}
        if me.holds:
            yield become(Holder(me.id)).write(Holder(other, holds=True, turns=1 - me.turns))

    @predicate(given=["who"])
    def has(self, state: State, who: ModelValue) -> bool:
        return state.replicas[who].holds

    @temporal
    def passes(self) -> Formula:
        return every([always(eventually(self.has.of(who=node))) for node in ordered(self.nodes)])

    @step_invariant
    def nobody_keeps_it(self, before: Holder, after: Holder) -> bool:
        return not (before.holds and after.holds)


@pytest.mark.parametrize(("violated", "verdict"), [("Passes", UNKNOWN), ("NobodyKeepsIt", REFUTED)])
def test_a_claim_where_symmetry_exchanges_replicas(violated: str, verdict: ClaimVerdict) -> None:
    nodes = frozenset({ModelValue("n1", 1), ModelValue("n2", 2)})
    protocol = Passing(nodes=nodes)
    (state,) = protocol.initial()
    first, _ = state.replicas.values()
    other = state.but(replicas=state.replicas.put(first.id, first.but(turns=1)))
    variables = TlaStateConverter(protocol).variables
    states = (TraceState(1, variables(state)), TraceState(2, variables(other), "Give"))
    trace = Trace("sample", 0, TraceFormat.TLC_LOG, states, InfiniteEnding(1, "Give"), violated)
    replay = Replayer(protocol, symmetry="Alike", fairness=Passing.fairness_of(None)).replay_trace(trace)
    assert replay.claim is not None
    assert replay.claim.verdict is verdict


def test_a_lasso_that_does_not_lead_back_diverges() -> None:
    assert judged("Up Up", ending=InfiniteEnding(1, "Down"), violated="GoesDarkAgain").diverged_at == 1


def test_asserts() -> None:
    problem = "An assert failed in Look."
    for protocol, verdict in ((Dimmer(), SHOWN), (QUIET, REFUTED)):
        found = judged("Up Up", protocol, problem=problem).claim
        assert found is not None
        assert found[:2] == ("an assert that fails in Look", verdict)


def test_what_a_tool_says_besides_is_not_evaluated() -> None:
    found = judged("Up", problem="TLC threw an unexpected exception.").claim
    assert found is not None
    assert found[:2] == ("'TLC threw an unexpected exception.'", UNKNOWN)


@pytest.mark.parametrize("name", ["trace.out", "trace.itf.json"])
def test_the_command_and_the_pipeline_have_the_same_verdict(name: str, run: Run, tmp_path: Path) -> None:
    """Two files, one of which claims what is false."""
    source = Path(__file__).read_text()
    begin, end = source.index("class Lamp"), source.index("QUIET = ")
    model = tmp_path / "dimmer.py"
    model.write_text(
        "from collections.abc import Iterator\nfrom kraftcheck.spec import *\n"
        f"from kraftcheck.spec.language.formula import Formula\n\n\n{source[begin:end]}"
    )
    files = {"false": "Up", "true": "Up Up"}
    for folder, steps in files.items():
        (tmp_path / folder).mkdir()
        write_trace(behaviour(steps.split(), violated="Dim"), tmp_path / folder / name)
    paths = [tmp_path / folder / name for folder in files]
    outcome = run("replay", f"{model}:Quiet", *paths, "--json", tmp_path / "found.json", "--report", tmp_path / "p.md")
    assert (outcome.code, outcome.err) == (1, "")
    lines = [line for line in outcome.out.splitlines() if "Note: " not in line]
    assert lines == [
        f"{paths[0]}: refuted, 1 step; a violation of Dim is claimed, but Dim holds in all its states",
        f"{paths[1]}: conforms, 2 steps, to a violation of Dim",
        "2 traces: 1 conform, 1 refuted",
    ]
    found = json.loads((tmp_path / "found.json").read_text())
    assert [one["result"] for one in found] == ["refuted", "conforms"]
    assert found[0]["claim"] == {
        "what": "a violation of Dim",
        "verdict": "refuted",
        "says": "Dim holds in all its states",
    }
    assert "Dim holds in all its states" in (tmp_path / "p.md").read_text()
    replayer = FileReplayer(QUIET, "Init", None, 2**20)
    rows = [row for path in paths for found in replayer.rows(str(path)) for row in found.traces]
    assert [(row["verdict"], row["diverged_step"]) for row in rows] == [("refuted", None), ("conforms", None)]
    assert rows[0]["reason"] == found[0]["reason"]
    assert run("replay", f"{model}:Quiet", paths[1]).code == 0


def test_a_state_of_another_number_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.itf.json"
    write_trace(behaviour(["Up"]), path)
    content = json.loads(path.read_text())
    content["states"][1]["#meta"]["index"] = 7
    path.write_text(json.dumps(content))
    (replay,) = Replayer(QUIET).replay(path)
    assert replay.verdict is ReplayVerdict.UNREADABLE
    assert "expected index 1, found index 7 in states[1].#meta" in (replay.problem or "")

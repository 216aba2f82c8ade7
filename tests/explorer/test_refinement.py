"""Refinement: a right mapping, wrong ones, and what cannot be one."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kraftcheck import check, simulate
from kraftcheck.explorer.request import CAPABILITIES
from kraftcheck.explorer.result import Result, Verdict
from kraftcheck.explorer.tables.level_states import LayoutPolicy
from kraftcheck.reporting.counterexample import counterexample_text
from kraftcheck.spec import (
    InputError,
    Map,
    ModelValue,
    Protocol,
    ProtocolError,
    RaisedError,
    Record,
    State,
    Step,
    Steps,
    become,
    bound,
    constant,
    constraint,
    environment,
    hide,
    internal,
    ordered,
    projection,
    refines,
)
from kraftcheck.spec.examples.two_phase_commit import Nothing, Phase, TransactionManager, TwoPhaseCommit
from tests.support.command_line import Run

ORDERS = [
    (engine, order)
    for engine, orders in CAPABILITIES.items()
    if engine not in ("spark", "bytecode")  # bytecode checks no property of steps
    for order in orders
]
IN_ORDER = [(engine, order) for engine, order in ORDERS if order in ("bfs", "iddfs", "saturation", "chaining")]
THREE = frozenset(ModelValue(f"rm{i}", i) for i in (1, 2, 3))


class Participant(Record):
    id: ModelValue
    phase: Phase = Phase.WORKING


class TransactionCommit(Protocol):
    """What a commit protocol is for: module TCommit of the TLA+ examples."""

    resource_managers: frozenset[ModelValue] = constant("RM")
    network = None

    def initial(self) -> Iterator[State]:
        yield self.start([Participant(one) for one in ordered(self.resource_managers)], Nothing())

    @projection
    def phases(self, me: Participant) -> Phase:
        return me.phase

    @internal
    def prepare(self, me: Participant) -> Steps:
        if me.phase is Phase.WORKING:
            yield become(me.but(phase=Phase.PREPARED))

    @internal(reads=phases)
    def decide(self, me: Participant, phases: Map[ModelValue, Phase]) -> Steps:
        known = set(phases.values())
        if me.phase is Phase.PREPARED and known <= {Phase.PREPARED, Phase.COMMITTED}:
            yield become(me.but(phase=Phase.COMMITTED))
        if me.phase in (Phase.WORKING, Phase.PREPARED) and Phase.COMMITTED not in known:
            yield become(me.but(phase=Phase.ABORTED))


class Refining(TwoPhaseCommit):
    """Two-phase commit refines transaction commit: leave the coordinator and the messages out."""

    @refines(TransactionCommit)
    def transaction_commit(self, state: State, other: TransactionCommit) -> State:
        managers = [state.replicas[one] for one in ordered(self.resource_managers)]
        return other.start([Participant(one.id, one.phase) for one in managers], Nothing())


class Hasty(Refining):
    """The coordinator commits once one participant is prepared."""

    @internal
    def commit(self, me: TransactionManager) -> Steps:
        if me.phase is Phase.WORKING and me.prepared:
            yield self._decide(me, Phase.COMMITTED)


class StartsElsewhere(Refining):
    """The mapping makes the first participant prepared from the start."""

    @refines(TransactionCommit)
    def transaction_commit(self, state: State, other: TransactionCommit) -> State:
        found = super().transaction_commit(state, other)
        first = found.replicas[ModelValue("rm1", 1)]
        return found.but(replicas=found.replicas.put(first.id, first.but(phase=Phase.PREPARED)))


def checked(protocol: Protocol, engine: str, search: str, **more: Any) -> Result:
    return check(protocol, engine=engine, search=search, properties=["TransactionCommit"], deadlock=False, **more)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("engine", "search"), ORDERS)
def test_a_right_mapping(engine: str, search: str) -> None:
    result = checked(Refining(resource_managers=THREE), engine, search)
    assert (result.verdict, result.distinct_states) == (Verdict.OK, 288)
    assert result.notes == [] or engine == "symbolic"


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("engine", "search"), ORDERS)
def test_an_unmapped_step_is_found(engine: str, search: str) -> None:
    (violation,) = checked(Hasty(resource_managers=THREE), engine, search).violations
    assert violation.property == "TransactionCommit"
    assert violation.unmapped is not None


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("engine", "search"), IN_ORDER)
def test_a_step_that_does_not_map(engine: str, search: str) -> None:
    protocol = Hasty(resource_managers=THREE)
    result = checked(protocol, engine, search)
    (violation,) = result.violations
    assert (result.verdict, violation.property) == (Verdict.VIOLATION, "TransactionCommit")
    assert [step.action for step in violation.trace[1:]] == ["Prepare", "HearPrepared", "Commit", "FollowDecision"]
    text = counterexample_text(protocol, violation)
    assert "as a behaviour of TransactionCommit: state 5 does not follow from state 4; the nearest step is" in text
    assert "(in the mapping: committed)" in text


@pytest.mark.parametrize(("engine", "search"), ORDERS)
def test_a_start_that_does_not_map(engine: str, search: str) -> None:
    protocol = StartsElsewhere(resource_managers=THREE)
    (violation,) = checked(protocol, engine, search).violations
    assert len(violation.trace) == 1
    assert "as a behaviour of TransactionCommit: state 1 is no initial state" in counterexample_text(
        protocol, violation
    )


@pytest.mark.slow
@pytest.mark.sampled(4)
@pytest.mark.parametrize("protocol", [Refining, Hasty])
@pytest.mark.parametrize("flat", [False, True])
def test_several_workers_and_both_layouts(
    protocol: type[Protocol], flat: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LayoutPolicy, "wants_flat", lambda self: flat and not self._states.expander.is_flat)
    made = protocol(resource_managers=frozenset(ModelValue(f"rm{i}", i) for i in range(1, 5)))
    result = checked(made, "tables", "bfs", workers=2)
    expected = checked(made, "reference", "bfs")
    assert result.verdict is expected.verdict
    assert [len(one.trace) for one in result.violations] == [len(one.trace) for one in expected.violations]


def test_walks_check_the_steps_that_they_take() -> None:
    def walked(protocol: type[Protocol]) -> Result:
        given = protocol(resource_managers=THREE)
        return simulate(given, runs=200, properties=["TransactionCommit"], deadlock=False)

    assert walked(Refining).violations == []
    (violation,) = walked(Hasty).violations
    assert violation.unmapped is not None
    assert violation.trace[-1].action == "FollowDecision"
    (violation,) = walked(StartsElsewhere).violations
    assert len(violation.trace) == 1


class Few(Hasty):
    @constraint
    def nobody_follows(self, me: Participant) -> bool:
        return me.phase is not Phase.COMMITTED


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("engine", "search"), ORDERS)
def test_steps_beyond_a_constraint_are_checked(engine: str, search: str) -> None:
    """As in TLC."""
    (violation,) = checked(Few(resource_managers=THREE), engine, search, constraints=["NobodyFollows"]).violations
    assert violation.trace[-1].action == "FollowDecision"


@pytest.mark.parametrize(("depth", "verdict"), [(3, Verdict.INCOMPLETE), (5, Verdict.VIOLATION)])
def test_a_search_with_a_limit_checks_the_steps_that_it_takes(depth: int, verdict: Verdict) -> None:
    assert checked(Hasty(resource_managers=THREE), "tables", "bfs", max_depth=depth).verdict is verdict


def test_a_search_continues_from_a_checkpoint(tmp_path: Path) -> None:
    protocol = Hasty(resource_managers=THREE)
    first = checked(protocol, "tables", "bfs", max_depth=3, checkpoint=tmp_path / "saved")
    assert first.violations == []
    (violation,) = checked(protocol, "tables", "bfs", resume=tmp_path / "saved").violations
    assert len(violation.trace) == 5
    (again,) = checked(protocol, "tables", "bfs", resume=tmp_path / "saved").violations
    assert again.unmapped == violation.unmapped


def test_symmetry_is_switched_off() -> None:
    protocol = Refining(resource_managers=THREE)
    result = check(protocol, properties=["TransactionCommit"], symmetry=True, deadlock=False)
    assert (result.verdict, result.distinct_states) == (Verdict.OK, 288)
    assert any("SYMMETRY symmRM is switched off" in note for note in result.notes)


class Count(Record):
    count: int = 0
    noted: int = 0


class Counter(Protocol):
    network = None

    def initial(self) -> Iterator[State]:
        yield self.start([], Count())

    @environment
    def count(self, shared: Count) -> Steps:
        yield Step().put(count=shared.count + 1)


class Counting(Protocol):
    network = None
    steps: int = bound("MaxSteps", default=5)
    views = {"unspent": hide("steps"), "unnoted": hide("noted")}

    def initial(self) -> Iterator[State]:
        yield self.start([], Count())

    @environment
    def count(self, shared: Count) -> Steps:
        yield Step().put(count=(shared.count + 1) % 3).spend("steps")

    @refines(Counter)
    def counter(self, state: State, other: Counter) -> State:
        return other.start([], Count(state.spent["steps"]))


class Shown(Counting):
    @refines(Counter)
    def counter(self, state: State, other: Counter) -> State:
        return other.start([], Count(state.shared.count))


@pytest.mark.parametrize(("engine", "search"), ORDERS)
def test_a_view_of_what_the_mapping_reads(engine: str, search: str) -> None:
    """Only the first state found is checked, with a warning, or the search is refused."""
    if (engine, search) == ("reference", "bfs"):
        result = check(Counting(), engine=engine, search=search, view="unspent", deadlock=False)
        assert "only the first state found is checked" in result.warnings[0]
        return
    several = {"workers": 2} if engine == "tables" else {}  # else the reference engine searches
    with pytest.raises(
        InputError, match=r"reads steps, which VIEW unspent leaves out|not supported by --search|has too little of it"
    ):
        check(Counting(), engine=engine, search=search, view="unspent", deadlock=False, **several)


@pytest.mark.parametrize(("engine", "search"), ORDERS)
def test_a_view_of_shared_fields_is_refused(engine: str, search: str) -> None:
    with pytest.raises(InputError, match=r"VIEW unnoted(, which hides|: not supported| leaves out) noted"):
        check(Shown(), engine=engine, search=search, view="unnoted", deadlock=False)


@pytest.mark.parametrize("search", ["bfs", "dfs", "iddfs"])
def test_a_view_of_what_the_mapping_does_not_read(search: str) -> None:
    result = check(Shown(), search=search, view="unspent", deadlock=False)
    assert (result.distinct_states, [len(one.trace) for one in result.violations]) == (3, [4])


class NoState(Refining):
    @refines(TransactionCommit)
    def transaction_commit(self, state: State, other: TransactionCommit) -> Any:
        return state.replicas


class Failing(Refining):
    @refines(TransactionCommit)
    def transaction_commit(self, state: State, other: TransactionCommit) -> State:
        return state.replicas["nobody"]


class Late(Refining):
    """The mapping fails in a state that is reached in one step."""

    @refines(TransactionCommit)
    def transaction_commit(self, state: State, other: TransactionCommit) -> State:
        assert state.replicas[ModelValue("rm1", 1)].phase is not Phase.ABORTED
        return super().transaction_commit(state, other)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("engine", "search"), ORDERS)
def test_a_mapping_that_fails_later(engine: str, search: str) -> None:
    result = checked(Late(resource_managers=THREE), engine, search)
    (violation,) = result.violations
    assert (result.verdict, violation.failed is not None) == (Verdict.ASSERTION, True)
    last = violation.trace[-1].state.replicas[ModelValue("rm1", 1)]
    assert (last.phase, len(violation.trace) > 1) == (Phase.ABORTED, True)


class Constants(Protocol):
    network = None

    def initial(self) -> Iterator[State]:
        yield self.start([], Nothing())

    @refines(TransactionCommit)
    def commit(self, state: State, other: TransactionCommit) -> State:
        return state


@pytest.mark.parametrize(
    ("protocol", "message"),
    [
        (NoState(resource_managers=THREE), r"returned .*; expected a state of TransactionCommit, made by start\(...\)"),
        (Failing(resource_managers=THREE), r"test_refinement.py:\d+: .*TransactionCommit"),
        (Constants(), r"test_refinement.py:\d+: refinement Commit: TransactionCommit needs the constant resource_man"),
    ],
    ids=["no state", "raises", "constants"],
)
@pytest.mark.parametrize("engine", ["reference", "tables"])
def test_mappings_that_are_none(engine: str, protocol: Protocol, message: str) -> None:
    with pytest.raises(ProtocolError, match=message) as raised:
        check(protocol, engine=engine, deadlock=False)
    assert not isinstance(raised.value, RaisedError) or raised.value.trace is not None


def test_what_is_refined_is_a_protocol() -> None:
    with pytest.raises(ProtocolError, match=r"@refines\(...\): expected a protocol, .*found <class 'int'>"):
        refines(int)


def test_on_the_command_line(run: Run, tmp_path: Path) -> None:
    source = Path(__file__).read_text()
    begin, end = source.index("class Participant"), source.index("class StartsElsewhere")
    head = "from __future__ import annotations\nfrom collections.abc import Iterator\nfrom kraftcheck import *\n"
    head += (
        "from kraftcheck.spec.examples.two_phase_commit import Nothing, Phase, TransactionManager, TwoPhaseCommit\n\n\n"
    )
    (tmp_path / "commit.py").write_text(head + source[begin:end])
    (tmp_path / "commit.cfg").write_text("CONSTANT RM = {rm1, rm2, rm3}\nPROPERTY TransactionCommit\n")
    config = ("--config", tmp_path / "commit.cfg", "--no-deadlock", "--json", tmp_path / "found.json")
    assert run("check", f"{tmp_path / 'commit.py'}:Refining", *config).code == 0
    outcome = run("check", f"{tmp_path / 'commit.py'}:Hasty", *config, "--trace", tmp_path / "trace.out")
    assert outcome.code == 12
    assert "as a behaviour of TransactionCommit: state 5 does not follow" in outcome.out
    assert "as a behaviour of TransactionCommit" in (tmp_path / "found.json").read_text()
    outcome = run(
        "replay", f"{tmp_path / 'commit.py'}:Hasty", "--config", tmp_path / "commit.cfg", tmp_path / "trace.out"
    )
    assert (outcome.code, "conforms, 4 steps, to a violation of TransactionCommit" in outcome.out) == (0, True)
    (tmp_path / "action.cfg").write_text("CONSTANT RM = {rm1}\nACTION_CONSTRAINT TransactionCommit\n")
    outcome = run("check", f"{tmp_path / 'commit.py'}:Refining", "--config", tmp_path / "action.cfg")
    assert (outcome.code, "TransactionCommit is a refinement, so it is no action constraint" in outcome.err) == (
        2,
        True,
    )


class Same(TwoPhaseCommit):
    """Each state is its own abstract state."""

    @refines(TwoPhaseCommit)
    def same(self, state: State, other: TwoPhaseCommit) -> State:
        return state


class Copied(TwoPhaseCommit):
    @refines(TwoPhaseCommit)
    def same(self, state: State, other: TwoPhaseCommit) -> State:
        return copy.copy(state)


class AsksTheType(TwoPhaseCommit):
    @refines(TwoPhaseCommit)
    def same(self, state: State, other: TwoPhaseCommit) -> State:
        return state.but() if type(state) is State else state.but(replicas=Map({}))


@pytest.mark.parametrize(("engine", "search"), IN_ORDER)
@pytest.mark.parametrize("model", [Same, Copied, AsksTheType])
def test_a_mapping_may_return_the_state(model: type[TwoPhaseCommit], engine: str, search: str) -> None:
    managers = frozenset(ModelValue(f"rm{number}", number) for number in range(2))
    found = check(model(resource_managers=managers), engine=engine, search=search, properties=["Same"], deadlock=False)
    assert (found.verdict, found.distinct_states) == (Verdict.OK, 56)

"""Refinement: a right mapping, wrong ones, and what cannot be one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kraftcheck import check
from kraftcheck.explorer.result import Verdict
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
    Steps,
    become,
    constant,
    internal,
    ordered,
    projection,
    refines,
)
from kraftcheck.spec.examples.two_phase_commit import Nothing, Phase, TransactionManager, TwoPhaseCommit
from tests.support.command_line import Run

ENGINES = ("reference", "tables")
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


@pytest.mark.parametrize("engine", ENGINES)
def test_a_right_mapping(engine: str) -> None:
    result = check(Refining(resource_managers=THREE), engine=engine, properties=["TransactionCommit"], deadlock=False)
    assert (result.verdict, result.distinct_states, result.notes) == (Verdict.OK, 288, [])


@pytest.mark.parametrize("engine", ENGINES)
def test_a_step_that_does_not_map(engine: str) -> None:
    protocol = Hasty(resource_managers=THREE)
    result = check(protocol, engine=engine, properties=["TransactionCommit"], deadlock=False)
    (violation,) = result.violations
    assert (result.verdict, violation.property) == (Verdict.VIOLATION, "TransactionCommit")
    assert [step.action for step in violation.trace[1:]] == ["Prepare", "HearPrepared", "Commit", "FollowDecision"]
    text = counterexample_text(protocol, violation)
    assert "as a behaviour of TransactionCommit: state 5 does not follow from state 4; the nearest step is" in text
    assert "(in the mapping: committed)" in text


@pytest.mark.parametrize("engine", ENGINES)
def test_a_start_that_does_not_map(engine: str) -> None:
    protocol = StartsElsewhere(resource_managers=THREE)
    result = check(protocol, engine=engine, properties=["TransactionCommit"], deadlock=False)
    (violation,) = result.violations
    assert len(violation.trace) == 1
    assert "as a behaviour of TransactionCommit: state 1 is no initial state" in counterexample_text(
        protocol, violation
    )


@pytest.mark.parametrize(("engine", "search"), [("tables", "dfs"), ("symbolic", "bfs"), ("spark", "bfs")])
def test_searches_that_refuse(engine: str, search: str) -> None:
    with pytest.raises(InputError, match=r"@refines TransactionCommit: not supported by .*expected"):
        check(Refining(resource_managers=THREE), engine=engine, search=search, deadlock=False)


def test_it_is_not_checked_where_states_are_missing() -> None:
    result = check(Hasty(resource_managers=THREE), properties=["TransactionCommit"], max_depth=3, deadlock=False)
    assert result.verdict is Verdict.INCOMPLETE
    assert "TransactionCommit: refinement was not checked, since the search did not visit every state" in result.notes


def test_symmetry_is_switched_off() -> None:
    protocol = Refining(resource_managers=THREE)
    result = check(protocol, properties=["TransactionCommit"], symmetry=True, deadlock=False)
    assert (result.verdict, result.distinct_states) == (Verdict.OK, 288)
    assert any("SYMMETRY symmRM is switched off" in note for note in result.notes)


class NoState(Refining):
    @refines(TransactionCommit)
    def transaction_commit(self, state: State, other: TransactionCommit) -> Any:
        return state.replicas


class Failing(Refining):
    @refines(TransactionCommit)
    def transaction_commit(self, state: State, other: TransactionCommit) -> State:
        return state.replicas["nobody"]


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
@pytest.mark.parametrize("engine", ENGINES)
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
    assert (outcome.code, "refinement is checked by `check` alone" in outcome.out) == (0, True)

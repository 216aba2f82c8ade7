"""The small protocols: the textbook's numbers, TLC's numbers, and deliberately broken versions of both."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kraftcheck.explorer.reference import explore
from kraftcheck.explorer.result import DEADLOCK, Result, SearchRequest, Verdict
from kraftcheck.spec import Protocol, Steps, become, consume, internal
from kraftcheck.spec.examples.lock_service import (
    Acquire,
    Client,
    Grant,
    ImpatientServer,
    LockService,
    Name,
    Server,
)
from kraftcheck.spec.examples.lock_service import Phase as ClientPhase
from kraftcheck.spec.examples.two_phase_commit import Phase, ResourceManager, TransactionManager, TwoPhaseCommit
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.values import ModelValue


def names(prefix: str, count: int) -> frozenset[ModelValue]:
    return frozenset(ModelValue(f"{prefix}{number}", number) for number in range(1, count + 1))


def two_phase_commit(managers: int, protocol: type[TwoPhaseCommit] = TwoPhaseCommit) -> Result:
    return explore(protocol(resource_managers=names("rm", managers)))


def lock_service(clients: int, losses: int, *, deadlock: bool = True) -> Result:
    protocol = LockService(clients=names("c", clients), losses=losses)
    return explore(protocol, SearchRequest(properties=tuple(protocol.properties.values()), deadlock=deadlock))


def assert_is_a_behaviour(protocol: Protocol, found: Result) -> None:
    """The counterexample starts at an initial state, every step of it is one that is offered, and no state recurs."""
    semantics = Semantics(protocol)
    trace = found.violations[0].trace
    assert trace[0].state in semantics.initial()
    for before, after in pairwise(trace):
        offered = [(t.action, t.actor, t.message, t.target) for t in semantics.transitions(before.state)]
        assert (after.action, after.actor, after.message, after.state) in offered
    assert len({step.state for step in trace}) == len(trace)


# Two-phase commit


@pytest.mark.parametrize(
    ("managers", "distinct", "depth"), [(3, 288, 11), pytest.param(5, 8_832, 17, marks=pytest.mark.slow)]
)
def test_two_phase_commit_has_the_textbook_s_states(managers: int, distinct: int, depth: int) -> None:
    found = two_phase_commit(managers)
    assert (found.verdict, found.distinct_states, found.depth) == (Verdict.OK, distinct, depth)
    assert found.never_enabled == []


class CommitsEarly(TwoPhaseCommit):
    """The transaction manager commits as soon as anyone is prepared."""

    def commit(self, me: TransactionManager) -> Steps:
        if me.phase is Phase.WORKING and me.prepared:
            yield self._decide(me, Phase.COMMITTED)


class AbortsLate(TwoPhaseCommit):
    """A resource manager that has prepared may still abort by itself."""

    def choose_to_abort(self, me: ResourceManager) -> Steps:
        if me.phase in (Phase.WORKING, Phase.PREPARED):
            yield become(me.but(phase=Phase.ABORTED))


@pytest.mark.parametrize(("broken", "length"), [(CommitsEarly, 6), (AbortsLate, 8)])
def test_a_broken_two_phase_commit_is_inconsistent(broken: type[TwoPhaseCommit], length: int) -> None:
    found = two_phase_commit(2, broken)
    assert [(violation.property, len(violation.trace)) for violation in found.violations] == [("Consistent", length)]
    assert_is_a_behaviour(broken(resource_managers=names("rm", 2)), found)


# The lock service


@pytest.mark.parametrize(
    ("clients", "losses", "distinct", "generated", "depth"),
    [
        (2, 0, 20, 37, 7),
        (2, 1, 48, 95, 8),
        (2, 2, 61, 127, 9),
        (3, 1, 164, 421, 9),
        (4, 0, 144, 417, 9),
        (4, 2, 840, 2_793, 11),
    ],
)
def test_the_lock_is_exclusive(clients: int, losses: int, distinct: int, generated: int, depth: int) -> None:
    """The numbers are TLC 2.15's for the same protocol written in TLA+ with a bag of messages."""
    found = lock_service(clients, losses, deadlock=False)
    assert found.verdict is Verdict.OK
    assert (found.distinct_states, found.generated_states, found.depth) == (distinct, generated, depth)


def test_the_lock_service_does_not_deadlock_where_nothing_is_lost() -> None:
    assert lock_service(3, losses=0).verdict is Verdict.OK


@pytest.mark.parametrize("clients", [2, 3])
def test_a_lost_grant_leaves_the_lock_taken_for_ever(clients: int) -> None:
    found = lock_service(clients, losses=1)
    assert found.verdict is Verdict.DEADLOCK
    assert [(violation.property, len(violation.trace)) for violation in found.violations] == [(DEADLOCK, clients + 3)]
    last = found.violations[0].trace[-1]
    assert (last.action, type(last.message)) == ("LoseMessage", Grant)
    *everyone, server = last.state.replicas.values()
    assert server.holder is not Name.NOBODY
    assert {client.phase for client in everyone} == {ClientPhase.WAITING}
    assert_is_a_behaviour(LockService(clients=names("c", clients), losses=1), found)


class Generous(LockService):
    """The server grants the lock to whoever asks."""

    def grant(self, me: Server, request: Acquire) -> Steps:
        yield consume(me.but(holder=request.source)).send(Grant(request.source))


class Hasty(LockService):
    """A client that waits may take the lock without its grant."""

    @internal
    def seize(self, me: Client) -> Steps:
        if me.phase is ClientPhase.WAITING:
            yield become(me.but(phase=ClientPhase.HOLDING))


@pytest.mark.parametrize(("broken", "length"), [(ImpatientServer, 8), (Generous, 7), (Hasty, 5)])
def test_a_broken_lock_service_lets_two_hold_the_lock(broken: type[LockService], length: int) -> None:
    protocol = broken(clients=names("c", 2), losses=0)
    found = explore(protocol, SearchRequest(properties=(protocol.properties["MutualExclusion"],), max_depth=length))
    assert [(v.property, len(v.trace)) for v in found.violations] == [("MutualExclusion", length)]
    assert_is_a_behaviour(protocol, found)

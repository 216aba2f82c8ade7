"""`quorum` without reconfiguration refines a log of committed records that only grows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kraftcheck import check
from kraftcheck.explorer.result import Result, Verdict
from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.records import Batch, Data, LeaderChange, Mode
from kraftcheck.spec import ModelValue, Protocol, Record, State, Step, Steps, constant, environment, ordered, refines

pytestmark = pytest.mark.kernel

Entry = tuple[int, int]  # the epoch of a batch, and what is in it


class Committed(Record):
    log: tuple[Entry, ...] = ()


class CommittedLog(Protocol):
    """Records are committed one or two at a time, in epochs that only grow, and stay."""

    hosts: frozenset[ModelValue] = constant("Hosts")
    network = None

    def initial(self) -> Iterator[State]:
        yield self.start([], Committed())
        for leader in range(len(self.hosts)):  # a leader is in office
            yield self.start([], Committed(((1, leader),)))

    @environment
    def commit(self, shared: Committed) -> Steps:
        first = shared.log[-1][0] if shared.log else 1
        for epoch in range(first, 4):
            for kind in range(len(self.hosts) + 3):
                longer = (*shared.log, (epoch, kind))
                yield Step().put(log=longer)
                yield from (Step().put(log=(*longer, (epoch, more))) for more in range(len(self.hosts) + 3))


class Refining(Quorum):
    @refines(CommittedLog)
    def committed_log(self, state: State, other: CommittedLog) -> State:
        hosts = list(ordered(self.hosts))
        return other.start([], Committed(tuple(_entry(batch, hosts) for batch in self.log_of(state))))

    def log_of(self, state: State) -> tuple[Batch, ...]:
        return max((me.log[: me.high_watermark] for me in state.replicas.values()), key=len)


class NewestLeader(Refining):
    """A wrong mapping: the whole log of the newest leader, with what is not committed."""

    def log_of(self, state: State) -> tuple[Batch, ...]:
        leaders = [me for me in state.replicas.values() if me.mode is Mode.LEADER]
        return max(leaders, key=lambda me: me.epoch).log if leaders else ()


def _entry(batch: Batch, hosts: list[ModelValue]) -> Entry:
    (first, *_) = batch.records
    kind = hosts.index(first.leader) if isinstance(first, LeaderChange) else len(hosts)
    return batch.epoch, kind + first.number if isinstance(first, Data) else kind


ORDERS = [("tables", "bfs"), ("tables", "dfs"), ("symbolic", "bfs"), ("symbolic", "saturation")]


def searched(protocol: type[Quorum], engine: str, search: str) -> Result:
    hosts = frozenset(ModelValue(f"n{i}", i) for i in (1, 2, 3))
    given = protocol(hosts=hosts, initial_voters=hosts, late_pre_votes=False, elections=2, pre_votes=3)
    return check(given, properties=["CommittedLog"], init="Elected", deadlock=False, engine=engine, search=search)


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "search"), [*ORDERS, ("reference", "bfs")])
def test_what_is_committed_is_a_log_that_only_grows(engine: str, search: str) -> None:
    result = searched(Refining, engine, search)
    assert (result.verdict, result.distinct_states) == (Verdict.OK, 38_971)


@pytest.mark.slow
@pytest.mark.sampled(6)
@pytest.mark.parametrize(("engine", "search"), [*ORDERS, ("reference", "bfs")])
def test_a_mapping_to_what_is_not_committed(engine: str, search: str) -> None:
    (violation,) = searched(NewestLeader, engine, search).violations
    assert len(violation.trace) == 6 or (search == "dfs" and len(violation.trace) > 6)

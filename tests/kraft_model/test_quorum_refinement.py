"""`quorum` without reconfiguration refines a log of committed records that only grows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kraftcheck import check
from kraftcheck.explorer.result import Verdict
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


@pytest.mark.slow
@pytest.mark.parametrize(("protocol", "verdict"), [(Refining, Verdict.OK), (NewestLeader, Verdict.VIOLATION)])
def test_what_is_committed_is_a_log_that_only_grows(protocol: type[Quorum], verdict: Verdict) -> None:
    hosts = frozenset(ModelValue(f"n{i}", i) for i in (1, 2, 3))
    given = protocol(hosts=hosts, initial_voters=hosts, late_pre_votes=False, elections=2, pre_votes=3)
    result = check(given, properties=["CommittedLog"], init="Elected", deadlock=False)
    assert (result.verdict, result.complete) == (verdict, True)
    assert result.distinct_states > 1_000

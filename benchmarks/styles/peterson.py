"""Peterson's algorithm for N processes: a process climbs levels, and waits on each while it was the last one to arrive."""
from collections.abc import Iterator

from kraftcheck import *

class At(Symbol):
    IDLE = "idle"
    SAYS = "says"
    WAITS = "waits"
    CRITICAL = "critical"

class Process(Record):
    id: int
    at: At = At.IDLE
    level: int = 0

class Memory(Record):
    last: Map[int, int]

class Peterson(Protocol):
    n: int = constant("N", at_least=2)
    network = None
    def initial(self) -> Iterator[State]:
        yield self.start([Process(i) for i in range(1, self.n + 1)], Memory(Map({l: 1 for l in range(1, self.n)})))
    @projection
    def levels(self, me: Process) -> int:
        return me.level
    @internal
    def climb(self, me: Process) -> Steps:
        if me.at is At.IDLE:
            yield become(me.but(at=At.SAYS, level=1))
    @internal
    def say(self, me: Process, shared: Memory) -> Steps:
        if me.at is At.SAYS:
            yield become(me.but(at=At.WAITS)).put(last=shared.last.put(me.level, me.id))
    @internal(reads=levels)
    def go_on(self, me: Process, shared: Memory, levels: Map[int, int]) -> Steps:
        if me.at is not At.WAITS:
            return
        if shared.last[me.level] != me.id or all(l < me.level for i, l in levels.items() if i != me.id):
            if me.level == self.n - 1:
                yield become(me.but(at=At.CRITICAL))
            else:
                yield become(me.but(at=At.SAYS, level=me.level + 1))
    @internal
    def leave(self, me: Process) -> Steps:
        if me.at is At.CRITICAL:
            yield become(me.but(at=At.IDLE, level=0))
    @invariant
    def mutual_exclusion(self, me: Process, peer: Process) -> bool:
        return not (me.at is At.CRITICAL and peer.at is At.CRITICAL)

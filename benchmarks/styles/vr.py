"""Viewstamped Replication, after "Viewstamped Replication Revisited" (Liskov and Cowling, 2012), without recovery."""
from collections.abc import Iterator

from kraftcheck import *

class Status(Symbol):
    NORMAL = "normal"
    VIEW_CHANGE = "view-change"

class Prepare(Record):
    view: int
    number: int
    value: ModelValue
    commit: int
    dest: int

class PrepareOk(Record):
    view: int
    number: int
    source: int
    dest: int

class StartViewChange(Record):
    view: int
    source: int
    dest: int

class DoViewChange(Record):
    view: int
    log: tuple[ModelValue, ...]
    normal: int
    commit: int
    source: int
    dest: int

class StartView(Record):
    view: int
    log: tuple[ModelValue, ...]
    commit: int
    dest: int

class Replica(Record):
    id: int
    status: Status = Status.NORMAL
    view: int = 0
    normal: int = 0
    log: tuple[ModelValue, ...] = ()
    commit: int = 0
    acked: Map[int, int] = Map()
    changes: frozenset[int] = frozenset()
    logs: frozenset[DoViewChange] = frozenset()

class VR(Protocol):
    n: int = constant("N", at_least=3)
    values: frozenset[ModelValue] = constant("Values")
    max_view: int = constant("MaxView", at_least=0)
    network = MessageSet()
    def initial(self) -> Iterator[State]:
        yield self.start(map(Replica, range(self.n)))
    def primary(self, view: int) -> int:
        return view % self.n
    def others(self, me: Replica) -> list[int]:
        return [r for r in range(self.n) if r != me.id]
    @property
    def most(self) -> int:
        return self.n // 2
    @internal
    def request(self, me: Replica) -> Steps:
        if me.status is Status.NORMAL and self.primary(me.view) == me.id:
            for v in ordered(self.values - set(me.log)):
                log = (*me.log, v)
                yield become(me.but(log=log)).send(*[Prepare(me.view, len(log), v, me.commit, d) for d in self.others(me)])
    @on(Prepare)
    def prepare(self, me: Replica, message: Prepare) -> Steps:
        if me.status is Status.NORMAL and message.view == me.view and message.number == len(me.log) + 1:
            after = me.but(log=(*me.log, message.value), commit=max(me.commit, message.commit))
            yield consume(after).send(PrepareOk(me.view, message.number, me.id, self.primary(me.view)))
    @on(PrepareOk)
    def prepare_ok(self, me: Replica, message: PrepareOk) -> Steps:
        if me.status is not Status.NORMAL or message.view != me.view:
            return
        acked = me.acked.put(message.source, max(message.number, me.acked.get(message.source, 0)))
        commit = me.commit
        for number in range(commit + 1, len(me.log) + 1):
            if sum(a >= number for a in acked.values()) >= self.most:
                commit = number
        yield consume(me.but(acked=acked, commit=commit))
    def changed(self, me: Replica, view: int) -> Replica:
        return me.but(status=Status.VIEW_CHANGE, view=view, acked=Map(), changes=frozenset(), logs=frozenset())
    def announce(self, me: Replica) -> list[StartViewChange]:
        return [StartViewChange(me.view, me.id, d) for d in self.others(me)]
    @internal
    def timeout(self, me: Replica) -> Steps:
        if me.view < self.max_view and not (me.status is Status.NORMAL and self.primary(me.view) == me.id):
            after = self.changed(me, me.view + 1)
            yield become(after).send(*self.announce(after))
    @on(StartViewChange)
    def start_view_change(self, me: Replica, message: StartViewChange) -> Steps:
        if message.view < me.view or (message.view == me.view and me.status is Status.NORMAL):
            return
        after = self.changed(me, message.view) if message.view > me.view else me
        out: list[Record] = self.announce(after) if message.view > me.view else []
        before = len(after.changes)
        after = after.but(changes=after.changes | {message.source})
        if before < self.most <= len(after.changes):
            out.append(DoViewChange(after.view, after.log, after.normal, after.commit, me.id, self.primary(after.view)))
        yield consume(after).send(*out)
    @on(DoViewChange)
    def do_view_change(self, me: Replica, message: DoViewChange) -> Steps:
        if message.view != me.view or me.status is Status.NORMAL:
            return
        logs = me.logs | {message}
        if len(logs) <= self.most:
            yield consume(me.but(logs=logs))
            return
        best = max(logs, key=lambda m: (m.normal, len(m.log), m.log))
        commit = max(m.commit for m in logs)
        after = me.but(status=Status.NORMAL, normal=me.view, log=best.log, commit=commit, changes=frozenset(), logs=frozenset())
        yield consume(after).send(*[StartView(me.view, after.log, commit, d) for d in self.others(me)])
    @on(StartView)
    def start_view(self, me: Replica, message: StartView) -> Steps:
        if message.view < me.view or (message.view == me.view and me.status is Status.NORMAL):
            return
        after = self.changed(me, message.view).but(status=Status.NORMAL, normal=message.view, log=message.log, commit=message.commit)
        step = consume(after)
        yield step.send(PrepareOk(after.view, len(after.log), me.id, self.primary(after.view))) if after.log else step
    @invariant
    def committed_agree(self, me: Replica, peer: Replica) -> bool:
        k = min(me.commit, peer.commit)
        return me.log[:k] == peer.log[:k]

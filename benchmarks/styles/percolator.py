"""Percolator's two-phase commit (Peng and Dabek, 2010): locks and writes in cells, a primary lock, clients that crash."""
from collections.abc import Iterator

from kraftcheck import *

class Phase(Symbol):
    IDLE = "idle"
    PREWRITE = "prewrite"
    COMMIT = "commit"
    FINISH = "finish"
    DONE = "done"
    ABORTED = "aborted"
    CRASHED = "crashed"

class Client(Record):
    id: ModelValue
    phase: Phase = Phase.IDLE
    start: int = 0
    commit: int = 0
    left: frozenset[ModelValue] = frozenset()

class Lock(Record):
    start: int
    primary: ModelValue

class Write(Record):
    commit: int
    start: int

class Cell(Record):
    lock: Lock | None = None
    data: frozenset[int] = frozenset()
    writes: frozenset[Write] = frozenset()

class Table(Record):
    cells: Map[ModelValue, Cell]
    clock: int = 0

class Percolator(Protocol):
    clients: frozenset[ModelValue] = constant("Clients")
    keys: frozenset[ModelValue] = constant("Keys")
    crashes: int = bound("MaxCrashes", default=1)
    network = None
    def initial(self) -> Iterator[State]:
        yield self.start(map(Client, ordered(self.clients)), Table(Map({k: Cell() for k in self.keys})))
    @property
    def primary(self) -> ModelValue:
        return ordered(self.keys)[0]
    @internal
    def begin(self, me: Client, shared: Table) -> Steps:
        if me.phase is Phase.IDLE:
            now = shared.clock + 1
            yield become(me.but(phase=Phase.PREWRITE, start=now, left=self.keys)).put(clock=now)
    @internal
    def prewrite(self, me: Client, shared: Table) -> Steps:
        if me.phase is not Phase.PREWRITE:
            return
        for key in [self.primary] if self.primary in me.left else ordered(me.left):
            cell = shared.cells[key]
            if any(w.commit >= me.start for w in cell.writes):
                yield become(me.but(phase=Phase.ABORTED, left=frozenset()))
            elif cell.lock is None:
                cell = cell.but(lock=Lock(me.start, self.primary), data=cell.data | {me.start})
                yield become(me.but(left=me.left - {key})).put(cells=shared.cells.put(key, cell))
    @internal
    def get_commit_time(self, me: Client, shared: Table) -> Steps:
        if me.phase is Phase.PREWRITE and not me.left:
            now = shared.clock + 1
            yield become(me.but(phase=Phase.COMMIT, commit=now)).put(clock=now)
    def written(self, cell: Cell, start: int, commit: int) -> Cell:
        return cell.but(lock=None, writes=cell.writes | {Write(commit, start)})
    @internal
    def commit_primary(self, me: Client, shared: Table) -> Steps:
        if me.phase is not Phase.COMMIT:
            return
        cell = shared.cells[self.primary]
        if cell.lock is None or cell.lock.start != me.start:
            yield become(me.but(phase=Phase.ABORTED))
        else:
            cells = shared.cells.put(self.primary, self.written(cell, me.start, me.commit))
            yield become(me.but(phase=Phase.FINISH, left=self.keys - {self.primary})).put(cells=cells)
    @internal
    def commit_secondary(self, me: Client, shared: Table) -> Steps:
        if me.phase is not Phase.FINISH:
            return
        if not me.left:
            yield become(me.but(phase=Phase.DONE))
        for key in ordered(me.left):
            cell = shared.cells[key]
            after = become(me.but(left=me.left - {key}))
            if cell.lock is not None and cell.lock.start == me.start:
                after = after.put(cells=shared.cells.put(key, self.written(cell, me.start, me.commit)))
            yield after
    @internal
    def crash(self, me: Client) -> Steps:
        if me.phase in (Phase.PREWRITE, Phase.COMMIT, Phase.FINISH):
            yield become(me.but(phase=Phase.CRASHED, left=frozenset())).spend("crashes")
    @environment
    def clean_up(self, shared: Table) -> Steps:
        """A reader finds a lock: it rolls the transaction forward if its primary has committed, and back otherwise."""
        for key, cell in shared.cells.items():
            if cell.lock is None:
                continue
            start, first = cell.lock.start, shared.cells[cell.lock.primary]
            done = [w for w in first.writes if w.start == start]
            if done:
                yield Step().put(cells=shared.cells.put(key, self.written(cell, start, done[0].commit)))
            elif first.lock is not None and first.lock.start == start:
                yield Step().put(cells=shared.cells.put(cell.lock.primary, first.but(lock=None, data=first.data - {start})))
            else:
                yield Step().put(cells=shared.cells.put(key, cell.but(lock=None, data=cell.data - {start})))
    @invariant
    def writes_have_data(self, shared: Table) -> bool:
        return all(w.start in c.data for c in shared.cells.values() for w in c.writes)
    @invariant
    def all_or_nothing(self, state: State) -> bool:
        cells = state.shared.cells
        return all(
            any(w.start == c.start for w in cells[k].writes)
            for c in state.replicas.values()
            if c.phase is Phase.DONE
            for k in self.keys
        )
    @invariant
    def no_lost_update(self, shared: Table) -> bool:
        return not any(
            a != b and a.start < b.commit and b.start < a.commit
            for c in shared.cells.values() for a in c.writes for b in c.writes
        )

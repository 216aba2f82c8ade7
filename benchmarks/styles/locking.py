"""Strict two-phase locking with a waits-for graph; a victim of a deadlock aborts, and may try again."""
from kraftcheck import *


class Txn(Record):
    pc: int = 0
    status: str = "running"           # running, waiting, committed, aborted
    buffer: Map[str, int] = Map()     # key -> the value it writes


class Lock(Record):
    mode: str = "free"                # free, shared, exclusive
    holders: frozenset[int] = frozenset()
    queue: tuple[tuple[int, str], ...] = ()


class Database(Record):
    txns: Map[int, Txn]
    locks: Map[str, Lock]
    store: Map[str, int]
    history: tuple[tuple[str, int, str], ...] = ()     # ("r" or "w", transaction, key)


PROGRAMS = {
    1: (("r", "x"), ("w", "y"), ("r", "z")),
    2: (("r", "y"), ("w", "x"), ("w", "z")),
    3: (("w", "x"), ("w", "z"), ("r", "y")),
    4: (("r", "z"), ("r", "x")),
    5: (("w", "y"), ("r", "x")),
}


class Locking(Protocol):
    """Strict two-phase locking with a waits-for graph; a victim of a deadlock aborts and may retry."""

    number: int = constant("Txns")
    retries: int = bound("MaxRetries")
    network = None

    def initial(self):
        ids = range(1, self.number + 1)
        keys = {key for i in ids for _, key in PROGRAMS[i]}
        yield self.start([], Database(
            txns=Map({i: Txn() for i in ids}),
            locks=Map({k: Lock() for k in keys}),
            store=Map({k: 0 for k in keys}),
        ))

    def compatible(self, lock, txn, mode):
        if lock.mode == "free" or lock.holders == {txn}:
            return True
        return lock.mode == "shared" and mode == "shared"

    def waits_for(self, db):
        edges = {}
        for lock in db.locks.values():
            for place, (waiter, _) in enumerate(lock.queue):
                ahead = {other for other, _ in lock.queue[:place]}
                edges.setdefault(waiter, set()).update((lock.holders | ahead) - {waiter})
        return edges

    def in_cycle(self, db, txn):
        edges = self.waits_for(db)
        seen, stack = set(), list(edges.get(txn, ()))
        while stack:
            node = stack.pop()
            if node == txn:
                return True
            if node not in seen:
                seen.add(node)
                stack += edges.get(node, ())
        return False

    def perform(self, db, i, op, key):
        """The step of a transaction that has its lock."""
        me = db.txns[i]
        if op == "w":
            me = me.but(buffer=me.buffer.put(key, i))
        return db.but(
            txns=db.txns.put(i, me.but(pc=me.pc + 1, status="running")),
            history=(*db.history, (op, i, key)),
        )

    def release(self, db, i):
        """Release all locks of a transaction and wake the first in each queue that can run."""
        for key, lock in db.locks.items():
            holders = lock.holders - {i}
            queue = tuple(entry for entry in lock.queue if entry[0] != i)
            mode = lock.mode if holders else "free"
            db = db.but(locks=db.locks.put(key, Lock(mode, holders, queue)))
        return db

    def to_step(self, db):
        return Step().put(txns=db.txns, locks=db.locks, store=db.store, history=db.history)

    @environment
    def request(self, shared: Database) -> Steps:
        for i, txn in shared.txns.items():
            if txn.status != "running" or txn.pc >= len(PROGRAMS[i]):
                continue
            op, key = PROGRAMS[i][txn.pc]
            mode = "shared" if op == "r" else "exclusive"
            lock = shared.locks[key]
            if self.compatible(lock, i, mode) and not lock.queue:
                taken = lock.but(mode=mode, holders=lock.holders | {i})
                yield self.to_step(self.perform(shared.but(locks=shared.locks.put(key, taken)), i, op, key))
            else:
                yield Step().put(
                    locks=shared.locks.put(key, lock.but(queue=(*lock.queue, (i, mode)))),
                    txns=shared.txns.put(i, txn.but(status="waiting")),
                )

    @environment
    def grant(self, shared: Database) -> Steps:
        for key, lock in shared.locks.items():
            if lock.queue:
                (i, mode), rest = lock.queue[0], lock.queue[1:]
                if self.compatible(lock, i, mode):
                    taken = Lock(mode, lock.holders | {i}, rest)
                    op = "r" if mode == "shared" else "w"
                    yield self.to_step(self.perform(shared.but(locks=shared.locks.put(key, taken)), i, op, key))

    @environment
    def commit(self, shared: Database) -> Steps:
        for i, txn in shared.txns.items():
            if txn.status == "running" and txn.pc == len(PROGRAMS[i]):
                db = shared.but(
                    txns=shared.txns.put(i, txn.but(status="committed", buffer=Map())),
                    store=shared.store | txn.buffer,
                )
                yield self.to_step(self.release(db, i))

    @environment
    def abort(self, shared: Database) -> Steps:
        for i, txn in shared.txns.items():
            if txn.status == "waiting" and self.in_cycle(shared, i):
                db = shared.but(
                    txns=shared.txns.put(i, Txn(status="aborted")),
                    history=tuple(entry for entry in shared.history if entry[1] != i),
                )
                yield self.to_step(self.release(db, i))

    @environment
    def retry(self, shared: Database) -> Steps:
        for i, txn in shared.txns.items():
            if txn.status == "aborted":
                yield Step().put(txns=shared.txns.put(i, Txn())).spend("retries")

    @invariant
    def serializable(self, shared: Database) -> bool:
        """The conflicts of the committed transactions have no cycle."""
        done = {i for i, txn in shared.txns.items() if txn.status == "committed"}
        h = [entry for entry in shared.history if entry[1] in done]
        edges = {
            (a[1], b[1])
            for k, a in enumerate(h) for b in h[k + 1:]
            if a[2] == b[2] and a[1] != b[1] and "w" in (a[0], b[0])
        }
        while True:
            more = edges | {(a, d) for a, b in edges for c, d in edges if b == c}
            if more == edges:
                return all(a != b for a, b in edges)
            edges = more

    @invariant
    def locks_exclude(self, shared: Database) -> bool:
        return all(len(lock.holders) <= 1 for lock in shared.locks.values() if lock.mode == "exclusive")

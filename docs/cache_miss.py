"""Follows one cache miss of the kernel, with its numbers: the block of `docs/kernel.md`, which a test compares."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kraftcheck import MessageSet, Protocol, Record, State, Steps, become, consume, internal, on
from kraftcheck.explorer.result import SearchRequest
from kraftcheck.explorer.tables.expander import Expander
from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.arrays import WorkerArrays
from kraftcheck.explorer.tables.kernel.expand import expand_batch
from kraftcheck.explorer.tables.kernel.maps import grouped_key


class Node(Record):
    """A node of the ring."""

    id: int
    has_token: bool


class Token(Record):
    """The token on its way."""

    dest: int


class Shared(Record):
    """Nothing is shared."""


class Ring(Protocol):
    """Two nodes and one token."""

    network = MessageSet()

    def initial(self) -> Iterator[State]:
        yield self.start([Node(1, True), Node(2, False)], Shared())

    @internal
    def pass_on(self, me: Node) -> Steps:
        if me.has_token:
            yield become(me.but(has_token=False)).send(Token(dest=3 - me.id))

    @on(Token)
    def take(self, me: Node, token: Token) -> Steps:
        yield consume(me.but(has_token=True))


def named(prefix: str, number: int) -> str:
    """Return the name that `codes` has for a kind."""
    return next(name for name, value in vars(codes).items() if name.startswith(prefix) and value == number)


def main() -> None:
    """Print what becomes of the initial state."""
    expander = Expander.of(Ring(), SearchRequest(), workers=1)
    learner, worker = expander.learner, expander.pool[0]
    tables, answer, turn = learner.interner.tables, learner.answers.answer, 0
    rows = expander.encode(learner.protocol.initial())
    print("row before       ", rows[0].tolist(), "control row 0 is", tables.rows[0, :2].tolist())

    def answered(of: WorkerArrays) -> None:
        for kind, *about in tables.asked[: tables.meta[codes.META_ASKED]].tolist():
            print("  asked of Python", named("ASK_", kind), about[:2])
        answer(of)

    learner.answers.answer = answered
    while turn == 0 or worker.stats[codes.STATS_RETRY]:
        turn += 1
        expander.fit_packing()
        worker.begin(rows, 1)
        worker.successors.fit(64, expander.width, expander.packing.words)
        expand_batch(tables, worker, worker.successors, expander.packing, np.arange(1), False, None)
        for miss in worker.misses[: worker.stats[codes.STATS_MISSES]].tolist():
            print(f"cache miss, turn {turn}", named("MISS_", miss[0]), miss[1:4])
        learner.resolve([worker])
    start, count = tables.row_info[0, [codes.ROW_START, codes.ROW_COUNT]].tolist()
    for outcome, target, flags in tables.row_items[start : start + count].tolist():
        action, delta, _, first, sends, *_ = tables.outcomes[outcome].tolist()
        column, value, _ = tables.assignments[tables.deltas[delta, 0]].tolist()
        print(
            f"a step            {learner.action_names[action]}: outcome {outcome}, control row {target}, flags {flags}"
        )
        print(f"  its delta       column {column} becomes {value}")
        for operation in tables.outcome_operations[first : first + sends].tolist():
            slot, key = tables.operations[operation, 0], grouped_key.py_func(0, operation)
            found = next(inbox for held, inbox in tables.operated.tolist() if held == key)
            print(f"  its operation   {operation}, of slot {slot}: inbox content 0 becomes {found}")
    after = worker.successors.all_rows()[0]
    print("row after        ", after.tolist(), f"control row {after[0]} is", tables.rows[after[0], :2].tolist())
    words, packing = expander.packed(after[None], expander.packing)[0], expander.packing
    print("packed           ", f"{words[0, 0]:0{packing.bits}b}, in fields of {packing.width.tolist()} bits")


if __name__ == "__main__":
    main()

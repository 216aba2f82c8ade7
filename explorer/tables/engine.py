"""The table engine's searches."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.growth import CallGrowth
from kraftcheck.explorer.result import (
    DEADLOCK,
    INTERRUPTED,
    Interrupted,
    Options,
    Progress,
    Result,
    Search,
    TraceStep,
    Verdict,
    Violation,
)
from kraftcheck.explorer.tables.kernel.expand import expand_batch
from kraftcheck.explorer.tables.kernel.hash_set import insert_rows
from kraftcheck.explorer.tables.kernel.layout import (
    M_GROW,
    M_MISSES,
    M_ROWS,
    MANY_SUCCESSORS,
    S_CODE,
    S_DONE,
    S_EVENTS,
    S_NEEDS,
    S_RETRY,
    STATS_SIZE,
)
from kraftcheck.explorer.tables.kernel.packing import pack_all
from kraftcheck.explorer.tables.kernel.resolve import resolve
from kraftcheck.explorer.tables.kernel.symmetry import identify_all
from kraftcheck.explorer.tables.learning.learner import Learner
from kraftcheck.explorer.tables.python_checks import SlowChecks, split
from kraftcheck.explorer.tables.states.visited import PARTITIONS, Packing, Partition, packing, repacked
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.language.starts import initial_states

Rows = NDArray[np.int32]

BATCH = 1 << 15  # states that one worker expands between two looks at the clock
SERIAL = 1 << 10  # batches up to this size are not worth a second thread
SUCCESSORS = 1 << 10  # of one state, at first
ROOM = 12  # successors a state for which the buffers have room, on the average
REST_BITS = 9  # of a packed state that the smallest partition can express by place


def default_workers() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def explore(protocol: Protocol, options: Options) -> Result:
    """Search the reachable states of a protocol with the table engine.

    Parameters
    ----------
    protocol
        The protocol, with its constants.
    options
        What to check and where to stop. By default a breadth-first search has a thread for every processor;
        depth-first searches have one.

    Returns
    -------
    Result
        As the reference engine finds it.

    Raises
    ------
    Interrupted
        Where the user interrupts it; the exception has what was found until then.
    InputError
        For options that the order of search does not allow, or a checkpoint that it cannot go on from.
    ProtocolError
        Where the protocol breaks the language's contract.
    """
    if options.search is Search.BFS:
        from kraftcheck.explorer.tables.searches.breadth_first import BreadthFirst

        return BreadthFirst(protocol, options, options.workers or default_workers()).run()
    for name in ("checkpoint", "resume", "memory"):
        if getattr(options, name) is not None:
            raise InputError(f"--{name}: only a breadth-first search can do this; expected --search {Search.BFS}")
    from kraftcheck.explorer.tables.searches.depth_first import SEARCHES

    return SEARCHES[options.search](protocol, options).run()


class Stop(Exception):  # noqa: N818 - a way out of the search, not an error
    """The search is over before it is complete."""


class Worker:
    """What one thread needs to itself."""

    def __init__(self, actions: int) -> None:
        self.fired = np.zeros(actions, np.int64)
        self.stats = np.zeros(STATS_SIZE, np.int64)
        self.retry = np.zeros(BATCH, np.int64)
        self.events = np.zeros((1 << 12, 3), np.int64)
        self.needs = np.zeros((1 << 14, 6), np.int64)
        self.succ = np.zeros((SUCCESSORS, 0), np.int32)
        self.out = np.zeros((PARTITIONS, 0, 0), np.int32)
        self.words = np.zeros((PARTITIONS, 0, 0), np.uint64)  # of each row of `out`, packed
        self.out_n = np.zeros(PARTITIONS, np.int64)

    def fit(self, states: int, width: int, copies: int, stored: int) -> None:
        """Make the buffers fit a batch of this many states of this width; two copies where states are symmetric.

        `stored` is how many words a packed state takes.
        """
        room = max(len(self.succ) + 1, states * ROOM // PARTITIONS + 64, self.out.shape[1])
        if self.out.shape[1:] != (room, width * copies):
            larger = np.zeros((PARTITIONS, room, width * copies), np.int32)
            kept, old = self.out_n.max(), self.out.shape[2] // copies
            for copy in range(copies):
                larger[:, :kept, copy * width : copy * width + old] = self.out[:, :kept, copy * old : (copy + 1) * old]
            self.out = larger
        if self.words.shape[1:] != (room, stored):
            packed = np.zeros((PARTITIONS, room, stored), np.uint64)
            if self.words.shape[2] == stored:
                packed[:, : self.words.shape[1]] = self.words
            self.words = packed
        if self.succ.shape[1] != width + 2:
            self.succ = np.zeros((len(self.succ), width + 2), np.int32)
        if len(self.retry) < states:
            self.retry = np.zeros(states, np.int64)


class TableSearch:
    """What every search shares: the learner, the visited set, and one expansion step."""

    def __init__(self, protocol: Protocol, options: Options, workers: int) -> None:
        self.protocol = protocol
        self.options = options
        self.workers = workers
        parts = split(options)
        self.learner = Learner(
            protocol,
            parts.properties,
            parts.constraints,
            tuple(p for p in options.properties if p.over_steps),
            options.action_constraints,
            parts.about_messages,
            options.view,
            options.symmetry,
            options.check_actions,
        )
        self.semantics = Semantics(protocol)
        self.pool = [Worker(len(self.learner.action_names)) for _ in range(workers)]
        self.threads = ThreadPoolExecutor(workers) if workers > 1 else None
        self.result = Result(actions=dict.fromkeys(self.learner.action_names, 0))
        self.partitions = [Partition(1) for _ in range(PARTITIONS)]
        self.packing: Packing = packing([1], REST_BITS)
        self.copies = 2 if len(self.learner.group) > 1 else 1  # a state, and beside it its canonical image
        self.violated: set[str] = set()
        self.slow = SlowChecks(self, parts) if parts.slow or parts.slow_constraints else None
        self.growth = CallGrowth()
        self.began = time.monotonic()

    # The packing

    def next_packing(self) -> Packing | None:
        """Return another packing where an id no longer fits its field."""
        learner = self.learner
        counts = [int(learner.meta[M_ROWS]), *learner.a["slot_contents"][: learner.width - 1].tolist()]
        needed = [max(1, int(count).bit_length()) for count in counts]
        width = self.packing.width
        if len(width) == len(needed) and all(n <= w for n, w in zip(needed, width, strict=True)):
            return None
        roomy = packing([n + 1 for n in needed], REST_BITS)
        tight = packing(needed, REST_BITS)
        return roomy if roomy.words == tight.words else tight

    def fit_packing(self) -> None:
        """Repack the visited set where an id no longer fits its field."""
        new = self.next_packing()
        if new is None:
            return
        for worker in self.pool:
            self._place(worker, new)
        self.partitions = repacked(self.partitions, self.packing, new)
        self.packing = new

    def _place(self, worker: Worker, layout: Packing) -> None:
        """Sort the rows of a worker's buffers by the partitions that own them when packed in this way."""
        if worker.out_n.any():
            rows = np.concatenate([worker.out[p, : worker.out_n[p]] for p in range(PARTITIONS)])
            self._fill(worker, self._stretched(rows), layout)

    def _stretched(self, rows: Rows) -> Rows:
        """Widen rows that hold a state and, under symmetry, its image."""
        halves = np.split(rows, self.copies, axis=1)
        return np.concatenate([self.widened(half) for half in halves], axis=1)

    def _fill(self, worker: Worker, rows: Rows, layout: Packing) -> None:
        """Put rows into a worker's buffers, each where its partition is."""
        parts, words = np.zeros(len(rows), np.int64), np.zeros((len(rows), layout.words + 1), np.uint64)
        column = rows.shape[1] - self.learner.width
        pack_all(self.learner.tables, layout.position, layout.width, rows, column, words, parts)
        counts = np.bincount(parts, minlength=PARTITIONS)
        room = max(worker.out.shape[1], int(counts.max()))
        if worker.out.shape[1:] != (room, rows.shape[1]):
            worker.out = np.zeros((PARTITIONS, room, rows.shape[1]), np.int32)
        if worker.words.shape[1:] != (room, words.shape[1]):
            worker.words = np.zeros((PARTITIONS, room, words.shape[1]), np.uint64)
        order = np.argsort(parts, kind="stable")
        ends = np.concatenate([[0], np.cumsum(counts)])
        for p in range(PARTITIONS):
            mine = order[ends[p] : ends[p + 1]]
            worker.out[p, : counts[p]], worker.words[p, : counts[p]] = rows[mine], words[mine]
        worker.out_n[:] = counts

    def identified(self, rows: Rows) -> Rows:
        """Return states with what identifies them beside them, where that is not they themselves."""
        if self.copies == 1:
            return rows
        worker = self.pool[0]
        result = np.zeros((len(rows), 2 * rows.shape[1]), np.int32)
        while True:
            worker.stats[S_NEEDS] = 0
            if not identify_all(self.learner.tables, rows, result, worker.needs, worker.stats):
                return result
            self.learn(rows, [worker])

    def widened(self, rows: Rows) -> Rows:
        """Return rows with an empty inbox for every slot that they do not know."""
        missing = self.learner.width - rows.shape[1]
        return np.pad(rows, ((0, 0), (0, missing))) if missing else rows

    # One batch

    def expand(self, rows: Rows, which: NDArray[np.int64]) -> tuple[Rows, NDArray[np.int64]]:
        """Expand rows[which] into the workers' buffers as far as there is room, learning what is missing.

        Returns the rows (wider where a replica appeared) and those of `which` that are still to be expanded.
        """
        rest: list[NDArray[np.int64]] = []
        while len(which) and not rest:
            rows = self.widened(rows)
            parts = self._shares(which)
            workers = self.pool[: len(parts)]
            self.fit_packing()
            for worker, part in zip(workers, parts, strict=True):
                worker.fit(len(part), self.learner.width, self.copies, self.packing.words + 1)
                worker.stats[S_RETRY] = worker.stats[S_NEEDS] = 0
            self._together(partial(self._run, rows, parts), len(parts))
            retry = []
            for worker, part in zip(workers, parts, strict=True):
                retry.append(worker.retry[: worker.stats[S_RETRY]].copy())
                left = part[worker.stats[S_DONE] :] if worker.stats[S_CODE] else part[:0]
                if worker.stats[S_CODE] == MANY_SUCCESSORS:
                    worker.succ = np.zeros((2 * len(worker.succ), worker.succ.shape[1]), np.int32)
                if len(left):
                    rest.append(left)
            self.learn(rows, workers)
            which = np.concatenate(retry)
        return rows, np.concatenate([which, *rest])

    def _shares(self, which: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        if len(which) <= SERIAL or self.workers == 1:
            return [which]
        return np.array_split(which, self.workers)

    def _run(self, rows: Rows, parts: list[NDArray[np.int64]], number: int) -> None:
        worker = self.pool[number]
        expand_batch(
            self.learner.tables, rows, parts[number], worker.succ, self.packing.position, self.packing.width,
            worker.out, worker.words, worker.out_n, worker.fired, worker.retry, worker.events, worker.needs,
            worker.stats, self.options.deadlock,
        )  # fmt: skip

    def learn(self, rows: Rows, workers: list[Worker]) -> None:
        """Make what the workers found missing, asking Python where need be."""
        learner = self.learner
        for worker in workers:
            done, count = 0, int(worker.stats[S_NEEDS])
            while done < count:
                done = int(resolve(learner.tables, worker.needs, done, count))
                if learner.meta[M_MISSES] and (done < count or worker is workers[-1]):
                    learner.answer(rows)
                if learner.meta[M_GROW]:
                    learner.grow()
        if learner.meta[M_MISSES]:
            learner.answer(rows)

    def _together(self, work: Callable[[int], None], count: int) -> None:
        if count == 1 or self.threads is None:
            for w in range(count):
                work(w)
            return
        list(self.threads.map(work, range(count)))

    def collect(self) -> list[Rows]:
        """Insert the workers' successors into the visited set; return those that are new."""
        self.fit_packing()
        width = self.learner.width
        total = np.sum([worker.out_n for worker in self.pool], axis=0)
        found: list[Rows] = []
        owners = self.workers if int(total.sum()) > SERIAL else 1

        def own(w: int) -> None:
            mine = range(w, PARTITIONS, owners)
            new = np.empty((int(total[w::owners].sum()), width), np.int32)
            new_n = 0
            for p in mine:
                for worker in self.pool:
                    n = int(worker.out_n[p])
                    if n:
                        new_n = self._insert(self.partitions[p], worker.out[p], worker.words[p], n, new, new_n)
            if new_n:
                found.append(new[:new_n])

        self._together(own, owners)
        for worker in self.pool:
            worker.out_n[:] = 0
        return found

    @staticmethod
    def _insert(
        partition: Partition, rows: Rows, words: NDArray[np.uint64], n: int, new: Rows, new_n: int
    ) -> int:
        done = 0
        while done < n:
            done, partition.count, new_n, _ = insert_rows(
                rows, words, done, n, new.shape[1], partition.count, partition.keys, partition.places, new, new_n
            )
            if done < n:
                partition.grow()
        return new_n

    @property
    def distinct(self) -> int:
        """States in the visited set that are within the constraints."""
        return sum(partition.count for partition in self.partitions) - self.beyond

    @property
    def beyond(self) -> int:
        """States in the visited set that a slow constraint excludes."""
        return self.slow.beyond if self.slow is not None else 0

    def tally(self) -> None:
        """Bring the result's counts up to date."""
        result = self.result
        fired = np.sum([worker.fired for worker in self.pool], axis=0)
        result.actions = dict(zip(self.learner.action_names, fired.tolist(), strict=True))
        result.generated_states = self.initial_count + int(fired.sum())
        maximum = self.options.max_states  # the last batch may find more; they do not count
        result.distinct_states = self.distinct if maximum is None else min(self.distinct, maximum)
        result.handler_calls = dict(self.learner.handler_calls)
        self.growth.sample(result.distinct_states, result.handler_calls)
        result.seconds = time.monotonic() - self.began

    initial_count = 0

    def report(self, frontier: int) -> None:
        """Tell how far the search has got, and end it at the time limit."""
        limit = self.options.time_limit
        if limit is not None and time.monotonic() - self.began > limit:
            self.stop_at("time_limit")
        self.tally()
        if self.options.report is not None:
            result = self.result
            self.options.report(
                Progress(
                    result.distinct_states, result.generated_states, result.depth or 0, frontier, result.seconds
                )
            )

    def batch_size(self) -> int:
        """Return how many states to expand at once: fewer and fewer as a limit on their number comes near."""
        most = BATCH * self.workers
        if self.options.max_states is None:
            return most
        return max(1, min(most, (self.options.max_states - self.distinct) // 8))

    def stop_at_max_states(self) -> None:
        """End the search where there are as many states as it may find."""
        if self.options.max_states is not None and self.distinct >= self.options.max_states:
            self.stop_at("max_states")

    def stop_at(self, limit: str) -> None:
        """End the search at a limit."""
        self.result.complete = False
        self.result.limit = limit
        raise Stop

    def begin(self) -> Rows:
        """Return the initial states within the constraints; the search checks the properties once it counts them."""
        self.starts = starts = initial_states(self.semantics, self.options.init)
        self.initial_count = len(starts)
        encoded = [self.learner.encode_state(state) for state in starts]
        rows = [row + [0] * (self.learner.width - len(row)) for row in encoded]
        within = [all(self.semantics.holds(c, state) for c in self.options.constraints) for state in starts]
        first = np.array([row for row, kept in zip(rows, within, strict=True) if kept], np.int32)
        return first.reshape(-1, self.learner.width)

    def check_starts(self) -> None:
        """Check the properties on the initial states."""
        for state in self.starts:
            for prop in self.options.properties:
                if not prop.over_steps and not self.semantics.holds(prop, state):
                    self.violation(prop.name, (TraceStep(state),))

    def _events(self, rows: Rows) -> None:
        """Turn what the kernel noted into violations, in the order of the states."""
        noted: list[tuple[int, ...]] = []
        for worker in self.pool:
            noted += map(tuple, worker.events[: worker.stats[S_EVENTS]].tolist())
            worker.stats[S_EVENTS] = 0
        for index, kind, mask in sorted(noted):
            self._event(rows, index, kind, mask)

    def _event(self, rows: Rows, index: int, kind: int, mask: int) -> None:
        trace = self.trace_to(rows, index)
        if kind == 0:
            self.violation(DEADLOCK, trace)
            return
        targets = list(self.semantics.transitions(trace[-1].state))
        properties = self.learner.step_judged if kind == 2 else self.learner.in_order
        for bit, prop in enumerate(properties):
            if not mask >> bit & 1:
                continue
            for transition in targets:
                holds = (
                    self.semantics.holds_over(prop, trace[-1].state, transition.target)
                    if kind == 2
                    else self.semantics.holds(prop, transition.target)
                )
                if not holds:
                    step = TraceStep(transition.target, transition.action, transition.actor, transition.message)
                    self.violation(prop.name, (*trace, step))
                    break
            else:
                raise AssertionError(f"the tables say that {prop.name} is violated, and no successor shows it")

    def violation(self, name: str, trace: tuple[TraceStep, ...]) -> None:
        """Note that a property is violated, unless it is known; end the search unless it goes on."""
        if name in self.violated:
            return
        self.violated.add(name)
        self.result.violations.append(Violation(name, trace))
        if not self.options.keep_going:
            raise Stop

    def trace_to(self, rows: Rows, index: int) -> tuple[TraceStep, ...]:
        """Return a behaviour to a state that is being expanded."""
        raise AssertionError("every search says how its states were reached")

    def behaviour(self, rows: list[Any]) -> tuple[TraceStep, ...]:
        """Return the behaviour through states, given as rows: the reference semantics walks it again."""
        chain = [self.learner.decode_state(row) for row in rows]
        steps = [TraceStep(chain[0])]
        for source, target in pairwise(chain):
            step = next(t for t in self.semantics.transitions(source) if t.target == target)
            steps.append(TraceStep(target, step.action, step.actor, step.message))
        return tuple(steps)

    def run(self) -> Result:
        """Search, and return what was found.

        Raises
        ------
        Interrupted
            Where the user interrupts it; the exception has what was found until then.
        """
        try:
            self.search()
        except Stop:
            pass
        except KeyboardInterrupt:
            self.result.complete, self.result.limit = False, INTERRUPTED
            raise Interrupted(self.conclude()) from None
        if self.learner.purity is not None:
            self.learner.purity.call_again()
        return self.conclude()

    def search(self) -> None:
        """Search until the end; `Stop` leads out before."""
        raise AssertionError("every search says how it goes")

    def depth(self) -> int | None:
        """Return the deepest level of any state found; None where states are not found by level."""
        return None

    def conclude(self) -> Result:
        """Return the result of a search that is over."""
        result = self.result
        self.tally()
        result.depth = self.depth()
        result.workers = self.workers
        if self.slow is not None:
            result.notes += self.slow.notes()
        result.notes += self.growth.notes(result.distinct_states, result.handler_calls)
        if result.violations:
            only = {violation.property for violation in result.violations} == {DEADLOCK}
            result.verdict = Verdict.DEADLOCK if only else Verdict.VIOLATION
            result.complete = result.complete and self.options.keep_going
        elif not result.complete:
            result.verdict = Verdict.INCOMPLETE
        if self.threads is not None:
            self.threads.shutdown()
        return result


__all__ = ["TableSearch", "explore"]

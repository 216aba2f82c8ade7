"""Random simulation over the tables: many walks from the initial states, each by chance.

Walk `i` depends on the seed and on `i` alone: its choices are drawn from a hash of both and of the step's number, among
successors in an order that does not depend on what was learned before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.result import DEADLOCK, Options, Result, TraceStep
from kraftcheck.explorer.tables.engine import Rows, Stop, TableSearch, default_workers
from kraftcheck.explorer.tables.kernel.layout import MANY_SUCCESSORS, S_CODE, S_NEEDS
from kraftcheck.explorer.tables.kernel.random_walk import GOING, STATE_BITS, STEP_BITS, STUCK, draw_seeds, walk_on
from kraftcheck.explorer.tables.learning.fingerprints import StableNames
from kraftcheck.explorer.tables.states.visited import Partition
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.protocol import Protocol

STATES_AT_ONCE = 1 << 20  # states along the walks that are made together
WALKS_AT_ONCE = 1 << 10
MOST_TRIES = 200  # of a walk that ends too early
MOST_DEPTH = 1_000_000  # states along a walk; each is kept until the walk ends
STEPS_A_TURN = 1 << 17  # steps that one worker makes between two looks at the clock

Walk = tuple[TraceStep, ...]


@dataclass(frozen=True)
class Plan:
    """Which walks to make.

    Attributes
    ----------
    runs
        How many.
    depth
        The most states along one.
    seed
        What the choices are drawn from.
    first
        The number of the first.
    least
        The fewest states along one: a walk that ends before is made again with other choices, which follow from the
        seed, its number and how often it was made. One that shows a violation stays as it is.
    """

    runs: int
    depth: int = 100
    seed: int = 0
    first: int = 0
    least: int = 1


def simulate(
    protocol: Protocol, options: Options, plan: Plan, keep: Callable[[int, Walk], None] | None = None
) -> Result:
    """Walk at random through the states of a protocol, each enabled successor being as likely as any other.

    Parameters
    ----------
    protocol
        The protocol, with its constants.
    options
        What to check on the way; its search and its limit of depth make no difference.
    plan
        Which walks to make.
    keep
        Called with the number and the states of each walk.

    Returns
    -------
    Result
        `runs` walks were made; `generated_states` are the states along them, `actions` say how often each was taken.
        It is never complete.

    Raises
    ------
    Interrupted
        Where the user interrupts it; the exception has what was found until then.
    InputError
        For walks that are too long, or end too early again and again; or where the protocol breaks the language's
        contract.
    """
    check_plan(plan)
    return RandomWalks(protocol, options, plan, keep).run()


def check_plan(plan: Plan) -> None:
    """Raise InputError for walks that cannot be made."""
    if plan.depth > MOST_DEPTH:
        raise InputError(f"expected at most {MOST_DEPTH:,} states along a walk, found {plan.depth:,}")
    if plan.least > plan.depth:
        raise InputError(f"expected at most {plan.depth:,} states for the shortest walk, found {plan.least:,}")


class Walks:
    """Walks that are made together.

    Parameters
    ----------
    starts
        The row of the first state of each.
    seeds
        What the choices of each are drawn from.
    depth
        The most states along each.
    """

    def __init__(self, starts: Rows, seeds: NDArray[np.uint64], depth: int) -> None:
        count, width = starts.shape
        self.depth = depth
        self.seeds = seeds
        self.path = np.zeros((count * depth, width), np.int32)
        self.path[::depth] = starts
        self.taken = np.full((count, depth), -1, np.int32)
        self.length = np.ones(count, np.int64)
        self.status = np.zeros(count, np.int64)
        self.refused = np.zeros(count, np.int64)
        self.tries = np.ones(count, np.int64)
        self.broken = np.full((count, STATE_BITS + STEP_BITS), -1, np.int32)

    def again(self, w: int, start: Any, seed: Any) -> None:
        """Begin a walk anew."""
        self.path[w * self.depth] = start
        self.taken[w], self.broken[w] = -1, -1
        self.seeds[w], self.length[w], self.status[w], self.refused[w] = seed, 1, GOING, 0
        self.tries[w] += 1

    def rows(self, w: int, length: int) -> Rows:
        """Return the first states of a walk."""
        return self.path[w * self.depth : w * self.depth + length]


class RandomWalks(TableSearch):
    """Random walks, many at a time.

    Parameters
    ----------
    protocol, options, plan, keep
        See `simulate`.
    """

    def __init__(
        self, protocol: Protocol, options: Options, plan: Plan, keep: Callable[[int, Walk], None] | None = None
    ) -> None:
        super().__init__(protocol, options, options.workers or default_workers())
        self.plan = plan
        self.keep = keep
        self.made = 0
        self.longest = 0
        self.shown_by: dict[str, int] = {}  # the number of the first walk that violates a property
        self.broken_names = self._names_of_bits()

    def _names_of_bits(self) -> list[str]:
        states = [prop.name for prop in self.learner.in_order]
        return states + [""] * (STATE_BITS - len(states)) + [prop.name for prop in self.learner.step_judged]

    def search(self) -> None:
        """Make all the walks."""
        self.first_rows = self.begin()
        self.initial_count = 0
        self.check_starts()
        self.names = StableNames(self.learner)
        self.make()

    def more(self, plan: Plan) -> Result:
        """Make further walks, with one worker, once a search was run; return what was found on these alone."""
        self.plan, self.made, self.longest = plan, 0, 0
        self.violated, self.shown_by = set(), {}
        self.result = Result(actions=dict.fromkeys(self.learner.action_names, 0))
        self.partitions = [Partition(self.packing.words) for _ in self.partitions]
        for worker in self.pool:
            worker.fired[:] = 0
        self.make()
        return self.conclude()

    def make(self) -> None:
        """Make the walks of the plan, once the search has begun."""
        plan = self.plan
        if len(self.first_rows) == 0:
            return
        at_once = max(1, min(WALKS_AT_ONCE, STATES_AT_ONCE // plan.depth))
        for done in range(0, plan.runs, at_once):
            walks = self.begun(plan.first + done, min(at_once, plan.runs - done))
            try:
                while (walks.status == GOING).any():
                    self.go_on(walks)
                    self._again(walks, plan.first + done)
                    self.report(plan.runs - self.made)
            except (Stop, KeyboardInterrupt):  # the walks before the first that is under way are made
                self._end(walks, int((walks.status == GOING).argmax()))
                raise
            self._end(walks, len(walks.status))
            self.stop_at_max_states()

    def begun(self, first: int, count: int) -> Walks:
        """Return walks, from number `first` on, at their initial states."""
        starts, seeds = self._drawn(str(self.plan.seed), first, count)
        return Walks(starts, seeds, self.plan.depth)

    def _drawn(self, seed: str, first: int, count: int) -> tuple[Rows, NDArray[np.uint64]]:
        """Return where walks begin, and what their choices are drawn from."""
        base = np.uint64(int.from_bytes(blake2b(seed.encode(), digest_size=8).digest(), "little"))
        seeds, chosen = np.zeros(count, np.uint64), np.zeros(count, np.int64)
        draw_seeds(base, first, seeds, chosen, len(self.first_rows))
        return self.widened(self.first_rows)[chosen], seeds

    def _again(self, walks: Walks, first: int) -> None:
        """Begin those walks anew that have ended too early."""
        least = self.plan.least
        for w in np.flatnonzero((walks.status >= STUCK) & (walks.length < least)).tolist():
            if self._findings(walks, w):
                continue
            if walks.tries[w] >= MOST_TRIES:
                raise InputError(
                    f"walk {first + w} ends before it has {least:,} states, {MOST_TRIES} times out of {MOST_TRIES}; "
                    "expected larger bounds in the configuration, or shorter walks"
                )
            starts, seeds = self._drawn(f"{self.plan.seed}, again {walks.tries[w]}", first + w, 1)
            walks.path = self.widened(walks.path)
            walks.again(w, starts[0], seeds[0])

    # Walking

    def go_on(self, walks: Walks) -> None:
        """Let every walk go on until it ends, misses something or has had its turn."""
        walks.path = self.widened(walks.path)
        self.names.update()
        bounds = np.linspace(0, len(walks.length), self.workers + 1).astype(int).tolist()
        for worker in self.pool:
            worker.fit(0, self.learner.width, self.copies, 0)
            worker.stats[S_NEEDS] = 0
        before = walks.length.copy()
        self._together(partial(self._run_walks, walks, bounds), self.workers)
        for worker in self.pool:
            if worker.stats[S_CODE] == MANY_SUCCESSORS:
                worker.succ = np.zeros((2 * len(worker.succ), worker.succ.shape[1]), np.int32)
        self.learn(walks.path, self.pool)
        if self._one_by_one:
            for w in np.flatnonzero(walks.length > before).tolist():
                self._accept_or_refuse(walks, w)

    @property
    def _one_by_one(self) -> bool:
        """Whether Python must look at each step before the next is made."""
        return self.slow is not None and self.slow.constrains

    def _run_walks(self, walks: Walks, bounds: list[int], number: int) -> None:
        worker, (first, last) = self.pool[number], bounds[number : number + 2]
        turn = 1 if self._one_by_one else max(1, STEPS_A_TURN // max(1, last - first))
        walk_on(
            self.learner.tables, self.names.of_rows, self.names.of_contents, walks.path, walks.taken, walks.length,
            walks.status, walks.refused, walks.broken, walks.seeds, first, last, turn, worker.succ,
            np.zeros(len(worker.succ), np.int64), np.zeros(len(worker.succ), np.uint64), worker.needs, worker.stats,
        )  # fmt: skip

    def _accept_or_refuse(self, walks: Walks, w: int) -> None:
        """Take back a walk's last step where it leads beyond a slow constraint: another will be chosen."""
        assert self.slow is not None
        last = int(walks.length[w]) - 1
        if self.slow.within(walks.rows(w, last + 1)[-1]):
            walks.refused[w] = 0
            return
        walks.length[w] = last
        walks.refused[w] += 1
        walks.broken[w][walks.broken[w] == last] = -1

    # What was walked

    def _end(self, walks: Walks, count: int) -> None:
        """Count the first walks, up to a violation unless the simulation goes on, and report what is violated."""
        violations: dict[str, tuple[int, int]] = {}
        for w in range(count):
            found = self._findings(walks, w)
            for name, place in found.items():
                violations.setdefault(name, (w, place))
            if found and not self.options.keep_going:
                count, walks.length[w] = w + 1, min(found.values()) + 1
                break
        self._count(walks, count)
        if self.keep is not None:
            for w in range(count):
                self.keep(self.plan.first + self.made - count + w, self.trace(walks, w, int(walks.length[w])))
        for name, (w, place) in violations.items():
            self.shown_by.setdefault(name, self.plan.first + self.made - count + w)
            self.violation(name, self.trace(walks, w, place + 1))

    def _findings(self, walks: Walks, w: int) -> dict[str, int]:
        """Return the properties violated on a walk with the place of the first state that shows it, earliest first."""
        found = {self.broken_names[bit]: int(walks.broken[w, bit]) for bit in np.flatnonzero(walks.broken[w] >= 0)}
        length = int(walks.length[w])
        if self.slow is not None:
            for place, row in enumerate(walks.rows(w, length)):
                for name in self.slow.violated_by(row):
                    found.setdefault(name, place)
        if walks.status[w] == STUCK and self.options.deadlock:
            found[DEADLOCK] = length - 1
        return dict(sorted(found.items(), key=lambda item: item[1]))

    def _count(self, walks: Walks, count: int) -> None:
        """Count the first walks, their steps and the states that no walk has seen before."""
        if count == 0:
            return
        lengths = walks.length[:count]
        on_the_way = np.arange(walks.depth) < lengths[:, None]
        taken = walks.taken[:count][on_the_way]
        worker = self.pool[0]
        worker.fired += np.bincount(taken[taken >= 0], minlength=len(worker.fired))
        self.made += count
        self.initial_count = self.made
        self.longest = max(self.longest, int(lengths.max()))
        rows = self.identified(self.widened(walks.path[: count * walks.depth][on_the_way.ravel()]))
        self.fit_packing()
        self._fill(worker, self._stretched(rows), self.packing)
        self.collect()

    def trace(self, walks: Walks, w: int, length: int) -> Walk:
        """Return the first states of a walk with what led to each: the reference semantics walks it again."""
        states = [self.learner.decode_state(row) for row in walks.rows(w, length)]
        steps = [TraceStep(states[0])]
        for (source, target), number in zip(pairwise(states), walks.taken[w, 1:length].tolist(), strict=True):
            name = self.learner.action_names[number]
            found = next(t for t in self.semantics.transitions(source) if t.action == name and t.target == target)
            steps.append(TraceStep(target, name, found.actor, found.message))
        return tuple(steps)

    def depth(self) -> int:
        """Return the states along the longest walk."""
        return self.longest

    def conclude(self) -> Result:
        """Return the result; a simulation has not seen everything."""
        result = super().conclude()
        result.complete = False
        result.runs = self.made
        return result

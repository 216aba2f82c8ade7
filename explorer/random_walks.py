"""Random simulation over the tables: many random walks from the initial states.

Walk `i` depends on the seed and on `i` alone. Each choice is drawn from a hash of the seed, `i` and the step's number.
The order of successors does not depend on earlier memoization.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.result import (
    DEADLOCK,
    ERROR_LIMIT,
    Behaviour,
    Result,
    SearchRequest,
    SearchStopped,
    behaviour_along,
)
from kraftcheck.explorer.tables.expander import Expander
from kraftcheck.explorer.tables.kernel.codes import MANY_SUCCESSORS, STATS_CODE
from kraftcheck.explorer.tables.kernel.depth_first import (
    GOING,
    NO_SUCCESSOR,
    STATE_BITS,
    STEP_BITS,
    WalkArrays,
    draw_walk_seeds_and_starts,
    extend_random_walks,
)
from kraftcheck.explorer.tables.learning.fingerprints import StatePartFingerprints
from kraftcheck.explorer.tables.rows import Rows
from kraftcheck.explorer.tables.violation_checker import ViolationChecker
from kraftcheck.explorer.tables.visited import VisitedSet
from kraftcheck.spec.errors import InputError, RaisedError
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.state import State

STATES_PER_BATCH = 1 << 20  # states along the walks of one batch
WALKS_AT_ONCE = 1 << 10
MOST_ATTEMPTS_A_WALK = 200  # attempts at a walk that ends too early
MOST_DEPTH = 1_000_000  # states along a walk; each is kept until the walk ends
STEPS_A_WORKER_A_TURN = 1 << 17  # steps of one worker between two checks of the clock

WalkToBehaviour = Callable[[list[State], list[str]], Behaviour]


@dataclass(frozen=True)
class WalkPlan:
    """Number, depth and seed of the walks to make."""

    runs: int  # number of walks
    depth: int = 100  # most states along a walk
    seed: int = 0  # seed of the choices
    first: int = 0  # number of the first walk
    # fewest states along a walk: one that ends earlier is repeated with other choices, which follow from the seed, its
    # number and the attempt. A walk that shows a violation is kept.
    least: int = 1


def simulate(
    protocol: Protocol,
    options: SearchRequest,
    plan: WalkPlan,
    keep: Callable[[int, Behaviour], None] | None = None,
    kept: Container[int] = (),
) -> Result:
    """Walk at random through the states of a protocol; all enabled successors are equally likely.

    If `keep` raises SearchStopped, the result has the walks before, and the violations that are known.
    """
    require_valid_walk_plan(plan)
    return RandomWalks(protocol, options, plan, keep, kept=kept).run()


def require_valid_walk_plan(plan: WalkPlan) -> None:
    """Raise InputError for a plan that cannot be carried out."""
    if plan.depth > MOST_DEPTH:
        raise InputError(f"expected at most {MOST_DEPTH:,} states along a walk, found {plan.depth:,}")
    if plan.least > plan.depth:
        raise InputError(f"expected at most {plan.depth:,} states for the shortest walk, found {plan.least:,}")


class WalkBatch(WalkArrays):
    """A batch of walks."""

    def __init__(self, starts: Rows, seeds: NDArray[np.uint64], depth: int) -> None:
        super().__init__()
        count, width = starts.shape
        self.depth, self.seeds = depth, seeds
        self.path = np.zeros((count * depth, width), np.int32)
        self.path[::depth] = starts
        self.taken = np.full((count, depth), -1, np.int32)
        self.length = np.ones(count, np.int64)
        self.status = np.zeros(count, np.int64)
        self.refused = np.zeros(count, np.int64)
        self.tries = np.ones(count, np.int64)
        self.broken = np.full((count, STATE_BITS + STEP_BITS), -1, np.int32)

    def again(self, w: int, start: Any, seed: Any) -> None:
        """Restart the walk `w` at the initial state `start`, with the random seed `seed`."""
        self.path[w * self.depth] = start
        self.taken[w], self.broken[w] = -1, -1
        self.seeds[w], self.length[w], self.status[w], self.refused[w] = seed, 1, GOING, 0
        self.tries[w] += 1

    def rows(self, w: int, length: int) -> Rows:
        """Return the first `length` states of the walk `w`."""
        return self.path[w * self.depth : w * self.depth + length]


class RandomWalks:
    """Random walks, in batches."""

    def __init__(
        self,
        protocol: Protocol,
        options: SearchRequest,
        plan: WalkPlan,
        keep: Callable[[int, Behaviour], None] | None = None,
        tell: WalkToBehaviour | None = None,
        kept: Container[int] = (),
    ) -> None:
        self.options, self.plan, self.keep, self.kept = options, plan, keep, kept
        self.expander = Expander.of(protocol, options)
        self.visited = VisitedSet(self.expander.threads)
        seen_whole = replace(options, view=None)  # the VIEW is ignored: walks are checked state by state
        self.checker = ViolationChecker(protocol, seen_whole, self.expander, lambda: self.visited.count)
        self.learner = self.expander.learner
        self.made = self.longest = 0
        self.shown_by: dict[str, int] = {}  # number of the first walk that violates a property
        self._tell = tell or self._walked_again
        states = [prop.name for prop in self.learner.state_properties]
        self._broken_names = states + [""] * (STATE_BITS - len(states))
        self._broken_names += [prop.name for prop in self.learner.step_properties]

    def run(self) -> Result:
        """Make the walks; return their result."""
        return self._incomplete(self.checker.result_of(self._search))

    def more(self, plan: WalkPlan) -> Result:
        """Make the walks of another plan with one worker; return the result of the new walks alone."""
        self.plan, self.made, self.longest, self.shown_by = plan, 0, 0, {}
        self.visited = VisitedSet(self.expander.threads)
        for worker in self.expander.pool:
            worker.fired[:] = 0
        self.checker.monitor.restart()
        return self._incomplete(self.checker.monitor.result_of(self._make))

    def _incomplete(self, result: Result) -> Result:
        result.complete = False  # a simulation does not cover all states
        return result

    def _search(self) -> None:
        self.begin()
        self.checker.check_starts()
        self._make()

    def begin(self) -> None:
        """Encode the initial states, and prepare the fingerprints."""
        self._first_rows = self.checker.starting_rows()
        self.checker.initial_count = 0
        self.checker.monitor.result.runs = 0
        self._fingerprints = StatePartFingerprints(self.learner)

    def _make(self) -> None:
        try:
            if len(self._first_rows):
                at_once = max(1, min(WALKS_AT_ONCE, STATES_PER_BATCH // self.plan.depth))
                for done in range(0, self.plan.runs, at_once):
                    self._make_together(self.plan.first + done, min(at_once, self.plan.runs - done))
        finally:
            self.checker.monitor.result.depth, self.checker.monitor.result.runs = self.longest, self.made

    def _make_together(self, first: int, count: int) -> None:
        walks = self.begun(first, count)
        try:
            while (walks.status == GOING).any():
                self.go_on(walks)
                self._again(walks, first)
                self.checker.monitor.check_time_limit(self.plan.runs - self.made)
        except (SearchStopped, KeyboardInterrupt):  # the walks before the first unfinished one count
            self._end(walks, int((walks.status == GOING).argmax()))
            raise
        self._end(walks, len(walks.status))
        self.checker.stop_at_max_states()

    def begun(self, first: int, count: int) -> WalkBatch:
        """Return `count` new walks at their initial states, numbered from `first` on."""
        starts, seeds = self._drawn(str(self.plan.seed), first, count)
        return WalkBatch(starts, seeds, self.plan.depth)

    def _drawn(self, seed: str, first: int, count: int) -> tuple[Rows, NDArray[np.uint64]]:
        """Draw the initial states and the seeds of `count` walks, numbered from `first` on."""
        base = np.uint64(int.from_bytes(blake2b(seed.encode(), digest_size=8).digest(), "little"))
        seeds, chosen = np.zeros(count, np.uint64), np.zeros(count, np.int64)
        draw_walk_seeds_and_starts(base, first, seeds, chosen, len(self._first_rows))
        return self.expander.with_columns(self._first_rows)[chosen], seeds

    def _again(self, walks: WalkBatch, first: int) -> None:
        """Restart each walk that ended with fewer than `plan.least` states and without a violation."""
        least = self.plan.least
        for w in np.flatnonzero((walks.status >= NO_SUCCESSOR) & (walks.length < least)).tolist():
            if self._findings(walks, w):
                continue
            if walks.tries[w] >= MOST_ATTEMPTS_A_WALK:
                raise InputError(
                    f"walk {first + w} ends before it has {least:,} states, "
                    f"{MOST_ATTEMPTS_A_WALK} times out of {MOST_ATTEMPTS_A_WALK}; "
                    "expected larger bounds in the configuration, or shorter walks"
                )
            starts, seeds = self._drawn(f"{self.plan.seed}, again {walks.tries[w]}", first + w, 1)
            walks.path = self.expander.with_columns(walks.path)
            walks.again(w, starts[0], seeds[0])

    # Walking

    def go_on(self, walks: WalkBatch) -> None:
        """Advance each walk until it ends, needs a call that is not memoized yet, or has made the steps of its turn."""
        walks.path = self.expander.with_columns(walks.path)
        self._fingerprints.update()
        expander = self.expander
        bounds = np.linspace(0, len(walks.length), expander.workers + 1).astype(int).tolist()
        for worker in expander.pool:
            worker.begin(walks.path)
        before = walks.length.copy()
        expander.threads.run(partial(self._run_walks, walks, bounds), expander.workers)
        for worker in expander.pool:
            if worker.stats[STATS_CODE] == MANY_SUCCESSORS:
                worker.make_room()
        try:
            self.learner.resolve(expander.pool)
        except RaisedError as error:
            going = np.flatnonzero(walks.status == GOING).tolist()
            lengths = walks.length[going].tolist()
            rows = [walks.rows(w, length)[-1] for w, length in zip(going, lengths, strict=True)]
            raise self.checker.traced(error, rows, lambda i: self.trace(walks, going[i], lengths[i])) from None
        if self._one_by_one:
            for w in np.flatnonzero(walks.length > before).tolist():
                self._accept_or_refuse(walks, w)

    @property
    def _one_by_one(self) -> bool:
        """Whether Python must check each step, for a non-local constraint, before the walk continues."""
        return self.checker.python is not None and self.checker.python.constrains

    def _run_walks(self, walks: WalkBatch, bounds: list[int], number: int) -> None:
        worker, (first, last) = self.expander.pool[number], bounds[number : number + 2]
        turn = 1 if self._one_by_one else max(1, STEPS_A_WORKER_A_TURN // max(1, last - first))
        extend_random_walks(self.learner.tables, worker, walks, self._fingerprints, first, last, turn)

    def _accept_or_refuse(self, walks: WalkBatch, w: int) -> None:
        """Undo a walk's last step if it breaks a non-local constraint; the walk then chooses another."""
        last = int(walks.length[w]) - 1
        state = self.learner.interner.decode_state(walks.rows(w, last + 1)[-1])
        if self.checker.system.is_within(state):
            walks.refused[w] = 0
            return
        walks.length[w] = last
        walks.refused[w] += 1
        walks.broken[w][walks.broken[w] == last] = -1

    # Results of walks

    def _end(self, walks: WalkBatch, count: int) -> None:
        """Count the first `count` walks and report their violations; by default, stop at the first violating walk."""
        violations: dict[str, tuple[int, int]] = {}
        for w in range(count):
            found = self._findings(walks, w)
            for name, place in found.items():
                violations.setdefault(name, (w, place))
            if found and not self.options.keep_going:
                count, walks.length[w] = w + 1, min(found.values()) + 1
                break
        first, is_kept = self.plan.first + self.made, self._keep(walks, count)
        for name, (w, place) in violations.items():
            self.shown_by.setdefault(name, first + w)
            self.checker.monitor.violation(name, self.trace(walks, w, place + 1))
        if not is_kept:
            raise SearchStopped

    def _keep(self, walks: WalkBatch, count: int) -> bool:
        """Keep and count the first `count` walks; return whether all could be kept, the first new one in any time."""
        first, done, is_late = self.plan.first + self.made, 0 if self.keep else count, False
        try:
            while done < count and self.keep is not None:
                if first + done not in self.kept:
                    if is_late:
                        self.checker.monitor.record_limit("time_limit")
                        break
                    self.keep(first + done, self.trace(walks, done, int(walks.length[done])))
                    is_late = self.checker.monitor.is_out_of_time
                done += 1
        except SearchStopped:
            self.checker.monitor.record_limit(ERROR_LIMIT)
        finally:
            self._count(walks, done)
        return done == count

    def _findings(self, walks: WalkBatch, w: int) -> dict[str, int]:
        """Return the properties that a walk violates, each with the index of its first violation, sorted by index."""
        found = {self._broken_names[bit]: int(walks.broken[w, bit]) for bit in np.flatnonzero(walks.broken[w] >= 0)}
        length = int(walks.length[w])
        if self.checker.python is not None:
            for place, row in enumerate(walks.rows(w, length)):
                for name in self.checker.python.violated_by(row):
                    found.setdefault(name, place)
        if self.expander.step_checks is not None:
            for place, mask in self.expander.step_checks.along(walks.rows(w, length)):
                found |= {prop.name: place for prop in self.learner.properties_in(mask, over_steps=True)}
        if walks.status[w] == NO_SUCCESSOR and self.options.deadlock:
            found[DEADLOCK] = length - 1
        return dict(sorted(found.items(), key=lambda item: item[1]))

    def _count(self, walks: WalkBatch, count: int) -> None:
        """Count the first `count` walks, their steps, and the states that no earlier walk visited."""
        if count == 0:
            return
        lengths = walks.length[:count]
        on_the_way = np.arange(walks.depth) < lengths[:, None]
        taken = walks.taken[:count][on_the_way]
        self.expander.note_fired(np.bincount(taken[taken >= 0], minlength=len(self.learner.action_names)))
        self.made += count
        self.checker.initial_count = self.made
        self.longest = max(self.longest, int(lengths.max()))
        self.visited.add(self.expander.load(walks.path[: count * walks.depth][on_the_way.ravel()]))

    def trace(self, walks: WalkBatch, w: int, length: int) -> Behaviour:
        """Return the behaviour of the first states of a walk."""
        states = [self.learner.interner.decode_state(row) for row in walks.rows(w, length)]
        return self._tell(states, [self.learner.action_names[number] for number in walks.taken[w, 1:length].tolist()])

    def _walked_again(self, states: list[State], actions: list[str]) -> Behaviour:
        return behaviour_along(self.checker.semantics, states, actions=actions)

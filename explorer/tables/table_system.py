"""`TransitionSystem` over rows of ids: the compiled kernel finds steps, the learner resolves cache misses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.calls.inspection import property_with_tracked_reads
from kraftcheck.explorer.calls.proxies import UnansweredRead
from kraftcheck.explorer.tables.expander import Expander
from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.arrays import TableFull
from kraftcheck.explorer.tables.kernel.edges import EdgeArrays, evaluate_property_on_rows, find_edges
from kraftcheck.explorer.tables.learning.python_misses import MemoizedCall
from kraftcheck.explorer.tables.python_checks import StateFunctionMemo, non_local_reason
from kraftcheck.explorer.tables.rows import MOST_SERIAL_STATES, SUCCESSOR_ROOM_A_STATE, Indices, Rows, WorkerBuffers
from kraftcheck.explorer.transition_system import BoolArray, StepArrays
from kraftcheck.spec.errors import RaisedError
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.state import State

# Packed canonical rows, and the partitions of the visited set that own them.
PackedKeys = tuple[NDArray[np.uint64], Indices]


class WorkerEdgeBuffers(EdgeArrays):
    """The edges that one worker found."""

    def fit(self, room: int, words: int) -> None:
        """Grow the buffers to `room` edges, each with a target of `words` packed words."""
        if len(self.sources) < room or self.words.shape[1] != words:
            self.sources, self.owners = np.zeros(room, np.int64), np.zeros(room, np.int64)
            self.labels = np.zeros(room, np.uint16)
            self.words = np.zeros((room, words), np.uint64)


class TableTransitionSystem:
    """A `TransitionSystem` whose batches are rows of ids."""

    def __init__(self, expander: Expander, starts: list[State]) -> None:
        self.expander, self.packing = expander, expander.packing
        self.labels = expander.learner.book
        self._starts = starts
        self._edges = [WorkerEdgeBuffers() for _ in expander.pool]
        # Properties are compared by identity: a predicate of 1 and one of "1" have the same name.
        self._roots: list[tuple[Property, int]] = []  # decision trees of properties
        self._evaluated_property: Property | None = None  # the property whose verdicts by control row are cached
        self._verdicts: dict[int, bool] = {}
        self._plain: list[Property] = []  # properties without a decision tree in the kernel
        self._memos: list[tuple[Property, StateFunctionMemo]] = []  # of those of whole states

    def initial(self) -> Rows:
        """Return the initial states."""
        return self.expander.encode(self._starts)

    def canonical(self, states: Rows) -> PackedKeys:
        """Return the packed canonical keys of states, and the partitions that own them."""
        return self.expander.packed(states, self.packing)

    def decode(self, states: Rows) -> list[State]:
        """Return the `State` of each row."""
        return list(map(self.expander.learner.interner.decode_state, states))

    def why_slow(self, prop: Property, states: int) -> str | None:
        """Return the input for which Python evaluates a property, and how often it did; None if tables decide it."""
        if not self._is_plain(prop) or (why := non_local_reason(prop)) is None:
            return None
        evaluated = next((memo.evaluated for one, memo in self._memos if one is prop), states)
        return f"{why}: it was evaluated {evaluated:,} times"

    def holds(self, prop: Property, states: Rows, judge: Callable[[Property, State], bool]) -> BoolArray:
        """Return whether a property holds in each state; evaluate it once for each distinct value of its reads."""
        controls, where = np.unique(states[:, 0], return_inverse=True)
        mask: BoolArray
        if not self._is_plain(prop) and self._is_of_control_rows(prop):
            with suppress(RaisedError, UnansweredRead):  # of a proxy, perhaps
                mask = self._learned_verdicts(prop, controls)[where]
                return mask
        if not self._is_plain(prop):
            self._plain.append(prop)
        if non_local_reason(prop) is not None:
            with suppress(RaisedError):  # with the state itself, the error names it
                if (memo := self._memo_of(prop)) is not None:
                    mask = memo.of(states).astype(bool)
                    return mask
            return np.array([judge(prop, state) for state in self.decode(states)], bool)
        if prop is not self._evaluated_property:
            self._evaluated_property, self._verdicts = prop, {}
        empty = [0] * (states.shape[1] - 1)
        found = np.zeros(len(controls), bool)
        for place, control in enumerate(controls.tolist()):
            if control not in self._verdicts:
                self._verdicts[control] = judge(prop, self.expander.learner.interner.decode_state([control, *empty]))
            found[place] = self._verdicts[control]
        mask = found[where]
        return mask

    def _is_plain(self, prop: Property) -> bool:
        return any(prop is one for one in self._plain)

    def _memo_of(self, prop: Property) -> StateFunctionMemo | None:
        """Return the memo of a property of whole states; None if it may inspect types, or bounds are hidden."""
        interner, calls = self.expander.learner.interner, self.expander.learner.calls
        if prop.asks != ("state",) or prop.method_name in interner.protocol.by_type or self._hides_bounds():
            return None
        found = next((memo for one, memo in self._memos if one is prop), None)
        if found is None:
            found = StateFunctionMemo(interner, lambda state: calls.holds(prop, {"state": state}), lazily=True)
            self._memos.append((prop, found))
        return found

    def _hides_bounds(self) -> bool:
        interner = self.expander.learner.interner
        return bool(interner.tables.hidden[: len(interner.bounds)].any())

    def _is_of_control_rows(self, prop: Property) -> bool:
        """Return whether decision trees support a property; under a VIEW that hides bounds, each state is evaluated."""
        known = {"me", "peer", "shared", *(read.name for read in prop.reads if not read.of_inbox)}
        is_known = prop.asks == ("state",) or known.issuperset(prop.asks)
        return is_known and prop.only is None and not self._hides_bounds()

    def _learned_verdicts(self, prop: Property, controls: Rows) -> BoolArray:
        """Return whether a property holds in control rows. Raises an error if it reads inboxes, or too many values."""
        learner, kind = self.expander.learner, 2 if "peer" in prop.asks else int("me" in prop.asks)
        root = next((root for one, root in self._roots if one is prop), None)
        if root is None:
            root = learner.answers.root(MemoizedCall(property_with_tracked_reads(prop)))
            self._roots.append((prop, root))
            learner.answers.policy.misses |= {root: 0} if kind == 1 else {}
        tables, verdicts = learner.tables, np.full(len(controls), codes.MISSING)
        while (verdicts == codes.MISSING).any():
            with suppress(TableFull):
                evaluate_property_on_rows(tables, root, kind, controls, verdicts)
            learner.answers.answer(self.expander.pool[0])
            tables.grow()
        found: BoolArray = verdicts != 0
        return found

    def successors(self, states: Rows, which: Indices) -> Iterator[StepArrays]:
        """Yield the steps out of states[which], in as many parts as the buffers require."""
        expander, packing = self.expander, self.packing
        while len(which):
            states = expander.with_columns(states)
            parts = [which] if len(which) <= MOST_SERIAL_STATES else np.array_split(which, expander.workers)
            workers = expander.pool[: len(parts)]
            for worker, edges, part in zip(workers, self._edges, parts, strict=False):
                worker.begin(states, len(part))
                edges.fit(max(2 * len(worker.succ), len(part) * SUCCESSOR_ROOM_A_STATE), packing.words)
            found = np.zeros(len(parts), np.int64)
            expander.threads.run(partial(self._find, parts, found), len(parts))
            rest: list[Indices] = []
            for worker, part, edges, count in zip(workers, parts, self._edges, found.tolist(), strict=False):
                left = part[worker.stats[codes.STATS_DONE] :] if worker.stats[codes.STATS_CODE] else part[:0]
                rest += [worker.missed_states(), left]
                if worker.stats[codes.STATS_CODE] == codes.MANY_SUCCESSORS:
                    worker.make_room()
                keys, ends = (edges.words[:count], edges.owners[:count]), np.minimum(edges.owners[:count], 0)
                yield StepArrays(edges.sources[:count], keys, ends.astype(np.int32), edges.labels[:count])
            expander.learner.resolve(workers)
            which = np.concatenate(rest)

    def _find(self, parts: list[Indices], found: NDArray[np.int64], number: int) -> None:
        worker: WorkerBuffers = self.expander.pool[number]
        tables, edges = self.expander.learner.tables, self._edges[number]
        found[number] = find_edges(tables, worker, edges, self.packing, parts[number])

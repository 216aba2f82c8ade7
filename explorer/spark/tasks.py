"""The tasks of a search, over Arrow batches. Python runs for a batch of states, not for a single one.

Each task is given its arguments as JSON. A process keeps what it has learned for the tasks that follow.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kraftcheck.explorer.spark.definitions import CALLS, COUNTS, EVENT, SETTLED, Definition, to_table
from kraftcheck.explorer.spark.description import revive
from kraftcheck.explorer.spark.id_report import undefined
from kraftcheck.explorer.spark.packed_states import (
    add,
    by_partition,
    first_of_each,
    from_bytes,
    in_order,
    packed,
    packing_of,
    to_bytes,
    unpacked,
)
from kraftcheck.explorer.spark.shared_folder import GROUP, Piece, SharedFolder, States
from kraftcheck.explorer.spark.task_expander import TaskExpander
from kraftcheck.explorer.tables.kernel.hash_set import look_up, mark
from kraftcheck.explorer.tables.states.packing import Packing, Words
from kraftcheck.explorer.tables.states.visited import Partition

Arguments = dict[str, Any]
Batches = Iterator[Any]

MOST_BYTES = 1 << 20  # of states in one row on their way to a partition

STATES_SCHEMA = pa.schema(
    [
        pa.field("task", pa.int32(), nullable=False),
        pa.field("part", pa.int32(), nullable=False),
        pa.field("states", pa.binary(), nullable=False),
    ]
)
STATES_DDL = "task int not null, part int not null, states binary not null"


_expanders: dict[str, TaskExpander] = {}  # this process's, by run: one at a time


def lend(run: str, expander: TaskExpander) -> None:
    """Let the tasks of a run use an expander of this process."""
    if run not in _expanders:
        _expanders.clear()
    _expanders[run] = expander


def _expander(arguments: Arguments) -> TaskExpander:
    """Return this process's expander for a run; another run begins with a new one."""
    if arguments["run"] not in _expanders:
        protocol, options = revive(arguments["description"], Path(arguments["user_files"]))
        lend(arguments["run"], TaskExpander(protocol, options, SharedFolder(arguments["folder"])))
    return _expanders[arguments["run"]]


def _prepared(arguments: Arguments) -> TaskExpander:
    expander = _expander(arguments)
    expander.load(arguments["defined"])
    expander.begin(arguments["violated"])
    return expander


def _states(expander: TaskExpander, arguments: Arguments, batches: Batches) -> Iterator[Iterator[States]]:
    """Yield the states of each piece of the tasks whose numbers batches hold, a row group at a time."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for piece in arguments["tasks"][number]:
                yield expander.shared.read_states(Piece(*piece))


def _widened(states: States, columns: int) -> States:
    """Return states with an empty inbox for every slot that they do not know."""
    missing = columns - states.shape[1]
    return np.pad(states, ((0, 0), (0, missing))) if missing > 0 else states


def discover(arguments: Arguments, batches: Batches) -> Batches:
    """Expand states; report how often each action fired, what is violated, and which values are new."""
    discovery = _Discovery(arguments)
    for piece in _states(discovery.expander, arguments, batches):
        for states in piece:
            discovery.expand(states)
    yield from to_table(discovery.report()).to_batches()


class _Discovery:
    """Collects what states lead to: how often each action fires, what is violated, and which values are new."""

    def __init__(self, arguments: Arguments) -> None:
        self.expander = _prepared(arguments)
        self._before = Counter(self.expander.expander.learner.handler_calls)
        self._controls: set[int] = set()
        self._contents: set[int] = set()

    def expand(self, states: States) -> None:
        """Expand states."""
        for rows in self.expander.successors(states):
            self.expander.ids.unknown(rows, self._controls, self._contents)

    def report(self) -> Iterator[Definition]:
        """Yield what was found."""
        expander, learner = self.expander, self.expander.expander.learner
        calls = [learner.handler_calls[name] - self._before[name] for name in learner.action_names]
        yield Definition(COUNTS, 0, b"", tuple(expander.expander.fired.tolist()))
        yield Definition(CALLS, 0, b"", tuple(calls))
        yield from expander.events.values()
        yield from undefined(expander.ids, self._controls, self._contents)


def expand(arguments: Arguments, batches: Batches) -> Batches:
    """Expand states; yield their successors, packed, each to the partition that owns it."""
    expander = _prepared(arguments)
    layout, parts, reducers = packing_of(arguments["counts"]), arguments["parts"], arguments["reducers"]
    waiting: dict[int, list[bytes]] = defaultdict(list)
    sizes: Counter[int] = Counter()

    def rows_of(part: int) -> Any:
        data = b"".join(waiting.pop(part))
        sizes[part] = 0
        values = [part * reducers // parts], [part], [data]
        arrays = [pa.array(v, field.type) for v, field in zip(values, STATES_SCHEMA, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=STATES_SCHEMA)

    for piece in _states(expander, arguments, batches):
        for states in piece:
            for rows in expander.successors(states):
                found = expander.ids.to_global(rows)
                words = packed(found, layout)
                for part, mine in by_partition(expander.ids.compared(found), parts):
                    data = to_bytes(words[mine], layout)
                    waiting[part].append(data)
                    sizes[part] += len(data)
                    if sizes[part] > MOST_BYTES:
                        yield rows_of(part)
    for part in sorted(waiting):
        yield rows_of(part)


def settle(arguments: Arguments, batches: Batches) -> Batches:
    """Find out which states that were sent to partitions are new, write these as the next level, and discover."""
    viewed = arguments["description"]["view"] is not None
    known = _prepared(arguments) if viewed else _expanders.get(arguments["run"])
    shared = SharedFolder(arguments["folder"]) if known is None else known.shared
    layout, level = packing_of(arguments["counts"]), arguments["level"]
    candidates: dict[int, Partition] = {}
    received: Counter[int] = Counter()
    for batch in batches:
        parts = batch.column(1).to_pylist()
        for part, data in zip(parts, batch.column(2), strict=True):
            if part not in candidates:
                candidates[part] = Partition(layout.words)
            words = from_bytes(data.as_buffer(), layout)
            received[part] += len(words)
            add(candidates[part], words)
    discovery: _Discovery | None = None
    settled = []
    columns = len(layout.position)
    for part in sorted(candidates):
        levels = arguments["files"].get(str(part), ())
        before = (_widened(states, columns) for number in levels for states in shared.read_part(number, part))
        if viewed:
            assert known is not None
            fresh = _fresh_by_view(candidates.pop(part), before, layout, known.ids.compared)
        else:
            fresh = _fresh(candidates.pop(part), before, layout)
        size = 0
        if len(fresh):
            states = unpacked(fresh, layout)
            size = shared.write_states(level, part, states)
            discovery = discovery or _Discovery(arguments)
            for first in range(0, len(states), GROUP):
                discovery.expand(states[first : first + GROUP])
        settled.append(Definition(SETTLED, part, b"", (len(fresh), size, received[part])))
    report = [] if discovery is None else discovery.report()
    yield from to_table([*settled, *report]).to_batches()


def _fresh(candidates: Partition, before: Iterator[States], layout: Packing) -> Words:
    """Return the packed words of those candidates that are not among the states before, in order."""
    visited = _marked(candidates, (packed(states, layout) for states in before))
    return in_order(candidates.words()[visited[candidates.places != 0] == 0])


def _fresh_by_view(
    candidates: Partition, before: Iterator[States], layout: Packing, compared: Callable[[States], States]
) -> Words:
    """Return the same where states that look alike count as one: of those that do, the least."""
    words = candidates.words()
    keys = packed(compared(unpacked(words, layout)), layout)
    least = first_of_each(keys, words)
    words, keys = words[least], keys[least]
    looks = Partition(layout.words)
    add(looks, keys)
    visited = _marked(looks, (packed(compared(states), layout) for states in before))
    known = np.zeros(len(keys), np.uint8)
    look_up(looks.keys, looks.places, keys, visited, known)
    return in_order(words[known == 0])


def _marked(candidates: Partition, visited: Iterator[Words]) -> Any:
    """Return for each place of a partition whether its entry is among packed words."""
    flags = np.zeros(len(candidates.places), np.uint8)
    for words in visited:
        mark(candidates.keys, candidates.places, words, flags)
    return flags


def precede(arguments: Arguments, batches: Batches) -> Batches:
    """Report the first state of each piece that leads to a given one."""
    expander = _prepared(arguments)
    target = np.array(arguments["target"], np.int32)
    found = []
    for piece in _states(expander, arguments, batches):
        leading = (expander.predecessor(_widened(states, len(target)), target) for states in piece)
        state = next((state for state in leading if state is not None), None)
        if state is not None:
            found.append(Definition(EVENT, 0, b"", tuple(state.tolist())))
    yield from to_table(found).to_batches()


TASKS: dict[str, Callable[[Arguments, Batches], Batches]] = {
    "discover": discover,
    "expand": expand,
    "settle": settle,
    "precede": precede,
}

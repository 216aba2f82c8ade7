"""The Spark tasks of a search, over Arrow batches; Python code runs for a batch of states, not for a single one.

A task receives its arguments as JSON. A process keeps its memo tables for later tasks.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kraftcheck.explorer.result import hidden_read_recorder
from kraftcheck.explorer.search_spec import from_spec
from kraftcheck.explorer.spark.shared_folder import (
    STATES_A_ROW_GROUP,
    SharedFolder,
    StatePacking,
    StateRows,
    least_row_index_of_each_key,
    sorted_packed_words,
    state_indices_by_partition,
)
from kraftcheck.explorer.spark.task_expander import TaskStateExpander
from kraftcheck.explorer.spark.wire_records import WireRecord, WireRecordKind, wire_records_to_table
from kraftcheck.explorer.tables.kernel.hash_set import look_up_entry_flags, mark_entries_of_words
from kraftcheck.explorer.tables.rows import Words
from kraftcheck.explorer.tables.visited import VisitedSetPartition
from kraftcheck.spec.errors import RaisedError

TaskArguments = dict[str, Any]
RecordBatches = Iterator[Any]

MOST_BYTES_A_ROW = 1 << 20  # bytes of states in one row sent to a partition

_STATE_COLUMNS = {"task": pa.int32(), "part": pa.int32(), "states": pa.binary()}
STATES_SCHEMA = pa.schema([pa.field(name, kind, nullable=False) for name, kind in _STATE_COLUMNS.items()])
STATES_DDL = "task int not null, part int not null, states binary not null"


_expanders: dict[str, TaskStateExpander] = {}  # the expander of this process, by run: one at a time


def install_expander(run: str, expander: TaskStateExpander) -> None:
    """Set this process's expander for the tasks of a run."""
    if run not in _expanders:
        _expanders.clear()
    _expanders[run] = expander


def _expander_of_run(arguments: TaskArguments) -> TaskStateExpander:
    """Return this process's expander for a run; make one for a new run."""
    if arguments["run"] not in _expanders:
        protocol, options = from_spec(arguments["description"], Path(arguments["user_files"]))
        protocol.hidden_reads = hidden_read_recorder(protocol, options, first_found=False)
        install_expander(arguments["run"], TaskStateExpander(protocol, options, SharedFolder(arguments["folder"])))
    return _expanders[arguments["run"]]


def _expander_for_level(arguments: TaskArguments) -> TaskStateExpander:
    expander = _expander_of_run(arguments)
    expander.load(arguments["named"])
    expander.begin(arguments["violated"])
    return expander


def _states_to_expand(
    expander: TaskStateExpander, arguments: TaskArguments, batches: RecordBatches
) -> Iterator[StateRows]:
    """Yield the states assigned to the tasks that are listed in `batches`, a row group at a time."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for level, part, group in arguments["tasks"][number]:
                yield expander.shared.read_group(level, part, group)


def expand_and_report(arguments: TaskArguments, batches: RecordBatches) -> RecordBatches:
    """Expand states; report the firing counts, the violations and the new values."""
    discovery = _ExpansionReport(arguments)
    for states in _states_to_expand(discovery.expander, arguments, batches):
        discovery.expand(states)
    yield from wire_records_to_table(discovery.report()).to_batches()


class _ExpansionReport:
    """Collects the reports on expanded states: firing counts, violations and new values."""

    def __init__(self, arguments: TaskArguments) -> None:
        self.expander = _expander_for_level(arguments)
        self._before = Counter(self.expander.table_expander.learner.calls.counts)
        self._unknown = self.expander.ids.report()

    def expand(self, states: StateRows) -> None:
        """Expand states; collect the control rows and inboxes of the successors that have no global id yet."""
        for rows in self.expander.successors(states):
            self._unknown.note(rows)

    def settle(self, level: int, part: int, states: StateRows) -> tuple[int, int]:
        """Check new states, write and expand those within the constraints; return their number and bytes."""
        expander, kept = self.expander, np.ones(len(states), bool)
        try:
            for first in range(0, len(states), STATES_A_ROW_GROUP):
                expander.check(states[first : first + STATES_A_ROW_GROUP])
                kept[first : first + STATES_A_ROW_GROUP] = expander.within(states[first : first + STATES_A_ROW_GROUP])
        except RaisedError:
            expander.shared.write_states(level, part, states)  # the driver looks there for the one that raises
            raise
        states = states if kept.all() else states[kept]
        size = expander.shared.write_states(level, part, states) if len(states) else 0
        for first in range(0, len(states), STATES_A_ROW_GROUP):
            self.expand(states[first : first + STATES_A_ROW_GROUP])
        return len(states), size

    def report(self) -> Iterator[WireRecord]:
        """Yield the records for the driver: firing counts, violations and new values."""
        expander, learner = self.expander, self.expander.table_expander.learner
        calls = [learner.calls.counts[name] - self._before[name] for name in learner.action_names]
        yield WireRecord(WireRecordKind.COUNTS, 0, b"", tuple(expander.table_expander.fired.tolist()))
        yield WireRecord(WireRecordKind.CALLS, 0, b"", tuple(calls))
        yield from expander.events.values()
        reads = learner.protocol.hidden_reads
        for name, readers in reads.found.items() if reads is not None else ():
            yield from (WireRecord(WireRecordKind.READ, 0, f"{name} {reader}".encode()) for reader in readers)
        yield from self._unknown.definitions()


def expand(arguments: TaskArguments, batches: RecordBatches) -> RecordBatches:
    """Expand states; yield their packed successors, addressed to the partitions that own them."""
    expander = _expander_for_level(arguments)
    layout, parts, reducers = StatePacking(arguments["counts"]), arguments["parts"], arguments["reducers"]
    waiting: dict[int, list[bytes]] = defaultdict(list)
    sizes: Counter[int] = Counter()

    def rows_of(part: int) -> Any:
        sizes[part] = 0
        row = {"task": [part * reducers // parts], "part": [part], "states": [b"".join(waiting.pop(part))]}
        return pa.RecordBatch.from_pydict(row, schema=STATES_SCHEMA)

    for states in _states_to_expand(expander, arguments, batches):
        for rows in expander.successors(states, judging=False):
            found = expander.ids.to_global(rows)
            words = layout.pack(found)
            for part, mine in state_indices_by_partition(expander.ids.compared(found), parts):
                data = layout.to_bytes(words[mine])
                waiting[part].append(data)
                sizes[part] += len(data)
                if sizes[part] > MOST_BYTES_A_ROW:
                    yield rows_of(part)
    for part in sorted(waiting):
        yield rows_of(part)


def deduplicate_and_expand(arguments: TaskArguments, batches: RecordBatches) -> RecordBatches:
    """Write the new states among those sent to partitions as the next level, and expand them."""
    compared = None
    known = _expanders.get(arguments["run"])
    if arguments["description"]["view"] is not None:
        known = _expander_for_level(arguments)
        compared = known.ids.compared
    shared = SharedFolder(arguments["folder"]) if known is None else known.shared
    layout, level = StatePacking(arguments["counts"]), arguments["level"]
    candidates, received = _candidates_by_partition(batches, layout)
    discovery: _ExpansionReport | None = None
    found = []
    for part in sorted(candidates):
        levels = arguments["files"].get(str(part), ())
        before = chain.from_iterable(shared.read_part(number, part) for number in levels)
        mine = candidates.pop(part)
        if compared is None:
            fresh = _unvisited_words(mine, before, layout)
        else:
            fresh = _unvisited_words_by_view(mine, before, layout, compared)
        count = size = 0
        if len(fresh):
            discovery = discovery or _ExpansionReport(arguments)
            count, size = discovery.settle(level, part, layout.unpack(fresh))
        found.append(WireRecord(WireRecordKind.NEW, part, b"", (count, size, received[part])))
    report = [] if discovery is None else discovery.report()
    yield from wire_records_to_table([*found, *report]).to_batches()


def _candidates_by_partition(
    batches: RecordBatches, layout: StatePacking
) -> tuple[dict[int, VisitedSetPartition], Counter[int]]:
    """Return, by partition, the states sent to it without duplicates, and the number of states received."""
    candidates: dict[int, VisitedSetPartition] = {}
    received: Counter[int] = Counter()
    for batch in batches:
        for part, data in zip(batch.column(1).to_pylist(), batch.column(2), strict=True):
            if part not in candidates:
                candidates[part] = layout.partition()
            words = layout.from_bytes(data.as_buffer())
            received[part] += len(words)
            candidates[part].add_words(words)
    return candidates, received


def _unvisited_words(candidates: VisitedSetPartition, before: Iterator[StateRows], layout: StatePacking) -> Words:
    """Return the packed words of the candidates that are not visited, in ascending order."""
    visited = _visited_flags_by_place(candidates, (layout.pack(states) for states in before))
    return sorted_packed_words(candidates.words()[visited[candidates.places != 0] == 0])


def _unvisited_words_by_view(
    candidates: VisitedSetPartition,
    before: Iterator[StateRows],
    layout: StatePacking,
    compared: Callable[[StateRows], StateRows],
) -> Words:
    """Return the unvisited candidates under a VIEW; among candidates with equal views, only the least."""
    words = candidates.words()
    keys = layout.pack(compared(layout.unpack(words)))
    least = least_row_index_of_each_key(keys, words)
    words, keys = words[least], keys[least]
    looks = layout.partition()
    looks.add_words(keys)
    visited = _visited_flags_by_place(looks, (layout.pack(compared(states)) for states in before))
    known = np.zeros(len(keys), np.uint8)
    look_up_entry_flags(looks.keys, looks.places, looks.layout, keys, visited, known)
    return sorted_packed_words(words[known == 0])


def _visited_flags_by_place(candidates: VisitedSetPartition, visited: Iterator[Words]) -> Any:
    """Return a flag for each place of a partition: whether its entry is among the `visited` words."""
    flags = np.zeros(len(candidates.places), np.uint8)
    for words in visited:
        mark_entries_of_words(candidates.keys, candidates.places, candidates.layout, words, flags)
    return flags


def find_predecessors(arguments: TaskArguments, batches: RecordBatches) -> RecordBatches:
    """Report the first state of each row group that leads to a given state."""
    expander = _expander_for_level(arguments)
    target = np.array(arguments["target"], np.int32)
    found = (expander.predecessor(states, target) for states in _states_to_expand(expander, arguments, batches))
    events = [WireRecord(WireRecordKind.EVENT, 0, b"", tuple(state.tolist())) for state in found if state is not None]
    yield from wire_records_to_table(events).to_batches()


TASKS: dict[str, Callable[[TaskArguments, RecordBatches], RecordBatches]] = {
    f"{__name__}:{task.__name__}": task
    for task in (expand_and_report, expand, deduplicate_and_expand, find_predecessors)
}
"""The tasks, by the names under which executors find them."""

EXPAND_AND_REPORT, EXPAND, DEDUPLICATE, FIND_PREDECESSORS = TASKS

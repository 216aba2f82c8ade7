"""Checkpoints of the Spark engine: the shared folder, with a manifest after each level.

A checkpoint is untrusted input with digests of its own, so the driver repeats part of the search before it continues. A
small search is repeated in full. Of a larger one, sampled states must be in their partitions, and lead to states with
defined parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import SystemRandom
from typing import Any

from kraftcheck.explorer.checkpoint import SearchCheckpoint, checkpoint_folder_of
from kraftcheck.explorer.result import DEADLOCK, SearchRequest, Violation
from kraftcheck.explorer.spark.global_ids import MissingGlobalIdError
from kraftcheck.explorer.spark.shared_folder import SharedFolder, StateRows, row_group_count, state_indices_by_partition
from kraftcheck.explorer.spark.task_expander import TaskStateExpander
from kraftcheck.explorer.tables.kernel.codes import EVENT_DEADLOCK
from kraftcheck.files import TemporaryFolder
from kraftcheck.persistence.stored_files import errors_as_corrupt_file, require_condition
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics, initial_states

MANIFEST_SHAPE = {
    "parts": int,
    "levels": [[(int, int)]],
    "named": [int],
    "actions": {str: int},
    "calls": {str: int},
    "seconds": float,
    "figures": [dict],
}
"""Shape of the engine's entry in the manifest: see `require_json_shape`."""

MOST_RECHECKED_STATES = 50_000  # most states of a search that is repeated in full
SAMPLED_ROW_GROUPS, STATES_OF_SAMPLED_GROUP = 16, 1 << 10
"""Row groups of a larger search that are sampled, and states of each."""


@dataclass
class SavedSearchProgress:
    """Counts, violations and statistics of a search so far, as a checkpoint stores them, without the states."""

    parts: int = 0  # number of partitions
    # number of states in each non-empty partition, by level
    levels: list[dict[int, int]] = field(default_factory=list)
    named: list[int] = field(default_factory=list)  # levels that introduce global ids
    actions: Counter[str] = field(default_factory=Counter)  # number of times that each action fired
    calls: Counter[str] = field(default_factory=Counter)  # number of times that each was called in Python
    seconds: float = 0.0  # time of the search
    violations: list[Violation] = field(default_factory=list)
    figures: list[dict[str, Any]] = field(default_factory=list)  # statistics of each level

    def count(self, level: int) -> int:
        """Return the number of states in a level; levels count from 1, and -1 is the last level."""
        return sum(self.levels[level if level < 0 else level - 1].values())

    @property
    def distinct(self) -> int:
        """Number of states found."""
        return sum(sum(parts.values()) for parts in self.levels)

    @property
    def depth(self) -> int:
        """Number of levels with states."""
        return sum(1 for parts in self.levels if parts)


class SparkCheckpoint(SearchCheckpoint):
    """Checkpoint of a search, in its shared folder."""

    def __init__(self, protocol: Protocol, options: SearchRequest) -> None:
        folder = checkpoint_folder_of(options)
        self.temporary: TemporaryFolder | None = None
        if folder is None:
            self.temporary = TemporaryFolder()
            folder = self.temporary.path / "checkpoint"
        super().__init__(folder, protocol, options, initial_states(Semantics(protocol), options.init), engine="spark")
        self.shared = SharedFolder(folder)

    def save(self, log: SavedSearchProgress, *, finished: bool) -> None:
        """Save the levels found so far as the checkpoint."""
        noted = vars(log) | {"levels": [sorted(parts.items()) for parts in log.levels]}
        self.save_search(noted, noted.pop("violations"), finished=finished)

    def restore(self, load: Callable[[list[int]], None]) -> SavedSearchProgress:
        """Validate the checkpoint and return its progress; remove the files of later levels from the folder."""
        with self.rejecting():
            noted, violations = self.read_search(MANIFEST_SHAPE)
            levels = [dict(map(tuple, parts)) for parts in noted["levels"]]
            require_condition(bool(levels) and all(levels[:-1]), "there are no levels, or one but the last is empty")
            require_condition(set(noted["named"]) <= {*range(1, len(levels) + 1)}, "ids of other levels")
            names = {*self.protocol.actions, *self.protocol.network.own_actions()}
            require_condition(noted["actions"].keys() == names, "it has counts of other actions")
            self.shared.clear(after=len(levels))
            for level, parts in enumerate(levels, start=1):
                for part, rows in parts.items():
                    found = self.shared.count(level, part)
                    problem = f"level {level}, partition {part}: expected {rows} states, found {found}"
                    require_condition(0 < rows == found and part < noted["parts"], problem)
            with errors_as_corrupt_file("a definition of another form"):
                load(noted["named"])
        tallies: Any = {name: Counter(noted[name]) for name in ("actions", "calls")}
        return SavedSearchProgress(**{**noted, **tallies, "levels": levels, "violations": violations})

    def close(self) -> None:
        """Release the folder; remove a temporary one."""
        super().close()
        if self.temporary is not None:
            self.temporary.close()


class CheckpointSampleRecheck:
    """Repeats a sample of a checkpointed search, and compares the results with the checkpoint."""

    def __init__(self, tasks: TaskStateExpander, log: SavedSearchProgress) -> None:
        self._tasks = tasks
        self._log = log

    def require_same(self, starts: StateRows) -> None:
        """Repeat the search, and raise CorruptFileError if the checkpoint differs."""
        self._tasks.begin(())
        try:
            if self._log.distinct <= MOST_RECHECKED_STATES:
                self._search_all(starts)
            else:
                self._search_some()
        except MissingGlobalIdError:
            require_condition(False, "its states lead to an undefined state")
        violated = {violation.property for violation in self._log.violations}
        for kind, mask in self._tasks.events:
            named = {prop.name for prop in self._tasks.properties_in(kind, mask)}
            new = ({DEADLOCK} if kind == EVENT_DEADLOCK else named) - violated
            require_condition(not new, f"the violation of {', '.join(sorted(new))} is missing")

    def _search_all(self, starts: StateRows) -> None:
        levels, known = self._log.levels, set[bytes]()
        new = set(self._looks(self._tasks.ids.to_global(starts)))
        for number, parts in enumerate(levels, start=1):
            found = list[bytes]()
            following = set[bytes]()
            for part in parts:
                for states in self._tasks.shared.read_part(number, part):
                    found += self._looks(states, part)
                    for rows in self._tasks.successors(states) if number < len(levels) else ():
                        reached = self._tasks.ids.to_global(rows)
                        following.update(self._looks(reached[self._tasks.within(reached)]))
            is_same = len(found) == len(new) and set(found) == new
            require_condition(is_same, f"level {number}: expected {len(new)} states, found {len(found)}, or other ones")
            known |= new
            new = following - known
        expander = self._tasks.table_expander
        fired = dict(zip(expander.learner.action_names, expander.fired.tolist(), strict=True))
        require_condition(fired == self._log.actions, "actions fired another number of times")

    def _looks(self, states: StateRows, part: int | None = None) -> Iterator[bytes]:
        """Return the comparison keys of states as bytes; require that all states belong to the partition `part`."""
        self._tasks.ids.require_known(states)
        compared = self._tasks.ids.compared(states)
        if part is not None:
            owners = [owner for owner, _ in state_indices_by_partition(compared, self._log.parts)]
            require_condition(owners == [part], f"partition {part} has states of another one")
        return (row.tobytes().rstrip(b"\0") for row in compared)

    def _search_some(self) -> None:
        random, levels = SystemRandom(), list(enumerate(self._log.levels, start=1))
        places = [(level, part, rows) for level, parts in levels for part, rows in parts.items()]
        for level, part, rows in random.choices(places, k=SAMPLED_ROW_GROUPS):
            group = random.randrange(row_group_count(rows))
            states = self._tasks.shared.read_group(level, part, group)[:STATES_OF_SAMPLED_GROUP]
            list(self._looks(states, part))
            for found in self._tasks.successors(states) if level < len(levels) else ():
                self._tasks.ids.to_global(found)

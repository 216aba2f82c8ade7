"""Searches part of a checkpoint of Spark's again, on the driver; it may come from strangers, with digests of their own.

Of few states all levels are searched again. Of more it is only required that a sample of them leads to states whose
parts are defined, and that these are in their partitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import SystemRandom

from kraftcheck.explorer.result import DEADLOCK
from kraftcheck.explorer.spark.global_ids import UnknownPartError
from kraftcheck.explorer.spark.journal import Journal
from kraftcheck.explorer.spark.packed_states import by_partition
from kraftcheck.explorer.spark.shared_folder import States, groups_of
from kraftcheck.explorer.spark.task_expander import TaskExpander
from kraftcheck.explorer.tables.checkpoints.requirements import require
from kraftcheck.explorer.tables.kernel.codes import STUCK

WHOLE = 50_000  # states that are searched again as a whole
GROUPS, PIECE = 16, 1 << 10  # row groups of larger ones, and states of each


class LevelsAgain:
    """Compares a checkpoint with what a search finds."""

    def __init__(self, tasks: TaskExpander, journal: Journal) -> None:
        self._tasks = tasks
        self._journal = journal

    def require_same(self, starts: States) -> None:
        """Search again, and raise Damaged where the checkpoint has something else."""
        self._tasks.begin(())
        try:
            if self._journal.distinct <= WHOLE:
                self._search_all(starts)
            else:
                self._search_some()
        except UnknownPartError:
            require(False, "its states lead to one that it does not define")
        violated = {violation.property for violation in self._journal.violations}
        for kind, mask in self._tasks.events:
            named = {prop.name for prop in self._tasks.table_expander.properties_in(kind, mask)}
            new = ({DEADLOCK} if kind == STUCK else named) - violated
            require(not new, f"a violation of {', '.join(sorted(new))} is not noted")

    def _search_all(self, starts: States) -> None:
        levels, known = self._journal.levels, set[bytes]()
        new = set(self._looks(self._tasks.ids.to_global(starts)))
        for number, parts in enumerate(levels, start=1):
            found = list[bytes]()
            following = set[bytes]()
            for part in parts:
                for states in self._tasks.shared.read_part(number, part):
                    found += self._looks(states, part)
                    for rows in self._tasks.successors(states) if number < len(levels) else ():
                        following.update(self._looks(self._tasks.ids.to_global(rows)))
            is_same = len(found) == len(new) and set(found) == new
            require(is_same, f"level {number}: expected {len(new)} states, found {len(found)}, or other ones")
            known |= new
            new = following - known
        expander = self._tasks.table_expander
        fired = dict(zip(expander.learner.action_names, expander.fired.tolist(), strict=True))
        require(fired == self._journal.actions, "actions fired another number of times")

    def _looks(self, states: States, part: int | None = None) -> Iterator[bytes]:
        """Yield what states are compared by; require that they are of a partition."""
        self._tasks.ids.require_known(states)
        compared = self._tasks.ids.compared(states)
        if part is not None:
            owners = [owner for owner, _ in by_partition(compared, self._journal.parts)]
            require(owners == [part], f"partition {part} has states of another one")
        return (row.tobytes().rstrip(b"\0") for row in compared)

    def _search_some(self) -> None:
        random, levels = SystemRandom(), list(enumerate(self._journal.levels, start=1))
        places = [(level, part, rows) for level, parts in levels for part, rows in parts.items()]
        for level, part, rows in random.choices(places, k=GROUPS):
            group = random.randrange(groups_of(rows))
            states = self._tasks.shared.read_group(level, part, group)[:PIECE]
            list(self._looks(states, part))
            for found in self._tasks.successors(states) if level < len(levels) else ():
                self._tasks.ids.to_global(found)

"""Behaviours out of levels of sets: of one state a predecessor within the level before it, and so on to the start."""

from __future__ import annotations

from collections.abc import Sequence

from kraftcheck.explorer.symbolic.relations import BY_MESSAGE, BY_VALUE, Change
from kraftcheck.explorer.symbolic.search import Space
from kraftcheck.explorer.symbolic.store import EMPTY, UNIT
from kraftcheck.spec.language.state import State

Vector = tuple[int, ...]


class Predecessors:
    """Finds a state of a set that leads to a given one."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._applied: dict[tuple[int, int], int] = {}

    def path(self, levels: Sequence[int], target: Sequence[int]) -> list[State]:
        """Return states each of which leads to the next, and the last to the target, then this."""
        path = [tuple(target)]
        for level in reversed(levels):
            if not self._holds(level, 0, path[-1]):
                path.append(self._before(level, path[-1], is_last=len(path) == 1))
        return [self._space.variables.decode(vector) for vector in reversed(path)]

    def _before(self, states: int, target: Vector, *, is_last: bool) -> Vector:
        """Return a state of a set that leads to the target; only a way's last step may be beyond action constraints."""
        for root in (*self._space.groups.roots(), *(self._space.pruned_roots() if is_last else ())):
            found = self._find(states, root, 0, target, set())
            if found is not None:
                vector = list(target)
                for level, value in found:
                    vector[level] = value
                return tuple(vector)
        raise AssertionError("no state of the level before leads to this one")

    def _find(
        self, a: int, r: int, at: int, target: Vector, failed: set[tuple[int, int, int]]
    ) -> list[tuple[int, int]] | None:
        """Return what is another, from a level on, in a state of the set that leads to the target: level and value."""
        if a == EMPTY or r == 0 or (a, r, at) in failed:
            return None
        store, nodes = self._space.store, self._space.groups.nodes
        if r == 1:
            return [] if self._holds(a, at, target) else None
        level, edges = store.edges(a)
        there, changes = nodes.node(r)
        if any(target[at : min(level, there)]):  # a level that the set leaves out is 0 in it
            return None
        if level < there:
            for value, child in edges:
                if value == target[level]:
                    found = self._find(child, r, level + 1, target, failed)
                    if found is not None:
                        return found
        else:
            for value, child in edges if level == there else [(0, a)]:
                for change, rest in changes:
                    if self._leads(there, change, value, target[there]):
                        found = self._find(child, rest, there + 1, target, failed)
                        if found is not None:
                            return [(there, value), *found]
        failed.add((a, r, at))
        return None

    def _holds(self, a: int, at: int, target: Vector) -> bool:
        """Whether a set has the rest of the target, from a level on."""
        while a != UNIT:
            level, edges = self._space.store.edges(a)
            child = dict(edges).get(target[level], EMPTY)
            if child == EMPTY or any(target[at:level]):
                return False
            a, at = child, level + 1
        return not any(target[at:])

    def _leads(self, level: int, change: Change, value: int, target: int) -> bool:
        if change.how == BY_VALUE:
            return value == change.key and target == change.result
        labels = self._space.labels
        if change.how == BY_MESSAGE:
            if change.key not in labels.classes_of(level, labels.messages(level), value):
                return False
            label = change.result
        else:
            label = change.key
        key = (label, value)
        if key not in self._applied:
            self._applied[key] = labels.apply(label, value)
        return self._applied[key] == target

"""What a search on Spark has found so far, level by level."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from kraftcheck.explorer.result import Violation


@dataclass
class Journal:
    """What a search has found. A checkpoint saves it, by these names; the states are in the shared folder."""

    parts: int = 0  # number of partitions
    # number of states in each partition that has any, by level
    levels: list[dict[int, int]] = field(default_factory=list)
    named: list[int] = field(default_factory=list)  # levels that are the first to have some global ids
    actions: Counter[str] = field(default_factory=Counter)  # times each action fired, and times it was called in Python
    calls: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0  # time that the search took
    violations: list[Violation] = field(default_factory=list)  # what is violated
    figures: list[dict[str, Any]] = field(default_factory=list)  # what each level took

    def count(self, level: int) -> int:
        """Return the number of states in a level; the first is 1, the last -1 too."""
        return sum(self.levels[level if level < 0 else level - 1].values())

    @property
    def distinct(self) -> int:
        """States found."""
        return sum(sum(parts.values()) for parts in self.levels)

    @property
    def depth(self) -> int:
        """Levels that have states."""
        return sum(1 for parts in self.levels if parts)

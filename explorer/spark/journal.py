"""What a search on Spark has found so far, level by level."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from kraftcheck.explorer.result import Violation


@dataclass
class Journal:
    """What a search has found. A checkpoint saves it, by these names; the states are in the shared folder.

    Attributes
    ----------
    parts
        Number of partitions.
    levels
        Number of states in each partition that has any, by level.
    named
        Levels that are the first to have some global ids.
    actions, calls
        Times each action fired, and times it was called in Python.
    seconds
        Time that the search took.
    violations
        What is violated.
    figures
        What each level took.
    """

    parts: int = 0
    levels: list[dict[int, int]] = field(default_factory=list)
    named: list[int] = field(default_factory=list)
    actions: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    violations: list[Violation] = field(default_factory=list)
    figures: list[dict[str, Any]] = field(default_factory=list)

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

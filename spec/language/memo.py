"""Memo of outcomes or interned values, which keeps nothing where inputs hardly repeat."""

from __future__ import annotations

from typing import Any

from kraftcheck.spec.values import Record, Value, is_same

TRIAL = 1 << 13
"""Outcomes that a memo adds between two checks of its use."""


class Memo(dict[Any, Any]):
    """Outcomes by input, or interned values. It empties itself, and keeps no more, where inputs hardly repeat."""

    __slots__ = ("hits", "is_useless")

    def __init__(self) -> None:
        self.hits = 0
        self.is_useless = False

    def keep(self, key: Value, outcome: Value) -> None:
        """Add an outcome, unless fewer than an eighth of the last lookups were hits."""
        if self.is_useless:
            return
        self[key] = outcome
        if len(self) % TRIAL == 0:
            self._judge()

    def _judge(self) -> None:
        self.is_useless = self.hits < TRIAL // 8
        self.hits = 0
        if self.is_useless:
            self.clear()

    def intern(self, value: Value) -> Value:
        """Return the interned object of a value."""
        if self.is_useless:
            return value
        found = self.setdefault(value, value)
        if found is not value:
            self.hits += 1
            return found if is_same(found, value) else value  # 1 and True are equal keys
        if len(self) % TRIAL == 0:
            self._judge()
        return value


class FieldValues(Memo):
    """Interned values of a field. A sequence mostly grows at its end, so its last record is interned too."""

    __slots__ = ("_ends",)

    def __init__(self) -> None:
        super().__init__()
        self._ends = Memo()

    def intern(self, value: Value) -> Value:
        """Return the interned object of a value."""
        if type(value) is tuple and value and isinstance(value[-1], Record):
            last = self._ends.intern(value[-1])
            if last is not value[-1]:
                value = (*value[:-1], last)
        return super().intern(value)

"""Memory usage of the memo tables: exact for arrays, sampled for Python values."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable
from itertools import chain
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.learning.learner import Learner

SAMPLE = 64  # values in a sample
ENTRY = 130  # bytes of a dictionary's entry for a value, and of its id
PATH = 100  # bytes, at most, of a decision tree's branch outside the tables
GIB, MIB = 1 << 30, 1 << 20

_TABLES = {
    "control rows": ("rows", "row_table", "row_info", "row_items", "permuted_rows", "changed"),
    "inbox contents": (
        *("contents", "inbox_codes", "content_items", "content_table"),
        *("operated", "inbox_answers", "permuted_contents"),
    ),
    "replica states with an inbox": ("bundles", "bundle_items"),
    "replica states": ("local_answers", "permuted_locals"),
    "parts of states": ("cluster_table", "cluster_items"),
    "messages": ("messages", "operations", "network_operations", "permuted_messages"),
}
_REST = "handler calls"
_OF = {table: name for name, tables in _TABLES.items() for table in tables}


class KindUsage(NamedTuple):
    """Memory usage of one kind of memoized data."""

    what: str  # name of the kind
    number: int
    nbytes: int

    def __str__(self) -> str:
        return f"{self.number:,} {self.what} {text_of_size(self.nbytes)}"


class MemoUsage:
    """Memory accounting of a learner."""

    def __init__(self, learner: Learner) -> None:
        self._learner = learner
        self._sampled: dict[str, tuple[int, float]] = {}

    def kinds(self) -> list[KindUsage]:
        """Return the usage of each kind, the largest first."""
        learner, interner = self._learner, self._learner.interner
        tables = interner.tables
        taken = dict.fromkeys((*_TABLES, _REST), 0)
        for name in tables.declared:
            taken[_OF.get(name, _REST)] += int(getattr(tables, name).nbytes)
        meta = tables.meta.tolist()
        counts = {
            "control rows": meta[codes.M_ROWS],
            "inbox contents": meta[codes.M_CONTENTS],
            "replica states with an inbox": meta[codes.M_BUNDLES],
            "replica states": len(interner.locals),
            "parts of states": meta[codes.M_CLUSTERS],
            "messages": len(interner.inboxes.messages),
            _REST: sum(learner.calls.counts.values()),
        }
        taken["replica states"] += self._of_values("replica states", len(interner.locals), interner.locals.__getitem__)
        messages = interner.inboxes.messages
        taken["messages"] += self._of_values("messages", len(messages), messages.__getitem__)
        contents = interner.inboxes.content_values
        last = list(contents)[-SAMPLE:] if self._is_due("inbox contents", len(contents)) else []
        first = len(contents) - len(last)
        taken["inbox contents"] += self._of_values(
            "inbox contents", len(contents), lambda place: contents[last[place - first]]
        )
        taken["messages"] += ENTRY * len(interner.inboxes.operations)
        taken[_REST] += PATH * meta[codes.M_BRANCHES] + ENTRY * (meta[codes.M_ROOTS] + meta[codes.M_DELTAS])
        found = [KindUsage(name, counts[name], nbytes) for name, nbytes in taken.items()]
        return sorted(found, key=lambda one: -one.nbytes)

    def over_budget_note(self, kinds: list[KindUsage], most: int) -> str:
        """Return the message for memo tables larger than `most` bytes, which `--memory` leaves them."""
        calls = self._learner.calls.counts.most_common(1)
        called = f"; most calls: {calls[0][0]}, {calls[0][1]:,} times" if calls else ""
        return (
            f"the model's memo tables take {text_of_size(sum(one.nbytes for one in kinds))}, and --memory leaves them "
            f"{text_of_size(most)}: {', '.join(map(str, kinds))}{called}; they stay in memory: "
            "raise --memory, or use smaller bounds"
        )

    def _is_due(self, what: str, count: int) -> bool:
        return count >= 2 * self._sampled.get(what, (0, 0.0))[0]

    def _of_values(self, what: str, count: int, value: Callable[[int], Any]) -> int:
        """Return the estimated bytes of `count` values; their mean is sampled again whenever the count has doubled."""
        if count and self._is_due(what, count):
            sample = range(max(0, count - SAMPLE), count)
            self._sampled[what] = count, size_of(map(value, sample)) / len(sample)
        return int(count * (self._sampled.get(what, (0, 0.0))[1] + ENTRY))


def size_of(values: Iterable[Any]) -> int:
    """Return the bytes of values and all objects reachable from them, counted once, except classes and modules."""
    seen: set[int] = set()
    found, waiting = 0, [value for value in values if value is not None]
    while waiting:
        waiting = [
            one for one in waiting if id(one) not in seen and not isinstance(one, type | ModuleType | FunctionType)
        ]
        waiting = list({id(one): one for one in waiting}.values())
        seen.update(map(id, waiting))
        found += sum(map(sys.getsizeof, waiting))
        waiting = list(chain.from_iterable(gc.get_referents(one) for one in waiting))
    return found


def text_of_size(nbytes: int) -> str:
    """Format a number of bytes.

    Examples
    --------
    >>> text_of_size(3 << 29), text_of_size(5 << 20)
    ('1.5 GiB', '5 MiB')
    """
    return f"{nbytes / GIB:.1f} GiB" if nbytes >= GIB else f"{-(-nbytes // MIB)} MiB"

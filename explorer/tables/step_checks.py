"""Refinements on the steps that the kernel collects: each step as a pair of numbered abstract states.

An abstract state is looked up by the parts of the state that the mapping reads. The mapping is called once for each
distinct input, and the steps of the abstract protocol are computed once for each abstract state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.calls.proxies import StateProxy
from kraftcheck.explorer.tables.learning.interner import Interner
from kraftcheck.explorer.tables.states.packed_rows import Rows, distinct
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.refinement import Refinement
from kraftcheck.spec.language.semantics import Semantics

MOST_KNOWN = 1 << 20
"""Most inputs whose abstract states are kept."""

Numbers = NDArray[np.int64]


class Mapping:
    """The abstract states of rows, by number; memoized by the parts of the state that the mapping has read."""

    def __init__(self, interner: Interner, refinement: Refinement) -> None:
        self.refinement = refinement
        self._interner = interner
        self._parts: dict[str, None] = {}
        self._known: dict[bytes, int] = {}
        self._columns = (0, 0)

    def of(self, rows: Rows) -> Numbers:
        """Return the number of each row's abstract state."""
        while True:
            columns, parts = self._inputs(rows), len(self._parts)
            first, which = distinct(columns)
            numbers = np.zeros(len(first), np.int64)
            for place, row in enumerate(first.tolist()):
                key = columns[:, row].tobytes()
                if key not in self._known:
                    self._learn(key, rows[row])
                    if len(self._parts) > parts:
                        break
                numbers[place] = self._known[key]
            else:
                return numbers[which]

    def _learn(self, key: bytes, row: Any) -> None:
        decode, parts = self._interner.decoder(row), len(self._parts)

        def read(name: str) -> Any:
            self._parts[name] = None
            return decode(name)

        number = self.refinement.evaluated(StateProxy(read))
        if len(self._parts) > parts or len(self._known) >= MOST_KNOWN:
            self._known.clear()
        if len(self._parts) == parts:
            self._known[key] = number

    def _inputs(self, rows: Rows) -> Rows:
        """Return the columns of the parts that the mapping has read, one row each."""
        interner = self._interner
        control, contents = interner.parts_of(rows)
        bounds, base = len(interner.bounds), interner.base
        if self._columns != (base, len(interner.slots)):  # columns of other meaning
            self._columns = base, len(interner.slots)
            self._known.clear()
        found = {
            "spent": control[:, :bounds],
            "shared": control[:, bounds:base],
            "replicas": control[:, base:],
            "inboxes": contents,
        }
        parts = [np.zeros((len(rows), 1), np.int32), *(found[name] for name in self._parts)]
        return np.ascontiguousarray(np.concatenate(parts, axis=1, dtype=np.int32).T)


class StepChecks:
    """Evaluates the refinements of a search on collected steps."""

    def __init__(self, interner: Interner, refinements: list[tuple[int, Property]]) -> None:
        semantics = Semantics(interner.protocol)
        self._mappings = [(1 << bit, Mapping(interner, semantics.refinement(prop))) for bit, prop in refinements]

    def violated_by(self, rows: Rows, targets: Rows, sources: Numbers, seen: int) -> Iterator[tuple[int, int]]:
        """Yield the first source with a violating step, and the bit of the property, unless the mask `seen` has it.

        Step `i` leads from rows[sources[i]] to targets[i].
        """
        for bit, mapping in self._mappings if len(targets) else ():
            if not seen & bit:
                here, where = np.unique(sources, return_inverse=True)
                before, after = mapping.of(rows[here])[where], mapping.of(targets)
                wrong = self._wrong(mapping.refinement, before, after)
                if wrong.any():
                    yield int(sources[wrong].min()), bit

    def along(self, rows: Rows) -> Iterator[tuple[int, int]]:
        """Yield the place of the first row of a path to which a violating step leads, and the bit of the property."""
        for bit, mapping in self._mappings:
            numbers = mapping.of(rows)
            wrong = self._wrong(mapping.refinement, numbers[:-1], numbers[1:])
            if wrong.any():
                yield int(wrong.argmax()) + 1, bit

    def _wrong(self, refinement: Refinement, before: Numbers, after: Numbers) -> NDArray[np.bool_]:
        """Return which pairs of abstract states are no step of the abstract protocol."""
        count = len(refinement.mapped)
        pairs, which = np.unique(before * count + after, return_inverse=True)
        allowed = [refinement.allows(*divmod(pair, count)) for pair in pairs.tolist()]
        wrong: NDArray[np.bool_] = ~np.array(allowed, bool)[which]
        return wrong

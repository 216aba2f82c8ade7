"""Definitions of the values that a process has met and that have no global ids yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kraftcheck.explorer.spark.definitions import (
    CLASS,
    CONTROL,
    INBOX,
    LOCAL,
    MESSAGE,
    MODEL_VALUE,
    SHARED,
    SLOT,
    Definition,
)
from kraftcheck.explorer.spark.global_ids import UNKNOWN, GlobalIds, IdMap
from kraftcheck.spec.decoding import Lexicon
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.values import Value, encode


def undefined(ids: GlobalIds, controls: Iterable[int], contents: Iterable[int]) -> Iterator[Definition]:
    """Yield the definitions that control rows and inbox contents of this process need to get global ids.

    In `numbers`, and as the slot of an inbox, a value without a global id is -1 - n, where n is the place of its
    definition among the values yielded.

    Parameters
    ----------
    ids
        The global ids that this process knows.
    controls, contents
        The process's ids.

    Raises
    ------
    InputError
        Where a value is of a class that other processes cannot find.
    """
    report = _Report(ids)
    for own in sorted(controls):
        report.control(own)
    for own in sorted(contents):
        report.inbox(own)
    yield from report.lexicon()
    yield from report.values
    yield from report.composites


class _Report:
    def __init__(self, ids: GlobalIds) -> None:
        self.ids = ids
        self.values: list[Definition] = []
        self.composites: list[Definition] = []
        self._places: dict[tuple[int, int, int], int] = {}
        known = ids.lexicon
        self._seen = Lexicon(known.classes, known.model_values.values())

    def lexicon(self) -> Iterator[Definition]:
        """Yield the classes and model values that are new."""
        known = self.ids.lexicon
        for cls in self._seen.classes[:]:
            if cls not in known.classes:
                yield Definition(CLASS, 0, f"{cls.__module__}:{cls.__qualname__}".encode())
        for value in self._seen.model_values.values():
            if value.name not in known.model_values:
                yield Definition(MODEL_VALUE, value.index, value.name.encode())

    def _number(self, ids: IdMap, kind: int, own: int, value: Value, column: int = 0) -> int:
        """Return the global id of a value, or refer to its definition in this report."""
        if own < len(ids.to_global) and ids.to_global[own] != UNKNOWN:
            return int(ids.to_global[own])
        place = self._places.setdefault((kind, column, own), len(self.values))
        if place == len(self.values):
            self.values.append(Definition(kind, column, self._encoded(value)))
        return -1 - place

    def _encoded(self, value: Value) -> bytes:
        known = len(self._seen.classes)
        self._seen.note(value)
        for cls in self._seen.classes if len(self._seen.classes) > known else ():
            if self.ids.classes.get((cls.__module__, cls.__qualname__)) is not cls:
                raise InputError(
                    f"values of {cls.__qualname__} (module {cls.__module__}) cannot go from one process to another: "
                    "nothing in the protocol leads to it; import it by name in the protocol's module"
                )
        return encode(value)

    def _slot(self, own: int) -> int:
        return self._number(self.ids.slots, SLOT, own, list(self.ids.learner.slots)[own])

    def control(self, own: int) -> None:
        """Define a control row."""
        ids, learner = self.ids, self.ids.learner
        row = learner.a["rows"][own].tolist()
        first, base = len(learner.bounds), len(learner.bounds) + len(learner.shared_names)
        numbers = row[:first]
        for i, value in enumerate(row[first:base]):
            numbers.append(self._number(ids.shared[i], SHARED, value, learner.shared_values[i][value], i))
        for slot, local in enumerate(row[base : base + len(learner.slots)]):
            if local:
                numbers += [self._slot(slot), self._number(ids.locals, LOCAL, local, learner.locals[local])]
        self.composites.append(Definition(CONTROL, 0, b"", tuple(numbers)))

    def inbox(self, own: int) -> None:
        """Define an inbox content."""
        learner = self.ids.learner
        slot, _, start, n, _ = learner.a["contents"][own].tolist()
        if own in learner.content_values:
            encoding = self._encoded(learner.content_values[own])
            self.composites.append(Definition(INBOX, self._slot(slot), encoding))
            return
        numbers: list[int] = []
        for message, count in learner.a["content_items"][start : start + n].tolist():
            numbers += [self._number(self.ids.messages, MESSAGE, message, learner.messages[message]), count]
        self.composites.append(Definition(INBOX, self._slot(slot), b"", tuple(numbers)))

"""Reports what a process has met that has no global ids yet."""

from __future__ import annotations

from collections.abc import Iterator

from kraftcheck.explorer.spark.definitions import Definition, Kind
from kraftcheck.explorer.spark.global_ids import UNKNOWN, GlobalIds, IdMap, States
from kraftcheck.spec.encoding import Lexicon, encode
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.values import Value


class IdReport:
    """Notes parts of states that need global ids, and defines them."""

    def __init__(self, ids: GlobalIds) -> None:
        self._ids = ids
        self._controls: set[int] = set()
        self._contents: set[int] = set()
        self._values: list[Definition] = []
        self._places: dict[tuple[int, int, int], int] = {}
        self._seen = Lexicon(ids.lexicon.classes, ids.lexicon.model_values.values())

    def note(self, rows: States) -> None:
        """Note the control rows and inbox contents of states, and their images, that have no global id."""
        self._controls.update(self._ids.unknown(rows, 0))
        for column in range(1, rows.shape[1]):
            self._contents.update(self._ids.unknown(rows, column))

    def definitions(self) -> Iterator[Definition]:
        """Yield the definitions of what was noted, and before them those of what it is made of.

        In `numbers`, and as the slot of an inbox, a value without a global id is -1 - n, where n is the place of its
        definition among the values yielded.
        """
        composites = [*map(self._control, sorted(self._controls)), *map(self._inbox, sorted(self._contents))]
        yield from self._lexicon()
        yield from self._values
        yield from composites

    def _lexicon(self) -> Iterator[Definition]:
        """Yield the classes and model values that are new."""
        known = self._ids.lexicon
        for cls in self._seen.classes:
            if cls not in known.classes:
                yield Definition(Kind.CLASS, 0, f"{cls.__module__}:{cls.__qualname__}".encode())
        for value in self._seen.model_values.values():
            if value.name not in known.model_values:
                yield Definition(Kind.MODEL_VALUE, value.index, value.name.encode())

    def _number(self, ids: IdMap, kind: Kind, own: int, value: Value, column: int = 0) -> int:
        """Return the global id of a value, or refer to its definition in this report."""
        if own < len(ids.to_global) and ids.to_global[own] != UNKNOWN:
            return int(ids.to_global[own])
        place = self._places.setdefault((kind, column, own), len(self._values))
        if place == len(self._values):
            self._values.append(Definition(kind, column, self._encoded(value)))
        return -1 - place

    def _encoded(self, value: Value) -> bytes:
        known = len(self._seen.classes)
        self._seen.note(value)
        for cls in self._seen.classes if len(self._seen.classes) > known else ():
            if self._ids.classes.get((cls.__module__, cls.__qualname__)) is not cls:
                raise InputError(
                    f"values of {cls.__qualname__} (module {cls.__module__}) cannot go from one process to another: "
                    "nothing in the protocol leads to it; import it by name in the protocol's module"
                )
        return encode(value)

    def _slot(self, own: int) -> int:
        return self._number(self._ids.slots, Kind.SLOT, own, list(self._ids.interner.slots)[own])

    def _control(self, own: int) -> Definition:
        """Return the definition of a control row."""
        ids, interner = self._ids, self._ids.interner
        row = interner.values_of_control_row(own)
        first, base = len(interner.bounds), interner.base
        numbers = row[:first]
        for i, value in enumerate(row[first:base]):
            numbers.append(self._number(ids.shared[i], Kind.SHARED, value, interner.shared_values[i][value], i))
        for slot, local in enumerate(row[base : base + len(interner.slots)]):
            if local:
                numbers += [self._slot(slot), self._number(ids.locals, Kind.LOCAL, local, interner.locals[local])]
        return Definition(Kind.CONTROL, 0, b"", tuple(numbers))

    def _inbox(self, own: int) -> Definition:
        """Return the definition of an inbox content."""
        interner = self._ids.interner
        slot = interner.slot_of_content(own)
        if own in interner.content_values:
            encoding = self._encoded(interner.content_values[own])
            return Definition(Kind.INBOX, self._slot(slot), encoding)
        numbers: list[int] = []
        for message, count in interner.items_of_content(own):
            numbers += [self._number(self._ids.messages, Kind.MESSAGE, message, interner.messages[message]), count]
        return Definition(Kind.INBOX, self._slot(slot), b"", tuple(numbers))

"""Translation between the value ids of one process and global ids; reports of values without a global id.

Each process numbers values in the order in which it meets them. The driver assigns global ids, level by level. Under
symmetry the images of a value have global ids too. The image of a state that is least by global ids represents it, so
every process chooses the same one. Under a VIEW each control row also has a class, the number of its visible part.
States with the same class and the same inboxes count as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.native.arrays import grow_array
from kraftcheck.explorer.spark.wire_records import VALUE_KINDS, WireRecord, WireRecordKind
from kraftcheck.explorer.tables.interner_checkpoint import require_record_with_field, require_shared_value_type
from kraftcheck.explorer.tables.kernel.symmetry import write_least_images_by_shared_ids
from kraftcheck.explorer.tables.learning.interner import Interner
from kraftcheck.persistence.stored_files import require_condition
from kraftcheck.spec.discovery import ClassKey
from kraftcheck.spec.encoding import DecodingVocabulary, decode, encode
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.views import HiddenFieldsAndBounds
from kraftcheck.spec.values import ModelValue, Value

StateRows = NDArray[np.int32]
UNKNOWN_ID = -1
KINDS_WITHOUT_COLUMN = (
    WireRecordKind.SLOT,
    WireRecordKind.LOCAL,
    WireRecordKind.MESSAGE,
    WireRecordKind.CONTROL,
    WireRecordKind.CLASS,
)


class MissingGlobalIdError(AssertionError):
    """A state has a part without a global id."""


class LocalToGlobalIdMap:
    """Two-way map between the ids that this process gives to one kind of value, and their global ids."""

    def __init__(self, *, zero: bool = False) -> None:
        self.own: list[int] = []
        self.to_global: StateRows = np.full(1 << 6, UNKNOWN_ID, np.int32)
        if zero:
            self.add(0)

    def add(self, own: int) -> None:
        """Assign the next global id to the id `own` of this process."""
        self.note(own, len(self.own))
        self.own.append(own)

    def note(self, own: int, number: int) -> None:
        """Record `number` as the global id of the id `own` of this process."""
        self.fit(own + 1)
        require_condition(self.to_global[own] == UNKNOWN_ID, "two global ids have one meaning")
        self.to_global[own] = number

    def fit(self, count: int) -> None:
        """Grow the table of global ids to `count` ids of this process."""
        self.to_global = grow_array(self.to_global, count, UNKNOWN_ID)


class ControlRowViewClasses:
    """Class number of each control row, by the row's global id; rows with equal visible parts share a class."""

    def __init__(self, hidden: list[int] | None) -> None:
        self.is_viewed = hidden is not None
        self.by_id = np.zeros(1 << 10, np.int32)
        self._hidden = hidden or []
        self._by_shown: dict[tuple[int, ...], int] = {}

    def add(self, number: int, row: tuple[int, ...]) -> None:
        """Record the class of a control row; without a VIEW each row is its own class."""
        self.by_id = grow_array(self.by_id, number + 1)
        self.by_id[number] = self._class_of(row) if self.is_viewed else number

    def _class_of(self, row: tuple[int, ...]) -> int:
        shown = list(row)
        for column in self._hidden:
            shown[column] = 0
        while shown and shown[-1] == 0:  # absent replicas; later rows have more of them
            shown.pop()
        return self._by_shown.setdefault(tuple(shown), len(self._by_shown))


class GlobalIds:
    """The global ids that one process knows."""

    def __init__(
        self,
        interner: Interner,
        classes: dict[ClassKey, type],
        values: Iterable[Value],
        hidden: HiddenFieldsAndBounds | None,
    ) -> None:
        self.interner = interner
        interner.shared.sets.is_allowed = False
        self.classes = classes
        self.lexicon = DecodingVocabulary()
        for value in values:
            self.lexicon.note(value)
        self.slots, self.messages, self.controls = LocalToGlobalIdMap(), LocalToGlobalIdMap(), LocalToGlobalIdMap()
        self.locals = LocalToGlobalIdMap(zero=True)  # 0: no replica
        self.shared = [LocalToGlobalIdMap() for _ in interner.shared.names]
        self._contents = LocalToGlobalIdMap(zero=True)  # global ids are numbered by slot; 0 is the empty inbox
        self._contents_of: list[list[int]] = []  # own ids, by slot and global id
        self._arrays: tuple[StateRows, list[StateRows]] | None = None
        self._symmetric = len(interner.group) > 1
        hides = None if hidden is None else hidden.columns(interner.bounds, interner.shared.names)
        self._control_classes = ControlRowViewClasses(None if hides is None else np.flatnonzero(hides).tolist())

    @property
    def counts(self) -> list[int]:
        """Number of global ids in each column of a state, including 0."""
        return [len(self.controls.own), *map(len, self._contents_of)]

    # Definitions

    def load(self, definitions: Iterable[WireRecord]) -> None:
        """Load definitions of global ids; each one defines the next id of its kind."""
        self._arrays = None
        for kind, column, encoding, numbers in definitions:
            unwanted = numbers if kind in VALUE_KINDS else encoding and kind == WireRecordKind.CONTROL
            require_condition(not unwanted, "a definition of two kinds")
            require_condition(column == 0 or kind not in KINDS_WITHOUT_COLUMN, "a definition with a column")
            if kind in VALUE_KINDS:
                self._add_value(kind, column, decode(encoding, self.lexicon))
            elif kind == WireRecordKind.CLASS:
                self.lexicon.add(self._class(encoding))
            elif kind == WireRecordKind.MODEL_VALUE:
                self.lexicon.model_values.setdefault(encoding.decode(), ModelValue(encoding.decode(), column))
            elif kind == WireRecordKind.CONTROL:
                self._add_control(numbers)
            else:
                require_condition(kind == WireRecordKind.INBOX, "a record that is not a definition")
                self._add_inbox(column, encoding, numbers)

    def _add_value(self, kind: WireRecordKind, column: int, value: Any) -> None:
        interner = self.interner
        if kind == WireRecordKind.SHARED:
            require_shared_value_type(interner, column, value)
            self.shared[column].add(interner.shared.id_of(column, value))
        elif kind == WireRecordKind.SLOT:
            self._contents_of.append([0])
            self.slots.add(interner.slot(value))
        elif kind == WireRecordKind.LOCAL:
            require_record_with_field(value, "id")
            self.locals.add(interner.local(value))
        else:
            require_record_with_field(value, "dest")
            self.messages.add(interner.inboxes.message(value))

    def _class(self, encoding: bytes) -> type:
        module, _, name = encoding.decode().partition(":")
        found = self.classes.get((module, name))
        if found is None:
            raise InputError(f"unknown class {name} (module {module})")
        return found

    def _add_control(self, numbers: tuple[int, ...]) -> None:
        interner = self.interner
        first, base = len(interner.bounds), interner.base
        require_condition(base <= len(numbers) and min(numbers, default=0) >= 0, "a control row of other numbers")
        shared = [ids.own[number] for ids, number in zip(self.shared, numbers[first:base], strict=True)]
        replicas = [0] * len(interner.slots)
        for slot, local in enumerate(numbers[base:]):
            replicas[self.slots.own[slot]] = own = self.locals.own[local]
            is_own = own == 0 or interner.slots[interner.locals[own].id] == self.slots.own[slot]
            require_condition(is_own, "a control row has the local state of another replica")
        number = len(self.controls.own)
        self.controls.add(interner.control_row([*numbers[:first], *shared, *replicas]))
        self._control_classes.add(number, numbers)

    def _add_inbox(self, slot: int, encoding: bytes, numbers: tuple[int, ...]) -> None:
        interner, own_slot = self.interner, self.slots.own[slot]
        if encoding:
            own = interner.inboxes.content(own_slot, decode(encoding, self.lexicon))
        else:
            require_condition(min(numbers[::2], default=-1) >= 0, "an inbox content of no messages")
            messages = [self.messages.own[number] for number in numbers[::2]]
            is_own = all(interner.slots[interner.inboxes.messages[message].dest] == own_slot for message in messages)
            require_condition(is_own, "a message is in the inbox of another replica")
            own = interner.inboxes.counted_content(own_slot, zip(messages, numbers[1::2], strict=True))
        self._contents.note(own, len(self._contents_of[slot]))
        self._contents_of[slot].append(own)

    # States

    def to_own(self, states: StateRows) -> StateRows:
        """Translate states from global ids to the ids of this process."""
        if self._arrays is None:
            self._arrays = np.array(self.controls.own, np.int32), [np.array(o, np.int32) for o in self._contents_of]
        controls, contents = self._arrays
        self.require_known(states)
        result = np.zeros((len(states), self.interner.width), np.int32)
        result[:, 0] = controls[states[:, 0]]
        for slot in range(states.shape[1] - 1):
            result[:, 1 + self.slots.own[slot]] = contents[slot][states[:, 1 + slot]]
        return result

    def require_known(self, states: StateRows) -> None:
        """Raise CorruptFileError unless every global id in the states has a definition."""
        require_condition(1 <= states.shape[1] <= 1 + len(self.slots.own), "states of a wrong width")
        if len(states):
            is_defined = (states.min(axis=0) >= 0) & (states.max(axis=0) < self.counts[: states.shape[1]])
            require_condition(is_defined, "a state has a part that is not defined")

    def to_global(self, rows: StateRows) -> StateRows:
        """Return states with global ids; under symmetry, their representatives.

        All parts must have global ids, and under symmetry the images of parts too.
        """
        self._fit()
        result = np.zeros((len(rows), 1 + len(self.slots.own)), np.int32)
        if self._symmetric:
            write_least_images_by_shared_ids(
                self.interner.tables, np.ascontiguousarray(rows), self.controls.to_global, self._contents.to_global,
                self.slots.to_global, self._control_classes.by_id, np.zeros(result.shape[1], np.int32), result,
            )  # fmt: skip
        else:
            result[:, 0] = self.controls.to_global[rows[:, 0]]
            for slot, own in enumerate(self.slots.own):
                if own + 1 < rows.shape[1]:
                    result[:, 1 + slot] = self._contents.to_global[rows[:, 1 + own]]
        if len(result) and result.min() < 0:
            raise MissingGlobalIdError("a state has a part that no task has reported")
        return result

    def compared(self, states: StateRows) -> StateRows:
        """Return the comparison keys of states: under a VIEW, the first column holds the class of the control row."""
        if not self._control_classes.is_viewed:
            return states
        result = states.copy()
        result[:, 0] = self._control_classes.by_id[states[:, 0]]
        return result

    def _fit(self) -> None:
        contents, _, controls = self.interner.totals()
        self.controls.fit(controls)
        self._contents.fit(contents)
        self.slots.fit(len(self.interner.slots))

    def unknown(self, rows: StateRows, column: int) -> list[int]:
        """Return the ids in a column that have no global id, together with their images under symmetry."""
        self._fit()
        ids = self._contents if column else self.controls
        used = rows[:, column]
        new = np.unique(used[ids.to_global[used] == UNKNOWN_ID])
        if len(new) and self._symmetric:
            tables = self.interner.tables
            new = np.unique((tables.permuted_contents if column else tables.permuted_rows)[new])
        return [*new.tolist()]

    def report(self) -> MissingGlobalIdReport:
        """Return a new report on states without global ids."""
        return MissingGlobalIdReport(self)


class MissingGlobalIdReport:
    """Collects the parts of states that need global ids, and defines them."""

    def __init__(self, ids: GlobalIds) -> None:
        self._ids = ids
        self._controls: set[int] = set()
        self._contents: set[int] = set()
        self._values: list[WireRecord] = []
        self._places: dict[tuple[int, int, int], int] = {}
        self._seen = DecodingVocabulary(ids.lexicon.classes, ids.lexicon.model_values.values())

    def note(self, rows: StateRows) -> None:
        """Collect the control rows and inboxes without a global id in states, with their images under symmetry."""
        self._controls.update(self._ids.unknown(rows, 0))
        for column in range(1, rows.shape[1]):
            self._contents.update(self._ids.unknown(rows, column))

    def definitions(self) -> Iterator[WireRecord]:
        """Yield the definitions of classes and values, then of the control rows and inboxes that contain the values.

        In `numbers`, and as the slot of an inbox, a value without a global id is -1 - n. The number n is the place of
        its definition among the values yielded.
        """
        composites = [*map(self._control, sorted(self._controls)), *map(self._inbox, sorted(self._contents))]
        yield from self._lexicon()
        yield from self._values
        yield from composites

    def _lexicon(self) -> Iterator[WireRecord]:
        """Yield the definitions of the classes and model values that have none yet."""
        known = self._ids.lexicon
        for cls in self._seen.classes:
            if cls not in known.classes:
                yield WireRecord(WireRecordKind.CLASS, 0, f"{cls.__module__}:{cls.__qualname__}".encode())
        for value in self._seen.model_values.values():
            if value.name not in known.model_values:
                yield WireRecord(WireRecordKind.MODEL_VALUE, value.index, value.name.encode())

    def _number(self, ids: LocalToGlobalIdMap, kind: WireRecordKind, own: int, value: Value, column: int = 0) -> int:
        """Return the global id of a value; if it has none, a negative reference to its definition in this report."""
        if own < len(ids.to_global) and ids.to_global[own] != UNKNOWN_ID:
            return int(ids.to_global[own])
        place = self._places.setdefault((kind, column, own), len(self._values))
        if place == len(self._values):
            self._values.append(WireRecord(kind, column, self._encoded(value)))
        return -1 - place

    def _encoded(self, value: Value) -> bytes:
        problem = "values of {} cannot go from one process to another"
        self._seen.note_decodable(value, self._ids.classes, problem)
        return encode(value)

    def _slot(self, own: int) -> int:
        return self._number(self._ids.slots, WireRecordKind.SLOT, own, list(self._ids.interner.slots)[own])

    def _control(self, own: int) -> WireRecord:
        ids, interner = self._ids, self._ids.interner
        row = interner.tables.rows[own].tolist()
        first, base = len(interner.bounds), interner.base
        numbers = row[:first]
        for i, value in enumerate(row[first:base]):
            numbers.append(
                self._number(ids.shared[i], WireRecordKind.SHARED, value, interner.shared.values[i][value], i)
            )
        for slot, local in enumerate(row[base : base + len(interner.slots)]):
            if local:
                numbers += [
                    self._slot(slot),
                    self._number(ids.locals, WireRecordKind.LOCAL, local, interner.locals[local]),
                ]
        return WireRecord(WireRecordKind.CONTROL, 0, b"", tuple(numbers))

    def _inbox(self, own: int) -> WireRecord:
        inboxes = self._ids.interner.inboxes
        slot = inboxes.slot_of_content(own)
        if own in inboxes.content_values:
            encoding = self._encoded(inboxes.content_values[own])
            return WireRecord(WireRecordKind.INBOX, self._slot(slot), encoding)
        numbers: list[int] = []
        for message, count in inboxes.items_of_content(own):
            numbers += [
                self._number(self._ids.messages, WireRecordKind.MESSAGE, message, inboxes.messages[message]),
                count,
            ]
        return WireRecord(WireRecordKind.INBOX, self._slot(slot), b"", tuple(numbers))

"""What ids mean, on disk: the values that an interner has numbered, in the order of their numbers.

Read back into a new interner in that order they get the same numbers. What was learned of them is not kept; it is
learned again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.checkpoints.shapes import Damaged
from kraftcheck.explorer.tables.checkpoints.requirements import (
    require,
    require_bytes,
    require_contents,
    require_control_rows,
    require_record,
    require_shared,
)
from kraftcheck.explorer.tables.learning.interner import Interner
from kraftcheck.explorer.tables.learning.restoring import (
    contents_from,
    control_rows_from,
    restore_content_values,
    restore_contents,
    restore_control_rows,
)
from kraftcheck.explorer.tables.states.files import GrowingFile, RowsInFile
from kraftcheck.spec.discovery import ClassName
from kraftcheck.spec.encoding import Lexicon, decode, encode
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.values import ModelValue, Value

FILES = ("values", "controls", "inboxes", "inbox_items")
SLOT, LOCAL, MESSAGE, SHARED, INBOX = b"SLMHI"
LENGTH = 4  # bytes of a number in the file of values
SHAPE = {
    "slots": int,
    "locals": int,
    "messages": int,
    "shared": [int],
    "inboxes": int,
    "items": int,
    "controls": [(int, int)],
    "classes": [(str, str)],
    "model_values": [(str, int)],
}
"""The form of what a manifest notes: see `require_shape`."""

Noted = dict[str, Any]


class Counts(NamedTuple):
    """How much of each kind is written."""

    slots: int = 0
    locals: int = 0
    messages: int = 0
    shared: tuple[int, ...] = ()
    inboxes: int = 1  # content 0, the empty inbox, is not written
    items: int = 0
    controls: int = 0


class InternedValues:
    """Keeps files that say what an interner's ids mean."""

    def __init__(
        self,
        interner: Interner,
        files: dict[str, GrowingFile],
        classes: dict[ClassName, type],
        model_values: Iterable[ModelValue],
    ) -> None:
        self.interner = interner
        interner.sets.is_allowed = False
        self.files = files
        self.classes = classes
        self.model_values = {value.name: value.index for value in model_values}
        self.lexicon = Lexicon()
        self._written = Counts()
        self._controls = RowsInFile(np.int32)

    # Writing

    def save(self) -> Noted:
        """Append what was numbered since the last time; return what a manifest must note."""
        interner, done = self.interner, self._written
        now = self._counts()
        for key in list(interner.slots)[done.slots :]:
            self._value(SLOT, 0, key)
        for record in interner.locals[max(done.locals, 1) :]:  # local 0 is "no replica here"
            self._value(LOCAL, 0, record)
        for column, values in enumerate(interner.shared_values):
            for value in values[done.shared[column] if done.shared else 0 :]:
                self._value(SHARED, column, value)
        for message in interner.messages[done.messages :]:
            self._value(MESSAGE, 0, message)
        for content in range(done.inboxes, now.inboxes if interner.content_values else done.inboxes):
            if content in interner.content_values:
                self._value(INBOX, content, interner.content_values[content])
        heads, items = contents_from(interner, done.inboxes, done.items)
        self.files["inboxes"].append(heads)
        self.files["inbox_items"].append(items)
        self._controls.append(self.files["controls"], control_rows_from(interner, done.controls))
        self._written = now
        return {
            **now._asdict(),
            "controls": self._controls.shapes,
            "classes": [(cls.__module__, cls.__qualname__) for cls in self.lexicon.classes],
            "model_values": [(value.name, value.index) for value in self.lexicon.model_values.values()],
        }

    def _value(self, kind: int, number: int, value: Value) -> None:
        self.note(value)
        data = encode(value)
        head = bytes([kind]) + number.to_bytes(LENGTH, "big") + len(data).to_bytes(LENGTH, "big")
        self.files["values"].append(head + data)

    def note(self, value: Value) -> None:
        """Note the classes of a value that will be written."""
        known = len(self.lexicon.classes)
        self.lexicon.note(value)
        for cls in self.lexicon.classes if len(self.lexicon.classes) > known else ():
            if self.classes.get((cls.__module__, cls.__qualname__)) is not cls:
                raise InputError(
                    f"a checkpoint cannot hold values of {cls.__qualname__} (module {cls.__module__}): nothing in the "
                    "protocol leads to it; import it by name in the protocol's module"
                )

    # Reading

    def load(self, noted: Noted) -> None:
        """Give an interner that has numbered nothing yet what the files hold."""
        for module, name in noted["classes"]:
            cls = self.classes.get((module, name))
            if cls is None:
                raise InputError(f"it has values of {name} (module {module}), which the protocol does not have")
            self.lexicon.add(cls)
        for name, index in noted["model_values"]:
            require(index == self.model_values.get(name, index), f"{name} has another place in the order")
            self.lexicon.model_values[name] = ModelValue(name, index)
        try:
            self._load(noted)
        except (Damaged, InputError, MemoryError):
            raise
        except Exception as error:  # from the protocol's own functions, given values that it does not have
            raise Damaged(f"a value that the protocol does not have: {type(error).__name__}: {error}") from None

    def _load(self, noted: Noted) -> None:
        interner, inboxes = self.interner, self._values()
        items = self._pairs("inbox_items", noted["items"])
        heads = self._pairs("inboxes", max(noted["inboxes"] - 1, 0))
        require_contents(interner, heads, items, np.array([number for number, _ in inboxes], np.int64))
        restore_contents(interner, heads, items)
        restore_content_values(interner, inboxes)
        offset = 0
        for rows, columns in noted["controls"]:
            offset = self._controls.note(rows, columns, offset)
        require_bytes("controls", self.files["controls"].length, offset)
        blocks = list(self._controls.chunks(self.files["controls"], self._controls.count))
        require_control_rows(interner, blocks)
        restore_control_rows(interner, blocks)
        self._written = self._counts()
        found = {**self._written._asdict(), "shared": list(self._written.shared), "controls": noted["controls"]}
        expected = {name: noted[name] for name in found}
        if found != expected or self._written.controls != self._controls.count:
            raise Damaged(f"expected {expected}, found {found}")

    def _counts(self) -> Counts:
        interner = self.interner
        return Counts(
            len(interner.slots),
            len(interner.locals),
            len(interner.messages),
            tuple(map(len, interner.shared_values)),
            *interner.totals(),
        )

    def _values(self) -> list[tuple[int, Value]]:
        """Number every value again; return the inbox contents that are values, with their numbers."""
        data, interner, inboxes, start = self.files["values"].read(0, self.files["values"].length), self.interner, [], 0
        needs = {LOCAL: "id", MESSAGE: "dest"}
        intern = {SLOT: interner.slot, LOCAL: interner.local, MESSAGE: interner.message}
        seen: Counter[tuple[int, int]] = Counter({(LOCAL, 0): 1})
        while start < len(data):
            kind = data[start]
            number = int.from_bytes(data[start + 1 : start + 1 + LENGTH], "big")
            first = start + 1 + 2 * LENGTH
            start = first + int.from_bytes(data[first - LENGTH : first], "big")
            value = decode(data[first:start], self.lexicon)
            if kind == INBOX:
                inboxes.append((number, value))
                continue
            if kind == SHARED:
                require_shared(interner, number, value)
            elif kind != SLOT:
                require_record(value, needs[kind])
            found = interner.shared_id(number, value) if kind == SHARED else intern[kind](value)
            if found != seen[kind, number]:
                raise Damaged(f"value number {seen[kind, number]} of its kind became number {found}")
            seen[kind, number] += 1
        return inboxes

    def _pairs(self, name: str, rows: int) -> NDArray[np.int32]:
        require_bytes(name, self.files[name].length, 8 * rows)
        array = np.empty((rows, 2), np.int32)
        self.files[name].read_into(0, array)
        return array

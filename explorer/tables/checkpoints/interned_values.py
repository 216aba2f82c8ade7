"""What ids mean, on disk: the values that a learner has numbered, in the order of their numbers.

Read back into a new learner in that order they get the same numbers. What was learned of them is not kept; it is
learned again.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.identity import permuted
from kraftcheck.explorer.tables.kernel.layout import (
    C_BAD,
    C_N,
    C_NUMBER,
    C_SLOT,
    C_START,
    M_CONTENT_ITEMS,
    M_CONTENTS,
    M_ROWS,
    R_IDENTITY,
    R_START,
    grown,
)
from kraftcheck.explorer.tables.kernel.resolve import rehash_contents, rehash_rows
from kraftcheck.explorer.tables.learning.learner import Learner
from kraftcheck.explorer.tables.states.files import Damaged, GrowingFile
from kraftcheck.spec.decoding import Lexicon, decode
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.loading.classes import ClassName
from kraftcheck.spec.values import ModelValue, Value, encode

FILES = ("values", "controls", "inboxes", "inbox_items")
SLOT, LOCAL, MESSAGE, SHARED, INBOX = b"SLMHI"
LENGTH = 4  # bytes of a number in the file of values
INT_BYTES = 4

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


class Dictionary:
    """Keeps files that say what a learner's ids mean.

    Parameters
    ----------
    learner
        The learner.
    files
        Files by the names in `FILES`.
    classes
        The classes that values may have, by module and qualified name.
    """

    def __init__(self, learner: Learner, files: dict[str, GrowingFile], classes: dict[ClassName, type]) -> None:
        self.learner = learner
        self.files = files
        self.classes = classes
        self.lexicon = Lexicon()
        self._written = Counts()
        self._control_runs: list[tuple[int, int]] = []  # control rows, columns

    # Writing

    def save(self) -> Noted:
        """Append what was numbered since the last time; return what a manifest must note.

        Raises
        ------
        InputError
            Where a value has a class that could not be found again.
        """
        learner, done = self.learner, self._written
        now = self._counts()
        for key in list(learner.slots)[done.slots :]:
            self._value(SLOT, 0, key)
        for record in learner.locals[max(done.locals, 1) :]:  # local 0 is "no replica here"
            self._value(LOCAL, 0, record)
        for column, values in enumerate(learner.shared_values):
            for value in values[done.shared[column] if done.shared else 0 :]:
                self._value(SHARED, column, value)
        for message in learner.messages[done.messages :]:
            self._value(MESSAGE, 0, message)
        for content in range(done.inboxes, now.inboxes if learner.content_values else done.inboxes):
            if content in learner.content_values:
                self._value(INBOX, content, learner.content_values[content])
        a = learner.a
        self.files["inboxes"].append(a["contents"][done.inboxes : now.inboxes][:, [C_SLOT, C_N]])
        self.files["inbox_items"].append(a["content_items"][done.items : now.items])
        self._controls(a["rows"][done.controls : now.controls])
        self._written = now
        return {
            **now._asdict(),
            "controls": self._control_runs,
            "classes": [(cls.__module__, cls.__qualname__) for cls in self.lexicon.classes],
            "model_values": [(value.name, value.index) for value in self.lexicon.model_values.values()],
        }

    def _value(self, kind: int, number: int, value: Value) -> None:
        self.note(value)
        data = encode(value)
        head = bytes([kind]) + number.to_bytes(LENGTH, "big") + len(data).to_bytes(LENGTH, "big")
        self.files["values"].append(head + data)

    def note(self, value: Value) -> None:
        """Note the classes of a value that will be written.

        Raises
        ------
        InputError
            Where one could not be found again.
        """
        known = len(self.lexicon.classes)
        self.lexicon.note(value)
        for cls in self.lexicon.classes if len(self.lexicon.classes) > known else ():
            if self.classes.get((cls.__module__, cls.__qualname__)) is not cls:
                raise InputError(
                    f"a checkpoint cannot hold values of {cls.__qualname__} (module {cls.__module__}): nothing in the "
                    "protocol leads to it; import it by name in the protocol's module"
                )

    def _controls(self, rows: NDArray[np.int32]) -> None:
        self.files["controls"].append(rows)
        runs, columns = self._control_runs, rows.shape[1]
        if runs and runs[-1][1] == columns:
            runs[-1] = (runs[-1][0] + len(rows), columns)
        elif len(rows):
            runs.append((len(rows), columns))

    # Reading

    def load(self, noted: Noted) -> None:
        """Give a learner that has numbered nothing yet what the files hold.

        Parameters
        ----------
        noted
            What `save` returned.

        Raises
        ------
        Damaged
            Where they hold something else than was noted.
        InputError
            Where the protocol has no class of a name noted.
        """
        for module, name in noted["classes"]:
            cls = self.classes.get((module, name))
            if cls is None:
                raise InputError(f"it has values of {name} (module {module}), which the protocol does not have")
            self.lexicon.add(cls)
        for name, index in noted["model_values"]:
            self.lexicon.model_values[name] = ModelValue(name, index)
        inboxes = self._values()
        items = self._ints("inbox_items", noted["items"], 2)
        self._load_inboxes(self._ints("inboxes", noted["inboxes"] - 1, 2), items)
        self._load_learned(inboxes)
        self._control_runs = [(rows, columns) for rows, columns in noted["controls"]]
        self._load_controls()
        self._written = self._counts()
        found = {**self._written._asdict(), "shared": list(self._written.shared), "controls": noted["controls"]}
        expected = {name: noted[name] for name in found}
        if found != expected or self._written.controls != sum(rows for rows, _ in self._control_runs):
            raise Damaged(f"expected {expected}, found {found}")

    def _counts(self) -> Counts:
        learner = self.learner
        return Counts(
            len(learner.slots),
            len(learner.locals),
            len(learner.messages),
            tuple(map(len, learner.shared_values)),
            int(learner.meta[M_CONTENTS]),
            int(learner.meta[M_CONTENT_ITEMS]),
            int(learner.meta[M_ROWS]),
        )

    def _values(self) -> list[tuple[int, Value]]:
        """Number every value again; return the inbox contents that are values, with their numbers."""
        data, learner, inboxes, start = self.files["values"].read(0, self.files["values"].length), self.learner, [], 0
        intern = {SLOT: learner.slot, LOCAL: learner.local, MESSAGE: learner.message}
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
            found = learner.shared_id(number, value) if kind == SHARED else intern[kind](value)
            if found != seen[kind, number]:
                raise Damaged(f"value number {seen[kind, number]} of its kind became number {found}")
            seen[kind, number] += 1
        return inboxes

    def _ints(self, name: str, rows: int, columns: int, offset: int = 0) -> NDArray[np.int32]:
        array = np.empty((rows, columns), np.int32)
        self.files[name].read_into(offset, array)
        return array

    def _load_inboxes(self, heads: NDArray[np.int32], items: NDArray[np.int32]) -> None:
        """Set the inbox contents: for each its slot and how many items it has."""
        learner = self.learner
        a, n = learner.a, len(heads) + 1
        capacity = max(len(a["contents"]), 1 << (2 * n + 16).bit_length())
        contents = np.zeros((capacity, a["contents"].shape[1]), np.int32)
        contents[1:n, C_SLOT], contents[1:n, C_N] = heads[:, 0], heads[:, 1]
        contents[1:n, C_START] = np.cumsum(heads[:, 1]) - heads[:, 1]
        for slot in range(len(learner.slots)):
            mine = np.flatnonzero(heads[:, 0] == slot) + 1
            contents[mine, C_NUMBER] = np.arange(1, len(mine) + 1)
            a["slot_contents"][slot] = len(mine)
        if n > 1:
            bad = a["messages"][items[:, 0], 1]
            contents[1:n, C_BAD] = np.bitwise_or.reduceat(bad, contents[1:n, C_START])
        a["contents"] = contents
        a["content_items"] = grown(a["content_items"], 2 * len(items) + 16)
        a["content_items"][: len(items)] = items
        a["content_table"] = np.full(max(len(a["content_table"]), 2 * capacity), -1, np.int32)
        a["permuted_contents"] = np.full((capacity, a["permuted_contents"].shape[1]), -1, np.int32)
        a["inbox_views"] = np.full((len(a["inbox_views"]), capacity), -1, np.int32)
        learner.meta[M_CONTENTS] = n
        learner.meta[M_CONTENT_ITEMS] = len(items)
        rehash_contents(learner.tables)

    def _load_learned(self, inboxes: list[tuple[int, Value]]) -> None:
        """Set the inbox contents that are values, and their images, which are among them."""
        learner, numbers = self.learner, self.learner.learned_contents
        slots, a = learner.a["contents"][:, C_SLOT].tolist(), learner.a
        for content, inbox in inboxes:
            learner.content_values[content] = inbox
            numbers[slots[content], inbox] = content
        for content, inbox in inboxes if len(learner.group) > 1 else ():
            for g, permutation in enumerate(learner.group):
                place = int(a["permuted_slots"][g, slots[content]])
                a["permuted_contents"][content, g] = numbers[place, permuted(inbox, permutation)]

    def _load_controls(self) -> None:
        """Set the control rows."""
        learner = self.learner
        a, n = learner.a, sum(rows for rows, _ in self._control_runs)
        capacity = max(len(a["rows"]), 1 << (2 * n + 16).bit_length())
        rows = np.zeros((capacity, a["rows"].shape[1]), np.int32)
        first, offset = 0, 0
        for count, columns in self._control_runs:
            rows[first : first + count, :columns] = self._ints("controls", count, columns, offset)
            first, offset = first + count, offset + count * columns * INT_BYTES
        a["rows"] = rows
        info = np.zeros((capacity, a["row_info"].shape[1]), np.int64)
        info[:n, R_START] = -1
        info[:n, R_IDENTITY] = _identities(rows[:n], a["hidden"][: rows.shape[1]] != 0)
        a["row_info"] = info
        a["permuted_rows"] = np.full((capacity, a["permuted_rows"].shape[1]), -1, np.int32)
        a["row_table"] = np.full(max(len(a["row_table"]), 2 * capacity), -1, np.int32)
        learner.meta[M_ROWS] = n
        rehash_rows(learner.tables)


def _identities(rows: NDArray[np.int32], hidden: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return for each control row the one that stands for it: that without what a VIEW hides.

    A row that was never judged may have none; it is judged, and gets one, before a state has it.
    """
    own = np.arange(len(rows))
    if not hidden.any():
        return own
    numbers = {row.tobytes(): number for number, row in enumerate(rows)}
    seen = np.where(hidden, np.int32(0), rows)
    return np.array([numbers.get(row.tobytes(), number) for number, row in enumerate(seen)], np.int64)

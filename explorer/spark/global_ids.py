"""Between the ids that a process gives to what it learns and those that are the same everywhere.

Every process learns on its own, in its own order, so its ids are its own. The dictionary numbers what was found,
level by level, the same for all; here are the two translations. Under symmetry the dictionary has, with a value, its
images too, and the least image by its ids stands for a state: it does not depend on who found which. Under a VIEW what
it shows of a control row has a number too, its class: states with the same class and inboxes count as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
from kraftcheck.explorer.tables.kernel.layout import (
    GROW_CONTENTS,
    GROW_ROWS,
    M_CONTENT_ITEMS,
    M_CONTENTS,
    M_GROW,
    M_ROWS,
    grown,
)
from kraftcheck.explorer.tables.kernel.resolve import intern_content, intern_row
from kraftcheck.explorer.tables.kernel.symmetry import least_images
from kraftcheck.explorer.tables.learning.learner import Learner
from kraftcheck.spec.decoding import ClassName, Lexicon, decode
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.protocol import Hidden
from kraftcheck.spec.values import ModelValue, Value, encode

States = NDArray[np.int32]
UNKNOWN = -1


class Numbering:
    """The ids of one kind of value: those of this process, and those that are the same everywhere."""

    def __init__(self, *, zero: bool = False) -> None:
        self.own: list[int] = [0] if zero else []  # by common id
        self.common: dict[int, int] = {0: 0} if zero else {}  # by own id

    def add(self, own: int) -> None:
        """Give the next common id to what has an id in this process."""
        self.common[own] = len(self.own)
        self.own.append(own)


class Names:
    """The dictionary in one process.

    Parameters
    ----------
    learner
        What this process has learned; its columns must be laid out.
    classes
        The classes that values may have, by module and qualified name.
    values
        Values whose classes and model values are known from the start, such as constants.
    hidden
        What a VIEW leaves out, or None.
    """

    def __init__(
        self,
        learner: Learner,
        classes: dict[ClassName, type],
        values: Iterable[Value],
        hidden: Hidden | None = None,
    ) -> None:
        self.learner = learner
        self.classes = classes
        self.lexicon = Lexicon()
        for value in values:
            self.lexicon.note(value)
        self.slots, self.messages = Numbering(), Numbering()
        self.locals = Numbering(zero=True)  # 0: no replica here
        self.shared = [Numbering() for _ in learner.shared_names]
        self._own_controls: list[int] = []
        self._own_contents: list[list[int]] = []  # by slot; number 0 is the empty inbox
        self._controls = np.full(1 << 10, UNKNOWN, np.int32)  # common ids, by own
        self._contents = np.full(1 << 10, UNKNOWN, np.int32)
        self._contents[0] = 0
        self._arrays: tuple[NDArray[np.int32], list[NDArray[np.int32]]] | None = None
        self.viewed = hidden is not None
        hides = [] if hidden is None else hidden.columns(learner.bounds, learner.shared_names)
        self._hidden = [column for column, hidden_here in enumerate(hides) if hidden_here]
        self._class_of: dict[tuple[int, ...], int] = {}  # by what is shown of a control row
        self._classes = np.zeros(1 << 10, np.int32)  # by common id

    @property
    def width(self) -> int:
        """Columns of a state."""
        return 1 + len(self.slots.own)

    @property
    def counts(self) -> list[int]:
        """How many ids each column of a state may have, 0 included."""
        return [len(self._own_controls), *map(len, self._own_contents)]

    # What others defined

    def load(self, definitions: Iterable[Definition]) -> None:
        """Take definitions into the dictionary; each gets the next id of its kind.

        Raises
        ------
        InputError
            Where a value has a class that the protocol does not have.
        """
        self._arrays = None
        learner = self.learner
        intern: dict[int, Callable[[Any], int]] = {
            SLOT: learner.slot, LOCAL: learner.local, MESSAGE: learner.message
        }  # fmt: skip
        numberings = {SLOT: self.slots, LOCAL: self.locals, MESSAGE: self.messages}
        for kind, column, encoding, numbers in definitions:
            if kind == CLASS:
                self.lexicon.add(self._class(encoding))
            elif kind == MODEL_VALUE:
                self.lexicon.model_values.setdefault(encoding.decode(), ModelValue(encoding.decode(), column))
            elif kind == SHARED:
                self.shared[column].add(learner.shared_id(column, decode(encoding, self.lexicon)))
            elif kind == CONTROL:
                self._add_control(numbers)
            elif kind == INBOX:
                self._add_inbox(column, encoding, numbers)
            else:
                numberings[kind].add(intern[kind](decode(encoding, self.lexicon)))
                if kind == SLOT:
                    self._own_contents.append([0])

    def _class(self, encoding: bytes) -> type:
        module, _, name = encoding.decode().partition(":")
        found = self.classes.get((module, name))
        if found is None:
            raise InputError(f"there are values of {name} (module {module}), which the protocol does not have")
        return found

    def _add_control(self, numbers: tuple[int, ...]) -> None:
        learner = self.learner
        first, base = len(learner.bounds), len(learner.bounds) + len(learner.shared_names)
        row = [0] * (base + len(learner.slots))
        row[:first] = numbers[:first]
        for i, numbering in enumerate(self.shared):
            row[first + i] = numbering.own[numbers[first + i]]
        for slot, local in enumerate(numbers[base:]):
            row[base + self.slots.own[slot]] = self.locals.own[local]
        own, common = _control_row(learner, row), len(self._own_controls)
        self._controls = _noted(self._controls, own, common)
        self._own_controls.append(own)
        self._classes = _noted(self._classes, common, self._class_number(numbers) if self.viewed else common)

    def _class_number(self, numbers: tuple[int, ...]) -> int:
        shown = list(numbers)
        for column in self._hidden:
            shown[column] = 0
        while shown and shown[-1] == 0:  # replicas that are not there, of which later rows have more
            shown.pop()
        return self._class_of.setdefault(tuple(shown), len(self._class_of))

    def _add_inbox(self, slot: int, encoding: bytes, numbers: tuple[int, ...]) -> None:
        learner, own_slot = self.learner, self.slots.own[slot]
        if encoding:
            own = learner.content(own_slot, decode(encoding, self.lexicon))
        else:
            messages = [self.messages.own[number] for number in numbers[::2]]
            own = _counted_content(learner, own_slot, sorted(zip(messages, numbers[1::2], strict=True)))
        self._contents = _noted(self._contents, own, len(self._own_contents[slot]))
        self._own_contents[slot].append(own)

    # States

    def to_own(self, states: States) -> States:
        """Return states with the ids of this process."""
        if self._arrays is None:
            self._arrays = np.array(self._own_controls, np.int32), [np.array(o, np.int32) for o in self._own_contents]
        controls, contents = self._arrays
        result = np.zeros((len(states), self.learner.width), np.int32)
        result[:, 0] = controls[states[:, 0]]
        for slot in range(states.shape[1] - 1):
            result[:, 1 + self.slots.own[slot]] = contents[slot][states[:, 1 + slot]]
        return result

    def to_common(self, rows: States) -> States:
        """Return states with the ids that are the same everywhere, all of which must be known.

        Under symmetry this is the state that stands for each; the images of its parts must be known too.
        """
        self._fit()
        result = np.zeros((len(rows), self.width), np.int32)
        if self._symmetric:
            self._least(np.ascontiguousarray(rows), result)
        else:
            result[:, 0] = self._controls[rows[:, 0]]
            for own in range(rows.shape[1] - 1):
                slot = self.slots.common.get(own)
                if slot is not None:
                    result[:, 1 + slot] = self._contents[rows[:, 1 + own]]
        if len(result) and result.min() < 0:
            raise AssertionError("a state has a part that no task has reported")
        return result

    def compared(self, states: States) -> States:
        """Return what states, with common ids, are compared by: under a VIEW the class in the control row's place."""
        if not self.viewed:
            return states
        result = states.copy()
        result[:, 0] = self._classes[states[:, 0]]
        return result

    @property
    def _symmetric(self) -> bool:
        return len(self.learner.group) > 1

    def _least(self, rows: States, result: States) -> None:
        a = self.learner.a
        slots = np.array([self.slots.common.get(own, UNKNOWN) for own in range(len(self.learner.slots))], np.int32)
        least_images(
            rows, self._controls, self._contents, slots, self._classes, a["permuted_rows"], a["permuted_contents"],
            a["permuted_slots"], np.zeros(self.width, np.int32), result,
        )  # fmt: skip

    def _fit(self) -> None:
        self._controls = grown(self._controls, int(self.learner.meta[M_ROWS]), UNKNOWN)
        self._contents = grown(self._contents, int(self.learner.meta[M_CONTENTS]), UNKNOWN)

    # What is new here

    def unknown(self, rows: States, controls: set[int], contents: set[int]) -> None:
        """Note those control rows and inbox contents of states, and their images, that the dictionary does not have."""
        self._fit()
        for column in range(rows.shape[1]):
            known, noted = (self._contents, contents) if column else (self._controls, controls)
            used = rows[:, column]
            new = np.unique(used[known[used] == UNKNOWN])
            if len(new) and self._symmetric:
                images = self.learner.a["permuted_contents" if column else "permuted_rows"][new]
                new = np.unique(images)
            noted.update(new.tolist())

    def definitions(self, controls: Iterable[int], contents: Iterable[int]) -> Iterator[Definition]:
        """Yield what the dictionary needs to take in control rows and inbox contents of this process.

        In `numbers` an id that the dictionary does not have is -1 - n, where n is the place of the value's definition
        among those yielded. Likewise the slot of an inbox.
        """
        report = _Report(self)
        for own in sorted(controls):
            report.control(own)
        for own in sorted(contents):
            report.inbox(own)
        yield from report.named
        yield from report.values
        yield from report.composites


class _Report:
    """What a process says of values that are new to the dictionary."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.values: list[Definition] = []
        self.composites: list[Definition] = []
        self._places: dict[tuple[int, int, int], int] = {}
        self._seen = Lexicon()
        self._seen.records.update(names.lexicon.records)
        self._seen.symbols.update(names.lexicon.symbols)
        self._seen.model_values.update(names.lexicon.model_values)

    @property
    def named(self) -> Iterator[Definition]:
        """Classes and model values that are new."""
        known = self.names.lexicon
        for cls in self._seen.classes:
            if cls.__qualname__ not in known.records and cls.__qualname__ not in known.symbols:
                yield Definition(CLASS, 0, f"{cls.__module__}:{cls.__qualname__}".encode())
        for value in self._seen.model_values.values():
            if value.name not in known.model_values:
                yield Definition(MODEL_VALUE, value.index, value.name.encode())

    def _number(self, numbering: Numbering, kind: int, own: int, value: Callable[[], Value], column: int = 0) -> int:
        found = numbering.common.get(own)
        if found is not None:
            return found
        place = self._places.get((kind, column, own))
        if place is None:
            place = self._places[kind, column, own] = len(self.values)
            self.values.append(Definition(kind, column, self._encoded(value())))
        return -1 - place

    def _encoded(self, value: Value) -> bytes:
        known = len(self._seen.classes)
        self._seen.note(value)
        for cls in self._seen.classes if len(self._seen.classes) > known else ():
            if self.names.classes.get((cls.__module__, cls.__qualname__)) is not cls:
                raise InputError(
                    f"values of {cls.__qualname__} (module {cls.__module__}) cannot go from one process to another: "
                    "nothing in the protocol leads to it; import it by name in the protocol's module"
                )
        return encode(value)

    def _slot(self, own: int) -> int:
        keys = self.names.learner.slots
        return self._number(self.names.slots, SLOT, own, lambda: list(keys)[own])

    def control(self, own: int) -> None:
        """Define a control row."""
        names, learner = self.names, self.names.learner
        row = learner.a["rows"][own].tolist()
        first, base = len(learner.bounds), len(learner.bounds) + len(learner.shared_names)
        numbers = row[:first]
        for i, numbering in enumerate(names.shared):
            value = row[first + i]
            numbers.append(
                self._number(numbering, SHARED, value, partial(learner.shared_values[i].__getitem__, value), i)
            )
        for slot, local in enumerate(row[base : base + len(learner.slots)]):
            if local:
                record = partial(learner.locals.__getitem__, local)
                numbers += [self._slot(slot), self._number(names.locals, LOCAL, local, record)]
        self.composites.append(Definition(CONTROL, 0, b"", tuple(numbers)))

    def inbox(self, own: int) -> None:
        """Define an inbox content."""
        names, learner = self.names, self.names.learner
        slot, _, start, n, _ = learner.a["contents"][own].tolist()
        if own in learner.content_values:
            encoding = self._encoded(learner.content_values[own])
            self.composites.append(Definition(INBOX, self._slot(slot), encoding))
            return
        numbers: list[int] = []
        for message, count in learner.a["content_items"][start : start + n].tolist():
            record = partial(learner.messages.__getitem__, message)
            numbers += [self._number(names.messages, MESSAGE, message, record), count]
        self.composites.append(Definition(INBOX, self._slot(slot), b"", tuple(numbers)))


def _noted(array: NDArray[np.int32], own: int, common: int) -> NDArray[np.int32]:
    array = grown(array, own + 1, UNKNOWN)
    array[own] = common
    return array


def _control_row(learner: Learner, values: list[int]) -> int:
    """Return the id that a process gives to a control row."""
    while True:
        fresh = int(learner.meta[M_ROWS])
        if fresh < len(learner.a["rows"]):
            learner.a["rows"][fresh] = values
            found = int(intern_row(learner.tables, fresh))
            if found >= 0:
                return found
        learner.meta[M_GROW] |= GROW_ROWS
        learner.grow()


def _counted_content(learner: Learner, slot: int, items: list[tuple[int, int]]) -> int:
    """Return the id that a process gives to an inbox content made of counts of messages."""
    while True:
        free = int(learner.meta[M_CONTENT_ITEMS])
        if free + len(items) + 2 < len(learner.a["content_items"]):
            learner.a["content_items"][free : free + len(items)] = items
            found = int(intern_content(learner.tables, slot, len(items)))
            if found >= 0:
                return found
        learner.meta[M_GROW] |= GROW_CONTENTS
        learner.grow()

"""Translates between the ids of one process and the global ids, which are the same in every process.

Each process learns on its own and numbers values in the order in which it meets them. The driver gives global ids,
level by level. Under symmetry the images of a value have global ids too, and the image of a state that is least by
them represents it, whoever found which. Under a VIEW each control row also has a class, the number of what the VIEW
shows of it: states with the same class and the same inboxes count as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.spark.definitions import VALUES, Definition, Kind
from kraftcheck.explorer.tables.checkpoints.requirements import require, require_record, require_shared
from kraftcheck.explorer.tables.kernel.codes import grown
from kraftcheck.explorer.tables.kernel.symmetry import least_images
from kraftcheck.explorer.tables.learning.interner import Interner
from kraftcheck.spec.discovery import ClassName
from kraftcheck.spec.encoding import Lexicon, decode
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.views import Hidden
from kraftcheck.spec.values import ModelValue, Value

States = NDArray[np.int32]
UNKNOWN = -1
WITHOUT_COLUMN = (Kind.SLOT, Kind.LOCAL, Kind.MESSAGE, Kind.CONTROL, Kind.CLASS)


class UnknownPartError(AssertionError):
    """A state has a part without a global id."""


class IdMap:
    """The ids of one kind of value, in this process and globally."""

    def __init__(self, *, zero: bool = False) -> None:
        self.own: list[int] = []
        self.to_global: States = np.full(1 << 6, UNKNOWN, np.int32)
        if zero:
            self.add(0)

    def add(self, own: int) -> None:
        """Give the next global id to what has an id in this process."""
        self.note(own, len(self.own))
        self.own.append(own)

    def note(self, own: int, number: int) -> None:
        """Note the global id of what has an id in this process."""
        self.fit(own + 1)
        require(self.to_global[own] == UNKNOWN, "two global ids mean the same")
        self.to_global[own] = number

    def fit(self, count: int) -> None:
        """Make room for so many ids of this process."""
        self.to_global = grown(self.to_global, count, UNKNOWN)


class GlobalIds:
    """The global ids that one process knows."""

    def __init__(
        self, interner: Interner, classes: dict[ClassName, type], values: Iterable[Value], hidden: Hidden | None = None
    ) -> None:
        self.interner = interner
        interner.sets.is_allowed = False
        self.classes = classes
        self.lexicon = Lexicon()
        for value in values:
            self.lexicon.note(value)
        self.slots, self.messages, self.controls = IdMap(), IdMap(), IdMap()
        self.locals = IdMap(zero=True)  # 0: no replica
        self.shared = [IdMap() for _ in interner.shared_names]
        self._contents = IdMap(zero=True)  # global ids are numbered by slot, 0 is the empty inbox
        self._contents_of: list[list[int]] = []  # the process's ids, by slot and global id
        self._arrays: tuple[States, list[States]] | None = None
        self._symmetric = len(interner.group) > 1
        self.viewed = hidden is not None
        hides = [] if hidden is None else hidden.columns(interner.bounds, interner.shared_names)
        self._hidden = [column for column, is_hidden in enumerate(hides) if is_hidden]
        self._class_of: dict[tuple[int, ...], int] = {}  # by what is shown of a control row
        self._classes = np.zeros(1 << 10, np.int32)  # by global id

    @property
    def counts(self) -> list[int]:
        """Number of global ids that each column of a state may have, 0 included."""
        return [len(self.controls.own), *map(len, self._contents_of)]

    # Definitions

    def load(self, definitions: Iterable[Definition]) -> None:
        """Learn what global ids mean; each definition has the next id of its kind."""
        self._arrays = None
        interner = self.interner
        interned: dict[int, tuple[IdMap, Callable[[Any], int]]] = {
            Kind.SLOT: (self.slots, interner.slot),
            Kind.LOCAL: (self.locals, interner.local),
            Kind.MESSAGE: (self.messages, interner.message),
        }
        for kind, column, encoding, numbers in definitions:
            require(not (numbers if kind in VALUES else encoding and kind == Kind.CONTROL), "a definition of two kinds")
            require(column == 0 or kind not in WITHOUT_COLUMN, "a definition with a column")
            if kind == Kind.CLASS:
                self.lexicon.add(self._class(encoding))
            elif kind == Kind.MODEL_VALUE:
                self.lexicon.model_values.setdefault(encoding.decode(), ModelValue(encoding.decode(), column))
            elif kind == Kind.SHARED:
                value = decode(encoding, self.lexicon)
                require_shared(interner, column, value)
                self.shared[column].add(interner.shared_id(column, value))
            elif kind == Kind.CONTROL:
                self._add_control(numbers)
            elif kind == Kind.INBOX:
                self._add_inbox(column, encoding, numbers)
            else:
                ids, intern = interned[kind]
                value = decode(encoding, self.lexicon)
                if kind == Kind.SLOT:
                    self._contents_of.append([0])
                else:
                    require_record(value, "id" if kind == Kind.LOCAL else "dest")
                ids.add(intern(value))

    def _class(self, encoding: bytes) -> type:
        module, _, name = encoding.decode().partition(":")
        found = self.classes.get((module, name))
        if found is None:
            raise InputError(f"there are values of {name} (module {module}), which the protocol does not have")
        return found

    def _add_control(self, numbers: tuple[int, ...]) -> None:
        interner = self.interner
        first, base = len(interner.bounds), interner.base
        require(base <= len(numbers) and min(numbers, default=0) >= 0, "a control row of other numbers")
        shared = [ids.own[number] for ids, number in zip(self.shared, numbers[first:base], strict=True)]
        replicas = [0] * len(interner.slots)
        for slot, local in enumerate(numbers[base:]):
            replicas[self.slots.own[slot]] = own = self.locals.own[local]
            is_own = own == 0 or interner.slots[interner.locals[own].id] == self.slots.own[slot]
            require(is_own, "a control row has the local state of another replica")
        number = len(self.controls.own)
        self.controls.add(interner.control_row([*numbers[:first], *shared, *replicas]))
        self._classes = grown(self._classes, number + 1)
        self._classes[number] = self._class_number(numbers) if self.viewed else number

    def _class_number(self, numbers: tuple[int, ...]) -> int:
        shown = list(numbers)
        for column in self._hidden:
            shown[column] = 0
        while shown and shown[-1] == 0:  # replicas that are not there, of which later rows have more
            shown.pop()
        return self._class_of.setdefault(tuple(shown), len(self._class_of))

    def _add_inbox(self, slot: int, encoding: bytes, numbers: tuple[int, ...]) -> None:
        interner, own_slot = self.interner, self.slots.own[slot]
        if encoding:
            own = interner.content(own_slot, decode(encoding, self.lexicon))
        else:
            require(min(numbers[::2], default=-1) >= 0, "an inbox content of no messages")
            messages = [self.messages.own[number] for number in numbers[::2]]
            is_own = all(interner.slots[interner.messages[message].dest] == own_slot for message in messages)
            require(is_own, "a message is in the inbox of another replica")
            own = interner.counted_content(own_slot, zip(messages, numbers[1::2], strict=True))
        self._contents.note(own, len(self._contents_of[slot]))
        self._contents_of[slot].append(own)

    # States

    def to_own(self, states: States) -> States:
        """Return states with the ids of this process."""
        if self._arrays is None:
            self._arrays = np.array(self.controls.own, np.int32), [np.array(o, np.int32) for o in self._contents_of]
        controls, contents = self._arrays
        self.require_known(states)
        result = np.zeros((len(states), self.interner.width), np.int32)
        result[:, 0] = controls[states[:, 0]]
        for slot in range(states.shape[1] - 1):
            result[:, 1 + self.slots.own[slot]] = contents[slot][states[:, 1 + slot]]
        return result

    def require_known(self, states: States) -> None:
        """Raise Damaged unless all parts of states with global ids are defined."""
        require(1 <= states.shape[1] <= 1 + len(self.slots.own), "states of a wrong width")
        if len(states):
            most = np.array(self.counts[: states.shape[1]])
            require((states.min(axis=0) >= 0) & (states.max(axis=0) < most), "a state has a part that is not defined")

    def to_global(self, rows: States) -> States:
        """Return states with global ids, all of which must be known; under symmetry their representatives.

        Under symmetry the images of their parts must be known too.
        """
        self._fit()
        result = np.zeros((len(rows), 1 + len(self.slots.own)), np.int32)
        if self._symmetric:
            least_images(
                self.interner.tables, np.ascontiguousarray(rows), self.controls.to_global, self._contents.to_global,
                self.slots.to_global, self._classes, np.zeros(result.shape[1], np.int32), result,
            )  # fmt: skip
        else:
            result[:, 0] = self.controls.to_global[rows[:, 0]]
            for slot, own in enumerate(self.slots.own):
                if own + 1 < rows.shape[1]:
                    result[:, 1 + slot] = self._contents.to_global[rows[:, 1 + own]]
        if len(result) and result.min() < 0:
            raise UnknownPartError("a state has a part that no task has reported")
        return result

    def compared(self, states: States) -> States:
        """Return what states with global ids are compared by: under a VIEW the class replaces the control row."""
        if not self.viewed:
            return states
        result = states.copy()
        result[:, 0] = self._classes[states[:, 0]]
        return result

    def _fit(self) -> None:
        contents, _, controls = self.interner.totals()
        self.controls.fit(controls)
        self._contents.fit(contents)
        self.slots.fit(len(self.interner.slots))

    def unknown(self, rows: States, column: int) -> list[int]:
        """Return the parts of states in a column, and their images, that have no global id, by ids of this process."""
        self._fit()
        ids = self._contents if column else self.controls
        used = rows[:, column]
        new = np.unique(used[ids.to_global[used] == UNKNOWN])
        if len(new) and self._symmetric:
            new = np.unique(self.interner.images_of(new, column))
        found: list[int] = new.tolist()
        return found

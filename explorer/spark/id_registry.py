"""The driver's side of the dictionary: what tasks report is merged, and gets ids that are the same everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kraftcheck.explorer.spark.definitions import (
    CLASS,
    CONTROL,
    INBOX,
    LOCAL,
    MODEL_VALUE,
    SLOT,
    VALUES,
    Definition,
    name_of,
)
from kraftcheck.spec.errors import InputError

Key = tuple[int, int]  # kind and column


class CollisionError(InputError):
    """Two values have one name."""


class Registry:
    """Which names have which ids.

    The ids depend on the set of what was reported, not on who reported what first.

    Parameters
    ----------
    base
        How many numbers of a control row stand before its local states.
    """

    def __init__(self, base: int) -> None:
        self._base = base
        self._values: dict[Key, dict[bytes, tuple[int, bytes]]] = {}  # by name: id and encoding
        self._notes: set[Definition] = set()
        self._composites: dict[Definition, None] = {}

    def take(self, definitions: Iterable[Definition]) -> None:
        """Take definitions as they are, in the order of their ids: those of a checkpoint."""
        for definition in definitions:
            if definition.kind in VALUES:
                self._number(definition)
            elif definition.kind in (CLASS, MODEL_VALUE):
                self._notes.add(definition)
            else:
                self._composites[_key(definition, self._base)] = None

    def merge(self, reports: Sequence[Iterable[Definition]]) -> list[Definition]:
        """Return what is new in reports, in the order of the ids that it gets.

        Parameters
        ----------
        reports
            As `kraftcheck.explorer.spark.global_ids.Names.definitions` yields them.

        Raises
        ------
        CollisionError
            Where two encodings have one name.
        """
        listed = [list(report) for report in reports]
        values = [[d for d in report if d.kind in VALUES] for report in listed]
        notes = {d for report in listed for d in report if d.kind in (CLASS, MODEL_VALUE)} - self._notes
        self._notes |= notes
        new = sorted(notes)
        for definition in sorted({d for report in values for d in report}):
            if self._number(definition):
                new.append(definition)
        slots = len(self._values.get((SLOT, 0), ()))
        composites: dict[Definition, Definition] = {}
        for report, own in zip(listed, values, strict=True):
            numbers = [self._values[d.kind, d.column][name_of(d.encoding)][0] for d in own]
            for definition in report:
                if definition.kind in (CONTROL, INBOX):
                    found = self._resolved(definition, numbers, slots)
                    composites.setdefault(_key(found, self._base), found)
        fresh = sorted(found for key, found in composites.items() if key not in self._composites)
        self._composites.update(dict.fromkeys(_key(found, self._base) for found in fresh))
        return new + fresh

    def _number(self, definition: Definition) -> bool:
        """Give a value an id; False where it has one."""
        known = self._values.setdefault((definition.kind, definition.column), {})
        name, encoding = name_of(definition.encoding), definition.encoding
        if name in known:
            if known[name][1] != encoding:
                raise CollisionError(f"two values have the name {name.hex()}: {encoding!r} and {known[name][1]!r}")
            return False
        known[name] = len(known) + (definition.kind == LOCAL), encoding
        return True

    def _resolved(self, definition: Definition, own: list[int], slots: int) -> Definition:
        """Return a control row or inbox content with ids in the place of what is numbered within a report."""

        def number(reference: int) -> int:
            return reference if reference >= 0 else own[-1 - reference]

        given = definition.numbers
        if definition.kind == INBOX:
            slot = number(definition.column)
            items = sorted(zip(map(number, given[::2]), given[1::2], strict=True))
            return definition._replace(column=slot, numbers=tuple(n for item in items for n in item))
        replicas = [0] * slots
        for slot, local in zip(given[self._base :: 2], given[self._base + 1 :: 2], strict=True):
            replicas[number(slot)] = number(local)
        return definition._replace(numbers=(*map(number, given[: self._base]), *replicas))


def _key(definition: Definition, base: int) -> Definition:
    """Return a definition without the slots, at the end of a control row, in which there is no replica."""
    numbers = definition.numbers
    if definition.kind == CONTROL:
        last = len(numbers)
        while last > base and numbers[last - 1] == 0:
            last -= 1
        numbers = numbers[:last]
    return definition._replace(numbers=numbers)

"""Gives global ids: the driver merges what tasks report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kraftcheck.explorer.spark.definitions import VALUES, Definition, Kind, fingerprint
from kraftcheck.spec.errors import InputError

Key = tuple[int, int]  # kind and column


class CollisionError(InputError):
    """Two values have one fingerprint."""


class IdAssigner:
    """Gives global ids.

    The ids depend on the set of what was reported, not on who reported what first.
    """

    def __init__(self, base: int) -> None:
        self._base = base
        self._values: dict[Key, dict[bytes, tuple[int, bytes]]] = {}  # by fingerprint: id and encoding
        self._others: set[Definition] = set()

    def load(self, definitions: Iterable[Definition]) -> None:
        """Take over definitions in the order of their ids, as a checkpoint has them."""
        for definition in definitions:
            if definition.kind in VALUES:
                self._add(definition)
            else:
                self._others.add(self._key(definition))

    def merge(self, reports: Sequence[Iterable[Definition]]) -> list[Definition]:
        """Return what is new in reports, in the order of the ids that it gets."""
        listed = [list(report) for report in reports]
        values = [[d for d in report if d.kind in VALUES] for report in listed]
        new = list(filter(self._add, sorted({d for report in values for d in report})))
        others: dict[Definition, Definition] = {}
        for report, own in zip(listed, values, strict=True):
            ids = [self._values[d.kind, d.column][fingerprint(d.encoding)][0] for d in own]
            for definition in report:
                if definition.kind not in VALUES:
                    found = self._resolved(definition, ids)
                    others.setdefault(self._key(found), found)
        fresh = others.keys() - self._others
        self._others |= fresh
        return sorted([*new, *(others[key] for key in fresh)])

    def _add(self, definition: Definition) -> bool:
        """Give a value an id; return False where it has one."""
        known = self._values.setdefault((definition.kind, definition.column), {})
        encoding = definition.encoding
        key = fingerprint(encoding)
        if key in known:
            if known[key][1] != encoding:
                raise CollisionError(f"two values have the fingerprint {key.hex()}: {encoding!r} and {known[key][1]!r}")
            return False
        known[key] = len(known) + (definition.kind == Kind.LOCAL), encoding
        return True

    def _resolved(self, definition: Definition, own: list[int]) -> Definition:
        """Return a definition with global ids in place of references within its report."""

        def resolve(reference: int) -> int:
            return reference if reference >= 0 else own[-1 - reference]

        given = definition.numbers
        if definition.kind not in (Kind.CONTROL, Kind.INBOX):
            return definition
        if definition.kind == Kind.INBOX:
            items = sorted(zip(map(resolve, given[::2]), given[1::2], strict=True))
            return definition._replace(
                column=resolve(definition.column), numbers=tuple(n for item in items for n in item)
            )
        replicas = [0] * len(self._values.get((Kind.SLOT, 0), ()))
        for slot, local in zip(given[self._base :: 2], given[self._base + 1 :: 2], strict=True):
            replicas[resolve(slot)] = resolve(local)
        return definition._replace(numbers=(*map(resolve, given[: self._base]), *replicas))

    def _key(self, definition: Definition) -> Definition:
        """Return a definition without the slots, at the end of a control row, that have no replica."""
        numbers = definition.numbers
        if definition.kind == Kind.CONTROL:
            last = len(numbers)
            while last > self._base and numbers[last - 1] == 0:
                last -= 1
            numbers = numbers[:last]
        return definition._replace(numbers=numbers)

"""Sets that are asked for one element at a time, with what is added and removed since."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from typing import Any, Protocol

from kraftcheck.spec.values import Record, Value

Has = Callable[[Value], bool]
SETS = (frozenset, set)


class Elements(Protocol):
    """All elements that may be in a set."""

    def __iter__(self) -> Iterator[Value]: ...

    def __contains__(self, element: Any) -> bool: ...


class Changed(Record):
    """Stands in a core for a set that a step changes."""

    added: frozenset[Any]  # the elements that it gets
    removed: frozenset[Any] | None  # the elements that it loses; None: all others


class SetReader:
    """Reads like a set whose elements are asked for one by one, with elements added or removed since."""

    __slots__ = ("_added", "_elements", "_has", "_removed")

    def __init__(
        self,
        elements: Elements,
        has: Has,
        added: frozenset[Value] = frozenset(),
        removed: frozenset[Value] = frozenset(),
    ) -> None:
        self._elements = elements
        self._has = has
        self._added = added
        self._removed = removed

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # isinstance sees a set
        return frozenset

    def _with(self, added: frozenset[Value], removed: frozenset[Value]) -> Any:
        """Return it with other elements added or removed; a plain set where the whole was read."""
        return added if self._has is _read_before else SetReader(self._elements, self._has, added, removed)

    def _may_have(self) -> Iterator[Value]:
        """Yield all that may be in it."""
        yield from self._elements
        yield from self._added.difference(self._elements)

    def __contains__(self, element: object) -> bool:
        if element in self._added or element in self._removed:
            return element in self._added
        return element in self._elements and self._has(element)

    def __iter__(self) -> Iterator[Value]:
        return (element for element in self._may_have() if element in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return any(True for _ in self)

    def __hash__(self) -> int:
        """Read the whole, once: who hashes it may keep it, and use it when nobody notes what is read."""
        whole = frozenset(self)
        self._elements, self._added, self._removed, self._has = (), whole, frozenset(), _read_before
        return hash(whole)

    def __repr__(self) -> str:
        return repr(frozenset(self))

    def __reduce__(self) -> Any:
        return frozenset, (tuple(self),)

    def __le__(self, other: Any) -> bool:
        if not isinstance(other, SETS):
            return NotImplemented
        return all(element in other or element not in self for element in self._may_have())

    def __ge__(self, other: Any) -> bool:
        if not isinstance(other, SETS):
            return NotImplemented
        return all(element in self for element in other)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Set) and not isinstance(other, SETS):
            other = frozenset(other)
        if not isinstance(other, SETS) or any(element not in self._elements for element in other - self._added):
            return False
        return all((element in self) == (element in other) for element in self._may_have())

    def __lt__(self, other: Any) -> bool:
        return self <= other and not self >= other if isinstance(other, SETS) else NotImplemented

    def __gt__(self, other: Any) -> bool:
        return self >= other and not self <= other if isinstance(other, SETS) else NotImplemented

    def __or__(self, other: Any) -> Any:
        if not isinstance(other, SETS):
            return NotImplemented
        more = frozenset(other)
        return self._with(self._added | more, self._removed - more)

    def __sub__(self, other: Any) -> Any:
        if not isinstance(other, SETS):
            return NotImplemented
        less = frozenset(other)
        return self._with(self._added - less, self._removed | less)

    def __and__(self, other: Any) -> Any:
        if not isinstance(other, SETS):
            return NotImplemented
        return frozenset(element for element in other if element in self)

    def __rsub__(self, other: Any) -> Any:
        if not isinstance(other, SETS):
            return NotImplemented
        return frozenset(element for element in other if element not in self)

    def __xor__(self, other: Any) -> Any:
        if not isinstance(other, SETS):
            return NotImplemented
        return frozenset(self) ^ frozenset(other)

    __ror__, __rand__, __rxor__ = __or__, __and__, __xor__

    def union(self, *others: Iterable[Value]) -> Any:
        """Return the union with others."""
        return self | frozenset().union(*others)

    def difference(self, *others: Iterable[Value]) -> Any:
        """Return what is in none of the others."""
        return self - frozenset().union(*others)

    def intersection(self, *others: Iterable[Value]) -> frozenset[Value]:
        """Return what is in all others too."""
        return frozenset(self).intersection(*others)

    def symmetric_difference(self, other: Iterable[Value]) -> frozenset[Value]:
        """Return what is in one of the two only."""
        return frozenset(self).symmetric_difference(other)

    def issubset(self, other: Iterable[Value]) -> bool:
        """Whether it is a subset of another."""
        return self <= frozenset(other)

    def issuperset(self, other: Iterable[Value]) -> bool:
        """Whether another is a subset of it."""
        return self >= frozenset(other)

    def isdisjoint(self, other: Iterable[Value]) -> bool:
        """Whether they have nothing in common."""
        return not any(element in self for element in other)

    def copy(self) -> Any:
        """Return it."""
        return self._with(self._added, self._removed)

    def changes(self, has: Has) -> Changed | None:
        """Return what was added and removed, where it was read by this function; else None."""
        return Changed(self._added, self._removed) if self._has is has else None


def _read_before(element: Value) -> bool:
    raise AssertionError("the whole set was read before")

"""Sets within a local state that are taken apart: of each element a variable of its own says whether it is in the set.

What is left of the local state is its *core*. A handler or a property gets readers in place of the sets; each question
whether an element is in one is noted. What is compared element by element ends with the first that decides it, so that
`me.prepared == self.resource_managers` has as many cases as there are elements, not as many as there are sets.

Where something else is done with such a set than what a reader can follow, `Unsplittable` says which it is: the search
begins again, and leaves that set whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, NoReturn

from kraftcheck.spec.language.step import Step
from kraftcheck.spec.values import Map, Record, Value, field_names


class Unsplittable(BaseException):
    """A set is used in a way that it cannot be taken apart for. It is no Exception, so that no handler catches it."""

    def __init__(self, field: str) -> None:
        self.field = field


class Elsewhere:
    """Stands in a core where a set was."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "..."


ELSEWHERE = Elsewhere()


class Changed(Record):
    """Stands in a core for a set that a step changes.

    Attributes
    ----------
    added
        The elements that it gets.
    removed
        The elements that it loses; None: all others.
    """

    added: frozenset[Any]
    removed: frozenset[Any] | None


class PartStep(Step):
    """A step of a replica of which sets are taken apart: in `me` they have what is added to them, for type checks.

    Attributes
    ----------
    changed
        By field, how a set changes. Where `me` is the empty tuple, nothing changes, as in any other step.
    """

    changed: tuple[tuple[str, Changed], ...] = ()


Has = Callable[[Value], bool]
SETS = (frozenset, set)


def with_fields(record: Record, changes: dict[str, Any]) -> Any:
    """Return a copy of a record with other things in some fields, whatever its class makes of them."""
    copy = object.__new__(type(record))
    copy.__dict__.update({name: changes.get(name, record.__dict__[name]) for name in field_names(type(record))})
    return copy


class SetReader:
    """Reads like a set whose elements are asked for one by one, with elements added or removed since.

    Parameters
    ----------
    elements
        All that may be in it.
    has
        Whether one is in the set that was read.
    added, removed
        Elements that are, or are not, in this one, whatever was read.
    """

    __slots__ = ("_added", "_elements", "_has", "_removed")

    def __init__(
        self,
        elements: Sequence[Value],
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


class Refuser:
    """Refuses to be used as a set.

    Parameters
    ----------
    field
        The field in which it stands.
    """

    __slots__ = ("_field",)

    def __init__(self, field: str) -> None:
        object.__setattr__(self, "_field", field)


def _refuse(self: Refuser, *_: object) -> NoReturn:
    raise Unsplittable(object.__getattribute__(self, "_field"))


for _name in (*dir(SetReader), "__getattribute__", "__setattr__", "__ne__", "__str__", "__format__"):
    if callable(getattr(frozenset, _name, None)) and _name not in ("__class__", "__new__", "__init__", "__slots__"):
        setattr(Refuser, _name, _refuse)


def is_reader(value: object) -> bool:
    """Whether something reads like a set."""
    return type(value) is SetReader


def settled(value: Any) -> Any:
    """Return a value in which each reader is the set that it reads."""
    if is_reader(value):
        return frozenset(value)
    if isinstance(value, Record):
        new = {
            name: settled(part) for name, part in ((name, getattr(value, name)) for name in field_names(type(value)))
        }
        return with_fields(value, new) if any(new[name] is not getattr(value, name) for name in new) else value
    if type(value) is tuple:
        parts = tuple(map(settled, value))
        return parts if any(a is not b for a, b in zip(parts, value, strict=True)) else value
    if type(value) is frozenset and any(settled(part) is not part for part in value):
        return frozenset(map(settled, value))
    if type(value) is Map and any(settled(part) is not part for part in value.values()):
        return Map((key, settled(part)) for key, part in value.items())
    return value


class Apart:
    """One replica's local state, of which sets are taken apart, for one call of a handler or a property.

    Parameters
    ----------
    core
        What is left of the local state.
    sets
        By field, all that may be in it.
    has
        Whether an element is in the set of a field.
    """

    def __init__(self, core: Record, sets: Mapping[str, Sequence[Value]], has: Callable[[str, Value], bool]) -> None:
        self._has: dict[str, Has] = {name: lambda element, name=name: has(name, element) for name in sets}  # type: ignore[misc]
        self._sets = sets
        self.me = with_fields(core, {name: SetReader(sets[name], self._has[name]) for name in sets})

    def steps(self, made: Iterable[Any]) -> Iterator[Any]:
        """Yield a handler's steps as steps of the core; of steps that turn out to be equal, the first."""
        before: list[PartStep] = []
        for step in made:
            if not isinstance(step, Step):
                yield step
                return
            new = self._step(step)
            if not any(self._is_same(new, old) for old in before):
                before.append(new)
                yield new

    def _step(self, step: Step) -> PartStep:
        parts = {name: settled(getattr(step, name)) for name in field_names(Step) if name != "me"}
        if step.me == ():
            return PartStep(**parts)
        me = step.me
        if type(me) is not type(self.me):
            return PartStep(me=settled(me), **parts)
        changed, shown = [], {}
        for name in self._sets:
            value = getattr(me, name)
            if not isinstance(value, frozenset):
                raise Unsplittable(name)
            change = value.changes(self._has[name]) if isinstance(value, SetReader) else None
            if change is None:
                change = Changed(frozenset(value), None)
            if change.added or change.removed or change.removed is None:
                changed.append((name, change))
            shown[name] = change.added
        return PartStep(me=settled(with_fields(me, shown)), changed=tuple(changed), **parts)

    def _is_same(self, one: PartStep, other: PartStep) -> bool:
        """Whether two steps do the same to the sets that were read, and to all else."""
        if one.me == () or other.me == () or one.changed == other.changed:
            return one == other
        cores = [step.but(me=with_fields(step.me, dict.fromkeys(self._sets)), changed=()) for step in (one, other)]
        return cores[0] == cores[1] and all(
            self._after(one, name, element) == self._after(other, name, element)
            for name in self._sets
            for element in {*self._sets[name], *self._added(one, name), *self._added(other, name)}
        )

    def _added(self, step: PartStep, name: str) -> frozenset[Value]:
        change = dict(step.changed).get(name)
        return frozenset() if change is None else change.added

    def _after(self, step: PartStep, name: str, element: Value) -> bool:
        """Whether a set has an element after a step."""
        change = dict(step.changed).get(name)
        if change is not None and (change.removed is None or element in change.added or element in change.removed):
            return element in change.added
        return element in self._sets[name] and self._has[name](element)

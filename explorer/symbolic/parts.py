"""Sets within a local state that are taken apart: of each element a variable of its own says whether it is in the set.

What is left of the local state is its *core*. A handler or a property gets readers in place of the sets; each question
whether an element is in one is noted. What is compared element by element ends with the first that decides it, so that
`me.prepared == self.resource_managers` has as many cases as there are elements, not as many as there are sets.

Where something else is done with such a set than what a reader can follow, `Unsplittable` says which it is: the search
begins again, and leaves that set whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from kraftcheck.explorer.sets import Changed, Has, SetReader
from kraftcheck.spec.language.state import Step
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


class PartStep(Step):
    """A step of a replica of which sets are taken apart: in `me` they have what is added to them, for type checks."""

    # by field, how a set changes. Where `me` is the empty tuple, nothing changes, as in any other step.
    changed: tuple[tuple[str, Changed], ...] = ()


def with_fields(record: Record, changes: dict[str, Any]) -> Any:
    """Return a copy of a record with other things in some fields, whatever its class makes of them."""
    copy = object.__new__(type(record))
    copy.__dict__.update({name: changes.get(name, record.__dict__[name]) for name in field_names(type(record))})
    return copy


class Refuser:
    """Refuses to be used as a set."""

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
    """One replica's local state, of which sets are taken apart, for one call of a handler or a property."""

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

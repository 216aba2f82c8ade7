"""Exploded sets of a local state: one Boolean variable for each possible element.

The rest of the local state is its *core*. A handler or property gets read-tracking proxies for the sets, and each
membership test is recorded. A comparison stops at the first element that decides it. So `me.prepared ==
self.resource_managers` of two-phase commit has as many cases as elements, not as many as subsets.

A use that a proxy cannot follow raises `OpaqueSetRequired` with the field. The search then restarts with that field's
sets opaque.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from kraftcheck.explorer.calls.proxies import DeltaStep, Has, SetChange, SetProxy, unwrap
from kraftcheck.spec.language.state import Step
from kraftcheck.spec.values import Record, Value, field_names


class OpaqueSetRequired(BaseException):
    """Raised for a use that needs a whole exploded set; a BaseException, so that `except Exception` lets it pass."""

    def __init__(self, field: str) -> None:
        self.field = field


class Hole:
    """Placeholder for an exploded set in a local state."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "..."


HOLE = Hole()


def with_fields(record: Record, changes: dict[str, Any]) -> Any:
    """Return a copy of a record with other values in some fields, without calling its constructor."""
    copy = object.__new__(type(record))
    copy.__dict__.update({name: changes.get(name, record.__dict__[name]) for name in field_names(type(record))})
    return copy


class OpaqueGuard:
    """Stand-in for an exploded set; raises OpaqueSetRequired on every use."""

    __slots__ = ("_field",)

    def __init__(self, field: str) -> None:
        object.__setattr__(self, "_field", field)


def _refuse(self: OpaqueGuard, *_: object) -> NoReturn:
    raise OpaqueSetRequired(object.__getattribute__(self, "_field"))


for _name in (*dir(SetProxy), "__getattribute__", "__setattr__", "__ne__", "__str__", "__format__"):
    if callable(getattr(frozenset, _name, None)) and _name not in ("__class__", "__new__", "__init__", "__slots__"):
        setattr(OpaqueGuard, _name, _refuse)


class ExplodedLocalState:
    """One replica's local state with proxies for its exploded sets, for one call of a handler or property."""

    def __init__(self, core: Record, sets: Mapping[str, Sequence[Value]], has: Callable[[str, Value], bool]) -> None:
        self._has: dict[str, Has] = {name: lambda element, name=name: has(name, element) for name in sets}  # type: ignore[misc]
        self._sets = sets
        self.me = with_fields(core, {name: SetProxy(sets[name], self._has[name]) for name in sets})

    def steps(self, made: Iterable[Any]) -> Iterator[Any]:
        """Yield a handler's steps, with the changes of exploded sets apart from the local state, without duplicates."""
        before: list[DeltaStep] = []
        for step in made:
            if not isinstance(step, Step):
                yield step
                return
            new = self._step(step)
            if not any(self._is_same(new, old) for old in before):
                before.append(new)
                yield new

    def _step(self, step: Step) -> DeltaStep:
        parts = {name: unwrap(getattr(step, name)) for name in field_names(Step) if name != "me"}
        if step.me == ():
            return DeltaStep(**parts)
        me = step.me
        if type(me) is not type(self.me):
            return DeltaStep(me=unwrap(me), **parts)
        changed, shown = [], {}
        for name in self._sets:
            change = self._change_of(name, getattr(me, name))
            if change.added or change.removed or change.removed is None:
                changed.append((name, change))
            shown[name] = change.added
        return DeltaStep(me=unwrap(with_fields(me, shown)), sets=tuple(changed), **parts)

    def _change_of(self, name: str, value: Any) -> SetChange:
        if not isinstance(value, frozenset):
            raise OpaqueSetRequired(name)
        change = value.changes(self._has[name]) if isinstance(value, SetProxy) else None
        return SetChange(frozenset(value), None) if change is None else change

    def _is_same(self, one: DeltaStep, other: DeltaStep) -> bool:
        """Whether two steps have the same effect on the exploded sets and on the rest of the state."""
        if one.me == () or other.me == () or one.sets == other.sets:
            return one == other
        cores = [step.but(me=with_fields(step.me, dict.fromkeys(self._sets)), sets=()) for step in (one, other)]
        return cores[0] == cores[1] and all(
            self._after(one, name, element) == self._after(other, name, element)
            for name in self._sets
            for element in {*self._sets[name], *self._added(one, name), *self._added(other, name)}
        )

    def _added(self, step: DeltaStep, name: str) -> frozenset[Value]:
        change = dict(step.sets).get(name)
        return frozenset() if change is None else change.added

    def _after(self, step: DeltaStep, name: str, element: Value) -> bool:
        """Whether the exploded set in the field `name` contains an element after a step."""
        change = dict(step.sets).get(name)
        if change is not None and (change.removed is None or element in change.added or element in change.removed):
            return element in change.added
        return element in self._sets[name] and self._has[name](element)

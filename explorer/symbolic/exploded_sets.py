"""Sets within a local state that are exploded: of each element a variable of its own says whether it is in the set.

What is left of the local state is its *core*. A handler or a property gets proxies in place of the sets, and each
element that it asks for is noted. What is compared element by element ends with the first that decides it, so that
`me.prepared == self.resource_managers` of two-phase commit has as many cases as there are elements, not as many as
there are sets.

Where a set is used in a way that a proxy cannot follow, `OpaqueSetRequired` names it: the search begins again, and
leaves that set whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from kraftcheck.explorer.calls.proxies import DeltaStep, Has, SetChange, SetProxy, unwrap
from kraftcheck.spec.language.state import Step
from kraftcheck.spec.values import Record, Value, field_names


class OpaqueSetRequired(BaseException):
    """A set is used in a way that needs all of it. It is no Exception, so that no handler catches it."""

    def __init__(self, field: str) -> None:
        self.field = field


class Hole:
    """Stands in a core where a set was."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "..."


HOLE = Hole()


def with_fields(record: Record, changes: dict[str, Any]) -> Any:
    """Return a copy of a record with other things in some fields, whatever its class makes of them."""
    copy = object.__new__(type(record))
    copy.__dict__.update({name: changes.get(name, record.__dict__[name]) for name in field_names(type(record))})
    return copy


class OpaqueGuard:
    """Refuses to be used as a set."""

    __slots__ = ("_field",)

    def __init__(self, field: str) -> None:
        object.__setattr__(self, "_field", field)


def _refuse(self: OpaqueGuard, *_: object) -> NoReturn:
    raise OpaqueSetRequired(object.__getattribute__(self, "_field"))


for _name in (*dir(SetProxy), "__getattribute__", "__setattr__", "__ne__", "__str__", "__format__"):
    if callable(getattr(frozenset, _name, None)) and _name not in ("__class__", "__new__", "__init__", "__slots__"):
        setattr(OpaqueGuard, _name, _refuse)


class ExplodedLocalState:
    """One replica's local state with exploded sets, for one call of a handler or a property."""

    def __init__(self, core: Record, sets: Mapping[str, Sequence[Value]], has: Callable[[str, Value], bool]) -> None:
        self._has: dict[str, Has] = {name: lambda element, name=name: has(name, element) for name in sets}  # type: ignore[misc]
        self._sets = sets
        self.me = with_fields(core, {name: SetProxy(sets[name], self._has[name]) for name in sets})

    def steps(self, made: Iterable[Any]) -> Iterator[Any]:
        """Yield a handler's steps as steps of the core; of steps that turn out to be equal, the first."""
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
        """Whether two steps do the same to the sets that were read, and to all else."""
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
        """Whether a set has an element after a step."""
        change = dict(step.sets).get(name)
        if change is not None and (change.removed is None or element in change.added or element in change.removed):
            return element in change.added
        return element in self._sets[name] and self._has[name](element)

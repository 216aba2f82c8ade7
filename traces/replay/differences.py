"""Compares two states as TLA+ variables, field by field.

>>> from kraftcheck.spec.tla.parsing import parse_value
>>> theirs, ours = parse_value("(n1 :> [e |-> 1, s |-> {}])"), parse_value("(n1 :> [e |-> 2, s |-> {n2}])")
>>> for difference in differences({"x": theirs}, {"x": ours}):
...     print(difference)
x[n1].e: 1 in the trace, 2 by the protocol
x[n1].s: n2 is missing in the trace
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kraftcheck.spec.display import cut
from kraftcheck.spec.tla.formatting import in_tlc_order, one_line
from kraftcheck.spec.values import Map, ModelValue, Value

LONGEST_PLACE = 96
"""Characters of an argument that a place shows."""


class Difference(NamedTuple):
    """One place at which two states differ."""

    path: str  # the place: the variable with the arguments and fields that lead there, `log[n1][2].epoch`
    trace: str | None  # the values that the trace and the protocol have there, as TLA+ text; None for none
    protocol: str | None
    is_element: bool = False  # whether it is an element that only one of two sets has

    def __str__(self) -> str:
        if self.protocol is None:
            what = f"{self.trace} is in the trace only" if self.is_element else f"{self.trace} in the trace only"
        elif self.trace is None:
            what = f"{self.protocol} is missing in the trace" if self.is_element else f"{self.protocol} is missing"
        else:
            what = f"{self.trace} in the trace, {self.protocol} by the protocol"
        return f"{self.path}: {what}"


def differences(
    trace: Mapping[str, Value], protocol: Mapping[str, Value], names: Mapping[Value, str] | None = None
) -> list[Difference]:
    """Return the places at which two states differ."""
    comparison = _Comparison(names or {})
    found: list[Difference] = []
    for name in dict.fromkeys((*protocol, *trace)):
        if name in trace and name in protocol:
            found += comparison.between(name, trace[name], protocol[name])
        else:
            found.append(comparison.difference(name, trace.get(name), protocol.get(name)))
    return found


class _Comparison:
    def __init__(self, names: Mapping[Value, str]) -> None:
        self._names = {value: ModelValue(name) for value, name in names.items()}

    def text(self, value: Value) -> str:
        """Return a value on one line, with short names where there are."""
        return one_line(self._named(value))

    def _short(self, value: Value) -> str:
        return cut(self.text(value), LONGEST_PLACE)

    def _named(self, value: Value) -> Value:
        kind = type(value)
        if kind is tuple:
            return tuple(map(self._named, value))
        if kind is frozenset:
            return frozenset(map(self._named, value))
        if kind is Map:
            short = self._names.get(value)
            if short is not None:
                return short
            return Map([(self._named(key), self._named(item)) for key, item in value.items()])
        return value

    def difference(self, path: str, trace: Value, protocol: Value, *, is_element: bool = False) -> Difference:
        """Return one difference; None stands for nothing, which is no value."""
        texts = [None if value is None else self.text(value) for value in (trace, protocol)]
        return Difference(path, texts[0], texts[1], is_element)

    def between(self, path: str, trace: Value, protocol: Value) -> Iterator[Difference]:
        """Yield the differences of two values that stand at a place."""
        if trace is protocol or (type(trace) is type(protocol) and trace == protocol):
            return
        if isinstance(trace, Map | tuple) and isinstance(protocol, Map | tuple):
            if _are_alike(trace, protocol):
                yield from self._functions(path, trace, protocol)
                return
        elif type(trace) is frozenset and type(protocol) is frozenset:
            yield from self._sets(path, trace, protocol)
            return
        yield self.difference(path, trace, protocol)

    def _functions(self, path: str, trace: Value, protocol: Value) -> Iterator[Difference]:
        theirs, ours = _pairs(trace), _pairs(protocol)
        more, less = [key for key in theirs if key not in ours], [key for key in ours if key not in theirs]
        for key in in_tlc_order(key for key in ours if key in theirs):
            yield from self.between(path + self._place(key, ours), theirs[key], ours[key])
        for key, near in self._paired(more, less):
            if key is not None and near is not None:
                place = path + self._place(near, ours)
                yield from self.between(place, key, near)
                yield from self.between(place, theirs[key], ours[near])
            elif key is not None:
                yield self.difference(path + self._place(key, theirs), theirs[key], None)
            else:
                yield self.difference(path + self._place(near, ours), None, ours[near])

    def _sets(self, path: str, trace: frozenset[Value], protocol: frozenset[Value]) -> Iterator[Difference]:
        for element, near in self._paired(list(trace - protocol), list(protocol - trace)):
            if element is not None and near is not None:
                yield from self.between(f"{path}{{{self._short(near)}}}", element, near)
            else:
                yield self.difference(path, element, near, is_element=True)

    def _paired(self, more: list[Value], less: list[Value]) -> Iterator[tuple[Value, Value]]:
        """Yield records that both sides have in a slightly different form as pairs, the others by themselves."""
        rest = in_tlc_order(less)
        for value in in_tlc_order(more):
            near = min(rest, key=lambda other: _distance(value, other), default=None)
            if near is not None and 2 * _distance(value, near) <= len(value if isinstance(value, Map) else ()):
                rest.remove(near)
                yield value, near
            else:
                yield value, None
        for value in rest:
            yield None, value

    def _place(self, key: Value, function: Mapping[Value, Value]) -> str:
        if type(key) is str and all(type(name) is str for name in function):
            return f".{key}"
        return f"[{self._short(key)}]"


def _pairs(value: Value) -> Mapping[Value, Value]:
    """Return the arguments and values of a function; one with the domain 1..n is a sequence."""
    return dict(enumerate(value, start=1)) if type(value) is tuple else value


def _are_alike(one: Value, other: Value) -> bool:
    """Tell whether two functions are worth comparing in parts: records are if they have the same fields."""
    if type(one) is tuple or type(other) is tuple:
        return type(one) is type(other) or not one or not other or not (_is_record(one) or _is_record(other))
    if _is_record(one) or _is_record(other):
        return set(one) == set(other)
    return True


def _is_record(value: Value) -> bool:
    return isinstance(value, Map) and len(value) > 0 and all(type(key) is str for key in value)


def _distance(one: Value, other: Value) -> float:
    """Return in how many fields two records differ; infinity where they are not alike."""
    if not (_is_record(one) and _is_record(other) and set(one) == set(other)):
        return float("inf")
    return float(sum(type(one[name]) is not type(other[name]) or one[name] != other[name] for name in one))

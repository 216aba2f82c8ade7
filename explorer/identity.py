"""Which states count as one: symmetry and view."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, permutations, product

from spec.protocol import Protocol
from spec.state import State
from spec.values import Map, ModelValue, Value, encode, field_names, transform

Permutation = dict[Value, Value]


def permutation_group(sets: tuple[tuple[Value, ...], ...]) -> list[Permutation]:
    """Return every permutation that permutes the values of each set among themselves, the identity first.

    Parameters
    ----------
    sets
        Sets of interchangeable model values.
    """
    group = []
    for chosen in product(*[permutations(values) for values in sets]):
        pairs = [zip(values, images, strict=True) for values, images in zip(sets, chosen, strict=True)]
        group.append(dict(chain.from_iterable(pairs)))
    return group


def permuted(value: Value, permutation: Permutation) -> Value:
    """Return a value with its model values permuted."""

    def leaf(item: ModelValue) -> Value:
        return permutation.get(item, item)

    return transform(value, leaf)


def identity_of(protocol: Protocol, symmetry: str | None, view: str | None) -> Callable[[State], Value]:
    """Return the function that maps states which count as one to one value.

    Parameters
    ----------
    protocol
        The protocol.
    symmetry, view
        Names of one of its symmetries and views, or None.
    """
    see = _viewed(protocol, view)
    if symmetry is None:
        return see
    group = permutation_group(protocol.symmetry_sets(symmetry))

    def canonical(state: State) -> bytes:
        seen = see(state)
        return min(encode(permuted(seen, permutation)) for permutation in group)

    return canonical


def _viewed(protocol: Protocol, view: str | None) -> Callable[[State], State]:
    if view is None:
        return lambda state: state
    hidden = protocol.hidden(view)

    def see(state: State) -> State:
        names = field_names(type(state.shared))
        shared = Map((name, getattr(state.shared, name)) for name in names if name not in hidden.shared)
        spent = Map((name, used) for name, used in state.spent.items() if name not in hidden.bounds)
        return state.but(shared=shared, spent=spent)

    return see

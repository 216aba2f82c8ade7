"""Another order of variables, in which what an event is about stands close together: by what is known of events."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random

from kraftcheck.explorer.symbolic.relations import Event
from kraftcheck.explorer.symbolic.variables import Key

TRIED_NODES = 1 << 17  # made in the first order, before another is looked for
MOVES = 3_000  # of one variable
WARMTH = 0.02  # how much worse a move may be at first, as a part of the whole
LEAST = 2  # how many times closer together another order must bring what events are about


def closer_order(keys: Sequence[Key], events: Iterable[Event]) -> tuple[Key, ...] | None:
    """Return an order that brings the first and the last variable of events at least twice as close, or None.

    It is found by simulated annealing. Events about the same variables count once. Of an order and its reverse the one
    is taken in which events begin later.

    Parameters
    ----------
    keys
        The variables, in the order that they have.
    events
        What is known of events.
    """
    counted = Counter(tuple(level for level, _ in event) for event in events if len(event) > 1)
    groups, random, places = sorted(counted), Random(1), list(range(len(keys)))

    def spans(order: list[int]) -> int:
        for place, level in enumerate(order):
            places[level] = place
        total = 0
        for group in groups:
            at = [places[level] for level in group]
            total += max(at) - min(at)
        return total

    def begins(order: list[int]) -> float:
        """Return how far from the end events begin."""
        spans(order)
        weights = {group: math.log2(1 + count) for group, count in counted.items()}
        return sum(weight * (len(order) - min(places[level] for level in group)) for group, weight in weights.items())

    order = list(range(len(keys)))
    first = cost = least = spans(order)
    best = order
    for move in range(MOVES):
        new = list(order)
        new.insert(random.randrange(len(new)), new.pop(random.randrange(len(new))))
        found = spans(new)
        warmth = cost * WARMTH * (1 - move / MOVES)
        if found <= cost or random.random() < math.exp((cost - found) / max(warmth, 1e-9)):
            order, cost = new, found
            if cost < least:
                best, least = order, cost
    if LEAST * least > first:
        return None
    return tuple(keys[level] for level in min(best, best[::-1], key=begins))

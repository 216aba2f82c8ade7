"""Choice of another variable order: the variables of an event close together, or shared fields first.

Trial searches within smaller bounds compare the orders.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from random import Random

from kraftcheck.explorer.symbolic.diagram_store import OutOfNodes
from kraftcheck.explorer.symbolic.handler_cache import HandlerCache
from kraftcheck.explorer.symbolic.relations import Event
from kraftcheck.explorer.symbolic.state_space import StateSpace
from kraftcheck.explorer.symbolic.variables import LayoutChanged, VariableKey, VariableKind, VariableLayout
from kraftcheck.spec.errors import RaisedError
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import Value, ordered

VariableOrder = tuple[VariableKey, ...]

TRIAL_NODE_BUDGETS = (1 << 15, 1 << 13), (1 << 20, 1 << 16)
"""For each trial: the nodes made before it, and the most nodes of its smaller searches."""
ANNEALING_MOVES = 3_000  # moves of one variable in simulated annealing
ANNEALING_TEMPERATURE = 0.02  # accepted worsening at first, as a fraction of the cost
CLEARLY_FEWER_NODES_FRACTION = 0.9  # an order is clearly better with this fraction of the nodes
TRIAL_MEMORY_BYTES = 1 << 28  # bytes for a trial search
SAMPLE_WALKS, SAMPLE_WALK_STEPS = 10, 30  # random walks, and steps of each, that look for replicas that appear later
LEAST_SPAN_REDUCTION = 2  # least factor by which another order must shorten the span of events


def anneal_order(keys: Sequence[VariableKey], events: Iterable[Event]) -> VariableOrder | None:
    """Return an order with at most half the total span of the events, by simulated annealing; else None.

    The span of an event is the distance from its first to its last variable. Events over the same variables count once.
    Of an order and its reverse, the one is returned in which events begin later.
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
        """Return the weighted sum of the distances from each event's first variable to the last level."""
        spans(order)
        weights = {group: math.log2(1 + count) for group, count in counted.items()}
        return sum(weight * (len(order) - min(places[level] for level in group)) for group, weight in weights.items())

    # Move one variable at a time. A worse order is accepted with a probability that falls to 0 with the moves.
    order = list(range(len(keys)))
    first = cost = least = spans(order)
    best = order
    for move in range(ANNEALING_MOVES):
        new = list(order)
        new.insert(random.randrange(len(new)), new.pop(random.randrange(len(new))))
        found = spans(new)
        warmth = cost * ANNEALING_TEMPERATURE * (1 - move / ANNEALING_MOVES)
        if found <= cost or random.random() < math.exp((cost - found) / max(warmth, 1e-9)):
            order, cost = new, found
            if cost < least:
                best, least = order, cost
    if LEAST_SPAN_REDUCTION * least > first:
        return None
    return tuple(keys[level] for level in min(best, best[::-1], key=begins))


def shared_first_order(keys: Sequence[VariableKey]) -> VariableOrder:
    """Return the order with the shared fields moved to the front."""
    return tuple(sorted(keys, key=lambda key: key.kind != VariableKind.SHARED))


def cheapest_order(
    orders: Sequence[VariableOrder],
    bounds: Mapping[str, int],
    made: Callable[[VariableOrder, Mapping[str, int], int], int | None],
    most: int,
) -> VariableOrder:
    """Return the order whose trial search makes clearly fewest nodes, else the first order.

    The bounds of the trial grow one by one, as long as the first order needs at most `most` nodes.
    """
    limits, fewest = dict.fromkeys(bounds, 0), made(orders[0], dict.fromkeys(bounds, 0), most)
    while fewest is not None and limits != bounds:
        open_bounds = [name for name in bounds if limits[name] < bounds[name]]
        name = min(open_bounds, key=lambda name: limits[name] / bounds[name])
        more = limits | {name: limits[name] + 1}
        found = made(orders[0], more, most)
        if found is None:
            break
        limits, fewest = more, found
    best = orders[0]
    for order in orders[1:]:
        found = None if fewest is None else made(order, limits, int(CLEARLY_FEWER_NODES_FRACTION * fewest))
        if found is not None:
            best, fewest = order, found
    return best


def replicas_met_by_walks(semantics: Semantics, starts: Sequence[State]) -> list[Value]:
    """Return the replicas that random walks meet; each one met later would restart the search."""
    random, met = Random(1), set[Value]()
    for _ in range(SAMPLE_WALKS):
        state = random.choice(starts)
        with suppress(RaisedError):  # the search reports it
            for _ in range(SAMPLE_WALK_STEPS):
                met.update(state.replicas)
                steps = list(semantics.transitions(state))
                if not steps:
                    break
                state = random.choice(steps).target
    return ordered(met)


class NodeBudgetExceeded(Exception):  # noqa: N818 - not an error
    """A trial search made more nodes than its budget."""


class OrderTrials:
    """Trial searches within smaller bounds, which look for a better variable order."""

    def __init__(
        self, calls: HandlerCache, semantics: Semantics, starts: list[State], constraints: tuple[Property, ...]
    ) -> None:
        self._calls, self._semantics, self._starts, self._constraints = calls, semantics, starts, constraints
        self._looks = list(TRIAL_NODE_BUDGETS)
        self._may_meet = True  # whether random walks may still look for replicas that appear late

    def give_up(self) -> None:
        """Skip all further trials."""
        self._looks.clear()

    def is_due(self, nodes_made: int) -> bool:
        """Whether a trial is due, given the number of nodes made."""
        return bool(self._looks) and nodes_made > self._looks[0][0]

    def look(self, space: StateSpace, tick: Callable[[int], None]) -> None:
        """Raise LayoutChanged if random walks meet new replicas, or if another order needs fewer nodes."""
        layout = space.variables.layout
        if self._may_meet:
            self._may_meet = False
            if layout.require_replicas(replicas_met_by_walks(self._semantics, self._starts)):
                raise LayoutChanged
        _, most = self._looks.pop(0)
        keys = tuple(space.variables.keys)
        closer = anneal_order(keys, (info.event for info in space.learning.events.infos))
        orders = [keys if closer is None else closer, shared_first_order(keys)]

        def made(order: VariableOrder, limits: Mapping[str, int], most: int) -> int | None:
            return self._nodes_made(layout.arranged(order, limits), tick, most)

        best = cheapest_order(orders, self._semantics.protocol.bounds, made, most)
        if best != keys:
            layout.order = best
            raise LayoutChanged

    def _nodes_made(self, layout: VariableLayout, tick: Callable[[int], None], most: int) -> int | None:
        """Return the number of nodes that a trial search makes with a layout; None if it exceeds `most`."""

        def pause() -> None:
            tick(0 if small is None else small.store.nodes)
            if small is not None and small.store.nodes_made > most:
                raise NodeBudgetExceeded

        small = None
        try:
            small = StateSpace(self._calls, layout, self._starts, TRIAL_MEMORY_BYTES, pause, self._constraints)
            small.saturated(small.start)
            return small.store.nodes_made
        except (NodeBudgetExceeded, OutOfNodes, LayoutChanged):
            return None
        finally:
            if small is not None:
                small.store.free()

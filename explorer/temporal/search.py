"""Check of `@reachable` and temporal properties on the state graph of a complete search."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.result import (
    Behaviour,
    DeadEndCounts,
    LassoCycle,
    SearchMonitor,
    SearchRequest,
    TraceStep,
    trace_step_of_transition,
)
from kraftcheck.explorer.state_graph import LabelledGraph, StateGraph, states_without_path_to
from kraftcheck.explorer.transition_system import StateNumbers, canonicalizer, peer_of_step
from kraftcheck.persistence.stored_files import SpillArena
from kraftcheck.spec.diagnosis.action_explanation import explain_action_as_text
from kraftcheck.spec.language.declarations import PREDICATE, Property
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics, Transition, satisfies_fairness_predicate
from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import text_of

if TYPE_CHECKING:
    from kraftcheck.explorer.temporal.checking import Lasso, LassoStep


def do_exhausted_bounds_disable_actions(protocol: Protocol, options: SearchRequest) -> bool:
    """Whether an exhausted bound disables an action: as the options say, else as the protocol says."""
    return protocol.strict_bounds if options.strict_bounds is None else options.strict_bounds


def check_reachable_properties(
    graph: StateGraph, options: SearchRequest, monitor: SearchMonitor, *, is_compiled: bool = False
) -> None:
    """Check the `@reachable` properties (AG EF)."""
    for prop in options.reachable:
        found = states_without_path_to(graph, prop, _mark_states_with_path_to_marked if is_compiled else None)
        monitor.followed.add(prop.name)
        monitor.result.notes += graph.take_notes()
        if len(found):
            trap = DeadEndCounts(len(found), graph.count)
            monitor.violation(prop.name, graph.store.path_to(int(found[0])), trap)


def _mark_states_with_path_to_marked(
    room: SpillArena, sources: StateNumbers, targets: StateNumbers, marked: NDArray[np.uint8]
) -> None:
    """Mark every state with a path to a marked state, by compiled code."""
    from kraftcheck.explorer.temporal.kernel.product import mark_states_leading_to_marked  # imports Numba

    begins, waiting = room.array(len(marked) + 1, np.int64), room.array(len(marked), np.int32)
    before = room.array(len(sources), np.int32)
    mark_states_leading_to_marked(sources, targets, marked, begins, before, waiting)
    for used in (begins, waiting, before):
        room.give_back(used)


def check_temporal_properties(
    graph: StateGraph, semantics: Semantics, options: SearchRequest, monitor: SearchMonitor
) -> None:
    """Check the temporal properties of a search."""
    # most searches do not need its compiled code
    from kraftcheck.explorer.temporal.checking import check_formula_on_graph

    if not options.temporal:
        return
    monitor.tally()
    strict, notes = do_exhausted_bounds_disable_actions(semantics.protocol, options), monitor.result.notes
    labelled = LabelledGraph(graph, expected=monitor.result.generated_states, strict_bounds=strict)
    beyond = len(np.unique(labelled.beyond.states))
    if beyond:
        notes.append(
            f"{beyond:,} states have steps beyond a constraint; behaviours that take one satisfy each temporal property"
        )
    if options.view is not None:  # check the hidden bounds, even for a formula without atoms
        names = ", ".join(prop.name for prop in options.temporal)
        labelled.holds(Property(names, PREDICATE, lambda protocol: True, ()))
    for prop in options.temporal:
        monitor.check_time_limit(0)
        found = check_formula_on_graph(prop.name, prop.formula(semantics.protocol), options.fairness_of(prop), labelled)
        monitor.followed.add(prop.name)
        notes += [*graph.take_notes(), *found.notes]
        if found.lasso is not None:
            lasso = _lasso_as_behaviour(found.lasso, semantics, options, graph.store.state)
            if lasso is None:
                raise graph.bounds.spends_too_much(prop.name)
            trace, _, loop = lasso
            if loop.again is not None and _differ_apart_from_bounds(
                semantics.protocol, options, trace[loop.back_to - 1], loop.again
            ):
                way = f"up to the renaming of VIEW {options.view}"
                notes.append(f"{prop.name}: the cycle leads back to state {loop.back_to} {way}")
            monitor.violation(prop.name, *lasso)


def _differ_apart_from_bounds(protocol: Protocol, options: SearchRequest, one: TraceStep, other: TraceStep) -> bool:
    """Whether two states that the view identifies differ in more than bounds."""
    differ = one.state.but(spent=other.state.spent) != other.state
    return differ and protocol.renames(options.view) is not None


def _lasso_as_behaviour(
    lasso: Lasso, semantics: Semantics, options: SearchRequest, decode: Callable[[int], State]
) -> tuple[Behaviour, None, LassoCycle] | None:
    """Return a lasso as a behaviour with its loop; None if it exceeds bounds that the VIEW leaves out."""
    identity = canonicalizer(semantics.protocol, None, options.view)
    steps = [TraceStep(decode(lasso.start))]
    for move in (*lasso.way, *lasso.cycle):
        wanted = identity(decode(move.target))
        fitting = (
            transition
            for transition in semantics.transitions(steps[-1].state)
            if identity(transition.target) == wanted
            and _matches_lasso_step(semantics.protocol, steps[-1].state, transition, move)
        )
        found = next(fitting, None)
        if found is None:
            return None
        steps.append(trace_step_of_transition(found))
    back_to = len(lasso.way) + 1
    never = why_cycle_lacks_actions(semantics, lasso.waited, steps[len(lasso.way) :], range(back_to, len(steps) + 1))
    again = steps.pop() if lasso.cycle else None
    return tuple(steps), None, LassoCycle(back_to, again, lasso.kept, never)


def _matches_lasso_step(protocol: Protocol, state: State, transition: Transition, move: LassoStep) -> bool:
    label, me = move.label, state.replicas.get(transition.actor)
    return (
        label is not None
        and transition.action == label.action
        and label.actor in (None, transition.actor)
        and label.peer in (None, peer_of_step(transition.message, transition.step))
        and label.kind in (None, type(transition.message).__name__)
        and all(satisfies_fairness_predicate(protocol, one, me, transition.message) for one in label.parts)
    )


MOST_REASONS = 2
"""Most reasons given for one action."""


def why_cycle_lacks_actions(
    semantics: Semantics, actions: Sequence[str], cycle: Sequence[TraceStep], numbers: Sequence[int]
) -> tuple[str, ...]:
    """Explain, for each action absent from a cycle, why the cycle does not take the action."""
    taken = {step.action for step in cycle[1:]}
    return tuple(
        f"{action} {_why_action_not_taken(semantics, action, cycle, numbers)}"
        for action in actions
        if action not in taken
    )


def _why_action_not_taken(semantics: Semantics, action: str, cycle: Sequence[TraceStep], numbers: Sequence[int]) -> str:
    ready = [_has_changing_step(semantics, action, step.state) for step in cycle]
    if all(ready):
        return "can be taken all the time, and need not be"
    for place, (before, after) in enumerate(itertools.pairwise(ready)):
        if before and not after:
            step = cycle[place + 1]
            by = "" if step.actor is None else f" by {text_of(step.actor)}"
            return f"can be taken in state {numbers[place]}, and {step.action}{by} undoes that"
    head, *reasons = explain_action_as_text(semantics, cycle[0].state, action).splitlines()
    if head.endswith("is enabled:"):
        return f"would change nothing in state {numbers[0]}"
    more = f"; and {len(reasons) - MOST_REASONS} more" if len(reasons) > MOST_REASONS else ""
    given = "; ".join(line.strip() for line in reasons[:MOST_REASONS])
    return f"is not enabled in state {numbers[0]}: {given}{more}"


def _has_changing_step(semantics: Semantics, action: str, state: State) -> bool:
    return any(one.action == action and one.target != state for one in semantics.transitions(state))

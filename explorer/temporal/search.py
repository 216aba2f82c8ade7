"""What a search does about temporal properties once it has visited every state, the same in every engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from kraftcheck.explorer.behaviour import Behaviour, step_of
from kraftcheck.explorer.bookkeeping import Bookkeeping
from kraftcheck.explorer.identity import identity_of
from kraftcheck.explorer.reachability import Goals
from kraftcheck.explorer.result import Loop, Options, TraceStep
from kraftcheck.explorer.temporal.conditions import fairness_of
from kraftcheck.explorer.temporal.graph import LabelledGraph, peer_of
from kraftcheck.explorer.temporal.waiting import never_taken
from kraftcheck.spec.language.property import PREDICATE, Property
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics, Transition
from kraftcheck.spec.language.state import State

if TYPE_CHECKING:
    from kraftcheck.explorer.temporal.checking import Lasso, Move

Decode = Callable[[int], State]


def without_symmetry(options: Options) -> tuple[Options, list[str]]:
    """Return the options without SYMMETRY where temporal properties are checked, and a note that says so.

    A cycle of orbits need not be one of states: the states of an orbit differ in who is starved.
    """
    if not options.temporal or options.symmetry is None:
        return options, []
    names = ", ".join(prop.name for prop in options.temporal)
    note = f"SYMMETRY {options.symmetry} is switched off: {names} may tell apart what it makes one"
    return replace(options, symmetry=None), [note]


def strict_bounds(protocol: Protocol, options: Options) -> bool:
    """Return whether an action for which a bound has nothing left is not enabled, as options or the protocol say."""
    return protocol.strict_bounds if options.strict_bounds is None else options.strict_bounds


def check_temporal(
    graph: LabelledGraph, semantics: Semantics, options: Options, books: Bookkeeping, decode: Decode
) -> None:
    """Check the temporal properties of a search."""
    from kraftcheck.explorer.temporal.checking import check  # most searches do without its compiled code

    protocol, notes = semantics.protocol, books.result.notes
    strict = strict_bounds(protocol, options)
    beyond = len(set(graph.beyond.states.tolist()))
    if beyond:
        notes.append(
            f"{beyond:,} states have steps beyond a constraint; a behaviour that takes one breaks no temporal property"
        )
    if options.view is not None:  # a formula need not have an atom for which states are looked at
        names = ", ".join(prop.name for prop in options.temporal)
        graph.holds(Property(names, PREDICATE, lambda protocol: True, ()))
    for prop in options.temporal:
        books.look_at_the_clock(0)
        found = check(prop.name, prop.formula(protocol), fairness_of(prop, options), graph, strict)
        books.followed.add(prop.name)
        notes += found.notes
        if found.lasso is not None:
            told = _told(found.lasso, semantics, options, decode)
            if told is None:
                raise Goals(semantics, options, {}).spends_too_much(prop.name)
            books.violation(prop.name, *told)


def _told(lasso: Lasso, semantics: Semantics, options: Options, decode: Decode) -> tuple[Behaviour, None, Loop] | None:
    """Return a lasso as a behaviour, and how it goes on; None where bounds that the VIEW leaves out do not last."""
    identity = identity_of(semantics.protocol, None, options.view)
    steps = [TraceStep(decode(lasso.start))]
    for move in (*lasso.way, *lasso.cycle):
        wanted = identity(decode(move.target))
        fitting = (
            transition
            for transition in semantics.transitions(steps[-1].state)
            if _is_called(transition, move) and identity(transition.target) == wanted
        )
        found = next(fitting, None)
        if found is None:
            return None
        steps.append(step_of(found))
    back_to = len(lasso.way) + 1
    numbers = range(back_to, len(steps) + 1)
    never = never_taken(semantics, lasso.waited, steps[len(lasso.way) :], numbers)
    if not lasso.cycle:
        return tuple(steps), None, Loop(back_to, None, lasso.kept, never)
    return tuple(steps[:-1]), None, Loop(back_to, steps[-1], lasso.kept, never)


def _is_called(transition: Transition, move: Move) -> bool:
    label = move.label
    return (
        label is not None
        and transition.action == label.action
        and label.actor in (None, transition.actor)
        and label.peer in (None, peer_of(transition.message, transition.step))
        and label.kind in (None, type(transition.message).__name__)
    )

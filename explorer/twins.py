"""Test of a VIEW that renames states: a state and its twin have the same steps, and the same verdicts.

A twin is another state that the view identifies with a state: its numbers are higher by a lift. If every state behaves
as its twins, the view is a bisimulation: the search of one state of each class decides every property. An action or a
property that compares a number with a constant differs between twins on both sides of the constant, and is refused.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from inspect import unwrap
from types import CodeType, FunctionType
from typing import Any

from kraftcheck.explorer.plain_system import PlainSystem
from kraftcheck.explorer.transition_system import BLOCKED, LabelTable
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.formula import NEXT, Enabled, StatePredicate
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import Value

FAR = 1_000_003
"""A lift above any constant of a protocol."""
AROUND = range(-4, 2)
"""Lifts around each constant, since the highest number of a state is a few above its lowest."""
MOST_LIFTS = 240


class Twins:
    """Compares states with their twins.

    A new state is compared with one twin; with a twin of each lift if it has a local state or a message that no state
    before had, up to the renaming; always so if `thorough`. A state that was met before is compared with the form of
    its class if the count of such states is a power of two.
    """

    def __init__(self, system: PlainSystem, *, thorough: bool) -> None:
        protocol, options = system.semantics.protocol, system.options
        self._system, self._options, self._thorough = system, options, thorough
        self._semantics = Semantics(protocol)  # its calls are neither counted nor tested
        self._renamed = system.renames
        self._lifts = lifts_of(protocol) if self._renamed is not None else ()
        self._labels = LabelTable(protocol, system.actions, options.all_fairness)
        atoms = [atom for prop in options.temporal for atom in prop.formula(protocol).atoms()]
        predicates = tuple(atom.prop for atom in atoms if isinstance(atom, StatePredicate))
        self._enabled = frozenset[str]().union(*(atom.actions for atom in atoms if isinstance(atom, Enabled)))
        checked = (*options.properties, *options.constraints, *options.reachable, *predicates)
        self._of_states = tuple(dict.fromkeys(prop for prop in checked if not prop.over_steps))
        self._of_steps = tuple(dict.fromkeys(prop for prop in options.properties if prop.over_steps))
        self._seen: set[Value] = set()
        self._new, self._met, self.compared = 0, 0, 0

    def meet(self, state: State, *, is_new: bool) -> None:
        """Compare a state that the search reaches with its twins."""
        if self._renamed is None:
            return
        steps: dict[Any, str] | None = None
        for lift in self._lifts_for(self._renamed(state, 0), is_new=is_new):
            twin = self._renamed(state, lift)
            if twin != state:
                self._require_one_key(state, twin, lift)
                steps = self._steps(state) if steps is None else steps
                self._require_alike(state, twin, lift, steps)

    def _lifts_for(self, form: State, *, is_new: bool) -> tuple[int, ...]:
        """Return the lifts of the twins to compare with a state, given the form of its class."""
        if not is_new:
            self._met += 1
            return self._lifts[:1] if self._thorough or not self._met & (self._met - 1) else ()
        parts = self._parts(form) - self._seen
        self._seen |= parts
        self._new += 1
        return self._lifts if self._thorough or parts else self._lifts[self._new % len(self._lifts) :][:1]

    def _parts(self, state: State) -> set[Value]:
        known = self._semantics.network.known
        return {*state.replicas.values(), *(one for inbox in state.inboxes.values() for one in known(inbox))}

    def notes(self) -> list[str]:
        """Return a note about the comparisons made, if the view renames states."""
        if self._renamed is None:
            return []
        return [f"VIEW {self._options.view}: {self.compared:,} pairs of states had the same steps and verdicts"]

    def _require_one_key(self, state: State, twin: State, lift: int) -> None:
        if self._system.identity(twin) != self._system.identity(state):
            raise InputError(f"{self._where(lift)} leads to a state of another class; expected one of the same class")

    def _require_alike(self, state: State, twin: State, lift: int, steps: dict[Any, str]) -> None:
        self.compared += 1
        others = self._steps(twin)
        different = {(steps.get(key) or others[key]) for key in steps.keys() ^ others.keys()}
        if different:  # a step that only one of them has explains the verdicts over it
            name = min(different, key=lambda one: (not one.startswith("action "), one))
            raise self._refusal(name, lift, "differs")
        for prop in self._of_states:
            if self._semantics.holds(prop, state) != self._semantics.holds(prop, twin):
                raise self._refusal(prop.name, lift, "differs")

    def _steps(self, state: State) -> dict[Any, str]:
        """Return the steps out of a state, up to the view, each with the name to blame for a difference."""
        found: dict[Any, str] = {}
        for choice in self._semantics.choices(state):
            own = choice.inbox is not None
            me, message = (None, None) if own else (state.replicas.get(choice.actor), choice.message)
            label = self._labels.number(choice.action, me, message, choice.step)
            taken = self._semantics.taken(state, choice)
            if taken is None:
                if self._counts_blocked(choice.action) and self._semantics.is_blocked(state, choice):
                    found[label, BLOCKED] = f"action {choice.action}"
                continue
            key = (label, self._system.identity(taken.target), self._system.is_round(state, taken.target))
            found[key] = f"action {choice.action}"
            for prop in (*self._options.constraints, *self._options.action_constraints, *self._of_steps):
                found[key, prop.name, self._verdict(prop, state, taken)] = prop.name
        return found

    def _counts_blocked(self, action: str) -> bool:
        """Whether it matters that a bound alone prevents an action: fairness or a formula may name it as enabled."""
        return bool(self._enabled & {NEXT, action}) or any(one.names(action) for one in self._options.all_fairness)

    def _verdict(self, prop: Property, state: State, taken: Any) -> bool:
        if prop in self._options.constraints:
            return self._semantics.holds(prop, taken.target)
        if prop in self._options.action_constraints:
            return self._semantics.holds_over(prop, state, taken.target)
        return self._semantics.step_satisfies(prop, state, taken)

    def _where(self, lift: int) -> str:
        return f"VIEW {self._options.view}, lift {lift}:"

    def _refusal(self, name: str, lift: int, what: str) -> InputError:
        return InputError(
            f"{name}: {what} in two states that VIEW {self._options.view} identifies (lift {lift}):"
            " it reads a number that the view renames; expected comparisons of such numbers with each other"
        )


def lifts_of(protocol: Protocol) -> tuple[int, ...]:
    """Return the lifts of twins: small ones, one beyond every constant, and those around the protocol's constants."""
    found = dict.fromkeys((0, 1, 2, 3, FAR))
    limits = protocol.bounds  # a bound is spent, not read; a comparison with one differs between 0 and FAR
    known = [value for one, value in vars(protocol).items() if type(value) is int and one not in limits]
    for number in sorted({*known, *_literals(type(protocol))}):
        found |= dict.fromkeys(number + more for more in AROUND if 0 < number + more < FAR)
    return tuple(found)[:MOST_LIFTS]


def _literals(protocol: type[Protocol]) -> Iterator[int]:
    """Yield the integers in the code of a protocol, and of the modules of its classes."""
    declared = [one.function for one in protocol.actions.values()]
    declared += [one.function for one in protocol.properties.values()]
    values: list[object] = [unwrap(function) for function in declared]
    for base in protocol.__mro__:
        if not base.__module__.startswith(("kraftcheck.spec", "builtins")) or "examples" in base.__module__:
            values += [*vars(sys.modules[base.__module__]).values(), *vars(base).values()]
    for value in values:
        if type(value) is int:
            yield value
        elif isinstance(value, FunctionType):
            yield from _in_code(value.__code__)


def _in_code(code: CodeType) -> Iterator[int]:
    for value in code.co_consts:
        if type(value) is int:
            yield value
        elif isinstance(value, CodeType):
            yield from _in_code(value)

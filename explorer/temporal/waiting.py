"""What a behaviour that goes on for ever waits for, and why it does not happen."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from kraftcheck.explorer.result import TraceStep
from kraftcheck.spec.diagnosis.why import diagnosis_text
from kraftcheck.spec.display import text_of
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.language.state import State

MOST_REASONS = 2
"""Reasons that are told for one action."""


def never_taken(
    semantics: Semantics, actions: Sequence[str], cycle: Sequence[TraceStep], numbers: Sequence[int]
) -> tuple[str, ...]:
    """Say of actions why a cycle never takes them: each is not enabled, or undone, or nothing makes it happen."""
    taken = {step.action for step in cycle[1:]}
    return tuple(f"{action} {_why(semantics, action, cycle, numbers)}" for action in actions if action not in taken)


def _why(semantics: Semantics, action: str, cycle: Sequence[TraceStep], numbers: Sequence[int]) -> str:
    ready = [_is_ready(semantics, action, step.state) for step in cycle]
    if all(ready):
        return "can be taken all the time, and need not be"
    for place, (before, after) in enumerate(itertools.pairwise(ready)):
        if before and not after:
            step = cycle[place + 1]
            by = "" if step.actor is None else f" by {text_of(step.actor)}"
            return f"can be taken in state {numbers[place]}, and {step.action}{by} undoes that"
    head, *reasons = diagnosis_text(semantics, cycle[0].state, action).splitlines()
    if head.endswith("is enabled:"):
        return f"would change nothing in state {numbers[0]}"
    more = f"; and {len(reasons) - MOST_REASONS} more" if len(reasons) > MOST_REASONS else ""
    told = "; ".join(line.strip() for line in reasons[:MOST_REASONS])
    return f"is not enabled in state {numbers[0]}: {told}{more}"


def _is_ready(semantics: Semantics, action: str, state: State) -> bool:
    return any(one.action == action and one.target != state for one in semantics.transitions(state))

"""What is noted of an event besides the event."""

from __future__ import annotations

from typing import Any, NamedTuple

from kraftcheck.explorer.symbolic.relations import Event
from kraftcheck.spec.language.state import Step


class Taken(NamedTuple):
    """An event with what it is."""

    action: str  # the action's name
    event: Event
    # of replicas that it writes: the level, and the local states before (None: any) and after
    pairs: tuple[tuple[int, Any, Any], ...] = ()
    act: tuple[Any, Any, Step] | None = None  # the acting replica, the delivered message or None, and the step

"""What became of each message of a behaviour: which step sent it, and which one took it, or lost it."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kraftcheck.explorer.result import TraceStep
from kraftcheck.reporting.changes import messages
from kraftcheck.spec.display import text_of
from kraftcheck.spec.language.network import Network
from kraftcheck.spec.values import Record, field_names

DELIVERED, KEPT, LOST, DROPPED, UNDER_WAY = "delivered", "kept", "lost", "dropped", "under way"
"""What becomes of a message; dropped: gone, and neither delivered nor lost by the network."""


@dataclass
class Flow:
    """One copy of a message."""

    message: Record
    source: str | None  # the ids of who sent it and whom it is sent to; None where nobody says so
    dest: str | None
    sent: int  # the number of the state that the sending step leads to; 0 where it was under way from the start
    # what became of it. A delivered message that stays under way is one flow for each delivery, and one more.
    fate: str = UNDER_WAY
    # the number of the state that the step of this fate leads to; None for one still under way
    until: int | None = None
    is_copy: bool = False  # whether the network made it, as a copy


def flows(network: Network, trace: Iterable[TraceStep]) -> list[Flow]:
    """Return every copy of a message in a behaviour, in the order of sending.

    Of equal messages the oldest counts as the one that is taken.
    """
    own = {action: operation for action, operation, _ in network.own_operations()}
    found: list[Flow] = []
    pending: defaultdict[Record, deque[Flow]] = defaultdict(deque)
    before: TraceStep | None = None
    for number, step in enumerate(trace, start=1):
        for mark, message, copies in messages(
            network, None if before is None else before.state, step.state, step.message
        ):
            waiting = pending[message]
            while len(waiting) > copies:
                taken = waiting.popleft()
                taken.until, taken.fate = number, _fate(own.get(step.action or ""), message, step.message)
            if mark == "*" and step.action not in own and waiting:
                kept = waiting[0]
                found.append(Flow(message, kept.source, kept.dest, kept.sent, KEPT, number, kept.is_copy))
            while len(waiting) < copies:
                is_copy = own.get(step.action or "") == "duplicate"
                flow = Flow(message, *_ends(message, step.actor), number if before else 0, is_copy=is_copy)
                waiting.append(flow)
                found.append(flow)
        before = step
    return sorted(found, key=lambda flow: flow.sent)


def _fate(operation: str | None, message: Record, delivered: Record | None) -> str:
    if operation is not None:
        return LOST
    return DELIVERED if message == delivered else DROPPED


def _ends(message: Record, actor: Any) -> tuple[str | None, str | None]:
    names = field_names(type(message))
    source = getattr(message, "source") if "source" in names else actor  # noqa: B009 - a field of some messages
    dest = getattr(message, "dest", None)
    return None if source is None else text_of(source), None if dest is None else text_of(dest)

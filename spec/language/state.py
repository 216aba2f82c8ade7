"""A global state of a protocol."""

from __future__ import annotations

from typing import Any, ClassVar

from kraftcheck.spec.values import Map, Record


class State(Record):
    """The replicas, the messages under way, the shared state and the bounds spent, at one moment.

    Attributes
    ----------
    replicas
        From a replica's id to its local state.
    inboxes
        From a destination's id to the content of its inbox; empty inboxes are left out.
    shared
        The shared state, a record.
    spent
        From the name of a bound to how much of it is spent.
    """

    _is_exact: ClassVar[bool] = True
    replicas: Map[Any, Any]
    inboxes: Map[Any, Any]
    shared: Any
    spent: Map[str, int]

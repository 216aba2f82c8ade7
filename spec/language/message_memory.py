"""A network discipline that remembers what was processed, beside what is under way."""

from __future__ import annotations

from collections.abc import Callable

from kraftcheck.spec.language.network import Network
from kraftcheck.spec.values import Record, ordered

PairOfSets = tuple[frozenset[Record], frozenset[Record]]


class MessageSetWithMemory(Network):
    """Unordered messages without counts: an inbox is a pair of sets, what is under way and what was ever processed.

    A processed message may be sent again; it is then in both sets. This is module network of the TLA+ specification
    kraft_kip_996.

    Parameters
    ----------
    variables
        Names of the two TLA+ variables.
    groups
        From a message to the group with which a step may `forget` it, a record with the same `dest`; or to None. A
        message that is forgotten is no longer under way, as when its connection is cut.
    """

    def __init__(
        self,
        *,
        variables: tuple[str, str] = ("messages", "processed"),
        groups: Callable[[Record], Record | None] | None = None,
        loses: bool | str = False,
    ) -> None:
        super().__init__(loses=loses)
        self.variables = variables
        self.groups = groups

    @property
    def empty(self) -> PairOfSets:
        """Nothing is under way, and nothing was processed."""
        return frozenset(), frozenset()

    def deliverable(self, inbox: PairOfSets) -> tuple[Record, ...]:
        """Return the messages under way."""
        return tuple(ordered(inbox[0]))

    def known(self, inbox: PairOfSets) -> tuple[Record, ...]:
        """Return the messages of both sets."""
        return tuple(ordered(inbox[0] | inbox[1]))

    def count(self, inbox: PairOfSets, message: Record) -> int:
        """Return 1 for a message under way, else 0."""
        return int(message in inbox[0])

    def send(self, inbox: PairOfSets, message: Record) -> PairOfSets:
        """Add the message to what is under way."""
        return inbox[0] | {message}, inbox[1]

    def send_once(self, inbox: PairOfSets, message: Record) -> PairOfSets | None:
        """Add the message if it is in neither set."""
        return None if message in inbox[0] or message in inbox[1] else self.send(inbox, message)

    def discard(self, inbox: PairOfSets, message: Record) -> PairOfSets | None:
        """Move the message from what is under way to what was processed."""
        return (inbox[0] - {message}, inbox[1] | {message}) if message in inbox[0] else None

    def lose(self, inbox: PairOfSets, message: Record) -> PairOfSets | None:
        """Remove the message from what is under way; it was not processed."""
        return (inbox[0] - {message}, inbox[1]) if message in inbox[0] else None

    def group(self, message: Record) -> Record | None:
        """Return the group of a message, if groups were declared."""
        return None if self.groups is None else self.groups(message)

    def forget(self, inbox: PairOfSets, group: Record) -> PairOfSets:
        """Remove the messages of a group from what is under way."""
        return frozenset(message for message in inbox[0] if self.group(message) != group), inbox[1]

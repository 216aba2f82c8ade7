"""Channels that keep their order: the network discipline of protocols over first-in first-out links."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter

from kraftcheck.spec.errors import ProtocolError
from kraftcheck.spec.language.network import NEVER, CountingRule, Network
from kraftcheck.spec.values import Map, Record, Value, ordered


class Channels(Network):
    """One first-in first-out channel for each pair of replicas: only a sender's oldest message is deliverable."""

    @property
    def empty(self) -> Map[Value, tuple[Record, ...]]:
        """No message from anyone."""
        return Map()

    def deliverable(self, inbox: Map[Value, tuple[Record, ...]]) -> tuple[Record, ...]:
        """Return the oldest message of every sender."""
        return tuple(inbox[source][0] for source in ordered(inbox))

    def known(self, inbox: Map[Value, tuple[Record, ...]]) -> tuple[Record, ...]:
        """Return all messages under way."""
        return tuple(ordered({message for queue in inbox.values() for message in queue}))

    def count(self, inbox: Map[Value, tuple[Record, ...]], message: Record) -> int:
        """Return how many copies are under way from the message's source."""
        return inbox.get(self.queue(message), ()).count(message)

    def send(self, inbox: Map[Value, tuple[Record, ...]], message: Record) -> Map[Value, tuple[Record, ...]]:
        """Append to the sender's channel."""
        return inbox.put(self.queue(message), (*inbox.get(self.queue(message), ()), message))

    def send_once(
        self, inbox: Map[Value, tuple[Record, ...]], message: Record
    ) -> Map[Value, tuple[Record, ...]] | None:
        """Append to the sender's channel if no equal message is in it."""
        return None if self.count(inbox, message) else self.send(inbox, message)

    def discard(self, inbox: Map[Value, tuple[Record, ...]], message: Record) -> Map[Value, tuple[Record, ...]] | None:
        """Remove the oldest message of its sender."""
        queue = inbox.get(self.queue(message), ())
        if not queue or queue[0] != message:
            return None
        return inbox.put(self.queue(message), queue[1:]) if len(queue) > 1 else inbox.without(self.queue(message))

    def rule(self, operation: str, message: Record) -> CountingRule | None:
        """Return the rule: sending appends to the sender's channel, and only its oldest message can be taken out."""
        if operation == "forget":
            return None
        if operation in ("discard", "lose"):
            return CountingRule(absent=-1, change=-1, least=1, queues=True)
        return CountingRule(absent=1, change=1, least=NEVER if operation == "send_once" else 0, queues=True)

    def queue(self, message: Record) -> Value:
        """Return which channel of an inbox a message is in: its sender, the field `source`."""
        try:
            source: Value = getattr(message, "source")  # noqa: B009 - the field is the protocol's own
        except AttributeError as error:
            raise ProtocolError(f"{error}; Channels keeps the order of each sender, so a message names it") from None
        return source

    def from_items(self, items: Iterable[tuple[Record, int]]) -> Map[Value, tuple[Record, ...]]:
        """Return the channels of these messages: the oldest one of each has 1, the next one 0, then -1, and so on."""
        queues: dict[Value, list[tuple[int, Record]]] = {}
        for message, place in items:
            queues.setdefault(self.queue(message), []).append((-place, message))
        by_place = itemgetter(0)
        return Map((key, tuple([one for _, one in sorted(queue, key=by_place)])) for key, queue in queues.items())

    def to_items(self, inbox: Map[Value, tuple[Record, ...]]) -> Iterable[tuple[Record, int]]:
        """Return the messages of all channels, each with a number: see `from_items`."""
        return [(message, 1 - place) for queue in inbox.values() for place, message in enumerate(queue)]


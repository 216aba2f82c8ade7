"""What an action yields: the step it would take.

A step says what changes and what it needs: the acting replica's next state, the message consumed, the messages
sent, the shared fields written, other replicas written or created, and the bounds it spends. It is enabled only
if all its parts are: see `kraftcheck.spec.language.semantics`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kraftcheck.spec.values import Record, Value


class Step(Record):
    """One outcome of an action, built by chaining.

    Build it with `become`, `consume` or `Step()`, then add to it; every method returns a new step.

    Attributes
    ----------
    me
        The acting replica's next state, or the empty tuple where it does not change.
    consumes
        Whether the delivered message is taken out of the network.
    sends
        Pairs (operation, message); the operations are those of the network's discipline.
    puts
        Pairs (shared field, value).
    writes
        Next states of other replicas; a replica whose id is new is created.
    spends
        Names of bounds of which one is used up, once for each time that the name stands here.
    needs
        Names of bounds of which something must be left, without using it.
    """

    me: Any = ()
    consumes: bool = False
    sends: tuple[tuple[str, Any], ...] = ()
    puts: tuple[tuple[str, Any], ...] = ()
    writes: tuple[Any, ...] = ()
    spends: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()

    def send(self, *messages: Record) -> Step:
        """Send messages as the network's discipline sends messages of their types."""
        return self.but(sends=self.sends + tuple(("send", message) for message in messages))

    def send_once(self, *messages: Record) -> Step:
        """Send messages of which none was ever sent before; otherwise the whole step is disabled."""
        return self.but(sends=self.sends + tuple(("send_once", message) for message in messages))

    def reply(self, response: Record) -> Step:
        """Consume the delivered message and send a response to it, under the discipline's rule for replies."""
        return self.but(consumes=True, sends=(*self.sends, ("reply", response)))

    def forget(self, *groups: Record) -> Step:
        """Take groups of messages out of the network, as the network's discipline groups them."""
        return self.but(sends=self.sends + tuple(("forget", group) for group in groups))

    def put(self, **fields: Value) -> Step:
        """Write shared fields."""
        return self.but(puts=self.puts + tuple(sorted(fields.items())))

    def write(self, *replicas: Record) -> Step:
        """Write the next states of other replicas, or create them."""
        return self.but(writes=self.writes + replicas)

    def spend(self, *bounds: str) -> Step:
        """Use up one of each named bound; the step is disabled when nothing is left."""
        return self.but(spends=self.spends + bounds)

    def need(self, *bounds: str) -> Step:
        """Require that something is left of each named bound, without using it."""
        return self.but(needs=self.needs + bounds)


Steps = Iterator[Step]


def become(me: Record) -> Step:
    """Return the step in which the acting replica's next state is `me`; a delivered message stays."""
    return Step(me=me)


def consume(me: Record) -> Step:
    """Return the step that takes the delivered message out of the network and makes `me` the next state."""
    return Step(me=me, consumes=True)

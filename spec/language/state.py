"""Global states, and steps, which actions yield.

A step says what it changes and what it needs: the acting replica's next state, the message consumed, the messages
sent, the shared fields written, other replicas written or created, and the bounds spent. It is enabled only if all
its parts are: see `kraftcheck.spec.language.semantics`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, permutations, product
from typing import Any, ClassVar

from kraftcheck.spec.values import Map, ModelValue, Record, Value, transform


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


class Step(Record):
    """One outcome of an action, built by chaining.

    Begin with `become`, `consume` or `Step()` and add to it: every method returns a new step.

    Attributes
    ----------
    me
        The acting replica's next state; the empty tuple if it does not change.
    consumes
        Whether the delivered message is taken out of the network.
    sends
        Pairs (operation, message); the operations are those of the network's discipline.
    puts
        Pairs (shared field, value).
    writes
        Next states of other replicas; a replica whose id is new is created.
    spends
        Names of bounds of which one is spent; a name may be listed several times.
    needs
        Names of bounds of which something must be left. It is not spent.
    """

    me: Any = ()
    consumes: bool = False
    sends: tuple[tuple[str, Any], ...] = ()
    puts: tuple[tuple[str, Any], ...] = ()
    writes: tuple[Any, ...] = ()
    spends: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()

    @property
    def sent(self) -> tuple[Any, ...]:
        """The messages that it sends, whatever the operation."""
        return tuple(message for operation, message in self.sends if operation != "forget")

    def send(self, *messages: Record) -> Step:
        """Send messages as the network's discipline sends messages of their types."""
        return self.but(sends=self.sends + tuple(("send", message) for message in messages))

    def send_once(self, *messages: Record) -> Step:
        """Send messages that were never sent before. If one of them was, the whole step is disabled."""
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
        """Spend one of each named bound. The step is disabled if nothing is left."""
        return self.but(spends=self.spends + bounds)

    def need(self, *bounds: str) -> Step:
        """Require that something is left of each named bound, and do not spend it."""
        return self.but(needs=self.needs + bounds)


Steps = Iterator[Step]


def become(me: Record) -> Step:
    """Return the step that makes `me` the acting replica's next state. A delivered message stays under way."""
    return Step(me=me)


def consume(me: Record) -> Step:
    """Return the step that makes `me` the acting replica's next state and consumes the delivered message."""
    return Step(me=me, consumes=True)


def note_spent(steps: Iterable[Step], most: dict[str, int]) -> None:
    """Note the most that one of some steps spends of a bound, where that is more than one."""
    for step in steps:
        if len(step.spends) > 1:
            for name in step.spends:
                most[name] = max(most.get(name, 1), step.spends.count(name))


def is_within(step: Step, bounds: Mapping[str, int]) -> bool:
    """Return whether bounds are large enough for a step where nothing is spent yet."""
    if not step.spends and not step.needs:
        return True
    is_there = all(bounds[name] for name in step.needs)
    return is_there and not any(step.spends.count(name) > bounds[name] for name in step.spends)


Permutation = dict[Value, Value]


def permutation_group(sets: tuple[tuple[Value, ...], ...]) -> list[Permutation]:
    """Return every permutation that permutes the values of each set among themselves, the identity first."""
    group = []
    for chosen in product(*[permutations(values) for values in sets]):
        pairs = [zip(values, images, strict=True) for values, images in zip(sets, chosen, strict=True)]
        group.append(dict(chain.from_iterable(pairs)))
    return group


def permuted(value: Value, permutation: Permutation) -> Value:
    """Return a value with its model values permuted."""

    def leaf(item: ModelValue) -> Value:
        return permutation.get(item, item)

    return transform(value, leaf)

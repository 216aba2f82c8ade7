"""The variables of diagrams, in their order, and their values' numbers: a state becomes a vector, and back.

There is one variable for each replica's local state, for each channel (what one sender has under way to one replica),
for each shared field and each bound. The number 0 stands for no replica, an empty channel, and a field's first value:
diagrams leave it out.

The order is: for each replica, its channels with the replicas before it, then its local state; last what is shared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from kraftcheck.spec.language.network import Channels
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import Map, Record, Value, field_names, ordered

LOCAL, CHANNEL, SHARED, BOUND = "local", "channel", "shared", "bound"
ANYONE = "anyone"  # the sender, where an inbox is not divided by senders
NOBODY = "nobody"  # the sender of messages without the field `source`


class Rearranged(Exception):  # noqa: N818 - a way out of a search, not an error
    """There are more variables than was known; the search begins again with them."""


class Key(NamedTuple):
    """What a variable holds: its kind; the replica, field or bound; of a channel also the sender."""

    kind: str
    of: Value
    sender: Value = None


class Layout:
    """Which variables there must be. It grows while a protocol is learned.

    Parameters
    ----------
    protocol
        The protocol.
    whole_inboxes
        Whether inboxes must not be divided by senders, since something reads them whole.

    Attributes
    ----------
    replicas
        Ids of replicas, and of other destinations, in the order of their variables.
    senders
        Ids of other senders.
    """

    def __init__(self, protocol: Protocol, *, whole_inboxes: bool) -> None:
        self.replicas: list[Value] = []
        self.senders: list[Value] = []
        counted = protocol.network.rule("discard", Record()) is not None
        self.divided = not whole_inboxes and (counted or isinstance(protocol.network, Channels))

    def require_replicas(self, keys: Iterable[Value]) -> bool:
        """Note replicas and destinations; return whether one is new."""
        new = [key for key in keys if key not in self.replicas]
        self.replicas += new
        return bool(new)

    def sender_of(self, message: Record) -> Value:
        """Return the sender by which a message's channel is known."""
        return getattr(message, "source", NOBODY) if self.divided else ANYONE

    def keys(self, shared: Sequence[str], bounds: Sequence[str]) -> list[Key]:
        """Return the variables in their order."""
        result = []
        for place, replica in enumerate(self.replicas):
            if self.divided:
                for other in self.replicas[:place]:
                    result += [Key(CHANNEL, replica, other), Key(CHANNEL, other, replica)]
                result += [Key(CHANNEL, replica, sender) for sender in (*self.senders, replica)]
            else:
                result.append(Key(CHANNEL, replica, ANYONE))
            result.append(Key(LOCAL, replica))
        return [*result, *[Key(SHARED, name) for name in shared], *[Key(BOUND, name) for name in bounds]]


class Variables:
    """The variables of one search, and the numbers of their values.

    Parameters
    ----------
    protocol
        The protocol.
    layout
        Which variables there must be.
    starts
        The initial states, whose replicas the layout has.

    Attributes
    ----------
    keys
        What each level holds.
    levels
        The level of each.
    values
        By level: the values by number.
    """

    def __init__(self, protocol: Protocol, layout: Layout, starts: Sequence[State]) -> None:
        self.protocol = protocol
        self.network = protocol.network
        self.layout = layout
        self.shared_type = type(starts[0].shared)
        self.shared_names = field_names(self.shared_type)
        self.bounds = list(protocol.bounds)
        self.keys = layout.keys(self.shared_names, self.bounds)
        self.levels = {key: level for level, key in enumerate(self.keys)}
        self.values: list[list[Any]] = [[] for _ in self.keys]
        self._numbers: list[dict[Any, int]] = [{} for _ in self.keys]
        for level in range(len(self.keys)):
            for value in self.standard(level):
                self.number(level, value)

    def standard(self, level: int) -> list[Any]:
        """Return the values that a level has from the start."""
        key = self.keys[level]
        if key.kind == BOUND:
            return list(range(self.protocol.bounds[key.of] + 1))
        return {LOCAL: [None], CHANNEL: [self.network.empty]}.get(key.kind, [])

    def number(self, level: int, value: Value) -> int:
        """Return the number of a value at a level."""
        numbers = self._numbers[level]
        keyed = (type(value), value) if type(value) in (bool, int) else value  # 1 and True are equal
        found = numbers.get(keyed)
        if found is None:
            found = numbers[keyed] = len(numbers)
            self.values[level].append(value)
        return found

    def local(self, replica: Value) -> int:
        """Return the level of a replica's local state, or begin again with one."""
        level = self.levels.get(Key(LOCAL, replica))
        if level is None:
            self.layout.require_replicas([replica])
            raise Rearranged
        return level

    def channel(self, message: Record) -> int:
        """Return the level of a message's channel, or begin again with one."""
        destination, sender = message.dest, self.layout.sender_of(message)  # type: ignore[attr-defined]
        self.local(destination)
        level = self.levels.get(Key(CHANNEL, destination, sender))
        if level is None:
            self.layout.senders.append(sender)
            raise Rearranged
        return level

    def channels_to(self, replica: Value) -> list[int]:
        """Return the levels of all channels to a replica."""
        return [level for level, key in enumerate(self.keys) if key.kind == CHANNEL and key.of == replica]

    def shared(self, name: str) -> int:
        """Return the level of a shared field."""
        return self.levels[Key(SHARED, name)]

    # States

    def encode(self, state: State) -> list[int]:
        """Return a state's vector."""
        vector = [0] * len(self.keys)
        for replica, local in state.replicas.items():
            level = self.local(replica)
            vector[level] = self.number(level, local)
        for destination, inbox in state.inboxes.items():
            self.local(destination)
            for level, part in self._parts(destination, inbox):
                vector[level] = self.number(level, part)
        for name in self.shared_names:
            level = self.shared(name)
            vector[level] = self.number(level, getattr(state.shared, name))
        for name in self.bounds:
            vector[self.levels[Key(BOUND, name)]] = state.spent[name]
        return vector

    def _parts(self, destination: Value, inbox: Value) -> list[tuple[int, Value]]:
        """Return the channels that an inbox is made of: level and content."""
        if not self.layout.divided:
            return [(self.levels[Key(CHANNEL, destination, ANYONE)], inbox)]
        if isinstance(self.network, Channels):
            return [(self.channel(queue[0]), Map([(source, queue)])) for source, queue in inbox.items()]
        parts: dict[int, list[tuple[Record, int]]] = {}
        for message, copies in self.network.to_counts(inbox).items():
            parts.setdefault(self.channel(message), []).append((message, copies))
        return [(level, self.network.from_counts(Map(counts))) for level, counts in parts.items()]

    def _whole(self, parts: Sequence[Value]) -> Value:
        """Return the inbox of channels that are not empty."""
        if len(parts) == 1:
            return parts[0]
        if isinstance(self.network, Channels):
            return Map(item for part in parts for item in part.items())
        return self.network.from_counts(Map(item for part in parts for item in self.network.to_counts(part).items()))

    def decode(self, vector: Sequence[int]) -> State:
        """Return the state of a vector."""
        replicas: dict[Value, Value] = {}
        parts: dict[Value, list[Value]] = {}
        shared: dict[str, Value] = {}
        spent: dict[str, int] = {}
        for level, (key, number) in enumerate(zip(self.keys, vector, strict=True)):
            value = self.values[level][number]
            if key.kind == LOCAL and number:
                replicas[key.of] = value
            elif key.kind == CHANNEL and number:
                parts.setdefault(key.of, []).append(value)
            elif key.kind == SHARED:
                shared[key.of] = value
            elif key.kind == BOUND:
                spent[key.of] = value
        inboxes = {key: self._whole(contents) for key, contents in parts.items()}
        return State(Map(replicas), Map(inboxes), self.shared_type(**shared), Map(spent))


def layout_of(protocol: Protocol, starts: Sequence[State], *, whole_inboxes: bool) -> Layout:
    """Return the layout with which a search begins: the replicas of the initial states."""
    layout = Layout(protocol, whole_inboxes=whole_inboxes)
    for state in starts:
        layout.require_replicas(ordered(state.replicas))
        layout.require_replicas(ordered(state.inboxes))
    return layout

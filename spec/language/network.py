"""Network disciplines: rules for sending, delivering, losing and duplicating messages.

A protocol has one discipline. The network consists of one inbox per destination. Every operation reads and writes one
inbox, so that an engine can memoize it per inbox value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from operator import itemgetter
from typing import NamedTuple

from kraftcheck.spec.errors import ProtocolError
from kraftcheck.spec.values import Map, Record, Value, ordered

Inbox = Value


class NetworkStep(NamedTuple):
    """A step of the network itself: the action's name, the message, the next inbox, the bounds spent."""

    action: str
    message: Record
    inbox: Inbox
    spends: tuple[str, ...]


class CopyCountRule(NamedTuple):
    """The effect of an operation that depends only on the number of copies of its message."""

    absent: int  # the initial count of a message unknown to the inbox; -1 if the operation is refused
    change: int  # the increment of a known message's count
    least: int = 0  # the least count of a known message that the operation accepts
    forgets: bool = False  # whether a message becomes unknown once its count is 0
    clears: bool = False  # whether the operation removes a message group instead (`forget`)
    # whether the operation acts on the message's channel instead (`Network.queue`): a positive change appends the
    # message, a negative one removes it if it is the oldest. `ABOVE_EVERY_COUNT` as `least` refuses to append a
    # message that is in the channel.
    queues: bool = False


ABOVE_EVERY_COUNT = 1 << 30  # a `least` above every count
OPERATIONS = frozenset({"send", "send_once", "reply", "discard", "forget", "lose", "duplicate"})
"""Names of the network methods that change an inbox."""


class Network(ABC):
    """A network discipline: the effects of operations on an inbox.

    An inbox is a value. A refused operation returns None.

    Parameters
    ----------
    loses
        Whether the network may lose a message, by an action `LoseMessage`. A string names the bound that it spends.
    duplicates
        The same for `DuplicateMessage`.
    """

    def __init__(self, *, loses: bool | str = False, duplicates: bool | str = False) -> None:
        self.loses = loses
        self.duplicates = duplicates

    @property
    @abstractmethod
    def empty(self) -> Inbox:
        """The empty inbox."""

    @abstractmethod
    def deliverable(self, inbox: Inbox) -> tuple[Record, ...]:
        """Return the messages that can be delivered next, in canonical order."""

    @abstractmethod
    def known(self, inbox: Inbox) -> tuple[Record, ...]:
        """Return the messages that a property over messages ranges over, in canonical order."""

    @abstractmethod
    def send(self, inbox: Inbox, message: Record) -> Inbox | None:
        """Return the inbox after an ordinary send."""

    @abstractmethod
    def send_once(self, inbox: Inbox, message: Record) -> Inbox | None:
        """Return the inbox after a send that is refused if an equal message was sent before."""

    @abstractmethod
    def discard(self, inbox: Inbox, message: Record) -> Inbox | None:
        """Return the inbox after a deliverable message is consumed."""

    @abstractmethod
    def count(self, inbox: Inbox, message: Record) -> int:
        """Return the number of copies of a message in flight."""

    def group(self, message: Record) -> Record | None:
        """Return the message group that `forget` removes together with a message, or None."""
        return None

    def queue(self, message: Record) -> Value:
        """Return the key of the channel of a message in its inbox; None for a discipline without ordered channels."""
        return None

    def forget(self, inbox: Inbox, group: Record) -> Inbox | None:
        """Return the inbox without a message group, such as the responses on a reset connection."""
        raise ProtocolError(f"{type(self).__name__} has no message groups, so no step can use forget(...)")

    def rule(self, operation: str, message: Record) -> CopyCountRule | None:
        """Return the counting rule of an operation on a message, or None.

        With a counting rule an engine operates on message counts without calling Python. The rule must agree with the
        operation's method. Engines call `rule_of`, since a subclass may override a method but not the rule.
        """
        return None

    def rule_of(self, operation: str, message: Record) -> CopyCountRule | None:
        """Return the counting rule of an operation; None if a subclass overrides a method that the rule describes.

        There is no rule for disciplines with both channels and groups, and none to forget where there are no groups.
        """
        if not _has_valid_copy_count_rule(type(self)) or (
            operation == "forget" and type(self).forget is Network.forget
        ):
            return None
        return self.rule(operation, message)

    def from_counts(self, counts: Map[Record, int]) -> Inbox:
        """Return the inbox with these message counts (disciplines with counting rules)."""
        return counts

    def to_counts(self, inbox: Inbox) -> Map[Record, int]:
        """Return the message counts of an inbox (disciplines with counting rules)."""
        counts: Map[Record, int] = inbox
        return counts

    def from_items(self, items: Iterable[tuple[Record, int]]) -> Inbox:
        """Return the inbox of pairs (message, count) of an engine: the inverse of `to_items`."""
        return self.from_counts(Map(items))

    def to_items(self, inbox: Inbox) -> Iterable[tuple[Record, int]]:
        """Return an inbox as pairs (message, count) for an engine; a message with a positive count is deliverable."""
        return self.to_counts(inbox).items()

    def reply(self, inbox: Inbox, response: Record) -> Inbox | None:
        """Return the requester's inbox after a response is sent; by default an ordinary send."""
        return self.send(inbox, response)

    def apply(self, operation: str, inbox: Inbox, message: Record) -> Inbox | None:
        """Return the inbox after an operation.

        Parameters
        ----------
        operation
            The operation's name, one of `OPERATIONS`.
        inbox
            The destination's inbox.
        message
            The message; for "forget" the message group.

        Returns
        -------
        Inbox or None
            None if the network refuses the operation.
        """
        if operation not in OPERATIONS:
            raise ValueError(f"{operation!r} is not an operation of the network")
        return getattr(self, operation)(inbox, message)

    def own_actions(self) -> tuple[str, ...]:
        """Return the names of the network's own actions."""
        return tuple(action for action, _, _ in self.own_operations())

    def own_operations(self) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        """Yield (action, operation, bounds spent) for each action of the network on a deliverable message."""
        if self.loses:
            yield "LoseMessage", "lose", _bound_named_by_option(self.loses)
        if self.duplicates:
            yield "DuplicateMessage", "duplicate", _bound_named_by_option(self.duplicates)

    def own_steps(self, inbox: Inbox) -> Iterator[NetworkStep]:
        """Yield the network's own steps on one inbox."""
        for message in self.deliverable(inbox):
            for action, operation, spends in self.own_operations():
                after = self.apply(operation, inbox, message)
                if after is not None:
                    yield NetworkStep(action, message, after, spends)

    def lose(self, inbox: Inbox, message: Record) -> Inbox | None:
        """Return the inbox after a deliverable message is lost."""
        return self.discard(inbox, message)

    def duplicate(self, inbox: Inbox, message: Record) -> Inbox | None:
        """Return the inbox after a deliverable message is duplicated."""
        return self.send(inbox, message)


@cache
def _has_valid_copy_count_rule(kind: type[Network]) -> bool:
    """Whether `rule` describes a discipline's methods: no subclass overrides a method without `rule`."""

    def place(name: str) -> int:
        return next(number for number, cls in enumerate(kind.__mro__) if name in vars(cls))

    methods = OPERATIONS | {"empty", "deliverable", "known", "count", "group", "apply"}
    is_either = kind.queue is Network.queue or kind.group is Network.group
    return is_either and all(place("rule") <= place(name) for name in methods)


def _bound_named_by_option(name: bool | str) -> tuple[str, ...]:
    return (name,) if isinstance(name, str) else ()


class BagWithMemory(Network):
    """Unordered messages with delivery counts; a message whose last copy is consumed stays known, with count 0.

    This is module MessagePassing of the TLA+ specification KRaftWithReconfig: `messages` maps every message ever sent
    to the number of copies in flight.

    Parameters
    ----------
    once
        Message types that an ordinary send sends at most once per behaviour (`Send`, `_SendOnce`).
    replies_once
        Response types that `reply` sends at most once per behaviour (`Reply`).
    """

    def __init__(
        self,
        *,
        once: Iterable[type[Record]] = (),
        replies_once: Iterable[type[Record]] = (),
        loses: bool | str = False,
        duplicates: bool | str = False,
    ) -> None:
        super().__init__(loses=loses, duplicates=duplicates)
        self.once = tuple(once)
        self.replies_once = tuple(replies_once)

    @property
    def empty(self) -> Map[Record, int]:
        """No message was ever sent."""
        return Map()

    def deliverable(self, inbox: Map[Record, int]) -> tuple[Record, ...]:
        """Return the messages with a copy in flight."""
        return tuple(ordered(message for message, copies in inbox.items() if copies > 0))

    def known(self, inbox: Map[Record, int]) -> tuple[Record, ...]:
        """Return every message ever sent (`DOMAIN messages`)."""
        return tuple(ordered(inbox))

    def count(self, inbox: Map[Record, int], message: Record) -> int:
        """Return the delivery count of a message."""
        return inbox.get(message, 0)

    def send(self, inbox: Map[Record, int], message: Record) -> Map[Record, int] | None:
        """Add a copy of a message; refuse a resent message of the types in `once`."""
        if isinstance(message, self.once):
            return self.send_once(inbox, message)
        return inbox.put(message, inbox.get(message, 0) + 1)

    def send_once(self, inbox: Map[Record, int], message: Record) -> Map[Record, int] | None:
        """Add the first copy of a message; refuse a message that was sent before."""
        return None if message in inbox else inbox.put(message, 1)

    def reply(self, inbox: Map[Record, int], response: Record) -> Map[Record, int] | None:
        """Add a copy of a response; refuse a resent response of the types in `replies_once`."""
        if isinstance(response, self.replies_once):
            return self.send_once(inbox, response)
        return inbox.put(response, inbox.get(response, 0) + 1)

    def duplicate(self, inbox: Map[Record, int], message: Record) -> Map[Record, int]:
        """Add a copy of a message in flight, even of the types in `once`."""
        return inbox.put(message, inbox[message] + 1)

    def discard(self, inbox: Map[Record, int], message: Record) -> Map[Record, int] | None:
        """Remove one copy of a message, which stays known."""
        copies = inbox.get(message, 0)
        return inbox.put(message, copies - 1) if copies > 0 else None

    def rule(self, operation: str, message: Record) -> CopyCountRule | None:
        """Return the rule: a send adds a copy, or is refused after the first copy; a discard removes a copy."""
        if operation in ("discard", "lose"):
            return CopyCountRule(absent=-1, change=-1, least=1)
        if operation == "duplicate":
            return CopyCountRule(absent=-1, change=1, least=1)
        rules: dict[str, tuple[type[Record], ...]] = {
            "send": self.once,
            "reply": self.replies_once,
            "send_once": (Record,),
        }
        once = rules[operation]
        return CopyCountRule(absent=1, change=1, least=ABOVE_EVERY_COUNT if isinstance(message, once) else 0)


class Bag(BagWithMemory):
    """Unordered messages with delivery counts; a message becomes unknown once its last copy is consumed.

    Parameters
    ----------
    merges
        Whether sending a message in flight changes nothing, as in a set. Then only `DuplicateMessage` adds a copy, and
        the state space stays finite with repeated requests.
    groups
        From a message to its group for `forget`, a record with the same `dest`; or to None.
    """

    def __init__(
        self,
        *,
        merges: bool = False,
        groups: Callable[[Record], Record | None] | None = None,
        once: Iterable[type[Record]] = (),
        replies_once: Iterable[type[Record]] = (),
        loses: bool | str = False,
        duplicates: bool | str = False,
    ) -> None:
        super().__init__(once=once, replies_once=replies_once, loses=loses, duplicates=duplicates)
        self.merges = merges
        self.groups = groups

    def group(self, message: Record) -> Record | None:
        """Return the group of a message, if groups were declared."""
        return None if self.groups is None else self.groups(message)

    def forget(self, inbox: Map[Record, int], group: Record) -> Map[Record, int]:
        """Remove every message of a group."""
        return Map((message, copies) for message, copies in inbox.items() if self.group(message) != group)

    def send(self, inbox: Map[Record, int], message: Record) -> Map[Record, int] | None:
        """Add a copy of a message, unless a copy is in flight and copies merge."""
        if self.merges and message in inbox and not isinstance(message, self.once):
            return inbox
        return super().send(inbox, message)

    def reply(self, inbox: Map[Record, int], response: Record) -> Map[Record, int] | None:
        """Add a copy of a response, unless a copy is in flight and copies merge."""
        if self.merges and response in inbox and not isinstance(response, self.replies_once):
            return inbox
        return super().reply(inbox, response)

    def discard(self, inbox: Map[Record, int], message: Record) -> Map[Record, int] | None:
        """Remove one copy of a message, which is unknown after its last copy."""
        copies = inbox.get(message, 0)
        if copies == 0:
            return None
        return inbox.put(message, copies - 1) if copies > 1 else inbox.without(message)

    def rule(self, operation: str, message: Record) -> CopyCountRule | None:
        """Return the rule of a bag with memory, except that messages become unknown, and copies may merge."""
        if operation == "forget":
            return CopyCountRule(absent=0, change=0, clears=True)
        rule = super().rule(operation, message)
        if rule is None:
            return None
        if operation in ("discard", "lose"):
            return rule._replace(forgets=True)
        merged = self.merges and operation in ("send", "reply") and rule.least != ABOVE_EVERY_COUNT
        return rule._replace(change=0) if merged else rule


class MessageSet(Network):
    """Unordered messages without counts: sending a message in flight changes nothing.

    Parameters
    ----------
    keeps
        Whether messages are never removed. A consumed message may be delivered again, as in textbook models in which
        `msgs` only grows.
    """

    def __init__(self, *, keeps: bool = False, loses: bool | str = False) -> None:
        super().__init__(loses=loses)
        self.keeps = keeps

    @property
    def empty(self) -> frozenset[Record]:
        """The empty set."""
        return frozenset()

    def deliverable(self, inbox: frozenset[Record]) -> tuple[Record, ...]:
        """Return every message of the set."""
        return tuple(ordered(inbox))

    def known(self, inbox: frozenset[Record]) -> tuple[Record, ...]:
        """Return every message of the set."""
        return tuple(ordered(inbox))

    def count(self, inbox: frozenset[Record], message: Record) -> int:
        """Return 1 for a message of the set, else 0."""
        return int(message in inbox)

    def send(self, inbox: frozenset[Record], message: Record) -> frozenset[Record]:
        """Add the message."""
        return inbox | {message}

    def send_once(self, inbox: frozenset[Record], message: Record) -> frozenset[Record] | None:
        """Add the message if it is not in the set."""
        return None if message in inbox else inbox | {message}

    def discard(self, inbox: frozenset[Record], message: Record) -> frozenset[Record] | None:
        """Remove the message, unless messages are kept."""
        if message not in inbox:
            return None
        return inbox if self.keeps else inbox - {message}

    def rule(self, operation: str, message: Record) -> CopyCountRule | None:
        """Return the rule: the count of a message is 1 in the set, else 0."""
        if operation == "discard":
            return CopyCountRule(-1, 0 if self.keeps else -1, least=1, forgets=not self.keeps)
        if operation == "lose":
            return CopyCountRule(-1, -1, least=1, forgets=True)
        return CopyCountRule(absent=1, change=0, least=ABOVE_EVERY_COUNT if operation == "send_once" else 0)

    def from_counts(self, counts: Map[Record, int]) -> frozenset[Record]:
        """Return the set of the messages with a count."""
        return frozenset(counts)

    def to_counts(self, inbox: frozenset[Record]) -> Map[Record, int]:
        """Return a count of 1 for each message of the set."""
        return Map((message, 1) for message in inbox)

    def lose(self, inbox: frozenset[Record], message: Record) -> frozenset[Record]:
        """Remove the message, even if messages are kept."""
        return inbox - {message}


class NoNetwork(MessageSet):
    """The network of a protocol without messages: `network = None`."""

    def send(self, inbox: frozenset[Record], message: Record) -> frozenset[Record]:
        """Refuse the message."""
        raise ProtocolError(f"sends {message!r}, but there are no messages: network = None")


class Channels(Network):
    """One FIFO channel per pair of replicas: only a sender's oldest message is deliverable."""

    @property
    def empty(self) -> Map[Value, tuple[Record, ...]]:
        """The empty inbox: no channels."""
        return Map()

    def deliverable(self, inbox: Map[Value, tuple[Record, ...]]) -> tuple[Record, ...]:
        """Return the oldest message of every sender."""
        return tuple(inbox[source][0] for source in ordered(inbox))

    def known(self, inbox: Map[Value, tuple[Record, ...]]) -> tuple[Record, ...]:
        """Return all messages in flight."""
        return tuple(ordered({message for queue in inbox.values() for message in queue}))

    def count(self, inbox: Map[Value, tuple[Record, ...]], message: Record) -> int:
        """Return the number of copies in flight from the message's source."""
        return inbox.get(self.queue(message), ()).count(message)

    def send(self, inbox: Map[Value, tuple[Record, ...]], message: Record) -> Map[Value, tuple[Record, ...]]:
        """Append the message to its sender's channel."""
        return inbox.put(self.queue(message), (*inbox.get(self.queue(message), ()), message))

    def send_once(
        self, inbox: Map[Value, tuple[Record, ...]], message: Record
    ) -> Map[Value, tuple[Record, ...]] | None:
        """Append the message to its sender's channel if the channel has no equal message."""
        return None if self.count(inbox, message) else self.send(inbox, message)

    def discard(self, inbox: Map[Value, tuple[Record, ...]], message: Record) -> Map[Value, tuple[Record, ...]] | None:
        """Remove the message, the oldest of its sender's channel."""
        queue = inbox.get(self.queue(message), ())
        if not queue or queue[0] != message:
            return None
        return inbox.put(self.queue(message), queue[1:]) if len(queue) > 1 else inbox.without(self.queue(message))

    def rule(self, operation: str, message: Record) -> CopyCountRule | None:
        """Return the rule: a send appends to the sender's channel, and only the oldest message can be removed."""
        if operation == "forget":
            return None
        if operation in ("discard", "lose"):
            return CopyCountRule(absent=-1, change=-1, least=1, queues=True)
        return CopyCountRule(
            absent=1, change=1, least=ABOVE_EVERY_COUNT if operation == "send_once" else 0, queues=True
        )

    def queue(self, message: Record) -> Value:
        """Return the key of a message's channel in its inbox: its sender, the field `source`."""
        try:
            source: Value = getattr(message, "source")  # noqa: B009 - the field is the protocol's own
        except AttributeError as error:
            raise ProtocolError(f"{error}; Channels orders messages by sender: add a field source") from None
        return source

    def from_items(self, items: Iterable[tuple[Record, int]]) -> Map[Value, tuple[Record, ...]]:
        """Return channels from pairs (message, number): a channel numbers its messages 1, 0, -1, ..., oldest first."""
        queues: dict[Value, list[tuple[int, Record]]] = {}
        for message, place in items:
            queues.setdefault(self.queue(message), []).append((-place, message))
        by_place = itemgetter(0)
        return Map((key, tuple([one for _, one in sorted(queue, key=by_place)])) for key, queue in queues.items())

    def to_items(self, inbox: Map[Value, tuple[Record, ...]]) -> Iterable[tuple[Record, int]]:
        """Return pairs (message, number) of the messages of all channels, numbered as in `from_items`."""
        return [(message, 1 - place) for queue in inbox.values() for place, message in enumerate(queue)]


PairOfSets = tuple[frozenset[Record], frozenset[Record]]


class MessageSetWithMemory(Network):
    """Unordered messages without counts; an inbox is a pair of sets: messages in flight, messages processed.

    A processed message may be sent again; it is then in both sets. This is module network of the TLA+ specification
    kraft_kip_996.

    Parameters
    ----------
    variables
        Names of the two TLA+ variables.
    groups
        From a message to its group for `forget`, a record with the same `dest`; or to None. A forgotten message is no
        longer in flight, as after a cut of its connection.
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
        """The empty inbox: no message in flight, and no message processed."""
        return frozenset(), frozenset()

    def deliverable(self, inbox: PairOfSets) -> tuple[Record, ...]:
        """Return the messages in flight."""
        return tuple(ordered(inbox[0]))

    def known(self, inbox: PairOfSets) -> tuple[Record, ...]:
        """Return the messages in flight and the processed messages."""
        return tuple(ordered(inbox[0] | inbox[1]))

    def count(self, inbox: PairOfSets, message: Record) -> int:
        """Return 1 for a message in flight, else 0."""
        return int(message in inbox[0])

    def send(self, inbox: PairOfSets, message: Record) -> PairOfSets:
        """Add the message to the messages in flight."""
        return inbox[0] | {message}, inbox[1]

    def send_once(self, inbox: PairOfSets, message: Record) -> PairOfSets | None:
        """Add the message to the messages in flight if it is in neither set."""
        return None if message in inbox[0] or message in inbox[1] else self.send(inbox, message)

    def discard(self, inbox: PairOfSets, message: Record) -> PairOfSets | None:
        """Move the message from the messages in flight to the processed messages."""
        return (inbox[0] - {message}, inbox[1] | {message}) if message in inbox[0] else None

    def lose(self, inbox: PairOfSets, message: Record) -> PairOfSets | None:
        """Remove the message from the messages in flight, without processing it."""
        return (inbox[0] - {message}, inbox[1]) if message in inbox[0] else None

    def group(self, message: Record) -> Record | None:
        """Return the group of a message, if groups were declared."""
        return None if self.groups is None else self.groups(message)

    def forget(self, inbox: PairOfSets, group: Record) -> PairOfSets:
        """Remove the messages of a group from the messages in flight."""
        return frozenset(message for message in inbox[0] if self.group(message) != group), inbox[1]

"""Termination detection on a ring: EWD 998.

Sources: E. W. Dijkstra, "Shmuel Safra's version of termination detection" (EWD 998, 1987); module EWD998 of the TLA+
examples. There the token is a variable; here it is a message, always in flight to one node.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from itertools import product

from kraftcheck.spec import (
    Bag,
    Formula,
    Map,
    Protocol,
    Record,
    State,
    Steps,
    become,
    constant,
    constraint,
    consume,
    internal,
    invariant,
    leads_to,
    on,
    predicate,
    projection,
    temporal,
    weak,
)


class Colour(enum.StrEnum):
    """The colours of nodes and tokens; a black one makes a probe fail."""

    WHITE = "white"
    BLACK = "black"


class Node(Record):
    """A node of the ring, with its number of messages sent minus messages received."""

    id: int
    active: bool
    colour: Colour
    counter: int = 0


class Token(Record):
    """The probe, passed from the highest node down to node 0, with the sum of the counters."""

    dest: int
    sum: int = 0
    colour: Colour = Colour.BLACK


class Payload(Record):
    """A message with work for a node."""

    dest: int


class Nothing(Record):
    """The empty shared state."""


def is_terminated(pending: Map[int, int], nodes: Map[int, Node]) -> bool:
    """Return whether no node is active and no work is in flight."""
    return not any(node.active for node in nodes.values()) and not any(pending.values())


def proves_termination(token: Token | None, first: Node) -> bool:
    """Return whether the token proves termination: all white, node 0 inactive, and a sum of zero."""
    if token is None or Colour.BLACK in (token.colour, first.colour) or first.active:
        return False
    return token.sum + first.counter == 0


class Ewd998(Protocol):
    """Node 0 detects termination, and never too early."""

    nodes: int = constant("N", at_least=1)
    most: int = constant("MaxPending", default=3)
    most_in_token: int = constant("MaxSum", default=9)
    network = Bag()
    specifications = {"Spec": (weak("InitiateProbe", "PassToken"),)}

    def initial(self) -> Iterator[State]:
        """Yield the initial states: any active nodes, any colours, a black token at any node."""
        numbers = range(self.nodes)
        for active in product((False, True), repeat=self.nodes):
            for colours in product(Colour, repeat=self.nodes):
                for position in numbers:
                    yield self.start(map(Node, numbers, active, colours), Nothing(), [Token(position)])

    @on(Token)
    def initiate_probe(self, me: Node, token: Token) -> Steps:
        """Node 0 sends a white token around if the last probe failed."""
        if me.id != 0:
            return
        if Colour.BLACK in (token.colour, me.colour) or me.counter + token.sum > 0:
            yield consume(me.but(colour=Colour.WHITE)).send(Token(self.nodes - 1, 0, Colour.WHITE))

    @on(Token)
    def pass_token(self, me: Node, token: Token) -> Steps:
        """An inactive node adds its counter to the token, blackens it if it is black itself, and becomes white."""
        if me.id == 0 or me.active:
            return
        colour = Colour.BLACK if me.colour is Colour.BLACK else token.colour
        yield consume(me.but(colour=Colour.WHITE)).send(Token(me.id - 1, token.sum + me.counter, colour))

    @internal
    def send_msg(self, me: Node) -> Steps:
        """An active node sends work to another."""
        if not me.active:
            return
        for other in range(self.nodes):
            if other != me.id:
                yield become(me.but(counter=me.counter + 1)).send(Payload(other))

    @on(Payload)
    def recv_msg(self, me: Node, message: Payload) -> Steps:
        """Work makes a node active and black."""
        yield consume(me.but(active=True, colour=Colour.BLACK, counter=me.counter - 1))

    @internal
    def deactivate(self, me: Node) -> Steps:
        """An active node becomes inactive."""
        if me.active:
            yield become(me.but(active=False))

    @projection
    def pending(self, inbox: Map[Record, int]) -> int:
        """The number of messages with work in flight to a node."""
        return sum(copies for message, copies in inbox.items() if isinstance(message, Payload))

    @projection
    def token(self, messages: tuple[Record, ...]) -> Token | None:
        """The token, if it is in flight to a node."""
        return next((message for message in messages if isinstance(message, Token)), None)

    @projection
    def node(self, me: Node) -> Node:
        """Return all fields of a node."""
        return me

    @constraint(reads=(pending, token))
    def state_constraint(self, me: Node, pending: Map[int, int], token: Map[int, Token | None]) -> bool:
        """Counters, messages in flight and the token's sum stay within bounds."""
        mine = token[me.id]
        few = me.counter <= self.most and pending[me.id] <= self.most
        return few and (mine is None or mine.sum <= self.most_in_token)

    @predicate(reads=(pending, node))
    def terminated(self, pending: Map[int, int], node: Map[int, Node]) -> bool:
        """No node is active, and no work is in flight."""
        return is_terminated(pending, node)

    @predicate(reads=(token, node))
    def detected(self, token: Map[int, Token | None], node: Map[int, Node]) -> bool:
        """The token proves termination: all white, node 0 inactive, and a sum of zero."""
        return proves_termination(token[0], node[0])

    @invariant(reads=(pending, token, node))
    def termination_detection(
        self, pending: Map[int, int], token: Map[int, Token | None], node: Map[int, Node]
    ) -> bool:
        """Node 0 detects termination only after all nodes have terminated."""
        return not proves_termination(token[0], node[0]) or is_terminated(pending, node)

    @invariant(reads=(pending, token, node))
    def safra(self, pending: Map[int, int], token: Map[int, Token | None], node: Map[int, Node]) -> bool:
        """Dijkstra's invariant: the counters match the work in flight, and no wrong probe can succeed."""
        if sum(pending.values()) != sum(one.counter for one in node.values()):
            return False
        (probe,) = filter(None, token.values())
        seen = [one for one in node.values() if one.id > probe.dest]
        ahead = [one for one in node.values() if one.id <= probe.dest]
        return (
            (not any(one.active for one in seen) and probe.sum == sum(one.counter for one in seen))
            or sum(one.counter for one in ahead) + probe.sum > 0
            or any(one.colour is Colour.BLACK for one in ahead)
            or probe.colour is Colour.BLACK
        )

    @temporal
    def liveness(self) -> Formula:
        """After termination, node 0 eventually detects it."""
        return leads_to(self.terminated, self.detected)

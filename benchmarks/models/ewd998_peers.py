"""EWD 998 as in module EWD998 of the TLA+ examples: a shared token, and nodes that write each other's state.

Source: E. W. Dijkstra, "Shmuel Safra's version of termination detection" (EWD 998, 1987). Where `ewd998` sends a
message, a node here raises the number of pending messages of another node.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from kraftcheck.spec import (
    Map,
    Protocol,
    Record,
    State,
    Steps,
    become,
    constant,
    constraint,
    internal,
    invariant,
    projection,
)


class Node(Record):
    """A node of the ring: its counter, and the number of messages in flight to it."""

    id: int
    active: bool
    black: bool
    counter: int = 0
    pending: int = 0


class Token(Record):
    """The probe: its position, and the sum of the counters."""

    position: int
    sum: int = 0
    black: bool = True


class Ring(Record):
    """The shared state: the token."""

    token: Token


class Ewd998Peers(Protocol):
    """Node 0 detects termination, and never too early."""

    nodes: int = constant("N", at_least=1)
    most: int = constant("MaxPending", default=3)
    most_in_token: int = constant("MaxSum", default=9)

    def initial(self) -> Iterator[State]:
        """Yield the initial states: any active nodes, any colours, a black token at any node."""
        numbers = range(self.nodes)
        for active in product((False, True), repeat=self.nodes):
            for black in product((False, True), repeat=self.nodes):
                for position in numbers:
                    yield self.start(map(Node, numbers, active, black), Ring(Token(position)))

    @projection
    def node(self, me: Node) -> Node:
        """The whole node."""
        return me

    @internal
    def initiate_probe(self, me: Node, shared: Ring) -> Steps:
        """Node 0 sends a white token around if the last probe failed."""
        if me.id != 0 or shared.token.position != 0:
            return
        if shared.token.black or me.black or me.counter + shared.token.sum > 0:
            yield become(me.but(black=False)).put(token=Token(self.nodes - 1, 0, False))

    @internal
    def pass_token(self, me: Node, shared: Ring) -> Steps:
        """An inactive node adds its counter to the token, blackens it if it is black itself, and becomes white."""
        token = shared.token
        if me.id == 0 or me.active or token.position != me.id:
            return
        passed = Token(token.position - 1, token.sum + me.counter, me.black or token.black)
        yield become(me.but(black=False)).put(token=passed)

    @internal(reads=node)
    def send_msg(self, me: Node, node: Map[int, Node]) -> Steps:
        """An active node sends work to another."""
        if not me.active:
            return
        for other in range(self.nodes):
            if other != me.id:
                peer = node[other]
                yield become(me.but(counter=me.counter + 1)).write(peer.but(pending=peer.pending + 1))

    @internal
    def recv_msg(self, me: Node) -> Steps:
        """Work makes a node active and black."""
        if me.pending > 0:
            yield become(me.but(active=True, black=True, counter=me.counter - 1, pending=me.pending - 1))

    @internal
    def deactivate(self, me: Node) -> Steps:
        """An active node becomes inactive."""
        if me.active:
            yield become(me.but(active=False))

    @constraint
    def state_constraint(self, me: Node, shared: Ring) -> bool:
        """Counters, messages in flight and the token's sum stay within bounds."""
        return me.counter <= self.most and me.pending <= self.most and shared.token.sum <= self.most_in_token

    @invariant(reads=node)
    def termination_detection(self, shared: Ring, node: Map[int, Node]) -> bool:
        """Node 0 detects termination only after it."""
        token, first = shared.token, node[0]
        shown = token.position == 0 and not (token.black or first.black or first.active)
        if not shown or token.sum + first.counter != 0:
            return True
        return not any(one.active or one.pending for one in node.values())

    @invariant(reads=node)
    def safra(self, shared: Ring, node: Map[int, Node]) -> bool:
        """Dijkstra's invariant: the counters match the work in flight, and no wrong probe can succeed."""
        token = shared.token
        if sum(one.pending for one in node.values()) != sum(one.counter for one in node.values()):
            return False
        seen = [one for one in node.values() if one.id > token.position]
        ahead = [one for one in node.values() if one.id <= token.position]
        return (
            (not any(one.active for one in seen) and token.sum == sum(one.counter for one in seen))
            or sum(one.counter for one in ahead) + token.sum > 0
            or any(one.black for one in ahead)
            or token.black
        )

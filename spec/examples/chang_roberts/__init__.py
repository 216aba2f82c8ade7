"""Leader election on a unidirectional ring: the algorithm of Chang and Roberts.

Sources: E. Chang, R. Roberts, "An improved algorithm for decentralized extrema-finding in circular configurations of
processes" (CACM 22(5), 1979); module ChangRoberts of the TLA+ examples. There the nodes have the ids 1 to N.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from itertools import product

from kraftcheck.spec import (
    Formula,
    MessageSet,
    Protocol,
    Record,
    State,
    Steps,
    anywhere,
    become,
    constant,
    consume,
    internal,
    invariant,
    leads_to,
    on,
    predicate,
    temporal,
    weak,
)


class Standing(enum.Enum):
    """The state of a node in the election."""

    CANDIDATE = "cand"
    LOST = "lost"
    WON = "won"


class Node(Record):
    """A node of the ring; an initiator is a candidate."""

    id: int
    initiator: bool
    state: Standing
    started: bool = False


class Candidacy(Record):
    """The id of a candidate, passed around the ring."""

    candidate: int
    dest: int


class Nothing(Record):
    """The empty shared state."""


class ChangRoberts(Protocol):
    """The candidate with the smallest id wins, and all others know that they have lost."""

    nodes: int = constant("N", at_least=1)
    network = MessageSet()
    specifications = {"Spec": (weak("Stand", "PassOn", each="replica"),)}

    def initial(self) -> Iterator[State]:
        """Yield one initial state for each set of initiators."""
        for chosen in product((True, False), repeat=self.nodes):
            states = [Standing.CANDIDATE if one else Standing.LOST for one in chosen]
            yield self.start(map(Node, range(1, self.nodes + 1), chosen, states), Nothing())

    def next_to(self, me: Node) -> int:
        """Return the id of the next node on the ring."""
        return me.id % self.nodes + 1

    @internal
    def stand(self, me: Node) -> Steps:
        """A node starts; an initiator sends its id to the next node."""
        if me.started:
            return
        step = become(me.but(started=True))
        yield step.send(Candidacy(me.id, self.next_to(me))) if me.initiator else step

    @on(Candidacy)
    def pass_on(self, me: Node, message: Candidacy) -> Steps:
        """A node passes smaller ids on, and any id if it is no candidate; its own id returns when it has won."""
        if not me.started:
            return
        passed = Candidacy(message.candidate, self.next_to(me))
        if me.state is Standing.LOST:
            yield consume(me).send(passed)
        elif message.candidate < me.id:
            yield consume(me.but(state=Standing.LOST)).send(passed)
        else:
            yield consume(me.but(state=Standing.WON) if message.candidate == me.id else me)

    @invariant
    def correctness(self, me: Node, peer: Node) -> bool:
        """The winner is the initiator with the smallest id, and all other nodes have lost."""
        if me.state is not Standing.WON:
            return True
        return me.initiator and peer.state is Standing.LOST and (not peer.initiator or peer.id > me.id)

    @predicate
    def stands(self, me: Node) -> bool:
        """A node is a candidate."""
        return me.state is Standing.CANDIDATE

    @predicate
    def has_won(self, me: Node) -> bool:
        """A node has won."""
        return me.state is Standing.WON

    @temporal
    def liveness(self) -> Formula:
        """If some node is a candidate, a node eventually wins."""
        return leads_to(anywhere(self.stands), anywhere(self.has_won))

"""Leader election on a ring of N nodes (Chang and Roberts): the smallest id of a candidate wins."""

from __future__ import annotations

from collections.abc import Iterator

from kraftcheck import *


class Standing(Symbol):
    """The state of a node."""

    ASLEEP = "asleep"
    CANDIDATE = "candidate"
    LOST = "lost"
    LEADER = "leader"


class Node(Record):
    """A node of the ring."""

    id: int
    standing: Standing = Standing.ASLEEP


class Candidacy(Record):
    """A candidate's id on its way around the ring."""

    candidate: int
    dest: int


class Ring(Protocol):
    """At most one node leads, and then all others have lost."""

    nodes: int = constant("N", at_least=2)
    network = MessageSet()

    def initial(self) -> Iterator[State]:
        yield self.start(map(Node, range(1, self.nodes + 1)))

    def after(self, me: Node) -> int:
        return me.id % self.nodes + 1

    @internal
    def stand(self, me: Node) -> Steps:
        if me.standing is Standing.ASLEEP:
            yield become(me.but(standing=Standing.CANDIDATE)).send(Candidacy(me.id, self.after(me)))

    @internal
    def sit_out(self, me: Node) -> Steps:
        if me.standing is Standing.ASLEEP:
            yield become(me.but(standing=Standing.LOST))

    @on(Candidacy)
    def receive(self, me: Node, message: Candidacy) -> Steps:
        if me.standing is Standing.ASLEEP:
            return
        passed = Candidacy(message.candidate, self.after(me))
        if me.standing is Standing.LOST:
            yield consume(me).send(passed)
        elif message.candidate < me.id:
            yield consume(me.but(standing=Standing.LOST)).send(passed)
        elif message.candidate == me.id:
            yield consume(me.but(standing=Standing.LEADER))
        else:
            yield consume(me)

    @invariant
    def one_leader(self, me: Node, peer: Node) -> bool:
        return me.standing is not Standing.LEADER or peer.standing is Standing.LOST

"""SWIM's failure detector with suspicion (Das, Gupta and Motivala, 2002): pings carry opinions, the suspected refute."""
from collections.abc import Iterator

from kraftcheck import *

class Health(Symbol):
    ALIVE = "alive"
    SUSPECT = "suspect"
    FAULTY = "faulty"

class Opinion(Record):
    health: Health = Health.ALIVE
    incarnation: int = 0

class Ping(Record):
    about: int
    opinion: Opinion
    source: int
    dest: int

class Ack(Record):
    incarnation: int
    source: int
    dest: int

class Member(Record):
    id: int
    view: Map[int, Opinion]
    up: bool = True
    incarnation: int = 0
    waits_for: int | None = None

def newer(new: Opinion, old: Opinion) -> bool:
    """Faulty is final; a higher incarnation overrides; at equal ones Suspect overrides Alive."""
    if old.health is Health.FAULTY or new.health is Health.FAULTY:
        return new.health is not old.health and new.health is Health.FAULTY
    if new.incarnation != old.incarnation:
        return new.incarnation > old.incarnation
    return new.health is Health.SUSPECT and old.health is Health.ALIVE

class Swim(Protocol):
    members: int = constant("N", at_least=2)
    crashes: int = bound("MaxCrashes", default=1)
    pings: int = bound("MaxPings", default=3)
    network = MessageSet()
    def initial(self) -> Iterator[State]:
        ids = range(1, self.members + 1)
        yield self.start(Member(i, Map({j: Opinion() for j in ids if j != i})) for i in ids)
    @internal
    def ping(self, me: Member) -> Steps:
        if not me.up or me.waits_for is not None:
            return
        for dest, seen in me.view.items():
            if seen.health is Health.FAULTY:
                continue
            for about, opinion in me.view.items():
                yield become(me.but(waits_for=dest)).send(Ping(about, opinion, me.id, dest)).spend("pings")
    @on(Ping)
    def answer(self, me: Member, message: Ping) -> Steps:
        if not me.up:
            return
        after = me
        if message.about == me.id:
            if message.opinion.health is Health.SUSPECT and message.opinion.incarnation == me.incarnation:
                after = me.but(incarnation=me.incarnation + 1)
        elif newer(message.opinion, me.view[message.about]):
            after = me.but(view=me.view.put(message.about, message.opinion))
        yield consume(after).send(Ack(after.incarnation, me.id, message.source))
    @on(Ack)
    def hear(self, me: Member, message: Ack) -> Steps:
        if not me.up:
            return
        after = me.but(waits_for=None) if me.waits_for == message.source else me
        alive = Opinion(Health.ALIVE, message.incarnation)
        if newer(alive, me.view[message.source]):
            after = after.but(view=me.view.put(message.source, alive))
        yield consume(after)
    @internal
    def suspect(self, me: Member) -> Steps:
        """No Ack came in time."""
        if me.up and me.waits_for is not None:
            seen = me.view[me.waits_for]
            after = me.but(waits_for=None)
            if seen.health is Health.ALIVE:
                after = after.but(view=me.view.put(me.waits_for, seen.but(health=Health.SUSPECT)))
            yield become(after)
    @internal
    def confirm(self, me: Member) -> Steps:
        if me.up:
            for other, seen in me.view.items():
                if seen.health is Health.SUSPECT:
                    yield become(me.but(view=me.view.put(other, seen.but(health=Health.FAULTY))))
    @internal
    def crash(self, me: Member) -> Steps:
        if me.up:
            yield become(me.but(up=False, waits_for=None)).spend("crashes")
    @invariant
    def no_future(self, me: Member, peer: Member) -> bool:
        return me.view[peer.id].incarnation <= peer.incarnation

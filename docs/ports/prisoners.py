"""Module Prisoners of the TLA+ Examples: two switches, and one prisoner who counts."""

from collections.abc import Iterator

from kraftcheck import *


class Prisoner(Record):
    id: ModelValue
    times_switched: int = 0


class Room(Record):
    switch_a_up: bool
    switch_b_up: bool
    count: int = 0


class Prisoners(Protocol):
    prisoners: frozenset[ModelValue] = constant("Prisoner")
    counter: ModelValue = constant("Counter")
    network = None

    def initial(self) -> Iterator[State]:
        others = ordered(self.prisoners - {self.counter})
        for a in (False, True):
            for b in (False, True):
                yield self.start(map(Prisoner, others), Room(a, b))

    @environment
    def counter_step(self, shared: Room) -> Steps:
        if shared.switch_a_up:
            yield Step().put(switch_a_up=False, count=shared.count + 1)
        else:
            yield Step().put(switch_b_up=not shared.switch_b_up)

    @internal
    def non_counter_step(self, me: Prisoner, shared: Room) -> Steps:
        if not shared.switch_a_up and me.times_switched < 2:
            yield become(me.but(times_switched=me.times_switched + 1)).put(switch_a_up=True)
        else:
            yield become(me).put(switch_b_up=not shared.switch_b_up)

"""Module CoffeeCan of the TLA+ Examples: beans are thrown out of a can until one is left."""

from collections.abc import Iterator

from kraftcheck import *


class Can(Record):
    black: int
    white: int


class Kitchen(Record):
    can: Can


class CoffeeCan(Protocol):
    most: int = constant("MaxBeanCount", at_least=1)
    network = None

    def initial(self) -> Iterator[State]:
        for black in range(self.most + 1):
            for white in range(self.most + 1 - black):
                if black + white:
                    yield self.start([], Kitchen(Can(black, white)))

    @environment
    def pick_same_color_black(self, shared: Kitchen) -> Steps:
        if shared.can.black >= 2:
            yield Step().put(can=shared.can.but(black=shared.can.black - 1))

    @environment
    def pick_same_color_white(self, shared: Kitchen) -> Steps:
        if shared.can.white >= 2:
            yield Step().put(can=Can(shared.can.black + 1, shared.can.white - 2))

    @environment
    def pick_different_color(self, shared: Kitchen) -> Steps:
        if shared.can.black and shared.can.white:
            yield Step().put(can=shared.can.but(black=shared.can.black - 1))

    @environment
    def termination(self, shared: Kitchen) -> Steps:
        if shared.can.black + shared.can.white == 1:
            yield Step()

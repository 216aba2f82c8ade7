"""Module EWD840 of the TLA+ Examples: termination detected by a token on a ring."""

from collections.abc import Iterator
from enum import StrEnum
from itertools import product

from kraftcheck import *


class Color(StrEnum):
    WHITE = "white"
    BLACK = "black"


class Node(Record):
    id: int
    active: bool
    color: Color


class Token(Record):
    tpos: int
    tcolor: Color = Color.BLACK


class EWD840(Protocol):
    size: int = constant("N", at_least=1)
    network = None

    def initial(self) -> Iterator[State]:
        for looks in product(product((False, True), Color), repeat=self.size):
            for position in range(self.size):
                yield self.start([Node(i, *look) for i, look in enumerate(looks)], Token(position))

    @projection
    def nodes(self, me: Node) -> Node:
        return me

    @internal
    def initiate_probe(self, me: Node, shared: Token) -> Steps:
        if me.id == shared.tpos == 0 and Color.BLACK in (shared.tcolor, me.color):
            yield become(me.but(color=Color.WHITE)).put(tpos=self.size - 1, tcolor=Color.WHITE)

    @internal
    def pass_token(self, me: Node, shared: Token) -> Steps:
        if me.id == shared.tpos != 0 and (not me.active or Color.BLACK in (me.color, shared.tcolor)):
            color = Color.BLACK if me.color is Color.BLACK else shared.tcolor
            yield become(me.but(color=Color.WHITE)).put(tpos=me.id - 1, tcolor=color)

    @internal(reads=nodes)
    def send_msg(self, me: Node, nodes: Map[int, Node]) -> Steps:
        for to in range(self.size):
            if me.active and to != me.id:
                color = Color.BLACK if to > me.id else me.color
                yield become(me.but(color=color)).write(nodes[to].but(active=True))

    @internal
    def deactivate(self, me: Node) -> Steps:
        if me.active:
            yield become(me.but(active=False))

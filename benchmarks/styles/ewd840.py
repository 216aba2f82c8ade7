"""EWD840, termination detection in a ring: every assignment of colours and activity is an initial state."""
from itertools import product
from dataclasses import replace
from typing import Literal
from kraftcheck import projection, constant, Protocol, Record, Steps, become, internal, invariant, Step, bound
from kraftcheck.spec import State

class Node(Record):
    id: int
    active: bool = False
    color: str = "white"

class Ring(Record):
    pos: int = 0
    color: str = "black"

class EWD840(Protocol):
    n: int = constant("N", default=4)
    def initial(self):
        for acts in product((False, True), repeat=self.n):
            for cols in product(("white", "black"), repeat=self.n):
                for pos in range(self.n):
                    for c in ("white", "black"):
                        yield self.start([Node(i, a, k) for i, (a, k) in enumerate(zip(acts, cols))], shared=Ring(pos, c))

    @internal
    def initiate(self, me: Node, shared: Ring) -> Steps:
        if me.id == 0 and shared.pos == 0 and (shared.color == "black" or me.color == "black"):
            yield become(replace(me, color="white")).put(pos=self.n - 1, color="white")

    @internal
    def pass_token(self, me: Node, shared: Ring) -> Steps:
        if me.id == shared.pos and me.id != 0 and (not me.active or me.color == "black" or shared.color == "black"):
            yield become(replace(me, color="white")).put(pos=shared.pos - 1, color="black" if me.color == "black" else shared.color)

    @internal
    def deactivate(self, me: Node) -> Steps:
        if me.active:
            yield become(replace(me, active=False))

    @projection
    def whole(self, me: Node) -> Node:
        return me

    @internal(reads=whole)
    def send_msg(self, me: Node, whole) -> Steps:
        if me.active:
            for j, other in whole.items():
                if j != me.id:
                    yield become(replace(me, color="black") if j > me.id else me).write(replace(other, active=True))

    @invariant
    def fine(self, state: State) -> bool:
        return 0 <= state.shared.pos < self.n

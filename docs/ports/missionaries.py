"""Module MissionariesAndCannibals of the TLA+ Examples. Its Next is not a disjunction of actions."""

from collections.abc import Iterator
from enum import StrEnum
from itertools import combinations

from kraftcheck import *


class Bank(StrEnum):
    EAST = "E"
    WEST = "W"


class River(Record):
    tla_snake_case = True
    bank_of_boat: Bank
    who_is_on_bank: Map[Bank, frozenset[ModelValue]]


class MissionariesAndCannibals(Protocol):
    missionaries: frozenset[ModelValue] = constant("Missionaries")
    cannibals: frozenset[ModelValue] = constant("Cannibals")
    network = None

    def initial(self) -> Iterator[State]:
        everyone = self.missionaries | self.cannibals
        yield self.start([], River(Bank.EAST, Map({Bank.EAST: everyone, Bank.WEST: frozenset()})))

    def is_safe(self, people: frozenset[ModelValue]) -> bool:
        return people <= self.cannibals or len(people & self.cannibals) <= len(people & self.missionaries)

    @environment
    def move(self, shared: River) -> Steps:
        here = shared.bank_of_boat
        there = Bank.WEST if here is Bank.EAST else Bank.EAST
        people = ordered(shared.who_is_on_bank[here])
        for boat in (frozenset(some) for size in (1, 2) for some in combinations(people, size)):
            left, arrived = shared.who_is_on_bank[here] - boat, shared.who_is_on_bank[there] | boat
            if self.is_safe(left) and self.is_safe(arrived):
                yield Step().put(bank_of_boat=there, who_is_on_bank=Map({here: left, there: arrived}))

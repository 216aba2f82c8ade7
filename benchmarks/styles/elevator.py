"""Several lifts and people: all variables are maps of one shared record, as in TLA+."""
from itertools import product
from kraftcheck import *

FLOORS = (1, 2, 3)


class Person(Record):
    location: int | str
    destination: int
    waiting: bool = False


class Lift(Record):
    floor: int
    direction: str = "Stationary"
    doors_open: bool = False
    pressed: frozenset[int] = frozenset()


class Call(Record):
    floor: int
    direction: str


class Building(Record):
    people: Map[str, Person]
    calls: frozenset[Call]
    lifts: Map[str, Lift]


def direction(current, destination):
    return "Up" if destination > current else "Down"


def can_service(lift, call):
    return call.floor == lift.floor and call.direction == lift.direction


def waiting(shared, floor, to):
    return {p for p, one in shared.people.items() if one.location == floor and one.waiting and direction(floor, one.destination) == to}


def leaving(shared, e):
    return {p for p, one in shared.people.items() if one.location == e and one.destination == shared.lifts[e].floor}


def can_enter(shared, e):
    lift = shared.lifts[e]
    return lift.doors_open and lift.direction != "Stationary" and bool(waiting(shared, lift.floor, lift.direction))


def can_exit(shared, e):
    return shared.lifts[e].doors_open and bool(leaving(shared, e))


def can_open(shared, e):
    lift = shared.lifts[e]
    return not lift.doors_open and (any(can_service(lift, c) for c in shared.calls) or lift.floor in lift.pressed)


class Elevator(Protocol):
    persons: int = constant("Persons", default=2)
    elevators: int = constant("Elevators", default=2)

    def initial(self):
        people = [f"p{i}" for i in range(self.persons)]
        lifts = [f"e{i}" for i in range(self.elevators)]
        for places in product(product(FLOORS, FLOORS), repeat=len(people)):
            for floors in product(FLOORS, repeat=len(lifts)):
                yield self.start([], Building(
                    Map({p: Person(a, b) for p, (a, b) in zip(people, places)}),
                    frozenset(),
                    Map({e: Lift(f) for e, f in zip(lifts, floors)})))

    @environment
    def pick_new_destination(self, shared: Building) -> Steps:
        for p, one in shared.people.items():
            if not one.waiting and one.location in FLOORS:
                for f in FLOORS:
                    if f != one.location:
                        yield Step().put(people=shared.people.put(p, one.but(destination=f)))

    @environment
    def call_elevator(self, shared: Building) -> Steps:
        for p, one in shared.people.items():
            if not one.waiting and one.location != one.destination:
                call = Call(one.location, direction(one.location, one.destination))
                there = any(can_service(lift, call) and lift.doors_open for lift in shared.lifts.values())
                yield Step().put(calls=shared.calls if there else shared.calls | {call}, people=shared.people.put(p, one.but(waiting=True)))

    @environment
    def open_doors(self, shared: Building) -> Steps:
        for e, lift in shared.lifts.items():
            if can_open(shared, e):
                yield Step().put(
                    lifts=shared.lifts.put(e, lift.but(doors_open=True, pressed=lift.pressed - {lift.floor})),
                    calls=shared.calls - {Call(lift.floor, lift.direction)})

    @environment
    def enter(self, shared: Building) -> Steps:
        for e, lift in shared.lifts.items():
            if can_enter(shared, e):
                on = waiting(shared, lift.floor, lift.direction)
                yield Step().put(
                    people=Map({p: one.but(location=e) if p in on else one for p, one in shared.people.items()}),
                    lifts=shared.lifts.put(e, lift.but(pressed=lift.pressed | {shared.people[p].destination for p in on})))

    @environment
    def exit(self, shared: Building) -> Steps:
        for e, lift in shared.lifts.items():
            if can_exit(shared, e):
                off = leaving(shared, e)
                yield Step().put(people=Map({p: one.but(location=lift.floor, waiting=False) if p in off else one for p, one in shared.people.items()}))

    @environment
    def close_doors(self, shared: Building) -> Steps:
        for e, lift in shared.lifts.items():
            if lift.doors_open and not can_enter(shared, e) and not can_exit(shared, e):
                yield Step().put(lifts=shared.lifts.put(e, lift.but(doors_open=False)))

    @environment
    def move(self, shared: Building) -> Steps:
        for e, lift in shared.lifts.items():
            to = lift.floor + 1 if lift.direction == "Up" else lift.floor - 1
            if lift.direction != "Stationary" and not lift.doors_open and lift.floor not in lift.pressed and to in FLOORS:
                if all(not can_service(lift, c) or any(e2 != e and can_service(other, c) for e2, other in shared.lifts.items()) for c in shared.calls):
                    yield Step().put(lifts=shared.lifts.put(e, lift.but(floor=to)))

    @environment
    def stop(self, shared: Building) -> Steps:
        for e, lift in shared.lifts.items():
            to = lift.floor + 1 if lift.direction == "Up" else lift.floor - 1
            if not can_open(shared, e) and not lift.doors_open and to not in FLOORS:
                yield Step().put(lifts=shared.lifts.put(e, lift.but(direction="Stationary")))

    @environment
    def dispatch(self, shared: Building) -> Steps:
        for c in ordered(shared.calls):
            stationary = [e for e, lift in shared.lifts.items() if lift.direction == "Stationary"]
            approaching = [e for e, lift in shared.lifts.items() if lift.direction == c.direction and (lift.floor == c.floor or direction(lift.floor, c.floor) == c.direction)]
            either = sorted([*stationary, *approaching])
            if either:
                closest = min(either, key=lambda e: abs(shared.lifts[e].floor - c.floor))
                if closest in stationary:
                    yield Step().put(lifts=shared.lifts.put(closest, shared.lifts[closest].but(floor=c.floor, direction=c.direction)))
                else:
                    yield Step()

    @invariant
    def safety(self, shared: Building) -> bool:
        for e, lift in shared.lifts.items():
            for f in lift.pressed:
                if not any(one.location == e and one.destination == f for one in shared.people.values()):
                    return False
        for one in shared.people.values():
            for e, lift in shared.lifts.items():
                if one.location == e and lift.floor != one.destination and lift.direction != direction(lift.floor, one.destination):
                    return False
        return all(waiting(shared, c.floor, c.direction) for c in shared.calls)

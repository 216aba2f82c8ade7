"""A small protocol with a symmetry and a view."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kraftcheck.spec import (
    Bag,
    ModelValue,
    Protocol,
    Record,
    State,
    Step,
    Steps,
    become,
    bound,
    constant,
    environment,
    hide,
    internal,
    invariant,
    ordered,
)

HOSTS = frozenset(ModelValue(f"n{number}", number) for number in (1, 2, 3))


class Shared(Record):
    noise: int = 0


class Node(Record):
    id: ModelValue
    votes: frozenset[ModelValue] = frozenset()
    value: int = 0


class Voting(Protocol):
    """Everyone votes for someone, anyone may count."""

    hosts: frozenset[ModelValue] = constant("Hosts")
    counts: int = bound("MaxCounts", default=2)
    network = Bag()
    symmetries = {"symm": ("hosts",)}
    views = {"votes": hide("noise", "counts")}

    def initial(self) -> Iterator[State]:
        yield self.start([Node(host) for host in ordered(self.hosts)], Shared())

    @internal
    def vote(self, me: Node) -> Steps:
        if not me.votes:
            for host in ordered(self.hosts):
                yield become(me.but(votes=frozenset({host})))

    @internal
    def count(self, me: Node, shared: Shared) -> Steps:
        yield become(me.but(value=me.value + 1)).put(noise=shared.noise + 1).spend("counts")

    @internal
    def waste(self, me: Node) -> Steps:
        yield become(me).spend("counts")

    @environment
    def hum(self, shared: Shared) -> Steps:
        yield Step().put(noise=(shared.noise + 1) % 3)

    @invariant
    def no_majority(self, state: State) -> bool:
        chosen = Counter(host for node in state.replicas.values() for host in node.votes)
        return max(chosen.values(), default=0) < 3

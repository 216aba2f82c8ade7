"""A controller moves the replicas of partitions between brokers while brokers fail and return."""
from itertools import combinations

from kraftcheck import *


class Assignment(Record):
    replicas: frozenset[int]
    isr: frozenset[int]
    adding: frozenset[int] = frozenset()
    removing: frozenset[int] = frozenset()
    leader: int | None = None
    epoch: int = 0


class Cluster(Record):
    live: frozenset[int]
    parts: Map[str, Assignment]


def elect(part: Assignment, live: frozenset[int]) -> Assignment:
    """Keep the leader if it can stay; else the smallest live member of the ISR."""
    if part.leader is not None and part.leader in part.isr and part.leader in live:
        return part
    candidates = [b for b in part.isr if b in live]
    leader = min(candidates) if candidates else None
    if leader == part.leader:
        return part
    return part.but(leader=leader, epoch=part.epoch + 1)


class Reassign(Protocol):
    """A controller moves partitions between brokers that fail and return."""

    brokers: int = constant("Brokers")
    partitions: int = constant("Partitions")
    factor: int = constant("Factor")
    reassignments: int = bound("MaxReassignments")
    failures: int = bound("MaxFailures")
    network = None

    def all_brokers(self):
        return frozenset(range(1, self.brokers + 1))

    def initial(self):
        first = frozenset(range(1, self.factor + 1))
        yield self.start([], Cluster(
            live=self.all_brokers(),
            parts=Map({f"t{i}": Assignment(first, first, leader=1) for i in range(1, self.partitions + 1)}),
        ))

    def set_part(self, shared: Cluster, name: str, part: Assignment) -> Step:
        return Step().put(parts=shared.parts.put(name, part))

    @environment
    def start_reassignment(self, shared: Cluster) -> Steps:
        for name, part in shared.parts.items():
            if part.adding or part.removing:
                continue
            for target in combinations(self.all_brokers(), self.factor):
                goal = frozenset(target)
                if goal != part.replicas and goal <= shared.live:
                    yield self.set_part(shared, name, part.but(
                        replicas=part.replicas | goal,
                        adding=goal - part.replicas,
                        removing=part.replicas - goal,
                    )).spend("reassignments")

    @environment
    def expand_isr(self, shared: Cluster) -> Steps:
        for name, part in shared.parts.items():
            if part.leader is not None:
                for broker in part.replicas - part.isr:
                    if broker in shared.live:
                        yield self.set_part(shared, name, part.but(isr=part.isr | {broker}))

    @environment
    def shrink_isr(self, shared: Cluster) -> Steps:
        for name, part in shared.parts.items():
            if part.leader is not None:
                for broker in part.isr - {part.leader}:
                    if broker not in shared.live:
                        yield self.set_part(shared, name, part.but(isr=part.isr - {broker}))

    @environment
    def finish(self, shared: Cluster) -> Steps:
        for name, part in shared.parts.items():
            if part.adding and part.adding <= part.isr:
                kept = part.replicas - part.removing
                done = Assignment(kept, part.isr & kept, leader=part.leader, epoch=part.epoch)
                yield self.set_part(shared, name, elect(done, shared.live))

    @environment
    def cancel(self, shared: Cluster) -> Steps:
        for name, part in shared.parts.items():
            if part.adding and part.isr - part.adding:
                kept = part.replicas - part.adding
                back = Assignment(kept, part.isr & kept, leader=part.leader, epoch=part.epoch)
                yield self.set_part(shared, name, elect(back, shared.live))

    @environment
    def fail(self, shared: Cluster) -> Steps:
        for broker in shared.live:
            live = shared.live - {broker}
            yield Step().put(
                live=live,
                parts=Map({name: elect(part, live) for name, part in shared.parts.items()}),
            ).spend("failures")

    @environment
    def return_(self, shared: Cluster) -> Steps:
        for broker in self.all_brokers() - shared.live:
            live = shared.live | {broker}
            yield Step().put(
                live=live,
                parts=Map({name: elect(part, live) for name, part in shared.parts.items()}),
            )

    @invariant
    def leader_in_isr(self, shared: Cluster) -> bool:
        return all(part.leader is None or part.leader in part.isr for part in shared.parts.values())

    @invariant
    def isr_in_replicas(self, shared: Cluster) -> bool:
        return all(part.isr and part.isr <= part.replicas for part in shared.parts.values())

    @invariant
    def enough_replicas(self, shared: Cluster) -> bool:
        return all(len(part.replicas - part.adding) == self.factor for part in shared.parts.values())

    @reachable
    def all_settled(self, shared: Cluster) -> bool:
        return all(not part.adding for part in shared.parts.values())

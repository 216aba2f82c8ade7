"""A consumer group assigns partitions to its members, which commit the offsets that they have processed."""
from kraftcheck import *


class Member(Record):
    generation: int = -1
    positions: Map[str, int] = Map()      # partition -> the next offset


class Group(Record):
    members: Map[str, Member]
    joined: frozenset[str] = frozenset()
    generation: int = 0
    owner: Map[str, str] = Map()          # partition -> member
    committed: Map[str, int] = Map()
    processed: frozenset[tuple[str, int, str]] = frozenset()   # partition, offset, member


class ConsumerGroup(Protocol):
    """A consumer group rebalances; offsets are committed after the records are processed."""

    names: frozenset[str] = constant("Members")
    partitions: frozenset[str] = constant("Partitions")
    length: int = constant("Length")
    rebalances: int = bound("MaxRebalances")
    network = None

    def initial(self):
        yield self.start([], Group(
            members=Map({m: Member() for m in self.names}),
            committed=Map({p: 0 for p in self.partitions}),
        ))

    def assign(self, joined):
        """Round robin over the sorted members."""
        order = sorted(joined)
        result = {}
        for i, p in enumerate(sorted(self.partitions)):
            if order:
                result[p] = order[i % len(order)]
        return Map(result)

    def rebalanced(self, shared, joined):
        return Step().put(
            joined=joined, generation=shared.generation + 1, owner=self.assign(joined),
        ).spend("rebalances")

    @environment
    def join(self, shared: Group) -> Steps:
        for m in self.names - shared.joined:
            yield self.rebalanced(shared, shared.joined | {m})

    @environment
    def leave(self, shared: Group) -> Steps:
        for m in shared.joined:
            yield self.rebalanced(shared, shared.joined - {m})

    @environment
    def sync(self, shared: Group) -> Steps:
        """A member learns its partitions, and begins at the committed offsets."""
        for m in shared.joined:
            if shared.members[m].generation < shared.generation:
                mine = {p: shared.committed[p] for p, who in shared.owner.items() if who == m}
                yield Step().put(members=shared.members.put(m, Member(shared.generation, Map(mine))))

    @environment
    def poll(self, shared: Group) -> Steps:
        for m, member in shared.members.items():
            for p, offset in member.positions.items():
                if offset < self.length:
                    yield Step().put(
                        members=shared.members.put(m, member.but(positions=member.positions.put(p, offset + 1))),
                        processed=shared.processed | {(p, offset, m)},
                    )

    @environment
    def commit(self, shared: Group) -> Steps:
        for m, member in shared.members.items():
            if member.generation == shared.generation and m in shared.joined:
                for p, offset in member.positions.items():
                    if offset > shared.committed[p]:
                        yield Step().put(committed=shared.committed.put(p, offset))

    @environment
    def forget(self, shared: Group) -> Steps:
        """A member that is not in the group drops what it had."""
        for m in self.names - shared.joined:
            if shared.members[m].positions:
                yield Step().put(members=shared.members.put(m, Member()))

    @invariant
    def committed_is_processed(self, shared: Group) -> bool:
        done = {(p, o) for p, o, m in shared.processed}
        return all((p, o) in done for p, upto in shared.committed.items() for o in range(upto))

    @invariant
    def one_owner_per_generation(self, shared: Group) -> bool:
        current = [m for m in shared.members.values() if m.generation == shared.generation]
        return sum(len(m.positions) for m in current) <= len(self.partitions)

    @reachable
    def everything_is_committed(self, shared: Group, spent: Map[str, int]) -> bool:
        return all(o == self.length for o in shared.committed.values()) or spent["rebalances"] > 0

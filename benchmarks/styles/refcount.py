"""A collector counts references by updates that processes send in order, as in deferred reference counting."""
from kraftcheck import *


class Update(Record):
    kind: str        # "inc" or "dec"
    target: int


class Heap(Record):
    refs: Map[int, tuple[int, ...]]      # object -> fields; 0 is nil
    roots: Map[str, frozenset[int]]      # process -> the objects it holds
    counts: Map[int, int]
    free: frozenset[int]
    queue: Map[str, tuple[Update, ...]]  # process -> its updates on the way to the collector


class Collector(Protocol):
    """Reference counting with deferred updates: every process sends its updates in order."""

    objects: int = constant("Objects")
    processes: int = constant("Processes")
    most: int = constant("MaxQueue")
    allocations: int = bound("MaxAllocations")
    copies: int = bound("MaxCopies")
    network = None

    def initial(self):
        objects = range(1, self.objects + 1)
        names = [f"p{i}" for i in range(1, self.processes + 1)]
        yield self.start([], Heap(
            refs=Map({o: (0,) for o in objects}),
            roots=Map({p: frozenset() for p in names}),
            counts=Map({o: 0 for o in objects}),
            free=frozenset(objects),
            queue=Map({p: () for p in names}),
        ))

    def push(self, shared, process, *updates):
        return shared.queue.put(process, shared.queue[process] + updates)

    def room(self, shared, process, needed=1):
        return len(shared.queue[process]) + needed <= self.most

    @environment
    def allocate(self, shared: Heap) -> Steps:
        for p in shared.roots:
            if shared.free:
                o = min(shared.free)
                yield Step().put(
                    free=shared.free - {o},
                    roots=shared.roots.put(p, shared.roots[p] | {o}),
                    counts=shared.counts.put(o, 1),
                ).spend("allocations")

    @environment
    def hand_over(self, shared: Heap) -> Steps:
        """A process gives another process a reference that it holds."""
        for p in shared.roots:
            for q in shared.roots:
                if p == q or not self.room(shared, p):
                    continue
                for o in shared.roots[p]:
                    if o not in shared.roots[q]:
                        yield Step().put(
                            roots=shared.roots.put(q, shared.roots[q] | {o}),
                            queue=self.push(shared, p, Update("inc", o)),
                        ).spend("copies")

    @environment
    def store(self, shared: Heap) -> Steps:
        """A process writes a reference into the field of an object that it holds."""
        for p in shared.roots:
            for holder in shared.roots[p]:
                for value in shared.roots[p] | {0}:
                    for i, old in enumerate(shared.refs[holder]):
                        if old == value or value == holder:
                            continue
                        updates = []
                        if value:
                            updates.append(Update("inc", value))
                        if old:
                            updates.append(Update("dec", old))
                        if self.room(shared, p, len(updates)):
                            fields = shared.refs[holder][:i] + (value,) + shared.refs[holder][i + 1:]
                            step = Step().put(
                                refs=shared.refs.put(holder, fields),
                                queue=self.push(shared, p, *updates),
                            )
                            yield step.spend("copies") if value else step

    @environment
    def load(self, shared: Heap) -> Steps:
        for p, held in shared.roots.items():
            if not self.room(shared, p):
                continue
            for o in held:
                for target in set(shared.refs[o]) - {0} - held:
                    yield Step().put(
                        roots=shared.roots.put(p, held | {target}),
                        queue=self.push(shared, p, Update("inc", target)),
                    ).spend("copies")

    @environment
    def drop(self, shared: Heap) -> Steps:
        for p, held in shared.roots.items():
            for o in held:
                if self.room(shared, p):
                    yield Step().put(
                        roots=shared.roots.put(p, held - {o}),
                        queue=self.push(shared, p, Update("dec", o)),
                    )

    @environment
    def collect(self, shared: Heap) -> Steps:
        """The collector takes the oldest update of a process."""
        for p, updates in shared.queue.items():
            if not updates:
                continue
            first, rest = updates[0], updates[1:]
            change = 1 if first.kind == "inc" else -1
            yield Step().put(
                counts=shared.counts.put(first.target, shared.counts[first.target] + change),
                queue=shared.queue.put(p, rest),
            )

    @environment
    def reclaim(self, shared: Heap) -> Steps:
        """An object without references dies, if no update is on the way."""
        if any(shared.queue.values()):
            return
        for o, count in shared.counts.items():
            if count == 0 and o not in shared.free:
                counts = shared.counts
                for child in shared.refs[o]:
                    if child:
                        counts = counts.put(child, counts[child] - 1)
                yield Step().put(
                    free=shared.free | {o},
                    counts=counts,
                    refs=shared.refs.put(o, (0,)),
                )

    def reachable(self, shared):
        seen = set()
        stack = [o for held in shared.roots.values() for o in held]
        while stack:
            o = stack.pop()
            if o not in seen:
                seen.add(o)
                stack.extend(child for child in shared.refs[o] if child)
        return seen

    @invariant
    def live_objects_stay(self, shared: Heap) -> bool:
        return not (self.reachable(shared) & shared.free)

    @invariant
    def counts_are_right_in_the_end(self, shared: Heap) -> bool:
        if any(shared.queue.values()):
            return True
        return all(
            shared.counts[o] == sum(o in held for held in shared.roots.values())
            + sum(fields.count(o) for h, fields in shared.refs.items() if h not in shared.free)
            for o in shared.counts if o not in shared.free
        )

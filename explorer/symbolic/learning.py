"""Learning of a protocol's events from the combinations of local states, messages and shared fields that are reached.

A *watch* is a projection: a replica's local state, the messages deliverable to it from one channel, and further reads
of handlers. Each new vector of a watch leads to handler calls; each outcome becomes an event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kraftcheck.explorer.calls.handlers import MissingRead
from kraftcheck.explorer.calls.proxies import DeltaStep, SetChange, SharedRecordProxy, reraising_unanswered_read
from kraftcheck.explorer.symbolic.handler_cache import CallResult, DecisionPath, HandlerCache, HandlerRead
from kraftcheck.explorer.symbolic.relations import (
    EDGES_BY_MESSAGE,
    EDGES_BY_VALUE,
    IDENTITY_MAP,
    Combination,
    CombinationCallback,
    CombinationWatches,
    EffectLabel,
    EffectLabels,
    Event,
    EventWithStep,
    EventWithWatch,
    LevelAndMap,
    VariableChange,
)
from kraftcheck.explorer.symbolic.variables import ANY_SENDER, DiagramVariables, VariableKey, VariableKind
from kraftcheck.spec.language.declarations import NOT_PROJECTED, Action, Projection, Property
from kraftcheck.spec.language.state import Step
from kraftcheck.spec.values import Record, Value, type_distinguishing_key

LOCAL_STATE_PROJECTION = Projection("the local state", lambda protocol, me: me, of_inbox=False)
"""Read of a replica that a step writes, for an action constraint that compares it before and after."""


class ReplicaAndChannel(NamedTuple):
    """Call site of handlers: a replica and a channel, a replica alone, or the environment (both None)."""

    replica: Value
    channel: int | None


class ReadDimensionFinder:
    """Finds the diagram dimensions that contain the value of each read of a handler."""

    def __init__(self, variables: DiagramVariables, labels: EffectLabels) -> None:
        self._protocol, self._variables, self._labels = variables.protocol, variables, labels
        self._dims: dict[HandlerRead, list[LevelAndMap]] = {}

    def level_of(self, read: HandlerRead) -> int:
        """Return the level of a shared field or of a set membership."""
        if read.field is not None:
            return self._variables.shared(read.field)
        return self._labels.level_of_membership(read)

    def more(self, read: HandlerRead, dims: Sequence[LevelAndMap]) -> list[LevelAndMap]:
        """Return the dimensions to add for a read; the second element read of a set adds all elements of the set."""
        if read.member is not None:
            field, replica = read.member[0], read.replica
            all_of_it = [
                (self._variables.membership(replica, field, one), IDENTITY_MAP)
                for one in self._variables.sets(replica)[field]
            ]
            if any(dim in dims for dim in all_of_it):
                return all_of_it
        return self.of(read)

    def of(self, read: HandlerRead) -> list[LevelAndMap]:
        """Return the dimensions that contain the value of a read; they decode to None for a missing replica."""
        found = self._dims.get(read)
        if found is None:
            found = self._dims[read] = self._new(read)
        return found

    def answer(self, read: HandlerRead, found: Combination) -> Any:
        """Return the value of a read in a combination; raise MissingRead for one outside of its dimensions."""
        answer: Any = None
        for dim in self.of(read):
            if dim not in found:
                raise MissingRead(read)
            answer = self._labels.meaning(*dim, found[dim])
            if answer is None:
                return None
        return answer

    def _new(self, read: HandlerRead) -> list[LevelAndMap]:
        if read.field is not None or read.member is not None:
            return [(self.level_of(read), IDENTITY_MAP)]
        projection, replica = read.projection, read.replica
        assert projection is not None
        level, protocol, name = self._variables.local(replica), self._protocol, ("projection", projection.name)
        if not projection.of_inbox:
            own = self._labels.map(level, name, lambda me: [None if me is None else self.projected(projection, me)])
            return [(level, own)]
        dims = []
        if replica not in self._variables.always:
            dims.append((level, self._labels.map(level, "present", lambda me: [None if me is None else True])))
        inbox = self._variables.levels[VariableKey(VariableKind.CHANNEL, replica, ANY_SENDER)]
        return [*dims, (inbox, self._labels.map(inbox, name, lambda one: [(protocol.projected(projection, one),)]))]

    def projected(self, projection: Projection, local: Value) -> tuple[Value] | None:
        """Return a local state's projection in a 1-tuple; None if the replica has another type than the projection."""
        with reraising_unanswered_read:
            value = self._protocol.projected(projection, self._variables.guarded(local))
        return None if value is NOT_PROJECTED else (value,)


class EventStore:
    """The events learned so far."""

    def __init__(self) -> None:
        self.infos: list[EventWithStep] = []
        self.pruned: list[Event] = []
        self._fresh: list[EventWithWatch] = []
        self._changes: dict[tuple[int, VariableChange], tuple[int, VariableChange]] = {}

    def event(self, changes: dict[int, VariableChange]) -> Event:
        """Return an event; equal changes share one object."""
        return tuple(self._changes.setdefault(change, change) for change in sorted(changes.items()))

    def add(self, info: EventWithStep, last: int, gate: int, *, is_allowed: bool = True) -> None:
        """Add an event, with the last level and the gate of the watch it was learned from."""
        self.infos.append(info)
        if is_allowed:
            self._fresh.append(EventWithWatch(info.event, last, gate))
        else:
            self.pruned.append(info.event)

    def take_fresh(self) -> list[EventWithWatch]:
        """Return the events added since the last call."""
        fresh, self._fresh = self._fresh, []
        return fresh


class EventBuilder:
    """Builds the event of one step: a guard and an effect for each variable."""

    def __init__(self, variables: DiagramVariables, labels: EffectLabels) -> None:
        self._variables, self._labels = variables, labels
        self.changes: dict[int, VariableChange] = {}
        self._required: dict[int, int] = {}  # values that were read
        self._targets: dict[int, int] = {}  # new values of shared fields and set memberships
        self._guards: dict[int, list[LevelAndMap]] = {}
        self._operations: dict[int, list[tuple[str, Record]]] = {}

    def replace(self, level: int, before: Any, after: Any) -> None:
        """Replace one value of a variable by another."""
        target = self._variables.number(level, after)
        self.changes[level] = VariableChange(EDGES_BY_VALUE, self._variables.number(level, before), target)

    def require(self, level: int, value: Any) -> None:
        """Require a variable to have a value."""
        self._required[level] = self._variables.number(level, value)

    def guard(self, level: int, mapped: int, meaning: Any) -> None:
        """Require that a variable's value has a given class, unless the event already fixes the value."""
        if level not in self.changes:
            self._guards.setdefault(level, []).append((mapped, self._labels.classes(mapped).number(meaning)))

    def operate(self, level: int, operation: str, message: Any) -> None:
        """Apply a network operation to a message in a channel."""
        self._operations.setdefault(level, []).append((operation, message))

    def assign(self, targets: Mapping[int, int]) -> None:
        """Assign values to shared fields and set memberships."""
        self._targets.update(targets)

    def build(self, channel: int | None, message: Any, written: Mapping[int, Any]) -> dict[int, VariableChange]:
        """Return the change of each variable, given the received message and the other replicas that are written."""
        labels, changes, required = self._labels, self.changes, self._required
        for level, target in self._targets.items():
            if level in required:
                changes[level] = VariableChange(EDGES_BY_VALUE, required.pop(level), target)
            else:
                changes[level] = labels.change(EffectLabel(level, target=target))
        for level, number in required.items():
            changes[level] = VariableChange(EDGES_BY_VALUE, number, number)
        guards, operations = self._guards, self._operations
        if channel is not None:
            label = EffectLabel(channel, tuple(guards.pop(channel, ())), None, tuple(operations.pop(channel, ())))
            number = labels.classes(labels.messages[channel]).number(message)
            changes[channel] = VariableChange(EDGES_BY_MESSAGE, number, labels.label(label))
        for level in {*guards, *operations, *written}:
            result = self._variables.number(level, self._variables.core(written[level])) if level in written else None
            label = EffectLabel(level, tuple(guards.get(level, ())), result, tuple(operations.get(level, ())))
            changes[level] = labels.change(label)
        return changes


class TransitionLearner:
    """Learns the events of one protocol."""

    def __init__(
        self,
        calls: HandlerCache,
        variables: DiagramVariables,
        watches: CombinationWatches,
        constraints: tuple[Property, ...],
    ) -> None:
        self._constraints = constraints
        self.calls, self.watches = calls, watches
        self.events = EventStore()
        self.dims = ReadDimensionFinder(variables, watches.labels)
        self._variables, self._store, self._labels = variables, watches.store, watches.labels
        self._reading: dict[tuple[ReplicaAndChannel, str], tuple[LevelAndMap, ...]] = {}
        self._own: dict[tuple[ReplicaAndChannel, str], int] = {}  # the watch of an action's further reads
        self._done: dict[tuple[Any, ...], CallResult] = {}
        self._queue: list[Callable[[], None]] = []
        self._watched: tuple[LevelAndMap, ...] = ()  # the dimensions of the watch that is being learned from, if any
        self.learned = 0

    def begin(self) -> None:
        """Add the watches that every protocol needs, and call the environment's actions."""
        network, actions = self._variables.network, self.calls.protocol.actions.values()
        kinds = {action.kind for action in actions}
        for level, key in enumerate(self._variables.keys):
            if key.kind == VariableKind.LOCAL and "internal" in kinds:
                self.watches.add(((level, IDENTITY_MAP),), self._learner(ReplicaAndChannel(key.of, None), None))
            elif key.kind == VariableKind.CHANNEL:
                if "on" in kinds:
                    place = ReplicaAndChannel(key.of, level)
                    self.watches.add(self._base(place), self._learner(place, None))
                if network.own_actions():
                    self.watches.add(((level, self._labels.messages[level]),), self._network_learner(level))
        for action in actions:
            if action.kind == "environment":
                self._try(action, ReplicaAndChannel(None, None), None, None, {})
        self._flush()

    def _base(self, place: ReplicaAndChannel) -> tuple[LevelAndMap, ...]:
        dims = []
        if place.replica is not None:
            dims.append((self._variables.local(place.replica), IDENTITY_MAP))
        if place.channel is not None:
            dims.append((place.channel, self._labels.messages[place.channel]))
        return tuple(sorted(dims))

    def answer(self, which: int, node: int) -> int:
        """Learn events from `node`, the set of new vectors of the watch `which`."""
        watch = self.watches.known[which]
        known = self._store.arrays.watch_known
        joined = self._store.union(int(known[which]), node)
        self._watched = watch.dims
        self.watches.each(which, watch.dims, node, watch.learn)
        known[which] = joined
        self.learned += 1
        self._flush()
        return 0

    def _flush(self) -> None:
        while self._queue:
            queue, self._queue = self._queue, []
            for change in queue:
                change()
        fresh = self.events.take_fresh()
        if fresh:
            self.watches.groups.add(fresh)

    # Handler calls

    def _learner(self, place: ReplicaAndChannel, only: str | None) -> CombinationCallback:
        """Return a callback that learns from a watch's vectors, for all actions or only for the action `only`."""
        base = self._base(place)
        local = (self._variables.local(place.replica), IDENTITY_MAP) if place.replica is not None else None

        def learn(found: Combination) -> None:
            me = self._meaning(local, found[local]) if local is not None else None
            if local is not None and me is None:
                return
            channel = next((dim for dim in base if dim != local), None)
            message = self._meaning(channel, found[channel]) if channel is not None else None
            receiver = self._variables.guarded(me) if message is not None else None
            for action in self.calls.applicable(me, message, receiver):
                if only in (None, action.name):
                    self._try(action, place, me, message, found, is_first=only is None)

        return learn

    def _meaning(self, dim: LevelAndMap, number: int) -> Any:
        return self._labels.meaning(*dim, number)

    def _try(
        self,
        action: Action,
        place: ReplicaAndChannel,
        me: Any,
        message: Any,
        found: Combination,
        *,
        is_first: bool = True,
    ) -> None:
        """Call a handler; if it reads outside of its watch, add a watch with that read."""

        def answers(read: HandlerRead) -> Any:
            if read.projection is not None and read.replica == place.replica and not read.projection.of_inbox:
                return self.dims.projected(read.projection, me)
            return self.dims.answer(read, found)

        more: dict[HandlerRead, Any] = {}

        def ask(read: HandlerRead) -> Any:
            if read not in more:
                more[read] = answers(read)
            return more[read]

        try:
            result = self.calls.result(action, me, message, answers)
            allowed = [self._is_allowed(place, me, step, ask) for step in result.steps]
        except MissingRead as missing:
            # `CombinationWatches.each` catches a missing membership, and calls again with each of its values.
            if self._labels.level_of_membership(missing.read) in (level for level, _ in self._watched):
                raise
            if is_first and (place, action.name) in self._reading:
                return  # the action's own watch has its reads
            dims = self._reading.get((place, action.name), ())
            self._read_more(action, place, tuple(dict.fromkeys((*dims, *self.dims.more(missing.read, dims)))))
            return
        done = (place, action.name, me, message, id(result), *map(type_distinguishing_key, more.items()))
        if done not in self._done:
            self._done[done] = result  # kept alive, so that its id stays unique
            path = (*result.path, *[item for item in more.items() if item not in result.path])
            for step, is_allowed in zip(result.steps, allowed, strict=True):
                self._add(action.name, place, me, message, path, step, is_allowed)

    def _is_allowed(self, place: ReplicaAndChannel, me: Any, step: Step, ask: Callable[[HandlerRead], Any]) -> bool:
        if not self._constraints:
            return True
        guarded = self._variables.guarded
        pairs = [(guarded(me), guarded(step.me))] if step.me != () else []
        for replica in step.writes:
            before: Any = (
                (me,) if replica.id == place.replica else ask(HandlerRead(None, LOCAL_STATE_PROJECTION, replica.id))
            )
            pairs += [(guarded(before[0]), guarded(replica))] if before is not None else []
        shared = SharedRecordProxy(self._variables.shared_type, lambda name: ask(HandlerRead(name)))
        return all(
            self.calls.holds(prop, {"before": before, "after": after, "shared": shared})
            for prop in self._constraints
            for before, after in pairs
            if before != after and isinstance(before, prop.kinds("before")) and isinstance(after, prop.kinds("after"))
        )

    def _read_more(self, action: Action, place: ReplicaAndChannel, dims: tuple[LevelAndMap, ...]) -> None:
        """Queue a change of the watch for an action's reads: from then on it covers the dimensions `dims`."""
        self._reading[place, action.name] = dims
        base = self._base(place)

        def change() -> None:
            if self._reading[place, action.name] == dims:
                old = self._own.get((place, action.name))
                if old is not None:
                    self.watches.remove(old)
                learner = self._learner(place, action.name)
                self._own[place, action.name] = self.watches.add(dict.fromkeys((*base, *dims)), learner)

        self._queue.append(change)

    def _network_learner(self, level: int) -> CombinationCallback:
        mapped = self._labels.messages[level]

        def learn(found: Combination) -> None:
            number = found[level, mapped]
            message = self._meaning((level, mapped), number)
            for name, operation, spends in self._variables.network.own_operations():
                label = self._labels.label(EffectLabel(level, operations=((operation, message),)))
                changes = {level: VariableChange(EDGES_BY_MESSAGE, number, label)}
                self._bounds(changes, Step(spends=spends))
                gate = self.watches.tail([(level, mapped)])
                self.events.add(EventWithStep(name, self.events.event(changes)), level, gate)

        return learn

    # Events

    def _add(
        self,
        action: str,
        place: ReplicaAndChannel,
        me: Any,
        message: Any,
        path: DecisionPath,
        step: Step,
        is_allowed: bool,
    ) -> None:
        variables, builder = self._variables, EventBuilder(self._variables, self._labels)
        pairs: list[tuple[int, Any, Any]] = []
        written = {variables.local(replica.id): replica for replica in step.writes}
        if place.replica is not None:
            level = variables.local(place.replica)
            after = self._act(builder, level, me, written.pop(level, me if step.me == () else step.me), step)
            pairs.append((level, me, after))
        for read, answer in path:
            self._require(builder, place, read, answer)
        self._send(builder, place, message, step)
        for name, value in step.puts:
            level = variables.shared(name)
            builder.assign({level: variables.number(level, value)})
        for replica in written.values():
            builder.assign(variables.memberships(replica))
        changes = builder.build(place.channel, message, written)
        self._bounds(changes, step)
        last = -1
        if self._watched:  # an event begins no lower than its watch: see `kernel/saturation.py`
            (top, _), (last, _) = self._watched[0], self._watched[-1]
            changes.setdefault(top, self._labels.change(EffectLabel(top)))
        pairs += [(level, None, self._targets(replica, step)[1]) for level, replica in written.items()]
        act = (me, message, step) if me is not None else None
        gate = self.watches.tail(self._base(place))
        info = EventWithStep(action, self.events.event(changes), tuple(pairs), act)
        self.events.add(info, last, gate, is_allowed=is_allowed)

    def _act(self, builder: EventBuilder, level: int, me: Any, after: Any, step: Step) -> Any:
        """Add the change of the actor's local state; return the local state after the step."""
        core = after
        if after is not me:
            targets, after = self._targets(after, step)
            builder.assign(targets)
            core = self._variables.core(after)
        builder.replace(level, me, core)
        return after

    def _require(self, builder: EventBuilder, place: ReplicaAndChannel, read: HandlerRead, answer: Any) -> None:
        """Guard the event with the value that a read returned in this call."""
        if read.field is not None or read.member is not None:
            builder.require(self.dims.level_of(read), answer)
            return
        of_inbox = read.projection is not None and read.projection.of_inbox
        if read.replica == place.replica and not of_inbox:
            return  # the actor's own local state is required already
        for level, mapped in self.dims.of(read):
            if answer is None:
                builder.guard(level, mapped, None)
                break
            is_presence = of_inbox and self._variables.keys[level].kind == VariableKind.LOCAL
            builder.guard(level, mapped, True if is_presence else answer)

    def _send(self, builder: EventBuilder, place: ReplicaAndChannel, message: Any, step: Step) -> None:
        """Add the message operations of a step."""
        variables = self._variables
        if step.consumes:
            assert place.channel is not None
            builder.operate(place.channel, "discard", message)
        for operation, sent in step.sends:
            levels = variables.channels_to(sent.dest) if operation == "forget" else [variables.channel(sent)]
            if operation == "forget":
                variables.local(sent.dest)
            for level in levels:
                builder.operate(level, operation, sent)

    def _targets(self, after: Any, step: Step) -> tuple[dict[int, int], Any]:
        """Return new set memberships by level, and the local state `after` with set changes in place of its sets."""
        variables = self._variables
        sets = variables.sets_of(after)
        if after is not step.me or not isinstance(step, DeltaStep):
            changed = {name: SetChange(getattr(after, name), None) for name in sets}
        else:
            changed = dict(step.sets)
        targets = {}
        for name, change in changed.items():
            for element in {*sets[name], *change.added}:
                if element in change.added or change.removed is None or element in change.removed:
                    targets[variables.membership(after.id, name, element)] = int(element in change.added)
        return targets, variables.core(after, changed.items())

    def _bounds(self, changes: dict[int, VariableChange], step: Step) -> None:
        """Add to `changes` the effect of a step on each bound that it needs or spends."""
        for name in {*step.spends, *step.needs}:
            level = self._variables.bound(name)
            changes[level] = self._labels.change(EffectLabel(level, spends=step.spends.count(name)))

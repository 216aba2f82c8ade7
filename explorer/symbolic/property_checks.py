"""Evaluation of properties over sets of states, once for each distinct value of their reads; refinements on sets.

For a refinement a set is divided by abstract state, and the successors of each part are compared with it. A mapping is
called once for each combination of values of the parts of a state that it reads.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import permutations
from typing import Any, NamedTuple

from kraftcheck.explorer.calls.handlers import MissingRead
from kraftcheck.explorer.calls.inspection import WholeStateNeededError, split_property
from kraftcheck.explorer.calls.proxies import DeltaStep, SharedRecordProxy, StateProxy
from kraftcheck.explorer.symbolic.diagram_store import EMPTY_SET
from kraftcheck.explorer.symbolic.handler_cache import HandlerRead
from kraftcheck.explorer.symbolic.relations import (
    EDGES_BY_VALUE,
    IDENTITY_MAP,
    Combination,
    EffectLabel,
    Event,
    EventWithStep,
    LevelAndMap,
    VariableChange,
)
from kraftcheck.explorer.symbolic.state_space import StateSpace
from kraftcheck.explorer.symbolic.variables import LocalStateWithSetProxies, OpaqueSetRequired, VariableKind
from kraftcheck.spec.errors import InputError, RaisedError
from kraftcheck.spec.language.declarations import REACHABLE, REFINES, SPENT_PARAMETER, Property
from kraftcheck.spec.language.refinement import RefinementChecker
from kraftcheck.spec.language.semantics import Semantics, step_property_arguments
from kraftcheck.spec.language.state import Step
from kraftcheck.spec.values import Map, field_names, type_distinguishing_key

MOST_MAPPING_INPUTS = 100_000
"""Most distinct inputs of a mapping."""

VARIABLE_KINDS_OF_READS = {
    "replicas": (VariableKind.LOCAL, VariableKind.MEMBER),
    "inboxes": (VariableKind.CHANNEL,),
    "shared": (VariableKind.SHARED,),
    "spent": (VariableKind.BOUND,),
}
"""The kinds of variable of each part of a state."""

VectorOfValues = tuple[int, ...]


class RefinementEvaluator:
    """Evaluates one refinement on the sets of a state space."""

    def __init__(self, space: StateSpace, refinement: RefinementChecker) -> None:
        self._space, self._refinement = space, refinement
        self._read(())

    def _read(self, parts: tuple[str, ...]) -> None:
        """Set the parts of a state that the mapping reads."""
        self._parts, kinds = parts, [kind for part in parts for kind in VARIABLE_KINDS_OF_READS[part]]
        self._levels = [level for level, key in enumerate(self._space.variables.keys) if key.kind in kinds]
        self._projection: int | None = None
        if self._levels:
            self._projection = self._space.learning.watches.projection_of_values(self._levels)
        self._known: dict[VectorOfValues, int] = {}

    def violating(self, states: int) -> int:
        """Return the states of a set with an outgoing step that maps to no step of the abstract protocol."""
        space, store, bad = self._space, self._space.store, EMPTY_SET
        self._divided(store.union(states, store.union(space.successors(states), space.pruned(states))))  # learns all
        for number, vectors in self._divided(states).items():
            sources = self._with(states, vectors)
            targets = store.union(space.successors(sources), space.pruned(sources))
            wrong = EMPTY_SET
            for other, theirs in self._divided(targets).items():
                if not self._refinement.allows(number, other):
                    wrong = store.union(wrong, self._with(targets, theirs))
            for root in (*space.groups.roots(), *space.pruned_roots()) if wrong != EMPTY_SET else ():
                bad = store.union(bad, store.predecessors(sources, root, wrong))
        return bad

    def _divided(self, states: int) -> dict[int, list[VectorOfValues]]:
        """Return the inputs of the mapping in a set, by the number of the abstract state."""
        found: dict[int, list[VectorOfValues]] = {}
        while states != EMPTY_SET:
            parts, found = self._parts, defaultdict(list)
            for vector in self._inputs(states):
                number = self._number(states, vector)
                if self._parts != parts:
                    break
                found[number].append(vector)
            else:
                break
        return found

    def _inputs(self, states: int) -> list[VectorOfValues]:
        """Return the values, in a set, of the variables that the mapping reads."""
        store = self._space.store
        if self._projection is None:
            return [()]
        projected = store.project(states, self._projection)
        count = store.count(projected)
        if count > MOST_MAPPING_INPUTS:
            raise InputError(
                f"{self._refinement.prop.name} reads {', '.join(self._parts)}, with {count:,} combinations of values: "
                f"the engine symbolic evaluates at most {MOST_MAPPING_INPUTS:,}; expected --engine tables"
            )
        return list(store.vectors(projected, self._levels))

    def _with(self, states: int, vectors: list[VectorOfValues]) -> int:
        """Return the states of a set with one of some inputs."""
        if self._projection is None:
            return states
        kept = [[VariableChange(EDGES_BY_VALUE, value, value) for value in vector] for vector in vectors]
        return self._space.enabled(states, [tuple(zip(self._levels, changes, strict=True)) for changes in kept])

    def _number(self, states: int, vector: VectorOfValues) -> int:
        """Return the number of the abstract state of an input; note the parts that the mapping reads besides it."""
        if vector in self._known:
            return self._known[vector]
        variables, more = self._space.variables, dict[str, None]()
        state = variables.decode(self._space.store.one_of(self._with(states, [vector])))

        def read(name: str) -> Any:
            if name not in self._parts:
                more[name] = None
            return getattr(state, name)

        number = self._refinement.evaluated(StateProxy(read))
        if more:
            self._read((*self._parts, *more))
        else:
            self._known[vector] = number
        return number


MOST_WHOLE_STATES = 100_000
"""Most states on which a property that reads whole states is evaluated, one by one."""
MOST_OBSERVED_STATES, OBSERVATION_SECONDS = 10_000, 5.0
"""Limits, for each property in parts, on evaluations with its probe: each searches a state in the diagram."""


class PropertyBinding(NamedTuple):
    """The replicas and the channel for which a property is evaluated."""

    me: Any = None
    peer: Any = None
    channel: int | None = None


class StatePropertyEvaluator:
    """Evaluates state properties on sets of states."""

    def __init__(self, space: StateSpace, semantics: Semantics) -> None:
        self._space = space
        self._semantics = semantics
        self._parts: dict[Any, list[Property]] = {}
        self._observed: Counter[str] = Counter()
        self._observation_seconds: dict[str, float] = defaultdict(float)
        self._bad: dict[tuple[Any, PropertyBinding], list[Event]] = defaultdict(list)
        self._reads: dict[tuple[Any, PropertyBinding], tuple[LevelAndMap, ...]] = {}
        self._numbers: dict[tuple[Any, PropertyBinding, tuple[LevelAndMap, ...]], int] = {}

    def within(self, constraints: Iterable[Property], states: int) -> int:
        """Return the states of a set that satisfy all constraints."""
        for prop in constraints:
            states = self._space.store.difference(states, self.violating(prop, states))
        return states

    def violating(self, prop: Property, states: int) -> int:
        """Return the states of a set that violate a property."""
        if self.reads_whole_states(prop):
            return self._one_by_one(prop, states)
        found, store = EMPTY_SET, self._space.store
        try:
            for part in self._parts_of(prop):
                for binding in self._bindings(part):
                    bad = self._bad[part.key, binding]
                    bad += self._events(part, binding, states)
                    found = store.union(found, self._space.enabled(states, bad))
        except WholeStateNeededError:  # a part raised an error: the property may hold nevertheless
            self._parts[prop.key] = []
            return self._one_by_one(prop, states)
        return found

    def reads_whole_states(self, prop: Property) -> bool:
        """Whether a property reads whole states, and is not divided into parts that read less."""
        return any("state" in part.asks for part in self._parts_of(prop) or (prop,))

    def _parts_of(self, prop: Property) -> list[Property]:
        """Return the parts of a property over whole states; [] if they cannot be evaluated."""
        if prop.key not in self._parts:
            self._parts[prop.key] = split_property(prop, by_inbox=False)
        return self._parts[prop.key]

    def _one_by_one(self, prop: Property, states: int) -> int:
        store, variables = self._space.store, self._space.variables
        if prop.kind == REACHABLE and self._space.view.hidden:
            raise InputError(f"{prop.name} reads whole states, but the VIEW leaves out bounds; read no `state`")
        number = store.count(states)
        if number > MOST_WHOLE_STATES:
            raise InputError(
                f"{prop.name} reads whole states, and there are {number:,}: the engine symbolic evaluates it "
                f"on at most {MOST_WHOLE_STATES:,}; expected --engine tables, or --search bfs with smaller levels"
            )
        vectors = store.vectors(states, range(store.levels))
        return store.set_of([v for v in vectors if not self._semantics.holds(prop, variables.decode(v))])

    def _bindings(self, prop: Property) -> Iterator[PropertyBinding]:
        replicas = self._space.variables.layout.replicas
        pairs: Iterable[tuple[Any, Any]] = [(None, None)]
        if "peer" in prop.asks:
            pairs = permutations(replicas, 2)
        elif "me" in prop.asks:
            pairs = [(replica, None) for replica in replicas]
        channels = [level for level, key in enumerate(self._space.variables.keys) if key.kind == VariableKind.CHANNEL]
        for me, peer in pairs:
            for channel in channels if "message" in prop.asks else (None,):
                yield PropertyBinding(me, peer, channel)

    def _base(self, binding: PropertyBinding) -> dict[str, LevelAndMap]:
        """Return the diagram dimension that holds each parameter `me`, `peer` and `message` in a binding."""
        variables, base = self._space.variables, {}
        if binding.me is not None:
            base["me"] = (variables.local(binding.me), IDENTITY_MAP)
        if binding.peer is not None:
            base["peer"] = (variables.local(binding.peer), IDENTITY_MAP)
        if binding.channel is not None:
            known = self._space.labels.map(binding.channel, "known", variables.network.known)
            base["message"] = (binding.channel, known)
        return base

    def _spent(self, prop: Property) -> dict[str, LevelAndMap]:
        """Return the diagram dimension of each bound, by name; none if the property does not read spent bounds."""
        variables = self._space.variables
        bounds = variables.bounds if SPENT_PARAMETER in prop.asks else []
        return {name: (variables.bound(name), IDENTITY_MAP) for name in bounds}

    def _events(self, prop: Property, binding: PropertyBinding, states: int) -> Iterator[Event]:
        """Yield the combinations of read values that violate a property, as events without effect."""
        base, space = self._base(binding), self._space
        spent = self._spent(prop)
        # The property is evaluated on the set's projection onto the dimensions of its known reads. A read outside of
        # them raises MissingRead: its dimensions are added, and the set is projected again. `seen` holds the vectors of
        # earlier calls, so each vector is evaluated once in a search.
        while True:
            dims = tuple(dict.fromkeys((*base.values(), *spent.values(), *self._reads.get((prop.key, binding), ()))))
            try:
                if not dims:
                    if not self._holds(prop, base, {}):
                        yield ()
                    return
                key = (prop.key, binding, dims)
                if key not in self._numbers:
                    self._numbers[key] = space.learning.watches.projection(sorted(dims))
                number = self._numbers[key]
                seen = space.store.arrays.watch_known
                projected = space.store.project(states, number)
                new = space.store.difference(projected, int(seen[number]))
                bad, evaluated = list[Combination](), list[Combination]()

                def look(
                    found: Combination, bad: list[Combination] = bad, evaluated: list[Combination] = evaluated
                ) -> None:
                    if not self._holds(prop, base, found):
                        bad.append(found)
                    if prop.whole is not None and len(evaluated) <= MOST_OBSERVED_STATES:
                        evaluated.append(found)

                space.learning.watches.each(number, tuple(sorted(dims)), new, look)
                self._observe(prop, states, evaluated)
                seen[number] = space.store.union(int(seen[number]), projected)
                yield from (self._guards(found) for found in bad)
                return
            except MissingRead as missing:
                known = self._reads.get((prop.key, binding), ())
                more = space.learning.dims.more(missing.read, known)
                self._reads[prop.key, binding] = tuple(dict.fromkeys((*known, *more)))

    def _observe(self, part: Property, states: int, evaluated: list[Combination]) -> None:
        """Let the probe of a part's property evaluate it on a state with each of some inputs."""
        space, probes = self._space, self._semantics.protocol.probes
        for found in evaluated:
            probe = probes.get(part.name)
            if probe is None or not probe.never():
                break
            began, seconds = time.perf_counter(), self._observation_seconds
            self._observed[part.name] += 1
            if self._observed[part.name] > MOST_OBSERVED_STATES or seconds[part.name] > OBSERVATION_SECONDS:
                del probes[part.name]  # its coverage is unknown
                break
            state = space.variables.decode(space.store.one_of(space.enabled(states, [self._guards(found)])))
            self._semantics.holds(part.whole, state)
            seconds[part.name] += time.perf_counter() - began

    def _holds(self, prop: Property, base: dict[str, LevelAndMap], found: Combination) -> bool:
        labels, learning = self._space.labels, self._space.learning
        given: dict[str, Any] = {}
        ask = partial(learning.dims.answer, found=found)
        for name, dim in base.items():
            held = labels.meaning(*dim, found[dim])
            if held is None or not isinstance(held, prop.kinds(name)):
                return True
            given[name] = held if name == "message" else self._apart(held, ask)
        spent = {name: labels.meaning(*dim, found[dim]) for name, dim in self._spent(prop).items()}
        given[SPENT_PARAMETER] = Map(spent)
        for projection in prop.reads:
            if projection.name in prop.asks:
                replicas = self._space.variables.layout.in_order
                answers = {replica: ask(HandlerRead(None, projection, replica)) for replica in replicas}
                given[projection.name] = Map((replica, one[0]) for replica, one in answers.items() if one is not None)
        given["shared"] = SharedRecordProxy(self._space.variables.shared_type, lambda name: ask(HandlerRead(name)))
        return learning.calls.holds(prop, given)

    def _apart(self, core: Any, ask: Callable[[HandlerRead], Any]) -> Any:
        """Return the local state `core` with proxies that pass each read of its exploded sets to `ask`."""
        sets = self._space.variables.sets(core.id)
        if not sets:
            return core
        return LocalStateWithSetProxies(core, sets, lambda *part: ask(HandlerRead(None, None, core.id, part))).me

    def _guards(self, found: Combination) -> Event:
        guards: dict[int, list[LevelAndMap]] = defaultdict(list)
        for (level, mapped), number in found.items():
            guards[level].append((mapped, number))
        change = self._space.labels.change
        return tuple((level, change(EffectLabel(level, tuple(some)))) for level, some in sorted(guards.items()))


class StepPropertyProgress(NamedTuple):
    """Verdicts of a step property: violating events, events to evaluate for each set, and the number of events seen."""

    bad: list[Event]
    waiting: list[EventWithStep]
    number: int


class StepPropertyEvaluator:
    """Evaluates step properties on the learned events."""

    def __init__(self, space: StateSpace, semantics: Semantics, *, is_asked_again: bool) -> None:
        self._space = space
        self._semantics = semantics
        self._mapped: dict[str, RefinementEvaluator] = {}
        self._is_asked_again = is_asked_again
        self._verdicts: dict[Any, bool] = {}
        self._cores: dict[int, Step] = {}  # by the id of a learned step; learned steps are never freed
        self._states = EMPTY_SET, 0  # a set, and the garbage collection after which it has this node number
        self._numbers: dict[tuple[int, ...], int] = {}
        self._judged: dict[str, StepPropertyProgress] = {}
        self._is_settled = True  # whether the verdict on the current event holds for every set
        self._found: dict[tuple[int, ...], dict[tuple[int, ...], list[int]]] = {}

    def violating(self, prop: Property, states: int) -> int:
        """Return the states of a set with an outgoing step that violates a property."""
        if prop.kind == REFINES:
            if prop.name not in self._mapped:
                self._mapped[prop.name] = RefinementEvaluator(self._space, self._semantics.refinement(prop))
            return self._mapped[prop.name].violating(states)
        if (states, self._space.store.collections) != self._states:
            self._states, self._found = (states, self._space.store.collections), {}
        judged = self._judged.setdefault(prop.name, StepPropertyProgress([], [], 0))
        taken = self._space.learning.events.infos
        events, waiting = list[Event](), list[EventWithStep]()
        for one in (*judged.waiting, *taken[judged.number :]):
            self._is_settled = True
            bad = list(self._bad(prop, one))
            (judged.bad if self._is_settled else events).extend(bad)
            if not self._is_settled:
                waiting.append(one)
        events = judged.bad + events
        self._judged[prop.name] = StepPropertyProgress(judged.bad, waiting, len(taken))
        return self._space.enabled(states, events)

    def _bad(self, prop: Property, taken: EventWithStep) -> Iterator[Event]:
        """Yield the event of the step `taken`, restricted to the cases in which it violates a property."""
        changes = dict(taken.event)
        if prop.of_actor:
            known = self._act_of(prop, *taken.act) if taken.act is not None else None
            if known is not None:
                yield from self._cases(prop, known, changes, {})
            return
        kinds, kinds_after, variables = prop.kinds("before"), prop.kinds("after"), self._space.variables
        for level, before, after in taken.pairs:
            if not isinstance(after, kinds_after):
                continue
            for old in [before] if before is not None else list(variables.values[level][1:]):
                if old == after or not isinstance(old, kinds):
                    continue
                case = changes[level]
                if before is None:
                    self._is_settled = False  # later values need a verdict too
                    number = variables.number(level, old)
                    target = self._space.labels.apply(case.key, number)
                    if target < 0:
                        continue
                    case = VariableChange(EDGES_BY_VALUE, number, target)
                yield from self._cases(prop, {"before": old, "after": after}, changes | {level: case}, {})

    def _cases(
        self, prop: Property, known: dict[str, Any], changes: dict[int, VariableChange], fields: dict[str, Any]
    ) -> Iterator[Event]:
        """Yield an event once for each combination of shared field values with which the event violates a property.

        Combinations that no state has, together with the actor's local state, are skipped.
        """
        try:
            if not self._holds(prop, known, fields):
                self._require_change(known)
                yield tuple(sorted(changes.items()))
        except MissingRead as missing:
            self._is_settled = False  # other sets may combine other values
            name = missing.read.field
            level = self._space.variables.shared(name)
            there = changes.get(level)
            for number in self._values_with(level, changes, fields):
                case = VariableChange(EDGES_BY_VALUE, number, number)
                if there is not None and there.how == EDGES_BY_VALUE:
                    if there.key != number:
                        continue
                    case = there
                value = self._space.variables.values[level][number]
                yield from self._cases(prop, known, changes | {level: case}, fields | {name: value})

    def _holds(self, prop: Property, known: dict[str, Any], fields: dict[str, Any]) -> bool:
        """Whether a property holds of a step, given the values of some shared fields."""

        def read(name: str) -> Any:
            if name not in fields:
                raise MissingRead(HandlerRead(name))
            return fields[name]

        key = (
            prop.name,
            *[known[name] for name in prop.asks if name in known],
            *map(type_distinguishing_key, fields.items()),
        )
        verdict = self._verdicts.get(key) if self._is_asked_again else None
        if verdict is None:
            variables = self._space.variables
            given = {name: variables.guarded(value) for name, value in known.items()}
            given["shared"] = SharedRecordProxy(variables.shared_type, read)
            try:
                verdict = self._space.learning.calls.holds(prop, given)
            except RaisedError:  # perhaps of no step that a state enables; else the counterexample's search raises it
                verdict = False
            if self._is_asked_again:
                self._verdicts[key] = verdict
        return verdict

    def _values_with(self, level: int, changes: dict[int, VariableChange], fields: dict[str, Any]) -> list[int]:
        """Return a shared field's values in the states that agree with `fields` and the local states in `changes`."""
        variables = self._space.variables
        by_value = [(at, change.key) for at, change in changes.items() if change.how == EDGES_BY_VALUE]
        held = [(at, number) for at, number in by_value if variables.keys[at].kind == VariableKind.LOCAL]
        for one, value in fields.items():
            held.append((variables.shared(one), variables.number(variables.shared(one), value)))
        levels, numbers = tuple(at for at, _ in held), tuple(number for _, number in held)
        return self._together((*levels, level)).get(numbers, [])

    def _together(self, levels: tuple[int, ...]) -> dict[tuple[int, ...], list[int]]:
        """Map each combination of values at the other levels to the values that occur with it at the last level."""
        found = self._found.get(levels)
        if found is None:
            store, order = self._space.store, sorted(levels)
            if levels not in self._numbers:
                self._numbers[levels] = self._space.learning.watches.projection_of_values(order)
            found = self._found[levels] = defaultdict(list)
            for vector in store.vectors(store.project(self._states[0], self._numbers[levels]), order):
                *others, last = (vector[order.index(level)] for level in levels)
                found[tuple(others)].append(last)
        return found

    def _act_of(self, prop: Property, me: Any, message: Any, step: Step) -> dict[str, Any] | None:
        """Return the arguments of a step property about the actor, with placeholders for exploded sets; may be None."""
        core = self._cores.get(id(step))
        if core is None:
            changed = step.sets if isinstance(step, DeltaStep) else ()
            me_after = step.me if step.me == () else self._space.variables.core(step.me, changed)
            parts = {name: getattr(step, name) for name in field_names(Step) if name != "me"}
            core = self._cores[id(step)] = Step(me_after, **parts)
        return step_property_arguments(prop, me, message, core)

    def _require_change(self, known: dict[str, Any]) -> None:
        """Raise OpaqueSetRequired if a step may change its replica only in exploded sets."""
        before, after, variables = known.get("before"), known.get("after"), self._space.variables
        fields = variables.layout.fields(after.id) if after is not None else ()
        if fields and before != after and variables.core(before) == variables.core(after):
            raise OpaqueSetRequired(fields[0])

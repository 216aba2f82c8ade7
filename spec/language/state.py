"""Global states, the steps that actions yield, and a memo of values that keeps nothing where inputs hardly repeat.

A step has the acting replica's next state, the consumed message, and the messages sent. It may also write shared fields
and other replicas, create replicas, and spend bounds. It is enabled only if all its parts are: see
`kraftcheck.spec.language.semantics`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, combinations, permutations, product
from typing import TYPE_CHECKING, Any, ClassVar

from kraftcheck.spec.values import (
    Map,
    ModelValue,
    Record,
    Value,
    field_values,
    map_model_values,
    same_types,
    type_distinguishing_key,
)


class State(Record):
    """A global state: replicas, inboxes, shared state, and used bounds.

    Attributes
    ----------
    replicas
        From a replica's id to its local state.
    inboxes
        From a destination's id to its inbox; empty inboxes are omitted.
    shared
        The shared state, a record.
    spent
        From a bound's name to its used part.
    """

    _is_exact: ClassVar[bool] = True
    replicas: Map[Any, Any]
    inboxes: Map[Any, Any]
    shared: Any
    spent: Map[str, int]


def make_state(replicas: Map[Any, Any], inboxes: Map[Any, Any], shared: Any, spent: Map[str, int]) -> State:
    """Return a state, as `State` does, in a third of its time."""
    made = object.__new__(State)
    known = made.__dict__
    known["replicas"], known["inboxes"], known["shared"], known["spent"] = replicas, inboxes, shared, spent
    return made


class Nothing(Record):
    """The shared state of a protocol without one."""


NOTHING = Nothing()

NON_SENDING_OPERATIONS = ("forget", "lose", "duplicate")
"""Operations on messages in flight, which send nothing."""
MAX_COMPARED_STEPS = 4
"""Most steps of a call that are compared with each other instead of hashed."""


class Step(Record):
    """One outcome of an action, built by chaining.

    Begin with `become`, `consume` or `Step()` and add to it: every method returns a new step.

    Attributes
    ----------
    me
        The acting replica's next state; the empty tuple if it does not change.
    consumes
        Whether the delivered message is removed from the network.
    sends
        Pairs (operation, message), with the operations of the network's discipline.
    puts
        Pairs (shared field, value).
    writes
        Next states of other replicas; a replica with a new id is created.
    spends
        Names of bounds to use once; repeat a name to use a bound several times.
    needs
        Names of bounds that must not be exhausted; the step does not use them.
    """

    me: Any = ()
    consumes: bool = False
    sends: tuple[tuple[str, Any], ...] = ()
    puts: tuple[tuple[str, Any], ...] = ()
    writes: tuple[Any, ...] = ()
    spends: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()

    @property
    def sent(self) -> tuple[Any, ...]:
        """The messages that the step sends, by any operation."""
        return tuple(message for operation, message in self.sends if operation not in NON_SENDING_OPERATIONS)

    def send(self, *messages: Record) -> Step:
        """Send messages by the network discipline's rule for their types."""
        return self.but(sends=self.sends + tuple(("send", message) for message in messages))

    def send_once(self, *messages: Record) -> Step:
        """Send messages; the whole step is disabled if one of them was sent before."""
        return self.but(sends=self.sends + tuple(("send_once", message) for message in messages))

    def reply(self, response: Record) -> Step:
        """Consume the delivered message and send a response, by the discipline's rule for replies."""
        return self.but(consumes=True, sends=(*self.sends, ("reply", response)))

    def forget(self, *groups: Record) -> Step:
        """Remove message groups from the network, as its discipline defines them."""
        return self.but(sends=self.sends + tuple(("forget", group) for group in groups))

    def lose(self, *messages: Record) -> Step:
        """Lose messages in flight, as the network's `loses=` does; the step may have more effects."""
        return self.but(sends=self.sends + tuple(("lose", message) for message in messages))

    def duplicate(self, *messages: Record) -> Step:
        """Duplicate messages in flight, as the network's `duplicates=` does; the step may have more effects."""
        return self.but(sends=self.sends + tuple(("duplicate", message) for message in messages))

    def put(self, **fields: Value) -> Step:
        """Write shared fields; of two values for one field, the second counts."""
        kept = tuple(one for one in self.puts if one[0] not in fields)
        return self.but(puts=kept + tuple(sorted(fields.items())))

    def write(self, *replicas: Record) -> Step:
        """Write the next states of other replicas, or create replicas."""
        return self.but(writes=self.writes + replicas)

    def spend(self, *bounds: str) -> Step:
        """Use each named bound once; the step is disabled if one is exhausted."""
        return self.but(spends=self.spends + bounds)

    def need(self, *bounds: str) -> Step:
        """Require that no named bound is exhausted, without using it."""
        return self.but(needs=self.needs + bounds)

    if not TYPE_CHECKING:  # else type checkers would accept any method

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                return super().__getattr__(name)
            known = ", ".join(method for method, what in vars(Step).items() if method[0] != "_" and callable(what))
            raise AttributeError(f"a step has no method {name!r}; its methods are {known}")


Steps = Iterator[Step]


def become(me: Record) -> Step:
    """Return the step to the acting replica's next state `me`; a delivered message stays in flight."""
    return Step(me=me)


def consume(me: Record) -> Step:
    """Return the step to the acting replica's next state `me` that consumes the delivered message."""
    return Step(me=me, consumes=True)


def record_largest_bound_use(steps: Iterable[Step], most: dict[str, int]) -> None:
    """Record in `most` the largest number of times that a single step spends each bound, if more than once."""
    for step in steps:
        if len(step.spends) > 1:
            for name in step.spends:
                most[name] = max(most.get(name, 1), step.spends.count(name))


def note_replica_types(replicas: Iterable[Any], types: dict[Value, set[type]]) -> None:
    """Add the type of each replica to the set of types of its id in `types`."""
    for replica in replicas:
        types.setdefault(replica.id, set()).add(type(replica))


def distinct_steps(steps: list[Step]) -> tuple[Step, ...]:
    """Return the distinct steps in order. A comparison of few steps takes less time than hashes of their values."""
    if len(steps) < 2:
        return tuple(steps)
    if len(steps) <= MAX_COMPARED_STEPS and not any(
        one == other for one, other in combinations(map(field_values, steps), 2)
    ):
        return tuple(steps)
    return tuple(dict.fromkeys(steps))


def step_fits_unused_bounds(step: Step, bounds: Mapping[str, int]) -> bool:
    """Return whether a step fits within the bounds in a state that has used none of them."""
    if not step.spends and not step.needs:
        return True
    is_there = all(bounds[name] for name in step.needs)
    return is_there and not any(step.spends.count(name) > bounds[name] for name in step.spends)


Permutation = dict[Value, Value]


def permutation_group(sets: tuple[tuple[Value, ...], ...]) -> list[Permutation]:
    """Return every permutation that permutes the values of each set among themselves, the identity first."""
    group = []
    for chosen in product(*[permutations(values) for values in sets]):
        pairs = [zip(values, images, strict=True) for values, images in zip(sets, chosen, strict=True)]
        group.append(dict(chain.from_iterable(pairs)))
    return group


def permute_model_values(value: Value, permutation: Permutation) -> Value:
    """Return a value with its model values permuted."""

    def leaf(item: ModelValue) -> Value:
        return permutation.get(item, item)

    return map_model_values(value, leaf)


MEMO_CHECK_INTERVAL = 1 << 13
"""Outcomes that a memo adds between two checks of its use."""


class SelfDisablingMemo(dict[Any, Any]):
    """Outcomes by input, or interned values. It empties itself, and keeps no more, where inputs hardly repeat."""

    __slots__ = ("hits", "is_useless")

    def __init__(self) -> None:
        self.hits = 0
        self.is_useless = False

    def keep(self, key: Value, outcome: Value) -> None:
        """Add an outcome, unless fewer than an eighth of the last lookups were hits."""
        if self.is_useless:
            return
        self[key] = outcome
        if len(self) % MEMO_CHECK_INTERVAL == 0:
            self._judge()

    def _judge(self) -> None:
        self.is_useless = self.hits < MEMO_CHECK_INTERVAL // 8
        self.hits = 0
        if self.is_useless:
            self.clear()

    def intern(self, value: Value) -> Value:
        """Return the interned object of a value."""
        if self.is_useless:
            return value
        found = self.setdefault(value, value)
        if found is not value:
            self.hits += 1
            return found if same_types(found, value) else value  # 1 and True are equal keys
        if len(self) % MEMO_CHECK_INTERVAL == 0:
            self._judge()
        return value


class InternedFieldValues(SelfDisablingMemo):
    """Interned values of a field. A sequence mostly grows at its end, so its last record is interned too."""

    __slots__ = ("_ends",)

    def __init__(self) -> None:
        super().__init__()
        self._ends = SelfDisablingMemo()

    def intern(self, value: Value) -> Value:
        """Return the interned object of a value."""
        if type(value) is tuple and value and isinstance(value[-1], Record):
            last = self._ends.intern(value[-1])
            if last is not value[-1]:
                value = (*value[:-1], last)
        return super().intern(value)


class ProjectedValues(dict[tuple[str, Value], Value]):
    """The values of projections, by name and source."""

    def __init__(self) -> None:
        self.alike: set[str] = set()  # projections with values that are equal and distinct, as 1 and True are

    def keyed(self, names: Iterable[str], given: Mapping[str, Value]) -> list[Value]:
        """Return the arguments with some names, as keys of a memo."""
        if self.alike:
            return [type_distinguishing_key(given[name]) if name in self.alike else given[name] for name in names]
        return [given[name] for name in names]

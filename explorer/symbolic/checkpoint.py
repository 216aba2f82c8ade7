"""Saves and restores a search by sets: its variables with their values, and the diagrams of what it has found.

A checkpoint may come from strangers, with digests of their own, so the diagrams must be well formed. Sets of few states
are searched again as a whole; of large ones some levels, or some states, are.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from io import BytesIO
from random import SystemRandom
from typing import Any, NamedTuple
from zipfile import ZIP_STORED, ZipFile

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.checkpoint import SearchCheckpoint, folder_of
from kraftcheck.explorer.result import Search, SearchRequest, Violation
from kraftcheck.explorer.symbolic.checks import StateChecks
from kraftcheck.explorer.symbolic.exploded_sets import OpaqueSetRequired
from kraftcheck.explorer.symbolic.search import Space
from kraftcheck.explorer.symbolic.store import EMPTY, KEPT, UNIT, NoRoom, Store
from kraftcheck.explorer.symbolic.variables import CHANNEL, LOCAL, SHARED, Key, Layout, Rearranged, Variables
from kraftcheck.files import replacing
from kraftcheck.persistence.growing_file import DIGEST_BYTES
from kraftcheck.persistence.validation import mixed, reading, require, require_distinct
from kraftcheck.spec.encoding import decode, encode
from kraftcheck.spec.kinds import fits
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import Record, Value, field_types, text_of

SHAPE = {
    "sets": {str: int},
    "file": str,
    "number": int,
    "digest": str,
    "seconds": float,
}
"""The form of what a manifest notes: see `require_shape`."""


SATURATION = "saturation"

WHOLE = 50_000  # states that are searched again as a whole
LEVELS, STATES = 3, 32  # of a larger search by levels, and of another one
LOW = (1 << 32) - 1

Sets = Mapping[str, int]
Violated = Callable[[int, int], Mapping[str, int]]


class Found(NamedTuple):
    """What a search had found."""

    replicas: tuple[Value, ...]  # what the variables are for, in their order
    senders: tuple[Value, ...]
    # the sets that are taken apart: replica, field, and all elements that they may have
    parts: tuple[tuple[Value, str, tuple[Value, ...]], ...]
    whole: tuple[str, ...]  # the fields of which sets must not be
    order: tuple[tuple[Value, ...], ...]  # the variables in an order that was chosen, or none
    values: tuple[tuple[Value, ...], ...]  # by level: the values by number, without those that are always there
    nodes: NDArray[np.int64]  # the diagrams
    edges: NDArray[np.int64]
    sets: dict[str, int]  # the sets by name
    violations: list[Violation]  # what is violated
    seconds: float  # time it took

    def arrange(self, layout: Layout) -> None:
        """Give a layout the variables that there were."""
        layout.replicas, layout.senders, layout.whole = list(self.replicas), list(self.senders), set(self.whole)
        layout.parts = {(replica, field): list(elements) for replica, field, elements in self.parts}
        layout.order = tuple(Key(*key) for key in self.order)


def _fits(key: Key, value: Any, variables: Variables) -> bool:
    """Whether a value is such as a variable may have."""
    if key.kind == LOCAL:
        return isinstance(value, Record) and fits(value, type(value)) and value.id == key.of  # type: ignore[attr-defined]
    if key.kind == SHARED:
        return fits(value, field_types(variables.shared_type)[str(key.of)])
    messages = variables.network.known(value) if key.kind == CHANNEL else ()
    return bool(messages) and all(
        fits(message, type(message)) and message.dest == key.of  # type: ignore[attr-defined]
        for message in messages
    )


class SetsCheckpoint(SearchCheckpoint):
    """The checkpoint of a search by sets."""

    def __init__(self, protocol: Protocol, options: SearchRequest, starts: Sequence[State]) -> None:
        folder = folder_of(options)
        assert folder is not None
        super().__init__(folder, protocol, options, starts, engine="symbolic")
        self._last, self._took = -math.inf, 0.0
        self._number = 0
        self.found: Found | None = None
        if options.resume is not None:
            with self.closed_on_error(), self.rejecting():
                self.found = self._read()

    def is_due(self, least: float = 0.0) -> bool:
        """Return whether it is time for a checkpoint; writing takes a tenth of the time at most."""
        return time.monotonic() - self._last >= max(self.options.checkpoint_every, 9 * self._took, least)

    def save(
        self,
        variables: Variables,
        store: Store,
        violations: list[Violation],
        seconds: float,
        *,
        finished: bool = False,
    ) -> None:
        """Write a checkpoint of the sets whose names begin with `KEPT`."""
        began = time.monotonic()
        sets = {name.removeprefix(KEPT): node for name, node in store.roots.items() if name.startswith(KEPT)}
        nodes, edges, roots = store.dump(list(sets.values()))
        layout, skip = variables.layout, [len(variables.standard(level)) for level in range(len(variables.keys))]
        values = tuple(tuple(some[first:]) for some, first in zip(variables.values, skip, strict=True))
        parts = tuple((replica, field, tuple(elements)) for (replica, field), elements in layout.parts.items())
        if parts:
            values = tuple(tuple(map(variables.emptied, some)) for some in values)
        whole = tuple(sorted(layout.whole))
        order = tuple(map(tuple, layout.order))
        held: Value = (tuple(layout.replicas), tuple(layout.senders), parts, whole, order, values)
        self.note(held)
        file = BytesIO()
        np.savez(file, values=np.frombuffer(encode(held), np.uint8), nodes=nodes, edges=edges)
        self._number += 1
        name = f"sets-{self._number}.npz"
        with self.writing(), replacing(self.path / name, durable=True) as new:
            new.write_bytes(file.getvalue())
        noted = {
            "sets": dict(zip(sets, roots, strict=True)),
            "file": name,
            "number": self._number,
            "digest": blake2b(file.getvalue(), digest_size=DIGEST_BYTES).hexdigest(),
            "seconds": seconds,
        }
        # Other searches find violations again, with behaviours to them. Theirs may be a state that is not a first one.
        self.save_search(noted, violations if self.options.search == Search.BFS else [], finished=finished)
        for old in self.path.glob("sets-*.npz"):
            if old.name != name:
                old.unlink()
        self._last = time.monotonic()
        self._took = self._last - began

    def _read(self) -> Found:
        noted, violations = self.read_search(SHAPE)
        require(self.options.search == Search.BFS or not violations, "a violation that is found again")
        self._number = noted["number"]
        name = f"sets-{self._number}.npz"
        path = self.path / name
        require(noted["file"] == name and path.is_file(), f"{path}: it is missing")
        data = path.read_bytes()
        digest = blake2b(data, digest_size=DIGEST_BYTES).hexdigest()
        require(digest == noted["digest"], f"{path}: its content has changed: its digest is not the one noted")
        with reading(str(path)):  # NumPy raises many kinds
            with ZipFile(BytesIO(data)) as file:
                require([one.compress_type == ZIP_STORED for one in file.infolist()], f"{path}: it is packed")
            arrays = np.load(BytesIO(data))
            held: Any = decode(arrays["values"].tobytes(), self.lexicon)
            replicas, senders, parts, whole, order, values = held
            more = (arrays["nodes"], arrays["edges"], noted["sets"], violations, noted["seconds"])
            found = Found(replicas, senders, parts, whole, order, values, *more)
            found.arrange(Layout(self.protocol, whole_inboxes=True))
        return found

    def restore(self, variables: Variables, store: Store) -> None:
        """Give variables and a store that have nothing yet what was found."""
        assert self.found is not None
        others = (NoRoom, Rearranged, OpaqueSetRequired)
        with self.rejecting(), reading("a value that the protocol does not have", *others):
            self._restore(self.found, variables, store)

    def _restore(self, found: Found, variables: Variables, store: Store) -> None:
        require(len(found.values) == len(variables.keys), "it has other variables")
        for level, values in enumerate(found.values):
            key, first = variables.keys[level], len(variables.standard(level))
            for value in values:
                require(_fits(key, value, variables), f"{text_of(value)} as a value of {variables.name(level)}")
                variables.number(level, variables.core(value) if key.kind == LOCAL else value)
            require(len(variables.values[level]) == first + len(values), "two values are equal")
        require_diagrams(found.nodes, found.edges, [len(values) for values in variables.values], found.sets)
        store.load(found.nodes, found.edges)
        store.roots.update({KEPT + name: node for name, node in found.sets.items()})

    def require_same(self, space: Space, checks: StateChecks, violated: Violated) -> None:
        """Search again, and raise InputError where the checkpoint has something else."""
        assert self.found is not None
        options, sets = self.options, space.kept()
        noted = {one.property for one in self.found.violations}
        again = SetsValidator(space, checks, options.constraints, violated, noted)
        with self.rejecting():
            if options.search == Search.BFS:
                again.require_levels(sets)
            else:
                again.require_reached(sets, has_beyond=options.search != SATURATION or bool(options.constraints))


def require_diagrams(nodes: NDArray[np.int64], edges: NDArray[np.int64], values: list[int], roots: Sets) -> None:
    """Require that diagrams are in their canonical form."""
    require(nodes.dtype == np.int64 and nodes.shape == (len(nodes), 2), "its nodes are no pairs of numbers")
    require(edges.dtype == np.int64 and edges.ndim == 1, "its edges are no numbers")
    require([root < len(nodes) + 2 for root in roots.values()], "a set that is no node")
    levels, counts = nodes[:, 1] >> 32, nodes[:, 1] & LOW
    require((levels >= 0) & (levels < len(values)), "a node of an unknown level")
    require((counts > 0) & (counts <= len(edges)), "a node with a wrong number of edges")
    require(nodes[:, 0] == np.cumsum(counts) - counts, "the edges of a node are not behind those of the one before")
    require(counts.sum() == len(edges), f"expected {counts.sum()} edges, found {len(edges)}")
    of = np.repeat(np.arange(len(nodes)), counts)
    number, child = edges >> 32, edges & LOW
    require((number >= 0) & (number < np.array([*values, 0])[levels[of]]), "an edge with an unknown value")
    require((child > 0) & (child < of + 2), "an edge that leads to no earlier node")
    require(np.array([0, len(values), *levels.tolist()])[child] > levels[of], "an edge that leads to no lower level")
    require((np.diff(number) > 0) | (np.diff(of) > 0), "the edges of a node are not in order")
    require((counts > 1) | (number[nodes[:, 0]] > 0), "a node that is superfluous")
    if len(nodes):
        sums = np.add.reduceat(mixed(edges.astype(np.uint64)), nodes[:, 0])
        require_distinct(sums + mixed(levels.astype(np.uint64)), "nodes")


class SetsValidator:
    """Searches a checkpoint again, or part of it, and compares the sets."""

    def __init__(
        self, space: Space, checks: StateChecks, constraints: tuple[Property, ...], violated: Violated, noted: set[str]
    ) -> None:
        self._space = space
        self._store = space.store
        self._checks, self._constraints = checks, constraints
        self._violated = violated
        self._noted = noted
        self._random = SystemRandom()  # whoever forges a checkpoint must not know the sample

    def require_levels(self, sets: Sets) -> None:
        """Require of a breadth-first search that each level follows from the one before."""
        names = ("new", "pruned", "reached", "known", "expanded")
        levels = list(sets.values())[len(names) :]
        require([*sets] == [*names, *map(str, range(len(levels)))], "it has sets of another search")
        if self._store.count(sets["known"]) <= WHOLE:
            found = self._levels_again(levels)
            require([sets[name] for name in names] == found, "its last level does not follow from those before")
            return
        reached = EMPTY
        for level in levels:
            reached = self._store.union(reached, self._space.view.of(level))
        require([sets["reached"], sets["expanded"]] == [reached] * 2, "its levels are not the states that are reached")
        known = self._store.union(sets["known"], self._space.view.of(sets["new"]))
        for number in self._random.sample(range(len(levels) - 1), min(LEVELS, len(levels) - 1)):
            successors = self._successors(levels[number])
            require(self._space.view.without(successors, known) == EMPTY, f"successors of level {number} are missing")
            extra = self._store.difference(levels[number + 1], successors)
            require(extra == EMPTY, f"states of level {number + 1} do not follow from level {number}")
            self._require_noted(levels[number], EMPTY)

    def _levels_again(self, levels: list[int]) -> list[int]:
        """Search all levels again; return the sets that a checkpoint then has besides."""
        store, view = self._store, self._space.view
        new, pruned, reached, known, judged = self._space.start, EMPTY, EMPTY, EMPTY, EMPTY
        for number, level in enumerate(levels):
            require(level == self._within(new), f"level {number} does not follow from those before")
            judged = store.union(judged, store.union(new, pruned))
            known, reached = store.union(known, view.of(new)), store.union(reached, view.of(level))
            new = view.without(self._successors(level), known)
            pruned = view.without(self._space.pruned(level), known)
            self._require_noted(level, judged)
        return [new, pruned, reached, known, reached]

    def require_reached(self, sets: Sets, *, has_beyond: bool) -> None:
        """Require that each state of another search follows from others of it."""
        store, reached, beyond = self._store, sets.get("reached", EMPTY), sets.get("beyond", EMPTY)
        require([*sets] == ["reached", "beyond"][: 1 + has_beyond], "it has sets of another search")
        within = [self._within(reached), self._within(beyond)]
        require(within == [reached, EMPTY], "its sets are not divided by the constraints")
        if store.count(reached) + store.count(beyond) > WHOLE:
            self._space.learn(reached)
            for _ in range(STATES):
                self._require_predecessor(store.set_of([self._any_of(reached)]), reached)
            return
        found, before, whole = store.intersection(self._space.start, reached), EMPTY, store.union(reached, beyond)
        while found != before:
            before = found
            self._learn(self._within(found))
            for root in self._space.groups.roots():
                found = store.union(found, store.intersection(store.successors(self._within(found), root), whole))
        found = store.union(found, store.intersection(self._space.start, beyond))
        require(found == whole, "it has states that are not reached")

    def _require_predecessor(self, state: int, reached: int) -> None:
        store, roots = self._store, self._space.groups.roots()
        is_start = store.difference(state, self._space.start) == EMPTY
        is_next = any(store.predecessors(reached, root, state) != EMPTY for root in roots)
        require(is_start or is_next, "it has a state that does not follow from others")

    def _any_of(self, states: int) -> list[int]:
        """Return a vector of a set, chosen at random."""
        vector = [0] * self._store.levels
        while states != UNIT:
            level, edges = self._store.edges(states)
            vector[level], states = self._random.choice(edges)
        return vector

    def _within(self, states: int) -> int:
        return self._checks.within(self._constraints, states)

    def _successors(self, states: int) -> int:
        self._learn(states)
        return self._space.successors(states)

    def _learn(self, states: int) -> None:
        self._space.learn(states)
        self._store.forget_products()

    def _require_noted(self, expanded: int, more: int) -> None:
        new = self._violated(expanded, more).keys() - self._noted
        require(not new, f"a violation of {', '.join(sorted(new))} is not noted")

"""Checkpoints of the symbolic engine: variables with their values, and the diagrams found so far.

A checkpoint is untrusted input with digests of its own, so its diagrams must be checked for canonical form. A search of
few states is repeated in full; of a larger one, random levels or states are checked.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from random import SystemRandom
from typing import Any, NamedTuple, Self
from zipfile import ZIP_STORED, ZipFile

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.checkpoint import SearchCheckpoint, checkpoint_folder_of
from kraftcheck.explorer.result import Search, SearchRequest, Violation
from kraftcheck.explorer.symbolic.diagram_store import EMPTY_SET, OutOfNodes
from kraftcheck.explorer.symbolic.state_space import StateSpace
from kraftcheck.explorer.symbolic.variables import (
    LayoutChanged,
    OpaqueSetRequired,
    VariableKey,
    VariableKind,
    VariableLayout,
)
from kraftcheck.explorer.symbolic.violations import ViolationFinder
from kraftcheck.files import atomic_replacement
from kraftcheck.persistence.stored_files import (
    DIGEST_BYTES,
    errors_as_corrupt_file,
    hash_each_number,
    require_condition,
    require_distinct_hashes,
)
from kraftcheck.spec.encoding import decode, encode
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.state import State
from kraftcheck.spec.type_checks import fits_type
from kraftcheck.spec.values import Record, Value, field_types, text_of

MANIFEST_SHAPE = {"sets": {str: int}, "file": str, "number": int, "digest": str, "seconds": float}
"""Shape of the engine's entry in the manifest: see `require_json_shape`."""


SATURATION_SEARCH = "saturation"

MOST_RECHECKED_STATES = 50_000  # most states of a search that is repeated in full
SAMPLED_LEVELS, SAMPLED_STATES = 3, 32  # of a larger breadth-first search; of another larger one
LOW_32_BITS = (1 << 32) - 1

RootNodesByName = Mapping[str, int]


class SavedSymbolicSearch(NamedTuple):
    """Contents of a checkpoint of the symbolic engine."""

    replicas: tuple[Value, ...]  # the replicas with variables, in variable order
    senders: tuple[Value, ...]
    # exploded sets: replica, field, and every element that the set may have
    exploded: tuple[tuple[Value, str, tuple[Value, ...]], ...]
    opaque: tuple[str, ...]  # fields whose sets stay opaque
    order: tuple[tuple[Value, ...], ...]  # a chosen order of the variables, or empty
    values: tuple[tuple[Value, ...], ...]  # by level: the values by number, without the standard values
    nodes: NDArray[np.int64]  # nodes of the diagrams
    edges: NDArray[np.int64]
    sets: dict[str, int]  # root node of each set by name
    violations: list[Violation]
    seconds: float  # seconds of search

    def arrange(self, layout: VariableLayout) -> None:
        """Set a layout to the variables of the checkpoint."""
        layout.replicas, layout.senders, layout.opaque = list(self.replicas), list(self.senders), set(self.opaque)
        layout.exploded = {(replica, field): list(elements) for replica, field, elements in self.exploded}
        layout.order = tuple(VariableKey(*key) for key in self.order)


def _has_type_of_variable(key: VariableKey, value: Any, space: StateSpace) -> bool:
    """Whether a value has the type that its variable requires."""
    if key.kind == VariableKind.LOCAL:
        return isinstance(value, Record) and fits_type(value, type(value)) and value.id == key.of  # type: ignore[attr-defined]
    if key.kind == VariableKind.SHARED:
        return fits_type(value, field_types(space.variables.shared_type)[str(key.of)])
    messages = space.variables.network.known(value) if key.kind == VariableKind.CHANNEL else ()
    return bool(messages) and all(
        fits_type(message, type(message)) and message.dest == key.of  # type: ignore[union-attr]
        for message in messages
    )


class SymbolicCheckpoint(SearchCheckpoint):
    """Checkpoint of a symbolic search."""

    @classmethod
    def of(cls, protocol: Protocol, options: SearchRequest, starts: Sequence[State]) -> Self | None:
        """Return the checkpoint of a search, or None if the search has no folder for it."""
        folder = checkpoint_folder_of(options)
        return None if folder is None else cls(folder, protocol, options, starts)

    def __init__(self, folder: Path, protocol: Protocol, options: SearchRequest, starts: Sequence[State]) -> None:
        super().__init__(folder, protocol, options, starts, engine="symbolic")
        self._last, self._took = -math.inf, 0.0
        self._number = 0
        self.found: SavedSymbolicSearch | None = None
        if options.resume is not None:
            with self.closed_on_error(), self.rejecting():
                self.found = self._read()

    def is_due(self, least: float = 0.0) -> bool:
        """Whether a checkpoint is due; writing takes at most a tenth of the time."""
        return time.monotonic() - self._last >= max(self.options.checkpoint_every, 9 * self._took, least)

    def save(self, space: StateSpace, violations: list[Violation], seconds: float, *, finished: bool) -> None:
        """Write the sets that a state space keeps, its variables and the violations."""
        began = time.monotonic()
        variables, sets = space.variables, space.kept()
        nodes, edges, roots = space.store.dump(list(sets.values()))
        layout, skip = variables.layout, [len(variables.standard(level)) for level in range(len(variables.keys))]
        values = tuple(tuple(some[first:]) for some, first in zip(variables.values, skip, strict=True))
        parts = tuple((replica, field, tuple(elements)) for (replica, field), elements in layout.exploded.items())
        if parts:
            values = tuple(tuple(map(variables.emptied, some)) for some in values)
        whole = tuple(sorted(layout.opaque))
        order = tuple(map(tuple, layout.order))
        held: Value = (tuple(layout.replicas), tuple(layout.senders), parts, whole, order, values)
        self.note(held)
        file = BytesIO()
        np.savez(file, values=np.frombuffer(encode(held), np.uint8), nodes=nodes, edges=edges)
        self._number += 1
        name = f"sets-{self._number}.npz"
        with self.writing(), atomic_replacement(self.path / name, durable=True) as new:
            new.write_bytes(file.getvalue())
        noted = {
            "sets": dict(zip(sets, roots, strict=True)),
            "file": name,
            "number": self._number,
            "digest": blake2b(file.getvalue(), digest_size=DIGEST_BYTES).hexdigest(),
            "seconds": seconds,
        }
        # Other search orders find violations again, with behaviours. The trace that they show may be a single state
        # that is not initial.
        self.save_search(noted, violations if self.options.search == Search.BFS else [], finished=finished)
        for old in self.path.glob("sets-*.npz"):
            if old.name != name:
                old.unlink()
        self._last = time.monotonic()
        self._took = self._last - began

    def _read(self) -> SavedSymbolicSearch:
        noted, violations = self.read_search(MANIFEST_SHAPE)
        require_condition(
            self.options.search == Search.BFS or not violations, "a violation, which only --search bfs saves"
        )
        self._number = noted["number"]
        name = f"sets-{self._number}.npz"
        path = self.path / name
        require_condition(noted["file"] == name and path.is_file(), f"{path}: it is missing")
        data = path.read_bytes()
        digest = blake2b(data, digest_size=DIGEST_BYTES).hexdigest()
        require_condition(digest == noted["digest"], f"{path}: its content has changed: the digest differs")
        with errors_as_corrupt_file(str(path)):  # NumPy raises many kinds
            with ZipFile(BytesIO(data)) as file:
                require_condition(
                    [one.compress_type == ZIP_STORED for one in file.infolist()], f"{path}: it is compressed"
                )
            arrays = np.load(BytesIO(data))
            held: Any = decode(arrays["values"].tobytes(), self.lexicon)
            more = arrays["nodes"], arrays["edges"], noted["sets"], violations, noted["seconds"]
            found = SavedSymbolicSearch._make((*held, *more))
            found.arrange(VariableLayout(self.protocol, whole_inboxes=True))
        return found

    def restore(self, space: StateSpace) -> None:
        """Load the checkpoint into the empty variables and the empty store of a state space."""
        assert self.found is not None
        others = (OutOfNodes, LayoutChanged, OpaqueSetRequired)
        with self.rejecting(), errors_as_corrupt_file("a value that the protocol does not have", *others):
            self._restore(self.found, space)

    def _restore(self, found: SavedSymbolicSearch, space: StateSpace) -> None:
        variables = space.variables
        require_condition(len(found.values) == len(variables.keys), "its variables are not the protocol's")
        for level, values in enumerate(found.values):
            key, first = variables.keys[level], len(variables.standard(level))
            for value in values:
                problem = f"{text_of(value)} as a value of {variables.name(level)}"
                require_condition(_has_type_of_variable(key, value, space), problem)
                variables.number(level, variables.core(value) if key.kind == VariableKind.LOCAL else value)
            require_condition(len(variables.values[level]) == first + len(values), "two values of a variable are equal")
        require_canonical_diagrams(found.nodes, found.edges, [len(values) for values in variables.values], found.sets)
        space.store.load(found.nodes, found.edges)
        space.keep(found.sets)

    def require_same(self, space: StateSpace, violations: ViolationFinder) -> None:
        """Repeat the search, in full or in part; raise InputError if the checkpoint differs."""
        assert self.found is not None
        options, sets = self.options, space.kept()
        noted = {one.property for one in self.found.violations}
        again = CheckpointRecheck(space, violations, options.constraints, noted)
        with self.rejecting():
            if options.search == Search.BFS:
                again.require_levels(sets)
            else:
                has_beyond = options.search != SATURATION_SEARCH or bool(options.constraints)
                again.require_reached(sets, has_beyond=has_beyond)


def require_canonical_diagrams(
    nodes: NDArray[np.int64], edges: NDArray[np.int64], values: list[int], roots: RootNodesByName
) -> None:
    """Require that diagrams are in canonical form."""
    are_pairs = nodes.dtype == np.int64 and nodes.shape == (len(nodes), 2)
    require_condition(are_pairs, "its nodes are not pairs of int64 numbers")
    require_condition(edges.dtype == np.int64 and edges.ndim == 1, "its edges are not int64 numbers")
    require_condition([root < len(nodes) + 2 for root in roots.values()], "a set whose root is not a node")
    levels, counts = nodes[:, 1] >> 32, nodes[:, 1] & LOW_32_BITS
    require_condition((levels >= 0) & (levels < len(values)), "a node of an unknown level")
    require_condition((counts > 0) & (counts <= len(edges)), "a node with a wrong number of edges")
    firsts = np.cumsum(counts) - counts
    require_condition(nodes[:, 0] == firsts, "the edges of a node do not follow those of the node before")
    require_condition(counts.sum() == len(edges), f"expected {counts.sum()} edges, found {len(edges)}")
    of = np.repeat(np.arange(len(nodes)), counts)
    number, child = edges >> 32, edges & LOW_32_BITS
    require_condition((number >= 0) & (number < np.array([*values, 0])[levels[of]]), "an edge with an unknown value")
    require_condition((child > 0) & (child < of + 2), "an edge whose child is not an earlier node")
    child_levels = np.array([0, len(values), *levels.tolist()])[child]
    require_condition(child_levels > levels[of], "an edge to a child at no later level")
    require_condition((np.diff(number) > 0) | (np.diff(of) > 0), "the edges of a node are not sorted")
    require_condition((counts > 1) | (number[nodes[:, 0]] > 0), "a redundant node: its only value is 0")
    if len(nodes):
        sums = np.add.reduceat(hash_each_number(edges.astype(np.uint64)), nodes[:, 0])
        require_distinct_hashes(sums + hash_each_number(levels.astype(np.uint64)), "nodes")


class CheckpointRecheck:
    """Repeats the search of a checkpoint, in full or in part, and compares the sets."""

    def __init__(
        self, space: StateSpace, violations: ViolationFinder, constraints: tuple[Property, ...], noted: set[str]
    ) -> None:
        self._space, self._store, self._violations = space, space.store, violations
        self._constraints, self._noted = constraints, noted
        self._random = SystemRandom()  # a forger of the checkpoint must not predict the sample

    def require_levels(self, sets: RootNodesByName) -> None:
        """Require that each breadth-first level follows from the one before."""
        names = ("new", "pruned", "reached", "known", "expanded")
        levels = list(sets.values())[len(names) :]
        require_condition([*sets] == [*names, *map(str, range(len(levels)))], "its sets are of another search order")
        if self._store.count(sets["known"]) <= MOST_RECHECKED_STATES:
            found = self._levels_again(levels)
            require_condition(
                [sets[name] for name in names] == found, "its last level does not follow from those before"
            )
            return
        reached = EMPTY_SET
        for level in levels:
            reached = self._store.union(reached, self._space.view.of(level))
        require_condition([sets["reached"], sets["expanded"]] == [reached] * 2, "its levels are not the reached states")
        known = self._store.union(sets["known"], self._space.view.of(sets["new"]))
        for number in self._random.sample(range(len(levels) - 1), min(SAMPLED_LEVELS, len(levels) - 1)):
            successors = self._successors(levels[number])
            missing = self._space.view.without(successors, known)
            require_condition(missing == EMPTY_SET, f"successors of level {number} are missing")
            extra = self._store.difference(levels[number + 1], successors)
            require_condition(extra == EMPTY_SET, f"states of level {number + 1} do not follow from level {number}")
            self._require_noted(levels[number], EMPTY_SET)

    def _levels_again(self, levels: list[int]) -> list[int]:
        """Repeat all levels; return the sets that the checkpoint must have besides the levels."""
        store, view = self._store, self._space.view
        new, pruned, reached, known, judged = self._space.start, EMPTY_SET, EMPTY_SET, EMPTY_SET, EMPTY_SET
        for number, level in enumerate(levels):
            require_condition(level == self._within(new), f"level {number} does not follow from those before")
            judged = store.union(judged, store.union(new, pruned))
            known, reached = store.union(known, view.of(new)), store.union(reached, view.of(level))
            new = view.without(self._successors(level), known)
            pruned = view.without(self._space.pruned(level), known)
            self._require_noted(level, judged)
        return [new, pruned, reached, known, reached]

    def require_reached(self, sets: RootNodesByName, *, has_beyond: bool) -> None:
        """Require that each state is initial or follows from another state of the checkpoint."""
        store, reached, beyond = self._store, sets.get("reached", EMPTY_SET), sets.get("beyond", EMPTY_SET)
        require_condition([*sets] == ["reached", "beyond"][: 1 + has_beyond], "its sets are of another search order")
        within = [self._within(reached), self._within(beyond)]
        require_condition(within == [reached, EMPTY_SET], "its sets are not separated by the constraints")
        if store.count(reached) + store.count(beyond) > MOST_RECHECKED_STATES:
            self._space.learn(reached)
            for _ in range(SAMPLED_STATES):
                self._require_predecessor(store.set_of([store.one_of(reached, self._random.choice)]), reached)
            return
        found, before, whole = store.intersection(self._space.start, reached), EMPTY_SET, store.union(reached, beyond)
        while found != before:
            before = found
            self._learn(self._within(found))
            for root in self._space.groups.roots():
                found = store.union(found, store.intersection(store.successors(self._within(found), root), whole))
        found = store.union(found, store.intersection(self._space.start, beyond))
        require_condition(found == whole, "it has unreachable states")

    def _require_predecessor(self, state: int, reached: int) -> None:
        store, roots = self._store, self._space.groups.roots()
        is_start = store.difference(state, self._space.start) == EMPTY_SET
        is_next = any(store.predecessors(reached, root, state) != EMPTY_SET for root in roots)
        require_condition(is_start or is_next, "it has an unreachable state")

    def _within(self, states: int) -> int:
        return self._violations.states.within(self._constraints, states)

    def _successors(self, states: int) -> int:
        self._learn(states)
        return self._space.successors(states)

    def _learn(self, states: int) -> None:
        self._space.learn(states)
        self._store.forget_products()

    def _require_noted(self, expanded: int, more: int) -> None:
        new = self._violations.of(expanded, more, known=self._noted).keys() - self._noted
        require_condition(not new, f"the violation of {', '.join(sorted(new))} is missing")

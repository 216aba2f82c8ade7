"""Saves and restores a search by sets: its variables with their values, and the diagrams of what it has found."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from hashlib import blake2b
from io import BytesIO
from typing import Any, NamedTuple
from zipfile import ZIP_STORED, ZipFile

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.checkpoint import SearchCheckpoint, folder_of
from kraftcheck.explorer.result import Options, Search, Violation
from kraftcheck.explorer.symbolic.checks import StateChecks
from kraftcheck.explorer.symbolic.exploded_sets import OpaqueSetRequired
from kraftcheck.explorer.symbolic.search import Space
from kraftcheck.explorer.symbolic.searched_again import SetsAgain, Violated, require_diagrams
from kraftcheck.explorer.symbolic.store import KEPT, NoRoom, Store
from kraftcheck.explorer.symbolic.variables import CHANNEL, LOCAL, SHARED, Key, Layout, Rearranged, Variables
from kraftcheck.files import replacing
from kraftcheck.persistence.growing_file import DIGEST_BYTES
from kraftcheck.persistence.validation import reading, require
from kraftcheck.spec.encoding import decode, encode
from kraftcheck.spec.kinds import fits
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

    def __init__(self, protocol: Protocol, options: Options, starts: Sequence[State]) -> None:
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
        self.save_search(noted, violations, finished=finished)
        for old in self.path.glob("sets-*.npz"):
            if old.name != name:
                old.unlink()
        self._last = time.monotonic()
        self._took = self._last - began

    def _read(self) -> Found:
        noted, violations = self.read_search(SHAPE)
        if self.options.search != Search.BFS:
            violations = []  # other searches find them again, with behaviours to them
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
        again = SetsAgain(space, checks, options.constraints, violated, {one.property for one in self.found.violations})
        with self.rejecting():
            if options.search == Search.BFS:
                again.require_levels(sets)
            else:
                again.require_reached(sets, has_beyond=options.search != SATURATION or bool(options.constraints))

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

from kraftcheck.explorer.checkpoints.search_identity import identity_of_search, model_values_of
from kraftcheck.explorer.checkpoints.shapes import Damaged, require_shape
from kraftcheck.explorer.checkpoints.traces import decode_trace, encode_trace, require_violations, value_of
from kraftcheck.explorer.result import Options, Search, Violation
from kraftcheck.explorer.symbolic.checks import StateChecks
from kraftcheck.explorer.symbolic.parts import Unsplittable
from kraftcheck.explorer.symbolic.search import Space
from kraftcheck.explorer.symbolic.searched_again import SetsAgain, Violated, require_diagrams
from kraftcheck.explorer.symbolic.store import KEPT, NoRoom, Store
from kraftcheck.explorer.symbolic.variables import CHANNEL, LOCAL, SHARED, Key, Layout, Rearranged, Variables
from kraftcheck.explorer.tables.checkpoints.folder import Checkpoint, folder_of
from kraftcheck.explorer.tables.checkpoints.requirements import require
from kraftcheck.explorer.tables.states.files import DIGEST_BYTES
from kraftcheck.files import replacing
from kraftcheck.spec.diagnosis import vacuity
from kraftcheck.spec.discovery import reachable_classes
from kraftcheck.spec.display import text_of
from kraftcheck.spec.encoding import Lexicon, decode, encode
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.kinds import fits
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import ModelValue, Record, Value, field_types

SHAPE = {
    "sets": {str: int},
    "file": str,
    "number": int,
    "digest": str,
    "classes": [(str, str)],
    "model_values": [(str, int)],
    "violations": [(str, str)],
    "seconds": float,
    "watched": dict,
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


class SetsCheckpoint:
    """A folder with the checkpoint of a search by sets."""

    def __init__(self, protocol: Protocol, options: Options, starts: Sequence[State]) -> None:
        folder = folder_of(options)
        assert folder is not None
        identity = {**identity_of_search(protocol, options), "engine": "symbolic"}
        self._manifest = Checkpoint(folder, identity, resume=options.resume is not None)
        self._protocol, self._options, self._starts = protocol, options, starts
        self._classes = reachable_classes(protocol, starts)
        self._every = options.checkpoint_every
        self._last, self._took = -math.inf, 0.0
        self._number = 0
        self.found: Found | None = None
        if options.resume is not None:
            try:
                with self._manifest.judging():
                    self.found = self._read(self._manifest.noted)
            except BaseException:
                self.close()
                raise

    def is_due(self, least: float = 0.0) -> bool:
        """Return whether it is time for a checkpoint; writing takes a tenth of the time at most."""
        return time.monotonic() - self._last >= max(self._every, 9 * self._took, least)

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
        lexicon = self._lexicon_of([held, *[value_of(violation.trace) for violation in violations]])
        file = BytesIO()
        np.savez(file, values=np.frombuffer(encode(held), np.uint8), nodes=nodes, edges=edges)
        self._number += 1
        name = f"sets-{self._number}.npz"
        with self._manifest.writing(), replacing(self._manifest.folder / name, durable=True) as new:
            new.write_bytes(file.getvalue())
        noted = {
            "sets": dict(zip(sets, roots, strict=True)),
            "file": name,
            "number": self._number,
            "digest": blake2b(file.getvalue(), digest_size=DIGEST_BYTES).hexdigest(),
            "classes": [(cls.__module__, cls.__qualname__) for cls in lexicon.classes],
            "model_values": [(value.name, value.index) for value in lexicon.model_values.values()],
            "violations": [(violation.property, encode_trace(violation.trace)) for violation in violations],
            "seconds": seconds,
            "watched": vacuity.noted(self._protocol),
        }
        self._manifest.write(noted, finished=finished)
        for old in self._manifest.folder.glob("sets-*.npz"):
            if old.name != name:
                old.unlink()
        self._last = time.monotonic()
        self._took = self._last - began

    def _lexicon_of(self, values: list[Value]) -> Lexicon:
        lexicon = Lexicon()
        for value in values:
            lexicon.note(value)
        for cls in lexicon.classes:
            if self._classes.get((cls.__module__, cls.__qualname__)) is not cls:
                raise InputError(
                    f"a checkpoint cannot hold values of {cls.__qualname__} (module {cls.__module__}): nothing in the "
                    "protocol leads to it; import it by name in the protocol's module"
                )
        return lexicon

    def _read(self, noted: dict[str, Any]) -> Found:
        require_shape(noted, SHAPE)
        vacuity.restore(self._protocol, noted["watched"])
        lexicon = Lexicon(model_values=[ModelValue(name, index) for name, index in noted["model_values"]])
        for value in model_values_of(self._protocol):
            known = lexicon.model_values.get(value.name, value)
            require(known.index == value.index, f"{value.name} has another place in the order")
        for module, name in noted["classes"]:
            cls = self._classes.get((module, name))
            if cls is None:
                raise InputError(f"it has values of {name} (module {module})")
            lexicon.add(cls)
        self._number = noted["number"]
        name = f"sets-{self._number}.npz"
        path = self._manifest.folder / name
        require(noted["file"] == name and path.is_file(), f"{path}: it is missing")
        data = path.read_bytes()
        digest = blake2b(data, digest_size=DIGEST_BYTES).hexdigest()
        require(digest == noted["digest"], f"{path}: its content has changed: its digest is not the one noted")
        try:
            with ZipFile(BytesIO(data)) as file:
                require([one.compress_type == ZIP_STORED for one in file.infolist()], f"{path}: it is packed")
            arrays = np.load(BytesIO(data))
            held: Any = decode(arrays["values"].tobytes(), lexicon)
            replicas, senders, parts, whole, order, values = held
            violations = [Violation(name, decode_trace(text, lexicon)) for name, text in noted["violations"]]
            more = (arrays["nodes"], arrays["edges"], noted["sets"], violations, noted["seconds"])
            found = Found(replicas, senders, parts, whole, order, values, *more)
            found.arrange(Layout(self._protocol, whole_inboxes=True))
        except (Damaged, InputError, MemoryError):
            raise
        except Exception as error:  # NumPy raises many kinds
            raise Damaged(f"{path}: {type(error).__name__}: {error}") from None
        # Other searches than breadth first find violations again, with behaviours to them.
        is_kept = self._options.search == Search.BFS
        found = found._replace(violations=violations if is_kept else [])
        require_violations(self._protocol, self._options, self._starts, found.violations)
        return found

    def restore(self, variables: Variables, store: Store) -> None:
        """Give variables and a store that have nothing yet what was found."""
        assert self.found is not None
        with self._manifest.judging():
            try:
                self._restore(self.found, variables, store)
            except (Damaged, InputError, MemoryError, NoRoom, Rearranged, Unsplittable):
                raise
            except Exception as error:  # from the protocol's own functions, given values that it does not have
                raise Damaged(f"a value that the protocol does not have: {type(error).__name__}: {error}") from None

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
        options, sets = self._options, space.kept()
        again = SetsAgain(space, checks, options.constraints, violated, {one.property for one in self.found.violations})
        with self._manifest.judging():
            if options.search == Search.BFS:
                again.require_levels(sets)
            else:
                again.require_reached(sets, has_beyond=options.search != SATURATION or bool(options.constraints))

    def close(self) -> None:
        """Let other processes have the folder."""
        self._manifest.close()

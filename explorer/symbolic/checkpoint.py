"""Saves and restores a search by sets: its variables with their values, and the diagrams of what it has found."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.checkpoints.search_identity import identity_of_search
from kraftcheck.explorer.checkpoints.traces import decode_trace, encode_trace, value_of
from kraftcheck.explorer.result import Options, Violation
from kraftcheck.explorer.symbolic.store import KEPT, Store
from kraftcheck.explorer.symbolic.variables import LOCAL, Key, Layout, Variables
from kraftcheck.explorer.tables.checkpoints.folder import Checkpoint, folder_of
from kraftcheck.explorer.tables.states.files import DIGEST_BYTES
from kraftcheck.files import replacing
from kraftcheck.spec.decoding import DecodingError, Lexicon, decode
from kraftcheck.spec.diagnosis import vacuity
from kraftcheck.spec.encoding import encode
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.state import State
from kraftcheck.spec.loading.classes import reachable_classes
from kraftcheck.spec.values import ModelValue, Value


class Found(NamedTuple):
    """What a search had found.

    Attributes
    ----------
    replicas, senders
        What the variables are for, in their order.
    parts
        The sets that are taken apart: replica, field, and all elements that they may have.
    order
        The variables in an order that was chosen, or none.
    whole
        The fields of which sets must not be.
    values
        By level: the values by number, without those that are always there.
    nodes, edges
        The diagrams.
    sets
        The sets by name.
    sizes
        Of the levels that were counted.
    violations
        What is violated.
    seconds
        Time it took.
    """

    replicas: tuple[Value, ...]
    senders: tuple[Value, ...]
    parts: tuple[tuple[Value, str, tuple[Value, ...]], ...]
    whole: tuple[str, ...]
    order: tuple[tuple[Value, ...], ...]
    values: tuple[tuple[Value, ...], ...]
    nodes: NDArray[np.int64]
    edges: NDArray[np.int64]
    sets: dict[str, int]
    sizes: list[int]
    violations: list[Violation]
    seconds: float

    def arrange(self, layout: Layout) -> None:
        """Give a layout the variables that there were."""
        layout.replicas, layout.senders, layout.whole = list(self.replicas), list(self.senders), set(self.whole)
        layout.parts = {(replica, field): list(elements) for replica, field, elements in self.parts}
        layout.order = tuple(Key(*key) for key in self.order)

    def restore(self, variables: Variables, store: Store) -> None:
        """Give variables and a store that have nothing yet what was found."""
        for level, values in enumerate(self.values):
            for value in values:
                variables.number(level, variables.core(value) if variables.keys[level].kind == LOCAL else value)
        store.load(self.nodes, self.edges)
        store.roots.update({KEPT + name: node for name, node in self.sets.items()})


class SetsCheckpoint:
    """A folder with the checkpoint of a search by sets.

    Parameters
    ----------
    protocol, options
        The search; its options name the folder.
    starts
        The initial states.

    Attributes
    ----------
    found
        What the search had found that is gone on with, or None.

    Raises
    ------
    InputError
        As `kraftcheck.explorer.tables.checkpoints.folder.Checkpoint`.
    """

    def __init__(self, protocol: Protocol, options: Options, starts: Sequence[State]) -> None:
        folder = folder_of(options)
        assert folder is not None
        identity = {**identity_of_search(protocol, options), "engine": "symbolic"}
        self._protocol = protocol
        self._manifest = Checkpoint(folder, identity, resume=options.resume is not None)
        self._classes = reachable_classes(protocol, starts)
        self._every = options.checkpoint_every
        self._last, self._took = -math.inf, 0.0
        self._number = 0
        self.found: Found | None = None
        if options.resume is not None:
            try:
                self.found = self._read(self._manifest.noted)
            except BaseException:
                self.close()
                raise

    def is_due(self, least: float = 0.0) -> bool:
        """Return whether it is time for a checkpoint; writing takes a tenth of the time at most.

        Parameters
        ----------
        least
            Seconds that must be between two, whatever the options say.
        """
        return time.monotonic() - self._last >= max(self._every, 9 * self._took, least)

    def save(
        self,
        variables: Variables,
        store: Store,
        sizes: list[int],
        violations: list[Violation],
        seconds: float,
        *,
        finished: bool = False,
    ) -> None:
        """Write a checkpoint of the sets whose names begin with `KEPT`.

        Parameters
        ----------
        variables, store
            What sets are made of.
        sizes, violations, seconds
            As those of `Found`.
        finished
            Whether the search is over.
        """
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
            "sizes": sizes,
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
        if "sets" not in noted:
            raise self._manifest.error("the checkpoint is of another engine; expected --engine tables or spark")
        vacuity.restore(self._protocol, noted.get("watched"))
        lexicon = Lexicon(model_values=[ModelValue(name, index) for name, index in noted["model_values"]])
        for module, name in noted["classes"]:
            cls = self._classes.get((module, name))
            if cls is None:
                raise self._manifest.error(
                    f"the checkpoint is of another search: it has values of {name} (module {module})"
                )
            lexicon.add(cls)
        path = Path(self._manifest.folder) / noted["file"]
        if not path.is_file():
            raise self._manifest.damaged(f"{path}: it is missing")
        data = path.read_bytes()
        if blake2b(data, digest_size=DIGEST_BYTES).hexdigest() != noted["digest"]:
            raise self._manifest.damaged(f"{path}: its content has changed: its digest is not the one noted")
        self._number = noted["number"]
        try:
            arrays = np.load(BytesIO(data))
            replicas, senders, parts, whole, order, values = decode(arrays["values"].tobytes(), lexicon)
            violations = [Violation(name, decode_trace(text, lexicon)) for name, text in noted["violations"]]
        except (DecodingError, ValueError) as error:
            raise self._manifest.damaged(str(error)) from None
        sizes, seconds = noted["sizes"], noted["seconds"]
        diagrams = (arrays["nodes"], arrays["edges"], noted["sets"])
        return Found(replicas, senders, parts, whole, order, values, *diagrams, sizes, violations, seconds)

    def close(self) -> None:
        """Let other processes have the folder."""
        self._manifest.close()

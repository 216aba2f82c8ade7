"""Common contents of the checkpoints of all engines: identity of the search, classes of values, counterexamples."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any

from kraftcheck.explorer.request import OPTIONS, SearchRequest
from kraftcheck.explorer.result import DEADLOCK, Behaviour, TraceStep, Violation, trace_step_of_transition
from kraftcheck.persistence.folder import MANIFEST_FILE, BatchNote, Checkpoint, Identity
from kraftcheck.persistence.stored_files import CorruptFileError, require_condition, require_json_shape
from kraftcheck.spec.diagnosis import lint
from kraftcheck.spec.discovery import classes_for_decoding, project_modules_of_protocol, source_path
from kraftcheck.spec.encoding import DecodingError, DecodingVocabulary, decode, encode
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import ModelValue, Value, order_key, text_of

MANIFEST_SHAPE = {"classes": [(str, str)], "model_values": [(str, int)], "violations": [(str, str)], "watched": dict}
"""Shape of the manifest entries of every engine: see `require_json_shape`."""


def checkpoint_folder_of(options: SearchRequest) -> Path | None:
    """Return the checkpoint folder of a search, or None."""
    if options.resume is not None and options.checkpoint not in (None, options.resume):
        raise InputError(
            f"--checkpoint {options.checkpoint}: a resumed search keeps its checkpoint in place; "
            f"omit this option, or copy {options.resume}"
        )
    folder = options.checkpoint if options.resume is None else options.resume
    return None if folder is None else Path(folder)


def request_resuming_if_saved(options: SearchRequest) -> SearchRequest:
    """Return the request of a search that resumes from its checkpoint, if it has written one."""
    is_saved = options.checkpoint is not None and Path(options.checkpoint, MANIFEST_FILE).is_file()
    return replace(options, resume=options.checkpoint) if is_saved else options


def holds_finished_search(folder: str | PathLike[str]) -> bool:
    """Return whether a folder says that it holds the checkpoint of a finished search."""
    with suppress(OSError, ValueError, RecursionError):
        found = json.loads(Path(folder, MANIFEST_FILE).read_bytes())
        return isinstance(found, dict) and found.get("finished") is True
    return False


class SearchCheckpoint(Checkpoint):
    """Checkpoint of a search; each engine adds its own entries."""

    def __init__(
        self,
        folder: Path,
        protocol: Protocol,
        options: SearchRequest,
        starts: Sequence[State],
        *,
        engine: str | None = None,
        names: tuple[str, ...] = (),
    ) -> None:
        self.protocol, self.options, self.starts = protocol, options, starts
        self.lexicon = DecodingVocabulary()
        self._classes = classes_for_decoding(protocol, starts)
        identity = identity_of_search(protocol, options) | ({} if engine is None else {"engine": engine})
        super().__init__(folder, identity, resume=options.resume is not None, names=names)

    def note(self, value: Value) -> None:
        """Record the classes that occur in a value; raise InputError for a class that the protocol does not lead to."""
        self.lexicon.note_decodable(value, self._classes, "a checkpoint cannot hold values of {}")

    def save_search(self, noted: BatchNote, violations: Sequence[Violation], *, finished: bool) -> None:
        """Write the engine's entries, the violations, and the classes of their values as the checkpoint."""
        for violation in violations:
            self.note(trace_as_value(violation.trace))
        common = {
            "classes": [(cls.__module__, cls.__qualname__) for cls in self.lexicon.classes],
            "model_values": [(value.name, value.index) for value in self.lexicon.model_values.values()],
            "violations": [(one.property, encode(trace_as_value(one.trace)).hex()) for one in violations],
            "watched": lint.checkpoint_data_of_probes(self.protocol),
        }
        self.write({**noted, **common}, finished=finished)

    def read_search(self, shape: BatchNote) -> tuple[BatchNote, list[Violation]]:
        """Return the engine's entries, validated against `shape`, and the recorded violations, each one verified."""
        require_json_shape(self.noted, {**MANIFEST_SHAPE, **shape})
        noted = {name: value for name, value in self.noted.items() if name not in MANIFEST_SHAPE}
        lint.restore_probe_checkpoint(self.protocol, self.noted["watched"])
        for module, name in self.noted["classes"]:
            cls = self._classes.get((module, name))
            if cls is None:
                raise InputError(f"unknown class {name} (module {module})")
            self.lexicon.add(cls)
        order = {value.name: value.index for value in model_values_of(self.protocol)}
        for name, index in self.noted["model_values"]:
            require_condition(index == order.get(name, index), f"{name} has another place in the order")
            self.lexicon.model_values[name] = ModelValue(name, index)
        violations = [Violation(name, decode_hex_trace(text, self.lexicon)) for name, text in self.noted["violations"]]
        require_violating_behaviours(self.protocol, self.options, self.starts, violations)
        return noted, violations


# Identity


def identity_of_search(protocol: Protocol, options: SearchRequest) -> Identity:
    """Return the facts that a search and its checkpoint must agree on, as JSON values.

    Limits, workers and memory are left out: they do not change the result.
    """
    cls = type(protocol)
    return {
        "model": f"{cls.__module__}:{cls.__qualname__}",
        "source": dict(_source_digests(cls)),
        "constants": {name: [text_of(v), encode(v).hex()] for name, v in protocol.constant_values().items()},
        "order of model values": [value.name for value in model_values_of(protocol)],
        **{one.identity: one.as_json(getattr(options, name)) for name, one in OPTIONS.items() if one.identity},
    }


def _source_digests(cls: type[Protocol]) -> Iterator[tuple[str, str]]:
    """Yield the modules of a protocol, with digests of their sources."""
    for module in project_modules_of_protocol(cls):
        path = source_path(module)
        if path is not None and path.is_file():
            yield module.__name__, blake2b(path.read_bytes(), digest_size=16).hexdigest()


def model_values_of(protocol: Protocol) -> list[ModelValue]:
    """Return the model values of a protocol's constants, in canonical order."""
    found = DecodingVocabulary()
    for value in protocol.constant_values().values():
        found.note(value)
    return sorted(found.model_values.values(), key=order_key)


# Counterexamples


def trace_as_value(trace: Behaviour) -> Value:
    """Return a counterexample as one value: a tuple of (state, action, actor, message) for each state."""
    parts = ((step.state, (step.action, step.actor, step.message)) for step in trace)
    return tuple((state, *(() if one is None else (one,) for one in by)) for state, by in parts)


def decode_hex_trace(text: str, lexicon: DecodingVocabulary) -> Behaviour:
    """Decode a counterexample."""
    try:
        steps: Any = decode(bytes.fromhex(text), lexicon)
        return tuple(TraceStep(state, *(part[0] if part else None for part in rest)) for state, *rest in steps)
    except DecodingError:
        raise
    except (LookupError, TypeError, ValueError) as error:
        raise DecodingError(f"it is not a counterexample: {error}") from None


def require_violating_behaviours(
    protocol: Protocol, options: SearchRequest, starts: Sequence[State], violations: Sequence[Violation]
) -> None:
    """Raise CorruptFileError unless each counterexample is a behaviour of the protocol that violates its property."""
    semantics, checked = Semantics(protocol), {prop.name: prop for prop in options.properties}
    names = [violation.property for violation in violations]
    if len(names) > len(set(names)) or not {*names} <= {*checked, *([DEADLOCK] if options.deadlock else [])}:
        raise CorruptFileError("it has a violation of an unchecked property, or two violations of one")
    for name, trace in ((violation.property, violation.trace) for violation in violations):
        said = f"the counterexample to {name}"
        begins = bool(trace) and trace[0] in map(TraceStep, starts)
        require_condition(begins, f"{said} does not begin with an initial state")
        for before, step in pairwise(trace):
            follows = step in map(trace_step_of_transition, semantics.transitions(before.state))
            require_condition(follows, f"{said} is not a behaviour of the protocol")
        require_condition(_violates_property(semantics, checked.get(name), trace), f"{said} does not violate it")


def _violates_property(semantics: Semantics, prop: Property | None, trace: Behaviour) -> bool:
    """Whether the last state of a behaviour, or the step to it, violates a property; None stands for deadlock."""
    if prop is None:
        return not any(True for _ in semantics.transitions(trace[-1].state))
    if not prop.over_steps:
        return not semantics.holds(prop, trace[-1].state)
    if len(trace) == 1:
        return not semantics.begins(prop, trace[0].state)
    before, last = trace[-2:]
    taken = (step for step in semantics.transitions(before.state) if trace_step_of_transition(step) == last)
    return any(not semantics.step_satisfies(prop, before.state, step) for step in taken)

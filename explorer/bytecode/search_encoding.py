"""The description of a search for the interpreter: columns of a state, entries, properties, and the program."""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import cache
from inspect import isgeneratorfunction
from typing import Any

import numpy as np

from kraftcheck.explorer.bytecode.emitter import BytecodeProgram
from kraftcheck.explorer.bytecode.kernel import codes
from kraftcheck.explorer.bytecode.kernel.codes import NODE_HEAD_WORDS
from kraftcheck.explorer.bytecode.kernel.expanding import DISTINCT_INPUTS_COLUMN
from kraftcheck.explorer.bytecode.statements import FunctionTranslator
from kraftcheck.explorer.bytecode.values import ValueHeap
from kraftcheck.explorer.result import SearchRequest
from kraftcheck.explorer.temporal.search import do_exhausted_bounds_disable_actions
from kraftcheck.spec.diagnosis.lint import PropertyCoverageProbe
from kraftcheck.spec.errors import NoBytecodeError
from kraftcheck.spec.language.declarations import REFINES, SPENT_PARAMETER, Action, Projection, Property
from kraftcheck.spec.language.formula import StatePredicate
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.state import State, make_state, permutation_group, permute_model_values
from kraftcheck.spec.values import Map, Record, Value, field_names, field_types, is_enum, ordered

KINDS_OF_PROPERTIES = {"constraint": codes.CONSTRAINT, "step_invariant": codes.STEP_PROPERTY}
MOST_PERMUTATIONS = 1 << 10
"""Permutations of a SYMMETRY; each new state is permuted by each."""
FIRST_STEP_LOG_ENTRIES = 1 << 14
"""Steps that the log of a sampled state has room for, at first."""


class EncodedSearch:
    """The parts of a search by number, as the interpreter knows them."""

    def __init__(self, protocol: Protocol, options: SearchRequest, initial: list[State]) -> None:
        _require_translatable(protocol, options, initial)
        self.protocol, self.options = protocol, options
        self.heap = ValueHeap()
        self.replicas = ordered({key for state in initial for key in state.replicas})
        self._shared = type(initial[0].shared)
        self._fields, self._bounds = field_names(self._shared), list(protocol.bounds)
        self.properties = [*options.constraints, *options.properties]
        self.predicates = [*options.reachable, *_predicates_of_formulas(protocol, options)]
        for of in _value_classes_of_protocol(protocol, initial):
            with suppress(NoBytecodeError):  # it may not be used
                self.heap.kind(of)
        self._encode_replica = cache(self.heap.encode)  # many initial states have equal replicas
        self.starts = [self._encoded(state) for state in initial]
        self.entries: list[tuple[Action, Value]] = []
        for action in protocol.actions.values():
            keys = [None] if action.kind == "environment" else self.replicas
            self.entries += [(action, key) for key in keys]
        self._program = self._translated()

    @property
    def width(self) -> int:
        """The number of columns of a state."""
        return len(self.replicas) + len(self._fields) + len(self._bounds)

    def answer(self, most: int) -> None:
        """Let Python answer what the interpreter asks, at most so often."""
        self._program.answer(most)

    def _encoded(self, state: State) -> list[int]:
        encode, of_replica = self.heap.encode, self._encode_replica
        replicas = [of_replica(state.replicas[one]) if one in state.replicas else 0 for one in self.replicas]
        shared = [encode(getattr(state.shared, one)) for one in self._fields]
        return [*replicas, *shared, *(encode(state.spent[one]) for one in self._bounds)]

    @property
    def _evaluated(self) -> list[Property]:
        return [*self.properties, *self.predicates]

    def _translated(self) -> BytecodeProgram:
        """Translate the program, and describe the search to the kernel."""
        heap, protocol, machine = self.heap, self.protocol, self.heap.machine
        program = BytecodeProgram(protocol, heap, FunctionTranslator)
        properties = self._evaluated
        owners: list[Action | Property] = [*(action for action, _ in self.entries), *properties]
        reads = list(dict.fromkeys(read for owner in owners for read in owner.reads))
        entries = [self._entry(program, number, one) for number, one in enumerate(self.entries)]
        types = [heap.type_of(field_types(self._shared)[one]) for one in self._fields]
        machine.columns = np.array([*map(heap.encode, self.replicas), 0], np.int64)
        machine.names = np.array([*map(heap.encode, (*self._fields, *self._bounds)), 0], np.int64)
        machine.limits = np.array([*protocol.bounds.values(), 0], np.int64)
        machine.entries = np.array(entries, np.int32).reshape(-1, 4)
        machine.properties = np.array([*(self._property_row(program, one) for one in properties), (0,) * 7], np.int32)
        machine.projections = np.array([*(_projection_row(program, one) for one in reads), (0, 0)], np.int32)
        machine.parameters = np.array([*(_parameter_sources(owner, reads) for owner in owners), [-1] * 8], np.int32)
        machine.shared_types = np.array([*types, 0], np.int32)
        self._describe(len(reads))
        program.link()
        return program

    def _describe(self, projections: int) -> None:
        """Hand the numbers of the search to the kernel, and make room for its states."""
        machine, heap = self.heap.machine, self.heap
        sizes = map(len, (self.replicas, self._fields, self._bounds, self.entries, self.properties))
        machine.shape[codes.SHAPE_REPLICAS : codes.SHAPE_PROPERTIES + 1] = list(sizes)
        machine.shape[codes.SHAPE_PROJECTIONS] = projections
        machine.shape[codes.SHAPE_SHARED_KIND] = heap.kind(self._shared)
        machine.shape[codes.SHAPE_ID_NAME] = heap.name("id")
        machine.shape[codes.SHAPE_HAS_STEP_PROPERTIES] = any(prop.over_steps for prop in self.properties)
        if any("state" in prop.asks for prop in self._evaluated):
            machine.shape[codes.SHAPE_STATE_KIND] = heap.kind(State)
        machine.shape[codes.SHAPE_READS_BOUNDS] = any(SPENT_PARAMETER in prop.asks for prop in self._evaluated)
        machine.shape[codes.SHAPE_MOST_STATES] = self.options.max_states or 0
        machine.row = np.zeros(4 * self.width + 2, np.int64)
        self._describe_symmetry()
        machine.environment = np.zeros(2 * (codes.PROJECTION_SOURCE - codes.SHARED_SOURCE + projections), np.int64)
        machine.fired, machine.taken = (np.zeros(len(self.entries) + 1, np.int64) for _ in range(2))
        machine.inputs = np.zeros((len(machine.properties), 8), np.int64)
        machine.violations = np.zeros((len(self.properties) + 1, 2), np.int64)
        machine.states, machine.sources = (np.zeros(1 << 14, np.int32) for _ in range(2))
        machine.log = np.zeros((FIRST_STEP_LOG_ENTRIES, 3), np.int64)

    def _describe_symmetry(self) -> None:
        """Hand the permutations of the SYMMETRY to the kernel; without one, the identity alone."""
        machine, name, encode = self.heap.machine, self.options.symmetry, self.heap.encode
        group = [{}] if name is None else permutation_group(self.protocol.symmetry_sets(name))
        if len(group) > MOST_PERMUTATIONS:
            raise NoBytecodeError(f"SYMMETRY {name} with {len(group):,} permutations")
        images = [[permute_model_values(key, permutation) for key in self.replicas] for permutation in group]
        if any(set(keys) != set(self.replicas) for keys in images):
            raise NoBytecodeError(f"SYMMETRY {name} with images of replicas that are no replicas")
        columns = [[*map(self.replicas.index, keys), 0] for keys in images]
        machine.symmetric = np.array([*map(encode, group[0]), 0], np.int64)
        machine.images = np.array([[*map(encode, permutation.values()), 0] for permutation in group], np.int64)
        machine.column_images = np.array(columns, np.int64)
        machine.permuted = np.zeros((1 << codes.MATCH_MEMO_BITS if name else 1, 2), np.int64)

    def _entry(self, program: BytecodeProgram, number: int, entry: tuple[Action, Value]) -> tuple[int, int, int, int]:
        action, key = entry
        if not isgeneratorfunction(action.function):
            raise NoBytecodeError(f"the action {action.name}, which yields nothing itself")
        test = self.heap.test(action.actors) if action.actors else 0
        return number, program.function(action.function), -1 if key is None else self.replicas.index(key), test

    def _property_row(self, program: BytecodeProgram, prop: Property) -> tuple[int, ...]:
        probe = self.protocol.probes.get(prop.name)
        function = program.function(prop.function, probe if isinstance(probe, PropertyCoverageProbe) else None)
        pair = ("before", "after") if prop.over_steps else ("me", "peer")
        tests = (program.heap.test(prop.kinds(one)) if one in prop.asks else -1 for one in pair)
        columns = [place for place, key in enumerate(self.replicas) if prop.only in (None, key)]
        span = (columns[0], columns[-1] + 1) if columns and "me" in prop.asks else (0, int("me" not in prop.asks))
        kind = KINDS_OF_PROPERTIES.get(prop.kind, codes.STATE_PROPERTY)
        return function, *tests, kind, int(prop.opposite), *span

    def property_number(self, prop: Property) -> int:
        """Return the number of a property in the program."""
        known = self._evaluated
        return list(map(StatePredicate, known)).index(StatePredicate(prop))

    def label(self, entry: int) -> tuple[str, Value]:
        """Return the names of an entry's action and actor."""
        action, key = self.entries[entry]
        return action.name, key

    def decoded(self, address: int) -> State:
        """Return the state at an address."""
        row = self.heap.machine.words[address + NODE_HEAD_WORDS : address + NODE_HEAD_WORDS + self.width].tolist()
        values = [None if one == 0 else self.heap.decode(one) for one in row]
        count, fields = len(self.replicas), len(self._fields)
        replicas = {key: one for key, one in zip(self.replicas, values, strict=False) if one is not None}
        shared = self._shared(*values[count : count + fields])
        spent: Map[str, Value] = Map(zip(self._bounds, values[count + fields :], strict=True))
        return make_state(Map(replicas), Map(), shared, spent)

    def place_of(self, instruction: int) -> str:
        """Return the function and the line of an instruction."""
        return self._program.lines[instruction]

    def note_probes(self) -> None:
        """Tell the probes of properties what the search has evaluated."""
        for prop, inputs in zip(self.properties, self.heap.machine.inputs.tolist(), strict=False):
            watch = self.protocol.probes.get(prop.name)
            if isinstance(watch, PropertyCoverageProbe):
                watch.note(inputs[DISTINCT_INPUTS_COLUMN], self._program.seen(watch))


def _require_translatable(protocol: Protocol, options: SearchRequest, initial: list[State]) -> None:
    """Raise NoBytecodeError for properties beyond those of states, and where there are messages."""
    properties = [*options.properties, *options.constraints, *options.reachable]
    properties += _predicates_of_formulas(protocol, options)
    owners: list[Action | Property] = [*protocol.actions.values(), *properties]
    if options.check_actions:
        raise NoBytecodeError("--check-actions")
    if any(read.of_inbox for owner in owners for read in owner.reads) or any(state.inboxes for state in initial):
        raise NoBytecodeError("inboxes")
    _require_fairness_of_actions(protocol, options)
    beyond = next(filter(_has_untranslatable_parameters, properties), None)
    if beyond is not None:
        raise NoBytecodeError(f"the parameters of {beyond.name}")


def _require_fairness_of_actions(protocol: Protocol, options: SearchRequest) -> None:
    """Raise NoBytecodeError where fairness depends on more than which action which replica takes."""
    if any(one.when for one in options.all_fairness):
        raise NoBytecodeError("fairness with when=")
    if options.temporal and protocol.bounds and not do_exhausted_bounds_disable_actions(protocol, options):
        raise NoBytecodeError("temporal properties with bounds without --strict-bounds")


def _has_untranslatable_parameters(prop: Property) -> bool:
    """Return whether a property is about more than replicas, bounds, the shared record and the state."""
    return prop.kind == REFINES or prop.of_actor or "message" in prop.asks or bool(prop.given)


def _predicates_of_formulas(protocol: Protocol, options: SearchRequest) -> list[Property]:
    """Return the predicates of the temporal properties."""
    atoms = (atom for prop in options.temporal for atom in prop.formula(protocol).atoms())
    return [atom.prop for atom in dict.fromkeys(atoms) if isinstance(atom, StatePredicate)]


def _value_classes_of_protocol(protocol: Protocol, states: list[State]) -> list[type]:
    """Return the classes of records and enums of a protocol's modules and of its initial states."""
    found: dict[type, None] = {}
    for base in type(protocol).__mro__:
        if not base.__module__.startswith(("kraftcheck.spec.language", "builtins")):
            found |= dict.fromkeys(filter(_is_user_value_class, vars(sys.modules[base.__module__]).values()))
    for state in states:
        found |= dict.fromkeys(map(type, (*state.replicas.values(), state.shared)))
    return list(found)


def _is_user_value_class(value: Any) -> bool:
    """Return whether a value is an enum or a class of records that kraftcheck does not define."""
    if not isinstance(value, type) or not (is_enum(value) or issubclass(value, Record)):
        return False
    own = ("enum", "kraftcheck.spec.values", "kraftcheck.spec.language.state")
    return value.__module__ not in own or value.__name__ == "Nothing"


def _projection_row(program: BytecodeProgram, read: Projection) -> tuple[int, int]:
    return program.function(read.function), program.heap.test(read.of or (Record,))


def _parameter_sources(owner: Action | Property, reads: list[Projection]) -> list[int]:
    """Return the sources of the parameters of an action or a property."""
    names = (
        "me",
        "peer",
        "shared",
        "state",
        SPENT_PARAMETER,
        *(read.name for read in reads),
    )  # in the order of the sources
    known = {name: source for source, name in enumerate(names, codes.ME_SOURCE)}
    known |= {"before": codes.ME_SOURCE, "after": codes.PEER_SOURCE}
    leading = ["me"] if isinstance(owner, Action) and owner.kind == "internal" else []
    found = [known[name] for name in (*leading, *owner.asks)]
    if len(found) > 7:
        raise NoBytecodeError(f"{owner.name} has more than seven parameters")
    return [*found, *[-1] * (8 - len(found))]

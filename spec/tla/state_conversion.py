"""Conversion of a protocol's states to named TLA+ variables and back.

Each field of the replicas' records is a variable: `current_epoch` is ``currentEpoch``, a function over the replicas
with this field. The network is the variable ``messages``; a network with memory has two variables, and a protocol
without message types has none. Each field of the shared record is a variable. Each bound has a counter of its uses,
such as ``_elections``, unless it names its counter. The module `kraftcheck.spec.tla.types` defines the form of records,
and its overrides.

>>> from kraftcheck.spec.examples.two_phase_commit import TwoPhaseCommit
>>> from kraftcheck.spec.tla.text import format_on_one_line
>>> from kraftcheck.spec.values import ModelValue
>>> protocol = TwoPhaseCommit(resource_managers=frozenset({ModelValue("rm1")}))
>>> view, (state,) = TlaStateConverter(protocol), protocol.initial()
>>> for name, value in view.variables(state).items():
...     print(name, "=", format_on_one_line(value))
phase = (rm1 :> working @@ tm :> working)
prepared = (tm :> {})
messages = {}
>>> view.state(view.variables(state)) == state
True
"""

from __future__ import annotations

import enum
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from kraftcheck.spec.discovery import project_modules_of_protocol
from kraftcheck.spec.language.network import (
    Bag,
    BagWithMemory,
    Channels,
    MessageSet,
    MessageSetWithMemory,
    Network,
    NoNetwork,
)
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.state import State
from kraftcheck.spec.tla.text import tuple_or_map_of_function
from kraftcheck.spec.tla.types import (
    Decode,
    TlaTypeMismatchError,
    TlaValueDecoder,
    TlaValueEncoder,
    TlaVariablesError,
    camel_case_field,
    is_tla_string_type,
    subclasses,
    tla_names,
    truncated_value_text,
)
from kraftcheck.spec.values import (
    Map,
    ModelValue,
    Record,
    Value,
    enum_name,
    field_names,
    field_types,
    map_model_values,
    ordered,
)

MESSAGES_VARIABLE = "messages"
KIND_VARIABLE = "kind"


class _ReplicaShape(NamedTuple):
    """A class of replicas: the TLA+ names of its fields except `id`, and whether the variable `kind` has its name."""

    cls: type[Record]
    names: dict[str, str]
    is_told: bool


def action_name_of_label(protocol: Protocol, label: str | None) -> str | None:
    """Return the action that a label of TLA+ names, by its own name or by its method's: `ncs` is `Ncs`."""
    if label is None or label in protocol.actions:
        return label
    methods = {action.function.__name__: name for name, action in protocol.actions.items()}
    return methods.get(label, label)


class TlaStateConverter:
    """Converter between the states of one protocol and TLA+ variables."""

    def __init__(self, protocol: Protocol) -> None:
        self._protocol = protocol
        starts = protocol.checked_initial()
        self._shared_type: type[Record] = type(starts[0].shared)
        self._replicas = _replica_shapes(protocol, starts)
        messages = _message_classes(protocol)
        symbols = list(_all_enum_members(protocol))
        model_values = _model_values_by_name(protocol, starts)
        stand_ins = {s: ModelValue(enum_name(s), len(model_values) + i) for i, s in enumerate(symbols)}
        self._encoder = TlaValueEncoder(messages, stand_ins, protocol.none_is)
        names = {**{enum_name(symbol): symbol for symbol in reversed(symbols)}, **model_values}
        records = [*messages, *[replica.cls for replica in self._replicas]]
        self._typed = TlaValueDecoder(self._encoder, names, records)
        self._untyped = TlaValueDecoder(self._encoder, names, records, untyped=True)
        self._message_type: Any = _union_type(messages)
        self._replica_names = list(dict.fromkeys(n for r in self._replicas for n in _replica_variable_names(r)))
        self._counters = {
            c.attribute: c.counter or "_" + camel_case_field(c.attribute)
            for c in protocol.constants.values()
            if c.is_bound
        }
        self._shared_names = tla_names(self._shared_type)
        shared = self._shared_names.values()
        network = protocol.network
        self._held = _network_variables(network, messages)
        self.names: tuple[str, ...] = (*self._replica_names, *self._held, *shared, *self._counters.values())
        self._require_own_names()
        if not isinstance(network, BagWithMemory | MessageSet | MessageSetWithMemory | Channels):
            raise TlaVariablesError(
                MESSAGES_VARIABLE, MESSAGES_VARIABLE, type(network).__name__, "a bag, a set or channels"
            )

    def _require_own_names(self) -> None:
        for number, name in enumerate(self.names):
            if name in self.names[:number]:
                found = f"two of that name in {self._protocol.name()}"
                raise TlaVariablesError(
                    name, name, found, "a name that no other variable has (set tla_names in a record)"
                )

    # To TLA+

    def variables(self, state: State) -> dict[str, Value]:
        """Return a state's variables, with values in the form of `kraftcheck.spec.tla.text`."""
        encode = self._encoder.encode
        functions: dict[str, dict[Value, Value]] = {name: {} for name in self._replica_names}
        known = {replica.cls: replica for replica in self._replicas}
        for key in ordered(state.replicas):
            me = state.replicas[key]
            replica = known.get(type(me))
            if replica is None:
                expected = "a class of replicas that an action's parameter is annotated with"
                raise TlaVariablesError(KIND_VARIABLE, f"{KIND_VARIABLE}[{key!r}]", type(me).__name__, expected)
            argument = encode(key)
            for attribute, name in replica.names.items():
                functions[name][argument] = encode(getattr(me, attribute))
            if replica.is_told:
                functions[KIND_VARIABLE][argument] = replica.cls.__name__
        variables: dict[str, Value] = {name: tuple_or_map_of_function(function) for name, function in functions.items()}
        variables.update(self._network_of(state))
        for attribute, name in self._shared_names.items():
            variables[name] = encode(getattr(state.shared, attribute))
        for attribute, name in self._counters.items():
            variables[name] = state.spent[attribute]
        return variables

    def _messages(self, state: State) -> dict[str, Value]:
        encode, network, inboxes = self._encoder.encode, self._protocol.network, state.inboxes
        destinations = ordered(inboxes)
        if isinstance(network, MessageSet):
            return {MESSAGES_VARIABLE: frozenset(encode(message) for to in destinations for message in inboxes[to])}
        if isinstance(network, MessageSetWithMemory):
            return {
                name: frozenset(encode(message) for to in destinations for message in inboxes[to][place])
                for place, name in enumerate(network.variables)
            }
        counts: dict[Value, Value] = {}
        for destination in destinations:
            for key in ordered(inboxes[destination]):
                argument = (key, destination) if isinstance(network, Channels) else key
                counts[encode(argument)] = encode(inboxes[destination][key])
        return {MESSAGES_VARIABLE: tuple_or_map_of_function(counts)}

    def _network_of(self, state: State) -> dict[str, Value]:
        if self._held:
            return self._messages(state)
        if any(inbox != self._protocol.network.empty for inbox in state.inboxes.values()):
            what = "a message of a type that no action takes and that its module does not define"
            raise TlaVariablesError(MESSAGES_VARIABLE, MESSAGES_VARIABLE, what, "no messages")
        return {}

    def encode(self, value: Value) -> Value:
        """Encode a protocol value, such as a replica's id, as a value in the variables."""
        return self._encoder.encode(value)

    # From TLA+

    def state(self, variables: Mapping[str, Value], *, untyped: bool = False) -> State:
        """Return the state with these variables: the inverse of `variables`.

        `untyped`: whether values are those of TLC's `-dumpTrace json`. Model values are then strings, sets and
        sequences lists, functions and records dicts, and keys TLA+ text. The type of a value follows from its place.
        """
        for name in self.names:
            if name not in variables:
                raise TlaVariablesError(name, name, "no such variable in this state", "a value")
        for name in variables:
            if not self.is_known(name, variables[name]):
                expected = f"one of {self._protocol.name()}'s variables, {', '.join(self.names)}"
                raise TlaVariablesError(name, name, "another", expected)
        decoder = self._untyped if untyped else self._typed
        replicas = Map((replica.id, replica) for replica in self._read_replicas(decoder, variables))  # type: ignore[attr-defined]
        inboxes = self._read_messages(decoder, variables) if self._held else Map()
        kinds = field_types(self._shared_type)
        fields = {
            attribute: _decoded_variable(name, decoder.of(kinds[attribute]), variables[name])
            for attribute, name in self._shared_names.items()
        }
        spent = Map(
            (a, _decoded_variable(name, decoder.of(int), variables[name])) for a, name in self._counters.items()
        )
        return State(replicas, inboxes, self._shared_type(**fields), spent)

    def is_known(self, name: str, value: Value) -> bool:
        """Whether a variable belongs to the protocol; an empty ``messages`` does even without a network."""
        return name in self.names or (name == MESSAGES_VARIABLE and not self._held and not value)

    def _read_replicas(self, decoder: TlaValueDecoder, variables: Mapping[str, Value]) -> Iterator[Record]:
        functions: dict[str, dict[Value, Value]] = {}
        for name in self._replica_names:
            try:
                functions[name] = dict(decoder.pairs(variables[name], text_keys=not self._ids_are_text()))
            except TlaTypeMismatchError as error:
                raise _error_with_variable(name, error) from None
        keys = ordered(dict.fromkeys(key for function in functions.values() for key in function))
        for key in keys:
            yield self._read_replica(decoder, self._fitting(key, functions), key, functions)

    def _fitting(self, key: Value, functions: dict[str, dict[Value, Value]]) -> list[_ReplicaShape]:
        """Return the replica classes whose variables are exactly those that have a value for the replica id `key`."""
        has = {name for name in self._replica_names if key in functions[name]}
        fitting = [r for r in self._replicas if set(_replica_variable_names(r)) == has]
        if not fitting:
            raise self._unlike(key, has)
        if not fitting[0].is_told:
            return fitting
        kind = functions[KIND_VARIABLE][key]
        fitting = [r for r in fitting if r.cls.__name__ == kind]
        if not fitting:
            expected = " or ".join(r.cls.__name__ for r in self._replicas if r.is_told)
            raise TlaVariablesError(
                KIND_VARIABLE, f"{KIND_VARIABLE}[{truncated_value_text(key)}]", truncated_value_text(kind), expected
            )
        return fitting

    def _read_replica(
        self,
        decoder: TlaValueDecoder,
        fitting: list[_ReplicaShape],
        key: Value,
        functions: dict[str, dict[Value, Value]],
    ) -> Record:
        wrong: TlaVariablesError | None = None
        for replica in fitting:
            kinds = field_types(replica.cls)
            as_id = partial(decoder.argument, kinds["id"])
            try:
                fields = {"id": _decoded_variable(_replica_variable_names(replica)[0], as_id, key)}
                for attribute, name in replica.names.items():
                    fields[attribute] = _decoded_variable(name, decoder.of(kinds[attribute]), functions[name][key], key)
                return replica.cls(**fields)
            except TlaVariablesError as error:
                wrong = wrong or error
        assert wrong is not None
        raise wrong

    def _ids_are_text(self) -> bool:
        """Whether the ids of replicas are strings, so that functions over replicas are records."""
        return all(is_tla_string_type(field_types(replica.cls)["id"]) for replica in self._replicas)

    def _unlike(self, key: Value, has: set[str]) -> TlaVariablesError:
        """Return the error for an id that has only some variables of a class of replicas."""
        near = min(self._replicas, key=lambda replica: len(set(_replica_variable_names(replica)) ^ has))
        wanted = set(_replica_variable_names(near))
        for name in self._replica_names:
            if name in wanted - has:
                other = next(iter(n for n in self._replica_names if n in has))
                return TlaVariablesError(name, name, "none", f"a value for {truncated_value_text(key)}, as {other} has")
            if name in has - wanted:
                other = next(iter(n for n in self._replica_names if n in wanted))
                return TlaVariablesError(
                    name, name, f"one for {truncated_value_text(key)}", f"no value where {other} has none"
                )
        raise AssertionError(key)

    def _read_messages(self, decoder: TlaValueDecoder, variables: Mapping[str, Value]) -> Map[Any, Any]:
        network = self._protocol.network
        inboxes: dict[Value, Any] = {}
        a_set = decoder.of(frozenset[self._message_type])  # type: ignore[name-defined]
        if isinstance(network, MessageSet):
            for message in ordered(_decoded_variable(MESSAGES_VARIABLE, a_set, variables[MESSAGES_VARIABLE])):
                inboxes[message.dest] = inboxes.get(message.dest, frozenset()) | {message}
        elif isinstance(network, MessageSetWithMemory):
            both = [_decoded_variable(name, a_set, variables[name]) for name in network.variables]
            for to in ordered({message.dest for messages in both for message in messages}):
                inboxes[to] = tuple(frozenset(message for message in held if message.dest == to) for held in both)
        elif isinstance(network, Channels):
            for (source, dest), queue in self._channels(decoder, variables[MESSAGES_VARIABLE]).items():
                inboxes[dest] = inboxes.get(dest, Map()).put(source, queue)
        else:
            inboxes = self._bags(decoder, variables[MESSAGES_VARIABLE])
        return Map(inboxes)

    def _bags(self, decoder: TlaValueDecoder, value: Value) -> dict[Value, Any]:
        """Decode bags: a function from messages to their numbers of copies."""
        counts = _decoded_variable(MESSAGES_VARIABLE, decoder.of(Map[self._message_type, int]), value)  # type: ignore[name-defined]
        least = 1 if isinstance(self._protocol.network, Bag) else 0
        grouped: dict[Value, dict[Record, int]] = {}
        for message, count in counts.items():
            if count < least:
                path = f"{MESSAGES_VARIABLE}[{truncated_value_text(self._encoder.encode(message))}]"
                raise TlaVariablesError(MESSAGES_VARIABLE, path, str(count), f"a count of at least {least}")
            grouped.setdefault(message.dest, {})[message] = count
        return {destination: Map(inbox) for destination, inbox in grouped.items()}

    def _channels(self, decoder: TlaValueDecoder, value: Value) -> Map[tuple[Value, Value], tuple[Any, ...]]:
        """Decode channels: a function from pairs (source, destination) to messages, oldest first."""
        try:
            pairs = decoder.pairs(value, text_keys=True)
        except TlaTypeMismatchError as error:
            raise _error_with_variable(MESSAGES_VARIABLE, error) from None
        found: dict[tuple[Value, Value], tuple[Any, ...]] = {}
        for key, items in pairs:
            queue = _decoded_variable(MESSAGES_VARIABLE, decoder.of(tuple[self._message_type, ...]), items, key)  # type: ignore[name-defined]
            ends = {(message.source, message.dest) for message in queue}
            if len(ends) != 1 or {self._encoder.encode(pair) for pair in ends} != {key}:
                expected = f"messages that all go from and to {truncated_value_text(key)}, at least one"
                raise TlaVariablesError(
                    MESSAGES_VARIABLE,
                    f"{MESSAGES_VARIABLE}[{truncated_value_text(key)}]",
                    truncated_value_text(items),
                    expected,
                )
            found[ends.pop()] = queue
        return Map(found)


def _network_variables(network: Network, messages: Sequence[type[Record]]) -> tuple[str, ...]:
    if not messages or isinstance(network, NoNetwork):
        return ()
    return network.variables if isinstance(network, MessageSetWithMemory) else (MESSAGES_VARIABLE,)


def _replica_variable_names(replica: _ReplicaShape) -> list[str]:
    return [*replica.names.values(), *([KIND_VARIABLE] if replica.is_told else [])]


def _decoded_variable(name: str, decode: Decode, value: Value, key: Value = None) -> Any:
    try:
        return decode(value)
    except TlaTypeMismatchError as error:
        raise _error_with_variable(
            name, error if key is None else error.inside(f"[{truncated_value_text(key)}]")
        ) from None


def _error_with_variable(name: str, error: TlaTypeMismatchError) -> TlaVariablesError:
    return TlaVariablesError(name, name + "".join(error.path), error.found, error.expected, error.wrong_kind)


def _union_type(classes: Iterable[type[Record]]) -> Any:
    """Return the union type of classes; `Record` for no classes."""
    first, *rest = tuple(classes) or (Record,)
    kind: Any = first
    for cls in rest:
        kind = kind | cls
    return kind


def _replica_shapes(protocol: Protocol, starts: Iterable[State]) -> list[_ReplicaShape]:
    """Return the classes of replicas in the initial states, and of the actors of actions.

    A class with subclasses in its module counts only if an initial state has a replica of it. A variable ``kind``
    distinguishes two classes with the same fields and the same type of `id`.
    """
    classes = dict.fromkeys(type(replica) for state in starts for replica in state.replicas.values())
    for cls in (cls for action in protocol.actions.values() for cls in action.actors if cls is not Record):
        derived = [child for child in subclasses(cls) if child.__module__ == cls.__module__]
        classes.update(dict.fromkeys(derived or [cls]))
    looks = Counter(map(_shape_key, classes))
    found = []
    for cls in classes:
        own = {attribute: name for attribute, name in tla_names(cls).items() if attribute != "id"}
        found.append(_ReplicaShape(cls, own, looks[_shape_key(cls)] > 1 or not own))
    return found


def _shape_key(cls: type[Record]) -> tuple[frozenset[str], Any]:
    return frozenset(tla_names(cls).values()), field_types(cls)["id"]


def _message_classes(protocol: Protocol) -> list[type[Record]]:
    """Return the classes of messages of actions, of the network, and of the protocol's modules."""
    network = protocol.network
    named = [cls for action in protocol.actions.values() for cls in action.messages]
    named += [*getattr(network, "once", ()), *getattr(network, "replies_once", ())]
    for module in dict.fromkeys(base.__module__ for base in type(protocol).__mro__):
        found = vars(sys.modules[module]).values() if module in sys.modules else ()
        records = [item for item in found if isinstance(item, type) and issubclass(item, Record) and item is not Record]
        named += [record for record in records if "dest" in field_names(record)]
    classes = dict.fromkeys(named)
    for cls in named:
        classes.update(dict.fromkeys(subclasses(cls)))
    return list(classes)


def _model_values_by_name(protocol: Protocol, starts: Iterable[State]) -> dict[str, ModelValue]:
    """Return the model values in constants, initial states and the protocol's modules, by name."""
    found: dict[ModelValue, ModelValue] = {}
    for value in (*protocol.constant_values().values(), *starts, *_values_in_modules(type(protocol))):
        map_model_values(value, lambda item: found.setdefault(item, item))
    return {value.name: value for value in ordered(found)}


def _values_in_modules(protocol: type[Protocol]) -> Iterator[Any]:
    """Yield the values of variables of a protocol's modules and of their classes; of a list, set or dict its items."""
    for module in project_modules_of_protocol(protocol):
        owners = [module, *(one for one in vars(module).values() if isinstance(one, type))]
        for value in chain.from_iterable(vars(owner).values() for owner in owners):
            if isinstance(value, dict):
                yield from chain(value, value.values())
            elif isinstance(value, list | set):
                yield from value
            else:
                yield value


def _all_enum_members(protocol: Protocol) -> Iterator[enum.Enum]:
    for kind in protocol.symbols:
        yield from kind

"""Settings of a configuration, and its binding to a protocol: its constants, and the properties to check.

Names of the `.cfg` that the protocol does not define raise `InputError`, with the place, the name found and the known
names.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import replace
from inspect import signature, unwrap
from typing import Any, NoReturn, get_args

from kraftcheck.spec.cfg.config import (
    SETTING_OPTION,
    BoundConfig,
    ConfigError,
    ConstantAssignment,
    ModelConfig,
    PositionedName,
)
from kraftcheck.spec.errors import ConstantError, InputError, ProtocolError, unknown_name_message
from kraftcheck.spec.language.declarations import GRAPH_PROPERTY_KINDS, REACHABLE, REFINES, TEMPORAL, Property
from kraftcheck.spec.language.formula import Fairness
from kraftcheck.spec.language.protocol import FAIR_SPEC, NO_DEFAULT, Constant, Protocol
from kraftcheck.spec.language.semantics import methods_by_init_name
from kraftcheck.spec.tla.types import TlaTypeMismatchError, TlaValueDecoder, TlaValueEncoder
from kraftcheck.spec.type_checks import describe_type
from kraftcheck.spec.values import (
    ModelValue,
    Value,
    enum_members_by_name,
    enum_name,
    is_enum,
    map_model_values,
    text_of,
    type_hints,
)


def with_assignments(config: ModelConfig, assignments: Iterable[ConstantAssignment]) -> ModelConfig:
    """Apply settings to a configuration; of two settings of a constant, the later one wins."""
    known = {value.name: value for value in config.model_values}
    constants = dict(config.constants)
    substitutions = dict(config.substitutions)
    for assignment in assignments:
        given = {
            one
            for one in (assignment.value, *_set_members_at_any_depth(assignment.value))
            if isinstance(one, ModelValue)
        }
        for new in sorted(given, key=lambda value: value.index):
            known.setdefault(new.name, ModelValue(new.name, len(known)))
        value = map_model_values(assignment.value, lambda leaf: known[leaf.name])
        constants[assignment.name] = replace(assignment, value=value)
        substitutions.pop(assignment.name, None)
    return replace(config, constants=constants, substitutions=substitutions, model_values=tuple(known.values()))


def bind(protocol: type[Protocol], config: ModelConfig) -> BoundConfig:
    """Bind a configuration to a protocol."""
    instance = bind_constants(protocol, config)
    _refuse_unsupported_sections(config)
    found = protocol.properties.values()
    goals = [p for p in found if p.kind in (*GRAPH_PROPERTY_KINDS, REFINES)]
    steps = [p for p in found if p not in goals and p.over_steps]
    states = [p for p in found if p not in goals and not p.over_steps]
    invariants = _find_properties("invariant", config.invariants, states, [*steps, *goals], protocol)
    behaviours = [_find_step_or_graph_property(named, [*steps, *goals], protocol) for named in config.properties]
    return BoundConfig(
        instance,
        invariants + tuple(p for p in behaviours if p.kind not in GRAPH_PROPERTY_KINDS),
        _find_properties("constraint", config.constraints, states, [*steps, *goals], protocol),
        _find_properties("action constraint", config.action_constraints, steps, [*states, *goals], protocol),
        config.check_deadlock is not False,
        _require_known_name("symmetry", config.symmetry, protocol.symmetries, protocol),
        _require_known_name("view", config.view, protocol.views, protocol),
        _initial_state_name(protocol, config),
        tuple(p for p in behaviours if p.kind == REACHABLE),
        tuple(p for p in behaviours if p.kind == TEMPORAL),
        _specified_or_declared_fairness(protocol, config),
    )


def bind_constants(protocol: type[Protocol], config: ModelConfig) -> Protocol:
    """Return an instance of a protocol with the constants of a configuration; ignore its other sections."""
    for replaced, named in config.substitutions.items():
        if replaced in protocol.accepted_constants:
            continue
        remedy = f"expected NAME = VALUE, or {replaced} among `accepted_constants`"
        message = f"{replaced} <- {named.name}: {protocol.name()} has no operators to replace; {remedy}"
        _raise_at_name(message, named)
    symbols = _enum_members_by_name(protocol)
    used = {value for assignment in config.constants.values() for value in _set_members_at_any_depth(assignment.value)}
    values: dict[str, Value] = {}
    for name, assignment in config.constants.items():
        declared = protocol.constants.get(name)
        if declared is not None:
            values[declared.attribute] = _as_declared_type(protocol, declared, assignment.value)
        elif name not in protocol.accepted_constants and assignment.value != ModelValue(name):
            _raise_at_name(
                _unknown_constant_message(protocol, assignment, ModelValue(name) in used, symbols), assignment
            )
    _require_all_constants(protocol, config)
    _require_constructor_takes_constants(protocol, values)
    return _protocol_instance(protocol, values, config)


def _protocol_instance(protocol: type[Protocol], values: dict[str, Value], config: ModelConfig) -> Protocol:
    try:
        made = protocol(**values)
        if not hasattr(made, "probes"):
            raise ProtocolError(f"{protocol.__name__}.__init__ does not call super().__init__(**values)")
        return made
    except ConstantError as error:
        message = f"constant {error.name}{' ' if error.problem.startswith('is ') else ': '}{error.problem}"
        found = config.constants.get(error.name)
        if found is None:
            raise InputError(f"{config.file}: {message}") from None
        _raise_at_name(message, found)


def _require_constructor_takes_constants(protocol: type[Protocol], values: dict[str, Value]) -> None:
    """Raise ProtocolError if the protocol's constructor does not accept its constants as keywords."""
    try:
        signature(protocol.__init__).bind(None, **values)
    except TypeError as error:
        code = unwrap(protocol.__init__).__code__
        raise ProtocolError(
            f"{code.co_filename}:{code.co_firstlineno}: {protocol.__name__}.__init__: {error}; expected"
            " def __init__(self, **values): constants, declared by constant(...), are given as keywords"
        ) from None


def _raise_at_name(message: str, named: ConstantAssignment | PositionedName) -> NoReturn:
    """Raise ConfigError with `message`, at the position of the name `named` in a `.cfg` or a setting."""
    where = f"{SETTING_OPTION} {named.name}" if named.position.file == SETTING_OPTION else None
    raise ConfigError(message, named.position, where)


# Constants


def _enum_members_by_name(protocol: type[Protocol]) -> dict[str, list[enum.Enum]]:
    """Return a protocol's enum members by their name in a `.cfg`; members of several enums may share a name."""
    found: dict[str, list[enum.Enum]] = {}
    for kind in protocol.symbols:
        for symbol in kind:
            found.setdefault(enum_name(symbol), []).append(symbol)
    return found


def _set_members_at_any_depth(value: Value) -> Iterator[Value]:
    """Yield the members of a set, and of nested sets; none for any other value."""
    for member in value if isinstance(value, frozenset) else ():
        yield member
        yield from _set_members_at_any_depth(member)


def _as_declared_type(protocol: type[Protocol], declared: Constant, value: Value) -> Value:
    """Return a constant's value, with model values replaced by the enum members, or None, of the declared type."""
    hint = type_hints(protocol).get(declared.attribute, Any)
    kinds = [kind for kind in _type_with_nested_types(hint) if is_enum(kind)]
    if any(issubclass(kind, int | str) for kind in kinds):
        model_values: dict[str, Value] = {}
        map_model_values(value, lambda leaf: model_values.setdefault(leaf.name, leaf))
        try:
            return TlaValueDecoder(TlaValueEncoder((), {}), model_values, ()).of(hint)(value)
        except TlaTypeMismatchError:
            return value
    named: dict[str, Value] = {name: member for kind in kinds for name, member in enum_members_by_name(kind).items()}
    if type(None) in _type_with_nested_types(hint):
        named.setdefault(protocol.none_is, None)
    return map_model_values(value, lambda leaf: named.get(leaf.name, leaf)) if named else value


def _type_with_nested_types(kind: Any) -> list[Any]:
    return [kind, *(found for argument in get_args(kind) for found in _type_with_nested_types(argument))]


def _unknown_constant_message(
    protocol: type[Protocol], assignment: ConstantAssignment, is_member: bool, symbols: dict[str, list[enum.Enum]]
) -> str:
    name = assignment.name
    if name in symbols or is_member:
        what = f"a name of {protocol.name()} itself" if name in symbols else "a model value here"
        return f"{name} is {what}: expected {name} = {name}, found {name} = {text_of(assignment.value)}"
    return unknown_name_message("constant", name, [*protocol.constants, *protocol.accepted_constants], protocol.name())


def _require_all_constants(protocol: type[Protocol], config: ModelConfig) -> None:
    hints = type_hints(protocol)
    missing = [
        f"{declared.name} = {describe_type(hints.get(declared.attribute, Any))}"
        f"{' (0 rules its steps out)' if declared.is_bound else ''}"
        for declared in protocol.constants.values()
        if declared.default is NO_DEFAULT and declared.name not in config.constants
    ]
    if missing:
        noun = "constant" if len(missing) == 1 else "constants"
        how = "in the .cfg, by --set, or as default="
        raise InputError(f"{config.file}: {noun} not given a value; expected {', '.join(missing)} ({how})")


# Properties


def _refuse_unsupported_sections(config: ModelConfig) -> None:
    if config.alias is not None:
        _raise_at_name(f"ALIAS {config.alias.name} is not supported: states are shown as they are", config.alias)
    if config.postcondition is not None:
        message = f"POSTCONDITION {config.postcondition.name} is not supported; expected properties of states or steps"
        _raise_at_name(message, config.postcondition)


def _find_properties(
    what: str,
    names: Iterable[PositionedName],
    fitting: list[Property],
    others: list[Property],
    protocol: type[Protocol],
) -> tuple[Property, ...]:
    """Return the properties of the given names; raise ConfigError for a name that is not among `fitting`."""
    by_name = {prop.name: prop for prop in fitting}
    kinds = {other.name: other.kind for other in others}
    for named in names:
        if named.name in kinds:
            _raise_at_name(_wrong_keyword_message(named.name, kinds[named.name], what), named)
        if named.name not in by_name:
            own = [p.name for p in fitting if p.kind.replace("_", " ") == what]
            _raise_at_name(unknown_name_message(what, named.name, own, protocol.name()), named)
    return tuple(by_name[named.name] for named in names)


def _wrong_keyword_message(name: str, kind: str, what: str) -> str:
    """Return the error message for a property under the wrong `.cfg` keyword; it names the right keyword."""
    if kind in (*GRAPH_PROPERTY_KINDS, REFINES):
        known = {REACHABLE: "is a reachability goal", REFINES: "is a refinement"}
        says = known.get(kind, "is a temporal property")
        return f"{name} {says}, so it is no {what}; name it under PROPERTY"
    if what != "action constraint":
        return f"{name} is about steps, so it is no {what}; name it under PROPERTY or ACTION_CONSTRAINT"
    return f"{name} is about states, so it is no {what}; name it under INVARIANT or CONSTRAINT"


def _find_step_or_graph_property(named: PositionedName, fitting: list[Property], protocol: type[Protocol]) -> Property:
    """Return the property that PROPERTY names: a temporal property, a step invariant, or a reachability goal."""
    for prop in fitting:
        if prop.name == named.name:
            return prop
    if named.name in protocol.properties:
        _raise_at_name(f"{named.name} is about states, so it is no temporal property; name it under INVARIANT", named)
    known = [prop.name for prop in fitting if prop.kind in ("step_invariant", REFINES, *GRAPH_PROPERTY_KINDS)]
    _raise_at_name(unknown_name_message("property", named.name, known, protocol.name()), named)


def _require_known_name(
    what: str, named: PositionedName | None, known: Iterable[str], protocol: type[Protocol]
) -> str | None:
    if named is not None and named.name not in known:
        _raise_at_name(unknown_name_message(what, named.name, known, protocol.name()), named)
    return None if named is None else named.name


def _initial_state_name(protocol: type[Protocol], config: ModelConfig) -> str:
    """Return the name of the initial state that INIT, or SPECIFICATION, selects."""
    starts, other = methods_by_init_name(protocol), protocol.accepted_names
    _require_known_name("next-state relation", config.next, ("Next", *other), protocol)
    name = _require_known_name("start", config.init, (*starts, *other), protocol)
    return name if name in starts else "Init"


def _specified_or_declared_fairness(protocol: type[Protocol], config: ModelConfig) -> tuple[Fairness, ...]:
    """Return the fairness that SPECIFICATION requires, or the actions' own without one."""
    try:
        return protocol.fairness_of(None if config.specification is None else config.specification.name)
    except ProtocolError as error:
        assert config.specification is not None
        _raise_at_name(str(error), config.specification)


def _drop_unknown_init_next_specification(
    protocol: type[Protocol], config: ModelConfig
) -> tuple[ModelConfig, list[str]]:
    """Remove unknown names under INIT, NEXT and SPECIFICATION, so that defaults apply; return a warning for each."""
    names = protocol.accepted_names
    known = {"init": (*methods_by_init_name(protocol), *names), "next": ("Next", *names)}
    known["specification"] = (FAIR_SPEC, *protocol.specifications)
    given = {keyword: getattr(config, keyword) for keyword in known}
    other = {word: named for word, named in given.items() if named is not None and named.name not in known[word]}
    warnings = [
        f"{named.position}: {protocol.name()} has no {word.upper()} {named.name}; it is taken for the protocol's own"
        for word, named in other.items()
    ]
    return replace(config, **dict.fromkeys(other)), warnings  # type: ignore[arg-type]


def bind_leniently(
    protocol: type[Protocol], config: ModelConfig, *, whole_space: bool, properties: bool = False
) -> tuple[BoundConfig, list[str]]:
    """Bind a configuration, by default without its properties, to compare traces or state sets; return warnings too."""
    known = protocol.properties
    warnings = [
        f"{named.position}: {protocol.name()} has no property {named.name}; nothing depends on it here"
        for named in (*config.invariants, *config.properties)
        if named.name not in known
    ]
    kept = protocol.properties if properties else {}
    invariants, behaviours = (
        tuple(named for named in names if named.name in kept) for names in (config.invariants, config.properties)
    )
    config = replace(config, invariants=invariants, properties=behaviours, alias=None, postcondition=None)
    config, renamed = _drop_unknown_init_next_specification(protocol, config)
    warnings += renamed
    if config.specification is not None and protocol.specifications.get(config.specification.name) is True:
        config = replace(config, specification=None)  # it requires fairness that the protocol does not declare
    if not whole_space:
        config = replace(config, constraints=(), action_constraints=(), view=None)
    return bind(protocol, config), warnings

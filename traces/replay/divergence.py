"""Explanation of a divergence: differences, enabled steps, and the reason why the trace's action is disabled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from kraftcheck.spec.diagnosis.action_explanation import ActionExplanation, action_explanations_text, explain_action
from kraftcheck.spec.language.semantics import Semantics, Transition
from kraftcheck.spec.language.state import State
from kraftcheck.spec.tla.state_conversion import TlaStateConverter
from kraftcheck.spec.tla.text import format_on_one_line, sort_in_tlc_order
from kraftcheck.spec.tla.types import TlaVariablesError
from kraftcheck.spec.values import Map, ModelValue, Record, Value, escape_invisible, field_names, text_of, truncate_text

MOST_PLACE_CHARACTERS = 96
"""Maximum length of an argument in a path."""


class VariableDifference(NamedTuple):
    """A difference between two states at a path."""

    path: str  # the variable with arguments and fields, such as `log[n1][2].epoch`
    trace: str | None  # the trace's value as TLA+ text; None if it has none
    protocol: str | None  # the protocol's value
    is_element: bool = False  # whether it is an element of only one of two sets

    def __str__(self) -> str:
        if self.protocol is None:
            what = f"{self.trace} is in the trace only" if self.is_element else f"{self.trace} in the trace only"
        elif self.trace is None:
            what = f"{self.protocol} is missing in the trace" if self.is_element else f"{self.protocol} is missing"
        else:
            what = f"{self.trace} in the trace, {self.protocol} by the protocol"
        return f"{self.path}: {what}"


def variable_differences(
    trace: Mapping[str, Value], protocol: Mapping[str, Value], names: Mapping[Value, str] | None = None
) -> list[VariableDifference]:
    r"""Return the differences between two states.

    >>> from kraftcheck.spec.tla.text import parse_value
    >>> theirs, ours = parse_value("(n1 :> [e |-> 1, s |-> {}])"), parse_value("(n1 :> [e |-> 2, s |-> {n2}])")
    >>> print(*variable_differences({"x": theirs}, {"x": ours}), sep="\n")
    x[n1].e: 1 in the trace, 2 by the protocol
    x[n1].s: n2 is missing in the trace
    """
    comparison = _DifferenceFinder(names or {})
    found: list[VariableDifference] = []
    for name in dict.fromkeys((*protocol, *trace)):
        if name in trace and name in protocol:
            found += comparison.between(name, trace[name], protocol[name])
        else:
            found.append(comparison.difference(name, trace.get(name), protocol.get(name)))
    return found


class _DifferenceFinder:
    def __init__(self, names: Mapping[Value, str]) -> None:
        self._names = {value: ModelValue(name) for value, name in names.items()}

    def text(self, value: Value) -> str:
        """Return a value on one line, with short names of replicas."""
        return format_on_one_line(self._named(value))

    def _short(self, value: Value) -> str:
        return truncate_text(self.text(value), MOST_PLACE_CHARACTERS)

    def _named(self, value: Value) -> Value:
        kind = type(value)
        if kind is tuple:
            return tuple(map(self._named, value))
        if kind is frozenset:
            return frozenset(map(self._named, value))
        if kind is Map:
            short = self._names.get(value)
            if short is not None:
                return short
            return Map([(self._named(key), self._named(item)) for key, item in value.items()])
        return value

    def difference(self, path: str, trace: Value, protocol: Value, *, is_element: bool = False) -> VariableDifference:
        """Return a difference; None stands for a missing value."""
        texts = [None if value is None else self.text(value) for value in (trace, protocol)]
        return VariableDifference(path, texts[0], texts[1], is_element)

    def between(self, path: str, trace: Value, protocol: Value) -> Iterator[VariableDifference]:
        """Yield the differences between two values at a path."""
        if trace is protocol or (type(trace) is type(protocol) and trace == protocol):
            return
        if isinstance(trace, Map | tuple) and isinstance(protocol, Map | tuple):
            if _is_compared_by_element(trace, protocol):
                yield from self._functions(path, trace, protocol)
                return
        elif type(trace) is frozenset and type(protocol) is frozenset:
            yield from self._sets(path, trace, protocol)
            return
        yield self.difference(path, trace, protocol)

    def _functions(self, path: str, trace: Value, protocol: Value) -> Iterator[VariableDifference]:
        theirs, ours = _function_as_mapping(trace), _function_as_mapping(protocol)
        more, less = [key for key in theirs if key not in ours], [key for key in ours if key not in theirs]
        for key in sort_in_tlc_order(key for key in ours if key in theirs):
            yield from self.between(path + self._place(key, ours), theirs[key], ours[key])
        for key, near in self._paired(more, less):
            if key is not None and near is not None:
                place = path + self._place(near, ours)
                yield from self.between(place, key, near)
                yield from self.between(place, theirs[key], ours[near])
            elif key is not None:
                yield self.difference(path + self._place(key, theirs), theirs[key], None)
            else:
                yield self.difference(path + self._place(near, ours), None, ours[near])

    def _sets(self, path: str, trace: frozenset[Value], protocol: frozenset[Value]) -> Iterator[VariableDifference]:
        for element, near in self._paired(list(trace - protocol), list(protocol - trace)):
            if element is not None and near is not None:
                yield from self.between(f"{path}{{{self._short(near)}}}", element, near)
            else:
                yield self.difference(path, element, near, is_element=True)

    def _paired(self, more: list[Value], less: list[Value]) -> Iterator[tuple[Value, Value]]:
        """Yield pairs of similar records; every value without a similar one is paired with None."""
        rest = sort_in_tlc_order(less)
        for value in sort_in_tlc_order(more):
            near = min(rest, key=lambda other: _field_distance(value, other), default=None)
            if near is not None and 2 * _field_distance(value, near) <= len(value if isinstance(value, Map) else ()):
                rest.remove(near)
                yield value, near
            else:
                yield value, None
        for value in rest:
            yield None, value

    def _place(self, key: Value, function: Mapping[Value, Value]) -> str:
        if type(key) is str and all(type(name) is str for name in function):
            return f".{key}"
        return f"[{self._short(key)}]"


def _function_as_mapping(value: Value) -> Mapping[Value, Value]:
    """Return a TLA+ function as a mapping; a sequence is a function with the domain 1..n."""
    return dict(enumerate(value, start=1)) if type(value) is tuple else value


def _is_compared_by_element(one: Value, other: Value) -> bool:
    """Whether to compare two functions element by element: for records, whether they have the same fields."""
    if type(one) is tuple or type(other) is tuple:
        return type(one) is type(other) or not one or not other or not (_is_tla_record(one) or _is_tla_record(other))
    if _is_tla_record(one) or _is_tla_record(other):
        return set(one) == set(other)
    return True


def _is_tla_record(value: Value) -> bool:
    return isinstance(value, Map) and len(value) > 0 and all(type(key) is str for key in value)


def _field_distance(one: Value, other: Value) -> float:
    """Return the number of different fields of two records; infinity if their field names differ."""
    if not (_is_tla_record(one) and _is_tla_record(other) and set(one) == set(other)):
        return float("inf")
    return float(sum(type(one[name]) is not type(other[name]) or one[name] != other[name] for name in one))


MOST_SHOWN_DIFFERENCES = 3
"""Maximum number of differences in a reason."""

MOST_VALUE_CHARACTERS = 100
"""Maximum length of a value in a reason."""


class DivergenceKind(StrEnum):
    """The kind of a divergence."""

    START = "start"
    """The first state is not an initial state."""
    STEP = "step"
    """No step leads to the state."""
    NAME = "name"
    """A step leads to the state, but with another action than in the trace."""
    STUTTERING = "stuttering"
    """The state is repeated, without an action that does so and without a mark for stuttering."""
    STATE = "state"
    """The state is not a state of the protocol."""


class EnabledActionWithStepTexts(NamedTuple):
    """An enabled action with its steps: actor and delivered message."""

    action: str
    ways: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first state of a trace that the protocol cannot reach from the state before."""

    kind: DivergenceKind
    number: int  # of the state in the trace
    line: int  # of the file, where the state begins
    before: int | None  # the number of the state before; None for the first state
    action: str | None  # the action in the trace, if any
    headline: str  # the problem as one sentence, without the differences
    nearest: str | None = None  # the protocol's step to the most similar state, if any
    differences: tuple[
        VariableDifference, ...
    ] = ()  # from the target of the nearest step, or from the nearest initial state
    enabled: tuple[EnabledActionWithStepTexts, ...] = ()  # the enabled actions in the state before
    disabled: tuple[ActionExplanation, ...] = ()  # why the trace's action is disabled; none if it is enabled or unknown
    theirs: str = "trace"  # the word for the state's source: "trace" or "dump"

    @property
    def why(self) -> str | None:
        """Why the trace's action is disabled, as text; None if it is enabled or unknown."""
        return action_explanations_text(self.action, list(self.disabled)) if self.disabled and self.action else None

    @property
    def reason(self) -> str:
        """The headline with the first few differences."""
        if not self.differences or self.kind in (DivergenceKind.NAME, DivergenceKind.STUTTERING):
            return self.headline
        return f"{self.headline}; that has {_differences_text(self.differences, self.theirs)}"


class DivergingState(NamedTuple):
    """A state of a trace that diverges; `Divergence` explains the first four fields."""

    number: int
    line: int
    before: int | None
    action: str | None
    variables: Mapping[str, Value] | None  # None for an untyped format
    problem: TlaVariablesError | None = None  # the reason why it is not a state of the protocol, if so


class DivergenceExplainer:
    """Explains the divergence of a state."""

    def __init__(self, semantics: Semantics, view: TlaStateConverter, theirs: str = "trace") -> None:
        self._theirs = theirs
        self._semantics = semantics
        self._view = view
        self._protocol = semantics.protocol
        self._network_actions = semantics.network.own_actions()
        self._actions = [*self._protocol.actions, *self._network_actions]

    def no_start(self, wanted: DivergingState, starts: Iterable[State]) -> Divergence:
        """Explain why a state is not an initial state."""
        found = min((self._differences(wanted, state) for state in starts), key=len)
        text = self._problem(wanted) or f"state {wanted.number} is no initial state"
        text += "; compared with the nearest initial state" if found else ""
        kind = DivergenceKind.STATE if wanted.problem else DivergenceKind.START
        return Divergence(kind, wanted.number, wanted.line, None, None, text, None, tuple(found), theirs=self._theirs)

    def no_step(self, wanted: DivergingState, state: State, leading: Sequence[Transition] = ()) -> Divergence:
        """Explain why no step, or no step of the trace's action, leads to a state."""
        steps = list(self._semantics.transitions(state))
        named = [step for step in steps if step.action == wanted.action]
        nearest, found = self._nearest(wanted, named if leading or named else steps)
        kind, text = self._problem_of(wanted, state, steps, leading)
        if kind is DivergenceKind.STUTTERING:
            found = []
        shown = None if nearest is None else self.step_text(nearest)
        if shown is not None and kind in (DivergenceKind.STATE, DivergenceKind.STEP):
            text += f"; the nearest step{' of that name' if named else ''} is {shown}"
        disabled = () if named else self._disabled(state, wanted.action)
        return Divergence(
            kind, wanted.number, wanted.line, wanted.before, wanted.action, text, shown, tuple(found),
            self._enabled(steps), disabled, self._theirs,
        )  # fmt: skip

    def _disabled(self, state: State, action: str | None) -> tuple[ActionExplanation, ...]:
        return tuple(explain_action(self._semantics, state, action)) if action in self._actions and action else ()

    def _problem_of(
        self, wanted: DivergingState, state: State, steps: Sequence[Transition], leading: Sequence[Transition]
    ) -> tuple[DivergenceKind, str]:
        """Return the kind and the description of a divergence, without the nearest step."""
        if leading:
            names = " or ".join(dict.fromkeys(map(self.step_text, leading)))
            text = f"state {wanted.number} follows from state {wanted.before} by {names}, not by"
            text += f" {escape_invisible(str(wanted.action))} as the {self._theirs} says{self._unknown(wanted.action)}"
            return DivergenceKind.NAME, text
        if wanted.problem is not None:
            return DivergenceKind.STATE, self._problem(wanted) or ""
        if self._differences(wanted, state) == []:
            text = f"state {wanted.number} is state {wanted.before} again, and no action does that; nor does the "
            return DivergenceKind.STUTTERING, f"{text}{self._theirs} call it stuttering"
        text = f"state {wanted.number} does not follow from state {wanted.before}"
        text += f" by {escape_invisible(wanted.action)}{self._unknown(wanted.action)}" if wanted.action else ""
        return DivergenceKind.STEP, text + ("" if steps else ", from which nothing follows at all")

    def _problem(self, wanted: DivergingState) -> str | None:
        if wanted.problem is None:
            return None
        return f"state {wanted.number} is no state of {self._protocol.name()}: {wanted.problem}"

    def _unknown(self, name: str | None) -> str:
        known = name is None or name in self._actions
        return "" if known else f" (there is no action of that name in {self._protocol.name()})"

    def _differences(self, wanted: DivergingState, state: State) -> list[VariableDifference]:
        if wanted.variables is None:
            return []
        return variable_differences(
            wanted.variables, self._view.variables(state), short_names_by_tla_replica_id(self._view, state)
        )

    def _nearest(
        self, wanted: DivergingState, steps: Sequence[Transition]
    ) -> tuple[Transition | None, list[VariableDifference]]:
        """Return the step to the most similar state, and the differences."""
        if wanted.variables is None or not steps:
            return None, []
        return min(((step, self._differences(wanted, step.target)) for step in steps), key=lambda pair: len(pair[1]))

    def _enabled(self, steps: Iterable[Transition]) -> tuple[EnabledActionWithStepTexts, ...]:
        ways: dict[str, dict[str, None]] = {name: {} for name in self._actions}
        for step in steps:
            ways[step.action][self._way(step)] = None
        return tuple(EnabledActionWithStepTexts(name, tuple(found)) for name, found in ways.items() if found)

    def step_text(self, step: Transition) -> str:
        """Return a step as text: `HandleVote by n2 on Vote from n1`."""
        return f"{step.action} {self._way(step)}"

    def _way(self, step: Transition) -> str:
        if step.action in self._network_actions:
            who = "by the network"
        else:
            who = "by the environment" if step.actor is None else f"by {text_of(step.actor)}"
        if step.message is None:
            return who
        kind = type(step.message)
        sender = f" from {text_of(step.message.source)}" if "source" in field_names(kind) else ""  # type: ignore[attr-defined]
        return f"{who} on {kind.__name__}{sender}"


def short_names_by_tla_replica_id(view: TlaStateConverter, state: State) -> dict[Value, str]:
    """Return short names for replica ids that are records, by their TLA+ values."""
    ids = [key for key in state.replicas if isinstance(key, Record)]
    return {view.encode(key): text_of(key) for key in ids}


def _differences_text(found: Sequence[VariableDifference], theirs: str) -> str:
    """Return the first few differences as text."""
    texts = [_difference_text(difference, theirs) for difference in found[:MOST_SHOWN_DIFFERENCES]]
    more = len(found) - MOST_SHOWN_DIFFERENCES
    return "; ".join(texts) + (f"; and {more} more {'difference' if more == 1 else 'differences'}" if more > 0 else "")


def _difference_text(difference: VariableDifference, theirs: str) -> str:
    trace, protocol = (
        truncate_text(text or "", MOST_VALUE_CHARACTERS) for text in (difference.trace, difference.protocol)
    )
    path, is_element = difference.path, difference.is_element
    if difference.trace is None:
        return f"{path} {'with' if is_element else '='} {protocol} (not in the {theirs})"
    if difference.protocol is None:
        return f"{path} without {trace} (in the {theirs})" if is_element else f"no {path} (in the {theirs}: {trace})"
    return f"{path} = {protocol} (in the {theirs}: {trace})"

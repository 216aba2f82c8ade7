"""Results of searches, the same for every engine; behaviours; and the bookkeeping of a run.

A behaviour is a path of states with the steps along it. The bookkeeping has limits, violations, progress and time.
`SearchRequest` is defined in `request.py`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from kraftcheck.explorer.request import Progress as Progress
from kraftcheck.explorer.request import Search as Search
from kraftcheck.explorer.request import SearchRequest as SearchRequest
from kraftcheck.spec.encoding import encode
from kraftcheck.spec.errors import InputError, RaisedError
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.protocol import DEADLOCK as DEADLOCK
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics, Transition
from kraftcheck.spec.language.state import State
from kraftcheck.spec.language.views import HiddenReadLog
from kraftcheck.spec.type_checks import check_arguments
from kraftcheck.spec.values import Record, Value, field_names, field_values, ordered, text_of

if TYPE_CHECKING:
    import pandas as pd

    from kraftcheck.spec.diagnosis.lint import ConditionalPropertyPart, VacuousProperty


class Verdict(StrEnum):
    """Verdict of a search."""

    OK = "ok"
    VIOLATION = "violation"
    DEADLOCK = "deadlock"
    ASSERTION = "assertion"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True)
class TraceStep:
    """A state of a behaviour, and the step that led to it.

    Attributes
    ----------
    state : State
        The state.
    action : str or None
        Name of the action that led to the state; None for an initial state.
    actor : value or None
        Id of the replica that took the step, or None.
    message : record or None
        The delivered message, or None.
    """

    state: State
    action: str | None = None
    actor: Any = None
    message: Any = None


class DeadEndCounts(NamedTuple):
    """The states from which a `@reachable` property cannot be reached."""

    states: int  # number of these states
    among: int  # number of states searched


class UnmappedStep(NamedTuple):
    """A step that maps to no step of the abstract protocol, as states of that protocol."""

    before: State | None  # None if `after` should be an initial state
    after: State


class LassoCycle(NamedTuple):
    """The cycle of an infinite counterexample."""

    back_to: int  # number, from 1, of the state where the cycle begins; for stuttering, of the last state
    again: TraceStep | None = None  # the step that leads back to that state; None for stuttering
    kept: tuple[str, ...] = ()  # for each fairness condition, how the cycle satisfies it
    never: tuple[str, ...] = ()  # for actions that would help the property, why they are never taken


@dataclass(frozen=True)
class Violation:
    """A violated property, a deadlock, or a failed `assert`, with a counterexample.

    Attributes
    ----------
    property : str
        Name of the property; "Deadlock" for a deadlock.
    trace : tuple of TraceStep
        Behaviour from an initial state to the violation.
    trap : DeadEndCounts or None
        For a `@reachable` property: the states from which it cannot be reached. The trace ends in a nearest one.
    loop : LassoCycle or None
        For a temporal property: the cycle at the end of the trace.
    failed : RaisedError or None
        The error of a failed `assert`; `property` then names the action or property that raised it. The trace ends in
        the state in which it was called.
    unmapped : UnmappedStep or None
        For a refinement: the abstract states of the last step.
    """

    property: str
    trace: tuple[TraceStep, ...]
    trap: DeadEndCounts | None = None
    loop: LassoCycle | None = None
    failed: RaisedError | None = None
    unmapped: UnmappedStep | None = None

    def is_of_behaviours(self) -> bool:
        """Whether the violation was found on the complete state graph, not in a state or a step."""
        return self.trap is not None or self.loop is not None


INTERRUPTED_LIMIT = "interrupted"
ERROR_LIMIT = "error"
MEMORY_LIMIT = "memory"
STRICT_LIMIT = "strict"
NOTHING_CHECKED_WARNING = (
    "nothing is checked: neither a property nor deadlock; name an INVARIANT or a PROPERTY, or check for deadlock"
)
NOTHING_SEARCHED = "no state was searched"


@dataclass
class Result:
    """Result of a search.

    Attributes
    ----------
    verdict : Verdict
        How the search ended.
    violations : list of Violation
        Each violated property once, in the order of discovery.
    distinct_states : int
        States found, up to symmetry and view.
    generated_states : int
        Initial states and transitions, including self-loops.
    depth : int or None
        Deepest level of any state; initial states are level 1. In a complete breadth-first search it is the number of
        states on the longest shortest path. None for a depth-first search.
    actions : dict of str to int
        Number of times that each action of the protocol fired.
    handler_calls : dict of str to int
        Number of times that each action was called in Python; otherwise its memoized result was used.
    complete : bool
        Whether every reachable state was visited.
    limit : str or None
        The limit that ended the search: "max_states", "max_depth", "max_nodes", "time_limit", "memory" or
        "interrupted"; "strict" if only `doubts` prevent the verdict ok.
    seconds : float
        Time of the search, without compilation.
    compile_seconds : float
        Time of compiling the kernel, once on each machine.
    uncounted : list of str
        Actions that fired an unknown number of times; `actions` and `generated_states` leave them out.
    workers : int
        Number of threads that searched.
    engine : str
        Name of the engine, if one was chosen.
    runs : int or None
        Number of walks of a random simulation; None for a search.
    notes : list of str
        Remarks for the user, for example about slow properties.
    warnings : list of str
        Likely mistakes in the model, or in the request.
    vacuous : list of Vacuity or None
        Properties that hold vacuously, with reasons; None if unknown.
    never_evaluated : dict of str to list of ConditionalPropertyPart, or None
        Parts that were never evaluated, by property; None if unknown.
    """

    verdict: Verdict = Verdict.OK
    violations: list[Violation] = field(default_factory=list)
    distinct_states: int = 0
    generated_states: int = 0
    depth: int | None = 0
    actions: dict[str, int] = field(default_factory=dict)
    handler_calls: dict[str, int] = field(default_factory=dict)
    uncounted: list[str] = field(default_factory=list)
    complete: bool = True
    limit: str | None = None
    seconds: float = 0.0
    compile_seconds: float = 0.0
    workers: int = 1
    engine: str = ""
    runs: int | None = None
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    vacuous: list[VacuousProperty] | None = None
    never_evaluated: dict[str, list[ConditionalPropertyPart]] | None = None

    @property
    def doubts(self) -> list[str]:
        """Reasons for `--strict` to reject an ok verdict: warnings, and properties that hold vacuously."""
        never = self.never_enabled if self.complete and self.runs is None else []
        return [
            *self.warnings,
            *([f"never enabled in this model: {', '.join(never)}"] if never else []),
            *(f"{one.property} holds vacuously: {one.reason}" for one in self.vacuous or ()),
            *(["which properties hold vacuously is not known"] if self.vacuous is None else []),
        ]

    @property
    def trace(self) -> tuple[TraceStep, ...]:
        """The first counterexample, with the step to each state; empty without a violation."""
        return self.violations[0].trace if self.violations else ()

    @property
    def only_of_behaviours(self) -> bool:
        """Whether all violations are of `@reachable` or temporal properties."""
        return bool(self.violations) and all(one.trap or one.loop for one in self.violations)

    @property
    def counts_distinct(self) -> bool:
        """Whether distinct states are counted; for a corpus made on many machines they are not."""
        return self.runs is None or self.distinct_states > 0

    @property
    def states_per_second(self) -> float:
        """Distinct states a second, or all states a second if distinct ones are not counted."""
        states = self.distinct_states if self.counts_distinct else self.generated_states
        return states / self.seconds if self.seconds > 0 else 0.0

    @property
    def never_enabled(self) -> list[str]:
        """Names of actions that never fired."""
        return [name for name, times in self.actions.items() if times == 0]


class Interrupted(KeyboardInterrupt):
    """Raised after the user interrupted a search.

    Attributes
    ----------
    result : Result
        The result so far.
    """

    def __init__(self, result: Result) -> None:
        super().__init__()
        self.result = result


Behaviour = tuple[TraceStep, ...]


# Behaviours


class NoSuchPathError(InputError):
    """Raised when the reference semantics cannot follow a path of states, for example after an impure action."""

    def __init__(self, semantics: Semantics, problem: str) -> None:
        super().__init__(
            f"{semantics.protocol.name()}: the behaviour found cannot be replayed: {problem}; most likely an"
            " action is not pure, as kraftcheck check --check-actions shows"
        )


def unmapped_last_step(semantics: Semantics, prop: Property, trace: Behaviour) -> UnmappedStep:
    """Return the abstract states of the last step of a behaviour under a refinement mapping."""
    refinement = semantics.refinement(prop)
    ends = [refinement.mapped[refinement.number(step.state)] for step in trace[-2:]]
    return UnmappedStep(ends[0] if len(ends) > 1 else None, ends[-1])


def trace_step_of_transition(transition: Transition) -> TraceStep:
    """Return a transition as a step of a behaviour."""
    return TraceStep(transition.target, transition.action, transition.actor, transition.message)


def behaviour_along(
    semantics: Semantics,
    path: Sequence[Any],
    *,
    actions: Sequence[str] | None = None,
    starts: Iterable[State] = (),
    class_of: Callable[[State], Any] | None = None,
) -> Behaviour:
    """Return a behaviour of the reference semantics along a path of states, or of their classes."""
    see = class_of or (lambda state: state)
    first = next((state for state in (starts if class_of else path[:1]) if see(state) == path[0]), None)
    if first is None:
        raise NoSuchPathError(semantics, "it begins in no initial state")
    steps = [TraceStep(first)]
    for number, wanted in enumerate(path[1:]):
        fitting = [
            taken
            for taken in semantics.transitions(steps[-1].state)
            if (actions is None or taken.action == actions[number]) and see(taken.target) == wanted
        ]
        if not fitting:
            raise NoSuchPathError(semantics, f"no step leads from its state {number + 1} to the next")
        steps.append(trace_step_of_transition(least_transition(fitting)))
    return tuple(steps)


def least_transition(transitions: Iterable[Transition]) -> Transition:
    """Return the transition that comes first in canonical order: by action, actor, message and target."""

    def order(taken: Transition) -> tuple[str, bytes]:
        parts = (taken.actor, taken.message, taken.target)
        return taken.action, b"".join(encode(() if part is None else part) for part in parts)

    found = list(transitions)
    return found[0] if len(found) == 1 else min(found, key=order)


def find_error_in_steps_from(
    semantics: Semantics, state: State, properties: Sequence[Property], *constraints: Sequence[Property]
) -> RaisedError | None:
    """Take every step out of a state and check its target; return the first error that a method raises.

    A constraint that does not hold ends the evaluation of further ones, as in a search.
    """
    trace: Behaviour = ()

    def holds(prop: Property) -> bool:
        if prop.over_steps:
            return semantics.step_satisfies(prop, state, taken)
        return semantics.holds(prop, taken.target)

    try:
        for taken in semantics.transitions(state):
            trace = (trace_step_of_transition(taken),)
            all(all(map(holds, group)) for group in constraints)
            deque(map(holds, properties), maxlen=0)  # evaluates each
            trace = ()
    except RaisedError as error:
        error.trace = trace
        return error
    return None


# Behaviours as pandas tables


@check_arguments
def to_pandas(behaviour: Result | Violation | Iterable[TraceStep]) -> pd.DataFrame:
    """Return a behaviour as a table with a row for each state.

    Parameters
    ----------
    behaviour : Result, Violation or iterable of TraceStep
        A result (its first counterexample; no rows without one), a violation, or the steps themselves.

    Returns
    -------
    pandas.DataFrame
        The index is the number of the state, from 1. The first columns are the `action`, `actor` and `message` of the
        step to it. Each field of a replica (`n1.epoch`), each shared field, and the used amount of each bound follow.
        Numbers, truth values and strings are themselves; other values are text.

    Raises
    ------
    InputError
        If pandas, an extra, is not installed.
    """
    if find_spec("pandas") is None:
        raise InputError("to_pandas needs the package pandas: pip install 'kraftcheck[pandas]'")
    import pandas as pd

    steps = behaviour if not isinstance(behaviour, Result | Violation) else behaviour.trace
    rows = [_step_as_row(step) for step in steps]
    index = pd.RangeIndex(1, len(rows) + 1, name="state")
    return pd.DataFrame(rows, index=index, columns=None if rows else ["action", "actor", "message"])


def _step_as_row(step: TraceStep) -> dict[str, Any]:
    state = step.state
    row = {"action": step.action, "actor": _value_as_cell(step.actor), "message": _value_as_cell(step.message)}
    for key in ordered(state.replicas):
        replica = state.replicas[key]
        row |= {f"{text_of(key)}.{name}": cell for name, cell in _record_as_cells(replica).items() if name != "id"}
    return row | _record_as_cells(state.shared) | {name: state.spent[name] for name in ordered(state.spent)}


def _record_as_cells(record: Record) -> dict[str, Any]:
    return dict(zip(field_names(type(record)), map(_value_as_cell, field_values(record)), strict=True))


def _value_as_cell(value: Value) -> Any:
    return value if value is None or type(value) in (bool, int, str) else text_of(value)


# The bookkeeping of a run


class SearchClock:
    """Clock that stops during compilation, which does not count as time of a search."""

    def __init__(self) -> None:
        self.compiling = 0.0

    def now(self) -> float:
        """Return the time in seconds since an arbitrary moment."""
        return time.monotonic() - self.compiling


SEARCH_CLOCK = SearchClock()
"""The clock of all searches in this process; `kernel_compilation.py` stops it."""


class SearchStopped(Exception):  # noqa: N818 - a way out of the search, not an error
    """Raised to end a search before it is complete."""


class SearchCounts(NamedTuple):
    """Counts of a search so far."""

    distinct: int  # distinct states
    generated: int  # initial states and transitions
    actions: dict[str, int]  # times each action fired
    handler_calls: dict[str, int]  # times each action was called in Python
    uncounted: Sequence[str] = ()  # actions that fired an unknown number of times, which `actions` leaves out
    evaluations: Mapping[str, int] = MappingProxyType({})  # times each property's reads were recorded


def hidden_read_recorder(protocol: Protocol, options: SearchRequest, *, first_found: bool) -> HiddenReadLog | None:
    """Return a recorder of the methods that read what the VIEW hides (fields, bounds); None without a VIEW."""
    if options.view is None:
        return None
    from kraftcheck.explorer.calls.inspection import find_proxy_revealing_methods  # few searches have a VIEW

    reads = HiddenReadLog(
        options.view, protocol.hidden(options.view), find_proxy_revealing_methods(protocol), first_found=first_found
    )
    for name, _, spends in protocol.network.own_operations():
        reads.note(f"action {name}", [bound for bound in spends if protocol.bounds[bound]])
    if options.resume is not None:
        reads.note("actions before the checkpoint, perhaps", protocol.views[options.view])
    return reads


class SearchMonitor:
    """Records the findings of a search, and ends it at its limits."""

    def __init__(
        self, options: SearchRequest, sums: Callable[[], SearchCounts], protocol: Protocol, *, first_found: bool = False
    ) -> None:
        self.options, self._total, self._protocol = options, sums, protocol
        self.reads = hidden_read_recorder(protocol, options, first_found=first_found)
        self.result, self.earlier = Result(), 0.0
        self.violated: set[str] = set()
        self._evaluations: Mapping[str, int] = {}
        self.followed: set[str] = set()
        self._began = SEARCH_CLOCK.now()

    def result_of(self, search: Callable[[], None], notes: Callable[[], list[str]] = list) -> Result:
        """Run a search; return its result."""
        before, self._protocol.hidden_reads = self._protocol.hidden_reads, self.reads
        try:
            search()
        except SearchStopped:
            pass
        except RaisedError as error:
            if not error.is_assertion or error.trace is None:
                raise
            self.result.violations.insert(0, Violation(error.name, error.trace, failed=error))
        except KeyboardInterrupt:
            self.record_limit(INTERRUPTED_LIMIT)
            raise Interrupted(self._conclude(notes)) from None
        finally:
            self._protocol.hidden_reads = before
        return self._conclude(notes)

    def _conclude(self, notes: Callable[[], list[str]]) -> Result:
        self.tally()
        result = self.result
        result.notes += notes()
        result.warnings += [NOTHING_CHECKED_WARNING] if self.options.checks_nothing else []
        result.warnings += self._nothing_searched()
        if self.reads is not None:
            self.reads.enough_left |= 0 < len(self.options.over_behaviours) == len(self.followed)
            result.warnings += self.reads.warnings()
        result.notes += self._unchecked(self.options.reachable, "reachability was")
        result.notes += self._unchecked(self.options.temporal, "temporal properties were")
        if not result.violations:
            result.verdict = Verdict.OK if result.complete else Verdict.INCOMPLETE
            return result
        safety = {violation.property for violation in result.violations if not violation.is_of_behaviours()}
        if result.violations[0].failed is not None:
            result.verdict, result.complete = Verdict.ASSERTION, False
        else:
            result.verdict = Verdict.DEADLOCK if safety == {DEADLOCK} else Verdict.VIOLATION
            result.complete = result.complete and (self.options.keep_going or not safety)
        return result

    def _nothing_searched(self) -> list[str]:
        """Return a warning if no state was searched because every initial state violates a constraint."""
        found, names = self.result, ", ".join(dict.fromkeys(prop.name for prop in self.options.constraints))
        if not names or found.runs is not None or found.distinct_states or found.limit:
            return []
        return [f"{NOTHING_SEARCHED}: every initial state violates CONSTRAINT {names}"]

    def _unchecked(self, properties: tuple[Property, ...], what: str) -> list[str]:
        """Return a note about the reachability or temporal properties that the search did not check."""
        names = ", ".join(prop.name for prop in properties if prop.name not in self.followed)
        stopped, violated = "the search did not visit every state", "a violation ended the search (see --continue)"
        why = stopped if self.result.limit or self.result.runs is not None else violated
        return [f"{names}: {what} not checked, since {why}"] if names else []

    def tally(self) -> None:
        """Update the counts of the result."""
        result, totals = self.result, self._total()
        result.distinct_states, result.generated_states = totals.distinct, totals.generated
        result.actions, result.handler_calls = totals.actions, totals.handler_calls
        result.uncounted, self._evaluations = list(totals.uncounted), totals.evaluations
        result.seconds = self.seconds

    @property
    def seconds(self) -> float:
        """Seconds that the search has taken, including the time before it was resumed."""
        return self.earlier + SEARCH_CLOCK.now() - self._began

    def report(self, frontier: int, nodes: int | None = None) -> None:
        """Report the progress: the number of states left to expand, or the number of diagram nodes."""
        self.tally()
        result = self.result
        if self.options.report is not None:
            counts = result.distinct_states, result.generated_states, result.depth or 0, frontier
            calls = result.handler_calls, self._evaluations
            self.options.report(Progress(*counts, result.seconds, nodes, *calls))

    def check_time_limit(self, frontier: int, nodes: int | None = None) -> None:
        """Stop at the time limit; else report the progress."""
        if self.is_out_of_time:
            self.stop_at("time_limit")
        self.report(frontier, nodes)

    @property
    def is_out_of_time(self) -> bool:
        """Whether the search has passed its time limit."""
        limit = self.options.time_limit
        return limit is not None and SEARCH_CLOCK.now() - self._began > limit

    def violation(
        self, name: str, trace: Behaviour, trap: DeadEndCounts | None = None, loop: LassoCycle | None = None
    ) -> None:
        """Record a violated property once; end the search unless it continues after violations."""
        if name in self.violated:
            return
        self.violated.add(name)
        self.result.violations.append(self._with_mapping(Violation(name, trace, trap, loop)))
        if not self.options.keep_going:
            raise SearchStopped

    def _with_mapping(self, violation: Violation) -> Violation:
        """Return a violation of a refinement with the abstract states of its last step, another one unchanged."""
        prop = next((prop for prop in self.options.refinements if prop.name == violation.property), None)
        if prop is None or violation.failed is not None:
            return violation
        return replace(violation, unmapped=unmapped_last_step(Semantics(self._protocol), prop, violation.trace))

    def restart(self) -> None:
        """Drop the findings of the search; its clock keeps running."""
        self.result = Result()
        self.violated = set()

    def restore(self, violations: list[Violation], seconds: float) -> None:
        """Restore the violations and the elapsed seconds of a resumed search."""
        violations[:] = map(self._with_mapping, violations)  # in place: a checkpoint appends to the same list
        self.result.violations = violations
        self.violated = {violation.property for violation in violations}
        self.earlier = seconds

    def record_limit(self, limit: str) -> None:
        """Record the limit that ended the search before it was complete."""
        self.result.complete, self.result.limit = False, limit

    def stop_at(self, limit: str) -> None:
        """End the search because it reached a limit."""
        self.record_limit(limit)
        raise SearchStopped

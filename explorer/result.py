"""Results of searches, the same for every engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from kraftcheck.explorer.request import Progress as Progress
from kraftcheck.explorer.request import Search as Search
from kraftcheck.explorer.request import SearchRequest as SearchRequest
from kraftcheck.spec.errors import RaisedError
from kraftcheck.spec.language.protocol import DEADLOCK as DEADLOCK
from kraftcheck.spec.language.state import State

if TYPE_CHECKING:
    from kraftcheck.spec.diagnosis.vacuity import Part, Vacuity


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


class Trap(NamedTuple):
    """The states from which a `@reachable` property cannot be reached."""

    states: int  # number of these states
    among: int  # number of states searched


class Unmapped(NamedTuple):
    """A step that maps to no step of the abstract protocol, as states of that protocol."""

    before: State | None  # None if `after` should be an initial state
    after: State


class Loop(NamedTuple):
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
    trap : Trap or None
        For a `@reachable` property: the states from which it cannot be reached. The trace ends in a nearest one.
    loop : Loop or None
        For a temporal property: the cycle at the end of the trace.
    failed : RaisedError or None
        The error of a failed `assert`; `property` then names the action or property that raised it. The trace ends in
        the state in which it was called.
    unmapped : Unmapped or None
        For a refinement: the abstract states of the last step.
    """

    property: str
    trace: tuple[TraceStep, ...]
    trap: Trap | None = None
    loop: Loop | None = None
    failed: RaisedError | None = None
    unmapped: Unmapped | None = None

    def is_of_behaviours(self) -> bool:
        """Whether the violation was found on the complete state graph, not in a state or a step."""
        return self.trap is not None or self.loop is not None


INTERRUPTED = "interrupted"
MEMORY = "memory"
STRICT = "strict"
NOTHING_CHECKED = (
    "nothing is checked: neither a property nor deadlock; name an INVARIANT or a PROPERTY, or check for deadlock"
)


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
    never_evaluated : dict of str to list of Part, or None
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
    vacuous: list[Vacuity] | None = None
    never_evaluated: dict[str, list[Part]] | None = None

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

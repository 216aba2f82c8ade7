"""What a search finds, the same for every engine."""

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
    """How a search ended."""

    OK = "ok"
    VIOLATION = "violation"
    DEADLOCK = "deadlock"
    ASSERTION = "assertion"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True)
class TraceStep:
    """One state of a behaviour and how it was reached.

    Attributes
    ----------
    state
        The state.
    action
        Name of the action that led here, None for an initial state.
    actor
        The id of the replica that took it, or None.
    message
        The message that was delivered, or None.
    """

    state: State
    action: str | None = None
    actor: Any = None
    message: Any = None


class Trap(NamedTuple):
    """The states from which what should stay reachable is not."""

    states: int  # how many they are
    among: int  # how many states were searched


class Loop(NamedTuple):
    """How a behaviour goes on for ever."""

    back_to: int  # the number of the state that comes again, the first being 1: the last one's where it stutters
    again: TraceStep | None = None  # the step that leads back, its state being that one; None where it stutters
    kept: tuple[str, ...] = ()  # how what is repeated meets each condition of fairness
    never: tuple[str, ...] = ()  # of actions that would change what the property waits for, why they are never taken


@dataclass(frozen=True)
class Violation:
    """A property that does not hold, a deadlock, or an `assert` that failed, with a behaviour that shows it.

    Attributes
    ----------
    property
        The property's name; "Deadlock" for a deadlock.
    trace
        States from an initial one to the one that shows it.
    trap
        For what should stay reachable: the states that have no way out, of which the trace ends in a nearest one.
    loop
        For a temporal property: how the trace goes on for ever.
    failed
        Where `property` names an action or a property in which an `assert` failed: the error. The trace leads to the
        state in which it was called.
    """

    property: str
    trace: tuple[TraceStep, ...]
    trap: Trap | None = None
    loop: Loop | None = None
    failed: RaisedError | None = None

    def is_of_behaviours(self) -> bool:
        """Whether it is about what follows for ever, not about a state or a step."""
        return self.trap is not None or self.loop is not None


INTERRUPTED = "interrupted"
MEMORY = "memory"
STRICT = "strict"
NOTHING_CHECKED = (
    "nothing is checked: neither a property nor deadlock; name an INVARIANT or a PROPERTY, or check for deadlock"
)


@dataclass
class Result:
    """What a search found.

    Attributes
    ----------
    verdict
        How it ended.
    violations
        Each violated property once, in the order of discovery.
    distinct_states
        States found, up to symmetry and view.
    generated_states
        Initial states and transitions, self-loops included.
    depth
        The deepest level of any state found, the initial states being level 1: in a complete search the states on
        the longest shortest path. None for a depth-first search.
    actions
        Times each action of the protocol fired.
    handler_calls
        Times each action was called in Python; other times its outcome was memoised.
    complete
        Whether every reachable state was visited.
    limit
        Which limit ended it ("max_states", "max_depth", "max_nodes", "time_limit", "memory",
        "interrupted"), or None; "strict" where `doubts` alone keep the verdict from being ok.
    seconds
        Time it took, without that for compiling.
    compile_seconds
        Time for which the kernel was compiled, once on a machine.
    uncounted
        Actions that fired, nobody knows how often: they are not among `actions`, nor their steps in `generated_states`.
    workers
        Threads that searched.
    engine
        The name of the engine that searched, where one was chosen.
    runs
        Walks made by a random simulation; None for a search.
    notes
        What the user should know: what was slow, and why.
    warnings
        What looks like a slip in the model, or in what is checked.
    vacuous
        Properties that hold vacuously, each with the reason; None where this is not known.
    never_evaluated
        By property, the parts that were never evaluated; None where this is not known.
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
        """Why `--strict` does not accept that nothing is violated: warnings, and what holds vacuously."""
        never = self.never_enabled if self.complete and self.runs is None else []
        return [
            *self.warnings,
            *([f"never enabled in this model: {', '.join(never)}"] if never else []),
            *(f"{one.property} holds vacuously: {one.reason}" for one in self.vacuous or ()),
            *(["which properties hold vacuously is not known"] if self.vacuous is None else []),
        ]

    @property
    def trace(self) -> tuple[TraceStep, ...]:
        """The first counterexample: its states, each with how it was reached; empty where nothing is violated."""
        return self.violations[0].trace if self.violations else ()

    @property
    def only_of_behaviours(self) -> bool:
        """Whether all that is violated is what should stay reachable, or a temporal property."""
        return bool(self.violations) and all(violation.is_of_behaviours() for violation in self.violations)

    @property
    def counts_distinct(self) -> bool:
        """Whether the distinct states are counted: those of a corpus that many machines make are not."""
        return self.runs is None or self.distinct_states > 0

    @property
    def states_per_second(self) -> float:
        """Distinct states a second; where these are not counted, all."""
        states = self.distinct_states if self.counts_distinct else self.generated_states
        return states / self.seconds if self.seconds > 0 else 0.0

    @property
    def never_enabled(self) -> list[str]:
        """Names of actions that never fired."""
        return [name for name, times in self.actions.items() if times == 0]


class Interrupted(KeyboardInterrupt):
    """The user interrupted a search.

    Attributes
    ----------
    result
        What was found until then.
    """

    def __init__(self, result: Result) -> None:
        super().__init__()
        self.result = result

"""Traces walked through a protocol: does it do the same, and if not, where do the two part?

Memory does not grow with a file: states are read, compared with what the protocol does next, and let go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from os import PathLike, fspath

from kraftcheck.spec.display import text_of
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics, Transition
from kraftcheck.spec.language.starts import initial_states
from kraftcheck.spec.language.state import State
from kraftcheck.spec.language.symmetry import Permutation, permutation_group, permuted
from kraftcheck.spec.tla.view import StateView, ViewError
from kraftcheck.spec.values import Value
from kraftcheck.traces.errors import TraceError
from kraftcheck.traces.files import stream_traces
from kraftcheck.traces.parsing.lines import DEFAULT_LIMIT
from kraftcheck.traces.parsing.value_cache import ValueCache
from kraftcheck.traces.replay.divergence import Divergence, Judge, Wanted
from kraftcheck.traces.replay.states import StateReader
from kraftcheck.traces.trace import Trace, TraceEnd, TraceFormat, TraceHead, TraceState

REMEMBERED = 10_000
"""States after which what was learned of the protocol is forgotten, so that memory does not grow with a file."""

LARGEST_GROUP = 50_000
"""Permutations that are tried."""


class Verdict(StrEnum):
    """What became of a trace."""

    CONFORMS = "conforms"
    DIVERGES = "diverges"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Replay:
    """What became of one trace.

    Attributes
    ----------
    file, index
        The file, and the trace's place among those of the file, from 0.
    format
        Its format; None where the file could not be read so far.
    steps
        Transitions of the trace, that back to an earlier state included.
    verdict
        Whether it conforms.
    actions
        The protocol's action for each step, as far as it conforms.
    divergence
        Where and why it diverges, or None.
    problem
        Why it could not be read, or could not be read to its end; or None.
    notes
        What was seen besides, such as a permutation of hosts.
    violated
        The name of the property that the trace violates, where it names one.
    """

    file: str
    index: int
    format: TraceFormat | None
    steps: int
    verdict: Verdict
    actions: tuple[str, ...] = ()
    divergence: Divergence | None = None
    problem: str | None = None
    notes: tuple[str, ...] = ()
    violated: str | None = None

    @property
    def diverged_at(self) -> int | None:
        """The number of the state that cannot follow, as the trace numbers it; or None."""
        return None if self.divergence is None else self.divergence.number

    @property
    def reason(self) -> str | None:
        """Why the trace does not conform, or could not be read; None where it does."""
        return self.problem if self.divergence is None else self.divergence.reason


@dataclass(frozen=True, slots=True)
class Step:
    """A state of a trace that conforms, with the step that led there.

    Attributes
    ----------
    index
        The trace's place among those of its file.
    number
        The state's number, as the trace has it; for a step back to an earlier state, that one's.
    before, state
        The states; `before` is None for an initial state.
    transition
        The protocol's step, or None for an initial state. Under symmetry it may lead to a permutation of the state.
    """

    index: int
    number: int
    before: State | None
    state: State
    transition: Transition | None


class Replayer:
    """Walks traces through a protocol.

    A step conforms when an action of the protocol leads from the state before to exactly the next one, and has the
    name that the trace gives it. What was learned of one trace is used for the next.

    Parameters
    ----------
    protocol
        The protocol, with its constants.
    init
        Where traces begin: "Init", or the name of a scenario.
    symmetry
        The name of the symmetry under which the traces were made, or None: then a step may lead to a permutation of
        a next state. An initial state may always be a permutation of ours, under any symmetry of the protocol.
    limit_bytes
        What a file may unpack to.
    report
        Called for every state of every trace.
    watch
        Called with every state that conforms.
    """

    def __init__(
        self,
        protocol: Protocol,
        *,
        init: str = "Init",
        symmetry: str | None = None,
        limit_bytes: int = DEFAULT_LIMIT,
        report: Callable[[], None] | None = None,
        watch: Callable[[Step], None] | None = None,
    ) -> None:
        self._report = report
        self.watch = watch
        self.protocol = protocol
        self.limit_bytes = limit_bytes
        self._learn()
        self.starts = initial_states(self.semantics, init)
        self._cache = ValueCache()
        self._groups: dict[str | None, list[Permutation]] = {None: []}
        self.symmetry = symmetry

    def _learn(self) -> None:
        self.semantics = Semantics(self.protocol)
        self.view = StateView(self.protocol)
        self.judge = Judge(self.semantics, self.view)
        self._walked = 0

    def forgets(self) -> bool:
        """Count a state; forget what was learned, and say so, where it has become much."""
        self._walked += 1
        if self._walked < REMEMBERED:
            return False
        self._learn()
        return True

    def replay(self, path: str | PathLike[str]) -> Iterator[Replay]:
        """Walk the traces of a file, in memory that does not grow with the file.

        Parameters
        ----------
        path
            The file, of any format that `traces.read_traces` takes.

        Yields
        ------
        Replay
            What became of each trace. Where the file cannot be read, or not to its end, the last one says so.

        Raises
        ------
        ProtocolError
            Where the protocol breaks the language's contract.
        """
        walk: _Walk | None = None
        index = 0
        try:
            for event in stream_traces(path, limit_bytes=self.limit_bytes, cache=self._cache):
                if isinstance(event, TraceHead):
                    walk = _Walk(self, event, partial(self._read_again, event))
                    continue
                assert walk is not None
                if isinstance(event, TraceState):
                    if self._report is not None:
                        self._report()
                    walk.take(event)
                else:
                    yield walk.end(event)
                    walk, index = None, index + 1
        except TraceError as error:
            if walk is None:
                yield Replay(fspath(path), index, None, 0, Verdict.UNREADABLE, problem=str(error))
            else:
                yield walk.broken(error)

    def replay_trace(self, trace: Trace) -> Replay:
        """Walk a trace that is in memory.

        Parameters
        ----------
        trace
            The trace.

        Returns
        -------
        Replay
            What became of it.

        Raises
        ------
        ProtocolError
            Where the protocol breaks the language's contract.
        """
        head = TraceHead(trace.file, trace.index, trace.format, trace.violated, trace.problem, trace.untyped)
        walk = _Walk(self, head, lambda number: trace.states[number - 1])
        for state in trace.states:
            walk.take(state)
        return walk.end(TraceEnd(trace.ending, trace.complete))

    def _read_again(self, head: TraceHead, number: int) -> TraceState:
        """Return an earlier state of a trace, which is not kept."""
        index = -1
        for event in stream_traces(head.file, limit_bytes=self.limit_bytes, cache=self._cache):
            index += isinstance(event, TraceHead)
            if index == head.index and isinstance(event, TraceState) and event.number == number:
                return event
        raise TraceError(head.file, 1, 1, "a file that has changed meanwhile", f"state {number} again")

    def group(self, symmetry: str | None) -> list[Permutation]:
        """Return the permutations of a symmetry but the identity; none where there are too many to try."""
        found = self._groups.get(symmetry)
        if found is None:
            assert symmetry is not None
            sets = self.protocol.symmetry_sets(symmetry)
            found = self._groups[symmetry] = [] if _order(sets) > LARGEST_GROUP else permutation_group(sets)[1:]
        return found

    @property
    def widest_symmetry(self) -> str | None:
        """The protocol's widest symmetry."""
        known = self.protocol.symmetries
        return max(known, key=lambda name: len(known[name]), default=None)

    def reader(self, head: TraceHead) -> StateReader:
        """Return what reads the states of a trace."""
        limit, name = self.limit_bytes, self.protocol.name()
        return StateReader(self.view, name, head.file, limit_bytes=limit, untyped=head.untyped)


class _Walk:
    """One trace, state by state."""

    def __init__(self, replayer: Replayer, head: TraceHead, earlier: Callable[[int], TraceState]) -> None:
        self._of = replayer
        self._head = head
        self._earlier = earlier
        self._reader = replayer.reader(head)
        self._state: State | None = None
        self._number = 0
        self._actions: list[str] = []
        self._divergence: Divergence | None = None
        self._problem: str | None = None
        self._notes: dict[str, None] = {}

    def take(self, found: TraceState) -> None:
        """Take the next state."""
        self._number = found.number
        if self._of.forgets():
            self._reader = self._of.reader(self._head)
        if self._divergence is not None or self._problem is not None:
            return
        try:
            self._follow(found)
        except TraceError as error:
            self._problem = str(error)

    def end(self, end: TraceEnd) -> Replay:
        """Return what became of the trace."""
        steps = max(0, self._number - 1)
        if end.ending is not None and end.ending.back_to is not None:
            steps += 1
            if self._divergence is None and self._problem is None:
                self._back(end.ending.back_to, end.ending.action)
        if not end.complete:
            self._notes[f"the file ends after state {self._number}, before the trace is seen to end"] = None
        if self._divergence is None and self._problem is None and self._holds(self._head.violated):
            self._notes[f"{self._head.violated}, which it is said to violate, holds in its last state"] = None
        if end.ending is not None and end.ending.back_to is None:
            self._notes["it stutters for ever in the last state, which no action need do"] = None
        return self._replay(steps)

    def _holds(self, violated: str | None) -> bool:
        """Whether a property of states that the protocol has is true of the last state."""
        known = self._of.protocol.properties.get(violated or "")
        if known is None or known.over_steps or self._state is None:
            return False
        return self._of.semantics.holds(known, self._state)

    def broken(self, error: TraceError) -> Replay:
        """Return what became of a trace whose file cannot be read further."""
        if self._problem is None:
            self._problem = str(error)
        return self._replay(max(0, self._number - 1))

    def _replay(self, steps: int) -> Replay:
        head = self._head
        verdict = Verdict.CONFORMS
        if self._divergence is not None:
            verdict = Verdict.DIVERGES
        elif self._problem is not None:
            verdict = Verdict.UNREADABLE
        return Replay(
            head.file,
            head.index,
            head.format,
            steps,
            verdict,
            tuple(self._actions),
            self._divergence,
            self._problem,
            tuple(self._notes),
            head.violated,
        )

    def _follow(self, found: TraceState) -> None:
        target = self._reader.state(found)
        if isinstance(target, ViewError):
            before = None if self._state is None else found.number - 1
            variables = None if self._head.untyped else found.variables
            self._diverge(Wanted(found.number, found.line, before, found.action, variables, target))
        elif self._state is None:
            self._start(found, target)
        else:
            self._step(found, found.number - 1, found.action, target)

    def _step(self, found: TraceState, before: int, action: str | None, target: State) -> None:
        """Go on to a state, if it follows."""
        assert self._state is not None
        steps = list(self._of.semantics.transitions(self._state))
        leading = [step for step in steps if step.target == target]
        exactly = bool(leading)
        if not exactly:
            leading = self._permuted(steps, before, found.number, target)
        fitting = [step for step in leading if action in (None, step.action)]
        if fitting:
            self._actions.append(fitting[0].action)
            earlier, self._state = self._state, fitting[0].target if exactly else target
            self._watch(found, earlier, fitting[0])
            return
        wanted = Wanted(found.number, found.line, before, action, self._of.view.variables(target))
        if leading:
            self._divergence = self._of.judge.other_name(wanted, self._state, steps, leading)
        else:
            self._divergence = self._of.judge.no_step(wanted, self._state, steps)

    def _watch(self, found: TraceState, before: State | None, transition: Transition | None) -> None:
        if self._of.watch is not None:
            assert self._state is not None
            self._of.watch(Step(self._head.index, found.number, before, self._state, transition))

    def _start(self, found: TraceState, target: State) -> None:
        self._state = target
        if target in self._of.starts:
            self._watch(found, None, None)
            return
        for permutation in self._of.group(self._of.widest_symmetry):
            if permuted(target, permutation) in self._of.starts:
                self._notes[f"it begins in an initial state in which {_in_words(permutation)}"] = None
                self._watch(found, None, None)
                return
        wanted = Wanted(found.number, found.line, None, None, self._of.view.variables(target))
        self._divergence = self._of.judge.no_start(wanted, self._of.starts)

    def _permuted(self, steps: list[Transition], before: int, number: int, target: State) -> list[Transition]:
        """Return the steps that lead to a permutation of a state, all by the same one."""
        targets = {step.target for step in steps}
        for permutation in self._of.group(self._of.symmetry):
            image = permuted(target, permutation)
            if image in targets:
                where = f"from state {before} to state {number} under SYMMETRY"
                self._notes[f"{where}: in the latter {_in_words(permutation)}"] = None
                return [step for step in steps if step.target == image]
        return []

    def _diverge(self, wanted: Wanted) -> None:
        if self._state is None:
            self._divergence = self._of.judge.no_start(wanted, self._of.starts)
        else:
            steps = list(self._of.semantics.transitions(self._state))
            self._divergence = self._of.judge.no_step(wanted, self._state, steps)

    def _back(self, number: int, action: str | None) -> None:
        """Follow the step from the last state back to an earlier one."""
        found = self._earlier(number)
        target = self._reader.state(found)
        assert isinstance(target, State)  # it was when it was walked through
        self._step(found, self._number, action, target)


def _in_words(permutation: Permutation) -> str:
    """Say which values stand for which: the permutation leads from the trace's state to ours."""
    moved = [f"{text_of(old)} stands for our {text_of(new)}" for old, new in permutation.items() if old != new]
    return ", ".join(moved)


def _order(sets: tuple[tuple[Value, ...], ...]) -> int:
    result = 1
    for values in sets:
        for number in range(2, len(values) + 1):
            result *= number
    return result

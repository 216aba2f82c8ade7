"""Replays traces: does the protocol take the same steps, and if not, where do the two diverge?

Memory does not grow with a file: each state is read, compared with the protocol's next states, and dropped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from math import factorial, prod
from os import PathLike, fspath

from kraftcheck.explorer.canonical import canonicalizer
from kraftcheck.spec.language.formula import Fairness
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics, Transition, initial_states
from kraftcheck.spec.language.state import Permutation, State, permutation_group, permuted
from kraftcheck.spec.tla.types import ViewError, few
from kraftcheck.spec.tla.view import StateView
from kraftcheck.spec.values import text_of
from kraftcheck.traces.parsing import DEFAULT_LIMIT, Source, TraceError, ValueCache
from kraftcheck.traces.replay.claims import Claim, ClaimJudge, ClaimVerdict
from kraftcheck.traces.replay.divergence import Divergence, Judge, Wanted
from kraftcheck.traces.trace import Trace, TraceEnd, TraceEvent, TraceFormat, TraceHead, TraceState, stream_traces


@dataclass(frozen=True, slots=True)
class StateReader:
    """Reads the states of one file."""

    view: StateView
    name: str
    file: str
    limit_bytes: int
    untyped: bool = False

    def state(self, found: TraceState) -> State | ViewError:
        """Return the protocol's state that has the variables of one in the file."""
        missing = [name for name in self.view.names if name not in found.variables]
        unknown = [name for name in found.variables if name not in self.view.names]
        if missing or unknown:
            parts = [f"{word} {few(names)}" for word, names in (("without", missing), ("with", unknown)) if names]
            expected = f"the variables of {self.name}"
            raise TraceError(self.file, found.line, 1, f"a state {' and '.join(parts)}", expected)
        try:
            return self.view.state(found.variables, untyped=self.untyped)
        except ViewError as error:
            if not error.wrong_kind:
                return error
            line, column = self._place_of(error.variable, found.line)
            expected = f"{error.expected} for {error.path} in state {found.number}"
            raise TraceError(self.file, line, column, error.found, expected) from None

    def _place_of(self, variable: str, state_line: int) -> tuple[int, int]:
        """Return the line and column at which the value of a variable begins, or those of the state.

        It reads the file again, since only an error needs it. A file that is no text of variables, or does not show
        the variable in that state, has the place of the state.
        """
        value = re.compile(rf"(?:/\\ )?{re.escape(variable)} = (?=.)")
        try:
            for number, line in Source(self.file, limit_bytes=self.limit_bytes).lines():
                found = value.match(line) if number >= state_line else None
                if found is not None:
                    return number, found.end() + 1
                if number > state_line and not line:
                    break
        except TraceError:  # it was read before
            pass
        return state_line, 1


REMEMBERED = 10_000
"""States after which memoised results of the protocol are dropped, so that memory does not grow with a file."""

LARGEST_GROUP = 50_000
"""Permutations that are tried, at most; a larger symmetry is ignored."""


class ReplayVerdict(StrEnum):
    """The verdict on a trace."""

    CONFORMS = "conforms"
    DIVERGES = "diverges"
    REFUTED = "refuted"
    """Its steps conform, and what it claims of them is false."""
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Replay:
    """The result of replaying one trace.

    Attributes
    ----------
    file, index
        The file, and the trace's place among those of the file, from 0.
    format
        Its format; None where the file could not be read up to the trace.
    steps
        Transitions of the trace, that back to an earlier state included.
    verdict
        Whether it conforms.
    actions
        The protocol's action for each step, as far as it conforms.
    divergence
        The first state that cannot follow, and why; or None.
    problem
        The error in reading it, or None.
    notes
        Remarks, such as that hosts are permuted.
    violated
        The name of the property that the trace says is violated, where it names one.
    claim
        What the trace claims, judged, where it conforms and claims anything.
    """

    file: str
    index: int
    format: TraceFormat | None
    steps: int
    verdict: ReplayVerdict
    actions: tuple[str, ...] = ()
    divergence: Divergence | None = None
    problem: str | None = None
    notes: tuple[str, ...] = ()
    violated: str | None = None
    claim: Claim | None = None

    @property
    def diverged_at(self) -> int | None:
        """The number of the state that cannot follow, as the trace numbers it; or None."""
        return None if self.divergence is None else self.divergence.number

    @property
    def reason(self) -> str | None:
        """Why the trace does not conform, could not be read, or claims what is false; else None."""
        if self.verdict is ReplayVerdict.REFUTED and self.claim is not None:
            return f"{self.claim.what} is claimed, but {self.claim.says}"
        return self.problem if self.divergence is None else self.divergence.reason


@dataclass(frozen=True, slots=True)
class ReplayedState:
    """A state of a trace that conforms, with the step that led there."""

    index: int  # the trace's place among those of its file
    number: int  # the state's number, as the trace has it; for a step back to an earlier state, that one's
    before: State | None  # the states; `before` is None for an initial state
    state: State
    # the protocol's step, or None for an initial state. Under symmetry it may lead to a permutation of the state.
    transition: Transition | None


class Replayer:
    """Walks traces through a protocol.

    A step conforms when an action of the protocol leads from the state before to exactly the next one, and has the
    name that the trace gives it. Memoised results of one trace serve the next.

    Parameters
    ----------
    protocol
        The protocol, with its constants.
    init
        The start of the traces: "Init", or the name of a scenario.
    symmetry
        The name of the symmetry under which the traces were made, or None: then a step may lead to a permutation of
        a next state. An initial state may always be a permutation of ours, under any symmetry of the protocol.
    seen_as
        The name of the VIEW under which they were made, or None: then a lasso may lead back to a state but for the
        bounds that it leaves out.
    fairness
        What the specification assumes to be fair.
    limit_bytes
        The most bytes that a file may unpack to.
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
        seen_as: str | None = None,
        fairness: Sequence[Fairness] = (),
        limit_bytes: int = DEFAULT_LIMIT,
        report: Callable[[], None] | None = None,
        watch: Callable[[ReplayedState], None] | None = None,
    ) -> None:
        self._report = report
        self.watch = watch
        self.protocol = protocol
        self.symmetry, self.seen_as, self.fairness = symmetry, seen_as, fairness
        self.limit_bytes = limit_bytes
        self._learn()
        self.starts = initial_states(self.semantics, init)
        self._cache = ValueCache()
        self._groups: dict[str | None, list[Permutation]] = {}

    def _learn(self) -> None:
        self.semantics = Semantics(self.protocol)
        self.view = StateView(self.protocol)
        self.judge = Judge(self.semantics, self.view)
        self._walked = 0

    def count_state(self) -> None:
        """Count a state, and drop memoised results after `REMEMBERED` of them."""
        self._walked += 1
        if self._walked >= REMEMBERED:
            self._learn()
        if self._report is not None:
            self._report()

    def replay(self, path: str | PathLike[str]) -> Iterator[Replay]:
        """Walk the traces of a file, in memory that does not grow with the file.

        Parameters
        ----------
        path
            The file, of any format that `traces.read_traces` takes.

        Yields
        ------
        Replay
            The result for each trace. The last one says so where the file cannot be read, or not to its end.

        Raises
        ------
        ProtocolError
            The protocol breaks the language's contract.
        """
        events = stream_traces(path, limit_bytes=self.limit_bytes, cache=self._cache)
        return self._replay(events, fspath(path), self._read_again)

    def replay_trace(self, trace: Trace) -> Replay:
        """Walk a trace that is in memory.

        Parameters
        ----------
        trace
            The trace.

        Returns
        -------
        Replay
            The result.

        Raises
        ------
        ProtocolError
            The protocol breaks the language's contract.
        """
        (found,) = self._replay(trace.events(), trace.file, lambda head, number: trace.states[number - 1])
        return found

    def _replay(
        self, events: Iterator[TraceEvent], file: str, earlier: Callable[[TraceHead, int], TraceState]
    ) -> Iterator[Replay]:
        """Walk traces; `earlier` returns an earlier state of one."""
        walk: _Walk | None = None
        index = 0
        try:
            for event in events:
                if isinstance(event, TraceHead):
                    walk = _Walk(self, event, partial(earlier, event))
                    continue
                assert walk is not None
                if isinstance(event, TraceState):
                    walk.take(event)
                else:
                    yield walk.end(event)
                    walk, index = None, index + 1
        except TraceError as error:
            if walk is None:
                yield Replay(file, index, None, 0, ReplayVerdict.UNREADABLE, problem=str(error))
            else:
                yield walk.broken(error)

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
        if symmetry not in self._groups:
            sets = () if symmetry is None else self.protocol.symmetry_sets(symmetry)
            few = prod(factorial(len(values)) for values in sets) <= LARGEST_GROUP
            self._groups[symmetry] = permutation_group(sets)[1:] if few else []
        return self._groups[symmetry]

    @property
    def widest_symmetry(self) -> str | None:
        """The protocol's widest symmetry."""
        known = self.protocol.symmetries
        return max(known, key=lambda name: len(known[name]), default=None)

    def reader(self, head: TraceHead) -> StateReader:
        """Return the reader of the states of a trace."""
        return StateReader(self.view, self.protocol.name(), head.file, self.limit_bytes, head.untyped)


@dataclass
class _Walk:
    """One trace, state by state; `earlier` returns one of its states again."""

    replayer: Replayer
    head: TraceHead
    earlier: Callable[[int], TraceState]
    state: State | None = None
    number: int = 0
    actions: list[str] = field(default_factory=list)
    divergence: Divergence | None = None
    problem: str | None = None
    notes: dict[str, None] = field(default_factory=dict)
    claim: Claim | None = None

    def __post_init__(self) -> None:
        self._judge = ClaimJudge(self.replayer.protocol, self.replayer.fairness, self.head)

    def take(self, found: TraceState) -> None:
        """Take the next state."""
        self.number = found.number
        self.replayer.count_state()
        if self.verdict is not ReplayVerdict.CONFORMS:
            return
        try:
            self._follow(found)
        except TraceError as error:
            self.problem = str(error)

    @property
    def verdict(self) -> ReplayVerdict:
        """The verdict so far."""
        if self.divergence is not None:
            return ReplayVerdict.DIVERGES
        if self.problem is not None:
            return ReplayVerdict.UNREADABLE
        refuted = self.claim is not None and self.claim.verdict is ClaimVerdict.REFUTED
        return ReplayVerdict.REFUTED if refuted else ReplayVerdict.CONFORMS

    def end(self, end: TraceEnd) -> Replay:
        """Return the result, given the end of the trace."""
        steps, ending = self.number - 1, end.ending
        if ending is not None and ending.back_to is not None:
            steps += 1
            if self.verdict is ReplayVerdict.CONFORMS:
                self._back(ending.back_to, ending.action)
        if not end.complete:
            self._note(f"the file ends after state {self.number}, before the trace is seen to end")
        if self.verdict is ReplayVerdict.CONFORMS:
            self.claim = self._judge.judge(self.replayer.semantics, ending)
        if ending is not None and ending.back_to is None:
            self._note("it stutters for ever in the last state, which no action need do")
        return self._replay(steps)

    def _note(self, text: str) -> None:
        self.notes[text] = None

    def broken(self, error: TraceError) -> Replay:
        """Return the result for a trace whose file cannot be read further."""
        self.problem = self.problem or str(error)
        return self._replay(self.number - 1)

    def _replay(self, steps: int) -> Replay:
        head = self.head
        return Replay(
            head.file, head.index, head.format, max(0, steps), self.verdict, tuple(self.actions), self.divergence,
            self.problem, tuple(self.notes), head.violated, self.claim,
        )  # fmt: skip

    def _follow(self, found: TraceState) -> None:
        target = self.replayer.reader(self.head).state(found)
        if isinstance(target, ViewError):
            before = None if self.state is None else found.number - 1
            variables = None if self.head.untyped else found.variables
            self._diverge(Wanted(found.number, found.line, before, found.action, variables, target))
        elif self.state is None:
            self._start(found, target)
        else:
            self._step(found, found.number - 1, found.action, self.state, target)

    def _step(self, found: TraceState, before: int, action: str | None, state: State, target: State) -> None:
        """Go on from a state to another, if it follows."""
        steps = list(self.replayer.semantics.transitions(state))
        exact = [step for step in steps if step.target == target]
        leading = exact or self._permuted(steps, before, found.number, target)
        named = [step for step in leading if action in (None, step.action)]
        if not named:
            variables = self.replayer.view.variables(target)
            self._diverge(Wanted(found.number, found.line, before, action, variables), leading)
            return
        self.actions.append(named[0].action)
        self._reach(found, named[0].target if exact else target, named, leading)

    def _reach(
        self, found: TraceState, state: State, named: Sequence[Transition] = (), leading: Sequence[Transition] = ()
    ) -> None:
        before, self.state = self.state, state
        self._judge.take(self.replayer.semantics, (found.number, state), named, leading)
        if self.replayer.watch is not None:
            transition = named[0] if named else None
            self.replayer.watch(ReplayedState(self.head.index, found.number, before, state, transition))

    def _start(self, found: TraceState, target: State) -> None:
        starts = self.replayer.starts
        if target in starts:
            self._reach(found, target)
            return
        for permutation in self.replayer.group(self.replayer.widest_symmetry):
            if permuted(target, permutation) in starts:
                self._note(f"it begins in an initial state in which {_in_words(permutation)}")
                self._reach(found, target)
                return
        self._diverge(Wanted(found.number, found.line, None, None, self.replayer.view.variables(target)))

    def _permuted(self, steps: list[Transition], before: int, number: int, target: State) -> list[Transition]:
        """Return the steps that lead to a permutation of a state, all by the same one."""
        targets = {step.target for step in steps}
        for permutation in self.replayer.group(self.replayer.symmetry):
            image = permuted(target, permutation)
            if image in targets:
                where = f"from state {before} to state {number} under SYMMETRY"
                self._note(f"{where}: in the latter {_in_words(permutation)}")
                return [step for step in steps if step.target == image]
        return []

    def _diverge(self, wanted: Wanted, leading: Sequence[Transition] = ()) -> None:
        judge = self.replayer.judge
        if self.state is None:
            self.divergence = judge.no_start(wanted, self.replayer.starts)
        else:
            self.divergence = judge.no_step(wanted, self.state, leading)

    def _back(self, number: int, action: str | None) -> None:
        """Follow the step from the last state back to an earlier one."""
        found = self.earlier(number)
        target = self.replayer.reader(self.head).state(found)
        assert isinstance(target, State)  # it was when it was walked through
        assert self.state is not None
        steps = [step for step in self.replayer.semantics.transitions(self.state) if action in (None, step.action)]
        alike = None if any(step.target == target for step in steps) else self._made_equal(steps, target)
        if alike is not None:
            self._note(f"it comes back to state {number} but for what VIEW {self.replayer.seen_as} leaves out")
        self._step(found, self.number, action, self.state, alike or target)

    def _made_equal(self, steps: list[Transition], target: State) -> State | None:
        """Return where a step leads that is the target but for the bounds that the VIEW leaves out, if one does."""
        protocol, view = self.replayer.protocol, self.replayer.seen_as
        if view is None or protocol.hidden(view).shared:
            return None
        see = canonicalizer(protocol, None, view)
        return next((step.target for step in steps if see(step.target) == see(target)), None)


def _in_words(permutation: Permutation) -> str:
    """Say which values stand for which: the permutation leads from the trace's state to ours."""
    moved = [f"{text_of(old)} stands for our {text_of(new)}" for old, new in permutation.items() if old != new]
    return ", ".join(moved)

"""Replay of traces: a walk through the protocol along the steps of a trace, up to the first divergence.

Memory is bounded: each state is read, compared with the protocol's next states, and dropped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache, partial
from math import factorial, prod
from os import PathLike, fspath

from kraftcheck.explorer.transition_system import canonicalizer
from kraftcheck.spec.language.formula import Fairness
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics, Transition, initial_states
from kraftcheck.spec.language.state import Permutation, State, permutation_group, permute_model_values
from kraftcheck.spec.tla.state_conversion import TlaStateConverter, action_name_of_label
from kraftcheck.spec.tla.types import TlaVariablesError, name_list_text
from kraftcheck.spec.type_checks import check_arguments
from kraftcheck.spec.values import escape_invisible, text_of
from kraftcheck.traces.parsing import DEFAULT_LIMIT_BYTES, TraceError, TraceFileReader, ValueCache
from kraftcheck.traces.replay.claims import ClaimEvaluator, ClaimVerdict, ClaimWithVerdict
from kraftcheck.traces.replay.divergence import Divergence, DivergenceExplainer, DivergenceKind, DivergingState
from kraftcheck.traces.trace import Trace, TraceEnd, TraceEvent, TraceFormat, TraceHead, TraceState, stream_traces


@dataclass(frozen=True, slots=True)
class TraceStateConverter:
    """Converts the states of one file to states of the protocol."""

    view: TlaStateConverter
    name: str
    file: str
    limit_bytes: int
    untyped: bool = False

    def state(self, found: TraceState) -> State | TlaVariablesError:
        """Return the state of the protocol with the variables of a state in the file, or the error of the view."""
        missing = [name for name in self.view.names if name not in found.variables]
        unknown = [name for name, value in found.variables.items() if not self.view.is_known(name, value)]
        if missing or unknown:
            parts = [
                f"{word} {name_list_text(names)}" for word, names in (("without", missing), ("with", unknown)) if names
            ]
            alike = set(map(_normalized_variable_name, missing)) & set(map(_normalized_variable_name, unknown))
            remedy = " (`tla_snake_case` and `tla_names` in the record set other spellings)" if alike else ""
            expected = f"the variables of {self.name}{remedy}"
            raise TraceError(self.file, found.line, 1, f"a state {' and '.join(parts)}", expected)
        try:
            return self.view.state(found.variables, untyped=self.untyped)
        except TlaVariablesError as error:
            if not error.wrong_kind:
                return error
            line, column = self._place_of(error.variable, found.line)
            expected = f"{error.expected} for {error.path} in state {found.number}"
            raise TraceError(self.file, line, column, error.found, expected) from None

    def _place_of(self, variable: str, state_line: int) -> tuple[int, int]:
        """Return the line and column of a variable's value, or of its state if the file does not show the value.

        Only errors need the place, so this method reads the file again.
        """
        value = re.compile(rf"\W*{re.escape(variable)} = (?=.)")
        try:
            for number, line in TraceFileReader(self.file, limit_bytes=self.limit_bytes).lines():
                found = value.match(line) if number >= state_line else None
                if found is not None:
                    return number, found.end() + 1
                if number > state_line and not line:
                    break
        except TraceError:  # the file has changed since the first read
            pass
        return state_line, 1


def _normalized_variable_name(name: str) -> str:
    return name.replace("_", "").lower()


MEMO_RESET_STATES = 10_000
"""The number of states after which memoised results are dropped, to bound the memory."""

CACHED_STATES = 500
"""The number of states whose steps are kept, since traces of a model often pass the same states."""

MOST_LISTED_ACTIONS = 12
"""Maximum number of a path's actions in a note."""

MOST_BRIDGED_STATES = 50_000
"""States that are searched at most for the steps between two states of a trace that leaves states out."""

LARGEST_PERMUTATION_GROUP = 50_000
"""Limit on the permutations of a symmetry; a larger symmetry is ignored."""


class ReplayVerdict(StrEnum):
    """The verdict on a trace."""

    CONFORMS = "conforms"
    DIVERGES = "diverges"
    REFUTED = "refuted"
    """The steps conform, but the claim of the trace is false."""
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Replay:
    """The result of replaying one trace.

    Attributes
    ----------
    file
        The name of the file.
    index
        The position of the trace in the file, from 0.
    format
        The format of the file; None if the file could not be read up to the trace.
    steps
        The number of transitions, including one back to an earlier state.
    verdict
        The verdict on the trace.
    actions
        The protocol's action for each conforming step.
    divergence
        The first state that the protocol cannot reach, if any, with an explanation.
    problem
        The error while reading the trace, if any.
    notes
        Remarks, such as a permutation of hosts.
    violated
        The name of the violated property in the trace, if any.
    claim
        The claim of a conforming trace with its verdict, if it claims a violation.
    partial
        The gaps of an incomplete trace as clauses, such as missing states or a missing end.
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
    claim: ClaimWithVerdict | None = None
    partial: tuple[str, ...] = ()

    @property
    def diverged_at(self) -> int | None:
        """The number of the diverging state in the trace; None if the trace does not diverge."""
        return None if self.divergence is None else self.divergence.number

    @property
    def reason(self) -> str | None:
        """The reason of a divergence, a read error or a refuted claim; else None."""
        if self.verdict is ReplayVerdict.REFUTED and self.claim is not None:
            return f"{self.claim.what} is claimed, but {self.claim.says}"
        return self.problem if self.divergence is None else self.divergence.reason


@dataclass(frozen=True, slots=True)
class ReplayedState:
    """A conforming state of a trace, with the step that leads to it."""

    index: int  # the position of the trace in its file
    number: int  # the trace's number of the state; a lasso ends in the number of an earlier state
    before: State | None  # None for an initial state
    state: State
    # The protocol's step; None for an initial state. Under symmetry it may lead to a permutation of the state.
    transition: Transition | None


class Replayer:
    """Replays traces through a protocol.

    A step conforms if an action of the protocol leads from one state to exactly the next, and has the action name of
    the trace. Memoised results are shared by all traces.

    Parameters
    ----------
    protocol
        The protocol, with its constants.
    init
        The start of the traces: "Init", or the name of a scenario.
    symmetry
        The name of the symmetry of the traces, or None. With a symmetry, a step may lead to a permutation of a next
        state. An initial state may always be a permutation of the protocol's, under any of its symmetries.
    seen_as
        The name of the VIEW of the traces, or None. With a view, a lasso may close up to the bounds outside the view.
    fairness
        The fairness that the specification assumes.
    limit_bytes
        Limit on the unpacked size of a file, in bytes.
    report
        A callback for every state of every trace.
    watch
        A callback for every conforming state.
    reach_first
        None to require complete traces. Otherwise a trace may begin in the middle and omit states. This number limits
        the search for a path to its first state; without a path the state is taken as given.
    """

    temporal: Sequence[str] = ()
    """The names of the checked temporal properties. TLC 2.15 does not name the violated one."""

    @check_arguments
    def __init__(
        self,
        protocol: Protocol,
        *,
        init: str = "Init",
        symmetry: str | None = None,
        seen_as: str | None = None,
        fairness: Sequence[Fairness] = (),
        limit_bytes: int = DEFAULT_LIMIT_BYTES,
        report: Callable[[], None] | None = None,
        watch: Callable[[ReplayedState], None] | None = None,
        reach_first: int | None = None,
    ) -> None:
        self._report = report
        self.watch = watch
        self.reach_first = reach_first
        self.protocol = protocol
        self.symmetry, self.seen_as, self.fairness = symmetry, seen_as, fairness
        self.limit_bytes = limit_bytes
        self._learn()
        self.starts = initial_states(self.semantics, init)
        self._cache = ValueCache()
        self._groups: dict[str | None, list[Permutation]] = {}

    def names(self, label: str) -> bool:
        """Whether a label is the name of an action."""
        return label in self.protocol.actions or label in self.protocol.network.own_actions()

    def _learn(self) -> None:
        self.semantics = Semantics(self.protocol)
        self.view = TlaStateConverter(self.protocol)
        self.steps = lru_cache(maxsize=CACHED_STATES)(
            partial(_steps_with_interned_targets, self.semantics, lru_cache(maxsize=CACHED_STATES)(lambda state: state))
        )
        self._walked = 0

    def count_state(self) -> None:
        """Count a state; after `MEMO_RESET_STATES` states drop the memoised results."""
        self._walked += 1
        if self._walked >= MEMO_RESET_STATES:
            self._learn()
        if self._report is not None:
            self._report()

    def replay(self, path: str | PathLike[str]) -> Iterator[Replay]:
        """Replay the traces of a file in bounded memory.

        Parameters
        ----------
        path
            The file, in any format of `traces.read_traces`.

        Yields
        ------
        Replay
            The result of each trace. The last result has the error if the file cannot be read to its end.

        Raises
        ------
        ProtocolError
            The protocol breaks a rule of the language.
        """
        return (found for found in self.replay_in_parts(path) if found is not None)

    def replay_in_parts(self, path: str | PathLike[str], states: int | None = None) -> Iterator[Replay | None]:
        """Replay the traces of a file as `replay` does; also yield None after each part of `states` states."""
        events = stream_traces(path, limit_bytes=self.limit_bytes, cache=self._cache)
        return self._replay(events, fspath(path), self._read_again, states)

    def replay_trace(self, trace: Trace) -> Replay:
        """Replay a trace in memory.

        Parameters
        ----------
        trace
            The trace.

        Returns
        -------
        Replay
            The result of the trace.

        Raises
        ------
        ProtocolError
            The protocol breaks a rule of the language.
        """
        (found,) = self._replay(trace.events(), trace.file, partial(_find_state_with_number, trace))
        assert found is not None
        return found

    def _replay(
        self,
        events: Iterator[TraceEvent],
        file: str,
        earlier: Callable[[TraceHead, int], TraceState],
        part: int | None = None,
    ) -> Iterator[Replay | None]:
        """Replay traces given as events; `earlier` returns an earlier state of a trace."""
        walk: _TraceReplay | None = None
        index = 0
        try:
            for event in events:
                if isinstance(event, TraceHead):
                    walk = _TraceReplay(self, event, partial(earlier, event))
                    continue
                assert walk is not None
                if isinstance(event, TraceState):
                    walk.take(event)
                    if part is not None and event.number % part == 0:
                        yield None
                else:
                    yield walk.end(event)
                    walk, index = None, index + 1
        except TraceError as error:
            if walk is None:
                yield Replay(file, index, None, 0, ReplayVerdict.UNREADABLE, problem=str(error))
            else:
                yield walk.broken(error)

    def _read_again(self, head: TraceHead, number: int) -> TraceState:
        """Read an earlier state of a trace again, since states are not kept."""
        index = -1
        for event in stream_traces(head.file, limit_bytes=self.limit_bytes, cache=self._cache):
            index += isinstance(event, TraceHead)
            if index == head.index and isinstance(event, TraceState) and event.number == number:
                return event
        raise TraceError(head.file, 1, 1, "a file changed during the replay", f"state {number}")

    def group(self, symmetry: str | None) -> list[Permutation]:
        """Return the permutations of a symmetry without the identity; none if they exceed the limit."""
        if symmetry not in self._groups:
            sets = () if symmetry is None else self.protocol.symmetry_sets(symmetry)
            few = prod(factorial(len(values)) for values in sets) <= LARGEST_PERMUTATION_GROUP
            self._groups[symmetry] = permutation_group(sets)[1:] if few else []
        return self._groups[symmetry]

    @property
    def widest_symmetry(self) -> str | None:
        """The protocol's symmetry over the most sets."""
        known = self.protocol.symmetries
        return max(known, key=lambda name: len(known[name]), default=None)

    def reader(self, head: TraceHead) -> TraceStateConverter:
        """Return the state reader for a trace."""
        return TraceStateConverter(self.view, self.protocol.name(), head.file, self.limit_bytes, head.untyped)


def _steps_with_interned_targets(
    semantics: Semantics, known: Callable[[State], State], state: State
) -> tuple[Transition, ...]:
    """Return the steps of a state. Equal next states are one object, so that a look-up need not compare them."""
    return tuple(step._replace(target=known(step.target)) for step in semantics.transitions(state))


def _find_state_with_number(trace: Trace, head: TraceHead, number: int) -> TraceState:
    return next(state for state in trace.states if state.number == number)


@dataclass
class _TraceReplay:
    """The replay of one trace, state by state; `earlier` returns an earlier state of the trace."""

    replayer: Replayer
    head: TraceHead
    earlier: Callable[[int], TraceState]
    state: State | None = None
    number: int = 0
    actions: list[str] = field(default_factory=list)
    divergence: Divergence | None = None
    problem: str | None = None
    notes: dict[str, None] = field(default_factory=dict)
    partial: list[str] = field(default_factory=list)
    claim: ClaimWithVerdict | None = None
    first: int | None = None
    gaps: list[range] = field(default_factory=list)  # numbers of the states that the trace omits

    def __post_init__(self) -> None:
        self._judge = ClaimEvaluator(self.replayer.protocol, self.replayer.fairness, self.head, self.replayer.temporal)

    def take(self, found: TraceState) -> None:
        """Replay the next state."""
        before, self.number = self.number, found.number
        if found.number > before + 1:
            self.gaps.append(range(before + 1, found.number))
        self.first = found.number if self.first is None else self.first
        self.replayer.count_state()
        if self.verdict is not ReplayVerdict.CONFORMS:
            return
        try:
            self._follow(found, before)
        except TraceError as error:
            self.problem = str(error)

    @property
    def verdict(self) -> ReplayVerdict:
        """The verdict on the trace up to the last replayed state."""
        if self.divergence is not None:
            return ReplayVerdict.DIVERGES
        if self.problem is not None:
            return ReplayVerdict.UNREADABLE
        refuted = self.claim is not None and self.claim.verdict is ClaimVerdict.REFUTED
        return ReplayVerdict.REFUTED if refuted else ReplayVerdict.CONFORMS

    def end(self, end: TraceEnd) -> Replay:
        """Finish the replay at the end of the trace; return the result."""
        steps, ending = self.number - (self.first or 1), end.ending
        if ending is not None and ending.back_to is not None:
            steps += 1
            if self.verdict is ReplayVerdict.CONFORMS:
                self._back(ending.back_to, ending.action)
        if self.verdict is ReplayVerdict.CONFORMS:
            parts = {"is_cut": not end.complete, "has_gaps": bool(self.gaps)}
            self.claim = self._judge.judge(self.replayer.semantics, ending, **parts)
        if not end.complete:
            self._end_of_cut()
        if ending is not None and ending.back_to is None:
            self._note("it stutters for ever in the last state; no action has to do so")
        return self._replay(steps)

    def _end_of_cut(self) -> None:
        """Add a note on a possibly missing end, unless the last state shows the claim."""
        if self.claim is None or self.claim.verdict is not ClaimVerdict.SHOWN or not self.claim.at_end:
            self._note(f"the file ends after state {self.number}, maybe before the end of the trace")
            self.partial.append(f"cut after state {self.number}")

    def _note(self, text: str) -> None:
        self.notes[text] = None

    def broken(self, error: TraceError) -> Replay:
        """Finish the replay at a read error; return the result."""
        self.problem = self.problem or str(error)
        return self._replay(self.number - (self.first or 1))

    def _replay(self, steps: int) -> Replay:
        head = self.head
        return Replay(
            head.file, head.index, head.format, max(0, steps), self.verdict, tuple(self.actions), self.divergence,
            self.problem, tuple(self.notes), head.violated, self.claim, tuple(self.partial),
        )  # fmt: skip

    def _follow(self, found: TraceState, previous: int) -> None:
        if found.number != previous + 1 and self.replayer.reach_first is None:
            expected = f"state {previous + 1}: `kraftcheck replay` alone takes a trace that leaves states out"
            raise TraceError(self.head.file, found.line, 1, f"state {found.number}", expected)
        found = self._compared(replace(found, action=action_name_of_label(self.replayer.protocol, found.action)))
        target = self.replayer.reader(self.head).state(found)
        if isinstance(target, TlaVariablesError):
            before = None if self.state is None else previous
            variables = None if self.head.untyped else found.variables
            self._diverge(DivergingState(found.number, found.line, before, found.action, variables, target))
        elif self.state is None and found.number == 1:
            self._start(found, target)
        elif self.state is None:
            self._begin_at(found, target)
        elif found.number == previous + 1:
            self._step(found, previous, found.action, self.state, target)
        else:
            self._bridge(found, previous, self.state, target)

    def _compared(self, found: TraceState) -> TraceState:
        """Return a state without the variables of an ALIAS, unless it lacks variables of the protocol."""
        view = self.replayer.view
        more = [name for name, value in found.variables.items() if not view.is_known(name, value)]
        if self.replayer.reach_first is None or not more or not found.variables.keys() >= set(view.names):
            return found
        left_out = f"without {name_list_text(more)}"
        if left_out not in self.partial:
            self.partial.append(left_out)
            self._note(f"{self.replayer.protocol.name()} has no variable {name_list_text(more)}: not compared")
        return replace(found, variables={name: v for name, v in found.variables.items() if name not in more})

    def _action(self, label: str | None) -> str | None:
        """Return the action of a label; None, for any action, if the protocol has no action of this name."""
        if label is None or self.replayer.names(label) or not label.isidentifier():
            return label
        name = self.replayer.protocol.name()
        self._note(f"{escape_invisible(label)} is no action of {name}: a step of that name may be any action")
        return None

    def _begin_at(self, found: TraceState, target: State) -> None:
        """Start in the middle of a trace: search a path to the state, or take the state as given."""
        number = found.number
        self._judge.leaves_out = f"it begins at state {number}"
        if not self.replayer.reach_first:
            self.partial.append(f"state {number} taken as given")
            self._note(f"it begins at state {number}, which is taken as given; --reach-first searches a path to it")
            self._reach(found, target)
            return
        starts, limit = self.replayer.starts, self.replayer.reach_first
        way = () if target in starts else shortest_path_or_limit(self.replayer.semantics, starts, target, limit)
        if way is None:
            text = f"state {number} is unreachable: all states were searched"
            self.divergence = Divergence(DivergenceKind.START, number, found.line, None, None, text)
        elif isinstance(way, int):
            self.partial.append(f"state {number} taken as given")
            self._note(f"state {number} was not found among the first {way:,} states; it is taken as given")
            self._reach(found, target)
        else:
            self._note(f"state {number} is reached in {len(way)} steps: {_actions_text(way)}")
            self._reach(found, target)

    def _bridge(self, found: TraceState, previous: int, state: State, target: State) -> None:
        """Search steps to a state of the trace through the states that the trace omits."""
        left_out = found.number - previous - 1
        action, where = self._action(found.action), f"from state {previous} to state {found.number}"
        semantics, limit = self.replayer.semantics, MOST_BRIDGED_STATES
        way = path_of_length_or_limit(semantics, state, target, left_out + 1, action, limit)
        if isinstance(way, int) and shortest_path_or_limit(semantics, [state], target, limit) is None:
            way = None  # the states are few, though a long path visits each several times
        if way is None:
            by = f", the last of them {escape_invisible(action)}" if action else ""
            text = f"state {found.number} does not follow from state {previous} in {left_out + 1} steps{by}"
            kind = DivergenceKind.STEP
            self.divergence = Divergence(kind, found.number, found.line, previous, found.action, text)
        elif isinstance(way, int):
            self.partial.append(f"state {found.number} taken as given")
            self._note(f"{where}: no path among the first {way:,} states; the latter is taken as given")
            self._judge.leaves_out = f"it leaves states out after state {previous}"
            self._reach(found, target)
        else:
            between = f"state {previous + 1}" if left_out == 1 else f"states {previous + 1} to {found.number - 1}"
            self.partial.append(f"{between} found by a search")
            self._note(f"{where}: {_actions_text(way)}")
            self.actions += [step.action for step in way]
            for number, step in enumerate(way, previous + 1):
                self._reach(replace(found, number=number), step.target, [step], [step])

    def _step(self, found: TraceState, before: int, action: str | None, state: State, target: State) -> None:
        """Take the step from a state to the next, or record the divergence."""
        steps = self.replayer.steps(state)
        exact = [step for step in steps if step.target == target]
        leading = exact or self._permuted(steps, before, found.number, target)
        named = [step for step in leading if step.action == action]
        if leading and not named and self._action(action) is None:
            named = leading
        if not named:
            variables = self.replayer.view.variables(target)
            self._diverge(DivergingState(found.number, found.line, before, action, variables), leading)
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
            if permute_model_values(target, permutation) in starts:
                self._note(f"it begins in an initial state in which {_permutation_text(permutation)}")
                self._reach(found, target)
                return
        self._diverge(DivergingState(found.number, found.line, None, None, self.replayer.view.variables(target)))

    def _permuted(self, steps: Sequence[Transition], before: int, number: int, target: State) -> list[Transition]:
        """Return the steps to an image of a state under the symmetry, the first image that a step reaches."""
        targets = {step.target for step in steps}
        for permutation in self.replayer.group(self.replayer.symmetry):
            image = permute_model_values(target, permutation)
            if image in targets:
                where = f"from state {before} to state {number} under SYMMETRY"
                self._note(f"{where}: in the latter {_permutation_text(permutation)}")
                self._judge.leaves_out = "SYMMETRY exchanges its replicas on the way"
                return [step for step in steps if step.target == image]
        return []

    def _diverge(self, wanted: DivergingState, leading: Sequence[Transition] = ()) -> None:
        judge = DivergenceExplainer(self.replayer.semantics, self.replayer.view)
        if self.state is None:
            self.divergence = judge.no_start(wanted, self.replayer.starts)
        else:
            self.divergence = judge.no_step(wanted, self.state, leading)

    def _back(self, number: int, action: str | None) -> None:
        """Replay the step from the last state back to an earlier state."""
        if not self._has(number):
            return
        found = self._compared(self.earlier(number))
        target = self.replayer.reader(self.head).state(found)
        assert isinstance(target, State)  # it was replayed before
        assert self.state is not None
        action = action_name_of_label(self.replayer.protocol, action)
        known = self._action(action)
        steps = [step for step in self.replayer.semantics.transitions(self.state) if known in (None, step.action)]
        alike = None if any(step.target == target for step in steps) else self._made_equal(steps, target)
        if alike is not None:
            self._note(f"it returns to state {number} up to the bounds outside VIEW {self.replayer.seen_as}")
        self._step(found, self.number, action, self.state, alike or target)

    def _has(self, number: int) -> bool:
        """Whether the trace shows a state; if not, record that the step back to it is not compared."""
        if number > self.number:
            expected = f"a step back to one of {self.number} states"
            self.problem = f"{self.head.file}: expected {expected}, found state {number}"
        elif any(number in gap for gap in self.gaps):
            self._judge.leaves_out = f"the trace omits state {number}, to which it returns"
            self.partial.append(f"the step back to state {number} not compared")
        else:
            return True
        return False

    def _made_equal(self, steps: list[Transition], target: State) -> State | None:
        """Return a step's target that equals `target` in all but bounds hidden by the VIEW; None if there is none."""
        protocol, view = self.replayer.protocol, self.replayer.seen_as
        if view is None or protocol.hidden(view).shared:
            return None
        see = canonicalizer(protocol, None, view)
        return next((step.target for step in steps if see(step.target) == see(target)), None)


TransitionPath = tuple[Transition, ...]


def shortest_path_or_limit(
    semantics: Semantics, starts: Sequence[State], target: State, limit: int
) -> TransitionPath | int | None:
    """Return a shortest path to a state, None if the state is unreachable, or the limit if it was hit."""
    reached: dict[State, tuple[State, Transition] | None] = dict.fromkeys(starts)
    frontier = list(starts)
    while frontier:
        following: list[State] = []
        for state in frontier:
            for step in semantics.transitions(state):
                if step.target not in reached:
                    reached[step.target] = state, step
                    following.append(step.target)
                    if step.target == target:
                        return _path_by_predecessors(target, reached)
            if len(reached) > limit:
                return limit
        frontier = following
    return None


def _path_by_predecessors(target: State, reached: Mapping[State, tuple[State, Transition] | None]) -> TransitionPath:
    way: list[Transition] = []
    while (found := reached[target]) is not None:
        target, step = found
        way.append(step)
    return tuple(reversed(way))


def path_of_length_or_limit(
    semantics: Semantics, state: State, target: State, length: int, action: str | None, limit: int
) -> TransitionPath | int | None:
    """Return `length` steps between two states, the last one of `action`; else as `shortest_path_or_limit`."""
    layers: list[dict[State, tuple[State, Transition]]] = []  # by number of steps: the states, with a step to each
    frontier, searched = [state], 0
    for left in reversed(range(length)):
        layer: dict[State, tuple[State, Transition]] = {}
        for source in frontier:
            for step in semantics.transitions(source):
                if left or (step.target == target and action in (None, step.action)):
                    layer.setdefault(step.target, (source, step))
            searched += 1
            if searched > limit:
                return limit
        layers.append(layer)
        frontier = list(layer)
    if not frontier:
        return None
    way: list[Transition] = []
    for layer in reversed(layers):
        target, step = layer[target]
        way.append(step)
    return tuple(reversed(way))


def _actions_text(way: TransitionPath) -> str:
    """Return as text the actions of the first steps, and the number of further steps."""
    names = [step.action for step in way]
    return ", ".join(
        names
        if len(names) <= MOST_LISTED_ACTIONS
        else [*names[:MOST_LISTED_ACTIONS], f"and {len(names) - MOST_LISTED_ACTIONS} more"]
    )


def _permutation_text(permutation: Permutation) -> str:
    """Return a permutation as text: the protocol's value for each of the trace's values."""
    moved = [f"{text_of(old)} stands for our {text_of(new)}" for old, new in permutation.items() if old != new]
    return ", ".join(moved)

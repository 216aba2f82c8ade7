"""Judges one mutant: what becomes of the model, and whether a property notices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from kraftcheck.engines import search
from kraftcheck.explorer.result import Result
from kraftcheck.mutation.calls import (
    Arguments,
    UnreadError,
    limited_time,
    plain_steps,
    replaying,
    rewired,
)
from kraftcheck.mutation.mutants import Mutant, Swap
from kraftcheck.mutation.recording import RecordedCall, Recording
from kraftcheck.spec.errors import InputError, ProtocolError
from kraftcheck.spec.language.action import Action
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics, Transition
from kraftcheck.spec.language.starts import initial_states
from kraftcheck.spec.language.state import State
from kraftcheck.spec.language.step import Step

KILLED, ERROR, SURVIVED, LOST, SAME, UNREACHED = "killed", "error", "survived", "lost", "same", "never reached"
VERDICTS = {
    KILLED: "a property is violated, or there is a deadlock",
    ERROR: "an action raises, or does not return",
    SURVIVED: "changes the behaviour, breaks nothing",
    LOST: "only removes behaviour",
    SAME: "no state and no labelled step differs",
    UNREACHED: "its line never runs",
}
"""The verdicts, and what each means."""

MOST_WALKED = 20_000
"""States up to which a step is looked for that the model does not have, once an action does something else."""

NEW = " (new)"
"""Ends the name under which a step counts that the model does not have."""


class Verdict(NamedTuple):
    """What became of a mutant.

    Attributes
    ----------
    verdict
        One of `VERDICTS`.
    by
        The property that is violated, or the error.
    config
        The configuration in which that was.
    length
        The states of the counterexample.
    gains
        Whether the mutant takes a step, or has an initial state, that the model does not have.
    lost
        What the model has and the mutant lacks: actions, with how many of their different steps.
    step
        The first step that the model does not have, for a person.
    counts
        For each configuration in which the counts differ, the distinct states of the model and of the mutant, then the
        generated ones.
    """

    verdict: str
    by: str = ""
    config: str = ""
    length: int = 0
    gains: bool = False
    lost: tuple[str, ...] = ()
    step: str = ""
    counts: tuple[tuple[str, int, int, int, int], ...] = ()


@dataclass
class Differences:
    """In what a mutant's actions differ from the model's, on the inputs met in one search.

    Attributes
    ----------
    lost
        How many steps each action lacks.
    had
        How many it has in the model.
    """

    lost: Counter[str] = field(default_factory=Counter)
    had: Counter[str] = field(default_factory=Counter)

    def told(self) -> tuple[str, ...]:
        """Return what is lost, for a person."""
        lost = sorted((+self.lost).items())
        return tuple(
            f"{name}: every step" if times == self.had[name] else f"{name}: {times} of {self.had[name]} steps"
            for name, times in lost
        )


class Judge:
    """Judges mutants of one protocol.

    Parameters
    ----------
    recordings
        What the protocol does, in each configuration.
    modules
        Its modules.
    """

    def __init__(self, recordings: Iterable[Recording], modules: Iterable[Any]) -> None:
        self._recordings = sorted(recordings, key=lambda one: one.result.seconds)
        self._modules = list(modules)

    def reached_in(self, mutant: Mutant) -> list[Recording]:
        """Return the configurations in which the changed line runs, the quickest first."""
        path = str(mutant.changed.function.__code__.co_filename)
        return [one for one in self._recordings if any((path, line) in one.by_line for line in mutant.lines)]

    def judge(self, mutant: Mutant) -> Verdict:
        """Return what becomes of a mutant. The process's protocol is changed meanwhile."""
        reached = self.reached_in(mutant)
        if not reached:
            return Verdict(UNREACHED)
        code = mutant.code()
        assert code is not None
        swap = Swap(mutant.changed.function, code, self._modules)
        with swap.mutated():
            suspects = [one for one in reached if self._may_differ(mutant, one)]
            verdicts = []
            for recording in suspects:
                verdicts.append(_Trial(recording, swap).verdict())
                if verdicts[-1].verdict in (KILLED, ERROR):
                    return verdicts[-1]
        for wanted in (SURVIVED, LOST):
            alike = [one for one in verdicts if one.verdict == wanted]
            if alike:
                counts = tuple(count for one in verdicts for count in one.counts)
                return alike[0]._replace(counts=counts)
        return Verdict(SAME)

    def _may_differ(self, mutant: Mutant, recording: Recording) -> bool:
        """Whether a mutant does something else where the changed line runs, or may do so."""
        path = str(mutant.changed.function.__code__.co_filename)
        protocol, kind = recording.job.protocol, recording.shared_type
        if not _same_starts(recording):
            return True
        return any(_differs(protocol, call, kind) for call in recording.through(path, mutant.lines))


def _differs(protocol: Protocol, call: RecordedCall, kind: type[Any]) -> bool:
    arguments = replaying(call.action, call.arguments, kind, call.seen)
    try:
        with limited_time():
            made = dict.fromkeys(call.action.function(protocol, *arguments))
            return frozenset(plain_steps(call.action, protocol, arguments, made)) != call.steps
    except (Exception, UnreadError):
        return True


def _same_starts(recording: Recording) -> bool:
    """Whether a mutant begins where the model does, the way to a named start included."""
    if recording.job.options.init == "Init":
        return True
    try:
        return initial_states(Semantics(recording.job.protocol), recording.job.options.init) == recording.starts
    except InputError:
        return False


class _Trial:
    """One mutant in one configuration."""

    def __init__(self, recording: Recording, swap: Swap) -> None:
        self._recording = recording
        self._name = recording.job.config_name
        self._swap = swap
        self._found = Differences()

    def verdict(self) -> Verdict:
        """Return what becomes of the mutant there."""
        job = self._recording.job
        try:
            starts = initial_states(Semantics(job.protocol), job.options.init)
        except InputError:
            return Verdict(LOST, config=self._name, lost=(f"the start {job.options.init}",))
        protocol = self._recording.protocol()
        actions: dict[str, Any] = {}
        for name, action in job.protocol.actions.items():
            actions[name] = action, partial(self._steps, action, new=False)
            actions[name + NEW] = action, partial(self._steps, action, new=True)
        rewired(protocol, actions)
        vars(protocol)["initial"] = lambda: starts
        try:
            result = search(job.engine, protocol, replace(job.options, init="Init"), is_named=job.is_named)
        except ProtocolError as error:
            return Verdict(ERROR, _told(error), self._name)
        return self._judged(result, starts)

    def _judged(self, result: Result, starts: list[State]) -> Verdict:
        before = self._recording.result
        gains = any(times for name, times in result.actions.items() if name.endswith(NEW))
        numbers = before.distinct_states, result.distinct_states, before.generated_states, result.generated_states
        complete = before.complete and result.complete
        differ = numbers[0] != numbers[1] or (complete and numbers[2] != numbers[3])
        counts = ((self._name, *numbers),) if differ else ()
        step = self._first_new_step(starts) if gains else ""
        gains = step != "" or starts != self._recording.starts
        if result.violations:
            name, trace = result.violations[0].property, result.violations[0].trace
            return Verdict(KILLED, name, self._name, len(trace), gains, step=step, counts=counts)
        if gains:
            return Verdict(SURVIVED, "", self._name, gains=True, lost=self._found.told(), step=step, counts=counts)
        if +self._found.lost and (differ or not complete):
            return Verdict(LOST, "", self._name, lost=self._found.told(), counts=counts)
        return Verdict(SAME)

    def _first_new_step(self, starts: list[State]) -> str:
        """Return the first labelled step that the model does not have; "" where it has them all.

        An action may do something else, and the network make the same of it: a message sent twice into a set.
        """
        theirs, ours = Semantics(self._recording.job.protocol), Semantics(copy(self._recording.job.protocol))
        found, frontier, depth = set(starts), starts, 1
        while frontier:
            reached: list[State] = []
            for state in frontier:
                with self._swap.original():
                    known = {(one.action, one.target) for one in _transitions(ours, state)}
                for one in _transitions(theirs, state):
                    if one.target != state and (one.action, one.target) not in known:
                        who = "" if one.actor is None else f" by {one.actor}"
                        return f"{one.action}{who}, at depth {depth}"
                    if one.target not in found:
                        found.add(one.target)
                        reached.append(one.target)
                if len(found) > MOST_WALKED:
                    return f"deeper than {depth}"
            frontier, depth = reached, depth + 1
        return ""

    def _steps(self, action: Action, protocol: Protocol, arguments: Arguments, *, new: bool) -> tuple[Step, ...]:
        """Return the steps of an action that the model does not have, or those that it has."""
        with limited_time():
            made = dict.fromkeys(action.function(protocol, *arguments))
        with self._swap.original():
            try:
                original = dict.fromkeys(action.function(protocol, *arguments))
            except Exception:  # in a state that only the mutant has
                original = {}
        theirs = dict.fromkeys(plain_steps(action, protocol, arguments, made))
        ours = dict.fromkeys(plain_steps(action, protocol, arguments, original))
        if new:
            return tuple(step for step in theirs if step not in ours)
        self._found.lost[action.name] += sum(step not in theirs for step in ours)
        self._found.had[action.name] += len(ours)
        return tuple(step for step in made if step not in theirs or step in ours)


def _transitions(semantics: Semantics, state: State) -> list[Transition]:
    try:
        return list(semantics.transitions(state))
    except ProtocolError:  # beyond the states of the model
        return []


def _told(error: ProtocolError) -> str:
    cause = error.__cause__
    if cause is not None:
        return f"{type(cause).__name__}: {cause}"
    return str(error).splitlines()[0].partition(": ")[2]

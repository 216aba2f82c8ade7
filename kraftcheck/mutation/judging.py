"""Judges one mutant: what becomes of the model, and whether a property notices."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import replace
from functools import partial
from types import FunctionType, ModuleType
from typing import NamedTuple

from kraftcheck.engines import search
from kraftcheck.explorer.behaviour import NoSuchPathError
from kraftcheck.explorer.result import Result
from kraftcheck.mutation.calls import Arguments, limited_time, plain_steps, rewired, wrapped
from kraftcheck.mutation.comparing import Differences, compare, starts_of
from kraftcheck.mutation.functions import functions_of_actions, functions_of_projections
from kraftcheck.mutation.mutants import Mutant, Swap
from kraftcheck.mutation.recording import Recording
from kraftcheck.mutation.renaming import with_new_names
from kraftcheck.spec.errors import ProtocolError
from kraftcheck.spec.language.action import Action
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics, Transition
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

FIRST_SHARE = 20
"""Every configuration is searched first up to this part of its states, since most slips show soon."""

MOST_WALKED = 20_000
"""States up to which a step is looked for that the model does not have, once an action does something else."""

BY_PROJECTION = "steps of actions that read what a projection gives"
"""What is lost, where only a projection gives something else."""

NEW = " (new)"
"""Ends the name under which a step counts that the model does not have."""


class Verdict(NamedTuple):
    """What became of a mutant."""

    verdict: str  # one of `VERDICTS`
    by: str = ""  # the property that is violated, or the error
    config: str = ""  # the configuration in which that was
    length: int = 0  # the states of the counterexample
    gains: bool = False  # whether the mutant takes a step, or has an initial state, that the model does not have
    # what the model has and the mutant lacks: actions, with how many of their different steps
    lost: tuple[str, ...] = ()
    step: str = ""  # the first step that the model does not have, for a person
    # for each configuration in which the counts differ, the distinct states of the model and of the mutant, then
    # the generated ones
    counts: tuple[tuple[str, int, int, int, int], ...] = ()


class Judge:
    """Judges mutants of one protocol."""

    def __init__(self, recordings: Iterable[Recording], modules: Iterable[ModuleType]) -> None:
        self._recordings = sorted(recordings, key=lambda one: one.result.distinct_states)
        self._modules = list(modules)
        self._actions: dict[FunctionType, frozenset[str]] = {}
        protocol = type(self._recordings[0].job.protocol)
        for name, functions in functions_of_actions(protocol, self._modules).items():
            for function in functions:
                self._actions[function] = self._actions.get(function, frozenset()) | {name}
        self._of_projections = frozenset(functions_of_projections(protocol, self._modules))

    def reached_in(self, mutant: Mutant) -> list[Recording]:
        """Return the configurations in which the changed line runs, the smallest first.

        These are all where projections use the function: nobody notes their lines.
        """
        function = mutant.changed.function
        path, is_projected = str(function.__code__.co_filename), function in self._of_projections
        return [one for one in self._recordings if is_projected or one.runs(path, mutant.lines)]

    def judge(self, mutant: Mutant) -> Verdict:
        """Return what becomes of a mutant. The process's protocol is changed meanwhile."""
        reached = self.reached_in(mutant)
        if not reached:
            return Verdict(UNREACHED)
        code = mutant.code()
        assert code is not None
        swap = Swap(mutant.changed.function, code, self._modules)
        with swap.mutated():
            verdicts: list[Verdict] = []
            suspects: list[_Trial] = []
            function = mutant.changed.function
            is_projected = function in self._of_projections
            for recording in reached:
                found = Differences(only_removes=False) if is_projected else compare(recording, mutant)
                if not found.only_removes or _is_to_be_searched(recording):
                    suspects.append(_Trial(recording, swap, self._actions[function], is_projected=is_projected))
                elif found.told():
                    verdicts.append(Verdict(LOST, "", recording.job.config_name, lost=found.told()))
            for share in (FIRST_SHARE, 1):
                tried = []
                for trial in suspects:
                    tried.append(trial.verdict(share))
                    if tried[-1].verdict in (KILLED, ERROR):
                        return tried[-1]
        verdicts += tried
        for wanted in (SURVIVED, LOST):
            alike = [one for one in verdicts if one.verdict == wanted]
            if alike:
                counts = tuple(count for one in verdicts for count in one.counts)
                return alike[0]._replace(counts=counts)
        return Verdict(SAME)


def _is_to_be_searched(recording: Recording) -> bool:
    """Whether a model that does less may break what is checked: then there is a deadlock, or a way out is gone."""
    options = recording.job.options
    return options.deadlock or bool(options.over_behaviours)


class _Trial:
    """One mutant in one configuration.

    Where projections use the function, an action does something else on other inputs: only whole states tell.
    """

    def __init__(self, recording: Recording, swap: Swap, actions: frozenset[str], *, is_projected: bool) -> None:
        self._recording = recording
        self._name = recording.job.config_name
        self._swap = swap
        self._actions = actions
        self._is_projected = is_projected
        self._found = Differences()
        self._whole: Verdict | None = None

    def verdict(self, share: int) -> Verdict:
        """Return what becomes of the mutant there, within a share of the states that a search may have."""
        if self._whole is not None:
            return self._whole
        self._found = Differences()
        job = self._recording.job
        try:
            starts = starts_of(job)
        except Exception as error:
            if job.options.init == "Init":
                return Verdict(ERROR, _told(error), self._name)
            return Verdict(LOST, config=self._name, lost=(f"the start {job.options.init}",))
        protocol = self._recording.protocol()
        actions = dict(job.protocol.actions)
        for name in self._actions:
            action = job.protocol.actions[name]
            actions[name] = wrapped(name, action, partial(self._steps, action, new=False))
            actions[name + NEW] = wrapped(name + NEW, action, partial(self._steps, action, new=True))
        rewired(protocol, actions)
        vars(protocol)["initial"] = lambda: starts
        options = with_new_names(job.options, {name: name + NEW for name in self._actions})
        options = replace(options, init="Init", max_states=max(1, (job.options.max_states or 0) // share))
        try:
            result = search(job.engine, protocol, options, is_named=job.is_named)
        except (ProtocolError, NoSuchPathError) as error:
            return Verdict(ERROR, _told(error), self._name)
        if share > 1 and not result.violations and not result.complete:
            return Verdict(SAME)  # so far; it is searched again
        self._whole = self._judged(result, starts)
        return self._whole

    def _judged(self, result: Result, starts: list[State]) -> Verdict:
        before = self._recording.result
        gains = self._is_projected or any(times for name, times in result.actions.items() if name.endswith(NEW))
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
        if self._is_projected and differ:
            return Verdict(LOST, "", self._name, lost=(BY_PROJECTION,), counts=counts)
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


def _told(error: Exception) -> str:
    cause = getattr(error, "cause", None) or error.__cause__
    if not isinstance(error, ProtocolError):
        cause = error
    if cause is not None:
        return f"{type(cause).__name__}: {cause}"
    return str(error).splitlines()[0].partition(": ")[2]

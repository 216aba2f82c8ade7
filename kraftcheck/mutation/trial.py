"""Trial of one mutant: the effect on the model, and the property that notices it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, field, fields, replace
from functools import partial
from types import FunctionType, ModuleType
from typing import NamedTuple

from kraftcheck.engines import search
from kraftcheck.explorer.calls import MissingRead
from kraftcheck.explorer.result import NoSuchPathError, Result, SearchRequest
from kraftcheck.explorer.transition_system import PlainTransitionSystem
from kraftcheck.mutation.baseline import (
    ActionArguments,
    BaselineRun,
    arguments_for_replay,
    effective_steps_within_bounds,
    raise_if_call_is_slow,
    replace_actions,
    wrapped_action,
)
from kraftcheck.mutation.mutants import CodeSwap, Mutant, functions_by_action, functions_of_projections
from kraftcheck.spec.errors import InputError, ProtocolError
from kraftcheck.spec.language.declarations import Action, Property
from kraftcheck.spec.language.formula import Enabled, Fairness, Formula, Taken
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics, Transition, initial_states
from kraftcheck.spec.language.state import State, Step

KILLED, ERROR, SURVIVED, LOST, SAME, UNREACHED = "killed", "error", "survived", "lost", "same", "never reached"
VERDICT_MEANINGS = {
    KILLED: "a property is violated, or there is a deadlock",
    ERROR: "an action raises, or does not return",
    SURVIVED: "changes the behaviour, breaks nothing",
    LOST: "only removes behaviour",
    SAME: "no state and no labelled step differs",
    UNREACHED: "its line never runs",
}
"""The verdicts, with their meanings."""

FIRST_PART_DIVISOR = 20
"""Divisor of the states that a first search of every configuration visits, since most mutants show early."""

MOST_WALKED_STATES = 20_000
"""Most states of a search for a step that the model lacks, after an action has changed."""

CHANGED_PROJECTION_TEXT = "steps of actions that read a changed projection"
"""Description of the lost steps if only a projection has changed."""

NEW_STEP_SUFFIX = " (new)"
"""Suffix of the name of steps that the model lacks."""

NewStepNames = Mapping[str, str]
"""Names of new steps, by action."""


@dataclass
class CallDifferences:
    """Differences between a mutant's actions and the model's, on the inputs recorded in one search."""

    lost: Counter[str] = field(default_factory=Counter)  # number of steps that each action lacks
    had: Counter[str] = field(default_factory=Counter)  # number of steps that each action has in the model
    only_removes: bool = True  # whether no new step is known

    def lost_steps(self) -> tuple[str, ...]:
        """Return for each action, as text, how many of its steps the mutant lacks."""
        lost = sorted((+self.lost).items())
        return tuple(
            f"{name}: every step" if times == self.had[name] else f"{name}: {times} of {self.had[name]} steps"
            for name, times in lost
        )


def compare_calls(baseline: BaselineRun, mutant: Mutant) -> CallDifferences:
    """Replay the calls in which the mutated line ran; the mutant's code must be in place."""
    found = CallDifferences(only_removes=_has_same_initial_states(baseline))
    path = str(mutant.changed.function.__code__.co_filename)
    protocol, kind = baseline.job.protocol, baseline.shared_type
    for call in baseline.through(path, mutant.lines) if found.only_removes else ():
        arguments = arguments_for_replay(call, kind)
        try:
            with raise_if_call_is_slow():
                made = dict.fromkeys(call.action.function(protocol, *arguments))
                steps = frozenset(effective_steps_within_bounds(call.action, protocol, arguments, made))
        except (Exception, MissingRead):
            steps = None
        if steps is None or not steps <= call.steps:
            return CallDifferences(only_removes=False)
        found.lost[call.action.name] += len(call.steps - steps)
    for call in baseline.calls if +found.lost else ():
        found.had[call.action.name] += len(call.steps)
    return found


def initial_states_of_mutant(baseline: BaselineRun) -> list[State]:
    """Return the initial states of a mutant, or the states at the end of the path to a named start."""
    job = baseline.job
    with raise_if_call_is_slow() if job.options.init == "Init" else nullcontext():
        return initial_states(Semantics(job.protocol), job.options.init)


def _has_same_initial_states(baseline: BaselineRun) -> bool:
    """Whether a mutant has the model's initial states; `initial` may call the mutated function too."""
    try:
        return initial_states_of_mutant(baseline) == baseline.starts
    except Exception:
        return False


class _PropertyCoveringNewSteps(Property):
    """A temporal property whose formula counts the new steps of an action as steps of that action."""

    names: NewStepNames

    def formula(self, protocol: object) -> Formula:
        """Return the formula, in which each action name also covers the name of the action's new steps."""
        return _formula_covering_new_steps(super().formula(protocol), self.names)


def request_covering_new_steps(options: SearchRequest, names: NewStepNames) -> SearchRequest:
    """Return a search request whose properties and fairness also cover the second names of actions' new steps."""
    return replace(
        options,
        reachable=tuple(
            replace(one, without=tuple(_with_names_of_new_steps(one.without, names))) for one in options.reachable
        ),
        temporal=tuple(_property_covering_new_steps(one, names) for one in options.temporal),
        fairness=_fairness_covering_new_steps(options.fairness, names),
    )


def _with_names_of_new_steps(actions: Iterable[str], names: NewStepNames) -> list[str]:
    """Return the given action names, each followed by the second name that its new steps have, if any."""
    return list(dict.fromkeys(name for one in actions for name in (one, names.get(one, one))))


def _fairness_covering_new_steps(declared: Iterable[Fairness], names: NewStepNames) -> tuple[Fairness, ...]:
    return tuple(replace(one, actions=tuple(_with_names_of_new_steps(one.actions, names))) for one in declared)


def _property_covering_new_steps(prop: Property, names: NewStepNames) -> Property:
    changed = {one.name: getattr(prop, one.name) for one in fields(prop)}
    made = _PropertyCoveringNewSteps(**{**changed, "fairness": _fairness_covering_new_steps(prop.fairness, names)})
    vars(made)["names"] = names
    return made


def _formula_covering_new_steps(formula: Formula, names: NewStepNames) -> Formula:
    """Return a formula in which each action name also covers the second name for the action's new steps."""
    if isinstance(formula, Enabled | Taken):
        return type(formula)(frozenset(_with_names_of_new_steps(formula.actions, names)))
    parts = {
        name: _formula_covering_new_steps(part, names)
        for name, part in vars(formula).items()
        if isinstance(part, Formula)
    }
    return replace(formula, **parts) if parts else formula  # type: ignore[type-var]


class MutantVerdict(NamedTuple):
    """Verdict on a mutant."""

    verdict: str  # one of `VERDICT_MEANINGS`
    by: str = ""  # the violated property, or the error
    config: str = ""  # the configuration that shows it
    length: int = 0  # number of states in the counterexample
    gains: bool = False  # whether the mutant has a step, or an initial state, that the model lacks
    # behaviour that the mutant lacks: actions, with their numbers of lost steps
    lost: tuple[str, ...] = ()
    step: str = ""  # the first step that the model lacks, as text
    # for each configuration with different counts: distinct states of the model and of the mutant, then generated
    # states
    counts: tuple[tuple[str, int, int, int, int], ...] = ()


class MutantRunner:
    """Runs mutants of one protocol."""

    def __init__(self, baselines: Iterable[BaselineRun], modules: Iterable[ModuleType]) -> None:
        self._baselines = sorted(baselines, key=lambda one: one.result.distinct_states)
        self._modules = list(modules)
        self._actions: dict[FunctionType, frozenset[str]] = {}
        protocol = type(self._baselines[0].job.protocol)
        for name, functions in functions_by_action(protocol, self._modules).items():
            for function in functions:
                self._actions[function] = self._actions.get(function, frozenset()) | {name}
        self._of_projections = frozenset(functions_of_projections(protocol, self._modules))

    def reached_in(self, mutant: Mutant) -> list[BaselineRun]:
        """Return the configurations in which the mutated line runs, the smallest first.

        For a function that projections use, these are all configurations: lines that projections run are not recorded.
        """
        function = mutant.changed.function
        path, is_projected = str(function.__code__.co_filename), function in self._of_projections
        return [one for one in self._baselines if is_projected or one.runs(path, mutant.lines)]

    def judge(self, mutant: Mutant) -> MutantVerdict:
        """Return the verdict on a mutant; meanwhile the protocol of this process is changed."""
        reached = self.reached_in(mutant)
        if not reached:
            return MutantVerdict(UNREACHED)
        code = mutant.code()
        assert code is not None
        swap = CodeSwap(mutant.changed.function, code, self._modules)
        with swap.mutated():
            trials, verdicts = self._compared(mutant, swap, reached)
            for share in (FIRST_PART_DIVISOR, 1):
                tried = []
                for trial in trials:
                    tried.append(trial.verdict(share))
                    if tried[-1].verdict in (KILLED, ERROR):
                        return tried[-1]
        verdicts += tried
        counts = tuple(count for one in verdicts for count in one.counts)
        verdicts.sort(key=lambda one: (SURVIVED, LOST, SAME).index(one.verdict))
        return verdicts[0]._replace(counts=counts) if verdicts and verdicts[0].verdict != SAME else MutantVerdict(SAME)

    def _compared(
        self, mutant: Mutant, swap: CodeSwap, reached: Iterable[BaselineRun]
    ) -> tuple[list[_ConfigurationTrial], list[MutantVerdict]]:
        """Return the trials that need a search, and the verdicts on configurations with lost steps only."""
        function = mutant.changed.function
        is_projected = function in self._of_projections
        trials, verdicts = [], []
        for baseline in reached:
            found = CallDifferences(only_removes=False) if is_projected else compare_calls(baseline, mutant)
            if not found.only_removes or _may_lost_steps_violate_check(baseline):
                trials.append(_ConfigurationTrial(baseline, swap, self._actions[function], is_projected=is_projected))
            elif lost := found.lost_steps():
                verdicts.append(MutantVerdict(LOST, "", baseline.job.config_name, lost=lost))
        return trials, verdicts


def _may_lost_steps_violate_check(baseline: BaselineRun) -> bool:
    """Whether a mutant that only loses steps may violate a check: deadlock, or a property of behaviours."""
    options = baseline.job.options
    return options.deadlock or bool(options.over_behaviours)


class _ConfigurationTrial:
    """A mutant in one configuration.

    If projections use the mutated function, an action changes on other inputs, so only whole states show a difference.
    """

    def __init__(self, baseline: BaselineRun, swap: CodeSwap, actions: frozenset[str], *, is_projected: bool) -> None:
        self._baseline = baseline
        self._name = baseline.job.config_name
        self._swap = swap
        self._actions = actions
        self._is_projected = is_projected
        self._found = CallDifferences()
        self._whole: MutantVerdict | None = None

    def verdict(self, share: int) -> MutantVerdict:
        """Return the verdict in this configuration, from a search of at most 1/`share` of its states."""
        if self._whole is not None:
            return self._whole
        self._found = CallDifferences()
        job = self._baseline.job
        try:
            starts = initial_states_of_mutant(self._baseline)
        except Exception as error:
            if job.options.init == "Init":
                return MutantVerdict(ERROR, _error_text(error), self._name)
            return MutantVerdict(LOST, config=self._name, lost=(f"the start {job.options.init}",))
        options = request_covering_new_steps(job.options, {name: name + NEW_STEP_SUFFIX for name in self._actions})
        options = replace(options, init="Init", max_states=max(1, (job.options.max_states or 0) // share))
        try:
            result = search(job.engine, self._protocol(starts), options, is_named=job.is_named)
        except (InputError, NoSuchPathError) as error:  # such as a view that the mutant makes unsound
            return MutantVerdict(ERROR, _error_text(error), self._name)
        if share > 1 and not result.violations and not result.complete:
            return MutantVerdict(SAME)  # for now; it is searched again
        self._whole = self._verdict_on(result, starts)
        return self._whole

    def _protocol(self, starts: list[State]) -> Protocol:
        """Return the protocol with the mutant's new steps as separate actions."""
        protocol = self._baseline.protocol()
        actions = dict(protocol.actions)
        for name in self._actions:
            action = protocol.actions[name]
            actions[name] = wrapped_action(name, action, partial(self._steps, action, new=False))
            actions[name + NEW_STEP_SUFFIX] = wrapped_action(
                name + NEW_STEP_SUFFIX, action, partial(self._steps, action, new=True)
            )
        replace_actions(protocol, actions)
        vars(protocol)["initial"] = lambda: starts
        return protocol

    def _verdict_on(self, result: Result, starts: list[State]) -> MutantVerdict:
        counts = self._different_counts(result)
        step = self._new_step(result, starts)
        gains = step != "" or starts != self._baseline.starts
        found = MutantVerdict(SAME, config=self._name, gains=gains, step=step, counts=counts)
        if result.violations:
            name, trace = result.violations[0].property, result.violations[0].trace
            return found._replace(verdict=KILLED, by=name, length=len(trace))
        if gains:
            return found._replace(verdict=SURVIVED, lost=self._found.lost_steps())
        if +self._found.lost and (counts or not (self._baseline.result.complete and result.complete)):
            return found._replace(verdict=LOST, lost=self._found.lost_steps())
        if self._is_projected and counts:
            return found._replace(verdict=LOST, lost=(CHANGED_PROJECTION_TEXT,))
        return MutantVerdict(SAME)

    def _new_step(self, result: Result, starts: list[State]) -> str:
        """Return the first labelled step that the model lacks, as text; "" if there is none."""
        took = any(times for name, times in result.actions.items() if name.endswith(NEW_STEP_SUFFIX))
        if not took and not self._is_projected:
            return ""
        more = result.distinct_states > self._baseline.result.distinct_states
        return self._first_new_step(starts, is_known=took or more)

    def _different_counts(self, result: Result) -> tuple[tuple[str, int, int, int, int], ...]:
        """Return the state counts of model and mutant, as in `MutantVerdict.counts`; empty if they are equal."""
        before = self._baseline.result
        distinct = before.distinct_states, result.distinct_states
        generated = before.generated_states, result.generated_states
        is_whole = before.complete and result.complete
        differ = distinct[0] != distinct[1] or (is_whole and generated[0] != generated[1])
        return ((self._name, *distinct, *generated),) if differ else ()

    def _first_new_step(self, starts: list[State], *, is_known: bool) -> str:
        """Return the first labelled step that the model lacks; "" if there is none within the limit of states.

        An action may change without effect: for example, the network may ignore a message sent twice. With `is_known`,
        a step that is not found soon is deeper: the search has shown it.
        """
        job = self._baseline.job
        theirs, ours = PlainTransitionSystem(Semantics(job.protocol), job.options), Semantics(copy(job.protocol))
        most = MOST_WALKED_STATES if is_known else job.options.max_states or MOST_WALKED_STATES
        found, frontier, depth = set(starts), list(filter(theirs.is_within, starts)), 1
        while frontier and depth != job.options.max_depth:
            reached: list[State] = []
            for state in frontier:
                with self._swap.original():
                    known = {(one.action, one.target) for one in _transitions_unless_protocol_error(ours, state)}
                steps = _steps_within_action_constraints(theirs, state)
                for one in steps:
                    if one.target != state and (one.action, one.target) not in known:
                        who = "" if one.actor is None else f" by {one.actor}"
                        return f"{one.action}{who}, at depth {depth}"
                targets = dict.fromkeys(one.target for one in steps if one.target not in found)
                found.update(targets)
                reached += targets
                if len(found) > most:
                    return f"deeper than {depth}" if is_known else ""
            frontier, depth = list(filter(theirs.is_within, reached)), depth + 1
        return ""

    def _steps(self, action: Action, protocol: Protocol, arguments: ActionArguments, *, new: bool) -> tuple[Step, ...]:
        """Return the mutant's steps that the model lacks if `new`, else the steps that both have."""
        with raise_if_call_is_slow():
            made = dict.fromkeys(action.function(protocol, *arguments))
        with self._swap.original():
            try:
                original = dict.fromkeys(action.function(protocol, *arguments))
            except Exception:  # a state that only the mutant has
                original = {}
        theirs = dict.fromkeys(effective_steps_within_bounds(action, protocol, arguments, made))
        ours = dict.fromkeys(effective_steps_within_bounds(action, protocol, arguments, original))
        if new:
            return tuple(step for step in theirs if step not in ours)
        self._found.lost[action.name] += sum(step not in theirs for step in ours)
        self._found.had[action.name] += len(ours)
        return tuple(step for step in made if step not in theirs or step in ours)


def _transitions_unless_protocol_error(semantics: Semantics, state: State) -> list[Transition]:
    try:
        return list(semantics.transitions(state))
    except ProtocolError:  # a state that the model does not have
        return []


def _steps_within_action_constraints(system: PlainTransitionSystem, state: State) -> list[Transition]:
    """Return the steps from a state that the action constraints allow."""
    return [
        one for one in _transitions_unless_protocol_error(system.semantics, state) if system.allows(state, one.target)
    ]


def _error_text(error: Exception) -> str:
    cause = getattr(error, "cause", None) or error.__cause__
    if not isinstance(error, ProtocolError):
        cause = error
    if cause is not None:
        return f"{type(cause).__name__}: {cause}"
    return str(error).splitlines()[0].partition(": ")[2]

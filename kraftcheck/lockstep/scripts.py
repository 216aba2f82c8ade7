"""Scripted walks: the parts of a scenario, and the traces of a file.

A script receives the state that its last step led to, and yields the next step. Beside Kafka that state can differ:
Kafka takes urgent steps at once, drops answers that it no longer awaits, and has known differences, which the model
includes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from kraftcheck.lockstep.driver_commands import NOT_DRIVEN_REASONS
from kraftcheck.lockstep.lockstep import Lockstep, StepChooser
from kraftcheck.lockstep.walks import (
    STEP_LINE,
    ActionCandidates,
    ChosenOutcome,
    StepChoice,
    WalkFileStep,
    labelled_transitions,
)
from kraftcheck.spec.errors import InputError, ProtocolError
from kraftcheck.spec.language.semantics import Semantics, Transition, takes_to_named_start, transition_matching_take
from kraftcheck.spec.language.state import State
from kraftcheck.traces.parsing import TraceFileReader
from kraftcheck.traces.replay.replayer import ReplayedState, Replayer, ReplayVerdict
from kraftcheck.traces.scenarios import ScenarioCommand, ScenarioError, ScenarioPlayer, ScenarioSection

BEGINNING_BYTES = 2**16
"""Bytes at the beginning of a file that show its kind."""

NOT_BESIDE_KAFKA_NOTE = " (possible in the model, not beside Kafka)"

FIRST_WORDS_OF_WALKS = ("model", "variant", "set", "go")


class NextScriptStep(NamedTuple):
    """The next step of a script."""

    place: str  # its place: file and line, or state
    transition: Transition


class ScriptStepResult(NamedTuple):
    """Result of a script's step: the state after it, and the urgent step that Kafka took with it."""

    state: State  # the state after it
    # action and actor of the urgent step that Kafka took together with it, or None
    also: tuple[str, object] | None = None


Script = Generator[NextScriptStep, ScriptStepResult, None]


class ScriptStepChooser:
    """Chooses the steps of a script."""

    def __init__(self, script: Callable[[ScriptStepResult], Script], lockstep: Lockstep) -> None:
        self._make = script
        self._script: Script | None = None
        self._lockstep = lockstep

    def __call__(self, offers: ActionCandidates) -> ChosenOutcome | None:
        """Return the next step, or None at the end."""
        arrived = ScriptStepResult(offers.state, self._lockstep.also)
        try:
            if self._script is None:
                self._script = self._make(arrived)
                place, wanted = next(self._script)
            else:
                place, wanted = self._script.send(arrived)
        except StopIteration:
            return None
        for offer in offers.all:
            if offer[:3] == wanted[:3]:
                outcomes = offers.outcomes(offer)
                return outcomes, outcomes.index(wanted)
        reason = NOT_DRIVEN_REASONS.get(wanted.action, "no command makes Kafka take it")
        raise InputError(f"{place}: {wanted.action} is not driven: {reason}")


def chooser_maker(script: Callable[..., Script]) -> Callable[[Lockstep], StepChooser]:
    """Return a function that makes the chooser of a script's steps for a lockstep."""

    def choose(lockstep: Lockstep) -> StepChooser:
        return ScriptStepChooser(lambda begun: script(semantics=lockstep.semantics, begun=begun), lockstep)

    return choose


def script_file_kind(path: Path) -> str:
    """Return the kind of a file: "walk", "scenario" or "trace"."""
    lines = map(str.strip, TraceFileReader(path).beginning(BEGINNING_BYTES).splitlines())
    first = next((line for line in lines if line and not line.startswith("#")), "")
    word = first.partition(" ")[0]
    if word == "start":
        return "scenario"
    return "walk" if word in FIRST_WORDS_OF_WALKS or STEP_LINE.fullmatch(first) else "trace"


# Scenarios


def require_playable_scenario_section(part: ScenarioSection, init: str, plain: Semantics, kafka: Semantics) -> None:
    """Check a scenario part by executing it on the model, or else on the model with Kafka's known differences."""
    try:
        _play_scenario_section(part, init, ScenarioPlayer(plain))
    except InputError as error:
        try:
            _play_scenario_section(part, init, ScenarioPlayer(kafka))
        except InputError:
            raise error from None


def _play_scenario_section(part: ScenarioSection, init: str, stage: ScenarioPlayer) -> None:
    with _prefix_errors_with_command(part, part.start):
        stage.begin(init, part.words.then)
    for command in part.commands:
        with _prefix_errors_with_command(part, command):
            for transition in stage.steps(command.verb, command.rest):
                stage.state = transition.target


def scenario_script(part: ScenarioSection, semantics: Semantics, init: str, begun: ScriptStepResult) -> Script:
    """Return the script of a scenario part that `require_playable_scenario_section` has checked."""
    stage, ahead = ScenarioPlayer(semantics, any_outcome=True), _ScriptProgress(begun)
    with _prefix_errors_with_command(part, part.start, NOT_BESIDE_KAFKA_NOTE):
        yield from ahead.lead_to(init, semantics, _command_place(part, part.start))
    stage.state = ahead.state
    for command in part.commands:
        words = [command.verb, *command.rest]
        words = words[1:] if words[0] == "briefly" else words
        actor = stage.replica(words[2]) if words[1:2] == ["by"] and len(words) > 2 else None
        if not ahead.has(words[0], actor):
            with _prefix_errors_with_command(part, command, NOT_BESIDE_KAFKA_NOTE):
                for transition in stage.steps(command.verb, command.rest):
                    yield from ahead.take(_command_place(part, command), transition)
                    stage.state = ahead.state


class _ScriptProgress:
    """The state of a script, and the urgent steps that Kafka took before the script requested them."""

    def __init__(self, begun: ScriptStepResult) -> None:
        self._taken: list[tuple[str, object]] = []
        self._arrive(begun)

    def _arrive(self, arrived: ScriptStepResult) -> None:
        self.state = arrived.state
        if arrived.also is not None:
            self._taken.append(arrived.also)

    def take(self, place: str, transition: Transition) -> Script:
        """Request a step."""
        self._arrive((yield NextScriptStep(place, transition)))

    def lead_to(self, init: str, semantics: Semantics, place: str) -> Script:
        """Request the steps from the first initial state to a named start."""
        for number, take in enumerate(takes_to_named_start(semantics.protocol, init), start=1):
            if not self.has(take.action, take.actor):
                where = f"step {number} of {init}"
                yield from self.take(
                    place, transition_matching_take(semantics, self.state, take, where, any_outcome=True)
                )

    def has(self, action: str, actor: object) -> bool:
        """Whether Kafka took a step ahead of the script; if so, count it as the requested step."""
        if (action, actor) not in self._taken:
            return False
        self._taken.remove((action, actor))
        return True


def _command_place(part: ScenarioSection, command: ScenarioCommand) -> str:
    return f"{part.file}:{command.line}:1"


@contextmanager
def _prefix_errors_with_command(part: ScenarioSection, command: ScenarioCommand, beside: str = "") -> Iterator[None]:
    """Prefix errors with the place and the text of a command."""
    try:
        yield
    except (ScenarioError, ProtocolError) as error:
        raise ScenarioError(f"{_command_place(part, command)}: {command.text}{beside}: {error}") from error


# Traces


class NumberedTraceStep(NamedTuple):
    """A step of a trace."""

    number: int  # number of the target state
    step: StepChoice


class ScriptedTrace(NamedTuple):
    """A trace of a model or its variant, as steps."""

    file: str  # the file it was read from
    init: str  # the start of its first state
    steps: list[NumberedTraceStep]


def read_traces_as_steps(path: Path, replayer: Replayer, init: str) -> list[ScriptedTrace]:
    """Return the traces of a file, in any format that `replay` reads, as steps."""
    found: dict[int, list[NumberedTraceStep]] = {}

    def watch(reached: ReplayedState) -> None:
        steps = found.setdefault(reached.index, [])
        if reached.before is None:
            if reached.state != replayer.starts[0]:
                raise InputError(f"{path}: trace {reached.index + 1} begins with other hosts than the model does")
        elif reached.transition is not None:
            offered = labelled_transitions(replayer.semantics.transitions(reached.before))
            steps.append(
                NumberedTraceStep(reached.number, next(step for step, known in offered if known == reached.transition))
            )

    replayer.watch = watch
    for replay in replayer.replay(path):
        if replay.verdict is ReplayVerdict.DIVERGES:
            raise InputError(f"{path}: diverges from the model at state {replay.diverged_at}: {replay.reason}")
        if replay.verdict is ReplayVerdict.UNREADABLE:
            raise InputError(str(replay.problem))
    return [ScriptedTrace(str(path), init, steps) for steps in found.values()]


def trace_script(trace: ScriptedTrace, semantics: Semantics, begun: ScriptStepResult) -> Script:
    """Return the script of a trace."""
    ahead = _ScriptProgress(begun)
    try:
        yield from ahead.lead_to(trace.init, semantics, f"{trace.file}: {trace.init}")
    except ProtocolError as error:
        raise InputError(f"{trace.file}: {error}{NOT_BESIDE_KAFKA_NOTE}") from error
    for number, step in trace.steps:
        if not ahead.has(step.action, step.actor):
            place = f"{trace.file}: state {number}"
            named = dict(labelled_transitions(semantics.transitions(ahead.state)))
            if step not in named:
                raise InputError(
                    f"{place}: {WalkFileStep.of(step)}{NOT_BESIDE_KAFKA_NOTE}: {_enabled_steps_text(named)}"
                )
            yield from ahead.take(place, named[step])


def _enabled_steps_text(named: Iterable[StepChoice]) -> str:
    enabled = sorted({f"{step.action} by {step.actor}" for step in named})
    return f"enabled are {', '.join(enabled) or 'none'}"

"""A campaign: many walks of model and Kafka in lockstep, and classes of their findings, each with a short walk."""

from __future__ import annotations

import argparse
import gc
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from kraftcheck.explorer.result import TraceStep
from kraftcheck.kraft_model.quorum.base import QuorumBase
from kraftcheck.lockstep.cover import EdgeCover, LockstepStateGraph, UntakenReason, build_state_graph
from kraftcheck.lockstep.driver_process import Driver, DriverDied
from kraftcheck.lockstep.lockstep import Lockstep, LockstepFinding, LockstepVerdict, StepChooser
from kraftcheck.lockstep.walks import (
    DEFAULT_DEPTH,
    DEFAULT_RUNS,
    ActionCandidates,
    CandidateKind,
    ChosenOutcome,
    GivenStepChooser,
    RandomStepChooser,
    WalkFile,
    WalkFileStep,
    non_default_settings,
    write_walk,
)
from kraftcheck.spec import ConstantError, ordered
from kraftcheck.spec.cfg.binding import bind
from kraftcheck.spec.cfg.config import ModelConfig
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.semantics import Semantics

WALKS_FROM_NEW_FINDING = 25
"""Walks that continue from a new finding, each with its own choices: a difference may become a violation."""


MOST_KEPT_VIOLATING_WALKS = 20
"""Walks on which Kafka violated a property that are kept as beginnings of further walks."""


class FindingClass(NamedTuple):
    """A class of findings."""

    first: LockstepFinding  # the finding of a shortest walk
    steps: tuple[WalkFileStep, ...]  # that walk
    times: int  # number of walks that found it
    file: Path | None = None  # file of the walk, if it was written
    behaviour: tuple[TraceStep, ...] = ()  # states of that walk, up to the finding; see `Lockstep.behaviour`


@contextmanager
def rare_garbage_collection() -> Iterator[None]:
    """Collect garbage rarely in the block: states are many small objects without cycles."""
    usual = gc.get_threshold()
    gc.set_threshold(100_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


class LockstepCampaign:
    """Makes walks of one model in lockstep with Kafka, and classifies their findings."""

    def __init__(
        self, driver: Driver, protocol: QuorumBase, about: WalkFile, report: Callable[[], object] | None = None
    ) -> None:
        self.about = about
        self.walks = 0
        self._lockstep = Lockstep(driver, protocol, go_on=about.go_on, ignored=about.ignored)
        self._report = report
        self.longest: tuple[TraceStep, ...] = ()
        self._kinds: dict[FindingSignature, FindingClass] = {}
        self._drawn: Counter[CandidateKind] = Counter()
        self._tried: Counter[CandidateKind] = Counter()
        self._broken: list[tuple[WalkFileStep, ...]] = []  # the shortest walks up to a property that Kafka violated

    @property
    def steps(self) -> int:
        """Number of steps that both the model and Kafka took."""
        return self._lockstep.steps

    @property
    def protocol(self) -> QuorumBase:
        """The model, with its constants."""
        return self._lockstep.protocol

    @property
    def taken(self) -> Counter[str]:
        """Number of times that each action had the same effect in the model and in Kafka."""
        return self._lockstep.taken

    def draw(self, walks: int, depth: int, seed: str) -> None:
        """Make random walks; walk `i` depends on the seed, on `i` and on the walks before it.

        Several walks continue from a new finding, each with its own choices. Every second later walk continues from a
        state in which Kafka violated a property.
        """
        for number in range(walks):
            drawn = RandomStepChooser(f"{seed}/{number}", self._drawn, self._tried)
            if self.about.go_on and self._broken and number % 2:
                begun = self._broken[number // 2 % len(self._broken)]
                self._walk(GivenStepChooser(begun, then=drawn), len(begun) + depth)
                continue
            found = self._walk(drawn, depth)
            for way in range(WALKS_FROM_NEW_FINDING if found and self.about.go_on else 0):
                drawn = RandomStepChooser(f"{seed}/{number}/{way}", self._drawn, self._tried)
                self._walk(GivenStepChooser(found, then=drawn), len(found) + depth)

    def take(self, steps: tuple[WalkFileStep, ...]) -> None:
        """Make a walk of given steps."""
        given = GivenStepChooser(steps)
        problems: list[InputError] = []

        def choose(offers: ActionCandidates) -> ChosenOutcome | None:
            try:
                return given(offers)
            except InputError as problem:
                problems.append(problem)
                return None

        self._walk(choose, len(steps))
        for problem in problems:
            raise problem

    def follow(self, choose: Callable[[Lockstep], StepChooser]) -> None:
        """Make a walk with a chooser that is built for this lockstep."""
        self._walk(choose(self._lockstep), sys.maxsize)

    def cover(self, graph: LockstepStateGraph) -> EdgeCover:
        """Make walks that together take every labelled step of a state graph."""
        made = EdgeCover(graph)
        while made.goes_on():
            self.follow(made.walk)
        return made

    def _walk(self, choose: StepChooser, depth: int) -> tuple[WalkFileStep, ...]:
        """Make a walk; return its steps up to the last new finding, or none."""
        walked, findings = self._lockstep.walk(choose, depth)
        self.walks += 1
        states = self._lockstep.behaviour
        if not findings:
            self.longest = max(self.longest, tuple(chain.from_iterable(states)), key=len)
        fresh = 0
        for finding in findings:
            sign = finding_signature(finding)
            known = self._kinds.get(sign)
            if known is None:
                fresh = finding.step
            if known is None or finding.step < known.first.step:
                steps = tuple(map(WalkFileStep.of, walked[: finding.step]))
                behaviour = tuple(chain.from_iterable(states[: finding.step + 1]))
                known = FindingClass(finding, steps, 0 if known is None else known.times, behaviour=behaviour)
            self._kinds[sign] = known._replace(times=known.times + 1)
            if finding.verdict is LockstepVerdict.VIOLATES:
                self._broken = sorted([*self._broken, tuple(map(WalkFileStep.of, walked[: finding.step]))], key=len)[
                    :MOST_KEPT_VIOLATING_WALKS
                ]
        if self._report is not None:
            self._report()
        return tuple(map(WalkFileStep.of, walked[:fresh]))

    def findings(self) -> Iterator[LockstepFinding]:
        """Yield one finding of each class."""
        return (kind.first for kind in self._kinds.values())

    def kinds(self) -> list[FindingClass]:
        """Return the classes of findings: violations first, then by frequency."""
        order = list(LockstepVerdict)
        return sorted(self._kinds.values(), key=lambda kind: (-order.index(kind.first.verdict), -kind.times))

    def write(self, folder: Path) -> list[FindingClass]:
        """Shrink a shortest walk of each class, and write it to a file; return the classes with these walks.

        If the Java process ends, walks are written without shrinking.
        """
        folder.mkdir(parents=True, exist_ok=True)
        written = []
        for number, kind in enumerate(self.kinds(), start=1):
            sign = finding_signature(kind.first)
            steps, protocol = list(kind.steps), self._lockstep.protocol
            with suppress(DriverDied):
                steps = shrink_walk(self._lockstep, steps, sign)
                protocol, steps = simplify_model_and_walk(self._lockstep, steps, sign)
            path = folder / f"{kind.first.verdict}-{number}.walk"
            about = self.about._replace(steps=tuple(steps), settings=non_default_settings(protocol))
            write_walk(path, about, [f"{kind.first.verdict}: {what}" for what in finding_summary_lines(kind.first)])
            written.append(kind._replace(steps=tuple(steps), file=path))
        return written


def finding_summary_lines(finding: LockstepFinding) -> list[str]:
    """Return the summary of a finding as lines of text."""
    if finding.violated:
        return [f"violated: {', '.join(finding.violated)}"]
    if finding.problem:
        return [finding.problem]
    action = "at the start" if finding.taken is None else f"after {finding.taken.action}"
    return [f"{action}: {', '.join(sorted({found.field for found in finding.differences}))}"]


FindingSignature = tuple[Any, ...]


def finding_signature(finding: LockstepFinding) -> FindingSignature:
    """Return the signature of a finding, by which findings are classified: verdict, action, differing fields."""
    action = None if finding.taken is None else finding.taken.action
    if finding.verdict is LockstepVerdict.VIOLATES:
        return finding.verdict, frozenset(finding.violated)
    fields = frozenset((found.field, found.where is None) for found in finding.differences)
    return finding.verdict, action, fields, finding.problem.partition(":")[0]


def shrink_walk(lockstep: Lockstep, steps: list[WalkFileStep], wanted: FindingSignature) -> list[WalkFileStep]:
    """Return a walk with the same finding, from which no piece can be left out."""
    best = _replay_until_finding(lockstep, steps, wanted)
    if best is None:
        return steps
    size = max(1, len(best) // 2)
    while True:
        shorter = None
        for first in range(0, len(best), size):
            tried = _replay_until_finding(lockstep, best[:first] + best[first + size :], wanted)
            if tried is not None and len(tried) < len(best):
                shorter = tried
                break
        if shorter is not None:
            best = shorter
            size = min(size, max(1, len(best) // 2))
        elif size == 1:
            return best
        else:
            size = max(1, size // 2)


def simplify_model_and_walk(
    lockstep: Lockstep, steps: list[WalkFileStep], wanted: FindingSignature
) -> tuple[QuorumBase, list[WalkFileStep]]:
    """Return the model with fewer replicas and kinds of events, and a walk through it with the same finding."""
    best = lockstep.protocol
    constants = best.constants.values()
    for host in reversed(ordered(best.hosts)):
        sets = {
            name: value - {host}
            for name, value in _constant_values_by_attribute(best).items()
            if isinstance(value, frozenset)
        }
        others = [step for step in steps if step.actor != str(host)]
        best, steps = _try_constants(lockstep, best, sets, others, wanted) or (best, steps)
    for constant in constants:
        if constant.is_bound and constant.default == 0 and getattr(best, constant.attribute) > 0:
            best, steps = _try_constants(lockstep, best, {constant.attribute: 0}, steps, wanted) or (best, steps)
    return best, steps


def _constant_values_by_attribute(protocol: QuorumBase) -> dict[str, Any]:
    return {constant.attribute: getattr(protocol, constant.attribute) for constant in protocol.constants.values()}


def _try_constants(
    lockstep: Lockstep,
    protocol: QuorumBase,
    changes: dict[str, Any],
    steps: list[WalkFileStep],
    wanted: FindingSignature,
) -> tuple[QuorumBase, list[WalkFileStep]] | None:
    """Return the model with changed constants, and a walk with the wanted finding; None if the walk lacks it."""
    try:
        other = type(protocol)(**{**_constant_values_by_attribute(protocol), **changes})
    except ConstantError:  # no voter is left
        return None
    shown = _replay_until_finding(
        Lockstep(lockstep.driver, other, go_on=lockstep.go_on, ignored=lockstep.ignored), steps, wanted
    )
    return None if shown is None or len(shown) > len(steps) else (other, shown)


def _replay_until_finding(
    lockstep: Lockstep, steps: list[WalkFileStep], wanted: FindingSignature
) -> list[WalkFileStep] | None:
    """Return the steps up to the wanted finding, or None if the walk does not have it."""
    walked, findings = lockstep.walk(GivenStepChooser(steps, skips=True), len(steps))
    shown = [finding.step for finding in findings if finding_signature(finding) == wanted]
    return list(map(WalkFileStep.of, walked[: shown[0]])) if shown else None


class LockstepTask(NamedTuple):
    """Walks to make through one model."""

    name: str  # name of the walks: file and line, if they come from one
    file: WalkFile  # the model and settings, and the steps if known beforehand
    config: ModelConfig  # the constants
    kind: Callable[[], type[QuorumBase]]  # returns the model with Kafka's known differences
    blaming: Callable[[], AbstractContextManager[object]]  # context in which errors name their place in the model
    # returns the chooser of steps for a lockstep; None if `file` has the steps, or they are drawn
    choose: Callable[[Lockstep], StepChooser] | None = None
    # constants of the model whose state graph is covered, or None; `config` has wider bounds
    covered: ModelConfig | None = None
    path: Path | None = None  # walk file that errors do not name by themselves, or None


class TaskResult(NamedTuple):
    """Result of a task."""

    campaign: LockstepCampaign | None = None  # the walks and findings; None if no walk could begin
    cover: EdgeCover | None = None  # the cover, if one was requested
    problem: InputError | None = None  # the error that ended the task, if any
    interrupted: bool = False  # whether the user interrupted it
    kinds: Sequence[FindingClass] = ()  # the classes of findings, with the files of their walks

    @property
    def verdict(self) -> LockstepVerdict:
        """The most severe finding; agreement only if the walks were complete and no step is missing."""
        order = list(LockstepVerdict)
        untaken = () if self.cover is None else self.cover.untaken()
        is_missing = any(reason is UntakenReason.MISSING for _, reason, _ in untaken)
        is_whole = self.problem is None and not self.interrupted and not is_missing
        least = LockstepVerdict.AGREES if is_whole else LockstepVerdict.INCOMPLETE
        return max((kind.first.verdict for kind in self.kinds), key=order.index, default=least)


@contextmanager
def prefix_errors_with_file(path: Path | str | None) -> Iterator[None]:
    """Prefix errors about input with its file."""
    try:
        yield
    except InputError as error:
        if path is None or isinstance(error, DriverDied) or str(error).startswith(str(path)):
            raise
        raise InputError(f"{path}: {error}") from None


def run_task(
    driver: Driver, task: LockstepTask, arguments: argparse.Namespace, report: Callable[[], object]
) -> TaskResult:
    """Make the walks of a task."""
    try:
        with prefix_errors_with_file(task.path):
            kind = task.kind()
    except InputError as problem:
        return TaskResult(problem=problem)
    protocol = bind(kind, task.config).protocol
    assert isinstance(protocol, QuorumBase)
    campaign, made = LockstepCampaign(driver, protocol, task.file, report=report), TaskResult()
    try:
        with task.blaming(), prefix_errors_with_file(task.path):
            made = made._replace(cover=_run_walks_of_task(campaign, kind, task, arguments))
    except InputError as problem:
        made = TaskResult(problem=problem)
    except KeyboardInterrupt:
        made = TaskResult(interrupted=True)
    return made._replace(campaign=campaign, kinds=campaign.kinds())


def _run_walks_of_task(
    campaign: LockstepCampaign, kind: type[QuorumBase], task: LockstepTask, arguments: argparse.Namespace
) -> EdgeCover | None:
    """Make the walks of a campaign; return the cover, if one is requested."""
    if task.covered is not None:
        bound = bind(kind, task.covered)
        return campaign.cover(build_state_graph(Semantics(bound.protocol), bound.init, arguments.depth))
    if task.choose is not None:
        campaign.follow(task.choose)
    elif task.file.steps:
        campaign.take(task.file.steps)
    else:
        campaign.draw(arguments.runs or DEFAULT_RUNS, arguments.depth or DEFAULT_DEPTH, str(arguments.seed))
    return None

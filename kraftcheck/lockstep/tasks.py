"""Walks through one model beside one of Kafka's versions: what is asked for, and what came of it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.variants.kafka import as_kafka
from kraftcheck.lockstep.cover import Cover, Reason, state_graph
from kraftcheck.lockstep.lockstep import Choose, Lockstep, LockstepVerdict
from kraftcheck.lockstep.process import Driver, DriverDied
from kraftcheck.lockstep.survey import Kind, Survey
from kraftcheck.lockstep.walks import DEPTH, RUNS, WalkFile
from kraftcheck.spec.cfg.binding import bind
from kraftcheck.spec.cfg.config import ModelConfig
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.semantics import Semantics


class Task(NamedTuple):
    """Walks to make through one model."""

    name: str  # what the walks are called: the file and the line where they stand in one
    file: WalkFile  # what is walked through. It has the steps where they are known beforehand.
    config: ModelConfig  # the constants
    protocol: type[Quorum]  # the model
    blaming: Callable[[], AbstractContextManager[object]]  # within which errors say where in the model they are
    # returns what picks the steps, given both sides; None where `file` has them, or they are drawn
    choose: Callable[[Lockstep], Choose] | None = None
    # the constants of the model whose state graph is covered, None where there is none; `config` has wider bounds
    covered: ModelConfig | None = None
    path: Path | None = None  # the walk file of which the errors do not say which it is; None where there is none


class Made(NamedTuple):
    """What came of a task."""

    survey: Survey | None = None  # what the walks showed; None where none could be begun
    cover: Cover | None = None  # what was covered, where that was asked for
    problem: InputError | None = None  # why it went no further, if it did not
    interrupted: bool = False  # whether the user stopped it
    kinds: Sequence[Kind] = ()  # the findings, one of each kind, with the files that they were written to

    @property
    def verdict(self) -> LockstepVerdict:
        """The most severe finding; agreement only where nothing ended the walks early and no step is missing."""
        order = list(LockstepVerdict)
        untaken = () if self.cover is None else self.cover.untaken()
        is_missing = any(reason is Reason.MISSING for _, reason, _ in untaken)
        is_whole = self.problem is None and not self.interrupted and not is_missing
        least = LockstepVerdict.AGREES if is_whole else LockstepVerdict.INCOMPLETE
        return max((kind.first.verdict for kind in self.kinds), key=order.index, default=least)


@contextmanager
def naming(path: Path | str | None) -> Iterator[None]:
    """Say which file bad input is in."""
    try:
        yield
    except InputError as error:
        if path is None or isinstance(error, DriverDied) or str(error).startswith(str(path)):
            raise
        raise InputError(f"{path}: {error}") from None


def make(driver: Driver, task: Task, arguments: argparse.Namespace, report: Callable[[], object]) -> Made:
    """Make the walks of a task."""
    try:
        with naming(task.path):
            kind = _kind(task.protocol, arguments, task.file.without)
    except InputError as problem:
        return Made(problem=problem)
    protocol = bind(kind, task.config).protocol
    assert isinstance(protocol, Quorum)
    survey, made = Survey(driver, protocol, task.file, report=report), Made()
    try:
        with task.blaming(), naming(task.path):
            made = made._replace(cover=_walk(survey, kind, task, arguments))
    except InputError as problem:
        made = Made(problem=problem)
    except KeyboardInterrupt:
        made = Made(interrupted=True)
    return made._replace(survey=survey, kinds=survey.kinds())


def _walk(survey: Survey, kind: type[Quorum], task: Task, arguments: argparse.Namespace) -> Cover | None:
    """Make the walks of a survey; return the cover that they make, where one is asked for."""
    if task.covered is not None:
        bound = bind(kind, task.covered)
        return survey.cover(state_graph(Semantics(bound.protocol), bound.init, arguments.depth))
    if task.choose is not None:
        survey.follow(task.choose)
    elif task.file.steps:
        survey.take(task.file.steps)
    else:
        survey.draw(arguments.runs or RUNS, arguments.depth or DEPTH, str(arguments.seed))
    return None


def _kind(protocol: type[Quorum], arguments: argparse.Namespace, without: Sequence[str]) -> type[Quorum]:
    """Return the model that does what Kafka is known to do, unless that was not wanted."""
    kafka = as_kafka(protocol, disk=arguments.disk, without=without)  # which refuses a name that is none of `without`
    return kafka if arguments.known else protocol

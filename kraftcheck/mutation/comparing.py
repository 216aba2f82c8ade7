"""Compares what a mutant's actions do with what the model's did, call by call."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, field

from kraftcheck.catalogue import Job
from kraftcheck.mutation.calls import UnreadError, limited_time, plain_steps, replaying
from kraftcheck.mutation.mutants import Mutant
from kraftcheck.mutation.recording import Recording
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.language.starts import initial_states
from kraftcheck.spec.language.state import State


@dataclass
class Differences:
    """In what a mutant's actions differ from the model's, on the inputs met in one search."""

    lost: Counter[str] = field(default_factory=Counter)  # how many steps each action lacks
    had: Counter[str] = field(default_factory=Counter)  # how many it has in the model
    only_removes: bool = True  # whether nothing is known to be new

    def told(self) -> tuple[str, ...]:
        """Return what is lost, for a person."""
        lost = sorted((+self.lost).items())
        return tuple(
            f"{name}: every step" if times == self.had[name] else f"{name}: {times} of {self.had[name]} steps"
            for name, times in lost
        )


def compare(recording: Recording, mutant: Mutant) -> Differences:
    """Make the calls again in which the changed line ran; the mutant's code is in place."""
    found = Differences(only_removes=_same_starts(recording))
    path = str(mutant.changed.function.__code__.co_filename)
    protocol, kind = recording.job.protocol, recording.shared_type
    for call in recording.through(path, mutant.lines) if found.only_removes else ():
        arguments = replaying(call.action, call.arguments, kind, call.seen)
        try:
            with limited_time():
                made = dict.fromkeys(call.action.function(protocol, *arguments))
                steps = frozenset(plain_steps(call.action, protocol, arguments, made))
        except (Exception, UnreadError):
            steps = None
        if steps is None or not steps <= call.steps:
            return Differences(only_removes=False)
        found.lost[call.action.name] += len(call.steps - steps)
    for call in recording.calls if +found.lost else ():
        found.had[call.action.name] += len(call.steps)
    return found


def starts_of(job: Job) -> list[State]:
    """Return the states from which a mutant starts, the way to a named start included."""
    with limited_time() if job.options.init == "Init" else nullcontext():
        return initial_states(Semantics(job.protocol), job.options.init)


def _same_starts(recording: Recording) -> bool:
    """Whether a mutant begins where the model does: `initial` too may call what is changed."""
    try:
        return starts_of(recording.job) == recording.starts
    except Exception:
        return False

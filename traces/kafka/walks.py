"""Walks: drawn at random, or read from a file.

A walk file is text. Lines that begin with `#`, and blank ones, say nothing to the program:

    model quorum
    set Hosts = {n1, n2}
    go on
    ElectionTimeout by n1
    HandleVoteRequest by n2 on VoteRequest(epoch=0, pre_vote=TRUE, ...)
    RemoveVoter by n1, outcome 2

`go on` is there where the walk goes on from Kafka's state after a difference. Where an action has several outcomes,
`outcome` says which one, in the order of the model.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from kraftcheck.files import replacing
from kraftcheck.spec.display import text_of
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.semantics import Transition

STEP = re.compile(r"(?P<action>\w+) by (?P<actor>[^\s,]+)(?: on (?P<message>.+?))?(?:, outcome (?P<outcome>\d+))?")
MOST_BYTES = 4 << 20


class Step(NamedTuple):
    """A step of a walk, as a walk file has it.

    Attributes
    ----------
    action, actor
        Which action, by which replica.
    message
        The message delivered, as text; "" where none is.
    outcome
        Which of several outcomes; the first is 1.
    line
        Where it stands in its file; 0 where it comes from none.
    """

    action: str
    actor: str
    message: str = ""
    outcome: int = 1
    line: int = 0

    def __str__(self) -> str:
        message = f" on {self.message}" if self.message else ""
        outcome = f", outcome {self.outcome}" if self.outcome > 1 else ""
        return f"{self.action} by {self.actor}{message}{outcome}"


class WalkFile(NamedTuple):
    """What a walk file says.

    Attributes
    ----------
    model, variant
        What is walked through; the variant is "" where there is none.
    settings
        The constants, each as `NAME = VALUE`.
    go_on
        Whether to go on from Kafka's state after a difference.
    steps
        The steps.
    """

    model: str
    variant: str
    settings: tuple[str, ...]
    go_on: bool
    steps: tuple[Step, ...]


def steps_of(offered: Iterable[Transition]) -> Iterator[tuple[Step, Transition]]:
    """Yield the transitions out of a state, each with the step that names it."""
    outcomes: Counter[tuple[object, ...]] = Counter()
    for transition in offered:
        key = transition.action, transition.actor, transition.message
        outcomes[key] += 1
        message = "" if transition.message is None else text_of(transition.message)
        yield Step(transition.action, str(transition.actor), message, outcomes[key]), transition


class RandomWalk:
    """Chooses steps at random: actions that were seldom taken are likelier than others.

    Parameters
    ----------
    seed
        What the choices are drawn from.
    taken
        How often each action was taken, on all walks.
    """

    def __init__(self, seed: str, taken: Counter[str]) -> None:
        self._random = random.Random(seed)
        self._taken = taken

    def __call__(self, offered: list[Transition]) -> Transition | None:
        """Return the next step, or None where there is none."""
        if not offered:
            return None
        names = sorted({step.action for step in offered})
        weights = [self._weight(name) for name in names]
        (name,) = self._random.choices(names, weights)
        return self._random.choice([step for step in offered if step.action == name])

    def _weight(self, action: str) -> float:
        """Deliveries move a quorum on; timeouts, left alone, would only start it anew."""
        base = 6.0 if action.startswith("Handle") else 1.0
        return base / math.sqrt(math.sqrt(1 + self._taken[action]))


class GivenWalk:
    """Takes given steps.

    Parameters
    ----------
    steps
        The steps.
    skips
        Whether a step that is not enabled is left out; otherwise it is an error.
    then
        Chooses the steps that come after them; None where the walk ends.
    """

    def __init__(self, steps: Iterable[Step], *, skips: bool = False, then: RandomWalk | None = None) -> None:
        self._steps = iter(steps)
        self._skips = skips
        self._then = then
        self.kept: list[Step] = []

    def __call__(self, offered: list[Transition]) -> Transition | None:
        """Return the next step, or None at the end.

        Raises
        ------
        InputError
            It is not enabled.
        """
        named = {step._replace(line=0): transition for step, transition in steps_of(offered)}
        for step in self._steps:
            found = named.get(step._replace(line=0))
            if found is not None:
                self.kept.append(step)
                return found
            if not self._skips:
                enabled = sorted({f"{known.action} by {known.actor}" for known in named})
                raise InputError(f"line {step.line}: {step} is not enabled there; enabled are {', '.join(enabled)}")
        return None if self._then is None else self._then(offered)


def read_walk(path: Path) -> WalkFile:
    """Read a walk file.

    Raises
    ------
    InputError
        It is not there, or not what it should be; with the line.
    """
    try:
        raw = path.read_bytes()
        text = raw.decode() if len(raw) <= MOST_BYTES else ""
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: expected a walk file, found bytes that are not text") from None
    if not text:
        raise InputError(f"{path}: expected a walk file of 1 to {MOST_BYTES:,} bytes, found {len(raw):,}")
    model, variant, settings, go_on = "", "", list[str](), False
    steps: list[Step] = []
    for number, line in enumerate(map(str.strip, text.splitlines()), start=1):
        word, _, rest = line.partition(" ")
        match = STEP.fullmatch(line)
        if not line or line.startswith("#"):
            continue
        if word == "model" and rest:
            model = rest
        elif word == "variant" and rest:
            variant = rest
        elif word == "set" and "=" in rest:
            settings.append(rest)
        elif line == "go on":
            go_on = True
        elif match is not None:
            outcome = int(match["outcome"] or 1)
            steps.append(Step(match["action"], match["actor"], match["message"] or "", outcome, number))
        else:
            expected = "ACTION by REPLICA, `set NAME = VALUE` or `go on`"
            raise InputError(f"{path}:{number}:1: expected {expected}, found {line!r}")
    if not model:
        raise InputError(f"{path}:1:1: expected a line `model NAME`, found none")
    return WalkFile(model, variant, tuple(settings), go_on, tuple(steps))


def write_walk(path: Path, walk: WalkFile, comments: Iterable[str] = ()) -> None:
    """Write a walk file.

    Parameters
    ----------
    path
        The file.
    walk
        What it says.
    comments
        Lines of text that come first.
    """
    head = [f"# {comment}" for comment in comments]
    head.append(f"model {walk.model}")
    head += [f"variant {walk.variant}"] if walk.variant else []
    head += [f"set {setting}" for setting in walk.settings]
    head += ["go on"] if walk.go_on else []
    with replacing(path) as new:
        new.write_text("\n".join([*head, "", *map(str, walk.steps)]) + "\n")

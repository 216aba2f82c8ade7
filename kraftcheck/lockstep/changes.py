"""Changes in a version of Kafka since the last one that agreed with the model: findings, and classes of its jar."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile, ZipFile
from zlib import error

from kraftcheck.lockstep.jars import CLIENT, holds
from kraftcheck.lockstep.lockstep import LockstepVerdict
from kraftcheck.lockstep.survey import FindingClass, TaskResult, summary
from kraftcheck.spec.errors import InputError

DISAGREES = (LockstepVerdict.DIFFERS, LockstepVerdict.FAILS)
"""Verdicts by which Kafka does something else than the model; at a violation both may do the same."""

PACKAGE = "org/apache/kafka/"
LINE = re.compile(r"(?<=\.java):\d+")
"""A line number of a Java file. It differs between versions, while the method name does not."""


class ChangedFinding(NamedTuple):
    """A finding of some walks that not as many walks have on both versions."""

    walk: str
    finding: str
    since: int  # number of walks with it on the older version
    now: int


class ChangedClasses(NamedTuple):
    """Classes of kafka-raft, with their nested classes, by what happened to them between two versions."""

    new: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    unchanged: int  # number of the others


class Changes(NamedTuple):
    """The changes between two versions of Kafka."""

    since: str
    kafka: str
    agreed: bool  # whether the older version agrees with the model
    findings: tuple[ChangedFinding, ...]
    classes: ChangedClasses

    def as_json(self) -> dict[str, Any]:
        """Return the changes as a JSON object."""
        classes = self.classes._asdict()
        return {**self._asdict(), "findings": [one._asdict() for one in self.findings], "classes": classes}


def agrees(made: Iterable[TaskResult]) -> bool:
    """Whether Kafka did as the model does on all walks, to their end."""
    found = [one.survey is not None and one.problem is None and not one.interrupted for one in made]
    kinds = [kind.first.verdict for one in made for kind in one.kinds]
    return all(found) and not any(verdict in DISAGREES for verdict in kinds)


def base_of(made: Sequence[Sequence[TaskResult]]) -> int:
    """Return the place of the last version before the newest that agrees; else of the one before the newest."""
    older = range(len(made) - 1)
    return next((place for place in reversed(older) if agrees(made[place])), older[-1])


def changed_findings(
    walks: Sequence[str], since: Sequence[TaskResult], now: Sequence[TaskResult]
) -> tuple[ChangedFinding, ...]:
    """Return the findings of each task that not as many walks have on both versions."""
    found = list[ChangedFinding]()
    for walk, *both in zip(walks, since, now, strict=False):
        before, after = (_counted(one) for one in both)
        names = [name for name in dict.fromkeys([*before, *after]) if before[name] != after[name]]
        found += (ChangedFinding(walk, name, before[name], after[name]) for name in names)
    return tuple(found)


def _counted(made: TaskResult) -> Counter[str]:
    found = Counter[str]()
    for kind in made.kinds:
        found[_named(kind)] += kind.times
    if made.problem is not None:
        found[f"ends early: {made.problem}"] += 1
    return found


def _named(kind: FindingClass) -> str:
    """Return the verdict and summary of a finding, without line numbers."""
    return f"{kind.first.verdict}: {LINE.sub('', summary(kind.first)[0])}"


def classes_of(jars: Iterable[Path]) -> dict[str, str]:
    """Return the digest of each top-level class of kafka-raft, over the bytes of the class and its nested classes."""
    core = next((jar for jar in jars if holds(jar, CLIENT)), None)
    if core is None:
        raise InputError("--changes: expected the jar of kafka-raft, found none; give a version, or a folder with it")
    found: defaultdict[str, list[bytes]] = defaultdict(list)
    try:
        with ZipFile(core) as jar:
            for entry in sorted(name for name in jar.namelist() if name.endswith(".class")):
                name = entry.removesuffix(".class").partition("$")[0].removeprefix(PACKAGE).replace("/", ".")
                found[name].append(entry.encode() + b"\0" + blake2b(jar.read(entry)).digest())
    except (BadZipFile, OSError, error) as problem:
        raise InputError(f"--changes: {core}: cannot be read: {problem}; fetch or build the jar again") from None
    return {name: blake2b(b"".join(parts)).hexdigest() for name, parts in found.items()}


def changed_classes(since: Mapping[str, str], now: Mapping[str, str]) -> ChangedClasses:
    """Compare two versions by the digests of their classes."""
    both = [name for name in now if name in since]
    changed = sorted(name for name in both if now[name] != since[name])
    new, removed = (tuple(sorted({*one} - {*other})) for one, other in ((now, since), (since, now)))
    return ChangedClasses(new, removed, tuple(changed), len(both) - len(changed))


def changes(
    versions: Sequence[str],
    names: Sequence[str],
    walks: Sequence[str],
    made: Sequence[Sequence[TaskResult]],
    jars: Callable[[str], Iterable[Path]],
) -> Changes:
    """Return what changed in the last version since the last one before it that agrees with the model.

    `versions` are those of the command line, `names` as their jars name them; `made` are the results of their tasks,
    whose names are `walks`. `jars` returns the jars of a version.
    """
    place = base_of(made)
    older, newer = (classes_of(jars(versions[one])) for one in (place, -1))
    found = changed_findings(walks, made[place], made[-1])
    return Changes(names[place], names[-1], agrees(made[place]), found, changed_classes(older, newer))

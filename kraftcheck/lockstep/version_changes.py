"""Changes in a version of Kafka since the last one that agreed with the model: findings, and classes of its jar."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile, ZipFile
from zlib import error

from kraftcheck.lockstep.jars import CLIENT_CLASS, jar_contains
from kraftcheck.spec.errors import InputError

KAFKA_PACKAGE = "org/apache/kafka/"


class ChangedFinding(NamedTuple):
    """A finding of some walks that not as many walks have on both versions."""

    walk: str
    finding: str
    since: int  # number of walks with it on the older version
    now: int


class KafkaClassChanges(NamedTuple):
    """Classes of kafka-raft, with their nested classes, by what happened to them between two versions."""

    new: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    unchanged: int  # number of the others


class VersionResults(NamedTuple):
    """The results of walks on one version of Kafka."""

    kafka: str  # as on the command line
    name: str  # as in the name of its jar
    agrees: bool
    findings: Sequence[Counter[str]]  # of each task, the number of walks by finding


class VersionChanges(NamedTuple):
    """The changes between two versions of Kafka."""

    since: str
    kafka: str
    agreed: bool  # whether the older version agrees with the model
    findings: tuple[ChangedFinding, ...]
    classes: KafkaClassChanges

    def as_json(self) -> dict[str, Any]:
        """Return the changes as a JSON object."""
        classes = self.classes._asdict()
        return {**self._asdict(), "findings": [one._asdict() for one in self.findings], "classes": classes}


def last_agreeing_or_previous_version(versions: Sequence[VersionResults]) -> VersionResults:
    """Return the last version before the newest that agrees; else the one before the newest."""
    return next((one for one in reversed(versions[:-1]) if one.agrees), versions[-2])


def changed_findings(walks: Sequence[str], since: VersionResults, now: VersionResults) -> tuple[ChangedFinding, ...]:
    """Return the findings of each task that not as many walks have on both versions."""
    found = list[ChangedFinding]()
    for walk, before, after in zip(walks, since.findings, now.findings, strict=False):
        names = [name for name in dict.fromkeys([*before, *after]) if before[name] != after[name]]
        found += (ChangedFinding(walk, name, before[name], after[name]) for name in names)
    return tuple(found)


def kafka_raft_class_digests(jars: Iterable[Path]) -> dict[str, str]:
    """Return the digest of each top-level class of kafka-raft, over the bytes of the class and its nested classes."""
    core = next((jar for jar in jars if jar_contains(jar, CLIENT_CLASS)), None)
    if core is None:
        raise InputError("--changes: expected the jar of kafka-raft, found none; give a version, or a folder with it")
    found: defaultdict[str, list[bytes]] = defaultdict(list)
    try:
        with ZipFile(core) as jar:
            for entry in sorted(name for name in jar.namelist() if name.endswith(".class")):
                name = entry.removesuffix(".class").partition("$")[0].removeprefix(KAFKA_PACKAGE).replace("/", ".")
                found[name].append(entry.encode() + b"\0" + blake2b(jar.read(entry)).digest())
    except (BadZipFile, OSError, error) as problem:
        raise InputError(f"--changes: {core}: cannot be read: {problem}; fetch or build the jar again") from None
    return {name: blake2b(b"".join(parts)).hexdigest() for name, parts in found.items()}


def compare_class_digests(since: Mapping[str, str], now: Mapping[str, str]) -> KafkaClassChanges:
    """Compare two versions by the digests of their classes."""
    both = [name for name in now if name in since]
    changed = sorted(name for name in both if now[name] != since[name])
    new, removed = (tuple(sorted({*one} - {*other})) for one, other in ((now, since), (since, now)))
    return KafkaClassChanges(new, removed, tuple(changed), len(both) - len(changed))


def compare_versions(
    versions: Sequence[VersionResults], walks: Sequence[str], jars: Callable[[str], Iterable[Path]]
) -> VersionChanges:
    """Return what changed in the last version since the last one before it that agrees with the model.

    `walks` are the names of the tasks; `jars` returns the jars of a version as the command line names it.
    """
    since, now = last_agreeing_or_previous_version(versions), versions[-1]
    older, newer = (kafka_raft_class_digests(jars(one.kafka)) for one in (since, now))
    findings = changed_findings(walks, since, now)
    return VersionChanges(since.name, now.name, since.agrees, findings, compare_class_digests(older, newer))

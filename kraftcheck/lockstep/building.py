"""Compiles the driver, once for each of Kafka's versions and each Java, and makes it start quickly."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from kraftcheck.files import distrusted, replacing
from kraftcheck.lockstep.java import find_java, identity, require_new_enough, run_to_end
from kraftcheck.spec.errors import InputError

FITS = "4.1 to 4.4"
SOURCES = Path(__file__).with_name("driver")
MAIN = "org.apache.kafka.raft.LockstepDriver"
CLIENT = "org/apache/kafka/raft/KafkaRaftClient.class"
KIT = "org/apache/kafka/raft/MockLog.class"
FAMILIES = {
    "org/apache/kafka/common/record/internal/MemoryRecords.class": ("since_4_3", "until_4_2"),
    "org/apache/kafka/common/utils/internals/LogContext.class": ("since_4_4", "until_4_3"),
}
"""By a class that Kafka has from a version on: the folder that fits since then, and the one that fits until then."""

QUIET = ("-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr")
"""Options of Java: an archive of classes that does not fit is not used, without a word on standard output."""

PATIENCE = 300.0  # seconds that the compiler may take
MOST_KEPT = 24  # compiled drivers; the oldest go first

REHEARSAL: tuple[dict[str, object], ...] = (
    {"do": "cluster", "nodes": [1, 2], "voters": [1, 2], "version": 1},
    {"do": "expire", "node": 1},
    *({"do": "deliver", "message": number} for number in range(1, 13)),
    {"do": "append", "node": 1, "value": "1"},
    *({"do": "deliver", "message": number} for number in range(13, 19)),
)
"""Commands that load the classes that most walks need: an election and a fetch."""


def cache() -> Path:
    """Return the folder in which compiled drivers are kept, and where Maven put Kafka's jars."""
    given = os.environ.get("XDG_CACHE_HOME")
    folder = Path(given or Path.home() / ".cache") / "kraftcheck" / "kafka"
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    problem = distrusted(folder)
    if problem is not None:
        raise InputError(f"{folder}: {problem}, and what is in it is executed; remove it, or set XDG_CACHE_HOME")
    return folder


def holds(jar: Path, name: str) -> bool:
    """Return whether there is a class in a jar."""
    try:
        with ZipFile(jar) as file:
            return name in file.namelist()
    except (BadZipFile, OSError) as error:
        raise InputError(f"--kafka: {jar}: not a jar: {error}") from None


def built(java: Path, jars: Sequence[Path], kafka: str) -> Path:
    """Return the folder of `driver.jar`, compiled against Kafka's jars, with its class archive if there is one."""
    digest = blake2b(identity(java).encode(), digest_size=8)
    for path in sorted(SOURCES.rglob("*.java")):
        digest.update(path.read_bytes())
    for jar in jars:
        digest.update(f"{jar} {jar.stat().st_size} {jar.stat().st_mtime_ns}".encode())
    target = cache() / "driver" / digest.hexdigest()
    if not target.is_dir():
        require_new_enough(java)
        compiler = find_java("javac")
        require_new_enough(compiler)
        _require_kafka(jars, kafka)
        target.parent.mkdir(parents=True, exist_ok=True)
        new = target.with_name(f"{target.name}.{os.getpid()}.new")
        try:
            _compile(compiler, jars, kafka, new)
            new.rename(target)
        except OSError:
            if not target.is_dir():  # otherwise another process was first
                raise
        finally:
            shutil.rmtree(new, ignore_errors=True)
        _archive(java, jars, target)
        _forget_the_oldest(target.parent)
    return target


def _require_kafka(jars: Sequence[Path], kafka: str) -> None:
    """Check that Kafka's Raft client and MockLog are in the jars, once."""
    for wanted, what in ((CLIENT, "kafka-raft"), (KIT, "kafka-raft's test kit (classifier test or test-fixtures)")):
        found = [jar for jar in jars if holds(jar, wanted)]
        if not found:
            raise InputError(f"--kafka {kafka}: expected the jar of {what} there, found {len(jars)} other jars")
        if len(found) > 1:
            names = " and ".join(jar.name for jar in found)
            raise InputError(f"--kafka {kafka}: expected one jar of {what} there, found {names}")


def _compile(compiler: Path, jars: Sequence[Path], kafka: str, new: Path) -> None:
    """Compile what fits these jars, into a jar: Java keeps no archive of classes in a folder."""
    sources = sorted(SOURCES.glob("common/*.java"))
    for held, (since, until) in FAMILIES.items():
        family = since if any(holds(jar, held) for jar in jars) else until
        sources += sorted(SOURCES.glob(f"{family}/*.java"))
    classes = new / "classes"
    command = [str(compiler), "-nowarn", "-cp", os.pathsep.join(map(str, jars)), "-d", str(classes)]
    done = run_to_end([*command, *map(str, sources)], PATIENCE)
    if done.returncode != 0:
        first = next((line for line in done.stderr.splitlines() if "error:" in line), "javac says nothing")
        problem = first.rpartition("/")[2]
        raise InputError(f"--kafka {kafka}: the driver, for Kafka {FITS}, does not fit this version: {problem}")
    with ZipFile(new / "driver.jar", "w") as jar:
        for path in sorted(classes.rglob("*.class")):
            jar.write(path, str(path.relative_to(classes)))
    shutil.rmtree(classes)


def _archive(java: Path, jars: Sequence[Path], target: Path) -> None:
    """Make an archive of the classes that walks need; without one the driver is only slower to start."""
    entries = os.pathsep.join(map(str, (target / "driver.jar", *jars)))
    with replacing(target / "classes.jsa") as new:
        options = (*QUIET, f"-XX:ArchiveClassesAtExit={new}")
        commands = "".join(f"{json.dumps(command)}\n" for command in REHEARSAL)
        run_to_end([str(java), *options, "-cp", entries, MAIN], PATIENCE, commands)
        new.touch()  # an empty one is not used


def _forget_the_oldest(folder: Path) -> None:
    kept = sorted((path for path in folder.iterdir() if re.fullmatch(r"[0-9a-f]+", path.name)), key=_age)
    for path in kept[:-MOST_KEPT]:
        shutil.rmtree(path, ignore_errors=True)


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # another process was first
        return 0.0

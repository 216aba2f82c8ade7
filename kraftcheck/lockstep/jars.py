"""Gets Kafka's jars by Maven or from a folder, with the driver that fits them."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kraftcheck.files import replacing
from kraftcheck.lockstep.building import built, cache, holds
from kraftcheck.lockstep.java import find_java, run_to_end
from kraftcheck.spec.errors import InputError

PATIENCE = 600.0  # seconds that Maven may take
LOG = "org/apache/kafka/raft/internals/KafkaRaftLog.class"
VERSION = re.compile(r"\d+\.\d+\.\d+(-\w+)?")
CORE = re.compile(r"kafka-raft-(\d[\w.-]*?)\.jar")
MISSING = re.compile(r"Could not find artifact (\S+)|(\S+) was not found in ")
CLASSIFIERS = ("test", "test-fixtures")  # of the jar with Kafka's own MockLog; it has another name from 4.4 on

POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>kraftcheck</groupId><artifactId>lockstep</artifactId><version>1</version>
<dependencies>
{dependencies}
</dependencies></project>
"""
DEPENDENCY = """\
<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>{classifier}</dependency>"""


class Artifact(NamedTuple):
    """What Maven is asked for, by Maven's names."""

    group: str
    artifact: str
    version: str
    classifier: str = ""


class Classpath(NamedTuple):
    """What the driver runs with."""

    java: Path  # the program `java`
    entries: tuple[Path, ...]  # the compiled driver, then Kafka's jars
    version: str  # kafka's version, as its jar's name has it

    @property
    def text(self) -> str:
        """As `java -cp` takes it."""
        return os.pathsep.join(map(str, self.entries))

    @property
    def options(self) -> tuple[str, ...]:
        """Options of Java: the archive of the driver's classes, where one was made."""
        archive = self.entries[0].with_name("classes.jsa")
        return (f"-XX:SharedArchiveFile={archive}",) if archive.is_file() and archive.stat().st_size else ()


def classpath(kafka: str, *, disk: bool = False) -> Classpath:
    """Return everything that is needed to drive one of Kafka's versions."""
    java = find_java("java")
    jars = _from_folder(Path(kafka)) if Path(kafka).is_dir() else _by_maven(kafka)
    driver = built(java, jars, kafka) / "driver.jar"
    if disk and not any(holds(jar, LOG) for jar in jars):
        raise InputError(f"--disk: Kafka's log on disk is in kafka-raft from 4.3 on; in {kafka} there is none")
    named = (CORE.fullmatch(jar.name) for jar in jars)
    version = next((match[1] for match in named if match and not match[1].endswith(CLASSIFIERS)), f"in {kafka}")
    return Classpath(java, (driver, *jars), version)


def _from_folder(folder: Path) -> list[Path]:
    jars = sorted(folder.rglob("*.jar"))
    return [jar for jar in jars if not jar.name.endswith(("-sources.jar", "-javadoc.jar"))]


def _by_maven(version: str) -> list[Path]:
    """Return the jars of a version with its test kit."""
    if not VERSION.fullmatch(version):
        raise InputError(f"--kafka {version}: expected a version such as 4.3.0, or a folder with jars")
    problem = ""
    for classifier in CLASSIFIERS:
        wanted = (
            Artifact("org.apache.kafka", "kafka-raft", version),
            Artifact("org.apache.kafka", "kafka-raft", version, classifier),
            Artifact("org.slf4j", "slf4j-nop", "1.7.36"),
        )
        try:
            return fetched(wanted, version)
        except NotInMavenError as error:
            problem = str(error)
    raise InputError(f"--kafka {version}: Maven has no such version of kafka-raft with its test kit: {problem}")


class NotInMavenError(Exception):
    """Maven cannot find an artifact."""


def fetched(wanted: Sequence[Artifact], name: str) -> list[Path]:
    """Return the jars of artifacts and of all that they need; Maven fetches those that its repository does not have."""
    folder = cache() / name
    dependencies = [
        DEPENDENCY.format(**{**one._asdict(), "classifier": f"<classifier>{one.classifier}</classifier>"})
        if one.classifier
        else DEPENDENCY.format(**one._asdict())
        for one in wanted
    ]
    pom, noted = POM.format(dependencies="\n".join(dependencies)), folder / "jars"
    if noted.is_file():
        asked, *lines = noted.read_text().split("\0")
        jars = [Path(line) for line in lines]
        if asked == pom and all(jar.is_file() for jar in jars):
            return jars
    maven = shutil.which("mvn")
    if maven is None:
        raise InputError("lockstep needs Maven to fetch Kafka's jars: there is no mvn on the PATH; or give --kafka DIR")
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / "pom.xml") as project, replacing(folder / "classpath") as listed:
        project.write_text(pom)
        listed.touch()
        command = [maven, "-q", "-B", "-f", str(project), "dependency:build-classpath", f"-Dmdep.outputFile={listed}"]
        done = run_to_end(command, PATIENCE)
        entries = listed.read_text().strip()
    if done.returncode != 0 or not entries:
        said = done.stdout + done.stderr
        missing = MISSING.search(said)
        if missing is not None:
            raise NotInMavenError(f"there is no {missing[1] or missing[2]}")
        problem = next((line.partition("ERROR]")[2].strip() for line in said.splitlines() if "ERROR]" in line), "")
        raise InputError(f"--kafka: Maven cannot fetch {name}: {problem[:300] or f'exit code {done.returncode}'}")
    jars = [Path(entry) for entry in entries.split(os.pathsep)]
    with replacing(noted) as new:
        new.write_text("\0".join([pom, *map(str, jars)]))
    return jars

"""Finds Java, gets Kafka's jars by Maven or from a folder, and compiles the driver once for each of them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile, ZipFile

from kraftcheck.files import replacing
from kraftcheck.spec.errors import InputError

LEAST_JAVA = 17
PATIENCE = 600.0  # seconds that Maven may take
VERSION = re.compile(r"\d+\.\d+\.\d+(-\w+)?")
SOURCES = Path(__file__).with_name("driver")
KIT = "org/apache/kafka/raft/MockLog.class"
CLIENT = "org/apache/kafka/raft/KafkaRaftClient.class"
FAMILIES = {
    "org/apache/kafka/common/record/internal/MemoryRecords.class": ("since_4_3", "until_4_2"),
    "org/apache/kafka/common/utils/internals/LogContext.class": ("since_4_4", "until_4_3"),
}
"""By a class that Kafka has from a version on: the folder that fits since then, and the one that fits until then."""

POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>kraftcheck</groupId><artifactId>lockstep</artifactId><version>1</version>
<dependencies>
{dependencies}
</dependencies></project>
"""
DEPENDENCY = """\
<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>{classifier}</dependency>"""
CLASSIFIERS = ("test", "test-fixtures")  # of the jar with Kafka's own MockLog; it has another name from 4.4 on


class Classpath(NamedTuple):
    """What the driver runs with.

    Attributes
    ----------
    java
        The program `java`.
    entries
        The compiled driver, then Kafka's jars.
    version
        Kafka's version, as its jar's name has it.
    """

    java: Path
    entries: tuple[Path, ...]
    version: str

    @property
    def text(self) -> str:
        """As `java -cp` takes it."""
        return os.pathsep.join(map(str, self.entries))


def classpath(kafka: str) -> Classpath:
    """Return everything that is needed to drive one of Kafka's versions.

    Parameters
    ----------
    kafka
        A version in Maven Central, or a folder with Kafka's jars and those of its test kit.

    Raises
    ------
    InputError
        Java or Maven is missing, there is no such version, or the folder lacks what is needed.
    """
    java, compiler = _java("java"), _java("javac")
    jars = _from_folder(Path(kafka)) if Path(kafka).is_dir() else _by_maven(kafka)
    driver = _compiled(compiler, jars, kafka)
    core = next(jar.name for jar in jars if re.fullmatch(r"kafka-raft-[\d.]+(-SNAPSHOT)?\.jar", jar.name))
    return Classpath(java, (driver, *jars), core.removeprefix("kafka-raft-").removesuffix(".jar"))


def _cache() -> Path:
    given = os.environ.get("XDG_CACHE_HOME")
    return Path(given or Path.home() / ".cache") / "kraftcheck" / "kafka"


def _java(name: str) -> Path:
    """Return a program of the JDK; Java must be new enough."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / name) if home else shutil.which(name)
    where = f"JAVA_HOME ({home})" if home else "the PATH"
    if found is None or not Path(found).is_file():
        raise InputError(f"lockstep needs a JDK, version {LEAST_JAVA} or newer: there is no {name} on {where}")
    said = subprocess.run([found, "-version"], capture_output=True, text=True, check=False)
    match = re.search(r"(?:version \"|javac )(\d+)", said.stderr + said.stdout)
    if match is None or int(match[1]) < LEAST_JAVA:
        version = "of unknown version" if match is None else match[1]
        raise InputError(f"lockstep needs a JDK, version {LEAST_JAVA} or newer; {found} is {version}")
    return Path(found)


def _from_folder(folder: Path) -> list[Path]:
    """Return the jars in a folder, after checking that Kafka's Raft client and MockLog are among them."""
    jars = sorted(folder.rglob("*.jar"))
    jars = [jar for jar in jars if not jar.name.endswith(("-sources.jar", "-javadoc.jar"))]
    for wanted, what in ((CLIENT, "kafka-raft"), (KIT, "kafka-raft's test kit (classifier test or test-fixtures)")):
        if not any(_holds(jar, wanted) for jar in jars):
            raise InputError(f"--kafka {folder}: expected the jar of {what} there, found {len(jars)} other jars")
    return jars


def _holds(jar: Path, name: str) -> bool:
    try:
        with ZipFile(jar) as file:
            return name in file.namelist()
    except (BadZipFile, OSError) as error:
        raise InputError(f"--kafka: {jar}: not a jar: {error}") from None


def _by_maven(version: str) -> list[Path]:
    """Return the jars of a version; Maven fetches those that its repository does not have yet."""
    if not VERSION.fullmatch(version):
        raise InputError(f"--kafka {version}: expected a version such as 4.3.0, or a folder with jars")
    noted = _cache() / version / "jars"
    if noted.is_file():
        jars = [Path(line) for line in noted.read_text().splitlines()]
        if all(jar.is_file() for jar in jars):
            return jars
    maven = shutil.which("mvn")
    if maven is None:
        raise InputError("lockstep needs Maven to fetch Kafka's jars: there is no mvn on the PATH; or give --kafka DIR")
    noted.parent.mkdir(parents=True, exist_ok=True)
    problem = ""
    for classifier in CLASSIFIERS:
        jars, problem = _resolved(maven, noted.parent, version, classifier)
        if jars:
            with replacing(noted) as new:
                new.write_text("\n".join(map(str, jars)))
            return jars
    raise InputError(f"--kafka {version}: Maven has no such version of kafka-raft with its test kit: {problem}")


def _resolved(maven: str, folder: Path, version: str, classifier: str) -> tuple[list[Path], str]:
    """Return the jars that Maven resolves, or none and what it says."""
    kafka = {"group": "org.apache.kafka", "artifact": "kafka-raft", "version": version}
    silent = {"group": "org.slf4j", "artifact": "slf4j-nop", "version": "1.7.36", "classifier": ""}
    wanted = ({**kafka, "classifier": ""}, {**kafka, "classifier": f"<classifier>{classifier}</classifier>"}, silent)
    pom, listed = folder / f"{classifier}.xml", folder / f"{classifier}.classpath"
    pom.write_text(POM.format(dependencies="\n".join(DEPENDENCY.format(**one) for one in wanted)))
    command = [maven, "-q", "-B", "-f", str(pom), "dependency:build-classpath", f"-Dmdep.outputFile={listed}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        raise InputError(f"--kafka {version}: Maven did not answer within {PATIENCE:.0f} s") from None
    if done.returncode != 0:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
        return [], (lines[0].partition("ERROR]")[2].strip() if lines else f"exit code {done.returncode}")[:300]
    return [Path(entry) for entry in listed.read_text().strip().split(os.pathsep)], ""


def _compiled(compiler: Path, jars: list[Path], kafka: str) -> Path:
    """Return the folder with the driver, compiled against these jars; it is made once."""
    sources = sorted(SOURCES.glob("common/*.java"))
    for held, (since, until) in FAMILIES.items():
        family = since if any(_holds(jar, held) for jar in jars) else until
        sources += sorted(SOURCES.glob(f"{family}/*.java"))
    digest = blake2b(digest_size=8)
    for path in sources:
        digest.update(path.read_bytes())
    for jar in jars:
        digest.update(f"{jar}{jar.stat().st_size}".encode())
    target = _cache() / "driver" / digest.hexdigest()
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    new = target.with_name(f"{target.name}.{os.getpid()}.new")
    entries = os.pathsep.join(map(str, jars))
    command = [str(compiler), "-nowarn", "-cp", entries, "-d", str(new), *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        shutil.rmtree(new, ignore_errors=True)
        first = next((line for line in done.stderr.splitlines() if "error:" in line), "javac says nothing")
        raise InputError(f"--kafka {kafka}: the driver does not fit this version: {first.rpartition('/')[2]}")
    try:
        new.rename(target)
    except OSError:  # another process was first
        shutil.rmtree(new, ignore_errors=True)
    return target

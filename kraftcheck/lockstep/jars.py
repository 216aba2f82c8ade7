"""Kafka's jars, from Maven or from a folder, and jars of our own Java sources, compiled at first use."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, NoReturn
from zipfile import BadZipFile, ZipFile

from kraftcheck.files import atomic_replacement, folder_distrust_reason
from kraftcheck.processes import LEAST_JAVA_VERSION, java_version, jdk_program_and_lookup_place, run_program
from kraftcheck.spec.errors import InputError

NO_JDK_MESSAGE = f"lockstep needs a JDK, version {LEAST_JAVA_VERSION} or newer"
SUPPORTED_KAFKA_TEXT = "4.1 to 4.4"
DRIVER_SOURCES = Path(__file__).with_name("driver")
DRIVER_MAIN_CLASS = "org.apache.kafka.raft.LockstepDriver"
CLIENT_CLASS = "org/apache/kafka/raft/KafkaRaftClient.class"
TEST_KIT_CLASS = "org/apache/kafka/raft/MockLog.class"
DRIVER_SOURCES_BY_CLASS = {
    "org/apache/kafka/common/record/internal/MemoryRecords.class": ("since_4_3", "until_4_2"),
    "org/apache/kafka/common/utils/internals/LogContext.class": ("since_4_4", "until_4_3"),
}
"""By a class that Kafka has from a version on: the source folder since that version, and the one until then."""

QUIET_JAVA_OPTIONS = ("-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr")
"""Options of Java: an unsuitable class archive is ignored, without a message on standard output."""

MAVEN_TIMEOUT_SECONDS = 600.0  # seconds for Maven or the compiler
MOST_CACHED_DRIVERS = 24  # compiled drivers; the oldest go first

REHEARSAL_COMMANDS: tuple[dict[str, object], ...] = (
    {"do": "cluster", "nodes": [1, 2], "voters": [1, 2], "version": 1},
    {"do": "expire", "node": 1},
    *({"do": "deliver", "message": number} for number in range(1, 13)),
    {"do": "append", "node": 1, "value": "1"},
    *({"do": "deliver", "message": number} for number in range(13, 19)),
)
"""Commands that load the classes of most walks: an election and a fetch."""


def make_trusted_cache_folder() -> Path:
    """Return the cache folder of compiled drivers and of the paths to Kafka's jars."""
    given = os.environ.get("XDG_CACHE_HOME")
    folder = Path(given or Path.home() / ".cache") / "kraftcheck" / "kafka"
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    problem = folder_distrust_reason(folder)
    if problem is not None:
        raise InputError(f"{folder}: {problem}, and its files are executed; remove it, or set XDG_CACHE_HOME")
    return folder


def jar_contains(jar: Path, name: str) -> bool:
    """Whether a jar contains a class."""
    try:
        with ZipFile(jar) as file:
            return name in file.namelist()
    except (BadZipFile, OSError) as error:
        raise InputError(f"--kafka: {jar}: not a jar: {error}") from None


def find_jdk_program(name: str) -> Path:
    """Return the path of a JDK program."""
    found, where = jdk_program_and_lookup_place(name)
    if found is None:
        raise InputError(f"{NO_JDK_MESSAGE}: there is no {name} on {where}")
    return found


def require_java_for_kafka(program: Path) -> None:
    """Require a JDK program of a version that can run Kafka."""
    version = java_version(program)
    if version is None or version < LEAST_JAVA_VERSION:
        raise InputError(
            f"{NO_JDK_MESSAGE}; {program} is {'of unknown version' if version is None else f'version {version}'}"
        )


def _file_identity(file: Path) -> str:
    """Return a text that changes when a file is replaced by another."""
    return f"{file} {file.stat().st_size} {file.stat().st_mtime_ns}"


def build_driver(java: Path, jars: Sequence[Path], kafka: str) -> Path:
    """Return the folder of `driver.jar`, compiled against Kafka's jars, with its class archive if there is one."""
    digest = blake2b(_file_identity(java.resolve()).encode(), digest_size=8)
    for path in sorted(DRIVER_SOURCES.rglob("*.java")):
        digest.update(path.read_bytes())
    for jar in jars:
        digest.update(_file_identity(jar).encode())
    target = make_trusted_cache_folder() / "driver" / digest.hexdigest()
    if not target.is_dir():
        require_java_for_kafka(java)
        compiler = find_jdk_program("javac")
        require_java_for_kafka(compiler)
        _require_one_client_and_one_test_kit_jar(jars, kafka)
        target.parent.mkdir(parents=True, exist_ok=True)
        new = target.with_name(f"{target.name}.{os.getpid()}.new")
        try:
            _compile_driver_jar(compiler, jars, kafka, new)
            new.rename(target)
        except OSError:
            if not target.is_dir():  # otherwise another process was first
                raise
        finally:
            shutil.rmtree(new, ignore_errors=True)
        _make_class_archive(java, jars, target)
        _remove_oldest_drivers(target.parent)
    return target


def _require_one_client_and_one_test_kit_jar(jars: Sequence[Path], kafka: str) -> None:
    """Require exactly one jar with Kafka's Raft client, and one with MockLog."""
    for wanted, what in (
        (CLIENT_CLASS, "kafka-raft"),
        (TEST_KIT_CLASS, "kafka-raft's test kit (classifier test or test-fixtures)"),
    ):
        found = [jar for jar in jars if jar_contains(jar, wanted)]
        if not found:
            raise InputError(f"--kafka {kafka}: no jar of {what} there; add it, with its dependencies")
        if len(found) > 1:
            names = " and ".join(jar.name for jar in found)
            raise InputError(f"--kafka {kafka}: expected one jar of {what} there, found {names}; remove all but one")


def _compile_driver_jar(compiler: Path, jars: Sequence[Path], kafka: str, new: Path) -> None:
    """Compile the driver for these jars, into a jar: Java keeps no class archive for a folder."""
    sources = sorted(DRIVER_SOURCES.glob("common/*.java"))
    for held, (since, until) in DRIVER_SOURCES_BY_CLASS.items():
        family = since if any(jar_contains(jar, held) for jar in jars) else until
        sources += sorted(DRIVER_SOURCES.glob(f"{family}/*.java"))
    classes = new / "classes"
    command = [str(compiler), "-nowarn", "-cp", os.pathsep.join(map(str, jars)), "-d", str(classes)]
    done = run_program([*command, *map(str, sources)], MAVEN_TIMEOUT_SECONDS)
    if done.returncode != 0:
        first = next((line for line in done.stderr.splitlines() if "error:" in line), "javac says nothing")
        problem = first.rpartition("/")[2]
        raise InputError(
            f"--kafka {kafka}: the driver, for Kafka {SUPPORTED_KAFKA_TEXT}, does not fit this version: {problem}"
        )
    with ZipFile(new / "driver.jar", "w") as jar:
        for path in sorted(classes.rglob("*.class")):
            jar.write(path, str(path.relative_to(classes)))
    shutil.rmtree(classes)


def _make_class_archive(java: Path, jars: Sequence[Path], target: Path) -> None:
    """Make an archive of the classes that walks need; without one, the driver only starts more slowly."""
    entries = os.pathsep.join(map(str, (target / "driver.jar", *jars)))
    with atomic_replacement(target / "classes.jsa") as new:
        options = (*QUIET_JAVA_OPTIONS, f"-XX:ArchiveClassesAtExit={new}")
        commands = "".join(f"{json.dumps(command)}\n" for command in REHEARSAL_COMMANDS)
        run_program([str(java), *options, "-cp", entries, DRIVER_MAIN_CLASS], MAVEN_TIMEOUT_SECONDS, commands)
        new.touch()  # an empty archive is not used


def _remove_oldest_drivers(folder: Path) -> None:
    kept = sorted((path for path in folder.iterdir() if re.fullmatch(r"[0-9a-f]+", path.name)), key=_last_use_time)
    for path in kept[:-MOST_CACHED_DRIVERS]:
        shutil.rmtree(path, ignore_errors=True)


def _last_use_time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # another process was first
        return 0.0


RAFT_LOG_CLASS = "org/apache/kafka/raft/internals/KafkaRaftLog.class"
VERSION_PATTERN = re.compile(r"\d+\.\d+\.\d+(-\w+)?")
RAFT_JAR_NAME_PATTERN = re.compile(r"kafka-raft-(\d[\w.-]*?)\.jar")
MISSING_ARTIFACT_PATTERN = re.compile(r"Could not find artifact (\S+)|(\S+) was not found in ")
TEST_JAR_CLASSIFIERS = ("test", "test-fixtures")  # of the jar with Kafka's MockLog; renamed in 4.4

POM_TEMPLATE = """\
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>kraftcheck</groupId><artifactId>lockstep</artifactId><version>1</version>
<dependencies>
{dependencies}
</dependencies></project>
"""
DEPENDENCY_TEMPLATE = """\
<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>{classifier}</dependency>"""


class MavenArtifact(NamedTuple):
    """An artifact, in Maven's terms."""

    group: str
    artifact: str
    version: str
    classifier: str = ""


class DriverClasspath(NamedTuple):
    """Class path and Java of a driver."""

    java: Path  # the program `java`
    entries: tuple[Path, ...]  # the compiled driver, then Kafka's jars
    version: str  # Kafka's version, from the name of its jar

    @property
    def text(self) -> str:
        """The class path as text, for `java -cp`."""
        return os.pathsep.join(map(str, self.entries))

    @property
    def options(self) -> tuple[str, ...]:
        """Options of Java: the driver's class archive, if there is one."""
        archive = self.entries[0].with_name("classes.jsa")
        return (f"-XX:SharedArchiveFile={archive}",) if archive.is_file() and archive.stat().st_size else ()


def driver_classpath(kafka: str, *, disk: bool = False) -> DriverClasspath:
    """Return the class path that drives a version of Kafka."""
    java = find_jdk_program("java")
    jars = _jars_in_folder(Path(kafka)) if Path(kafka).is_dir() else _jars_by_maven(kafka)
    driver = build_driver(java, jars, kafka) / "driver.jar"
    if disk and not any(jar_contains(jar, RAFT_LOG_CLASS) for jar in jars):
        raise InputError(f"--disk: Kafka's log on disk is in kafka-raft from 4.3 on; in {kafka} there is none")
    named = (RAFT_JAR_NAME_PATTERN.fullmatch(jar.name) for jar in jars)
    version = next(
        (match[1] for match in named if match and not match[1].endswith(TEST_JAR_CLASSIFIERS)), f"in {kafka}"
    )
    return DriverClasspath(java, (driver, *jars), version)


def _jars_in_folder(folder: Path) -> list[Path]:
    jars = sorted(folder.rglob("*.jar"))
    return [jar for jar in jars if not jar.name.endswith(("-sources.jar", "-javadoc.jar"))]


def _jars_by_maven(version: str) -> list[Path]:
    """Return the jars of a version, with its test kit."""
    if not VERSION_PATTERN.fullmatch(version):
        raise InputError(f"--kafka {version}: expected a version such as 4.3.0, or a folder with jars")
    problem = ""
    for classifier in TEST_JAR_CLASSIFIERS:
        wanted = (
            MavenArtifact("org.apache.kafka", "kafka-raft", version),
            MavenArtifact("org.apache.kafka", "kafka-raft", version, classifier),
            MavenArtifact("org.slf4j", "slf4j-nop", "1.7.36"),
        )
        try:
            return fetch_jars(wanted, version)
        except NotInMavenError as error:
            problem = str(error)
    raise InputError(f"--kafka {version}: Maven has no such version of kafka-raft with its test kit: {problem}")


class NotInMavenError(Exception):
    """Maven cannot find an artifact."""


def fetch_jars(wanted: Sequence[MavenArtifact], name: str) -> list[Path]:
    """Return the jars of artifacts and of their dependencies; Maven fetches missing ones."""
    folder = make_trusted_cache_folder() / name
    pom, noted = POM_TEMPLATE.format(dependencies="\n".join(map(_dependency_xml, wanted))), folder / "jars"
    if noted.is_file():
        asked, *lines = noted.read_text().split("\0")
        jars = [Path(line) for line in lines]
        if asked == pom and all(jar.is_file() for jar in jars):
            return jars
    maven = shutil.which("mvn")
    if maven is None:
        raise InputError("lockstep needs Maven to fetch Kafka's jars: there is no mvn on the PATH; or give --kafka DIR")
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_replacement(folder / "pom.xml") as project, atomic_replacement(folder / "classpath") as listed:
        project.write_text(pom)
        listed.touch()
        command = [maven, "-q", "-B", "-f", str(project), "dependency:build-classpath", f"-Dmdep.outputFile={listed}"]
        done = run_program(command, MAVEN_TIMEOUT_SECONDS)
        entries = listed.read_text().strip()
    if done.returncode != 0 or not entries:
        _raise_maven_error(name, done.stdout + done.stderr, done.returncode)
    jars = [Path(entry) for entry in entries.split(os.pathsep)]
    with atomic_replacement(noted) as new:
        new.write_text("\0".join([pom, *map(str, jars)]))
    return jars


def _dependency_xml(one: MavenArtifact) -> str:
    classifier = one.classifier and f"<classifier>{one.classifier}</classifier>"
    return DEPENDENCY_TEMPLATE.format(**one._replace(classifier=classifier)._asdict())


def _raise_maven_error(name: str, said: str, code: int) -> NoReturn:
    missing = MISSING_ARTIFACT_PATTERN.search(said)
    if missing is not None:
        raise NotInMavenError(f"there is no {missing[1] or missing[2]}")
    problem = next((line.partition("ERROR]")[2].strip() for line in said.splitlines() if "ERROR]" in line), "")
    raise InputError(f"--kafka: Maven cannot fetch {name}: {problem[:300] or f'exit code {code}'}")


BYTE_BUDDY = MavenArtifact("net.bytebuddy", "byte-buddy", "1.18.14")
AGENT_JAR_ENTRIES = ("net/bytebuddy/", "META-INF/LICENSE", "META-INF/NOTICE")
"""The entries of Byte Buddy's jar that an agent needs; others are for newer versions of Java."""


def compile_agent_jar(source: Path, jars: Sequence[Path] = ()) -> Path:
    """Return the jar of a Java agent, with Byte Buddy in it: one file that fits every version of Kafka."""
    manifest = f"Manifest-Version: 1.0\nPremain-Class: {source.stem}\n"
    return compile_jar([source], [*fetch_jars([BYTE_BUDDY], "byte-buddy"), *jars], manifest)


def compile_jar(sources: Sequence[Path], jars: Sequence[Path], manifest: str = "") -> Path:
    """Return a jar of sources compiled against other jars; with a manifest the code of the first jar is in it."""
    digest = blake2b(manifest.encode(), digest_size=8)
    for text in [*(source.read_bytes() for source in sources), *(str(jar).encode() for jar in jars)]:
        digest.update(text)
    target = make_trusted_cache_folder() / "built" / f"{sources[0].stem}-{digest.hexdigest()}.jar"
    if not target.is_file():
        target.parent.mkdir(exist_ok=True)
        classes = target.with_name(f"{target.name}.{os.getpid()}.classes")
        compiler = find_jdk_program("javac")
        require_java_for_kafka(compiler)
        command = [str(compiler), "-nowarn", "-cp", os.pathsep.join(map(str, jars)), "-d", str(classes)]
        try:
            done = run_program([*command, *map(str, sources)], MAVEN_TIMEOUT_SECONDS)
            if done.returncode != 0:
                first = next((line for line in done.stderr.splitlines() if "error:" in line), "javac says nothing")
                raise InputError(f"{sources[0].name}: cannot be compiled: {first.rpartition('/')[2]}")
            with atomic_replacement(target) as new, ZipFile(new, "w") as jar:
                if manifest:
                    _add_manifest_and_agent_classes(jar, manifest, jars[0])
                for path in sorted(classes.rglob("*.class")):
                    jar.write(path, str(path.relative_to(classes)))
        finally:
            shutil.rmtree(classes, ignore_errors=True)
    return target


def _add_manifest_and_agent_classes(jar: ZipFile, manifest: str, path: Path) -> None:
    jar.writestr("META-INF/MANIFEST.MF", manifest)
    with ZipFile(path) as other:
        for entry in other.infolist():
            if entry.filename.startswith(AGENT_JAR_ENTRIES) and not entry.is_dir():
                jar.writestr(entry, other.read(entry))

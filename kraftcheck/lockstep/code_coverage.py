"""Coverage of Kafka's lines and branches by walks, measured by JaCoCo in the Java process."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from xml.etree import ElementTree

from kraftcheck.lockstep.jars import (
    CLIENT_CLASS,
    DriverClasspath,
    MavenArtifact,
    NotInMavenError,
    fetch_jars,
    jar_contains,
)
from kraftcheck.processes import run_program
from kraftcheck.spec.errors import InputError

JACOCO_VERSION = "0.8.13"
MEASURED_PACKAGES = ("org/apache/kafka/raft", "org/apache/kafka/raft/internals")
REPORT_TIMEOUT_SECONDS = 120.0  # seconds for the report


class CoverageCount(NamedTuple):
    """Counts of reached lines or branches, and of all."""

    reached: int = 0
    all: int = 0

    def __add__(self, other: object) -> CoverageCount:
        assert isinstance(other, CoverageCount)
        return CoverageCount(self.reached + other.reached, self.all + other.all)


class ClassCoverage(NamedTuple):
    """Coverage of a class, including its inner classes."""

    name: str  # without the package
    lines: CoverageCount
    branches: CoverageCount
    unreached: tuple[str, ...]  # names of the methods without a reached line


class CoverageRecorder:
    """Measures the coverage of a Java process: a context around the process, which gets `options`."""

    def __init__(self, path: DriverClasspath) -> None:
        wanted = (
            MavenArtifact("org.jacoco", "org.jacoco.agent", JACOCO_VERSION, "runtime"),
            MavenArtifact("org.jacoco", "org.jacoco.cli", JACOCO_VERSION, "nodeps"),
        )
        try:
            jars = fetch_jars(wanted, f"jacoco-{JACOCO_VERSION}")
        except NotInMavenError as error:
            raise InputError(f"--reach: {error}") from None
        self._agent = next(jar for jar in jars if jar.name.endswith("-runtime.jar"))
        self._reporter = next(jar for jar in jars if jar.name.endswith("-nodeps.jar"))
        self._java = path.java
        self._kafka = next(jar for jar in path.entries if jar_contains(jar, CLIENT_CLASS))
        self._folder = TemporaryDirectory(prefix="kraftcheck-reach-")
        self._data = Path(self._folder.name) / "reached"

    @property
    def options(self) -> tuple[str, ...]:
        """Options of Java that measure coverage."""
        includes = ":".join(f"{package.replace('/', '.')}.*" for package in MEASURED_PACKAGES)
        return (f"-javaagent:{self._agent}=destfile={self._data},includes={includes}",)

    def classes(self) -> list[ClassCoverage]:
        """Return the coverage of each class, after the process has ended."""
        report = self._data.with_suffix(".xml")
        command = [str(self._java), "-jar", str(self._reporter), "report", str(self._data)]
        done = run_program([*command, "--classfiles", str(self._kafka), "--xml", str(report)], REPORT_TIMEOUT_SECONDS)
        if done.returncode != 0 or not report.is_file():
            raise InputError("--reach: the Java process left no counts behind")
        return list(_read_jacoco_report(report))

    def __enter__(self) -> CoverageRecorder:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()


def _read_jacoco_report(report: Path) -> Iterable[ClassCoverage]:
    """Yield the classes in a report of JaCoCo, by name."""
    found: dict[str, ClassCoverage] = {}
    for package in ElementTree.parse(report).getroot().iter("package"):
        for one in package.iter("class") if package.get("name") in MEASURED_PACKAGES else ():
            name = one.get("name", "").rpartition("/")[2].partition("$")[0]
            known = found.get(name, ClassCoverage(name, CoverageCount(), CoverageCount(), ()))
            unreached = [
                method.get("name", "") for method in one.iter("method") if not _coverage_count(method, "METHOD").reached
            ]
            found[name] = ClassCoverage(
                name,
                known.lines + _coverage_count(one, "LINE"),
                known.branches + _coverage_count(one, "BRANCH"),
                (*known.unreached, *(name for name in unreached if name.isidentifier())),
            )
    return (found[name] for name in sorted(found))


def _coverage_count(element: ElementTree.Element, kind: str) -> CoverageCount:
    for counter in element.findall("counter"):
        if counter.get("type") == kind:
            covered = int(counter.get("covered", 0))
            return CoverageCount(covered, covered + int(counter.get("missed", 0)))
    return CoverageCount()

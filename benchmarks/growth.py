"""How time and memory a state grow with the number of states, in one search.

    python benchmarks/growth.py --config three-voters.cfg --set MaxRestarts=1

At every half decade of distinct states: the rate since the one before, the bytes a state of the visited set, and the
peak memory of the process. Start-up is left out.
"""

from __future__ import annotations

import argparse
import resource

from kraftcheck.catalogue import find_model
from kraftcheck.explorer.result import Progress, SearchRequest
from kraftcheck.explorer.tables.searches.bfs import BreadthFirstSearch
from kraftcheck.processes import default_worker_count
from kraftcheck.spec.cfg.binding import bind, with_assignments
from kraftcheck.spec.cfg.config import parse_setting, read_config


class Table:
    """Prints a line whenever the number of states has grown by half a decade."""

    def __init__(self) -> None:
        self.search: BreadthFirstSearch | None = None
        self.next = 10_000.0
        self.before: tuple[int, float] | None = None

    def __call__(self, progress: Progress) -> None:
        """Take note of a search's progress."""
        if progress.distinct_states >= self.next:
            self.line(progress)
            while self.next <= progress.distinct_states:
                self.next *= 10**0.5

    def line(self, progress: Progress) -> None:
        """Print a line."""
        assert self.search is not None
        states, seconds = progress.distinct_states, progress.seconds
        since = self.before or (0, 0.0)
        rate = (states - since[0]) / max(seconds - since[1], 1e-9)
        visited = self.search.states.visited.in_memory.nbytes
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{states:>14,} {seconds:>9.2f} s {rate:>14,.0f} {1e6 / rate:>10.3f} µs {visited / states:>8.1f} B"
            f" {peak:>9,.0f} MiB",
            flush=True,
        )
        self.before = (states, seconds)


def main() -> None:
    """Search and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="reconfig")
    parser.add_argument("--config", required=True)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--workers", type=int, default=default_worker_count())
    parser.add_argument("--max-states", type=int)
    given = parser.parse_args()
    config = read_config(given.config)
    config = with_assignments(config, [parse_setting(text, config) for text in given.set])
    bound = bind(find_model(given.model).protocol, config)
    table = Table()
    options = SearchRequest(
        properties=bound.properties, deadlock=bound.deadlock, max_states=given.max_states, report=table
    )
    table.search = BreadthFirstSearch(bound.protocol, options, given.workers)
    print(f"{'states':>14} {'time':>11} {'states/s since':>14} {'a state':>13} {'visited':>10} {'peak':>13}")
    result = table.search.run()
    table.line(Progress(result.distinct_states, result.generated_states, result.depth or 0, 0, result.seconds))
    print(f"{result.distinct_states:,} distinct states, {result.generated_states:,} generated, depth {result.depth}")


if __name__ == "__main__":
    main()

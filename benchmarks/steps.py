"""Steps a second of the table engine on one core, once everything about a protocol is known.

    python benchmarks/steps.py
    python benchmarks/steps.py --model recovery --config default

Each search runs twice or more in one process: the first one learns the protocol, the others find all tables full. Shown
are the median of these, in processor time: steps a second, and nanoseconds a step by where they go.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kraftcheck import load
from kraftcheck.explorer.result import Result, SearchRequest
from kraftcheck.explorer.tables import layouts, visited
from kraftcheck.explorer.tables.learning.learner import Learner
from kraftcheck.explorer.tables.searches.bfs import BreadthFirstSearch
from kraftcheck.explorer.tables.violation_checker import ViolationChecker
from kraftcheck.spec.language.protocol import Protocol

PARTS = ("expand", "insert", "learn")
COLUMNS = ("ns a step", *PARTS)
ROOT = Path(__file__).parents[1]
COUNTS = ROOT / "tests" / "data" / "tlc" / "counts"
TWO_PHASE = "two-phase-commit"
MANAGERS = "RM={" + ", ".join(f"rm{n}" for n in range(1, 9)) + "}"


class Case(NamedTuple):
    """A search: a model, its configuration, constants set otherwise."""

    model: str
    config: str
    settings: tuple[str, ...] = ()


CASES = (
    Case("reconfig", str(COUNTS / "three-voters.cfg")),
    Case(TWO_PHASE, "default", (MANAGERS,)),
    Case("quorum", "default"),
    Case("recovery", "default"),
    Case("registration", "default"),
)


class Clock:
    """Adds up what functions take, in seconds of the processor."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()

    def watch(self, owner: Any, name: str, label: str) -> None:
        """Note the time that a function takes under a label."""
        function: Callable[..., Any] = getattr(owner, name)

        def timed(*given: Any, **named: Any) -> Any:
            began = time.thread_time()
            try:
                return function(*given, **named)
            finally:
                self.seconds[label] += time.thread_time() - began

        setattr(owner, name, timed)


CLOCK = Clock()
NEVER = 1 << 62  # more states than there are


class Known(BreadthFirstSearch):
    """A search that begins with what another one has learned."""

    def __init__(self, protocol: Protocol, options: SearchRequest, before: Known | None) -> None:
        super().__init__(protocol, options, 1)
        self._is_flat = before is not None and before.expander.is_flat
        if before is not None:
            self.expander.learner = before.expander.learner
            self.checker = ViolationChecker(protocol, options, self.expander, lambda: self.states.visited.count)
            self.monitor = self.checker.monitor
            self.expander.switch_layout(flat=False)
            self.layout.flat_from = NEVER  # all control rows are known, which seem to be many beside few states

    def _start(self) -> None:
        super()._start()
        if self._is_flat:
            self._switch_layout(flat=True)


def searched(case: Case, times: int) -> Iterator[tuple[Result, Counter[str]]]:
    """Yield what a search finds and what it takes, by what it goes into, with all tables full: so many times."""
    constants = dict(setting.split("=", 1) for setting in case.settings)
    job = load(case.model, case.config, constants=constants).job(workers=1)
    made = None
    for turn in range(times + 1):
        made = Known(job.protocol, job.options, made)
        CLOCK.seconds.clear()
        began = time.process_time()
        result = made.run()
        CLOCK.seconds["all"] = time.process_time() - began
        if turn:
            yield result, CLOCK.seconds.copy()


def line(case: Case, times: int) -> str:
    """Return what a search takes a step, as a line."""
    found = list(searched(case, times))
    steps = found[0][0].generated_states
    assert all(result.generated_states == steps for result, _ in found)
    parts = [statistics.median(seconds[label] for _, seconds in found) for label in ("all", *PARTS)]
    shown = " ".join(f"{seconds / steps * 1e9:>9.0f}" for seconds in parts)
    return f"{case.model:<16} {found[0][0].distinct_states:>12,} {steps:>13,} {steps / parts[0] / 1e6:>9.2f} {shown}"


def main() -> None:
    """Search and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a model; by default those of docs/performance.md")
    parser.add_argument("--config", default="default")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--times", type=int, default=5, help="searches with full tables (default: 5)")
    given = parser.parse_args()
    for kernel in ("expand_batch", "expand_flat_batch"):
        CLOCK.watch(layouts, kernel, "expand")
    CLOCK.watch(visited, "insert_successors", "insert")
    CLOCK.watch(Learner, "resolve", "learn")
    chosen = None if given.model is None else Case(given.model, given.config, tuple(given.set))
    cases = CASES if chosen is None else (chosen,)
    print(f"{'model':<16} {'states':>12} {'steps':>13} {'M steps/s':>9}", *[f"{name:>9}" for name in COLUMNS])
    for case in cases:
        print(line(case, given.times), flush=True)


if __name__ == "__main__":
    main()

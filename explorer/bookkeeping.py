"""Limits, violations, progress and result of a search, in every engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from kraftcheck.explorer.behaviour import unmapped
from kraftcheck.explorer.canonical import hidden_reads
from kraftcheck.explorer.result import (
    DEADLOCK,
    INTERRUPTED,
    NOTHING_CHECKED,
    Interrupted,
    Loop,
    Progress,
    Result,
    SearchRequest,
    TraceStep,
    Trap,
    Verdict,
    Violation,
)
from kraftcheck.spec.errors import RaisedError
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics


class SearchClock:
    """Clock that stops during compilation, which does not count as time of a search."""

    def __init__(self) -> None:
        self.compiling = 0.0

    def now(self) -> float:
        """Return the time in seconds since an arbitrary moment."""
        return time.monotonic() - self.compiling


CLOCK = SearchClock()
"""The clock of all searches in this process; `compiling.py` stops it."""


class SearchStopped(Exception):  # noqa: N818 - a way out of the search, not an error
    """Raised to end a search before it is complete."""


class SearchCounts(NamedTuple):
    """Counts of a search so far."""

    distinct: int  # distinct states
    generated: int  # initial states and transitions
    actions: dict[str, int]  # times each action fired
    handler_calls: dict[str, int]  # times each action was called in Python
    uncounted: Sequence[str] = ()  # actions that fired an unknown number of times, which `actions` leaves out


class Bookkeeping:
    """Records the findings of a search, and ends it at its limits."""

    def __init__(
        self,
        options: SearchRequest,
        total: Callable[[], SearchCounts],
        protocol: Protocol,
        *,
        first_found: bool = False,
    ) -> None:
        self.options = options
        self.reads = hidden_reads(protocol, options, first_found=first_found)
        self._protocol = protocol
        self.result = Result()
        self.violated: set[str] = set()
        self.followed: set[str] = set()
        self.earlier = 0.0
        self._total = total
        self._began = CLOCK.now()

    def result_of(self, search: Callable[[], None], notes: Callable[[], list[str]] = list) -> Result:
        """Run a search; return its result."""
        before, self._protocol.hidden_reads = self._protocol.hidden_reads, self.reads
        try:
            return self._result_of(search, notes)
        finally:
            self._protocol.hidden_reads = before

    def _result_of(self, search: Callable[[], None], notes: Callable[[], list[str]]) -> Result:
        try:
            search()
        except SearchStopped:
            pass
        except RaisedError as error:
            if not error.is_assertion or error.trace is None:
                raise
            self.result.violations.insert(0, Violation(error.name, error.trace, failed=error))
        except KeyboardInterrupt:
            self.record_limit(INTERRUPTED)
            raise Interrupted(self._conclude(notes)) from None
        return self._conclude(notes)

    def _conclude(self, notes: Callable[[], list[str]]) -> Result:
        self.tally()
        result = self.result
        result.notes += notes()
        result.warnings += [NOTHING_CHECKED] if self.options.checks_nothing else []
        result.warnings += self._nothing_searched()
        if self.reads is not None:
            self.reads.enough_left |= 0 < len(self.options.over_behaviours) == len(self.followed)
            result.warnings += self.reads.warnings()
        result.notes += self._unchecked(self.options.reachable, "reachability was")
        result.notes += self._unchecked(self.options.temporal, "temporal properties were")
        if not result.violations:
            result.verdict = Verdict.OK if result.complete else Verdict.INCOMPLETE
            return result
        safety = {violation.property for violation in result.violations if not violation.is_of_behaviours()}
        if result.violations[0].failed is not None:
            result.verdict, result.complete = Verdict.ASSERTION, False
        else:
            result.verdict = Verdict.DEADLOCK if safety == {DEADLOCK} else Verdict.VIOLATION
            result.complete = result.complete and (self.options.keep_going or not safety)
        return result

    def _nothing_searched(self) -> list[str]:
        """Return a warning if no state was searched because every initial state violates a constraint."""
        found, names = self.result, ", ".join(prop.name for prop in self.options.constraints)
        if not names or found.runs is not None or found.distinct_states or found.limit:
            return []
        return [f"no state was searched: every initial state violates CONSTRAINT {names}"]

    def _unchecked(self, properties: tuple[Property, ...], what: str) -> list[str]:
        """Return a note about the reachability or temporal properties that the search did not check."""
        names = ", ".join(prop.name for prop in properties if prop.name not in self.followed)
        stopped, violated = "the search did not visit every state", "a violation ended the search (see --continue)"
        why = stopped if self.result.limit else violated
        return [f"{names}: {what} not checked, since {why}"] if names else []

    def tally(self) -> None:
        """Update the counts of the result."""
        result, totals = self.result, self._total()
        result.distinct_states, result.generated_states = totals.distinct, totals.generated
        result.actions, result.handler_calls = totals.actions, totals.handler_calls
        result.uncounted = list(totals.uncounted)
        result.seconds = self.seconds

    @property
    def seconds(self) -> float:
        """Seconds that the search has taken, including the time before it was resumed."""
        return self.earlier + CLOCK.now() - self._began

    def report(self, frontier: int, nodes: int | None = None) -> None:
        """Report the progress: the number of states left to expand, or the number of diagram nodes."""
        self.tally()
        result = self.result
        if self.options.report is not None:
            counts = result.distinct_states, result.generated_states, result.depth or 0, frontier
            self.options.report(Progress(*counts, result.seconds, nodes, result.handler_calls))

    def check_time_limit(self, frontier: int, nodes: int | None = None) -> None:
        """Stop at the time limit; else report the progress."""
        limit = self.options.time_limit
        if limit is not None and CLOCK.now() - self._began > limit:
            self.stop_at("time_limit")
        self.report(frontier, nodes)

    def violation(
        self,
        name: str,
        trace: tuple[TraceStep, ...],
        trap: Trap | None = None,
        loop: Loop | None = None,
    ) -> None:
        """Record a violated property once; end the search unless it continues after violations."""
        if name in self.violated:
            return
        self.violated.add(name)
        self.result.violations.append(self._with_mapping(Violation(name, trace, trap, loop)))
        if not self.options.keep_going:
            raise SearchStopped

    def _with_mapping(self, violation: Violation) -> Violation:
        """Return a violation of a refinement with the abstract states of its last step, another one unchanged."""
        prop = next((prop for prop in self.options.refinements if prop.name == violation.property), None)
        if prop is None or violation.failed is not None:
            return violation
        return replace(violation, unmapped=unmapped(Semantics(self._protocol), prop, violation.trace))

    def restart(self) -> None:
        """Drop the findings of the search; its clock keeps running."""
        self.result = Result()
        self.violated = set()

    def restore(self, violations: list[Violation], seconds: float) -> None:
        """Restore the violations and the elapsed seconds of a resumed search."""
        violations[:] = map(self._with_mapping, violations)  # in place: a checkpoint appends to the same list
        self.result.violations = violations
        self.violated = {violation.property for violation in violations}
        self.earlier = seconds

    def record_limit(self, limit: str) -> None:
        """Record the limit that ended the search before it was complete."""
        self.result.complete, self.result.limit = False, limit

    def stop_at(self, limit: str) -> None:
        """End the search because it reached a limit."""
        self.record_limit(limit)
        raise SearchStopped

"""The bookkeeping of a search, the same in every engine: its limits, its violations, its progress and its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kraftcheck.explorer.clock import CLOCK
from kraftcheck.explorer.identity import hidden_reads
from kraftcheck.explorer.result import (
    DEADLOCK,
    INTERRUPTED,
    NOTHING_CHECKED,
    Interrupted,
    Loop,
    Options,
    Progress,
    Result,
    TraceStep,
    Trap,
    Verdict,
    Violation,
)
from kraftcheck.spec.errors import RaisedError
from kraftcheck.spec.language.protocol import Protocol


class Stop(Exception):  # noqa: N818 - a way out of the search, not an error
    """The search is over before it is complete."""


class Totals(NamedTuple):
    """What a search has counted so far.

    Attributes
    ----------
    distinct
        Distinct states.
    generated
        Initial states and transitions.
    actions
        Times each action fired.
    handler_calls
        Times each action was called in Python.
    uncounted
        Actions that fired, nobody knows how often: they are not among `actions`.
    """

    distinct: int
    generated: int
    actions: dict[str, int]
    handler_calls: dict[str, int]
    uncounted: Sequence[str] = ()


class Bookkeeping:
    """Notes what a search finds, and ends it at its limits.

    Parameters
    ----------
    options
        The limits, and where progress is reported.
    total
        Returns the counts of the search as they are now.
    protocol
        The protocol, with its constants.
    first_found
        Whether the search checks the states found first, in TLC's order.

    Attributes
    ----------
    result
        The result so far; its counts are those of the last `tally`.
    violated
        Names of the properties known to be violated.
    followed
        Names of what should stay reachable, and of temporal properties, as far as it is known whether they hold.
    earlier
        Seconds that the search took before it was resumed.
    reads
        What methods read that the VIEW leaves out; None without a VIEW.
    """

    def __init__(
        self, options: Options, total: Callable[[], Totals], protocol: Protocol, *, first_found: bool = False
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
        """Run a search; return its result.

        Parameters
        ----------
        search
            The search, which `Stop` may end.
        notes
            Returns what the user should know of how it went.

        Raises
        ------
        Interrupted
            Where the user interrupts it; the exception has what was found until then.
        RaisedError
            Where a method of the protocol raises or breaks its contract, unless an `assert` failed: that is a result.
        """
        before, self._protocol.hidden_reads = self._protocol.hidden_reads, self.reads
        try:
            return self._result_of(search, notes)
        finally:
            self._protocol.hidden_reads = before

    def _result_of(self, search: Callable[[], None], notes: Callable[[], list[str]]) -> Result:
        try:
            search()
        except Stop:
            pass
        except RaisedError as error:
            if not error.is_assertion or error.trace is None:
                raise
            self.result.violations.insert(0, Violation(error.name, error.trace, failed=error))
        except KeyboardInterrupt:
            self.note_limit(INTERRUPTED)
            raise Interrupted(self._conclude(notes)) from None
        return self._conclude(notes)

    def _conclude(self, notes: Callable[[], list[str]]) -> Result:
        self.tally()
        result = self.result
        result.notes += notes()
        result.warnings += [NOTHING_CHECKED] if self.options.checks_nothing else []
        if self.reads is not None:
            self.reads.enough_left |= 0 < len(self.options.over_behaviours) == len(self.followed)
            result.warnings += self.reads.warnings()
        for kind, what in (("reachable", "what stays reachable was"), ("temporal", "temporal properties were")):
            unknown = [prop.name for prop in getattr(self.options, kind) if prop.name not in self.followed]
            if unknown:
                why = "the search visited not every state" if result.limit else "the search ended before"
                result.notes.append(f"{', '.join(unknown)}: {what} not checked, since {why}")
        if result.violations:
            safety = {violation.property for violation in result.violations if not violation.is_of_behaviours()}
            failed = result.violations[0].failed is not None
            result.verdict = Verdict.DEADLOCK if safety == {DEADLOCK} else Verdict.VIOLATION
            result.verdict = Verdict.ASSERTION if failed else result.verdict
            result.complete = result.complete and not failed and (self.options.keep_going or not safety)
        elif not result.complete:
            result.verdict = Verdict.INCOMPLETE
        return result

    def tally(self) -> None:
        """Bring the result's counts up to date."""
        result, totals = self.result, self._total()
        result.distinct_states, result.generated_states = totals.distinct, totals.generated
        result.actions, result.handler_calls = totals.actions, totals.handler_calls
        result.uncounted = list(totals.uncounted)
        result.seconds = self.seconds

    @property
    def seconds(self) -> float:
        """Seconds that the search has taken, with those before it was resumed."""
        return self.earlier + CLOCK.now() - self._began

    def report(self, frontier: int, nodes: int | None = None) -> None:
        """Report the progress; `frontier` states are found and not yet expanded, or there are so many nodes of sets."""
        self.tally()
        result = self.result
        if self.options.report is not None:
            self.options.report(
                Progress(
                    result.distinct_states, result.generated_states, result.depth or 0, frontier, result.seconds, nodes
                )
            )

    def look_at_the_clock(self, frontier: int, nodes: int | None = None) -> None:
        """End the search at the time limit; else report its progress."""
        limit = self.options.time_limit
        if limit is not None and CLOCK.now() - self._began > limit:
            self.stop_at("time_limit")
        self.report(frontier, nodes)

    def violation(
        self, name: str, trace: tuple[TraceStep, ...], trap: Trap | None = None, loop: Loop | None = None
    ) -> None:
        """Note that a property is violated, unless it is known; end the search unless it goes on."""
        if name in self.violated:
            return
        self.violated.add(name)
        self.result.violations.append(Violation(name, trace, trap, loop))
        if not self.options.keep_going:
            raise Stop

    def restart(self) -> None:
        """Forget what was found; the clock runs on."""
        self.result = Result()
        self.violated = set()

    def restore(self, violations: list[Violation], seconds: float) -> None:
        """Take in what was found before the search was resumed, and the time it took."""
        self.result.violations = violations
        self.violated = {violation.property for violation in violations}
        self.earlier = seconds

    def note_limit(self, limit: str) -> None:
        """Note what ended the search before it was complete."""
        self.result.complete, self.result.limit = False, limit

    def stop_at(self, limit: str) -> None:
        """End the search at a limit."""
        self.note_limit(limit)
        raise Stop

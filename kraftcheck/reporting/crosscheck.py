"""The result of `kraftcheck crosscheck` as text and as JSON."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kraftcheck.explorer.result import Result, TraceStep, Verdict
from kraftcheck.reporting.as_json import attributes_as_json
from kraftcheck.reporting.lines import HEAD, OLD, PLAIN, WARNING, Line, count_with_noun, note_lines, table_lines
from kraftcheck.reporting.replay import (
    difference_table,
    differences_as_json,
    divergence_lines,
    replay_as_json,
    replay_lines,
)
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.state import State
from kraftcheck.spec.tla.state_conversion import TlaStateConverter
from kraftcheck.spec.tla.text import format_on_one_line
from kraftcheck.spec.values import text_of
from kraftcheck.traces.crosscheck import (
    MOST_EXAMPLES,
    DumpOnlyState,
    StateSetComparison,
    StepSetComparison,
    UnmatchedStep,
)
from kraftcheck.traces.replay.divergence import Divergence
from kraftcheck.traces.replay.replayer import Replay, ReplayVerdict

if TYPE_CHECKING:
    from kraftcheck.explorer.reference import ReferenceSearch
    from kraftcheck.traces.crosscheck import TlcReport

_INDENT = "  "
_LabelAndCounts = tuple[str, int | None, int | None]
_StyledRow = tuple[str, tuple[str, ...]]


@dataclass
class CrosscheckResult:
    """The comparison of a search with TLC or with a dump of TLC."""

    result: Result  # of kraftcheck's search
    search: ReferenceSearch | None = None  # kraftcheck's search, if it kept its states
    states: StateSetComparison | None = None  # None: states were not compared
    edges: StepSetComparison | None = None  # None: labelled steps were not compared
    tlc: TlcReport | None = None  # the report of a TLC run
    their_distinct: int | None = None  # the counts of TLC; None if unknown
    their_depth: int | None = None
    their_actions: dict[str, int] | None = None
    any_action: str | None = None  # label of TLC's steps that may be any action
    counterexamples: list[Replay] = field(default_factory=list)  # replays of TLC's error traces
    notes: list[str] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """Whether all compared counts, states and steps agree."""
        if self.tlc is not None:
            ours, theirs = (self.result.distinct_states, self.result.depth), (self.their_distinct, self.their_depth)
            if self.tlc.violated is not None or ours != theirs or self.differing_actions.keys() - self.more_often:
                return False
        return all(part is None or part.equal for part in (self.states, self.edges))

    @property
    def differing_actions(self) -> dict[str, tuple[int, int]]:
        """The actions with different counts, each with kraftcheck's and TLC's count.

        An action that TLC counts less often is left out if TLC's steps of any action may include the others.
        """
        ours, theirs = self.result.actions, self.their_actions if self.tlc and self.their_actions else {}
        both = {name: (ours.get(name, 0), theirs.get(name, 0)) for name in (*ours, *theirs) if theirs}
        _, unnamed = both.pop(self.any_action or "", (0, 0))
        lacking = sum(max(0, mine - other) for mine, other in both.values())
        covered = unnamed > 0 and (self.edges is not None or lacking <= unnamed)
        differing = operator.lt if covered else operator.ne
        return {name: counts for name, counts in both.items() if differing(*counts)}

    @property
    def more_often(self) -> dict[str, int]:
        """By action, TLC's excess over kraftcheck's count: TLC counts each way to satisfy an action's formula."""
        return {name: theirs - ours for name, (ours, theirs) in self.differing_actions.items() if theirs > ours > 0}

    def path_to(self, state: State) -> list[str]:
        """Return the steps to a state of kraftcheck's search as text; none if the search kept no states."""
        return [] if self.search is None else [_step_text(step) for step in self.search.path_to(state)]


def crosscheck_as_json(model: str, protocol: Protocol, config: str, outcome: CrosscheckResult) -> dict[str, Any]:
    """Return the JSON object of `--json`."""
    states, edges, run = outcome.states, outcome.edges, outcome.tlc
    view = TlaStateConverter(protocol)

    def text(state: State) -> dict[str, str]:
        return {name: format_on_one_line(value) for name, value in view.variables(state).items()}

    def ours(state: State) -> dict[str, Any]:
        return {"path": outcome.path_to(state), "state": text(state)}

    return {
        "model": model,
        "configuration": config,
        "equal": outcome.equal,
        "distinct_states": {"ours": outcome.result.distinct_states, "theirs": outcome.their_distinct},
        "depth": {"ours": outcome.result.depth, "theirs": outcome.their_depth},
        "actions": {"ours": outcome.result.actions, "theirs": outcome.their_actions},
        "states_compared": states is not None,
        **_one_sided_as_json(states, ours, _unmatched_state_as_json),
        "edges": None if edges is None else _step_comparison_as_json(edges, text),
        "tlc": None if run is None else {"version": run.version, "violated": run.violated, "exit_code": run.code},
        "counterexamples": [replay_as_json(found) for found in outcome.counterexamples],
        "notes": outcome.notes,
    }


def _one_sided_as_json(
    part: StateSetComparison | StepSetComparison | None, ours: Callable[[Any], object], theirs: Callable[[Any], object]
) -> dict[str, Any]:
    """Return the number of one-sided states or steps, with examples."""
    return {
        "only_ours_count": part and part.only_ours,
        "only_theirs_count": part and part.only_theirs,
        "only_ours": [ours(example) for example in part.ours_examples] if part else [],
        "only_theirs": [theirs(example) for example in part.theirs_examples] if part else [],
    }


def _unmatched_state_as_json(stranger: DumpOnlyState) -> dict[str, Any]:
    found, divergence = stranger.found, stranger.divergence
    return {
        **attributes_as_json(found, "number", "line"),
        "reason": stranger.problem if divergence is None else divergence.reason,
        "state": {name: format_on_one_line(value) for name, value in found.variables.items()},
        "differences": differences_as_json(stranger.differences, "dump"),
    }


def _step_comparison_as_json(edges: StepSetComparison, text: Callable[[State], dict[str, str]]) -> dict[str, Any]:
    def step(found: UnmatchedStep) -> dict[str, Any]:
        reason = None if found.divergence is None else found.divergence.reason
        return {"action": found.action, "reason": reason, "before": text(found.before), "after": text(found.after)}

    return {
        **attributes_as_json(edges, "labelled", "ours", "theirs"),
        **_one_sided_as_json(edges, step, step),
        "initial_states_equal": not edges.initial_differ,
    }


def _step_text(step: TraceStep) -> str:
    if step.action is None:
        return "initial state"
    who = "" if step.actor is None else f" by {text_of(step.actor)}"
    return f"{step.action}{who}" + ("" if step.message is None else f" on {type(step.message).__name__}")


def crosscheck_lines(outcome: CrosscheckResult, *, quiet: bool = False) -> Iterator[Line]:
    """Yield the comparison as lines of text."""
    run = outcome.tlc
    if run is not None and run.violated is not None:
        yield from _tlc_violation_lines(outcome, run)
        return
    yield from _count_table(outcome, quiet=quiet)
    if outcome.states is not None:
        yield from _state_set_comparison_lines(outcome, outcome.states)
    if outcome.edges is not None:
        yield from _step_comparison_lines(outcome, outcome.edges)
    yield from note_lines(outcome.notes)
    steps = "labelled steps" if outcome.edges is None or outcome.edges.labelled else "steps"
    compared = [name for name, part in (("states", outcome.states), (steps, outcome.edges)) if part]
    what = " and ".join(compared) or "numbers of states, depths and actions"
    if outcome.equal:
        yield [(Verdict.OK, "EQUAL"), (PLAIN, f": the same {what}")]
    else:
        yield [(Verdict.VIOLATION, "DIFFERENT"), (PLAIN, ": see above")]


def _tlc_violation_lines(outcome: CrosscheckResult, run: TlcReport) -> Iterator[Line]:
    for found in outcome.counterexamples:
        if found.verdict is not ReplayVerdict.UNREADABLE:
            yield from replay_lines(found, name="TLC's counterexample")
    yield from note_lines(outcome.notes)
    what = "a deadlock" if run.kind == "deadlock" else f"a violation of {run.violated}"
    yield [(Verdict.VIOLATION, "VIOLATION"), (PLAIN, f": TLC found {what} and stopped, so states were not compared")]


def _count_table(outcome: CrosscheckResult, *, quiet: bool) -> Iterator[Line]:
    """Yield a table of the counts of both sides."""
    result, run, edges = outcome.result, outcome.tlc, outcome.edges
    counts: list[_LabelAndCounts] = [("distinct states", result.distinct_states, outcome.their_distinct)]
    if run is not None:
        counts.append(("generated states", result.generated_states, run.generated))
    counts.append(("depth", result.depth, outcome.their_depth))
    if edges is not None:
        counts.append(("different labelled steps" if edges.labelled else "different steps", edges.ours, edges.theirs))
    rows = [
        (HEAD, ("", "kraftcheck", "TLC" if run is not None else "the dump")),
        *map(_row_of_counts, counts),
        (PLAIN, ()),
    ]
    if run is not None and outcome.their_actions:
        rows += _action_rows(outcome, outcome.their_actions, quiet=quiet)
    yield from table_lines(rows, numbers=(1, 2), least=12)
    why = "TLC counts a step once for each way to satisfy its formula"
    yield from note_lines(f"{name}: {times:,} more in TLC's count; {why}" for name, times in outcome.more_often.items())


def _action_rows(outcome: CrosscheckResult, theirs: dict[str, int], *, quiet: bool) -> list[_StyledRow]:
    ours = outcome.result.actions
    names = outcome.differing_actions if quiet else {**ours, **theirs}
    rows = [_row_of_counts((name, ours.get(name, 0), theirs.get(name, 0))) for name in names]
    return [(HEAD, ("action", "fired", "fired")), *rows, (PLAIN, ())] if rows else []


def _row_of_counts(count: _LabelAndCounts) -> _StyledRow:
    name, *numbers = count
    texts = ("-" if number is None else f"{number:,}" for number in numbers)
    return PLAIN if numbers[1] in (None, numbers[0]) else OLD, (name, *texts)


def _state_set_comparison_lines(outcome: CrosscheckResult, states: StateSetComparison) -> Iterator[Line]:
    if states.same:
        yield [
            (
                WARNING,
                f"{count_with_noun(states.same, 'duplicate state')} in the dump, by kraftcheck's identity of states",
            )
        ]
    if states.only_ours:
        yield _one_sided_title(states.only_ours, "state", "that only kraftcheck has")
        for state in states.ours_examples:
            path = outcome.path_to(state)
            yield [(PLAIN, f"{_INDENT}{len(path)} states: {' > '.join(path)}")]
        yield []
    if states.only_theirs:
        yield _one_sided_title(states.only_theirs, "state", "that only the dump has")
        for stranger in states.theirs_examples:
            yield [(HEAD, f"{_INDENT}state {stranger.found.number} of the dump (line {stranger.found.line})")]
            yield from _reason_lines(stranger.divergence)
            if stranger.problem is not None and stranger.divergence is None:
                yield [(PLAIN, f"{_INDENT}{stranger.problem}")]
            if stranger.differences:
                yield [(PLAIN, f"{_INDENT}compared with the most similar state of kraftcheck")]
                yield from difference_table(stranger.differences, "dump")
        yield []


def _step_comparison_lines(outcome: CrosscheckResult, edges: StepSetComparison) -> Iterator[Line]:
    if edges.initial_differ:
        yield [(OLD, "the initial states differ")]
    for count, who, examples in (
        (edges.only_ours, "kraftcheck", edges.ours_examples),
        (edges.only_theirs, "the dump", edges.theirs_examples),
    ):
        if count:
            what = "labelled step" if edges.labelled else "step"
            yield _one_sided_title(count, what, f"between common states that only {who} has")
        for step in examples:
            path = " > ".join(outcome.path_to(step.before)) or "the initial state"
            yield [(PLAIN, f"{_INDENT}{step.action} after {path}")]
            yield from _reason_lines(step.divergence)
    if edges.only_ours or edges.only_theirs:
        yield []


def _one_sided_title(count: int, what: str, which: str) -> Line:
    first = f" (the first {MOST_EXAMPLES})" if count > MOST_EXAMPLES else ""
    return [(OLD, f"{count_with_noun(count, what)} {which}"), (PLAIN, first)]


def _reason_lines(found: Divergence | None) -> Iterator[Line]:
    if found is not None:
        yield [(PLAIN, f"{_INDENT}{found.headline}")]
        yield from divergence_lines(found)

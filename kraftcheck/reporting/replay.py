"""The result of a replayed trace, and of a pipeline, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kraftcheck.reporting.as_json import attributes_as_json
from kraftcheck.reporting.lines import (
    ACTION,
    FAINT,
    HEAD,
    NEW,
    OLD,
    PLAIN,
    WARNING,
    Line,
    actions_table,
    count_with_noun,
)
from kraftcheck.spec.values import escape_invisible, truncate_text
from kraftcheck.traces.replay.claims import ClaimVerdict
from kraftcheck.traces.replay.divergence import Divergence, VariableDifference
from kraftcheck.traces.replay.replayer import Replay, ReplayVerdict

if TYPE_CHECKING:
    from kraftcheck.traces.pipeline.driver import PipelineSummary

EXIT_CONFORMS, EXIT_DIVERGES, EXIT_NOTHING_READ = 0, 1, 2
"""Exit codes."""

MOST_VALUE_CHARACTERS = 110
"""Maximum length of a value or a list in the text; the JSON has the whole."""

MOST_PLACE_CHARACTERS = 40
"""Maximum width of the path column; a longer path gets its own line."""

MOST_REASON_CHARACTERS = 160
"""Maximum length of a reason in a pipeline's report; the tables have the whole text."""

_INDENT = "    "


def replay_exit_code(verdicts: Mapping[str, int]) -> int:
    """Return the exit code for counts of verdicts: 0 if all traces conform, 2 if no trace could be read, else 1."""
    found = {verdict for verdict, count in verdicts.items() if count}
    if found == {ReplayVerdict.UNREADABLE}:
        return EXIT_NOTHING_READ
    return EXIT_CONFORMS if found == {ReplayVerdict.CONFORMS} else EXIT_DIVERGES


def verdict_counts_line(verdicts: Mapping[str, int]) -> Line:
    """Return the counts of verdicts as a line of text."""
    words = {"conforms": "conform", "diverges": "diverge", "refuted": "refuted", "unreadable": "cannot be read"}
    parts = [f"{verdicts[verdict]:,} {text}" for verdict, text in words.items() if verdicts.get(verdict)]
    style = NEW if replay_exit_code(verdicts) == EXIT_CONFORMS else PLAIN
    return [(HEAD, f"{sum(verdicts.values()):,} traces"), (style, f": {', '.join(parts) or 'none'}")]


def replay_as_json(replay: Replay) -> dict[str, Any]:
    """Return the JSON object of a replayed trace."""
    found = replay.divergence
    result: dict[str, Any] = {
        **attributes_as_json(replay, "file", "index", "format", "steps"),
        "result": replay.verdict,
        **attributes_as_json(replay, "actions", "diverged_at", "reason", "violated", "notes", "partial"),
        "claim": None if replay.claim is None else attributes_as_json(replay.claim, "what", "verdict", "says"),
    }
    if found is not None:
        result |= attributes_as_json(found, "kind", "line", "action", "nearest") | {
            "differences": differences_as_json(found.differences, "trace"),
            "enabled": dict(found.enabled),
            "why": found.why,
        }
    return result


def differences_as_json(differences: Iterable[VariableDifference], theirs: str) -> list[dict[str, str | None]]:
    """Return differences as JSON; `theirs` is the key of the file's values."""
    return [{"path": item.path, theirs: item.trace, "protocol": item.protocol} for item in differences]


def replay_lines(replay: Replay, *, quiet: bool = False, name: str | None = None) -> Iterator[Line]:
    """Yield the result of a readable trace as lines of text."""
    which = _numbered_trace_name(escape_invisible(name or replay.file), replay)
    found = replay.divergence
    if found is None:
        style = NEW if replay.verdict is ReplayVerdict.CONFORMS else OLD
        end = claim_verdict_text(replay) + (f" ({'; '.join(replay.partial)})" if replay.partial else "")
        yield [
            (HEAD, which),
            (PLAIN, ": "),
            (style, replay.verdict),
            (PLAIN, f", {count_with_noun(replay.steps, 'step')}{end}"),
        ]
    else:
        place = f" at state {found.number}"
        place += f" (line {found.line})" if replay.format and replay.format.has_lines else ""
        yield [(HEAD, which), (PLAIN, ": "), (OLD, "diverges"), (PLAIN, place)]
        yield [(PLAIN, f"  {found.headline}")]
        if not quiet:
            yield from divergence_lines(found)
    for note in replay.notes:
        yield [(FAINT, f"  Note: {note}")]


def numbered_trace_file_name(replay: Replay) -> str:
    """Return the name of a trace's file, with the trace's number from the second trace on."""
    return _numbered_trace_name(Path(replay.file).name, replay)


def _numbered_trace_name(name: str, replay: Replay) -> str:
    return name if replay.index == 0 else f"{name}, trace {replay.index + 1}"


def claim_verdict_text(replay: Replay) -> str:
    """Return the verdict on a trace's claim as text."""
    claim = replay.claim
    if claim is None:
        return ""
    if claim.verdict is ClaimVerdict.SHOWN:
        return f", to {claim.what}" if claim.at_end else f", with {claim.what}: {claim.says}"
    if claim.verdict is ClaimVerdict.REFUTED:
        return f"; {replay.reason}"
    return f"; {claim.what} is not evaluated: {claim.says}"


def divergence_lines(found: Divergence) -> Iterator[Line]:
    """Yield the details of a divergence: differences, the failed condition of the action, and the enabled actions."""
    if found.differences:
        yield from difference_table(found.differences, found.theirs)
    if found.why is not None:
        for line in found.why.splitlines():
            yield [(PLAIN, f"  {line}")]
    if found.enabled:
        yield [(PLAIN, f"  enabled in state {found.before}")]
        width = max(len(item.action) for item in found.enabled)
        for item in found.enabled:
            ways = truncate_text("; ".join(item.ways), MOST_VALUE_CHARACTERS)
            yield [(PLAIN, _INDENT), (ACTION, f"{item.action:{width}}"), (PLAIN, f"  {ways}")]


def difference_table(differences: Iterable[VariableDifference], theirs: str = "trace") -> Iterator[Line]:
    """Yield a table of differences: path, value in the file (named `theirs`), value in the protocol."""
    rows = [
        (item.path, _difference_value_text(item, item.trace), _difference_value_text(item, item.protocol))
        for item in differences
    ]
    heads = ("where", f"in the {theirs}", "by the protocol")
    first = max(len(row[0]) for row in [heads, *rows] if len(row[0]) <= MOST_PLACE_CHARACTERS)
    second = max(len(row[1]) for row in [heads, *rows])
    yield [(FAINT, f"{_INDENT}{heads[0]:{first}}  {heads[1]:{second}}  {heads[2]}")]
    for path, trace, protocol in rows:
        if len(path) > MOST_PLACE_CHARACTERS:
            yield [(PLAIN, f"{_INDENT}{path}")]
            path = ""
        yield [(PLAIN, f"{_INDENT}{path:{first}}  "), (OLD, f"{trace:{second}}"), (PLAIN, "  "), (NEW, protocol)]


def _difference_value_text(difference: VariableDifference, value: str | None) -> str:
    if value is None:
        return "-"
    return truncate_text(f"has {value}" if difference.is_element else value, MOST_VALUE_CHARACTERS)


def pipeline_exit_code(summary: PipelineSummary) -> int:
    """Return a pipeline's exit code: 0 if all traces conform, 2 if no trace could be read, else 1."""
    if summary.errors and summary.traces == summary.verdicts.get("unreadable", 0):
        return EXIT_NOTHING_READ
    conform = not summary.errors and summary.traces == summary.verdicts.get("conforms", 0)
    return EXIT_CONFORMS if conform else EXIT_DIVERGES


def pipeline_as_json(summary: PipelineSummary) -> dict[str, Any]:
    """Return the JSON object of a pipeline's summary."""
    return {
        **attributes_as_json(summary, "files", "new_files", "traces", "steps"),
        **{verdict.value: summary.verdicts.get(verdict, 0) for verdict in ReplayVerdict},
        **attributes_as_json(summary, "errors", "distinct_states", "actions", "never_taken"),
    }


def pipeline_lines(summary: PipelineSummary, *, quiet: bool) -> Iterator[Line]:
    """Yield a pipeline's summary as lines of text."""
    if not quiet:
        yield from actions_table({"taken": summary.actions}, least=12)
        yield []
    for file, index, step, reason in summary.diverging:
        what, where = ("refuted", "") if step is None else ("diverges", f", step {step}")
        yield [(OLD, what), (PLAIN, f": {file}, trace {index}{where}: {_reason_first_line(reason)}")]
    for file, line, column, message in summary.unreadable:
        place = "" if line is None else f":{line}:{column}"
        yield [(OLD, "unreadable"), (PLAIN, f": {file}{place}: {_reason_first_line(message)}")]
    if summary.never_taken:
        yield [(WARNING, f"Warning: no trace ever took {', '.join(summary.never_taken)}")]
    yield [
        *verdict_counts_line(summary.verdicts),
        (
            PLAIN,
            f"; {summary.steps:,} steps, {summary.distinct_states:,} distinct states, {summary.errors:,} errors; "
            f"{summary.new_files:,} of {summary.files:,} files are new",
        ),
    ]


def _reason_first_line(text: str) -> str:
    return truncate_text(text.partition("\n")[0], MOST_REASON_CHARACTERS)

"""Findings of lockstep walks beside Kafka as text, Markdown, JSON and a report page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kraftcheck.explorer.result import TraceStep, Violation
from kraftcheck.lockstep.campaign import FindingClass, LockstepCampaign, TaskResult, finding_summary_lines
from kraftcheck.lockstep.code_coverage import ClassCoverage, CoverageCount
from kraftcheck.lockstep.cover import EdgeCover, UntakenReason
from kraftcheck.lockstep.kafka_cluster import ModelKafkaDifference
from kraftcheck.lockstep.lockstep import LockstepFinding, LockstepVerdict
from kraftcheck.lockstep.version_changes import VersionChanges
from kraftcheck.lockstep.walks import WalkFileStep
from kraftcheck.reporting.as_json import trace_as_json, value_as_json
from kraftcheck.reporting.counterexample import violation_reason_lines
from kraftcheck.reporting.lines import ACTION, FAINT, HEAD, NEW, OLD, PLAIN, Line, count_with_noun, lines_as_plain_text
from kraftcheck.reporting.report import behaviour_as_report_data
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.values import text_of, truncate_text

MOST_LINE_CHARACTERS = 160
"""Maximum length of a line."""

CHARACTERS_BEFORE_DIFFERENCE = 60
"""Characters to show before the first difference of two long values."""

MOST_UNTAKEN_STEPS = 5
"""Maximum number of untaken steps to list for a reason."""

JAVA_LINE_NUMBER_PATTERN = re.compile(r"(?<=\.java):\d+")
"""A line number of a Java file. It differs between versions, while the method name does not."""

DISAGREEING_VERDICTS = (LockstepVerdict.DIFFERS, LockstepVerdict.FAILS)
"""Verdicts by which Kafka does something else than the model."""

MOST_LISTED_METHODS = 40
MOST_EXCEPTION_CHARACTERS = 120
"""Maximum length of Kafka's exception text, which ends in values."""


def campaign_report_lines(
    campaign: LockstepCampaign, kinds: Sequence[FindingClass], verdict: LockstepVerdict, version: str, *, quiet: bool
) -> Iterator[Line]:
    """Yield a paragraph for each kind of finding, the counts by action, and a summary line with the verdict."""
    for kind in kinds:
        yield from _finding_paragraph(campaign.protocol, kind, quiet=quiet)
    if not quiet:
        width = max(map(len, campaign.taken), default=0)
        for action, times in campaign.taken.most_common():
            yield [(PLAIN, f"{action:{width}}  {times:>9,}")]
        yield []
    counted = f"{count_with_noun(campaign.walks, 'walk')}, {campaign.steps:,} steps beside Kafka {version}"
    yield [(HEAD, f"{verdict.upper()}: "), (PLAIN, counted)]


def _finding_paragraph(protocol: Protocol, kind: FindingClass, *, quiet: bool = False) -> Iterator[Line]:
    finding = kind.first
    where = f"step {finding.step}" if finding.taken is None else f"step {finding.step}, {kind.steps[-1]}"
    yield [
        (HEAD, f"{finding.verdict}: {finding_summary_lines(finding)[0]}"),
        (FAINT, f"  ({count_with_noun(kind.times, 'walk')})"),
    ]
    yield [(ACTION, truncate_text(f"  {where}", MOST_LINE_CHARACTERS))]
    for difference in () if quiet else finding.differences:
        yield from _difference_lines(difference)
    for name in () if quiet else finding.violated:
        yield from violation_reason_lines(protocol, Violation(name, tuple(kind.behaviour)))
    if kind.file is not None:
        yield [(PLAIN, f"  {len(kind.steps)} steps in {kind.file}")]
    yield []


def _difference_lines(difference: ModelKafkaDifference) -> Iterator[Line]:
    where = difference.field if difference.where is None else f"{difference.where}.{difference.field}"
    values = [
        "-" if value is None else value if isinstance(value, str) else text_of(value)
        for value in (difference.model, difference.kafka)
    ]
    pairs = enumerate(zip(*values, strict=False))
    alike = (
        next((place for place, (one, other) in pairs if one != other), min(map(len, values)))
        - CHARACTERS_BEFORE_DIFFERENCE
    )
    for style, side, shown in zip((OLD, NEW), ("model", "Kafka"), values, strict=True):
        if max(map(len, values)) > MOST_LINE_CHARACTERS and alike > 0:  # cut the common beginning
            shown = f"...{shown[alike:]}"
        yield [(PLAIN, f"    {where:24} {side}  "), (style, truncate_text(shown, MOST_LINE_CHARACTERS))]


def campaign_as_json(
    campaign: LockstepCampaign, kinds: Sequence[FindingClass], verdict: LockstepVerdict, version: str
) -> dict[str, Any]:
    """Return the JSON object of a campaign."""
    return {
        "verdict": verdict,
        "model": campaign.about.model,
        "variant": campaign.about.variant or None,
        "kafka": version,
        "walks": campaign.walks,
        "steps": campaign.steps,
        "actions": dict(campaign.taken),
        "findings": [
            {
                "verdict": kind.first.verdict,
                "summary": finding_summary_lines(kind.first),
                "walks": kind.times,
                "step": kind.first.step,
                "violated": list(kind.first.violated),
                "differences": [
                    {"where": None if d.where is None else str(d.where), "field": d.field}
                    for d in kind.first.differences
                ],
                "steps": list(map(str, kind.steps)),
                "file": None if kind.file is None else str(kind.file),
            }
            for kind in kinds
        ],
    }


def campaign_as_report_data(
    campaign: LockstepCampaign, verdict: LockstepVerdict, version: str, name: str
) -> dict[str, Any]:
    """Return the report data of a campaign: a shortest walk for each kind of finding, else the longest walk."""
    kinds = campaign.kinds()
    titles = [f"{kind.first.verdict}: {finding_summary_lines(kind.first)[0]}" for kind in kinds]
    walks = [(title, kind.behaviour) for title, kind in zip(titles, kinds, strict=True)]
    walks = walks or [(f"{verdict}: the longest walk", campaign.longest)]
    return {
        "model": campaign.about.model,
        "variant": campaign.about.variant or None,
        "configuration": f"{name} beside Kafka {version}",
        "label": f"{name}, Kafka {version}",
        "constants": {one: value_as_json(value) for one, value in campaign.protocol.constant_values().items()},
        "result": verdict.value,
        "runs": campaign.walks,
        "steps": campaign.steps,
        "actions": dict(campaign.taken),
        "details": lines_as_plain_text(line for kind in kinds for line in _finding_paragraph(campaign.protocol, kind))
        if kinds
        else None,
        "traces": [_walk_as_report_data(campaign, title, walk, shows=bool(kinds)) for title, walk in walks if walk],
    }


def _walk_as_report_data(
    campaign: LockstepCampaign, title: str, walk: Sequence[TraceStep], *, shows: bool
) -> dict[str, Any]:
    states = trace_as_json(campaign.protocol, walk)
    end = title if shows else ""
    trace = {"property": None, "why": None, "title": f"{title}, {count_with_noun(len(walk), 'state')}", "end": end}
    return trace | behaviour_as_report_data(campaign.protocol, states, walk)


def lockstep_exit_code(made: Collection[TaskResult]) -> int:
    """Return the exit code: 12 if Kafka violates a property, 2 if a task failed, 1 if Kafka differs, else 0."""
    verdicts = Counter(one.verdict for one in made)
    if verdicts[LockstepVerdict.VIOLATES]:
        return 12
    if any(one.problem is not None for one in made):
        return 2
    return int(any(verdicts[one] for one in LockstepVerdict if one is not LockstepVerdict.AGREES))


class VerdictCell(NamedTuple):
    """The outcome of a walk on one version of Kafka."""

    text: str  # a word or two
    note: str = ""  # the footnote below the table, if any


def verdict_cell(findings: Sequence[LockstepFinding], problem: str = "") -> VerdictCell:
    """Return the cell of walks: the worst verdict, with a footnote on its first finding."""
    order = list(LockstepVerdict)
    worst = max((finding.verdict for finding in findings), key=order.index, default=LockstepVerdict.AGREES)
    note = _verdict_footnote([finding for finding in findings if finding.verdict is worst], worst)
    text = "ends early" if problem and not findings else str(worst)
    return VerdictCell(text, "; ".join(filter(None, (note, problem))))


def _verdict_footnote(found: Sequence[LockstepFinding], verdict: LockstepVerdict) -> str:
    if verdict is LockstepVerdict.VIOLATES:
        return ", ".join(dict.fromkeys(name for finding in found for name in finding.violated))
    if verdict is LockstepVerdict.FAILS:
        thrown, _, place = JAVA_LINE_NUMBER_PATTERN.sub("", found[0].problem).rpartition(" (")
        return f"step {found[0].step}: {truncate_text(thrown, MOST_EXCEPTION_CHARACTERS)} ({place}"
    if verdict is LockstepVerdict.DIFFERS:
        fields = sorted({difference.field for difference in found[0].differences})
        return f"step {found[0].step}: {', '.join(fields)}"
    return ""


def verdicts_by_version_table(rows: Sequence[str], columns: Mapping[str, Sequence[VerdictCell]]) -> Iterator[str]:
    """Yield the Markdown table of walks by version, and its footnotes."""
    notes: dict[str, int] = {}
    body = [
        [row, *(_cell_text_with_footnote_number(cells[number], notes) for cells in columns.values())]
        for number, row in enumerate(rows)
    ]
    yield from _markdown_table([["", *columns], *body])
    if notes:
        yield ""
        yield from (f"{number}. {note}" for note, number in notes.items())


def _markdown_table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in rows]
    yield lines[0]
    yield "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    yield from lines[1:]


def _cell_text_with_footnote_number(shown: VerdictCell, notes: dict[str, int]) -> str:
    """Return a cell's text with the number of its footnote."""
    if not shown.note:
        return shown.text
    number = notes.setdefault(" ".join(shown.note.split()), len(notes) + 1)
    return f"{shown.text} ({number})"


def all_walks_agree_with_model(made: Collection[TaskResult]) -> bool:
    """Whether Kafka did as the model does on all walks, to their end; both may have violated the same property."""
    found = [one.campaign is not None and one.problem is None and not one.interrupted for one in made]
    return all(found) and not any(kind.first.verdict in DISAGREEING_VERDICTS for one in made for kind in one.kinds)


def count_walks_by_finding(made: TaskResult) -> Counter[str]:
    """Return the number of walks of a task by finding: its verdict and summary, without line numbers."""
    found = Counter[str]()
    for kind in made.kinds:
        found[f"{kind.first.verdict}: {JAVA_LINE_NUMBER_PATTERN.sub('', finding_summary_lines(kind.first)[0])}"] += (
            kind.times
        )
    if made.problem is not None:
        found[f"ends early: {made.problem}"] += 1
    return found


def version_change_markdown(found: VersionChanges) -> Iterator[str]:
    """Yield the Markdown tables of findings and classes that changed between two versions."""
    base = "agrees with the model" if found.agreed else "disagrees with the model, as all earlier ones do"
    yield f"Changed in {found.kafka} since {found.since}, which {base}:"
    yield ""
    if found.findings:
        rows = [
            (f"{one.walk}: {truncate_text(one.finding, MOST_EXCEPTION_CHARACTERS)}", str(one.since), str(one.now))
            for one in found.findings
        ]
        yield from _markdown_table([("walks with a finding", found.since, found.kafka), *rows])
    else:
        yield "No walk differs between the two."
    yield ""
    parts = {"new": found.classes.new, "removed": found.classes.removed, "changed": found.classes.changed}
    counted = ", ".join(f"{len(names)} {part}" for part, names in parts.items())
    yield f"Classes of kafka-raft: {counted}, {found.classes.unchanged} unchanged."
    yield from (f"- {part}: {', '.join(f'`{name}`' for name in names)}" for part, names in parts.items() if names)


def code_coverage_markdown(classes: Sequence[ClassCoverage]) -> Iterator[str]:
    """Yield a table of the coverage by class, and a list of the uncovered methods."""
    some = [one for one in classes if one.lines.reached]
    rows = [(f"`{one.name}`", _coverage_share_text(one.lines), _coverage_share_text(one.branches)) for one in some]
    total = [sum(counts, CoverageCount()) for counts in ((one.lines for one in some), (one.branches for one in some))]
    yield from _markdown_table([("class", "lines", "branches"), *rows, ("together", *map(_coverage_share_text, total))])
    yield ""
    yield "Methods without coverage:"
    yield ""
    yield from (f"- `{one.name}`: {_unreached_methods_text(one)}" for one in some if one.unreached)
    none = [one.name for one in classes if one.lines.all and not one.lines.reached]
    if none:
        yield ""
        yield f"Classes without coverage: {', '.join(none)}"


def _unreached_methods_text(found: ClassCoverage) -> str:
    methods = list(dict.fromkeys(found.unreached))
    more = f" and {len(methods) - MOST_LISTED_METHODS} more" if len(methods) > MOST_LISTED_METHODS else ""
    return f"{', '.join(methods[:MOST_LISTED_METHODS])}{more}"


def _coverage_share_text(counted: CoverageCount) -> str:
    if not counted.all:
        return "-"
    return f"{counted.reached:,} of {counted.all:,} ({100 * counted.reached // counted.all} %)"


def edge_cover_lines(cover: EdgeCover) -> Iterator[Line]:
    """Yield the number of labelled steps taken, and the untaken steps by reason."""
    graph = cover.graph
    untaken = list(cover.untaken())
    to = "" if graph.is_whole else f" to depth {graph.depth}"
    whole = f"{len(graph.states):,} states{to}, {graph.size:,} labelled steps"
    yield [(HEAD, "cover: "), (PLAIN, f"{cover.walks:,} walks took {cover.taken:,} of {whole}")]
    for reason in UntakenReason:
        found = [(edge, is_own) for edge, why, is_own in untaken if why is reason]
        if found:
            own = sum(is_own for _, is_own in found)
            yield [(PLAIN, f"  {len(found):>9,}  {reason}"), (FAINT, f"  ({own:,} directly, the others behind them)")]
        for edge, _ in found[:MOST_UNTAKEN_STEPS] if reason in (UntakenReason.MISSING, UntakenReason.LEFT) else ():
            yield [(FAINT, truncate_text(f"             {WalkFileStep.of(edge.label)}", MOST_LINE_CHARACTERS))]


def count_untaken_by_reason(cover: EdgeCover) -> Counter[UntakenReason]:
    """Return the number of untaken labelled steps by reason."""
    return Counter(reason for _, reason, _ in cover.untaken())


def edge_cover_as_json(cover: EdgeCover) -> dict[str, Any]:
    """Return the JSON object of a cover."""
    graph, counted = cover.graph, count_untaken_by_reason(cover)
    return {
        "start": graph.init,
        "states": len(graph.states),
        "depth": graph.depth,
        "whole": graph.is_whole,
        "labelled steps": graph.size,
        "walks": cover.walks,
        "taken": cover.taken,
        "untaken": {reason.value: counted[reason] for reason in UntakenReason},
    }
